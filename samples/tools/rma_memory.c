/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: see rma_memory.h. */
#define _POSIX_C_SOURCE 200809L

#include "rma_memory.h"

#include <stdlib.h>

#include "rma_time.h"

#define PAGE	    4096
#define REG_GROUP   16
#define REG_SAMPLES 15
#define ACCESS	    (FI_REMOTE_READ | FI_REMOTE_WRITE)

int rma_buffer_open(struct rma_buffer *buffer, size_t max, bool dmabuf)
{
	size_t bytes = (max + 2 * GUARD_BYTES + PAGE - 1) / PAGE * PAGE;
	int ret;

	memset(buffer, 0, sizeof(*buffer));
	if (dmabuf) {
		ret = dmabuf_host_open(bytes, &buffer->dmabuf);
		if (ret)
			return ret;
		buffer->block = buffer->dmabuf.map;
	} else {
		buffer->block = aligned_alloc(PAGE, bytes);
		if (!buffer->block)
			return sample_fail("aligned_alloc", -FI_ENOMEM);
		memset(buffer->block, 0, bytes); /* some modes want pages that exist */
	}
	buffer->data = buffer->block + GUARD_BYTES;
	return 0;
}

void rma_buffer_close(struct rma_buffer *buffer)
{
	if (buffer->dmabuf.map)
		dmabuf_host_close(&buffer->dmabuf);
	else
		free(buffer->block);
	memset(buffer, 0, sizeof(*buffer));
}

int rma_buffer_fill(struct rma_buffer *buffer, size_t size, uint64_t salt,
		    const struct content *content)
{
	bool dmabuf = buffer->dmabuf.map != NULL;
	int ret = dmabuf ? dmabuf_host_begin(&buffer->dmabuf, true) : 0;

	if (ret)
		return ret;
	fill(buffer->data, size, content);
	set_guards(buffer->data, size, salt);
	return dmabuf ? dmabuf_host_end(&buffer->dmabuf, true) : 0;
}

int rma_buffer_check(struct rma_buffer *buffer, size_t size, uint64_t salt,
		     const struct content *content, struct rma_check *check)
{
	bool dmabuf = buffer->dmabuf.map != NULL;
	int ret = dmabuf ? dmabuf_host_begin(&buffer->dmabuf, false) : 0;

	if (ret)
		return ret;
	check->wrong = first_difference(buffer->data, size, content);
	check->byte = check->wrong < size ? buffer->data[check->wrong] : 0;
	check->guards = guards_intact(buffer->data, size, salt);
	return dmabuf ? dmabuf_host_end(&buffer->dmabuf, false) : 0;
}

void rma_check_print(const struct rma_check *check, const char *side, size_t size)
{
	if (check->wrong < size)
		fprintf(stderr, "%s buffer: byte %llu of %zu is wrong (0x%02x); ", side,
			(unsigned long long)check->wrong, size, check->byte);
	if (!check->guards)
		fprintf(stderr, "%s buffer: guard words were overwritten; ", side);
}

static int register_once(struct rma_memory *memory, size_t size, struct fid_mr **mr)
{
	struct rma_buffer *buffer = &memory->buffer;

	if (buffer->dmabuf.map)
		return sample_register_dmabuf(memory->end, buffer->dmabuf.fd, GUARD_BYTES, size,
					      buffer->dmabuf.map, ACCESS, mr);
	return sample_register_buffer(memory->end, buffer->data, size, ACCESS, mr);
}

static int time_registration(struct rma_memory *memory, size_t size, struct rma_registration *out)
{
	double registering[REG_SAMPLES], closing[REG_SAMPLES];
	struct fid_mr *regions[REG_GROUP];
	unsigned int sample, i;
	uint64_t start;
	int ret = 0, failed;

	for (sample = 0; sample < REG_SAMPLES; sample++) {
		start = now_ns();
		for (i = 0; !ret && i < REG_GROUP; i++)
			ret = register_once(memory, size, &regions[i]);
		registering[sample] = (double)(now_ns() - start) / REG_GROUP;
		i -= ret != 0;
		start = now_ns();
		while (i) {
			failed = fi_close(&regions[--i]->fid);
			if (failed && !ret)
				ret = sample_fail("fi_close", failed);
		}
		closing[sample] = (double)(now_ns() - start) / REG_GROUP;
		if (ret)
			return ret;
	}
	out->register_ns = median(registering, REG_SAMPLES);
	out->close_ns = median(closing, REG_SAMPLES);
	return 0;
}

int rma_memory_register(struct rma_memory *memory, size_t size, struct rma_registration *out)
{
	int ret = time_registration(memory, size, out);

	if (!ret)
		ret = register_once(memory, size, &memory->mr);
	if (!ret)
		ret = sample_share(memory->end, memory->mr, memory->buffer.data, &out->key);
	return ret;
}

int rma_memory_unregister(struct rma_memory *memory)
{
	int ret = memory->mr ? fi_close(&memory->mr->fid) : 0;

	memory->mr = NULL;
	return ret ? sample_fail("fi_close of a region", ret) : 0;
}
