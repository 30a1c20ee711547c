/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One hardware key over several regions, on devices whose provider has such keys: mlx5, by the mlx5dv
 * interface of libmlx5, which libibverbs loads where there are such devices.  The list of regions is
 * written into the key by a work request, for which a domain keeps a queue pair connected to itself,
 * made with its first composite region.  No such device was at hand: this is tested against an emulated
 * provider alone, which is more patient than the real one.
 *
 * Such a key is addressed from 0 to the sum of the regions (mlx5dv_wr_post(3)), so it serves domains
 * without FI_MR_VIRT_ADDR; the others use the tables of verbs_keys.c.
 */
#ifndef VERBS_INDIRECT_H
#define VERBS_INDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_device;
struct verbs_domain;
struct verbs_parts;
struct verbs_loop; /* a domain's queue pair to itself; NULL until needed */
struct verbs_indirect;

/* Does this device's provider make such keys? */
bool verbs_indirect_supported(struct ibv_device *device);

/*
 * A key over these parts in their order, with these IBV_ACCESS_* rights.  Serialised per domain.
 * -FI_ENOSPC: more parts than the device takes in one key; -FI_ENOMEM, -FI_EIO, each with one line at
 * level info: the caller goes on without.
 */
int verbs_indirect_make(struct verbs_domain *domain, const struct verbs_parts *parts,
			unsigned int access, struct verbs_indirect **key);
/* Before the parts are deregistered.  0, or the errno of the provider. */
int verbs_indirect_free(struct verbs_indirect *key);
uint32_t verbs_indirect_rkey(const struct verbs_indirect *key);

/* At the domain's end; NULL does nothing. */
void verbs_loop_close(struct verbs_loop *loop);

#endif
