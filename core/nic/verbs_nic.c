/* SPDX-License-Identifier: BSD-2-Clause */
/* The verbs NIC behind the NIC contract. */
#include "core/nic/verbs_nic.h"

#include "core/nic/verbs_ep.h"

struct nic_ops verbs_nic_ops = {
	.name = "verbs",
	.domain_size = sizeof(struct verbs_domain),
	.ep_size = sizeof(struct verbs_ep),
	.region_private = sizeof(struct verbs_region),
	.port_size = sizeof(struct verbs_port),
	.ports = verbs_ports,
	.look = verbs_look,
	.port_address = verbs_port_address,
	.port_reaches = verbs_port_reaches,
	.port_has = verbs_port_has,
	.port_missing = verbs_port_missing,
	.port_describe = verbs_port_describe,
	.domain_open = verbs_domain_open,
	.domain_close = verbs_domain_close,
	.domain_verbs = verbs_domain_handles,
	.progress = verbs_progress_domain,
	.region_register = verbs_region_register,
	.region_derive = verbs_region_derive,
	.region_deregister = verbs_region_deregister,
	.region_at = verbs_region_at,
	.region_refresh = verbs_region_refresh,
	.region_key = verbs_region_key,
	.region_desc = verbs_region_desc,
	.region_lkey = verbs_region_lkey,
	.region_info = verbs_region_info,
	.region_part = verbs_region_part,
	.ep_open = verbs_ep_open,
	.ep_enable = verbs_ep_enable,
	.ep_close = verbs_ep_close,
	.ep_name = verbs_ep_name,
	.peer_resolve = verbs_peer_resolve,
	.peer_address = verbs_peer_address,
	.post = verbs_post,
	.post_recv = verbs_post_recv,
	.cancel = verbs_cancel,
	.atomic_valid = verbs_atomic_valid,
	.strerror = nic_error_text,
};

void verbs_nic_init(void)
{
	nic_register(&verbs_nic_ops);
}
