/* SPDX-License-Identifier: BSD-2-Clause */
/* The scene of the programs in which a device starts the transfers; see xpu.h. */
#include "tests/conformance/xpu.h"

#include <pthread.h>
#include <unistd.h>

#include "tests/conformance/harness_priv.h"
#include "tests/fds.h"
#include "tests/threads.h"

/* What xpu_end compares with. */
static struct {
	size_t threads;
	struct cpu_device_counts counts;
	struct cpu_device *device; /* of a case that has not come to its end */
} before;

/* ---- opening ---- */

static void end_left_device(void)
{
	if (!before.device)
		return;
	/* threads cannot be killed: those that go on would use what is not theirs any more */
	if (cpu_device_kill(before.device) != 0 &&
	    cpu_device_wait(before.device, 0) == -FI_ETIMEDOUT)
		abort();
	cpu_device_close(before.device);
	before.device = NULL;
}

enum cpu_device_mode xpu_mode(void)
{
	const char *env = getenv("HMREG_TEST_XPU");

	return env && strcmp(env, "threads") == 0 ? CPU_DEVICE_THREADS : CPU_DEVICE_PROCESS;
}

static void *no_work(void *arg)
{
	return arg;
}

/* A sanitizer has a thread of its own from the first that is started on. */
static void start_first_thread(void)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, no_work, NULL), 0);
	pthread_join(thread, NULL);
}

static void open_device(struct xpu *x)
{
	void *on_device, *on_host;

	end_left_device();
	start_first_thread();
	before.threads = test_threads();
	x->c->fds = test_fds(); /* should one have been left */
	assert_ok(cpu_device_open(xpu_mode(), &x->device));
	before.device = x->device;
	assert_ok(cpu_device_alloc(x->device, XPU_MEMORY, &on_device, &on_host));
	x->memory = on_host;
	x->memory_on_device = on_device;
	assert_ok(cpu_device_alloc(x->device, sizeof(*x->script), &on_device, &on_host));
	x->script = on_host;
	x->script_on_device = on_device;
	before.counts = cpu_device_counts(x->device);
}

static void open_context(struct xpu *x, const struct conf_opts *opts)
{
	struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM,
				    .device = cpu_device_number(x->device),
				    .ops = cpu_device_ops() };
	struct conf_opts domain = opts ? *opts : (struct conf_opts){ 0 };

	domain.caps = domain.caps ? domain.caps | FI_XPU : XPU_CAPS;
	domain.no_ep = true;
	conf_need_endpoints();
	if (!conf_offers(x->c, XPU_CAPS))
		fail_msg("%s does not offer FI_XPU", x->c->profile->name);
	x->domain = conf_open(x->c, &domain);
	assert_ok(fi_xpu_ctx(x->domain->domain, &attr, &x->ctx, x));
	conf_also(x->domain, &x->ctx->fid);
	assert_ok(fi_xpu_ctx_query(x->ctx, &x->attr));
	assert_true(x->attr.caps == (FI_XPU_CAP_EP | FI_XPU_CAP_CQ | FI_XPU_CAP_CNTR));
	assert_true(x->attr.mr_desc_size <= sizeof(struct xk_name));
	assert_true(x->attr.av_addr_size <= sizeof(struct xk_name));
}

static struct fid_cntr *open_counter(struct xpu *x, struct conf_end *end, uint64_t what)
{
	struct fi_cntr_attr attr = { .flags = FI_XPU, .xpu_ctx = x->ctx };
	struct fid_cntr *cntr;

	assert_ok(fi_cntr_open(x->domain->domain, &attr, &cntr, end));
	conf_also(end, &cntr->fid);
	assert_ok(fi_ep_bind(end->ep, &cntr->fid, what));
	return cntr;
}

void xpu_open(struct xpu *x, const struct conf_opts *opts, struct xpu_end *end)
{
	struct conf_opts own = opts ? *opts : (struct conf_opts){ 0 };

	own.same_domain = x->domain;
	own.xpu = x->ctx;
	own.disabled = true;
	end->end = conf_open(x->c, &own);
	end->sent = open_counter(x, end->end, FI_SEND | FI_READ | FI_WRITE);
	end->arrived = open_counter(x, end->end, FI_RECV);
	assert_ok(fi_enable(end->end->ep));
	assert_ok(fi_ep_export_xpu(end->end->ep, 0, &end->exported.ep));
	assert_ok(fi_cq_export_xpu(end->end->tx, 0, &end->exported.tx));
	assert_ok(fi_cq_export_xpu(end->end->rx, 0, &end->exported.rx));
	assert_ok(fi_cntr_export_xpu(end->sent, 0, &end->exported.sent));
	assert_ok(fi_cntr_export_xpu(end->arrived, 0, &end->exported.arrived));
}

void xpu_desc(struct xpu *x, const struct conf_region *region, struct xk_name *name)
{
	size_t len = sizeof(*name);

	assert_ok(fi_mr_get_xpu_desc(region->mr, name, &len, FI_XPU, x->ctx));
	assert_int_equal(len, x->attr.mr_desc_size);
}

void xpu_name(struct xpu *x, const struct xpu_end *end, fi_addr_t addr, struct xk_name *name)
{
	size_t len = sizeof(*name);

	assert_ok(fi_av_lookup2(end->end->av, addr, name, &len, FI_XPU, x->ctx));
	assert_int_equal(len, x->attr.av_addr_size);
}

/* The peer's side is a program of its own, which knows nothing of devices. */
static void open_peer(struct xpu *x, const struct conf_opts *opts)
{
	struct conf_opts own = opts ? *opts : (struct conf_opts){ 0 };

	if (x->c->profile->peer)
		own.domain = x->c->profile->peer;
	own.tx_cq_size = own.rx_cq_size = 0;
	own.bind_flags = 0;
	own.format = 0;
	x->b = conf_open(x->c, &own);
}

void xpu_begin(struct conf *c, const struct conf_opts *opts, size_t len, struct xpu *x)
{
	*x = (struct xpu){ .c = c, .len = len };
	conf_need_endpoints();
	assert_true(len <= XPU_MEMORY);
	open_device(x);
	open_context(x, opts);
	xpu_open(x, opts, &x->a);
	open_peer(x, opts);
	x->to = conf_addr(x->a.end, x->b);
	x->src = x->memory;
	x->dst = conf_alloc(c, len);
	conf_fill(c, x->src, len);
	x->local = conf_reg(x->a.end, x->src, len, CONF_ALL);
	x->remote = conf_reg(x->b, x->dst, len, CONF_ALL);
	x->key = conf_key(x->a.end, x->remote);
	x->script->end = x->a.exported;
	xpu_desc(x, x->local, &x->script->name[XPU_DESC]);
	xpu_name(x, &x->a, x->to, &x->script->name[XPU_PEER]);
}

/* ---- closing ---- */

void xpu_end(struct xpu *x)
{
	struct cpu_device_counts now;

	conf_close_all(x->c, true);
	now = cpu_device_counts(x->device);
	assert_int_equal(now.allocs - before.counts.allocs + now.imports - before.counts.imports,
			 now.frees - before.counts.frees);
	cpu_device_free(x->device, x->script_on_device);
	cpu_device_free(x->device, x->memory_on_device);
	before.device = NULL;
	cpu_device_close(x->device);
	assert_true(test_threads_back(before.threads));
}

/* ---- kernels ---- */

void *xpu_on_device(const struct xpu *x, const void *memory)
{
	return x->memory_on_device + ((const uint8_t *)memory - x->memory);
}

void xpu_start(struct xpu *x, cpu_device_kernel *kernel, const void *args, size_t len,
	       unsigned blocks, unsigned threads)
{
	assert_ok(cpu_device_launch(x->device, kernel, args, len, blocks, threads));
}

void xpu_wait(struct xpu *x)
{
	assert_ok(cpu_device_wait(x->device, XPU_WAIT_MS));
}

void xpu_launch(struct xpu *x, cpu_device_kernel *kernel, const void *args, size_t len,
		unsigned blocks, unsigned threads)
{
	xpu_start(x, kernel, args, len, blocks, threads);
	xpu_wait(x);
}

/* ---- one call ---- */

/* Without a look at the log, which a host's part of the call may write to. */
static int64_t call_now(struct xpu *x, const struct xk_call *call, const char *file, int line)
{
	struct xk_run_args args = { x->script_on_device };

	x->script->call = *call;
	x->script->call.ret = INT64_MIN;
	conf_check_code(cpu_device_launch(x->device, xk_run, &args, sizeof(args), 1, 1), 0,
			"cpu_device_launch", file, line);
	conf_check_code(cpu_device_wait(x->device, XPU_WAIT_MS), 0, "cpu_device_wait", file, line);
	return x->script->call.ret;
}

int64_t xpu_call(struct xpu *x, const struct xk_call *call)
{
	return call_now(x, call, __FILE__, __LINE__);
}

struct xk_call xpu_transfer(const struct xpu *x, enum xk_what what, size_t off, size_t len)
{
	return (struct xk_call){ .what = what,
				 .scope = FI_XPU_WORK_ITEM,
				 .again = ~0u,
				 .buf = (uintptr_t)(x->src + off),
				 .len = len,
				 .desc = XPU_DESC,
				 .peer = XPU_PEER,
				 .addr = x->remote->addr + off,
				 .key = x->key,
				 .context = 0x1000 + off,
				 .flags = FI_COMPLETION };
}

void xpu_posted_at(struct xpu *x, const struct xk_call *call, const char *file, int line)
{
	conf_check_code((long)call_now(x, call, file, line), 0, "the device's call", file, line);
}

/* ---- completions ---- */

/* What a look at the queue brings: in time, so that a call which waits is left out of it. */
static int64_t look(struct xpu *x, enum xk_what what, enum xk_object object, uint32_t again,
		    const char *file, int line)
{
	const struct xk_call call = {
		.what = what, .object = object, .len = 1, .again = again, .value = 1
	};

	return call_now(x, &call, file, line);
}

/* The entry at the front, as it is in the script's room. */
static int64_t next_entry(struct xpu *x, enum xk_object object, const char *file, int line)
{
	memset(x->script->room, 0, sizeof(struct fi_cq_err_entry));
	return look(x, XK_CQ_READ, object, ~0u, file, line);
}

void xpu_done_at(struct xpu *x, enum xk_object object, uint64_t context,
		 struct fi_cq_data_entry *entry, const char *file, int line)
{
	struct fi_cq_data_entry unwanted;
	int64_t ret = next_entry(x, object, file, line);

	if (!entry)
		entry = &unwanted;
	if (ret == -FI_EAVAIL && look(x, XK_CQ_READERR, object, 0, file, line) == 1) {
		const struct fi_cq_err_entry *error = (void *)x->script->room;

		print_error("failed: %s, cause %d\n", fi_strerror(error->err), error->prov_errno);
	}
	_assert_int_equal((uintmax_t)ret, 1, file, line);
	memcpy(entry, x->script->room, sizeof(*entry));
	_assert_int_equal((uintmax_t)(uintptr_t)entry->op_context, (uintmax_t)context, file, line);
}

void xpu_error_at(struct xpu *x, enum xk_object object, struct fi_cq_err_entry *entry,
		  const char *file, int line)
{
	_assert_int_equal((uintmax_t)next_entry(x, object, file, line), (uintmax_t)-FI_EAVAIL, file,
			  line);
	_assert_int_equal((uintmax_t)look(x, XK_CQ_READERR, object, 0, file, line), 1, file, line);
	memcpy(entry, x->script->room, sizeof(*entry));
}

void xpu_failed_at(struct xpu *x, enum xk_object object, uint64_t context, int err, int cause,
		   const char *file, int line)
{
	struct fi_cq_err_entry entry;

	xpu_error_at(x, object, &entry, file, line);
	if (!conf_is_error(&entry, err, cause)) {
		print_error("expected %s, cause %d; got %s, cause %d\n", fi_strerror(err), cause,
			    fi_strerror(entry.err), entry.prov_errno);
		_fail(file, line);
	}
	_assert_int_equal((uintmax_t)(uintptr_t)entry.op_context, (uintmax_t)context, file, line);
}

void xpu_refused_at(struct xpu *x, const struct xk_call *call, int err, const char *file, int line)
{
	struct fi_cq_err_entry entry;

	conf_log_mark(file, line);
	xpu_posted_at(x, call, file, line);
	xpu_error_at(x, call->what == XK_RECV ? XK_RX : XK_TX, &entry, file, line);
	conf_log_expect(1, "fi_xpu_", "a request that is refused", file, line);
	if (entry.err != err || entry.prov_errno != HMREG_REFUSED) {
		print_error("expected %s, refused; got %s, cause %d\n", fi_strerror(err),
			    fi_strerror(entry.err), entry.prov_errno);
		_fail(file, line);
	}
	_assert_int_equal((uintmax_t)(uintptr_t)entry.op_context, (uintmax_t)call->context, file,
			  line);
}

void xpu_quiet_at(struct xpu *x, enum xk_object object, const char *file, int line)
{
	for (int i = 0; i < 3; i++, usleep(2000))
		_assert_int_equal((uintmax_t)look(x, XK_CQ_READ, object, 5, file, line),
				  (uintmax_t)-FI_EAGAIN, file, line);
}

void xpu_works(struct xpu *x)
{
	size_t len = x->len < 4096 ? x->len : 4096;
	struct xk_call write = xpu_transfer(x, XK_WRITE, 0, len),
		       read = xpu_transfer(x, XK_READ, 0, len);
	uint8_t sent[4096];

	conf_fill(x->c, x->src, len);
	memcpy(sent, x->src, len);
	xpu_posted(x, &write);
	xpu_done(x, XK_TX, write.context);
	assert_memory_equal(x->dst, sent, len);
	memset(x->src, 0, len);
	xpu_posted(x, &read);
	xpu_done(x, XK_TX, read.context);
	assert_memory_equal(x->src, sent, len);
}
