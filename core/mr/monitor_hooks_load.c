/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memhooks: objects that come and go.  The loader searches by who calls dlopen (its run path, $ORIGIN in
 * names), and now that is this file; so what the caller's own path has is tried first here.
 */
#include "core/mr/monitor_hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

HM_HOOK_OF(dlopen);
HM_HOOK_OF(dlmopen);
HM_HOOK_OF(dlclose);

/*
 * Words of new objects.  It may fail only by what the monitor must not be used after.  Not after a call that
 * failed: what dlerror says would be lost.
 */
static void renew(void)
{
	static char why[192]; /* told once, by the first failure */
	static _Atomic bool failed;
	char text[sizeof(why)];
	int err = errno;

	if (atomic_load(&hm_hooks_on) && !hm_hooks_walk(text, sizeof(text)) &&
	    !atomic_exchange(&failed, true)) {
		memcpy(why, text, sizeof(why));
		hm_monitor_failed(why);
	}
	errno = err;
}

/* ---- the caller's way of searching ---- */

/* The directories that the loader searches for an object, NULL: not known.  To be freed. */
static Dl_serinfo *search_path(void *so)
{
	Dl_serinfo size, *path;

	if (dlinfo(so, RTLD_DI_SERINFOSIZE, &size) != 0)
		return NULL;
	path = malloc(size.dls_size);
	if (!path)
		return NULL;
	path->dls_size = size.dls_size;
	path->dls_cnt = size.dls_cnt;
	if (dlinfo(so, RTLD_DI_SERINFO, path) == 0)
		return path;
	free(path);
	return NULL;
}

static bool has(const Dl_serinfo *path, const char *directory)
{
	for (unsigned i = 0; path && i < path->dls_cnt; i++)
		if (strcmp(path->dls_serpath[i].dls_name, directory) == 0)
			return true;
	return false;
}

/* How many of the caller's there are up to the last that is not this object's as well. */
static unsigned own_count(const Dl_serinfo *path, const Dl_serinfo *here)
{
	unsigned n = path ? path->dls_cnt : 0;

	while (n > 0 && has(here, path->dls_serpath[n - 1].dls_name))
		n--;
	return n;
}

/* The handle of the object that holds an address. */
static void *handle_of(__typeof__(&dlopen) load, const void *address)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return NULL;
	return load(map->l_name[0] ? map->l_name : NULL, RTLD_LAZY | RTLD_NOLOAD);
}

static void *try_paths(__typeof__(&dlopen) load, const Dl_serinfo *path, unsigned count,
		       const char *file, int mode)
{
	char name[PATH_MAX];
	void *so = NULL;

	for (unsigned i = 0; i < count && !so; i++) {
		int n = snprintf(name, sizeof(name), "%s/%s", path->dls_serpath[i].dls_name, file);

		if (n > 0 && (size_t)n < sizeof(name) && access(name, R_OK) == 0)
			so = load(name, mode);
	}
	return so;
}

static void *search(__typeof__(&dlopen) load, const char *file, int mode, const void *caller)
{
	void *so = load(file, RTLD_LAZY | RTLD_NOLOAD), *from, *here;
	Dl_serinfo *path, *own;

	if (so || mode & RTLD_NOLOAD) { /* loaded already: wherever it was found */
		if (so)
			HM_USUAL(dlclose)(so);
		return NULL;
	}
	from = handle_of(load, caller);
	here = handle_of(load, (const void *)search);
	path = from ? search_path(from) : NULL;
	own = here ? search_path(here) : NULL;
	so = try_paths(load, path, own_count(path, own), file, mode);
	free(path);
	free(own);
	if (from)
		HM_USUAL(dlclose)(from);
	if (here)
		HM_USUAL(dlclose)(here);
	return so;
}

/* $ORIGIN of the caller at the start of a name; false: there is none. */
static bool expand(const char *file, const void *caller, char *name, size_t size)
{
	const char *rest = strncmp(file, "$ORIGIN", 7) == 0	? file + 7
			   : strncmp(file, "${ORIGIN}", 9) == 0 ? file + 9
								: NULL;
	struct link_map *map = NULL;
	char where[PATH_MAX], *slash;
	Dl_info info;
	ssize_t n;

	if (!rest || !dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return false;
	if (map->l_name[0]) {
		n = snprintf(where, sizeof(where), "%s", map->l_name);
	} else {
		n = readlink("/proc/self/exe", where, sizeof(where) - 1);
		where[n > 0 ? n : 0] = '\0';
	}
	slash = strrchr(where, '/');
	if (n <= 0 || (size_t)n >= sizeof(where) || !slash)
		return false;
	*slash = '\0';
	n = snprintf(name, size, "%s%s", where, rest);
	return n > 0 && (size_t)n < size;
}

static void *load_for(__typeof__(&dlopen) load, const char *file, int mode, const void *caller)
{
	char name[PATH_MAX];
	void *so = NULL;

	if (file && file[0] && expand(file, caller, name, sizeof(name)))
		return load(name, mode);
	if (file && file[0] && !strchr(file, '/'))
		so = search(load, file, mode, caller);
	return so ? so : load(file, mode);
}

/* ---- hooks ---- */

static inline void *do_dlopen(unsigned v, const char *file, int mode, const void *caller)
{
	void *so = load_for(HM_BEFORE(dlopen, v), file, mode, caller);

	if (so)
		renew();
	return so;
}

#define DLOPEN(v)                                                                                  \
	static void *dlopen_##v(const char *file, int mode)                                        \
	{                                                                                          \
		return do_dlopen(v, file, mode, __builtin_return_address(0));                      \
	}
DLOPEN(0)
DLOPEN(1)
DLOPEN(2)
DLOPEN(3)
static struct hm_hook hook_dlopen = { .name = "dlopen", .ours = HM_VARIANTS(dlopen) };

/* Another namespace has a C library of its own, whose objects the loader does not list here. */
static void *do_dlmopen(unsigned v, Lmid_t space, const char *file, int mode)
{
	void *so;

	if (atomic_load(&hm_hooks_on) && space != LM_ID_BASE)
		hm_monitor_failed("an object was loaded in a second namespace (dlmopen)");
	so = HM_BEFORE(dlmopen, v)(space, file, mode);
	if (so)
		renew();
	return so;
}
HM_HOOK(void *, dlmopen, (Lmid_t space, const char *file, int mode), space, file, mode);

/* Which objects go, and with them which memory, is known afterwards only. */
static int do_dlclose(unsigned v, void *so)
{
	unsigned number = hm_hook_begin(0, UINT64_MAX);
	int ret = HM_BEFORE(dlclose, v)(so);

	hm_hook_end(number);
	if (ret == 0)
		renew();
	return ret;
}
HM_HOOK(int, dlclose, (void *so), so);

struct hm_hook *const hm_hooks_load[] = { &hook_dlopen, &hook_dlmopen, &hook_dlclose, NULL };
