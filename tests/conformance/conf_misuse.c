/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mistakes that a caller can make, call by call.  Each gives its code and exactly one log line, writes
 * no output, and leaves every object as it was: afterwards the link still works, and all can be
 * closed.  What concerns registration, binding and queues in depth is in the programs of their names.
 */
#include "tests/conformance/harness.h"
#include "tests/conformance/misuse.h"

static void *const UNTOUCHED = (void *)(uintptr_t)0x5a5a5a5a;

struct scene {
	struct conf_link l;
	struct fi_info *info; /* the last one made by altered(); freed after each row */
	void *out;
	uint64_t number;
	size_t size;
	char room[64];
	struct iovec iov[32];
	void *desc[32];
	struct fi_rma_iov rma[32];
	struct fi_ioc ioc[32];
	struct fi_rma_ioc rma_ioc[32];
	struct fi_msg msg;
	struct fi_msg_rma rma_msg;
	struct fi_msg_atomic atomic_msg;
	struct fi_cq_attr cq;
	struct fi_cntr_attr cntr;
	struct fi_av_attr av;
	struct fi_eq_attr eq;
	struct fi_fabric_attr fabric;
};

/* Good arguments for every call; a row breaks one of them. */
static void reset(struct scene *s)
{
	struct conf_link *l = &s->l;

	fi_freeinfo(s->info);
	s->info = NULL;
	s->out = UNTOUCHED;
	s->number = 0;
	s->size = sizeof(s->room);
	for (size_t i = 0; i < 32; i++) {
		s->iov[i] = (struct iovec){ l->src, 1 };
		s->desc[i] = l->local->desc;
		s->rma[i] = (struct fi_rma_iov){ l->remote->addr, 1, l->key };
		s->ioc[i] = (struct fi_ioc){ l->src, 1 };
		s->rma_ioc[i] = (struct fi_rma_ioc){ l->remote->addr, 1, l->key };
	}
	s->msg = (struct fi_msg){ s->iov, s->desc, 1, l->to, s, 0 };
	s->rma_msg = (struct fi_msg_rma){ s->iov, s->desc, 1, l->to, s->rma, 1, s, 0 };
	s->atomic_msg = (struct fi_msg_atomic){ s->ioc, s->desc,   1,	   l->to, s->rma_ioc,
						1,	FI_UINT64, FI_SUM, s,	  0 };
	s->cq = (struct fi_cq_attr){ .format = FI_CQ_FORMAT_MSG };
	s->cntr = (struct fi_cntr_attr){ .events = FI_CNTR_EVENTS_COMP };
	s->av = (struct fi_av_attr){ .type = FI_AV_TABLE };
	s->eq = (struct fi_eq_attr){ .wait_obj = FI_WAIT_NONE };
	s->fabric = *l->a->info->fabric_attr;
}

/* A copy of the good info with one thing changed. */
static struct fi_info *altered(struct scene *s, enum alteration what)
{
	struct fi_info *info = s->info = fi_dupinfo(s->l.a->info);

	assert_non_null(info);
	misuse_alter(info, what);
	return info;
}

/* The attribute with one member set. */
#define WITH(attr, member, value) (s->attr.member = (value), &s->attr)
#define OUT(type)		  ((struct type **)(void *)&s->out)

#define A	    (s->l.a)
#define EP	    (s->l.a->ep)
#define TO	    (s->l.to)
#define BUF	    (s->l.src)
#define LOCAL	    (s->l.local->desc)
#define REMOTE	    (s->l.remote->addr)
#define KEY	    (s->l.key)
#define NOBODY	    ((fi_addr_t)999999)
#define LOOSE	    ((void *)(uintptr_t)0x1234567)
#define TOP	    ((void *)(UINTPTR_MAX - 3))
#define MANY	    32
#define BAD_ENUM(t) ((enum t)77)

/* name, code, call */
#define ROOT_CASES(X)                                                                              \
	X(fabric_no_attr, -FI_EINVAL, fi_fabric(NULL, OUT(fid_fabric), NULL))                      \
	X(fabric_no_result, -FI_EINVAL, fi_fabric(&s->fabric, NULL, NULL))                         \
	X(fabric_no_name, -FI_ENODEV, fi_fabric(WITH(fabric, name, NULL), OUT(fid_fabric), NULL))  \
	X(fabric_unknown_name, -FI_ENODEV,                                                         \
	  fi_fabric(WITH(fabric, name, s->room), OUT(fid_fabric), NULL))                           \
	X(fabric_unknown_provider, -FI_ENODEV,                                                     \
	  fi_fabric(WITH(fabric, prov_name, s->room), OUT(fid_fabric), NULL))                      \
	X(fabric_newer_version, -FI_ENOSYS,                                                        \
	  fi_fabric(WITH(fabric, api_version, FI_VERSION(9, 9)), OUT(fid_fabric), NULL))           \
	X(fabric2_no_info, -FI_EINVAL, fi_fabric2(NULL, OUT(fid_fabric), 0, NULL))                 \
	X(fabric2_no_attr, -FI_EINVAL,                                                             \
	  fi_fabric2(altered(s, NO_FABRIC_ATTR), OUT(fid_fabric), 0, NULL))                        \
	X(fabric2_flags, -FI_EBADFLAGS, fi_fabric2(A->info, OUT(fid_fabric), 1, NULL))             \
	X(open_no_name, -FI_EINVAL, fi_open(CONF_VERSION, NULL, NULL, 0, 0, OUT(fid), NULL))       \
	X(open_no_result, -FI_EINVAL, fi_open(CONF_VERSION, "mr_cache", NULL, 0, 0, NULL, NULL))   \
	X(open_newer, -FI_ENOSYS, fi_open(FI_VERSION(9, 9), "x", NULL, 0, 0, OUT(fid), NULL))

#define DOMAIN_CASES(X)                                                                            \
	X(domain_no_info, -FI_EINVAL, fi_domain(A->fabric, NULL, OUT(fid_domain), NULL))           \
	X(domain_no_attr, -FI_EINVAL,                                                              \
	  fi_domain(A->fabric, altered(s, NO_DOMAIN_ATTR), OUT(fid_domain), NULL))                 \
	X(domain_no_result, -FI_EINVAL, fi_domain(A->fabric, A->info, NULL, NULL))                 \
	X(domain_no_fabric, -FI_EINVAL, A->fabric->ops->domain(NULL, A->info, OUT(fid_domain), s)) \
	X(domain_not_a_fabric, -FI_EINVAL,                                                         \
	  A->fabric->ops->domain((void *)A->domain, A->info, OUT(fid_domain), s))                  \
	X(domain_no_name, -FI_EINVAL,                                                              \
	  fi_domain(A->fabric, altered(s, NO_DOMAIN_NAME), OUT(fid_domain), NULL))                 \
	X(domain_unknown_name, -FI_EINVAL,                                                         \
	  fi_domain(A->fabric, altered(s, OTHER_DOMAIN_NAME), OUT(fid_domain), NULL))              \
	X(domain_models_and_bits, -FI_EINVAL,                                                      \
	  fi_domain(A->fabric, altered(s, MODEL_AND_BITS), OUT(fid_domain), NULL))                 \
	X(domain_unknown_caps, -FI_EINVAL,                                                         \
	  fi_domain(A->fabric, altered(s, UNKNOWN_CAPS), OUT(fid_domain), NULL))                   \
	X(domain_auth_key, -FI_EINVAL,                                                             \
	  fi_domain(A->fabric, altered(s, DOMAIN_AUTH_KEY), OUT(fid_domain), NULL))                \
	X(domain_flags, -FI_EBADFLAGS, fi_domain2(A->fabric, A->info, OUT(fid_domain), 1, NULL))   \
	X(domain_peer, -FI_ENOSYS, fi_domain2(A->fabric, A->info, OUT(fid_domain), FI_PEER, NULL)) \
	X(domain_bind_nothing, -FI_EINVAL, fi_domain_bind(A->domain, NULL, 0))                     \
	X(domain_bind_cq, -FI_EINVAL, fi_domain_bind(A->domain, &A->tx->fid, 0))                   \
	X(domain_bind_flags, -FI_EBADFLAGS, fi_domain_bind(A->domain, &A->tx->fid, FI_SEND))       \
	X(domain_ops_no_name, -FI_EINVAL, fi_open_ops(&A->domain->fid, NULL, 0, &s->out, NULL))    \
	X(domain_ops_no_result, -FI_EINVAL,                                                        \
	  fi_open_ops(&A->domain->fid, HMREG_DOMAIN_OPS, 0, NULL, NULL))                           \
	X(domain_ops_flags, -FI_EBADFLAGS,                                                         \
	  fi_open_ops(&A->domain->fid, HMREG_DOMAIN_OPS, 1, &s->out, NULL))                        \
	X(stats_no_result, -FI_EINVAL, A->ops->stats(&A->domain->fid, NULL))                       \
	X(stats_no_size, -FI_EINVAL,                                                               \
	  A->ops->stats(&A->domain->fid, &(struct hmreg_domain_stats){ .size = 0 }))               \
	X(stats_not_a_domain, -FI_EINVAL,                                                          \
	  A->ops->stats(&EP->fid, &(struct hmreg_domain_stats){ .size = 40 }))                     \
	X(stats_null, -FI_EINVAL, A->ops->stats(NULL, &(struct hmreg_domain_stats){ .size = 40 }))

#define OPEN_CASES(X)                                                                              \
	X(eq_no_attr, -FI_EINVAL, fi_eq_open(A->fabric, NULL, OUT(fid_eq), NULL))                  \
	X(eq_no_result, -FI_EINVAL, fi_eq_open(A->fabric, &s->eq, NULL, NULL))                     \
	X(eq_flags, -FI_EBADFLAGS, fi_eq_open(A->fabric, WITH(eq, flags, 1), OUT(fid_eq), NULL))   \
	X(eq_wait, -FI_EINVAL,                                                                     \
	  fi_eq_open(A->fabric, WITH(eq, wait_obj, BAD_ENUM(fi_wait_obj)), OUT(fid_eq), NULL))     \
	X(eq_wait_set, -FI_ENOSYS,                                                                 \
	  fi_eq_open(A->fabric, WITH(eq, wait_obj, FI_WAIT_SET), OUT(fid_eq), NULL))               \
	X(av_no_attr, -FI_EINVAL, fi_av_open(A->domain, NULL, OUT(fid_av), NULL))                  \
	X(av_no_result, -FI_EINVAL, fi_av_open(A->domain, &s->av, NULL, NULL))                     \
	X(av_type, -FI_EINVAL,                                                                     \
	  fi_av_open(A->domain, WITH(av, type, BAD_ENUM(fi_av_type)), OUT(fid_av), NULL))          \
	X(av_flags, -FI_EBADFLAGS, fi_av_open(A->domain, WITH(av, flags, 1), OUT(fid_av), NULL))   \
	X(av_shared, -FI_ENOSYS, fi_av_open(A->domain, WITH(av, name, "n"), OUT(fid_av), NULL))    \
	X(av_read, -FI_ENOSYS, fi_av_open(A->domain, WITH(av, flags, FI_READ), OUT(fid_av), s))    \
	X(av_rx_bits, -FI_EINVAL, fi_av_open(A->domain, WITH(av, rx_ctx_bits, 1), OUT(fid_av), s)) \
	X(cq_no_attr, -FI_EINVAL, fi_cq_open(A->domain, NULL, OUT(fid_cq), NULL))                  \
	X(cq_no_result, -FI_EINVAL, fi_cq_open(A->domain, &s->cq, NULL, NULL))                     \
	X(cq_format, -FI_EINVAL,                                                                   \
	  fi_cq_open(A->domain, WITH(cq, format, BAD_ENUM(fi_cq_format)), OUT(fid_cq), NULL))      \
	X(cq_size, -FI_EINVAL, fi_cq_open(A->domain, WITH(cq, size, SIZE_MAX), OUT(fid_cq), NULL)) \
	X(cq_flags, -FI_EBADFLAGS, fi_cq_open(A->domain, WITH(cq, flags, 1), OUT(fid_cq), NULL))   \
	X(cq_xpu, -FI_ENOSYS, fi_cq_open(A->domain, WITH(cq, flags, FI_XPU), OUT(fid_cq), NULL))   \
	X(cq_xpu_ctx, -FI_EINVAL, fi_cq_open(A->domain, WITH(cq, xpu_ctx, LOOSE), OUT(fid_cq), s)) \
	X(cq_wait, -FI_EINVAL,                                                                     \
	  fi_cq_open(A->domain, WITH(cq, wait_obj, BAD_ENUM(fi_wait_obj)), OUT(fid_cq), NULL))     \
	X(cq_wait_mutex, -FI_ENOSYS,                                                               \
	  fi_cq_open(A->domain, WITH(cq, wait_obj, FI_WAIT_MUTEX_COND), OUT(fid_cq), NULL))        \
	X(cq_cond, -FI_EINVAL,                                                                     \
	  fi_cq_open(A->domain,                                                                    \
		     (s->cq.wait_obj = FI_WAIT_FD,                                                 \
		      WITH(cq, wait_cond, BAD_ENUM(fi_cq_wait_cond))),                             \
		     OUT(fid_cq), NULL))                                                           \
	X(cntr_no_attr, -FI_EINVAL, fi_cntr_open(A->domain, NULL, OUT(fid_cntr), NULL))            \
	X(cntr_no_result, -FI_EINVAL, fi_cntr_open(A->domain, &s->cntr, NULL, NULL))               \
	X(cntr_events, -FI_EINVAL,                                                                 \
	  fi_cntr_open(A->domain, WITH(cntr, events, BAD_ENUM(fi_cntr_events)), OUT(fid_cntr), s)) \
	X(cntr_flags, -FI_EBADFLAGS,                                                               \
	  fi_cntr_open(A->domain, WITH(cntr, flags, 1), OUT(fid_cntr), NULL))                      \
	X(cntr_xpu, -FI_ENOSYS,                                                                    \
	  fi_cntr_open(A->domain, WITH(cntr, flags, FI_XPU), OUT(fid_cntr), NULL))                 \
	X(cntr_xpu_ctx, -FI_EINVAL,                                                                \
	  fi_cntr_open(A->domain, WITH(cntr, xpu_ctx, LOOSE), OUT(fid_cntr), NULL))                \
	X(cntr_wait, -FI_EINVAL,                                                                   \
	  fi_cntr_open(A->domain, WITH(cntr, wait_obj, BAD_ENUM(fi_wait_obj)), OUT(fid_cntr), s))

#define ENDPOINT_CASES(X)                                                                          \
	X(ep_no_info, -FI_EINVAL, fi_endpoint(A->domain, NULL, OUT(fid_ep), NULL))                 \
	X(ep_no_result, -FI_EINVAL, fi_endpoint(A->domain, A->info, NULL, NULL))                   \
	X(ep_no_domain, -FI_EINVAL, A->domain->ops->endpoint(NULL, A->info, OUT(fid_ep), NULL))    \
	X(ep_not_a_domain, -FI_EINVAL,                                                             \
	  A->domain->ops->endpoint((void *)A->fabric, A->info, OUT(fid_ep), NULL))                 \
	X(ep_other_domain, -FI_EINVAL,                                                             \
	  fi_endpoint(A->domain, altered(s, OTHER_DOMAIN_NAME), OUT(fid_ep), NULL))                \
	X(ep_type, -FI_EINVAL, fi_endpoint(A->domain, altered(s, EP_TYPE_MSG), OUT(fid_ep), NULL)) \
	X(ep_caps, -FI_EINVAL,                                                                     \
	  fi_endpoint(A->domain, altered(s, UNKNOWN_CAPS), OUT(fid_ep), NULL))                     \
	X(ep_inject_size, -FI_EINVAL,                                                              \
	  fi_endpoint(A->domain, altered(s, INJECT_SIZE), OUT(fid_ep), NULL))                      \
	X(ep_tx_size, -FI_EINVAL, fi_endpoint(A->domain, altered(s, TX_SIZE), OUT(fid_ep), NULL))  \
	X(ep_rx_size, -FI_EINVAL, fi_endpoint(A->domain, altered(s, RX_SIZE), OUT(fid_ep), NULL))  \
	X(ep_tx_flags, -FI_EBADFLAGS,                                                              \
	  fi_endpoint(A->domain, altered(s, TX_FLAGS), OUT(fid_ep), NULL))                         \
	X(ep_rx_flags, -FI_EBADFLAGS,                                                              \
	  fi_endpoint(A->domain, altered(s, RX_FLAGS), OUT(fid_ep), NULL))                         \
	X(ep_message_size, -FI_EINVAL,                                                             \
	  fi_endpoint(A->domain, altered(s, MESSAGE_SIZE), OUT(fid_ep), NULL))                     \
	X(ep_xpu_ctx, -FI_EINVAL,                                                                  \
	  fi_endpoint(A->domain, altered(s, EP_XPU_CTX), OUT(fid_ep), NULL))                       \
	X(ep_auth_key, -FI_EINVAL,                                                                 \
	  fi_endpoint(A->domain, altered(s, EP_AUTH_KEY), OUT(fid_ep), NULL))                      \
	X(ep_source_short, -FI_EINVAL,                                                             \
	  fi_endpoint(A->domain, altered(s, SOURCE_SHORT), OUT(fid_ep), NULL))                     \
	X(ep_source_foreign, -FI_EADDRNOTAVAIL,                                                    \
	  fi_endpoint(A->domain, altered(s, SOURCE_FOREIGN), OUT(fid_ep), NULL))                   \
	X(ep_flags, -FI_EBADFLAGS, fi_endpoint2(A->domain, A->info, OUT(fid_ep), 1, NULL))         \
	X(ep_xpu, -FI_ENOSYS, fi_endpoint2(A->domain, A->info, OUT(fid_ep), FI_XPU, NULL))         \
	X(ep_bind_late, -FI_EOPBADSTATE, fi_ep_bind(EP, &A->av->fid, 0))                           \
	X(ep_enable_twice, -FI_EOPBADSTATE, fi_enable(EP))                                         \
	X(cancel_null, -FI_EINVAL, EP->ops->cancel(NULL, s))                                       \
	X(cancel_not_an_ep, -FI_EINVAL, EP->ops->cancel(&A->av->fid, s))                           \
	X(getname_null, -FI_EINVAL, EP->cm->getname(NULL, s->room, &s->size))                      \
	X(getname_not_an_ep, -FI_EINVAL, EP->cm->getname(&A->av->fid, s->room, &s->size))

#define MESSAGE_CASES(X)                                                                           \
	X(send_nobody, -FI_EINVAL, fi_send(EP, BUF, 8, LOCAL, NOBODY, s))                          \
	X(send_unspec, -FI_EINVAL, fi_send(EP, BUF, 8, LOCAL, FI_ADDR_UNSPEC, s))                  \
	X(send_null_buf, -FI_EINVAL, fi_send(EP, NULL, 8, LOCAL, TO, s))                           \
	X(send_wraps, -FI_EINVAL, fi_send(EP, TOP, 8, LOCAL, TO, s))                               \
	X(send_desc, -FI_EINVAL, fi_send(EP, BUF, 8, LOOSE, TO, s))                                \
	X(send_too_long, -FI_EINVAL, fi_send(EP, BUF, SIZE_MAX - 4096, LOCAL, TO, s))              \
	X(sendv_null, -FI_EINVAL, fi_sendv(EP, NULL, s->desc, 1, TO, s))                           \
	X(sendv_many, -FI_EINVAL, fi_sendv(EP, s->iov, s->desc, MANY, TO, s))                      \
	X(sendv_second, -FI_EINVAL,                                                                \
	  (s->iov[1].iov_base = NULL, fi_sendv(EP, s->iov, s->desc, 2, TO, s)))                    \
	X(sendmsg_null, -FI_EINVAL, fi_sendmsg(EP, NULL, 0))                                       \
	X(sendmsg_nobody, -FI_EINVAL, fi_sendmsg(EP, WITH(msg, addr, NOBODY), 0))                  \
	X(sendmsg_many, -FI_EINVAL, fi_sendmsg(EP, WITH(msg, iov_count, SIZE_MAX), 0))             \
	X(senddata_nobody, -FI_EINVAL, fi_senddata(EP, BUF, 8, LOCAL, 1, NOBODY, s))               \
	X(inject_nobody, -FI_EINVAL, fi_inject(EP, BUF, 8, NOBODY))                                \
	X(inject_null_buf, -FI_EINVAL, fi_inject(EP, NULL, 8, TO))                                 \
	X(inject_too_long, -FI_EINVAL, fi_inject(EP, BUF, SIZE_MAX / 2, TO))                       \
	X(injectdata_nobody, -FI_EINVAL, fi_injectdata(EP, BUF, 8, 1, NOBODY))                     \
	X(recv_null_buf, -FI_EINVAL, fi_recv(EP, NULL, 8, LOCAL, FI_ADDR_UNSPEC, s))               \
	X(recv_wraps, -FI_EINVAL, fi_recv(EP, TOP, 8, LOCAL, FI_ADDR_UNSPEC, s))                   \
	X(recv_desc, -FI_EINVAL, fi_recv(EP, BUF, 8, LOOSE, FI_ADDR_UNSPEC, s))                    \
	X(recvv_null, -FI_EINVAL, fi_recvv(EP, NULL, s->desc, 2, FI_ADDR_UNSPEC, s))               \
	X(recvv_many, -FI_EINVAL, fi_recvv(EP, s->iov, s->desc, MANY, FI_ADDR_UNSPEC, s))          \
	X(recvmsg_null, -FI_EINVAL, fi_recvmsg(EP, NULL, 0))                                       \
	X(recvmsg_many, -FI_EINVAL, fi_recvmsg(EP, WITH(msg, iov_count, MANY), 0))

#define RMA_CASES(X)                                                                               \
	X(write_nobody, -FI_EINVAL, fi_write(EP, BUF, 8, LOCAL, NOBODY, REMOTE, KEY, s))           \
	X(write_null_buf, -FI_EINVAL, fi_write(EP, NULL, 8, LOCAL, TO, REMOTE, KEY, s))            \
	X(write_wraps, -FI_EINVAL, fi_write(EP, TOP, 8, LOCAL, TO, REMOTE, KEY, s))                \
	X(write_desc, -FI_EINVAL, fi_write(EP, BUF, 8, LOOSE, TO, REMOTE, KEY, s))                 \
	X(writev_null, -FI_EINVAL, fi_writev(EP, NULL, s->desc, 1, TO, REMOTE, KEY, s))            \
	X(writev_many, -FI_EINVAL, fi_writev(EP, s->iov, s->desc, MANY, TO, REMOTE, KEY, s))       \
	X(writemsg_null, -FI_EINVAL, fi_writemsg(EP, NULL, 0))                                     \
	X(writemsg_no_remote, -FI_EINVAL, fi_writemsg(EP, WITH(rma_msg, rma_iov, NULL), 0))        \
	X(writemsg_zero_remote, -FI_EINVAL, fi_writemsg(EP, WITH(rma_msg, rma_iov_count, 0), 0))   \
	X(writemsg_many_remote, -FI_EINVAL,                                                        \
	  fi_writemsg(EP, WITH(rma_msg, rma_iov_count, MANY), 0))                                  \
	X(writemsg_many_local, -FI_EINVAL, fi_writemsg(EP, WITH(rma_msg, iov_count, MANY), 0))     \
	X(writemsg_no_local, -FI_EINVAL, fi_writemsg(EP, WITH(rma_msg, msg_iov, NULL), 0))         \
	X(writedata_nobody, -FI_EINVAL,                                                            \
	  fi_writedata(EP, BUF, 8, LOCAL, 1, NOBODY, REMOTE, KEY, s))                              \
	X(inject_write_nobody, -FI_EINVAL, fi_inject_write(EP, BUF, 8, NOBODY, REMOTE, KEY))       \
	X(inject_write_null, -FI_EINVAL, fi_inject_write(EP, NULL, 8, TO, REMOTE, KEY))            \
	X(inject_writedata_null, -FI_EINVAL, fi_inject_writedata(EP, NULL, 8, 1, TO, REMOTE, KEY)) \
	X(read_nobody, -FI_EINVAL, fi_read(EP, BUF, 8, LOCAL, NOBODY, REMOTE, KEY, s))             \
	X(read_null_buf, -FI_EINVAL, fi_read(EP, NULL, 8, LOCAL, TO, REMOTE, KEY, s))              \
	X(read_desc, -FI_EINVAL, fi_read(EP, BUF, 8, LOOSE, TO, REMOTE, KEY, s))                   \
	X(readv_null, -FI_EINVAL, fi_readv(EP, NULL, s->desc, 1, TO, REMOTE, KEY, s))              \
	X(readv_many, -FI_EINVAL, fi_readv(EP, s->iov, s->desc, MANY, TO, REMOTE, KEY, s))         \
	X(readmsg_null, -FI_EINVAL, fi_readmsg(EP, NULL, 0))                                       \
	X(readmsg_no_remote, -FI_EINVAL, fi_readmsg(EP, WITH(rma_msg, rma_iov, NULL), 0))

#define ATOMIC_ARGS TO, REMOTE, KEY, FI_UINT64, FI_SUM
#define ATOMIC_CASES(X)                                                                            \
	X(atomic_nobody, -FI_EINVAL,                                                               \
	  fi_atomic(EP, BUF, 1, LOCAL, NOBODY, REMOTE, KEY, FI_UINT64, FI_SUM, s))                 \
	X(atomic_null_buf, -FI_EINVAL, fi_atomic(EP, NULL, 1, LOCAL, ATOMIC_ARGS, s))              \
	X(atomic_desc, -FI_EINVAL, fi_atomic(EP, BUF, 1, LOOSE, ATOMIC_ARGS, s))                   \
	X(atomic_type, -FI_EOPNOTSUPP,                                                             \
	  fi_atomic(EP, BUF, 1, LOCAL, TO, REMOTE, KEY, FI_VOID, FI_SUM, s))                       \
	X(atomic_op, -FI_EOPNOTSUPP,                                                               \
	  fi_atomic(EP, BUF, 1, LOCAL, TO, REMOTE, KEY, FI_UINT64, FI_NOOP, s))                    \
	X(atomicv_null, -FI_EINVAL, fi_atomicv(EP, NULL, s->desc, 1, ATOMIC_ARGS, s))              \
	X(atomicv_many, -FI_EINVAL, fi_atomicv(EP, s->ioc, s->desc, MANY, ATOMIC_ARGS, s))         \
	X(atomicmsg_null, -FI_EINVAL, fi_atomicmsg(EP, NULL, 0))                                   \
	X(atomicmsg_no_remote, -FI_EINVAL, fi_atomicmsg(EP, WITH(atomic_msg, rma_iov, NULL), 0))   \
	X(atomicmsg_many_remote, -FI_EINVAL,                                                       \
	  fi_atomicmsg(EP, WITH(atomic_msg, rma_iov_count, MANY), 0))                              \
	X(inject_atomic_null, -FI_EINVAL, fi_inject_atomic(EP, NULL, 1, ATOMIC_ARGS))              \
	X(fetch_null_result, -FI_EINVAL,                                                           \
	  fi_fetch_atomic(EP, BUF, 1, LOCAL, NULL, LOCAL, ATOMIC_ARGS, s))                         \
	X(fetchv_no_result, -FI_EINVAL,                                                            \
	  fi_fetch_atomicv(EP, s->ioc, s->desc, 1, NULL, s->desc, 1, ATOMIC_ARGS, s))              \
	X(fetchmsg_null, -FI_EINVAL, fi_fetch_atomicmsg(EP, NULL, s->ioc, s->desc, 1, 0))          \
	X(fetchmsg_many_results, -FI_EINVAL,                                                       \
	  fi_fetch_atomicmsg(EP, &s->atomic_msg, s->ioc, s->desc, MANY, 0))                        \
	X(compare_null_compare, -FI_EINVAL,                                                        \
	  fi_compare_atomic(EP, BUF, 1, LOCAL, NULL, LOCAL, BUF, LOCAL, TO, REMOTE, KEY,           \
			    FI_UINT64, FI_CSWAP, s))                                               \
	X(comparemsg_null, -FI_EINVAL,                                                             \
	  fi_compare_atomicmsg(EP, NULL, s->ioc, s->desc, 1, s->ioc, s->desc, 1, 0))               \
	X(comparemsg_no_compare, -FI_EINVAL,                                                       \
	  fi_compare_atomicmsg(EP, WITH(atomic_msg, op, FI_CSWAP), NULL, s->desc, 1, s->ioc,       \
			       s->desc, 1, 0))                                                     \
	X(query_no_result, -FI_EINVAL, fi_query_atomic(A->domain, FI_UINT64, FI_SUM, NULL, 0))

#define REGION_CASES(X)                                                                            \
	X(mr_bind_nothing, -FI_EINVAL, fi_mr_bind(s->l.local->mr, NULL, 0))                        \
	X(mr_bind_av, -FI_EINVAL, fi_mr_bind(s->l.local->mr, &A->av->fid, 0))                      \
	X(mr_enable_twice, -FI_EOPBADSTATE, fi_mr_enable(s->l.local->mr))                          \
	X(mr_refresh_flags, -FI_EBADFLAGS, fi_mr_refresh(s->l.local->mr, NULL, 0, 1))              \
	X(mr_raw_no_size, -FI_EINVAL, fi_mr_raw_attr(s->l.local->mr, NULL, NULL, NULL, 0))         \
	X(mr_raw_no_arg, -FI_EINVAL, fi_control(&s->l.local->mr->fid, FI_GET_RAW_MR, NULL))        \
	X(mr_refresh_no_arg, -FI_EINVAL, fi_control(&s->l.local->mr->fid, FI_REFRESH, NULL))       \
	X(map_no_arg, -FI_EINVAL, fi_control(&A->domain->fid, FI_MAP_RAW_MR, NULL))                \
	X(unmap_no_arg, -FI_EINVAL, fi_control(&A->domain->fid, FI_UNMAP_KEY, NULL))               \
	X(unmap_unknown, -FI_EINVAL, fi_mr_unmap_key(A->domain, 0x77777))                          \
	X(xpu_desc_no_arg, -FI_EINVAL, fi_control(&s->l.local->mr->fid, FI_GET_MR_XPU_DESC, NULL)) \
	X(xpu_desc_no_len, -FI_EINVAL, fi_mr_get_xpu_desc(s->l.local->mr, s->room, NULL, 0, NULL)) \
	X(xpu_desc_no_buf, -FI_EINVAL,                                                             \
	  fi_mr_get_xpu_desc(s->l.local->mr, NULL, &s->size, 0, NULL))                             \
	X(xpu_desc_short, -FI_ETOOSMALL,                                                           \
	  (s->size = 1, fi_mr_get_xpu_desc(s->l.local->mr, s->room, &s->size, 0, NULL)))           \
	X(xpu_desc_ctx, -FI_EINVAL,                                                                \
	  fi_mr_get_xpu_desc(s->l.local->mr, s->room, &s->size, 0, LOOSE))                         \
	X(xpu_desc_flags, -FI_EINVAL,                                                              \
	  fi_mr_get_xpu_desc(s->l.local->mr, s->room, &s->size, FI_XPU, LOOSE))

#define QUEUE_CASES(X)                                                                             \
	X(cq_read_null, -FI_EINVAL, fi_cq_read(A->tx, NULL, 1))                                    \
	X(cq_readerr_null, -FI_EINVAL, fi_cq_readerr(A->tx, NULL, 0))                              \
	X(cq_readerr_flags, -FI_EBADFLAGS,                                                         \
	  fi_cq_readerr(A->tx, &(struct fi_cq_err_entry){ 0 }, 1))                                 \
	X(cq_sread_none, -FI_ENOSYS, fi_cq_sread(A->tx, s->room, 1, NULL, 0))                      \
	X(cq_signal_none, -FI_ENOSYS, fi_cq_signal(A->tx))                                         \
	X(cq_getwait_none, -FI_ENODATA, fi_control(&A->tx->fid, FI_GETWAIT, s->room))              \
	X(cq_getwait_null, -FI_EINVAL, fi_control(&A->tx->fid, FI_GETWAIT, NULL))                  \
	X(av_insert_null, -FI_EINVAL, fi_av_insert(A->av, NULL, 1, &s->number, 0, NULL))           \
	X(av_insert_many, -FI_EINVAL, fi_av_insert(A->av, s->room, SIZE_MAX, &s->number, 0, s))    \
	X(av_insert_flags, -FI_EBADFLAGS, fi_av_insert(A->av, s->room, 1, &s->number, 1, NULL))    \
	X(av_remove_null, -FI_EINVAL, fi_av_remove(A->av, NULL, 1, 0))                             \
	X(av_remove_unknown, -FI_EINVAL, fi_av_remove(A->av, &(fi_addr_t){ NOBODY }, 1, 0))        \
	X(av_lookup_unknown, -FI_EINVAL, fi_av_lookup(A->av, NOBODY, s->room, &s->size))           \
	X(av_lookup_null, -FI_EINVAL, fi_av_lookup(A->av, TO, NULL, &s->size))                     \
	X(av_lookup2_flags, -FI_EBADFLAGS, fi_av_lookup2(A->av, TO, s->room, &s->size, 1, NULL))   \
	X(av_lookup2_xpu, -FI_ENOSYS, fi_av_lookup2(A->av, TO, s->room, &s->size, FI_XPU, LOOSE))  \
	X(av_lookup2_ctx, -FI_EINVAL, fi_av_lookup2(A->av, TO, s->room, &s->size, 0, LOOSE))       \
	X(trywait_null, -FI_EINVAL, fi_trywait(A->fabric, NULL, 1))                                \
	X(trywait_count, -FI_EINVAL, fi_trywait(A->fabric, (struct fid *[]){ &A->tx->fid }, -1))

#define ALL_CASES(X)                                                                               \
	ROOT_CASES(X)                                                                              \
	DOMAIN_CASES(X)                                                                            \
	OPEN_CASES(X)                                                                              \
	ENDPOINT_CASES(X)                                                                          \
	MESSAGE_CASES(X) RMA_CASES(X) ATOMIC_CASES(X) REGION_CASES(X) QUEUE_CASES(X)

#define FUNCTION(name, code, ...)                                                                  \
	static long m_##name(struct scene *s)                                                      \
	{                                                                                          \
		(void)s;                                                                           \
		return (long)(__VA_ARGS__);                                                        \
	}
ALL_CASES(FUNCTION)

#define ROW(name, code, ...) { #name, m_##name, code },
static const struct row {
	const char *name;
	long (*call)(struct scene *s);
	int code;
} rows[] = { ALL_CASES(ROW) };

static void misuse_api_20_every_call(struct conf *c)
{
	static struct scene s;
	uint8_t before[64];

	memset(&s, 0, sizeof(s));
	conf_link(c, NULL, 64, &s.l);
	memcpy(before, s.l.src, 64);
	for (size_t i = 0; i < count_of(rows); i++) {
		struct hmreg_domain_stats was = conf_stats(s.l.a), is;
		long ret;

		reset(&s);
		conf_log_mark(__FILE__, __LINE__);
		ret = rows[i].call(&s);
		conf_check_code(ret, rows[i].code, rows[i].name, __FILE__, __LINE__);
		conf_log_expect(1, NULL, rows[i].name, __FILE__, __LINE__);
		if (s.out != UNTOUCHED)
			fail_msg("%s: an output was written", rows[i].name);
		is = conf_stats(s.l.a);
		assert_memory_equal(&was, &is, sizeof(was));
		assert_memory_equal(before, s.l.src, 64);
		conf_quiet(s.l.a->tx);
		conf_quiet(s.l.b->rx);
	}
	reset(&s);
	conf_works(&s.l);
}

/* Flags of the calls that have some, one by one. */
static void misuse_api_20_every_flag(struct conf *c)
{
	static struct scene s;
	const uint64_t common = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
				FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE |
				FI_FENCE | FI_MORE | HMREG_NO_CACHE;

	memset(&s, 0, sizeof(s));
	conf_link(c, &(struct conf_opts){ .caps = CONF_CAPS | FI_FENCE }, 64, &s.l);
	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t flag = UINT64_C(1) << bit;

		reset(&s);
		if (!(flag & (common | FI_REMOTE_CQ_DATA))) {
			assert_refused(fi_sendmsg(s.l.a->ep, &s.msg, flag), -FI_EBADFLAGS);
			assert_refused(fi_writemsg(s.l.a->ep, &s.rma_msg, flag), -FI_EBADFLAGS);
		}
		if (!(flag & common & ~FI_INJECT))
			assert_refused(fi_readmsg(s.l.a->ep, &s.rma_msg, flag), -FI_EBADFLAGS);
		if (!(flag & (FI_COMPLETION | FI_MORE | HMREG_NO_CACHE)))
			assert_refused(fi_recvmsg(s.l.a->ep, &s.msg, flag), -FI_EBADFLAGS);
		if (!(flag & common)) {
			assert_refused(fi_atomicmsg(s.l.a->ep, &s.atomic_msg, flag), -FI_EBADFLAGS);
			assert_refused(fi_fetch_atomicmsg(s.l.a->ep, &s.atomic_msg, s.ioc, s.desc,
							  1, flag),
				       -FI_EBADFLAGS);
		}
		conf_quiet(s.l.a->tx);
	}
	conf_works(&s.l);
}

static const struct conf_case cases[] = {
	CONF(misuse_api_20_every_call),
	CONF(misuse_api_20_every_flag),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
