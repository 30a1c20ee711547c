/* SPDX-License-Identifier: BSD-2-Clause */
/* Between monitor.c, which knows the caches, and monitor_choose.c, which knows the monitors. */
#ifndef HM_MONITOR_PRIV_H
#define HM_MONITOR_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hm_monitor;

/*
 * Choose and start a monitor: the imported one, the one that FI_MR_CACHE_MONITOR names, or the first that
 * works.  -FI_ENOSYS: none.  A trial logs nothing.  One thread at a time, without a lock.
 */
int hm_monitor_choose(bool trial);
/* Stop it. */
void hm_monitor_release(void);
/* Somebody else reports this range: the one in use need not. */
void hm_monitor_skip(uint64_t begin, uint64_t end);
/* In the child of a fork. */
void hm_monitor_forked(void);
/* Why there is none, or those before the one in use are not. */
void hm_monitor_why(char *text, size_t size);
/* Around a fork: nobody is at that text. */
void hm_monitor_why_hold(void);
void hm_monitor_why_let(void);

/* hm_monitor_failed in two: what is kept ends (false: it had failed already), and the log line. */
bool hm_monitor_fail_quietly(const char *why);
void hm_monitor_tell_failure(void);

/* These pages cannot be followed by the monitor of this name, and why is a clause or "": told once for each told. */
void hm_monitor_tell_unwatched(_Atomic bool *told, const char *name, uint64_t begin, uint64_t end,
			       int err, const char *why);

/* How deep this thread is inside functions of an application's monitor. */
extern _Thread_local unsigned hm_monitor_depth __attribute__((tls_model("initial-exec")));

/* Has a cache joined, or is one about to?  Then the monitor stays as it is, until hm_monitor_let. */
bool hm_monitor_hold(void);
void hm_monitor_let(void);

/* For tests: choose among these, as if FI_MR_CACHE_MONITOR were setting.  NULL: as ever. */
void hm_monitor_override(const char *setting, const struct hm_monitor *const *list, size_t count);

#endif
