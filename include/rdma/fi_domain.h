/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Domains, memory regions and address vectors. fi_domain(3), fi_mr(3), fi_av(3)
 *
 * All calls are thread safe unless the domain was opened with a weaker threading model; only
 * fi_close() must not race with another use of the same object. Lengths, offsets and sizes are in
 * bytes. Outputs are written on success only, unless a call says otherwise.
 */
#ifndef FI_DOMAIN_H
#define FI_DOMAIN_H

#include <string.h>
#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_atomic_attr;
struct fi_collective_attr;
struct fi_xpu_attr;

/* Flags of address vectors and of their insertions. fi_av(3) */
#define FI_SYMMETRIC (1ULL << 59)
#define FI_SYNC_ERR  (1ULL << 58)
#define FI_UNIVERSE  (1ULL << 57)

/* Collectives an address set will serve. fi_av_set(3) */
#define FI_BARRIER_SET	      (1ULL << 40)
#define FI_BROADCAST_SET      (1ULL << 41)
#define FI_ALLTOALL_SET	      (1ULL << 42)
#define FI_ALLREDUCE_SET      (1ULL << 43)
#define FI_ALLGATHER_SET      (1ULL << 44)
#define FI_REDUCE_SCATTER_SET (1ULL << 45)
#define FI_REDUCE_SET	      (1ULL << 46)
#define FI_SCATTER_SET	      (1ULL << 47)
#define FI_GATHER_SET	      (1ULL << 48)

/* Registration flags. fi_mr(3) */
#define FI_MR_DMABUF	    (1ULL << 40) /* the region is attr->dmabuf */
#define FI_MR_SINGLE_USE    (1ULL << 41) /* one remote operation, then the key is dead */
#define FI_HMEM_HOST_ALLOC  (1ULL << 45) /* host memory from the device's allocator */
#define FI_HMEM_DEVICE_ONLY (1ULL << 46) /* memory the host cannot touch */
#define FI_REG_MR	    FI_DEPRECATED_VALUE(1ULL << 59) /* fi_domain_bind(): report through an EQ */

/* Name of the table a program gives to fi_set_ops() to copy device memory itself. */
#define FI_SET_OPS_HMEM_OVERRIDE "hmem_override_ops"

/* Attributes of an address vector; name and map_addr serve vectors shared by name. fi_av(3) */
struct fi_av_attr {
	enum fi_av_type type;
	int rx_ctx_bits;
	size_t count;
	size_t ep_per_node;
	const char *name;
	void *map_addr;
	uint64_t flags;
};

/* Members of an address set; comm_key stays the caller's. fi_av_set(3) */
struct fi_av_set_attr {
	size_t count;
	fi_addr_t start_addr;
	fi_addr_t end_addr;
	uint64_t stride;
	size_t comm_key_size;
	uint8_t *comm_key;
	uint64_t flags;
};

/* Operations of an address vector. */
struct fi_ops_av {
	size_t size;
	int (*insert)(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr,
		      uint64_t flags, void *context);
	int (*insertsvc)(struct fid_av *av, const char *node, const char *service,
			 fi_addr_t *fi_addr, uint64_t flags, void *context);
	int (*insertsym)(struct fid_av *av, const char *node, size_t nodecnt, const char *service,
			 size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context);
	int (*remove)(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags);
	int (*lookup)(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen);
	const char *(*straddr)(struct fid_av *av, const void *addr, char *buf, size_t *len);
	int (*av_set)(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set,
		      void *context);
	int (*insert_auth_key)(struct fid_av *av, const void *auth_key, size_t auth_key_size,
			       fi_addr_t *fi_addr, uint64_t flags);
	int (*lookup_auth_key)(struct fid_av *av, fi_addr_t addr, void *auth_key,
			       size_t *auth_key_size);
	int (*set_user_id)(struct fid_av *av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags);
	int (*lookup2)(struct fid_av *av, fi_addr_t fi_addr, void *buf, size_t *len, uint64_t flags,
		       struct fid_xpu_ctx *ctx);
};

/* Maps transport addresses to fi_addr_t. fi_av(3) */
struct fid_av {
	struct fid fid;
	struct fi_ops_av *ops;
};

/*
 * A registered memory region. mem_desc and key are kept right at all times, since fi_mr_desc() and
 * fi_mr_key() read them without a call. fi_mr(3)
 */
struct fid_mr {
	struct fid fid;
	void *mem_desc;
	uint64_t key;
};

/* Whose memory a region is. fi_mr(3) */
enum fi_hmem_iface {
	FI_HMEM_SYSTEM = 0,
	FI_HMEM_CUDA,
	FI_HMEM_ROCR,
	FI_HMEM_ZE,
	FI_HMEM_NEURON,
	FI_HMEM_SYNAPSEAI
};

/*
 * A Level Zero device as struct fi_mr_attr wants it: the driver's index in the upper, the device's
 * in the lower 16 bits. fi_mr(3)
 */
static inline int fi_hmem_ze_device(int driver_index, int device_index)
{
	return (int)((unsigned int)driver_index << 16 | (unsigned int)device_index);
}

/* Part of a dma-buf: fd stays the caller's and may be closed after registration. fi_mr(3) */
struct fi_mr_dmabuf {
	int fd;
	uint64_t offset;
	size_t len;
	void *base_addr;
};

/* An authorization key by its handle in an address vector (FI_AV_AUTH_KEY). fi_mr(3) */
struct fi_mr_auth_key {
	struct fid_av *av;
	fi_addr_t src_addr;
};

/*
 * What to register: buffers (or, with FI_MR_DMABUF, a dma-buf), rights, key and device. Everything
 * it points to stays the caller's and is not used after the call, apart from base_mr. fi_mr(3)
 */
struct fi_mr_attr {
	__extension__ union {
		const struct iovec *mr_iov;
		const struct fi_mr_dmabuf *dmabuf;
	};
	size_t iov_count;
	uint64_t access;
	uint64_t offset;
	uint64_t requested_key;
	void *context;
	size_t auth_key_size;
	uint8_t *auth_key;
	enum fi_hmem_iface iface;
	union {
		uint64_t reserved;
		int cuda; /* CUdevice */
		int ze;	  /* fi_hmem_ze_device() */
		int neuron;
		int synapseai;
		int rocr;
	} device;
	void *hmem_data;
	size_t page_size;
	const struct fid_mr *base_mr;
	size_t sub_mr_cnt;
};

/* Argument of FI_REFRESH: the parts of a region to look up again. fi_mr(3) */
struct fi_mr_modify {
	uint64_t flags;
	struct fi_mr_attr attr;
};

/*
 * A program's own copies to and from device memory, for fi_set_ops(FI_SET_OPS_HMEM_OVERRIDE).
 * Each returns the bytes copied or a negative code.
 */
struct fi_hmem_override_ops {
	size_t size;
	ssize_t (*copy_from_hmem_iov)(void *dest, size_t size, enum fi_hmem_iface iface,
				      uint64_t device, const struct iovec *hmem_iov,
				      size_t hmem_iov_count, uint64_t hmem_iov_offset);
	ssize_t (*copy_to_hmem_iov)(enum fi_hmem_iface iface, uint64_t device,
				    const struct iovec *hmem_iov, size_t hmem_iov_count,
				    uint64_t hmem_iov_offset, const void *src, size_t size);
};

/* Values of a type or operation that only collectives know start here. */
#define FI_COLLECTIVE_OFFSET 256

/* Element types of atomic and collective operations. fi_atomic(3) */
enum fi_datatype {
	FI_INT8,
	FI_UINT8,
	FI_INT16,
	FI_UINT16,
	FI_INT32,
	FI_UINT32,
	FI_INT64,
	FI_UINT64,
	FI_FLOAT,
	FI_DOUBLE,
	FI_FLOAT_COMPLEX,
	FI_DOUBLE_COMPLEX,
	FI_LONG_DOUBLE,
	FI_LONG_DOUBLE_COMPLEX,
	FI_INT128,
	FI_UINT128,
	FI_FLOAT16,
	FI_BFLOAT16,
	FI_FLOAT8_E4M3,
	FI_FLOAT8_E5M2,
	FI_VOID = FI_COLLECTIVE_OFFSET
};

/* Atomic and reduction operations. fi_atomic(3) */
enum fi_op {
	FI_MIN,
	FI_MAX,
	FI_SUM,
	FI_PROD,
	FI_LOR,
	FI_LAND,
	FI_BOR,
	FI_BAND,
	FI_LXOR,
	FI_BXOR,
	FI_ATOMIC_READ,
	FI_ATOMIC_WRITE,
	FI_CSWAP,
	FI_CSWAP_NE,
	FI_CSWAP_LE,
	FI_CSWAP_LT,
	FI_CSWAP_GE,
	FI_CSWAP_GT,
	FI_MSWAP,
	FI_DIFF,
	FI_NOOP = FI_COLLECTIVE_OFFSET
};

/* Collective operations. fi_collective(3) */
enum fi_collective_op {
	FI_BARRIER,
	FI_BROADCAST,
	FI_ALLTOALL,
	FI_ALLREDUCE,
	FI_ALLGATHER,
	FI_REDUCE_SCATTER,
	FI_REDUCE,
	FI_SCATTER,
	FI_GATHER
};

/* Operations of a domain. */
struct fi_ops_domain {
	size_t size;
	int (*av_open)(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
		       void *context);
	int (*cq_open)(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
		       void *context);
	int (*endpoint)(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			void *context);
	int (*scalable_ep)(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
			   void *context);
	int (*cntr_open)(struct fid_domain *domain, struct fi_cntr_attr *attr,
			 struct fid_cntr **cntr, void *context);
	int (*poll_open)(struct fid_domain *domain, struct fi_poll_attr *attr,
			 struct fid_poll **pollset);
	int (*stx_ctx)(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
		       void *context);
	int (*srx_ctx)(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
		       void *context);
	int (*query_atomic)(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
			    struct fi_atomic_attr *attr, uint64_t flags);
	int (*query_collective)(struct fid_domain *domain, enum fi_collective_op coll,
				struct fi_collective_attr *attr, uint64_t flags);
	int (*endpoint2)(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			 uint64_t flags, void *context);
	int (*xpu_ctx)(struct fid_domain *domain, struct fi_xpu_attr *attr,
		       struct fid_xpu_ctx **ctx, void *context);
};

/* Registration operations of a domain; fid is the domain's. */
struct fi_ops_mr {
	size_t size;
	int (*reg)(struct fid *fid, const void *buf, size_t len, uint64_t acs, uint64_t offset,
		   uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context);
	int (*regv)(struct fid *fid, const struct iovec *iov, size_t count, uint64_t acs,
		    uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
		    void *context);
	int (*regattr)(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		       struct fid_mr **mr);
};

/* A NIC port as one user sees it: resources of one domain work together. fi_domain(3) */
struct fid_domain {
	struct fid fid;
	struct fi_ops_domain *ops;
	struct fi_ops_mr *mr;
};

/*
 * Open the domain info names; info stays the caller's. Closed with fi_close(), -FI_EBUSY while
 * objects live in it. -FI_ENOSYS: the provider takes no flags. fi_domain(3)
 */
static inline int fi_domain(struct fid_fabric *fabric, struct fi_info *info,
			    struct fid_domain **domain, void *context)
{
	return fabric->ops->domain(fabric, info, domain, context);
}
static inline int fi_domain2(struct fid_fabric *fabric, struct fi_info *info,
			     struct fid_domain **domain, uint64_t flags, void *context)
{
	if (!flags)
		return fi_domain(fabric, info, domain, context);
	if (!FI_CHECK_OP(fabric->ops, struct fi_ops_fabric, domain2))
		return -FI_ENOSYS;
	return fabric->ops->domain2(fabric, info, domain, flags, context);
}

/* Binds an event queue (flags FI_REG_MR) to the domain, which then keeps it busy. fi_domain(3) */
static inline int fi_domain_bind(struct fid_domain *domain, struct fid *fid, uint64_t flags)
{
	return domain->fid.ops->bind(&domain->fid, fid, flags);
}

/* Open a completion queue or counter; attr stays the caller's. fi_cq(3), fi_cntr(3) */
static inline int fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
			     void *context)
{
	return domain->ops->cq_open(domain, attr, cq, context);
}
static inline int fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
			       struct fid_cntr **cntr, void *context)
{
	return domain->ops->cntr_open(domain, attr, cntr, context);
}

/* Open a wait or poll set. Closed with fi_close(). -FI_ENOSYS: not supported. fi_poll(3) */
static inline int fi_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			       struct fid_wait **waitset)
{
	return fabric->ops->wait_open(fabric, attr, waitset);
}
static inline int fi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
			       struct fid_poll **pollset)
{
	return domain->ops->poll_open(domain, attr, pollset);
}

/*
 * Registers len bytes at buf for the rights in acs (FI_SEND, FI_REMOTE_WRITE, ...). The memory stays
 * the caller's and must outlive the region, which fi_close() ends (-FI_EBUSY while something depends
 * on it). offset must be 0. -FI_EINVAL, -FI_EBADFLAGS, -FI_ENOKEY (key in use), -FI_EKEYREJECTED
 * (key out of range), -FI_EFAULT (not mapped), -FI_ENOMEM. fi_mr(3)
 */
static inline int fi_mr_reg(struct fid_domain *domain, const void *buf, size_t len, uint64_t acs,
			    uint64_t offset, uint64_t requested_key, uint64_t flags,
			    struct fid_mr **mr, void *context)
{
	return domain->mr->reg(&domain->fid, buf, len, acs, offset, requested_key, flags, mr,
			       context);
}

/* fi_mr_reg() of several buffers, addressed as if they followed each other. fi_mr(3) */
static inline int fi_mr_regv(struct fid_domain *domain, const struct iovec *iov, size_t count,
			     uint64_t acs, uint64_t offset, uint64_t requested_key, uint64_t flags,
			     struct fid_mr **mr, void *context)
{
	return domain->mr->regv(&domain->fid, iov, count, acs, offset, requested_key, flags, mr,
				context);
}

/* Registration with every choice there is: device memory, dma-buf, part of a region. fi_mr(3) */
static inline int fi_mr_regattr(struct fid_domain *domain, const struct fi_mr_attr *attr,
				uint64_t flags, struct fid_mr **mr)
{
	return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

/* The descriptor for local transfers; valid as long as the region. fi_mr(3) */
static inline void *fi_mr_desc(struct fid_mr *mr)
{
	return mr->mem_desc;
}

/* The key a peer needs, FI_KEY_NOTAVAIL if there is none (yet) or it is a raw one. fi_mr(3) */
static inline uint64_t fi_mr_key(struct fid_mr *mr)
{
	return mr->key;
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* functions and structs of one name */
#endif

/*
 * Start address and raw key for a peer. *key_size: room in, size out; -FI_ETOOSMALL stores the size
 * that is needed. fi_mr(3)
 */
static inline int fi_mr_raw_attr(struct fid_mr *mr, uint64_t *base_addr, uint8_t *raw_key,
				 size_t *key_size, uint64_t flags)
{
	struct fi_mr_raw_attr attr;

	attr.flags = flags;
	attr.base_addr = base_addr;
	attr.raw_key = raw_key;
	attr.key_size = key_size;
	return mr->fid.ops->control(&mr->fid, FI_GET_RAW_MR, &attr);
}

/*
 * Turns a peer's raw key into a 64-bit one for this domain, to be given back with
 * fi_mr_unmap_key() before the domain is closed. -FI_EINVAL: not a raw key. fi_mr(3)
 */
static inline int fi_mr_map_raw(struct fid_domain *domain, uint64_t base_addr, uint8_t *raw_key,
				size_t key_size, uint64_t *key, uint64_t flags)
{
	struct fi_mr_map_raw map;

	map.flags = flags;
	map.base_addr = base_addr;
	map.raw_key = raw_key;
	map.key_size = key_size;
	map.key = key;
	return domain->fid.ops->control(&domain->fid, FI_MAP_RAW_MR, &map);
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* Gives a mapped key back. -FI_EINVAL: not mapped in this domain. fi_mr(3) */
static inline int fi_mr_unmap_key(struct fid_domain *domain, uint64_t key)
{
	return domain->fid.ops->control(&domain->fid, FI_UNMAP_KEY, &key);
}

/* Binds a disabled region to an endpoint, or a region to a counter (FI_REMOTE_WRITE). fi_mr(3) */
static inline int fi_mr_bind(struct fid_mr *mr, struct fid *bfid, uint64_t flags)
{
	return mr->fid.ops->bind(&mr->fid, bfid, flags);
}

/* Looks up the pages of all (iov NULL) or part of a region again after they changed. fi_mr(3) */
static inline int fi_mr_refresh(struct fid_mr *mr, const struct iovec *iov, size_t count,
				uint64_t flags)
{
	struct fi_mr_modify modify;

	memset(&modify, 0, sizeof(modify));
	modify.flags = flags;
	modify.attr.mr_iov = iov;
	modify.attr.iov_count = count;
	return mr->fid.ops->control(&mr->fid, FI_REFRESH, &modify);
}

/* Opens a region that was registered disabled to accesses. -FI_EOPBADSTATE. fi_mr(3) */
static inline int fi_mr_enable(struct fid_mr *mr)
{
	return mr->fid.ops->control(&mr->fid, FI_ENABLE, NULL);
}

/*
 * The descriptor that a device of ctx needs for local transfers. *len: room in, size out;
 * -FI_ETOOSMALL stores the size that is needed, -FI_EINVAL: ctx is of another domain. fi_mr(3)
 */
static inline int fi_mr_get_xpu_desc(struct fid_mr *mr, void *buf, size_t *len, uint64_t flags,
				     struct fid_xpu_ctx *ctx)
{
	struct fi_mr_xpu_desc desc;

	desc.buf = buf;
	desc.len = len;
	desc.flags = flags;
	desc.ctx = ctx;
	return fi_control(&mr->fid, FI_GET_MR_XPU_DESC, &desc);
}

/* Opens an address vector; attr stays the caller's. Closed with fi_close(). fi_av(3) */
static inline int fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
			     void *context)
{
	return domain->ops->av_open(domain, attr, av, context);
}

/* Binds an event queue for asynchronous insertions. fi_av(3) */
static inline int fi_av_bind(struct fid_av *av, struct fid *fid, uint64_t flags)
{
	return av->fid.ops->bind(&av->fid, fid, flags);
}

/*
 * Inserts count addresses of the domain's format that follow each other at addr, and stores their
 * fi_addr_t (FI_ADDR_NOTAVAIL where one failed). How many were inserted, or a code. fi_av(3)
 */
static inline int fi_av_insert(struct fid_av *av, const void *addr, size_t count,
			       fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return av->ops->insert(av, addr, count, fi_addr, flags, context);
}

/* Insert one host and service by name, or nodecnt times svccnt counted up from them. fi_av(3) */
static inline int fi_av_insertsvc(struct fid_av *av, const char *node, const char *service,
				  fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return av->ops->insertsvc(av, node, service, fi_addr, flags, context);
}
static inline int fi_av_insertsym(struct fid_av *av, const char *node, size_t nodecnt,
				  const char *service, size_t svccnt, fi_addr_t *fi_addr,
				  uint64_t flags, void *context)
{
	return av->ops->insertsym(av, node, nodecnt, service, svccnt, fi_addr, flags, context);
}

/* Removes addresses; no operation to them may be under way. fi_av(3) */
static inline int fi_av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	return av->ops->remove(av, fi_addr, count, flags);
}

/* Copies an address out; *addrlen: room in, full size out, even when cut short. fi_av(3) */
static inline int fi_av_lookup(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	return av->ops->lookup(av, fi_addr, addr, addrlen);
}

/* Writes an address as text; *len: room in, full size out. Returns buf. fi_av(3) */
static inline const char *fi_av_straddr(struct fid_av *av, const void *addr, char *buf, size_t *len)
{
	return av->ops->straddr(av, addr, buf, len);
}

/* From an authorization key to its handle, and back. -FI_ENOSYS: not supported. fi_av(3) */
static inline int fi_av_insert_auth_key(struct fid_av *av, const void *auth_key,
					size_t auth_key_size, fi_addr_t *fi_addr, uint64_t flags)
{
	if (!FI_CHECK_OP(av->ops, struct fi_ops_av, insert_auth_key))
		return -FI_ENOSYS;
	return av->ops->insert_auth_key(av, auth_key, auth_key_size, fi_addr, flags);
}
static inline int fi_av_lookup_auth_key(struct fid_av *av, fi_addr_t addr, void *auth_key,
					size_t *auth_key_size)
{
	if (!FI_CHECK_OP(av->ops, struct fi_ops_av, lookup_auth_key))
		return -FI_ENOSYS;
	return av->ops->lookup_auth_key(av, addr, auth_key, auth_key_size);
}

/* Sets the value that completions show for a peer. -FI_ENOSYS: not supported. fi_av(3) */
static inline int fi_av_set_user_id(struct fid_av *av, fi_addr_t fi_addr, fi_addr_t user_id,
				    uint64_t flags)
{
	if (!FI_CHECK_OP(av->ops, struct fi_ops_av, set_user_id))
		return -FI_ENOSYS;
	return av->ops->set_user_id(av, fi_addr, user_id, flags);
}

/*
 * fi_av_lookup(), and with FI_XPU the form a device of ctx needs. *len: room in, size out;
 * -FI_ETOOSMALL stores the size that is needed. fi_xpu(3)
 */
static inline int fi_av_lookup2(struct fid_av *av, fi_addr_t fi_addr, void *buf, size_t *len,
				uint64_t flags, struct fid_xpu_ctx *ctx)
{
	if (!flags && !ctx)
		return fi_av_lookup(av, fi_addr, buf, len);
	if (!FI_CHECK_OP(av->ops, struct fi_ops_av, lookup2))
		return -FI_ENOSYS;
	return av->ops->lookup2(av, fi_addr, buf, len, flags, ctx);
}

/* The address of a peer's receive context in a vector opened with rx_ctx_bits. fi_av(3) */
static inline fi_addr_t fi_rx_addr(fi_addr_t fi_addr, int rx_index, int rx_ctx_bits)
{
	if (rx_ctx_bits <= 0)
		return fi_addr;
	return (fi_addr_t)((uint64_t)rx_index << (64 - rx_ctx_bits)) | fi_addr;
}

/* The address of a peer within a group: the group's number in the upper 32 bits. fi_av(3) */
static inline fi_addr_t fi_group_addr(fi_addr_t fi_addr, uint32_t group_id)
{
	return (fi_addr_t)((uint64_t)group_id << 32) | fi_addr;
}

#ifdef __cplusplus
}
#endif

#endif /* FI_DOMAIN_H */
