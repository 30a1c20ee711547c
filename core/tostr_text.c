/* SPDX-License-Identifier: BSD-2-Clause */
/* The text under construction, and addresses in it. */
#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/tostr.h"
#include "core/tostr_priv.h"

void hm_text_init(struct hm_text *text, char *buf, size_t size)
{
	text->buf = buf;
	text->size = buf ? size : 0;
	text->need = 0;
	if (text->size)
		buf[0] = '\0';
}

void hm_text_add(struct hm_text *text, const char *fmt, ...)
{
	size_t room = text->need < text->size ? text->size - text->need : 0;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(room ? text->buf + text->need : NULL, room, fmt, args);
	va_end(args);
	if (n > 0)
		text->need += (size_t)n;
}

static void add_hex(struct hm_text *text, const void *data, size_t len)
{
	const unsigned char *byte = data;

	for (size_t i = 0; i < len; i++)
		hm_text_add(text, "%02x", byte[i]);
}

/* False when the bytes are too few for such an address. They need not be aligned. */
static bool add_inet(struct hm_text *text, const void *addr, size_t addrlen)
{
	char host[INET_ADDRSTRLEN];
	struct sockaddr_in in;

	if (addrlen < sizeof(in))
		return false;
	memcpy(&in, addr, sizeof(in));
	inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
	hm_text_add(text, "fi_sockaddr_in://%s:%u", host, ntohs(in.sin_port));
	return true;
}

static bool add_inet6(struct hm_text *text, const void *addr, size_t addrlen)
{
	char host[INET6_ADDRSTRLEN];
	struct sockaddr_in6 in6;

	if (addrlen < sizeof(in6))
		return false;
	memcpy(&in6, addr, sizeof(in6));
	inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host));
	hm_text_add(text, "fi_sockaddr_in6://[%s", host);
	if (in6.sin6_scope_id)
		hm_text_add(text, "%%%u", in6.sin6_scope_id);
	hm_text_add(text, "]:%u", ntohs(in6.sin6_port));
	return true;
}

/* The formats that leave the kind of address to the address itself. */
static uint32_t actual_format(uint32_t addr_format, const void *addr, size_t addrlen)
{
	sa_family_t family;

	if ((addr_format != FI_SOCKADDR && addr_format != FI_SOCKADDR_IP) ||
	    addrlen < sizeof(family))
		return addr_format;
	memcpy(&family, addr, sizeof(family));
	if (family == AF_INET)
		return FI_SOCKADDR_IN;
	if (family == AF_INET6)
		return FI_SOCKADDR_IN6;
	return addr_format;
}

void hm_text_addr(struct hm_text *text, uint32_t addr_format, const void *addr, size_t addrlen)
{
	const char *name;

	if (!addr) {
		hm_text_add(text, "(null)");
		return;
	}
	addr_format = actual_format(addr_format, addr, addrlen);
	if (addr_format == FI_ADDR_STR) {
		hm_text_add(text, "%.*s", (int)strnlen(addr, addrlen), (const char *)addr);
		return;
	}
	if ((addr_format == FI_SOCKADDR_IN && add_inet(text, addr, addrlen)) ||
	    (addr_format == FI_SOCKADDR_IN6 && add_inet6(text, addr, addrlen)))
		return;
	name = hm_name_of(&hm_names_addr_format, addr_format);
	for (const char *c = name ? name : "fi_addr_unknown"; *c; c++)
		hm_text_add(text, "%c", tolower((unsigned char)*c));
	hm_text_add(text, "://");
	add_hex(text, addr, addrlen);
}

size_t hm_straddr(char *buf, size_t len, uint32_t addr_format, const void *addr, size_t addrlen)
{
	struct hm_text text;

	hm_text_init(&text, buf, len);
	hm_text_addr(&text, addr_format, addr, addrlen);
	return text.need;
}
