/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the two halves of the harness. */
#ifndef CONF_HARNESS_PRIV_H
#define CONF_HARNESS_PRIV_H

struct conf;
struct conf_profile;

/* The profile of the case that runs now; NULL: none. */
extern const struct conf_profile *conf_current;

/* What the port is like, in the profile's remaining fields.  0 or a code. */
int conf_ask_port(struct conf_profile *profile);

/* Closes all regions and ends.  check: every close must succeed, every figure be back at zero. */
void conf_close_all(struct conf *c, bool check);

#endif
