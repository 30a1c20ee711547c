/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why the library refused, for programs: a refusal is the cause and the words that go to the log with it,
 * whatever the log's level.  Kept for the thread that met it, until it asks (hmreg_fabric_ops.refusal).
 *
 * A ring for all threads, so that the number of threads costs nothing; what is older than its room is lost.
 */
#ifndef HM_BASE_REFUSAL_H
#define HM_BASE_REFUSAL_H

#include <stddef.h>

#include <rdma/fi_ext_hmreg.h>

#include "core/base/log.h"

/* Keep this refusal of the calling thread; errno is preserved.  Any lock of the library may be held. */
void hm_refusal_note(enum hmreg_cause cause, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The calling thread's, index 0 its oldest.  False: it has not so many. */
bool hm_refusal_get(size_t index, struct hmreg_refusal *out);
/* The calling thread's newest, if its cause is from, has cause to: who called knows better what it was about. */
void hm_refusal_recast(enum hmreg_cause from, enum hmreg_cause to);
/* The calling thread's are forgotten. */
void hm_refusal_forget(void);

/* A warning with its cause.  The arguments are used twice. */
#define HM_REFUSE(subsys, cause, ...)                                                              \
	do {                                                                                       \
		hm_refusal_note(cause, __VA_ARGS__);                                               \
		HM_WARN(subsys, __VA_ARGS__);                                                      \
	} while (0)

#endif
