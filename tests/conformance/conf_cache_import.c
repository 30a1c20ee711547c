/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_open("mr_cache") and a program's own memory monitor, under operations without a descriptor. */
#include <rdma/fi_ext.h>

#include "tests/conformance/cache.h"

static struct {
	struct conf *c;
	struct conf_link *inner; /* used inside the functions */
	bool refuses_memory, changed;
	unsigned started, stopped, subscribed, unsubscribed;
} told;

static struct fid_mem_monitor monitor;

static int my_start(struct fid_mem_monitor *m)
{
	assert_ptr_equal(m, &monitor);
	told.started++;
	return 0;
}

static void my_stop(struct fid_mem_monitor *m)
{
	(void)m;
	told.stopped++;
}

/* With operations and a domain of its own, if it has a link. */
static int my_subscribe(struct fid_mem_monitor *m, const void *addr, size_t len)
{
	(void)addr;
	(void)len;
	assert_ptr_equal(m, &monitor);
	if (told.refuses_memory)
		return -FI_ENOMEM;
	told.subscribed++;
	if (told.inner) {
		struct conf_link *l = told.inner;

		told.inner = NULL;
		assert_posted(fi_write(l->a->ep, l->src, BULK, NULL, l->to, l->remote->addr, l->key,
				       told.c));
		assert_refused(fi_close(&l->a->domain->fid), -FI_EBUSY);
		conf_log_mark(__FILE__, __LINE__);
		monitor.import_ops->notify(&monitor, NULL, SIZE_MAX);
	}
	return 0;
}

static void my_unsubscribe(struct fid_mem_monitor *m, const void *addr, size_t len)
{
	(void)m;
	(void)addr;
	(void)len;
	told.unsubscribed++;
}

static bool my_valid(struct fid_mem_monitor *m, const void *addr, size_t len)
{
	(void)m;
	(void)addr;
	(void)len;
	return !told.changed;
}

static struct fi_ops_mem_monitor my_ops = {
	.size = sizeof(struct fi_ops_mem_monitor),
	.start = my_start,
	.stop = my_stop,
	.subscribe = my_subscribe,
	.unsubscribe = my_unsubscribe,
	.valid = my_valid,
};

/* The object of the last case, whose domains are closed by now. */
static struct fid *cache;

static void take_out(void)
{
	if (!cache)
		return;
	/* once more after the last case, when the harness reads no log any more */
	assert_int_equal(fi_import_fid(cache, NULL, 0), 0);
	assert_int_equal(fi_close(cache), 0);
	cache = NULL;
	assert_int_equal(told.subscribed, told.unsubscribed);
	assert_int_equal(told.stopped, told.started);
}

static void import(struct conf *c)
{
	take_out();
	memset(&told, 0, sizeof(told));
	told.c = c;
	monitor = (struct fid_mem_monitor){ .fid = { .fclass = FI_CLASS_MEM_MONITOR },
					    .export_ops = &my_ops };
	assert_ok(fi_open(FI_VERSION(2, 7), "mr_cache", NULL, 0, 0, &cache, c));
	assert_int_equal(cache->fclass, FI_CLASS_MR_CACHE);
	assert_ok(fi_import_fid(cache, &monitor.fid, 0));
}

static void write_it(struct conf *c, struct conf_link *l, const void *buf)
{
	assert_posted(fi_write(l->a->ep, buf, BULK, NULL, l->to, l->remote->addr, l->key, c));
	conf_done(l->a->tx, c);
	assert_memory_equal(l->dst, buf, BULK);
}

/* It is used; what it reports and what it calls changed is registered anew. */
static void cache_05_a_programs_own_monitor(struct conf *c)
{
	struct hmreg_cache_figures before, now;
	struct conf_link l;

	import(c);
	conf_link(c, NULL, BULK, &l);
	write_it(c, &l, l.src);
	if (cache_stats(l.a).max_entries == 0 || strcmp(cache_stats(l.a).monitor, "import") != 0)
		conf_skip(c, "the environment lets nothing be kept");
	assert_int_equal(told.started, 1);
	assert_true(told.subscribed > 0);
	before = cache_figures(l.a);
	write_it(c, &l, l.src);
	now = cache_figures(l.a);
	assert_int_equal(now.misses, before.misses);
	assert_int_equal(now.hits, before.hits + 1);
	monitor.import_ops->notify(&monitor, l.src + 5, 1);
	write_it(c, &l, l.src);
	assert_int_equal(cache_figures(l.a).misses, before.misses + 1);
	told.changed = true;
	for (int i = 0; i < 3; i++)
		write_it(c, &l, l.src);
	assert_true(cache_figures(l.a).misses >= before.misses + 3);
	assert_refused(fi_import_fid(cache, NULL, 0), -FI_EBUSY);
}

/* Operations work, whatever it refuses; nothing is kept. */
static void writes_without_hits(struct conf *c)
{
	struct conf_link l;

	conf_link(c, NULL, BULK, &l);
	for (int i = 0; i < 3; i++)
		write_it(c, &l, l.src);
	assert_int_equal(cache_figures(l.a).hits, 0);
}

static void fn_32_a_monitor_that_refuses_memory(struct conf *c)
{
	import(c);
	told.refuses_memory = true;
	writes_without_hits(c);
}

/* A monitor that sends, closes a domain and reports while it is asked to follow memory. */
static void cache_05_cache_06_a_monitor_that_re_enters(struct conf *c)
{
	struct conf_link l;

	import(c);
	conf_link(c, NULL, BULK, &l);
	told.inner = &l;
	assert_posted(fi_write(l.a->ep, l.src, BULK, NULL, l.to, l.remote->addr, l.key, c));
	conf_done(l.a->tx, c);
	if (!told.inner)
		conf_done(l.a->tx, c);
	assert_memory_equal(l.dst, l.src, BULK);
	write_it(c, &l, l.src);
}

static const struct conf_case cases[] = {
	CONF_WITHOUT(cache_05_a_programs_own_monitor, FI_MR_LOCAL),
	CONF_WITHOUT(fn_32_a_monitor_that_refuses_memory, FI_MR_LOCAL),
	CONF_WITHOUT(cache_05_cache_06_a_monitor_that_re_enters, FI_MR_LOCAL),
};

int main(int argc, char **argv)
{
	int ret = conf_main(argc, argv, cases, count_of(cases));

	/* the harness has no log any more that could be looked at */
	if (cache && (fi_import_fid(cache, NULL, 0) != 0 || fi_close(cache) != 0 ||
		      told.subscribed != told.unsubscribed || told.stopped != told.started))
		ret = 1;
	return ret;
}
