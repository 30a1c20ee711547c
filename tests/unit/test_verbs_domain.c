/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Domains over a device: what they are made of, what a program may bring along, and what happens to
 * them when the device goes.  One process, over one device that can be told to fail.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/nic/verbs_ep.h"
#include "tests/unit/fake_verbs.h"
#include "tests/unit/warnings.h"

static struct fake_device *const dev = fake.device;
static char warning_text[256];

static void keep_warning(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
			 int line, const char *text, void *arg)
{
	count_warning(level, subsys, func, line, text, arg);
	if (level == FI_LOG_WARN)
		snprintf(warning_text, sizeof(warning_text), "%s", text);
}

static const struct nic_port *port;
static struct verbs_domain domain;
static struct hmreg_verbs_adopt adopted;

static int set_up(void **state)
{
	size_t count;

	(void)state;
	setenv("HMREG_VERBS_ENABLE", "1", 1);
	unsetenv("HMREG_VERBS_DEVICES");
	fake_init();
	fake_device_init(1, "fake1"); /* not listed; programs have a context of it */
	hm_log_set_sink(keep_warning, NULL);
	return verbs_ports(&port, &count) || count != 2 ? -1 : 0;
}

static int prepare(void **state)
{
	(void)state;
	memset(&domain, 0, sizeof(domain));
	memset(&adopted, 0, sizeof(adopted));
	domain.domain.ops = &verbs_nic_ops;
	domain.domain.port = port;
	domain.domain.mr_mode = FI_MR_PROV_KEY | FI_MR_ALLOCATED;
	dev->open_error = dev->pd_error = dev->dealloc_error = 0;
	fake.event_count = fake.event_error = fake.acks = 0;
	warning_count = 0;
	warning_text[0] = '\0';
	return 0;
}

/* Nothing is left, and nothing more was said than the test looked at. */
static int check_empty(void **state)
{
	(void)state;
	return dev->contexts || dev->pds || dev->mrs ? -1 : 0;
}

static void mode_02_domain_has_its_own_objects(void **state)
{
	struct hmreg_verbs_domain handles = { .size = sizeof(handles) };

	(void)state;
	assert_int_equal(verbs_domain_open(&domain.domain), 0);
	assert_int_equal(dev->contexts, 1);
	assert_int_equal(dev->pds, 1);
	assert_true(domain.owns_context && domain.owns_pd);
	assert_true(domain.zero_based && !domain.on_demand && !domain.gone);
	assert_true(fcntl(domain.context->async_fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(verbs_domain_handles(&domain.domain, &handles), 0);
	assert_ptr_equal(handles.context, domain.context);
	assert_ptr_equal(handles.pd, domain.pd);
	assert_ptr_equal(handles.pd->context, handles.context);
	assert_int_equal(verbs_domain_close(&domain.domain), 0);
	prepare(NULL);
	domain.domain.mr_mode = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	assert_int_equal(verbs_domain_open(&domain.domain), 0);
	assert_true(!domain.zero_based && domain.on_demand);
	assert_int_equal(verbs_domain_close(&domain.domain), 0);
	assert_int_equal(warning_count, 0);
}

static void api_20_open_says_why_not(void **state)
{
	static const struct {
		int open_error, pd_error, ret;
		const char *text;
	} cases[] = {
		{ EACCES, 0, -FI_EACCES, "/dev/infiniband/uverbs0 cannot be opened: Permission" },
		{ EPERM, 0, -FI_EACCES, "this user may not use it" },
		{ ENOENT, 0, -FI_ENODEV, "may have been removed" },
		{ ENODEV, 0, -FI_ENODEV, "may have been removed" },
		{ EMFILE, 0, -FI_EMFILE, "ulimit -n" },
		{ 0, ENOMEM, -FI_ENOMEM, "fake0 gives no protection domain" },
		{ 0, EIO, -FI_EIO, "fake0 gives no protection domain" },
	};

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		prepare(NULL);
		dev->open_error = cases[i].open_error;
		dev->pd_error = cases[i].pd_error;
		assert_refused(verbs_domain_open(&domain.domain), cases[i].ret);
		assert_non_null(strstr(warning_text, cases[i].text));
		assert_int_equal(check_empty(NULL), 0);
	}
}

/* ---- adoption ---- */

static void adopted_objects_stay_the_programs(void **state)
{
	struct ibv_context *context = fake_open_device(&dev->ibv);
	struct ibv_pd *pd = fake_alloc_pd(context);
	int flags = fcntl(context->async_fd, F_GETFL);

	(void)state;
	for (int with = 1; with < 4; with++) {
		prepare(NULL);
		adopted.size = sizeof(adopted);
		adopted.context = with & 1 ? context : NULL;
		adopted.pd = with & 2 ? pd : NULL;
		domain.domain.adopt = &adopted;
		assert_int_equal(verbs_domain_open(&domain.domain), 0);
		assert_ptr_equal(domain.context, context);
		assert_int_equal(domain.pd == pd, (with & 2) != 0);
		assert_int_equal(dev->contexts, 1);
		assert_int_equal(dev->pds, with & 2 ? 1 : 2);
		/* its events are not ours to read */
		fake.event_count = 1;
		verbs_domain_async(&domain);
		assert_int_equal(fake.event_count, 1);
		assert_int_equal(fcntl(context->async_fd, F_GETFL), flags);
		assert_int_equal(verbs_domain_close(&domain.domain), 0);
		assert_int_equal(dev->contexts, 1);
		assert_int_equal(dev->pds, 1);
	}
	fake_dealloc_pd(pd);
	fake_close_device(context);
	assert_int_equal(warning_count, 0);
}

static void adopted_objects_must_fit(void **state)
{
	struct ibv_context *context = fake_open_device(&dev->ibv);
	struct ibv_context *second = fake_open_device(&dev->ibv);
	struct ibv_context *other = fake_open_device(&dev[1].ibv);
	struct ibv_pd *pd = fake_alloc_pd(second), *foreign = fake_alloc_pd(other);
	const struct {
		struct ibv_context *context;
		struct ibv_pd *pd;
		const char *text;
	} cases[] = {
		{ NULL, NULL, "neither a device context nor" },
		{ context, pd, "belongs to another device context" },
		{ other, NULL, "is of fake1, the info of fake0" },
		{ NULL, foreign, "is of fake1, the info of fake0" },
		{ other, foreign, "is of fake1, the info of fake0" },
	};

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		prepare(NULL);
		adopted.context = cases[i].context;
		adopted.pd = cases[i].pd;
		domain.domain.adopt = &adopted;
		assert_refused(verbs_domain_open(&domain.domain), -FI_EINVAL);
		assert_non_null(strstr(warning_text, cases[i].text));
		assert_int_equal(dev->contexts, 2);
		assert_int_equal(dev->pds, 1);
	}
	/* a context without a protection domain, which it then does not give */
	prepare(NULL);
	adopted.context = context;
	domain.domain.adopt = &adopted;
	dev->pd_error = ENOMEM;
	assert_refused(verbs_domain_open(&domain.domain), -FI_ENOMEM);
	assert_int_equal(dev->contexts, 2);
	fake_dealloc_pd(foreign);
	fake_dealloc_pd(pd);
	fake_close_device(other);
	fake_close_device(second);
	fake_close_device(context);
}

/* ---- the end ---- */

/* What the program has in the protection domain keeps it; so it is closed again later. */
static void fn_06_program_holds_the_protection_domain(void **state)
{
	struct hmreg_verbs_domain handles = { .size = sizeof(handles) };

	(void)state;
	assert_int_equal(verbs_domain_open(&domain.domain), 0);
	assert_int_equal(verbs_domain_handles(&domain.domain, &handles), 0);
	dev->dealloc_error = EBUSY;
	for (int i = 0; i < 2; i++) {
		warning_count = 0;
		assert_refused(verbs_domain_close(&domain.domain), -FI_EBUSY);
		assert_non_null(strstr(warning_text, "fake0: ibv_dealloc_pd: errno 16 ("));
		assert_non_null(strstr(warning_text, "objects of its own"));
		assert_int_equal(dev->pds, 1);
		assert_int_equal(dev->contexts, 1);
	}
	dev->dealloc_error = 0;
	assert_int_equal(verbs_domain_close(&domain.domain), 0);
}

/* The program has nothing there: what the driver keeps ends with the device's context. */
static void fn_06_refused_protection_domain_ends_with_the_context(void **state)
{
	static const int errors[] = { EBUSY, EINVAL, EIO, ENODEV };

	(void)state;
	for (size_t i = 0; i < count_of(errors); i++) {
		prepare(NULL);
		assert_int_equal(verbs_domain_open(&domain.domain), 0);
		dev->dealloc_error = errors[i];
		assert_int_equal(verbs_domain_close(&domain.domain), 0);
		assert_int_equal(warning_count, 1);
		assert_non_null(strstr(warning_text, "fake0: ibv_dealloc_pd: errno "));
		assert_non_null(strstr(warning_text, "the driver refuses"));
		assert_null(strstr(warning_text, "program"));
		assert_int_equal(dev->contexts, 0);
		dev->pds = 0; /* the kernel's now */
	}
}

/* Over the program's own context nothing ends by itself, so that closing is tried again. */
static void fn_06_refused_protection_domain_of_an_adopted_context(void **state)
{
	struct ibv_context *context = fake_open_device(&dev->ibv);

	(void)state;
	adopted = (struct hmreg_verbs_adopt){ .size = sizeof(adopted), .context = context };
	domain.domain.adopt = &adopted;
	assert_int_equal(verbs_domain_open(&domain.domain), 0);
	dev->dealloc_error = EINVAL;
	assert_refused(verbs_domain_close(&domain.domain), -FI_EINVAL);
	assert_non_null(strstr(warning_text, "close it again"));
	assert_null(strstr(warning_text, "program"));
	dev->dealloc_error = 0;
	assert_int_equal(verbs_domain_close(&domain.domain), 0);
	assert_int_equal(dev->contexts, 1);
	fake_close_device(context);
}

static void fn_38_removed_device_can_be_closed(void **state)
{
	static const int errors[] = { EIO, ENODEV };

	(void)state;
	for (size_t i = 0; i < count_of(errors); i++) {
		prepare(NULL);
		assert_int_equal(verbs_domain_open(&domain.domain), 0);
		dev->dealloc_error = dev->port[0].error = errors[i];
		assert_int_equal(verbs_domain_close(&domain.domain), 0);
		assert_int_equal(warning_count, 1);
		assert_non_null(strstr(warning_text, "fake0 is gone"));
		assert_int_equal(dev->contexts, 0);
		dev->pds = dev->port[0].error = 0;
	}
}

/* ---- events ---- */

static void fn_38_removal_is_told_once(void **state)
{
	(void)state;
	assert_int_equal(verbs_domain_open(&domain.domain), 0);
	fake.events[0].event_type = IBV_EVENT_PORT_ACTIVE;
	fake.events[1].event_type = IBV_EVENT_DEVICE_FATAL;
	fake.events[2].event_type = IBV_EVENT_DEVICE_FATAL;
	fake.event_count = 3;
	verbs_domain_async(&domain);
	assert_true(domain.gone);
	assert_int_equal(fake.event_count, 0);
	assert_int_equal(fake.acks, 3);
	assert_int_equal(warning_count, 1);
	assert_non_null(strstr(warning_text, "fake0 is gone: fatal"));
	fake.event_error = EIO;
	verbs_domain_async(&domain);
	verbs_domain_gone(&domain, "again");
	assert_int_equal(warning_count, 1);
	assert_int_equal(verbs_domain_close(&domain.domain), 0);
}

/* The kernel took the context away without an event. */
static void fn_38_cut_off_context_is_a_removal(void **state)
{
	(void)state;
	assert_int_equal(verbs_domain_open(&domain.domain), 0);
	verbs_domain_async(&domain);
	assert_false(domain.gone);
	fake.event_error = EIO;
	verbs_domain_async(&domain);
	assert_true(domain.gone);
	assert_int_equal(warning_count, 1);
	assert_int_equal(verbs_domain_close(&domain.domain), 0);
}

static void events_are_told_by_weight(void **state)
{
	static const struct {
		enum ibv_event_type type;
		bool warned;
	} cases[] = {
		{ IBV_EVENT_QP_ACCESS_ERR, false }, { IBV_EVENT_QP_REQ_ERR, false },
		{ IBV_EVENT_COMM_EST, false },	    { IBV_EVENT_QP_LAST_WQE_REACHED, false },
		{ IBV_EVENT_PORT_ACTIVE, false },   { IBV_EVENT_GID_CHANGE, false },
		{ IBV_EVENT_PORT_ERR, true },	    { IBV_EVENT_QP_FATAL, true },
		{ IBV_EVENT_CQ_ERR, true },	    { IBV_EVENT_SRQ_ERR, true },
	};

	(void)state;
	assert_int_equal(verbs_domain_open(&domain.domain), 0);
	for (size_t i = 0; i < count_of(cases); i++) {
		warning_count = 0;
		fake.events[0].event_type = cases[i].type;
		fake.event_count = 1;
		verbs_domain_async(&domain);
		assert_int_equal(warning_count, cases[i].warned);
		assert_int_equal(fake.acks, i + 1);
	}
	assert_false(domain.gone);
	assert_int_equal(verbs_domain_close(&domain.domain), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, check_empty)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mode_02_domain_has_its_own_objects),
		TEST(api_20_open_says_why_not),
		TEST(adopted_objects_stay_the_programs),
		TEST(adopted_objects_must_fit),
		TEST(fn_06_program_holds_the_protection_domain),
		TEST(fn_06_refused_protection_domain_ends_with_the_context),
		TEST(fn_06_refused_protection_domain_of_an_adopted_context),
		TEST(fn_38_removed_device_can_be_closed),
		TEST(fn_38_removal_is_told_once),
		TEST(fn_38_cut_off_context_is_a_removal),
		TEST(events_are_told_by_weight),
	};

	return cmocka_run_group_tests(tests, set_up, warnings_stop);
}
