/* SPDX-License-Identifier: BSD-2-Clause */
/* See net_regs.h. */
#include "net_regs.h"

#include <stdlib.h>
#include <string.h>

#define LOCAL  (FI_SEND | FI_RECV | FI_READ | FI_WRITE)
#define REMOTE (FI_REMOTE_READ | FI_REMOTE_WRITE)

int net_regs_open(struct net_regs *regs, const struct sample_end *end,
		  atomic_uint_least64_t *next_key)
{
	regs->end = *end;
	regs->next_key = next_key;
	return -pthread_rwlock_init(&regs->lock, NULL);
}

int net_regs_close(struct net_regs *regs)
{
	if (atomic_load(&regs->open))
		return -FI_EBUSY;
	pthread_rwlock_destroy(&regs->lock);
	free(regs->roots);
	free(regs->reach);
	return 0;
}

/* A region, with a key of the domain's where the program chooses keys.  The copy of end is this thread's. */
static int make_region(struct net_regs *regs, struct fi_mr_attr *attr, uint64_t flags,
		       struct fid_mr **mr)
{
	struct sample_end end = regs->end;

	if (!(end.info->domain_attr->mr_mode & FI_MR_PROV_KEY))
		end.next_key = atomic_fetch_add(regs->next_key, 1);
	return sample_register_attr(&end, attr, flags, mr);
}

/* ---- the list ---- */

/* Which place in the list a root that starts there has: behind all that start before it or with it. */
static size_t place_of(const struct net_regs *regs, uintptr_t start)
{
	size_t low = 0, high = regs->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (regs->roots[middle]->start <= start)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void update_reach(struct net_regs *regs, size_t from)
{
	for (size_t i = from; i < regs->count; i++) {
		uintptr_t before = i ? regs->reach[i - 1] : 0;

		regs->reach[i] = regs->roots[i]->end > before ? regs->roots[i]->end : before;
	}
}

/* Under the lock: room for one more. */
static int make_room(struct net_regs *regs)
{
	size_t room = regs->room ? 2 * regs->room : 16;
	struct net_root **roots;
	uintptr_t *reach;

	if (regs->count < regs->room)
		return 0;
	roots = realloc(regs->roots, room * sizeof(struct net_root *));
	if (!roots)
		return -FI_ENOMEM;
	regs->roots = roots;
	reach = realloc(regs->reach, room * sizeof(uintptr_t));
	if (!reach)
		return -FI_ENOMEM;
	regs->reach = reach;
	regs->room = room;
	return 0;
}

static int enter_root(struct net_regs *regs, struct net_root *root)
{
	size_t at;
	int ret;

	pthread_rwlock_wrlock(&regs->lock);
	ret = make_room(regs);
	if (!ret) {
		at = place_of(regs, root->start);
		memmove(regs->roots + at + 1, regs->roots + at,
			(regs->count - at) * sizeof(struct net_root *));
		regs->roots[at] = root;
		regs->count++;
		update_reach(regs, at);
		root->whole = 1;
	}
	pthread_rwlock_unlock(&regs->lock);
	return ret;
}

/* One handle for all of root goes; with the last the root leaves the list. */
static void leave_root(struct net_regs *regs, struct net_root *root)
{
	pthread_rwlock_wrlock(&regs->lock);
	if (--root->whole == 0) {
		size_t at = place_of(regs, root->start);

		while (regs->roots[--at] != root) /* several may start there */
			;
		memmove(regs->roots + at, regs->roots + at + 1,
			(regs->count - at - 1) * sizeof(struct net_root *));
		regs->count--;
		update_reach(regs, at);
	}
	pthread_rwlock_unlock(&regs->lock);
}

/* Under the lock, of any kind: a root around this range, or NULL. */
static struct net_root *search(const struct net_regs *regs, uintptr_t addr, size_t size,
			       bool device)
{
	size_t i = place_of(regs, addr);

	while (i-- > 0 && regs->reach[i] > addr) {
		struct net_root *root = regs->roots[i];

		if (root->device == device &&
		    net_inside(root->start, root->end - root->start, addr, size))
			return root;
	}
	return NULL;
}

/* ---- handles ---- */

static int put_root(struct net_regs *regs, struct net_root *root)
{
	int ret;

	if (atomic_fetch_sub(&root->refs, 1) != 1)
		return 0;
	ret = fi_close(&root->mr->fid);
	atomic_fetch_sub(&regs->pinned, 1);
	free(root);
	return ret ? sample_fail("fi_close of a buffer's region", ret) : 0;
}

/* The key of a handle: a sub-MR of its root, unless that would be pinned again. */
static int make_key(struct net_regs *regs, struct net_mr *handle)
{
	struct iovec part = { (void *)handle->addr, handle->size };
	struct fi_mr_attr attr = {
		.mr_iov = &part,
		.iov_count = 1,
		.access = LOCAL | REMOTE,
		.base_mr = handle->root->mr,
	};
	int ret;

	if (handle->root->share) {
		handle->mr = handle->root->mr;
		atomic_fetch_add(&regs->shared, 1);
		return 0;
	}
	ret = make_region(regs, &attr, 0, &handle->mr);
	if (!ret)
		atomic_fetch_add(&regs->derived, 1);
	return ret;
}

/* A handle for a part of root, whose reference it takes, if it succeeds. */
static int make_handle(struct net_regs *regs, struct net_root *root, uintptr_t addr, size_t size,
		       bool whole, struct net_mr **mr)
{
	struct net_mr *handle = calloc(1, sizeof(*handle));
	int ret;

	if (!handle)
		return -FI_ENOMEM;
	*handle = (struct net_mr){ .root = root, .addr = addr, .size = size, .whole = whole };
	ret = make_key(regs, handle);
	if (ret) {
		free(handle);
		return ret;
	}
	atomic_fetch_add(&regs->open, 1);
	*mr = handle;
	return 0;
}

/* A handle for all of a root vouches for it as the first one does; under the lock for reading, so by an atomic. */
static bool count_whole(struct net_root *root, uintptr_t addr, size_t size)
{
	if (addr != root->start || size != root->end - root->start)
		return false;
	__atomic_fetch_add(&root->whole, 1, __ATOMIC_RELAXED);
	return true;
}

int net_regs_find(struct net_regs *regs, uintptr_t addr, size_t size, bool device,
		  struct net_mr **mr)
{
	struct net_root *root;
	bool whole = false;
	int ret;

	pthread_rwlock_rdlock(&regs->lock);
	root = search(regs, addr, size, device);
	if (root) {
		atomic_fetch_add(&root->refs, 1);
		whole = count_whole(root, addr, size);
	}
	pthread_rwlock_unlock(&regs->lock);
	if (!root)
		return -FI_ENOENT;
	ret = make_handle(regs, root, addr, size, whole, mr);
	if (ret) {
		if (whole)
			leave_root(regs, root);
		put_root(regs, root);
	}
	return ret;
}

static int make_root(struct net_regs *regs, struct fi_mr_attr *attr, uint64_t flags,
		     struct net_root *root)
{
	int ret;

	attr->access = LOCAL | (root->share ? REMOTE : 0);
	attr->sub_mr_cnt = root->share ? 0 : regs->slices;
	ret = make_region(regs, attr, flags, &root->mr);
	if (ret)
		return ret;
	atomic_fetch_add(&regs->registered, 1);
	atomic_fetch_add(&regs->pinned, 1);
	return 0;
}

int net_regs_add(struct net_regs *regs, struct fi_mr_attr *attr, uint64_t flags, uintptr_t addr,
		 size_t size, bool device, struct net_mr **mr)
{
	/* Device memory goes to RDMA devices as a dma-buf, if it can. */
	bool dmabuf = device || (flags & FI_MR_DMABUF);
	struct net_root *root = calloc(1, sizeof(*root));
	int ret;

	if (!root)
		return -FI_ENOMEM;
	*root = (struct net_root){ .start = addr, .end = addr + size, .device = device, .refs = 1 };
	root->share = dmabuf ? !regs->can_sub_dmabuf : !regs->can_sub;
	ret = make_root(regs, attr, flags, root);
	if (ret) {
		free(root);
		return ret;
	}
	ret = make_handle(regs, root, addr, size, true, mr);
	if (ret) {
		put_root(regs, root);
		return ret;
	}
	ret = enter_root(regs, root);
	if (ret) {
		(*mr)->whole = false;
		net_regs_drop(regs, *mr);
	}
	return ret;
}

int net_regs_drop(struct net_regs *regs, struct net_mr *mr)
{
	struct net_root *root = mr->root;
	int ret = 0, failed;

	if (mr->whole)
		leave_root(regs, root);
	if (mr->mr != root->mr)
		ret = fi_close(&mr->mr->fid);
	if (ret)
		sample_fail("fi_close of a slice's region", ret);
	atomic_fetch_sub(&regs->open, 1);
	free(mr);
	failed = put_root(regs, root);
	return ret ? ret : failed;
}

int net_regs_offer(struct net_regs *regs, struct net_mr *mr, uintptr_t addr, struct sample_key *key)
{
	uintptr_t first = mr->mr == mr->root->mr ? mr->root->start : mr->addr;
	int ret = sample_share(&regs->end, mr->mr, (void *)first, key);

	if (!ret)
		key->address += addr - first;
	return ret;
}
