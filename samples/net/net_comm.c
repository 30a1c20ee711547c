/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: the receiver offers address, key and length of each receive, the sender writes there and says so.
 * Both sides' memory is used by the handles that regMr gave.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>

#include "net_plugin.h"

#define TO_SEND	   (NET_RING + 1) /* messages, and as many to receive behind them */
#define HELLO_SLOT NET_RING

/* ---- posting ---- */

static int post_receive(struct net_comm *comm, uint32_t slot)
{
	return (int)fi_recv(comm->end.ep, &comm->messages[TO_SEND + slot],
			    sizeof(struct net_message), fi_mr_desc(comm->messages_mr),
			    FI_ADDR_UNSPEC, &comm->ops[NET_OP_TAKEN][slot]);
}

/* The message of this slot has been filled in. */
static int post_message(struct net_comm *comm, uint32_t slot)
{
	return (int)fi_send(comm->end.ep, &comm->messages[slot], sizeof(struct net_message),
			    fi_mr_desc(comm->messages_mr), comm->end.peer,
			    &comm->ops[NET_OP_SENT][slot]);
}

/* Until there is room; what is in its way goes without this program's help. */
static int send_message(struct net_comm *comm, uint32_t slot)
{
	time_t limit = time(NULL) + (time_t)sample_timeout_s;
	int ret;

	while ((ret = post_message(comm, slot)) == -FI_EAGAIN && time(NULL) < limit)
		sched_yield();
	return ret ? sample_fail("fi_send", ret) : 0;
}

/* ---- a sender's requests ---- */

/* The answer that ends a request on both sides. */
static void answer(struct net_comm *comm, struct net_request *request, int error)
{
	uint32_t slot = (uint32_t)(request - comm->requests);
	int ret;

	if (request->key)
		sample_unuse(&comm->end, &request->offer.key, request->key);
	request->key = 0;
	request->error = error;
	request->moved = error ? 0 : request->size;
	comm->messages[slot] = (struct net_message){ .kind = NET_DONE,
						     .slot = request->offer.slot,
						     .error = error,
						     .size = request->moved };
	request->state = NET_ANSWERS;
	ret = send_message(comm, slot);
	if (ret) {
		request->error = error ? error : ret;
		request->state = NET_ENDED;
	}
}

/* A request and the offer for it have met. */
static void write_data(struct net_comm *comm, struct net_request *request,
		       const struct net_message *offer)
{
	uint32_t slot = (uint32_t)(request - comm->requests);
	int ret;

	request->offer = *offer;
	if (request->size > offer->size) {
		answer(comm, request, -FI_ETRUNC);
		return;
	}
	ret = sample_use(&comm->end, &offer->key, &request->key);
	if (!ret && request->size == 0) {
		answer(comm, request, 0);
		return;
	}
	request->state = NET_WRITES;
	if (!ret)
		ret = (int)fi_write(comm->end.ep, (void *)request->data, request->size,
				    fi_mr_desc(request->mr->mr), comm->end.peer, offer->key.address,
				    request->key, &comm->ops[NET_OP_WRITTEN][slot]);
	if (ret)
		answer(comm, request, ret);
}

/* The oldest request of this tag that has no offer. */
static struct net_request *waiting(struct net_comm *comm, int tag)
{
	struct net_request *found = NULL;

	for (size_t i = 0; i < NET_RING; i++) {
		struct net_request *request = &comm->requests[i];

		if (request->busy && request->state == NET_WAITS && request->tag == tag &&
		    (!found || request->turn < found->turn))
			found = request;
	}
	return found;
}

static void match_offers(struct net_comm *comm)
{
	size_t kept = 0;

	for (size_t i = 0; i < comm->offered; i++) {
		struct net_message offer = comm->offers[i];
		struct net_request *request = waiting(comm, offer.tag);

		if (request)
			write_data(comm, request, &offer);
		else
			comm->offers[kept++] = offer;
	}
	comm->offered = kept;
}

/* ---- completions ---- */

/* What the peer says is looked at before it is believed. */
static int take_message(struct net_comm *comm, uint32_t slot)
{
	struct net_message message = comm->messages[TO_SEND + slot];
	int ret = post_receive(comm, slot);

	if (ret)
		return sample_fail("fi_recv", ret);
	if (message.kind == NET_HELLO && comm->kind == NET_LISTENS && !comm->accepted) {
		comm->accepted = true;
		return sample_enter(&comm->end, message.address, &comm->end.peer);
	}
	if (message.kind == NET_OFFER && comm->kind == NET_SENDS && comm->offered < NET_RING) {
		comm->offers[comm->offered++] = message;
		return 0;
	}
	if (message.kind == NET_DONE && comm->kind == NET_RECEIVES && message.slot < NET_RING &&
	    comm->requests[message.slot].busy) {
		struct net_request *request = &comm->requests[message.slot];

		request->answered = true;
		request->error = message.size > request->size ? -FI_EINVAL : message.error;
		request->moved = message.size;
		return 0;
	}
	return sample_fail("a message that nobody expects", -FI_EINVAL);
}

static int complete(struct net_comm *comm, const struct net_op *op, int error)
{
	struct net_request *request;

	if (op->kind == NET_OP_TAKEN)
		return error ? sample_fail("a receive", error) : take_message(comm, op->slot);
	if (op->slot == HELLO_SLOT)
		return error ? sample_fail("reaching the listener", error) : 0;
	request = &comm->requests[op->slot];
	if (op->kind == NET_OP_WRITTEN) {
		answer(comm, request, error);
		return 0;
	}
	if (error && !request->error)
		request->error = error;
	request->sent = true;
	request->state = NET_ENDED;
	return 0;
}

/* All that has happened since. */
static int progress(struct net_comm *comm)
{
	struct fi_cq_err_entry failed;
	struct fi_cq_msg_entry entry;
	ssize_t got;
	int ret = 0;

	while (!ret) {
		got = fi_cq_read(comm->end.cq, &entry, 1);
		if (got == 1) {
			ret = complete(comm, entry.op_context, 0);
			continue;
		}
		if (got != -FI_EAVAIL)
			break;
		memset(&failed, 0, sizeof(failed));
		if (fi_cq_readerr(comm->end.cq, &failed, 0) != 1)
			break;
		fprintf(stderr, "a transfer: %s\n",
			fi_cq_strerror(comm->end.cq, failed.prov_errno, failed.err_data, NULL, 0));
		ret = complete(comm, failed.op_context, -failed.err);
	}
	if (!ret && comm->kind == NET_SENDS)
		match_offers(comm);
	return ret;
}

int net_comm_begin(struct net_comm *comm, uintptr_t data, size_t size, int tag, struct net_mr *mr,
		   struct net_request **request)
{
	struct net_request *mine = NULL;
	struct net_message *offer;
	int ret = 0;

	pthread_mutex_lock(&comm->lock);
	for (size_t i = 0; i < NET_RING && !mine; i++)
		mine = comm->requests[i].busy ? NULL : &comm->requests[i];
	if (!mine) {
		ret = -FI_EAGAIN;
		goto unlock;
	}
	*mine = (struct net_request){ .comm = comm, .data = data, .size = size, .tag = tag };
	mine->mr = mr;
	mine->turn = comm->turn++;
	if (comm->kind == NET_RECEIVES) {
		offer = &comm->messages[mine - comm->requests];
		*offer = (struct net_message){ .kind = NET_OFFER, .tag = tag, .size = size };
		offer->slot = (uint32_t)(mine - comm->requests);
		ret = net_regs_offer(comm->regs, mr, data, &offer->key);
		if (!ret)
			ret = send_message(comm, offer->slot);
	}
	mine->busy = !ret;
	if (!ret)
		*request = mine;
unlock:
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

int net_comm_test(struct net_request *request, size_t *size)
{
	struct net_comm *comm = request->comm;
	bool ended;
	int ret;

	pthread_mutex_lock(&comm->lock);
	ret = progress(comm);
	if (comm->kind == NET_RECEIVES)
		ended = request->answered && request->sent;
	else
		ended = request->state == NET_ENDED;
	if (!ret && !ended)
		ret = -FI_EAGAIN;
	if (!ret && ended) {
		*size = request->moved;
		ret = request->error == -FI_EAGAIN ? -FI_EIO : request->error;
		request->busy = false;
	}
	pthread_mutex_unlock(&comm->lock);
	return ret;
}

/* ---- opening and closing ---- */

static int open_endpoint(struct net_comm *comm)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG, .size = 4 * (NET_RING + 1) };
	struct sample_end *end = &comm->end;
	int ret = fi_av_open(end->domain, &(struct fi_av_attr){ 0 }, &end->av, NULL);

	if (!ret)
		ret = fi_cq_open(end->domain, &cq_attr, &end->cq, NULL);
	if (!ret)
		ret = fi_endpoint(end->domain, end->info, &end->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_enable(end->ep);
	return ret ? sample_fail("an endpoint", ret) : 0;
}

static int open_messages(struct net_comm *comm)
{
	size_t size = 2 * TO_SEND * sizeof(struct net_message);
	struct sample_end end = comm->end;
	int ret;

	for (uint32_t kind = NET_OP_TAKEN; kind <= NET_OP_WRITTEN; kind++) {
		for (uint32_t slot = 0; slot <= NET_RING; slot++) {
			comm->ops[kind][slot].kind = kind;
			comm->ops[kind][slot].slot = slot;
		}
	}
	comm->messages = calloc(1, size);
	if (!comm->messages)
		return -FI_ENOMEM;
	end.next_key = atomic_fetch_add(&comm->nic->next_key, 1);
	ret = sample_register_buffer(&end, comm->messages, size, FI_SEND | FI_RECV,
				     &comm->messages_mr);
	for (uint32_t slot = 0; slot < TO_SEND && !ret; slot++)
		ret = post_receive(comm, slot);
	return ret;
}

int net_comm_open(struct net_instance *instance, int dev, int kind, struct net_comm **comm)
{
	struct net_comm *made = calloc(1, sizeof(*made));
	int ret;

	if (!made)
		return -FI_ENOMEM;
	made->instance = instance;
	made->kind = kind;
	pthread_mutex_init(&made->lock, NULL);
	ret = net_nic_use(instance, dev, &made->nic);
	if (ret)
		goto free_comm;
	made->end = made->nic->end;
	made->regs = &made->nic->regs;
	ret = open_endpoint(made);
	if (!ret && (made->end.info->domain_attr->mr_mode & FI_MR_ENDPOINT)) {
		made->own.can_sub = made->regs->can_sub;
		made->own.can_sub_dmabuf = made->regs->can_sub_dmabuf;
		made->own.slices = made->regs->slices;
		ret = net_regs_open(&made->own, &made->end, &made->nic->next_key);
		made->regs = ret ? made->regs : &made->own;
	}
	if (!ret)
		ret = open_messages(made);
	if (ret)
		net_comm_close(made);
	else
		*comm = made;
	return ret;

free_comm:
	pthread_mutex_destroy(&made->lock);
	free(made);
	return ret;
}

static void close_one(struct fid *fid, const char *what, int *first)
{
	int ret = fi_close(fid);

	if (ret && !*first)
		*first = sample_fail(what, ret);
}

int net_comm_close(struct net_comm *comm)
{
	struct sample_end *end = &comm->end;
	int ret, failed;

	if (net_nic_busy(comm->instance, comm->nic))
		return -FI_EBUSY;
	ret = comm->regs == &comm->own ? net_regs_close(&comm->own) : 0;
	if (ret) /* handles are open: nothing has changed */
		return ret;
	ret = net_xpu_disconnect(comm);
	if (comm->messages_mr)
		close_one(&comm->messages_mr->fid, "fi_close of messages", &ret);
	if (end->ep)
		close_one(&end->ep->fid, "fi_close of an endpoint", &ret);
	if (end->cq)
		close_one(&end->cq->fid, "fi_close of a queue", &ret);
	if (end->av)
		close_one(&end->av->fid, "fi_close of a vector", &ret);
	free(comm->messages);
	failed = net_nic_leave(comm->instance, comm->nic);
	pthread_mutex_destroy(&comm->lock);
	free(comm);
	return ret ? ret : failed;
}

int net_comm_hello(struct net_comm *comm, const void *listener)
{
	struct net_message *hello = &comm->messages[HELLO_SLOT];
	size_t len = sizeof(hello->address);
	int ret = sample_enter(&comm->end, listener, &comm->end.peer);

	if (ret)
		return ret;
	hello->kind = NET_HELLO;
	ret = fi_getname(&comm->end.ep->fid, hello->address, &len);
	return ret ? sample_fail("fi_getname", ret) : send_message(comm, HELLO_SLOT);
}

int net_comm_accept(struct net_comm *comm)
{
	int ret;

	pthread_mutex_lock(&comm->lock);
	ret = progress(comm);
	if (!ret && !comm->accepted)
		ret = -FI_EAGAIN;
	if (!ret)
		comm->kind = NET_RECEIVES;
	pthread_mutex_unlock(&comm->lock);
	return ret;
}
