/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every flag and every pair of flags, of all 64 bits, on every kind of memory, under every mr_mode and
 * capability that the port agrees to.  What each must give is said by a table of rules, kept apart from
 * the library's checks.  A refusal has one log line and changes nothing; an accepted region works.
 *
 * A port that agrees to any mr_mode is asked for every one of them, with all capabilities and with the flags
 * alone that have a meaning, and some that have none: the rest is the same for each.
 */
#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/harness.h"
#include "tests/fds.h"

#define LENGTH	   64
#define MODES	   11
#define BUFFERS	   3 /* of a scene */
#define MODELS	   2 /* FI_MR_BASIC, FI_MR_SCALABLE */
#define WORLDS	   ((1u << MODES) + MODELS)
#define FEW_MODES  5 /* that a port may do with or without, and is still asked everything */
#define SOME	   7 /* one of so many */
#define HMEM_FLAGS (FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC | FI_MR_DMABUF)
#define KNOWN_FLAGS                                                                                \
	(HMEM_FLAGS | FI_RMA_EVENT | FI_MR_SINGLE_USE | HMREG_MR_RELAXED_ORDERING | HMREG_MR_CACHE)

static void *const NOTHING = (void *)(uintptr_t)0x5a5a5a;

enum memory {
	HOST,	  /* a buffer */
	PART,	  /* of a region: base_mr is given */
	FILE_OF,  /* what the NIC takes for a dma-buf */
	FILE_PART /* both at once */
};

/* What fi_getinfo agreed to, and one way to ask for it. */
struct world {
	int offered, mode;
	uint64_t caps;
};

struct scene {
	struct conf_link l;
	const struct world *world;
	struct conf_region *base;
	struct fid_cntr *cntr;
	uint8_t *room;	   /* of base; what is registered lies in the middle */
	uint8_t *file_map; /* the file's bytes */
	int fd;
	size_t fds;
	uint64_t counted;
};

/* ---- rules: the first that applies says what the call gives ---- */

struct question {
	const struct conf *c;
	const struct world *world;
	enum memory memory;
	uint64_t flags;
};

static bool is_file(const struct question *q)
{
	return q->memory == FILE_OF || q->memory == FILE_PART;
}

static bool hmem_flag_without_hmem(const struct question *q)
{
	return (q->flags & HMEM_FLAGS) && !(q->world->caps & FI_HMEM);
}

static bool device_and_host(const struct question *q)
{
	return (q->flags & FI_HMEM_DEVICE_ONLY) && (q->flags & FI_HMEM_HOST_ALLOC);
}

/* No NIC here keeps what is written through a power failure; no domain here has FI_AV_AUTH_KEY. */
static bool flag_not_offered(const struct question *q)
{
	return q->flags & ~KNOWN_FLAGS;
}

static bool event_without_capability(const struct question *q)
{
	return (q->flags & FI_RMA_EVENT) && !(q->world->caps & FI_RMA_EVENT);
}

static bool not_what_the_flag_says(const struct question *q)
{
	return is_file(q) != !!(q->flags & FI_MR_DMABUF);
}

static bool file_of_a_base(const struct question *q)
{
	return q->memory == FILE_PART;
}

static bool host_memory_of_a_device(const struct question *q)
{
	return (q->flags & FI_HMEM_DEVICE_ONLY) && !is_file(q);
}

/* Hardware cannot end a key after one use. */
static bool one_use_of_hardware(const struct question *q)
{
	return (q->flags & FI_MR_SINGLE_USE) && !q->c->profile->exact;
}

/* What several share has nothing of its own: neither a key of the program's choice, nor what one asked for. */
static bool shared_with_its_own(const struct question *q)
{
	int mode = q->world->mode;
	bool chosen = mode != FI_MR_BASIC && !(mode & FI_MR_PROV_KEY);

	return (q->flags & HMREG_MR_CACHE) && ((q->flags & (FI_RMA_EVENT | FI_MR_SINGLE_USE)) ||
					       chosen || (mode & (FI_MR_RAW | FI_MR_ENDPOINT)));
}

static bool shared_part(const struct question *q)
{
	return (q->flags & HMREG_MR_CACHE) && (q->memory == PART || q->memory == FILE_PART);
}

static const struct rule {
	bool (*applies)(const struct question *q);
	int code;
} rules[] = {
	{ hmem_flag_without_hmem, -FI_EBADFLAGS },
	{ device_and_host, -FI_EINVAL },
	{ flag_not_offered, -FI_EBADFLAGS },
	{ event_without_capability, -FI_EBADFLAGS },
	{ one_use_of_hardware, -FI_EBADFLAGS },
	{ shared_with_its_own, -FI_EBADFLAGS },
	{ shared_part, -FI_EINVAL },
	{ not_what_the_flag_says, -FI_EINVAL },
	{ file_of_a_base, -FI_EINVAL },
	{ host_memory_of_a_device, -FI_EINVAL },
};

static int expected(const struct question *q)
{
	for (size_t i = 0; i < count_of(rules); i++)
		if (rules[i].applies(q))
			return rules[i].code;
	return 0;
}

/* ---- worlds ---- */

static const int mode_bits[MODES] = { FI_MR_LOCAL,	FI_MR_RAW,	FI_MR_VIRT_ADDR,
				      FI_MR_ALLOCATED,	FI_MR_PROV_KEY, FI_MR_MMU_NOTIFY,
				      FI_MR_RMA_EVENT,	FI_MR_ENDPOINT, FI_MR_HMEM,
				      FI_MR_COLLECTIVE, FI_MR_XPU_DESC };
static const int models[MODELS] = { FI_MR_BASIC, FI_MR_SCALABLE };

static int nth_mode(unsigned int n)
{
	int mode = 0;

	if (n >= 1u << MODES)
		return models[n - (1u << MODES)];
	for (unsigned int i = 0; i < MODES; i++)
		if (n & 1u << i)
			mode |= mode_bits[i];
	return mode;
}

/* Is the port one of many mr_modes? */
static bool has_many(const struct conf *c)
{
	return __builtin_popcount((unsigned int)c->profile->kept) > FEW_MODES;
}

/* Neither software nor emulated: it takes real dma-bufs alone, and its time for each region. */
static bool is_real(const struct conf *c)
{
	return !c->profile->exact && !getenv("HMREG_EMU_VERBS");
}

static struct world worlds[WORLDS];

/* All that differ in what is agreed.  To offer nothing is left to FI_MR_SCALABLE, which says the same. */
static size_t find_worlds(const struct conf *c)
{
	static const uint64_t caps[] = { FI_HMEM | FI_RMA_EVENT, FI_HMEM, FI_RMA_EVENT, 0 };
	size_t sets = has_many(c) ? 1 : count_of(caps);
	static const struct conf_profile *profile; /* that was asked last */
	static size_t count;

	if (profile == c->profile)
		return count;
	count = 0;
	for (size_t k = 0; k < sets; k++) {
		for (unsigned int n = (1u << MODES) + MODELS; n-- > 0;) {
			struct world world = { .offered = nth_mode(n), .caps = caps[k] };
			size_t i = 0;

			if (!world.offered ||
			    conf_agree(c, world.caps, world.offered, &world.mode) != 0)
				continue;
			while (i < count &&
			       (worlds[i].mode != world.mode || worlds[i].caps != world.caps))
				i++;
			if (i < count)
				continue;
			assert_true(count < WORLDS);
			worlds[count++] = world;
		}
	}
	assert_true(count > 0);
	profile = c->profile;
	return count;
}

static void open_scene(struct conf *c, const struct world *world, bool with_file, struct scene *s)
{
	struct conf_opts opts = { .mode = world->offered, .caps = CONF_CAPS | world->caps };

	*s = (struct scene){ .world = world, .fd = -1 };
	conf_link(c, &opts, LENGTH, &s->l);
	s->room = conf_alloc(c, 4 * LENGTH);
	s->base = conf_reg(s->l.b, s->room, 4 * LENGTH, CONF_ALL);
	if (world->caps & FI_RMA_EVENT)
		assert_ok(fi_cntr_open(s->l.b->domain,
				       &(struct fi_cntr_attr){ .events = FI_CNTR_EVENTS_COMP },
				       &s->cntr, NULL));
	if (with_file) {
		size_t page = (size_t)sysconf(_SC_PAGESIZE);

		s->fd = memfd_create("dma-buf", MFD_CLOEXEC);
		assert_int_equal(ftruncate(s->fd, (off_t)page), 0);
		s->file_map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
		assert_ptr_not_equal(s->file_map, MAP_FAILED);
	}
	s->fds = test_fds();
}

static void close_scene(struct scene *s)
{
	struct conf *c = s->l.a->conf;

	conf_drop_region(s->base);
	conf_drop_region(s->l.remote);
	conf_drop_region(s->l.local);
	if (s->cntr)
		assert_ok(fi_close(&s->cntr->fid));
	conf_drop_end(s->l.b);
	conf_drop_end(s->l.a);
	for (int i = 0; i < BUFFERS; i++)
		conf_drop_buffer(c);
	if (s->fd < 0)
		return;
	munmap(s->file_map, (size_t)sysconf(_SC_PAGESIZE));
	close(s->fd);
}

/* ---- one registration ---- */

/*
 * fi_mr_attr has one place for both.  What is an iovec reads as a dma-buf of length 0, and the other way
 * round, so that neither can be taken for the other.
 */
union place {
	struct iovec iov[2];
	struct fi_mr_dmabuf dmabuf;
};
static_assert(offsetof(struct fi_mr_dmabuf, len) == sizeof(struct iovec), "iov[1] is its length");

static int reg(struct scene *s, enum memory memory, uint64_t flags, struct fid_mr **mr)
{
	bool file = memory == FILE_OF || memory == FILE_PART;
	union place place = { .iov = { { s->room + LENGTH, LENGTH }, { NULL, 0 } } };
	struct fi_mr_attr attr = { .iov_count = 1, .access = CONF_ALL, .requested_key = 1000 };

	if (file)
		place.dmabuf = (struct fi_mr_dmabuf){ .fd = s->fd, .len = LENGTH };
	if (file)
		attr.dmabuf = &place.dmabuf;
	else
		attr.mr_iov = place.iov;
	if (memory == PART || memory == FILE_PART)
		attr.base_mr = s->base->mr;
	return fi_mr_regattr(s->l.b->domain, &attr, flags, mr);
}

/* A peer's write arrives, and the counter counts it.  Once is all that a single use allows. */
static void check_region(struct scene *s, enum memory memory, uint64_t flags, struct fid_mr *mr)
{
	struct conf_link *l = &s->l;
	struct conf_end *b = l->b;
	const uint8_t *first = memory == FILE_OF ? s->file_map : s->room + LENGTH;
	struct conf_region region = { .end = b, .mr = mr };
	bool counts = flags & FI_RMA_EVENT;
	uint64_t key;

	if (b->mode & FI_MR_VIRT_ADDR)
		region.addr = memory == FILE_OF ? 0 : (uintptr_t)first;
	if (!(flags & HMREG_MR_CACHE)) /* which is bound to nothing, and not refreshed */
		conf_ready(b, mr, counts ? s->cntr : NULL);
	key = conf_key(l->a, &region);
	conf_fill(b->conf, l->src, 8);
	assert_ok(fi_write(l->a->ep, l->src, 8, l->local->desc, l->to, region.addr, key, s));
	conf_done(l->a->tx, s);
	conf_arrives(first, l->src, 8);
	if (counts)
		assert_int_equal(fi_cntr_read(s->cntr), ++s->counted);
	if (region.maps)
		assert_ok(fi_mr_unmap_key(l->a->domain, key));
	assert_ok(fi_close(&mr->fid));
}

static void fail_at(const struct question *q, const char *what, long have, long want)
{
	uint64_t mode = (uint64_t)q->world->mode;

	print_error(
		"flags 0x%llx, memory %d, mr_mode 0x%llx, caps 0x%llx: %s %ld, expected %ld\n%s\n",
		(unsigned long long)q->flags, q->memory, (unsigned long long)mode,
		(unsigned long long)q->world->caps, what, have, want, conf_log_text());
	fail();
}

static void try_flags(struct scene *s, const struct question *q)
{
	struct hmreg_domain_stats was = conf_stats(s->l.b), is;
	int want = expected(q), have;
	struct fid_mr *mr = NOTHING;

	conf_log_mark(__FILE__, __LINE__);
	have = reg(s, q->memory, q->flags, &mr);
	if (have != want)
		fail_at(q, "code", have, want);
	conf_log_expect(have ? 1 : 0, NULL, "fi_mr_regattr", __FILE__, __LINE__);
	if (have && mr != NOTHING)
		fail_at(q, "an output was written", have, want);
	if (!have)
		check_region(s, q->memory, q->flags, mr);
	if (!have &&
	    (q->flags & HMREG_MR_CACHE)) /* the monitor and kept files have some of their own */
		s->fds = test_fds();
	is = conf_stats(s->l.b);
	if (memcmp(&is, &was, sizeof(is)) != 0)
		fail_at(q, "regions", (long)is.regions, (long)was.regions);
}

/* ---- the table ---- */

/* The bits that pairs are made of. */
static size_t find_flags(const struct conf *c, uint64_t flags[64])
{
	const uint64_t few = KNOWN_FLAGS | FI_AUTH_KEY | UINT64_C(1) << 63;
	bool all = !has_many(c) && !is_real(c) && !conf_brief();
	size_t count = 0;

	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t flag = UINT64_C(1) << bit;

		if (all || (flag & few))
			flags[count++] = flag;
	}
	return count;
}

/* Descriptors and neighbours: not after each flag, since what is wrong then stays wrong. */
static void check_scene(struct scene *s)
{
	assert_int_equal(test_fds(), s->fds);
	conf_works(&s->l);
}

/* Pairs of a bit and itself are the flags alone. */
static void try_pairs(struct scene *s, struct question *q)
{
	uint64_t flags[64];
	size_t count = find_flags(q->c, flags);

	q->flags = 0;
	try_flags(s, q);
	for (size_t one = 0; one < count; one++) {
		for (size_t other = one; other < count; other++) {
			q->flags = flags[one] | flags[other];
			try_flags(s, q);
		}
		if (!has_many(q->c))
			check_scene(s);
	}
	check_scene(s);
}

/* Of many worlds, memory that is more than a buffer sees some. */
static void all_pairs(struct conf *c, enum memory memory)
{
	struct question q = { .c = c, .memory = memory };
	size_t count = find_worlds(c), step = has_many(c) && memory != HOST ? SOME : 1;
	struct scene s;

	for (size_t i = 0; i < count; i += step) {
		q.world = &worlds[i];
		open_scene(c, &worlds[i], is_file(&q), &s);
		try_pairs(&s, &q);
		close_scene(&s);
	}
}

static void api_05_flag_03_flag_04_flag_06_pairs_on_host(struct conf *c)
{
	all_pairs(c, HOST);
}

static void api_05_flag_05_sub_02_pairs_on_a_part(struct conf *c)
{
	all_pairs(c, PART);
}

static void api_05_flag_05_attr_08_pairs_on_a_file(struct conf *c)
{
	if (is_real(c))
		conf_skip(c, "the kernel takes no file for a dma-buf");
	all_pairs(c, FILE_OF);
}

static void api_05_flag_05_pairs_on_a_file_with_a_base(struct conf *c)
{
	all_pairs(c, FILE_PART);
}

static const struct conf_case cases[] = {
	CONF(api_05_flag_03_flag_04_flag_06_pairs_on_host),
	CONF(api_05_flag_05_sub_02_pairs_on_a_part),
	CONF(api_05_flag_05_attr_08_pairs_on_a_file),
	CONF(api_05_flag_05_pairs_on_a_file_with_a_base),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
