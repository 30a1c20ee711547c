/* SPDX-License-Identifier: BSD-2-Clause */
/* What addresses are: devices, kinds, extents, owners. */
#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/range.h"
#include "tests/hmem/conf_hmem.h"

static void attr_02_devices(void **state)
{
	struct hmem_device device, other;

	(void)state;
	assert_int_equal(ops->device_count(), maker->devices());
	for (size_t i = 0; i < maker->devices(); i++) {
		assert_int_equal(ops->device_info(i, &device), 0);
		assert_int_equal(device.id, maker->device(i));
		assert_true(device.name[0]);
		assert_true(device.dmabuf ? !device.dmabuf_reason[0] : device.dmabuf_reason[0]);
		for (size_t k = 0; k < i; k++) {
			assert_int_equal(ops->device_info(k, &other), 0);
			assert_int_not_equal(device.id, other.id);
		}
	}
	assert_int_equal(ops->device_info(maker->devices(), &device), -FI_ENODEV);
}

static void check_kind(enum make kind, int device)
{
	const struct expected *e = &expected[kind];
	struct hmem_memory memory;
	struct made made;

	if (!try_make(kind, device, 2 * UNIT, &made))
		return;
	for (size_t at = 0; at < made.len; at += made.len / 2 - 1) {
		assert_int_equal(hmem_classify((char *)made.addr + at, 1, &memory), 0);
		assert_int_equal(memory.iface, maker->iface);
		assert_int_equal(memory.kind, e->kind);
		assert_int_equal(memory.ways & e->has, e->has);
		assert_int_equal(memory.ways & e->lacks, 0);
		if (e->on_device || memory.device != HMEM_NO_DEVICE)
			assert_int_equal(memory.device, device);
		assert_true(memory.base <= (uintptr_t)made.addr + at);
		/* a way that is missing has its reason */
		assert_true((memory.ways & (HMEM_WAY_DMABUF | HMEM_WAY_HOST)) || memory.reason[0]);
	}
	maker->drop(&made);
}

static void fn_14_kinds(void **state)
{
	(void)state;
	for (int kind = 0; kind < MAKE_KINDS; kind++)
		for (size_t i = 0; i < maker->devices(); i++)
			check_kind(kind, maker->device(i));
}

static void fn_08_all_segments(void **state)
{
	struct hmem_memory memory;
	struct hmem_facts facts;
	struct made made;
	size_t part, at = 0, count = 0;

	(void)state;
	must_make(MAKE_VMM, maker->device(0), 2 * UNIT, &made);
	assert_int_equal(hmem_classify(made.addr, made.len, &memory), 0);
	assert_int_equal(memory.segments, 2);
	assert_true(memory.base <= (uintptr_t)made.addr);
	assert_true(memory.base + memory.len >= (uintptr_t)made.addr + made.len);
	for (; at < made.len; at += part, count++)
		assert_int_equal(hmem_segment(&memory, (char *)made.addr + at, made.len - at,
					      &facts, &part),
				 0);
	assert_int_equal(at, made.len);
	assert_int_equal(count, 2);
	/* a range over the border, and one on either side */
	assert_int_equal(hmem_classify((char *)made.addr + made.len / 2 - 1, 2, &memory), 0);
	assert_int_equal(memory.segments, 2);
	assert_int_equal(hmem_classify(made.addr, made.len / 2, &memory), 0);
	assert_int_equal(memory.segments, 1);
	assert_int_equal(hmem_classify((char *)made.addr + made.len / 2, 1, &memory), 0);
	assert_int_equal(memory.segments, 1);
	maker->drop(&made);
}

static void fn_08_past_the_end(void **state)
{
	struct hmem_memory memory;
	struct made made;

	(void)state;
	must_make(MAKE_DEVICE, maker->device(0), UNIT, &made);
	assert_int_equal(hmem_classify(made.addr, made.len, &memory), 0);
	if (memory.len > made.len)
		made.len = memory.base + memory.len - (uintptr_t)made.addr;
	assert_int_equal(hmem_classify(made.addr, made.len + 1, &memory), -FI_EINVAL);
	assert_true(strstr(last_warning(), maker->name) != NULL);
	assert_int_equal(hmem_classify((char *)made.addr + made.len - 1, 2, &memory), -FI_EINVAL);
	maker->drop(&made);
}

static void fn_15_foreign_addresses(void **state)
{
	void *hole = mmap(NULL, UNIT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const void *addresses[] = { NULL,
				    &hole,
				    (void *)(uintptr_t)fn_08_all_segments,
				    (void *)1,
				    (void *)(uintptr_t)0x7ffffffff000,
				    hole };
	void *heap = malloc(100);
	struct hmem_memory memory;

	(void)state;
	munmap(hole, UNIT);
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		assert_int_equal(hmem_classify(addresses[i], 1, &memory), 0);
		assert_int_equal(memory.iface, FI_HMEM_SYSTEM);
		assert_int_equal(memory.kind, HMEM_HOST);
	}
	assert_int_equal(hmem_classify(heap, 100, &memory), 0);
	assert_int_equal(memory.kind, HMEM_HOST);
	assert_int_equal(hmem_classify(heap, 0, &memory), -FI_EINVAL);
	assert_int_equal(hmem_classify(heap, SIZE_MAX, &memory), -FI_EINVAL);
	free(heap);
}

static void fn_15_freed(void **state)
{
	struct hmem_memory memory;
	struct made made;
	int ret;

	(void)state;
	must_make(MAKE_DEVICE, maker->device(0), UNIT, &made);
	maker->drop(&made);
	/* not said to be this interface's: host memory that is not there, or an error */
	ret = hmem_classify(made.addr, UNIT, &memory);
	assert_true(ret != 0 || memory.kind == HMEM_HOST);
	ret = hmem_classify_as(maker->iface, made.device, 0, made.addr, UNIT, &memory);
	assert_true(ret < 0);
	assert_true(last_warning()[0]);
}

static void attr_02_owner(void **state)
{
	int device = maker->device(0);
	struct hmem_memory memory;
	struct made made;

	(void)state;
	must_make(MAKE_DEVICE, device, UNIT, &made);
	assert_int_equal(hmem_classify_as(maker->iface, device, 0, made.addr, UNIT, &memory), 0);
	assert_int_equal(memory.device, device);
	if (maker->devices() > 1) {
		char text[48];
		int other = maker->device(1);

		assert_int_equal(hmem_classify_as(maker->iface, other, 0, made.addr, UNIT, &memory),
				 -FI_EINVAL);
		/* the refusal names both */
		assert_non_null(strstr(last_warning(), hmem_owner_text(maker->iface, other, text)));
		assert_non_null(
			strstr(last_warning(), hmem_owner_text(maker->iface, device, text)));
	}
	assert_int_equal(hmem_classify_as(maker->iface, 0x7fff7fff, 0, made.addr, UNIT, &memory),
			 -FI_ENODEV);
	assert_int_equal(hmem_classify_as(maker->iface, -1, 0, made.addr, UNIT, &memory),
			 -FI_ENODEV);
	assert_int_equal(hmem_classify_as(FI_HMEM_SYSTEM, 0, 0, made.addr, UNIT, &memory),
			 -FI_EINVAL);
	for (int i = FI_HMEM_SYSTEM + 1; i < HMEM_IFACES; i++)
		if (!hmem_get(i))
			assert_int_equal(hmem_classify_as(i, 0, 0, made.addr, UNIT, &memory),
					 hmem_error(i));
	maker->drop(&made);
}

static void attr_02_host_memory_named(void **state)
{
	char *host = calloc(1, UNIT);
	struct hmem_memory memory;

	(void)state;
	assert_int_equal(hmem_classify_as(FI_HMEM_SYSTEM, 7, 0, host, UNIT, &memory), 0);
	assert_int_equal(hmem_classify_as(maker->iface, maker->device(0), 0, host, UNIT, &memory),
			 -FI_EINVAL);
	assert_int_equal(hmem_classify_as(maker->iface, maker->device(0), FI_HMEM_HOST_ALLOC, host,
					  UNIT, &memory),
			 -FI_EINVAL);
	free(host);
}

static void flag_03_device_only(void **state)
{
	int device = maker->device(0);
	struct hmem_memory memory;
	struct made made;

	(void)state;
	for (int kind = 0; kind < MAKE_KINDS; kind++) {
		int want;

		if (!try_make(kind, device, 2 * UNIT, &made))
			continue;
		assert_int_equal(hmem_classify(made.addr, UNIT, &memory), 0);
		want = memory.host_access ? -FI_EINVAL : 0;
		if (kind == MAKE_HOST || kind == MAKE_REGISTERED || kind == MAKE_VMM_HOST)
			assert_true(memory.host_access);
		assert_int_equal(hmem_classify_as(maker->iface, device, FI_HMEM_DEVICE_ONLY,
						  made.addr, UNIT, &memory),
				 want);
		maker->drop(&made);
	}
}

static void flag_04_host_alloc(void **state)
{
	struct hmem_memory memory;
	struct made made;

	(void)state;
	if (try_make(MAKE_HOST, maker->device(0), UNIT, &made)) {
		/* the device is not looked at */
		assert_int_equal(hmem_classify_as(maker->iface, 12345, FI_HMEM_HOST_ALLOC,
						  made.addr, UNIT, &memory),
				 0);
		assert_true(memory.ways & HMEM_WAY_HOST);
		assert_true(memory.host_access);
		memset(made.addr, 1, UNIT);
		maker->drop(&made);
	}
	must_make(MAKE_DEVICE, maker->device(0), UNIT, &made);
	assert_int_equal(hmem_classify_as(maker->iface, made.device, FI_HMEM_HOST_ALLOC, made.addr,
					  UNIT, &memory),
			 -FI_EINVAL);
	maker->drop(&made);
}

/* The same address, allocated anew, is other memory (FN-29 rests on it). */
static void fn_29_identity(void **state)
{
	uint64_t address[64], id[64];
	size_t twice = 0;

	(void)state;
	for (size_t i = 0; i < 64; i++) {
		struct hmem_memory memory;
		struct made made;

		must_make(MAKE_DEVICE, maker->device(0), UNIT, &made);
		assert_int_equal(hmem_classify(made.addr, UNIT, &memory), 0);
		address[i] = (uintptr_t)made.addr;
		id[i] = memory.id;
		maker->drop(&made);
		for (size_t k = 0; k < i; k++) {
			twice += address[k] == address[i];
			assert_true(id[i] == 0 || id[k] != id[i]);
		}
	}
	print_message("%zu of 64 addresses came again; %s\n", twice,
		      id[0] ? "each time as another allocation" : "the driver tells no identity");
}

static void fn_21_status(void **state)
{
	struct hmem_status status;

	(void)state;
	hmem_status(maker->iface, &status);
	assert_int_equal(status.state, HMEM_READY);
	assert_true(status.driver[0]);
	assert_string_equal(status.reason, "");
	for (int i = FI_HMEM_SYSTEM + 1; i < HMEM_IFACES; i++)
		if (!hmem_get(i)) {
			hmem_status(i, &status);
			assert_int_not_equal(status.state, HMEM_READY);
			assert_true(status.reason[0]);
			assert_true(hmem_error(i) == -FI_ENOSYS || hmem_error(i) == -FI_ENODEV ||
				    hmem_error(i) == -FI_EIO);
		}
}

const struct CMUnitTest kind_tests[] = {
	CONF_TEST(attr_02_devices),	    CONF_TEST(fn_14_kinds),
	CONF_TEST(fn_08_all_segments),	    CONF_TEST(fn_08_past_the_end),
	CONF_TEST(fn_15_foreign_addresses), CONF_TEST(fn_15_freed),
	CONF_TEST(attr_02_owner),	    CONF_TEST(attr_02_host_memory_named),
	CONF_TEST(flag_03_device_only),	    CONF_TEST(flag_04_host_alloc),
	CONF_TEST(fn_29_identity),	    CONF_TEST(fn_21_status),
};
const size_t kind_test_count = count_of(kind_tests);
