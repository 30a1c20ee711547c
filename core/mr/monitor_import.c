/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application's own monitor.  What it says is not trusted for more than it can harm: whatever it reports ends
 * what is kept there, if anything; and what it calls valid is found.  Its functions are called without a lock.
 * It may report, from any thread, whenever and whatever it likes; while one of its functions runs, that thread
 * uses no cache and closes no domain (hm_monitor_inside).
 *
 * It is to report before its memory is used for anything else.  What is registered while the memory goes it can
 * end by a report after it, or by its answer to valid, which is asked at each hit.
 */
#include "core/mr/monitor_import.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/mr/monitor.h"
#include "core/mr/monitor_priv.h"

/* Protects imported; before the lock of hm_monitor_hold. */
static pthread_mutex_t import_lock = PTHREAD_MUTEX_INITIALIZER;
/* The application's; does not change while a cache has joined. */
static struct fid_mem_monitor *_Atomic imported;

static void notify(struct fid_mem_monitor *monitor, const void *addr, size_t len)
{
	uint64_t begin = (uintptr_t)addr, page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t end = len > UINT64_MAX - begin ? UINT64_MAX : begin + len;

	(void)monitor;
	if (len == 0)
		return;
	/* whole pages change, and are what was asked for */
	end = end > UINT64_MAX - page ? UINT64_MAX : (end + page - 1) & ~(page - 1);
	hm_monitor_changed(begin & ~(page - 1), end);
}

static struct fi_ops_mem_notify notify_ops = {
	.size = sizeof(struct fi_ops_mem_notify),
	.notify = notify,
};

static int import_start(char *why, size_t size)
{
	struct fid_mem_monitor *monitor = imported;
	int ret;

	hm_monitor_depth++;
	ret = monitor->export_ops->start(monitor);
	hm_monitor_depth--;
	if (ret == 0)
		hm_monitor_raise(HM_MONITOR_MARKS);
	else
		snprintf(why, size, "the program's own monitor does not start (%d)", ret);
	return ret;
}

static void import_stop(void)
{
	struct fid_mem_monitor *monitor = imported;

	hm_monitor_lower(HM_MONITOR_MARKS);
	hm_monitor_depth++;
	monitor->export_ops->stop(monitor);
	hm_monitor_depth--;
}

static int import_watch(uint64_t begin, uint64_t end, uint64_t *mark)
{
	static _Atomic bool told;
	struct fid_mem_monitor *monitor = imported;
	int ret;

	(void)mark;
	hm_monitor_depth++;
	ret = monitor->export_ops->subscribe(monitor, (void *)(uintptr_t)begin, end - begin);
	hm_monitor_depth--;
	if (ret != 0 && !atomic_exchange(&told, true))
		HM_INFO(FI_LOG_MR,
			"the program's own monitor refuses to follow 0x%lx-0x%lx (%d): memory that "
			"it "
			"refuses is registered for each use",
			(unsigned long)begin, (unsigned long)end, ret);
	return ret > 0 ? -FI_EOTHER : ret;
}

static void import_unwatch(uint64_t begin, uint64_t end, uint64_t mark)
{
	struct fid_mem_monitor *monitor = imported;

	(void)mark;
	hm_monitor_depth++;
	monitor->export_ops->unsubscribe(monitor, (void *)(uintptr_t)begin, end - begin);
	hm_monitor_depth--;
}

static bool import_valid(uint64_t begin, uint64_t end, uint64_t mark)
{
	struct fid_mem_monitor *monitor = imported;
	bool valid;

	(void)mark;
	hm_monitor_depth++;
	valid = monitor->export_ops->valid(monitor, (void *)(uintptr_t)begin, end - begin);
	hm_monitor_depth--;
	return valid;
}

static const struct hm_monitor import_monitor = {
	.name = "import",
	.start = import_start,
	.stop = import_stop,
	.watch = import_watch,
	.unwatch = import_unwatch,
	.valid = import_valid,
};

/* ---- the application's side ---- */

static const char *fault(const struct fid_mem_monitor *monitor)
{
	const struct fi_ops_mem_monitor *ops = monitor->export_ops;

	if (monitor->fid.fclass != FI_CLASS_MEM_MONITOR)
		return "what is imported is no memory monitor (FI_CLASS_MEM_MONITOR)";
	if (!ops || ops->size < sizeof(*ops))
		return "the memory monitor has no export_ops, or their size is not set";
	if (!ops->start || !ops->stop || !ops->subscribe || !ops->unsubscribe || !ops->valid)
		return "one of the memory monitor's operations is NULL";
	return NULL;
}

static int import(struct fid_mem_monitor *monitor)
{
	const char *wrong = monitor ? fault(monitor) : NULL;
	int ret;

	if (wrong) {
		HM_WARN(FI_LOG_MR, "%s", wrong);
		return -FI_EINVAL;
	}
	ret = hm_monitor_import(monitor ? &import_monitor : NULL);
	if (ret != 0) {
		HM_WARN(FI_LOG_MR, "a registration cache is in use%s",
			monitor ? ", or a memory monitor imported, already" : "");
		return ret;
	}
	if (monitor)
		monitor->import_ops = &notify_ops;
	imported = monitor;
	return 0;
}

int hm_import_monitor(struct fid_mem_monitor *monitor)
{
	int ret;

	pthread_mutex_lock(&import_lock);
	ret = import(monitor);
	pthread_mutex_unlock(&import_lock);
	return ret;
}
