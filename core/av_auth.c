/* SPDX-License-Identifier: BSD-2-Clause */
/* Authorization keys in address vectors, fi_av(3): in domains of FI_AV_AUTH_KEY. */
#include <inttypes.h>

#include "core/av.h"

/* 0, or -FI_ENOSYS with one log line. */
static int check_domain(const struct hm_av *av, const char *call)
{
	if (av->domain->nic->av_keys)
		return 0;
	HM_WARN(FI_LOG_AV, "%s: the domain is not of FI_AV_AUTH_KEY", call);
	return -FI_ENOSYS;
}

int hm_av_insert_auth_key(struct fid_av *fid, const void *key, size_t size, fi_addr_t *fi_addr,
			  uint64_t flags)
{
	struct hm_av *av = hm_av_of(&fid->fid);
	size_t most = av->domain->nic->port->auth_key_size;
	int ret = check_domain(av, "fi_av_insert_auth_key");

	if (ret)
		return ret;
	if (flags) {
		HM_WARN(FI_LOG_AV, "fi_av_insert_auth_key: flags 0x%" PRIx64 ", none are defined",
			flags);
		return -FI_EBADFLAGS;
	}
	if (!key || !fi_addr || !size || size > most) {
		HM_WARN(FI_LOG_AV,
			"fi_av_insert_auth_key: no key, no fi_addr, or %zu bytes; 1 to %zu are "
			"possible",
			size, most);
		return -FI_EINVAL;
	}
	return nic_av_key_add(&av->nic, key, size, fi_addr);
}

int hm_av_lookup_auth_key(struct fid_av *fid, fi_addr_t addr, void *key, size_t *size)
{
	struct hm_av *av = hm_av_of(&fid->fid);
	int ret = check_domain(av, "fi_av_lookup_auth_key");

	if (ret)
		return ret;
	if (!size || (!key && *size)) {
		HM_WARN(FI_LOG_AV, "fi_av_lookup_auth_key: %s is NULL",
			size ? "auth_key" : "auth_key_size");
		return -FI_EINVAL;
	}
	ret = nic_av_key_copy(&av->nic, addr, key, size);
	if (ret)
		HM_WARN(FI_LOG_AV, "fi_av_lookup_auth_key: fi_addr 0x%" PRIx64 " %s", addr,
			ret == -FI_ENOKEY ? "was inserted without an authorization key"
					  : "is not in the vector");
	return ret;
}

int hm_av_remove_auth_keys(struct hm_av *av, const fi_addr_t *fi_addr, size_t count)
{
	size_t bad;
	int ret = nic_av_keys_remove(&av->nic, fi_addr, count, &bad);

	if (ret)
		HM_WARN(FI_LOG_AV,
			"fi_av_remove: fi_addr[%zu] 0x%" PRIx64 " is %s; nothing is removed", bad,
			fi_addr[bad],
			ret == -FI_EBUSY
				? "a key that an enabled endpoint, a region or an address has"
				: "not that of a key in the vector, or twice in the list");
	return ret;
}
