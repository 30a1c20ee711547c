/* SPDX-License-Identifier: BSD-2-Clause */
/* Where every thread is, when one of them is stuck. */
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/stress/fresh.h"

#define THREADS		   256u
#define FRAMES		   48
#define PAUSE_MICROSECONDS 100000

static _Atomic int thread[THREADS];
static _Atomic unsigned threads;
static unsigned patience;

static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return;
}

static void show_stack(int signal)
{
	void *frame[FRAMES];

	if (signal == SIGSEGV && fresh_claiming[0])
		fresh_print_history(fresh_claiming[0], fresh_claiming[1]);
	say("---- a thread is at\n");
	backtrace_symbols_fd(frame, backtrace(frame, FRAMES), STDERR_FILENO);
}

/* Where the fault is, and then what is done about it without this handler. */
static void show_fault(int number)
{
	show_stack(number);
	signal(number, SIG_DFL);
	raise(number);
}

static void give_up(int signal)
{
	unsigned count = atomic_load(&threads);

	say("no progress: where the threads are\n");
	for (unsigned i = 0; i < count && i < THREADS; i++) {
		syscall(SYS_tgkill, getpid(), atomic_load(&thread[i]), SIGUSR2);
		usleep(PAUSE_MICROSECONDS);
	}
	show_stack(signal);
	_exit(1);
}

void fresh_watch_me(void)
{
	unsigned i = atomic_fetch_add(&threads, 1);

	if (i < THREADS)
		atomic_store(&thread[i], (int)syscall(SYS_gettid));
}

void fresh_watch_again(void)
{
	alarm(patience);
}

void fresh_watch_start(unsigned seconds)
{
	void *frame[1];

	backtrace(frame, 1); /* it loads what it needs now, not in a handler */
	signal(SIGUSR2, show_stack);
	signal(SIGALRM, give_up);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	signal(SIGSEGV, show_fault);
	signal(SIGBUS, show_fault);
#else
	(void)show_fault;
#endif
	patience = seconds;
	alarm(seconds);
}
