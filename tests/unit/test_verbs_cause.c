/* SPDX-License-Identifier: BSD-2-Clause */
/* Why a registration failed: each row of the table is led to, and its evidence is real where it can be. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/nic/verbs_evidence.h"
#include "tests/unit/verbs_stub.h"

static size_t page;

/* ---- a prepared /proc and /sys ---- */

static char root[64];

static void put(const char *name, const char *text)
{
	char path[200];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static const char *const folders[] = {
	"", "/proc", "/proc/self", "/proc/self/fdinfo", "/proc/self/fd", "/sys", "/sys/module"
};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

static int make_root(void **state)
{
	(void)state;
	page = (size_t)sysconf(_SC_PAGESIZE);
	snprintf(root, sizeof(root), "/tmp/hmreg-cause-%d", (int)getpid());
	for (size_t i = 0; i < FOLDERS; i++) {
		char path[200];

		snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		if (mkdir(path, 0700) != 0)
			return -1;
	}
	return 0;
}

static void clear_root(void)
{
	static const char *const files[] = { "/proc/self/maps",		  "/proc/self/smaps",
					     "/proc/self/status",	  "/proc/self/uid_map",
					     "/proc/self/fdinfo/7",	  "/proc/self/fd/7",
					     "/sys/module/nvidia_peermem" };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[200];

		snprintf(path, sizeof(path), "%s%s", root, files[i]);
		remove(path);
	}
}

static int remove_root(void **state)
{
	(void)state;
	clear_root();
	for (size_t i = FOLDERS; i-- > 0;) {
		char path[200];

		snprintf(path, sizeof(path), "%s%s", root, folders[i]);
		if (rmdir(path) != 0)
			return -1;
	}
	return 0;
}

static struct rlimit saved_limit;

static int set_up(void **state)
{
	stub_setup(state);
	getrlimit(RLIMIT_MEMLOCK, &saved_limit);
	verbs_evidence_root = "";
	return 0;
}

static int tear_down(void **state)
{
	setrlimit(RLIMIT_MEMLOCK, &saved_limit);
	verbs_evidence_root = "";
	clear_root();
	return stub_teardown(state);
}

/* ---- asking ---- */

static int ask_host(const void *addr, uint64_t len, uint64_t access, int err)
{
	struct verbs_attempt attempt = { .domain = &stub_domain,
					 .call = VERBS_CALL_REG_MR,
					 .addr = addr,
					 .len = len,
					 .access = access,
					 .iova = (uintptr_t)addr,
					 .fd = -1 };

	return verbs_cause(&attempt, err);
}

static int ask_dmabuf(int fd, uint64_t offset, uint64_t len, int err)
{
	struct verbs_attempt attempt = { .domain = &stub_domain,
					 .call = VERBS_CALL_REG_DMABUF,
					 .len = len,
					 .iova = offset,
					 .fd = fd,
					 .offset = offset };

	return verbs_cause(&attempt, err);
}

static int ask(enum verbs_call call, int err)
{
	struct verbs_attempt attempt = { .domain = &stub_domain, .call = call, .fd = -1 };

	return verbs_cause(&attempt, err);
}

#define HERE ((void *)0x100000)

/* ---- limits ---- */

static void lower_memlock(rlim_t limit)
{
	struct rlimit lower = { limit, saved_limit.rlim_max };

	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &lower), 0);
}

/* Figures as the kernel has them for a process without CAP_IPC_LOCK. */
static void ordinary_user(const char *pinned)
{
	char status[200];

	snprintf(status, sizeof(status),
		 "Name:\tx\nVmLck:\t       4 kB\nVmPin:\t%s kB\nCapEff:\t0000000000000000\n",
		 pinned);
	put("/proc/self/status", status);
	put("/proc/self/uid_map", "         0          0 4294967295\n");
	verbs_evidence_root = root;
}

static void reg_05_memlock_is_named_with_limit_and_need(void **state)
{
	(void)state;
	ordinary_user("      60");
	lower_memlock(64 * 1024);
	assert_told(ask_host((char *)HERE + 1, 4096, 0, ENOMEM), -FI_ENOMEM,
		    "limit 64 KiB, pinned 60 KiB, this region needs 8 KiB");
	assert_non_null(strstr(stub_log, "ulimit -l"));
	assert_non_null(strstr(stub_log, "LimitMEMLOCK"));
	/* the last page fits: something else is short */
	assert_told(ask_host(HERE, 4096, 0, ENOMEM), -FI_ENOMEM, "RLIMIT_MEMLOCK is not the cause");
	/* nothing is pinned on demand */
	assert_told(ask_host(HERE, 1 << 20, IBV_ACCESS_ON_DEMAND, ENOMEM), -FI_ENOMEM,
		    "RLIMIT_MEMLOCK is not the cause: 64 KiB");
	/* more than the limit is pinned already, as after it was lowered */
	ordinary_user("     100");
	assert_told(ask_host(HERE, 4096, 0, ENOMEM), -FI_ENOMEM, "pinned 100 KiB");
	lower_memlock(saved_limit.rlim_max == RLIM_INFINITY ? RLIM_INFINITY : 1 << 20);
	assert_told(ask_host(HERE, 4096, 0, ENOMEM), -FI_ENOMEM, "out of memory");
}

static void reg_05_memlock_of_a_re_registration(void **state)
{
	struct verbs_attempt attempt = { .domain = &stub_domain,
					 .call = VERBS_CALL_REREG,
					 .addr = HERE,
					 .len = 1 << 20,
					 .fd = -1 };

	(void)state;
	ordinary_user("0");
	lower_memlock(64 * 1024);
	assert_told(verbs_cause(&attempt, ENOMEM), -FI_ENOMEM, "needs 1024 KiB");
}

static void reg_05_the_limit_does_not_bind_everybody(void **state)
{
	(void)state;
	lower_memlock(64 * 1024);
	ordinary_user("0");
	put("/proc/self/status", "VmPin:\t0 kB\nCapEff:\t0000000000004000\n");
	assert_told(ask_host(HERE, 1 << 20, 0, ENOMEM), -FI_ENOMEM, "which CAP_IPC_LOCK lifts");
	/* root of a container has the capability there, not here */
	put("/proc/self/uid_map", "         0     100000      65536\n");
	assert_told(ask_host(HERE, 1 << 20, 0, ENOMEM), -FI_ENOMEM, "limit 64 KiB");
}

static void reg_05_a_limit_of_0(void **state)
{
	(void)state;
	ordinary_user("0");
	lower_memlock(0);
	assert_told(ask_host(HERE, 4096, 0, EPERM), -FI_ENOMEM, "RLIMIT_MEMLOCK is 0");
	lower_memlock(4096);
	assert_told(ask_host(HERE, 4096, 0, EPERM), -FI_EPERM, "forbids");
}

static void reg_05_the_device_is_full(void **state)
{
	static const int errors[] = { ENOMEM, ENOSPC };

	(void)state;
	stub_device.attr.max_mr = 10;
	for (size_t i = 0; i < 2; i++) {
		atomic_store(&stub_domain.parts, 10);
		assert_told(ask_host(HERE, 4096, 0, errors[i]), -FI_ENOSPC,
			    "this domain holds 10 of the 10 that stub0 has");
		assert_told(ask_dmabuf(7, 0, 4096, errors[i]), -FI_ENOSPC, "table of regions");
		atomic_store(&stub_domain.parts, 9);
		assert_told(ask_host(HERE, 4096, 0, errors[i]), -errors[i],
			    errors[i] == ENOMEM ? "out of memory" : "no keys");
		assert_told(ask_dmabuf(7, 0, 4096, errors[i]), -errors[i], "BAR");
	}
	atomic_store(&stub_domain.parts, 0);
}

static void fn_27_other_limits(void **state)
{
	(void)state;
	assert_told(ask_host(HERE, 4096, 0, EAGAIN), -FI_ENOSPC, "rdma.max");
	assert_told(ask_host(HERE, 4096, 0, EMFILE), -FI_EMFILE, "RLIMIT_NOFILE is ");
}

/* ---- memory ---- */

static char *map(size_t pages, int prot)
{
	void *at = mmap(NULL, pages * page, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static const char *address(const void *at)
{
	static char text[40];

	snprintf(text, sizeof(text), "0x%lx", (unsigned long)(uintptr_t)at);
	return text;
}

static void reg_01_api_20_the_first_bad_page(void **state)
{
	char *at = map(8, PROT_READ | PROT_WRITE);

	(void)state;
	assert_int_equal(munmap(at + 5 * page, page), 0);
	assert_told(ask_host(at + 10, 7 * page, IBV_ACCESS_LOCAL_WRITE, EFAULT), -FI_EFAULT,
		    "nothing is mapped");
	assert_non_null(strstr(stub_log, address(at + 5 * page)));
	/* from there on */
	assert_told(ask_host(at + 5 * page + 1, 100, 0, EFAULT), -FI_EFAULT, "nothing is mapped");
	/* up to there nothing is wrong */
	assert_told(ask_host(at, 5 * page, IBV_ACCESS_LOCAL_WRITE, EFAULT), -FI_EFAULT,
		    "cannot pin");
	assert_told(ask_host((void *)1, 100, 0, EFAULT), -FI_EFAULT, "nothing is mapped at 0x1,");
	assert_told(ask_host((void *)(UINTPTR_MAX - 100), 101, 0, EFAULT), -FI_EFAULT, "");
	munmap(at, 8 * page);
}

static void reg_02_memory_that_is_read_only(void **state)
{
	char *at = map(4, PROT_READ | PROT_WRITE);

	(void)state;
	assert_int_equal(mprotect(at + 2 * page, page, PROT_READ), 0);
	for (unsigned int i = 0; i < 2; i++) {
		int err = i ? EACCES : EFAULT;

		assert_told(ask_host(at, 4 * page, IBV_ACCESS_LOCAL_WRITE, err), -FI_EACCES,
			    "read only");
		assert_non_null(strstr(stub_log, address(at + 2 * page)));
	}
	assert_told(ask_host(at, 4 * page, IBV_ACCESS_REMOTE_READ, EFAULT), -FI_EFAULT,
		    "cannot pin");
	assert_int_equal(mprotect(at + 3 * page, page, PROT_NONE), 0);
	assert_told(ask_host(at, 4 * page, IBV_ACCESS_REMOTE_READ, EFAULT), -FI_EFAULT,
		    "PROT_NONE");
	munmap(at, 4 * page);
}

static void a_file_that_ends_before_its_mapping(void **state)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	char *at;

	(void)state;
	assert_true(fd >= 0);
	at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	assert_told(ask_host(at, 2 * page, IBV_ACCESS_LOCAL_WRITE, EFAULT), -FI_EFAULT,
		    "/memfd:short");
	munmap(at, 2 * page);
	close(fd);
}

static void fn_27_memory_of_a_device(void **state)
{
	static const struct {
		const char *maps, *smaps;
		bool device;
	} cases[] = {
		{ "00100000-00200000 rw-s 00000000 00:05 12  /dev/nvidia0\n", "", true },
		{ "00100000-00200000 rw-s 00000000 00:0b 12  /dmabuf:heap\n", "", true },
		{ "00100000-00200000 rw-s 00000000 00:0b 12  anon_inode:i915.gem\n", "", true },
		{ "00100000-00200000 rw-s 00000000 00:05 12  /dev/zero (deleted)\n", "", false },
		{ "00100000-00200000 rw-s 00000000 00:05 12  /dev/shm/x\n", "", false },
		{ "00100000-00200000 rw-s 00000000 00:05 12  /home/dev/x\n", "", false },
		{ "00100000-00200000 rw-s 00000000 00:00 0 \n",
		  "00050000-00060000 rw-p 00000000 00:00 0 \nVmFlags: rd wr mr mw me ac\n"
		  "00100000-00200000 rw-s 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd wr sh io pf "
		  "dd\n",
		  true },
		{ "00100000-00200000 rw-s 00000000 00:00 0 \n",
		  "00050000-00060000 rw-p 00000000 00:00 0 \nVmFlags: rd wr io pf dd\n"
		  "00100000-00200000 rw-s 00000000 00:00 0 \nSize: 4 kB\nVmFlags: rd wr mr mw\n",
		  false },
	};

	(void)state;
	verbs_evidence_root = root;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put("/proc/self/maps", cases[i].maps);
		put("/proc/self/smaps", cases[i].smaps);
		assert_told(ask_host(HERE, 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT), -FI_EFAULT,
			    cases[i].device ? "mapping of a device" : "the range is mapped");
		if (cases[i].device)
			assert_non_null(strstr(stub_log, "none is loaded of nvidia_peermem"));
	}
	put("/proc/self/maps", cases[0].maps);
	put("/sys/module/nvidia_peermem", "");
	assert_told(ask_host(HERE, 4096, 0, EFAULT), -FI_EFAULT,
		    "nvidia_peermem is loaded, but does not know this memory");
	assert_null(strstr(stub_log, "none is loaded"));
}

static void evidence_that_cannot_be_read(void **state)
{
	(void)state;
	verbs_evidence_root = "/nonexistent";
	assert_told(ask_host(HERE, 4096, 0, EFAULT), -FI_EFAULT, "cannot be read");
	assert_told(ask_host(HERE, 4096, 0, ENOMEM), -FI_ENOMEM, "memory");
	assert_told(ask_dmabuf(7, 0, 4096, EREMOTEIO), -FI_EREMOTEIO, "exporter (unknown)");
}

/* ---- attributes ---- */

static void reg_05_einval(void **state)
{
	struct verbs_attempt congruence = { .domain = &stub_domain,
					    .call = VERBS_CALL_REG_MR,
					    .addr = HERE,
					    .len = 4096,
					    .iova = 16,
					    .fd = -1 };

	(void)state;
	stub_device.attr.max_mr_size = 1 << 20;
	assert_told(ask_host(HERE, 0, 0, EINVAL), -FI_EINVAL, "length is 0");
	assert_told(ask_host(HERE, (1 << 20) + 1, 0, EINVAL), -FI_EINVAL,
		    "more than the 1048576 of one region of stub0");
	assert_told(ask_host(HERE, 4096, IBV_ACCESS_REMOTE_WRITE, EINVAL), -FI_EINVAL,
		    "IBV_ACCESS_LOCAL_WRITE");
	assert_told(ask_host(HERE, 4096, IBV_ACCESS_ON_DEMAND, EINVAL), -FI_EINVAL, "on-demand");
	assert_told(ask_host(HERE, 4096, IBV_ACCESS_RELAXED_ORDERING, EINVAL), -FI_EINVAL,
		    "relaxed ordering");
	assert_told(ask_host(HERE, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, EINVAL),
		    -FI_EINVAL, "no atomics");
	assert_told(verbs_cause(&congruence, EINVAL), -FI_EINVAL, "differ within the page");
	assert_told(ask_host(HERE, 4096, 0, EINVAL), -FI_EINVAL, "refuses this range");
	assert_told(ask_host(HERE, 4096, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP), -FI_EOPNOTSUPP,
		    "on-demand");
	assert_told(ask_host(HERE, 4096, 0, EOPNOTSUPP), -FI_EOPNOTSUPP, "rights 0x0");
}

/* ---- dma-bufs ---- */

static void reg_05_the_driver_lacks_dma_buf(void **state)
{
	static const int errors[] = { EOPNOTSUPP, ENOSYS };

	(void)state;
	verbs_evidence_root = root;
	for (size_t i = 0; i < 2; i++) {
		stub_device.dmabuf_reason = "";
		assert_told(ask_dmabuf(7, 0, 4096, errors[i]), -FI_EOPNOTSUPP,
			    "driver of stub0 registers no dma-bufs;");
		assert_non_null(strstr(stub_log, "none loaded of nvidia_peermem"));
		stub_device.dmabuf_reason = "kernel 5.10";
		assert_told(ask_dmabuf(7, 0, 4096, errors[i]), -FI_EOPNOTSUPP,
			    "no dma-bufs: kernel 5.10;");
	}
}

static void flag_05_not_a_dmabuf(void **state)
{
	int fd = memfd_create("plain", MFD_CLOEXEC);
	struct verbs_attempt congruence = { .domain = &stub_domain,
					    .call = VERBS_CALL_REG_DMABUF,
					    .len = 4096,
					    .iova = 0,
					    .fd = 7,
					    .offset = 100 };

	(void)state;
	assert_told(ask_dmabuf(fd, 0, 4096, EINVAL), -FI_EINVAL, "is no dma-buf, but /memfd:plain");
	assert_told(ask_dmabuf(fd, 0, 4096, EBADF), -FI_EBADF, "no open file descriptor");
	assert_told(verbs_cause(&congruence, EINVAL), -FI_EINVAL, "the offset 0x64 differ");
	assert_told(ask_dmabuf(fd, 0, 4096, EACCES), -FI_EACCES, "for reading only");
	close(fd);
}

static void fn_37_exporter_and_path_of_a_refused_import(void **state)
{
	static const int errors[] = { EINVAL, ENOTCONN, EREMOTEIO, EXDEV, EFAULT, EBUSY };

	(void)state;
	verbs_evidence_root = root;
	put("/proc/self/fdinfo/7",
	    "pos:\t0\nflags:\t02000002\nsize:\t1048576\ncount:\t2\nexp_name:\tudmabuf\n");
	snprintf(stub_device.path, sizeof(stub_device.path), "0000:01:00.0, ACS on 0000:00:01.0");
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		assert_told(ask_dmabuf(7, 0, 4096, errors[i]), -errors[i], "exporter udmabuf");
		assert_non_null(strstr(stub_log, "ACS on 0000:00:01.0"));
		assert_non_null(strstr(stub_log, "dma-buf fd 7"));
	}
	assert_told(ask_dmabuf(7, 1048576, 1, EINVAL), -FI_EINVAL, "not inside its 1048576");
	assert_told(ask_dmabuf(7, 0, 4096, ENOMEM), -FI_ENOMEM, "exporter udmabuf");
	assert_null(strstr(stub_log, "RLIMIT_MEMLOCK is reached"));
}

/* ---- other calls, and what is common ---- */

static void other_calls(void **state)
{
	(void)state;
	assert_told(ask(VERBS_CALL_DEREG, EBUSY), -FI_EBUSY, "refuses to end it; the region stays");
	assert_told(ask(VERBS_CALL_DEREG, EINVAL), -FI_EINVAL,
		    "refuses to end it; the region stays");
	assert_told(ask(VERBS_CALL_DEREG, EPERM), -FI_EPERM, "refuses to end it; the region stays");
	atomic_store(&stub_domain.shown, true); /* so that the program can have bound windows */
	assert_told(ask(VERBS_CALL_DEREG, EBUSY), -FI_EBUSY, "memory windows");
	assert_told(ask(VERBS_CALL_DEREG, EINVAL), -FI_EBUSY, "memory windows");
	assert_told(ask(VERBS_CALL_DEREG, EPERM), -FI_EPERM, "refuses to end it; the region stays");
	assert_told(ask(VERBS_CALL_ADVISE, EOPNOTSUPP), -FI_EOPNOTSUPP, "takes no advice");
	assert_told(ask(VERBS_CALL_REREG, EOPNOTSUPP), -FI_ENOSYS, "register it anew");
	assert_told(ask(VERBS_CALL_REREG, EINVAL), -FI_EINVAL, "unusable");
	assert_told(ask(VERBS_CALL_REREG, ENOMEM), -FI_ENOMEM, "out of memory");
	assert_told(ask_host(HERE, 4096, 0, ETIMEDOUT), -FI_ETIMEDOUT, "no cause is known");
}

static void fn_38_a_device_that_does_not_answer(void **state)
{
	(void)state;
	assert_told(ask_host(HERE, 4096, 0, EIO), -FI_EIO, "does not answer");
	assert_told(ask_dmabuf(7, 0, 4096, ENODEV), -FI_ENODEV, "not there any more");
	assert_told(ask_host(HERE, 4096, 0, 0), -FI_EIO, "gives no reason");
	atomic_store(&stub_domain.gone, true);
	assert_told(ask_host(HERE, 4096, 0, EIO), -FI_ENODEV, "removed or has failed");
	assert_told(ask_host(HERE, 4096, 0, ENOMEM), -FI_ENODEV, "removed or has failed");
}

static void api_20_the_line_says_what_was_tried(void **state)
{
	(void)state;
	assert_told(ask_host(HERE, 4096, 3, EMFILE), -FI_EMFILE,
		    "ibv_reg_mr_iova2 on stub0, [0x100000, +4096), access 0x3: errno 24 (");
	assert_told(ask_dmabuf(7, 8192, 4096, EMFILE), -FI_EMFILE,
		    "ibv_reg_dmabuf_mr on stub0, [(nil), +4096), dma-buf fd 7 offset 8192, access");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(reg_05_memlock_is_named_with_limit_and_need),
		CASE(reg_05_memlock_of_a_re_registration),
		CASE(reg_05_the_limit_does_not_bind_everybody),
		CASE(reg_05_a_limit_of_0),
		CASE(reg_05_the_device_is_full),
		CASE(fn_27_other_limits),
		CASE(reg_01_api_20_the_first_bad_page),
		CASE(reg_02_memory_that_is_read_only),
		CASE(a_file_that_ends_before_its_mapping),
		CASE(fn_27_memory_of_a_device),
		CASE(evidence_that_cannot_be_read),
		CASE(reg_05_einval),
		CASE(reg_05_the_driver_lacks_dma_buf),
		CASE(flag_05_not_a_dmabuf),
		CASE(fn_37_exporter_and_path_of_a_refused_import),
		CASE(other_calls),
		CASE(fn_38_a_device_that_does_not_answer),
		CASE(api_20_the_line_says_what_was_tried),
	};

	return cmocka_run_group_tests_name("verbs_cause", tests, make_root, remove_root);
}
