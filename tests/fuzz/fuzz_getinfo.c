/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_getinfo with every argument and every field of the hints out of the input.  What it returns must
 * copy, print, open and free; what it refuses must leave the output alone.
 */
#include <netinet/in.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "tests/fuzz/input.h"

#define UNTOUCHED ((struct fi_info *)(uintptr_t)0x5a5a5a5a)

/* Open objects that hints may point to. */
static struct fid_fabric *open_fabric;
static struct fid_domain *open_domain;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	(void)argc;
	(void)argv;
	PROMISE(hints);
	PROMISE(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, NULL, &info) == 0);
	PROMISE(fi_fabric(info->fabric_attr, &open_fabric, NULL) == 0);
	PROMISE(fi_domain(open_fabric, info, &open_domain, NULL) == 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return 0;
}

/* ---- hints ---- */

static char *take_text(struct input *in)
{
	static const char *const known[] = {
		"sw-verbs",
		"sw-strict",
		"sw-scalable",
		"hmreg-sw",
		"hmreg",
		"HMREG",
		"127.0.0.1",
		"localhost",
		"7",
		"0",
		"65536",
		"fi_sockaddr_in://127.0.0.1:7",
		"fi_sockaddr://:0",
		"^hmreg",
		"tcp,hmreg",
		"",
	};
	uint8_t how = take_byte(in);
	char *text;
	size_t len;

	if (how < 128)
		return NULL;
	if (how < 224)
		return strdup(known[how % (sizeof(known) / sizeof(known[0]))]);
	len = take_byte(in);
	text = malloc(len + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < len; i++)
		text[i] = (char)take_byte(in);
	text[len] = '\0';
	return text;
}

static void *take_blob(struct input *in, size_t *size)
{
	uint8_t how = take_byte(in);
	uint8_t *blob;

	*size = 0;
	if (how < 128)
		return NULL;
	*size = how - 128u;
	blob = malloc(*size ? *size : 1);
	for (size_t i = 0; blob && i < *size; i++)
		blob[i] = take_byte(in);
	return blob;
}

static void *take_address(struct input *in, size_t *size)
{
	struct sockaddr_in *addr;
	uint8_t how = take_byte(in);

	*size = 0;
	if (how < 128)
		return NULL;
	if (how < 160)
		return take_blob(in, size);
	addr = calloc(1, sizeof(*addr));
	if (!addr)
		return NULL;
	addr->sin_family = AF_INET;
	addr->sin_port = (in_port_t)take_raw(in, 2);
	addr->sin_addr.s_addr = how < 200   ? htonl(INADDR_LOOPBACK)
				: how < 220 ? htonl(INADDR_ANY)
					    : (in_addr_t)take_raw(in, 4);
	*size = sizeof(*addr);
	return addr;
}

static void fill_tx(struct input *in, struct fi_tx_attr *tx)
{
	TAKE(in, tx->caps), TAKE(in, tx->mode), TAKE(in, tx->op_flags), TAKE(in, tx->msg_order);
	TAKE(in, tx->comp_order), TAKE(in, tx->inject_size), TAKE(in, tx->size);
	TAKE(in, tx->iov_limit), TAKE(in, tx->rma_iov_limit), TAKE(in, tx->tclass);
}

static void fill_rx(struct input *in, struct fi_rx_attr *rx)
{
	TAKE(in, rx->caps), TAKE(in, rx->mode), TAKE(in, rx->op_flags), TAKE(in, rx->msg_order);
	TAKE(in, rx->comp_order), TAKE(in, rx->total_buffered_recv), TAKE(in, rx->size);
	TAKE(in, rx->iov_limit);
}

static void fill_ep(struct input *in, struct fi_ep_attr *ep)
{
	TAKE(in, ep->type), TAKE(in, ep->protocol), TAKE(in, ep->protocol_version);
	TAKE(in, ep->max_msg_size), TAKE(in, ep->msg_prefix_size);
	TAKE(in, ep->max_order_raw_size), TAKE(in, ep->max_order_war_size);
	TAKE(in, ep->max_order_waw_size), TAKE(in, ep->mem_tag_format);
	TAKE(in, ep->tx_ctx_cnt), TAKE(in, ep->rx_ctx_cnt);
	free(ep->auth_key);
	ep->auth_key = take_blob(in, &ep->auth_key_size);
	if (take_byte(in) > 200) /* only looked at */
		ep->xpu_ctx = (struct fid_xpu_ctx *)open_fabric;
}

static void fill_domain(struct input *in, struct fi_domain_attr *domain)
{
	TAKE(in, domain->threading), TAKE(in, domain->control_progress);
	TAKE(in, domain->data_progress), TAKE(in, domain->resource_mgmt);
	TAKE(in, domain->av_type), TAKE(in, domain->mr_mode), TAKE(in, domain->mr_key_size);
	TAKE(in, domain->cq_data_size), TAKE(in, domain->cq_cnt), TAKE(in, domain->ep_cnt);
	TAKE(in, domain->tx_ctx_cnt), TAKE(in, domain->rx_ctx_cnt);
	TAKE(in, domain->max_ep_tx_ctx), TAKE(in, domain->max_ep_rx_ctx);
	TAKE(in, domain->max_ep_stx_ctx), TAKE(in, domain->max_ep_srx_ctx);
	TAKE(in, domain->cntr_cnt), TAKE(in, domain->mr_iov_limit), TAKE(in, domain->caps);
	TAKE(in, domain->mode), TAKE(in, domain->max_err_data), TAKE(in, domain->mr_cnt);
	TAKE(in, domain->tclass), TAKE(in, domain->max_ep_auth_key);
	TAKE(in, domain->max_group_id), TAKE(in, domain->max_cntr_value);
	TAKE(in, domain->max_err_cntr_value), TAKE(in, domain->max_xpu_ctx_cnt);
}

static void fill_domain_objects(struct input *in, struct fi_domain_attr *domain)
{
	uint8_t which = take_byte(in);

	domain->name = take_text(in);
	domain->auth_key = take_blob(in, &domain->auth_key_size);
	if (which > 220)
		domain->domain = open_domain;
	else if (which > 210) /* an object of another class */
		domain->domain = (struct fid_domain *)open_fabric;
}

static void fill_fabric(struct input *in, struct fi_fabric_attr *fabric)
{
	uint8_t which = take_byte(in);

	fabric->name = take_text(in);
	fabric->prov_name = take_text(in);
	TAKE(in, fabric->prov_version), TAKE(in, fabric->api_version);
	if (which > 220)
		fabric->fabric = open_fabric;
	else if (which > 210)
		fabric->fabric = (struct fid_fabric *)open_domain;
}

/* Every mode that there is, or a number. */
static int take_mode(struct input *in, int mode)
{
	return take_byte(in) < 64 ? mode : ~(FI_MR_BASIC | FI_MR_SCALABLE) & INT32_MAX;
}

/* Which parts there are is the first byte; a part that is not there is NULL. */
static struct fi_info *take_hints(struct input *in)
{
	struct fi_info *hints = calloc(1, sizeof(*hints));
	uint8_t parts = take_byte(in);

	if (!hints)
		return NULL;
	TAKE(in, hints->caps), TAKE(in, hints->mode), TAKE(in, hints->addr_format);
	hints->src_addr = take_address(in, &hints->src_addrlen);
	hints->dest_addr = take_address(in, &hints->dest_addrlen);
	if ((parts & 1) && (hints->tx_attr = calloc(1, sizeof(*hints->tx_attr))))
		fill_tx(in, hints->tx_attr);
	if ((parts & 2) && (hints->rx_attr = calloc(1, sizeof(*hints->rx_attr))))
		fill_rx(in, hints->rx_attr);
	if ((parts & 4) && (hints->ep_attr = calloc(1, sizeof(*hints->ep_attr))))
		fill_ep(in, hints->ep_attr);
	if ((parts & 8) && (hints->domain_attr = calloc(1, sizeof(*hints->domain_attr)))) {
		fill_domain(in, hints->domain_attr);
		fill_domain_objects(in, hints->domain_attr);
		hints->domain_attr->mr_mode = take_mode(in, hints->domain_attr->mr_mode);
	}
	if ((parts & 16) && (hints->fabric_attr = calloc(1, sizeof(*hints->fabric_attr))))
		fill_fabric(in, hints->fabric_attr);
	return hints;
}

/* ---- what is done with infos ---- */

static void print(struct input *in, const struct fi_info *info)
{
	char all[8192], some[300];
	size_t room = 1 + take_byte(in);

	PROMISE(fi_tostr(info, FI_TYPE_INFO));
	PROMISE(fi_tostr_r(all, sizeof(all), info, FI_TYPE_INFO) == all);
	memset(some, 'x', sizeof(some));
	PROMISE(fi_tostr_r(some, room, info, FI_TYPE_INFO) == some);
	PROMISE(memchr(some, '\0', room));
	PROMISE(some[room] == 'x');
	PROMISE(strncmp(some, all, strlen(some)) == 0);
}

static void open_endpoint(struct fid_domain *domain, struct fi_info *info, bool ours)
{
	struct fid_ep *ep;
	int ret = fi_endpoint(domain, info, &ep, NULL);

	/* hints named an XPU context, which is none */
	if (ours && info->ep_attr->xpu_ctx) {
		PROMISE(ret == -FI_EINVAL && (info->caps & FI_XPU));
		return;
	}
	/* the source address is the caller's wish, and may be taken */
	PROMISE(!ours || ret == 0 || (info->src_addr && ret == -FI_EADDRINUSE));
	if (ret)
		return;
	PROMISE(fi_enable(ep) == -FI_ENOAV);
	PROMISE(fi_close(&ep->fid) == 0);
}

/* ours: as fi_getinfo gave it, so that it has to open. */
static void open_all(struct fi_info *info, bool ours)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	int ret = fi_fabric(info->fabric_attr, &fabric, NULL);

	PROMISE(!ours || ret == 0);
	if (ret)
		return;
	ret = fi_domain(fabric, info, &domain, NULL);
	PROMISE(!ours || ret == 0);
	if (!ret) {
		open_endpoint(domain, info, ours);
		PROMISE(fi_close(&domain->fid) == 0);
	}
	PROMISE(fi_close(&fabric->fid) == 0);
}

/* An application that changes what it got before it opens. */
static void open_changed(struct input *in, struct fi_info *info)
{
	uint8_t parts = take_byte(in);

	if (parts & 1)
		TAKE(in, info->caps), TAKE(in, info->mode);
	if (parts & 2)
		fill_tx(in, info->tx_attr);
	if (parts & 4)
		fill_rx(in, info->rx_attr);
	if (parts & 8)
		fill_ep(in, info->ep_attr);
	if (parts & 16)
		fill_domain(in, info->domain_attr);
	if (parts & 32)
		TAKE(in, info->fabric_attr->api_version);
	if (parts & 64) {
		free(info->src_addr);
		info->src_addr = take_address(in, &info->src_addrlen);
	}
	open_all(info, false);
}

static void use(struct input *in, struct fi_info *list)
{
	for (struct fi_info *at = list; at; at = at->next) {
		struct fi_info *copy = fi_dupinfo(at);

		PROMISE(copy && !copy->next);
		PROMISE(strcmp(copy->domain_attr->name, at->domain_attr->name) == 0);
		print(in, copy);
		open_all(copy, true);
		open_changed(in, copy);
		fi_freeinfo(copy);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = take_byte(&in);
	uint32_t version = how < 200 ? FI_VERSION(2, how % 8u) : (uint32_t)take_raw(&in, 4);
	uint64_t flags = how & 1 ? 0 : take_number(&in);
	char *node = take_text(&in), *service = take_text(&in);
	struct fi_info *hints = take_byte(&in) < 16 ? NULL : take_hints(&in), *info = UNTOUCHED;
	int ret = fi_getinfo(version, node, service, flags, hints, &info);

	PROMISE(ret <= 0);
	if (hints)
		print(&in, hints);
	if (ret == 0) {
		PROMISE(info && info != UNTOUCHED);
		if (!(flags & FI_PROV_ATTR_ONLY))
			use(&in, info);
		fi_freeinfo(info);
	} else {
		PROMISE(ret == -FI_ENODATA ? !info : info == UNTOUCHED);
	}
	fi_freeinfo(hints);
	free(node);
	free(service);
	return 0;
}
