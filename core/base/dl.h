/* SPDX-License-Identifier: BSD-2-Clause */
/* Libraries loaded at run time: a table of functions, filled by name. */
#ifndef HM_BASE_DL_H
#define HM_BASE_DL_H

#include <stddef.h>

#include <rdma/fi_ext_hmreg.h>

struct hm_dl_symbol {
	const char *name;
	void **slot;
	const char *other; /* a name to try next, or NULL */
	int optional;	   /* slot stays NULL without it */
};

/* How libraries are loaded: dlopen(3), dlsym(3), dlclose(3); a test puts its own here before a load. */
struct hm_dl_loader {
	void *(*open)(const char *file, int flags);
	void *(*symbol)(void *library, const char *name);
	int (*close)(void *library);
};
extern struct hm_dl_loader hm_dl_loader;

/*
 * Load file and fill every slot.  The library is local to the caller and stays until exit.  0, or
 * -FI_ENOSYS: reason (of size bytes) says what is missing, nothing stays loaded and slots are NULL.
 */
int hm_dl_load(const char *file, const struct hm_dl_symbol *symbols, size_t count, char *reason,
	       size_t size);
/* The same of a library that may be closed again: it, or NULL. */
void *hm_dl_open(const char *file, const struct hm_dl_symbol *symbols, size_t count, char *reason,
		 size_t size);
/*
 * Why this thread's last load failed: HMREG_CAUSE_LIBRARY_ABSENT, _BROKEN (it is there, but itself or what it
 * needs is not fit to be loaded) or _OLD (a function is missing).
 */
enum hmreg_cause hm_dl_cause(void);
void hm_dl_close(void *library, const struct hm_dl_symbol *symbols, size_t count);
/* The file that holds this function, as the loader found it; "" unknown.  Returns path. */
char *hm_dl_path(const void *function, char *path, size_t size);

#endif
