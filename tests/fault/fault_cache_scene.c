/* SPDX-License-Identifier: BSD-2-Clause */
/* See fault_cache.h: the NIC, the monitor, the calls, and what comes before and after a case. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "core/mr/kept.h"
#include "core/mr/monitor.h"
#include "core/mr/monitor_priv.h"
#include "core/nic/sw_nic.h"
#include "tests/fault/fault_cache.h"
#include "tests/fault/wrap_map.h"

/* ---- what fails ---- */

/* the reaper comes through the doors, too */
_Atomic unsigned refusals;
static _Atomic unsigned shut = OPEN;
static int shut_error;
_Atomic long alive;

static int door(enum slot slot)
{
	if (slot != shut)
		return 0;
	refusals++;
	return shut_error;
}

void shut_door(enum slot slot, int err)
{
	refusals = 0;
	shut_error = err;
	shut = slot;
}

void heal(void)
{
	shut = OPEN;
}

static int door_register(struct nic_region *region, const struct nic_region_request *req)
{
	int ret = door(REGISTER);

	if (ret == 0)
		ret = sw_nic_ops.region_register(region, req);
	alive += ret == 0;
	return ret;
}

static int door_deregister(struct nic_region *region)
{
	int ret = door(DEREGISTER);

	if (ret == 0)
		ret = sw_nic_ops.region_deregister(region);
	else
		HM_WARN(FI_LOG_MR, "refused");
	alive -= ret == 0;
	return ret;
}

static ssize_t door_post(struct nic_ep *ep, const struct nic_wr *wr)
{
	int ret = door(POST);

	return ret ? ret : sw_nic_ops.post(ep, wr);
}

static ssize_t door_post_recv(struct nic_ep *ep, const struct nic_recv *recv)
{
	int ret = door(POST_RECV);

	return ret ? ret : sw_nic_ops.post_recv(ep, recv);
}

static int door_ep_close(struct nic_ep *ep)
{
	int ret = door(EP_CLOSE);

	return ret ? ret : sw_nic_ops.ep_close(ep);
}

static int door_domain_close(struct nic_domain *domain)
{
	int ret = door(DOMAIN_CLOSE);

	return ret ? ret : sw_nic_ops.domain_close(domain);
}

const char *const profiles[PROFILES] = { "cache-door-free", "cache-door-pins" };
static struct nic_port door_port[PROFILES];
static struct nic_ops door_ops;

static int door_ports(const struct nic_port **ports, size_t *count)
{
	*ports = door_port;
	*count = PROFILES;
	return 0;
}

static void make_door(void)
{
	const struct nic_port *ports;
	size_t count;

	hm_init();
	door_ops = sw_nic_ops;
	door_ops.name = "cache-door";
	door_ops.ports = door_ports;
	door_ops.region_register = door_register;
	door_ops.region_deregister = door_deregister;
	door_ops.post = door_post;
	door_ops.post_recv = door_post_recv;
	door_ops.ep_close = door_ep_close;
	door_ops.domain_close = door_domain_close;
	assert_int_equal(sw_nic_ops.ports(&ports, &count), 0);
	assert_true(count > 3);
	for (size_t i = 0; i < PROFILES; i++) {
		door_port[i] = ports[3]; /* whatever hints offer */
		door_port[i].ops = &door_ops;
		door_port[i].fabric_name = "cache-door";
		door_port[i].domain_name = profiles[i];
		door_port[i].pins = i == PINS;
	}
	assert_int_equal(nic_register(&door_ops), 0);
}

/* ---- a monitor that says what it is told to ---- */

int start_error, watch_error;
static _Atomic long started;
_Atomic long watched;

static int mock_start(char *why, size_t size)
{
	snprintf(why, size, "told to fail");
	started += start_error == 0;
	return start_error;
}

static void mock_stop(void)
{
	started--;
}

static int mock_watch(uint64_t begin, uint64_t end, uint64_t *mark)
{
	assert_true(begin % PAGE == 0 && end % PAGE == 0 && begin < end);
	*mark = 7;
	watched += watch_error == 0;
	return watch_error;
}

static void mock_unwatch(uint64_t begin, uint64_t end, uint64_t mark)
{
	assert_true(begin % PAGE == 0 && end % PAGE == 0 && begin < end);
	assert_int_equal(mark, 7);
	watched--;
}

static const struct hm_monitor mock = { .name = "mock",
					.start = mock_start,
					.stop = mock_stop,
					.watch = mock_watch,
					.unwatch = mock_unwatch };
static const struct hm_monitor *const mocks[] = { &mock };

void use_mock(bool use)
{
	if (use)
		hm_monitor_override("mock", mocks, 1);
	else
		hm_monitor_override(NULL, NULL, 0);
}

/* ---- calls without a descriptor ---- */

uint8_t *buf;

int done(struct fid_cq *cq)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_data_entry entry;
	ssize_t ret = fi_cq_read(cq, &entry, 1);

	if (ret == 1)
		return 0;
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	return -error.err;
}

int finish(struct scene *s, ssize_t ret)
{
	return ret == 0 ? done(s->tx) : (int)ret;
}

static void fill(uint8_t *at, size_t len)
{
	static uint8_t round;

	round++;
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(round + i * 7 + i / 256);
}

int bare_write(struct scene *s)
{
	int ret;

	fill(buf, PAGE);
	ret = finish(s,
		     fi_write(s->ep, buf, PAGE, NULL, s->self, scene_addr(s, s->dst), s->key, s));
	if (ret == 0)
		assert_memory_equal(buf, s->dst, PAGE);
	return ret;
}

static int bare_writev(struct scene *s)
{
	struct iovec iov[2] = { { buf, 100 }, { buf + 2 * PAGE, 200 } };
	int ret;

	fill(buf, 3 * PAGE);
	ret = finish(s, fi_writev(s->ep, iov, NULL, 2, s->self, scene_addr(s, s->dst), s->key, s));
	if (ret == 0) {
		assert_memory_equal(buf, s->dst, 100);
		assert_memory_equal(buf + 2 * PAGE, s->dst + 100, 200);
	}
	return ret;
}

static int bare_read(struct scene *s)
{
	int ret;

	fill(s->dst, PAGE);
	memset(buf, 0, PAGE);
	ret = finish(s, fi_read(s->ep, buf, PAGE, NULL, s->self, scene_addr(s, s->dst), s->key, s));
	if (ret == 0)
		assert_memory_equal(buf, s->dst, PAGE);
	return ret;
}

/* Three buffers in pages of their own. */
static int bare_atomic(struct scene *s)
{
	uint64_t *one = (uint64_t *)(void *)buf, *before = one + PAGE / 8, *expected = before + 512;
	uint64_t *target = (uint64_t *)(void *)s->dst;
	int ret;

	*one = 9;
	*before = 0;
	*expected = *target = 5;
	ret = finish(s,
		     fi_compare_atomic(s->ep, one, 1, NULL, expected, NULL, before, NULL, s->self,
				       scene_addr(s, s->dst), s->key, FI_UINT64, FI_CSWAP, s));
	if (ret == 0)
		assert_true(*target == 9 && *before == 5);
	else
		assert_true(*target == 5 && *before == 0);
	return ret;
}

static int bare_send(struct scene *s)
{
	int ret;

	fill(buf, PAGE);
	ret = (int)fi_recv(s->ep, s->dst, PAGE, scene_desc(s, 1), FI_ADDR_UNSPEC, s);
	if (ret != 0)
		return ret;
	ret = finish(s, fi_send(s->ep, buf, PAGE, NULL, s->self, s));
	if (ret != 0) {
		assert_int_equal(fi_cancel(&s->ep->fid, s), 0);
		assert_int_equal(done(s->rx), -FI_ECANCELED);
		return ret;
	}
	assert_int_equal(done(s->rx), 0);
	assert_memory_equal(buf, s->dst, PAGE);
	return 0;
}

static int bare_recv(struct scene *s)
{
	struct iovec iov[2] = { { buf, 100 }, { buf + 2 * PAGE, PAGE } };
	int ret = (int)fi_recvv(s->ep, iov, NULL, 2, FI_ADDR_UNSPEC, s);

	if (ret != 0)
		return ret;
	fill(s->src, 300);
	assert_int_equal(finish(s, fi_send(s->ep, s->src, 300, scene_desc(s, 0), s->self, s)), 0);
	assert_int_equal(done(s->rx), 0);
	assert_memory_equal(s->src, buf, 100);
	assert_memory_equal(s->src + 100, buf + 2 * PAGE, 200);
	return 0;
}

int bare_alone(struct scene *s)
{
	struct iovec iov = { buf, PAGE };
	struct fi_rma_iov to = { scene_addr(s, s->dst), PAGE, s->key };
	struct fi_msg_rma rma = { &iov, NULL, 1, s->self, &to, 1, s, 0 };

	fill(buf, PAGE);
	return finish(s, fi_writemsg(s->ep, &rma, FI_COMPLETION | HMREG_NO_CACHE));
}

/* Registered twice by the program, with the same registration under both. */
int keep_region(struct scene *s)
{
	struct fid_mr *mr[2] = { UNTOUCHED, UNTOUCHED };
	struct iovec iov = { buf, 2 * PAGE };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FAULT_ALL, .requested_key = 11
	};
	uint64_t regions, bytes;
	int ret = fi_mr_regattr(s->domain, &attr, HMREG_MR_CACHE, &mr[0]);

	if (ret != 0) {
		assert_ptr_equal(mr[0], UNTOUCHED);
		return ret;
	}
	ret = fi_mr_regattr(s->domain, &attr, HMREG_MR_CACHE, &mr[1]);
	hm_mr_count(&hm_domain_of(&s->domain->fid)->mr, &regions, &bytes);
	assert_int_equal(regions, 2 + 1 + (ret == 0));
	if (ret == 0)
		assert_int_equal(fi_close(&mr[1]->fid), 0);
	else
		assert_ptr_equal(mr[1], UNTOUCHED);
	assert_int_equal(fi_close(&mr[0]->fid), 0);
	return ret;
}

const struct call calls[CALLS] = {
	{ "write", bare_write, 1, POST },    { "writev", bare_writev, 2, POST },
	{ "read", bare_read, 1, POST },	     { "atomic", bare_atomic, 3, POST },
	{ "send", bare_send, 1, POST },	     { "recvv", bare_recv, 2, POST_RECV },
	{ "uncached", bare_alone, 0, POST },
};

/* ---- a case: opened, failing, as before, closed ---- */

struct mark outside, inside;
long outside_alive;

struct hm_mr_domain *domain_of(struct scene *s)
{
	return &hm_domain_of(&s->domain->fid)->mr;
}

struct hmreg_cache_stats figures(struct scene *s)
{
	struct hmreg_cache_stats stats = { .size = sizeof(stats) };

	assert_int_equal(s->ops->cache(&s->domain->fid, &stats), 0);
	return stats;
}

void open_case(struct scene *s, const char *profile)
{
	heal();
	start_error = watch_error = 0;
	outside = fault_mark(NULL);
	outside_alive = alive;
	scene_open(s, profile, SCENE_ENDPOINT);
	scene_register(s);
	inside = fault_mark(s);
	fault_lines();
}

/* Nothing is held, so that all that is kept can go; then it has. */
void check_idle(struct scene *s)
{
	hm_mr_local_evict(domain_of(s));
	assert_int_equal(figures(s).all.entries, 0);
	assert_int_equal(figures(s).all.bytes, 0);
	assert_int_equal(alive, outside_alive + 2);
	assert_int_equal(watched, 0);
	fault_check_mark(&inside, s, true);
}

void close_case(struct scene *s)
{
	heal();
	check_idle(s);
	scene_unregister(s);
	scene_close(s);
	assert_int_equal(alive, outside_alive);
	assert_int_equal(started, 0);
	assert_int_equal(fault_lines(), 0);
	fault_check_mark(&outside, NULL, false);
}

/* The call works, and what it registered is kept. */
void works(struct scene *s, const struct call *call)
{
	struct hmreg_cache_figures before, after;

	assert_int_equal(call->run(s), 0);
	before = figures(s).all;
	assert_true(before.entries >= (call->regions > 0));
	assert_int_equal(call->run(s), 0);
	after = figures(s).all;
	assert_int_equal(after.hits - before.hits, call->regions);
	assert_int_equal(after.entries, before.entries);
}

/* ---- life ---- */

int cache_set_up(void **state)
{
	int ret = fault_group_setup(state);
	struct scene s;

	fault_modes = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	make_door();
	use_mock(true);
	buf = __real_mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	assert_ptr_not_equal(buf, MAP_FAILED);
	/* what a process makes once */
	scene_open(&s, profiles[PINS], SCENE_ENDPOINT);
	scene_register(&s);
	for (size_t i = 0; i < CALLS; i++)
		assert_int_equal(calls[i].run(&s), 0);
	scene_unregister(&s);
	scene_close(&s);
	return ret;
}

int cache_tear_down(void **state)
{
	use_mock(false);
	munmap(buf, PAGES * PAGE);
	return fault_group_teardown(state);
}
