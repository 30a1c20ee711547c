/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers without a descriptor and regions of HMREG_MR_CACHE while memory, threads, the monitor or the NIC fail:
 * a call then has a clear code and one log line, or is carried out with a registration that is not kept; what
 * it took is given back, and the same call works afterwards.  And hits, for which the kernel is not asked.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fault/fault_cache.h"
#include "tests/fds.h"
#include "tests/threads.h"

/* ---- memory, mappings and threads ---- */

/* What was made with nothing to keep it in stays so; then the call works all the same. */
static void works_after(struct scene *s, const struct call *call)
{
	if (figures(s).max_entries > 0)
		works(s, call);
	else
		assert_int_equal(call->run(s), 0);
}

static bool fail_call(const struct call *call, enum profile profile, bool warm, unsigned n)
{
	struct scene s;
	unsigned said;
	bool came;
	int ret;

	open_case(&s, profiles[profile]);
	if (warm)
		assert_int_equal(fi_read(s.ep, buf + 3 * PAGE, 8, NULL, s.self,
					 scene_addr(&s, s.dst), s.key, &s),
				 0);
	if (warm)
		assert_int_equal(done(s.tx), 0);
	fault_arm(FAULT_MEMORY | FAULT_MAP | FAULT_THREAD, n, 0);
	ret = call->run(&s);
	came = fault_disarm();
	said = fault_lines();
	if ((ret != 0 && (ret != -FI_ENOMEM || !came || said != 1)) || said > 1)
		fail_msg("%s on %s, %s, failure %u%s: %d, %u log lines", call->name,
			 profiles[profile], warm ? "warm" : "cold", n, came ? "" : " (not come)",
			 ret, said);
	check_idle(&s);
	works_after(&s, call);
	close_case(&s);
	return came;
}

static void no_memory(const struct call *call)
{
	for (unsigned p = 0; p < PROFILES; p++) {
		unsigned cold = 1, warm = 1;

		while (fail_call(call, p, false, cold))
			cold++;
		while (fail_call(call, p, true, warm))
			warm++;
		if (cold < 4)
			fail_msg("%s asks for nothing that can fail", call->name);
	}
}

static void api_20_no_memory_for_a_bare_buffer(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS; i++)
		no_memory(&calls[i]);
}

static void api_20_no_memory_for_a_kept_region(void **state)
{
	static const struct call keep = { "HMREG_MR_CACHE", keep_region, 2, OPEN };

	(void)state;
	no_memory(&keep);
}

/* ---- the NIC ---- */

static const int errors[] = { -FI_ENOMEM, -FI_EIO, -FI_ENOSPC, -FI_EFAULT, -FI_ENODEV };
#define ERRORS (sizeof(errors) / sizeof(errors[0]))

static void register_fails(const struct call *call, enum profile profile, int err)
{
	struct scene s;
	int expected = profile == FREE || err == -FI_EFAULT || err == -FI_ENODEV ? 0 : err;

	open_case(&s, profiles[profile]);
	shut_door(REGISTER, err);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(call->run(&s), expected);
	assert_true(refusals > 0 || (profile == FREE && call->regions == 0));
	assert_int_equal(figures(&s).all.entries, 0);
	check_idle(&s);
	heal();
	works(&s, call);
	/* what is there already needs no registration */
	shut_door(REGISTER, err);
	if (call->regions)
		assert_int_equal(call->run(&s), 0);
	close_case(&s);
}

static void api_20_nic_refuses_to_register_a_bare_buffer(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS * ERRORS * PROFILES; i++)
		register_fails(&calls[i % CALLS], (enum profile)(i / CALLS % PROFILES),
			       errors[i / CALLS / PROFILES]);
}

/* What is kept, and in no use, makes way once: then there is room for what is asked for. */
static void cache_04_what_is_kept_makes_way(void **state)
{
	static const int full[] = { -FI_ENOMEM, -FI_ENOSPC };
	struct fid_mr *mr;
	struct scene s;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		open_case(&s, profiles[PINS]);
		works(&s, &calls[3]); /* three entries */
		shut_door(REGISTER, full[i]);
		assert_int_equal(bare_alone(&s), full[i]);
		assert_true(refusals > 1); /* tried again */
		assert_int_equal(figures(&s).all.entries, 0);
		heal();
		works(&s, &calls[3]);
		shut_door(REGISTER, full[i]);
		assert_int_equal(fi_mr_reg(s.domain, buf, PAGE, FI_SEND, 0, 5, 0, &mr, NULL),
				 full[i]);
		assert_int_equal(figures(&s).all.entries, 0);
		close_case(&s);
	}
}

static void post_fails(const struct call *call, enum profile profile, int err)
{
	struct scene s;

	open_case(&s, profiles[profile]);
	shut_door(call->door, err);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(call->run(&s), err);
	assert_int_equal(refusals, 2);
	check_idle(&s); /* so nothing is held */
	heal();
	works(&s, call);
	close_case(&s);
}

static void api_20_nic_refuses_to_post_a_bare_buffer(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS * PROFILES; i++)
		post_fails(&calls[i % CALLS], (enum profile)(i / CALLS), -FI_EIO);
}

/* Refused by the NIC, by the domain's cache or alone: the domain stays, and is closed when the NIC can. */
static void deregister_fails(int (*run)(struct scene *s), enum profile profile, unsigned n)
{
	struct scene s;
	unsigned said;
	bool came;
	int ret;

	open_case(&s, profiles[profile]);
	shut_door(DEREGISTER, -FI_EBUSY);
	if (n)
		fault_arm(FAULT_MEMORY, n, 0);
	ret = run(&s);
	came = fault_disarm();
	assert_true(ret == 0 || (came && ret == -FI_ENOMEM));
	/* told once, however often it is tried */
	hm_mr_local_evict(domain_of(&s));
	said = fault_lines();
	assert_true(said >= (refusals > 0) && said <= (unsigned)(alive - outside_alive - 2) + came);
	for (unsigned i = 0; i < 3; i++)
		hm_mr_local_evict(domain_of(&s));
	assert_int_equal(fault_lines(), 0);
	heal();
	scene_unregister(&s);
	if (alive > outside_alive) {
		struct fid_ep *ep = s.ep;

		s.ep = NULL;
		assert_int_equal(fi_close(&ep->fid), 0);
		assert_int_equal(fi_close(&s.rx->fid), 0);
		assert_int_equal(fi_close(&s.tx->fid), 0);
		assert_int_equal(fi_close(&s.av->fid), 0);
		shut_door(DEREGISTER, -FI_EBUSY);
		assert_int_equal(fi_close(&s.domain->fid), -FI_EBUSY);
		assert_true(refusals > 0);
		assert_int_equal(fault_lines(), 1);
		heal();
		assert_int_equal(fi_close(&s.domain->fid), 0);
		assert_int_equal(fi_close(&s.eq->fid), 0);
		assert_int_equal(fi_close(&s.fabric->fid), 0);
		fi_freeinfo(s.info);
		free(s.src);
	} else {
		scene_close(&s);
	}
	assert_int_equal(alive, outside_alive);
	assert_int_equal(watched, 0);
	assert_int_equal(fault_lines(), 0);
	fault_check_mark(&outside, NULL, false);
}

static void api_20_nic_refuses_to_end_a_registration(void **state)
{
	(void)state;
	for (unsigned p = 0; p < PROFILES; p++) {
		for (size_t i = 0; i < CALLS; i++)
			deregister_fails(calls[i].run, p, 0);
		deregister_fails(keep_region, p, 0);
	}
}

/* And then there is no memory to remember it by: it ends with the domain at the latest. */
static void cache_04_nic_refuses_and_there_is_no_memory(void **state)
{
	(void)state;
	for (unsigned p = 0; p < PROFILES; p++) {
		for (unsigned n = 1; n < 16; n++) {
			deregister_fails(bare_alone, p, n);
			deregister_fails(keep_region, p, n);
		}
	}
}

/* A receive holds its buffers; a close that fails lets nothing go, one that does not all. */
static void fn_34_closing_an_endpoint_fails_with_a_bare_receive(void **state)
{
	struct scene s;

	(void)state;
	for (unsigned p = 0; p < PROFILES; p++) {
		open_case(&s, profiles[p]);
		assert_int_equal(fi_recv(s.ep, buf, PAGE, NULL, FI_ADDR_UNSPEC, &s), 0);
		shut_door(EP_CLOSE, -FI_EBUSY);
		assert_int_equal(fi_close(&s.ep->fid), -FI_EBUSY);
		hm_mr_local_evict(domain_of(&s));
		assert_int_equal(figures(&s).all.entries, 1);
		heal();
		assert_int_equal(fi_close(&s.ep->fid), 0);
		s.ep = NULL;
		inside.stats.endpoints--;
		check_idle(&s);
		close_case(&s);
	}
}

static void api_20_nic_refuses_to_close_a_domain_with_a_cache(void **state)
{
	struct fid_domain *domain;
	struct scene s;

	(void)state;
	for (unsigned p = 0; p < PROFILES; p++) {
		struct fid_mr *mr;

		open_case(&s, profiles[p]);
		assert_int_equal(fi_domain(s.fabric, s.info, &domain, NULL), 0);
		for (unsigned i = 0; i < 2; i++) {
			struct iovec iov = { buf, PAGE };
			struct fi_mr_attr attr = { .mr_iov = &iov,
						   .iov_count = 1,
						   .access = FI_SEND };

			assert_int_equal(fi_mr_regattr(domain, &attr, HMREG_MR_CACHE, &mr), 0);
			assert_int_equal(fi_close(&mr->fid), 0);
			if (i == 0)
				shut_door(DOMAIN_CLOSE, -FI_EBUSY);
			assert_int_equal(fi_close(&domain->fid), i == 0 ? -FI_EBUSY : 0);
			heal();
		}
		close_case(&s);
	}
}

/* ---- the monitor ---- */

static void cache_06_no_monitor_starts(void **state)
{
	struct scene s;

	(void)state;
	for (size_t i = 0; i < CALLS * PROFILES; i++) {
		open_case(&s, profiles[i / CALLS]);
		start_error = -FI_ENOSYS;
		for (unsigned j = 0; j < 2; j++)
			assert_int_equal(calls[i % CALLS].run(&s), 0);
		assert_true(fault_lines() <= (i == 0)); /* told once by the process */
		assert_int_equal(figures(&s).all.entries, 0);
		assert_int_equal(keep_region(&s), 0);
		assert_int_equal(figures(&s).all.entries, 0);
		close_case(&s);
	}
}

static void cache_06_the_monitor_cannot_watch(void **state)
{
	struct scene s;

	(void)state;
	for (size_t i = 0; i < CALLS * PROFILES; i++) {
		const struct call *call = &calls[i % CALLS];

		open_case(&s, profiles[i / CALLS]);
		watch_error = -FI_EINVAL;
		for (unsigned j = 0; j < 2; j++) {
			assert_int_equal(call->run(&s), 0);
			assert_int_equal(figures(&s).all.hits, 0);
			assert_int_equal(keep_region(&s), 0);
			assert_int_equal(figures(&s).all.hits, 0);
		}
		assert_int_equal(fault_lines(), 0);
		check_idle(&s);
		watch_error = 0;
		works(&s, call);
		close_case(&s);
	}
}

/* The monitors that there are, and what they ask for. */
static void api_20_no_memory_for_a_monitor(void **state)
{
	(void)state;
	use_mock(false);
	for (unsigned p = 0; p < PROFILES; p++) {
		for (unsigned n = 1; n < 60; n++) {
			struct scene s;

			open_case(&s, profiles[p]);
			fault_arm(FAULT_MEMORY | FAULT_MAP | FAULT_THREAD, n, 0);
			if (bare_write(&s) != 0)
				assert_int_equal(fault_lines(), 1);
			fault_disarm();
			fault_lines();
			inside.fds = test_fds(); /* the monitor's, till the domain is closed */
			check_idle(&s);
			assert_int_equal(bare_write(&s), 0);
			fault_lines();
			inside.fds = test_fds();
			close_case(&s);
		}
	}
	use_mock(true);
}

/* ---- system calls ---- */

/* From now on the calling thread may do no more than write and exit. */
static bool forbid_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In a child: hits, with which the kernel has nothing to do; one call at the end shows that it looks on. */
static _Noreturn void hit_without_calls(enum profile profile, int tell)
{
	uint64_t addr;
	struct scene s;
	char word = 'h';

	open_case(&s, profiles[profile]);
	addr = scene_addr(&s, s.dst);
	works(&s, &calls[0]);
	works(&s, &calls[2]);
	if (!forbid_calls())
		word = 'n'; /* and this is all that is said */
	for (unsigned i = 0; word == 'h' && i < 1000; i++) {
		struct fi_cq_data_entry entry;

		if (fi_write(s.ep, buf, PAGE, NULL, s.self, addr, s.key, &s) != 0 ||
		    fi_cq_read(s.tx, &entry, 1) != 1 ||
		    fi_read(s.ep, buf, PAGE, NULL, s.self, addr, s.key, &s) != 0 ||
		    fi_cq_read(s.tx, &entry, 1) != 1)
			word = 'f';
	}
	if (figures(&s).all.hits < 2000 && word == 'h')
		word = 'm';
	if (write(tell, &word, 1) == 1 && word == 'h')
		syscall(SYS_getppid);
	_exit(1);
}

static void reg_07_a_hit_makes_no_system_call(void **state)
{
	(void)state;
	for (unsigned p = 0; p < PROFILES; p++) {
		int ends[2], status;
		char word = 0;
		pid_t child;

		assert_int_equal(pipe(ends), 0);
		child = test_fork();
		assert_true(child >= 0);
		if (child == 0)
			hit_without_calls(p, ends[1]);
		close(ends[1]);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(read(ends[0], &word, 1), 1);
		close(ends[0]);
		if (word == 'n')
			skip(); /* the kernel has no filters */
		assert_int_equal(word, 'h');
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_20_no_memory_for_a_bare_buffer),
		cmocka_unit_test(api_20_no_memory_for_a_kept_region),
		cmocka_unit_test(api_20_nic_refuses_to_register_a_bare_buffer),
		cmocka_unit_test(cache_04_what_is_kept_makes_way),
		cmocka_unit_test(api_20_nic_refuses_to_post_a_bare_buffer),
		cmocka_unit_test(api_20_nic_refuses_to_end_a_registration),
		cmocka_unit_test(cache_04_nic_refuses_and_there_is_no_memory),
		cmocka_unit_test(fn_34_closing_an_endpoint_fails_with_a_bare_receive),
		cmocka_unit_test(api_20_nic_refuses_to_close_a_domain_with_a_cache),
		cmocka_unit_test(cache_06_no_monitor_starts),
		cmocka_unit_test(cache_06_the_monitor_cannot_watch),
		cmocka_unit_test(api_20_no_memory_for_a_monitor),
		cmocka_unit_test(reg_07_a_hit_makes_no_system_call),
	};

	return cmocka_run_group_tests_name("fault_cache", tests, cache_set_up, cache_tear_down);
}
