/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses and ports of the emulated connection manager. */
#include "tests/drivers/verbs/cm.h"

#include <arpa/inet.h>
#include <unistd.h>

#define FIRST_PORT 32768u
#define LAST_PORT  60999u

size_t cm_addr_size(const struct sockaddr *addr)
{
	return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

bool cm_is_any(const struct sockaddr *addr)
{
	if (addr->sa_family == AF_INET)
		return ((const struct sockaddr_in *)addr)->sin_addr.s_addr == htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

void cm_set_port(struct sockaddr *addr, uint16_t port)
{
	if (addr->sa_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_port = port;
	else
		((struct sockaddr_in6 *)addr)->sin6_port = port;
}

static bool same_addr(const struct sockaddr *a, const struct sockaddr *b)
{
	union ibv_gid first, second;

	emu_sockaddr_gid(a, &first);
	emu_sockaddr_gid(b, &second);
	return !memcmp(&first, &second, sizeof(first));
}

/* Does what is bound to BOUND get what goes to ADDR?  Ports are not compared. */
static bool covers(const struct sockaddr *bound, bool afonly, const struct sockaddr *addr)
{
	if (cm_is_any(bound))
		return bound->sa_family == addr->sa_family ||
		       (bound->sa_family == AF_INET6 && !afonly);
	return same_addr(bound, addr);
}

static bool port_taken(const struct cm_id *id, const struct sockaddr *addr, uint16_t port)
{
	for (struct hm_list *at = cm_ids()->next; at != cm_ids(); at = at->next) {
		const struct cm_id *other = hm_container(at, struct cm_id, entry);
		const struct sockaddr *bound = &other->ibv.route.addr.src_addr;

		if (other == id || other->state == CM_IDLE || other->listen_port ||
		    cm_port(bound) != port)
			continue;
		if (id->reuse && other->reuse && other->state != CM_LISTENING)
			continue;
		if (covers(bound, other->afonly, addr) || covers(addr, id->afonly, bound))
			return true;
	}
	return false;
}

static uint16_t free_port(const struct cm_id *id, const struct sockaddr *addr)
{
	static uint16_t next = FIRST_PORT;

	for (unsigned int tries = 0; tries <= LAST_PORT - FIRST_PORT; tries++) {
		next = next >= LAST_PORT ? FIRST_PORT : (uint16_t)(next + 1);
		if (!port_taken(id, addr, htons(next)))
			return htons(next);
	}
	return 0;
}

int cm_attach(struct cm_id *id, struct emu_device *device)
{
	id->context = emu_internal_context(device);
	if (!id->context)
		return errno;
	id->ibv.verbs = &id->context->verbs.context;
	id->ibv.port_num = 1;
	return 0;
}

/* Why no device has ADDR: it is none of this machine's, or one without a device. */
static int no_device(const struct sockaddr *addr)
{
	union {
		struct sockaddr any;
		struct sockaddr_storage storage;
	} copy;
	int fd = socket(addr->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int error = ENODEV;

	memcpy(&copy, addr, cm_addr_size(addr));
	cm_set_port(&copy.any, 0);
	if (fd >= 0 && bind(fd, &copy.any, (socklen_t)cm_addr_size(addr)))
		error = errno;
	if (fd >= 0)
		close(fd);
	return error;
}

int cm_bind(struct cm_id *id, const struct sockaddr *addr)
{
	struct emu_device *device = NULL;
	uint16_t port;

	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return EAFNOSUPPORT;
	if (!cm_is_any(addr)) {
		device = emu_device_by_addr(addr);
		if (!device)
			return no_device(addr);
	}
	port = cm_port(addr);
	if (port && port_taken(id, addr, port))
		return EADDRINUSE;
	if (!port)
		port = free_port(id, addr);
	if (!port)
		return EADDRNOTAVAIL;
	if (device && cm_attach(id, device))
		return errno;
	memcpy(&id->ibv.route.addr.src_addr, addr, cm_addr_size(addr));
	cm_set_port(&id->ibv.route.addr.src_addr, port);
	id->state = CM_BOUND;
	return 0;
}

struct cm_id *cm_listener(const struct sockaddr *addr)
{
	struct cm_id *found = NULL;

	for (struct hm_list *at = cm_ids()->next; at != cm_ids(); at = at->next) {
		struct cm_id *id = hm_container(at, struct cm_id, entry);
		const struct sockaddr *bound = &id->ibv.route.addr.src_addr;

		if (id->state != CM_LISTENING || cm_port(bound) != cm_port(addr) ||
		    !covers(bound, id->afonly, addr))
			continue;
		if (!cm_is_any(bound))
			return id;
		found = id;
	}
	return found;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return cm_port(&id->route.addr.src_addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
	return cm_port(&id->route.addr.dst_addr);
}
