/* SPDX-License-Identifier: BSD-2-Clause */
/* Export as a dma-buf, and giving the fd back. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/range.h"
#include "tests/hmem/conf_hmem.h"

/* The piece of made that is in one allocation, classified. */
static void classify_made(const struct made *made, struct hmem_memory *memory)
{
	assert_int_equal(hmem_classify(made->addr,
				       made->kind == MAKE_VMM ? made->len / 2 : made->len, memory),
			 0);
}

/* The bytes at the export's offset are the memory's, where the exporter lets the host map them. */
static void check_content(const struct made *made, const struct hmem_export *out)
{
	unsigned char *bytes = malloc(UNIT), *there;

	put_pattern(bytes, UNIT, 21);
	assert_int_equal(maker->write(made, 0, bytes, UNIT), 0);
	free(bytes);
	there = mmap(NULL, out->offset + UNIT, PROT_READ, MAP_SHARED, out->fd, 0);
	if (there == MAP_FAILED) {
		print_message("this exporter allows no mapping: %s\n", strerror(errno));
		return;
	}
	assert_true(has_pattern(there + out->offset, UNIT, 21));
	munmap(there, out->offset + UNIT);
}

static bool can_export(int device)
{
	struct hmem_device info;

	for (size_t i = 0; i < ops->device_count(); i++) {
		assert_int_equal(ops->device_info(i, &info), 0);
		if (info.id == device)
			return info.dmabuf && ops->export_unit;
	}
	return false;
}

static void reg_06_export(void **state)
{
	(void)state;
	for (size_t i = 0; i < maker->devices(); i++)
		for (int kind = 0; kind < MAKE_KINDS; kind++) {
			struct hmem_memory memory;
			struct hmem_export out;
			struct made made;
			int ret;

			if (!try_make(kind, maker->device(i), 2 * UNIT, &made))
				continue;
			classify_made(&made, &memory);
			ret = ops->export_start(&memory, made.addr, UNIT, 0, &out);
			if ((memory.ways & HMEM_WAY_DMABUF) && can_export(maker->device(i))) {
				assert_int_equal(ret, 0);
				assert_true(fcntl(out.fd, F_GETFD) >= 0);
				assert_true(fcntl(out.fd, F_GETFD) & FD_CLOEXEC);
				check_content(&made, &out);
				ops->export_end(&out);
			} else {
				assert_int_equal(ret, -FI_EOPNOTSUPP);
				assert_true(last_warning()[0]);
			}
			maker->drop(&made);
		}
}

static void fn_07_interior(void **state)
{
	size_t unit = ops->export_unit;
	struct hmem_memory memory;
	struct hmem_export whole, inside;
	struct made made;
	int ret;

	(void)state;
	if (!unit || !can_export(maker->device(0)))
		skip();
	must_make(MAKE_DEVICE, maker->device(0), 4 * UNIT, &made);
	classify_made(&made, &memory);
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &whole), 0);
	ret = ops->export_start(&memory, (char *)made.addr + UNIT, UNIT, 0, &inside);
	if (ret == 0) {
		/* the same byte, whether the two files are of the same range or not */
		check_content(&made, &whole);
		if (maker->hooks()) {
			unsigned char *bytes = malloc(UNIT), *there;

			put_pattern(bytes, UNIT, 31);
			assert_int_equal(maker->write(&made, UNIT, bytes, UNIT), 0);
			there = mmap(NULL, inside.offset + UNIT, PROT_READ, MAP_SHARED, inside.fd,
				     0);
			assert_true(there != MAP_FAILED);
			assert_true(has_pattern(there + inside.offset, UNIT, 31));
			munmap(there, inside.offset + UNIT);
			free(bytes);
		}
		ops->export_end(&inside);
	} else {
		/* FN-10: a driver that tells no offset refuses, it does not guess */
		assert_int_equal(ret, -FI_EINVAL);
		assert_true(last_warning()[0]);
	}
	ops->export_end(&whole);
	maker->drop(&made);
}

static void fn_01_many_exports(void **state)
{
	struct hmem_memory memory;
	struct made made;
	size_t fds = test_fds();

	(void)state;
	if (!can_export(maker->device(0)))
		skip();
	must_make(MAKE_DEVICE, maker->device(0), UNIT, &made);
	classify_made(&made, &memory);
	for (int i = 0; i < 2000; i++) {
		struct hmem_export out;

		assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), 0);
		ops->export_end(&out);
		assert_true(i % 500 != 0 || test_fds() <= fds + 1); /* a driver may keep one */
	}
	maker->drop(&made);
}

static void fn_24_pcie_mapping(void **state)
{
	struct hmem_memory memory;
	struct hmem_export out;
	struct made made;
	int ret;

	(void)state;
	if (!can_export(maker->device(0)))
		skip();
	must_make(MAKE_DEVICE, maker->device(0), UNIT, &made);
	classify_made(&made, &memory);
	/* where the driver does not know the choice, the export takes place without it */
	ret = ops->export_start(&memory, made.addr, UNIT, HMEM_EXPORT_PCIE, &out);
	assert_int_equal(ret, 0);
	ops->export_end(&out);
	maker->drop(&made);
}

const struct CMUnitTest export_tests[] = {
	CONF_TEST(reg_06_export),
	CONF_TEST(fn_07_interior),
	CONF_TEST(fn_01_many_exports),
	CONF_TEST(fn_24_pcie_mapping),
};
const size_t export_test_count = count_of(export_tests);
