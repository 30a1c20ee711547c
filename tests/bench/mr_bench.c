/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What registration costs: time of register+close by size, profile, number of regions held and
 * threads; key lookup; bytes per region; latency of an 8-byte write.  Every figure is the median of
 * 9 runs; ratios are to something measured in the same process.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "core/mr/mr.h"
#include "tests/bench/bench.h"

#define MOST_HELD 1000000

/* ---- the library under test, or a peer with the same interface ---- */

struct library {
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		       struct fi_info **);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	void (*freeinfo)(struct fi_info *);
	int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
};

static const struct library hmreg = { fi_getinfo, fi_dupinfo, fi_freeinfo, fi_fabric };

struct opened {
	const struct library *library;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

static int open_domain(const struct library *library, const char *provider, const char *name,
		       struct opened *o)
{
	struct fi_info *hints = library->dupinfo(NULL);
	int ret;

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_RMA;
	hints->domain_attr->mr_mode = 0x1fff & ~(FI_MR_BASIC | FI_MR_SCALABLE);
	if (library != &hmreg) /* a peer of an older interface knows fewer bits */
		hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
					      FI_MR_PROV_KEY;
	hints->domain_attr->name = name ? strdup(name) : NULL;
	hints->fabric_attr->prov_name = strdup(provider);
	o->library = library;
	ret = library->getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &o->info);
	library->freeinfo(hints);
	if (ret == 0)
		ret = library->fabric(o->info->fabric_attr, &o->fabric, NULL);
	if (ret == 0)
		ret = fi_domain(o->fabric, o->info, &o->domain, NULL);
	return ret;
}

static void close_domain(struct opened *o)
{
	check(fi_close(&o->domain->fid), "close domain");
	check(fi_close(&o->fabric->fid), "close fabric");
	o->library->freeinfo(o->info);
}

/* ---- register + close ---- */

struct reg_work {
	_Alignas(128) struct fid_domain *domain; /* threads share no line of it */
	void *buf;
	size_t len;
	uint64_t key;  /* the next requested key */
	uint64_t step; /* 0: the same key every round; 1: a new one */
};

static void reg_close(void *arg, long n)
{
	struct reg_work *w = arg;

	for (long i = 0; i < n; i++) {
		struct fid_mr *mr;

		check(fi_mr_reg(w->domain, w->buf, w->len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
				w->key, 0, &mr, NULL),
		      "fi_mr_reg");
		w->key += w->step;
		check(fi_close(&mr->fid), "fi_close");
	}
}

static void malloc_free(void *arg, long n)
{
	(void)arg;
	for (long i = 0; i < n; i++) {
		void *p = malloc(sizeof(struct hm_mr));

		__asm__ volatile("" : : "r"(p) : "memory");
		free(p);
	}
}

static void *map_memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	check(p == MAP_FAILED ? -FI_ENOMEM : 0, "mmap");
	return p;
}

static void bench_sizes(const char *profile, double malloc_ns)
{
	static const size_t sizes[] = { 4096, 65536, 1 << 20, 16 << 20, 256 << 20, 1 << 30 };
	static const char *const names[] = { "4KiB", "64KiB", "1MiB", "16MiB", "256MiB", "1GiB" };
	struct opened o;
	void *buf = map_memory(sizes[5]);
	double first = 0;

	check(open_domain(&hmreg, "hmreg", profile, &o), "open domain");
	for (unsigned i = 0; i < 6; i++) {
		struct reg_work w = { o.domain, buf, sizes[i], 1, 0 };
		double ns = measure(reg_close, &w, 100000);

		if (i == 0)
			first = ns;
		figure(ns, "ns", "reg_close.%s.%s", profile, names[i]);
		figure(ns / malloc_ns, "x", "reg_close.%s.%s.to_malloc_free", profile, names[i]);
		if (i > 0)
			figure(ns / first, "x", "reg_close.%s.%s.to_4KiB", profile, names[i]);
	}
	close_domain(&o);
	munmap(buf, sizes[5]);
}

/* ---- with regions held ---- */

static size_t resident_bytes(void)
{
	unsigned long total = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%lu %lu", &total, &resident) != 2)
		exit(1);
	fclose(f);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Keys of the held regions: spread, so that no order helps the table. */
static uint64_t held_key(long i)
{
	return ((uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 1;
}

/* What lookups ask for: keys where the user chose them, else handles. */
struct held {
	struct fid_mr **mr;
	uint64_t *key;
	long count;
	bool by_key;
	struct hm_key_table *table;
};

static void lookups(void *arg, long n)
{
	struct held *h = arg;
	uint64_t at = 1;

	for (long i = 0; i < n; i++) {
		struct hm_key_node *node;
		uint64_t key;

		at = at * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		key = h->key[(at >> 33) % (uint64_t)h->count];
		node = h->by_key ? hm_key_find(h->table, key) : hm_key_acquire(h->table, key);
		check(node ? 0 : -FI_ENOKEY, "lookup");
		hm_key_release(node);
	}
}

static void hold(struct held *h, struct fid_domain *domain, void *buf, long count)
{
	for (; h->count < count; h->count++) {
		struct fid_mr **mr = &h->mr[h->count];

		check(fi_mr_reg(domain, buf, 4096, FI_REMOTE_WRITE, 0, held_key(h->count), 0, mr,
				NULL),
		      "fi_mr_reg");
		h->key[h->count] = h->by_key ? fi_mr_key(*mr) : (uintptr_t)fi_mr_desc(*mr);
		h->table = hm_container(*mr, struct hm_mr, mr)->region.domain->regions;
	}
}

static void bench_held(const char *profile)
{
	static const long counts[] = { 0, 1, 1000, MOST_HELD };
	struct held h = { .mr = calloc(MOST_HELD, sizeof(*h.mr)),
			  .key = calloc(MOST_HELD, sizeof(*h.key)),
			  .by_key = strcmp(profile, "sw-scalable") == 0 };
	void *buf = map_memory(4096);
	struct opened o;
	double empty = 0;
	size_t before;

	check(h.mr && h.key ? 0 : -FI_ENOMEM, "memory");
	memset(h.mr, 1, MOST_HELD * sizeof(*h.mr)); /* resident before the regions are */
	memset(h.key, 1, MOST_HELD * sizeof(*h.key));
	check(open_domain(&hmreg, "hmreg", profile, &o), "open domain");
	before = resident_bytes();
	for (unsigned i = 0; i < 4; i++) {
		struct reg_work w = { o.domain, buf, 4096, 1, 0 },
				fresh = { o.domain, buf, 4096, 1, 1 };
		double ns;

		hold(&h, o.domain, buf, counts[i]);
		ns = measure(reg_close, &w, 200000);
		if (i == 0)
			empty = ns;
		figure(ns, "ns", "reg_close.%s.held_%ld", profile, counts[i]);
		figure(ns / empty, "x", "reg_close.%s.held_%ld.to_empty", profile, counts[i]);
		if (h.by_key) {
			ns = measure(reg_close, &fresh, 200000);
			figure(ns, "ns", "reg_close.%s.held_%ld.new_keys", profile, counts[i]);
			figure(ns / empty, "x", "reg_close.%s.held_%ld.new_keys.to_empty", profile,
			       counts[i]);
		}
		if (counts[i] > 0)
			figure(measure(lookups, &h, 200000), "ns", "key_lookup.%s.held_%ld",
			       profile, counts[i]);
	}
	figure((double)(resident_bytes() - before) / MOST_HELD, "bytes", "bytes_per_region.%s",
	       profile);
	while (h.count > 0)
		check(fi_close(&h.mr[--h.count]->fid), "fi_close");
	close_domain(&o);
	munmap(buf, 4096);
	free(h.mr);
	free(h.key);
}

/* ---- threads ---- */

#define THREAD_ROUNDS 300000

static void *reg_thread(void *arg)
{
	reg_close(arg, THREAD_ROUNDS);
	return NULL;
}

/* Rounds per microsecond of this many threads together. */
static double thread_rate(struct fid_domain *domain, void *buf, unsigned threads, uint64_t step)
{
	double run[RUNS];

	for (int r = 0; r < RUNS; r++) {
		pthread_t thread[2];
		struct reg_work w[2];
		double start;

		for (unsigned t = 0; t < threads; t++)
			w[t] = (struct reg_work){ domain, (char *)buf + 4096 * t, 4096,
						  1 + (step ? (uint64_t)t << 32 : t), step };
		start = now_ns();
		for (unsigned t = 0; t < threads; t++)
			check(-pthread_create(&thread[t], NULL, reg_thread, &w[t]), "thread");
		for (unsigned t = 0; t < threads; t++)
			pthread_join(thread[t], NULL);
		run[r] = (double)threads * THREAD_ROUNDS / ((now_ns() - start) / 1e3);
	}
	return median_of(run, RUNS);
}

static void bench_threads(const char *profile)
{
	void *buf = map_memory(8192);
	struct opened o;
	double one, two;

	check(open_domain(&hmreg, "hmreg", profile, &o), "open domain");
	for (unsigned step = 0; step < 2; step++) {
		const char *keys = step ? ".new_keys" : "";

		if (step && strcmp(profile, "sw-scalable") != 0)
			break;
		one = thread_rate(o.domain, buf, 1, step);
		two = thread_rate(o.domain, buf, 2, step);
		figure(one, "per_us", "reg_close_rate.%s.1_thread%s", profile, keys);
		figure(two, "per_us", "reg_close_rate.%s.2_threads%s", profile, keys);
		figure(two / one, "x", "reg_close_rate.%s.2_threads%s.to_1_thread", profile, keys);
	}
	close_domain(&o);
	munmap(buf, 8192);
}

/* ---- an 8-byte write and the reading of its completion ---- */

struct write_work {
	struct fid_ep *ep;
	struct fid_cq *cq;
	void *src, *desc;
	fi_addr_t peer;
	uint64_t addr, key;
};

static void write_8(void *arg, long n)
{
	struct write_work *w = arg;

	for (long i = 0; i < n; i++) {
		struct fi_cq_entry entry;

		check(fi_write(w->ep, w->src, 8, w->desc, w->peer, w->addr, w->key, NULL),
		      "fi_write");
		check(fi_cq_read(w->cq, &entry, 1) == 1 ? 0 : -FI_EAGAIN, "fi_cq_read");
	}
}

static struct fid_ep *open_ep(struct opened *o, struct fid_cq *cq, struct fid_av *av)
{
	struct fid_ep *ep;

	check(fi_endpoint(o->domain, o->info, &ep, NULL), "fi_endpoint");
	check(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "bind cq");
	check(fi_ep_bind(ep, &av->fid, 0), "bind av");
	check(fi_enable(ep), "fi_enable");
	return ep;
}

static void enable_mr(struct fid_mr *mr, struct fid_ep *ep, int mode)
{
	if (!(mode & FI_MR_ENDPOINT))
		return;
	check(fi_mr_bind(mr, &ep->fid, 0), "fi_mr_bind");
	check(fi_mr_enable(mr), "fi_mr_enable");
}

static void bench_write(const char *profile)
{
	struct opened o;
	struct fid_av *av;
	struct fid_cq *cq[2];
	struct fid_ep *ep[2];
	struct fid_mr *src_mr, *dst_mr;
	static char src[64], dst[64];
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT };
	uint8_t name[64], raw[64];
	size_t name_len = sizeof(name), raw_len = sizeof(raw);
	struct write_work w = { .src = src };
	int mode;
	double memcpy_ns;

	check(open_domain(&hmreg, "hmreg", profile, &o), "open domain");
	mode = o.info->domain_attr->mr_mode;
	check(fi_av_open(o.domain, &av_attr, &av, NULL), "fi_av_open");
	for (int i = 0; i < 2; i++) {
		check(fi_cq_open(o.domain, &cq_attr, &cq[i], NULL), "fi_cq_open");
		ep[i] = open_ep(&o, cq[i], av);
	}
	check(fi_getname(&ep[1]->fid, name, &name_len), "fi_getname");
	check(fi_av_insert(av, name, 1, &w.peer, 0, NULL) == 1 ? 0 : -FI_EINVAL, "fi_av_insert");
	check(fi_mr_reg(o.domain, src, 64, FI_WRITE, 0, 1, 0, &src_mr, NULL), "fi_mr_reg");
	check(fi_mr_reg(o.domain, dst, 64, FI_REMOTE_WRITE, 0, 2, 0, &dst_mr, NULL), "fi_mr_reg");
	enable_mr(src_mr, ep[0], mode);
	enable_mr(dst_mr, ep[1], mode);
	check(fi_mr_raw_attr(dst_mr, &w.addr, raw, &raw_len, 0), "fi_mr_raw_attr");
	check(fi_mr_map_raw(o.domain, w.addr, raw, raw_len, &w.key, 0), "fi_mr_map_raw");
	w.ep = ep[0];
	w.cq = cq[0];
	w.desc = mode & FI_MR_LOCAL ? fi_mr_desc(src_mr) : NULL;
	memcpy_ns = measure(malloc_free, NULL, 1000000);
	figure(measure(write_8, &w, 500000), "ns", "write_8.%s", profile);
	figure(measure(write_8, &w, 500000) / memcpy_ns, "x", "write_8.%s.to_malloc_free", profile);
	check(fi_mr_unmap_key(o.domain, w.key), "fi_mr_unmap_key");
	check(fi_close(&src_mr->fid), "close");
	check(fi_close(&dst_mr->fid), "close");
	for (int i = 0; i < 2; i++) {
		check(fi_close(&ep[i]->fid), "close");
		check(fi_close(&cq[i]->fid), "close");
	}
	check(fi_close(&av->fid), "close");
	close_domain(&o);
}

/* ---- a peer library of the same interface, when the machine has one ---- */

static void bench_peer(double empty)
{
	struct library peer;
	struct opened o;
	struct reg_work w = { .len = 4096, .key = 1 };
	struct fid_mr **held = calloc(MOST_HELD, sizeof(struct fid_mr *));
	void *so = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
	double ns;

	check(held ? 0 : -FI_ENOMEM, "memory");
	if (!so) {
		fprintf(stderr, "mr_bench: no libfabric.so.1 here, so no ratio to it\n");
		free(held);
		return;
	}
	*(void **)&peer.getinfo = dlsym(so, "fi_getinfo");
	*(void **)&peer.dupinfo = dlsym(so, "fi_dupinfo");
	*(void **)&peer.freeinfo = dlsym(so, "fi_freeinfo");
	*(void **)&peer.fabric = dlsym(so, "fi_fabric");
	if (open_domain(&peer, "shm", NULL, &o) != 0) {
		fprintf(stderr, "mr_bench: libfabric.so.1 opens no domain of its provider shm\n");
		free(held);
		return;
	}
	w.buf = map_memory(4096);
	w.domain = o.domain;
	ns = measure(reg_close, &w, 100000);
	figure(ns, "ns", "reg_close.peer_libfabric_shm.4KiB");
	figure(ns / empty, "x", "reg_close.peer_libfabric_shm.4KiB.to_sw-scalable");
	for (long i = 0; i < MOST_HELD; i++)
		check(fi_mr_reg(w.domain, w.buf, 4096, FI_REMOTE_WRITE, 0, held_key(i), 0, &held[i],
				NULL),
		      "peer's fi_mr_reg");
	figure(measure(reg_close, &w, 100000), "ns", "reg_close.peer_libfabric_shm.held_%d",
	       MOST_HELD);
	for (long i = 0; i < MOST_HELD; i++)
		check(fi_close(&held[i]->fid), "peer's fi_close");
	free(held);
	close_domain(&o);
	munmap(w.buf, 4096);
}

static double scalable_4k(void)
{
	struct opened o;
	struct reg_work w = { .buf = map_memory(4096), .len = 4096, .key = 1 };
	double ns;

	check(open_domain(&hmreg, "hmreg", "sw-scalable", &o), "open domain");
	w.domain = o.domain;
	ns = measure(reg_close, &w, 100000);
	close_domain(&o);
	munmap(w.buf, 4096);
	return ns;
}

int main(int argc, char **argv)
{
	static const char *const profiles[] = { "sw-scalable", "sw-verbs", "sw-strict" };
	double malloc_ns;

	tsv = argc > 1 && strcmp(argv[1], "--tsv") == 0;
	malloc_ns = measure(malloc_free, NULL, 1000000);
	figure(malloc_ns, "ns", "malloc_free");
	figure((double)sizeof(struct hm_mr), "bytes", "region_object");
	for (unsigned i = 0; i < 3; i++)
		bench_sizes(profiles[i], malloc_ns);
	for (unsigned i = 0; i < 3; i++)
		bench_held(profiles[i]);
	for (unsigned i = 0; i < 3; i++)
		bench_threads(profiles[i]);
	for (unsigned i = 0; i < 3; i++)
		bench_write(profiles[i]);
	bench_peer(scalable_4k());
	return 0;
}
