/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registration cache: registrations by address range, kept after their use until the memory changes
 * or room is needed.  It knows no NIC: adding and removing are functions that its owner gives, and who tells
 * it of changed memory is a monitor's business (monitor.h).
 *
 * A hit takes no lock and writes no line that threads share: the range is looked up in a hash table by
 * atomic loads, the entry is held by a count of the calling thread (core/base/held.h), and the entry's state
 * is looked at once more.  Entries are never unmapped while the cache lives, so that a reader may stand
 * on one that became another's, which its state tells.
 *
 *   cache.c         get and put, what a miss does
 *   cache_life.c    its begin and end, fork, what is counted
 *   cache_table.c   the hash table: ranges by size class and block
 *   cache_room.c    the limits, the queue by last use, eviction
 *   cache_retire.c  giving back what has ended
 *   cache_change.c  invalidation
 *
 * LOOKUP.  A range of length l has the size class k = ceil(log2 l), at least one page.  It is entered once,
 * under (k, begin >> k); who looks for a range that holds [a, a + n) tries every class that is in use from
 * that of n on, and there the blocks a >> k and (a >> k) - 1, since such a range cannot begin elsewhere.
 * Before that come the block of its own class, and hints: the entry, larger than a page, that was entered last
 * where the address is.  A hint may be of another entry by now, and is written by misses alone.  Classes
 * that have no entry near (as with changes) are not looked up.
 *
 * STATES of an entry, with a generation that changes when it becomes another's:
 *
 *   FREE --> PENDING --added--> LIVE <--> LEAVING --> DEAD --> FREE
 *               |                 \        /          /
 *               |                 kill   kill        /
 *               |                   \    /          /
 *               +--kill--> DOOMED --> DEAD ---------+
 *
 * PENDING is being registered, outside all locks; who wants the same range waits for that entry alone.  A
 * kill in that time makes it DOOMED: the one caller who registers it uses it, and nobody finds it afterwards.
 * LEAVING is being evicted: back to LIVE if it is found to be held.
 *
 * FRESHNESS.  Memory changes between hm_monitor_begin and hm_monitor_end.  begin makes the range known as
 * changing and kills what overlaps it; a registration that is inserted looks, after it can be found,
 * whether its range is changing, and is DOOMED then.  So a registration that took pages while they went
 * away is found neither before nor after the change, whichever order the two were in.  What was killed stays
 * registered until it is reaped, which begin never does: a hook may be inside an allocator.
 * Most changes are of memory that nobody registered: a count of the entries that begin near (near, below)
 * tells that before anything is looked up.
 *
 * THE END.  A dead entry goes through lists: dead (a change pushed it), cool (a barrier has passed:
 * only who holds it now can), held (somebody did when it was looked at), ready (nobody holds it), and, once
 * its registration has been removed, free.  One barrier serves all that died before it, and every miss that
 * needs room removes as many as it needs, not all.
 *
 * LIMITS.  Count and bytes are taken before a registration starts and given back after it has ended, dead
 * entries included; so they hold at every instant.  Where nothing can be evicted, the caller gets a
 * registration that the cache does not keep, and which does not count against them.
 *
 * RECENCY.  The cache has a clock that ticks with misses; a hit notes the time in its entry if it is
 * another one, so that hits between misses write nothing.  Entries are in a queue by the time of their
 * last use; a use does not move them, but who evicts does, when it meets one that was used since.
 *
 * OVERLAPS.  Ranges are widened to pages.  A range that an entry holds whole is a hit whatever its size; one
 * that overlaps an entry in part gets an entry of its own, beside it: merging would end a registration
 * that may be in use, and widening to the union pins what nobody asked for.
 *
 * FORK.  In the child, what was kept is the parent's: nothing is found any more, and it ends as the dead do
 * when the child itself uses the cache.  What other threads held or were registering at that moment
 * stays, in the child.
 *
 * Locks: a stripe's, then the queue's; none is held while add, remove, an allocation or a free runs.
 * Invalidation takes none.
 */
#ifndef HM_CACHE_H
#define HM_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/held.h"
#include "core/base/spin.h"
#include "core/base/trace.h"

/* What is asked for, and what an entry is. */
struct hm_cache_key {
	uint64_t begin, end; /* addresses; end is past the last byte */
	uint32_t rights;     /* an entry may have more */
	uint32_t kind;	     /* ordering, interface, device: of the owner's choice, must be equal */
	uint64_t id;	     /* the buffer's, where its interface has one: must be equal */
	uint32_t group;	     /* below HM_CACHE_GROUPS: what it is counted under, no more */
};
#define HM_CACHE_GROUPS 8u
#define HM_CACHE_ALL	UINT32_MAX /* groups, of hm_cache_count */

/*
 * widen: what to register so that key is satisfied, whole pages at least (its begin, end and rights).
 * add: register; *data is the owner's.  0 or a negative code, which the caller of get is given.
 * remove: undo it.  Called by any thread that gets or reaps, without locks; a failure leaves the entry for
 * another try.  Neither is a cancellation point.
 */
struct hm_cache_ops {
	void (*widen)(void *context, struct hm_cache_key *key);
	int (*add)(void *context, const struct hm_cache_key *key, void **data);
	int (*remove)(void *context, void *data);
};

/* What get gives and put takes: no more than who holds it may look at data. */
struct hm_cache_hold {
	void *data;
	uint32_t entry; /* HM_CACHE_PRIVATE: not the cache's */
};
#define HM_CACHE_PRIVATE UINT32_MAX

struct hm_cache_counts {
	uint64_t hits, misses;	 /* every get that got something is one of them */
	uint64_t unkept;	 /* misses that were not kept */
	uint64_t evictions;	 /* for want of room */
	uint64_t invalidations;	 /* of changed memory */
	uint64_t entries, bytes; /* now, dead ones included; of all groups never over the limits */
};
/* What is counted, each in a tally per thread and group (held.h); TALLIES of them fill a cache line. */
enum hm_cache_tally {
	HM_CACHE_HITS,
	HM_CACHE_MISSES,
	HM_CACHE_UNKEPT,
	HM_CACHE_EVICTIONS,
	HM_CACHE_INVALIDATIONS,
	HM_CACHE_ENTRIES,
	HM_CACHE_BYTES,
	HM_CACHE_TALLIES = 8
};
#define HM_CACHE_TALLY_NUMBERS (HM_CACHE_GROUPS * HM_CACHE_TALLIES * 2u)

enum hm_cache_phase {
	HM_CACHE_FREE,
	HM_CACHE_PENDING,
	HM_CACHE_DOOMED,
	HM_CACHE_LIVE,
	HM_CACHE_LEAVING,
	HM_CACHE_DEAD
};
/* The bits of state: phase, group, generation. */
#define HM_CACHE_PHASES	    7u
#define HM_CACHE_GROUP_BIT  3u
#define HM_CACHE_GENERATION (UINT64_C(1) << 6)

/* One cache line.  Links are entry numbers + 1, 0 at an end. */
struct hm_cache_entry {
	_Alignas(64) _Atomic uint64_t state;
	_Atomic uint64_t begin, end;
	_Atomic uint64_t id;
	_Atomic uint32_t rights, kind;
	void *data;
	_Atomic uint32_t used; /* the clock at the last hit; HM_CACHE_SORTED: the queue knows */
	uint32_t next, prev;   /* in the queue, under its lock; next: in the free list */
	uint32_t list_next;    /* in a list of dead or ready ones */
};
#define HM_CACHE_UNQUEUED UINT32_MAX /* prev: in no queue */
#define HM_CACHE_SORTED	  (UINT32_C(1) << 31)

#define HM_CACHE_STRIPES 64

/*
 * Words of a table: some bits of the hash above, entry + 1 below; 0: empty.  A word is looked for from its home on,
 * which is the beginning of a group of words in one cache line.
 */
struct hm_cache_table {
	_Atomic uint32_t *word; /* NULL: none yet */
	unsigned shift;		/* 32 less the logarithm of their number */
};
#define HM_CACHE_HOME_WORDS  4u
#define HM_CACHE_SMALLEST    27u /* shift of a table of 32 words */
#define HM_CACHE_TABLE_SIZES 21u /* each twice the one before */

struct hm_cache_stripe {
	_Alignas(64) struct hm_spin lock;
	_Atomic uint32_t version; /* odd while words are moved: who must miss none looks again */
	uint32_t count;		  /* words in the table */
};

struct hm_cache {
	/* read by hits and by changes of memory */
	_Atomic uint64_t table[HM_CACHE_STRIPES]; /* address and size: hm_cache_table */
	struct hm_cache_entry *entry;
	_Atomic uint64_t
		classes; /* bit k: there may be entries of size class k; cleared by fork alone */
	_Atomic uint32_t *near; /* by level and granule: entries that begin there (cache_change.c) */
	uint64_t near_mask;
	_Atomic uint32_t *hint;		    /* entries + 1 */
	uint32_t first_tally, first_number; /* of held.h */
	_Atomic uint32_t clock;

	_Alignas(64) struct hm_cache_ops ops;
	void *context;
	uint64_t max_count, max_bytes;
	_Atomic bool forked; /* what is kept is the parent's, and to be killed */
	uint64_t base[HM_CACHE_GROUPS * HM_CACHE_TALLIES]; /* tallies at the beginning */
	struct hm_cache *next;				   /* of all caches, under their lock */

	_Alignas(64) struct hm_spin
		queue_lock; /* protects these; count and bytes are read by anybody */
	uint32_t free_head, next_entry, first, last;
	uint32_t ready; /* list: dead, held by nobody, registered still */
	uint32_t refused,
		refused_count; /* list: likewise, but remove failed; for reap to try again */
	uint32_t ticks;
	_Atomic uint64_t count, bytes;
	_Atomic uint32_t touched; /* entries that ever were used: next_entry for who has no lock */

	_Alignas(64) _Atomic uint32_t dead; /* list; pushed by anybody */
	_Alignas(64) _Atomic uint32_t waiters;
	pthread_mutex_t
		reap_lock; /* protects the lists: dead since before a barrier; and found to be held */
	uint32_t cool, held, held_last, held_count;
	pthread_mutex_t wait_lock;
	pthread_cond_t settled;		 /* an entry is not PENDING any more */
	struct hm_cache_orphan *orphans; /* under wait_lock: not kept, and remove refused */
	struct hm_cache_stripe stripe[HM_CACHE_STRIPES];
	_Atomic(char *) block[HM_CACHE_TABLE_SIZES]; /* memory of all tables of a size */
	_Atomic uint32_t left[HM_CACHE_TABLE_SIZES]; /* stripes that have a larger one */
};

/* max_count or max_bytes 0: nothing is kept.  -FI_ENOMEM, -FI_ENOSPC (too many caches). */
int hm_cache_init(struct hm_cache *cache, const struct hm_cache_ops *ops, void *context,
		  uint64_t max_count, uint64_t max_bytes);
/*
 * Nothing may be held.  remove is called for all that is left.  -FI_EBUSY: something is held, or remove
 * refused: that is left, the cache is as good as ever, and this may be tried again.
 */
int hm_cache_destroy(struct hm_cache *cache);

/* A registration that satisfies key, new or kept.  The code of add. */
int hm_cache_get(struct hm_cache *cache, const struct hm_cache_key *key,
		 struct hm_cache_hold *hold);
/* Only if it is kept already. */
bool hm_cache_find(struct hm_cache *cache, const struct hm_cache_key *key,
		   struct hm_cache_hold *hold);
void hm_cache_put(struct hm_cache *cache, const struct hm_cache_hold *hold);

/* Kill what overlaps; returns how many.  No lock, no allocation: fit for hooks. */
uint32_t hm_cache_invalidate(struct hm_cache *cache, uint64_t begin, uint64_t end);
/* Give back what is dead and not held; returns how many are still held or refused. */
uint32_t hm_cache_reap(struct hm_cache *cache);
/* Kill what was used longest ago and is not held, up to most of them. */
uint32_t hm_cache_evict(struct hm_cache *cache, uint32_t most);
/* Of a group, or HM_CACHE_ALL.  Takes no lock. */
void hm_cache_count(struct hm_cache *cache, uint32_t group, struct hm_cache_counts *counts);

/* ---- between the parts ---- */

#define HM_CACHE_LEVELS 4u /* classes in a level (cache_change.c) */

/*
 * Hints are of three sorts: by page for ranges of more than that, and by 64 KiB and by 2 MiB for those of
 * more than these.  Of such, no more than two are in a block, if they do not overlap: one that holds its
 * beginning, and one that begins later.  0: none.
 */
#define HM_CACHE_HINTS	    (UINT64_C(1) << 16) /* blocks of each sort */
#define HM_CACHE_HINT_SORTS 3u
#define HM_CACHE_HINT_BYTES (HM_CACHE_HINT_SORTS * HM_CACHE_HINTS * 2 * sizeof(uint32_t))

static inline unsigned hm_cache_hint_shift(unsigned sort)
{
	return sort == 0 ? 12 : sort == 1 ? 16 : 21;
}

static inline _Atomic uint32_t *hm_cache_hint(const struct hm_cache *cache, unsigned sort,
					      uint64_t block)
{
	/* memory that repeats at powers of two is to lie apart */
	uint64_t at = block + (block >> 11) * 40503;

	return &cache->hint[(sort * HM_CACHE_HINTS + at % HM_CACHE_HINTS) * 2];
}

#define HM_CACHE_MIN_CLASS 12u /* of a page */

/* Bits of the classes that are in the level of k. */
static inline uint64_t hm_cache_level(unsigned k)
{
	unsigned from = k - (k - HM_CACHE_MIN_CLASS) % HM_CACHE_LEVELS;

	return ((UINT64_C(1) << HM_CACHE_LEVELS) - 1) << from;
}

static inline unsigned hm_cache_class(uint64_t len)
{
	/* of a page at least, and of half the address space at most, which is more than is kept */
	return 64u - (unsigned)__builtin_clzll(((len - 1) & INT64_MAX) | 4095);
}

static inline uint64_t hm_cache_hash(uint64_t block, unsigned k)
{
	uint64_t x = (block ^ (uint64_t)k << 56) * UINT64_C(0x9e3779b97f4a7c15);

	return x ^ x >> 32;
}

#define HM_CACHE_WORD_ENTRY ((UINT32_C(1) << 24) - 1)
#define HM_CACHE_STRIPE(h)  ((unsigned)((h) >> 58))

/* Tables begin at multiples of 64 bytes: below that is the logarithm of their size, from 32. */
static inline uint64_t hm_cache_pack_table(void *word, unsigned log)
{
	return (uint64_t)(uintptr_t)word | (32 - log);
}

static inline unsigned hm_cache_table_log(uint64_t table)
{
	return 32 - (unsigned)(table & 63);
}

static inline struct hm_cache_table hm_cache_table(uint64_t table)
{
	return (struct hm_cache_table){ (_Atomic uint32_t *)(uintptr_t)(table & ~UINT64_C(63)),
					(unsigned)(table & 63) };
}

static inline uint32_t hm_cache_mask(struct hm_cache_table table)
{
	return (UINT32_C(1) << (32 - table.shift)) - 1;
}

static inline struct hm_cache_table hm_cache_table_of(const struct hm_cache *cache, uint64_t hash)
{
	return hm_cache_table(
		atomic_load_explicit(&cache->table[HM_CACHE_STRIPE(hash)], memory_order_acquire));
}

/* Those bits of the hash that are in a word: others than what tells stripe and home. */
static inline uint32_t hm_cache_tag(uint64_t hash)
{
	return (uint32_t)(hash >> 26) & ~HM_CACHE_WORD_ENTRY;
}

/* Is this the word of an entry whose hash may be this one? */
static inline bool hm_cache_has_tag(uint32_t word, uint32_t tag)
{
	return (word ^ tag) <= HM_CACHE_WORD_ENTRY;
}

static inline uint32_t hm_cache_home(uint64_t hash, struct hm_cache_table table)
{
	return (uint32_t)hash >> table.shift & ~(HM_CACHE_HOME_WORDS - 1);
}

static inline uint32_t hm_cache_next(uint32_t at, struct hm_cache_table table)
{
	return (at + 1) & hm_cache_mask(table);
}

static inline bool hm_cache_satisfies(const struct hm_cache_entry *e,
				      const struct hm_cache_key *key)
{
	return atomic_load_explicit(&e->begin, memory_order_relaxed) <= key->begin &&
	       atomic_load_explicit(&e->end, memory_order_relaxed) >= key->end &&
	       !(key->rights & ~atomic_load_explicit(&e->rights, memory_order_relaxed)) &&
	       atomic_load_explicit(&e->kind, memory_order_relaxed) == key->kind &&
	       atomic_load_explicit(&e->id, memory_order_relaxed) == key->id;
}

static inline enum hm_cache_phase hm_cache_phase(uint64_t state)
{
	return (enum hm_cache_phase)(state & HM_CACHE_PHASES);
}

/* A tracepoint about an entry that is not another's yet. */
#define hm_cache_probe(name, cache, e, state)                                                      \
	HM_PROBE(name, (cache)->context, atomic_load_explicit(&(e)->begin, memory_order_relaxed),  \
		 hm_cache_bytes(e), hm_cache_group(state), 0)

/* The same generation in another phase. */
static inline uint64_t hm_cache_state(uint64_t state, enum hm_cache_phase phase)
{
	return (state & ~(uint64_t)HM_CACHE_PHASES) | phase;
}

static inline uint32_t hm_cache_group(uint64_t state)
{
	return (uint32_t)(state >> HM_CACHE_GROUP_BIT) % HM_CACHE_GROUPS;
}

static inline uint32_t hm_cache_tally_number(const struct hm_cache *cache, uint32_t group,
					     enum hm_cache_tally what)
{
	return cache->first_tally + (group * HM_CACHE_TALLIES + what) * 2;
}

static inline void hm_cache_tally(const struct hm_cache *cache, uint32_t group,
				  enum hm_cache_tally what, uint64_t more)
{
	hm_tally(hm_cache_tally_number(cache, group, what), more);
}

/* A request that nothing kept served got a registration, of this range, kept or for its use alone. */
static inline void hm_cache_count_miss(const struct hm_cache *cache, const struct hm_cache_key *key,
				       bool kept)
{
	hm_cache_tally(cache, key->group, HM_CACHE_MISSES, 1);
	if (!kept)
		hm_cache_tally(cache, key->group, HM_CACHE_UNKEPT, 1);
	HM_PROBE(miss, cache->context, key->begin, key->end - key->begin, key->group, 0);
}

static inline uint64_t hm_cache_bytes(const struct hm_cache_entry *e)
{
	return atomic_load_explicit(&e->end, memory_order_relaxed) -
	       atomic_load_explicit(&e->begin, memory_order_relaxed);
}

/* cache_table.c; stripe lock held but for grow and destroy */
/* False: the table is full, grow it (without the lock) and try again. */
bool hm_cache_table_enter(struct hm_cache *cache, uint64_t hash, uint32_t n);
void hm_cache_table_leave(struct hm_cache *cache, uint64_t hash, uint32_t n);
/* Twice the size, unless somebody did it.  -FI_ENOMEM. */
int hm_cache_table_grow(struct hm_cache *cache, unsigned stripe);
void hm_cache_table_destroy(struct hm_cache *cache);
uint64_t hm_cache_entry_hash(const struct hm_cache_entry *e);

/* cache_room.c */
/* Is there room for that many bytes, as far as can be told without the lock? */
bool hm_cache_has_room(struct hm_cache *cache, uint64_t bytes);
/* End entries until there is.  False: all that are left are in use. */
bool hm_cache_make_room(struct hm_cache *cache, uint64_t bytes);
/* A FREE entry in the queue, and its share of the limits.  False: there is no room. */
bool hm_cache_take_entry(struct hm_cache *cache, uint64_t bytes, uint32_t *n);
/* What take_entry did is undone. */
void hm_cache_give_entry(struct hm_cache *cache, uint32_t n, uint64_t bytes);
/* Make up to most LIVE ones ready that were used longest ago and that nobody holds; returns how many. */
uint32_t hm_cache_evict_batch(struct hm_cache *cache, uint32_t most);

/* cache_retire.c */
/* A LIVE or LEAVING entry that was killed, or DOOMED and registered: DEAD, and maybe held. */
void hm_cache_push_dead(struct hm_cache *cache, uint32_t n);
/* Make what is dead and not held ready, by one barrier: all, or some; returns how many. */
uint32_t hm_cache_collect(struct hm_cache *cache, bool all);
/* Put entries in the list of ready ones. */
void hm_cache_push_ready(struct hm_cache *cache, const uint32_t *n, uint32_t count);
/* Remove the registrations of up to most ready entries; returns how many ended. */
uint32_t hm_cache_end_ready(struct hm_cache *cache, uint32_t most);
/* Out of table and queue, its share of the limits given back; FREE. */
void hm_cache_free_entry(struct hm_cache *cache, uint32_t n);
/* A registration that was not kept has ended, but remove refused: to be tried again by reap. */
void hm_cache_adopt(struct hm_cache *cache, void *data);

/* cache_change.c */
/* Entry n is about to be found, or is not any more. */
void hm_cache_near_add(struct hm_cache *cache, const struct hm_cache_entry *e, uint32_t more);
uint64_t hm_cache_near_size(uint64_t max_count);
/* Are there entries of the level of k that may hold this address? */
bool hm_cache_near(const struct hm_cache *cache, unsigned k, uint64_t addr);
/* If it overlaps: from LIVE or LEAVING to DEAD, from PENDING to DOOMED.  False: it was none of them. */
bool hm_cache_kill(struct hm_cache *cache, uint32_t n, uint64_t begin, uint64_t end);
uint32_t hm_cache_kill_all(struct hm_cache *cache, uint64_t begin, uint64_t end);

#endif
