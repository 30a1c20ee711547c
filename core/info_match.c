/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a port offers, and how hints narrow it: fi_getinfo(3), fi_domain(3), fi_endpoint(3), fi_mr(3).
 * A hint of 0 asks for nothing.  Every refusal is one line at level info that names the field, which
 * is how a user learns why an interface is not listed.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/addr.h"
#include "core/auth.h"
#include "core/core.h"
#include "core/ep.h"
#include "core/info.h"

#define QUEUE_COUNT (1u << 16) /* bounded by memory alone; a figure that programs can multiply */

#define MSG_CAPS      (FI_MSG | FI_TAGGED | FI_MULTICAST)
#define RMA_CAPS      (FI_RMA | FI_ATOMIC)
#define MSG_DIRECTION (FI_SEND | FI_RECV)
#define RMA_INITIATOR (FI_READ | FI_WRITE)
#define RMA_TARGET    (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define RMA_DIRECTION (RMA_INITIATOR | RMA_TARGET)

/* May be reported without having been asked for, where that costs nothing. */
#define SECONDARY_CAPS                                                                             \
	(FI_MULTI_RECV | FI_SOURCE | FI_RMA_EVENT | FI_SHARED_AV | FI_TRIGGER | FI_FENCE |         \
	 FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SOURCE_ERR | FI_RMA_PMEM)
#define DOMAIN_CAPS                                                                                \
	(FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV | FI_PEER | FI_AV_USER_ID | FI_XPU)
#define TX_CAPS                                                                                    \
	(MSG_CAPS | RMA_CAPS | FI_COLLECTIVE | FI_SEND | RMA_INITIATOR | FI_HMEM | FI_TRIGGER |    \
	 FI_FENCE | FI_RMA_PMEM | FI_NAMED_RX_CTX | FI_XPU)
#define RX_CAPS                                                                                    \
	(MSG_CAPS | RMA_CAPS | FI_COLLECTIVE | FI_RECV | RMA_TARGET | FI_HMEM | FI_TRIGGER |       \
	 FI_RMA_PMEM | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE | FI_RMA_EVENT |               \
	 FI_SOURCE_ERR | FI_XPU)

/* ---- refusals ---- */

bool hm_offer_refuse(const struct nic_port *port, const char *field, const char *fmt, ...)
{
	char why[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	HM_INFO(FI_LOG_CORE, "%s/%s does not match: hints->%s: %s", port->fabric_name,
		port->domain_name, field, why);
	return false;
}

static bool refuse_bits(const struct nic_port *port, const char *field, enum fi_type type,
			uint64_t asked, uint64_t offered)
{
	uint64_t lacking = asked & ~offered;
	char text[3][384];

	return hm_offer_refuse(port, field, "asked [%s], offered [%s], lacking [%s]",
			       fi_tostr_r(text[0], sizeof(text[0]), &asked, type),
			       fi_tostr_r(text[1], sizeof(text[1]), &offered, type),
			       fi_tostr_r(text[2], sizeof(text[2]), &lacking, type));
}

/* ---- the full offer ---- */

static void offer_contexts(struct fi_tx_attr *tx, struct fi_rx_attr *rx,
			   const struct nic_port *port)
{
	/* Completions have no order: some wait for the peer, and peers deliver in parallel. */
	tx->msg_order = port->msg_order;
	tx->comp_order = FI_ORDER_NONE;
	tx->inject_size = port->inject_size;
	tx->size = port->tx_size;
	tx->iov_limit = port->iov_limit;
	tx->rma_iov_limit = port->rma_iov_limit;
	rx->msg_order = port->msg_order;
	rx->comp_order = FI_ORDER_NONE;
	rx->size = port->rx_size;
	rx->iov_limit = port->iov_limit;
}

/* Ordered classes are ordered for data of any size, the others for none. */
static size_t ordered_size(const struct nic_port *port, uint64_t orders)
{
	return port->msg_order & orders ? port->max_msg_size : 0;
}

static void offer_endpoint(struct fi_ep_attr *ep, const struct nic_port *port)
{
	if (port->no_endpoints)
		return; /* FI_EP_UNSPEC, and no limit to ask about */
	ep->type = FI_EP_RDM;
	ep->protocol = port->protocol;
	ep->protocol_version = 1;
	ep->max_msg_size = port->max_msg_size;
	ep->max_order_raw_size =
		ordered_size(port, FI_ORDER_RAW | FI_ORDER_RMA_RAW | FI_ORDER_ATOMIC_RAW);
	ep->max_order_war_size =
		ordered_size(port, FI_ORDER_WAR | FI_ORDER_RMA_WAR | FI_ORDER_ATOMIC_WAR);
	ep->max_order_waw_size =
		ordered_size(port, FI_ORDER_WAW | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_WAW);
	ep->tx_ctx_cnt = 1;
	ep->rx_ctx_cnt = 1;
}

static void offer_domain(struct fi_domain_attr *domain, const struct nic_port *port, uint64_t caps)
{
	domain->name = (char *)(uintptr_t)port->domain_name;
	domain->threading = FI_THREAD_SAFE;
	domain->control_progress = FI_PROGRESS_AUTO;
	domain->data_progress = FI_PROGRESS_AUTO;
	domain->resource_mgmt = FI_RM_ENABLED;
	domain->av_type = FI_AV_TABLE;
	domain->mr_mode = port->mr_mode;
	domain->mr_key_size = port->mr_key_size;
	domain->cq_data_size = port->cq_data_size;
	domain->cq_cnt = QUEUE_COUNT;
	domain->ep_cnt = port->ep_count;
	domain->tx_ctx_cnt = port->ep_count;
	domain->rx_ctx_cnt = port->ep_count;
	domain->max_ep_tx_ctx = port->no_endpoints ? 0 : 1;
	domain->max_ep_rx_ctx = domain->max_ep_tx_ctx;
	domain->cntr_cnt = QUEUE_COUNT;
	domain->mr_iov_limit = port->mr_iov_limit;
	domain->caps = caps & DOMAIN_CAPS;
	domain->mr_cnt = port->max_mr_count;
	domain->max_ep_auth_key = port->max_ep_auth_key;
	domain->max_cntr_value = UINT64_MAX;
	domain->max_err_cntr_value = UINT64_MAX;
	domain->max_xpu_ctx_cnt = caps & FI_XPU ? HM_XPU_CTX_MAX : 0;
}

/* Field by field onto zeroes: the structs are copied out whole, and padding must not leak. */
void hm_offer_init(struct hm_offer *offer, const struct nic_port *port, uint32_t version)
{
	memset(offer, 0, sizeof(*offer));
	offer->port = port;
	offer->caps = hm_port_caps(port, version);
	offer_contexts(&offer->tx, &offer->rx, port);
	offer_endpoint(&offer->ep, port);
	offer_domain(&offer->domain, port, offer->caps);
	offer->fabric.name = (char *)(uintptr_t)port->fabric_name;
	offer->fabric.prov_name = (char *)(uintptr_t)HM_PROVIDER_NAME;
	offer->fabric.prov_version = HM_PROVIDER_VERSION;
	offer->fabric.api_version = version;
	offer->info.caps = offer->caps & ~port->optional_caps;
	offer->info.addr_format = port->addr_format;
	offer->info.tx_attr = &offer->tx;
	offer->info.rx_attr = &offer->rx;
	offer->info.ep_attr = &offer->ep;
	offer->info.domain_attr = &offer->domain;
	offer->info.fabric_attr = &offer->fabric;
	offer->info.nic = (struct fid_nic *)(uintptr_t)port->nic;
}

/* ---- tables of fields that are compared alike ---- */

enum part {
	PART_TX,
	PART_RX,
	PART_EP,
	PART_DOMAIN
};

struct field {
	const char *name;
	enum part part;
	size_t offset;
	uint64_t value;	   /* fields of 4 bytes: the greatest value that is understood */
	enum fi_type type; /* bits: how to print them */
	uint32_t since;	   /* the attributes of programs for an older interface end before */
};

#define FIELD_SINCE(since, part, attr, member, ...)                                                \
	{                                                                                          \
#attr "->" #member, part, offsetof(struct fi_##attr, member), __VA_ARGS__, since   \
	}
#define FIELD(...) FIELD_SINCE(0, __VA_ARGS__)

/* 8 bytes: at most what is offered.  Counters hold any value of 8 bytes, so that none is refused. */
static const struct field limits[] = {
	FIELD(PART_TX, tx_attr, inject_size, 0, 0),
	FIELD(PART_TX, tx_attr, size, 0, 0),
	FIELD(PART_TX, tx_attr, iov_limit, 0, 0),
	FIELD(PART_TX, tx_attr, rma_iov_limit, 0, 0),
	FIELD(PART_RX, rx_attr, size, 0, 0),
	FIELD(PART_RX, rx_attr, iov_limit, 0, 0),
	FIELD(PART_EP, ep_attr, max_msg_size, 0, 0),
	FIELD(PART_EP, ep_attr, msg_prefix_size, 0, 0),
	FIELD(PART_EP, ep_attr, max_order_raw_size, 0, 0),
	FIELD(PART_EP, ep_attr, max_order_war_size, 0, 0),
	FIELD(PART_EP, ep_attr, max_order_waw_size, 0, 0),
	FIELD(PART_EP, ep_attr, tx_ctx_cnt, 0, 0),
	FIELD(PART_EP, ep_attr, rx_ctx_cnt, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, mr_key_size, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, cq_data_size, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, cq_cnt, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, ep_cnt, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, tx_ctx_cnt, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, rx_ctx_cnt, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, max_ep_tx_ctx, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, max_ep_rx_ctx, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, max_ep_stx_ctx, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, max_ep_srx_ctx, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, cntr_cnt, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, mr_iov_limit, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, max_err_data, 0, 0),
	FIELD(PART_DOMAIN, domain_attr, mr_cnt, 0, 0),
	FIELD_SINCE(FI_VERSION(1, 20), PART_DOMAIN, domain_attr, max_ep_auth_key, 0, 0),
	FIELD_SINCE(HM_XPU_VERSION, PART_DOMAIN, domain_attr, max_xpu_ctx_cnt, 0, 0),
};

/* 4 bytes: any value up to this one is fine, since the port does the strictest of them. */
static const struct field choices[] = {
	FIELD(PART_DOMAIN, domain_attr, threading, FI_THREAD_ENDPOINT, 0),
	FIELD(PART_DOMAIN, domain_attr, control_progress, FI_PROGRESS_CONTROL_UNIFIED, 0),
	FIELD(PART_DOMAIN, domain_attr, data_progress, FI_PROGRESS_CONTROL_UNIFIED, 0),
	FIELD(PART_DOMAIN, domain_attr, resource_mgmt, FI_RM_ENABLED, 0),
	FIELD(PART_DOMAIN, domain_attr, av_type, FI_AV_TABLE, 0),
	FIELD_SINCE(FI_VERSION(2, 0), PART_DOMAIN, domain_attr, max_group_id, 0, 0),
};

/* 8 bytes of bits: none but those offered. */
static const struct field subsets[] = {
	FIELD(PART_TX, tx_attr, msg_order, 0, FI_TYPE_MSG_ORDER),
	FIELD(PART_TX, tx_attr, comp_order, 0, FI_TYPE_MSG_ORDER),
	FIELD(PART_RX, rx_attr, msg_order, 0, FI_TYPE_MSG_ORDER),
	FIELD(PART_RX, rx_attr, comp_order, 0, FI_TYPE_MSG_ORDER),
	FIELD(PART_DOMAIN, domain_attr, caps, 0, FI_TYPE_CAPS),
};

static_assert(sizeof(size_t) == sizeof(uint64_t), "limits are compared as 8 bytes");
static_assert(sizeof(enum fi_threading) == sizeof(uint32_t), "choices are compared as 4 bytes");

static const char *part_of(const struct fi_info *info, enum part part)
{
	switch (part) {
	case PART_TX:
		return (const char *)info->tx_attr;
	case PART_RX:
		return (const char *)info->rx_attr;
	case PART_EP:
		return (const char *)info->ep_attr;
	default:
		return (const char *)info->domain_attr;
	}
}

/* What a field holds; 0 where hints do not bring its struct. */
static uint64_t load8(const struct fi_info *info, const struct field *field)
{
	const char *base = part_of(info, field->part);
	uint64_t value = 0;

	if (base)
		memcpy(&value, base + field->offset, sizeof(value));
	return value;
}

static uint32_t load4(const struct fi_info *info, const struct field *field)
{
	const char *base = part_of(info, field->part);
	uint32_t value = 0;

	if (base)
		memcpy(&value, base + field->offset, sizeof(value));
	return value;
}

/* For these fields hints of this interface version have no room. */
static bool is_newer(const struct field *field, uint32_t version)
{
	return FI_VERSION_LT(version, field->since);
}

static bool match_tables(const struct hm_offer *offer, const struct fi_info *hints,
			 uint32_t version)
{
	for (size_t i = 0; i < count_of(limits); i++) {
		uint64_t asked = is_newer(&limits[i], version) ? 0 : load8(hints, &limits[i]),
			 offered = load8(&offer->info, &limits[i]);

		if (asked > offered)
			return hm_offer_refuse(offer->port, limits[i].name,
					       "asked %" PRIu64 ", offered %" PRIu64, asked,
					       offered);
	}
	for (size_t i = 0; i < count_of(choices); i++) {
		uint32_t asked = is_newer(&choices[i], version) ? 0 : load4(hints, &choices[i]);

		if (asked > choices[i].value)
			return hm_offer_refuse(offer->port, choices[i].name,
					       "asked %" PRIu32 ", known up to %" PRIu64, asked,
					       choices[i].value);
	}
	for (size_t i = 0; i < count_of(subsets); i++) {
		uint64_t asked = load8(hints, &subsets[i]),
			 offered = load8(&offer->info, &subsets[i]);

		if (asked & ~offered)
			return refuse_bits(offer->port, subsets[i].name, subsets[i].type, asked,
					   offered);
	}
	return true;
}

/* ---- capabilities ---- */

/* A primary capability without a direction means both, as far as the side at hand has them. */
static uint64_t with_directions(uint64_t caps, uint64_t within)
{
	if ((caps & MSG_CAPS) && !(caps & MSG_DIRECTION))
		caps |= MSG_DIRECTION & within;
	if ((caps & RMA_CAPS) && !(caps & RMA_DIRECTION))
		caps |= RMA_DIRECTION & within;
	return caps;
}

static uint64_t free_extras(const struct nic_port *port, uint64_t caps)
{
	uint64_t extras = port->caps & SECONDARY_CAPS & ~port->optional_caps;

	if (!(caps & FI_RECV))
		extras &= ~(FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR);
	if (!(caps & RMA_TARGET))
		extras &= ~(FI_RMA_EVENT | FI_RMA_PMEM);
	return extras;
}

static bool narrow_caps(struct hm_offer *offer, uint64_t asked)
{
	const struct nic_port *port = offer->port;

	if (!asked)
		return true;
	if (asked & ~offer->caps)
		return refuse_bits(port, "caps", FI_TYPE_CAPS, asked, offer->caps);
	if ((asked & RMA_DIRECTION) && !(asked & RMA_CAPS))
		return hm_offer_refuse(port, "caps",
				       "FI_READ, FI_WRITE, FI_REMOTE_READ and FI_REMOTE_WRITE need "
				       "FI_RMA or FI_ATOMIC");
	if ((asked & MSG_DIRECTION) && !(asked & (MSG_CAPS | FI_COLLECTIVE)))
		return hm_offer_refuse(port, "caps",
				       "FI_SEND and FI_RECV need FI_MSG or FI_TAGGED");
	offer->info.caps = with_directions(asked, port->caps);
	offer->info.caps |= free_extras(port, offer->info.caps);
	return true;
}

/* caps of one side: those of the endpoint that concern it, or fewer when hints say so. */
static bool narrow_side(const struct hm_offer *offer, const char *field, uint64_t asked,
			uint64_t side, uint64_t *caps)
{
	uint64_t offered = offer->info.caps & side;

	/* A primary capability that has directions, but none on this side, is not on this side. */
	if (!(offered & MSG_DIRECTION))
		offered &= ~MSG_CAPS;
	if (!(offered & RMA_DIRECTION))
		offered &= ~RMA_CAPS;
	if (asked & ~offered)
		return refuse_bits(offer->port, field, FI_TYPE_CAPS, asked, offered);
	*caps = asked ? with_directions(asked, offered) : offered;
	return true;
}

/* ---- memory registration mode ---- */

/* The model of interface versions below 1.5 that describes the port, FI_MR_UNSPEC if neither does. */
static int model_of(const struct nic_port *port)
{
	int need = port->mr_mode & ~FI_MR_LOCAL;
	int can = port->mr_mode | port->mr_mode_kept;

	if (!port->mr_mode)
		return FI_MR_SCALABLE;
	if ((need & ~HM_MR_BASIC_BITS) || !(can & FI_MR_VIRT_ADDR) || !(can & FI_MR_PROV_KEY))
		return FI_MR_UNSPEC;
	return FI_MR_BASIC;
}

static const char *mode_text(char *buf, size_t len, int mode)
{
	if (mode == FI_MR_UNSPEC)
		return "none";
	return fi_tostr_r(buf, len, &mode, FI_TYPE_MR_MODE);
}

static bool refuse_mode(const struct nic_port *port, int asked)
{
	char text[2][256];

	return hm_offer_refuse(port, "domain_attr->mr_mode", "given [%s], needed [%s]",
			       mode_text(text[0], sizeof(text[0]), asked),
			       mode_text(text[1], sizeof(text[1]), port->mr_mode));
}

/* The basic model of a port that needs nothing of it, but keeps all of it. */
static bool keeps_basic(const struct nic_port *port)
{
	return !port->mr_mode && !(HM_MR_BASIC_BITS & ~port->mr_mode_kept);
}

static bool narrow_to_model(struct hm_offer *offer, int asked)
{
	int model = model_of(offer->port);

	if (asked == FI_MR_BASIC && keeps_basic(offer->port))
		model = FI_MR_BASIC;
	if (model == FI_MR_UNSPEC || (asked != FI_MR_UNSPEC && asked != model))
		return refuse_mode(offer->port, asked);
	offer->domain.mr_mode = model;
	return true;
}

/* Below 1.5 there are the two models, and local registration is a mode bit of its own. */
static bool narrow_old_mode(struct hm_offer *offer, const struct fi_info *hints, int asked)
{
	if (!narrow_to_model(offer, asked))
		return false;
	if (!(offer->port->mr_mode & FI_MR_LOCAL)) {
		if (hints && (offer->port->mr_mode_kept & FI_MR_LOCAL))
			offer->info.mode |= hints->mode & FI_LOCAL_MR;
		return true;
	}
	if (hints && !(hints->mode & FI_LOCAL_MR))
		return hm_offer_refuse(offer->port, "mode",
				       "FI_LOCAL_MR is needed and not given (interface below 1.5)");
	offer->info.mode |= FI_LOCAL_MR;
	return true;
}

static bool narrow_mr_mode(struct hm_offer *offer, const struct fi_info *hints, uint32_t version)
{
	const struct fi_domain_attr *attr = hints ? hints->domain_attr : NULL;
	int asked = attr ? attr->mr_mode : FI_MR_UNSPEC;

	if (FI_VERSION_LT(version, FI_VERSION(1, 5)))
		return narrow_old_mode(offer, hints, asked);
	if (asked == FI_MR_BASIC || asked == FI_MR_SCALABLE)
		return narrow_to_model(offer, asked);
	if (attr && (offer->port->mr_mode & ~asked))
		return refuse_mode(offer->port, asked);
	offer->domain.mr_mode |= asked & offer->port->mr_mode_kept;
	return true;
}

/* Keys of more than 8 bytes are raw keys. */
static bool narrow_key_size(struct hm_offer *offer, const struct fi_info *hints)
{
	size_t asked = hints && hints->domain_attr ? hints->domain_attr->mr_key_size : 0;

	if ((offer->domain.mr_mode & FI_MR_RAW) || offer->domain.mr_key_size <= sizeof(uint64_t))
		return true;
	offer->domain.mr_key_size = sizeof(uint64_t);
	if (asked <= sizeof(uint64_t))
		return true;
	return hm_offer_refuse(offer->port, "domain_attr->mr_key_size",
			       "asked %zu, keys have %zu bytes without FI_MR_RAW", asked,
			       sizeof(uint64_t));
}

/* ---- the rest ---- */

static bool match_name(const struct nic_port *port, const char *field, const char *asked,
		       const char *name)
{
	if (!asked || strcmp(asked, name) == 0)
		return true;
	return hm_offer_refuse(port, field, "asked \"%s\", this is \"%s\"", asked, name);
}

static bool match_objects(struct hm_offer *offer, const struct fi_info *hints)
{
	const struct nic_port *port = offer->port;
	const struct fi_fabric_attr *fabric = hints->fabric_attr;
	const struct fi_domain_attr *domain = hints->domain_attr;

	if (fabric) {
		if (!match_name(port, "fabric_attr->name", fabric->name, port->fabric_name))
			return false;
		if (fabric->fabric &&
		    !match_name(port, "fabric_attr->fabric",
				hm_fabric_of(&fabric->fabric->fid)->name, port->fabric_name))
			return false;
		offer->fabric.fabric = fabric->fabric;
	}
	if (domain) {
		if (!match_name(port, "domain_attr->name", domain->name, port->domain_name))
			return false;
		if (domain->domain && hm_domain_of(&domain->domain->fid)->nic->port != port)
			return hm_offer_refuse(port, "domain_attr->domain",
					       "the open domain belongs to another port");
		offer->domain.domain = domain->domain;
	}
	return true;
}

static bool match_endpoint(struct hm_offer *offer, const struct fi_ep_attr *ep, uint32_t version)
{
	const struct nic_port *port = offer->port;
	char text[2][64];

	if (ep->type != FI_EP_UNSPEC && ep->type != FI_EP_RDM)
		return hm_offer_refuse(port, "ep_attr->type", "asked %s, offered FI_EP_RDM",
				       fi_tostr_r(text[0], sizeof(text[0]), &ep->type,
						  FI_TYPE_EP_TYPE));
	if (ep->protocol && ep->protocol != port->protocol)
		return hm_offer_refuse(
			port, "ep_attr->protocol", "asked %s, offered %s",
			fi_tostr_r(text[0], sizeof(text[0]), &ep->protocol, FI_TYPE_PROTOCOL),
			fi_tostr_r(text[1], sizeof(text[1]), &port->protocol, FI_TYPE_PROTOCOL));
	if (ep->protocol_version > 1)
		return hm_offer_refuse(port, "ep_attr->protocol_version",
				       "asked %" PRIu32 ", offered 1", ep->protocol_version);
	if (FI_VERSION_LT(version, HM_XPU_VERSION)) /* the attributes end before */
		return true;
	if (ep->xpu_ctx && !(offer->info.caps & FI_XPU))
		return hm_offer_refuse(port, "ep_attr->xpu_ctx", "set without FI_XPU in caps");
	offer->ep.xpu_ctx = ep->xpu_ctx; /* whether it is one, its domain knows */
	return true;
}

static bool match_format(const struct nic_port *port, uint32_t asked)
{
	char text[2][64];

	if (asked == FI_FORMAT_UNSPEC || asked == port->addr_format ||
	    ((asked == FI_SOCKADDR || asked == FI_SOCKADDR_IP) &&
	     hm_addr_format_family(port->addr_format)))
		return true;
	return hm_offer_refuse(port, "addr_format", "asked %s, offered %s",
			       fi_tostr_r(text[0], sizeof(text[0]), &asked, FI_TYPE_ADDR_FORMAT),
			       fi_tostr_r(text[1], sizeof(text[1]), &port->addr_format,
					  FI_TYPE_ADDR_FORMAT));
}

/* Default operation flags are returned as they were asked for. */
static bool narrow_op_flags(struct hm_offer *offer, const struct fi_info *hints)
{
	uint64_t tx = hints->tx_attr ? hints->tx_attr->op_flags : 0;
	uint64_t rx = hints->rx_attr ? hints->rx_attr->op_flags : 0;
	uint64_t rx_offered = HM_RX_OP_FLAGS | (offer->port->caps & FI_MULTI_RECV);

	if (tx & ~HM_TX_OP_FLAGS)
		return refuse_bits(offer->port, "tx_attr->op_flags", FI_TYPE_OP_FLAGS, tx,
				   HM_TX_OP_FLAGS);
	if (rx & ~rx_offered)
		return refuse_bits(offer->port, "rx_attr->op_flags", FI_TYPE_OP_FLAGS, rx,
				   rx_offered);
	offer->tx.op_flags = tx;
	offer->rx.op_flags = rx;
	return true;
}

/* FI_XPU is a domain's only where it was asked for, of the domain or of its endpoints. */
static void narrow_domain_caps(struct hm_offer *offer, const struct fi_domain_attr *asked)
{
	if (!((offer->info.caps | (asked ? asked->caps : 0)) & FI_XPU))
		offer->domain.caps &= ~FI_XPU;
}

bool hm_offer_narrow(struct hm_offer *offer, const struct fi_info *hints, uint32_t version)
{
	uint64_t tx_caps = hints && hints->tx_attr ? hints->tx_attr->caps : 0;
	uint64_t rx_caps = hints && hints->rx_attr ? hints->rx_attr->caps : 0;

	if (hints) {
		if (!match_objects(offer, hints) ||
		    !match_format(offer->port, hints->addr_format) ||
		    !narrow_caps(offer, hints->caps) || !match_tables(offer, hints, version) ||
		    !narrow_op_flags(offer, hints) || !hm_auth_narrow(offer, hints, version))
			return false;
		if (hints->ep_attr && !match_endpoint(offer, hints->ep_attr, version))
			return false;
		if (hints->domain_attr && hints->domain_attr->av_type != FI_AV_UNSPEC)
			offer->domain.av_type = hints->domain_attr->av_type;
	}
	narrow_domain_caps(offer, hints ? hints->domain_attr : NULL);
	return narrow_side(offer, "tx_attr->caps", tx_caps, TX_CAPS, &offer->tx.caps) &&
	       narrow_side(offer, "rx_attr->caps", rx_caps, RX_CAPS, &offer->rx.caps) &&
	       narrow_mr_mode(offer, hints, version) && narrow_key_size(offer, hints);
}
