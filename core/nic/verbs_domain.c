/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Domains of the verbs NIC: a device context and a protection domain, the library's own or the
 * program's.
 *
 * Asynchronous events are read from contexts that the library opened.  Those of an adopted context stay
 * the program's, which may be waiting for its own; what the library then notices of a removed device is
 * what librdmacm and failing calls tell it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/refusal.h"
#include "core/nic/verbs_ep.h"
#include "core/nic/verbs_indirect.h"
#include "core/nic/verbs_sysfs.h"

/* ---- what the domain stands on ---- */

/* One that keys over several regions can be made in, where they may be asked for. */
static struct ibv_context *open_context(const struct verbs_domain *vd)
{
	struct ibv_context *context = NULL;

	if (vd->zero_based && (vd->device->can & HMREG_CAN_INDIRECT_KEYS))
		context = verbs_indirect_open(vd->device->ibv);
	errno = 0;
	return context ? context : verbs.open_device(vd->device->ibv);
}

static int open_own_context(struct verbs_domain *vd)
{
	const char *file = vd->device->ibv->dev_name;
	int flags, err;

	vd->context = open_context(vd);
	if (!vd->context) {
		err = verbs_file_error(file, errno ? errno : ENODEV);
		HM_REFUSE(FI_LOG_DOMAIN,
			  err == EACCES || err == EPERM	   ? HMREG_CAUSE_NIC_PERMISSION
			  : err == EMFILE || err == ENFILE ? HMREG_CAUSE_NIC_FILES
			  : err == ENOENT		   ? HMREG_CAUSE_NIC_FILE
							   : HMREG_CAUSE_NIC_GONE,
			  "%s: /dev/infiniband/%s cannot be opened: %s%s", vd->device->name, file,
			  strerror(err),
			  err == EACCES || err == EPERM	   ? "; this user may not use it"
			  : err == EMFILE || err == ENFILE ? "; too many files are open (ulimit -n)"
							   : "; the device may have been removed");
		return err == EPERM ? -FI_EACCES : err == ENOENT ? -FI_ENODEV : -err;
	}
	vd->owns_context = true;
	flags = fcntl(vd->context->async_fd, F_GETFL);
	if (flags < 0 || fcntl(vd->context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		err = errno;
		HM_WARN(FI_LOG_DOMAIN, "%s: the descriptor for its events: %s", vd->device->name,
			strerror(err));
		verbs.close_device(vd->context);
		return -err;
	}
	return 0;
}

/* The program's context and protection domain, as far as it has them, must be of this device. */
static int check_adopted(struct verbs_domain *vd, const struct hmreg_verbs_adopt *adopt)
{
	struct ibv_context *context = adopt->context;
	const char *name;

	if (!context && !adopt->pd) {
		HM_WARN(FI_LOG_DOMAIN,
			"neither a device context nor a protection domain to work over");
		return -FI_EINVAL;
	}
	if (adopt->pd && context && adopt->pd->context != context) {
		HM_WARN(FI_LOG_DOMAIN, "the protection domain belongs to another device context");
		return -FI_EINVAL;
	}
	if (!context)
		context = adopt->pd->context;
	name = verbs.get_device_name(context->device);
	if (strcmp(name, vd->device->name) != 0) {
		HM_WARN(FI_LOG_DOMAIN, "the device context is of %s, the info of %s", name,
			vd->device->name);
		return -FI_EINVAL;
	}
	vd->context = context;
	vd->pd = adopt->pd;
	return 0;
}

static int alloc_own_pd(struct verbs_domain *vd)
{
	int err;

	errno = 0;
	vd->pd = verbs.alloc_pd(vd->context);
	if (vd->pd) {
		vd->owns_pd = true;
		return 0;
	}
	err = errno ? errno : ENOMEM;
	HM_REFUSE(FI_LOG_DOMAIN, HMREG_CAUSE_NIC_PD, "%s gives no protection domain: %s%s",
		  vd->device->name, strerror(err),
		  err == ENOMEM ? "; its table of them may be full, or kernel memory short" : "");
	return -err;
}

/* 0, or the errno by which the driver refuses. */
static int end_pd(struct verbs_domain *vd)
{
	int err = vd->owns_pd ? verbs_errno(verbs.dealloc_pd(vd->pd)) : 0;

	if (err && !verbs_domain_lost(vd, err))
		return err;
	vd->owns_pd = false;
	return 0;
}

/*
 * The driver refuses to end an object.  Where the library has opened the context itself and the program
 * has had nothing of it, the context can be closed all the same: the kernel then ends what is in it.
 */
static int refused(struct verbs_domain *vd, const char *verb, int err)
{
	if (vd->owns_context && !atomic_load(&vd->shown)) {
		HM_WARN(FI_LOG_DOMAIN,
			"%s: %s: errno %d (%s): the driver refuses; what it keeps ends with the "
			"device's context, which is closed now",
			vd->device->name, verb, err, strerror(err));
		return 0;
	}
	HM_WARN(FI_LOG_DOMAIN,
		"%s: %s: errno %d (%s): the driver refuses%s; the domain stays, close it again",
		vd->device->name, verb, err, strerror(err),
		err == EBUSY ? ", as it does while the program has objects of its own there" : "");
	return -err;
}

/* Whatever fails can be tried again. */
static int release(struct verbs_domain *vd)
{
	const char *verb = "ibv_dealloc_pd";
	int err = verbs_kept_end(vd, &verb), ret = 0;

	if (!err)
		err = end_pd(vd);
	if (err)
		ret = refused(vd, verb, err);
	if (ret)
		return ret;
	err = vd->owns_context ? verbs_errno(verbs.close_device(vd->context)) : 0;
	if (err && !verbs_domain_lost(vd, err)) {
		HM_WARN(FI_LOG_DOMAIN,
			"%s: ibv_close_device: errno %d (%s): the driver refuses; the domain "
			"stays, close it again",
			vd->device->name, err, strerror(err));
		return -err;
	}
	verbs_kept_forget(vd);
	return 0;
}

/* ---- life ---- */

int verbs_domain_open(struct nic_domain *domain)
{
	struct verbs_domain *vd = verbs_domain_of(domain);
	int ret;

	vd->port = verbs_port_of(domain->port);
	vd->device = vd->port->device;
	vd->forks = atomic_load(&verbs_forks);
	vd->zero_based = !(domain->mr_mode & FI_MR_VIRT_ADDR);
	vd->on_demand = !(domain->mr_mode & FI_MR_ALLOCATED);
	hm_list_init(&vd->eps);
	hm_list_init(&vd->composites);
	hm_list_init(&vd->dmabufs);
	hm_list_init(&vd->kept);
	ret = domain->adopt ? check_adopted(vd, domain->adopt) : open_own_context(vd);
	if (ret)
		return ret;
	ret = vd->pd ? 0 : alloc_own_pd(vd);
	if (ret) {
		if (vd->owns_context)
			verbs.close_device(vd->context);
		return ret;
	}
	pthread_mutex_init(&vd->lock, NULL);
	pthread_mutex_init(&vd->composites_lock, NULL);
	pthread_mutex_init(&vd->windows.lock, NULL);
	return 0;
}

int verbs_domain_close(struct nic_domain *domain)
{
	struct verbs_domain *vd = verbs_domain_of(domain);
	int ret;

	if (verbs_inherited(vd))
		return 0;
	verbs_loop_close(vd->loop);
	vd->loop = NULL;
	verbs_loop_close(vd->windows.loop);
	vd->windows.loop = NULL;
	ret = release(vd);
	if (ret)
		return ret;
	verbs_addr_free(vd);
	pthread_mutex_destroy(&vd->windows.lock);
	pthread_mutex_destroy(&vd->composites_lock);
	pthread_mutex_destroy(&vd->lock);
	return 0;
}

int verbs_domain_handles(struct nic_domain *domain, struct hmreg_verbs_domain *out)
{
	struct verbs_domain *vd = verbs_domain_of(domain);

	atomic_store(&vd->shown, true);
	out->context = vd->context;
	out->pd = vd->pd;
	return 0;
}

/* ---- events ---- */

void verbs_domain_gone(struct verbs_domain *domain, const char *why)
{
	if (atomic_exchange(&domain->gone, true))
		return;
	HM_WARN(FI_LOG_DOMAIN, "%s is gone: %s; its regions and endpoints are dead until closed",
		domain->device->name, why);
}

/* The event is not acknowledged yet, so its object is still there; its number may be logged. */
static void handle_event(struct verbs_domain *domain, const struct ibv_async_event *event)
{
	const char *name = domain->device->name;
	const char *what = verbs.event_type_str(event->event_type);

	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		verbs_domain_gone(domain, what);
		break;
	/* Ordinary: a peer that asked for what it may not (its request fails), and connection life. */
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		HM_DEBUG(FI_LOG_DOMAIN, "%s: %s", name, what);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_WQ_FATAL:
	case IBV_EVENT_PATH_MIG_ERR:
		HM_WARN(FI_LOG_DOMAIN, "%s: %s: the device gave up a queue", name, what);
		break;
	case IBV_EVENT_PORT_ERR:
		HM_WARN(FI_LOG_DOMAIN,
			"%s: %s: port %d is down; peers are not reached until it is up", name, what,
			event->element.port_num);
		break;
	default:
		HM_INFO(FI_LOG_DOMAIN, "%s: %s", name, what);
		break;
	}
}

void verbs_domain_async(struct verbs_domain *domain)
{
	struct ibv_async_event event;

	if (!domain->owns_context)
		return;
	while (!verbs.get_async_event(domain->context, &event)) {
		handle_event(domain, &event);
		verbs.ack_async_event(&event);
	}
	/* the kernel cut the context off: the device was unplugged */
	if (errno == EIO || errno == ENODEV)
		verbs_domain_gone(domain, strerror(errno));
}

bool verbs_domain_lost(struct verbs_domain *domain, int err)
{
	struct ibv_port_attr attr;

	verbs_domain_async(domain);
	if (atomic_load(&domain->gone))
		return true;
	if (err != EIO && err != ENODEV)
		return false;
	err = verbs_query_port(domain->context, domain->port->number, &attr);
	if (err != EIO && err != ENODEV)
		return false;
	verbs_domain_gone(domain, strerror(err));
	return true;
}
