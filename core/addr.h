/* SPDX-License-Identifier: BSD-2-Clause */
/* From node and service, as fi_getinfo(3) and fi_av(3) take them, to a socket address. */
#ifndef HM_ADDR_H
#define HM_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * node: an IPv4 address in dots, "localhost" (unless numeric) or, without a service, an address as
 * fi_av_straddr prints it; NULL is the loopback address.  service: a port number; NULL is port 0.
 * Nothing is asked of a network.  -FI_EINVAL: malformed.  -FI_ENODATA: a name that would have to be
 * looked up.  Either with one log line naming call.
 */
int hm_addr_parse(const char *node, const char *service, bool numeric, const char *call,
		  struct sockaddr_in *addr);

#endif
