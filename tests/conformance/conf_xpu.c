/* SPDX-License-Identifier: BSD-2-Clause */
/* Each data call that a device can make, with its completion, and what arrives where it should. fi_xpu(3) */
#include "tests/conformance/atomic_model.h"
#include "tests/conformance/xpu.h"

#define LEN ((size_t)128 * 1024)

static const size_t lengths[] = { 1, 7, 8, 64, 100, 4096, 4097, 65536, LEN };

/* ---- reading and writing ---- */

static void xpu_08_write(struct conf *c)
{
	struct fi_cq_data_entry entry;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	for (size_t i = 0; i < count_of(lengths); i++) {
		size_t off = (LEN - lengths[i]) / 2;
		struct xk_call call = xpu_transfer(&x, XK_WRITE, off, lengths[i]);

		memset(x.dst, 0, LEN);
		conf_fill(c, x.src, LEN);
		xpu_posted(&x, &call);
		xpu_done_as(&x, XK_TX, call.context, &entry);
		assert_true(entry.flags == (FI_RMA | FI_WRITE));
		conf_arrives(x.dst + off, x.src + off, lengths[i]);
		for (size_t k = 0; k < LEN; k++)
			if (k < off || k >= off + lengths[i])
				assert_int_equal(x.dst[k], 0);
	}
	xpu_quiet(&x, XK_TX);
	conf_quiet(x.b->rx);
	xpu_end(&x);
}

static void xpu_08_write_with_data(struct conf *c)
{
	const uint64_t data = UINT64_C(0x1122334455667788);
	struct fi_cq_data_entry entry;
	struct xk_call call;
	struct xpu x;

	xpu_begin(c, NULL, 4096, &x);
	call = xpu_transfer(&x, XK_WRITE, 16, 100);
	call.flags |= FI_REMOTE_CQ_DATA;
	call.data = data;
	xpu_posted(&x, &call);
	xpu_done(&x, XK_TX, call.context);
	conf_done_as(x.b->rx, NULL, &entry);
	assert_true(entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
	assert_true(entry.data == conf_data(x.b, data));
	assert_memory_equal(x.dst + 16, x.src + 16, 100);
	xpu_end(&x);
}

static void xpu_08_read(struct conf *c)
{
	struct fi_cq_data_entry entry;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	for (size_t i = 0; i < count_of(lengths); i++) {
		size_t off = (LEN - lengths[i]) / 2;
		struct xk_call call = xpu_transfer(&x, XK_READ, off, lengths[i]);

		conf_fill(c, x.dst, LEN);
		memset(x.src, 0, LEN);
		xpu_posted(&x, &call);
		xpu_done_as(&x, XK_TX, call.context, &entry);
		assert_true(entry.flags == (FI_RMA | FI_READ));
		assert_memory_equal(x.src + off, x.dst + off, lengths[i]);
		for (size_t k = 0; k < LEN; k++)
			if (k < off || k >= off + lengths[i])
				assert_int_equal(x.src[k], 0);
	}
	xpu_end(&x);
}

/* No bytes: nothing is accessed, and it completes. */
static void xpu_08_nothing(struct conf *c)
{
	static const enum xk_what whats[] = { XK_WRITE, XK_READ };
	struct xpu x;

	xpu_begin(c, NULL, 64, &x);
	for (size_t i = 0; i < count_of(whats); i++) {
		struct xk_call call = xpu_transfer(&x, whats[i], 0, 0);

		xpu_posted(&x, &call);
		xpu_done(&x, XK_TX, call.context);
		call.buf = 0;
		call.desc = XPU_NO_NAME;
		xpu_posted(&x, &call);
		xpu_done(&x, XK_TX, call.context);
	}
	xpu_end(&x);
}

/* ---- messages ---- */

static void xpu_08_send(struct conf *c)
{
	struct fi_cq_data_entry entry;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	for (size_t i = 0; i < count_of(lengths); i++) {
		struct xk_call call = xpu_transfer(&x, XK_SEND, 0, lengths[i]);

		memset(x.dst, 0, LEN);
		conf_fill(c, x.src, LEN);
		if (i % 2) {
			call.flags |= FI_REMOTE_CQ_DATA;
			call.data = 0x100 + i;
		}
		assert_posted(fi_recv(x.b->ep, x.dst, LEN, x.remote->desc, FI_ADDR_UNSPEC, c));
		xpu_posted(&x, &call);
		xpu_done_as(&x, XK_TX, call.context, &entry);
		assert_true(entry.flags == (FI_MSG | FI_SEND));
		conf_done_as(x.b->rx, c, &entry);
		assert_int_equal(entry.len, lengths[i]);
		if (i % 2)
			assert_true((entry.flags & FI_REMOTE_CQ_DATA) && entry.data == 0x100 + i);
		assert_memory_equal(x.dst, x.src, lengths[i]);
		for (size_t k = lengths[i]; k < LEN; k++)
			assert_int_equal(x.dst[k], 0);
	}
	xpu_end(&x);
}

/* From anybody, and from one peer alone; the source is told where it is asked for. */
static void xpu_08_recv(struct conf *c)
{
	const struct xk_call read = {
		.what = XK_CQ_READFROM, .object = XK_RX, .len = 1, .again = ~0u
	};
	struct fi_cq_data_entry entry;
	fi_addr_t to_a;
	struct xpu x;

	xpu_begin(c, NULL, LEN, &x);
	to_a = conf_addr(x.b, x.a.end);
	for (size_t i = 0; i < count_of(lengths); i++) {
		struct xk_call call = xpu_transfer(&x, XK_RECV, 0, LEN);

		memset(x.src, 0, LEN);
		conf_fill(c, x.dst, LEN);
		call.peer = i % 2 ? XPU_PEER : XPU_NO_NAME;
		xpu_posted(&x, &call);
		assert_posted(fi_send(x.b->ep, x.dst, lengths[i], x.remote->desc, to_a, c));
		conf_done(x.b->tx, c);
		assert_int_equal(xpu_call(&x, &read), 1);
		memcpy(&entry, x.script->room, sizeof(entry));
		assert_true(entry.flags == (FI_MSG | FI_RECV));
		assert_int_equal((uintptr_t)entry.op_context, call.context);
		assert_int_equal(entry.len, lengths[i]);
		assert_memory_equal(x.src, x.dst, lengths[i]);
		for (size_t k = lengths[i]; k < LEN; k++)
			assert_int_equal(x.src[k], 0);
	}
	xpu_end(&x);
}

static void xpu_08_recv_tells_the_source(struct conf *c)
{
	const struct xk_call read = {
		.what = XK_CQ_READFROM, .object = XK_RX, .len = 1, .again = ~0u
	};
	struct conf_opts opts = { .caps = XPU_CAPS | FI_SOURCE };
	struct xk_call call;
	fi_addr_t to_a;
	struct xpu x;

	conf_need_caps(c, XPU_CAPS | FI_SOURCE);
	xpu_begin(c, &opts, 64, &x);
	to_a = conf_addr(x.b, x.a.end);
	call = xpu_transfer(&x, XK_RECV, 0, 64);
	call.peer = XPU_NO_NAME;
	xpu_posted(&x, &call);
	x.script->from[0] = 77;
	assert_posted(fi_send(x.b->ep, x.dst, 64, x.remote->desc, to_a, c));
	assert_int_equal(xpu_call(&x, &read), 1);
	assert_true(x.script->from[0] == x.to);
	conf_done(x.b->tx, c);
	xpu_end(&x);
}

/* One that is longer than the buffer. */
static void xpu_08_recv_truncated(struct conf *c)
{
	struct xk_call call;
	fi_addr_t to_a;
	struct xpu x;

	xpu_begin(c, NULL, 256, &x);
	to_a = conf_addr(x.b, x.a.end);
	memset(x.src, 0, 256);
	conf_fill(c, x.dst, 256);
	call = xpu_transfer(&x, XK_RECV, 0, 100);
	xpu_posted(&x, &call);
	assert_posted(fi_send(x.b->ep, x.dst, 200, x.remote->desc, to_a, c));
	xpu_failed(&x, XK_RX, call.context, FI_ETRUNC, HMREG_TRUNCATED);
	conf_await(x.b->tx);
	for (size_t i = 100; i < 256; i++)
		assert_int_equal(x.src[i], 0);
	call.len = 256;
	xpu_posted(&x, &call);
	assert_posted(fi_send(x.b->ep, x.dst, 200, x.remote->desc, to_a, c));
	xpu_done(&x, XK_RX, call.context);
	assert_memory_equal(x.src, x.dst, 200);
	xpu_end(&x);
}

/* Two ends of the device. */
static void xpu_08_device_to_device(struct conf *c)
{
	struct xpu_end other;
	struct xk_call send, receive;
	struct xk_end first;
	struct xpu x;

	xpu_begin(c, NULL, 8192, &x);
	first = x.a.exported;
	xpu_open(&x, NULL, &other);
	xpu_name(&x, &x.a, conf_addr(x.a.end, other.end), &x.script->name[XPU_OTHER]);
	memset(x.src + 4096, 0, 4096);
	if (c->mode & FI_MR_ENDPOINT) /* the buffer is the other endpoint's */
		xpu_desc(&x, conf_reg(other.end, x.src + 4096, 4096, CONF_ALL),
			 &x.script->name[XPU_OTHER + 1]);
	else
		x.script->name[XPU_OTHER + 1] = x.script->name[XPU_DESC];
	receive = xpu_transfer(&x, XK_RECV, 4096, 4096);
	receive.peer = XPU_NO_NAME;
	receive.desc = XPU_OTHER + 1;
	x.script->end = other.exported;
	xpu_posted(&x, &receive);
	x.script->end = first;
	send = xpu_transfer(&x, XK_SEND, 0, 4096);
	send.peer = XPU_OTHER;
	xpu_posted(&x, &send);
	xpu_done(&x, XK_TX, send.context);
	x.script->end = other.exported;
	xpu_done(&x, XK_RX, receive.context);
	assert_memory_equal(x.src, x.src + 4096, 4096);
	xpu_end(&x);
}

/* ---- atomics ---- */

#define ELEMENT 64 /* room for one */

/* Operand, compare and result stand one after another in src; the target in dst. */
static struct xk_call atomic_call(const struct xpu *x, enum model_kind kind,
				  const struct model_type *type, int op)
{
	static const enum xk_what whats[] = { XK_ATOMIC, XK_FETCH, XK_COMPARE };
	struct xk_call call = xpu_transfer(x, whats[kind], 0, 1);

	call.compare = call.buf + ELEMENT;
	call.result = call.buf + 2 * ELEMENT;
	call.compare_desc = call.result_desc = XPU_DESC;
	call.datatype = (int)type->datatype;
	call.op = op;
	return call;
}

static void try_atomic(struct xpu *x, enum model_kind kind, const struct model_type *type, int op)
{
	struct xk_call call = atomic_call(x, kind, type, op);
	struct model_value target = model_of(2, 0), operand = model_of(1, 0),
			   compare = model_of(kind == MODEL_COMPARE ? 2 : 4, 0), after;
	uint8_t want[ELEMENT], fetched[ELEMENT];
	struct fi_cq_data_entry entry;

	memset(x->src, 0x5c, 3 * ELEMENT);
	memset(x->dst, 0x5c, ELEMENT);
	memset(want, 0x5c, ELEMENT);
	memset(fetched, 0x5c, ELEMENT);
	after = model_apply(type, op, target, operand, compare);
	model_put(type, &operand, x->src);
	model_put(type, &compare, x->src + ELEMENT);
	model_put(type, &target, x->dst);
	model_put(type, &target, want);
	model_put(type, &after, want);
	if (kind != MODEL_BASE)
		model_put(type, &target, fetched);
	xpu_posted(x, &call);
	xpu_done_as(x, XK_TX, call.context, &entry);
	assert_true(entry.flags == (FI_ATOMIC | (kind == MODEL_BASE ? FI_WRITE : FI_READ)));
	conf_arrives(x->dst, want, ELEMENT);
	assert_memory_equal(x->src + 2 * ELEMENT, fetched, ELEMENT);
}

static void xpu_08_every_atomic(struct conf *c)
{
	static const uint64_t flags[] = { 0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC };
	unsigned tried[MODEL_KINDS] = { 0 };
	struct xpu x;

	xpu_begin(c, NULL, 4096, &x);
	for (int kind = 0; kind < MODEL_KINDS; kind++)
		for (size_t i = 0; i < MODEL_TYPES; i++)
			for (int op = 0; op <= FI_DIFF; op++) {
				if (!conf_atomic_count(x.a.end, model_types[i].datatype,
						       (enum fi_op)op, flags[kind]))
					continue;
				try_atomic(&x, (enum model_kind)kind, &model_types[i], op);
				tried[kind]++;
			}
	assert_true(tried[MODEL_FETCH] > 0 && tried[MODEL_COMPARE] > 0);
	xpu_quiet(&x, XK_TX);
	xpu_end(&x);
}

/* ---- what there is not ---- */

static void xpu_08_tagged_and_unknown_providers(struct conf *c)
{
	struct xk_end good;
	struct xpu x;

	xpu_begin(c, NULL, 4096, &x);
	good = x.script->end;
	for (int what = XK_TSEND; what <= XK_TRECV; what++) {
		struct xk_call call = xpu_transfer(&x, (enum xk_what)what, 0, 64);

		assert_int_equal(xpu_call(&x, &call), -FI_ENOSYS);
	}
	x.script->end.ep.fid.prov_id = x.script->end.tx.fid.prov_id = 0x7777;
	x.script->end.sent.fid.prov_id = 0x7777;
	for (int what = XK_WRITE; what <= XK_CNTR_SETERR; what++) {
		struct xk_call call = xpu_transfer(&x, (enum xk_what)what, 0, 1);
		int64_t want = what == XK_CNTR_READ || what == XK_CNTR_WAIT ? 0 : -FI_ENOSYS;

		assert_int_equal(xpu_call(&x, &call), want);
	}
	x.script->end = good;
	xpu_works(&x);
	xpu_quiet(&x, XK_TX);
	xpu_end(&x);
}

/* ---- descriptors ---- */

static int agreed(const struct conf *c)
{
	int mode;

	conf_need_endpoints();
	assert_int_equal(conf_agree(c, FI_XPU, c->profile->offered, &mode), 0);
	return mode;
}

/* MODE-11 */
static void mode_11_null_desc_is_refused(struct conf *c)
{
	static const enum xk_what whats[] = { XK_WRITE, XK_READ, XK_SEND, XK_RECV, XK_ATOMIC };
	struct xpu x;

	if (!(agreed(c) & FI_MR_XPU_DESC))
		conf_skip(c, "FI_MR_XPU_DESC was not agreed");
	xpu_begin(c, NULL, 4096, &x);
	for (size_t i = 0; i < count_of(whats); i++) {
		struct xk_call call = xpu_transfer(&x, whats[i], 0, 1);

		call.desc = XPU_NO_NAME;
		call.datatype = FI_UINT64;
		call.op = FI_SUM;
		xpu_refused(&x, &call, FI_EINVAL);
	}
	xpu_works(&x);
	xpu_end(&x);
}

static void mode_11_null_desc_is_fine(struct conf *c)
{
	struct xk_call call;
	struct xpu x;

	if (agreed(c) & FI_MR_XPU_DESC)
		conf_skip(c, "descriptors are needed");
	xpu_begin(c, NULL, 4096, &x);
	call = xpu_transfer(&x, XK_WRITE, 0, 100);
	call.desc = XPU_NO_NAME;
	xpu_posted(&x, &call);
	xpu_done(&x, XK_TX, call.context);
	conf_arrives(x.dst, x.src, 100);
	xpu_works(&x);
	xpu_end(&x);
}

static const struct conf_case cases[] = {
	CONF(xpu_08_write),
	CONF(xpu_08_write_with_data),
	CONF(xpu_08_read),
	CONF(xpu_08_nothing),
	CONF(xpu_08_send),
	CONF(xpu_08_recv),
	CONF(xpu_08_recv_tells_the_source),
	CONF(xpu_08_recv_truncated),
	CONF(xpu_08_device_to_device),
	CONF(xpu_08_every_atomic),
	CONF(xpu_08_tagged_and_unknown_providers),
	CONF(mode_11_null_desc_is_refused),
	CONF(mode_11_null_desc_is_fine),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
