/* SPDX-License-Identifier: BSD-2-Clause */
/* Infos that were changed after fi_getinfo gave them. */
#ifndef CONF_MISUSE_H
#define CONF_MISUSE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

enum alteration {
	NO_FABRIC_ATTR,
	NO_DOMAIN_ATTR,
	NO_DOMAIN_NAME,
	OTHER_DOMAIN_NAME,
	MODEL_AND_BITS,
	UNKNOWN_CAPS,
	DOMAIN_AUTH_KEY,
	EP_TYPE_MSG,
	INJECT_SIZE,
	TX_SIZE,
	RX_SIZE,
	TX_FLAGS,
	RX_FLAGS,
	MESSAGE_SIZE,
	EP_XPU_CTX,
	EP_AUTH_KEY,
	SOURCE_SHORT,
	SOURCE_FOREIGN,
};

static inline void misuse_source(struct fi_info *info, size_t len)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(0xc0000201) }; /* 192.0.2.1 */

	free(info->src_addr);
	info->src_addr = malloc(sizeof(in));
	if (info->src_addr)
		memcpy(info->src_addr, &in, sizeof(in));
	info->src_addrlen = len;
}

static inline void misuse_drop_name(struct fi_info *info, const char *name)
{
	free(info->domain_attr->name);
	info->domain_attr->name = name ? strdup(name) : NULL;
}

static inline void misuse_alter_domain(struct fi_info *info, enum alteration what)
{
	switch (what) {
	case NO_FABRIC_ATTR:
		free(info->fabric_attr->name);
		free(info->fabric_attr->prov_name);
		free(info->fabric_attr);
		info->fabric_attr = NULL;
		break;
	case NO_DOMAIN_ATTR:
		free(info->domain_attr->name);
		free(info->domain_attr);
		info->domain_attr = NULL;
		break;
	case NO_DOMAIN_NAME:
		misuse_drop_name(info, NULL);
		break;
	case OTHER_DOMAIN_NAME:
		misuse_drop_name(info, "no-such-domain");
		break;
	case MODEL_AND_BITS:
		info->domain_attr->mr_mode |= FI_MR_BASIC | FI_MR_SCALABLE;
		break;
	case UNKNOWN_CAPS:
		info->caps |= UINT64_C(1) << 61;
		break;
	case DOMAIN_AUTH_KEY:
		info->domain_attr->auth_key = NULL;
		info->domain_attr->auth_key_size = 8;
		break;
	default:
		break;
	}
}

static inline void misuse_alter(struct fi_info *info, enum alteration what)
{
	misuse_alter_domain(info, what);
	switch (what) {
	case EP_TYPE_MSG:
		info->ep_attr->type = FI_EP_MSG;
		break;
	case INJECT_SIZE:
		info->tx_attr->inject_size++;
		break;
	case TX_SIZE:
		info->tx_attr->size = SIZE_MAX;
		break;
	case RX_SIZE:
		info->rx_attr->size = SIZE_MAX;
		break;
	case TX_FLAGS:
		info->tx_attr->op_flags = FI_TRIGGER;
		break;
	case RX_FLAGS:
		info->rx_attr->op_flags = FI_TRIGGER;
		break;
	case MESSAGE_SIZE:
		info->ep_attr->max_msg_size = SIZE_MAX;
		break;
	case EP_XPU_CTX:
		info->ep_attr->xpu_ctx = (struct fid_xpu_ctx *)info;
		break;
	case EP_AUTH_KEY:
		info->ep_attr->auth_key = NULL;
		info->ep_attr->auth_key_size = 8;
		break;
	case SOURCE_SHORT:
		misuse_source(info, 3);
		break;
	case SOURCE_FOREIGN:
		misuse_source(info, sizeof(struct sockaddr_in));
		break;
	default:
		break;
	}
}

#endif
