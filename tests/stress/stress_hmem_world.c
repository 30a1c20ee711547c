/* SPDX-License-Identifier: BSD-2-Clause */
/* See stress_hmem.h. */
#include "tests/stress/stress_hmem.h"

#include <dlfcn.h>

#include "tests/drivers/emu_accel.h"
#include "tests/drivers/emu_verbs.h"
#include "tests/fds.h"

#define ALL	   (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PATIENCE_S 60
#define MOST_IDS   64u

struct hmem_world hmem_worlds[HMEM_WORLDS];
struct hmreg_hmem_ops *hmem_public;
struct fid *hmem_fabric;
const char *hmem_nics[HMEM_WORLDS] = { "sw-scalable", "sw-verbs", "emu0" };
int hmem_mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM;

static struct {
	size_t count;
	int id[MOST_IDS];
} devices[FI_HMEM_SYNAPSEAI + 1];

/*
 * An emulated driver, and how many of its objects for copies the interface keeps per device: a lane of
 * Level Zero is a command list, a pool and an event, one of SynapseAI a stream and memory.
 */
static const struct {
	const char *library;
	enum fi_hmem_iface iface;
	long kept;
} drivers[HMEM_DRIVERS] = {
	{ "libcuda.so.1", FI_HMEM_CUDA, 0 },	 { "libhsa-runtime64.so.1", FI_HMEM_ROCR, 0 },
	{ "libze_emu.so.1", FI_HMEM_ZE, 8 * 3 }, { "libze_emu2.so.1", FI_HMEM_ZE, 8 * 3 },
	{ "libnrt.so.1", FI_HMEM_NEURON, 0 },	 { "libSynapse.so", FI_HMEM_SYNAPSEAI, 4 * 2 },
};

/* ---- worlds ---- */

static struct fi_info *find_nic(const char *nic)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	CHECK(hints);
	hints->caps = FI_MSG | FI_RMA | FI_HMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = hmem_mr_mode;
	hints->domain_attr->name = strdup(nic);
	CHECK_OK(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	return info;
}

/* With an allocation and copies, so that what is made once for each device is there. */
static void list_devices(enum fi_hmem_iface iface)
{
	struct hmreg_hmem_iface about = { .size = sizeof(about) };
	struct hmreg_hmem_device device = { .size = sizeof(device) };
	char byte = 0;
	void *addr;

	CHECK_OK(hmem_public->iface(hmem_fabric, iface, &about));
	devices[iface].count = about.devices < MOST_IDS ? about.devices : MOST_IDS;
	for (size_t i = 0; i < devices[iface].count; i++) {
		CHECK_OK(hmem_public->device(hmem_fabric, iface, i, &device));
		devices[iface].id[i] = device.id;
		CHECK_OK(hmem_public->alloc(hmem_fabric, iface, device.id, HMREG_HMEM_DEVICE, 65536,
					    &addr));
		CHECK_OK(hmem_public->copy(hmem_fabric, addr, &byte, 1));
		CHECK_OK(hmem_public->copy(hmem_fabric, &byte, addr, 1));
		CHECK_OK(hmem_public->free(hmem_fabric, iface, device.id, HMREG_HMEM_DEVICE, addr));
	}
}

void hmem_worlds_open(void)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };

	for (unsigned i = 0; i < HMEM_WORLDS; i++) {
		struct hmem_world *w = &hmem_worlds[i];

		w->info = find_nic(hmem_nics[i]);
		w->next_key = 1;
		CHECK_OK(fi_fabric(w->info->fabric_attr, &w->fabric, NULL));
		CHECK_OK(fi_domain(w->fabric, w->info, &w->domain, NULL));
		CHECK_OK(fi_open_ops(&w->domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&w->ops, NULL));
		CHECK_OK(fi_av_open(w->domain, &av_attr, &w->av, NULL));
	}
	hmem_fabric = &hmem_worlds[0].fabric->fid;
	CHECK_OK(fi_open_ops(hmem_fabric, HMREG_HMEM_OPS, 0, (void **)&hmem_public, NULL));
	for (int iface = FI_HMEM_CUDA; iface <= FI_HMEM_SYNAPSEAI; iface++)
		list_devices(iface);
}

void hmem_worlds_close(void)
{
	for (unsigned i = 0; i < HMEM_WORLDS; i++) {
		struct hmem_world *w = &hmem_worlds[i];

		CHECK_OK(fi_close(&w->av->fid));
		CHECK_OK(fi_close(&w->domain->fid));
		CHECK_OK(fi_close(&w->fabric->fid));
		fi_freeinfo(w->info);
	}
}

size_t hmem_devices(enum fi_hmem_iface iface)
{
	return devices[iface].count;
}

int hmem_device(enum fi_hmem_iface iface, size_t index)
{
	return devices[iface].id[index % devices[iface].count];
}

struct fid_mr *hmem_region(struct hmem_world *world, enum fi_hmem_iface iface, int device,
			   void *addr, size_t len)
{
	struct iovec iov = { addr, len };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = ALL,
				   .requested_key = atomic_fetch_add(&world->next_key, 1),
				   .iface = iface };
	struct fid_mr *mr;

	attr.device.cuda = device;
	CHECK_OK(fi_mr_regattr(world->domain, &attr, 0, &mr));
	return mr;
}

/* ---- stations ---- */

static struct fid_ep *open_ep(struct hmem_station *s)
{
	struct fid_ep *ep;

	CHECK_OK(fi_endpoint(s->world->domain, s->world->info, &ep, NULL));
	CHECK_OK(fi_ep_bind(ep, &s->world->av->fid, 0));
	CHECK_OK(fi_ep_bind(ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK_OK(fi_enable(ep));
	return ep;
}

void hmem_station_open(struct hmem_station *s, struct hmem_world *world, size_t len)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE };
	uint8_t name[64];
	size_t name_len = sizeof(name);

	s->world = world;
	CHECK_OK(fi_cq_open(world->domain, &attr, &s->cq, NULL));
	s->a = open_ep(s);
	s->b = open_ep(s);
	CHECK_OK(fi_getname(&s->b->fid, name, &name_len));
	CHECK(fi_av_insert(world->av, name, 1, &s->to, 0, NULL) == 1);
	s->host = calloc(1, len);
	CHECK(s->host);
	CHECK_OK(fi_mr_reg(world->domain, s->host, len, ALL, 0,
			   atomic_fetch_add(&world->next_key, 1), 0, &s->mr, NULL));
}

void hmem_station_close(struct hmem_station *s)
{
	CHECK_OK(fi_close(&s->mr->fid));
	free(s->host);
	CHECK_OK(fi_close(&s->a->fid));
	CHECK_OK(fi_close(&s->b->fid));
	CHECK_OK(fi_av_remove(s->world->av, &s->to, 1, 0));
	CHECK_OK(fi_close(&s->cq->fid));
}

/* Both ends are given, with what the target calls its own. */
static void transfer(struct hmem_station *s, bool write, void *local, size_t len, void *desc,
		     uint64_t addr, uint64_t key)
{
	double late = stress_now() + PATIENCE_S;
	struct fi_cq_entry entry;
	ssize_t ret;

	do
		ret = write ? fi_write(s->a, local, len, desc, s->to, addr, key, s)
			    : fi_read(s->a, local, len, desc, s->to, addr, key, s);
	while (ret == -FI_EAGAIN && stress_now() < late);
	CHECK_OK(ret);
	while ((ret = fi_cq_read(s->cq, &entry, 1)) == -FI_EAGAIN)
		CHECK(stress_now() < late);
	CHECK(ret == 1 && entry.op_context == s);
}

static uint64_t remote(const struct hmem_station *s, uint64_t offset, const void *at)
{
	return s->world->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)at : offset;
}

void hmem_transfer(struct hmem_station *s, bool write, size_t len, struct fid_mr *mr,
		   uint64_t offset, const void *at)
{
	transfer(s, write, s->host, len, fi_mr_desc(s->mr), remote(s, offset, at), fi_mr_key(mr));
}

void hmem_transfer_bare(struct hmem_station *s, bool write, void *local, size_t len)
{
	transfer(s, write, local, len, NULL, remote(s, 0, s->host), fi_mr_key(s->mr));
}

/* ---- what must be as it was ---- */

static const struct emu_accel_hooks *hooks_of(unsigned driver)
{
	void *library = dlopen(drivers[driver].library, RTLD_NOW | RTLD_NOLOAD);
	const struct emu_accel_hooks *hooks = library ? dlsym(library, "emu_accel_hooks") : NULL;

	if (library)
		dlclose(library); /* the library under test holds it */
	return hooks;
}

void hmem_paint(uint64_t *random, uint8_t *bytes, size_t len)
{
	uint64_t x = stress_random(random);

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(x + i * 7 + i / 251);
}

void hmem_reuse(bool on)
{
	for (unsigned i = 0; i < HMEM_DRIVERS; i++) {
		const struct emu_accel_hooks *hooks = hooks_of(i);

		if (hooks)
			hooks->reuse(on);
	}
}

void hmem_look(struct hmem_mark *mark)
{
	struct hmreg_domain_stats stats = { .size = sizeof(stats) };
	struct emu_verbs_counts counts;

	*mark = (struct hmem_mark){ .fds = test_fds() };
	for (unsigned i = 0; i < HMEM_DRIVERS; i++) {
		const struct emu_accel_hooks *hooks = hooks_of(i);

		CHECK(hooks || hmem_devices(drivers[i].iface) == 0);
		mark->live[i] = hooks ? hooks->live("*") : 0;
		mark->memory += hooks ? hooks->live("memory") : 0;
	}
	for (unsigned i = 0; i < HMEM_WORLDS; i++) {
		CHECK_OK(hmem_worlds[i].ops->stats(&hmem_worlds[i].domain->fid, &stats));
		mark->regions += stats.regions;
		mark->bytes += stats.registered_bytes;
	}
	CHECK_OK(hmem_public->exports(hmem_fabric, NULL, NULL, &mark->exports));
	emu_verbs_counts(&counts);
	mark->mrs = counts.mrs;
}

void hmem_check(const struct hmem_mark *before, const struct hmem_mark *after)
{
	for (unsigned i = 0; i < HMEM_DRIVERS; i++) {
		long kept = drivers[i].kept * (long)hmem_devices(drivers[i].iface);

		print_message("%s: %ld objects before, %ld after\n", drivers[i].library,
			      before->live[i], after->live[i]);
		CHECK(after->live[i] <= before->live[i] + kept);
	}
	CHECK(after->regions == before->regions && after->bytes == before->bytes);
	CHECK(after->exports == before->exports && after->mrs == before->mrs);
	/* each piece of an emulated driver's memory has one */
	print_message("%zu descriptors before, %zu after; %ld and %ld pieces of drivers' memory\n",
		      before->fds, after->fds, before->memory, after->memory);
	CHECK((long)after->fds - (long)before->fds <= after->memory - before->memory);
}
