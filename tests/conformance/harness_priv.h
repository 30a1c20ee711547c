/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the two halves of the harness. */
#ifndef CONF_HARNESS_PRIV_H
#define CONF_HARNESS_PRIV_H

struct conf;

/* Closes all regions and ends.  check: every close must succeed, every figure be back at zero. */
void conf_close_all(struct conf *c, bool check);

#endif
