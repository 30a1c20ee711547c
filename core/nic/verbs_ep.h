/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable-datagram endpoints over reliable connections.
 *
 * CONNECTIONS BELONG TO THEIR INITIATOR.  What A asks of B (messages, RMA, atomics, control frames)
 * goes over a connection that A opens to B's address on first use; what B asks of A over one that B
 * opens.  So two ends that open at the same time get two connections and need no tie-break, and an error on
 * a connection concerns the requests of one initiator only.  The accepting side posts nothing on it but an
 * empty message now and then, whose acknowledgement by the other NIC shows that its host is there
 * (verbs_alive.c).
 *
 * CONTROL FRAMES HAVE A CONNECTION OF THEIR OWN (enum verbs_lane), opened when the first is sent, and receive
 * buffers of their own, which are posted again at once.  Messages may have to wait at the receiver for as
 * long as it likes; nothing that others wait for is ever behind them, so two endpoints that flood each other
 * still hear each other's answers.  A lane of a peer is a struct verbs_peer, with its own queues and numbers.
 *
 * A FAILED REQUEST MOVES A QUEUE PAIR TO THE ERROR STATE.  The request that failed completes with its
 * error; requests behind it, which the NIC flushes, were not executed by the target (a responder that
 * refuses a request drops what follows), so they are posted again, in order, over a new connection.
 * After a time-out (the peer is dead or unreachable) nothing is known about any of them: all complete
 * with HMREG_PEER_LOST.  A message that was delivered although its acknowledgement was lost is told by
 * its number: the target says in its reply to a connection request how far it has received.
 *
 * MESSAGES travel as frames of at most VERBS_FRAME bytes of payload behind a struct verbs_frame, into
 * receive buffers of one shared receive queue per endpoint, from where they are copied into posted
 * receives (verbs_msg.c).  So receives can be canceled and directed, and a message that is too long
 * breaks no connection.  The payload is gathered from the sender's registered buffer.  Where no receive
 * is posted, frames are kept up to HMREG_VERBS_MAX_UNEXPECTED bytes; after that their receive buffers
 * are not posted again, and senders wait (receiver-not-ready, without limit).
 *
 *   verbs_ep.c        open, enable, close, name; pools
 *   verbs_progress.c  one thread per domain: connection events, completion and asynchronous events
 *   verbs_peer.c      peers; what becomes of their operations when a connection breaks
 *   verbs_conn.c      connections that peers are asked for
 *   verbs_alive.c     whether those that have connected are still there
 *   verbs_accept.c    connections that peers ask for
 *   verbs_qp.c        queue pairs and their states
 *   verbs_op.c        work requests -> operations; their completion
 *   verbs_wr.c        operations -> pieces, one send work request each
 *   verbs_comp.c      work completions: what was sent, what arrived; replay
 *   verbs_addr.c      socket addresses <-> peer handles
 *   verbs_msg.c ...   frames that arrive: matching, unexpected messages, cancel (verbs_msg.h)
 *   verbs_keys.c      composite keys of peers: tables of parts, asked for and answered
 *
 * LOCKING.  verbs_ep.lock protects everything of one endpoint, its queue pairs and queues included.  The
 * order: verbs_domain.lock, verbs_ep.lock, then what nic.h's users take (nic_av.lock, nic_cq.lock, the
 * log) and the progress thread's own.  Nothing that blocks is called under it: librdmacm is called by the
 * progress thread alone (and by open, enable, close while it has nothing to do with the endpoint), so that
 * identifiers live and die in one thread; who finds a connection broken gives it to that thread.
 */
#ifndef VERBS_EP_H
#define VERBS_EP_H

#include <assert.h>

#include "core/nic/verbs.h"

#define VERBS_FRAME    4096 /* bytes of payload of one frame; inject_size as well */
#define VERBS_QP_DEPTH 64   /* send work requests of one queue pair */
#define VERBS_SGE      8    /* scatter/gather entries of one, where the device has as many */
#define VERBS_PROTOCOL 2

enum verbs_lane {
	VERBS_LANE_MESSAGES, /* and RMA, and atomics */
	VERBS_LANE_CONTROL,
	VERBS_LANES
};

/* ---- on the wire; little endian as all machines this runs on ---- */

enum verbs_frame_type {
	VERBS_FRAME_MESSAGE =
		1,	  /* a message or the first part of one; more follow until len is there */
	VERBS_FRAME_MORE, /* a following part */
	VERBS_FRAME_RECEIVED,  /* answer to a message with VERBS_FRAME_WANTS_ANSWER */
	VERBS_FRAME_KEY_QUERY, /* which parts has this composite key? */
	VERBS_FRAME_KEY_PARTS, /* the answer: payload is struct verbs_wire_part[], as many as fit */
	VERBS_FRAME_ALIVE,     /* nothing: to find out whether the peer is; among messages */
	VERBS_FRAME_WRITE_DATA, /* FI_REMOTE_CQ_DATA of a write of several pieces; total: its bytes */
	VERBS_FRAME_CUT,	/* message id will not come, or not the rest of it */
	/* never on the wire: what verbs_msg.c makes of a receive buffer that a write with data used */
	VERBS_FRAME_WRITTEN = 255
};

#define VERBS_FRAME_DATA	 1u /* data is valid (FI_REMOTE_CQ_DATA) */
#define VERBS_FRAME_WANTS_ANSWER 2u /* FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE */

struct verbs_frame {
	uint8_t type;
	uint8_t flags;
	uint16_t status; /* RECEIVED: enum hmreg_error; KEY_PARTS: 0 or HMREG_KEY_UNKNOWN */
	uint32_t length; /* payload bytes in this frame */
	uint64_t number; /* counts the frames of one sender to one target, from 1; repeats are dropped */
	uint64_t id;	/* of the sender's operation; RECEIVED, KEY_*: that of the question */
	uint64_t total; /* MESSAGE: bytes of the whole message; KEY_*: the key */
	/* MESSAGE: FI_REMOTE_CQ_DATA.  KEY_QUERY: the first part that is asked for.  KEY_PARTS: the index
	   of the first part in the payload (low 32 bits) and how many there are in all (high) */
	uint64_t data;
};

struct verbs_wire_part {
	/* as a peer addresses it: offset in the region, plus the region's address with FI_MR_VIRT_ADDR */
	uint64_t start;
	uint64_t len;
	uint64_t iova;
	uint32_t rkey, zero;
};

/* Private data of a connection request; at most 56 bytes. */
struct verbs_hello {
	uint32_t magic;		  /* VERBS_MAGIC */
	uint16_t version, family; /* family: AF_INET or AF_INET6 of address */
	uint64_t incarnation;	  /* random, of the initiator's endpoint */
	uint8_t address[16];	  /* where the initiator's endpoint listens, network order */
	uint16_t port;		  /* network order */
	uint16_t lane;		  /* enum verbs_lane */
	uint32_t scope;		  /* IPv6 */
};
static_assert(sizeof(struct verbs_hello) <= 56, "what a connection request carries");
#define VERBS_MAGIC 0x67726d68u

/* Private data of the reply. */
struct verbs_welcome {
	uint32_t magic;
	uint16_t version, flags; /* VERBS_WELCOME_* */
	uint64_t incarnation;	 /* of the target's endpoint */
	uint64_t caps;	   /* FI_MSG, FI_RMA, FI_ATOMIC, FI_RECV, FI_REMOTE_*: what it serves */
	uint64_t received; /* the last frame number that it got from this incarnation */
	uint64_t given_up; /* the message that it does not wait for any more, 0: none */
};

#define VERBS_WELCOME_RX_CQ 1u /* somebody would see FI_REMOTE_CQ_DATA */

/* ---- pools ---- */

/* A receive buffer: posted to the shared receive queue, or held by verbs_msg.c. */
struct verbs_rx {
	struct hm_list link;
	enum verbs_lane lane;	   /* whose queue it is for */
	struct verbs_frame *frame; /* VERBS_FRAME bytes of payload follow it */
	/* verbs_msg.c, while it holds the buffer: */
	struct verbs_peer *peer;
	bool last; /* what was held of the peer's earlier incarnation ends here */
};

/*
 * A send work request under way; its wr_id is the address.  An endpoint has as many as its completion
 * queue has room for.
 */
struct verbs_tx {
	struct hm_list link; /* in verbs_ep.free_tx */
	struct verbs_op *op;
	struct verbs_frame *frame; /* registered: a frame's header, or an atomic's result */
};

/* VERBS_FRAME registered bytes: injected or control payload. */
struct verbs_slot {
	struct hm_list link; /* in verbs_ep.free_slots */
	void *data;
};

/* ---- operations ---- */

/* A piece of local memory. */
struct verbs_seg {
	uint64_t addr, len;
	uint64_t desc; /* handle of the program's region, looked up at each posting; 0: none */
	struct nic_hold hold; /* owned; a registration of the library's own, with region NULL: none */
};

/* One request of the application (or a control frame) until its completion is in the queue. */
struct verbs_op {
	struct hm_list link; /* in a list of verbs_peer, verbs_ep.free_ops, or none */
	struct verbs_peer *peer;
	enum nic_op op;
	enum fi_op atomic_op;
	bool control; /* a frame of our own: no completion */
	uint64_t id;  /* unique in the endpoint; frames carry it */
	uint64_t flags, comp_flags, data;
	void *context;
	size_t len;
	uint32_t local_count, remote_count;
	struct verbs_seg local[NIC_IOV_MAX]; /* atomics: where the result goes */
	struct fi_rma_iov remote[NIC_RMA_IOV_MAX];
	struct verbs_slot *slot;	   /* the payload, instead of local; owned */
	struct verbs_frame head;	   /* control */
	uint64_t operand, compare, result; /* atomics */
	/* how far it is */
	uint64_t done; /* bytes posted on this connection, or delivered over an earlier one */
	uint64_t first_frame; /* number of its first frame, 0: none given yet */
	uint64_t frames;      /* posted or delivered */
	uint32_t outstanding; /* work requests on the queue pair */
	bool started;	      /* something was posted, on this connection or an earlier one */
	bool posted;	      /* nothing is left to be posted */
	bool flushed;	      /* a work request came back unexecuted */
	bool again;	      /* posting it has failed once */
	enum hmreg_error why; /* its failure, told when outstanding is 0 */
	bool wants_answer;    /* completes when the target's RECEIVED comes, not before */
	bool answered;
	enum hmreg_error answer;
};

/* ---- peers and connections ---- */

enum verbs_conn_state {
	VERBS_CONN_NEW, /* waits for the progress thread */
	VERBS_CONN_ADDRESS,
	VERBS_CONN_ROUTE,
	VERBS_CONN_REQUESTED,
	VERBS_CONN_READY,
	VERBS_CONN_DRAINING, /* broken: waits for the rest of its flushed work requests */
	VERBS_CONN_DEAD	     /* waits for the progress thread to destroy it */
};

/* What is known of the work requests that a broken connection did not complete. */
enum verbs_break {
	VERBS_BREAK_CLEAN,  /* the target refused one, and so executed none after it */
	VERBS_BREAK_UNSURE, /* this end failed: the target may have executed them */
	VERBS_BREAK_LOST,   /* the peer is silent: nothing is known */
	VERBS_BREAK_GONE    /* the peer has closed: the same, and no answer will come */
};

/*
 * A connection, of either side.  id and qp are touched by the progress thread alone before READY and
 * after DEAD; while READY or DRAINING qp is used under ep->lock.
 */
struct verbs_conn {
	struct hm_list link;  /* verbs_ep.connecting, .passive or .dead, or none (READY, active) */
	struct hm_list by_qp; /* passive: in verbs_ep.qps */
	struct verbs_ep *ep;
	struct verbs_peer *peer;
	bool passive;
	enum verbs_lane lane;
	enum verbs_conn_state state;
	enum verbs_break broken;
	struct rdma_cm_id *id;	  /* owned */
	struct ibv_qp *qp;	  /* owned */
	uint32_t used;		  /* send work requests on qp not completed */
	uint32_t atomics;	  /* of these */
	uint64_t start, deadline; /* not to be begun before; to be READY by then; verbs_now_ms */
	/* verbs_alive.c; passive ones */
	struct hm_list probing; /* in verbs_ep.probing: an empty message is on its way */
	uint64_t probe;		/* its wr_id */
	unsigned quiet;		/* heartbeats since something came */
};

/* One lane of another endpoint, as one endpoint knows it.  Lives until the endpoint closes. */
struct verbs_peer {
	struct hm_list link; /* hash chain in verbs_ep */
	uint64_t handle;     /* verbs_addr.c */
	enum verbs_lane lane;
	struct verbs_peer *other;   /* its other lane; NULL: not used yet */
	struct verbs_conn *conn;    /* the active one; NULL: the next operation opens it */
	struct verbs_conn *passive; /* the one that it opened */
	uint64_t caps;		    /* what it serves, from its welcome */
	bool has_rx_cq;
	uint64_t incarnation; /* from its welcome; 0: none yet */
	uint64_t next_frame;  /* number of the next frame to it */
	uint64_t cut; /* the last message that it has got a part of and will get no more; 0: none */
	uint32_t attempts;	   /* connection attempts since the last success */
	uint64_t until;		   /* none is begun after that, verbs_now_ms */
	struct hm_list control;	   /* frames of our own, not posted; ahead of waiting */
	struct hm_list waiting;	   /* ops not (wholly) posted, in order */
	struct hm_list posted;	   /* ops wholly posted, not completed, in order */
	struct hm_list unanswered; /* messages executed, whose RECEIVED is due */
	struct hm_list starved;	   /* in verbs_ep.starved: waits for a free verbs_tx */
	struct hm_list keys;	   /* verbs_keys.c */
	/* the other direction: what it sends here */
	uint64_t its_incarnation, its_frame; /* of its endpoint, and the last number received */
	/* verbs_msg.c: the message whose further frames are due; frames of it that wait in held buffers;
	   the pass over held buffers in which one of them had to stay */
	struct verbs_message *assembling;
	uint32_t held;
	uint64_t stuck_pass;
	uint64_t its_cut;  /* the last message that it says it sends no more of; 0: none */
	uint64_t given_up; /* the last one of which the rest was not waited for any more; 0: none */
	/* its connection has ended, and it had begun a message */
	struct hm_list absent; /* in verbs_ep.absent */
	uint64_t absent_until; /* no longer, verbs_now_ms */
};

/* The lane that messages, RMA and atomics take: the peer as others know it. */
static inline struct verbs_peer *verbs_peer_main(struct verbs_peer *peer)
{
	return peer->lane == VERBS_LANE_MESSAGES ? peer : peer->other;
}

struct verbs_msg; /* verbs_msg.c: posted receives, unexpected messages */

#define VERBS_BUCKETS 256

/* A file descriptor that the progress thread watches. */
struct verbs_source {
	enum verbs_source_kind {
		VERBS_SOURCE_WAKE,
		VERBS_SOURCE_ASYNC,
		VERBS_SOURCE_EVENTS,
		VERBS_SOURCE_COMPLETIONS
	} kind;
	struct verbs_ep *ep;
};

struct verbs_ep {
	struct nic_ep ep;    /* first */
	struct hm_list link; /* in verbs_domain.eps */
	struct verbs_domain *vd;
	pthread_mutex_t lock;
	struct rdma_event_channel *events; /* owned */
	struct rdma_cm_id *listener;	   /* owned */
	struct ibv_comp_channel *channel;  /* owned */
	struct ibv_cq *cq;		   /* owned; of all its queue pairs, send and receive */
	struct ibv_srq *srq[VERBS_LANES];  /* owned */
	/* pools: registered memory, and what describes it */
	struct ibv_mr *pool_mr; /* owned */
	void *pool;		/* owned, mapped */
	size_t pool_size, rx_count,
		rx_control;	 /* rx_control: of rx_count, those for control frames */
	struct verbs_rx *rx;	 /* owned */
	struct verbs_tx *tx;	 /* owned */
	struct verbs_slot *slot; /* owned */
	struct hm_list free_tx, free_slots, free_ops;
	struct hm_list starved; /* verbs_peer, by their starved */
	size_t slots_free, ops_in_use, rx_posted;
	size_t tx_free, tx_own; /* tx_own: so many of tx are for control frames alone */
	uint64_t max_piece;	/* bytes of one work request */
	uint32_t max_sge, max_sge_read;
	struct sockaddr_storage name;
	socklen_t name_len;
	uint64_t incarnation, next_id;
	struct hm_list peers[VERBS_BUCKETS]; /* by handle */
	struct hm_list qps[VERBS_BUCKETS];   /* passive connections by number of their queue pair */
	struct hm_list connecting, passive, dead; /* verbs_conn */
	size_t passive_count;
	struct hm_list probing; /* verbs_conn, by their probing */
	struct hm_list absent;	/* verbs_peer, by their absent */
	size_t probing_count;
	uint64_t probes;	 /* so many were ever sent */
	uint64_t last_complaint; /* verbs_complain */
	/* verbs_progress.c; progress is constant while enabled */
	struct verbs_progress *progress;
	struct hm_list progress_link, work_link; /* under its lock */
	struct verbs_source on_events, on_completions;
	bool ticks;	       /* of the progress thread alone: it has deadlines */
	struct verbs_msg *msg; /* owned */
	/* verbs_keys.c; both lists are set up by verbs_msg_init and emptied by verbs_keys_forget */
	struct hm_list key_queries; /* verbs_key_table that wait for an answer, by their asked */
	struct hm_list key_answers; /* verbs_key_answer, owned */
	bool listening, enabled, closing, gone;
	bool suspect; /* a call failed as it does when the device is gone */
	bool unarmed; /* the completion queue could not be asked to tell of completions */
};

static inline struct verbs_ep *verbs_ep_of(struct nic_ep *ep)
{
	return (struct verbs_ep *)ep;
}

/* ---- slots of the ops table ---- */
int verbs_ep_open(struct nic_ep *ep, const void *src_addr, size_t len);
int verbs_ep_enable(struct nic_ep *ep);
int verbs_ep_close(struct nic_ep *ep);
int verbs_ep_name(struct nic_ep *ep, void *addr, size_t *len);
int verbs_peer_resolve(struct nic_domain *domain, const void *addr, size_t *len, uint64_t *peer);
int verbs_peer_address(struct nic_domain *domain, uint64_t peer, void *addr, size_t *len);
ssize_t verbs_post(struct nic_ep *ep, const struct nic_wr *wr);
int verbs_atomic_valid(struct nic_domain *domain, enum nic_op kind, enum fi_datatype datatype,
		       enum fi_op op, size_t *count, size_t *size);
void verbs_progress_domain(struct nic_domain *domain);
/* verbs_msg.c */
ssize_t verbs_post_recv(struct nic_ep *ep, const struct nic_recv *recv);
ssize_t verbs_cancel(struct nic_ep *ep, void *context);

/* ---- verbs_addr.c ---- */
/* Handle of a socket address (never 0) and back; IPv6 ones are kept per domain.  -FI_ENOMEM. */
int verbs_addr_handle(struct verbs_domain *domain, const struct sockaddr *addr, uint64_t *handle);
int verbs_addr_of(struct verbs_domain *domain, uint64_t handle, struct sockaddr_storage *addr,
		  socklen_t *len);
void verbs_addr_free(struct verbs_domain *domain);

/* ---- verbs_ep.c, verbs_conn.c, verbs_op.c: for the other files; all under ep->lock ---- */
/* Poll the completion queue until it is empty, handle what comes. */
void verbs_ep_poll(struct verbs_ep *ep);
/* The peer of this handle, made if need be; NULL: no memory. */
struct verbs_peer *verbs_peer_get(struct verbs_ep *ep, uint64_t handle);
/* Post what waits for this peer as far as it goes; opens the connection when there is none. */
void verbs_peer_pump(struct verbs_ep *ep, struct verbs_peer *peer);
/*
 * Queue a control frame, in its lane (ALIVE: among messages); frame->length bytes of payload, at most
 * VERBS_FRAME (none: NULL).  -FI_EAGAIN: no slot for the payload, or no memory.
 */
int verbs_control_send(struct verbs_ep *ep, uint64_t peer, const struct verbs_frame *frame,
		       const void *payload);
/* A held receive buffer goes back to the shared receive queue. */
void verbs_rx_repost(struct verbs_ep *ep, struct verbs_rx *rx);
/* RECEIVED came for an operation. */
void verbs_op_answered(struct verbs_ep *ep, struct verbs_peer *peer, uint64_t id,
		       enum hmreg_error status);
/* Complete an operation that is in no list, with success or error, and free it. */
void verbs_op_finish(struct verbs_ep *ep, struct verbs_op *op, enum hmreg_error why);
void verbs_ep_device_gone(struct verbs_ep *ep);

/* ---- verbs_msg.c: called by the above, under ep->lock ---- */
int verbs_msg_init(struct verbs_ep *ep);
/*
 * Drop posted receives and unexpected messages; free.  Held receive buffers are not reposted: the
 * shared receive queue goes, too.
 */
void verbs_msg_destroy(struct verbs_ep *ep);
/*
 * What had to wait (held receive buffers, answers, key queries) for room in a queue: called by
 * verbs_ep_poll each time, cheap when nothing waits.
 */
void verbs_msg_retry(struct verbs_ep *ep);
/* The device is gone: posted receives complete with HMREG_DEVICE_GONE.  For verbs_ep_device_gone. */
void verbs_msg_device_gone(struct verbs_ep *ep);
/*
 * A MESSAGE or MORE frame arrived from peer, in order and not a duplicate.  Takes rx over: reposts it
 * now or later.
 */
void verbs_msg_arrived(struct verbs_ep *ep, struct verbs_peer *peer, struct verbs_rx *rx);
/*
 * A remote write with data (FI_REMOTE_CQ_DATA) has arrived: completion at the target.  Takes rx over,
 * the receive buffer that it used up, where it is kept while the completion queue is full: so a writer
 * waits instead of filling this side's memory.
 */
void verbs_msg_write_data(struct verbs_ep *ep, struct verbs_peer *peer, struct verbs_rx *rx,
			  uint32_t data, size_t len);
/* The peer's endpoint is another one than before (incarnation): a half message will not be finished. */
void verbs_msg_peer_reset(struct verbs_ep *ep, struct verbs_peer *peer);
/* CUT came: message id will not, or not the rest of it.  It may be ahead of the message's frames. */
void verbs_msg_cut(struct verbs_ep *ep, struct verbs_peer *peer, uint64_t id);
/* The peer has been away for too long: what it had begun is not waited for.  No frame of it is held. */
void verbs_msg_absent(struct verbs_ep *ep, struct verbs_peer *peer);

/* ---- verbs_keys.c, under ep->lock ---- */
/*
 * The range [addr, addr + len) of a composite key, its first piece: rkey, address as the hardware takes
 * it, and bytes in that part.  1: found; 0: the table has been asked for, pump again when it comes; an
 * enum hmreg_error negated where the key or the range is wrong.
 */
int verbs_keys_find(struct verbs_ep *ep, struct verbs_peer *peer, uint64_t key, uint64_t addr,
		    uint64_t len, uint32_t *rkey, uint64_t *iova, uint64_t *piece);
/* KEY_QUERY and KEY_PARTS frames. */
void verbs_keys_query(struct verbs_ep *ep, struct verbs_peer *peer,
		      const struct verbs_frame *frame);
void verbs_keys_parts(struct verbs_ep *ep, struct verbs_peer *peer,
		      const struct verbs_frame *frame);
/* A remote error on a piece of this composite key: its table is not believed any more. */
void verbs_keys_drop(struct verbs_ep *ep, struct verbs_peer *peer, uint64_t key);
/* No question reaches the peer: what waits for an answer fails. */
void verbs_keys_fail(struct verbs_ep *ep, struct verbs_peer *peer, enum hmreg_error why);
/* Queries and answers that found no slot, and those that have waited too long; called by verbs_msg_retry. */
void verbs_keys_retry(struct verbs_ep *ep);
/*
 * The peer is another incarnation, the connection to it was lost (a query may have gone with it; what
 * waits for one asks again), or the endpoint closes: forget.
 */
void verbs_keys_forget(struct verbs_ep *ep, struct verbs_peer *peer);

/* What a copy by the processor came to (nic_from_app, nic_to_app). */
static inline enum hmreg_error verbs_copied(int ret)
{
	return ret == 0 ? HMREG_OK : ret == -FI_EFAULT ? HMREG_FAULT : HMREG_MEMORY;
}

#endif
