/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a device is on the PCI bus, in a tree of our own. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/nic/verbs.h"
#include "tests/unit/fake_sysfs.h"

#define BUS    "devices/pci0000:3a/"
#define PORT   BUS "0000:3a:00.0"
#define SWITCH PORT "/0000:3b:00.0"
#define DEVICE SWITCH "/0000:3c:00.1"

static char pci[32], path[160];

static void describe(const char *name)
{
	memset(pci, 'x', sizeof(pci));
	memset(path, 'x', sizeof(path));
	verbs_path_describe(sysfs_root, name, pci, sizeof(pci), path, sizeof(path));
	assert_non_null(memchr(pci, '\0', sizeof(pci)));
	assert_non_null(memchr(path, '\0', sizeof(path)));
}

/* Configuration space with these extended capabilities: pairs of id and the byte of its control. */
static void config(const char *file, const uint8_t (*caps)[2], size_t count)
{
	uint8_t bytes[4096] = { 0 };

	for (size_t i = 0; i < count; i++) {
		size_t at = 0x100 + 0x40 * i;
		uint32_t next = i + 1 < count ? (uint32_t)(at + 0x40) : 0;
		uint32_t header = caps[i][0] | 1u << 16 | next << 20;

		memcpy(bytes + at, &header, sizeof(header));
		bytes[at + 6] = caps[i][1];
	}
	sysfs_bytes(file, bytes, sizeof(bytes));
}

static int build(void **state)
{
	if (sysfs_start(state))
		return -1;
	sysfs_link("class/infiniband/hw0/device", DEVICE);
	return 0;
}

static void fn_37_chain_is_named(void **state)
{
	(void)state;
	describe("hw0");
	assert_string_equal(pci, "0000:3c:00.1");
	assert_string_equal(path, "0000:3a:00.0 > 0000:3b:00.0 > 0000:3c:00.1; no IOMMU; "
				  "ACS not readable (root can)");
}

static void fn_37_iommu_is_named(void **state)
{
	(void)state;
	sysfs_link(DEVICE "/iommu_group", "kernel/iommu_groups/17");
	describe("hw0");
	assert_non_null(strstr(path, "; IOMMU group 17;"));
	sysfs_text("kernel/iommu_groups/17/type", "DMA-FQ\n");
	describe("hw0");
	assert_non_null(strstr(path, "; IOMMU group 17 (DMA-FQ);"));
}

static void fn_37_acs_is_named(void **state)
{
	static const uint8_t no_acs[][2] = { { 0x01, 0xff }, { 0x03, 0xff } };
	static const uint8_t off[][2] = { { 0x01, 0xff }, { 0x0d, 0x01 } };
	static const uint8_t on[][2] = { { 0x01, 0 }, { 0x03, 0 }, { 0x0d, 0x1d } };
	static const uint8_t ordinary[64];

	(void)state;
	config(PORT "/config", no_acs, 2);
	config(SWITCH "/config", off, 2);
	describe("hw0");
	assert_non_null(strstr(path, "; no ACS redirection"));
	config(SWITCH "/config", on, 3);
	describe("hw0");
	assert_non_null(strstr(path, "; ACS redirects at 0000:3b:00.0"));
	config(PORT "/config", on, 3);
	describe("hw0");
	assert_non_null(strstr(path, "; ACS redirects at 0000:3a:00.0"));
	/* what an ordinary user gets of a bridge */
	sysfs_bytes(PORT "/config", ordinary, sizeof(ordinary));
	sysfs_bytes(SWITCH "/config", ordinary, sizeof(ordinary));
	describe("hw0");
	assert_non_null(strstr(path, "; ACS not readable"));
}

/* The end of the device's own list is a header that points at itself. */
static void circular_list_ends(void **state)
{
	uint8_t bytes[4096] = { 0 };
	uint32_t header = 0x01 | 0x100u << 20;

	(void)state;
	memcpy(bytes + 0x100, &header, sizeof(header));
	sysfs_bytes(PORT "/config", bytes, sizeof(bytes));
	header = 0x01 | 0xffcu << 20;
	memcpy(bytes + 0x100, &header, sizeof(header));
	sysfs_bytes(SWITCH "/config", bytes, sizeof(bytes));
	describe("hw0");
	assert_non_null(strstr(path, "; no ACS redirection"));
}

/* A device below a function, at a bus number of five digits, and one without bridges. */
static void addresses_of_all_forms(void **state)
{
	(void)state;
	sysfs_link("class/infiniband/vmd0/device", "devices/pci10000:00/10000:01:00.0/part.3");
	describe("vmd0");
	assert_string_equal(pci, "10000:01:00.0");
	assert_string_equal(path, "10000:01:00.0; no IOMMU");
	sysfs_link("class/infiniband/odd0/device", "devices/pci0000:00/000:01:00.0/0000:0g:00.0");
	describe("odd0");
	assert_string_equal(pci, "");
	assert_string_equal(path, "not on a PCI bus");
}

static void software_devices_have_none(void **state)
{
	(void)state;
	sysfs_run("mkdir -p class/infiniband/rxe0");
	describe("rxe0");
	assert_string_equal(pci, "");
	assert_string_equal(path, "not on a PCI bus");
	describe("nothing");
	assert_string_equal(path, "not on a PCI bus");
}

static void short_room_is_kept(void **state)
{
	char small[3][20];

	(void)state;
	memset(small, 'x', sizeof(small));
	verbs_path_describe(sysfs_root, "hw0", small[0], 5, small[1], sizeof(small[1]));
	assert_string_equal(small[0], "0000");
	assert_int_equal(strlen(small[1]), sizeof(small[1]) - 1);
	assert_string_equal(small[1], "0000:3a:00.0 > 0000");
	assert_int_equal(small[2][0], 'x');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_37_chain_is_named),
		cmocka_unit_test(fn_37_iommu_is_named),
		cmocka_unit_test(fn_37_acs_is_named),
		cmocka_unit_test(circular_list_ends),
		cmocka_unit_test(addresses_of_all_forms),
		cmocka_unit_test(software_devices_have_none),
		cmocka_unit_test(short_room_is_kept),
	};

	return cmocka_run_group_tests(tests, build, sysfs_stop);
}
