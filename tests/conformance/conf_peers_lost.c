/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that are lost without having closed, queues that fail, devices that are removed: what ends, and
 * what does not.  Most cases need a device that can be made to fail, which the emulated one can.
 */
#include <unistd.h>

#include "tests/conformance/peers.h"
#include "tests/drivers/emu_verbs.h"

#define LONG  ((size_t)4 << 20) /* a message of a thousand frames */
#define TRIES 20
#define BIG   ((size_t)64 * 1024) /* not copied by the library */

/* ---- the emulated device ---- */

static struct {
	void (*counts)(struct emu_verbs_counts *counts);
	int (*refuse)(const char *call, int nth, int error);
	long (*calls)(const char *call);
	int (*kill_peer)(uint16_t port);
	void (*silence)(uint16_t port, int silent);
	void (*lose)(uint16_t port, unsigned requests, int reason);
	int (*remove_device)(const char *name);
	void (*reset)(void);
} emu;

static void need_emulator(struct conf *c)
{
	*(void **)&emu.counts = emulator(c, "emu_verbs_counts");
	*(void **)&emu.refuse = emulator(c, "emu_verbs_fail");
	*(void **)&emu.calls = emulator(c, "emu_verbs_calls");
	*(void **)&emu.kill_peer = emulator(c, "emu_verbs_kill_peer");
	*(void **)&emu.silence = emulator(c, "emu_verbs_silence");
	*(void **)&emu.lose = emulator(c, "emu_verbs_lose");
	*(void **)&emu.remove_device = emulator(c, "emu_verbs_remove_device");
	*(void **)&emu.reset = emulator(c, "emu_verbs_reset");
	if (!emu.counts)
		conf_skip(c, "only the emulated devices do this on demand");
}

static uint64_t queue_pairs(void)
{
	struct emu_verbs_counts counts;

	emu.counts(&counts);
	return counts.qps;
}

static void await_queue_pairs(uint64_t n)
{
	for (time_t since = time(NULL); queue_pairs() != n; usleep(1000))
		if (time(NULL) - since > CONF_TIMEOUT_S)
			fail_msg("%lu queue pairs, not %lu", (unsigned long)queue_pairs(),
				 (unsigned long)n);
}

static void succeeds(struct conf_link *l)
{
	memset(l->dst, 0, l->len);
	exchange(l);
}

/* ---- a receive that holds a part of a message ---- */

/* The sender stops in the middle and cannot be reached; its connection is closed, as for a dead process. */
static void nic_receive_of_a_dead_sender_ends(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct conf_link l;

	need_emulator(c);
	conf_link(c, NULL, LONG, &l);
	for (int round = 0; round < 3; round++) {
		succeeds(&l);
		emu.silence(port_of(l.b), 1);
		assert_posted(fi_recv(l.b->ep, l.dst, l.len, l.remote->desc, FI_ADDR_UNSPEC, &l));
		conf_log_mark(__FILE__, __LINE__);
		emu.refuse("ibv_post_send", 10, ENOMEM);
		assert_int_equal(fi_send(l.a->ep, l.src, l.len, l.local->desc, l.to, NULL), 0);
		assert_int_equal(drain(l.a->tx, 1, &error), 1);
		assert_int_equal(error.prov_errno, HMREG_TRANSPORT);
		assert_int_equal(drain(l.b->rx, 1, &error), 1);
		assert_int_equal(error.prov_errno, HMREG_PEER_LOST);
		assert_int_equal(error.err, FI_ECONNABORTED);
		assert_ptr_equal(error.op_context, &l);
		conf_log_expect(1, "ibv_post_send", "the failure", __FILE__, __LINE__);
		emu.silence(port_of(l.b), 0);
	}
	succeeds(&l);
}

/* The sender's host goes silent in the middle of a message.  False: it was through already. */
static bool cut_by_silence(struct conf_link *l)
{
	struct fi_cq_err_entry error;
	size_t errors;

	succeeds(l);
	assert_posted(fi_recv(l->b->ep, l->dst, l->len, l->remote->desc, FI_ADDR_UNSPEC, l));
	assert_posted(fi_send(l->a->ep, l->src, l->len, l->local->desc, l->to, NULL));
	emu.silence(port_of(l->b), 1);
	emu.kill_peer(port_of(l->b));
	errors = drain(l->a->tx, 1, &error);
	if (errors)
		assert_int_equal(error.prov_errno, HMREG_PEER_LOST);
	assert_int_equal(drain(l->b->rx, 1, &error), errors);
	if (errors) {
		assert_int_equal(error.prov_errno, HMREG_PEER_LOST);
		assert_ptr_equal(error.op_context, l);
	}
	emu.silence(port_of(l->b), 0);
	return errors > 0;
}

static void nic_receive_of_a_silent_sender_ends(struct conf *c)
{
	int cut = 0;
	struct conf_link l;

	need_emulator(c);
	conf_link(c, NULL, LONG, &l);
	for (int tries = 0; cut < 2; tries++) {
		assert_true(tries < TRIES);
		cut += cut_by_silence(&l);
	}
	succeeds(&l);
	conf_works(&l);
}

/* A queue pair fails in the middle of a message, which goes on over the next. */
static void nic_message_goes_on_over_another_connection(struct conf *c)
{
	struct conf_link l;

	need_emulator(c);
	conf_link(c, NULL, LONG, &l);
	succeeds(&l);
	for (int nth = 1; nth < 100; nth += 13) {
		long made = emu.calls("ibv_create_qp");

		emu.refuse("ibv_post_send", nth, EIO);
		succeeds(&l);
		assert_int_equal(emu.calls("ibv_create_qp"), made + 2);
	}
}

/* ---- connections ---- */

/* New endpoints, whose first request is as it happens when many ask at once: it is lost, or comes too early. */
static void nic_connection_is_asked_for_again(struct conf *c)
{
	static const struct {
		unsigned requests;
		int reason; /* 3: no resources, 4: time is over, 10: the queue pair is still known */
	} lost[] = { { 1, 0 }, { 1, 3 }, { 3, 3 }, { 3, 4 }, { 2, 10 } };

	need_emulator(c);
	for (size_t i = 0; i < count_of(lost); i++) {
		struct conf_link l;

		conf_link(c, NULL, 64, &l);
		emu.lose(port_of(l.b), lost[i].requests, lost[i].reason);
		exchange(&l);
		emu.lose(port_of(l.b), 0, 0);
		conf_works(&l);
	}
}

/* Calls that fail on the way to a connection, as while much else goes on; those that nothing was left for tell it. */
static void nic_connection_survives_failing_calls(struct conf *c)
{
	static const char *const call[] = { "rdma_resolve_addr", "rdma_resolve_route",
					    "rdma_connect", "rdma_establish" };

	need_emulator(c);
	for (size_t i = 0; i < count_of(call); i++) {
		struct fi_cq_err_entry error;
		struct conf_link l;

		conf_link(c, NULL, 64, &l);
		assert_int_equal(emu.refuse(call[i], 1, ETIMEDOUT), 1);
		exchange(&l);
		conf_link(c, NULL, 64, &l);
		if (!strcmp(call[i], "rdma_establish"))
			continue;
		conf_log_mark(__FILE__, __LINE__);
		assert_int_equal(emu.refuse(call[i], 1, ENOMEM), 1);
		assert_posted(fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr,
				       l.key, NULL));
		assert_int_equal(drain(l.a->tx, 1, &error), 1);
		assert_int_equal(error.prov_errno, HMREG_TRANSPORT);
		conf_log_expect(1, call[i], "the failure", __FILE__, __LINE__);
		conf_works(&l);
	}
}

/*
 * One of two senders' hosts goes silent: the connection that it had opened ends in a while.  That of the
 * other, as idle, stays, and no other is opened for it.
 */
static void nic_connection_of_a_silent_host_ends(struct conf *c)
{
	struct conf_link living, dead;
	uint64_t before;
	long made;

	need_emulator(c);
	conf_link(c, NULL, 64, &living);
	conf_link(c, NULL, 64, &dead);
	exchange(&living);
	exchange(&dead);
	before = queue_pairs();
	assert_int_equal(before, 4);
	made = emu.calls("ibv_create_qp");
	for (int round = 0; round < 2; round++) {
		assert_int_equal(emu.kill_peer(port_of(dead.b)), 1);
		await_queue_pairs(before - 1);
		assert_int_equal(emu.calls("ibv_create_qp"), made);
		assert_posted(fi_write(dead.a->ep, dead.src, 64, dead.local->desc, dead.to,
				       dead.remote->addr, dead.key, NULL));
		assert_int_equal(drain(dead.a->tx, 1, &(struct fi_cq_err_entry){ .err = 0 }), 1);
		exchange(&dead);
		await_queue_pairs(before);
		made += 2;
		assert_int_equal(emu.calls("ibv_create_qp"), made);
	}
	exchange(&living);
	assert_int_equal(emu.calls("ibv_create_qp"), made);
}

/* ---- a queue that fails ---- */

/* A work request that is refused as by a removed device: only its queue pair is no use any more. */
static void fn_38_one_failing_queue_is_no_removed_device(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct conf_link l, other;

	need_emulator(c);
	conf_link(c, NULL, 64, &l);
	conf_link(c, NULL, 64, &other);
	conf_works(&l);
	conf_works(&other);
	for (int round = 0; round < 3; round++) {
		emu.refuse("ibv_post_send", 1, EIO);
		conf_works(&l); /* over another queue pair */
		exchange(&l);
	}
	conf_log_mark(__FILE__, __LINE__);
	emu.refuse("ibv_post_send", -1, EIO);
	assert_int_equal(
		fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr, l.key, NULL), 0);
	assert_int_equal(drain(l.a->tx, 1, &error), 1);
	assert_int_equal(error.prov_errno, HMREG_TRANSPORT);
	assert_int_equal(error.err, FI_EIO);
	emu.refuse("ibv_post_send", 0, 0);
	conf_log_expect(1, "ibv_post_send", "the failure", __FILE__, __LINE__);
	conf_works(&l);
	conf_works(&other);
	exchange(&l);
	assert_posted(
		fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr, l.key, NULL));
	assert_int_equal(drain(l.a->tx, 1, &error), 0);
}

/* ---- a device that is removed ---- */

/* Buffers without descriptor are not registered with a device that is gone. */
static void fn_38_nothing_is_registered_after_removal(struct conf *c)
{
	struct fi_cq_err_entry error;
	struct conf_link l;
	long calls;

	need_emulator(c);
	conf_link(c, NULL, BIG, &l);
	conf_works(&l);
	conf_log_mark(__FILE__, __LINE__);
	assert_int_equal(emu.remove_device(c->profile->name), 0);
	assert_int_equal(
		fi_write(l.a->ep, l.src, 64, l.local->desc, l.to, l.remote->addr, l.key, NULL), 0);
	assert_int_equal(drain(l.a->tx, 1, &error), 1);
	assert_int_equal(error.prov_errno, HMREG_DEVICE_GONE);
	calls = emu.calls("ibv_reg_mr_iova2");
	for (int i = 0; i < 5; i++) {
		assert_int_equal(
			fi_write(l.a->ep, l.src, BIG, NULL, l.to, l.remote->addr, l.key, NULL), 0);
		assert_int_equal(fi_send(l.a->ep, l.src, BIG, NULL, l.to, NULL), 0);
		assert_int_equal(
			fi_read(l.a->ep, l.src, BIG, NULL, l.to, l.remote->addr, l.key, NULL), 0);
		for (int k = 0; k < 3; k++) {
			assert_int_equal(drain(l.a->tx, 1, &error), 1);
			assert_int_equal(error.prov_errno, HMREG_DEVICE_GONE);
			assert_int_equal(error.err, FI_ENODEV);
		}
	}
	assert_int_equal(emu.calls("ibv_reg_mr_iova2"), calls);
	for (time_t since = time(NULL); log_lines() < (c->profile->peer ? 1 : 2);)
		assert_true(time(NULL) - since < CONF_TIMEOUT_S);
	conf_log_expect(c->profile->peer ? 1 : 2, "is gone", "removal", __FILE__, __LINE__);
	conf_drop_region(l.remote);
	conf_drop_region(l.local);
	conf_drop_end(l.b);
	conf_drop_end(l.a);
	emu.reset();
}

static const struct conf_case cases[] = {
	CONF(nic_receive_of_a_dead_sender_ends),
	CONF(nic_receive_of_a_silent_sender_ends),
	CONF(nic_message_goes_on_over_another_connection),
	CONF(nic_connection_is_asked_for_again),
	CONF(nic_connection_survives_failing_calls),
	CONF(nic_connection_of_a_silent_host_ends),
	CONF(fn_38_one_failing_queue_is_no_removed_device),
	CONF_WITHOUT(fn_38_nothing_is_registered_after_removal, FI_MR_LOCAL),
};

int main(int argc, char **argv)
{
	setenv("HMREG_VERBS_RETRY_TIME", "300", 0);
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
