/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accelerator memory without a descriptor: registered once and kept, never used for other memory at its
 * address.  HMREG_TEST_HMEM names the interface, whose driver may be emulated or real; with its
 * FI_MR_..._CACHE_MONITOR_ENABLED=0 nothing of it is kept.
 */
#include <dlfcn.h>

#include "tests/drivers/emu_verbs.h"
#include "tests/fds.h"
#include "tests/hmem/by_name.h"

#define UNIT  ((size_t)65536)
#define LARGE (UNIT / 2) /* is copied into no frame */

static const struct maker *maker;

/* a reaches memory of b's host from a device's, or into it, without a descriptor of its own. */
struct scene {
	struct conf_end *a, *b;
	fi_addr_t to;
	uint8_t *target, *bytes;
	struct conf_region *remote;
	uint64_t key;
};

static void open_scene(struct conf *c, struct scene *s)
{
	struct conf_opts opts = { .caps = CONF_CAPS | FI_HMEM };

	conf_need_caps(c, FI_HMEM);
	conf_pair(c, &opts, &s->a, &s->b);
	s->to = conf_addr(s->a, s->b);
	s->target = conf_alloc(c, UNIT);
	s->bytes = conf_alloc(c, UNIT);
	s->remote = conf_reg(s->b, s->target, UNIT, CONF_ALL);
	s->key = conf_key(s->a, s->remote);
}

/* Is its memory kept at all, as far as its kind allows? */
static bool is_kept(void)
{
	const char *names[HMREG_CACHE_IFACES] = {
		[FI_HMEM_CUDA] = "FI_MR_CUDA_CACHE_MONITOR_ENABLED",
		[FI_HMEM_ROCR] = "FI_MR_ROCR_CACHE_MONITOR_ENABLED",
		[FI_HMEM_ZE] = "FI_MR_ZE_CACHE_MONITOR_ENABLED",
	};

	return names[maker->iface] && !getenv(names[maker->iface]);
}

static void need_kept(struct conf *c)
{
	if (!is_kept())
		conf_skip(c, "nothing of this interface is kept");
}

static void need_hooks(struct conf *c)
{
	if (!maker->hooks())
		conf_skip(c, "only an emulated driver can be made to do this");
}

static struct hmreg_cache_stats stats_of(const struct conf_end *end)
{
	struct hmreg_cache_stats stats = { .size = sizeof(stats) };

	assert_int_equal(end->ops->cache(&end->domain->fid, &stats), 0);
	return stats;
}

static struct hmreg_cache_figures figures_of(const struct conf_end *end)
{
	return stats_of(end).iface[maker->iface];
}

static void (*verbs_counts)(struct emu_verbs_counts *);

/* Before anything is kept: a library that comes or goes may end registrations. */
static void find_device(void)
{
	void *verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (verbs && !verbs_counts)
		*(void **)&verbs_counts = dlsym(verbs, "emu_verbs_counts");
	if (verbs)
		dlclose(verbs); /* the library under test holds it */
}

/* Regions that an emulated RDMA device has; 0: there is none. */
static uint64_t device_regions(void)
{
	struct emu_verbs_counts counts = { .mrs = 0 };

	if (verbs_counts)
		verbs_counts(&counts);
	return counts.mrs;
}

/* ---- transfers ---- */

static void complete(struct conf *c, struct scene *s, ssize_t posted)
{
	conf_check_code(posted, 0, "a transfer without a descriptor", __FILE__, __LINE__);
	conf_done(s->a->tx, c);
	hmem_expect_unkept("a transfer");
}

/* Other bytes each time, which the target has afterwards. */
static void writes(struct conf *c, struct scene *s, const struct made *made, size_t offset,
		   size_t len)
{
	conf_fill(c, s->bytes, len);
	assert_int_equal(maker->write(made, offset, s->bytes, len), 0);
	memset(s->target, 0, UNIT);
	conf_log_mark(__FILE__, __LINE__);
	complete(c, s,
		 fi_write(s->a->ep, (char *)made->addr + offset, len, NULL, s->to, s->remote->addr,
			  s->key, c));
	assert_memory_equal(s->target, s->bytes, len);
}

/* And back: what is read is what the driver finds. */
static void reads(struct conf *c, struct scene *s, const struct made *made, size_t offset,
		  size_t len)
{
	conf_fill(c, s->target, len);
	memset(s->bytes, 0, len);
	conf_log_mark(__FILE__, __LINE__);
	complete(c, s,
		 fi_read(s->a->ep, (char *)made->addr + offset, len, NULL, s->to, s->remote->addr,
			 s->key, c));
	assert_int_equal(maker->read(made, offset, s->bytes, len), 0);
	assert_memory_equal(s->bytes, s->target, len);
}

/* ---- kept ---- */

/* The driver is asked whose the memory is, and a NIC that reaches it by itself asks nothing more. */
static void mode_09_the_second_makes_nothing(struct conf *c)
{
	unsigned long most = maker->iface == FI_HMEM_ZE ? 3 : 1, calls;
	struct hmreg_cache_figures first, second;
	struct scene s;
	struct made made;
	uint64_t regions;
	size_t fds;

	need_kept(c);
	open_scene(c, &s);
	find_device();
	made = hmem_make(c, maker, MAKE_DEVICE, 0, 2 * UNIT);
	reads(c, &s, &made, 0, UNIT);
	first = figures_of(s.a);
	regions = device_regions();
	fds = test_fds();
	assert_int_equal(first.entries, 1);
	for (size_t i = 0; i < 10; i++) {
		conf_fill(c, s.bytes, UNIT);
		assert_int_equal(maker->write(&made, 0, s.bytes, UNIT), 0);
		if (maker->hooks())
			maker->hooks()->reset();
		assert_posted(fi_write(s.a->ep, (char *)made.addr + 100 * i, LARGE, NULL, s.to,
				       s.remote->addr, s.key, c));
		calls = maker->hooks() ? maker->hooks()->calls("*") : 0;
		conf_done(s.a->tx, c);
		assert_memory_equal(s.target, s.bytes + 100 * i, LARGE);
		if (!c->profile->at_once) /* the software NIC copies by the driver */
			assert_in_range(calls, 0, most);
	}
	second = figures_of(s.a);
	assert_int_equal(second.misses, first.misses);
	assert_int_equal(second.hits, first.hits + 10);
	assert_int_equal(second.entries, 1);
	assert_int_equal(device_regions(), regions);
	assert_int_equal(test_fds(), fds);
	maker->drop(&made);
}

/* A range over the border of two allocations is one registration; each of them alone is another. */
static void fn_08_cache_pieces(struct conf *c)
{
	struct hmreg_cache_figures figures;
	struct scene s;
	struct made made;
	size_t half;

	need_kept(c);
	open_scene(c, &s);
	made = hmem_make(c, maker, MAKE_VMM, 0, 2 * UNIT);
	half = made.len / 2;
	for (int i = 0; i < 3; i++) {
		writes(c, &s, &made, half - 1000, LARGE);
		writes(c, &s, &made, 0, LARGE);
		reads(c, &s, &made, half, LARGE);
	}
	figures = figures_of(s.a);
	if (maker->remap) { /* then its interface tells pieces apart */
		assert_true(figures.entries >= 3 && figures.hits >= 4);
		assert_int_equal(maker->remap(&made), 0);
	} else {
		assert_int_equal(figures.entries, 0);
	}
	writes(c, &s, &made, half - 1000, LARGE);
	reads(c, &s, &made, half - 1000, LARGE);
	writes(c, &s, &made, 0, LARGE);
	writes(c, &s, &made, half, LARGE);
	maker->drop(&made);
}

/* ---- other memory at the address ---- */

/* Can transfers on this NIC use such memory? */
static bool can_use(const struct conf *c, enum make kind, size_t at)
{
	int device = maker->device(at % maker->devices());

	if (maker->cannot(kind, device))
		return false;
	return c->profile->at_once || kind == MAKE_DEVICE || kind == MAKE_VMM ||
	       kind == MAKE_HOST || kind == MAKE_VMM_HOST;
}

static void fn_29_cache_02_the_address_comes_again(struct conf *c)
{
	static const enum make kinds[] = { MAKE_DEVICE,	  MAKE_DEVICE, MAKE_HOST, MAKE_DEVICE,
					   MAKE_MANAGED,  MAKE_DEVICE, MAKE_VMM,  MAKE_DEVICE,
					   MAKE_VMM_HOST, MAKE_DEVICE, MAKE_POOL, MAKE_DEVICE };
	unsigned int again = 0;
	struct scene s;

	open_scene(c, &s);
	if (maker->hooks())
		maker->hooks()->reuse(true);
	for (size_t at = 0; at < 2; at++) {
		const void *before = NULL;

		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			struct made made = { .kind = kinds[i] };
			const void *addr;

			if (!can_use(c, kinds[i], at + i))
				continue;
			made.device = maker->device((at + i) % maker->devices());
			assert_int_equal(maker->make(kinds[i], made.device, i % 3 ? 2 * UNIT : UNIT,
						     &made),
					 0);
			addr = made.addr;
			again += addr == before;
			writes(c, &s, &made, 0, LARGE);
			/* a driver that does not tell where it begins exports nothing else */
			reads(c, &s, &made, is_kept() ? 64 : 0, LARGE);
			writes(c, &s, &made, is_kept() ? 4096 : 0, LARGE);
			maker->drop(&made);
			before = addr;
		}
	}
	if (maker->hooks())
		maker->hooks()->reuse(false);
	printf("%s: an address came again %u times\n", c->profile->label, again);
	if (maker->hooks())
		assert_true(again >= 2);
}

/* The same device, length and address, over and over: the least that tells one from the other. */
static void fn_29_cache_02_nothing_else_changes(struct conf *c)
{
	const void *before = NULL;
	unsigned int again = 0;
	struct scene s;

	open_scene(c, &s);
	if (maker->hooks())
		maker->hooks()->reuse(true);
	for (int i = 0; i < 20; i++) {
		struct made made = hmem_make(c, maker, MAKE_DEVICE, 0, 2 * UNIT);
		const void *addr = made.addr;

		again += addr == before;
		writes(c, &s, &made, 0, UNIT);
		reads(c, &s, &made, 0, UNIT);
		maker->drop(&made);
		before = addr;
	}
	if (maker->hooks()) {
		maker->hooks()->reuse(false);
		assert_int_equal(again, 19);
	}
	if (is_kept())
		assert_true(figures_of(s.a).misses >= 20);
}

/* Where the driver tells of memory that is freed, its registration ends then. */
static void cache_02_freed_memory_ends_its_registration(struct conf *c)
{
	struct hmreg_cache_figures before, after;
	struct scene s;
	struct made made, other;

	need_kept(c);
	if (maker->iface != FI_HMEM_ROCR)
		conf_skip(c, "the driver does not tell of memory that is freed");
	open_scene(c, &s);
	made = hmem_make(c, maker, MAKE_DEVICE, 0, 2 * UNIT);
	other = hmem_make(c, maker, MAKE_DEVICE, 1, 2 * UNIT);
	writes(c, &s, &made, 0, UNIT);
	writes(c, &s, &other, 0, UNIT);
	if (strncmp(stats_of(s.a).monitor, "none", 4) == 0) {
		maker->drop(&made);
		maker->drop(&other);
		conf_skip(c, "without a monitor of host memory nothing is told to caches");
	}
	before = figures_of(s.a);
	maker->drop(&made);
	after = figures_of(s.a);
	assert_int_equal(after.invalidations, before.invalidations + 1);
	writes(c, &s, &other, 0, UNIT);
	assert_int_equal(figures_of(s.a).misses, after.misses);
	maker->drop(&other);
}

/* ---- not kept ---- */

static void fn_32_cache_01_not_kept(struct conf *c)
{
	struct hmreg_cache_figures figures;
	struct scene s;
	struct made made;

	if (is_kept())
		conf_skip(c, "this interface is kept");
	open_scene(c, &s);
	made = hmem_make(c, maker, MAKE_DEVICE, 0, 2 * UNIT);
	for (int i = 0; i < 5; i++) {
		writes(c, &s, &made, 0, UNIT);
		reads(c, &s, &made, 0, UNIT);
	}
	figures = figures_of(s.a);
	assert_int_equal(figures.entries, 0);
	assert_int_equal(figures.hits, 0);
	assert_int_equal(figures.bytes, 0);
	maker->drop(&made);
}

/* The driver does not answer once: that operation is as if there was no cache, with the driver's line. */
static void fn_32_the_driver_does_not_answer(struct conf *c)
{
	static const struct {
		enum fi_hmem_iface iface;
		const char *call;
		int code;
	} asked[] = {
		{ FI_HMEM_CUDA, "cuPointerGetAttributes", 999 },
		{ FI_HMEM_ROCR, "hsa_amd_pointer_info", 0x1000 },
		{ FI_HMEM_ZE, "zeMemGetAllocProperties", 0x7ffffffe },
	};
	struct hmreg_cache_figures before;
	struct scene s;
	struct made made;
	size_t i = 0;

	need_kept(c);
	need_hooks(c);
	open_scene(c, &s);
	made = hmem_make(c, maker, MAKE_DEVICE, 0, 2 * UNIT);
	while (asked[i].iface != maker->iface)
		i++;
	writes(c, &s, &made, 0, UNIT);
	conf_fill(c, s.bytes, UNIT);
	assert_int_equal(maker->write(&made, 0, s.bytes, UNIT), 0);
	before = figures_of(s.a);
	conf_log_mark(__FILE__, __LINE__);
	(maker->hooks()->fail)(asked[i].call, 1, asked[i].code);
	assert_int_equal(fi_write(s.a->ep, made.addr, UNIT, NULL, s.to, s.remote->addr, s.key, c),
			 0);
	conf_done(s.a->tx, c);
	conf_log_expect(1, asked[i].call, "a driver that fails", __FILE__, __LINE__);
	(maker->hooks()->fail)(asked[i].call, 0, 0); /* of Level Zero's there are two */
	assert_memory_equal(s.target, s.bytes, UNIT);
	assert_int_equal(figures_of(s.a).hits, before.hits);
	assert_int_equal(figures_of(s.a).entries, before.entries);
	writes(c, &s, &made, 0, UNIT);
	assert_int_equal(figures_of(s.a).hits, before.hits + 1);
	maker->drop(&made);
}

#define CASE(fn) CONF_WITHOUT(fn, FI_MR_HMEM | FI_MR_LOCAL)
static const struct conf_case cases[] = {
	CASE(mode_09_the_second_makes_nothing),
	CASE(fn_08_cache_pieces),
	CASE(fn_29_cache_02_the_address_comes_again),
	CASE(fn_29_cache_02_nothing_else_changes),
	CASE(cache_02_freed_memory_ends_its_registration),
	CASE(fn_32_cache_01_not_kept),
	CASE(fn_32_the_driver_does_not_answer),
};

int main(int argc, char **argv)
{
	return hmem_main(argc, argv, &maker, cases, count_of(cases));
}
