/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports over which no endpoint works, but regions do: listed for registration alone, with the reason.
 * Each case is a process of its own, since devices are looked for once.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/fake_ports.h"

static struct expected {
	const char *why;
	int code;
	const char *link;
	int gid_index;
	uint64_t caps;
} want;

static void check_endpoint_limits(const struct nic_port *port)
{
	CHECK(port->protocol == 0 && port->addr_format == FI_FORMAT_UNSPEC && !port->alternate);
	CHECK(port->max_msg_size == 0 && port->inject_size == 0 && port->ep_count == 0);
	CHECK(port->iov_limit == 0 && port->rma_iov_limit == 0 && port->cq_data_size == 0);
	CHECK(port->tx_size == 0 && port->rx_size == 0 && port->msg_order == 0);
}

static void check_without_address(const struct nic_port *port)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	char room[128];
	size_t len = sizeof(room);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(verbs_port_of(port)->addr_len == 0);
	CHECK(verbs_port_address(port, room, &len) == -FI_ENOSYS && len == sizeof(room));
	CHECK(verbs_port_has(port, &in, sizeof(in)) == -FI_EHOSTUNREACH);
	CHECK(verbs_port_reaches(port, &in, sizeof(in)) == -FI_EHOSTUNREACH);
	CHECK(verbs_port_has(port, &in, 0) == -FI_EHOSTUNREACH);
	CHECK(verbs_port_reaches(port, &in, 0) == -FI_EHOSTUNREACH);
}

static void check_registration(void)
{
	const struct nic_port *port;
	struct hmreg_device out = { .size = sizeof(out) };
	size_t count;

	CHECK(verbs_ports(&port, &count) == 0 && port_count() == 1);
	CHECK(strcmp(port->domain_name, "fake0") == 0 && port->no_endpoints);
	if (!strstr(port->no_endpoints, want.why)) {
		printf("%s\n", port->no_endpoints);
		exit(1);
	}
	CHECK(port->no_endpoints_code == want.code);
	CHECK(port->caps == want.caps && port->optional_caps == (want.caps & FI_HMEM));
	CHECK(port->mr_key_size == 8 && port->mr_iov_limit == NIC_IOV_MAX);
	CHECK(port->max_mr_count == 5000 && (port->mr_mode & FI_MR_PROV_KEY));
	check_endpoint_limits(port);
	check_without_address(port);
	CHECK(verbs_port_describe(port, &out) == 0);
	CHECK(!(out.can & HMREG_CAN_ENDPOINTS) && out.endpoints_reason == port->no_endpoints);
	CHECK(strcmp(out.link, want.link) == 0 && out.gid_index == want.gid_index);
	check_closed();
}

static void registers(const char *why, int code, const char *link, int gid_index)
{
	want = (struct expected){ why, code, link, gid_index,
				  FI_LOCAL_COMM | FI_REMOTE_COMM | FI_HMEM };
	child_run(&child, warn, check_registration);
	assert_int_equal(child.writes, 0);
}

static struct fake_gid *const gid = fake.device[0].port[0].gid;

static void api_03_port_without_address(void **state)
{
	(void)state;
	fake_init();
	memset(fake.bound, 0, sizeof(fake.bound)); /* as rxe on the loopback interface */
	registers("port 1 has no IP address", -FI_ENODATA, "RoCE v2", 0);
	/* the GID for queue pairs of one's own: routable, not link-local, IPv4 where there is a choice */
	gid[0] = (struct fake_gid){ "fe80::1", IBV_GID_TYPE_ROCE_V2, 1 };
	gid[1] = (struct fake_gid){ "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V1, 1 };
	gid[2] = (struct fake_gid){ "::1", IBV_GID_TYPE_ROCE_V2, 1 };
	gid[3] = (struct fake_gid){ "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, 1 };
	registers("port 1 has no IP address", -FI_ENODATA, "RoCE v2", 3);
	memset(&gid[2], 0, 2 * sizeof(gid[2]));
	registers("port 1 has no IP address", -FI_ENODATA, "RoCE v2", 0);
	memset(&gid[0], 0, sizeof(gid[0]));
	registers("port 1 has no IP address", -FI_ENODATA, "RoCE v1", 1);
	memset(gid, 0, FAKE_GIDS * sizeof(*gid));
	registers("port 1 has no IP address", -FI_ENODATA, "RoCE", -1);
	dev[0].port[0].attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
	registers("(IPoIB)", -FI_ENODATA, "InfiniBand", -1);
	gid[0] = (struct fake_gid){ "fe80::7", IBV_GID_TYPE_IB, 0 };
	registers("(IPoIB)", -FI_ENODATA, "InfiniBand", 0);
	/* librdmacm binds to the link-local GID, which no interface of this machine has as an address */
	fake_init();
	memset(&gid[1], 0, sizeof(gid[1]));
	gid[0] = (struct fake_gid){ "fe80::7:7:7", IBV_GID_TYPE_ROCE_V2, 1 };
	fake.bound[0] = (struct fake_bound){ "fe80::7:7:7", 0, 1 };
	memset(&fake.bound[1], 0, sizeof(fake.bound[1]));
	registers("port 1 has no IP address", -FI_ENODATA, "RoCE v2", 0);
	/* an address of its own that librdmacm gives to another device on the same interface */
	fake_init();
	fake.bound[0].device = fake.bound[1].device = 1;
	fake_device_init(1, "fake1");
	registers("has no IP address", -FI_ENODATA, "RoCE v2", 0);
}

static void api_03_librdmacm_that_does_not_work(void **state)
{
	(void)state;
	fake_init();
	fake.channel_error = ENODEV;
	registers("rdma_ucm", -FI_ENODEV, "RoCE v2", 0);
	fake.channel_error = EACCES;
	registers("no permission to open /dev/infiniband/rdma_cm", -FI_EACCES, "RoCE v2", 0);
	fake.channel_error = 0;
	fake.id_error = ENODEV;
	registers("rdma_ucm", -FI_ENODEV, "RoCE v2", 0);
}

static void api_03_device_without_connections(void **state)
{
	(void)state;
	fake_init();
	dev[0].ibv.transport_type = IBV_TRANSPORT_UNSPECIFIED;
	dev[0].port[0].attr.link_layer = IBV_LINK_LAYER_UNSPECIFIED;
	registers("no reliable connections", -FI_ENODATA, "unspecified", 0);
	dev[0].ibv.transport_type = IBV_TRANSPORT_USNIC_UDP;
	dev[0].port[0].attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	registers("no reliable connections", -FI_ENODATA, "Ethernet", 0);
	fake_init();
	dev[0].attr.max_srq = 0;
	registers("no shared receive queues", -FI_ENODATA, "RoCE v2", 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_03_port_without_address),
		cmocka_unit_test(api_03_librdmacm_that_does_not_work),
		cmocka_unit_test(api_03_device_without_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
