/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulated devices, their addresses, and contexts. */
#include "tests/drivers/verbs/emu.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <net/if.h>
#include <stdio.h>
#include <unistd.h>

/* What is kept until the library is unloaded: memory of objects that outlived their device. */
struct grave {
	struct grave *next;
	void *memory;
};

static struct grave *graves;

void emu_grave(void *memory)
{
	struct grave *grave = malloc(sizeof(*grave));

	if (!grave)
		abort();
	grave->memory = memory;
	grave->next = graves;
	graves = grave;
}

int emu_bury(struct ibv_context *context, void *memory)
{
	emu_grave(memory);
	return (int)emu_ctx(context)->config.removed_dereg;
}

static void __attribute__((destructor)) free_graves(void)
{
	while (graves) {
		struct grave *grave = graves;

		graves = grave->next;
		free(grave->memory);
		free(grave);
	}
}

/* ---- addresses ---- */
void emu_sockaddr_gid(const struct sockaddr *addr, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (addr->sa_family == AF_INET) {
		memset(gid->raw + 10, 0xff, 2);
		memcpy(gid->raw + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
	} else {
		memcpy(gid->raw, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
	}
}

unsigned int emu_device_gid_index(const struct emu_device *device, const union ibv_gid *gid)
{
	unsigned int index = EMU_GIDS;

	/* The last one, so that RoCE v2 is taken where both are. */
	for (unsigned int i = 0; i < device->gid_count; i++)
		if (!memcmp(&device->gids[i].gid, gid, sizeof(*gid)))
			index = i;
	return index;
}

/* Is it one that the connection manager knows? */
static bool known_to_cm(const struct emu_device *device)
{
	return device->config.bind && device->config.transport != IBV_TRANSPORT_UNSPECIFIED;
}

struct emu_device *emu_device_by_addr(const struct sockaddr *addr)
{
	union ibv_gid gid;

	if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
		return NULL;
	emu_sockaddr_gid(addr, &gid);
	for (unsigned int i = 0; i < EMU_DEVICES; i++) {
		struct emu_device *device = &emu.devices[i];

		if (!device->removed && known_to_cm(device) &&
		    emu_device_gid_index(device, &gid) < EMU_GIDS)
			return device;
	}
	return NULL;
}

static void gid_add(struct emu_device *device, const void *addr, uint32_t type)
{
	struct emu_gid *entry = &device->gids[device->gid_count++];

	emu_sockaddr_gid(addr, &entry->gid);
	entry->type = type;
}

static void set_gids(struct emu_device *device)
{
	uint64_t gids = device->config.gids;
	bool ib = device->config.link == IBV_LINK_LAYER_INFINIBAND;
	uint32_t type = ib || gids == EMU_GIDS_V1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	device->gid_count = 0;
	if (gids == EMU_GIDS_NONE)
		return;
	v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK + device->index);
	if (ib)
		type = IBV_GID_TYPE_IB;
	if (gids == EMU_GIDS_MIXED)
		gid_add(device, &v4, IBV_GID_TYPE_ROCE_V1);
	gid_add(device, &v4, type);
	if (device->index || gids == EMU_GIDS_V4)
		return;
	if (gids == EMU_GIDS_MIXED)
		gid_add(device, &v6, IBV_GID_TYPE_ROCE_V1);
	gid_add(device, &v6, type);
}

/* ---- the list ---- */
static void device_set_up(struct emu_device *device, unsigned int index,
			  const struct emu_config *config)
{
	struct ibv_device *ibv = &device->ibv;
	enum ibv_transport_type transport = (enum ibv_transport_type)(int64_t)config->transport;

	if (!device->contexts.next)
		hm_list_init(&device->contexts);
	device->config = *config;
	device->index = index;
	device->port_state = (enum ibv_port_state)config->port;
	ibv->node_type = transport == IBV_TRANSPORT_IB	    ? IBV_NODE_CA
			 : transport == IBV_TRANSPORT_IWARP ? IBV_NODE_RNIC
							    : IBV_NODE_UNSPECIFIED;
	ibv->transport_type = transport;
	snprintf(ibv->name, sizeof(ibv->name), "emu%u", index);
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%u", index);
	set_gids(device);
}

/* As the real library loads the provider of a device that it finds; it stays. */
static void load_provider(void)
{
	if (!dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL))
		fprintf(stderr, "emulated device: no keys over several regions: %s\n", dlerror());
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(EMU_DEVICES + 1, sizeof(*list));
	int error = list ? emu_call(CALL_ibv_get_device_list) : ENOMEM;
	struct emu_config config[EMU_DEVICES];
	unsigned int devices, found = 0;

	emu_enter();
	devices = emu_config_read(config);
	if (!error)
		error = (int)config[0].list;
	for (unsigned int i = 0; !error && i < EMU_DEVICES; i++) {
		device_set_up(&emu.devices[i], i, &config[i]);
		if (i >= devices)
			emu.devices[i].gid_count = 0;
		else if (!emu.devices[i].removed)
			list[found++] = &emu.devices[i].ibv;
	}
	emu_leave();
	if (error) {
		free(list);
		errno = error;
		return NULL;
	}
	for (unsigned int i = 0; i < devices; i++)
		if (config[i].indirect)
			load_provider();
	if (num_devices)
		*num_devices = (int)found;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return (int)hm_container(device, struct emu_device, ibv)->index;
}

static __be64 device_guid(const struct emu_device *device)
{
	return htobe64(UINT64_C(0x02e30ffffe000000) + device->index);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device_guid(hm_container(device, struct emu_device, ibv));
}

/* ---- attributes ---- */
static void fill_attr(const struct emu_context *context, struct ibv_device_attr *attr)
{
	const struct emu_config *config = &context->config;

	memset(attr, 0, sizeof(*attr));
	snprintf(attr->fw_ver, sizeof(attr->fw_ver), "1.0.0");
	attr->node_guid = device_guid(context->device);
	attr->sys_image_guid = attr->node_guid;
	attr->max_mr_size = config->max_mr_size;
	attr->page_size_cap = UINT64_MAX & ~(uint64_t)(EMU_PAGE - 1);
	attr->vendor_id = EMU_VENDOR_ID;
	attr->vendor_part_id = 1;
	attr->hw_ver = 1;
	attr->max_qp = (int)config->max_qp;
	attr->max_qp_wr = (int)config->max_qp_wr;
	attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID;
	if (config->mw)
		attr->device_cap_flags |= IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	if (config->mw == 1)
		attr->device_cap_flags |= IBV_DEVICE_MEM_WINDOW;
	attr->max_sge = (int)config->max_sge;
	attr->max_sge_rd = (int)config->max_sge;
	attr->max_cq = (int)config->max_cq;
	attr->max_cqe = (int)config->max_cqe;
	attr->max_mr = (int)config->max_mr;
	attr->max_pd = (int)config->max_pd;
	attr->max_qp_rd_atom = (int)config->max_rd_atomic;
	attr->max_res_rd_atom = (int)(config->max_rd_atomic * config->max_qp);
	attr->max_qp_init_rd_atom = (int)config->max_rd_atomic;
	attr->atomic_cap = (enum ibv_atomic_cap)config->atomic;
	attr->max_mw = config->mw ? (int)config->max_mw : 0;
	attr->max_ah = 65536;
	attr->max_srq = (int)config->max_srq;
	attr->max_srq_wr = (int)config->max_srq_wr;
	attr->max_srq_sge = (int)config->max_srq_sge;
	attr->max_pkeys = 64;
	attr->local_ca_ack_delay = 15;
	attr->phys_port_cnt = 1;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int error = emu_call(CALL_ibv_query_device);

	emu_enter();
	if (!error && emu_gone(context))
		error = EIO;
	if (!error)
		fill_attr(emu_ctx(context), attr);
	emu_leave();
	return error;
}

static int query_device_ex(struct ibv_context *context,
			   const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	const struct emu_config *config = &emu_ctx(context)->config;
	struct ibv_device_attr_ex full = { .phys_port_cnt_ex = 1 };
	int error = emu_call(CALL_ibv_query_device_ex);

	if (error)
		return error;
	if ((input && input->comp_mask) || attr_size < sizeof(attr->orig_attr))
		return EINVAL;
	emu_enter();
	error = emu_gone(context) ? EIO : 0;
	fill_attr(emu_ctx(context), &full.orig_attr);
	emu_leave();
	if (error)
		return error;
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	if (config->odp) {
		full.odp_caps.general_caps = IBV_ODP_SUPPORT;
		if (config->odp > 1)
			full.odp_caps.general_caps |= IBV_ODP_SUPPORT_IMPLICIT;
		full.odp_caps.per_transport_caps.rc_odp_caps =
			IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
			IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV;
	}
	memset(attr, 0, attr_size);
	memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
	return 0;
}

static int fill_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr)
{
	const struct emu_context *ctx = emu_ctx(context);
	int error = emu_call(CALL_ibv_query_port);
	uint64_t mtu = 256;

	if (error)
		return error;
	if (port_num != 1)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	emu_enter();
	error = emu_gone(context) ? EIO : 0;
	attr->state = ctx->device->port_state;
	emu_leave();
	attr->max_mtu = IBV_MTU_4096;
	for (attr->active_mtu = IBV_MTU_256; mtu < ctx->config.mtu; mtu *= 2)
		attr->active_mtu++;
	attr->gid_tbl_len = EMU_GIDS;
	attr->port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
	attr->max_msg_sz = (uint32_t)ctx->config.max_msg;
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	attr->active_width = 2;	 /* 4 lanes */
	attr->active_speed = 32; /* of 25 Gbit/s */
	attr->phys_state = attr->state == IBV_PORT_ACTIVE ? 5 : 3;
	attr->link_layer = (uint8_t)ctx->config.link;
	if (attr->link_layer == IBV_LINK_LAYER_INFINIBAND && ctx->config.lid)
		attr->lid = (uint16_t)(ctx->config.lid + ctx->device->index);
	if (ctx->config.grh)
		attr->flags |= IBV_QPF_GRH_REQUIRED;
	return error;
}

static int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
		      size_t attr_size)
{
	struct ibv_port_attr full;
	int error = fill_port(context, port_num, &full);

	if (!error) {
		memset(attr, 0, attr_size);
		memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
	}
	return error;
}

/* The function of the old interface knows the fields before port_cap_flags2. */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port_num, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, port_cap_flags2));
}

static const struct emu_gid *find_gid(struct ibv_context *context, uint32_t port_num,
				      uint32_t index)
{
	static const struct emu_gid none;
	const struct emu_device *device = emu_ctx(context)->device;

	if (device->removed) {
		errno = EIO;
		return NULL;
	}
	if (port_num != 1 || index >= EMU_GIDS) {
		errno = EINVAL;
		return NULL;
	}
	return index < device->gid_count ? &device->gids[index] : &none;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	const struct emu_gid *found;
	int error = emu_call(CALL_ibv_query_gid);

	if (error) {
		errno = error;
		return -1;
	}
	emu_enter();
	found = find_gid(context, port_num, (uint32_t)index);
	if (found)
		*gid = found->gid;
	emu_leave();
	return found ? 0 : -1;
}

static void fill_gid_entry(const struct emu_gid *gid, uint32_t index, struct ibv_gid_entry *entry)
{
	entry->gid = gid->gid;
	entry->gid_index = index;
	entry->port_num = 1;
	entry->gid_type = gid->type;
	entry->ndev_ifindex = if_nametoindex("lo");
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	const struct emu_gid *found;
	int error = emu_call(CALL_ibv_query_gid_ex);

	if (error)
		return error;
	if (flags || entry_size < sizeof(*entry))
		return EINVAL;
	emu_enter();
	found = find_gid(context, port_num, gid_index);
	error = !found ? errno : gid_index >= emu_ctx(context)->device->gid_count ? ENODATA : 0;
	if (!error)
		fill_gid_entry(found, gid_index, entry);
	emu_leave();
	return error;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	const struct emu_device *device = emu_ctx(context)->device;
	ssize_t count;

	if (flags || entry_size < sizeof(*entries))
		return -EINVAL;
	emu_enter();
	count = device->removed			  ? -EIO
		: device->gid_count > max_entries ? -EINVAL
						  : (ssize_t)device->gid_count;
	for (ssize_t i = 0; i < count; i++)
		fill_gid_entry(&device->gids[i], (uint32_t)i, &entries[i]);
	emu_leave();
	return count;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	int error = emu_call(CALL_ibv_query_pkey);

	(void)context;
	if (error || port_num != 1 || index != 0) {
		errno = error ? error : EINVAL;
		return -1;
	}
	*pkey = htons(0xffff);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	(void)context;
	return port_num == 1 && pkey == htons(0xffff) ? 0 : -1;
}

/* ---- contexts ---- */
static void set_ops(struct emu_context *context)
{
	struct verbs_context *verbs = &context->verbs;
	struct ibv_context_ops *ops = &verbs->context.ops;

	verbs->sz = sizeof(*verbs);
	verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	verbs->query_port = query_port;
	verbs->advise_mr = context->config.advise ? emu_advise_mr : NULL;
	verbs->query_device_ex = context->config.query_ex ? query_device_ex : NULL;
	ops->alloc_mw = context->config.mw ? emu_alloc_mw : NULL;
	ops->bind_mw = emu_bind_mw;
	ops->dealloc_mw = emu_dealloc_mw;
	ops->poll_cq = emu_poll_cq;
	ops->req_notify_cq = emu_req_notify_cq;
	ops->post_srq_recv = emu_post_srq_recv;
	ops->post_send = emu_post_send;
	ops->post_recv = emu_post_recv;
}

static struct emu_context *context_open(struct emu_device *device)
{
	struct emu_context *context = calloc(1, sizeof(*context));
	int error = !context ? ENOMEM : device->removed ? EIO : emu_channel_open(&context->async);

	if (error) {
		free(context);
		errno = error;
		return NULL;
	}
	context->device = device;
	context->config = device->config;
	context->verbs.context.device = &device->ibv;
	context->verbs.context.cmd_fd = context->async.write_fd;
	context->verbs.context.async_fd = context->async.fd;
	context->verbs.context.num_comp_vectors = 1;
	pthread_mutex_init(&context->verbs.context.mutex, NULL);
	set_ops(context);
	hm_list_add_tail(&device->contexts, &context->entry);
	return context;
}

static void context_close(struct emu_context *context)
{
	const struct emu_limits_used *used = &context->used;

	while (!hm_list_empty(&context->async.queue)) {
		struct emu_async *async =
			hm_container(context->async.queue.next, struct emu_async, entry);

		hm_list_del(&async->entry);
		free(async);
	}
	hm_list_del(&context->entry);
	emu_channel_close(&context->async);
	pthread_mutex_destroy(&context->verbs.context.mutex);
	/* Objects that were left behind stay in the counts, and their context in memory. */
	if (used->mr || used->mw || used->pd || used->cq || used->qp || used->srq)
		emu_grave(context);
	else
		free(context);
}

struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	struct emu_device *device = hm_container(ibv, struct emu_device, ibv);
	struct emu_context *context = NULL;
	int error = emu_call(CALL_ibv_open_device);

	emu_enter();
	if (!error)
		error = (int)device->config.open;
	if (!error) {
		context = context_open(device);
		error = errno;
	}
	if (context)
		emu_count(&context->verbs.context, contexts, 1);
	emu_leave();
	errno = error;
	return context ? &context->verbs.context : NULL;
}

int ibv_close_device(struct ibv_context *ibv)
{
	struct emu_context *context = emu_ctx(ibv);
	int error = emu_call(CALL_ibv_close_device);

	if (error) {
		errno = error;
		return -1;
	}
	emu_enter();
	emu_count(ibv, contexts, -1);
	context_close(context);
	emu_leave();
	return 0;
}

struct emu_context *emu_internal_context(struct emu_device *device)
{
	struct emu_context *context;

	for (struct hm_list *at = device->contexts.next; at != &device->contexts; at = at->next) {
		context = hm_container(at, struct emu_context, entry);
		if (context->internal) {
			context->users++;
			return context;
		}
	}
	context = context_open(device);
	if (context) {
		context->internal = true;
		context->users = 1;
	}
	return context;
}

void emu_internal_release(struct emu_context *context)
{
	if (--context->users == 0)
		context_close(context);
}
