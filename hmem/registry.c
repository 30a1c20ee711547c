/* SPDX-License-Identifier: BSD-2-Clause */
/* The interfaces, each loaded when it is first needed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/dl.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/base/sysfs.h"
#include "hmem/hmem.h"

/*
 * The numbers of an interface's devices.  A driver may come to know more of them, as Neuron's once it is
 * started: then there is another list, and the one before stays for who reads it just now.
 */
struct ids {
	struct ids *before;
	size_t count;
	int id[];
};

/* An interface and what became of it; ready is written last, status and error before it. */
struct slot {
	struct hmem_ops *ops;
	const char *library; /* what it is without, for who looks before it was tried */
	const char *module;  /* the kernel module that the driver needs; NULL: one of several */
	const char *file;    /* what it opens; NULL: that depends */
	struct hmem_status status;
	int error;
	atomic_bool tried;
	_Atomic(struct ids *) ids; /* NULL: not asked for yet */
};

static struct slot slots[HMEM_IFACES] = {
	[FI_HMEM_SYSTEM] = { .ops = &hmem_system, .library = "" },
	[FI_HMEM_CUDA] = { .ops = &hmem_cuda,
			   .library = "libcuda.so.1",
			   .module = "nvidia",
			   .file = "/dev/nvidiactl" },
	[FI_HMEM_ROCR] = { .ops = &hmem_rocr,
			   .library = "libhsa-runtime64.so.1",
			   .module = "amdgpu",
			   .file = "/dev/kfd" },
	[FI_HMEM_ZE] = { .ops = &hmem_ze, .library = "libze_loader.so.1" },
	[FI_HMEM_NEURON] = { .ops = &hmem_neuron,
			     .library = "libnrt.so.1",
			     .module = "neuron",
			     .file = "/dev/neuron0" },
	[FI_HMEM_SYNAPSEAI] = { .ops = &hmem_synapseai,
				.library = "libSynapse.so",
				.module = "habanalabs" },
};

/* Held while a driver starts, so that it starts once; never while one is used. */
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what optional slots do ---- */

static int claim_nothing(int device, const void *addr, size_t len, struct hmem_facts *facts)
{
	(void)device, (void)addr, (void)len, (void)facts;
	return -FI_ENOENT;
}

static void end_no_reports(void)
{
}

static int prepare_nothing(const struct hmem_memory *memory, const void *addr, size_t len)
{
	(void)memory, (void)addr, (void)len;
	return 0;
}

static int end_nothing(uint64_t event, bool wait)
{
	(void)event, (void)wait;
	return 0;
}

static int no_export(const struct hmem_memory *memory, const void *addr, size_t len, uint32_t flags,
		     struct hmem_export *out)
{
	(void)memory, (void)addr, (void)len, (void)flags, (void)out;
	return -FI_EOPNOTSUPP;
}

static void no_export_end(const struct hmem_export *exported)
{
	(void)exported;
}

static int no_host_register(void *addr, size_t len)
{
	(void)addr, (void)len;
	return -FI_ENOSYS;
}

static int no_host_unregister(void *addr)
{
	(void)addr;
	return -FI_ENOSYS;
}

static int no_alloc(int device, size_t len, enum hmem_alloc how, void **addr)
{
	(void)device, (void)len, (void)how, (void)addr;
	return -FI_ENOSYS;
}

static int no_free(int device, void *addr, enum hmem_alloc how)
{
	(void)device, (void)addr, (void)how;
	return -FI_ENOSYS;
}

static int flush_nothing(int device)
{
	(void)device;
	return 0;
}

static bool needs_no_flush(int device)
{
	(void)device;
	return false;
}

#define FILL(slot, with) ops->slot = ops->slot ? ops->slot : (with)

static void fill_optional(struct hmem_ops *ops)
{
	FILL(claim, claim_nothing);
	FILL(end_reports, end_no_reports);
	FILL(prepare, prepare_nothing);
	FILL(copy_end, end_nothing);
	FILL(export_start, no_export);
	FILL(export_end, no_export_end);
	FILL(host_register, no_host_register);
	FILL(host_unregister, no_host_unregister);
	FILL(alloc, no_alloc);
	FILL(free, no_free);
	FILL(flush, flush_nothing);
	FILL(needs_flush, needs_no_flush);
}

/* ---- loading ---- */

static bool is_name(const char *word, size_t len)
{
	static const char none[] = "none"; /* selects nothing, and is meant to */
	bool known = len == sizeof(none) - 1 && strncasecmp(word, none, len) == 0;

	for (size_t i = 0; i < HMEM_IFACES; i++) {
		const char *name = slots[i].ops->name;

		known |= strlen(name) == len && strncasecmp(word, name, len) == 0;
	}
	return known;
}

/* A name that is mistyped would leave an interface out, or in, without a word. */
static void check_list(const char *list)
{
	const char *word;
	size_t len;

	while (list && (word = hm_list_word(&list, &len)) != NULL)
		if (!is_name(word, len))
			HM_WARN(FI_LOG_CORE,
				"FI_HMEM: \"%.*s\" is none of cuda, rocr, ze, neuron, synapseai",
				(int)len, word);
}

/* Does the driver lack its kernel module, or this user the right to its file?  For one that failed. */
static enum hmreg_cause look_around(const struct slot *slot, enum hmreg_cause otherwise)
{
	if (slot->module && hm_sysfs_exists("module") &&
	    !hm_sysfs_exists("module/%s", slot->module))
		return HMREG_CAUSE_MODULE_ABSENT;
	if (slot->file && access(slot->file, F_OK) == 0 && access(slot->file, R_OK | W_OK) != 0)
		return HMREG_CAUSE_DEVICE_PERMISSION;
	return otherwise;
}

/* Of an interface that has not started and does not say more. */
static enum hmreg_cause find_cause(const struct slot *slot)
{
	switch (slot->status.state) {
	case HMEM_OFF:
		return HMREG_CAUSE_IFACE_OFF;
	case HMEM_ABSENT:
		return hm_dl_cause();
	case HMEM_EMPTY:
		return look_around(slot, HMREG_CAUSE_DEVICE_NONE);
	default:
		return look_around(slot, HMREG_CAUSE_DRIVER_FAILED);
	}
}

/* Under start_lock. */
static void start(struct slot *slot)
{
	const char *list = hm_param_str(HM_PARAM_HMEM);
	struct hmem_status *status = &slot->status;
	static bool checked;

	if (!checked)
		check_list(list);
	checked = true;

	snprintf(status->driver, sizeof(status->driver), "%s", slot->library);
	fill_optional(slot->ops);
	if (slot->ops->iface != FI_HMEM_SYSTEM && !hm_list_selects(list, slot->ops->name)) {
		status->state = HMEM_OFF;
		snprintf(status->reason, sizeof(status->reason), "left out by FI_HMEM=%s", list);
		slot->error = -FI_ENOSYS;
	} else {
		slot->error = slot->ops->start(status);
		if (slot->error == 0)
			status->state = HMEM_READY;
	}
	if (slot->error != 0 && !status->cause)
		status->cause = find_cause(slot);
	if (slot->error == 0)
		HM_INFO(FI_LOG_CORE, "%s: %zu devices, %s %s", slot->ops->name,
			slot->ops->device_count(), status->driver, status->version);
	else
		HM_INFO(FI_LOG_CORE, "%s is not used: %s", slot->ops->name, status->reason);
	atomic_store_explicit(&slot->tried, true, memory_order_release);
}

static struct slot *slot_tried(enum fi_hmem_iface iface)
{
	struct slot *slot;

	if ((unsigned int)iface >= HMEM_IFACES)
		return NULL;
	slot = &slots[iface];
	if (!atomic_load_explicit(&slot->tried, memory_order_acquire)) {
		pthread_mutex_lock(&start_lock);
		if (!atomic_load_explicit(&slot->tried, memory_order_relaxed))
			start(slot);
		pthread_mutex_unlock(&start_lock);
	}
	return slot;
}

const struct hmem_ops *hmem_get(enum fi_hmem_iface iface)
{
	struct slot *slot = slot_tried(iface);

	return slot && slot->error == 0 ? slot->ops : NULL;
}

/* Filled once; what became of an interface does not change. */
static const struct hmem_ops *usable[HMEM_IFACES];
static pthread_once_t usable_once = PTHREAD_ONCE_INIT;

/* No interface is usable, and none will be. */
atomic_bool hmem_host_only;

static void find_usable(void)
{
	size_t n = 0;

	for (int i = FI_HMEM_SYSTEM + 1; i < HMEM_IFACES; i++) {
		usable[n] = hmem_get((enum fi_hmem_iface)i);
		n += usable[n] != NULL;
	}
	atomic_store_explicit(&hmem_host_only, n == 0, memory_order_relaxed);
}

const struct hmem_ops *const *hmem_usable(void)
{
	pthread_once(&usable_once, find_usable);
	return usable;
}

int hmem_error(enum fi_hmem_iface iface)
{
	struct slot *slot = slot_tried(iface);

	return slot ? slot->error : -FI_EINVAL;
}

/*
 * A driver is asked for all that it says of a device once: it may take long (a window's free bytes).  One
 * that does not answer for a device is asked again the next time: *all is false.
 */
static struct ids *ask_ids(const struct hmem_ops *ops, size_t count, bool *all)
{
	struct ids *ids = malloc(sizeof(*ids) + count * sizeof(ids->id[0]));
	struct hmem_device device;

	*all = true;
	if (!ids)
		return NULL;
	ids->count = count;
	for (size_t i = 0; i < count; i++) {
		bool told = ops->device_info(i, &device) == 0;

		ids->id[i] = told ? device.id : HMEM_NO_DEVICE;
		*all &= told;
	}
	return ids;
}

static bool lists(const struct ids *ids, int id)
{
	for (size_t i = 0; i < ids->count; i++)
		if (ids->id[i] == id)
			return true;
	return false;
}

bool hmem_has_device(enum fi_hmem_iface iface, int id)
{
	struct slot *slot = slot_tried(iface);
	struct ids *ids, *fresh;
	size_t count;
	bool all, found;

	if (!slot || slot->error != 0 || id == HMEM_NO_DEVICE)
		return false;
	count = slot->ops->device_count();
	ids = atomic_load_explicit(&slot->ids, memory_order_acquire);
	if (ids && ids->count >= count)
		return lists(ids, id);
	fresh = ask_ids(slot->ops, count, &all);
	if (!fresh)
		return false;
	found = lists(fresh, id);
	fresh->before = ids;
	if (!all || !atomic_compare_exchange_strong(&slot->ids, &ids, fresh))
		free(fresh);
	return found;
}

const struct hmem_status *hmem_tried(enum fi_hmem_iface iface)
{
	return &slot_tried(iface)->status;
}

void hmem_status(enum fi_hmem_iface iface, struct hmem_status *status)
{
	*status = (struct hmem_status){ .state = HMEM_UNTRIED };
	if ((unsigned int)iface >= HMEM_IFACES)
		return;
	if (atomic_load_explicit(&slots[iface].tried, memory_order_acquire))
		*status = slots[iface].status;
	else
		snprintf(status->driver, sizeof(status->driver), "%s", slots[iface].library);
}

const char *hmem_name(enum fi_hmem_iface iface)
{
	return (unsigned int)iface < HMEM_IFACES ? slots[iface].ops->name : "?";
}

char *hmem_owner_text(enum fi_hmem_iface iface, int device, char text[48])
{
	if (iface == FI_HMEM_SYSTEM)
		snprintf(text, 48, "host");
	else if (device == HMEM_NO_DEVICE)
		snprintf(text, 48, "host memory of %s", hmem_name(iface));
	else if (iface == FI_HMEM_ZE)
		snprintf(text, 48, "%s driver %d device %d", hmem_name(iface), device >> 16,
			 device & 0xffff);
	else
		snprintf(text, 48, "%s device %d", hmem_name(iface), device);
	return text;
}
