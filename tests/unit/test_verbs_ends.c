/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A driver that refuses to end an object although its device is there, once or for ever, verb by verb:
 * what programs are told, that closing again ends what was refused, and that a program is never blamed
 * for what it has closed.  Over the emulated device, through the interface that applications have.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "tests/drivers/emu_verbs.h"
#include "tests/fds.h"
#include "tests/unit/warnings.h"

#define ALL   (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PAGE  4096u
#define PARTS 3		  /* of the long region */
#define BULK  (16 * PAGE) /* too long to be copied */

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static uint8_t memory[2 * BULK] __attribute__((aligned(4096)));
static struct emu_verbs_counts before;
static size_t fds_before;
static char said[512]; /* the last warning */

static void keep_warning(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
			 int line, const char *text, void *arg)
{
	count_warning(level, subsys, func, line, text, arg);
	if (level == FI_LOG_WARN)
		snprintf(said, sizeof(said), "%s", text);
}

static void assert_said(const char *part)
{
	if (!strstr(said, part))
		fail_msg("\"%s\" is not in: %s", part, said);
}

/* ---- the scene ---- */

static int open_group(void **state)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	(void)state;
	setenv("HMREG_VERBS_MAX_MR_SIZE", "4K", 1);
	setenv("HMREG_VERBS_RX_BUFFERS", "8", 1);
	/* valgrind makes everybody slow */
	setenv("HMREG_VERBS_RETRY_TIME", getenv("HMREG_VALGRIND") ? "5000" : "500", 1);
	if (!hints)
		return -1;
	hints->caps = FI_MSG | FI_RMA;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->name = strdup("emu0");
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	ret = fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	if (ret == 0)
		ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	hm_log_set_sink(keep_warning, NULL);
	return ret ? -1 : 0;
}

static int close_group(void **state)
{
	int ret = fi_close(&fabric->fid);

	fi_freeinfo(info);
	return ret ? -1 : warnings_stop(state);
}

static int set_up(void **state)
{
	(void)state;
	emu_verbs_counts(&before);
	fds_before = test_fds();
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
	warning_count = 0;
	said[0] = '\0';
	return 0;
}

/* Every object of the device, every descriptor is gone. */
static void assert_nothing_left(void)
{
	struct emu_verbs_counts now;

	emu_verbs_counts(&now);
	now.relaxed_mrs = before.relaxed_mrs;
	assert_memory_equal(&now, &before, sizeof(now));
	assert_int_equal(test_fds(), fds_before);
}

static int tear_down(void **state)
{
	(void)state;
	emu_verbs_reset();
	return 0;
}

static void close_domain(int expected)
{
	assert_int_equal(fi_close(&domain->fid), expected);
	if (expected)
		assert_int_equal(domain->fid.fclass, FI_CLASS_DOMAIN);
}

/* An endpoint with what it needs: opened, enabled and closed. */
struct end {
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t self;
};

static void open_end(struct end *end)
{
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT };
	uint8_t name[64];
	size_t len = sizeof(name);

	assert_int_equal(fi_av_open(domain, &av, &end->av, NULL), 0);
	assert_int_equal(fi_cq_open(domain, &cq, &end->cq, NULL), 0);
	assert_int_equal(fi_endpoint(domain, info, &end->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(end->ep), 0);
	assert_int_equal(fi_getname(&end->ep->fid, name, &len), 0);
	assert_int_equal(fi_av_insert(end->av, name, 1, &end->self, 0, NULL), 1);
}

static void close_end(struct end *end)
{
	assert_int_equal(fi_close(&end->ep->fid), 0);
	assert_int_equal(fi_close(&end->cq->fid), 0);
	assert_int_equal(fi_close(&end->av->fid), 0);
}

/* ---- regions ---- */

static void fn_06_refused_region_is_closed_again(void **state)
{
	static const int errors[] = { EBUSY, EINVAL, EIO, ENODEV, EPERM, EAGAIN };

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct fid_mr *mr;
		uint64_t key;

		assert_int_equal(fi_mr_reg(domain, memory, 100, ALL, 0, 0, 0, &mr, NULL), 0);
		key = fi_mr_key(mr);
		assert_int_equal(emu_verbs_fail("ibv_dereg_mr", -1, errors[i]), 1);
		assert_refused(fi_close(&mr->fid), -errors[i]);
		assert_said("ibv_dereg_mr on emu0");
		assert_said("the driver refuses to end it");
		assert_int_equal(fi_mr_key(mr), key);
		assert_refused(fi_close(&domain->fid), -FI_EBUSY);
		assert_said("driver refused to end 1 of");
		emu_verbs_fail("ibv_dereg_mr", 0, 0);
		assert_int_equal(fi_close(&mr->fid), 0);
	}
	warning_count = 0;
	close_domain(0);
	assert_int_equal(warning_count, 0);
	assert_nothing_left();
}

/* One part that is refused leaves the region whole: those that had ended are there again. */
static void fn_06_refused_part_of_a_region(void **state)
{
	struct fid_mr *mr;
	long calls;

	(void)state;
	for (int nth = 1; nth <= PARTS; nth++) {
		struct emu_verbs_counts now;

		assert_int_equal(fi_mr_reg(domain, memory, PARTS * PAGE, ALL, 0, 0, 0, &mr, NULL),
				 0);
		emu_verbs_fail("ibv_dereg_mr", nth, EPERM);
		assert_refused(fi_close(&mr->fid), -FI_EPERM);
		emu_verbs_counts(&now);
		assert_int_equal(now.mrs, before.mrs + PARTS);
		calls = emu_verbs_calls("ibv_dereg_mr");
		assert_int_equal(fi_close(&mr->fid), 0);
		assert_int_equal(emu_verbs_calls("ibv_dereg_mr"), calls + PARTS);
	}
	close_domain(0);
	assert_nothing_left();
}

/* Only a program that was given verbs objects can have bound memory windows. */
static void fn_06_windows_are_named_where_there_may_be_some(void **state)
{
	struct hmreg_verbs_part part = { .size = sizeof(part) };
	struct hmreg_mr_ops *ops;
	struct fid_mr *mr;

	(void)state;
	assert_int_equal(fi_mr_reg(domain, memory, 100, ALL, 0, 0, 0, &mr, NULL), 0);
	emu_verbs_fail("ibv_dereg_mr", 1, EBUSY);
	assert_refused(fi_close(&mr->fid), -FI_EBUSY);
	assert_null(strstr(said, "window"));
	assert_int_equal(fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->verbs_part(&mr->fid, 0, &part), 0);
	emu_verbs_fail("ibv_dereg_mr", 1, EINVAL); /* as rxe has it */
	assert_refused(fi_close(&mr->fid), -FI_EBUSY);
	assert_said("memory windows of the program");
	assert_int_equal(fi_close(&mr->fid), 0);
	close_domain(0);
	assert_nothing_left();
}

/* ---- endpoints ---- */

/* Verbs that end what an endpoint stands on. */
static const char *const verbs_of_ends[] = { "ibv_dereg_mr", "ibv_destroy_srq", "ibv_destroy_cq",
					     "ibv_destroy_comp_channel", "rdma_destroy_id" };
#define VERBS (sizeof(verbs_of_ends) / sizeof(verbs_of_ends[0]))

/* The endpoint's close succeeds: its objects are the domain's to end, which asks again. */
static void fn_06_refused_object_of_an_endpoint_ends_with_the_domain(void **state)
{
	(void)state;
	close_domain(0);
	for (size_t i = 0; i < VERBS; i++) {
		struct emu_verbs_counts now;
		struct end end;
		char line[128];

		set_up(NULL);
		open_end(&end);
		emu_verbs_fail(verbs_of_ends[i], 1, EPERM);
		close_end(&end);
		assert_true(warning_count >= 1);
		assert_int_equal(emu_verbs_fail(verbs_of_ends[i], 0, 0), 1);
		emu_verbs_counts(&now);
		assert_true(memcmp(&now, &before, sizeof(now)) != 0);
		warning_count = 0;
		close_domain(0);
		assert_int_equal(warning_count, 0);
		assert_nothing_left();
		snprintf(line, sizeof(line), "emu0: %s: errno ", verbs_of_ends[i]);
		if (strcmp(verbs_of_ends[i], "ibv_destroy_cq") != 0) /* the channel follows it */
			assert_said(line);
	}
}

static bool leaks_are_told(void)
{
#ifdef __SANITIZE_ADDRESS__
	return true;
#else
	return getenv("HMREG_VALGRIND") != NULL;
#endif
}

/* What it refuses for ever ends with the context that the library has opened. */
static void fn_06_domain_closes_over_what_is_refused_for_ever(void **state)
{
	(void)state;
	if (leaks_are_told()) { /* what is refused for ever is lost */
		close_domain(0);
		skip();
	}
	close_domain(0);
	for (size_t i = 0; i < VERBS; i++) {
		struct emu_verbs_counts now;
		struct end end;
		char line[128];

		set_up(NULL);
		open_end(&end);
		emu_verbs_fail(verbs_of_ends[i], -1, EPERM);
		close_end(&end);
		warning_count = 0;
		close_domain(0);
		assert_int_equal(warning_count, 1);
		snprintf(line, sizeof(line), "emu0: %s: errno 1 (", verbs_of_ends[i]);
		assert_said(line);
		assert_said("the driver refuses");
		assert_null(strstr(said, "program"));
		emu_verbs_counts(&now);
		assert_int_equal(now.contexts, before.contexts);
		assert_int_equal(now.event_channels, before.event_channels);
		/* what the emulated driver itself has open: a channel's other end, an identifier's events */
		assert_int_equal(test_fds(), fds_before + now.comp_channels - before.comp_channels +
						     2 * (now.cm_ids - before.cm_ids));
		emu_verbs_reset();
	}
}

/* A buffer without a descriptor, registered for its operation or kept; the program knows no such region. */
static void refuse_local_buffer(uint64_t flags)
{
	struct iovec iov = { memory, BULK };
	struct fi_rma_iov to = { .addr = (uintptr_t)memory + BULK, .len = BULK };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .rma_iov = &to, .rma_iov_count = 1
	};
	struct fi_cq_entry entry;
	struct fid_mr *mr;
	struct end end;
	ssize_t ret;

	open_end(&end);
	assert_int_equal(fi_mr_reg(domain, memory + BULK, BULK, ALL, 0, 0, 0, &mr, NULL), 0);
	if (flags)
		emu_verbs_fail("ibv_dereg_mr", 1, EPERM);
	memset(memory, 0x5a, BULK);
	msg.addr = end.self;
	to.key = fi_mr_key(mr);
	do {
		ret = fi_writemsg(end.ep, &msg, flags);
	} while (ret == -FI_EAGAIN && fi_cq_read(end.cq, &entry, 1) == -FI_EAGAIN);
	assert_int_equal(ret, 0);
	while ((ret = fi_cq_read(end.cq, &entry, 1)) == -FI_EAGAIN)
		;
	assert_int_equal(ret, 1);
	assert_memory_equal(memory, memory + BULK, BULK);
	assert_int_equal(fi_close(&mr->fid), 0);
	close_end(&end);
	assert_int_equal(warning_count, flags ? 1 : 0);
	if (!flags)
		emu_verbs_fail("ibv_dereg_mr", 1, EPERM);
	close_domain(0);
	assert_int_equal(warning_count, 1);
	assert_said("emu0: ibv_dereg_mr: errno 1 (");
	assert_nothing_left();
}

static void fn_06_refused_region_of_a_local_buffer(void **state)
{
	(void)state;
	refuse_local_buffer(HMREG_NO_CACHE);
}

static void fn_06_refused_region_that_was_kept(void **state)
{
	(void)state;
	refuse_local_buffer(0);
}

/* ---- domains ---- */

static void fn_06_refused_context_is_closed_again(void **state)
{
	(void)state;
	emu_verbs_fail("ibv_close_device", 1, EBUSY);
	assert_refused(fi_close(&domain->fid), -FI_EBUSY);
	assert_said("emu0: ibv_close_device: errno 16 (");
	assert_said("close it again");
	close_domain(0);
	assert_nothing_left();
}

static void fn_06_refused_protection_domain_that_the_program_has(void **state)
{
	struct hmreg_verbs_domain handles = { .size = sizeof(handles) };
	struct hmreg_domain_ops *ops;

	(void)state;
	assert_int_equal(fi_open_ops(&domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->verbs(&domain->fid, &handles), 0);
	emu_verbs_fail("ibv_dealloc_pd", 1, EBUSY);
	assert_refused(fi_close(&domain->fid), -FI_EBUSY);
	assert_said("emu0: ibv_dealloc_pd: errno 16 (");
	close_domain(0);
	assert_nothing_left();
}

/* Over the program's own context an object that is refused keeps the domain, and closing goes on. */
static void fn_06_refused_object_over_an_adopted_context(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);
	struct hmreg_verbs_adopt adopt = { .size = sizeof(adopt), .context = context };
	struct hmreg_fabric_ops *ops;
	struct end end;

	(void)state;
	close_domain(0);
	assert_int_equal(fi_open_ops(&fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->domain_over(fabric, info, &adopt, &domain, NULL), 0);
	open_end(&end);
	emu_verbs_fail("ibv_destroy_srq", -1, EPERM);
	close_end(&end);
	for (int i = 0; i < 2; i++) {
		assert_refused(fi_close(&domain->fid), -FI_EPERM);
		assert_said("emu0: ibv_destroy_srq: errno 1 (");
		assert_said("the domain stays, close it again");
		assert_null(strstr(said, "program"));
	}
	emu_verbs_fail("ibv_destroy_srq", 0, 0);
	close_domain(0);
	assert_int_equal(ibv_close_device(context), 0);
	ibv_free_device_list(list);
	assert_nothing_left();
}

/* A device that is gone answers EIO to all: nothing is kept, nothing refused. */
static void fn_38_removed_device_refuses_nothing(void **state)
{
	struct fid_mr *mr;
	struct end end;

	(void)state;
	open_end(&end);
	assert_int_equal(fi_mr_reg(domain, memory, 100, ALL, 0, 0, 0, &mr, NULL), 0);
	assert_int_equal(emu_verbs_remove_device("emu0"), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	close_end(&end);
	close_domain(0);
	assert_int_equal(warning_count, 1);
	assert_said("emu0 is gone");
	assert_nothing_left();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fn_06_refused_region_is_closed_again),
		TEST(fn_06_refused_part_of_a_region),
		TEST(fn_06_windows_are_named_where_there_may_be_some),
		TEST(fn_06_refused_object_of_an_endpoint_ends_with_the_domain),
		TEST(fn_06_refused_region_of_a_local_buffer),
		TEST(fn_06_refused_region_that_was_kept),
		TEST(fn_06_refused_context_is_closed_again),
		TEST(fn_06_refused_protection_domain_that_the_program_has),
		TEST(fn_06_refused_object_over_an_adopted_context),
		TEST(fn_38_removed_device_refuses_nothing),
		/* last: the emulated driver has no kernel below it to end what it keeps */
		TEST(fn_06_domain_closes_over_what_is_refused_for_ever),
	};

	return cmocka_run_group_tests(tests, open_group, close_group);
}
