/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_tostr: every enumerator and flag by name, structures line by line, and nothing lost or overrun. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_ext.h>

#include "core/tostr.h"
#include "tests/unit/tostr_sample.h"
#include "tests/unit/tostr_values.h"

enum {
	TYPES = FI_TYPE_WAIT_OBJ + 1
};

static const char *str32(uint32_t value, enum fi_type type)
{
	return fi_tostr(&value, type);
}

static const char *str64(uint64_t value, enum fi_type type)
{
	return fi_tostr(&value, type);
}

/* ---- enumerations ---- */

static void api_01_tostr_every_enumerator(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(enumerators) / sizeof(enumerators[0]); i++) {
		assert_int_equal(enumerators[i].constant, enumerators[i].value);
		assert_string_equal(str32(enumerators[i].value, enumerators[i].type),
				    enumerators[i].name);
	}
}

static void api_01_tostr_log_words(void **state)
{
	static const char *const levels[] = { "warn", "trace", "info", "debug" };
	static const char *const subsystems[] = { "core", "fabric", "domain", "ep_ctrl", "ep_data",
						  "av",	  "cq",	    "eq",     "mr",	 "cntr" };

	(void)state;
	for (uint32_t i = 0; i < FI_LOG_MAX; i++)
		assert_string_equal(str32(i, FI_TYPE_LOG_LEVEL), levels[i]);
	for (uint32_t i = 0; i < FI_LOG_SUBSYS_MAX; i++)
		assert_string_equal(str32(i, FI_TYPE_LOG_SUBSYS), subsystems[i]);
	assert_string_equal(str32(FI_LOG_MAX, FI_TYPE_LOG_LEVEL), "Unknown (0x4)");
	assert_string_equal(str32(UINT32_MAX, FI_TYPE_LOG_SUBSYS), "Unknown (0xffffffff)");
}

static void api_01_tostr_unknown_enumerators_keep_their_number(void **state)
{
	static const enum fi_type types[] = {
		FI_TYPE_EP_TYPE,   FI_TYPE_ADDR_FORMAT,	 FI_TYPE_THREADING,	FI_TYPE_PROGRESS,
		FI_TYPE_PROTOCOL,  FI_TYPE_AV_TYPE,	 FI_TYPE_ATOMIC_TYPE,	FI_TYPE_ATOMIC_OP,
		FI_TYPE_EQ_EVENT,  FI_TYPE_OP_TYPE,	 FI_TYPE_COLLECTIVE_OP, FI_TYPE_HMEM_IFACE,
		FI_TYPE_CQ_FORMAT, FI_TYPE_CQ_WAIT_COND, FI_TYPE_WAIT_OBJ,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_string_equal(str32(0x1267, types[i]), "Unknown (0x1267)");
		assert_string_equal(str32(0x80000005, types[i]), "Provider specific (0x80000005)");
	}
}

/* ---- flags ---- */

static uint64_t flag_value(enum fi_type type, const char *word)
{
	for (size_t i = 0; i < FLAGS; i++) {
		if (flags[i].type == type && strcmp(flags[i].name, word) == 0)
			return flags[i].value;
	}
	assert_memory_equal(word, "0x", 2);
	return strtoull(word, NULL, 16);
}

/* Back from the text to the number; no bit may be named twice. */
static uint64_t parse_flags(enum fi_type type, const char *text)
{
	char copy[8192];
	uint64_t all = 0;
	char *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", text);
	while (*copy && (word = strsep(&rest, ",")) != NULL) {
		uint64_t value = flag_value(type, word + (*word == ' '));

		assert_true((all & value) == 0 && value != 0);
		all |= value;
	}
	return all;
}

static void check_flags(enum fi_type type, uint64_t value)
{
	const char *text;

	if (type == FI_TYPE_MR_MODE) {
		value &= UINT32_MAX;
		text = str32((uint32_t)value, type);
	} else {
		text = str64(value, type);
	}
	assert_true(parse_flags(type, text) == value);
}

static void api_01_tostr_every_flag(void **state)
{
	(void)state;
	for (size_t i = 0; i < FLAGS; i++)
		assert_string_equal(flags[i].type == FI_TYPE_MR_MODE
					    ? str32((uint32_t)flags[i].value, flags[i].type)
					    : str64(flags[i].value, flags[i].type),
				    flags[i].name);
}

static void api_01_tostr_no_flag_is_lost(void **state)
{
	uint64_t random = 88172645463325252u;

	(void)state;
	for (int t = 0; t < FLAG_TYPES; t++) {
		for (int bit = 0; bit < 64; bit++)
			check_flags(flag_types[t], UINT64_C(1) << bit);
		check_flags(flag_types[t], 0);
		check_flags(flag_types[t], UINT64_MAX);
		for (int i = 0; i < 500; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			check_flags(flag_types[t], random);
		}
	}
	assert_string_equal(str64(FI_MSG | FI_RMA | (UINT64_C(1) << 33), FI_TYPE_CAPS),
			    "FI_MSG, FI_RMA, 0x200000000");
	assert_string_equal(str32(0x40000000, FI_TYPE_MR_MODE), "0x40000000");
	assert_string_equal(str64(0, FI_TYPE_CAPS), "");
}

/* ---- structures ---- */

static void api_01_tostr_info_in_full(void **state)
{
	(void)state;
	assert_string_equal(fi_tostr(&sample_info, FI_TYPE_INFO), sample_text);
}

static void api_01_tostr_empty_info(void **state)
{
	struct fi_info empty = { .addr_format = FI_FORMAT_UNSPEC };

	(void)state;
	assert_string_equal(fi_tostr(&empty, FI_TYPE_INFO), "fi_info:\n"
							    "    caps: [  ]\n"
							    "    mode: [  ]\n"
							    "    addr_format: FI_FORMAT_UNSPEC\n"
							    "    src_addrlen: 0\n"
							    "    dest_addrlen: 0\n"
							    "    src_addr: (null)\n"
							    "    dest_addr: (null)\n"
							    "    handle: (nil)\n"
							    "    fi_tx_attr: (null)\n"
							    "    fi_rx_attr: (null)\n"
							    "    fi_ep_attr: (null)\n"
							    "    fi_domain_attr: (null)\n"
							    "    fi_fabric_attr: (null)\n"
							    "    nic: (null)\n");
}

/* A structure alone is what it is within fi_info, one step further left. */
static void check_part(const void *data, enum fi_type type, const char *heading)
{
	const char *text = fi_tostr(data, type);
	const char *part = strstr(sample_text, heading);

	assert_non_null(part);
	while (*text) {
		size_t len = strcspn(text, "\n") + 1;

		assert_memory_equal(part, "    ", 4);
		assert_memory_equal(part + 4, text, len);
		part += len + 4;
		text += len;
	}
	assert_true(*part == '\0' || memcmp(part, "        ", 8) != 0);
}

static void api_01_tostr_each_attribute_alone(void **state)
{
	(void)state;
	check_part(&sample_tx, FI_TYPE_TX_ATTR, "    fi_tx_attr:");
	check_part(&sample_rx, FI_TYPE_RX_ATTR, "    fi_rx_attr:");
	check_part(&sample_ep, FI_TYPE_EP_ATTR, "    fi_ep_attr:");
	check_part(&sample_domain, FI_TYPE_DOMAIN_ATTR, "    fi_domain_attr:");
	check_part(&sample_fabric, FI_TYPE_FABRIC_ATTR, "    fi_fabric_attr:");
}

static void api_01_tostr_av_cq_and_counter_attributes(void **state)
{
	struct fi_av_attr av = { .type = FI_AV_MAP,
				 .rx_ctx_bits = -1,
				 .count = 2,
				 .ep_per_node = 3,
				 .name = "av",
				 .map_addr = (void *)0x10,
				 .flags = FI_EVENT | FI_SYMMETRIC };
	struct fi_cq_attr cq = { .size = 1,
				 .flags = FI_AFFINITY | FI_XPU,
				 .format = FI_CQ_FORMAT_DATA,
				 .wait_obj = FI_WAIT_FD,
				 .signaling_vector = 2,
				 .wait_cond = FI_CQ_COND_THRESHOLD,
				 .xpu_ctx = (void *)0x20 };
	struct fi_cntr_attr cntr = { .events = FI_CNTR_EVENTS_BYTES,
				     .wait_obj = FI_WAIT_YIELD,
				     .flags = 1,
				     .wait_set = (void *)0x30 };

	(void)state;
	assert_string_equal(fi_tostr(&av, FI_TYPE_AV_ATTR),
			    "fi_av_attr:\n"
			    "    type: FI_AV_MAP\n"
			    "    rx_ctx_bits: -1\n"
			    "    count: 2\n"
			    "    ep_per_node: 3\n"
			    "    name: av\n"
			    "    map_addr: 0x10\n"
			    "    flags: [ FI_EVENT, FI_SYMMETRIC ]\n");
	assert_string_equal(fi_tostr(&cq, FI_TYPE_CQ_ATTR), "fi_cq_attr:\n"
							    "    size: 1\n"
							    "    flags: [ FI_XPU, FI_AFFINITY ]\n"
							    "    format: FI_CQ_FORMAT_DATA\n"
							    "    wait_obj: FI_WAIT_FD\n"
							    "    signaling_vector: 2\n"
							    "    wait_cond: FI_CQ_COND_THRESHOLD\n"
							    "    wait_set: (nil)\n"
							    "    xpu_ctx: 0x20\n");
	assert_string_equal(fi_tostr(&cntr, FI_TYPE_CNTR_ATTR), "fi_cntr_attr:\n"
								"    events: FI_CNTR_EVENTS_BYTES\n"
								"    wait_obj: FI_WAIT_YIELD\n"
								"    wait_set: 0x30\n"
								"    flags: [ 0x1 ]\n"
								"    xpu_ctx: (nil)\n");
}

static void api_01_tostr_mr_attr_and_devices(void **state)
{
	struct fi_mr_attr attr = { .mr_iov = (void *)0x1,
				   .iov_count = 2,
				   .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
				   .offset = 3,
				   .requested_key = 0xabc,
				   .context = (void *)0x4,
				   .auth_key_size = 5,
				   .iface = FI_HMEM_SYSTEM,
				   .hmem_data = (void *)0x6,
				   .page_size = 4096,
				   .base_mr = (void *)0x7,
				   .sub_mr_cnt = 8 };
	static const enum fi_hmem_iface by_number[] = { FI_HMEM_CUDA, FI_HMEM_ROCR, FI_HMEM_NEURON,
							FI_HMEM_SYNAPSEAI };

	(void)state;
	attr.device.reserved = UINT64_C(0x123456789a);
	assert_string_equal(fi_tostr(&attr, FI_TYPE_MR_ATTR),
			    "fi_mr_attr:\n"
			    "    mr_iov: 0x1\n"
			    "    iov_count: 2\n"
			    "    access: [ FI_REMOTE_READ, FI_REMOTE_WRITE ]\n"
			    "    offset: 0x3\n"
			    "    requested_key: 0xabc\n"
			    "    context: 0x4\n"
			    "    auth_key_size: 5\n"
			    "    iface: FI_HMEM_SYSTEM\n"
			    "    device: 0x123456789a\n"
			    "    hmem_data: 0x6\n"
			    "    page_size: 4096\n"
			    "    base_mr: 0x7\n"
			    "    sub_mr_cnt: 8\n");
	attr.device.reserved = 0;
	attr.device.cuda = -2;
	for (size_t i = 0; i < sizeof(by_number) / sizeof(by_number[0]); i++) {
		attr.iface = by_number[i];
		assert_non_null(strstr(fi_tostr(&attr, FI_TYPE_MR_ATTR), "    device: -2\n"));
	}
	attr.iface = FI_HMEM_ZE;
	attr.device.ze = fi_hmem_ze_device(3, 65535);
	assert_non_null(
		strstr(fi_tostr(&attr, FI_TYPE_MR_ATTR), "    device: driver 3, device 65535\n"));
	attr.iface = (enum fi_hmem_iface)77;
	assert_non_null(strstr(fi_tostr(&attr, FI_TYPE_MR_ATTR), "    iface: Unknown (0x4d)\n"
								 "    device: 0x3ffff\n"));
}

static void api_01_tostr_cq_err_entry(void **state)
{
	struct fi_cq_err_entry entry = { .op_context = (void *)0x1,
					 .flags = FI_RMA | FI_READ,
					 .len = 2,
					 .buf = (void *)0x3,
					 .data = 4,
					 .tag = 5,
					 .olen = 6,
					 .err = FI_EINVAL,
					 .prov_errno = -7,
					 .err_data = (void *)0x8,
					 .err_data_size = 9,
					 .src_addr = FI_ADDR_NOTAVAIL };

	(void)state;
	assert_string_equal(fi_tostr(&entry, FI_TYPE_CQ_ERR_ENTRY),
			    "fi_cq_err_entry:\n"
			    "    op_context: 0x1\n"
			    "    flags: [ FI_RMA, FI_READ ]\n"
			    "    len: 2\n"
			    "    buf: 0x3\n"
			    "    data: 0x4\n"
			    "    tag: 0x5\n"
			    "    olen: 6\n"
			    "    err: 22 (Invalid argument)\n"
			    "    prov_errno: -7\n"
			    "    err_data: 0x8\n"
			    "    err_data_size: 9\n"
			    "    src_addr: FI_ADDR_NOTAVAIL\n");
	entry.src_addr = 12;
	entry.err = 99999;
	assert_non_null(strstr(fi_tostr(&entry, FI_TYPE_CQ_ERR_ENTRY), "src_addr: 12\n"));
	assert_non_null(strstr(fi_tostr(&entry, FI_TYPE_CQ_ERR_ENTRY), "99999 (Unknown error)"));
}

/* ---- objects ---- */

static int own_text(const struct fid *fid, char *buf, size_t len)
{
	memset(buf, 'y', len);
	if (len > 10)
		snprintf(buf, len, "object %zu", fid->fclass);
	return 0;
}

static int no_text(const struct fid *fid, char *buf, size_t len)
{
	(void)fid;
	snprintf(buf, len, "must not be shown");
	return -FI_ENOSYS;
}

static void api_01_tostr_fid(void **state)
{
	static const char plain[] = "fid:\n    fclass: FI_CLASS_MR\n    context: 0x5\n";
	struct fi_ops ops = { .size = sizeof(ops) };
	struct fid fid = { .fclass = FI_CLASS_MR, .context = (void *)0x5 };

	(void)state;
	assert_string_equal(fi_tostr(&fid, FI_TYPE_FID), plain);
	fid.ops = &ops;
	assert_string_equal(fi_tostr(&fid, FI_TYPE_FID), plain);
	ops.tostr = no_text;
	assert_string_equal(fi_tostr(&fid, FI_TYPE_FID), plain);
	ops.tostr = own_text;
	assert_string_equal(fi_tostr(&fid, FI_TYPE_FID), "object 12");
	/* A table that ends before the slot. */
	ops.size = offsetof(struct fi_ops, tostr);
	assert_string_equal(fi_tostr(&fid, FI_TYPE_FID), plain);
	fid.fclass = 12345;
	assert_non_null(strstr(fi_tostr(&fid, FI_TYPE_FID), "fclass: Unknown (0x3039)\n"));
}

static void api_01_tostr_fid_every_class(void **state)
{
	struct fid fid = { .context = NULL };

	(void)state;
	for (size_t fclass = 0; fclass <= FI_CLASS_XPU_CTX; fclass++) {
		if (fclass == FI_CLASS_NIC)
			continue;
		fid.fclass = fclass;
		assert_non_null(strstr(fi_tostr(&fid, FI_TYPE_FID), "fclass: FI_CLASS_"));
	}
	assert_non_null(
		strstr(fi_tostr(&sample_nic.fid, FI_TYPE_FID), "\n            domain_id: 65535\n"));
}

/* ---- addresses ---- */

static void check_addr(const char *text, uint32_t format, const void *addr, size_t addrlen)
{
	char buf[256];
	size_t need = hm_straddr(buf, sizeof(buf), format, addr, addrlen);

	assert_string_equal(buf, text);
	assert_int_equal(need, strlen(text));
	/* The same in the smallest buffers. */
	for (size_t len = 0; len < need; len++) {
		memset(buf, '!', sizeof(buf));
		assert_int_equal(hm_straddr(buf, len, format, addr, addrlen), need);
		assert_int_equal(buf[len], '!');
		if (len) {
			assert_memory_equal(buf, text, len - 1);
			assert_int_equal(buf[len - 1], '\0');
		}
	}
	assert_int_equal(hm_straddr(NULL, 0, format, addr, addrlen), need);
}

static void api_01_tostr_addresses(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(4791) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(65535) };
	unsigned char odd[1 + sizeof(in6)];
	static const unsigned char bytes[] = { 0x00, 0x1b, 0xff };
	/* Not terminated, and on the heap, where a sanitizer sees a read beyond the end. */
	char *name = malloc(3);

	(void)state;
	assert_int_equal(inet_pton(AF_INET, "192.0.2.7", &in.sin_addr), 1);
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &in6.sin6_addr), 1);
	check_addr("fi_sockaddr_in://192.0.2.7:4791", FI_SOCKADDR_IN, &in, sizeof(in));
	check_addr("fi_sockaddr_in://192.0.2.7:4791", FI_SOCKADDR, &in, sizeof(in));
	check_addr("fi_sockaddr_in://192.0.2.7:4791", FI_SOCKADDR_IP, &in, sizeof(in));
	check_addr("fi_sockaddr_in6://[2001:db8::1]:65535", FI_SOCKADDR_IN6, &in6, sizeof(in6));
	check_addr("fi_sockaddr_in6://[2001:db8::1]:65535", FI_SOCKADDR, &in6, sizeof(in6));
	in6.sin6_scope_id = 7;
	check_addr("fi_sockaddr_in6://[2001:db8::1%7]:65535", FI_SOCKADDR_IN6, &in6, sizeof(in6));
	in6.sin6_scope_id = 0;
	memcpy(odd + 1, &in6, sizeof(in6));
	check_addr("fi_sockaddr_in6://[2001:db8::1]:65535", FI_SOCKADDR_IP, odd + 1, sizeof(in6));
	check_addr("fi_sockaddr_ib://001bff", FI_SOCKADDR_IB, bytes, 3);
	check_addr("fi_addr_psmx://001bff", FI_ADDR_PSMX, bytes, 3);
	check_addr("fi_addr_unknown://001bff", 4711, bytes, 3);
	check_addr("fi_addr_unknown://", 0x80000001, bytes, 0);
	/* Too short for what it claims to be. */
	check_addr("fi_sockaddr_in://001bff", FI_SOCKADDR_IN, bytes, 3);
	check_addr("fi_sockaddr_in6://001bff", FI_SOCKADDR_IN6, bytes, 3);
	check_addr("fi_sockaddr://00", FI_SOCKADDR, bytes, 1);
	check_addr("fi_sockaddr_in6://", FI_SOCKADDR_IN6, bytes, 0);
	assert_non_null(name);
	memcpy(name, "abc", 3);
	check_addr("abc", FI_ADDR_STR, name, 3);
	name[1] = '\0';
	check_addr("a", FI_ADDR_STR, name, 3);
	check_addr("", FI_ADDR_STR, name, 0);
	check_addr("(null)", FI_ADDR_STR, NULL, 3);
	check_addr("(null)", FI_SOCKADDR_IN, NULL, sizeof(in));
	free(name);
}

/* ---- buffers and bad arguments ---- */

static void api_01_tostr_r_cuts_at_any_length(void **state)
{
	const size_t full = strlen(sample_text);

	(void)state;
	for (size_t len = 1; len <= full + 2; len++) {
		/* Of the exact size, so that a sanitizer sees a write beyond it. */
		char *buf = malloc(len);

		assert_non_null(buf);
		memset(buf, '!', len);
		assert_ptr_equal(fi_tostr_r(buf, len, &sample_info, FI_TYPE_INFO), buf);
		if (len <= full) {
			assert_memory_equal(buf, sample_text, len - 1);
			assert_int_equal(buf[len - 1], '\0');
		} else {
			assert_string_equal(buf, sample_text);
		}
		free(buf);
	}
}

static void api_01_tostr_r_tiny_buffers_for_every_type(void **state)
{
	static const uint64_t zeroes[64];

	(void)state;
	for (int type = -1; type <= TYPES; type++) {
		for (size_t len = 0; len < 12; len++) {
			char buf[16];

			memset(buf, '!', sizeof(buf));
			assert_ptr_equal(fi_tostr_r(buf, len, zeroes, (enum fi_type)type), buf);
			assert_int_equal(buf[len], '!');
			if (len)
				assert_non_null(memchr(buf, '\0', len));
		}
	}
	assert_null(fi_tostr_r(NULL, 0, zeroes, FI_TYPE_CAPS));
	assert_null(fi_tostr_r(NULL, 100, zeroes, FI_TYPE_CAPS));
}

static void api_01_tostr_null_data_for_every_type(void **state)
{
	(void)state;
	for (int type = 0; type < TYPES; type++) {
		if (type != FI_TYPE_VERSION)
			assert_string_equal(fi_tostr(NULL, (enum fi_type)type), "(null)");
	}
	assert_string_equal(fi_tostr(NULL, FI_TYPE_VERSION), "2.7.0");
}

static void api_01_tostr_unknown_type(void **state)
{
	static const int types[] = { -1, TYPES, 1000, INT32_MAX, INT32_MIN };

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_string_equal(fi_tostr(&sample_info, (enum fi_type)types[i]), "Unknown type");
		assert_string_equal(fi_tostr(NULL, (enum fi_type)types[i]), "Unknown type");
	}
}

static void api_01_tostr_long_names_are_cut_not_overrun(void **state)
{
	struct fi_fabric_attr attr = { .api_version = 1 };
	char *name = malloc(20000);

	(void)state;
	assert_non_null(name);
	memset(name, 'n', 19999);
	name[19999] = '\0';
	attr.name = name;
	assert_int_equal(strlen(fi_tostr(&attr, FI_TYPE_FABRIC_ATTR)), 8191);
	free(name);
}

static void *text_in_thread(void *arg)
{
	uint64_t caps = *(uint64_t *)arg;
	const char *name = caps == FI_MSG ? "FI_MSG" : "FI_RMA";

	for (int i = 0; i < 2000; i++) {
		if (strcmp(fi_tostr(&caps, FI_TYPE_CAPS), name) != 0)
			return arg;
	}
	return NULL;
}

static void api_19_tostr_has_a_buffer_per_thread(void **state)
{
	uint64_t caps[2] = { FI_MSG, FI_RMA };
	pthread_t threads[2];
	void *bad;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, text_in_thread, &caps[i]), 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_01_tostr_every_enumerator),
		cmocka_unit_test(api_01_tostr_log_words),
		cmocka_unit_test(api_01_tostr_unknown_enumerators_keep_their_number),
		cmocka_unit_test(api_01_tostr_every_flag),
		cmocka_unit_test(api_01_tostr_no_flag_is_lost),
		cmocka_unit_test(api_01_tostr_info_in_full),
		cmocka_unit_test(api_01_tostr_empty_info),
		cmocka_unit_test(api_01_tostr_each_attribute_alone),
		cmocka_unit_test(api_01_tostr_av_cq_and_counter_attributes),
		cmocka_unit_test(api_01_tostr_mr_attr_and_devices),
		cmocka_unit_test(api_01_tostr_cq_err_entry),
		cmocka_unit_test(api_01_tostr_fid),
		cmocka_unit_test(api_01_tostr_fid_every_class),
		cmocka_unit_test(api_01_tostr_addresses),
		cmocka_unit_test(api_01_tostr_r_cuts_at_any_length),
		cmocka_unit_test(api_01_tostr_r_tiny_buffers_for_every_type),
		cmocka_unit_test(api_01_tostr_null_data_for_every_type),
		cmocka_unit_test(api_01_tostr_unknown_type),
		cmocka_unit_test(api_01_tostr_long_names_are_cut_not_overrun),
		cmocka_unit_test(api_19_tostr_has_a_buffer_per_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
