/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of NICs, and the check of a descriptor before a local access. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/base/guard.h"
#include "core/nic/sw_nic.h"
#include "hmem/hmem.h"
#include "tests/unit/fake_nic.h"
#include "tests/unit/warnings.h"

/* ---- registry ---- */

static int no_ports(const struct nic_port **ports, size_t *count);
static int some_ports(const struct nic_port **ports, size_t *count);

static struct nic_ops nics[NIC_MAX + 1] = {
	FAKE_OPS("failing", no_ports), FAKE_OPS("one", some_ports),  FAKE_OPS("empty", no_ports),
	FAKE_OPS("two", some_ports),   FAKE_OPS("five", some_ports),
};
static const struct nic_port list[] = {
	FAKE_PORT(&nics[1], "fabric", "a", 0, NULL),
	FAKE_PORT(&nics[1], "fabric", "b", 0, NULL),
};

static int no_ports(const struct nic_port **ports, size_t *count)
{
	(void)ports;
	(void)count;
	return -FI_ENODEV;
}

static int some_ports(const struct nic_port **ports, size_t *count)
{
	*ports = list;
	*count = 2;
	return 0;
}

static void registers_up_to_the_limit(void **state)
{
	(void)state;
	for (size_t i = 0; i < NIC_MAX; i++)
		assert_int_equal(nic_register(&nics[i]), 0);
	assert_int_equal(nic_register(&nics[2]), -FI_EALREADY);
	assert_refused(nic_register(&nics[NIC_MAX]), -FI_ENOSPC);
	assert_ptr_equal(nic_port_at(0), &list[0]);
	assert_ptr_equal(nic_port_at(1), &list[1]);
	assert_ptr_equal(nic_port_at(2), &list[0]);
	assert_ptr_equal(nic_port_at(3), &list[1]);
	assert_null(nic_port_at(4));
	assert_null(nic_port_at(SIZE_MAX));
}

static void missing_slots_refuse(void **state)
{
	struct sockaddr_in in = fake_addr(0x7f010203, 1);
	struct nic_ops *ops = &nics[0];
	size_t len = sizeof(in), size;

	(void)state;
	assert_int_equal(ops->region_refresh(NULL, NULL, 0), -FI_ENOSYS);
	assert_int_equal(ops->atomic_valid(NULL, NIC_OP_ATOMIC, FI_INT8, FI_SUM, &len, &size),
			 -FI_EOPNOTSUPP);
	assert_int_equal(ops->port_address(&list[0], &in, &len), -FI_ENOSYS);
	assert_int_equal(ops->port_reaches(&list[0], &in, sizeof(in)), 0);
	assert_int_equal(ops->port_reaches(&list[0], &in, sizeof(in) - 1), -FI_EHOSTUNREACH);
	in = fake_addr(0x80000001, 1);
	assert_int_equal(ops->port_reaches(&list[0], &in, sizeof(in)), -FI_EHOSTUNREACH);
}

/* ---- local access ---- */

static struct hm_key_table table;
static struct nic_domain domain = { .regions = &table };
static struct nic_domain other = { .regions = &table };
static char memory[256];

/* Registered: all of memory; two parts of it; with no access; of the other domain; not enabled. */
enum {
	WHOLE,
	PARTS,
	NO_ACCESS,
	FOREIGN,
	DISABLED,
	CLOSED,
	REGIONS
};
static struct nic_region *regions[REGIONS];
static struct iovec parts[] = { { memory + 16, 32 }, { memory + 128, 8 } };
static struct nic_region_ext two_parts = { .iov_count = 2, .iov = parts };

static int make_regions(void **state)
{
	assert_int_equal(hm_key_table_init(&table, sizeof(struct nic_region),
					   offsetof(struct nic_region, node), 100, false),
			 0);
	for (int i = 0; i < REGIONS; i++) {
		void *element;

		assert_int_equal(hm_key_alloc(&table, sizeof(memory), NULL, &element), 0);
		regions[i] = element;
		regions[i]->domain = i == FOREIGN ? &other : &domain;
		regions[i]->base = (uintptr_t)memory;
		regions[i]->len = sizeof(memory);
		regions[i]->access = i == NO_ACCESS ? 0 : FI_SEND | FI_RECV;
		regions[i]->ext = NULL;
		atomic_store(&regions[i]->state, i == DISABLED ? 0 : NIC_REGION_ENABLED);
	}
	regions[PARTS]->base = (uintptr_t)parts[0].iov_base;
	regions[PARTS]->len = 40;
	regions[PARTS]->ext = &two_parts;
	for (int i = 0; i < REGIONS; i++)
		hm_key_publish(&regions[i]->node);
	return warnings_start(state);
}

static void *desc_of(int which)
{
	return (void *)(uintptr_t)hm_key_handle(&regions[which]->node);
}

static const struct {
	int which;
	size_t offset, len;
	uint64_t access;
	int ret;
} accesses[] = {
	{ WHOLE, 0, 256, FI_SEND, 0 },
	{ WHOLE, 255, 1, FI_RECV, 0 },
	{ WHOLE, 3, 7, FI_SEND | FI_RECV, 0 },
	{ WHOLE, 0, 257, FI_SEND, -FI_EINVAL },
	{ WHOLE, 256, 1, FI_SEND, -FI_EINVAL },
	{ WHOLE, (size_t)-1, 2, FI_SEND, -FI_EINVAL },
	{ WHOLE, 1, SIZE_MAX, FI_SEND, -FI_EINVAL },
	{ WHOLE, 4096, 0, FI_SEND, 0 },
	{ WHOLE, 0, 8, FI_READ, -FI_EACCES },
	{ WHOLE, 0, 8, FI_SEND | FI_WRITE, -FI_EACCES },
	{ PARTS, 16, 32, FI_SEND, 0 },
	{ PARTS, 128, 8, FI_SEND, 0 },
	{ PARTS, 130, 6, FI_SEND, 0 },
	{ PARTS, 130, 7, FI_SEND, -FI_EINVAL },
	{ PARTS, 40, 16, FI_SEND, -FI_EINVAL },
	{ PARTS, 60, 1, FI_SEND, -FI_EINVAL },
	{ PARTS, 15, 1, FI_SEND, -FI_EINVAL },
	{ NO_ACCESS, 0, 8, FI_SEND, 0 },
	{ NO_ACCESS, 0, 8, FI_WRITE, 0 },
	{ NO_ACCESS, 0, 8, FI_RECV, -FI_EACCES },
	{ NO_ACCESS, 0, 8, FI_READ, -FI_EACCES },
	{ FOREIGN, 0, 8, FI_SEND, -FI_EINVAL },
	{ DISABLED, 0, 8, FI_SEND, -FI_EINVAL },
};

static void api_08_desc_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(accesses); i++) {
		struct nic_region *untouched = (struct nic_region *)memory, *region = untouched;
		const char *addr = (char *)((uintptr_t)memory + accesses[i].offset);
		int which = accesses[i].which, ret;

		warning_count = 0;
		ret = nic_local_acquire(&domain, desc_of(which), addr, accesses[i].len,
					accesses[i].access, "test", &region);
		assert_int_equal(ret, accesses[i].ret);
		assert_int_equal(warning_count, ret != 0);
		assert_ptr_equal(region, ret ? untouched : regions[which]);
		if (!ret)
			nic_local_release(region);
		/* nothing is left referenced */
		assert_int_equal(atomic_load(&regions[which]->node.word) & HM_KEY_REFS, 0);
	}
}

static void api_08_desc_of_no_region(void **state)
{
	struct nic_region *region = NULL;
	void *closed = desc_of(CLOSED);

	(void)state;
	assert_true(hm_key_kill(&regions[CLOSED]->node));
	assert_refused(nic_local_acquire(&domain, closed, memory, 8, FI_SEND, "test", &region),
		       -FI_EINVAL);
	assert_refused(nic_local_acquire(&domain, memory, memory, 8, FI_SEND, "test", &region),
		       -FI_EINVAL);
	assert_refused(nic_local_acquire(&domain, (void *)(uintptr_t)-1, memory, 8, FI_SEND, "test",
					 &region),
		       -FI_EINVAL);
	assert_null(region);
	hm_key_free(&table, &regions[CLOSED]->node, sizeof(memory));
}

static void mode_03_without_desc(void **state)
{
	struct nic_region *region = regions[WHOLE];

	(void)state;
	assert_int_equal(nic_local_acquire(&domain, NULL, memory, 8, FI_SEND, "test", &region), 0);
	assert_null(region);
	nic_local_release(region);
	domain.mr_mode = FI_MR_LOCAL;
	region = regions[WHOLE];
	assert_refused(nic_local_acquire(&domain, NULL, memory, 8, FI_SEND, "test", &region),
		       -FI_EINVAL);
	assert_ptr_equal(region, regions[WHOLE]);
	assert_int_equal(nic_local_acquire(&domain, NULL, NULL, 0, FI_SEND, "test", &region), 0);
	assert_null(region);
	domain.mr_mode = 0;
}

/* The software NIC asks whether the host's segments are there, and the device's driver nothing. */
static void api_15_host_segments_of_a_mixed_region(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *gone = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov[3] = { { gone, page }, { (void *)0x500000000000, 64 }, { memory, 8 } };
	struct nic_place places[3] = { { .iface = FI_HMEM_SYSTEM, .device = HMEM_NO_DEVICE },
				       { .iface = FI_HMEM_CUDA },
				       { .iface = FI_HMEM_SYSTEM, .device = HMEM_NO_DEVICE } };
	struct nic_region_ext ext = { .iov_count = 3, .iov = iov, .places = places };
	struct nic_domain strict = { .mr_mode = FI_MR_ALLOCATED };
	struct nic_region region = { .domain = &strict, .base = (uintptr_t)gone, .ext = &ext };

	(void)state;
	assert_ptr_not_equal(gone, MAP_FAILED);
	hm_guard_install(); /* above what the test's framework does about faults */
	assert_int_equal(sw_nic_ops.region_refresh(&region, &iov[1], 2), 0);
	assert_refused(sw_nic_ops.region_refresh(&region, iov, 1), -FI_EFAULT);
	assert_true(nic_region_on_host(&region, (uintptr_t)memory + 7));
	assert_false(nic_region_on_host(&region, 0x500000000000));
	/* one of them alone, as a sub-MR */
	ext = (struct nic_region_ext){ .iov_count = 1, .places = &places[2] };
	assert_true(nic_region_on_host(&region, (uintptr_t)gone));
	assert_refused(sw_nic_ops.region_refresh(&region, iov, 1), -FI_EFAULT);
	ext.places = &places[1];
	assert_false(nic_region_on_host(&region, 0x500000000000));
	/* a dma-buf, and parts of one: it has its pages */
	atomic_store(&region.state, NIC_REGION_IMPORTED);
	ext.places = &places[2];
	assert_false(nic_region_on_host(&region, (uintptr_t)gone));
	assert_int_equal(sw_nic_ops.region_refresh(&region, iov, 1), 0);
	ext = (struct nic_region_ext){ .iov_count = 3, .iov = iov, .places = places };
	assert_false(nic_region_on_host(&region, (uintptr_t)gone));
	assert_int_equal(sw_nic_ops.region_refresh(&region, iov, 3), 0);
	munmap(gone, page);
}

static int drop_regions(void **state)
{
	for (int i = 0; i < CLOSED; i++) {
		assert_true(hm_key_kill(&regions[i]->node));
		hm_key_free(&table, &regions[i]->node, sizeof(memory));
	}
	hm_key_table_destroy(&table);
	return warnings_stop(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(registers_up_to_the_limit),
		cmocka_unit_test(missing_slots_refuse),
		cmocka_unit_test(api_08_desc_table),
		cmocka_unit_test(api_08_desc_of_no_region),
		cmocka_unit_test(mode_03_without_desc),
		cmocka_unit_test(api_15_host_segments_of_a_mixed_region),
	};

	return cmocka_run_group_tests(tests, make_regions, drop_regions);
}
