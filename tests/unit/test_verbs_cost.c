/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the library adds to a registration, in things that can be counted: no other call to the driver, no
 * system call; and that transfers register nothing.  Over the emulated device.  What it costs in time is
 * for tests/bench.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "tests/drivers/emu_verbs.h"
#include "tests/drivers/verbs/emu.h"

#define ALL  (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define LEN  (64 * 1024u)
#define MANY 1000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Every function of the driver. */
static const char *const verbs_calls[] = {
#define NAME(name) #name,
	EMU_CALLS(NAME)
#undef NAME
};
#define VERBS_CALLS (sizeof(verbs_calls) / sizeof(verbs_calls[0]))

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static uint8_t memory[2 * LEN] __attribute__((aligned(4096)));

static void open_domain(const char *device)
{
	struct fi_info *hints = fi_allocinfo();

	assert_non_null(hints);
	hints->caps = FI_MSG | FI_RMA;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->name = strdup(device);
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY;
	assert_int_equal(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
}

static void close_domain(void)
{
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
}

/* How often each function of the driver was called. */
static void count_calls(long count[VERBS_CALLS])
{
	for (size_t i = 0; i < VERBS_CALLS; i++) {
		count[i] = emu_verbs_calls(verbs_calls[i]);
		assert_true(count[i] >= 0);
	}
}

/* Between the two counts there were as many calls of these, and none of any other. */
static void assert_calls(const long before[], const char *reg, const char *dereg, long many)
{
	long after[VERBS_CALLS];

	count_calls(after);
	for (size_t i = 0; i < VERBS_CALLS; i++) {
		const char *name = verbs_calls[i];
		bool counted = (reg && !strcmp(name, reg)) || (dereg && !strcmp(name, dereg));
		long expected = counted ? many : 0;

		if (after[i] - before[i] != expected)
			fail_msg("%s: %ld calls, expected %ld", name, after[i] - before[i],
				 expected);
	}
}

static void reg_07_registration_is_one_verb(void **state)
{
	static struct fid_mr *mr[MANY];
	long before[VERBS_CALLS];

	(void)state;
	open_domain("emu0");
	count_calls(before);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(fi_mr_reg(domain, memory, LEN, ALL, 0, 0, 0, &mr[i], NULL), 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(fi_close(&mr[i]->fid), 0);
	assert_calls(before, "ibv_reg_mr_iova2", "ibv_dereg_mr", MANY);
	close_domain();
}

/* ---- transfers ---- */

static void reg_07_transfers_register_nothing(void **state)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT };
	struct fi_cq_entry entry;
	struct fid_mr *mr;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	uint8_t name[64];
	size_t len = sizeof(name);
	fi_addr_t self;
	long reg, dereg, plain;

	(void)state;
	open_domain("emu0");
	assert_int_equal(fi_av_open(domain, &av_attr, &av, NULL), 0);
	assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(ep), 0);
	assert_int_equal(fi_getname(&ep->fid, name, &len), 0);
	assert_int_equal(fi_av_insert(av, name, 1, &self, 0, NULL), 1);
	assert_int_equal(fi_mr_reg(domain, memory, 2 * LEN, ALL, 0, 0, 0, &mr, NULL), 0);
	reg = emu_verbs_calls("ibv_reg_mr_iova2");
	plain = emu_verbs_calls("ibv_reg_mr");
	dereg = emu_verbs_calls("ibv_dereg_mr");
	for (int i = 0; i < 100; i++) {
		ssize_t ret;

		memset(memory, i, LEN);
		assert_int_equal(fi_write(ep, memory, LEN, fi_mr_desc(mr), self,
					  (uintptr_t)memory + LEN, fi_mr_key(mr), &entry),
				 0);
		while ((ret = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
			;
		assert_int_equal(ret, 1);
		assert_memory_equal(memory, memory + LEN, LEN);
	}
	assert_int_equal(emu_verbs_calls("ibv_reg_mr_iova2"), reg);
	assert_int_equal(emu_verbs_calls("ibv_reg_mr"), plain);
	assert_int_equal(emu_verbs_calls("ibv_dereg_mr"), dereg);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&cq->fid), 0);
	assert_int_equal(fi_close(&av->fid), 0);
	close_domain();
}

/* ---- system calls ---- */

/* From here on, every system call but the end of the process is its end by SIGSYS. */
static int forbid_system_calls(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* 0, or what went wrong. */
static int register_and_close(void)
{
	struct fid_mr *mr;

	for (int i = 0; i < MANY; i++) {
		if (fi_mr_reg(domain, memory, LEN, ALL, 0, 0, 0, &mr, NULL))
			return 1;
		if (fi_close(&mr->fid))
			return 2;
	}
	return 0;
}

/* How a process ends that makes no system call after its domain is open but those of what it runs. */
static int run_without_system_calls(int (*run)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		open_domain("emu1");
		if (register_and_close()) /* what memory they take is there afterwards */
			_exit(3);
		if (forbid_system_calls())
			_exit(77);
		_exit(run());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int call_the_system(void)
{
	return (int)syscall(SYS_getppid);
}

/* emu1 hands out keys and asks the kernel for nothing: what system calls there were would be ours. */
static void reg_07_registration_adds_no_system_call(void **state)
{
	int status;

	(void)state;
	if (SANITIZED || getenv("HMREG_VALGRIND"))
		skip(); /* these have system calls of their own */
	status = run_without_system_calls(call_the_system);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(); /* no filter can be had here */
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS); /* the filter works */
	status = run_without_system_calls(register_and_close);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first: its processes open their own domains */
		cmocka_unit_test(reg_07_registration_adds_no_system_call),
		cmocka_unit_test(reg_07_registration_is_one_verb),
		cmocka_unit_test(reg_07_transfers_register_nothing),
	};

	setenv("HMREG_EMU_VERBS", "devices=2,emu1.null=1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
