/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: what its source files share.  Flow: options -> run (rows) -> report. */
#ifndef HMREG_RMA_H
#define HMREG_RMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rdma/fabric.h>

/* Exit status, for scripts. */
enum rma_exit {
	RMA_EXIT_OK = 0,	 /* every byte was right */
	RMA_EXIT_WRONG_DATA = 1, /* some byte or guard word was not */
	RMA_EXIT_USAGE = 2,
	RMA_EXIT_NO_NIC = 3,
	RMA_EXIT_LIBRARY = 4 /* a call failed; it was named on stderr */
};

#define RMA_OP_WRITE  1u
#define RMA_OP_READ   2u
#define RMA_OP_ATOMIC 4u
#define RMA_OP_ALL    (RMA_OP_WRITE | RMA_OP_READ | RMA_OP_ATOMIC)

struct rma_options {
	const char *device;	 /* domain name, NULL: the first that is found */
	size_t min, max;	 /* bytes */
	unsigned int iterations; /* 0: chosen by size */
	unsigned int ops;	 /* RMA_OP_... */
	bool list, json, quiet, progress;
};

enum rma_parse {
	RMA_PARSE_RUN,
	RMA_PARSE_DONE,
	RMA_PARSE_WRONG
};

/* RMA_PARSE_DONE: help or version was printed.  RMA_PARSE_WRONG: the reason and usage were. */
enum rma_parse rma_options_parse(int argc, char **argv, struct rma_options *options);

/* One line of the table: one kind of operation at one size.  Times are medians. */
struct rma_row {
	size_t size;
	const char *operation; /* constant string */
	double register_ns, close_ns;
	double latency_ns;
	double bytes_per_s;
	unsigned int iterations;
	bool verified;
};

struct rma_result {
	struct rma_row *rows; /* owned */
	size_t count;
	bool verified; /* all of them */
};

/*
 * Run everything that options ask for on the domain of info.  After RMA_EXIT_OK or
 * RMA_EXIT_WRONG_DATA the rows are the caller's to free.
 */
enum rma_exit rma_run(const struct rma_options *options, const struct fi_info *info,
		      struct rma_result *result);

/* Lines that the table will have; 0: no operation fits any of the sizes. */
size_t rma_count_rows(const struct rma_options *options);

/* The capabilities that these RMA_OP_ bits need. */
uint64_t rma_caps(unsigned int ops);

void rma_report_list(FILE *out, const struct fi_info *list);
void rma_report_list_json(FILE *out, const struct fi_info *list);
void rma_report_table(FILE *out, const struct fi_info *info, const struct rma_result *result);
void rma_report_json(FILE *out, const struct fi_info *info, const struct rma_result *result);
/* Redraw the bar on stderr; total 0 wipes it away. */
void rma_report_progress(size_t done, size_t total, size_t size, const char *operation);
/* "4 KiB": bytes in the largest binary unit that they are a multiple of. */
const char *rma_size_text(size_t size, char *text, size_t room);

#endif
