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
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/params.h"

/* Up to this many pages are probed by reading a byte of each, more by asking the kernel. */
#define PROBE_PAGES 16

static _Thread_local sigjmp_buf *volatile escape __attribute__((tls_model("initial-exec")));

static const int guarded_signals[] = {SIGSEGV, SIGBUS};
static struct sigaction previous[2];
static bool installed; /* written once, under pthread_once, before any guard is used */
static size_t page_size;

static void pass_on(int signal, siginfo_t *info, void *context, const struct sigaction *to)
{
	if (to->sa_flags & SA_SIGINFO) {
		to->sa_sigaction(signal, info, context);
	} else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN) {
		to->sa_handler(signal);
	} else {
		/* the default: the instruction faults again and ends the process as it would have */
		struct sigaction reset = {.sa_handler = SIG_DFL};

		sigaction(signal, &reset, NULL);
		if (info->si_code <= 0) /* sent by a process, nothing will fault again */
			raise(signal);
	}
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	sigjmp_buf *to = escape;

	if (to && info->si_code > 0)
		siglongjmp(*to, 1);
	pass_on(signal, info, context, &previous[signal == SIGSEGV ? 0 : 1]);
}

static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_fault,
				   .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

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

int hm_guard_run(void (*work)(void *arg), void *arg)
{
	sigjmp_buf here;

	if (!installed) {
		work(arg);
		return 0;
	}
	/* the mask is not saved: the handler runs with SA_NODEFER and an empty mask */
	if (sigsetjmp(here, 0)) {
		escape = NULL;
		return -FI_EFAULT;
	}
	escape = &here;
	atomic_signal_fence(memory_order_seq_cst);
	work(arg);
	atomic_signal_fence(memory_order_seq_cst);
	escape = NULL;
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

	memcpy(copy->dst, copy->src, copy->len);
}

int hm_guard_copy(void *dst, const void *src, size_t len)
{
	struct copy copy = {dst, src, len};

	return hm_guard_run(run_copy, &copy);
}

struct probe {
	uintptr_t first, last;
};

/* The bytes are the application's and may be poisoned for us; only their presence counts. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void run_probe(void *arg)
{
	const struct probe *probe = arg;

	uintptr_t pages = probe->last / page_size - probe->first / page_size;

	(void)*(const volatile char *)probe->first;
	for (uintptr_t at = probe->last; pages > 0; pages--, at -= page_size)
		(void)*(const volatile char *)at;
}

int hm_guard_probe(const void *addr, size_t len)
{
	uintptr_t start = (uintptr_t)addr & ~(uintptr_t)(page_size - 1);
	struct probe probe = {(uintptr_t)addr, (uintptr_t)addr + (len - 1)};

	if (installed && len <= PROBE_PAGES * page_size)
		return hm_guard_run(run_probe, &probe);
	/* asynchronous msync writes nothing, but fails where a page of the range is not mapped */
	return msync((void *)start, probe.last - start + 1, MS_ASYNC) == 0 ? 0 : -FI_EFAULT;
}
