/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_getinfo over NICs made up here: what is listed, what hints leave out, what the answer says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/info_nics.h"
#include "tests/unit/warnings.h"

/* ---- listing ---- */

static void api_03_one_info_per_port(void **state)
{
	struct fi_info *info = get(NULL);

	(void)state;
	assert_listed(API, NULL, ALL);
	assert_string_equal(info->fabric_attr->name, "fake");
	assert_string_equal(info->fabric_attr->prov_name, "hmreg");
	assert_int_equal(info->fabric_attr->api_version, API);
	assert_int_equal(info->ep_attr->type, FI_EP_RDM);
	assert_int_equal(info->caps, FAKE_CAPS & ~FAKE_OPTIONAL);
	assert_int_equal(info->tx_attr->caps & (FI_RECV | FI_REMOTE_READ), 0);
	assert_int_equal(info->rx_attr->caps & (FI_SEND | FI_READ), 0);
	assert_int_equal(info->mode, 0);
	assert_int_equal(info->domain_attr->threading, FI_THREAD_SAFE);
	assert_int_equal(info->domain_attr->max_xpu_ctx_cnt, 0);
	assert_ptr_equal(hm_info_port(info), &first_list[0]);
	assert_ptr_equal(hm_info_port(info->next->next->next), &second_list[0]);
	assert_string_equal(info->nic->device_attr->name, "fake0");
	assert_null(info->nic->device_attr->driver);
	assert_int_equal(info->nic->bus_attr->attr.pci.bus_id, 5);
	assert_string_equal(info->nic->link_attr->network_type, "wire");
	assert_ptr_not_equal(info->nic->device_attr->name, device.name);
	assert_null(info->next->nic);
	fi_freeinfo(info);
	assert_null(hm_info_port(NULL));
}

static void api_02_versions(void **state)
{
	static const struct {
		uint32_t version;
		int ret;
	} cases[] = {
		{ FI_VERSION(2, 8), -FI_ENOSYS },
		{ FI_VERSION(3, 0), -FI_ENOSYS },
		{ UINT32_MAX, -FI_ENOSYS },
		{ 0, -FI_EINVAL },
		{ FI_VERSION(0, 9), -FI_EINVAL },
		{ FI_VERSION(1, 0), 0 },
		{ FI_VERSION(1, 5), 0 },
		{ FI_VERSION(2, 6), 0 },
		{ API, 0 },
	};

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		struct fi_info untouched, *info = &untouched;

		warning_count = 0;
		assert_int_equal(fi_getinfo(cases[i].version, NULL, NULL, 0, NULL, &info),
				 cases[i].ret);
		assert_int_equal(warning_count, cases[i].ret != 0);
		if (cases[i].ret) {
			assert_ptr_equal(info, &untouched);
			continue;
		}
		assert_int_equal(info->fabric_attr->api_version, cases[i].version);
		fi_freeinfo(info);
	}
}

static void api_03_every_answer_fits_as_hints(void **state)
{
	struct fi_info *info = get(NULL);

	(void)state;
	for (const struct fi_info *at = info; at; at = at->next) {
		struct fi_info *again = get(at);

		assert_string_equal(again->domain_attr->name, at->domain_attr->name);
		assert_null(again->next);
		assert_int_equal(again->caps, at->caps);
		assert_int_equal(again->domain_attr->mr_mode, at->domain_attr->mr_mode);
		assert_memory_equal(again->tx_attr, at->tx_attr, sizeof(*at->tx_attr));
		assert_memory_equal(again->rx_attr, at->rx_attr, sizeof(*at->rx_attr));
		fi_freeinfo(again);
	}
	fi_freeinfo(info);
}

static void provider_attributes_only(void **state)
{
	struct fi_info *hints = open_hints(), *info;

	(void)state;
	assert_int_equal(fi_getinfo(API, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &info), 0);
	assert_null(info->next);
	assert_string_equal(info->fabric_attr->prov_name, "hmreg");
	assert_int_not_equal(info->fabric_attr->prov_version, 0);
	assert_null(info->fabric_attr->name);
	assert_null(info->domain_attr->name);
	fi_freeinfo(info);
	hints->fabric_attr->prov_name = strdup("nobody");
	info = hints;
	assert_int_equal(fi_getinfo(API, NULL, NULL, FI_PROV_ATTR_ONLY, hints, &info), -FI_ENODATA);
	assert_null(info);
	fi_freeinfo(hints);
}

/* ---- registration modes ---- */

static const struct {
	uint32_t version;
	uint64_t mode;
	int mr_mode;
	const char *listed;
	int result; /* mr_mode of the first; -1: that of its port */
} modes[] = {
	{ API, 0, 0, "s", 0 },
	{ API, 0, FI_MR_LOCAL, "s", 0 },
	{ API, 0, BASICS, "sb", 0 },
	{ API, 0, FAKE_VERBS, "svb", 0 },
	{ API, 0, FAKE_STRICT, ALL, 0 },
	{ API, 0, FAKE_STRICT & ~FI_MR_RAW, "svb", 0 },
	{ API, 0, FAKE_VERBS & ~FI_MR_LOCAL & ~FI_MR_PROV_KEY, "s", 0 },
	{ API, 0, FI_MR_BASIC, "vb", FI_MR_BASIC },
	{ FI_VERSION(1, 5), 0, FI_MR_BASIC, "vb", FI_MR_BASIC },
	{ API, 0, FI_MR_SCALABLE, "s", FI_MR_SCALABLE },
	{ API, 0, FI_MR_BASIC | FI_MR_SCALABLE, "", 0 },
	{ API, 0, FI_MR_BASIC | FI_MR_LOCAL, "", 0 },
	{ API, 0, FI_MR_SCALABLE | FI_MR_VIRT_ADDR, "", 0 },
	/* below 1.5: local registration is FI_LOCAL_MR, and the answer is one of the two models */
	{ FI_VERSION(1, 4), 0, 0, "sb", FI_MR_SCALABLE },
	{ FI_VERSION(1, 4), FI_LOCAL_MR, 0, "svb", FI_MR_SCALABLE },
	{ FI_VERSION(1, 4), 0, FI_MR_BASIC, "b", FI_MR_BASIC },
	{ FI_VERSION(1, 4), FI_LOCAL_MR, FI_MR_BASIC, "vb", FI_MR_BASIC },
	{ FI_VERSION(1, 4), 0, FI_MR_SCALABLE, "s", FI_MR_SCALABLE },
	{ FI_VERSION(1, 4), FI_LOCAL_MR, FI_MR_BASIC | FI_MR_SCALABLE, "", 0 },
	{ FI_VERSION(1, 4), FI_LOCAL_MR, FAKE_VERBS, "", 0 },
};

static void mode_01_mode_12_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(modes); i++) {
		struct fi_info *hints = fi_allocinfo(), *info;

		hints->mode = modes[i].mode;
		hints->domain_attr->mr_mode = modes[i].mr_mode;
		assert_listed(modes[i].version, hints, modes[i].listed);
		if (*modes[i].listed) {
			assert_int_equal(fi_getinfo(modes[i].version, NULL, NULL, 0, hints, &info),
					 0);
			assert_int_equal(info->domain_attr->mr_mode, modes[i].result);
			fi_freeinfo(info);
		}
		fi_freeinfo(hints);
	}
}

/* The bits that a port does not need are cleared, the others stay. */
static void mode_01_result_is_what_the_port_needs(void **state)
{
	struct fi_info *hints = open_hints(), *info = get(hints);
	int expected[] = { 0, FAKE_VERBS, FAKE_STRICT, BASICS };
	size_t i = 0;

	(void)state;
	hints->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
	for (const struct fi_info *at = info; at; at = at->next)
		assert_int_equal(at->domain_attr->mr_mode, expected[i++]);
	fi_freeinfo(info);
	info = get(hints);
	i = 0;
	for (const struct fi_info *at = info; at; at = at->next)
		assert_int_equal(at->domain_attr->mr_mode, expected[i++]);
	assert_int_equal(i, 4);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void mode_01_no_domain_hints_no_filter(void **state)
{
	struct fi_info hints = { .caps = FI_MSG };

	(void)state;
	assert_listed(API, &hints, ALL);
	assert_listed(FI_VERSION(1, 4), NULL, "svb");
	assert_listed(FI_VERSION(1, 4), &hints, "sb");
}

static void mode_12_local_mr_below_1_5(void **state)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	(void)state;
	hints->mode = ~UINT64_C(0);
	hints->domain_attr->mr_mode = FI_MR_BASIC;
	assert_int_equal(fi_getinfo(FI_VERSION(1, 4), NULL, NULL, 0, hints, &info), 0);
	assert_string_equal(info->domain_attr->name, "verbs");
	assert_int_equal(info->mode, FI_LOCAL_MR);
	assert_int_equal(info->next->mode, 0);
	fi_freeinfo(info);
	assert_int_equal(fi_getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, &info), 0);
	assert_int_equal(info->mode, 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void mode_12_models_stand_alone(void **state)
{
	struct fi_info *hints = open_hints(), *info;

	(void)state;
	hints->domain_attr->mr_mode = FI_MR_BASIC | FI_MR_LOCAL;
	assert_refused(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

/* ---- capabilities ---- */

#define RMA_ALL (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static const struct {
	uint64_t asked, result; /* result 0: not listed */
} caps[] = {
	{ 0, FAKE_CAPS & ~FAKE_OPTIONAL },
	{ FI_MSG, FI_MSG | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_LOCAL_COMM },
	{ FI_MSG | FI_SEND, FI_MSG | FI_SEND | FI_LOCAL_COMM },
	{ FI_MSG | FI_SOURCE,
	  FI_MSG | FI_SEND | FI_RECV | FI_SOURCE | FI_MULTI_RECV | FI_LOCAL_COMM },
	{ FI_RMA, FI_RMA | RMA_ALL | FI_RMA_EVENT | FI_LOCAL_COMM },
	{ FI_RMA | FI_WRITE, FI_RMA | FI_WRITE | FI_LOCAL_COMM },
	{ FI_ATOMIC | FI_REMOTE_READ, FI_ATOMIC | FI_REMOTE_READ | FI_RMA_EVENT | FI_LOCAL_COMM },
	{ FI_MSG | FI_RMA | FI_FENCE | FI_DIRECTED_RECV,
	  FI_MSG | FI_SEND | FI_RECV | FI_RMA | RMA_ALL | FI_FENCE | FI_DIRECTED_RECV |
		  FI_MULTI_RECV | FI_RMA_EVENT | FI_LOCAL_COMM },
	{ FI_TAGGED, 0 },
	{ FI_MSG | FI_HMEM, 0 },
	{ FI_MSG | FI_REMOTE_COMM, 0 },
	{ FI_MSG | FI_READ, 0 },
	{ FI_RMA | FI_SEND, 0 },
	{ UINT64_C(1) << 60, 0 },
};

static void api_03_caps_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < count_of(caps); i++) {
		struct fi_info *hints = open_hints(), *info;

		hints->caps = caps[i].asked;
		assert_listed(API, hints, caps[i].result ? ALL : "");
		if (caps[i].result) {
			info = get(hints);
			assert_int_equal(info->caps, caps[i].result);
			assert_int_equal(info->tx_attr->caps & ~info->caps, 0);
			assert_int_equal(info->rx_attr->caps & ~info->caps, 0);
			fi_freeinfo(info);
		}
		fi_freeinfo(hints);
	}
}

static void api_03_caps_of_one_side(void **state)
{
	struct fi_info *hints = open_hints(), *info;

	(void)state;
	hints->caps = FI_MSG | FI_RMA | FI_WRITE;
	hints->tx_attr->caps = FI_MSG;
	info = get(hints);
	assert_int_equal(info->tx_attr->caps, FI_MSG | FI_SEND);
	assert_int_equal(info->rx_attr->caps, FI_MSG | FI_RECV | FI_MULTI_RECV);
	fi_freeinfo(info);
	hints->tx_attr->caps = FI_MSG | FI_ATOMIC;
	assert_listed(API, hints, "");
	hints->tx_attr->caps = FI_MSG | FI_RECV;
	assert_listed(API, hints, "");
	fi_freeinfo(hints);
}

/* ---- single fields ---- */

#define AT(attr, member)                                                                           \
	{                                                                                          \
#member, offsetof(struct fi_info, attr), offsetof(struct fi_##attr, member)        \
	}

static const struct {
	const char *name;
	size_t attr, member;
} limits[] = {
	AT(tx_attr, inject_size),
	AT(tx_attr, size),
	AT(tx_attr, iov_limit),
	AT(tx_attr, rma_iov_limit),
	AT(rx_attr, size),
	AT(rx_attr, iov_limit),
	AT(ep_attr, max_msg_size),
	AT(ep_attr, max_order_raw_size),
	AT(ep_attr, max_order_war_size),
	AT(ep_attr, max_order_waw_size),
	AT(ep_attr, tx_ctx_cnt),
	AT(ep_attr, rx_ctx_cnt),
	AT(ep_attr, auth_key_size),
	AT(ep_attr, msg_prefix_size),
	AT(domain_attr, mr_key_size),
	AT(domain_attr, cq_data_size),
	AT(domain_attr, cq_cnt),
	AT(domain_attr, ep_cnt),
	AT(domain_attr, tx_ctx_cnt),
	AT(domain_attr, rx_ctx_cnt),
	AT(domain_attr, max_ep_tx_ctx),
	AT(domain_attr, max_ep_rx_ctx),
	AT(domain_attr, max_ep_stx_ctx),
	AT(domain_attr, max_ep_srx_ctx),
	AT(domain_attr, cntr_cnt),
	AT(domain_attr, mr_iov_limit),
	AT(domain_attr, auth_key_size),
	AT(domain_attr, max_err_data),
	AT(domain_attr, mr_cnt),
	AT(domain_attr, max_ep_auth_key),
	AT(domain_attr, max_xpu_ctx_cnt),
};

/* What is offered, or less, is granted in full; one more is not. */
static void api_03_limits_table(void **state)
{
	struct fi_info *offer;
	struct fi_info *hints = open_hints();

	(void)state;
	hints->domain_attr->name = strdup("scalable");
	offer = get(hints);
	for (size_t i = 0; i < count_of(limits); i++) {
		char *attr = *(char **)((char *)hints + limits[i].attr);
		const char *from = *(char **)((char *)offer + limits[i].attr);
		size_t offered, result;
		struct fi_info *info;

		memcpy(&offered, from + limits[i].member, sizeof(offered));
		for (size_t less = 0; less < 2 && less < offered; less++) {
			size_t asked = offered - less;

			memcpy(attr + limits[i].member, &asked, sizeof(asked));
			info = get(hints);
			memcpy(&result,
			       *(char **)((char *)info + limits[i].attr) + limits[i].member,
			       sizeof(result));
			assert_int_equal(result, offered);
			fi_freeinfo(info);
		}
		offered++;
		memcpy(attr + limits[i].member, &offered, sizeof(offered));
		assert_listed(API, hints, "");
		offered = 0;
		memcpy(attr + limits[i].member, &offered, sizeof(offered));
	}
	fi_freeinfo(offer);
	fi_freeinfo(hints);
}

#define WITH(listed_ports, statement)                                                              \
	do {                                                                                       \
		struct fi_info *h = open_hints();                                                  \
		statement;                                                                         \
		assert_listed(API, h, listed_ports);                                               \
		fi_freeinfo(h);                                                                    \
	} while (0)

static void api_03_single_fields(void **state)
{
	(void)state;
	WITH(ALL, h->ep_attr->type = FI_EP_RDM);
	WITH("", h->ep_attr->type = FI_EP_MSG);
	WITH("", h->ep_attr->type = FI_EP_DGRAM);
	WITH("", h->ep_attr->type = (enum fi_ep_type)77);
	WITH(ALL, h->ep_attr->protocol = FI_PROTO_SHM);
	WITH("", h->ep_attr->protocol = FI_PROTO_UDP);
	WITH("", h->ep_attr->protocol_version = 2);
	WITH("", h->ep_attr->xpu_ctx = (struct fid_xpu_ctx *)h);
	WITH("", h->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT);
	WITH(ALL, h->addr_format = FI_SOCKADDR);
	WITH(ALL, h->addr_format = FI_SOCKADDR_IN);
	WITH("", h->addr_format = FI_SOCKADDR_IN6);
	WITH("svt", h->fabric_attr->name = strdup("fake"));
	WITH("", h->fabric_attr->name = strdup("Fake"));
	WITH("v", h->domain_attr->name = strdup("verbs"));
	WITH("", h->domain_attr->name = strdup("verbs2"));
	WITH(ALL, h->fabric_attr->prov_name = strdup("hmreg"));
	WITH("", h->fabric_attr->prov_name = strdup("tcp"));
	WITH(ALL, h->domain_attr->threading = FI_THREAD_DOMAIN);
	WITH("", h->domain_attr->threading = (enum fi_threading)99);
	WITH(ALL, h->domain_attr->data_progress = FI_PROGRESS_MANUAL);
	WITH(ALL, h->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED);
	WITH("", h->domain_attr->control_progress = (enum fi_progress)4);
	WITH(ALL, h->domain_attr->resource_mgmt = FI_RM_DISABLED);
	WITH("", h->domain_attr->resource_mgmt = (enum fi_resource_mgmt)3);
	WITH(ALL, h->domain_attr->av_type = FI_AV_MAP);
	WITH("", h->domain_attr->av_type = (enum fi_av_type)3);
	WITH("", h->domain_attr->max_group_id = 1);
	WITH(ALL, h->domain_attr->tclass = FI_TC_BULK_DATA);
	WITH(ALL, h->domain_attr->caps = FI_LOCAL_COMM);
	WITH("", h->domain_attr->caps = FI_REMOTE_COMM);
	WITH(ALL, h->tx_attr->msg_order = FI_ORDER_SAS);
	WITH("", h->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_RAR);
	WITH("", h->rx_attr->msg_order = FI_ORDER_RAR);
	WITH("", h->rx_attr->comp_order = FI_ORDER_STRICT);
	WITH(ALL, h->tx_attr->op_flags = FI_COMPLETION | FI_INJECT | FI_DELIVERY_COMPLETE);
	WITH("", h->tx_attr->op_flags = FI_COMMIT_COMPLETE);
	WITH(ALL, h->rx_attr->op_flags = FI_MULTI_RECV);
	WITH("", h->rx_attr->op_flags = FI_INJECT);
}

static void answers_follow_hints(void **state)
{
	struct fi_info *hints = open_hints(), *info;

	(void)state;
	info = get(hints);
	assert_int_equal(info->domain_attr->av_type, FI_AV_TABLE);
	fi_freeinfo(info);
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	hints->tx_attr->size = 10;
	info = get(hints);
	assert_int_equal(info->domain_attr->av_type, FI_AV_MAP);
	assert_int_equal(info->domain_attr->threading, FI_THREAD_SAFE);
	assert_int_equal(info->tx_attr->op_flags, FI_DELIVERY_COMPLETE);
	assert_int_equal(info->tx_attr->size, 1024);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void open_objects_select_their_port(void **state)
{
	struct hm_fabric fabric = { .fabric.fid.fclass = FI_CLASS_FABRIC, .name = "other" };
	struct nic_domain nic = { .port = &first_list[1] };
	struct hm_domain domain = { .domain.fid.fclass = FI_CLASS_DOMAIN, .nic = &nic };
	struct fi_info *hints = open_hints(), *info;

	(void)state;
	hints->fabric_attr->fabric = &fabric.fabric;
	assert_listed(API, hints, "b");
	info = get(hints);
	assert_ptr_equal(info->fabric_attr->fabric, &fabric.fabric);
	fi_freeinfo(info);
	hints->fabric_attr->fabric = NULL;
	hints->domain_attr->domain = &domain.domain;
	assert_listed(API, hints, "v");
	hints->domain_attr->domain = (struct fid_domain *)&fabric.fabric;
	assert_refused(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_EINVAL);
	fi_freeinfo(hints);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_03_one_info_per_port),
		cmocka_unit_test(api_02_versions),
		cmocka_unit_test(api_03_every_answer_fits_as_hints),
		cmocka_unit_test(provider_attributes_only),
		cmocka_unit_test(mode_01_mode_12_table),
		cmocka_unit_test(mode_01_result_is_what_the_port_needs),
		cmocka_unit_test(mode_01_no_domain_hints_no_filter),
		cmocka_unit_test(mode_12_local_mr_below_1_5),
		cmocka_unit_test(mode_12_models_stand_alone),
		cmocka_unit_test(api_03_caps_table),
		cmocka_unit_test(api_03_caps_of_one_side),
		cmocka_unit_test(api_03_limits_table),
		cmocka_unit_test(api_03_single_fields),
		cmocka_unit_test(answers_follow_hints),
		cmocka_unit_test(open_objects_select_their_port),
	};

	nics_only();
	nics_register();
	return cmocka_run_group_tests(tests, warnings_start, warnings_stop);
}
