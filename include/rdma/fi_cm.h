/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections, names and multicast groups of endpoints. fi_cm(3)
 *
 * All calls are thread safe unless the domain was opened with a weaker threading model. Sizes are in
 * bytes. Connection events arrive at the event queue bound to the endpoint.
 */
#ifndef FI_CM_H
#define FI_CM_H

#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A joined multicast or collective group; fi_close() leaves it. fi_cm(3) */
struct fid_mc {
	struct fid fid;
	fi_addr_t fi_addr;
};

/* Connection operations of an endpoint or passive endpoint. */
struct fi_ops_cm {
	size_t size;
	int (*setname)(fid_t fid, void *addr, size_t addrlen);
	int (*getname)(fid_t fid, void *addr, size_t *addrlen);
	int (*getpeer)(struct fid_ep *ep, void *addr, size_t *addrlen);
	int (*connect)(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
	int (*listen)(struct fid_pep *pep);
	int (*accept)(struct fid_ep *ep, const void *param, size_t paramlen);
	int (*reject)(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen);
	int (*shutdown)(struct fid_ep *ep, uint64_t flags);
	int (*join)(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
		    void *context);
};

/* Sets the local address of an endpoint; addr stays the caller's. fi_cm(3) */
static inline int fi_setname(fid_t fid, void *addr, size_t addrlen)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->cm->setname(fid, addr, addrlen);
}

/*
 * Copies the local address out. *addrlen: room in, full size out; -FI_ETOOSMALL: cut short;
 * -FI_EOPBADSTATE: there is none before the endpoint is enabled. fi_cm(3)
 */
static inline int fi_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct fid_ep *ep = container_of(fid, struct fid_ep, fid);

	return ep->cm->getname(fid, addr, addrlen);
}

/* The same for the peer of a connection. -FI_ENOTCONN. fi_cm(3) */
static inline int fi_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
	return ep->cm->getpeer(ep, addr, addrlen);
}

/* Starts to listen; requests arrive as FI_CONNREQ. fi_cm(3) */
static inline int fi_listen(struct fid_pep *pep)
{
	return pep->cm->listen(pep);
}

/* Asks addr for a connection, with paramlen bytes for it to see; FI_CONNECTED follows. fi_cm(3) */
static inline int fi_connect(struct fid_ep *ep, const void *addr, const void *param,
			     size_t paramlen)
{
	return ep->cm->connect(ep, addr, param, paramlen);
}

/* Accepts the request the endpoint was opened for; FI_CONNECTED follows. fi_cm(3) */
static inline int fi_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
	return ep->cm->accept(ep, param, paramlen);
}

/* Turns a request (its info's handle) down. fi_cm(3) */
static inline int fi_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
	return pep->cm->reject(pep, handle, param, paramlen);
}

/* Ends a connection; both sides see FI_SHUTDOWN. flags must be 0. fi_cm(3) */
static inline int fi_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return ep->cm->shutdown(ep, flags);
}

/* Joins a group; FI_JOIN_COMPLETE follows. -FI_ENOSYS: not supported. fi_cm(3) */
static inline int fi_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
			  void *context)
{
	if (!FI_CHECK_OP(ep->cm, struct fi_ops_cm, join))
		return -FI_ENOSYS;
	return ep->cm->join(ep, addr, flags, mc, context);
}

/* The address to send to for a joined group. fi_cm(3) */
static inline fi_addr_t fi_mc_addr(struct fid_mc *mc)
{
	return mc->fi_addr;
}

#ifdef __cplusplus
}
#endif

#endif /* FI_CM_H */
