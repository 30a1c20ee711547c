/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every call that the verbs NIC makes fails in turn: those to the device and the connection manager, and
 * those to the C library.  Each failure has a process of its own, in which a scene (fault_verbs.h) is
 * played; nothing may hang, no call may fail twice, and nothing may be left: no object of the device, no
 * descriptor, no thread, no memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/nic/verbs_device.h"
#include "tests/drivers/emu_verbs.h"
#include "tests/fault/fault_verbs.h"
#include "tests/threads.h"

#define HANGS_S 60
#ifdef FAULT_INDIRECT
#define SETTINGS   "indirect=1"
#define ZERO_BASED true
#else
#define SETTINGS   ""
#define ZERO_BASED false
#endif
#if defined(FAULT_MEMORY) || defined(FAULT_BARE)
#define ONE_BY_ONE 40
#else
#define ONE_BY_ONE 16
#endif
#define NOT_COME 42 /* exit status: there are not so many calls */

/* What is left after a scene in which nothing failed: what the library keeps for the process's life. */
struct remains {
	struct emu_verbs_counts counts;
	long live;
	long fds, threads;
};

static struct remains *usual; /* shared with the children */

static long entries(const char *path)
{
	DIR *dir = opendir(path);
	long n = 0;

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void look(struct remains *left)
{
	emu_verbs_counts(&left->counts);
	/* what is said of devices that cannot be used is kept, and no more than that */
	left->live = fault_wrap_live() - (long)verbs_missing_kept();
	left->fds = entries("/proc/self/fd");
	left->threads = entries("/proc/self/task");
}

static void check_remains(void)
{
	const uint64_t *here, *there;
	struct remains left;

	look(&left);
	/* the kernel's entry of a thread that was joined goes a little later */
	for (int i = 0; i < 2000 && left.threads > usual->threads; i++) {
		usleep(1000);
		look(&left);
	}
	left.counts.advised = left.counts.relaxed_mrs = 0;
	here = (const uint64_t *)&left.counts;
	there = (const uint64_t *)&usual->counts;
	for (size_t i = 0; i < sizeof(left.counts) / sizeof(*here); i++) {
		if (here[i] > there[i]) {
			fprintf(stderr, "object %zu of struct emu_verbs_counts: %lu left\n", i,
				(unsigned long)here[i]);
			_exit(1);
		}
	}
	if (left.live > usual->live || left.threads > usual->threads || left.fds > usual->fds) {
		fprintf(stderr,
			"left: memory %ld (%ld), descriptors %ld (%ld), threads %ld (%ld)\n",
			left.live, usual->live, left.fds, usual->fds, left.threads, usual->threads);
		_exit(1);
	}
}

static void hung(int sig)
{
	(void)sig;
	if (write(STDERR_FILENO, "hangs at ", 9) < 0 ||
	    write(STDERR_FILENO, fault_verbs_step, strlen(fault_verbs_step)) < 0 ||
	    write(STDERR_FILENO, "\n", 1) < 0)
		_exit(3);
	_exit(2);
}

/* An object whose end the device itself refuses stays, and what it stands on. */
static bool is_end(const char *call)
{
	return strstr(call, "destroy") || strstr(call, "dealloc") || strstr(call, "dereg") ||
	       strstr(call, "close");
}

/* In a child: call NULL measures what is usual. */
static _Noreturn void play(const char *call, unsigned nth, int error, bool zero_based)
{
	bool wrapped = call && fault_wrap_fail(call, nth);
	long before = 0;

	signal(SIGALRM, hung);
	alarm(HANGS_S);
	if (call && !wrapped) {
		if (emu_verbs_fail(call, (int)nth, error) != 1)
			_exit(1);
		before = emu_verbs_calls(call);
	}
	fault_verbs_scene(zero_based);
	if (!call)
		look(usual);
	else if (wrapped ? !fault_wrap_failed() : emu_verbs_calls(call) - before < (long)nth)
		exit(NOT_COME);
	else if (is_end(call))
		_exit(0); /* what is left over is the device's fault */
	else
		check_remains();
	exit(0);
}

static int in_child(const char *call, unsigned nth, int error, bool zero_based)
{
	int status;
	pid_t child;

	fflush(NULL);
	child = test_fork();
	if (child == 0)
		play(call, nth, error, zero_based);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/*
 * The first calls one by one, then, where a call is made very often, some of them; fewer with
 * HMREG_TEST_BRIEF, for a build that is slow and not the only one.
 */
static unsigned after(unsigned nth)
{
	const char *env = getenv("HMREG_TEST_BRIEF");
	bool brief = env && *env;

	if (nth < (brief ? ONE_BY_ONE / 4 : ONE_BY_ONE))
		return nth + 1;
	return nth + nth / (brief ? 2 : 4);
}

struct failing {
	const char *call;
	int error;
	bool zero_based;
};

static void fails_in_turn(void **state)
{
	const struct failing *f = *state;
	unsigned nth = 1;
	int ret;

	while ((ret = in_child(f->call, nth, f->error, f->zero_based)) == 0)
		nth = after(nth);
	if (ret != NOT_COME)
		fail_msg("%s, call %u failing with %s: status %d", f->call, nth, strerror(f->error),
			 ret);
	if (nth == 1)
		fail_msg("%s is not called", f->call);
}

static int measure(void **state)
{
	(void)state;
	setenv("HMREG_EMU_VERBS", SETTINGS, 1);
	setenv("HMREG_VERBS_MAX_MR_SIZE", "64K", 1);
	setenv("HMREG_VERBS_RETRY_TIME", "400", 1);
	usual = mmap(NULL, sizeof(*usual), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	return usual == MAP_FAILED || in_child(NULL, 0, 0, ZERO_BASED) != 0 ? -1 : 0;
}

#ifdef FAULT_INDIRECT /* regions of several parts have one key of the device */
static struct failing failing[] = {
	{ "mlx5dv_open_device", EOPNOTSUPP, true },
	{ "mlx5dv_create_mkey", ENOMEM, true },
	{ "mlx5dv_create_mkey", EOPNOTSUPP, true },
	{ "mlx5dv_destroy_mkey", EBUSY, true },
	{ "ibv_wr_complete", ENOMEM, true },
	{ "ibv_open_device", EMFILE, true },
	{ "ibv_query_port", EIO, true },
	{ "ibv_query_gid", EIO, true },
	{ "ibv_alloc_pd", ENOMEM, true },
	{ "ibv_reg_mr_iova2", ENOMEM, true },
	{ "ibv_dereg_mr", EBUSY, true },
	{ "ibv_create_cq", ENOMEM, true },
	{ "ibv_create_qp", ENOMEM, true },
	{ "ibv_modify_qp", EINVAL, true },
	{ "ibv_poll_cq", EINVAL, true },
	{ "ibv_post_send", ENOMEM, true },
	{ "malloc", ENOMEM, true },
	{ "calloc", ENOMEM, true },
	{ "mmap", ENOMEM, true },
};
#define GROUP "fault_verbs_indirect"
#elif defined(FAULT_BARE) /* buffers without a descriptor, and the registration cache */
static struct failing failing[] = {
	{ "ibv_reg_mr_iova2", ENOMEM, false },
	{ "ibv_reg_mr_iova2", ENOMEM, true },
	{ "ibv_reg_mr", ENOMEM, false },
	{ "ibv_reg_dmabuf_mr", ENOMEM, false },
	{ "ibv_dereg_mr", EBUSY, false },
	{ "ibv_post_send", ENOMEM, false },
	{ "ibv_post_send", EIO, false },
	{ "ibv_post_srq_recv", ENOMEM, false },
	{ "ibv_poll_cq", EINVAL, false },
	{ "malloc", ENOMEM, false },
	{ "calloc", ENOMEM, false },
	{ "calloc", ENOMEM, true },
	{ "aligned_alloc", ENOMEM, false },
	{ "pthread_create", EAGAIN, false },
	{ "mmap", ENOMEM, false },
	{ "fcntl", EBADF, false },
};
#define GROUP "fault_verbs_bare"
#elif defined(FAULT_MEMORY)
static struct failing failing[] = {
	{ "malloc", ENOMEM, false },	     { "calloc", ENOMEM, false },
	{ "strdup", ENOMEM, false },	     { "eventfd", EMFILE, false },
	{ "epoll_create1", EMFILE, false },  { "epoll_ctl", ENOSPC, false },
	{ "pthread_create", EAGAIN, false }, { "getrandom", ENOSYS, false },
	{ "mmap", ENOMEM, false },	     { "fcntl", EBADF, false },
	{ "malloc", ENOMEM, true },
};
#define GROUP "fault_verbs_memory"
#elif defined(FAULT_CONNECTIONS)
static struct failing failing[] = {
	{ "ibv_create_qp", ENOMEM, false },	 { "ibv_modify_qp", EINVAL, false },
	{ "ibv_destroy_qp", EBUSY, false },	 { "ibv_post_send", ENOMEM, false },
	{ "ibv_post_send", EIO, false },	 { "rdma_create_event_channel", EMFILE, false },
	{ "rdma_create_id", ENOMEM, false },	 { "rdma_destroy_id", EINVAL, false },
	{ "rdma_bind_addr", EADDRINUSE, false }, { "rdma_listen", ENOMEM, false },
	{ "rdma_resolve_addr", ENODEV, false },	 { "rdma_resolve_route", EINVAL, false },
	{ "rdma_connect", ENOMEM, false },	 { "rdma_accept", EINVAL, false },
	{ "rdma_establish", EINVAL, false },	 { "rdma_disconnect", EINVAL, false },
	{ "rdma_get_cm_event", EAGAIN, false },	 { "rdma_init_qp_attr", EINVAL, false },
};
#define GROUP "fault_verbs_connections"
#else
static struct failing failing[] = {
	{ "ibv_get_device_list", ENOMEM, false },
	{ "ibv_open_device", EMFILE, false },
	{ "ibv_close_device", EBUSY, false },
	{ "ibv_query_device_ex", EIO, false },
	{ "ibv_query_port", EIO, false },
	{ "ibv_query_gid_ex", EOPNOTSUPP, false },
	{ "ibv_alloc_pd", ENOMEM, false },
	{ "ibv_dealloc_pd", EBUSY, false },
	{ "ibv_reg_mr", ENOMEM, false },
	{ "ibv_reg_mr_iova2", ENOMEM, false },
	{ "ibv_reg_mr_iova2", ENOMEM, true },
	{ "ibv_reg_dmabuf_mr", ENOMEM, false },
	{ "ibv_reg_dmabuf_mr", ENOMEM, true },
	{ "ibv_dereg_mr", EBUSY, false },
	{ "ibv_create_comp_channel", EMFILE, false },
	{ "ibv_destroy_comp_channel", EBUSY, false },
	{ "ibv_create_cq", ENOMEM, false },
	{ "ibv_destroy_cq", EBUSY, false },
	{ "ibv_poll_cq", EINVAL, false },
	{ "ibv_req_notify_cq", ENOMEM, false },
	{ "ibv_get_cq_event", EAGAIN, false },
	{ "ibv_create_srq", ENOMEM, false },
	{ "ibv_destroy_srq", EBUSY, false },
	{ "ibv_post_srq_recv", ENOMEM, false },
	{ "ibv_alloc_mw", ENOMEM, false },
	{ "ibv_alloc_mw", ENOMEM, true },
	{ "ibv_bind_mw", ENOMEM, false },
	{ "ibv_bind_mw", EIO, true },
	{ "ibv_dealloc_mw", EBUSY, false },
};
#define GROUP "fault_verbs"
#endif

#define COUNT (sizeof(failing) / sizeof(failing[0]))

int main(void)
{
	static struct CMUnitTest tests[COUNT];
	static char names[COUNT][64];

	for (size_t i = 0; i < COUNT; i++) {
		snprintf(names[i], sizeof(names[i]), "api_20_%s_fails%s", failing[i].call,
			 failing[i].error == EIO ? "_of_io"
			 : failing[i].zero_based ? "_zero_based"
						 : "");
		tests[i] = (struct CMUnitTest){ names[i], fails_in_turn, NULL, NULL, &failing[i] };
	}
	return _cmocka_run_group_tests(GROUP, tests, COUNT, measure, NULL);
}
