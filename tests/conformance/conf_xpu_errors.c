/* SPDX-License-Identifier: BSD-2-Clause */
/* What a device may do wrong: its request completes in error, and the next one is as good as any. fi_xpu(3) */
#include "tests/conformance/xpu.h"

#define LEN  256u
#define MANY 100000u /* more than any queue and ring together have room for */

static struct hmreg_xpu_desc *desc_of(struct xpu *x, uint32_t number)
{
	return (void *)x->script->name[number].bytes;
}

/* ---- what the host refuses, before the NIC is asked ---- */

static void xpu_10_bad_descriptor(struct conf *c)
{
	static const enum xk_what whats[] = { XK_WRITE, XK_READ, XK_SEND, XK_RECV };
	struct conf_region *gone;
	struct xpu x;
	uint64_t bad[5];

	xpu_begin(c, NULL, LEN, &x);
	gone = conf_reg(x.a.end, x.src, LEN, CONF_ALL);
	xpu_desc(&x, gone, &x.script->name[XPU_OTHER]);
	bad[0] = desc_of(&x, XPU_OTHER)->region;
	conf_drop_region(gone);
	bad[1] = 0xdead;
	bad[2] = UINT64_MAX;
	bad[3] = (uintptr_t)x.src; /* memory, but nobody's region */
	bad[4] = desc_of(&x, XPU_DESC)->region ^ UINT64_C(1) << 63;
	for (size_t i = 0; i < count_of(bad); i++) {
		*desc_of(&x, XPU_OTHER) = (struct hmreg_xpu_desc){ .region = bad[i] };
		for (size_t k = 0; k < count_of(whats); k++) {
			struct xk_call call = xpu_transfer(&x, whats[k], 0, 8);

			call.desc = XPU_OTHER;
			xpu_refused(&x, &call, FI_EINVAL);
		}
		xpu_works(&x); /* of many in a row not every one would be a warning */
	}
	xpu_quiet(&x, XK_TX);
	xpu_quiet(&x, XK_RX);
	xpu_end(&x);
}

/* Every descriptor of a call is looked at. */
static void xpu_10_bad_descriptor_of_an_atomic(struct conf *c)
{
	struct xpu x;

	conf_need_caps(c, FI_ATOMIC);
	xpu_begin(c, NULL, LEN, &x);
	*desc_of(&x, XPU_OTHER) = (struct hmreg_xpu_desc){ .region = 0xdead };
	for (int i = 0; i < 3; i++) {
		struct xk_call call = xpu_transfer(&x, XK_COMPARE, 0, 1);

		call.datatype = FI_UINT64;
		call.op = FI_CSWAP;
		call.compare = call.buf + 8;
		call.result = call.buf + 16;
		call.desc = i == 0 ? XPU_OTHER : XPU_DESC;
		call.compare_desc = i == 1 ? XPU_OTHER : XPU_DESC;
		call.result_desc = i == 2 ? XPU_OTHER : XPU_DESC;
		xpu_refused(&x, &call, FI_EINVAL);
	}
	xpu_works(&x);
	xpu_end(&x);
}

static void xpu_10_buffer_outside_its_region(struct conf *c)
{
	struct conf_region *part;
	struct xk_call call;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	part = conf_reg(x.a.end, x.src + 64, 64, CONF_ALL);
	xpu_desc(&x, part, &x.script->name[XPU_OTHER]);
	for (int i = 0; i < 4; i++) {
		static const struct {
			int off;
			size_t len;
		} ranges[] = { { 0, 64 }, { 63, 2 }, { 100, 64 }, { 128, 1 } };

		call = xpu_transfer(&x, i % 2 ? XK_READ : XK_WRITE, 0, ranges[i].len);
		call.buf = (uintptr_t)x.src + (uintptr_t)ranges[i].off;
		call.desc = XPU_OTHER;
		xpu_refused(&x, &call, FI_EINVAL);
	}
	call = xpu_transfer(&x, XK_WRITE, 64, 64);
	call.desc = XPU_OTHER;
	xpu_posted(&x, &call);
	xpu_done(&x, XK_TX, call.context);
	xpu_end(&x);
}

static void xpu_10_region_without_the_right(struct conf *c)
{
	struct conf_region *reads;
	struct xk_call call;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	reads = conf_reg(x.a.end, x.src, LEN, FI_READ | FI_RECV); /* filled, and never sent from */
	xpu_desc(&x, reads, &x.script->name[XPU_OTHER]);
	call = xpu_transfer(&x, XK_WRITE, 0, 8);
	call.desc = XPU_OTHER;
	xpu_refused(&x, &call, FI_EACCES);
	call = xpu_transfer(&x, XK_SEND, 0, 8);
	call.desc = XPU_OTHER;
	xpu_refused(&x, &call, FI_EACCES);
	call = xpu_transfer(&x, XK_READ, 0, 8);
	call.desc = XPU_OTHER;
	xpu_posted(&x, &call);
	xpu_done(&x, XK_TX, call.context);
	xpu_end(&x);
}

static void xpu_10_bad_address(struct conf *c)
{
	static const enum xk_what whats[] = { XK_WRITE, XK_READ, XK_SEND };
	static const uint64_t addrs[] = { 1, 12345, UINT64_MAX, UINT64_MAX - 1 };
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	for (size_t i = 0; i < count_of(addrs); i++) {
		*(struct hmreg_xpu_addr *)(void *)x.script->name[XPU_OTHER].bytes =
			(struct hmreg_xpu_addr){ .addr = addrs[i] };
		for (size_t k = 0; k < count_of(whats); k++) {
			struct xk_call call = xpu_transfer(&x, whats[k], 0, 8);

			call.peer = XPU_OTHER;
			xpu_refused(&x, &call, FI_EINVAL);
		}
		xpu_works(&x);
	}
	xpu_end(&x);
}

/* Flags, datatypes, operations and lengths. */
static void xpu_10_bad_arguments(struct conf *c)
{
	struct xk_call call;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	call = xpu_transfer(&x, XK_WRITE, 0, 8);
	call.flags = UINT64_C(1) << 59;
	xpu_refused(&x, &call, FI_EBADFLAGS);
	call.flags = FI_INJECT; /* the buffer is read after the call */
	xpu_refused(&x, &call, FI_EBADFLAGS);
	call = xpu_transfer(&x, XK_RECV, 0, 8);
	call.flags = FI_REMOTE_CQ_DATA;
	xpu_refused(&x, &call, FI_EBADFLAGS);
	call = xpu_transfer(&x, XK_SEND, 0, 8);
	call.peer = XPU_NO_NAME;
	xpu_refused(&x, &call, FI_EINVAL);
	call = xpu_transfer(&x, XK_ATOMIC, 0, 1);
	call.datatype = FI_UINT64;
	call.op = 99;
	xpu_refused(&x, &call, FI_EOPNOTSUPP);
	call.datatype = 99;
	call.op = FI_SUM;
	xpu_refused(&x, &call, FI_EOPNOTSUPP);
	xpu_works(&x);
	xpu_end(&x);
}

/* As few fail as were wrong, and the error counter tells of each. */
static void xpu_10_errors_are_counted(struct conf *c)
{
	struct xk_call count = { .what = XK_CNTR_READERR, .object = XK_TX };
	struct xk_call bad;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	bad = xpu_transfer(&x, XK_WRITE, 0, 8);
	*desc_of(&x, XPU_OTHER) = (struct hmreg_xpu_desc){ .region = 0xdead };
	for (int i = 0; i < 3; i++) {
		bad.desc = XPU_OTHER;
		xpu_refused(&x, &bad, FI_EINVAL);
		xpu_works(&x);
	}
	for (time_t since = conf_now(); xpu_call(&x, &count) < 3;)
		assert_true(conf_now() - since < CONF_TIMEOUT_S);
	assert_int_equal(xpu_call(&x, &count), 3);
	count.what = XK_CNTR_READ;
	for (time_t since = conf_now(); xpu_call(&x, &count) < 6;)
		assert_true(conf_now() - since < CONF_TIMEOUT_S);
	assert_int_equal(xpu_call(&x, &count), 6);
	xpu_end(&x);
}

/* Completions go to a queue of the host's, which the host reads as ever. */
static void xpu_06_queue_of_the_host(struct conf *c)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct xpu_end own = { .end = NULL };
	struct conf_end host;
	struct fi_info *info;
	struct xk_call call;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	host = (struct conf_end){ .domain = x.domain->domain };
	assert_ok(fi_av_open(host.domain, &av_attr, &host.av, NULL));
	conf_also(x.domain, &host.av->fid);
	assert_ok(fi_cq_open(host.domain, &cq_attr, &host.tx, NULL));
	conf_also(x.domain, &host.tx->fid);
	info = fi_dupinfo(x.domain->info);
	assert_non_null(info);
	info->ep_attr->xpu_ctx = x.ctx;
	assert_ok(fi_endpoint2(host.domain, info, &host.ep, FI_XPU, NULL));
	fi_freeinfo(info);
	conf_also(x.domain, &host.ep->fid);
	assert_ok(fi_ep_bind(host.ep, &host.av->fid, 0));
	assert_ok(fi_ep_bind(host.ep, &host.tx->fid, FI_TRANSMIT | FI_RECV));
	assert_ok(fi_enable(host.ep));
	assert_ok(fi_ep_export_xpu(host.ep, 0, &x.script->end.ep));
	own.end = &host;
	xpu_name(&x, &own, conf_addr(&host, x.b), &x.script->name[XPU_PEER]);
	call = xpu_transfer(&x, XK_WRITE, 0, LEN);
	xpu_posted(&x, &call);
	conf_done(host.tx, (void *)(uintptr_t)call.context);
	assert_memory_equal(x.dst, x.src, LEN);
	call.addr += 1;
	xpu_posted(&x, &call);
	conf_failed(host.tx, (void *)(uintptr_t)call.context, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	conf_quiet(host.tx);
	xpu_end(&x);
}

/* ---- what the peer's side refuses ---- */

static void xpu_10_bad_range(struct conf *c)
{
	static const struct {
		int64_t off;
		size_t len;
	} ranges[] = { { 1, LEN },	{ LEN, 1 },	 { -1, 1 }, { INT64_C(1) << 32, 8 },
		       { -8, LEN + 8 }, { INT64_MIN, 8 } };
	uint8_t before[LEN];
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	memcpy(before, x.src, LEN);
	for (size_t i = 0; i < count_of(ranges); i++) {
		struct xk_call call = xpu_transfer(&x, i % 2 ? XK_READ : XK_WRITE, 0,
						   ranges[i].len <= LEN ? ranges[i].len : LEN);

		call.addr += (uint64_t)ranges[i].off;
		xpu_posted(&x, &call);
		xpu_failed(&x, XK_TX, call.context, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
		for (size_t k = 0; k < LEN; k++)
			assert_int_equal(x.dst[k], 0);
		assert_memory_equal(x.src, before, LEN);
	}
	xpu_works(&x);
	xpu_end(&x);
}

/* A key that is no region's, or no longer. */
static void key_failed(struct xpu *x, uint64_t context)
{
	struct fi_cq_err_entry entry;

	xpu_error(x, XK_TX, &entry);
	assert_int_equal((uintptr_t)entry.op_context, context);
	assert_true(conf_is_error(&entry, FI_ENOKEY, HMREG_KEY_UNKNOWN) ||
		    conf_is_error(&entry, FI_ENOKEY, HMREG_KEY_CLOSED));
}

static void xpu_10_bad_key(struct conf *c)
{
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	for (unsigned bit = 0; bit < 64; bit += 7) {
		struct xk_call call = xpu_transfer(&x, XK_WRITE, 0, LEN);

		call.key = x.key ^ UINT64_C(1) << bit;
		if (x.remote->base && call.key == fi_mr_key(x.remote->base))
			continue; /* is known: by chance, that of the region around */
		xpu_posted(&x, &call);
		if (x.domain->mode & FI_MR_RAW)
			xpu_failed(&x, XK_TX, call.context, FI_EKEYREJECTED, HMREG_KEY_NOT_MAPPED);
		else
			key_failed(&x, call.context);
	}
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(x.dst[i], 0);
	xpu_works(&x);
	xpu_end(&x);
}

static void xpu_10_peers_region_is_closed(struct conf *c)
{
	struct conf_region *other;
	struct xk_call call;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	other = conf_reg(x.b, x.dst, LEN, CONF_ALL);
	call = xpu_transfer(&x, XK_WRITE, 0, 8);
	call.key = conf_key(x.a.end, other);
	call.addr = other->addr;
	xpu_posted(&x, &call);
	xpu_done(&x, XK_TX, call.context);
	conf_close_region(other);
	xpu_posted(&x, &call);
	key_failed(&x, call.context);
	xpu_works(&x);
	xpu_end(&x);
}

static void xpu_10_peer_is_gone(struct conf *c)
{
	struct conf_end *never;
	struct xk_call call;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	never = conf_open(c, &(struct conf_opts){ .disabled = true });
	xpu_name(&x, &x.a, conf_addr(x.a.end, never), &x.script->name[XPU_OTHER]);
	call = xpu_transfer(&x, XK_SEND, 0, 8);
	call.peer = XPU_OTHER;
	xpu_posted(&x, &call);
	xpu_failed(&x, XK_TX, call.context, FI_EHOSTUNREACH, HMREG_PEER_GONE);
	xpu_works(&x);
	xpu_end(&x);
}

/* ---- full ---- */

/* Until there is no room; how many were accepted. */
static uint64_t fill_ring(struct xpu *x, uint64_t first, uint64_t most)
{
	struct xk_call call = xpu_transfer(x, XK_WRITE, 0, 8);
	uint64_t n = 0;

	for (; n < most; n++) {
		int64_t ret;

		call.context = first + n;
		call.again = 0;
		ret = xpu_call(x, &call);
		if (ret == -FI_EAGAIN)
			return n;
		assert_int_equal(ret, 0);
	}
	fail_msg("%lu requests were accepted whose completions nobody has read", (unsigned long)n);
	return 0;
}

/*
 * Nobody reads completions, so that the queue fills and then the ring: no room, as often as it is tried.
 * Then all are there, each once and in order, and it goes on.
 */
static void xpu_10_full_ring_loses_nothing(struct conf *c)
{
	struct conf_opts opts = { .tx_cq_size = 8 };
	uint64_t first = 1;
	struct xpu x;

	xpu_begin(c, &opts, LEN, &x);
	for (int round = 0; round < (conf_brief() ? 1 : 3); round++) {
		uint64_t n = fill_ring(&x, first, MANY);

		assert_true(n >= 8);
		for (uint64_t i = 0; i < n; i++)
			xpu_done(&x, XK_TX, first + i);
		xpu_quiet(&x, XK_TX);
		first += n;
	}
	xpu_works(&x);
	xpu_end(&x);
}

/* Reads whatever is at the front; its context, and whether it is an error. */
static uint64_t next_of_any(struct xpu *x, bool *failed)
{
	const struct xk_call look = { .what = XK_CQ_READ, .object = XK_TX, .len = 1, .again = ~0u };
	struct fi_cq_data_entry success;
	struct fi_cq_err_entry entry;
	int64_t ret = xpu_call(x, &look);

	*failed = ret == -FI_EAVAIL;
	if (*failed) {
		xpu_error(x, XK_TX, &entry);
		assert_int_equal(entry.err, FI_EINVAL);
		assert_int_equal(entry.prov_errno, HMREG_REFUSED);
		return (uintptr_t)entry.op_context;
	}
	assert_int_equal(ret, 1);
	memcpy(&success, x->script->room, sizeof(success));
	return (uintptr_t)success.op_context;
}

/* The same when every second one is refused: which may come before what the NIC is busy with. */
static void xpu_10_full_ring_loses_no_error(struct conf *c)
{
	struct conf_opts opts = { .tx_cq_size = 4 };
	uint8_t seen[MANY] = { 0 };
	struct xk_call call;
	uint64_t n = 0;
	bool failed;
	struct xpu x;

	xpu_begin(c, &opts, LEN, &x);
	call = xpu_transfer(&x, XK_WRITE, 0, 8);
	call.again = 0;
	*desc_of(&x, XPU_OTHER) = (struct hmreg_xpu_desc){ .region = 0xdead };
	conf_log_mark(__FILE__, __LINE__);
	for (;; n++) {
		call.desc = n % 2 ? XPU_OTHER : XPU_DESC;
		call.context = n;
		if (xpu_call(&x, &call) == -FI_EAGAIN)
			break;
		assert_true(n < MANY);
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t number = next_of_any(&x, &failed);

		assert_true(number < n && !seen[number]++);
		assert_true(failed == number % 2);
	}
	conf_log_expect((unsigned)(n / 2), NULL, "requests that are refused", __FILE__, __LINE__);
	xpu_works(&x);
	xpu_quiet(&x, XK_TX);
	xpu_end(&x);
}

/* Receives, too. */
static void xpu_10_full_of_receives(struct conf *c)
{
	struct conf_opts opts = { .rx_cq_size = 4 };
	struct xk_call call;
	fi_addr_t to_a;
	uint64_t n = 0;
	struct xpu x;

	if (conf_brief())
		conf_skip(c, "thousands of launches");
	xpu_begin(c, &opts, LEN, &x);
	to_a = conf_addr(x.b, x.a.end);
	call = xpu_transfer(&x, XK_RECV, 0, 8);
	call.again = 0;
	for (;; n++) {
		call.context = n;
		if (xpu_call(&x, &call) == -FI_EAGAIN)
			break;
		assert_true(n < MANY);
	}
	for (uint64_t i = 0; i < n; i++) {
		assert_posted(fi_send(x.b->ep, x.dst, 8, x.remote->desc, to_a, c));
		xpu_done(&x, XK_RX, i);
		conf_done(x.b->tx, c);
	}
	xpu_works(&x);
	xpu_end(&x);
}

/* ---- requests that the header's functions do not make ---- */

/* Every one ends once, however, but receives for which nothing comes. */
static void read_all(struct xpu *x, const struct xk_bad *b)
{
	struct xk_call look = { .what = XK_CQ_READ, .len = 1, .again = 10 };
	time_t since = conf_now();
	uint64_t ends[2] = { 0 };

	while (ends[XK_TX] < b->count - b->receives) {
		assert_true(conf_now() - since < CONF_TIMEOUT_S);
		for (int k = XK_TX; k <= XK_RX; k++) {
			struct fi_cq_err_entry error;
			int64_t ret;

			look.object = (enum xk_object)k;
			ret = xpu_call(x, &look);
			if (ret == -FI_EAVAIL)
				xpu_error(x, look.object, &error);
			else
				assert_true(ret == 1 || ret == -FI_EAGAIN);
			ends[k] += ret != -FI_EAGAIN;
		}
	}
	xpu_quiet(x, XK_TX);
	assert_int_equal(ends[XK_TX], b->count - b->receives);
	assert_true(ends[XK_RX] <= b->receives);
}

static void xpu_10_garbage_in_the_ring(struct conf *c)
{
	uint64_t random = conf_random(c);

	for (int round = 0; round < (conf_brief() ? 2 : 20); round++) {
		struct xk_bad_args args;
		struct xk_bad *b;
		struct xpu x;

		xpu_begin(c, NULL, 4096, &x);
		b = (void *)(x.memory + XPU_MEMORY / 2);
		*b = (struct xk_bad){ .end = x.a.exported,
				      .desc = x.script->name[XPU_DESC],
				      .peer = x.script->name[XPU_PEER],
				      .buf = (uintptr_t)x.src,
				      .addr = x.remote->addr,
				      .key = x.key,
				      .random = random + (uint64_t)round,
				      .count = 32 };
		args.bad = xpu_on_device(&x, b);
		for (uint64_t k = 0; k < b->count; k++) /* for what is sent by chance */
			assert_posted(
				fi_recv(x.b->ep, x.dst, 4096, x.remote->desc, FI_ADDR_UNSPEC, c));
		conf_log_any(true);
		xpu_launch(&x, xk_garbage, &args, sizeof(args), 1, 1);
		assert_int_equal(b->posted, b->count);
		read_all(&x, b);
		conf_log_any(false);
		xpu_works(&x);
		xpu_end(&x);
	}
}

static const struct conf_case cases[] = {
	CONF(xpu_10_bad_descriptor),
	CONF(xpu_10_bad_descriptor_of_an_atomic),
	CONF(xpu_10_buffer_outside_its_region),
	CONF(xpu_10_region_without_the_right),
	CONF(xpu_10_bad_address),
	CONF(xpu_10_bad_arguments),
	CONF(xpu_10_errors_are_counted),
	CONF(xpu_06_queue_of_the_host),
	CONF(xpu_10_bad_range),
	CONF(xpu_10_bad_key),
	CONF(xpu_10_peers_region_is_closed),
	CONF(xpu_10_peer_is_gone),
	CONF(xpu_10_full_ring_loses_nothing),
	CONF(xpu_10_full_ring_loses_no_error),
	CONF(xpu_10_full_of_receives),
	CONF(xpu_10_garbage_in_the_ring),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
