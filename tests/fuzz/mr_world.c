/* SPDX-License-Identifier: BSD-2-Clause */
/* See mr_world.h. */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/mr_world.h"

#define GUARD_WORD UINT64_C(0xdeadbeefa5a5a5a5)
#define MODES                                                                                      \
	(FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |            \
	 FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE |     \
	 FI_MR_XPU_DESC)

struct world worlds[WORLDS];
uint8_t *arena;
static size_t page;

/* ---- memory ---- */

static void fill_guards(void)
{
	for (size_t i = 0; i < page; i += 8) {
		uint64_t word = GUARD_WORD ^ i;

		memcpy(arena - page + i, &word, 8);
		memcpy(arena + ARENA + i, &word, 8);
	}
}

void arena_check(void)
{
	for (size_t i = 0; i < page; i += 8) {
		uint64_t word = GUARD_WORD ^ i;

		PROMISE(memcmp(arena - page + i, &word, 8) == 0);
		PROMISE(memcmp(arena + ARENA + i, &word, 8) == 0);
	}
}

static void map_arena(void)
{
	uint8_t *all;

	page = (size_t)sysconf(_SC_PAGESIZE);
	all = mmap(NULL, ARENA + 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	PROMISE(all != MAP_FAILED);
	PROMISE(mprotect(all + page, ARENA + 2 * page, PROT_READ | PROT_WRITE) == 0);
	arena = all + 2 * page;
	fill_guards();
}

bool in_arena(const void *addr, uint64_t len)
{
	uint64_t at = (uint64_t)(uintptr_t)addr - (uint64_t)(uintptr_t)arena;

	return at <= ARENA && len <= ARENA - at;
}

void *unmapped(void)
{
	return arena - 2 * page + 100;
}

/* ---- objects ---- */

static void open_objects(struct world *w, bool events)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE, .size = 8 };
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_cntr_attr cntr = { .wait_obj = FI_WAIT_NONE };

	PROMISE(fi_fabric(w->info->fabric_attr, &w->fabric, NULL) == 0);
	PROMISE(fi_domain(w->fabric, w->info, &w->domain, NULL) == 0);
	if (events) {
		PROMISE(fi_eq_open(w->fabric, &eq, &w->eq, NULL) == 0);
		PROMISE(fi_domain_bind(w->domain, &w->eq->fid, FI_REG_MR) == 0);
	}
	PROMISE(fi_av_open(w->domain, &av, &w->av, NULL) == 0);
	PROMISE(fi_cq_open(w->domain, &cq, &w->cq, NULL) == 0);
	PROMISE(fi_cntr_open(w->domain, &cntr, &w->cntr, NULL) == 0);
	PROMISE(fi_endpoint(w->domain, w->info, &w->ep, NULL) == 0);
	PROMISE(fi_ep_bind(w->ep, &w->av->fid, 0) == 0);
	PROMISE(fi_ep_bind(w->ep, &w->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
	PROMISE(fi_enable(w->ep) == 0);
}

static void world_open(struct world *w, const char *profile, bool events)
{
	struct fi_info *hints = fi_allocinfo();
	char name[64];
	size_t len = sizeof(name);

	PROMISE(hints);
	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT;
	hints->domain_attr->mr_mode = MODES;
	hints->domain_attr->name = strdup(profile);
	PROMISE(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &w->info) == 0);
	fi_freeinfo(hints);
	w->mode = w->info->domain_attr->mr_mode;
	open_objects(w, events);
	PROMISE(fi_getname(&w->ep->fid, name, &len) == 0);
	PROMISE(fi_av_insert(w->av, name, 1, &w->self, 0, NULL) == 1);
	PROMISE(fi_open_ops(&w->domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&w->ops, NULL) == 0);
}

void worlds_open(void)
{
	static const char *const profiles[WORLDS] = { "sw-scalable", "sw-verbs", "sw-strict",
						      "sw-verbs" };

	map_arena();
	for (unsigned i = 0; i < WORLDS; i++)
		world_open(&worlds[i], profiles[i], i == 3);
}

struct hmreg_domain_stats world_stats(struct world *w)
{
	struct hmreg_domain_stats stats = { .size = sizeof(stats) };

	PROMISE(w->ops->stats(&w->domain->fid, &stats) == 0);
	return stats;
}

void close_mr(struct world *w, struct fuzz_mr *m)
{
	struct hmreg_domain_stats before = world_stats(w), after;

	if (m->subs > 0) {
		PROMISE(fi_close(&m->mr->fid) == -FI_EBUSY);
		after = world_stats(w);
		PROMISE(memcmp(&before, &after, sizeof(before)) == 0);
		return;
	}
	PROMISE(fi_close(&m->mr->fid) == 0);
	if (m->base)
		m->base->subs--;
	after = world_stats(w);
	PROMISE(after.regions == before.regions - 1);
	PROMISE(after.registered_bytes == before.registered_bytes - m->len);
	m->mr = NULL;
	for (unsigned i = 0; i < KEYS; i++)
		if (w->key[i].mr == m)
			w->key[i].mr = NULL;
}

void world_clean(struct world *w)
{
	struct fi_cq_data_entry entry;
	struct hmreg_domain_stats stats;
	struct fi_eq_entry event;
	uint32_t what;

	for (unsigned i = 0; i < KEYS; i++) {
		if (w->key[i].mapped)
			PROMISE(fi_mr_unmap_key(w->domain, w->key[i].key) == 0);
		w->key[i] = (struct fuzz_key){ 0 };
	}
	for (unsigned depth = 0; depth < MRS; depth++)
		for (unsigned i = 0; i < MRS; i++)
			if (w->mr[i].mr)
				close_mr(w, &w->mr[i]);
	PROMISE(fi_cq_read(w->cq, &entry, 1) == -FI_EAGAIN);
	if (w->eq)
		PROMISE(fi_eq_read(w->eq, &what, &event, sizeof(event), 0) == -FI_EAGAIN);
	stats = world_stats(w);
	PROMISE(!stats.regions && !stats.registered_bytes && !stats.mapped_keys);
	PROMISE(stats.endpoints == 1);
	arena_check();
}

/* ---- what an access may do ---- */

static struct fuzz_mr *region_of(struct world *w, uint64_t key)
{
	for (unsigned i = 0; (w->mode & FI_MR_RAW) && i < KEYS; i++)
		if (w->key[i].mapped && w->key[i].key == key)
			return w->key[i].mr;
	for (unsigned i = 0; !(w->mode & FI_MR_RAW) && i < MRS; i++)
		if (w->mr[i].mr && fi_mr_key(w->mr[i].mr) == key)
			return &w->mr[i];
	return NULL;
}

struct fuzz_mr *allowed(struct world *w, const struct fi_rma_iov *remote, uint64_t access,
			uint64_t *offset)
{
	struct fuzz_mr *m = region_of(w, remote->key);

	if (!m || !m->enabled || m->keyed || (m->access & access) != access ||
	    (m->single_use && m->used))
		return NULL;
	*offset = remote->addr;
	if (w->mode & FI_MR_VIRT_ADDR)
		*offset -= (uintptr_t)m->seg[0].iov_base;
	return *offset <= m->len && remote->len <= m->len - *offset ? m : NULL;
}

uint8_t *byte_of(const struct fuzz_mr *m, uint64_t offset)
{
	for (size_t i = 0; i < m->segs; i++) {
		if (offset < m->seg[i].iov_len)
			return (uint8_t *)m->seg[i].iov_base + offset;
		offset -= m->seg[i].iov_len;
	}
	return NULL;
}

struct fuzz_mr *take_mr(struct input *in, struct world *w)
{
	return &w->mr[take_below(in, MRS)];
}
