/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies by ROCr's engines.
 *
 * An engine copies what its agents reach: a device's memory by that device, host memory if it is of
 * the runtime or locked.  Who has access to a program's allocations is the program's to say, so what
 * an engine does not reach goes through host memory of our own: small host buffers, memory of two
 * devices that are no peers, and copies that overlap, which no engine does right.
 *
 * SLOTS copies run at a time, each with a signal and a piece of that memory; further ones wait.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/guard.h"
#include "core/base/log.h"
#include "hmem/rocr.h"

#define SLOTS 8u
#define PIECE (64u << 10) /* host buffers up to this are not locked, but staged */

struct slot {
	rocr_signal signal;
	char *room; /* PIECE bytes that all devices reach */
};

static struct slot slots[SLOTS];
static atomic_uint slots_taken; /* a bit each */
static sem_t slots_free;	/* how many bits are clear, or about to be set */

/* One end of a copy. */
struct end {
	char *addr;
	int device;
};

static rocr_agent agent_of(int device)
{
	return device == HMEM_NO_DEVICE ? rocr_world.cpus[0] : rocr_world.devices[device].agent;
}

/* ---- slots ---- */

static void drop_slots(void *room)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		if (slots[i].signal.handle)
			rocr_api.hsa_signal_destroy(slots[i].signal);
		slots[i] = (struct slot){ { 0 }, NULL };
	}
	rocr_api.hsa_amd_memory_pool_free(room);
}

int rocr_copy_init(void)
{
	void *room;
	int ret = hmem_rocr.alloc(0, (size_t)SLOTS * PIECE, HMEM_ALLOC_HOST, &room);

	if (ret != 0)
		return ret;
	for (unsigned int i = 0; ret == 0 && i < SLOTS; i++) {
		slots[i].room = (char *)room + (size_t)i * PIECE;
		ret = ROCR_CALL(hsa_signal_create, 1, 0, NULL, &slots[i].signal);
	}
	if (ret != 0) {
		drop_slots(room);
		return ret;
	}
	atomic_init(&slots_taken, 0);
	sem_init(&slots_free, 0, SLOTS);
	return 0;
}

static struct slot *take_slot(void)
{
	unsigned int taken, bit;

	while (sem_wait(&slots_free) != 0 && errno == EINTR)
		;
	taken = atomic_load_explicit(&slots_taken, memory_order_relaxed);
	do
		bit = ~taken & (taken + 1); /* the lowest that is clear: there is one */
	while (!atomic_compare_exchange_weak_explicit(&slots_taken, &taken, taken | bit,
						      memory_order_acquire, memory_order_relaxed));
	return &slots[__builtin_ctz(bit)];
}

static void give_slot(const struct slot *slot)
{
	atomic_fetch_and_explicit(&slots_taken, ~(1u << (slot - slots)), memory_order_release);
	sem_post(&slots_free);
}

/* ---- one copy by an engine ---- */

static int engine_start(struct end dst, struct end src, size_t len, rocr_signal signal)
{
	return ROCR_CALL(hsa_amd_memory_async_copy, dst.addr, agent_of(dst.device), src.addr,
			 agent_of(src.device), len, 0, NULL, signal);
}

/* The signal is 1 until the copy is done: 0, or below if it failed. */
static int engine_outcome(rocr_value value)
{
	if (value == 0)
		return 0;
	HM_WARN(FI_LOG_CORE,
		"rocr: hsa_amd_memory_async_copy ended with signal %ld: the device does not reach "
		"the memory, or it was freed",
		(long)value);
	return -FI_EIO;
}

/* A wait may end early. */
static rocr_value engine_wait(rocr_signal signal)
{
	rocr_value value;

	do
		value = rocr_api.hsa_signal_wait_scacquire(signal, ROCR_CONDITION_LT, 1, UINT64_MAX,
							   ROCR_WAIT_BLOCKED);
	while (value > 0);
	return value;
}

static int engine_copy(struct end dst, struct end src, size_t len, rocr_signal signal)
{
	int ret;

	rocr_api.hsa_signal_store_relaxed(signal, 1);
	ret = engine_start(dst, src, len, signal);
	if (ret != 0)
		return ret;
	return engine_outcome(engine_wait(signal));
}

/* ---- through our own host memory ---- */

struct staging {
	int dst_device, src_device;
	rocr_signal signal;
};

static int staged_piece(const void *arg, char *dst, const char *src, size_t len, void *through)
{
	const struct staging *s = arg;
	struct end room = { through, HMEM_NO_DEVICE };
	struct end from = { (char *)(uintptr_t)src, s->src_device }, to = { dst, s->dst_device };
	int ret = from.device == HMEM_NO_DEVICE ? hm_guard_copy(room.addr, src, len)
						: engine_copy(room, from, len, s->signal);

	if (ret != 0)
		return ret;
	return to.device == HMEM_NO_DEVICE ? hm_guard_copy(dst, room.addr, len)
					   : engine_copy(to, room, len, s->signal);
}

static int staged(struct end dst, struct end src, size_t len, const struct slot *slot)
{
	struct staging s = { dst.device, src.device, slot->signal };

	return hmem_copy_pieces(dst.addr, src.addr, len, slot->room, PIECE, staged_piece, &s);
}

/* ---- what an engine reaches ---- */

/* Host memory as the device sees it: it was before, or is locked for this copy; *locked is to be unlocked. */
static bool open_host(struct end *host, int device, size_t len, void **locked)
{
	void *there = NULL;
	rocr_status status;

	if (rocr_reaches(device, host->addr, len, &there)) {
		host->addr = there;
		return true;
	}
	status = rocr_api.hsa_amd_memory_lock(host->addr, len, &rocr_world.devices[device].agent, 1,
					      &there);
	if (status != ROCR_SUCCESS) {
		char text[160];

		HM_INFO(FI_LOG_CORE,
			"rocr: hsa_amd_memory_lock: %s; %zu bytes are copied by pieces",
			rocr_status_text(status, text), len);
		return false;
	}
	*locked = host->addr;
	host->addr = there;
	return true;
}

/*
 * Turns both ends into what one engine reaches.  False: it does not, and nothing has changed; *locked is
 * NULL or what has to be unlocked after the copy.
 */
static bool open_ends(struct end *dst, struct end *src, size_t len, void **locked)
{
	uintptr_t to = (uintptr_t)dst->addr, from = (uintptr_t)src->addr;
	void *same;

	*locked = NULL;
	if ((dst->device == HMEM_NO_DEVICE) != (src->device == HMEM_NO_DEVICE)) {
		if (len <= PIECE)
			return false;
		return dst->device == HMEM_NO_DEVICE ? open_host(dst, src->device, len, locked)
						     : open_host(src, dst->device, len, locked);
	}
	if (dst->device == src->device)
		return to < from ? len <= from - to : len <= to - from;
	return rocr_reaches(dst->device, src->addr, len, &same) &&
	       rocr_reaches(src->device, dst->addr, len, &same);
}

static int unlock(void *locked, int ret)
{
	return locked && ROCR_CALL(hsa_amd_memory_unlock, locked) != 0 && ret == 0 ? -FI_EIO : ret;
}

static int check_devices(int dst, int src)
{
	int wrong = dst != HMEM_NO_DEVICE && !rocr_device_known(dst) ? dst : src;

	if (wrong == HMEM_NO_DEVICE || rocr_device_known(wrong))
		return 0;
	HM_WARN(FI_LOG_CORE, "rocr has no device %d", wrong);
	return -FI_ENODEV;
}

/* ---- the operations ---- */

int rocr_copy(void *dst, int dst_device, const void *src, int src_device, size_t len)
{
	struct end to = { dst, dst_device }, from = { (char *)(uintptr_t)src, src_device };
	int ret = check_devices(dst_device, src_device);
	struct slot *slot;
	void *locked;

	if (ret != 0)
		return ret;
	slot = take_slot();
	if (open_ends(&to, &from, len, &locked))
		ret = unlock(locked, engine_copy(to, from, len, slot->signal));
	else
		ret = staged(to, from, len, slot);
	give_slot(slot);
	return ret;
}

/* A copy under way; an event is one's address. */
struct job {
	rocr_signal signal;
	void *locked;
};

static struct job done_at_once; /* no job, never looked into */

static int start_job(struct job *job, struct end to, struct end from, size_t len)
{
	int ret = ROCR_CALL(hsa_signal_create, 1, 0, NULL, &job->signal);

	if (ret != 0)
		return ret;
	ret = engine_start(to, from, len, job->signal);
	if (ret != 0)
		ROCR_CALL(hsa_signal_destroy, job->signal);
	return ret;
}

int rocr_copy_start(void *dst, int dst_device, const void *src, int src_device, size_t len,
		    uint64_t *event)
{
	struct end to = { dst, dst_device }, from = { (char *)(uintptr_t)src, src_device };
	int ret = check_devices(dst_device, src_device);
	struct job *job;
	void *locked;

	if (ret != 0)
		return ret;
	if (!open_ends(&to, &from, len, &locked)) {
		ret = rocr_copy(dst, dst_device, src, src_device, len);
		*event = (uintptr_t)&done_at_once;
		return ret;
	}
	job = malloc(sizeof(*job));
	if (!job) {
		HM_WARN(FI_LOG_CORE, "no memory for a copy by rocr");
		return unlock(locked, -FI_ENOMEM);
	}
	job->locked = locked;
	ret = start_job(job, to, from, len);
	if (ret != 0) {
		free(job);
		return unlock(locked, ret);
	}
	*event = (uintptr_t)job;
	return 0;
}

int rocr_copy_end(uint64_t event, bool wait)
{
	struct job *job = (struct job *)(uintptr_t)event;
	rocr_value value;
	int ret;

	if (job == &done_at_once)
		return 0;
	value = wait ? engine_wait(job->signal) : rocr_api.hsa_signal_load_scacquire(job->signal);
	if (value > 0)
		return -FI_EAGAIN;
	ret = engine_outcome(value);
	if (ROCR_CALL(hsa_signal_destroy, job->signal) != 0 && ret == 0)
		ret = -FI_EIO;
	ret = unlock(job->locked, ret);
	free(job);
	return ret;
}
