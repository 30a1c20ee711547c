/* SPDX-License-Identifier: BSD-2-Clause */
/* Registrations that note what is behind their pages, and what is told by comparing. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/mr/monitor.h"
#include "tests/stress/fresh.h"

#define REGIONS	   4096u
#define NOTES	   (FRESH_MAX_PAGES + 2) /* of a range that is not whole pages, too */
#define PRESENT	   (UINT64_C(1) << 63)
#define PAGE_BITS  ((UINT64_C(1) << 55) - 1)
#define TAG_OFFSET (FRESH_PAGE - 2 * sizeof(uint64_t))
#define TAG_MARK   UINT64_C(0x7a67f3e5b1d90c2b)
#define PIN_TRIES  8

/* A registration; its number is that of its io_uring buffer. */
struct region {
	uint64_t begin, end;
	_Atomic uint32_t
		used;	 /* odd: it is registered; so a later one of the same number is another */
	uint32_t stride; /* pages from note to note */
	uint64_t note[NOTES]; /* 0: not known */
	uint64_t mark;	      /* the monitor\'s, if it watches */
	bool watched;
	struct region *next; /* free ones */
};

struct hm_cache fresh_cache;
bool fresh_expect_stale;
_Atomic bool fresh_hasty;
void (*fresh_registering)(void), (*fresh_waits)(void);

static struct fresh_figures other_figures;
_Thread_local struct fresh_figures *fresh_figures = &other_figures;

static enum fresh_truth truth;
static int ring = -1, pagemap = -1;
static struct region regions[REGIONS];
static struct region *free_region;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects free_region */
static _Atomic uint64_t tags;
static _Thread_local uint64_t adds; /* of this thread */

enum fresh_truth fresh_truth(void)
{
	return truth;
}

/* ---- what is behind a page ---- */

/* The numbers of count pages from begin on, stride apart; 0: none there.  What else happens is no matter. */
static void page_numbers(uint64_t begin, uint32_t stride, size_t count, uint64_t *number)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t page = begin / FRESH_PAGE + i * stride;
		size_t run = stride == 1 ? count - i : 1;
		ssize_t got = pread(pagemap, number + i, run * sizeof(*number),
				    (off_t)(page * sizeof(*number)));

		for (size_t k = got > 0 ? (size_t)got / sizeof(*number) : 0; k < run; k++)
			number[i + k] = 0;
		for (size_t k = 0; k < run; k++)
			number[i + k] = number[i + k] & PRESENT ? number[i + k] & PAGE_BITS : 0;
		i += run - 1;
	}
}

/* The tags, read so that memory that is not there is no failure of this program.  False: it is not. */
static bool page_tags(uint64_t begin, uint32_t stride, size_t count, uint64_t *tag)
{
	uint64_t pair[NOTES][2];
	struct iovec here = { pair, count * sizeof(pair[0]) }, there[NOTES];

	for (size_t i = 0; i < count; i++)
		there[i] = (struct iovec){ (void *)(uintptr_t)(begin + i * stride * FRESH_PAGE +
							       TAG_OFFSET),
					   sizeof(pair[0]) };
	if (process_vm_readv(getpid(), &here, 1, there, count, 0) != (ssize_t)here.iov_len)
		return false;
	for (size_t i = 0; i < count; i++)
		tag[i] = pair[i][1] == (pair[i][0] ^ TAG_MARK) ? pair[i][0] : 0;
	return true;
}

bool fresh_tag(uintptr_t page, uint64_t *tag)
{
	return page_tags(page, 1, 1, tag);
}

/*
 * What pinning does to pages, but for the pin: they are there, their own, and dirty, so that the kernel does not take
 * them although they were given up (MADV_FREE) before.
 */
static bool populate(const struct region *region)
{
#ifdef MADV_POPULATE_WRITE
	return syscall(SYS_madvise, region->begin, region->end - region->begin,
		       MADV_POPULATE_WRITE) == 0;
#else
	(void)region;
	return true;
#endif
}

/* The thread has the page to itself. */
static void tag_page(uintptr_t page)
{
	uint64_t *pair = (uint64_t *)(page + TAG_OFFSET);

	if (pair[0] != 0 && pair[1] == (pair[0] ^ TAG_MARK))
		return; /* the page stayed */
	pair[0] = atomic_fetch_add(&tags, 1) + 1;
	pair[1] = pair[0] ^ TAG_MARK;
}

_Thread_local uintptr_t fresh_claiming[2];

void fresh_claim(uintptr_t begin, uintptr_t end)
{
	fresh_note("owned by", begin, end, 0);
	fresh_claiming[0] = begin;
	fresh_claiming[1] = end;
	for (uintptr_t at = begin; at < end; at = (at / FRESH_PAGE + 1) * FRESH_PAGE) {
		volatile char *byte = (volatile char *)at;

		*byte = *byte;
		if (truth == FRESH_TAG && at % FRESH_PAGE == 0 && end - at >= FRESH_PAGE)
			tag_page(at);
	}
	fresh_claiming[0] = 0;
}

/* ---- registrations ---- */

static uint32_t number_of(const struct region *region)
{
	return (uint32_t)(region - regions);
}

static int update_ring(uint32_t number, uint64_t begin, size_t len)
{
	struct iovec range = { (void *)(uintptr_t)begin, len };
	struct io_uring_rsrc_update2 update = { .offset = number,
						.data = (uintptr_t)&range,
						.nr = 1 };

	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS_UPDATE, &update,
		    sizeof(update)) == 1)
		return 0;
	return errno == ENOMEM ? -FI_ENOMEM : -FI_EFAULT;
}

static size_t note_count(const struct region *region)
{
	size_t pages = (region->end - region->begin) / FRESH_PAGE;

	return (pages + region->stride - 1) / region->stride;
}

/* Pinned, and the pages' numbers noted: those before and after are the same ones, or it is done again. */
static int pin(struct region *region)
{
	size_t len = region->end - region->begin, count = note_count(region);
	uint64_t before[NOTES];

	for (unsigned i = 0; i < PIN_TRIES; i++) {
		int ret = update_ring(number_of(region), region->begin, len);

		if (ret != 0)
			return ret;
		page_numbers(region->begin, region->stride, count, before);
		ret = update_ring(number_of(region), region->begin, len);
		if (ret != 0) {
			update_ring(number_of(region), 0, 0);
			return ret;
		}
		page_numbers(region->begin, region->stride, count, region->note);
		if (memcmp(before, region->note, count * sizeof(before[0])) == 0)
			return 0;
	}
	memset(region->note, 0, sizeof(region->note));
	return 0;
}

static struct region *take_region(void)
{
	struct region *region;

	pthread_mutex_lock(&lock);
	region = free_region;
	if (region)
		free_region = region->next;
	pthread_mutex_unlock(&lock);
	return region;
}

static void give_region(struct region *region)
{
	pthread_mutex_lock(&lock);
	region->next = free_region;
	free_region = region;
	pthread_mutex_unlock(&lock);
}

static void widen(void *context, struct hm_cache_key *key)
{
	(void)context;
	key->begin &= ~(uint64_t)(FRESH_PAGE - 1);
	key->end = (key->end + FRESH_PAGE - 1) & ~(uint64_t)(FRESH_PAGE - 1);
}

/* Followed from here on; where that cannot be, the entry is not to be kept. */
static void watch(struct region *region)
{
	region->watched = hm_monitor_watch(region->begin, region->end, &region->mark) == 0;
	if (region->watched)
		return;
	atomic_fetch_add_explicit(&fresh_figures->refused, 1, memory_order_relaxed);
	fresh_forget(region->begin, region->end);
}

static void unwatch(const struct region *region)
{
	if (region->watched)
		hm_monitor_unwatch(region->begin, region->end, region->mark);
}

static int add(void *context, const struct hm_cache_key *key, void **data)
{
	struct region *region = take_region();
	size_t pages = (key->end - key->begin) / FRESH_PAGE;
	int ret = 0;

	(void)context;
	adds++;
	atomic_fetch_add_explicit(&fresh_figures->registrations, 1, memory_order_relaxed);
	if (!region)
		return -FI_ENOMEM;
	region->begin = key->begin;
	region->end = key->end;
	region->stride = (uint32_t)((pages + NOTES - 1) / NOTES);
	watch(region);
	if (truth == FRESH_PIN)
		ret = pin(region);
	else if (!populate(region) ||
		 !page_tags(region->begin, region->stride, note_count(region), region->note))
		ret = -FI_EFAULT;
	if (ret != 0) {
		unwatch(region);
		give_region(region);
		return ret;
	}
	if (fresh_registering)
		fresh_registering();
	CHECK(!(atomic_fetch_add(&region->used, 1) & 1));
	fresh_note("registered, first note", key->begin, key->end, region->note[0]);
	*data = region;
	return 0;
}

static int end_region(void *context, void *data)
{
	struct region *region = data;

	(void)context;
	CHECK(atomic_fetch_add(&region->used, 1) & 1);
	fresh_note("registration ends, first note", region->begin, region->end, region->note[0]);
	if (truth == FRESH_PIN)
		CHECK_OK(update_ring(number_of(region), 0, 0));
	unwatch(region);
	give_region(region);
	return 0;
}

/* ---- hits ---- */

/* As an operation of the library gets one: what a monitor may still have to say is waited for. */
static int get(const struct hm_cache_key *key, struct hm_cache_hold *hold)
{
	for (;;) {
		const struct region *region;
		int ret;

		if (!fresh_hasty) {
			if (fresh_waits && (atomic_load(&hm_monitor_attention) & ~HM_MONITOR_MARKS))
				fresh_waits();
			hm_monitor_settle();
		}
		ret = hm_cache_get(&fresh_cache, key, hold);
		if (ret != 0 || fresh_hasty)
			return ret;
		region = hold->data;
		if (!region->watched || hm_monitor_hit_ok(region->begin, region->end, region->mark))
			return 0;
		hm_cache_put(&fresh_cache, hold);
	}
}

/* What is there now; a page that is on its way is waited for by reading it. */
static uint64_t now_behind(uint64_t page)
{
	uint64_t number = 0;

	if (truth == FRESH_TAG) {
		CHECK(page_tags(page, 1, 1, &number));
		return number;
	}
	for (unsigned i = 0; i < PIN_TRIES && number == 0; i++) {
		page_numbers(page, 1, 1, &number);
		if (number == 0)
			(void)*(volatile char *)(uintptr_t)page;
	}
	return number;
}

static void report(const struct region *region, uint64_t page, uint64_t noted, uint64_t now)
{
	fresh_note("STALE, noted", page, page + FRESH_PAGE, noted);
	atomic_fetch_add(&fresh_figures->stale, 1);
	if (fresh_expect_stale)
		return;
	fprintf(stderr,
		"stale: the registration of [%#" PRIx64 ", %#" PRIx64 ") has %s %#" PRIx64
		" at %#" PRIx64 ", where %#" PRIx64 " is now\n",
		region->begin, region->end, truth == FRESH_PIN ? "page" : "tag", noted, page, now);
	fresh_print_history(page, page + FRESH_PAGE);
	abort();
}

/* False: stale. */
static bool compare_pages(const struct region *region, uint64_t begin, uint64_t end)
{
	size_t step = region->stride * FRESH_PAGE, first, count = note_count(region);
	uint64_t now[NOTES];

	first = begin <= region->begin ? 0 : (begin - region->begin + step - 1) / step;
	if (region->stride == 1 && begin > region->begin)
		first = (begin - region->begin) / step;
	while (count > first && region->begin + (count - 1) * step >= end)
		count--;
	if (truth == FRESH_PIN)
		page_numbers(region->begin + first * step, region->stride, count - first, now);
	else
		CHECK(page_tags(region->begin + first * step, region->stride, count - first, now));
	for (size_t i = first; i < count; i++) {
		uint64_t page = region->begin + i * step, is = now[i - first];

		if (region->note[i] == 0 || is == region->note[i])
			continue;
		is = now_behind(page); /* looked at more closely */
		if (is == region->note[i])
			continue;
		report(region, page, region->note[i], is);
		return false;
	}
	return true;
}

bool fresh_check(uintptr_t begin, uintptr_t end, bool compare)
{
	const struct hm_cache_key key = { .begin = begin, .end = end, .rights = 1 };
	uint64_t before = adds;
	struct hm_cache_hold hold;
	const struct region *region;
	uint32_t used;
	bool stale = false;
	int ret = get(&key, &hold);

	if (ret != 0) {
		if (compare && ret != -FI_ENOMEM) {
			fprintf(stderr, "no registration of a place that is owned: %d\n", ret);
			fresh_print_history(begin, end);
			abort();
		}
		return false;
	}
	region = hold.data;
	used = atomic_load(&region->used);
	CHECK(used & 1);
	CHECK(region->begin <= begin && end <= region->end);
	if (compare)
		stale = !compare_pages(region, begin, end);
	CHECK(atomic_load(&region->used) == used);
	hm_cache_put(&fresh_cache, &hold);
	if (stale) /* one way of becoming stale is counted once */
		fresh_forget(begin, end);
	if (adds == before && compare)
		atomic_fetch_add_explicit(&fresh_figures->hits, 1, memory_order_relaxed);
	return adds == before;
}

/* ---- start and end ---- */

static bool start_pinning(char *why, size_t size)
{
	struct io_uring_params params = { 0 };
	struct io_uring_rsrc_register sparse = { .nr = REGIONS,
						 .flags = IORING_RSRC_REGISTER_SPARSE };
	uint64_t here = 0;

	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap >= 0)
		page_numbers((uintptr_t)&params, 1, 1, &here);
	if (here == 0) {
		snprintf(why, size, "/proc/self/pagemap does not tell page numbers to this user");
		return false;
	}
	ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS2, &sparse,
				sizeof(sparse)) != 0) {
		snprintf(why, size, "io_uring pins no pages here (errno %d)", errno);
		return false;
	}
	return true;
}

bool fresh_truth_start(enum fresh_truth which, char *why, size_t size)
{
	truth = which;
	if (truth == FRESH_PIN && !start_pinning(why, size))
		return false;
	for (unsigned i = 0; i < REGIONS; i++)
		give_region(&regions[i]);
	return true;
}

void fresh_cache_start(uint64_t max_count)
{
	static const struct hm_cache_ops ops = { widen, add, end_region };

	CHECK_OK(hm_cache_init(&fresh_cache, &ops, NULL, max_count, UINT64_MAX));
}

bool fresh_join(char *why, size_t size)
{
	const char *named = getenv("FI_MR_CACHE_MONITOR");

	if (hm_monitor_join(&fresh_cache) != 0) {
		hm_monitor_text(why, size);
		return false;
	}
	if (fresh_toy || !named || strcmp(named, hm_monitor_used()->name) == 0)
		return true;
	hm_monitor_leave(&fresh_cache);
	snprintf(why, size, "there is no monitor \"%s\"", named);
	return false;
}

void fresh_cache_end(void)
{
	CHECK_OK(hm_cache_destroy(&fresh_cache));
	for (unsigned i = 0; i < REGIONS; i++)
		CHECK(!(atomic_load(&regions[i].used) & 1));
	if (ring >= 0)
		close(ring);
	if (pagemap >= 0)
		close(pagemap);
}
