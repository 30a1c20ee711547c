/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every operation of a NIC fails in turn, with each of a few errors, on each profile.  The NIC is the
 * software NIC under other names, with a door in front of each of its operations that can be shut.
 * A NIC says itself why it refuses; so core adds no log line, but where a case says otherwise.
 */
#include <netinet/in.h>

#include "core/core.h"
#include "core/nic/sw_nic.h"
#include "tests/fault/fault.h"

enum slot {
	PORTS,
	PORT_ADDRESS,
	PORT_REACHES,
	PORT_HAS,
	PORT_MISSING,
	PORT_DESCRIBE,
	DOMAIN_OPEN,
	DOMAIN_CLOSE,
	DOMAIN_VERBS,
	REGION_REGISTER,
	REGION_DERIVE,
	REGION_DEREGISTER,
	REGION_REFRESH,
	EP_OPEN,
	EP_ENABLE,
	EP_CLOSE,
	EP_NAME,
	PEER_RESOLVE,
	PEER_ADDRESS,
	POST,
	POST_RECV,
	CANCEL,
	ATOMIC_VALID,
	SLOTS
};

/*
 * look, strerror, progress, region_key, region_lkey and region_at have nothing to fail with; region_info, _part and
 * _desc change nothing; xpu is a table of its own.
 */
static_assert((sizeof(struct nic_ops) - offsetof(struct nic_ops, ports)) / sizeof(void (*)(void)) ==
		      SLOTS + 10,
	      "a slot for each operation");

/* ---- the NIC ---- */

static enum slot shut = SLOTS;
static int shut_error;
static unsigned refusals;

static int door(enum slot slot)
{
	if (slot != shut)
		return 0;
	refusals++;
	return shut_error;
}

static void heal(void)
{
	shut = SLOTS;
}

#define DOOR(type, slot, name, parameters, arguments)                                              \
	static type door_##name parameters                                                         \
	{                                                                                          \
		int ret = door(slot);                                                              \
                                                                                                   \
		return ret ? ret : sw_nic_ops.name arguments;                                      \
	}

DOOR(int, PORT_ADDRESS, port_address, (const struct nic_port *port, void *addr, size_t *len),
     (port, addr, len))
DOOR(int, PORT_REACHES, port_reaches, (const struct nic_port *port, const void *addr, size_t len),
     (port, addr, len))
DOOR(int, PORT_HAS, port_has, (const struct nic_port *port, const void *addr, size_t len),
     (port, addr, len))
DOOR(int, PORT_MISSING, port_missing, (const char *name), (name))
DOOR(int, PORT_DESCRIBE, port_describe, (const struct nic_port *port, struct hmreg_device *device),
     (port, device))
DOOR(int, DOMAIN_VERBS, domain_verbs,
     (struct nic_domain * domain, struct hmreg_verbs_domain *verbs), (domain, verbs))
DOOR(int, DOMAIN_OPEN, domain_open, (struct nic_domain * domain), (domain))
DOOR(int, DOMAIN_CLOSE, domain_close, (struct nic_domain * domain), (domain))
DOOR(int, REGION_REGISTER, region_register,
     (struct nic_region * region, const struct nic_region_request *req), (region, req))
DOOR(int, REGION_DERIVE, region_derive,
     (struct nic_region * region, struct nic_region *base, const struct nic_region_request *req),
     (region, base, req))
DOOR(int, REGION_DEREGISTER, region_deregister, (struct nic_region * region), (region))
DOOR(int, REGION_REFRESH, region_refresh,
     (struct nic_region * region, const struct iovec *iov, size_t count), (region, iov, count))
DOOR(int, EP_OPEN, ep_open, (struct nic_ep * ep, const void *addr, size_t len), (ep, addr, len))
DOOR(int, EP_ENABLE, ep_enable, (struct nic_ep * ep), (ep))
DOOR(int, EP_CLOSE, ep_close, (struct nic_ep * ep), (ep))
DOOR(int, EP_NAME, ep_name, (struct nic_ep * ep, void *addr, size_t *len), (ep, addr, len))
DOOR(int, PEER_RESOLVE, peer_resolve,
     (struct nic_domain * domain, const void *addr, size_t *len, uint64_t *peer),
     (domain, addr, len, peer))
DOOR(int, PEER_ADDRESS, peer_address,
     (struct nic_domain * domain, uint64_t peer, void *addr, size_t *len),
     (domain, peer, addr, len))
DOOR(ssize_t, POST, post, (struct nic_ep * ep, const struct nic_wr *wr), (ep, wr))
DOOR(ssize_t, POST_RECV, post_recv, (struct nic_ep * ep, const struct nic_recv *recv), (ep, recv))
DOOR(ssize_t, CANCEL, cancel, (struct nic_ep * ep, void *context), (ep, context))
DOOR(int, ATOMIC_VALID, atomic_valid,
     (struct nic_domain * domain, enum nic_op kind, enum fi_datatype datatype, enum fi_op op,
      size_t *count, size_t *size),
     (domain, kind, datatype, op, count, size))

static const char *const profiles[3] = { "door-scalable", "door-verbs", "door-strict" };
static struct nic_port door_port_list[3];

static int door_ports(const struct nic_port **ports, size_t *count)
{
	*ports = door_port_list;
	*count = 3;
	return door(PORTS);
}

static struct nic_ops door_ops;

static int set_up(void **state)
{
	const struct nic_port *ports;
	size_t count;
	int ret = fault_group_setup(state);

	hm_init();
	door_ops = sw_nic_ops;
	door_ops.name = "door";
	door_ops.ports = door_ports;
#define SET(name) door_ops.name = door_##name
	SET(port_address), SET(port_reaches), SET(port_has), SET(port_missing), SET(port_describe);
	SET(domain_open), SET(domain_close), SET(domain_verbs);
	SET(region_register), SET(region_derive), SET(region_deregister), SET(region_refresh);
	SET(ep_open), SET(ep_enable), SET(ep_close), SET(ep_name);
	SET(peer_resolve), SET(peer_address), SET(post), SET(post_recv), SET(cancel);
	SET(atomic_valid);
	assert_int_equal(sw_nic_ops.ports(&ports, &count), 0);
	assert_true(count >= 3);
	for (size_t i = 0; i < 3; i++) {
		door_port_list[i] = ports[i];
		door_port_list[i].ops = &door_ops;
		door_port_list[i].fabric_name = "door";
		door_port_list[i].domain_name = profiles[i];
	}
	assert_int_equal(nic_register(&door_ops), 0);
	return ret;
}

/* ---- what reaches each operation, and what must come of it ---- */

static int list_for(const char *name, const char *node, uint64_t flags, struct fi_info **info)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	assert_non_null(hints);
	hints->domain_attr->mr_mode = FAULT_MODES;
	hints->domain_attr->name = strdup(name);
	ret = fi_getinfo(FAULT_VERSION, node, node ? "5" : NULL, flags, hints, info);
	fi_freeinfo(hints);
	return ret;
}

static int list_with(const char *name, const char *node, struct fi_info **info)
{
	return list_for(name, node, 0, info);
}

static void ports_fail(struct scene *s, int err)
{
	struct fi_info *info = UNTOUCHED;

	(void)err;
	assert_int_equal(list_with(s->profile, NULL, &info), -FI_ENODATA);
	assert_null(info);
	assert_int_equal(fault_lines(), 1); /* that no port has this name */
	/* the other NICs' ports are there all the same */
	assert_int_equal(list_with("sw-strict", NULL, &info), 0);
	fi_freeinfo(info);
}

static void port_address_fails(struct scene *s, int err)
{
	struct fi_info *info;
	struct fid_ep *ep;

	(void)err;
	assert_int_equal(list_with(s->profile, NULL, &info), 0);
	assert_int_equal(fi_endpoint(s->domain, info, &ep, NULL), 0);
	assert_int_equal(fi_close(&ep->fid), 0);
	fi_freeinfo(info);
}

static void port_reaches_fails(struct scene *s, int err)
{
	struct fi_info *info = UNTOUCHED;

	(void)err;
	assert_int_equal(list_with(s->profile, "127.0.0.1", &info), -FI_ENODATA);
	assert_null(info);
}

static void port_has_fails(struct scene *s, int err)
{
	struct fi_info *info = UNTOUCHED;

	(void)err;
	assert_int_equal(list_for(s->profile, "127.0.0.1", FI_SOURCE, &info), -FI_ENODATA);
	assert_null(info);
}

/* What a NIC knows about a name goes to the caller, and nothing is said beside it. */
static void port_missing_fails(struct scene *s, int err)
{
	struct fi_info *info = UNTOUCHED;

	(void)s;
	assert_int_equal(list_with("nowhere", NULL, &info), err);
	assert_ptr_equal(info, UNTOUCHED);
	heal();
	assert_int_equal(list_with("nowhere", NULL, &info), -FI_ENODATA);
	assert_null(info);
	assert_int_equal(fault_lines(), 1);
}

static void port_describe_fails(struct scene *s, int err)
{
	struct hmreg_device device = { .size = sizeof(device), .port = 77 };
	struct hmreg_fabric_ops *ops;

	assert_int_equal(fi_open_ops(&s->fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->device(&s->fabric->fid, s->info, &device), err);
	assert_int_equal(device.port, 77);
	heal();
	assert_int_equal(ops->device(&s->fabric->fid, s->info, &device), 0);
	assert_int_equal(device.port, 0);
}

static void domain_verbs_fails(struct scene *s, int err)
{
	struct hmreg_verbs_domain verbs = { .size = sizeof(verbs), .pd = UNTOUCHED };
	struct hmreg_domain_ops *ops;

	assert_int_equal(fi_open_ops(&s->domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->verbs(&s->domain->fid, &verbs), err);
	assert_ptr_equal(verbs.pd, UNTOUCHED);
}

static void domain_open_fails(struct scene *s, int err)
{
	struct fid_domain *domain = UNTOUCHED;

	assert_int_equal(fi_domain(s->fabric, s->info, &domain, NULL), err);
	assert_ptr_equal(domain, UNTOUCHED);
}

static void domain_close_fails(struct scene *s, int err)
{
	struct fid_domain *domain;
	struct fid_mr *mr;

	assert_int_equal(fi_domain(s->fabric, s->info, &domain, NULL), 0);
	assert_int_equal(fi_close(&domain->fid), err);
	assert_int_equal(fi_mr_reg(domain, s->src, 64, FI_SEND, 0, 1, 0, &mr, NULL), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	heal();
	assert_int_equal(fi_close(&domain->fid), 0);
}

static void register_one(struct scene *s, uint64_t key)
{
	struct fid_mr *mr;

	assert_int_equal(fi_mr_reg(s->domain, s->src, 64, FAULT_ALL, 0, key, 0, &mr, NULL), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
}

static void region_register_fails(struct scene *s, int err)
{
	struct iovec iov[2] = { { s->src, 8 }, { s->dst, 8 } };
	struct fid_mr *mr = UNTOUCHED;

	assert_int_equal(fi_mr_reg(s->domain, s->src, 64, FAULT_ALL, 0, 7, 0, &mr, NULL), err);
	assert_int_equal(fi_mr_regv(s->domain, iov, 2, FAULT_ALL, 0, 7, 0, &mr, NULL), err);
	assert_ptr_equal(mr, UNTOUCHED);
	heal();
	register_one(s, 7); /* the key is free */
}

/* The base has no sub-MR afterwards, and the key is free. */
static void region_derive_fails(struct scene *s, int err)
{
	struct iovec iov = { s->src + 1, 8 };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FAULT_ALL, .requested_key = 8
	};
	struct fid_mr *base, *mr = UNTOUCHED;

	assert_int_equal(fi_mr_reg(s->domain, s->src, 64, FAULT_ALL, 0, 7, 0, &base, NULL), 0);
	attr.base_mr = base;
	assert_int_equal(fi_mr_regattr(s->domain, &attr, 0, &mr), err);
	assert_ptr_equal(mr, UNTOUCHED);
	heal();
	assert_int_equal(fi_mr_regattr(s->domain, &attr, 0, &mr), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_int_equal(fi_close(&base->fid), 0);
}

/* The region is as before, and can be closed again. */
static void region_deregister_fails(struct scene *s, int err)
{
	struct fid_mr *mr = UNTOUCHED;
	void *desc;

	assert_int_equal(fi_mr_reg(s->domain, s->src, 64, FAULT_ALL, 0, 8, 0, &mr, NULL), 0);
	desc = fi_mr_desc(mr);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_close(&mr->fid), err);
		assert_ptr_equal(fi_mr_desc(mr), desc);
	}
	heal();
	assert_int_equal(fi_close(&mr->fid), 0);
	mr = UNTOUCHED;
	assert_int_equal(fault_lines(), 0);
	if (!(s->mode & (FI_MR_PROV_KEY | FI_MR_RAW))) {
		/* the key is in use, which is found out when the NIC has registered */
		assert_int_equal(fi_mr_reg(s->domain, s->src, 64, FAULT_ALL, 0, 100, 0, &mr, NULL),
				 -FI_ENOKEY);
		assert_ptr_equal(mr, UNTOUCHED);
		assert_int_equal(fault_lines(), 1);
	}
	heal();
	register_one(s, 7);
}

static void region_refresh_fails(struct scene *s, int err)
{
	struct iovec part = { s->dst + 100, 10 };

	assert_int_equal(fi_mr_refresh(s->mr[1], NULL, 0, 0), err);
	assert_int_equal(fi_mr_refresh(s->mr[1], &part, 1, 0), err);
}

static void ep_open_fails(struct scene *s, int err)
{
	struct fid_ep *ep = UNTOUCHED;

	assert_int_equal(fi_endpoint(s->domain, s->info, &ep, NULL), err);
	assert_ptr_equal(ep, UNTOUCHED);
}

static struct fid_ep *second_ep(struct scene *s)
{
	struct fid_ep *ep;

	assert_int_equal(fi_endpoint(s->domain, s->info, &ep, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &s->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(ep, &s->tx->fid, FI_TRANSMIT), 0);
	return ep;
}

static void ep_enable_fails(struct scene *s, int err)
{
	struct fid_ep *ep = second_ep(s);

	assert_int_equal(fi_ep_bind(ep, &s->rx->fid, FI_RECV), 0);
	assert_int_equal(fi_enable(ep), err);
	heal();
	/* not enabled, so it sends nothing and may still be bound */
	assert_int_equal(fi_inject(ep, s->src, 8, s->self), -FI_EOPBADSTATE);
	assert_int_equal(fault_lines(), 1);
	assert_int_equal(fi_ep_bind(ep, &s->eq->fid, 0), 0);
	assert_int_equal(fi_enable(ep), 0);
	assert_int_equal(fi_recv(s->ep, s->dst, 8, scene_desc(s, 1), FI_ADDR_UNSPEC, s), 0);
	assert_int_equal(fi_inject(ep, s->src, 8, s->self), 0);
	scene_done(s->rx, s);
	assert_int_equal(fi_close(&ep->fid), 0);
}

static void ep_close_fails(struct scene *s, int err)
{
	struct fid_ep *ep = second_ep(s);

	assert_int_equal(fi_ep_bind(ep, &s->rx->fid, FI_RECV), 0);
	assert_int_equal(fi_close(&ep->fid), err); /* before it is enabled, and after */
	assert_int_equal(fi_enable(ep), 0);
	assert_int_equal(fi_close(&ep->fid), err);
	assert_int_equal(fi_recv(s->ep, s->dst, 8, scene_desc(s, 1), FI_ADDR_UNSPEC, s), 0);
	assert_int_equal(fi_inject(ep, s->src, 8, s->self), 0);
	scene_done(s->rx, s);
	heal();
	assert_int_equal(fi_close(&ep->fid), 0);
}

static void ep_name_fails(struct scene *s, int err)
{
	char name[64];
	size_t len = sizeof(name);

	assert_int_equal(fi_getname(&s->ep->fid, name, &len), err);
	assert_int_equal(len, sizeof(name));
}

static void peer_resolve_fails(struct scene *s, int err)
{
	fi_addr_t addr[2] = { 5, 5 };
	char name[2 * sizeof(struct sockaddr_in)];
	size_t len = sizeof(name);
	int codes[2];

	assert_int_equal(fi_getname(&s->ep->fid, name, &len), 0);
	memcpy(name + len, name, len);
	assert_int_equal(fi_av_insert(s->av, name, 2, addr, FI_SYNC_ERR, codes), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(codes[i], -err);
		assert_int_equal(addr[i], FI_ADDR_NOTAVAIL);
	}
}

static void peer_address_fails(struct scene *s, int err)
{
	char name[64];
	size_t len = sizeof(name);

	assert_int_equal(fi_av_lookup(s->av, s->self, name, &len), err);
	assert_int_equal(len, sizeof(name));
}

/* Calls that post; each must give back the regions that it has referenced. */
static void post_fails(struct scene *s, int err)
{
	struct iovec iov[2] = { { s->src, 8 }, { s->src + 8, 8 } };
	void *desc[2] = { scene_desc(s, 0), scene_desc(s, 0) };
	uint64_t addr = scene_addr(s, s->dst);
	struct fi_rma_iov remote = { addr, 16, s->key };
	struct fi_msg_rma rma = { iov, desc, 2, s->self, &remote, 1, s, 0 };
	struct fi_msg msg = { iov, desc, 2, s->self, s, 0 };
	struct fid_ep *ep = s->ep;
	fi_addr_t to = s->self;
	uint64_t k = s->key;
	ssize_t answers[] = {
		fi_write(ep, s->src, 8, desc[0], to, addr, k, s),
		fi_writev(ep, iov, desc, 2, to, addr, k, s),
		fi_writemsg(ep, &rma, FI_COMPLETION),
		fi_inject_write(ep, s->src, 8, to, addr, k),
		fi_writedata(ep, s->src, 8, desc[0], 1, to, addr, k, s),
		fi_read(ep, s->src, 8, desc[0], to, addr, k, s),
		fi_readv(ep, iov, desc, 2, to, addr, k, s),
		fi_readmsg(ep, &rma, FI_COMPLETION),
		fi_atomic(ep, s->src, 1, desc[0], to, addr, k, FI_UINT64, FI_SUM, s),
		fi_inject_atomic(ep, s->src, 1, to, addr, k, FI_UINT64, FI_SUM),
		fi_fetch_atomic(ep, s->src, 1, desc[0], s->src + 8, desc[0], to, addr, k, FI_UINT64,
				FI_SUM, s),
		fi_compare_atomic(ep, s->src, 1, desc[0], s->src + 8, desc[0], s->src + 16, desc[0],
				  to, addr, k, FI_UINT64, FI_CSWAP, s),
		fi_send(ep, s->src, 8, desc[0], to, s),
		fi_sendv(ep, iov, desc, 2, to, s),
		fi_sendmsg(ep, &msg, FI_COMPLETION),
		fi_inject(ep, s->src, 8, to),
		fi_senddata(ep, s->src, 8, desc[0], 1, to, s),
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		assert_int_equal(answers[i], err);
	assert_int_equal(refusals, sizeof(answers) / sizeof(answers[0]));
	heal();
	/* closing waits for references: none is left */
	scene_unregister(s);
	scene_register(s);
}

static void post_recv_fails(struct scene *s, int err)
{
	struct iovec iov[2] = { { s->dst, 8 }, { s->dst + 8, 8 } };
	void *desc[2] = { scene_desc(s, 1), scene_desc(s, 1) };
	struct fi_msg msg = { iov, desc, 2, FI_ADDR_UNSPEC, s, 0 };

	assert_int_equal(fi_recv(s->ep, s->dst, 8, desc[0], FI_ADDR_UNSPEC, s), err);
	assert_int_equal(fi_recvv(s->ep, iov, desc, 2, FI_ADDR_UNSPEC, s), err);
	assert_int_equal(fi_recvmsg(s->ep, &msg, FI_COMPLETION), err);
	heal();
	scene_unregister(s);
	scene_register(s);
}

static void cancel_fails(struct scene *s, int err)
{
	struct fi_cq_err_entry error = { 0 };

	assert_int_equal(fi_recv(s->ep, s->dst, 8, scene_desc(s, 1), FI_ADDR_UNSPEC, s), 0);
	assert_int_equal(fi_cancel(&s->ep->fid, s), err);
	heal();
	assert_int_equal(fi_cancel(&s->ep->fid, s), 0);
	assert_int_equal(fi_cq_readerr(s->rx, &error, 0), 1);
	assert_int_equal(error.err, FI_ECANCELED);
}

/* Here core says which operation and datatype it was. */
static void atomic_valid_fails(struct scene *s, int err)
{
	struct fi_atomic_attr attr = { 0 };
	size_t count = 5;

	assert_int_equal(fi_atomic(s->ep, s->src, 1, scene_desc(s, 0), s->self,
				   scene_addr(s, s->dst), s->key, FI_UINT64, FI_SUM, s),
			 err);
	assert_int_equal(fault_lines(), 1);
	assert_int_equal(fi_query_atomic(s->domain, FI_UINT64, FI_SUM, &attr, 0), err);
	assert_true(fault_lines() <= 1);
	assert_int_equal(fi_atomicvalid(s->ep, FI_UINT64, FI_SUM, &count), err);
	assert_true(fault_lines() <= 1);
	assert_int_equal(count, 5);
}

/* ---- the loop ---- */

struct slot_case {
	const char *name;
	void (*drive)(struct scene *s, int err);
};

static const struct slot_case cases[SLOTS] = {
	[PORTS] = { "api_20_nic_ports_fail", ports_fail },
	[PORT_ADDRESS] = { "api_20_nic_port_address_fails", port_address_fails },
	[PORT_REACHES] = { "api_20_nic_port_reaches_fails", port_reaches_fails },
	[PORT_HAS] = { "api_20_nic_port_has_fails", port_has_fails },
	[PORT_MISSING] = { "api_20_nic_port_missing_fails", port_missing_fails },
	[PORT_DESCRIBE] = { "api_20_nic_port_describe_fails", port_describe_fails },
	[DOMAIN_OPEN] = { "api_20_nic_domain_open_fails", domain_open_fails },
	[DOMAIN_CLOSE] = { "api_20_nic_domain_close_fails", domain_close_fails },
	[DOMAIN_VERBS] = { "api_20_nic_domain_verbs_fails", domain_verbs_fails },
	[REGION_REGISTER] = { "api_20_nic_region_register_fails", region_register_fails },
	[REGION_DERIVE] = { "api_20_nic_region_derive_fails", region_derive_fails },
	[REGION_DEREGISTER] = { "api_20_nic_region_deregister_fails", region_deregister_fails },
	[REGION_REFRESH] = { "api_20_nic_region_refresh_fails", region_refresh_fails },
	[EP_OPEN] = { "api_20_nic_ep_open_fails", ep_open_fails },
	[EP_ENABLE] = { "api_20_nic_ep_enable_fails", ep_enable_fails },
	[EP_CLOSE] = { "api_20_nic_ep_close_fails", ep_close_fails },
	[EP_NAME] = { "api_20_nic_ep_name_fails", ep_name_fails },
	[PEER_RESOLVE] = { "api_20_nic_peer_resolve_fails", peer_resolve_fails },
	[PEER_ADDRESS] = { "api_20_nic_peer_address_fails", peer_address_fails },
	[POST] = { "api_20_nic_post_fails", post_fails },
	[POST_RECV] = { "api_20_nic_post_recv_fails", post_recv_fails },
	[CANCEL] = { "api_20_nic_cancel_fails", cancel_fails },
	[ATOMIC_VALID] = { "api_20_nic_atomic_valid_fails", atomic_valid_fails },
};

static void fail_once(enum slot slot, const char *profile, int err)
{
	struct mark before = fault_mark(NULL), inside;
	struct scene s;

	scene_open(&s, profile, SCENE_ENDPOINT);
	scene_register(&s);
	inside = fault_mark(&s);
	fault_lines();
	refusals = 0;
	shut_error = err;
	shut = slot;
	cases[slot].drive(&s, err);
	heal();
	assert_true(refusals > 0);
	assert_int_equal(fault_lines(), 0);
	fault_check_mark(&inside, &s, true);
	scene_works(&s);
	scene_unregister(&s);
	scene_close(&s);
	fault_check_mark(&before, NULL, false);
}

static void each_error(void **state)
{
	static const int errors[] = { -FI_ENOMEM, -FI_EIO, -FI_ENOSPC };
	enum slot slot = (enum slot)((const struct slot_case *)*state - cases);

	heal();
	for (size_t p = 0; p < 3; p++)
		for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
			fail_once(slot, profiles[p], errors[e]);
}

int main(void)
{
	struct CMUnitTest tests[SLOTS];

	for (size_t i = 0; i < SLOTS; i++)
		tests[i] = (struct CMUnitTest){ cases[i].name, each_error, NULL, NULL,
						(void *)(uintptr_t)&cases[i] };
	return cmocka_run_group_tests_name("fault_nic", tests, set_up, fault_group_teardown);
}
