/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint of the verbs NIC without a NIC: what verbs_msg.c and verbs_keys.c see of one.  The
 * program wraps verbs_rx_repost, verbs_control_send and verbs_peer_pump, which only take notes here.
 */
#ifndef HM_TEST_VERBS_END_H
#define HM_TEST_VERBS_END_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/nic/verbs_ep.h"

#define END_PEERS 3
#define END_POOL  64		      /* receive buffers */
#define END_SENT  64		      /* the last so many are kept */
#define END_MAX	  (UINT64_C(1) << 20) /* of a message */

/* What verbs_control_send was given. */
struct end_sent {
	uint64_t to;
	struct verbs_frame frame;
	char payload[VERBS_FRAME];
};

struct end {
	struct verbs_ep ep;
	struct verbs_domain vd;
	struct nic_port port;
	struct hm_key_table regions;
	struct nic_cq cq;
	struct nic_cntr recv_cntr, write_cntr;
	struct nic_av av;
	fi_addr_t addr[END_PEERS];
	struct verbs_peer peer[END_PEERS];
	struct verbs_rx rx[END_POOL];
	struct hm_list posted; /* receive buffers that a frame can arrive in */
	size_t posted_count;
	char *pool;
	/* control frames */
	int refuse; /* what verbs_control_send answers; 0: it takes the frame */
	size_t sent_count;
	struct end_sent *sent;
	size_t pumped;
	void (*on_pump)(struct end *end, struct verbs_peer *peer);
};

#define END_ROOM (sizeof(struct verbs_frame) + VERBS_FRAME)

void __wrap_verbs_rx_repost(struct verbs_ep *ep, struct verbs_rx *rx);
int __wrap_verbs_control_send(struct verbs_ep *ep, uint64_t peer, const struct verbs_frame *frame,
			      const void *payload);
void __wrap_verbs_peer_pump(struct verbs_ep *ep, struct verbs_peer *peer);

static struct end *end_of_ep(struct verbs_ep *ep)
{
	return hm_container(ep, struct end, ep);
}

void __wrap_verbs_rx_repost(struct verbs_ep *ep, struct verbs_rx *rx)
{
	struct end *end = end_of_ep(ep);

	hm_list_add_tail(&end->posted, &rx->link);
	end->posted_count++;
}

int __wrap_verbs_control_send(struct verbs_ep *ep, uint64_t peer, const struct verbs_frame *frame,
			      const void *payload)
{
	struct end *end = end_of_ep(ep);
	struct end_sent *sent = &end->sent[end->sent_count % END_SENT];

	if (end->refuse)
		return end->refuse;
	sent->to = peer;
	sent->frame = *frame;
	if (frame->length > VERBS_FRAME)
		abort();
	if (frame->length > 0)
		memcpy(sent->payload, payload, frame->length);
	end->sent_count++;
	return 0;
}

void __wrap_verbs_peer_pump(struct verbs_ep *ep, struct verbs_peer *peer)
{
	struct end *end = end_of_ep(ep);

	end->pumped++;
	if (end->on_pump)
		end->on_pump(end, peer);
}

static inline void end_open_peers(struct end *end)
{
	for (size_t i = 0; i < sizeof(end->ep.peers) / sizeof(end->ep.peers[0]); i++)
		hm_list_init(&end->ep.peers[i]);
	for (size_t i = 0; i < END_PEERS; i++) {
		end->peer[i] = (struct verbs_peer){ .handle = 100 + i };
		hm_list_init(&end->peer[i].keys);
		hm_list_add_tail(&end->ep.peers[i], &end->peer[i].link);
		nic_av_add(&end->av, 100 + i, &end->addr[i]);
	}
}

static inline void end_open_pool(struct end *end)
{
	hm_list_init(&end->posted);
	end->pool = calloc(END_POOL, END_ROOM);
	for (size_t i = 0; i < END_POOL; i++) {
		end->rx[i].frame = (struct verbs_frame *)(void *)(end->pool + i * END_ROOM);
		__wrap_verbs_rx_repost(&end->ep, &end->rx[i]);
	}
}

/* 0, or what failed. */
static inline int end_open(struct end *end, size_t cq_size)
{
	int ret = 0;

	memset(end, 0, sizeof(*end));
	end->port.max_msg_size = END_MAX;
	ret |= hm_key_table_init(&end->regions,
				 sizeof(struct nic_region) + sizeof(struct verbs_region),
				 offsetof(struct nic_region, node), 100, false);
	ret |= nic_cq_init(&end->cq, cq_size, FI_WAIT_NONE);
	ret |= nic_cntr_init(&end->recv_cntr, FI_CNTR_EVENTS_COMP, FI_WAIT_NONE);
	ret |= nic_cntr_init(&end->write_cntr, FI_CNTR_EVENTS_COMP, FI_WAIT_NONE);
	ret |= nic_av_init(&end->av, FI_AV_TABLE, END_PEERS);
	end->sent = calloc(END_SENT, sizeof(*end->sent));
	end->vd.domain.port = &end->port;
	end->vd.domain.regions = &end->regions;
	end->vd.zero_based = true;
	pthread_mutex_init(&end->vd.composites_lock, NULL);
	hm_list_init(&end->vd.composites);
	end->ep.vd = &end->vd;
	end->ep.ep.domain = &end->vd.domain;
	end->ep.ep.caps = FI_MSG | FI_RECV | FI_SOURCE;
	end->ep.ep.rx_cq = &end->cq;
	end->ep.ep.rx_size = 64;
	end->ep.ep.av = &end->av;
	end->ep.ep.cntr[NIC_CNTR_RECV] = &end->recv_cntr;
	end->ep.ep.cntr[NIC_CNTR_REMOTE_WRITE] = &end->write_cntr;
	pthread_mutex_init(&end->ep.lock, NULL);
	end_open_peers(end);
	end_open_pool(end);
	return ret | verbs_msg_init(&end->ep);
}

/* Room that is reserved in the completion queue and holds no entry: 0 after this. */
static inline uint32_t end_close(struct end *end)
{
	uint32_t reserved;

	pthread_mutex_lock(&end->ep.lock);
	for (size_t i = 0; i < END_PEERS; i++)
		verbs_keys_forget(&end->ep, &end->peer[i]);
	verbs_msg_destroy(&end->ep);
	pthread_mutex_unlock(&end->ep.lock);
	reserved = end->cq.used - (end->cq.tail - end->cq.head);
	pthread_mutex_destroy(&end->ep.lock);
	pthread_mutex_destroy(&end->vd.composites_lock);
	nic_av_destroy(&end->av);
	nic_cntr_destroy(&end->write_cntr);
	nic_cntr_destroy(&end->recv_cntr);
	nic_cq_destroy(&end->cq);
	hm_key_table_destroy(&end->regions);
	free(end->sent);
	free(end->pool);
	return reserved;
}

/* A receive buffer with this frame in it, or NULL: the sender has to wait. */
static inline struct verbs_rx *end_frame(struct end *end, const struct verbs_frame *frame,
					 const void *payload)
{
	struct verbs_rx *rx;

	if (hm_list_empty(&end->posted))
		return NULL;
	rx = hm_list_entry(end->posted.next, struct verbs_rx, link);
	hm_list_del(&rx->link);
	end->posted_count--;
	*rx->frame = *frame;
	if (payload && frame->length <= VERBS_FRAME)
		memcpy(rx->frame + 1, payload, frame->length);
	return rx;
}

/* Byte at of message seed. */
static inline char end_byte(uint64_t seed, size_t at)
{
	return (char)(seed * 31 + at + at / 251);
}

static inline bool end_arrive(struct end *end, unsigned peer, const struct verbs_frame *frame,
			      const void *payload)
{
	struct verbs_rx *rx = end_frame(end, frame, payload);

	if (!rx)
		return false;
	pthread_mutex_lock(&end->ep.lock);
	verbs_msg_arrived(&end->ep, &end->peer[peer], rx);
	pthread_mutex_unlock(&end->ep.lock);
	return true;
}

/* Bytes [at, at + len) of message seed, with its data and number seed. */
static inline bool end_part(struct end *end, unsigned peer, uint64_t seed, size_t total, size_t at,
			    size_t len, unsigned flags)
{
	struct verbs_frame frame = { .type = at ? VERBS_FRAME_MORE : VERBS_FRAME_MESSAGE,
				     .flags = (uint8_t)flags,
				     .length = (uint32_t)len,
				     .id = seed,
				     .total = at ? 0 : total,
				     .data = seed };
	char payload[VERBS_FRAME];

	for (size_t i = 0; i < len && i < sizeof(payload); i++)
		payload[i] = end_byte(seed, at + i);
	return end_arrive(end, peer, &frame, payload);
}

static inline void end_retry(struct end *end)
{
	pthread_mutex_lock(&end->ep.lock);
	verbs_msg_retry(&end->ep);
	pthread_mutex_unlock(&end->ep.lock);
}

static inline void end_reset(struct end *end, unsigned peer)
{
	pthread_mutex_lock(&end->ep.lock);
	verbs_msg_peer_reset(&end->ep, &end->peer[peer]);
	pthread_mutex_unlock(&end->ep.lock);
}

static inline ssize_t end_post(struct end *end, void *buf, size_t len, uint64_t src, void *context,
			       void *desc)
{
	const struct iovec iov = { buf, len };
	const struct nic_recv recv = {
		.iov = &iov, .desc = &desc, .count = 1, .src_peer = src, .context = context
	};

	return verbs_post_recv(&end->ep.ep, &recv);
}

/* The next completion, error or not.  False: none. */
static inline bool end_completion(struct end *end, struct nic_comp *comp)
{
	struct fi_cq_data_entry entry;
	fi_addr_t src;

	memset(comp, 0, sizeof(*comp));
	if (nic_cq_take_error(&end->cq, comp) == 1)
		return true;
	if (nic_cq_take(&end->cq, FI_CQ_FORMAT_DATA, &entry, &src, 1) != 1)
		return false;
	comp->op_context = entry.op_context;
	comp->flags = entry.flags;
	comp->len = entry.len;
	comp->buf = entry.buf;
	comp->data = entry.data;
	comp->src_addr = src;
	return true;
}

#endif
