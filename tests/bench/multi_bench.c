/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One buffer registered with several NICs: by one call (HMREG_MULTI_OPS), beside fi_mr_regattr(3) of one after
 * the other.  The ways are timed in turns, so that a machine's other work meets all of them.
 *
 *   multi_bench [--tsv] [--device NAME]...
 *
 * Without a device: 1, 2, 4 and 8 domains of each profile of the software NIC, and 4 KiB.  With devices: all of
 * them, in sizes up to 256 MiB, of which the large ones are measured on memory that has its pages, and on new
 * memory, whose pages come with the registration.
 */
#include <sys/mman.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>

#include "tests/bench/bench.h"

#define ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define MOST   8
#define TURNS  301
#define ROUNDS 300
#define KEY    3

static struct {
	size_t count;
	struct fi_info *info[MOST];
	struct fid_fabric *fabric[MOST];
	struct fid_domain *domain[MOST];
	struct hmreg_multi_ops *ops;
} nics;

static void open_nic(const char *name)
{
	struct fi_info *hints = fi_allocinfo();
	size_t n = nics.count++;

	hints->domain_attr->mr_mode = 0x1fff & ~(FI_MR_BASIC | FI_MR_SCALABLE);
	hints->domain_attr->name = strdup(name);
	check(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &nics.info[n]), name);
	fi_freeinfo(hints);
	check(fi_fabric(nics.info[n]->fabric_attr, &nics.fabric[n], NULL), "fi_fabric");
	check(fi_domain(nics.fabric[n], nics.info[n], &nics.domain[n], NULL), "fi_domain");
	check(fi_open_ops(&nics.domain[0]->fid, HMREG_MULTI_OPS, 0, (void **)&nics.ops, NULL),
	      "HMREG_MULTI_OPS");
}

static void close_nics(void)
{
	while (nics.count > 0) {
		size_t n = --nics.count;

		check(fi_close(&nics.domain[n]->fid), "close domain");
		check(fi_close(&nics.fabric[n]->fid), "close fabric");
		fi_freeinfo(nics.info[n]);
	}
}

/* ---- the ways ---- */

struct work {
	struct iovec iov;
	unsigned int threads; /* of the call; 0: as it chooses */
	struct fid_mr *mr[MOST];
	struct hmreg_multi *multi;
};

static struct fi_mr_attr attr_of(const struct work *w)
{
	return (struct fi_mr_attr){
		.mr_iov = &w->iov, .iov_count = 1, .access = ACCESS, .requested_key = KEY
	};
}

static void reg_singly(struct work *w)
{
	struct fi_mr_attr attr = attr_of(w);

	for (size_t i = 0; i < nics.count; i++)
		check(fi_mr_regattr(nics.domain[i], &attr, 0, &w->mr[i]), "fi_mr_regattr");
}

static void close_singly(struct work *w)
{
	for (size_t i = 0; i < nics.count; i++)
		check(fi_close(&w->mr[i]->fid), "fi_close");
}

static void reg_multi(struct work *w)
{
	struct hmreg_multi_call call = { .size = sizeof(call), .threads = w->threads };
	struct fi_mr_attr attr = attr_of(w);

	check(nics.ops->reg(nics.domain, nics.count, &attr, 0, &call, &w->multi), "reg");
}

static void close_multi(struct work *w)
{
	check(fi_close(&w->multi->fid), "fi_close");
}

static void singly(void *arg, long n)
{
	for (long i = 0; i < n; i++) {
		reg_singly(arg);
		close_singly(arg);
	}
}

static void in_one_call(void *arg, long n)
{
	for (long i = 0; i < n; i++) {
		reg_multi(arg);
		close_multi(arg);
	}
}

/* ---- the software NIC ---- */

static void bench_software(const char *profile, size_t count)
{
	static double run[2][TURNS], ratio[TURNS];
	static char buf[4096];
	struct work w = { .iov = { buf, sizeof(buf) } };

	for (size_t i = 0; i < count; i++)
		open_nic(profile);
	singly(&w, ROUNDS);
	in_one_call(&w, ROUNDS);
	for (int t = 0; t < TURNS; t++) {
		run[0][t] = time_of(singly, &w, ROUNDS);
		run[1][t] = time_of(in_one_call, &w, ROUNDS);
		ratio[t] = run[1][t] / run[0][t];
	}
	figure(median_of(run[0], TURNS), "ns", "multi_reg_close.%s.nics_%zu.singly", profile,
	       count);
	figure(median_of(run[1], TURNS), "ns", "multi_reg_close.%s.nics_%zu.one_call", profile,
	       count);
	figure(median_of(ratio, TURNS), "x", "multi_reg_close.%s.nics_%zu.to_singly", profile,
	       count);
	close_nics();
}

/* ---- devices ---- */

enum way {
	SINGLY,
	ONE_THREAD, /* one call */
	CHOSEN,	    /* as many threads as it chooses */
	EACH,	    /* a thread for each NIC */
	WAYS
};

static const char *const way_names[WAYS] = { "singly", "one_call.one_thread", "one_call",
					     "one_call.thread_each" };

static char *map(size_t len)
{
	char *buf = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(buf == MAP_FAILED ? -FI_ENOMEM : 0, "mmap");
	madvise(buf, len, MADV_NOHUGEPAGE); /* the same pages in every turn */
	return buf;
}

/* ns of one registration and, where the memory is there already, its end. */
static double time_way(enum way way, struct work *w, bool closing)
{
	double start = now_ns(), took;

	w->threads = way == ONE_THREAD ? 1 : way == EACH ? (unsigned int)nics.count : 0;
	if (way == SINGLY)
		reg_singly(w);
	else
		reg_multi(w);
	took = now_ns() - start;
	if (way == SINGLY)
		close_singly(w);
	else
		close_multi(w);
	return closing ? now_ns() - start : took;
}

static void bench_size(const char *name, size_t len, bool fresh, int turns)
{
	static double run[WAYS][TURNS], ratio[WAYS][TURNS];
	const char *what = fresh ? "multi_reg_new" : "multi_reg_close";
	struct work w = { .iov = { NULL, len } };

	if (!fresh) {
		w.iov.iov_base = map(len);
		memset(w.iov.iov_base, 1, len);
	}
	for (int t = -1; t < turns; t++)
		for (int way = 0; way < WAYS; way++) {
			double took;

			if (fresh)
				w.iov.iov_base = map(len);
			took = time_way((enum way)way, &w, !fresh);
			if (fresh)
				munmap(w.iov.iov_base, len);
			if (t < 0)
				continue;
			run[way][t] = took;
			ratio[way][t] = took / run[SINGLY][t];
		}
	for (int way = 0; way < WAYS; way++) {
		figure(median_of(run[way], (size_t)turns) / 1e3, "us", "%s.%s.%zuKiB.nics_%zu.%s",
		       what, name, len >> 10, nics.count, way_names[way]);
		if (way != SINGLY)
			figure(median_of(ratio[way], (size_t)turns), "x",
			       "%s.%s.%zuKiB.nics_%zu.%s.to_singly", what, name, len >> 10,
			       nics.count, way_names[way]);
	}
	if (!fresh)
		munmap(w.iov.iov_base, len);
}

static void bench_devices(char *const *name, size_t count)
{
	for (size_t n = 1; n <= count; n++) {
		for (size_t i = 0; i < n; i++)
			open_nic(name[i]);
		bench_size(name[0], 4096, false, TURNS);
		bench_size(name[0], 1 << 20, false, 101);
		bench_size(name[0], 64 << 20, false, 9);
		bench_size(name[0], 256 << 20, false, 5);
		bench_size(name[0], 64 << 20, true, 9);
		bench_size(name[0], 256 << 20, true, 5);
		close_nics();
	}
}

int main(int argc, char **argv)
{
	static const char *const profiles[] = { "sw-scalable", "sw-verbs", "sw-strict" };
	char *device[MOST];
	size_t devices = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--tsv") == 0)
			tsv = true;
		else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc && devices < MOST)
			device[devices++] = argv[++i];
		else
			check(-FI_EINVAL, argv[i]);
	}
	if (devices > 0) {
		bench_devices(device, devices);
		return 0;
	}
	for (unsigned i = 0; i < 3; i++)
		for (size_t count = 1; count <= MOST; count *= 2)
			bench_software(profiles[i], count);
	return 0;
}
