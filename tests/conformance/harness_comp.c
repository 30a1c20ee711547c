/* SPDX-License-Identifier: BSD-2-Clause */
/* See harness.h: completions, and what comes without one. */
#include <sched.h>

#include "tests/conformance/harness.h"
#include "tests/conformance/harness_priv.h"

#define QUIET_NS 3000000L /* how long nothing must come where operations take their time */

/* ---- waiting ---- */

time_t conf_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static bool too_late(time_t start)
{
	return conf_now() - start > CONF_TIMEOUT_S;
}

bool conf_may_wait(time_t since)
{
	if (conf_current->at_once || too_late(since))
		return false;
	sched_yield();
	return true;
}

void conf_await(struct fid_cq *cq)
{
	time_t start = conf_now();

	while (fi_cq_read(cq, NULL, 0) == -FI_EAGAIN && !too_late(start))
		sched_yield();
}

/* One entry, or -FI_EAVAIL, or -FI_EAGAIN when none comes in time. */
static ssize_t next_entry(struct fid_cq *cq, struct fi_cq_data_entry *entry, fi_addr_t *from)
{
	time_t start = conf_now();
	ssize_t ret;

	while ((ret = fi_cq_readfrom(cq, entry, 1, from)) == -FI_EAGAIN && !too_late(start))
		sched_yield();
	return ret;
}

/*
 * Is it there?  A byte at a time: memcmp may look twice at a byte that changes meanwhile, and then tell
 * that all are equal when the first that differed has just come.  Whoever polls memory races with whoever
 * writes it, so the thread sanitizer does not look.
 */
__attribute__((noinline, no_sanitize("thread"))) static bool
is_there(const volatile uint8_t *mem, const uint8_t *want, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (mem[i] != want[i])
			return false;
	return true;
}

void conf_arrives_at(const void *mem, const void *want, size_t len, const char *file, int line)
{
	time_t start = conf_now();

	while (!is_there(mem, want, len) && conf_may_wait(start))
		;
	_assert_memory_equal(mem, want, len, file, line);
}

/* ---- successes ---- */

static void expect_success(struct fid_cq *cq, ssize_t ret, const char *file, int line)
{
	struct fi_cq_err_entry error = { 0 };

	if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
		print_error("failed: %s: %s\n", fi_strerror(error.err),
			    fi_cq_strerror(cq, error.prov_errno, NULL, NULL, 0));
	if (ret == -FI_EAGAIN)
		print_error("no completion in %d s\n", CONF_TIMEOUT_S);
	_assert_int_equal((uintmax_t)ret, 1, file, line);
}

void conf_from_at(struct fid_cq *cq, struct fi_cq_data_entry *entry, fi_addr_t *from,
		  const char *file, int line)
{
	expect_success(cq, next_entry(cq, entry, from), file, line);
}

void conf_done_at(struct fid_cq *cq, void *context, struct fi_cq_data_entry *entry,
		  const char *file, int line)
{
	struct fi_cq_data_entry unwanted;

	if (!entry)
		entry = &unwanted;
	conf_from_at(cq, entry, NULL, file, line);
	_assert_int_equal((uintmax_t)(uintptr_t)entry->op_context, (uintmax_t)(uintptr_t)context,
			  file, line);
}

void conf_both_at(struct fid_cq *cq, void *one, void *other, const char *file, int line)
{
	struct fi_cq_data_entry entry;

	conf_from_at(cq, &entry, NULL, file, line);
	if (entry.op_context != one) {
		_assert_int_equal((uintmax_t)(uintptr_t)entry.op_context,
				  (uintmax_t)(uintptr_t)other, file, line);
		other = one;
	}
	conf_done_at(cq, other, NULL, file, line);
}

void conf_reads_at(struct fid_cq *cq, void *buf, size_t count, size_t size, const char *file,
		   int line)
{
	time_t start = conf_now();
	size_t got = 0;

	while (got < count) {
		ssize_t ret = fi_cq_read(cq, (char *)buf + got * size, count - got);

		if (ret > 0)
			got += (size_t)ret;
		else if (ret != -FI_EAGAIN || !conf_may_wait(start))
			expect_success(cq, ret, file, line);
	}
}

void conf_quiet_at(struct fid_cq *cq, const char *file, int line)
{
	struct timespec start, now;
	struct fi_cq_data_entry entry;
	long passed;
	int looks = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		_assert_int_equal((uintmax_t)fi_cq_read(cq, &entry, 1), (uintmax_t)-FI_EAGAIN, file,
				  line);
		sched_yield();
		clock_gettime(CLOCK_MONOTONIC, &now);
		passed = (now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec;
	} while (++looks < 20 || (!conf_current->at_once && passed < QUIET_NS));
}

/* ---- errors ---- */

void conf_error_at(struct fid_cq *cq, struct fi_cq_err_entry *entry, const char *file, int line)
{
	struct fi_cq_data_entry success;

	memset(entry, 0, sizeof(*entry));
	_assert_int_equal((uintmax_t)next_entry(cq, &success, NULL), (uintmax_t)-FI_EAVAIL, file,
			  line);
	_assert_int_equal((uintmax_t)fi_cq_readerr(cq, entry, 0), 1, file, line);
}

/* What a NIC that does not tell causes exactly may say in place of one; 0 ends the list. */
static const struct {
	int exact;
	int vague[3];
} inexact[] = {
	{ HMREG_KEY_UNKNOWN, { HMREG_REMOTE_ACCESS } },
	{ HMREG_KEY_CLOSED, { HMREG_REMOTE_ACCESS, HMREG_KEY_UNKNOWN } },
	{ HMREG_OUT_OF_BOUNDS, { HMREG_REMOTE_ACCESS } },
	{ HMREG_NO_RIGHT, { HMREG_REMOTE_ACCESS } },
	{ HMREG_DISABLED, { HMREG_REMOTE_ACCESS } },
	{ HMREG_PEER_GONE, { HMREG_PEER_LOST } },
	{ HMREG_FAULT, { HMREG_REMOTE_ACCESS, HMREG_LOCAL_REGION } },
	{ HMREG_MISALIGNED, { HMREG_REMOTE_ACCESS, HMREG_REMOTE_INVALID } },
};

static int code_of(int cause)
{
	switch (cause) {
	case HMREG_KEY_UNKNOWN:
		return FI_ENOKEY;
	case HMREG_REMOTE_ACCESS:
		return FI_EACCES;
	case HMREG_REMOTE_INVALID:
		return FI_EINVAL;
	case HMREG_PEER_LOST:
		return FI_ECONNABORTED;
	default:
		return FI_ENOMR; /* HMREG_LOCAL_REGION */
	}
}

bool conf_is_error(const struct fi_cq_err_entry *entry, int err, int cause)
{
	if (entry->err == err && entry->prov_errno == cause)
		return true;
	for (size_t i = 0; !conf_current->exact && i < count_of(inexact); i++)
		for (size_t k = 0; inexact[i].exact == cause && k < 3; k++)
			if (inexact[i].vague[k] && entry->prov_errno == inexact[i].vague[k] &&
			    entry->err == code_of(inexact[i].vague[k]))
				return true;
	return false;
}

void conf_failed_at(struct fid_cq *cq, void *context, int err, int cause,
		    struct fi_cq_err_entry *entry, const char *file, int line)
{
	struct fi_cq_err_entry unwanted;

	if (!entry)
		entry = &unwanted;
	conf_error_at(cq, entry, file, line);
	if (!conf_is_error(entry, err, cause)) {
		print_error("expected %s, cause %d; got %s, cause %d: %s\n", fi_strerror(err),
			    cause, fi_strerror(entry->err), entry->prov_errno,
			    fi_cq_strerror(cq, entry->prov_errno, NULL, NULL, 0));
		_fail(file, line);
	}
	_assert_int_equal((uintmax_t)(uintptr_t)entry->op_context, (uintmax_t)(uintptr_t)context,
			  file, line);
	_assert_true((uintmax_t)(strlen(fi_cq_strerror(cq, cause, NULL, NULL, 0)) > 8),
		     "the cause has a text", file, line);
}
