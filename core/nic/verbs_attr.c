/* SPDX-License-Identifier: BSD-2-Clause */
/* fid_nic of a port: what fi_nic(3) tells of its device, its place on the bus and its link. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sysfs.h"
#include "core/nic/verbs_device.h"

/* The structures point into it and to its strings. */
struct nic_attr {
	struct fid_nic nic;
	struct fi_device_attr device;
	struct fi_bus_attr bus;
	struct fi_link_attr link;
	char name[64], device_id[16], version[16], vendor_id[16], driver[64], firmware[64];
	char address[INET6_ADDRSTRLEN], network[16];
};

static void fill_device(struct nic_attr *out, const struct verbs_device *device)
{
	const struct ibv_device_attr *attr = &device->attr;

	snprintf(out->name, sizeof(out->name), "%s", device->name);
	snprintf(out->device_id, sizeof(out->device_id), "0x%04" PRIx32, attr->vendor_part_id);
	snprintf(out->version, sizeof(out->version), "%" PRIu32, attr->hw_ver);
	snprintf(out->vendor_id, sizeof(out->vendor_id), "0x%04" PRIx32, attr->vendor_id);
	snprintf(out->firmware, sizeof(out->firmware), "%.63s", attr->fw_ver);
	out->device = (struct fi_device_attr){
		.name = out->name,
		.device_id = out->device_id,
		.device_version = out->version,
		.vendor_id = out->vendor_id,
		.firmware = out->firmware,
	};
	if (hm_sysfs_link(out->driver, sizeof(out->driver), "class/infiniband/%s/device/driver",
			  device->name))
		out->device.driver = out->driver;
}

static void fill_bus(struct nic_attr *out, const struct verbs_device *device)
{
	unsigned domain, bus, slot, function;

	out->bus.bus_type = FI_BUS_UNSPEC;
	if (sscanf(device->pci, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return;
	out->bus.bus_type = FI_BUS_PCI;
	out->bus.attr.pci = (struct fi_pci_attr){
		.domain_id = (uint16_t)domain,
		.bus_id = (uint8_t)bus,
		.device_id = (uint8_t)slot,
		.function_id = (uint8_t)function,
	};
}

/* Codes of ibv_query_port(3); data rate of one lane in Mbit/s. */
static size_t speed_of(const struct ibv_port_attr *attr)
{
	static const struct {
		uint8_t code;
		uint32_t mbits;
	} lanes[] = {
		{ 1, 2500 },   { 2, 5000 },   { 4, 10000 },  { 8, 10000 },
		{ 16, 14000 }, { 32, 25000 }, { 64, 50000 }, { 128, 100000 },
	};
	static const struct {
		uint8_t code, count;
	} widths[] = { { 1, 1 }, { 2, 4 }, { 4, 8 }, { 8, 12 }, { 16, 2 } };
	size_t mbits = 0, count = 0;

	for (size_t i = 0; i < count_of(lanes); i++) {
		if (lanes[i].code == attr->active_speed)
			mbits = lanes[i].mbits;
	}
	for (size_t i = 0; i < count_of(widths); i++) {
		if (widths[i].code == attr->active_width)
			count = widths[i].count;
	}
	return mbits * count * 1000000;
}

static void fill_link(struct nic_attr *out, const struct ibv_port_attr *attr,
		      const union ibv_gid *gid)
{
	const char *network = attr->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet"
									  : "InfiniBand";

	inet_ntop(AF_INET6, gid->raw, out->address, sizeof(out->address));
	snprintf(out->network, sizeof(out->network), "%s", network);
	out->link = (struct fi_link_attr){
		.address = out->address,
		.mtu = attr->active_mtu >= IBV_MTU_256 && attr->active_mtu <= IBV_MTU_4096
			       ? (size_t)128 << attr->active_mtu
			       : 0,
		.speed = speed_of(attr),
		.state = attr->state == IBV_PORT_ACTIVE ? FI_LINK_UP : FI_LINK_DOWN,
		.network_type = out->network,
	};
}

const struct fid_nic *verbs_nic_attr(const struct verbs_device *device,
				     const struct ibv_port_attr *attr, const union ibv_gid *gid)
{
	struct nic_attr *out = calloc(1, sizeof(*out));

	if (!out)
		return NULL;
	fill_device(out, device);
	fill_bus(out, device);
	fill_link(out, attr, gid);
	out->nic = (struct fid_nic){
		.fid.fclass = FI_CLASS_NIC,
		.device_attr = &out->device,
		.bus_attr = &out->bus,
		.link_attr = &out->link,
	};
	return &out->nic;
}
