/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may reach whom: authorization keys, and regions for one endpoint alone. */
#include "core/nic/sw.h"

/*
 * An operation goes by the key that its destination was inserted with, else by any of the endpoint's: one
 * that the other side has, too.
 */
enum hmreg_error sw_check_keys(const struct nic_ep *ep, const struct nic_ep *target, uint64_t peer,
			       uint32_t *key)
{
	*key = 0;
	if (ep->auth && target->auth)
		*key = hm_auth_common(ep->auth, nic_peer_key(peer), target->auth, NULL);
	return *key ? HMREG_OK : HMREG_AUTH_KEY;
}

enum hmreg_error sw_check_limits(const struct nic_region_auth *limit, struct nic_ep *ep,
				 const struct nic_ep *target, uint64_t peer)
{
	if (!ep->auth || !target->auth ||
	    !hm_auth_common(ep->auth, nic_peer_key(peer), target->auth, limit->keys))
		return HMREG_AUTH_KEY;
	if (limit->peer && limit->peer != SW_PEER(sw_ep_of(ep)->number))
		return HMREG_AUTH_PEER;
	return HMREG_OK;
}
