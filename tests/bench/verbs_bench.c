/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the library adds to the verbs that it calls, on one device: registration and close of host memory
 * and of dma-bufs, and an RDMA write, each beside the raw verbs in the same protection domain of the same
 * process.  Library and raw verbs take turns, so that whatever else the machine does meets both.
 *
 * With the emulated device's "null" mode, which registers nothing, the difference is what the library
 * itself takes.  --count KIND N runs N rounds of one kind inside count_rounds(), for a profiler to count
 * instructions there.
 */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "core/nic/verbs_lib.h"
#include "samples/dmabuf_host.h"
#include "tests/bench/bench.h"

#define TURNS	101 /* of raw, library, raw */
#define FEW	9   /* where one of them takes long */
#define LONG_NS 1e7
#define RUN_NS	1e6 /* about what one run shall take */
#define LARGEST ((size_t)16 << 20)
#define RIGHTS	(FI_REMOTE_READ | FI_REMOTE_WRITE)
#define RAW_RIGHTS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static const struct {
	size_t len;
	const char *name;
} sizes[] = { { 4096, "4KiB" }, { 65536, "64KiB" }, { 1 << 20, "1MiB" }, { LARGEST, "16MiB" } };

/* The device under test, opened by the library; context and pd are the library's. */
struct opened {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct hmreg_device device;
	struct hmreg_verbs_domain verbs;
};

/* ---- opening ---- */

static struct fi_info *ask(const char *name, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	check(hints ? 0 : -FI_ENOMEM, "hints");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = caps;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY | FI_MR_HMEM;
	hints->fabric_attr->name = strdup("hmreg-verbs");
	hints->domain_attr->name = name ? strdup(name) : NULL;
	fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	return info;
}

/* False: there is no such device. */
static bool open_device(struct opened *o, const char *name)
{
	struct hmreg_fabric_ops *fabric_ops;
	struct hmreg_domain_ops *domain_ops;

	o->info = ask(name, FI_RMA | FI_HMEM);
	if (!o->info)
		o->info = ask(name, FI_RMA);
	if (!o->info)
		return false;
	o->device.size = sizeof(o->device);
	o->verbs.size = sizeof(o->verbs);
	check(fi_fabric(o->info->fabric_attr, &o->fabric, NULL), "fi_fabric");
	check(fi_open_ops(&o->fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&fabric_ops, NULL),
	      HMREG_FABRIC_OPS);
	check(fabric_ops->device(&o->fabric->fid, o->info, &o->device), "the device");
	check(fi_domain(o->fabric, o->info, &o->domain, NULL), "fi_domain");
	check(fi_open_ops(&o->domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&domain_ops, NULL),
	      HMREG_DOMAIN_OPS);
	check(domain_ops->verbs(&o->domain->fid, &o->verbs), "the verbs objects");
	check(verbs_lib_load(), "libibverbs");
	return true;
}

static void close_device(struct opened *o)
{
	check(fi_close(&o->domain->fid), "close domain");
	check(fi_close(&o->fabric->fid), "close fabric");
	fi_freeinfo(o->info);
}

/* ---- taking turns ---- */

/* Rounds that take about RUN_NS. */
static long rounds_for(bench_work *work, void *arg)
{
	double ns = time_of(work, arg, 3);

	return (long)(RUN_NS / (ns > 1 ? ns : 1)) + 1;
}

/*
 * The library's run stands between two raw ones, so that a drift of the machine cancels.  Figures
 * NAME.raw, NAME.hmreg, NAME.to_raw and NAME.added (medians of the turns' ratios and differences), and
 * NAME.noise, the same ratio of raw to raw: what a ratio of this run is worth.  Returns to_raw.
 */
static double compare(const char *name, bench_work *raw, bench_work *ours, void *arg)
{
	double raw_ns[TURNS], our_ns[TURNS], ratio[TURNS], added[TURNS], noise[TURNS];
	long n = rounds_for(raw, arg), ours_n = rounds_for(ours, arg);
	size_t turns = n == 1 && time_of(raw, arg, 1) > LONG_NS ? FEW : TURNS;

	for (size_t i = 0; i < turns; i++) {
		double before = time_of(raw, arg, n), after;

		our_ns[i] = time_of(ours, arg, ours_n);
		after = time_of(raw, arg, n);
		raw_ns[i] = (before + after) / 2;
		ratio[i] = our_ns[i] / raw_ns[i];
		added[i] = our_ns[i] - raw_ns[i];
		noise[i] = after / before;
	}
	figure(median_of(raw_ns, turns), "ns", "%s.raw", name);
	figure(median_of(our_ns, turns), "ns", "%s.hmreg", name);
	figure(median_of(ratio, turns), "x", "%s.to_raw", name);
	figure(median_of(added, turns), "ns", "%s.added", name);
	figure(median_of(noise, turns), "x", "%s.noise", name);
	return median_of(ratio, turns);
}

/* ---- registration and close ---- */

struct reg_work {
	struct opened *o;
	void *buf;
	size_t len;
	int fd; /* a dma-buf's, or -1 */
	struct fid_mr *base;
};

static void raw_reg(void *arg, long n)
{
	struct reg_work *w = arg;

	for (long i = 0; i < n; i++) {
		struct ibv_mr *mr = verbs.reg_mr_iova2(w->o->verbs.pd, w->buf, w->len,
						       (uintptr_t)w->buf, RAW_RIGHTS);

		check(mr ? 0 : -FI_EOTHER, "ibv_reg_mr_iova2");
		check(verbs.dereg_mr(mr), "ibv_dereg_mr");
	}
}

static void our_reg(void *arg, long n)
{
	struct reg_work *w = arg;
	const struct iovec iov = { w->buf, w->len };
	const struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = RIGHTS };

	for (long i = 0; i < n; i++) {
		struct fid_mr *mr;

		check(fi_mr_regattr(w->o->domain, &attr, 0, &mr), "fi_mr_regattr");
		check(fi_close(&mr->fid), "fi_close");
	}
}

static void raw_dmabuf(void *arg, long n)
{
	struct reg_work *w = arg;

	for (long i = 0; i < n; i++) {
		struct ibv_mr *mr = verbs.reg_dmabuf_mr(w->o->verbs.pd, 0, w->len,
							(uintptr_t)w->buf, w->fd, RAW_RIGHTS);

		check(mr ? 0 : -FI_EOTHER, "ibv_reg_dmabuf_mr");
		check(verbs.dereg_mr(mr), "ibv_dereg_mr");
	}
}

static void our_dmabuf(void *arg, long n)
{
	struct reg_work *w = arg;
	const struct fi_mr_dmabuf dmabuf = { .fd = w->fd, .len = w->len, .base_addr = w->buf };
	const struct fi_mr_attr attr = { .dmabuf = &dmabuf, .iov_count = 1, .access = RIGHTS };

	for (long i = 0; i < n; i++) {
		struct fid_mr *mr;

		check(fi_mr_regattr(w->o->domain, &attr, FI_MR_DMABUF, &mr), "fi_mr_regattr");
		check(fi_close(&mr->fid), "fi_close");
	}
}

static void *map_memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	check(p == MAP_FAILED ? -FI_ENOMEM : 0, "mmap");
	return p;
}

static void bench_reg(struct opened *o)
{
	struct reg_work w = { .o = o, .buf = map_memory(LARGEST), .fd = -1 };
	char name[80];

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		w.len = sizes[i].len;
		snprintf(name, sizeof(name), "verbs_reg_close.%s.%s", o->device.name,
			 sizes[i].name);
		compare(name, raw_reg, our_reg, &w);
	}
	munmap(w.buf, LARGEST);
}

static void bench_dmabuf(struct opened *o)
{
	struct dmabuf_host buffer;
	struct reg_work w = { .o = o };
	char name[80];

	if (!(o->device.can & HMREG_CAN_DMABUF)) {
		fprintf(stderr, "verbs_bench: no dma-bufs: %s\n", o->device.dmabuf_reason);
		return;
	}
	if (dmabuf_host_open(LARGEST, &buffer))
		return; /* it has said why */
	w.buf = buffer.map;
	w.fd = buffer.fd;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		w.len = sizes[i].len;
		snprintf(name, sizeof(name), "verbs_reg_close.%s.dmabuf_%s", o->device.name,
			 sizes[i].name);
		compare(name, raw_dmabuf, our_dmabuf, &w);
	}
	dmabuf_host_close(&buffer);
}

/* ---- sub-MRs ---- */

/* Beside a registration of the same range: a sub-MR of that length, of a base that is registered. */
static void our_sub(void *arg, long n)
{
	struct reg_work *w = arg;
	const struct iovec iov = { w->buf, w->len };
	const struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = RIGHTS, .base_mr = w->base
	};

	for (long i = 0; i < n; i++) {
		struct fid_mr *mr;

		check(fi_mr_regattr(w->o->domain, &attr, 0, &mr), "a sub-MR");
		check(fi_close(&mr->fid), "fi_close");
	}
}

/* ready: windows that are made with the base. */
static void bench_subs_of(struct reg_work *w, size_t large, size_t ready)
{
	const struct iovec iov = { w->buf, large };
	const struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = RIGHTS, .sub_mr_cnt = ready
	};
	struct fid_mr *base;
	char name[80];

	check(fi_mr_regattr(w->o->domain, &attr, 0, &base), "the base");
	w->base = base;
	for (w->len = 4096; w->len <= large; w->len = w->len < large / 16 ? w->len * 16 : large) {
		snprintf(name, sizeof(name), "verbs_sub%s.%s.%zuKiB", ready ? "_ready" : "",
			 w->o->device.name, w->len / 1024);
		figure(1 / compare(name, raw_reg, our_sub, w), "x", "%s.times_cheaper", name);
		if (w->len == large)
			break;
	}
	check(fi_close(&base->fid), "close base");
}

static void bench_sub(struct opened *o, size_t large)
{
	struct reg_work w = { .o = o, .buf = map_memory(large), .fd = -1 };

	if (!(o->device.can & HMREG_CAN_WINDOWS))
		fprintf(stderr, "verbs_bench: sub-MRs are no windows: %s\n",
			o->device.windows_reason);
	bench_subs_of(&w, large, 0);
	bench_subs_of(&w, large, 1);
	munmap(w.buf, large);
}

/* ---- writes ---- */

struct write_work {
	struct opened *o;
	size_t len;
	char *src, *dst;
	struct fid_mr *src_mr, *dst_mr;
	struct hmreg_verbs_part from, to;
	/* the library's */
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep[2];
	fi_addr_t peer;
	/* raw */
	struct ibv_cq *raw_cq;
	struct ibv_qp *qp[2];
};

static void raw_write(void *arg, long n)
{
	struct write_work *w = arg;
	struct ibv_sge sge = { w->from.iova, (uint32_t)w->len, w->from.lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { w->to.iova, w->to.rkey } };

	for (long i = 0; i < n; i++) {
		struct ibv_wc wc;
		int got;

		check(-ibv_post_send(w->qp[0], &wr, &bad), "ibv_post_send");
		while ((got = ibv_poll_cq(w->raw_cq, 1, &wc)) == 0)
			;
		check(got == 1 && wc.status == IBV_WC_SUCCESS ? 0 : -FI_EIO, "ibv_poll_cq");
	}
}

static void our_write(void *arg, long n)
{
	struct write_work *w = arg;
	void *desc = fi_mr_desc(w->src_mr);
	uint64_t key = fi_mr_key(w->dst_mr);

	for (long i = 0; i < n; i++) {
		struct fi_cq_entry entry;
		ssize_t got;

		check(fi_write(w->ep[0], w->src, w->len, desc, w->peer, (uintptr_t)w->dst, key,
			       NULL),
		      "fi_write");
		while ((got = fi_cq_read(w->cq, &entry, 1)) == -FI_EAGAIN)
			;
		check(got == 1 ? 0 : got, "fi_cq_read");
	}
}

static void raw_state(struct write_work *w, int i, enum ibv_qp_state state)
{
	const struct hmreg_device *device = &w->o->device;
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = { .qp_state = state,
				    .port_num = (uint8_t)device->port,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
				    .dest_qp_num = w->qp[1 - i]->qp_num,
				    .min_rnr_timer = 12,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7 };
	int mask = IBV_QP_STATE;

	check(-verbs_query_port(w->o->verbs.context, attr.port_num, &port), "ibv_query_port");
	attr.path_mtu = port.active_mtu;
	attr.ah_attr.port_num = attr.port_num;
	attr.ah_attr.dlid = port.lid;
	if (device->gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.sgid_index = (uint8_t)device->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
		check(verbs.query_gid(w->o->verbs.context, attr.port_num, device->gid_index,
				      &attr.ah_attr.grh.dgid),
		      "ibv_query_gid");
	}
	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	else if (state == IBV_QPS_RTR)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	else
		mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	check(-verbs.modify_qp(w->qp[i], &attr, mask), "ibv_modify_qp");
}

/* Two queue pairs that are each other's peer, in the library's protection domain. */
static void open_raw(struct write_work *w)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	struct ibv_qp_init_attr attr = { .cap = { 4, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	w->raw_cq = verbs.create_cq(w->o->verbs.context, 16, NULL, NULL, 0);
	check(w->raw_cq ? 0 : -FI_EOTHER, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = w->raw_cq;
	for (int i = 0; i < 2; i++) {
		w->qp[i] = verbs.create_qp(w->o->verbs.pd, &attr);
		check(w->qp[i] ? 0 : -FI_EOTHER, "ibv_create_qp");
	}
	for (unsigned state = 0; state < 3; state++) {
		for (int i = 0; i < 2; i++)
			raw_state(w, i, states[state]);
	}
}

static void open_part(struct write_work *w, char *buf, uint64_t access, struct fid_mr **mr,
		      struct hmreg_verbs_part *part)
{
	struct hmreg_mr_ops *ops;

	check(fi_mr_reg(w->o->domain, buf, w->len, access, 0, 0, 0, mr, NULL), "fi_mr_reg");
	check(fi_open_ops(&(*mr)->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL), HMREG_MR_OPS);
	part->size = sizeof(*part);
	check(ops->verbs_part(&(*mr)->fid, 0, part), "verbs_part");
}

static void open_ours(struct write_work *w)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT };
	uint8_t name[64];
	size_t len = sizeof(name);

	check(fi_av_open(w->o->domain, &av_attr, &w->av, NULL), "fi_av_open");
	check(fi_cq_open(w->o->domain, &cq_attr, &w->cq, NULL), "fi_cq_open");
	for (int i = 0; i < 2; i++) {
		check(fi_endpoint(w->o->domain, w->o->info, &w->ep[i], NULL), "fi_endpoint");
		check(fi_ep_bind(w->ep[i], &w->cq->fid, FI_TRANSMIT | FI_RECV), "bind cq");
		check(fi_ep_bind(w->ep[i], &w->av->fid, 0), "bind av");
		check(fi_enable(w->ep[i]), "fi_enable");
	}
	check(fi_getname(&w->ep[1]->fid, name, &len), "fi_getname");
	check(fi_av_insert(w->av, name, 1, &w->peer, 0, NULL) == 1 ? 0 : -FI_EINVAL,
	      "fi_av_insert");
}

static void close_writes(struct write_work *w)
{
	for (int i = 0; i < 2; i++) {
		check(fi_close(&w->ep[i]->fid), "close");
		check(-verbs.destroy_qp(w->qp[i]), "ibv_destroy_qp");
	}
	check(-verbs.destroy_cq(w->raw_cq), "ibv_destroy_cq");
	check(fi_close(&w->cq->fid), "close");
	check(fi_close(&w->av->fid), "close");
}

static void bench_write(struct opened *o)
{
	static const struct {
		size_t len;
		const char *name;
	} writes[] = { { 8, "8B" }, { 65536, "64KiB" } };
	struct write_work w = { .o = o, .src = map_memory(65536), .dst = map_memory(65536) };
	char name[80];

	open_raw(&w);
	open_ours(&w);
	for (int i = 0; i < 2; i++) {
		w.len = writes[i].len;
		open_part(&w, w.src, FI_WRITE, &w.src_mr, &w.from);
		open_part(&w, w.dst, FI_REMOTE_WRITE, &w.dst_mr, &w.to);
		snprintf(name, sizeof(name), "verbs_write.%s.%s", o->device.name, writes[i].name);
		compare(name, raw_write, our_write, &w);
		check(fi_close(&w.src_mr->fid), "close");
		check(fi_close(&w.dst_mr->fid), "close");
	}
	close_writes(&w);
	munmap(w.src, 65536);
	munmap(w.dst, 65536);
}

/* ---- for a profiler ---- */

__attribute__((noinline)) void count_rounds(bench_work *work, void *arg, long n);

__attribute__((noinline)) void count_rounds(bench_work *work, void *arg, long n)
{
	work(arg, n);
	__asm__ volatile("" : : : "memory");
}

/* n rounds of one kind at 4 KiB, after some that nobody counts. */
static int count(struct opened *o, const char *kind, long n)
{
	struct reg_work w = { .o = o, .buf = map_memory(4096), .len = 4096, .fd = -1 };
	bench_work *work = strcmp(kind, "raw") == 0 ? raw_reg : our_reg;

	work(&w, 100);
	count_rounds(work, &w, n);
	munmap(w.buf, 4096);
	return 0;
}

static bool is_wanted(const char *part, const char *this_one)
{
	return strcmp(part, "all") == 0 || strcmp(part, this_one) == 0;
}

int main(int argc, char **argv)
{
	const char *device = NULL, *part = "all", *kind = NULL;
	size_t large = LARGEST; /* of the base of sub-MRs */
	struct opened o = { 0 };
	long n = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--tsv") == 0)
			tsv = true;
		else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc)
			device = argv[++i];
		else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc)
			part = argv[++i];
		else if (strcmp(argv[i], "--large") == 0 && i + 1 < argc)
			large = (size_t)atol(argv[++i]) << 20;
		else if (strcmp(argv[i], "--count") == 0 && i + 2 < argc)
			kind = argv[i + 1], n = atol(argv[i + 2]), i += 2;
		else
			return fprintf(stderr, "usage: verbs_bench [--tsv] [--device NAME] "
					       "[--part reg|sub|write|all] [--large MIB] "
					       "[--count raw|hmreg N]\n"),
			       2;
	}
	if (!open_device(&o, device)) {
		fprintf(stderr, "verbs_bench: no RDMA device%s%s; FI_LOG_LEVEL=info says more\n",
			device ? " " : "", device ? device : "");
		return 77;
	}
	if (kind)
		return count(&o, kind, n);
	if (is_wanted(part, "reg")) {
		bench_reg(&o);
		bench_dmabuf(&o);
	}
	if (is_wanted(part, "sub"))
		bench_sub(&o, large);
	if (is_wanted(part, "write"))
		bench_write(&o);
	close_device(&o);
	return 0;
}
