/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-rma: messages between client and server.  The client asks, the server answers; one question
 * is under way at a time.
 */
#ifndef HMREG_RMA_TALK_H
#define HMREG_RMA_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rma_memory.h"

#define RMA_TALK_VERSION 2
#define RMA_ADDRESS_MAX	 64

enum rma_question {
	RMA_HELLO = 1,	/* size: the largest; the answer: text, dmabuf, iface, device */
	RMA_REGISTER,	/* size; the answer: registration */
	RMA_FILL,	/* size, content */
	RMA_CHECK,	/* size, content; the answer: check */
	RMA_UNREGISTER, /* of what was registered last */
	RMA_BYE
};

/* A question and its answer; both ends are little-endian 64-bit machines. */
struct rma_message {
	uint32_t magic;
	uint16_t version;
	uint16_t question;
	uint32_t number; /* of the question; its answer has the same */
	int32_t status;	 /* of an answer: 0 or a negative FI_E code */
	uint64_t size;
	struct content content;
	struct rma_registration registration;
	struct rma_check check;
	uint32_t dmabuf;
	uint32_t iface; /* of the server's memory */
	int32_t device;
	uint32_t address_len; /* of the client, in each question */
	uint8_t address[RMA_ADDRESS_MAX];
	char text[128]; /* who answers, or what is wrong */
};

/* One end of the conversation. */
struct rma_talk {
	struct sample_end *end;
	struct rma_message *out, *in; /* owned, registered; in may be filled at any time */
	struct fid_mr *out_mr, *in_mr;
	bool listening;	 /* a receive is posted for in */
	bool arrived;	 /* its message is there, and has not been taken */
	bool sending;	 /* out is under way */
	bool broken;	 /* client: a question got no answer */
	size_t len;	 /* of what arrived */
	uint32_t number; /* client: of the last question */
};

int rma_talk_open(struct rma_talk *talk, struct sample_end *end);
/* Before the endpoint, which some modes bind regions to. */
int rma_talk_close(struct rma_talk *talk);

/* Send out to peer.  Waits until it has gone. */
int rma_talk_send(struct rma_talk *talk, fi_addr_t peer);
/* Post a receive for in, if there is none.  The message that is there is lost. */
int rma_talk_listen(struct rma_talk *talk);
/*
 * Wait until in is a message of this protocol; seconds 0: without limit.  Others are dropped, with a
 * word on stderr.  -FI_ETIMEDOUT is not printed, other failures are.
 */
int rma_talk_receive(struct rma_talk *talk, unsigned int seconds);

/*
 * Client: put the question that out holds (size and the like) and wait for the answer in in.  A
 * failure, the server's included, has been printed.
 */
int rma_talk_ask(struct rma_talk *talk, enum rma_question question);

#endif
