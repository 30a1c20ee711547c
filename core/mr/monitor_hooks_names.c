/* SPDX-License-Identifier: BSD-2-Clause */
/* memhooks: what the names of the hooked functions mean in this program, and whether it can be followed at all. */
#include "core/mr/monitor_hooks.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__) || defined(__aarch64__)
#define HM_HOOKS_KNOWN 1
#else
#define HM_HOOKS_KNOWN 0
#endif

#define FAMILIES 256

static struct hm_hook *hooks[HM_HOOKS_MOST + 1];
static bool starts[FAMILIES]; /* some hook's name has this first character */

struct hm_hook *hm_hooks_named(const char *name)
{
	if (!starts[(unsigned char)name[0]])
		return NULL;
	for (struct hm_hook *const *hook = hooks; *hook; hook++)
		if ((*hook)->name[1] == name[1] && strcmp((*hook)->name, name) == 0)
			return *hook;
	return NULL;
}

static void *of_libc(const char *name)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *found;

	if (!libc)
		return NULL;
	found = dlsym(libc, name);
	dlclose(libc);
	return found;
}

/* The first definition behind the program itself, in the order of the global scope. */
static void *defined_behind(const char *name)
{
	for (struct link_map *m = _r_debug.r_map->l_next; m; m = m->l_next) {
		void *so = m->l_name[0] ? dlopen(m->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL, *found;
		struct link_map *owner = NULL;
		Dl_info info;

		if (!so)
			continue;
		found = dlsym(so, name);
		dlclose(so);
		if (found && dladdr1(found, &info, (void **)&owner, RTLD_DL_LINKMAP) && owner == m)
			return found;
	}
	return NULL;
}

void *hm_hooks_lookup(const char *name, bool libc)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;
	void *found;

	if (libc)
		return of_libc(name);
	found = dlsym(RTLD_DEFAULT, name);
	/* in a program with a fixed address it may be an entry of the program's own table of jumps */
	if (found && dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
	    symbol->st_shndx == SHN_UNDEF)
		return defined_behind(name);
	return found;
}

static int has_interpreter(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			*(bool *)arg = true;
	return 1; /* the first is the program */
}

/* From version 2 on, a pointer to the next namespace's follows (struct r_debug_extended of newer headers). */
static bool has_namespaces(void)
{
	const char *volatile debug = (const char *)&_r_debug;
	void *next = NULL;

	if (_r_debug.r_version > 1)
		memcpy(&next, debug + sizeof(struct r_debug), sizeof(next));
	return next != NULL;
}

static bool can_work(char *why, size_t size)
{
	bool dynamic = false;

	dl_iterate_phdr(has_interpreter, &dynamic);
	if (!HM_HOOKS_KNOWN)
		snprintf(why, size, "relocations of this processor are not known");
	else if (!dynamic)
		snprintf(why, size, "the program is linked statically");
	else if (!of_libc("gnu_get_libc_version"))
		snprintf(why, size, "the C library is not glibc");
	else if (has_namespaces())
		snprintf(why, size,
			 "objects are loaded in a second namespace (dlmopen or LD_AUDIT)");
	else
		return true;
	return false;
}

bool hm_hooks_resolve(char *why, size_t size)
{
	struct hm_hook *const *const lists[] = { hm_hooks_map, hm_hooks_alloc, hm_hooks_thread,
						 hm_hooks_load };
	unsigned n = 0;

	if (!can_work(why, size))
		return false;
	for (unsigned l = 0; l < sizeof(lists) / sizeof(lists[0]); l++)
		for (unsigned i = 0; lists[l][i] && n < HM_HOOKS_MOST; i++) {
			struct hm_hook *hook = lists[l][i];

			hook->usual = hm_hooks_lookup(hook->name, false);
			hook->canonical = dlsym(RTLD_DEFAULT, hook->name);
			hook->libc = hm_hooks_lookup(hook->name, true);
			starts[(unsigned char)hook->name[0]] = true;
			hooks[n++] = hook;
		}
	return true;
}

bool hm_hooks_pin(char *why, size_t size)
{
	struct link_map *mine = NULL;
	Dl_info info;
	void *so;

	if (!dladdr1((void *)hm_hooks_pin, &info, (void **)&mine, RTLD_DL_LINKMAP) || !mine) {
		snprintf(why, size, "the object that holds the library is not known");
		return false;
	}
	if (mine == _r_debug.r_map)
		return true;
	so = dlopen(mine->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	if (!so) {
		snprintf(why, size, "%s cannot be kept loaded", mine->l_name);
		return false;
	}
	dlclose(so);
	return true;
}
