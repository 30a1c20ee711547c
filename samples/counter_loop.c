/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A loop driven by counters alone: no completion is read, both sides wait for thresholds.
 *
 *   counter_loop [DOMAIN]
 *
 * A producer writes blocks of PIECES pieces into the consumer's memory and waits until its own
 * counter says that all are done.  The consumer, a thread of its own, waits until the counter of
 * its region says that a whole block has arrived, checks it, and allows the next by a write of one
 * word.
 */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_rma.h>

#include "common.h"

#define ROUNDS	   1000
#define PIECES	   8
#define PIECE	   64
#define BLOCK	   (PIECES * PIECE)
#define TIMEOUT_MS 5000

/* One side.  inbox is what the other side writes to. */
struct side {
	const char *name;
	struct sample_end end;
	struct fid_cntr *sent;	  /* counts this side's finished writes */
	struct fid_cntr *arrived; /* counts the other side's writes to inbox */
	uint8_t outbox[BLOCK], inbox[BLOCK];
	struct fid_mr *outbox_mr, *inbox_mr;
	struct sample_key offered; /* how the other side reaches inbox */
	uint64_t address, key;	   /* the other side's inbox */
	int result;
};

static struct side producer = { .name = "producer" }, consumer = { .name = "consumer" };

static uint8_t block_byte(unsigned int round, size_t k)
{
	return (uint8_t)(round * 31 + k * 7 + 1);
}

static int wait_for(struct side *side, struct fid_cntr *cntr, uint64_t threshold)
{
	int ret = fi_cntr_wait(cntr, threshold, TIMEOUT_MS);

	if (!ret)
		return 0;
	fprintf(stderr, "%s, waiting for %llu: ", side->name, (unsigned long long)threshold);
	return sample_fail("fi_cntr_wait", ret);
}

/* Start one write of the outbox; nothing but the counter will tell of its end. */
static int start_write(struct side *side, size_t offset, size_t len)
{
	ssize_t ret;

	do {
		ret = fi_write(side->end.ep, side->outbox + offset, len,
			       fi_mr_desc(side->outbox_mr), side->end.peer, side->address + offset,
			       side->key, NULL);
	} while (ret == -FI_EAGAIN);
	return ret ? sample_fail("fi_write", ret) : 0;
}

static int produce(struct side *side)
{
	unsigned int round;
	size_t k;
	int ret = 0;

	for (round = 0; !ret && round < ROUNDS; round++) {
		for (k = 0; k < BLOCK; k++)
			side->outbox[k] = block_byte(round, k);
		for (k = 0; !ret && k < PIECES; k++)
			ret = start_write(side, k * PIECE, PIECE);
		if (!ret)
			ret = wait_for(side, side->sent, (uint64_t)(round + 1) * PIECES);
		if (!ret) /* the consumer allows the next block */
			ret = wait_for(side, side->arrived, round + 1);
	}
	return ret;
}

static void *consume(void *arg)
{
	struct side *side = arg;
	unsigned int round;
	size_t k;
	int ret = 0;

	for (round = 0; !ret && round < ROUNDS; round++) {
		ret = wait_for(side, side->arrived, (uint64_t)(round + 1) * PIECES);
		for (k = 0; !ret && k < BLOCK; k++) {
			if (side->inbox[k] != block_byte(round, k)) {
				fprintf(stderr, "block %u: byte %zu is wrong\n", round, k);
				ret = -FI_EIO;
			}
		}
		if (!ret)
			ret = start_write(side, 0, sizeof(uint64_t));
		if (!ret)
			ret = wait_for(side, side->sent, round + 1);
	}
	side->result = ret;
	return NULL;
}

static int open_side(struct side *side, const char *domain)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	int ret;

	ret = sample_open_named(&side->end, domain, FI_RMA | FI_RMA_EVENT, FI_SELECTIVE_COMPLETION);
	if (ret)
		return ret;
	ret = fi_cntr_open(side->end.domain, &attr, &side->sent, NULL);
	if (!ret)
		ret = fi_cntr_open(side->end.domain, &attr, &side->arrived, NULL);
	if (ret)
		return sample_fail("fi_cntr_open", ret);
	ret = fi_ep_bind(side->end.ep, &side->sent->fid, FI_WRITE);
	return ret ? sample_fail("fi_ep_bind of the counter", ret) : 0;
}

static int open_memory(struct side *side)
{
	struct iovec inbox = { side->inbox, BLOCK };
	int ret;

	ret = sample_register_buffer(&side->end, side->outbox, BLOCK, FI_WRITE, &side->outbox_mr);
	if (!ret)
		ret = sample_register(&side->end, &inbox, 1, FI_REMOTE_WRITE, 0, side->arrived,
				      &side->inbox_mr);
	return ret ? ret : sample_share(&side->end, side->inbox_mr, side->inbox, &side->offered);
}

static int close_side(struct side *side)
{
	struct fid *fids[] = { side->inbox_mr ? &side->inbox_mr->fid : NULL,
			       side->outbox_mr ? &side->outbox_mr->fid : NULL };
	struct fid_cntr *cntrs[] = { side->sent, side->arrived };
	int ret = 0, failed, i;

	for (i = 0; i < 2; i++) {
		failed = fids[i] ? fi_close(fids[i]) : 0;
		ret = ret ? ret : failed;
	}
	failed = sample_close_endpoint(&side->end); /* it uses the counters */
	ret = ret ? ret : failed;
	for (i = 0; i < 2; i++) {
		failed = cntrs[i] ? fi_close(&cntrs[i]->fid) : 0;
		ret = ret ? ret : failed;
	}
	failed = sample_close(&side->end);
	return ret ? ret : failed;
}

/* Each side learns the other's key, both loops run, and the keys go back. */
static int run(void)
{
	pthread_t thread;
	int ret, failed;

	producer.address = consumer.offered.address;
	consumer.address = producer.offered.address;
	ret = sample_use(&producer.end, &consumer.offered, &producer.key);
	if (ret)
		return ret;
	ret = sample_use(&consumer.end, &producer.offered, &consumer.key);
	if (ret)
		goto unuse;
	ret = -pthread_create(&thread, NULL, consume, &consumer);
	if (!ret) {
		ret = produce(&producer);
		pthread_join(thread, NULL);
		ret = ret ? ret : consumer.result;
	} else {
		sample_fail("pthread_create", ret);
	}
	failed = sample_unuse(&consumer.end, &producer.offered, consumer.key);
	ret = ret ? ret : failed;
unuse:
	failed = sample_unuse(&producer.end, &consumer.offered, producer.key);
	return ret ? ret : failed;
}

/* Counters must have counted exactly what was done, and nothing may have failed. */
static int check_counters(void)
{
	uint64_t sent = fi_cntr_read(producer.sent), arrived = fi_cntr_read(consumer.arrived);
	uint64_t allowed = fi_cntr_read(producer.arrived), errors = 0;

	errors += fi_cntr_readerr(producer.sent) + fi_cntr_readerr(consumer.sent);
	printf("%d blocks of %d pieces: producer sent %llu, consumer's region counted %llu, %llu "
	       "answers, %llu errors\n",
	       ROUNDS, PIECES, (unsigned long long)sent, (unsigned long long)arrived,
	       (unsigned long long)allowed, (unsigned long long)errors);
	if (sent == ROUNDS * PIECES && arrived == sent && allowed == ROUNDS && !errors)
		return 0;
	fprintf(stderr, "the counters are not as they should be\n");
	return -FI_EIO;
}

int main(int argc, char **argv)
{
	const char *domain = argc > 1 ? argv[1] : NULL;
	int ret, failed;

	ret = open_side(&producer, domain);
	if (!ret)
		ret = open_side(&consumer, domain);
	if (!ret)
		ret = sample_connect(&producer.end, &consumer.end);
	if (!ret)
		ret = open_memory(&producer);
	if (!ret)
		ret = open_memory(&consumer);
	if (!ret) {
		printf("NIC domain %s\n", producer.end.info->domain_attr->name);
		ret = run();
	}
	if (!ret)
		ret = check_counters();
	failed = close_side(&producer);
	ret = ret ? ret : failed;
	failed = close_side(&consumer);
	ret = ret ? ret : failed;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
