/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-check: why memory does not register with a NIC, and what to do. */
#define _POSIX_C_SOURCE 200809L

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tool_text.h"

#define DEFAULT_SIZE ((size_t)1 << 20)
#define SIZE_LIMIT   ((uint64_t)1 << 47) /* of what a process can address */

static const char usage_line[] = "usage: hmreg-check [--nic NAME] [--iface INTERFACE] [--device N] "
				 "[--size BYTES] [--json] [KIND]\n"
				 "       hmreg-check --list [--json]\n";

static const char help_text[] =
	"\n"
	"Walks the way of memory to a NIC: driver, device, memory, NIC, export, import, "
	"registration,\n"
	"transfer.  Stops at the first failure, and prints cause, evidence and remedy.\n"
	"\n"
	"  -d, --nic NAME      the NIC, as hmreg-info lists it; default: the first RDMA device\n"
	"      --iface NAME    " TOOL_IFACE_NAMES "; default: system\n"
	"      --device N      the interface's device; default: its first\n"
	"      --size BYTES    of the region, with K, M, G or T behind it; default: 1M\n"
	"      --json          print one JSON object\n"
	"      --list          print every cause with its exit status and remedy, and stop\n"
	"  -h, --help          print this\n"
	"  -V, --version       print the versions of interface and library\n"
	"\n"
	"KIND is what the memory is, of that interface:\n";

enum {
	OPTION_IFACE = 256,
	OPTION_DEVICE,
	OPTION_SIZE,
	OPTION_JSON,
	OPTION_LIST
};

static const struct option long_options[] = {
	{ "nic", required_argument, NULL, 'd' },
	{ "iface", required_argument, NULL, OPTION_IFACE },
	{ "device", required_argument, NULL, OPTION_DEVICE },
	{ "size", required_argument, NULL, OPTION_SIZE },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "list", no_argument, NULL, OPTION_LIST },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* The words of the command line, as they are. */
struct words {
	const char *nic, *iface, *device, *size, *kind;
	bool json, list, help, version;
};

/* ---- the command line ---- */

/* 0, or -1 with a cause. */
static int read_words(struct check *check, int argc, char **argv, struct words *words)
{
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":d:hV", long_options, NULL)) != -1) {
		switch (option) {
		case 'd':
			words->nic = optarg;
			break;
		case OPTION_IFACE:
			words->iface = optarg;
			break;
		case OPTION_DEVICE:
			words->device = optarg;
			break;
		case OPTION_SIZE:
			words->size = optarg;
			break;
		case OPTION_JSON:
			words->json = true;
			break;
		case OPTION_LIST:
			words->list = true;
			break;
		case 'h':
			words->help = true;
			break;
		case 'V':
			words->version = true;
			break;
		default:
			return check_found(check, "usage", "%s '%s'",
					   option == ':' ? "a value is missing after"
							 : "there is no such option:",
					   argv[optind - 1]);
		}
	}
	if (optind < argc)
		words->kind = argv[optind++];
	return optind < argc ? check_found(check, "usage", "one kind at a time; too much is '%s'",
					   argv[optind])
			     : 0;
}

static int parse_size(struct check *check, const char *text)
{
	static const char units[] = "KMGT";
	unsigned long long value;
	const char *unit = "";
	char *end;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (*end && (unit = strchr(units, *end)) != NULL && !end[1])
		end++;
	if (!isdigit((unsigned char)*text) || *end || errno || !value || !unit ||
	    value > (*unit ? SIZE_LIMIT >> (10 * (unit - units + 1)) : SIZE_LIMIT))
		return check_found(check, "bad-size", "'%s'", text);
	check->options.size = (size_t)(*unit ? value << (10 * (unit - units + 1)) : value);
	return 0;
}

static int parse_place(struct check *check, const struct words *words)
{
	struct sample_place *place = &check->options.place;
	long number;
	char *end;

	if (words->iface &&
	    (strchr(words->iface, ':') || tool_place_parse(words->iface, place) != TOOL_PARSE_OK))
		return check_found(check, "bad-interface", "'%s'", words->iface);
	if (!words->device)
		return 0;
	errno = 0;
	number = strtol(words->device, &end, 0);
	if (!isdigit((unsigned char)*words->device) || *end || errno || number > INT_MAX)
		return check_found(check, "bad-device", "'%s'", words->device);
	if (place->iface == FI_HMEM_SYSTEM)
		return check_found(check, "kind-elsewhere",
				   "--device %s goes with --iface of an accelerator",
				   words->device);
	place->device = (int)number;
	return 0;
}

static int parse_kind(struct check *check, const char *word)
{
	bool host = check->options.place.iface == FI_HMEM_SYSTEM;
	enum check_kind kind = host ? CHECK_KIND_HOST : CHECK_KIND_DEVICE;

	if (word)
		for (kind = 0; kind < CHECK_KINDS && strcmp(word, check_kind_name(kind)); kind++)
			;
	if (kind == CHECK_KINDS)
		return check_found(check, "bad-kind", "'%s'", word);
	check->options.kind = kind;
	if (check_kind_of_device(kind) == host)
		return check_found(check, "kind-elsewhere", "'%s' %s", word,
				   host ? "needs --iface of an accelerator"
					: "is the host's: leave --iface out");
	return 0;
}

static int parse(struct check *check, const struct words *words)
{
	int ret = 0;

	check->options.nic = words->nic;
	check->options.size = DEFAULT_SIZE;
	if (words->nic && !*words->nic)
		ret = check_found(check, "usage", "a NIC needs a name, not ''");
	if (!ret)
		ret = parse_place(check, words);
	if (!ret && words->size)
		ret = parse_size(check, words->size);
	return ret ? ret : parse_kind(check, words->kind);
}

static void print_help(void)
{
	enum check_kind kind;

	printf("%s%s", usage_line, help_text);
	for (kind = 0; kind < CHECK_KINDS; kind++)
		printf("  %-16s%s\n", check_kind_name(kind), check_kind_text(kind));
	fputs("\nThe exit status is the cause's: 0 all works, 2 the command line; --list has "
	      "all.\n",
	      stdout);
}

/* What is wrong may stand before it. */
static bool asks_json(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			return true;
	return false;
}

/* A command line that cannot be used: as the user asked for it, as far as that was read. */
static int refuse(struct check *check, bool json)
{
	if (json) {
		check_report_json(stdout, check);
	} else {
		fprintf(stderr, "hmreg-check: %s: %s\n%s  %s\n", check->cause->cause, check->said,
			usage_line, check->cause->remedy);
		fprintf(stderr, "cause: %s (exit status %d)\n", check->cause->id,
			check->cause->status);
	}
	return check->cause->status;
}

int main(int argc, char **argv)
{
	struct check check = { .at = CHECK_STAGE_OPTIONS };
	struct words words = { .nic = NULL };
	int status = 0, ret = read_words(&check, argc, argv, &words);

	sample_program = "hmreg-check";
	if (ret)
		words.json = asks_json(argc, argv);
	if (!ret && words.help) {
		print_help();
	} else if (!ret && words.version) {
		tool_print_version("hmreg-check");
	} else if (!ret && words.list) {
		check_list(stdout, words.json);
	} else if (ret || parse(&check, &words)) {
		status = refuse(&check, words.json);
	} else {
		status = check_walk(&check);
		if (words.json)
			check_report_json(stdout, &check);
		else
			check_report(stdout, &check);
	}
	if (fflush(stdout) || ferror(stdout)) {
		perror("hmreg-check: cannot write the result");
		return 1;
	}
	return status;
}
