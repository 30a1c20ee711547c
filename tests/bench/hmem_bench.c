/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What accelerator memory costs, for each interface that is usable (FI_HMEM picks one): finding out what a
 * pointer is; registration of a part of an allocation that has been exported against one that has not,
 * with the number of exports; copies against memcpy.  Every figure is the median of 9 runs.
 */
#include <sys/mman.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>

#include "dmabuf/dmabuf.h"
#include "hmem/hmem.h"
#include "tests/bench/bench.h"

#define KIB(n)	   ((size_t)(n) << 10)
#define MIB(n)	   ((size_t)(n) << 20)
#define ALLOCATION MIB(32)
#define PART	   KIB(64)

static double malloc_ns; /* what ratios of small costs are to */

static void malloc_free(void *arg, long n)
{
	(void)arg;
	while (n--) {
		void *volatile p = malloc(64);

		free(p);
	}
}

static void *device_memory(const struct hmem_ops *ops, int device, size_t len)
{
	void *addr = NULL;

	check(ops->alloc(device, len, HMEM_ALLOC_DEVICE, &addr), "allocation of device memory");
	return addr;
}

static int device_id(const struct hmem_ops *ops, size_t index)
{
	struct hmem_device device;

	check(ops->device_info(index, &device), "device");
	return device.id;
}

/* ---- what a pointer is ---- */

struct pointer {
	void *addr;
	size_t len;
};

static void classify(void *arg, long n)
{
	const struct pointer *p = arg;
	struct hmem_memory memory;

	while (n--)
		check(hmem_classify(p->addr, p->len, &memory), "hmem_classify");
}

static void show_classify(const char *name, const char *what, void *addr)
{
	struct pointer p = { addr, KIB(4) };
	double ns = measure(classify, &p, 20000);

	figure(ns, "ns", "classify.%s.%s", name, what);
	figure(ns / malloc_ns, "x", "classify.%s.%s.to_malloc_free", name, what);
}

static void bench_classify(const char *name, void *host, void *device)
{
	show_classify(name, "host_pointer", host);
	if (device)
		show_classify(name, "device_pointer", device);
}

/* ---- exports ---- */

struct part {
	struct hmem_memory memory;
	char *addr; /* the allocation's; parts of it are taken in turn */
	size_t next;
	struct fid_domain *domain;
	struct fi_mr_attr attr;
	uint64_t key;
};

static char *next_part(struct part *p)
{
	p->next = (p->next + PART) % ALLOCATION;
	return p->addr + p->next;
}

static void export_part(void *arg, long n)
{
	struct part *p = arg;
	struct dmabuf *dmabuf;

	while (n--) {
		check(dmabuf_export(&p->memory, next_part(p), PART, 0, false, &dmabuf), "export");
		dmabuf_put(dmabuf, false);
	}
}

static void register_part(void *arg, long n)
{
	struct part *p = arg;
	struct fid_mr *mr;

	while (n--) {
		struct iovec iov = { next_part(p), PART };

		p->attr.mr_iov = &iov;
		p->attr.requested_key = p->key++;
		check(fi_mr_regattr(p->domain, &p->attr, 0, &mr), "fi_mr_regattr");
		check(fi_close(&mr->fid), "close");
	}
}

static uint64_t exports_made(void)
{
	struct dmabuf_figures figures;

	dmabuf_figures(&figures);
	return figures.exports;
}

/* Time and exports of one round. */
static double measure_exports(bench_work *work, struct part *p, long n, const char *call,
			      const char *name, const char *state)
{
	uint64_t before;
	double ns = measure(work, p, n);

	before = exports_made();
	work(p, n);
	figure(ns, "ns", "%s.%s.%s", call, name, state);
	figure((double)(exports_made() - before) / (double)n, "exports", "%s.%s.%s.each", call,
	       name, state);
	return ns;
}

static void bench_export(const struct hmem_ops *ops, struct part *p)
{
	struct dmabuf *held;
	double fresh, shared;
	int ret = ops->export_unit ? dmabuf_export(&p->memory, p->addr, ALLOCATION, 0, false, &held)
				   : -FI_EOPNOTSUPP;

	if (ret != 0) {
		fprintf(stderr, "hmem_bench: %s exports no dma-buf here: %s\n", ops->name,
			fi_strerror(-ret));
		return;
	}
	dmabuf_put(held, false);
	fresh = measure_exports(export_part, p, 500, "export_64KiB", ops->name, "not_exported_yet");
	check(dmabuf_export(&p->memory, p->addr, ALLOCATION, 0, false, &held), "export");
	shared = measure_exports(export_part, p, 500, "export_64KiB", ops->name, "exported");
	dmabuf_put(held, false);
	figure(fresh / shared, "x", "export_64KiB.%s.not_exported_yet.to_exported", ops->name);
}

/* ---- registration, on a NIC that takes dma-bufs ---- */

struct nic {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

static int open_nic(struct nic *nic)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	int ret;

	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_RMA | FI_HMEM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY | FI_MR_HMEM;
	hints->fabric_attr->name = strdup("hmreg-verbs");
	ret = fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (ret != 0)
		return ret;
	nic->info = info;
	check(fi_fabric(info->fabric_attr, &nic->fabric, NULL), "fi_fabric");
	check(fi_domain(nic->fabric, info, &nic->domain, NULL), "fi_domain");
	return 0;
}

static void close_nic(struct nic *nic)
{
	check(fi_close(&nic->domain->fid), "close domain");
	check(fi_close(&nic->fabric->fid), "close fabric");
	fi_freeinfo(nic->info);
}

static bool takes_dmabufs(const struct nic *nic, const struct part *p)
{
	struct hmreg_hmem_path path = { .size = sizeof(path) };
	struct hmreg_hmem_ops *ops;

	check(fi_open_ops(&nic->fabric->fid, HMREG_HMEM_OPS, 0, (void **)&ops, NULL),
	      "fi_open_ops");
	check(ops->path(&nic->fabric->fid, nic->info, p->memory.iface, p->memory.device, &path),
	      "path");
	if (path.path == HMREG_PATH_DMABUF)
		return true;
	fprintf(stderr, "hmem_bench: %s takes no dma-bufs of this device: %s\n",
		nic->info->domain_attr->name, path.dmabuf_reason);
	return false;
}

static void bench_register(const struct hmem_ops *ops, struct part *p)
{
	struct iovec all = { p->addr, PART };
	struct nic nic;
	struct fid_mr *held;
	double fresh, shared;

	if (open_nic(&nic) != 0) {
		fprintf(stderr,
			"hmem_bench: no RDMA device that takes dma-bufs: registration on one "
			"is left out\n");
		return;
	}
	if (takes_dmabufs(&nic, p)) {
		p->domain = nic.domain;
		p->attr = (struct fi_mr_attr){ .mr_iov = &all,
					       .iov_count = 1,
					       .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
					       .iface = ops->iface };
		p->attr.device.ze = p->memory.device; /* any member: all are an int there */
		fresh = measure_exports(register_part, p, 500, "reg_close_64KiB", ops->name,
					"not_exported_yet");
		p->attr.mr_iov = &all;
		check(fi_mr_regattr(p->domain, &p->attr, 0, &held), "fi_mr_regattr");
		shared = measure_exports(register_part, p, 500, "reg_close_64KiB", ops->name,
					 "exported");
		check(fi_close(&held->fid), "close");
		figure(fresh / shared, "x", "reg_close_64KiB.%s.not_exported_yet.to_exported",
		       ops->name);
	}
	close_nic(&nic);
}

/* ---- copies ---- */

struct copy {
	struct hmem_place to, from;
	size_t len;
};

static void copy_places(void *arg, long n)
{
	const struct copy *c = arg;

	while (n--)
		check(hmem_copy(&c->to, &c->from, c->len), "hmem_copy");
}

static void copy_host(void *arg, long n)
{
	const struct copy *c = arg;

	while (n--) {
		memcpy(c->to.addr, c->from.addr, c->len);
		__asm__ volatile("" ::: "memory"); /* each of them */
	}
}

static void show_copy(const char *name, const char *what, const char *size, const struct copy *c,
		      double memcpy_ns)
{
	struct copy work = *c;
	double ns = measure(copy_places, &work, (long)(MIB(64) / c->len / 8 + 3));

	figure((double)c->len / ns * 1e3, "MB/s", "copy.%s.%s.%s", name, what, size);
	figure(memcpy_ns / ns, "x", "copy.%s.%s.%s.to_memcpy", name, what, size);
}

static void bench_copy(const struct hmem_ops *ops, void *host[2], char *device_addr)
{
	static const struct {
		const char *name;
		size_t len;
	} sizes[] = { { "4KiB", KIB(4) }, { "1MiB", MIB(1) }, { "8MiB", MIB(8) } };
	int id = device_id(ops, 0);
	size_t count = ops->device_count();
	int other_id = device_id(ops, count > 1);
	char *other = device_memory(ops, other_id, MIB(8));
	struct hmem_place near = { host[0], FI_HMEM_SYSTEM, HMEM_NO_DEVICE };
	struct hmem_place back = { host[1], FI_HMEM_SYSTEM, HMEM_NO_DEVICE };
	struct hmem_place first = { device_addr, ops->iface, id };
	struct hmem_place second = { device_addr + MIB(16), ops->iface, id };
	struct hmem_place far = { other, ops->iface, other_id };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t len = sizes[i].len;
		struct copy c = { back, near, len };
		double ns = measure(copy_host, &c, (long)(MIB(64) / len / 8 + 3));

		figure((double)len / ns * 1e3, "MB/s", "copy.%s.memcpy.%s", ops->name,
		       sizes[i].name);
		c = (struct copy){ first, near, len };
		show_copy(ops->name, "to_device", sizes[i].name, &c, ns);
		c = (struct copy){ near, first, len };
		show_copy(ops->name, "from_device", sizes[i].name, &c, ns);
		c = (struct copy){ second, first, len };
		show_copy(ops->name, "within_device", sizes[i].name, &c, ns);
		c = (struct copy){ far, first, len };
		if (count > 1)
			show_copy(ops->name, "between_devices", sizes[i].name, &c, ns);
	}
	check(ops->free(other_id, other, HMEM_ALLOC_DEVICE), "free");
}

/* ---- all of an interface ---- */

static void bench_interface(const struct hmem_ops *ops, void *host[2])
{
	struct part part = { .key = 1 };
	int id = device_id(ops, 0);

	part.addr = device_memory(ops, id, ALLOCATION);
	check(hmem_classify(part.addr, ALLOCATION, &part.memory), "hmem_classify");
	bench_classify(ops->name, host[0], part.addr);
	bench_export(ops, &part);
	bench_register(ops, &part);
	bench_copy(ops, host, part.addr);
	check(ops->free(id, part.addr, HMEM_ALLOC_DEVICE), "free");
}

int main(int argc, char **argv)
{
	const struct hmem_ops *ops;
	bool any = false;
	void *host[2];

	tsv = argc > 1 && strcmp(argv[1], "--tsv") == 0;
	for (int i = 0; i < 2; i++) {
		host[i] = aligned_alloc(KIB(4), MIB(8));
		check(host[i] ? 0 : -FI_ENOMEM, "memory");
		memset(host[i], i + 1, MIB(8));
	}
	malloc_ns = measure(malloc_free, NULL, 1000000);
	for (int i = FI_HMEM_SYSTEM + 1; i < HMEM_IFACES; i++) {
		ops = hmem_get((enum fi_hmem_iface)i);
		if (ops)
			bench_interface(ops, host);
		else if (hmem_tried((enum fi_hmem_iface)i)->state != HMEM_OFF)
			fprintf(stderr, "hmem_bench: %s: %s\n", hmem_name((enum fi_hmem_iface)i),
				hmem_tried((enum fi_hmem_iface)i)->reason);
		any |= ops != NULL;
	}
	if (!any)
		bench_classify("no_interface", host[0], NULL);
	free(host[0]);
	free(host[1]);
	return 0;
}
