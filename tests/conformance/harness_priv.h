/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the two halves of the harness. */
#ifndef CONF_HARNESS_PRIV_H
#define CONF_HARNESS_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct conf;
struct conf_end;
struct conf_profile;
struct fi_mr_attr;
struct fid_mr;

/* The profile of the case that runs now; NULL: none. */
extern const struct conf_profile *conf_current;

/* What the port is like, in the profile's remaining fields.  0 or a code. */
int conf_ask_port(struct conf_profile *profile);

/* Closes all regions and ends.  check: every close must succeed, every figure be back at zero. */
void conf_close_all(struct conf *c, bool check);

/*
 * For a profile with sub: registers a region that holds what attr asks for, with other rights and, where the
 * pages allow, more memory; attr and flags then ask for a part of it.  Else NULL, and nothing changes.
 */
struct fid_mr *conf_base(struct conf_end *end, struct fi_mr_attr *attr, struct iovec *iov,
			 uint64_t *flags);
/* Closes one of these regions, or all of an end's; they have no sub-MRs any more.  NULL: nothing. */
void conf_drop_base(struct conf *c, struct fid_mr *base);
void conf_close_bases(struct conf *c, struct conf_end *end, bool check);

#endif
