/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions that a program wants kept: HMREG_MR_CACHE.  kept.c says what is shared. */
#ifndef HM_MR_KEPT_H
#define HM_MR_KEPT_H

#include "core/mr/mr.h"

/*
 * One fid over a shared registration.  face is what the program holds: its fid, descriptor and key; its region
 * is none and of no domain, so that it can be no base of sub-MRs.
 */
struct hm_mr_kept {
	struct hm_mr face;
	struct hm_mr *shared; /* held */
	uint32_t entry;
	uint64_t len; /* as asked for */
};

/* As hm_mr_register, flags with HMREG_MR_CACHE; the fid is the caller's to fill. */
int hm_mr_keep(struct hm_mr_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
	       struct hm_mr_kept **out);
void hm_mr_unkeep(struct hm_mr_kept *kept);

/* Regions that the program has, whoever keeps them, and the sum of their bytes. */
void hm_mr_count(struct hm_mr_domain *domain, uint64_t *regions, uint64_t *bytes);

#endif
