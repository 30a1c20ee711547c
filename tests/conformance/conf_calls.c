/* SPDX-License-Identifier: BSD-2-Clause */
/* API-01: exported symbols, full tables, and a refusal in every slot that is not offered. */
#include <dlfcn.h>

#include <rdma/fi_collective.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_xpu.h>

#include "tests/conformance/harness.h"

static void api_01_symbol_versions(struct conf *c)
{
	static const struct {
		const char *name, *version;
	} symbols[] = {
		{ "fi_getinfo", "FABRIC_1.10" },    { "fi_freeinfo", "FABRIC_1.10" },
		{ "fi_dupinfo", "FABRIC_1.10" },    { "fi_fabric", "FABRIC_1.1" },
		{ "fi_fabric2", "FABRIC_1.8" },	    { "fi_open", "FABRIC_1.5" },
		{ "fi_tostr_r", "FABRIC_1.4" },	    { "fi_log_ready", "FABRIC_1.6" },
		{ "fi_version", "FABRIC_1.0" },	    { "fi_strerror", "FABRIC_1.0" },
		{ "fi_tostr", "FABRIC_1.0" },	    { "fi_log", "FABRIC_1.0" },
		{ "fi_log_enabled", "FABRIC_1.0" }, { "fi_param_define", "FABRIC_1.0" },
		{ "fi_param_get", "FABRIC_1.0" },   { "fi_getparams", "FABRIC_1.0" },
		{ "fi_freeparams", "FABRIC_1.0" },
	};

	(void)c;
	for (size_t i = 0; i < count_of(symbols); i++) {
		void *versioned = dlvsym(RTLD_DEFAULT, symbols[i].name, symbols[i].version);

		if (!versioned)
			fail_msg("%s is not exported as %s", symbols[i].name, symbols[i].version);
		assert_ptr_equal(versioned, dlsym(RTLD_DEFAULT, symbols[i].name));
	}
	/* what is not listed stays inside */
	assert_null(dlsym(RTLD_DEFAULT, "hm_init"));
	assert_null(dlsym(RTLD_DEFAULT, "sw_nic_ops"));
	assert_int_equal(fi_version(), FI_VERSION(2, 7));
}

/* A table is its size, then nothing but slots. */
static void check_table(const void *table, size_t size, const char *name)
{
	const size_t *said = table;
	void (*slot)(void);

	if (!table || *said != size)
		fail_msg("%s: size %zu, expected %zu", name, table ? *said : 0, size);
	for (size_t at = sizeof(size_t); at < size; at += sizeof(slot)) {
		memcpy(&slot, (const char *)table + at, sizeof(slot));
		if (!slot)
			fail_msg("%s: the slot at %zu is NULL", name, at);
	}
}

#define CHECK_TABLE(ops, type) check_table(ops, sizeof(struct type), #type)

static void api_01_tables_are_full(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct conf_region *region = conf_reg(end, conf_alloc(c, 64), 64, CONF_ALL);
	struct fid_cntr *cntr;
	struct fid_eq *eq;

	assert_ok(fi_cntr_open(end->domain, &(struct fi_cntr_attr){ 0 }, &cntr, NULL));
	assert_ok(fi_eq_open(end->fabric, &(struct fi_eq_attr){ 0 }, &eq, NULL));
	struct {
		struct fid *fid;
		size_t fclass;
		void *context;
	} fids[] = {
		{ &end->fabric->fid, FI_CLASS_FABRIC, end },
		{ &eq->fid, FI_CLASS_EQ, NULL },
		{ &end->domain->fid, FI_CLASS_DOMAIN, end },
		{ &end->av->fid, FI_CLASS_AV, end },
		{ &end->tx->fid, FI_CLASS_CQ, end },
		{ &cntr->fid, FI_CLASS_CNTR, NULL },
		{ &end->ep->fid, FI_CLASS_EP, end },
		{ &region->mr->fid, FI_CLASS_MR, NULL },
	};

	for (size_t i = 0; i < count_of(fids); i++) {
		CHECK_TABLE(fids[i].fid->ops, fi_ops);
		assert_int_equal(fids[i].fid->fclass, fids[i].fclass);
		assert_ptr_equal(fids[i].fid->context, fids[i].context);
	}
	CHECK_TABLE(end->fabric->ops, fi_ops_fabric);
	CHECK_TABLE(end->domain->ops, fi_ops_domain);
	CHECK_TABLE(end->domain->mr, fi_ops_mr);
	CHECK_TABLE(end->av->ops, fi_ops_av);
	CHECK_TABLE(end->tx->ops, fi_ops_cq);
	CHECK_TABLE(cntr->ops, fi_ops_cntr);
	CHECK_TABLE(eq->ops, fi_ops_eq);
	CHECK_TABLE(end->ep->ops, fi_ops_ep);
	CHECK_TABLE(end->ep->cm, fi_ops_cm);
	CHECK_TABLE(end->ep->msg, fi_ops_msg);
	CHECK_TABLE(end->ep->rma, fi_ops_rma);
	CHECK_TABLE(end->ep->tagged, fi_ops_tagged);
	CHECK_TABLE(end->ep->atomic, fi_ops_atomic);
	CHECK_TABLE(end->ep->collective, fi_ops_collective);
	if (end->ops)
		CHECK_TABLE(end->ops, hmreg_domain_ops);
	assert_ok(fi_close(&cntr->fid));
	assert_ok(fi_close(&eq->fid));
}

/* What no NIC here offers. */
enum {
	MISSING_CM = 10,
	MISSING_TAGGED = 9,
	MISSING_COLLECTIVE = 11,
	MISSING_DOMAIN = 6
};

static ssize_t missing_cm(struct fid_ep *ep, unsigned int i)
{
	struct fid_pep *pep = (struct fid_pep *)ep; /* the tables are at the same places */
	size_t len = 0;

	switch (i) {
	case 0:
		return fi_setname(&ep->fid, &len, sizeof(len));
	case 1:
		return fi_getpeer(ep, &len, &len);
	case 2:
		return fi_connect(ep, &len, NULL, 0);
	case 3:
		return fi_listen(pep);
	case 4:
		return fi_accept(ep, NULL, 0);
	case 5:
		return fi_reject(pep, &ep->fid, NULL, 0);
	case 6:
		return fi_shutdown(ep, 0);
	case 7:
		return fi_join(ep, NULL, 0, &(struct fid_mc *){ 0 }, NULL);
	case 8:
		return fi_tx_context(ep, 0, NULL, &(struct fid_ep *){ 0 }, NULL);
	default:
		return fi_rx_context(ep, 0, NULL, &(struct fid_ep *){ 0 }, NULL);
	}
}

static ssize_t missing_tagged(struct fid_ep *ep, unsigned int i)
{
	struct fi_msg_tagged msg = { 0 };
	char buf[8] = { 0 };

	switch (i) {
	case 0:
		return fi_trecv(ep, buf, 8, NULL, 0, 1, 0, NULL);
	case 1:
		return fi_trecvv(ep, NULL, NULL, 0, 0, 1, 0, NULL);
	case 2:
		return fi_trecvmsg(ep, &msg, 0);
	case 3:
		return fi_tsend(ep, buf, 8, NULL, 0, 1, NULL);
	case 4:
		return fi_tsendv(ep, NULL, NULL, 0, 0, 1, NULL);
	case 5:
		return fi_tsendmsg(ep, &msg, 0);
	case 6:
		return fi_tinject(ep, buf, 8, 0, 1);
	case 7:
		return fi_tsenddata(ep, buf, 8, NULL, 0, 0, 1, NULL);
	default:
		return fi_tinjectdata(ep, buf, 8, 0, 0, 1);
	}
}

static ssize_t missing_collective(struct fid_ep *ep, unsigned int i)
{
	struct fi_msg_collective msg = { 0 };
	char b[8] = { 0 };

	switch (i) {
	case 0:
		return fi_barrier(ep, 0, NULL);
	case 1:
		return fi_barrier2(ep, 0, 1, NULL);
	case 2:
		return fi_broadcast(ep, b, 1, NULL, 0, 0, FI_INT8, 0, NULL);
	case 3:
		return fi_alltoall(ep, b, 1, NULL, b, NULL, 0, FI_INT8, 0, NULL);
	case 4:
		return fi_allreduce(ep, b, 1, NULL, b, NULL, 0, FI_INT8, FI_SUM, 0, NULL);
	case 5:
		return fi_allgather(ep, b, 1, NULL, b, NULL, 0, FI_INT8, 0, NULL);
	case 6:
		return fi_reduce_scatter(ep, b, 1, NULL, b, NULL, 0, FI_INT8, FI_SUM, 0, NULL);
	case 7:
		return fi_reduce(ep, b, 1, NULL, b, NULL, 0, 0, FI_INT8, FI_SUM, 0, NULL);
	case 8:
		return fi_scatter(ep, b, 1, NULL, b, NULL, 0, 0, FI_INT8, 0, NULL);
	case 9:
		return fi_gather(ep, b, 1, NULL, b, NULL, 0, 0, FI_INT8, 0, NULL);
	default:
		return ep->collective->msg(ep, &msg, NULL, NULL, 0, 0);
	}
}

static ssize_t missing_domain(struct conf_end *end, unsigned int i)
{
	struct fi_xpu_attr xpu = { 0 };
	void *out[8] = { NULL };

	switch (i) {
	case 0:
		return fi_scalable_ep(end->domain, end->info, (struct fid_ep **)out, NULL);
	case 1:
		return fi_stx_context(end->domain, NULL, (struct fid_stx **)out, NULL);
	case 2:
		return fi_srx_context(end->domain, NULL, (struct fid_ep **)out, NULL);
	case 3:
		return fi_poll_open(end->domain, &(struct fi_poll_attr){ 0 },
				    (struct fid_poll **)out);
	case 4:
		return fi_xpu_ctx(end->domain, &xpu, (struct fid_xpu_ctx **)out, NULL);
	default:
		return fi_av_set(end->av, NULL, (struct fid_av_set **)out, NULL);
	}
}

static void api_01_missing_slots_enosys(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct fid_cntr *cntr;
	fi_addr_t addr = 0;
	size_t size = 0;
	void *out = NULL;

	for (unsigned int i = 0; i < MISSING_CM; i++)
		assert_refused(missing_cm(end->ep, i), -FI_ENOSYS);
	if (!(end->info->caps & FI_TAGGED))
		for (unsigned int i = 0; i < MISSING_TAGGED; i++)
			assert_refused(missing_tagged(end->ep, i), -FI_ENOSYS);
	if (!(end->info->caps & FI_COLLECTIVE))
		for (unsigned int i = 0; i < MISSING_COLLECTIVE; i++)
			assert_refused(missing_collective(end->ep, i), -FI_ENOSYS);
	for (unsigned int i = 0; i < MISSING_DOMAIN; i++)
		assert_refused(missing_domain(end, i), -FI_ENOSYS);
	assert_refused(fi_rx_size_left(end->ep), -FI_ENOSYS);
	assert_refused(fi_tx_size_left(end->ep), -FI_ENOSYS);
	assert_refused(fi_query_collective(end->domain, FI_BARRIER,
					   &(struct fi_collective_attr){ 0 }, 0),
		       -FI_ENOSYS);
	assert_refused(fi_passive_ep(end->fabric, end->info, (struct fid_pep **)&out, NULL),
		       -FI_ENOSYS);
	assert_refused(fi_wait_open(end->fabric, &(struct fi_wait_attr){ 0 },
				    (struct fid_wait **)&out),
		       -FI_ENOSYS);
	assert_refused(fi_av_insert_auth_key(end->av, &size, 8, &addr, 0), -FI_ENOSYS);
	assert_refused(fi_av_lookup_auth_key(end->av, 0, &size, &size), -FI_ENOSYS);
	assert_refused(fi_av_set_user_id(end->av, 0, 1, 0), -FI_ENOSYS);
	assert_refused(end->tx->ops->export_xpu(end->tx, 0, NULL), -FI_ENOSYS);
	assert_ok(fi_cntr_open(end->domain, &(struct fi_cntr_attr){ 0 }, &cntr, NULL));
	assert_refused(cntr->ops->export_xpu(cntr, 0, NULL), -FI_ENOSYS);
	assert_ok(fi_close(&cntr->fid));
	assert_refused(fi_ep_export_xpu(end->ep, 0, NULL), -FI_ENOSYS);
	assert_refused(fi_alias(&end->ep->fid, (struct fid **)&out, 0), -FI_ENOSYS);
	assert_refused(fi_open(CONF_VERSION, "no such thing", NULL, 0, 0, (struct fid **)&out,
			       NULL),
		       -FI_ENOSYS);
	assert_null(out);
}

/* Every object answers every command and every bind, one way or another. */
static void api_01_unknown_commands_enosys(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	struct conf_region *region = conf_reg(end, conf_alloc(c, 64), 64, CONF_ALL);
	struct fid_cntr *cntr;
	struct fid_eq *eq;
	uint64_t room[8] = { 0 };
	void *ops;

	assert_ok(fi_cntr_open(end->domain, &(struct fi_cntr_attr){ 0 }, &cntr, NULL));
	assert_ok(fi_eq_open(end->fabric, &(struct fi_eq_attr){ 0 }, &eq, NULL));
	struct fid *fids[] = {
		&end->fabric->fid, &end->domain->fid, &end->av->fid, &end->tx->fid,
		&cntr->fid,	   &eq->fid,	      &end->ep->fid, &region->mr->fid
	};
	static const int commands[] = {
		-1,	FI_SETFIDFLAG, FI_BACKLOG, FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK,
		FI_DUP, FI_EXPORT_FID, FI_GET_FD,  FI_GET_VAL,	  FI_SET_VAL,	  1000
	};

	for (size_t i = 0; i < count_of(fids); i++) {
		for (size_t k = 0; k < count_of(commands); k++)
			assert_refused(fi_control(fids[i], commands[k], room), -FI_ENOSYS);
		assert_answer(fi_open_ops(fids[i], "none", 0, &ops, NULL), -FI_ENOSYS);
		assert_refused(fi_set_ops(fids[i], "none", 0, room, NULL), -FI_ENOSYS);
		assert_answer(fids[i]->ops->tostr(fids[i], (char *)room, sizeof(room)), -FI_ENOSYS);
		assert_true(strlen(fi_tostr(fids[i], FI_TYPE_FID)) > 0);
	}
	struct fid *unbindable[] = { &end->fabric->fid, &end->tx->fid, &cntr->fid, &eq->fid };

	for (size_t i = 0; i < count_of(unbindable); i++)
		assert_refused(unbindable[i]->ops->bind(unbindable[i], &end->tx->fid, 0),
			       -FI_ENOSYS);
	assert_ok(fi_close(&cntr->fid));
	assert_ok(fi_close(&eq->fid));
}

static void api_01_errors_and_parameters(struct conf *c)
{
	struct fi_param *params;
	int count = 0, found = 0;

	(void)c;
	for (int code = -300; code <= 300; code++)
		assert_true(fi_strerror(code) && *fi_strerror(code));
	assert_string_equal(fi_strerror(FI_ENOKEY), fi_strerror(-FI_ENOKEY));
	assert_string_not_equal(fi_strerror(FI_ENOKEY), fi_strerror(FI_ENOMR));
	assert_ok(fi_getparams(&params, &count));
	for (int i = 0; i < count; i++) {
		assert_true(params[i].name && params[i].help_string);
		if (strcmp(params[i].name, "FI_LOG_LEVEL") == 0) {
			assert_string_equal(params[i].value, "warn");
			found++;
		}
	}
	assert_int_equal(found, 1);
	fi_freeparams(params);
	fi_freeparams(NULL);
	assert_refused(fi_getparams(NULL, &count), -FI_EINVAL);
	assert_refused(fi_getparams(&params, NULL), -FI_EINVAL);
}

static const struct conf_case cases[] = {
	CONF(api_01_symbol_versions),	    CONF(api_01_tables_are_full),
	CONF(api_01_missing_slots_enosys),  CONF(api_01_unknown_commands_enosys),
	CONF(api_01_errors_and_parameters),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
