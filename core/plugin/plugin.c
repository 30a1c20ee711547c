/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libhmreg-fi.so, the provider "hmreg" of an installed libfabric: the whole library again, of which
 * that libfabric sees fi_prov_ini alone.  fi_provider(3)
 *
 * Objects go to the program as they are.  Their structures grew from version to version, at the end;
 * the library reads and writes as much of one as the version has that the program asked fi_getinfo for,
 * which is never above libfabric's own.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/export.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/core.h"
#include "core/info.h"
#include "core/nic/sw_nic.h"

/* Of a libfabric that cannot be found: the oldest that this is tried with. */
#define OLDEST_CORE FI_VERSION(1, 17)
/* Of a fabric that says no version: as little of structures as any that has mode bits. */
#define OLDEST_API FI_VERSION(1, 5)

/* The entry point, as libfabric looks it up. */
HM_EXPORT struct fi_provider *fi_prov_ini(void);

static struct fi_provider provider;

/* ---- the libfabric that loaded this ---- */

/* All NULL, or all of them there; written by fi_prov_ini before anything else runs. */
static struct {
	uint32_t (*version)(void);
	int (*log_enabled)(const struct fi_provider *prov, enum fi_log_level level,
			   enum fi_log_subsys subsys);
	void (*log)(const struct fi_provider *prov, enum fi_log_level level,
		    enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...);
} core;

/*
 * By an address inside of it: by name, libhmreg.so.1 might be found, if the program is linked with it.
 * What is found there stays, since libfabric ends this plug-in before itself.
 */
static void find_core(const void *inside)
{
	void *handle = NULL;
	Dl_info info;

	if (dladdr(inside, &info) && info.dli_fname)
		handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return;
	*(void **)&core.version = dlsym(handle, "fi_version");
	*(void **)&core.log_enabled = dlsym(handle, "fi_log_enabled");
	*(void **)&core.log = dlsym(handle, "fi_log");
	if (!core.version || !core.log_enabled || !core.log)
		memset(&core, 0, sizeof(core));
	dlclose(handle);
}

static bool log_on(enum fi_log_level level, enum fi_log_subsys subsys)
{
	return core.log_enabled(&provider, level, subsys);
}

static void log_write(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		      int line, const char *text)
{
	core.log(&provider, level, subsys, func, line, "%s\n", text);
}

/* Programs may import a logger at any time: what it wants to hear is asked again with each fabric. */
static void find_log(void)
{
	static const struct hm_log_host host = { log_on, log_write };

	if (core.log)
		hm_log_set_host(&host);
}

/* ---- struct fi_provider ---- */

/* Is it this provider that is to be used, and not any?  With a name in hints, only that one is asked. */
static bool is_chosen(const struct fi_info *hints)
{
	const char *filter = hm_param_str(HM_PARAM_PROVIDER);

	return (filter && filter[0] != '^') ||
	       (hints && hints->fabric_attr && hints->fabric_attr->prov_name);
}

/* Or is a fabric or a domain named, which may be ours? */
static bool is_named(const struct fi_info *hints)
{
	return is_chosen(hints) || (hints && hints->fabric_attr && hints->fabric_attr->name) ||
	       (hints && hints->domain_attr && hints->domain_attr->name);
}

static void free_entry(struct fi_info *entry)
{
	entry->next = NULL;
	fi_freeinfo(entry);
}

/*
 * Leaves out what only those should get who name it: the NIC in software, which does not reach beyond
 * its process.  libfabric adds its own name for the provider, so that none is given.
 */
static void finish(struct fi_info **list, bool named)
{
	struct fi_info **at = list, *entry;

	while ((entry = *at) != NULL) {
		const char *fabric = entry->fabric_attr->name;

		if (!named && fabric && strcmp(fabric, SW_FABRIC_NAME) == 0) {
			*at = entry->next;
			free_entry(entry);
			continue;
		}
		free(entry->fabric_attr->prov_name);
		entry->fabric_attr->prov_name = NULL;
		at = &entry->next;
	}
}

/*
 * Flags that are none of fi_getinfo(3) are libfabric's, among its own parts.  Who wants another provider, and
 * what is looking for something to stand on, is not to be warned by this one.
 */
static int provider_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			    const struct fi_info *hints, struct fi_info **info)
{
	bool named = is_named(hints);
	int ret;

	find_log();
	hm_log_mild = !is_chosen(hints) || (flags & ~HM_INFO_FLAGS);
	ret = hm_getinfo(version, node, service, flags & HM_INFO_FLAGS, hints, info);
	hm_log_mild = false;
	if (ret != 0)
		return ret;
	finish(info, named);
	return *info ? 0 : -FI_ENODATA;
}

static int provider_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct fi_fabric_attr own = *attr;

	find_log();
	if (own.api_version == 0)
		own.api_version = OLDEST_API;
	return hm_fabric_open(&own, fabric, context);
}

/* The process ends, or libfabric goes.  What the program left open it may still close. */
static void provider_cleanup(void)
{
}

static struct fi_provider provider = {
	.version = HM_PROVIDER_VERSION,
	.fi_version = OLDEST_CORE,
	.name = HM_PROVIDER_NAME,
	.getinfo = provider_getinfo,
	.fabric = provider_fabric,
	.cleanup = provider_cleanup,
};

struct fi_provider *fi_prov_ini(void)
{
	uint32_t version;

	find_core(__builtin_return_address(0));
	version = core.version ? core.version() : OLDEST_CORE;
	/* libfabric refuses providers of an interface that is newer than its own */
	provider.fi_version = FI_VERSION_LT(version, HM_API_VERSION) ? version : HM_API_VERSION;
	return &provider;
}
