/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A random walk over the calls of fi_mr(3) and what is around them, beside a model that foretells each.
 *
 *   step   64 bytes that mean something in any state: operands are taken modulo what exists, so that
 *          every subsequence of a walk is a walk (shrink.c) and a walk is known by its seed
 *   call   what a step is in the state it meets (plan.c)
 *   model  what the manual pages say the call does (model*.c), which knows nothing of the library
 *   world  the library's objects, and the call carried out (world*.c)
 *
 * run.c lets both go through a walk and compares; a walk is cut into episodes, each of which begins with
 * a fresh world and ends with an empty one.
 */
#ifndef HM_WALK_H
#define HM_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#define WALK_DOMAINS 3
#define WALK_EPS     6
#define WALK_CQS     4
#define WALK_CNTRS   5
#define WALK_MRS     20
#define WALK_MAPS    12
#define WALK_ADDRS   8 /* of one address vector; each domain has one vector */

/* The memory: pages in a row, of which one is read only and the one behind it is not mapped. */
#define WALK_PAGE      4096u
#define WALK_WRITABLE  3u /* pages */
#define WALK_READ_ONLY 3u /* the page */
#define WALK_PAGES     5u
#define WALK_BYTES     (WALK_PAGES * WALK_PAGE)
#define WALK_MAPPED    ((WALK_PAGES - 1) * WALK_PAGE)

#define WALK_IOV   17 /* one more than a region may have */
#define WALK_SEGS  3  /* local and remote entries of an operation */
#define WALK_COMPS 40 /* completions of one call */
#define WALK_ALTS  8

#define WALK_NONE (-1)

/* How a domain is opened. */
struct walk_variant {
	const char *label, *name; /* what prints, and the domain's name */
	int mode;		  /* mr_mode agreed */
	int asked;		  /* FI_MR_BASIC, or 0: all that the NIC wants */
	uint64_t without;	  /* capabilities left out */
	uint32_t version;
	bool async; /* an event queue is bound with FI_REG_MR */
};

#define WALK_VARIANTS 24
extern const struct walk_variant walk_variants[WALK_VARIANTS];
#define WALK_CAPS (FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT)
#define WALK_EP_CAPS                                                                               \
	(WALK_CAPS | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

/* A walk's beginning: which variant each domain is, and where requested keys count from. */
struct walk_config {
	uint8_t variant[WALK_DOMAINS];
	bool faults; /* memory that is not there, or read only, is used as well */
	bool shared; /* the domains are others' as well: none is opened or closed, nothing is counted */
	uint64_t first_key;
};

struct walk_step {
	uint8_t b[64];
};

enum walk_kind {
	WALK_NOTHING,
	WALK_REG,
	WALK_MR_CLOSE,
	WALK_MR_BIND,
	WALK_MR_ENABLE,
	WALK_MR_REFRESH,
	WALK_RAW_ATTR,
	WALK_MAP,
	WALK_UNMAP,
	WALK_XPU_DESC,
	WALK_EP_OPEN,
	WALK_EP_BIND,
	WALK_EP_ENABLE,
	WALK_EP_CLOSE,
	WALK_CNTR_OPEN,
	WALK_CNTR_SET,
	WALK_CNTR_CLOSE,
	WALK_CQ_OPEN,
	WALK_CQ_CLOSE,
	WALK_AV_OPEN,
	WALK_AV_CLOSE,
	WALK_AV_INSERT,
	WALK_AV_REMOVE,
	WALK_DOMAIN_OPEN,
	WALK_DOMAIN_CLOSE,
	WALK_RMA,
	WALK_ATOMIC,
	WALK_SEND,
	WALK_RECV,
	WALK_CANCEL,
	WALK_CLOSE_ANY, /* a step only: becomes one of the others */
	WALK_KINDS
};

/* at counts from the memory's first byte. */
struct walk_range {
	uint64_t at, len;
};

/* A range that wraps past the address space's end, as an at. */
#define WALK_WRAPS UINT64_C(0xfffffffffffffff0)

enum walk_desc {
	WALK_DESC_NULL,
	WALK_DESC_MR, /* of the region in slot mr, live or closed */
	WALK_DESC_BOGUS
};

struct walk_seg {
	struct walk_range range;
	enum walk_desc desc;
	int mr;
};

enum walk_key_how {
	WALK_KEY_OF,	 /* fi_mr_key of the region in this slot, live or closed */
	WALK_KEY_MAPPED, /* what fi_mr_map_raw gave for this slot, unmapped since or not */
	WALK_KEY_NUMBER
};

struct walk_remote {
	uint64_t addr, len;
	bool virt; /* the target goes by addresses: addr counts from the memory's first byte */
	enum walk_key_how how;
	int slot;
	uint64_t number;
};

enum walk_form {
	WALK_FORM_ONE,	/* fi_write, fi_mr_reg */
	WALK_FORM_V,	/* fi_writev, fi_mr_regv */
	WALK_FORM_MSG,	/* fi_writemsg, fi_mr_regattr */
	WALK_FORM_DATA, /* fi_writedata */
	WALK_FORM_INJECT
};

enum walk_raw_bad {
	WALK_RAW_GOOD,
	WALK_RAW_TAMPERED, /* one byte changed */
	WALK_RAW_SHORT,	   /* cut */
	WALK_RAW_NARROW,   /* 8 bytes of the number */
	WALK_RAW_NULL,
	WALK_RAW_BAD_BASE,
	WALK_RAW_BAD_FLAGS,
	WALK_RAW_NO_KEY
};

/* What is changed of a key that is tampered with. */
#define WALK_TAMPER UINT64_C(0x0100)

/* Arguments that are wrong by themselves, for calls with few others. */
enum walk_odd {
	WALK_ODD_NONE,
	WALK_ODD_NULL,	   /* no attr, no iov, nothing to bind, no size */
	WALK_ODD_NO_OUT,   /* nowhere to put the result */
	WALK_ODD_OFFSET,   /* offset 1 */
	WALK_ODD_HMEM,	   /* hmem_data set */
	WALK_ODD_PAGE,	   /* a page size that no system has */
	WALK_ODD_PAGE_OK,  /* the system's page size */
	WALK_ODD_IFACE,	   /* iface and device of what is not there */
	WALK_ODD_FLAGS,	   /* unknown flags */
	WALK_ODD_SHORT,	   /* a buffer that is too short */
	WALK_ODD_NO_BUFFER /* no buffer */
};

enum walk_bound {
	WALK_BIND_CNTR,
	WALK_BIND_EP,
	WALK_BIND_CQ,
	WALK_BIND_AV,
	WALK_BIND_NULL
};

/* A call with all its arguments; fields that a kind has no use for are 0. */
struct walk_call {
	enum walk_kind kind;
	enum walk_form form;
	enum walk_odd odd;
	int domain, ep, cq, cntr, mr, map, addr, base, other; /* slots */
	int to; /* slot of the address in the endpoint's vector */
	enum walk_bound bound;
	enum walk_raw_bad raw;
	uint64_t flags, access, key, caps, value, data, sub_mr_cnt;
	uint32_t context; /* of an operation; 0: NULL */
	/* a region, or the parts to refresh */
	uint32_t iov_count;
	struct walk_range iov[WALK_IOV];
	/* an operation */
	uint32_t segs, remotes;
	struct walk_seg seg[WALK_SEGS], result, compare;
	struct walk_remote remote[WALK_SEGS];
	bool reads; /* RMA: from the peer */
	int atomic; /* 0: fi_atomic, 1: fetch, 2: compare */
	enum fi_datatype datatype;
	enum fi_op op;
	bool count_limit; /* more entries than possible */
};

/* An error's possible codes and causes (cause 0: any). */
struct walk_errors {
	uint32_t count;
	struct {
		int err, cause;
	} at[WALK_ALTS];
};

struct walk_comp {
	int cq;
	uint32_t context;
	uint64_t flags, data, len;
	bool has_len;
	struct walk_errors errors; /* count 0: success */
};

/* What the model says of a call. */
struct walk_expect {
	uint32_t codes; /* 0: the call succeeds */
	int code[WALK_ALTS];
	uint32_t comps;
	struct walk_comp comp[WALK_COMPS];
	uint32_t touched;
	struct walk_range range[2 * WALK_SEGS * WALK_IOV];
	bool unsure;	/* nothing is foretold, so that the call is left out */
	bool undefined; /* what is in these ranges now is not told */
	bool either;	/* success is possible as well: raw keys with a lucky change */
	bool gives_key; /* the region's key is this number */
	bool key_again; /* a mapping that was there, of a 16-byte key: the number is as before */
	uint64_t key, size, base;
	int slot; /* where the mapped key stands */
	bool event;
};

#endif
