/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-rma: registers memory on a NIC, moves data by write, read and atomic operations, checks
 * every byte and prints what each size took.  See hmreg-rma(1).
 */
#define _POSIX_C_SOURCE 200809L

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_hmreg.h>

#include "../common.h"
#include "rma.h"
#include "tool_capture.h"

#define TWO_PROCESS_TIMEOUT_S 30

/* The software NIC's domains live in one process. */
static bool is_software(const struct fi_info *info)
{
	return !strcmp(info->fabric_attr->name, "hmreg-sw");
}

/* The host's name or address means nothing here: why.  NULL: it does. */
static const char *unknown_host(const char *host)
{
	struct addrinfo *list;
	int ret = getaddrinfo(host, NULL, NULL, &list);

	if (ret)
		return gai_strerror(ret);
	freeaddrinfo(list);
	return NULL;
}

/* Why the NIC of info takes no dma-bufs, "" where it does. */
static const char *why_no_dmabufs(const struct fi_info *info)
{
	struct hmreg_device device = { .size = sizeof(device), .dmabuf_reason = "" };
	struct hmreg_fabric_ops *ops;
	struct fid_fabric *fabric;

	if (fi_fabric(info->fabric_attr, &fabric, NULL))
		return "";
	if (!fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL))
		ops->device(&fabric->fid, info, &device);
	fi_close(&fabric->fid);
	return device.can & HMREG_CAN_DMABUF ? "" : device.dmabuf_reason;
}

static bool is_known(const char *domain)
{
	struct tool_capture capture;
	struct fi_info *list;
	char said[256]; /* is told in this tool's words */
	int ret, modes = sample_mr_modes;

	tool_capture_begin(&capture);
	sample_mr_modes = SAMPLE_MR_MODES; /* whatever it demands */
	ret = sample_find_registration(domain, 0, &list);
	sample_mr_modes = modes;
	tool_capture_end(&capture, said, sizeof(said));
	if (!ret)
		fi_freeinfo(list);
	return ret != -FI_ENODATA;
}

/* The end of a line: which domains there are. */
static void print_domains(const struct rma_options *options)
{
	bool two = options->server || options->host;
	const char *separator = "; there are ", *why;
	struct fi_info *list, *info;

	if (sample_find(NULL, 0, &list)) {
		fputs("; none was found at all\n", stderr);
		return;
	}
	for (info = list; info; info = info->next) {
		if (two && is_software(info))
			continue;
		fprintf(stderr, "%s%s", separator, info->domain_attr->name);
		separator = ", ";
		why = rma_caps(options) & FI_HMEM ? why_no_dmabufs(info) : "";
		if (*why)
			fprintf(stderr, " (no dma-bufs: %s)", why);
	}
	fputs("\nhmreg-rma: `hmreg-info' tells of each device what it can do, or why not\n",
	      stderr);
	fi_freeinfo(list);
}

/* Say on stderr which domains there would be. */
static void print_choices(const struct rma_options *options)
{
	bool two = options->server || options->host;
	const char *why = options->host ? unknown_host(options->host) : NULL;

	if (why) {
		fprintf(stderr, "hmreg-rma: host '%s': %s\n", options->host, why);
		return;
	}
	if (options->device && !is_known(options->device)) {
		fprintf(stderr, "hmreg-rma: there is no NIC domain '%s'", options->device);
		print_domains(options);
		return;
	}
	fputs("hmreg-rma: ", stderr);
	if (options->device)
		fprintf(stderr, "no NIC domain '%s' ", options->device);
	else
		fprintf(stderr, "no %s ", two ? "RDMA device" : "NIC domain");
	if (options->host)
		fprintf(stderr, "that reaches %s ", options->host);
	else if (options->bind)
		fprintf(stderr, "with the address %s ", options->bind);
	fputs("offers the operations asked for", stderr);
	if (options->no_desc)
		fputs(" without descriptors (it must not need FI_MR_LOCAL)", stderr);
	if (rma_caps(options) & FI_HMEM)
		fputs(" on dma-bufs or accelerator memory", stderr);
	if (two && !options->device)
		fputs(" (the software NIC works within one process only)", stderr);
	print_domains(options);
}

/* 0 when all that was printed has gone out. */
static int finish_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	perror("hmreg-rma: cannot write the result");
	return -1;
}

static enum rma_exit list_domains(const struct rma_options *options)
{
	struct fi_info *list;
	int ret = sample_find(NULL, 0, &list);

	if (ret == -FI_ENODATA) {
		fputs("hmreg-rma: no NIC was found\n", stderr);
		return RMA_EXIT_NO_NIC;
	}
	if (ret) {
		sample_fail("fi_getinfo", ret);
		return RMA_EXIT_LIBRARY;
	}
	if (options->json)
		rma_report_list_json(stdout, list);
	else
		rma_report_list(stdout, list);
	fi_freeinfo(list);
	return finish_output() ? RMA_EXIT_LIBRARY : RMA_EXIT_OK;
}

/* The list begins with a domain that these options can run on; those before it are let go. */
static int find_once(const struct rma_options *options, struct fi_info **info)
{
	uint64_t flags = options->server ? FI_SOURCE : 0;
	bool two = options->server || options->host;
	struct fi_info *next;
	int ret = sample_find_at(options->device, rma_caps(options),
				 options->server ? options->bind : options->host,
				 two ? options->port : NULL, flags, info);

	while (!ret && two && *info && is_software(*info)) {
		next = (*info)->next;
		(*info)->next = NULL;
		fi_freeinfo(*info);
		*info = next;
	}
	return !ret && !*info ? -FI_ENODATA : ret;
}

/* Atomics that nobody asked for are left out where no NIC has them. */
static int find(struct rma_options *options, struct fi_info **info)
{
	int ret = find_once(options, info);

	if (ret != -FI_ENODATA || options->ops_given)
		return ret;
	options->ops &= ~RMA_OP_ATOMIC;
	ret = find_once(options, info);
	if (ret)
		options->ops |= RMA_OP_ATOMIC;
	return ret;
}

/* Run on the first domain that fits, and print the result. */
static enum rma_exit run_and_report(const struct rma_options *options, const struct fi_info *info)
{
	struct rma_result result;
	enum rma_exit status = rma_run(options, info, &result);

	if (status != RMA_EXIT_OK && status != RMA_EXIT_WRONG_DATA)
		return status;
	if (options->json)
		rma_report_json(stdout, info, &result);
	else if (!options->quiet)
		rma_report_table(stdout, info, &result);
	free(result.rows);
	return finish_output() ? RMA_EXIT_LIBRARY : status;
}

static enum rma_exit find_and_run(struct rma_options *options)
{
	struct tool_capture capture;
	enum rma_exit status;
	char said[256];
	struct fi_info *info;
	int ret;

	tool_capture_begin(&capture);
	ret = find(options, &info);
	if (ret == -FI_ENODATA) /* the reason is looked for below */
		tool_capture_end(&capture, said, sizeof(said));
	else
		tool_capture_tell(&capture);
	if (ret == -FI_ENODATA || ret == -FI_ENODEV || ret == -FI_EACCES) {
		print_choices(options);
		return RMA_EXIT_NO_NIC;
	}
	if (ret) {
		sample_fail("fi_getinfo", ret);
		return RMA_EXIT_LIBRARY;
	}
	status = rma_find_devices(options, info);
	if (status == RMA_EXIT_OK)
		status = options->server ? rma_serve(options, info) : run_and_report(options, info);
	fi_freeinfo(info);
	return status;
}

int main(int argc, char **argv)
{
	struct rma_options options;

	sample_program = "hmreg-rma";
	switch (rma_options_parse(argc, argv, &options)) {
	case RMA_PARSE_DONE:
		return finish_output() ? RMA_EXIT_LIBRARY : RMA_EXIT_OK;
	case RMA_PARSE_WRONG:
		return RMA_EXIT_USAGE;
	case RMA_PARSE_RUN:
		break;
	}
	tool_capture_setup();
	if (options.no_desc) /* who agrees on these has to give descriptors */
		sample_mr_modes &= ~(FI_MR_LOCAL | FI_MR_HMEM);
	if (options.list)
		return list_domains(&options);
	if (options.timeout_s)
		sample_timeout_s = options.timeout_s;
	else if (options.server || options.host)
		sample_timeout_s = TWO_PROCESS_TIMEOUT_S;
	return find_and_run(&options);
}
