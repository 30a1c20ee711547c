/* SPDX-License-Identifier: BSD-2-Clause */
/* Names, options and sizes of an endpoint, and the refusals for what it does not offer. */
#include "core/ep.h"

#include <string.h>

/* ---- names ---- */

static int cm_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct hm_ep *ep;
	int ret;

	if (!fid || fid->fclass != FI_CLASS_EP || !addrlen || (*addrlen > 0 && !addr)) {
		HM_WARN(FI_LOG_EP_CTRL, "fi_getname: not an endpoint, or no room for its name");
		return -FI_EINVAL;
	}
	ep = hm_ep_of(fid);
	ret = ep->domain->nic->ops->ep_name(ep->nic, addr, addrlen);
	if (ret == -FI_ETOOSMALL) /* how its size is asked for, so no warning */
		HM_INFO(FI_LOG_EP_CTRL, "fi_getname: the name needs %zu bytes", *addrlen);
	return ret;
}

/* A call that an RDM endpoint has no use for. */
static int no_cm(const char *call)
{
	HM_WARN(FI_LOG_EP_CTRL, "%s: not offered by an FI_EP_RDM endpoint", call);
	return -FI_ENOSYS;
}

static int cm_setname(fid_t fid, void *addr, size_t addrlen)
{
	(void)fid;
	(void)addr;
	(void)addrlen;
	return no_cm("fi_setname");
}

static int cm_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	(void)ep;
	(void)addr;
	(void)addrlen;
	return no_cm("fi_getpeer");
}

static int cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
	(void)ep;
	(void)addr;
	(void)param;
	(void)paramlen;
	return no_cm("fi_connect");
}

static int cm_listen(struct fid_pep *pep)
{
	(void)pep;
	return no_cm("fi_listen");
}

static int cm_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
	(void)ep;
	(void)param;
	(void)paramlen;
	return no_cm("fi_accept");
}

static int cm_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	(void)pep;
	(void)handle;
	(void)param;
	(void)paramlen;
	return no_cm("fi_reject");
}

static int cm_shutdown(struct fid_ep *ep, uint64_t flags)
{
	(void)ep;
	(void)flags;
	return no_cm("fi_shutdown");
}

static int cm_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
		   void *context)
{
	(void)ep;
	(void)addr;
	(void)flags;
	(void)mc;
	(void)context;
	return no_cm("fi_join");
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = cm_setname,
	.getname = cm_getname,
	.getpeer = cm_getpeer,
	.connect = cm_connect,
	.listen = cm_listen,
	.accept = cm_accept,
	.reject = cm_reject,
	.shutdown = cm_shutdown,
	.join = cm_join,
};

/* ---- options and queue sizes ---- */

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct hm_ep *ep;
	ssize_t ret;

	if (!fid || fid->fclass != FI_CLASS_EP) {
		HM_WARN(FI_LOG_EP_DATA, "fi_cancel: not an endpoint");
		return -FI_EINVAL;
	}
	ep = hm_ep_of(fid);
	if (ep->xpu)
		return hm_ep_xpu_refuse();
	ret = ep->domain->nic->ops->cancel(ep->nic, context);
	if (ret == -FI_ENOENT) /* as when a message came first, so no warning */
		HM_INFO(FI_LOG_EP_DATA, "fi_cancel: no posted receive has context %p", context);
	return ret;
}

static bool size_option(const struct hm_ep *ep, int optname, size_t *value)
{
	switch (optname) {
	case FI_OPT_INJECT_MSG_SIZE:
	case FI_OPT_INJECT_RMA_SIZE:
	case FI_OPT_INJECT_ATOMIC_SIZE:
		*value = ep->inject_size;
		return true;
	case FI_OPT_MAX_MSG_SIZE:
	case FI_OPT_MAX_RMA_SIZE:
	case FI_OPT_MAX_ATOMIC_SIZE:
		*value = ep->max_msg_size;
		return true;
	case FI_OPT_TX_SIZE:
		*value = ep->domain->nic->port->tx_size;
		return true;
	case FI_OPT_RX_SIZE:
		*value = ep->nic->rx_size;
		return true;
	default:
		return false;
	}
}

static int ep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
	size_t value, have;

	if (!fid || fid->fclass != FI_CLASS_EP || !optlen || (*optlen > 0 && !optval)) {
		HM_WARN(FI_LOG_EP_CTRL, "fi_getopt: not an endpoint, or no room for the value");
		return -FI_EINVAL;
	}
	if (level != FI_OPT_ENDPOINT || !size_option(hm_ep_of(fid), optname, &value)) {
		HM_WARN(FI_LOG_EP_CTRL, "fi_getopt: no option %d at level %d", optname, level);
		return -FI_ENOPROTOOPT;
	}
	have = *optlen;
	*optlen = sizeof(value);
	if (have < sizeof(value)) {
		HM_WARN(FI_LOG_EP_CTRL, "fi_getopt: option %d needs %zu bytes", optname,
			sizeof(value));
		return -FI_ETOOSMALL;
	}
	memcpy(optval, &value, sizeof(value));
	return 0;
}

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
	(void)fid;
	(void)optval;
	(void)optlen;
	HM_WARN(FI_LOG_EP_CTRL, "fi_setopt: option %d at level %d cannot be set", optname, level);
	return -FI_ENOPROTOOPT;
}

static int ep_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
		     void *context)
{
	(void)sep;
	(void)index;
	(void)attr;
	(void)tx_ep;
	(void)context;
	return no_cm("fi_tx_context");
}

static int ep_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
		     void *context)
{
	(void)sep;
	(void)index;
	(void)attr;
	(void)rx_ep;
	(void)context;
	return no_cm("fi_rx_context");
}

/* Deprecated calls; what is left depends on the completion queue at each moment. */
static ssize_t ep_size_left(struct fid_ep *ep)
{
	(void)ep;
	return no_cm("fi_tx_size_left and fi_rx_size_left");
}

static int ep_export_xpu(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *xpu_ep)
{
	return hm_xpu_ep_export(hm_ep_of(&ep->fid), flags, xpu_ep);
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.setopt = ep_setopt,
	.tx_ctx = ep_tx_ctx,
	.rx_ctx = ep_rx_ctx,
	.rx_size_left = ep_size_left,
	.tx_size_left = ep_size_left,
	.export_xpu = ep_export_xpu,
};

void hm_ep_set_ops(struct hm_ep *ep)
{
	ep->ep.ops = &ep_ops;
	ep->ep.cm = &cm_ops;
	ep->ep.msg = ep->xpu ? &hm_ep_xpu_msg_ops : &hm_ep_msg_ops;
	ep->ep.rma = ep->xpu ? &hm_ep_xpu_rma_ops : &hm_ep_rma_ops;
	ep->ep.tagged = &hm_ep_no_tagged_ops;
	ep->ep.atomic = ep->xpu ? &hm_ep_xpu_atomic_ops : &hm_ep_atomic_ops;
	ep->ep.collective = &hm_ep_no_collective_ops;
}
