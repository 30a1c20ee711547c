/* SPDX-License-Identifier: BSD-2-Clause */
/* The shared library can be loaded, used and unloaded at run time, also again and from threads. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fabric.h>

/* Names the library's file; CMake says which. */
static const char *const library = HMREG_LIBRARY;

struct entries {
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		       struct fi_info **);
	void (*freeinfo)(struct fi_info *);
	char *(*tostr)(const void *, enum fi_type);
	uint32_t (*version)(void);
};

static void *load(struct entries *e)
{
	void *so = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!so)
		fail_msg("%s", dlerror());
	*(void **)&e->getinfo = dlsym(so, "fi_getinfo");
	*(void **)&e->freeinfo = dlsym(so, "fi_freeinfo");
	*(void **)&e->tostr = dlsym(so, "fi_tostr");
	*(void **)&e->version = dlsym(so, "fi_version");
	assert_true(e->getinfo && e->freeinfo && e->tostr && e->version);
	return so;
}

static void *use(void *arg)
{
	struct entries *e = arg;
	struct fi_info *info = NULL;
	void *text = NULL;

	if (e->getinfo(e->version(), NULL, NULL, 0, NULL, &info) == 0)
		text = strstr(e->tostr(info, FI_TYPE_INFO), "hmreg");
	e->freeinfo(info);
	return text ? e : NULL;
}

static void api_01_loads_at_run_time(void **state)
{
	struct entries e;

	(void)state;
	for (int i = 0; i < 3; i++) {
		void *so = load(&e), *worked = NULL;
		pthread_t thread;

		assert_non_null(use(&e));
		assert_int_equal(pthread_create(&thread, NULL, use, &e), 0);
		pthread_join(thread, &worked);
		assert_non_null(worked);
		assert_int_equal(dlclose(so), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(api_01_loads_at_run_time) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
