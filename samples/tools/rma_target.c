/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: see rma_target.h. */
#define _POSIX_C_SOURCE 200809L

#include "rma_target.h"

#include <rdma/fi_cm.h>

/* Greet the server: tell where this end is and how much memory it shall have. */
static int greet(struct rma_target *target, const struct rma_options *options)
{
	struct rma_message *out = target->talk.out;
	size_t len = sizeof(out->address);
	int ret = fi_getname(&target->talk.end->ep->fid, out->address, &len);

	if (ret)
		return sample_fail("fi_getname", ret);
	out->address_len = (uint32_t)len;
	out->size = options->max;
	ret = rma_talk_ask(&target->talk, RMA_HELLO);
	if (ret && target->talk.broken)
		fprintf(stderr,
			"%s: no server at %s, port %s: has `%s --server' been started there?\n",
			sample_program, options->host, options->port, sample_program);
	if (ret)
		return ret;
	target->greeted = true;
	target->dmabuf = target->talk.in->dmabuf;
	target->place = (struct sample_place){ (enum fi_hmem_iface)target->talk.in->iface,
					       target->talk.in->device };
	memcpy(target->text, target->talk.in->text, sizeof(target->text));
	return 0;
}

static int open_remote(struct rma_target *target, const struct rma_options *options,
		       struct sample_end *initiator, const struct fi_info *info)
{
	int ret = fi_enable(initiator->ep);

	if (ret)
		return sample_fail("fi_enable", ret);
	if (!info->dest_addr)
		return sample_fail("the server's address", -FI_EADDRNOTAVAIL);
	ret = sample_enter(initiator, info->dest_addr, &initiator->peer);
	if (!ret)
		ret = rma_talk_open(&target->talk, initiator);
	return ret ? ret : greet(target, options);
}

int rma_target_open(struct rma_target *target, const struct rma_options *options,
		    struct sample_end *initiator, const struct fi_info *info)
{
	int ret;

	memset(target, 0, sizeof(*target));
	target->remote = options->host != NULL;
	if (target->remote)
		return open_remote(target, options, initiator, info);
	target->dmabuf = options->dmabuf;
	target->place = options->target;
	target->memory.end = &target->end;
	ret = sample_open(&target->end, info, 0);
	if (!ret)
		ret = rma_buffer_open(&target->memory.buffer, target->end.fabric, options->max,
				      options->dmabuf, &options->target);
	return ret ? ret : sample_connect(initiator, &target->end);
}

int rma_target_close(struct rma_target *target)
{
	int ret = 0, failed;

	if (target->remote) {
		if (target->greeted && !target->talk.broken)
			ret = rma_talk_ask(&target->talk, RMA_BYE);
		failed = rma_talk_close(&target->talk);
		return ret ? ret : failed;
	}
	ret = rma_buffer_close(&target->memory.buffer);
	failed = sample_close(&target->end);
	return ret ? ret : failed;
}

int rma_target_register(struct rma_target *target, size_t size, struct rma_registration *out)
{
	int ret;

	if (!target->remote)
		return rma_memory_register(&target->memory, size, out);
	target->talk.out->size = size;
	ret = rma_talk_ask(&target->talk, RMA_REGISTER);
	if (!ret)
		*out = target->talk.in->registration;
	return ret;
}

int rma_target_unregister(struct rma_target *target)
{
	if (!target->remote)
		return rma_memory_unregister(&target->memory);
	return rma_talk_ask(&target->talk, RMA_UNREGISTER);
}

int rma_target_fill(struct rma_target *target, size_t size, const struct content *content)
{
	if (!target->remote)
		return rma_buffer_fill(&target->memory.buffer, size, REMOTE_SALT, content);
	target->talk.out->size = size;
	target->talk.out->content = *content;
	return rma_talk_ask(&target->talk, RMA_FILL);
}

int rma_target_check(struct rma_target *target, size_t size, const struct content *content,
		     struct rma_check *check)
{
	int ret;

	if (!target->remote)
		return rma_buffer_check(&target->memory.buffer, size, REMOTE_SALT, content, check);
	target->talk.out->size = size;
	target->talk.out->content = *content;
	ret = rma_talk_ask(&target->talk, RMA_CHECK);
	if (!ret)
		*check = target->talk.in->check;
	return ret;
}
