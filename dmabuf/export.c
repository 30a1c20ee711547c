/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Exports: memory of an interface as a dma-buf.
 *
 * An export is of a whole allocation where that is possible, so that its regions share one descriptor.
 * It is open while it is imported, and as long as a region of it lives: then it keeps no memory that is
 * not kept anyway.  How many stay open so is limited; the others are given back right after import.
 */
#include <pthread.h>
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/base/refusal.h"
#include "dmabuf/dmabuf.h"

struct dmabuf {
	struct hm_list link;
	const struct hmem_ops *ops;
	int device;
	uint32_t flags;
	uint64_t id;	    /* of the allocation, 0 none */
	uint64_t base, len; /* what it holds, as addresses */
	struct hmem_export export;
	struct dmabuf_id file;
	unsigned int refs, kept;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the list, counts and figures */
static struct hm_list exports = { &exports, &exports };
static struct dmabuf_figures figures;
static size_t kept_count; /* exports with kept > 0 */

/* ---- finding one ---- */

/* What an export is asked for: the range itself, and what would be exported for it. */
struct wanted {
	uint64_t addr, len;
	uint64_t base, end;
	bool exact; /* nothing larger will do: that was tried */
};

static bool serves(const struct dmabuf *d, const struct wanted *want)
{
	if (want->exact)
		return d->base == want->base && d->len == want->end - want->base;
	return want->addr >= d->base && want->len <= d->len &&
	       want->addr - d->base <= d->len - want->len;
}

static bool fits(const struct dmabuf *d, const struct hmem_ops *ops, int device, uint64_t id,
		 uint32_t flags, const struct wanted *want)
{
	return d->ops == ops && d->device == device && d->id == id && d->flags == flags &&
	       serves(d, want);
}

/*
 * Lock held.  The address may have been freed and allocated anew since, so that an interface without
 * identities shares nothing.
 */
static struct dmabuf *find(const struct hmem_ops *ops, int device, uint64_t id, uint32_t flags,
			   const struct wanted *want)
{
	if (id == 0)
		return NULL;
	hm_list_for_each(link, &exports)
	{
		struct dmabuf *d = hm_list_entry(link, struct dmabuf, link);

		if (fits(d, ops, device, id, flags, want))
			return d;
	}
	return NULL;
}

/* ---- those of one call ---- */

static _Thread_local struct dmabuf_batch *batch __attribute__((tls_model("initial-exec")));

void dmabuf_batch_begin(struct dmabuf_batch *begun)
{
	pthread_mutex_init(&begun->lock, NULL);
	begun->count = 0;
}

void dmabuf_batch_end(struct dmabuf_batch *ended)
{
	while (ended->count > 0)
		dmabuf_put(ended->held[--ended->count], false);
	pthread_mutex_destroy(&ended->lock);
}

struct dmabuf_batch *dmabuf_batch_join(struct dmabuf_batch *joined)
{
	struct dmabuf_batch *before = batch;

	batch = joined;
	return before;
}

/* Lock held, the batch's, too. */
static struct dmabuf *find_in_batch(const struct hmem_ops *ops, int device, uint64_t id,
				    uint32_t flags, const struct wanted *want)
{
	for (size_t i = 0; i < batch->count; i++) {
		struct dmabuf *d = batch->held[i];

		if (fits(d, ops, device, id, flags, want))
			return d;
	}
	return NULL;
}

/* ---- making one ---- */

static struct wanted span(const struct hmem_ops *ops, const struct hmem_facts *facts, uint64_t addr,
			  uint64_t len, bool exact)
{
	bool whole = !exact && !(facts->flags & HMEM_FACT_NO_RANGE);
	uint64_t unit = ops->export_unit, base = whole ? facts->base : addr;
	uint64_t end = base + (whole ? facts->len : len);

	return (struct wanted){ .addr = addr,
				.len = len,
				.base = base / unit * unit,
				.end = (end + unit - 1) / unit * unit,
				.exact = exact };
}

static struct dmabuf *make(const struct hmem_memory *memory, const struct hmem_facts *facts,
			   const struct wanted *want, uint32_t flags, int *ret)
{
	const struct hmem_ops *ops = hmem_get(memory->iface);
	struct dmabuf *d = calloc(1, sizeof(*d));
	uint64_t len = want->end - want->base, size;

	if (!d) {
		HM_WARN(FI_LOG_MR, "no memory for an export");
		*ret = -FI_ENOMEM;
		return NULL;
	}
	*ret = ops->export_start(memory, (const void *)(uintptr_t)want->base, len, flags,
				 &d->export);
	if (*ret != 0) {
		/* unless the interface knows it better */
		hm_refusal_recast(HMREG_CAUSE_DRIVER_CALL, *ret == -FI_EOPNOTSUPP
								   ? HMREG_CAUSE_EXPORT_REFUSED
								   : HMREG_CAUSE_EXPORT_FAILED);
		free(d);
		return NULL;
	}
	d->ops = ops;
	d->device = memory->device;
	d->flags = flags;
	d->id = facts->id;
	d->base = want->base;
	d->len = len;
	d->refs = 1;
	if (dmabuf_identify(d->export.fd, &d->file, &size) != 0)
		d->file = (struct dmabuf_id){ 0, 0 };
	return d;
}

/* One that there is already, counted once more; NULL: none. */
static struct dmabuf *find_again(const struct hmem_ops *ops, int device, uint64_t id,
				 uint32_t flags, const struct wanted *want)
{
	struct dmabuf *d;

	pthread_mutex_lock(&lock);
	d = find(ops, device, id, flags, want);
	if (!d && batch)
		d = find_in_batch(ops, device, id, flags, want);
	if (d) {
		d->refs++;
		figures.shared++;
	}
	pthread_mutex_unlock(&lock);
	return d;
}

static int find_or_make(const struct hmem_memory *memory, const struct hmem_facts *facts,
			const struct wanted *want, uint32_t flags, struct dmabuf **out)
{
	struct dmabuf *d =
		find_again(hmem_get(memory->iface), memory->device, facts->id, flags, want);
	int ret;

	if (d) {
		*out = d;
		return 0;
	}
	d = make(memory, facts, want, flags, &ret);
	if (!d)
		return ret;
	pthread_mutex_lock(&lock);
	hm_list_add_tail(&exports, &d->link);
	figures.exports++;
	figures.open++;
	if (batch && batch->count < sizeof(batch->held) / sizeof(batch->held[0])) {
		batch->held[batch->count++] = d;
		d->refs++;
	}
	pthread_mutex_unlock(&lock);
	*out = d;
	return 0;
}

int dmabuf_export(const struct hmem_memory *memory, const void *addr, size_t len, uint32_t flags,
		  bool exact, struct dmabuf **out)
{
	const struct hmem_ops *ops = hmem_get(memory->iface);
	struct hmem_facts facts;
	struct wanted want;
	size_t part;
	int ret;

	if (!ops || !ops->export_unit)
		return -FI_EOPNOTSUPP;
	ret = hmem_segment(memory, addr, len, &facts, &part);
	if (ret == 0 && part != len) {
		HM_WARN(FI_LOG_MR, "%zu bytes at %p are not of one allocation", len, addr);
		ret = -FI_EINVAL;
	}
	if (ret != 0)
		return ret;
	want = span(ops, &facts, (uintptr_t)addr, len, exact);
	if (batch)
		pthread_mutex_lock(&batch->lock);
	ret = find_or_make(memory, &facts, &want, flags, out);
	if (batch)
		pthread_mutex_unlock(&batch->lock);
	return ret;
}

int dmabuf_of(const void *addr, size_t len, struct dmabuf **out)
{
	struct hmem_memory memory;
	int ret = hmem_classify(addr, len, &memory);

	if (ret != 0)
		return ret;
	if (!(memory.ways & HMEM_WAY_DMABUF) || memory.segments > 1)
		return -FI_EOPNOTSUPP;
	return dmabuf_export(&memory, addr, len, 0, false, out);
}

int dmabuf_fd(const struct dmabuf *dmabuf)
{
	return dmabuf->export.fd;
}

uint64_t dmabuf_reach(const struct dmabuf *dmabuf, const void *addr)
{
	uint64_t in = (uintptr_t)addr - dmabuf->base;

	return in < dmabuf->len ? dmabuf->len - in : 0;
}

uint64_t dmabuf_offset(const struct dmabuf *dmabuf, const void *addr)
{
	return dmabuf->export.offset + ((uintptr_t)addr - dmabuf->base);
}

/* ---- letting go ---- */

bool dmabuf_keep(struct dmabuf *dmabuf)
{
	size_t most = hm_param_size(HM_PARAM_DMABUF_KEEP);
	bool keep;

	pthread_mutex_lock(&lock);
	keep = dmabuf->kept > 0 || kept_count < most;
	if (keep && dmabuf->kept++ == 0)
		kept_count++;
	pthread_mutex_unlock(&lock);
	if (!keep)
		dmabuf_put(dmabuf, false);
	return keep;
}

void dmabuf_put(struct dmabuf *dmabuf, bool kept)
{
	bool last;

	pthread_mutex_lock(&lock);
	if (kept && --dmabuf->kept == 0)
		kept_count--;
	last = --dmabuf->refs == 0;
	if (last) {
		hm_list_del(&dmabuf->link);
		figures.open--;
	}
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	dmabuf->ops->export_end(&dmabuf->export);
	free(dmabuf);
}

void dmabuf_figures(struct dmabuf_figures *out)
{
	pthread_mutex_lock(&lock);
	*out = figures;
	pthread_mutex_unlock(&lock);
}

bool dmabuf_origin(int fd, enum fi_hmem_iface *iface, int *device, void **addr, uint64_t *len)
{
	struct dmabuf_id file;
	uint64_t size;
	bool found = false;

	if (dmabuf_identify(fd, &file, &size) != 0)
		return false;
	pthread_mutex_lock(&lock);
	hm_list_for_each(link, &exports)
	{
		const struct dmabuf *d = hm_list_entry(link, struct dmabuf, link);

		/* what the file's first byte is, where the export is not the file's beginning */
		found = d->file.inode == file.inode && d->file.device == file.device &&
			d->export.offset <= d->base;
		if (!found)
			continue;
		*iface = d->ops->iface;
		*device = d->device;
		*addr = (void *)(uintptr_t)(d->base - d->export.offset);
		*len = d->export.offset + d->len;
		break;
	}
	pthread_mutex_unlock(&lock);
	return found;
}
