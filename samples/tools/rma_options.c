/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: the command line. */
#define _POSIX_C_SOURCE 200809L

#include "rma.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common.h"

#define DEFAULT_MAX    ((size_t)16 << 20)
#define MAX_ITERATIONS 1000000u

static const char usage_line[] =
	"usage: hmreg-rma [NAME | -d NAME] [--iface system] [--min SIZE] [--max SIZE] [--iters N]\n"
	"                 [--ops LIST] [--json] [--quiet] [--no-progress]\n"
	"       hmreg-rma list [--json]\n";

static const char help_text[] =
	"\n"
	"Registers memory at two endpoints of one NIC, moves data between them by write, read and\n"
	"atomic operations, checks every byte, and prints what each size took.\n"
	"\n"
	"  NAME\n"
	"  -d, --device NAME   NIC domain to use, as `hmreg-rma list' names it (default: the "
	"first)\n"
	"      --iface NAME    kind of memory; system (host memory) is the one that there is now\n"
	"      --min SIZE      smallest transfer in bytes, with suffix K, M or G (default 1)\n"
	"      --max SIZE      largest transfer (default 16M); sizes grow by a factor of 8\n"
	"      --iters N       latency iterations per size (default: chosen by size)\n"
	"      --ops LIST      any of write,read,atomic (default all three)\n"
	"      --json          print one JSON object instead of the table; with list, an array\n"
	"  -q, --quiet         print no table: the exit status tells\n"
	"      --no-progress   no progress bar, even on a terminal\n"
	"  -l, --list, list    print the NIC domains that are there, and stop\n"
	"  -h, --help          print this text\n"
	"  -V, --version       print the version of the interface and of the library\n"
	"\n"
	"Exit status: 0 every byte was right, 1 some byte was wrong, 2 wrong options, 3 no such "
	"NIC,\n"
	"4 a library call failed.\n";

enum {
	OPTION_IFACE = 256,
	OPTION_MIN,
	OPTION_MAX,
	OPTION_ITERS,
	OPTION_OPS,
	OPTION_JSON,
	OPTION_NO_PROGRESS
};

static const struct option long_options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "iface", required_argument, NULL, OPTION_IFACE },
	{ "min", required_argument, NULL, OPTION_MIN },
	{ "max", required_argument, NULL, OPTION_MAX },
	{ "iters", required_argument, NULL, OPTION_ITERS },
	{ "ops", required_argument, NULL, OPTION_OPS },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "no-progress", no_argument, NULL, OPTION_NO_PROGRESS },
	{ "list", no_argument, NULL, 'l' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

/* Print why the command line is refused, and how it should look. */
__attribute__((format(printf, 1, 2))) static enum rma_parse refuse(const char *format, ...)
{
	va_list args;

	fputs("hmreg-rma: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n%s`hmreg-rma --help' explains each option.\n", usage_line);
	return RMA_PARSE_WRONG;
}

/* A positive number of bytes with an optional K, M or G (also KiB, MiB, GiB). */
static bool parse_size(const char *text, size_t *size)
{
	static const char units[] = "KMG";
	unsigned long long value;
	unsigned int shift = 0;
	const char *unit;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || !value)
		return false;
	if (*end) {
		unit = strchr(units, toupper((unsigned char)*end));
		if (!unit)
			return false;
		shift = 10 * (unsigned int)(unit - units + 1);
		end++;
		if (!strcmp(end, "iB"))
			end += 2;
	}
	if (*end || value > (unsigned long long)(SIZE_MAX / 4) >> shift)
		return false;
	*size = (size_t)value << shift;
	return true;
}

static enum rma_parse parse_iterations(const char *text, unsigned int *iterations)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || !value || value > MAX_ITERATIONS)
		return refuse("--iters '%s' is not a number from 1 to %u", text, MAX_ITERATIONS);
	*iterations = (unsigned int)value;
	return RMA_PARSE_RUN;
}

static enum rma_parse parse_ops(const char *text, unsigned int *ops)
{
	static const struct {
		const char *name;
		unsigned int bit;
	} names[] = {
		{ "write", RMA_OP_WRITE },
		{ "read", RMA_OP_READ },
		{ "atomic", RMA_OP_ATOMIC },
		{ "all", RMA_OP_ALL },
	};
	size_t len, i;

	for (*ops = 0;; text += len + 1) {
		len = strcspn(text, ",");
		for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (strlen(names[i].name) == len && !strncmp(names[i].name, text, len))
				break;
		}
		if (i == sizeof(names) / sizeof(names[0]))
			return refuse("--ops '%.*s' is not one of write, read, atomic", (int)len,
				      text);
		*ops |= names[i].bit;
		if (!text[len])
			return RMA_PARSE_RUN;
	}
}

static enum rma_parse parse_iface(const char *name)
{
	static const char *const devices[] = { "cuda", "rocr", "ze", "neuron", "synapseai" };
	size_t i;

	if (!strcmp(name, "system"))
		return RMA_PARSE_RUN;
	for (i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		if (!strcmp(name, devices[i]))
			return refuse("--iface %s: the library offers no device memory now, host "
				      "memory only (--iface system)",
				      name);
	}
	return refuse("--iface '%s' is no kind of memory; the one on offer is system", name);
}

static enum rma_parse apply_size(const char *option, const char *text, size_t *size)
{
	if (!parse_size(text, size))
		return refuse("%s '%s' is not a size: a number from 1 up, with suffix K, M or G",
			      option, text);
	return RMA_PARSE_RUN;
}

/* The library's own version stands in the entry of its provider, which needs no NIC. */
static enum rma_parse print_version(void)
{
	uint32_t interface = fi_version(), library;
	struct fi_info *info;
	int ret;

	printf("hmreg-rma: libfabric interface %u.%u", FI_MAJOR(interface), FI_MINOR(interface));
	ret = fi_getinfo(SAMPLE_API_VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &info);
	if (ret) {
		printf(", library version unknown (fi_getinfo: %s)\n", fi_strerror(-ret));
		return RMA_PARSE_DONE;
	}
	library = info->fabric_attr->prov_version;
	printf(", library %s %u.%u\n", info->fabric_attr->prov_name, FI_MAJOR(library),
	       FI_MINOR(library));
	fi_freeinfo(info);
	return RMA_PARSE_DONE;
}

/* One option of the command line. */
static enum rma_parse apply(int option, char **argv, struct rma_options *options)
{
	switch (option) {
	case 'd':
		options->device = optarg;
		return *optarg ? RMA_PARSE_RUN : refuse("--device needs a name");
	case OPTION_IFACE:
		return parse_iface(optarg);
	case OPTION_MIN:
		return apply_size("--min", optarg, &options->min);
	case OPTION_MAX:
		return apply_size("--max", optarg, &options->max);
	case OPTION_ITERS:
		return parse_iterations(optarg, &options->iterations);
	case OPTION_OPS:
		return parse_ops(optarg, &options->ops);
	case OPTION_JSON:
		options->json = true;
		return RMA_PARSE_RUN;
	case 'q':
		options->quiet = true;
		return RMA_PARSE_RUN;
	case OPTION_NO_PROGRESS:
		options->progress = false;
		return RMA_PARSE_RUN;
	case 'l':
		options->list = true;
		return RMA_PARSE_RUN;
	case 'h':
		printf("%s%s", usage_line, help_text);
		return RMA_PARSE_DONE;
	case 'V':
		return print_version();
	case ':':
		return refuse("option '%s' needs a value", argv[optind - 1]);
	default:
		if (optopt && optopt < 256)
			return refuse("there is no option '-%c'", optopt);
		return refuse("'%s' is no option, or not one that takes a value", argv[optind - 1]);
	}
}

/* Mistakes that show only when all options are known. */
static enum rma_parse check(const struct rma_options *options)
{
	unsigned long long have = (unsigned long long)sysconf(_SC_PHYS_PAGES) *
				  (unsigned long long)sysconf(_SC_PAGESIZE);
	char text[2][32];

	if (options->min > options->max)
		return refuse("--min %s is larger than --max %s",
			      rma_size_text(options->min, text[0], sizeof(text[0])),
			      rma_size_text(options->max, text[1], sizeof(text[1])));
	if (options->max > have / 4)
		return refuse("%s are more than a quarter of this machine's memory, %llu MiB",
			      rma_size_text(options->max, text[0], sizeof(text[0])), have >> 20);
	if (!rma_count_rows(options))
		return refuse("no operation fits: atomics need a size that is a multiple of 8");
	if (options->json && options->quiet)
		return refuse("--json and --quiet exclude each other");
	return RMA_PARSE_RUN;
}

/* A word that is no option: the domain's name, or "list". */
static enum rma_parse apply_word(const char *word, struct rma_options *options)
{
	if (!strcmp(word, "list"))
		options->list = true;
	else if (options->device)
		return refuse("'%s': there is a NIC domain already, '%s'", word, options->device);
	else if (!*word)
		return refuse("the NIC domain needs a name");
	else
		options->device = word;
	return RMA_PARSE_RUN;
}

enum rma_parse rma_options_parse(int argc, char **argv, struct rma_options *options)
{
	enum rma_parse parse;
	int option;

	*options = (struct rma_options){
		.ops = RMA_OP_ALL,
		.progress = isatty(STDERR_FILENO) == 1,
	};
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":d:qlhV", long_options, NULL)) != -1) {
		parse = apply(option, argv, options);
		if (parse != RMA_PARSE_RUN)
			return parse;
	}
	for (; optind < argc; optind++) {
		parse = apply_word(argv[optind], options);
		if (parse != RMA_PARSE_RUN)
			return parse;
	}
	/* A default gives way to the end of the range that was given. */
	if (!options->max)
		options->max = options->min > DEFAULT_MAX ? options->min : DEFAULT_MAX;
	if (!options->min)
		options->min = 1;
	return check(options);
}
