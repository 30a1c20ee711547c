/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program can ask about topology (fi_ext_hmreg.h): topology.c has the order of NICs for one piece of
 * memory, topology_table.c the whole table.
 */
#ifndef HM_TOPOLOGY_H
#define HM_TOPOLOGY_H

#include "core/core.h"
#include "core/topo/order.h"
#include "hmem/hmem.h"

/* The NICs of a list, one for each domain name. */
struct hm_nic_list {
	size_t count;
	struct topo_nic *nic;	  /* count, owned; and so on */
	struct topo_place *place; /* of each but the software NIC */
	const struct fi_info **info;
	const struct nic_port **port;
};

/* -FI_EINVAL, -FI_ENODEV: no NIC of this library; -FI_ENOMEM; with one log line. */
int hm_nics_find(const struct fi_info *list, struct hm_nic_list *nics);
void hm_nics_free(struct hm_nic_list *nics);

/* HMEM_WAY_* that memory of a device can have at best. */
uint32_t hm_device_ways(const struct hmem_device *device);
/* The path that a NIC would try first; 0: none, and *why says so. */
enum hmreg_path hm_nic_path(const struct nic_port *port, uint32_t memory_ways, const char **why);

/* Where memory is, and whose turn it is. */
struct hm_memory_place {
	struct topo_place place;
	struct topo_place *peers; /* owned */
	size_t peer_count;
	size_t turn;   /* where the place is none of them */
	uint32_t ways; /* HMEM_WAY_* */
};

/* Fills the NICs' reaches by the memory's ways, and ranks. */
int hm_nics_order(struct hm_nic_list *nics, const struct hm_memory_place *memory,
		  struct topo_rank *ranks);
void hm_choice_fill(const struct hm_nic_list *nics, const struct hm_memory_place *memory,
		    const struct topo_rank *rank, struct hmreg_nic_choice *out);

int hm_topology_open(struct fid *fabric, const struct fi_info *list, struct hmreg_topology **out);
void hm_topology_close(struct hmreg_topology *topology);

#endif
