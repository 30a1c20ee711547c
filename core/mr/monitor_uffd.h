/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of monitor_uffd.c. */
#ifndef HM_MONITOR_UFFD_H
#define HM_MONITOR_UFFD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum hm_uffd_stage {
	HM_UFFD_UNREAD,
	HM_UFFD_READ
};
/* Called by the thread that reads, when there are events, before and after it has read them; NULL: nothing. */
extern void (*hm_uffd_at)(enum hm_uffd_stage stage);
/* How long memory counts as changing after the kernel has told that it will be given back. */
extern int64_t hm_uffd_grace_nanos;
/* HMREG_CACHE_STRICT, if not -1; looked at by start. */
extern int hm_uffd_strict;
/* Most ranges that are followed, if not 0: what the kernel lets a process have mappings for; looked at by start. */
extern uint32_t hm_uffd_most;
/* While the monitor is started: its thread and its descriptor. */
pthread_t hm_uffd_thread(void);
int hm_uffd_fd(void);
bool hm_uffd_hooked(void); /* memhooks are beside it */

#endif
