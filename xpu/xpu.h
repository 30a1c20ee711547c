/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfers that a device starts, the host's side: what the files here share.
 *
 *   ctx.c     contexts: opened, asked, closed; who is whose
 *   memory.c  memory that host and device both reach
 *   engine.c  the thread of a context
 *   ring.c    requests of an exported endpoint
 *   complete.c completions and counters of exported queues, the same way back
 *   export.c  what is exported
 *
 * A device that reaches no NIC's doorbell hands its requests to a thread: it writes them into a ring
 * (fi_xpu_device_hmreg.h), the context's engine takes them, and calls the same functions that the host's
 * data calls are, which check everything, so that a device can ask for no more than a program could.  What the
 * NIC completes into the host's queue or counter, the engine passes on into memory that the device reads.
 *
 * Where a NIC's queues and doorbells can be reached by the device of a context (nic_ops.xpu), the NIC takes the ring's place.
 *
 * VISIBILITY (XPU-11).  A NIC completes an operation to the host only when its data is there for the
 * host.  The engine passes a completion on after it has seen it, with release order, so the device that
 * sees it by an acquire load sees everything the host saw.  What a NIC wrote into the device's own memory has
 * gone by the bus, past the host: before the engine passes on a completion that may stand for such writes
 * (reads, receives, fetching atomics, remote writes that are counted), it has the interface flush them
 * (hmem_ops.flush), if the interface says that they need it.
 */
#ifndef XPU_H
#define XPU_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_xpu.h>
#include <rdma/fi_xpu_device_hmreg.h>

#include "core/base/list.h"
#include "core/base/wait.h"
#include "core/core.h"
#include "core/nic/nic_xpu.h"
#include "core/xpu.h"

/* ---- memory.c ---- */

enum xpu_memory_how {
	XPU_MEMORY_NONE,
	XPU_MEMORY_IMPORTED,   /* the host's pages, imported by the program's ops */
	XPU_MEMORY_MAPPED,     /* the program's alloc, mapped here by its dma-buf */
	XPU_MEMORY_HMEM,       /* host memory of the interface's allocator: one address for both */
	XPU_MEMORY_HOST,       /* FI_HMEM_SYSTEM: the device is the processor */
	XPU_MEMORY_DEVICE,     /* the device's own, by the program's alloc */
	XPU_MEMORY_HMEM_DEVICE /* the same, by the interface's allocator */
};

/* Whole pages, zeroed. */
struct xpu_memory {
	enum xpu_memory_how how;
	size_t len;
	void *host;	 /* where the host reaches it; NULL: it does not */
	uint64_t device; /* where the device does */
	void *map;	 /* XPU_MEMORY_MAPPED: a mapping to undo, map_len bytes */
	size_t map_len;
};

/*
 * What both sides reach: by the context's ops import, or where that is missing alloc with a dma-buf; without ops
 * by the interface.  -FI_ENOMEM; what an op answers, or -FI_EIO for an answer that makes no sense; with one log
 * line that names the op.
 */
int xpu_memory_get(const struct hm_xpu_own *ctx, size_t len, struct xpu_memory *memory);
/*
 * What the device alone reaches, where the context's interface has a driver that can zero it.  Nothing
 * (XPU_MEMORY_NONE) where there is none, or the driver has none left: the device's words may be in other
 * memory then.
 */
void xpu_memory_get_own(const struct hm_xpu_own *ctx, size_t len, struct xpu_memory *memory);
/*
 * Write there, or anywhere else that the context's device alone reaches, before the device looks.  The error of
 * the interface's copy.
 */
int xpu_memory_write(const struct hm_xpu_own *ctx, uint64_t device_addr, const void *from,
		     size_t len);
/* XPU_MEMORY_NONE: nothing. */
void xpu_memory_put(const struct hm_xpu_own *ctx, struct xpu_memory *memory);

/* The host's address of byte offset. */
static inline void *xpu_at(const struct xpu_memory *memory, size_t offset)
{
	return (char *)memory->host + offset;
}

/* ---- engine.c ---- */

/* An exported object, as the engine sees it. */
struct hm_xpu_part {
	struct hm_list link; /* engine's; under its lock */
	/*
	 * Of poll, under that lock: while *word is still, nothing that the device does has left anything to be
	 * done.  NULL: nothing that it does would.
	 */
	const uint64_t *word;
	uint64_t still;
	struct hm_xpu_own *ctx;
	/*
	 * Move on: take requests, pass on completions.  Returns how many.  Under the engine's lock, so it
	 * must not take long: a bounded number at a time.
	 */
	unsigned (*poll)(struct hm_xpu_part *part);
	/* The engine does not know the part any more: undo what only this kind of part has. */
	void (*end)(struct hm_xpu_part *part);
	struct xpu_memory memory; /* the control block, then the device's words, then the ring */
	struct xpu_memory own;	  /* of the device's words, where there is any */
};

/*
 * The thread of a context.  While something moves, and awake after that, it looks at every part again and again;
 * then it sleeps for an eighth of the time that nothing has moved, so that a request is late by no more than that,
 * up to XPU_SLEEP_MOST, and after XPU_IDLE_NANOS for a smaller share, up to longest.  A completion that a NIC writes
 * into an exported queue or counter ends the sleep; a request does not, since nothing that a device does wakes a
 * thread of the host.  Without parts it blocks.
 *
 * A sleep is what idleness costs, whatever is looked at: a switch to the thread and back, and a timer.  So when it
 * is over the thread reads one word of each part that a device moves on, and not what signals: completions, and
 * the NIC, which moves on by itself as for any reader that sleeps.
 */
struct xpu_engine {
	struct nic_domain *nic;
	int64_t longest; /* sleep, in nanoseconds; 0: it looks without pause */
	int64_t awake;	 /* nanoseconds without sleep after something has moved */
	pid_t pid; /* whose it is: in a forked child there is no thread, and locks may be held for ever */
	pthread_t thread;
	struct hm_wait wake; /* the thread's sleep; signalled by the parts' wait objects, too */
	/*
	 * Protects what follows, and is held while parts are polled; outside all locks of core.h.  The thread
	 * keeps it from one look to the next, unless somebody wants it.
	 */
	pthread_mutex_t lock;
	pthread_cond_t unwanted;
	_Atomic uint32_t wanted; /* threads that wait for the lock */
	struct hm_list parts;
	bool started; /* by the first part */
	bool stop;
	bool changed; /* parts have come, of which the thread does not know */
};

/* In nanoseconds. */
#define XPU_SLEEP_SHARE 8 /* of the time that nothing has moved */
#define XPU_SLEEP_LEAST INT64_C(20000)
#define XPU_SLEEP_MOST	INT64_C(4000000)
#define XPU_IDLE_NANOS	INT64_C(1000000000)
#define XPU_IDLE_SHARE	32 /* as XPU_SLEEP_SHARE, from then on */
#define XPU_MILLISECOND INT64_C(1000000)
#define XPU_MICROSECOND INT64_C(1000)
#define XPU_MS_MOST	10000	/* of HMREG_XPU_MAX_SLEEP, in milliseconds */
#define XPU_US_MOST	1000000 /* of HMREG_XPU_SPIN_TIME, in microseconds */
#define XPU_TIMER_SLACK 5000ul	/* by how much the kernel may be late */

/* -FI_ENOMEM, with one log line. */
int xpu_engine_init(struct xpu_engine *engine, struct nic_domain *nic);
/* No part is left. */
void xpu_engine_end(struct xpu_engine *engine);
/* Not in a forked child.  -FI_EAGAIN, -FI_ENOMEM: no thread can be had, with one log line. */
int xpu_engine_add(struct xpu_engine *engine, struct hm_xpu_part *part);
/* When this returns the part is not polled and will not be. */
void xpu_engine_remove(struct xpu_engine *engine, struct hm_xpu_part *part);

/* Is this a forked child of the engine's process?  The device is the parent's, then. */
bool xpu_engine_inherited(const struct xpu_engine *engine);

/* ---- ring.c ---- */

/* At the beginning of every part's memory: its control block, and behind it struct hmreg_xpu_own. */
#define XPU_CONTROL_SIZE 128
#define XPU_RING_OFFSET	 256

/*
 * Make a part of size bytes, which begin with struct hm_xpu_part, with memory for ring_len bytes of slots.  The
 * device's words are at *own.  -FI_EOPNOTSUPP: in a forked child, whose device is the parent's; the errors of
 * xpu_memory_get; with one log line.
 */
int xpu_part_make(struct hm_xpu_own *ctx, size_t size, size_t ring_len, struct hm_xpu_part **out,
		  uint64_t *own);
/* The engine does not know it (yet, or any more). */
void xpu_part_free(struct hm_xpu_part *part);
/* Give the finished part to the engine, and fill out as nic_xpu.h says; or else end it. */
int xpu_part_start(struct hm_xpu_part *part, struct fid_xpu *out, struct hm_xpu_part **result);
/* A ring of slots that are as large as this one's, the first to be number 0. */
static_assert(sizeof(struct hmreg_xpu_wr) == 128 && sizeof(struct hmreg_xpu_cqe) == 128,
	      "both rings have slots of one size");
#define XPU_SLOT_SIZE 128u
/* How many slots serve count: a power of two between both. */
uint32_t xpu_ring_slots(size_t count, uint32_t least, uint32_t most);
/* seq of all slots, as it is while nothing has been written. */
void xpu_ring_init(const struct hm_xpu_part *part, uint32_t slots);

static inline uint64_t *xpu_ring_seq(void *slots, uint32_t mask, uint64_t number)
{
	return (uint64_t *)((char *)slots + (number & mask) * XPU_SLOT_SIZE);
}

static inline uint64_t xpu_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void xpu_store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/*
 * What a dma-buf maps may be the device's own memory, behind its bus: there the order of acquire and release does
 * not hold, and what is written may stay in the processor for long.  Between the words of a slot and its seq, and
 * after the last.
 */
static inline void xpu_order(const struct hm_xpu_part *part)
{
	if (__builtin_expect(part->memory.how != XPU_MEMORY_MAPPED, 1))
		return;
#if defined(__x86_64__)
	__asm__ volatile("mfence" : : : "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dsb sy" : : : "memory");
#else
	__sync_synchronize();
#endif
}

/* ---- complete.c ---- */

int xpu_cq_export(struct hm_xpu_own *ctx, struct nic_cq *cq, void *owner, struct fid_xpu *out,
		  struct hm_xpu_part **part);
int xpu_cntr_export(struct hm_xpu_own *ctx, struct nic_cntr *cntr, void *owner, struct fid_xpu *out,
		    struct hm_xpu_part **part);

/* ---- ctx.c ---- */

/* xpu/'s part of a context, behind struct hm_xpu_ctx. */
struct hm_xpu_own {
	struct hm_domain *domain;
	enum fi_hmem_iface iface;
	uint64_t device;
	bool has_ops;
	struct fi_xpu_ops ops; /* a copy of as much as the program's has; the rest NULL */
	struct xpu_engine engine;
};

/* The ring, which is every NIC's transport that has none of its own (nic_ops.xpu). */
extern const struct nic_xpu_ops xpu_ring; /* ring.c */

#endif
