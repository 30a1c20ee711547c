/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports for registration alone: who gets them from fi_getinfo, who does not and why, and what they refuse. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "core/core.h"
#include "tests/unit/fake_nic.h"
#include "tests/unit/warnings.h"

#define API FI_VERSION(2, 7)
#define WHY "port 1 has no address: give it one"

static int bare_ports(const struct nic_port **ports, size_t *count);

static struct nic_ops bare_ops = FAKE_OPS("bare", bare_ports);

/* Those without endpoints come first from the NIC. */
static struct nic_port bare_list[] = {
	{ .ops = &bare_ops,
	  .fabric_name = "bare",
	  .domain_name = "b0",
	  .caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_HMEM,
	  .optional_caps = FI_HMEM,
	  .mr_mode = FI_MR_PROV_KEY,
	  .mr_key_size = 8,
	  .mr_iov_limit = 16,
	  .max_mr_count = 1 << 20,
	  .no_endpoints = WHY,
	  .no_endpoints_code = -FI_EACCES },
	FAKE_PORT(&bare_ops, "bare", "full", FI_MR_PROV_KEY, NULL),
};

static int bare_ports(const struct nic_port **ports, size_t *count)
{
	*ports = bare_list;
	*count = count_of(bare_list);
	return 0;
}

/* Neither has an address to ask about. */
static int never_asked(const struct nic_port *port, const void *addr, size_t len)
{
	(void)addr;
	(void)len;
	assert_null(port->no_endpoints);
	return 0;
}

static int never_missing(const char *name)
{
	fail_msg("%s is there", name);
	return 0;
}

static char warning_text[256];

static void keep_warning(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
			 int line, const char *text, void *arg)
{
	count_warning(level, subsys, func, line, text, arg);
	if (level == FI_LOG_WARN)
		snprintf(warning_text, sizeof(warning_text), "%s", text);
}

static int set_up(void **state)
{
	(void)state;
	bare_ops.port_reaches = bare_ops.port_has = never_asked;
	bare_ops.port_missing = never_missing;
	setenv("HMREG_SW_ENABLE", "0", 1);
	setenv("HMREG_VERBS_ENABLE", "0", 1);
	nic_register(&bare_ops);
	hm_log_set_sink(keep_warning, NULL);
	return 0;
}

static struct fi_info *hints_for(const char *domain)
{
	struct fi_info *hints = fi_allocinfo();

	assert_non_null(hints);
	hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
	if (domain)
		hints->domain_attr->name = strdup(domain);
	return hints;
}

static void api_03_listed_last(void **state)
{
	struct fi_info *info, *hints = hints_for(NULL);

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
		assert_string_equal(info->domain_attr->name, "full");
		assert_string_equal(info->next->domain_attr->name, "b0");
		assert_null(info->next->next);
		fi_freeinfo(info);
		hints->caps = FI_LOCAL_COMM;
	}
	fi_freeinfo(hints);
}

static void api_03_info_says_that_there_are_no_endpoints(void **state)
{
	struct fi_info *info, *again, *hints = hints_for("b0");

	(void)state;
	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	assert_int_equal(info->caps, FI_LOCAL_COMM | FI_REMOTE_COMM);
	assert_null(info->src_addr);
	assert_int_equal(info->src_addrlen, 0);
	assert_int_equal(info->addr_format, FI_FORMAT_UNSPEC);
	assert_int_equal(info->ep_attr->type, FI_EP_UNSPEC);
	assert_int_equal(info->ep_attr->max_msg_size, 0);
	assert_int_equal(info->ep_attr->tx_ctx_cnt, 0);
	assert_int_equal(info->tx_attr->size, 0);
	assert_int_equal(info->rx_attr->size, 0);
	assert_int_equal(info->domain_attr->ep_cnt, 0);
	assert_int_equal(info->domain_attr->max_ep_tx_ctx, 0);
	assert_int_equal(info->domain_attr->mr_cnt, 1 << 20);
	/* what was answered finds the port again */
	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, info, &again), 0);
	assert_string_equal(again->domain_attr->name, "b0");
	fi_freeinfo(again);
	fi_freeinfo(info);
	hints->caps = FI_HMEM;
	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	assert_int_equal(info->caps, FI_LOCAL_COMM | FI_REMOTE_COMM | FI_HMEM);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* ---- who asks for endpoints ---- */

static const char *wish_rma(struct fi_info *hints)
{
	hints->caps = FI_RMA;
	return NULL;
}

static const char *wish_hmem_messages(struct fi_info *hints)
{
	hints->caps = FI_HMEM | FI_MSG;
	return NULL;
}

static const char *wish_type(struct fi_info *hints)
{
	hints->ep_attr->type = FI_EP_RDM;
	return NULL;
}

static const char *wish_protocol(struct fi_info *hints)
{
	hints->ep_attr->protocol = FI_PROTO_SHM;
	return NULL;
}

static const char *wish_format(struct fi_info *hints)
{
	hints->addr_format = FI_SOCKADDR_IN;
	return NULL;
}

static const char *wish_tx(struct fi_info *hints)
{
	hints->tx_attr->caps = FI_SEND;
	return NULL;
}

static const char *wish_rx(struct fi_info *hints)
{
	hints->rx_attr->caps = FI_RECV;
	return NULL;
}

static const char *wish_node(struct fi_info *hints)
{
	(void)hints;
	return "127.0.0.1";
}

static const char *wish_any(struct fi_info *hints)
{
	(void)hints;
	return "0.0.0.0";
}

static const struct {
	const char *(*wish)(struct fi_info *hints);
	uint64_t flags;
} wishes[] = {
	{ wish_rma, 0 },	 { wish_hmem_messages, 0 }, { wish_type, 0 },
	{ wish_protocol, 0 },	 { wish_format, 0 },	    { wish_tx, 0 },
	{ wish_rx, 0 },		 { wish_node, 0 },	    { wish_node, FI_SOURCE },
	{ wish_any, FI_SOURCE },
};

static void api_20_asking_for_endpoints_by_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(wishes); i++) {
		struct fi_info untouched, *info = &untouched, *hints = hints_for("b0");
		const char *node = wishes[i].wish(hints);

		print_message("wish %zu\n", i);
		warning_count = 0;
		assert_int_equal(fi_getinfo(API, node, NULL, wishes[i].flags, hints, &info),
				 -FI_EACCES);
		assert_null(info);
		assert_int_equal(warning_count, 1);
		assert_string_equal(warning_text, "b0 is for registration alone: " WHY);
		fi_freeinfo(hints);
	}
}

/* Without a name, it is not among what matches, and nothing is said. */
static void api_03_hints_for_endpoints_leave_it_out(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(wishes); i++) {
		struct fi_info *info = NULL, *hints = hints_for(NULL);
		const char *node = wishes[i].wish(hints);
		int ret;

		warning_count = 0;
		ret = fi_getinfo(API, node, NULL, wishes[i].flags, hints, &info);
		assert_int_equal(ret, hints->caps & FI_HMEM ? -FI_ENODATA : 0);
		for (const struct fi_info *at = info; at; at = at->next)
			assert_string_equal(at->domain_attr->name, "full");
		assert_int_equal(warning_count, 0);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* Where something else is the reason, endpoints are not brought up. */
static void api_20_other_reasons(void **state)
{
	struct fi_info *info, *hints = hints_for("b0");

	(void)state;
	hints->domain_attr->mr_mode = FI_MR_LOCAL; /* it needs FI_MR_PROV_KEY */
	warning_count = 0;
	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	assert_int_equal(warning_count, 0);
	fi_freeinfo(hints);
	/* a device without dma-bufs: FI_HMEM is no wish for endpoints */
	hints = hints_for("b0");
	hints->caps = FI_HMEM;
	bare_list[0].caps &= ~FI_HMEM;
	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	assert_int_equal(warning_count, 0);
	bare_list[0].caps |= FI_HMEM;
	fi_freeinfo(hints);
}

static void api_20_endpoint_refused(void **state)
{
	struct fi_info *info, *hints = hints_for("b0");
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep = (struct fid_ep *)0x10;
	struct fid_mr *mr;
	char buf[64];

	(void)state;
	assert_int_equal(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_refused(fi_endpoint(domain, info, &ep, NULL), -FI_EOPNOTSUPP);
		assert_string_equal(warning_text, "b0 is for registration alone: " WHY);
		assert_ptr_equal(ep, 0x10);
		info->caps = FI_RMA; /* whatever the info says */
		info->ep_attr->type = FI_EP_RDM;
	}
	assert_int_equal(fi_mr_reg(domain, buf, sizeof(buf), FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL),
			 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_03_listed_last),
		cmocka_unit_test(api_03_info_says_that_there_are_no_endpoints),
		cmocka_unit_test(api_03_hints_for_endpoints_leave_it_out),
		cmocka_unit_test(api_20_asking_for_endpoints_by_name),
		cmocka_unit_test(api_20_other_reasons),
		cmocka_unit_test(api_20_endpoint_refused),
	};

	return cmocka_run_group_tests(tests, set_up, warnings_stop);
}
