/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulated connection manager: identifiers and their events.  The mutex of emu.h protects everything; all
 * messages between the two ends of a connection arrive at once.
 */
#ifndef CM_H
#define CM_H

#include "tests/drivers/verbs/emu.h"

/* How much private data each message carries over InfiniBand and RoCE. */
#define CM_REQUEST_DATA	 56u
#define CM_RESPONSE_DATA 196u
#define CM_REJECT_DATA	 148u

/* Why a request was rejected, as in an event's status. */
#define CM_REJECT_TIMEOUT    4
#define CM_REJECT_NO_SERVICE 8
#define CM_REJECT_CONSUMER   28

enum cm_state {
	CM_IDLE,
	CM_BOUND,
	CM_LISTENING,
	CM_ADDR_RESOLVED,
	CM_ROUTE_RESOLVED,
	CM_REQUESTING, /* active: request sent */
	CM_REQUESTED,  /* passive: request received */
	CM_RESPONDED,  /* active: response received */
	CM_ACCEPTED,   /* passive: response sent */
	CM_CONNECTED,
	CM_DISCONNECTED,
	CM_FAILED,
};

struct cm_channel {
	struct rdma_event_channel ibv;
	struct emu_channel queue;
};

/* One end's side of a connection's parameters. */
struct cm_params {
	uint32_t qp_num;
	uint32_t psn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
};

struct cm_id {
	struct rdma_cm_id ibv;
	struct hm_list entry; /* in the list of all identifiers */
	enum cm_state state;
	struct emu_context *context; /* held; NULL: not bound to a device */
	struct cm_id *peer;	     /* the other end, NULL: none (any more) */
	struct cm_id *listener;	     /* passive: where the request came in, NULL once it is gone */
	uint16_t listen_port;	     /* passive, host order */
	bool taken;		     /* passive: the request's event was taken */
	struct cm_params self, other;
	unsigned int backlog, pending; /* listening: requests allowed, requests not yet answered */
	bool afonly, reuse;
	uint32_t completed;	/* events acknowledged */
	unsigned int delivered; /* events taken */
};

struct cm_event {
	struct rdma_cm_event ibv;
	struct hm_list entry; /* in the channel's queue */
	struct cm_id *owner;  /* whose destruction waits for it; a request's is the listener */
	uint8_t data[CM_RESPONSE_DATA];
};

static inline struct cm_id *to_id(struct rdma_cm_id *id)
{
	return hm_container(id, struct cm_id, ibv);
}

static inline struct cm_channel *to_cm_channel(struct rdma_event_channel *channel)
{
	return hm_container(channel, struct cm_channel, ibv);
}

/* Sets errno. */
static inline int cm_answer(int error)
{
	if (!error)
		return 0;
	errno = error;
	return -1;
}

static inline uint16_t cm_port(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? ((const struct sockaddr_in6 *)addr)->sin6_port
					   : ((const struct sockaddr_in *)addr)->sin_port;
}

/* ---- cm_event.c ---- */
/* A new event of ID without data; cm_event_push() delivers it. */
struct cm_event *cm_event_new(struct cm_id *id, enum rdma_cm_event_type type, int status);
/* Data of which the receiver sees always ROOM bytes, the rest zero. */
void cm_event_data(struct cm_event *event, const void *data, uint8_t length, uint8_t room);
void cm_event_push(struct cm_event *event);
void cm_event_send(struct cm_id *id, enum rdma_cm_event_type type, int status);
/* Drops what was not taken of ID's events. */
void cm_event_drop(struct cm_id *id);
/* Moves what was not taken of ID's events. */
void cm_event_move(struct cm_id *id, struct rdma_event_channel *to);

/* ---- cm_addr.c ---- */
bool cm_is_any(const struct sockaddr *addr);
void cm_set_port(struct sockaddr *addr, uint16_t port);
size_t cm_addr_size(const struct sockaddr *addr);
/* Binds ID to a device, a copy of ADDR and a port; 0 or an errno. */
int cm_bind(struct cm_id *id, const struct sockaddr *addr);
/* Who listens at ADDR. */
struct cm_id *cm_listener(const struct sockaddr *addr);
int cm_attach(struct cm_id *id, struct emu_device *device);

/* ---- cm_id.c ---- */
struct hm_list *cm_ids(void);
struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps);
/* Frees ID without waiting for anything. */
void cm_id_free(struct cm_id *id);
/* Is ID's device removed? */
bool cm_gone(const struct cm_id *id);

/* ---- cm_connect.c ---- */
/* ID says no more: the other end is told what it would be told by a message. */
void cm_leave(struct cm_id *id);
/* Are requests to PORT lost? */
bool cm_silent(uint16_t port);

#endif
