/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a peer gets to write into your memory: register it, send the key, let the peer write.
 *
 *   key_exchange [DOMAIN]
 *
 * Two endpoints of one process play the two machines.  What goes between them goes through fi_send
 * and fi_recv alone, so the same code works with a network in between.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_rma.h>

#include "common.h"

#define ROOM 256

/* Memory of one side, and its region. */
struct memory {
	void *bytes; /* owned */
	struct fid_mr *mr;
};

static int open_memory(struct sample_end *end, struct memory *memory, uint64_t access)
{
	memory->bytes = calloc(1, ROOM);
	if (!memory->bytes)
		return sample_fail("calloc", -FI_ENOMEM);
	return sample_register_buffer(end, memory->bytes, ROOM, access, &memory->mr);
}

static int close_memory(struct memory *memory)
{
	int ret = memory->mr ? fi_close(&memory->mr->fid) : 0;

	free(memory->bytes);
	return ret ? sample_fail("fi_close of a region", ret) : 0;
}

/* Target: register the memory that the peer may write, and send its key. */
static int send_key(struct sample_end *target, struct memory *open_to_peer, struct memory *message)
{
	struct sample_key shared;
	int ret;

	ret = sample_share(target, open_to_peer->mr, open_to_peer->bytes, &shared);
	if (ret)
		return ret;
	printf("target:    registered %d bytes for remote writing; a peer addresses them from "
	       "0x%llx on\n",
	       ROOM, (unsigned long long)shared.address);
	if (shared.raw_size)
		printf("target:    this NIC has raw keys: sending all %u bytes of it\n",
		       shared.raw_size);
	else
		printf("target:    sending the key 0x%llx\n", (unsigned long long)shared.key);
	memcpy(message->bytes, &shared, sizeof(shared));
	return sample_finish(target, "fi_send",
			     fi_send(target->ep, message->bytes, sizeof(shared),
				     fi_mr_desc(message->mr), target->peer, NULL));
}

/* Initiator: take the key out of the message that has come, and write with it. */
static int write_with_key(struct sample_end *initiator, struct memory *message, struct memory *text)
{
	struct sample_key shared;
	uint64_t key;
	int ret, failed;

	ret = sample_wait(initiator, NULL); /* for the receive */
	if (ret)
		return sample_fail("fi_recv", ret);
	memcpy(&shared, message->bytes, sizeof(shared));
	ret = sample_use(initiator, &shared, &key);
	if (ret)
		return ret;
	printf("initiator: got the message, writes with key 0x%llx\n", (unsigned long long)key);
	ret = sample_finish(initiator, "fi_write",
			    fi_write(initiator->ep, text->bytes, ROOM, fi_mr_desc(text->mr),
				     initiator->peer, shared.address, key, NULL));
	failed = sample_unuse(initiator, &shared, key);
	return ret ? ret : failed;
}

static int exchange(struct sample_end *initiator, struct sample_end *target)
{
	struct memory open_to_peer = { 0 }, text = { 0 }, sent = { 0 }, received = { 0 };
	struct memory *all[] = { &open_to_peer, &text, &sent, &received };
	int ret, failed;
	size_t i;

	ret = open_memory(target, &open_to_peer, FI_REMOTE_WRITE);
	if (!ret)
		ret = open_memory(target, &sent, FI_SEND);
	if (!ret)
		ret = open_memory(initiator, &received, FI_RECV);
	if (!ret)
		ret = open_memory(initiator, &text, FI_WRITE);
	if (ret)
		goto close;
	snprintf(text.bytes, ROOM, "written by the peer, with no help from the owner's program");

	/* The receive must be there before the message is. */
	ret = (int)fi_recv(initiator->ep, received.bytes, ROOM, fi_mr_desc(received.mr),
			   FI_ADDR_UNSPEC, NULL);
	if (ret) {
		sample_fail("fi_recv", ret);
		goto close;
	}
	ret = send_key(target, &open_to_peer, &sent);
	if (!ret)
		ret = write_with_key(initiator, &received, &text);
	if (ret)
		goto close;
	printf("target:    finds in its memory: \"%.*s\"\n", ROOM, (char *)open_to_peer.bytes);
	if (memcmp(open_to_peer.bytes, text.bytes, ROOM)) {
		fprintf(stderr, "that is not what the initiator wrote\n");
		ret = -FI_EIO;
	}
close:
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		failed = close_memory(all[i]);
		ret = ret ? ret : failed;
	}
	return ret;
}

int main(int argc, char **argv)
{
	const char *domain = argc > 1 ? argv[1] : NULL;
	struct sample_end initiator, target = { 0 };
	int ret, failed;

	ret = sample_open_named(&initiator, domain, FI_MSG | FI_RMA, 0);
	if (!ret)
		ret = sample_open_named(&target, domain, FI_MSG | FI_RMA, 0);
	if (!ret)
		ret = sample_connect(&initiator, &target);
	if (!ret) {
		printf("NIC domain %s\n", initiator.info->domain_attr->name);
		ret = exchange(&initiator, &target);
	}
	failed = sample_close(&initiator);
	ret = ret ? ret : failed;
	failed = sample_close(&target);
	ret = ret ? ret : failed;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
