/* SPDX-License-Identifier: BSD-2-Clause */
/* What an address is; host memory that devices reach: locked, or managed by attributes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/drivers/accel/rocr/emu.h"

/* ---- locked host memory ---- */

static struct hm_list locked = { &locked, &locked };

struct emu_locked *emu_find_locked(const void *addr)
{
	hm_list_for_each_safe(link, &locked)
	{
		struct emu_locked *l = hm_list_entry(link, struct emu_locked, link);

		if ((uintptr_t)addr - (uintptr_t)l->host < l->len ||
		    (uintptr_t)addr - (uintptr_t)l->there < l->len)
			return l;
	}
	return NULL;
}

static bool is_mapped(const void *addr, size_t len)
{
	uintptr_t begin = (uintptr_t)addr & ~(uintptr_t)(EMU_PAGE - 1);
	unsigned char there;

	for (uintptr_t at = begin; at < (uintptr_t)addr + len; at += EMU_PAGE)
		if (mincore((void *)at, EMU_PAGE, &there) != 0)
			return false;
	return true;
}

/* emu_lock held. */
static rocr_status lock_memory(char *host, size_t size, uint64_t reach, void **there)
{
	size_t inside = (uintptr_t)host & (EMU_PAGE - 1);
	struct emu_locked *l;
	struct accel_range range;
	char *space;

	if (emu_find(host, &range))
		return ROCR_ERROR_INVALID_ARGUMENT;
	if (!is_mapped(host, size))
		return ROCR_ERROR_OUT_OF_RESOURCES;
	l = calloc(1, sizeof(*l));
	space = l && emu.alias ? accel_reserve(inside + size, 0) : NULL;
	if (!l || (emu.alias && !space)) {
		free(l);
		return ROCR_ERROR_OUT_OF_RESOURCES;
	}
	l->host = host;
	l->there = emu.alias ? space + inside : host;
	l->len = size;
	l->reach = reach;
	hm_list_add_tail(&locked, &l->link);
	accel_live("locked", 1);
	*there = l->there;
	return ROCR_SUCCESS;
}

static rocr_status lock_for(void *host, size_t size, const rocr_agent *agents, int count,
			    void **there)
{
	uint64_t reach = EMU_ALL;
	rocr_status status;

	if (!host || !size || !there || !agents != !count || count < 0)
		return ROCR_ERROR_INVALID_ARGUMENT;
	if (count && !emu_agent_set((uint32_t)count, agents, &reach))
		return ROCR_ERROR_INVALID_AGENT;
	pthread_mutex_lock(&emu_lock);
	status = lock_memory(host, size, reach, there);
	pthread_mutex_unlock(&emu_lock);
	return status;
}

rocr_status hsa_amd_memory_lock(void *host, size_t size, rocr_agent *agents, int count,
				void **there)
{
	CALL("hsa_amd_memory_lock");
	return lock_for(host, size, agents, count, there);
}

rocr_status hsa_amd_memory_lock_to_pool(void *host, size_t size, rocr_agent *agents, int count,
					rocr_pool handle, uint32_t flags, void **there)
{
	int pool;

	CALL("hsa_amd_memory_lock_to_pool");
	pool = emu_pool_of(handle);
	if (pool == EMU_NO_AGENT || emu.agents[emu.pools[pool].agent].gpu)
		return ROCR_ERROR_INVALID_MEMORY_POOL;
	return flags ? ROCR_ERROR_INVALID_ARGUMENT : lock_for(host, size, agents, count, there);
}

/* emu_lock held. */
static rocr_status unlock_memory(const char *host)
{
	hm_list_for_each_safe(link, &locked)
	{
		struct emu_locked *l = hm_list_entry(link, struct emu_locked, link);

		if (l->host != host)
			continue;
		if (l->there != l->host) {
			size_t inside = (uintptr_t)host & (EMU_PAGE - 1);

			accel_unreserve(l->there - inside, inside + l->len);
		}
		hm_list_del(&l->link);
		free(l);
		accel_live("locked", -1);
		return ROCR_SUCCESS;
	}
	return ROCR_ERROR_INVALID_ARGUMENT;
}

rocr_status hsa_amd_memory_unlock(void *host)
{
	rocr_status status;

	CALL("hsa_amd_memory_unlock");
	pthread_mutex_lock(&emu_lock);
	status = unlock_memory(host);
	pthread_mutex_unlock(&emu_lock);
	return status;
}

/* ---- pointer info ---- */

/* emu_lock held; reach: who has access. */
static void describe(const void *ptr, rocr_pointer_info *info, uint64_t *reach)
{
	struct accel_range range;
	const struct emu_memory *memory = emu_find(ptr, &range);
	const struct emu_locked *l;

	*info = (rocr_pointer_info){ .type = ROCR_POINTER_UNKNOWN };
	*reach = 0;
	if (memory && (range.kind != EMU_VMEM || emu.ext >= ROCR_EXT_TELLS_VMEM)) {
		info->type = range.kind == EMU_VMEM  ? ROCR_POINTER_VMEM
			     : range.kind == EMU_IPC ? ROCR_POINTER_IPC
						     : ROCR_POINTER_HSA;
		info->agent_base = info->host_base = range.addr;
		info->bytes = range.len;
		info->user_data = memory->user_data;
		info->owner = emu_agent_handle(emu.pools[memory->pool].agent);
		info->global_flags = emu.pools[memory->pool].flags;
		*reach = memory->reach;
	} else if (!memory && (l = emu_find_locked(ptr)) != NULL) {
		info->type = ROCR_POINTER_LOCKED;
		info->agent_base = l->there;
		info->host_base = l->host;
		info->bytes = l->len;
		info->owner = emu_agent_handle(0);
		info->global_flags = ROCR_POOL_FLAG_FINE;
		/* processors have it anyway, and are not listed */
		for (int i = 0; i < emu.agent_count; i++)
			*reach |= emu.agents[i].gpu ? l->reach & UINT64_C(1) << i : 0;
	} else if (!memory && emu.ext >= ROCR_EXT_TELLS_VMEM &&
		   emu_find_reserved(ptr, &info->host_base, &info->bytes)) {
		info->type = ROCR_POINTER_RESERVED;
	}
}

static rocr_status list_agents(uint64_t reach, void *(*alloc)(size_t), uint32_t *count,
			       rocr_agent **list)
{
	uint32_t n = 0;

	for (int i = 0; i < emu.agent_count; i++)
		n += (reach >> i) & 1;
	*count = n;
	if (!alloc || !list || n == 0)
		return ROCR_SUCCESS;
	*list = alloc(n * sizeof(**list));
	if (!*list)
		return ROCR_ERROR_OUT_OF_RESOURCES;
	for (int i = emu.agent_count; i-- > 0;)
		if ((reach >> i) & 1)
			(*list)[--n] = emu_agent_handle(i);
	return ROCR_SUCCESS;
}

rocr_status hsa_amd_pointer_info(const void *ptr, rocr_pointer_info *info, void *(*alloc)(size_t),
				 uint32_t *count, rocr_agent **list)
{
	rocr_pointer_info answer;
	uint64_t reach;

	CALL("hsa_amd_pointer_info");
	if (!ptr || !info || info->size < offsetof(rocr_pointer_info, agent_base))
		return ROCR_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&emu_lock);
	describe(ptr, &answer, &reach);
	pthread_mutex_unlock(&emu_lock);
	answer.size = info->size < sizeof(answer) ? info->size : (uint32_t)sizeof(answer);
	/* what is unknown leaves the rest as it was */
	memcpy(info, &answer,
	       answer.type == ROCR_POINTER_UNKNOWN ? offsetof(rocr_pointer_info, agent_base)
						   : answer.size);
	if (answer.type == ROCR_POINTER_UNKNOWN || !count)
		return ROCR_SUCCESS;
	return list_agents(reach, alloc, count, list);
}

rocr_status hsa_amd_pointer_info_set_userdata(const void *ptr, void *user_data)
{
	struct accel_range range;
	struct emu_memory *memory;

	CALL("hsa_amd_pointer_info_set_userdata");
	pthread_mutex_lock(&emu_lock);
	memory = emu_find(ptr, &range);
	if (memory && range.addr == (const char *)ptr)
		memory->user_data = user_data;
	else
		memory = NULL;
	pthread_mutex_unlock(&emu_lock);
	return memory ? ROCR_SUCCESS : ROCR_ERROR_INVALID_ARGUMENT;
}

/* ---- managed memory ---- */

struct managed {
	struct hm_list link;
	uintptr_t begin, end;
	uint64_t preferred; /* an agent's handle */
	uint64_t reach, in_place;
};

static struct hm_list ranges = { &ranges, &ranges };

static struct managed *find_managed(uintptr_t addr)
{
	hm_list_for_each_safe(link, &ranges)
	{
		struct managed *m = hm_list_entry(link, struct managed, link);

		if (addr >= m->begin && addr < m->end)
			return m;
	}
	return NULL;
}

bool emu_managed(const void *addr, uint64_t *reach, size_t *left)
{
	const struct managed *m = find_managed((uintptr_t)addr);

	if (!m)
		return false;
	*reach = m->reach;
	*left = m->end - (uintptr_t)addr;
	return true;
}

static rocr_status set_attribute(struct managed *m, const rocr_svm_attribute *a)
{
	rocr_agent handle = { a->value };
	int agent = emu_agent_of(handle);
	uint64_t bit = agent == EMU_NO_AGENT ? 0 : UINT64_C(1) << agent;

	if (a->attribute == ROCR_SVM_PREFERRED_LOCATION) {
		if (a->value && !bit)
			return ROCR_ERROR_INVALID_AGENT;
		m->preferred = a->value;
		return ROCR_SUCCESS;
	}
	if (a->attribute < ROCR_SVM_ACCESSIBLE || a->attribute > ROCR_SVM_NO_ACCESS)
		return ROCR_ERROR_INVALID_ARGUMENT;
	if (!bit)
		return ROCR_ERROR_INVALID_AGENT;
	m->reach = a->attribute == ROCR_SVM_NO_ACCESS ? m->reach & ~bit : m->reach | bit;
	m->in_place = a->attribute == ROCR_SVM_ACCESSIBLE_IN_PLACE ? m->in_place | bit
								   : m->in_place & ~bit;
	return ROCR_SUCCESS;
}

/* emu_lock held.  A range that holds begin is changed as a whole. */
static rocr_status set_attributes(uintptr_t begin, uintptr_t end, const rocr_svm_attribute *list,
				  size_t count)
{
	struct managed *m = find_managed(begin);
	rocr_status status = ROCR_SUCCESS;

	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return ROCR_ERROR_OUT_OF_RESOURCES;
		m->begin = begin;
		m->end = end;
		hm_list_add_tail(&ranges, &m->link);
		accel_live("managed", 1);
	}
	for (size_t i = 0; status == ROCR_SUCCESS && i < count; i++)
		status = set_attribute(m, &list[i]);
	if (!m->reach && !m->preferred) {
		hm_list_del(&m->link);
		free(m);
		accel_live("managed", -1);
	}
	return status;
}

rocr_status hsa_amd_svm_attributes_set(void *ptr, size_t size, rocr_svm_attribute *list,
				       size_t count)
{
	uintptr_t begin = (uintptr_t)ptr & ~(uintptr_t)(EMU_PAGE - 1);
	uintptr_t end = ((uintptr_t)ptr + size + EMU_PAGE - 1) & ~(uintptr_t)(EMU_PAGE - 1);
	rocr_status status;

	CALL("hsa_amd_svm_attributes_set");
	if (!emu.svm || !list || !is_mapped(ptr, size))
		return ROCR_ERROR;
	pthread_mutex_lock(&emu_lock);
	status = set_attributes(begin, end, list, count);
	pthread_mutex_unlock(&emu_lock);
	return status;
}

static rocr_status get_attribute(const struct managed *m, rocr_svm_attribute *a)
{
	rocr_agent handle = { a->value };
	int agent = emu_agent_of(handle);
	uint64_t bit = agent == EMU_NO_AGENT ? 0 : UINT64_C(1) << agent;

	if (a->attribute == ROCR_SVM_PREFERRED_LOCATION) {
		a->value = m ? m->preferred : 0;
		return ROCR_SUCCESS;
	}
	if (a->attribute != ROCR_SVM_ACCESS_QUERY)
		return ROCR_ERROR_INVALID_ARGUMENT;
	if (!bit)
		return ROCR_ERROR_INVALID_AGENT;
	if (m && (m->in_place & bit))
		a->attribute = ROCR_SVM_ACCESSIBLE_IN_PLACE;
	else
		a->attribute = (m && (m->reach & bit)) || emu.xnack ? ROCR_SVM_ACCESSIBLE
								    : ROCR_SVM_NO_ACCESS;
	return ROCR_SUCCESS;
}

rocr_status hsa_amd_svm_attributes_get(void *ptr, size_t size, rocr_svm_attribute *list,
				       size_t count)
{
	rocr_status status = ROCR_SUCCESS;
	const struct managed *m;

	CALL("hsa_amd_svm_attributes_get");
	if (!emu.svm || !list || !is_mapped(ptr, size))
		return ROCR_ERROR;
	pthread_mutex_lock(&emu_lock);
	m = find_managed((uintptr_t)ptr);
	for (size_t i = 0; status == ROCR_SUCCESS && i < count; i++)
		status = get_attribute(m, &list[i]);
	pthread_mutex_unlock(&emu_lock);
	return status;
}
