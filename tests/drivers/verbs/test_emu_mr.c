/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration on the emulated device: what is refused and why, windows, settings and failures on request. */
#include "tests/drivers/verbs/ping.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_mr *reg(struct ping *ping, void *addr, size_t length, unsigned int access)
{
	return ibv_reg_mr_iova2(ping->pd, addr, length, (uintptr_t)addr, access);
}

static void refused(struct ibv_mr *mr, int error)
{
	int found = errno;

	assert_null(mr);
	assert_int_equal(found, error);
}

static void rights_are_checked(void **state)
{
	struct ping ping;
	uint8_t *at;

	(void)state;
	ping_settings("max_mr_size=64K");
	ping_open(&ping, 0);
	at = ping.ends[0].buffer;
	refused(reg(&ping, at, 8, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	refused(reg(&ping, at, 8, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	refused(reg(&ping, at, 8, IBV_ACCESS_ON_DEMAND), EINVAL);
	refused(reg(&ping, at, 8, 1u << 12), EINVAL);
	refused(reg(&ping, at, 0, 0), EINVAL);
	refused(reg(&ping, at, 65537, 0), EINVAL);
	refused(reg(&ping, (void *)(UINTPTR_MAX - 4095), 8192, 0), EINVAL);
	refused(ibv_reg_mr_iova2(ping.pd, at, 8, 12, 0), EINVAL);
	ping_close(&ping);
}

static void memory_is_looked_at(void **state)
{
	struct ping ping;
	uint8_t *pages = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	(void)state;
	assert_ptr_not_equal(pages, MAP_FAILED);
	ping_settings(NULL);
	ping_open(&ping, 0);
	refused(reg(&ping, NULL, 8, 0), EFAULT);
	refused(reg(&ping, pages, 8, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	mr = reg(&ping, pages, 3 * 4096, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	refused(reg(&ping, pages, 3 * 4096, 0), EFAULT);
	assert_int_equal(mprotect(pages, 4096, PROT_READ | PROT_WRITE), 0);
	refused(reg(&ping, pages, 4097, REMOTE), EFAULT);
	mr = reg(&ping, pages, 4096, REMOTE);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(munmap(pages, 3 * 4096), 0);
	ping_close(&ping);
}

static void limits_are_kept(void **state)
{
	struct ping ping;
	struct emu_verbs_counts counts;
	struct rlimit old, few = { .rlim_cur = 4096 };

	(void)state;
	/* The two buffers of ping_open() take two regions of two pages. */
	ping_settings("max_mr=2");
	ping_open(&ping, 0);
	refused(reg(&ping, ping.ends[0].buffer, 8, 0), ENOMEM);
	ping_close(&ping);
	ping_settings("memlock=20K");
	ping_open(&ping, 0);
	emu_verbs_counts(&counts);
	assert_int_equal(counts.pinned, 2 * PING_BYTES);
	assert_int_equal(counts.mrs, 2);
	refused(reg(&ping, ping.ends[0].buffer, 4097, 0), ENOMEM);
	assert_int_equal(ibv_dereg_mr(reg(&ping, ping.ends[0].buffer, 4096, 0)), 0);
	ping_close(&ping);
	ping_settings("memlock=rlimit");
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &old), 0);
	few.rlim_max = old.rlim_max;
	ping_open(&ping, 0);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &few), 0);
	refused(reg(&ping, ping.ends[0].buffer, 8, 0), ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &old), 0);
	ping_close(&ping);
}

static void region_starts_where_asked(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	ping_connect(&ping);
	mr = ibv_reg_mr_iova2(ping.pd, ping.ends[1].buffer + 16, 64, 16, REMOTE);
	assert_non_null(mr);
	ping.ends[0].buffer[0] = 5;
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 1);
	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = 17;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(ping.ends[1].buffer[17], 5);
	wr.wr.rdma.remote_addr = 15;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ping_close(&ping);
	ping_settings("zero_based=0");
	ping_open(&ping, 0);
	refused(ibv_reg_mr_iova2(ping.pd, ping.ends[1].buffer, 64, 0, REMOTE), EINVAL);
	ping_close(&ping);
}

static int new_memfd(size_t size)
{
	int fd = memfd_create("buffer", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static void dmabuf_outlives_its_descriptor(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;
	int fd = new_memfd(3 * 4096);
	uint8_t *view = mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED, fd, 0);

	(void)state;
	assert_ptr_not_equal(view, MAP_FAILED);
	ping_settings(NULL);
	ping_open(&ping, 0);
	ping_connect(&ping);
	refused(ibv_reg_dmabuf_mr(ping.pd, 0, 3 * 4096 + 1, 0, fd, REMOTE), EINVAL);
	refused(ibv_reg_dmabuf_mr(ping.pd, 3 * 4096, 1, 0, fd, REMOTE), EINVAL);
	refused(ibv_reg_dmabuf_mr(ping.pd, 4097, 8, 0x10000, fd, REMOTE), EINVAL);
	refused(ibv_reg_dmabuf_mr(ping.pd, 0, 8, 0, -1, REMOTE), EBADF);
	mr = ibv_reg_dmabuf_mr(ping.pd, 4097, 5000, 0x10001, fd, REMOTE);
	assert_non_null(mr);
	assert_int_equal(close(fd), 0);
	ping.ends[0].buffer[0] = 5;
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 1);
	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = 0x10001 + 4999;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(view[4097 + 4999], 5);
	wr.wr.rdma.remote_addr++;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(munmap(view, 3 * 4096), 0);
	ping_close(&ping);
	ping_settings("dmabuf=0");
	ping_open(&ping, 0);
	refused(ibv_reg_dmabuf_mr(ping.pd, 0, 8, 0, 0, REMOTE), EOPNOTSUPP);
	ping_close(&ping);
}

static void change(const char *settings, int new_key)
{
	struct ping ping;
	struct ibv_mr *mr;
	uint32_t key;

	ping_settings(settings);
	ping_open(&ping, 0);
	mr = reg(&ping, ping.ends[0].buffer, 4096, 0);
	assert_non_null(mr);
	key = mr->rkey;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE), 0);
	assert_int_equal(mr->rkey, key);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				      ping.ends[0].buffer, 8192, 0),
			 0);
	assert_int_equal(mr->rkey != key, new_key);
	assert_int_equal(mr->length, 8192);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 8192, 0),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EFAULT);
	assert_ptr_equal(mr->addr, ping.ends[0].buffer);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ping_close(&ping);
}

static void regions_change(void **state)
{
	struct ping ping;

	(void)state;
	change("rereg=1", 0);
	change("rereg=2", 1);
	ping_settings(NULL);
	ping_open(&ping, 0);
	assert_int_equal(ibv_rereg_mr(ping.ends[0].mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      REMOTE),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EOPNOTSUPP);
	ping_close(&ping);
}

static void window_gives_part_of_region(void **state)
{
	struct ping ping;
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_send_wr bind = { .wr_id = 9,
				    .opcode = IBV_WR_BIND_MW,
				    .send_flags = IBV_SEND_SIGNALED };

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	ping_connect(&ping);
	mr = reg(&ping, ping.ends[1].buffer, 64, REMOTE | IBV_ACCESS_MW_BIND);
	assert_non_null(mr);
	mw = ibv_alloc_mw(ping.pd, IBV_MW_TYPE_2);
	assert_non_null(mw);
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info.mr = mr;
	bind.bind_mw.bind_info.addr = (uintptr_t)ping.ends[1].buffer + 8;
	bind.bind_mw.bind_info.length = 8;
	bind.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	ping_post(&ping.ends[1], &bind);
	ping_expect(&ping.ends[1], 9, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	ping.ends[0].buffer[0] = 5;
	wr = ping_wr(&ping, IBV_WR_RDMA_WRITE, &sge, 1);
	wr.wr.rdma.rkey = bind.bind_mw.rkey;
	wr.wr.rdma.remote_addr += 15;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(ping.ends[1].buffer[15], 5);
	wr.wr.rdma.remote_addr++;
	ping_post(&ping.ends[0], &wr);
	ping_expect(&ping.ends[0], 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ping_close(&ping);
}

static void prefetch_needs_on_demand_region(void **state)
{
	struct ping ping;
	struct emu_verbs_counts before, after;
	struct ibv_sge sge;
	struct ibv_mr *mr;

	(void)state;
	ping_settings("odp=2");
	ping_open(&ping, 0);
	emu_verbs_counts(&before);
	mr = reg(&ping, NULL, SIZE_MAX, REMOTE | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	emu_verbs_counts(&after);
	assert_int_equal(after.pinned, before.pinned);
	assert_int_equal(after.odp_mrs, 1);
	sge = (struct ibv_sge){ (uintptr_t)ping.ends[0].buffer, 4096, mr->lkey };
	assert_int_equal(ibv_advise_mr(ping.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
				       IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 0);
	emu_verbs_counts(&after);
	assert_int_equal(after.advised, before.advised + 4096);
	sge.addr = 4096;
	assert_int_equal(ibv_advise_mr(ping.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
				       IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
			 EFAULT);
	sge = (struct ibv_sge){ (uintptr_t)ping.ends[0].buffer, 4096, ping.ends[0].mr->lkey };
	assert_int_equal(ibv_advise_mr(ping.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ping_close(&ping);
}

static void keys_differ_for_long(void **state)
{
	enum {
		KEYS = 20000,
		LONG = 1000
	};
	struct ping ping;
	struct use {
		uint32_t key;
		int when; /* 0: never */
	} *uses = calloc(1 << 16, sizeof(*uses));

	(void)state;
	assert_non_null(uses);
	ping_settings(NULL);
	ping_open(&ping, 0);
	for (int i = 1; i <= KEYS; i++) {
		struct ibv_mr *mr = reg(&ping, ping.ends[0].buffer, 8, 0);
		struct use *use;

		assert_non_null(mr);
		assert_int_equal(mr->lkey, mr->rkey);
		assert_true(mr->lkey >> 8 < 1 << 16);
		use = &uses[mr->lkey >> 8];
		/* A number may be used again after many others; the key's low byte is another then. */
		if (use->when) {
			assert_true(i - use->when >= LONG);
			assert_int_not_equal(use->key, mr->lkey);
		}
		*use = (struct use){ mr->lkey, i };
		assert_int_equal(ibv_dereg_mr(mr), 0);
	}
	free(uses);
	ping_close(&ping);
}

static void calls_fail_on_request(void **state)
{
	struct ping ping;
	long calls;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 0);
	calls = emu_verbs_calls("ibv_alloc_pd");
	assert_int_equal(emu_verbs_fail("ibv_alloc_pd", 2, EMFILE), 1);
	assert_int_equal(ibv_dealloc_pd(ibv_alloc_pd(ping.context)), 0);
	assert_null(ibv_alloc_pd(ping.context));
	assert_int_equal(errno, EMFILE);
	assert_int_equal(ibv_dealloc_pd(ibv_alloc_pd(ping.context)), 0);
	assert_int_equal(emu_verbs_calls("ibv_alloc_pd"), calls + 3);
	assert_int_equal(emu_verbs_fail("ibv_reg_mr*", -1, ENOMEM), 3);
	for (int i = 0; i < 2; i++)
		refused(reg(&ping, ping.ends[0].buffer, 8, 0), ENOMEM);
	emu_verbs_reset();
	assert_int_equal(ibv_dereg_mr(reg(&ping, ping.ends[0].buffer, 8, 0)), 0);
	assert_int_equal(emu_verbs_fail("ibv_nothing", 1, 1), 0);
	assert_int_equal(emu_verbs_calls("ibv_nothing"), -1);
	ping_close(&ping);
}

static void objects_in_use_stay(void **state)
{
	struct ping ping;

	(void)state;
	ping_settings(NULL);
	ping_open(&ping, 1);
	assert_int_equal(ibv_dealloc_pd(ping.pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(ping.ends[0].cq), EBUSY);
	assert_int_equal(ibv_destroy_srq(ping.srq), EBUSY);
	ping_close(&ping);
}

/* The devices that the settings ask for. */
static void settings_shape_devices(void **state)
{
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry gid;
	int count;

	(void)state;
	ping_settings("devices=2,emu1.port=down,emu1.gids=none,emu1.odp=1,emu0.open=EACCES");
	list = ibv_get_device_list(&count);
	assert_int_equal(count, 2);
	assert_null(list[2]);
	assert_null(ibv_open_device(list[0]));
	assert_int_equal(errno, EACCES);
	assert_string_equal(ibv_get_device_name(list[1]), "emu1");
	context = ibv_open_device(list[1]);
	assert_non_null(context);
	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	assert_int_equal(attr.odp_caps.general_caps, IBV_ODP_SUPPORT);
	assert_int_equal(attr.orig_attr.phys_port_cnt, 1);
	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_DOWN);
	assert_int_equal(ibv_query_port(context, 2, &port), EINVAL);
	assert_int_equal(ibv_query_gid_ex(context, 1, 0, &gid, 0), ENODATA);
	assert_int_equal(ibv_close_device(context), 0);
	ibv_free_device_list(list);
	ping_settings("list=ENOSYS");
	assert_null(ibv_get_device_list(&count));
	assert_int_equal(errno, ENOSYS);
}

static void null_mode_hands_out_keys(void **state)
{
	struct ping ping;
	struct ibv_mr *first, *second;

	(void)state;
	ping_settings("null=1");
	ping_open(&ping, 0);
	first = reg(&ping, NULL, 8, 0);
	second = reg(&ping, NULL, 8, 0);
	assert_non_null(first);
	assert_non_null(second);
	assert_int_not_equal(first->rkey, second->rkey);
	assert_int_equal(ibv_dereg_mr(first), 0);
	assert_int_equal(ibv_dereg_mr(second), 0);
	ping_close(&ping);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights_are_checked),
		cmocka_unit_test(memory_is_looked_at),
		cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(region_starts_where_asked),
		cmocka_unit_test(dmabuf_outlives_its_descriptor),
		cmocka_unit_test(regions_change),
		cmocka_unit_test(window_gives_part_of_region),
		cmocka_unit_test(prefetch_needs_on_demand_region),
		cmocka_unit_test(keys_differ_for_long),
		cmocka_unit_test(calls_fail_on_request),
		cmocka_unit_test(objects_in_use_stay),
		cmocka_unit_test(settings_shape_devices),
		cmocka_unit_test(null_mode_hands_out_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
