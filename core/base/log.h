/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logging, and what is behind fi_log, fi_log_enabled and fi_log_ready of rdma/fi_ext.h (a NULL
 * provider is the library itself). Controlled as in libfabric:
 *   FI_LOG_LEVEL   warn, trace, info or debug, each including those before it. Unset or empty:
 *                  nothing is printed. A word that is none of them counts as warn, and is reported.
 *   FI_LOG_PROV    providers to log, a comma-separated list, negated by a leading ^ (ours: hmreg).
 *   FI_LOG_SUBSYS  subsystems to log, the same way: core, fabric, domain, ep_ctrl, ep_data, av, cq,
 *                  eq, mr, cntr.
 * They are read once, at the first message. A message is one line on standard error, one write(2):
 *   hmreg:<pid>:<seconds since the epoch>:<subsystem>:<function>():<line><<level>> <text>
 * A message from a provider other than ours names it before the subsystem. Any thread may log at
 * any time; errno is preserved.
 */
#ifndef HM_BASE_LOG_H
#define HM_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext.h>

/* A bit per level and subsystem that somebody listens to; HM_LOG_UNREAD before the first message. */
#define HM_LOG_UNREAD (UINT64_C(1) << 63)
#define HM_LOG_BIT(level, subsys)                                                                  \
	(UINT64_C(1) << ((unsigned int)(level)*FI_LOG_SUBSYS_MAX + (unsigned int)(subsys)))

extern _Atomic uint64_t hm_log_mask;
/* Of this thread: while true, its warnings are for level info.  For what is tried again if it fails. */
extern _Thread_local bool hm_log_mild __attribute__((tls_model("initial-exec")));

/* Of this thread, where it is not NULL: what its lines begin with, for a call that others know by this name. */
extern _Thread_local const char *hm_log_about __attribute__((tls_model("initial-exec")));

/*
 * Of this thread, where it is not NULL: warnings are kept here in place of being logged, for a call that says
 * what they are about.  The last one; one that is kept already is logged as it was when another comes.
 */
struct hm_log_kept {
	enum fi_log_subsys subsys;
	char text[256]; /* "": none */
};
extern _Thread_local struct hm_log_kept *hm_log_kept __attribute__((tls_model("initial-exec")));

/* From now on in kept, which is emptied.  What was there before, to be put back into hm_log_kept. */
static inline struct hm_log_kept *hm_log_keep(struct hm_log_kept *kept)
{
	struct hm_log_kept *before = hm_log_kept;

	kept->text[0] = '\0';
	hm_log_kept = kept;
	return before;
}

/* Reads the environment once and returns hm_log_mask. */
uint64_t hm_log_init(void);

static inline bool hm_log_on(enum fi_log_level level, enum fi_log_subsys subsys)
{
	uint64_t mask = atomic_load_explicit(&hm_log_mask, memory_order_relaxed);

	if (__builtin_expect((mask & HM_LOG_UNREAD) != 0, 0))
		mask = hm_log_init();
	if (level == FI_LOG_WARN && hm_log_mild)
		level = FI_LOG_INFO;
	if (level == FI_LOG_WARN && hm_log_kept)
		return true;
	return __builtin_expect((mask & HM_LOG_BIT(level, subsys)) != 0, 0);
}

/* Behind the macros, for a level and subsystem that are on. */
void hm_log_write(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define HM_LOG(level, subsys, ...)                                                                 \
	do {                                                                                       \
		if (hm_log_on(level, subsys))                                                      \
			hm_log_write(level, subsys, __func__, __LINE__, __VA_ARGS__);              \
	} while (0)

#define HM_WARN(subsys, ...)  HM_LOG(FI_LOG_WARN, subsys, __VA_ARGS__)
#define HM_TRACE(subsys, ...) HM_LOG(FI_LOG_TRACE, subsys, __VA_ARGS__)
#define HM_INFO(subsys, ...)  HM_LOG(FI_LOG_INFO, subsys, __VA_ARGS__)
#define HM_DEBUG(subsys, ...) HM_LOG(FI_LOG_DEBUG, subsys, __VA_ARGS__)

/* The words used in the variables and in the lines; NULL for a value outside the enumeration. */
const char *hm_log_level_name(enum fi_log_level level);
const char *hm_log_subsys_name(enum fi_log_subsys subsys);

/*
 * Who shows the messages where the library is part of another one: on() is asked instead of the
 * environment, write() gets the text instead of standard error.  Both may be called by any thread.
 */
struct hm_log_host {
	bool (*on)(enum fi_log_level level, enum fi_log_subsys subsys);
	void (*write)(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		      int line, const char *text);
};

/* From now on, host shows the messages, and is asked what to show; again, if it was set before. */
void hm_log_set_host(const struct hm_log_host *host);

/*
 * For tests: fn sees every warning, whatever the environment says, and whatever else the environment
 * enables; lines for standard error still go there. Calls of fn are serialised; messages logged by
 * fn itself do not come back to it. NULL ends it: once that call returned, fn does not run any more.
 * fn must not call hm_log_set_sink.
 */
typedef void (*hm_log_sink_fn)(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
			       int line, const char *text, void *arg);
void hm_log_set_sink(hm_log_sink_fn fn, void *arg);

#endif
