/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues, completion queues, counters, wait and poll sets. fi_eq(3), fi_cq(3), fi_cntr(3),
 * fi_poll(3)
 *
 * All calls are thread safe unless the domain was opened with a weaker threading model; only
 * fi_close() must not race with another use of the same object. Timeouts are in milliseconds, a
 * negative one waits without end.
 */
#ifndef FI_EQ_H
#define FI_EQ_H

#include <poll.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fid_xpu_cq;
struct fid_xpu_cntr;

/* What a thread blocks on; fi_control(FI_GETWAIT) gives the object behind it. */
enum fi_wait_obj {
	FI_WAIT_NONE,
	FI_WAIT_UNSPEC,
	FI_WAIT_SET,
	FI_WAIT_FD,
	FI_WAIT_MUTEX_COND,
	FI_WAIT_YIELD,
	FI_WAIT_POLLFD
};

/* Attributes of a wait set. fi_poll(3) */
struct fi_wait_attr {
	enum fi_wait_obj wait_obj;
	uint64_t flags;
};

/* Operations of a wait set. */
struct fi_ops_wait {
	size_t size;
	int (*wait)(struct fid_wait *waitset, int timeout);
};

/* One wait object shared by several queues and counters. fi_poll(3) */
struct fid_wait {
	struct fid fid;
	struct fi_ops_wait *ops;
};

/* The objects behind FI_WAIT_MUTEX_COND; they remain the provider's. */
struct fi_mutex_cond {
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
};

/* The descriptors behind FI_WAIT_POLLFD: nfds in and out, fd is the caller's array. */
struct fi_wait_pollfd {
	uint64_t change_index;
	size_t nfds;
	struct pollfd *fd;
};

/* Attributes of a poll set; flags must be 0. fi_poll(3) */
struct fi_poll_attr {
	uint64_t flags;
};

/* Operations of a poll set. */
struct fi_ops_poll {
	size_t size;
	int (*poll)(struct fid_poll *pollset, void **context, int count);
	int (*poll_add)(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags);
	int (*poll_del)(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags);
};

/* Several queues and counters driven and checked by one call. fi_poll(3) */
struct fid_poll {
	struct fid fid;
	struct fi_ops_poll *ops;
};

/* Attributes of an event queue: size in events, 0 for the provider's choice. fi_eq(3) */
struct fi_eq_attr {
	size_t size;
	uint64_t flags;
	enum fi_wait_obj wait_obj;
	int signaling_vector;
	struct fid_wait *wait_set;
};

/* Events; the entry that comes with each is named behind it. fi_eq(3) */
enum {
	FI_NOTIFY,	/* struct fi_eq_entry */
	FI_CONNREQ,	/* struct fi_eq_cm_entry */
	FI_CONNECTED,	/* struct fi_eq_cm_entry */
	FI_SHUTDOWN,	/* struct fi_eq_cm_entry */
	FI_MR_COMPLETE, /* struct fi_eq_entry: fid is the region, context that of its registration */
	FI_AV_COMPLETE,	 /* struct fi_eq_entry */
	FI_JOIN_COMPLETE /* struct fi_eq_entry */
};

/* The end of an asynchronous call: its object, context and a value of its own. fi_eq(3) */
struct fi_eq_entry {
	fid_t fid;
	void *context;
	uint64_t data;
};

/*
 * A call that failed later: err is a positive FI_E code. err_data is the caller's buffer if
 * err_data_size was set, else the provider's until the queue is read again. fi_eq(3)
 */
struct fi_eq_err_entry {
	fid_t fid;
	void *context;
	uint64_t data;
	int err;
	int prov_errno;
	void *err_data;
	size_t err_data_size;
};

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* flexible array members are C */
#endif

/* A connection event: info is the reader's to free, private data follows. fi_cm(3) */
struct fi_eq_cm_entry {
	fid_t fid;
	struct fi_info *info;
	uint8_t data[];
};

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* Operations of an event queue. */
struct fi_ops_eq {
	size_t size;
	ssize_t (*read)(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags);
	ssize_t (*readerr)(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags);
	ssize_t (*write)(struct fid_eq *eq, uint32_t event, const void *buf, size_t len,
			 uint64_t flags);
	ssize_t (*sread)(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout,
			 uint64_t flags);
	const char *(*strerror)(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf,
				size_t len);
};

/* Reports control events, in order. fi_eq(3) */
struct fid_eq {
	struct fid fid;
	struct fi_ops_eq *ops;
};

/* Which structure a completion queue's entries are. */
enum fi_cq_format {
	FI_CQ_FORMAT_UNSPEC,
	FI_CQ_FORMAT_CONTEXT,
	FI_CQ_FORMAT_MSG,
	FI_CQ_FORMAT_DATA,
	FI_CQ_FORMAT_TAGGED
};

/* FI_CQ_FORMAT_CONTEXT: the context of the operation. fi_cq(3) */
struct fi_cq_entry {
	void *op_context;
};

/* FI_CQ_FORMAT_MSG: also what it was (FI_SEND, FI_RMA, ...) and the bytes received. fi_cq(3) */
struct fi_cq_msg_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
};

/* FI_CQ_FORMAT_DATA: also the buffer and, with FI_REMOTE_CQ_DATA, the peer's value. fi_cq(3) */
struct fi_cq_data_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
};

/* FI_CQ_FORMAT_TAGGED: also the tag of the message. fi_cq(3) */
struct fi_cq_tagged_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
};

/*
 * A failed operation: err is a positive FI_E code, prov_errno the provider's own, olen the bytes
 * that did not fit. err_data is the caller's buffer if err_data_size was set, else the provider's
 * until the queue is read again. fi_cq(3)
 */
struct fi_cq_err_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
	size_t olen;
	int err;
	int prov_errno;
	void *err_data;
	size_t err_data_size;
	fi_addr_t src_addr;
};

/* When a blocked read returns: at any entry, or when as many as its cond says are there. */
enum fi_cq_wait_cond {
	FI_CQ_COND_NONE,
	FI_CQ_COND_THRESHOLD /* cond is the number of entries, as a size_t */
};

/* Attributes of a completion queue: size in entries, 0 for the provider's choice. fi_cq(3) */
struct fi_cq_attr {
	size_t size;
	uint64_t flags;
	enum fi_cq_format format;
	enum fi_wait_obj wait_obj;
	int signaling_vector;
	enum fi_cq_wait_cond wait_cond;
	struct fid_wait *wait_set;
	struct fid_xpu_ctx *xpu_ctx;
};

/* Operations of a completion queue. */
struct fi_ops_cq {
	size_t size;
	ssize_t (*read)(struct fid_cq *cq, void *buf, size_t count);
	ssize_t (*readfrom)(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr);
	ssize_t (*readerr)(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags);
	ssize_t (*sread)(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout);
	ssize_t (*sreadfrom)(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
			     const void *cond, int timeout);
	int (*signal)(struct fid_cq *cq);
	const char *(*strerror)(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf,
				size_t len);
	int (*export_xpu)(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *xpu_cq);
};

/* Reports the ends of data transfers. fi_cq(3) */
struct fid_cq {
	struct fid fid;
	struct fi_ops_cq *ops;
};

/* What a counter counts: operations, or the bytes they moved. */
enum fi_cntr_events {
	FI_CNTR_EVENTS_COMP,
	FI_CNTR_EVENTS_BYTES
};

/* Attributes of a counter. fi_cntr(3) */
struct fi_cntr_attr {
	enum fi_cntr_events events;
	enum fi_wait_obj wait_obj;
	struct fid_wait *wait_set;
	uint64_t flags;
	struct fid_xpu_ctx *xpu_ctx;
};

/* Operations of a counter. */
struct fi_ops_cntr {
	size_t size;
	uint64_t (*read)(struct fid_cntr *cntr);
	uint64_t (*readerr)(struct fid_cntr *cntr);
	int (*add)(struct fid_cntr *cntr, uint64_t value);
	int (*set)(struct fid_cntr *cntr, uint64_t value);
	int (*wait)(struct fid_cntr *cntr, uint64_t threshold, int timeout);
	int (*adderr)(struct fid_cntr *cntr, uint64_t value);
	int (*seterr)(struct fid_cntr *cntr, uint64_t value);
	int (*export_xpu)(struct fid_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *xpu_cntr);
};

/* Counts the ends of operations, good and failed ones apart. fi_cntr(3) */
struct fid_cntr {
	struct fid fid;
	struct fi_ops_cntr *ops;
};

/*
 * Whether it is safe to block on the wait objects of these queues and counters: 0 if so, -FI_EAGAIN
 * if something is there to be read first. fi_poll(3)
 */
static inline int fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	return fabric->ops->trywait(fabric, fids, count);
}

/* Blocks until an object of the set has something: 0, or -FI_ETIMEDOUT. fi_poll(3) */
static inline int fi_wait(struct fid_wait *waitset, int timeout)
{
	return waitset->ops->wait(waitset, timeout);
}

/* Drives the set; the contexts of up to count objects with news are stored. fi_poll(3) */
static inline int fi_poll(struct fid_poll *pollset, void **context, int count)
{
	return pollset->ops->poll(pollset, context, count);
}

/* Puts a queue or counter into the set, which does not own it; flags must be 0. fi_poll(3) */
static inline int fi_poll_add(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags)
{
	return pollset->ops->poll_add(pollset, event_fid, flags);
}

/* Takes a queue or counter out of the set; flags must be 0. fi_poll(3) */
static inline int fi_poll_del(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags)
{
	return pollset->ops->poll_del(pollset, event_fid, flags);
}

/* Opens an event queue; attr stays the caller's. Closed with fi_close(). fi_eq(3) */
static inline int fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
			     void *context)
{
	return fabric->ops->eq_open(fabric, attr, eq, context);
}

/*
 * Takes (FI_PEEK: looks at) one event: bytes stored in buf, -FI_EAGAIN when empty, -FI_EAVAIL when
 * an error waits for fi_eq_readerr(), -FI_ETOOSMALL when len is short. fi_eq(3)
 */
static inline ssize_t fi_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len,
				 uint64_t flags)
{
	return eq->ops->read(eq, event, buf, len, flags);
}

/* Takes one error entry: its size, or -FI_EAGAIN. fi_eq(3) */
static inline ssize_t fi_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
	return eq->ops->readerr(eq, buf, flags);
}

/* Puts an event of the application's into the queue: bytes taken from buf. fi_eq(3) */
static inline ssize_t fi_eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len,
				  uint64_t flags)
{
	return eq->ops->write(eq, event, buf, len, flags);
}

/* fi_eq_read() that waits up to timeout. fi_eq(3) */
static inline ssize_t fi_eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len,
				  int timeout, uint64_t flags)
{
	return eq->ops->sread(eq, event, buf, len, timeout, flags);
}

/* The text for a provider's code, also copied to buf if that is not NULL. fi_eq(3) */
static inline const char *fi_eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data,
					 char *buf, size_t len)
{
	return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

/*
 * Takes up to count entries of the queue's format: how many, -FI_EAGAIN when empty, -FI_EAVAIL when
 * an error waits for fi_cq_readerr(). fi_cq(3)
 */
static inline ssize_t fi_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	return cq->ops->read(cq, buf, count);
}

/* fi_cq_read() that also stores each entry's source, or FI_ADDR_NOTAVAIL. fi_cq(3) */
static inline ssize_t fi_cq_readfrom(struct fid_cq *cq, void *buf, size_t count,
				     fi_addr_t *src_addr)
{
	return cq->ops->readfrom(cq, buf, count, src_addr);
}

/* Takes one error entry: 1, or -FI_EAGAIN. fi_cq(3) */
static inline ssize_t fi_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
	return cq->ops->readerr(cq, buf, flags);
}

/* fi_cq_read() that waits up to timeout, under the queue's wait condition. fi_cq(3) */
static inline ssize_t fi_cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond,
				  int timeout)
{
	return cq->ops->sread(cq, buf, count, cond, timeout);
}

/* fi_cq_readfrom() that waits up to timeout, under the queue's wait condition. fi_cq(3) */
static inline ssize_t fi_cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count,
				      fi_addr_t *src_addr, const void *cond, int timeout)
{
	return cq->ops->sreadfrom(cq, buf, count, src_addr, cond, timeout);
}

/* Makes a thread blocked in fi_cq_sread() return with -FI_EAGAIN. fi_cq(3) */
static inline int fi_cq_signal(struct fid_cq *cq)
{
	return cq->ops->signal(cq);
}

/* The text for a provider's code, also copied to buf if that is not NULL. fi_cq(3) */
static inline const char *fi_cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data,
					 char *buf, size_t len)
{
	return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

/* The number of operations that ended well. fi_cntr(3) */
static inline uint64_t fi_cntr_read(struct fid_cntr *cntr)
{
	return cntr->ops->read(cntr);
}

/* The number of operations that failed. fi_cntr(3) */
static inline uint64_t fi_cntr_readerr(struct fid_cntr *cntr)
{
	return cntr->ops->readerr(cntr);
}

/* Adds to the counter's value. fi_cntr(3) */
static inline int fi_cntr_add(struct fid_cntr *cntr, uint64_t value)
{
	return cntr->ops->add(cntr, value);
}

/* Adds to the counter's error value. -FI_ENOSYS: not supported. fi_cntr(3) */
static inline int fi_cntr_adderr(struct fid_cntr *cntr, uint64_t value)
{
	if (!FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, adderr))
		return -FI_ENOSYS;
	return cntr->ops->adderr(cntr, value);
}

/* Sets the counter's value. fi_cntr(3) */
static inline int fi_cntr_set(struct fid_cntr *cntr, uint64_t value)
{
	return cntr->ops->set(cntr, value);
}

/* Sets the counter's error value. -FI_ENOSYS: not supported. fi_cntr(3) */
static inline int fi_cntr_seterr(struct fid_cntr *cntr, uint64_t value)
{
	if (!FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, seterr))
		return -FI_ENOSYS;
	return cntr->ops->seterr(cntr, value);
}

/* Waits for the value to reach threshold: 0, -FI_ETIMEDOUT, -FI_EAVAIL on an error. fi_cntr(3) */
static inline int fi_cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
	return cntr->ops->wait(cntr, threshold, timeout);
}

/*
 * Hands the queue to a device: fills the caller's *xpu_cq, to be copied to device memory. The host
 * must not read the queue any more. -FI_ENOSYS: not supported. fi_xpu(3)
 */
static inline int fi_cq_export_xpu(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *xpu_cq)
{
	if (!FI_CHECK_OP(cq->ops, struct fi_ops_cq, export_xpu))
		return -FI_ENOSYS;
	return cq->ops->export_xpu(cq, flags, xpu_cq);
}

/* The same for a counter. fi_xpu(3) */
static inline int fi_cntr_export_xpu(struct fid_cntr *cntr, uint64_t flags,
				     struct fid_xpu_cntr *xpu_cntr)
{
	if (!FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, export_xpu))
		return -FI_ENOSYS;
	return cntr->ops->export_xpu(cntr, flags, xpu_cntr);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_EQ_H */
