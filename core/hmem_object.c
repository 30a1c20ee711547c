/* SPDX-License-Identifier: BSD-2-Clause */
/* What a program can ask about accelerator memory: HMREG_HMEM_OPS of a fabric. */
#include <stdio.h>
#include <string.h>

#include "core/base/params.h"
#include "core/base/refusal.h"
#include "core/core.h"
#include "dmabuf/dmabuf.h"
#include "hmem/hmem.h"

static bool is_iface(enum fi_hmem_iface iface)
{
	if ((unsigned int)iface < HMEM_IFACES)
		return true;
	HM_WARN(FI_LOG_CORE, "memory interface %d is not one of %d to %d", (int)iface,
		FI_HMEM_SYSTEM, FI_HMEM_SYNAPSEAI);
	return false;
}

static int describe_iface(struct fid *fabric, enum fi_hmem_iface iface,
			  struct hmreg_hmem_iface *out)
{
	int ret = hm_ext_check(fabric, FI_CLASS_FABRIC, out ? &out->size : NULL, FI_LOG_FABRIC,
			       "not a fabric, or no room for what an interface is");
	const struct hmem_status *status;
	struct hmreg_hmem_iface filled;
	const struct hmem_ops *ops;

	if (ret != 0)
		return ret;
	if (!is_iface(iface))
		return -FI_EINVAL;
	status = hmem_tried(iface);
	ops = hmem_get(iface);
	filled = (struct hmreg_hmem_iface){ .name = hmem_name(iface),
					    .driver = status->driver,
					    .version = status->version,
					    .reason = status->reason,
					    .devices = ops ? ops->device_count() : 0,
					    .cause = status->cause };
	hm_ext_give(out, &filled, sizeof(filled));
	return 0;
}

/* Why the device's memory cannot be exported. */
static enum hmreg_cause dmabuf_cause(const struct hmem_device *device)
{
	if (device->dmabuf)
		return HMREG_CAUSE_NONE;
	return device->dmabuf_cause ? device->dmabuf_cause : HMREG_CAUSE_EXPORT_UNSUPPORTED;
}

static int describe_device(struct fid *fabric, enum fi_hmem_iface iface, size_t index,
			   struct hmreg_hmem_device *out)
{
	int ret = hm_ext_check(fabric, FI_CLASS_FABRIC, out ? &out->size : NULL, FI_LOG_FABRIC,
			       "not a fabric, or no room for what a device is");
	struct hmreg_hmem_device filled;
	struct hmem_device device;
	const struct hmem_ops *ops;

	if (ret != 0)
		return ret;
	if (!is_iface(iface))
		return -FI_EINVAL;
	ops = hmem_get(iface);
	if (!ops)
		return hmem_error(iface);
	ret = ops->device_info(index, &device);
	if (ret != 0)
		return ret;
	filled = (struct hmreg_hmem_device){ .id = device.id,
					     .memory = device.memory,
					     .window = device.window,
					     .window_free = device.window_known ? device.window_free
										: UINT64_MAX,
					     .dmabuf = device.dmabuf,
					     .dmabuf_cause = dmabuf_cause(&device) };
	memcpy(filled.name, device.name, sizeof(filled.name));
	memcpy(filled.pci, device.pci, sizeof(filled.pci));
	memcpy(filled.dmabuf_reason, device.dmabuf_reason, sizeof(filled.dmabuf_reason));
	hm_ext_give(out, &filled, sizeof(filled));
	return 0;
}

static int query(struct fid *fabric, const void *addr, size_t len, struct hmreg_hmem_memory *out)
{
	static const char *const kinds[HMEM_KINDS] = {
		[HMEM_HOST] = "host",	    [HMEM_HOST_ALLOC] = "host memory of the driver",
		[HMEM_DEVICE] = "device",   [HMEM_MANAGED] = "managed",
		[HMEM_VMM] = "mapped",	    [HMEM_VMM_HOST] = "mapped host memory",
		[HMEM_POOL] = "pool",	    [HMEM_IMPORTED] = "imported",
		[HMEM_UNKNOWN] = "unknown",
	};
	int ret = hm_ext_check(fabric, FI_CLASS_FABRIC, out ? &out->size : NULL, FI_LOG_FABRIC,
			       "not a fabric, or no room for what an address is");
	struct hmreg_hmem_memory filled;
	struct hmem_memory memory;

	if (ret == 0)
		ret = hmem_classify(addr, len, &memory);
	if (ret != 0)
		return ret;
	filled = (struct hmreg_hmem_memory){ .iface = memory.iface,
					     .device = memory.device,
					     .kind = kinds[memory.kind],
					     .host_access = memory.host_access,
					     .base = memory.base,
					     .len = memory.len,
					     .segments = memory.segments,
					     .id = memory.id,
					     .reason = memory.reason,
					     .cause = memory.cause };
	hm_ext_give(out, &filled, sizeof(filled));
	return 0;
}

/* ---- device and NIC ---- */

static int find_device(enum fi_hmem_iface iface, int id, struct hmem_device *device)
{
	const struct hmem_ops *ops = hmem_get(iface);

	for (size_t i = 0; ops && i < ops->device_count(); i++)
		if (ops->device_info(i, device) == 0 && device->id == id)
			return 0;
	HM_REFUSE(FI_LOG_FABRIC, HMREG_CAUSE_DEVICE_UNKNOWN, "%s has no device %d",
		  hmem_name(iface), id);
	return ops ? -FI_ENODEV : hmem_error(iface);
}

#define REASON(field, text) snprintf(path->field, sizeof(path->field), "%s", text)

/* Why the NIC takes no dma-bufs of the device; never "". */
static const char *no_dmabuf(const struct nic_port *port, const struct hmem_device *device)
{
	struct hmreg_device nic = { .size = sizeof(nic) };

	if (!device->dmabuf)
		return device->dmabuf_reason[0] ? device->dmabuf_reason
						: "the device's driver does not export its memory";
	if (port->ops->port_describe(port, &nic) == 0 && nic.dmabuf_reason && *nic.dmabuf_reason)
		return nic.dmabuf_reason;
	return "the NIC registers no dma-bufs, and its driver does not tell why";
}

static void judge_path(const struct nic_port *port, const struct hmem_device *device,
		       struct hmreg_hmem_path *path)
{
	static const char disabled[] = "FI_HMEM_DISABLE_P2P is set";
	bool off = hm_param_bool(HM_PARAM_HMEM_DISABLE_P2P);
	bool copies = port->ways & NIC_WAY_COPY;

	path->copy = copies;
	path->dmabuf = !off && (port->ways & NIC_WAY_DMABUF) && device->dmabuf;
	path->peer = !off && (port->ways & NIC_WAY_PEER);
	path->path = path->copy	    ? HMREG_PATH_COPY
		     : path->dmabuf ? HMREG_PATH_DMABUF
		     : path->peer   ? HMREG_PATH_PEER_MEMORY
				    : 0;
	if (!copies)
		REASON(copy_reason, "peers reach a NIC's regions without the host");
	if (off || !(port->ways & NIC_WAY_PEER))
		REASON(peer_reason, copies ? "the software NIC copies"
				    : off  ? disabled
					   : "no kernel module for peer memory is loaded");
	if (!path->path)
		path->cause = off			      ? HMREG_CAUSE_P2P_OFF
			      : (port->ways & NIC_WAY_DMABUF) ? dmabuf_cause(device)
							      : HMREG_CAUSE_NO_WAY;
	if (path->dmabuf)
		return;
	if (copies)
		REASON(dmabuf_reason, "the software NIC copies");
	else
		REASON(dmabuf_reason, off ? disabled : no_dmabuf(port, device));
}

static int find_path(struct fid *fabric, const struct fi_info *info, enum fi_hmem_iface iface,
		     int device_id, struct hmreg_hmem_path *out)
{
	int ret = hm_ext_check(fabric, FI_CLASS_FABRIC, out ? &out->size : NULL, FI_LOG_FABRIC,
			       "not a fabric, or no room for how a NIC reaches a device");
	struct hmreg_hmem_path filled = { .path = 0 };
	const struct nic_port *port;
	struct hmem_device device;

	if (ret != 0)
		return ret;
	port = info ? hm_info_port(info) : NULL;
	if (!port || !is_iface(iface)) {
		if (!port)
			HM_WARN(FI_LOG_FABRIC, "the info names no NIC");
		return -FI_EINVAL;
	}
	ret = find_device(iface, device_id, &device);
	if (ret != 0)
		return ret;
	judge_path(port, &device, &filled);
	hm_ext_give(out, &filled, sizeof(filled));
	return 0;
}

/* ---- memory ---- */

static int check_memory(struct fid *fabric, enum fi_hmem_iface iface, enum hmreg_hmem_kind kind)
{
	int ret;

	if (!fabric || fabric->fclass != FI_CLASS_FABRIC || !is_iface(iface) ||
	    (unsigned int)kind > HMREG_HMEM_PRIVATE) {
		HM_WARN(FI_LOG_FABRIC, "memory is of a fabric, an interface and a kind");
		return -FI_EINVAL;
	}
	ret = hmem_error(iface);
	if (ret != 0)
		HM_REFUSE(FI_LOG_FABRIC, hmem_tried(iface)->cause, "no memory of %s: %s",
			  hmem_name(iface), hmem_tried(iface)->reason);
	return ret;
}

/* An interface that has no such call, or does not make this kind, says nothing itself. */
static int told(int ret, enum fi_hmem_iface iface, enum hmreg_hmem_kind kind, const char *does)
{
	static const char *const kinds[] = { [HMREG_HMEM_DEVICE] = "device memory",
					     [HMREG_HMEM_HOST] = "host memory",
					     [HMREG_HMEM_MANAGED] = "managed memory",
					     [HMREG_HMEM_PRIVATE] =
						     "memory apart that is not made for export" };

	if (ret == -FI_ENOSYS)
		HM_REFUSE(FI_LOG_FABRIC, HMREG_CAUSE_NO_SUCH_MEMORY, "%s %s no %s",
			  hmem_name(iface), does, kinds[kind]);
	return ret;
}

static enum hmem_alloc how_of(enum hmreg_hmem_kind kind)
{
	return kind == HMREG_HMEM_DEVICE    ? HMEM_ALLOC_DEVICE
	       : kind == HMREG_HMEM_HOST    ? HMEM_ALLOC_HOST
	       : kind == HMREG_HMEM_MANAGED ? HMEM_ALLOC_MANAGED
					    : HMEM_ALLOC_PRIVATE;
}

static int allocate(struct fid *fabric, enum fi_hmem_iface iface, int device,
		    enum hmreg_hmem_kind kind, size_t len, void **addr)
{
	int ret = check_memory(fabric, iface, kind);

	if (ret == 0 && (!addr || len == 0)) {
		HM_WARN(FI_LOG_FABRIC, "no length, or nowhere to put the address");
		ret = -FI_EINVAL;
	}
	if (ret == 0 && kind == HMREG_HMEM_PRIVATE && !hmem_get(iface)->allocates_private)
		return told(-FI_ENOSYS, iface, kind, "allocates");
	return ret ? ret
		   : told(hmem_get(iface)->alloc(device, len, how_of(kind), addr), iface, kind,
			  "allocates");
}

static int release(struct fid *fabric, enum fi_hmem_iface iface, int device,
		   enum hmreg_hmem_kind kind, void *addr)
{
	int ret = check_memory(fabric, iface, kind);

	return ret ? ret
		   : told(hmem_get(iface)->free(device, addr, how_of(kind)), iface, kind, "frees");
}

static int find_place(const void *addr, size_t len, struct hmem_place *place)
{
	struct hmem_memory memory;
	int ret = hmem_classify(addr, len, &memory);

	if (ret == 0)
		*place = (struct hmem_place){ (void *)(uintptr_t)addr, memory.iface,
					      memory.ways & HMEM_WAY_HOST ? HMEM_NO_DEVICE
									  : memory.device };
	return ret;
}

static int check_fabric(struct fid *fabric)
{
	if (fabric && fabric->fclass == FI_CLASS_FABRIC)
		return 0;
	HM_WARN(FI_LOG_FABRIC, "not a fabric");
	return -FI_EINVAL;
}

static int copy(struct fid *fabric, void *dst, const void *src, size_t len)
{
	struct hmem_place to, from;
	int ret = check_fabric(fabric);

	if (ret != 0 || len == 0)
		return ret;
	ret = find_place(dst, len, &to);
	if (ret == 0)
		ret = find_place(src, len, &from);
	return ret ? ret : hmem_copy(&to, &from, len);
}

static int count_exports(struct fid *fabric, uint64_t *made, uint64_t *shared, uint64_t *open)
{
	struct dmabuf_figures figures;
	int ret = check_fabric(fabric);

	if (ret != 0)
		return ret;
	dmabuf_figures(&figures);
	if (made)
		*made = figures.exports;
	if (shared)
		*shared = figures.shared;
	if (open)
		*open = figures.open;
	return 0;
}

struct hmreg_hmem_ops hm_hmem_ext_ops = {
	.size = sizeof(struct hmreg_hmem_ops),
	.iface = describe_iface,
	.device = describe_device,
	.query = query,
	.path = find_path,
	.alloc = allocate,
	.free = release,
	.copy = copy,
	.exports = count_exports,
};
