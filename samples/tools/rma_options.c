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

#include "tool_accel.h"
#include "tool_text.h"

#define DEFAULT_MAX    ((size_t)16 << 20)
#define MAX_ITERATIONS 1000000u

#define DEFAULT_PORT "47592"
#define MAX_TIMEOUT  86400u

static const char usage_line[] =
	"usage: hmreg-rma [NAME | -d NAME] [--iface KIND[:DEVICE] | --dmabuf]\n"
	"                 [--local-iface KIND[:DEVICE]] [--min SIZE] [--max SIZE] [--iters N]\n"
	"                 [--ops LIST] [--no-desc] [--json] [--quiet] [--no-progress]\n"
	"       hmreg-rma [-d NAME] --server [--bind ADDRESS] [--port P] [--loop]\n"
	"                 [--iface KIND[:DEVICE] | --dmabuf] ...\n"
	"       hmreg-rma [-d NAME] --client HOST [--port P] ...\n"
	"       hmreg-rma list [--json]\n";

static const char help_text[] =
	"\n"
	"Registers memory at two endpoints, moves data between them by write, read and atomic\n"
	"operations, checks every byte, and prints what each size took.  Both ends are in this\n"
	"process, or one is a server in another process or machine, over an RDMA device.\n"
	"\n"
	"  NAME\n"
	"  -d, --device NAME   NIC domain to use, as `hmreg-rma list' names it (default: the "
	"first)\n"
	"      --iface KIND[:DEVICE]\n"
	"                      the target's memory: system (host memory, the default), cuda, "
	"rocr,\n"
	"                      ze, neuron or synapseai; DEVICE as fi_mr_attr.device has it\n"
	"                      (default: the first)\n"
	"      --local-iface KIND[:DEVICE]\n"
	"                      the same for the initiator's memory\n"
	"      --dmabuf        the target's memory is a dma-buf from /dev/udmabuf or "
	"/dev/dma_heap\n"
	"      --min SIZE      smallest transfer in bytes, with suffix K, M or G (default 1)\n"
	"      --max SIZE      largest transfer (default 16M); sizes grow by a factor of 8\n"
	"      --iters N       iterations per size, and back to back no more than that and 3\n"
	"                      (default: chosen by size)\n"
	"      --ops LIST      any of write,read,atomic (default: all that the NIC has)\n"
	"      --no-desc       each row once more without descriptors: what the library's "
	"registration\n"
	"                      cache makes of that\n"
	"      --json          print one JSON object instead of the table; with list, an array\n"
	"  -q, --quiet         print no table: the exit status tells\n"
	"      --no-progress   no progress bar, even on a terminal\n"
	"  -l, --list, list    print the NIC domains that are there, and stop\n"
	"  -h, --help          print this text\n"
	"  -V, --version       print the version of the interface and of the library\n"
	"\n"
	"Two processes, each with an RDMA device:\n"
	"      --server        have the target's memory, serve one client, and stop\n"
	"      --client HOST   run the operations on the server at this host name or address\n"
	"      --port P        port of the server on the RDMA fabric (default " DEFAULT_PORT ")\n"
	"      --bind ADDRESS  server: IPv4 or IPv6 address to have (default: the NIC's first)\n"
	"      --loop          server: serve one client after the other, without end\n"
	"      --timeout S     longest wait for the other end in seconds (default 30; a server\n"
	"                      waits for a client without end unless this is given)\n"
	"\n"
	"Exit status: 0 every byte was right, 1 some byte was wrong, 2 wrong options, 3 no such "
	"NIC\n"
	"or accelerator, 4 a library call failed, or the other end did not answer.\n";

enum {
	OPTION_IFACE = 256,
	OPTION_MIN,
	OPTION_MAX,
	OPTION_ITERS,
	OPTION_OPS,
	OPTION_JSON,
	OPTION_NO_PROGRESS,
	OPTION_DMABUF,
	OPTION_NO_DESC,
	OPTION_LOCAL_IFACE,
	OPTION_SERVER,
	OPTION_CLIENT,
	OPTION_PORT,
	OPTION_BIND,
	OPTION_LOOP,
	OPTION_TIMEOUT
};

static const struct option long_options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "iface", required_argument, NULL, OPTION_IFACE },
	{ "local-iface", required_argument, NULL, OPTION_LOCAL_IFACE },
	{ "min", required_argument, NULL, OPTION_MIN },
	{ "max", required_argument, NULL, OPTION_MAX },
	{ "iters", required_argument, NULL, OPTION_ITERS },
	{ "ops", required_argument, NULL, OPTION_OPS },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "no-progress", no_argument, NULL, OPTION_NO_PROGRESS },
	{ "dmabuf", no_argument, NULL, OPTION_DMABUF },
	{ "no-desc", no_argument, NULL, OPTION_NO_DESC },
	{ "server", no_argument, NULL, OPTION_SERVER },
	{ "client", required_argument, NULL, OPTION_CLIENT },
	{ "port", required_argument, NULL, OPTION_PORT },
	{ "bind", required_argument, NULL, OPTION_BIND },
	{ "loop", no_argument, NULL, OPTION_LOOP },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
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

/* A number from 1 to most. */
static enum rma_parse parse_number(const char *option, const char *text, unsigned int most,
				   unsigned int *number)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || !value || value > most)
		return refuse("%s '%s' is not a number from 1 to %u", option, text, most);
	*number = (unsigned int)value;
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

static enum rma_parse parse_place(const char *option, const char *text, struct sample_place *place)
{
	switch (tool_place_parse(text, place)) {
	case TOOL_PARSE_NO_IFACE:
		return refuse("%s '%s' is no kind of memory; there are " TOOL_IFACE_NAMES, option,
			      text);
	case TOOL_PARSE_NO_DEVICE:
		return refuse("%s '%s': a device is a number behind the colon, and host memory has "
			      "none",
			      option, text);
	default:
		return RMA_PARSE_RUN;
	}
}

static enum rma_parse apply_size(const char *option, const char *text, size_t *size)
{
	if (!parse_size(text, size))
		return refuse("%s '%s' is not a size: a number from 1 up, with suffix K, M or G",
			      option, text);
	return RMA_PARSE_RUN;
}

/* What concerns two processes. */
static enum rma_parse apply_two(int option, struct rma_options *options)
{
	unsigned int number;

	switch (option) {
	case OPTION_SERVER:
		options->server = true;
		return RMA_PARSE_RUN;
	case OPTION_CLIENT:
		options->host = optarg;
		return *optarg ? RMA_PARSE_RUN : refuse("--client needs a host");
	case OPTION_PORT:
		options->port = optarg;
		return parse_number("--port", optarg, 65535, &number);
	case OPTION_BIND:
		options->bind = optarg;
		return *optarg ? RMA_PARSE_RUN : refuse("--bind needs an address");
	case OPTION_LOOP:
		options->loop = true;
		return RMA_PARSE_RUN;
	default:
		return parse_number("--timeout", optarg, MAX_TIMEOUT, &options->timeout_s);
	}
}

/* One option of the command line. */
static enum rma_parse apply(int option, char **argv, struct rma_options *options)
{
	switch (option) {
	case 'd':
		options->device = optarg;
		return *optarg ? RMA_PARSE_RUN : refuse("--device needs a name");
	case OPTION_IFACE:
		return parse_place("--iface", optarg, &options->target);
	case OPTION_LOCAL_IFACE:
		return parse_place("--local-iface", optarg, &options->local);
	case OPTION_MIN:
		return apply_size("--min", optarg, &options->min);
	case OPTION_MAX:
		return apply_size("--max", optarg, &options->max);
	case OPTION_ITERS:
		return parse_number("--iters", optarg, MAX_ITERATIONS, &options->iterations);
	case OPTION_OPS:
		options->ops_given = true;
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
	case OPTION_DMABUF:
		options->dmabuf = true;
		return RMA_PARSE_RUN;
	case OPTION_NO_DESC:
		options->no_desc = true;
		return RMA_PARSE_RUN;
	case OPTION_SERVER:
	case OPTION_CLIENT:
	case OPTION_PORT:
	case OPTION_BIND:
	case OPTION_LOOP:
	case OPTION_TIMEOUT:
		return apply_two(option, options);
	case 'l':
		options->list = true;
		return RMA_PARSE_RUN;
	case 'h':
		printf("%s%s", usage_line, help_text);
		return RMA_PARSE_DONE;
	case 'V':
		tool_print_version("hmreg-rma");
		return RMA_PARSE_DONE;
	case ':':
		return refuse("option '%s' needs a value", argv[optind - 1]);
	default:
		if (optopt && optopt < 256)
			return refuse("there is no option '-%c'", optopt);
		return refuse("'%s' is no option, or not one that takes a value", argv[optind - 1]);
	}
}

static enum rma_parse check_two(const struct rma_options *options)
{
	bool two = options->server || options->host;

	if (options->server && options->host)
		return refuse("--server and --client are for two processes");
	if (!two && (options->port || options->bind || options->loop || options->timeout_s))
		return refuse("--port, --bind, --loop and --timeout go with --server or --client");
	if (!options->server && (options->bind || options->loop))
		return refuse("--bind and --loop go with --server");
	if (options->host && (options->dmabuf || options->target.iface != FI_HMEM_SYSTEM))
		return refuse("--dmabuf and --iface go with --server: the memory is there");
	if (options->server && options->no_desc)
		return refuse("--no-desc goes with --client: the initiator is there");
	if (options->server && options->local.iface != FI_HMEM_SYSTEM)
		return refuse("--local-iface goes with --client: the initiator is there");
	if (two && options->device && !strncmp(options->device, "sw-", 3))
		return refuse("%s is a domain of the software NIC, which works within one process; "
			      "two processes need an RDMA device",
			      options->device);
	return RMA_PARSE_RUN;
}

/* Mistakes that show only when all options are known. */
static enum rma_parse check(const struct rma_options *options)
{
	unsigned long long have = (unsigned long long)sysconf(_SC_PHYS_PAGES) *
				  (unsigned long long)sysconf(_SC_PAGESIZE);
	char text[2][32];

	if (options->min > options->max)
		return refuse("--min %s is larger than --max %s",
			      tool_size_text(options->min, text[0], sizeof(text[0])),
			      tool_size_text(options->max, text[1], sizeof(text[1])));
	if (options->max > have / 4)
		return refuse("%s are more than a quarter of this machine's memory, %llu MiB",
			      tool_size_text(options->max, text[0], sizeof(text[0])), have >> 20);
	if (!options->server && !rma_any_row(options))
		return refuse("no operation fits: atomics need a size that is a multiple of 8");
	if (options->dmabuf && options->target.iface != FI_HMEM_SYSTEM)
		return refuse("--dmabuf is of host memory; --iface %s has its own",
			      tool_iface_name(options->target.iface));
	if (options->json && options->quiet)
		return refuse("--json and --quiet exclude each other");
	return check_two(options);
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
	parse = check(options);
	if (!options->port)
		options->port = DEFAULT_PORT;
	return parse;
}
