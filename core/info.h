/* SPDX-License-Identifier: BSD-2-Clause */
/* How fi_getinfo works inside: a port's full offer is narrowed by hints, then copied to the heap. */
#ifndef HM_INFO_H
#define HM_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fabric.h>

#include "core/nic/nic.h"
#include "core/xpu.h"

#define HM_PROVIDER_VERSION FI_VERSION(1, 0) /* prov_version of fi_fabric_attr */

/* What the flags of fi_getinfo may be. */
#define HM_INFO_FLAGS (FI_NUMERICHOST | FI_SOURCE | FI_PROV_ATTR_ONLY | FI_RESCAN)

/* What FI_MR_BASIC stands for since interface 1.5. */
#define HM_MR_BASIC_BITS (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* What one port offers.  info points into the offer itself and owns nothing. */
struct hm_offer {
	const struct nic_port *port;
	uint64_t caps; /* of port, as far as the program's interface version has them */
	struct fi_info info;
	struct fi_tx_attr tx;
	struct fi_rx_attr rx;
	struct fi_ep_attr ep;
	struct fi_domain_attr domain;
	struct fi_fabric_attr fabric;
};

/* fi_getinfo for who chose this provider already: neither FI_PROVIDER nor a name in hints is looked at. */
int hm_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
	       const struct fi_info *hints, struct fi_info **info);

/* The capabilities that a port has for a program of this interface version. */
static inline uint64_t hm_port_caps(const struct nic_port *port, uint32_t version)
{
	return FI_VERSION_GE(version, HM_XPU_VERSION) ? port->caps : port->caps & ~FI_XPU;
}

/* Everything the port can do, for a program that asked for this interface version. */
void hm_offer_init(struct hm_offer *offer, const struct nic_port *port, uint32_t version);

/*
 * Narrow the offer to what hints ask for; hints may be NULL.  False, with one line at level info
 * that names the field, when the port cannot do it.  Addresses are not looked at.
 */
bool hm_offer_narrow(struct hm_offer *offer, const struct fi_info *hints, uint32_t version);

/* That line.  field is named as in struct fi_info.  Always false. */
bool hm_offer_refuse(const struct nic_port *port, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
