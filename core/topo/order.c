/* SPDX-License-Identifier: BSD-2-Clause */
/* In which order NICs are taken for a place. */
#include "core/topo/order.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/sysfs.h"

/* ---- functions that take turns ---- */

/* Addresses are of one form but for the digits of the domain. */
static int compare_addresses(const char *a, const char *b)
{
	size_t first = strlen(a), second = strlen(b);

	return first != second ? (first < second ? -1 : 1) : strcmp(a, b);
}

static int compare_peers(const void *a, const void *b)
{
	return compare_addresses(((const struct topo_place *)a)->pci,
				 ((const struct topo_place *)b)->pci);
}

static bool is_alike(const char *pci, const struct topo_place *place)
{
	char vendor[16], class[16];

	return hm_sysfs_read(vendor, sizeof(vendor), "bus/pci/devices/%s/vendor", pci) &&
	       strtoul(vendor, NULL, 16) == place->vendor &&
	       hm_sysfs_read(class, sizeof(class), "bus/pci/devices/%s/class", pci) &&
	       strtoul(class, NULL, 16) >> 8 == place->class;
}

static int add_peer(const char *pci, struct topo_place **peers, size_t *count)
{
	struct topo_place *more = realloc(*peers, (*count + 1) * sizeof(*more));

	if (!more)
		return -FI_ENOMEM;
	*peers = more;
	topo_place_read(pci, "", &more[(*count)++]);
	return 0;
}

int topo_peers(const struct topo_place *place, struct topo_place **peers, size_t *count)
{
	char folder[PATH_MAX];
	struct dirent *entry;
	DIR *dir = NULL;
	int ret = 0;

	*peers = NULL;
	*count = 0;
	if (place->vendor && snprintf(folder, sizeof(folder), "%s/bus/pci/devices",
				      hm_sysfs_root()) < (int)sizeof(folder))
		dir = opendir(folder);
	if (!dir)
		return 0;
	while (ret == 0 && (entry = readdir(dir)) != NULL)
		if (pci_is_address(entry->d_name, strlen(entry->d_name)) &&
		    is_alike(entry->d_name, place))
			ret = add_peer(entry->d_name, peers, count);
	closedir(dir);
	if (ret != 0) {
		HM_WARN(FI_LOG_CORE, "no memory for the PCI functions like %s", place->pci);
		free(*peers);
		*peers = NULL;
		*count = 0;
	} else if (*count > 1) {
		qsort(*peers, *count, sizeof(**peers), compare_peers);
	}
	return ret;
}

/* ---- the order ---- */

static int by(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* By what makes a NIC better. */
static int compare(const struct topo_nic *nics, const struct topo_rank *a,
		   const struct topo_rank *b)
{
	const struct topo_nic *first = &nics[a->nic], *second = &nics[b->nic];
	int order = by(!first->reaches, !second->reaches);

	if (order == 0)
		order = by(!first->place, !second->place);
	if (order != 0 || !first->place)
		return order;
	order = by(a->path.distance, b->path.distance);
	if (order == 0 && a->path.distance <= HMREG_DISTANCE_ROOT_PORT)
		order = by(a->path.bridges, b->path.bridges);
	if (order == 0)
		order = by(a->path.numa_distance, b->path.numa_distance);
	return order ? order : by(second->bits_per_s, first->bits_per_s);
}

/* And by what has to be the same in all processes; software NICs stay as they are listed. */
static int compare_all(const struct topo_nic *nics, const struct topo_rank *a,
		       const struct topo_rank *b)
{
	const struct topo_nic *first = &nics[a->nic], *second = &nics[b->nic];
	int order = compare(nics, a, b);

	if (order == 0 && first->place)
		order = compare_addresses(first->place->pci, second->place->pci);
	return order || !first->place ? order : strcmp(first->name, second->name);
}

/* There are few: sorted by insertion, which keeps the order of equal ones. */
static void sort(const struct topo_place *place, const struct topo_nic *nics, size_t count,
		 struct topo_rank *ranks)
{
	for (size_t i = 0; i < count; i++) {
		struct topo_rank rank = { .nic = i };
		size_t at = i;

		if (nics[i].place)
			topo_compare(place, nics[i].place, &rank.path);
		for (; at > 0 && compare_all(nics, &rank, &ranks[at - 1]) < 0; at--)
			ranks[at] = ranks[at - 1];
		ranks[at] = rank;
	}
}

/* How many from first on are equal. */
static size_t run(const struct topo_nic *nics, size_t count, const struct topo_rank *ranks,
		  size_t first)
{
	size_t end = first + 1;

	while (end < count && compare(nics, &ranks[first], &ranks[end]) == 0)
		end++;
	return end - first;
}

static bool same_best(const struct topo_rank *a, const struct topo_rank *b, size_t best)
{
	for (size_t i = 0; i < best; i++)
		if (a[i].nic != b[i].nic)
			return false;
	return true;
}

/* How many peers before this one have the same NICs to choose from; ranks is sorted. */
static size_t find_turn(const struct topo_place *place, const struct topo_place *peers,
			size_t peer_count, size_t otherwise, const struct topo_nic *nics,
			size_t count, const struct topo_rank *ranks, struct topo_rank *other)
{
	size_t best = run(nics, count, ranks, 0), turn = 0;

	for (size_t i = 0; i < peer_count; i++) {
		if (strcmp(peers[i].pci, place->pci) == 0)
			return turn;
		sort(&peers[i], nics, count, other);
		turn += run(nics, count, other, 0) == best && same_best(ranks, other, best);
	}
	return otherwise;
}

/* Begin each run of equal NICs at the turn's. */
static void deal(const struct topo_nic *nics, size_t count, size_t turn, struct topo_rank *ranks,
		 struct topo_rank *copy)
{
	for (size_t first = 0, equal; first < count; first += equal) {
		equal = run(nics, count, ranks, first);
		if (!nics[ranks[first].nic].place)
			continue;
		memcpy(copy, ranks + first, equal * sizeof(*copy));
		for (size_t i = 0; i < equal; i++)
			ranks[first + i] = copy[(i + turn) % equal];
	}
}

int topo_order(const struct topo_place *place, const struct topo_place *peers, size_t peer_count,
	       size_t turn, const struct topo_nic *nics, size_t count, struct topo_rank *ranks)
{
	struct topo_rank *other;

	if (count == 0)
		return 0;
	other = calloc(count, sizeof(*other));
	if (!other) {
		HM_WARN(FI_LOG_CORE, "no memory to order %zu NICs", count);
		return -FI_ENOMEM;
	}
	sort(place, nics, count, ranks);
	turn = find_turn(place, peers, peer_count, turn, nics, count, ranks, other);
	deal(nics, count, turn, ranks, other);
	free(other);
	return 0;
}
