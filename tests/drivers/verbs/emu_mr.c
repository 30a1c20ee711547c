/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains and memory regions. */
#include "tests/drivers/verbs/emu.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define KNOWN_ACCESS                                                                               \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |                   \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

static struct emu_pd *to_pd(struct ibv_pd *pd)
{
	return hm_container(pd, struct emu_pd, ibv);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct emu_context *ctx = emu_ctx(context);
	int error = emu_call(CALL_ibv_alloc_pd);
	struct emu_pd *pd = error ? NULL : calloc(1, sizeof(*pd));

	emu_enter();
	if (pd && (emu_gone(context) || ctx->used.pd >= ctx->config.max_pd)) {
		error = emu_gone(context) ? EIO : ENOMEM;
		free(pd);
		pd = NULL;
	}
	if (pd) {
		pd->ibv.context = context;
		pd->ibv.handle = (uint32_t)ctx->used.pd++;
		emu_count(context, pds, 1);
	}
	emu_leave();
	errno = error ? error : ENOMEM;
	return pd ? &pd->ibv : NULL;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct emu_pd *pd = to_pd(ibv);
	int error = emu_call(CALL_ibv_dealloc_pd);

	if (error)
		return error;
	emu_enter();
	if (pd->children) {
		error = EBUSY;
	} else {
		emu_ctx(ibv->context)->used.pd--;
		emu_count(ibv->context, pds, -1);
		if (emu_gone(ibv->context))
			error = emu_bury(ibv->context, pd);
		else
			free(pd);
	}
	emu_leave();
	return error;
}

/* ---- registration ---- */
static uint64_t page_span(uint64_t addr, uint64_t length)
{
	uint64_t first = addr & ~(uint64_t)(EMU_PAGE - 1);

	return (addr + length - first + EMU_PAGE - 1) & ~(uint64_t)(EMU_PAGE - 1);
}

static bool is_implicit(const void *addr, size_t length, unsigned int access)
{
	return (access & IBV_ACCESS_ON_DEMAND) && !addr && length == SIZE_MAX;
}

static int check_access(const struct emu_config *config, unsigned int access)
{
	if (access & ~(unsigned int)KNOWN_ACCESS)
		return EINVAL;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if ((access &
	     (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !config->remote)
		return EOPNOTSUPP;
	if ((access & IBV_ACCESS_ON_DEMAND) && !config->odp)
		return EINVAL;
	if ((access & IBV_ACCESS_ZERO_BASED) && !config->zero_based)
		return EINVAL;
	if ((access & IBV_ACCESS_MW_BIND) && !config->mw)
		return EINVAL;
	return 0;
}

/* Bounds that hold for regions of every kind. */
static int check_range(const struct emu_context *ctx, uint64_t start, uint64_t length,
		       uint64_t iova)
{
	const struct emu_config *config = &ctx->config;

	if (!length || length > config->max_mr_size || length - 1 > UINT64_MAX - start ||
	    length - 1 > UINT64_MAX - iova)
		return EINVAL;
	if ((start ^ iova) & (EMU_PAGE - 1))
		return EINVAL;
	return 0;
}

static int check_memory(const void *addr, size_t length, uint64_t iova, unsigned int access,
			const struct emu_context *ctx)
{
	int error;

	if (is_implicit(addr, length, access))
		return ctx->config.odp > 1 && !iova ? 0 : EINVAL;
	error = check_range(ctx, (uintptr_t)addr, length, iova);
	if (error)
		return error;
	if (iova != (uintptr_t)addr && !ctx->config.zero_based)
		return EINVAL;
	if (access & IBV_ACCESS_ON_DEMAND)
		return 0;
	/* who may bind windows may let others write */
	return emu_memory_mapped(addr, length,
				 access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND))
		       ? 0
		       : EFAULT;
}

static int check_memlock(const struct emu_config *config, uint64_t more)
{
	uint64_t limit = config->memlock;
	struct rlimit memlock;

	if (limit == EMU_RLIMIT) {
		getrlimit(RLIMIT_MEMLOCK, &memlock);
		limit = memlock.rlim_cur;
	}
	return more > limit || emu.counts.pinned > limit - more ? ENOMEM : 0;
}

static void count_mr(const struct emu_mr *mr, int change)
{
	struct ibv_context *context = mr->ibv.context;

	emu_ctx(context)->used.mr += (uint64_t)(int64_t)change;
	to_pd(mr->ibv.pd)->children += (unsigned int)change;
	emu_count(context, mrs, change);
	if (mr->map)
		emu_count(context, dmabufs, change);
	if (mr->access & IBV_ACCESS_ON_DEMAND)
		emu_count(context, odp_mrs, change);
	if (mr->access & IBV_ACCESS_RELAXED_ORDERING)
		emu_count(context, relaxed_mrs, change);
	emu.counts.pinned += change > 0 ? mr->pinned : -mr->pinned;
}

/* Gives MR its key and its place in the counts; 0 or an errno. */
static int mr_add(struct emu_mr *mr)
{
	struct emu_context *ctx = emu_ctx(mr->ibv.context);
	int error;

	if (ctx->device->removed)
		return EIO;
	if (ctx->used.mr >= ctx->config.max_mr)
		return ENOMEM;
	error = check_memlock(&ctx->config, mr->pinned);
	if (error)
		return error;
	mr->ibv.lkey = emu_key_add(EMU_KEY_MR, mr);
	if (!mr->ibv.lkey)
		return ENOMEM;
	mr->ibv.rkey = mr->ibv.lkey;
	mr->ibv.handle = mr->ibv.lkey >> 8;
	count_mr(mr, 1);
	return 0;
}

/* Null mode: nothing but a key. */
static struct ibv_mr *null_mr(struct ibv_pd *pd, void *addr, size_t length)
{
	static atomic_uint next = 1;
	struct emu_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->null = true;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	mr->ibv.lkey = atomic_fetch_add_explicit(&next, 257, memory_order_relaxed) | 0x80000000u;
	mr->ibv.rkey = mr->ibv.lkey;
	return &mr->ibv;
}

static struct emu_mr *mr_new(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     unsigned int access)
{
	struct emu_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	mr->iova = iova;
	mr->access = access;
	mr->host = addr;
	return mr;
}

static struct ibv_mr *mr_register(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				  unsigned int access)
{
	const struct emu_context *ctx = emu_ctx(pd->context);
	struct emu_mr *mr;
	int error;

	if (access & IBV_ACCESS_ZERO_BASED)
		iova = (uintptr_t)addr & (EMU_PAGE - 1);
	error = check_access(&ctx->config, access);
	if (!error)
		error = check_memory(addr, length, iova, access, ctx);
	mr = error ? NULL : mr_new(pd, addr, length, iova, access);
	if (mr) {
		mr->pinned = access & IBV_ACCESS_ON_DEMAND ? 0 : page_span((uintptr_t)addr, length);
		emu_enter();
		error = mr_add(mr);
		emu_leave();
		if (!error)
			return &mr->ibv;
		free(mr);
	}
	errno = error ? error : ENOMEM;
	return NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	int error = emu_call(CALL_ibv_reg_mr);

	if (error) {
		errno = error;
		return NULL;
	}
	if (emu_ctx(pd->context)->config.null)
		return null_mr(pd, addr, length);
	return mr_register(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	int error = emu_call(CALL_ibv_reg_mr_iova);

	if (error) {
		errno = error;
		return NULL;
	}
	if (emu_ctx(pd->context)->config.null)
		return null_mr(pd, addr, length);
	return mr_register(pd, addr, length, iova, (unsigned int)access);
}

/* Optional rights that the device does not know are left out. */
static unsigned int known_optional(struct ibv_pd *pd, unsigned int access)
{
	unsigned int known = emu_ctx(pd->context)->config.relaxed ? IBV_ACCESS_RELAXED_ORDERING : 0;

	return access & (~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE | known);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	int error = emu_call(CALL_ibv_reg_mr_iova2);

	if (error) {
		errno = error;
		return NULL;
	}
	if (emu_ctx(pd->context)->config.null)
		return null_mr(pd, addr, length);
	return mr_register(pd, addr, length, iova, known_optional(pd, access));
}

/* ---- DMA-bufs ---- */
/* Maps the pages of a DMA-buf that hold the range; the descriptor may be closed then.  0 or an errno. */
static int map_dmabuf(struct emu_mr *mr, int fd, uint64_t offset)
{
	uint64_t start = offset & ~(uint64_t)(EMU_PAGE - 1);
	bool write = mr->access & IBV_ACCESS_LOCAL_WRITE;
	off_t size = lseek(fd, 0, SEEK_END);

	if (size < 0)
		return errno == EBADF ? EBADF : EINVAL;
	if (offset > (uint64_t)size || mr->ibv.length > (uint64_t)size - offset)
		return EINVAL;
	mr->map_size = page_span(offset, mr->ibv.length);
	mr->map = mmap(NULL, mr->map_size, write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED,
		       fd, (off_t)start);
	if (mr->map == MAP_FAILED) {
		mr->map = NULL;
		return errno == EACCES ? EINVAL : errno;
	}
	mr->host = (uint8_t *)mr->map + (offset - start);
	return 0;
}

static void mr_free(struct emu_mr *mr)
{
	if (mr->map)
		munmap(mr->map, mr->map_size);
	free(mr);
}

static int check_dmabuf(const struct emu_context *ctx, uint64_t offset, size_t length,
			uint64_t iova, unsigned int access)
{
	if (!ctx->config.dmabuf)
		return EOPNOTSUPP;
	if (access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED))
		return EINVAL;
	if ((access & IBV_ACCESS_MW_BIND) && !ctx->config.mw_dmabuf)
		return EINVAL;
	if (iova && !ctx->config.zero_based)
		return EINVAL;
	return check_range(ctx, offset, length, iova);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	const struct emu_context *ctx = emu_ctx(pd->context);
	unsigned int rights = known_optional(pd, (unsigned int)access);
	int error = emu_call(CALL_ibv_reg_dmabuf_mr);
	struct emu_mr *mr = NULL;

	if (!error && ctx->config.null)
		return null_mr(pd, NULL, length);
	if (!error)
		error = check_access(&ctx->config, rights);
	if (!error)
		error = check_dmabuf(ctx, offset, length, iova, rights);
	if (!error) {
		mr = mr_new(pd, (void *)(uintptr_t)offset, length, iova, rights);
		error = mr ? map_dmabuf(mr, fd, offset) : ENOMEM;
	}
	if (!error) {
		emu_enter();
		error = mr_add(mr);
		emu_leave();
	}
	if (!error)
		return &mr->ibv;
	if (mr)
		mr_free(mr);
	errno = error;
	return NULL;
}

/* ---- deregistration and change ---- */
int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct emu_mr *mr = hm_container(ibv, struct emu_mr, ibv);
	int error = emu_call(CALL_ibv_dereg_mr);

	if (error)
		return error;
	if (mr->null) {
		free(mr);
		return 0;
	}
	emu_enter();
	if (mr->windows) {
		emu_leave();
		return EBUSY;
	}
	emu_key_del(ibv->lkey);
	count_mr(mr, -1);
	if (emu_gone(ibv->context)) {
		error = emu_bury(ibv->context, mr);
		if (mr->map)
			munmap(mr->map, mr->map_size);
		mr = NULL;
	}
	emu_leave();
	if (mr)
		mr_free(mr);
	return error;
}

/* Puts what WANTED says into MR.  0 or an errno; nothing changes then. */
static int mr_change(struct emu_mr *mr, const struct emu_mr *wanted, bool new_key)
{
	const struct emu_context *ctx = emu_ctx(mr->ibv.context);
	uint64_t more = wanted->pinned > mr->pinned ? wanted->pinned - mr->pinned : 0;
	uint32_t key = mr->ibv.lkey;
	int error = emu_gone(mr->ibv.context) ? EIO : check_memlock(&ctx->config, more);

	if (!error && mr->windows)
		error = EBUSY;
	if (!error && new_key) {
		key = emu_key_add(EMU_KEY_MR, mr);
		error = key ? 0 : ENOMEM;
	}
	if (error)
		return error;
	if (key != mr->ibv.lkey)
		emu_key_del(mr->ibv.lkey);
	count_mr(mr, -1);
	*mr = *wanted;
	mr->ibv.lkey = key;
	mr->ibv.rkey = key;
	count_mr(mr, 1);
	return 0;
}

int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	struct emu_mr *mr = hm_container(ibv, struct emu_mr, ibv);
	const struct emu_context *ctx = emu_ctx(ibv->context);
	bool translation = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	int error = emu_call(CALL_ibv_rereg_mr);
	struct emu_mr wanted = *mr;

	if (!error &&
	    (!flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) || (translation && !length))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (!error && !ctx->config.rereg)
		error = EOPNOTSUPP;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		wanted.access = (unsigned int)access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		wanted.ibv.pd = pd;
	if (translation) {
		wanted.ibv.addr = addr;
		wanted.ibv.length = length;
		wanted.host = addr;
		wanted.iova = (uintptr_t)addr;
		wanted.pinned = page_span((uintptr_t)addr, length);
	}
	if (!error && mr->map)
		error = EOPNOTSUPP;
	if (!error)
		error = check_access(&ctx->config, wanted.access);
	if (!error)
		error = check_memory(wanted.host, wanted.ibv.length, wanted.iova, wanted.access,
				     ctx);
	if (wanted.access & IBV_ACCESS_ON_DEMAND)
		wanted.pinned = 0;
	if (!error) {
		emu_enter();
		error = mr_change(mr, &wanted, translation && ctx->config.rereg > 1);
		emu_leave();
	}
	errno = error;
	return error ? IBV_REREG_MR_ERR_CMD : 0;
}
