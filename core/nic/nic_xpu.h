/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a device posts to a NIC and sees its completions: the contract between xpu/ and a NIC whose queues and
 * doorbells a device reaches.  NICs without (nic_ops.xpu NULL), and devices that do not reach theirs, are served
 * by xpu/'s ring, which is behind the same functions.
 *
 * owner is the endpoint, queue or counter of core, which only the ring looks into.  A part is what the
 * transport keeps for one exported object, and nobody else looks into; it is ended before the object closes.
 */
#ifndef HM_NIC_XPU_H
#define HM_NIC_XPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fid_xpu;
struct hm_xpu_own;
struct hm_xpu_part;
struct nic_cntr;
struct nic_cq;
struct nic_domain;
struct nic_ep;
struct nic_region;

struct nic_xpu_ops {
	uint32_t prov_id; /* of fi_xpu_device.h: whose functions the device calls */
	uint64_t caps;	  /* FI_XPU_CAP_*: what can be exported */
	size_t desc_size, addr_size;
	/*
	 * Does the context's device reach this NIC?  Asked once, when the context is opened: where not, the ring
	 * serves the context.  Most try to import the doorbell.  NULL: every device does.
	 */
	bool (*reaches)(const struct hm_xpu_own *ctx, const struct nic_domain *domain);
	/* No lock, no allocation.  desc_size bytes; addr_size bytes for the peer's handle and its fi_addr_t. */
	int (*desc)(const struct nic_region *region, void *desc);
	int (*addr)(const struct nic_domain *domain, uint64_t peer, uint64_t fi_addr, void *addr);
	/* Fill out's prov_id and prov_ctx, and *part.  -FI_ENOMEM; nothing is changed then. */
	int (*ep_export)(struct hm_xpu_own *ctx, struct nic_ep *ep, void *owner,
			 struct fid_xpu *out, struct hm_xpu_part **part);
	int (*cq_export)(struct hm_xpu_own *ctx, struct nic_cq *cq, void *owner,
			 struct fid_xpu *out, struct hm_xpu_part **part);
	int (*cntr_export)(struct hm_xpu_own *ctx, struct nic_cntr *cntr, void *owner,
			   struct fid_xpu *out, struct hm_xpu_part **part);
	void (*end)(struct hm_xpu_part *part);
};

/*
 * What a transport asks of xpu/, in memory.c: len bytes of this process, a NIC's registers or its queue, in the address
 * space of the context's device.  flags are FI_XPU_IMPORT_*.  By import of the program's operations; a device that is
 * the processor reaches everything.  -FI_ENOSYS, which is no mistake: nothing here maps it.  What import answers,
 * or -FI_EIO for an answer that makes no sense, with one log line.
 */
int nic_xpu_import(const struct hm_xpu_own *ctx, void *host, size_t len, uint64_t flags,
		   uint64_t *device);
/* Once for each import that succeeded, before the memory goes. */
void nic_xpu_release(const struct hm_xpu_own *ctx, uint64_t device);

#endif
