/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memhooks: threads.  The C library drops a stack's pages when its thread ends, keeps the stack for the next
 * one, or unmaps it, all without calling through words.  So a stack is reported when its thread ends (by the
 * last destructor of thread-specific data) and once more when a thread starts on it.  The end of threads that
 * were there before is seen if they register memory themselves.
 */
#include "core/mr/monitor_hooks.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#define STARTS 64u
#define TOP    UINT64_C(65536) /* what the C library has above the first frame, at most */
#define PAGE   UINT64_C(4096)

/* A thread that is being started: a place of `starts`, or allocated. */
struct start {
	_Atomic bool taken;
	void *(*run)(void *);
	int (*run_c11)(void *);
	void *arg;
	uint64_t stack; /* bytes, guard included */
};

/* This thread's stack.  rounds: destructors were called so often. */
struct self {
	uint64_t begin, end;
	unsigned rounds;
};

static struct start starts[STARTS];
static pthread_key_t key;
static bool have_key;
static _Thread_local struct self self __attribute__((tls_model("initial-exec")));

/* ---- ends ---- */

/* Called again after those of others, as often as the C library allows. */
static void ending(void *unused)
{
	(void)unused;
	hm_hook_changed(self.begin, self.end);
	if (++self.rounds < PTHREAD_DESTRUCTOR_ITERATIONS - HM_HOOKS_TSAN)
		pthread_setspecific(key, &self);
}

static void see_end(uint64_t begin, uint64_t end)
{
	self = (struct self){ begin, end, 0 };
	pthread_setspecific(key, &self);
}

int hm_hooks_thread_init(void)
{
	if (!have_key && pthread_key_create(&key, ending) != 0)
		return -FI_EAGAIN;
	have_key = true;
	return 0;
}

int hm_hooks_thread_watch(uint64_t begin, uint64_t end, uint64_t *mark)
{
	pthread_attr_t attr;
	size_t size = 0;
	void *stack = NULL;

	(void)mark;
	if (__builtin_expect(self.end != 0,
			     1)) /* in its last destructors nothing is kept of its stack */
		return self.rounds > 0 && begin < self.end && self.begin < end ? -FI_EINVAL : 0;
	if (getpid() == syscall(SYS_gettid)) {
		self.end = 1; /* the program's first stack is there till its end */
		return 0;
	}
	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return -FI_ENOMEM;
	pthread_attr_getstack(&attr, &stack, &size);
	pthread_attr_destroy(&attr);
	see_end((uint64_t)(uintptr_t)stack, (uint64_t)(uintptr_t)stack + size);
	return 0;
}

/* ---- starts ---- */

/* Around this frame and the thread's own data, which are at the top; more rather than less. */
static void begin_thread(uint64_t bytes)
{
	uint64_t frame = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	uint64_t own = (uint64_t)pthread_self();
	uint64_t low = own < frame || own - frame > bytes ? frame : own;
	uint64_t begin = low > bytes + PAGE ? (low - bytes) & ~(PAGE - 1) : 0;

	see_end(begin, hm_hook_range_end(low, TOP));
	hm_hook_changed(self.begin, self.end);
}

static struct start *take_start(void)
{
	for (unsigned i = 0; i < STARTS; i++)
		if (!atomic_exchange(&starts[i].taken, true))
			return &starts[i];
	return malloc(sizeof(struct start));
}

static void give_start(struct start *start)
{
	if (start >= starts && start < starts + STARTS)
		atomic_store(&start->taken, false);
	else
		free(start);
}

static struct start begin_from(void *arg)
{
	struct start mine = { .taken = true };

	mine.run = ((struct start *)arg)->run;
	mine.run_c11 = ((struct start *)arg)->run_c11;
	mine.arg = ((struct start *)arg)->arg;
	mine.stack = ((struct start *)arg)->stack;
	give_start(arg);
	begin_thread(mine.stack);
	return mine;
}

static void *run(void *arg)
{
	struct start mine = begin_from(arg);

	return mine.run(mine.arg);
}

static int run_c11(void *arg)
{
	struct start mine = begin_from(arg);

	return mine.run_c11(mine.arg);
}

static uint64_t stack_bytes(const pthread_attr_t *attr)
{
	pthread_attr_t usual;
	size_t stack = 0, guard = 0;

	if (attr) {
		pthread_attr_getstacksize(attr, &stack);
		pthread_attr_getguardsize(attr, &guard);
	} else if (pthread_attr_init(&usual) == 0) {
		pthread_attr_getstacksize(&usual, &stack);
		pthread_attr_getguardsize(&usual, &guard);
		pthread_attr_destroy(&usual);
	}
	return stack + guard;
}

/* ---- hooks ---- */

HM_HOOK_OF(pthread_create);
HM_HOOK_OF(thrd_create);

static int do_pthread_create(unsigned v, pthread_t *thread, const pthread_attr_t *attr,
			     void *(*routine)(void *), void *arg)
{
	struct start *start;
	int ret;

	if (!atomic_load_explicit(&hm_hooks_on, memory_order_relaxed))
		return HM_BEFORE(pthread_create, v)(thread, attr, routine, arg);
	start = take_start();
	if (!start)
		return EAGAIN;
	start->run = routine;
	start->arg = arg;
	start->stack = stack_bytes(attr);
	ret = HM_BEFORE(pthread_create, v)(thread, attr, run, start);
	if (ret != 0)
		give_start(start);
	return ret;
}
HM_HOOK(int, pthread_create,
	(pthread_t * thread, const pthread_attr_t *attr, void *(*routine)(void *), void *arg),
	thread, attr, routine, arg);

static int do_thrd_create(unsigned v, thrd_t *thread, thrd_start_t routine, void *arg)
{
	struct start *start;
	int ret;

	if (!atomic_load_explicit(&hm_hooks_on, memory_order_relaxed))
		return HM_BEFORE(thrd_create, v)(thread, routine, arg);
	start = take_start();
	if (!start)
		return thrd_nomem;
	start->run_c11 = routine;
	start->arg = arg;
	start->stack = stack_bytes(NULL);
	ret = HM_BEFORE(thrd_create, v)(thread, run_c11, start);
	if (ret != thrd_success)
		give_start(start);
	return ret;
}
HM_HOOK(int, thrd_create, (thrd_t * thread, thrd_start_t routine, void *arg), thread, routine, arg);

struct hm_hook *const hm_hooks_thread[] = { &hook_pthread_create, &hook_thrd_create, NULL };
