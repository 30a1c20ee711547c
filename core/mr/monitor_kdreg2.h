/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What kdreg2's device node takes and gives, as its public header (HPE's shs-kdreg2, include/kdreg2.h) has
 * it, and a way for tests to be the device.
 */
#ifndef HM_MONITOR_KDREG2_H
#define HM_MONITOR_KDREG2_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define KDREG2_NODE "/dev/kdreg2"

/* How many regions may be watched; the driver answers with where their states can be read. */
struct kdreg2_config {
	size_t max_regions;
	const struct kdreg2_status *status;
};

/* Read-only; one for each open file. */
struct kdreg2_status {
	uint64_t version;
	size_t max_regions;
	_Atomic uint64_t pending_events, total_events, active_regions;
	const _Atomic uint32_t *state; /* by location */
};

/* A region is as it was watched while the state at its location is the generation. */
struct kdreg2_params {
	size_t location;
	uint32_t generation;
};

struct kdreg2_monitor {
	const void *addr;
	size_t length;
	uint64_t cookie; /* no two that are watched have the same */
	struct kdreg2_params params;
};

struct kdreg2_unmonitor {
	uint64_t cookie;
	struct kdreg2_params params;
};

#define KDREG2_MAPPING_CHANGE 1

struct kdreg2_event {
	uint32_t type;
	uint32_t unused;
	const void *addr;
	size_t len;
	uint64_t cookie;
};

#define KDREG2_CONFIG	 _IOWR('k', 1, struct kdreg2_config)
#define KDREG2_MONITOR	 _IOWR('k', 2, struct kdreg2_monitor)
#define KDREG2_UNMONITOR _IOW('k', 3, struct kdreg2_unmonitor)

static_assert(sizeof(struct kdreg2_config) == 16 && sizeof(struct kdreg2_status) == 48 &&
		      sizeof(struct kdreg2_monitor) == 40 &&
		      sizeof(struct kdreg2_unmonitor) == 24 && sizeof(struct kdreg2_event) == 32,
	      "kdreg2's structs");

/* The system calls; replaced by tests.  Results as the system calls': -1 and errno. */
struct hm_kdreg2_calls {
	int (*open)(const char *path, int flags);
	int (*ioctl)(int fd, unsigned long request, void *arg);
};
extern struct hm_kdreg2_calls hm_kdreg2_calls;

#endif
