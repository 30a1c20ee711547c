/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory, locks and descriptors fail one by one while objects are opened: API-20, item 8. */
#include <errno.h>
#include <netinet/in.h>

#include "tests/fault/fault.h"

/* An output must be written by success alone. */
#define FAILED(expression, out) ((expression) != 0 && (assert_ptr_equal(out, UNTOUCHED), true))

/* ---- infos ---- */

static int run_getinfo(struct scene *s)
{
	struct fi_info *info = UNTOUCHED;
	int ret = fi_getinfo(FAULT_VERSION, "127.0.0.1", "7", 0, NULL, &info);

	if (ret)
		assert_ptr_equal(info, UNTOUCHED);
	else
		s->info = info;
	return ret;
}

static int run_attr_only(struct scene *s)
{
	struct fi_info *info = UNTOUCHED;
	int ret = fi_getinfo(FAULT_VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &info);

	if (ret)
		assert_ptr_equal(info, UNTOUCHED);
	else
		s->info = info;
	return ret;
}

static void undo_info(struct scene *s)
{
	assert_string_equal(s->info->fabric_attr->prov_name, "hmreg");
	fi_freeinfo(s->info);
	s->info = NULL;
}

static int run_dupinfo(struct scene *s)
{
	struct fi_info *copy = fi_dupinfo(s->info);

	s->ptr = copy;
	return copy ? 0 : -FI_ENOMEM;
}

static void undo_dupinfo(struct scene *s)
{
	struct fi_info *copy = s->ptr;

	assert_string_equal(copy->domain_attr->name, s->profile);
	assert_string_equal(copy->nic->device_attr->name, s->info->nic->device_attr->name);
	fi_freeinfo(copy);
}

static int run_params(struct scene *s)
{
	struct fi_param *params = UNTOUCHED;
	int count = -7, ret = fi_getparams(&params, &count);

	if (ret) {
		assert_ptr_equal(params, UNTOUCHED);
		assert_int_equal(count, -7);
	} else {
		s->ptr = params;
		s->n = (size_t)count;
	}
	return ret;
}

static void undo_params(struct scene *s)
{
	assert_true(s->n > 5);
	fi_freeparams(s->ptr);
}

/* ---- queues, counters, vectors ---- */

static int open_eq(struct scene *s, enum fi_wait_obj wait_obj)
{
	struct fi_eq_attr attr = { .wait_obj = wait_obj, .flags = FI_WRITE };
	struct fid_eq *eq = UNTOUCHED;
	int ret = fi_eq_open(s->fabric, &attr, &eq, NULL);

	if (!FAILED(ret, eq))
		s->ptr = &eq->fid;
	return ret;
}

static int open_cq(struct scene *s, enum fi_wait_obj wait_obj)
{
	struct fi_cq_attr attr = { .wait_obj = wait_obj, .size = 100 };
	struct fid_cq *cq = UNTOUCHED;
	int ret = fi_cq_open(s->domain, &attr, &cq, NULL);

	if (!FAILED(ret, cq))
		s->ptr = &cq->fid;
	return ret;
}

static int open_cntr(struct scene *s, enum fi_wait_obj wait_obj)
{
	struct fi_cntr_attr attr = { .wait_obj = wait_obj };
	struct fid_cntr *cntr = UNTOUCHED;
	int ret = fi_cntr_open(s->domain, &attr, &cntr, NULL);

	if (!FAILED(ret, cntr))
		s->ptr = &cntr->fid;
	return ret;
}

#define RUN_OPEN(object)                                                                           \
	static int run_##object##_sleep(struct scene *s)                                           \
	{                                                                                          \
		return open_##object(s, FI_WAIT_UNSPEC);                                           \
	}                                                                                          \
	static int run_##object##_fd(struct scene *s)                                              \
	{                                                                                          \
		return open_##object(s, FI_WAIT_FD);                                               \
	}
RUN_OPEN(eq)
RUN_OPEN(cq)
RUN_OPEN(cntr)

static int run_av(struct scene *s)
{
	struct fi_av_attr attr = { .type = FI_AV_MAP, .count = 1000 };
	struct fid_av *av = UNTOUCHED;
	int ret = fi_av_open(s->domain, &attr, &av, NULL);

	if (!FAILED(ret, av))
		s->ptr = &av->fid;
	return ret;
}

static void undo_fid(struct scene *s)
{
	assert_int_equal(fi_close(s->ptr), 0);
}

/* ---- from fabric to endpoint ---- */

static int run_domain(struct scene *s)
{
	struct fid_domain *domain = UNTOUCHED;
	int ret = fi_domain(s->fabric, s->info, &domain, NULL);

	if (!FAILED(ret, domain))
		s->ptr = &domain->fid;
	return ret;
}

static int run_endpoint(struct scene *s)
{
	struct fid_ep *ep = UNTOUCHED;
	int ret = fi_endpoint(s->domain, s->info, &ep, NULL);

	if (!FAILED(ret, ep))
		s->ptr = &ep->fid;
	return ret;
}

/* Endpoints of a domain of their own, from nothing: what an application does when it starts. */
struct chain {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
};

static struct chain chain;

static void close_chain(void)
{
	struct fid *fids[] = { chain.ep ? &chain.ep->fid : NULL, chain.cq ? &chain.cq->fid : NULL,
			       chain.av ? &chain.av->fid : NULL,
			       chain.domain ? &chain.domain->fid : NULL,
			       chain.fabric ? &chain.fabric->fid : NULL };

	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++)
		if (fids[i])
			assert_int_equal(fi_close(fids[i]), 0);
	memset(&chain, 0, sizeof(chain));
}

static int run_chain(struct scene *s)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .wait_obj = FI_WAIT_FD };
	int ret = fi_fabric(s->info->fabric_attr, &chain.fabric, NULL);

	if (!ret)
		ret = fi_domain(chain.fabric, s->info, &chain.domain, NULL);
	if (!ret)
		ret = fi_av_open(chain.domain, &av_attr, &chain.av, NULL);
	if (!ret)
		ret = fi_cq_open(chain.domain, &cq_attr, &chain.cq, NULL);
	if (!ret)
		ret = fi_endpoint(chain.domain, s->info, &chain.ep, NULL);
	if (!ret)
		ret = fi_ep_bind(chain.ep, &chain.av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(chain.ep, &chain.cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_enable(chain.ep);
	if (ret)
		close_chain();
	return ret;
}

static void undo_chain(struct scene *s)
{
	struct fid_mr *mr;

	assert_int_equal(fi_mr_reg(chain.domain, s->src, 8, FI_SEND, 0, 1, 0, &mr, NULL), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	close_chain();
}

/* The page of virtual ports that the first endpoint in it brings, which then stays. */
static void api_20_no_memory_for_a_virtual_port(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(256), /* the setup leaves this page out */
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct fid_ep *ep = UNTOUCHED;
	struct mark mark, end;
	struct scene s;
	unsigned n = 0;
	bool came;

	(void)state;
	scene_open(&s, "sw-verbs", 0);
	free(s.info->src_addr);
	s.info->src_addr = &in;
	s.info->src_addrlen = sizeof(in);
	mark = fault_mark(&s);
	fault_lines();
	do {
		int ret;

		fault_arm(FAULT_MEMORY, ++n, 0);
		ret = fi_endpoint(s.domain, s.info, &ep, NULL);
		came = fault_disarm();
		assert_int_equal(ret, came ? -FI_ENOMEM : 0);
		assert_int_equal(fault_lines(), came);
		if (came) {
			assert_ptr_equal(ep, UNTOUCHED);
			fault_check_mark(&mark, &s, false);
		}
	} while (came);
	assert_int_equal(n, 4); /* the endpoint, the NIC's part, the page */
	assert_int_equal(fi_close(&ep->fid), 0);
	end = fault_mark(&s);
	assert_int_equal(end.live, mark.live + 1);
	s.info->src_addr = NULL;
	scene_close(&s);
}

#define BOTH (FAULT_MEMORY | FAULT_LOCK)
#define OPENS(title, how, undoing)                                                                 \
	{                                                                                          \
		.name = title, .kinds = BOTH, .code = -FI_ENOMEM, .lines = 1, .run = how,          \
		.undo = undoing                                                                    \
	}
#define ASKS(title, how, undoing, without)                                                         \
	{                                                                                          \
		.name = title, .kinds = FAULT_MEMORY, .code = -FI_ENOMEM, .lines = 1,              \
		.no_scene = without, .run = how, .undo = undoing                                   \
	}
#define NO_FD(title, how, error, answer)                                                           \
	{                                                                                          \
		.name = title, .kinds = FAULT_FD, .fd_errno = error, .code = answer, .lines = 1,   \
		.run = how, .undo = undo_fid                                                       \
	}

static struct scenario scenarios[] = {
	ASKS("api_20_no_memory_getinfo", run_getinfo, undo_info, true),
	ASKS("api_20_no_memory_getinfo_attr_only", run_attr_only, undo_info, true),
	ASKS("api_20_no_memory_dupinfo", run_dupinfo, undo_dupinfo, false),
	ASKS("api_20_no_memory_getparams", run_params, undo_params, true),
	ASKS("api_20_no_memory_domain", run_domain, undo_fid, false),
	ASKS("api_20_no_memory_endpoint", run_endpoint, undo_fid, false),
	ASKS("api_20_no_memory_fabric_to_endpoint", run_chain, undo_chain, false),
	OPENS("api_20_no_memory_av", run_av, undo_fid),
	OPENS("api_20_no_memory_eq", run_eq_sleep, undo_fid),
	OPENS("api_20_no_memory_cq", run_cq_sleep, undo_fid),
	OPENS("api_20_no_memory_cntr", run_cntr_sleep, undo_fid),
	OPENS("api_20_no_memory_eq_fd", run_eq_fd, undo_fid),
	OPENS("api_20_no_memory_cq_fd", run_cq_fd, undo_fid),
	OPENS("api_20_no_memory_cntr_fd", run_cntr_fd, undo_fid),
	NO_FD("api_20_no_descriptor_eq", run_eq_fd, EMFILE, -FI_EMFILE),
	NO_FD("api_20_no_descriptor_cq", run_cq_fd, EMFILE, -FI_EMFILE),
	NO_FD("api_20_no_descriptor_cntr", run_cntr_fd, ENFILE, -FI_EMFILE),
	NO_FD("api_20_no_kernel_memory_cq", run_cq_fd, ENOMEM, -FI_ENOMEM),
};

#define SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

int main(void)
{
	struct CMUnitTest tests[SCENARIOS + 1] = { cmocka_unit_test(
		api_20_no_memory_for_a_virtual_port) };

	for (size_t i = 0; i < SCENARIOS; i++)
		tests[i + 1] = (struct CMUnitTest){ scenarios[i].name, fault_each, NULL, NULL,
						    &scenarios[i] };
	return cmocka_run_group_tests_name("fault_objects", tests, fault_group_setup,
					   fault_group_teardown);
}
