/* SPDX-License-Identifier: BSD-2-Clause */
/* The runtime, its agents and their pools. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/drivers/accel/rocr/emu.h"

const char accel_driver[] = "ROCR";

struct emu_world emu;

static atomic_int references;
static pthread_once_t made = PTHREAD_ONCE_INIT;

#ifndef EMU_EXT
#define EMU_EXT 13
#endif

bool emu_ready(void)
{
	return atomic_load(&references) > 0;
}

/* ---- the machine ---- */

static void add_agent(bool gpu)
{
	struct emu_agent *agent = &emu.agents[emu.agent_count];
	int number = emu.agent_count++;

	agent->gpu = gpu;
	agent->index = (unsigned int)(gpu ? emu.gpu_count++ : emu.cpu_count++);
	if (gpu) {
		emu.pools[emu.pool_count++] = (struct emu_pool){ number, ROCR_SEGMENT_GLOBAL,
								 ROCR_POOL_FLAG_COARSE, true };
		emu.pools[emu.pool_count++] =
			(struct emu_pool){ number, ROCR_SEGMENT_GLOBAL, ROCR_POOL_FLAG_FINE, true };
		emu.pools[emu.pool_count++] =
			(struct emu_pool){ number, ROCR_SEGMENT_GROUP, 0, false };
		return;
	}
	emu.pools[emu.pool_count++] =
		(struct emu_pool){ number, ROCR_SEGMENT_GLOBAL,
				   ROCR_POOL_FLAG_FINE | ROCR_POOL_FLAG_KERNARG, true };
	emu.pools[emu.pool_count++] =
		(struct emu_pool){ number, ROCR_SEGMENT_GLOBAL, ROCR_POOL_FLAG_FINE, true };
	emu.pools[emu.pool_count++] =
		(struct emu_pool){ number, ROCR_SEGMENT_GLOBAL, ROCR_POOL_FLAG_COARSE, true };
}

static void make_world(void)
{
	long gpus = accel_setting("devices", 4), cpus = accel_setting("cpus", 2);

	emu.memory = accel_setting("memory", 1024);
	emu.bar = accel_setting("bar", 1);
	emu.peer = accel_setting("peer", 1);
	emu.dmabuf = accel_setting("dmabuf", 1);
	emu.noexport = accel_setting("noexport", 0);
	emu.unit = accel_setting("unit", EMU_PAGE);
	emu.ext = accel_setting("ext", EMU_EXT);
	emu.alias = accel_setting("alias", 1);
	emu.svm = accel_setting("svm", 1);
	emu.xnack = accel_setting("xnack", 0);
	emu.hdp = accel_setting("hdp", 1);
	emu.lag = accel_setting("lag", 1);
	emu.notice = accel_setting("notice", 1);
	/* a processor, a device, a processor, a device, and the rest of either */
	while (emu.agent_count < EMU_MOST && (emu.cpu_count < cpus || emu.gpu_count < gpus)) {
		if (emu.cpu_count < cpus)
			add_agent(false);
		if (emu.gpu_count < gpus && emu.agent_count < EMU_MOST)
			add_agent(true);
	}
}

rocr_status hsa_init(void)
{
	int code = accel_call("hsa_init");

	if (code)
		return (rocr_status)code;
	pthread_once(&made, make_world);
	atomic_fetch_add(&references, 1);
	accel_live("runtime", 1);
	return ROCR_SUCCESS;
}

rocr_status hsa_shut_down(void)
{
	CALL("hsa_shut_down");
	atomic_fetch_sub(&references, 1);
	accel_live("runtime", -1);
	return ROCR_SUCCESS;
}

rocr_status hsa_status_string(rocr_status status, const char **text)
{
	static const struct {
		rocr_status status;
		const char *text;
	} known[] = {
		{ ROCR_SUCCESS, "HSA_STATUS_SUCCESS: done" },
		{ ROCR_INFO_BREAK, "HSA_STATUS_INFO_BREAK: a callback ended the traversal" },
		{ ROCR_ERROR, "HSA_STATUS_ERROR: a generic error" },
		{ ROCR_ERROR_INVALID_ARGUMENT, "HSA_STATUS_ERROR_INVALID_ARGUMENT: an argument" },
		{ ROCR_ERROR_INVALID_ALLOCATION,
		  "HSA_STATUS_ERROR_INVALID_ALLOCATION: an allocation that is not valid" },
		{ ROCR_ERROR_INVALID_AGENT, "HSA_STATUS_ERROR_INVALID_AGENT: the agent" },
		{ ROCR_ERROR_INVALID_SIGNAL, "HSA_STATUS_ERROR_INVALID_SIGNAL: the signal" },
		{ ROCR_ERROR_OUT_OF_RESOURCES,
		  "HSA_STATUS_ERROR_OUT_OF_RESOURCES: resources could not be had" },
		{ ROCR_ERROR_RESOURCE_FREE,
		  "HSA_STATUS_ERROR_RESOURCE_FREE: a resource could not be given back" },
		{ ROCR_ERROR_NOT_INITIALIZED,
		  "HSA_STATUS_ERROR_NOT_INITIALIZED: hsa_init was not called" },
		{ ROCR_ERROR_INVALID_MEMORY_POOL,
		  "HSA_STATUS_ERROR_INVALID_MEMORY_POOL: the memory pool" },
	};
	int code = accel_call("hsa_status_string");

	if (code)
		return (rocr_status)code;
	for (size_t i = 0; text && i < count_of(known); i++)
		if (known[i].status == status) {
			*text = known[i].text;
			return ROCR_SUCCESS;
		}
	return ROCR_ERROR_INVALID_ARGUMENT;
}

/* ---- questions ---- */

#define ANSWER(type, answer)                                                                       \
	do {                                                                                       \
		*(type *)value = (type)(answer);                                                   \
		return ROCR_SUCCESS;                                                               \
	} while (0)

rocr_status hsa_system_get_info(rocr_system_attribute attribute, void *value)
{
	CALL("hsa_system_get_info");
	if (!value)
		return ROCR_ERROR_INVALID_ARGUMENT;
	switch (attribute) {
	case ROCR_SYSTEM_VERSION_MAJOR:
		ANSWER(uint16_t, 1);
	case ROCR_SYSTEM_VERSION_MINOR:
		ANSWER(uint16_t, 1);
	case ROCR_SYSTEM_BUILD_VERSION:
		ANSWER(const char *, "emulated");
	case ROCR_SYSTEM_SVM_SUPPORTED:
		ANSWER(bool, emu.svm != 0);
	case ROCR_SYSTEM_SVM_BY_DEFAULT:
		ANSWER(bool, emu.xnack != 0);
	default:
		break;
	}
	/* each came with a version of the extension */
	if (attribute == ROCR_SYSTEM_DMABUF && emu.ext >= 1)
		ANSWER(bool, emu.dmabuf != 0);
	if (attribute == ROCR_SYSTEM_VMEM && emu.ext >= 4)
		ANSWER(bool, true);
	if (attribute == ROCR_SYSTEM_XNACK && emu.ext >= 4)
		ANSWER(bool, emu.xnack != 0);
	if (attribute == ROCR_SYSTEM_EXT_MAJOR && emu.ext >= 4)
		ANSWER(uint16_t, 1);
	if (attribute == ROCR_SYSTEM_EXT_MINOR && emu.ext >= 4)
		ANSWER(uint16_t, emu.ext);
	return ROCR_ERROR_INVALID_ARGUMENT;
}

#define FIRST_AGENT UINT64_C(0x10000)
#define FIRST_POOL  UINT64_C(0x20000)
#define HANDLE_STEP 0x40

rocr_agent emu_agent_handle(int agent)
{
	return (rocr_agent){ FIRST_AGENT + (uint64_t)agent * HANDLE_STEP };
}

rocr_pool emu_pool_handle(int pool)
{
	return (rocr_pool){ FIRST_POOL + (uint64_t)pool * HANDLE_STEP };
}

static int number_of(uint64_t handle, uint64_t first, int count)
{
	uint64_t n = handle - first;

	return handle >= first && n % HANDLE_STEP == 0 && n / HANDLE_STEP < (uint64_t)count
		       ? (int)(n / HANDLE_STEP)
		       : EMU_NO_AGENT;
}

int emu_agent_of(rocr_agent agent)
{
	return number_of(agent.handle, FIRST_AGENT, emu.agent_count);
}

int emu_pool_of(rocr_pool pool)
{
	return number_of(pool.handle, FIRST_POOL, emu.pool_count);
}

bool emu_agent_set(uint32_t count, const rocr_agent *agents, uint64_t *set)
{
	*set = 0;
	for (uint32_t i = 0; agents && i < count; i++) {
		int agent = emu_agent_of(agents[i]);

		if (agent == EMU_NO_AGENT)
			return false;
		*set |= UINT64_C(1) << agent;
	}
	return !agents == !count;
}

rocr_status hsa_iterate_agents(rocr_status (*callback)(rocr_agent, void *), void *data)
{
	rocr_status status = ROCR_SUCCESS;

	CALL("hsa_iterate_agents");
	if (!callback)
		return ROCR_ERROR_INVALID_ARGUMENT;
	for (int i = 0; status == ROCR_SUCCESS && i < emu.agent_count; i++)
		status = callback(emu_agent_handle(i), data);
	return status;
}

static void put_text(void *value, const char *text)
{
	memset(value, 0, 64);
	memcpy(value, text, strlen(text));
}

/* A register is a word here, where tests find what was written last. */
static rocr_hdp emu_hdp(const struct emu_agent *agent)
{
	static uint32_t registers[EMU_MOST][2];

	if (!agent->gpu || !(emu.hdp >> agent->index & 1))
		return (rocr_hdp){ NULL, NULL };
	return (rocr_hdp){ &registers[agent->index][0], &registers[agent->index][1] };
}

rocr_status hsa_agent_get_info(rocr_agent handle, rocr_agent_attribute attribute, void *value)
{
	const struct emu_agent *agent;
	int number;

	CALL("hsa_agent_get_info");
	number = emu_agent_of(handle);
	if (number == EMU_NO_AGENT)
		return ROCR_ERROR_INVALID_AGENT;
	if (!value)
		return ROCR_ERROR_INVALID_ARGUMENT;
	agent = &emu.agents[number];
	switch (attribute) {
	case ROCR_AGENT_NAME:
		put_text(value, agent->gpu ? "gfx90a" : "Emulated processor");
		return ROCR_SUCCESS;
	case ROCR_AGENT_VENDOR_NAME:
		put_text(value, agent->gpu ? "AMD" : "CPU");
		return ROCR_SUCCESS;
	case ROCR_AGENT_PRODUCT_NAME:
		put_text(value, agent->gpu ? "Emulated AMD Instinct" : "Emulated processor");
		return ROCR_SUCCESS;
	case ROCR_AGENT_PROFILE:
		ANSWER(uint32_t, !agent->gpu); /* full: processors alone */
	case ROCR_AGENT_NODE:
		ANSWER(uint32_t, number);
	case ROCR_AGENT_DEVICE:
		ANSWER(uint32_t, agent->gpu ? ROCR_DEVICE_GPU : ROCR_DEVICE_CPU);
	case ROCR_AGENT_BDFID:
		ANSWER(uint32_t, agent->gpu ? (0x20 + agent->index) << 8 | 3 << 3 : 0);
	case ROCR_AGENT_DOMAIN:
		ANSWER(uint32_t, agent->gpu ? agent->index / 2 : 0);
	case ROCR_AGENT_MEMORY_AVAIL:
		ANSWER(uint64_t, emu_available(number));
	case ROCR_AGENT_HDP_FLUSH:
		ANSWER(rocr_hdp, emu_hdp(agent));
	case ROCR_AGENT_NEAREST_CPU:
		ANSWER(rocr_agent, emu_agent_handle(0));
	default:
		return ROCR_ERROR_INVALID_ARGUMENT;
	}
}

/* ---- pools ---- */

rocr_status hsa_amd_agent_iterate_memory_pools(rocr_agent agent,
					       rocr_status (*callback)(rocr_pool, void *),
					       void *data)
{
	rocr_status status = ROCR_SUCCESS;
	int number;

	CALL("hsa_amd_agent_iterate_memory_pools");
	number = emu_agent_of(agent);
	if (number == EMU_NO_AGENT)
		return ROCR_ERROR_INVALID_AGENT;
	if (!callback)
		return ROCR_ERROR_INVALID_ARGUMENT;
	for (int i = 0; status == ROCR_SUCCESS && i < emu.pool_count; i++)
		if (emu.pools[i].agent == number)
			status = callback(emu_pool_handle(i), data);
	return status;
}

rocr_status hsa_amd_memory_pool_get_info(rocr_pool handle, rocr_pool_attribute attribute,
					 void *value)
{
	const struct emu_pool *pool;
	int number;

	CALL("hsa_amd_memory_pool_get_info");
	number = emu_pool_of(handle);
	if (number == EMU_NO_AGENT)
		return ROCR_ERROR_INVALID_MEMORY_POOL;
	if (!value)
		return ROCR_ERROR_INVALID_ARGUMENT;
	pool = &emu.pools[number];
	switch (attribute) {
	case ROCR_POOL_SEGMENT:
		ANSWER(uint32_t, pool->segment);
	case ROCR_POOL_GLOBAL_FLAGS:
		if (pool->segment != ROCR_SEGMENT_GLOBAL)
			return ROCR_ERROR_INVALID_ARGUMENT;
		ANSWER(uint32_t, pool->flags);
	case ROCR_POOL_SIZE:
	case ROCR_POOL_ALLOC_MAX_SIZE:
		ANSWER(size_t, pool->allocates ? (size_t)emu.memory << 20 : 65536);
	case ROCR_POOL_ALLOC_ALLOWED:
		ANSWER(bool, pool->allocates);
	case ROCR_POOL_ALLOC_GRANULE:
	case ROCR_POOL_ALLOC_ALIGNMENT:
		ANSWER(size_t, pool->allocates ? ACCEL_PAGE : 0);
	case ROCR_POOL_ACCESSIBLE_BY_ALL:
		ANSWER(bool, pool->allocates && !emu.agents[pool->agent].gpu);
	default:
		return ROCR_ERROR_INVALID_ARGUMENT;
	}
}

uint32_t emu_access(int agent, const struct emu_pool *pool)
{
	const struct emu_agent *who = &emu.agents[agent], *owner = &emu.agents[pool->agent];

	if (!pool->allocates)
		return agent == pool->agent ? ROCR_ACCESS_BY_DEFAULT : ROCR_ACCESS_NEVER;
	if (agent == pool->agent || (!who->gpu && !owner->gpu))
		return ROCR_ACCESS_BY_DEFAULT;
	if (owner->gpu && !(who->gpu ? emu.peer : emu.bar))
		return ROCR_ACCESS_NEVER;
	return ROCR_ACCESS_ON_REQUEST;
}

rocr_status hsa_amd_agent_memory_pool_get_info(rocr_agent agent, rocr_pool pool,
					       rocr_agent_pool_attribute attribute, void *value)
{
	int who, what;

	CALL("hsa_amd_agent_memory_pool_get_info");
	who = emu_agent_of(agent);
	what = emu_pool_of(pool);
	if (who == EMU_NO_AGENT)
		return ROCR_ERROR_INVALID_AGENT;
	if (what == EMU_NO_AGENT)
		return ROCR_ERROR_INVALID_MEMORY_POOL;
	if (attribute != ROCR_AGENT_POOL_ACCESS || !value)
		return ROCR_ERROR_INVALID_ARGUMENT;
	ANSWER(uint32_t, emu_access(who, &emu.pools[what]));
}
