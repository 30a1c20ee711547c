/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of the inline-call check that is written by hand: helpers, and the calls that do more
 * than pass their arguments to a slot. Included by what gen_calls.sh writes; C and C++ alike.
 */
#include <stdio.h>
#include <string.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <rdma/fi_xpu.h>

/* How often a slot was reached since the last call was counted as covered. */
static int abi_reached;
static int abi_wrong;
static const char *abi_done[512];
static size_t abi_done_count;

static void abi_expect(const char *name, int holds)
{
	if (holds)
		return;
	abi_wrong++;
	printf("%s: wrong slot, argument or result\n", name);
}

static void abi_covered(const char *name)
{
	abi_reached = 0;
	if (abi_done_count < sizeof(abi_done) / sizeof(abi_done[0]))
		abi_done[abi_done_count++] = name;
}

static int abi_report(const char *const *names, size_t count)
{
	size_t missing = 0, i, j;

	for (i = 0; i < count; i++) {
		for (j = 0; j < abi_done_count && strcmp(names[i], abi_done[j]); j++)
			;
		if (j < abi_done_count)
			continue;
		missing++;
		printf("%s: not tried\n", names[i]);
	}
	if (!abi_wrong && !missing)
		printf("%zu inline calls reach their slot with every argument in place\n", count);
	return abi_wrong || missing;
}

#define ABI_PTR(type, n) ((type)(uintptr_t)(n))

/* The only slot of most objects below: what it got, and a copy of what the argument points to. */
static int abi_command;
static const struct fid *abi_fid;
static void *abi_arg;
static char abi_copy[256];
static size_t abi_copy_len;
static struct fid *abi_alias_result;

static int abi_control(struct fid *fid, int command, void *arg)
{
	abi_reached++;
	abi_fid = fid;
	abi_command = command;
	abi_arg = arg;
	if (arg)
		memcpy(abi_copy, arg, abi_copy_len);
	if (command == FI_ALIAS && abi_alias_result)
		*((struct fi_alias *)arg)->fid = abi_alias_result;
	return abi_alias_result ? 0 : 77;
}

static int abi_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	abi_reached++;
	abi_fid = fid;
	abi_arg = bfid;
	return (int)flags;
}

static int abi_closed;

static int abi_close(struct fid *fid)
{
	abi_fid = fid;
	abi_closed++;
	return 0;
}

static struct fi_ops abi_fid_ops;

/* After a call: it reached abi_control once, for this object and with this command. */
static void abi_expect_control(const char *name, const struct fid *fid, int command, int holds)
{
	abi_expect(name, abi_reached == 1 && abi_fid == fid && abi_command == command && holds);
	abi_covered(name);
}

static void abi_try_fabric(void)
{
	struct fid fid;
	struct fid *out = NULL;
	struct fi_alias alias;
	struct fi_fid_var var;
	struct fi_fid_export exported;
	int ret;

	memset(&fid, 0, sizeof(fid));
	fid.ops = &abi_fid_ops;

	abi_copy_len = sizeof(alias);
	ret = fi_alias(&fid, &out, 5);
	memcpy(&alias, abi_copy, sizeof(alias));
	abi_expect_control("fi_alias", &fid, FI_ALIAS,
			   ret == 77 && alias.fid == &out && alias.flags == 5);

	abi_copy_len = sizeof(var);
	ret = fi_get_val(&fid, 3, &out);
	memcpy(&var, abi_copy, sizeof(var));
	abi_expect_control("fi_get_val", &fid, FI_GET_VAL,
			   ret == 77 && var.name == 3 && var.val == &out);
	ret = fi_set_val(&fid, 4, &ret);
	memcpy(&var, abi_copy, sizeof(var));
	abi_expect_control("fi_set_val", &fid, FI_SET_VAL,
			   ret == 77 && var.name == 4 && var.val == &ret);

	abi_copy_len = sizeof(exported);
	ret = fi_export_fid(&fid, 6, &out, &ret);
	memcpy(&exported, abi_copy, sizeof(exported));
	abi_expect_control("fi_export_fid", &fid, FI_EXPORT_FID,
			   ret == 77 && exported.fid == &out && exported.flags == 6 &&
				   exported.context == &ret);

	abi_expect("fi_tc_dscp_set", fi_tc_dscp_set(46) == (46 | 0x100));
	abi_covered("fi_tc_dscp_set");
	abi_expect("fi_tc_dscp_get",
		   fi_tc_dscp_get(0x100 | 46) == 46 && fi_tc_dscp_get(0x201) == 0);
	abi_covered("fi_tc_dscp_get");
}

static void abi_try_mr_control(struct fid_mr *mr, struct fid_domain *domain)
{
	struct fi_mr_raw_attr raw;
	struct fi_mr_map_raw map;
	struct fi_mr_xpu_desc desc;
	uint64_t base = 1, key = 2;
	uint8_t bytes[16];
	size_t size = sizeof(bytes);
	int ret;

	abi_copy_len = sizeof(raw);
	ret = fi_mr_raw_attr(mr, &base, bytes, &size, 9);
	memcpy(&raw, abi_copy, sizeof(raw));
	abi_expect_control("fi_mr_raw_attr", &mr->fid, FI_GET_RAW_MR,
			   ret == 77 && raw.base_addr == &base && raw.raw_key == bytes &&
				   raw.key_size == &size && raw.flags == 9);

	abi_copy_len = sizeof(map);
	ret = fi_mr_map_raw(domain, 11, bytes, 12, &key, 13);
	memcpy(&map, abi_copy, sizeof(map));
	abi_expect_control("fi_mr_map_raw", &domain->fid, FI_MAP_RAW_MR,
			   ret == 77 && map.base_addr == 11 && map.raw_key == bytes &&
				   map.key_size == 12 && map.key == &key && map.flags == 13);

	abi_copy_len = sizeof(key);
	ret = fi_mr_unmap_key(domain, 14);
	memcpy(&key, abi_copy, sizeof(key));
	abi_expect_control("fi_mr_unmap_key", &domain->fid, FI_UNMAP_KEY, ret == 77 && key == 14);

	abi_copy_len = sizeof(desc);
	ret = fi_mr_get_xpu_desc(mr, bytes, &size, 15, ABI_PTR(struct fid_xpu_ctx *, 16));
	memcpy(&desc, abi_copy, sizeof(desc));
	abi_expect_control("fi_mr_get_xpu_desc", &mr->fid, FI_GET_MR_XPU_DESC,
			   ret == 77 && desc.buf == bytes && desc.len == &size &&
				   desc.flags == 15 &&
				   desc.ctx == ABI_PTR(struct fid_xpu_ctx *, 16));
}

static void abi_try_mr(void)
{
	struct fid_mr mr;
	struct fid_domain domain;
	struct fi_mr_modify modify, wanted;
	struct iovec iov[2];
	int ret;

	memset(&mr, 0, sizeof(mr));
	memset(&domain, 0, sizeof(domain));
	mr.fid.ops = &abi_fid_ops;
	domain.fid.ops = &abi_fid_ops;
	abi_try_mr_control(&mr, &domain);

	memset(&wanted, 0, sizeof(wanted));
	wanted.flags = 7;
	wanted.attr.mr_iov = iov;
	wanted.attr.iov_count = 2;
	abi_copy_len = sizeof(modify);
	ret = fi_mr_refresh(&mr, iov, 2, 7);
	abi_expect_control("fi_mr_refresh", &mr.fid, FI_REFRESH,
			   ret == 77 && !memcmp(abi_copy, &wanted, sizeof(wanted)));

	ret = fi_mr_enable(&mr);
	abi_expect_control("fi_mr_enable", &mr.fid, FI_ENABLE, ret == 77 && !abi_arg);

	mr.mem_desc = &domain;
	mr.key = 21;
	abi_expect("fi_mr_desc", fi_mr_desc(&mr) == &domain);
	abi_covered("fi_mr_desc");
	abi_expect("fi_mr_key", fi_mr_key(&mr) == 21);
	abi_covered("fi_mr_key");
	abi_expect("fi_hmem_ze_device", fi_hmem_ze_device(2, 3) == (2 << 16 | 3));
	abi_covered("fi_hmem_ze_device");
}

static void abi_try_ep(void)
{
	struct fid_ep ep, second, *alias = NULL;
	int ret;

	memset(&ep, 0, sizeof(ep));
	ep.fid.ops = &abi_fid_ops;
	ret = fi_enable(&ep);
	abi_expect_control("fi_enable", &ep.fid, FI_ENABLE, ret == 77 && !abi_arg);

	abi_copy_len = 0;
	ret = fi_ep_alias(&ep, &alias, 1);
	abi_expect("fi_ep_alias", ret == 77 && !alias && abi_reached == 1);
	abi_reached = 0;
	abi_alias_result = &second.fid;
	ret = fi_ep_alias(&ep, &alias, 1);
	abi_alias_result = NULL;
	abi_expect_control("fi_ep_alias", &ep.fid, FI_ALIAS, ret == 0 && alias == &second);
}

static void abi_try_addresses(void)
{
	struct fid_mc mc;

	memset(&mc, 0, sizeof(mc));
	mc.fi_addr = 31;
	abi_expect("fi_mc_addr", fi_mc_addr(&mc) == 31);
	abi_covered("fi_mc_addr");
	abi_expect("fi_rx_addr",
		   fi_rx_addr(5, 3, 4) == (3ULL << 60 | 5) && fi_rx_addr(5, 0, 0) == 5);
	abi_covered("fi_rx_addr");
	abi_expect("fi_group_addr", fi_group_addr(5, 3) == (3ULL << 32 | 5));
	abi_covered("fi_group_addr");
	abi_expect("fi_tag_mpi", fi_tag_mpi(0x12345678, 0xab) == 0xab12345678ULL);
	abi_covered("fi_tag_mpi");
}

static int abi_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
		    void *context)
{
	const struct fi_collective_addr *coll = (const struct fi_collective_addr *)addr;

	abi_reached++;
	abi_expect("fi_join_collective",
		   ep && coll->coll_addr == 41 &&
			   coll->set == ABI_PTR(const struct fid_av_set *, 42) &&
			   flags == (FI_COLLECTIVE | 1) && mc == ABI_PTR(struct fid_mc **, 43) &&
			   context == ABI_PTR(void *, 44));
	return 78;
}

static void abi_try_collective(void)
{
	struct fid_ep ep;
	struct fi_ops_cm cm;
	int ret;

	memset(&ep, 0, sizeof(ep));
	memset(&cm, 0, sizeof(cm));
	cm.size = sizeof(cm);
	cm.join = abi_join;
	ep.cm = &cm;
	ret = fi_join_collective(&ep, 41, ABI_PTR(const struct fid_av_set *, 42), 1,
				 ABI_PTR(struct fid_mc **, 43), ABI_PTR(void *, 44));
	abi_expect("fi_join_collective", ret == 78 && abi_reached == 1);
	abi_covered("fi_join_collective");
}

static struct fid abi_library;

/* In the library's place: the inline calls that need it find these. */
#ifdef __cplusplus
extern "C" {
#endif

int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
	    struct fid **fid, void *context)
{
	abi_expect("fi_import", version == 51 && attr_len == (attr ? 52U : 0U) && context != NULL);
	if (strcmp(name, "mr_cache") && strcmp(name, "logging"))
		return -FI_ENOSYS;
	abi_library.ops = &abi_fid_ops;
	*fid = &abi_library;
	return flags ? 0 : -FI_EINVAL;
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	return info ? NULL : ABI_PTR(struct fi_info *, 53);
}

#ifdef __cplusplus
}
#endif

static void abi_try_import(void)
{
	struct fid fid;
	struct fid_logging logging;
	struct fi_ops_log ops;
	int ret;

	memset(&fid, 0, sizeof(fid));
	fid.ops = &abi_fid_ops;
	ret = fi_import_fid(&fid, &abi_library, 61);
	abi_expect("fi_import_fid",
		   ret == 61 && abi_reached == 1 && abi_fid == &fid && abi_arg == &abi_library);
	abi_covered("fi_import_fid");

	ret = fi_import(51, "other", &ret, 52, 62, &fid, &ret);
	abi_expect("fi_import", ret == -FI_ENOSYS && abi_reached == 0 && abi_closed == 0);
	ret = fi_import(51, "mr_cache", &ret, 52, 62, &fid, &ret);
	abi_expect("fi_import", ret == 62 && abi_reached == 1 && abi_arg == &fid &&
					abi_closed == 1 && abi_fid == &abi_library);
	abi_covered("fi_import");

	memset(&logging, 0, sizeof(logging));
	memset(&ops, 0, sizeof(ops));
	logging.ops = &ops;
	ret = fi_import_log(51, 63, &logging);
	abi_expect("fi_import_log", ret == 63 && abi_arg == &logging.fid &&
					    logging.fid.fclass == FI_CLASS_LOG &&
					    ops.size == sizeof(ops) && abi_closed == 2);
	abi_covered("fi_import_log");

	abi_expect("fi_allocinfo", fi_allocinfo() == ABI_PTR(struct fi_info *, 53));
	abi_covered("fi_allocinfo");
}

static int abi_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		      void *context)
{
	return fabric && info && domain && context ? 81 : 0;
}

static int abi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
			void *context)
{
	return domain && info && ep && context ? 82 : 0;
}

static int abi_lookup(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	return av && fi_addr == 7 && addr && addrlen ? 83 : 0;
}

static ssize_t abi_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
	return ep && coll_addr == 8 && context ? 84 : 0;
}

/* Without flags the newer calls are the older ones, and work with libraries that know only those. */
static void abi_try_fallbacks(void)
{
	struct fid_fabric fabric;
	struct fid_domain domain, *domain_out;
	struct fid_ep ep, *ep_out;
	struct fid_av av;
	struct fi_ops_fabric fabric_ops;
	struct fi_ops_domain domain_ops;
	struct fi_ops_av av_ops;
	struct fi_ops_collective collective_ops;
	struct fi_info info;
	size_t len = 0;

	fabric_ops.size = offsetof(struct fi_ops_fabric, domain2);
	fabric_ops.domain = abi_domain;
	fabric.ops = &fabric_ops;
	abi_expect("fi_domain2", fi_domain2(&fabric, &info, &domain_out, 0, &len) == 81);
	domain_ops.size = offsetof(struct fi_ops_domain, endpoint2);
	domain_ops.endpoint = abi_endpoint;
	domain.ops = &domain_ops;
	abi_expect("fi_endpoint2", fi_endpoint2(&domain, &info, &ep_out, 0, &len) == 82);
	av_ops.size = offsetof(struct fi_ops_av, lookup2);
	av_ops.lookup = abi_lookup;
	av.ops = &av_ops;
	abi_expect("fi_av_lookup2", fi_av_lookup2(&av, 7, &info, &len, 0, NULL) == 83);
	collective_ops.size = offsetof(struct fi_ops_collective, barrier2);
	collective_ops.barrier = abi_barrier;
	ep.collective = &collective_ops;
	abi_expect("fi_barrier2", fi_barrier2(&ep, 8, 0, &len) == 84);
}

static void abi_try_others(void)
{
	abi_fid_ops.size = sizeof(abi_fid_ops);
	abi_fid_ops.control = abi_control;
	abi_fid_ops.bind = abi_bind;
	abi_fid_ops.close = abi_close;
	abi_try_fabric();
	abi_try_mr();
	abi_try_ep();
	abi_try_addresses();
	abi_try_collective();
	abi_try_import();
	abi_try_fallbacks();
}
