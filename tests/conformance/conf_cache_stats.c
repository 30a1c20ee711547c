/* SPDX-License-Identifier: BSD-2-Clause */
/* What can be seen of the registration cache: FN-04, and the parameters of CACHE-01. */
#include <sys/mman.h>

#include "tests/conformance/harness.h"

#define LEN   ((size_t)8192)
#define READS 10

/* ---- CACHE-01 ---- */

static void cache_01_parameters_are_listed(struct conf *c)
{
	static const struct {
		const char *name;
		enum fi_param_type type;
	} wanted[] = {
		{ "FI_MR_CACHE_MAX_SIZE", FI_PARAM_SIZE_T },
		{ "FI_MR_CACHE_MAX_COUNT", FI_PARAM_SIZE_T },
		{ "FI_MR_CACHE_MONITOR", FI_PARAM_STRING },
		{ "FI_MR_CUDA_CACHE_MONITOR_ENABLED", FI_PARAM_BOOL },
		{ "FI_MR_ROCR_CACHE_MONITOR_ENABLED", FI_PARAM_BOOL },
		{ "FI_MR_ZE_CACHE_MONITOR_ENABLED", FI_PARAM_BOOL },
		{ "HMREG_CACHE_STATS", FI_PARAM_STRING },
	};
	struct fi_param *params;
	int count, found = 0;

	(void)c;
	assert_ok(fi_getparams(&params, &count));
	for (int i = 0; i < count; i++)
		for (size_t k = 0; k < count_of(wanted); k++)
			if (strcmp(params[i].name, wanted[k].name) == 0) {
				assert_int_equal(params[i].type, wanted[k].type);
				assert_true(strlen(params[i].help_string) > 0);
				found++;
			}
	assert_int_equal(found, count_of(wanted));
	fi_freeparams(params);
}

/* ---- FN-04 ---- */

static struct hmreg_cache_stats figures(const struct conf_end *end)
{
	struct hmreg_cache_stats stats = { .size = sizeof(stats) };

	assert_ok(end->ops->cache(&end->domain->fid, &stats));
	assert_int_equal(stats.size, sizeof(stats));
	return stats;
}

static bool same(const struct hmreg_cache_figures *a, const struct hmreg_cache_figures *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* All of it is host memory. */
static void check_host_alone(const struct hmreg_cache_stats *stats)
{
	const struct hmreg_cache_figures none = { 0 };

	assert_true(same(&stats->all, &stats->iface[FI_HMEM_SYSTEM]));
	for (size_t i = FI_HMEM_SYSTEM + 1; i < HMREG_CACHE_IFACES; i++)
		assert_true(same(&stats->iface[i], &none));
}

static void *pages(void)
{
	void *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(at != MAP_FAILED);
	return at;
}

static void read_into(struct conf_link *l, void *buffer)
{
	assert_posted(fi_read(l->a->ep, buffer, LEN, NULL, l->to, l->remote->addr, l->key, l));
	conf_done(l->a->tx, l);
	assert_memory_equal(buffer, l->dst, LEN);
}

static void fn_04_cache_counts_what_is_kept(struct conf *c)
{
	struct hmreg_cache_stats stats, other;
	struct conf_link l;
	uint8_t *buffer;
	time_t since;

	conf_link(c, NULL, LEN, &l);
	conf_fill(c, l.dst, LEN);
	other = figures(l.b);
	stats = figures(l.a);
	assert_true(stats.since == 0 && stats.max_entries == 0 && stats.max_bytes == 0);
	assert_true(stats.all.hits == 0 && stats.all.misses == 0);

	buffer = pages();
	for (int i = 0; i < READS; i++)
		read_into(&l, buffer);
	stats = figures(l.a);
	check_host_alone(&stats);
	assert_true(stats.since > 0 && stats.max_entries > 0 && stats.max_bytes > 0);
	if (strncmp(stats.monitor, "none", 4) == 0) {
		assert_int_equal(stats.all.misses, READS);
		assert_int_equal(stats.all.unkept, READS);
		assert_int_equal(munmap(buffer, LEN), 0);
		return;
	}
	assert_int_equal(stats.all.misses, 1);
	assert_int_equal(stats.all.hits, READS - 1);
	assert_int_equal(stats.all.entries, 1);
	assert_int_equal(stats.all.bytes, LEN);
	assert_true(stats.all.unkept == 0 && stats.all.evictions == 0);
	assert_int_equal(stats.all.invalidations, 0);

	assert_int_equal(munmap(buffer, LEN), 0);
	for (since = conf_now(); figures(l.a).all.entries > 0;) {
		assert_true(conf_now() - since < CONF_TIMEOUT_S);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	stats = figures(l.a);
	check_host_alone(&stats);
	assert_true(stats.all.invalidations == 1 && stats.all.bytes == 0);
	/* each domain has its own */
	stats = figures(l.b);
	assert_true(memcmp(&stats.all, &other.all, sizeof(stats.all)) == 0);
}

static void fn_04_cache_figures_fit_what_the_caller_has(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .no_ep = true });
	struct hmreg_cache_stats stats;
	struct hmreg_fabric_ops *fabric;

	memset(&stats, 0x5a, sizeof(stats));
	stats.size = offsetof(struct hmreg_cache_stats, monitor);
	assert_ok(end->ops->cache(&end->domain->fid, &stats));
	assert_int_equal(stats.since, 0);
	for (size_t i = 0; i < sizeof(stats.monitor); i++)
		assert_int_equal(stats.monitor[i], 0x5a);
	assert_int_equal(stats.all.hits, UINT64_C(0x5a5a5a5a5a5a5a5a));
	assert_refused(end->ops->cache(&end->domain->fid, NULL), -FI_EINVAL);
	assert_refused(end->ops->cache(&end->fabric->fid, &stats), -FI_EINVAL);
	stats.size = 0;
	assert_refused(end->ops->cache(&end->domain->fid, &stats), -FI_EINVAL);

	assert_ok(fi_open_ops(&end->fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&fabric, NULL));
	assert_refused(fabric->cache_monitor(&end->fabric->fid, NULL), -FI_EINVAL);
}

/* The monitor that is told before is the one that is used then. */
static void fn_04_cache_monitor_is_told(struct conf *c)
{
	struct hmreg_cache_monitor before = { .size = sizeof(before) }, now = before;
	struct hmreg_cache_stats stats;
	struct hmreg_fabric_ops *fabric;
	struct conf_link l;
	uint8_t *buffer;

	conf_link(c, NULL, LEN, &l);
	conf_fill(c, l.dst, LEN);
	assert_ok(fi_open_ops(&l.a->fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&fabric, NULL));
	assert_ok(fabric->cache_monitor(&l.a->fabric->fid, &before));
	assert_false(before.in_use);
	assert_true(before.name[0] || before.reason[0]);
	buffer = pages();
	read_into(&l, buffer);
	assert_ok(fabric->cache_monitor(&l.a->fabric->fid, &now));
	assert_string_equal(now.name, before.name);
	assert_int_equal(now.in_use, before.name[0] != '\0');
	stats = figures(l.a);
	if (now.name[0])
		assert_string_equal(stats.monitor, now.name);
	else
		assert_true(strncmp(stats.monitor, "none: ", 6) == 0);
	assert_int_equal(munmap(buffer, LEN), 0);
}

static const struct conf_case cases[] = {
	CONF(cache_01_parameters_are_listed),
	CONF(fn_04_cache_figures_fit_what_the_caller_has),
	CONF_WITHOUT(fn_04_cache_counts_what_is_kept, FI_MR_LOCAL),
	CONF_WITHOUT(fn_04_cache_monitor_is_told, FI_MR_LOCAL),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
