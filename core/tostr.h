/* SPDX-License-Identifier: BSD-2-Clause */
/* Text for values and structures of the interface, beyond fi_tostr (rdma/fabric.h). */
#ifndef HM_TOSTR_H
#define HM_TOSTR_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes an address of an addr_format as text: fi_sockaddr_in://10.0.0.1:4791,
 * fi_sockaddr_in6://[fe80::1%2]:4791 (2: its scope, where it has one), a string for FI_ADDR_STR,
 * hexadecimal for any other. As with snprintf, the result is cut to len and terminated,
 * and the return value is the length of the whole text.
 */
size_t hm_straddr(char *buf, size_t len, uint32_t addr_format, const void *addr, size_t addrlen);

#endif
