/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Preloaded into programs under test, in the virtual machine alone (LD_PRELOAD): completes the
 * software RDMA provider of rdma-core, which does not register dma-bufs, with that operation.  The
 * kernel's half is rxe_dmabuf.c.  The program's ibv_reg_dmabuf_mr() and the library's request to the
 * kernel are those of rdma-core, unchanged.
 *
 * A provider hands the library a table of its operations with verbs_set_ops().  That call is taken
 * here, and once more given a table with one entry.  Where in the table the entry stands is private to
 * rdma-core, so it is not believed but tried: a call of ibv_reg_dmabuf_mr() has to arrive here, or the
 * program is stopped.
 *
 * Not linked with libibverbs: whether and when the program loads it stays the program's business.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#define RDMA_CORE    "44" /* the version whose private interface this is written for */
#define PRIVATE	     "IBVERBS_PRIVATE_34"
#define DMABUF_ENTRY 67	 /* of reg_dmabuf_mr in the table of operations */
#define TABLE_SIZE   256 /* more than the table has */

/* A region as the library's private calls see it; the room behind it is for what is not named. */
struct region {
	struct ibv_mr mr;
	int kind, access;
	uint64_t room[8];
};

typedef void (*set_ops_fn)(void *context, const void *const *ops);
typedef int (*request_fn)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, struct region *region);
typedef struct ibv_mr *(*reg_fn)(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access);

void verbs_set_ops(void *context, const void *const *ops);

static request_fn request;		   /* same value whoever sets it */
static _Thread_local struct ibv_pd *trial; /* a call with this domain is our own trial */
static _Thread_local bool arrived;

__attribute__((format(printf, 1, 2), noreturn)) static void stop(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("rxe_dmabuf: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

static void *find(void *library, const char *symbol, const char *version)
{
	void *address = version ? dlvsym(library, symbol, version) : dlsym(library, symbol);

	if (!address)
		stop("libibverbs has no %s%s%s; only that of rdma-core " RDMA_CORE " is known",
		     symbol, version ? "@" : "", version ? version : "");
	return address;
}

/* Its caller's own copy, which is loaded already. */
static void *loaded_verbs(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (!library)
		stop("verbs_set_ops() is called, but libibverbs.so.1 is not loaded");
	return library; /* this reference is never given back: operations point here */
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access)
{
	struct region *region;
	int err;

	if (trial && pd == trial) {
		arrived = true;
		errno = EOPNOTSUPP;
		return NULL;
	}
	region = calloc(1, sizeof(*region)); /* the provider's dereg_mr frees it */
	if (!region)
		return NULL;
	err = request(pd, offset, length, iova, fd, access, region);
	if (err) {
		free(region);
		errno = err;
		return NULL;
	}
	return &region->mr;
}

static void try_entry(void *verbs, struct ibv_context *context)
{
	reg_fn reg = (reg_fn)find(verbs, "ibv_reg_dmabuf_mr", NULL);
	struct ibv_pd pd = { .context = context };
	int saved = errno;

	trial = &pd;
	arrived = false;
	reg(&pd, 0, 1, 0, -1, 0);
	trial = NULL;
	errno = saved;
	if (!arrived)
		stop("entry %d of the table of operations is not reg_dmabuf_mr; only "
		     "rdma-core " RDMA_CORE " is known",
		     DMABUF_ENTRY);
}

void verbs_set_ops(void *context, const void *const *ops)
{
	static const void *dmabuf_ops[TABLE_SIZE] = { [DMABUF_ENTRY] =
							      (const void *)reg_dmabuf_mr };
	void *verbs = loaded_verbs();
	set_ops_fn set_ops = (set_ops_fn)find(verbs, "verbs_set_ops", PRIVATE);

	request = (request_fn)find(verbs, "ibv_cmd_reg_dmabuf_mr", PRIVATE);
	set_ops(context, ops);
	if (ops[DMABUF_ENTRY])
		return; /* a provider that can do it */
	set_ops(context, dmabuf_ops);
	try_entry(verbs, &((struct verbs_context *)context)->context);
}
