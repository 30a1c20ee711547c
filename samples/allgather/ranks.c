/* SPDX-License-Identifier: BSD-2-Clause */
/* Which memory takes part, which NIC is best for it, and who is whose neighbour. */
#include <stdlib.h>
#include <string.h>

#include "allgather.h"

#define NICS  64
#define DEPTH 16 /* bridges above an accelerator that are looked at */

/* ---- ranks ---- */

static int add_rank(struct ag_world *w, enum fi_hmem_iface iface, int device, const char *name)
{
	struct ag_rank *rank = &w->rank[w->count];

	if (w->count == AG_RANKS) {
		fprintf(stderr, "there are more accelerators than the %d that a node may have\n",
			AG_RANKS);
		return -FI_E2BIG;
	}
	rank->place = (struct sample_place){ iface, device };
	if (iface == FI_HMEM_SYSTEM)
		snprintf(rank->card.memory, sizeof(rank->card.memory), "%s", name);
	else
		snprintf(rank->card.memory, sizeof(rank->card.memory), "%s:%d", name, device);
	w->count++;
	return 0;
}

/* Every device of every interface that works here, or of the one that was asked for. */
static int find_accelerators(struct ag_world *w)
{
	const char *wanted = w->options.iface;
	struct hmreg_hmem_iface iface = { .size = sizeof(iface) };
	struct hmreg_hmem_device device = { .size = sizeof(device) };
	int ret = 0;

	for (int i = FI_HMEM_CUDA; i <= FI_HMEM_SYNAPSEAI; i++) {
		if (w->hmem->iface(&w->fabric->fid, (enum fi_hmem_iface)i, &iface) ||
		    (wanted && strcmp(wanted, iface.name) != 0))
			continue;
		if (wanted && !iface.devices)
			fprintf(stderr, "%s: %s\n", iface.name, iface.reason);
		for (size_t k = 0; k < iface.devices && !ret; k++) {
			ret = w->hmem->device(&w->fabric->fid, (enum fi_hmem_iface)i, k, &device);
			if (ret)
				return sample_fail("asking for a device", ret);
			ret = add_rank(w, (enum fi_hmem_iface)i, device.id, iface.name);
		}
	}
	if (!ret && wanted && !w->count) {
		fprintf(stderr, "skipped: no accelerator of the interface %s\n", wanted);
		return AG_SKIPPED;
	}
	return ret;
}

static int find_memory(struct ag_world *w)
{
	unsigned int host = w->options.ranks;
	int ret = host ? 0 : find_accelerators(w);

	if (ret || w->count)
		return ret;
	for (unsigned int i = 0; i < (host ? host : 4) && !ret; i++)
		ret = add_rank(w, FI_HMEM_SYSTEM, 0, "host");
	return ret;
}

/* ---- NICs ---- */

/* NICs that are as good as the first: as near, on the same way to the memory. */
static size_t equal_ones(const struct hmreg_nic_choice *choice, size_t count)
{
	size_t n = 1;

	while (n < count && choice[n].distance == choice[0].distance &&
	       choice[n].path == choice[0].path)
		n++;
	return n;
}

/*
 * The library deals equal NICs out among accelerators; host memory has no turn of its own, so that its ranks take
 * theirs here.  The software NIC's profiles are one NIC: a second rail would be the same processor.
 */
static void take(struct ag_world *w, struct ag_rank *rank, const struct hmreg_nic_choice *choice,
		 size_t equal)
{
	size_t turn = rank->place.iface == FI_HMEM_SYSTEM ? (size_t)(rank - w->rank) : 0;
	bool software = choice->distance == HMREG_DISTANCE_SOFTWARE;
	size_t rails = software || w->options.rails > equal ? (software ? 1 : equal)
							    : w->options.rails;

	rank->card.rails = (uint32_t)rails;
	if (software)
		turn = 0;
	for (size_t i = 0; i < rails; i++) {
		rank->nic[i] = choice[(turn * rails + i) % equal].info;
		snprintf(rank->card.nic[i], sizeof(rank->card.nic[i]), "%s",
			 rank->nic[i]->domain_attr->name);
	}
	snprintf(rank->card.why, sizeof(rank->card.why), "%s%s%s%s",
		 sample_distance(choice->distance),
		 equal > 1 && !software ? ", one of several as near" : "",
		 *choice->reason ? ": " : "", choice->reason);
}

/* The best NIC does not reach the memory: in the library's words. */
static int out_of_reach(struct ag_world *w, const struct ag_rank *rank, const struct fi_info *nic)
{
	struct hmreg_hmem_path path = { .size = sizeof(path) };
	int ret = w->hmem->path(&w->fabric->fid, nic, rank->place.iface, rank->place.device, &path);

	if (ret)
		return sample_fail("asking how the NIC reaches the memory", ret);
	fprintf(stderr, "NIC %s does not reach %s: %s; %s\n", nic->domain_attr->name,
		rank->card.memory, path.dmabuf_reason, path.peer_reason);
	return -FI_EOPNOTSUPP;
}

static int choose(struct ag_world *w, struct ag_rank *rank, bool *software)
{
	struct hmreg_nic_choice *choice = calloc(NICS, sizeof(*choice));
	size_t count = NICS;
	int ret = choice ? 0 : -FI_ENOMEM;

	if (!ret) {
		choice->size = sizeof(*choice);
		ret = w->topology->best_for(&w->fabric->fid, w->list, rank->place.iface,
					    rank->place.device, choice, &count);
	}
	if (ret) {
		sample_fail("looking for the nearest NIC", ret);
	} else if (!choice->path) {
		ret = out_of_reach(w, rank, choice->info);
	} else {
		*software = choice->distance == HMREG_DISTANCE_SOFTWARE;
		take(w, rank, choice, equal_ones(choice, count));
	}
	free(choice);
	return ret;
}

static int choose_all(struct ag_world *w, unsigned int *in_software)
{
	int ret = 0;

	*in_software = 0;
	for (unsigned int i = 0; i < w->count && !ret; i++) {
		bool software = false;

		ret = choose(w, &w->rank[i], &software);
		*in_software += software;
	}
	return ret;
}

/* NICs that reach accelerators, or when there is none, those that reach host memory. */
static int list_nics(struct ag_world *w, const char *domain)
{
	int ret;

	fi_freeinfo(w->list);
	w->list = NULL;
	ret = sample_find(domain, FI_RMA | FI_HMEM, &w->list);
	if (ret == -FI_ENODATA)
		ret = sample_find(domain, FI_RMA, &w->list);
	if (ret == -FI_ENODATA)
		fprintf(stderr, "no NIC%s%s has endpoints with remote writes\n", domain ? " " : "",
			domain ? domain : "");
	return ret ? sample_fail("fi_getinfo", ret) : 0;
}

int ag_find_ranks(struct ag_world *w)
{
	unsigned int in_software = 0;
	int ret = list_nics(w, w->options.domain);

	if (ret)
		return ret;
	ret = fi_fabric(w->list->fabric_attr, &w->fabric, NULL);
	if (!ret)
		ret = fi_open_ops(&w->fabric->fid, HMREG_TOPOLOGY_OPS, 0, (void **)&w->topology,
				  NULL);
	if (!ret)
		ret = fi_open_ops(&w->fabric->fid, HMREG_HMEM_OPS, 0, (void **)&w->hmem, NULL);
	if (!ret)
		ret = fi_open_ops(&w->fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&w->ops, NULL);
	if (ret)
		return sample_fail("opening the fabric", ret);
	ret = find_memory(w);
	if (!ret)
		ret = choose_all(w, &in_software);
	/* every profile of the software NIC is as near as the others: all take the same */
	if (!ret && in_software == w->count && !w->options.domain) {
		char name[64];

		snprintf(name, sizeof(name), "%s", w->rank[0].card.nic[0]);
		ret = list_nics(w, name);
		if (!ret)
			ret = choose_all(w, &in_software);
	}
	w->software = in_software != 0;
	if (!ret && in_software && in_software < w->count) {
		fputs("some ranks find RDMA devices that reach their memory, others the software "
		      "NIC "
		      "alone, and these do not reach each other: name one NIC domain\n",
		      stderr);
		return -FI_EHOSTUNREACH;
	}
	return ret;
}

/* ---- the ring ---- */

/* Where an accelerator is: bridges from the host bridge down to it. */
struct spot {
	const struct hmreg_place *place; /* NULL: host memory, or not known */
	size_t bridge[DEPTH], depth;
	unsigned int rank;
};

static void find_spot(const struct hmreg_topology *t, const struct ag_rank *rank, struct spot *spot)
{
	size_t up[DEPTH], n = 0;

	for (size_t i = 0; i < t->accelerator_count && !spot->place; i++) {
		if (t->accelerators[i]->iface == rank->place.iface &&
		    t->accelerators[i]->device == rank->place.device)
			spot->place = t->accelerators[i];
	}
	if (!spot->place)
		return;
	for (size_t b = spot->place->bridge; b != SIZE_MAX && n < DEPTH; b = t->bridges[b]->parent)
		up[n++] = b;
	while (n > 0)
		spot->bridge[spot->depth++] = up[--n];
}

/*
 * The order.  Think of sockets, host bridges, bridges and accelerators as a tree.  A ring is a closed tour of its
 * leaves, and such a tour crosses each link above a leaf at least once on its way in and once on its way out.
 * Depth first, it crosses each exactly so often: no other order has fewer hops over any switch, root port
 * or socket.  A rank's NIC is near its accelerator, so the same holds for what NICs carry.  With several nodes
 * each node is a subtree once more: one hop of the ring comes in, one leaves.
 */
static int compare(const void *a, const void *b)
{
	const struct spot *one = a, *other = b;
	int order = !one->place - !other->place;

	if (order != 0) /* host memory; what is nowhere comes last */
		return order;
	if (!one->place)
		return (one->rank > other->rank) - (one->rank < other->rank);
	if (one->place->socket != other->place->socket)
		return one->place->socket - other->place->socket;
	if (one->place->node != other->place->node)
		return one->place->node - other->place->node;
	for (size_t i = 0; i < one->depth && i < other->depth; i++) {
		if (one->bridge[i] != other->bridge[i])
			return one->bridge[i] < other->bridge[i] ? -1 : 1;
	}
	order = strcmp(one->place->pci, other->place->pci);
	return order ? order : (one->rank > other->rank) - (one->rank < other->rank);
}

/* What two neighbours have in common. */
static const char *between(const struct hmreg_topology *t, const struct spot *one,
			   const struct spot *other)
{
	size_t n = 0;

	if (!one->place || !other->place)
		return one->place || other->place ? "host and device" : "host memory";
	while (n < one->depth && n < other->depth && one->bridge[n] == other->bridge[n])
		n++;
	if (n > 0) {
		switch (t->bridges[one->bridge[n - 1]]->kind) {
		case HMREG_BRIDGE_HOST:
			return sample_distance(HMREG_DISTANCE_HOST_BRIDGE);
		case HMREG_BRIDGE_ROOT_PORT:
			return sample_distance(HMREG_DISTANCE_ROOT_PORT);
		default:
			return sample_distance(HMREG_DISTANCE_SWITCH);
		}
	}
	if (one->place->socket < 0 || other->place->socket < 0)
		return sample_distance(HMREG_DISTANCE_UNKNOWN);
	if (one->place->socket != other->place->socket)
		return sample_distance(HMREG_DISTANCE_SYSTEM);
	return one->place->node == other->place->node ? sample_distance(HMREG_DISTANCE_NODE)
						      : sample_distance(HMREG_DISTANCE_SOCKET);
}

int ag_order_ranks(struct ag_world *w)
{
	struct spot *spot = calloc(AG_RANKS, sizeof(*spot));
	struct hmreg_topology *t = NULL;
	int ret = spot ? w->topology->open(&w->fabric->fid, w->list, &t) : -FI_ENOMEM;

	if (ret) {
		free(spot);
		return sample_fail("reading the topology", ret);
	}
	for (unsigned int i = 0; i < w->count; i++) {
		spot[i].rank = i;
		find_spot(t, &w->rank[i], &spot[i]);
	}
	qsort(spot, w->count, sizeof(*spot), compare);
	for (unsigned int i = 0; i < w->count; i++) {
		struct ag_card *card = &w->rank[spot[i].rank].card;
		bool leaves = w->options.nodes > 1 && i + 1 == w->count;

		card->place = i;
		snprintf(card->next, sizeof(card->next), "%s",
			 leaves ? "the network" : between(t, &spot[i], &spot[(i + 1) % w->count]));
	}
	w->topology->close(t);
	free(spot);
	return 0;
}
