/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the tests of completion queues, counters and event queues: the fabric and the domain they hang
 * off, with nothing but what such an object needs, and the checks that all three share.  Include
 * after <cmocka.h>.
 */
#ifndef HM_TEST_QUEUES_H
#define HM_TEST_QUEUES_H

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "tests/unit/warnings.h"

static const enum fi_wait_obj sleeping[] = { FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD };

static const char *cause(int prov_errno)
{
	return prov_errno == HMREG_NO_RIGHT ? "no right" : "some other cause";
}

/* What moving on does, and how often the NIC was asked to. */
static void (*on_progress)(void);
static unsigned int progress_count;

static void progress(struct nic_domain *moved)
{
	(void)moved;
	progress_count++;
	if (on_progress)
		on_progress();
}

static struct nic_ops nic_ops = { .strerror = cause, .progress = progress };
static struct nic_domain nic_domain = { .ops = &nic_ops };
static struct hm_fabric fabric = { .fabric.fid.fclass = FI_CLASS_FABRIC };
/* Not every test needs it. */
__attribute__((unused)) static struct hm_domain domain = {
	.domain.fid.fclass = FI_CLASS_DOMAIN,
	.fabric = &fabric,
	.api_version = HM_API_VERSION,
	.nic = &nic_domain,
};

static inline double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static inline bool readable(struct fid *fid)
{
	struct pollfd pollfd = { .events = POLLIN };

	assert_int_equal(fi_control(fid, FI_GETWAIT, &pollfd.fd), 0);
	return poll(&pollfd, 1, 0) == 1;
}

/*
 * Every slot of the object's table, and closing: other is anything; users counts what is bound to the
 * object, holder what hangs off its owner.  The object was opened with FI_WAIT_FD.
 */
static inline void check_fid(struct fid *fid, struct fid *other, _Atomic uint32_t *users,
			     _Atomic uint32_t *holder)
{
	enum fi_wait_obj obj = FI_WAIT_NONE;
	int fd = -1;

	assert_int_equal(fid->ops->size, sizeof(struct fi_ops));
	assert_int_equal(fi_control(fid, FI_GETWAIT, &fd), 0);
	assert_true(fd >= 0);
	assert_int_equal(fi_control(fid, FI_GETWAITOBJ, &obj), 0);
	assert_int_equal(obj, FI_WAIT_FD);
	assert_refused(fi_control(fid, FI_ENABLE, &fd), -FI_ENOSYS);
	assert_int_equal(fid->ops->bind(fid, other, 0), -FI_ENOSYS);
	assert_int_equal(fid->ops->ops_open(fid, "x", 0, (void **)&other, NULL), -FI_ENOSYS);
	assert_int_equal(fid->ops->tostr(fid, (char *)&fd, sizeof(fd)), -FI_ENOSYS);
	assert_int_equal(fid->ops->ops_set(fid, "x", 0, &fd, NULL), -FI_ENOSYS);
	assert_int_equal(*holder, 1);
	hm_use(users);
	assert_refused(fi_close(fid), -FI_EBUSY);
	assert_int_equal(*holder, 1);
	hm_unuse(users);
	assert_int_equal(fi_close(fid), 0);
	assert_int_equal(*holder, 0);
}

#endif
