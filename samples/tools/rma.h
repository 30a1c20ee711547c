/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-rma: what its source files share.  Flow: options -> run (rows) -> report, or options -> serve.
 *
 *   rma_run.c     rounds: contents before and after, timing, the check of every byte
 *   rma_cache.c   the same without descriptors: what the registration cache does
 *   rma_ops.c     the operations: posting, completion, limits
 *   rma_target.c  the target's side of a run: in this process, or by messages to a server
 *   rma_memory.c  the memory behind it: host memory, a dma-buf or a device's, registered and checked
 *   rma_talk.c    messages between client and server
 *   rma_server.c  the server
 */
#ifndef HMREG_RMA_H
#define HMREG_RMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rdma/fabric.h>

#include "../common.h"

/* Exit status, for scripts. */
enum rma_exit {
	RMA_EXIT_OK = 0,	 /* every byte was right */
	RMA_EXIT_WRONG_DATA = 1, /* some byte or guard word was not */
	RMA_EXIT_USAGE = 2,
	RMA_EXIT_NO_NIC = 3, /* nor accelerator */
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
	bool ops_given;		 /* not the default */
	const char *host;	 /* client: where the server is; NULL: both ends in this process */
	const char *bind;	 /* server: its address, NULL: the NIC's own */
	const char *port;	 /* of the server, in digits */
	unsigned int timeout_s;	 /* longest wait for the peer; 0: not given */
	bool server, loop;	 /* loop: serve one client after the other */
	bool dmabuf;		 /* the target's memory is a dma-buf */
	bool no_desc;		 /* once more, without descriptors */
	struct sample_place target, local; /* where the target's and the initiator's memory is */
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
	struct { /* the same without descriptors; options say whether */
		double first_ns, latency_ns;
		double bytes_per_s;
		uint64_t hits, misses, unkept;
	} no_desc;
};

struct rma_result {
	struct rma_row *rows; /* owned */
	size_t count;
	bool verified;			   /* all of them */
	bool dmabuf;			   /* the target's memory is one */
	struct sample_place target, local; /* where the memory is */
	uint64_t path;			   /* enum hmreg_path of the target's; 0: not told */
	char server[128];		   /* its domain's name, "" where both ends are here */
	bool no_desc;			   /* rows have it */
	char monitor[192];		   /* of the initiator's cache */
};

/*
 * Run everything that options ask for on the domain of info.  After RMA_EXIT_OK or
 * RMA_EXIT_WRONG_DATA the rows are the caller's to free.
 */
enum rma_exit rma_run(const struct rma_options *options, const struct fi_info *info,
		      struct rma_result *result);

/*
 * Find the devices that options name, for the NIC of info.  RMA_EXIT_NO_NIC: a device, its driver, or a
 * way to its memory is not there, as has been printed.
 */
enum rma_exit rma_find_devices(struct rma_options *options, const struct fi_info *info);

/* Could any operation run at any of the sizes? */
bool rma_any_row(const struct rma_options *options);

/* Serve one client, or (loop) one after the other, on the domain of info. */
enum rma_exit rma_serve(const struct rma_options *options, const struct fi_info *info);

/* The capabilities that this run needs. */
uint64_t rma_caps(const struct rma_options *options);

void rma_report_list(FILE *out, const struct fi_info *list);
void rma_report_list_json(FILE *out, const struct fi_info *list);
void rma_report_table(FILE *out, const struct fi_info *info, const struct rma_result *result);
void rma_report_json(FILE *out, const struct fi_info *info, const struct rma_result *result);
/* Redraw the bar on stderr; total 0 wipes it away. */
void rma_report_progress(size_t done, size_t total, size_t size, const char *operation);

#endif
