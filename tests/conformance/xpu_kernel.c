/* SPDX-License-Identifier: BSD-2-Clause */
/* Kernels of the tests; see xpu_kernel.h. */
#include "samples/xpu/kernel.h"
#include "samples/xpu/cpu_device.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>

#include "tests/conformance/xpu_kernel.h"

/* Threads that wait for each other share few processors. */
static void give_way(void)
{
	sched_yield();
}

static void count(uint64_t *what, uint64_t by)
{
	__atomic_fetch_add(what, by, __ATOMIC_RELAXED);
}

/* ---- one call after another ---- */

static void *name_of(struct xk_script *s, uint32_t number)
{
	return number ? &s->name[number] : NULL;
}

/* Posts. */
static int64_t transfer(struct xk_script *s, const struct xk_call *c)
{
	struct fid_xpu_ep *ep = &s->end.ep;
	void *buf = (void *)(uintptr_t)c->buf, *desc = name_of(s, c->desc);
	void *peer = name_of(s, c->peer), *context = (void *)(uintptr_t)c->context;
	void *result = (void *)(uintptr_t)c->result, *result_desc = name_of(s, c->result_desc);

	switch (c->what) {
	case XK_WRITE:
		return fi_xpu_write(ep, buf, c->len, desc, c->data, peer, c->addr, c->key, context,
				    c->flags, c->scope);
	case XK_READ:
		return fi_xpu_read(ep, buf, c->len, desc, peer, c->addr, c->key, context, c->flags,
				   c->scope);
	case XK_SEND:
		return fi_xpu_send(ep, buf, c->len, desc, c->data, peer, context, c->flags,
				   c->scope);
	case XK_RECV:
		return fi_xpu_recv(ep, buf, c->len, desc, peer, context, c->flags, c->scope);
	case XK_TSEND:
		return fi_xpu_tsend(ep, buf, c->len, desc, c->data, peer, c->tag, context, c->flags,
				    c->scope);
	case XK_TRECV:
		return fi_xpu_trecv(ep, buf, c->len, desc, peer, c->tag, 0, context, c->flags,
				    c->scope);
	case XK_ATOMIC:
		return fi_xpu_atomic(ep, buf, c->len, desc, peer, c->addr, c->key, c->datatype,
				     c->op, context, c->flags, c->scope);
	case XK_FETCH:
		return fi_xpu_fetch_atomic(ep, buf, c->len, desc, result, result_desc, peer,
					   c->addr, c->key, c->datatype, c->op, context, c->flags,
					   c->scope);
	default:
		return fi_xpu_compare_atomic(ep, buf, c->len, desc, (void *)(uintptr_t)c->compare,
					     name_of(s, c->compare_desc), result, result_desc, peer,
					     c->addr, c->key, c->datatype, c->op, context, c->flags,
					     c->scope);
	}
}

static int64_t queue(struct xk_script *s, const struct xk_call *c)
{
	struct fid_xpu_cq *cq = c->object == XK_TX ? &s->end.tx : &s->end.rx;

	switch (c->what) {
	case XK_CQ_READ:
		return fi_xpu_cq_read(cq, s->room, c->len, c->scope);
	case XK_CQ_READFROM:
		return fi_xpu_cq_readfrom(cq, s->room, c->len, s->from, c->scope);
	case XK_CQ_READERR:
		return fi_xpu_cq_readerr(cq, s->room, c->flags, c->scope);
	case XK_CQ_SREAD:
		return fi_xpu_cq_sread(cq, s->room, c->len, c->value, c->scope);
	default:
		return fi_xpu_cq_sreadfrom(cq, s->room, c->len, s->from, c->value, c->scope);
	}
}

static int64_t counter(struct xk_script *s, const struct xk_call *c)
{
	struct fid_xpu_cntr *cntr = c->object == XK_TX ? &s->end.sent : &s->end.arrived;

	switch (c->what) {
	case XK_CNTR_READ:
		return (int64_t)fi_xpu_cntr_read(cntr, c->scope);
	case XK_CNTR_READERR:
		return (int64_t)fi_xpu_cntr_readerr(cntr, c->scope);
	case XK_CNTR_WAIT:
		fi_xpu_cntr_wait(cntr, c->value, c->timeout, c->scope);
		return 0;
	case XK_CNTR_ADD:
		return fi_xpu_cntr_add(cntr, c->value, c->scope);
	case XK_CNTR_SET:
		return fi_xpu_cntr_set(cntr, c->value, c->scope);
	case XK_CNTR_ADDERR:
		return fi_xpu_cntr_adderr(cntr, c->value, c->scope);
	default:
		return fi_xpu_cntr_seterr(cntr, c->value, c->scope);
	}
}

XPU_KERNEL(xk_run, struct xk_run_args)
{
	struct xk_script *s = args.script;
	struct xk_call *c = &s->call;
	uint64_t times = 0;
	int64_t ret;

	if (c->scope == FI_XPU_WORK_ITEM && (xpu_block() || xpu_thread()))
		return;
	for (;;) {
		if (c->what <= XK_COMPARE)
			ret = transfer(s, c);
		else if (c->what <= XK_CQ_SREADFROM)
			ret = queue(s, c);
		else
			ret = counter(s, c);
		times++;
		if (ret != -EAGAIN || (c->again != ~0u && times > c->again))
			break;
		give_way();
	}
	if (xpu_block() || xpu_thread())
		return;
	c->ret = ret;
	c->times = times;
}

/* ---- a scope's threads ---- */

/* Has every thread of the scope this result?  Rank 0 counts. */
static void compare_results(struct xk_scope *s, int64_t mine)
{
	int64_t first = cpu_device_share(s->scope, mine);

	if (first != mine)
		count(&s->differed, 1);
	cpu_device_sync(s->scope);
}

XPU_KERNEL(xk_post_scope, struct xk_scope_args)
{
	struct xk_scope *s = args.scope;
	bool first = cpu_device_rank(s->scope) == 0;
	int ret;

	for (uint32_t i = 0; i < s->rounds; i++) {
		do {
			ret = fi_xpu_atomic(&s->end.ep, (void *)(uintptr_t)s->buf, 1, &s->desc,
					    &s->peer, s->addr, s->key, FI_UINT64, FI_SUM, NULL,
					    FI_COMPLETION, s->scope);
			compare_results(s, ret);
			if (ret == -EAGAIN)
				give_way();
		} while (ret == -EAGAIN);
		if (first && ret == 0)
			count(&s->posted, 1);
		if (first && ret != 0)
			count(&s->failed, 1);
	}
}

/* Each group takes what it gets, until all together have as many as were posted. */
XPU_KERNEL(xk_read_scope, struct xk_scope_args)
{
	struct xk_scope *s = args.scope;
	bool first = cpu_device_rank(s->scope) == 0;
	uint8_t own[256];
	/* a thread that reads alone has memory of its own, others what is the same for all of them */
	unsigned group = s->scope == FI_XPU_DEVICE ? 0 : xpu_block() % 8 * 2;
	void *room = s->scope == FI_XPU_WORK_ITEM ? own : s->room + 256 * group;
	int64_t ret, all;

	if (s->scope == FI_XPU_SUBGROUP)
		room = s->room + 256 * (group + xpu_thread() / CPU_DEVICE_SUBGROUP % 2);
	do {
		ret = fi_xpu_cq_read(&s->end.tx, room, 3, s->scope);
		compare_results(s, ret);
		if (first && ret > 0)
			count(&s->taken, (uint64_t)ret);
		if (ret < 0 && ret != -EAGAIN) {
			if (first)
				count(&s->failed, 1);
			return;
		}
		if (ret == -EAGAIN)
			give_way();
		all = cpu_device_share(s->scope,
				       __atomic_load_n(&s->taken, __ATOMIC_RELAXED) == s->posted);
	} while (!all);
}

/* ---- many threads ---- */

static void flood_post(struct xk_flood *f)
{
	uint64_t thread = (uint64_t)xpu_block() * xpu_threads() + xpu_thread();
	uint64_t offset = 8 * thread;

	for (uint32_t i = 0; i < f->count; i++) {
		uint64_t number = __atomic_add_fetch(&f->next, 1, __ATOMIC_RELAXED);
		uint32_t turn = (uint32_t)((thread + i) % f->ends);
		int ret;

		do {
			ret = fi_xpu_atomic(&f->end[turn].ep, (void *)(uintptr_t)(f->buf + offset),
					    1, &f->desc, &f->peer[turn], f->addr + offset, f->key,
					    FI_UINT64, FI_SUM, (void *)(uintptr_t)number,
					    FI_COMPLETION, FI_XPU_WORK_ITEM);
			if (ret == -EAGAIN) {
				count(&f->refused, 1);
				give_way();
			}
		} while (ret == -EAGAIN);
		count(ret ? &f->failed : &f->posted, 1);
	}
}

/* Successes, each of a request that was made and has not completed before. */
static void flood_see(struct xk_flood *f, const struct fi_cq_data_entry *entry, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		uint64_t number = (uint64_t)(uintptr_t)entry[i].op_context;

		if (number < 1 || number > f->expected ||
		    __atomic_fetch_add(&f->seen[number], 1, __ATOMIC_RELAXED) != 0)
			count(&f->strange, 1);
	}
	count(&f->taken, (uint64_t)n);
}

static void flood_read(struct xk_flood *f)
{
	struct fi_cq_data_entry entry[8];
	struct fi_cq_err_entry error;

	for (uint32_t turn = xpu_thread();
	     __atomic_load_n(&f->taken, __ATOMIC_RELAXED) < f->expected; turn++) {
		struct fid_xpu_cq *cq = &f->end[turn % f->ends].tx;
		int64_t n = fi_xpu_cq_read(cq, entry, 8, FI_XPU_WORK_ITEM);

		if (n > 0)
			flood_see(f, entry, n);
		else if (n == -EAGAIN)
			give_way();
		else {
			/* as a program that gives up: nothing waits for it then */
			count(&f->failed, 1);
			count(&f->taken, 1);
			error.err_data_size = 0;
			if (fi_xpu_cq_readerr(cq, &error, 0, FI_XPU_WORK_ITEM) == 1) {
				__atomic_store_n(&f->error, error.err, __ATOMIC_RELAXED);
				__atomic_store_n(&f->cause, error.prov_errno, __ATOMIC_RELAXED);
			}
		}
	}
}

XPU_KERNEL(xk_flood, struct xk_flood_args)
{
	if (xpu_block() + 1 == xpu_blocks())
		flood_read(args.flood);
	else
		flood_post(args.flood);
}

/* ---- what memory holds ---- */

static void fill(uint8_t *at, uint64_t round, uint32_t len)
{
	for (uint32_t k = 0; k < len; k++)
		at[k] = xk_pattern(round, k);
}

static uint64_t wrong_bytes(const uint8_t *at, uint64_t round, uint32_t len)
{
	uint64_t wrong = 0;

	for (uint32_t k = 0; k < len; k++)
		wrong += at[k] != xk_pattern(round, k);
	return wrong;
}

/* The next completion of the queue, or the counter's n-th: has it come as it should? */
static bool completed(struct fid_xpu_cq *cq, struct fid_xpu_cntr *cntr, enum xk_sign sign,
		      uint64_t n)
{
	struct fi_cq_data_entry entry;

	if (sign == XK_BY_QUEUE)
		return fi_xpu_cq_sread(cq, &entry, 1, 1, FI_XPU_WORK_ITEM) == 1;
	fi_xpu_cntr_wait(cntr, n, -1, FI_XPU_WORK_ITEM);
	return fi_xpu_cntr_read(cntr, FI_XPU_WORK_ITEM) >= n;
}

/* Where the counter tells, nobody reads the queue. */
static uint64_t flags_of(const struct xk_order *o)
{
	return o->sign == XK_BY_QUEUE ? FI_COMPLETION : 0;
}

static bool post_out(struct xk_order *o, bool read)
{
	int ret;

	do {
		if (read)
			ret = fi_xpu_read(&o->end.ep, (void *)(uintptr_t)o->in_buf, o->len,
					  &o->desc, &o->peer, o->addr, o->key, NULL, flags_of(o),
					  FI_XPU_WORK_ITEM);
		else
			ret = fi_xpu_write(&o->end.ep, (void *)(uintptr_t)o->out_buf, o->len,
					   &o->desc, 0, &o->peer, o->addr, o->key, NULL,
					   flags_of(o), FI_XPU_WORK_ITEM);
	} while (ret == -EAGAIN);
	return ret == 0;
}

XPU_KERNEL(xk_there_and_back, struct xk_order_args)
{
	struct xk_order *o = args.order;
	uint64_t n = 0;

	for (uint64_t i = 0; i < o->rounds; i++) {
		fill(o->out, i, o->len);
		if (!post_out(o, false) || !completed(&o->end.tx, &o->end.sent, o->sign, ++n) ||
		    !post_out(o, true) || !completed(&o->end.tx, &o->end.sent, o->sign, ++n)) {
			o->failed++;
			return;
		}
		o->wrong += wrong_bytes(o->in, i, o->len);
		o->done++;
	}
}

static bool offer(struct xk_order *o)
{
	return fi_xpu_recv(&o->end.ep, (void *)(uintptr_t)o->in_buf, o->len, &o->desc, NULL, NULL,
			   flags_of(o), FI_XPU_WORK_ITEM) == 0;
}

static bool answer(struct xk_order *o)
{
	return fi_xpu_send(&o->end.ep, (void *)(uintptr_t)o->out_buf, o->len, &o->desc, 0, &o->peer,
			   NULL, flags_of(o), FI_XPU_WORK_ITEM) == 0;
}

XPU_KERNEL(xk_echo, struct xk_order_args)
{
	struct xk_order *o = args.order;

	for (uint64_t i = 0; i < o->rounds; i++) {
		if (!offer(o) || !completed(&o->end.rx, &o->end.arrived, o->sign, i + 1)) {
			o->failed++;
			return;
		}
		o->wrong += wrong_bytes(o->in, i, o->len);
		fill(o->out, i + 1, o->len);
		if (!answer(o) || !completed(&o->end.tx, &o->end.sent, o->sign, i + 1)) {
			o->failed++;
			return;
		}
		o->done++;
	}
}

XPU_KERNEL(xk_watch, struct xk_order_args)
{
	struct xk_order *o = args.order;

	for (uint64_t i = 0; i < o->rounds; i++) {
		if (!completed(&o->end.rx, &o->end.arrived, o->sign, i + 1)) {
			o->failed++;
			return;
		}
		o->wrong += wrong_bytes(o->in, i, o->len);
		__atomic_store_n(&o->done, i + 1, __ATOMIC_RELEASE);
	}
}

/* ---- kernels that behave badly ---- */

XPU_KERNEL(xk_endless, struct xk_bad_args)
{
	struct xk_bad *b = args.bad;
	struct fi_cq_data_entry entry;

	for (;;) {
		int ret = fi_xpu_write(&b->end.ep, (void *)(uintptr_t)b->buf, 64, &b->desc, 0,
				       &b->peer, b->addr, b->key, NULL, FI_COMPLETION,
				       FI_XPU_WORK_ITEM);

		if (ret == 0)
			count(&b->posted, 1);
		else
			give_way();
		fi_xpu_cq_read(&b->end.tx, &entry, 1, FI_XPU_WORK_ITEM);
	}
}

XPU_KERNEL(xk_until_error, struct xk_bad_args)
{
	struct xk_bad *b = args.bad;
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error;
	int64_t ret;

	do {
		ret = fi_xpu_write(&b->end.ep, (void *)(uintptr_t)b->buf, 64, &b->desc, 0, &b->peer,
				   b->addr, b->key, NULL, FI_COMPLETION, FI_XPU_WORK_ITEM);
		if (ret != 0)
			return;
		count(&b->posted, 1);
		ret = fi_xpu_cq_sread(&b->end.tx, &entry, 1, 1, FI_XPU_WORK_ITEM);
	} while (ret == 1);
	b->count = (uint64_t)fi_xpu_cq_readerr(&b->end.tx, &error, 0, FI_XPU_WORK_ITEM);
}

static struct hmreg_xpu_ep *block_of(const struct fid_xpu_ep *ep)
{
	return (struct hmreg_xpu_ep *)(uintptr_t)ep->fid.prov_ctx;
}

XPU_KERNEL(xk_take_no_place, struct xk_bad_args)
{
	struct hmreg_xpu_own *own =
		(struct hmreg_xpu_own *)(uintptr_t)block_of(&args.bad->end.ep)->own;

	__atomic_fetch_add(&own->next, 1, __ATOMIC_RELAXED);
	count(&args.bad->posted, 1);
	for (;;)
		give_way();
}

XPU_KERNEL(xk_stray, struct xk_bad_args)
{
	*(volatile uint8_t *)(uintptr_t)args.bad->pointer = 1;
	count(&args.bad->posted, 1);
}

static uint64_t random_word(struct xk_bad *b)
{
	b->random ^= b->random << 13;
	b->random ^= b->random >> 7;
	b->random ^= b->random << 17;
	return b->random;
}

/* What is right, or wrong in one of several ways. */
static uint64_t or_not(struct xk_bad *b, uint64_t right)
{
	switch (random_word(b) % 8) {
	case 0:
		return 0;
	case 1:
		return ~UINT64_C(0);
	case 2:
		return random_word(b) | UINT64_C(1) << 62; /* no processor's address */
	case 3:
		return right ^ UINT64_C(1) << random_word(b) % 64;
	default:
		return right;
	}
}

static void garbage_wr(struct xk_bad *b, struct hmreg_xpu_wr *wr)
{
	const struct hmreg_xpu_desc *desc = (const void *)b->desc.bytes;
	const struct hmreg_xpu_addr *peer = (const void *)b->peer.bytes;

	wr->op = (uint8_t)(random_word(b) % 16 ? 1 + random_word(b) % 7 : random_word(b));
	wr->datatype = (uint8_t)(random_word(b) % 2 ? FI_UINT64 : random_word(b));
	wr->atomic_op = (uint8_t)(random_word(b) % 2 ? FI_SUM : random_word(b));
	wr->flags = random_word(b) % 4 ? FI_COMPLETION : random_word(b);
	/* a buffer of the program's own, or one that is nobody's: the processor may be what moves it */
	wr->buf = random_word(b) % 2 ? b->buf : random_word(b) | UINT64_C(1) << 62;
	wr->result = random_word(b) % 2 ? b->buf : random_word(b) | UINT64_C(1) << 62;
	wr->compare = random_word(b) % 2 ? b->buf : random_word(b) | UINT64_C(1) << 62;
	wr->len = random_word(b) % 4 ? 1 : random_word(b) >> random_word(b) % 64;
	wr->desc = or_not(b, desc->region);
	wr->result_desc = or_not(b, desc->region);
	wr->compare_desc = or_not(b, desc->region);
	wr->data = random_word(b);
	wr->peer = or_not(b, peer->addr);
	wr->addr = or_not(b, b->addr);
	wr->key = or_not(b, b->key);
	wr->context = b->posted + 1;
}

XPU_KERNEL(xk_garbage, struct xk_bad_args)
{
	struct xk_bad *b = args.bad;
	struct hmreg_xpu_ep *ep = block_of(&b->end.ep);
	struct hmreg_xpu_own *own = (struct hmreg_xpu_own *)(uintptr_t)ep->own;
	struct hmreg_xpu_wr *ring = (struct hmreg_xpu_wr *)(uintptr_t)ep->ring;

	for (uint64_t i = 0; i < b->count; i++) {
		uint64_t number = own->next;
		struct hmreg_xpu_wr *wr = &ring[number & ep->mask];

		if (__atomic_load_n(&wr->seq, __ATOMIC_ACQUIRE) != number)
			return;
		own->next = number + 1;
		garbage_wr(b, wr);
		b->posted++;
		b->receives += wr->op == HMREG_XPU_RECV;
		__atomic_store_n(&wr->seq, number + 1, __ATOMIC_RELEASE);
	}
}

/* A part of exported memory: words of 8 bytes. */
struct part {
	uint64_t *word;
	uint64_t words;
};

static struct part part_of(uint64_t control, uint64_t slots)
{
	return (struct part){ (uint64_t *)(uintptr_t)control, 32 + slots * 16 };
}

static uint64_t scribble(struct xk_bad *b, const struct hmreg_xpu_ep *ep, uint64_t was)
{
	const struct hmreg_xpu_desc *desc = (const void *)b->desc.bytes;
	const uint64_t right[] = { desc->region, b->buf, b->addr, b->key, 1, FI_COMPLETION, 64 };

	switch (random_word(b) % 8) {
	case 0:
		return or_not(b, was);
	case 1:
		return random_word(b) >> random_word(b) % 64;
	case 2:
		return was + ep->mask + 1;
	case 3:
		return was - ep->mask - 1;
	case 4:
		return was - 1;
	case 5:
		return right[random_word(b) % (sizeof(right) / sizeof(right[0]))];
	default: /* what makes a slot the host's */
		return was + 1;
	}
}

XPU_KERNEL(xk_scribble, struct xk_bad_args)
{
	struct xk_bad *b = args.bad;
	const struct hmreg_xpu_ep ep = *block_of(&b->end.ep);
	const struct fid_xpu *fid[] = { &b->end.tx.fid, &b->end.rx.fid };
	struct part part[5] = { part_of(b->end.ep.fid.prov_ctx, ep.mask + 1),
				part_of(b->end.sent.fid.prov_ctx, 0),
				part_of(b->end.arrived.fid.prov_ctx, 0) };

	for (int i = 0; i < 2; i++) {
		const struct hmreg_xpu_cq *cq = (const void *)(uintptr_t)fid[i]->prov_ctx;

		part[3 + i] = part_of(fid[i]->prov_ctx, cq->mask + 1);
	}
	for (;;) {
		struct part *to = &part[random_word(b) % 5];
		uint64_t slot = random_word(b) % to->words;

		if (random_word(b) % 2) /* the slots' numbers more than the rest */
			slot -= slot % 16;
		to->word[slot] = scribble(b, &ep, to->word[slot]);
		count(&b->posted, 1);
	}
}
