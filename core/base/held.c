/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts per thread of what is held; held.h explains them. */
#include "core/base/held.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/pages.h"
#include "core/base/spin.h"

#define ARRAY_BYTES ((size_t)HM_HELD_NUMBERS * sizeof(uint32_t))
#define STEP	    (UINT32_C(1) << 14) /* counts that get memory at once */
#define HUGE_STEP   ((uint32_t)(HM_HUGE_PAGE / sizeof(uint32_t))) /* and of very many */
#define ALIGN	    16u						  /* counts in a cache line */

_Thread_local struct hm_held_self hm_held_self __attribute__((tls_model("initial-exec")));
bool hm_held_fenced;

/* One thread's counts, and after its end a later one's.  Never freed: the sum needs them. */
struct counts {
	struct counts *next;
	_Atomic uint32_t *count;
	_Atomic uint32_t limit;
	bool taken; /* under the lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct counts *) all;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_exit;
static bool have_at_exit; /* else the arrays of threads that ended stay unused */
/* Of threads that have no memory for counts. */
static struct counts shared;
static _Thread_local struct counts *mine __attribute__((tls_model("initial-exec")));

struct range {
	struct range *next; /* by first, ascending */
	uint32_t first, count;
};
static struct range *ranges; /* under the lock */

static void thread_ends(void *counts)
{
	hm_held_self = (struct hm_held_self){ NULL, 0, 0 };
	mine = NULL;
	pthread_mutex_lock(&lock);
	((struct counts *)counts)->taken = false;
	pthread_mutex_unlock(&lock);
}

static bool reserve(struct counts *counts)
{
	counts->count = hm_pages_map(ARRAY_BYTES, PROT_NONE);
	return counts->count != NULL;
}

static bool extend(struct counts *counts, uint32_t n)
{
	uint32_t step = n < HUGE_STEP ? STEP : HUGE_STEP, limit = (n / step + 1) * step;

	if (mprotect((void *)counts->count, limit * sizeof(uint32_t), PROT_READ | PROT_WRITE) != 0)
		return false;
	if (step == HUGE_STEP)
		hm_pages_huge((void *)counts->count, limit * sizeof(uint32_t));
	atomic_store_explicit(&counts->limit, limit, memory_order_release);
	return true;
}

/* ---- fork: the child has one thread, and the counts of all that the parent had ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

static void after_fork_child(void)
{
	for (struct counts *counts = atomic_load(&all); counts; counts = counts->next)
		counts->taken = counts == mine;
	pthread_mutex_unlock(&lock);
}

static bool register_barrier(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static void prepare(void)
{
	if (!register_barrier()) {
		HM_INFO(FI_LOG_MR, "the kernel has no membarrier(2): each hit takes a fence");
		hm_held_fenced = true;
	}
	have_at_exit = pthread_key_create(&at_exit, thread_ends) == 0;
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

int hm_held_take_range(uint32_t count, uint32_t *first)
{
	struct range *range = malloc(sizeof(*range)), **at;
	uint32_t next = 0;
	int ret = range ? -FI_ENOSPC : -FI_ENOMEM;

	if (count > HM_HELD_NUMBERS) {
		free(range);
		return -FI_ENOSPC;
	}
	count = (count + ALIGN - 1) / ALIGN * ALIGN;

	pthread_once(&once, prepare);
	pthread_mutex_lock(&lock);
	if (!shared.count && !reserve(&shared))
		ret = -FI_ENOMEM;
	for (at = &ranges; *at && (*at)->first - next < count; at = &(*at)->next)
		next = (*at)->first + (*at)->count;
	if (ret == -FI_ENOSPC && next <= HM_HELD_NUMBERS - count) {
		*range = (struct range){ *at, next, count };
		*at = range;
		*first = next;
		ret = 0;
	}
	/* so that letting go cannot fail, whatever thread does it */
	if (ret == 0 && atomic_load(&shared.limit) < next + count &&
	    !extend(&shared, next + count - 1)) {
		*at = range->next;
		ret = -FI_ENOMEM;
	}
	pthread_mutex_unlock(&lock);
	if (ret != 0)
		free(range);
	return ret;
}

void hm_held_give_range(uint32_t first)
{
	struct range *range, **at;

	pthread_mutex_lock(&lock);
	for (at = &ranges; (*at)->first != first; at = &(*at)->next)
		;
	range = *at;
	*at = range->next;
	pthread_mutex_unlock(&lock);
	free(range);
}

static struct counts *make(void)
{
	struct counts *counts = calloc(1, sizeof(*counts));

	if (counts && !reserve(counts)) {
		free(counts);
		counts = NULL;
	}
	if (counts)
		counts->taken = true;
	return counts;
}

/* Counts that a thread before this one had, or new ones. */
static struct counts *join(void)
{
	struct counts *counts;

	pthread_mutex_lock(&lock);
	for (counts = atomic_load(&all); counts && counts->taken; counts = counts->next)
		;
	if (counts)
		counts->taken = true;
	pthread_mutex_unlock(&lock);
	if (!counts) {
		counts = make();
		if (!counts)
			return NULL;
		pthread_mutex_lock(&lock);
		counts->next = atomic_load(&all);
		atomic_store_explicit(&all, counts, memory_order_release);
		pthread_mutex_unlock(&lock);
	}
	if (have_at_exit)
		pthread_setspecific(at_exit, counts);
	return counts;
}

_Atomic uint32_t *hm_held_slow(uint32_t n)
{
	uint32_t limit;

	if (!mine)
		mine = join();
	if (!mine)
		return NULL;
	if (n >= atomic_load_explicit(&mine->limit, memory_order_relaxed) && !extend(mine, n))
		return NULL;
	limit = atomic_load_explicit(&mine->limit, memory_order_relaxed);
	hm_held_self = (struct hm_held_self){ mine->count, limit, hm_held_fenced ? 0 : limit };
	return &mine->count[n];
}

void hm_drop_shared(uint32_t n)
{
	atomic_fetch_sub_explicit(&shared.count[n], 1, memory_order_release);
}

void hm_tally_shared(uint32_t n, uint64_t more)
{
	atomic_fetch_add_explicit((_Atomic uint64_t *)(void *)(shared.count + n), more,
				  memory_order_relaxed);
}

bool hm_held_barrier(void)
{
	int kept = errno;
	bool done = hm_held_fenced || HM_ALONE; /* alone: nobody else can hold */

	atomic_thread_fence(memory_order_seq_cst);
	/* not registered: in a child of fork(2) under kernels that do not pass that on */
	if (!done)
		done = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 ||
		       (register_barrier() &&
			syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
	errno = kept;
	return done;
}

uint32_t hm_held_sum(uint32_t n)
{
	uint32_t sum = atomic_load_explicit(&shared.count[n], memory_order_acquire);

	for (struct counts *c = atomic_load_explicit(&all, memory_order_acquire); c; c = c->next)
		if (n < atomic_load_explicit(&c->limit, memory_order_acquire))
			sum += atomic_load_explicit(&c->count[n], memory_order_acquire);
	return sum;
}

static uint64_t tally(const struct counts *counts, uint32_t n)
{
	return atomic_load_explicit((_Atomic uint64_t *)(void *)(counts->count + n),
				    memory_order_relaxed);
}

uint64_t hm_tally_sum(uint32_t n)
{
	uint64_t sum = tally(&shared, n);

	for (struct counts *c = atomic_load_explicit(&all, memory_order_acquire); c; c = c->next)
		if (n < atomic_load_explicit(&c->limit, memory_order_acquire))
			sum += tally(c, n);
	return sum;
}
