/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions that a program wants kept (HMREG_MR_CACHE): each call gets a fid of its own over a registration that
 * is shared by all who ask for the same, and that outlives them in the domain's cache.
 *
 * What is the same: the range as asked for or a wider one that was asked for before; rights, of which peers get
 * exactly those asked for; ordering, page size, the memory's owner.  Where peers address from the region's
 * beginning (FI_MR_VIRT_ADDR not agreed) the range begins at the same byte, too.  A dma-buf is told by what it
 * is and not by its descriptor (FN-33): the entry has a descriptor of its own, so that the kernel gives its
 * inode to no other.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/mr/kept.h"
#include "core/mr/local_priv.h"
#include "core/mr/monitor.h"
#include "dmabuf/dmabuf.h"

struct hm_mr_kept_file {
	struct dmabuf_id id;
	uint64_t shift; /* offset in the dma-buf, less address */
	int fd;		/* owned */
};

/* What the thread's get is for, which a key does not tell. */
static _Thread_local struct hm_mr_request *asked __attribute__((tls_model("initial-exec")));

/* ---- dma-bufs ---- */

static int note_file(const struct fi_mr_dmabuf *dmabuf, struct hm_mr_kept_file **out)
{
	struct hm_mr_kept_file *file = malloc(sizeof(*file));
	uint64_t size;
	int ret;

	if (!file) {
		HM_WARN(FI_LOG_MR, "no memory to keep the registration of a dma-buf");
		return -FI_ENOMEM;
	}
	ret = dmabuf_identify(dmabuf->fd, &file->id, &size);
	file->shift = dmabuf->offset - ((uintptr_t)dmabuf->base_addr + dmabuf->offset);
	file->fd = ret == 0 ? fcntl(dmabuf->fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (ret == 0 && file->fd < 0) {
		ret = -errno;
		HM_WARN(FI_LOG_MR, "no descriptor to keep a dma-buf by: %s", strerror(errno));
	}
	if (ret != 0) {
		free(file);
		return ret;
	}
	*out = file;
	return 0;
}

static void forget_file(struct hm_mr_kept_file *file)
{
	if (!file)
		return;
	close(file->fd);
	free(file);
}

/* Is what the cache found under a sum of these what was asked for? */
static bool is_same_file(const struct hm_mr *mr, const struct hm_mr_request *request)
{
	const struct hm_mr_kept_file *file = (const void *)mr->mr.fid.ops;
	struct dmabuf_id id;
	uint64_t size;

	if (!request->nic.dmabuf)
		return true;
	return file && dmabuf_identify(request->dmabuf.fd, &id, &size) == 0 &&
	       id.device == file->id.device && id.inode == file->id.inode &&
	       file->shift == -(uint64_t)(uintptr_t)request->dmabuf.base_addr;
}

/* ---- what the cache calls, by local.c ---- */

/* file: owned if this succeeds; NULL: none, or not to be found. */
static int make_region(struct hm_mr_local *local, struct hm_mr_request *request,
		       struct hm_mr_kept_file *file, struct hm_mr **mr)
{
	int ret = hm_mr_make(local->domain, request, mr);

	if (ret != 0)
		return ret;
	(*mr)->mr.fid.ops = (void *)file;
	atomic_fetch_add(&local->kept_regions, 1);
	atomic_fetch_add(&local->kept_bytes, request->len);
	return 0;
}

int hm_mr_kept_register(struct hm_mr_local *local, struct hm_mr **mr)
{
	struct hm_mr_kept_file *file = NULL;
	int ret = asked->nic.dmabuf ? note_file(&asked->dmabuf, &file) : 0;

	if (ret == 0)
		ret = make_region(local, asked, file, mr);
	if (ret != 0)
		forget_file(file);
	return ret;
}

void hm_mr_kept_ended(struct hm_mr_local *local, uint64_t len, struct hm_mr_kept_file *file)
{
	forget_file(file);
	atomic_fetch_sub(&local->kept_regions, 1);
	atomic_fetch_sub(&local->kept_bytes, len);
}

/* ---- the key ---- */

static uint64_t mix(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return sum ^ sum >> 29;
}

static unsigned log2_of(size_t size)
{
	return size ? 63u - (unsigned)__builtin_clzll(size) : 0;
}

/* Returns the guards, 0: it is not to be kept. */
static uint32_t make_key(const struct hm_mr_domain *domain, const struct hm_mr_request *request,
			 struct hm_cache_key *key)
{
	struct hmem_owner owner = hmem_plain_owner();
	const struct iovec *iov = request->nic.iov;
	struct dmabuf_id id;
	uint64_t size;

	*key = (struct hm_cache_key){
		.begin = (uintptr_t)iov->iov_base,
		.end = (uintptr_t)iov->iov_base + iov->iov_len,
		.rights = (uint32_t)request->nic.access,
		.kind = HM_LOCAL_KEPT | HM_LOCAL_PAGE(log2_of(request->nic.page_size)),
	};
	if (request->nic.access & FI_REMOTE_READ)
		key->kind |= HM_LOCAL_PEERS(1);
	if (request->nic.access & FI_REMOTE_WRITE)
		key->kind |= HM_LOCAL_PEERS(2);
	if (request->nic.flags & HMREG_MR_RELAXED_ORDERING)
		key->kind |= HM_LOCAL_RELAXED;
	if (request->nic.dmabuf) {
		if (dmabuf_identify(request->dmabuf.fd, &id, &size) != 0)
			return 0;
		key->kind |= HM_LOCAL_DMABUF;
		key->id =
			mix(mix(mix(1, id.device), id.inode), (uintptr_t)request->dmabuf.base_addr);
		owner.guards = HMEM_GUARD_ID;
	} else {
		if (hm_mr_local_owner(domain->nic, iov->iov_base, iov->iov_len, &owner) != 0)
			return 0;
		hm_mr_local_owned(&owner, key);
	}
	if (!(domain->nic->mr_mode & FI_MR_VIRT_ADDR))
		key->id = mix(key->id, key->begin);
	return owner.guards;
}

/* ---- get and put ---- */

static int get_kept(struct hm_mr_local *local, const struct hm_cache_key *key,
		    struct hm_mr_request *request, struct hm_cache_hold *hold)
{
	int ret = -FI_EAGAIN;

	hm_monitor_settle();
	for (unsigned i = 0; i < HM_LOCAL_TRIES; i++) {
		asked = request;
		ret = hm_cache_get(&local->cache, key, hold);
		asked = NULL;
		if (ret != 0)
			return ret;
		if (!is_same_file(hold->data, request)) {
			hm_cache_put(&local->cache, hold);
			return -FI_EAGAIN;
		}
		if (hm_mr_local_fresh(local, hold->data))
			return 0;
		hm_cache_put(&local->cache, hold);
		ret = -FI_EAGAIN;
	}
	return ret;
}

/* Not kept: as any region, for this one fid. */
static int get_alone(struct hm_mr_local *local, const struct hm_cache_key *key,
		     struct hm_mr_request *request, int why, struct hm_cache_hold *hold)
{
	struct hm_mr *mr;
	int ret, cancel;

	if (why == -FI_ENOMEM || why == -FI_ENOSPC)
		hm_mr_local_evict(local->domain);
	cancel = hm_cancel_off();
	ret = make_region(local, request, NULL, &mr);
	hm_cancel_restore(cancel);
	if (ret != 0)
		return ret;
	hm_mr_local_note(mr, false, 0);
	atomic_fetch_or_explicit(&mr->region.state, NIC_REGION_KEPT, memory_order_relaxed);
	hm_cache_count_miss(&local->cache, key, false);
	*hold = (struct hm_cache_hold){ mr, HM_CACHE_PRIVATE };
	return 0;
}

int hm_mr_keep(struct hm_mr_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
	       struct hm_mr_kept **out)
{
	struct hm_mr_request request;
	struct hm_cache_hold hold;
	struct hm_cache_key key;
	struct hm_mr_local *local;
	struct hm_mr_kept *kept;
	int ret = hm_mr_check(domain, attr, flags, &request);

	if (ret != 0)
		return ret;
	request.nic.flags &= ~HMREG_MR_CACHE;
	if (request.nic.access == 0) /* what it stands for, so that no fewer rights are found */
		request.nic.access = HM_LOCAL_READS;
	local = hm_mr_local_of(domain);
	kept = calloc(1, sizeof(*kept));
	if (!local || !kept) {
		if (local)
			HM_WARN(FI_LOG_MR, "no memory for a region");
		free(kept);
		return -FI_ENOMEM;
	}
	ret = -FI_EAGAIN;
	if (hm_mr_local_can_keep(local, make_key(domain, &request, &key)))
		ret = get_kept(local, &key, &request, &hold);
	if (ret != 0)
		ret = get_alone(local, &key, &request, ret, &hold);
	if (ret != 0) {
		free(kept);
		return ret;
	}
	kept->shared = hold.data;
	kept->entry = hold.entry;
	kept->len = request.len;
	kept->face.mr.mem_desc = kept->shared->mr.mem_desc;
	kept->face.mr.key = kept->shared->mr.key;
	atomic_fetch_add(&local->fids, 1);
	atomic_fetch_add(&local->fid_bytes, kept->len);
	*out = kept;
	return 0;
}

void hm_mr_unkeep(struct hm_mr_kept *kept)
{
	struct hm_mr_domain *domain =
		hm_container(kept->shared->region.domain->regions, struct hm_mr_domain, regions);
	struct hm_mr_local *local = hm_mr_local_find(domain);
	const struct hm_cache_hold hold = { kept->shared, kept->entry };

	atomic_fetch_sub(&local->fids, 1);
	atomic_fetch_sub(&local->fid_bytes, kept->len);
	if (hold.entry != HM_CACHE_PRIVATE)
		hm_cache_put(&local->cache, &hold);
	else
		hm_mr_local_end_alone(local, kept->shared);
	free(kept);
}

/* ---- figures ---- */

void hm_mr_count(struct hm_mr_domain *domain, uint64_t *regions, uint64_t *bytes)
{
	struct hm_mr_local *local = hm_mr_local_find(domain);
	uint64_t kept = local ? atomic_load(&local->kept_regions) : 0;
	uint64_t kept_bytes = local ? atomic_load(&local->kept_bytes) : 0;

	hm_key_count(&domain->regions, regions, bytes);
	if (!local)
		return;
	/* one after the other: while some begin and end, the difference may be off by these */
	*regions = (*regions > kept ? *regions - kept : 0) + atomic_load(&local->fids);
	*bytes = (*bytes > kept_bytes ? *bytes - kept_bytes : 0) + atomic_load(&local->fid_bytes);
}
