/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that host and device both reach, by operations that are the test's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "tests/fds.h"
#include "tests/unit/warnings.h"
#include "xpu/xpu.h"

#define DEVICE 5
#define LEN    5000u /* two pages */
#define OFFSET 8192u /* of what alloc gives, in its dma-buf */

/* What the operations do, and what they were asked for. */
static struct {
	int answer;
	bool no_address, no_fd, bad_fd, short_file, leaves_fd;
	unsigned off; /* bytes by which what is given is not aligned */
	uint64_t off_file;
	unsigned imports, allocs, frees;
	uint64_t size, align, flags;
	void *host;
	int left;
	int kept; /* the device's own descriptor of what alloc gave */
} op;

static _Alignas(4096) char device_memory[64 * 1024];

static int import(uint64_t device, void *host, uint64_t size, uint64_t flags, void **ptr)
{
	assert_int_equal(device, DEVICE);
	op.imports++;
	op.host = host;
	op.size = size;
	op.flags = flags;
	if (op.answer == 0 && !op.no_address)
		*ptr = device_memory + op.off;
	return op.answer;
}

/* Memory that is not zero. */
static int make_dmabuf(uint64_t size)
{
	static const char rest[] = "left by somebody else";
	int fd = memfd_create("device", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(OFFSET + size - (op.short_file ? 4096 : 0))), 0);
	assert_int_equal(pwrite(fd, rest, sizeof(rest), OFFSET), sizeof(rest));
	assert_int_equal(pwrite(fd, rest, sizeof(rest), OFFSET - sizeof(rest)), sizeof(rest));
	op.kept = dup(fd);
	assert_true(op.kept >= 0);
	return fd;
}

static int alloc(uint64_t device, uint64_t size, uint64_t align, uint64_t flags, void **ptr,
		 int *fd, uint64_t *offset)
{
	assert_int_equal(device, DEVICE);
	op.allocs++;
	op.size = size;
	op.align = align;
	op.flags = flags;
	if (op.leaves_fd) { /* as one does that has closed it on its way out */
		*fd = make_dmabuf(size);
		op.left = *fd;
	}
	if (op.answer != 0)
		return op.answer;
	if (op.no_address)
		return 0;
	*ptr = device_memory + op.off;
	*offset = OFFSET + op.off_file;
	if (op.bad_fd)
		*fd = eventfd(0, EFD_CLOEXEC);
	else if (!op.no_fd)
		*fd = make_dmabuf(size);
	return 0;
}

static void free_op(uint64_t device, void *ptr)
{
	assert_int_equal(device, DEVICE);
	assert_ptr_equal(ptr, device_memory + op.off);
	op.frees++;
}

static struct hm_xpu_own context(bool imports, bool allocates)
{
	memset(&op, 0, sizeof(op));
	op.kept = -1;
	return (struct hm_xpu_own){ .iface = FI_HMEM_SYSTEM,
				    .device = DEVICE,
				    .engine.pid = getpid(),
				    .has_ops = true,
				    .ops = { .size = sizeof(struct fi_xpu_ops),
					     .import = imports ? import : NULL,
					     .alloc = allocates ? alloc : NULL,
					     .free = free_op } };
}

static bool all_zero(const char *at, size_t len)
{
	return len == 0 || (at[0] == 0 && memcmp(at, at + 1, len - 1) == 0);
}

/* Is the page at addr part of this process's memory? */
static bool mapped(void *addr)
{
	unsigned char in;

	return mincore(addr, 1, &in) == 0;
}

static void xpu_02_pages_are_imported(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), fds = test_fds();
	struct hm_xpu_own ctx = context(true, true);
	struct xpu_memory memory;

	(void)state;
	assert_int_equal(xpu_memory_get(&ctx, LEN, &memory), 0);
	assert_int_equal(op.imports, 1);
	assert_int_equal(op.allocs, 0);
	assert_ptr_equal(op.host, memory.host);
	assert_int_equal((uintptr_t)memory.host % page, 0);
	assert_int_equal(op.size % page, 0);
	assert_true(op.size >= LEN);
	assert_int_equal(op.flags, FI_XPU_IMPORT_DEVICEMAP);
	assert_int_equal(memory.device, (uintptr_t)device_memory);
	assert_true(all_zero(memory.host, op.size));
	memset(memory.host, 1, op.size);
	xpu_memory_put(&ctx, &memory);
	assert_int_equal(op.frees, 1);
	assert_false(mapped(op.host));
	xpu_memory_put(&ctx, &memory); /* there is nothing any more */
	assert_int_equal(op.frees, 1);
	assert_int_equal(test_fds(), fds);
}

static void xpu_02_allocated_memory_is_mapped_by_its_dmabuf(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), fds = test_fds();
	struct hm_xpu_own ctx = context(false, true);
	struct xpu_memory memory;
	char text[8], before[8];
	void *host;

	(void)state;
	assert_int_equal(xpu_memory_get(&ctx, LEN, &memory), 0);
	assert_int_equal(op.allocs, 1);
	assert_int_equal(op.flags, FI_XPU_ALLOC_DMABUF);
	assert_int_equal(op.align, page);
	assert_true(op.size >= LEN && op.size % page == 0);
	assert_int_equal(memory.device, (uintptr_t)device_memory);
	assert_true(all_zero(memory.host, op.size));
	assert_int_equal(pread(op.kept, before, 8, OFFSET - 8), 8);
	assert_memory_equal(before, "dy else", 8); /* nothing else was touched */
	memcpy(memory.host, "to there", 8);
	assert_int_equal(pread(op.kept, text, 8, OFFSET), 8);
	assert_memory_equal(text, "to there", 8);
	close(op.kept);
	assert_int_equal(test_fds(), fds); /* while it is mapped, too */
	host = memory.host;
	xpu_memory_put(&ctx, &memory);
	assert_false(mapped(host));
	assert_int_equal(op.frees, 1);
}

/* An op that fails is asked once, and nothing is left. */
static void xpu_02_operations_that_fail_leave_nothing(void **state)
{
	static const struct {
		int answer, code;
		bool no_address;
	} cases[] = {
		{ -FI_ENOMEM, -FI_ENOMEM, false },
		{ -FI_EPERM, -FI_EPERM, false },
		{ 12, -FI_EIO, false },
		{ 0, -FI_EIO, true },
	};
	size_t fds = test_fds();

	(void)state;
	for (int imports = 0; imports < 2; imports++) {
		for (size_t i = 0; i < count_of(cases); i++) {
			struct hm_xpu_own ctx = context(imports, true);
			struct xpu_memory memory = { .len = 4711 };

			op.answer = cases[i].answer;
			op.no_address = cases[i].no_address;
			assert_refused(xpu_memory_get(&ctx, LEN, &memory), cases[i].code);
			assert_int_equal(memory.len, 4711);
			assert_int_equal(op.imports + op.allocs, 1);
			assert_int_equal(op.frees, 0);
			if (imports)
				assert_false(mapped(op.host));
		}
	}
	assert_int_equal(test_fds(), fds);
}

static void xpu_02_memory_without_a_dmabuf_is_given_back(void **state)
{
	size_t fds = test_fds();

	(void)state;
	for (int bad = 0; bad < 2; bad++) {
		struct hm_xpu_own ctx = context(false, true);
		struct xpu_memory memory;

		op.no_fd = !bad;
		op.bad_fd = bad;
		assert_refused(xpu_memory_get(&ctx, LEN, &memory), bad ? -FI_EOPNOTSUPP : -FI_EIO);
		assert_int_equal(op.allocs, 1);
		assert_int_equal(op.frees, 1);
		assert_int_equal(test_fds(), fds);
	}
}

/* What would make the host or the kernel fault later is refused at once, and given back. */
static void xpu_02_memory_that_is_not_as_asked_for_is_given_back(void **state)
{
	size_t fds = test_fds();

	(void)state;
	for (int lie = 0; lie < 4; lie++) {
		struct hm_xpu_own ctx = context(lie == 0, lie != 0);
		struct xpu_memory memory;

		op.off = lie < 2 ? 8 : 0;
		op.short_file = lie == 2;
		op.off_file = lie == 3 ? 4 : 0;
		assert_refused(xpu_memory_get(&ctx, LEN, &memory), lie < 2 ? -FI_EIO : -FI_EINVAL);
		assert_int_equal(op.imports + op.allocs, 1);
		assert_int_equal(op.frees, 1);
		if (op.kept >= 0)
			close(op.kept);
		assert_int_equal(test_fds(), fds);
	}
}

/* The number that a failed op leaves behind may be another file's by then. */
static void xpu_02_descriptor_of_a_failed_alloc_is_left_alone(void **state)
{
	struct hm_xpu_own ctx = context(false, true);
	struct xpu_memory memory;

	(void)state;
	op.answer = -FI_ENOMEM;
	op.leaves_fd = true;
	assert_refused(xpu_memory_get(&ctx, LEN, &memory), -FI_ENOMEM);
	assert_int_equal(op.frees, 0);
	assert_int_equal(close(op.left), 0); /* it is open still */
	assert_int_equal(close(op.kept), 0);
}

static void xpu_02_without_operations_the_host_is_the_device(void **state)
{
	struct hm_xpu_own ctx = { .iface = FI_HMEM_SYSTEM, .engine.pid = getpid() },
			  none = context(false, false);
	struct xpu_memory memory, own;

	(void)state;
	assert_int_equal(xpu_memory_get(&ctx, LEN, &memory), 0);
	assert_int_equal(memory.device, (uintptr_t)memory.host);
	assert_true(all_zero(memory.host, LEN));
	xpu_memory_get_own(&ctx, 64, &own);
	assert_int_equal(own.how, XPU_MEMORY_NONE);
	xpu_memory_put(&ctx, &own);
	xpu_memory_put(&ctx, &memory);
	/* operations that give nothing are none of the library's */
	assert_refused(xpu_memory_get(&none, LEN, &memory), -FI_ENOSYS);
}

/* The device is the parent's: its operations are not called. */
static void xpu_07_a_forked_child_exports_nothing(void **state)
{
	struct hm_xpu_own ctx = context(true, true);
	struct hm_xpu_part *part;
	uint64_t own;

	(void)state;
	ctx.engine.pid = getppid();
	assert_refused(xpu_part_make(&ctx, sizeof(*part), LEN, &part, &own), -FI_EOPNOTSUPP);
	assert_int_equal(op.imports + op.allocs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xpu_02_pages_are_imported),
		cmocka_unit_test(xpu_02_allocated_memory_is_mapped_by_its_dmabuf),
		cmocka_unit_test(xpu_02_operations_that_fail_leave_nothing),
		cmocka_unit_test(xpu_02_memory_without_a_dmabuf_is_given_back),
		cmocka_unit_test(xpu_02_memory_that_is_not_as_asked_for_is_given_back),
		cmocka_unit_test(xpu_02_descriptor_of_a_failed_alloc_is_left_alone),
		cmocka_unit_test(xpu_02_without_operations_the_host_is_the_device),
		cmocka_unit_test(xpu_07_a_forked_child_exports_nothing),
	};

	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
