/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every call to an accelerator's driver that a region's life makes fails in turn: registration, transfers
 * into, out of and inside the region, close; on the software NIC and on an emulated RDMA device.  What
 * fails says so, once; nothing is left behind; and the next life is as good as the first.
 * HMREG_TEST_HMEM names the interface, whose emulated driver is loaded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "core/base/log.h"
#include "core/base/range.h"
#include "tests/fds.h"
#include "tests/hmem/maker.h"

#define MODES	   (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM)
#define ALL	   (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define BYTES	   ((size_t)65536)
#define PART	   ((size_t)5000)
#define GUARD	   ((size_t)64)
#define PATIENCE_S 20
#define MOST_CALLS 64
#define MOST_NTH   40 /* of one name, one by one */
#define MOST_WAYS  3  /* that a registration tries, each with its line */

static const struct maker *maker;
static const struct emu_accel_hooks *hooks;

/* ---- the log ---- */

static struct {
	unsigned int lines;
	char text[1024]; /* the last one */
} logged;

static void sink(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		 const char *text, void *arg)
{
	(void)subsys, (void)func, (void)line, (void)arg;
	if (level != FI_LOG_WARN)
		return;
	logged.lines++;
	snprintf(logged.text, sizeof(logged.text), "%s", text);
}

/* ---- the scene ---- */

struct scene {
	const char *nic;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *a, *b;
	fi_addr_t to_b;
	struct hmreg_domain_ops *ops;
	struct made made; /* the region's memory, on a device */
	uint8_t *host;	  /* BYTES, and its region */
	struct fid_mr *host_mr;
	uint8_t want[2 * BYTES]; /* what the device's memory must be */
};

static struct scene scene;

static struct fi_info *find_nic(const char *nic)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	assert_non_null(hints);
	hints->caps = FI_MSG | FI_RMA | FI_HMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = MODES;
	hints->domain_attr->name = strdup(nic);
	assert_int_equal(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	return info;
}

static struct fid_ep *open_ep(struct scene *s)
{
	struct fid_ep *ep;

	assert_int_equal(fi_endpoint(s->domain, s->info, &ep, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &s->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(ep, &s->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(ep), 0);
	return ep;
}

static int open_scene(void **state)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE };
	struct scene *s = &scene;
	size_t len = 64;
	uint8_t name[64];

	memset(s, 0, sizeof(*s));
	s->nic = *state;
	s->info = find_nic(s->nic);
	assert_int_equal(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), 0);
	assert_int_equal(fi_domain(s->fabric, s->info, &s->domain, NULL), 0);
	assert_int_equal(fi_open_ops(&s->domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&s->ops, NULL),
			 0);
	assert_int_equal(fi_av_open(s->domain, &av_attr, &s->av, NULL), 0);
	assert_int_equal(fi_cq_open(s->domain, &cq_attr, &s->cq, NULL), 0);
	s->a = open_ep(s);
	s->b = open_ep(s);
	assert_int_equal(fi_getname(&s->b->fid, name, &len), 0);
	assert_int_equal(fi_av_insert(s->av, name, 1, &s->to_b, 0, NULL), 1);
	s->host = calloc(1, BYTES);
	assert_non_null(s->host);
	assert_int_equal(fi_mr_reg(s->domain, s->host, BYTES, ALL, 0, 1, 0, &s->host_mr, NULL), 0);
	assert_int_equal(maker->make(MAKE_DEVICE, maker->device(0), 2 * BYTES, &s->made), 0);
	assert_true(s->made.len >= 2 * BYTES);
	return 0;
}

static int close_scene(void **state)
{
	struct scene *s = &scene;

	(void)state;
	maker->drop(&s->made);
	assert_int_equal(fi_close(&s->host_mr->fid), 0);
	free(s->host);
	assert_int_equal(fi_close(&s->a->fid), 0);
	assert_int_equal(fi_close(&s->b->fid), 0);
	assert_int_equal(fi_close(&s->cq->fid), 0);
	assert_int_equal(fi_close(&s->av->fid), 0);
	assert_int_equal(fi_close(&s->domain->fid), 0);
	assert_int_equal(fi_close(&s->fabric->fid), 0);
	fi_freeinfo(s->info);
	return 0;
}

/* ---- a region's life ---- */

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* A transfer's outcome: 0 or its error. */
static int outcome(struct scene *s, ssize_t posted)
{
	double end = now() + PATIENCE_S;
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry err = { .err = 0 };
	ssize_t ret;

	if (posted != 0)
		return (int)posted;
	while ((ret = fi_cq_read(s->cq, &entry, 1)) == -FI_EAGAIN)
		if (now() > end)
			fail_msg("a transfer does not end");
	if (ret == 1)
		return 0;
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(s->cq, &err, 0), 1);
	assert_true(err.err > 0);
	return -err.err;
}

static void paint(uint8_t *bytes, size_t len)
{
	static unsigned int seed;

	seed += 41;
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static uint64_t target(const struct scene *s, size_t offset)
{
	return offset + (s->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
				 ? (uintptr_t)s->made.addr + GUARD
				 : 0);
}

/* Into the region, out of it, and from one part of it to another.  The first error. */
static int transfer(struct scene *s, struct fid_mr *mr)
{
	char *device = (char *)s->made.addr + GUARD;
	void *desc = fi_mr_desc(s->host_mr);
	uint64_t key = fi_mr_key(mr);
	int ret;

	paint(s->host, PART);
	ret = outcome(s, fi_write(s->a, s->host, PART, desc, s->to_b, target(s, 3), key, s));
	if (ret != 0)
		return ret;
	memcpy(s->want + GUARD + 3, s->host, PART);
	ret = outcome(s, fi_read(s->a, s->host + PART, PART, desc, s->to_b, target(s, 3), key, s));
	if (ret != 0)
		return ret;
	assert_memory_equal(s->host + PART, s->host, PART);
	ret = outcome(s, fi_write(s->a, device + 3, PART, fi_mr_desc(mr), s->to_b,
				  target(s, BYTES / 2), key, s));
	if (ret == 0)
		memcpy(s->want + GUARD + BYTES / 2, s->host, PART);
	return ret;
}

/* Whatever was to be written, what is around it has not changed. */
static void check_bytes(struct scene *s, int ret)
{
	static uint8_t have[2 * BYTES];

	assert_int_equal(hooks->peek(s->made.addr, have, sizeof(have)), 0);
	if (ret != 0) {
		memcpy(have + GUARD + 3, s->want + GUARD + 3, PART);
		memcpy(have + GUARD + BYTES / 2, s->want + GUARD + BYTES / 2, PART);
	}
	assert_memory_equal(have, s->want, sizeof(have));
}

/* Memory of a device was not taken for the host's. */
static void check_path(struct fid_mr *mr)
{
	struct hmreg_region_info info = { .size = sizeof(info) };
	struct hmreg_mr_ops *ops;

	assert_int_equal(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->info(&mr->fid, &info), 0);
	assert_true(info.path == HMREG_PATH_COPY || info.path == HMREG_PATH_DMABUF);
}

struct life {
	int registered, transferred, closed; /* 0 or an error */
	unsigned int lines[3];		     /* of each of the three */
	char text[1024];		     /* the last line of the one that failed */
};

static void note(struct life *life, int step, int ret)
{
	life->lines[step] = logged.lines;
	if (ret != 0)
		memcpy(life->text, logged.text, sizeof(life->text));
	logged.lines = 0;
}

static struct life live(struct scene *s)
{
	struct iovec iov = { (char *)s->made.addr + GUARD, BYTES };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = ALL,
				   .requested_key = 7,
				   .iface = maker->iface };
	struct fid_mr *const untouched = (void *)(uintptr_t)0x5a5a;
	struct fid_mr *mr = untouched;
	struct life life = { .registered = 0 };

	attr.device.cuda = s->made.device;
	paint(s->want, sizeof(s->want));
	assert_int_equal(hooks->poke(s->made.addr, s->want, sizeof(s->want)), 0);
	logged.lines = 0;
	life.registered = fi_mr_regattr(s->domain, &attr, 0, &mr);
	note(&life, 0, life.registered);
	if (life.registered != 0) {
		assert_ptr_equal(mr, untouched);
		return life;
	}
	check_path(mr);
	life.transferred = transfer(s, mr);
	note(&life, 1, life.transferred);
	life.closed = fi_close(&mr->fid);
	note(&life, 2, life.closed);
	check_bytes(s, life.transferred);
	return life;
}

/* ---- what must be as it was ---- */

struct mark {
	size_t fds;
	long live;
	struct hmreg_domain_stats stats;
};

static struct mark mark(struct scene *s)
{
	struct mark m = { .fds = test_fds(), .live = hooks->live("*") };

	m.stats.size = sizeof(m.stats);
	assert_int_equal(s->ops->stats(&s->domain->fid, &m.stats), 0);
	return m;
}

/* What there is too much of, or (exactly) how it is not as it was; NULL: nothing. */
static const char *changed(struct scene *s, const struct mark *before, bool exactly)
{
	static char text[4096];
	struct mark m = mark(s);
	size_t used;

	if (m.stats.regions == before->stats.regions &&
	    m.stats.registered_bytes == before->stats.registered_bytes && m.fds <= before->fds &&
	    m.live <= before->live &&
	    (!exactly || (m.fds == before->fds && m.live == before->live)))
		return NULL;
	used = (size_t)snprintf(text, sizeof(text),
				"%zu descriptors (%zu), %lu regions (%lu), %ld objects (%ld):\n",
				m.fds, before->fds, (unsigned long)m.stats.regions,
				(unsigned long)before->stats.regions, m.live, before->live);
	hooks->list(text + used, sizeof(text) - used);
	return text;
}

static void must_live(struct scene *s, const struct mark *before, const char *after)
{
	struct life life = live(s);

	if (life.registered || life.transferred || life.closed || life.lines[0] || life.lines[1] ||
	    life.lines[2])
		fail_msg("after %s: registration %d, transfers %d, close %d; \"%s\"", after,
			 life.registered, life.transferred, life.closed, logged.text);
	if (before && changed(s, before, true))
		fail_msg("after %s: %s", after, changed(s, before, true));
}

/* ---- failing calls ---- */

struct call {
	char name[48];
	unsigned long made; /* in one life */
};

static size_t calls_of_a_life(struct scene *s, struct call *calls)
{
	const char *name;
	size_t count = 0;

	must_live(s, NULL, "nothing");
	must_live(s, NULL, "a first life");
	hooks->reset();
	must_live(s, NULL, "a second life");
	while (count < MOST_CALLS && (name = hooks->name(count)) != NULL) {
		snprintf(calls[count].name, sizeof(calls[count].name), "%s", name);
		calls[count].made = hooks->calls(name);
		count++;
	}
	assert_true(count > 0 && count < MOST_CALLS);
	return count;
}

/* An object that the driver refuses to take back stays the driver's; that alone is forgiven. */
static bool gives_back(const char *name)
{
	static const char *const words[] = { "close",  "Close",	  "free",  "Free",
					     "estroy", "release", "Unmap", "unmap" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(name, words[i]))
			return true;
	return false;
}

/* Does the line tell whose the failure is: by the call, without its symbol's version, or the interface? */
static bool tells(const char *text, const char *name)
{
	char plain[48];
	char *version;

	snprintf(plain, sizeof(plain), "%.47s", name);
	version = strstr(plain, "_v2");
	version = version ? version : strstr(plain, "V2");
	if (version)
		*version = '\0';
	return strstr(text, plain) || strstr(text, maker->name);
}

/*
 * An error has a line that tells whose it is, and a failure that was made good for has one at most.
 * most: lines, where more than one way is tried and each fails.
 */
static void check_life(const char *name, unsigned long nth, const struct life *life,
		       unsigned int most)
{
	const int ret[3] = { life->registered, life->transferred, life->closed };
	static const char *const step[3] = { "registration", "transfer", "close" };
	unsigned int lines = life->lines[0] + life->lines[1] + life->lines[2];

	for (int i = 0; i < 3; i++) {
		if (ret[i] == 0)
			continue;
		if (getenv("FAULT_TELL"))
			print_message("%s, call %lu: %s: %d \"%s\"\n", name, nth, step[i], ret[i],
				      life->text);
		if (ret[i] > 0 || ret[i] < -4096)
			fail_msg("%s, call %lu: %s returns %d", name, nth, step[i], ret[i]);
		if (life->lines[i] < 1 || life->lines[i] > most || !tells(life->text, name))
			fail_msg("%s, call %lu: %s returns %d with %u lines, the last \"%s\"", name,
				 nth, step[i], ret[i], life->lines[i], life->text);
	}
	if (life->closed != 0)
		fail_msg("%s, call %lu: close fails: %d", name, nth, life->closed);
	if (lines > (most > 1 ? 3 * most : 1)) /* each transfer has its own */
		fail_msg("%s, call %lu: %u lines, the last \"%s\"", name, nth, lines, life->text);
	if (getenv("FAULT_TELL") && !life->registered && !life->transferred)
		print_message("%s, call %lu: made good for, %u lines\n", name, nth, lines);
}

static int failure_code(void)
{
	switch (maker->iface) {
	case FI_HMEM_CUDA:
		return 999; /* CUDA_ERROR_UNKNOWN */
	case FI_HMEM_ROCR:
		return 0x1000; /* HSA_STATUS_ERROR */
	case FI_HMEM_ZE:
		return 0x7ffffffe; /* ZE_RESULT_ERROR_UNKNOWN */
	case FI_HMEM_NEURON:
		return 4; /* NRT_RESOURCE; NRT_FAILURE is its "no" to a question */
	default:
		return 26; /* synFail */
	}
}

typedef void (*fail_fn)(const char *name, unsigned int nth, int code);

/* Lives with failing calls; returns in how many the failure showed. */
static size_t fail_each(struct scene *s, fail_fn arm, unsigned int most)
{
	static struct call calls[MOST_CALLS];
	size_t count = calls_of_a_life(s, calls), shown = 0;
	struct mark before = mark(s);

	for (size_t i = 0; i < count; i++) {
		for (unsigned long nth = 1; nth <= calls[i].made && nth <= MOST_NTH; nth++) {
			struct life life;

			arm(calls[i].name, (unsigned int)nth, failure_code());
			life = live(s);
			arm(calls[i].name, 0, 0);
			check_life(calls[i].name, nth, &life, most);
			shown += life.lines[0] || life.lines[1] || life.lines[2];
			if (gives_back(calls[i].name))
				before = mark(s);
			else if (changed(s, &before, false))
				fail_msg("%s, call %lu: %s", calls[i].name, nth,
					 changed(s, &before, false));
			must_live(s, &before, calls[i].name);
		}
	}
	print_message("%s on %s: %zu calls by name, %zu failures showed\n", maker->name, s->nic,
		      count, shown);
	return shown;
}

static void api_20_fn_01_each_call_fails(void **state)
{
	(void)state;
	assert_true(fail_each(&scene, hooks->fail, 1) > 0);
}

/* Each call, and all of its name after it: what one failure alone would not stop. */
static void api_20_fn_22_calls_fail_on(void **state)
{
	(void)state;
	assert_true(fail_each(&scene, hooks->fail_on, MOST_WAYS) > 0);
}

int main(int argc, char **argv)
{
	const char *name = getenv("HMREG_TEST_HMEM"), *why;
	static const struct {
		const char *name;
		CMUnitTestFunction run;
	} cases[] = { { "api_20_fn_01_each_call_fails", api_20_fn_01_each_call_fails },
		      { "api_20_fn_22_calls_fail_on", api_20_fn_22_calls_fail_on } };
	static char names[16][64];
	struct CMUnitTest tests[16];
	size_t count = 0;

	maker = name ? maker_of(name) : NULL;
	if (!maker || argc < 2 || argc > 8) {
		fprintf(stderr, "usage: HMREG_TEST_HMEM=cuda|rocr|ze|neuron|synapseai %s NIC...\n",
			argv[0]);
		return 2;
	}
	why = maker->open();
	hooks = why ? NULL : maker->hooks();
	if (!hooks) {
		printf("skipped: %s: %s\n", maker->name, why ? why : "the driver is a real one");
		return 77;
	}
	hm_log_set_sink(sink, NULL);
	for (int i = 1; i < argc; i++)
		for (size_t k = 0; k < count_of(cases); k++, count++) {
			snprintf(names[count], sizeof(names[0]), "%s[%s]", cases[k].name, argv[i]);
			tests[count] = (struct CMUnitTest){ names[count], cases[k].run, open_scene,
							    close_scene, argv[i] };
		}
	return _cmocka_run_group_tests("fault_hmem", tests, count, NULL, NULL);
}
