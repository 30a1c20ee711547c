/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registrations with every attribute out of the input, and in the order of the input everything that
 * can be done with a region and its key, transfers included.
 */
#include "tests/fuzz/mr_world.h"

#define CALLS 64 /* of one input, at most */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	worlds_open();
	return 0;
}

/* ---- registration ---- */

/* Most are in the arena; the rest anywhere, of any length. */
static struct iovec take_segment(struct input *in)
{
	uint8_t how = take_byte(in);
	struct iovec seg;

	if (how < 200) {
		size_t at = take_raw(in, 2) % ARENA, room = ARENA - at;

		seg.iov_base = arena + at;
		seg.iov_len = 1 + take_raw(in, 2) % (room < 5000 ? room : 5000);
	} else {
		seg.iov_base = how < 220   ? unmapped()
			       : how < 230 ? NULL
			       : how < 240 ? arena + ARENA - 100
					   : (void *)(uintptr_t)take_raw(in, 8);
		seg.iov_len = take_number(in);
	}
	return seg;
}

static uint64_t take_access(struct input *in)
{
	uint8_t how = take_byte(in);

	if (how < 128)
		return FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	if (how < 240) /* any of the six rights, which are neighbours */
		return (uint64_t)(take_byte(in) & 63) * FI_READ;
	return take_number(in);
}

static uint64_t take_flags(struct input *in)
{
	uint8_t how = take_byte(in);

	if (how < 128)
		return 0;
	if (how < 240)
		return (how & 1 ? FI_RMA_EVENT : 0) | (how & 2 ? FI_MR_SINGLE_USE : 0);
	return take_number(in);
}

/* Fields that are 0 in most registrations. */
static void take_rare(struct input *in, struct world *w, struct fi_mr_attr *attr)
{
	static uint8_t auth_key[8];
	uint8_t which = take_byte(in);

	if (which & 1)
		TAKE(in, attr->offset);
	if (which & 2)
		TAKE(in, attr->page_size);
	if (which & 4) {
		attr->auth_key_size = take_below(in, 9);
		attr->auth_key = auth_key;
	}
	if (which & 8)
		TAKE(in, attr->iface), TAKE(in, attr->device.reserved);
	if (which & 16)
		attr->hmem_data = take_byte(in) & 1 ? attr : NULL;
	if (which & 32)
		attr->base_mr = take_mr(in, w)->mr;
	if (which & 64)
		TAKE(in, attr->sub_mr_cnt);
}

static void check_event(struct world *w, const struct fid_mr *mr, void *context)
{
	struct fi_eq_entry entry;
	uint32_t event;

	if (!w->eq)
		return;
	PROMISE(fi_eq_read(w->eq, &event, &entry, sizeof(entry), 0) == sizeof(entry));
	PROMISE(event == FI_MR_COMPLETE && entry.fid == &mr->fid && entry.context == context);
}

static bool inside_one(const struct fuzz_mr *base, const struct iovec *iov)
{
	uint64_t addr = (uintptr_t)iov->iov_base;

	for (size_t i = 0; i < base->segs; i++) {
		uint64_t begin = (uintptr_t)base->seg[i].iov_base;

		if (addr >= begin && addr - begin < base->seg[i].iov_len &&
		    iov->iov_len <= base->seg[i].iov_len - (addr - begin))
			return true;
	}
	return false;
}

/* Takes the region over; one that reaches beyond the arena is closed, since it may touch the guards. */
static void keep(struct world *w, struct fuzz_mr *m, const struct fi_mr_attr *attr, uint64_t flags)
{
	bool outside = false;

	m->subs = 0;
	m->base = NULL;
	for (unsigned i = 0; attr->base_mr && i < MRS; i++)
		if (w->mr[i].mr == attr->base_mr)
			m->base = &w->mr[i];
	if (m->base)
		m->base->subs++;
	m->segs = attr->iov_count;
	m->access = attr->access;
	m->bound = m->used = false;
	m->single_use = flags & FI_MR_SINGLE_USE;
	m->keyed = attr->auth_key_size > 0;
	m->enabled = !(w->mode & FI_MR_ENDPOINT) &&
		     !((w->mode & FI_MR_RMA_EVENT) && (flags & FI_RMA_EVENT));
	for (size_t i = 0; i < m->segs; i++) {
		m->seg[i] = attr->mr_iov[i];
		PROMISE(!m->base || inside_one(m->base, &m->seg[i]));
		outside |= !in_arena(m->seg[i].iov_base, m->seg[i].iov_len);
	}
	if (outside)
		close_mr(w, m);
}

static void register_one(struct input *in, struct world *w)
{
	struct hmreg_domain_stats before = world_stats(w), after;
	struct fuzz_mr *m = take_mr(in, w);
	struct iovec iov[SEGS + 1];
	struct fi_mr_dmabuf dmabuf = { 0 };
	struct fi_mr_attr attr = { .mr_iov = iov };
	uint64_t flags = take_flags(in);
	uint8_t count = take_byte(in);
	int ret;

	if (m->mr)
		return;
	attr.access = take_access(in);
	attr.requested_key = take_byte(in) < 240 ? take_below(in, 8) : take_number(in);
	attr.iov_count = count < 128 ? 1 : count < 250 ? count % (SEGS + 2u) : take_number(in);
	attr.context = m;
	for (size_t i = 0; i < attr.iov_count && i <= SEGS; i++)
		iov[i] = take_segment(in);
	take_rare(in, w, &attr);
	if (flags & FI_MR_DMABUF) {
		TAKE(in, dmabuf.fd), TAKE(in, dmabuf.offset), TAKE(in, dmabuf.len);
		attr.dmabuf = &dmabuf;
	} else if (count == 251) {
		attr.mr_iov = NULL;
	}
	m->mr = NOTHING;
	ret = fi_mr_regattr(w->domain, &attr, flags, &m->mr);
	after = world_stats(w);
	PROMISE(ret <= 0);
	if (ret) {
		PROMISE(m->mr == NOTHING);
		PROMISE(memcmp(&before, &after, sizeof(before)) == 0);
		m->mr = NULL;
		return;
	}
	m->len = 0;
	for (size_t i = 0; i < attr.iov_count; i++)
		m->len += iov[i].iov_len;
	PROMISE(after.regions == before.regions + 1);
	PROMISE(after.registered_bytes == before.registered_bytes + m->len);
	PROMISE(fi_mr_desc(m->mr));
	check_event(w, m->mr, m);
	keep(w, m, &attr, flags);
}

/* ---- keys ---- */

static struct fuzz_key *free_key(struct world *w)
{
	for (unsigned i = 0; i < KEYS; i++)
		if (!w->key[i].mapped)
			return &w->key[i];
	return NULL;
}

static void map_key(struct input *in, struct world *w)
{
	struct fuzz_mr *m = take_mr(in, w);
	struct fuzz_key *k = free_key(w);
	uint8_t raw[32], was[32], damage = take_byte(in);
	size_t size = take_byte(in) < 200 ? 16 : take_below(in, 33), need;
	uint64_t base = 1;
	int ret;

	if (!m->mr || !k)
		return;
	memset(raw, 0xee, sizeof(raw));
	need = w->mode & FI_MR_RAW ? 16 : 8;
	ret = fi_mr_raw_attr(m->mr, &base, raw, &size, take_byte(in) < 240 ? 0 : take_number(in));
	PROMISE(ret <= 0);
	PROMISE(ret == -FI_EBADFLAGS || size == need);
	if (ret) {
		for (size_t i = 0; i < sizeof(raw); i++)
			PROMISE(raw[i] == 0xee);
		return;
	}
	for (size_t i = need; i < sizeof(raw); i++)
		PROMISE(raw[i] == 0xee);
	memcpy(was, raw, sizeof(raw));
	if (damage >= 200)
		raw[damage % need] ^= take_byte(in);
	if (damage >= 250)
		size = take_below(in, 33);
	k->key = 0x77;
	ret = fi_mr_map_raw(w->domain, base, raw, size, &k->key, 0);
	PROMISE(ret <= 0);
	PROMISE(ret == 0 || k->key == 0x77);
	k->mapped = ret == 0;
	/* a damaged key may map, for all that its secret tells; but it must reach nothing */
	k->mr = memcmp(raw, was, need) ? NULL : m;
}

static void unmap_key(struct input *in, struct world *w)
{
	struct fuzz_key *k = &w->key[take_below(in, KEYS)];
	uint64_t key = k->mapped ? k->key : take_number(in);
	bool known = false;
	int ret;

	for (unsigned i = 0; i < KEYS; i++)
		known |= w->key[i].mapped && w->key[i].key == key;
	ret = fi_mr_unmap_key(w->domain, key);
	PROMISE(ret == (known ? 0 : -FI_EINVAL));
	if (k->mapped)
		*k = (struct fuzz_key){ 0 };
	else if (known) /* a number that happened to be right: whichever entry has it */
		for (unsigned i = 0; i < KEYS; i++)
			if (w->key[i].mapped && w->key[i].key == key) {
				w->key[i] = (struct fuzz_key){ 0 };
				break;
			}
}

/* ---- binding, enabling, refreshing, closing ---- */

static void bind_mr(struct input *in, struct world *w)
{
	struct fuzz_mr *m = take_mr(in, w);
	uint8_t what = take_byte(in);
	uint64_t flags = what & 1 ? (what & 2 ? 0 : FI_REMOTE_WRITE) : take_number(in);
	struct fid *fid = what < 80    ? &w->ep->fid
			  : what < 160 ? &w->cntr->fid
			  : what < 200 ? &w->cq->fid
			  : what < 220 ? &worlds[0].ep->fid
			  : what < 240 ? &worlds[1].cntr->fid
				       : NULL;

	if (!m->mr)
		return;
	/* fi_mr_bind cannot take NULL: it is a call through the region's own table */
	PROMISE(m->mr->fid.ops->bind(&m->mr->fid, fid, flags) <= 0);
}

static void enable_mr(struct input *in, struct world *w)
{
	struct fuzz_mr *m = take_mr(in, w);

	if (!m->mr)
		return;
	if (fi_mr_enable(m->mr) == 0) {
		PROMISE(!m->enabled);
		m->enabled = true;
	}
}

static void refresh_mr(struct input *in, struct world *w)
{
	struct fuzz_mr *m = take_mr(in, w);
	size_t count = take_below(in, 5);
	struct iovec iov[4];

	for (size_t i = 0; i < count; i++) {
		iov[i] = take_segment(in);
		if (m->mr && take_byte(in) < 128) { /* most often a part of the region */
			iov[i].iov_base = m->seg[0].iov_base;
			iov[i].iov_len = 1 + take_byte(in);
		}
	}
	if (m->mr)
		PROMISE(fi_mr_refresh(m->mr, count ? iov : NULL, count,
				      take_byte(in) < 240 ? 0 : take_number(in)) <= 0);
}

static void close_one(struct input *in, struct world *w)
{
	struct fuzz_mr *m = take_mr(in, w);

	if (m->mr)
		close_mr(w, m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const calls[])(struct input *, struct world *) = {
		register_one, register_one, transfer, transfer,	 transfer,   map_key,
		unmap_key,    bind_mr,	    bind_mr,  enable_mr, refresh_mr, close_one,
	};
	struct input in = { data, size };
	struct world *w = &worlds[take_below(&in, WORLDS)];

	for (unsigned i = 0; i < CALLS && in.left; i++)
		calls[take_below(&in, sizeof(calls) / sizeof(calls[0]))](&in, w);
	world_clean(w);
	return 0;
}
