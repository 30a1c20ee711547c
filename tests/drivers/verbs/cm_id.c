/* SPDX-License-Identifier: BSD-2-Clause */
/* Identifiers of the emulated connection manager: their life, binding and resolution. */
#include "tests/drivers/verbs/cm.h"

#include <arpa/inet.h>

#define DEFAULT_BACKLOG 1024u

static struct hm_list ids = { &ids, &ids };

struct hm_list *cm_ids(void)
{
	return &ids;
}

bool cm_gone(const struct cm_id *id)
{
	return id->context && id->context->device->removed;
}

struct cm_id *cm_id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space ps)
{
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->ibv.channel = channel;
	id->ibv.context = context;
	id->ibv.ps = ps;
	id->ibv.qp_type = IBV_QPT_RC;
	id->self.psn = (uint32_t)random() & 0xffffff;
	hm_list_add_tail(&ids, &id->entry);
	emu.counts.cm_ids++;
	return id;
}

void cm_id_free(struct cm_id *id)
{
	hm_list_del(&id->entry);
	emu.counts.cm_ids--;
	if (id->context)
		emu_internal_release(id->context);
	free(id);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **created, void *context,
		   enum rdma_port_space ps)
{
	int error = emu_call(CALL_rdma_create_id);
	struct cm_id *id;

	if (error)
		return cm_answer(error);
	if (!channel || (ps != RDMA_PS_TCP && ps != RDMA_PS_IB))
		return cm_answer(EINVAL);
	emu_enter();
	id = cm_id_new(channel, context, ps);
	emu_leave();
	if (!id)
		return cm_answer(ENOMEM);
	*created = &id->ibv;
	return 0;
}

static void forget_listener(const struct cm_id *listener)
{
	for (struct hm_list *at = ids.next; at != &ids; at = at->next) {
		struct cm_id *id = hm_container(at, struct cm_id, entry);

		if (id->listener == listener)
			id->listener = NULL;
	}
}

int rdma_destroy_id(struct rdma_cm_id *ibv)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_destroy_id);

	if (error)
		return cm_answer(error);
	emu_enter();
	cm_leave(id);
	id->state = CM_FAILED;
	cm_event_drop(id);
	emu_wait_acked(&id->completed, &id->delivered);
	forget_listener(id);
	cm_id_free(id);
	emu_leave();
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *ibv, struct sockaddr *addr)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_bind_addr);

	if (error)
		return cm_answer(error);
	emu_enter();
	error = id->state == CM_IDLE ? cm_bind(id, addr) : EINVAL;
	emu_leave();
	return cm_answer(error);
}

int rdma_listen(struct rdma_cm_id *ibv, int backlog)
{
	struct cm_id *id = to_id(ibv);
	struct sockaddr_in any = { .sin_family = AF_INET };
	int error = emu_call(CALL_rdma_listen);

	if (error)
		return cm_answer(error);
	emu_enter();
	if (cm_gone(id))
		error = ENODEV;
	else if (id->state == CM_IDLE)
		error = cm_bind(id, (const struct sockaddr *)&any);
	if (!error && id->state != CM_BOUND)
		error = EINVAL;
	if (!error) {
		id->backlog = backlog > 0 ? (unsigned int)backlog : DEFAULT_BACKLOG;
		id->state = CM_LISTENING;
	}
	emu_leave();
	return cm_answer(error);
}

/* ---- resolution ---- */
/* Binds ID to where packets to DST leave, if it is bound to no device yet; the status of the event. */
static int resolve_source(struct cm_id *id, const struct sockaddr *dst)
{
	struct rdma_addr *addr = &id->ibv.route.addr;
	struct emu_device *target = emu_device_by_addr(dst);
	uint16_t port;
	int error;

	if (!target)
		return -EHOSTUNREACH;
	if (id->context)
		return addr->src_addr.sa_family == dst->sa_family ? 0 : -EAFNOSUPPORT;
	if (id->state == CM_IDLE) {
		struct sockaddr_in6 any = { .sin6_family = dst->sa_family };

		error = cm_bind(id, (const struct sockaddr *)&any);
		if (error)
			return -error;
	}
	error = cm_attach(id, target);
	if (error)
		return -error;
	/* The local address that the system takes for a packet to a local one is that one. */
	port = cm_port(&addr->src_addr);
	memcpy(&addr->src_addr, dst, cm_addr_size(dst));
	cm_set_port(&addr->src_addr, port);
	return 0;
}

static void set_destination(struct cm_id *id, const struct sockaddr *dst)
{
	struct rdma_addr *addr = &id->ibv.route.addr;

	memcpy(&addr->dst_addr, dst, cm_addr_size(dst));
	if (!cm_is_any(dst))
		return;
	if (dst->sa_family == AF_INET)
		addr->dst_sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		addr->dst_sin6.sin6_addr = in6addr_loopback;
}

static int resolve(struct cm_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
	int error = 0, status;

	if (dst->sa_family != AF_INET && dst->sa_family != AF_INET6)
		return EAFNOSUPPORT;
	if (src && id->state == CM_IDLE)
		error = cm_bind(id, src);
	if (error)
		return error;
	if (id->state != CM_IDLE && id->state != CM_BOUND)
		return EINVAL;
	set_destination(id, dst);
	status = resolve_source(id, &id->ibv.route.addr.dst_addr);
	if (!status)
		id->state = CM_ADDR_RESOLVED;
	cm_event_send(id, status ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, status);
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *ibv, struct sockaddr *src_addr, struct sockaddr *dst_addr,
		      int timeout_ms)
{
	int error = emu_call(CALL_rdma_resolve_addr);

	(void)timeout_ms;
	if (error)
		return cm_answer(error);
	emu_enter();
	error = cm_gone(to_id(ibv)) ? ENODEV : resolve(to_id(ibv), src_addr, dst_addr);
	emu_leave();
	return cm_answer(error);
}

int rdma_resolve_route(struct rdma_cm_id *ibv, int timeout_ms)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_resolve_route);

	(void)timeout_ms;
	if (error)
		return cm_answer(error);
	emu_enter();
	if (cm_gone(id)) {
		error = ENODEV;
	} else if (id->state != CM_ADDR_RESOLVED) {
		error = EINVAL;
	} else {
		id->state = CM_ROUTE_RESOLVED;
		cm_event_send(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	}
	emu_leave();
	return cm_answer(error);
}

/* ---- options, channels ---- */
static int store_flag(const void *value, size_t length, bool *flag)
{
	int number;

	if (length != sizeof(number))
		return EINVAL;
	memcpy(&number, value, sizeof(number));
	*flag = number;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *ibv, int level, int optname, void *optval, size_t optlen)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_set_option);

	if (error)
		return cm_answer(error);
	if (level != RDMA_OPTION_ID)
		return cm_answer(ENOSYS);
	emu_enter();
	switch (optname) {
	case RDMA_OPTION_ID_TOS:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		error = optlen == 1 ? 0 : EINVAL;
		break;
	case RDMA_OPTION_ID_REUSEADDR:
		error = store_flag(optval, optlen, &id->reuse);
		break;
	case RDMA_OPTION_ID_AFONLY:
		error = store_flag(optval, optlen, &id->afonly);
		break;
	default:
		error = ENOSYS;
	}
	emu_leave();
	return cm_answer(error);
}

int rdma_migrate_id(struct rdma_cm_id *ibv, struct rdma_event_channel *channel)
{
	struct cm_id *id = to_id(ibv);
	int error = emu_call(CALL_rdma_migrate_id);

	if (error || !channel)
		return cm_answer(error ? error : EINVAL);
	emu_enter();
	if (channel != ibv->channel)
		cm_event_move(id, channel);
	emu_wait_acked(&id->completed, &id->delivered);
	ibv->channel = channel;
	emu_leave();
	return 0;
}
