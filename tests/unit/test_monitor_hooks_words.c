/* SPDX-License-Identifier: BSD-2-Clause */
/* The monitor memhooks: words are put back, objects come and go, and where hooks may run. */
#include <link.h>
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "hooks_scene.h"
#include "tests/fds.h"

/* ---- words ---- */

#define MOST_WORDS 200000
static void *word[2][MOST_WORDS];
static size_t words;

#if defined(__SANITIZE_ADDRESS__)
__attribute__((no_sanitize("address", "undefined"))) /* words between variables, too */
#endif
static int
copy_words(struct dl_phdr_info *info, size_t size, void *to)
{
	const ElfW(Rela) * rela[2] = { NULL, NULL };
	size_t count[2] = { 0, 0 };
	const ElfW(Dyn) *d = NULL;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	if (strstr(info->dlpi_name, "vdso"))
		return 0;
	for (; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_RELA)
			rela[0] = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_RELASZ)
			count[0] = d->d_un.d_val / sizeof(ElfW(Rela));
		else if (d->d_tag == DT_JMPREL)
			rela[1] = (const void *)d->d_un.d_ptr;
		else if (d->d_tag == DT_PLTRELSZ)
			count[1] = d->d_un.d_val / sizeof(ElfW(Rela));
	}
	for (int t = 0; t < 2; t++)
		for (size_t i = 0; rela[t] && i < count[t]; i++)
			if (ELF64_R_SYM(rela[t][i].r_info) != 0) {
				assert_true(words < MOST_WORDS);
				((void **)to)[words++] =
					*(void *const volatile *)(info->dlpi_addr +
								  rela[t][i].r_offset);
			}
	return 0;
}

static size_t copy_all(int set)
{
	words = 0;
	dl_iterate_phdr(copy_words, word[set]);
	return words;
}

static void words_are_put_back(void)
{
	size_t count, differ = 0;
	char why[256];

	start(); /* what binds lazily on the way is bound now */
	copy_all(0);
	copy_all(1);
	hm_monitor_hooks.stop();
	count = copy_all(0);
	assert_int_equal(hm_monitor_hooks.start(why, sizeof(why)), 0);
	assert_int_equal(copy_all(1), count);
	for (size_t i = 0; i < count; i++)
		differ += word[0][i] != word[1][i];
	assert_true(differ > 2 * 20); /* of the two modules alone */
	hm_monitor_hooks.stop();
	assert_int_equal(copy_all(1), count);
	assert_memory_equal(word[0], word[1], count * sizeof(void *));
}

/* Also those that nobody called yet: they are bound by their first call, as ever. */
static void lazy_words_stay_lazy(void)
{
	char *at;

	start();
	hm_monitor_hooks.stop();
	at = map(caller[2]);
	look_for(at);
	caller[2]->munmap(at, PAGES);
	assert_nothing();
	caller[2]->free(caller[2]->malloc(BIG));
}

/* ---- again and again ---- */

static size_t lines_of_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	size_t lines = 0;

	for (int c; (c = fgetc(maps)) != EOF;)
		lines += c == '\n';
	fclose(maps);
	return lines;
}

static void thousand_starts(void)
{
	size_t fds = 0, lines = 0;
	char why[256];

	for (int i = 0; i < (SANITIZED ? 50 : 1000); i++) {
		assert_int_equal(hm_monitor_hooks.start(why, sizeof(why)), 0);
		hm_monitor_hooks.stop();
		if (i == 10) {
			fds = test_fds();
			lines = lines_of_maps();
		}
	}
	assert_int_equal(test_fds(), fds);
	if (!SANITIZED) /* whose runtime maps more */
		assert_in_range(lines_of_maps(), 1, lines + 2);
}

static _Atomic bool done;

static void *maps_all_the_time(void *arg)
{
	const struct hooks_calls *c = arg;

	while (!done) {
		char *at = map(c), *block = c->malloc(100000);

		c->madvise(at, PAGE, MADV_DONTNEED);
		assert_int_equal(at[0], 0);
		assert_int_equal(at[PAGE], 1);
		c->munmap(at, PAGES);
		c->free(c->realloc(block, 200000));
	}
	return arg;
}

static void *loads_all_the_time(void *arg)
{
	while (!done) {
		void *so = dlopen(HOOKS_LAZY, RTLD_LAZY);
		const struct hooks_calls *c = so ? dlsym(so, "hooks_calls") : NULL;

		assert_non_null(c);
		c->munmap(map(c), PAGES);
		assert_int_equal(dlclose(so), 0);
	}
	return arg;
}

static void starts_beside_threads(void)
{
	pthread_t thread[3];
	char why[256];

	caller[1] = load(1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL,
						i < 2 ? maps_all_the_time : loads_all_the_time,
						(void *)caller[i % 2]),
				 0);
	for (int i = 0; i < 100; i++) {
		if (hm_monitor_hooks.start(why, sizeof(why)) != 0)
			fail_msg("%s", why);
		hm_monitor_hooks.stop();
	}
	done = true;
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
}

/* ---- loading and unloading ---- */

static void loads_by(const struct hooks_calls *c)
{
	const struct hooks_calls *calls;
	void *so, *none;
	char *at;

	/* by the run path of who calls, which the program has not */
	if (c != caller[0]) {
		so = c->dlopen("libhooks_on_path.so", RTLD_NOW);
		if (!so)
			fail_msg("%s", dlerror());
		calls = dlsym(so, "hooks_calls");
		at = map(calls);
		look_for(at);
		calls->munmap(at, PAGES);
		assert_seen(at, PAGES, PRESENT, ABSENT);
		look_for(calls);
		assert_int_equal(c->dlclose(so), 0);
		assert_seen(NULL, UINT64_MAX, PRESENT, ABSENT);
	}
	none = c->dlopen("libhooks_that_is_not.so", RTLD_NOW);
	assert_null(none);
	assert_non_null(strstr(dlerror(), "libhooks_that_is_not.so"));
}

static void *runs(void *arg)
{
	return arg;
}

/* The object that carries the library is closed with the hooks on, and the program goes on. */
static void carrier_is_closed(void)
{
	int (*carrier_start)(char *, size_t);
	const struct hooks_calls *c = load(1);
	void *so = dlopen(HOOKS_CARRIER, RTLD_NOW);
	pthread_t thread;
	char why[256] = "";

	if (!so)
		fail_msg("%s", dlerror());
	*(void **)&carrier_start = dlsym(so, "carrier_start");
	if (carrier_start(why, sizeof(why)) != 0)
		fail_msg("%s", why);
	assert_int_equal(dlclose(so), 0);
	c->munmap(map(c), PAGES);
	c->free(c->malloc(BIG));
	assert_int_equal(c->pthread_create(&thread, NULL, runs, NULL), 0);
	pthread_join(thread, NULL);
	so = dlopen(HOOKS_LAZY, RTLD_LAZY);
	assert_non_null(so);
	c = dlsym(so, "hooks_calls");
	c->munmap(map(c), PAGES);
	assert_int_equal(dlclose(so), 0);
}

/* ---- where hooks run ---- */

static char *in_handler;

static void unmap_in_handler(int signal)
{
	(void)signal;
	munmap(in_handler, PAGES);
}

static void raise_one(void)
{
	seen.meanwhile = NULL;
	raise(SIGUSR1);
}

static void hooks_interrupted_by(const struct hooks_calls *c)
{
	struct sigaction action = { .sa_handler = unmap_in_handler };
	char *at = map(c);
	int status;
	pid_t pid;

	in_handler = map(c);
	sigaction(SIGUSR1, &action, NULL);
	look_for(at);
	seen.meanwhile = raise_one;
	assert_int_equal(c->munmap(at, PAGES), 0);
	assert_seen(at, PAGES, PRESENT, ABSENT);
	assert_int_equal(page_at((uintptr_t)in_handler), ABSENT);
	at = map(c);
	pid = fork();
	if (pid == 0) {
		look_for(at);
		c->munmap(at, PAGES);
		if (seen.ends != 1)
			_exit(1);
		c->free(c->malloc(BIG));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	if (SANITIZED) /* whose runtime does not run in such a child */
		return;
	pid = vfork();
	if (pid == 0) {
		c->munmap(at, PAGES);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(page_at((uintptr_t)at), ABSENT);
}

CASE_EACH(cache_02_objects_unloaded, loads_by)
CASE_EACH(cache_06_hooks_in_signals_and_children, hooks_interrupted_by)
CASE(cache_06_words_are_put_back, words_are_put_back)
CASE(cache_06_lazy_words_stay_lazy, lazy_words_stay_lazy)
CASE(cache_06_thousand_starts, thousand_starts)
CASE(cache_06_starts_beside_threads, starts_beside_threads)
CASE(cache_06_carrier_is_closed, carrier_is_closed)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cache_02_objects_unloaded),
		cmocka_unit_test(cache_06_hooks_in_signals_and_children),
		cmocka_unit_test(cache_06_words_are_put_back),
		cmocka_unit_test(cache_06_lazy_words_stay_lazy),
		cmocka_unit_test(cache_06_thousand_starts),
		cmocka_unit_test(cache_06_starts_beside_threads),
		cmocka_unit_test(cache_06_carrier_is_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
