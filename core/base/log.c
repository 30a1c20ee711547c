/* SPDX-License-Identifier: BSD-2-Clause */
/* Log lines: who listens to what, and how a line is put together. See log.h. */
#include "core/base/log.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/export.h"
#include "core/base/params.h"

#define OWN_NAME     "hmreg"
#define LINE_MAX_LEN 2048
#define LEVELS	     (FI_LOG_DEBUG + 1)
#define WARN_BITS    ((UINT64_C(1) << FI_LOG_SUBSYS_MAX) - 1)
#define SINK_SET     (UINT64_C(1) << 62)

static_assert(FI_LOG_WARN == 0, "WARN_BITS stands for every subsystem at level 0");
static_assert(LEVELS * FI_LOG_SUBSYS_MAX < 62, "level and subsystem bits leave two bits free");

_Atomic uint64_t hm_log_mask = HM_LOG_UNREAD;
_Thread_local bool hm_log_mild __attribute__((tls_model("initial-exec")));
_Thread_local const char *hm_log_about __attribute__((tls_model("initial-exec")));
_Thread_local struct hm_log_kept *hm_log_kept __attribute__((tls_model("initial-exec")));

static const char *const level_name[LEVELS] = {
	[FI_LOG_WARN] = "warn",
	[FI_LOG_TRACE] = "trace",
	[FI_LOG_INFO] = "info",
	[FI_LOG_DEBUG] = "debug",
};

static const char *const subsys_name[FI_LOG_SUBSYS_MAX] = {
	[FI_LOG_CORE] = "core",	      [FI_LOG_FABRIC] = "fabric",   [FI_LOG_DOMAIN] = "domain",
	[FI_LOG_EP_CTRL] = "ep_ctrl", [FI_LOG_EP_DATA] = "ep_data", [FI_LOG_AV] = "av",
	[FI_LOG_CQ] = "cq",	      [FI_LOG_EQ] = "eq",	    [FI_LOG_MR] = "mr",
	[FI_LOG_CNTR] = "cntr",
};

/* Written by read_settings() alone, before anybody can read it. */
static struct {
	uint64_t all; /* what level and subsystem enable on standard error, for any provider */
	_Atomic uint64_t
		own; /* the same for us: nothing, if FI_LOG_PROV leaves us out; or a host's */
	int64_t epoch_offset; /* seconds; the monotonic clock plus this is the time of day */
} settings;

/* Shows our messages; NULL: we do. */
static _Atomic(const struct hm_log_host *) log_host;

static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static atomic_bool complaint_due;

/* Protects the sink and is held while it runs; the innermost lock of the library. */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static hm_log_sink_fn sink_fn;
static void *sink_arg;
static _Thread_local bool in_sink;

const char *hm_log_level_name(enum fi_log_level level)
{
	return (unsigned int)level < LEVELS ? level_name[level] : NULL;
}

const char *hm_log_subsys_name(enum fi_log_subsys subsys)
{
	return (unsigned int)subsys < FI_LOG_SUBSYS_MAX ? subsys_name[subsys] : NULL;
}

static int64_t clock_ms(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* LEVELS for a word that is none. */
static unsigned int find_level(const char *word)
{
	unsigned int level = 0;

	while (level < LEVELS && strcasecmp(word, level_name[level]) != 0)
		level++;
	return level;
}

static bool known_subsys(const char *word, size_t len)
{
	for (int i = 0; i < FI_LOG_SUBSYS_MAX; i++) {
		if (strlen(subsys_name[i]) == len && strncasecmp(word, subsys_name[i], len) == 0)
			return true;
	}
	return false;
}

/* The first word of FI_LOG_SUBSYS that names no subsystem; NULL when there is none. */
static const char *bad_subsys(size_t *len)
{
	const char *cursor = hm_param_str_quiet(HM_PARAM_LOG_SUBSYS);
	const char *word = NULL;

	while (cursor && (word = hm_list_word(&cursor, len)) != NULL && known_subsys(word, *len))
		;
	return word;
}

static void read_settings(void)
{
	const char *level_word = hm_param_str_quiet(HM_PARAM_LOG_LEVEL);
	const char *subsys_list = hm_param_str_quiet(HM_PARAM_LOG_SUBSYS);
	uint64_t subsys_mask = 0;
	unsigned int level;
	size_t len;

	settings.epoch_offset = (clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_MONOTONIC)) / 1000;
	for (int i = 0; i < FI_LOG_SUBSYS_MAX; i++) {
		if (hm_list_selects(subsys_list, subsys_name[i]))
			subsys_mask |= UINT64_C(1) << i;
	}
	if (level_word) {
		level = find_level(level_word);
		atomic_store(&complaint_due, level == LEVELS || bad_subsys(&len));
		if (level == LEVELS)
			level = FI_LOG_WARN;
		for (unsigned int i = 0; i <= level; i++)
			settings.all |= subsys_mask << (i * FI_LOG_SUBSYS_MAX);
	}
	if (hm_list_selects(hm_param_str_quiet(HM_PARAM_LOG_PROV), OWN_NAME))
		settings.own = settings.all;
	atomic_store(&hm_log_mask, settings.own);
}

void hm_log_set_host(const struct hm_log_host *host)
{
	uint64_t own = 0;

	pthread_once(&settings_once, read_settings);
	atomic_store(&complaint_due, false); /* the host reads the variables, too */
	for (unsigned int i = 0; i < LEVELS * FI_LOG_SUBSYS_MAX; i++)
		if (host->on(i / FI_LOG_SUBSYS_MAX, i % FI_LOG_SUBSYS_MAX))
			own |= UINT64_C(1) << i;
	pthread_mutex_lock(&sink_lock);
	atomic_store(&log_host, host);
	atomic_store(&settings.own, own);
	atomic_store(&hm_log_mask, own | (sink_fn ? WARN_BITS | SINK_SET : 0));
	pthread_mutex_unlock(&sink_lock);
}

void hm_log_set_sink(hm_log_sink_fn fn, void *arg)
{
	hm_log_init();
	pthread_mutex_lock(&sink_lock);
	sink_fn = fn;
	sink_arg = arg;
	atomic_store(&hm_log_mask, settings.own | (fn ? WARN_BITS | SINK_SET : 0));
	pthread_mutex_unlock(&sink_lock);
}

static void call_sink(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		      int line, const char *text)
{
	if (in_sink || !(atomic_load_explicit(&hm_log_mask, memory_order_relaxed) & SINK_SET))
		return;
	in_sink = true;
	pthread_mutex_lock(&sink_lock);
	if (sink_fn)
		sink_fn(level, subsys, func, line, text, sink_arg);
	pthread_mutex_unlock(&sink_lock);
	in_sink = false;
}

/* A message is one line, whatever is in it; libfabric's callers end theirs with a newline. */
static void make_one_line(char *text)
{
	size_t len = strlen(text);

	while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		text[--len] = '\0';
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
	}
}

static void write_line(const char *line, size_t len)
{
	int cancel = hm_cancel_off(); /* whoever logs may hold a lock */

	while (len) {
		ssize_t n = write(STDERR_FILENO, line, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		line += n;
		len -= (size_t)n;
	}
	hm_cancel_restore(cancel);
}

/* prov is NULL for our own messages, otherwise the other provider's name. */
static void emit(bool print, const char *prov, enum fi_log_level level, enum fi_log_subsys subsys,
		 const char *func, int line, const char *fmt, va_list args)
{
	static const char cut[] = "...";
	const struct hm_log_host *host = atomic_load(&log_host);
	char buf[LINE_MAX_LEN];
	int64_t seconds = clock_ms(CLOCK_MONOTONIC) / 1000 + settings.epoch_offset;
	size_t head, begin, room;
	int n;

	/* The head cannot overflow: its strings are bounded. */
	n = snprintf(buf, sizeof(buf), OWN_NAME ":%d:%lld:%.64s%s%s:%.128s():%d<%s> ",
		     (int)getpid(), (long long)seconds, prov ? prov : "", prov ? ":" : "",
		     subsys_name[subsys], func, line, level_name[level]);
	head = n > 0 ? (size_t)n : 0;
	begin = head;
	if (hm_log_about && !prov) {
		n = snprintf(buf + head, sizeof(buf) - head, "%.64s: ", hm_log_about);
		begin += n > 0 ? (size_t)n : 0;
	}
	room = sizeof(buf) - begin - 1;
	n = vsnprintf(buf + begin, room, fmt, args);
	if (n < 0)
		buf[begin] = '\0';
	else if ((size_t)n >= room)
		memcpy(buf + begin + room - sizeof(cut), cut, sizeof(cut));
	make_one_line(buf + head);
	call_sink(level, subsys, func, line, buf + head);
	if (!print)
		return;
	if (host) {
		host->write(level, subsys, func, line, buf + head);
	} else {
		size_t len = strlen(buf);

		buf[len] = '\n';
		write_line(buf, len + 1);
	}
}

/*
 * About the variables themselves: shown whatever FI_LOG_SUBSYS says, which may be what is wrong.
 * Somebody who left us out with FI_LOG_PROV does not want to hear it.
 */
static void complain(int line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void complain(int line, const char *fmt, ...)
{
	bool print = hm_list_selects(hm_param_str_quiet(HM_PARAM_LOG_PROV), OWN_NAME);
	va_list args;

	va_start(args, fmt);
	emit(print, NULL, FI_LOG_WARN, FI_LOG_CORE, "hm_log_init", line, fmt, args);
	va_end(args);
}

static void complain_about_settings(void)
{
	const char *level_word = hm_param_str_quiet(HM_PARAM_LOG_LEVEL);
	const char *word;
	size_t len;

	if (find_level(level_word) == LEVELS)
		complain(__LINE__,
			 "FI_LOG_LEVEL=%s is not one of warn, trace, info, debug; "
			 "warn is used",
			 level_word);
	word = bad_subsys(&len);
	if (word)
		complain(__LINE__, "FI_LOG_SUBSYS=%s: \"%.*s\" names no subsystem and is ignored",
			 hm_param_str_quiet(HM_PARAM_LOG_SUBSYS), (int)len, word);
}

uint64_t hm_log_init(void)
{
	int saved_errno = errno;

	pthread_once(&settings_once, read_settings);
	/* Not within read_settings(), whose results they need. */
	if (atomic_load(&complaint_due) && atomic_exchange(&complaint_due, false))
		complain_about_settings();
	errno = saved_errno;
	return atomic_load(&hm_log_mask);
}

/* A warning that the thread keeps; what it kept before is logged. */
static void keep(struct hm_log_kept *kept, enum fi_log_subsys subsys, const char *func, int line,
		 const char *fmt, va_list args)
{
	if (kept->text[0]) {
		hm_log_kept = NULL;
		if (hm_log_on(FI_LOG_WARN, kept->subsys))
			hm_log_write(FI_LOG_WARN, kept->subsys, func, line, "%s", kept->text);
		hm_log_kept = kept;
	}
	kept->subsys = subsys;
	if (vsnprintf(kept->text, sizeof(kept->text), fmt, args) < 0)
		kept->text[0] = '\0';
	make_one_line(kept->text);
}

void hm_log_write(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		  const char *fmt, ...)
{
	int saved_errno = errno;
	va_list args;

	hm_log_init();
	if (hm_log_mild && level == FI_LOG_WARN)
		level = FI_LOG_INFO;
	va_start(args, fmt);
	if (level == FI_LOG_WARN && hm_log_kept)
		keep(hm_log_kept, subsys, func, line, fmt, args);
	else
		emit(settings.own & HM_LOG_BIT(level, subsys), NULL, level, subsys, func, line, fmt,
		     args);
	va_end(args);
	errno = saved_errno;
}

static bool is_own(const struct fi_provider *prov)
{
	return !prov || !prov->name || strcasecmp(prov->name, OWN_NAME) == 0;
}

/* Whether such a message of prov goes to standard error; level and subsys have been checked. */
static bool prints(const struct fi_provider *prov, enum fi_log_level level,
		   enum fi_log_subsys subsys)
{
	uint64_t bit = HM_LOG_BIT(level, subsys);

	if (is_own(prov))
		return settings.own & bit;
	return settings.all & bit &&
	       hm_list_selects(hm_param_str_quiet(HM_PARAM_LOG_PROV), prov->name);
}

HM_EXPORT int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
			     enum fi_log_subsys subsys)
{
	int saved_errno = errno;
	uint64_t mask = hm_log_init();
	bool on = false;

	if (hm_log_level_name(level) && hm_log_subsys_name(subsys)) {
		on = (level == FI_LOG_WARN && mask & SINK_SET) || prints(prov, level, subsys);
	}
	errno = saved_errno;
	return on;
}

HM_EXPORT int fi_log_ready(const struct fi_provider *prov, enum fi_log_level level,
			   enum fi_log_subsys subsys, uint64_t *showtime)
{
	int interval = hm_param_int_quiet(HM_PARAM_LOG_INTERVAL);
	uint64_t now, due;

	if (!showtime || !fi_log_enabled(prov, level, subsys))
		return 0;
	now = (uint64_t)clock_ms(CLOCK_MONOTONIC);
	due = __atomic_load_n(showtime, __ATOMIC_RELAXED);
	/* Of several threads that find the message due, the one that sets the next time logs it. */
	return now >= due &&
	       __atomic_compare_exchange_n(showtime, &due,
					   now + (interval > 0 ? (uint64_t)interval : 0), false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

HM_EXPORT void fi_log(const struct fi_provider *prov, enum fi_log_level level,
		      enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list args;

	if (fmt && fi_log_enabled(prov, level, subsys)) {
		va_start(args, fmt);
		emit(prints(prov, level, subsys), is_own(prov) ? NULL : prov->name, level, subsys,
		     func ? func : "?", line, fmt, args);
		va_end(args);
	}
	errno = saved_errno;
}
