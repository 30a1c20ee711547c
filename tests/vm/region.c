/* SPDX-License-Identifier: BSD-2-Clause */
/* Dma-buf regions for the harness, and what the kernel counts; see region.h. */
#include "region.h"

#include <errno.h>

void vm_dmabuf_attr(struct fi_mr_attr *attr, struct fi_mr_dmabuf *dmabuf,
		    const struct memory *memory, size_t off, size_t len, void *base)
{
	*dmabuf = (struct fi_mr_dmabuf){
		.fd = memory->fd,
		.offset = off,
		.len = len,
		.base_addr = base,
	};
	*attr = (struct fi_mr_attr){
		.dmabuf = dmabuf,
		.iov_count = 1,
		.access = CONF_ALL,
		.iface = FI_HMEM_SYSTEM,
	};
}

struct conf_region *vm_reg_dmabuf(struct conf_end *end, const struct memory *memory, size_t off,
				  size_t len, void *base, uint64_t access)
{
	struct conf_end *keys = end->shares ? end->shares : end;
	struct conf *c = end->conf;
	struct conf_region *region = &c->region[c->regions];
	struct fi_mr_dmabuf dmabuf;
	struct fi_mr_attr attr;
	struct fid_mr *mr;

	vm_dmabuf_attr(&attr, &dmabuf, memory, off, len, base);
	attr.access = access;
	attr.requested_key = keys->next_key++;
	assert_true(c->regions < CONF_REGIONS);
	assert_ok(fi_mr_regattr(end->domain, &attr, FI_MR_DMABUF, &mr));
	memset(&dmabuf, 0xff, sizeof(dmabuf)); /* nothing of the caller's is kept */
	c->regions++;
	*region = (struct conf_region){ .end = end, .mr = mr, .desc = fi_mr_desc(mr) };
	if (end->mode & FI_MR_VIRT_ADDR)
		region->addr = (uintptr_t)base + off;
	conf_ready(end, mr, NULL);
	return region;
}

uint32_t vm_region_state(const struct conf_region *region, enum hmreg_path *path)
{
	struct hmreg_region_info info = { .size = sizeof(info) };
	struct hmreg_mr_ops *ops;

	assert_int_equal(fi_open_ops(&region->mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->info(&region->mr->fid, &info), 0);
	if (path)
		*path = info.path;
	return info.state;
}

/* The number after " NAME " in a line of "rdma resource show", 0 when it is not there. */
static unsigned int number_of(const char *line, const char *name)
{
	char key[16];
	const char *at;

	snprintf(key, sizeof(key), " %s ", name);
	at = strstr(line, key);
	return at ? (unsigned int)strtoul(at + strlen(key), NULL, 10) : 0;
}

void vm_resources(struct vm_resources *resources)
{
	FILE *show = popen("/usr/bin/rdma resource show", "r");
	char line[512];
	int lines = 0;

	assert_non_null(show);
	memset(resources, 0, sizeof(*resources));
	for (; fgets(line, sizeof(line), show); lines++) {
		resources->pd += number_of(line, "pd");
		resources->cq += number_of(line, "cq");
		resources->qp += number_of(line, "qp");
		resources->cm_id += number_of(line, "cm_id");
		resources->mr += number_of(line, "mr");
		resources->srq += number_of(line, "srq");
	}
	assert_int_equal(pclose(show), 0);
	assert_true(lines > 0);
}

void vm_assert_same(const struct vm_resources *have, const struct vm_resources *want)
{
	assert_int_equal(have->mr, want->mr);
	assert_int_equal(have->qp, want->qp);
	assert_int_equal(have->cq, want->cq);
	assert_int_equal(have->pd, want->pd);
	assert_int_equal(have->srq, want->srq);
	assert_int_equal(have->cm_id, want->cm_id);
}
