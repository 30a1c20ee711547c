/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints and message transfers. fi_endpoint(3), fi_msg(3)
 *
 * All calls are thread safe unless the domain was opened with a weaker threading model; only
 * fi_close() must not race with another use of the same object. Transfers return 0 once they are
 * accepted, -FI_EAGAIN when the queue is full (read the completion queue, then try again) or another
 * code. Buffers belong to the provider from then until the completion (with inject: until the call
 * returns), descriptors and iovecs are read during the call. Lengths are in bytes.
 */
#ifndef FI_ENDPOINT_H
#define FI_ENDPOINT_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fid_xpu_ep;

/* A message to send or receive, with everything a transfer may have. fi_msg(3) */
struct fi_msg {
	const struct iovec *msg_iov;
	void **desc;
	size_t iov_count;
	fi_addr_t addr;
	void *context;
	uint64_t data;
};

/* Option levels of fi_getopt() and fi_setopt(). */
enum {
	FI_OPT_ENDPOINT
};

/* Options of level FI_OPT_ENDPOINT, with the type of their value. fi_endpoint(3) */
enum {
	FI_OPT_MIN_MULTI_RECV,		/* size_t */
	FI_OPT_CM_DATA_SIZE,		/* size_t */
	FI_OPT_BUFFERED_MIN,		/* size_t */
	FI_OPT_BUFFERED_LIMIT,		/* size_t */
	FI_OPT_SEND_BUF_SIZE,		/* size_t */
	FI_OPT_RECV_BUF_SIZE,		/* size_t */
	FI_OPT_TX_SIZE,			/* size_t */
	FI_OPT_RX_SIZE,			/* size_t */
	FI_OPT_FI_HMEM_P2P,		/* int: FI_HMEM_P2P_... */
	FI_OPT_XPU_TRIGGER,		/* struct fi_trigger_xpu */
	FI_OPT_CUDA_API_PERMITTED,	/* bool */
	FI_OPT_SHARED_MEMORY_PERMITTED, /* bool */
	FI_OPT_MAX_MSG_SIZE,		/* size_t */
	FI_OPT_MAX_TAGGED_SIZE,		/* size_t */
	FI_OPT_MAX_RMA_SIZE,		/* size_t */
	FI_OPT_MAX_ATOMIC_SIZE,		/* size_t */
	FI_OPT_INJECT_MSG_SIZE,		/* size_t */
	FI_OPT_INJECT_TAGGED_SIZE,	/* size_t */
	FI_OPT_INJECT_RMA_SIZE,		/* size_t */
	FI_OPT_INJECT_ATOMIC_SIZE,	/* size_t */
	FI_OPT_FIREWALL_ADDR		/* bool */
};

/* Values of FI_OPT_FI_HMEM_P2P: may the NIC reach device memory directly? */
enum {
	FI_HMEM_P2P_ENABLED,   /* the provider decides */
	FI_HMEM_P2P_REQUIRED,  /* it must */
	FI_HMEM_P2P_PREFERRED, /* it should where it can */
	FI_HMEM_P2P_DISABLED   /* it must not */
};

/* Operations of an endpoint's control side. */
struct fi_ops_ep {
	size_t size;
	ssize_t (*cancel)(fid_t fid, void *context);
	int (*getopt)(fid_t fid, int level, int optname, void *optval, size_t *optlen);
	int (*setopt)(fid_t fid, int level, int optname, const void *optval, size_t optlen);
	int (*tx_ctx)(struct fid_ep *ep, int idx, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
		      void *context);
	int (*rx_ctx)(struct fid_ep *ep, int idx, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
		      void *context);
	ssize_t (*rx_size_left)(struct fid_ep *ep);
	ssize_t (*tx_size_left)(struct fid_ep *ep);
	int (*export_xpu)(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *xpu_ep);
};

/* Message operations of an endpoint. */
struct fi_ops_msg {
	size_t size;
	ssize_t (*recv)(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			void *context);
	ssize_t (*recvv)(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src_addr, void *context);
	ssize_t (*recvmsg)(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
	ssize_t (*send)(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			fi_addr_t dest_addr, void *context);
	ssize_t (*sendv)(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest_addr, void *context);
	ssize_t (*sendmsg)(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
	ssize_t (*inject)(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr);
	ssize_t (*senddata)(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest_addr, void *context);
	ssize_t (*injectdata)(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr);
};

struct fi_ops_cm;
struct fi_ops_rma;
struct fi_ops_tagged;
struct fi_ops_atomic;
struct fi_ops_collective;

/* Where communication starts and ends: one operation table per capability. fi_endpoint(3) */
struct fid_ep {
	struct fid fid;
	struct fi_ops_ep *ops;
	struct fi_ops_cm *cm;
	struct fi_ops_msg *msg;
	struct fi_ops_rma *rma;
	struct fi_ops_tagged *tagged;
	struct fi_ops_atomic *atomic;
	struct fi_ops_collective *collective;
};

/* Listens for connections. fi_endpoint(3) */
struct fid_pep {
	struct fid fid;
	struct fi_ops_ep *ops;
	struct fi_ops_cm *cm;
};

/* A transmit context that several endpoints share. fi_endpoint(3) */
struct fid_stx {
	struct fid fid;
	struct fi_ops_ep *ops;
};

/* Opens a passive endpoint; info stays the caller's. Closed with fi_close(). fi_endpoint(3) */
static inline int fi_passive_ep(struct fid_fabric *fabric, struct fi_info *info,
				struct fid_pep **pep, void *context)
{
	return fabric->ops->passive_ep(fabric, info, pep, context);
}

/*
 * Open an endpoint, disabled until fi_enable(); info stays the caller's. Closed with fi_close(),
 * -FI_EBUSY while regions are bound to it. -FI_ENOSYS: the provider takes no flags. fi_endpoint(3)
 */
static inline int fi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			      void *context)
{
	return domain->ops->endpoint(domain, info, ep, context);
}
static inline int fi_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			       uint64_t flags, void *context)
{
	if (!flags)
		return fi_endpoint(domain, info, ep, context);
	if (!FI_CHECK_OP(domain->ops, struct fi_ops_domain, endpoint2))
		return -FI_ENOSYS;
	return domain->ops->endpoint2(domain, info, ep, flags, context);
}

/* Opens an endpoint of several transmit and receive contexts. fi_endpoint(3) */
static inline int fi_scalable_ep(struct fid_domain *domain, struct fi_info *info,
				 struct fid_ep **sep, void *context)
{
	return domain->ops->scalable_ep(domain, info, sep, context);
}

/*
 * Bind a queue, counter, address vector or shared context; flags say for which operations
 * (FI_TRANSMIT, FI_RECV, FI_WRITE, ...). What is bound stays busy until the endpoint is closed.
 * -FI_EDOMAIN or -FI_EINVAL: of another domain. fi_endpoint(3)
 */
static inline int fi_ep_bind(struct fid_ep *ep, struct fid *bfid, uint64_t flags)
{
	return ep->fid.ops->bind(&ep->fid, bfid, flags);
}
static inline int fi_pep_bind(struct fid_pep *pep, struct fid *bfid, uint64_t flags)
{
	return pep->fid.ops->bind(&pep->fid, bfid, flags);
}
static inline int fi_scalable_ep_bind(struct fid_ep *sep, struct fid *bfid, uint64_t flags)
{
	return sep->fid.ops->bind(&sep->fid, bfid, flags);
}

/* Makes the endpoint ready. -FI_ENOCQ, -FI_ENOAV, -FI_EOPBADSTATE. fi_endpoint(3) */
static inline int fi_enable(struct fid_ep *ep)
{
	return ep->fid.ops->control(&ep->fid, FI_ENABLE, NULL);
}

/* Asks for the operation of that context to end early; it completes anyway. fi_endpoint(3) */
static inline ssize_t fi_cancel(fid_t fid, void *context)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->ops->cancel(fid, context);
}

/* Sets an option of optlen bytes. -FI_ENOPROTOOPT: no such option. fi_endpoint(3) */
static inline int fi_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->ops->setopt(fid, level, optname, optval, optlen);
}

/* Reads an option; *optlen: room in, size out. -FI_ENOPROTOOPT, -FI_ETOOSMALL. fi_endpoint(3) */
static inline int fi_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->ops->getopt(fid, level, optname, optval, optlen);
}

/* A second handle to the endpoint, with other default flags. fi_endpoint(3) */
static inline int fi_ep_alias(struct fid_ep *ep, struct fid_ep **alias_ep, uint64_t flags)
{
	struct fid *fid;
	int ret;

	ret = fi_alias(&ep->fid, &fid, flags);
	if (!ret)
		*alias_ep = container_of(fid, struct fid_ep, fid);
	return ret;
}

/* Open transmit or receive context idx of a scalable endpoint. fi_endpoint(3) */
static inline int fi_tx_context(struct fid_ep *ep, int idx, struct fi_tx_attr *attr,
				struct fid_ep **tx_ep, void *context)
{
	return ep->ops->tx_ctx(ep, idx, attr, tx_ep, context);
}
static inline int fi_rx_context(struct fid_ep *ep, int idx, struct fi_rx_attr *attr,
				struct fid_ep **rx_ep, void *context)
{
	return ep->ops->rx_ctx(ep, idx, attr, rx_ep, context);
}

/* Room left in the receive or transmit queue, a moment ago. fi_endpoint(3) */
static inline ssize_t fi_rx_size_left(struct fid_ep *ep)
{
	return ep->ops->rx_size_left(ep);
}
static inline ssize_t fi_tx_size_left(struct fid_ep *ep)
{
	return ep->ops->tx_size_left(ep);
}

/* Open a transmit or receive context that endpoints share. fi_endpoint(3) */
static inline int fi_stx_context(struct fid_domain *domain, struct fi_tx_attr *attr,
				 struct fid_stx **stx, void *context)
{
	return domain->ops->stx_ctx(domain, attr, stx, context);
}
static inline int fi_srx_context(struct fid_domain *domain, struct fi_rx_attr *attr,
				 struct fid_ep **rx_ep, void *context)
{
	return domain->ops->srx_ctx(domain, attr, rx_ep, context);
}

/* Offer a buffer to the next message from src_addr (FI_ADDR_UNSPEC: from anyone). fi_msg(3) */
static inline ssize_t fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc,
			      fi_addr_t src_addr, void *context)
{
	return ep->msg->recv(ep, buf, len, desc, src_addr, context);
}
static inline ssize_t fi_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc,
			       size_t count, fi_addr_t src_addr, void *context)
{
	return ep->msg->recvv(ep, iov, desc, count, src_addr, context);
}
static inline ssize_t fi_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return ep->msg->recvmsg(ep, msg, flags);
}

/* Send one message, from one buffer or several. fi_msg(3) */
static inline ssize_t fi_send(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			      fi_addr_t dest_addr, void *context)
{
	return ep->msg->send(ep, buf, len, desc, dest_addr, context);
}
static inline ssize_t fi_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc,
			       size_t count, fi_addr_t dest_addr, void *context)
{
	return ep->msg->sendv(ep, iov, desc, count, dest_addr, context);
}
static inline ssize_t fi_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return ep->msg->sendmsg(ep, msg, flags);
}

/* Sends up to inject_size bytes without a completion; buf is free on return. fi_msg(3) */
static inline ssize_t fi_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
	return ep->msg->inject(ep, buf, len, dest_addr);
}

/* Send with a value that appears in the peer's completion (FI_REMOTE_CQ_DATA). fi_msg(3) */
static inline ssize_t fi_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
				  uint64_t data, fi_addr_t dest_addr, void *context)
{
	return ep->msg->senddata(ep, buf, len, desc, data, dest_addr, context);
}
static inline ssize_t fi_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
				    fi_addr_t dest_addr)
{
	return ep->msg->injectdata(ep, buf, len, data, dest_addr);
}

/*
 * Hands an enabled endpoint to a device: fills the caller's *xpu_ep, to be copied to device memory.
 * -FI_EOPBADSTATE: not enabled; -FI_ENOSYS: not supported. fi_xpu(3)
 */
static inline int fi_ep_export_xpu(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *xpu_ep)
{
	if (!FI_CHECK_OP(ep->ops, struct fi_ops_ep, export_xpu))
		return -FI_ENOSYS;
	return ep->ops->export_xpu(ep, flags, xpu_ep);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_ENDPOINT_H */
