/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NICs without hardware or software behind them, for tests of what core makes of a NIC's ports. An
 * address 127.x.y.z:p has the peer handle that these numbers make up; 127.0.0.99 is refused.
 */
#ifndef HM_TEST_FAKE_NIC_H
#define HM_TEST_FAKE_NIC_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "core/nic/nic.h"

#define FAKE_HOST    0x7f090909u /* 127.9.9.9, where the ports of fake_ops say they are */
#define FAKE_REFUSED 0x7f000063u

#define FAKE_CAPS                                                                                  \
	(FI_MSG | FI_RMA | FI_ATOMIC | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |   \
	 FI_REMOTE_WRITE | FI_MULTI_RECV | FI_SOURCE | FI_RMA_EVENT | FI_DIRECTED_RECV |           \
	 FI_FENCE | FI_LOCAL_COMM)
#define FAKE_OPTIONAL (FI_SOURCE | FI_DIRECTED_RECV | FI_FENCE)
#define FAKE_VERBS    (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define FAKE_STRICT                                                                                \
	(FAKE_VERBS | FI_MR_RAW | FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT |            \
	 FI_MR_HMEM | FI_MR_COLLECTIVE | FI_MR_XPU_DESC)

static struct sockaddr_in fake_addr(uint32_t host, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(host) };
}

static int fake_domain_call(struct nic_domain *domain)
{
	(void)domain;
	return 0;
}

static int fake_register(struct nic_region *region, const struct nic_region_request *req)
{
	(void)region;
	(void)req;
	return 0;
}

static int fake_deregister(struct nic_region *region)
{
	(void)region;
	return 0;
}

static int fake_ep_open(struct nic_ep *ep, const void *src_addr, size_t len)
{
	(void)ep;
	(void)src_addr;
	(void)len;
	return 0;
}

static int fake_ep_call(struct nic_ep *ep)
{
	(void)ep;
	return 0;
}

static int fake_ep_name(struct nic_ep *ep, void *addr, size_t *len)
{
	(void)ep;
	(void)addr;
	(void)len;
	return -FI_ENOSYS;
}

static int fake_resolve(struct nic_domain *domain, const void *addr, size_t *len, uint64_t *peer)
{
	struct sockaddr_in in;

	(void)domain;
	if (*len < sizeof(in))
		return -FI_EINVAL;
	memcpy(&in, addr, sizeof(in));
	if (in.sin_family != AF_INET || ntohl(in.sin_addr.s_addr) == FAKE_REFUSED)
		return -FI_EHOSTUNREACH;
	*peer = (uint64_t)ntohl(in.sin_addr.s_addr) << 16 | ntohs(in.sin_port);
	*len = sizeof(in);
	return 0;
}

static int fake_address(struct nic_domain *domain, uint64_t peer, void *addr, size_t *len)
{
	struct sockaddr_in in = fake_addr((uint32_t)(peer >> 16), (uint16_t)peer);

	(void)domain;
	memcpy(addr, &in, *len < sizeof(in) ? *len : sizeof(in));
	*len = sizeof(in);
	return 0;
}

static ssize_t fake_post(struct nic_ep *ep, const struct nic_wr *wr)
{
	(void)ep;
	(void)wr;
	return -FI_EAGAIN;
}

static ssize_t fake_post_recv(struct nic_ep *ep, const struct nic_recv *recv)
{
	(void)ep;
	(void)recv;
	return -FI_EAGAIN;
}

static ssize_t fake_cancel(struct nic_ep *ep, void *context)
{
	(void)ep;
	(void)context;
	return -FI_ENOENT;
}

static const char *fake_strerror(int prov_errno)
{
	(void)prov_errno;
	return "fake";
}

#define FAKE_OPS(nic_name, ports_fn)                                                               \
	{                                                                                          \
		.name = (nic_name), .domain_size = sizeof(struct nic_domain),                      \
		.ep_size = sizeof(struct nic_ep), .ports = (ports_fn),                             \
		.domain_open = fake_domain_call, .domain_close = fake_domain_call,                 \
		.region_register = fake_register, .region_deregister = fake_deregister,            \
		.ep_open = fake_ep_open, .ep_enable = fake_ep_call, .ep_close = fake_ep_call,      \
		.ep_name = fake_ep_name, .peer_resolve = fake_resolve,                             \
		.peer_address = fake_address, .post = fake_post, .post_recv = fake_post_recv,      \
		.cancel = fake_cancel, .strerror = fake_strerror                                   \
	}

#define FAKE_PORT(nic_ops, fabric, domain, mode, attributes)                                       \
	{                                                                                          \
		.ops = (nic_ops), .fabric_name = (fabric), .domain_name = (domain),                \
		.caps = FAKE_CAPS, .optional_caps = FAKE_OPTIONAL, .mr_mode = (mode),              \
		.addr_format = FI_SOCKADDR_IN, .protocol = FI_PROTO_SHM,                           \
		.mr_key_size = (mode)&FI_MR_RAW ? 16 : 8, .mr_iov_limit = 16,                      \
		.max_msg_size = 1 << 30, .inject_size = 512, .iov_limit = 8, .rma_iov_limit = 4,   \
		.tx_size = 1024, .rx_size = 2048, .max_mr_count = 1 << 20, .ep_count = 100,        \
		.msg_order = FI_ORDER_SAS | FI_ORDER_WAW, .cq_data_size = 8, .nic = (attributes)   \
	}

#endif
