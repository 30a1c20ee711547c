/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies of struct fi_info: every entry owns all that it points to, bar handle and open objects. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/export.h"
#include "core/base/log.h"
#include "core/core.h"
#include "core/tostr_priv.h"

/* ---- pieces: each leaves *out NULL for a missing source; false when out of memory ---- */

static void *dup_bytes(const void *src, size_t len)
{
	void *copy = src && len ? malloc(len) : NULL;

	if (copy)
		memcpy(copy, src, len);
	return copy;
}

static bool missing(const void *src)
{
	return !src;
}

#define COPY(out, src) ((*(out) = dup_bytes(src, sizeof(*(src)))) != NULL || missing(src))

static bool copy_sized(void **out, const void *src, size_t len)
{
	*out = dup_bytes(src, len);
	return *out || !src || len == 0;
}

static bool copy_text(char **out, const char *src)
{
	*out = src ? strdup(src) : NULL;
	return *out || !src;
}

/* With the size FI_AV_AUTH_KEY the keys are in an address vector, and there is nothing to copy. */
static bool copy_auth_key(uint8_t **out, const uint8_t *src, size_t size)
{
	if (size == FI_AV_AUTH_KEY)
		size = 0;
	*out = dup_bytes(src, size);
	return *out || !src || size == 0;
}

/* ---- struct fid_nic ---- */

static struct fid_nic *dup_nic(const struct fid_nic *src);

static int nic_close(struct fid *fid)
{
	struct fid_nic *nic = hm_container(fid, struct fid_nic, fid);

	assert(fid->fclass == FI_CLASS_NIC);
	if (nic->device_attr) {
		free(nic->device_attr->name);
		free(nic->device_attr->device_id);
		free(nic->device_attr->device_version);
		free(nic->device_attr->vendor_id);
		free(nic->device_attr->driver);
		free(nic->device_attr->firmware);
		free(nic->device_attr);
	}
	free(nic->bus_attr);
	if (nic->link_attr) {
		free(nic->link_attr->address);
		free(nic->link_attr->network_type);
		free(nic->link_attr);
	}
	hm_fid_end(fid);
	free(nic);
	return 0;
}

/* FI_DUP is how a holder of a struct fid_nic copies it without knowing who made it. */
static int nic_control(struct fid *fid, int command, void *arg)
{
	struct fid_nic *copy;

	if (command != FI_DUP)
		return hm_no_control(fid, command, arg);
	if (!arg) {
		HM_WARN(FI_LOG_CORE, "fi_control(FI_DUP) on a NIC: no place for the copy");
		return -FI_EINVAL;
	}
	copy = dup_nic(hm_container(fid, struct fid_nic, fid));
	if (!copy) {
		HM_WARN(FI_LOG_CORE, "fi_control(FI_DUP): out of memory for a struct fid_nic");
		return -FI_ENOMEM;
	}
	*(struct fid **)arg = &copy->fid;
	return 0;
}

/* What an installed libfabric asks for the text of an info's NIC: a part of it, behind what is there. */
static int nic_tostr(const struct fid *fid, char *buf, size_t len)
{
	size_t used = strnlen(buf, len);
	struct hm_text text;

	hm_text_init(&text, buf + used, len - used);
	hm_print_group(&text, &hm_group_nic, fid, 1);
	return 0;
}

static struct fi_ops nic_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = nic_close,
	.bind = hm_no_bind,
	.control = nic_control,
	.ops_open = hm_no_ops_open,
	.tostr = nic_tostr,
	.ops_set = hm_no_ops_set,
};

static bool copy_device(struct fi_device_attr **out, const struct fi_device_attr *src)
{
	*out = src ? calloc(1, sizeof(**out)) : NULL;
	if (!*out)
		return !src;
	return copy_text(&(*out)->name, src->name) &&
	       copy_text(&(*out)->device_id, src->device_id) &&
	       copy_text(&(*out)->device_version, src->device_version) &&
	       copy_text(&(*out)->vendor_id, src->vendor_id) &&
	       copy_text(&(*out)->driver, src->driver) &&
	       copy_text(&(*out)->firmware, src->firmware);
}

static bool copy_link(struct fi_link_attr **out, const struct fi_link_attr *src)
{
	if (!COPY(out, src))
		return false;
	if (!*out)
		return true;
	(*out)->address = NULL;
	(*out)->network_type = NULL;
	return copy_text(&(*out)->address, src->address) &&
	       copy_text(&(*out)->network_type, src->network_type);
}

/* prov_attr is the provider's constant and is shared. */
static struct fid_nic *dup_nic(const struct fid_nic *src)
{
	struct fid_nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		return NULL;
	nic->fid.fclass = FI_CLASS_NIC;
	nic->fid.context = src->fid.context;
	nic->fid.ops = &nic_fi_ops;
	nic->prov_attr = src->prov_attr;
	if (copy_device(&nic->device_attr, src->device_attr) &&
	    COPY(&nic->bus_attr, src->bus_attr) && copy_link(&nic->link_attr, src->link_attr))
		return nic;
	nic_close(&nic->fid);
	return NULL;
}

/* ---- struct fi_info ---- */

static bool copy_ep(struct fi_ep_attr **out, const struct fi_ep_attr *src)
{
	if (!COPY(out, src))
		return false;
	return !*out || copy_auth_key(&(*out)->auth_key, src->auth_key, src->auth_key_size);
}

static bool copy_domain(struct fi_domain_attr **out, const struct fi_domain_attr *src)
{
	if (!COPY(out, src))
		return false;
	if (!*out)
		return true;
	(*out)->auth_key = NULL;
	return copy_text(&(*out)->name, src->name) &&
	       copy_auth_key(&(*out)->auth_key, src->auth_key, src->auth_key_size);
}

static bool copy_fabric(struct fi_fabric_attr **out, const struct fi_fabric_attr *src)
{
	if (!COPY(out, src))
		return false;
	if (!*out)
		return true;
	(*out)->prov_name = NULL;
	return copy_text(&(*out)->name, src->name) && copy_text(&(*out)->prov_name, src->prov_name);
}

static bool copy_nic(struct fid_nic **out, const struct fid_nic *src)
{
	*out = src ? dup_nic(src) : NULL;
	return *out || !src;
}

/* copy has every pointer NULL, so that it can be freed wherever this stops. */
static bool fill(struct fi_info *copy, const struct fi_info *src)
{
	copy->caps = src->caps;
	copy->mode = src->mode;
	copy->addr_format = src->addr_format;
	copy->handle = src->handle;
	if (src->src_addr)
		copy->src_addrlen = src->src_addrlen;
	if (src->dest_addr)
		copy->dest_addrlen = src->dest_addrlen;
	return copy_sized(&copy->src_addr, src->src_addr, src->src_addrlen) &&
	       copy_sized(&copy->dest_addr, src->dest_addr, src->dest_addrlen) &&
	       COPY(&copy->tx_attr, src->tx_attr) && COPY(&copy->rx_attr, src->rx_attr) &&
	       copy_ep(&copy->ep_attr, src->ep_attr) &&
	       copy_domain(&copy->domain_attr, src->domain_attr) &&
	       copy_fabric(&copy->fabric_attr, src->fabric_attr) && copy_nic(&copy->nic, src->nic);
}

HM_EXPORT struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	static const struct fi_tx_attr tx;
	static const struct fi_rx_attr rx;
	static const struct fi_ep_attr ep;
	static const struct fi_domain_attr domain;
	static const struct fi_fabric_attr fabric;
	struct fi_info *copy = calloc(1, sizeof(*copy));
	bool done;

	if (!copy)
		goto no_memory;
	if (info)
		done = fill(copy, info);
	else
		done = COPY(&copy->tx_attr, &tx) && COPY(&copy->rx_attr, &rx) &&
		       COPY(&copy->ep_attr, &ep) && COPY(&copy->domain_attr, &domain) &&
		       COPY(&copy->fabric_attr, &fabric);
	if (done)
		return copy;
	fi_freeinfo(copy);
no_memory:
	HM_WARN(FI_LOG_CORE, "out of memory for a struct fi_info");
	return NULL;
}

HM_EXPORT void fi_freeinfo(struct fi_info *info)
{
	while (info) {
		struct fi_info *next = info->next;

		free(info->src_addr);
		free(info->dest_addr);
		free(info->tx_attr);
		free(info->rx_attr);
		if (info->ep_attr)
			free(info->ep_attr->auth_key);
		free(info->ep_attr);
		if (info->domain_attr) {
			free(info->domain_attr->name);
			free(info->domain_attr->auth_key);
		}
		free(info->domain_attr);
		if (info->fabric_attr) {
			free(info->fabric_attr->name);
			free(info->fabric_attr->prov_name);
		}
		free(info->fabric_attr);
		if (info->nic)
			fi_close(&info->nic->fid);
		free(info);
		info = next;
	}
}
