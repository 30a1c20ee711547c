/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which monitor is used: the application's own, the one that FI_MR_CACHE_MONITOR names, or the first that
 * works.  It is told by a log line, in the listing of the parameters (fi_getparams) and by hm_monitor_text.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/params.h"
#include "core/mr/monitor.h"
#include "core/mr/monitor_priv.h"

#define DISABLED "disabled"
#define WHY_SIZE 512

/*
 * In the order in which they are tried.  kdreg2 sees everything, at the cost of one load a hit; userfaultfd
 * sees what passes the C library by, too; memhooks needs nothing of the kernel.
 */
static const struct hm_monitor *const monitors[] = {
	&hm_monitor_kdreg2,
	&hm_monitor_uffd,
	&hm_monitor_hooks,
};
#define MONITORS (sizeof(monitors) / sizeof(monitors[0]))

/* What to choose among; changed by tests. */
static const struct hm_monitor *const *candidates = monitors;
static size_t candidate_count = MONITORS;
static const char *test_setting;

static const struct hm_monitor *imported; /* under hm_monitor_hold */

static _Atomic(const struct hm_monitor *) used;	  /* and works */
static _Atomic(const struct hm_monitor *) chosen; /* is started, whether it still works or not */
static _Atomic(const char *) failure;		  /* constant; NULL: none */
static unsigned everything;			  /* the change that a failure leaves open */

/* Protects why; nothing is called under it. */
static pthread_mutex_t why_lock = PTHREAD_MUTEX_INITIALIZER;
static char why_not[WHY_SIZE] = "no registration cache has asked for one yet";

const struct hm_monitor *hm_monitor_used(void)
{
	return atomic_load_explicit(&used, memory_order_acquire);
}

void hm_monitor_why(char *text, size_t size)
{
	const char *failed = atomic_load(&failure);

	pthread_mutex_lock(&why_lock);
	snprintf(text, size, "%s", failed ? failed : why_not);
	pthread_mutex_unlock(&why_lock);
}

void hm_monitor_why_hold(void)
{
	pthread_mutex_lock(&why_lock);
}

void hm_monitor_why_let(void)
{
	pthread_mutex_unlock(&why_lock);
}

static void set_why(const char *text)
{
	pthread_mutex_lock(&why_lock);
	snprintf(why_not, sizeof(why_not), "%s", text);
	pthread_mutex_unlock(&why_lock);
}

char *hm_monitor_text(char *text, size_t size)
{
	const struct hm_monitor *monitor = hm_monitor_used();
	char why[WHY_SIZE];

	if (monitor) {
		snprintf(text, size, "%s", monitor->name);
	} else {
		hm_monitor_why(why, sizeof(why));
		snprintf(text, size, "none: %s", why);
	}
	return text;
}

/* ---- the choice ---- */

/* The one that is wanted, alone; NULL: the first that works, unless it is off. */
static const struct hm_monitor *wanted(const char *setting, bool *off)
{
	*off = setting && strcasecmp(setting, DISABLED) == 0;
	if (*off)
		return NULL;
	if (imported)
		return imported;
	for (size_t i = 0; setting && i < candidate_count; i++)
		if (strcasecmp(candidates[i]->name, setting) == 0)
			return candidates[i];
	return NULL;
}

static bool known(const char *setting)
{
	if (!setting || strcasecmp(setting, DISABLED) == 0)
		return true;
	for (size_t i = 0; i < candidate_count; i++)
		if (strcasecmp(candidates[i]->name, setting) == 0)
			return true;
	return false;
}

/* Starts it; why it does not work is added to the text. */
static bool start(const struct hm_monitor *monitor, char *why, size_t size)
{
	char mine[192] = "";
	size_t len;

	/* A monitor may report, and be asked, as soon as it is started. */
	atomic_store(&chosen, monitor);
	if (monitor->start(mine, sizeof(mine)) == 0) {
		atomic_store(&used, monitor);
		/* One that failed at once was not in use yet. */
		if (atomic_load(&failure))
			atomic_store(&used, NULL);
		return true;
	}
	atomic_store(&chosen, NULL);
	len = strlen(why);
	snprintf(why + len, size - len, "%s%s: %s", len > 0 ? "; " : "", monitor->name, mine);
	return false;
}

/* A line once, and again when it is another one. */
static void tell(enum fi_log_level level, const char *text)
{
	static char told[WHY_SIZE + 128];

	if (strcmp(told, text) == 0)
		return;
	snprintf(told, sizeof(told), "%s", text);
	HM_LOG(level, FI_LOG_MR, "%s", text);
}

static void tell_outcome(const char *setting, bool off, const char *why)
{
	const struct hm_monitor *monitor = hm_monitor_used();
	char text[WHY_SIZE + 128];

	if (monitor)
		snprintf(text, sizeof(text),
			 "kept registrations of host memory are followed by %s%s%s%s",
			 monitor->name, *why ? " (" : "", why, *why ? ")" : "");
	else if (off)
		snprintf(text, sizeof(text), "no registration of host memory is kept: %s", why);
	else
		snprintf(text, sizeof(text),
			 "no registration of host memory is kept, no monitor of it works%s%s: %s",
			 setting ? ", FI_MR_CACHE_MONITOR is " : "", setting ? setting : "", why);
	tell(monitor || off ? FI_LOG_INFO : FI_LOG_WARN, text);
}

int hm_monitor_choose(bool trial)
{
	static bool warned;
	const char *setting = test_setting ? test_setting : hm_param_str(HM_PARAM_CACHE_MONITOR);
	const struct hm_monitor *only;
	char why[WHY_SIZE] = "", text[WHY_SIZE + 32];
	bool off, works = false;

	if (!known(setting) && !trial && !warned)
		HM_WARN(FI_LOG_MR,
			"FI_MR_CACHE_MONITOR=%s is none of kdreg2, userfaultfd, memhooks "
			"and " DISABLED "; the first that works is used",
			setting);
	warned = warned || (!known(setting) && !trial);
	only = wanted(setting, &off);
	if (off)
		snprintf(why, sizeof(why), "FI_MR_CACHE_MONITOR=" DISABLED);
	else if (only)
		works = start(only, why, sizeof(why));
	for (size_t i = 0; !off && !only && !works && i < candidate_count; i++)
		works = start(candidates[i], why, sizeof(why));
	set_why(why);
	if (trial)
		return works ? 0 : -FI_ENOSYS;
	tell_outcome(known(setting) ? setting : NULL, off, why);
	hm_param_note(HM_PARAM_CACHE_MONITOR, hm_monitor_text(text, sizeof(text)));
	return hm_monitor_used() ? 0 : -FI_ENOSYS;
}

void hm_monitor_release(void)
{
	const struct hm_monitor *monitor = atomic_load(&chosen);

	if (!monitor)
		return;
	atomic_store(&used, NULL);
	monitor->stop();
	atomic_store(&chosen, NULL);
	if (atomic_exchange(&failure, NULL))
		hm_monitor_end(everything);
	set_why("no registration cache is in use");
}

/* ---- a monitor that does not work any more ---- */

bool hm_monitor_fail_quietly(const char *why)
{
	const char *none = NULL;

	if (!atomic_compare_exchange_strong(&failure, &none, why))
		return false;
	atomic_store(&used, NULL);
	/* Left open: whatever is registered from now on is not kept either. */
	everything = hm_monitor_report(0, UINT64_MAX);
	return true;
}

void hm_monitor_tell_failure(void)
{
	const struct hm_monitor *monitor = atomic_load(&chosen);
	char text[WHY_SIZE + 32];

	HM_WARN(FI_LOG_MR,
		"%s does not follow host memory any more: %s; from now on no registration of it is "
		"kept",
		monitor ? monitor->name : "the monitor", atomic_load(&failure));
	hm_param_note(HM_PARAM_CACHE_MONITOR, hm_monitor_text(text, sizeof(text)));
}

void hm_monitor_failed(const char *why)
{
	if (hm_monitor_fail_quietly(why))
		hm_monitor_tell_failure();
}

void hm_monitor_forked(void)
{
	const struct hm_monitor *monitor = atomic_load(&chosen);

	if (!monitor || !monitor->forked)
		return;
	hm_monitor_fail_quietly("this process is the child of a fork, which its parent's monitor "
				"does not follow");
	monitor->forked();
}

/* ---- calls to the one in use ---- */

void hm_monitor_skip(uint64_t begin, uint64_t end)
{
	const struct hm_monitor *monitor = hm_monitor_used();

	if (monitor && monitor->release)
		monitor->release(begin, end);
}

void hm_monitor_tell_unwatched(_Atomic bool *told, const char *name, uint64_t begin, uint64_t end,
			       int err, const char *why)
{
	if (!atomic_exchange(told, true))
		HM_INFO(FI_LOG_MR,
			"memory 0x%lx-0x%lx cannot be followed by %s (errno %d%s): it is "
			"registered for each use, as is other memory of its kind",
			(unsigned long)begin, (unsigned long)end, name, err, why);
}

int hm_monitor_watch(uint64_t begin, uint64_t end, uint64_t *mark)
{
	const struct hm_monitor *monitor = hm_monitor_used();

	*mark = 0;
	if (!monitor)
		return -FI_ENOSYS;
	return monitor->watch ? monitor->watch(begin, end, mark) : 0;
}

void hm_monitor_unwatch(uint64_t begin, uint64_t end, uint64_t mark)
{
	const struct hm_monitor *monitor = atomic_load(&chosen);

	if (monitor && monitor->unwatch)
		monitor->unwatch(begin, end, mark);
}

bool hm_monitor_valid(uint64_t begin, uint64_t end, uint64_t mark)
{
	const struct hm_monitor *monitor = hm_monitor_used();

	if (hm_monitor_inside()) /* it would ask itself for ever */
		return false;
	if (monitor && (!monitor->valid || monitor->valid(begin, end, mark)))
		return true;
	hm_monitor_changed(begin, end);
	return false;
}

/* ---- from outside ---- */

int hm_monitor_import(const struct hm_monitor *monitor)
{
	int ret = hm_monitor_hold() || (monitor && imported) ? -FI_EBUSY : 0;

	if (ret == 0)
		imported = monitor;
	hm_monitor_let();
	return ret;
}

void hm_monitor_override(const char *setting, const struct hm_monitor *const *list, size_t count)
{
	test_setting = setting;
	candidates = list ? list : monitors;
	candidate_count = list ? count : MONITORS;
}
