/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices and their ports: what is listed, with which attributes, and what is said about the others.
 * Each case is a process of its own, since what was found stays found.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ifaddrs.h>

#include "core/base/sysfs.h"
#include "core/nic/verbs_device.h"
#include "tests/unit/fake_ports.h"
#include "tests/unit/fake_sysfs.h"

/* ---- addresses of the machine: its own, and two link-local ones ---- */

int __real_getifaddrs(struct ifaddrs **all);
void __real_freeifaddrs(struct ifaddrs *all);
int __wrap_getifaddrs(struct ifaddrs **all);
void __wrap_freeifaddrs(struct ifaddrs *all);

static struct sockaddr_in6 local_addr[2] = { { .sin6_family = AF_INET6, .sin6_scope_id = 1 },
					     { .sin6_family = AF_INET6, .sin6_scope_id = 7 } };
static struct ifaddrs local_entry[2];

int __wrap_getifaddrs(struct ifaddrs **all)
{
	for (size_t i = 0; i < count_of(local_addr); i++) {
		inet_pton(AF_INET6, "fe80::1", &local_addr[i].sin6_addr);
		local_entry[i].ifa_addr = (struct sockaddr *)&local_addr[i];
	}
	local_entry[0].ifa_next = &local_entry[1];
	*all = local_entry;
	return __real_getifaddrs(&local_entry[1].ifa_next);
}

void __wrap_freeifaddrs(struct ifaddrs *all)
{
	assert_ptr_equal(all, local_entry);
	__real_freeifaddrs(local_entry[1].ifa_next);
}

/* ---- in the child ---- */

static const struct verbs_port *port_at(size_t index)
{
	const struct nic_port *ports;
	size_t count;

	CHECK(verbs_ports(&ports, &count) == 0);
	return index < count ? verbs_port_of(ports) + index : NULL;
}

static const char *address_text(const struct verbs_port *port, char text[INET6_ADDRSTRLEN])
{
	if (port->addr.ss_family == AF_INET)
		return inet_ntop(AF_INET, &((const struct sockaddr_in *)&port->addr)->sin_addr,
				 text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)&port->addr)->sin6_addr, text,
			 INET6_ADDRSTRLEN);
}

static void check_port(size_t index, const char *name, const char *address, int gid_index,
		       const char *link)
{
	const struct verbs_port *port = port_at(index);
	char text[INET6_ADDRSTRLEN];

	CHECK(port != NULL);
	CHECK(strcmp(port->port.domain_name, name) == 0);
	CHECK(strcmp(address_text(port, text), address) == 0);
	CHECK(port->gid_index == gid_index);
	CHECK(strcmp(port->link, link) == 0);
	CHECK(port->port.addr_format ==
	      (port->addr.ss_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6));
}

static void set_gid(int device, int port, int index, const char *text, enum ibv_gid_type type)
{
	dev[device].port[port].gid[index] = (struct fake_gid){ text, type, 1 };
}

/* ---- attributes ---- */

static void check_attributes(void)
{
	const struct nic_port *port = &port_at(0)->port;
	const struct fid_nic *nic = port->nic;
	struct hmreg_device out = { .size = sizeof(out) };

	CHECK(port_count() == 2);
	CHECK(port->ops == &verbs_nic_ops && strcmp(port->fabric_name, "hmreg-verbs") == 0);
	CHECK(!port->alternate && port_at(1)->port.alternate);
	CHECK(port->max_msg_size == 1u << 30 && port->mr_key_size == 8);
	CHECK(port->max_mr_count == 5000 && port->ep_count == 25 && port->cq_data_size == 4);
	CHECK(port->protocol == FI_PROTO_RDMA_CM_IB_RC);
	CHECK(nic->fid.fclass == FI_CLASS_NIC);
	CHECK(strcmp(nic->device_attr->name, "fake0") == 0);
	CHECK(strcmp(nic->device_attr->vendor_id, "0x1234") == 0);
	CHECK(strcmp(nic->device_attr->device_id, "0x5678") == 0);
	CHECK(strcmp(nic->device_attr->device_version, "9") == 0);
	CHECK(strcmp(nic->device_attr->firmware, "1.2.3") == 0);
	CHECK(strcmp(nic->device_attr->driver, "fake_core") == 0);
	CHECK(nic->bus_attr->bus_type == FI_BUS_PCI);
	CHECK(nic->bus_attr->attr.pci.domain_id == 0 && nic->bus_attr->attr.pci.bus_id == 0x3b);
	CHECK(nic->bus_attr->attr.pci.device_id == 0x1f &&
	      nic->bus_attr->attr.pci.function_id == 2);
	CHECK(strcmp(nic->link_attr->address, "::ffff:127.0.0.1") == 0);
	CHECK(nic->link_attr->mtu == 4096 && nic->link_attr->state == FI_LINK_UP);
	CHECK(nic->link_attr->speed == 100000000000u); /* four lanes of 25 Gbit/s */
	CHECK(strcmp(nic->link_attr->network_type, "Ethernet") == 0);
	CHECK(verbs_port_describe(port, &out) == 0);
	CHECK(out.size == sizeof(out) && strcmp(out.name, "fake0") == 0);
	CHECK(strcmp(out.kind, "verbs") == 0 && strcmp(out.link, "RoCE v2") == 0);
	CHECK(strcmp(out.pci, "0000:3b:1f.2") == 0 && strcmp(out.dmabuf_reason, "") == 0);
	CHECK(strstr(out.path, "0000:3a:00.0 > ") == out.path);
	CHECK(out.port == 1 && out.gid_index == 0);
	CHECK(out.mr_mode == port->mr_mode && out.mr_mode_kept == port->mr_mode_kept);
	CHECK(out.max_mr_size == 1 << 20 && out.max_mr == 5000 && out.max_mw == 300);
	CHECK(out.max_qp == 100 && out.max_srq == 50 && out.max_cq == 200 && out.max_sge == 16);
	CHECK(out.max_qp_wr == 1000 && out.max_rd_atomic == 16);
	CHECK(strcmp(port_at(0)->device->name, "fake0") == 0);
	CHECK(verbs_device_listed("fake0") && !verbs_device_listed("fake1"));
	check_closed();
}

static void api_03_port_has_attributes_of_its_device(void **state)
{
	(void)state;
	fake_init();
	sysfs_link("class/infiniband/fake0/device", "devices/pci0000:3a/0000:3a:00.0/0000:3b:1f.2");
	sysfs_link("class/infiniband/fake0/device/driver", "bus/pci/drivers/fake_core");
	child_run(&child, warn, check_attributes);
	assert_string_equal(child.text, "");
	sysfs_run("rm -r class/infiniband");
}

static void check_bare(void)
{
	const struct fid_nic *nic = port_at(0)->port.nic;
	struct hmreg_device out = { 0 };

	CHECK(!nic->device_attr->driver && nic->bus_attr->bus_type == FI_BUS_UNSPEC);
	CHECK(nic->link_attr->mtu == 0 && nic->link_attr->speed == 0);
	CHECK(port_at(0)->port.max_msg_size > 0 && port_at(0)->port.max_mr_count > 0);
	CHECK(verbs_port_describe(&port_at(0)->port, &out) == 0);
	CHECK(strcmp(out.pci, "") == 0 && out.max_mr == 0 && out.max_mr_size == UINT64_MAX);
}

/* Nothing in sysfs, no limits, codes that nobody knows. */
static void api_03_device_that_says_little_is_listed(void **state)
{
	(void)state;
	fake_init();
	dev[0].attr.max_mr_size = 0;
	dev[0].attr.max_mr = -1;
	dev[0].port[0].attr.max_msg_sz = 0;
	dev[0].port[0].attr.active_mtu = 0;
	dev[0].port[0].attr.active_speed = 3;
	child_run(&child, warn, check_bare);
	assert_string_equal(child.text, "");
}

/* ---- what a device can do, found out by trying ---- */

#define ODP_RC                                                                                     \
	(IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ)
#define USUAL                                                                                      \
	(HMREG_CAN_DMABUF | HMREG_CAN_ZERO_BASED | HMREG_CAN_RELAXED_ORDERING | HMREG_CAN_SRQ |    \
	 HMREG_CAN_ATOMICS)
#define MODES	      (FI_MR_LOCAL | FI_MR_HMEM | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED)
#define ODP	      (HMREG_CAN_ON_DEMAND | HMREG_CAN_PREFETCH)
#define ENDPOINT_CAPS (FI_MSG | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV | FI_FENCE)
#define WINDOWS	      (HMREG_CAN_WINDOW_1 | HMREG_CAN_WINDOW_2A | HMREG_CAN_WINDOW_2B)

static const struct ability {
	const char *what;
	uint64_t can;
	int mr_mode; /* besides FI_MR_PROV_KEY */
	uint64_t caps_missing;
	bool address_fixed, extended, rereg, no_srq, no_atomics, windows;
	uint32_t odp; /* over reliable connections */
	int dmabuf_error, plain_error;
} abilities[] = {
	{ .what = "usual", .can = USUAL, .mr_mode = FI_MR_ALLOCATED },
	{ .what = "zero based refused",
	  .can = USUAL & ~HMREG_CAN_ZERO_BASED,
	  .mr_mode = FI_MR_ALLOCATED | FI_MR_VIRT_ADDR,
	  .address_fixed = true },
	{ .what = "no dma-buf in the driver",
	  .can = USUAL & ~HMREG_CAN_DMABUF,
	  .mr_mode = FI_MR_ALLOCATED,
	  .caps_missing = FI_HMEM,
	  .dmabuf_error = EOPNOTSUPP },
	{ .what = "no dma-buf in the kernel",
	  .can = USUAL & ~HMREG_CAN_DMABUF,
	  .mr_mode = FI_MR_ALLOCATED,
	  .caps_missing = FI_HMEM,
	  .dmabuf_error = EPROTONOSUPPORT },
	{ .what = "memlock limit of 0", /* says nothing about the device */
	  .can = USUAL,
	  .mr_mode = FI_MR_ALLOCATED,
	  .plain_error = ENOMEM },
	{ .what = "rereg",
	  .can = USUAL | HMREG_CAN_REREG,
	  .mr_mode = FI_MR_ALLOCATED,
	  .rereg = true },
	{ .what = "no shared receive queues",
	  .can = USUAL & ~HMREG_CAN_SRQ,
	  .mr_mode = FI_MR_ALLOCATED,
	  .caps_missing = ENDPOINT_CAPS,
	  .no_srq = true },
	{ .what = "no atomics",
	  .can = USUAL & ~HMREG_CAN_ATOMICS,
	  .mr_mode = FI_MR_ALLOCATED,
	  .caps_missing = FI_ATOMIC,
	  .no_atomics = true },
	{ .what = "windows", .can = USUAL | WINDOWS, .mr_mode = FI_MR_ALLOCATED, .windows = true },
	{ .what = "paging for reads and writes only",
	  .can = USUAL,
	  .mr_mode = FI_MR_ALLOCATED,
	  .extended = true,
	  .odp = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ },
	{ .what = "paging, but not for atomics",
	  .can = USUAL | ODP,
	  .mr_mode = FI_MR_ALLOCATED,
	  .extended = true,
	  .odp = ODP_RC },
	{ .what = "paging, and no atomics",
	  .can = (USUAL | ODP) & ~HMREG_CAN_ATOMICS,
	  .mr_mode = 0,
	  .caps_missing = FI_ATOMIC,
	  .extended = true,
	  .no_atomics = true,
	  .odp = ODP_RC },
	{ .what = "paging for all",
	  .can = USUAL | ODP,
	  .mr_mode = 0,
	  .extended = true,
	  .odp = ODP_RC | IBV_ODP_SUPPORT_ATOMIC },
};

static const struct ability *tried;

static void check_ability(void)
{
	const struct nic_port *port = &port_at(0)->port;
	const uint64_t all = ENDPOINT_CAPS | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_HMEM;

	CHECK(port_at(0)->device->can == tried->can);
	CHECK(port->mr_mode == (tried->mr_mode | FI_MR_PROV_KEY));
	CHECK(port->mr_mode_kept == (MODES & ~tried->mr_mode));
	CHECK((port->caps & all) == (all & ~tried->caps_missing));
	CHECK(!(port->caps & FI_RMA_EVENT));
	CHECK(!(port->optional_caps & ~port->caps));
	CHECK(strstr(port_at(0)->device->windows_reason,
		     tried->windows ? "a completion queue" : "has no memory windows"));
	CHECK(!*port_at(0)->device->dmabuf_reason == !(tried->caps_missing & FI_HMEM));
	check_closed();
}

static void fn_25_mode_02_abilities_are_tried(void **state)
{
	(void)state;
	for (tried = abilities; tried < abilities + count_of(abilities); tried++) {
		print_message("%s\n", tried->what);
		fake_init();
		dev[0].zero_based = !tried->address_fixed;
		dev[0].extended = tried->extended;
		dev[0].rereg = tried->rereg;
		dev[0].odp.general_caps = tried->odp ? IBV_ODP_SUPPORT : 0;
		dev[0].odp.per_transport_caps.rc_odp_caps = tried->odp;
		dev[0].plain_error = tried->plain_error;
		if (tried->dmabuf_error)
			dev[0].dmabuf_error = tried->dmabuf_error;
		if (tried->no_srq)
			dev[0].attr.max_srq = 0;
		if (tried->no_atomics)
			dev[0].attr.atomic_cap = IBV_ATOMIC_NONE;
		if (tried->windows)
			dev[0].attr.device_cap_flags = IBV_DEVICE_MEM_WINDOW |
						       IBV_DEVICE_MEM_WINDOW_TYPE_2A |
						       IBV_DEVICE_MEM_WINDOW_TYPE_2B;
		child_run(&child, warn, check_ability);
		assert_string_equal(child.text, "");
	}
}

static void cannot_relax(void)
{
	CHECK(!(port_at(0)->device->can & HMREG_CAN_RELAXED_ORDERING));
}

/* The driver takes the optional right, but there is no bus whose order it could relax. */
static void reg_08_software_device_has_no_relaxed_ordering(void **state)
{
	(void)state;
	fake_init();
	sysfs_run("mkdir -p class/infiniband/fake0");
	child_run(&child, warn, cannot_relax);
	sysfs_run("rm -r class/infiniband");
}

static void check_small_parts(void)
{
	CHECK(port_at(0)->device->max_mr_size == 65536);
}

static void fn_26_limit_of_one_part_can_be_lowered(void **state)
{
	static const char *const env[] = { "HMREG_VERBS_MAX_MR_SIZE=64K", NULL };

	(void)state;
	fake_init();
	child_run(&child, env, check_small_parts);
}

/* ---- fork ---- */

static int inits_expected;

static void check_fork(void)
{
	CHECK(port_count() == 2);
	CHECK(fake.fork_inits == inits_expected);
}

static void reg_09_fn_39_fork_protection_where_needed(void **state)
{
	static const struct {
		enum ibv_fork_status status;
		int inits;
	} cases[] = { { IBV_FORK_UNNEEDED, 0 }, { IBV_FORK_ENABLED, 0 }, { IBV_FORK_DISABLED, 1 } };

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		fake_init();
		fake.fork = cases[i].status;
		inits_expected = cases[i].inits;
		child_run(&child, warn, check_fork);
	}
}

/* ---- addresses ---- */

static void check_both_families(void)
{
	CHECK(port_count() == 2);
	check_port(0, "fake0", "127.0.0.1", 1, "RoCE v2");
	check_port(1, "fake0", "fd00::1", 3, "RoCE v2");
	check_closed();
}

/* Version 2 and addresses that mean the same everywhere come first, wherever they stand. */
static void routable_gids_come_first(void **state)
{
	(void)state;
	fake_init();
	memset(dev[0].port[0].gid, 0, sizeof(dev[0].port[0].gid));
	set_gid(0, 0, 0, "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V1);
	set_gid(0, 0, 1, "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2);
	set_gid(0, 0, 2, "fe80::1", IBV_GID_TYPE_ROCE_V2);
	set_gid(0, 0, 3, "fd00::1", IBV_GID_TYPE_ROCE_V2);
	set_gid(0, 0, 5, "fd00::2", IBV_GID_TYPE_ROCE_V2);
	fake.bound[2] = (struct fake_bound){ "fe80::1", 0, 1 };
	child_run(&child, warn, check_both_families);
}

static void check_version_1(void)
{
	CHECK(port_count() == 1);
	check_port(0, "fake0", "127.0.0.1", 2, "RoCE v1");
}

static void version_1_is_taken_where_alone(void **state)
{
	(void)state;
	fake_init();
	memset(dev[0].port[0].gid, 0, sizeof(dev[0].port[0].gid));
	set_gid(0, 0, 2, "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V1);
	child_run(&child, warn, check_version_1);
}

static void check_link_local(void)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&port_at(0)->addr;

	CHECK(port_count() == 1 && !port_at(0)->port.alternate);
	check_port(0, "fake0", "fe80::1", 4, "RoCE v2");
	CHECK(in6->sin6_scope_id == 7);
}

static void link_local_address_has_its_scope(void **state)
{
	(void)state;
	fake_init();
	memset(dev[0].port[0].gid, 0, sizeof(dev[0].port[0].gid));
	memset(fake.bound, 0, sizeof(fake.bound));
	dev[0].port[0].gid[4] = (struct fake_gid){ "fe80::1", IBV_GID_TYPE_ROCE_V2, 7 };
	fake.bound[0] = (struct fake_bound){ "fe80::1", 0, 1 };
	child_run(&child, warn, check_link_local);
}

static void check_infiniband(void)
{
	CHECK(port_count() == 1);
	check_port(0, "fake0", "127.0.0.1", 0, "InfiniBand");
	CHECK(strcmp(port_at(0)->port.nic->link_attr->network_type, "InfiniBand") == 0);
	CHECK(strcmp(port_at(0)->port.nic->link_attr->address, "fe80::2:c903:1:2") == 0);
}

static void check_iwarp(void)
{
	CHECK(port_count() == 1);
	check_port(0, "fake0", "127.0.0.1", 0, "iWARP");
	CHECK(port_at(0)->port.protocol == FI_PROTO_IWARP);
}

/* Their GIDs are no IP addresses: a network interface has the address. */
static void address_of_an_interface(void **state)
{
	(void)state;
	fake_init();
	memset(dev[0].port[0].gid, 0, sizeof(dev[0].port[0].gid));
	fake.bound[1].text = NULL;
	set_gid(0, 0, 0, "fe80::2:c903:1:2", IBV_GID_TYPE_IB);
	dev[0].port[0].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
	child_run(&child, warn, check_infiniband);
	dev[0].port[0].attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	dev[0].ibv.transport_type = IBV_TRANSPORT_IWARP;
	child_run(&child, warn, check_iwarp);
}

static void check_several(void)
{
	CHECK(port_count() == 4);
	check_port(0, "fake0", "127.0.0.1", 0, "RoCE v2");
	check_port(1, "fake0", "fd00::1", 1, "RoCE v2");
	check_port(2, "fake0:2", "10.0.0.2", 0, "RoCE v2");
	check_port(3, "fake1", "10.0.1.1", 0, "RoCE v2");
	CHECK(port_at(2)->number == 2 && port_at(2)->device == port_at(0)->device);
	CHECK(port_at(3)->number == 1 && port_at(3)->device != port_at(0)->device);
	check_closed();
}

static void several(void)
{
	fake_init();
	fake_device_init(1, "fake1");
	fake.devices = 2;
	dev[0].attr.phys_port_cnt = 2;
	set_gid(0, 1, 0, "::ffff:10.0.0.2", IBV_GID_TYPE_ROCE_V2);
	set_gid(1, 0, 0, "::ffff:10.0.1.1", IBV_GID_TYPE_ROCE_V2);
	fake.bound[2] = (struct fake_bound){ "10.0.0.2", 0, 2 };
	fake.bound[3] = (struct fake_bound){ "10.0.1.1", 1, 1 };
}

static void api_03_every_port_of_every_device(void **state)
{
	(void)state;
	several();
	child_run(&child, warn, check_several);
}

static void *look(void *count)
{
	*(size_t *)count = port_count();
	return NULL;
}

static void check_threads(void)
{
	pthread_t thread[4];
	size_t count[4];

	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&thread[i], NULL, look, &count[i]) == 0);
	for (int i = 0; i < 4; i++) {
		CHECK(pthread_join(thread[i], NULL) == 0);
		CHECK(count[i] == 4);
	}
	check_several();
}

static void api_19_several_threads_look_at_once(void **state)
{
	(void)state;
	several();
	child_run(&child, warn, check_threads);
}

/* ---- questions about addresses ---- */

static int reaches(size_t index, const char *text, uint16_t number)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(number) };

	CHECK(inet_pton(AF_INET, text, &in.sin_addr) == 1);
	return verbs_port_reaches(&port_at(index)->port, &in, sizeof(in));
}

static int has(size_t index, const char *text, uint16_t number)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(number) };

	CHECK(inet_pton(AF_INET, text, &in.sin_addr) == 1);
	return verbs_port_has(&port_at(index)->port, &in, sizeof(in));
}

static void check_reach(void)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in in = { .sin_family = AF_INET };

	CHECK(reaches(0, "127.0.0.1", 0) == 0 && reaches(0, "127.0.0.1", 7471) == 0);
	CHECK(reaches(0, "127.0.0.2", 0) == 0);			/* another device of this machine */
	CHECK(reaches(0, "127.64.0.1", 5) == -FI_EHOSTUNREACH); /* no device's */
	CHECK(reaches(0, "0.0.0.0", 0) == -FI_EHOSTUNREACH);
	CHECK(reaches(0, "198.51.100.7", 0) == -FI_EHOSTUNREACH); /* from loopback */
	CHECK(verbs_port_reaches(&port_at(0)->port, &in6, sizeof(in6)) == -FI_EHOSTUNREACH);
	CHECK(verbs_port_reaches(&port_at(0)->port, &in, sizeof(in) - 1) == -FI_EHOSTUNREACH);
	CHECK(has(0, "127.0.0.1", 0) == 0 && has(0, "127.0.0.1", 1) == 0);
	CHECK(has(0, "127.0.0.2", 0) == -FI_EHOSTUNREACH);
	CHECK(has(1, "127.0.0.2", 0) == 0);
	CHECK(has(0, "0.0.0.0", 0) == -FI_EHOSTUNREACH);
	check_closed();
}

static void port_knows_whom_it_reaches(void **state)
{
	(void)state;
	fake_init();
	fake_device_init(1, "fake1");
	fake.devices = 2;
	fake.bound[1] = (struct fake_bound){ "127.0.0.2", 1, 1 };
	set_gid(1, 0, 0, "::ffff:127.0.0.2", IBV_GID_TYPE_ROCE_V2);
	child_run(&child, warn, check_reach);
	assert_string_equal(child.text, "");
}

static void check_own_address(void)
{
	struct sockaddr_in in, whole = { .sin_family = AF_INET };
	size_t len = sizeof(in);

	whole.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(verbs_port_address(&port_at(0)->port, &in, &len) == 0);
	CHECK(len == sizeof(in) && memcmp(&in, &whole, len) == 0);
	memset(&in, 0xee, sizeof(in));
	len = 4;
	CHECK(verbs_port_address(&port_at(0)->port, &in, &len) == -FI_ETOOSMALL);
	CHECK(len == sizeof(in) && memcmp(&in, &whole, 4) == 0);
	CHECK(((unsigned char *)&in)[4] == 0xee);
}

static void port_address_fits_or_says_so(void **state)
{
	(void)state;
	fake_init();
	child_run(&child, warn, check_own_address);
}

static int set_up(void **state)
{
	hm_sysfs_set_root(sysfs_root);
	return sysfs_start(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_03_port_has_attributes_of_its_device),
		cmocka_unit_test(api_03_device_that_says_little_is_listed),
		cmocka_unit_test(fn_25_mode_02_abilities_are_tried),
		cmocka_unit_test(reg_08_software_device_has_no_relaxed_ordering),
		cmocka_unit_test(fn_26_limit_of_one_part_can_be_lowered),
		cmocka_unit_test(reg_09_fn_39_fork_protection_where_needed),
		cmocka_unit_test(routable_gids_come_first),
		cmocka_unit_test(version_1_is_taken_where_alone),
		cmocka_unit_test(link_local_address_has_its_scope),
		cmocka_unit_test(address_of_an_interface),
		cmocka_unit_test(api_03_every_port_of_every_device),
		cmocka_unit_test(api_19_several_threads_look_at_once),
		cmocka_unit_test(port_knows_whom_it_reaches),
		cmocka_unit_test(port_address_fits_or_says_so),
	};

	return cmocka_run_group_tests(tests, set_up, sysfs_stop);
}
