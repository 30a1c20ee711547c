/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions and counters as a device reads them, and that what they stand for is there. fi_xpu(3) */
#include <unistd.h>

#include "tests/conformance/xpu.h"

/* A call on a queue or counter, once. */
static int64_t ask(struct xpu *x, enum xk_what what, enum xk_object object, uint64_t len,
		   uint64_t value)
{
	const struct xk_call call = { .what = what,
				      .object = object,
				      .len = len,
				      .value = value,
				      .timeout = 50,
				      .scope = FI_XPU_WORK_ITEM };

	return xpu_call(x, &call);
}

static void write_some(struct xpu *x, uint64_t first, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct xk_call call = xpu_transfer(x, XK_WRITE, 0, 8);

		call.context = first + i;
		xpu_posted(x, &call);
	}
}

/* ---- XPU-08: queues ---- */

static void xpu_08_cq_read(struct conf *c)
{
	struct fi_cq_data_entry *entry;
	struct xpu x;
	size_t got = 0;

	xpu_begin(c, NULL, 64, &x);
	entry = (void *)x.script->room;
	assert_int_equal(ask(&x, XK_CQ_READ, XK_TX, 4, 0), -FI_EAGAIN);
	assert_int_equal(ask(&x, XK_CQ_READERR, XK_TX, 0, 0), -FI_EAGAIN);
	write_some(&x, 1, 10);
	while (got < 10) { /* up to three at a time, in order */
		int64_t n = ask(&x, XK_CQ_READ, XK_TX, 3, 0);

		assert_true((n >= 1 && n <= 3) || n == -FI_EAGAIN);
		for (int64_t i = 0; i < n; i++)
			assert_int_equal((uintptr_t)entry[i].op_context, ++got);
	}
	xpu_quiet(&x, XK_TX);
	xpu_end(&x);
}

/* A threshold is waited for. */
static void xpu_08_cq_sread(struct conf *c)
{
	struct fi_cq_data_entry *entry;
	struct xpu x;

	xpu_begin(c, NULL, 64, &x);
	entry = (void *)x.script->room;
	write_some(&x, 1, 8);
	assert_int_equal(ask(&x, XK_CQ_SREAD, XK_TX, 8, 8), 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal((uintptr_t)entry[i].op_context, i + 1);
	write_some(&x, 1, 2);
	assert_int_equal(ask(&x, XK_CQ_SREADFROM, XK_TX, 1, 1), 1);
	assert_int_equal(ask(&x, XK_CQ_SREADFROM, XK_TX, 1, 1), 1);
	xpu_quiet(&x, XK_TX);
	xpu_end(&x);
}

/* An entry of each format has its fields, and the size that the format says. */
static void xpu_08_cq_formats(struct conf *c)
{
	static const struct {
		enum fi_cq_format format;
		size_t size;
	} formats[] = {
		{ FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry) },
		{ FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry) },
		{ FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry) },
	};

	for (size_t i = 0; i < count_of(formats); i++) {
		struct conf_opts opts = { .format = formats[i].format };
		struct fi_cq_data_entry entry;
		struct xk_call call;
		fi_addr_t to_a;
		struct xpu x;

		xpu_begin(c, &opts, 256, &x);
		to_a = conf_addr(x.b, x.a.end);
		call = xpu_transfer(&x, XK_RECV, 0, 256);
		for (int k = 0; k < 2; k++) {
			call.context = 0x900 + (uint64_t)k;
			xpu_posted(&x, &call);
			assert_posted(fi_senddata(x.b->ep, x.dst, 100, x.remote->desc,
						  0x50 + (uint64_t)k, to_a, c));
			conf_done(x.b->tx, c);
		}
		memset(x.script->room, 0xaa, XK_ROOM);
		assert_int_equal(ask(&x, XK_CQ_SREAD, XK_RX, 2, 2), 2);
		for (size_t k = 0; k < 2; k++) {
			memset(&entry, 0, sizeof(entry));
			memcpy(&entry, x.script->room + k * formats[i].size, formats[i].size);
			assert_int_equal((uintptr_t)entry.op_context, 0x900 + k);
			if (formats[i].format >= FI_CQ_FORMAT_MSG) {
				assert_int_equal(entry.len, 100);
				assert_true(entry.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA));
			}
			if (formats[i].format >= FI_CQ_FORMAT_DATA)
				assert_true(entry.data == conf_data(x.b, 0x50 + k));
		}
		for (size_t k = 2 * formats[i].size; k < XK_ROOM; k++)
			assert_int_equal(x.script->room[k], 0xaa);
		xpu_end(&x);
	}
}

/* An error stands between successes; until it is read nothing behind it is. */
static void xpu_08_cq_readerr(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct xk_call bad;
	struct xpu x;

	xpu_begin(c, NULL, 64, &x);
	bad = xpu_transfer(&x, XK_WRITE, 0, 32);
	bad.addr += 48;
	bad.context = 77;
	write_some(&x, 1, 1);
	xpu_posted(&x, &bad);
	xpu_done(&x, XK_TX, 1);
	assert_int_equal(ask(&x, XK_CQ_SREAD, XK_TX, 1, 1), -FI_EAVAIL);
	assert_int_equal(ask(&x, XK_CQ_READ, XK_TX, 1, 0), -FI_EAVAIL);
	assert_int_equal(ask(&x, XK_CQ_READFROM, XK_TX, 1, 0), -FI_EAVAIL);
	xpu_error(&x, XK_TX, &error);
	assert_true(conf_is_error(&error, FI_EINVAL, HMREG_OUT_OF_BOUNDS));
	assert_int_equal((uintptr_t)error.op_context, 77);
	assert_true(error.flags == (FI_RMA | FI_WRITE));
	assert_int_equal(ask(&x, XK_CQ_READERR, XK_TX, 0, 0), -FI_EAGAIN);
	write_some(&x, 2, 1);
	xpu_done(&x, XK_TX, 2);
	xpu_end(&x);
}

/* ---- XPU-08: counters ---- */

static uint64_t value(struct xpu *x, enum xk_object object)
{
	return (uint64_t)ask(x, XK_CNTR_READ, object, 0, 0);
}

static uint64_t errors(struct xpu *x, enum xk_object object)
{
	return (uint64_t)ask(x, XK_CNTR_READERR, object, 0, 0);
}

static void xpu_08_counter_counts(struct conf *c)
{
	struct xk_call bad, receive;
	struct xpu x;

	xpu_begin(c, NULL, 64, &x);
	assert_int_equal(value(&x, XK_TX), 0);
	write_some(&x, 1, 5);
	ask(&x, XK_CNTR_WAIT, XK_TX, 0, 5);
	for (time_t since = conf_now(); value(&x, XK_TX) < 5;)
		assert_true(conf_now() - since < CONF_TIMEOUT_S);
	assert_int_equal(value(&x, XK_TX), 5);
	assert_int_equal(errors(&x, XK_TX), 0);
	for (uint64_t i = 1; i <= 5; i++)
		xpu_done(&x, XK_TX, i);
	bad = xpu_transfer(&x, XK_READ, 0, 32);
	bad.addr += 48;
	xpu_posted(&x, &bad);
	xpu_failed(&x, XK_TX, bad.context, FI_EINVAL, HMREG_OUT_OF_BOUNDS);
	/* an error ends a wait for more */
	assert_int_equal(ask(&x, XK_CNTR_WAIT, XK_TX, 0, 1000), 0);
	assert_int_equal(errors(&x, XK_TX), 1);
	assert_int_equal(value(&x, XK_TX), 5);
	receive = xpu_transfer(&x, XK_RECV, 0, 64);
	xpu_posted(&x, &receive);
	assert_posted(fi_send(x.b->ep, x.dst, 8, x.remote->desc, conf_addr(x.b, x.a.end), c));
	xpu_done(&x, XK_RX, receive.context);
	for (time_t since = conf_now(); value(&x, XK_RX) < 1;)
		assert_true(conf_now() - since < CONF_TIMEOUT_S);
	assert_int_equal(value(&x, XK_RX), 1);
	conf_done(x.b->tx, c);
	xpu_end(&x);
}

/* What the device adds and sets goes with what is counted. */
static void xpu_08_counter_changes(struct conf *c)
{
	struct xpu x;

	xpu_begin(c, NULL, 64, &x);
	write_some(&x, 1, 3);
	for (uint64_t i = 1; i <= 3; i++)
		xpu_done(&x, XK_TX, i);
	ask(&x, XK_CNTR_WAIT, XK_TX, 0, 3);
	assert_int_equal(ask(&x, XK_CNTR_ADD, XK_TX, 0, 10), 0);
	assert_int_equal(value(&x, XK_TX), 13);
	assert_int_equal(ask(&x, XK_CNTR_SET, XK_TX, 0, 100), 0);
	assert_int_equal(value(&x, XK_TX), 100);
	write_some(&x, 1, 1);
	xpu_done(&x, XK_TX, 1);
	ask(&x, XK_CNTR_WAIT, XK_TX, 0, 101);
	assert_int_equal(value(&x, XK_TX), 101);
	assert_int_equal(ask(&x, XK_CNTR_SET, XK_TX, 0, 0), 0);
	assert_int_equal(value(&x, XK_TX), 0);
	assert_int_equal(ask(&x, XK_CNTR_ADD, XK_TX, 0, UINT64_MAX), 0);
	assert_int_equal(value(&x, XK_TX), UINT64_MAX);
	assert_int_equal(ask(&x, XK_CNTR_ADD, XK_TX, 0, 2), 0);
	assert_int_equal(value(&x, XK_TX), 1);
	assert_int_equal(ask(&x, XK_CNTR_ADDERR, XK_TX, 0, 4), 0);
	assert_int_equal(errors(&x, XK_TX), 4);
	assert_int_equal(ask(&x, XK_CNTR_SETERR, XK_TX, 0, 0), 0);
	assert_int_equal(errors(&x, XK_TX), 0);
	/* nothing of this is the other counter's */
	assert_int_equal(value(&x, XK_RX), 0);
	assert_int_equal(errors(&x, XK_RX), 0);
	xpu_end(&x);
}

/* Without completions for each: an entry for what asks for one, and the counter counts all. */
static void xpu_08_selective_completion(struct conf *c)
{
	struct conf_opts opts = { .bind_flags = FI_SELECTIVE_COMPLETION };
	struct xk_call call;
	struct xpu x;

	xpu_begin(c, &opts, 64, &x);
	call = xpu_transfer(&x, XK_WRITE, 0, 8);
	for (uint64_t i = 0; i < 6; i++) {
		call.flags = i == 3 ? FI_COMPLETION : 0;
		call.context = i;
		xpu_posted(&x, &call);
	}
	xpu_done(&x, XK_TX, 3);
	for (time_t since = conf_now(); value(&x, XK_TX) < 6;)
		assert_true(conf_now() - since < CONF_TIMEOUT_S);
	xpu_quiet(&x, XK_TX);
	xpu_end(&x);
}

/* ---- XPU-11 ---- */

#define ROUNDS 300

static struct xk_order *order_of(struct xpu *x, enum xk_sign sign, uint32_t len, bool brief)
{
	struct xk_order *o = (void *)(x->memory + 512 * 1024);

	memset(o, 0, sizeof(*o));
	o->end = x->a.exported;
	o->desc = x->script->name[XPU_DESC];
	o->peer = x->script->name[XPU_PEER];
	o->sign = sign;
	o->rounds = brief ? ROUNDS / 10 : ROUNDS;
	o->len = len;
	o->out_buf = (uintptr_t)x->src;
	o->in_buf = (uintptr_t)x->src + len;
	o->out = xpu_on_device(x, x->src);
	o->in = o->out + len;
	o->addr = x->remote->addr;
	o->key = x->key;
	return o;
}

/* Both ways: what is there before a request is posted is what goes; what a completion stands for is there. */
static void there_and_back(struct conf *c, enum xk_sign sign)
{
	static const uint32_t lens[] = { 8, 1000, 40000 };
	struct conf_opts opts = {
		.bind_flags = sign == XK_BY_COUNTER ? FI_SELECTIVE_COMPLETION : 0,
	};

	for (size_t i = 0; i < count_of(lens); i++) {
		struct xk_order_args args;
		struct xk_order *o;
		struct xpu x;

		xpu_begin(c, &opts, 80000, &x);
		o = order_of(&x, sign, lens[i], conf_brief());
		args.order = xpu_on_device(&x, o);
		xpu_launch(&x, xk_there_and_back, &args, sizeof(args), 1, 1);
		assert_int_equal(o->failed, 0);
		assert_int_equal(o->wrong, 0);
		assert_int_equal(o->done, o->rounds);
		xpu_end(&x);
	}
}

static void xpu_11_data_is_there_by_queue(struct conf *c)
{
	there_and_back(c, XK_BY_QUEUE);
}

static void xpu_11_data_is_there_by_counter(struct conf *c)
{
	there_and_back(c, XK_BY_COUNTER);
}

/* The host sends, the device answers with the next round's pattern. */
static void echo(struct conf *c, enum xk_sign sign)
{
	struct conf_opts opts = {
		.bind_flags = sign == XK_BY_COUNTER ? FI_SELECTIVE_COMPLETION : 0,
	};
	struct xk_order_args args;
	struct xk_order *o;
	fi_addr_t to_a;
	struct xpu x;

	xpu_begin(c, &opts, 8192, &x);
	to_a = conf_addr(x.b, x.a.end);
	o = order_of(&x, sign, 4000, conf_brief());
	args.order = xpu_on_device(&x, o);
	xpu_start(&x, xk_echo, &args, sizeof(args), 1, 1);
	for (uint64_t i = 0; i < o->rounds; i++) {
		for (uint32_t k = 0; k < o->len; k++)
			x.dst[k] = xk_pattern(i, k);
		assert_posted(fi_recv(x.b->ep, x.dst + 4096, 4096, x.remote->desc, x.len, c));
		assert_posted(fi_send(x.b->ep, x.dst, o->len, x.remote->desc, to_a, c));
		conf_done(x.b->tx, c);
		conf_done(x.b->rx, c);
		for (uint32_t k = 0; k < o->len; k++)
			assert_int_equal(x.dst[4096 + k], xk_pattern(i + 1, k));
	}
	xpu_wait(&x);
	assert_int_equal(o->failed, 0);
	assert_int_equal(o->wrong, 0);
	assert_int_equal(o->done, o->rounds);
	xpu_end(&x);
}

static void xpu_11_message_is_there_by_queue(struct conf *c)
{
	echo(c, XK_BY_QUEUE);
}

static void xpu_11_message_is_there_by_counter(struct conf *c)
{
	echo(c, XK_BY_COUNTER);
}

static uint64_t seen(struct xk_order *o)
{
	return __atomic_load_n(&o->done, __ATOMIC_ACQUIRE);
}

/* A peer writes into the device's memory; the device sees its sign, and all of it. */
static void watch(struct conf *c, enum xk_sign sign)
{
	struct conf_opts opts = { .caps = sign == XK_BY_COUNTER ? XPU_CAPS | FI_RMA_EVENT : 0 };
	struct conf_region *region;
	struct xk_order_args args;
	struct xk_order *o;
	fi_addr_t to_a;
	uint64_t key;
	struct xpu x;

	conf_need_caps(c, XPU_CAPS | opts.caps);
	xpu_begin(c, &opts, 8192, &x);
	to_a = conf_addr(x.b, x.a.end);
	o = order_of(&x, sign, 4000, conf_brief());
	region = conf_regv(x.a.end, &(struct iovec){ x.src + 4000, 4000 }, 1, CONF_ALL, 0,
			   sign == XK_BY_COUNTER ? x.a.arrived : NULL);
	key = conf_key(x.b, region);
	args.order = xpu_on_device(&x, o);
	xpu_start(&x, xk_watch, &args, sizeof(args), 1, 1);
	for (uint64_t i = 0; i < o->rounds; i++) {
		for (uint32_t k = 0; k < o->len; k++)
			x.dst[k] = xk_pattern(i, k);
		if (sign == XK_BY_COUNTER)
			assert_posted(fi_write(x.b->ep, x.dst, o->len, x.remote->desc, to_a,
					       region->addr, key, c));
		else
			assert_posted(fi_writedata(x.b->ep, x.dst, o->len, x.remote->desc, i, to_a,
						   region->addr, key, c));
		conf_done(x.b->tx, c);
		for (time_t since = conf_now(); seen(o) < i + 1; usleep(50))
			assert_true(conf_now() - since < CONF_TIMEOUT_S);
	}
	xpu_wait(&x);
	assert_int_equal(o->failed, 0);
	assert_int_equal(o->wrong, 0);
	xpu_end(&x);
}

static void xpu_11_peers_write_is_there_by_queue(struct conf *c)
{
	watch(c, XK_BY_QUEUE);
}

static void xpu_11_peers_write_is_there_by_counter(struct conf *c)
{
	watch(c, XK_BY_COUNTER);
}

static const struct conf_case cases[] = {
	CONF(xpu_08_cq_read),
	CONF(xpu_08_cq_sread),
	CONF(xpu_08_cq_formats),
	CONF(xpu_08_cq_readerr),
	CONF(xpu_08_counter_counts),
	CONF(xpu_08_counter_changes),
	CONF(xpu_08_selective_completion),
	CONF(xpu_11_data_is_there_by_queue),
	CONF(xpu_11_data_is_there_by_counter),
	CONF(xpu_11_message_is_there_by_queue),
	CONF(xpu_11_message_is_there_by_counter),
	CONF(xpu_11_peers_write_is_there_by_queue),
	CONF(xpu_11_peers_write_is_there_by_counter),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
