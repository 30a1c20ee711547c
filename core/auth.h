/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Authorization keys where programs give them: in hints, to domains, endpoints and address vectors.
 * Those of regions: core/mr/auth.c.  What the keys do is the NIC's part; one that enforces none is
 * given none.
 */
#ifndef HM_AUTH_H
#define HM_AUTH_H

#include "core/core.h"
#include "core/info.h"

/*
 * What hints say of keys, into the offer; false with one line at level info where the port cannot.
 * Interfaces below 1.5 have no keys, and what stands in their place is not looked at.
 */
bool hm_auth_narrow(struct hm_offer *offer, const struct fi_info *hints, uint32_t version);

/*
 * The default key of a domain, NULL for none, and with FI_AV_AUTH_KEY how many keys an address vector may
 * have.  *keys is the caller's.  -FI_EINVAL, -FI_ENOSYS: the NIC enforces none, -FI_ENOMEM, -FI_ENOSPC,
 * with one log line.
 */
int hm_auth_of_domain(const struct nic_port *port, const struct fi_domain_attr *attr,
		      uint32_t version, struct hm_auth **keys, uint32_t *av_keys);
/* The key of an endpoint: attr's, else its domain's; NULL with FI_AV_AUTH_KEY.  attr may be NULL. */
int hm_auth_of_ep(const struct hm_domain *domain, const struct fi_ep_attr *attr,
		  struct hm_auth **keys);
/*
 * With FI_AV_AUTH_KEY an endpoint that is being enabled gets the keys that its address vector has now.
 * -FI_ENOKEY: it has none, -FI_ENOMEM, with one log line.
 */
int hm_auth_lend(struct hm_ep *ep);
/* Before the endpoint is freed, or when it was not enabled after all. */
void hm_auth_drop(struct hm_ep *ep);

#endif
