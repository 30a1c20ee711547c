/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transfers from the memory of one interface to that of another, for each pair of those that have a
 * device here: regions on both sides, guard bytes around what is written.
 */
#include "tests/conformance/harness.h"

#define LEN   ((size_t)65536)
#define GUARD ((size_t)4096)
#define ALL   (LEN + 2 * GUARD)

/* One interface's memory, in a region. */
struct side {
	enum fi_hmem_iface iface;
	int device;
	void *addr;
	struct conf_region *region;
};

static struct hmreg_hmem_ops *ops;
static struct fid *fabric;

/* The last device that the interface has; false: it has none. */
static bool find_device(enum fi_hmem_iface iface, int *id)
{
	struct hmreg_hmem_iface about = { .size = sizeof(about) };
	struct hmreg_hmem_device device = { .size = sizeof(device) };

	assert_ok(ops->iface(fabric, iface, &about));
	if (about.devices == 0)
		return false;
	assert_ok(ops->device(fabric, iface, about.devices - 1, &device));
	*id = device.id;
	return true;
}

static void open_side(struct conf_end *end, enum fi_hmem_iface iface, int device, struct side *s)
{
	struct iovec iov;
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = CONF_ALL, .iface = iface
	};

	*s = (struct side){ .iface = iface, .device = device };
	assert_ok(ops->alloc(fabric, iface, device, HMREG_HMEM_DEVICE, ALL, &s->addr));
	attr.device.cuda = device;
	iov = (struct iovec){ (char *)s->addr + GUARD, LEN };
	s->region = conf_regattr(end, &attr, 0);
}

static void close_side(struct side *s)
{
	conf_drop_region(s->region);
	assert_ok(ops->free(fabric, s->iface, s->device, HMREG_HMEM_DEVICE, s->addr));
}

static void move(struct conf *c, struct conf_end *a, struct conf_end *b, const struct side *from,
		 const struct side *to, uint8_t *src, uint8_t *want, uint8_t *have)
{
	conf_fill(c, src, ALL);
	conf_fill(c, want, ALL);
	assert_ok(ops->copy(fabric, from->addr, src, ALL));
	assert_ok(ops->copy(fabric, to->addr, want, ALL));
	assert_posted(fi_write(a->ep, (char *)from->addr + GUARD, LEN, from->region->desc,
			       conf_addr(a, b), to->region->addr, conf_key(a, to->region), c));
	conf_done(a->tx, c);
	memcpy(want + GUARD, src + GUARD, LEN);
	assert_ok(ops->copy(fabric, have, to->addr, ALL));
	assert_memory_equal(have, want, ALL);
	assert_ok(ops->copy(fabric, have, from->addr, ALL));
	assert_memory_equal(have, src, ALL);
}

static void between_interfaces(struct conf *c)
{
	struct conf_opts opts = { .caps = CONF_CAPS | FI_HMEM };
	uint8_t *src = conf_alloc(c, ALL), *want = conf_alloc(c, ALL), *have = conf_alloc(c, ALL);
	struct conf_end *a, *b;
	unsigned int pairs = 0;

	conf_need_caps(c, FI_HMEM);
	conf_pair(c, &opts, &a, &b);
	fabric = &a->fabric->fid;
	assert_ok(fi_open_ops(fabric, HMREG_HMEM_OPS, 0, (void **)&ops, NULL));
	for (int i = FI_HMEM_CUDA; i <= FI_HMEM_SYNAPSEAI; i++)
		for (int k = FI_HMEM_CUDA; k <= FI_HMEM_SYNAPSEAI; k++) {
			struct side from, to;
			int one, other;

			if (i == k || !find_device(i, &one) || !find_device(k, &other))
				continue;
			open_side(a, i, one, &from);
			open_side(b, k, other, &to);
			move(c, a, b, &from, &to, src, want, have);
			close_side(&to);
			close_side(&from);
			pairs++;
		}
	if (pairs == 0)
		conf_skip(c, "fewer than two interfaces have a device");
	print_message("%u pairs of interfaces\n", pairs);
}

static const struct conf_case cases[] = {
	CONF(between_interfaces),
};

/* What drivers and the library make once and keep is made before descriptors are counted. */
static void warm_up(void)
{
	struct fi_info *info = NULL;
	struct fid_fabric *one = NULL;
	char byte = 0;
	int id;

	if (fi_getinfo(CONF_VERSION, NULL, NULL, 0, NULL, &info) != 0 ||
	    fi_fabric(info->fabric_attr, &one, NULL) != 0 ||
	    fi_open_ops(&one->fid, HMREG_HMEM_OPS, 0, (void **)&ops, NULL) != 0)
		abort();
	fabric = &one->fid;
	for (int i = FI_HMEM_CUDA; i <= FI_HMEM_SYNAPSEAI; i++) {
		struct hmreg_hmem_iface about = { .size = sizeof(about) };
		struct hmreg_hmem_device device = { .size = sizeof(device) };
		void *addr;

		if (ops->iface(fabric, i, &about) != 0 || about.devices == 0 ||
		    ops->device(fabric, i, about.devices - 1, &device) != 0)
			continue;
		id = device.id;
		if (ops->alloc(fabric, i, id, HMREG_HMEM_DEVICE, LEN, &addr) != 0)
			continue;
		ops->copy(fabric, addr, &byte, 1);
		ops->copy(fabric, &byte, addr, 1);
		ops->free(fabric, i, id, HMREG_HMEM_DEVICE, addr);
	}
	fi_close(fabric);
	fi_freeinfo(info);
}

int main(int argc, char **argv)
{
	setenv("FI_LOG_LEVEL", "warn", 1); /* as the cases want it, before the library reads it */
	warm_up();
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
