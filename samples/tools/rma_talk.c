/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: see rma_talk.h. */
#define _POSIX_C_SOURCE 200809L

#include "rma_talk.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "rma_time.h"

#define MAGIC	    0x616d7268u
#define EAGER_POLLS 1000   /* before a wait becomes a sleep between looks */
#define NAP_NS	    100000 /* one such sleep */
#define SECOND_NS   UINT64_C(1000000000)

static int open_message(struct sample_end *end, uint64_t access, struct rma_message **message,
			struct fid_mr **mr)
{
	*message = calloc(1, sizeof(**message));
	if (!*message)
		return sample_fail("calloc", -FI_ENOMEM);
	return sample_register_buffer(end, *message, sizeof(**message), access, mr);
}

int rma_talk_open(struct rma_talk *talk, struct sample_end *end)
{
	int ret;

	memset(talk, 0, sizeof(*talk));
	talk->end = end;
	ret = open_message(end, FI_SEND, &talk->out, &talk->out_mr);
	return ret ? ret : open_message(end, FI_RECV, &talk->in, &talk->in_mr);
}

int rma_talk_close(struct rma_talk *talk)
{
	int ret = talk->out_mr ? fi_close(&talk->out_mr->fid) : 0;
	int failed = talk->in_mr ? fi_close(&talk->in_mr->fid) : 0;

	free(talk->out);
	free(talk->in);
	memset(talk, 0, sizeof(*talk));
	ret = ret ? ret : failed;
	return ret ? sample_fail("fi_close of a message's region", ret) : 0;
}

int rma_talk_listen(struct rma_talk *talk)
{
	ssize_t ret;

	if (talk->listening)
		return 0;
	talk->arrived = false;
	ret = fi_recv(talk->end->ep, talk->in, sizeof(*talk->in), fi_mr_desc(talk->in_mr),
		      FI_ADDR_UNSPEC, &talk->in);
	if (ret)
		return sample_fail("fi_recv", ret);
	talk->listening = true;
	return 0;
}

/* The operation with this context has ended. */
static void note(struct rma_talk *talk, const void *context)
{
	if (context == &talk->in)
		talk->listening = false;
	else
		talk->sending = false;
}

/* Look once for a completion.  -FI_EAGAIN: there is none; other failures are printed. */
static int look(struct rma_talk *talk)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_msg_entry entry;
	ssize_t ret = fi_cq_read(talk->end->cq, &entry, 1);

	if (ret == 1) {
		note(talk, entry.op_context);
		if (entry.op_context == &talk->in) {
			talk->arrived = true;
			talk->len = entry.len;
		}
		return 0;
	}
	if (ret != -FI_EAVAIL)
		return ret == -FI_EAGAIN ? -FI_EAGAIN : sample_fail("fi_cq_read", ret);
	ret = fi_cq_readerr(talk->end->cq, &error, 0);
	if (ret != 1)
		return sample_fail("fi_cq_readerr", ret < 0 ? ret : -FI_EOTHER);
	note(talk, error.op_context);
	fprintf(stderr, "%s: %s a message: %s: %s\n", sample_program,
		error.op_context == &talk->in ? "receiving" : "sending", fi_strerror(error.err),
		fi_cq_strerror(talk->end->cq, error.prov_errno, error.err_data, NULL, 0));
	return -error.err;
}

/* Wait until *flag is as wanted; seconds 0: without limit. */
static int wait_for(struct rma_talk *talk, const bool *flag, bool wanted, unsigned int seconds)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t give_up = now_ns() + seconds * SECOND_NS;
	unsigned int polls = 0;
	int ret;

	while (*flag != wanted) {
		ret = look(talk);
		if (!ret)
			continue;
		if (ret != -FI_EAGAIN)
			return ret;
		if (seconds && now_ns() > give_up)
			return -FI_ETIMEDOUT;
		if (++polls < EAGER_POLLS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
	return 0;
}

int rma_talk_send(struct rma_talk *talk, fi_addr_t peer)
{
	uint64_t give_up = now_ns() + sample_timeout_s * SECOND_NS;
	ssize_t ret;

	talk->out->magic = MAGIC;
	talk->out->version = RMA_TALK_VERSION;
	while ((ret = fi_send(talk->end->ep, talk->out, sizeof(*talk->out),
			      fi_mr_desc(talk->out_mr), peer, &talk->out)) == -FI_EAGAIN &&
	       now_ns() < give_up) {
		ret = look(talk); /* completions make room */
		if (ret && ret != -FI_EAGAIN)
			return (int)ret;
	}
	if (ret)
		return sample_fail("fi_send", ret);
	talk->sending = true;
	ret = wait_for(talk, &talk->sending, false, sample_timeout_s);
	return ret == -FI_ETIMEDOUT ? sample_fail("fi_send", ret) : (int)ret;
}

static bool is_ours(const struct rma_talk *talk)
{
	const struct rma_message *m = talk->in;

	return talk->len == sizeof(*m) && m->magic == MAGIC && m->version == RMA_TALK_VERSION &&
	       m->address_len <= sizeof(m->address) && memchr(m->text, 0, sizeof(m->text));
}

int rma_talk_receive(struct rma_talk *talk, unsigned int seconds)
{
	int ret;

	for (;;) {
		ret = talk->arrived ? 0 : rma_talk_listen(talk);
		if (!ret)
			ret = wait_for(talk, &talk->arrived, true, seconds);
		if (ret)
			return ret;
		if (is_ours(talk)) {
			talk->arrived = false;
			return 0;
		}
		fprintf(stderr, "%s: a message of %zu bytes is none of this protocol: dropped\n",
			sample_program, talk->len);
		talk->arrived = false;
	}
}

/* Put the question and wait for its answer; the answer's status is not looked at. */
static int exchange(struct rma_talk *talk, enum rma_question question)
{
	int ret = rma_talk_listen(talk);

	if (ret)
		return ret;
	talk->out->question = (uint16_t)question;
	talk->out->number = ++talk->number;
	ret = rma_talk_send(talk, talk->end->peer);
	if (ret)
		return ret;
	do {
		ret = rma_talk_receive(talk, sample_timeout_s);
	} while (!ret && talk->in->number != talk->number);
	if (ret == -FI_ETIMEDOUT)
		fprintf(stderr, "%s: the server has not answered for %u s\n", sample_program,
			sample_timeout_s);
	return ret;
}

int rma_talk_ask(struct rma_talk *talk, enum rma_question question)
{
	int ret = exchange(talk, question);

	if (ret) {
		talk->broken = true;
		return ret;
	}
	if (talk->in->status)
		fprintf(stderr, "%s: the server: %s (%s)\n", sample_program,
			talk->in->text[0] ? talk->in->text : "failed; its own messages say why",
			fi_strerror(-talk->in->status));
	return talk->in->status;
}
