/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A collective library's view of the network plug-in: it is loaded, a buffer is registered whole and in slices, each
 * slice is written to the slice of another connection, and everything is given back in any order.
 *
 *   net_user PLUG-IN [DOMAIN [host|cuda [SLICES]]]
 *
 * Exit status 77: there is no CUDA device here.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_ext_hmreg.h>

#include "../common.h"
#include "net.h"

#define SKIPPED 77
#define MOST	4096 /* slices */
#define SLICE	512
#define LEN	((size_t)MOST * SLICE)

struct side {
	void *comm;
	char *memory;
	void *whole;
	void *slice[MOST];
};

static const struct net_api *net;
static struct side sides[2];
static struct sample_end
	helper; /* memory of devices is had and copied by the library, for want of the driver here */
static struct hmreg_hmem_ops *hmem;
static bool cuda;
static size_t slices = MOST;
static char host[LEN];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int wrong(const char *what)
{
	fprintf(stderr, "%s\n", what);
	return -FI_EOTHER;
}

/* ---- memory ---- */

static int allocate(struct side *s)
{
	void *memory;
	int ret;

	if (!cuda) {
		s->memory =
			mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return s->memory == MAP_FAILED ? -FI_ENOMEM : 0;
	}
	ret = hmem->alloc(&helper.fabric->fid, FI_HMEM_CUDA, 0, HMREG_HMEM_DEVICE, LEN, &memory);
	s->memory = memory;
	return ret ? sample_fail("allocating on the device", ret) : 0;
}

static int give_back(struct side *s)
{
	int ret = 0;

	if (!s->memory)
		return 0;
	if (!cuda)
		munmap(s->memory, LEN);
	else
		ret = hmem->free(&helper.fabric->fid, FI_HMEM_CUDA, 0, HMREG_HMEM_DEVICE,
				 s->memory);
	return ret ? sample_fail("giving device memory back", ret) : 0;
}

static int copy(void *to, const void *from)
{
	int ret = hmem->copy(&helper.fabric->fid, to, from, LEN);

	return ret ? sample_fail("copy", ret) : 0;
}

/* ---- registration ---- */

static int kind(void)
{
	return cuda ? NET_PTR_CUDA : NET_PTR_HOST;
}

static int counts_are(struct side *s, uint64_t bases, uint64_t parts, uint64_t bytes,
		      const char *when)
{
	struct net_counts counts;
	int ret = net->counts(s->comm, &counts);

	if (ret)
		return ret;
	if (counts.bases == bases && counts.parts == parts && counts.bytes == bytes &&
	    counts.domain_regions == bases + parts)
		return 0;
	fprintf(stderr, "%s: %llu bases, %llu parts, %llu bytes, %llu regions of the domain\n",
		when, (unsigned long long)counts.bases, (unsigned long long)counts.parts,
		(unsigned long long)counts.bytes, (unsigned long long)counts.domain_regions);
	return -FI_EOTHER;
}

static int register_slices(struct side *s)
{
	int ret = 0;

	for (size_t i = 0; i < slices && !ret; i++)
		ret = net->regMr(s->comm, s->memory + i * SLICE, SLICE, kind(), &s->slice[i]);
	return ret;
}

/* One after the other is registered and given back: what each takes. */
static int measure_slices(struct side *s, double *each)
{
	double begin = now();
	void *handle;

	for (size_t i = 0; i < slices; i++) {
		int ret = net->regMr(s->comm, s->memory + i * SLICE, SLICE, kind(), &handle);

		if (!ret)
			ret = net->deregMr(s->comm, handle);
		if (ret)
			return ret;
	}
	*each = (now() - begin) / (double)slices;
	return 0;
}

/* The whole's handle goes at some time in between: what is left keeps the memory. */
static int deregister_all(struct side *s)
{
	unsigned seed = 7;

	for (size_t left = slices; left > 0; left--) {
		size_t i = (size_t)rand_r(&seed) % left;
		void *handle = s->slice[i];
		int ret = net->deregMr(s->comm, handle);

		if (!ret && left == slices / 2) {
			ret = net->deregMr(s->comm, s->whole);
			s->whole = NULL;
		}
		if (ret)
			return ret;
		s->slice[i] = s->slice[left - 1];
		s->slice[left - 1] = NULL;
	}
	return counts_are(s, 0, 0, 0, "after everything was given back");
}

/* Without the whole each slice pins memory by itself, which is what a plug-in without parts does. */
static int register_all(struct side *s, double *part, double *anew)
{
	int ret = measure_slices(s, anew);

	if (!ret)
		ret = net->regMr(s->comm, s->memory, LEN, kind(), &s->whole);
	if (!ret)
		ret = measure_slices(s, part);
	if (!ret)
		ret = register_slices(s);
	return ret ? ret : counts_are(s, 1, slices, LEN, "a whole and its slices");
}

/* Memory that comes as a dma-buf: the software NIC takes what can be mapped; others want a driver's. */
static int try_dmabuf(struct side *s, const char *domain)
{
	size_t len = 1 << 16, offset = 1 << 14;
	int fd, ret = 0;
	void *whole, *part;
	char *map;

	if (strncmp(domain, "sw-", 3) != 0)
		return 0;
	fd = memfd_create("net_user", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)len))
		return sample_fail("memfd_create", -FI_ENOMEM);
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return sample_fail("mmap", -FI_ENOMEM);
	ret = net->regMrDmaBuf(s->comm, map + offset, len - offset, NET_PTR_HOST, offset, fd,
			       &whole);
	if (!ret)
		ret = net->regMr(s->comm, map + offset + 4096, 4096, NET_PTR_HOST, &part);
	if (!ret)
		ret = counts_are(s, 1, 1, len - offset, "a dma-buf and a slice of it");
	if (!ret)
		ret = net->deregMr(s->comm, whole);
	if (!ret)
		ret = net->deregMr(s->comm, part);
	munmap(map, len);
	close(fd);
	if (!ret)
		printf("a dma-buf by its descriptor, and a slice of it by its address\n");
	return ret;
}

/* Nothing is registered, and the reason is told. */
static int try_refusals(struct side *s)
{
	void *handle = NULL;

	fflush(stdout);
	fputs("four refusals follow\n", stderr);
	if (!net->regMr(s->comm, NULL, LEN, kind(), &handle) ||
	    !net->regMr(s->comm, s->memory, 0, kind(), &handle) ||
	    !net->regMr(s->comm, s->memory, LEN, 99, &handle) ||
	    !net->regMrDmaBuf(s->comm, s->memory, LEN, kind(), 0, -1, &handle) || handle)
		return wrong("what makes no sense was registered");
	return counts_are(s, 0, 0, 0, "after refusals");
}

/* ---- transfers ---- */

static size_t other_slice(size_t i)
{
	return (i * 1237 + 11) % MOST %
	       slices; /* each is hit once where slices is a power of two */
}

static int move(struct side *from, struct side *to)
{
	struct net_remote remote;
	int ret;

	for (size_t i = 0; i < LEN; i++)
		host[i] = (char)(i / SLICE * 31 + i % SLICE);
	ret = copy(from->memory, host);
	for (size_t i = 0; i < slices && !ret; i++) {
		ret = net->share(to->comm, to->slice[other_slice(i)], &remote);
		if (!ret)
			ret = net->put(from->comm, from->slice[i], from->memory + i * SLICE, SLICE,
				       &remote, 0);
	}
	memset(host, 0, LEN);
	if (!ret)
		ret = copy(host, to->memory);
	for (size_t i = 0; i < slices * SLICE && !ret; i++) {
		size_t at = other_slice(i / SLICE) * SLICE + i % SLICE;

		if (host[at] != (char)(i / SLICE * 31 + i % SLICE))
			ret = wrong("a slice holds other bytes than were written into it");
	}
	return ret;
}

static int try_device_handle(struct side *s)
{
	struct net_device_mr *device, first;
	void *handle;
	int ret = net->getDeviceMr(s->comm, s->slice[0], &handle);

	if (ret == -FI_EOPNOTSUPP)
		return 0; /* it has said so */
	if (ret)
		return ret;
	first = *(struct net_device_mr *)handle;
	ret = net->getDeviceMr(s->comm, s->slice[1], &handle);
	if (ret)
		return ret;
	device = handle;
	if (!first.len || first.len != device->len || !memcmp(first.desc, device->desc, first.len))
		return wrong("two slices have one descriptor");
	printf("descriptors for kernels: %zu bytes each\n", first.len);
	return 0;
}

/* ---- the program ---- */

static int load(const char *path, void **object)
{
	*object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	net = *object ? dlsym(*object, NET_SYMBOL) : NULL;
	if (net)
		return 0;
	fprintf(stderr, "%s\n", dlerror());
	return -FI_ENOENT;
}

static int connect_sides(void)
{
	char name[2][128];
	int ret = 0;

	for (int i = 0; i < 2 && !ret; i++) {
		size_t len = sizeof(name[i]);

		ret = net->open(0, &sides[i].comm);
		if (!ret)
			ret = net->address(sides[i].comm, name[i], &len);
	}
	for (int i = 0; i < 2 && !ret; i++)
		ret = net->connect(sides[i].comm, name[!i], sizeof(name[!i]));
	return ret;
}

static int run(void)
{
	struct net_properties properties;
	double part[2] = { 0 }, anew[2] = { 0 };
	int ret, count = 0;

	ret = net->devices(&count);
	if (!ret)
		ret = net->getProperties(0, &properties);
	if (ret)
		return ret;
	printf("plug-in %s, %d devices, the first is %s\n", net->name, count, properties.name);
	ret = connect_sides();
	for (int i = 0; i < 2 && !ret; i++)
		ret = allocate(&sides[i]);
	if (!ret)
		ret = try_refusals(&sides[0]);
	if (!ret)
		ret = try_dmabuf(&sides[0], properties.name);
	for (int i = 0; i < 2 && !ret; i++)
		ret = register_all(&sides[i], &part[i], &anew[i]);
	if (!ret)
		ret = move(&sides[0], &sides[1]);
	if (!ret)
		ret = try_device_handle(&sides[0]);
	for (int i = 0; i < 2 && !ret; i++)
		ret = deregister_all(&sides[i]);
	if (!ret)
		printf("%zu slices of %d bytes were written and compared\n"
		       "registering a slice and giving it back: %.0f ns as a part, %.0f ns by "
		       "itself, "
		       "%.2f times\n",
		       slices, SLICE, part[1], anew[1], anew[1] / part[1]);
	return ret;
}

static int end(void)
{
	int ret = 0, failed;

	for (int i = 0; i < 2; i++) {
		failed = sides[i].comm ? net->close(sides[i].comm) : 0;
		ret = ret ? ret : failed;
		failed = give_back(&sides[i]);
		ret = ret ? ret : failed;
	}
	net->fini();
	failed = sample_close(&helper);
	return ret ? ret : failed;
}

static bool has_cuda(void)
{
	struct hmreg_hmem_iface iface = { .size = sizeof(iface) };

	if (!hmem->iface(&helper.fabric->fid, FI_HMEM_CUDA, &iface) && iface.devices)
		return true;
	printf("skipped: no CUDA device: %s\n", iface.reason);
	return false;
}

int main(int argc, char **argv)
{
	const char *domain = argc > 2 ? argv[2] : NULL;
	void *object;
	int ret, failed;

	cuda = argc > 3 && !strcmp(argv[3], "cuda");
	if (argc > 4)
		slices = strtoul(argv[4], NULL, 10);
	if (argc < 2 || argc > 5 || (argc > 3 && !cuda && strcmp(argv[3], "host") != 0) ||
	    slices < 2 || slices > MOST || (slices & (slices - 1))) {
		fprintf(stderr,
			"usage: %s PLUG-IN [DOMAIN [host|cuda [SLICES]]]\n"
			"SLICES: a power of two, up to %d\n",
			argv[0], MOST);
		return 2;
	}
	if (load(argv[1], &object))
		return EXIT_FAILURE;
	ret = sample_open_named(&helper, domain, FI_RMA | FI_HMEM, 0);
	if (!ret)
		ret = fi_open_ops(&helper.fabric->fid, HMREG_HMEM_OPS, 0, (void **)&hmem, NULL);
	if (!ret)
		ret = net->init(domain);
	if (!ret && cuda && !has_cuda())
		ret = SKIPPED;
	if (!ret)
		ret = run();
	failed = end();
	dlclose(object);
	if (ret == SKIPPED && !failed)
		return SKIPPED;
	return ret || failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
