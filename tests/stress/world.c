/* SPDX-License-Identifier: BSD-2-Clause */
/* See world.h: what is opened, and closed. */
#include "tests/stress/world.h"

#define ALL (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

struct fid_ep *make_ep(struct world *w, struct fid_cq *cq, uint8_t name[NAME_MAX_])
{
	size_t len = NAME_MAX_;
	struct fid_ep *ep;

	CHECK_OK(fi_endpoint(w->domain, w->info, &ep, NULL));
	CHECK_OK(fi_ep_bind(ep, &w->av->fid, 0));
	CHECK_OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK_OK(fi_enable(ep));
	CHECK_OK(fi_getname(&ep->fid, name, &len));
	return ep;
}

struct fid_mr *make_mr(struct world *w, struct fid_ep *ep, void *buf, size_t len,
		       struct fid_cntr *cntr)
{
	struct iovec iov = { buf, len };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = ALL,
				   .requested_key = atomic_fetch_add(&w->next_key, 1) };
	struct fid_mr *mr;

	CHECK_OK(fi_mr_regattr(w->domain, &attr, cntr ? FI_RMA_EVENT : 0, &mr));
	if (cntr)
		CHECK_OK(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	if (w->mode & FI_MR_ENDPOINT)
		CHECK_OK(fi_mr_bind(mr, &ep->fid, 0));
	if ((w->mode & FI_MR_ENDPOINT) || (cntr && (w->mode & FI_MR_RMA_EVENT)))
		CHECK_OK(fi_mr_enable(mr));
	if (w->mode & FI_MR_MMU_NOTIFY)
		CHECK_OK(fi_mr_refresh(mr, NULL, 0, 0));
	return mr;
}

void export_key(struct world *w, struct fid_mr *mr, uint64_t *key, uint64_t *base, uint8_t raw[16],
		size_t *raw_size)
{
	*raw_size = 16;
	*key = fi_mr_key(mr);
	if (w->mode & FI_MR_RAW)
		CHECK_OK(fi_mr_raw_attr(mr, base, raw, raw_size, 0));
	else
		*raw_size = 0;
}

static struct fid_cq *make_cq(struct world *w, enum fi_wait_obj wait_obj)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_MSG, .wait_obj = wait_obj, .size = 128 };
	struct fid_cq *cq;

	CHECK_OK(fi_cq_open(w->domain, &attr, &cq, NULL));
	return cq;
}

void world_open(struct world *w, const char *profile, unsigned threads)
{
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	w->profile = profile;
	w->next_key = 1;
	w->info = stress_info(profile, FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_SOURCE);
	w->mode = w->info->domain_attr->mr_mode;
	CHECK_OK(fi_fabric(w->info->fabric_attr, &w->fabric, NULL));
	CHECK_OK(fi_domain(w->fabric, w->info, &w->domain, NULL));
	CHECK_OK(fi_open_ops(&w->domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&w->ops, NULL));
	CHECK_OK(fi_av_open(w->domain, &av, &w->av, NULL));
	w->hub_cq = make_cq(w, FI_WAIT_NONE);
	w->hub = make_ep(w, w->hub_cq, w->hub_name);
	w->memory_len = threads * SLICE + CELLS * sizeof(uint64_t);
	w->memory = calloc(1, w->memory_len);
	CHECK(w->memory);
	w->hub_mr = make_mr(w, w->hub, w->memory, w->memory_len, NULL);
	w->hub_addr = w->mode & FI_MR_VIRT_ADDR ? (uintptr_t)w->memory : 0;
	export_key(w, w->hub_mr, &w->hub_key, &w->hub_base, w->hub_raw, &w->hub_raw_size);
	w->hub_use = w->hub_key;
	if (w->hub_raw_size)
		CHECK_OK(fi_mr_map_raw(w->domain, w->hub_base, w->hub_raw, w->hub_raw_size,
				       &w->hub_use, 0));
}

/* All stations are closed. */
void world_close(struct world *w)
{
	struct hmreg_domain_stats stats = { .size = sizeof(stats) };

	if (w->hub_raw_size)
		CHECK_OK(fi_mr_unmap_key(w->domain, w->hub_use));
	CHECK_OK(fi_close(&w->hub_mr->fid));
	CHECK_OK(fi_close(&w->hub->fid));
	CHECK_OK(w->ops->stats(&w->domain->fid, &stats));
	CHECK(stats.regions == 0 && stats.registered_bytes == 0);
	CHECK(stats.mapped_keys == 0 && stats.endpoints == 0);
	CHECK_OK(fi_close(&w->hub_cq->fid));
	CHECK_OK(fi_close(&w->av->fid));
	CHECK_OK(fi_close(&w->domain->fid));
	CHECK_OK(fi_close(&w->fabric->fid));
	fi_freeinfo(w->info);
	free(w->memory);
}

/* Two of three wait objects sleep, so that waking is stressed as well. */
void station_open(struct station *s, struct world *w, unsigned thread)
{
	static const enum fi_wait_obj waits[] = { FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_NONE };
	struct fi_cntr_attr cntr = { .wait_obj = FI_WAIT_NONE };

	s->world = w;
	s->thread = thread;
	s->random = UINT64_C(0x9e3779b97f4a7c15) * (thread + 1) ^ (uintptr_t)w->profile[3];
	s->cq = make_cq(w, waits[thread % 3]);
	s->ep = make_ep(w, s->cq, s->name);
	s->local = calloc(1, OUT_LEN + IN_LEN);
	s->lanes = calloc(THREADS_MAX, sizeof(*s->lanes));
	CHECK(s->local && s->lanes);
	s->local_mr = make_mr(w, s->ep, s->local, OUT_LEN + IN_LEN, NULL);
	CHECK_OK(fi_cntr_open(w->domain, &cntr, &s->guest_cntr, NULL));
	pthread_mutex_init(&s->notice.lock, NULL);
	for (unsigned i = 0; i < SENDS; i++)
		s->send[i] = (struct op){ .kind = OP_SEND, .index = i };
	for (unsigned i = 0; i < RECEIVES; i++)
		s->recv[i] = (struct op){ .kind = OP_RECV, .index = i };
}

void station_meet(struct station *s, unsigned threads)
{
	struct world *w = s->world;
	struct station *next = &w->station[(s->thread + 1) % threads];

	CHECK(fi_av_insert(w->av, w->hub_name, 1, &s->hub, 0, NULL) == 1);
	CHECK(fi_av_insert(w->av, next->name, 1, &s->next, 0, NULL) == 1);
	for (unsigned i = 0; i < RECEIVES; i++) {
		s->recv[i].pending = true;
		CHECK_OK(fi_recv(s->ep, s->local + OUT_LEN + i * MESSAGE, MESSAGE,
				 fi_mr_desc(s->local_mr), FI_ADDR_UNSPEC, &s->recv[i]));
	}
}

void station_close(struct station *s)
{
	struct world *w = s->world;

	if (s->guest_mr)
		CHECK_OK(fi_close(&s->guest_mr->fid));
	if (s->guest)
		CHECK_OK(fi_close(&s->guest->fid));
	CHECK_OK(fi_av_remove(w->av, &s->hub, 1, 0));
	CHECK_OK(fi_av_remove(w->av, &s->next, 1, 0));
	CHECK_OK(fi_close(&s->local_mr->fid));
	CHECK_OK(fi_close(&s->ep->fid));
	CHECK_OK(fi_close(&s->guest_cntr->fid));
	CHECK_OK(fi_close(&s->cq->fid));
	pthread_mutex_destroy(&s->notice.lock);
	free(s->local);
	free(s->lanes);
}
