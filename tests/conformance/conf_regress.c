/* SPDX-License-Identifier: BSD-2-Clause */
/* Mistakes that went through once: each case here failed before its cause was mended. */
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

/* A raw key goes with the base address that came with it. */
static void api_11_wrong_base_address_is_refused(struct conf *c)
{
	struct conf_link l;
	uint8_t raw[16];
	size_t size = sizeof(raw);
	uint64_t base, key;

	conf_link(c, NULL, 64, &l);
	assert_ok(fi_mr_raw_attr(l.remote->mr, &base, raw, &size, 0));
	assert_ok(fi_mr_map_raw(l.a->domain, base + 8, raw, size, &key, 0));
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, l.remote->addr, key, c));
	conf_failed(l.a->tx, c, FI_EKEYREJECTED, HMREG_KEY_FORGED);
	assert_ok(fi_mr_unmap_key(l.a->domain, key));
	conf_works(&l);
}

/* Sixteen zero bytes are a well-formed key of no region: what maps them can unmap them. */
static void api_11_zero_raw_key_can_be_unmapped(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	uint8_t raw[16] = { 0 };
	uint64_t key = 0;

	assert_ok(fi_mr_map_raw(end->domain, 0, raw, sizeof(raw), &key, 0));
	conf_check_stats(end, 0, 0, 1);
	assert_ok(fi_mr_unmap_key(end->domain, key));
	conf_check_stats(end, 0, 0, 0);
	assert_refused(fi_mr_unmap_key(end->domain, key), -FI_EINVAL);
}

/* Memory that is not to be written is told from memory that is not there. */
static void refuse_writing(struct conf_end *end, const void *mem, size_t len, uint64_t access)
{
	struct fid_mr *mr = NULL;
	int ret;

	conf_log_mark(__FILE__, __LINE__);
	ret = fi_mr_reg(end->domain, mem, len, access, 0, 1, 0, &mr, NULL);
	conf_log_expect(1, "writ", "fi_mr_reg", __FILE__, __LINE__);
	assert_int_equal(ret, -FI_EACCES);
	assert_null(mr);
}

/* Pages that the NIC is to write must be writable; for reading they need not. */
static void reg_02_mode_06_read_only_memory(struct conf *c)
{
	static const size_t pages[] = { 1, 16, 17, 100 };
	struct conf_end *end = conf_open_for_regions(c);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < count_of(pages); i++) {
		size_t len = pages[i] * page;
		void *mem = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_true(mem != MAP_FAILED);
		refuse_writing(end, mem, len, FI_REMOTE_WRITE);
		refuse_writing(end, mem, len, FI_RECV);
		conf_drop_region(conf_reg(end, mem, len, FI_REMOTE_READ | FI_SEND | FI_WRITE));
		munmap(mem, len);
	}
	conf_check_stats(end, 0, 0, 0);
}

/* Remote data that nobody can read is no success. */
static void remote_data_needs_a_queue(struct conf *c)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };
	struct conf_end *a, *b;
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	uint8_t *src, *dst, name[64];
	size_t len = sizeof(name);
	struct conf_region *local, *remote;
	fi_addr_t to;

	conf_pair(c, NULL, &a, &b);
	src = conf_alloc(c, 64);
	dst = conf_alloc(c, 64);
	local = conf_reg(a, src, 64, CONF_ALL);
	assert_ok(fi_cntr_open(b->domain, &attr, &cntr, NULL));
	assert_ok(fi_endpoint(b->domain, b->info, &ep, NULL));
	assert_ok(fi_ep_bind(ep, &b->av->fid, 0));
	assert_ok(fi_ep_bind(ep, &cntr->fid, FI_SEND | FI_RECV));
	assert_ok(fi_enable(ep));
	assert_ok(fi_getname(&ep->fid, name, &len));
	assert_int_equal(fi_av_insert(a->av, name, 1, &to, 0, NULL), 1);
	remote = conf_reg(b, dst, 64, CONF_ALL);
	if (!(c->mode & FI_MR_ENDPOINT)) { /* else it is bound to b's own endpoint */
		assert_ok(fi_writedata(a->ep, src, 8, local->desc, 5, to, remote->addr,
				       conf_key(a, remote), c));
		conf_failed(a->tx, c, FI_EOPNOTSUPP, HMREG_PEER_NO_CAP);
		assert_ok(fi_write(a->ep, src, 8, local->desc, to, remote->addr,
				   conf_key(a, remote), c));
		conf_done(a->tx, c);
	}
	assert_ok(fi_close(&ep->fid));
	assert_ok(fi_close(&cntr->fid));
}

/* Two single-use keys in one operation: either both are used, or neither is. */
static void flag_06_failed_operation_uses_no_key(struct conf *c)
{
	struct conf_link l;
	struct conf_region *once[2];
	struct fi_rma_iov target[2];
	struct iovec iov;
	uint8_t *mem = conf_alloc(c, 128);
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = target, .rma_iov_count = 2, .context = c
	};

	conf_need_flag(c, FI_MR_SINGLE_USE);
	conf_link(c, NULL, 64, &l);
	for (size_t i = 0; i < 2; i++) {
		iov = (struct iovec){ mem + 64 * i, 64 };
		once[i] = conf_regv(l.b, &iov, 1, CONF_ALL, FI_MR_SINGLE_USE, NULL);
		target[i] = (struct fi_rma_iov){ once[i]->addr, 8, conf_key(l.a, once[i]) };
	}
	/* use up the second alone */
	assert_ok(
		fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, target[1].addr, target[1].key, c));
	conf_done(l.a->tx, c);
	iov = (struct iovec){ l.src, 16 };
	msg.desc = &l.local->desc;
	msg.addr = l.to;
	assert_ok(fi_writemsg(l.a->ep, &msg, 0));
	conf_failed(l.a->tx, c, FI_ENOKEY, HMREG_KEY_USED_UP);
	/* the first was not */
	assert_ok(
		fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, target[0].addr, target[0].key, c));
	conf_done(l.a->tx, c);
	assert_ok(
		fi_write(l.a->ep, l.src, 8, l.local->desc, l.to, target[0].addr, target[0].key, c));
	conf_failed(l.a->tx, c, FI_ENOKEY, HMREG_KEY_USED_UP);
}

/* Default operation flags are checked, since they go with every call. */
static void api_20_operation_flags(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct fid_ep *ep = NULL;
	uint64_t flags = FI_TRANSMIT | FI_REMOTE_CQ_DATA;

	assert_refused(fi_control(&end->ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	end->info->tx_attr->op_flags = UINT64_C(1) << 63;
	assert_refused(fi_endpoint(end->domain, end->info, &ep, NULL), -FI_EBADFLAGS);
	assert_null(ep);
	end->info->tx_attr->op_flags = 0;
}

/* Unknown mr_mode bits are a mistake, not something to drop. */
static void mode_01_unknown_bits_at_the_domain(struct conf *c)
{
	struct conf_end *end = conf_open_for_regions(c);
	struct fid_domain *domain = NULL;
	int mode = end->info->domain_attr->mr_mode;

	end->info->domain_attr->mr_mode = mode | 1 << 20;
	assert_refused(fi_domain(end->fabric, end->info, &domain, NULL), -FI_EINVAL);
	end->info->domain_attr->mr_mode = mode;
	assert_null(domain);
}

/* A send whose buffer is not there takes no receive from the peer. */
static void missing_source_spends_no_receive(struct conf *c)
{
	struct conf_end *a, *b;
	uint8_t *dst = conf_alloc(c, 64), *src = conf_alloc(c, 64);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *gone;

	if (c->mode & FI_MR_LOCAL)
		conf_skip(c,
			  "buffers must be registered (FI_MR_LOCAL), so that this one cannot be");
	/* not unmapped: the library's own memory might come to lie there */
	gone = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	conf_pair(c, NULL, &a, &b);
	assert_ok(fi_recv(b->ep, dst, 64, NULL, FI_ADDR_UNSPEC, dst));
	assert_ok(fi_send(a->ep, gone, 32, NULL, conf_addr(a, b), gone));
	conf_failed(a->tx, gone, FI_EFAULT, HMREG_FAULT);
	conf_quiet(b->rx);
	assert_ok(fi_send(a->ep, src, 32, NULL, conf_addr(a, b), src));
	conf_done(a->tx, src);
	conf_done(b->rx, dst);
	munmap(gone, page);
}

/* Asking may log that the device is gone. */
static uint32_t state_of(struct fid_mr *mr)
{
	struct hmreg_region_info info = { .size = sizeof(info) };
	struct hmreg_mr_ops *ops;

	assert_int_equal(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->info(&mr->fid, &info), 0);
	return info.state;
}

/* A domain without endpoints has no thread: its regions tell of the device's removal nevertheless. */
static void fn_38_idle_domain_is_revoked(struct conf *c)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*remove_device)(const char *name) = NULL;
	struct conf_region *region;
	void (*reset)(void) = NULL;
	struct conf_end *end;

	if (library) {
		*(void **)&remove_device = dlsym(library, "emu_verbs_remove_device");
		*(void **)&reset = dlsym(library, "emu_verbs_reset");
		dlclose(library);
	}
	if (c->profile->at_once || !remove_device || !reset)
		conf_skip(c, "only the emulated devices do this on demand");
	end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	region = conf_reg(end, conf_alloc(c, 64), 64, CONF_ALL);
	assert_false(state_of(region->mr) & HMREG_REGION_REVOKED);
	conf_log_mark(__FILE__, __LINE__);
	assert_int_equal(remove_device(c->profile->name), 0);
	assert_true(state_of(region->mr) & HMREG_REGION_REVOKED);
	assert_true(state_of(region->mr) & HMREG_REGION_REVOKED);
	conf_log_expect(1, "is gone", "removal", __FILE__, __LINE__);
	conf_drop_region(region);
	conf_drop_end(end);
	reset();
}

static const struct conf_case cases[] = {
	CONF_NEED(api_11_wrong_base_address_is_refused, FI_MR_RAW),
	CONF(api_11_zero_raw_key_can_be_unmapped),
	CONF_NEED(reg_02_mode_06_read_only_memory, FI_MR_ALLOCATED),
	CONF(remote_data_needs_a_queue),
	CONF(flag_06_failed_operation_uses_no_key),
	CONF(api_20_operation_flags),
	CONF(mode_01_unknown_bits_at_the_domain),
	CONF(missing_source_spends_no_receive),
	CONF(fn_38_idle_domain_is_revoked),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
