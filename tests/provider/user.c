/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plug-in as a program of an installed libfabric sees it: built with that one's headers, whose structures
 * end where they end.  Each is handed over in front of a page that cannot be touched.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "user.h"

#define VERSION	 FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)
#define LEN	 65536
#define ok(call) assert_int_equal(call, 0)

/* ---- structures at the end of what there is ---- */

struct room {
	char *pages;
	size_t page;
};

static void *at_end(struct room *room, const void *src, size_t len)
{
	char *end;

	room->page = (size_t)sysconf(_SC_PAGESIZE);
	room->pages = mmap(NULL, 2 * room->page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(room->pages, MAP_FAILED);
	end = room->pages + room->page;
	ok(mprotect(end, room->page, PROT_NONE));
	return memcpy(end - len, src, len);
}

static void drop(struct room *room)
{
	ok(munmap(room->pages, 2 * room->page));
}

/* ---- infos ---- */

static struct fi_info *get(const char *domain)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	assert_non_null(hints);
	hints->fabric_attr->prov_name = strdup("hmreg");
	hints->domain_attr->name = domain ? strdup(domain) : NULL;
	hints->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
	hints->mode = ~0ULL;
	ok(fi_getinfo(VERSION, NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	return info;
}

static size_t count(const struct fi_info *info, const char *fabric)
{
	size_t n = 0;

	for (; info; info = info->next)
		n += strcmp(info->fabric_attr->name, fabric) == 0;
	return n;
}

static void lists_its_domains(void **state)
{
	struct fi_info *list = get(NULL), *info;

	(void)state;
	assert_int_equal(count(list, "hmreg-sw"), 4);
	for (info = list; info; info = info->next) {
		assert_string_equal(info->fabric_attr->prov_name, "hmreg");
		assert_int_equal(info->fabric_attr->api_version, VERSION);
		assert_int_equal(info->caps & ~(info->tx_attr->caps | info->rx_attr->caps |
						info->domain_attr->caps),
				 0);
		assert_non_null(info->nic);
		assert_non_null(strstr(fi_tostr(info, FI_TYPE_INFO), info->domain_attr->name));
	}
	fi_freeinfo(list);
}

/* libfabric's own copy of what the plug-in made, which lives longer. */
static void infos_are_copied_and_freed(void **state)
{
	struct fi_info *info = get("sw-verbs"), *copy = fi_dupinfo(info);

	(void)state;
	assert_null(info->next);
	fi_freeinfo(info);
	assert_string_equal(copy->domain_attr->name, "sw-verbs");
	assert_string_equal(copy->nic->device_attr->vendor_id, "hmreg");
	assert_non_null(copy->src_addr);
	fi_freeinfo(copy);
}

/* Who takes the first entry must not get a NIC that does not reach beyond the process. */
static void software_nic_is_for_who_names_it(void **state)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	(void)state;
	hints->caps = FI_MSG | FI_RMA;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
	if (fi_getinfo(VERSION, NULL, NULL, 0, hints, &info) == 0)
		assert_int_equal(count(info, "hmreg-sw"), 0);
	fi_freeinfo(info);
	hints->fabric_attr->name = strdup("hmreg-sw");
	ok(fi_getinfo(VERSION, NULL, NULL, 0, hints, &info));
	assert_int_equal(count(info, "hmreg-sw"), 4);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void nothing_of_another_name(void **state)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	(void)state;
	hints->fabric_attr->prov_name = strdup("hmreg");
	hints->domain_attr->name = strdup("no-such-domain");
	assert_int_equal(fi_getinfo(VERSION, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	assert_int_equal(fi_getinfo(VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &info), 0);
	for (struct fi_info *at = info; at; at = at->next)
		if (strcmp(at->fabric_attr->prov_name, "hmreg") == 0)
			goto listed;
	fail_msg("libfabric does not list the provider");
listed:
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

/* ---- two endpoints ---- */

struct end {
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_mr *mr;
	fi_addr_t peer;
	char *buf;
};

struct pair {
	struct fi_info *info; /* its attributes end where memory ends */
	struct fi_domain_attr *domain_attr;
	struct fi_ep_attr *ep_attr;
	struct room room[2];
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct end end[2];
};

static struct fid_mr *reg(struct fid_domain *domain, void *buf, uint64_t key)
{
	struct iovec iov = { buf, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = FI_REMOTE_READ | FI_REMOTE_WRITE | FI_READ | FI_WRITE |
					     FI_SEND | FI_RECV,
				   .requested_key = key };
	struct room room;
	struct fid_mr *mr;

	ok(fi_mr_regattr(domain, at_end(&room, &attr, sizeof(attr)), 0, &mr));
	drop(&room);
	return mr;
}

static void open_end(struct pair *pair, struct end *end, uint64_t key)
{
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };
	struct room room;

	ok(fi_endpoint(pair->domain, pair->info, &end->ep, NULL));
	ok(fi_av_open(pair->domain, &av, &end->av, NULL));
	ok(fi_cq_open(pair->domain, at_end(&room, &cq, sizeof(cq)), &end->cq, NULL));
	drop(&room);
	ok(fi_ep_bind(end->ep, &end->av->fid, 0));
	ok(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
	ok(fi_enable(end->ep));
	end->buf = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(end->buf, MAP_FAILED);
	end->mr = reg(pair->domain, end->buf, key);
}

static void open_pair(struct pair *pair, const char *domain)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };
	struct fid_cntr *cntr;
	struct room room;

	pair->info = get(domain);
	pair->domain_attr = pair->info->domain_attr;
	pair->ep_attr = pair->info->ep_attr;
	pair->info->domain_attr =
		at_end(&pair->room[0], pair->domain_attr, sizeof(struct fi_domain_attr));
	pair->info->ep_attr = at_end(&pair->room[1], pair->ep_attr, sizeof(struct fi_ep_attr));
	ok(fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL));
	ok(fi_domain(pair->fabric, pair->info, &pair->domain, NULL));
	ok(fi_cntr_open(pair->domain, at_end(&room, &attr, sizeof(attr)), &cntr, NULL));
	ok(fi_close(&cntr->fid));
	drop(&room);
	for (uint64_t i = 0; i < 2; i++)
		open_end(pair, &pair->end[i], i + 1);
	for (int i = 0; i < 2; i++) {
		char name[128];
		size_t len = sizeof(name);

		ok(fi_getname(&pair->end[1 - i].ep->fid, name, &len));
		assert_int_equal(
			fi_av_insert(pair->end[i].av, name, 1, &pair->end[i].peer, 0, NULL), 1);
	}
}

static void close_pair(struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		struct end *end = &pair->end[i];

		ok(fi_close(&end->ep->fid));
		if (end->mr)
			ok(fi_close(&end->mr->fid));
		ok(fi_close(&end->cq->fid));
		ok(fi_close(&end->av->fid));
		munmap(end->buf, LEN);
	}
	ok(fi_close(&pair->domain->fid));
	ok(fi_close(&pair->fabric->fid));
	pair->info->domain_attr = pair->domain_attr;
	pair->info->ep_attr = pair->ep_attr;
	for (int i = 0; i < 2; i++)
		drop(&pair->room[i]);
	fi_freeinfo(pair->info);
}

/* The first completion; what it is an error of, or 0. */
static int completes(struct fid_cq *cq, void *context)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = { 0 }, *at;
	struct room room;
	ssize_t ret = fi_cq_sread(cq, &entry, 1, NULL, 10000);

	if (ret == 1) {
		assert_ptr_equal(entry.op_context, context);
		return 0;
	}
	assert_int_equal(ret, -FI_EAVAIL);
	at = at_end(&room, &error, sizeof(error));
	assert_int_equal(fi_cq_readerr(cq, at, 0), 1);
	assert_ptr_equal(at->op_context, context);
	ret = at->err;
	drop(&room);
	return (int)ret;
}

static uint64_t remote(const struct pair *pair, const struct end *end)
{
	return pair->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)end->buf : 0;
}

static void moves_between_two_endpoints(const char *domain)
{
	struct pair pair;
	struct end *a = &pair.end[0], *b = &pair.end[1];
	int context;

	open_pair(&pair, domain);
	memset(a->buf, 0x5a, LEN);
	ok(fi_write(a->ep, a->buf, LEN, fi_mr_desc(a->mr), a->peer, remote(&pair, b),
		    fi_mr_key(b->mr), &context));
	ok(completes(a->cq, &context));
	assert_memory_equal(a->buf, b->buf, LEN);
	ok(fi_write(a->ep, a->buf, LEN, fi_mr_desc(a->mr), a->peer, remote(&pair, b) + 1,
		    fi_mr_key(b->mr), &context));
	assert_int_not_equal(completes(a->cq, &context), 0);
	ok(fi_recv(b->ep, b->buf, LEN, fi_mr_desc(b->mr), FI_ADDR_UNSPEC, &context));
	memset(a->buf, 0xa5, LEN);
	ok(fi_send(a->ep, a->buf, LEN, fi_mr_desc(a->mr), a->peer, &context));
	ok(completes(a->cq, &context));
	ok(completes(b->cq, &context));
	assert_memory_equal(a->buf, b->buf, LEN);
	close_pair(&pair);
}

static void moves_on_sw_verbs(void **state)
{
	(void)state;
	moves_between_two_endpoints("sw-verbs");
}

static void moves_on_sw_scalable(void **state)
{
	(void)state;
	moves_between_two_endpoints("sw-scalable");
}

/* The handler that was there before CMocka's, which replaces it for each test. */
static struct sigaction on_fault;

/* Memory that is gone: an error completion, whoever else in the process has a handler for the fault. */
static void survives_memory_that_is_gone(void **state)
{
	struct pair pair;
	struct end *a = &pair.end[0], *b = &pair.end[1];
	int context;

	(void)state;
	ok(sigaction(SIGSEGV, &on_fault, NULL));
	open_pair(&pair, "sw-scalable");
	ok(mprotect(a->buf, LEN, PROT_NONE));
	ok(fi_write(a->ep, a->buf, LEN, fi_mr_desc(a->mr), a->peer, remote(&pair, b),
		    fi_mr_key(b->mr), &context));
	assert_int_not_equal(completes(a->cq, &context), 0);
	close_pair(&pair);
}

/* A provider of libfabric's own, which a function of the same name must not keep from working. */
static void other_providers_work_as_before(void **state)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;

	(void)state;
	hints->fabric_attr->prov_name = strdup("udp");
	ok(fi_getinfo(VERSION, NULL, NULL, 0, hints, &info));
	ok(fi_fabric(info->fabric_attr, &fabric, NULL));
	ok(fi_domain(fabric, info, &domain, NULL));
	ok(fi_close(&domain->fid));
	ok(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

int provider_cases(void)
{
	static const struct CMUnitTest cases[] = {
		cmocka_unit_test(lists_its_domains),
		cmocka_unit_test(infos_are_copied_and_freed),
		cmocka_unit_test(software_nic_is_for_who_names_it),
		cmocka_unit_test(nothing_of_another_name),
		cmocka_unit_test(moves_on_sw_verbs),
		cmocka_unit_test(moves_on_sw_scalable),
		cmocka_unit_test(survives_memory_that_is_gone),
		cmocka_unit_test(other_providers_work_as_before),
	};

	static bool again;

	/* the first use of a domain installs it */
	moves_between_two_endpoints("sw-scalable");
	if (!again)
		sigaction(SIGSEGV, NULL, &on_fault);
	again = true;
	return cmocka_run_group_tests_name("provider", cases, NULL, NULL);
}
