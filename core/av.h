/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the address vector share. */
#ifndef HM_AV_H
#define HM_AV_H

#include "core/core.h"

/* Bytes of an address of this format; 0: of no fixed size. */
size_t hm_av_address_size(uint32_t addr_format);

/* Slots of the operations table (av_insert.c). */
int hm_av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		 uint64_t flags, void *context);
int hm_av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr,
		    uint64_t flags, void *context);
int hm_av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
		    size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context);

/* av_auth.c */
int hm_av_insert_auth_key(struct fid_av *fid, const void *key, size_t size, fi_addr_t *fi_addr,
			  uint64_t flags);
int hm_av_lookup_auth_key(struct fid_av *fid, fi_addr_t addr, void *key, size_t *size);
/* fi_av_remove with FI_AUTH_KEY; all or none. */
int hm_av_remove_auth_keys(struct hm_av *av, const fi_addr_t *fi_addr, size_t count);

#endif
