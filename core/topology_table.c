/* SPDX-License-Identifier: BSD-2-Clause */
/* Topology: every accelerator, every NIC of a list, the bridges above them, and the order of NICs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/topology.h"

/* What a struct hmreg_topology stands in; it owns all that the pointers lead to. */
struct table {
	struct hmreg_topology public;
	struct hmreg_bridge *bridge;
	struct hmreg_place *accelerator, *nic;
	struct hmreg_nic_choice *choice;
	const struct hmreg_bridge **bridges;
	const struct hmreg_place **accelerators, **nics;
	const struct hmreg_nic_choice **choices;
};

/* While it is made. */
struct making {
	struct table *table;
	struct hm_nic_list nics;
	struct hm_memory_place *memory; /* of each accelerator; those with peers own them */
	size_t accelerators, bridge_room;
};

void hm_topology_close(struct hmreg_topology *topology)
{
	struct table *table = (struct table *)topology;

	if (!table)
		return;
	free(table->bridge);
	free(table->accelerator);
	free(table->nic);
	free(table->choice);
	free(table->bridges);
	free(table->accelerators);
	free(table->nics);
	free(table->choices);
	free(table);
}

/* ---- bridges ---- */

/* The bridge of this name, entered if it is new. */
static size_t enter_bridge(struct making *m, const struct topo_place *place, size_t i,
			   size_t parent)
{
	const struct topo_bridge *from = &place->bridge[i];
	struct hmreg_topology *public = &m->table->public;
	struct hmreg_bridge *bridge;

	for (size_t b = 0; b < public->bridge_count; b++)
		if (strcmp(m->table->bridge[b].name, from->name) == 0)
			return b;
	bridge = &m->table->bridge[public->bridge_count];
	*bridge = (struct hmreg_bridge){ .size = sizeof(*bridge),
					 .kind = from->kind,
					 .parent = parent,
					 .node = place->node,
					 .socket = place->socket,
					 .acs = from->acs };
	memcpy(bridge->name, from->name, sizeof(from->name));
	return public->bridge_count++;
}

static void fill_place(struct making *m, const struct topo_place *from, struct hmreg_place *to)
{
	to->size = sizeof(*to);
	to->bridge = SIZE_MAX;
	for (size_t i = 0; i < from->bridges; i++)
		to->bridge = enter_bridge(m, from, i, to->bridge);
	to->node = from->node;
	to->socket = from->socket;
	to->iommu_group = from->iommu_group;
	memcpy(to->pci, from->pci, sizeof(from->pci));
	memcpy(to->physical, from->physical, sizeof(from->physical));
	memcpy(to->iommu, from->iommu, sizeof(from->iommu));
	memcpy(to->reason, from->reason, sizeof(from->reason));
}

/* ---- accelerators and NICs ---- */

/* Those of one vendor and class take turns together: they are looked for once. */
static int find_peers(struct making *m, size_t a)
{
	struct hm_memory_place *own = &m->memory[a];

	return topo_peers(&own->place, &own->peers, &own->peer_count);
}

static const struct hm_memory_place *peers_of(const struct making *m, size_t a)
{
	for (size_t i = 0; i < a; i++)
		if (m->memory[i].place.vendor == m->memory[a].place.vendor &&
		    m->memory[i].place.class == m->memory[a].place.class)
			return &m->memory[i];
	return NULL;
}

static int add_accelerator(struct making *m, const struct hmem_ops *ops, size_t index)
{
	size_t a = m->table->public.accelerator_count;
	struct hmreg_place *to = &m->table->accelerator[a];
	struct hm_memory_place *memory = &m->memory[a];
	struct hmem_device device;
	int ret = ops->device_info(index, &device);

	if (ret != 0)
		return ret;
	memory->turn = index;
	memory->ways = hm_device_ways(&device);
	topo_place_read(device.pci, "the driver tells no PCI address", &memory->place);
	fill_place(m, &memory->place, to);
	to->iface = ops->iface;
	to->device = device.id;
	memcpy(to->model, device.name, sizeof(to->model));
	snprintf(to->name, sizeof(to->name), "%s:%d", hmem_name(ops->iface), device.id);
	m->table->public.accelerator_count++;
	return peers_of(m, a) ? 0 : find_peers(m, a);
}

static int add_accelerators(struct making *m)
{
	const struct hmem_ops *const *usable = hmem_usable();
	int ret = 0;

	for (; *usable; usable++) {
		size_t count = (*usable)->device_count();

		for (size_t i = 0; ret == 0 && i < count; i++)
			if (m->table->public.accelerator_count < m->accelerators)
				ret = add_accelerator(m, *usable, i);
	}
	return ret;
}

static void add_nics(struct making *m)
{
	static const struct topo_place none = { .node = -1, .socket = -1, .iommu_group = -1 };

	for (size_t i = 0; i < m->nics.count; i++) {
		const struct topo_nic *nic = &m->nics.nic[i];
		struct hmreg_place *to = &m->table->nic[i];

		fill_place(m, nic->place ? nic->place : &none, to);
		if (!nic->place)
			snprintf(to->reason, sizeof(to->reason), "software: it has no place");
		to->info = m->nics.info[i];
		to->bits_per_s = nic->bits_per_s;
		snprintf(to->name, sizeof(to->name), "%s", nic->name);
		m->table->public.nic_count++;
	}
}

static int order_all(struct making *m)
{
	struct topo_rank *ranks = calloc(m->nics.count, sizeof(*ranks));
	size_t count = m->nics.count;
	int ret = ranks ? 0 : -FI_ENOMEM;

	if (!ranks)
		HM_WARN(FI_LOG_FABRIC, "no memory to order %zu NICs", count);
	for (size_t a = 0; ret == 0 && a < m->table->public.accelerator_count; a++) {
		const struct hm_memory_place *peers = peers_of(m, a);
		struct hm_memory_place memory = m->memory[a];

		if (peers) {
			memory.peers = peers->peers;
			memory.peer_count = peers->peer_count;
		}
		ret = hm_nics_order(&m->nics, &memory, ranks);
		for (size_t i = 0; ret == 0 && i < count; i++)
			hm_choice_fill(&m->nics, &memory, &ranks[i],
				       &m->table->choice[a * count + i]);
	}
	free(ranks);
	return ret;
}

/* ---- all of it ---- */

static int allocate(struct making *m)
{
	size_t choices = m->accelerators * m->nics.count;
	struct table *table = calloc(1, sizeof(*table));

	m->table = table;
	m->memory = calloc(m->accelerators + 1, sizeof(*m->memory));
	if (!table || !m->memory)
		return -FI_ENOMEM;
	m->bridge_room = (m->accelerators + m->nics.count) * (PCI_BRIDGES_MAX + 1);
	table->bridge = calloc(m->bridge_room, sizeof(*table->bridge));
	table->accelerator = calloc(m->accelerators + 1, sizeof(*table->accelerator));
	table->nic = calloc(m->nics.count, sizeof(*table->nic));
	table->choice = calloc(choices + 1, sizeof(*table->choice));
	table->bridges = calloc(m->bridge_room, sizeof(void *));
	table->accelerators = calloc(m->accelerators + 1, sizeof(void *));
	table->nics = calloc(m->nics.count, sizeof(void *));
	table->choices = calloc(choices + 1, sizeof(void *));
	return table->bridge && table->accelerator && table->nic && table->choice &&
			       table->bridges && table->accelerators && table->nics &&
			       table->choices
		       ? 0
		       : -FI_ENOMEM;
}

static void point(struct table *table)
{
	struct hmreg_topology *public = &table->public;

	for (size_t i = 0; i < public->bridge_count; i++)
		table->bridges[i] = &table->bridge[i];
	for (size_t i = 0; i < public->accelerator_count; i++)
		table->accelerators[i] = &table->accelerator[i];
	for (size_t i = 0; i < public->nic_count; i++)
		table->nics[i] = &table->nic[i];
	for (size_t i = 0; i < public->accelerator_count * public->nic_count; i++)
		table->choices[i] = &table->choice[i];
	public->size = sizeof(*public);
	public->bridges = table->bridges;
	public->accelerators = table->accelerators;
	public->nics = table->nics;
	public->choices = table->choices;
}

static int make(struct making *m)
{
	int ret = allocate(m);

	if (ret == -FI_ENOMEM)
		HM_WARN(FI_LOG_FABRIC, "no memory for the topology");
	if (ret == 0)
		ret = add_accelerators(m);
	if (ret != 0)
		return ret;
	add_nics(m);
	ret = order_all(m);
	if (ret == 0)
		point(m->table);
	return ret;
}

int hm_topology_open(struct fid *fabric, const struct fi_info *list, struct hmreg_topology **out)
{
	struct making m = { .accelerators = 0 };
	int ret;

	if (!fabric || fabric->fclass != FI_CLASS_FABRIC || !out) {
		HM_WARN(FI_LOG_FABRIC, "not a fabric, or nowhere to put the topology");
		return -FI_EINVAL;
	}
	ret = hm_nics_find(list, &m.nics);
	if (ret != 0)
		return ret;
	for (const struct hmem_ops *const *usable = hmem_usable(); *usable; usable++)
		m.accelerators += (*usable)->device_count();
	ret = make(&m);
	for (size_t i = 0; m.memory && i < m.accelerators; i++)
		free(m.memory[i].peers);
	free(m.memory);
	hm_nics_free(&m.nics);
	if (ret == 0)
		*out = &m.table->public;
	else
		hm_topology_close(m.table ? &m.table->public : NULL);
	return ret;
}
