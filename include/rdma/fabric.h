/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Root of the fabric interface: attributes, discovery and the calls every object shares.
 * fi_getinfo(3), fi_fabric(3), fi_control(3), fi_tostr(3)
 *
 * Every object starts with a struct fid and is reached through the operation tables that follow it.
 * A table's first member is its size in bytes, so that programs and libraries of different age can
 * work together: FI_CHECK_OP tells whether a slot exists.
 */
#ifndef FABRIC_H
#define FABRIC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_const.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef container_of
#define container_of(ptr, type, field) ((type *)(void *)((char *)(ptr)-offsetof(type, field)))
#endif

#ifndef count_of
#define count_of(array) (sizeof(array) / sizeof((array)[0]))
#endif

/*
 * Version of the interface that these headers describe, to be passed to fi_getinfo() as
 * FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION). The library also accepts FI_VERSION(2, 7), whose
 * structures and calls are the ones below; fi_version() tells what it implements.
 */
#define FI_MAJOR_VERSION    2
#define FI_MINOR_VERSION    6
#define FI_REVISION_VERSION 0

#define FI_VERSION(major, minor) (((major) << 16) | (minor))
#define FI_MAJOR(version)	 ((version) >> 16)
#define FI_MINOR(version)	 (0xFFFF & (version))
#define FI_VERSION_GE(v1, v2)	 ((v1) >= (v2))
#define FI_VERSION_LT(v1, v2)	 ((v1) < (v2))

enum {
	FI_NAME_MAX = 64 /* longest provider name, with its terminator */
};

/* Newest interface version the library implements, as FI_VERSION(major, minor). fi_version(3) */
uint32_t fi_version(void);

struct fid;
struct fid_fabric;
struct fid_domain;
struct fid_av;
struct fid_av_set;
struct fid_wait;
struct fid_poll;
struct fid_eq;
struct fid_cq;
struct fid_cntr;
struct fid_ep;
struct fid_pep;
struct fid_stx;
struct fid_mr;
struct fid_mc;
struct fid_nic;
struct fid_xpu_ctx;
struct fi_eq_attr;
struct fi_wait_attr;

typedef struct fid *fid_t;

/* A buffer of atomic data: count elements of the operation's type. fi_atomic(3) */
struct fi_ioc {
	void *addr;
	size_t count;
};

/* The traffic class that stands for a DSCP value. Thread safe. fi_endpoint(3) */
static inline uint32_t fi_tc_dscp_set(uint8_t dscp)
{
	return (uint32_t)dscp | FI_TC_DSCP;
}

/* The DSCP value in a traffic class, 0 if it holds none. Thread safe. fi_endpoint(3) */
static inline uint8_t fi_tc_dscp_get(uint32_t tclass)
{
	return (tclass & FI_TC_DSCP) ? (uint8_t)tclass : 0;
}

/* The transmit side of an endpoint; sizes in bytes, limits in elements. fi_endpoint(3) */
struct fi_tx_attr {
	uint64_t caps;
	uint64_t mode;
	uint64_t op_flags;
	uint64_t msg_order;
	uint64_t comp_order;
	size_t inject_size;
	size_t size;
	size_t iov_limit;
	size_t rma_iov_limit;
	uint32_t tclass;
};

/* The receive side of an endpoint; sizes in bytes, limits in elements. fi_endpoint(3) */
struct fi_rx_attr {
	uint64_t caps;
	uint64_t mode;
	uint64_t op_flags;
	uint64_t msg_order;
	uint64_t comp_order;
	size_t total_buffered_recv;
	size_t size;
	size_t iov_limit;
};

/* An endpoint's type, protocol and limits (bytes). auth_key is copied on open. fi_endpoint(3) */
struct fi_ep_attr {
	enum fi_ep_type type;
	uint32_t protocol;
	uint32_t protocol_version;
	size_t max_msg_size;
	size_t msg_prefix_size;
	size_t max_order_raw_size;
	size_t max_order_war_size;
	size_t max_order_waw_size;
	uint64_t mem_tag_format;
	size_t tx_ctx_cnt;
	size_t rx_ctx_cnt;
	size_t auth_key_size;
	uint8_t *auth_key;
	struct fid_xpu_ctx *xpu_ctx;
};

/* A domain's model and limits; key and data sizes in bytes. fi_domain(3) */
struct fi_domain_attr {
	struct fid_domain *domain;
	char *name;
	enum fi_threading threading;
	enum fi_progress control_progress;
	__extension__ union {
		enum fi_progress data_progress;
		enum fi_progress progress;
	};
	enum fi_resource_mgmt resource_mgmt;
	enum fi_av_type av_type;
	int mr_mode;
	size_t mr_key_size;
	size_t cq_data_size;
	size_t cq_cnt;
	size_t ep_cnt;
	size_t tx_ctx_cnt;
	size_t rx_ctx_cnt;
	size_t max_ep_tx_ctx;
	size_t max_ep_rx_ctx;
	size_t max_ep_stx_ctx;
	size_t max_ep_srx_ctx;
	size_t cntr_cnt;
	size_t mr_iov_limit;
	uint64_t caps;
	uint64_t mode;
	uint8_t *auth_key;
	size_t auth_key_size;
	size_t max_err_data;
	size_t mr_cnt;
	uint32_t tclass;
	size_t max_ep_auth_key;
	uint32_t max_group_id;
	uint64_t max_cntr_value;
	uint64_t max_err_cntr_value;
	size_t max_xpu_ctx_cnt;
};

/* Names a fabric and the provider behind it. fi_fabric(3) */
struct fi_fabric_attr {
	struct fid_fabric *fabric;
	char *name;
	char *prov_name;
	uint32_t prov_version;
	uint32_t api_version;
};

/* One way to communicate, and everything it points to; freed by fi_freeinfo(). fi_getinfo(3) */
struct fi_info {
	struct fi_info *next;
	uint64_t caps;
	uint64_t mode;
	uint32_t addr_format;
	size_t src_addrlen;
	size_t dest_addrlen;
	void *src_addr;
	void *dest_addr;
	fid_t handle;
	struct fi_tx_attr *tx_attr;
	struct fi_rx_attr *rx_attr;
	struct fi_ep_attr *ep_attr;
	struct fi_domain_attr *domain_attr;
	struct fi_fabric_attr *fabric_attr;
	struct fid_nic *nic;
};

/* What a NIC is, as text; a member is NULL when unknown. fi_nic(3) */
struct fi_device_attr {
	char *name;
	char *device_id;
	char *device_version;
	char *vendor_id;
	char *driver;
	char *firmware;
};

enum fi_bus_type {
	FI_BUS_UNSPEC,
	FI_BUS_UNKNOWN = FI_BUS_UNSPEC,
	FI_BUS_PCI
};

/* A PCI address: domain:bus:device.function. fi_nic(3) */
struct fi_pci_attr {
	uint16_t domain_id;
	uint8_t bus_id;
	uint8_t device_id;
	uint8_t function_id;
};

/* Where a NIC is attached; bus_type selects the member of attr. fi_nic(3) */
struct fi_bus_attr {
	enum fi_bus_type bus_type;
	union {
		struct fi_pci_attr pci;
	} attr;
};

enum fi_link_state {
	FI_LINK_UNKNOWN,
	FI_LINK_DOWN,
	FI_LINK_UP
};

/* A NIC's port: mtu in bytes, speed in bits per second. fi_nic(3) */
struct fi_link_attr {
	char *address;
	size_t mtu;
	size_t speed;
	enum fi_link_state state;
	char *network_type;
};

/* Operations of any object, behind fi_close(), fi_control() and the bind calls. */
struct fi_ops {
	size_t size;
	int (*close)(struct fid *fid);
	int (*bind)(struct fid *fid, struct fid *bfid, uint64_t flags);
	int (*control)(struct fid *fid, int command, void *arg);
	int (*ops_open)(struct fid *fid, const char *name, uint64_t flags, void **ops,
			void *context);
	int (*tostr)(const struct fid *fid, char *buf, size_t len);
	int (*ops_set)(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
};

/* First member of every object. context is the application's, fclass and ops the provider's. */
struct fid {
	size_t fclass;
	void *context;
	struct fi_ops *ops;
};

/*
 * Lists the ways to communicate that satisfy hints (NULL: all), best first. *info is the caller's,
 * to be freed with fi_freeinfo(). -FI_ENODATA: nothing matches, and *info is NULL as the manual page
 * has it; other errors leave it alone. -FI_ENOSYS: version is newer than the library. Thread safe.
 * fi_getinfo(3)
 */
int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info);

/* Frees a list from fi_getinfo() or fi_dupinfo(); NULL is fine. Thread safe. fi_getinfo(3) */
void fi_freeinfo(struct fi_info *info);

/*
 * A deep copy of one entry, or an empty one with all attributes allocated when info is NULL.
 * NULL when out of memory; freed with fi_freeinfo(). Thread safe. fi_getinfo(3)
 */
struct fi_info *fi_dupinfo(const struct fi_info *info);

/* An empty entry to be filled in as hints; see fi_dupinfo(). Thread safe. fi_getinfo(3) */
static inline struct fi_info *fi_allocinfo(void)
{
	return fi_dupinfo(NULL);
}

/* Operations of a fabric. */
struct fi_ops_fabric {
	size_t size;
	int (*domain)(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		      void *context);
	int (*passive_ep)(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			  void *context);
	int (*eq_open)(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		       void *context);
	int (*wait_open)(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			 struct fid_wait **waitset);
	int (*trywait)(struct fid_fabric *fabric, struct fid **fids, int count);
	int (*domain2)(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		       uint64_t flags, void *context);
};

/* An open fabric: the root of domains, event queues and passive endpoints. fi_fabric(3) */
struct fid_fabric {
	struct fid fid;
	struct fi_ops_fabric *ops;
	uint32_t api_version;
};

/*
 * Opens the fabric that attr (fi_fabric) or info->fabric_attr (fi_fabric2) names. attr stays the
 * caller's. Closed with fi_close(), -FI_EBUSY while objects live below it. Thread safe. fi_fabric(3)
 */
int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int fi_fabric2(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags, void *context);

/*
 * Opens a library object by name, such as "mr_cache" or "logging". -FI_ENOSYS: no such name.
 * Closed with fi_close(). Thread safe. fi_open(3)
 */
int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
	    struct fid **fid, void *context);

/* A NIC as fi_getinfo() saw it; lives and dies with its struct fi_info. fi_nic(3) */
struct fid_nic {
	struct fid fid;
	struct fi_device_attr *device_attr;
	struct fi_bus_attr *bus_attr;
	struct fi_link_attr *link_attr;
	void *prov_attr;
};

/* True if the table reaches as far as the slot and the slot is filled. */
#define FI_CHECK_OP(ops, opstype, op)                                                              \
	((ops) && (ops)->size >= offsetof(opstype, op) + sizeof((ops)->op) && (ops)->op)

/*
 * Closes any object. -FI_EBUSY: other objects depend on it and it stays as it was. The object must
 * not be in use by another thread.
 */
static inline int fi_close(struct fid *fid)
{
	return fid->ops->close(fid);
}

/* Argument of FI_ALIAS. */
struct fi_alias {
	struct fid **fid;
	uint64_t flags;
};

/* Argument of FI_GET_VAL and FI_SET_VAL. */
struct fi_fid_var {
	int name;
	void *val;
};

/* Argument of FI_GET_RAW_MR; key_size in bytes, in and out. fi_mr(3) */
struct fi_mr_raw_attr {
	uint64_t flags;
	uint64_t *base_addr;
	uint8_t *raw_key;
	size_t *key_size;
};

/* Argument of FI_MAP_RAW_MR; key_size in bytes. fi_mr(3) */
struct fi_mr_map_raw {
	uint64_t flags;
	uint64_t base_addr;
	uint8_t *raw_key;
	size_t key_size;
	uint64_t *key;
};

/* Argument of FI_GET_MR_XPU_DESC; len in bytes, in and out. fi_mr(3) */
struct fi_mr_xpu_desc {
	void *buf;
	size_t *len;
	uint64_t flags;
	struct fid_xpu_ctx *ctx;
};

/* Commands of fi_control(), with the type of their argument. fi_control(3) */
enum {
	FI_GETFIDFLAG,	   /* uint64_t * */
	FI_SETFIDFLAG,	   /* uint64_t * */
	FI_GETOPSFLAG,	   /* uint64_t * */
	FI_SETOPSFLAG,	   /* uint64_t * */
	FI_ALIAS,	   /* struct fi_alias * */
	FI_GETWAIT,	   /* int *, struct fi_mutex_cond * or struct fi_wait_pollfd * */
	FI_ENABLE,	   /* NULL */
	FI_BACKLOG,	   /* int * */
	FI_GET_RAW_MR,	   /* struct fi_mr_raw_attr * */
	FI_MAP_RAW_MR,	   /* struct fi_mr_map_raw * */
	FI_UNMAP_KEY,	   /* uint64_t * */
	FI_QUEUE_WORK,	   /* struct fi_deferred_work * */
	FI_CANCEL_WORK,	   /* struct fi_deferred_work * */
	FI_FLUSH_WORK,	   /* NULL */
	FI_REFRESH,	   /* struct fi_mr_modify * */
	FI_DUP,		   /* struct fid ** */
	FI_GETWAITOBJ,	   /* enum fi_wait_obj * */
	FI_GET_VAL,	   /* struct fi_fid_var * */
	FI_SET_VAL,	   /* struct fi_fid_var * */
	FI_EXPORT_FID,	   /* struct fi_fid_export * */
	FI_GET_FD,	   /* int * */
	FI_GET_MR_XPU_DESC /* struct fi_mr_xpu_desc * */
};

/* Passes a command to an object. -FI_ENOSYS: not one of its commands. fi_control(3) */
static inline int fi_control(struct fid *fid, int command, void *arg)
{
	return fid->ops->control(fid, command, arg);
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* function and struct of one name */
#endif

/* A second handle to an endpoint, with other default flags. -FI_ENOSYS: none. fi_endpoint(3) */
static inline int fi_alias(struct fid *fid, struct fid **alias_fid, uint64_t flags)
{
	struct fi_alias alias;

	alias.fid = alias_fid;
	alias.flags = flags;
	return fi_control(fid, FI_ALIAS, &alias);
}

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* Reads a named value of an object into *val; type and size depend on the name. fi_control(3) */
static inline int fi_get_val(struct fid *fid, int name, void *val)
{
	struct fi_fid_var var;

	var.name = name;
	var.val = val;
	return fi_control(fid, FI_GET_VAL, &var);
}

/* Sets a named value of an object from *val; it stays the caller's. fi_control(3) */
static inline int fi_set_val(struct fid *fid, int name, void *val)
{
	struct fi_fid_var var;

	var.name = name;
	var.val = val;
	return fi_control(fid, FI_SET_VAL, &var);
}

/* A provider's extra operation table of that name; static, never freed. fi_control(3) */
static inline int fi_open_ops(struct fid *fid, const char *name, uint64_t flags, void **ops,
			      void *context)
{
	return fid->ops->ops_open(fid, name, flags, ops, context);
}

/* Replaces a named operation table of an object. -FI_ENOSYS: not supported. fi_control(3) */
static inline int fi_set_ops(struct fid *fid, const char *name, uint64_t flags, void *ops,
			     void *context)
{
	if (!FI_CHECK_OP(fid->ops, struct fi_ops, ops_set))
		return -FI_ENOSYS;
	return fid->ops->ops_set(fid, name, flags, ops, context);
}

/* What fi_tostr() is to print. fi_tostr(3) */
enum fi_type {
	FI_TYPE_INFO,
	FI_TYPE_EP_TYPE,
	FI_TYPE_CAPS,
	FI_TYPE_OP_FLAGS,
	FI_TYPE_ADDR_FORMAT,
	FI_TYPE_TX_ATTR,
	FI_TYPE_RX_ATTR,
	FI_TYPE_EP_ATTR,
	FI_TYPE_DOMAIN_ATTR,
	FI_TYPE_FABRIC_ATTR,
	FI_TYPE_THREADING,
	FI_TYPE_PROGRESS,
	FI_TYPE_PROTOCOL,
	FI_TYPE_MSG_ORDER,
	FI_TYPE_MODE,
	FI_TYPE_AV_TYPE,
	FI_TYPE_ATOMIC_TYPE,
	FI_TYPE_ATOMIC_OP,
	FI_TYPE_VERSION,
	FI_TYPE_EQ_EVENT,
	FI_TYPE_CQ_EVENT_FLAGS,
	FI_TYPE_MR_MODE,
	FI_TYPE_OP_TYPE,
	FI_TYPE_FID,
	FI_TYPE_COLLECTIVE_OP,
	FI_TYPE_HMEM_IFACE,
	FI_TYPE_CQ_FORMAT,
	FI_TYPE_LOG_LEVEL,
	FI_TYPE_LOG_SUBSYS,
	FI_TYPE_AV_ATTR,
	FI_TYPE_CQ_ATTR,
	FI_TYPE_MR_ATTR,
	FI_TYPE_CNTR_ATTR,
	FI_TYPE_CQ_ERR_ENTRY,
	FI_TYPE_CQ_WAIT_COND,
	FI_TYPE_WAIT_OBJ
};

/*
 * The value at data as text. fi_tostr() returns a buffer of the library's that the same thread's
 * next call overwrites; fi_tostr_r() writes at most len bytes with the terminator to the caller's
 * buf and returns it, and is thread safe. fi_tostr(3)
 */
char *fi_tostr(const void *data, enum fi_type datatype);
char *fi_tostr_r(char *buf, size_t len, const void *data, enum fi_type datatype);

enum fi_param_type {
	FI_PARAM_STRING,
	FI_PARAM_INT,
	FI_PARAM_BOOL,
	FI_PARAM_SIZE_T
};

/* An environment parameter of the library; value is NULL while unset. */
struct fi_param {
	const char *name;
	enum fi_param_type type;
	const char *help_string;
	const char *value;
};

/* All parameters and their present values: a list the caller frees with fi_freeparams(). */
int fi_getparams(struct fi_param **params, int *count);

/* Frees what fi_getparams() returned. Thread safe. */
void fi_freeparams(struct fi_param *params);

/* Room for the provider in an operation's context (FI_CONTEXT); the caller's until completion. */
struct fi_context {
	void *internal[4];
};

/* The same for FI_CONTEXT2. */
struct fi_context2 {
	void *internal[8];
};

/* What a receive's context points to where an endpoint owns it. fi_cq(3) */
struct fi_recv_context {
	struct fid_ep *ep;
	void *context;
};

#ifdef __cplusplus
}
#endif

#endif /* FABRIC_H */
