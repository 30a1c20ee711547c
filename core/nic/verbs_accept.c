/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that peers ask for.  Whoever asks is believed nothing: the address that it says it has must
 * be the one that the request came from, but for the port.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_conn.h"

static struct hm_list *bucket_of(struct verbs_ep *ep, uint32_t qp_num)
{
	return &ep->qps[qp_num % VERBS_BUCKETS];
}

struct verbs_conn *verbs_conn_of_qp(struct verbs_ep *ep, uint32_t qp_num)
{
	hm_list_for_each(link, bucket_of(ep, qp_num))
	{
		struct verbs_conn *conn = hm_list_entry(link, struct verbs_conn, by_qp);

		if (conn->qp->qp_num == qp_num)
			return conn;
	}
	return NULL;
}

/* The address in a hello.  False: it is none. */
static bool address_of(const struct verbs_hello *hello, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (hello->family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)out;

		memcpy(&in->sin_addr, hello->address, sizeof(in->sin_addr));
		in->sin_port = hello->port;
	} else if (hello->family == AF_INET6) {
		struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;

		memcpy(&in->sin6_addr, hello->address, sizeof(in->sin6_addr));
		in->sin6_port = hello->port;
		in->sin6_scope_id = hello->scope;
	} else {
		return false;
	}
	out->ss_family = hello->family;
	return hello->port != 0;
}

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr *b)
{
	if (a->ss_family != b->sa_family)
		return false;
	if (b->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		      &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* Why a request is refused, or NULL; else who asks. */
static const char *check(struct verbs_ep *ep, const struct verbs_cm_event *event,
			 struct verbs_hello *hello, uint64_t *handle)
{
	struct sockaddr_storage addr;

	if (event->private_len < sizeof(*hello))
		return "it brings too little private data";
	memcpy(hello, event->private_data, sizeof(*hello));
	if (hello->magic != VERBS_MAGIC)
		return "its private data is not of this protocol";
	if (hello->version != VERBS_PROTOCOL)
		return "it speaks another version of the protocol";
	if (hello->incarnation == 0 || hello->lane >= VERBS_LANES || !address_of(hello, &addr))
		return "its private data makes no sense";
	if (!same_host(&addr, rdma_get_peer_addr(event->id)))
		return "it says that it is another host than the one it came from";
	if (!event->id->verbs || strcmp(event->id->verbs->device->name, ep->vd->device->name) != 0)
		return "it came over another device";
	if (ep->passive_count >= (size_t)ep->vd->device->attr.max_qp / 2)
		return "there are too many connections";
	if (verbs_addr_handle(ep->vd, (struct sockaddr *)&addr, handle) != 0)
		return "no memory";
	return NULL;
}

static void refuse(struct verbs_ep *ep, struct rdma_cm_id *id, const char *why)
{
	bool tell;

	pthread_mutex_lock(&ep->lock);
	tell = verbs_complain(ep);
	pthread_mutex_unlock(&ep->lock);
	if (tell)
		HM_WARN(FI_LOG_EP_CTRL, "a connection request is refused: %s", why);
	cm.reject(id, NULL, 0);
	cm.destroy_id(id);
}

/*
 * An older connection of the peer has had its day: stopped, and what it has brought is taken in, so that
 * its_frame is the last frame that will ever come over it.  ep->lock held.
 */
static void replace_older(struct verbs_ep *ep, struct verbs_peer *peer)
{
	if (!peer->passive)
		return;
	verbs_qp_error(peer->passive);
	verbs_ep_poll(ep);
	if (peer->passive) /* a bad frame may have ended it */
		verbs_conn_bury(peer->passive);
}

/* The peer is the endpoint that hello tells of.  ep->lock held. */
static void meet(struct verbs_ep *ep, struct verbs_peer *peer, const struct verbs_hello *hello)
{
	if (peer->its_incarnation == hello->incarnation)
		return;
	if (peer->its_incarnation)
		verbs_msg_peer_reset(ep, peer);
	peer->its_incarnation = hello->incarnation;
	peer->its_frame = 0;
	peer->its_cut = peer->given_up = 0;
	/* whoever was there before is no more */
	if (peer->conn && peer->conn->state == VERBS_CONN_READY &&
	    peer->incarnation != hello->incarnation)
		verbs_conn_break(peer->conn, VERBS_BREAK_LOST);
}

static void welcome_it(const struct verbs_ep *ep, const struct verbs_peer *peer,
		       struct verbs_welcome *welcome)
{
	*welcome = (struct verbs_welcome){ .magic = VERBS_MAGIC,
					   .version = VERBS_PROTOCOL,
					   .flags = ep->ep.rx_cq ? VERBS_WELCOME_RX_CQ : 0,
					   .incarnation = ep->incarnation,
					   .caps = ep->ep.caps,
					   .received = peer->its_frame,
					   .given_up = peer->given_up };
}

/* Make the connection known, before frames come over it. */
static bool enter(struct verbs_conn *conn, uint64_t handle, const struct verbs_hello *hello,
		  struct verbs_welcome *welcome)
{
	struct verbs_ep *ep = conn->ep;
	struct verbs_peer *peer;

	pthread_mutex_lock(&ep->lock);
	peer = verbs_peer_get(ep, handle);
	if (peer)
		peer = verbs_peer_lane(ep, peer, conn->lane);
	if (peer && !ep->gone) {
		replace_older(ep, peer);
		meet(ep, peer, hello);
		conn->peer = peer;
		conn->state = VERBS_CONN_READY;
		peer->passive = conn;
		hm_list_del(&peer->absent);
		ep->passive_count++;
		hm_list_add_tail(&ep->passive, &conn->link);
		hm_list_add_tail(bucket_of(ep, conn->qp->qp_num), &conn->by_qp);
		welcome_it(ep, peer, welcome);
	}
	pthread_mutex_unlock(&ep->lock);
	return conn->peer;
}

static uint8_t lesser(uint8_t asked, int most)
{
	return asked < most ? asked : (uint8_t)(most < 0 ? 0 : most);
}

/* The queue pair is made by here; what is asked for is cut to what the device can. */
static void reply(struct verbs_conn *conn, const struct verbs_cm_event *event,
		  const struct verbs_welcome *welcome)
{
	const struct ibv_device_attr *attr = &conn->ep->vd->device->attr;
	struct rdma_conn_param param = {
		.private_data = welcome,
		.private_data_len = sizeof(*welcome),
		.responder_resources = lesser(event->as_target, attr->max_qp_rd_atom),
		.initiator_depth = lesser(event->as_initiator, attr->max_qp_init_rd_atom),
		.rnr_retry_count = 7,
		.srq = 1,
		.qp_num = conn->qp->qp_num,
	};

	if (cm.accept(conn->id, &param) == 0)
		return;
	HM_INFO(FI_LOG_EP_CTRL, "rdma_accept: %s", strerror(errno));
	pthread_mutex_lock(&conn->ep->lock);
	verbs_conn_break(conn, VERBS_BREAK_LOST);
	pthread_mutex_unlock(&conn->ep->lock);
}

static struct verbs_conn *make(struct verbs_ep *ep, const struct verbs_cm_event *event,
			       enum verbs_lane lane)
{
	const struct ibv_device_attr *attr = &ep->vd->device->attr;
	struct verbs_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->ep = ep;
	conn->passive = true;
	conn->lane = lane;
	conn->state = VERBS_CONN_REQUESTED;
	conn->id = event->id;
	hm_list_init(&conn->link);
	hm_list_init(&conn->by_qp);
	hm_list_init(&conn->probing);
	if (verbs_qp_create(conn) == 0 &&
	    verbs_qp_connect(conn, lesser(event->as_target, attr->max_qp_rd_atom),
			     lesser(event->as_initiator, attr->max_qp_init_rd_atom)) == 0)
		return conn;
	if (conn->qp)
		verbs.destroy_qp(conn->qp);
	free(conn);
	return NULL;
}

void verbs_accept(struct verbs_ep *ep, const struct verbs_cm_event *event)
{
	struct verbs_welcome welcome;
	struct verbs_hello hello;
	struct verbs_conn *conn;
	uint64_t handle;
	const char *why = check(ep, event, &hello, &handle);

	if (why) {
		refuse(ep, event->id, why);
		return;
	}
	conn = make(ep, event, (enum verbs_lane)hello.lane);
	if (!conn) {
		refuse(ep, event->id, "no queue pair for it");
		return;
	}
	event->id->context = conn;
	if (enter(conn, handle, &hello, &welcome)) {
		reply(conn, event, &welcome);
		return;
	}
	verbs.destroy_qp(conn->qp);
	refuse(ep, conn->id, "no memory, or the device is gone");
	free(conn);
}
