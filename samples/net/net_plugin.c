/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network plug-in for collective libraries: registration in terms of fi_mr(3), with slices of registered memory as
 * sub-MRs.  This file has the table and what it checks; net_regs.c is the part to look at first.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>

#include "net_plugin.h"

static enum net_result result_of(int ret)
{
	switch (ret) {
	case 0:
		return NET_OK;
	case -FI_EINVAL:
	case -FI_EFAULT:
		return NET_INVALID_ARGUMENT;
	case -FI_EBUSY:
	case -FI_ENOSYS:
	case -FI_EOPNOTSUPP:
	case -FI_ETRUNC:
		return NET_INVALID_USAGE;
	case -FI_EACCES:
	case -FI_ENOKEY:
	case -FI_EHOSTUNREACH:
	case -FI_ECONNABORTED:
		return NET_REMOTE_ERROR;
	default:
		return NET_SYSTEM_ERROR;
	}
}

__attribute__((format(printf, 3, 4))) static enum net_result
refuse(const struct net_instance *instance, enum net_result result, const char *format, ...)
{
	char line[256];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	if (instance && instance->log)
		instance->log(line);
	else
		fprintf(stderr, "%s\n", line);
	return result;
}

static enum net_result failed(const struct net_instance *instance, const char *call, int ret)
{
	return refuse(instance, result_of(ret), "%s: %s", call, fi_strerror(-ret));
}

/* ---- instances and connections ---- */

static enum net_result plugin_init(void **ctx, const struct net_config *config,
				   void (*log)(const char *line))
{
	struct net_instance *instance = calloc(1, sizeof(*instance));
	int ret;

	if (!instance)
		return NET_SYSTEM_ERROR;
	instance->log = log;
	instance->slices = config ? config->slices : 0;
	pthread_mutex_init(&instance->lock, NULL);
	ret = net_nics_find(instance, config ? config->domain : NULL);
	if (ret) {
		failed(instance, config && config->domain ? config->domain : "finding NICs", ret);
		net_nics_forget(instance);
		pthread_mutex_destroy(&instance->lock);
		free(instance);
		return result_of(ret);
	}
	*ctx = instance;
	return NET_OK;
}

static enum net_result plugin_finalize(void *ctx)
{
	struct net_instance *instance = ctx;

	for (int i = 0; i < instance->count; i++) {
		if (instance->nics[i].users)
			return failed(instance, "finalize: a connection is open", -FI_EBUSY);
	}
	net_nics_forget(instance);
	pthread_mutex_destroy(&instance->lock);
	free(instance);
	return NET_OK;
}

static enum net_result plugin_devices(void *ctx, int *count)
{
	*count = ((struct net_instance *)ctx)->count;
	return NET_OK;
}

static enum net_result plugin_properties(void *ctx, int dev, struct net_properties *props)
{
	struct net_instance *instance = ctx;
	struct net_nic *nic;
	int ret = net_nic_use(instance, dev, &nic);

	if (ret)
		return failed(instance, "getProperties", ret);
	*props = (struct net_properties){
		.name = nic->info->domain_attr->name,
		.pci_path = nic->pci,
		.ptr_support = NET_PTR_HOST | NET_PTR_CUDA | NET_PTR_DMABUF,
		.reg_is_global = !(nic->end.info->domain_attr->mr_mode & FI_MR_ENDPOINT),
		.max_recvs = 1,
		.device_calls = nic->xpu != NULL,
	};
	ret = net_nic_leave(instance, nic);
	return ret ? failed(instance, "getProperties", ret) : NET_OK;
}

static enum net_result plugin_listen(void *ctx, int dev, void *handle, void **listen_comm)
{
	size_t len = NET_HANDLE_SIZE;
	struct net_comm *comm;
	int ret = net_comm_open(ctx, dev, NET_LISTENS, &comm);

	if (ret)
		return failed(ctx, "listen", ret);
	memset(handle, 0, NET_HANDLE_SIZE);
	ret = fi_getname(&comm->end.ep->fid, handle, &len);
	if (ret) {
		net_comm_close(comm);
		return failed(ctx, "listen", ret);
	}
	*listen_comm = comm;
	return NET_OK;
}

static enum net_result plugin_connect(void *ctx, int dev, const void *handle, void **send_comm,
				      struct net_device_comm **device)
{
	struct net_comm *comm;
	int ret = net_comm_open(ctx, dev, NET_SENDS, &comm);

	if (ret)
		return failed(ctx, "connect", ret);
	ret = net_comm_hello(comm, handle);
	if (!ret && device && comm->nic->xpu)
		ret = net_xpu_connect(comm, handle);
	if (ret) {
		net_comm_close(comm);
		return failed(ctx, "connect", ret);
	}
	if (device)
		*device = comm->nic->xpu ? &comm->device : NULL;
	*send_comm = comm;
	return NET_OK;
}

static enum net_result plugin_accept(void *listen_comm, void **recv_comm)
{
	struct net_comm *comm = listen_comm;
	int ret = net_comm_accept(comm);

	*recv_comm = ret ? NULL : comm;
	return ret && ret != -FI_EAGAIN ? failed(comm->instance, "accept", ret) : NET_OK;
}

static enum net_result plugin_close(void *comm)
{
	const struct net_instance *instance = ((struct net_comm *)comm)->instance;
	int ret = net_comm_close(comm);

	return ret ? failed(instance, "closeComm: handles are open", ret) : NET_OK;
}

/* ---- registration ---- */

/* A range that registration may be asked for. */
static bool range_ok(const void *data, size_t size, int type)
{
	return data && size > 0 && size <= UINTPTR_MAX - (uintptr_t)data &&
	       (type == NET_PTR_HOST || type == NET_PTR_CUDA);
}

/* Whose memory it is; the library that calls says only whether it is an accelerator's. */
static int find_place(struct net_comm *comm, const void *data, size_t size, int type,
		      struct sample_place *place)
{
	struct hmreg_hmem_memory memory = { .size = sizeof(memory) };
	int ret = comm->nic->hmem->query(&comm->end.fabric->fid, data, size, &memory);

	if (ret)
		return ret;
	*place = (struct sample_place){ memory.iface, memory.device < 0 ? 0 : memory.device };
	if ((type == NET_PTR_CUDA) == (memory.iface != FI_HMEM_SYSTEM))
		return 0;
	refuse(comm->instance, NET_INVALID_ARGUMENT, "regMr: type %d, but the memory is %s", type,
	       memory.iface == FI_HMEM_SYSTEM ? "the host's" : "an accelerator's");
	return -FI_EINVAL;
}

static enum net_result plugin_reg(void *comm_arg, void *data, size_t size, int type, void **mhandle)
{
	struct net_comm *comm = comm_arg;
	struct iovec range = { data, size };
	struct fi_mr_attr attr = { .mr_iov = &range, .iov_count = 1 };
	struct sample_place place;
	struct net_mr *mr;
	int ret;

	if (!range_ok(data, size, type))
		return refuse(comm->instance, NET_INVALID_ARGUMENT,
			      "regMr: no memory: %p, %zu bytes, type %d", data, size, type);
	ret = net_regs_find(comm->regs, (uintptr_t)data, size, type == NET_PTR_CUDA, &mr);
	if (ret == -FI_ENOENT) { /* it lies in nothing that is registered */
		ret = find_place(comm, data, size, type, &place);
		if (!ret) {
			sample_name_place(&attr, &place);
			ret = net_regs_add(comm->regs, &attr, 0, (uintptr_t)data, size,
					   type == NET_PTR_CUDA, &mr);
		}
	}
	if (ret)
		return failed(comm->instance, "regMr", ret);
	*mhandle = mr;
	return NET_OK;
}

static enum net_result plugin_reg_dmabuf(void *comm_arg, void *data, size_t size, int type,
					 uint64_t offset, int fd, void **mhandle)
{
	struct net_comm *comm = comm_arg;
	struct fi_mr_dmabuf dmabuf = { .fd = fd, .offset = offset, .len = size };
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .iov_count = 1, .iface = FI_HMEM_SYSTEM };
	struct net_mr *mr;
	int ret;

	if (!range_ok(data, size, type) || fd < 0 || offset > (uintptr_t)data)
		return refuse(comm->instance, NET_INVALID_ARGUMENT,
			      "regMrDmaBuf: no memory: %p, %zu bytes, type %d, fd %d, offset %llu",
			      data, size, type, fd, (unsigned long long)offset);
	dmabuf.base_addr = (char *)data - offset; /* where the whole of it would begin */
	ret = net_regs_find(comm->regs, (uintptr_t)data, size, type == NET_PTR_CUDA, &mr);
	if (ret == -FI_ENOENT)
		ret = net_regs_add(comm->regs, &attr, FI_MR_DMABUF, (uintptr_t)data, size,
				   type == NET_PTR_CUDA, &mr);
	if (ret)
		return failed(comm->instance, "regMrDmaBuf", ret);
	*mhandle = mr;
	return NET_OK;
}

static enum net_result plugin_dereg(void *comm_arg, void *mhandle)
{
	struct net_comm *comm = comm_arg;
	int ret = net_regs_drop(comm->regs, mhandle);

	return ret ? failed(comm->instance, "deregMr", ret) : NET_OK;
}

static enum net_result plugin_device_mr(void *comm_arg, void *mhandle, void **dptr_mhandle)
{
	struct net_comm *comm = comm_arg;
	struct net_mr *mr = mhandle;
	int ret;

	pthread_mutex_lock(&comm->lock);
	ret = net_xpu_region(comm, mr);
	pthread_mutex_unlock(&comm->lock);
	if (ret)
		return failed(comm->instance, "getDeviceMr", ret);
	*dptr_mhandle = &mr->for_kernels;
	return NET_OK;
}

/* ---- transfers ---- */

static enum net_result begin(struct net_comm *comm, const char *call, int kind, void *data,
			     size_t size, int tag, struct net_mr *mr, void **request)
{
	struct net_request *made = NULL;
	int ret;

	*request = NULL;
	if ((int)comm->kind != kind || !mr ||
	    !net_inside(mr->addr, mr->size, (uintptr_t)data, size))
		return refuse(comm->instance, NET_INVALID_ARGUMENT,
			      "%s: not this connection's, or not inside the handle's memory", call);
	ret = net_comm_begin(comm, (uintptr_t)data, size, tag, mr, &made);
	*request = made;
	return ret && ret != -FI_EAGAIN ? failed(comm->instance, call, ret) : NET_OK;
}

static enum net_result plugin_isend(void *comm, void *data, size_t size, int tag, void *mhandle,
				    void **request)
{
	return begin(comm, "isend", NET_SENDS, data, size, tag, mhandle, request);
}

static enum net_result plugin_irecv(void *comm, void *data, size_t size, int tag, void *mhandle,
				    void **request)
{
	return begin(comm, "irecv", NET_RECEIVES, data, size, tag, mhandle, request);
}

static enum net_result plugin_test(void *request, int *done, size_t *size)
{
	const struct net_instance *instance = ((struct net_request *)request)->comm->instance;
	size_t moved = 0;
	int ret = net_comm_test(request, &moved);

	*done = !ret;
	if (ret == -FI_EAGAIN)
		return NET_OK;
	if (ret)
		return failed(instance, "test", ret);
	if (size)
		*size = moved;
	return NET_OK;
}

static enum net_result plugin_figures(void *comm, struct net_figures *figures)
{
	struct net_regs *regs = ((struct net_comm *)comm)->regs;

	figures->registered = atomic_load(&regs->registered);
	figures->derived = atomic_load(&regs->derived);
	figures->shared = atomic_load(&regs->shared);
	figures->open = atomic_load(&regs->open);
	figures->pinned = atomic_load(&regs->pinned);
	return NET_OK;
}

extern const struct net_plugin hmreg_net_plugin;
__attribute__((visibility("default"))) const struct net_plugin hmreg_net_plugin = {
	.name = "hmreg",
	.init = plugin_init,
	.devices = plugin_devices,
	.getProperties = plugin_properties,
	.listen = plugin_listen,
	.connect = plugin_connect,
	.accept = plugin_accept,
	.regMr = plugin_reg,
	.regMrDmaBuf = plugin_reg_dmabuf,
	.deregMr = plugin_dereg,
	.isend = plugin_isend,
	.irecv = plugin_irecv,
	.test = plugin_test,
	.closeComm = plugin_close,
	.getDeviceMr = plugin_device_mr,
	.figures = plugin_figures,
	.finalize = plugin_finalize,
};
