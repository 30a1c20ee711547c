/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters through their public calls. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/queues.h"

static struct fid_cntr *open_cntr(struct fi_cntr_attr attr)
{
	struct fid_cntr *cntr = NULL;

	assert_int_equal(hm_cntr_open(&domain.domain, &attr, &cntr, &attr), 0);
	assert_ptr_equal(cntr->fid.context, &attr);
	return cntr;
}

static void cntr_is_complete(void **state)
{
	struct fid_cntr *cntr = open_cntr((struct fi_cntr_attr){ .wait_obj = FI_WAIT_FD });

	(void)state;
	assert_int_equal(cntr->ops->size, sizeof(struct fi_ops_cntr));
	check_fid(&cntr->fid, &domain.domain.fid, &hm_cntr_of(&cntr->fid)->nic.users,
		  &domain.users);
}

static void cntr_open_refuses(void **state)
{
	static const struct {
		struct fi_cntr_attr attr;
		int ret;
	} cases[] = {
		{ { .flags = 1 }, -FI_EBADFLAGS },
		{ { .flags = FI_XPU }, -FI_ENOSYS },
		{ { .xpu_ctx = (void *)8 }, -FI_EINVAL },
		{ { .events = (enum fi_cntr_events)2 }, -FI_EINVAL },
		{ { .events = (enum fi_cntr_events) - 1 }, -FI_EINVAL },
		{ { .wait_obj = FI_WAIT_SET }, -FI_ENOSYS },
		{ { .wait_obj = FI_WAIT_MUTEX_COND }, -FI_ENOSYS },
		{ { .wait_obj = (enum fi_wait_obj) - 1 }, -FI_EINVAL },
	};
	struct fid_cntr *const mark = (struct fid_cntr *)16;
	struct fi_cntr_attr attr = { 0 };
	struct fid_cntr *cntr = mark;

	(void)state;
	assert_refused(hm_cntr_open(&domain.domain, NULL, &cntr, NULL), -FI_EINVAL);
	assert_refused(hm_cntr_open(&domain.domain, &attr, NULL, NULL), -FI_EINVAL);
	for (size_t i = 0; i < count_of(cases); i++) {
		attr = cases[i].attr;
		assert_refused(hm_cntr_open(&domain.domain, &attr, &cntr, NULL), cases[i].ret);
		assert_ptr_equal(cntr, mark);
		assert_int_equal(domain.users, 0);
	}
}

static void cntr_values(void **state)
{
	struct fid_cntr *cntr = open_cntr((struct fi_cntr_attr){ 0 });

	(void)state;
	assert_int_equal(fi_cntr_read(cntr), 0);
	assert_int_equal(fi_cntr_add(cntr, 7), 0);
	assert_int_equal(fi_cntr_add(cntr, 3), 0);
	assert_int_equal(fi_cntr_adderr(cntr, 2), 0);
	assert_int_equal(fi_cntr_read(cntr), 10);
	assert_int_equal(fi_cntr_readerr(cntr), 2);
	assert_int_equal(fi_cntr_set(cntr, UINT64_MAX), 0);
	assert_int_equal(fi_cntr_seterr(cntr, 40), 0);
	assert_true(fi_cntr_read(cntr) == UINT64_MAX);
	assert_int_equal(fi_cntr_readerr(cntr), 40);
	assert_int_equal(fi_cntr_add(cntr, 6), 0);
	assert_int_equal(fi_cntr_read(cntr), 5);
	assert_refused(fi_cntr_wait(cntr, 0, 0), -FI_ENOSYS);
	assert_refused(fi_cntr_export_xpu(cntr, 0, NULL), -FI_ENOSYS);
	assert_refused(hm_cntr_trywait(hm_cntr_of(&cntr->fid)), -FI_EINVAL);
	fi_close(&cntr->fid);
}

static struct fid_cntr *fed;

static void count_one(void)
{
	fi_cntr_add(fed, 1);
}

/* Whoever looks at a counter lets the NIC move on first. */
static void cntr_progress(void **state)
{
	struct fid_cntr *cntr = open_cntr((struct fi_cntr_attr){ .wait_obj = FI_WAIT_FD });

	(void)state;
	fed = cntr;
	on_progress = count_one;
	progress_count = 0;
	assert_int_equal(fi_cntr_read(cntr), 1);
	assert_int_equal(fi_cntr_readerr(cntr), 0);
	assert_int_equal(progress_count, 2);
	assert_int_equal(fi_cntr_wait(cntr, 3, -1), 0);
	assert_int_equal(progress_count, 3);
	assert_int_equal(hm_cntr_trywait(hm_cntr_of(&cntr->fid)), -FI_EAGAIN);
	assert_int_equal(progress_count, 4);
	on_progress = NULL;
	fi_close(&cntr->fid);
}

struct waiter {
	struct fid_cntr *cntr;
	uint64_t threshold;
	int ret;
};

static void *cntr_sleep(void *arg)
{
	struct waiter *w = arg;

	w->ret = fi_cntr_wait(w->cntr, w->threshold, -1);
	return NULL;
}

/* Returns when n threads sleep on the counter; yielding ones cannot be seen. */
static void await_sleepers(struct fid_cntr *cntr, unsigned int n)
{
	struct hm_wait *wait = &hm_cntr_of(&cntr->fid)->nic.wait;

	while (wait->obj != FI_WAIT_YIELD && atomic_load(&wait->listeners) / HM_WAIT_SLEEPER != n)
		sched_yield();
}

static void cntr_waits(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(sleeping); i++) {
		struct fid_cntr *cntr = open_cntr((struct fi_cntr_attr){ .wait_obj = sleeping[i] });
		struct waiter w[2] = { { .cntr = cntr, .threshold = 2, .ret = 1 },
				       { .cntr = cntr, .threshold = 3, .ret = 1 } };
		pthread_t threads[2];
		double start = now_ms();

		assert_int_equal(fi_cntr_wait(cntr, 0, 0), 0);
		assert_int_equal(fi_cntr_wait(cntr, 1, 0), -FI_ETIMEDOUT);
		assert_int_equal(fi_cntr_wait(cntr, 1, 20), -FI_ETIMEDOUT);
		assert_true(now_ms() - start >= 19);
		for (int t = 0; t < 2; t++)
			assert_int_equal(pthread_create(&threads[t], NULL, cntr_sleep, &w[t]), 0);
		nic_cntr_done(&hm_cntr_of(&cntr->fid)->nic, 100);
		await_sleepers(cntr, 2);
		fi_cntr_add(cntr, 1);
		pthread_join(threads[0], NULL);
		assert_int_equal(w[0].ret, 0);
		await_sleepers(cntr, 1);
		fi_cntr_set(cntr, 3);
		pthread_join(threads[1], NULL);
		assert_int_equal(w[1].ret, 0);
		fi_close(&cntr->fid);
	}
}

static void cntr_errors_end_waits(void **state)
{
	struct fid_cntr *cntr = open_cntr((struct fi_cntr_attr){ .wait_obj = FI_WAIT_UNSPEC });
	struct hm_cntr *inside = hm_cntr_of(&cntr->fid);
	struct waiter w[2] = { { .cntr = cntr, .threshold = 2 }, { .cntr = cntr, .threshold = 3 } };
	pthread_t threads[2];

	(void)state;
	/* Every waiter is told. */
	for (int t = 0; t < 2; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, cntr_sleep, &w[t]), 0);
	await_sleepers(cntr, 2);
	nic_cntr_failed(&inside->nic);
	for (int t = 0; t < 2; t++) {
		pthread_join(threads[t], NULL);
		assert_int_equal(w[t].ret, -FI_EAVAIL);
	}
	/* So does the application's own change. */
	for (int i = 0; i < 2; i++) {
		w[0].ret = 0;
		assert_int_equal(pthread_create(&threads[0], NULL, cntr_sleep, &w[0]), 0);
		await_sleepers(cntr, 1);
		assert_int_equal(i ? fi_cntr_seterr(cntr, 1) : fi_cntr_adderr(cntr, 1), 0);
		pthread_join(threads[0], NULL);
		assert_int_equal(w[0].ret, -FI_EAVAIL);
	}
	/* An error once told of does not end later waits... */
	assert_int_equal(fi_cntr_wait(cntr, 1, 5), -FI_ETIMEDOUT);
	/* ...one that came before the wait does, unless it was read. */
	nic_cntr_failed(&inside->nic);
	assert_int_equal(fi_cntr_wait(cntr, 1, -1), -FI_EAVAIL);
	nic_cntr_failed(&inside->nic);
	assert_int_equal(fi_cntr_readerr(cntr), 3);
	assert_int_equal(fi_cntr_wait(cntr, 1, 5), -FI_ETIMEDOUT);
	assert_int_equal(fi_cntr_seterr(cntr, 0), 0);
	assert_int_equal(fi_cntr_wait(cntr, 1, 5), -FI_ETIMEDOUT);
	assert_int_equal(fi_cntr_adderr(cntr, 1), 0);
	assert_int_equal(fi_cntr_wait(cntr, 1, -1), -FI_EAVAIL);
	/* The threshold comes first. */
	nic_cntr_failed(&inside->nic);
	fi_cntr_set(cntr, 1);
	assert_int_equal(fi_cntr_wait(cntr, 1, -1), 0);
	fi_close(&cntr->fid);
}

static void cntr_fd(void **state)
{
	struct fid_cntr *fid = open_cntr((struct fi_cntr_attr){ .wait_obj = FI_WAIT_FD });
	struct hm_cntr *cntr = hm_cntr_of(&fid->fid);

	(void)state;
	assert_int_equal(hm_cntr_trywait(cntr), 0);
	assert_false(readable(&fid->fid));
	nic_cntr_done(&cntr->nic, 1);
	assert_true(readable(&fid->fid));
	/* Once per change, so that the caller looks at the counter again. */
	assert_int_equal(hm_cntr_trywait(cntr), -FI_EAGAIN);
	assert_int_equal(hm_cntr_trywait(cntr), 0);
	assert_false(readable(&fid->fid));
	nic_cntr_failed(&cntr->nic);
	assert_true(readable(&fid->fid));
	assert_int_equal(hm_cntr_trywait(cntr), -FI_EAGAIN);
	assert_int_equal(hm_cntr_trywait(cntr), 0);
	fi_close(&fid->fid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cntr_is_complete), cmocka_unit_test(cntr_open_refuses),
		cmocka_unit_test(cntr_values),	    cmocka_unit_test(cntr_progress),
		cmocka_unit_test(cntr_waits),	    cmocka_unit_test(cntr_errors_end_waits),
		cmocka_unit_test(cntr_fd),
	};

	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
