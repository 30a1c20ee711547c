/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: the server, which has the target's memory and does what a client asks for. */
#define _POSIX_C_SOURCE 200809L

#include "rma.h"

#include <inttypes.h>

#include <unistd.h>

#include <rdma/fi_cm.h>

#include "rma_memory.h"
#include "rma_talk.h"
#include "tool_capture.h"
#include "tool_text.h"

struct server {
	const struct rma_options *options;
	struct sample_end end;
	struct rma_talk talk;
	struct rma_memory memory; /* end NULL: no client is here */
	size_t max;		  /* bytes that the present client asked for */
	fi_addr_t client;
	uint8_t address[RMA_ADDRESS_MAX]; /* of the present client */
	uint32_t address_len;
	uint64_t checks, wrong;
};

/* Where the server listens, as text. */
static const char *own_address(struct server *s, char *text, size_t room)
{
	uint8_t address[RMA_ADDRESS_MAX];
	size_t len = sizeof(address), text_len = room;

	snprintf(text, room, "an address that is not known");
	if (!fi_getname(&s->end.ep->fid, address, &len))
		fi_av_straddr(s->end.av, address, text, &text_len);
	return text;
}

static int open_server(struct server *s, const struct fi_info *info)
{
	int ret = sample_open(&s->end, info, 0);

	if (ret)
		return ret;
	ret = fi_enable(s->end.ep);
	if (ret)
		return sample_fail("fi_enable", ret);
	ret = rma_talk_open(&s->talk, &s->end);
	return ret ? ret : rma_talk_listen(&s->talk);
}

/* ---- one client ---- */

static bool same_client(const struct server *s, const struct rma_message *m)
{
	return s->memory.end && m->address_len == s->address_len &&
	       !memcmp(m->address, s->address, s->address_len);
}

static int forget_client(struct server *s)
{
	int ret, failed;

	if (!s->memory.end)
		return 0;
	ret = rma_memory_unregister(&s->memory);
	failed = rma_buffer_close(&s->memory.buffer);
	ret = ret ? ret : failed;
	s->memory.end = NULL;
	failed = fi_av_remove(s->end.av, &s->client, 1, 0);
	if (failed)
		failed = sample_fail("fi_av_remove", failed);
	return ret ? ret : failed;
}

/* Refuse in words that the client prints. */
static void refuse(struct rma_message *answer, int ret, const char *why)
{
	answer->status = ret;
	snprintf(answer->text, sizeof(answer->text), "%s", why);
}

/* The answer to the message in talk.in, still empty. */
static struct rma_message *begin_answer(struct server *s)
{
	struct rma_message *out = s->talk.out;

	memset(out, 0, sizeof(*out));
	out->question = s->talk.in->question;
	out->number = s->talk.in->number;
	return out;
}

/* Listen for the next question before the answer goes out. */
static int send_answer(struct server *s, fi_addr_t to)
{
	int ret = rma_talk_listen(&s->talk);

	return ret ? ret : rma_talk_send(&s->talk, to);
}

/* The memory that a client asks for, or why not. */
static void admit(struct server *s, uint64_t size, struct rma_message *answer)
{
	uint64_t have = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	int ret;

	if (!size || size > have / 4) {
		refuse(answer, -FI_ENOMEM, "--max is more than a quarter of my memory");
		return;
	}
	ret = rma_buffer_open(&s->memory.buffer, s->end.fabric, size, s->options->dmabuf,
			      &s->options->target);
	if (ret) {
		refuse(answer, ret, "no memory of that size and kind");
		return;
	}
	s->max = size;
	answer->dmabuf = s->options->dmabuf;
	answer->iface = s->options->target.iface;
	answer->device = s->options->target.device;
	snprintf(answer->text, sizeof(answer->text), "%s", s->end.info->domain_attr->name);
}

/* A HELLO is in talk.in.  1: that one is the client now; 0: it is not. */
static int greet(struct server *s)
{
	const struct rma_message m = *s->talk.in;
	struct rma_message *out = begin_answer(s);
	int ret;

	if (sample_enter(&s->end, m.address, &s->client))
		return 0; /* nobody to answer to */
	s->memory.end = &s->end;
	s->address_len = m.address_len;
	memcpy(s->address, m.address, sizeof(s->address));
	s->checks = s->wrong = 0;
	admit(s, m.size, out);
	ret = out->status;
	if (send_answer(s, s->client) || ret) {
		forget_client(s);
		return 0;
	}
	return 1;
}

/* Somebody else says HELLO while a client is here. */
static int tell_busy(struct server *s)
{
	struct rma_message *out = begin_answer(s);
	fi_addr_t other;
	int ret;

	if (sample_enter(&s->end, s->talk.in->address, &other))
		return 0;
	refuse(out, -FI_EBUSY, "another client is being served");
	ret = rma_talk_listen(&s->talk);
	if (!ret)
		rma_talk_send(&s->talk, other); /* if it does not arrive, that is no failure here */
	fi_av_remove(s->end.av, &other, 1, 0);
	return ret;
}

static int check(struct server *s, const struct rma_message *m, struct rma_message *answer)
{
	int ret = rma_buffer_check(&s->memory.buffer, m->size, REMOTE_SALT, &m->content,
				   &answer->check);

	if (ret)
		return ret;
	s->checks++;
	if (!rma_check_right(&answer->check, m->size)) {
		s->wrong++;
		rma_check_print(&answer->check, "target", m->size);
		fputc('\n', stderr);
	}
	return 0;
}

/* Do what m asks for. */
static void act(struct server *s, const struct rma_message *m, struct rma_message *answer)
{
	bool sized = m->question == RMA_REGISTER || m->question == RMA_FILL ||
		     m->question == RMA_CHECK;

	if (sized && (!m->size || m->size > s->max)) {
		refuse(answer, -FI_EINVAL, "that is more than was asked for at first");
		return;
	}
	switch (m->question) {
	case RMA_REGISTER:
		if (s->memory.mr)
			refuse(answer, -FI_EBUSY, "the memory is registered already");
		else
			answer->status =
				rma_memory_register(&s->memory, m->size, &answer->registration);
		break;
	case RMA_FILL:
		answer->status =
			rma_buffer_fill(&s->memory.buffer, m->size, REMOTE_SALT, &m->content);
		break;
	case RMA_CHECK:
		answer->status = check(s, m, answer);
		break;
	case RMA_UNREGISTER:
		answer->status = rma_memory_unregister(&s->memory);
		break;
	case RMA_BYE:
		break;
	default:
		refuse(answer, -FI_ENOSYS, "no such question");
	}
}

/* Answer the client until it says good-bye. */
static int converse(struct server *s)
{
	struct rma_message m;
	int ret = 0;

	do {
		ret = rma_talk_receive(&s->talk, sample_timeout_s);
		if (ret == -FI_ETIMEDOUT)
			fprintf(stderr, "%s: the client has asked for nothing for %u s\n",
				sample_program, sample_timeout_s);
		if (ret)
			return ret;
		m = *s->talk.in;
		if (!same_client(s, &m)) {
			ret = m.question == RMA_HELLO ? tell_busy(s) : 0;
			continue;
		}
		act(s, &m, begin_answer(s));
		ret = send_answer(s, s->client);
	} while (!ret && (m.question != RMA_BYE || !same_client(s, &m)));
	return ret;
}

static int await_client(struct server *s)
{
	int ret;

	for (;;) {
		ret = rma_talk_receive(&s->talk, s->options->timeout_s);
		if (ret == -FI_ETIMEDOUT)
			fprintf(stderr, "%s: no client has come for %u s\n", sample_program,
				s->options->timeout_s);
		if (ret)
			return ret;
		if (s->talk.in->question == RMA_HELLO && greet(s))
			return 0;
	}
}

/* ---- the server as a whole ---- */

static void tell_served(const struct server *s, int ret)
{
	char address[96];
	size_t len = sizeof(address);

	snprintf(address, sizeof(address), "?");
	fi_av_straddr(s->end.av, s->address, address, &len);
	if (s->options->json) {
		fputs("{\"tool\": \"hmreg-rma\", ", stdout);
		tool_json_member(stdout, "client", address);
		printf("\"checks\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"finished\": %s}\n",
		       s->checks, s->wrong, ret ? "false" : "true");
	} else if (!s->options->quiet) {
		printf("%s client %s: %" PRIu64 " checks of the memory, %" PRIu64 " wrong\n",
		       ret ? "lost" : "served", address, s->checks, s->wrong);
	}
	fflush(stdout);
}

static enum rma_exit serve(struct server *s)
{
	enum rma_exit status = RMA_EXIT_OK;
	int ret, failed;

	do {
		if (await_client(s))
			return RMA_EXIT_LIBRARY;
		ret = converse(s);
		tell_served(s, ret);
		if (s->wrong)
			status = RMA_EXIT_WRONG_DATA;
		failed = forget_client(s);
		if (failed || (ret && !s->options->loop))
			return RMA_EXIT_LIBRARY;
	} while (s->options->loop);
	return status;
}

enum rma_exit rma_serve(const struct rma_options *options, const struct fi_info *info)
{
	enum rma_exit status = RMA_EXIT_LIBRARY;
	struct server s = { .options = options };
	bool host = options->target.iface == FI_HMEM_SYSTEM;
	struct tool_capture capture;
	char address[96], text[48];
	int ret;

	tool_capture_begin(&capture);
	ret = open_server(&s, info);
	tool_capture_tell(&capture);
	if (!ret) {
		if (!options->json && !options->quiet) {
			printf("%s serves %s memory at %s\n", info->domain_attr->name,
			       options->dmabuf ? "dma-buf"
			       : host	       ? "host"
					       : tool_place_text(&options->target, text),
			       own_address(&s, address, sizeof(address)));
			fflush(stdout); /* a script may wait for this line */
		}
		status = serve(&s);
	}
	forget_client(&s);
	if (rma_talk_close(&s.talk))
		status = RMA_EXIT_LIBRARY;
	if (sample_close(&s.end))
		status = RMA_EXIT_LIBRARY;
	return status;
}
