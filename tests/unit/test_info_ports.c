/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A NIC whose device has two ports of the same name, one for each family of addresses, and mode bits
 * that it keeps where they are offered: what fi_getinfo, domains and address vectors make of that, and
 * what is said about names that no port has.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/addr.h"
#include "core/core.h"
#include "core/tostr.h"
#include "tests/unit/fake_nic.h"
#include "tests/unit/warnings.h"

#define API  FI_VERSION(2, 7)
#define KEPT (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_HMEM)

/* ---- the NIC ---- */

static int twin_ports(const struct nic_port **ports, size_t *count);

static struct nic_ops twin_ops = FAKE_OPS("twin", twin_ports);

static struct nic_port twin_list[] = {
	FAKE_PORT(&twin_ops, "twins", "t0", FI_MR_PROV_KEY, NULL),
	FAKE_PORT(&twin_ops, "twins", "t0", FI_MR_PROV_KEY, NULL),
	FAKE_PORT(&twin_ops, "twins", "t1", FI_MR_PROV_KEY, NULL),
};

static int twin_ports(const struct nic_port **ports, size_t *count)
{
	*ports = twin_list;
	*count = count_of(twin_list);
	return 0;
}

/* Each port is at ::1:2 or 10.0.0.5, and reaches that and loopback but for t1. */
static int twin_address(const struct nic_port *port, void *addr, size_t *len)
{
	union hm_addr own = hm_addr_loopback(hm_addr_format_family(port->addr_format), 0);

	if (own.any.sa_family == AF_INET)
		own.in.sin_addr.s_addr = htonl(0x0a000005);
	else
		own.in6.sin6_addr.s6_addr[0] = 0xfd;
	*len = hm_addr_len(own.any.sa_family);
	memcpy(addr, &own, *len);
	return 0;
}

static int twin_reaches(const struct nic_port *port, const void *addr, size_t len)
{
	union hm_addr own;
	size_t own_len = sizeof(own);

	/* core leaves out what is of the other family */
	assert_int_equal(hm_addr_family(addr, len), hm_addr_format_family(port->addr_format));
	twin_address(port, &own, &own_len);
	hm_addr_set_port(&own, hm_addr_port(addr));
	if (memcmp(&own, addr, own_len) == 0)
		return 0;
	own = hm_addr_loopback(own.any.sa_family, hm_addr_port(addr));
	return port != &twin_list[2] && memcmp(&own, addr, own_len) == 0 ? 0 : -FI_EHOSTUNREACH;
}

static int twin_missing(const char *name)
{
	if (strcmp(name, "locked") == 0) {
		HM_WARN(FI_LOG_CORE, "no permission");
		return -FI_EACCES;
	}
	if (strcmp(name, "down") == 0) {
		HM_WARN(FI_LOG_CORE, "port is down");
		return -FI_ENODEV;
	}
	return -FI_ENODATA;
}

static int twin_describe(const struct nic_port *port, struct hmreg_device *device)
{
	device->name = port->domain_name;
	device->mr_mode_kept = port->mr_mode_kept;
	device->max_rd_atomic = 16;
	return 0;
}

static struct hmreg_verbs_adopt adopted;
static unsigned int opened;

static int twin_open(struct nic_domain *domain)
{
	opened++;
	memset(&adopted, 0, sizeof(adopted));
	if (domain->adopt)
		adopted = *domain->adopt;
	return 0;
}

static struct sockaddr_in6 resolved[8];
static size_t resolved_count;

static int twin_resolve(struct nic_domain *domain, const void *addr, size_t *len, uint64_t *peer)
{
	(void)domain;
	assert_int_equal(*len, sizeof(resolved[0]));
	memcpy(&resolved[resolved_count], addr, *len);
	*peer = ++resolved_count;
	return 0;
}

static char warning_text[256];

static void keep_warning(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
			 int line, const char *text, void *arg)
{
	count_warning(level, subsys, func, line, text, arg);
	if (level == FI_LOG_WARN)
		snprintf(warning_text, sizeof(warning_text), "%s", text);
}

static int set_up(void **state)
{
	(void)state;
	twin_ops.port_address = twin_address;
	twin_ops.port_reaches = twin_reaches;
	twin_ops.port_missing = twin_missing;
	twin_ops.port_describe = twin_describe;
	twin_ops.domain_open = twin_open;
	twin_ops.peer_resolve = twin_resolve;
	for (size_t i = 0; i < count_of(twin_list); i++)
		twin_list[i].mr_mode_kept = KEPT;
	twin_list[1].addr_format = FI_SOCKADDR_IN6;
	twin_list[1].alternate = true;
	setenv("HMREG_SW_ENABLE", "0", 1);
	setenv("HMREG_VERBS_ENABLE", "0", 1);
	nic_register(&twin_ops);
	hm_log_set_sink(keep_warning, NULL);
	return 0;
}

static struct fi_info *hints_of(uint32_t addr_format)
{
	struct fi_info *hints = fi_allocinfo();

	assert_non_null(hints);
	hints->addr_format = addr_format;
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
	return hints;
}

static void take(const char **strings, const char *value)
{
	free((void *)(uintptr_t)*strings);
	*strings = strdup(value);
}
#define NAME(member, value) take((const char **)&(member), value)

/* ---- mode bits that are kept ---- */

static const struct {
	uint32_t version;
	uint64_t mode;
	int offered, answer, domain;
} kept[] = {
	{ API, 0, FI_MR_PROV_KEY, FI_MR_PROV_KEY, FI_MR_PROV_KEY },
	{ API, 0, FI_MR_PROV_KEY | FI_MR_LOCAL, FI_MR_PROV_KEY | FI_MR_LOCAL,
	  FI_MR_PROV_KEY | FI_MR_LOCAL },
	{ API, 0, FI_MR_PROV_KEY | KEPT | FI_MR_RAW | FI_MR_ENDPOINT, FI_MR_PROV_KEY | KEPT,
	  FI_MR_PROV_KEY | KEPT },
	{ API, 0, FI_MR_BASIC, FI_MR_BASIC, FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED },
	{ FI_VERSION(1, 4), 0, FI_MR_BASIC, FI_MR_BASIC,
	  FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED },
	{ FI_VERSION(1, 4), FI_LOCAL_MR, FI_MR_BASIC, FI_MR_BASIC,
	  FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_LOCAL },
};

static void mode_01_bits_kept_where_offered(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(kept); i++) {
		struct fi_info *hints = hints_of(0), *info;
		struct fid_fabric *fabric;
		struct fid_domain *domain;

		hints->mode = kept[i].mode;
		hints->domain_attr->mr_mode = kept[i].offered;
		assert_int_equal(fi_getinfo(kept[i].version, NULL, NULL, 0, hints, &info), 0);
		assert_int_equal(info->domain_attr->mr_mode, kept[i].answer);
		assert_int_equal(info->mode, kept[i].mode);
		assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
		assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
		assert_int_equal(hm_domain_of(&domain->fid)->nic->mr_mode, kept[i].domain);
		assert_int_equal(fi_close(&domain->fid), 0);
		/* what is offered to the domain beside that is not taken */
		if (kept[i].answer != FI_MR_BASIC) {
			info->domain_attr->mr_mode |= FI_MR_ENDPOINT;
			assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
			assert_int_equal(hm_domain_of(&domain->fid)->nic->mr_mode, kept[i].domain);
			assert_int_equal(fi_close(&domain->fid), 0);
		}
		assert_int_equal(fi_close(&fabric->fid), 0);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* ---- two families ---- */

static const struct {
	uint32_t format;
	const char *node, *service;
	uint64_t flags;
	const char *listed; /* 4: t0 over IPv4, 6: over IPv6, n: t1 */
	const char *src, *dest;
} families[] = {
	{ 0, NULL, NULL, 0, "4n", "fi_sockaddr_in://10.0.0.5:0", NULL },
	{ FI_SOCKADDR, NULL, NULL, 0, "4n", "fi_sockaddr_in://10.0.0.5:0", NULL },
	{ FI_SOCKADDR_IN, NULL, NULL, 0, "4n", "fi_sockaddr_in://10.0.0.5:0", NULL },
	{ FI_SOCKADDR_IN6, NULL, NULL, 0, "6", "fi_sockaddr_in6://[fd00::1]:0", NULL },
	{ FI_SOCKADDR_IB, NULL, NULL, 0, "", NULL, NULL },
	{ 0, "::1", "5", 0, "6", "fi_sockaddr_in6://[fd00::1]:0", "fi_sockaddr_in6://[::1]:5" },
	{ FI_SOCKADDR, "::1", "5", 0, "6", NULL, "fi_sockaddr_in6://[::1]:5" },
	{ FI_SOCKADDR_IP, "::1", "5", 0, "6", NULL, "fi_sockaddr_in6://[::1]:5" },
	{ FI_SOCKADDR_IN, "::1", "5", 0, "", NULL, NULL },
	{ 0, "[fd00::1]", "5", FI_NUMERICHOST, "6", NULL, "fi_sockaddr_in6://[fd00::1]:5" },
	{ 0, "::1", "5", FI_SOURCE, "6", "fi_sockaddr_in6://[::1]:5", NULL },
	{ 0, "::", "5", FI_SOURCE, "6", "fi_sockaddr_in6://[fd00::1]:5", NULL },
	{ 0, "0.0.0.0", "5", FI_SOURCE, "4n", "fi_sockaddr_in://10.0.0.5:5", NULL },
	{ 0, "fi_sockaddr_in6://[::1]:70", NULL, 0, "6", NULL, "fi_sockaddr_in6://[::1]:70" },
	{ 0, "fi_sockaddr://[::1]:70", NULL, 0, "6", NULL, "fi_sockaddr_in6://[::1]:70" },
	{ 0, "fi_sockaddr_in6://[::1]", NULL, 0, "6", NULL, "fi_sockaddr_in6://[::1]:0" },
	/* of either family: no host, or localhost.  t1 has no loopback, but a host of its own */
	{ 0, NULL, "6", 0, "4", NULL, "fi_sockaddr_in://127.0.0.1:6" },
	{ FI_SOCKADDR_IN6, NULL, "6", 0, "6", NULL, "fi_sockaddr_in6://[::1]:6" },
	{ FI_SOCKADDR_IN6, "localhost", "6", 0, "6", NULL, "fi_sockaddr_in6://[::1]:6" },
	{ FI_SOCKADDR_IN6, NULL, "6", FI_SOURCE, "6", "fi_sockaddr_in6://[::1]:6", NULL },
	{ 0, NULL, "6", FI_SOURCE, "4n", "fi_sockaddr_in://127.0.0.1:6", NULL },
	{ 0, "localhost", "6", FI_SOURCE, "4", "fi_sockaddr_in://127.0.0.1:6", NULL },
	{ 0, "2001:db8::1", "6", 0, "", NULL, NULL },
};

static void assert_address(const char *expected, const void *addr, size_t len)
{
	char text[64];
	size_t room = hm_addr_len(hm_addr_family(addr, len));

	assert_int_equal(len, room);
	hm_straddr(text, sizeof(text), FI_SOCKADDR, addr, len);
	assert_string_equal(text, expected);
}

static void api_03_ports_of_both_families(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(families); i++) {
		struct fi_info *hints = hints_of(families[i].format), *info = NULL;
		char listed[8] = "";
		size_t n = 0;

		assert_int_equal(fi_getinfo(API, families[i].node, families[i].service,
					    families[i].flags, hints, &info),
				 *families[i].listed ? 0 : -FI_ENODATA);
		for (const struct fi_info *at = info; at; at = at->next) {
			const struct nic_port *port = hm_info_port(at);

			assert_int_equal(at->addr_format, port->addr_format);
			listed[n++] = "46n"[port - twin_list];
		}
		assert_string_equal(listed, families[i].listed);
		if (families[i].src)
			assert_address(families[i].src, info->src_addr, info->src_addrlen);
		if (families[i].dest)
			assert_address(families[i].dest, info->dest_addr, info->dest_addrlen);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

static struct fid_domain *open_domain(uint32_t addr_format, struct fi_info **info,
				      struct fid_fabric **fabric)
{
	struct fi_info *hints = hints_of(addr_format);
	struct fid_domain *domain;

	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, info), 0);
	assert_int_equal(fi_fabric((*info)->fabric_attr, fabric, NULL), 0);
	assert_int_equal(fi_domain(*fabric, *info, &domain, NULL), 0);
	fi_freeinfo(hints);
	return domain;
}

static void close_domain(struct fid_domain *domain, struct fi_info *info, struct fid_fabric *fabric)
{
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
}

/* An open domain over IPv6 in hints leads to its port, although none has asked for the format. */
static void open_domain_selects_its_family(void **state)
{
	struct fi_info *info, *hints = hints_of(0), *found;
	struct fid_fabric *fabric;
	struct fid_domain *domain = open_domain(FI_SOCKADDR_IN6, &info, &fabric);

	(void)state;
	hints->domain_attr->domain = domain;
	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &found), 0);
	assert_int_equal(found->addr_format, FI_SOCKADDR_IN6);
	assert_null(found->next);
	fi_freeinfo(found);
	fi_freeinfo(hints);
	close_domain(domain, info, fabric);
}

static void addresses_of_ipv6_in_a_vector(void **state)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	struct sockaddr_in6 two[2] = { { .sin6_family = AF_INET6, .sin6_port = 1 },
				       { .sin6_family = AF_INET6, .sin6_port = 2 } };
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain = open_domain(FI_SOCKADDR_IN6, &info, &fabric);
	char text[64];
	size_t len = sizeof(text);
	struct fid_av *av;

	(void)state;
	resolved_count = 0;
	assert_int_equal(fi_av_open(domain, &attr, &av, NULL), 0);
	assert_int_equal(fi_av_insert(av, two, 2, NULL, 0, NULL), 2);
	assert_memory_equal(resolved, two, sizeof(two));
	assert_int_equal(fi_av_insertsym(av, "fe80::ffff:7", 2, "80", 2, NULL, 0, NULL), 4);
	assert_int_equal(resolved[3].sin6_port, htons(81));
	assert_non_null(fi_av_straddr(av, &resolved[5], text, &len));
	assert_string_equal(text, "fi_sockaddr_in6://[fe80::ffff:8]:81");
	assert_int_equal(len, strlen(text) + 1);
	assert_int_equal(fi_av_insertsvc(av, text, NULL, NULL, 0, NULL), 1);
	assert_memory_equal(&resolved[6], &resolved[5], sizeof(resolved[0]));
	assert_int_equal(fi_av_insertsvc(av, "localhost", "9", NULL, 0, NULL), 1);
	assert_true(IN6_IS_ADDR_LOOPBACK(&resolved[7].sin6_addr));
	assert_refused(fi_av_insertsvc(av, "127.0.0.1", "9", NULL, 0, NULL), -FI_EINVAL);
	assert_refused(fi_av_insertsym(av, "::ffff:ffff", 2, "80", 1, NULL, 0, NULL), -FI_EINVAL);
	assert_int_equal(fi_close(&av->fid), 0);
	close_domain(domain, info, fabric);
}

static const struct {
	const char *node, *service;
	int ret;
	const char *host;
	uint32_t scope;
	uint16_t port;
} texts[] = {
	{ "fe80::1%7", "1", 0, "fe80::1", 7, 1 },
	{ "[fe80::1%7]", "1", 0, "fe80::1", 7, 1 },
	{ "fi_sockaddr_in6://[fe80::1%7]:1", NULL, 0, "fe80::1", 7, 1 },
	{ "fe80::1%lo", NULL, 0, "fe80::1", 0, 0 }, /* scope is that of lo */
	{ "::ffff:1.2.3.4", "2", 0, "::ffff:1.2.3.4", 0, 2 },
	{ "fe80::1%nosuchthing", "1", -FI_ENODATA, NULL, 0, 0 },
	{ "fe80::1%", "1", -FI_ENODATA, NULL, 0, 0 },
	{ "[::1", "1", -FI_ENODATA, NULL, 0, 0 },
	{ "[", "1", -FI_ENODATA, NULL, 0, 0 },
	{ "[]", "1", -FI_ENODATA, NULL, 0, 0 },
	{ "::1]", "1", -FI_ENODATA, NULL, 0, 0 },
	{ ":::", "1", -FI_ENODATA, NULL, 0, 0 },
	{ "[::1]:5", "1", -FI_ENODATA, NULL, 0, 0 },
	{ "fi_sockaddr_in6://[::1]:", NULL, -FI_EINVAL, NULL, 0, 0 },
	{ "fi_sockaddr_in6://[::1]:x", NULL, -FI_EINVAL, NULL, 0, 0 },
	{ "fi_sockaddr_in6://[::1]:65536", NULL, -FI_EINVAL, NULL, 0, 0 },
	{ "fi_sockaddr_in6://[::1]:1", "1", -FI_EINVAL, NULL, 0, 0 },
	{ "fi_sockaddr_ib://[::1]:1", NULL, -FI_EINVAL, NULL, 0, 0 },
};

static void ipv6_addresses_in_text(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(texts); i++) {
		struct hm_node node = { .named = true };
		uint32_t scope = texts[i].scope;
		struct in6_addr host;

		warning_count = 0;
		assert_int_equal(hm_addr_parse(texts[i].node, texts[i].service, false, "test",
					       &node),
				 texts[i].ret);
		assert_int_equal(warning_count, texts[i].ret != 0);
		if (texts[i].ret)
			continue;
		if (strstr(texts[i].node, "%lo"))
			scope = if_nametoindex("lo");
		assert_int_equal(inet_pton(AF_INET6, texts[i].host, &host), 1);
		assert_int_equal(node.addr.any.sa_family, AF_INET6);
		assert_memory_equal(&node.addr.in6.sin6_addr, &host, sizeof(host));
		assert_int_equal(node.addr.in6.sin6_scope_id, scope);
		assert_int_equal(ntohs(hm_addr_port(&node.addr)), texts[i].port);
		assert_true(node.named);
		assert_false(node.loopback);
	}
}

/* ---- names that no port has ---- */

static void api_03_names_that_nothing_has(void **state)
{
	static const struct {
		const char *domain, *fabric;
		int ret;
		const char *line;
	} names[] = {
		{ "locked", NULL, -FI_EACCES, "no permission" },
		{ "down", "no such fabric", -FI_ENODEV, "port is down" },
		{ "nowhere", NULL, -FI_ENODATA,
		  "fi_getinfo: no device of the name \"nowhere\"; there are: t0, t1" },
		{ NULL, "nowhere", -FI_ENODATA,
		  "fi_getinfo: no fabric of the name \"nowhere\"; there are: twins" },
		{ "t0", "twins", -FI_ENODATA, NULL }, /* all the names are right */
	};

	(void)state;
	for (size_t i = 0; i < count_of(names); i++) {
		struct fi_info *hints = hints_of(0), untouched, *info = &untouched;

		if (names[i].domain)
			NAME(hints->domain_attr->name, names[i].domain);
		if (names[i].fabric)
			NAME(hints->fabric_attr->name, names[i].fabric);
		hints->caps = FI_TAGGED; /* which none of them offers */
		warning_count = 0;
		assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &info), names[i].ret);
		assert_null(info);
		assert_int_equal(warning_count, names[i].line != NULL);
		if (names[i].line)
			assert_string_equal(warning_text, names[i].line);
		fi_freeinfo(hints);
	}
}

/* ---- operations of a fabric and a domain ---- */

static void devices_are_described(void **state)
{
	struct hmreg_device device = { .size = sizeof(device) };
	struct fid_fabric *fabric;
	struct fi_info *info;
	struct fid_domain *domain = open_domain(0, &info, &fabric);
	struct hmreg_fabric_ops *ops;
	struct hmreg_hmem_ops *hmem;
	char to[2] = "";
	void *none;

	(void)state;
	assert_int_equal(fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->size, sizeof(*ops));
	assert_int_equal(ops->device(&fabric->fid, info, &device), 0);
	assert_int_equal(device.size, sizeof(device));
	assert_string_equal(device.name, "t0");
	assert_int_equal(device.mr_mode_kept, KEPT);
	assert_int_equal(device.max_rd_atomic, 16);
	/* an older program's struct ends earlier */
	device.size = offsetof(struct hmreg_device, max_rd_atomic);
	device.max_rd_atomic = 5;
	device.name = NULL;
	assert_int_equal(ops->device(&fabric->fid, info, &device), 0);
	assert_string_equal(device.name, "t0");
	assert_int_equal(device.max_rd_atomic, 5);
	assert_refused(ops->device(&domain->fid, info, &device), -FI_EINVAL);
	assert_refused(ops->device(NULL, info, &device), -FI_EINVAL);
	assert_refused(ops->device(&fabric->fid, NULL, &device), -FI_EINVAL);
	assert_refused(ops->device(&fabric->fid, info, NULL), -FI_EINVAL);
	device.size = 0;
	assert_refused(ops->device(&fabric->fid, info, &device), -FI_EINVAL);
	device.size = sizeof(device);
	NAME(info->domain_attr->name, "t7");
	assert_refused(ops->device(&fabric->fid, info, &device), -FI_ENODEV);
	assert_int_equal(fi_open_ops(&fabric->fid, "others", 0, &none, NULL), -FI_ENOSYS);
	assert_refused(fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 1, &none, NULL), -FI_EBADFLAGS);
	assert_refused(fi_open_ops(&fabric->fid, NULL, 0, &none, NULL), -FI_EINVAL);
	assert_refused(fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, NULL, NULL), -FI_EINVAL);
	/* nor do those about accelerator memory take what is no fabric */
	assert_int_equal(fi_open_ops(&fabric->fid, HMREG_HMEM_OPS, 0, (void **)&hmem, NULL), 0);
	assert_refused(hmem->copy(&domain->fid, to, "x", 2), -FI_EINVAL);
	assert_refused(hmem->copy(NULL, to, "x", 2), -FI_EINVAL);
	assert_refused(hmem->exports(&domain->fid, NULL, NULL, NULL), -FI_EINVAL);
	assert_refused(hmem->exports(NULL, NULL, NULL, NULL), -FI_EINVAL);
	assert_int_equal(hmem->exports(&fabric->fid, NULL, NULL, NULL), 0);
	assert_string_equal(to, "");
	close_domain(domain, info, fabric);
}

static void domains_over_verbs_objects(void **state)
{
	struct hmreg_verbs_adopt adopt = { .size = sizeof(adopt),
					   .context = (struct ibv_context *)&adopt,
					   .pd = (struct ibv_pd *)&adopted };
	struct hmreg_verbs_domain verbs = { .size = sizeof(verbs) };
	struct fid_fabric *fabric;
	struct fi_info *info;
	struct fid_domain *domain = open_domain(0, &info, &fabric), *over;
	struct hmreg_fabric_ops *ops;
	struct hmreg_domain_ops *domain_ops;

	(void)state;
	assert_null(adopted.pd);
	assert_int_equal(fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->domain_over(fabric, info, &adopt, &over, &adopt), 0);
	assert_ptr_equal(adopted.context, adopt.context);
	assert_ptr_equal(adopted.pd, adopt.pd);
	assert_ptr_equal(over->fid.context, &adopt);
	assert_null(hm_domain_of(&over->fid)->nic->adopt);
	/* this NIC has no verbs objects to show */
	assert_int_equal(fi_open_ops(&over->fid, HMREG_DOMAIN_OPS, 0, (void **)&domain_ops, NULL),
			 0);
	assert_int_equal(domain_ops->verbs(&over->fid, &verbs), -FI_ENOSYS);
	assert_refused(domain_ops->verbs(&fabric->fid, &verbs), -FI_EINVAL);
	assert_refused(domain_ops->verbs(&over->fid, NULL), -FI_EINVAL);
	assert_int_equal(fi_close(&over->fid), 0);
	/* an older program's struct has a context only */
	adopt.size = offsetof(struct hmreg_verbs_adopt, pd);
	assert_int_equal(ops->domain_over(fabric, info, &adopt, &over, NULL), 0);
	assert_null(adopted.pd);
	assert_ptr_equal(adopted.context, adopt.context);
	assert_int_equal(fi_close(&over->fid), 0);
	opened = 0;
	adopt.context = NULL;
	assert_refused(ops->domain_over(fabric, info, &adopt, &over, NULL), -FI_EINVAL);
	adopt.size = 0;
	assert_refused(ops->domain_over(fabric, info, &adopt, &over, NULL), -FI_EINVAL);
	assert_refused(ops->domain_over(fabric, info, NULL, &over, NULL), -FI_EINVAL);
	adopt.size = sizeof(adopt);
	adopt.context = (struct ibv_context *)&adopt;
	assert_refused(ops->domain_over(NULL, info, &adopt, &over, NULL), -FI_EINVAL);
	assert_refused(ops->domain_over(fabric, NULL, &adopt, &over, NULL), -FI_EINVAL);
	assert_refused(ops->domain_over(fabric, info, &adopt, NULL, NULL), -FI_EINVAL);
	assert_int_equal(opened, 0);
	close_domain(domain, info, fabric);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mode_01_bits_kept_where_offered),
		cmocka_unit_test(api_03_ports_of_both_families),
		cmocka_unit_test(open_domain_selects_its_family),
		cmocka_unit_test(addresses_of_ipv6_in_a_vector),
		cmocka_unit_test(ipv6_addresses_in_text),
		cmocka_unit_test(api_03_names_that_nothing_has),
		cmocka_unit_test(devices_are_described),
		cmocka_unit_test(domains_over_verbs_objects),
	};

	return cmocka_run_group_tests(tests, set_up, warnings_stop);
}
