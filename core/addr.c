/* SPDX-License-Identifier: BSD-2-Clause */
/* From node and service to a socket address, without asking a network for anything. */
#include <arpa/inet.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/addr.h"
#include "core/base/log.h"

#define HOST_MAX 256

static bool parse_port(const char *text, in_port_t *port)
{
	unsigned value = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return false;
		value = 10 * value + (unsigned)(*text - '0');
		if (value > UINT16_MAX)
			return false;
	}
	*port = htons((uint16_t)value);
	return true;
}

static bool parse_host(const char *text, bool numeric, struct in_addr *host)
{
	if (!numeric && strcmp(text, "localhost") == 0) {
		host->s_addr = htonl(INADDR_LOOPBACK);
		return true;
	}
	return inet_pton(AF_INET, text, host) == 1;
}

/* Text behind the scheme of an address in the form of fi_av_straddr, or NULL. */
static const char *after_scheme(const char *node)
{
	static const char *const schemes[] = { "fi_sockaddr_in://", "fi_sockaddr://" };

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (strncmp(node, schemes[i], strlen(schemes[i])) == 0)
			return node + strlen(schemes[i]);
	}
	return NULL;
}

int hm_addr_parse(const char *node, const char *service, bool numeric, const char *call,
		  struct sockaddr_in *addr)
{
	struct sockaddr_in result = { .sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const char *host = node, *port = service;
	char text[HOST_MAX];

	if (node && strstr(node, "://")) {
		const char *rest = after_scheme(node), *colon;

		if (!rest || service || strlen(rest) >= sizeof(text)) {
			HM_WARN(FI_LOG_CORE, "%s: node \"%s\" %s", call, node,
				service ? "is a whole address, so service must be NULL"
					: "is not of the form fi_sockaddr_in://host:port");
			return -FI_EINVAL;
		}
		colon = strrchr(rest, ':');
		memcpy(text, rest, strlen(rest) + 1);
		if (colon)
			text[colon - rest] = '\0';
		host = *text ? text : NULL;
		port = colon ? colon + 1 : NULL;
	}
	if (port && !parse_port(port, &result.sin_port)) {
		HM_WARN(FI_LOG_CORE, "%s: service \"%s\" is not a port number from 0 to 65535",
			call, port);
		return -FI_EINVAL;
	}
	if (host && !parse_host(host, numeric, &result.sin_addr)) {
		HM_WARN(FI_LOG_CORE, "%s: node \"%s\" is %s", call, host,
			numeric ? "no IPv4 address in dots, which FI_NUMERICHOST promises"
				: "neither an IPv4 address nor localhost; names are not looked up");
		return -FI_ENODATA;
	}
	*addr = result;
	return 0;
}
