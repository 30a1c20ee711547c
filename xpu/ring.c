/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring: requests of a device, taken by the context's engine.  xpu.h and fi_xpu_device_hmreg.h explain it.
 *
 * Each request becomes the call that a program would make, with flags of its own.  What that answers is all the
 * engine knows: taken; not now (-FI_EAGAIN), so that it stays where it is; or refused, which becomes a completion
 * in error once there is room for one.
 *
 * Receives and transmits are two queues of an endpoint, neither of which waits for the other: a transmit that the
 * peer has no room for must not keep back the receive that would make room for the peer's own.  So the ring is
 * walked by two lanes, one for each.  A lane takes what is its own, in order, and passes by the rest.  As a slot is
 * free for the device only when everything before it has been taken by the device's own numbering, a lane that is
 * behind finds at number n either n's request or what the other lane has made of the slot.
 */
#include <stdlib.h>
#include <string.h>

#include "core/ep.h"
#include "xpu/xpu.h"

#define RING_LEAST 64u
#define RING_MOST  512u
#define BATCH	   32u /* slots that a lane walks in one poll */
#define TOLD	   8u /* requests refused in a row that are warned of; more are told as information */

struct lane {
	uint64_t next; /* number of the slot to look at */
	int refused;   /* positive: the request there has failed so, which nobody knows yet */
};

enum {
	RECEIVES,
	TRANSMITS,
	LANES
};

struct ring {
	struct hm_xpu_part part;
	struct hm_ep *ep;
	char *slots;
	uint32_t mask;
	struct lane lane[LANES];
	unsigned refused; /* in a row, up to TOLD */
};

/* ---- memory that all parts have ---- */

static_assert(sizeof(struct hmreg_xpu_ep) <= XPU_CONTROL_SIZE &&
		      sizeof(struct hmreg_xpu_cq) <= XPU_CONTROL_SIZE &&
		      sizeof(struct hmreg_xpu_cntr) <= XPU_CONTROL_SIZE &&
		      sizeof(struct hmreg_xpu_own) <= XPU_RING_OFFSET - XPU_CONTROL_SIZE,
	      "control block and the device's words come before the ring");

int xpu_part_make(struct hm_xpu_own *ctx, size_t size, size_t ring_len, struct hm_xpu_part **out,
		  uint64_t *own)
{
	struct hm_xpu_part *part;
	int ret;

	if (xpu_engine_inherited(&ctx->engine)) {
		HM_WARN(FI_LOG_DOMAIN, "the XPU context is that of the process which has forked");
		return -FI_EOPNOTSUPP;
	}
	part = calloc(1, size);
	if (!part) {
		HM_WARN(FI_LOG_DOMAIN, "no memory to export to an XPU");
		return -FI_ENOMEM;
	}
	ret = xpu_memory_get(ctx, XPU_RING_OFFSET + ring_len, &part->memory);
	if (ret != 0) {
		free(part);
		return ret;
	}
	xpu_memory_get_own(ctx, sizeof(struct hmreg_xpu_own), &part->own);
	part->ctx = ctx;
	*own = part->own.how == XPU_MEMORY_NONE ? part->memory.device + XPU_CONTROL_SIZE
						: part->own.device;
	*out = part;
	return 0;
}

void xpu_part_free(struct hm_xpu_part *part)
{
	part->end(part);
	xpu_memory_put(part->ctx, &part->own);
	xpu_memory_put(part->ctx, &part->memory);
	free(part);
}

int xpu_part_start(struct hm_xpu_part *part, struct fid_xpu *out, struct hm_xpu_part **result)
{
	int ret = xpu_engine_add(&part->ctx->engine, part);

	if (ret != 0) {
		xpu_part_free(part);
		return ret;
	}
	out->prov_id = xpu_ring.prov_id;
	out->prov_ctx = part->memory.device;
	*result = part;
	return 0;
}

static void end_part(struct hm_xpu_part *part)
{
	xpu_engine_remove(&part->ctx->engine, part);
	xpu_part_free(part);
}

uint32_t xpu_ring_slots(size_t count, uint32_t least, uint32_t most)
{
	uint32_t slots = least;

	while (slots < count && slots < most)
		slots *= 2;
	return slots;
}

void xpu_ring_init(const struct hm_xpu_part *part, uint32_t slots)
{
	char *first = xpu_at(&part->memory, XPU_RING_OFFSET);

	for (uint32_t i = 0; i < slots; i++)
		xpu_store(xpu_ring_seq(first, slots - 1, i), i);
	xpu_order(part);
}

/* ---- a request as a call ---- */

/* What the device called it, for the log. */
static const char *call_name(uint8_t op)
{
	static const char *const name[] = {
		[HMREG_XPU_SEND] = "fi_xpu_send",
		[HMREG_XPU_RECV] = "fi_xpu_recv",
		[HMREG_XPU_WRITE] = "fi_xpu_write",
		[HMREG_XPU_READ] = "fi_xpu_read",
		[HMREG_XPU_ATOMIC] = "fi_xpu_atomic",
		[HMREG_XPU_FETCH_ATOMIC] = "fi_xpu_fetch_atomic",
		[HMREG_XPU_COMPARE_ATOMIC] = "fi_xpu_compare_atomic",
	};

	return op < count_of(name) && name[op] ? name[op] : "a request of an XPU";
}

static void *pointer(uint64_t value)
{
	return (void *)(uintptr_t)value;
}

static bool fetches(const struct hmreg_xpu_wr *wr)
{
	return wr->op == HMREG_XPU_FETCH_ATOMIC || wr->op == HMREG_XPU_COMPARE_ATOMIC;
}

/* FI_MR_XPU_DESC: a device gives a descriptor of every buffer that it names. */
static bool lacks_desc(const struct hmreg_xpu_wr *wr)
{
	bool operand = !fetches(wr) || wr->atomic_op != FI_ATOMIC_READ;

	return wr->len > 0 && ((operand && !wr->desc) || (fetches(wr) && !wr->result_desc) ||
			       (wr->op == HMREG_XPU_COMPARE_ATOMIC && !wr->compare_desc));
}

/* What no call of a program's would find wrong. */
static int check(const struct hm_ep *ep, const struct hmreg_xpu_wr *wr)
{
	if (wr->flags & FI_INJECT) {
		HM_WARN(FI_LOG_EP_DATA,
			"FI_INJECT is not for devices, whose buffers are read after the call");
		return -FI_EBADFLAGS;
	}
	if (wr->peer == UINT64_MAX && wr->op != HMREG_XPU_RECV) {
		HM_WARN(FI_LOG_EP_DATA, "no peer: its address is NULL, or FI_ADDR_UNSPEC");
		return -FI_EINVAL;
	}
	if ((ep->domain->nic->mr_mode & FI_MR_XPU_DESC) && lacks_desc(wr)) {
		HM_WARN(FI_LOG_EP_DATA,
			"a NULL descriptor, in a domain with FI_MR_XPU_DESC, of buffer 0x%lx",
			(unsigned long)wr->buf);
		return -FI_EINVAL;
	}
	return 0;
}

static ssize_t message(struct fid_ep *ep, const struct hmreg_xpu_wr *wr)
{
	struct iovec iov = { pointer(wr->buf), wr->len };
	void *desc = pointer(wr->desc);
	struct fi_msg msg = { .msg_iov = &iov,
			      .desc = &desc,
			      .iov_count = 1,
			      .addr = wr->peer,
			      .context = pointer(wr->context),
			      .data = wr->data };

	if (wr->op == HMREG_XPU_RECV)
		return hm_ep_msg_ops.recvmsg(ep, &msg, wr->flags);
	return hm_ep_msg_ops.sendmsg(ep, &msg, wr->flags);
}

static ssize_t rma(struct fid_ep *ep, const struct hmreg_xpu_wr *wr)
{
	struct iovec iov = { pointer(wr->buf), wr->len };
	void *desc = pointer(wr->desc);
	struct fi_rma_iov remote = { wr->addr, wr->len, wr->key };
	struct fi_msg_rma msg = { .msg_iov = &iov,
				  .desc = &desc,
				  .iov_count = 1,
				  .addr = wr->peer,
				  .rma_iov = &remote,
				  .rma_iov_count = 1,
				  .context = pointer(wr->context),
				  .data = wr->data };

	if (wr->op == HMREG_XPU_READ)
		return hm_ep_rma_ops.readmsg(ep, &msg, wr->flags);
	return hm_ep_rma_ops.writemsg(ep, &msg, wr->flags);
}

static ssize_t atomic(struct fid_ep *ep, const struct hmreg_xpu_wr *wr)
{
	struct fi_ioc iov = { pointer(wr->buf), wr->len },
		      result = { pointer(wr->result), wr->len },
		      compare = { pointer(wr->compare), wr->len };
	void *desc = pointer(wr->desc), *result_desc = pointer(wr->result_desc),
	     *compare_desc = pointer(wr->compare_desc);
	struct fi_rma_ioc remote = { wr->addr, wr->len, wr->key };
	struct fi_msg_atomic msg = { .msg_iov = &iov,
				     .desc = &desc,
				     .iov_count = 1,
				     .addr = wr->peer,
				     .rma_iov = &remote,
				     .rma_iov_count = 1,
				     .datatype = (enum fi_datatype)wr->datatype,
				     .op = (enum fi_op)wr->atomic_op,
				     .context = pointer(wr->context),
				     .data = wr->data };

	if (wr->op == HMREG_XPU_ATOMIC)
		return hm_ep_atomic_ops.writemsg(ep, &msg, wr->flags);
	if (wr->op == HMREG_XPU_FETCH_ATOMIC)
		return hm_ep_atomic_ops.readwritemsg(ep, &msg, &result, &result_desc, 1, wr->flags);
	return hm_ep_atomic_ops.compwritemsg(ep, &msg, &compare, &compare_desc, 1, &result,
					     &result_desc, 1, wr->flags);
}

static ssize_t call(struct hm_ep *ep, const struct hmreg_xpu_wr *wr)
{
	switch (wr->op) {
	case HMREG_XPU_SEND:
	case HMREG_XPU_RECV:
		return message(&ep->ep, wr);
	case HMREG_XPU_WRITE:
	case HMREG_XPU_READ:
		return rma(&ep->ep, wr);
	case HMREG_XPU_ATOMIC:
	case HMREG_XPU_FETCH_ATOMIC:
	case HMREG_XPU_COMPARE_ATOMIC:
		return atomic(&ep->ep, wr);
	}
	HM_WARN(FI_LOG_EP_DATA, "no call of fi_xpu_device.h is of kind %u", wr->op);
	return -FI_EINVAL;
}

/* Log lines name the device's call, not only the host's that it became. */
static ssize_t post(struct hm_ep *ep, const struct hmreg_xpu_wr *wr)
{
	ssize_t ret;

	hm_log_about = call_name(wr->op);
	ret = check(ep, wr);
	if (ret == 0)
		ret = call(ep, wr);
	hm_log_about = NULL;
	return ret;
}

/* ---- a request that was refused ---- */

static uint64_t completion_flags(const struct hmreg_xpu_wr *wr)
{
	switch (wr->op) {
	case HMREG_XPU_RECV:
		return FI_MSG | FI_RECV;
	case HMREG_XPU_WRITE:
		return FI_RMA | FI_WRITE;
	case HMREG_XPU_READ:
		return FI_RMA | FI_READ;
	case HMREG_XPU_ATOMIC:
		return FI_ATOMIC | FI_WRITE;
	case HMREG_XPU_FETCH_ATOMIC:
	case HMREG_XPU_COMPARE_ATOMIC:
		return FI_ATOMIC | FI_READ;
	default:
		return FI_MSG | FI_SEND;
	}
}

static struct nic_cntr *counter(const struct nic_ep *ep, const struct hmreg_xpu_wr *wr)
{
	switch (wr->op) {
	case HMREG_XPU_RECV:
		return ep->cntr[NIC_CNTR_RECV];
	case HMREG_XPU_WRITE:
	case HMREG_XPU_ATOMIC:
		return ep->cntr[NIC_CNTR_WRITE];
	case HMREG_XPU_READ:
	case HMREG_XPU_FETCH_ATOMIC:
	case HMREG_XPU_COMPARE_ATOMIC:
		return ep->cntr[NIC_CNTR_READ];
	default:
		return ep->cntr[NIC_CNTR_SEND];
	}
}

/* False: there is no room for the completion yet. */
static bool tell_refused(const struct nic_ep *ep, const struct hmreg_xpu_wr *wr, int error)
{
	struct nic_cq *cq = wr->op == HMREG_XPU_RECV ? ep->rx_cq : ep->tx_cq;
	struct nic_cntr *cntr = counter(ep, wr);
	struct nic_comp comp = { .op_context = pointer(wr->context),
				 .flags = completion_flags(wr),
				 .src_addr = FI_ADDR_NOTAVAIL,
				 .err = error,
				 .prov_errno = HMREG_REFUSED,
				 .olen = wr->len };

	if (cq && nic_cq_reserve(cq) != 0)
		return false;
	if (cq)
		nic_cq_push(cq, &comp);
	if (cntr)
		nic_cntr_failed(cntr);
	return true;
}

/* ---- the walk ---- */

/* A kernel that does nothing right would fill the log faster than anybody reads it. */
static ssize_t post_told(struct ring *ring, const struct hmreg_xpu_wr *wr)
{
	ssize_t ret;

	if (ring->refused < TOLD) {
		ret = post(ring->ep, wr);
		if (ret == 0 || ret == -FI_EAGAIN || ++ring->refused < TOLD)
			return ret;
		HM_WARN(FI_LOG_EP_DATA, "requests of an XPU that are refused from here on are told "
					"as information, until one is not");
		return ret;
	}
	hm_log_mild = true;
	ret = post(ring->ep, wr);
	hm_log_mild = false;
	return ret;
}

/* False: the request stays.  The device may write what it likes meanwhile: only the copy is looked at. */
static bool handle(struct ring *ring, struct lane *lane, const struct hmreg_xpu_wr *wr)
{
	if (!lane->refused) {
		ssize_t ret = post_told(ring, wr);

		if (ret == -FI_EAGAIN)
			return false;
		if (ret == 0) {
			ring->refused = 0;
			return true;
		}
		lane->refused = (int)-ret;
	}
	if (!tell_refused(ring->ep->nic, wr, lane->refused))
		return false;
	lane->refused = 0;
	return true;
}

static bool mine(int which, const struct hmreg_xpu_wr *wr)
{
	return (wr->op == HMREG_XPU_RECV) == (which == RECEIVES);
}

/* Has the other lane made this slot free, and the device perhaps written its next number there? */
static bool passed(const struct ring *ring, uint64_t seq, uint64_t number)
{
	uint64_t next = number + ring->mask + 1;

	return seq == next || seq == next + 1;
}

static unsigned walk(struct ring *ring, int which)
{
	struct lane *lane = &ring->lane[which];
	uint64_t end = ring->lane[LANES - 1 - which].next + ring->mask + 1;
	unsigned taken = 0;

	for (unsigned i = 0; i < BATCH && lane->next != end; i++, lane->next++) {
		uint64_t *seq = xpu_ring_seq(ring->slots, ring->mask, lane->next);
		uint64_t value = xpu_load(seq);
		struct hmreg_xpu_wr wr;

		if (value != lane->next + 1) {
			if (!passed(ring, value, lane->next))
				break;
			continue;
		}
		xpu_order(&ring->part);
		wr = *(const struct hmreg_xpu_wr *)(const void *)seq;
		atomic_signal_fence(memory_order_acq_rel); /* it is read once */
		if (!mine(which, &wr))
			continue;
		if (!handle(ring, lane, &wr))
			break;
		xpu_store(seq, lane->next + ring->mask + 1);
		taken++;
	}
	if (taken > 0)
		xpu_order(&ring->part);
	return taken;
}

/* The lane that is behind waits for the device, where it finds a free slot, or has a request that stays. */
static unsigned poll_ring(struct hm_xpu_part *part)
{
	struct ring *ring = (struct ring *)part;
	unsigned taken = walk(ring, RECEIVES) + walk(ring, TRANSMITS);
	uint64_t receives = ring->lane[RECEIVES].next, transmits = ring->lane[TRANSMITS].next;

	part->still = receives < transmits ? receives : transmits;
	part->word = xpu_ring_seq(ring->slots, ring->mask, part->still);
	return taken;
}

static void end_ring(struct hm_xpu_part *part)
{
	(void)part;
}

/* ---- export ---- */

static int export_ep(struct hm_xpu_own *ctx, struct nic_ep *nic, void *owner, struct fid_xpu *out,
		     struct hm_xpu_part **result)
{
	uint32_t slots = xpu_ring_slots(nic->domain->port->tx_size, RING_LEAST, RING_MOST);
	struct hmreg_xpu_ep *control;
	struct hm_xpu_part *part;
	struct ring *ring;
	uint64_t own;
	int ret = xpu_part_make(ctx, sizeof(*ring), (size_t)slots * XPU_SLOT_SIZE, &part, &own);

	if (ret != 0)
		return ret;
	ring = (struct ring *)part;
	ring->ep = owner;
	ring->slots = xpu_at(&part->memory, XPU_RING_OFFSET);
	ring->mask = slots - 1;
	part->poll = poll_ring;
	part->end = end_ring;
	control = part->memory.host;
	control->version = HMREG_XPU_VERSION;
	control->mask = ring->mask;
	control->ring = part->memory.device + XPU_RING_OFFSET;
	control->own = own;
	xpu_ring_init(part, slots);
	return xpu_part_start(part, out, result);
}

/* ---- descriptors and addresses ---- */

/* Where the caller puts them need not be aligned. */
static int describe(const struct nic_region *region, void *out)
{
	uint32_t (*lkey)(const struct nic_region *) = region->domain->ops->region_lkey;
	struct hmreg_xpu_desc desc = { .region = hm_key_handle(&region->node),
				       .lkey = lkey ? lkey(region) : UINT32_MAX };

	memcpy(out, &desc, sizeof(desc));
	return 0;
}

static int address(const struct nic_domain *domain, uint64_t peer, uint64_t fi_addr, void *out)
{
	struct hmreg_xpu_addr addr = { fi_addr };

	(void)domain, (void)peer;
	memcpy(out, &addr, sizeof(addr));
	return 0;
}

const struct nic_xpu_ops xpu_ring = {
	.prov_id = FI_XPU_PROV_HMREG,
	.caps = FI_XPU_CAP_EP | FI_XPU_CAP_CQ | FI_XPU_CAP_CNTR,
	.desc_size = sizeof(struct hmreg_xpu_desc),
	.addr_size = sizeof(struct hmreg_xpu_addr),
	.desc = describe,
	.addr = address,
	.ep_export = export_ep,
	.cq_export = xpu_cq_export,
	.cntr_export = xpu_cntr_export,
	.end = end_part,
};
