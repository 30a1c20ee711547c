/* SPDX-License-Identifier: BSD-2-Clause */
/* API-03: what each field of hints asks for, one at a time, and addresses. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/conformance/harness.h"

/* Whether the profile is listed for these hints, which are freed. */
static int ask(struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int ret = fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info);

	if (ret)
		assert_null(info);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return ret;
}

static struct fi_info *hints_for(struct conf *c)
{
	return conf_hints(c->profile->name, &(struct conf_opts){ 0 });
}

/* ---- limits: what is offered may be asked for, one more may not ---- */

enum part {
	TX,
	RX,
	EP,
	DOMAIN
};

#define SIZE(part, attr, member)                                                                   \
	{                                                                                          \
#attr "." #member, part, offsetof(struct fi_##attr, member)                        \
	}

static const struct limit {
	const char *name;
	enum part part;
	size_t offset;
} limits[] = {
	SIZE(TX, tx_attr, inject_size),
	SIZE(TX, tx_attr, size),
	SIZE(TX, tx_attr, iov_limit),
	SIZE(TX, tx_attr, rma_iov_limit),
	SIZE(RX, rx_attr, size),
	SIZE(RX, rx_attr, iov_limit),
	SIZE(EP, ep_attr, max_msg_size),
	SIZE(EP, ep_attr, tx_ctx_cnt),
	SIZE(EP, ep_attr, rx_ctx_cnt),
	SIZE(EP, ep_attr, msg_prefix_size),
	SIZE(DOMAIN, domain_attr, mr_key_size),
	SIZE(DOMAIN, domain_attr, cq_data_size),
	SIZE(DOMAIN, domain_attr, cq_cnt),
	SIZE(DOMAIN, domain_attr, ep_cnt),
	SIZE(DOMAIN, domain_attr, cntr_cnt),
	SIZE(DOMAIN, domain_attr, mr_iov_limit),
	SIZE(DOMAIN, domain_attr, mr_cnt),
	SIZE(DOMAIN, domain_attr, max_xpu_ctx_cnt),
};

static size_t *field(struct fi_info *info, const struct limit *limit)
{
	char *base = limit->part == TX	 ? (char *)info->tx_attr
		     : limit->part == RX ? (char *)info->rx_attr
		     : limit->part == EP ? (char *)info->ep_attr
					 : (char *)info->domain_attr;

	return (size_t *)(void *)(base + limit->offset);
}

static void api_03_limits(struct conf *c)
{
	for (size_t i = 0; i < count_of(limits); i++) {
		size_t offered = *field(c->profile->info, &limits[i]);
		struct fi_info *hints = hints_for(c);

		*field(hints, &limits[i]) = offered;
		if (ask(hints))
			fail_msg("%s %zu is not given", limits[i].name, offered);
		if (offered == SIZE_MAX)
			continue;
		hints = hints_for(c);
		*field(hints, &limits[i]) = offered + 1;
		if (ask(hints) != -FI_ENODATA)
			fail_msg("%s %zu is given beyond its limit", limits[i].name, offered + 1);
	}
}

/* ---- capabilities, one at a time ---- */

static void api_03_capabilities(struct conf *c)
{
	bool sw = strncmp(c->profile->name, "sw-", 3) == 0;
	/* what the software NIC has, beside directions */
	const uint64_t has = CONF_CAPS | FI_SOURCE | FI_DIRECTED_RECV | FI_RMA_EVENT | FI_FENCE |
			     FI_LOCAL_COMM | FI_HMEM | FI_XPU;
	const uint64_t directions = CONF_ALL;

	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t cap = UINT64_C(1) << bit;
		struct fi_info *hints = hints_for(c), *info;
		int ret;

		if (cap & directions) {
			fi_freeinfo(hints);
			continue;
		}
		hints->caps = CONF_CAPS | cap;
		ret = fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info);
		fi_freeinfo(hints);
		if (sw)
			assert_int_equal(ret, cap & has ? 0 : -FI_ENODATA);
		if (ret)
			continue;
		assert_true((info->caps & (CONF_CAPS | cap)) == (CONF_CAPS | cap));
		/* no direction asked: all of them */
		assert_true((info->caps & directions) == directions);
		assert_false(info->caps & (FI_TAGGED | FI_HMEM | FI_XPU) & ~cap);
		fi_freeinfo(info);
	}
}

static void api_03_directions(struct conf *c)
{
	static const struct {
		uint64_t asked, tx, rx;
		int code;
	} sets[] = {
		{ FI_MSG | FI_SEND, FI_MSG | FI_SEND, 0, 0 },
		{ FI_MSG | FI_RECV, 0, FI_MSG | FI_RECV, 0 },
		{ FI_MSG, FI_MSG | FI_SEND, FI_MSG | FI_RECV, 0 },
		{ FI_RMA | FI_READ, FI_RMA | FI_READ, 0, 0 },
		{ FI_RMA | FI_REMOTE_WRITE, 0, FI_RMA | FI_REMOTE_WRITE, 0 },
		{ FI_RMA, FI_RMA | FI_READ | FI_WRITE, FI_RMA | CONF_REMOTE, 0 },
		{ FI_ATOMIC | FI_WRITE, FI_ATOMIC | FI_WRITE, 0, 0 },
		{ FI_READ, 0, 0, -FI_ENODATA },
		{ FI_SEND, 0, 0, -FI_ENODATA },
		{ FI_REMOTE_WRITE | FI_MSG, 0, 0, -FI_ENODATA },
	};
	const uint64_t seen = CONF_CAPS | CONF_ALL;

	for (size_t i = 0; i < count_of(sets); i++) {
		struct fi_info *hints = hints_for(c), *info = NULL;

		hints->caps = sets[i].asked;
		assert_answer(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info), sets[i].code);
		fi_freeinfo(hints);
		if (sets[i].code)
			continue;
		assert_true((info->caps & seen) == (sets[i].tx | sets[i].rx));
		assert_true((info->tx_attr->caps & seen) == sets[i].tx);
		assert_true((info->rx_attr->caps & seen) == sets[i].rx);
		fi_freeinfo(info);
	}
}

/* ---- everything else, one at a time ---- */

enum change {
	NOTHING,
	NAME_OTHER,
	NAME_EMPTY,
	FABRIC_RIGHT,
	FABRIC_OTHER,
	PROVIDER_RIGHT,
	PROVIDER_OTHER,
	EP_UNSPEC,
	EP_MSG,
	EP_DGRAM,
	EP_UNKNOWN,
	FORMAT_UNSPEC,
	FORMAT_RIGHT,
	FORMAT_SOCKADDR,
	FORMAT_OTHER,
	PROTOCOL_OTHER,
	PROTOCOL_VERSION,
	TX_FLAGS,
	TX_FLAGS_BAD,
	RX_FLAGS,
	RX_FLAGS_BAD,
	TX_CAPS_BAD,
	RX_CAPS_BAD,
	ORDER_ASKED,
	ORDER_BAD,
	AV_MAP,
	AV_UNKNOWN,
	THREAD_DOMAIN,
	THREAD_UNKNOWN,
	PROGRESS_MANUAL,
	PROGRESS_UNKNOWN,
	RM_UNKNOWN,
	MODE_ANY,
	NO_EP_ATTR,
	NO_TX_ATTR,
	NO_RX_ATTR,
	NO_FABRIC_ATTR,
	CHANGES
};

static void rename_to(char **name, const char *to)
{
	free(*name);
	*name = strdup(to);
	assert_non_null(*name);
}

static void change_names(struct fi_info *h, enum change change, const struct fi_info *right)
{
	switch (change) {
	case NAME_OTHER:
		rename_to(&h->domain_attr->name, "no-such-domain");
		break;
	case NAME_EMPTY:
		rename_to(&h->domain_attr->name, "");
		break;
	case FABRIC_RIGHT:
		rename_to(&h->fabric_attr->name, right->fabric_attr->name);
		break;
	case FABRIC_OTHER:
		rename_to(&h->fabric_attr->name, "no-such-fabric");
		break;
	case PROVIDER_RIGHT:
		rename_to(&h->fabric_attr->prov_name, right->fabric_attr->prov_name);
		break;
	case PROVIDER_OTHER:
		rename_to(&h->fabric_attr->prov_name, "no-such-provider");
		break;
	default:
		break;
	}
}

static void change_endpoint(struct fi_info *h, enum change change, const struct fi_info *right)
{
	switch (change) {
	case EP_UNSPEC:
		h->ep_attr->type = FI_EP_UNSPEC;
		break;
	case EP_MSG:
		h->ep_attr->type = FI_EP_MSG;
		break;
	case EP_DGRAM:
		h->ep_attr->type = FI_EP_DGRAM;
		break;
	case EP_UNKNOWN:
		h->ep_attr->type = (enum fi_ep_type)77;
		break;
	case FORMAT_UNSPEC:
		h->addr_format = FI_FORMAT_UNSPEC;
		break;
	case FORMAT_RIGHT:
		h->addr_format = right->addr_format;
		break;
	case FORMAT_SOCKADDR:
		h->addr_format = FI_SOCKADDR;
		break;
	case FORMAT_OTHER:
		h->addr_format = FI_ADDR_GNI;
		break;
	case PROTOCOL_OTHER:
		h->ep_attr->protocol = FI_PROTO_PSMX2;
		break;
	case PROTOCOL_VERSION:
		h->ep_attr->protocol_version = 1000;
		break;
	default:
		break;
	}
}

static void change_attributes(struct fi_info *h, enum change change)
{
	switch (change) {
	case TX_FLAGS:
		h->tx_attr->op_flags = FI_COMPLETION | FI_INJECT | FI_DELIVERY_COMPLETE;
		break;
	case TX_FLAGS_BAD:
		h->tx_attr->op_flags = FI_TRIGGER;
		break;
	case RX_FLAGS:
		h->rx_attr->op_flags = FI_COMPLETION;
		break;
	case RX_FLAGS_BAD:
		h->rx_attr->op_flags = FI_INJECT;
		break;
	case TX_CAPS_BAD:
		h->tx_attr->caps = FI_MSG | FI_RECV;
		break;
	case RX_CAPS_BAD:
		h->rx_attr->caps = FI_MSG | FI_SEND;
		break;
	case ORDER_ASKED:
		h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS;
		break;
	case ORDER_BAD:
		h->tx_attr->msg_order = UINT64_C(1) << 60;
		break;
	case AV_MAP:
		h->domain_attr->av_type = FI_AV_MAP;
		break;
	case AV_UNKNOWN:
		h->domain_attr->av_type = (enum fi_av_type)9;
		break;
	case THREAD_DOMAIN:
		h->domain_attr->threading = FI_THREAD_DOMAIN;
		break;
	case THREAD_UNKNOWN:
		h->domain_attr->threading = (enum fi_threading)99;
		break;
	case PROGRESS_MANUAL:
		h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
		break;
	case PROGRESS_UNKNOWN:
		h->domain_attr->control_progress = (enum fi_progress)99;
		break;
	case RM_UNKNOWN:
		h->domain_attr->resource_mgmt = (enum fi_resource_mgmt)9;
		break;
	case MODE_ANY:
		h->mode = UINT64_MAX;
		break;
	default:
		break;
	}
}

static void remove_part(struct fi_info *h, enum change change)
{
	switch (change) {
	case NO_EP_ATTR:
		free(h->ep_attr);
		h->ep_attr = NULL;
		break;
	case NO_TX_ATTR:
		free(h->tx_attr);
		h->tx_attr = NULL;
		break;
	case NO_RX_ATTR:
		free(h->rx_attr);
		h->rx_attr = NULL;
		break;
	case NO_FABRIC_ATTR:
		free(h->fabric_attr);
		h->fabric_attr = NULL;
		break;
	default:
		break;
	}
}

static bool matches(enum change change, const struct fi_info *right)
{
	static const enum change never[] = {
		NAME_OTHER,   NAME_EMPTY,     FABRIC_OTHER,	PROVIDER_OTHER, EP_MSG,
		EP_DGRAM,     EP_UNKNOWN,     FORMAT_OTHER,	PROTOCOL_OTHER, PROTOCOL_VERSION,
		TX_FLAGS_BAD, RX_FLAGS_BAD,   TX_CAPS_BAD,	RX_CAPS_BAD,	ORDER_BAD,
		AV_UNKNOWN,   THREAD_UNKNOWN, PROGRESS_UNKNOWN, RM_UNKNOWN,
	};

	if (change == FORMAT_SOCKADDR)
		return right->addr_format == FI_SOCKADDR_IN ||
		       right->addr_format == FI_SOCKADDR_IN6;
	for (size_t i = 0; i < count_of(never); i++)
		if (never[i] == change)
			return false;
	return true;
}

static bool is_name(int change)
{
	return change == NAME_OTHER || change == NAME_EMPTY || change == FABRIC_OTHER;
}

static void api_03_each_hint(struct conf *c)
{
	for (int change = 0; change < CHANGES; change++) {
		struct fi_info *hints = hints_for(c);
		bool match = matches((enum change)change, c->profile->info);
		int ret;

		change_names(hints, (enum change)change, c->profile->info);
		change_endpoint(hints, (enum change)change, c->profile->info);
		change_attributes(hints, (enum change)change);
		remove_part(hints, (enum change)change);
		conf_log_mark(__FILE__, __LINE__);
		ret = ask(hints);
		if (ret != (match ? 0 : -FI_ENODATA))
			fail_msg("change %d: %d", change, ret);
		/* a name that nothing has is told, with those that there are */
		conf_log_expect(is_name(change), is_name(change) ? "; there are: " : NULL, "hints",
				__FILE__, __LINE__);
	}
}

/* Open objects in hints select what is theirs, and come back. */
static void api_03_open_objects(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct fi_info *hints = hints_for(c), *info;

	hints->fabric_attr->fabric = end->fabric;
	hints->domain_attr->domain = end->domain;
	assert_ok(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info));
	assert_null(info->next);
	assert_ptr_equal(info->fabric_attr->fabric, end->fabric);
	assert_ptr_equal(info->domain_attr->domain, end->domain);
	fi_freeinfo(info);
	hints->domain_attr->domain = (struct fid_domain *)(void *)end->fabric;
	assert_refused(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info), -FI_EINVAL);
	fi_freeinfo(hints);
}

/* ---- flags and addresses ---- */

static void api_03_flags(struct conf *c)
{
	struct fi_info *info = NULL;

	(void)c;
	for (unsigned int bit = 0; bit < 64; bit++) {
		uint64_t flag = UINT64_C(1) << bit;

		if (flag & (FI_NUMERICHOST | FI_PROV_ATTR_ONLY | FI_RESCAN)) {
			assert_ok(fi_getinfo(CONF_VERSION, NULL, NULL, flag, NULL, &info));
			assert_string_equal(info->fabric_attr->prov_name, "hmreg");
			fi_freeinfo(info);
			info = NULL;
			continue;
		}
		/* FI_SOURCE without an address is the caller's mistake, too */
		assert_refused(fi_getinfo(CONF_VERSION, NULL, NULL, flag, NULL, &info),
			       flag == FI_SOURCE ? -FI_EINVAL : -FI_EBADFLAGS);
		assert_null(info);
	}
	assert_refused(fi_getinfo(CONF_VERSION, NULL, NULL, 0, NULL, NULL), -FI_EINVAL);
}

/* An IPv4 address that the port has: the software NIC's is loopback, a device may have another. */
static void own_node(const struct conf *c, char node[INET_ADDRSTRLEN])
{
	const struct sockaddr_in *in = c->profile->info->src_addr;

	snprintf(node, INET_ADDRSTRLEN, "127.0.0.1");
	if (!c->profile->at_once && in && in->sin_family == AF_INET)
		assert_non_null(inet_ntop(AF_INET, &in->sin_addr, node, INET_ADDRSTRLEN));
}

static void api_03_node_and_service(struct conf *c)
{
	struct fi_info *hints = hints_for(c), *info;
	struct sockaddr_in *in, name;
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	size_t len = sizeof(name);
	char node[INET_ADDRSTRLEN];
	struct fid_ep *ep;

	own_node(c, node);
	assert_ok(
		fi_getinfo(CONF_VERSION, node, "29871", FI_SOURCE | FI_NUMERICHOST, hints, &info));
	in = info->src_addr;
	assert_non_null(in);
	assert_int_equal(info->src_addrlen, sizeof(*in));
	assert_int_equal(ntohs(in->sin_port), 29871);
	/* the endpoint has the address that was asked for */
	assert_ok(fi_endpoint(end->domain, info, &ep, NULL));
	assert_ok(fi_getname(&ep->fid, &name, &len));
	assert_int_equal(ntohs(name.sin_port), 29871);
	assert_ok(fi_close(&ep->fid));
	fi_freeinfo(info);

	assert_ok(fi_getinfo(CONF_VERSION, node, "29871", 0, hints, &info));
	in = info->dest_addr;
	assert_non_null(in);
	assert_int_equal(ntohs(in->sin_port), 29871);
	fi_freeinfo(info);

	info = NULL;
	assert_refused(fi_getinfo(CONF_VERSION, node, "x29871", 0, hints, &info), -FI_EINVAL);
	assert_refused(fi_getinfo(CONF_VERSION, "no.such.host.invalid", "1", 0, hints, &info),
		       -FI_ENODATA);
	assert_refused(fi_getinfo(CONF_VERSION, "localhost", "1", FI_NUMERICHOST, hints, &info),
		       -FI_ENODATA);
	/* far away: a good address that none of the ports reaches */
	assert_answer(fi_getinfo(CONF_VERSION, "192.0.2.1", "1", 0, hints, &info), -FI_ENODATA);
	assert_null(info);
	hints->src_addr = strdup("x");
	hints->src_addrlen = 0;
	assert_refused(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info), -FI_EINVAL);
	fi_freeinfo(hints);
}

static const struct conf_case cases[] = {
	CONF(api_03_limits),	       CONF(api_03_capabilities), CONF(api_03_directions),
	CONF(api_03_each_hint),	       CONF(api_03_open_objects), CONF(api_03_flags),
	CONF(api_03_node_and_service),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
