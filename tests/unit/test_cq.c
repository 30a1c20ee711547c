/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues through their public calls; completions are pushed as a NIC would. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/queues.h"

static struct fid_cq *open_cq(struct fi_cq_attr attr)
{
	struct fid_cq *cq = NULL;

	assert_int_equal(hm_cq_open(&domain.domain, &attr, &cq, &attr), 0);
	assert_ptr_equal(cq->fid.context, &attr);
	return cq;
}

static void push_done(struct fid_cq *fid, uint64_t data)
{
	struct nic_comp comp = { .data = data, .src_addr = FI_ADDR_NOTAVAIL };
	struct hm_cq *cq = hm_cq_of(&fid->fid);

	assert_int_equal(nic_cq_reserve(&cq->nic), 0);
	nic_cq_push(&cq->nic, &comp);
}

static void push_failed(struct fid_cq *fid, uint64_t data)
{
	struct nic_comp comp = {
		.op_context = &domain,
		.flags = FI_RMA | FI_WRITE,
		.len = 3,
		.data = data,
		.src_addr = 77,
		.err = FI_EACCES,
		.prov_errno = HMREG_NO_RIGHT,
		.olen = 5,
	};
	struct hm_cq *cq = hm_cq_of(&fid->fid);

	assert_int_equal(nic_cq_reserve(&cq->nic), 0);
	nic_cq_push(&cq->nic, &comp);
}

static void cq_is_complete(void **state)
{
	struct fid_cq *cq = open_cq((struct fi_cq_attr){ .wait_obj = FI_WAIT_FD });

	(void)state;
	assert_int_equal(cq->ops->size, sizeof(struct fi_ops_cq));
	check_fid(&cq->fid, &domain.domain.fid, &hm_cq_of(&cq->fid)->nic.users, &domain.users);
}

static void cq_open_refuses(void **state)
{
	static const struct {
		struct fi_cq_attr attr;
		uint32_t version;
		int ret;
	} cases[] = {
		{ { .flags = FI_WRITE }, HM_API_VERSION, -FI_EBADFLAGS },
		{ { .flags = FI_XPU | 1 }, HM_API_VERSION, -FI_EBADFLAGS },
		{ { .flags = FI_XPU }, HM_API_VERSION, -FI_ENOSYS },
		{ { .flags = FI_XPU, .xpu_ctx = (void *)8 }, HM_API_VERSION, -FI_ENOSYS },
		{ { .xpu_ctx = (void *)8 }, HM_API_VERSION, -FI_EINVAL },
		{ { .xpu_ctx = (void *)8 }, FI_VERSION(2, 6), -FI_EINVAL },
		{ { .size = NIC_CQ_SIZE_MAX + 1 }, HM_API_VERSION, -FI_EINVAL },
		{ { .size = SIZE_MAX }, HM_API_VERSION, -FI_EINVAL },
		{ { .format = FI_CQ_FORMAT_TAGGED + 1 }, HM_API_VERSION, -FI_EINVAL },
		{ { .format = (enum fi_cq_format) - 1 }, HM_API_VERSION, -FI_EINVAL },
		{ { .wait_obj = FI_WAIT_SET }, HM_API_VERSION, -FI_ENOSYS },
		{ { .wait_obj = FI_WAIT_MUTEX_COND }, HM_API_VERSION, -FI_ENOSYS },
		{ { .wait_obj = FI_WAIT_POLLFD }, HM_API_VERSION, -FI_ENOSYS },
		{ { .wait_obj = FI_WAIT_POLLFD + 1 }, HM_API_VERSION, -FI_EINVAL },
		{ { .wait_obj = FI_WAIT_FD, .wait_cond = FI_CQ_COND_THRESHOLD + 1 },
		  HM_API_VERSION,
		  -FI_EINVAL },
	};
	struct fid_cq *const mark = (struct fid_cq *)16;
	struct fi_cq_attr attr = { 0 };
	struct fid_cq *cq = mark;

	(void)state;
	assert_refused(hm_cq_open(&domain.domain, NULL, &cq, NULL), -FI_EINVAL);
	assert_refused(hm_cq_open(&domain.domain, &attr, NULL, NULL), -FI_EINVAL);
	for (size_t i = 0; i < count_of(cases); i++) {
		attr = cases[i].attr;
		domain.api_version = cases[i].version;
		assert_refused(hm_cq_open(&domain.domain, &attr, &cq, NULL), cases[i].ret);
		assert_ptr_equal(cq, mark);
		assert_int_equal(domain.users, 0);
	}
	domain.api_version = HM_API_VERSION;
}

static void cq_open_accepts(void **state)
{
	struct fid_cq *cq = open_cq((struct fi_cq_attr){ 0 });

	(void)state;
	assert_int_equal(hm_cq_of(&cq->fid)->format, FI_CQ_FORMAT_CONTEXT);
	assert_int_equal(hm_cq_of(&cq->fid)->nic.size, 1024);
	fi_close(&cq->fid);
	/* The vector is a hint; wait_cond is ignored where nobody waits. */
	cq = open_cq((struct fi_cq_attr){ .size = 5,
					  .flags = FI_AFFINITY,
					  .signaling_vector = 1 << 20,
					  .wait_cond = (enum fi_cq_wait_cond)9 });
	assert_int_equal(hm_cq_of(&cq->fid)->nic.size, 5);
	fi_close(&cq->fid);
	/* A program built for an older interface has no xpu_ctx: what stands there is not its own. */
	domain.api_version = FI_VERSION(1, 20);
	cq = open_cq((struct fi_cq_attr){ .xpu_ctx = (void *)8 });
	fi_close(&cq->fid);
	domain.api_version = HM_API_VERSION;
}

static void cq_reads(void **state)
{
	struct fid_cq *cq = open_cq((struct fi_cq_attr){ .format = FI_CQ_FORMAT_DATA });
	struct fi_cq_data_entry entries[4];
	fi_addr_t from[4] = { 0 };

	(void)state;
	warning_count = 0;
	assert_int_equal(fi_cq_read(cq, entries, 4), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(cq, NULL, 0), -FI_EAGAIN);
	for (uint64_t i = 0; i < 5; i++)
		push_done(cq, i);
	assert_int_equal(fi_cq_read(cq, NULL, 0), 0);
	assert_int_equal(fi_cq_readfrom(cq, entries, 4, from), 4);
	for (uint64_t i = 0; i < 4; i++) {
		assert_int_equal(entries[i].data, i);
		assert_int_equal(from[i], FI_ADDR_NOTAVAIL);
	}
	assert_int_equal(fi_cq_readfrom(cq, entries, 4, NULL), 1);
	assert_int_equal(entries[0].data, 4);
	assert_int_equal(warning_count, 0);
	assert_refused(fi_cq_read(cq, NULL, 1), -FI_EINVAL);
	assert_refused(fi_cq_readfrom(cq, NULL, 1, from), -FI_EINVAL);
	assert_refused(fi_cq_sread(cq, entries, 1, NULL, 0), -FI_ENOSYS);
	assert_refused(fi_cq_sreadfrom(cq, entries, 1, from, NULL, 0), -FI_ENOSYS);
	assert_refused(fi_cq_signal(cq), -FI_ENOSYS);
	assert_refused(fi_cq_export_xpu(cq, 0, NULL), -FI_ENOSYS);
	assert_refused(hm_cq_trywait(hm_cq_of(&cq->fid)), -FI_EINVAL);
	/* Completions that nobody read are lost, not leaked. */
	push_done(cq, 0);
	push_failed(cq, 0);
	assert_int_equal(fi_close(&cq->fid), 0);
}

static struct fid_cq *fed;
static unsigned int fed_at; /* at which call of progress something comes */

static void feed(void)
{
	if (progress_count == fed_at)
		push_done(fed, 7);
}

static void feed_error(void)
{
	if (progress_count == fed_at)
		push_failed(fed, 7);
}

static void feed_from(struct fid_cq *cq, void (*feeder)(void), unsigned int at)
{
	fed = cq;
	fed_at = at;
	progress_count = 0;
	on_progress = feeder;
}

/* Readers that find nothing let the NIC move on and look again; those that find something do not. */
static void cq_progress(void **state)
{
	struct fid_cq *cq =
		open_cq((struct fi_cq_attr){ .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD });
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_data_entry entry;

	(void)state;
	feed_from(cq, feed, 1);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	assert_int_equal(entry.data, 7);
	assert_int_equal(progress_count, 1);
	push_done(cq, 8);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	assert_int_equal(progress_count, 1);
	feed_from(cq, feed, 1);
	assert_int_equal(fi_cq_sread(cq, &entry, 1, NULL, -1), 1);
	feed_from(cq, feed, 1);
	assert_int_equal(hm_cq_trywait(hm_cq_of(&cq->fid)), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	/* what comes at the second look, after the descriptor is armed, is seen, too */
	feed_from(cq, feed, 2);
	assert_int_equal(hm_cq_trywait(hm_cq_of(&cq->fid)), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	feed_from(cq, feed_error, 1);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	assert_int_equal(error.data, 7);
	feed_from(cq, feed_error, 1);
	assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAVAIL);
	on_progress = NULL;
	assert_int_equal(fi_close(&cq->fid), 0);
}

static void cq_errors(void **state)
{
	struct fid_cq *cq = open_cq((struct fi_cq_attr){ .format = FI_CQ_FORMAT_DATA });
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_data_entry entry;
	char data[8];

	(void)state;
	warning_count = 0;
	assert_int_equal(fi_cq_readerr(cq, &error, 0), -FI_EAGAIN);
	push_failed(cq, 1);
	push_failed(cq, 2);
	push_done(cq, 3);
	assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAVAIL);
	assert_int_equal(warning_count, 0);
	assert_refused(fi_cq_readerr(cq, NULL, 0), -FI_EINVAL);
	assert_refused(fi_cq_readerr(cq, &error, FI_PEEK), -FI_EBADFLAGS);
	error.err_data = data;
	error.tag = 9;
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	assert_ptr_equal(error.op_context, &domain);
	assert_int_equal(error.flags, FI_RMA | FI_WRITE);
	assert_int_equal(error.len, 3);
	assert_int_equal(error.data, 1);
	assert_int_equal(error.tag, 0);
	assert_int_equal(error.olen, 5);
	assert_int_equal(error.err, FI_EACCES);
	assert_int_equal(error.prov_errno, HMREG_NO_RIGHT);
	assert_null(error.err_data); /* the library's own, of size 0 */
	assert_int_equal(error.err_data_size, 0);
	assert_int_equal(error.src_addr, 77);
	/* A buffer of the caller's stays in place. */
	error.err_data = data;
	error.err_data_size = sizeof(data);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	assert_int_equal(error.data, 2);
	assert_ptr_equal(error.err_data, data);
	assert_int_equal(error.err_data_size, 0);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	fi_close(&cq->fid);
}

/* Only as much is written as the structure had in the program's interface. */
static void cq_errors_of_old_programs(void **state)
{
	static const struct {
		uint32_t version;
		size_t size;
	} cases[] = {
		{ FI_VERSION(1, 4), offsetof(struct fi_cq_err_entry, err_data_size) },
		{ FI_VERSION(1, 5), offsetof(struct fi_cq_err_entry, src_addr) },
		{ FI_VERSION(1, 19), offsetof(struct fi_cq_err_entry, src_addr) },
		{ FI_VERSION(1, 20), sizeof(struct fi_cq_err_entry) },
	};
	struct fid_cq *cq = open_cq((struct fi_cq_attr){ 0 });

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		union {
			struct fi_cq_err_entry entry;
			unsigned char bytes[sizeof(struct fi_cq_err_entry)];
		} error;

		memset(&error, 0xA5, sizeof(error));
		domain.api_version = cases[i].version;
		push_failed(cq, 1);
		assert_int_equal(fi_cq_readerr(cq, &error.entry, 0), 1);
		for (size_t at = cases[i].size; at < sizeof(error); at++)
			assert_int_equal(error.bytes[at], 0xA5);
		assert_int_equal(error.entry.err, FI_EACCES);
		if (cases[i].version == FI_VERSION(1, 4))
			assert_null(error.entry.err_data);
		else
			assert_int_equal(error.entry.err_data_size, 0);
	}
	domain.api_version = HM_API_VERSION;
	fi_close(&cq->fid);
}

static void cq_texts(void **state)
{
	struct fid_cq *cq = open_cq((struct fi_cq_attr){ 0 });
	char buf[5] = "....";

	(void)state;
	assert_string_equal(fi_cq_strerror(cq, HMREG_NO_RIGHT, NULL, NULL, 0), "no right");
	assert_string_equal(fi_cq_strerror(cq, 12345, NULL, NULL, 10), "some other cause");
	assert_string_equal(fi_cq_strerror(cq, HMREG_NO_RIGHT, NULL, buf, 0), "no right");
	assert_string_equal(buf, "....");
	assert_string_equal(fi_cq_strerror(cq, HMREG_NO_RIGHT, NULL, buf, sizeof(buf)), "no right");
	assert_string_equal(buf, "no r");
	fi_close(&cq->fid);
}

struct reader {
	struct fid_cq *cq;
	const void *cond;
	ssize_t ret;
	struct fi_cq_data_entry entries[8];
};

static void *sread(void *arg)
{
	struct reader *r = arg;

	r->ret = fi_cq_sread(r->cq, r->entries, 8, r->cond, -1);
	return NULL;
}

static void cq_waits(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(sleeping); i++) {
		struct fid_cq *cq = open_cq((struct fi_cq_attr){ .format = FI_CQ_FORMAT_DATA,
								 .wait_obj = sleeping[i] });
		struct reader r = { .cq = cq };
		pthread_t thread;
		double start = now_ms();

		assert_int_equal(fi_cq_sread(cq, r.entries, 8, NULL, 0), -FI_EAGAIN);
		assert_int_equal(fi_cq_sread(cq, r.entries, 8, NULL, 20), -FI_EAGAIN);
		assert_true(now_ms() - start >= 19);
		assert_refused(fi_cq_sread(cq, NULL, 8, NULL, 0), -FI_EINVAL);
		assert_int_equal(pthread_create(&thread, NULL, sread, &r), 0);
		push_done(cq, 5);
		pthread_join(thread, NULL);
		assert_int_equal(r.ret, 1);
		assert_int_equal(r.entries[0].data, 5);
		/* cond means nothing without FI_CQ_COND_THRESHOLD. */
		r.cond = (void *)1;
		push_failed(cq, 6);
		assert_int_equal(pthread_create(&thread, NULL, sread, &r), 0);
		pthread_join(thread, NULL);
		assert_int_equal(r.ret, -FI_EAVAIL);
		fi_close(&cq->fid);
	}
}

static void cq_signal_ends_waits(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(sleeping); i++) {
		struct fid_cq *cq = open_cq((struct fi_cq_attr){ .format = FI_CQ_FORMAT_DATA,
								 .wait_obj = sleeping[i] });
		struct reader r = { .cq = cq };
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, sread, &r), 0);
		while (pthread_tryjoin_np(thread, NULL)) {
			assert_int_equal(fi_cq_signal(cq), 0);
			sched_yield();
		}
		assert_int_equal(r.ret, -FI_EAGAIN);
		fi_close(&cq->fid);
	}
}

static void cq_waits_for_threshold(void **state)
{
	const size_t three = 3, zero = 0, many = SIZE_MAX;
	struct fid_cq *cq = open_cq((struct fi_cq_attr){ .size = 4,
							 .format = FI_CQ_FORMAT_DATA,
							 .wait_obj = FI_WAIT_UNSPEC,
							 .wait_cond = FI_CQ_COND_THRESHOLD });
	struct reader r = { .cq = cq, .cond = &three };
	pthread_t thread;
	double start;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, sread, &r), 0);
	for (uint64_t i = 0; i < 3; i++)
		push_done(cq, i);
	pthread_join(thread, NULL);
	assert_int_equal(r.ret, 3);
	/* Too few: they come when the time is up. */
	push_done(cq, 3);
	start = now_ms();
	assert_int_equal(fi_cq_sread(cq, r.entries, 8, &three, 20), 1);
	assert_true(now_ms() - start >= 19);
	/* An error does not wait for company; a full queue can get no fuller. */
	push_failed(cq, 4);
	assert_int_equal(fi_cq_sread(cq, r.entries, 8, &three, -1), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(cq, &(struct fi_cq_err_entry){ 0 }, 0), 1);
	for (uint64_t i = 0; i < 4; i++)
		push_done(cq, i);
	assert_int_equal(fi_cq_sread(cq, r.entries, 8, &many, -1), 4);
	/* 0 and no condition at all mean one. */
	push_done(cq, 5);
	assert_int_equal(fi_cq_sread(cq, r.entries, 8, &zero, -1), 1);
	push_done(cq, 6);
	assert_int_equal(fi_cq_sread(cq, r.entries, 8, NULL, -1), 1);
	assert_int_equal(fi_cq_sread(cq, r.entries, 8, &zero, 5), -FI_EAGAIN);
	fi_close(&cq->fid);
}

static void cq_fd(void **state)
{
	struct fid_cq *fid = open_cq((struct fi_cq_attr){ .wait_obj = FI_WAIT_FD });
	struct hm_cq *cq = hm_cq_of(&fid->fid);
	struct fi_cq_entry entry;

	(void)state;
	assert_int_equal(hm_cq_trywait(cq), 0);
	assert_false(readable(&fid->fid));
	push_done(fid, 0);
	assert_true(readable(&fid->fid));
	assert_int_equal(hm_cq_trywait(cq), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(fid, &entry, 1), 1);
	assert_int_equal(hm_cq_trywait(cq), 0);
	assert_false(readable(&fid->fid));
	fi_close(&fid->fid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cq_is_complete),
		cmocka_unit_test(cq_open_refuses),
		cmocka_unit_test(cq_open_accepts),
		cmocka_unit_test(cq_reads),
		cmocka_unit_test(cq_progress),
		cmocka_unit_test(cq_errors),
		cmocka_unit_test(cq_errors_of_old_programs),
		cmocka_unit_test(cq_texts),
		cmocka_unit_test(cq_waits),
		cmocka_unit_test(cq_signal_ends_waits),
		cmocka_unit_test(cq_waits_for_threshold),
		cmocka_unit_test(cq_fd),
	};

	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
