/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses, and from node and service to one, without asking a network for anything. */
#include <arpa/inet.h>
#include <net/if.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "core/addr.h"
#include "core/base/log.h"

#define HOST_MAX 256

/* ---- of both families ---- */

size_t hm_addr_len(sa_family_t family)
{
	switch (family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

sa_family_t hm_addr_family(const void *addr, size_t len)
{
	sa_family_t family = AF_UNSPEC;

	if (len < sizeof(family))
		return AF_UNSPEC;
	memcpy(&family, addr, sizeof(family));
	if (!hm_addr_len(family) || len < hm_addr_len(family))
		return AF_UNSPEC;
	return family;
}

sa_family_t hm_addr_format_family(uint32_t addr_format)
{
	switch (addr_format) {
	case FI_SOCKADDR_IN:
		return AF_INET;
	case FI_SOCKADDR_IN6:
		return AF_INET6;
	default:
		return AF_UNSPEC;
	}
}

union hm_addr hm_addr_loopback(sa_family_t family, in_port_t port)
{
	union hm_addr addr;

	memset(&addr, 0, sizeof(addr));
	if (family == AF_INET6)
		addr.in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
						  .sin6_port = port,
						  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	else
		addr.in = (struct sockaddr_in){ .sin_family = AF_INET,
						.sin_port = port,
						.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return addr;
}

bool hm_addr_is_any(const union hm_addr *addr)
{
	if (addr->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
	return addr->any.sa_family == AF_INET && addr->in.sin_addr.s_addr == htonl(INADDR_ANY);
}

in_port_t hm_addr_port(const union hm_addr *addr)
{
	return addr->any.sa_family == AF_INET6 ? addr->in6.sin6_port : addr->in.sin_port;
}

void hm_addr_set_port(union hm_addr *addr, in_port_t port)
{
	if (addr->any.sa_family == AF_INET6)
		addr->in6.sin6_port = port;
	else
		addr->in.sin_port = port;
}

/* ---- out of text ---- */

/* A number up to most, in decimal digits alone. */
static bool parse_number(const char *text, uint32_t most, uint32_t *number)
{
	uint64_t value = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = 10 * value + (uint64_t)(*text - '0');
		if (value > most)
			return false;
	}
	*number = (uint32_t)value;
	return true;
}

/* An interface's name or number. */
static bool parse_scope(const char *text, uint32_t *scope)
{
	if (parse_number(text, UINT32_MAX, scope))
		return true;
	*scope = if_nametoindex(text);
	return *scope != 0;
}

/* With a scope or without, and in brackets or not: text is taken apart. */
static bool parse_in6(char *text, struct sockaddr_in6 *addr)
{
	size_t len = strlen(text);
	char *scope;

	if (*text == '[') {
		if (text[len - 1] != ']')
			return false;
		text[len - 1] = '\0';
		text++;
	}
	scope = strchr(text, '%');
	if (scope)
		*scope++ = '\0';
	*addr = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
	return inet_pton(AF_INET6, text, &addr->sin6_addr) == 1 &&
	       (!scope || parse_scope(scope, &addr->sin6_scope_id));
}

static bool parse_host(const char *host, bool numeric, struct hm_node *node)
{
	char text[HOST_MAX];

	node->named = host != NULL;
	node->loopback = !host || (!numeric && strcmp(host, "localhost") == 0);
	if (node->loopback) {
		node->addr = hm_addr_loopback(AF_INET, 0);
		return true;
	}
	memset(&node->addr, 0, sizeof(node->addr));
	node->addr.in.sin_family = AF_INET;
	if (inet_pton(AF_INET, host, &node->addr.in.sin_addr) == 1)
		return true;
	if (strlen(host) >= sizeof(text))
		return false;
	memcpy(text, host, strlen(host) + 1);
	return parse_in6(text, &node->addr.in6);
}

/* Text behind the scheme of an address in the form of fi_av_straddr, or NULL. */
static const char *after_scheme(const char *node)
{
	static const char *const schemes[] = { "fi_sockaddr_in://", "fi_sockaddr_in6://",
					       "fi_sockaddr://" };

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (strncmp(node, schemes[i], strlen(schemes[i])) == 0)
			return node + strlen(schemes[i]);
	}
	return NULL;
}

/* Takes "host:port" apart; a colon inside of brackets is the host's.  Either may be missing. */
static void split(char *text, const char **host, const char **port)
{
	char *bracket = strrchr(text, ']'), *colon = strrchr(bracket ? bracket : text, ':');

	if (colon)
		*colon = '\0';
	*host = *text ? text : NULL;
	*port = colon ? colon + 1 : NULL;
}

int hm_addr_parse(const char *node, const char *service, bool numeric, const char *call,
		  struct hm_node *result)
{
	const char *host = node, *port = service;
	char text[HOST_MAX];
	struct hm_node parsed;
	uint32_t number = 0;

	if (node && strstr(node, "://")) {
		const char *rest = after_scheme(node);

		if (!rest || service || strlen(rest) >= sizeof(text)) {
			HM_WARN(FI_LOG_CORE, "%s: node \"%s\" %s", call, node,
				service ? "is a whole address, so service must be NULL"
					: "is not of the form fi_sockaddr_in://host:port or "
					  "fi_sockaddr_in6://[host]:port");
			return -FI_EINVAL;
		}
		memcpy(text, rest, strlen(rest) + 1);
		split(text, &host, &port);
	}
	if (port && !parse_number(port, UINT16_MAX, &number)) {
		HM_WARN(FI_LOG_CORE, "%s: service \"%s\" is not a port number from 0 to 65535",
			call, port);
		return -FI_EINVAL;
	}
	if (!parse_host(host, numeric, &parsed)) {
		HM_WARN(FI_LOG_CORE, "%s: node \"%s\" is %s", call, host,
			numeric ? "no IP address in digits, which FI_NUMERICHOST promises"
				: "neither an IP address nor localhost; names are not looked up");
		return -FI_ENODATA;
	}
	hm_addr_set_port(&parsed.addr, htons((uint16_t)number));
	*result = parsed;
	return 0;
}
