/* SPDX-License-Identifier: BSD-2-Clause */
/* Authorization keys of hints, domains and endpoints: fi_getinfo(3), fi_domain(3), fi_endpoint(3). */
#include "core/auth.h"

/* Keys came with 1.5, those in address vectors with 1.20. */
static bool has_keys(uint32_t version)
{
	return FI_VERSION_GE(version, FI_VERSION(1, 5));
}

static bool in_vectors(uint32_t version, size_t size)
{
	return size == FI_AV_AUTH_KEY && FI_VERSION_GE(version, FI_VERSION(1, 20));
}

/* ---- hints ---- */

static bool narrow_key(const struct nic_port *port, const char *field, const uint8_t *key,
		       size_t size)
{
	if (size > port->auth_key_size)
		return hm_offer_refuse(port, field, "asked %zu, offered %zu", size,
				       port->auth_key_size);
	if (size && !key)
		return hm_offer_refuse(port, field, "%zu, but auth_key is NULL", size);
	return true;
}

static bool narrow_to_vectors(struct hm_offer *offer, const struct fi_info *hints)
{
	const struct nic_port *port = offer->port;

	if (!port->max_ep_auth_key)
		return hm_offer_refuse(port, "domain_attr->auth_key_size",
				       "asked FI_AV_AUTH_KEY, which is not offered");
	if (hints->domain_attr->auth_key)
		return hm_offer_refuse(port, "domain_attr->auth_key",
				       "is not NULL, with auth_key_size FI_AV_AUTH_KEY");
	if (hints->ep_attr && (hints->ep_attr->auth_key_size || hints->ep_attr->auth_key))
		return hm_offer_refuse(port, "ep_attr->auth_key",
				       "is given, but with FI_AV_AUTH_KEY keys are in the address "
				       "vector");
	offer->domain.auth_key_size = FI_AV_AUTH_KEY;
	return true;
}

bool hm_auth_narrow(struct hm_offer *offer, const struct fi_info *hints, uint32_t version)
{
	const struct fi_domain_attr *domain = hints->domain_attr;
	const struct fi_ep_attr *ep = hints->ep_attr;

	if (!has_keys(version))
		return true;
	if (domain && in_vectors(version, domain->auth_key_size))
		return narrow_to_vectors(offer, hints);
	if (domain && domain->auth_key_size) {
		if (!narrow_key(offer->port, "domain_attr->auth_key_size", domain->auth_key,
				domain->auth_key_size))
			return false;
		offer->domain.auth_key = domain->auth_key;
		offer->domain.auth_key_size = domain->auth_key_size;
	}
	if (ep && ep->auth_key_size) {
		if (!narrow_key(offer->port, "ep_attr->auth_key_size", ep->auth_key,
				ep->auth_key_size))
			return false;
		offer->ep.auth_key = ep->auth_key;
		offer->ep.auth_key_size = ep->auth_key_size;
	}
	return true;
}

/* ---- objects ---- */

static int refuse(const char *call, int ret, const char *why)
{
	HM_WARN(FI_LOG_CORE, "%s: %s", call, why);
	return ret;
}

/* One key that a program gives; size is not 0. */
static int take_key(const struct nic_port *port, const char *call, const uint8_t *key, size_t size,
		    struct hm_auth **keys)
{
	int ret = hm_mr_check_auth_key(port, FI_LOG_CORE, call, key, size);

	if (ret != 0)
		return ret;
	ret = hm_auth_make_one(key, size, keys);
	return ret ? refuse(call, ret, "no room for an authorization key") : 0;
}

static int use_vectors(const struct nic_port *port, const struct fi_domain_attr *attr,
		       uint32_t *av_keys)
{
	if (!port->max_ep_auth_key) {
		HM_WARN(FI_LOG_DOMAIN, "FI_AV_AUTH_KEY: %s enforces no authorization keys",
			port->domain_name);
		return -FI_ENOSYS;
	}
	if (attr->auth_key)
		return refuse("fi_domain", -FI_EINVAL,
			      "auth_key is not NULL, with auth_key_size FI_AV_AUTH_KEY");
	if (attr->max_ep_auth_key > port->max_ep_auth_key) {
		HM_WARN(FI_LOG_DOMAIN, "max_ep_auth_key is %zu, the limit is %zu",
			attr->max_ep_auth_key, port->max_ep_auth_key);
		return -FI_EINVAL;
	}
	*av_keys =
		(uint32_t)(attr->max_ep_auth_key ? attr->max_ep_auth_key : port->max_ep_auth_key);
	return 0;
}

int hm_auth_of_domain(const struct nic_port *port, const struct fi_domain_attr *attr,
		      uint32_t version, struct hm_auth **keys, uint32_t *av_keys)
{
	*keys = NULL;
	*av_keys = 0;
	if (!has_keys(version) || !attr->auth_key_size)
		return 0;
	if (in_vectors(version, attr->auth_key_size))
		return use_vectors(port, attr, av_keys);
	return take_key(port, "fi_domain", attr->auth_key, attr->auth_key_size, keys);
}

int hm_auth_of_ep(const struct hm_domain *domain, const struct fi_ep_attr *attr,
		  struct hm_auth **keys)
{
	*keys = NULL;
	if (domain->nic->av_keys && attr && (attr->auth_key_size || attr->auth_key))
		return refuse("fi_endpoint", -FI_EINVAL,
			      "ep_attr->auth_key is given, but in a domain of FI_AV_AUTH_KEY the "
			      "keys are in the address vector");
	if (has_keys(domain->api_version) && attr && attr->auth_key_size)
		return take_key(domain->nic->port, "fi_endpoint", attr->auth_key,
				attr->auth_key_size, keys);
	*keys = hm_auth_hold(domain->nic->auth.keys);
	return 0;
}

int hm_auth_lend(struct hm_ep *ep)
{
	int ret;

	if (!ep->domain->nic->av_keys)
		return 0;
	ret = nic_av_keys_lend(&ep->av->nic, 0, &ep->nic->auth);
	if (ret == -FI_ENOKEY)
		return refuse("enable", ret,
			      "FI_AV_AUTH_KEY, but the address vector has no authorization key "
			      "(fi_av_insert_auth_key)");
	return ret ? refuse("enable", ret, "no memory for the endpoint's authorization keys") : 0;
}

void hm_auth_drop(struct hm_ep *ep)
{
	if (ep->domain->nic->av_keys && ep->av)
		nic_av_keys_return(&ep->av->nic, ep->nic->auth);
	else
		hm_auth_release(ep->nic->auth);
	ep->nic->auth = NULL;
}
