/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/dl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_errno.h>

struct hm_dl_loader hm_dl_loader = { dlopen, dlsym, dlclose };

static _Thread_local enum hmreg_cause cause __attribute__((tls_model("initial-exec")));

enum hmreg_cause hm_dl_cause(void)
{
	return cause;
}

/* "FILE: cannot open shared object file: No such file or directory", and nothing else, is an absent one. */
static bool is_absent(const char *file, const char *why)
{
	size_t len = strlen(file);

	return strncmp(why, file, len) == 0 && why[len] == ':' && strstr(why, "No such file");
}

static void *find(void *library, const struct hm_dl_symbol *symbol)
{
	void *found = hm_dl_loader.symbol(library, symbol->name);

	return found || !symbol->other ? found : hm_dl_loader.symbol(library, symbol->other);
}

void hm_dl_close(void *library, const struct hm_dl_symbol *symbols, size_t count)
{
	while (count-- > 0)
		*symbols[count].slot = NULL;
	hm_dl_loader.close(library);
}

void *hm_dl_open(const char *file, const struct hm_dl_symbol *symbols, size_t count, char *reason,
		 size_t size)
{
	void *library = hm_dl_loader.open(file, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		const char *why = dlerror();

		snprintf(reason, size, "%s", why ? why : file);
		cause = !why || is_absent(file, why) ? HMREG_CAUSE_LIBRARY_ABSENT
						     : HMREG_CAUSE_LIBRARY_BROKEN;
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		*symbols[i].slot = find(library, &symbols[i]);
		if (*symbols[i].slot || symbols[i].optional)
			continue;
		snprintf(reason, size, "%s has no %s", file, symbols[i].name);
		cause = HMREG_CAUSE_LIBRARY_OLD;
		hm_dl_close(library, symbols, i);
		return NULL;
	}
	return library;
}

int hm_dl_load(const char *file, const struct hm_dl_symbol *symbols, size_t count, char *reason,
	       size_t size)
{
	return hm_dl_open(file, symbols, count, reason, size) ? 0 : -FI_ENOSYS;
}

char *hm_dl_path(const void *function, char *path, size_t size)
{
	Dl_info info;

	snprintf(path, size, "%s", dladdr(function, &info) && info.dli_fname ? info.dli_fname : "");
	return path;
}
