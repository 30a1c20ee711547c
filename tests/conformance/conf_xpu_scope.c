/* SPDX-License-Identifier: BSD-2-Clause */
/* Many threads of a device: those of a scope make one call together, the others one each. fi_xpu(3) */
#include "tests/conformance/xpu.h"

#define THREADS 8u /* of a block: two subgroups */

/* How many calls the threads of a launch make together. */
static unsigned groups(int scope, unsigned blocks)
{
	switch (scope) {
	case FI_XPU_WORK_ITEM:
		return blocks * THREADS;
	case FI_XPU_SUBGROUP:
		return blocks * THREADS / CPU_DEVICE_SUBGROUP;
	case FI_XPU_WORK_GROUP:
		return blocks;
	default:
		return 1;
	}
}

static struct xk_scope *scope_of(struct xpu *x, int scope, uint32_t rounds)
{
	struct xk_scope *s = (void *)(x->memory + XPU_MEMORY / 2);
	const uint64_t one = 1;

	memset(s, 0, sizeof(*s));
	memset(x->dst, 0, 8);
	memcpy(x->src, &one, 8);
	s->end = x->a.exported;
	s->desc = x->script->name[XPU_DESC];
	s->peer = x->script->name[XPU_PEER];
	s->scope = scope;
	s->rounds = rounds;
	s->buf = (uintptr_t)x->src;
	s->addr = x->remote->addr;
	s->key = x->key;
	return s;
}

/* As many requests as groups have made calls, by the peer's memory and by completions. */
static void one_request_per_call(struct conf *c, int scope, unsigned blocks)
{
	const uint32_t rounds = 10;
	uint64_t want = (uint64_t)groups(scope, blocks) * rounds;
	struct xk_scope_args args;
	struct xk_scope *s;
	struct xpu x;

	conf_need_caps(c, FI_ATOMIC);
	xpu_begin(c, NULL, 64, &x);
	s = scope_of(&x, scope, rounds);
	args.scope = xpu_on_device(&x, s);
	xpu_launch(&x, xk_post_scope, &args, sizeof(args), blocks, THREADS);
	assert_int_equal(s->failed, 0);
	assert_int_equal(s->differed, 0);
	assert_int_equal(s->posted, want);
	xpu_launch(&x, xk_read_scope, &args, sizeof(args), blocks, THREADS);
	assert_int_equal(s->failed, 0);
	assert_int_equal(s->differed, 0);
	assert_int_equal(s->taken, want);
	conf_arrives(x.dst, &want, 8);
	xpu_quiet(&x, XK_TX);
	xpu_end(&x);
}

static void xpu_09_thread(struct conf *c)
{
	one_request_per_call(c, FI_XPU_WORK_ITEM, 4);
}

static void xpu_09_subgroup(struct conf *c)
{
	one_request_per_call(c, FI_XPU_SUBGROUP, 4);
}

static void xpu_09_work_group(struct conf *c)
{
	one_request_per_call(c, FI_XPU_WORK_GROUP, 4);
}

static void xpu_09_device(struct conf *c)
{
	one_request_per_call(c, FI_XPU_DEVICE, 4);
}

static void xpu_09_one_block_is_the_device(struct conf *c)
{
	one_request_per_call(c, FI_XPU_DEVICE, 1);
}

/* ---- XPU-08, XPU-10: thousands of requests from as many threads as there may be ---- */

struct crowd {
	unsigned ends, blocks, threads;
	uint32_t each; /* requests of a thread */
	size_t cq_size;
};

/* Every target has what its thread added, and every request has completed once. */
static void check_flood(const struct xpu *x, const struct xk_flood *f, const struct crowd *crowd)
{
	unsigned posters = (crowd->blocks - 1) * crowd->threads;
	uint64_t want = crowd->each;

	if (f->failed)
		fail_msg("%lu of %lu failed, one of them: %s, cause %d", (unsigned long)f->failed,
			 (unsigned long)f->expected, fi_strerror((int)f->error), (int)f->cause);
	assert_int_equal(f->strange, 0);
	assert_int_equal(f->posted, f->expected);
	assert_int_equal(f->taken, f->expected);
	for (uint64_t i = 1; i <= f->expected; i++)
		assert_int_equal(f->seen[i], 1);
	for (unsigned i = 0; i < posters; i++)
		conf_arrives(x->dst + 8 * i, &want, 8);
}

static void flood_with(struct conf *c, const struct crowd *crowd)
{
	struct conf_opts opts = { .tx_cq_size = crowd->cq_size };
	unsigned posters = (crowd->blocks - 1) * crowd->threads;
	const uint64_t one = 1;
	struct xk_flood_args args;
	struct xpu_end *end;
	struct xk_flood *f;
	struct xpu x;

	conf_need_caps(c, FI_ATOMIC);
	xpu_begin(c, &opts, 8 * (size_t)posters, &x);
	for (unsigned i = 0; i < posters; i++)
		memcpy(x.src + 8 * i, &one, 8);
	f = (void *)(x.memory + XPU_MEMORY / 2);
	*f = (struct xk_flood){ .ends = crowd->ends,
				.count = crowd->each,
				.expected = (uint64_t)posters * crowd->each,
				.desc = x.script->name[XPU_DESC],
				.buf = (uintptr_t)x.src,
				.addr = x.remote->addr,
				.key = x.key };
	assert_true(sizeof(*f) + f->expected < XPU_MEMORY / 2);
	end = calloc(crowd->ends, sizeof(*end));
	assert_non_null(end);
	for (unsigned i = 0; i < crowd->ends; i++) {
		end[i] = x.a;
		if (i > 0)
			xpu_open(&x, &opts, &end[i]);
		f->end[i] = end[i].exported;
		xpu_name(&x, &end[i], i ? conf_addr(end[i].end, x.b) : x.to, &f->peer[i]);
	}
	free(end);
	args.flood = xpu_on_device(&x, f);
	xpu_launch(&x, xk_flood, &args, sizeof(args), crowd->blocks, crowd->threads);
	check_flood(&x, f, crowd);
	print_message("%lu requests of %u threads over %u endpoints, %lu times no room\n",
		      (unsigned long)f->posted, posters, crowd->ends, (unsigned long)f->refused);
	xpu_works(&x);
	xpu_end(&x);
}

/* On a slow machine so many threads that wait would keep the host from its own work, as from connecting. */
static void flood(struct conf *c, struct crowd crowd)
{
	if (conf_brief())
		crowd.threads /= 8;
	flood_with(c, &crowd);
}

static void xpu_10_many_threads_one_endpoint(struct conf *c)
{
	flood(c, (struct crowd){ .ends = 1, .blocks = 5, .threads = 64, .each = 20 });
}

static void xpu_10_many_threads_many_endpoints(struct conf *c)
{
	flood(c, (struct crowd){ .ends = 16, .blocks = 5, .threads = 64, .each = 20 });
}

static void xpu_10_many_threads_little_room(struct conf *c)
{
	flood(c, (struct crowd){ .ends = 2, .blocks = 3, .threads = 32, .each = 40, .cq_size = 4 });
}

static void xpu_10_a_thousand_threads(struct conf *c)
{
	flood(c, (struct crowd){ .ends = 64, .blocks = 9, .threads = 128, .each = 10 });
}

static const struct conf_case cases[] = {
	CONF(xpu_09_thread),
	CONF(xpu_09_subgroup),
	CONF(xpu_09_work_group),
	CONF(xpu_09_device),
	CONF(xpu_09_one_block_is_the_device),
	CONF(xpu_10_many_threads_one_endpoint),
	CONF(xpu_10_many_threads_many_endpoints),
	CONF(xpu_10_many_threads_little_room),
	CONF(xpu_10_a_thousand_threads),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
