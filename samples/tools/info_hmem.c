/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info: which accelerators there are and how each NIC would reach them. */
#define _POSIX_C_SOURCE 200809L

#include "info_hmem.h"

#include <stdlib.h>
#include <string.h>

#include "tool_capture.h"

static int find_driver(struct fid *fabric, struct hmreg_hmem_ops *ops, enum fi_hmem_iface iface,
		       struct info_driver *driver)
{
	struct hmreg_hmem_device first = { .size = sizeof(first) };
	int ret;

	driver->iface.size = sizeof(driver->iface);
	ret = ops->iface(fabric, iface, &driver->iface);
	if (ret)
		return sample_fail("asking about a memory interface", ret);
	if (driver->iface.reason[0])
		driver->error = ops->device(fabric, iface, 0, &first);
	return 0;
}

static int add_devices(struct fid *fabric, struct hmreg_hmem_ops *ops, enum fi_hmem_iface iface,
		       struct info_hmem *hmem)
{
	size_t count = hmem->driver[iface].iface.devices, i;
	struct info_accel *more;
	int ret;

	if (count == 0)
		return 0;
	more = realloc(hmem->accel, (hmem->device_count + count) * sizeof(*more));
	if (!more)
		return sample_fail("realloc", -FI_ENOMEM);
	hmem->accel = more;
	for (i = 0; i < count; i++) {
		more = &hmem->accel[hmem->device_count];
		*more = (struct info_accel){ .device = { .size = sizeof(more->device) } };
		ret = ops->device(fabric, iface, i, &more->device);
		if (ret)
			return sample_fail("asking about a device", ret);
		more->place = (struct sample_place){ iface, more->device.id };
		hmem->device_count++;
	}
	return 0;
}

static int judge_cells(struct fid *fabric, struct hmreg_hmem_ops *ops,
		       const struct info_ports *ports, struct info_hmem *hmem)
{
	size_t total = (hmem->device_count + 1) * ports->count, d, p;
	struct info_cell *cell;
	int ret = 0;

	hmem->cell = calloc(total, sizeof(*hmem->cell));
	if (!hmem->cell)
		return sample_fail("calloc", -FI_ENOMEM);
	for (p = 0; p < ports->count; p++)
		hmem->cell[hmem->cell_count++].port = &ports->port[p];
	for (d = 0; d < hmem->device_count; d++) {
		for (p = 0; !ret && p < ports->count; p++) {
			cell = &hmem->cell[hmem->cell_count++];
			cell->accel = &hmem->accel[d];
			cell->port = &ports->port[p];
			cell->path.size = sizeof(cell->path);
			ret = ops->path(fabric, cell->port->info, cell->accel->place.iface,
					cell->accel->place.device, &cell->path);
		}
	}
	return ret ? sample_fail("asking how a NIC reaches a device", ret) : 0;
}

static int find(const struct info_ports *ports, struct info_hmem *hmem)
{
	struct hmreg_hmem_ops *ops;
	struct fid_fabric *fabric;
	int ret, failed, i;

	ret = fi_fabric(ports->port[0].info->fabric_attr, &fabric, NULL);
	if (ret)
		return sample_fail("fi_fabric", ret);
	ret = fi_open_ops(&fabric->fid, HMREG_HMEM_OPS, 0, (void **)&ops, NULL);
	if (ret)
		sample_fail("fi_open_ops of " HMREG_HMEM_OPS, ret);
	for (i = 0; !ret && i < TOOL_IFACES; i++) {
		ret = find_driver(&fabric->fid, ops, (enum fi_hmem_iface)i, &hmem->driver[i]);
		if (!ret)
			ret = add_devices(&fabric->fid, ops, (enum fi_hmem_iface)i, hmem);
	}
	if (!ret)
		ret = judge_cells(&fabric->fid, ops, ports, hmem);
	failed = fi_close(&fabric->fid);
	if (failed)
		sample_fail("fi_close of a fabric", failed);
	return ret ? ret : failed;
}

int info_hmem_find(const struct info_ports *ports, struct info_hmem *hmem)
{
	struct tool_capture capture;
	char said[512];
	int ret;

	memset(hmem, 0, sizeof(*hmem));
	/* why a driver does not start is told in its own place */
	tool_capture_begin(&capture);
	ret = find(ports, hmem);
	tool_capture_end(&capture, said, sizeof(said));
	if (ret)
		fprintf(stderr, "%s: %s\n", sample_program, said[0] ? said : fi_strerror(-ret));
	return ret;
}

void info_hmem_free(struct info_hmem *hmem)
{
	free(hmem->accel);
	free(hmem->cell);
	memset(hmem, 0, sizeof(*hmem));
}
