/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/dl.h"

#include <dlfcn.h>
#include <stdio.h>

#include <rdma/fi_errno.h>

static void *find(void *library, const struct hm_dl_symbol *symbol)
{
	void *found = dlsym(library, symbol->name);

	return found || !symbol->other ? found : dlsym(library, symbol->other);
}

int hm_dl_load(const char *file, const struct hm_dl_symbol *symbols, size_t count, char *reason,
	       size_t size)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		snprintf(reason, size, "%s", dlerror());
		return -FI_ENOSYS;
	}
	for (size_t i = 0; i < count; i++) {
		*symbols[i].slot = find(library, &symbols[i]);
		if (*symbols[i].slot || symbols[i].optional)
			continue;
		snprintf(reason, size, "%s has no %s", file, symbols[i].name);
		while (i-- > 0)
			*symbols[i].slot = NULL;
		dlclose(library);
		return -FI_ENOSYS;
	}
	return 0;
}

char *hm_dl_path(const void *function, char *path, size_t size)
{
	Dl_info info;

	snprintf(path, size, "%s", dladdr(function, &info) && info.dli_fname ? info.dli_fname : "");
	return path;
}
