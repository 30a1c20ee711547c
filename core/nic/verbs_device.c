/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that libibverbs shows, and what each can do.  What is not in its attributes is tried on a
 * page of memory: no table of vendors or kernel versions says it.
 *
 * FORK (REG-09).  A child must not make the parent's pinned pages move.  Kernels since 5.12 copy such
 * pages for the child at fork, and libibverbs says IBV_FORK_UNNEEDED: nothing is done.  On older ones
 * ibv_fork_init is called before the first region exists; from then on libibverbs marks registered
 * ranges MADV_DONTFORK, at the price of mappings split in the kernel at each region's ends.  A program
 * that has regions of its own already must have called it itself.
 */
#include "core/nic/verbs_device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/params.h"
#include "core/base/sysfs.h"
#include "core/nic/verbs_indirect.h"
#include "core/nic/verbs_sysfs.h"

#define PORTS_MAX     UINT8_MAX /* of one device */
#define ADDRESSES_MAX 2		/* of one port */

/*
 * Protects what follows.  Nothing else of this library is locked inside but verbs_missing.c.  A device
 * is written as long as it is not settled, which is before a domain of it can be open; a port is constant
 * once it is counted.
 */
static pthread_mutex_t look_lock = PTHREAD_MUTEX_INITIALIZER;
static bool looked;
static struct ibv_device **list; /* never freed: contexts opened later come out of it */
static struct verbs_device *devices;
static size_t device_count;
static struct verbs_port_list ports;

/* ---- what it can do ---- */

#define REMOTE_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* A limit on pinned memory says nothing about the device. */
static bool is_refusal(int err)
{
	return err != ENOMEM && err != EPERM && err != EAGAIN;
}

/* Can a region be made this way?  Takes it down again. */
static bool can_register(struct ibv_pd *pd, void *page, size_t len, uint64_t iova, unsigned access)
{
	struct ibv_mr *mr = verbs.reg_mr_iova2(pd, page, len, iova, access);

	if (!mr)
		return !is_refusal(errno);
	verbs.dereg_mr(mr);
	return true;
}

static bool can_rereg(struct ibv_pd *pd, void *page, size_t len)
{
	struct ibv_mr *mr = verbs.reg_mr(pd, page, len, REMOTE_RIGHTS);
	bool can;

	if (!mr)
		return false;
	can = !verbs.rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			      IBV_ACCESS_LOCAL_WRITE);
	verbs.dereg_mr(mr);
	return can;
}

/*
 * "" or why not.  -1 is no descriptor: a device that has the call gets as far as telling so.  Not every
 * device that takes dma-bufs grants peers access, so none is asked for.
 */
static const char *dmabuf_refusal(struct ibv_pd *pd, size_t len)
{
	struct ibv_mr *mr = verbs.reg_dmabuf_mr(pd, 0, len, 0, -1, IBV_ACCESS_LOCAL_WRITE);

	if (mr) {
		verbs.dereg_mr(mr);
		return "";
	}
	switch (errno) {
	case EOPNOTSUPP:
		return "the device's driver, its provider or libibverbs has no dma-buf support";
	case ENOSYS:
	case ENOTTY:
	case EPROTONOSUPPORT:
		return "the kernel's RDMA core has no dma-buf support (it came with 5.12)";
	default:
		return "";
	}
}

static bool can_prefetch(struct ibv_pd *pd, void *page, size_t len)
{
	struct ibv_mr *mr = verbs.reg_mr(pd, page, len, REMOTE_RIGHTS | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = { .addr = (uintptr_t)page, .length = (uint32_t)len };
	bool can;

	if (!mr)
		return false;
	sge.lkey = mr->lkey;
	can = !ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
			     &sge, 1);
	verbs.dereg_mr(mr);
	return can;
}

/*
 * Relaxed ordering is an optional right: a driver that does not know it ignores it, and nothing tells.
 * What can be told: a device without a bus below it (rxe, siw) has no transactions to reorder.
 */
static bool may_relax(const struct verbs_device *device)
{
	return !hm_sysfs_exists("class/infiniband/%s", device->name) ||
	       hm_sysfs_exists("class/infiniband/%s/device", device->name);
}

static void try_regions(struct verbs_device *device, struct ibv_pd *pd, void *page, size_t len)
{
	const uint32_t needed = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
				IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;

	device->dmabuf_reason = dmabuf_refusal(pd, len);
	if (!*device->dmabuf_reason)
		device->can |= HMREG_CAN_DMABUF;
	if (can_register(pd, page, len, 0, REMOTE_RIGHTS))
		device->can |= HMREG_CAN_ZERO_BASED;
	if (may_relax(device) && can_register(pd, page, len, (uintptr_t)page,
					      REMOTE_RIGHTS | IBV_ACCESS_RELAXED_ORDERING))
		device->can |= HMREG_CAN_RELAXED_ORDERING;
	if (can_rereg(pd, page, len))
		device->can |= HMREG_CAN_REREG;
	if ((device->odp_caps & needed) != needed ||
	    !can_register(pd, page, len, (uintptr_t)page, REMOTE_RIGHTS | IBV_ACCESS_ON_DEMAND)) {
		device->can &= ~HMREG_CAN_ON_DEMAND_IMPLICIT;
		return;
	}
	device->can |= HMREG_CAN_ON_DEMAND;
	if (can_prefetch(pd, page, len))
		device->can |= HMREG_CAN_PREFETCH;
}

static void read_attributes(struct verbs_device *device, const struct ibv_device_attr_ex *ex)
{
	static const struct {
		unsigned flag;
		uint64_t can;
	} flags[] = {
		{ IBV_DEVICE_MEM_WINDOW, HMREG_CAN_WINDOW_1 },
		{ IBV_DEVICE_MEM_WINDOW_TYPE_2A, HMREG_CAN_WINDOW_2A },
		{ IBV_DEVICE_MEM_WINDOW_TYPE_2B, HMREG_CAN_WINDOW_2B },
	};
	uint64_t limit = hm_param_size(HM_PARAM_VERBS_MAX_MR_SIZE);

	device->can = 0;
	device->attr = ex->orig_attr;
	for (size_t i = 0; i < count_of(flags); i++) {
		if (device->attr.device_cap_flags & flags[i].flag)
			device->can |= flags[i].can;
	}
	if (device->attr.atomic_cap != IBV_ATOMIC_NONE)
		device->can |= HMREG_CAN_ATOMICS;
	if (device->attr.max_srq > 0)
		device->can |= HMREG_CAN_SRQ;
	if (ex->odp_caps.general_caps & IBV_ODP_SUPPORT) {
		device->odp_caps = ex->odp_caps.per_transport_caps.rc_odp_caps;
		if (ex->odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT)
			device->can |= HMREG_CAN_ON_DEMAND_IMPLICIT;
	}
	device->max_mr_size = device->attr.max_mr_size ? device->attr.max_mr_size : UINT64_MAX;
	if (limit && limit < device->max_mr_size)
		device->max_mr_size = limit;
}

/* 0 or an errno. */
static int ask(struct verbs_device *device, struct ibv_context *context)
{
	const size_t len = (size_t)sysconf(_SC_PAGESIZE);
	struct ibv_device_attr_ex ex;
	struct ibv_pd *pd;
	void *page;
	int err = verbs_query_device_ex(context, &ex);

	if (err)
		return err;
	read_attributes(device, &ex);
	page = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return errno;
	pd = verbs.alloc_pd(context);
	if (pd) {
		try_regions(device, pd, page, len);
		verbs.dealloc_pd(pd);
	} else {
		err = errno;
	}
	munmap(page, len);
	return err;
}

/* ---- looking for devices ---- */

static void cannot_open(const struct verbs_device *device, int err)
{
	const char *file = device->ibv->dev_name;

	if (err == EACCES || err == EPERM)
		verbs_missing_add(
			device->name, 0, -FI_EACCES, HMREG_CAUSE_NIC_PERMISSION,
			"%s: no permission to open /dev/infiniband/%s: the file's mode, or "
			"the control group's list of devices, must let this user in",
			device->name, file);
	else if (err == ENOENT || err == ENXIO || err == ENODEV)
		verbs_missing_add(
			device->name, 0, -FI_ENODEV, HMREG_CAUSE_NIC_FILE,
			"%s: there is no /dev/infiniband/%s (%s): is the module ib_uverbs "
			"loaded, and is the file there in this container?",
			device->name, file, strerror(err));
	else
		verbs_missing_add(device->name, 0, -FI_ENODEV,
				  err == EMFILE || err == ENFILE ? HMREG_CAUSE_NIC_FILES
								 : HMREG_CAUSE_NIC_NO_ANSWER,
				  "%s: /dev/infiniband/%s cannot be opened: %s", device->name, file,
				  strerror(err));
}

/* May this device be used at all?  If not, it is not looked at again. */
static bool is_wanted(const struct verbs_device *device)
{
	if (hm_list_selects(hm_param_str(HM_PARAM_VERBS_DEVICES), device->name))
		return true;
	verbs_missing_add(device->name, 0, -FI_ENODEV, HMREG_CAUSE_NIC_LEFT_OUT,
			  "%s is left out by HMREG_VERBS_DEVICES=%s", device->name,
			  hm_param_str(HM_PARAM_VERBS_DEVICES));
	return false;
}

/* Does what a sub-MR is made of work?  Then its memory need not be registered a second time. */
static void try_windows(struct verbs_device *device, struct ibv_context *context,
			const struct verbs_port *port)
{
	device->can |= verbs_window_try(device, context, port, device->windows_reason,
					sizeof(device->windows_reason));
	if (*device->windows_reason)
		HM_DEBUG(FI_LOG_CORE, "%s: no sub-MRs by memory windows: %s", device->name,
			 device->windows_reason);
}

/* Are there keys over several regions? */
static void try_indirect(struct verbs_device *device, const struct verbs_port *port)
{
	verbs_indirect_try(device, port, device->indirect_reason, sizeof(device->indirect_reason));
	if (!*device->indirect_reason)
		device->can |= HMREG_CAN_INDIRECT_KEYS;
	else
		HM_DEBUG(FI_LOG_CORE, "%s: no keys over several regions: %s", device->name,
			 device->indirect_reason);
}

/*
 * Settled: there is no more to find out.  A device that cannot be opened, does not answer, or has ports
 * that cannot be used now is looked at again another time.  -FI_ENOMEM.
 */
static int look_at(struct verbs_device *device)
{
	struct ibv_context *context;
	size_t first = ports.count;
	int err, ret = 0;

	errno = 0;
	context = verbs.open_device(device->ibv);
	if (!context) {
		cannot_open(device,
			    verbs_file_error(device->ibv->dev_name, errno ? errno : ENODEV));
		return 0;
	}
	err = device->asked ? 0 : ask(device, context);
	if (err) {
		verbs_missing_add(device->name, 0, -FI_ENODEV, HMREG_CAUSE_NIC_NO_ANSWER,
				  "%s does not say what it can do: %s", device->name,
				  strerror(err));
	} else {
		if (!device->asked)
			verbs_path_describe(hm_sysfs_root(), device->name, device->pci,
					    sizeof(device->pci), device->path,
					    sizeof(device->path));
		device->asked = true;
		ret = verbs_ports_add(&ports, device, context, &device->settled);
		if (first < ports.count && !device->tried) {
			device->tried = true;
			try_indirect(device, &ports.port[first]);
			try_windows(device, context, &ports.port[first]);
		}
	}
	verbs.close_device(context);
	return ret;
}

static void protect_fork(void)
{
	int err;

	if (verbs.is_fork_initialized() != IBV_FORK_DISABLED)
		return;
	err = verbs.fork_init();
	if (err)
		HM_INFO(FI_LOG_CORE,
			"ibv_fork_init: %s; a child process may take pages of registered memory "
			"from its parent on this kernel",
			strerror(err));
}

/* What libibverbs shows, once it shows something. */
static void list_devices(void)
{
	struct ibv_device **shown;
	int count = 0;

	shown = verbs.get_device_list(&count);
	if (!shown) {
		HM_INFO(FI_LOG_CORE, "libibverbs shows no RDMA devices: %s", strerror(errno));
		return;
	}
	if (count > 0) {
		devices = calloc((size_t)count, sizeof(*devices));
		/* in place, since domains refer to ports; pages of it that are not used cost nothing */
		ports.room = (size_t)count * PORTS_MAX * ADDRESSES_MAX;
		ports.port = calloc(ports.room, sizeof(*ports.port));
	}
	if (!devices || !ports.port) {
		if (count > 0)
			HM_WARN(FI_LOG_CORE, "no memory for %d RDMA devices", count);
		free(devices);
		free(ports.port);
		devices = NULL;
		ports = (struct verbs_port_list){ 0 };
		verbs.free_device_list(shown);
		return;
	}
	list = shown;
	device_count = (size_t)count;
	protect_fork();
	for (size_t i = 0; i < device_count; i++) {
		devices[i].ibv = list[i];
		devices[i].name = verbs.get_device_name(list[i]);
		devices[i].settled = !is_wanted(&devices[i]);
	}
}

/* With look_lock held. */
static void look(void)
{
	looked = true;
	if (!hm_param_bool(HM_PARAM_VERBS_ENABLE) || verbs_lib_load())
		return;
	if (!list)
		list_devices();
	for (size_t i = 0; i < device_count; i++) {
		if (devices[i].settled)
			continue;
		verbs_missing_renew(devices[i].name);
		if (look_at(&devices[i])) {
			HM_WARN(FI_LOG_CORE, "no memory for the ports of RDMA devices");
			break;
		}
	}
}

void verbs_look(void)
{
	pthread_mutex_lock(&look_lock);
	look();
	pthread_mutex_unlock(&look_lock);
}

int verbs_ports(const struct nic_port **out, size_t *count)
{
	pthread_mutex_lock(&look_lock);
	if (!looked)
		look();
	*out = ports.port ? &ports.port->port : NULL;
	*count = ports.count;
	pthread_mutex_unlock(&look_lock);
	return 0;
}

bool verbs_device_listed(const char *name)
{
	bool listed = false;

	pthread_mutex_lock(&look_lock);
	for (size_t i = 0; i < device_count; i++)
		listed |= strcmp(devices[i].name, name) == 0;
	pthread_mutex_unlock(&look_lock);
	return listed;
}
