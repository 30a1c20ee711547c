/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One hardware key over several regions, on devices whose provider has such keys: mlx5, by the mlx5dv
 * interface of libmlx5, which libibverbs loads where there are such devices.  The list of regions is
 * written into the key by a work request, for which a domain keeps a queue pair connected to itself,
 * made with its first composite region.  No such device was at hand: this is tested against an emulated
 * provider alone.  So a device has such keys only where a trial at start-up made one over two regions
 * and read the right bytes through it (verbs_indirect_try.c).
 *
 * mlx5dv_create_mkey(3) and mlx5dv_wr_mkey_configure(3) want a context that was opened with DEVX:
 * domains that may need such keys are opened so.  A context that the program brought may be without;
 * then the domain goes without, which is told once.
 *
 * Such a key is addressed from 0 to the sum of the regions (mlx5dv_wr_post(3)), so it serves domains
 * without FI_MR_VIRT_ADDR; the others use the tables of verbs_keys.c.
 */
#ifndef VERBS_INDIRECT_H
#define VERBS_INDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/nic/verbs_loop.h"

struct ibv_context;
struct ibv_device;
struct ibv_pd;
struct ibv_sge;
struct verbs_device;
struct verbs_domain;
struct verbs_parts;
struct verbs_port;
struct verbs_indirect;

/* NULL, or why this device's provider makes no such keys. */
const char *verbs_indirect_missing(struct ibv_device *device);
/* A context in which they can be made, of a device where none is missing.  NULL with errno. */
struct ibv_context *verbs_indirect_open(struct ibv_device *device);

/* Try it out: "" or the reason, which goes to text, why keys over several regions are not used. */
void verbs_indirect_try(const struct verbs_device *device, const struct verbs_port *port,
			char *text, size_t room);

/* ---- of a domain ---- */

/*
 * A key over these parts in their order, with those of these IBV_ACCESS_* rights that such keys have.
 * -FI_ENOSPC: too many or too long parts; -FI_EIO; each with one line at level info.  -FI_ENOSYS: never
 * in this domain, told once.  The caller goes on without.
 */
int verbs_indirect_make(struct verbs_domain *domain, const struct verbs_parts *parts,
			unsigned int access, struct verbs_indirect **key);
/* Let the parts' key lead to the mr that they have now.  As above; then it leads nowhere. */
int verbs_indirect_rewrite(struct verbs_domain *domain, const struct verbs_parts *parts,
			   unsigned int access);
/* 0, or the errno of the provider: EBUSY leaves the key as it is, with others it is forgotten. */
int verbs_indirect_free(struct verbs_indirect *key);
uint32_t verbs_indirect_rkey(const struct verbs_indirect *key);

/* ---- what both are made of ---- */

/* A queue pair to itself that writes lists: as verbs_loop_open; verbs_loop_close ends it. */
int verbs_indirect_loop(const struct verbs_loop_site *site, struct verbs_loop **loop,
			struct verbs_failure *why);

struct verbs_list {
	const struct ibv_sge *entry;
	size_t count; /* at most 16 */
};
int verbs_indirect_create(struct ibv_pd *pd, struct verbs_loop *loop, const struct verbs_list *list,
			  unsigned int access, struct verbs_indirect **key,
			  struct verbs_failure *why);

#endif
