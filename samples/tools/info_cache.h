/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-info --cache: the figures that another process keeps of its registration caches.
 *
 *   info_cache.c         what the bytes of such a file mean; trusts none of them
 *   info_cache_read.c    which file, and whether it is to be believed
 *   info_cache_report.c  the table, and JSON
 */
#ifndef HMREG_INFO_CACHE_H
#define HMREG_INFO_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <sys/types.h>

#include <rdma/fi_ext_hmreg.h>

#define INFO_CACHE_MOST_BYTES ((size_t)4 << 20) /* of a file that is looked at */

struct info_cache {
	uint64_t pid, started, updated, hidden;
	char monitor[192];	     /* printable, like all text below */
	struct hmreg_cache_row *row; /* owned; those in use, state 0 where it was being changed */
	size_t count;
	bool ended; /* the process is no more */
};

/*
 * What a file holds.  Every byte may be anything, and size as well.  0, or -1 and why not, for people; out
 * is to be freed after 0 alone.
 */
int info_cache_parse(const void *data, size_t size, struct info_cache *out, char *why, size_t room);
/* Of the rows, keep those that a later look at the file shows to be of the same cache. */
void info_cache_confirm(struct info_cache *cache, const struct info_cache *later);
void info_cache_free(struct info_cache *cache);

/*
 * The figures of a process; folder NULL: where HMREG_CACHE_STATS says, of this tool or else of the process.
 * 0, or -1 after a message.
 */
int info_cache_read(pid_t pid, const char *folder, struct info_cache *out);

void info_cache_report(FILE *out, const struct info_cache *cache);
void info_cache_report_json(FILE *out, const struct info_cache *cache);

#endif
