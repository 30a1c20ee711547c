/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages as they arrive: frames go into posted receives, or wait for one.
 *
 * A message meets its receive at its first frame, so that the order of arrival holds; its further
 * frames are copied straight into the buffers.  Without a receive its bytes are kept on the heap, up to
 * HMREG_VERBS_MAX_UNEXPECTED for the endpoint, and a receive that comes takes over what is there, even
 * of a message that is not complete.
 *
 * A frame that cannot go on now (no room in the completion queue, no memory, too many answers that wait
 * for a slot) stays in its receive buffer, and all further ones of its sender behind it.  So the shared
 * receive queue runs empty in the end and senders wait; nothing is lost.  verbs_msg_retry looks at held
 * buffers again.
 *
 * What comes from a peer is not trusted.  A frame that cannot be is dropped, with a message that it
 * would have been part of, and concerns no other peer.
 *
 *   verbs_msg.c      what the transport and the application call; held buffers
 *   verbs_message.c  frames -> messages -> receives; answers
 *
 * All state is protected by verbs_ep.lock.
 */
#ifndef VERBS_MSG_H
#define VERBS_MSG_H

#include "core/nic/match.h"
#include "core/nic/verbs_ep.h"

/* A message that waits for its receive, for further frames, or for its answer to be sent. */
struct verbs_message {
	struct nic_message head; /* link: in match.unexpected, or in answers */
	struct verbs_peer *peer;
	uint64_t id; /* the sender's, for the answer */
	bool wants_answer;
	bool unexpected;	 /* no receive yet; the payload is kept here */
	struct nic_posted *recv; /* owned; holds CQ room.  NULL: unexpected, or refused */
	enum hmreg_error why;	 /* what went wrong with the bytes; in answers: the answer */
	size_t got;		 /* bytes that have come */
	struct hm_list pieces;	 /* owned */
	size_t first;		 /* bytes in payload */
	char payload[];
};

struct verbs_msg {
	struct nic_match match;
	struct hm_list held;	/* verbs_rx in order of arrival */
	struct hm_list answers; /* verbs_message, owned */
	size_t answer_count;
	uint64_t pass;	  /* counts the passes over held */
	uint64_t refused; /* frames that could not be */
	bool gone;	  /* the device is */
};

static inline struct verbs_message *verbs_message_of(struct hm_list *link)
{
	return hm_container(hm_list_entry(link, struct nic_message, link), struct verbs_message,
			    head);
}

/* ---- verbs_message.c ---- */

/* A frame of type MESSAGE or MORE, not too long.  True: done with it; false: it has to be held. */
bool verbs_message_frame(struct verbs_ep *ep, struct verbs_peer *peer,
			 const struct verbs_frame *frame);
/* One line for the first frame that cannot be, and ever fewer for further ones. */
void verbs_message_refuse(struct verbs_ep *ep, const struct verbs_peer *peer, const char *what);
/* A receive (with CQ room) takes over an unexpected message, complete or not. */
void verbs_message_take_over(struct verbs_ep *ep, struct verbs_message *msg,
			     struct nic_posted *recv);
/* The rest of the message that the peer has begun, if it has, will not come. */
void verbs_message_give_up(struct verbs_ep *ep, struct verbs_peer *peer, enum hmreg_error why);
void verbs_message_retry_answers(struct verbs_ep *ep);
void verbs_message_drop_answer(struct verbs_msg *m, struct verbs_message *msg);
/* Of one that is in no list and has no receive. */
void verbs_message_free(struct verbs_message *msg);

#endif
