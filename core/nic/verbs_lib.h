/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs and librdmacm, loaded when ports are looked for first, so that a program runs on machines
 * that have neither.  Each slot has the type of the library's own declaration.  The inline functions of
 * infiniband/verbs.h that go through the context's operations alone (ibv_post_send, ibv_poll_cq,
 * ibv_req_notify_cq, ibv_post_srq_recv, ibv_advise_mr, and those of memory windows) are used as they are; everything else through
 * these tables, as verbs.reg_mr_iova2(...) or cm.connect(...).  ibv_query_port and ibv_query_device_ex
 * are inline, but call the library: verbs_query_port and verbs_query_device_ex stand for them.
 */
#ifndef VERBS_LIB_H
#define VERBS_LIB_H

#include <errno.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

/* ibv_query_port and some others are macros over functions in verbs.h: the tables want the functions. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define VERBS_FUNCTIONS(X)                                                                         \
	X(get_device_list)                                                                         \
	X(free_device_list)                                                                        \
	X(get_device_name)                                                                         \
	X(open_device)                                                                             \
	X(close_device)                                                                            \
	X(query_device)                                                                            \
	X(query_port)                                                                              \
	X(query_gid)                                                                               \
	X(alloc_pd)                                                                                \
	X(dealloc_pd)                                                                              \
	X(reg_mr)                                                                                  \
	X(reg_mr_iova2)                                                                            \
	X(dereg_mr)                                                                                \
	X(rereg_mr)                                                                                \
	X(create_comp_channel)                                                                     \
	X(destroy_comp_channel)                                                                    \
	X(create_cq)                                                                               \
	X(destroy_cq)                                                                              \
	X(get_cq_event)                                                                            \
	X(ack_cq_events)                                                                           \
	X(create_srq)                                                                              \
	X(destroy_srq)                                                                             \
	X(create_qp)                                                                               \
	X(modify_qp)                                                                               \
	X(destroy_qp)                                                                              \
	X(get_async_event)                                                                         \
	X(ack_async_event)                                                                         \
	X(event_type_str)                                                                          \
	X(wc_status_str)                                                                           \
	X(fork_init)

#define CM_FUNCTIONS(X)                                                                            \
	X(create_event_channel)                                                                    \
	X(destroy_event_channel)                                                                   \
	X(create_id)                                                                               \
	X(destroy_id)                                                                              \
	X(bind_addr)                                                                               \
	X(listen)                                                                                  \
	X(resolve_addr)                                                                            \
	X(resolve_route)                                                                           \
	X(connect)                                                                                 \
	X(accept)                                                                                  \
	X(reject)                                                                                  \
	X(establish)                                                                               \
	X(disconnect)                                                                              \
	X(get_cm_event)                                                                            \
	X(ack_cm_event)                                                                            \
	X(init_qp_attr)                                                                            \
	X(event_str)

/*
 * Of these, three are younger than the rest.  Where the library lacks one, its slot has a stand-in:
 * reg_dmabuf_mr fails with EOPNOTSUPP, is_fork_initialized says IBV_FORK_DISABLED, query_gid_ex reads
 * the table entry of older libraries and its type from sysfs.
 */
struct verbs_lib {
#define VERBS_SLOT(name) __typeof__(ibv_##name) *name;
	VERBS_FUNCTIONS(VERBS_SLOT)
#undef VERBS_SLOT
	__typeof__(ibv_reg_dmabuf_mr) *reg_dmabuf_mr;
	__typeof__(ibv_is_fork_initialized) *is_fork_initialized;
	__typeof__(_ibv_query_gid_ex) *query_gid_ex;
};

struct cm_lib {
#define CM_SLOT(name) __typeof__(rdma_##name) *name;
	CM_FUNCTIONS(CM_SLOT)
#undef CM_SLOT
};

extern struct verbs_lib verbs;
extern struct cm_lib cm;

/* How many forks lie between the process that loaded the libraries and this one. */
extern _Atomic unsigned int verbs_forks;

/*
 * Load both, once; later calls give the first answer.  -FI_ENOSYS: libibverbs.so.1 or librdmacm.so.1 is
 * not there or lacks a function, with one line at level info that says which.
 */
int verbs_lib_load(void);

/* 0 or an errno, of a call that returns one, or -1 with errno set. */
static inline int verbs_errno(int ret)
{
	if (ret >= 0)
		return ret;
	return errno ? errno : EIO;
}

/* 0 or an errno, as ibv_query_port(3) and ibv_query_device_ex(3) have it. */
int verbs_query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr);
int verbs_query_device_ex(struct ibv_context *context, struct ibv_device_attr_ex *attr);

#endif
