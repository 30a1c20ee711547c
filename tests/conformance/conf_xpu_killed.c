/* SPDX-License-Identifier: BSD-2-Clause */
/* Kernels that die, and regions and endpoints that end under them: the host can close everything. fi_xpu(3) */
#include <unistd.h>

#include "tests/conformance/xpu.h"

#define LEN 4096u

static struct xk_bad *bad_of(struct xpu *x)
{
	struct xk_bad *b = (void *)(x->memory + XPU_MEMORY / 2);

	*b = (struct xk_bad){ .end = x->a.exported,
			      .desc = x->script->name[XPU_DESC],
			      .peer = x->script->name[XPU_PEER],
			      .buf = (uintptr_t)x->src,
			      .addr = x->remote->addr,
			      .key = x->key };
	return b;
}

static uint64_t posted(struct xk_bad *b)
{
	return __atomic_load_n(&b->posted, __ATOMIC_ACQUIRE);
}

static void await_posted(struct xk_bad *b, uint64_t n)
{
	for (time_t since = conf_now(); posted(b) < n; usleep(100))
		assert_true(conf_now() - since < CONF_TIMEOUT_S);
}

static void need_process(struct conf *c)
{
	if (xpu_mode() != CPU_DEVICE_PROCESS)
		conf_skip(c, "threads cannot be killed");
}

/* By itself, which the device tells of. */
static void run_to_death(struct cpu_device *device, const struct xk_bad_args *args)
{
	conf_log_any(true);
	assert_int_equal(cpu_device_launch(device, xk_stray, args, sizeof(*args), 1, 1), 0);
	assert_int_equal(cpu_device_wait(device, XPU_WAIT_MS), -FI_EFAULT);
	assert_non_null(strstr(conf_log_text(), "died"));
	conf_log_any(false);
}

/* Requests that are left fail as soon as what they need is closed, each with a line. */
static void end_of_a_killed(struct xpu *x)
{
	conf_log_any(true);
	assert_int_equal(cpu_device_kill(x->device), 0);
	assert_int_equal(cpu_device_wait(x->device, XPU_WAIT_MS), -FI_EFAULT);
	xpu_end(x);
	conf_log_any(false);
}

/* A kernel that is ended by force at some moment, with requests everywhere on their way. */
static void xpu_10_killed_kernel(struct conf *c)
{
	need_process(c);
	for (int round = 0; round < (conf_brief() ? 3 : 20); round++) {
		struct xk_bad_args args;
		struct xk_bad *b;
		struct xpu x;

		xpu_begin(c, NULL, LEN, &x);
		b = bad_of(&x);
		args.bad = xpu_on_device(&x, b);
		xpu_start(&x, xk_endless, &args, sizeof(args), 2, 8);
		await_posted(b, 1 + conf_below(c, 200));
		usleep((useconds_t)conf_below(c, 2000));
		end_of_a_killed(&x);
	}
}

/*
 * A kernel that spoils everything that it was given, while a peer goes on and other objects of the context come and
 * go: the host takes no harm, and nothing of what happens to the device's own requests is promised.
 */
static void xpu_10_exported_memory_is_spoiled(struct conf *c)
{
	need_process(c);
	for (int round = 0; round < (conf_brief() ? 2 : 10); round++) {
		uint64_t until = 20000, key;
		struct xk_bad_args args;
		struct xpu_end other;
		struct xk_bad *b;
		struct xpu x;
		fi_addr_t to_a;

		xpu_begin(c, NULL, LEN, &x);
		to_a = conf_addr(x.b, x.a.end);
		key = conf_key(x.b, x.local);
		b = bad_of(&x);
		b->random = conf_random(c) | 1;
		args.bad = xpu_on_device(&x, b);
		conf_log_any(true);
		xpu_start(&x, xk_scribble, &args, sizeof(args), 1, 1);
		for (int i = 0; i < 20; i++, until += 20000) {
			assert_posted(fi_write(x.b->ep, x.dst, 64, x.remote->desc, to_a,
					       x.local->addr, key, c));
			conf_done(x.b->tx, c);
			xpu_open(&x, NULL, &other);
			await_posted(b, until);
			conf_drop_end(other.end);
		}
		end_of_a_killed(&x);
	}
}

/* It dies by itself: a pointer of the host's is none of the device's. */
static void xpu_10_stray_pointer(struct conf *c)
{
	struct xk_bad_args args;
	struct xk_bad *b;
	struct xpu x;

	need_process(c);
	xpu_begin(c, NULL, LEN, &x);
	b = bad_of(&x);
	b->pointer = (uintptr_t)x.dst;
	args.bad = xpu_on_device(&x, b);
	run_to_death(x.device, &args);
	assert_int_equal(b->posted, 0);
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(x.dst[i], 0);
	xpu_end(&x);
}

/* A thread that took a place in the ring and died before it filled it. */
static void xpu_10_place_that_is_never_filled(struct conf *c)
{
	struct xk_bad_args args;
	struct xk_bad *b;
	struct xpu x;

	need_process(c);
	xpu_begin(c, NULL, LEN, &x);
	b = bad_of(&x);
	args.bad = xpu_on_device(&x, b);
	xpu_start(&x, xk_take_no_place, &args, sizeof(args), 1, 1);
	await_posted(b, 1);
	end_of_a_killed(&x);
}

/* Another device does not notice. */
static void xpu_10_other_device_goes_on(struct conf *c)
{
	struct cpu_device *other;
	void *on_device, *on_host;
	struct xk_bad_args args;
	struct xk_bad *b;
	struct xpu x;

	need_process(c);
	xpu_begin(c, NULL, LEN, &x);
	assert_ok(cpu_device_open(CPU_DEVICE_PROCESS, &other));
	assert_ok(cpu_device_alloc(other, sizeof(*b), &on_device, &on_host));
	b = on_host;
	b->pointer = 8;
	args.bad = on_device;
	run_to_death(other, &args);
	xpu_works(&x);
	cpu_device_close(other);
	xpu_works(&x);
	xpu_end(&x);
}

/* ---- what the host closes while a kernel runs ---- */

/* The buffer's region: every request before that is done or fails, and every one after it fails. */
static void xpu_10_region_closed_under_a_kernel(struct conf *c)
{
	struct conf_region *other;
	struct xk_bad_args args;
	struct xk_bad *b;
	uint64_t n;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	other = conf_reg(x.a.end, x.src, 64, CONF_ALL);
	b = bad_of(&x);
	xpu_desc(&x, other, &b->desc);
	args.bad = xpu_on_device(&x, b);
	conf_log_any(true);
	xpu_start(&x, xk_until_error, &args, sizeof(args), 1, 1);
	await_posted(b, 50);
	for (time_t since = conf_now();; usleep(100)) {
		int ret = fi_close(&other->mr->fid);

		if (ret == 0)
			break;
		assert_int_equal(ret, -FI_EBUSY);
		assert_true(conf_now() - since < CONF_TIMEOUT_S);
	}
	other->mr = NULL;
	xpu_wait(&x);
	conf_log_any(false);
	n = b->count;
	assert_int_equal(n, 1);
	xpu_works(&x);
	xpu_quiet(&x, XK_TX);
	xpu_end(&x);
}

/* The endpoint, and then what belongs to it. */
static void xpu_10_endpoint_closed_under_a_kernel(struct conf *c)
{
	struct xpu_end other;
	struct xk_bad_args args;
	struct xk_bad *b;
	struct xpu x;

	need_process(c);
	xpu_begin(c, NULL, LEN, &x);
	xpu_open(&x, NULL, &other);
	b = bad_of(&x);
	b->end = other.exported;
	xpu_name(&x, &other, conf_addr(other.end, x.b), &b->peer);
	args.bad = xpu_on_device(&x, b);
	xpu_start(&x, xk_endless, &args, sizeof(args), 1, 2);
	await_posted(b, 50);
	/* whose memory the kernel still uses: it may die, which is the program's fault, not the host's */
	conf_log_any(true);
	assert_int_equal(fi_close(&other.end->ep->fid), 0);
	other.end->ep = NULL;
	end_of_a_killed(&x);
}

static const struct conf_case cases[] = {
	CONF(xpu_10_killed_kernel),
	CONF(xpu_10_exported_memory_is_spoiled),
	CONF(xpu_10_stray_pointer),
	CONF(xpu_10_place_that_is_never_filled),
	CONF(xpu_10_other_device_goes_on),
	CONF(xpu_10_region_closed_under_a_kernel),
	CONF(xpu_10_endpoint_closed_under_a_kernel),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
