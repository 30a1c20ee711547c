/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A verbs library of a few functions that hand out regions and remember what they were asked, and a
 * domain over it: what regions of the verbs NIC are tested with.  Include after <cmocka.h>.
 */
#ifndef HM_TEST_VERBS_STUB_H
#define HM_TEST_VERBS_STUB_H

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/nic/verbs.h"

/* ---- the log ---- */

static char stub_log[4096]; /* the last warning */
static unsigned int stub_warnings;

static void stub_sink(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		      int line, const char *text, void *arg)
{
	(void)subsys;
	(void)func;
	(void)line;
	(void)arg;
	if (level != FI_LOG_WARN)
		return;
	stub_warnings++;
	snprintf(stub_log, sizeof(stub_log), "%s", text);
}

/* The expression has this value and logs one warning, which has this text in it. */
#define assert_told(expression, code, part)                                                        \
	do {                                                                                       \
		stub_warnings = 0;                                                                 \
		assert_int_equal((expression), (code));                                            \
		assert_int_equal(stub_warnings, 1);                                                \
		if (!strstr(stub_log, part))                                                       \
			fail_msg("\"%s\" is not in: %s", part, stub_log);                          \
	} while (0)

/* ---- the library ---- */

/* One region that was asked for. */
struct stub_mr {
	struct ibv_mr ibv;
	uint64_t addr, len, iova, offset;
	unsigned int access;
	int fd; /* -1: host memory */
};

#define STUB_MOST 64
static struct stub_mr *stub_asked[STUB_MOST]; /* in order, as long as they live; owned */
static size_t stub_calls;		      /* of registration, since stub_reset */
static unsigned int stub_live;
static uint32_t stub_next_key;
static size_t stub_fail_at; /* this call of registration fails, counted from 1; 0: none */
static int stub_fail_with;
static int stub_dereg_error;	  /* every deregistration fails with it; 0: none */
static size_t stub_dereg_fail_at; /* or this call only */
static size_t stub_deregs;
static int stub_advise_error, stub_rereg_result, stub_rereg_errno;
static bool stub_rereg_changes_keys;
static unsigned int stub_advised, stub_rereged;
static enum ibv_advise_mr_advice stub_advice;
static uint64_t stub_advised_bytes;

static struct ibv_mr *stub_new(struct stub_mr asked)
{
	struct stub_mr *mr;

	if (++stub_calls == stub_fail_at) {
		errno = stub_fail_with;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	assert_non_null(mr);
	*mr = asked;
	mr->ibv.lkey = stub_next_key++;
	mr->ibv.rkey = stub_next_key++;
	/* addr stays NULL for dma-bufs, as some drivers have it (FN-13) */
	mr->ibv.addr = asked.fd < 0 ? (void *)(uintptr_t)asked.addr : NULL;
	mr->ibv.length = asked.len;
	stub_live++;
	if (stub_calls <= STUB_MOST)
		stub_asked[stub_calls - 1] = mr;
	return &mr->ibv;
}

static struct ibv_mr *stub_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
					unsigned int access)
{
	(void)pd;
	return stub_new((struct stub_mr){
		.addr = (uintptr_t)addr, .len = len, .iova = iova, .access = access, .fd = -1 });
}

static struct ibv_mr *stub_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
					 uint64_t iova, int fd, int access)
{
	(void)pd;
	return stub_new((struct stub_mr){ .offset = offset,
					  .len = len,
					  .iova = iova,
					  .access = (unsigned int)access,
					  .fd = fd });
}

static int stub_dereg_mr(struct ibv_mr *mr)
{
	stub_deregs++;
	if (stub_dereg_error)
		return stub_dereg_error;
	if (stub_deregs == stub_dereg_fail_at)
		return EBUSY;
	for (size_t i = 0; i < STUB_MOST; i++) {
		if (stub_asked[i] && &stub_asked[i]->ibv == mr)
			stub_asked[i] = NULL;
	}
	stub_live--;
	free(mr);
	return 0;
}

static int stub_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len,
			 int access)
{
	(void)access;
	assert_int_equal(flags, IBV_REREG_MR_CHANGE_TRANSLATION);
	assert_null(pd);
	assert_ptr_equal(addr, mr->addr);
	assert_int_equal(len, mr->length);
	stub_rereged++;
	if (stub_rereg_changes_keys)
		mr->rkey += 1000;
	errno = stub_rereg_errno;
	return stub_rereg_result;
}

static int stub_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			  struct ibv_sge *sge, uint32_t count)
{
	(void)pd;
	assert_int_equal(flags, IBV_ADVISE_MR_FLAG_FLUSH);
	stub_advice = advice;
	stub_advised++;
	for (uint32_t i = 0; i < count; i++)
		stub_advised_bytes += sge[i].length;
	return stub_advise_error;
}

static int stub_query_error; /* of a port; 0: the device is there */

static int stub_query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr,
			   size_t size)
{
	(void)context;
	(void)number;
	(void)attr;
	(void)size;
	return stub_query_error;
}

/* ---- the domain ---- */

static struct verbs_context stub_context;
static struct ibv_pd stub_pd;
static struct verbs_device stub_device;
static const struct verbs_port stub_port = { .device = &stub_device, .number = 1 };
static struct verbs_domain stub_domain;

/* A region's element, as core makes it. */
struct stub_region {
	struct nic_region region;
	struct verbs_region mine;
};
static_assert(offsetof(struct stub_region, mine) == sizeof(struct nic_region), "directly behind");

static void stub_reset(void)
{
	stub_context = (struct verbs_context){ .sz = sizeof(stub_context),
					       .advise_mr = stub_advise_mr,
					       .query_port = stub_query_port };
	stub_context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	stub_pd = (struct ibv_pd){ .context = &stub_context.context };
	stub_device = (struct verbs_device){ .name = "stub0",
					     .attr = { .max_mr = 1000, .max_mr_size = UINT64_MAX },
					     .dmabuf_reason = "",
					     .max_mr_size = UINT64_MAX };
	stub_domain = (struct verbs_domain){ .port = &stub_port,
					     .device = &stub_device,
					     .context = &stub_context.context,
					     .pd = &stub_pd };
	pthread_mutex_init(&stub_domain.composites_lock, NULL);
	hm_list_init(&stub_domain.composites);
	hm_list_init(&stub_domain.dmabufs);
	hm_list_init(&stub_domain.kept);
	verbs = (struct verbs_lib){ .reg_mr_iova2 = stub_reg_mr_iova2,
				    .reg_dmabuf_mr = stub_reg_dmabuf_mr,
				    .dereg_mr = stub_dereg_mr,
				    .rereg_mr = stub_rereg_mr };
	memset(stub_asked, 0, sizeof(stub_asked));
	stub_calls = stub_fail_at = stub_deregs = stub_dereg_fail_at = 0;
	stub_live = stub_advised = stub_rereged = 0;
	stub_fail_with = stub_dereg_error = stub_advise_error = stub_query_error = 0;
	stub_rereg_result = stub_rereg_errno = 0;
	stub_rereg_changes_keys = false;
	stub_advised_bytes = 0;
	stub_next_key = 0x100;
	stub_warnings = 0;
	hm_log_set_sink(stub_sink, NULL);
}

static int stub_setup(void **state)
{
	(void)state;
	stub_reset();
	return 0;
}

static int stub_teardown(void **state)
{
	(void)state;
	hm_log_set_sink(NULL, NULL);
	assert_int_equal(stub_live, 0);
	assert_int_equal(atomic_load(&stub_domain.parts), 0);
	assert_true(hm_list_empty(&stub_domain.composites));
	assert_true(hm_list_empty(&stub_domain.dmabufs));
	pthread_mutex_destroy(&stub_domain.composites_lock);
	return 0;
}

#endif
