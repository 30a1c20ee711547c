/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * AMD devices through ROCr.  A device's number counts the GPU agents alone, in the runtime's order.
 *
 * Who owns a dma-buf's fd: this library, from the export on.  One of
 * hsa_amd_portable_export_dmabuf goes back by hsa_amd_portable_close_dmabuf, one of
 * hsa_amd_vmem_export_shareable_handle by close(2).
 */
#include "hmem/rocr.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/dl.h"
#include "core/base/log.h"
#include "core/base/range.h"
#include "core/base/refusal.h"
#include "hmem/known.h"

struct rocr_api rocr_api;
struct rocr_world rocr_world;

#define SLOT(name)		     ((void **)(void *)&rocr_api.name)
#define REQUIRED(result, name, args) { #name, SLOT(name), NULL, 0 },
#define OPTIONAL(result, name, args) { #name, SLOT(name), NULL, 1 },
static const struct hm_dl_symbol symbols[] = { ROCR_FUNCTIONS(REQUIRED)
						       ROCR_OPTIONAL_FUNCTIONS(OPTIONAL) };

/* ---- errors ---- */

static const struct hmem_failure failures[] = {
	{ ROCR_ERROR_OUT_OF_RESOURCES, -FI_ENOMEM, NULL,
	  "memory, file descriptors or the limit of locked memory are used up, or /dev/kfd cannot "
	  "be "
	  "opened (groups render and video)" },
	{ ROCR_ERROR_INVALID_ALLOCATION, -FI_EINVAL, NULL,
	  "the memory was freed, or the range is not inside one allocation" },
	{ ROCR_ERROR_INVALID_AGENT, -FI_EOPNOTSUPP, NULL,
	  "this device cannot do it, or is hidden by ROCR_VISIBLE_DEVICES" },
	{ ROCR_ERROR_INVALID_ARGUMENT, -FI_EINVAL, NULL,
	  "memory that this call does not take, or a runtime older than the call" },
	{ ROCR_ERROR_NOT_INITIALIZED, -FI_EIO, NULL,
	  "the program called hsa_shut_down more often than hsa_init" },
	{ ROCR_ERROR, -FI_EIO, NULL, "the kernel's driver refused; dmesg may tell why" },
};

const char *rocr_status_text(rocr_status status, char text[160])
{
	const char *known = NULL;

	if (rocr_api.hsa_status_string(status, &known) != ROCR_SUCCESS || !known)
		known = "unknown status";
	snprintf(text, 160, "%s (0x%x)", known, status);
	return text;
}

int rocr_result(rocr_status status, const char *call)
{
	static const struct hmem_failure unknown = {
		0, -FI_EIO, NULL, "the device or its driver failed; dmesg may tell why"
	};
	const struct hmem_failure *failure =
		hmem_failure_of(failures, count_of(failures), (int)status);
	char text[160];

	if (status == ROCR_SUCCESS)
		return 0;
	failure = failure ? failure : &unknown;
	HM_REFUSE(FI_LOG_CORE, hmem_cause_of(failure->ret), "rocr: %s: %s: %s", call,
		  rocr_status_text(status, text), failure->text);
	return failure->ret;
}

/* ---- agents and pools ---- */

#define UNKNOWN_DEVICE (HMEM_NO_DEVICE - 1)

int rocr_device_of(rocr_agent agent)
{
	for (size_t i = 0; i < rocr_world.device_count; i++)
		if (rocr_world.devices[i].agent.handle == agent.handle)
			return (int)i;
	for (size_t i = 0; i < rocr_world.cpu_count; i++)
		if (rocr_world.cpus[i].handle == agent.handle)
			return HMEM_NO_DEVICE;
	return UNKNOWN_DEVICE;
}

int rocr_pool_device(rocr_pool pool)
{
	for (size_t i = 0; i < rocr_world.pool_count; i++)
		if (rocr_world.pools[i].pool.handle == pool.handle)
			return rocr_world.pools[i].device;
	return UNKNOWN_DEVICE;
}

bool rocr_device_known(int device)
{
	return device >= 0 && (size_t)device < rocr_world.device_count;
}

/* What a traversal is about; call: the one that failed inside of it, or NULL. */
struct walk {
	const char *call;
	int device;
};

static rocr_status add_agent(rocr_agent agent, void *data)
{
	struct walk *walk = data;
	uint32_t type;
	rocr_status status = rocr_api.hsa_agent_get_info(agent, ROCR_AGENT_DEVICE, &type);

	if (status != ROCR_SUCCESS) {
		walk->call = "hsa_agent_get_info";
		return status;
	}
	if (type == ROCR_DEVICE_GPU && rocr_world.device_count < ROCR_MOST_AGENTS)
		rocr_world.devices[rocr_world.device_count++].agent = agent;
	else if (type == ROCR_DEVICE_CPU && rocr_world.cpu_count < ROCR_MOST_AGENTS)
		rocr_world.cpus[rocr_world.cpu_count++] = agent;
	return ROCR_SUCCESS;
}

struct pool_facts {
	uint32_t segment, flags;
	bool allocates;
	size_t size;
};

static rocr_status ask_pool(rocr_pool pool, struct pool_facts *facts)
{
	const struct {
		rocr_pool_attribute attribute;
		void *value;
	} questions[] = { { ROCR_POOL_SEGMENT, &facts->segment },
			  { ROCR_POOL_GLOBAL_FLAGS, &facts->flags },
			  { ROCR_POOL_ALLOC_ALLOWED, &facts->allocates },
			  { ROCR_POOL_SIZE, &facts->size } };
	rocr_status status = ROCR_SUCCESS;

	*facts = (struct pool_facts){ 0 };
	/* flags are asked of global memory alone */
	for (size_t i = 0; status == ROCR_SUCCESS && i < count_of(questions); i++)
		if (i == 0 || facts->segment == ROCR_SEGMENT_GLOBAL)
			status = rocr_api.hsa_amd_memory_pool_get_info(pool, questions[i].attribute,
								       questions[i].value);
	return status;
}

static void keep_host_pool(rocr_pool pool, uint32_t flags)
{
	/* kernel arguments have a pool of their own on some machines: the last resort */
	if (!rocr_world.host_pool.handle ||
	    ((flags & ROCR_POOL_FLAG_FINE) && !(flags & ROCR_POOL_FLAG_KERNARG)))
		rocr_world.host_pool = pool;
}

static void keep_device_pool(struct rocr_device *device, rocr_pool pool,
			     const struct pool_facts *facts)
{
	/* fine- and coarse-grained pools are the same memory */
	if (facts->size > device->memory)
		device->memory = facts->size;
	if (!device->pool.handle || (facts->flags & ROCR_POOL_FLAG_COARSE))
		device->pool = pool;
}

static rocr_status add_pool(rocr_pool pool, void *data)
{
	struct walk *walk = data;
	struct pool_facts facts;
	rocr_status status = ask_pool(pool, &facts);

	if (status != ROCR_SUCCESS)
		walk->call = "hsa_amd_memory_pool_get_info";
	if (status != ROCR_SUCCESS || facts.segment != ROCR_SEGMENT_GLOBAL || !facts.allocates ||
	    rocr_world.pool_count == ROCR_MOST_POOLS)
		return status;
	rocr_world.pools[rocr_world.pool_count].pool = pool;
	rocr_world.pools[rocr_world.pool_count++].device = walk->device;
	if (walk->device == HMEM_NO_DEVICE)
		keep_host_pool(pool, facts.flags);
	else
		keep_device_pool(&rocr_world.devices[walk->device], pool, &facts);
	return ROCR_SUCCESS;
}

/* With a window over all of the device's memory, processors can be given access to it. */
static rocr_status ask_window(struct rocr_device *device)
{
	uint32_t access = ROCR_ACCESS_NEVER;
	rocr_status status = ROCR_SUCCESS;

	if (device->pool.handle)
		status = rocr_api.hsa_amd_agent_memory_pool_get_info(
			rocr_world.cpus[0], device->pool, ROCR_AGENT_POOL_ACCESS, &access);
	device->host_reaches = access != ROCR_ACCESS_NEVER;
	return status;
}

/*
 * What other devices write into a device's memory goes through its host data path, which may hold it back: "Use of
 * these registers does not conform to the HSA memory model", which knows no such writes (hsa_ext_amd.h).  A
 * runtime that does not know the question, or a device without the register, has nothing to be flushed by.
 */
static uint32_t *ask_hdp(rocr_agent agent)
{
	rocr_hdp hdp = { NULL, NULL };

	if (rocr_api.hsa_agent_get_info(agent, ROCR_AGENT_HDP_FLUSH, &hdp) != ROCR_SUCCESS)
		return NULL;
	return hdp.memory;
}

static int find_pools(rocr_agent agent, int device)
{
	struct walk walk = { NULL, device };
	rocr_status status = rocr_api.hsa_amd_agent_iterate_memory_pools(agent, add_pool, &walk);

	return rocr_result(status, walk.call ? walk.call : "hsa_amd_agent_iterate_memory_pools");
}

static int find_agents(void)
{
	struct walk walk = { NULL, HMEM_NO_DEVICE };
	rocr_status status = rocr_api.hsa_iterate_agents(add_agent, &walk);
	int ret = rocr_result(status, walk.call ? walk.call : "hsa_iterate_agents");

	for (size_t i = 0; ret == 0 && i < rocr_world.cpu_count; i++)
		ret = find_pools(rocr_world.cpus[i], HMEM_NO_DEVICE);
	for (int i = 0; ret == 0 && i < (int)rocr_world.device_count; i++) {
		ret = find_pools(rocr_world.devices[i].agent, i);
		rocr_world.devices[i].hdp = ask_hdp(rocr_world.devices[i].agent);
		if (ret == 0 && rocr_world.cpu_count > 0)
			ret = rocr_result(ask_window(&rocr_world.devices[i]),
					  "hsa_amd_agent_memory_pool_get_info");
	}
	return ret;
}

/* ---- start ---- */

static bool ask_bool(rocr_system_attribute attribute)
{
	bool value = false;

	return rocr_api.hsa_system_get_info(attribute, &value) == ROCR_SUCCESS && value;
}

static unsigned int ask_number(rocr_system_attribute attribute)
{
	uint16_t value = 0;

	return rocr_api.hsa_system_get_info(attribute, &value) == ROCR_SUCCESS ? value : 0;
}

/* What older runtimes do not know counts as not there: these are questions that may fail. */
static void ask_system(struct hmem_status *status)
{
	unsigned int major = ask_number(ROCR_SYSTEM_EXT_MAJOR);
	const char *build = NULL;

	rocr_api.hsa_system_get_info(ROCR_SYSTEM_BUILD_VERSION, &build);
	snprintf(status->version, sizeof(status->version), "HSA %u.%u%s%s",
		 ask_number(ROCR_SYSTEM_VERSION_MAJOR), ask_number(ROCR_SYSTEM_VERSION_MINOR),
		 build ? ", build " : "", build ? build : "");
	rocr_world.tells_vmem = major > 1 || (major == 1 && ask_number(ROCR_SYSTEM_EXT_MINOR) >=
								    ROCR_EXT_TELLS_VMEM);
	rocr_world.svm = rocr_api.hsa_amd_svm_attributes_get && ask_bool(ROCR_SYSTEM_SVM_SUPPORTED);
	rocr_world.svm_by_default = ask_bool(ROCR_SYSTEM_SVM_BY_DEFAULT);
	if (!rocr_api.hsa_amd_portable_export_dmabuf || !rocr_api.hsa_amd_portable_close_dmabuf)
		rocr_world.no_dmabuf = "the runtime is older than dma-bufs (ROCm 5.6)";
	else if (!ask_bool(ROCR_SYSTEM_DMABUF))
		rocr_world.no_dmabuf = "the kernel's amdgpu driver exports no dma-bufs (Linux 6.4)";
	if (rocr_world.no_dmabuf)
		rocr_world.no_dmabuf_cause = rocr_api.hsa_amd_portable_export_dmabuf
						     ? HMREG_CAUSE_EXPORT_UNSUPPORTED
						     : HMREG_CAUSE_EXPORT_OLD;
}

static int fail(struct hmem_status *status, enum hmem_state state, int error, const char *reason)
{
	status->state = state;
	snprintf(status->reason, sizeof(status->reason), "%s", reason);
	return error;
}

static int start_runtime(struct hmem_status *status)
{
	ask_system(status);
	if (find_agents() != 0)
		return fail(status, HMEM_FAILED, -FI_EIO, "the runtime does not tell its devices");
	if (rocr_world.device_count == 0)
		return fail(status, HMEM_EMPTY, -FI_ENODEV, "the runtime knows no GPU");
	if (rocr_world.cpu_count == 0 || !rocr_world.host_pool.handle)
		return fail(status, HMEM_FAILED, -FI_EIO, "the runtime has no host memory");
	if (rocr_copy_init() != 0)
		return fail(status, HMEM_FAILED, -FI_EIO, "the runtime gives no memory to copy by");
	return 0;
}

static int start(struct hmem_status *status)
{
	char text[160];
	rocr_status result;
	int ret;

	ret = hm_dl_load(ROCR_LIBRARY, symbols, count_of(symbols), status->reason,
			 sizeof(status->reason));
	if (ret != 0) {
		status->state = HMEM_ABSENT;
		return ret;
	}
	hm_dl_path((const void *)(uintptr_t)rocr_api.hsa_init, status->driver,
		   sizeof(status->driver));
	result = rocr_api.hsa_init();
	if (result != ROCR_SUCCESS) {
		/* no warning: a machine may have the runtime and no such device */
		fail(status, HMEM_FAILED, -FI_EIO, "");
		snprintf(status->reason, sizeof(status->reason), "hsa_init: %.120s%s",
			 rocr_status_text(result, text),
			 access("/dev/kfd", F_OK) == 0 ? "" : "; there is no /dev/kfd");
		return -FI_EIO;
	}
	ret = start_runtime(status);
	if (ret != 0) {
		memset(&rocr_world, 0, sizeof(rocr_world));
		rocr_api.hsa_shut_down();
	}
	return ret;
}

/* ---- devices ---- */

static size_t device_count(void)
{
	return rocr_world.device_count;
}

static int device_name(rocr_agent agent, char name[64])
{
	char text[64] = "";

	if (rocr_api.hsa_agent_get_info(agent, ROCR_AGENT_PRODUCT_NAME, text) != ROCR_SUCCESS ||
	    !text[0]) {
		int ret = ROCR_CALL(hsa_agent_get_info, agent, ROCR_AGENT_NAME, text);

		if (ret != 0)
			return ret;
	}
	snprintf(name, 64, "%.63s", text);
	return 0;
}

static void device_pci(rocr_agent agent, char pci[16])
{
	uint32_t bdf, domain = 0;

	if (rocr_api.hsa_agent_get_info(agent, ROCR_AGENT_BDFID, &bdf) != ROCR_SUCCESS)
		return;
	/* older runtimes know one domain */
	if (rocr_api.hsa_agent_get_info(agent, ROCR_AGENT_DOMAIN, &domain) != ROCR_SUCCESS)
		domain = 0;
	snprintf(pci, 16, "%04x:%02x:%02x.%x", domain & 0xffff, (bdf >> 8) & 0xff,
		 (bdf >> 3) & 0x1f, bdf & 7);
}

static int device_info(size_t index, struct hmem_device *out)
{
	struct hmem_device info = { .id = (int)index };
	struct rocr_device *device;
	char text[160];
	rocr_status refused;
	int ret;

	if (index >= rocr_world.device_count)
		return -FI_ENODEV;
	device = &rocr_world.devices[index];
	ret = device_name(device->agent, info.name);
	if (ret != 0)
		return ret;
	device_pci(device->agent, info.pci);
	info.memory = device->memory;
	info.window = device->host_reaches ? device->memory : 0;
	refused = atomic_load_explicit(&device->export_status, memory_order_relaxed);
	if (rocr_world.no_dmabuf)
		snprintf(info.dmabuf_reason, sizeof(info.dmabuf_reason), "%s",
			 rocr_world.no_dmabuf);
	else if (refused != ROCR_SUCCESS)
		snprintf(info.dmabuf_reason, sizeof(info.dmabuf_reason), "%.*s",
			 (int)sizeof(info.dmabuf_reason) - 1, rocr_status_text(refused, text));
	info.dmabuf = !info.dmabuf_reason[0];
	info.dmabuf_cause = rocr_world.no_dmabuf_cause;
	*out = info;
	return 0;
}

/* ---- memory ---- */

/* All devices reach it. */
static int host_register(void *addr, size_t len)
{
	void *there;

	return ROCR_CALL(hsa_amd_memory_lock, addr, len, NULL, 0, &there);
}

/* The runtime does not say what unlocking anything else does. */
static int host_unregister(void *addr)
{
	rocr_pointer_info info = { .size = sizeof(info) };
	int ret = ROCR_CALL(hsa_amd_pointer_info, addr, &info, NULL, NULL, NULL);

	if (ret != 0)
		return ret;
	if (info.type != ROCR_POINTER_LOCKED || info.host_base != addr) {
		HM_WARN(FI_LOG_CORE, "rocr: %p is not host memory that was registered", addr);
		return -FI_EINVAL;
	}
	return ROCR_CALL(hsa_amd_memory_unlock, addr);
}

static int alloc_host(size_t len, void **out)
{
	rocr_agent agents[ROCR_MOST_AGENTS];
	void *addr;
	int ret = ROCR_CALL(hsa_amd_memory_pool_allocate, rocr_world.host_pool, len, 0, &addr);

	if (ret != 0)
		return ret;
	for (size_t i = 0; i < rocr_world.device_count; i++)
		agents[i] = rocr_world.devices[i].agent;
	ret = ROCR_CALL(hsa_amd_agents_allow_access, (uint32_t)rocr_world.device_count, agents,
			NULL, addr);
	if (ret != 0) {
		rocr_api.hsa_amd_memory_pool_free(addr);
		return ret;
	}
	*out = addr;
	return 0;
}

static int alloc(int device, size_t len, enum hmem_alloc how, void **addr)
{
	/* managed memory is ordinary memory with attributes: a program's own to make */
	if (how == HMEM_ALLOC_MANAGED)
		return -FI_ENOSYS;
	if (how == HMEM_ALLOC_HOST)
		return alloc_host(len, addr);
	if (!rocr_device_known(device)) {
		HM_WARN(FI_LOG_CORE, "rocr has no device %d", device);
		return -FI_ENODEV;
	}
	return ROCR_CALL(hsa_amd_memory_pool_allocate, rocr_world.devices[device].pool, len, 0,
			 addr);
}

static int release(int device, void *addr, enum hmem_alloc how)
{
	(void)device;
	if (how == HMEM_ALLOC_MANAGED)
		return -FI_ENOSYS;
	return ROCR_CALL(hsa_amd_memory_pool_free, addr);
}

static bool needs_flush(int device)
{
	return rocr_device_known(device) && rocr_world.devices[device].hdp;
}

/* Read back, since the write alone may be on its way still when the caller goes on. */
static int flush(int device)
{
	uint32_t *hdp = needs_flush(device) ? rocr_world.devices[device].hdp : NULL;

	if (!hdp)
		return 0;
	__atomic_store_n(hdp, 1, __ATOMIC_SEQ_CST);
	(void)__atomic_load_n((volatile uint32_t *)hdp, __ATOMIC_SEQ_CST);
	return 0;
}

struct hmem_ops hmem_rocr = {
	.name = "rocr",
	.iface = FI_HMEM_ROCR,
	.start = start,
	.device_count = device_count,
	.device_info = device_info,
	.look = rocr_look,
	.own = rocr_own,
	.end_reports = rocr_end_reports,
	.copy = rocr_copy,
	.copy_start = rocr_copy_start,
	.copy_end = rocr_copy_end,
	.export_unit = ROCR_EXPORT_UNIT,
	.export_start = rocr_export_start,
	.export_end = rocr_export_end,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.alloc = alloc,
	.free = release,
	.kernels_reach_host_alloc = true,
	.flush = flush,
	.needs_flush = needs_flush,
};
