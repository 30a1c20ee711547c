/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two NICs for the tests of fi_getinfo: "first" has three ports on fabric "fake", "second" one on
 * fabric "other" and none of the optional operations. Include after <cmocka.h>.
 */
#ifndef HM_TEST_INFO_NICS_H
#define HM_TEST_INFO_NICS_H

#include <stdlib.h>

#include "core/core.h"
#include "tests/unit/fake_nic.h"

#define API    FI_VERSION(2, 7)
#define BASICS (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* ---- the NICs ---- */

static inline int first_ports(const struct nic_port **ports, size_t *count);
static inline int second_ports(const struct nic_port **ports, size_t *count);
static inline int first_address(const struct nic_port *port, void *addr, size_t *len);
static inline int first_reaches(const struct nic_port *port, const void *addr, size_t len);

static struct nic_ops first_nic = FAKE_OPS("first", first_ports);
static struct nic_ops second_nic = FAKE_OPS("second", second_ports);

static struct fi_device_attr device = { .name = (char[]){ "fake0" },
					.vendor_id = (char[]){ "maker" },
					.firmware = (char[]){ "1.2" } };
static struct fi_bus_attr bus = { .bus_type = FI_BUS_PCI, .attr.pci.bus_id = 5 };
static struct fi_link_attr fake_link = {
	.mtu = 4096, .speed = 100, .state = FI_LINK_UP, .network_type = (char[]){ "wire" }
};
static const struct fid_nic attributes = { .device_attr = &device,
					   .bus_attr = &bus,
					   .link_attr = &fake_link };

static const struct nic_port first_list[] = {
	FAKE_PORT(&first_nic, "fake", "scalable", 0, &attributes),
	FAKE_PORT(&first_nic, "fake", "verbs", FAKE_VERBS, NULL),
	FAKE_PORT(&first_nic, "fake", "strict", FAKE_STRICT, NULL),
};
static const struct nic_port second_list[] = {
	FAKE_PORT(&second_nic, "other", "basic", BASICS, NULL),
};

/* One letter per port in what follows. */
static const char *const letters[] = { "scalable", "verbs", "strict", "basic" };
#define ALL "svtb"

static inline int first_ports(const struct nic_port **ports, size_t *count)
{
	*ports = first_list;
	*count = count_of(first_list);
	return 0;
}

static inline int second_ports(const struct nic_port **ports, size_t *count)
{
	*ports = second_list;
	*count = count_of(second_list);
	return 0;
}

static inline int first_address(const struct nic_port *port, void *addr, size_t *len)
{
	struct sockaddr_in in = fake_addr(FAKE_HOST, 0);

	(void)port;
	memcpy(addr, &in, sizeof(in));
	*len = sizeof(in);
	return 0;
}

static inline int first_reaches(const struct nic_port *port, const void *addr, size_t len)
{
	struct sockaddr_in in;

	(void)port;
	if (len < sizeof(in))
		return -FI_EHOSTUNREACH;
	memcpy(&in, addr, sizeof(in));
	if (ntohl(in.sin_addr.s_addr) != INADDR_LOOPBACK && ntohl(in.sin_addr.s_addr) != FAKE_HOST)
		return -FI_EHOSTUNREACH;
	return 0;
}

/* ---- helpers ---- */

/* The letters of the domains listed, and -FI_ENODATA for none of them. */
static inline void assert_listed(uint32_t version, const struct fi_info *hints,
				 const char *expected)
{
	struct fi_info untouched, *info = &untouched;
	char found[8] = "";
	size_t n = 0;
	int ret = fi_getinfo(version, NULL, NULL, 0, hints, &info);

	assert_int_equal(ret, *expected ? 0 : -FI_ENODATA);
	for (const struct fi_info *at = info; at; at = at->next)
		for (size_t i = 0; i < count_of(letters); i++)
			if (strcmp(at->domain_attr->name, letters[i]) == 0)
				found[n++] = ALL[i];
	assert_string_equal(found, expected);
	fi_freeinfo(info);
}

static inline struct fi_info *open_hints(void)
{
	struct fi_info *hints = fi_allocinfo();

	assert_non_null(hints);
	hints->mode = ~UINT64_C(0);
	hints->domain_attr->mr_mode = FAKE_STRICT;
	return hints;
}

static inline struct fi_info *get(const struct fi_info *hints)
{
	struct fi_info *info;

	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	return info;
}

/* Before anything else: the only NICs there are, but for hm_init's. */
static inline void nics_register(void)
{
	first_nic.port_address = first_address;
	first_nic.port_reaches = first_reaches;
	nic_register(&first_nic);
	nic_register(&second_nic);
}

/* Leaves the software NIC out, unless the environment has been read already. */
static inline void nics_only(void)
{
	setenv("HMREG_SW_ENABLE", "0", 1);
}

#endif
