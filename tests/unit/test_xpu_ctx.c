/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XPU contexts inside: a NIC that brings a transport of its own takes the ring's place (nic_xpu.h), what it cannot
 * export is refused, and descriptors cost no lock and no memory.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "core/nic/nic_xpu.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/fake_nic.h"
#include "tests/unit/warnings.h"
#include "xpu/xpu.h"

#define API  FI_VERSION(2, 7)
#define ID   0x7e57
#define PAGE 4096

/* ---- locks are counted ---- */

static unsigned locks;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	locks++;
	return __real_pthread_mutex_lock(lock);
}

/* ---- a NIC whose queues devices reach ---- */

static int export_answer, parts, exported[3];
static void *last_owner, *last_nic;

static int own_desc(const struct nic_region *region, void *desc)
{
	memset(desc, 0x11, 5);
	((uint8_t *)desc)[0] = (uint8_t)region->len;
	return 0;
}

static int own_addr(const struct nic_domain *domain, uint64_t peer, uint64_t fi_addr, void *addr)
{
	uint64_t both[2] = { peer, fi_addr };

	assert_non_null(domain->port);
	memcpy(addr, both, sizeof(both));
	return 0;
}

static int make_part(int kind, void *nic, void *owner, struct fid_xpu *out,
		     struct hm_xpu_part **part)
{
	if (export_answer)
		return export_answer;
	*part = calloc(1, sizeof(**part));
	assert_non_null(*part);
	out->prov_id = ID;
	out->prov_ctx = (uintptr_t)nic;
	last_owner = owner;
	last_nic = nic;
	exported[kind]++;
	parts++;
	return 0;
}

static int own_ep(struct hm_xpu_own *ctx, struct nic_ep *ep, void *owner, struct fid_xpu *out,
		  struct hm_xpu_part **part)
{
	(void)ctx;
	return make_part(0, ep, owner, out, part);
}

static int own_cq(struct hm_xpu_own *ctx, struct nic_cq *cq, void *owner, struct fid_xpu *out,
		  struct hm_xpu_part **part)
{
	(void)ctx;
	return make_part(1, cq, owner, out, part);
}

static int own_cntr(struct hm_xpu_own *ctx, struct nic_cntr *cntr, void *owner, struct fid_xpu *out,
		    struct hm_xpu_part **part)
{
	(void)ctx;
	return make_part(2, cntr, owner, out, part);
}

static void own_end(struct hm_xpu_part *part)
{
	parts--;
	free(part);
}

/* By its doorbell, which the device must have in its address space. */
static _Alignas(PAGE) char doorbell[2 * PAGE];
static unsigned long doorbell_on_device;
static int import_answer, reach_answer;

static bool own_reaches(const struct hm_xpu_own *ctx, const struct nic_domain *nic)
{
	uint64_t device = 0;

	assert_ptr_equal(nic->ops->xpu->reaches, own_reaches);
	reach_answer = nic_xpu_import(ctx, doorbell, PAGE,
				      FI_XPU_IMPORT_IOMEMORY | FI_XPU_IMPORT_DEVICEMAP, &device);
	if (reach_answer != 0)
		return false;
	doorbell_on_device = device;
	nic_xpu_release(ctx, device);
	return true;
}

static unsigned imports, frees;

static int ops_import(uint64_t device, void *host_addr, uint64_t size, uint64_t flags, void **ptr)
{
	assert_int_equal(device, 3);
	if (!(flags & FI_XPU_IMPORT_IOMEMORY)) {
		*ptr = host_addr;
		return 0;
	}
	assert_ptr_equal(host_addr, doorbell);
	assert_int_equal(size, PAGE);
	assert_int_equal(flags, FI_XPU_IMPORT_IOMEMORY | FI_XPU_IMPORT_DEVICEMAP);
	imports++;
	*ptr = doorbell + PAGE;
	return import_answer;
}

static int ops_alloc(uint64_t device, uint64_t size, uint64_t align, uint64_t flags, void **ptr,
		     int *dmabuf_fd, uint64_t *dmabuf_offset)
{
	(void)device, (void)size, (void)align, (void)flags;
	(void)ptr, (void)dmabuf_fd, (void)dmabuf_offset;
	return -FI_ENOMEM;
}

static void ops_free(uint64_t device, void *ptr)
{
	assert_int_equal(device, 3);
	assert_ptr_equal(ptr, doorbell + PAGE);
	frees++;
}

static struct nic_xpu_ops own_ops = { .prov_id = ID,
				      .caps = FI_XPU_CAP_EP | FI_XPU_CAP_CQ | FI_XPU_CAP_CNTR,
				      .desc_size = 5,
				      .addr_size = 16,
				      .desc = own_desc,
				      .addr = own_addr,
				      .ep_export = own_ep,
				      .cq_export = own_cq,
				      .cntr_export = own_cntr,
				      .end = own_end };

static int ports(const struct nic_port **list, size_t *count);

static struct nic_ops ops = FAKE_OPS("reached", ports);
static struct nic_port port = FAKE_PORT(&ops, "reached", "r0", FI_MR_PROV_KEY, NULL);

static int ports(const struct nic_port **list, size_t *count)
{
	*list = &port;
	*count = 1;
	return 0;
}

/* ---- what is open ---- */

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_xpu_ctx *ctx;
static struct fid_av *av;
static fi_addr_t peer;

static int set_up(void **state)
{
	(void)state;
	port.caps |= FI_XPU;
	port.optional_caps |= FI_XPU;
	setenv("HMREG_SW_ENABLE", "0", 1);
	setenv("HMREG_VERBS_ENABLE", "0", 1);
	nic_register(&ops);
	return warnings_start(state);
}

static void open_over(const struct nic_xpu_ops *transport)
{
	struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM };
	struct sockaddr_in in = fake_addr(0x7f010203u, 5);
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av_attr = { 0 };

	assert_non_null(hints);
	ops.xpu = transport;
	hints->caps = FI_RMA | FI_XPU;
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
	assert_int_equal(fi_xpu_ctx(domain, &attr, &ctx, NULL), 0);
	assert_int_equal(fi_av_open(domain, &av_attr, &av, NULL), 0);
	assert_int_equal(fi_av_insert(av, &in, 1, &peer, 0, NULL), 1);
	info->ep_attr->xpu_ctx = ctx;
}

static void close_all(void)
{
	info->ep_attr->xpu_ctx = NULL;
	assert_int_equal(fi_close(&av->fid), 0);
	assert_int_equal(fi_close(&ctx->fid), 0);
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
	ops.xpu = NULL;
}

/* ---- tests ---- */

static void xpu_03_a_nics_own_transport(void **state)
{
	struct fi_xpu_ctx_attr attr;
	uint8_t desc[8] = { 0 }, buf[77];
	uint64_t addr[2];
	size_t len = sizeof(desc), room = sizeof(addr);
	struct fid_mr *mr;

	(void)state;
	open_over(&own_ops);
	assert_int_equal(fi_xpu_ctx_query(ctx, &attr), 0);
	assert_int_equal(attr.caps, own_ops.caps);
	assert_int_equal(attr.mr_desc_size, 5);
	assert_int_equal(attr.av_addr_size, 16);
	assert_int_equal(fi_mr_reg(domain, buf, sizeof(buf), FI_WRITE, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(fi_mr_get_xpu_desc(mr, desc, &len, FI_XPU, ctx), 0);
	assert_int_equal(len, 5);
	assert_int_equal(desc[0], sizeof(buf));
	assert_int_equal(desc[4], 0x11);
	assert_int_equal(fi_av_lookup2(av, peer, addr, &room, FI_XPU, ctx), 0);
	assert_int_equal(addr[0], UINT64_C(0x7f0102030005));
	assert_int_equal(addr[1], peer);
	assert_int_equal(fi_close(&mr->fid), 0);
	close_all();
}

static void xpu_07_exported_through_it(void **state)
{
	struct fi_cq_attr cq_attr = { .flags = FI_XPU };
	struct fi_cntr_attr cntr_attr = { .flags = FI_XPU };
	struct fid_xpu_cntr out_cntr = { 0 };
	struct fid_xpu_cq out_cq = { 0 };
	struct fid_xpu_ep out_ep = { 0 };
	struct fid_cntr *cntr;
	struct fid_cq *cq;
	struct fid_ep *ep;

	(void)state;
	open_over(&own_ops);
	cq_attr.xpu_ctx = cntr_attr.xpu_ctx = ctx;
	assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_cntr_open(domain, &cntr_attr, &cntr, NULL), 0);
	assert_int_equal(fi_endpoint2(domain, info, &ep, FI_XPU, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
	assert_int_equal(fi_enable(ep), 0);

	/* a transport that fails changes nothing */
	export_answer = -FI_ENOSPC;
	assert_int_equal(fi_ep_export_xpu(ep, 0, &out_ep), -FI_ENOSPC);
	assert_int_equal(fi_cq_export_xpu(cq, 0, &out_cq), -FI_ENOSPC);
	assert_int_equal(fi_cntr_export_xpu(cntr, 0, &out_cntr), -FI_ENOSPC);
	assert_int_equal(out_ep.fid.prov_id | out_cq.fid.prov_id | out_cntr.fid.prov_id, 0);
	assert_int_equal(fi_cntr_add(cntr, 1), 0); /* the host's still */
	export_answer = 0;
	assert_int_equal(parts, 0);

	assert_int_equal(fi_ep_export_xpu(ep, 0, &out_ep), 0);
	assert_ptr_equal(last_owner, hm_ep_of(&ep->fid));
	assert_ptr_equal(last_nic, hm_ep_of(&ep->fid)->nic);
	assert_int_equal(fi_cq_export_xpu(cq, 0, &out_cq), 0);
	assert_ptr_equal(last_owner, hm_cq_of(&cq->fid));
	assert_ptr_equal(last_nic, &hm_cq_of(&cq->fid)->nic);
	assert_int_equal(fi_cntr_export_xpu(cntr, 0, &out_cntr), 0);
	assert_ptr_equal(last_owner, hm_cntr_of(&cntr->fid));
	assert_ptr_equal(last_nic, &hm_cntr_of(&cntr->fid)->nic);
	assert_int_equal(out_ep.fid.fclass, FI_CLASS_EP);
	assert_int_equal(out_cq.fid.fclass, FI_CLASS_CQ);
	assert_int_equal(out_cntr.fid.fclass, FI_CLASS_CNTR);
	assert_true(out_ep.fid.prov_id == ID && out_cq.fid.prov_id == ID &&
		    out_cntr.fid.prov_id == ID);
	assert_int_equal(parts, 3);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(parts, 2);
	assert_int_equal(fi_close(&cq->fid), 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
	assert_int_equal(parts, 0);
	assert_true(exported[0] == 1 && exported[1] == 1 && exported[2] == 1);
	close_all();
}

static void xpu_03_what_it_cannot_export(void **state)
{
	static const uint64_t caps[] = { FI_XPU_CAP_EP, FI_XPU_CAP_CQ, FI_XPU_CAP_CNTR };
	struct fi_cq_attr cq_attr = { .flags = FI_XPU };
	struct fi_cntr_attr cntr_attr = { .flags = FI_XPU };
	const uint64_t all = own_ops.caps;

	(void)state;
	open_over(&own_ops);
	cq_attr.xpu_ctx = cntr_attr.xpu_ctx = ctx;
	for (size_t i = 0; i < count_of(caps); i++) {
		struct fi_xpu_ctx_attr attr;
		struct fid_cntr *cntr = NULL;
		struct fid_cq *cq = NULL;
		struct fid_ep *ep = NULL;

		own_ops.caps = all & ~caps[i];
		assert_int_equal(fi_xpu_ctx_query(ctx, &attr), 0);
		assert_int_equal(attr.caps, own_ops.caps);
		warning_count = 0;
		assert_int_equal(fi_endpoint2(domain, info, &ep, FI_XPU, NULL),
				 i == 0 ? -FI_ENOSYS : 0);
		assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), i == 1 ? -FI_ENOSYS : 0);
		assert_int_equal(fi_cntr_open(domain, &cntr_attr, &cntr, NULL),
				 i == 2 ? -FI_ENOSYS : 0);
		assert_int_equal(warning_count, 1);
		if (ep)
			assert_int_equal(fi_close(&ep->fid), 0);
		if (cq)
			assert_int_equal(fi_close(&cq->fid), 0);
		if (cntr)
			assert_int_equal(fi_close(&cntr->fid), 0);
	}
	own_ops.caps = all;
	close_all();
}

/* prov_id of a counter's export, by a context with these operations. */
static uint32_t exported_by(struct fi_xpu_ops *memory)
{
	struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM, .device = 3, .ops = memory };
	struct fi_cntr_attr cntr_attr = { .flags = FI_XPU };
	struct fid_xpu_cntr out = { 0 };
	struct fid_xpu_ctx *other;
	struct fid_cntr *cntr;
	bool ring;

	assert_int_equal(fi_xpu_ctx(domain, &attr, &other, NULL), 0);
	cntr_attr.xpu_ctx = other;
	assert_int_equal(fi_cntr_open(domain, &cntr_attr, &cntr, NULL), 0);
	ring = fi_cntr_export_xpu(cntr, 0, &out) == -FI_ENOMEM; /* of a ring's, by ops_alloc */
	assert_int_equal(fi_close(&cntr->fid), 0);
	assert_int_equal(fi_close(&other->fid), 0);
	return ring ? FI_XPU_PROV_HMREG : out.fid.prov_id;
}

/* Which device reaches the NIC is found out for each context. */
static void xpu_02_a_doorbell_is_imported_or_the_ring_serves(void **state)
{
	struct fi_xpu_ops with = { sizeof(with), NULL, ops_import, ops_free };
	struct fi_xpu_ops without = { sizeof(without), ops_alloc, NULL, ops_free };

	(void)state;
	own_ops.reaches = own_reaches;
	imports = frees = 0;
	open_over(&own_ops); /* the processor reaches it where it is */
	assert_int_equal(doorbell_on_device, (uintptr_t)doorbell);
	assert_int_equal(imports | frees, 0);

	assert_int_equal(exported_by(&with), ID);
	assert_int_equal(doorbell_on_device, (uintptr_t)doorbell + PAGE);
	assert_true(imports == 1 && frees == 1);

	warning_count = 0;
	assert_int_equal(exported_by(&without), FI_XPU_PROV_HMREG);
	assert_int_equal(reach_answer, -FI_ENOSYS);
	assert_int_equal(warning_count, 1); /* ops_alloc's: that there is no import is no mistake */

	close_all();
	own_ops.reaches = NULL;
}

static void xpu_02_an_import_that_fails_leaves_the_ring(void **state)
{
	struct fi_xpu_ops with = { sizeof(with), NULL, ops_import, ops_free };
	struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM, .device = 3, .ops = &with };
	struct fi_xpu_ctx_attr query;
	struct fid_xpu_ctx *other;

	(void)state;
	open_over(&own_ops);
	own_ops.reaches = own_reaches;
	imports = frees = 0;
	import_answer = -FI_EPERM;
	warning_count = 0;
	assert_int_equal(fi_xpu_ctx(domain, &attr, &other, NULL), 0);
	assert_int_equal(reach_answer, -FI_EPERM);
	assert_int_equal(warning_count, 1);
	assert_true(imports == 1 && frees == 0);
	assert_int_equal(fi_xpu_ctx_query(other, &query), 0);
	assert_int_equal(query.mr_desc_size, sizeof(struct hmreg_xpu_desc));
	assert_int_equal(fi_close(&other->fid), 0);
	import_answer = 0;
	own_ops.reaches = NULL;
	close_all();
}

/* With the ring, too, which asks the NIC for its name of the region. */
static void xpu_04_no_lock_and_no_memory(void **state)
{
	static const struct nic_xpu_ops *const transports[] = { &own_ops, NULL };
	uint8_t room[64], buf[64];

	(void)state;
	for (size_t i = 0; i < count_of(transports); i++) {
		size_t len = sizeof(room);
		struct fid_mr *mr;
		unsigned before;
		long live;
		int desc, addr;

		open_over(transports[i]);
		assert_int_equal(fi_mr_reg(domain, buf, 64, FI_WRITE, 0, 0, 0, &mr, NULL), 0);
		live = alloc_live;
		alloc_fail_at(ALLOC_EVERY);
		before = locks;
		desc = fi_mr_get_xpu_desc(mr, room, &len, FI_XPU, ctx);
		len = sizeof(room);
		addr = fi_av_lookup2(av, peer, room, &len, FI_XPU, ctx);
		assert_int_equal(locks, before);
		assert_false(alloc_failed());
		assert_int_equal(alloc_live, live);
		assert_int_equal(desc, 0);
		assert_int_equal(addr, 0);
		assert_int_equal(fi_close(&mr->fid), 0);
		close_all();
	}
}

/* One that is closed stays what it is for a while: not a context, although others are opened and closed. */
static void xpu_04_closed_is_not_soon_another(void **state)
{
	struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM };
	struct fid_xpu_ctx *closed, *other;
	uint8_t room[64], buf[64];
	size_t len = sizeof(room);
	struct fid_mr *mr;

	(void)state;
	open_over(NULL);
	assert_int_equal(fi_mr_reg(domain, buf, 64, FI_WRITE, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(fi_xpu_ctx(domain, &attr, &closed, NULL), 0);
	assert_int_equal(fi_close(&closed->fid), 0);
	for (unsigned i = 0; i < HM_XPU_CTX_MAX - 2; i++) {
		assert_int_equal(fi_xpu_ctx(domain, &attr, &other, NULL), 0);
		assert_ptr_not_equal(other, closed);
		assert_refused(fi_mr_get_xpu_desc(mr, room, &len, FI_XPU, closed), -FI_EINVAL);
		assert_int_equal(fi_mr_get_xpu_desc(mr, room, &len, FI_XPU, other), 0);
		len = sizeof(room);
		assert_int_equal(fi_close(&other->fid), 0);
	}
	assert_int_equal(fi_close(&mr->fid), 0);
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xpu_03_a_nics_own_transport),
		cmocka_unit_test(xpu_07_exported_through_it),
		cmocka_unit_test(xpu_03_what_it_cannot_export),
		cmocka_unit_test(xpu_02_a_doorbell_is_imported_or_the_ring_serves),
		cmocka_unit_test(xpu_02_an_import_that_fails_leaves_the_ring),
		cmocka_unit_test(xpu_04_no_lock_and_no_memory),
		cmocka_unit_test(xpu_04_closed_is_not_soon_another),
	};

	return cmocka_run_group_tests(tests, set_up, warnings_stop);
}
