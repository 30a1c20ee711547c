/* SPDX-License-Identifier: BSD-2-Clause */
/* Signals, and copies that take place when their signal is looked at. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/drivers/accel/rocr/emu.h"

struct signal {
	struct hm_list link;
	rocr_value value;
	long lag; /* reads before its copies take place */
	struct hm_list jobs;
};

struct job {
	struct hm_list link;
	char *dst;
	const char *src;
	size_t len;
	int dst_agent, src_agent;
	uint32_t waits_for; /* signals after it */
	rocr_signal first[];
};

static struct hm_list signals = { &signals, &signals };

/* emu_lock held; NULL: no signal. */
static struct signal *signal_of(rocr_signal handle)
{
	hm_list_for_each_safe(link, &signals)
	{
		struct signal *s = hm_list_entry(link, struct signal, link);

		if ((uintptr_t)s == handle.handle)
			return s;
	}
	return NULL;
}

/* ---- what a copy touches ---- */

/* Does the agent reach all of it?  *addr becomes what accel_copy takes. */
static bool reaches(int agent, const char **addr, size_t len)
{
	uint64_t bit = UINT64_C(1) << agent;
	bool host = !emu.agents[agent].gpu || emu.xnack;

	for (size_t at = 0; at < len;) {
		const char *here = *addr + at;
		struct accel_range range;
		const struct emu_memory *memory = emu_find(here, &range);
		const struct emu_locked *l = memory ? NULL : emu_find_locked(here);
		uint64_t reach;
		size_t left;

		if (memory) {
			if (!(memory->reach & bit))
				return false;
			at += range.len - (size_t)(here - range.addr);
		} else if (l && (uintptr_t)here - (uintptr_t)l->there < l->len) {
			/* in one piece, since it has another address than the rest */
			if (at > 0 || !(l->reach & bit) || len > l->len - (size_t)(here - l->there))
				return false;
			*addr = l->host + (here - l->there);
			return true;
		} else if (emu_managed(here, &reach, &left) && ((reach & bit) || host)) {
			at += left;
		} else {
			return host;
		}
	}
	return true;
}

/* emu_lock held.  False: a device would fault. */
static bool run_job(const struct job *job)
{
	const char *dst = job->dst, *src = job->src;
	int agents[] = { job->dst_agent, job->src_agent };

	if (accel_call("engine") != 0)
		return false;
	for (size_t i = 0; i < count_of(agents); i++) {
		const char *to = job->dst, *from = job->src;

		/* agents have to reach both ends; processors do not copy, devices do it for them */
		if (!emu.agents[agents[i]].gpu && emu.agents[agents[1 - i]].gpu)
			continue;
		if (!reaches(agents[i], &to, job->len) || !reaches(agents[i], &from, job->len))
			return false;
		dst = to;
		src = from;
	}
	if (!accel_copy((void *)(uintptr_t)dst, src, job->len))
		return false;
	/* what overlaps becomes anything */
	if (dst < src + job->len && src < dst + job->len && dst != src)
		accel_fill((void *)(uintptr_t)dst, 0xdb, job->len);
	return true;
}

/* emu_lock held. */
static void run_jobs(struct signal *signal)
{
	hm_list_for_each_safe(link, &signal->jobs)
	{
		struct job *job = hm_list_entry(link, struct job, link);

		for (uint32_t i = 0; i < job->waits_for; i++) {
			struct signal *other = signal_of(job->first[i]);

			if (other && other != signal)
				run_jobs(other);
			if (other && other->value != 0)
				return;
		}
		hm_list_del(&job->link);
		signal->value = run_job(job) ? signal->value - 1 : -1;
		free(job);
	}
}

rocr_status hsa_amd_memory_async_copy(void *dst, rocr_agent dst_agent, const void *src,
				      rocr_agent src_agent, size_t len, uint32_t waits_for,
				      const rocr_signal *first, rocr_signal completion)
{
	struct signal *signal;
	struct job *job;

	CALL("hsa_amd_memory_async_copy");
	if (!dst || !src || !completion.handle || (waits_for && !first))
		return ROCR_ERROR_INVALID_ARGUMENT;
	if (emu_agent_of(dst_agent) == EMU_NO_AGENT || emu_agent_of(src_agent) == EMU_NO_AGENT)
		return ROCR_ERROR_INVALID_AGENT;
	if (len == 0)
		return ROCR_SUCCESS;
	job = calloc(1, sizeof(*job) + waits_for * sizeof(*first));
	if (!job)
		return ROCR_ERROR_OUT_OF_RESOURCES;
	job->dst = dst;
	job->src = src;
	job->len = len;
	job->dst_agent = emu_agent_of(dst_agent);
	job->src_agent = emu_agent_of(src_agent);
	job->waits_for = waits_for;
	if (waits_for)
		memcpy(job->first, first, waits_for * sizeof(*first));
	pthread_mutex_lock(&emu_lock);
	signal = signal_of(completion);
	if (signal) {
		hm_list_add_tail(&signal->jobs, &job->link);
		signal->lag = emu.lag;
	}
	pthread_mutex_unlock(&emu_lock);
	if (signal)
		return ROCR_SUCCESS;
	free(job);
	return ROCR_ERROR_INVALID_SIGNAL;
}

/* ---- signals ---- */

rocr_status hsa_signal_create(rocr_value value, uint32_t count, const rocr_agent *agents,
			      rocr_signal *out)
{
	struct signal *signal;
	uint64_t set;

	CALL("hsa_signal_create");
	if (!out || (count && !emu_agent_set(count, agents, &set)))
		return ROCR_ERROR_INVALID_ARGUMENT;
	signal = calloc(1, sizeof(*signal));
	if (!signal)
		return ROCR_ERROR_OUT_OF_RESOURCES;
	signal->value = value;
	hm_list_init(&signal->jobs);
	pthread_mutex_lock(&emu_lock);
	hm_list_add_tail(&signals, &signal->link);
	pthread_mutex_unlock(&emu_lock);
	accel_live("signal", 1);
	out->handle = (uintptr_t)signal;
	return ROCR_SUCCESS;
}

static void drop_jobs(struct signal *signal)
{
	hm_list_for_each_safe(link, &signal->jobs)
	{
		hm_list_del(link);
		free(hm_list_entry(link, struct job, link));
	}
}

rocr_status hsa_signal_destroy(rocr_signal handle)
{
	struct signal *signal;

	CALL("hsa_signal_destroy");
	if (!handle.handle)
		return ROCR_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&emu_lock);
	signal = signal_of(handle);
	if (signal)
		hm_list_del(&signal->link);
	pthread_mutex_unlock(&emu_lock);
	if (!signal)
		return ROCR_ERROR_INVALID_SIGNAL;
	drop_jobs(signal);
	free(signal);
	accel_live("signal", -1);
	return ROCR_SUCCESS;
}

static void store(rocr_signal handle, rocr_value value)
{
	struct signal *signal;

	pthread_mutex_lock(&emu_lock);
	signal = signal_of(handle);
	if (signal)
		signal->value = value;
	pthread_mutex_unlock(&emu_lock);
}

void hsa_signal_store_relaxed(rocr_signal signal, rocr_value value)
{
	accel_call("hsa_signal_store_relaxed");
	store(signal, value);
}

void hsa_signal_store_screlease(rocr_signal signal, rocr_value value)
{
	accel_call("hsa_signal_store_screlease");
	store(signal, value);
}

static rocr_value load(rocr_signal handle, bool wait)
{
	rocr_value value = -1;
	struct signal *signal;

	pthread_mutex_lock(&emu_lock);
	signal = signal_of(handle);
	if (signal) {
		if (wait || signal->lag-- <= 0)
			run_jobs(signal);
		value = signal->value;
	}
	pthread_mutex_unlock(&emu_lock);
	return value;
}

/* Calls without a status: made to fail, they tell that the copies of the signal failed, and so it is. */
static rocr_value give_up(rocr_signal handle)
{
	struct signal *signal;

	pthread_mutex_lock(&emu_lock);
	signal = signal_of(handle);
	if (signal) {
		drop_jobs(signal);
		signal->value = -1;
	}
	pthread_mutex_unlock(&emu_lock);
	return -1;
}

rocr_value hsa_signal_load_scacquire(rocr_signal signal)
{
	return accel_call("hsa_signal_load_scacquire") ? give_up(signal) : load(signal, false);
}

rocr_value hsa_signal_load_relaxed(rocr_signal signal)
{
	return accel_call("hsa_signal_load_relaxed") ? give_up(signal) : load(signal, false);
}

static bool satisfied(rocr_value value, rocr_condition condition, rocr_value than)
{
	switch (condition) {
	case ROCR_CONDITION_EQ:
		return value == than;
	case ROCR_CONDITION_NE:
		return value != than;
	case ROCR_CONDITION_LT:
		return value < than;
	default:
		return value >= than;
	}
}

static rocr_value wait_for(rocr_signal signal, rocr_condition condition, rocr_value than,
			   uint64_t timeout)
{
	const struct timespec pause = { 0, 50000 };
	rocr_value value = load(signal, true);

	for (uint64_t waited = 0; !satisfied(value, condition, than) && waited < timeout;
	     waited += (uint64_t)pause.tv_nsec) {
		nanosleep(&pause, NULL);
		value = load(signal, true);
	}
	return value;
}

rocr_value hsa_signal_wait_scacquire(rocr_signal signal, rocr_condition condition, rocr_value than,
				     uint64_t timeout, rocr_wait_state state)
{
	(void)state;
	return accel_call("hsa_signal_wait_scacquire") ? give_up(signal)
						       : wait_for(signal, condition, than, timeout);
}

rocr_value hsa_signal_wait_relaxed(rocr_signal signal, rocr_condition condition, rocr_value than,
				   uint64_t timeout, rocr_wait_state state)
{
	(void)state;
	return accel_call("hsa_signal_wait_relaxed") ? give_up(signal)
						     : wait_for(signal, condition, than, timeout);
}

/* ---- copies at once ---- */

/* emu_lock held: the runtime copies what it knows by whoever owns it, and anything else as a processor. */
static bool to_copy(const char **addr, size_t len)
{
	struct accel_range range;
	const struct emu_memory *memory = emu_find(*addr, &range);

	return reaches(memory ? emu.pools[memory->pool].agent : 0, addr, len);
}

rocr_status hsa_memory_copy(void *dst, const void *src, size_t len)
{
	const char *to = dst, *from = src;
	bool done;

	CALL("hsa_memory_copy");
	if (!dst || !src)
		return ROCR_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&emu_lock);
	done = to_copy(&to, len) && to_copy(&from, len) &&
	       accel_copy((void *)(uintptr_t)to, from, len);
	pthread_mutex_unlock(&emu_lock);
	return done ? ROCR_SUCCESS : ROCR_ERROR;
}

rocr_status hsa_amd_memory_fill(void *ptr, uint32_t value, size_t count)
{
	struct accel_range range;
	const char *to = ptr;
	bool done;

	CALL("hsa_amd_memory_fill");
	if (!ptr || (uintptr_t)ptr % sizeof(value) != 0 || count > SIZE_MAX / sizeof(value))
		return ROCR_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&emu_lock);
	done = emu_find(ptr, &range) && to_copy(&to, count * sizeof(value));
	for (size_t i = 0; done && i < count; i++)
		done = accel_copy((char *)ptr + i * sizeof(value), &value, sizeof(value));
	pthread_mutex_unlock(&emu_lock);
	return done ? ROCR_SUCCESS : ROCR_ERROR_INVALID_ALLOCATION;
}
