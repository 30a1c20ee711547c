/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls for several NICs (HMREG_MULTI_OPS) on many threads at once, each with threads of its own: registrations,
 * parts, some that are refused because a key is in use, and some that another thread stops.  At the end every
 * domain's figures are 0.
 */
#include "tests/stress/stress.h"

#define NICS	4
#define WORKERS 4
#define ROUNDS	400
#define LEN	65536

static struct {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain[NICS];
	struct hmreg_multi_ops *ops;
	struct hmreg_domain_ops *figures;
	int stop; /* set and taken back all the time */
	_Atomic bool over;
	_Atomic unsigned made, refused, stopped;
} s;

static void open_all(const char *profile)
{
	struct fi_info *hints = fi_allocinfo();

	assert_non_null(hints);
	hints->domain_attr->name = strdup(profile);
	hints->domain_attr->mr_mode = 0x1fff & ~(FI_MR_BASIC | FI_MR_SCALABLE);
	assert_int_equal(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &s.info), 0);
	fi_freeinfo(hints);
	assert_int_equal(fi_fabric(s.info->fabric_attr, &s.fabric, NULL), 0);
	for (size_t i = 0; i < NICS; i++)
		assert_int_equal(fi_domain(s.fabric, s.info, &s.domain[i], NULL), 0);
	assert_int_equal(fi_open_ops(&s.domain[0]->fid, HMREG_MULTI_OPS, 0, (void **)&s.ops, NULL),
			 0);
	assert_int_equal(
		fi_open_ops(&s.domain[0]->fid, HMREG_DOMAIN_OPS, 0, (void **)&s.figures, NULL), 0);
}

static void close_all(void)
{
	for (size_t i = 0; i < NICS; i++) {
		struct hmreg_domain_stats stats = { .size = sizeof(stats) };

		assert_int_equal(s.figures->stats(&s.domain[i]->fid, &stats), 0);
		assert_int_equal(stats.regions, 0);
		assert_int_equal(stats.registered_bytes, 0);
		assert_int_equal(fi_close(&s.domain[i]->fid), 0);
	}
	assert_int_equal(fi_close(&s.fabric->fid), 0);
	fi_freeinfo(s.info);
}

static void count(int ret)
{
	if (ret == 0)
		s.made++;
	else if (ret == -FI_ECANCELED)
		s.stopped++;
	else if (ret == -FI_ENOKEY)
		s.refused++;
	else
		abort();
}

/* Workers' keys meet now and then. */
static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	char *buf = malloc(LEN);
	struct iovec iov = { buf, LEN };

	for (unsigned i = 0; buf && i < ROUNDS; i++) {
		struct hmreg_multi_call call = { .size = sizeof(call),
						 .threads = 1 + i % NICS,
						 .stop = i % 8 == 7 ? &s.stop : NULL };
		struct fi_mr_attr attr = { .mr_iov = &iov,
					   .iov_count = 1,
					   .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
					   .requested_key = (seed * 3 + i) % 7 };
		struct hmreg_multi *multi, *sub;
		int ret = s.ops->reg(s.domain, NICS, &attr, 0, &call, &multi);

		count(ret);
		if (ret != 0)
			continue;
		ret = s.ops->sub(multi, buf + i, 100, FI_REMOTE_READ, 1000 + (seed + i) % 5, 0,
				 &call, &sub);
		count(ret);
		if (ret == 0 && (fi_close(&multi->fid) != -FI_EBUSY || fi_close(&sub->fid) != 0))
			abort();
		if (fi_close(&multi->fid) != 0)
			abort();
	}
	free(buf);
	return NULL;
}

static void *stopper(void *arg)
{
	(void)arg;
	while (!s.over)
		__atomic_store_n(&s.stop, __atomic_load_n(&s.stop, __ATOMIC_RELAXED) ^ 1,
				 __ATOMIC_RELAXED);
	return NULL;
}

static void on(const char *profile)
{
	pthread_t worker[WORKERS], other;

	memset(&s, 0, sizeof(s));
	open_all(profile);
	assert_int_equal(pthread_create(&other, NULL, stopper, NULL), 0);
	for (size_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&worker[i], NULL, work, (void *)(i + 1)), 0);
	for (size_t i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_join(worker[i], NULL), 0);
	s.over = true;
	assert_int_equal(pthread_join(other, NULL), 0);
	printf("%s: %u made, %u refused, %u stopped\n", profile, s.made, s.refused, s.stopped);
	assert_true(s.made > 0);
	close_all();
}

static void fn_05_api_19_calls_at_once(void **state)
{
	(void)state;
	on("sw-scalable");
	on("sw-verbs");
	on("sw-strict");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(fn_05_api_19_calls_at_once) };

	return cmocka_run_group_tests_name("stress_multi", tests, NULL, NULL);
}
