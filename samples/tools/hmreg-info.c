/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info: what each NIC port is, what it can do and what it needs.  See hmreg-info(1). */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../common.h"
#include "info.h"
#include "info_cache.h"
#include "info_hmem.h"
#include "info_topology.h"
#include "tool_text.h"

static const char usage_line[] =
	"usage: hmreg-info [NAME | -d NAME] [-v] [--hmem | --check] [--json]\n"
	"       hmreg-info --topology [NAME | -d NAME] [--json | --svg]\n"
	"       hmreg-info --params [--json]\n"
	"       hmreg-info --cache PID [--stats-dir FOLDER] [--json]\n";

static const char help_text[] =
	"\n"
	"Lists the NIC ports that the library offers, and what each can do and needs.\n"
	"\n"
	"  NAME\n"
	"  -d, --device NAME   only this NIC domain; if it cannot be used, say why\n"
	"  -v, --verbose       every attribute, too\n"
	"      --hmem          accelerators, too: load the driver of each kind, list the devices, "
	"and\n"
	"                      tell how each NIC reaches the memory of each; without this option "
	"or\n"
	"                      --check no such driver is loaded\n"
	"      --check         the same, and try it: allocate, register and transfer a page of "
	"host\n"
	"                      memory and of each device by each NIC that should reach it\n"
	"      --topology      where accelerators and NICs are in the machine, what lies between "
	"them,\n"
	"                      and which NIC is taken first for each accelerator\n"
	"      --svg           print that as a picture\n"
	"      --json          print one JSON object\n"
	"      --params        print the environment variables that the library reads, with\n"
	"                      their present values, and stop\n"
	"      --cache PID     print what the registration caches of a process do, which was "
	"started\n"
	"                      with HMREG_CACHE_STATS=FOLDER, and stop\n"
	"      --stats-dir FOLDER\n"
	"                      where that process keeps its figures (default: as "
	"HMREG_CACHE_STATS\n"
	"                      says here, or in that process)\n"
	"  -h, --help          print this text\n"
	"  -V, --version       print the version of the interface and of the library\n"
	"\n"
	"Exit status: 0 something was shown, 1 there is no such NIC or none can be used, or no\n"
	"such process keeps figures, 2 wrong options, 3 a transfer of --check failed, 4 a library\n"
	"call failed.\n";

enum {
	OPTION_JSON = 256,
	OPTION_TOPOLOGY,
	OPTION_SVG,
	OPTION_HMEM,
	OPTION_CHECK,
	OPTION_PARAMS,
	OPTION_CACHE,
	OPTION_STATS_DIR
};

static const struct option long_options[] = {
	{ "device", required_argument, NULL, 'd' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "hmem", no_argument, NULL, OPTION_HMEM },
	{ "check", no_argument, NULL, OPTION_CHECK },
	{ "topology", no_argument, NULL, OPTION_TOPOLOGY },
	{ "svg", no_argument, NULL, OPTION_SVG },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "params", no_argument, NULL, OPTION_PARAMS },
	{ "cache", required_argument, NULL, OPTION_CACHE },
	{ "stats-dir", required_argument, NULL, OPTION_STATS_DIR },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct options {
	const char *device;
	bool verbose, json, params, help, version;
	bool topology, svg;
	bool hmem, check; /* check: hmem is set, too */
	pid_t cache;	  /* 0: not asked for */
	const char *stats_dir;
};

static int refuse(const char *what, const char *word)
{
	fprintf(stderr, "hmreg-info: %s '%s'\n%s`hmreg-info --help' explains each option.\n", what,
		word, usage_line);
	return -1;
}

static int parse_pid(const char *text, pid_t *pid)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || !value || value > INT_MAX)
		return refuse("--cache needs the number of a process, not", text);
	*pid = (pid_t)value;
	return 0;
}

/* What goes together. */
static int check(const struct options *options)
{
	if (options->device && !*options->device)
		return refuse("a NIC domain needs a name, not", "");
	if (options->stats_dir && !options->cache)
		return refuse("--stats-dir goes with --cache, not alone:", options->stats_dir);
	if (options->svg && (!options->topology || options->json))
		return refuse("a picture is of --topology, without --json:", "--svg");
	if (options->topology && (options->hmem || options->params || options->verbose))
		return refuse("of other options a NIC domain, --json and --svg alone go with",
			      "--topology");
	if (options->cache &&
	    (options->device || options->hmem || options->params || options->topology))
		return refuse("of other options --json alone goes with", "--cache");
	return 0;
}

/* 0, or -1 after a message. */
static int parse(int argc, char **argv, struct options *options)
{
	int option;

	memset(options, 0, sizeof(*options));
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":d:vhV", long_options, NULL)) != -1) {
		switch (option) {
		case 'd':
			options->device = optarg;
			break;
		case 'v':
			options->verbose = true;
			break;
		case OPTION_HMEM:
			options->hmem = true;
			break;
		case OPTION_CHECK:
			options->hmem = options->check = true;
			break;
		case OPTION_TOPOLOGY:
			options->topology = true;
			break;
		case OPTION_SVG:
			options->svg = true;
			break;
		case OPTION_JSON:
			options->json = true;
			break;
		case OPTION_PARAMS:
			options->params = true;
			break;
		case OPTION_CACHE:
			if (parse_pid(optarg, &options->cache))
				return -1;
			break;
		case OPTION_STATS_DIR:
			options->stats_dir = optarg;
			break;
		case 'h':
			options->help = true;
			break;
		case 'V':
			options->version = true;
			break;
		case ':':
			return refuse("a value is missing after", argv[optind - 1]);
		default:
			return refuse("there is no such option:", argv[optind - 1]);
		}
	}
	if (optind < argc && !options->device)
		options->device = argv[optind++];
	if (optind < argc)
		return refuse("one NIC domain at a time; too much is", argv[optind]);
	return check(options);
}

/* Nothing was found: why. */
static void tell_missing(const struct options *options, const struct info_ports *ports)
{
	size_t i;

	if (!options->device)
		fputs("hmreg-info: no NIC can be used\n", stderr);
	for (i = 0; options->device && i < ports->unusable_count; i++)
		fprintf(stderr, "hmreg-info: %s cannot be used: %s\n", ports->unusable[i].name,
			ports->unusable[i].reason);
}

static void report(const struct options *options, const struct info_ports *ports,
		   const struct info_hmem *hmem)
{
	if (options->json) {
		info_report_json(stdout, ports, options->verbose, hmem);
		return;
	}
	if (ports->count || !options->device)
		info_report(stdout, ports, options->verbose);
	if (hmem)
		info_hmem_report(stdout, hmem);
	else if (ports->all)
		fputs("\nAccelerators were not looked for: --hmem loads their drivers and lists "
		      "them.\n",
		      stdout);
}

/* What was asked for beyond the ports. */
static enum info_exit ask_hmem(const struct options *options, const struct info_ports *ports,
			       struct info_hmem *hmem)
{
	if (info_hmem_find(ports, hmem))
		return INFO_EXIT_LIBRARY;
	if (options->check && !info_hmem_check(hmem))
		return INFO_EXIT_CHECK;
	return INFO_EXIT_OK;
}

static enum info_exit show(const struct options *options)
{
	struct info_hmem hmem = { .device_count = 0 };
	struct info_ports ports;
	enum info_exit status = INFO_EXIT_LIBRARY;
	bool ask;

	if (!info_ports_find(options->device, &ports)) {
		ask = options->hmem && ports.count; /* it is NICs that are asked */
		status = ports.count ? INFO_EXIT_OK : INFO_EXIT_NO_NIC;
		if (ask)
			status = ask_hmem(options, &ports, &hmem);
		if (status != INFO_EXIT_LIBRARY)
			report(options, &ports, ask ? &hmem : NULL);
		if (status == INFO_EXIT_NO_NIC)
			tell_missing(options, &ports);
	}
	info_hmem_free(&hmem);
	info_ports_free(&ports);
	return status;
}

static enum info_exit show_topology(const struct options *options)
{
	struct info_topology topology = { .table = NULL };
	struct info_ports ports;
	enum info_exit status = INFO_EXIT_LIBRARY;

	if (info_ports_find(options->device, &ports)) {
		; /* it was said */
	} else if (!ports.count) {
		tell_missing(options, &ports);
		status = INFO_EXIT_NO_NIC;
	} else if (!info_topology_find(&ports, &topology)) {
		status = INFO_EXIT_OK;
		if (options->json)
			info_topology_json(stdout, topology.table);
		else if (!options->svg)
			info_topology_text(stdout, topology.table);
		else if (info_topology_svg(stdout, topology.table))
			status = INFO_EXIT_LIBRARY;
	}
	info_topology_free(&topology);
	info_ports_free(&ports);
	return status;
}

/* Figures of a process that has ended are shown, but are not what was asked for. */
static enum info_exit show_cache(const struct options *options)
{
	struct info_cache cache;
	enum info_exit status;

	if (info_cache_read(options->cache, options->stats_dir, &cache))
		return INFO_EXIT_NO_NIC;
	if (options->json)
		info_cache_report_json(stdout, &cache);
	else
		info_cache_report(stdout, &cache);
	if (cache.ended)
		fprintf(stderr, "hmreg-info: process %d has ended without removing its file\n",
			(int)options->cache);
	status = cache.ended ? INFO_EXIT_NO_NIC : INFO_EXIT_OK;
	info_cache_free(&cache);
	return status;
}

int main(int argc, char **argv)
{
	enum info_exit status = INFO_EXIT_OK;
	struct options options;

	sample_program = "hmreg-info";
	if (parse(argc, argv, &options))
		return INFO_EXIT_USAGE;
	if (options.help)
		printf("%s%s", usage_line, help_text);
	else if (options.version)
		tool_print_version("hmreg-info");
	else if (options.params)
		status = info_report_params(stdout, options.json) ? INFO_EXIT_LIBRARY : status;
	else if (options.cache)
		status = show_cache(&options);
	else
		status = options.topology ? show_topology(&options) : show(&options);
	if (fflush(stdout) || ferror(stdout)) {
		perror("hmreg-info: cannot write the result");
		return INFO_EXIT_LIBRARY;
	}
	return status;
}
