/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the verbs NIC's connections and operations share beyond verbs_ep.h. */
#ifndef VERBS_CONN_H
#define VERBS_CONN_H

#include "core/nic/verbs_ep.h"

#define VERBS_SENDS	  1024 /* send work requests of one endpoint, where the device has as many */
#define VERBS_SLOTS	  256
#define VERBS_SLOTS_OWN	  32 /* of these, for control frames */
#define VERBS_RX_CONTROL  64 /* receive buffers for control frames */
#define VERBS_PROBES	  64 /* empty messages to see whether peers are there, at a time */
#define VERBS_RX_STRIDE	  ((sizeof(struct verbs_frame) + VERBS_FRAME + 63) / 64 * 64)
#define VERBS_HEAD_STRIDE 64
#define VERBS_ATTEMPTS	  4  /* to connect, where the failure may pass */
#define VERBS_TICK_MS	  50 /* how often deadlines are looked at */

/* Work requests are told apart by their wr_id: 1 set, a receive buffer; 2 set, a probe; else a verbs_tx. */
#define VERBS_ID_RX    UINT64_C(1)
#define VERBS_ID_PROBE UINT64_C(2)

static inline uint64_t verbs_rx_id(struct verbs_rx *rx)
{
	return (uintptr_t)rx | VERBS_ID_RX;
}

/* Milliseconds of the monotonic clock. */
uint64_t verbs_now_ms(void);
/* HMREG_VERBS_RETRY_TIME, within reason. */
unsigned verbs_retry_ms(void);
/* May another line about what peers do wrong be written?  One a second.  ep->lock held. */
bool verbs_complain(struct verbs_ep *ep);

/* ---- verbs_qp.c: by the progress thread, no lock; one log line and an errno-like FI_E code ---- */
int verbs_qp_create(struct verbs_conn *conn);
/* To ready-to-receive and ready-to-send; rd_atomic: reads and atomics at a time, each way. */
int verbs_qp_connect(struct verbs_conn *conn, uint8_t as_target, uint8_t as_initiator);
/* Flush.  Any thread, ep->lock held. */
void verbs_qp_error(struct verbs_conn *conn);
bool verbs_is_iwarp(const struct verbs_ep *ep);

/* ---- verbs_peer.c, ep->lock held ---- */
/* This lane of the peer, made if need be; NULL: no memory. */
struct verbs_peer *verbs_peer_lane(struct verbs_ep *ep, struct verbs_peer *peer,
				   enum verbs_lane lane);
/* Open the connection to a peer that has none. */
void verbs_conn_open(struct verbs_ep *ep, struct verbs_peer *peer);
/* It is no use any more.  Idempotent. */
void verbs_conn_break(struct verbs_conn *conn, enum verbs_break how);
/* All its work requests are back: its peer has none now, its operations wait again or have failed. */
void verbs_conn_drained(struct verbs_conn *conn);
/* Take it out of all lists and give it to the progress thread to destroy. */
void verbs_conn_bury(struct verbs_conn *conn);
/* It may wait for an answer that we cannot give: it hears that none will come. */
void verbs_peer_mute(struct verbs_peer *peer);
/* Everything that waits for this peer fails: why, or HMREG_PEER_LOST for what had been started. */
void verbs_peer_fail(struct verbs_ep *ep, struct verbs_peer *peer, enum hmreg_error why);
/* ---- verbs_conn.c, by the progress thread without a lock ---- */
/* Read and handle connection events until there are none. */
void verbs_conn_events(struct verbs_ep *ep);
/*
 * Start and destroy connections, look at deadlines.  True: there are deadlines.  heartbeat: also look
 * after peers that owe answers.
 */
bool verbs_conn_work(struct verbs_ep *ep, bool heartbeat);
/*
 * Is the device gone?  Asked when something failed: the event that says so may not have been read yet, and
 * without one the device itself is asked.  By the progress thread, no lock held.
 */
bool verbs_device_gone(struct verbs_ep *ep);
/* The completion queue is to tell of the next completion.  ep->lock held. */
void verbs_ep_arm(struct verbs_ep *ep);
void verbs_conn_destroy(struct verbs_conn *conn); /* verbs_peer.c */
/* Start the thread's work for this endpoint soon.  ep->lock may be held. */
void verbs_progress_wake(struct verbs_ep *ep);

/* ---- verbs_accept.c ---- */
/* What is wanted of a connection event, copied: the event itself has been acknowledged. */
struct verbs_cm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	uint8_t as_target, as_initiator; /* reads and atomics at a time */
	size_t private_len;
	char private_data[256];
};
/* A peer asks for a connection. */
void verbs_accept(struct verbs_ep *ep, const struct verbs_cm_event *event);
/* The passive connection that has this queue pair, or NULL.  ep->lock held. */
struct verbs_conn *verbs_conn_of_qp(struct verbs_ep *ep, uint32_t qp_num);

/* ---- verbs_alive.c, ep->lock held ---- */
/* Look after the connections of peers that have not been heard of. */
void verbs_alive_beat(struct verbs_ep *ep);
/* A probe's work completion. */
void verbs_alive_answered(struct verbs_ep *ep, const struct ibv_wc *wc);
/* The connection ends, with or without its probe's completion. */
void verbs_alive_forget(struct verbs_conn *conn);
/* The connection by which the peer sent is no more: its next one is awaited if it had begun a message. */
void verbs_alive_await(struct verbs_ep *ep, struct verbs_peer *peer);
/* End what was begun by peers that have not come back in time.  True: others still have time. */
bool verbs_alive_absent(struct verbs_ep *ep);

/* ---- verbs_op.c, ep->lock held ---- */
/* Drop an operation without a completion; its room in the completion queue is given back. */
void verbs_op_drop(struct verbs_ep *ep, struct verbs_op *op);
/* Complete an operation that failed, and see to it that the target does not wait for the rest of it. */
void verbs_op_fail(struct verbs_ep *ep, struct verbs_op *op, enum hmreg_error why);
/* Tell the target about peer->cut, once there is memory for it: a control frame is queued. */
void verbs_op_tell_cut(struct verbs_ep *ep, struct verbs_peer *peer);
/* The NIC has done all of it: complete it, or wait for the target's answer. */
void verbs_op_executed(struct verbs_ep *ep, struct verbs_op *op);
static inline bool verbs_op_is_atomic(const struct verbs_op *op)
{
	return nic_is_atomic(op->op);
}
/* Does the NIC itself put an atomic's result where it belongs? */
static inline bool verbs_result_in_place(const struct verbs_op *op)
{
	return op->local_count == 1 && op->local[0].desc && op->local[0].len == sizeof(uint64_t);
}
/* Does it travel in frames? */
static inline bool verbs_op_is_framed(const struct verbs_op *op)
{
	return op->op == NIC_OP_SEND;
}

/* ---- verbs_wr.c, ep->lock held ---- */
/* Peers that found no verbs_tx free go on, as far as there are some. */
void verbs_wr_feed(struct verbs_ep *ep);
/* Mark the first frames of an operation as delivered.  HMREG_OK, or why they cannot be counted. */
enum hmreg_error verbs_wr_skip(struct verbs_ep *ep, struct verbs_op *op, uint64_t frames);

/* ---- verbs_comp.c, ep->lock held ---- */
/* The connection is READY: what waits is set according to what the target says that it has. */
void verbs_replay(struct verbs_ep *ep, struct verbs_peer *peer, bool same,
		  const struct verbs_welcome *welcome);

/* ---- verbs_progress.c ---- */
/* Watch an endpoint; starts the thread of its domain.  -FI_E code, one log line. */
int verbs_progress_add(struct verbs_ep *ep);
/* After this the thread does not touch the endpoint; ends the thread with the last one. */
void verbs_progress_remove(struct verbs_ep *ep);

#endif
