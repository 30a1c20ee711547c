/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/hmem/maker.h"

#include <string.h>

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
