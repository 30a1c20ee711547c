/* SPDX-License-Identifier: BSD-2-Clause */
/* What core/init.c and the plug-in need of the software NIC. */
#ifndef SW_NIC_H
#define SW_NIC_H

#include "core/nic/nic.h"

#define SW_FABRIC_NAME "hmreg-sw" /* of all its domains, and of nothing else */

extern struct nic_ops sw_nic_ops;

/* Registers the NIC.  Called once, before any other use. */
void sw_nic_init(void);

#endif
