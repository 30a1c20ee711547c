/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One call for several NICs (HMREG_MULTI_OPS) while devices, memory or threads fail: FN-05.  Every call to the
 * emulated devices fails in turn; after each the figures of all domains, the devices' objects, pinned bytes,
 * descriptors and memory are what they were, one log line has said why, and the same call works.
 *
 *   fault_multi [bare]    bare: devices without memory windows, so that parts are registered a second time
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/drivers/emu_verbs.h"
#include "tests/fault/fault.h"
#include "tests/fds.h"

#define NICS	     4
#define PAGE	     4096u
#define BYTES	     (8 * PAGE)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#pragma GCC visibility push(default)
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
#pragma GCC visibility pop

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	return fault_fails(FAULT_THREAD) ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

/* ---- the scene ---- */

static struct {
	struct fi_info *info[NICS];
	struct fid_fabric *fabric[NICS];
	struct fid_domain *domain[NICS];
	struct hmreg_domain_ops *figures;
	struct hmreg_multi_ops *ops;
	struct hmreg_multi *base; /* of what is a part */
	uint8_t *buf;
} s;

static bool windows; /* sub-MRs are windows, as the devices have them */

/* What must be as it was. */
struct state {
	struct emu_verbs_counts counts;
	struct hmreg_domain_stats stats[NICS];
	struct mark mark;
};

static struct state look(void)
{
	struct state state = { .mark = fault_mark(NULL) };

	emu_verbs_counts(&state.counts);
	state.counts.advised = 0;
	for (size_t i = 0; i < NICS; i++) {
		state.stats[i].size = sizeof(state.stats[i]);
		assert_int_equal(s.figures->stats(&s.domain[i]->fid, &state.stats[i]), 0);
	}
	return state;
}

/* keeps: what a domain has got ready for itself meanwhile may stay. */
static void check(const struct state *before, bool keeps)
{
	struct state now = look();

	assert_int_equal(now.counts.mrs, before->counts.mrs);
	assert_int_equal(now.counts.pinned, before->counts.pinned);
	assert_int_equal(now.counts.dmabufs, before->counts.dmabufs);
	assert_int_equal(now.counts.bound, before->counts.bound);
	if (!keeps)
		assert_memory_equal(&now.counts, &before->counts, sizeof(now.counts));
	assert_memory_equal(now.stats, before->stats, sizeof(now.stats));
	fault_check_mark(&before->mark, NULL, keeps);
}

static void open_nics(void)
{
	for (size_t i = 0; i < NICS; i++) {
		char name[] = "emu0";

		name[3] = (char)('0' + i);
		s.info[i] = fault_info(name);
		assert_int_equal(fi_fabric(s.info[i]->fabric_attr, &s.fabric[i], NULL), 0);
		assert_int_equal(fi_domain(s.fabric[i], s.info[i], &s.domain[i], NULL), 0);
	}
	assert_int_equal(fi_open_ops(&s.domain[0]->fid, HMREG_MULTI_OPS, 0, (void **)&s.ops, NULL),
			 0);
	assert_int_equal(
		fi_open_ops(&s.domain[0]->fid, HMREG_DOMAIN_OPS, 0, (void **)&s.figures, NULL), 0);
}

static void close_nics(void)
{
	for (size_t i = 0; i < NICS; i++) {
		assert_int_equal(fi_close(&s.domain[i]->fid), 0);
		assert_int_equal(fi_close(&s.fabric[i]->fid), 0);
		fi_freeinfo(s.info[i]);
	}
}

/* ---- what is done ---- */

struct act {
	const char *name;
	int (*run)(struct hmreg_multi_call *call, struct hmreg_multi **multi);
	bool of_base;
};

static int run_reg(struct hmreg_multi_call *call, struct hmreg_multi **multi)
{
	struct iovec iov = { s.buf, BYTES };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FAULT_ALL, .sub_mr_cnt = 2
	};

	return s.ops->reg(s.domain, NICS, &attr, 0, call, multi);
}

static int run_dmabuf(struct hmreg_multi_call *call, struct hmreg_multi **multi)
{
	static int fd = -1;
	struct fi_mr_dmabuf dmabuf;
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .access = FAULT_ALL };
	int ret;

	if (fd < 0) { /* the program's own, which stays open (FN-03) */
		fd = memfd_create("buffer", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, BYTES), 0);
	}
	dmabuf = (struct fi_mr_dmabuf){ .fd = fd, .len = BYTES };
	ret = s.ops->reg(s.domain, NICS, &attr, FI_MR_DMABUF, call, multi);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return ret;
}

static int run_sub(struct hmreg_multi_call *call, struct hmreg_multi **multi)
{
	return s.ops->sub(s.base, s.buf + PAGE, PAGE, FAULT_ALL, 1, 0, call, multi);
}

static const struct act acts[] = {
	{ "reg", run_reg, false },
	{ "dma-buf", run_dmabuf, false },
	{ "sub", run_sub, true },
};

static void prepare(const struct act *act)
{
	struct hmreg_multi *multi = NULL;

	fault_caps = FI_MSG | FI_RMA | (act->run == run_dmabuf ? FI_HMEM : 0);
	open_nics();
	if (act->of_base)
		assert_int_equal(run_reg(NULL, &s.base), 0);
	/* what is made at the first time and stays */
	assert_int_equal(act->run(NULL, &multi), 0);
	assert_int_equal(fi_close(&multi->fid), 0);
	fault_lines();
}

static void finish(const struct act *act)
{
	if (act->of_base)
		assert_int_equal(fi_close(&s.base->fid), 0);
	close_nics();
}

static void works(const struct act *act)
{
	struct hmreg_multi_call call = { .size = sizeof(call), .threads = 2 };
	struct hmreg_multi *multi = NULL;

	assert_int_equal(act->run(&call, &multi), 0);
	assert_int_equal(multi->count, NICS);
	assert_int_equal(fi_close(&multi->fid), 0);
}

/* The call was refused as it should, or did without what failed. */
static bool check_answer(const struct act *act, const char *what, unsigned nth, int ret,
			 const struct hmreg_multi_call *call, struct hmreg_multi *multi)
{
	unsigned said = fault_lines();

	if (ret == 0) {
		assert_int_equal(call->refused, NICS);
		assert_int_equal(fi_close(&multi->fid), 0);
		return false;
	}
	if (said != 1 || call->refused > NICS || call->reason[0] == '\0')
		fail_msg("%s, %s %u: %d, %u log lines, domain %zu, \"%s\"", act->name, what, nth,
			 ret, said, call->refused, call->reason);
	assert_ptr_equal(multi, UNTOUCHED);
	return true;
}

/* ---- devices ---- */

static const char *const driver_calls[] = {
	"ibv_reg_mr_iova2", "ibv_reg_dmabuf_mr", "ibv_alloc_mw", "ibv_post_send", "ibv_poll_cq",
};

/* False: the device is not called so often. */
static bool fail_call(const struct act *act, const char *name, unsigned nth, unsigned threads,
		      unsigned *refusals)
{
	struct hmreg_multi_call call = { .size = sizeof(call), .threads = threads };
	struct hmreg_multi *multi = UNTOUCHED;
	struct state before;
	long calls;
	bool came;
	int ret;

	prepare(act);
	before = look();
	calls = emu_verbs_calls(name);
	assert_int_equal(emu_verbs_fail(name, (int)nth, ENOMEM), 1);
	ret = act->run(&call, &multi);
	came = emu_verbs_calls(name) - calls >= (long)nth;
	emu_verbs_fail(name, 0, 0);
	if (check_answer(act, name, nth, ret, &call, multi))
		++*refusals;
	else
		fault_lines();
	check(&before, true);
	works(act);
	check(&before, true);
	finish(act);
	return came;
}

static void fn_05_every_driver_call_fails(void **state)
{
	(void)state;
	for (size_t a = 0; a < COUNT(acts); a++) {
		unsigned refusals = 0;

		for (size_t i = 0; i < COUNT(driver_calls); i++)
			for (unsigned threads = 1; threads <= NICS; threads += NICS - 1)
				for (unsigned nth = 1;
				     fail_call(&acts[a], driver_calls[i], nth, threads, &refusals);
				     nth++)
					;
		if (refusals == 0 && acts[a].run != run_sub)
			fail_msg("%s is refused nothing", acts[a].name);
	}
}

/* Which domain refused is told, whatever comes first: the lowest of those that did. */
static void fn_05_the_domain_is_named(void **state)
{
	(void)state;
	for (int nth = 1; nth <= NICS; nth++) {
		struct hmreg_multi_call call = { .size = sizeof(call), .threads = 1 };
		struct hmreg_multi *multi = UNTOUCHED;

		prepare(&acts[0]);
		emu_verbs_fail("ibv_reg_mr_iova2", nth, ENOMEM);
		assert_int_equal(run_reg(&call, &multi), -FI_ENOMEM);
		assert_int_equal(call.refused, nth - 1);
		assert_int_equal(fault_lines(), 1);
		call.threads = NICS;
		emu_verbs_fail("ibv_reg_mr_iova2", -1, ENOMEM);
		assert_int_equal(run_reg(&call, &multi), -FI_ENOMEM);
		emu_verbs_fail("ibv_reg_mr_iova2", 0, 0);
		assert_true(call.refused < NICS);
		assert_int_equal(fault_lines(), 1);
		works(&acts[0]);
		finish(&acts[0]);
	}
}

/* What was made cannot be ended: the domain has it, and ends it when it is closed. */
static void fn_05_the_way_back_is_refused(void **state)
{
	struct emu_verbs_counts before, now;

	(void)state;
	for (size_t a = 0; a < COUNT(acts); a++) {
		const char *name = acts[a].run == run_dmabuf ? "ibv_reg_dmabuf_mr"
							     : "ibv_reg_mr_iova2";
		struct hmreg_multi_call call = { .size = sizeof(call), .threads = 1 };
		struct hmreg_multi *multi = UNTOUCHED;

		if (acts[a].of_base && windows)
			continue; /* a window that was not bound has nothing to end */
		emu_verbs_counts(&before);
		prepare(&acts[a]);
		emu_verbs_fail(name, NICS, ENOMEM);
		emu_verbs_fail("ibv_dereg_mr", 2, EIO);
		assert_int_equal(acts[a].run(&call, &multi), -FI_ENOMEM);
		emu_verbs_fail(name, 0, 0);
		emu_verbs_fail("ibv_dereg_mr", 0, 0);
		assert_ptr_equal(multi, UNTOUCHED);
		emu_verbs_counts(&now);
		assert_int_equal(now.mrs, before.mrs + (acts[a].of_base ? NICS : 0) + 1);
		works(&acts[a]);
		finish(&acts[a]);
		emu_verbs_counts(&now);
		assert_int_equal(now.mrs, before.mrs);
		assert_int_equal(now.pinned, before.pinned);
		fault_lines();
	}
}

static void fn_06_a_close_is_refused(void **state)
{
	(void)state;
	for (int nth = 1; nth <= NICS; nth++) {
		struct hmreg_multi *multi = NULL;
		struct state before;

		prepare(&acts[0]);
		before = look();
		assert_int_equal(run_reg(NULL, &multi), 0);
		emu_verbs_fail("ibv_dereg_mr", nth, EIO);
		assert_int_equal(fi_close(&multi->fid), -FI_EIO);
		emu_verbs_fail("ibv_dereg_mr", 0, 0);
		assert_int_equal(fault_lines(), 1);
		for (int i = 0; i < NICS; i++)
			assert_int_equal(multi->mr[i] != NULL, i == nth - 1);
		/* what is left is no handle to make parts of */
		assert_int_equal(s.ops->sub(multi, s.buf, 1, 0, 1, 0, NULL, &multi), -FI_EINVAL);
		assert_int_equal(fault_lines(), 1);
		assert_int_equal(fi_close(&multi->fid), 0);
		check(&before, true);
		finish(&acts[0]);
	}
}

static void fn_05_a_device_is_gone(void **state)
{
	struct hmreg_multi_call call = { .size = sizeof(call), .threads = 1 };
	struct hmreg_multi *multi = UNTOUCHED, *before = NULL;

	(void)state;
	prepare(&acts[0]);
	assert_int_equal(run_reg(NULL, &before), 0);
	assert_int_equal(emu_verbs_remove_device("emu2"), 0);
	assert_int_not_equal(run_reg(&call, &multi), 0);
	assert_int_equal(call.refused, 2);
	assert_ptr_equal(multi, UNTOUCHED);
	assert_int_equal(fi_close(&before->fid), 0);
	fault_lines();
	finish(&acts[0]);
	emu_verbs_reset();
}

/* ---- memory and threads ---- */

static bool fail_memory(const struct act *act, unsigned nth)
{
	struct hmreg_multi_call call = { .size = sizeof(call), .threads = 1 };
	struct hmreg_multi *multi = UNTOUCHED;
	struct state before;
	bool came;
	int ret;

	prepare(act);
	before = look();
	fault_arm(FAULT_MEMORY, nth, 0);
	ret = act->run(&call, &multi);
	came = fault_disarm();
	if (ret != 0) {
		assert_true(came);
		assert_int_equal(fault_lines(), 1);
		assert_ptr_equal(multi, UNTOUCHED);
	} else {
		assert_int_equal(fi_close(&multi->fid), 0);
		fault_lines();
	}
	check(&before, true);
	works(act);
	finish(act);
	return came;
}

static void fn_05_no_memory(void **state)
{
	(void)state;
	for (size_t a = 0; a < COUNT(acts); a++) {
		unsigned nth = 1;

		while (fail_memory(&acts[a], nth))
			nth++;
		if (nth < 2)
			fail_msg("%s asks for nothing that can fail", acts[a].name);
	}
}

/* Threads that cannot be started are done without. */
static void fn_05_no_threads(void **state)
{
	(void)state;
	for (unsigned nth = 1; nth < NICS; nth++) {
		struct hmreg_multi_call call = { .size = sizeof(call), .threads = NICS };
		struct hmreg_multi *multi = NULL;

		prepare(&acts[0]);
		fault_arm(FAULT_THREAD, nth, 0);
		assert_int_equal(run_reg(&call, &multi), 0);
		assert_true(fault_disarm());
		assert_int_equal(call.used, nth);
		assert_int_equal(fault_lines(), 0);
		assert_int_equal(fi_close(&multi->fid), 0);
		finish(&acts[0]);
	}
}

static int setup(void **state)
{
	s.buf = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s.buf, MAP_FAILED);
	return fault_group_setup(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_05_every_driver_call_fails),
		cmocka_unit_test(fn_05_the_domain_is_named),
		cmocka_unit_test(fn_05_the_way_back_is_refused),
		cmocka_unit_test(fn_06_a_close_is_refused),
		cmocka_unit_test(fn_05_no_memory),
		cmocka_unit_test(fn_05_no_threads),
		cmocka_unit_test(fn_05_a_device_is_gone),
	};

	windows = argc < 2 || strcmp(argv[1], "bare") != 0;
	if (setenv("HMREG_EMU_VERBS", windows ? "devices=4" : "devices=4,mw=0", 1) != 0)
		return 1;
	return cmocka_run_group_tests_name("fault_multi", tests, setup, fault_group_teardown);
}
