/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limit of locked memory (RLIMIT_MEMLOCK), which the kernel applies to what an ordinary user
 * registers: to be run as one.
 */
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "region.h"

#define PAGE  ((size_t)4096)
#define LIMIT (16 * PAGE)

static const struct conf_opts domain_alone = { .no_ep = true };

static void set_limit(size_t bytes)
{
	struct rlimit limit = { bytes, bytes };
	struct rlimit have;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &have), 0);
	limit.rlim_max = have.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

static uint8_t *pages(size_t len)
{
	uint8_t *mem = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	assert_true(mem != MAP_FAILED);
	return mem;
}

/* Refused for the limit, with this text in the line. */
static void refused_with(struct conf_end *end, const void *buf, size_t len, int code,
			 const char *text)
{
	struct fid_mr *untouched = (struct fid_mr *)0x10, *mr = untouched;

	assert_refused_with(fi_mr_reg(end->domain, buf, len, CONF_ALL, 0, end->next_key++, 0, &mr,
				      NULL),
			    code, text);
	assert_ptr_equal(mr, untouched);
	if (!strstr(conf_log_text(), "RLIMIT_MEMLOCK"))
		fail_msg("the line does not name what limits: %s", conf_log_text());
}

/* The line names the limit, what is used of it, and what would be needed. */
static void refused(struct conf_end *end, const void *buf, size_t len, size_t used)
{
	char text[96];

	snprintf(text, sizeof(text), "limit %zu KiB, pinned %zu KiB, this region needs %zu KiB",
		 LIMIT / 1024, used / 1024, len / 1024);
	refused_with(end, buf, len, -FI_ENOMEM, text);
}

static void reg_05_exactly_the_limit(struct conf *c)
{
	struct conf_end *end = conf_open(c, &domain_alone);
	uint8_t *mem = pages(LIMIT + PAGE);

	set_limit(LIMIT);
	conf_drop_region(conf_reg(end, mem, LIMIT, CONF_ALL));
	refused(end, mem, LIMIT + PAGE, 0);
	/* the failure has left nothing charged */
	conf_drop_region(conf_reg(end, mem, LIMIT, CONF_ALL));
	munmap(mem, LIMIT + PAGE);
}

static void reg_05_each_region_counts(struct conf *c)
{
	struct conf_end *end = conf_open(c, &domain_alone);
	uint8_t *mem = pages(LIMIT);
	struct conf_region *first, *second;

	set_limit(LIMIT);
	first = conf_reg(end, mem, LIMIT / 2, CONF_ALL);
	second = conf_reg(end, mem, LIMIT / 2, CONF_ALL); /* the same pages: charged once more */
	refused(end, mem, PAGE, LIMIT);
	conf_drop_region(second);
	second = conf_reg(end, mem, PAGE, CONF_ALL);
	conf_drop_region(second);
	conf_drop_region(first);
	munmap(mem, LIMIT);
}

static void reg_05_limit_zero(struct conf *c)
{
	struct conf_end *end = conf_open(c, &domain_alone);
	uint8_t *mem = pages(PAGE);

	set_limit(0);
	refused_with(end, mem, PAGE, -FI_ENOMEM, "is 0");
	set_limit(PAGE);
	conf_drop_region(conf_reg(end, mem, PAGE, CONF_ALL));
	munmap(mem, PAGE);
}

/* A dma-buf belongs to its exporter: the limit does not count it. */
static void reg_05_dmabuf_is_free(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = VM_CAPS, .no_ep = true });
	struct memory memory;

	memory_make(&memory, MEMORY_UDMABUF, 2 * LIMIT);
	set_limit(LIMIT);
	conf_drop_region(vm_reg_dmabuf(end, &memory, 0, 2 * LIMIT, memory.map, CONF_ALL));
	set_limit(0);
	conf_drop_region(vm_reg_dmabuf(end, &memory, 0, 2 * LIMIT, memory.map, CONF_ALL));
	memory_free(&memory);
}

int main(int argc, char **argv)
{
	static const struct conf_case cases[] = {
		CONF(reg_05_exactly_the_limit),
		CONF(reg_05_each_region_counts),
		CONF(reg_05_limit_zero),
		CONF(reg_05_dmabuf_is_free),
	};

	if (geteuid() == 0) {
		printf("root has no such limit: run this as an ordinary user\n");
		return 1;
	}
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
