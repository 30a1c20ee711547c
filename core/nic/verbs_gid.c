/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of a port.  Candidates are the entries of its table of GIDs, which on Ethernet are the IP
 * addresses of its network interface, and then all addresses of this machine (InfiniBand and iWARP have
 * no IP addresses among their GIDs).  What decides is librdmacm: an address is the port's where an
 * identifier that is bound to it gets this device and this port.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_device.h"

struct candidate {
	struct verbs_address address;
	int rank; /* lower is better */
};

struct candidates {
	struct candidate *entry;
	size_t count, room;
};

/* ---- what librdmacm says ---- */

/* Any port number does: the one in addr may be in use, which says nothing about the device. */
static void without_number(struct sockaddr_storage *out, const struct sockaddr *addr)
{
	memset(out, 0, sizeof(*out));
	if (addr->sa_family == AF_INET) {
		memcpy(out, addr, sizeof(struct sockaddr_in));
		((struct sockaddr_in *)out)->sin_port = 0;
	} else {
		memcpy(out, addr, sizeof(struct sockaddr_in6));
		((struct sockaddr_in6 *)out)->sin6_port = 0;
	}
}

static int bind_once(struct rdma_event_channel *channel, const struct sockaddr *addr,
		     char name[VERBS_NAME], uint8_t *number)
{
	struct sockaddr_storage copy;
	struct rdma_cm_id *id;

	if (cm.create_id(channel, &id, NULL, RDMA_PS_TCP))
		return errno;
	without_number(&copy, addr);
	if (!cm.bind_addr(id, (struct sockaddr *)&copy) && id->verbs) {
		const char *device = verbs.get_device_name(id->verbs->device);

		if (strlen(device) < VERBS_NAME) {
			strcpy(name, device);
			*number = id->port_num;
		}
	}
	cm.destroy_id(id);
	return 0;
}

int verbs_bound_to(const struct sockaddr *addr, char name[VERBS_NAME], uint8_t *number)
{
	struct rdma_event_channel *channel = cm.create_event_channel();
	int err;

	name[0] = '\0';
	if (!channel)
		return errno;
	err = bind_once(channel, addr, name, number);
	cm.destroy_event_channel(channel);
	return err;
}

/* ---- candidates ---- */

static bool candidate_add(struct candidates *list, const struct candidate *entry)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 16;
		struct candidate *grown = realloc(list->entry, room * sizeof(*grown));

		if (!grown)
			return false;
		list->entry = grown;
		list->room = room;
	}
	list->entry[list->count++] = *entry;
	return true;
}

static bool gid_empty(const union ibv_gid *gid)
{
	static const union ibv_gid zero;

	return memcmp(gid, &zero, sizeof(zero)) == 0;
}

static void set_in(struct verbs_address *address, const void *bytes)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	memcpy(&in.sin_addr, bytes, sizeof(in.sin_addr));
	memcpy(&address->addr, &in, sizeof(in));
	address->len = sizeof(in);
}

static void set_in6(struct verbs_address *address, const void *bytes, uint32_t interface)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

	memcpy(&in6.sin6_addr, bytes, sizeof(in6.sin6_addr));
	if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
		in6.sin6_scope_id = interface;
	memcpy(&address->addr, &in6, sizeof(in6));
	address->len = sizeof(in6);
}

/*
 * Routable frames (RoCE v2) before those that stay in one network (v1); an address that means the same
 * everywhere before a link-local one.
 */
static int rank_of(uint32_t gid_type, const struct verbs_address *address)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address->addr;
	int rank = gid_type == IBV_GID_TYPE_ROCE_V2 ? 0 : 2;

	if (address->addr.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		rank++;
	return rank;
}

/* Ethernet: each GID is an IP address. */
static bool add_gids(struct candidates *list, struct ibv_context *context, uint8_t number,
		     const struct ibv_port_attr *attr)
{
	for (int i = 0; i < attr->gid_tbl_len; i++) {
		struct candidate entry = { .address.gid_index = i };
		struct verbs_address *address = &entry.address;
		struct ibv_gid_entry gid;

		if (verbs.query_gid_ex(context, number, (uint32_t)i, &gid, 0, sizeof(gid)) ||
		    gid_empty(&gid.gid))
			continue;
		address->gid = gid.gid;
		address->gid_type = gid.gid_type;
		if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid.gid.raw))
			set_in(address, gid.gid.raw + 12);
		else
			set_in6(address, gid.gid.raw, gid.ndev_ifindex);
		entry.rank = rank_of(gid.gid_type, address);
		if (!candidate_add(list, &entry))
			return false;
	}
	return true;
}

/* Which GID goes with an address that came from a network interface: its own, or the first. */
static void set_gid(struct verbs_address *address, struct ibv_context *context, uint8_t number,
		    const struct ibv_port_attr *attr)
{
	address->gid_index = -1;
	for (int i = 0; i < attr->gid_tbl_len; i++) {
		struct ibv_gid_entry gid;

		if (verbs.query_gid_ex(context, number, (uint32_t)i, &gid, 0, sizeof(gid)) ||
		    gid_empty(&gid.gid))
			continue;
		address->gid_index = i;
		address->gid = gid.gid;
		address->gid_type = gid.gid_type;
		return;
	}
}

static bool add_interfaces(struct candidates *list, struct ibv_context *context, uint8_t number,
			   const struct ibv_port_attr *attr)
{
	struct candidate entry = { .rank = 0 };
	struct ifaddrs *all;
	bool ok = true;

	if (getifaddrs(&all))
		return true;
	set_gid(&entry.address, context, number, attr);
	for (struct ifaddrs *at = all; ok && at; at = at->ifa_next) {
		const struct sockaddr *addr = at->ifa_addr;

		if (!addr || !(at->ifa_flags & IFF_UP))
			continue;
		if (addr->sa_family == AF_INET)
			set_in(&entry.address, &((const struct sockaddr_in *)addr)->sin_addr);
		else if (addr->sa_family == AF_INET6)
			set_in6(&entry.address, &((const struct sockaddr_in6 *)addr)->sin6_addr,
				if_nametoindex(at->ifa_name));
		else
			continue;
		/* behind those of the port's own table */
		entry.rank = 4 + rank_of(IBV_GID_TYPE_ROCE_V2, &entry.address);
		ok = candidate_add(list, &entry);
	}
	freeifaddrs(all);
	return ok;
}

/* ---- choice ---- */

/*
 * On Ethernet the table starts with a link-local GID that is made of the hardware's address, and librdmacm
 * binds to it, whether or not the network interface has that address: without it no peer gets here.
 */
static bool is_assigned(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *want = (const struct sockaddr_in6 *)addr;
	struct ifaddrs *all;
	bool found = false;

	if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&want->sin6_addr) ||
	    getifaddrs(&all))
		return true;
	for (struct ifaddrs *at = all; at && !found; at = at->ifa_next) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)at->ifa_addr;

		found = in6 && in6->sin6_family == AF_INET6 &&
			in6->sin6_scope_id == want->sin6_scope_id &&
			IN6_ARE_ADDR_EQUAL(&in6->sin6_addr, &want->sin6_addr);
	}
	freeifaddrs(all);
	return found;
}

/* The best of this family that librdmacm binds to the port; 0, or an errno. */
static int choose(const struct candidates *list, sa_family_t family,
		  const struct verbs_device *device, uint8_t number, struct verbs_address *best,
		  bool *found)
{
	int best_rank = INT32_MAX;

	*found = false;
	for (size_t i = 0; i < list->count; i++) {
		const struct candidate *entry = &list->entry[i];
		char name[VERBS_NAME];
		uint8_t bound = 0;
		int err;

		if (entry->address.addr.ss_family != family || entry->rank >= best_rank)
			continue;
		err = verbs_bound_to((const struct sockaddr *)&entry->address.addr, name, &bound);
		if (err)
			return err;
		if (strcmp(name, device->name) || bound != number ||
		    !is_assigned(&entry->address.addr))
			continue;
		*best = entry->address;
		best_rank = entry->rank;
		*found = true;
	}
	return 0;
}

void verbs_gid_of(const struct verbs_device *device, struct ibv_context *context, uint8_t number,
		  const struct ibv_port_attr *attr, struct verbs_address *out)
{
	struct candidates list = { 0 };
	const struct candidate *best = NULL;

	memset(out, 0, sizeof(*out));
	if (attr->link_layer == IBV_LINK_LAYER_ETHERNET &&
	    device->ibv->transport_type == IBV_TRANSPORT_IB)
		add_gids(&list, context, number, attr);
	for (size_t i = 0; i < list.count; i++) {
		const struct candidate *entry = &list.entry[i];
		bool ipv4 = entry->address.addr.ss_family == AF_INET;

		/* where both do, IPv4: frames to ::1 go nowhere on the loopback interface */
		if (!best || entry->rank < best->rank ||
		    (entry->rank == best->rank && ipv4 && best->address.addr.ss_family != AF_INET))
			best = entry;
	}
	if (best) {
		out->gid_index = best->address.gid_index;
		out->gid = best->address.gid;
		out->gid_type = best->address.gid_type;
	} else {
		set_gid(out, context, number, attr);
	}
	free(list.entry);
}

int verbs_addresses_of(const struct verbs_device *device, struct ibv_context *context,
		       uint8_t number, const struct ibv_port_attr *attr,
		       struct verbs_address found[2], size_t *count)
{
	static const sa_family_t families[2] = { AF_INET, AF_INET6 };
	struct candidates list = { 0 };
	int err = 0;

	*count = 0;
	if ((attr->link_layer == IBV_LINK_LAYER_ETHERNET &&
	     device->ibv->transport_type == IBV_TRANSPORT_IB &&
	     !add_gids(&list, context, number, attr)) ||
	    !add_interfaces(&list, context, number, attr))
		err = ENOMEM;
	for (size_t i = 0; !err && i < count_of(families); i++) {
		bool one;

		err = choose(&list, families[i], device, number, &found[*count], &one);
		if (!err && one)
			++*count;
	}
	free(list.entry);
	return err;
}
