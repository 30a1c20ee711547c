/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_av calls on a domain of a NIC made up here; events are caught on their way to the queue. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/core.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/fake_nic.h"
#include "tests/unit/warnings.h"

#define LOOP INADDR_LOOPBACK

static struct nic_ops ops = FAKE_OPS("fake", NULL);
static const struct nic_port port = FAKE_PORT(&ops, "fake", "domain", 0, NULL);
static struct hm_fabric fabric, other_fabric;
static struct nic_domain nic = { .ops = &ops, .port = &port };
static struct hm_domain domain = { .domain.fid.fclass = FI_CLASS_DOMAIN,
				   .fabric = &fabric,
				   .nic = &nic };
static struct hm_eq eq = { .eq.fid.fclass = FI_CLASS_EQ, .fabric = &fabric };
static struct hm_eq other_eq = { .eq.fid.fclass = FI_CLASS_EQ, .fabric = &other_fabric };

/* ---- events ---- */

static struct {
	bool is_error;
	uint32_t event;
	struct fi_eq_err_entry entry;
} events[16];
static size_t event_count, event_fails_at = SIZE_MAX;

int __wrap_hm_eq_push(struct hm_eq *to, uint32_t event, const struct fi_eq_entry *entry);
int __wrap_hm_eq_push_error(struct hm_eq *to, const struct fi_eq_err_entry *error);

int __wrap_hm_eq_push(struct hm_eq *to, uint32_t event, const struct fi_eq_entry *entry)
{
	assert_ptr_equal(to, &eq);
	if (event_count == event_fails_at)
		return -FI_ENOMEM;
	events[event_count].is_error = false;
	events[event_count].event = event;
	memcpy(&events[event_count++].entry, entry, sizeof(*entry));
	return 0;
}

int __wrap_hm_eq_push_error(struct hm_eq *to, const struct fi_eq_err_entry *error)
{
	assert_ptr_equal(to, &eq);
	if (event_count == event_fails_at)
		return -FI_ENOMEM;
	events[event_count].is_error = true;
	events[event_count++].entry = *error;
	return 0;
}

/* ---- helpers ---- */

static struct fid_av *open_av(enum fi_av_type type, uint64_t flags)
{
	struct fi_av_attr attr = { .type = type, .count = 10, .ep_per_node = 3, .flags = flags };
	struct fid_av *av;

	assert_int_equal(hm_av_open(&domain.domain, &attr, &av, &attr), 0);
	assert_int_equal(attr.type, type == FI_AV_MAP ? FI_AV_MAP : FI_AV_TABLE);
	assert_int_equal(av->fid.fclass, FI_CLASS_AV);
	assert_ptr_equal(av->fid.context, &attr);
	event_count = 0;
	return av;
}

static void close_av(struct fid_av *av)
{
	assert_int_equal(fi_close(&av->fid), 0);
	assert_int_equal(domain.users, 0);
	assert_int_equal(eq.users, 0);
}

static void assert_entry(struct fid_av *av, fi_addr_t fi_addr, uint32_t host, uint16_t service)
{
	struct sockaddr_in expected = fake_addr(host, service), found;
	size_t len = sizeof(found);

	assert_int_equal(fi_av_lookup(av, fi_addr, &found, &len), 0);
	assert_int_equal(len, sizeof(found));
	assert_memory_equal(&found, &expected, sizeof(found));
}

/* ---- opening ---- */

static void open_table(void **state)
{
	static const struct {
		struct fi_av_attr attr;
		int ret;
	} cases[] = {
		{ { .flags = FI_READ }, -FI_ENOSYS },
		{ { .flags = FI_SHARED_AV }, -FI_ENOSYS },
		{ { .flags = FI_AV_USER_ID }, -FI_ENOSYS },
		{ { .flags = FI_MORE }, -FI_EBADFLAGS },
		{ { .flags = FI_MORE | FI_READ }, -FI_EBADFLAGS },
		{ { .name = "shared" }, -FI_ENOSYS },
		{ { .type = (enum fi_av_type)3 }, -FI_EINVAL },
		{ { .type = (enum fi_av_type) - 1 }, -FI_EINVAL },
		{ { .rx_ctx_bits = 2 }, -FI_EINVAL },
	};
	struct fid_av untouched, *av = &untouched;
	struct fi_av_attr attr = { .type = FI_AV_MAP };
	long before;

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		attr = cases[i].attr;
		assert_refused(hm_av_open(&domain.domain, &attr, &av, NULL), cases[i].ret);
		assert_int_equal(attr.type, cases[i].attr.type);
	}
	assert_refused(hm_av_open(&domain.domain, NULL, &av, NULL), -FI_EINVAL);
	assert_refused(hm_av_open(&domain.domain, &attr, NULL, NULL), -FI_EINVAL);
	before = alloc_live;
	for (unsigned n = 1; n <= 2; n++) {
		attr = (struct fi_av_attr){ .type = FI_AV_TABLE };
		alloc_fail_at(n);
		assert_refused(hm_av_open(&domain.domain, &attr, &av, NULL), -FI_ENOMEM);
		assert_true(alloc_failed());
		assert_int_equal(alloc_live, before);
	}
	assert_ptr_equal(av, &untouched);
	assert_int_equal(domain.users, 0);
	close_av(open_av(FI_AV_UNSPEC, FI_SYMMETRIC));
	close_av(open_av(FI_AV_MAP, 0));
}

static void close_is_refused_while_bound(void **state)
{
	struct fid_av *av = open_av(FI_AV_TABLE, 0);

	(void)state;
	assert_int_equal(domain.users, 1);
	hm_use(&hm_av_of(&av->fid)->nic.users);
	assert_refused(fi_close(&av->fid), -FI_EBUSY);
	assert_int_equal(fi_av_insertsvc(av, "127.0.0.1", "5", NULL, 0, NULL), 1);
	hm_unuse(&hm_av_of(&av->fid)->nic.users);
	close_av(av);
}

/* ---- insertion ---- */

static void insert_reports_each_failure(void **state)
{
	struct sockaddr_in addrs[] = { fake_addr(LOOP, 1), fake_addr(FAKE_REFUSED, 2),
				       fake_addr(LOOP, 3) };
	struct fid_av *av = open_av(FI_AV_TABLE, 0);
	fi_addr_t got[3] = { 7, 7, 7 };
	int codes[3] = { 9, 9, 9 };

	(void)state;
	assert_int_equal(fi_av_insert(av, addrs, 3, got, FI_SYNC_ERR | FI_MORE, codes), 2);
	assert_int_equal(got[0], 0);
	assert_int_equal(got[1], FI_ADDR_NOTAVAIL);
	assert_int_equal(got[2], 1);
	assert_int_equal(codes[0], 0);
	assert_int_equal(codes[1], FI_EHOSTUNREACH);
	assert_int_equal(codes[2], 0);
	assert_entry(av, 0, LOOP, 1);
	assert_entry(av, 1, LOOP, 3);
	assert_int_equal(fi_av_insert(av, addrs, 3, NULL, 0, NULL), 2);
	assert_entry(av, 3, LOOP, 3);
	assert_int_equal(fi_av_insert(av, NULL, 0, NULL, 0, NULL), 0);
	close_av(av);
}

static void insert_wrong_calls(void **state)
{
	struct sockaddr_in addr = fake_addr(LOOP, 1);
	struct fid_av *av = open_av(FI_AV_TABLE, 0), *map = open_av(FI_AV_MAP, 0);
	fi_addr_t got = 5;
	static const struct {
		uint64_t flags;
		int ret;
	} flags[] = {
		{ FI_AV_USER_ID, -FI_ENOSYS },
		{ FI_AUTH_KEY, -FI_ENOSYS },
		{ FI_FIREWALL_ADDR, -FI_ENOSYS },
		{ FI_INJECT, -FI_EBADFLAGS },
		{ UINT64_C(1) << 60, -FI_EBADFLAGS },
		{ FI_SYNC_ERR, -FI_EINVAL }, /* without an array */
	};

	(void)state;
	for (size_t i = 0; i < count_of(flags); i++) {
		assert_refused(fi_av_insert(av, &addr, 1, &got, flags[i].flags, NULL),
			       flags[i].ret);
		assert_refused(fi_av_insertsvc(av, "127.0.0.1", "1", &got, flags[i].flags, NULL),
			       flags[i].ret);
		assert_refused(fi_av_insertsym(av, "127.0.0.1", 1, "1", 1, &got, flags[i].flags,
					       NULL),
			       flags[i].ret);
	}
	assert_refused(fi_av_insert(av, NULL, 1, &got, 0, NULL), -FI_EINVAL);
	assert_refused(fi_av_insert(av, &addr, (size_t)INT32_MAX + 1, &got, 0, NULL), -FI_EINVAL);
	assert_refused(fi_av_insert(map, &addr, 1, NULL, 0, NULL), -FI_EINVAL);
	assert_int_equal(got, 5);
	assert_int_equal(hm_av_of(&av->fid)->nic.live, 0);
	fi_close(&map->fid);
	close_av(av);
}

static void insertsvc_table(void **state)
{
	static const struct {
		const char *node, *service;
		int ret;
	} cases[] = {
		{ "127.0.0.1", "5000", 1 },
		{ "localhost", "5000", 1 },
		{ "fi_sockaddr_in://127.0.0.1:5000", NULL, 1 },
		{ "127.0.0.99", "1", 0 }, /* well formed, and the NIC refuses it */
		{ "127.0.0.1", NULL, -FI_EINVAL },
		{ NULL, "5000", -FI_EINVAL },
		{ "127.0.0.1", "x", -FI_EINVAL },
		{ "127.0.0.1", "70000", -FI_EINVAL },
		{ "some.host", "1", -FI_ENODATA },
		{ "tcp://127.0.0.1:1", NULL, -FI_EINVAL },
	};
	struct fid_av *av = open_av(FI_AV_TABLE, 0);

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		fi_addr_t got = 77;

		warning_count = 0;
		assert_int_equal(fi_av_insertsvc(av, cases[i].node, cases[i].service, &got, 0,
						 NULL),
				 cases[i].ret);
		assert_int_equal(warning_count, cases[i].ret < 0);
		if (cases[i].ret == 1)
			assert_entry(av, got, LOOP, 5000);
		else
			assert_int_equal(got, cases[i].ret ? 77 : FI_ADDR_NOTAVAIL);
	}
	close_av(av);
}

static void insertsym_counts_up(void **state)
{
	struct fid_av *av = open_av(FI_AV_TABLE, FI_SYMMETRIC);
	fi_addr_t got[6];

	(void)state;
	assert_int_equal(fi_av_insertsym(av, "127.0.0.255", 2, "5000", 3, got, 0, NULL), 6);
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(got[i], i);
		assert_entry(av, i, 0x7f0000ff + i / 3, (uint16_t)(5000 + i % 3));
	}
	assert_int_equal(fi_av_insertsym(av, "localhost", 1, "65535", 1, NULL, 0, NULL), 1);
	assert_int_equal(fi_av_insertsym(av, "127.0.0.1", 0, "1", 5, NULL, 0, NULL), 0);
	assert_int_equal(fi_av_insertsym(av, "127.0.0.1", 5, "1", 0, NULL, 0, NULL), 0);
	assert_refused(fi_av_insertsym(av, "127.0.0.1", 1, "65535", 2, NULL, 0, NULL), -FI_EINVAL);
	assert_refused(fi_av_insertsym(av, "255.255.255.255", 2, "1", 1, NULL, 0, NULL),
		       -FI_EINVAL);
	assert_refused(fi_av_insertsym(av, "127.0.0.1", SIZE_MAX, "1", SIZE_MAX, NULL, 0, NULL),
		       -FI_EINVAL);
	assert_refused(fi_av_insertsym(av, "127.0.0.1", 1u << 20, "1", 1u << 15, NULL, 0, NULL),
		       -FI_EINVAL);
	assert_refused(fi_av_insertsym(av, "localhost", 2, "1", 1, NULL, 0, NULL), -FI_EINVAL);
	assert_int_equal(hm_av_of(&av->fid)->nic.live, 7);
	close_av(av);
}

/* ---- events ---- */

static void bind_table(void **state)
{
	struct fid_av *av = open_av(FI_AV_TABLE, FI_EVENT), *plain = open_av(FI_AV_TABLE, 0);
	struct sockaddr_in addr = fake_addr(LOOP, 1);

	(void)state;
	assert_refused(fi_av_insert(av, &addr, 1, NULL, 0, NULL), -FI_ENOEQ);
	assert_refused(fi_av_bind(av, NULL, 0), -FI_EINVAL);
	assert_refused(fi_av_bind(av, &plain->fid, 0), -FI_EINVAL);
	assert_refused(fi_av_bind(av, &other_eq.eq.fid, 0), -FI_EINVAL);
	assert_refused(fi_av_bind(av, &eq.eq.fid, FI_EVENT), -FI_EBADFLAGS);
	assert_refused(fi_av_bind(plain, &eq.eq.fid, 0), -FI_EINVAL);
	assert_int_equal(eq.users, 0);
	assert_int_equal(fi_av_bind(av, &eq.eq.fid, 0), 0);
	assert_int_equal(eq.users, 1);
	assert_refused(fi_av_bind(av, &eq.eq.fid, 0), -FI_EINVAL);
	assert_int_equal(eq.users, 1);
	assert_int_equal(fi_close(&plain->fid), 0);
	close_av(av);
	assert_int_equal(event_count, 0);
}

static void events_of_an_insertion(void **state)
{
	struct sockaddr_in addrs[] = { fake_addr(FAKE_REFUSED, 1), fake_addr(LOOP, 2),
				       fake_addr(FAKE_REFUSED, 3), fake_addr(LOOP, 4) };
	struct fid_av *av = open_av(FI_AV_TABLE, FI_EVENT);
	fi_addr_t got[4];
	int array[4], context;

	(void)state;
	assert_int_equal(fi_av_bind(av, &eq.eq.fid, 0), 0);
	assert_refused(fi_av_insert(av, addrs, 4, got, FI_SYNC_ERR, array), -FI_EBADFLAGS);
	assert_int_equal(fi_av_insert(av, addrs, 4, got, 0, &context), 0);
	assert_int_equal(event_count, 3);
	for (uint64_t i = 0; i < 2; i++) {
		assert_true(events[i].is_error);
		assert_int_equal(events[i].entry.data, 2 * i);
		assert_int_equal(events[i].entry.err, FI_EHOSTUNREACH);
		assert_ptr_equal(events[i].entry.context, &context);
		assert_int_equal(got[2 * i], FI_ADDR_NOTAVAIL);
		assert_int_equal(got[2 * i + 1], i);
	}
	assert_false(events[2].is_error);
	assert_int_equal(events[2].event, FI_AV_COMPLETE);
	assert_int_equal(events[2].entry.data, 2);
	assert_ptr_equal(events[2].entry.fid, &av->fid);
	assert_ptr_equal(events[2].entry.context, &context);
	event_count = 0;
	assert_int_equal(fi_av_insertsvc(av, "127.0.0.1", "9", NULL, 0, NULL), 0);
	assert_int_equal(event_count, 1);
	assert_int_equal(fi_av_insert(av, NULL, 0, NULL, 0, NULL), 0);
	assert_int_equal(event_count, 2);
	close_av(av);
}

static void insertion_without_its_event_is_undone(void **state)
{
	struct sockaddr_in addrs[] = { fake_addr(LOOP, 1), fake_addr(LOOP, 2) };
	long before = alloc_live;
	struct fid_av *av = open_av(FI_AV_TABLE, FI_EVENT);
	fi_addr_t got[2];

	(void)state;
	assert_int_equal(fi_av_bind(av, &eq.eq.fid, 0), 0);
	event_fails_at = 0;
	assert_int_equal(fi_av_insert(av, addrs, 2, got, 0, NULL), -FI_ENOMEM);
	event_fails_at = SIZE_MAX;
	assert_int_equal(got[0], FI_ADDR_NOTAVAIL);
	assert_int_equal(hm_av_of(&av->fid)->nic.live, 0);
	for (unsigned n = 1; n <= 2; n++) {
		alloc_fail_at(n);
		assert_refused(fi_av_insert(av, addrs, 2, got, 0, NULL), -FI_ENOMEM);
		assert_true(alloc_failed());
	}
	assert_int_equal(fi_av_insert(av, addrs, 2, got, 0, NULL), 0);
	assert_int_equal(got[1], 1);
	close_av(av);
	assert_int_equal(alloc_live, before);
}

/* ---- the rest ---- */

static void remove_and_look_up(void **state)
{
	struct fid_av *av = open_av(FI_AV_MAP, 0);
	fi_addr_t got[3], list[2], gone;
	char shorter[6], name[64];
	struct sockaddr_in in = fake_addr(LOOP, 10);
	size_t len = sizeof(shorter);

	(void)state;
	assert_int_equal(fi_av_insertsym(av, "127.0.0.1", 1, "10", 3, got, 0, NULL), 3);
	list[0] = got[0];
	list[1] = got[2] + 1;
	assert_refused(fi_av_remove(av, list, 2, 0), -FI_EINVAL);
	list[1] = got[0];
	assert_refused(fi_av_remove(av, list, 2, 0), -FI_EINVAL);
	assert_refused(fi_av_remove(av, NULL, 1, 0), -FI_EINVAL);
	assert_refused(fi_av_remove(av, list, 1, FI_AUTH_KEY), -FI_ENOSYS);
	assert_refused(fi_av_remove(av, list, 1, FI_MORE), -FI_EBADFLAGS);
	assert_entry(av, got[0], LOOP, 10);
	/* short buffers get what fits */
	memset(shorter, 0x5a, sizeof(shorter));
	len = 4;
	assert_int_equal(fi_av_lookup(av, got[0], shorter, &len), 0);
	assert_int_equal(len, sizeof(in));
	assert_memory_equal(shorter, &in, 4);
	assert_int_equal(shorter[4], 0x5a);
	len = 0;
	assert_int_equal(fi_av_lookup(av, got[0], NULL, &len), 0);
	assert_int_equal(len, sizeof(in));
	assert_refused(fi_av_lookup(av, got[0], NULL, &len), -FI_EINVAL);
	assert_refused(fi_av_lookup(av, got[0], shorter, NULL), -FI_EINVAL);
	/* removed, and its place taken */
	gone = got[0];
	assert_int_equal(fi_av_remove(av, got, 3, 0), 0);
	assert_int_equal(fi_av_insertsvc(av, "127.0.0.1", "20", got, 0, NULL), 1);
	len = sizeof(name);
	assert_refused(fi_av_lookup(av, gone, name, &len), -FI_EINVAL);
	assert_refused(fi_av_remove(av, &gone, 1, 0), -FI_EINVAL);
	assert_entry(av, got[0], LOOP, 20);
	close_av(av);
}

static void straddr_prints(void **state)
{
	struct fid_av *av = open_av(FI_AV_TABLE, 0);
	struct sockaddr_in in = fake_addr(LOOP, 8080);
	static const char text[] = "fi_sockaddr_in://127.0.0.1:8080";
	char buf[64];
	size_t len = sizeof(buf);
	fi_addr_t got;

	(void)state;
	assert_ptr_equal(fi_av_straddr(av, &in, buf, &len), buf);
	assert_string_equal(buf, text);
	assert_int_equal(len, sizeof(text));
	assert_int_equal(fi_av_insertsvc(av, buf, NULL, &got, 0, NULL), 1);
	assert_entry(av, got, LOOP, 8080);
	len = 5;
	assert_ptr_equal(fi_av_straddr(av, &in, buf, &len), buf);
	assert_string_equal(buf, "fi_s");
	assert_int_equal(len, sizeof(text));
	warning_count = 0;
	assert_null(fi_av_straddr(av, NULL, buf, &len));
	assert_null(fi_av_straddr(av, &in, buf, NULL));
	assert_int_equal(warning_count, 2);
	close_av(av);
}

static void lookup2_and_refusals(void **state)
{
	struct fid_av *av = open_av(FI_AV_TABLE, 0);
	struct fid_xpu_ctx *ctx = (struct fid_xpu_ctx *)&domain;
	struct sockaddr_in in;
	size_t len = sizeof(in);
	struct fid_av_set *set;

	(void)state;
	assert_int_equal(fi_av_insertsvc(av, "127.0.0.1", "1", NULL, 0, NULL), 1);
	assert_int_equal(av->ops->lookup2(av, 0, &in, &len, 0, NULL), 0);
	assert_refused(fi_av_lookup2(av, 0, &in, &len, FI_XPU, ctx), -FI_ENOSYS);
	assert_refused(fi_av_lookup2(av, 0, &in, &len, 0, ctx), -FI_EINVAL);
	assert_refused(fi_av_lookup2(av, 0, &in, &len, FI_MORE, ctx), -FI_EBADFLAGS);
	assert_refused(fi_av_set_user_id(av, 0, 1, 0), -FI_ENOSYS);
	assert_refused(fi_av_insert_auth_key(av, "k", 1, &(fi_addr_t){ 0 }, 0), -FI_ENOSYS);
	assert_refused(fi_av_lookup_auth_key(av, 0, &in, &len), -FI_ENOSYS);
	assert_refused(av->ops->av_set(av, NULL, &set, NULL), -FI_ENOSYS);
	assert_int_equal(av->ops->size, sizeof(struct fi_ops_av));
	assert_int_equal(av->fid.ops->size, sizeof(struct fi_ops));
	close_av(av);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open_table),
		cmocka_unit_test(close_is_refused_while_bound),
		cmocka_unit_test(insert_reports_each_failure),
		cmocka_unit_test(insert_wrong_calls),
		cmocka_unit_test(insertsvc_table),
		cmocka_unit_test(insertsym_counts_up),
		cmocka_unit_test(bind_table),
		cmocka_unit_test(events_of_an_insertion),
		cmocka_unit_test(insertion_without_its_event_is_undone),
		cmocka_unit_test(remove_and_look_up),
		cmocka_unit_test(straddr_prints),
		cmocka_unit_test(lookup2_and_refusals),
	};

	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
