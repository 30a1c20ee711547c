/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which NIC for which memory: a buffer of host memory and one of an accelerator are each registered with the NIC
 * that is nearest to it.
 *
 *   nearest_nic [DOMAIN [INTERFACE]]     INTERFACE: cuda, rocr, ze, neuron or synapseai
 *
 * Exit status 77: there is no accelerator here; host memory was registered all the same.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_ext_hmreg_topology.h>

#include "common.h"

#define SKIPPED 77
#define LEN	65536

struct scene {
	struct fi_info *list; /* every NIC that the program could take */
	struct fid_fabric *fabric;
	struct hmreg_topology_ops *topology;
	struct hmreg_hmem_ops *hmem;
	struct sample_place place;
	char name[32]; /* of the accelerator */
};

/* The one question that the topology is for. */
static int nearest(struct scene *s, const void *memory, const char *what,
		   const struct fi_info **info)
{
	struct hmreg_nic_choice choice = { .size = sizeof(choice) };
	size_t count = 1;
	int ret = s->topology->best(&s->fabric->fid, s->list, memory, LEN, &choice, &count);

	if (ret)
		return sample_fail("looking for the nearest NIC", ret);
	printf("%s: %s, %s%s%s\n", what, choice.info->domain_attr->name,
	       sample_distance(choice.distance), *choice.reason ? ": " : "", choice.reason);
	*info = choice.info;
	return 0;
}

static int register_there(struct scene *s, const struct sample_place *place, void *memory,
			  const char *what)
{
	const struct fi_info *info = NULL;
	struct sample_end end;
	struct fid_mr *mr;
	int ret = nearest(s, memory, what, &info), failed;

	if (ret)
		return ret;
	ret = sample_open(&end, info, 0);
	if (ret)
		return ret;
	ret = end.ep ? fi_enable(end.ep) : 0; /* some NICs bind regions to it */
	if (!ret)
		ret = sample_register_at(&end, place, memory, LEN, FI_REMOTE_WRITE, &mr);
	if (!ret) {
		ret = fi_close(&mr->fid);
		if (ret)
			sample_fail("fi_close of a region", ret);
	}
	failed = sample_close(&end);
	return ret ? ret : failed;
}

static int host_memory(struct scene *s)
{
	char *memory = malloc(LEN);
	int ret;

	if (!memory)
		return -FI_ENOMEM;
	memset(memory, 1, LEN); /* pages are on a node from their first use on */
	ret = register_there(s, &(struct sample_place){ FI_HMEM_SYSTEM, 0 }, memory, "host memory");
	free(memory);
	return ret;
}

/* The first of the interface of this name, or of any. */
static bool find_accelerator(struct scene *s, const char *name)
{
	struct hmreg_hmem_iface iface = { .size = sizeof(iface) };
	struct hmreg_hmem_device device = { .size = sizeof(device) };

	for (int i = FI_HMEM_CUDA; i <= FI_HMEM_SYNAPSEAI; i++) {
		if (s->hmem->iface(&s->fabric->fid, (enum fi_hmem_iface)i, &iface) ||
		    (name && strcmp(name, iface.name)) || !iface.devices ||
		    s->hmem->device(&s->fabric->fid, (enum fi_hmem_iface)i, 0, &device))
			continue;
		s->place = (struct sample_place){ (enum fi_hmem_iface)i, device.id };
		snprintf(s->name, sizeof(s->name), "memory of %s:%d", iface.name, device.id);
		return true;
	}
	printf("skipped: no accelerator%s%s\n", name ? " of the interface " : "", name ? name : "");
	return false;
}

static int accelerator_memory(struct scene *s, const char *name)
{
	struct fid *fabric = &s->fabric->fid;
	void *memory;
	int ret, failed;

	if (!find_accelerator(s, name))
		return SKIPPED;
	ret = s->hmem->alloc(fabric, s->place.iface, s->place.device, HMREG_HMEM_DEVICE, LEN,
			     &memory);
	if (ret)
		return sample_fail("allocating on the device", ret);
	ret = register_there(s, &s->place, memory, s->name);
	failed = s->hmem->free(fabric, s->place.iface, s->place.device, HMREG_HMEM_DEVICE, memory);
	return ret || !failed ? ret : sample_fail("giving device memory back", failed);
}

static int run(struct scene *s, const char *domain, const char *iface)
{
	struct fid *fabric;
	int ret = sample_find_registration(domain, FI_RMA | FI_HMEM, &s->list);

	if (ret)
		return sample_fail("fi_getinfo", ret);
	ret = fi_fabric(s->list->fabric_attr, &s->fabric, NULL);
	if (ret)
		return sample_fail("fi_fabric", ret);
	fabric = &s->fabric->fid;
	ret = fi_open_ops(fabric, HMREG_TOPOLOGY_OPS, 0, (void **)&s->topology, NULL);
	if (!ret)
		ret = fi_open_ops(fabric, HMREG_HMEM_OPS, 0, (void **)&s->hmem, NULL);
	if (ret)
		return sample_fail("fi_open_ops", ret);
	ret = host_memory(s);
	return ret ? ret : accelerator_memory(s, iface);
}

int main(int argc, char **argv)
{
	struct scene s = { .list = NULL };
	int ret = run(&s, argc > 1 ? argv[1] : NULL, argc > 2 ? argv[2] : NULL), failed = 0;

	if (s.fabric)
		failed = fi_close(&s.fabric->fid);
	if (failed)
		sample_fail("fi_close of the fabric", failed);
	fi_freeinfo(s.list);
	if (ret == SKIPPED && !failed)
		return SKIPPED;
	return ret || failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
