/* SPDX-License-Identifier: BSD-2-Clause */
/* The library's side: objects, regions and keys. */
#include "tests/walk/world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What an output holds before the call. */
#define UNTOUCHED	 ((void *)(uintptr_t)0x5a5a5a5a5a5a5a5a)
#define UNTOUCHED_NUMBER UINT64_C(0x5a5a5a5a5a5a5a5a)

_Noreturn static void die(const char *what, long ret)
{
	fprintf(stderr, "walk: %s: %s\n", what, fi_strerror((int)-ret));
	abort();
}

#define MUST(call)                                                                                 \
	do {                                                                                       \
		long must_ = (call);                                                               \
		if (must_ != 0)                                                                    \
			die(#call, must_);                                                         \
	} while (0)

/* ---- what worlds stand on ---- */

#define OFFERED                                                                                    \
	(FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |            \
	 FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE |     \
	 FI_MR_XPU_DESC)

static struct fi_info *get_info(const struct walk_variant *variant)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	if (!hints)
		die("fi_allocinfo", -FI_ENOMEM);
	hints->caps = WALK_CAPS & ~variant->without;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = variant->asked ? variant->asked : variant->mode;
	if (strcmp(variant->name, "sw-any") != 0 && !variant->asked &&
	    variant->version == FI_VERSION(2, 7))
		hints->domain_attr->mr_mode = OFFERED; /* it takes what it needs */
	hints->domain_attr->name = strdup(variant->name);
	MUST(fi_getinfo(variant->version, NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	if (info->domain_attr->mr_mode != (variant->asked ? variant->asked : variant->mode))
		die("fi_getinfo gives another mr_mode than agreed", -FI_EINVAL);
	return info;
}

static const int fault_signals[2] = { SIGSEGV, SIGBUS };

void world_take_faults(const struct world_ground *ground)
{
	for (int i = 0; i < 2; i++)
		sigaction(fault_signals[i], &ground->faults[i], NULL);
}

/* With the first domain the library begins to look after faults. */
static void note_faults(struct world_ground *ground)
{
	struct fid_domain *domain;

	MUST(fi_domain(ground->fabric[0], ground->info[0], &domain, NULL));
	MUST(fi_close(&domain->fid));
	for (int i = 0; i < 2; i++)
		sigaction(fault_signals[i], NULL, &ground->faults[i]);
}

int world_ground_open(struct world_ground *ground)
{
	if (sysconf(_SC_PAGESIZE) != (long)WALK_PAGE)
		return 77;
	for (int i = 0; i < WALK_VARIANTS; i++) {
		ground->info[i] = get_info(&walk_variants[i]);
		MUST(fi_fabric(ground->info[i]->fabric_attr, &ground->fabric[i], NULL));
	}
	note_faults(ground);
	return 0;
}

void world_ground_close(struct world_ground *ground)
{
	for (int i = 0; i < WALK_VARIANTS; i++) {
		MUST(fi_close(&ground->fabric[i]->fid));
		fi_freeinfo(ground->info[i]);
	}
}

void world_init(struct world *w, struct world_ground *ground)
{
	/* a page that is not there in front, and one behind */
	uint8_t *map = mmap(NULL, WALK_BYTES + 2 * WALK_PAGE, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(w, 0, sizeof(*w));
	w->ground = ground;
	if (map == MAP_FAILED)
		die("mmap", -FI_ENOMEM);
	w->memory = map + WALK_PAGE;
}

void world_fill(struct world *w, const uint8_t *bytes)
{
	MUST(mprotect(w->memory, WALK_MAPPED, PROT_READ | PROT_WRITE));
	memcpy(w->memory, bytes, WALK_MAPPED);
	MUST(mprotect(w->memory + WALK_READ_ONLY * WALK_PAGE, WALK_PAGE, PROT_READ));
}

void world_fini(struct world *w)
{
	munmap(w->memory - WALK_PAGE, WALK_BYTES + 2 * WALK_PAGE);
}

/* ---- domains ---- */

static long domain_open(struct world *w, const struct walk_call *c)
{
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_NONE };
	struct fid_domain *domain;
	long ret = fi_domain(w->ground->fabric[c->value], w->ground->info[c->value], &domain, NULL);

	if (ret != 0)
		return ret;
	w->variant[c->domain] = &walk_variants[c->value];
	w->domain[c->domain] = domain;
	MUST(fi_open_ops(&domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&w->ops[c->domain], NULL));
	w->eq[c->domain] = NULL;
	if (!w->variant[c->domain]->async)
		return 0;
	MUST(fi_eq_open(w->ground->fabric[c->value], &eq, &w->eq[c->domain], NULL));
	MUST(fi_domain_bind(domain, &w->eq[c->domain]->fid, FI_REG_MR));
	return 0;
}

static long domain_close(struct world *w, const struct walk_call *c)
{
	long ret = fi_close(&w->domain[c->domain]->fid);

	if (ret == 0 && w->eq[c->domain])
		MUST(fi_close(&w->eq[c->domain]->fid));
	return ret;
}

/* ---- registration ---- */

static void check_event(struct world *w, const struct walk_call *c, struct world_result *r)
{
	struct fid_eq *eq = w->eq[c->domain];
	struct fi_eq_entry entry = { 0 };
	uint32_t event = 0;
	ssize_t ret = fi_eq_read(eq, &event, &entry, sizeof(entry), 0);

	if (r->ret != 0) {
		if (ret != -FI_EAGAIN)
			r->wrong = "an event of a registration that failed";
		return;
	}
	if (ret != (ssize_t)sizeof(entry) || event != FI_MR_COMPLETE ||
	    entry.fid != &w->mr[c->mr]->fid || entry.context != &w->mr[c->mr])
		r->wrong = "no event of the registration, or another one";
}

static void note_region(struct world *w, const struct walk_call *c, struct world_result *r)
{
	struct fid_mr *mr = w->mr[c->mr];

	w->key[c->mr] = r->key = fi_mr_key(mr);
	w->desc[c->mr] = fi_mr_desc(mr);
	w->raw_size[c->mr] = sizeof(w->raw[0]);
	MUST(fi_mr_raw_attr(mr, &w->base[c->mr], w->raw[c->mr], &w->raw_size[c->mr], 0));
	if (!w->desc[c->mr])
		r->wrong = "no descriptor";
	for (int i = 0; i < WALK_MRS; i++)
		if (i != c->mr && w->mr[i] && w->mr[i]->fid.fclass == FI_CLASS_MR &&
		    w->desc[i] == w->desc[c->mr])
			r->wrong = "a descriptor that another region has";
}

static long reg_call(struct world *w, const struct walk_call *c, struct fid_mr **out)
{
	uint64_t offset = c->odd == WALK_ODD_OFFSET;
	void *context = &w->mr[c->mr];
	struct iovec iov[WALK_IOV];
	struct fi_mr_attr attr = { .mr_iov = iov,
				   .iov_count = c->iov_count,
				   .access = c->access,
				   .offset = offset,
				   .requested_key = c->key,
				   .context = context,
				   .sub_mr_cnt = c->sub_mr_cnt };

	for (uint32_t i = 0; i < c->iov_count; i++)
		iov[i] = (struct iovec){ world_at(w, c->iov[i].at), c->iov[i].len };
	if (c->form == WALK_FORM_ONE)
		return fi_mr_reg(w->domain[c->domain], iov[0].iov_base, iov[0].iov_len, c->access,
				 offset, c->key, c->flags, out, context);
	if (c->form == WALK_FORM_V)
		return fi_mr_regv(w->domain[c->domain], c->odd == WALK_ODD_NULL ? NULL : iov,
				  c->iov_count, c->access, offset, c->key, c->flags, out, context);
	attr.hmem_data = c->odd == WALK_ODD_HMEM ? iov : NULL;
	attr.page_size = c->odd == WALK_ODD_PAGE      ? 12345
			 : c->odd == WALK_ODD_PAGE_OK ? WALK_PAGE
						      : 0;
	if (c->odd == WALK_ODD_IFACE) {
		attr.iface = FI_HMEM_CUDA;
		attr.device.cuda = 77;
	}
	attr.base_mr = c->base == WALK_NONE ? NULL : w->mr[c->base];
	return fi_mr_regattr(w->domain[c->domain], c->odd == WALK_ODD_NULL ? NULL : &attr, c->flags,
			     out);
}

static void reg(struct world *w, const struct walk_call *c, struct world_result *r)
{
	struct fid_mr *mr = UNTOUCHED;

	r->ret = reg_call(w, c, c->odd == WALK_ODD_NO_OUT ? NULL : &mr);
	if (r->ret == 0) {
		w->mr[c->mr] = mr;
		note_region(w, c, r);
	} else if (mr != UNTOUCHED) {
		r->wrong = "an output of a registration that failed";
	}
	if (w->eq[c->domain])
		check_event(w, c, r);
}

/* ---- a region's other calls ---- */

static long bind_mr(struct world *w, const struct walk_call *c)
{
	struct fid *to = NULL;

	if (c->bound == WALK_BIND_CNTR)
		to = &w->cntr[c->cntr]->fid;
	else if (c->bound == WALK_BIND_EP)
		to = &w->ep[c->ep]->fid;
	else if (c->bound == WALK_BIND_CQ)
		to = &w->cq[c->cq]->fid;
	return fi_mr_bind(w->mr[c->mr], to, c->flags);
}

static long refresh(struct world *w, const struct walk_call *c)
{
	struct iovec iov[WALK_IOV];

	for (uint32_t i = 0; i < c->iov_count; i++)
		iov[i] = (struct iovec){ world_at(w, c->iov[i].at), c->iov[i].len };
	return fi_mr_refresh(w->mr[c->mr],
			     c->odd == WALK_ODD_NULL || c->iov_count == 0 ? NULL : iov,
			     c->iov_count, c->flags);
}

/* The size is told where there is a place for it; bytes come with success alone. */
static void check_bytes(const struct walk_call *c, struct world_result *r, const uint64_t *bytes,
			size_t need, size_t room)
{
	bool told = c->odd == WALK_ODD_NONE || c->odd == WALK_ODD_SHORT;

	if (told ? r->size != need : r->size != room)
		r->wrong = "the size";
	if (r->ret != 0 && bytes[0] != UNTOUCHED_NUMBER)
		r->wrong = "bytes of a call that failed";
}

static void raw_attr(struct world *w, const struct walk_call *c, struct world_result *r)
{
	bool wide = w->raw_size[c->mr] == 16;
	uint64_t bytes[2] = { UNTOUCHED_NUMBER, UNTOUCHED_NUMBER };
	size_t room = c->odd == WALK_ODD_SHORT ? (wide ? 15 : 7) : sizeof(bytes);

	r->size = room;
	r->base = UNTOUCHED_NUMBER;
	r->ret = fi_mr_raw_attr(w->mr[c->mr], &r->base,
				c->odd == WALK_ODD_NO_BUFFER ? NULL : (uint8_t *)bytes,
				c->odd == WALK_ODD_NULL ? NULL : &r->size,
				c->odd == WALK_ODD_FLAGS ? FI_RMA_EVENT : 0);
	check_bytes(c, r, bytes, w->raw_size[c->mr], room);
	if (r->ret == 0 && memcmp(bytes, w->raw[c->mr], w->raw_size[c->mr]) != 0)
		r->wrong = "another raw key than before";
}

static void xpu_desc(struct world *w, const struct walk_call *c, struct world_result *r)
{
	uint64_t bytes[2] = { UNTOUCHED_NUMBER, UNTOUCHED_NUMBER };
	size_t room = c->odd == WALK_ODD_SHORT ? 1 : sizeof(bytes);

	r->size = room;
	r->ret = fi_mr_get_xpu_desc(w->mr[c->mr], c->odd == WALK_ODD_NO_BUFFER ? NULL : bytes,
				    c->odd == WALK_ODD_NULL ? NULL : &r->size,
				    c->odd == WALK_ODD_FLAGS ? FI_XPU : 0, NULL);
	if (c->odd != WALK_ODD_NO_BUFFER)
		check_bytes(c, r, bytes, 8, room);
}

static void map(struct world *w, const struct walk_call *c, struct world_result *r)
{
	uint8_t raw[16];
	size_t size = w->raw_size[c->mr];
	uint64_t base = w->base[c->mr], key = UNTOUCHED_NUMBER;

	memcpy(raw, w->raw[c->mr], sizeof(raw));
	if (c->raw == WALK_RAW_NARROW) {
		size = sizeof(c->key);
		memcpy(raw, &c->key, size);
	} else if (c->raw == WALK_RAW_TAMPERED) {
		raw[size == 8 ? 1 : c->value % 16] ^= (uint8_t)(WALK_TAMPER >> 8);
	} else if (c->raw == WALK_RAW_SHORT) {
		size -= 1 + c->value % (size == 16 ? 7 : 8);
	} else if (c->raw == WALK_RAW_BAD_BASE) {
		base += 8;
	}
	r->ret = fi_mr_map_raw(w->domain[c->domain], base, c->raw == WALK_RAW_NULL ? NULL : raw,
			       size, c->raw == WALK_RAW_NO_KEY ? NULL : &key,
			       c->raw == WALK_RAW_BAD_FLAGS ? FI_RMA_EVENT : 0);
	r->key = key;
	if (r->ret != 0 && key != UNTOUCHED_NUMBER)
		r->wrong = "a key of a call that failed";
}

/* ---- endpoints ---- */

static long ep_open(struct world *w, const struct walk_call *c)
{
	struct fi_info *info = w->ground->info[w->variant[c->domain] - walk_variants];
	struct fi_info mine = *info;
	size_t len = sizeof(w->name[0]);
	long ret;

	mine.caps = c->caps;
	ret = fi_endpoint(w->domain[c->domain], &mine, &w->ep[c->ep], NULL);
	w->ep_domain[c->ep] = c->domain;
	if (ret == 0)
		MUST(fi_getname(&w->ep[c->ep]->fid, w->name[c->ep], &len));
	return ret;
}

static long ep_bind(struct world *w, const struct walk_call *c)
{
	struct fid *to = NULL;

	if (c->bound == WALK_BIND_AV)
		to = &w->av[c->other]->fid;
	else if (c->bound == WALK_BIND_CQ)
		to = &w->cq[c->cq]->fid;
	else if (c->bound == WALK_BIND_CNTR)
		to = &w->cntr[c->cntr]->fid;
	return fi_ep_bind(w->ep[c->ep], to, c->flags);
}

/* ---- queues, counters, addresses ---- */

static long cntr_open(struct world *w, const struct walk_call *c)
{
	struct fi_cntr_attr attr = { .events = c->flags ? FI_CNTR_EVENTS_BYTES
							: FI_CNTR_EVENTS_COMP,
				     .wait_obj = FI_WAIT_NONE };

	return fi_cntr_open(w->domain[c->domain], &attr, &w->cntr[c->cntr], NULL);
}

static long cntr_set(struct world *w, const struct walk_call *c)
{
	switch (c->form) {
	case WALK_FORM_ONE:
		return fi_cntr_add(w->cntr[c->cntr], c->value);
	case WALK_FORM_V:
		return fi_cntr_set(w->cntr[c->cntr], c->value);
	case WALK_FORM_MSG:
		return fi_cntr_adderr(w->cntr[c->cntr], c->value);
	default:
		return fi_cntr_seterr(w->cntr[c->cntr], c->value);
	}
}

static long cq_open(struct world *w, const struct walk_call *c)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE };

	return fi_cq_open(w->domain[c->domain], &attr, &w->cq[c->cq], NULL);
}

/* FI_AV_MAP, whose addresses are not used again soon. */
static long av_open(struct world *w, const struct walk_call *c)
{
	struct fi_av_attr attr = { .type = FI_AV_MAP };

	for (int i = 0; i < WALK_ADDRS; i++)
		w->addr[c->domain][i] = FI_ADDR_NOTAVAIL;
	return fi_av_open(w->domain[c->domain], &attr, &w->av[c->domain], NULL);
}

static long av_insert(struct world *w, const struct walk_call *c)
{
	int ret = fi_av_insert(w->av[c->domain], w->name[c->ep], 1, &w->addr[c->domain][c->addr], 0,
			       NULL);

	return ret == 1 ? 0 : ret ? ret : -FI_EOTHER;
}

/* A slot's fid ends with its object. */
#define CLOSE(slot)                                                                                \
	do {                                                                                       \
		r->ret = fi_close(&(slot)->fid);                                                   \
		if (r->ret == 0)                                                                   \
			(slot) = NULL;                                                             \
	} while (0)

static void close_object(struct world *w, const struct walk_call *c, struct world_result *r)
{
	switch (c->kind) {
	case WALK_MR_CLOSE:
		CLOSE(w->mr[c->mr]);
		break;
	case WALK_EP_CLOSE:
		CLOSE(w->ep[c->ep]);
		break;
	case WALK_CNTR_CLOSE:
		CLOSE(w->cntr[c->cntr]);
		break;
	case WALK_CQ_CLOSE:
		CLOSE(w->cq[c->cq]);
		break;
	case WALK_AV_CLOSE:
		CLOSE(w->av[c->domain]);
		break;
	default:
		r->ret = domain_close(w, c);
		if (r->ret == 0)
			w->domain[c->domain] = NULL;
		break;
	}
}

static void open_object(struct world *w, const struct walk_call *c, struct world_result *r)
{
	switch (c->kind) {
	case WALK_EP_OPEN:
		r->ret = ep_open(w, c);
		break;
	case WALK_CNTR_OPEN:
		r->ret = cntr_open(w, c);
		break;
	case WALK_CQ_OPEN:
		r->ret = cq_open(w, c);
		break;
	case WALK_AV_OPEN:
		r->ret = av_open(w, c);
		break;
	case WALK_AV_INSERT:
		r->ret = av_insert(w, c);
		break;
	case WALK_AV_REMOVE:
		r->ret = fi_av_remove(w->av[c->domain], &w->addr[c->domain][c->addr], 1, 0);
		break;
	default:
		r->ret = domain_open(w, c);
		break;
	}
}

static void region_call(struct world *w, const struct walk_call *c, struct world_result *r)
{
	uint64_t bogus = UINT64_C(0x1234567890abcdef);

	switch (c->kind) {
	case WALK_REG:
		reg(w, c, r);
		break;
	case WALK_MR_BIND:
		r->ret = bind_mr(w, c);
		break;
	case WALK_MR_ENABLE:
		r->ret = fi_mr_enable(w->mr[c->mr]);
		break;
	case WALK_MR_REFRESH:
		r->ret = refresh(w, c);
		break;
	case WALK_RAW_ATTR:
		raw_attr(w, c, r);
		break;
	case WALK_MAP:
		map(w, c, r);
		break;
	case WALK_UNMAP:
		r->ret = fi_mr_unmap_key(w->domain[c->domain],
					 c->odd == WALK_ODD_NONE ? w->map_key[c->map] : bogus);
		break;
	default:
		xpu_desc(w, c, r);
		break;
	}
}

/* ---- completions ---- */

static void read_cq(struct world *w, int cq, struct world_result *r)
{
	struct fi_cq_err_entry error = { 0 };
	ssize_t ret;

	while (r->comps < WALK_COMPS) {
		struct world_comp *comp = &r->comp[r->comps];

		ret = fi_cq_read(w->cq[cq], &comp->entry, 1);
		if (ret == -FI_EAGAIN)
			return;
		comp->cq = cq;
		comp->err = comp->cause = 0;
		r->comps++;
		if (ret == 1)
			continue;
		if (ret != -FI_EAVAIL || fi_cq_readerr(w->cq[cq], &error, 0) != 1)
			die("fi_cq_read", ret);
		comp->entry.op_context = error.op_context;
		comp->entry.flags = error.flags;
		comp->err = error.err;
		comp->cause = error.prov_errno;
	}
}

void world_call(struct world *w, const struct walk_call *c, struct world_result *r)
{
	r->ret = 0;
	r->wrong = NULL;
	r->comps = 0;
	switch (c->kind) {
	case WALK_RMA:
	case WALK_ATOMIC:
	case WALK_SEND:
	case WALK_RECV:
	case WALK_CANCEL:
		world_operate(w, c, r);
		break;
	case WALK_MR_CLOSE:
	case WALK_EP_CLOSE:
	case WALK_CNTR_CLOSE:
	case WALK_CQ_CLOSE:
	case WALK_AV_CLOSE:
	case WALK_DOMAIN_CLOSE:
		close_object(w, c, r);
		break;
	case WALK_EP_BIND:
		r->ret = ep_bind(w, c);
		break;
	case WALK_EP_ENABLE:
		r->ret = fi_enable(w->ep[c->ep]);
		break;
	case WALK_CNTR_SET:
		r->ret = cntr_set(w, c);
		break;
	default:
		if (c->kind >= WALK_REG && c->kind <= WALK_XPU_DESC)
			region_call(w, c, r);
		else
			open_object(w, c, r);
		break;
	}
	for (int i = 0; i < WALK_CQS; i++)
		if (w->cq[i])
			read_cq(w, i, r);
}
