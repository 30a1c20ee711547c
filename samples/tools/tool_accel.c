/* SPDX-License-Identifier: BSD-2-Clause */
/* See tool_accel.h. */
#define _POSIX_C_SOURCE 200809L

#include "tool_accel.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PAGE  4096
#define STALE 0xa5 /* what no content and no guard word is all of */

/* ---- names ---- */

static const char *const iface_names[TOOL_IFACES] = {
	[FI_HMEM_SYSTEM] = "system", [FI_HMEM_CUDA] = "cuda",	  [FI_HMEM_ROCR] = "rocr",
	[FI_HMEM_ZE] = "ze",	     [FI_HMEM_NEURON] = "neuron", [FI_HMEM_SYNAPSEAI] = "synapseai",
};

static const struct {
	const char *word, *text;
} paths[] = {
	[0] = { "none", "none" },
	[HMREG_PATH_SOFTWARE] = { "software", "as memory of this process" },
	[HMREG_PATH_HOST] = { "host", "as host memory" },
	[HMREG_PATH_DMABUF] = { "dmabuf", "as a dma-buf" },
	[HMREG_PATH_PEER_MEMORY] = { "peer_memory", "as peer memory, by a kernel module" },
	[HMREG_PATH_COPY] = { "copy", "by copies of its interface" },
	[HMREG_PATH_MAPPED] = { "mapped", "as a dma-buf, mapped into this process" },
};

#define PATH_COUNT (sizeof(paths) / sizeof(paths[0]))

const char *tool_iface_name(enum fi_hmem_iface iface)
{
	return (unsigned int)iface < TOOL_IFACES ? iface_names[iface] : "?";
}

const char *tool_path_text(enum hmreg_path path)
{
	return (size_t)path < PATH_COUNT ? paths[path].text : "in a way unknown here";
}

const char *tool_path_word(enum hmreg_path path)
{
	return (size_t)path < PATH_COUNT ? paths[path].word : "unknown";
}

enum tool_parse tool_place_parse(const char *text, struct sample_place *place)
{
	size_t len = strcspn(text, ":"), i = 0;
	long number;
	char *end;

	while (i < TOOL_IFACES &&
	       (strlen(iface_names[i]) != len || strncmp(iface_names[i], text, len)))
		i++;
	if (i == TOOL_IFACES)
		return TOOL_PARSE_NO_IFACE;
	*place = (struct sample_place){ (enum fi_hmem_iface)i,
					i == FI_HMEM_SYSTEM ? 0 : TOOL_FIRST };
	if (!text[len])
		return TOOL_PARSE_OK;
	errno = 0;
	number = strtol(text + len + 1, &end, 0);
	if (i == FI_HMEM_SYSTEM || !isdigit((unsigned char)text[len + 1]) || *end || errno ||
	    number > INT_MAX)
		return TOOL_PARSE_NO_DEVICE;
	place->device = (int)number;
	return TOOL_PARSE_OK;
}

char *tool_place_text(const struct sample_place *place, char text[48])
{
	if (place->iface == FI_HMEM_SYSTEM)
		snprintf(text, 48, "system");
	else if (place->device == TOOL_FIRST)
		snprintf(text, 48, "%s", tool_iface_name(place->iface));
	else
		snprintf(text, 48, "%s:%d", tool_iface_name(place->iface), place->device);
	return text;
}

/* ---- what is there ---- */

static int open_ops(struct fid_fabric *fabric, struct hmreg_hmem_ops **ops)
{
	int ret = fi_open_ops(&fabric->fid, HMREG_HMEM_OPS, 0, (void **)ops, NULL);

	return ret ? sample_fail("fi_open_ops of " HMREG_HMEM_OPS, ret) : 0;
}

/* The interface has no such device: which ones it has. */
static int tell_devices(struct fid_fabric *fabric, struct hmreg_hmem_ops *ops,
			const struct sample_place *place)
{
	struct hmreg_hmem_device device = { .size = sizeof(device) };
	const char *separator = "; there are ";
	size_t i;

	fprintf(stderr, "%s: %s has no device %d", sample_program, tool_iface_name(place->iface),
		place->device);
	for (i = 0; ops->device(&fabric->fid, place->iface, i, &device) == 0; i++) {
		fprintf(stderr, "%s%d (%s)", separator, device.id, device.name);
		separator = ", ";
	}
	fputc('\n', stderr);
	return -FI_ENODEV;
}

int tool_place_find(struct fid_fabric *fabric, struct sample_place *place)
{
	struct hmreg_hmem_iface iface = { .size = sizeof(iface) };
	struct hmreg_hmem_device device = { .size = sizeof(device) };
	struct hmreg_hmem_ops *ops;
	size_t i;
	int ret;

	if (place->iface == FI_HMEM_SYSTEM)
		return 0;
	ret = open_ops(fabric, &ops);
	if (ret)
		return ret;
	ret = ops->iface(&fabric->fid, place->iface, &iface);
	if (ret)
		return sample_fail("asking about a memory interface", ret);
	if (iface.reason[0]) {
		fprintf(stderr, "%s: %s cannot be used: %s\n", sample_program,
			tool_iface_name(place->iface), iface.reason);
		return -FI_ENOSYS;
	}
	for (i = 0; i < iface.devices; i++) {
		ret = ops->device(&fabric->fid, place->iface, i, &device);
		if (ret)
			return sample_fail("asking about a device", ret);
		if (place->device == TOOL_FIRST || place->device == device.id) {
			place->device = device.id;
			return 0;
		}
	}
	return tell_devices(fabric, ops, place);
}

/* Printed where it fails. */
static int allocate(struct fid_fabric *fabric, struct hmreg_hmem_ops *ops,
		    const struct sample_place *place, size_t len, void **memory)
{
	int ret = ops->alloc(&fabric->fid, place->iface, place->device, HMREG_HMEM_DEVICE, len,
			     memory);
	char call[96], text[48];

	if (!ret)
		return 0;
	snprintf(call, sizeof(call), "%zu bytes of %s", len, tool_place_text(place, text));
	return sample_fail(call, ret);
}

static int give_back(struct fid_fabric *fabric, struct hmreg_hmem_ops *ops,
		     const struct sample_place *place, void *memory)
{
	int ret = ops->free(&fabric->fid, place->iface, place->device, HMREG_HMEM_DEVICE, memory);

	return ret ? sample_fail("giving device memory back", ret) : 0;
}

int tool_place_path(struct fid_fabric *fabric, const struct fi_info *info,
		    const struct sample_place *place, struct hmreg_hmem_path *path)
{
	struct hmreg_hmem_ops *ops;
	void *page;
	int ret = open_ops(fabric, &ops);

	if (ret)
		return ret;
	path->size = sizeof(*path);
	ret = ops->path(&fabric->fid, info, place->iface, place->device, path);
	/* SynapseAI tells nothing of a device that the program has not acquired, as an allocation does */
	if (!ret && !path->path) {
		ret = allocate(fabric, ops, place, PAGE, &page);
		if (!ret)
			ret = give_back(fabric, ops, place, page);
		if (ret)
			return ret;
		ret = ops->path(&fabric->fid, info, place->iface, place->device, path);
	}
	return ret ? sample_fail("asking how the NIC reaches a device", ret) : 0;
}

int tool_place_reach(struct fid_fabric *fabric, const struct fi_info *info,
		     const struct sample_place *place)
{
	struct hmreg_hmem_path path;
	char text[48];
	int ret;

	if (place->iface == FI_HMEM_SYSTEM)
		return 0;
	ret = tool_place_path(fabric, info, place, &path);
	if (ret)
		return ret;
	if (path.path)
		return 0;
	fprintf(stderr,
		"%s: %s cannot reach memory of %s: as a dma-buf: %s; as peer memory: %s; by "
		"copies: %s\n",
		sample_program, info->domain_attr->name, tool_place_text(place, text),
		path.dmabuf_reason, path.peer_reason, path.copy_reason);
	return -FI_EOPNOTSUPP;
}

/* ---- memory ---- */

static int open_host(struct tool_block *block)
{
	block->memory = aligned_alloc(PAGE, block->len);
	if (!block->memory)
		return sample_fail("aligned_alloc", -FI_ENOMEM);
	memset(block->memory, 0, block->len); /* some modes want pages that exist */
	return 0;
}

int tool_block_open(struct tool_block *block, struct fid_fabric *fabric,
		    const struct sample_place *place, size_t len)
{
	struct hmreg_hmem_ops *ops;
	void *memory;
	int ret;

	*block = (struct tool_block){ .fabric = fabric, .place = *place, .len = len };
	if (place->iface == FI_HMEM_SYSTEM)
		return open_host(block);
	ret = open_ops(fabric, &ops);
	if (ret)
		return ret;
	ret = allocate(fabric, ops, place, len, &memory);
	if (ret)
		return ret;
	block->memory = memory;
	block->shadow = calloc(1, len);
	ret = block->shadow ? tool_block_store(block, 0, len) : sample_fail("calloc", -FI_ENOMEM);
	if (ret)
		tool_block_close(block);
	return ret;
}

int tool_block_close(struct tool_block *block)
{
	struct hmreg_hmem_ops *ops;
	int ret = 0;

	if (block->memory && block->place.iface != FI_HMEM_SYSTEM) {
		ret = open_ops(block->fabric, &ops);
		if (!ret)
			ret = give_back(block->fabric, ops, &block->place, block->memory);
	} else {
		free(block->memory);
	}
	free(block->shadow);
	memset(block, 0, sizeof(*block));
	return ret;
}

uint8_t *tool_block_host(const struct tool_block *block)
{
	return block->shadow ? block->shadow : block->memory;
}

static int copy(struct tool_block *block, uint8_t *to, const uint8_t *from, size_t len,
		const char *call)
{
	struct hmreg_hmem_ops *ops;
	int ret = open_ops(block->fabric, &ops);

	if (ret)
		return ret;
	ret = ops->copy(&block->fabric->fid, to, from, len);
	return ret ? sample_fail(call, ret) : 0;
}

int tool_block_fetch(struct tool_block *block, size_t offset, size_t len)
{
	if (!block->shadow)
		return 0;
	/* lest bytes that were not copied pass for those that were stored before */
	memset(block->shadow + offset, STALE, len);
	return copy(block, block->shadow + offset, block->memory + offset, len,
		    "copy from a device");
}

int tool_block_store(struct tool_block *block, size_t offset, size_t len)
{
	if (!block->shadow)
		return 0;
	return copy(block, block->memory + offset, block->shadow + offset, len, "copy to a device");
}
