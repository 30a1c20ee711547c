/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded work among the signal handlers of an application: what is the work's own fault is answered,
 * everything else takes the way that it would have taken without us.  Each case is a process.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/guard.h"

#define REACHED	 40 /* exit status: the application's handler saw its fault */
#define RUN_AWAY 50 /* exit status: a handler was called for ever */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static size_t page;
static char *absent; /* two pages that cannot be touched */
static volatile int calls;
static struct sigaction found;

/* The wait status of a process that does body and exits with what it returns. */
static int status_of(int (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(20);
		_exit(body());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void assert_exits(int (*body)(void), int code)
{
	int status = status_of(body);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), code);
}

static void assert_killed(int (*body)(void))
{
	int status = status_of(body);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void touch(char *place)
{
	*(volatile char *)place = 1;
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(signal, &action, &found);
}

/* ---- copies and probes ---- */

static int copy_and_probe(void)
{
	static char from[64], to[64];
	char text[] = "0123456789";

	hm_guard_install();
	memset(from, 7, sizeof(from));
	if (hm_guard_copy(to, from, sizeof(to)) || memcmp(to, from, sizeof(to)))
		return 1;
	for (int i = 0; i < 3; i++)
		if (hm_guard_copy(absent, from, 8) != -FI_EFAULT ||
		    hm_guard_copy(to, absent, 8) != -FI_EFAULT)
			return 2;
	if (hm_guard_copy(text + 1, text, 9) || strcmp(text, "0012345678"))
		return 3; /* places that overlap */
	munmap(absent, 2 * page);
	if (hm_guard_probe(to, sizeof(to), true) || hm_guard_probe(absent, 1, false) != -FI_EFAULT)
		return 4;
	/* more than there can be: the kernel's rounding makes nothing of it */
	if (hm_guard_probe(NULL, SIZE_MAX, false) != -FI_EFAULT ||
	    hm_guard_probe((void *)(uintptr_t)1, SIZE_MAX, false) != -FI_EFAULT)
		return 5;
	return 0;
}

static void copies_and_probes(void **state)
{
	(void)state;
	assert_exits(copy_and_probe, 0);
}

/* ---- handlers that were there before ---- */

static void report(int signal)
{
	(void)signal;
	_exit(REACHED);
}

static void report_sender(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	_exit(info->si_addr == absent ? REACHED : 1);
}

static void come_back(int signal)
{
	(void)signal;
	if (++calls > 3)
		_exit(RUN_AWAY);
}

static void fault_again(int signal)
{
	come_back(signal);
	touch(absent);
}

static int own_fault(void)
{
	handle(SIGSEGV, report, 0);
	hm_guard_install();
	touch(absent);
	return 1;
}

static int own_fault_with_address(void)
{
	struct sigaction action = { .sa_sigaction = report_sender, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &action, NULL);
	hm_guard_install();
	touch(absent);
	return 1;
}

static int unhandled(void)
{
	handle(SIGSEGV, SIG_DFL, 0);
	hm_guard_install();
	touch(absent);
	return 1;
}

static int once_only(void)
{
	handle(SIGSEGV, come_back, (int)SA_RESETHAND);
	hm_guard_install();
	touch(absent);
	return 1;
}

static int fault_in_handler(void)
{
	handle(SIGSEGV, fault_again, 0);
	hm_guard_install();
	touch(absent);
	return 1;
}

static int sent_and_ignored(void)
{
	handle(SIGSEGV, SIG_IGN, 0);
	hm_guard_install();
	raise(SIGSEGV);
	return 0;
}

static int sent_and_unhandled(void)
{
	handle(SIGSEGV, SIG_DFL, 0);
	hm_guard_install();
	raise(SIGSEGV);
	return 1;
}

static void others_go_their_way(void **state)
{
	(void)state;
	assert_exits(own_fault, REACHED);
	assert_exits(own_fault_with_address, REACHED);
	assert_exits(sent_and_ignored, 0);
	if (SANITIZED)
		skip(); /* its handler would write a report */
	assert_killed(unhandled);
	assert_killed(once_only);
	assert_killed(fault_in_handler);
	assert_killed(sent_and_unhandled);
}

/* ---- a handler that comes later and passes on what is not its own ---- */

static void pass_back(int signal, siginfo_t *info, void *context)
{
	found.sa_sigaction(signal, info, context);
}

static int passed_back(void)
{
	struct sigaction action = { .sa_sigaction = pass_back, .sa_flags = SA_SIGINFO };
	sigset_t mask;
	char byte;

	hm_guard_install();
	sigaction(SIGSEGV, &action, &found);
	for (int i = 0; i < 3; i++)
		if (hm_guard_copy(&byte, absent, 1) != -FI_EFAULT)
			return 1;
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	return sigismember(&mask, SIGSEGV);
}

static void later_handler_passes_back(void **state)
{
	(void)state;
	assert_exits(passed_back, 0);
}

/* ---- a handler that interrupts guarded work ---- */

static void work_guarded(int signal)
{
	char byte = 1, other;

	(void)signal;
	if (hm_guard_copy(&other, &byte, 1) || hm_guard_copy(&other, absent, 1) != -FI_EFAULT)
		_exit(1);
	calls++;
}

static void raise_and_fault(void *arg)
{
	raise(SIGUSR1);
	touch(arg);
}

static int nested(void)
{
	const struct iovec memory = { absent, page };

	hm_guard_install();
	handle(SIGUSR1, work_guarded, 0);
	if (hm_guard_run(raise_and_fault, absent, &memory, 1) != -FI_EFAULT)
		return 1;
	return calls == 1 ? 0 : 2;
}

static void fault_unguarded(int signal)
{
	(void)signal;
	touch(absent + page);
}

static int interrupted(void)
{
	const struct iovec memory = { absent, page };

	handle(SIGSEGV, report, 0);
	hm_guard_install();
	handle(SIGUSR1, fault_unguarded, 0);
	hm_guard_run(raise_and_fault, absent, &memory, 1);
	return 1;
}

static void handlers_interrupt_work(void **state)
{
	(void)state;
	assert_exits(nested, 0);
	assert_exits(interrupted, REACHED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_and_probes),
		cmocka_unit_test(others_go_their_way),
		cmocka_unit_test(later_handler_passes_back),
		cmocka_unit_test(handlers_interrupt_work),
	};

	if (getenv("HMREG_VALGRIND")) {
		print_message("skipped: valgrind reports each access that this is about\n");
		return 77;
	}
	page = (size_t)sysconf(_SC_PAGESIZE);
	absent = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (absent == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
