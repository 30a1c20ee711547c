/* SPDX-License-Identifier: BSD-2-Clause */
/* See fault.h: the scene. */
#include <netinet/in.h>

#include "tests/fault/fault.h"

int fault_modes = FAULT_MODES;
uint64_t fault_caps = FAULT_CAPS;

struct fi_info *fault_info(const char *profile)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	assert_non_null(hints);
	hints->caps = fault_caps;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = fault_modes;
	hints->domain_attr->name = strdup(profile);
	assert_int_equal(fi_getinfo(FAULT_VERSION, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	return info;
}

/* Its events then need no memory for the vector itself. */
static void insert_first(struct scene *s)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(999),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct fi_eq_entry entry;
	uint32_t event;

	assert_int_equal(fi_av_bind(s->av, &s->eq->fid, 0), 0);
	assert_int_equal(fi_av_insert(s->av, &in, 1, &s->self, 0, NULL), 0);
	assert_int_equal(fi_eq_read(s->eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
}

static void open_queues(struct scene *s, unsigned opts)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA,
				      .wait_obj = FI_WAIT_NONE,
				      .size = opts & SCENE_CQ_ONE ? 1 : 64 };

	if (opts & SCENE_AV_EVENT)
		av_attr.flags = FI_EVENT;
	assert_int_equal(fi_av_open(s->domain, &av_attr, &s->av, NULL), 0);
	if (opts & SCENE_AV_EVENT)
		insert_first(s);
	assert_int_equal(fi_cq_open(s->domain, &cq_attr, &s->tx, NULL), 0);
	assert_int_equal(fi_cq_open(s->domain, &cq_attr, &s->rx, NULL), 0);
}

static void open_endpoint(struct scene *s)
{
	char name[64];
	size_t len = sizeof(name);

	assert_int_equal(fi_endpoint(s->domain, s->info, &s->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(s->ep, &s->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(s->ep, &s->tx->fid, FI_TRANSMIT), 0);
	assert_int_equal(fi_ep_bind(s->ep, &s->rx->fid, FI_RECV), 0);
	assert_int_equal(fi_enable(s->ep), 0);
	assert_int_equal(fi_getname(&s->ep->fid, name, &len), 0);
	assert_int_equal(fi_av_insert(s->av, name, 1, &s->self, 0, NULL), 1);
}

void scene_open(struct scene *s, const char *profile, unsigned opts)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_NONE, .flags = FI_WRITE };

	memset(s, 0, sizeof(*s));
	s->profile = profile;
	s->info = fault_info(profile);
	s->mode = s->info->domain_attr->mr_mode;
	assert_int_equal(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), 0);
	assert_int_equal(fi_eq_open(s->fabric, &eq_attr, &s->eq, NULL), 0);
	assert_int_equal(fi_domain(s->fabric, s->info, &s->domain, NULL), 0);
	if (opts & SCENE_REG_EQ)
		assert_int_equal(fi_domain_bind(s->domain, &s->eq->fid, FI_REG_MR), 0);
	assert_int_equal(fi_open_ops(&s->domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&s->ops, NULL),
			 0);
	s->src = calloc(2, SCENE_BYTES);
	assert_non_null(s->src);
	s->dst = s->src + SCENE_BYTES;
	open_queues(s, opts);
	if (opts & SCENE_ENDPOINT)
		open_endpoint(s);
}

void scene_close(struct scene *s)
{
	if (s->ep)
		assert_int_equal(fi_close(&s->ep->fid), 0);
	assert_int_equal(fi_close(&s->rx->fid), 0);
	assert_int_equal(fi_close(&s->tx->fid), 0);
	assert_int_equal(fi_close(&s->av->fid), 0);
	assert_int_equal(fi_close(&s->domain->fid), 0);
	assert_int_equal(fi_close(&s->eq->fid), 0);
	assert_int_equal(fi_close(&s->fabric->fid), 0);
	fi_freeinfo(s->info);
	free(s->src);
	memset(s, 0, sizeof(*s));
}

void scene_ready(struct scene *s, struct fid_mr *mr)
{
	if (s->mode & FI_MR_ENDPOINT) {
		assert_int_equal(fi_mr_bind(mr, &s->ep->fid, 0), 0);
		assert_int_equal(fi_mr_enable(mr), 0);
	}
	if (s->mode & FI_MR_MMU_NOTIFY)
		assert_int_equal(fi_mr_refresh(mr, NULL, 0, 0), 0);
}

uint64_t scene_addr(const struct scene *s, const void *first)
{
	return s->mode & FI_MR_VIRT_ADDR ? (uintptr_t)first : 0;
}

void scene_register(struct scene *s)
{
	uint8_t raw[16];
	size_t size = sizeof(raw);
	uint64_t base;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fi_mr_reg(s->domain, i ? s->dst : s->src, SCENE_BYTES, FAULT_ALL,
					   0, 100 + i, 0, &s->mr[i], NULL),
				 0);
		scene_ready(s, s->mr[i]);
	}
	s->key = fi_mr_key(s->mr[1]);
	if (!(s->mode & FI_MR_RAW))
		return;
	assert_int_equal(fi_mr_raw_attr(s->mr[1], &base, raw, &size, 0), 0);
	assert_int_equal(fi_mr_map_raw(s->domain, base, raw, size, &s->key, 0), 0);
}

void scene_unregister(struct scene *s)
{
	if (s->mode & FI_MR_RAW)
		assert_int_equal(fi_mr_unmap_key(s->domain, s->key), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fi_close(&s->mr[i]->fid), 0);
		s->mr[i] = NULL;
	}
}

void *scene_desc(const struct scene *s, unsigned i)
{
	return s->mr[i] ? fi_mr_desc(s->mr[i]) : NULL;
}

void scene_done(struct fid_cq *cq, void *context)
{
	struct fi_cq_data_entry entry;

	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	assert_ptr_equal(entry.op_context, context);
}

void scene_works(struct scene *s)
{
	uint64_t addr = scene_addr(s, s->dst), one = 1, before;
	static uint8_t round;

	memset(s->src, ++round, SCENE_BYTES);
	assert_int_equal(fi_write(s->ep, s->src, SCENE_BYTES, scene_desc(s, 0), s->self, addr,
				  s->key, s),
			 0);
	scene_done(s->tx, s);
	assert_memory_equal(s->src, s->dst, SCENE_BYTES);
	memset(s->dst, ++round, SCENE_BYTES);
	assert_int_equal(
		fi_read(s->ep, s->src, SCENE_BYTES, scene_desc(s, 0), s->self, addr, s->key, s), 0);
	scene_done(s->tx, s);
	assert_memory_equal(s->src, s->dst, SCENE_BYTES);
	memcpy(&before, s->dst, sizeof(before));
	memcpy(s->src, &one, sizeof(one));
	assert_int_equal(fi_atomic(s->ep, s->src, 1, scene_desc(s, 0), s->self, addr, s->key,
				   FI_UINT64, FI_SUM, s),
			 0);
	scene_done(s->tx, s);
	before++;
	assert_memory_equal(s->dst, &before, sizeof(before));
	memset(s->src, ++round, SCENE_BYTES);
	assert_int_equal(fi_recv(s->ep, s->dst, SCENE_BYTES, scene_desc(s, 1), FI_ADDR_UNSPEC, s),
			 0);
	assert_int_equal(fi_send(s->ep, s->src, SCENE_BYTES, scene_desc(s, 0), s->self, s), 0);
	scene_done(s->tx, s);
	scene_done(s->rx, s);
	assert_memory_equal(s->src, s->dst, SCENE_BYTES);
}
