/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/hmem/maker.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext_hmreg.h>

const struct maker *maker_of(const char *name)
{
	static const struct maker *const makers[] = { &make_cuda, &make_rocr, &make_ze,
						      &make_neuron, &make_synapseai };

	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
		if (strcmp(makers[i]->name, name) == 0)
			return makers[i];
	return NULL;
}

const char *make_name(enum make kind)
{
	static const char *const names[MAKE_KINDS] = {
		[MAKE_DEVICE] = "device memory",
		[MAKE_HOST] = "the driver's host memory",
		[MAKE_REGISTERED] = "registered host memory",
		[MAKE_MANAGED] = "managed memory",
		[MAKE_VMM] = "mapped memory of two allocations",
		[MAKE_VMM_NO_RDMA] = "mapped memory out of reach for NICs",
		[MAKE_VMM_HOST] = "mapped host memory",
		[MAKE_POOL] = "memory of a pool",
		[MAKE_POOL_PRIVATE] = "memory of a pool without export",
		[MAKE_IMPORTED] = "imported memory",
		[MAKE_PRIVATE] = "device memory without export",
	};

	return names[kind];
}

static void try_kind(const struct maker *maker, enum make kind, int device,
		     struct fid_fabric *fabric, const struct hmreg_hmem_ops *ops)
{
	struct made made = { .kind = kind, .device = device };
	char byte = 0;

	if (maker->cannot(kind, device) || maker->make(kind, device, 131072, &made) != 0)
		return;
	maker->read(&made, 0, &byte, 1);
	ops->copy(&fabric->fid, &byte, made.addr, 1);
	ops->copy(&fabric->fid, made.addr, &byte, 1);
	maker->drop(&made);
}

void maker_warm_up(const struct maker *maker)
{
	struct fi_info *info = NULL;
	struct hmreg_hmem_ops *ops = NULL;
	struct fid_fabric *fabric = NULL;

	if (fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, NULL, &info) != 0 ||
	    fi_fabric(info->fabric_attr, &fabric, NULL) != 0 ||
	    fi_open_ops(&fabric->fid, HMREG_HMEM_OPS, 0, (void **)&ops, NULL) != 0)
		abort();
	for (int kind = 0; kind < MAKE_KINDS; kind++)
		for (size_t i = 0; i < maker->devices(); i++)
			try_kind(maker, (enum make)kind, maker->device(i), fabric, ops);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
}
