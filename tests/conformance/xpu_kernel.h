/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernels of the tests, and what host and device tell each other through memory that both reach.  Addresses
 * in these structs are the device's, but those of buffers that a NIC is to use.
 */
#ifndef CONF_XPU_KERNEL_H
#define CONF_XPU_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_xpu_device.h>

/* What the host exports of one end. */
struct xk_end {
	struct fid_xpu_ep ep;
	struct fid_xpu_cq tx, rx;
	struct fid_xpu_cntr sent, arrived;
};

/* A descriptor or an address as the host got it; there is room for those of any NIC. */
struct xk_name {
	_Alignas(16) uint8_t bytes[128];
};

/* ---- one call after another ---- */

enum xk_what {
	XK_WRITE,
	XK_READ,
	XK_SEND,
	XK_RECV,
	XK_TSEND,
	XK_TRECV,
	XK_ATOMIC,
	XK_FETCH,
	XK_COMPARE,
	XK_CQ_READ,
	XK_CQ_READFROM,
	XK_CQ_READERR,
	XK_CQ_SREAD,
	XK_CQ_SREADFROM,
	XK_CNTR_READ,
	XK_CNTR_READERR,
	XK_CNTR_WAIT,
	XK_CNTR_ADD,
	XK_CNTR_SET,
	XK_CNTR_ADDERR,
	XK_CNTR_SETERR
};

enum xk_object {
	XK_TX, /* the queue, or the counter, of transfers that were begun here */
	XK_RX
};

#define XK_NAMES 8    /* number 0 is none: NULL */
#define XK_ROOM	 4096 /* bytes for what a read of a queue brings */

struct xk_call {
	enum xk_what what;
	enum xk_object object;
	int scope;
	uint32_t again; /* as often as the answer is -FI_EAGAIN, at most; ~0: without end */
	uint64_t buf, len;
	uint32_t desc, peer, result_desc, compare_desc; /* numbers of names */
	uint64_t data, addr, key, context, flags, tag;
	uint64_t result, compare;
	int datatype, op;
	uint64_t value; /* counters; the threshold of reads */
	int timeout;
	int64_t ret;
	uint64_t times; /* so often it was called */
};

struct xk_script {
	struct xk_end end;
	struct xk_name name[XK_NAMES];
	uint64_t from[XK_ROOM / 32];
	_Alignas(16) uint8_t room[XK_ROOM];
	struct xk_call call;
};

/* Thread 0 makes the call that the script has, or all threads where their scope is wider. */
struct xk_run_args {
	struct xk_script *script;
};
void xk_run(void *args);

/* ---- many threads ---- */

/* What the threads of a scope make together, and what became of it. */
struct xk_scope {
	struct xk_end end;
	struct xk_name desc, peer;
	int scope;
	uint32_t rounds;
	uint64_t buf, addr, key; /* an 8-byte operand, which is 1, and the target */
	/* by the threads */
	uint64_t posted;   /* by all groups: requests */
	uint64_t differed; /* results that were not the same for all threads of a group */
	uint64_t taken, failed;
	_Alignas(16) uint8_t room[XK_ROOM];
};
struct xk_scope_args {
	struct xk_scope *scope;
};
void xk_post_scope(void *args);
void xk_read_scope(void *args);

/* Every thread posts count requests, each to the endpoint that is its turn; the last block takes completions. */
#define XK_ENDS_MAX 64

struct xk_flood {
	struct xk_end end[XK_ENDS_MAX];
	struct xk_name peer[XK_ENDS_MAX];
	struct xk_name desc;
	uint32_t ends, count;
	uint64_t expected;
	uint64_t buf, addr, key; /* one 8-byte operand and one target for each thread */
	/* by the threads */
	uint64_t posted, refused, taken, failed, strange, next;
	int64_t error, cause; /* of one of those that failed */
	uint8_t seen[];	      /* by context, from 1: how often it completed */
};
struct xk_flood_args {
	struct xk_flood *flood;
};
void xk_flood(void *args);

/* ---- what memory holds when a completion is seen ---- */

enum xk_sign {
	XK_BY_QUEUE,
	XK_BY_COUNTER
};

struct xk_order {
	struct xk_end end;
	struct xk_name desc, peer;
	enum xk_sign sign;
	uint32_t rounds, len;
	uint64_t out_buf, in_buf, addr, key; /* the NIC's */
	uint8_t *out, *in;		     /* the device's */
	/* by the thread */
	uint64_t wrong, failed, done;
};
struct xk_order_args {
	struct xk_order *order;
};
/* Writes a pattern to the peer and reads it back, each round another. */
void xk_there_and_back(void *args);
/* Answers what arrives: each message's pattern is looked at and sent back. */
void xk_echo(void *args);
/* Waits for each write of a peer that counts, looks at its pattern and says how far it is. */
void xk_watch(void *args);

/* Of round i: byte k of its pattern. */
static inline uint8_t xk_pattern(uint64_t i, uint64_t k)
{
	return (uint8_t)(i * 37 + k * 11 + (k >> 8) + 1);
}

/* ---- kernels that behave badly ---- */

struct xk_bad {
	struct xk_end end;
	struct xk_name desc, peer;
	uint64_t buf, addr, key;
	uint64_t pointer; /* of the host */
	uint64_t posted, receives, random, count;
};
struct xk_bad_args {
	struct xk_bad *bad;
};
/* Posts from every thread, and reads completions, without end. */
void xk_endless(void *args);
/* Posts and waits for each to complete, until one fails, whose error it reads: count is 1 then. */
void xk_until_error(void *args);
/* Takes a place in the ring and never fills it. */
void xk_take_no_place(void *args);
/* Stores where the host says. */
void xk_stray(void *args);
/* Fills count places of the ring with random requests, past the functions of the header. */
void xk_garbage(void *args);
/* Stores random words, many of them nearly right, all over what was exported, without end. */
void xk_scribble(void *args);

#endif
