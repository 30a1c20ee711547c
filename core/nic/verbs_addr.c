/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket addresses and peer handles.  The handle of an IPv4 address is the address itself; IPv6 addresses
 * are kept in a table of the domain, from first sight until the domain closes, and the handle is an index.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_ep.h"

#define IPV4	 (UINT64_C(1) << 48) /* | address << 16 | port, in host order */
#define IPV6	 (UINT64_C(1) << 49) /* | index */
#define IPV6_MAX (1u << 24)
#define BUCKETS	 1024

struct address {
	struct in6_addr ip;
	uint32_t scope;
	in_port_t port; /* network order */
	uint32_t next;	/* of the same bucket, index + 1 */
};

/* Protected by the domain's lock. */
struct verbs_addresses {
	struct address *at; /* owned */
	uint32_t count, room;
	uint32_t bucket[BUCKETS]; /* index + 1 */
};

static uint32_t bucket_of(const struct sockaddr_in6 *in)
{
	uint32_t word[4];

	memcpy(word, &in->sin6_addr, sizeof(word));
	return ((word[0] ^ word[1] ^ word[2] ^ word[3]) * 2654435761u ^ in->sin6_port * 40503u) %
	       BUCKETS;
}

static bool same_address(const struct address *a, const struct sockaddr_in6 *in)
{
	return memcmp(&a->ip, &in->sin6_addr, sizeof(a->ip)) == 0 && a->port == in->sin6_port &&
	       a->scope == in->sin6_scope_id;
}

static int grow(struct verbs_addresses *table)
{
	uint32_t room = table->room ? table->room * 2 : 64;
	struct address *at;

	if (table->count < table->room)
		return 0;
	if (room > IPV6_MAX)
		return -FI_ENOMEM;
	at = realloc(table->at, room * sizeof(*at));
	if (!at)
		return -FI_ENOMEM;
	table->at = at;
	table->room = room;
	return 0;
}

/* Domain lock held. */
static int intern(struct verbs_addresses *table, const struct sockaddr_in6 *in, uint64_t *handle)
{
	uint32_t *bucket = &table->bucket[bucket_of(in)], i;

	for (i = *bucket; i; i = table->at[i - 1].next) {
		if (same_address(&table->at[i - 1], in)) {
			*handle = IPV6 | (i - 1);
			return 0;
		}
	}
	if (grow(table) != 0)
		return -FI_ENOMEM;
	i = table->count++;
	table->at[i] = (struct address){ .ip = in->sin6_addr,
					 .scope = in->sin6_scope_id,
					 .port = in->sin6_port,
					 .next = *bucket };
	*bucket = i + 1;
	*handle = IPV6 | i;
	return 0;
}

static int handle_ipv6(struct verbs_domain *domain, const struct sockaddr_in6 *in, uint64_t *handle)
{
	int ret = -FI_ENOMEM;

	pthread_mutex_lock(&domain->lock);
	if (!domain->addresses)
		domain->addresses = calloc(1, sizeof(*domain->addresses));
	if (domain->addresses)
		ret = intern(domain->addresses, in, handle);
	pthread_mutex_unlock(&domain->lock);
	if (ret != 0)
		HM_WARN(FI_LOG_AV, "no memory for another IPv6 address");
	return ret;
}

int verbs_addr_handle(struct verbs_domain *domain, const struct sockaddr *addr, uint64_t *handle)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (addr->sa_family == AF_INET) {
		memcpy(&in, addr, sizeof(in));
		*handle = IPV4 | (uint64_t)ntohl(in.sin_addr.s_addr) << 16 | ntohs(in.sin_port);
		return 0;
	}
	assert(addr->sa_family == AF_INET6);
	memcpy(&in6, addr, sizeof(in6));
	return handle_ipv6(domain, &in6, handle);
}

int verbs_addr_of(struct verbs_domain *domain, uint64_t handle, struct sockaddr_storage *addr,
		  socklen_t *len)
{
	int ret = -FI_EINVAL;

	memset(addr, 0, sizeof(*addr));
	if (handle & IPV4) {
		struct sockaddr_in in = { .sin_family = AF_INET,
					  .sin_port = htons((uint16_t)handle),
					  .sin_addr.s_addr = htonl((uint32_t)(handle >> 16)) };

		memcpy(addr, &in, sizeof(in));
		*len = sizeof(in);
		return 0;
	}
	pthread_mutex_lock(&domain->lock);
	if ((handle & IPV6) && domain->addresses && (uint32_t)handle < domain->addresses->count) {
		const struct address *a = &domain->addresses->at[(uint32_t)handle];
		struct sockaddr_in6 in = { .sin6_family = AF_INET6,
					   .sin6_port = a->port,
					   .sin6_addr = a->ip,
					   .sin6_scope_id = a->scope };

		memcpy(addr, &in, sizeof(in));
		*len = sizeof(in);
		ret = 0;
	}
	pthread_mutex_unlock(&domain->lock);
	return ret;
}

void verbs_addr_free(struct verbs_domain *domain)
{
	if (domain->addresses)
		free(domain->addresses->at);
	free(domain->addresses);
	domain->addresses = NULL;
}

int verbs_peer_resolve(struct nic_domain *domain, const void *addr, size_t *len, uint64_t *peer)
{
	struct sockaddr_storage sa;
	size_t need;
	in_port_t port;
	int ret;

	memset(&sa, 0, sizeof(sa));
	if (addr && *len >= sizeof(struct sockaddr_in))
		memcpy(&sa, addr, *len < sizeof(sa) ? *len : sizeof(sa));
	need = sa.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	if ((sa.ss_family != AF_INET && sa.ss_family != AF_INET6) || *len < need) {
		HM_WARN(FI_LOG_AV, "not an IPv4 or IPv6 socket address");
		return -FI_EINVAL;
	}
	port = sa.ss_family == AF_INET ? ((struct sockaddr_in *)&sa)->sin_port
				       : ((struct sockaddr_in6 *)&sa)->sin6_port;
	if (port == 0) {
		HM_WARN(FI_LOG_AV, "a socket address with port 0 names no endpoint");
		return -FI_EINVAL;
	}
	ret = verbs_addr_handle(verbs_domain_of(domain), (struct sockaddr *)&sa, peer);
	if (ret == 0)
		*len = need;
	return ret;
}

int verbs_peer_address(struct nic_domain *domain, uint64_t peer, void *addr, size_t *len)
{
	struct sockaddr_storage sa;
	socklen_t need = 0;
	size_t have = *len;
	int ret = verbs_addr_of(verbs_domain_of(domain), peer, &sa, &need);

	if (ret != 0)
		return ret;
	*len = need;
	if (have > need)
		have = need;
	if (have > 0)
		memcpy(addr, &sa, have);
	return have == need ? 0 : -FI_ETOOSMALL;
}
