/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kdreg2, a kernel module that follows ranges of the process by the kernel's own notices, and keeps a state
 * for each where it can be read without a system call.  The state changes before the memory does; so whether
 * what a hit found is still right is one load (monitor.valid), and nothing can be overtaken.
 *
 * Its events, which a thread reads, only end early what would be found invalid by the next hit.
 *
 * The file is bound to the process that opened it: the child of a fork gives its descriptor back.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/cancel.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/mr/monitor.h"
#include "core/mr/monitor_kdreg2.h"
#include "core/mr/monitor_priv.h"
#include "core/mr/monitor_reader.h"

/* Of all caches together; the driver keeps memory for each, and may refuse so many. */
#define MOST_REGIONS  (UINT32_C(1) << 20)
#define LEAST_REGIONS (UINT32_C(1) << 10)
#define EVENTS	      16

/* A mark: where the state is, and what it was. */
#define MARK(location, generation) ((uint64_t)(location) << 32 | (generation))
#define LOCATION(mark)		   ((uint32_t)((mark) >> 32))
#define GENERATION(mark)	   ((uint32_t)(mark))

static int open_node(const char *path, int flags)
{
	return open(path, flags);
}

static int call_node(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg);
}

struct hm_kdreg2_calls hm_kdreg2_calls = { open_node, call_node };

static struct {
	_Atomic int fd; /* ours; -1: the child of a fork, or not started */
	uint32_t regions;
	const _Atomic uint32_t *state; /* the driver's */
	_Atomic uint64_t *cookie;      /* by location, of what is watched there; malloc */
	_Atomic uint64_t next_cookie;
	dev_t dev; /* what fd was opened as */
	ino_t ino;
} kdreg2 = { .fd = -1 };

/* A descriptor that the program closed may be another file now, whose data is not ours. */
static bool is_ours(void)
{
	struct stat file;

	return fstat(kdreg2.fd, &file) == 0 && file.st_dev == kdreg2.dev &&
	       file.st_ino == kdreg2.ino;
}

/* ---- events ---- */

static bool read_events(void)
{
	struct kdreg2_event event[EVENTS];
	int cancel = hm_cancel_off();
	ssize_t len = is_ours() ? read(kdreg2.fd, event, sizeof(event)) : 0;
	int err = len < 0 ? errno : 0;

	for (ssize_t i = 0; i < len / (ssize_t)sizeof(*event); i++) {
		uint64_t begin = (uintptr_t)event[i].addr;
		uint64_t end = event[i].len > UINT64_MAX - begin ? UINT64_MAX
								 : begin + event[i].len;

		if (event[i].type == KDREG2_MAPPING_CHANGE)
			hm_monitor_changed(begin, end);
	}
	hm_cancel_restore(cancel);
	return len > 0 || err == EAGAIN || err == EINTR;
}

static void reader_ended(bool told)
{
	if (!told)
		hm_monitor_failed("its events cannot be read any more");
}

static struct hm_reader reader = {
	.name = "hmreg-kdreg2",
	.readable = read_events,
	.ended = reader_ended,
	.wake = -1,
};

/* ---- what is watched ---- */

static void tell_once(uint64_t begin, uint64_t end, int err)
{
	static _Atomic bool told;

	hm_monitor_tell_unwatched(&told, hm_monitor_kdreg2.name, begin, end, err,
				  err == ENOSPC ? ", too many ranges" : "");
}

static int kdreg2_watch(uint64_t begin, uint64_t end, uint64_t *mark)
{
	struct kdreg2_monitor ask = { .addr = (const void *)(uintptr_t)begin,
				      .length = end - begin,
				      .cookie = atomic_fetch_add(&kdreg2.next_cookie, 1) };
	int err = hm_kdreg2_calls.ioctl(kdreg2.fd, KDREG2_MONITOR, &ask) == 0 ? 0 : errno;

	if (err == EBADF || err == EIO || err == ENOTTY) {
		hm_monitor_failed("its device node is closed, or another process's");
		return -err;
	}
	/* One that the driver has no state for is none that could be asked about. */
	if (err == 0 && ask.params.location >= kdreg2.regions)
		err = ENOSPC;
	if (err != 0) {
		tell_once(begin, end, err);
		return -err;
	}
	atomic_store(&kdreg2.cookie[ask.params.location], ask.cookie);
	*mark = MARK(ask.params.location, ask.params.generation);
	return 0;
}

static void kdreg2_unwatch(uint64_t begin, uint64_t end, uint64_t mark)
{
	struct kdreg2_unmonitor ask = {
		.params = { .location = LOCATION(mark), .generation = GENERATION(mark) },
	};

	(void)begin;
	(void)end;
	if (kdreg2.fd < 0 || LOCATION(mark) >= kdreg2.regions)
		return;
	ask.cookie = atomic_load(&kdreg2.cookie[LOCATION(mark)]);
	/* A failure: the driver has dropped it when its memory went. */
	(void)hm_kdreg2_calls.ioctl(kdreg2.fd, KDREG2_UNMONITOR, &ask);
}

static bool kdreg2_valid(uint64_t begin, uint64_t end, uint64_t mark)
{
	(void)begin;
	(void)end;
	return kdreg2.fd >= 0 && LOCATION(mark) < kdreg2.regions &&
	       atomic_load_explicit(&kdreg2.state[LOCATION(mark)], memory_order_acquire) ==
		       GENERATION(mark);
}

/* ---- start and stop ---- */

static void close_all(void)
{
	if (kdreg2.fd >= 0 && is_ours())
		close(kdreg2.fd);
	kdreg2.fd = -1;
}

/* As many regions as wanted, or as the driver has memory for. */
static int configure(char *why, size_t size)
{
	size_t most = hm_param_size(HM_PARAM_CACHE_MAX_COUNT);
	struct kdreg2_config config = { .max_regions = MOST_REGIONS };

	while (config.max_regions / 4 > most && config.max_regions > LEAST_REGIONS)
		config.max_regions /= 2;
	while (hm_kdreg2_calls.ioctl(kdreg2.fd, KDREG2_CONFIG, &config) != 0) {
		if ((errno == ENOSPC || errno == ENOMEM) && config.max_regions > LEAST_REGIONS) {
			config.max_regions /= 2;
			continue;
		}
		snprintf(why, size, "the driver refuses to follow %zu ranges (errno %d)",
			 config.max_regions, errno);
		return -errno;
	}
	if (!config.status || !config.status->state) {
		snprintf(why, size, "the driver gives no states to read");
		return -FI_ENOSYS;
	}
	kdreg2.state = config.status->state;
	kdreg2.regions = (uint32_t)config.max_regions;
	return 0;
}

static int kdreg2_start(char *why, size_t size)
{
	struct stat file;
	int ret;

	kdreg2.fd = hm_kdreg2_calls.open(KDREG2_NODE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (kdreg2.fd < 0) {
		ret = -errno;
		snprintf(why, size, "%s " KDREG2_NODE " (errno %d)",
			 ret == -ENOENT ? "there is no device node" : "cannot open", -ret);
		return ret;
	}
	if (fstat(kdreg2.fd, &file) == 0) {
		kdreg2.dev = file.st_dev;
		kdreg2.ino = file.st_ino;
	}
	ret = configure(why, size);
	if (ret != 0)
		goto close;
	snprintf(why, size, "no memory, or no thread, for what is watched");
	kdreg2.cookie = calloc(kdreg2.regions, sizeof(*kdreg2.cookie));
	ret = kdreg2.cookie ? hm_reader_start(&reader, kdreg2.fd) : -FI_ENOMEM;
	if (ret != 0)
		goto free_cookies;
	hm_monitor_raise(HM_MONITOR_MARKS);
	return 0;

free_cookies:
	free(kdreg2.cookie);
close:
	close_all();
	return ret;
}

static void kdreg2_stop(void)
{
	hm_monitor_lower(HM_MONITOR_MARKS);
	hm_reader_stop(&reader);
	close_all();
	free(kdreg2.cookie);
	kdreg2.cookie = NULL;
}

static void kdreg2_forked(void)
{
	hm_reader_forked(&reader);
	close_all();
}

const struct hm_monitor hm_monitor_kdreg2 = {
	.name = "kdreg2",
	.start = kdreg2_start,
	.stop = kdreg2_stop,
	.watch = kdreg2_watch,
	.unwatch = kdreg2_unwatch,
	.valid = kdreg2_valid,
	.forked = kdreg2_forked,
};
