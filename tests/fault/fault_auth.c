/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory fails piece by piece wherever an authorization key is given: API-20, ATTR-04. */
#include "tests/fault/fault.h"

/* What an application opens whose every object has a key. */
struct chain {
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
};

static struct chain chain;

static void close_chain(struct scene *s)
{
	struct fid *fids[] = { chain.mr ? &chain.mr->fid : NULL, chain.ep ? &chain.ep->fid : NULL,
			       chain.cq ? &chain.cq->fid : NULL, chain.av ? &chain.av->fid : NULL,
			       chain.domain ? &chain.domain->fid : NULL };

	(void)s;
	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++)
		if (fids[i])
			assert_int_equal(fi_close(fids[i]), 0);
	memset(&chain, 0, sizeof(chain));
}

static int open_ep(struct scene *s)
{
	struct fi_cq_attr cq_attr = { .wait_obj = FI_WAIT_NONE, .size = 8 };
	int ret = fi_cq_open(chain.domain, &cq_attr, &chain.cq, NULL);

	if (!ret)
		ret = fi_endpoint(chain.domain, s->info, &chain.ep, NULL);
	if (!ret)
		ret = fi_ep_bind(chain.ep, &chain.av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(chain.ep, &chain.cq->fid, FI_TRANSMIT | FI_RECV);
	return ret ? ret : fi_enable(chain.ep);
}

static int open_region(struct scene *s, void *key, size_t size)
{
	struct iovec iov = { s->src, SCENE_BYTES };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = FAULT_ALL,
				   .requested_key = 7,
				   .auth_key = key,
				   .auth_key_size = size };
	struct fid_mr *mr = UNTOUCHED;
	int ret = fi_mr_regattr(chain.domain ? chain.domain : s->domain, &attr, 0, &mr);

	if (ret) {
		assert_ptr_equal(mr, UNTOUCHED);
		return ret;
	}
	chain.mr = mr;
	if (!chain.ep || !(s->mode & FI_MR_ENDPOINT))
		return 0;
	ret = fi_mr_bind(mr, &chain.ep->fid, 0);
	return ret ? ret : fi_mr_enable(mr);
}

/* A key for the domain, another for the endpoint, a third for the region. */
static int run_keys(struct scene *s)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_domain_attr *domain = s->info->domain_attr;
	struct fi_ep_attr *ep = s->info->ep_attr;
	static uint8_t keys[3] = { 1, 2, 3 };
	int ret;

	domain->auth_key = &keys[0];
	ep->auth_key = &keys[1];
	domain->auth_key_size = ep->auth_key_size = 1;
	ret = fi_domain(s->fabric, s->info, &chain.domain, NULL);
	if (!ret)
		ret = fi_av_open(chain.domain, &av_attr, &chain.av, NULL);
	if (!ret)
		ret = open_ep(s);
	if (!ret)
		ret = open_region(s, &keys[2], 1);
	domain->auth_key = ep->auth_key = NULL;
	domain->auth_key_size = ep->auth_key_size = 0;
	if (ret)
		close_chain(s);
	return ret;
}

/* A region with a key in a domain without. */
static int run_region(struct scene *s)
{
	return open_region(s, "key", 3);
}

/* The keys are in the vector, and addresses go by them. */
static int fill_vector(void)
{
	fi_addr_t key[2], addr[2];
	int ret = fi_av_insert_auth_key(chain.av, "one", 3, &key[0], 0);

	if (!ret)
		ret = fi_av_insert_auth_key(chain.av, "two", 3, &key[1], 0);
	if (ret)
		return ret;
	memcpy(addr, key, sizeof(addr));
	/* each failure is the address's, not the call's */
	for (int i = 0; i < 2; i++) {
		int code = 0;

		if (fi_av_insertsvc(chain.av, "127.0.0.1", "7", &addr[i], FI_AUTH_KEY | FI_SYNC_ERR,
				    &code) != 1) {
			assert_true(addr[i] == FI_ADDR_NOTAVAIL);
			return -code;
		}
	}
	assert_int_equal(fi_av_remove(chain.av, addr, 2, 0), 0);
	return fi_av_remove(chain.av, key, 1, FI_AUTH_KEY);
}

static int run_vector(struct scene *s)
{
	struct fi_av_attr av_attr = { .type = FI_AV_MAP };
	struct fi_mr_auth_key key = { NULL, FI_ADDR_UNSPEC };
	int ret;

	s->info->domain_attr->auth_key_size = FI_AV_AUTH_KEY;
	ret = fi_domain(s->fabric, s->info, &chain.domain, NULL);
	if (!ret)
		ret = fi_av_open(chain.domain, &av_attr, &chain.av, NULL);
	if (!ret)
		ret = fill_vector();
	if (!ret)
		ret = open_ep(s);
	key.av = chain.av;
	if (!ret)
		ret = open_region(s, &key, sizeof(key));
	s->info->domain_attr->auth_key_size = 0;
	if (ret)
		close_chain(s);
	return ret;
}

static int run_getinfo(struct scene *s)
{
	struct fi_ep_attr ep = { .auth_key = (uint8_t *)"endpoint", .auth_key_size = 8 };
	struct fi_domain_attr domain = { .auth_key = (uint8_t *)"domain",
					 .auth_key_size = 6,
					 .mr_mode = FAULT_MODES };
	struct fi_info hints = { .ep_attr = &ep, .domain_attr = &domain }, *info = UNTOUCHED;
	int ret = fi_getinfo(FAULT_VERSION, NULL, NULL, 0, &hints, &info);

	if (ret)
		assert_ptr_equal(info, UNTOUCHED);
	else
		s->ptr = info;
	return ret;
}

static void undo_getinfo(struct scene *s)
{
	struct fi_info *info = s->ptr;

	assert_memory_equal(info->domain_attr->auth_key, "domain", 6);
	assert_memory_equal(info->ep_attr->auth_key, "endpoint", 8);
	fi_freeinfo(info);
}

#define FAILS(title, how, undoing)                                                                 \
	{                                                                                          \
		.name = title, .kinds = FAULT_MEMORY, .code = -FI_ENOMEM, .lines = 1, .run = how,  \
		.undo = undoing                                                                    \
	}

static struct scenario scenarios[] = {
	FAILS("attr_04_no_memory_keys", run_keys, close_chain),
	{ .name = "attr_04_no_memory_region_key",
	  .kinds = FAULT_MEMORY,
	  .code = -FI_ENOMEM,
	  .lines = 1,
	  .keeps = true, /* the key table's chunk */
	  .run = run_region,
	  .undo = close_chain },
	FAILS("attr_04_no_memory_keys_in_a_vector", run_vector, close_chain),
	FAILS("attr_04_no_memory_keys_in_infos", run_getinfo, undo_getinfo),
};

int main(void)
{
	return fault_all("fault_auth", scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
