/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a registration, or another call about a region, failed: one table from call and errno to a cause.
 * The rows of one errno stand in the order in which they are tried; a row with a condition looks for
 * evidence (verbs_evidence.c) and writes what it found.  What is said: the cause, the figures that show
 * it, and what helps.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/range.h"
#include "core/base/refusal.h"
#include "core/nic/verbs.h"
#include "core/nic/verbs_evidence.h"

/* One failure under investigation. */
struct look {
	const struct verbs_attempt *attempt;
	const struct verbs_device *device;
	int err;
	char text[640];
};

static bool __attribute__((format(printf, 2, 3))) say(struct look *look, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(look->text, sizeof(look->text), format, arguments);
	va_end(arguments);
	return true;
}

static uint64_t page_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool writes(const struct verbs_attempt *attempt)
{
	return attempt->access &
	       (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
}

/* ---- the device ---- */

static bool device_gone(struct look *look)
{
	return atomic_load(&look->attempt->domain->gone) &&
	       say(look, "the device was removed or has failed; its regions' keys are dead");
}

static bool no_reason(struct look *look)
{
	return look->err <= 0 && say(look, "the verbs library gives no reason");
}

/* what: the kind of object; whose: the program's objects to close for some, "" for these themselves. */
static bool is_full(struct look *look, uint64_t held, int most, const char *what, const char *whose)
{
	return most > 0 && held >= (uint64_t)most &&
	       say(look,
		   "the device's table of %s is full: this domain holds %" PRIu64
		   " of the %d that %s has for all processes; close some%s",
		   what, held, most, look->device->name, whose);
}

static bool table_full(struct look *look)
{
	return is_full(look, atomic_load(&look->attempt->domain->parts), look->device->attr.max_mr,
		       "regions", "");
}

static bool windows_full(struct look *look)
{
	return is_full(look, atomic_load(&look->attempt->domain->windows.held),
		       look->device->attr.max_mw, "memory windows", " sub-MRs");
}

/* ---- limits of the process ---- */

/* Bytes that are pinned: whole pages. */
static uint64_t pages_of(const struct verbs_attempt *attempt)
{
	uint64_t page = page_size(), first = (uintptr_t)attempt->addr & ~(page - 1);
	uint64_t last = ((uintptr_t)attempt->addr + (attempt->len - 1)) & ~(page - 1);

	return last - first + page;
}

static bool memlock(struct look *look)
{
	struct verbs_pin_evidence pins;
	uint64_t need;

	if ((look->attempt->access & IBV_ACCESS_ON_DEMAND) || look->attempt->len == 0)
		return false; /* nothing is pinned */
	need = pages_of(look->attempt);
	verbs_evidence_pins(&pins);
	if (pins.exempt || pins.limit == UINT64_MAX ||
	    (pins.pinned <= pins.limit && need <= pins.limit - pins.pinned))
		return false;
	return say(look,
		   "the limit of locked memory (RLIMIT_MEMLOCK, %" PRIu64
		   " bytes) is reached: limit %" PRIu64 " KiB, pinned %" PRIu64
		   " KiB, this region needs %" PRIu64
		   " KiB: raise it by ulimit -l, LimitMEMLOCK= of the service, or "
		   "/etc/security/limits.conf; CAP_IPC_LOCK lifts it",
		   pins.limit, pins.limit / 1024, pins.pinned / 1024, need / 1024);
}

static bool may_not_pin(struct look *look)
{
	struct verbs_pin_evidence pins;

	verbs_evidence_pins(&pins);
	return pins.limit == 0 && !pins.exempt &&
	       say(look,
		   "RLIMIT_MEMLOCK is 0, so this process may pin nothing: raise it by ulimit -l "
		   "or LimitMEMLOCK= of the service");
}

static bool out_of_memory(struct look *look)
{
	struct verbs_pin_evidence pins;
	char limit[64] = "none";

	verbs_evidence_pins(&pins);
	if (pins.limit != UINT64_MAX)
		snprintf(limit, sizeof(limit), "%" PRIu64 " KiB%s", pins.limit / 1024,
			 pins.exempt ? ", which CAP_IPC_LOCK lifts" : "");
	return say(
		look,
		"out of memory: the kernel has none for this region's pages and their list, or the "
		"device has no translation entries left (RLIMIT_MEMLOCK is not the cause: %s; "
		"regions of this domain: %" PRIu64 ")",
		limit, atomic_load(&look->attempt->domain->parts));
}

static bool too_many_files(struct look *look)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	return say(look, "too many open files: RLIMIT_NOFILE is %" PRIu64 ", raise it by ulimit -n",
		   (uint64_t)limit.rlim_cur);
}

/* ---- memory of the host ---- */

static bool memory_is(struct look *look, enum verbs_memory kind,
		      struct verbs_memory_evidence *memory)
{
	const struct verbs_attempt *attempt = look->attempt;

	if (attempt->len == 0)
		return false;
	verbs_evidence_memory((uintptr_t)attempt->addr, attempt->len, writes(attempt), memory);
	return memory->kind == kind;
}

static bool not_mapped(struct look *look)
{
	struct verbs_memory_evidence memory;

	return memory_is(look, VERBS_MEMORY_UNMAPPED, &memory) &&
	       say(look, "nothing is mapped at 0x%" PRIx64 ", %" PRIu64 " bytes into the range",
		   memory.address, memory.address - (uintptr_t)look->attempt->addr);
}

static bool no_access(struct look *look)
{
	struct verbs_memory_evidence memory;

	return memory_is(look, VERBS_MEMORY_NO_ACCESS, &memory) &&
	       say(look, "the mapping at 0x%" PRIx64 " (%s) may not be read (PROT_NONE?)",
		   memory.address, memory.name[0] ? memory.name : "anonymous");
}

static bool read_only(struct look *look)
{
	struct verbs_memory_evidence memory;

	return memory_is(look, VERBS_MEMORY_READ_ONLY, &memory) &&
	       say(look,
		   "the mapping at 0x%" PRIx64
		   " (%s) is read only, and FI_RECV, FI_READ and FI_REMOTE_WRITE write",
		   memory.address, memory.name[0] ? memory.name : "anonymous");
}

static bool of_device(struct look *look)
{
	struct verbs_memory_evidence memory;
	const char *module;

	if (!memory_is(look, VERBS_MEMORY_DEVICE, &memory))
		return false;
	module = verbs_evidence_peer_module();
	return say(look,
		   "0x%" PRIx64
		   " is in a mapping of a device (%s), which has no pages to pin: register its "
		   "dma-buf (FI_MR_DMABUF); the other way is a peer-memory module, and %s%s%s",
		   memory.address, memory.name[0] ? memory.name : "no name",
		   module ? "" : "none is loaded of ", module ? module : verbs_peer_modules,
		   module ? " is loaded, but does not know this memory" : "");
}

static bool cannot_be_pinned(struct look *look)
{
	struct verbs_memory_evidence memory;

	memory_is(look, VERBS_MEMORY_FINE, &memory);
	if (memory.name[0] == '/')
		return say(
			look,
			"the range is mapped from %s, but pages of it cannot be had: the file ends "
			"before the mapping does, or its file system lets no device keep its pages",
			memory.name);
	return say(look, "the range is mapped, but the kernel cannot pin it%s",
		   memory.kind == VERBS_MEMORY_UNKNOWN ? " (/proc/self/maps cannot be read)" : "");
}

/* ---- attributes ---- */

static bool no_length(struct look *look)
{
	return look->attempt->len == 0 && say(look, "the length is 0");
}

static bool too_long(struct look *look)
{
	uint64_t most = look->device->attr.max_mr_size;

	return most > 0 && look->attempt->len > most &&
	       say(look, "%" PRIu64 " bytes are more than the %" PRIu64 " of one region of %s",
		   look->attempt->len, most, look->device->name);
}

static bool bad_access(struct look *look)
{
	uint64_t access = look->attempt->access, can = look->device->can;

	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return say(look,
			   "remote rights that write need IBV_ACCESS_LOCAL_WRITE beside them");
	if ((access & IBV_ACCESS_ON_DEMAND) && !(can & HMREG_CAN_ON_DEMAND))
		return say(look, "%s has no on-demand paging", look->device->name);
	if ((access & IBV_ACCESS_REMOTE_ATOMIC) && !(can & HMREG_CAN_ATOMICS))
		return say(look, "%s has no atomics", look->device->name);
	if ((access & IBV_ACCESS_RELAXED_ORDERING) && !(can & HMREG_CAN_RELAXED_ORDERING))
		return say(look, "%s has no relaxed ordering", look->device->name);
	return false;
}

static bool not_congruent(struct look *look)
{
	const struct verbs_attempt *attempt = look->attempt;
	uint64_t at = attempt->fd >= 0 ? attempt->offset : (uintptr_t)attempt->addr;

	return ((at ^ attempt->iova) & (page_size() - 1)) &&
	       say(look,
		   "the device address 0x%" PRIx64 " and %s 0x%" PRIx64 " differ within the page",
		   attempt->iova, attempt->fd >= 0 ? "the offset" : "the address", at);
}

static bool no_such_access(struct look *look)
{
	return bad_access(look) ||
	       say(look, "%s or its driver lacks what the rights 0x%" PRIx64 " need",
		   look->device->name, look->attempt->access);
}

/* ---- dma-bufs ---- */

static bool no_file(struct look *look)
{
	return say(look, "%d is no open file descriptor", look->attempt->fd);
}

static bool no_dmabuf(struct look *look)
{
	struct verbs_dmabuf_evidence dmabuf;

	verbs_evidence_dmabuf(look->attempt->fd, &dmabuf);
	return dmabuf.open && !dmabuf.is_dmabuf &&
	       say(look, "fd %d is no dma-buf, but %s", look->attempt->fd,
		   dmabuf.target[0] ? dmabuf.target : "something else");
}

static bool outside_dmabuf(struct look *look)
{
	const struct verbs_attempt *attempt = look->attempt;
	struct verbs_dmabuf_evidence dmabuf;

	verbs_evidence_dmabuf(attempt->fd, &dmabuf);
	return dmabuf.size > 0 && !hm_range_ok(dmabuf.size, attempt->offset, attempt->len) &&
	       say(look, "%" PRIu64 " bytes at offset %" PRIu64 " are not inside its %" PRIu64,
		   attempt->len, attempt->offset, dmabuf.size);
}

/* Who made the dma-buf, and where the device is: what decides whether the two reach each other. */
static bool import_refused(struct look *look)
{
	struct verbs_dmabuf_evidence dmabuf;
	const char *path = look->device->path;

	verbs_evidence_dmabuf(look->attempt->fd, &dmabuf);
	return say(look,
		   "exporter %s and %s did not agree on this dma-buf: peer-to-peer may be blocked "
		   "(IOMMU, "
		   "ACS), or the exporter takes no such importer; path of %s: %s",
		   dmabuf.exporter[0] ? dmabuf.exporter : "(unknown)", look->device->name,
		   look->device->name, path[0] ? path : "not known");
}

static bool no_room_for_dmabuf(struct look *look)
{
	struct verbs_dmabuf_evidence dmabuf;

	verbs_evidence_dmabuf(look->attempt->fd, &dmabuf);
	return say(
		look,
		"exporter %s or %s has no room for it: device memory beyond its PCI window (BAR), "
		"IOMMU "
		"space or translation entries used up, or out of memory; regions of this domain: "
		"%" PRIu64 " (no memory is locked for dma-bufs, so RLIMIT_MEMLOCK does not matter)",
		dmabuf.exporter[0] ? dmabuf.exporter : "(unknown)", look->device->name,
		atomic_load(&look->attempt->domain->parts));
}

static bool no_dmabuf_support(struct look *look)
{
	const char *reason = look->device->dmabuf_reason;
	const char *module = verbs_evidence_peer_module();

	return say(look,
		   "the driver of %s registers no dma-bufs%s%s; kernel driver and rdma-core's "
		   "provider both "
		   "need it; peer-memory module: %s%s",
		   look->device->name, reason && reason[0] ? ": " : "", reason ? reason : "",
		   module ? module : "none loaded of ", module ? "" : verbs_peer_modules);
}

/* ---- the end ---- */

#define REFUSES "the driver refuses to end it"
#define STAYS	"; the region stays as it is, close it again"

/* Only who has had verbs objects of the domain can have bound some. */
static bool has_windows(struct look *look)
{
	return atomic_load(&look->attempt->domain->shown) &&
	       say(look, REFUSES
		   ", as it does while memory windows of the program are bound to it" STAYS);
}

/* ---- the table ---- */

#define HOST   (1u << VERBS_CALL_REG_MR)
#define DMABUF (1u << VERBS_CALL_REG_DMABUF)
#define DEREG  (1u << VERBS_CALL_DEREG)
#define ADVISE (1u << VERBS_CALL_ADVISE)
#define REREG  (1u << VERBS_CALL_REREG)
#define WINDOW (1u << VERBS_CALL_ALLOC_MW)
#define UNBIND (1u << VERBS_CALL_DEALLOC_MW)
#define REG    (HOST | DMABUF)
#define PIN    (HOST | REREG)
#define END    (DEREG | UNBIND)
#define ANY    (REG | END | ADVISE | REREG | WINDOW)

static const struct row {
	unsigned int calls;
	int err;  /* 0: any */
	int code; /* FI_E, positive; 0: the errno */
	enum hmreg_cause cause;
	bool (*finds)(struct look *look); /* is it this?  then writes text; NULL: it is */
	const char *text;
} rows[] = {
	{ ANY, 0, FI_ENODEV, HMREG_CAUSE_NIC_GONE, device_gone, NULL },
	{ ANY, 0, FI_EIO, HMREG_CAUSE_NO_REASON, no_reason, NULL },
	{ DEREG, EBUSY, FI_EBUSY, HMREG_CAUSE_NIC_BUSY, has_windows, NULL },
	{ DEREG, EINVAL, FI_EBUSY, HMREG_CAUSE_NIC_BUSY, has_windows, NULL },
	{ END, 0, 0, HMREG_CAUSE_NIC_BUSY, NULL, REFUSES STAYS },

	{ ANY, EIO, FI_EIO, HMREG_CAUSE_NIC_GONE, NULL,
	  "the device does not answer: removed, reset, or failed" },
	{ ANY, ENODEV, FI_ENODEV, HMREG_CAUSE_NIC_GONE, NULL, "the device is not there any more" },

	{ PIN, ENOMEM, FI_ENOMEM, HMREG_CAUSE_MEMLOCK, memlock, NULL },
	{ REG, ENOMEM, FI_ENOSPC, HMREG_CAUSE_REGIONS_FULL, table_full, NULL },
	{ DMABUF, ENOMEM, FI_ENOMEM, HMREG_CAUSE_DMABUF_NO_ROOM, no_room_for_dmabuf, NULL },
	{ WINDOW, ENOMEM, FI_ENOSPC, HMREG_CAUSE_REGIONS_FULL, windows_full, NULL },
	{ WINDOW, ENOMEM, FI_ENOMEM, HMREG_CAUSE_NIC_KEYS, NULL,
	  "out of memory, or the device has no memory windows left" },
	{ ANY, ENOMEM, FI_ENOMEM, HMREG_CAUSE_NIC_MEMORY, out_of_memory, NULL },
	{ REG, ENOSPC, FI_ENOSPC, HMREG_CAUSE_REGIONS_FULL, table_full, NULL },
	{ DMABUF, ENOSPC, FI_ENOSPC, HMREG_CAUSE_DMABUF_NO_ROOM, no_room_for_dmabuf, NULL },
	{ HOST, ENOSPC, FI_ENOSPC, HMREG_CAUSE_NIC_KEYS, NULL,
	  "the device has no keys or translation entries left" },
	{ WINDOW, ENOSPC, FI_ENOSPC, HMREG_CAUSE_REGIONS_FULL, windows_full, NULL },
	{ WINDOW, ENOSPC, FI_ENOSPC, HMREG_CAUSE_NIC_KEYS, NULL,
	  "the device has no memory windows left" },
	{ REG | WINDOW, EAGAIN, FI_ENOSPC, HMREG_CAUSE_CGROUP, NULL,
	  "the control group's limit of RDMA objects (rdma.max) is reached" },
	{ ANY, EMFILE, FI_EMFILE, HMREG_CAUSE_OPEN_FILES, too_many_files, NULL },

	{ PIN, EPERM, FI_ENOMEM, HMREG_CAUSE_MEMLOCK_ZERO, may_not_pin, NULL },
	{ REG, EPERM, FI_EPERM, HMREG_CAUSE_FORBIDDEN, NULL,
	  "the kernel forbids it to this process" },
	{ PIN | ADVISE, EFAULT, FI_EFAULT, HMREG_CAUSE_MEMORY_UNMAPPED, not_mapped, NULL },
	{ PIN | ADVISE, EFAULT, FI_EFAULT, HMREG_CAUSE_MEMORY_OF_DEVICE, of_device, NULL },
	{ PIN | ADVISE, EFAULT, FI_EACCES, HMREG_CAUSE_MEMORY_READ_ONLY, read_only, NULL },
	{ PIN | ADVISE, EFAULT, FI_EFAULT, HMREG_CAUSE_MEMORY_NO_ACCESS, no_access, NULL },
	{ PIN | ADVISE, EFAULT, FI_EFAULT, HMREG_CAUSE_MEMORY_UNPINNABLE, cannot_be_pinned, NULL },
	{ HOST, EACCES, FI_EACCES, HMREG_CAUSE_MEMORY_READ_ONLY, read_only, NULL },
	{ DMABUF, EACCES, FI_EACCES, HMREG_CAUSE_DMABUF_RIGHTS, NULL,
	  "the dma-buf does not grant these rights: its descriptor may be open for reading only" },

	{ DMABUF, EBADF, FI_EBADF, HMREG_CAUSE_DMABUF_NO_FILE, no_file, NULL },
	{ REG, EINVAL, FI_EINVAL, HMREG_CAUSE_RANGE_NONE, no_length, NULL },
	{ REG, EINVAL, FI_EINVAL, HMREG_CAUSE_TOO_LONG, too_long, NULL },
	{ REG, EINVAL, FI_EINVAL, HMREG_CAUSE_RIGHTS, bad_access, NULL },
	{ REG, EINVAL, FI_EINVAL, HMREG_CAUSE_ALIGNMENT, not_congruent, NULL },
	{ DMABUF, EINVAL, FI_EINVAL, HMREG_CAUSE_DMABUF_OTHER_FILE, no_dmabuf, NULL },
	{ DMABUF, EINVAL, FI_EINVAL, HMREG_CAUSE_DMABUF_RANGE, outside_dmabuf, NULL },
	{ HOST, EINVAL, FI_EINVAL, HMREG_CAUSE_RANGE_REFUSED, NULL,
	  "the device refuses this range or these rights" },
	{ DMABUF, EOPNOTSUPP, FI_EOPNOTSUPP, HMREG_CAUSE_DMABUF_UNSUPPORTED, no_dmabuf_support,
	  NULL },
	{ DMABUF, ENOSYS, FI_EOPNOTSUPP, HMREG_CAUSE_DMABUF_UNSUPPORTED, no_dmabuf_support, NULL },
	{ HOST, EOPNOTSUPP, FI_EOPNOTSUPP, HMREG_CAUSE_RIGHTS, no_such_access, NULL },
	{ DMABUF, 0, 0, HMREG_CAUSE_DMABUF_REFUSED, import_refused, NULL },

	{ ADVISE, EOPNOTSUPP, FI_EOPNOTSUPP, HMREG_CAUSE_RIGHTS, NULL,
	  "the device takes no advice about pages" },
	{ REREG, EOPNOTSUPP, FI_ENOSYS, HMREG_CAUSE_UNEXPLAINED, NULL,
	  "the driver cannot give a region other pages: close it and register it anew" },
	{ REREG, EBUSY, FI_EBUSY, HMREG_CAUSE_NIC_BUSY, NULL,
	  "the driver does not while memory windows are bound to it: close its sub-MRs first" },
	{ REREG, 0, 0, HMREG_CAUSE_UNEXPLAINED, NULL,
	  "the region may be unusable now: close it and register it anew" },
	{ ANY, 0, 0, HMREG_CAUSE_UNEXPLAINED, NULL, "no cause is known for this" },
};

static const char *const call_names[] = {
	[VERBS_CALL_REG_MR] = "ibv_reg_mr_iova2",   [VERBS_CALL_REG_DMABUF] = "ibv_reg_dmabuf_mr",
	[VERBS_CALL_DEREG] = "ibv_dereg_mr",	    [VERBS_CALL_ADVISE] = "ibv_advise_mr",
	[VERBS_CALL_REREG] = "ibv_rereg_mr",	    [VERBS_CALL_ALLOC_MW] = "ibv_alloc_mw",
	[VERBS_CALL_DEALLOC_MW] = "ibv_dealloc_mw",
};

static void log_cause(const struct look *look, enum hmreg_cause cause)
{
	const struct verbs_attempt *attempt = look->attempt;
	char where[80] = "";

	if (attempt->fd >= 0)
		snprintf(where, sizeof(where), ", dma-buf fd %d offset %" PRIu64, attempt->fd,
			 attempt->offset);
	HM_REFUSE(FI_LOG_MR, cause,
		  "%s on %s, [%p, +%" PRIu64 ")%s, access 0x%" PRIx64 ": errno %d (%s): %s",
		  call_names[attempt->call], look->device->name, attempt->addr, attempt->len, where,
		  attempt->access, look->err, look->err > 0 ? fi_strerror(look->err) : "none",
		  look->text);
}

int verbs_cause(const struct verbs_attempt *attempt, int err)
{
	struct look look = { .attempt = attempt, .device = attempt->domain->device, .err = err };
	const struct row *row = rows;

	for (;; row++) {
		if (!(row->calls & 1u << attempt->call) || (row->err != 0 && row->err != err))
			continue;
		if (!row->finds)
			say(&look, "%s", row->text);
		else if (!row->finds(&look))
			continue;
		break;
	}
	log_cause(&look, row->cause);
	return row->code ? -row->code : -err;
}
