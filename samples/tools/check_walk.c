/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-check: driver, device, memory, NIC and registration, each until something fails. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tool_text.h"

#define SOFTWARE  "sw-verbs"
#define TIMEOUT_S 5 /* for a page within this machine */

static bool of_host(const struct check *check)
{
	return check->options.place.iface == FI_HMEM_SYSTEM;
}

/* ---- the library ---- */

/* Everything about memory can be asked without a NIC: the software NIC's fabric is always there. */
static int open_library(struct check *check)
{
	struct fi_info *info;
	int ret = sample_find_registration(SOFTWARE, 0, &info);

	if (ret)
		return check_failed(check, "fi_getinfo of " SOFTWARE, ret, "unexplained");
	ret = fi_fabric(info->fabric_attr, &check->soft, NULL);
	fi_freeinfo(info);
	if (ret)
		return check_failed(check, "fi_fabric", ret, "unexplained");
	ret = fi_open_ops(&check->soft->fid, HMREG_FABRIC_OPS, 0, (void **)&check->ops, NULL);
	if (!ret && check->ops->size < sizeof(*check->ops))
		ret = -FI_ENOSYS;
	if (ret) {
		check->ops = NULL;
		return check_failed(check, "asking the library for its refusals", ret,
				    "unexplained");
	}
	check->early.size = sizeof(check->early);
	if (check->ops->refusal(&check->soft->fid, 0, &check->early))
		check->early.size = 0;
	check->ops->forget(&check->soft->fid);
	ret = fi_open_ops(&check->soft->fid, HMREG_HMEM_OPS, 0, (void **)&check->hmem, NULL);
	return ret ? check_failed(check, "asking about memory", ret, "unexplained") : 0;
}

/* ---- driver and device ---- */

static int pass_driver(struct check *check)
{
	const struct check_cause *cause;
	int ret;

	if (of_host(check)) {
		check_passed(check, CHECK_STAGE_DRIVER, "host memory needs none");
		return 0;
	}
	check->iface.size = sizeof(check->iface);
	ret = check->hmem->iface(&check->soft->fid, check->options.place.iface, &check->iface);
	if (ret)
		return check_failed(check, "asking for the interface", ret, "unexplained");
	if (check->iface.cause == HMREG_CAUSE_NONE) {
		check_passed(check, CHECK_STAGE_DRIVER, "%s%s%s, %zu device%s", check->iface.driver,
			     check->iface.version[0] ? ", " : "", check->iface.version,
			     check->iface.devices, check->iface.devices == 1 ? "" : "s");
		return 0;
	}
	cause = check_cause_of_refusal(check->iface.cause);
	return check_found(check, cause ? cause->id : "driver-failed", "%s", check->iface.reason);
}

static int tell_devices(struct check *check)
{
	struct hmreg_hmem_device device = { .size = sizeof(device) };
	char known[256] = "none";
	size_t i, used = 0;

	for (i = 0; used < sizeof(known) &&
		    !check->hmem->device(&check->soft->fid, check->options.place.iface, i, &device);
	     i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%d",
					 used ? ", " : "", device.id);
	return check_found(check, "device-unknown", "%s has no device %d; there are: %s",
			   tool_iface_name(check->options.place.iface), check->options.place.device,
			   known);
}

static int pass_device(struct check *check)
{
	struct sample_place *place = &check->options.place;
	size_t i;
	int ret;

	if (of_host(check)) {
		check_passed(check, CHECK_STAGE_DEVICE, "the host");
		return 0;
	}
	for (i = 0;; i++) {
		check->device = (struct hmreg_hmem_device){ .size = sizeof(check->device) };
		ret = check->hmem->device(&check->soft->fid, place->iface, i, &check->device);
		if (ret || place->device == TOOL_FIRST || check->device.id == place->device)
			break;
	}
	if (ret) {
		check->device.size = 0;
		return ret == -FI_ENODEV
			       ? tell_devices(check)
			       : check_failed(check, "asking for the device", ret, "driver-call");
	}
	place->device = check->device.id;
	check_passed(check, CHECK_STAGE_DEVICE, "%s:%d, %s%s%s", tool_iface_name(place->iface),
		     place->device, check->device.name, check->device.pci[0] ? ", PCI " : "",
		     check->device.pci);
	return 0;
}

/* ---- memory ---- */

static int pass_memory(struct check *check)
{
	char size[32];
	int ret = check_memory_make(check);

	if (ret)
		return ret;
	check->found.size = sizeof(check->found);
	ret = check->hmem->query(&check->soft->fid, check->memory.region, check->options.size,
				 &check->found);
	if (ret) {
		check->found.size = 0;
		return check_failed(check, "asking what the memory is", ret, "driver-call");
	}
	check_passed(check, CHECK_STAGE_MEMORY, "%s at %p: %s memory of %s%s",
		     tool_size_text(check->options.size, size, sizeof(size)),
		     (void *)check->memory.region, check->found.kind,
		     tool_iface_name(check->found.iface),
		     check->found.host_access ? ", which the host reaches" : "");
	return 0;
}

/* ---- the NIC ---- */

static bool is_software(const struct fi_info *info)
{
	return !strncmp(info->domain_attr->name, "sw-", 3);
}

/* The first RDMA device; *info stays NULL where there is none. */
static int find_first(struct fi_info **info)
{
	struct fi_info *list, *at;
	int ret = sample_find_registration(NULL, 0, &list);

	*info = NULL;
	if (ret)
		return ret;
	for (at = list; at && is_software(at); at = at->next)
		;
	if (at)
		*info = fi_dupinfo(at);
	fi_freeinfo(list);
	return at && !*info ? -FI_ENOMEM : 0;
}

static int find_nic(struct check *check, struct fi_info **info)
{
	const struct check_cause *cause;
	int ret;

	if (check->options.nic) {
		ret = sample_find_registration(check->options.nic, 0, info);
		return ret ? check_failed(check, "fi_getinfo", ret, "nic-unknown") : 0;
	}
	ret = find_first(info);
	if (ret)
		return check_failed(check, "fi_getinfo", ret, "unexplained");
	if (*info)
		return 0;
	check_failed(check, "", 0, "nic-none");
	cause = check->early.size ? check_cause_of_refusal(check->early.cause) : NULL;
	/* a device that is there and cannot be used says more than that there is none */
	if (!strcmp(check->cause->id, "nic-none") && cause)
		check_found(check, cause->id, "%s", check->early.text);
	return -1;
}

/* What the port is; its name is what the user would give. */
static int describe_nic(struct check *check, const struct fi_info *info)
{
	struct fid_fabric *fabric;
	int ret = fi_fabric(info->fabric_attr, &fabric, NULL);

	if (ret)
		return check_failed(check, "fi_fabric", ret, "unexplained");
	check->nic.size = sizeof(check->nic);
	ret = check->ops->device(&fabric->fid, info, &check->nic);
	if (!ret && !of_host(check)) {
		check->path.size = sizeof(check->path);
		ret = check->hmem->path(&fabric->fid, info, check->options.place.iface,
					check->options.place.device, &check->path);
	}
	fi_close(&fabric->fid);
	return ret ? check_failed(check, "asking about the NIC", ret, "unexplained") : 0;
}

/* With endpoints where it has them, and with FI_HMEM for memory of a device. */
static int open_ends(struct check *check)
{
	uint64_t caps = of_host(check) ? 0 : FI_HMEM;
	struct fi_info *info;
	int ret;

	check->registers_only = !(check->nic.can & HMREG_CAN_ENDPOINTS);
	if (check->registers_only)
		ret = sample_find_registration(check->nic.name, caps, &info);
	else
		ret = sample_find(check->nic.name, caps | FI_MSG | FI_RMA, &info);
	if (ret)
		return check_failed(check, "fi_getinfo", ret, "unexplained");
	ret = sample_open(&check->near, info, 0);
	if (!ret)
		ret = sample_open(&check->far, info, 0);
	fi_freeinfo(info);
	return ret ? check_failed(check, "opening the NIC", ret, "no-endpoint") : 0;
}

static int pass_nic(struct check *check)
{
	struct fi_info *info = NULL;
	int ret;

	check->ops->forget(&check->soft->fid);
	ret = find_nic(check, &info);
	if (!ret)
		ret = describe_nic(check, info);
	fi_freeinfo(info);
	if (ret)
		return ret;
	check_passed(check, CHECK_STAGE_NIC, "%s, %s%s%s", check->nic.name, check->nic.link,
		     check->nic.pci[0] ? ", PCI " : "", check->nic.pci);
	check->at = CHECK_STAGE_EXPORT;
	if (!of_host(check) && !check->path.path) {
		const struct check_cause *cause = check_cause_of_refusal(check->path.cause);

		return check_found(check, cause ? cause->id : "no-way",
				   "as a dma-buf: %s\nas peer memory: %s",
				   check->path.dmabuf_reason, check->path.peer_reason);
	}
	check->at = CHECK_STAGE_NIC;
	check->ops->forget(&check->soft->fid);
	ret = open_ends(check);
	/* an endpoint that cannot be made is about transfers */
	if (ret && !strcmp(check->cause->id, "no-endpoint"))
		check->at = CHECK_STAGE_TRANSFER;
	return ret;
}

/* ---- registration ---- */

/* What the export and the import were, once it is known which way was taken. */
static void tell_way(struct check *check, enum hmreg_path path)
{
	bool dmabuf = path == HMREG_PATH_DMABUF || path == HMREG_PATH_MAPPED;

	check_passed(check, CHECK_STAGE_EXPORT, "%s",
		     dmabuf ? "the driver gives a dma-buf" : "not needed");
	check_passed(check, CHECK_STAGE_IMPORT, "%s", dmabuf ? "the NIC takes it" : "not needed");
	check_passed(check, CHECK_STAGE_REGISTRATION, "%s", tool_path_text(path));
}

static int pass_registration(struct check *check)
{
	struct hmreg_region_info region = { .size = sizeof(region) };
	struct hmreg_mr_ops *ops;
	int ret;

	check->ops->forget(&check->soft->fid);
	ret = check_memory_spoil(check);
	if (ret)
		return ret;
	ret = sample_register_at(&check->far, &check->options.place, check->memory.region,
				 check->options.size, FI_REMOTE_READ | FI_REMOTE_WRITE, &check->mr);
	if (ret)
		return check_failed(check, "registration of the memory", ret, "unexplained");
	ret = fi_open_ops(&check->mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL);
	if (!ret)
		ret = ops->info(&check->mr->fid, &region);
	if (ret)
		return check_failed(check, "asking for the region's path", ret, "unexplained");
	tell_way(check, region.path);
	return 0;
}

/* ---- the whole ---- */

/* Ends what is open; what fails here is a cause only where nothing else failed. */
static void finish(struct check *check)
{
	int ret = 0, first;

	check->ops ? check->ops->forget(&check->soft->fid) : 0;
	if (check->host_mr)
		ret = fi_close(&check->host_mr->fid);
	first = ret;
	if (check->mr)
		ret = fi_close(&check->mr->fid);
	first = first ? first : ret;
	if (first && !check->cause) {
		check->at = CHECK_STAGE_CLOSE;
		check_failed(check, "fi_close of a region", first, "close-refused");
	}
	free(check->host);
	ret = check_memory_free(check);
	if (ret && !check->cause) {
		check->at = CHECK_STAGE_CLOSE;
		check_failed(check, "giving the memory back", ret, "driver-call");
	}
	sample_close(&check->far);
	sample_close(&check->near);
	if (check->soft)
		fi_close(&check->soft->fid);
	check->soft = NULL;
	check->ops = NULL;
}

static void run_steps(struct check *check)
{
	static const struct {
		enum check_stage stage;
		int (*run)(struct check *check);
	} steps[] = {
		{ CHECK_STAGE_DRIVER, pass_driver },
		{ CHECK_STAGE_DEVICE, pass_device },
		{ CHECK_STAGE_MEMORY, pass_memory },
		{ CHECK_STAGE_NIC, pass_nic },
		{ CHECK_STAGE_REGISTRATION, pass_registration },
		{ CHECK_STAGE_TRANSFER, check_transfer },
	};
	int ret = open_library(check);
	size_t i;

	for (i = 0; !ret && i < sizeof(steps) / sizeof(steps[0]); i++) {
		check->at = steps[i].stage;
		ret = steps[i].run(check);
	}
}

int check_walk(struct check *check)
{
	struct tool_capture capture;
	char log[sizeof(check->said)];

	sample_timeout_s = TIMEOUT_S;
	tool_capture_setup();
	tool_capture_begin(&capture);
	run_steps(check);
	finish(check);
	tool_capture_end(&capture, log, sizeof(log));
	if (!check->cause)
		return 0;
	/* the cause says where it belongs; it may have been met later, as an export's while registering */
	if (check->cause->stage != CHECK_STAGE_ANY)
		check->at = check->cause->stage;
	if (!check->refused && log[0])
		check_said(check, log);
	return check->cause->status;
}
