/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of attributes that are about memory of devices: only domains with FI_HMEM take them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mr/mr.h"
#include "tests/unit/fake_nic.h"
#include "tests/unit/warnings.h"

#define PAGE UINT64_C(4096)
#define SIZE (16 * PAGE)
#define BASE UINT64_C(0x7f0000000000)

static int fake_ports(const struct nic_port **ports, size_t *count)
{
	*ports = NULL;
	*count = 0;
	return 0;
}

static struct nic_ops ops = FAKE_OPS("fake", fake_ports);
static const struct nic_port port = FAKE_PORT(&ops, "fabric", "fake", FAKE_VERBS, NULL);
static struct nic_domain nic;
static struct hm_mr_domain domain;
static struct hm_mr_request request;
static struct fi_mr_dmabuf dmabuf;
static struct fi_mr_attr attr;
static int file; /* of SIZE bytes: what a dma-buf's descriptor says of its size, it says, too */

static int set_up(void **state)
{
	nic = (struct nic_domain){
		.ops = &ops, .port = &port, .mr_mode = FAKE_VERBS, .caps = FAKE_CAPS | FI_HMEM
	};
	domain.nic = &nic;
	domain.api_version = FI_VERSION(2, 7);
	file = memfd_create("test_mr_attr", MFD_CLOEXEC);
	dmabuf = (struct fi_mr_dmabuf){ .fd = file, .len = PAGE, .base_addr = (void *)BASE };
	attr = (struct fi_mr_attr){ .dmabuf = &dmabuf, .access = FI_REMOTE_READ };
	memset(&request, 0x55, sizeof(request));
	if (file < 0 || ftruncate(file, SIZE) != 0)
		return -1;
	return warnings_start(state);
}

static int tear_down(void **state)
{
	/* FN-03: it is the caller's, and nobody but the caller has closed it */
	return close(file) != 0 ? -1 : warnings_stop(state);
}

static int check(uint64_t flags)
{
	return hm_mr_check(&domain, &attr, flags, &request);
}

static void attr_08_fn_12_a_dmabuf(void **state)
{
	(void)state;
	dmabuf.offset = 5 * PAGE + 7;
	dmabuf.len = SIZE - dmabuf.offset;
	attr.iov_count = 77; /* is about iovecs, which there are none of */
	assert_int_equal(check(FI_MR_DMABUF), 0);
	assert_int_equal(request.len, dmabuf.len);
	assert_int_equal(request.nic.iov_count, 1);
	assert_ptr_equal(request.nic.iov[0].iov_base, (void *)(BASE + 5 * PAGE + 7));
	assert_int_equal(request.nic.iov[0].iov_len, dmabuf.len);
	assert_non_null(request.nic.dmabuf);
	assert_ptr_not_equal(request.nic.dmabuf, &dmabuf);
	assert_memory_equal(request.nic.dmabuf, &dmabuf, sizeof(dmabuf));
	dmabuf.base_addr = NULL;
	assert_int_equal(check(FI_MR_DMABUF), 0);
	assert_ptr_equal(request.nic.iov[0].iov_base, (void *)(5 * PAGE + 7));
	assert_int_equal(warning_count, 0);
}

static void attr_08_ranges(void **state)
{
	static const struct {
		uint64_t offset, len, base;
	} bad[] = {
		{ 0, 0, BASE },
		{ 0, SIZE + 1, BASE },
		{ SIZE, 1, BASE },
		{ SIZE - 1, 2, BASE },
		{ UINT64_MAX, 1, 0 },
		{ UINT64_MAX - 10, 100, 0 },
		{ 1, UINT64_MAX, 0 },
		{ 0, PAGE, BASE + 1 },
		{ 0, PAGE, BASE + 2048 },
		{ PAGE, PAGE, UINT64_MAX - PAGE + 1 }, /* base_addr + offset wraps */
		{ 0, PAGE + 1, UINT64_MAX - PAGE + 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		dmabuf.offset = bad[i].offset;
		dmabuf.len = bad[i].len;
		dmabuf.base_addr = (void *)bad[i].base;
		assert_refused(check(FI_MR_DMABUF), -FI_EINVAL);
	}
	attr.dmabuf = NULL;
	assert_refused(check(FI_MR_DMABUF), -FI_EINVAL);
}

static void flag_05_descriptors(void **state)
{
	int pipes[2];

	(void)state;
	dmabuf.fd = -1;
	assert_refused(check(FI_MR_DMABUF), -FI_EBADF);
	dmabuf.fd = 987654;
	assert_refused(check(FI_MR_DMABUF), -FI_EBADF);
	/* what tells no size is left to the kernel */
	assert_int_equal(pipe(pipes), 0);
	warning_count = 0;
	dmabuf.fd = pipes[0];
	assert_int_equal(check(FI_MR_DMABUF), 0);
	assert_int_equal(warning_count, 0);
	close(pipes[0]);
	close(pipes[1]);
}

static void flag_05_the_position_of_the_file_stays(void **state)
{
	(void)state;
	assert_int_equal(lseek(file, 100, SEEK_SET), 100);
	assert_int_equal(check(FI_MR_DMABUF), 0);
	assert_int_equal(lseek(file, 0, SEEK_CUR), 100);
}

static void flag_03_04_05_need_fi_hmem(void **state)
{
	static const uint64_t flags[] = { FI_MR_DMABUF, FI_HMEM_DEVICE_ONLY, FI_HMEM_HOST_ALLOC };
	struct iovec iov = { &request, 1 };

	(void)state;
	nic.caps &= ~FI_HMEM;
	for (size_t i = 0; i < 3; i++)
		assert_refused(check(flags[i]), -FI_EBADFLAGS);
	/* without the capability iface says nothing */
	attr.mr_iov = &iov;
	attr.iov_count = 1;
	attr.iface = FI_HMEM_CUDA;
	assert_int_equal(check(0), 0);
}

static void flag_05_of_interface_1_20(void **state)
{
	(void)state;
	domain.api_version = FI_VERSION(1, 20);
	assert_int_equal(check(FI_MR_DMABUF), 0);
	domain.api_version = FI_VERSION(1, 19);
	assert_refused(check(FI_MR_DMABUF), -FI_EBADFLAGS);
}

static void flag_05_no_base_mr(void **state)
{
	struct fid_mr base;

	(void)state;
	attr.base_mr = &base;
	assert_refused(check(FI_MR_DMABUF), -FI_EINVAL);
}

/* Of segments that overlap, what an entry is in is the one that has all of it. */
static void sub_01_in_one_of_overlapping_segments(void **state)
{
	struct iovec iov[2] = { { (void *)BASE, 100 }, { (void *)(BASE + 50), 150 } };
	struct iovec entry = { (void *)(BASE + 60), 140 };
	struct nic_place places[2] = { { .at = (void *)BASE, .device = 1, .id = 1 },
				       { .at = (void *)(BASE + 50), .device = 1 } };
	struct nic_region_ext ext = { .iov_count = 2, .iov = iov, .places = places };
	struct hm_mr base = { .mr.fid.fclass = FI_CLASS_MR,
			      .region = { .domain = &nic, .base = BASE, .len = 250, .ext = &ext } };
	struct nic_place place = { .id = 2 };

	(void)state;
	request.base = &base;
	request.nic = (struct nic_region_request){ .iov = &entry, .iov_count = 1 };
	assert_int_equal(hm_mr_take_base(&domain, &request), 0);
	hm_mr_base_places(&request, &place);
	assert_ptr_equal(place.base, &places[1]);
	assert_ptr_equal(place.at, entry.iov_base);
	assert_int_equal(place.id, 0);
	entry.iov_len = 40; /* now the first has it */
	hm_mr_base_places(&request, &place);
	assert_ptr_equal(place.base, &places[0]);
	assert_ptr_equal(place.at, entry.iov_base);
	hm_mr_drop_base(&base);
	entry.iov_len = 141;
	assert_refused(hm_mr_take_base(&domain, &request), -FI_EINVAL);
	assert_int_equal(base.subs, 0);
}

static void flag_03_04_exclude_each_other(void **state)
{
	(void)state;
	assert_refused(check(FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC), -FI_EINVAL);
	assert_refused(check(FI_MR_DMABUF | FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC), -FI_EINVAL);
	assert_int_equal(check(FI_MR_DMABUF | FI_HMEM_DEVICE_ONLY), 0);
	assert_int_equal(check(FI_MR_DMABUF | FI_HMEM_HOST_ALLOC), 0);
}

static void flag_03_04_host_memory(void **state)
{
	struct iovec iov = { &request, 1 };

	(void)state;
	attr.mr_iov = &iov;
	attr.iov_count = 1;
	assert_int_equal(check(0), 0);
	assert_null(request.nic.dmabuf);
	assert_ptr_equal(request.nic.iov, &iov);
	assert_int_equal(check(FI_HMEM_HOST_ALLOC), 0);
	assert_refused(check(FI_HMEM_DEVICE_ONLY), -FI_EINVAL);
}

static void hmem_ifaces(void **state)
{
	struct iovec iov = { &request, 1 };

	(void)state;
	for (int iface = FI_HMEM_SYSTEM; iface <= FI_HMEM_SYNAPSEAI; iface++) {
		attr.iface = (enum fi_hmem_iface)iface;
		attr.dmabuf = &dmabuf;
		assert_int_equal(check(FI_MR_DMABUF), 0);
		attr.mr_iov = &iov;
		attr.iov_count = 1;
		if (iface == FI_HMEM_SYSTEM)
			assert_int_equal(check(0), 0);
		else
			assert_refused(check(0), -FI_ENOSYS);
	}
	attr.iface = (enum fi_hmem_iface)(FI_HMEM_SYNAPSEAI + 1);
	assert_refused(check(0), -FI_EINVAL);
	attr.dmabuf = &dmabuf;
	assert_refused(check(FI_MR_DMABUF), -FI_EINVAL);
	attr.iface = (enum fi_hmem_iface) - 1;
	assert_refused(check(FI_MR_DMABUF), -FI_EINVAL);
}

/* Whatever else is asked for: that is not looked at. */
static void flag_06_where_the_nic_can(void **state)
{
	static const uint64_t beside[] = { 0, FI_MR_DMABUF, HMREG_MR_RELAXED_ORDERING };

	(void)state;
	for (size_t i = 0; i < count_of(beside); i++)
		assert_refused(check(FI_MR_SINGLE_USE | beside[i]), -FI_EBADFLAGS);
	ops.region_flags = FI_MR_SINGLE_USE;
	assert_int_equal(check(FI_MR_SINGLE_USE | FI_MR_DMABUF), 0);
	assert_true(request.nic.flags & FI_MR_SINGLE_USE);
	ops.region_flags = 0;
}

static void reg_08_relaxed_ordering_is_a_flag(void **state)
{
	(void)state;
	assert_int_equal(check(FI_MR_DMABUF | HMREG_MR_RELAXED_ORDERING), 0);
	assert_true(request.nic.flags & HMREG_MR_RELAXED_ORDERING);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(attr_08_fn_12_a_dmabuf),
		CASE(attr_08_ranges),
		CASE(flag_05_descriptors),
		CASE(flag_05_the_position_of_the_file_stays),
		CASE(flag_03_04_05_need_fi_hmem),
		CASE(flag_05_of_interface_1_20),
		CASE(flag_05_no_base_mr),
		CASE(sub_01_in_one_of_overlapping_segments),
		CASE(flag_03_04_exclude_each_other),
		CASE(flag_03_04_host_memory),
		CASE(flag_06_where_the_nic_can),
		CASE(hmem_ifaces),
		CASE(reg_08_relaxed_ordering_is_a_flag),
	};

	setenv("FI_HMEM", "none", 1); /* whatever drivers the machine has */
	return cmocka_run_group_tests_name("mr_attr", tests, NULL, NULL);
}
