/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses of both families; from node and service, as fi_getinfo(3) and fi_av(3) take them. */
#ifndef HM_ADDR_H
#define HM_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

union hm_addr {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* What node and service say. */
struct hm_node {
	union hm_addr addr;
	bool named;    /* there is a host; else addr is the loopback address, IPv4 */
	bool loopback; /* none, or localhost: of either family, addr gives IPv4 */
};

/* Bytes of an address of this family; 0 for all but AF_INET and AF_INET6. */
size_t hm_addr_len(sa_family_t family);
/* AF_INET or AF_INET6 where the bytes are such an address, else AF_UNSPEC; they need not be aligned. */
sa_family_t hm_addr_family(const void *addr, size_t len);
/* The family of a fi_info.addr_format; AF_UNSPEC where it leaves that open. */
sa_family_t hm_addr_format_family(uint32_t addr_format);
/* family AF_INET or AF_INET6; port in network order. */
union hm_addr hm_addr_loopback(sa_family_t family, in_port_t port);
/* The wildcard address of its family? */
bool hm_addr_is_any(const union hm_addr *addr);
in_port_t hm_addr_port(const union hm_addr *addr);
void hm_addr_set_port(union hm_addr *addr, in_port_t port);

/*
 * node: an IPv4 address in dots, an IPv6 address (with a scope, as in fe80::1%eth0, and in brackets or
 * not), "localhost" (unless numeric) or, without a service, an address as fi_av_straddr prints it; NULL
 * is the loopback address.  service: a port number; NULL is port 0.  Nothing is asked of a network.
 * -FI_EINVAL: malformed.  -FI_ENODATA: a name that would have to be looked up.  Either with one log
 * line naming call.
 */
int hm_addr_parse(const char *node, const char *service, bool numeric, const char *call,
		  struct hm_node *result);

#endif
