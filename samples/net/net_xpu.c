/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What kernels get: an endpoint of their own to the same peer, and descriptors of regions.  The context is the
 * processor's, whose kernels are threads; for a GPU it takes .iface and .device of fi_xpu_attr, and a copy of what
 * connect and getDeviceMr give into the GPU's memory or among a kernel's parameters (xpu/side.c).
 */
#include <string.h>

#include "net_plugin.h"

int net_xpu_open(struct net_nic *nic)
{
	struct fi_xpu_attr attr = { .iface = FI_HMEM_SYSTEM };
	struct fi_xpu_ctx_attr sizes;
	int ret = fi_xpu_ctx(nic->end.domain, &attr, &nic->xpu, NULL);

	if (ret)
		return sample_fail("fi_xpu_ctx", ret);
	ret = fi_xpu_ctx_query(nic->xpu, &sizes);
	if (ret)
		return sample_fail("fi_xpu_ctx_query", ret);
	if (sizes.mr_desc_size > sizeof(((struct net_device_mr *)0)->desc) ||
	    sizes.av_addr_size > sizeof(((struct net_device_comm *)0)->peer))
		return sample_fail("a descriptor for kernels", -FI_ETOOSMALL);
	return 0;
}

static int open_endpoint(struct net_comm *comm)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG }; /* the host's, for errors */
	struct fi_cntr_attr cntr_attr = { .flags = FI_XPU, .xpu_ctx = comm->nic->xpu };
	struct sample_end *end = &comm->xpu_end;
	int ret;

	end->info->ep_attr->xpu_ctx = comm->nic->xpu;
	ret = fi_av_open(end->domain, &(struct fi_av_attr){ 0 }, &end->av, NULL);
	if (!ret)
		ret = fi_cq_open(end->domain, &cq_attr, &end->cq, NULL);
	if (!ret)
		ret = fi_cntr_open(end->domain, &cntr_attr, &comm->xpu_sent, NULL);
	if (!ret)
		ret = fi_endpoint2(end->domain, end->info, &end->ep, FI_XPU, NULL);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(end->ep, &end->cq->fid,
				 FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION);
	if (!ret)
		ret = fi_ep_bind(end->ep, &comm->xpu_sent->fid, FI_WRITE | FI_READ | FI_SEND);
	if (!ret)
		ret = fi_enable(end->ep);
	return ret ? sample_fail("an endpoint for kernels", ret) : 0;
}

int net_xpu_connect(struct net_comm *comm, const void *listener)
{
	struct net_device_comm *device = &comm->device;
	struct sample_end *end = &comm->xpu_end;
	size_t len = sizeof(device->peer);
	int ret;

	*end = comm->nic->end;
	end->info = fi_dupinfo(comm->nic->end.info);
	if (!end->info)
		return -FI_ENOMEM;
	ret = open_endpoint(comm);
	if (!ret)
		ret = sample_enter(end, listener, &end->peer);
	if (ret)
		return ret;
	ret = fi_av_lookup2(end->av, end->peer, device->peer, &len, FI_XPU, comm->nic->xpu);
	if (!ret)
		ret = fi_ep_export_xpu(end->ep, 0, &device->ep);
	if (!ret)
		ret = fi_cntr_export_xpu(comm->xpu_sent, 0, &device->sent);
	return ret ? sample_fail("handing an endpoint to kernels", ret) : 0;
}

int net_xpu_disconnect(struct net_comm *comm)
{
	struct sample_end *end = &comm->xpu_end;
	struct fid *fids[] = { end->ep ? &end->ep->fid : NULL,
			       comm->xpu_sent ? &comm->xpu_sent->fid : NULL,
			       end->cq ? &end->cq->fid : NULL, end->av ? &end->av->fid : NULL };
	int ret = 0, failed;

	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++) {
		failed = fids[i] ? fi_close(fids[i]) : 0;
		ret = ret ? ret : failed;
	}
	if (end->info)
		fi_freeinfo(end->info);
	memset(end, 0, sizeof(*end));
	return ret;
}

int net_xpu_region(struct net_comm *comm, struct net_mr *mr)
{
	struct net_device_mr *out = &mr->for_kernels;
	struct sample_key key;
	size_t len = sizeof(out->desc);
	int ret;

	if (!comm->nic->xpu)
		return -FI_ENOSYS;
	ret = net_regs_offer(comm->regs, mr, mr->addr, &key);
	if (ret)
		return ret;
	out->address = mr->addr;
	out->size = mr->size;
	out->remote_address = key.address;
	out->remote_key = key.raw_size ? 0 : key.key;
	ret = fi_mr_get_xpu_desc(mr->mr, out->desc, &len, FI_XPU, comm->nic->xpu);
	return ret ? sample_fail("fi_mr_get_xpu_desc", ret) : 0;
}
