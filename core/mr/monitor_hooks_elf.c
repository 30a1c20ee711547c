/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memhooks: the relocated words of all loaded objects.  The loader's lock is not to be had, so that an object
 * that another thread is loading must be told from one that is ready: the loader counts objects that it
 * enters in its list (dlpi_adds), and holds its lock from there until their relocations are done; so whoever
 * reads the count and then gets that lock once knows that all objects up to the count are ready.
 *
 * Order of locks: the loader's; this file's; that of the loader's list (dl_iterate_phdr).  Nothing is allocated
 * while the latter two are held.
 */
#include "core/mr/monitor_hooks.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define WORD_CALL R_X86_64_JUMP_SLOT
#define WORD_GOT  R_X86_64_GLOB_DAT
#define WORD_DATA R_X86_64_64
#elif defined(__aarch64__)
#define WORD_CALL R_AARCH64_JUMP_SLOT
#define WORD_GOT  R_AARCH64_GLOB_DAT
#define WORD_DATA R_AARCH64_ABS64
#else /* resolve refuses */
#define WORD_CALL UINT32_MAX
#define WORD_GOT  UINT32_MAX
#define WORD_DATA UINT32_MAX
#endif

#define OBJECTS	 4096u
#define WORDS	 65536u
#define PATIENCE 10000 /* walks that find objects being added by others */

/* A word that holds a hook. */
struct word {
	void **at;
	void *before, *ours;
};

/* An object whose words were looked at; they are words[first], words[first + 1], ... */
struct object {
	uint64_t base;
	const void *headers;
	uint32_t first, count;
	bool present;
};

static struct word words[WORDS];
static struct object objects[OBJECTS];
static uint32_t word_count, object_count;
static unsigned long long removals; /* objects that the loader had dropped by the last walk */

/*
 * Protects what is above.  The holder's process: a child of fork need not wait for a thread that it does not
 * have.
 */
static _Atomic pid_t holder;

static void lock(void)
{
	pid_t me = getpid(), none = 0;

	while (!atomic_compare_exchange_weak(&holder, &none, me)) {
		if (none != 0 && none != me && atomic_compare_exchange_strong(&holder, &none, me))
			return;
		none = 0;
		sched_yield();
	}
}

static void unlock(void)
{
	atomic_store(&holder, 0);
}

/* ---- an object ---- */

struct view {
	const struct dl_phdr_info *info;
	uint64_t base, low, high;  /* where it is loaded */
	uint64_t relro, relro_end; /* made read-only after relocation; whole pages */
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * rela, *calls;
	size_t rela_count, call_count;
	bool open; /* relro is writable now */
};

struct walk {
	unsigned long long adds;
	bool checked, changed; /* changed: another thread adds objects */
	struct object *object;
	char *why;
	size_t size;
	bool failed;
};

static void fail(struct walk *w, const struct view *o, const char *what, const char *name)
{
	const char *file = o->info->dlpi_name;

	if (!w->failed)
		snprintf(w->why, w->size, "%s: %s%s", file && file[0] ? file : "the program", what,
			 name);
	w->failed = true;
}

/* The dynamic section's addresses are relocated by the loader, unless they are in memory that it may not write. */
static const void *place(const struct view *o, uint64_t address)
{
	return (const void *)(address < o->base ? address + o->base : address);
}

static void read_dynamic(struct view *o, const ElfW(Dyn) * d)
{
	for (; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			o->symbols = place(o, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			o->names = place(o, d->d_un.d_ptr);
		else if (d->d_tag == DT_RELA)
			o->rela = place(o, d->d_un.d_ptr);
		else if (d->d_tag == DT_RELASZ)
			o->rela_count = d->d_un.d_val / sizeof(ElfW(Rela));
		else if (d->d_tag == DT_JMPREL)
			o->calls = place(o, d->d_un.d_ptr);
		else if (d->d_tag == DT_PLTRELSZ)
			o->call_count = d->d_un.d_val / sizeof(ElfW(Rela));
	}
}

/* False: there is nothing to relocate. */
static bool look_at(struct view *o, const struct dl_phdr_info *info)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const ElfW(Dyn) *dynamic = NULL;

	*o = (struct view){ .info = info, .base = info->dlpi_addr, .low = UINT64_MAX };
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		uint64_t at = o->base + h->p_vaddr;

		if (h->p_type == PT_DYNAMIC)
			dynamic = (const void *)at;
		if (h->p_type == PT_GNU_RELRO) {
			o->relro = at & ~(page - 1);
			o->relro_end = (at + h->p_memsz) & ~(page - 1);
		}
		if (h->p_type != PT_LOAD)
			continue;
		o->low = at < o->low ? at : o->low;
		o->high = at + h->p_memsz > o->high ? at + h->p_memsz : o->high;
	}
	if (!dynamic)
		return false;
	read_dynamic(o, dynamic);
	return o->symbols && o->names;
}

static bool open_words(struct view *o, const void *at)
{
	uint64_t address = (uint64_t)(uintptr_t)at;

	if (o->open || address < o->relro || address >= o->relro_end)
		return true;
	o->open = mprotect((void *)o->relro, o->relro_end - o->relro, PROT_READ | PROT_WRITE) == 0;
	return o->open;
}

static void close_words(struct view *o)
{
	if (o->open)
		mprotect((void *)o->relro, o->relro_end - o->relro, PROT_READ);
	o->open = false;
}

/* ---- changing words ---- */

/* The variant that calls this one; HM_HOOK_VARIANTS: there is none left. */
static unsigned variant_for(struct hm_hook *hook, void *before)
{
	unsigned v;

	for (v = 0; v < HM_HOOK_VARIANTS; v++) {
		void *its = atomic_load(&hook->before[v]);

		if (its == before)
			break;
		if (!its) {
			atomic_store(&hook->before[v], before);
			break;
		}
	}
	return v;
}

static bool is_ours(const struct hm_hook *hook, const void *value)
{
	for (unsigned v = 0; v < HM_HOOK_VARIANTS; v++)
		if (hook->ours[v] == value)
			return true;
	return false;
}

static bool is_known(const struct hm_hook *hook, const void *value)
{
	return value == hook->usual || value == hook->libc || value == hook->canonical;
}

static bool holds(const struct view *o, const void *address)
{
	return (uint64_t)(uintptr_t)address >= o->low && (uint64_t)(uintptr_t)address < o->high;
}

static bool is_lazy(const struct view *o, const ElfW(Sym) * symbol, uint32_t type,
		    const void *value)
{
	return type == WORD_CALL && symbol->st_shndx == SHN_UNDEF && holds(o, value);
}

/* What a call through the word would reach; NULL: leave the word alone. */
static void *reached(struct walk *w, struct view *o, const struct hm_hook *hook,
		     const ElfW(Sym) * symbol, uint32_t type, void *value)
{
	bool own = symbol->st_shndx != SHN_UNDEF && holds(o, value);

	if (!value || is_ours(hook, value) || (HM_HOOKS_TSAN && holds(o, hook->libc)))
		return NULL;
	if (is_lazy(o, symbol, type, value))
		value = hook->usual;
	/* a variable that the program has set to something else is the program's */
	if (!value || (type == WORD_DATA && !is_known(hook, value)))
		return NULL;
	if (!hook->allocator)
		return value;
	switch (hm_hooks_alloc_take(hook, value)) {
	case HM_TAKE:
		return value;
	case HM_CANNOT:
		if (!own && !is_known(hook, value))
			fail(w, o, "another function is in the place of ", hook->name);
		return NULL;
	default:
		return NULL;
	}
}

static void take_word(struct walk *w, struct view *o, const ElfW(Rela) * r)
{
	uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
	const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(r->r_info)];
	struct hm_hook *hook;
	unsigned v;
	void **at, *before;

	if ((type != WORD_CALL && type != WORD_GOT && type != WORD_DATA) ||
	    (type == WORD_DATA && r->r_addend != 0))
		return;
	hook = hm_hooks_named(o->names + symbol->st_name);
	if (!hook)
		return;
	at = (void **)(o->base + r->r_offset);
	before = reached(w, o, hook, symbol, type, __atomic_load_n(at, __ATOMIC_RELAXED));
	if (!before)
		return;
	v = variant_for(hook, before);
	if (v == HM_HOOK_VARIANTS || word_count == WORDS || !open_words(o, at)) {
		fail(w, o,
		     v == HM_HOOK_VARIANTS ? "too many functions are called "
		     : word_count == WORDS ? "no room for "
					   : "no permission to change ",
		     hook->name);
		return;
	}
	words[word_count++] =
		(struct word){ at, __atomic_load_n(at, __ATOMIC_RELAXED), hook->ours[v] };
	w->object->count++;
	__atomic_store_n(at, hook->ours[v], __ATOMIC_RELEASE);
}

/* New memory of an object: what was kept there went away unseen, if it ever was. */
static void report_object(const struct view *o)
{
	hm_hook_changed(o->low, hm_hook_range_end(o->low, o->high - o->low));
}

static void take_object(struct walk *w, struct view *o)
{
	w->object->first = word_count;
	w->object->count = 0;
	for (size_t i = 0; i < o->rela_count && o->rela; i++)
		take_word(w, o, &o->rela[i]);
	for (size_t i = 0; i < o->call_count && o->calls; i++)
		take_word(w, o, &o->calls[i]);
	close_words(o);
}

static struct object *find_object(const struct dl_phdr_info *info)
{
	for (uint32_t i = 0; i < object_count; i++)
		if (objects[i].base == info->dlpi_addr && objects[i].headers == info->dlpi_phdr)
			return &objects[i];
	return NULL;
}

/* Is it the object that it was?  Words of one that was loaded anew hold no hook. */
static bool is_same(const struct view *o, const struct object *object)
{
	for (uint32_t i = object->first; i < object->first + object->count; i++) {
		uint64_t at = (uint64_t)(uintptr_t)words[i].at;

		if (at < o->low || at >= o->high || *words[i].at != words[i].ours)
			return false;
	}
	return object->count > 0;
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *w = arg;
	struct view o;

	(void)size;
	if (!w->checked) {
		w->checked = true;
		w->changed = info->dlpi_adds != w->adds;
		for (uint32_t i = 0; i < object_count; i++)
			objects[i].present = false;
	}
	if (w->changed)
		return 1;
	if (!look_at(&o, info))
		return 0;
	w->object = find_object(info);
	if (w->object && (info->dlpi_subs == removals || is_same(&o, w->object))) {
		w->object->present = true;
		return 0;
	}
	if (!w->object && object_count == OBJECTS) {
		fail(w, &o, "too many objects", "");
		return 1;
	}
	if (!w->object)
		w->object = &objects[object_count++];
	*w->object = (struct object){ info->dlpi_addr, info->dlpi_phdr, 0, 0, true };
	report_object(&o);
	take_object(w, &o);
	return 0;
}

/* Objects that are gone, and their words. */
static void forget(void)
{
	uint32_t kept_words = 0, kept = 0;

	/* words of objects that follow each other in `words` move down; objects taken again have theirs last */
	for (uint32_t done = 0; done < word_count;) {
		struct object *its = NULL;

		for (uint32_t i = 0; i < object_count; i++)
			if (objects[i].count > 0 && objects[i].first == done)
				its = &objects[i];
		if (!its) {
			done++;
			continue;
		}
		done += its->count;
		if (!its->present)
			continue;
		memmove(&words[kept_words], &words[its->first], its->count * sizeof(words[0]));
		its->first = kept_words;
		kept_words += its->count;
	}
	for (uint32_t i = 0; i < object_count; i++)
		if (objects[i].present)
			objects[kept++] = objects[i];
	word_count = kept_words;
	object_count = kept;
}

static int counts(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned long long *of = arg;

	(void)size;
	of[0] = info->dlpi_adds;
	of[1] = info->dlpi_subs;
	return 1;
}

/* Loads that are under way in other threads end: the loader's lock was had.  By the loader's own functions. */
static void wait_for_loads(void)
{
	void *(*load)(const char *, int) = (__typeof__(&dlopen))hm_hooks_named("dlopen")->usual;
	int (*unload)(void *) = (__typeof__(&dlclose))hm_hooks_named("dlclose")->usual;
	void *program = load(NULL, RTLD_LAZY | RTLD_NOLOAD);

	if (program)
		unload(program);
}

bool hm_hooks_walk(char *why, size_t size)
{
	for (int i = 0; i < PATIENCE; i++) {
		struct walk w = { .why = why, .size = size };
		unsigned long long before[2], after[2];

		dl_iterate_phdr(counts, before);
		wait_for_loads();
		w.adds = before[0];
		lock();
		dl_iterate_phdr(visit, &w);
		if (!w.changed) {
			if (removals != before[1])
				forget();
			removals = before[1];
		}
		unlock();
		if (w.failed)
			return false;
		dl_iterate_phdr(counts, after);
		if (!w.changed && before[0] == after[0])
			return true;
	}
	snprintf(why, size, "objects are loaded all the time");
	return false;
}

/* ---- what an object calls ---- */

struct question {
	uint64_t code;
	bool calls_out;
};

static bool gives_back(const struct view *o, const ElfW(Rela) * r, size_t count)
{
	for (size_t i = 0; r && i < count; i++) {
		const ElfW(Sym) *symbol = &o->symbols[ELF64_R_SYM(r[i].r_info)];

		if (symbol->st_shndx == SHN_UNDEF &&
		    strcmp(o->names + symbol->st_name, "madvise") == 0)
			return true;
	}
	return false;
}

static int ask(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct question *q = arg;
	struct view o;

	(void)size;
	if (!look_at(&o, info) || q->code < o.low || q->code >= o.high)
		return 0;
	/* in the program itself others' calls cannot be told from the allocator's */
	q->calls_out = info->dlpi_name[0] && (gives_back(&o, o.rela, o.rela_count) ||
					      gives_back(&o, o.calls, o.call_count));
	return 1;
}

bool hm_hooks_calls_out(const void *code)
{
	struct question q = { (uint64_t)(uintptr_t)code, false };

	dl_iterate_phdr(ask, &q);
	return q.calls_out;
}

/* ---- putting back ---- */

static int put_back(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct object *object = find_object(info);
	struct view o;

	(void)size;
	(void)arg;
	if (!object || !look_at(&o, info))
		return 0;
	for (uint32_t i = object->first; i < object->first + object->count; i++) {
		uint64_t at = (uint64_t)(uintptr_t)words[i].at;

		if (at < o.low || at >= o.high ||
		    __atomic_load_n(words[i].at, __ATOMIC_RELAXED) != words[i].ours)
			continue; /* another object in its place, or another's function in ours */
		if (open_words(&o, words[i].at))
			__atomic_store_n(words[i].at, words[i].before, __ATOMIC_RELEASE);
	}
	close_words(&o);
	return 0;
}

void hm_hooks_unwalk(void)
{
	lock();
	dl_iterate_phdr(put_back, NULL);
	word_count = 0;
	object_count = 0;
	removals = 0;
	unlock();
}
