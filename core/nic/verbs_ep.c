/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints of the verbs NIC: opened, enabled, closed, named; their pools. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "core/base/guard.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/nic/verbs_conn.h"

#define CQ_SPARE  (VERBS_PROBES + 16)
#define BACKLOG	  1024
#define LINGER_US 200

uint64_t verbs_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

unsigned verbs_retry_ms(void)
{
	int ms = hm_param_int(HM_PARAM_VERBS_RETRY_TIME);

	return ms < 10 ? 10 : ms > 600000 ? 600000 : (unsigned)ms;
}

bool verbs_complain(struct verbs_ep *ep)
{
	uint64_t now = verbs_now_ms();

	if (ep->last_complaint && now - ep->last_complaint < 1000)
		return false;
	ep->last_complaint = now;
	return true;
}

/* errno of a verbs or connection manager call, as an FI_E code. */
static int code_of(int err)
{
	switch (err) {
	case EADDRINUSE:
		return -FI_EADDRINUSE;
	case EADDRNOTAVAIL:
	case ENODEV:
		return -FI_EADDRNOTAVAIL;
	case EACCES:
	case EPERM:
		return -FI_EACCES;
	case EMFILE:
	case ENFILE:
		return -FI_EMFILE;
	case EINVAL:
		return -FI_EINVAL;
	case EIO:
		return -FI_EIO;
	default:
		return -FI_ENOMEM;
	}
}

static int failed(const char *call)
{
	int err = errno;

	HM_WARN(FI_LOG_EP_CTRL, "%s: %s", call, strerror(err));
	return code_of(err);
}

static int make_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0)
		return 0;
	return failed("fcntl(O_NONBLOCK)");
}

/* ---- pools ---- */

/*
 * One registered piece of memory: receive buffers, then headers, then slots.  Nothing of it can be
 * reached by a peer.
 */
static int register_pool(struct verbs_ep *ep, size_t sends)
{
	struct verbs_attempt attempt = { .domain = ep->vd,
					 .call = VERBS_CALL_REG_MR,
					 .access = IBV_ACCESS_LOCAL_WRITE,
					 .fd = -1 };

	ep->pool_size = ep->rx_count * VERBS_RX_STRIDE + sends * VERBS_HEAD_STRIDE +
			(size_t)VERBS_SLOTS * VERBS_FRAME;
	ep->pool = mmap(NULL, ep->pool_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	if (ep->pool == MAP_FAILED) {
		ep->pool = NULL;
		return failed("no memory for an endpoint's buffers");
	}
	madvise(ep->pool, ep->pool_size, MADV_DONTFORK); /* a child's copy would only split pages */
	ep->pool_mr = verbs.reg_mr(ep->vd->pd, ep->pool, ep->pool_size, IBV_ACCESS_LOCAL_WRITE);
	if (ep->pool_mr)
		return 0;
	attempt.addr = ep->pool;
	attempt.len = ep->pool_size;
	return verbs_cause(&attempt, errno);
}

static int make_pools(struct verbs_ep *ep, size_t sends)
{
	int ret = register_pool(ep, sends);
	char *at = ep->pool;

	if (ret != 0)
		return ret;
	ep->rx = calloc(ep->rx_count, sizeof(*ep->rx));
	ep->tx = calloc(sends, sizeof(*ep->tx));
	ep->slot = calloc(VERBS_SLOTS, sizeof(*ep->slot));
	if (!ep->rx || !ep->tx || !ep->slot)
		return failed("no memory for an endpoint's buffers");
	for (size_t i = 0; i < ep->rx_count; i++, at += VERBS_RX_STRIDE) {
		hm_list_init(&ep->rx[i].link);
		ep->rx[i].frame = (struct verbs_frame *)(void *)at;
		ep->rx[i].lane = i < ep->rx_control ? VERBS_LANE_CONTROL : VERBS_LANE_MESSAGES;
	}
	for (size_t i = 0; i < sends; i++, at += VERBS_HEAD_STRIDE) {
		ep->tx[i].frame = (struct verbs_frame *)(void *)at;
		hm_list_add_tail(&ep->free_tx, &ep->tx[i].link);
	}
	for (size_t i = 0; i < VERBS_SLOTS; i++, at += VERBS_FRAME) {
		ep->slot[i].data = at;
		hm_list_add_tail(&ep->free_slots, &ep->slot[i].link);
	}
	ep->slots_free = VERBS_SLOTS;
	ep->tx_free = sends;
	ep->tx_own = sends / 16;
	return 0;
}

static void free_pools(struct verbs_ep *ep)
{
	hm_list_for_each_safe(link, &ep->free_ops)
	{
		hm_list_del(link);
		free(hm_list_entry(link, struct verbs_op, link));
	}
	if (ep->pool_mr)
		verbs_end(ep->vd, VERBS_KIND_MR, ep->pool_mr, ep->pool, ep->pool_size);
	else if (ep->pool)
		munmap(ep->pool, ep->pool_size);
	free(ep->rx);
	free(ep->tx);
	free(ep->slot);
}

void verbs_rx_repost(struct verbs_ep *ep, struct verbs_rx *rx)
{
	struct ibv_sge sge = { .addr = (uintptr_t)rx->frame,
			       .length = sizeof(struct verbs_frame) + VERBS_FRAME,
			       .lkey = ep->pool_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = verbs_rx_id(rx), .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int err;

	if (ep->gone)
		return;
	err = ibv_post_srq_recv(ep->srq[rx->lane], &wr, &bad);
	if (err == 0)
		ep->rx_posted++;
	else if (!atomic_load(&ep->vd->gone))
		HM_WARN(FI_LOG_EP_CTRL, "a receive buffer is lost: ibv_post_srq_recv: %s",
			strerror(err));
}

/* ---- opening ---- */

/* What the endpoint may have of the device. */
static int plan(struct verbs_ep *ep, size_t *sends)
{
	const struct ibv_device_attr *attr = &ep->vd->device->attr;
	size_t rx = hm_param_size(HM_PARAM_VERBS_RX_BUFFERS), cqe = (size_t)attr->max_cqe, spare;
	struct ibv_port_attr port;

	if (verbs_query_port(ep->vd->context, ep->vd->port->number, &port) != 0)
		return failed("ibv_query_port");
	ep->max_piece = port.max_msg_sz ? port.max_msg_sz : UINT64_C(1) << 30;
	if (ep->max_piece > UINT64_C(1) << 30)
		ep->max_piece = UINT64_C(1) << 30;
	ep->max_sge = attr->max_sge < VERBS_SGE ? (uint32_t)attr->max_sge : VERBS_SGE;
	ep->max_sge_read = ep->max_sge;
	if (attr->max_sge_rd > 0 && (uint32_t)attr->max_sge_rd < ep->max_sge)
		ep->max_sge_read = (uint32_t)attr->max_sge_rd;
	rx = rx < 8 ? 8 : rx;
	if (rx > (size_t)attr->max_srq_wr)
		rx = (size_t)attr->max_srq_wr;
	if (rx > cqe / 3)
		rx = cqe / 3;
	ep->rx_control = rx / 2 < VERBS_RX_CONTROL ? rx / 2 : VERBS_RX_CONTROL;
	ep->rx_count = rx + ep->rx_control;
	spare = ep->rx_count + CQ_SPARE;
	*sends = VERBS_SENDS;
	if (*sends + spare > cqe)
		*sends = cqe > spare ? cqe - spare : 0;
	if (*sends > 0 && rx > 0 && ep->max_sge >= 2)
		return 0;
	HM_WARN(FI_LOG_EP_CTRL,
		"%s is too small for an endpoint: %d completions, %d shared receives, %d segments",
		ep->vd->device->name, attr->max_cqe, attr->max_srq_wr, attr->max_sge);
	return -FI_ENOSPC;
}

static int make_receive_queue(struct verbs_ep *ep, enum verbs_lane lane, size_t buffers)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = (uint32_t)buffers, .max_sge = 1 } };

	ep->srq[lane] = verbs.create_srq(ep->vd->pd, &srq);
	return ep->srq[lane] ? 0 : failed("ibv_create_srq");
}

static int make_queues(struct verbs_ep *ep, size_t sends)
{
	struct ibv_context *context = ep->vd->context;
	int ret;

	ep->channel = verbs.create_comp_channel(context);
	if (!ep->channel)
		return failed("ibv_create_comp_channel");
	ret = make_nonblocking(ep->channel->fd);
	if (ret != 0)
		return ret;
	ep->cq = verbs.create_cq(context, (int)(sends + ep->rx_count + CQ_SPARE), ep, ep->channel,
				 0);
	if (!ep->cq)
		return failed("ibv_create_cq");
	ret = make_receive_queue(ep, VERBS_LANE_MESSAGES, ep->rx_count - ep->rx_control);
	if (ret == 0)
		ret = make_receive_queue(ep, VERBS_LANE_CONTROL, ep->rx_control);
	return ret;
}

/* The address to bind to; one that stands for all of this machine's becomes the port's own. */
static int choose_address(struct verbs_ep *ep, const void *src_addr, size_t len)
{
	static const struct in6_addr any = IN6ADDR_ANY_INIT;
	struct sockaddr_in *in = (struct sockaddr_in *)&ep->name;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ep->name;
	const struct verbs_port *port = ep->vd->port;
	in_port_t number = 0;
	bool all = !src_addr;

	if (src_addr && len >= sizeof(struct sockaddr_in))
		memcpy(&ep->name, src_addr, len < sizeof(ep->name) ? len : sizeof(ep->name));
	if (ep->name.ss_family == AF_INET) {
		ep->name_len = sizeof(*in);
		all = in->sin_addr.s_addr == INADDR_ANY;
		number = in->sin_port;
	} else if (ep->name.ss_family == AF_INET6 && len >= sizeof(*in6)) {
		ep->name_len = sizeof(*in6);
		all = memcmp(&in6->sin6_addr, &any, sizeof(any)) == 0;
		number = in6->sin6_port;
	} else if (src_addr) {
		HM_WARN(FI_LOG_EP_CTRL, "source address is not an IPv4 or IPv6 socket address");
		return -FI_EINVAL;
	}
	if (!all)
		return 0;
	if (port->addr.ss_family == AF_UNSPEC) {
		HM_WARN(FI_LOG_EP_CTRL, "%s has no address that an endpoint could have",
			ep->vd->device->name);
		return -FI_EADDRNOTAVAIL;
	}
	ep->name = port->addr;
	ep->name_len = port->addr_len;
	if (ep->name.ss_family == AF_INET)
		in->sin_port = number;
	else
		in6->sin6_port = number;
	return 0;
}

static int bind_address(struct verbs_ep *ep)
{
	const struct ibv_context *context;

	if (cm.bind_addr(ep->listener, (struct sockaddr *)&ep->name) != 0)
		return failed("no endpoint can have this source address: rdma_bind_addr");
	context = ep->listener->verbs;
	if (context && strcmp(context->device->name, ep->vd->device->name) != 0) {
		HM_WARN(FI_LOG_EP_CTRL, "the source address is one of %s, not of %s",
			context->device->name, ep->vd->device->name);
		return -FI_EADDRNOTAVAIL;
	}
	/* with the port that it got */
	memcpy(&ep->name, rdma_get_local_addr(ep->listener), ep->name_len);
	return 0;
}

static int make_listener(struct verbs_ep *ep, const void *src_addr, size_t len)
{
	int ret = choose_address(ep, src_addr, len);

	if (ret != 0)
		return ret;
	ep->events = cm.create_event_channel();
	if (!ep->events)
		return failed("rdma_create_event_channel");
	ret = make_nonblocking(ep->events->fd);
	if (ret != 0)
		return ret;
	if (cm.create_id(ep->events, &ep->listener, ep, RDMA_PS_TCP) != 0)
		return failed("rdma_create_id");
	return bind_address(ep);
}

/* Operations count from a random number, so that answers to an earlier endpoint's match none of this. */
static int make_numbers(struct verbs_ep *ep)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return failed("getrandom");
	ep->incarnation = random[0] | 1; /* never 0 */
	ep->next_id = random[1];
	return 0;
}

static void init_lists(struct verbs_ep *ep)
{
	struct hm_list *list[] = { &ep->link,	   &ep->free_tx, &ep->free_slots,
				   &ep->free_ops,  &ep->starved, &ep->connecting,
				   &ep->passive,   &ep->dead,	 &ep->progress_link,
				   &ep->work_link, &ep->probing, &ep->absent };

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		hm_list_init(list[i]);
	for (size_t i = 0; i < VERBS_BUCKETS; i++) {
		hm_list_init(&ep->peers[i]);
		hm_list_init(&ep->qps[i]);
	}
}

/* Undo what opening has done, as far as it went.  What the driver refuses to end is the domain's. */
static void destroy(struct verbs_ep *ep)
{
	verbs_end(ep->vd, VERBS_KIND_CM_ID, ep->listener, NULL, 0);
	for (size_t i = 0; i < VERBS_LANES; i++)
		verbs_end(ep->vd, VERBS_KIND_SRQ, ep->srq[i], NULL, 0);
	verbs_end(ep->vd, VERBS_KIND_CQ, ep->cq, NULL, 0);
	verbs_end(ep->vd, VERBS_KIND_CHANNEL, ep->channel, NULL, 0);
	verbs_end(ep->vd, VERBS_KIND_EVENTS, ep->events, NULL, 0);
	free_pools(ep);
	pthread_mutex_destroy(&ep->lock);
}

int verbs_ep_open(struct nic_ep *nic, const void *src_addr, size_t len)
{
	struct verbs_ep *ep = verbs_ep_of(nic);
	size_t sends = 0;
	int ret;

	ep->vd = verbs_domain_of(nic->domain);
	if (verbs_inherited(ep->vd)) {
		HM_WARN(FI_LOG_EP_CTRL,
			"the domain is the parent process's: open one in this process");
		return -FI_EOPBADSTATE;
	}
	if (atomic_load(&ep->vd->gone)) {
		HM_WARN(FI_LOG_EP_CTRL, "%s is gone", ep->vd->device->name);
		return -FI_ENODEV;
	}
	pthread_mutex_init(&ep->lock, NULL);
	init_lists(ep);
	hm_guard_install();
	ret = plan(ep, &sends);
	if (ret == 0)
		ret = make_numbers(ep);
	if (ret == 0)
		ret = make_listener(ep, src_addr, len);
	if (ret == 0)
		ret = make_queues(ep, sends);
	if (ret == 0)
		ret = make_pools(ep, sends);
	if (ret == 0)
		ret = verbs_msg_init(ep);
	if (ret != 0)
		destroy(ep);
	return ret;
}

int verbs_ep_enable(struct nic_ep *nic)
{
	struct verbs_ep *ep = verbs_ep_of(nic);
	int ret;

	pthread_mutex_lock(&ep->lock);
	while (ep->rx_posted < ep->rx_count) {
		size_t before = ep->rx_posted;

		verbs_rx_repost(ep, &ep->rx[before]);
		if (ep->rx_posted == before)
			break;
	}
	pthread_mutex_unlock(&ep->lock);
	if (ep->rx_posted < ep->rx_count)
		return -FI_EIO;
	if (ibv_req_notify_cq(ep->cq, 0) != 0)
		return failed("ibv_req_notify_cq");
	if (!ep->listening && cm.listen(ep->listener, BACKLOG) != 0)
		return failed("rdma_listen");
	ep->listening = true; /* even if enabling goes on to fail, and is tried again */
	ep->enabled = true;
	ret = verbs_progress_add(ep);
	if (ret != 0)
		ep->enabled = false;
	return ret;
}

/* ---- closing ---- */

static void drop_list(struct verbs_ep *ep, struct hm_list *list)
{
	hm_list_for_each_safe(link, list)
	{
		hm_list_del(link);
		verbs_op_drop(ep, hm_list_entry(link, struct verbs_op, link));
	}
}

static void free_peer(struct verbs_ep *ep, struct verbs_peer *peer)
{
	if (peer->conn)
		verbs_conn_bury(peer->conn);
	if (peer->passive)
		verbs_conn_bury(peer->passive);
	drop_list(ep, &peer->control);
	drop_list(ep, &peer->posted);
	drop_list(ep, &peer->waiting);
	drop_list(ep, &peer->unanswered);
	verbs_keys_forget(ep, peer);
}

static void destroy_dead(struct verbs_ep *ep)
{
	hm_list_for_each_safe(link, &ep->dead)
	{
		hm_list_del(link);
		verbs_conn_destroy(hm_list_entry(link, struct verbs_conn, link));
	}
}

static bool is_sending(struct verbs_ep *ep)
{
	for (size_t i = 0; i < VERBS_BUCKETS; i++) {
		hm_list_for_each(link, &ep->peers[i])
		{
			const struct verbs_peer *peer =
				hm_list_entry(link, struct verbs_peer, link);

			if (!hm_list_empty(&peer->control) || !hm_list_empty(&peer->waiting) ||
			    !hm_list_empty(&peer->posted))
				return true;
		}
	}
	return false;
}

/* What was sent is to leave, within the time that a peer may be silent. */
static void linger(struct verbs_ep *ep)
{
	uint64_t end = verbs_now_ms() + verbs_retry_ms();
	bool sending;

	do {
		pthread_mutex_lock(&ep->lock);
		verbs_ep_poll(ep);
		sending = !ep->gone && is_sending(ep);
		pthread_mutex_unlock(&ep->lock);
		if (sending)
			usleep(LINGER_US);
	} while (sending && verbs_now_ms() < end);
}

/*
 * First the progress thread lets go of the endpoint.  Then connections end, so that the NIC touches no
 * buffer any more and peers are told, then what they have used is freed.
 */
int verbs_ep_close(struct nic_ep *nic)
{
	struct verbs_ep *ep = verbs_ep_of(nic);

	if (verbs_inherited(ep->vd)) /* a lock may be the parent's thread's for ever */
		return 0;
	if (ep->enabled)
		linger(ep);
	pthread_mutex_lock(&ep->lock);
	ep->closing = true;
	pthread_mutex_unlock(&ep->lock);
	verbs_progress_remove(ep);
	verbs_end(ep->vd, VERBS_KIND_CM_ID, ep->listener, NULL, 0);
	ep->listener = NULL;
	pthread_mutex_lock(&ep->lock);
	hm_list_for_each_safe(link, &ep->passive)
		verbs_conn_bury(hm_list_entry(link, struct verbs_conn, link));
	for (size_t i = 0; i < VERBS_BUCKETS; i++)
		hm_list_for_each(
			link, &ep->peers[i]) if (hm_list_entry(link, struct verbs_peer, link)->conn)
			verbs_conn_bury(hm_list_entry(link, struct verbs_peer, link)->conn);
	pthread_mutex_unlock(&ep->lock);
	destroy_dead(ep);
	pthread_mutex_lock(&ep->lock);
	for (size_t i = 0; i < VERBS_BUCKETS; i++)
		hm_list_for_each(link, &ep->peers[i])
			free_peer(ep, hm_list_entry(link, struct verbs_peer, link));
	verbs_msg_destroy(ep);
	for (size_t i = 0; i < VERBS_BUCKETS; i++) {
		hm_list_for_each_safe(link, &ep->peers[i])
		{
			hm_list_del(link);
			free(hm_list_entry(link, struct verbs_peer, link));
		}
	}
	pthread_mutex_unlock(&ep->lock);
	destroy(ep);
	return 0;
}

int verbs_ep_name(struct nic_ep *nic, void *addr, size_t *len)
{
	const struct verbs_ep *ep = verbs_ep_of(nic);
	size_t have = *len;

	*len = ep->name_len;
	if (have > ep->name_len)
		have = ep->name_len;
	if (have > 0)
		memcpy(addr, &ep->name, have);
	return have == ep->name_len ? 0 : -FI_ETOOSMALL;
}

/* ---- the device is gone ---- */

void verbs_ep_device_gone(struct verbs_ep *ep)
{
	if (ep->gone || ep->closing)
		return;
	ep->gone = true; /* completions that still come are not read: nobody waits for them */
	hm_list_for_each_safe(link, &ep->passive)
		verbs_conn_bury(hm_list_entry(link, struct verbs_conn, link));
	for (size_t i = 0; i < VERBS_BUCKETS; i++) {
		hm_list_for_each(link, &ep->peers[i])
		{
			struct verbs_peer *peer = hm_list_entry(link, struct verbs_peer, link);

			if (peer->conn)
				verbs_conn_bury(peer->conn);
			verbs_peer_fail(ep, peer, HMREG_DEVICE_GONE);
		}
	}
	verbs_msg_device_gone(ep);
}
