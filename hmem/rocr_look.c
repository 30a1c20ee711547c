/* SPDX-License-Identifier: BSD-2-Clause */
/* What ROCr says of an address. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "hmem/rocr.h"

/* What is asked of one address. */
struct answer {
	rocr_pointer_info info;
	rocr_agent *reach; /* malloc'ed: agents that have access */
	uint32_t reach_count;
};

/* With success, reach is the caller's to free. */
static rocr_status ask(const void *addr, struct answer *answer)
{
	rocr_status status;

	*answer = (struct answer){ .info = { .size = sizeof(answer->info) } };
	status = rocr_api.hsa_amd_pointer_info(addr, &answer->info, malloc, &answer->reach_count,
					       &answer->reach);
	if (status != ROCR_SUCCESS)
		free(answer->reach);
	return status;
}

static bool reached_by(const struct answer *answer, rocr_agent agent)
{
	for (uint32_t i = 0; answer->reach && i < answer->reach_count; i++)
		if (answer->reach[i].handle == agent.handle)
			return true;
	return false;
}

static bool host_reaches(const struct answer *answer)
{
	for (size_t i = 0; i < rocr_world.cpu_count; i++)
		if (reached_by(answer, rocr_world.cpus[i]))
			return true;
	return false;
}

static bool holds(const void *base, size_t len, const void *addr)
{
	return (uintptr_t)addr >= (uintptr_t)base && (uintptr_t)addr - (uintptr_t)base < len;
}

/* ---- memory that pointer info does not know ---- */

static void without_range(const void *addr, uint32_t flags, int device, struct hmem_facts *facts)
{
	*facts = (struct hmem_facts){ .flags = flags | HMEM_FACT_NO_RANGE,
				      .device = device,
				      .base = (uintptr_t)addr,
				      .len = 1 };
}

/*
 * Runtimes between the mapping functions and ROCR_EXT_TELLS_VMEM take mapped memory for unknown; its
 * handle tells (FN-09, FN-15).
 */
static int look_mapped(const void *addr, struct hmem_facts *facts)
{
	rocr_memory_type type;
	rocr_vmem handle;
	rocr_pool pool;
	rocr_status status;
	int device, ret;

	status = rocr_api.hsa_amd_vmem_retain_alloc_handle(&handle, (void *)(uintptr_t)addr);
	if (status == ROCR_ERROR_INVALID_ALLOCATION)
		return -FI_ENOENT;
	ret = rocr_result(status, "hsa_amd_vmem_retain_alloc_handle");
	if (ret != 0)
		return ret;
	ret = ROCR_CALL(hsa_amd_vmem_get_alloc_properties_from_handle, handle, &pool, &type);
	if (ROCR_CALL(hsa_amd_vmem_handle_release, handle) != 0 && ret == 0)
		ret = -FI_EIO;
	if (ret != 0)
		return ret;
	device = rocr_pool_device(pool);
	if (rocr_device_known(device))
		/* an export is from the piece's beginning on, which is not told (FN-10) */
		without_range(addr, HMEM_FACT_VMM | HMEM_FACT_NO_EXPORT, device, facts);
	else if (device == HMEM_NO_DEVICE)
		without_range(addr, HMEM_FACT_VMM | HMEM_FACT_ON_HOST | HMEM_FACT_HOST_ACCESS,
			      HMEM_NO_DEVICE, facts);
	else
		without_range(addr, HMEM_FACT_UNKNOWN, HMEM_NO_DEVICE, facts);
	return 0;
}

/* Ordinary memory that was given attributes by which it moves to devices. */
static int look_managed(const void *addr, struct hmem_facts *facts)
{
	rocr_svm_attribute asked[1 + ROCR_MOST_AGENTS];
	int device = HMEM_NO_DEVICE;
	rocr_agent preferred;

	asked[0] = (rocr_svm_attribute){ ROCR_SVM_PREFERRED_LOCATION, 0 };
	for (size_t i = 0; i < rocr_world.device_count; i++)
		asked[1 + i] = (rocr_svm_attribute){ ROCR_SVM_ACCESS_QUERY,
						     rocr_world.devices[i].agent.handle };
	/* fails for what is not mapped at all */
	if (rocr_api.hsa_amd_svm_attributes_get((void *)(uintptr_t)addr, 1, asked,
						1 + rocr_world.device_count) != ROCR_SUCCESS)
		return -FI_ENOENT;
	preferred.handle = asked[0].value;
	if (preferred.handle)
		device = rocr_device_of(preferred);
	/* where devices reach all memory, that they reach this says nothing */
	for (size_t i = rocr_world.device_count;
	     !rocr_device_known(device) && !rocr_world.svm_by_default && i-- > 0;)
		if (asked[1 + i].attribute == ROCR_SVM_ACCESSIBLE ||
		    asked[1 + i].attribute == ROCR_SVM_ACCESSIBLE_IN_PLACE)
			device = (int)i;
	if (!rocr_device_known(device))
		return -FI_ENOENT;
	without_range(addr, HMEM_FACT_MANAGED | HMEM_FACT_HOST_ACCESS, device, facts);
	return 0;
}

static int look_unknown(const void *addr, struct hmem_facts *facts)
{
	int ret = -FI_ENOENT;

	if (!rocr_world.tells_vmem && rocr_api.hsa_amd_vmem_retain_alloc_handle &&
	    rocr_api.hsa_amd_vmem_handle_release &&
	    rocr_api.hsa_amd_vmem_get_alloc_properties_from_handle)
		ret = look_mapped(addr, facts);
	if (ret == -FI_ENOENT && rocr_world.svm)
		ret = look_managed(addr, facts);
	return ret;
}

/* ---- memory that it knows ---- */

static void unsaid(const rocr_pointer_info *info, const void *addr, struct hmem_facts *facts)
{
	const void *base = info->agent_base ? info->agent_base : info->host_base;

	without_range(addr, HMEM_FACT_UNKNOWN, HMEM_NO_DEVICE, facts);
	if (holds(base, info->bytes, addr)) {
		facts->flags = HMEM_FACT_UNKNOWN;
		facts->base = (uintptr_t)base;
		facts->len = info->bytes;
	}
}

/* Host memory has two addresses when it is locked: the program's and the devices'. */
static void judge_locked(const rocr_pointer_info *info, const void *addr, struct hmem_facts *facts)
{
	if (!holds(info->host_base, info->bytes, addr)) {
		HM_WARN(FI_LOG_MR,
			"rocr: %p is where devices see locked host memory; the host's address is "
			"%p",
			addr,
			(void *)((uintptr_t)info->host_base +
				 ((uintptr_t)addr - (uintptr_t)info->agent_base)));
		unsaid(info, addr, facts);
		return;
	}
	*facts = (struct hmem_facts){ .flags = HMEM_FACT_ON_HOST | HMEM_FACT_HOST_ACCESS,
				      .device = HMEM_NO_DEVICE,
				      .base = (uintptr_t)info->host_base,
				      .len = info->bytes };
}

static void judge(const struct answer *answer, const void *addr, struct hmem_facts *facts)
{
	const rocr_pointer_info *info = &answer->info;
	uint32_t flags = 0;
	/* a runtime that does not know the owner leaves it 0, no agent's handle */
	int device = rocr_device_of(info->owner);

	switch (info->type) {
	case ROCR_POINTER_LOCKED:
		judge_locked(info, addr, facts);
		return;
	case ROCR_POINTER_HSA:
		break;
	case ROCR_POINTER_VMEM:
		flags = HMEM_FACT_VMM | (rocr_exports_mapped() ? 0 : HMEM_FACT_NO_EXPORT);
		break;
	case ROCR_POINTER_GRAPHICS:
	case ROCR_POINTER_IPC:
		flags = HMEM_FACT_IMPORTED;
		break;
	default: /* reserved addresses, and what later runtimes may have */
		device = HMEM_NO_DEVICE - 1;
	}
	if (!rocr_device_known(device) && device != HMEM_NO_DEVICE) {
		unsaid(info, addr, facts);
		return;
	}
	if (device == HMEM_NO_DEVICE)
		flags = (flags & ~HMEM_FACT_NO_EXPORT) | HMEM_FACT_ON_HOST;
	if (host_reaches(answer) || (device == HMEM_NO_DEVICE && flags == HMEM_FACT_ON_HOST))
		flags |= HMEM_FACT_HOST_ACCESS;
	*facts = (struct hmem_facts){ .flags = flags,
				      .device = device,
				      .base = (uintptr_t)info->agent_base,
				      .len = info->bytes };
	if (!holds(info->agent_base, info->bytes, addr))
		without_range(addr, flags, device, facts);
}

int rocr_look(const void *addr, struct hmem_facts *facts)
{
	struct answer answer;
	int ret;

	if (!addr)
		return -FI_ENOENT;
	ret = rocr_result(ask(addr, &answer), "hsa_amd_pointer_info");
	if (ret != 0)
		return ret;
	if (answer.info.type == ROCR_POINTER_UNKNOWN)
		ret = look_unknown(addr, facts);
	else
		judge(&answer, addr, facts);
	free(answer.reach);
	return ret;
}

bool rocr_reaches(int device, const void *addr, size_t len, void **there)
{
	rocr_agent agent = rocr_world.devices[device].agent;
	struct answer answer;
	const rocr_pointer_info *info = &answer.info;
	uintptr_t inside;
	bool reaches;

	/* not known, or not told: there is another way to copy */
	if (ask(addr, &answer) != ROCR_SUCCESS)
		return false;
	inside = (uintptr_t)addr - (uintptr_t)(holds(info->agent_base, info->bytes, addr)
						       ? info->agent_base
						       : info->host_base);
	reaches = info->type != ROCR_POINTER_UNKNOWN && info->type != ROCR_POINTER_RESERVED &&
		  inside < info->bytes && len <= info->bytes - inside &&
		  (info->owner.handle == agent.handle || reached_by(&answer, agent));
	if (reaches)
		*there = (char *)info->agent_base + inside;
	free(answer.reach);
	return reaches;
}

/* ---- for a cache: one call ---- */

/* Of a runtime that takes its mapped memory for unknown, the handle is asked as well. */
static int own_unknown(const void *addr, struct hmem_facts *facts)
{
	if (rocr_world.tells_vmem || !rocr_api.hsa_amd_vmem_retain_alloc_handle ||
	    !rocr_api.hsa_amd_vmem_handle_release ||
	    !rocr_api.hsa_amd_vmem_get_alloc_properties_from_handle)
		return -FI_ENOENT;
	return look_mapped(addr, facts);
}

static const char *own_other(uint32_t type)
{
	return type == ROCR_POINTER_VMEM
		       ? "the runtime does not tell when other memory is mapped at an address"
		       : "memory of another process, or that the runtime does not explain";
}

/* Managed memory is the process's own pages, and the monitor's that follows those. */
int rocr_own(const void *addr, struct hmem_facts *facts, const char **why)
{
	rocr_pointer_info info = { .size = sizeof(info) };
	int ret;

	if (!addr)
		return -FI_ENOENT;
	ret = rocr_result(rocr_api.hsa_amd_pointer_info(addr, &info, NULL, NULL, NULL),
			  "hsa_amd_pointer_info");
	if (ret != 0)
		return ret;
	if (info.type == ROCR_POINTER_LOCKED && holds(info.host_base, info.bytes, addr))
		return -FI_ENOENT; /* the program's own */
	if (info.type == ROCR_POINTER_UNKNOWN) {
		*why = own_other(ROCR_POINTER_VMEM);
		return own_unknown(addr, facts);
	}
	without_range(addr, 0, rocr_device_of(info.owner), facts);
	if (info.type != ROCR_POINTER_HSA || !holds(info.agent_base, info.bytes, addr)) {
		*why = own_other(info.type);
		return 0;
	}
	facts->flags = facts->device == HMEM_NO_DEVICE ? HMEM_FACT_ON_HOST : 0;
	facts->base = (uintptr_t)info.agent_base;
	facts->len = info.bytes;
	facts->id = rocr_gone_id(facts->base, facts->len, why);
	return 0;
}
