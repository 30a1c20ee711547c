/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of the emulated connection manager. */
#include "tests/drivers/verbs/cm.h"

#include <arpa/inet.h>

#define SILENT_PORTS 16u

static uint16_t silent_ports[SILENT_PORTS]; /* host order; 0: none */

bool cm_silent(uint16_t port)
{
	for (unsigned int i = 0; i < SILENT_PORTS; i++)
		if (silent_ports[i] && silent_ports[i] == port)
			return true;
	return false;
}

void emu_verbs_silence(uint16_t port, int silent)
{
	emu_enter();
	for (unsigned int i = 0; i < SILENT_PORTS; i++) {
		if (silent_ports[i] == port)
			silent_ports[i] = 0;
		if (silent && !silent_ports[i]) {
			silent_ports[i] = port;
			silent = 0;
		}
	}
	emu_leave();
}

/* Requests to a port that are lost, or refused for a reason. */
static struct {
	uint16_t port;
	unsigned requests;
	int reason;
} losing;

void emu_verbs_lose(uint16_t port, unsigned requests, int reason)
{
	emu_enter();
	losing.port = port;
	losing.requests = requests;
	losing.reason = reason;
	emu_leave();
}

/* ---- parameters ---- */
static int store_params(struct cm_id *id, const struct rdma_conn_param *param, uint8_t room)
{
	uint64_t max = id->context->config.max_rd_atomic;
	struct cm_params *self = &id->self;

	if (param->private_data_len > room || (param->private_data_len && !param->private_data))
		return EINVAL;
	self->responder_resources = param->responder_resources;
	self->initiator_depth = param->initiator_depth;
	if (self->responder_resources == RDMA_MAX_RESP_RES)
		self->responder_resources = (uint8_t)max;
	if (self->initiator_depth == RDMA_MAX_INIT_DEPTH)
		self->initiator_depth = (uint8_t)max;
	if (self->responder_resources > max || self->initiator_depth > max)
		return EINVAL;
	self->qp_num = id->ibv.qp ? id->ibv.qp->qp_num : param->qp_num;
	self->srq = param->srq;
	self->retry_count = param->retry_count & 7;
	self->rnr_retry_count = param->rnr_retry_count & 7;
	return 0;
}

/* What the other end asked for, seen from here. */
static void show_params(struct cm_event *event, const struct cm_params *other)
{
	struct rdma_conn_param *conn = &event->ibv.param.conn;

	conn->responder_resources = other->initiator_depth;
	conn->initiator_depth = other->responder_resources;
	conn->flow_control = 1;
	conn->retry_count = other->retry_count;
	conn->rnr_retry_count = other->rnr_retry_count;
	conn->srq = other->srq;
	conn->qp_num = other->qp_num;
}

static void reject_event(struct cm_id *id, int reason, const void *data, uint8_t length)
{
	struct cm_event *event = cm_event_new(id, RDMA_CM_EVENT_REJECTED, reason);

	cm_event_data(event, data, length, CM_REJECT_DATA);
	cm_event_push(event);
	id->state = CM_FAILED;
}

/* ---- the active side ---- */
static void answered(struct cm_id *passive)
{
	if (passive->listener)
		passive->listener->pending--;
}

/* The identifier of a request that came in at LISTENER. */
static struct cm_id *new_request(struct cm_id *active, struct cm_id *listener)
{
	struct rdma_addr *from = &active->ibv.route.addr;
	struct cm_id *id =
		cm_id_new(listener->ibv.channel, listener->ibv.context, listener->ibv.ps);

	if (!id)
		return NULL;
	if (cm_attach(id, emu_device_by_addr(&from->dst_addr))) {
		cm_id_free(id);
		return NULL;
	}
	memcpy(&id->ibv.route.addr.src_storage, &from->dst_storage, sizeof(from->dst_storage));
	memcpy(&id->ibv.route.addr.dst_storage, &from->src_storage, sizeof(from->src_storage));
	id->listener = listener;
	id->listen_port = ntohs(cm_port(&from->dst_addr));
	id->state = CM_REQUESTED;
	id->peer = active;
	id->other = active->self;
	/* Until accepted: what the other end asks for. */
	id->self.responder_resources = active->self.initiator_depth;
	id->self.initiator_depth = active->self.responder_resources;
	return id;
}

static void deliver_request(struct cm_id *id, struct cm_id *listener,
			    const struct rdma_conn_param *param)
{
	struct cm_id *request = new_request(id, listener);
	struct cm_event *event;

	if (!request) {
		reject_event(id, CM_REJECT_CONSUMER, NULL, 0);
		return;
	}
	id->state = CM_REQUESTING;
	id->peer = request;
	listener->pending++;
	event = cm_event_new(request, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	event->ibv.listen_id = &listener->ibv;
	event->owner = listener;
	show_params(event, &id->self);
	cm_event_data(event, param->private_data, param->private_data_len, CM_REQUEST_DATA);
	cm_event_push(event);
}

static bool reachable(const struct cm_id *id)
{
	const struct sockaddr *dst = &id->ibv.route.addr.dst_addr;
	const struct emu_device *target = emu_device_by_addr(dst);

	return target && target->port_state == IBV_PORT_ACTIVE &&
	       id->context->device->port_state == IBV_PORT_ACTIVE &&
	       !cm_silent(ntohs(cm_port(dst)));
}

/* Is this request one that does not arrive? */
static bool loses(struct cm_id *id)
{
	if (losing.requests == 0 || ntohs(cm_port(&id->ibv.route.addr.dst_addr)) != losing.port)
		return false;
	losing.requests--;
	id->state = CM_REQUESTING;
	if (losing.reason)
		reject_event(id, losing.reason, NULL, 0);
	return true;
}

static void request_connection(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct cm_id *listener = cm_listener(&id->ibv.route.addr.dst_addr);

	if (!reachable(id)) {
		id->state = CM_FAILED;
		cm_event_send(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	} else if (!listener) {
		reject_event(id, CM_REJECT_NO_SERVICE, NULL, 0);
	} else if (listener->pending >= listener->backlog) {
		reject_event(id, CM_REJECT_CONSUMER, NULL, 0);
	} else {
		deliver_request(id, listener, param);
	}
}

int rdma_connect(struct rdma_cm_id *ibv, struct rdma_conn_param *param)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_connect);

	if (error || !param)
		return cm_answer(error ? error : EINVAL);
	emu_enter();
	if (cm_gone(id))
		error = ENODEV;
	else if (id->state != CM_ROUTE_RESOLVED)
		error = EINVAL;
	else
		error = store_params(id, param, CM_REQUEST_DATA);
	if (!error && !loses(id))
		request_connection(id, param);
	emu_leave();
	return cm_answer(error);
}

int rdma_establish(struct rdma_cm_id *ibv)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_establish);

	if (error)
		return cm_answer(error);
	emu_enter();
	if (cm_gone(id)) {
		error = ENODEV;
	} else if (id->state != CM_RESPONDED || ibv->qp) {
		error = EINVAL;
	} else {
		id->state = CM_CONNECTED;
		if (id->peer) {
			id->peer->state = CM_CONNECTED;
			cm_event_send(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0);
		}
	}
	emu_leave();
	return cm_answer(error);
}

/* ---- the passive side ---- */
static void deliver_response(struct cm_id *id, const struct rdma_conn_param *param)
{
	struct cm_id *active = id->peer;
	struct cm_event *event = cm_event_new(active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);

	id->state = CM_ACCEPTED;
	active->state = CM_RESPONDED;
	active->other = id->self;
	/* The one who accepts decides. */
	active->self.responder_resources = id->self.initiator_depth;
	active->self.initiator_depth = id->self.responder_resources;
	show_params(event, &id->self);
	cm_event_data(event, param->private_data, param->private_data_len, CM_RESPONSE_DATA);
	cm_event_push(event);
}

int rdma_accept(struct rdma_cm_id *ibv, struct rdma_conn_param *param)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_accept);

	if (error || !param)
		return cm_answer(error ? error : EINVAL);
	emu_enter();
	if (cm_gone(id))
		error = ENODEV;
	else if (id->state != CM_REQUESTED || !id->peer)
		error = EINVAL;
	else
		error = store_params(id, param, CM_RESPONSE_DATA);
	if (!error) {
		answered(id);
		deliver_response(id, param);
	}
	emu_leave();
	return cm_answer(error);
}

int rdma_reject(struct rdma_cm_id *ibv, const void *private_data, uint8_t private_data_len)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_reject);

	if (error || private_data_len > CM_REJECT_DATA)
		return cm_answer(error ? error : EINVAL);
	emu_enter();
	if (cm_gone(id)) {
		error = ENODEV;
	} else if (id->state != CM_REQUESTED || !id->peer) {
		error = EINVAL;
	} else {
		answered(id);
		reject_event(id->peer, CM_REJECT_CONSUMER, private_data, private_data_len);
		id->peer->peer = NULL;
		id->peer = NULL;
		id->state = CM_FAILED;
	}
	emu_leave();
	return cm_answer(error);
}

/* ---- the end ---- */
static void disconnected(struct cm_id *id)
{
	id->state = CM_DISCONNECTED;
	cm_event_send(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_event_send(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

void cm_leave(struct cm_id *id)
{
	struct cm_id *peer = id->peer;

	if (id->state == CM_REQUESTED)
		answered(id);
	if (!peer)
		return;
	id->peer = NULL;
	peer->peer = NULL;
	if (cm_gone(id) || cm_gone(peer))
		return;
	switch (id->state) {
	case CM_REQUESTING:
		answered(peer);
		peer->listener = NULL;
		reject_event(peer, CM_REJECT_TIMEOUT, NULL, 0);
		break;
	case CM_REQUESTED:
	case CM_ACCEPTED:
	case CM_RESPONDED:
		reject_event(peer, CM_REJECT_CONSUMER, NULL, 0);
		break;
	case CM_CONNECTED:
		disconnected(peer);
		break;
	default:
		break;
	}
}

int rdma_disconnect(struct rdma_cm_id *ibv)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_disconnect);

	if (error)
		return cm_answer(error);
	emu_enter();
	switch (id->state) {
	case CM_CONNECTED:
	case CM_ACCEPTED:
	case CM_RESPONDED:
		cm_leave(id);
		disconnected(id);
		break;
	case CM_DISCONNECTED:
		break;
	default:
		error = EINVAL;
	}
	emu_leave();
	return cm_answer(error);
}

/* ---- queue pair attributes ---- */
static void init_attr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	/* Before a request came or was sent, nothing is known of what the other end will do. */
	bool known = id->state >= CM_REQUESTING;

	attr->pkey_index = 0;
	attr->port_num = 1;
	attr->qp_access_flags = known ? IBV_ACCESS_REMOTE_WRITE : 0;
	if (known && id->self.responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static void rtr_attr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct rdma_addr *addr = &id->ibv.route.addr;
	union ibv_gid sgid;

	emu_sockaddr_gid(&addr->src_addr, &sgid);
	memset(&attr->ah_attr, 0, sizeof(attr->ah_attr));
	emu_sockaddr_gid(&addr->dst_addr, &attr->ah_attr.grh.dgid);
	attr->ah_attr.grh.sgid_index = (uint8_t)emu_device_gid_index(id->context->device, &sgid);
	attr->ah_attr.grh.hop_limit = 64;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = 1;
	for (attr->path_mtu = IBV_MTU_256; (128u << attr->path_mtu) < id->context->config.mtu;)
		attr->path_mtu++;
	attr->dest_qp_num = id->other.qp_num;
	attr->rq_psn = id->other.psn;
	attr->max_dest_rd_atomic = id->self.responder_resources;
	attr->min_rnr_timer = 0;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static void rts_attr(const struct cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	/* The request's sender sets the retries of both; retries for a receiver not ready are the receiver's. */
	attr->retry_cnt = id->listen_port ? id->other.retry_count : id->self.retry_count;
	attr->rnr_retry = id->other.rnr_retry_count;
	attr->timeout = 18;
	attr->sq_psn = id->self.psn;
	attr->max_rd_atomic = id->self.initiator_depth;
	*mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
}

static bool knows_peer(enum cm_state state)
{
	return state == CM_REQUESTED || state == CM_RESPONDED || state == CM_ACCEPTED ||
	       state == CM_CONNECTED;
}

int rdma_init_qp_attr(struct rdma_cm_id *ibv, struct ibv_qp_attr *attr, int *mask)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_init_qp_attr);

	if (error)
		return cm_answer(error);
	emu_enter();
	if (cm_gone(id))
		error = ENODEV;
	else if (!id->context)
		error = EINVAL;
	else if (attr->qp_state == IBV_QPS_INIT)
		init_attr(id, attr, mask);
	else if (attr->qp_state == IBV_QPS_RTR && knows_peer(id->state))
		rtr_attr(id, attr, mask);
	else if (attr->qp_state == IBV_QPS_RTS && knows_peer(id->state))
		rts_attr(id, attr, mask);
	else
		error = EINVAL;
	emu_leave();
	return cm_answer(error);
}

/* ---- what tests do ---- */
static void sever(uint32_t qp_num)
{
	struct emu_qp *qp = emu_qp_find(qp_num);

	if (qp) {
		qp->severed = true;
		emu_qp_kick(qp);
	}
}

int emu_verbs_kill_peer(uint16_t port)
{
	int killed = 0;

	emu_enter();
	for (struct hm_list *at = cm_ids()->next; at != cm_ids(); at = at->next) {
		struct cm_id *id = hm_container(at, struct cm_id, entry);

		if (id->listen_port != port || !id->peer ||
		    (id->state != CM_CONNECTED && id->state != CM_ACCEPTED))
			continue;
		sever(id->self.qp_num);
		sever(id->other.qp_num);
		id->peer->peer = NULL;
		id->peer = NULL;
		killed++;
	}
	emu_leave();
	return killed;
}

void emu_cm_device_removed(struct emu_device *device)
{
	for (struct hm_list *at = cm_ids()->next; at != cm_ids(); at = at->next) {
		struct cm_id *id = hm_container(at, struct cm_id, entry);

		if (id->context && id->context->device == device)
			cm_event_send(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	}
}
