/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_getinfo(3): versions, hints, memory registration modes (API-02, API-03, MODE-01, MODE-12). */
#include <netinet/in.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/harness.h"

static const int mr_bits[] = { FI_MR_LOCAL,    FI_MR_RAW,	 FI_MR_VIRT_ADDR, FI_MR_ALLOCATED,
			       FI_MR_PROV_KEY, FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT, FI_MR_ENDPOINT,
			       FI_MR_HMEM,     FI_MR_COLLECTIVE, FI_MR_XPU_DESC };

#define BASIC_BITS (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* What is agreed on when hints offer these bits. */
static int agreed(const struct conf *c, int offered)
{
	return c->profile->needed | (c->profile->kept & offered);
}

static struct fi_info *hints_for(struct conf *c, int mode, uint64_t info_mode)
{
	struct fi_info *hints = conf_hints(c->profile->name, &(struct conf_opts){ 0 });

	hints->domain_attr->mr_mode = mode;
	hints->mode = info_mode;
	return hints;
}

/* ---- MODE-01 ---- */

static void mode_01_every_set_of_bits(struct conf *c)
{
	for (unsigned int set = 0; set < 1u << count_of(mr_bits); set++) {
		struct fi_info *hints, *info = NULL;
		int offered = 0, ret;

		for (unsigned int i = 0; i < count_of(mr_bits); i++)
			offered |= set >> i & 1 ? mr_bits[i] : 0;
		hints = hints_for(c, offered, 0);
		ret = fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info);
		fi_freeinfo(hints);
		if (c->profile->needed & ~offered) {
			assert_int_equal(ret, -FI_ENODATA);
			assert_null(info);
			continue;
		}
		assert_int_equal(ret, 0);
		/* what it has no use for is cleared */
		assert_int_equal(info->domain_attr->mr_mode, agreed(c, offered));
		assert_null(info->next);
		fi_freeinfo(info);
	}
}

/* Bits that nobody knows are no reason to refuse, nor do they come back. */
static void mode_01_unknown_bits(struct conf *c)
{
	for (unsigned int bit = 13; bit < 31; bit++) {
		struct fi_info *hints = hints_for(c, CONF_MR_MODES | 1 << bit, 0), *info;

		assert_ok(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info));
		assert_int_equal(info->domain_attr->mr_mode, agreed(c, CONF_MR_MODES));
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* Without hints every profile is shown with what it needs. */
static void mode_01_without_hints(struct conf *c)
{
	struct fi_info *info;
	int found = 0;

	assert_ok(fi_getinfo(CONF_VERSION, NULL, NULL, 0, NULL, &info));
	for (struct fi_info *at = info; at; at = at->next) {
		if (strcmp(at->domain_attr->name, c->profile->name))
			continue;
		found++;
		assert_int_equal(at->domain_attr->mr_mode, c->profile->needed);
	}
	assert_int_equal(found, 1);
	fi_freeinfo(info);
}

/* A domain is not opened with less than it needs, whatever the info says by then. */
static void mode_01_domain_lacks_a_bit(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct fid_domain *domain = NULL;

	for (unsigned int i = 0; i < count_of(mr_bits); i++) {
		struct fi_info *info = fi_dupinfo(end->info);

		info->domain_attr->mr_mode &= ~mr_bits[i];
		if (c->profile->needed & mr_bits[i]) {
			assert_refused(fi_domain(end->fabric, info, &domain, NULL), -FI_EINVAL);
			assert_null(domain);
		}
		/* more than it needs changes nothing */
		info->domain_attr->mr_mode = CONF_MR_MODES;
		assert_ok(fi_domain(end->fabric, info, &domain, NULL));
		assert_ok(fi_close(&domain->fid));
		domain = NULL;
		fi_freeinfo(info);
	}
}

/* ---- MODE-12 ---- */

/* The old model that fits the bits that the port needs or keeps. */
static int old_model(const struct conf *c)
{
	int need = c->profile->needed, can = need | c->profile->kept;

	if (!need)
		return FI_MR_SCALABLE;
	if ((need & ~(BASIC_BITS | FI_MR_LOCAL)) || !(can & FI_MR_VIRT_ADDR) ||
	    !(can & FI_MR_PROV_KEY))
		return -1;
	return FI_MR_BASIC;
}

/* Does the port fit this model, which is not the one that it names itself where nothing is asked? */
static bool fits(const struct conf *c, int model)
{
	if (model == FI_MR_BASIC && c->profile->needed == 0)
		return !(BASIC_BITS & ~c->profile->kept);
	return model == old_model(c);
}

static void expect_model(struct conf *c, uint32_t version, int asked, uint64_t info_mode)
{
	bool old = FI_VERSION_LT(version, FI_VERSION(1, 5));
	int model = old_model(c);
	bool matches = fits(c, asked);
	struct fi_info *hints = hints_for(c, asked, info_mode), *info = NULL;
	int ret;

	if (old) {
		matches = model != -1 && (matches || asked == FI_MR_UNSPEC);
		if ((c->profile->needed & FI_MR_LOCAL) && !(info_mode & FI_LOCAL_MR))
			matches = false;
	} else if (asked == FI_MR_UNSPEC) {
		matches = c->profile->needed == 0;
	}
	ret = fi_getinfo(version, NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (ret != (matches ? 0 : -FI_ENODATA))
		fail_msg("version 0x%x, asked %d, mode 0x%lx: %d", version, asked,
			 (unsigned long)info_mode, ret);
	if (ret)
		return;
	assert_int_equal(info->domain_attr->mr_mode, old && asked == FI_MR_UNSPEC ? model : asked);
	if (old)
		assert_true((info->mode & FI_LOCAL_MR) ==
			    (c->profile->needed & FI_MR_LOCAL ? FI_LOCAL_MR
			     : c->profile->kept & FI_MR_LOCAL ? info_mode & FI_LOCAL_MR
							      : 0));
	fi_freeinfo(info);
}

static void mode_12_models(struct conf *c)
{
	static const uint32_t versions[] = { FI_VERSION(1, 0),	FI_VERSION(1, 4), FI_VERSION(1, 5),
					     FI_VERSION(1, 22), FI_VERSION(2, 0), CONF_VERSION };
	static const int asked[] = { FI_MR_UNSPEC, FI_MR_BASIC, FI_MR_SCALABLE };

	for (size_t v = 0; v < count_of(versions); v++)
		for (size_t i = 0; i < count_of(asked); i++)
			for (int local = 0; local < 2; local++)
				expect_model(c, versions[v], asked[i], local ? FI_LOCAL_MR : 0);
}

/* The models stand alone. */
static void mode_12_models_with_other_bits(struct conf *c)
{
	static const int models[] = { FI_MR_BASIC, FI_MR_SCALABLE, FI_MR_BASIC | FI_MR_SCALABLE };
	struct fi_info *info;

	for (size_t i = 0; i < count_of(models); i++) {
		for (size_t k = 0; k <= count_of(mr_bits); k++) {
			int more = k < count_of(mr_bits) ? mr_bits[k] : CONF_MR_MODES;
			struct fi_info *hints = hints_for(c, models[i] | more, 0);

			assert_refused(fi_getinfo(CONF_VERSION, NULL, NULL, 0, hints, &info),
				       -FI_ENODATA);
			assert_null(info);
			fi_freeinfo(hints);
		}
	}
}

/* What they mean is what the bits mean. */
static void mode_12_basic_works(struct conf *c)
{
	static const struct conf_opts opts[] = {
		{ .version = FI_VERSION(1, 4), .mode = FI_MR_BASIC, .info_mode = FI_LOCAL_MR },
		{ .version = FI_VERSION(1, 5), .mode = FI_MR_BASIC },
		{ .version = CONF_VERSION, .mode = FI_MR_BASIC },
	};

	if (!fits(c, FI_MR_BASIC))
		conf_skip(c, "the port does not fit FI_MR_BASIC");
	for (size_t i = 0; i < count_of(opts); i++) {
		struct conf_link l;

		conf_link(c, &opts[i], 64, &l);
		assert_int_equal(l.a->info->domain_attr->mr_mode, FI_MR_BASIC);
		assert_true(l.remote->addr == (uintptr_t)l.dst);
		conf_works(&l);
		assert_refused(fi_mr_reg(l.b->domain, NULL, 4096, CONF_ALL, 0, 0, 0,
					 &(struct fid_mr *){ 0 }, NULL),
			       -FI_EFAULT);
		if (l.a->mode & FI_MR_LOCAL) {
			assert_refused(fi_write(l.a->ep, l.src, 8, NULL, l.to, l.remote->addr,
						l.key, c),
				       -FI_EINVAL);
		} else {
			assert_ok(
				fi_write(l.a->ep, l.src, 8, NULL, l.to, l.remote->addr, l.key, c));
			conf_done(l.a->tx, c);
		}
		conf_drop_region(l.remote);
		conf_drop_region(l.local);
		conf_drop_end(l.b);
		conf_drop_end(l.a);
	}
}

static void mode_12_scalable_works(struct conf *c)
{
	static const struct conf_opts opts[] = {
		{ .version = FI_VERSION(1, 0), .mode = FI_MR_SCALABLE },
		{ .version = CONF_VERSION, .mode = FI_MR_SCALABLE },
	};

	assert_int_equal(old_model(c), FI_MR_SCALABLE);
	for (size_t i = 0; i < count_of(opts); i++) {
		struct conf_link l;

		conf_link(c, &opts[i], 64, &l);
		assert_int_equal(l.a->info->domain_attr->mr_mode, FI_MR_SCALABLE);
		assert_int_equal(l.remote->addr, 0);
		assert_int_equal(l.key, 1);
		conf_works(&l);
	}
}

/* ---- API-02 ---- */

static void api_02_versions(struct conf *c)
{
	const struct {
		unsigned int major, minor;
		int code;
	} versions[] = {
		{ 2, 8, -FI_ENOSYS },	  { 2, 65535, -FI_ENOSYS }, { 3, 0, -FI_ENOSYS },
		{ 65535, 0, -FI_ENOSYS }, { 0, 0, -FI_EINVAL },	    { 0, 9, -FI_EINVAL },
	};
	struct fi_info *info = NULL;

	for (size_t i = 0; i < count_of(versions); i++) {
		assert_refused(fi_getinfo(FI_VERSION(versions[i].major, versions[i].minor), NULL,
					  NULL, 0, NULL, &info),
			       versions[i].code);
		assert_null(info);
	}
	for (unsigned int major = 1; major <= 2; major++) {
		for (unsigned int minor = 0; minor <= (major == 1 ? 22u : 7u); minor++) {
			uint32_t version = FI_VERSION(major, minor);
			bool old = FI_VERSION_LT(version, FI_VERSION(1, 5)), found = false;

			assert_ok(fi_getinfo(version, NULL, NULL, 0, NULL, &info));
			for (struct fi_info *at = info; at; at = at->next) {
				assert_int_equal(at->fabric_attr->api_version, version);
				found |= strcmp(at->domain_attr->name, c->profile->name) == 0;
			}
			assert_true(found == (!old || old_model(c) != -1));
			fi_freeinfo(info);
		}
	}
}

/* Until 1.22 desc was ignored where local buffers need no registration. */
static void api_02_desc_before_1_22(struct conf *c)
{
	static const uint32_t versions[] = { FI_VERSION(1, 5), FI_VERSION(1, 21), FI_VERSION(1, 22),
					     CONF_VERSION };

	for (size_t i = 0; i < count_of(versions); i++) {
		bool ignored = versions[i] < FI_VERSION(1, 22) && !(c->mode & FI_MR_LOCAL);
		struct conf_link l;
		void *bad[] = { &l, (void *)(uintptr_t)1, (void *)UINTPTR_MAX };

		conf_link(c, &(struct conf_opts){ .version = versions[i] }, 64, &l);
		for (size_t k = 0; k < count_of(bad); k++) {
			if (!ignored) {
				assert_refused(fi_write(l.a->ep, l.src, 64, bad[k], l.to,
							l.remote->addr, l.key, c),
					       -FI_EINVAL);
				assert_refused(fi_recv(l.b->ep, l.dst, 64, bad[k], FI_ADDR_UNSPEC,
						       c),
					       -FI_EINVAL);
				continue;
			}
			assert_ok(fi_write(l.a->ep, l.src, 64, bad[k], l.to, l.remote->addr, l.key,
					   c));
			conf_done(l.a->tx, c);
			assert_memory_equal(l.dst, l.src, 64);
			memset(l.dst, 0, 64);
			assert_ok(fi_recv(l.b->ep, l.dst, 64, bad[k], FI_ADDR_UNSPEC, c));
			assert_ok(fi_send(l.a->ep, l.src, 64, bad[k], l.to, c));
			conf_done(l.a->tx, c);
			conf_done(l.b->rx, c);
			assert_memory_equal(l.dst, l.src, 64);
		}
		conf_drop_region(l.remote);
		conf_drop_region(l.local);
		conf_drop_end(l.b);
		conf_drop_end(l.a);
	}
}

/* A program of an older version has no room for what entries and attributes have gained since. */
static void api_02_smaller_structs(struct conf *c)
{
	static const struct {
		uint32_t version;
		size_t entry;
		bool xpu_ctx;
	} versions[] = {
		{ FI_VERSION(1, 4), offsetof(struct fi_cq_err_entry, err_data_size), false },
		{ FI_VERSION(1, 5), offsetof(struct fi_cq_err_entry, src_addr), false },
		{ FI_VERSION(1, 19), offsetof(struct fi_cq_err_entry, src_addr), false },
		{ FI_VERSION(1, 20), sizeof(struct fi_cq_err_entry), false },
		{ CONF_VERSION, sizeof(struct fi_cq_err_entry), true },
	};

	for (size_t i = 0; i < count_of(versions); i++) {
		struct conf_opts opts = { .version = versions[i].version,
					  .info_mode = FI_LOCAL_MR };
		struct fi_cq_attr attr = { .xpu_ctx = (struct fid_xpu_ctx *)&opts };
		struct fi_cq_err_entry entry;
		struct fi_cq_data_entry none;
		struct conf_end *end;
		struct fid_cq *cq;

		if (versions[i].version < FI_VERSION(1, 5)) {
			opts.mode = old_model(c);
			if (opts.mode == -1) /* not listed for such a version */
				continue;
		}
		end = conf_open(c, &opts);
		assert_ok(fi_inject(end->ep, NULL, 0, conf_addr(end, end)));
		assert_ok(fi_recv(end->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, c));
		conf_done(end->rx, c);
		assert_ok(fi_recv(end->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, c));
		assert_ok(fi_cancel(&end->ep->fid, c));
		assert_answer(fi_cq_read(end->rx, &none, 1), -FI_EAVAIL);
		memset(&entry, 0xee, sizeof(entry));
		assert_answer(fi_cq_readerr(end->rx, &entry, 0), 1);
		assert_int_equal(entry.err, FI_ECANCELED);
		for (size_t at = versions[i].entry; at < sizeof(entry); at++)
			assert_int_equal(((uint8_t *)&entry)[at], 0xee);
		if (versions[i].xpu_ctx) {
			assert_refused(fi_cq_open(end->domain, &attr, &cq, NULL), -FI_EINVAL);
		} else {
			assert_ok(fi_cq_open(end->domain, &attr, &cq, NULL));
			assert_ok(fi_close(&cq->fid));
		}
		conf_drop_end(end);
	}
}

/* The last bytes before a page that cannot be read, with a copy of what src has there. */
static void *before_the_end(char *pages, const void *src, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	assert_ok(mprotect(pages, page, PROT_READ | PROT_WRITE));
	memcpy(pages + page - len, src, len);
	assert_ok(mprotect(pages + page, page, PROT_NONE));
	return pages + page - len;
}

/* Nothing is read behind the hints of an older version, nor behind its attributes of a domain and an endpoint. */
static void api_02_smaller_hints(struct conf *c)
{
	static const struct {
		uint32_t version;
		size_t domain, ep;
	} versions[] = {
		{ FI_VERSION(1, 17), offsetof(struct fi_domain_attr, max_ep_auth_key),
		  offsetof(struct fi_ep_attr, xpu_ctx) },
		{ FI_VERSION(1, 22), offsetof(struct fi_domain_attr, max_group_id),
		  offsetof(struct fi_ep_attr, xpu_ctx) },
		{ FI_VERSION(2, 0), offsetof(struct fi_domain_attr, max_cntr_value),
		  offsetof(struct fi_ep_attr, xpu_ctx) },
		{ CONF_VERSION, sizeof(struct fi_domain_attr), sizeof(struct fi_ep_attr) },
	};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(pages, MAP_FAILED);
	for (size_t i = 0; i < count_of(versions); i++) {
		struct fi_info *hints = fi_dupinfo(c->profile->info), *info;
		struct fi_info small = *hints;

		hints->domain_attr->max_cntr_value = hints->domain_attr->max_err_cntr_value = 0;
		small.domain_attr = before_the_end(pages, hints->domain_attr, versions[i].domain);
		small.ep_attr = before_the_end(pages + 2 * page, hints->ep_attr, versions[i].ep);
		assert_ok(fi_getinfo(versions[i].version, NULL, NULL, 0, &small, &info));
		assert_string_equal(info->domain_attr->name, c->profile->name);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
	munmap(pages, 4 * page);
}

/* ---- API-03 ---- */

static void api_03_entry_describes_the_nic(struct conf *c)
{
	const struct fi_info *info = c->profile->info;

	assert_string_equal(info->fabric_attr->prov_name, "hmreg");
	assert_true(info->fabric_attr->name && *info->fabric_attr->name);
	assert_int_equal(info->ep_attr->type, c->profile->no_endpoints ? FI_EP_UNSPEC : FI_EP_RDM);
	assert_int_equal(info->domain_attr->threading, FI_THREAD_SAFE);
	assert_int_equal(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
	assert_non_null(info->nic);
	assert_int_equal(info->nic->fid.fclass, FI_CLASS_NIC);
	assert_non_null(info->nic->device_attr);
	assert_non_null(info->nic->bus_attr);
	assert_non_null(info->nic->link_attr);
	assert_true(info->nic->device_attr->name && info->nic->device_attr->vendor_id);
	/* these are the system's to tell */
	if (c->profile->exact)
		assert_true(info->nic->device_attr->driver && info->nic->device_attr->firmware);
	assert_int_equal(info->nic->link_attr->state, FI_LINK_UP);
	assert_true(strlen(fi_tostr(info, FI_TYPE_INFO)) > 500);
	assert_non_null(strstr(fi_tostr(info, FI_TYPE_INFO), c->profile->name));
}

/* A copy has nothing in common with its original. */
static void api_03_copies_are_deep(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct fi_info *first = fi_dupinfo(c->profile->info), *second = fi_dupinfo(first);

	assert_non_null(second);
	assert_null(second->next);
	assert_ptr_not_equal(first->domain_attr, second->domain_attr);
	assert_ptr_not_equal(first->domain_attr->name, second->domain_attr->name);
	assert_ptr_not_equal(first->nic, second->nic);
	memset(first->domain_attr->name, 'x', strlen(first->domain_attr->name));
	memset(first->nic->device_attr->name, 'x', 1);
	fi_freeinfo(first);
	assert_string_equal(second->domain_attr->name, c->profile->name);
	fi_freeinfo(end->info);
	end->info = second; /* and opens an endpoint as well */
	assert_ok(fi_close(&end->ep->fid));
	assert_ok(fi_endpoint(end->domain, second, &end->ep, NULL));
	fi_freeinfo(NULL);
}

static const struct conf_case cases[] = {
	CONF(mode_01_every_set_of_bits),
	CONF(mode_01_unknown_bits),
	CONF(mode_01_without_hints),
	CONF(mode_01_domain_lacks_a_bit),
	CONF(mode_12_models),
	CONF(mode_12_models_with_other_bits),
	CONF_NEED(mode_12_basic_works, FI_MR_PROV_KEY),
	CONF_WITHOUT(mode_12_scalable_works, CONF_MR_MODES),
	CONF(api_02_versions),
	CONF(api_02_desc_before_1_22),
	CONF(api_02_smaller_structs),
	CONF(api_02_smaller_hints),
	CONF(api_03_entry_describes_the_nic),
	CONF(api_03_copies_are_deep),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
