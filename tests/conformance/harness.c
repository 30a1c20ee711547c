/* SPDX-License-Identifier: BSD-2-Clause */
/* See harness.h: the runner, what it watches around a case, and log lines. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/harness.h"
#include "tests/conformance/harness_priv.h"
#include "tests/fds.h"

#define MAX_PROFILES 16
#define GUARD_LEN    64
#define GUARD_BYTE   0xa7

static const char *const default_profiles[] = { "sw-scalable", "sw-verbs", "sw-strict",
						"sw-any:mmu_notify" };

static struct conf_profile profiles[MAX_PROFILES];
static size_t profile_count;

/* One case on one profile: what a CMocka test is about. */
struct run {
	const struct conf_case *test;
	const struct conf_profile *profile;
	struct conf *conf; /* while it runs */
	bool passed;	   /* or skipped */
};

const struct conf_profile *conf_current;
static struct run *running;

/* The library's own handlers, taken when it had installed them: CMocka replaces them before each test. */
static struct sigaction fault_action[2];
static const int fault_signals[2] = { SIGSEGV, SIGBUS };

/* ---- standard error ---- */

static int real_stderr = -1, log_fd = -1;
static size_t log_mark, log_seen; /* bytes of the log file: marked, and accounted for */
static bool log_any;		  /* nothing is unexpected */
static char log_copy[64 * 1024];

#ifdef __SANITIZE_ADDRESS__
void __sanitizer_set_report_fd(void *fd);
#endif

/* The file's bytes from an offset on, as text. */
static const char *log_from(size_t offset)
{
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(log_copy) - 1 &&
	       (n = pread(log_fd, log_copy + len, sizeof(log_copy) - 1 - len,
			  (off_t)(offset + len))) > 0)
		len += (size_t)n;
	log_copy[len] = '\0';
	return log_copy;
}

static size_t log_size(void)
{
	return (size_t)lseek(log_fd, 0, SEEK_END);
}

static void log_begin(void)
{
	fflush(stderr);
	assert_int_equal(ftruncate(log_fd, 0), 0);
	lseek(log_fd, 0, SEEK_SET);
	log_mark = log_seen = 0;
	log_any = false;
	dup2(log_fd, STDERR_FILENO);
}

static void log_end(bool show)
{
	fflush(stderr);
	dup2(real_stderr, STDERR_FILENO);
	if (show)
		fprintf(stderr, "%s", log_from(log_mark));
}

/* An assertion of the library has printed where it failed: into the file. */
static void on_abort(int sig)
{
	char buf[512];
	ssize_t n;

	(void)sig;
	for (off_t at = (off_t)log_seen; (n = pread(log_fd, buf, sizeof(buf), at)) > 0; at += n)
		if (write(real_stderr, buf, (size_t)n) != n)
			break;
	signal(SIGABRT, SIG_DFL);
	raise(SIGABRT);
}

const char *conf_log_text(void)
{
	return log_from(log_mark);
}

static unsigned int count_lines(const char *text)
{
	unsigned int lines = 0;

	for (; *text; text++)
		lines += *text == '\n';
	return lines;
}

void conf_log_mark(const char *file, int line)
{
	size_t size = log_size();

	if (size != log_seen && !log_any) {
		print_error("before this, nobody expected: %s", log_from(log_seen));
		_fail(file, line);
	}
	log_mark = size;
}

void conf_log_expect(unsigned int lines, const char *text, const char *what, const char *file,
		     int line)
{
	size_t size = log_size();
	const char *have;

	if (log_any)
		return;
	if (lines == 0 && size == log_mark) { /* nearly always: not worth reading */
		log_seen = size;
		return;
	}
	have = log_from(log_mark);
	if (count_lines(have) != lines || (text && !strstr(have, text))) {
		print_error("%s: expected %u log lines%s%s, got: %s\n", what, lines,
			    text ? " with " : "", text ? text : "", have);
		_fail(file, line);
	}
	log_seen = log_size();
}

void conf_log_any(bool any)
{
	log_any = any;
	if (!any)
		log_seen = log_size();
}

void conf_check_code(long have, long want, const char *what, const char *file, int line)
{
	if (have == want)
		return;
	print_error("%s: expected %ld (%s), got %ld (%s)\n%s\n", what, want,
		    fi_strerror((int)-want), have, fi_strerror((int)-have), conf_log_text());
	_fail(file, line);
}

/* ---- memory ---- */

uint8_t *conf_alloc(struct conf *c, size_t len)
{
	size_t room = (len + 63) / 64 * 64 + 2 * GUARD_LEN;
	uint8_t *mem = aligned_alloc(64, room);

	assert_non_null(mem);
	assert_true(c->buffers < CONF_BUFFERS);
	memset(mem, GUARD_BYTE, room);
	memset(mem + GUARD_LEN, 0, len);
	c->buffer[c->buffers].mem = mem;
	c->buffer[c->buffers++].len = len;
	return mem + GUARD_LEN;
}

static bool guards_intact(const uint8_t *mem, size_t len)
{
	size_t room = (len + 63) / 64 * 64 + 2 * GUARD_LEN;

	for (size_t i = 0; i < room; i++) {
		if (i >= GUARD_LEN && i < GUARD_LEN + len)
			continue;
		if (mem[i] != GUARD_BYTE)
			return false;
	}
	return true;
}

uint64_t conf_random(struct conf *c)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return c->random;
}

void conf_fill(struct conf *c, void *buf, size_t len)
{
	uint8_t *byte = buf;

	for (size_t i = 0; i < len; i++)
		byte[i] = (uint8_t)(conf_random(c) >> 24);
}

/* ---- around a case ---- */

static int set_up(void **state)
{
	struct run *run = *state;

	run->conf = calloc(1, sizeof(*run->conf));
	if (!run->conf)
		return -1;
	run->passed = false;
	running = run;
	conf_current = run->profile;
	run->conf->profile = run->profile;
	run->conf->mode = run->profile->mode;
	run->conf->random = UINT64_C(0x9e3779b97f4a7c15);
	run->conf->fds = test_fds();
	log_begin();
	return 0;
}

static void free_last_buffer(struct conf *c, bool check)
{
	size_t i = --c->buffers;
	bool intact = guards_intact(c->buffer[i].mem, c->buffer[i].len);
	size_t len = c->buffer[i].len;

	free(c->buffer[i].mem);
	if (check && !intact)
		fail_msg("bytes around buffer %zu of %zu were written", i, len);
}

static void free_buffers(struct conf *c, bool check)
{
	while (c->buffers > 0)
		free_last_buffer(c, check);
}

void conf_drop_buffer(struct conf *c)
{
	free_last_buffer(c, true);
}

/* The case itself, and what must hold after it. */
static void run_case(void **state)
{
	struct run *run = *state;
	struct conf *c = run->conf;

	for (unsigned int i = 0; i < 2; i++)
		sigaction(fault_signals[i], &fault_action[i], NULL);
	run->test->fn(c);
	conf_close_all(c, true);
	free_buffers(c, true);
	conf_log_mark(__FILE__, __LINE__);
	assert_int_equal(test_fds(), c->fds);
	run->passed = true;
}

void conf_skip(struct conf *c, const char *why)
{
	print_message("skipped: %s[%s]: %s\n", running->test->name, c->profile->label, why);
	running->passed = true;
	skip();
	abort(); /* not reached: skip() leaves the case */
}

void conf_need_endpoints(void)
{
	if (running && running->profile->no_endpoints)
		conf_skip(running->conf, running->profile->no_endpoints);
}

/* After a failure: close what can be closed, so that the next case starts clean. */
static int tear_down(void **state)
{
	struct run *run = *state;

	conf_close_all(run->conf, false);
	free_buffers(run->conf, false);
	free(run->conf);
	log_end(!run->passed);
	return 0;
}

/* ---- the runner ---- */

/* The bits of a list such as "virt_addr,mmu_notify". */
static int parse_bits(char *list, int *bits)
{
	static const struct {
		const char *name;
		int bit;
	} names[] = {
		{ "local", FI_MR_LOCAL },	  { "raw", FI_MR_RAW },
		{ "virt_addr", FI_MR_VIRT_ADDR }, { "allocated", FI_MR_ALLOCATED },
		{ "prov_key", FI_MR_PROV_KEY },	  { "mmu_notify", FI_MR_MMU_NOTIFY },
		{ "rma_event", FI_MR_RMA_EVENT }, { "endpoint", FI_MR_ENDPOINT },
		{ "hmem", FI_MR_HMEM },		  { "collective", FI_MR_COLLECTIVE },
		{ "xpu_desc", FI_MR_XPU_DESC },
	};
	char *save = NULL;

	*bits = 0;
	for (char *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		size_t i = 0;

		while (i < count_of(names) && strcmp(names[i].name, word) != 0)
			i++;
		if (i == count_of(names))
			return -FI_EINVAL;
		*bits |= names[i].bit;
	}
	return 0;
}

/* The options behind the name are cut off. */
static int take_options(char *name, struct conf_profile *profile)
{
	char *colon;

	while ((colon = strrchr(name, ':'))) {
		if (strcmp(colon, ":minimal") == 0)
			profile->offered = 0;
		else if (strcmp(colon, ":sub") == 0)
			profile->sub = true;
		else if (parse_bits(colon + 1, &profile->offered) != 0)
			return -FI_EINVAL;
		*colon = '\0';
	}
	return 0;
}

/* NAME[+PEER][:minimal or :BITS][:sub], taken apart; the pieces are the profile's. */
static int parse_profile(const char *text, struct conf_profile *profile, char **name)
{
	const char *env = getenv("HMREG_TEST_PEER"), *sub = getenv("HMREG_TEST_SUB");
	bool more = sub && *sub && !strstr(text, ":sub");
	char *label = malloc(strlen(text) + sizeof(":sub"));
	char *plus;
	int ret;

	profile->label = label;
	profile->offered = CONF_MR_MODES;
	if (!label)
		return -FI_ENOMEM;
	sprintf(label, "%s%s", text, more ? ":sub" : "");
	*name = strdup(label);
	if (!*name)
		return -FI_ENOMEM;
	ret = take_options(*name, profile);
	plus = strchr(*name, '+');
	if (plus)
		*plus++ = '\0';
	else if (env && *env)
		plus = (char *)(uintptr_t)env;
	profile->peer = plus ? strdup(plus) : NULL;
	return plus && !profile->peer ? -FI_ENOMEM : ret;
}

/* Once more, as it is asked for in cases. */
static int get_info(const char *name, struct conf_profile *profile)
{
	struct conf_opts opts = { .mode = profile->offered, .no_ep = profile->no_endpoints };
	struct fi_info *hints = conf_hints(name, &opts);
	int ret;

	fi_freeinfo(profile->info);
	profile->info = NULL;
	ret = fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &profile->info);
	fi_freeinfo(hints);
	return ret;
}

/* For what the port is like: whatever that may be. */
static int get_any_info(const char *name, struct conf_profile *profile)
{
	struct fi_info *hints = fi_allocinfo();
	int ret = -FI_ENOMEM;

	if (hints)
		hints->domain_attr->name = strdup(name);
	if (hints && hints->domain_attr->name) {
		hints->domain_attr->mr_mode = CONF_MR_MODES;
		ret = fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &profile->info);
	}
	fi_freeinfo(hints);
	return ret;
}

static int add_profile(const char *text)
{
	struct conf_profile *profile = &profiles[profile_count];
	char *name = NULL;
	int ret;

	if (profile_count == MAX_PROFILES)
		return -FI_ENOSPC;
	profile_count++;
	ret = parse_profile(text, profile, &name);
	if (!ret)
		ret = get_any_info(name, profile);
	if (!ret)
		ret = conf_ask_port(profile);
	if (!ret && !profile->offered)
		profile->offered = profile->needed;
	conf_current = profile;
	if (!ret)
		ret = get_info(name, profile);
	free(name);
	if (ret)
		return ret;
	profile->name = profile->info->domain_attr->name;
	profile->mode = profile->info->domain_attr->mr_mode;
	return 0;
}

/* Those of the environment, else of the command line, else the usual ones. */
static int find_profiles(int argc, char **argv)
{
	const char *env = getenv("HMREG_TEST_DOMAIN");
	size_t count = argc > 1 ? (size_t)argc - 1 : count_of(default_profiles);
	int ret = 0;

	if (env && *env)
		return add_profile(env);
	for (size_t i = 0; !ret && i < count; i++)
		ret = add_profile(argc > 1 ? argv[i + 1] : default_profiles[i]);
	return ret;
}

size_t conf_profiles(const struct conf_profile **out)
{
	*out = profiles;
	return profile_count;
}

/*
 * Opening a domain makes the library install what it needs for the life of the process, and so does the
 * first connection.
 */
static void first_use(struct conf *c)
{
	struct conf_end *a, *b;

	if (c->profile->no_endpoints) {
		conf_open(c, &(struct conf_opts){ .no_ep = true });
		return;
	}
	conf_pair(c, &(struct conf_opts){ .caps = FI_MSG }, &a, &b);
	assert_ok(fi_recv(b->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, c));
	assert_ok(fi_inject(a->ep, NULL, 0, conf_addr(a, b)));
	conf_done(b->rx, c);
}

static void warm_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < profile_count; i++) {
		struct conf c = { .profile = &profiles[i], .mode = profiles[i].mode };

		conf_current = &profiles[i];
		first_use(&c);
		conf_close_all(&c, true);
	}
	for (unsigned int i = 0; i < 2; i++)
		sigaction(fault_signals[i], NULL, &fault_action[i]);
}

/* As a test, lest it crash where an assertion fails. */
static int run_warm_up(void)
{
	const struct CMUnitTest test = cmocka_unit_test(warm_up);
	int failed;

	cmocka_set_message_output(CM_OUTPUT_STDOUT);
	failed = _cmocka_run_group_tests("first use", &test, 1, NULL, NULL);
	return failed ? -FI_EIO : 0;
}

static size_t fill_tests(const struct conf_case *cases, size_t count, struct run *runs,
			 struct CMUnitTest *tests)
{
	size_t n = 0;

	for (size_t p = 0; p < profile_count; p++) {
		for (size_t i = 0; i < count; i++) {
			char name[160];

			if ((cases[i].need & ~profiles[p].mode) ||
			    (cases[i].without & profiles[p].mode))
				continue;
			snprintf(name, sizeof(name), "%s[%s]", cases[i].name, profiles[p].label);
			runs[n] = (struct run){ .test = &cases[i], .profile = &profiles[p] };
			tests[n] = (struct CMUnitTest){ strdup(name), run_case, set_up, tear_down,
							&runs[n] };
			n++;
		}
	}
	return n;
}

static int run_all(const struct conf_case *cases, size_t count)
{
	size_t most = count * profile_count, n;
	struct run *runs = calloc(most, sizeof(*runs));
	struct CMUnitTest *tests = calloc(most, sizeof(*tests));
	int failed = 1;

	if (runs && tests) {
		n = fill_tests(cases, count, runs, tests);
		failed = _cmocka_run_group_tests("conformance", tests, n, NULL, NULL);
		for (size_t i = 0; i < n; i++)
			free((void *)(uintptr_t)tests[i].name);
	}
	free(tests);
	free(runs);
	return failed;
}

int conf_main(int argc, char **argv, const struct conf_case *cases, size_t count)
{
	int ret;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("FI_LOG_LEVEL", "warn", 1);
	unsetenv("FI_LOG_PROV");
	unsetenv("FI_LOG_SUBSYS");
	unsetenv("FI_PROVIDER");
	real_stderr = dup(STDERR_FILENO);
	log_fd = memfd_create("log", MFD_CLOEXEC);
	/* threads that write at the same time would overwrite each other's lines */
	fcntl(log_fd, F_SETFL, O_APPEND);
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_set_report_fd((void *)(intptr_t)real_stderr);
#endif
	signal(SIGABRT, on_abort);
	ret = find_profiles(argc, argv);
	if (!ret)
		ret = run_warm_up();
	if (ret) {
		fprintf(stderr, "no profile to test: %s\n", fi_strerror(-ret));
		return 1;
	}
	ret = run_all(cases, count);
	for (size_t i = 0; i < profile_count; i++) {
		fi_freeinfo(profiles[i].info);
		free((void *)(uintptr_t)profiles[i].label);
		free((void *)(uintptr_t)profiles[i].peer);
	}
	close(log_fd);
	close(real_stderr);
	return ret ? 1 : 0;
}

int conf_fork(void (*fn)(void *arg), void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
#ifdef __SANITIZE_ADDRESS__
		/* what the sanitizer says about the child is expected */
		__sanitizer_set_report_fd((void *)(intptr_t)log_fd);
#endif
		fn(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	log_seen = log_size(); /* the child's lines are its own */
	return status;
}

bool conf_valgrind(void)
{
	const char *env = getenv("HMREG_VALGRIND");

	return env && *env;
}

bool conf_brief(void)
{
	const char *env = getenv("HMREG_TEST_BRIEF");

	return env && *env;
}
