/* SPDX-License-Identifier: BSD-2-Clause */
/* In which order NICs are taken for a place: struct hmreg_topology_ops has the rule. */
#ifndef HM_TOPO_ORDER_H
#define HM_TOPO_ORDER_H

#include "core/topo/place.h"

struct topo_nic {
	const struct topo_place *place; /* NULL: software */
	const char *name;
	bool reaches; /* the memory in question */
	uint64_t bits_per_s;
};

struct topo_rank {
	size_t nic; /* its index */
	struct topo_path path;
};

/*
 * The functions that take turns with this one: those of its vendor and class, by address.  *peers is the
 * caller's to free.  -FI_ENOMEM.  None, where sysfs does not show the place.
 */
int topo_peers(const struct topo_place *place, struct topo_place **peers, size_t *count);

/*
 * Fill ranks, one for each NIC, best first.  turn is taken where place is none of the peers.  -FI_ENOMEM.
 */
int topo_order(const struct topo_place *place, const struct topo_place *peers, size_t peer_count,
	       size_t turn, const struct topo_nic *nics, size_t count, struct topo_rank *ranks);

#endif
