/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posted receives and messages that wait for one, of one endpoint: what all NICs do alike.  Both
 * queues are in order of arrival, so messages of one sender are received in the order sent.
 *
 * A NIC locks the queues of an endpoint; it moves the bytes, keeps the payload of messages, and decides
 * what a sender hears.  Room in the completion queue is reserved when a receive and a message meet:
 * without room they do not, and whoever came second has to come again.
 */
#ifndef HM_NIC_MATCH_H
#define HM_NIC_MATCH_H

#include "core/base/list.h"
#include "core/nic/nic.h"

/* A posted receive.  desc are handles, looked up when bytes come; hold are registrations of our own. */
struct nic_posted {
	struct hm_list link;
	uint64_t src_peer, flags;
	uint32_t src_key;
	void *context;
	size_t count;
	void *desc[NIC_IOV_MAX];
	struct nic_hold hold[NIC_IOV_MAX]; /* owned; region NULL: none */
	struct iovec iov[NIC_IOV_MAX];
};

/* The front of what a NIC keeps of a message. */
struct nic_message {
	struct hm_list link;
	uint64_t src_peer, flags, data; /* of the flags, FI_REMOTE_CQ_DATA is looked at */
	uint32_t src_key; /* authorization key that it came by; 0: none, or the receiver has one alone */
	size_t len;
	size_t bytes; /* what it takes of the memory for unexpected messages */
};

struct nic_match {
	struct hm_list posted;	   /* nic_posted, owned */
	struct hm_list unexpected; /* nic_message, the NIC's */
	size_t posted_count, unexpected_bytes;
};

enum nic_met {
	NIC_MET_NOBODY, /* no receive, but memory for the message */
	NIC_MET_RECV,	/* *recv is the caller's, and CQ room for it reserved */
	NIC_MET_FULL
};

void nic_match_init(struct nic_match *match);
/* Frees the posted receives; they do not complete. */
void nic_match_drop_posted(const struct nic_ep *ep, struct nic_match *match);

/* A copy of the request, whose holds it takes over; or NULL with one log line. */
struct nic_posted *nic_posted_make(const struct nic_recv *request);
/* One that is in no queue, and does not complete; NULL is fine. */
void nic_posted_free(const struct nic_ep *ep, struct nic_posted *recv);
/* Bytes that fit. */
size_t nic_posted_room(const struct nic_posted *recv);

/* ---- the NIC holds its lock ---- */

/* Can messages that take so many bytes more be kept? */
static inline bool nic_match_has_room(const struct nic_match *match, size_t limit, size_t bytes)
{
	return bytes <= limit && match->unexpected_bytes <= limit - bytes;
}
/* A message comes: take the receive for it, if there is one; limit is that of unexpected messages. */
enum nic_met nic_match_arrive(const struct nic_ep *ep, struct nic_match *match,
			      const struct nic_message *msg, size_t limit,
			      struct nic_posted **recv);
/* Leave a message that met nobody. */
void nic_match_keep(struct nic_match *match, struct nic_message *msg);
/*
 * A receive comes: *msg is the message for it, off the queue, and CQ room reserved; or NULL, and recv
 * is queued.  -FI_EAGAIN: no room, recv stays the caller's.
 */
int nic_match_post(const struct nic_ep *ep, struct nic_match *match, struct nic_posted *recv,
		   struct nic_message **msg);
/* As cancel of struct nic_ops; *recv is off the queue, with CQ room, for nic_posted_drop. */
int nic_match_cancel(const struct nic_ep *ep, struct nic_match *match, void *context,
		     struct nic_posted **recv);

/* ---- with or without it; recv is off the queue ---- */

/*
 * Reference the regions that desc names, for as long as bytes are moved; the buffers were checked when
 * they were posted.  region has room for NIC_IOV_MAX.  HMREG_OK or HMREG_LOCAL_REGION; the caller
 * releases in either case.
 */
enum hmreg_error nic_posted_acquire(const struct nic_ep *ep, const struct nic_posted *recv,
				    struct nic_region **region);
void nic_posted_release(const struct nic_posted *recv, struct nic_region **region);
/*
 * Complete a receive that met msg (CQ room is reserved), and free it.  why is what went wrong with the
 * bytes; a message longer than the buffers is found here.  Returns what the sender is to hear: a
 * message cut short is the receiver's problem alone.
 */
enum hmreg_error nic_posted_done(struct nic_ep *ep, struct nic_posted *recv,
				 const struct nic_message *msg, enum hmreg_error why);
/* Complete one without a message. */
void nic_posted_drop(struct nic_ep *ep, struct nic_posted *recv, enum hmreg_error why);

#endif
