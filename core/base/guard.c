/* SPDX-License-Identifier: BSD-2-Clause */
/* Guarded work: a signal handler that jumps out of a fault, for the thread that asked for it. */
#include "core/base/guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/cancel.h"
#include "core/base/params.h"

/* Up to this many pages are probed by reading a byte of each, more by asking the kernel. */
#define PROBE_PAGES 16

/* A guard that is on; on the stack of its thread. */
struct guard {
	sigjmp_buf here;
	const struct iovec *memory; /* where a fault is the work's own */
	size_t count;
};

/* The thread's innermost guard: a signal handler may run guarded work inside guarded work. */
static _Thread_local struct guard *volatile current __attribute__((tls_model("initial-exec")));

static const int guarded_signals[] = { SIGSEGV, SIGBUS };
static struct sigaction previous[2];
static bool installed; /* written once, under pthread_once, before any guard is used */
static size_t page_size;

/* As the kernel would have run it: with its mask, and once only if it asked for that. */
static void pass_on(int signal, siginfo_t *info, void *context, struct sigaction *before)
{
	const struct sigaction to = *before;
	sigset_t mask = to.sa_mask;
	bool sent = info->si_code <= 0; /* by a process: nothing will fault again */

	if (!(to.sa_flags & SA_SIGINFO) && to.sa_handler == SIG_IGN && sent)
		return;
	if (!(to.sa_flags & SA_SIGINFO) && (to.sa_handler == SIG_DFL || to.sa_handler == SIG_IGN)) {
		/* the default: the instruction faults again and ends the process as it would have */
		struct sigaction reset = { .sa_handler = SIG_DFL };

		sigaction(signal, &reset, NULL);
		if (sent)
			raise(signal);
		return;
	}
	if (to.sa_flags & SA_RESETHAND)
		*before = (struct sigaction){ .sa_handler = SIG_DFL };
	if (!(to.sa_flags & SA_NODEFER))
		sigaddset(&mask, signal);
	pthread_sigmask(SIG_BLOCK, &mask, NULL); /* until the return from the signal */
	if (to.sa_flags & SA_SIGINFO)
		to.sa_sigaction(signal, info, context);
	else
		to.sa_handler(signal);
}

/*
 * Is this fault the guarded work's own, and not that of a handler which interrupted it?  By pages:
 * an access may begin before the byte that faults.  An address that the processor cannot have is
 * not told.
 */
static bool is_guarded(const struct guard *guard, const siginfo_t *info)
{
	uintptr_t page = (uintptr_t)info->si_addr / page_size;

	if (info->si_code <= 0)
		return false;
	if (info->si_code == SI_KERNEL)
		return true;
	for (size_t i = 0; i < guard->count; i++) {
		uintptr_t first = (uintptr_t)guard->memory[i].iov_base;
		size_t len = guard->memory[i].iov_len;

		if (len > 0 && page >= first / page_size && page <= (first + (len - 1)) / page_size)
			return true;
	}
	return false;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	struct guard *guard = current;

	if (guard && is_guarded(guard, info)) {
		/* a handler that passed the fault on to us may have been called with more blocked */
		if (context)
			pthread_sigmask(SIG_SETMASK, &((ucontext_t *)context)->uc_sigmask, NULL);
		siglongjmp(guard->here, 1);
	}
	pass_on(signal, info, context, &previous[signal == SIGSEGV ? 0 : 1]);
}

static void install(void)
{
	struct sigaction action = { .sa_sigaction = on_fault,
				    .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };

	page_size = (size_t)sysconf(_SC_PAGESIZE);
	if (!hm_param_bool(HM_PARAM_SW_FAULT_GUARD))
		return;
	sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < 2; i++)
		sigaction(guarded_signals[i], &action, &previous[i]);
	installed = true;
}

void hm_guard_install(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
}

__attribute__((destructor)) static void uninstall(void)
{
	for (unsigned i = 0; installed && i < 2; i++) {
		struct sigaction now;

		/* somebody who came later and passes faults on to us is left alone */
		if (sigaction(guarded_signals[i], NULL, &now) == 0 && now.sa_sigaction == on_fault)
			sigaction(guarded_signals[i], &previous[i], NULL);
	}
}

int hm_guard_run(void (*work)(void *arg), void *arg, const struct iovec *memory, size_t count)
{
	struct guard *outer = current;
	struct guard guard;

	if (!installed) {
		work(arg);
		return 0;
	}
	guard.memory = memory;
	guard.count = count;
	/* the mask is restored by the handler */
	if (sigsetjmp(guard.here, 0)) {
		current = outer;
		return -FI_EFAULT;
	}
	current = &guard;
	atomic_signal_fence(memory_order_seq_cst);
	work(arg);
	atomic_signal_fence(memory_order_seq_cst);
	current = outer;
	return 0;
}

struct copy {
	void *dst;
	const void *src;
	size_t len;
};

static void run_copy(void *arg)
{
	const struct copy *copy = arg;

	memmove(copy->dst, copy->src, copy->len);
}

int hm_guard_copy(void *dst, const void *src, size_t len)
{
	struct copy copy = { dst, src, len };
	const struct iovec memory[] = { { dst, len }, { (void *)(uintptr_t)src, len } };

	return hm_guard_run(run_copy, &copy, memory, 2);
}

struct probe {
	uintptr_t first, last;
	uintptr_t pages; /* between the two ends to look at; the ends always are */
	bool write;
};

/*
 * The bytes are the application's and may be poisoned for us; only their presence counts.  Writing
 * gives a byte the value that it has, in one step, so that nobody's store is lost.
 */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void touch(uintptr_t at,
										 bool write)
{
	unsigned char *byte = (unsigned char *)at;
	unsigned char value = *(volatile unsigned char *)byte;

	while (write && !__atomic_compare_exchange_n(byte, &value, value, false, __ATOMIC_RELAXED,
						     __ATOMIC_RELAXED))
		;
}

static void run_probe(void *arg)
{
	const struct probe *probe = arg;
	uintptr_t at = probe->last;

	touch(probe->first, probe->write);
	if (at / page_size != probe->first / page_size)
		touch(at, probe->write);
	for (uintptr_t pages = probe->pages; pages > 1; pages--) {
		at -= page_size;
		touch(at, false);
	}
}

/* Asynchronous msync writes nothing, but fails where a page of the range is not mapped. */
static int check_holes(uintptr_t first, uintptr_t last)
{
	uintptr_t start = first & ~(uintptr_t)(page_size - 1);
	int cancel, ret;

	/* no process has as much, and the kernel's own rounding would make it nothing */
	if (last - start > (uintptr_t)PTRDIFF_MAX)
		return -FI_EFAULT;
	cancel = hm_cancel_off();
	ret = msync((void *)start, last - start + 1, MS_ASYNC) == 0 ? 0 : -FI_EFAULT;
	hm_cancel_restore(cancel);
	return ret;
}

int hm_guard_probe(const void *addr, size_t len, bool write)
{
	const struct iovec memory = { (void *)(uintptr_t)addr, len };
	struct probe probe = { .first = (uintptr_t)addr,
			       .last = (uintptr_t)addr + (len - 1),
			       .write = write };
	int ret = 0;

	if (installed && len <= PROBE_PAGES * page_size)
		probe.pages = probe.last / page_size - probe.first / page_size;
	else
		ret = check_holes(probe.first, probe.last);
	if (ret == 0 && installed)
		ret = hm_guard_run(run_probe, &probe, &memory, 1);
	return ret;
}
