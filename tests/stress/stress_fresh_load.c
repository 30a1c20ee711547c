/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared library is loaded, used without descriptors, so that it follows the memory of the process, closed and
 * unloaded, again and again, while threads map, allocate, end, and load another object.  What is sent arrives; nothing
 * hangs.  This program is not linked with the library.
 *
 *   stress_fresh_load LIBRARY      for HMREG_FRESH_SECONDS
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#define THREADS	 4u
#define MESSAGES 32u
#define PATIENCE 60u
#define MOST	 ((size_t)256 * 1024)

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

static _Atomic bool stop;
static _Atomic uint64_t maps, sent;

/* ---- threads that know nothing of the library ---- */

static void *end_at_once(void *unused)
{
	volatile char area[64 * 1024];

	for (size_t i = 0; i < sizeof(area); i += 4096)
		area[i] = 1;
	return unused;
}

static void use_thread(void)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, end_at_once, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
}

static void *use_memory(void *seed)
{
	uint64_t random = (uintptr_t)seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

	while (!atomic_load(&stop)) {
		size_t len;
		char *map, *block;

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		len = (random >> 40) % MOST + 4096;
		map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		block = malloc(len);
		CHECK(map != MAP_FAILED && block);
		map[0] = block[0] = 1;
		CHECK(madvise(map, 4096, MADV_DONTNEED) == 0);
		CHECK(map[0] == 0);
		CHECK(munmap(map, len) == 0);
		free(block);
		if ((random >> 33) % 16 == 0)
			use_thread();
		if ((random >> 37) % 16 == 0) {
			void *object = dlopen(FRESH_OBJECT, RTLD_NOW | RTLD_LOCAL);

			CHECK(object);
			CHECK(dlclose(object) == 0);
		}
		atomic_fetch_add(&maps, 1);
	}
	return NULL;
}

/* ---- one load of the library ---- */

struct library {
	void *handle;
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		       struct fi_info **);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	void (*freeinfo)(struct fi_info *);
	int (*fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
};

struct world {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t to;
};

static void load(struct library *library, const char *file)
{
	library->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	CHECK(library->handle);
	*(void **)&library->getinfo = dlsym(library->handle, "fi_getinfo");
	*(void **)&library->dupinfo = dlsym(library->handle, "fi_dupinfo");
	*(void **)&library->freeinfo = dlsym(library->handle, "fi_freeinfo");
	*(void **)&library->fabric = dlsym(library->handle, "fi_fabric");
	CHECK(library->getinfo && library->dupinfo && library->freeinfo && library->fabric);
}

/* Without FI_MR_LOCAL: buffers need no descriptors. */
static void find(const struct library *library, struct world *world)
{
	struct fi_info *hints = library->dupinfo(NULL);

	CHECK(hints);
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->name = strdup("sw-any");
	CHECK(library->getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &world->info) == 0);
	library->freeinfo(hints);
	CHECK(!(world->info->domain_attr->mr_mode & FI_MR_LOCAL));
}

static void open_world(const struct library *library, struct world *world)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	char name[64];
	size_t len = sizeof(name);

	find(library, world);
	CHECK(library->fabric(world->info->fabric_attr, &world->fabric, NULL) == 0);
	CHECK(fi_domain(world->fabric, world->info, &world->domain, NULL) == 0);
	CHECK(fi_av_open(world->domain, &av, &world->av, NULL) == 0);
	CHECK(fi_cq_open(world->domain, &cq, &world->cq, NULL) == 0);
	CHECK(fi_endpoint(world->domain, world->info, &world->ep, NULL) == 0);
	CHECK(fi_ep_bind(world->ep, &world->av->fid, 0) == 0);
	CHECK(fi_ep_bind(world->ep, &world->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
	CHECK(fi_enable(world->ep) == 0);
	CHECK(fi_getname(&world->ep->fid, name, &len) == 0);
	CHECK(fi_av_insert(world->av, name, 1, &world->to, 0, NULL) == 1);
}

static void close_world(const struct library *library, struct world *world)
{
	CHECK(fi_close(&world->ep->fid) == 0);
	CHECK(fi_close(&world->cq->fid) == 0);
	CHECK(fi_close(&world->av->fid) == 0);
	CHECK(fi_close(&world->domain->fid) == 0);
	CHECK(fi_close(&world->fabric->fid) == 0);
	library->freeinfo(world->info);
}

static void complete(struct fid_cq *cq, unsigned count)
{
	struct fi_cq_entry entry;

	while (count > 0) {
		ssize_t got = fi_cq_read(cq, &entry, 1);

		CHECK(got == 1 || got == -FI_EAGAIN);
		if (got == 1)
			count--;
	}
}

/* A message to itself, out of memory that is gone afterwards, into other such memory. */
static void send_one(struct world *world, unsigned i)
{
	size_t len = i % 2 ? 4096 : 160 * 1024;
	char *from = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *into = malloc(len);

	CHECK(from != MAP_FAILED && into);
	memset(from, (int)i + 1, len);
	memset(into, 0, len);
	CHECK(fi_recv(world->ep, into, len, NULL, FI_ADDR_UNSPEC, NULL) == 0);
	CHECK(fi_send(world->ep, from, len, NULL, world->to, NULL) == 0);
	complete(world->cq, 2);
	CHECK(memcmp(from, into, len) == 0);
	CHECK(munmap(from, len) == 0);
	free(into);
	atomic_fetch_add(&sent, 1);
}

static void use_library(const char *file)
{
	struct library library;
	struct world world;

	load(&library, file);
	open_world(&library, &world);
	for (unsigned i = 0; i < MESSAGES; i++)
		send_one(&world, i);
	close_world(&library, &world);
	CHECK(dlclose(library.handle) == 0);
}

int main(int argc, char **argv)
{
	const char *setting = getenv("HMREG_FRESH_SECONDS");
	time_t until = time(NULL) + (setting ? atoi(setting) : 10);
	pthread_t thread[THREADS];
	unsigned turns = 0;

	CHECK(argc == 2);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, use_memory, (void *)(i + 1)) == 0);
	for (; time(NULL) < until; turns++) {
		alarm(PATIENCE);
		use_library(argv[1]);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	printf("total: loaded and unloaded %u times, %llu messages, %llu mappings of other "
	       "threads\n",
	       turns, (unsigned long long)sent, (unsigned long long)maps);
	return 0;
}
