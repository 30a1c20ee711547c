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

int rma_buffer_open(struct rma_buffer *buffer, struct fid_fabric *fabric, size_t max, bool dmabuf,
		    const struct sample_place *place)
{
	size_t bytes = (max + 2 * GUARD_BYTES + PAGE - 1) / PAGE * PAGE;
	int ret;

	memset(buffer, 0, sizeof(*buffer));
	if (dmabuf) {
		ret = dmabuf_host_open(bytes, &buffer->dmabuf);
		if (ret)
			return ret;
		buffer->data = buffer->host = (uint8_t *)buffer->dmabuf.map + GUARD_BYTES;
		return 0;
	}
	ret = tool_block_open(&buffer->block, fabric, place, bytes);
	if (ret)
		return ret;
	buffer->data = buffer->block.memory + GUARD_BYTES;
	buffer->host = tool_block_host(&buffer->block) + GUARD_BYTES;
	return 0;
}

int rma_buffer_close(struct rma_buffer *buffer)
{
	int ret = 0;

	if (buffer->dmabuf.map)
		dmabuf_host_close(&buffer->dmabuf);
	else
		ret = tool_block_close(&buffer->block);
	memset(buffer, 0, sizeof(*buffer));
	return ret;
}

int rma_buffer_register(const struct rma_buffer *buffer, struct sample_end *end, size_t size,
			uint64_t access, struct fid_mr **mr)
{
	if (buffer->dmabuf.map)
		return sample_register_dmabuf(end, buffer->dmabuf.fd, GUARD_BYTES, size,
					      buffer->dmabuf.map, access, mr);
	return sample_register_at(end, &buffer->block.place, buffer->data, size, access, mr);
}

int rma_buffer_fill(struct rma_buffer *buffer, size_t size, uint64_t salt,
		    const struct content *content)
{
	bool dmabuf = buffer->dmabuf.map != NULL;
	int ret = dmabuf ? dmabuf_host_begin(&buffer->dmabuf, true) : 0;

	if (ret)
		return ret;
	fill(buffer->host, size, content);
	set_guards(buffer->host, size, salt);
	if (dmabuf)
		return dmabuf_host_end(&buffer->dmabuf, true);
	return tool_block_store(&buffer->block, 0, size + 2 * GUARD_BYTES);
}

int rma_buffer_check(struct rma_buffer *buffer, size_t size, uint64_t salt,
		     const struct content *content, struct rma_check *check)
{
	bool dmabuf = buffer->dmabuf.map != NULL;
	int ret = dmabuf ? dmabuf_host_begin(&buffer->dmabuf, false)
			 : tool_block_fetch(&buffer->block, 0, size + 2 * GUARD_BYTES);

	if (ret)
		return ret;
	check->wrong = first_difference(buffer->host, size, content);
	check->byte = check->wrong < size ? buffer->host[check->wrong] : 0;
	check->guards = guards_intact(buffer->host, size, salt);
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
	return rma_buffer_register(&memory->buffer, memory->end, size, ACCESS, mr);
}

/* The way that the NIC reaches a region by; 0 where the library does not tell. */
static uint64_t path_of(struct fid_mr *mr)
{
	struct hmreg_region_info info = { .size = sizeof(info) };
	struct hmreg_mr_ops *ops;

	if (fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL) ||
	    ops->info(&mr->fid, &info))
		return 0;
	return info.path;
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
		out->path = path_of(memory->mr);
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
