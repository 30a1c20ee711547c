/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices and ports that are not listed, and what is said to whoever asks for them by name. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/base/sysfs.h"
#include "tests/unit/fake_ports.h"
#include "tests/unit/fake_sysfs.h"

/* ---- what is left out ---- */

static const char *asked;
static int answer;

static void check_missing(void)
{
	CHECK(port_count() == 0);
	check_closed();
	CHECK(verbs_port_missing(asked) == answer);
}

/* text: what the one line has; NULL: no line. */
static void missing(const char *const *env, const char *name, int ret, const char *text)
{
	asked = name;
	answer = ret;
	child_run(&child, env, check_missing);
	assert_int_equal(child.writes, text != NULL);
	if (text && !strstr(child.text, text))
		fail_msg("\"%s\" does not say \"%s\"", child.text, text);
}

static void api_20_unknown_name_is_silent(void **state)
{
	(void)state;
	fake_init();
	fake.devices = 0;
	missing(warn, "mlx5_7", -FI_ENODATA, NULL);
	missing(warn, "", -FI_ENODATA, NULL);
	missing(warn, ":", -FI_ENODATA, NULL);
	missing(warn, "a:b:c", -FI_ENODATA, NULL);
	missing(warn, "sw-verbs", -FI_ENODATA, NULL);
	missing(warn,
		"a-name-that-is-longer-than-any-device-has-ever-been-called-by-anybody-in-any-"
		"place",
		-FI_ENODATA, NULL);
	missing(warn, NULL, -FI_ENODATA, NULL);
}

static void api_20_port_that_is_down(void **state)
{
	static const struct {
		enum ibv_port_state state;
		const char *text;
	} states[] = {
		{ IBV_PORT_DOWN, "port 1 is down" },
		{ IBV_PORT_INIT, "port 1 is initializing" },
		{ IBV_PORT_ARMED, "port 1 is armed" },
		{ IBV_PORT_ACTIVE_DEFER, "port 1 is active, but" },
		{ IBV_PORT_NOP, "port 1 is in no state" },
	};

	(void)state;
	for (size_t i = 0; i < count_of(states); i++) {
		fake_init();
		dev[0].port[0].attr.state = states[i].state;
		missing(warn, "fake0", -FI_ENODEV, states[i].text);
		missing(warn, "fake0:1", -FI_ENODEV, states[i].text);
		missing(warn, "fake0:2", -FI_ENODEV, "fake0 has no port 2");
		missing(warn, "fake0:0", -FI_ENODATA, NULL);
		missing(warn, "fake0:1x", -FI_ENODATA, NULL);
	}
	dev[0].port[0].error = EIO;
	missing(warn, "fake0", -FI_ENODEV, "port 1 does not say what it is");
}

static void api_20_device_file_that_cannot_be_opened(void **state)
{
	(void)state;
	fake_init();
	dev[0].open_error = EACCES;
	missing(warn, "fake0", -FI_EACCES, "no permission to open /dev/infiniband/uverbs0");
	missing(warn, "fake0:2", -FI_EACCES, "/dev/infiniband/uverbs0");
	dev[0].open_error = EPERM;
	missing(warn, "fake0", -FI_EACCES, "no permission to open /dev/infiniband/uverbs0");
	dev[0].open_error = ENOENT;
	missing(warn, "fake0", -FI_ENODEV, "there is no /dev/infiniband/uverbs0");
	dev[0].open_error = EMFILE;
	missing(warn, "fake0", -FI_ENODEV, "cannot be opened");
	dev[0].open_error = 0;
	dev[0].query_error = EIO;
	missing(warn, "fake0", -FI_ENODEV, "does not say what it can do");
	dev[0].query_error = 0;
	dev[0].pd_error = ENOMEM;
	missing(warn, "fake0", -FI_ENODEV, "does not say what it can do");
}

static void check_named(void)
{
	CHECK(port_count() == 2); /* one for each family */
	CHECK(verbs_port_missing("fake0:1") == -FI_ENODATA);
}

/* The first port's name has no number. */
static void api_20_port_that_has_another_name(void **state)
{
	(void)state;
	fake_init();
	child_run(&child, warn, check_named);
	assert_int_equal(child.writes, 1);
	assert_non_null(strstr(child.text, "port 1 of fake0 has the name fake0"));
}

static void api_20_device_that_a_variable_leaves_out(void **state)
{
	static const char *const by_name[] = { "FI_LOG_LEVEL=warn", "HMREG_VERBS_DEVICES=^fake0",
					       NULL };
	static const char *const by_others[] = { "FI_LOG_LEVEL=warn",
						 "HMREG_VERBS_DEVICES=fake1,fake2", NULL };
	static const char *const all[] = { "FI_LOG_LEVEL=warn", "HMREG_VERBS_ENABLE=0", NULL };

	(void)state;
	fake_init();
	missing(by_name, "fake0", -FI_ENODEV, "HMREG_VERBS_DEVICES=^fake0");
	missing(by_others, "fake0", -FI_ENODEV, "HMREG_VERBS_DEVICES=fake1,fake2");
	missing(all, "fake0", -FI_ENODATA, NULL);
}

/* The kernel has it; what lacks is between the kernel and this program. */
static void api_20_device_that_libibverbs_does_not_show(void **state)
{
	(void)state;
	sysfs_run("mkdir -p class/infiniband/fake0");
	fake_init();
	fake.devices = 0;
	missing(warn, "fake0", -FI_ENODEV, "load its module ib_uverbs");
	fake.devices = -1;
	fake.list_error = ENOSYS;
	missing(warn, "fake0", -FI_ENODEV, "load its module ib_uverbs");
	sysfs_run("mkdir -p class/infiniband_verbs");
	fake.devices = 0;
	missing(warn, "fake0", -FI_ENODEV, "has no provider for it");
	missing(warn, "fake1", -FI_ENODATA, NULL);
	sysfs_text("class/infiniband_verbs/uverbs97/ibdev", "fake1\n");
	sysfs_text("class/infiniband_verbs/uverbs98/ibdev", "fake0\n");
	missing(warn, "fake0", -FI_ENODEV, "there is no /dev/infiniband/uverbs98 here");
	fake.no_library = "libibverbs.so.1";
	missing(warn, "fake0", -FI_ENODEV, "libibverbs.so.1 or librdmacm.so.1 is not installed");
	sysfs_run("rm -r class");
}

static void check_late(void)
{
	CHECK(port_count() == 0);
	fake.devices = 1;
	CHECK(verbs_port_missing("fake0") == -FI_ENODEV);
}

static void api_20_device_that_came_later(void **state)
{
	(void)state;
	sysfs_run("mkdir -p class/infiniband/fake0 class/infiniband_verbs");
	fake_init();
	fake.devices = 0;
	child_run(&child, warn, check_late);
	assert_non_null(strstr(child.text, "start the program again"));
	assert_int_equal(child.writes, 1);
	sysfs_run("rm -r class");
}

/* ---- what is looked at again ---- */

static void hinder_open(bool on)
{
	dev[0].open_error = on ? EMFILE : 0;
}

static void hinder_permission(bool on)
{
	dev[0].open_error = on ? EACCES : 0;
}

static void hinder_query(bool on)
{
	dev[0].query_error = on ? ENOMEM : 0;
}

static void hinder_pd(bool on)
{
	dev[0].pd_error = on ? ENOMEM : 0;
}

static void hinder_port(bool on)
{
	dev[0].port[0].attr.state = on ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
}

static void hinder_cm(bool on)
{
	fake.channel_error = on ? EMFILE : 0;
}

static void hinder_list(bool on)
{
	fake.devices = on ? -1 : 1;
	fake.list_error = ENOMEM;
}

static void hinder_empty_list(bool on)
{
	fake.devices = on ? 0 : 1;
}

/* Each is in a device's way, so that it has no port until it is taken away. */
static void (*const hinder[])(bool on) = { hinder_open, hinder_permission, hinder_query,
					   hinder_pd,	hinder_port,	   hinder_cm,
					   hinder_list, hinder_empty_list };
static size_t hindered;

static void check_looked_at_again(void)
{
	const struct nic_port *ports;
	size_t count;

	hinder[hindered](true);
	CHECK(port_count() == 0);
	verbs_look();
	CHECK(port_count() == 0);
	hinder[hindered](false);
	CHECK(port_count() == 0); /* counting ports is no look */
	verbs_look();
	CHECK(port_count() == 2);
	CHECK(verbs_port_missing("fake0:2") == -FI_ENODEV);
	verbs_ports(&ports, &count);
	hinder[hindered](true); /* what was found stays, where it is */
	verbs_look();
	CHECK(port_count() == 2);
	CHECK(strcmp(ports->domain_name, "fake0") == 0);
	check_closed();
}

static void api_03_device_that_could_not_be_used_is_looked_at_again(void **state)
{
	(void)state;
	for (hindered = 0; hindered < count_of(hinder); hindered++) {
		print_message("case %zu\n", hindered);
		fake_init();
		child_run(&child, warn, check_looked_at_again);
		/* what was in its way is forgotten: the one line is about a port that it has not */
		assert_int_equal(child.writes, 1);
		assert_non_null(strstr(child.text, "fake0 has no port 2"));
	}
}

static void check_second_port(void)
{
	const struct nic_port *before, *after;
	size_t count;

	CHECK(verbs_ports(&before, &count) == 0 && count == 2);
	CHECK(verbs_port_missing("fake0:2") == -FI_ENODEV);
	dev[0].port[1].attr.state = IBV_PORT_ACTIVE;
	verbs_look();
	CHECK(verbs_ports(&after, &count) == 0 && count == 3);
	CHECK(after == before); /* domains refer to them */
	CHECK(strcmp(verbs_port_of(after)[2].port.domain_name, "fake0:2") == 0);
	check_closed();
}

static void api_03_port_that_comes_up_is_added(void **state)
{
	(void)state;
	fake_init();
	dev[0].attr.phys_port_cnt = 2;
	dev[0].port[1].attr.state = IBV_PORT_DOWN;
	dev[0].port[1].gid[0] = (struct fake_gid){ "::ffff:127.0.0.2", IBV_GID_TYPE_ROCE_V2, 1 };
	fake.bound[2] = (struct fake_bound){ "127.0.0.2", 0, 2 };
	child_run(&child, warn, check_second_port);
	assert_int_equal(child.writes, 1);
	assert_non_null(strstr(child.text, "port 2 is down"));
}

static void check_said_once(void)
{
	dev[0].open_error = EACCES;
	for (int i = 0; i < 3; i++)
		verbs_look();
	dev[0].open_error = EMFILE;
	for (int i = 0; i < 3; i++)
		verbs_look();
}

static void api_20_same_reason_is_said_once(void **state)
{
	static const char *const info[] = { "FI_LOG_LEVEL=info", NULL };

	(void)state;
	fake_init();
	child_run(&child, info, check_said_once);
	assert_int_equal(child.writes, 2);
	assert_non_null(strstr(child.text, "no permission"));
	assert_non_null(strstr(child.text, "cannot be opened: Too many open files"));
}

static int set_up(void **state)
{
	hm_sysfs_set_root(sysfs_root);
	return sysfs_start(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_20_unknown_name_is_silent),
		cmocka_unit_test(api_20_port_that_is_down),
		cmocka_unit_test(api_20_device_file_that_cannot_be_opened),
		cmocka_unit_test(api_20_port_that_has_another_name),
		cmocka_unit_test(api_20_device_that_a_variable_leaves_out),
		cmocka_unit_test(api_20_device_that_libibverbs_does_not_show),
		cmocka_unit_test(api_20_device_that_came_later),
		cmocka_unit_test(api_03_device_that_could_not_be_used_is_looked_at_again),
		cmocka_unit_test(api_03_port_that_comes_up_is_added),
		cmocka_unit_test(api_20_same_reason_is_said_once),
	};

	return cmocka_run_group_tests(tests, set_up, sysfs_stop);
}
