/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software NIC: enforces what a NIC enforces and moves the bytes in the thread that asks.
 *
 * An operation is executed by the initiator's call (or, for a message that waits for a receive, by
 * the receiver's), so the target's thread need do nothing and there are no threads of our own.
 * Objects of the peer are held by a reference for the call's time: the endpoint through its virtual
 * port, the region through its key.  Closing waits for such references.
 */
#ifndef SW_H
#define SW_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/nic/match.h"
#include "core/nic/nic.h"
#include "core/nic/sw_atomic_ops.h"
#include "hmem/hmem.h"

struct sw_port;

struct sw_ep {
	struct nic_ep ep;
	struct sw_port *port;	   /* held from open to close */
	uint32_t ip;		   /* host order, as the endpoint's name shows it */
	uint16_t number;	   /* virtual port, host order */
	uint64_t serial;	   /* tells this endpoint from a later one on the same port */
	pthread_mutex_t rx_lock;   /* protects match */
	struct nic_match match;	   /* unexpected: sw_message, owned */
	_Atomic uint32_t deferred; /* sends whose completion waits at the peer; each holds CQ room */
};

static inline struct sw_ep *sw_ep_of(struct nic_ep *ep)
{
	return (struct sw_ep *)ep;
}

/* ---- virtual ports (sw_port.c) ---- */

/* number 0: any free one.  -FI_EADDRINUSE, -FI_EADDRNOTAVAIL (none left), -FI_ENOMEM. */
int sw_port_bind(struct sw_ep *ep, uint16_t number);
void sw_port_listen(struct sw_ep *ep);
/* Ends listening, waits for references, frees the number. */
void sw_port_unbind(struct sw_ep *ep);
/* Reference the listening endpoint behind a peer handle; NULL when there is none. */
struct sw_ep *sw_port_acquire(uint64_t peer);
void sw_port_release(struct sw_ep *ep);

#define SW_PEER(number) (UINT64_C(1) << 32 | (number))

/* ---- data movement (sw_copy.c) ---- */

/* Bytes in one piece, of the host or a device. */
struct sw_piece {
	char *at;
	size_t len;
	enum fi_hmem_iface iface;
	int device; /* HMEM_NO_DEVICE: the host reaches it */
	/* A device's: its allocation must still be the one that was registered; NULL: just looked at. */
	const struct nic_place *place;
};

static inline struct sw_piece sw_host_piece(void *at, size_t len)
{
	return (struct sw_piece){ at, len, FI_HMEM_SYSTEM, HMEM_NO_DEVICE, NULL };
}

/* A list of memory pieces with a place in it. */
struct sw_cursor {
	const struct sw_piece *piece;
	size_t count, at;
	size_t offset; /* inside piece[at] */
};

/* The pieces of [offset, offset + len) of a region; piece needs room for NIC_IOV_MAX.  Returns how many. */
size_t sw_region_pieces(const struct nic_region *region, uint64_t offset, uint64_t len,
			struct sw_piece *piece);
/*
 * The cursor's place, a piece cut to *len, or *len (not 0) cut to what lies there in one piece; len bytes
 * must be left.
 */
struct sw_piece sw_cursor_at(struct sw_cursor *cursor, size_t *len);
/* Copy len bytes; both cursors move on.  0, or why not. */
enum hmreg_error sw_copy(struct sw_cursor *dst, struct sw_cursor *src, size_t len);
/* Is all of these pieces there?  It may be gone a moment later. */
bool sw_readable(const struct sw_piece *piece, size_t count);
/* One local buffer's piece; region is what its desc named, or NULL. */
enum hmreg_error sw_local_piece(const struct nic_domain *domain, void *addr, size_t len,
				const struct nic_region *region, struct sw_piece *piece);
/* Local pieces of a work request. */
enum hmreg_error sw_pieces(const struct nic_domain *domain, const struct nic_seg *seg,
			   uint32_t count, struct sw_piece *piece);

/* ---- atomics (sw_apply.c) ---- */

/* Operand, result and comparand of an atomic, and how far they are used up. */
struct sw_operands {
	struct sw_piece piece[3][NIC_IOV_MAX];
	struct sw_cursor at[3];
	bool on_device; /* any of it */
};
enum hmreg_error sw_operands(const struct nic_domain *domain, const struct nic_wr *wr,
			     struct sw_operands *out);
/* Apply to one piece of the target; the operands move on. */
enum hmreg_error sw_apply(const struct nic_wr *wr, struct sw_operands *operands,
			  const struct sw_piece *dst);

/* ---- authorization (sw_auth.c) ---- */

/* *key: the key that both sides have. */
enum hmreg_error sw_check_keys(const struct nic_ep *ep, const struct nic_ep *target, uint64_t peer,
			       uint32_t *key);
/* May ep reach a region with these limits, through target? */
enum hmreg_error sw_check_limits(const struct nic_region_auth *limit, struct nic_ep *ep,
				 const struct nic_ep *target, uint64_t peer);

/*
 * May ep, which calls it peer, communicate with target: have both the same key, or none?  *key is the key,
 * or 0.
 */
static inline enum hmreg_error sw_check_peer(const struct nic_ep *ep, const struct nic_ep *target,
					     uint64_t peer, uint32_t *key)
{
	*key = 0;
	if (__builtin_expect(!ep->auth && !target->auth, 1))
		return HMREG_OK;
	return sw_check_keys(ep, target, peer, key);
}

/* ---- operations ---- */

static inline enum sw_atomic_kind sw_atomic_kind_of(enum nic_op op)
{
	static_assert(SW_ATOMIC_FETCH - SW_ATOMIC_BASE == NIC_OP_FETCH - NIC_OP_ATOMIC &&
			      SW_ATOMIC_COMPARE - SW_ATOMIC_BASE == NIC_OP_COMPARE - NIC_OP_ATOMIC,
		      "the engine's kinds are in the contract's order");
	return (enum sw_atomic_kind)(SW_ATOMIC_BASE + (op - NIC_OP_ATOMIC));
}

ssize_t sw_rma(struct nic_ep *ep, const struct nic_wr *wr);  /* sw_rma.c */
ssize_t sw_send(struct nic_ep *ep, const struct nic_wr *wr); /* sw_msg.c */
ssize_t sw_post_recv(struct nic_ep *ep, const struct nic_recv *recv);
ssize_t sw_cancel(struct nic_ep *ep, void *context);
/* Drop what is queued; senders that wait for delivery are told that the peer is gone. */
void sw_msg_flush(struct sw_ep *ep);

#endif
