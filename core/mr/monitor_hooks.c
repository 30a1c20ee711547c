/* SPDX-License-Identifier: BSD-2-Clause */
/* The monitor memhooks: start and stop. */
#include "core/mr/monitor_hooks.h"

#include <stdio.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"

_Atomic bool hm_hooks_on;
struct hm_hooks_trial hm_hooks_trial;

static void stop(void)
{
	hm_hooks_unwalk();
	hm_hooks_alloc_release();
	atomic_store(&hm_hooks_on, false);
}

static const char *blocks_text(void)
{
	switch (hm_hooks_blocks()) {
	case HM_BLOCKS_GLIBC:
		return "the C library does not trim its heap meanwhile";
	case HM_BLOCKS_OTHER:
		return "the program's allocator is followed by what it calls";
	default:
		return "the program's allocator is not known: each block that is freed is reported";
	}
}

/* Words are changed; tried, and if glibc's blocks are not as they were taken for, tried without that. */
static bool follow(char *why, size_t size)
{
	for (;;) {
		atomic_store(&hm_hooks_on, true);
		if (hm_hooks_alloc_keep(why, size) && hm_hooks_walk(why, size) &&
		    hm_hooks_try(why, size))
			return true;
		stop();
		if (hm_hooks_blocks() == HM_BLOCKS_EVERY)
			return false;
		hm_hooks_alloc_doubt();
	}
}

static int start(char *why, size_t size)
{
	if (!hm_hooks_resolve(why, size) || !hm_hooks_pin(why, size))
		return -FI_ENOSYS;
	if (hm_hooks_thread_init() != 0) {
		snprintf(why, size, "no key of thread-specific data is left");
		return -FI_ENOSYS;
	}
	hm_hooks_alloc_find();
	if (!follow(why, size))
		return -FI_ENOSYS;
	HM_INFO(FI_LOG_MR, "memhooks: %s", blocks_text());
	return 0;
}

const struct hm_monitor hm_monitor_hooks = {
	.name = "memhooks",
	.start = start,
	.stop = stop,
	.watch = hm_hooks_thread_watch,
};
