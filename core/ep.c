/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints: opened, bound, enabled, closed. */
#include "core/base/refusal.h"
#include "core/auth.h"
#include "core/ep.h"
#include "core/info.h"

#include <stdlib.h>
#include <string.h>

/* ---- closing ---- */

static void unbind_all(struct hm_ep *ep)
{
	if (ep->av)
		hm_unuse(&ep->av->nic.users);
	if (ep->eq)
		hm_unuse(&ep->eq->users);
	if (ep->tx_cq)
		hm_unuse(&ep->tx_cq->nic.users);
	if (ep->rx_cq)
		hm_unuse(&ep->rx_cq->nic.users);
	for (int i = 0; i < NIC_CNTR_SLOTS; i++)
		if (ep->cntr[i])
			hm_unuse(&ep->cntr[i]->nic.users);
}

static int ep_close(struct fid *fid)
{
	struct hm_ep *ep = hm_ep_of(fid);
	int ret = hm_check_unused(&ep->nic->users, "endpoint");
	bool enabled;

	if (ret != 0)
		return ret;
	/* the device's requests end first: none is taken from its ring any more */
	hm_xpu_part_end(ep->xpu, atomic_exchange(&ep->part, NULL));
	enabled = atomic_exchange(&ep->enabled, false);
	ret = ep->domain->nic->ops->ep_close(ep->nic);
	if (ret != 0) {
		atomic_store(&ep->enabled, enabled);
		return ret;
	}
	hm_auth_drop(ep);
	unbind_all(ep);
	hm_xpu_ctx_put(ep->xpu);
	atomic_fetch_sub(&ep->domain->endpoints, 1);
	hm_unuse(&ep->domain->users);
	pthread_mutex_destroy(&ep->lock);
	hm_fid_end(fid);
	free(ep->nic);
	free(ep);
	return 0;
}

/* ---- binding ---- */

static int refuse_bind(const char *why)
{
	HM_WARN(FI_LOG_EP_CTRL, "bind: %s", why);
	return -FI_EINVAL;
}

static int bind_av(struct hm_ep *ep, struct hm_av *av, uint64_t flags)
{
	if (flags != 0)
		return refuse_bind("an address vector takes flags 0");
	if (ep->av)
		return refuse_bind("the endpoint has an address vector already");
	if (av->domain != ep->domain)
		return refuse_bind("address vector and endpoint are of different domains");
	hm_use(&av->nic.users);
	ep->av = av;
	ep->nic->av = &av->nic;
	return 0;
}

static int bind_cq(struct hm_ep *ep, struct hm_cq *cq, uint64_t flags)
{
	uint64_t selective = flags & FI_SELECTIVE_COMPLETION;

	if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) ||
	    !(flags & (FI_TRANSMIT | FI_RECV)))
		return refuse_bind("a completion queue takes FI_TRANSMIT, FI_RECV, "
				   "FI_SELECTIVE_COMPLETION");
	if (((flags & FI_TRANSMIT) && ep->tx_cq) || ((flags & FI_RECV) && ep->rx_cq))
		return refuse_bind("the endpoint has a completion queue for this already");
	if (cq->domain != ep->domain)
		return refuse_bind("completion queue and endpoint are of different domains");
	/* a queue of the host's may be bound: for errors */
	if (cq->xpu && cq->xpu != ep->xpu)
		return refuse_bind("completion queue and endpoint are not of one XPU context");
	if (flags & FI_TRANSMIT) {
		hm_use(&cq->nic.users);
		ep->tx_cq = cq;
		ep->tx_selective = selective;
	}
	if (flags & FI_RECV) {
		hm_use(&cq->nic.users);
		ep->rx_cq = cq;
		ep->nic->rx_selective = selective;
	}
	return 0;
}

static const uint64_t cntr_flags[NIC_CNTR_SLOTS] = {
	[NIC_CNTR_SEND] = FI_SEND,
	[NIC_CNTR_RECV] = FI_RECV,
	[NIC_CNTR_READ] = FI_READ,
	[NIC_CNTR_WRITE] = FI_WRITE,
	[NIC_CNTR_REMOTE_READ] = FI_REMOTE_READ,
	[NIC_CNTR_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

static int bind_cntr(struct hm_ep *ep, struct hm_cntr *cntr, uint64_t flags)
{
	uint64_t known = 0;

	for (int i = 0; i < NIC_CNTR_SLOTS; i++) {
		known |= cntr_flags[i];
		if ((flags & cntr_flags[i]) && ep->cntr[i])
			return refuse_bind("the endpoint has a counter for this already");
	}
	if (flags == 0 || (flags & ~known))
		return refuse_bind("a counter takes FI_SEND, FI_RECV, FI_READ, FI_WRITE, "
				   "FI_REMOTE_READ, FI_REMOTE_WRITE");
	if ((flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) && !(ep->caps & FI_RMA_EVENT))
		return refuse_bind("counting remote accesses needs the capability FI_RMA_EVENT");
	if (cntr->domain != ep->domain)
		return refuse_bind("counter and endpoint are of different domains");
	if (cntr->xpu != ep->xpu)
		return refuse_bind("counter and endpoint are not of one XPU context");
	for (int i = 0; i < NIC_CNTR_SLOTS; i++) {
		if (flags & cntr_flags[i]) {
			hm_use(&cntr->nic.users);
			ep->cntr[i] = cntr;
		}
	}
	return 0;
}

static int bind_eq(struct hm_ep *ep, struct hm_eq *eq, uint64_t flags)
{
	if (flags != 0)
		return refuse_bind("an event queue takes flags 0");
	if (ep->eq)
		return refuse_bind("the endpoint has an event queue already");
	if (eq->fabric != ep->domain->fabric)
		return refuse_bind("event queue and endpoint are of different fabrics");
	hm_use(&eq->users);
	ep->eq = eq;
	return 0;
}

static int bind_locked(struct hm_ep *ep, struct fid *bfid, uint64_t flags)
{
	if (atomic_load(&ep->enabled)) {
		HM_WARN(FI_LOG_EP_CTRL, "bind: the endpoint is enabled already");
		return -FI_EOPBADSTATE;
	}
	switch (bfid->fclass) {
	case FI_CLASS_AV:
		return bind_av(ep, hm_av_of(bfid), flags);
	case FI_CLASS_CQ:
		return bind_cq(ep, hm_cq_of(bfid), flags);
	case FI_CLASS_CNTR:
		return bind_cntr(ep, hm_cntr_of(bfid), flags);
	case FI_CLASS_EQ:
		return bind_eq(ep, hm_eq_of(bfid), flags);
	default:
		return refuse_bind(
			"an endpoint takes address vectors, completion queues, counters, "
			"event queues");
	}
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct hm_ep *ep = hm_ep_of(fid);
	int ret;

	if (!bfid)
		return refuse_bind("nothing to bind");
	pthread_mutex_lock(&ep->lock);
	ret = bind_locked(ep, bfid, flags);
	pthread_mutex_unlock(&ep->lock);
	return ret;
}

/* ---- enabling ---- */

static int check_bound(const struct hm_ep *ep)
{
	bool sends = ep->caps & (FI_SEND | FI_READ | FI_WRITE);
	bool tx_cntr = ep->cntr[NIC_CNTR_SEND] || ep->cntr[NIC_CNTR_READ] ||
		       ep->cntr[NIC_CNTR_WRITE];

	if (!ep->av) {
		HM_WARN(FI_LOG_EP_CTRL, "enable: no address vector is bound");
		return -FI_ENOAV;
	}
	if (sends && !ep->tx_cq && !tx_cntr) {
		HM_WARN(FI_LOG_EP_CTRL, "enable: no completion queue or counter for transmits "
					"(fi_ep_bind, FI_TRANSMIT)");
		return -FI_ENOCQ;
	}
	if ((ep->caps & FI_RECV) && !ep->rx_cq && !ep->cntr[NIC_CNTR_RECV]) {
		HM_WARN(FI_LOG_EP_CTRL, "enable: no completion queue or counter for receives "
					"(fi_ep_bind, FI_RECV)");
		return -FI_ENOCQ;
	}
	return 0;
}

static int enable_locked(struct hm_ep *ep)
{
	int ret;

	if (atomic_load(&ep->enabled)) {
		HM_WARN(FI_LOG_EP_CTRL, "enable: the endpoint is enabled already");
		return -FI_EOPBADSTATE;
	}
	ret = check_bound(ep);
	if (ret == 0)
		ret = hm_auth_lend(ep);
	if (ret != 0)
		return ret;
	ep->nic->tx_cq = ep->tx_cq ? &ep->tx_cq->nic : NULL;
	ep->nic->rx_cq = ep->rx_cq ? &ep->rx_cq->nic : NULL;
	for (int i = 0; i < NIC_CNTR_SLOTS; i++)
		ep->nic->cntr[i] = ep->cntr[i] ? &ep->cntr[i]->nic : NULL;
	ret = ep->domain->nic->ops->ep_enable(ep->nic);
	if (ret == 0)
		atomic_store_explicit(&ep->enabled, true, memory_order_release);
	else if (ep->domain->nic->av_keys)
		hm_auth_drop(ep);
	return ret;
}

/* FI_GETOPSFLAG and FI_SETOPSFLAG: which side is meant stands in the flags themselves. */
static int ops_flags(struct hm_ep *ep, int command, uint64_t *arg)
{
	uint64_t side = arg ? *arg & (FI_TRANSMIT | FI_RECV) : 0, flags;
	_Atomic uint64_t *mine = side == FI_TRANSMIT ? &ep->tx_op_flags : &ep->rx_op_flags;

	if (side != FI_TRANSMIT && side != FI_RECV) {
		HM_WARN(FI_LOG_EP_CTRL, "operation flags are for FI_TRANSMIT or FI_RECV");
		return -FI_EINVAL;
	}
	if (command == FI_GETOPSFLAG) {
		*arg = *mine;
		return 0;
	}
	flags = *arg & ~side;
	if (hm_ep_check_flags(flags, side == FI_TRANSMIT ? HM_TX_OP_FLAGS : HM_RX_OP_FLAGS,
			      "FI_SETOPSFLAG") != 0)
		return -FI_EINVAL;
	*mine = flags;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct hm_ep *ep = hm_ep_of(fid);
	int ret;

	switch (command) {
	case FI_ENABLE:
		pthread_mutex_lock(&ep->lock);
		ret = enable_locked(ep);
		pthread_mutex_unlock(&ep->lock);
		return ret;
	case FI_GETOPSFLAG:
	case FI_SETOPSFLAG:
		return ops_flags(ep, command, arg);
	case FI_ALIAS:
		HM_WARN(FI_LOG_EP_CTRL, "aliases of endpoints are not offered");
		return -FI_ENOSYS;
	default:
		return hm_no_control(fid, command, arg);
	}
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
	.ops_open = hm_no_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};

/* ---- opening ---- */

/* An info may have been changed since fi_getinfo: it asks for no more than is offered. */
static int check_limits(const struct nic_port *port, const struct fi_info *info)
{
	static const struct fi_tx_attr no_tx;
	static const struct fi_rx_attr no_rx;
	const struct fi_tx_attr *tx = info->tx_attr ? info->tx_attr : &no_tx;
	const struct fi_rx_attr *rx = info->rx_attr ? info->rx_attr : &no_rx;
	const struct {
		const char *name;
		size_t asked, offered;
	} limit[] = {
		{ "tx_attr->inject_size", tx->inject_size, port->inject_size },
		{ "tx_attr->size", tx->size, port->tx_size },
		{ "tx_attr->iov_limit", tx->iov_limit, port->iov_limit },
		{ "tx_attr->rma_iov_limit", tx->rma_iov_limit, port->rma_iov_limit },
		{ "rx_attr->size", rx->size, port->rx_size },
		{ "rx_attr->iov_limit", rx->iov_limit, port->iov_limit },
		{ "ep_attr->max_msg_size", info->ep_attr ? info->ep_attr->max_msg_size : 0,
		  port->max_msg_size },
	};
	int ret =
		hm_ep_check_flags(tx->op_flags, HM_TX_OP_FLAGS, "fi_endpoint (tx_attr->op_flags)");

	if (ret == 0)
		ret = hm_ep_check_flags(rx->op_flags, HM_RX_OP_FLAGS,
					"fi_endpoint (rx_attr->op_flags)");
	for (size_t i = 0; ret == 0 && i < count_of(limit); i++) {
		if (limit[i].asked <= limit[i].offered)
			continue;
		HM_WARN(FI_LOG_EP_CTRL, "%s is %zu, the limit is %zu", limit[i].name,
			limit[i].asked, limit[i].offered);
		ret = -FI_EINVAL;
	}
	return ret;
}

static int check_ep_info(const struct hm_domain *domain, const struct fi_info *info)
{
	uint64_t caps = info->caps ? info->caps : domain->nic->caps;
	uint64_t offered = hm_port_caps(domain->nic->port, domain->api_version);

	if (hm_info_port(info) != domain->nic->port) {
		HM_WARN(FI_LOG_EP_CTRL, "the info is of another domain");
		return -FI_EINVAL;
	}
	if (domain->nic->port->no_endpoints) {
		HM_REFUSE(FI_LOG_EP_CTRL, domain->nic->port->no_endpoints_cause,
			  "%s is for registration alone: %s", domain->nic->port->domain_name,
			  domain->nic->port->no_endpoints);
		return -FI_EOPNOTSUPP;
	}
	if (info->ep_attr && info->ep_attr->type != FI_EP_RDM &&
	    info->ep_attr->type != FI_EP_UNSPEC) {
		HM_WARN(FI_LOG_EP_CTRL, "only FI_EP_RDM endpoints are offered");
		return -FI_EINVAL;
	}
	if (caps & ~offered) {
		HM_WARN(FI_LOG_EP_CTRL, "capabilities 0x%lx are not offered",
			(unsigned long)(caps & ~offered));
		return -FI_EINVAL;
	}
	return check_limits(domain->nic->port, info);
}

/* What an info left to the library comes from the port. */
static void take_attributes(struct hm_ep *ep, const struct fi_info *info)
{
	const struct nic_port *port = ep->domain->nic->port;
	const struct fi_tx_attr *tx = info->tx_attr;
	const struct fi_rx_attr *rx = info->rx_attr;

	ep->caps = info->caps ? info->caps : ep->domain->nic->caps;
	ep->tx_op_flags = tx ? tx->op_flags : 0;
	ep->rx_op_flags = rx ? rx->op_flags : 0;
	ep->inject_size = tx ? tx->inject_size : port->inject_size;
	ep->iov_limit = port->iov_limit;
	ep->rma_iov_limit = port->rma_iov_limit;
	ep->max_msg_size = port->max_msg_size;
	ep->local_copied = port->local_copied;
	if (info->ep_attr && info->ep_attr->max_msg_size)
		ep->max_msg_size = info->ep_attr->max_msg_size;
	ep->nic->domain = ep->domain->nic;
	ep->nic->caps = ep->caps;
	ep->nic->rx_size = rx && rx->size ? rx->size : port->rx_size;
}

static int check_open(const struct fid_domain *fid, const struct fi_info *info, struct fid_ep **out,
		      uint64_t flags)
{
	if (!fid || fid->fid.fclass != FI_CLASS_DOMAIN || !info || !out) {
		HM_WARN(FI_LOG_EP_CTRL, "not a domain, no info, or nowhere to put the endpoint");
		return -FI_EINVAL;
	}
	if (flags & ~FI_XPU) {
		HM_WARN(FI_LOG_EP_CTRL, "flags 0x%lx are not offered",
			(unsigned long)(flags & ~FI_XPU));
		return flags & FI_PEER ? -FI_ENOSYS : -FI_EBADFLAGS;
	}
	return 0;
}

/* The context that the endpoint is for, if any, and so whether each buffer comes with a descriptor. */
static int take_context(struct hm_ep *ep, const struct fi_info *info, uint64_t flags)
{
	const struct nic_domain *nic = ep->domain->nic;
	int ret = hm_xpu_ctx_get(ep->domain, flags & FI_XPU,
				 info->ep_attr ? &info->ep_attr->xpu_ctx : NULL, FI_XPU_CAP_EP,
				 "fi_endpoint2", &ep->xpu);

	if (ret != 0)
		return ret;
	if (!(nic->mr_mode & (ep->xpu ? FI_MR_XPU_DESC : FI_MR_LOCAL)))
		ep->local = nic->port->local;
	if (!ep->xpu || (ep->caps & FI_XPU))
		return 0;
	HM_WARN(FI_LOG_EP_CTRL, "fi_endpoint2: FI_XPU is not among the info's capabilities");
	hm_xpu_ctx_put(ep->xpu);
	return -FI_EINVAL;
}

/* An endpoint in memory, which the NIC does not know yet. */
static struct hm_ep *new_ep(struct hm_domain *domain, const struct fi_info *info)
{
	struct hm_ep *ep = calloc(1, sizeof(*ep));

	if (ep)
		ep->nic = calloc(1, domain->nic->ops->ep_size);
	if (!ep || !ep->nic) {
		HM_WARN(FI_LOG_EP_CTRL, "no memory for an endpoint");
		free(ep);
		return NULL;
	}
	ep->domain = domain;
	take_attributes(ep, info);
	return ep;
}

int hm_ep_open2(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, uint64_t flags,
		void *context)
{
	struct hm_domain *domain;
	struct hm_ep *ep;
	int ret = check_open(fid, info, out, flags);

	if (ret != 0)
		return ret;
	domain = hm_domain_of(&fid->fid);
	ret = check_ep_info(domain, info);
	if (ret != 0)
		return ret;
	ep = new_ep(domain, info);
	if (!ep)
		return -FI_ENOMEM;
	ret = take_context(ep, info, flags);
	if (ret != 0)
		goto free_ep;
	ret = hm_auth_of_ep(domain, info->ep_attr, &ep->nic->auth);
	if (ret != 0)
		goto put_context;
	ret = domain->nic->ops->ep_open(ep->nic, info->src_addr, info->src_addrlen);
	if (ret != 0)
		goto release_key;
	pthread_mutex_init(&ep->lock, NULL);
	ep->ep.fid = (struct fid){ FI_CLASS_EP, context, &ep_fid_ops };
	hm_ep_set_ops(ep);
	hm_use(&domain->users);
	atomic_fetch_add(&domain->endpoints, 1);
	*out = &ep->ep;
	return 0;
release_key:
	hm_auth_release(ep->nic->auth);
put_context:
	hm_xpu_ctx_put(ep->xpu);
free_ep:
	free(ep->nic);
	free(ep);
	return ret;
}

int hm_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	return hm_ep_open2(domain, info, ep, 0, context);
}
