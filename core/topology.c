/* SPDX-License-Identifier: BSD-2-Clause */
/* Which NIC for which memory: HMREG_TOPOLOGY_OPS of a fabric. */
#include "core/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/params.h"
#include "core/mr/mr.h"

/* ---- the NICs of a list ---- */

static bool is_listed(const struct hm_nic_list *nics, const struct fi_info *info)
{
	for (size_t i = 0; i < nics->count; i++)
		if (strcmp(nics->nic[i].name, info->domain_attr->name) == 0)
			return true;
	return false;
}

static void add_nic(struct hm_nic_list *nics, const struct fi_info *info,
		    const struct nic_port *port)
{
	struct hmreg_device device = { .size = sizeof(device) };
	size_t i = nics->count++;
	struct topo_nic *nic = &nics->nic[i];
	bool software = false;

	nics->info[i] = info;
	nics->port[i] = port;
	*nic = (struct topo_nic){ .name = info->domain_attr->name };
	if (port->ops->port_describe(port, &device) == 0)
		software = strcmp(device.kind, "sw") == 0;
	if (port->nic && port->nic->link_attr)
		nic->bits_per_s = port->nic->link_attr->speed;
	if (software)
		return;
	topo_place_read(device.pci ? device.pci : "", "the NIC is not on a PCI bus",
			&nics->place[i]);
	nic->place = &nics->place[i];
}

void hm_nics_free(struct hm_nic_list *nics)
{
	free(nics->nic);
	free(nics->place);
	free(nics->info);
	free(nics->port);
	*nics = (struct hm_nic_list){ .count = 0 };
}

int hm_nics_find(const struct fi_info *list, struct hm_nic_list *nics)
{
	const struct nic_port *port;
	size_t room = 0;

	*nics = (struct hm_nic_list){ .count = 0 };
	for (const struct fi_info *info = list; info; info = info->next)
		room++;
	if (room == 0) {
		HM_WARN(FI_LOG_FABRIC, "no list of NICs");
		return -FI_EINVAL;
	}
	nics->nic = calloc(room, sizeof(*nics->nic));
	nics->place = calloc(room, sizeof(*nics->place));
	nics->info = calloc(room, sizeof(*nics->info));
	nics->port = calloc(room, sizeof(*nics->port));
	if (!nics->nic || !nics->place || !nics->info || !nics->port) {
		HM_WARN(FI_LOG_FABRIC, "no memory for a list of %zu NICs", room);
		hm_nics_free(nics);
		return -FI_ENOMEM;
	}
	for (const struct fi_info *info = list; info; info = info->next) {
		port = hm_info_port(info);
		if (port && !is_listed(nics, info))
			add_nic(nics, info, port);
	}
	if (nics->count)
		return 0;
	HM_WARN(FI_LOG_FABRIC, "the list names no NIC of this library");
	hm_nics_free(nics);
	return -FI_ENODEV;
}

/* ---- memory ---- */

uint32_t hm_device_ways(const struct hmem_device *device)
{
	return HMEM_WAY_COPY | HMEM_WAY_PEER | (device->dmabuf ? HMEM_WAY_DMABUF : 0);
}

enum hmreg_path hm_nic_path(const struct nic_port *port, uint32_t memory_ways, const char **why)
{
	static const enum hmreg_path paths[HM_MR_WAYS] = {
		[HM_MR_AS_HOST] = HMREG_PATH_HOST,	  [HM_MR_DMABUF] = HMREG_PATH_DMABUF,
		[HM_MR_DMABUF_EXACT] = HMREG_PATH_DMABUF, [HM_MR_PEER] = HMREG_PATH_PEER_MEMORY,
		[HM_MR_COPY] = HMREG_PATH_COPY,
	};
	const struct hm_mr_choice choice = { .memory = memory_ways,
					     .nic = port->ways,
					     .disable_p2p =
						     hm_param_bool(HM_PARAM_HMEM_DISABLE_P2P) };
	enum hm_mr_way way[HM_MR_WAYS];
	enum hmreg_cause cause;

	if (hm_mr_ways(&choice, way, why, &cause) == 0)
		return 0;
	return way[0] == HM_MR_AS_HOST && port->ways & NIC_WAY_COPY ? HMREG_PATH_SOFTWARE
								    : paths[way[0]];
}

static int place_device(enum fi_hmem_iface iface, int id, uint32_t ways,
			struct hm_memory_place *out)
{
	const struct hmem_ops *ops = hmem_get(iface);
	struct hmem_device device;

	for (size_t i = 0; ops && i < ops->device_count(); i++) {
		if (ops->device_info(i, &device) != 0 || device.id != id)
			continue;
		*out = (struct hm_memory_place){ .turn = i,
						 .ways = ways ? ways : hm_device_ways(&device) };
		topo_place_read(device.pci, "the driver tells no PCI address", &out->place);
		return topo_peers(&out->place, &out->peers, &out->peer_count);
	}
	HM_WARN(FI_LOG_FABRIC, "%s has no device %d", hmem_name(iface), id);
	return ops ? -FI_ENODEV : hmem_error(iface);
}

static void place_host(int node, const char *reason, struct hm_memory_place *out)
{
	*out = (struct hm_memory_place){ .ways = HMEM_WAY_HOST };
	topo_place_memory(node, reason, &out->place);
}

static int place_memory(const void *addr, size_t len, struct hm_memory_place *out)
{
	char reason[TOPO_REASON] = "";
	struct hmem_memory memory;
	int ret = hmem_classify(addr, len, &memory);

	if (ret != 0)
		return ret;
	if (!(memory.ways & HMEM_WAY_HOST) && memory.device != HMEM_NO_DEVICE)
		return place_device(memory.iface, memory.device, memory.ways, out);
	place_host(topo_memory_node(addr, len, reason), reason, out);
	out->ways = memory.ways;
	return 0;
}

/* ---- the order ---- */

int hm_nics_order(struct hm_nic_list *nics, const struct hm_memory_place *memory,
		  struct topo_rank *ranks)
{
	const char *why;

	for (size_t i = 0; i < nics->count; i++)
		nics->nic[i].reaches = hm_nic_path(nics->port[i], memory->ways, &why) != 0;
	return topo_order(&memory->place, memory->peers, memory->peer_count, memory->turn,
			  nics->nic, nics->count, ranks);
}

void hm_choice_fill(const struct hm_nic_list *nics, const struct hm_memory_place *memory,
		    const struct topo_rank *rank, struct hmreg_nic_choice *out)
{
	const struct topo_nic *nic = &nics->nic[rank->nic];
	const char *why = "";

	*out = (struct hmreg_nic_choice){ .size = sizeof(*out),
					  .info = nics->info[rank->nic],
					  .distance = HMREG_DISTANCE_SOFTWARE,
					  .bits_per_s = nic->bits_per_s };
	out->path = hm_nic_path(nics->port[rank->nic], memory->ways, &why);
	if (nic->place) {
		out->distance = rank->path.distance;
		out->bridges = rank->path.bridges;
		out->numa_distance = rank->path.numa_distance;
		out->acs = rank->path.acs;
		memcpy(out->acs_at, rank->path.acs_at, sizeof(out->acs_at));
		memcpy(out->reason, rank->path.reason, sizeof(out->reason));
	}
	if (!out->path)
		snprintf(out->reason, sizeof(out->reason), "%s", why);
}

/* Entries are as long as the caller's header has them. */
static int give_choices(struct hm_nic_list *nics, const struct hm_memory_place *memory,
			struct hmreg_nic_choice *out, size_t *count)
{
	struct topo_rank *ranks = calloc(nics->count, sizeof(*ranks));
	size_t stride = out->size, given = *count < nics->count ? *count : nics->count;
	int ret = -FI_ENOMEM;

	if (!ranks)
		HM_WARN(FI_LOG_FABRIC, "no memory to order %zu NICs", nics->count);
	else
		ret = hm_nics_order(nics, memory, ranks);
	for (size_t i = 0; ret == 0 && i < given; i++) {
		struct hmreg_nic_choice filled, *to = (void *)((char *)out + i * stride);

		hm_choice_fill(nics, memory, &ranks[i], &filled);
		to->size = stride;
		hm_ext_give(to, &filled, sizeof(filled));
	}
	if (ret == 0)
		*count = given;
	free(ranks);
	return ret;
}

static int check_room(struct fid *fabric, const struct hmreg_nic_choice *out, const size_t *count)
{
	bool room = out && count && *count && (out->size % _Alignof(struct hmreg_nic_choice)) == 0;

	return hm_ext_check(
		fabric, FI_CLASS_FABRIC, room ? &out->size : NULL, FI_LOG_FABRIC,
		"not a fabric, or no room for a choice of NICs, or a size that no header has");
}

/* Takes what memory holds. */
static int choose(const struct fi_info *list, struct hm_memory_place *memory,
		  struct hmreg_nic_choice *out, size_t *count)
{
	struct hm_nic_list nics;
	int ret = hm_nics_find(list, &nics);

	if (ret == 0)
		ret = give_choices(&nics, memory, out, count);
	hm_nics_free(&nics);
	free(memory->peers);
	return ret;
}

static int best(struct fid *fabric, const struct fi_info *list, const void *addr, size_t len,
		struct hmreg_nic_choice *out, size_t *count)
{
	struct hm_memory_place memory;
	int ret = check_room(fabric, out, count);

	if (ret == 0 && (!addr || !len)) {
		HM_WARN(FI_LOG_FABRIC, "no memory to choose a NIC for");
		ret = -FI_EINVAL;
	}
	if (ret == 0)
		ret = place_memory(addr, len, &memory);
	return ret == 0 ? choose(list, &memory, out, count) : ret;
}

static int best_for(struct fid *fabric, const struct fi_info *list, enum fi_hmem_iface iface,
		    int device, struct hmreg_nic_choice *out, size_t *count)
{
	char reason[TOPO_REASON] = "";
	struct hm_memory_place memory;
	int ret = check_room(fabric, out, count);

	if (ret == 0 && (unsigned int)iface >= HMEM_IFACES) {
		HM_WARN(FI_LOG_FABRIC, "memory interface %d is not one of %d to %d", (int)iface,
			FI_HMEM_SYSTEM, FI_HMEM_SYNAPSEAI);
		ret = -FI_EINVAL;
	}
	if (ret != 0)
		return ret;
	if (iface == FI_HMEM_SYSTEM)
		place_host(topo_thread_node(reason), reason, &memory);
	else
		ret = place_device(iface, device, 0, &memory);
	return ret == 0 ? choose(list, &memory, out, count) : ret;
}

struct hmreg_topology_ops hm_topology_ext_ops = {
	.size = sizeof(struct hmreg_topology_ops),
	.best = best,
	.best_for = best_for,
	.open = hm_topology_open,
	.close = hm_topology_close,
};
