/* SPDX-License-Identifier: BSD-2-Clause */
/* See stalls.h. */
#include "tests/walk/stalls.h"

#include "tests/stress/stress.h"

#define CANARY UINT64_C(0xcacacacacacacaca)
#define RIGHTS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static unsigned below(struct stall *s, unsigned limit)
{
	return (unsigned)(stress_random(&s->random) % limit);
}

/* ---- regions ---- */

static struct fid_mr *register_part(struct stall *s, void *at, size_t len, uint64_t access,
				    struct fid_mr *base)
{
	struct iovec iov = { at, len };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = access,
				   .requested_key = atomic_fetch_add(&s->all->next_key, 1),
				   .base_mr = base };
	struct fid_mr *mr;

	CHECK_OK(fi_mr_regattr(s->domain, &attr, 0, &mr));
	return mr;
}

static void make_ready(struct stall *s, struct fid_mr *mr)
{
	if (!(s->mode & FI_MR_ENDPOINT))
		return;
	CHECK_OK(fi_mr_bind(mr, &s->ep->fid, 0));
	CHECK_OK(fi_mr_enable(mr));
}

static size_t lanes_len(const struct stall *s)
{
	return s->all->count * sizeof(*s->lanes);
}

/* ---- one's own stall ---- */

static void open_sub(struct stall *s)
{
	struct stall_notice *n = &s->notice;

	for (unsigned i = 0; i < s->all->count; i++) {
		CHECK(s->lanes[i] == CANARY + i);
		s->lanes[i] = 0;
	}
	s->sub = register_part(s, s->lanes, lanes_len(s), FI_REMOTE_WRITE, s->base);
	make_ready(s, s->sub);
	pthread_mutex_lock(&n->lock);
	n->generation++;
	n->addr = s->mode & FI_MR_VIRT_ADDR ? (uintptr_t)s->lanes : 0;
	n->key = fi_mr_key(s->sub);
	n->raw_size = sizeof(n->raw);
	CHECK_OK(fi_mr_raw_attr(s->sub, &n->base, n->raw, &n->raw_size, 0));
	pthread_mutex_unlock(&n->lock);
}

static void close_sub(struct stall *s)
{
	uint64_t generation = s->notice.generation; /* only this thread writes it */

	CHECK_OK(fi_close(&s->sub->fid));
	s->sub = NULL;
	atomic_store(&s->notice.closed, generation);
	for (unsigned i = 0; i < s->all->count; i++) {
		CHECK(s->lanes[i] == 0 || s->lanes[i] == (generation << 8 | i));
		s->lanes[i] = CANARY + i;
	}
}

static void turn(struct stall *s)
{
	if (s->sub)
		close_sub(s);
	else
		open_sub(s);
}

/* The base goes only when its part has gone. */
static void renew_base(struct stall *s)
{
	int ret = fi_close(&s->base->fid);

	if (s->sub) {
		CHECK(ret == -FI_EBUSY);
		s->busy++;
		return;
	}
	CHECK_OK(ret);
	s->base = register_part(s, s->lanes, lanes_len(s), FI_REMOTE_READ, NULL);
}

static void refresh(struct stall *s)
{
	struct iovec part = { s->lanes, sizeof(*s->lanes) };

	CHECK_OK(fi_mr_refresh(s->sub && below(s, 2) ? s->sub : s->base, &part, 1, 0));
}

/* ---- another's ---- */

static bool may_fail_with(const struct stall *host, int cause)
{
	return cause == HMREG_KEY_UNKNOWN || cause == HMREG_KEY_CLOSED ||
	       (cause == HMREG_REFRESHING && (host->mode & FI_MR_MMU_NOTIFY));
}

static int write_to(struct stall *s, fi_addr_t to, uint64_t addr, uint64_t key)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_entry entry;
	ssize_t ret;

	CHECK_OK(fi_write(s->ep, &s->out, sizeof(s->out), fi_mr_desc(s->local), to,
			  addr + s->thread * sizeof(s->out), key, s));
	ret = fi_cq_read(s->cq, &entry, 1);
	if (ret == 1) {
		CHECK(entry.op_context == s);
		return HMREG_OK;
	}
	CHECK(ret == -FI_EAVAIL && fi_cq_readerr(s->cq, &error, 0) == 1);
	CHECK(error.op_context == s && error.prov_errno != HMREG_OK);
	return error.prov_errno;
}

static void visit(struct stall *s)
{
	struct stall *host = &s->all->stall[below(s, s->all->count)];
	struct stall_notice *n = &host->notice;
	uint64_t generation, addr, base, key;
	uint8_t raw[sizeof(n->raw)];
	size_t raw_size;
	fi_addr_t to;
	bool was_closed;
	int cause;

	pthread_mutex_lock(&n->lock);
	generation = n->generation, addr = n->addr, base = n->base, raw_size = n->raw_size;
	memcpy(raw, n->raw, sizeof(raw));
	pthread_mutex_unlock(&n->lock);
	if (generation == 0)
		return;
	CHECK(fi_av_insert(s->av, host->name, 1, &to, 0, NULL) == 1);
	CHECK_OK(fi_mr_map_raw(s->domain, base, raw, raw_size, &key, 0));
	s->out = generation << 8 | s->thread;
	was_closed = atomic_load(&n->closed) >= generation;
	cause = write_to(s, to, addr, key);
	CHECK(cause == HMREG_OK ? !was_closed : may_fail_with(host, cause));
	s->hits += cause == HMREG_OK;
	s->misses += cause != HMREG_OK;
	CHECK_OK(fi_mr_unmap_key(s->domain, key));
	CHECK_OK(fi_av_remove(s->av, &to, 1, 0));
}

void stall_act(void *arg)
{
	struct stall *s = arg;

	switch (below(s, 8)) {
	case 0:
	case 1:
		turn(s);
		break;
	case 2:
		renew_base(s);
		break;
	case 3:
		refresh(s);
		break;
	default:
		visit(s);
		break;
	}
}

/* ---- from beginning to end ---- */

static void open_ends(struct stall *s, struct fi_info *info)
{
	struct fi_av_attr av = { .type = FI_AV_MAP };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE };
	size_t len = sizeof(s->name);

	CHECK_OK(fi_cq_open(s->domain, &cq, &s->cq, NULL));
	CHECK_OK(fi_av_open(s->domain, &av, &s->av, NULL));
	CHECK_OK(fi_endpoint(s->domain, info, &s->ep, NULL));
	CHECK_OK(fi_ep_bind(s->ep, &s->av->fid, 0));
	CHECK_OK(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK_OK(fi_enable(s->ep));
	CHECK_OK(fi_getname(&s->ep->fid, s->name, &len));
}

void stalls_open(struct stalls *all, unsigned count, const struct world *world)
{
	memset(all, 0, sizeof(*all));
	all->count = count;
	all->next_key = 1u << 20;
	for (unsigned t = 0; t < count; t++) {
		struct stall *s = &all->stall[t];
		const struct walk_variant *variant = world->variant[t % WALK_DOMAINS];

		s->all = all;
		s->thread = t;
		s->random = UINT64_C(0x9e3779b97f4a7c15) * (t + 1);
		s->domain = world->domain[t % WALK_DOMAINS];
		s->mode = variant->mode;
		pthread_mutex_init(&s->notice.lock, NULL);
		s->lanes = calloc(count, sizeof(*s->lanes));
		CHECK(s->lanes);
		for (unsigned i = 0; i < count; i++)
			s->lanes[i] = CANARY + i;
		open_ends(s, world->ground->info[variant - walk_variants]);
		s->base = register_part(s, s->lanes, lanes_len(s), FI_REMOTE_READ, NULL);
		s->local = register_part(s, &s->out, sizeof(s->out), RIGHTS, NULL);
		make_ready(s, s->local);
	}
}

void stalls_close(struct stalls *all)
{
	for (unsigned t = 0; t < all->count; t++) {
		struct stall *s = &all->stall[t];

		if (s->sub)
			close_sub(s);
		CHECK_OK(fi_close(&s->base->fid));
		CHECK_OK(fi_close(&s->local->fid));
		CHECK_OK(fi_close(&s->ep->fid));
		CHECK_OK(fi_close(&s->av->fid));
		CHECK_OK(fi_close(&s->cq->fid));
		pthread_mutex_destroy(&s->notice.lock);
		free(s->lanes);
	}
}
