/* SPDX-License-Identifier: BSD-2-Clause */
/* See fault.h: resources that fail, log lines, marks, and the loop over failures. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/log.h"
#include "tests/fault/fault.h"
#include "tests/fds.h"

const char *const sw_profiles[3] = { "sw-scalable", "sw-verbs", "sw-strict" };

/* ---- resources ---- */

static unsigned armed_kinds, armed_nth, seen;
static int armed_errno;

void fault_arm(unsigned kinds, unsigned nth, int fd_errno)
{
	armed_nth = nth;
	armed_errno = fd_errno;
	seen = 0;
	armed_kinds = kinds;
}

bool fault_disarm(void)
{
	bool came = armed_kinds && seen >= armed_nth;

	armed_kinds = 0;
	return came;
}

bool fault_fails(enum fault_kind kind)
{
	return (armed_kinds & kind) && ++seen == armed_nth;
}

#define memory_refused(name) fault_fails(FAULT_MEMORY)
#include "tests/fault/wrap_memory.h"

int __real_eventfd(unsigned int value, int flags);
int __real_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attr);
int __real_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);

int __wrap_eventfd(unsigned int value, int flags);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attr);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);

int __wrap_eventfd(unsigned int value, int flags)
{
	if (!fault_fails(FAULT_FD))
		return __real_eventfd(value, flags);
	errno = armed_errno;
	return -1;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attr)
{
	return fault_fails(FAULT_LOCK) ? ENOMEM : __real_pthread_mutex_init(lock, attr);
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	return fault_fails(FAULT_LOCK) ? ENOMEM : __real_pthread_cond_init(cond, attr);
}

/* ---- log lines ---- */

static unsigned lines;
static char last_line[256];

static void count_line(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		       int line, const char *text, void *arg)
{
	(void)level;
	(void)subsys;
	(void)arg;
	lines++;
	snprintf(last_line, sizeof(last_line), "%s:%d %s", func, line, text);
}

void fault_log_start(void)
{
	hm_log_set_sink(count_line, NULL);
	lines = 0;
}

unsigned fault_lines(void)
{
	unsigned n = lines;

	lines = 0;
	return n;
}

/* ---- marks ---- */

struct mark fault_mark(const struct scene *s)
{
	struct mark mark = { .live = live,
			     .fds = test_fds(),
			     .stats = { .size = sizeof(mark.stats) } };

	mark.has_stats = s && s->domain;
	if (mark.has_stats)
		assert_int_equal(s->ops->stats(&s->domain->fid, &mark.stats), 0);
	return mark;
}

void fault_check_mark(const struct mark *before, const struct scene *s, bool keeps)
{
	struct mark now = fault_mark(s);

	assert_int_equal(now.fds, before->fds);
	if (keeps)
		assert_true(now.live >= before->live);
	else
		assert_int_equal(now.live, before->live);
	assert_int_equal(now.has_stats, before->has_stats);
	assert_int_equal(now.stats.regions, before->stats.regions);
	assert_int_equal(now.stats.registered_bytes, before->stats.registered_bytes);
	assert_int_equal(now.stats.mapped_keys, before->stats.mapped_keys);
	assert_int_equal(now.stats.endpoints, before->stats.endpoints);
}

/* ---- the loop ---- */

/* The call failed because of the resource, with its code and its lines. */
static void check_failure(const struct scenario *sc, int ret, bool came, unsigned n, unsigned said)
{
	if (came && ret == sc->code && said == sc->lines)
		return;
	fail_msg("%s, failure %u%s: %d, expected %d; %u log lines, expected %u; the last: %s",
		 sc->name, n, came ? "" : " (which did not come)", ret, sc->code, said, sc->lines,
		 last_line);
}

/* One failure.  False: the scenario asks for fewer resources than n.  *failed counts refusals. */
static bool fail_one(const struct scenario *sc, const char *profile, unsigned n, unsigned *failed)
{
	struct mark before = fault_mark(NULL), inside;
	struct scene s = { .profile = profile };
	unsigned said;
	bool came;
	int ret;

	if (!sc->no_scene)
		scene_open(&s, profile, sc->opts);
	if (sc->registered)
		scene_register(&s);
	inside = fault_mark(&s);
	fault_lines();
	fault_arm(sc->kinds, n, sc->fd_errno);
	ret = sc->run(&s);
	came = fault_disarm();
	said = fault_lines();
	if (ret) {
		check_failure(sc, ret, came, n, said);
		fault_check_mark(&inside, &s, sc->keeps);
		++*failed;
		/* and nothing is the worse for it */
		assert_int_equal(sc->run(&s), 0);
	} else if (came && !sc->absorbs) {
		fail_msg("%s: failure %u went unnoticed", sc->name, n);
	}
	sc->undo(&s);
	fault_check_mark(&inside, &s, sc->keeps);
	if (sc->registered)
		scene_unregister(&s);
	if (!sc->no_scene)
		scene_close(&s);
	fault_check_mark(&before, NULL, false);
	return came;
}

void fault_each(void **state)
{
	const struct scenario *sc = *state;

	for (size_t i = 0; i < sizeof(sw_profiles) / sizeof(sw_profiles[0]); i++) {
		unsigned n = 1, failed = 0;

		while (fail_one(sc, sw_profiles[i], n, &failed))
			n++;
		if (!failed)
			fail_msg("%s on %s asked for nothing that can fail", sc->name,
				 sw_profiles[i]);
	}
}

/* ---- what lasts as long as the process ---- */

static void hung(int sig)
{
	static const char text[] = "a call does not return\n";

	(void)sig;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

/* Pages of virtual ports come with the first endpoint in each, and stay. */
static void touch_ports(void)
{
	struct fi_info *info = fault_info(sw_profiles[0]);
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;

	assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
	free(info->src_addr);
	info->src_addr = &in;
	info->src_addrlen = sizeof(in);
	for (unsigned number = 512; number < 65536; number += 256) {
		in.sin_port = htons((uint16_t)number);
		assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
		assert_int_equal(fi_close(&ep->fid), 0);
	}
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	info->src_addr = NULL;
	fi_freeinfo(info);
}

int fault_group_setup(void **state)
{
	(void)state;
	signal(SIGALRM, hung);
	alarm(240);
	fault_log_start();
	touch_ports();
	fault_lines();
	return 0;
}

int fault_group_teardown(void **state)
{
	(void)state;
	hm_log_set_sink(NULL, NULL);
	return 0;
}

int fault_all(const char *name, struct scenario *scenarios, size_t count)
{
	struct CMUnitTest *tests = calloc(count, sizeof(*tests));
	int failed;

	if (!tests)
		return 1;
	for (size_t i = 0; i < count; i++)
		tests[i] = (struct CMUnitTest){ scenarios[i].name, fault_each, NULL, NULL,
						&scenarios[i] };
	failed = _cmocka_run_group_tests(name, tests, count, fault_group_setup,
					 fault_group_teardown);
	free(tests);
	return failed;
}
