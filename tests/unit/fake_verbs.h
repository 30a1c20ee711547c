/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibverbs and librdmacm as far as looking for devices and opening domains needs them, in place of the
 * real ones, by the loader of verbs_lib.h.  What the devices are like is set in fake, before the library
 * under test asks.  Every function that is not here is a stub that ends the process.
 */
#ifndef HM_TEST_FAKE_VERBS_H
#define HM_TEST_FAKE_VERBS_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "core/base/dl.h"
#include "core/nic/verbs_lib.h"

#define FAKE_DEVICES 3
#define FAKE_PORTS   2
#define FAKE_GIDS    8

struct fake_gid {
	const char *text; /* as inet_pton takes it; NULL: empty */
	enum ibv_gid_type type;
	uint32_t interface;
};

struct fake_port {
	struct ibv_port_attr attr;
	int error; /* of ibv_query_port */
	struct fake_gid gid[FAKE_GIDS];
};

struct fake_device {
	struct ibv_device ibv;
	struct ibv_device_attr attr;
	struct ibv_odp_caps odp;
	struct fake_port port[FAKE_PORTS];
	int open_error, query_error, pd_error, dealloc_error, dmabuf_error, plain_error;
	bool extended;	 /* has query_device_ex, query_port and advise_mr in its context */
	bool zero_based; /* takes an iova of 0 */
	bool rereg;
	int contexts, pds, mrs;
};

struct fake_context {
	struct verbs_context verbs; /* ends with the context */
	int pipe_end;
};

/* An address that librdmacm binds to a port. */
struct fake_bound {
	const char *text;
	int device;
	uint8_t number;
};

static struct {
	const char *no_library, *no_symbol; /* dlopen, dlsym of these fail */
	struct fake_device device[FAKE_DEVICES];
	int devices; /* 0: an empty list; -1: no list, list_error */
	int list_error, channel_error, id_error;
	struct fake_bound bound[8];
	enum ibv_fork_status fork;
	int fork_inits, channels, ids, libraries;
	struct ibv_async_event events[8]; /* those to come */
	int event_count, event_error, acks;
} fake;

static void *fake_dlopen(const char *file, int flags);
static void *fake_dlsym(void *handle, const char *name);
static int fake_dlclose(void *handle);

/* ---- setting up ---- */

static inline void fake_device_init(int index, const char *name)
{
	struct fake_device *device = &fake.device[index];

	memset(device, 0, sizeof(*device));
	device->ibv.transport_type = IBV_TRANSPORT_IB;
	device->ibv.node_type = IBV_NODE_CA;
	snprintf(device->ibv.name, sizeof(device->ibv.name), "%s", name);
	snprintf(device->ibv.dev_name, sizeof(device->ibv.dev_name), "uverbs%d", index);
	device->attr = (struct ibv_device_attr){
		.fw_ver = "1.2.3",
		.max_mr_size = 1 << 20,
		.vendor_id = 0x1234,
		.vendor_part_id = 0x5678,
		.hw_ver = 9,
		.max_qp = 100,
		.max_qp_wr = 1000,
		.max_sge = 16,
		.max_cq = 200,
		.max_mr = 5000,
		.max_mw = 300,
		.max_srq = 50,
		.max_qp_rd_atom = 16,
		.phys_port_cnt = 1,
		.atomic_cap = IBV_ATOMIC_HCA,
	};
	for (int i = 0; i < FAKE_PORTS; i++)
		device->port[i].attr = (struct ibv_port_attr){
			.state = IBV_PORT_ACTIVE,
			.active_mtu = IBV_MTU_4096,
			.gid_tbl_len = FAKE_GIDS,
			.max_msg_sz = 1 << 30,
			.active_width = 2,
			.active_speed = 32,
			.link_layer = IBV_LINK_LAYER_ETHERNET,
		};
	device->zero_based = true;
	device->dmabuf_error = EBADF;
}

/* One Ethernet device with 127.0.0.1 and fd00::1. */
static inline void fake_init(void)
{
	memset(&fake, 0, sizeof(fake));
	hm_dl_loader = (struct hm_dl_loader){ fake_dlopen, fake_dlsym, fake_dlclose };
	fake_device_init(0, "fake0");
	fake.devices = 1;
	fake.fork = IBV_FORK_UNNEEDED;
	fake.device[0].port[0].gid[0] =
		(struct fake_gid){ "::ffff:127.0.0.1", IBV_GID_TYPE_ROCE_V2, 1 };
	fake.device[0].port[0].gid[1] = (struct fake_gid){ "fd00::1", IBV_GID_TYPE_ROCE_V2, 1 };
	fake.bound[0] = (struct fake_bound){ "127.0.0.1", 0, 1 };
	fake.bound[1] = (struct fake_bound){ "fd00::1", 0, 1 };
}

static struct fake_device *fake_of(struct ibv_context *context)
{
	return (struct fake_device *)context->device;
}

/* ---- libibverbs ---- */

static struct ibv_device **fake_get_device_list(int *count)
{
	struct ibv_device **list;

	if (fake.devices < 0) {
		errno = fake.list_error;
		return NULL;
	}
	list = calloc((size_t)fake.devices + 1, sizeof(struct ibv_device *));
	for (int i = 0; i < fake.devices; i++)
		list[i] = &fake.device[i].ibv;
	if (count)
		*count = fake.devices;
	return list;
}

static void fake_free_device_list(struct ibv_device **list)
{
	free(list);
}

static const char *fake_get_device_name(struct ibv_device *device)
{
	return device->name;
}

static int fake_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	*attr = fake_of(context)->attr;
	return fake_of(context)->query_error;
}

static int fake_query_device_ex(struct ibv_context *context,
				const struct ibv_query_device_ex_input *input,
				struct ibv_device_attr_ex *attr, size_t size)
{
	(void)input;
	memset(attr, 0, size);
	attr->orig_attr = fake_of(context)->attr;
	attr->odp_caps = fake_of(context)->odp;
	return fake_of(context)->query_error;
}

static int fake_query_port_ex(struct ibv_context *context, uint8_t number,
			      struct ibv_port_attr *attr, size_t size)
{
	const struct fake_port *port = &fake_of(context)->port[number - 1];

	if (size != sizeof(*attr))
		return EINVAL;
	*attr = port->attr;
	return port->error;
}

static int fake_query_port(struct ibv_context *context, uint8_t number,
			   struct _compat_ibv_port_attr *attr)
{
	return fake_query_port_ex(context, number, (struct ibv_port_attr *)attr,
				  sizeof(struct ibv_port_attr));
}

static int fake_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			  struct ibv_sge *list, uint32_t count)
{
	(void)pd;
	(void)advice;
	(void)flags;
	(void)list;
	return count == 1 ? 0 : EINVAL;
}

static struct ibv_context *fake_open_device(struct ibv_device *ibv)
{
	struct fake_device *device = (struct fake_device *)ibv;
	struct fake_context *context;
	int ends[2];

	if (device->open_error) {
		errno = device->open_error;
		return NULL;
	}
	context = calloc(1, sizeof(*context));
	if (!context || pipe(ends))
		abort();
	context->pipe_end = ends[1];
	context->verbs.context.async_fd = ends[0];
	context->verbs.context.device = ibv;
	if (device->extended) {
		context->verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
		context->verbs.sz = sizeof(context->verbs);
		context->verbs.query_device_ex = fake_query_device_ex;
		context->verbs.query_port = fake_query_port_ex;
		context->verbs.advise_mr = fake_advise_mr;
	}
	device->contexts++;
	return &context->verbs.context;
}

static int fake_close_device(struct ibv_context *ibv)
{
	struct fake_context *context =
		(struct fake_context *)((char *)ibv - offsetof(struct fake_context, verbs.context));

	fake_of(ibv)->contexts--;
	close(ibv->async_fd);
	close(context->pipe_end);
	free(context);
	return 0;
}

static int fake_query_gid_ex(struct ibv_context *context, uint32_t number, uint32_t index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	const struct fake_gid *gid = &fake_of(context)->port[number - 1].gid[index];

	(void)flags;
	memset(entry, 0, size);
	if (!gid->text)
		return ENODATA;
	if (inet_pton(AF_INET6, gid->text, entry->gid.raw) != 1)
		abort();
	entry->gid_index = index;
	entry->port_num = number;
	entry->gid_type = gid->type;
	entry->ndev_ifindex = gid->interface;
	return 0;
}

static int fake_query_gid(struct ibv_context *context, uint8_t number, int index,
			  union ibv_gid *gid)
{
	struct ibv_gid_entry entry;

	if (fake_query_gid_ex(context, number, (uint32_t)index, &entry, 0, sizeof(entry)))
		return -1;
	*gid = entry.gid;
	return 0;
}

static struct ibv_pd *fake_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd;

	if (fake_of(context)->pd_error) {
		errno = fake_of(context)->pd_error;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		abort();
	pd->context = context;
	fake_of(context)->pds++;
	return pd;
}

/* Those that the driver refused to end: nobody else may have them any more. */
static __attribute__((used)) struct ibv_pd *fake_refused_pds[32];

static int fake_dealloc_pd(struct ibv_pd *pd)
{
	static size_t refusals;
	struct fake_device *device = fake_of(pd->context);

	if (device->dealloc_error) {
		fake_refused_pds[refusals++ % 32] = pd;
		return device->dealloc_error;
	}
	device->pds--;
	free(pd);
	return 0;
}

static struct ibv_mr *fake_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
					unsigned int access)
{
	struct fake_device *device = fake_of(pd->context);
	struct ibv_mr *mr;

	errno = device->plain_error;
	if (!errno && iova == 0 && !device->zero_based)
		errno = EINVAL;
	if (!errno && (access & IBV_ACCESS_ON_DEMAND) && !device->odp.general_caps)
		errno = EOPNOTSUPP;
	if (errno)
		return NULL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		abort();
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	device->mrs++;
	return mr;
}

/* Trials that need a queue end here. */
static struct ibv_cq *fake_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				     struct ibv_comp_channel *channel, int vector)
{
	(void)context;
	(void)cqe;
	(void)cq_context;
	(void)channel;
	(void)vector;
	errno = ENOMEM;
	return NULL;
}

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return fake_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

static struct ibv_mr *fake_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					 uint64_t iova, int fd, int access)
{
	(void)offset;
	(void)length;
	(void)iova;
	(void)access;
	if (fd != -1)
		abort();
	errno = fake_of(pd->context)->dmabuf_error;
	return NULL;
}

static int fake_dereg_mr(struct ibv_mr *mr)
{
	fake_of(mr->context)->mrs--;
	free(mr);
	return 0;
}

static int fake_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
			 int access)
{
	(void)flags;
	(void)pd;
	(void)addr;
	(void)length;
	(void)access;
	return fake_of(mr->context)->rereg ? 0 : IBV_REREG_MR_ERR_CMD;
}

static int fake_fork_init(void)
{
	fake.fork_inits++;
	return 0;
}

static enum ibv_fork_status fake_is_fork_initialized(void)
{
	return fake.fork;
}

/* Wants the descriptor to be non-blocking, as a reader would otherwise hang here. */
static int fake_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	if (!(fcntl(context->async_fd, F_GETFL) & O_NONBLOCK))
		abort();
	if (fake.event_count == 0) {
		errno = fake.event_error ? fake.event_error : EAGAIN;
		return -1;
	}
	*event = fake.events[0];
	memmove(fake.events, fake.events + 1, sizeof(fake.events) - sizeof(fake.events[0]));
	fake.event_count--;
	return 0;
}

static void fake_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	fake.acks++;
}

static const char *fake_event_type_str(enum ibv_event_type type)
{
	return type == IBV_EVENT_DEVICE_FATAL ? "fatal" : "event";
}

/* ---- librdmacm ---- */

static struct rdma_event_channel *fake_create_event_channel(void)
{
	struct rdma_event_channel *channel;

	if (fake.channel_error) {
		errno = fake.channel_error;
		return NULL;
	}
	channel = calloc(1, sizeof(*channel));
	fake.channels++;
	return channel;
}

static void fake_destroy_event_channel(struct rdma_event_channel *channel)
{
	fake.channels--;
	free(channel);
}

static int fake_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			  enum rdma_port_space space)
{
	if (fake.id_error || space != RDMA_PS_TCP) {
		errno = fake.id_error;
		return -1;
	}
	*id = calloc(1, sizeof(**id));
	if (!*id)
		abort();
	(*id)->channel = channel;
	(*id)->context = context;
	fake.ids++;
	return 0;
}

static int fake_destroy_id(struct rdma_cm_id *id)
{
	fake.ids--;
	free(id->verbs);
	free(id);
	return 0;
}

static int fake_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	char text[INET6_ADDRSTRLEN];
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;

	if (addr->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)addr)->sin_addr, text,
			  sizeof(text));
	else
		inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
	/* an address that is bound to no device is no error here: one listens on all of them */
	for (size_t i = 0; i < sizeof(fake.bound) / sizeof(fake.bound[0]); i++) {
		if (!fake.bound[i].text || strcmp(fake.bound[i].text, text))
			continue;
		if (addr->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) &&
		    !in6->sin6_scope_id)
			break;
		id->verbs = calloc(1, sizeof(*id->verbs));
		if (!id->verbs)
			abort();
		id->verbs->device = &fake.device[fake.bound[i].device].ibv;
		id->port_num = fake.bound[i].number;
		return 0;
	}
	return 0;
}

/* ---- the loader ---- */

static void fake_stub(void)
{
	fprintf(stderr, "a function of libibverbs or librdmacm that no test expects\n");
	abort();
}

#define FAKE_IBV(name)                                                                             \
	{                                                                                          \
		"ibv_" #name, (void (*)(void))fake_##name                                          \
	}
#define FAKE_RDMA(name)                                                                            \
	{                                                                                          \
		"rdma_" #name, (void (*)(void))fake_##name                                         \
	}
static const struct {
	const char *name;
	void (*function)(void);
} fake_symbols[] = {
	FAKE_IBV(get_device_list),
	FAKE_IBV(free_device_list),
	FAKE_IBV(get_device_name),
	FAKE_IBV(query_device),
	FAKE_IBV(query_port),
	FAKE_IBV(open_device),
	FAKE_IBV(close_device),
	FAKE_IBV(query_gid),
	FAKE_IBV(alloc_pd),
	FAKE_IBV(dealloc_pd),
	FAKE_IBV(create_cq),
	FAKE_IBV(reg_mr),
	FAKE_IBV(reg_mr_iova2),
	FAKE_IBV(reg_dmabuf_mr),
	FAKE_IBV(dereg_mr),
	FAKE_IBV(rereg_mr),
	FAKE_IBV(fork_init),
	FAKE_IBV(get_async_event),
	FAKE_IBV(is_fork_initialized),
	FAKE_IBV(ack_async_event),
	FAKE_IBV(event_type_str),
	FAKE_RDMA(create_event_channel),
	FAKE_RDMA(destroy_event_channel),
	FAKE_RDMA(create_id),
	FAKE_RDMA(destroy_id),
	FAKE_RDMA(bind_addr),
	{ "_ibv_query_gid_ex", (void (*)(void))fake_query_gid_ex },
};

static char fake_ibverbs, fake_rdmacm; /* their addresses are the handles */

static void *fake_dlopen(const char *file, int flags)
{
	(void)flags;
	if (fake.no_library && strcmp(file, fake.no_library) == 0)
		return NULL;
	if (strcmp(file, "libibverbs.so.1") && strcmp(file, "librdmacm.so.1"))
		return NULL;
	fake.libraries++;
	return strcmp(file, "libibverbs.so.1") ? &fake_rdmacm : &fake_ibverbs;
}

static void *fake_dlsym(void *handle, const char *name)
{
	void (*function)(void) = fake_stub;
	void *address;

	if (fake.no_symbol && strcmp(name, fake.no_symbol) == 0)
		return NULL;
	if ((strncmp(name, "rdma_", 5) == 0) != (handle == &fake_rdmacm))
		return NULL;
	for (size_t i = 0; i < sizeof(fake_symbols) / sizeof(fake_symbols[0]); i++) {
		if (strcmp(fake_symbols[i].name, name) == 0)
			function = fake_symbols[i].function;
	}
	memcpy(&address, &function, sizeof(address));
	return address;
}

static int fake_dlclose(void *handle)
{
	(void)handle;
	fake.libraries--;
	return 0;
}

#endif
