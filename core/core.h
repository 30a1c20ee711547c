/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The objects an application holds, and who references whom.
 *
 *   fabric <- domain <- ep, av, cq, cntr, mr, mapped key       fabric <- eq
 *   av, cq, cntr <- ep      av, cntr, ep <- mr      eq <- domain, av, ep
 *
 * "x <- y": y holds one use of x.  Closing an object in use is -FI_EBUSY and changes nothing.
 *
 * An XPU context is its domain's, and what belongs to one holds one of its users.
 *
 * Lock order, outermost first; a thread takes locks downwards only:
 *   0. xpu_engine.lock (xpu/xpu.h)
 *   1. hm_mr_domain.map_lock, hm_mr_domain.local_lock, hm_ep.lock
 *   2. sw endpoint receive lock
 *   3. nic_av.lock
 *   4. nic_cq.lock
 *   5. hm_eq.lock
 *   6. key table slot or index, then grow lock
 *   7. hm_wait.lock
 *   8. the log's sink
 *
 * Those of registration caches and what tells them of changed memory (core/mr/), inside 1 and 2, outside 7:
 *   a. monitor_import.c, then monitor.c: which monitor there is, and who has joined
 *   b. stats.c: turn, then lock
 *   c. local_owner.c, then interfaces' (hmem/rocr_gone.c)
 *   d. hm_cache: in a fork the list of all (cache_life.c) and reap_lock before wait_lock before the stripes';
 *      else wait_lock alone, and reap_lock or a stripe's before queue_lock
 *   e. monitor_choose.c, also inside a or b; monitor_uffd.c, core/base/held.c: each alone
 *   f. monitor_hooks_elf.c: inside the loader's, outside that of the loader's list
 * Under a, d, e and f no region is made or ended, nothing is allocated or freed, and of the program's nothing
 * but its log is called.  Who reports that memory changes takes none of them.
 *
 * Alone, with at most the log inside: the virtual ports' (sw_port.c), the atomic engine's
 * (sw_atomic.c), that of defined parameters (params_api.c), that of contexts' elements (xpu/ctx.c).
 * Innermost: authorization keys' (base/auth.c).
 */
#ifndef HM_CORE_H
#define HM_CORE_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_xpu.h>

#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/range.h"
#include "core/mr/mr.h"
#include "core/nic/nic.h"
#include "core/xpu.h"

/* The interface version this library implements; fi_version() says it, a newer request is -FI_ENOSYS. */
#define HM_API_VERSION	 FI_VERSION(2, 7)
#define HM_PROVIDER_NAME "hmreg"

struct hm_fabric {
	struct fid_fabric fabric;
	const char *name;	/* the port's constant name */
	_Atomic uint32_t users; /* domains and event queues */
};

struct hm_domain {
	struct fid_domain domain;
	struct hm_fabric *fabric; /* holds one of its users */
	uint32_t api_version;
	bool ignores_desc; /* interface below 1.22: desc is ignored unless local registration was agreed */
	struct hm_mr_domain mr; /* regions and keys; mr.nic is nic */
	struct hm_eq *reg_eq;	/* FI_REG_MR; holds one of its users; NULL: synchronous */
	struct hm_eq *eq; /* bound with flags 0: no event of a domain goes there; one of its users */
	_Atomic uint32_t
		users; /* ep, av, cq, cntr; regions and mapped keys are counted by their tables */
	_Atomic uint32_t endpoints;
	_Atomic(struct hm_xpu_ctx *) contexts; /* HM_XPU_CTX_MAX, owned; NULL: none was opened yet */
	struct nic_domain
		*nic; /* owned; ops->domain_size bytes; has the caps agreed and the default key */
};

struct hm_av {
	struct fid_av av;
	struct hm_domain *domain; /* holds one of its users */
	struct hm_eq *eq;	  /* FI_EVENT completions; holds one of its users */
	uint64_t flags;
	struct nic_av nic;
};

struct hm_cq {
	struct fid_cq cq;
	struct hm_domain *domain; /* holds one of its users */
	enum fi_cq_format format; /* never FI_CQ_FORMAT_UNSPEC */
	enum fi_cq_wait_cond wait_cond;
	struct hm_xpu_ctx *xpu;		    /* holds one of its users; NULL: the host's */
	_Atomic(struct hm_xpu_part *) part; /* NULL: not exported */
	struct nic_cq nic;
};

struct hm_cntr {
	struct fid_cntr cntr;
	struct hm_domain *domain;     /* holds one of its users */
	_Atomic uint64_t errors_seen; /* errors when the application was last told of them */
	_Atomic uint64_t value_tried, errors_tried; /* what the last fi_trywait was about */
	struct hm_xpu_ctx *xpu;			    /* holds one of its users; NULL: the host's */
	_Atomic(struct hm_xpu_part *) part;	    /* NULL: not exported */
	struct nic_cntr nic;
};

/* One queued event: data is a struct fi_eq_entry or fi_eq_err_entry, or what fi_eq_write gave. */
struct hm_eq_event {
	struct hm_list link;
	uint32_t event;
	size_t len;
	_Alignas(max_align_t) uint8_t data[];
};

struct hm_eq {
	struct fid_eq eq;
	struct hm_fabric *fabric; /* holds one of its users */
	bool writable;		  /* FI_WRITE was asked for */
	pthread_mutex_t lock;	  /* protects both lists */
	struct hm_list events;	  /* hm_eq_event, owned */
	struct hm_list errors; /* hm_eq_event, owned; these must be read first, as fi_eq(3) says */
	struct hm_wait wait;
	_Atomic uint32_t users; /* domains, address vectors, endpoints bound */
};

struct hm_ep {
	struct fid_ep ep;
	struct hm_domain *domain; /* holds one of its users */
	struct hm_av *av;	  /* each bound object: holds one of its users */
	struct hm_eq *eq;
	struct hm_cq *tx_cq, *rx_cq;
	struct hm_cntr *cntr[NIC_CNTR_SLOTS];
	pthread_mutex_t lock; /* protects binding against enable */
	_Atomic bool enabled;
	bool tx_selective;
	uint64_t caps;
	_Atomic uint64_t tx_op_flags, rx_op_flags; /* FI_SETOPSFLAG may change them at any time */
	size_t inject_size, iov_limit, rma_iov_limit, max_msg_size;
	uint32_t local; /* NIC_LOCAL_*: for these, buffers without a descriptor are registered */
	size_t local_copied;
	struct hm_xpu_ctx *xpu;		    /* holds one of its users; NULL: the host's */
	_Atomic(struct hm_xpu_part *) part; /* NULL: not exported */
	struct nic_ep *nic;		    /* owned; ops->ep_size bytes */
};

/* ---- down-casts, checked in debug builds ---- */
#define HM_CAST(type, member, fclass_value)                                                        \
	static inline struct hm_##type *hm_##type##_of(struct fid *fid)                            \
	{                                                                                          \
		assert(fid && fid->fclass == (fclass_value));                                      \
		return (struct hm_##type *)((char *)fid - offsetof(struct hm_##type, member.fid)); \
	}
HM_CAST(fabric, fabric, FI_CLASS_FABRIC)
HM_CAST(domain, domain, FI_CLASS_DOMAIN)
HM_CAST(av, av, FI_CLASS_AV)
HM_CAST(cq, cq, FI_CLASS_CQ)
HM_CAST(cntr, cntr, FI_CLASS_CNTR)
HM_CAST(eq, eq, FI_CLASS_EQ)
HM_CAST(ep, ep, FI_CLASS_EP)
HM_CAST(mr, mr, FI_CLASS_MR)

/*
 * The object ends here: debug builds assert on any use of it after this.  Volatile, since a compiler
 * may drop a plain store to memory that is freed next.
 */
static inline void hm_fid_end(struct fid *fid)
{
	__atomic_store_n((volatile size_t *)&fid->fclass, FI_CLASS_UNSPEC, __ATOMIC_RELAXED);
}

/* ---- uses (hm_use, hm_unuse: core/base/use.h) ---- */
/* 0, or -FI_EBUSY with one log line. */
int hm_check_unused(_Atomic uint32_t *users, const char *what);

/* ---- refusals for ops slots that an object does not have: each returns -FI_ENOSYS ---- */
int hm_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
int hm_no_control(struct fid *fid, int command, void *arg);
int hm_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int hm_no_tostr(const struct fid *fid, char *buf, size_t len);
int hm_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);

/* ---- what hmreg adds (fi_ext_hmreg.h) ---- */

/* fi_open_ops of an object that has one extension table of this name; subsys and call name it in the log. */
int hm_ext_open(struct fid *fid, enum fi_log_subsys subsys, const char *name, uint64_t flags,
		void **ops, const char *ext_name, void *ext_ops);
/*
 * May a struct that begins with its size be filled: fid is of this class, and out has room?  size points
 * to it, or is NULL.  -FI_EINVAL with one log line that says what was asked for.
 */
int hm_ext_check(const struct fid *fid, size_t fclass, const size_t *size,
		 enum fi_log_subsys subsys, const char *what);
/* Hand out as much of a filled struct as the caller's has, which says how much in its size. */
void hm_ext_give(void *out, void *filled, size_t size);

/* ---- regions that one handle holds (mr_multi.c); mr_object.c ---- */

/* As fi_mr_regattr(3), of base if that is not NULL; without an event, and closed by its handle alone. */
int hm_mr_part_open(struct hm_domain *domain, const struct fi_mr_attr *attr, struct fid_mr *base,
		    uint64_t flags, struct fid_mr **out);
/* The halves of closing: hm_mr_begin_close and its kin.  mr is free after a close that returns 0. */
int hm_mr_part_begin_close(struct fid_mr *mr);
void hm_mr_part_cancel_close(struct fid_mr *mr);
int hm_mr_part_close(struct fid_mr *mr);
/* Between the halves, of one that no program has heard of: it ends now, or with its domain. */
void hm_mr_part_abandon(struct fid_mr *mr);

/* ---- constructors behind the ops tables ---- */
extern struct fi_ops_mr hm_mr_ops;
extern struct hmreg_hmem_ops hm_hmem_ext_ops;
extern struct hmreg_topology_ops hm_topology_ext_ops;
extern struct hmreg_multi_ops hm_multi_ext_ops;
/* fi_fabric for a caller that means this library, whatever provider attr names. */
int hm_fabric_open(const struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int hm_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		   void *context);
int hm_domain_open2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		    uint64_t flags, void *context);
/* As hm_domain_open, over what the program has of the device; checked to be there. */
int hm_domain_open_over(struct fid_fabric *fabric, struct fi_info *info,
			const struct hmreg_verbs_adopt *adopt, struct fid_domain **domain,
			void *context);
/* fi_open("mr_cache") */
int hm_mr_cache_open(size_t attr_len, uint64_t flags, struct fid **fid, void *context);
int hm_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
	       void *context);
int hm_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
	       void *context);
int hm_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
	       void *context);
int hm_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
		 void *context);
int hm_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int hm_ep_open2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags,
		void *context);
int hm_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
		    struct fi_atomic_attr *attr, uint64_t flags);
int hm_xpu_ctx_open(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx,
		    void *context);

/* Append an event; -FI_ENOMEM with one log line.  Never blocks. */
int hm_eq_push(struct hm_eq *eq, uint32_t event, const struct fi_eq_entry *entry);
/* Append an error, which goes before all events; it brings no err_data. */
int hm_eq_push_error(struct hm_eq *eq, const struct fi_eq_err_entry *error);

/* fi_trywait for one object: 0, -FI_EAGAIN, or -FI_EINVAL with one log line where it has no fd. */
int hm_cq_trywait(struct hm_cq *cq);
int hm_cntr_trywait(struct hm_cntr *cntr);
int hm_eq_trywait(struct hm_eq *eq);

/* Let the NIC move on what has no thread of its own: for readers that find nothing. */
static inline void hm_progress(const struct hm_domain *domain)
{
	domain->nic->ops->progress(domain->nic);
}

/*
 * The port that an info of fi_getinfo stands for: by fabric and domain name; among several of the same
 * name the one with the info's addr_format, else the first.  NULL: none.
 */
const struct nic_port *hm_info_port(const struct fi_info *info);

/* Once, before any other work of an exported function (core/init.c). */
void hm_init(void);

#endif
