/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One buffer registered with several domains, behind one handle: HMREG_MULTI_OPS.
 *
 * All or nothing (FN-05): regions are made by one thread or by several, each domain by one of them; once a
 * domain has refused nothing more is begun, and when all threads are done what was made is closed.  Only then
 * the refusal is logged, with the domain that it is of.
 *
 * Threads are used where they pay: for host memory that NICs pin, from HMREG_MULTI_SIZE bytes on, the pages that
 * are missing are brought in first, in pieces and by all threads (core/mr/populate.h).  The NICs themselves take
 * turns, unless the program asks for threads: several that pin the same pages at once wait for each other's page
 * faults where pages are missing, and for each other's counts of the pages where they are there, so that it took
 * as long as one after the other, or longer (tests/bench/RESULTS.md).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/crew.h"
#include "core/base/params.h"
#include "core/core.h"
#include "core/mr/populate.h"
#include "dmabuf/dmabuf.h"

struct multi {
	struct hmreg_multi face;
	struct hm_domain **domain; /* behind mr */
	uint64_t len;
	size_t pins; /* how many of the domains pin it: 0 unless it is large, and host memory */
	unsigned int threads; /* that register it, and close it */
	struct fid_mr *mr[];
};

static struct fi_ops multi_fid_ops;

/* A registration that is under way. */
struct work {
	struct multi *multi;
	const struct multi *base; /* of a part; NULL */
	const struct fi_mr_attr *attr;
	uint64_t flags;
	const int *stop;
	struct dmabuf_batch batch;
	unsigned int threads; /* how many bring pages in */
	unsigned int used;
	_Atomic bool ends;    /* a domain has refused, or stop was set */
	pthread_mutex_t lock; /* protects the rest; alone */
	size_t refused;	      /* the first domain that did; count: none */
	int ret;
	char reason[sizeof(((struct hmreg_multi_call *)0)->reason)];
};

/* ---- one domain ---- */

static const char *name_of(const struct work *work, size_t i)
{
	return work->multi->domain[i]->nic->port->domain_name;
}

static void note_refusal(struct work *work, size_t i, int ret, const char *text)
{
	pthread_mutex_lock(&work->lock);
	if (work->ret == 0 || i < work->refused) {
		work->ret = ret;
		work->refused = i;
		snprintf(work->reason, sizeof(work->reason), "%s", text);
	}
	pthread_mutex_unlock(&work->lock);
	atomic_store_explicit(&work->ends, true, memory_order_relaxed);
}

/* What was to be said, and nobody else says. */
static void say(const struct hm_log_kept *kept)
{
	if (kept->text[0])
		HM_WARN(kept->subsys, "%s", kept->text);
}

static void register_one(void *arg, size_t i)
{
	struct work *work = arg;
	struct multi *multi = work->multi;
	struct dmabuf_batch *batch;
	struct hm_log_kept kept, *before;
	int ret;

	if (atomic_load_explicit(&work->ends, memory_order_relaxed) || hm_stopped(work->stop))
		return;
	before = hm_log_keep(&kept);
	batch = dmabuf_batch_join(&work->batch);
	ret = hm_mr_part_open(multi->domain[i], work->attr, work->base ? work->base->mr[i] : NULL,
			      work->flags, &multi->mr[i]);
	dmabuf_batch_join(batch);
	hm_log_kept = before;
	if (ret == 0)
		say(&kept);
	else
		note_refusal(work, i, ret, kept.text[0] ? kept.text : fi_strerror(-ret));
}

/* ---- all of them ---- */

static void roll_back(struct multi *multi)
{
	for (size_t i = multi->face.count; i-- > 0;) {
		if (!multi->mr[i])
			continue;
		if (hm_mr_part_begin_close(multi->mr[i]) == 0)
			hm_mr_part_abandon(multi->mr[i]);
	}
}

/* The one line of a call that fails, and its answer. */
static int fail(struct work *work)
{
	size_t count = work->multi->face.count;

	if (work->ret == 0) {
		work->ret = -FI_ECANCELED;
		work->refused = count;
		snprintf(work->reason, sizeof(work->reason), "the program has stopped the call");
		HM_WARN(FI_LOG_MR,
			"a registration with %zu domains was stopped by the program; none is "
			"left",
			count);
	} else {
		HM_WARN(FI_LOG_MR, "domain %zu of %zu, %s: %s", work->refused + 1, count,
			name_of(work, work->refused), work->reason);
	}
	return work->ret;
}

/* Before pages are brought in: would the attributes do? */
static void check_all(struct work *work)
{
	struct hm_mr_request request;

	for (size_t i = 0; i < work->multi->face.count && work->ret == 0; i++) {
		struct hm_log_kept kept, *before = hm_log_keep(&kept);
		int ret;

		ret = hm_mr_check(&work->multi->domain[i]->mr, work->attr, work->flags, &request);
		hm_log_kept = before;
		if (ret != 0)
			note_refusal(work, i, ret, kept.text[0] ? kept.text : fi_strerror(-ret));
	}
}

#define WRITING_RIGHTS (FI_RECV | FI_READ | FI_REMOTE_WRITE)

static void bring_in(struct work *work)
{
	const struct fi_mr_attr *attr = work->attr;
	uint64_t pinned, count = work->multi->pins;

	/* memory that is only read may be a file's, of which nothing is to be written */
	if (work->base || !(attr->access & WRITING_RIGHTS))
		return;
	check_all(work);
	pinned = work->multi->len > UINT64_MAX / count ? UINT64_MAX : work->multi->len * count;
	if (work->ret == 0 && hm_populate(attr->mr_iov, attr->iov_count, pinned, work->threads,
					  work->stop, &work->used) != 0)
		atomic_store_explicit(&work->ends, true, memory_order_relaxed);
}

static int run(struct work *work)
{
	struct multi *multi = work->multi;
	unsigned int used;
	size_t made = 0;

	if (multi->pins)
		bring_in(work);
	dmabuf_batch_begin(&work->batch);
	used = hm_crew_run(register_one, work, multi->face.count, multi->threads);
	if (work->used < used)
		work->used = used;
	dmabuf_batch_end(&work->batch);
	for (size_t i = 0; i < multi->face.count; i++)
		made += multi->mr[i] != NULL;
	if (made == multi->face.count)
		return 0;
	roll_back(multi);
	return fail(work);
}

/* ---- how ---- */

/* What no NIC takes the registration refuses; until then it is not looked at. */
static bool is_iov(const struct fi_mr_attr *attr)
{
	return attr->mr_iov && attr->iov_count <= NIC_IOV_MAX;
}

/* Is it host memory that this domain pins? */
static bool pins(const struct hm_domain *domain, const struct fi_mr_attr *attr, uint64_t flags)
{
	const struct nic_domain *nic = domain->nic;
	struct hmem_memory memory;

	if (!nic->port->pins || !(nic->mr_mode & FI_MR_ALLOCATED) || (flags & FI_MR_DMABUF))
		return false;
	if (!(nic->caps & FI_HMEM))
		return true;
	if (!is_iov(attr))
		return false;
	for (size_t i = 0; i < attr->iov_count; i++)
		if (hmem_classify(attr->mr_iov[i].iov_base, attr->mr_iov[i].iov_len, &memory) !=
			    0 ||
		    memory.kind != HMEM_HOST)
			return false;
	return true;
}

static uint64_t length_of(const struct fi_mr_attr *attr, uint64_t flags)
{
	uint64_t len = 0;

	if (flags & FI_MR_DMABUF)
		return attr->dmabuf ? attr->dmabuf->len : 0;
	for (size_t i = 0; is_iov(attr) && i < attr->iov_count; i++)
		len += attr->mr_iov[i].iov_len;
	return len;
}

/* How many threads do what. */
static void plan(struct work *work, unsigned int asked)
{
	const struct fi_mr_attr *attr = work->attr;
	struct multi *multi = work->multi;
	int most = hm_param_int(HM_PARAM_MULTI_THREADS);
	bool was_mild = hm_log_mild;

	multi->threads = asked > 0 ? asked : 1;
	multi->len = length_of(attr, work->flags);
	work->threads = multi->threads;
	if (multi->len < hm_param_size(HM_PARAM_MULTI_SIZE))
		return;
	if (asked == 0 && most > 1) {
		work->threads = hm_crew_processors();
		if (work->threads > (unsigned int)most)
			work->threads = (unsigned int)most;
	}
	if (work->threads <= 1)
		return;
	hm_log_mild = true; /* what is wrong with the memory is the registration's to say */
	for (size_t i = 0; i < multi->face.count; i++)
		multi->pins += pins(multi->domain[i], attr, work->flags);
	hm_log_mild = was_mild;
}

/* ---- the calls ---- */

static int make_multi(size_t count, struct multi **out)
{
	size_t each = sizeof(struct fid_mr *) + sizeof(struct hm_domain *);
	struct multi *multi = NULL;

	if (count < (SIZE_MAX - sizeof(*multi)) / each)
		multi = calloc(1, sizeof(*multi) + count * each);
	if (!multi) {
		HM_WARN(FI_LOG_MR, "no memory for a registration with %zu domains", count);
		return -FI_ENOMEM;
	}
	multi->face.count = count;
	multi->face.mr = multi->mr;
	multi->domain = (struct hm_domain **)&multi->mr[count];
	*out = multi;
	return 0;
}

/* How the program wants it, of a struct that may be an older one. */
static int take_call(const struct hmreg_multi_call *call, struct hmreg_multi_call *mine)
{
	mine->size = sizeof(*mine);
	mine->threads = 0;
	mine->stop = NULL;
	if (!call)
		return 0;
	if (call->size < offsetof(struct hmreg_multi_call, refused)) {
		HM_WARN(FI_LOG_MR, "struct hmreg_multi_call: its size is not set");
		return -FI_EINVAL;
	}
	mine->threads = call->threads;
	mine->stop = call->stop;
	return 0;
}

static void give_call(struct hmreg_multi_call *call, struct hmreg_multi_call *mine,
		      const struct work *work)
{
	mine->used = work->used;
	mine->refused = work->ret ? work->refused : work->multi->face.count;
	memcpy(mine->reason, work->reason, sizeof(mine->reason));
	hm_ext_give(call, mine, sizeof(*mine));
}

/*
 * A call that has come to no domain says why, too: what its checks have logged is in kept.  Nothing can be
 * said in a struct whose size is not set.
 */
static int refuse(struct hmreg_multi_call *call, size_t count, const struct hm_log_kept *kept,
		  int ret)
{
	struct hmreg_multi_call mine = { .refused = count, .used = 1 };

	say(kept);
	if (!call || call->size < offsetof(struct hmreg_multi_call, refused))
		return ret;
	mine.threads = call->threads;
	mine.stop = call->stop;
	memcpy(mine.reason, kept->text, sizeof(mine.reason));
	hm_ext_give(call, &mine, sizeof(mine));
	return ret;
}

/* All but how. */
static void begin(struct work *work, struct multi *multi, const struct multi *base,
		  const struct fi_mr_attr *attr, uint64_t flags)
{
	work->multi = multi;
	work->base = base;
	work->attr = attr;
	work->flags = flags;
	atomic_init(&work->ends, false);
	pthread_mutex_init(&work->lock, NULL);
	work->used = 1;
	work->ret = 0;
	work->reason[0] = '\0';
}

static int register_with(struct work *work, struct hmreg_multi_call *call,
			 struct hmreg_multi_call *mine, struct hmreg_multi **out)
{
	struct multi *multi = work->multi;
	int ret;

	work->stop = mine->stop;
	plan(work, mine->threads);
	ret = run(work);
	pthread_mutex_destroy(&work->lock);
	if (call)
		give_call(call, mine, work);
	if (ret != 0) {
		free(multi);
		return ret;
	}
	multi->face.fid = (struct fid){ HMREG_CLASS_MULTI, work->attr->context, &multi_fid_ops };
	*out = &multi->face;
	return 0;
}

static int check_reg(struct fid_domain *const *domains, size_t count, const struct fi_mr_attr *attr,
		     struct hmreg_multi **out)
{
	if (!domains || count == 0 || !attr || !out) {
		HM_WARN(FI_LOG_MR, "no domains, no attributes, or nowhere to put the handle");
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < count; i++) {
		if (!domains[i] || domains[i]->fid.fclass != FI_CLASS_DOMAIN ||
		    domains[i]->mr != &hm_mr_ops) {
			HM_WARN(FI_LOG_MR, "entry %zu of %zu is no domain of this library", i,
				count);
			return -FI_EINVAL;
		}
		/* the attributes of programs for older interfaces end before */
		if (FI_VERSION_GE(hm_domain_of(&domains[i]->fid)->api_version, FI_VERSION(1, 20)) &&
		    attr->base_mr) {
			HM_WARN(FI_LOG_MR, "base_mr is a region of one domain: make parts of a "
					   "handle by sub");
			return -FI_EINVAL;
		}
	}
	return 0;
}

static int multi_reg(struct fid_domain *const *domains, size_t count, const struct fi_mr_attr *attr,
		     uint64_t flags, struct hmreg_multi_call *call, struct hmreg_multi **out)
{
	struct hm_log_kept kept, *before;
	struct hmreg_multi_call mine;
	struct multi *multi;
	struct work work;
	int ret;

	before = hm_log_keep(&kept);
	ret = check_reg(domains, count, attr, out);
	if (ret == 0)
		ret = take_call(call, &mine);
	if (ret == 0)
		ret = make_multi(count, &multi);
	hm_log_kept = before;
	if (ret != 0)
		return refuse(call, count, &kept, ret);
	for (size_t i = 0; i < count; i++)
		multi->domain[i] = hm_domain_of(&domains[i]->fid);
	begin(&work, multi, NULL, attr, flags);
	return register_with(&work, call, &mine, out);
}

/* A handle of ours that has all its regions; NULL with one log line: it is none. */
static struct multi *multi_of(const struct hmreg_multi *face)
{
	struct multi *multi =
		face ? hm_container((struct hmreg_multi *)(uintptr_t)face, struct multi, face)
		     : NULL;
	bool whole = multi && face->fid.fclass == HMREG_CLASS_MULTI;

	for (size_t i = 0; whole && i < face->count; i++)
		whole = multi->mr[i] != NULL;
	if (!whole)
		HM_WARN(FI_LOG_MR, "not a handle of several regions, or one that is half closed");
	return whole ? multi : NULL;
}

static int check_sub(const struct multi *base, uint64_t flags, struct hmreg_multi **out)
{
	if (base && !out)
		HM_WARN(FI_LOG_MR, "nowhere to put the handle");
	if (!base || !out)
		return -FI_EINVAL;
	if (!(flags & (HMREG_MR_CACHE | FI_MR_DMABUF)))
		return 0;
	HM_WARN(FI_LOG_MR, "a part of a handle takes neither HMREG_MR_CACHE nor FI_MR_DMABUF");
	return -FI_EBADFLAGS;
}

static int multi_sub(struct hmreg_multi *face, const void *addr, size_t len, uint64_t access,
		     uint64_t requested_key, uint64_t flags, struct hmreg_multi_call *call,
		     struct hmreg_multi **out)
{
	struct iovec iov = { (void *)(uintptr_t)addr, len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = access, .requested_key = requested_key
	};
	struct hm_log_kept kept, *before;
	struct hmreg_multi_call mine;
	const struct multi *base;
	struct multi *multi;
	struct work work;
	int ret;

	before = hm_log_keep(&kept);
	base = multi_of(face);
	ret = check_sub(base, flags, out);
	if (ret == 0)
		ret = take_call(call, &mine);
	if (ret == 0)
		ret = make_multi(face->count, &multi);
	hm_log_kept = before;
	if (ret != 0)
		return refuse(call, base ? face->count : 0, &kept, ret);
	memcpy(multi->domain, base->domain, face->count * sizeof(struct hm_domain *));
	begin(&work, multi, base, &attr, flags);
	return register_with(&work, call, &mine, out);
}

static int multi_keys(const struct hmreg_multi *face, uint64_t *keys, void **descs)
{
	struct multi *multi = multi_of(face);

	if (!multi)
		return -FI_EINVAL;
	for (size_t i = 0; i < face->count; i++) {
		if (keys)
			keys[i] = multi->mr[i]->key;
		if (descs)
			descs[i] = multi->mr[i]->mem_desc;
	}
	return 0;
}

struct hmreg_multi_ops hm_multi_ext_ops = {
	.size = sizeof(struct hmreg_multi_ops),
	.reg = multi_reg,
	.sub = multi_sub,
	.keys = multi_keys,
};

/* ---- closing ---- */

struct closing {
	struct multi *multi;
	_Atomic int ret; /* the first refusal */
};

/* No part is made of any of them from now on; or they are as they were. */
static int begin_close(struct multi *multi)
{
	for (size_t i = 0; i < multi->face.count; i++) {
		int ret;

		if (!multi->mr[i])
			continue;
		/* parts whose end was refused hold what they were made of */
		hm_mr_end_abandoned(&multi->domain[i]->mr);
		ret = hm_mr_part_begin_close(multi->mr[i]);
		if (ret == 0)
			continue;
		while (i-- > 0)
			if (multi->mr[i])
				hm_mr_part_cancel_close(multi->mr[i]);
		return ret;
	}
	return 0;
}

static void close_one(void *arg, size_t i)
{
	struct closing *closing = arg;
	struct fid_mr **mr = &closing->multi->mr[i];
	int ret = *mr ? hm_mr_part_close(*mr) : 0, none = 0;

	if (ret == 0)
		*mr = NULL;
	else
		atomic_compare_exchange_strong(&closing->ret, &none, ret);
}

static int close_multi(struct fid *fid)
{
	struct multi *multi = hm_container(fid, struct multi, face.fid);
	struct closing closing = { .multi = multi };
	int ret = begin_close(multi);

	if (ret != 0)
		return ret;
	hm_crew_run(close_one, &closing, multi->face.count, multi->threads);
	ret = atomic_load(&closing.ret);
	if (ret != 0)
		return ret;
	hm_fid_end(fid);
	free(multi);
	return 0;
}

static struct fi_ops multi_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = close_multi,
	.bind = hm_no_bind,
	.control = hm_no_control,
	.ops_open = hm_no_ops_open,
	.tostr = hm_no_tostr,
	.ops_set = hm_no_ops_set,
};
