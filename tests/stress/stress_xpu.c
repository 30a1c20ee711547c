/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads of two devices that post, in every way and wrongly too, over rings that are full all the time, while
 * the host closes regions under them, and opens, exports and closes other objects of the same contexts: every
 * request completes once, as success or as an error, nothing is written into a region that was closed, and both
 * devices end.  HMREG_STRESS_THREADS is of each ring.  stress_xpu [DOMAIN]: else over the software NIC.
 */
#include "samples/xpu/kernel.h"

#include "samples/xpu/cpu_device.h"
#include "tests/fds.h"
#include "tests/stress/stress.h"

#include <rdma/fi_xpu.h>

#define DEVICES	     2
#define RINGS	     4
#define THREADS_MAX_ 64
#define ROUNDS	     24		  /* of each thread, in one launch */
#define CQ_SIZE	     8		  /* on the host; the device's ring is larger */
#define SLOT	     64u	  /* bytes of a thread */
#define PLACES	     (3 + ROUNDS) /* of a thread: OUT, IN, what its peer writes, and messages */
#define CELL	     (THREADS_MAX_ * PLACES * SLOT)
#define LEN	     (CELL + 64)
#define GUEST	     4096u
#define RIGHTS	     (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

/* A ring as its device has it, whose peer is the other device's with the same number. */
struct lane {
	struct fid_xpu_ep ep;
	struct fid_xpu_cq cq;
	struct fid_xpu_cntr cntr;
	struct hmreg_xpu_desc desc, wrong;
	struct hmreg_xpu_addr peer;
	char *memory; /* LEN bytes: PLACES of each thread, then a cell, and what is added to one */
	uint64_t remote, key;		/* of the peer's memory */
	uint64_t guest_addr, guest_key; /* of a region that comes and goes; the key is atomic */
	/* what happened, by all threads */
	uint64_t posted, received_wanted, finished;
	uint64_t done, failed, received, wrongs, added, to_guest, guest_failed;
};

struct ring {
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct lane *lane; /* in the device's memory */
};

struct world {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct cpu_device *device[DEVICES];
	struct fid_xpu_ctx *ctx[DEVICES];
	struct ring ring[DEVICES][RINGS];
	unsigned threads;
	atomic_bool stop;
	_Atomic uint64_t guests, visitors;
};

/* ---- the kernel ---- */

struct args {
	struct lane *lane[RINGS]; /* one for each block */
};

enum {
	WRITE,
	READ,
	ADD,
	SEND,
	RECV,
	WRONG,
	TO_GUEST,
	WHATS
};

static uint64_t count(uint64_t *what)
{
	return __atomic_fetch_add(what, 1, __ATOMIC_RELAXED);
}

static char *place(const struct lane *lane, unsigned which)
{
	return lane->memory + (xpu_thread() * PLACES + which) * SLOT;
}

/* The same place of the peer's. */
static uint64_t remote(const struct lane *lane, const char *at)
{
	return lane->remote + (uint64_t)(at - lane->memory);
}

static int post(struct lane *lane, unsigned what, unsigned round)
{
	void *to = &lane->peer, *desc = &lane->desc, *context = (void *)(uintptr_t)(what + 1);
	char *out = place(lane, 0), *in = place(lane, 1), *from_peer = place(lane, 2),
	     *message = place(lane, 3 + round);

	switch (what) {
	case WRITE:
		return fi_xpu_write(&lane->ep, out, SLOT, desc, 0, to, remote(lane, from_peer),
				    lane->key, context, 0, FI_XPU_WORK_ITEM);
	case READ:
		return fi_xpu_read(&lane->ep, in, SLOT, desc, to, remote(lane, out), lane->key,
				   context, 0, FI_XPU_WORK_ITEM);
	case ADD:
		return fi_xpu_atomic(&lane->ep, lane->memory + CELL + 8, 1, desc, to,
				     remote(lane, lane->memory + CELL), lane->key, FI_UINT64,
				     FI_SUM, context, 0, FI_XPU_WORK_ITEM);
	case SEND:
		return fi_xpu_send(&lane->ep, out, SLOT, desc, 0, to, context, 0, FI_XPU_WORK_ITEM);
	case RECV:
		return fi_xpu_recv(&lane->ep, message, SLOT, desc, NULL, context, 0,
				   FI_XPU_WORK_ITEM);
	case WRONG:
		return fi_xpu_write(&lane->ep, out, SLOT, &lane->wrong, 0, to,
				    remote(lane, from_peer), lane->key, context, 0,
				    FI_XPU_WORK_ITEM);
	default:
		return fi_xpu_write(&lane->ep, out, SLOT, desc, 0, to, lane->guest_addr,
				    __atomic_load_n(&lane->guest_key, __ATOMIC_RELAXED), context, 0,
				    FI_XPU_WORK_ITEM);
	}
}

static bool expected(uintptr_t what, const struct fi_cq_err_entry *error)
{
	if (what == WRONG)
		return error->err == FI_EINVAL && error->prov_errno == HMREG_REFUSED;
	return what == TO_GUEST && (error->err == FI_ENOKEY || error->err == FI_EACCES);
}

static void take_error(struct lane *lane)
{
	struct fi_cq_err_entry error = { .err_data_size = 0 };
	int64_t ret = fi_xpu_cq_readerr(&lane->cq, &error, 0, FI_XPU_WORK_ITEM);
	uintptr_t what = (uintptr_t)error.op_context - 1;

	if (ret == -FI_EAGAIN) /* another thread was first */
		return;
	CHECK(ret == 1);
	if (!expected(what, &error)) {
		fprintf(stderr, "request of kind %u, cause %d: ", (unsigned)what, error.prov_errno);
		stress_die(__FILE__, __LINE__, "it failed", -error.err);
	}
	count(&lane->failed);
	count(what == WRONG ? &lane->wrongs : &lane->guest_failed);
}

static void take(struct lane *lane)
{
	struct fi_cq_data_entry entry[4];
	int64_t n = fi_xpu_cq_read(&lane->cq, entry, 4, FI_XPU_WORK_ITEM);

	if (n == -FI_EAVAIL)
		take_error(lane);
	for (int64_t i = 0; i < n; i++) {
		uintptr_t what = (uintptr_t)entry[i].op_context - 1;

		CHECK(what < WHATS && what != WRONG);
		CHECK((what == RECV) == !!(entry[i].flags & FI_RECV));
		count(what == RECV ? &lane->received : &lane->done);
		if (what == ADD)
			count(&lane->added);
	}
	CHECK(n > 0 || n == -FI_EAGAIN || n == -FI_EAVAIL);
}

static uint64_t total(const uint64_t *what)
{
	return __atomic_load_n(what, __ATOMIC_RELAXED);
}

/* What was posted is looked at after nobody posts any more. */
static bool all_here(const struct lane *lane)
{
	if (__atomic_load_n(&lane->finished, __ATOMIC_ACQUIRE) != xpu_threads())
		return false;
	return total(&lane->done) + total(&lane->failed) == total(&lane->posted) &&
	       total(&lane->received) == total(&lane->received_wanted);
}

XPU_KERNEL(load, struct args)
{
	struct lane *lane = args.lane[xpu_block()];

	for (unsigned i = 0; i < ROUNDS * WHATS; i++) {
		unsigned what = (i + xpu_thread()) % WHATS;
		int ret;

		while ((ret = post(lane, what, i / WHATS)) == -FI_EAGAIN)
			take(lane);
		CHECK(ret == 0);
		count(what == RECV ? &lane->received_wanted : &lane->posted);
		if (what == TO_GUEST)
			count(&lane->to_guest);
	}
	__atomic_fetch_add(&lane->finished, 1, __ATOMIC_RELEASE);
	while (!all_here(lane)) {
		take(lane);
		sched_yield();
	}
}

/* ---- the host's side ---- */

static char guest_memory[GUEST] __attribute__((aligned(4096)));

static void make_queues(struct world *w, struct fid_xpu_ctx *ctx, struct ring *r)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA,
				 .wait_obj = FI_WAIT_NONE,
				 .size = CQ_SIZE,
				 .flags = FI_XPU,
				 .xpu_ctx = ctx };
	struct fi_cntr_attr cntr = { .wait_obj = FI_WAIT_NONE, .flags = FI_XPU, .xpu_ctx = ctx };
	struct fi_info *info = fi_dupinfo(w->info);

	CHECK(info);
	info->ep_attr->xpu_ctx = ctx;
	CHECK_OK(fi_cq_open(w->domain, &cq, &r->cq, NULL));
	CHECK_OK(fi_cntr_open(w->domain, &cntr, &r->cntr, NULL));
	CHECK_OK(fi_endpoint2(w->domain, info, &r->ep, FI_XPU, NULL));
	CHECK_OK(fi_ep_bind(r->ep, &w->av->fid, 0));
	CHECK_OK(fi_ep_bind(r->ep, &r->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK_OK(fi_ep_bind(r->ep, &r->cntr->fid, FI_SEND | FI_RECV | FI_READ | FI_WRITE));
	CHECK_OK(fi_enable(r->ep));
	fi_freeinfo(info);
}

static void export_all(const struct ring *r, struct lane *lane)
{
	CHECK_OK(fi_cq_export_xpu(r->cq, 0, &lane->cq));
	CHECK_OK(fi_cntr_export_xpu(r->cntr, 0, &lane->cntr));
	CHECK_OK(fi_ep_export_xpu(r->ep, 0, &lane->ep));
}

static void close_queues(struct ring *r)
{
	CHECK_OK(fi_close(&r->ep->fid));
	CHECK_OK(fi_close(&r->cntr->fid));
	CHECK_OK(fi_close(&r->cq->fid));
}

static uint64_t base_of(const struct world *w, const void *memory)
{
	return w->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)memory : 0;
}

static struct fid_mr *make_mr(struct world *w, void *memory, size_t len)
{
	static _Atomic uint64_t key = 1;
	struct fid_mr *mr;

	CHECK_OK(fi_mr_reg(w->domain, memory, len, RIGHTS, 0, atomic_fetch_add(&key, 1), 0, &mr,
			   NULL));
	return mr;
}

static void make_ring(struct world *w, int d, struct ring *r)
{
	size_t len = sizeof(struct hmreg_xpu_desc);
	void *on_device, *on_host;

	CHECK_OK(cpu_device_alloc(w->device[d], sizeof(*r->lane) + LEN, &on_device, &on_host));
	r->lane = on_device;
	r->lane->memory = (char *)on_device + sizeof(*r->lane);
	*(uint64_t *)(void *)(r->lane->memory + CELL + 8) = 1;
	make_queues(w, w->ctx[d], r);
	r->mr = make_mr(w, (char *)on_host + sizeof(*r->lane), LEN);
	CHECK_OK(fi_mr_get_xpu_desc(r->mr, &r->lane->desc, &len, FI_XPU, w->ctx[d]));
	r->lane->wrong = r->lane->desc;
	r->lane->wrong.region ^= 1;
	/* one thread writes to each part: the engine */
	r->lane->guest_addr = base_of(w, guest_memory) +
			      (size_t)(r - &w->ring[0][0]) * (GUEST / (DEVICES * RINGS));
	export_all(r, r->lane);
}

/* from writes to to. */
static void introduce(struct world *w, int d, struct ring *from, const struct ring *to)
{
	size_t len = sizeof(struct hmreg_xpu_addr), name_len;
	fi_addr_t addr;
	char name[64];

	name_len = sizeof(name);
	CHECK_OK(fi_getname(&to->ep->fid, name, &name_len));
	CHECK(fi_av_insert(w->av, name, 1, &addr, 0, NULL) == 1);
	CHECK_OK(fi_av_lookup2(w->av, addr, &from->lane->peer, &len, FI_XPU, w->ctx[d]));
	from->lane->remote = base_of(w, to->lane->memory);
	from->lane->key = fi_mr_key(to->mr);
}

static void world_open(struct world *w, const char *profile)
{
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	memset(w, 0, sizeof(*w));
	w->threads = stress_setting("HMREG_STRESS_THREADS", 8);
	if (w->threads > THREADS_MAX_)
		w->threads = THREADS_MAX_;
	w->info = stress_info(profile, FI_MSG | FI_RMA | FI_ATOMIC | FI_XPU);
	CHECK_OK(fi_fabric(w->info->fabric_attr, &w->fabric, NULL));
	CHECK_OK(fi_domain(w->fabric, w->info, &w->domain, NULL));
	CHECK_OK(fi_av_open(w->domain, &av, &w->av, NULL));
	for (int d = 0; d < DEVICES; d++) {
		struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM, .ops = cpu_device_ops() };

		CHECK_OK(cpu_device_open(CPU_DEVICE_THREADS, &w->device[d]));
		attr.device = cpu_device_number(w->device[d]);
		CHECK_OK(fi_xpu_ctx(w->domain, &attr, &w->ctx[d], NULL));
		for (int i = 0; i < RINGS; i++)
			make_ring(w, d, &w->ring[d][i]);
	}
	for (int d = 0; d < DEVICES; d++)
		for (int i = 0; i < RINGS; i++)
			introduce(w, d, &w->ring[d][i], &w->ring[1 - d][i]);
}

static void world_close(struct world *w)
{
	for (int d = 0; d < DEVICES; d++)
		for (int i = 0; i < RINGS; i++)
			close_queues(&w->ring[d][i]);
	for (int d = 0; d < DEVICES; d++) {
		struct cpu_device_counts counts;

		for (int i = 0; i < RINGS; i++) {
			CHECK_OK(fi_close(&w->ring[d][i].mr->fid));
			cpu_device_free(w->device[d], w->ring[d][i].lane);
		}
		CHECK_OK(fi_close(&w->ctx[d]->fid));
		counts = cpu_device_counts(w->device[d]);
		CHECK(counts.imports + counts.allocs == counts.frees);
		cpu_device_close(w->device[d]);
	}
	CHECK_OK(fi_close(&w->av->fid));
	CHECK_OK(fi_close(&w->domain->fid));
	CHECK_OK(fi_close(&w->fabric->fid));
	fi_freeinfo(w->info);
}

/* ---- what the host does meanwhile ---- */

static void tell_guest(struct world *w, uint64_t key)
{
	for (int d = 0; d < DEVICES; d++)
		for (int i = 0; i < RINGS; i++)
			__atomic_store_n(&w->ring[d][i].lane->guest_key, key, __ATOMIC_RELAXED);
}

/* A region of memory that is the host's own again as soon as it is closed. */
static void *be_guest(void *arg)
{
	char *memory = guest_memory;
	struct world *w = arg;

	while (!atomic_load(&w->stop)) {
		struct fid_mr *mr = make_mr(w, memory, GUEST);

		tell_guest(w, fi_mr_key(mr));
		for (int i = 0; i < 20; i++)
			sched_yield();
		CHECK_OK(fi_close(&mr->fid));
		memset(memory, (int)(w->guests & 0x7f) + 0x80, GUEST);
		for (int i = 0; i < 20; i++)
			sched_yield();
		for (size_t i = 1; i < GUEST; i++)
			CHECK(memory[i] == memory[0]);
		atomic_fetch_add(&w->guests, 1);
	}
	return memory;
}

/* Objects of the same contexts that come, post a little, and go with requests in the ring. */
static void *be_visitor(void *arg)
{
	static char memory[64];
	struct world *w = arg;
	struct fid_mr *mr = make_mr(w, memory, sizeof(memory));

	for (unsigned n = 0; !atomic_load(&w->stop); n++) {
		int d = n % DEVICES;
		struct fi_cq_tagged_entry entry; /* room for any */
		struct lane lane = { .memory = memory };
		struct ring r;
		size_t len = sizeof(lane.desc);

		make_queues(w, w->ctx[d], &r);
		export_all(&r, &lane);
		CHECK_OK(fi_mr_get_xpu_desc(mr, &lane.desc, &len, FI_XPU, w->ctx[d]));
		for (int i = 0; i < 3; i++)
			CHECK_OK(fi_xpu_recv(&lane.ep, memory, 8, &lane.desc, NULL, NULL, 0,
					     FI_XPU_WORK_ITEM));
		lane.desc.region ^= 1;
		CHECK_OK(fi_xpu_recv(&lane.ep, memory, 8, &lane.desc, NULL, NULL, 0,
				     FI_XPU_WORK_ITEM));
		while (n % 3 == 0 &&
		       fi_xpu_cq_read(&lane.cq, &entry, 1, FI_XPU_WORK_ITEM) != -FI_EAVAIL)
			sched_yield();
		close_queues(&r);
		atomic_fetch_add(&w->visitors, 1);
	}
	CHECK_OK(fi_close(&mr->fid));
	return NULL;
}

/* ---- one launch after the other ---- */

static void check_lane(const struct world *w, const struct ring *r, const struct ring *peer,
		       uint64_t launches)
{
	const struct lane *lane = r->lane;
	uint64_t each = launches * ROUNDS * w->threads;
	uint64_t cell = *(const uint64_t *)(const void *)(peer->lane->memory + CELL);

	CHECK(lane->posted == (WHATS - 1) * each);
	CHECK(lane->received == each && lane->added == each && cell == each);
	CHECK(lane->wrongs == each && lane->to_guest == each);
	CHECK(lane->done + lane->failed == lane->posted);
	CHECK(lane->failed == lane->wrongs + lane->guest_failed);
	while (fi_xpu_cntr_readerr((struct fid_xpu_cntr *)&lane->cntr, FI_XPU_WORK_ITEM) !=
	       lane->failed)
		sched_yield();
	while (fi_xpu_cntr_read((struct fid_xpu_cntr *)&lane->cntr, FI_XPU_WORK_ITEM) !=
	       lane->done + lane->received)
		sched_yield();
}

static void launch(struct world *w, uint64_t launches)
{
	for (int d = 0; d < DEVICES; d++) {
		struct args args;

		for (int i = 0; i < RINGS; i++) {
			args.lane[i] = w->ring[d][i].lane;
			args.lane[i]->finished = 0;
		}
		CHECK_OK(cpu_device_launch(w->device[d], load, &args, sizeof(args), RINGS,
					   w->threads));
	}
	for (int d = 0; d < DEVICES; d++)
		CHECK_OK(cpu_device_wait(w->device[d], -1));
	for (int d = 0; d < DEVICES; d++)
		for (int i = 0; i < RINGS; i++)
			check_lane(w, &w->ring[d][i], &w->ring[1 - d][i], launches);
}

static void run(const char *profile)
{
	double end = stress_now() + stress_setting("HMREG_STRESS_SECONDS", 10);
	size_t fds = test_fds();
	pthread_t guest, visitor;
	uint64_t launches = 0;
	struct world w;

	world_open(&w, profile);
	CHECK_OK(pthread_create(&guest, NULL, be_guest, &w));
	CHECK_OK(pthread_create(&visitor, NULL, be_visitor, &w));
	do
		launch(&w, ++launches);
	while (stress_now() < end);
	atomic_store(&w.stop, true);
	CHECK_OK(pthread_join(guest, NULL));
	CHECK_OK(pthread_join(visitor, NULL));
	printf("%s: %lu launches of %d rings with %u threads each; %lu regions and %lu endpoints "
	       "came and went\n",
	       profile, (unsigned long)launches, DEVICES * RINGS, w.threads,
	       (unsigned long)w.guests, (unsigned long)w.visitors);
	CHECK(w.guests > 0 && w.visitors > 0);
	world_close(&w);
	CHECK(test_fds() == fds);
}

static const char *domains[] = { "sw-scalable", "sw-verbs", NULL };

static void xpu_10_every_request_completes_once(void **state)
{
	(void)state;
	for (const char **domain = domains; *domain; domain++)
		run(*domain);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xpu_10_every_request_completes_once),
	};

	/* a machine that is too busy for a while is no peer that is dead */
	setenv("HMREG_VERBS_RETRY_TIME", "60000", 0);
	if (argc > 1) {
		domains[0] = argv[1];
		domains[1] = NULL;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
