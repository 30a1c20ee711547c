/* SPDX-License-Identifier: BSD-2-Clause */
/* See harness.h: what a profile's port offers, and skipping what it does not. */
#include "tests/conformance/harness.h"
#include "tests/conformance/harness_priv.h"

int conf_ask_port(struct conf_profile *profile)
{
	struct hmreg_device device = { .size = sizeof(device) };
	struct hmreg_fabric_ops *ops;
	struct fid_fabric *fabric;
	int ret = fi_fabric(profile->info->fabric_attr, &fabric, NULL);

	if (ret)
		return ret;
	ret = fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL);
	if (!ret)
		ret = ops->device(&fabric->fid, profile->info, &device);
	fi_close(&fabric->fid);
	if (ret)
		return ret;
	profile->needed = device.mr_mode;
	profile->kept = device.mr_mode_kept;
	profile->no_endpoints = device.can & HMREG_CAN_ENDPOINTS ? NULL : device.endpoints_reason;
	profile->exact = profile->at_once = strcmp(device.kind, "sw") == 0;
	return 0;
}

bool conf_offers(const struct conf *c, uint64_t caps)
{
	struct fi_info *hints, *info = NULL;
	int ret;

	if (c->profile->no_endpoints)
		return false;
	hints = conf_hints(c->profile->name, &(struct conf_opts){ .caps = caps });
	ret = fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	fi_freeinfo(info);
	return ret == 0;
}

int conf_agree(const struct conf *c, uint64_t caps, int offered, int *agreed)
{
	struct fi_info *info, *hints = conf_hints(c->profile->name,
						  &(struct conf_opts){ .caps = CONF_CAPS | caps });
	int ret;

	hints->domain_attr->mr_mode = offered;
	ret = fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (ret)
		return ret;
	*agreed = info->domain_attr->mr_mode;
	fi_freeinfo(info);
	return 0;
}

void conf_need_caps(struct conf *c, uint64_t caps)
{
	char why[256];

	if (conf_offers(c, caps))
		return;
	snprintf(why, sizeof(why), "the port does not offer all of %s",
		 fi_tostr(&caps, FI_TYPE_CAPS));
	conf_skip(c, why);
}

void conf_need_flag(struct conf *c, uint64_t flag)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	uint8_t *buf = conf_alloc(c, 64);
	struct fid_mr *mr;
	char why[128];
	int ret;

	conf_log_mark(__FILE__, __LINE__);
	ret = fi_mr_reg(end->domain, buf, 64, CONF_ALL, 0, 1, flag, &mr, NULL);
	conf_log_expect(ret ? 1 : 0, NULL, "fi_mr_reg", __FILE__, __LINE__);
	if (!ret) {
		assert_ok(fi_close(&mr->fid));
		conf_drop_end(end);
		return;
	}
	snprintf(why, sizeof(why), "no region with flags 0x%llx: %s", (unsigned long long)flag,
		 fi_strerror(-ret));
	conf_skip(c, why);
}

size_t conf_atomic_count(const struct conf_end *end, enum fi_datatype type, enum fi_op op,
			 uint64_t flags)
{
	struct fi_atomic_attr attr;

	if (fi_query_atomic(end->domain, type, op, &attr, flags))
		return 0;
	return attr.count;
}

uint64_t conf_data(const struct conf_end *end, uint64_t data)
{
	size_t bytes = end->info->domain_attr->cq_data_size;

	return bytes < sizeof(data) ? data & ((UINT64_C(1) << 8 * bytes) - 1) : data;
}

bool conf_holds_pages(const struct conf *c)
{
	return !c->profile->at_once && (c->mode & FI_MR_ALLOCATED);
}
