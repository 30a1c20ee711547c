/* SPDX-License-Identifier: BSD-2-Clause */
/* libibverbs and librdmacm are there with all their functions, or not at all. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/sysfs.h"
#include "core/nic/verbs_lib.h"
#include "tests/unit/child.h"
#include "tests/unit/fake_sysfs.h"
#include "tests/unit/fake_verbs.h"

static const char *const info[] = { "FI_LOG_LEVEL=info", NULL };
static struct child child;

static size_t lines(const char *text)
{
	size_t count = 0;

	for (const char *at = child.text; (at = strstr(at, text)); at++)
		count++;
	return count;
}

static void loads_all(void)
{
	CHECK(verbs_lib_load() == 0);
	CHECK(verbs_lib_load() == 0);
	CHECK(fake.libraries == 2);
	CHECK(verbs.get_device_list == fake_get_device_list);
	CHECK(verbs.is_fork_initialized == fake_is_fork_initialized);
	CHECK(verbs.query_gid_ex == fake_query_gid_ex);
	CHECK(cm.bind_addr == fake_bind_addr);
	CHECK(cm.event_str != NULL);
}

static void loads_nothing(void)
{
	static const struct verbs_lib no_verbs;
	static const struct cm_lib no_cm;

	CHECK(verbs_lib_load() == -FI_ENOSYS);
	CHECK(verbs_lib_load() == -FI_ENOSYS);
	CHECK(fake.libraries == 0);
	CHECK(memcmp(&verbs, &no_verbs, sizeof(verbs)) == 0);
	CHECK(memcmp(&cm, &no_cm, sizeof(cm)) == 0);
}

static void both_are_loaded(void **state)
{
	(void)state;
	fake_init();
	child_run(&child, info, loads_all);
	assert_string_equal(child.text, "");
}

/* One line, which names it. */
static void missing_library_is_named(void **state)
{
	static const char *const names[] = { "libibverbs.so.1", "librdmacm.so.1" };

	(void)state;
	for (size_t i = 0; i < count_of(names); i++) {
		fake_init();
		fake.no_library = names[i];
		child_run(&child, info, loads_nothing);
		assert_int_equal(lines("<info> no RDMA devices"), 1);
		assert_int_equal(child.writes, 1);
	}
}

static void missing_function_is_named(void **state)
{
	static const char *const names[] = { "ibv_get_device_list", "ibv_fork_init",
					     "rdma_create_event_channel", "rdma_event_str" };

	(void)state;
	for (size_t i = 0; i < count_of(names); i++) {
		fake_init();
		fake.no_symbol = names[i];
		child_run(&child, info, loads_nothing);
		assert_int_equal(lines(names[i]), 1);
		assert_int_equal(child.writes, 1);
	}
}

static void has_no_dmabuf(void)
{
	CHECK(verbs_lib_load() == 0);
	errno = 0;
	CHECK(!verbs.reg_dmabuf_mr(NULL, 0, 1, 0, 3, 0));
	CHECK(errno == EOPNOTSUPP);
}

static void has_no_fork_status(void)
{
	CHECK(verbs_lib_load() == 0);
	CHECK(verbs.is_fork_initialized() == IBV_FORK_DISABLED);
}

static void has_no_gid_types(void)
{
	static const enum ibv_gid_type types[] = { IBV_GID_TYPE_ROCE_V2, IBV_GID_TYPE_ROCE_V1,
						   IBV_GID_TYPE_IB };
	struct ibv_context *context;
	struct ibv_gid_entry entry;

	CHECK(verbs_lib_load() == 0);
	context = verbs.open_device(&fake.device[0].ibv);
	for (uint32_t i = 0; i < count_of(types); i++) {
		memset(&entry, 0xff, sizeof(entry));
		CHECK(!verbs.query_gid_ex(context, 1, i, &entry, 0, sizeof(entry)));
		CHECK(entry.gid_type == (uint32_t)types[i] && entry.gid_index == i);
		CHECK(entry.port_num == 1 && entry.gid.raw[15] == 1);
	}
	CHECK(verbs.query_gid_ex(context, 1, 3, &entry, 0, sizeof(entry)) == ENODATA);
	verbs.close_device(context);
}

/* Older libraries lack some: there is something to call all the same. */
static void stand_ins_for_what_is_younger(void **state)
{
	(void)state;
	hm_sysfs_set_root(sysfs_root);
	sysfs_text("class/infiniband/fake0/ports/1/gid_attrs/types/0", "RoCE v2\n");
	sysfs_text("class/infiniband/fake0/ports/1/gid_attrs/types/1", "IB/RoCE v1\n");
	fake_init();
	fake.device[0].port[0].gid[2] = fake.device[0].port[0].gid[1];
	fake.no_symbol = "ibv_reg_dmabuf_mr";
	child_run(&child, info, has_no_dmabuf);
	fake.no_symbol = "ibv_is_fork_initialized";
	child_run(&child, info, has_no_fork_status);
	fake.no_symbol = "_ibv_query_gid_ex";
	child_run(&child, info, has_no_gid_types);
	assert_string_equal(child.text, "");
}

static void asks_device_and_port(void)
{
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;
	struct ibv_context *context;

	CHECK(verbs_lib_load() == 0);
	for (int extended = 0; extended < 2; extended++) {
		fake.device[0].extended = extended;
		context = verbs.open_device(&fake.device[0].ibv);
		memset(&attr, 0xff, sizeof(attr));
		memset(&port, 0xff, sizeof(port));
		CHECK(verbs_query_device_ex(context, &attr) == 0);
		CHECK(attr.orig_attr.vendor_id == 0x1234);
		CHECK(attr.odp_caps.general_caps == (extended ? IBV_ODP_SUPPORT : 0));
		CHECK(verbs_query_port(context, 1, &port) == 0);
		CHECK(port.active_speed == 32 && port.gid_tbl_len == FAKE_GIDS);
		verbs.close_device(context);
	}
	fake.device[0].query_error = EIO;
	fake.device[0].port[0].error = EIO;
	context = verbs.open_device(&fake.device[0].ibv);
	CHECK(verbs_query_device_ex(context, &attr) == EIO);
	CHECK(verbs_query_port(context, 1, &port) == EIO);
	verbs.close_device(context);
}

static void old_and_new_contexts_answer(void **state)
{
	(void)state;
	fake_init();
	fake.device[0].odp.general_caps = IBV_ODP_SUPPORT;
	child_run(&child, info, asks_device_and_port);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_are_loaded),
		cmocka_unit_test(missing_library_is_named),
		cmocka_unit_test(missing_function_is_named),
		cmocka_unit_test(stand_ins_for_what_is_younger),
		cmocka_unit_test(old_and_new_contexts_answer),
	};

	return cmocka_run_group_tests(tests, sysfs_start, sysfs_stop);
}
