/* SPDX-License-Identifier: BSD-2-Clause */
/* What core/init.c needs of the verbs NIC. */
#ifndef VERBS_NIC_H
#define VERBS_NIC_H

/* Registers it; devices are looked for when ports are asked for first. */
void verbs_nic_init(void);

#endif
