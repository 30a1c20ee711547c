/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of memory interfaces. */
#include "hmem/hmem.h"

static const struct hmem_ops *const interfaces[] = {&hmem_system};

const struct hmem_ops *hmem_find(enum fi_hmem_iface iface)
{
	for (size_t i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++)
		if (interfaces[i]->iface == iface)
			return interfaces[i];
	return NULL;
}
