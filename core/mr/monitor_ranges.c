/* SPDX-License-Identifier: BSD-2-Clause */
/* Counted ranges: a treap of pieces that do not overlap. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include <rdma/fi_errno.h>

#include "core/mr/monitor_ranges.h"

#define NODES (UINT32_C(1) << 22)

struct hm_ranges_node {
	uint64_t begin, end;
	uint32_t count;
	uint32_t order; /* no child's is greater */
	uint32_t left, right;
};

int hm_ranges_init(struct hm_ranges *ranges)
{
	void *node = mmap(NULL, (size_t)NODES * sizeof(*ranges->node), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (node == MAP_FAILED)
		return -FI_ENOMEM;
	*ranges = (struct hm_ranges){ .node = node, .random = 2463534242u };
	return 0;
}

void hm_ranges_destroy(struct hm_ranges *ranges)
{
	munmap(ranges->node, (size_t)NODES * sizeof(*ranges->node));
	*ranges = (struct hm_ranges){ 0 };
}

static struct hm_ranges_node *at(const struct hm_ranges *ranges, uint32_t link)
{
	return &ranges->node[link - 1];
}

/* ---- the tree ---- */

/* Those that begin before key go left. */
static void split(struct hm_ranges *ranges, uint32_t tree, uint64_t key, uint32_t *left,
		  uint32_t *right)
{
	while (tree) {
		struct hm_ranges_node *n = at(ranges, tree);

		if (n->begin < key) {
			*left = tree;
			left = &n->right;
			tree = n->right;
		} else {
			*right = tree;
			right = &n->left;
			tree = n->left;
		}
	}
	*left = 0;
	*right = 0;
}

/* All of left begin before all of right. */
static uint32_t join(struct hm_ranges *ranges, uint32_t left, uint32_t right)
{
	uint32_t root = 0, *link = &root;

	while (left && right) {
		struct hm_ranges_node *l = at(ranges, left), *r = at(ranges, right);

		if (l->order > r->order) {
			*link = left;
			link = &l->right;
			left = l->right;
		} else {
			*link = right;
			link = &r->left;
			right = r->left;
		}
	}
	*link = left ? left : right;
	return root;
}

/* The first that begins at key or behind; 0: none. */
static uint32_t first_from(const struct hm_ranges *ranges, uint64_t key)
{
	uint32_t tree = ranges->root, best = 0;

	while (tree) {
		struct hm_ranges_node *n = at(ranges, tree);

		if (n->begin >= key)
			best = tree;
		tree = n->begin >= key ? n->left : n->right;
	}
	return best;
}

/* The last that begins before key; 0: none. */
static uint32_t last_before(const struct hm_ranges *ranges, uint64_t key)
{
	uint32_t tree = ranges->root, best = 0;

	while (tree) {
		struct hm_ranges_node *n = at(ranges, tree);

		if (n->begin < key)
			best = tree;
		tree = n->begin < key ? n->right : n->left;
	}
	return best;
}

static bool insert(struct hm_ranges *ranges, uint64_t begin, uint64_t end, uint32_t count)
{
	uint32_t link = ranges->free, left, right;

	if (link)
		ranges->free = at(ranges, link)->left;
	else if (ranges->used < NODES)
		link = ++ranges->used;
	else
		return false;
	ranges->random ^= ranges->random << 13;
	ranges->random ^= ranges->random >> 17;
	ranges->random ^= ranges->random << 5;
	*at(ranges, link) = (struct hm_ranges_node){
		.begin = begin, .end = end, .count = count, .order = ranges->random
	};
	split(ranges, ranges->root, begin, &left, &right);
	ranges->root = join(ranges, join(ranges, left, link), right);
	ranges->pieces++;
	return true;
}

static void erase(struct hm_ranges *ranges, uint32_t link)
{
	uint32_t *from = &ranges->root;
	struct hm_ranges_node *n = at(ranges, link);

	while (*from != link) {
		struct hm_ranges_node *above = at(ranges, *from);

		from = n->begin < above->begin ? &above->left : &above->right;
	}
	*from = join(ranges, n->left, n->right);
	n->left = ranges->free;
	ranges->free = link;
	ranges->pieces--;
}

/* ---- pieces ---- */

/* No piece crosses the address then.  False: there are no more pieces. */
static bool cut(struct hm_ranges *ranges, uint64_t address)
{
	uint32_t link = last_before(ranges, address);
	struct hm_ranges_node *n = link ? at(ranges, link) : NULL;

	if (!n || n->end <= address)
		return true;
	if (!insert(ranges, address, n->end, n->count))
		return false;
	n->end = address;
	return true;
}

/* Two pieces that meet at the address and are alike become one. */
static void mend(struct hm_ranges *ranges, uint64_t address)
{
	uint32_t left = last_before(ranges, address), right = first_from(ranges, address);
	struct hm_ranges_node *l, *r;

	if (!left || !right)
		return;
	l = at(ranges, left);
	r = at(ranges, right);
	if (l->end != address || r->begin != address || l->count != r->count)
		return;
	l->end = r->end;
	erase(ranges, right);
}

static void nothing_gone(uint64_t begin, uint64_t end)
{
	(void)begin;
	(void)end;
}

/* No piece crosses begin or end. */
static void subtract(struct hm_ranges *ranges, uint64_t begin, uint64_t end,
		     void (*gone)(uint64_t begin, uint64_t end))
{
	uint64_t gone_begin = begin, gone_end = begin;
	uint32_t link;

	for (uint64_t pos = begin; pos < end && (link = first_from(ranges, pos)) != 0;) {
		struct hm_ranges_node *n = at(ranges, link);

		if (n->begin >= end)
			break;
		pos = n->end;
		if (--n->count > 0)
			continue;
		if (n->begin != gone_end) {
			if (gone_end > gone_begin)
				gone(gone_begin, gone_end);
			gone_begin = n->begin;
		}
		gone_end = n->end;
		erase(ranges, link);
	}
	if (gone_end > gone_begin)
		gone(gone_begin, gone_end);
	mend(ranges, begin);
	mend(ranges, end);
}

int hm_ranges_add(struct hm_ranges *ranges, uint64_t begin, uint64_t end)
{
	uint64_t pos = begin;

	if (!cut(ranges, begin) || !cut(ranges, end)) {
		mend(ranges, begin);
		return -FI_ENOSPC;
	}
	while (pos < end) {
		uint32_t link = first_from(ranges, pos);
		struct hm_ranges_node *n = link ? at(ranges, link) : NULL;
		uint64_t hole_end = n && n->begin < end ? n->begin : end;

		if (hole_end > pos) {
			if (!insert(ranges, pos, hole_end, 1)) {
				subtract(ranges, begin, pos, nothing_gone);
				mend(ranges, end);
				return -FI_ENOSPC;
			}
			pos = hole_end;
		} else {
			n->count++;
			pos = n->end;
		}
	}
	mend(ranges, begin);
	mend(ranges, end);
	return 0;
}

void hm_ranges_remove(struct hm_ranges *ranges, uint64_t begin, uint64_t end,
		      void (*gone)(uint64_t begin, uint64_t end))
{
	if (cut(ranges, begin) && cut(ranges, end))
		subtract(ranges, begin, end, gone);
	else
		mend(ranges, begin);
}
