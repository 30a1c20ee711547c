/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extensions: imported objects (memory monitors, loggers), provider options, and the logging and
 * parameter calls that providers use. fi_provider(3), fi_open(3)
 */
#ifndef FI_EXT_H
#define FI_EXT_H

#include <stdbool.h>
#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each provider's own range of values: 12 bits of name, 16 bits of value; options are negative. */
#define FI_PROV_SPECIFIC_EFA (0xefa << 16)
#define FI_PROV_SPECIFIC_TCP (0x7cb << 16)

/* Options of the EFA provider, for fi_setopt(). */
enum {
	FI_OPT_EFA_RNR_RETRY = -FI_PROV_SPECIFIC_EFA,
	FI_OPT_EFA_EMULATED_READ,
	FI_OPT_EFA_EMULATED_WRITE,
	FI_OPT_EFA_EMULATED_ATOMICS,
	FI_OPT_EFA_USE_DEVICE_RDMA,
	FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES,
	FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES,
	FI_OPT_EFA_HOMOGENEOUS_PEERS,
	FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV
};

/* Argument of FI_EXPORT_FID. */
struct fi_fid_export {
	struct fid **fid;
	uint64_t flags;
	void *context;
};

/* A handle to an object for another library to import. -FI_ENOSYS: not supported. */
static inline int fi_export_fid(struct fid *fid, uint64_t flags, struct fid **expfid, void *context)
{
	struct fi_fid_export exp;

	exp.fid = expfid;
	exp.flags = flags;
	exp.context = context;
	return fi_control(fid, FI_EXPORT_FID, &exp);
}

/* Gives an object the use of another's exported handle, which stays its owner's. */
static inline int fi_import_fid(struct fid *fid, struct fid *expfid, uint64_t flags)
{
	return fid->ops->bind(fid, expfid, flags);
}

struct fid_mem_monitor;

/*
 * What the registration cache asks of an imported monitor. Addresses subscribed to are reported
 * through notify before they are used for anything else. All calls may come from any thread.
 */
struct fi_ops_mem_monitor {
	size_t size;
	int (*start)(struct fid_mem_monitor *monitor);
	void (*stop)(struct fid_mem_monitor *monitor);
	int (*subscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
	void (*unsubscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
	bool (*valid)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

/* What an imported monitor calls when len bytes at addr went away; it must hold no lock. */
struct fi_ops_mem_notify {
	size_t size;
	void (*notify)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

/* An application's memory monitor, imported into fi_open("mr_cache"). fi_mr(3) */
struct fid_mem_monitor {
	struct fid fid;
	struct fi_ops_mem_monitor *export_ops;
	struct fi_ops_mem_notify *import_ops;
};

/* How urgent a message is; FI_LOG_LEVEL shows those up to its own. */
enum fi_log_level {
	FI_LOG_WARN,
	FI_LOG_TRACE,
	FI_LOG_INFO,
	FI_LOG_DEBUG,
	FI_LOG_MAX
};

/* What a message is about; FI_LOG_SUBSYS selects. */
enum fi_log_subsys {
	FI_LOG_CORE,
	FI_LOG_FABRIC,
	FI_LOG_DOMAIN,
	FI_LOG_EP_CTRL,
	FI_LOG_EP_DATA,
	FI_LOG_AV,
	FI_LOG_CQ,
	FI_LOG_EQ,
	FI_LOG_MR,
	FI_LOG_CNTR,
	FI_LOG_SUBSYS_MAX
};

/* Log import flag: messages of unselected providers are held back already. */
#define FI_LOG_PROV_FILTERED (1ULL << 0)

/* A provider as it introduces itself; static, never freed. fi_provider(3) */
struct fi_provider {
	uint32_t version;
	uint32_t fi_version;
	struct fi_context context;
	const char *name;
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	void (*cleanup)(void);
};

/*
 * Whether a message of this provider (NULL: the library), level and subsystem would be shown.
 * Thread safe. fi_provider(3)
 */
int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
		   enum fi_log_subsys subsys);

/* The same, at most once per interval; *showtime is the caller's static 0 at first. Thread safe. */
int fi_log_ready(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
		 uint64_t *showtime);

/* Writes one line. Thread safe, keeps errno. fi_provider(3) */
void fi_log(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
	    const char *func, int line, const char *fmt, ...)
	__attribute__((__format__(__printf__, 6, 7)));

/*
 * Declares an environment parameter, FI_<PROVIDER>_<NAME>, for fi_param_get() and fi_getparams().
 * Name and help are copied. Thread safe. fi_provider(3)
 */
int fi_param_define(const struct fi_provider *provider, const char *param_name,
		    enum fi_param_type type, const char *help_string_fmt, ...)
	__attribute__((__format__(__printf__, 4, 5)));

/*
 * The value of a declared parameter into a char *, int, int or size_t by its type. -FI_ENODATA:
 * unset; -FI_ENOENT: not declared; -FI_EINVAL: not a value of its type. Thread safe. fi_provider(3)
 */
int fi_param_get(struct fi_provider *provider, const char *param_name, void *value);

/* What the library calls for each message once a logger is imported; from any thread. */
struct fi_ops_log {
	size_t size;
	int (*enabled)(const struct fi_provider *prov, enum fi_log_level level,
		       enum fi_log_subsys subsys, uint64_t flags);
	int (*ready)(const struct fi_provider *prov, enum fi_log_level level,
		     enum fi_log_subsys subsys, uint64_t flags, uint64_t *showtime);
	void (*log)(const struct fi_provider *prov, enum fi_log_level level,
		    enum fi_log_subsys subsys, const char *func, int line, const char *msg);
};

/* An application's logger, for fi_import_log(). */
struct fid_logging {
	struct fid fid;
	struct fi_ops_log *ops;
};

/* Opens a library object by name, imports fid into it and closes it again. fi_open(3) */
static inline int fi_import(uint32_t version, const char *name, void *attr, size_t attr_len,
			    uint64_t flags, struct fid *fid, void *context)
{
	struct fid *open_fid;
	int ret;

	ret = fi_open(version, name, attr, attr_len, flags, &open_fid, context);
	if (ret != FI_SUCCESS)
		return ret;
	ret = fi_import_fid(open_fid, fid, flags);
	fi_close(open_fid);
	return ret;
}

/* Makes log_fid the receiver of all messages; it must live until the program ends. fi_open(3) */
static inline int fi_import_log(uint32_t version, uint64_t flags, struct fid_logging *log_fid)
{
	log_fid->fid.fclass = FI_CLASS_LOG;
	log_fid->ops->size = sizeof(struct fi_ops_log);
	return fi_import(version, "logging", NULL, 0, flags, &log_fid->fid, log_fid);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_EXT_H */
