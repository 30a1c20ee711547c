/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who may reach a region: authorization keys, fi_mr(3).
 *
 * A region has the key that its attributes give, else the domain's.  In a domain of FI_AV_AUTH_KEY it has
 * those of an address vector, as they are when it is enabled, and may be for one peer or one key alone.
 */
#include <stdlib.h>

#include "core/mr/mr.h"

/* ---- attributes ---- */

int hm_mr_check_auth_key(const struct nic_port *port, enum fi_log_subsys subsys, const char *call,
			 const uint8_t *key, size_t size)
{
	if (!key) {
		HM_WARN(subsys, "%s: auth_key_size is %zu, but auth_key is NULL", call, size);
		return -FI_EINVAL;
	}
	if (!port->auth_key_size) {
		HM_WARN(subsys, "%s: %s enforces no authorization keys", call, port->domain_name);
		return -FI_ENOSYS;
	}
	if (size <= port->auth_key_size)
		return 0;
	HM_WARN(subsys, "%s: an authorization key of %zu bytes, up to %zu are possible", call, size,
		port->auth_key_size);
	return -FI_EINVAL;
}

/* src_addr: which peer or, with FI_AUTH_KEY, which key. */
static int check_source(const struct hm_mr_domain *domain, fi_addr_t addr, uint64_t flags,
			struct hm_mr_auth *auth)
{
	uint64_t peer = 0;

	if (addr == FI_ADDR_UNSPEC)
		return 0;
	if (!(domain->nic->caps & FI_DIRECTED_RECV)) {
		HM_WARN(FI_LOG_MR,
			"src_addr is given, but the domain was opened without FI_DIRECTED_RECV; "
			"FI_ADDR_UNSPEC is for all");
		return -FI_EINVAL;
	}
	if (flags & FI_AUTH_KEY)
		auth->id = nic_av_key_id(auth->av, addr);
	else
		peer = nic_av_peer(auth->av, addr);
	if (!auth->id && !peer) {
		HM_WARN(FI_LOG_MR, "src_addr 0x%lx is not %s of av", (unsigned long)addr,
			flags & FI_AUTH_KEY ? "that of an authorization key" : "an address");
		return -FI_EINVAL;
	}
	auth->peer = peer & NIC_PEER_ADDRESS;
	auth->id |= nic_peer_key(peer);
	return 0;
}

static int check_vector(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
			uint64_t flags, struct hm_mr_auth *auth)
{
	const struct fi_mr_auth_key *key = (const void *)attr->auth_key;

	if (attr->auth_key_size != sizeof(*key) || !key) {
		HM_WARN(FI_LOG_MR,
			"in a domain of FI_AV_AUTH_KEY regions are made by fi_mr_regattr, with "
			"auth_key a struct fi_mr_auth_key of %zu bytes; auth_key_size is %zu",
			sizeof(*key), attr->auth_key_size);
		return -FI_EINVAL;
	}
	auth->av = domain->find_av(domain, key->av);
	if (!auth->av) {
		HM_WARN(FI_LOG_MR, "av of fi_mr_auth_key is %s",
			key->av ? "no address vector of this domain" : "NULL");
		return -FI_EINVAL;
	}
	return check_source(domain, key->src_addr, flags, auth);
}

int hm_mr_check_auth_given(const struct hm_mr_domain *domain, const struct fi_mr_attr *attr,
			   uint64_t flags, struct hm_mr_auth *auth)
{
	*auth = (struct hm_mr_auth){ .av = NULL };
	if (domain->nic->av_keys)
		return check_vector(domain, attr, flags, auth);
	if (FI_VERSION_LT(domain->api_version, FI_VERSION(1, 5)))
		return 0;
	auth->key = attr->auth_key;
	auth->key_size = attr->auth_key_size;
	return hm_mr_check_auth_key(domain->nic->port, FI_LOG_MR, "registration", attr->auth_key,
				    attr->auth_key_size);
}

/* ---- a region's part ---- */

static int lend(struct nic_av *av, uint32_t id, struct hm_auth **keys)
{
	int ret = nic_av_keys_lend(av, id, keys);

	if (ret == -FI_ENOKEY) {
		HM_WARN(FI_LOG_MR,
			"av has no authorization key, so that nobody could reach the region");
		return -FI_EINVAL;
	}
	if (ret != 0)
		HM_WARN(FI_LOG_MR, "no memory for the region's authorization keys");
	return ret;
}

static int make(const struct hm_mr_auth *from, bool enabled, struct nic_region_auth *auth)
{
	int ret = 0;

	if (!from->av) {
		ret = hm_auth_make_one(from->key, from->key_size, &auth->keys);
		if (ret != 0)
			HM_WARN(FI_LOG_MR, "no room for the region's authorization key");
		return ret;
	}
	if (enabled || from->id)
		ret = lend(from->av, from->id, &auth->keys);
	if (ret != 0)
		return ret;
	hm_use(&from->av->users);
	auth->av = from->av;
	auth->peer = from->peer;
	return 0;
}

int hm_mr_take_auth_given(const struct hm_mr_auth *from, bool enabled, struct nic_region_auth **out)
{
	struct nic_region_auth *auth;
	int ret;

	auth = calloc(1, sizeof(*auth));
	if (!auth) {
		HM_WARN(FI_LOG_MR, "no memory for the region's authorization");
		return -FI_ENOMEM;
	}
	ret = make(from, enabled, auth);
	if (ret != 0)
		free(auth);
	else
		*out = auth;
	return ret;
}

int hm_mr_enable_auth(struct nic_region_auth *auth)
{
	return auth && !auth->keys ? lend(auth->av, 0, &auth->keys) : 0;
}

void hm_mr_drop_auth(struct nic_domain *nic, struct nic_region_auth *auth)
{
	if (!auth || auth == &nic->auth)
		return;
	if (auth->av) {
		nic_av_keys_return(auth->av, auth->keys);
		hm_unuse(&auth->av->users);
	} else {
		hm_auth_release(auth->keys);
	}
	free(auth);
}
