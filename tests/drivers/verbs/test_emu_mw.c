/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows of type 1 on the emulated device: what they give, what binding refuses, the settings. */
#include "tests/drivers/verbs/ping.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define BIND	  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)
#define READWRITE (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define SIZE	  64u

/* A region at the far end, and a window that is not bound yet. */
struct scene {
	struct ping ping;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint64_t at;
};

static void open_scene(struct scene *s, unsigned int access)
{
	ping_open(&s->ping, 0);
	ping_connect(&s->ping);
	s->at = (uintptr_t)s->ping.ends[1].buffer;
	s->mr = ibv_reg_mr_iova2(s->ping.pd, s->ping.ends[1].buffer, SIZE, s->at, access);
	assert_non_null(s->mr);
	s->mw = ibv_alloc_mw(s->ping.pd, IBV_MW_TYPE_1);
	assert_non_null(s->mw);
}

static void close_scene(struct scene *s)
{
	assert_int_equal(ibv_dealloc_mw(s->mw), 0);
	assert_int_equal(ibv_dereg_mr(s->mr), 0);
	ping_close(&s->ping);
}

/* On the far end's queue pair, which is not the one that uses it. */
static enum ibv_wc_status bind_at(struct scene *s, uint64_t offset, uint64_t length,
				  unsigned int access)
{
	struct ibv_mw_bind bind = { .wr_id = 9,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { .mr = s->mr,
						   .addr = s->at + offset,
						   .length = length,
						   .mw_access_flags = access } };

	assert_int_equal(ibv_bind_mw(s->ping.ends[1].qp, s->mw, &bind), 0);
	return ping_wc(&s->ping.ends[1]).status;
}

static enum ibv_wc_status write_at(struct scene *s, uint32_t rkey, uint64_t offset, uint32_t length)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = ping_wr(&s->ping, IBV_WR_RDMA_WRITE, &sge, length);

	wr.wr.rdma.rkey = rkey;
	wr.wr.rdma.remote_addr = s->at + offset;
	ping_post(&s->ping.ends[0], &wr);
	return ping_wc(&s->ping.ends[0]).status;
}

/* The outcome of one write into a window of [16, 32), in a scene of its own. */
static void check_write(uint64_t offset, uint32_t length, unsigned int access,
			enum ibv_wc_status status)
{
	struct scene s;

	open_scene(&s, BIND);
	assert_int_equal(bind_at(&s, 16, 16, access), IBV_WC_SUCCESS);
	assert_int_equal(write_at(&s, s.mw->rkey, offset, length), status);
	close_scene(&s);
}

static void window_has_range_and_rights(void **state)
{
	(void)state;
	ping_settings(NULL);
	check_write(16, 16, READWRITE, IBV_WC_SUCCESS);
	check_write(31, 1, IBV_ACCESS_REMOTE_WRITE, IBV_WC_SUCCESS);
	check_write(15, 1, READWRITE, IBV_WC_REM_ACCESS_ERR);
	check_write(32, 1, READWRITE, IBV_WC_REM_ACCESS_ERR);
	check_write(31, 2, READWRITE, IBV_WC_REM_ACCESS_ERR);
	check_write(16, 1, IBV_ACCESS_REMOTE_READ, IBV_WC_REM_ACCESS_ERR);
	ping_settings("mw_bounds=0");
	check_write(32, 1, READWRITE, IBV_WC_SUCCESS);
	check_write(SIZE, 1, READWRITE, IBV_WC_REM_ACCESS_ERR);
	check_write(16, 1, IBV_ACCESS_REMOTE_READ, IBV_WC_REM_ACCESS_ERR);
	ping_settings(NULL);
}

static void old_keys_are_dead(void **state)
{
	struct emu_verbs_counts counts;
	uint32_t unbound, first;
	struct scene s;

	(void)state;
	for (int which = 0; which < 4; which++) {
		open_scene(&s, BIND);
		unbound = s.mw->rkey;
		assert_int_equal(bind_at(&s, 0, 16, READWRITE), IBV_WC_SUCCESS);
		first = s.mw->rkey;
		assert_int_not_equal(first, unbound);
		assert_int_equal(write_at(&s, first, 0, 16), IBV_WC_SUCCESS);
		assert_int_equal(ibv_dereg_mr(s.mr), EBUSY);
		if (which == 1) {
			assert_int_equal(bind_at(&s, 16, 16, READWRITE), IBV_WC_SUCCESS);
			assert_int_not_equal(s.mw->rkey, first);
			assert_int_equal(write_at(&s, s.mw->rkey, 16, 16), IBV_WC_SUCCESS);
		} else if (which == 2) {
			assert_int_equal(bind_at(&s, 0, 0, 0), IBV_WC_SUCCESS);
			emu_verbs_counts(&counts);
			assert_int_equal(counts.bound, 0);
			assert_int_equal(counts.mws, 1);
		} else if (which == 3) {
			assert_int_equal(ibv_dealloc_mw(s.mw), 0);
			s.mw = ibv_alloc_mw(s.ping.pd, IBV_MW_TYPE_1);
			assert_non_null(s.mw);
		}
		assert_int_equal(write_at(&s, which ? first : unbound, 0, 1),
				 IBV_WC_REM_ACCESS_ERR);
		close_scene(&s);
	}
}

static void binding_is_checked(void **state)
{
	static const struct {
		unsigned int region, access;
		uint64_t offset, length;
	} cases[] = {
		{ IBV_ACCESS_LOCAL_WRITE, READWRITE, 0, 8 },
		{ IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_WRITE, 0, 8 },
		{ IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_ATOMIC, 0, 8 },
		{ BIND, READWRITE, 0, SIZE + 1 },
		{ BIND, READWRITE, SIZE, 1 },
		{ BIND, READWRITE, UINT64_MAX, 2 },
		{ BIND, READWRITE | IBV_ACCESS_ZERO_BASED, 0, 8 },
		{ BIND, IBV_ACCESS_LOCAL_WRITE, 0, 8 },
		{ BIND | IBV_ACCESS_ZERO_BASED, READWRITE, 0, 8 },
	};
	struct scene s;
	uint32_t key;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_scene(&s, cases[i].region);
		key = s.mw->rkey;
		assert_int_equal(bind_at(&s, cases[i].offset, cases[i].length, cases[i].access),
				 IBV_WC_MW_BIND_ERR);
		assert_int_equal(s.mw->rkey, key);
		close_scene(&s);
	}
	open_scene(&s, IBV_ACCESS_MW_BIND); /* reading needs no right to write */
	assert_int_equal(bind_at(&s, 0, SIZE, IBV_ACCESS_REMOTE_READ), IBV_WC_SUCCESS);
	close_scene(&s);
}

static void no_region(struct ibv_mr *mr, int error)
{
	int found = errno;

	assert_null(mr);
	assert_int_equal(found, error);
}

/* Memory that is only readable, and DMA-bufs, are not for binding. */
static void regions_to_bind_to(void **state)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);
	struct ibv_mr *mr;
	struct ping ping;

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	for (int allowed = 0; allowed < 2; allowed++) {
		ping_settings(allowed ? "mw_dmabuf=1" : NULL);
		ping_open(&ping, 0);
		no_region(ibv_reg_mr(ping.pd, page, 4096, IBV_ACCESS_MW_BIND), EFAULT);
		mr = ibv_reg_dmabuf_mr(ping.pd, 0, 4096, 0, fd, BIND);
		if (allowed)
			assert_int_equal(ibv_dereg_mr(mr), 0);
		else
			no_region(mr, EINVAL);
		no_region(ibv_reg_dmabuf_mr(ping.pd, 0, 4096, 0, -1, BIND),
			  allowed ? EBADF : EINVAL);
		ping_close(&ping);
	}
	ping_settings(NULL);
	close(fd);
	munmap(page, 4096);
}

static void settings_say_which_types(void **state)
{
	static const char *const settings[] = { "mw=0", "mw=1", "mw=2" };

	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		struct ibv_device_attr attr;
		struct ibv_mw *one, *two;
		struct ping ping;

		ping_settings(settings[kind]);
		ping_open(&ping, 0);
		assert_int_equal(ibv_query_device(ping.context, &attr), 0);
		assert_int_equal(!!(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW), kind == 1);
		assert_int_equal(!!(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B),
				 kind > 0);
		one = ibv_alloc_mw(ping.pd, IBV_MW_TYPE_1);
		two = ibv_alloc_mw(ping.pd, IBV_MW_TYPE_2);
		assert_int_equal(!!one, kind == 1);
		assert_int_equal(!!two, kind > 0);
		if (one)
			assert_int_equal(ibv_dealloc_mw(one), 0);
		if (two)
			assert_int_equal(ibv_dealloc_mw(two), 0);
		ping_close(&ping);
	}
	ping_settings(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window_has_range_and_rights), cmocka_unit_test(old_keys_are_dead),
		cmocka_unit_test(binding_is_checked),	       cmocka_unit_test(regions_to_bind_to),
		cmocka_unit_test(settings_say_which_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
