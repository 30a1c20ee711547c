/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-rma: registers memory on a NIC, moves data by write, read and atomic operations, checks
 * every byte and prints what each size took.  See hmreg-rma(1).
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>

#include "../common.h"
#include "rma.h"

/* Say on stderr which domains there would be. */
static void print_choices(const char *wanted)
{
	const char *separator = "";
	struct fi_info *list, *info;

	if (wanted)
		fprintf(stderr, "hmreg-rma: no NIC domain '%s' with the operations asked for",
			wanted);
	else
		fputs("hmreg-rma: no NIC offers the operations asked for", stderr);
	if (sample_find(NULL, 0, &list)) {
		fputs("; none was found at all\n", stderr);
		return;
	}
	fputs("; there is: ", stderr);
	for (info = list; info; info = info->next) {
		fprintf(stderr, "%s%s", separator, info->domain_attr->name);
		separator = ", ";
	}
	fputc('\n', stderr);
	fi_freeinfo(list);
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

/* Run on the first domain that fits, and print the result. */
static enum rma_exit run_and_report(const struct rma_options *options)
{
	struct rma_result result;
	struct fi_info *info;
	enum rma_exit status;
	int ret;

	ret = sample_find(options->device, rma_caps(options->ops), &info);
	if (ret == -FI_ENODATA) {
		print_choices(options->device);
		return RMA_EXIT_NO_NIC;
	}
	if (ret) {
		sample_fail("fi_getinfo", ret);
		return RMA_EXIT_LIBRARY;
	}
	status = rma_run(options, info, &result);
	if (status == RMA_EXIT_OK || status == RMA_EXIT_WRONG_DATA) {
		if (options->json)
			rma_report_json(stdout, info, &result);
		else if (!options->quiet)
			rma_report_table(stdout, info, &result);
		free(result.rows);
		if (finish_output())
			status = RMA_EXIT_LIBRARY;
	}
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
	if (options.list)
		return list_domains(&options);
	return run_and_report(&options);
}
