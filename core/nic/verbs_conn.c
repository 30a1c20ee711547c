/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connections that this side opens, and the progress thread's work on connections.
 *
 *   NEW        an operation found no connection; the progress thread is to begin, at once or after a pause
 *   ADDRESS    the address is being resolved
 *   ROUTE      the way there is being resolved
 *   REQUESTED  the peer was asked
 *   READY      operations are posted
 *   DRAINING   broken; the rest of the posted work requests is coming back
 *   DEAD       the progress thread is to destroy it
 *
 * From any of the states before READY a failure leads to DEAD.  Everything that waits then fails, or
 * another connection is tried where the cause may pass.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_conn.h"

/* Reasons of a rejection, as the connection manager of InfiniBand numbers them. */
#define REJECTED_NO_RESOURCES 3
#define REJECTED_TIMEOUT      4
#define REJECTED_STALE	      10

/* ---- beginnings ---- */

/* What a failure to connect means. */
enum failure {
	NOT_THERE, /* nobody can be reached at this address */
	MAY_PASS,  /* another attempt may succeed */
	OURS	   /* this side lacks something; it has said what */
};

bool verbs_device_gone(struct verbs_ep *ep)
{
	struct ibv_port_attr port;
	int err;

	verbs_domain_async(ep->vd);
	if (atomic_load(&ep->vd->gone))
		return true;
	err = verbs_query_port(ep->vd->context, ep->vd->port->number, &port);
	if (err == EIO || err == ENODEV)
		verbs_domain_gone(ep->vd, "it does not answer (ibv_query_port)");
	return atomic_load(&ep->vd->gone);
}

/* Under the lock. */
static bool tries_again(const struct verbs_peer *peer, enum failure failure)
{
	return failure == MAY_PASS && peer->attempts < VERBS_ATTEMPTS &&
	       verbs_now_ms() < peer->until;
}

/* The peer cannot be reached: another attempt, or the end of all that waits.  No lock held. */
static void give_up(struct verbs_conn *conn, enum failure failure, const char *why)
{
	struct verbs_ep *ep = conn->ep;
	struct verbs_peer *peer = conn->peer;
	enum hmreg_error cause = failure == OURS ? HMREG_TRANSPORT : HMREG_PEER_GONE;

	if (verbs_device_gone(ep))
		cause = HMREG_DEVICE_GONE;
	pthread_mutex_lock(&ep->lock);
	if (conn->state != VERBS_CONN_DEAD) {
		verbs_conn_bury(conn);
		if (tries_again(peer, failure)) {
			verbs_conn_open(ep, peer);
		} else {
			HM_INFO(FI_LOG_EP_CTRL, "no connection to peer 0x%lx: %s",
				(unsigned long)peer->handle, why);
			peer->attempts = 0;
			verbs_peer_fail(ep, peer, cause);
		}
	}
	pthread_mutex_unlock(&ep->lock);
}

/* The thread that posts looks at it. */
static void set_state(struct verbs_conn *conn, enum verbs_conn_state state)
{
	pthread_mutex_lock(&conn->ep->lock);
	conn->state = state;
	pthread_mutex_unlock(&conn->ep->lock);
}

static enum verbs_conn_state state_of(struct verbs_conn *conn)
{
	enum verbs_conn_state state;

	pthread_mutex_lock(&conn->ep->lock);
	state = conn->state;
	pthread_mutex_unlock(&conn->ep->lock);
	return state;
}

/* Logged here, for it is this side's. */
static const char *complaint(const char *call)
{
	const char *text = strerror(errno);

	HM_WARN(FI_LOG_EP_CTRL, "no connection: %s: %s", call, text);
	return text;
}

/* A call of the connection manager's failed: by what this side lacks, or on the way to the peer. */
static void call_failed(struct verbs_conn *conn, const char *call)
{
	switch (errno) {
	case ENOMEM:
	case ENOBUFS:
	case EMFILE:
	case ENFILE:
	case EADDRINUSE:
	case EADDRNOTAVAIL: /* no port is free */
		give_up(conn, OURS, complaint(call));
		break;
	default:
		give_up(conn, MAY_PASS, strerror(errno));
		break;
	}
}

/*
 * The request, or the answer, may be lost, which the connection manager would mend too late.  So a peer is asked twice
 * before it is taken for dead.  The time begins here: what many connections at once wait for this thread is not theirs.
 */
static void set_times(struct verbs_conn *conn)
{
	uint64_t now = verbs_now_ms(), time = 2 * (uint64_t)verbs_retry_ms();

	conn->deadline = now + time;
	pthread_mutex_lock(&conn->ep->lock);
	if (conn->peer->attempts == 1)
		conn->peer->until = now + time + time / 2;
	pthread_mutex_unlock(&conn->ep->lock);
}

/* All by the progress thread: nobody else touches a connection in these states. */
static void begin(struct verbs_conn *conn)
{
	struct verbs_ep *ep = conn->ep;
	struct sockaddr_storage to, from = ep->name;
	socklen_t len;

	set_times(conn);
	set_state(conn, VERBS_CONN_ADDRESS);
	if (from.ss_family == AF_INET)
		((struct sockaddr_in *)&from)->sin_port = 0;
	else
		((struct sockaddr_in6 *)&from)->sin6_port = 0;
	if (verbs_addr_of(ep->vd, conn->peer->handle, &to, &len) != 0)
		give_up(conn, NOT_THERE, "no such address");
	else if (cm.create_id(ep->events, &conn->id, conn, RDMA_PS_TCP) != 0)
		give_up(conn, OURS, complaint("rdma_create_id"));
	else if (cm.resolve_addr(conn->id, (struct sockaddr *)&from, (struct sockaddr *)&to,
				 (int)verbs_retry_ms()) != 0)
		call_failed(conn, "rdma_resolve_addr");
}

static void on_address(struct verbs_conn *conn)
{
	const struct verbs_ep *ep = conn->ep;

	if (!conn->id->verbs || strcmp(conn->id->verbs->device->name, ep->vd->device->name) != 0) {
		give_up(conn, NOT_THERE, "the way to it is not over this domain's device");
		return;
	}
	set_state(conn, VERBS_CONN_ROUTE);
	if (cm.resolve_route(conn->id, (int)verbs_retry_ms()) != 0)
		call_failed(conn, "rdma_resolve_route");
}

static void say_hello(const struct verbs_ep *ep, enum verbs_lane lane, struct verbs_hello *hello)
{
	*hello = (struct verbs_hello){ .magic = VERBS_MAGIC,
				       .version = VERBS_PROTOCOL,
				       .family = ep->name.ss_family,
				       .lane = (uint16_t)lane,
				       .incarnation = ep->incarnation };
	if (ep->name.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)&ep->name;

		memcpy(hello->address, &in->sin_addr, sizeof(in->sin_addr));
		hello->port = in->sin_port;
	} else {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&ep->name;

		memcpy(hello->address, &in->sin6_addr, sizeof(in->sin6_addr));
		hello->port = in->sin6_port;
		hello->scope = in->sin6_scope_id;
	}
}

static uint8_t at_most_255(int n)
{
	return n < 1 ? 1 : n > 255 ? 255 : (uint8_t)n;
}

static void on_route(struct verbs_conn *conn)
{
	struct verbs_hello hello;
	struct rdma_conn_param param = {
		.private_data = &hello,
		.private_data_len = sizeof(hello),
		.responder_resources = 1,
		.initiator_depth = at_most_255(conn->ep->vd->device->attr.max_qp_init_rd_atom),
		.retry_count = 7,
		.rnr_retry_count = 7,
		.srq = 1,
	};

	if (verbs_qp_create(conn) != 0) {
		give_up(conn, OURS, "no queue pair");
		return;
	}
	say_hello(conn->ep, conn->lane, &hello);
	param.qp_num = conn->qp->qp_num;
	set_state(conn, VERBS_CONN_REQUESTED);
	if (cm.connect(conn->id, &param) != 0)
		call_failed(conn, "rdma_connect");
}

static bool valid_welcome(const struct verbs_cm_event *event, struct verbs_welcome *welcome)
{
	if (event->private_len < sizeof(*welcome))
		return false;
	memcpy(welcome, event->private_data, sizeof(*welcome));
	return welcome->magic == VERBS_MAGIC && welcome->version == VERBS_PROTOCOL &&
	       welcome->incarnation != 0;
}

static void on_welcome(struct verbs_conn *conn, const struct verbs_cm_event *event)
{
	struct verbs_ep *ep = conn->ep;
	struct verbs_peer *peer = conn->peer;
	struct verbs_welcome welcome;
	bool same;

	if (!valid_welcome(event, &welcome)) {
		give_up(conn, NOT_THERE, "what answers there is no endpoint of this kind");
		return;
	}
	if (verbs_qp_connect(conn, event->as_target, event->as_initiator) != 0 ||
	    (!verbs_is_iwarp(ep) && cm.establish(conn->id) != 0)) {
		give_up(conn, MAY_PASS, "the queue pair could not be set up");
		return;
	}
	pthread_mutex_lock(&ep->lock);
	if (conn->state != VERBS_CONN_DEAD) {
		conn->state = VERBS_CONN_READY;
		hm_list_del(&conn->link);
		peer->attempts = 0;
		peer->caps = welcome.caps;
		peer->has_rx_cq = welcome.flags & VERBS_WELCOME_RX_CQ;
		same = peer->incarnation == welcome.incarnation;
		if (!same && peer->incarnation)
			verbs_keys_forget(ep, verbs_peer_main(peer));
		peer->incarnation = welcome.incarnation;
		verbs_replay(ep, peer, same, &welcome);
		verbs_peer_pump(ep, peer);
		if (peer->lane == VERBS_LANE_CONTROL) /* it may ask anew */
			verbs_peer_pump(ep, peer->other);
	}
	pthread_mutex_unlock(&ep->lock);
}

/* ---- events ---- */

/* The other end closed the connection.  No lock held. */
static void on_disconnected(struct verbs_conn *conn)
{
	struct verbs_ep *ep = conn->ep;

	pthread_mutex_lock(&ep->lock);
	verbs_ep_poll(ep); /* it may tell a better reason */
	verbs_conn_break(conn, VERBS_BREAK_GONE);
	pthread_mutex_unlock(&ep->lock);
}

static void on_rejected(struct verbs_conn *conn, const struct verbs_cm_event *event)
{
	bool may_pass = event->status == REJECTED_STALE || event->status == REJECTED_TIMEOUT ||
			event->status == REJECTED_NO_RESOURCES;
	char why[64];

	snprintf(why, sizeof(why), "rejected, reason %d", event->status);
	give_up(conn, may_pass ? MAY_PASS : NOT_THERE, why);
}

static void on_active_event(struct verbs_conn *conn, enum verbs_conn_state state,
			    const struct verbs_cm_event *event)
{
	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (state == VERBS_CONN_ADDRESS)
			on_address(conn);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (state == VERBS_CONN_ROUTE)
			on_route(conn);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED: /* iWARP alone gives this one to the side that asked */
		if (state == VERBS_CONN_REQUESTED)
			on_welcome(conn, event);
		break;
	case RDMA_CM_EVENT_REJECTED:
		on_rejected(conn, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		if (state < VERBS_CONN_READY)
			give_up(conn, MAY_PASS, cm.event_str(event->type));
		else
			on_disconnected(conn);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (state < VERBS_CONN_READY)
			give_up(conn, MAY_PASS, "disconnected");
		else
			on_disconnected(conn);
		break;
	default:
		break;
	}
}

static void on_passive_event(struct verbs_conn *conn, const struct verbs_cm_event *event)
{
	switch (event->type) {
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		pthread_mutex_lock(&conn->ep->lock);
		verbs_ep_poll(conn->ep); /* what had arrived */
		verbs_conn_break(conn, VERBS_BREAK_LOST);
		pthread_mutex_unlock(&conn->ep->lock);
		break;
	default:
		break;
	}
}

static void dispatch(struct verbs_ep *ep, const struct verbs_cm_event *event)
{
	enum verbs_conn_state state;
	struct verbs_conn *conn;

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		verbs_accept(ep, event);
		return;
	}
	if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		verbs_domain_gone(ep->vd, "RDMA_CM_EVENT_DEVICE_REMOVAL");
		return;
	}
	if (event->id == ep->listener)
		return;
	conn = event->id->context;
	state = state_of(conn);
	if (state == VERBS_CONN_DEAD)
		return;
	if (conn->passive)
		on_passive_event(conn, event);
	else
		on_active_event(conn, state, event);
}

/* Copied and acknowledged at once, so that nothing stands in the way of an identifier's end. */
static bool next_event(struct verbs_ep *ep, struct verbs_cm_event *copy)
{
	struct rdma_cm_event *event;

	if (cm.get_cm_event(ep->events, &event) != 0)
		return false;
	copy->type = event->event;
	copy->status = event->status;
	copy->id = event->id;
	copy->as_target = event->param.conn.responder_resources;
	copy->as_initiator = event->param.conn.initiator_depth;
	copy->private_len = 0;
	if (event->param.conn.private_data)
		copy->private_len = event->param.conn.private_data_len;
	if (copy->private_len > 0)
		memcpy(copy->private_data, event->param.conn.private_data, copy->private_len);
	cm.ack_cm_event(event);
	return true;
}

void verbs_conn_events(struct verbs_ep *ep)
{
	struct verbs_cm_event event;

	while (next_event(ep, &event))
		dispatch(ep, &event);
}

/* ---- work ---- */

static void destroy_dead(struct verbs_ep *ep)
{
	struct verbs_conn *conn;

	do {
		conn = NULL;
		pthread_mutex_lock(&ep->lock);
		if (!hm_list_empty(&ep->dead)) {
			conn = hm_list_entry(ep->dead.next, struct verbs_conn, link);
			hm_list_del(&conn->link);
		}
		pthread_mutex_unlock(&ep->lock);
		if (conn)
			verbs_conn_destroy(conn);
	} while (conn);
}

/* A connection that is to be begun, or that has taken too long (*late). */
static struct verbs_conn *next_beginning(struct verbs_ep *ep, bool *late)
{
	uint64_t now = verbs_now_ms();
	struct verbs_conn *found = NULL;

	pthread_mutex_lock(&ep->lock);
	hm_list_for_each(link, &ep->connecting)
	{
		struct verbs_conn *conn = hm_list_entry(link, struct verbs_conn, link);

		*late = conn->state != VERBS_CONN_NEW && now > conn->deadline;
		if ((conn->state == VERBS_CONN_NEW && now >= conn->start) || *late) {
			found = conn;
			break;
		}
	}
	pthread_mutex_unlock(&ep->lock);
	return found;
}

/*
 * Whoever waits for an answer has nothing under way by which the NIC would notice that the peer is dead:
 * a frame that says nothing.
 */
static void probe(struct verbs_ep *ep)
{
	static const struct verbs_frame frame = { .type = VERBS_FRAME_ALIVE };

	pthread_mutex_lock(&ep->lock);
	for (size_t i = 0; i < VERBS_BUCKETS; i++) {
		hm_list_for_each(link, &ep->peers[i])
		{
			struct verbs_peer *peer = hm_list_entry(link, struct verbs_peer, link);

			if (peer->conn && peer->conn->state == VERBS_CONN_READY &&
			    peer->conn->used == 0 && hm_list_empty(&peer->control) &&
			    !(hm_list_empty(&peer->unanswered) && hm_list_empty(&peer->waiting)))
				verbs_control_send(ep, peer->handle, &frame, NULL);
		}
	}
	pthread_mutex_unlock(&ep->lock);
}

/* A call failed as it does on a device that is gone. */
static void look_at_device(struct verbs_ep *ep)
{
	bool suspect;

	pthread_mutex_lock(&ep->lock);
	suspect = ep->suspect;
	ep->suspect = false;
	pthread_mutex_unlock(&ep->lock);
	if (suspect && !verbs_device_gone(ep))
		HM_INFO(FI_LOG_EP_CTRL, "%s is there: a single queue failed", ep->vd->device->name);
}

/* What is due some time.  True: more is. */
static bool look_at_deadlines(struct verbs_ep *ep)
{
	bool more;

	pthread_mutex_lock(&ep->lock);
	verbs_keys_retry(ep);
	more = verbs_alive_absent(ep);
	more |= !hm_list_empty(&ep->connecting) || !hm_list_empty(&ep->key_queries);
	pthread_mutex_unlock(&ep->lock);
	return more;
}

static void beat(struct verbs_ep *ep)
{
	probe(ep);
	pthread_mutex_lock(&ep->lock);
	verbs_alive_beat(ep);
	if (ep->unarmed)
		verbs_ep_arm(ep);
	pthread_mutex_unlock(&ep->lock);
}

bool verbs_conn_work(struct verbs_ep *ep, bool heartbeat)
{
	struct verbs_conn *conn;
	bool late, listened = false;

	look_at_device(ep);
	destroy_dead(ep);
	while ((conn = next_beginning(ep, &late))) {
		if (!late) {
			begin(conn);
		} else if (!listened) { /* who is slow may be this thread: the answer may be here */
			verbs_conn_events(ep);
			listened = true;
		} else {
			give_up(conn, MAY_PASS, "it does not answer");
		}
	}
	if (heartbeat)
		beat(ep);
	return look_at_deadlines(ep);
}
