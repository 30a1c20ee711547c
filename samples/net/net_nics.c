/* SPDX-License-Identifier: BSD-2-Clause */
/* The NICs of an instance: found at its start, opened when a connection needs them. */
#include <stdlib.h>
#include <string.h>

#include "net_plugin.h"

#define CAPS (FI_MSG | FI_RMA | FI_HMEM)

static bool known(const struct net_instance *instance, const char *name)
{
	for (int i = 0; i < instance->count; i++) {
		if (!strcmp(instance->nics[i].info->domain_attr->name, name))
			return true;
	}
	return false;
}

int net_nics_find(struct net_instance *instance, const char *domain)
{
	struct fi_info *all, *info;
	int ret = sample_find(domain, CAPS, &all);

	if (ret)
		return ret;
	for (info = all; info && instance->count < NET_DEVICES; info = info->next) {
		struct net_nic *nic = &instance->nics[instance->count];

		if (known(instance, info->domain_attr->name))
			continue;
		nic->info = fi_dupinfo(info);
		if (!nic->info) {
			ret = -FI_ENOMEM;
			break;
		}
		instance->count++;
	}
	fi_freeinfo(all);
	return ret;
}

void net_nics_forget(struct net_instance *instance)
{
	while (instance->count > 0)
		fi_freeinfo(instance->nics[--instance->count].info);
}

/* Can the NIC make sub-MRs without pinning memory again? */
static int ask_device(struct net_nic *nic, struct net_regs *regs)
{
	struct hmreg_device device = { .size = sizeof(device) };
	struct fid *fabric = &nic->end.fabric->fid;
	struct hmreg_fabric_ops *ops;
	int ret = fi_open_ops(fabric, HMREG_FABRIC_OPS, 0, (void **)&ops, NULL);

	if (ret)
		return sample_fail("fi_open_ops of " HMREG_FABRIC_OPS, ret);
	ret = ops->device(fabric, nic->info, &device);
	if (ret)
		return sample_fail("asking what the NIC can do", ret);
	regs->can_sub = !strcmp(device.kind, "sw") || (device.can & HMREG_CAN_WINDOWS);
	regs->can_sub_dmabuf = !strcmp(device.kind, "sw") ||
			       (device.can & HMREG_CAN_DMABUF_WINDOWS);
	snprintf(nic->pci, sizeof(nic->pci), "%s", device.pci);
	return 0;
}

static int open_nic(struct net_instance *instance, struct net_nic *nic)
{
	struct sample_end *end = &nic->end;
	struct fi_info *info;
	int ret;

	memset(end, 0, sizeof(*end));
	/* with calls for kernels, if it has them */
	if (!sample_find(nic->info->domain_attr->name, CAPS | FI_ATOMIC | FI_XPU, &info))
		end->info = info;
	else
		end->info = fi_dupinfo(nic->info);
	if (!end->info)
		return -FI_ENOMEM;
	ret = fi_fabric(end->info->fabric_attr, &end->fabric, NULL);
	if (!ret)
		ret = fi_domain(end->fabric, end->info, &end->domain, NULL);
	if (ret)
		return sample_fail("opening the NIC", ret);
	ret = fi_open_ops(&end->fabric->fid, HMREG_HMEM_OPS, 0, (void **)&nic->hmem, NULL);
	if (ret)
		return sample_fail("fi_open_ops of " HMREG_HMEM_OPS, ret);
	atomic_store(&nic->next_key, 1);
	nic->regs.slices = instance->slices;
	ret = ask_device(nic, &nic->regs);
	if (!ret && (end->info->caps & FI_XPU))
		ret = net_xpu_open(nic);
	return ret ? ret : net_regs_open(&nic->regs, end, &nic->next_key);
}

static int close_nic(struct net_nic *nic)
{
	int ret = 0, failed;

	if (nic->xpu)
		ret = fi_close(&nic->xpu->fid);
	nic->xpu = NULL;
	failed = sample_close(&nic->end);
	return ret ? ret : failed;
}

int net_nic_use(struct net_instance *instance, int dev, struct net_nic **nic)
{
	int ret = 0;

	if (dev < 0 || dev >= instance->count)
		return -FI_EINVAL;
	*nic = &instance->nics[dev];
	pthread_mutex_lock(&instance->lock);
	if ((*nic)->users == 0) {
		ret = open_nic(instance, *nic);
		if (ret)
			close_nic(*nic);
	}
	(*nic)->users += !ret;
	pthread_mutex_unlock(&instance->lock);
	return ret;
}

bool net_nic_busy(struct net_instance *instance, struct net_nic *nic)
{
	bool busy;

	pthread_mutex_lock(&instance->lock);
	busy = nic->users == 1 && atomic_load(&nic->regs.open) > 0;
	pthread_mutex_unlock(&instance->lock);
	return busy;
}

int net_nic_leave(struct net_instance *instance, struct net_nic *nic)
{
	int ret = 0, failed;

	pthread_mutex_lock(&instance->lock);
	if (nic->users == 1) {
		ret = net_regs_close(&nic->regs);
		failed = ret ? 0 : close_nic(nic);
		ret = ret ? ret : failed;
	}
	nic->users -= !ret;
	pthread_mutex_unlock(&instance->lock);
	return ret;
}
