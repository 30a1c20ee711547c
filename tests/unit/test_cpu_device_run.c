/* SPDX-License-Identifier: BSD-2-Clause */
/* Kernels on the CPU device: scopes, launches, what reaches nothing, and what dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cpu_device_scene.h"

#define PAGE 4096u

#ifdef __SANITIZE_THREAD__
#define SANITIZE_THREAD 1
#else
#define SANITIZE_THREAD 0
#endif

static void *on_device_of(const struct scene *scene, size_t len, void **host)
{
	void *device;

	assert_int_equal(cpu_device_alloc(scene->device, len, &device, host), 0);
	return device;
}

/* ---- scopes ---- */

struct place {
	unsigned block, blocks, thread, threads, rank[4], size[4];
};

struct places {
	struct place *list;
};

XPU_KERNEL(find_place, struct places)
{
	struct place *mine = &args.list[xpu_block() * xpu_threads() + xpu_thread()];

	*mine = (struct place){
		xpu_block(), xpu_blocks(), xpu_thread(), xpu_threads(), { 0 }, { 0 }
	};
	for (int scope = FI_XPU_WORK_ITEM; scope <= FI_XPU_DEVICE; scope++) {
		mine->rank[scope] = cpu_device_rank(scope);
		mine->size[scope] = cpu_device_size(scope);
	}
}

static void assert_place(const struct place *place, unsigned block, unsigned thread)
{
	unsigned subgroup = thread / 4, last = 10 / 4;

	assert_int_equal(place->block, block);
	assert_int_equal(place->blocks, 3);
	assert_int_equal(place->thread, thread);
	assert_int_equal(place->threads, 10);
	assert_int_equal(place->rank[FI_XPU_WORK_ITEM], 0);
	assert_int_equal(place->size[FI_XPU_WORK_ITEM], 1);
	assert_int_equal(place->rank[FI_XPU_SUBGROUP], thread % 4);
	assert_int_equal(place->size[FI_XPU_SUBGROUP], subgroup == last ? 2 : 4);
	assert_int_equal(place->rank[FI_XPU_WORK_GROUP], thread);
	assert_int_equal(place->size[FI_XPU_WORK_GROUP], 10);
	assert_int_equal(place->rank[FI_XPU_DEVICE], block * 10 + thread);
	assert_int_equal(place->size[FI_XPU_DEVICE], 30);
}

static void xpu_09_threads_have_a_rank_in_each_scope(void **state)
{
	struct scene scene;
	void *host, *device;

	scene_open(&scene, state);
	device = on_device_of(&scene, 30 * sizeof(struct place), &host);
	scene_run(&scene, find_place, &device, sizeof(device), 3, 10);
	for (unsigned i = 0; i < 30; i++)
		assert_place((struct place *)host + i, i / 10, i % 10);
	cpu_device_free(scene.device, device);
	scene_close(&scene);
}

/* Outside of kernels a thread is alone, and waits for nobody. */
static void xpu_09_a_host_thread_is_alone(void **state)
{
	(void)state;
	for (int scope = FI_XPU_WORK_ITEM; scope <= FI_XPU_DEVICE; scope++) {
		assert_int_equal(cpu_device_rank(scope), 0);
		assert_int_equal(cpu_device_size(scope), 1);
		cpu_device_sync(scope);
		assert_int_equal(cpu_device_share(scope, -5), -5);
	}
	assert_int_equal(xpu_block(), 0);
	assert_int_equal(xpu_blocks(), 1);
}

#define ROUNDS 20

struct rounds_args {
	uint32_t *words; /* a plain word of each thread */
	uint64_t *wrong;
	int scope;
};

/* In each round all write, and then read each other's: plain words, which only the barrier orders. */
XPU_KERNEL(rounds, struct rounds_args)
{
	unsigned rank = cpu_device_rank(args.scope), size = cpu_device_size(args.scope);
	uint32_t *mine = &args.words[cpu_device_rank(FI_XPU_DEVICE)], *first = mine - rank;

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		*mine = round * 1000 + rank;
		cpu_device_sync(args.scope);
		for (unsigned i = 0; i < size; i++)
			if (first[i] != round * 1000 + i)
				__atomic_fetch_add(args.wrong, 1, __ATOMIC_RELAXED);
		cpu_device_sync(args.scope);
	}
}

/* What rank 0 gives: of its place and round, so that none can be mistaken for another. */
XPU_KERNEL(shares, struct rounds_args)
{
	unsigned rank = cpu_device_rank(args.scope);
	long long first = cpu_device_rank(FI_XPU_DEVICE) - rank;

	for (int round = 0; round < ROUNDS; round++) {
		long long given = rank ? -1 : first * 1000 + round;

		if (cpu_device_share(args.scope, given) != first * 1000 + round)
			__atomic_fetch_add(args.wrong, 1, __ATOMIC_RELAXED);
	}
	__atomic_fetch_add(&args.wrong[1], 1, __ATOMIC_RELAXED);
}

static void run_scopes(void **state, cpu_device_kernel *kernel, unsigned blocks, unsigned threads)
{
	struct rounds_args args;
	struct scene scene;
	uint64_t *wrong;
	void *host;

	scene_open(&scene, state);
	args.wrong = on_device_of(&scene, PAGE + blocks * threads * 4, &host);
	args.words = (uint32_t *)(args.wrong + 8);
	wrong = host;
	for (args.scope = FI_XPU_WORK_ITEM; args.scope <= FI_XPU_DEVICE; args.scope++) {
		wrong[1] = 0;
		scene_run(&scene, kernel, &args, sizeof(args), blocks, threads);
		assert_int_equal(wrong[0], 0);
		if (kernel == shares)
			assert_int_equal(wrong[1], blocks * threads);
	}
	cpu_device_free(scene.device, args.wrong);
	scene_close(&scene);
}

static void xpu_09_who_syncs_sees_what_others_wrote(void **state)
{
	run_scopes(state, rounds, 1, 1);
	run_scopes(state, rounds, 3, 10);
}

static void xpu_09_a_shared_value_is_of_rank_0(void **state)
{
	run_scopes(state, shares, 1, 1);
	run_scopes(state, shares, 3, 10);
}

/* Under the thread sanitizer a thread takes milliseconds to start. */
#define BLOCKS (SANITIZE_THREAD ? 2 : 32)

/* All at once: none would pass the device's barrier otherwise. */
static void xpu_09_thousands_of_threads_sync(void **state)
{
	run_scopes(state, shares, getenv("HMREG_VALGRIND") ? 2 : BLOCKS, 64);
}

/* ---- launches ---- */

struct sum_args {
	unsigned char bytes[CPU_DEVICE_ARGS - sizeof(uint64_t *)];
	uint64_t *sum;
};

XPU_KERNEL(sum_args, struct sum_args)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(args.bytes); i++)
		sum += args.bytes[i];
	__atomic_fetch_add(args.sum, sum, __ATOMIC_RELAXED);
}

static void xpu_09_args_are_copied(void **state)
{
	struct sum_args args;
	struct scene scene;
	void *host;

	scene_open(&scene, state);
	args.sum = on_device_of(&scene, 8, &host);
	memset(args.bytes, 3, sizeof(args.bytes));
	assert_int_equal(cpu_device_launch(scene.device, sum_args, &args, sizeof(args), 2, 1), 0);
	memset(args.bytes, 0, sizeof(args.bytes));
	assert_int_equal(cpu_device_wait(scene.device, -1), 0);
	assert_int_equal(*(uint64_t *)host, 2 * 3 * sizeof(args.bytes));
	cpu_device_free(scene.device, args.sum);
	scene_close(&scene);
}

static void xpu_09_launches_are_one_at_a_time(void **state)
{
	uint64_t *words, *on_device;
	struct hold_args args;
	struct scene scene;

	scene_open(&scene, state);
	assert_int_equal(cpu_device_wait(scene.device, -1), 0); /* nothing runs */
	scene_hold(&scene, &words, &on_device, 5);
	args = (struct hold_args){ on_device, on_device + 1 };
	assert_int_equal(cpu_device_launch(scene.device, hold, &args, sizeof(args), 1, 1), -EBUSY);
	assert_int_equal(cpu_device_wait(scene.device, 0), -ETIMEDOUT);
	assert_int_equal(cpu_device_wait(scene.device, 1), -ETIMEDOUT);
	scene_release(&scene, words);
	assert_int_equal(words[0], 5);
	/* Once it has ended, the next may come without a wait: it returns at once. */
	for (int i = 0; i < 20; i++) {
		int rc;

		while ((rc = cpu_device_launch(scene.device, hold, &args, sizeof(args), 2, 2)) ==
		       -EBUSY)
			usleep(100);
		assert_int_equal(rc, 0);
	}
	assert_int_equal(cpu_device_wait(scene.device, -1), 0);
	assert_int_equal(words[0], 5 + 20 * 4);
	cpu_device_free(scene.device, on_device);
	scene_close(&scene);
}

static void xpu_09_a_launch_is_refused_with_a_cause(void **state)
{
	static unsigned char args[CPU_DEVICE_ARGS + 1];
	struct cpu_device *device;
	struct scene scene;
	void *outside = dlsym(RTLD_DEFAULT, "getpid");

	scene_open(&scene, state);
	device = scene.device;
	assert_non_null(outside);
	assert_int_equal(cpu_device_launch(device, NULL, args, 8, 1, 1), -EINVAL);
	assert_int_equal(cpu_device_launch(device, hold, args, 8, 0, 1), -EINVAL);
	assert_int_equal(cpu_device_launch(device, hold, args, 8, 1, 0), -EINVAL);
	assert_int_equal(cpu_device_launch(device, hold, NULL, 8, 1, 1), -EINVAL);
	assert_int_equal(cpu_device_launch(device, hold, args, sizeof(args), 1, 1), -E2BIG);
	assert_int_equal(cpu_device_launch(device, hold, args, 8, CPU_DEVICE_THREADS_MAX, 2),
			 -E2BIG);
	assert_int_equal(cpu_device_launch(device, hold, args, 8, UINT32_MAX, UINT32_MAX), -E2BIG);
	if (scene.mode == CPU_DEVICE_PROCESS)
		assert_int_equal(cpu_device_launch(device, (cpu_device_kernel *)(uintptr_t)outside,
						   NULL, 0, 1, 1),
				 -EINVAL);
	assert_int_equal(cpu_device_wait(device, 0), 0);
	scene_close(&scene);
}

/* ---- a process has nothing of its parent's ---- */

static int changed_by_host;

struct inside {
	int pid, parent, fds, variable, changed, signals;
};

struct inside_args {
	struct inside *inside;
};

XPU_KERNEL(look_inside, struct inside_args)
{
	struct inside *inside = args.inside;
	sigset_t blocked;

	inside->pid = getpid();
	inside->parent = getppid();
	for (int fd = 0; fd < 256; fd++)
		inside->fds += fcntl(fd, F_GETFD) >= 0;
	inside->variable = getenv("HMREG_CPU_DEVICE") != NULL;
	inside->changed = changed_by_host;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	inside->signals = sigismember(&blocked, SIGUSR1);
}

static void xpu_02_a_process_has_nothing_of_its_parents(void **state)
{
	struct inside *inside;
	struct scene scene;
	void *device, *host;
	sigset_t usr1;
	int fds[20];

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	for (int i = 0; i < 20; i++) /* which an execution does not close */
		fds[i] = dup(STDERR_FILENO);
	changed_by_host = 1;
	scene_open(&scene, state);
	device = on_device_of(&scene, sizeof(*inside), &host);
	inside = host;
	scene_run(&scene, look_inside, &device, sizeof(device), 1, 1);
	assert_int_not_equal(inside->pid, getpid());
	assert_int_equal(inside->parent, getpid());
	assert_in_range(inside->fds, 5, 6); /* 0 to 2, sockets, and the watch of its parent */
	assert_int_equal(inside->variable, 0);
	assert_int_equal(inside->changed, 0);
	assert_int_equal(inside->signals, 0);
	cpu_device_free(scene.device, device);
	scene_close(&scene);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
}

/* ---- stray pointers ---- */

struct stray_args {
	uint64_t *before, *stray;
};

XPU_KERNEL(stray, struct stray_args)
{
	*(volatile uint64_t *)args.before = 1;
	*(volatile uint64_t *)args.stray = 2;
	*(volatile uint64_t *)args.before = 3;
}

/* All that is left is to free and close. */
static void assert_dead(const struct scene *scene)
{
	const struct fi_xpu_ops *ops = cpu_device_ops();
	void *pages = scene_pages(1), *device = NULL, *host = NULL;

	assert_int_equal(cpu_device_wait(scene->device, -1), -EFAULT);
	assert_int_equal(cpu_device_launch(scene->device, hold, NULL, 0, 1, 1), -EFAULT);
	assert_int_equal(cpu_device_alloc(scene->device, 1, &device, &host), -ENODEV);
	assert_int_equal(ops->import(scene->number, pages, PAGE, 0, &device), -ENODEV);
	assert_null(device);
	munmap(pages, PAGE);
}

static void run_stray(void **state, uint64_t *pointer)
{
	struct stray_args args = { .stray = pointer };
	const struct fi_xpu_ops *ops = cpu_device_ops();
	void *host, *pages = scene_pages(1), *imported;
	struct scene scene;

	scene_open(&scene, state);
	args.before = on_device_of(&scene, 8, &host);
	assert_int_equal(ops->import(scene.number, pages, PAGE, 0, &imported), 0);
	assert_int_equal(cpu_device_launch(scene.device, stray, &args, sizeof(args), 1, 1), 0);
	assert_int_equal(cpu_device_wait(scene.device, -1), -EFAULT);
	assert_int_equal(*(uint64_t *)host, 1);
	assert_dead(&scene);
	memset(pages, 1, PAGE); /* the host's as ever */
	cpu_device_free(scene.device, args.before);
	ops->free(scene.number, imported);
	munmap(pages, PAGE);
	scene_close(&scene);
}

/* A place that no process maps by itself, so the device has nothing there for sure. */
static void xpu_10_a_pointer_of_the_hosts_is_fatal(void **state)
{
	uint64_t *page = mmap((void *)0x7800000000, PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	*page = 7;
	run_stray(state, page);
	assert_int_equal(*page, 7);
	munmap(page, PAGE);
}

/* The program is the same, but not where it lies. */
static void xpu_10_variables_of_the_hosts_are_not_the_devices(void **state)
{
	static uint64_t of_program = 7;
	uint64_t of_stack = 7;

	if (SANITIZE_THREAD)
		skip(); /* may not be elsewhere */
	run_stray(state, &of_program);
	run_stray(state, &of_stack);
	assert_int_equal(of_program, 7);
	assert_int_equal(of_stack, 7);
}

static void xpu_10_a_pointer_to_nothing_is_fatal(void **state)
{
	run_stray(state, NULL);
}

static void xpu_10_memory_of_another_device_is_fatal(void **state)
{
	struct scene other;
	void *host, *device;

	scene_open(&other, state);
	device = on_device_of(&other, 8, &host);
	run_stray(state, device);
	assert_int_equal(*(uint64_t *)host, 0);
	cpu_device_free(other.device, device);
	scene_close(&other);
}

static void xpu_10_memory_that_was_freed_is_fatal(void **state)
{
	struct stray_args args;
	struct scene scene;
	void *host, *freed;

	scene_open(&scene, state);
	args.before = on_device_of(&scene, 8, &host);
	args.stray = on_device_of(&scene, 8, &freed);
	cpu_device_free(scene.device, args.stray);
	assert_int_equal(cpu_device_launch(scene.device, stray, &args, sizeof(args), 1, 1), 0);
	assert_int_equal(cpu_device_wait(scene.device, -1), -EFAULT);
	assert_int_equal(*(uint64_t *)host, 1);
	cpu_device_free(scene.device, args.before);
	scene_close(&scene);
}

/* Nobody waits for the kernel: whoever asks for something next is told. */
static void xpu_10_operations_tell_of_a_death(void **state)
{
	const struct fi_xpu_ops *ops = cpu_device_ops();
	struct stray_args args = { NULL, NULL };
	struct scene scene;
	void *device;
	int rc;

	scene_open(&scene, state);
	assert_int_equal(cpu_device_launch(scene.device, stray, &args, sizeof(args), 1, 1), 0);
	while ((rc = ops->alloc(scene.number, PAGE, 0, 0, &device, NULL, NULL)) == 0)
		ops->free(scene.number, device);
	assert_int_equal(rc, -ENODEV);
	assert_dead(&scene);
	scene_close(&scene);
}

/* ---- kernels that are killed ---- */

static void xpu_10_a_kernel_is_killed_and_the_host_goes_on(void **state)
{
	uint64_t *words, *on_device;
	struct scene scene;

	scene_open(&scene, state);
	scene_hold(&scene, &words, &on_device, 9);
	assert_int_equal(cpu_device_kill(scene.device), 0);
	assert_dead(&scene);
	assert_int_equal(words[0], 9);
	assert_int_equal(cpu_device_kill(scene.device), 0);
	cpu_device_free(scene.device, on_device);
	scene_close(&scene);
}

static void xpu_10_a_device_is_closed_while_its_kernel_runs(void **state)
{
	uint64_t *words, *on_device;
	struct scene scene;

	scene_open(&scene, state);
	scene_hold(&scene, &words, &on_device, 3);
	cpu_device_free(scene.device, on_device);
	scene_close(&scene);
}

static void xpu_10_threads_cannot_be_killed(void **state)
{
	uint64_t *words, *on_device;
	struct scene scene;

	scene_open(&scene, state);
	scene_hold(&scene, &words, &on_device, 2);
	assert_int_equal(cpu_device_kill(scene.device), -ENOTSUP);
	assert_int_equal(cpu_device_wait(scene.device, 0), -ETIMEDOUT);
	scene_release(&scene, words);
	cpu_device_free(scene.device, on_device);
	scene_close(&scene);
}

/* ---- the parent's death ---- */

/* A child with a device, and with a child of its own that keeps all fds; they tell and wait for a signal. */
static _Noreturn void be_parent(int report)
{
	struct hold_args args;
	struct cpu_device *device;
	struct inside *inside;
	void *at, *host;

	if (cpu_device_open(CPU_DEVICE_PROCESS, &device) ||
	    cpu_device_alloc(device, PAGE, &at, &host) ||
	    cpu_device_launch(device, look_inside, &at, sizeof(at), 1, 1) ||
	    cpu_device_wait(device, -1))
		_exit(1);
	inside = host;
	args = (struct hold_args){ (uint64_t *)at + 8, (uint64_t *)at + 9 };
	if (cpu_device_launch(device, hold, &args, sizeof(args), 1, 1))
		_exit(1);
	if (fork() == 0) {
		pid_t pids[2] = { inside->pid, getpid() };

		if (write(report, pids, sizeof(pids)) != sizeof(pids))
			_exit(1);
	}
	alarm(600); /* if nobody ends us */
	for (;;)
		pause();
}

static void xpu_10_a_parents_death_ends_the_device(void **state)
{
	pid_t parent, pids[2];
	struct pollfd watch;
	int report[2];

	(void)state;
	if (getenv("HMREG_VALGRIND")) /* which knows no fds of processes */
		skip();
	assert_int_equal(pipe(report), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (!parent)
		be_parent(report[1]);
	close(report[1]);
	assert_int_equal(read(report[0], pids, sizeof(pids)), sizeof(pids));
	watch = (struct pollfd){ (int)syscall(SYS_pidfd_open, pids[0], 0), POLLIN, 0 };
	assert_true(watch.fd >= 0);
	assert_int_equal(poll(&watch, 1, 0), 0); /* it runs */
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	assert_int_equal(poll(&watch, 1, -1), 1);
	kill(pids[1], SIGKILL);
	close(watch.fd);
	close(report[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CPU_DEVICE_TESTS(xpu_09_threads_have_a_rank_in_each_scope),
		cmocka_unit_test(xpu_09_a_host_thread_is_alone),
		CPU_DEVICE_TESTS(xpu_09_who_syncs_sees_what_others_wrote),
		CPU_DEVICE_TESTS(xpu_09_a_shared_value_is_of_rank_0),
		CPU_DEVICE_TESTS(xpu_09_thousands_of_threads_sync),
		CPU_DEVICE_TESTS(xpu_09_args_are_copied),
		CPU_DEVICE_TESTS(xpu_09_launches_are_one_at_a_time),
		CPU_DEVICE_TESTS(xpu_09_a_launch_is_refused_with_a_cause),
		CPU_DEVICE_TEST(xpu_02_a_process_has_nothing_of_its_parents, in_process),
		CPU_DEVICE_TEST(xpu_10_a_pointer_of_the_hosts_is_fatal, in_process),
		CPU_DEVICE_TEST(xpu_10_variables_of_the_hosts_are_not_the_devices, in_process),
		CPU_DEVICE_TEST(xpu_10_a_pointer_to_nothing_is_fatal, in_process),
		CPU_DEVICE_TEST(xpu_10_memory_of_another_device_is_fatal, in_process),
		CPU_DEVICE_TEST(xpu_10_memory_that_was_freed_is_fatal, in_process),
		CPU_DEVICE_TEST(xpu_10_operations_tell_of_a_death, in_process),
		CPU_DEVICE_TEST(xpu_10_a_kernel_is_killed_and_the_host_goes_on, in_process),
		CPU_DEVICE_TEST(xpu_10_a_device_is_closed_while_its_kernel_runs, in_process),
		CPU_DEVICE_TEST(xpu_10_threads_cannot_be_killed, in_threads),
		CPU_DEVICE_TEST(xpu_10_a_parents_death_ends_the_device, in_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
