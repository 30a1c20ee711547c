/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a sub-MR costs on the software NIC: making and closing one of a base of 4 KiB, 1 MiB and 1 GiB, beside
 * registering the same range anew.  The two are timed in turns, in runs short enough to be undisturbed most
 * often on a machine with other work; figures are medians of all runs.
 */
#include <sys/mman.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "tests/bench/bench.h"

#define ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PART   4096
#define DEPTH  100
#define TURNS  301
#define ROUNDS 1000

struct opened {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

static void open_domain(const char *profile, struct opened *o)
{
	struct fi_info *hints = fi_allocinfo();

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_RMA;
	hints->domain_attr->mr_mode = 0x1fff & ~(FI_MR_BASIC | FI_MR_SCALABLE);
	hints->domain_attr->name = strdup(profile);
	check(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &o->info), "fi_getinfo");
	fi_freeinfo(hints);
	check(fi_fabric(o->info->fabric_attr, &o->fabric, NULL), "fi_fabric");
	check(fi_domain(o->fabric, o->info, &o->domain, NULL), "fi_domain");
}

static void close_domain(struct opened *o)
{
	check(fi_close(&o->domain->fid), "close domain");
	check(fi_close(&o->fabric->fid), "close fabric");
	fi_freeinfo(o->info);
}

struct work {
	struct fid_domain *domain;
	struct iovec iov;
	struct fid_mr *base; /* NULL: registered anew */
};

static struct fid_mr *make(const struct work *w, uint64_t key)
{
	struct fi_mr_attr attr = { .mr_iov = &w->iov,
				   .iov_count = 1,
				   .access = ACCESS,
				   .requested_key = key,
				   .base_mr = w->base };
	struct fid_mr *mr;

	check(fi_mr_regattr(w->domain, &attr, 0, &mr), "fi_mr_regattr");
	return mr;
}

static void make_close(void *arg, long n)
{
	for (long i = 0; i < n; i++)
		check(fi_close(&make(arg, 1)->fid), "fi_close");
}

/* ns of both, in turns; anew may be NULL. */
static void compare(struct work *sub, struct work *anew, double *sub_ns, double *anew_ns)
{
	static double run[2][TURNS];

	make_close(sub, ROUNDS);
	for (int t = 0; t < TURNS; t++) {
		run[0][t] = time_of(make_close, sub, ROUNDS);
		if (anew)
			run[1][t] = time_of(make_close, anew, ROUNDS);
	}
	*sub_ns = median_of(run[0], TURNS);
	if (anew)
		*anew_ns = median_of(run[1], TURNS);
}

static const size_t sizes[] = { 4096, 1 << 20, 1 << 30 };
static const char *const names[] = { "4KiB", "1MiB", "1GiB" };

static void bench_sizes(const char *profile, char *buf)
{
	double first = 0, sub_ns, anew_ns;
	struct opened o;

	open_domain(profile, &o);
	for (unsigned i = 0; i < 3; i++) {
		struct work base = { o.domain, { buf, sizes[i] }, NULL }, sub = base, anew = base;

		sub.base = make(&base, 2);
		compare(&sub, &anew, &sub_ns, &anew_ns);
		if (i == 0)
			first = sub_ns;
		figure(sub_ns, "ns", "sub_make_close.%s.%s", profile, names[i]);
		figure(sub_ns / first, "x", "sub_make_close.%s.%s.to_4KiB", profile, names[i]);
		figure(anew_ns, "ns", "sub_make_close.%s.%s.anew", profile, names[i]);
		figure(anew_ns / sub_ns, "x", "sub_make_close.%s.%s.anew_to_sub", profile,
		       names[i]);
		/* a window of it, as a peer would get */
		sub.iov = anew.iov = (struct iovec){ buf + sizes[i] - PART, PART };
		compare(&sub, &anew, &sub_ns, &anew_ns);
		figure(sub_ns, "ns", "sub_make_close.%s.%s.last_4KiB", profile, names[i]);
		figure(anew_ns / sub_ns, "x", "sub_make_close.%s.%s.last_4KiB.anew_to_sub", profile,
		       names[i]);
		check(fi_close(&sub.base->fid), "fi_close");
	}
	close_domain(&o);
}

/* A sub-MR of a sub-MR of ... */
static void bench_depth(const char *profile, char *buf)
{
	struct fid_mr *chain[DEPTH];
	struct opened o;
	struct work w;
	double ns;

	open_domain(profile, &o);
	w = (struct work){ o.domain, { buf, PART }, NULL };
	for (unsigned i = 0; i < DEPTH; i++)
		w.base = chain[i] = make(&w, 2 + i);
	compare(&w, NULL, &ns, NULL);
	figure(ns, "ns", "sub_make_close.%s.level_%d", profile, DEPTH);
	for (unsigned i = DEPTH; i > 0; i--)
		check(fi_close(&chain[i - 1]->fid), "fi_close");
	close_domain(&o);
}

int main(int argc, char **argv)
{
	static const char *const profiles[] = { "sw-scalable", "sw-verbs", "sw-strict" };
	char *buf = mmap(NULL, sizes[2], PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	tsv = argc > 1 && strcmp(argv[1], "--tsv") == 0;
	check(buf == MAP_FAILED ? -FI_ENOMEM : 0, "mmap");
	for (unsigned i = 0; i < 3; i++) {
		bench_sizes(profiles[i], buf);
		bench_depth(profiles[i], buf);
	}
	munmap(buf, sizes[2]);
	return 0;
}
