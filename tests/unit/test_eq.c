/* SPDX-License-Identifier: BSD-2-Clause */
/* Event queues through their public calls. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/queues.h"

static struct fid_eq *open_eq(struct fi_eq_attr attr)
{
	struct fid_eq *eq = NULL;

	assert_int_equal(hm_eq_open(&fabric.fabric, &attr, &eq, &attr), 0);
	assert_ptr_equal(eq->fid.context, &attr);
	return eq;
}

static void eq_is_complete(void **state)
{
	struct fid_eq *eq = open_eq((struct fi_eq_attr){ .wait_obj = FI_WAIT_FD });

	(void)state;
	assert_int_equal(eq->ops->size, sizeof(struct fi_ops_eq));
	check_fid(&eq->fid, &fabric.fabric.fid, &hm_eq_of(&eq->fid)->users, &fabric.users);
}

static void eq_open_refuses(void **state)
{
	static const struct {
		struct fi_eq_attr attr;
		int ret;
	} cases[] = {
		{ { .flags = FI_READ }, -FI_EBADFLAGS },
		{ { .flags = FI_WRITE | FI_XPU }, -FI_EBADFLAGS },
		{ { .wait_obj = FI_WAIT_SET }, -FI_ENOSYS },
		{ { .wait_obj = FI_WAIT_MUTEX_COND }, -FI_ENOSYS },
		{ { .wait_obj = (enum fi_wait_obj)7 }, -FI_EINVAL },
	};
	struct fid_eq *const mark = (struct fid_eq *)16;
	struct fi_eq_attr attr = { 0 };
	struct fid_eq *eq = mark;

	(void)state;
	assert_refused(hm_eq_open(&fabric.fabric, NULL, &eq, NULL), -FI_EINVAL);
	assert_refused(hm_eq_open(&fabric.fabric, &attr, NULL, NULL), -FI_EINVAL);
	for (size_t i = 0; i < count_of(cases); i++) {
		attr = cases[i].attr;
		assert_refused(hm_eq_open(&fabric.fabric, &attr, &eq, NULL), cases[i].ret);
		assert_ptr_equal(eq, mark);
		assert_int_equal(fabric.users, 0);
	}
}

static void push_event(struct fid_eq *eq, uint32_t event, uint64_t data)
{
	struct fi_eq_entry entry = { &eq->fid, &fabric, data };

	assert_int_equal(hm_eq_push(hm_eq_of(&eq->fid), event, &entry), 0);
}

static void eq_reads(void **state)
{
	struct fid_eq *eq = open_eq((struct fi_eq_attr){ .size = 1 });
	struct fi_eq_entry entry = { 0 };
	uint32_t event = 99;

	(void)state;
	warning_count = 0;
	assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	/* More than the size asked for: nothing is lost. */
	for (uint64_t i = 0; i < 3; i++)
		push_event(eq, FI_MR_COMPLETE, i);
	push_event(eq, FI_AV_COMPLETE, 3);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), FI_PEEK),
				 sizeof(entry));
		assert_int_equal(entry.data, 0);
	}
	assert_int_equal(warning_count, 0);
	event = 99;
	entry.data = 98;
	assert_refused(fi_eq_read(eq, &event, &entry, sizeof(entry) - 1, 0), -FI_ETOOSMALL);
	assert_refused(fi_eq_read(eq, &event, NULL, 0, 0), -FI_ETOOSMALL);
	assert_refused(fi_eq_read(eq, &event, NULL, sizeof(entry), 0), -FI_EINVAL);
	assert_refused(fi_eq_read(eq, NULL, &entry, sizeof(entry), 0), -FI_EINVAL);
	assert_refused(fi_eq_read(eq, &event, &entry, sizeof(entry), FI_MORE), -FI_EBADFLAGS);
	assert_refused(fi_eq_sread(eq, &event, &entry, sizeof(entry), 0, 0), -FI_ENOSYS);
	assert_refused(hm_eq_trywait(hm_eq_of(&eq->fid)), -FI_EINVAL);
	assert_int_equal(event, 99);
	assert_int_equal(entry.data, 98);
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(fi_eq_read(eq, &event, &entry, 2 * sizeof(entry), 0),
				 sizeof(entry));
		assert_int_equal(event, i < 3 ? FI_MR_COMPLETE : FI_AV_COMPLETE);
		assert_int_equal(entry.data, i);
		assert_ptr_equal(entry.fid, &eq->fid);
		assert_ptr_equal(entry.context, &fabric);
	}
	assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	/* Events that nobody read are lost, not leaked. */
	push_event(eq, FI_MR_COMPLETE, 0);
	fi_close(&eq->fid);
}

static void eq_errors(void **state)
{
	struct fi_eq_err_entry error = { .data = 5, .err = FI_EINVAL, .prov_errno = FI_EINVAL };
	struct fid_eq *eq = open_eq((struct fi_eq_attr){ 0 });
	struct fi_eq_err_entry got = { 0 };
	struct fi_eq_entry entry;
	char data[8], text[4];
	uint32_t event;

	(void)state;
	assert_int_equal(fi_eq_readerr(eq, &got, 0), -FI_EAGAIN);
	push_event(eq, FI_AV_COMPLETE, 1);
	for (int i = 0; i < 2; i++) {
		error.data++;
		assert_int_equal(hm_eq_push_error(hm_eq_of(&eq->fid), &error), 0);
	}
	/* They go before the event that came first. */
	assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
	assert_refused(fi_eq_readerr(eq, NULL, 0), -FI_EINVAL);
	assert_refused(fi_eq_readerr(eq, &got, FI_PEEK), -FI_EBADFLAGS);
	got.err_data = data;
	assert_int_equal(fi_eq_readerr(eq, &got, 0), sizeof(got));
	assert_int_equal(got.data, 6);
	assert_int_equal(got.err, FI_EINVAL);
	assert_null(got.err_data);
	assert_int_equal(got.err_data_size, 0);
	got.err_data = data;
	got.err_data_size = sizeof(data);
	assert_int_equal(fi_eq_readerr(eq, &got, 0), sizeof(got));
	assert_int_equal(got.data, 7);
	assert_ptr_equal(got.err_data, data);
	assert_int_equal(got.err_data_size, 0);
	assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	assert_string_equal(fi_eq_strerror(eq, FI_EINVAL, NULL, NULL, 0), fi_strerror(FI_EINVAL));
	assert_non_null(fi_eq_strerror(eq, 123456, NULL, text, sizeof(text)));
	assert_int_equal(strlen(text), 3);
	assert_int_equal(hm_eq_push_error(hm_eq_of(&eq->fid), &error), 0);
	fi_close(&eq->fid);
}

static void eq_writes(void **state)
{
	struct fid_eq *eq = open_eq((struct fi_eq_attr){ 0 });
	static char big[5000], got[5000];
	uint32_t event;

	(void)state;
	assert_refused(fi_eq_write(eq, FI_NOTIFY, "abc", 3, 0), -FI_EINVAL);
	fi_close(&eq->fid);
	eq = open_eq((struct fi_eq_attr){ .flags = FI_WRITE | FI_AFFINITY, .signaling_vector = 3 });
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i % 251);
	assert_refused(fi_eq_write(eq, FI_NOTIFY, NULL, 3, 0), -FI_EINVAL);
	assert_refused(fi_eq_write(eq, FI_NOTIFY, big, 0, 0), -FI_EINVAL);
	assert_refused(fi_eq_write(eq, FI_NOTIFY, big, 4097, 0), -FI_EINVAL);
	assert_refused(fi_eq_write(eq, FI_NOTIFY, big, SIZE_MAX, 0), -FI_EINVAL);
	assert_refused(fi_eq_write(eq, FI_NOTIFY, big, 3, FI_MORE), -FI_EBADFLAGS);
	assert_int_equal(fi_eq_read(eq, &event, got, sizeof(got), 0), -FI_EAGAIN);
	assert_int_equal(fi_eq_write(eq, 1000, big, 1, 0), 1);
	assert_int_equal(fi_eq_write(eq, FI_SHUTDOWN, big, 4096, 0), 4096);
	assert_int_equal(fi_eq_read(eq, &event, got, sizeof(got), 0), 1);
	assert_int_equal(event, 1000);
	assert_int_equal(fi_eq_read(eq, &event, got, sizeof(got), 0), 4096);
	assert_int_equal(event, FI_SHUTDOWN);
	assert_memory_equal(got, big, 4096);
	fi_close(&eq->fid);
}

static void *write_event(void *arg)
{
	struct fi_eq_entry entry = { .data = 42 };

	return (void *)(intptr_t)fi_eq_write(arg, FI_NOTIFY, &entry, sizeof(entry), 0);
}

static void eq_waits(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(sleeping); i++) {
		struct fid_eq *eq =
			open_eq((struct fi_eq_attr){ .flags = FI_WRITE, .wait_obj = sleeping[i] });
		struct fi_eq_entry entry = { 0 };
		double start = now_ms();
		uint32_t event = 9;
		pthread_t thread;

		assert_int_equal(fi_eq_sread(eq, &event, &entry, sizeof(entry), 0, 0), -FI_EAGAIN);
		assert_int_equal(fi_eq_sread(eq, &event, &entry, sizeof(entry), 20, 0), -FI_EAGAIN);
		assert_true(now_ms() - start >= 19);
		assert_int_equal(pthread_create(&thread, NULL, write_event, eq), 0);
		assert_int_equal(fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0),
				 sizeof(entry));
		assert_int_equal(event, FI_NOTIFY);
		assert_int_equal(entry.data, 42);
		pthread_join(thread, NULL);
		/* Refusals end the wait at once, and once. */
		push_event(eq, FI_MR_COMPLETE, 0);
		assert_refused(fi_eq_sread(eq, &event, &entry, 1, -1, 0), -FI_ETOOSMALL);
		assert_int_equal(hm_eq_push_error(hm_eq_of(&eq->fid),
						  &(struct fi_eq_err_entry){ .err = FI_EIO }),
				 0);
		assert_int_equal(fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0), -FI_EAVAIL);
		fi_close(&eq->fid);
	}
}

static void eq_fd(void **state)
{
	struct fid_eq *eq = open_eq((struct fi_eq_attr){ .wait_obj = FI_WAIT_FD });
	struct hm_eq *inside = hm_eq_of(&eq->fid);
	struct fi_eq_entry entry;
	uint32_t event;

	(void)state;
	assert_int_equal(hm_eq_trywait(inside), 0);
	assert_false(readable(&eq->fid));
	push_event(eq, FI_AV_COMPLETE, 1);
	assert_true(readable(&eq->fid));
	assert_int_equal(hm_eq_trywait(inside), -FI_EAGAIN);
	assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	assert_int_equal(hm_eq_trywait(inside), 0);
	assert_int_equal(hm_eq_push_error(inside, &(struct fi_eq_err_entry){ .err = FI_EIO }), 0);
	assert_true(readable(&eq->fid));
	assert_int_equal(hm_eq_trywait(inside), -FI_EAGAIN);
	fi_close(&eq->fid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(eq_is_complete), cmocka_unit_test(eq_open_refuses),
		cmocka_unit_test(eq_reads),	  cmocka_unit_test(eq_errors),
		cmocka_unit_test(eq_writes),	  cmocka_unit_test(eq_waits),
		cmocka_unit_test(eq_fd),
	};

	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
