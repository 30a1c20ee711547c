/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nothing is left behind: after thousands of registrations, and after endpoints that were connected,
 * the kernel holds as many objects for us as before, and we as many file descriptors.
 */
#include "tests/fds.h"
#include "region.h"

#define CYCLES	  10000
#define ENDPOINTS 50
#define LENGTH	  ((size_t)16 * 1024)

static const struct conf_opts domain_alone = { .caps = VM_CAPS, .no_ep = true };

/* Registers, by turns, host memory and two kinds of dma-buf; every key works out, none is kept. */
static void fn_01_ten_thousand_registrations(struct conf *c)
{
	struct conf_end *end = conf_open(c, &domain_alone);
	uint8_t *host = conf_alloc(c, LENGTH);
	struct memory memory[2];
	struct vm_resources before, during, after;
	size_t fds;

	memory_make(&memory[0], MEMORY_UDMABUF, LENGTH);
	memory_make(&memory[1], MEMORY_HEAP, LENGTH);
	conf_drop_region(conf_reg(end, host, LENGTH, CONF_ALL));
	fds = test_fds();
	vm_resources(&before);
	for (int i = 0; i < CYCLES; i++) {
		struct conf_region *region =
			i % 2 ? vm_reg_dmabuf(end, &memory[i / 2 % 2], 0, LENGTH, NULL, CONF_ALL)
			      : conf_reg(end, host, LENGTH, CONF_ALL);

		if (i == CYCLES / 2) {
			vm_resources(&during);
			assert_int_equal(during.mr, before.mr + 1);
			conf_check_stats(end, 1, LENGTH, 0);
		}
		conf_drop_region(region);
	}
	vm_resources(&after);
	vm_assert_same(&after, &before);
	assert_int_equal(test_fds(), fds);
	conf_check_stats(end, 0, 0, 0);
	memory_free(&memory[0]);
	memory_free(&memory[1]);
}

/* As many regions at once as there is room for here, closed in another order. */
static void fn_04_many_at_once(struct conf *c)
{
	struct conf_end *end = conf_open(c, &domain_alone);
	struct conf_region *region[CONF_REGIONS];
	uint8_t *host = conf_alloc(c, LENGTH);
	struct vm_resources before, during, after;

	vm_resources(&before);
	for (size_t i = 0; i < CONF_REGIONS; i++)
		region[i] = conf_reg(end, host, LENGTH, CONF_ALL);
	vm_resources(&during);
	assert_int_equal(during.mr, before.mr + CONF_REGIONS);
	conf_check_stats(end, CONF_REGIONS, CONF_REGIONS * LENGTH, 0);
	for (size_t i = 0; i < CONF_REGIONS; i += 2)
		conf_close_region(region[i]);
	for (size_t i = 1; i < CONF_REGIONS; i += 2)
		conf_close_region(region[i]);
	c->regions = 0;
	vm_resources(&after);
	vm_assert_same(&after, &before);
}

/* Endpoints that were connected and used take everything along when they are closed. */
static void fn_06_endpoints_leave_nothing(struct conf *c)
{
	struct vm_resources before, during, after;
	size_t fds = test_fds();

	vm_resources(&before);
	for (int i = 0; i < ENDPOINTS; i++) {
		struct conf_link link;

		conf_link(c, NULL, LENGTH, &link);
		conf_put(&link, 0, LENGTH);
		if (i == ENDPOINTS / 2) {
			vm_resources(&during);
			assert_true(during.qp > before.qp);
			assert_true(during.mr > before.mr);
		}
		conf_drop_region(link.remote);
		conf_drop_region(link.local);
		conf_drop_end(link.b);
		conf_drop_end(link.a);
		/* the memory goes with the test */
		assert_true(c->buffers < CONF_BUFFERS);
	}
	vm_resources(&after);
	vm_assert_same(&after, &before);
	assert_int_equal(test_fds(), fds);
}

int main(int argc, char **argv)
{
	static const struct conf_case cases[] = {
		CONF(fn_01_ten_thousand_registrations),
		CONF(fn_04_many_at_once),
		CONF(fn_06_endpoints_leave_nothing),
	};

	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
