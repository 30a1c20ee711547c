/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Figures of registration caches: for programs by hmreg_domain_ops, and where HMREG_CACHE_STATS names a
 * folder, in a file there (fi_ext_hmreg.h has its layout).
 *
 *   stats.c       which caches there are, their figures, the thread that brings the file up to date
 *   stats_file.c  the file: made, written, removed
 *
 * The caches count in their own memory, and nothing here is called by a hit or a miss: the thread looks
 * ten times a second.  Without the variable there is no thread and no file.
 */
#ifndef HM_MR_STATS_H
#define HM_MR_STATS_H

#include <rdma/fi_ext_hmreg.h>

#include "core/mr/cache.h"

/* A cache whose figures can be asked for; in its owner, which keeps it in place. */
struct hm_cache_shown {
	struct hm_cache *cache;
	const char *domain; /* constant */
	uint64_t since;	    /* seconds since 1970 */
	uint64_t state;	    /* of its row in the file; 0: it has none */
	uint32_t row;
	struct hm_cache_shown *next;
};

/* After the cache was made.  A file that cannot be had is no failure: one log line for the process. */
void hm_cache_show(struct hm_cache_shown *shown, struct hm_cache *cache, const char *domain);
/* Before it is destroyed. */
void hm_cache_hide(struct hm_cache_shown *shown);
/* All of out, without locks.  shown NULL: there is no cache so far. */
void hm_cache_figures(const struct hm_cache_shown *shown, struct hmreg_cache_stats *out);

/* What follows host memory, or would. */
void hm_cache_monitor_tell(struct hmreg_cache_monitor *out);

/* ---- between the two parts ---- */

#define HM_STATS_FILE_BYTES                                                                        \
	(sizeof(struct hmreg_cache_file) + HMREG_CACHE_FILE_ROWS * sizeof(struct hmreg_cache_row))

/* What the file holds, or is to hold. */
union hm_stats_image {
	struct {
		struct hmreg_cache_file head;
		struct hmreg_cache_row row[HMREG_CACHE_FILE_ROWS];
	} file;
	uint64_t word[HM_STATS_FILE_BYTES / sizeof(uint64_t)];
};

/* Make the file of this process in a folder, unless there is one.  False: none, and one log line said why. */
bool hm_stats_file_open(const char *folder);
/*
 * Bring it up to date; what is the same for the file's life is filled in here.  By one thread at a time, no
 * lock held but that of who writes.  False: it cannot be written any more, as one log line said.
 */
bool hm_stats_file_write(union hm_stats_image *image);
/* In a child: the file is its parent's. */
void hm_stats_file_forget(void);

#endif
