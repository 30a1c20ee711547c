/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions through the interface that applications have, over the emulated device: attributes in, verbs
 * objects out, what they hold in between, and nothing left behind.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>

#include "tests/drivers/emu_verbs.h"
#include "tests/fds.h"
#include "tests/unit/warnings.h"

#define ALL   (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PAGE  4096u
#define MOST  (64 * 1024u) /* bytes of one verbs region */
#define TABLE 50	   /* regions that the device holds */

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static uint8_t memory[4 * MOST] __attribute__((aligned(4096)));
static struct emu_verbs_counts before;
static size_t fds_before;

/* A domain of this device with these modes. */
static int open_domain(const char *name, int mode, struct fi_info **of, struct fid_domain **out)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints)
		return -1;
	hints->caps = FI_MSG | FI_RMA | FI_HMEM;
	hints->domain_attr->name = strdup(name);
	hints->domain_attr->mr_mode = mode;
	ret = fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, of);
	fi_freeinfo(hints);
	if (ret == 0 && !fabric)
		ret = fi_fabric((*of)->fabric_attr, &fabric, NULL);
	return ret ? ret : fi_domain(fabric, *of, out, NULL);
}

#define MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM)

static int open_group(void **state)
{
	setenv("HMREG_EMU_VERBS",
	       "devices=3,emu0.max_mr_size=64K,emu0.max_mr=50,emu1.odp=1,emu2.rereg=1", 1);
	return open_domain("emu0", MODES, &info, &domain) != 0 ? -1 : warnings_start(state);
}

static int close_group(void **state)
{
	int ret = fi_close(&domain->fid) != 0 || fi_close(&fabric->fid) != 0;

	fi_freeinfo(info);
	return ret ? -1 : warnings_stop(state);
}

static int set_up(void **state)
{
	(void)state;
	emu_verbs_counts(&before);
	fds_before = test_fds();
	warning_count = 0;
	return 0;
}

/* Whatever a case did, regions, pinned bytes and descriptors are as many as before. */
static int tear_down(void **state)
{
	struct emu_verbs_counts after;

	(void)state;
	emu_verbs_reset();
	emu_verbs_counts(&after);
	assert_int_equal(after.mrs, before.mrs);
	assert_int_equal(after.dmabufs, before.dmabufs);
	assert_int_equal(after.pinned, before.pinned);
	assert_int_equal(test_fds(), fds_before);
	return 0;
}

static struct hmreg_mr_ops *ops_of(struct fid_mr *mr)
{
	struct hmreg_mr_ops *ops;

	assert_int_equal(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL), 0);
	assert_true(ops->size >= sizeof(*ops));
	return ops;
}

/* What the kernel would call a dma-buf, the emulated device takes from a memfd. */
static int make_dmabuf(size_t size)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static int reg_dmabuf(struct fi_mr_dmabuf dmabuf, struct fid_mr **mr)
{
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .access = ALL };

	return fi_mr_regattr(domain, &attr, FI_MR_DMABUF, mr);
}

/* ---- host memory ---- */

static void reg_01_host_memory(void **state)
{
	struct hmreg_region_info about = { .size = sizeof(about) };
	struct hmreg_verbs_part part = { .size = sizeof(part) };
	struct emu_verbs_counts now;
	struct fid_mr *mr;

	(void)state;
	assert_int_equal(fi_mr_reg(domain, memory + 100, 5000, ALL, 0, 0, 0, &mr, NULL), 0);
	emu_verbs_counts(&now);
	assert_int_equal(now.mrs, before.mrs + 1);
	assert_int_equal(ops_of(mr)->info(&mr->fid, &about), 0);
	assert_int_equal(about.path, HMREG_PATH_HOST);
	assert_int_equal(about.parts, 1);
	assert_int_equal(about.len, 5000);
	assert_int_equal(ops_of(mr)->verbs_part(&mr->fid, 0, &part), 0);
	/* a key that queue pairs of the program can use as it is */
	assert_int_equal(fi_mr_key(mr), part.rkey);
	assert_int_equal(part.rkey, part.mr->rkey);
	assert_int_equal(part.lkey, part.mr->lkey);
	assert_int_equal(part.iova, (uintptr_t)memory + 100);
	assert_int_equal(fi_close(&mr->fid), 0);
}

static void reg_02_memory_that_is_read_only(void **state)
{
	void *at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct fid_mr *mr;

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(fi_mr_reg(domain, at, PAGE, FI_SEND | FI_REMOTE_READ, 0, 0, 0, &mr, NULL),
			 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_refused(fi_mr_reg(domain, at, PAGE, FI_RECV, 0, 0, 0, &mr, NULL), -FI_EACCES);
	assert_refused(fi_mr_reg(domain, at, PAGE, FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL),
		       -FI_EACCES);
	munmap(at, PAGE);
	assert_refused(fi_mr_reg(domain, at, PAGE, FI_SEND, 0, 0, 0, &mr, NULL), -FI_EFAULT);
}

static void reg_03_one_buffer_many_times(void **state)
{
	struct fid_mr *mr[10];

	(void)state;
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(fi_mr_reg(domain, memory, PAGE, i % 2 ? ALL : FI_SEND, 0, 0, 0,
					   &mr[i], NULL),
				 0);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(fi_mr_key(mr[i]), fi_mr_key(mr[k]));
	}
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(fi_close(&mr[i]->fid), 0);
}

static void reg_05_the_device_is_full(void **state)
{
	struct fid_mr *mr[TABLE + 1];
	size_t n = 0;

	(void)state;
	while (n < TABLE) {
		assert_int_equal(fi_mr_reg(domain, memory, 64, ALL, 0, 0, 0, &mr[n], NULL), 0);
		n++;
	}
	assert_refused(fi_mr_reg(domain, memory, 64, ALL, 0, 0, 0, &mr[n], NULL), -FI_ENOSPC);
	assert_int_equal(fi_close(&mr[--n]->fid), 0);
	/* fn_05: two parts, of which one fits */
	assert_refused(fi_mr_reg(domain, memory, 2 * MOST, ALL, 0, 0, 0, &mr[n], NULL), -FI_ENOSPC);
	assert_int_equal(fi_mr_reg(domain, memory, MOST, ALL, 0, 0, 0, &mr[n], NULL), 0);
	n++;
	while (n-- > 0)
		assert_int_equal(fi_close(&mr[n]->fid), 0);
}

static void fn_26_parts(void **state)
{
	struct hmreg_region_info about = { .size = sizeof(about) };
	struct hmreg_verbs_part part = { .size = sizeof(part) };
	struct emu_verbs_counts now;
	uint64_t done = 0;
	struct fid_mr *mr;

	(void)state;
	assert_int_equal(fi_mr_reg(domain, memory + 10, 3 * MOST, ALL, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(ops_of(mr)->info(&mr->fid, &about), 0);
	assert_int_equal(about.parts, 4);
	assert_int_equal(about.len, 3 * MOST);
	emu_verbs_counts(&now);
	assert_int_equal(now.mrs, before.mrs + 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(ops_of(mr)->verbs_part(&mr->fid, i, &part), 0);
		assert_int_equal(part.offset, done);
		assert_int_equal(part.iova, (uintptr_t)memory + 10 + done);
		done += part.len;
	}
	assert_int_equal(done, 3 * MOST);
	assert_refused(ops_of(mr)->verbs_part(&mr->fid, 4, &part), -FI_ENOENT);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_refused(fi_mr_reg(domain, memory, (size_t)(TABLE + 1) * MOST, ALL, 0, 0, 0, &mr,
				 NULL),
		       -FI_EINVAL);
}

/* ---- dma-bufs ---- */

static void flag_05_fn_03_fn_13_only_the_own_record_is_needed(void **state)
{
	struct hmreg_region_info about = { .size = sizeof(about) };
	struct hmreg_verbs_part part = { .size = sizeof(part) };
	int fd = make_dmabuf(16 * PAGE);
	struct emu_verbs_counts now;
	struct fid_mr *mr;

	(void)state;
	assert_int_equal(reg_dmabuf((struct fi_mr_dmabuf){ .fd = fd,
							   .offset = PAGE + 100,
							   .len = 20000,
							   .base_addr = memory },
				    &mr),
			 0);
	close(fd);
	assert_int_equal(test_fds(), fds_before);
	emu_verbs_counts(&now);
	assert_int_equal(now.dmabufs, before.dmabufs + 1);
	assert_int_equal(ops_of(mr)->verbs_part(&mr->fid, 0, &part), 0);
	part.mr->addr = NULL; /* as some drivers leave it */
	part.mr->length = 0;
	part.iova = part.len = 0;
	assert_int_equal(ops_of(mr)->info(&mr->fid, &about), 0);
	assert_int_equal(about.path, HMREG_PATH_DMABUF);
	assert_int_equal(about.len, 20000);
	assert_int_equal(ops_of(mr)->verbs_part(&mr->fid, 0, &part), 0);
	assert_int_equal(part.iova, (uintptr_t)memory + PAGE + 100);
	assert_int_equal(part.len, 20000);
	assert_int_equal(fi_mr_refresh(mr, NULL, 0, 0), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
}

static void flag_05_refusals(void **state)
{
	int fd = make_dmabuf(PAGE), pipes[2];
	struct iovec iov = { memory, PAGE };
	struct fid_mr *mr;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_refused(reg_dmabuf((struct fi_mr_dmabuf){ .fd = fd, .len = PAGE + 1 }, &mr),
		       -FI_EINVAL);
	assert_refused(reg_dmabuf((struct fi_mr_dmabuf){ .fd = -1, .len = PAGE }, &mr), -FI_EBADF);
	assert_refused(reg_dmabuf((struct fi_mr_dmabuf){ .fd = pipes[0], .len = PAGE }, &mr),
		       -FI_EINVAL);
	/* the calls that have no place for a dma-buf must not take their iovecs for one (fn_12) */
	assert_refused(fi_mr_reg(domain, memory, PAGE, ALL, 0, 0, FI_MR_DMABUF, &mr, NULL),
		       -FI_EBADFLAGS);
	assert_refused(fi_mr_regv(domain, &iov, 1, ALL, 0, 0, FI_MR_DMABUF, &mr, NULL),
		       -FI_EBADFLAGS);
	emu_verbs_fail("ibv_reg_dmabuf_mr", 1, EOPNOTSUPP);
	assert_refused(reg_dmabuf((struct fi_mr_dmabuf){ .fd = fd, .len = PAGE }, &mr),
		       -FI_EOPNOTSUPP);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
}

static void fn_05_a_split_dmabuf(void **state)
{
	int fd = make_dmabuf(4 * MOST);
	struct hmreg_region_info about = { .size = sizeof(about) };
	struct fid_mr *mr;

	(void)state;
	for (int nth = 1; nth <= 4; nth++) {
		emu_verbs_fail("ibv_reg_dmabuf_mr", nth, ENOMEM);
		assert_refused(reg_dmabuf((struct fi_mr_dmabuf){ .fd = fd, .len = 4 * MOST }, &mr),
			       -FI_ENOMEM);
	}
	assert_int_equal(reg_dmabuf((struct fi_mr_dmabuf){ .fd = fd, .len = 4 * MOST }, &mr), 0);
	close(fd);
	assert_int_equal(ops_of(mr)->info(&mr->fid, &about), 0);
	assert_int_equal(about.parts, 4);
	assert_int_equal(fi_close(&mr->fid), 0);
}

/* ---- modes ---- */

static uint32_t state_of(struct fid_mr *mr)
{
	struct hmreg_region_info about = { .size = sizeof(about) };

	assert_int_equal(ops_of(mr)->info(&mr->fid, &about), 0);
	return about.state;
}

/* Without FI_MR_ALLOCATED a region may be over nothing, and over something else later. */
static void mode_06_api_15_on_demand(void **state)
{
	uint8_t *at =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct emu_verbs_counts now, then;
	struct fid_domain *on_demand;
	struct fi_info *its;
	struct fid_mr *mr;

	(void)state;
	assert_ptr_not_equal(at, MAP_FAILED);
	munmap(at, 4 * PAGE);
	assert_int_equal(open_domain("emu1", MODES & ~FI_MR_ALLOCATED, &its, &on_demand), 0);
	assert_int_equal(fi_mr_reg(on_demand, at, 4 * PAGE, ALL, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(state_of(mr), HMREG_REGION_ON_DEMAND);
	emu_verbs_counts(&now);
	assert_int_equal(now.odp_mrs, before.odp_mrs + 1);
	assert_int_equal(now.pinned, before.pinned);
	assert_int_equal(fi_mr_refresh(mr, NULL, 0, 0), 0); /* nothing there yet */
	assert_ptr_equal(mmap(at, 4 * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 at);
	assert_int_equal(fi_mr_refresh(mr, NULL, 0, 0), 0);
	emu_verbs_counts(&then);
	assert_int_equal(then.advised, now.advised + 4 * PAGE);
	assert_int_equal(fi_close(&mr->fid), 0);
	munmap(at, 4 * PAGE);
	assert_int_equal(fi_close(&on_demand->fid), 0);
	fi_freeinfo(its);
	assert_int_equal(warning_count, 0);
}

static void api_15_pinned_pages_are_exchanged(void **state)
{
	struct iovec part = { memory + 10, 10 }, outside = { memory + 2 * PAGE, 1 };
	struct fid_domain *repins;
	struct fi_info *its;
	struct fid_mr *mr;
	long calls;

	(void)state;
	assert_int_equal(open_domain("emu2", MODES, &its, &repins), 0);
	assert_int_equal(fi_mr_reg(repins, memory, 2 * PAGE, ALL, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(state_of(mr), 0);
	calls = emu_verbs_calls("ibv_rereg_mr");
	assert_int_equal(fi_mr_refresh(mr, &part, 1, 0), 0);
	assert_int_equal(emu_verbs_calls("ibv_rereg_mr"), calls + 1);
	assert_refused(fi_mr_refresh(mr, &outside, 1, 0), -FI_EINVAL);
	assert_int_equal(emu_verbs_calls("ibv_rereg_mr"), calls + 1);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&repins->fid), 0);
	fi_freeinfo(its);
	/* what the device cannot do is said */
	assert_int_equal(fi_mr_reg(domain, memory, PAGE, ALL, 0, 0, 0, &mr, NULL), 0);
	assert_refused(fi_mr_refresh(mr, NULL, 0, 0), -FI_ENOSYS);
	assert_int_equal(fi_close(&mr->fid), 0);
}

static void mode_02_addressed_from_0(void **state)
{
	struct hmreg_verbs_part part = { .size = sizeof(part) };
	struct fid_domain *offsets;
	struct fi_info *its;
	struct fid_mr *mr;
	int fd = make_dmabuf(2 * PAGE);
	struct fi_mr_dmabuf dmabuf = { .fd = fd, .offset = 100, .len = PAGE };
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .access = ALL };

	(void)state;
	assert_int_equal(open_domain("emu2", MODES & ~FI_MR_VIRT_ADDR, &its, &offsets), 0);
	assert_int_equal(fi_mr_reg(offsets, memory + 10, 100, ALL, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(state_of(mr), HMREG_REGION_ZERO_BASE);
	assert_int_equal(ops_of(mr)->verbs_part(&mr->fid, 0, &part), 0);
	assert_int_equal(part.iova, 10);
	assert_int_equal(fi_mr_key(mr), part.rkey | UINT64_C(10) << 32);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_mr_regattr(offsets, &attr, FI_MR_DMABUF, &mr), 0);
	assert_int_equal(ops_of(mr)->verbs_part(&mr->fid, 0, &part), 0);
	assert_int_equal(part.iova, 100);
	assert_int_equal(fi_mr_key(mr), part.rkey | UINT64_C(100) << 32);
	assert_int_equal(fi_close(&mr->fid), 0);
	close(fd);
	assert_int_equal(fi_close(&offsets->fid), 0);
	fi_freeinfo(its);
}

static void reg_08_fn_35_relaxed_ordering(void **state)
{
	struct emu_verbs_counts now;
	struct fid_mr *strict, *relaxed;

	(void)state;
	assert_int_equal(fi_mr_reg(domain, memory, PAGE, ALL, 0, 0, 0, &strict, NULL), 0);
	emu_verbs_counts(&now);
	assert_int_equal(now.relaxed_mrs, before.relaxed_mrs);
	assert_int_equal(fi_mr_reg(domain, memory, PAGE, ALL, 0, 0, HMREG_MR_RELAXED_ORDERING,
				   &relaxed, NULL),
			 0);
	emu_verbs_counts(&now);
	assert_int_equal(now.relaxed_mrs, before.relaxed_mrs + 1);
	assert_int_equal(state_of(relaxed), HMREG_REGION_RELAXED);
	assert_int_equal(fi_close(&relaxed->fid), 0);
	assert_int_equal(fi_close(&strict->fid), 0);
}

/* ---- close ---- */

static void a_busy_region_stays_as_it_is(void **state)
{
	struct hmreg_region_info about = { .size = sizeof(about) };
	struct fid_mr *mr;
	void *desc;
	uint64_t key;

	(void)state;
	assert_int_equal(fi_mr_reg(domain, memory, PAGE, ALL, 0, 0, 0, &mr, NULL), 0);
	desc = fi_mr_desc(mr);
	key = fi_mr_key(mr);
	for (unsigned int i = 0; i < 3; i++) {
		emu_verbs_fail("ibv_dereg_mr", 1, EBUSY);
		assert_refused(fi_close(&mr->fid), -FI_EBUSY);
		assert_int_equal(mr->fid.fclass, FI_CLASS_MR);
		assert_ptr_equal(fi_mr_desc(mr), desc);
		assert_int_equal(fi_mr_key(mr), key);
		assert_int_equal(ops_of(mr)->info(&mr->fid, &about), 0);
	}
	assert_int_equal(fi_close(&mr->fid), 0);
}

static void stress_04_ten_thousand_regions(void **state)
{
	int fd = make_dmabuf(MOST);

	(void)state;
	for (unsigned int i = 0; i < 10000; i++) {
		struct fid_mr *mr;

		if (i % 3 == 0)
			assert_int_equal(
				reg_dmabuf((struct fi_mr_dmabuf){ .fd = fd, .len = MOST }, &mr), 0);
		else
			assert_int_equal(fi_mr_reg(domain, memory, i % 3 * MOST, ALL, 0, 0, 0, &mr,
						   NULL),
					 0);
		assert_int_equal(fi_close(&mr->fid), 0);
	}
	close(fd);
}

static void *churn(void *arg)
{
	uint8_t *mine = arg;

	for (unsigned int i = 0; i < 500; i++) {
		struct fid_mr *a, *b;

		if (fi_mr_reg(domain, mine, 100, ALL, 0, 0, 0, &a, NULL) != 0 ||
		    fi_mr_reg(domain, mine, MOST + 1, ALL, 0, 0, 0, &b, NULL) != 0 ||
		    fi_close(&a->fid) != 0 || fi_close(&b->fid) != 0)
			return arg;
	}
	return NULL;
}

static void regions_come_and_go_on_many_threads(void **state)
{
	pthread_t thread[4];

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, memory + i * PAGE), 0);
	for (size_t i = 0; i < 4; i++) {
		void *failed;

		assert_int_equal(pthread_join(thread[i], &failed), 0);
		assert_null(failed);
	}
	assert_int_equal(warning_count, 0);
}

/* ---- the operations of a region ---- */

static void the_caller_s_size_decides(void **state)
{
	struct hmreg_region_info about;
	struct hmreg_verbs_part part;
	struct hmreg_mr_ops *ops;
	struct fid_mr *mr;
	void *none = &about;

	(void)state;
	assert_int_equal(fi_mr_reg(domain, memory, PAGE, ALL, 0, 0, 0, &mr, NULL), 0);
	ops = ops_of(mr);
	memset(&about, 0x55, sizeof(about));
	about.size = offsetof(struct hmreg_region_info, parts);
	assert_int_equal(ops->info(&mr->fid, &about), 0);
	assert_int_equal(about.size, offsetof(struct hmreg_region_info, parts));
	assert_int_equal(about.path, HMREG_PATH_HOST);
	assert_int_equal(about.parts, 0x55555555);
	about.size = sizeof(about) + 100; /* of a later interface */
	assert_int_equal(ops->info(&mr->fid, &about), 0);
	assert_int_equal(about.size, sizeof(about));
	memset(&part, 0x55, sizeof(part));
	part.size = offsetof(struct hmreg_verbs_part, iova);
	assert_int_equal(ops->verbs_part(&mr->fid, 0, &part), 0);
	assert_int_equal(part.rkey, fi_mr_key(mr));
	assert_int_equal(part.iova, UINT64_C(0x5555555555555555));
	about.size = part.size = 0;
	assert_refused(ops->info(&mr->fid, &about), -FI_EINVAL);
	assert_refused(ops->verbs_part(&mr->fid, 0, &part), -FI_EINVAL);
	assert_refused(ops->info(&mr->fid, NULL), -FI_EINVAL);
	assert_refused(ops->verbs_part(&mr->fid, 0, NULL), -FI_EINVAL);
	about.size = sizeof(about);
	part.size = sizeof(part);
	assert_refused(ops->info(NULL, &about), -FI_EINVAL);
	assert_refused(ops->info(&domain->fid, &about), -FI_EINVAL);
	assert_refused(ops->verbs_part(&domain->fid, 0, &part), -FI_EINVAL);
	assert_int_equal(fi_open_ops(&mr->fid, "other", 0, &none, NULL), -FI_ENOSYS);
	assert_refused(fi_open_ops(&mr->fid, HMREG_MR_OPS, 1, &none, NULL), -FI_EBADFLAGS);
	assert_refused(fi_open_ops(&mr->fid, NULL, 0, &none, NULL), -FI_EINVAL);
	assert_refused(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, NULL, NULL), -FI_EINVAL);
	assert_ptr_equal(none, &about);
	assert_int_equal(fi_close(&mr->fid), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(reg_01_host_memory),
		CASE(reg_02_memory_that_is_read_only),
		CASE(reg_03_one_buffer_many_times),
		CASE(reg_05_the_device_is_full),
		CASE(fn_26_parts),
		CASE(flag_05_fn_03_fn_13_only_the_own_record_is_needed),
		CASE(flag_05_refusals),
		CASE(fn_05_a_split_dmabuf),
		CASE(mode_06_api_15_on_demand),
		CASE(api_15_pinned_pages_are_exchanged),
		CASE(mode_02_addressed_from_0),
		CASE(reg_08_fn_35_relaxed_ordering),
		CASE(a_busy_region_stays_as_it_is),
		CASE(stress_04_ten_thousand_regions),
		CASE(regions_come_and_go_on_many_threads),
		CASE(the_caller_s_size_decides),
	};

	return cmocka_run_group_tests_name("verbs_regions", tests, open_group, close_group);
}
