/* SPDX-License-Identifier: BSD-2-Clause */
/* The structures of the interface, field by field, in the order in which they are shown. */
#include <inttypes.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "core/tostr_priv.h"

/* One initialiser per field; holder and member are the C names, and member is the label. */
#define FIELD(holder, member, what, ...)                                                           \
	{                                                                                          \
		.name = #member, .kind = HM_KIND_##what,                                           \
		.offset = offsetof(struct holder, member), __VA_ARGS__                             \
	}
#define VALUE(holder, member, what)                                                                \
	{                                                                                          \
		.name = #member, .kind = HM_KIND_##what, .offset = offsetof(struct holder, member) \
	}
#define DEC(holder, member)	  VALUE(holder, member, DEC64)
#define BITS(holder, member, set) FIELD(holder, member, BITS64, .names = &hm_names_##set)
#define ENUM(holder, member, set) FIELD(holder, member, ENUM32, .names = &hm_names_##set)
#define SUB(holder, member, sub)  FIELD(holder, member, GROUP, .group = &hm_group_##sub)
#define FUNC(label, function)                                                                      \
	{                                                                                          \
		.name = (label), .kind = HM_KIND_FUNC, .print = (function)                         \
	}
#define GROUP(symbol, heading)                                                                     \
	const struct hm_group hm_group_##symbol = {                                                \
		heading, symbol##_fields, sizeof(symbol##_fields) / sizeof(symbol##_fields[0])     \
	}

static const struct hm_field tx_attr_fields[] = {
	BITS(fi_tx_attr, caps, caps),
	BITS(fi_tx_attr, mode, mode),
	BITS(fi_tx_attr, op_flags, op_flags),
	BITS(fi_tx_attr, msg_order, msg_order),
	BITS(fi_tx_attr, comp_order, comp_order),
	DEC(fi_tx_attr, inject_size),
	DEC(fi_tx_attr, size),
	DEC(fi_tx_attr, iov_limit),
	DEC(fi_tx_attr, rma_iov_limit),
	VALUE(fi_tx_attr, tclass, HEX32),
};
GROUP(tx_attr, "fi_tx_attr");

static const struct hm_field rx_attr_fields[] = {
	BITS(fi_rx_attr, caps, caps),
	BITS(fi_rx_attr, mode, mode),
	BITS(fi_rx_attr, op_flags, op_flags),
	BITS(fi_rx_attr, msg_order, msg_order),
	BITS(fi_rx_attr, comp_order, comp_order),
	DEC(fi_rx_attr, total_buffered_recv),
	DEC(fi_rx_attr, size),
	DEC(fi_rx_attr, iov_limit),
};
GROUP(rx_attr, "fi_rx_attr");

/* Of an authorization key, only the size is shown: logs are no place for keys. */
static const struct hm_field ep_attr_fields[] = {
	ENUM(fi_ep_attr, type, ep_type),
	ENUM(fi_ep_attr, protocol, protocol),
	VALUE(fi_ep_attr, protocol_version, DEC32),
	DEC(fi_ep_attr, max_msg_size),
	DEC(fi_ep_attr, msg_prefix_size),
	DEC(fi_ep_attr, max_order_raw_size),
	DEC(fi_ep_attr, max_order_war_size),
	DEC(fi_ep_attr, max_order_waw_size),
	VALUE(fi_ep_attr, mem_tag_format, HEX64),
	DEC(fi_ep_attr, tx_ctx_cnt),
	DEC(fi_ep_attr, rx_ctx_cnt),
	DEC(fi_ep_attr, auth_key_size),
	VALUE(fi_ep_attr, xpu_ctx, PTR),
};
GROUP(ep_attr, "fi_ep_attr");

static const struct hm_field domain_attr_fields[] = {
	VALUE(fi_domain_attr, domain, HEX64),
	VALUE(fi_domain_attr, name, STRING),
	ENUM(fi_domain_attr, threading, threading),
	ENUM(fi_domain_attr, control_progress, progress),
	ENUM(fi_domain_attr, data_progress, progress),
	ENUM(fi_domain_attr, resource_mgmt, resource_mgmt),
	ENUM(fi_domain_attr, av_type, av_type),
	FIELD(fi_domain_attr, mr_mode, BITS32, .names = &hm_names_mr_mode),
	DEC(fi_domain_attr, mr_key_size),
	DEC(fi_domain_attr, cq_data_size),
	DEC(fi_domain_attr, cq_cnt),
	DEC(fi_domain_attr, ep_cnt),
	DEC(fi_domain_attr, tx_ctx_cnt),
	DEC(fi_domain_attr, rx_ctx_cnt),
	DEC(fi_domain_attr, max_ep_tx_ctx),
	DEC(fi_domain_attr, max_ep_rx_ctx),
	DEC(fi_domain_attr, max_ep_stx_ctx),
	DEC(fi_domain_attr, max_ep_srx_ctx),
	DEC(fi_domain_attr, cntr_cnt),
	DEC(fi_domain_attr, mr_iov_limit),
	BITS(fi_domain_attr, caps, caps),
	BITS(fi_domain_attr, mode, mode),
	DEC(fi_domain_attr, auth_key_size),
	DEC(fi_domain_attr, max_err_data),
	DEC(fi_domain_attr, mr_cnt),
	VALUE(fi_domain_attr, tclass, HEX32),
	DEC(fi_domain_attr, max_ep_auth_key),
	VALUE(fi_domain_attr, max_group_id, DEC32),
	DEC(fi_domain_attr, max_cntr_value),
	DEC(fi_domain_attr, max_err_cntr_value),
	DEC(fi_domain_attr, max_xpu_ctx_cnt),
};
GROUP(domain_attr, "fi_domain_attr");

static const struct hm_field fabric_attr_fields[] = {
	VALUE(fi_fabric_attr, fabric, HEX64),	     VALUE(fi_fabric_attr, name, STRING),
	VALUE(fi_fabric_attr, prov_name, STRING),    VALUE(fi_fabric_attr, prov_version, VERSION),
	VALUE(fi_fabric_attr, api_version, VERSION),
};
GROUP(fabric_attr, "fi_fabric_attr");

static const struct hm_field device_attr_fields[] = {
	VALUE(fi_device_attr, name, STRING),	       VALUE(fi_device_attr, device_id, STRING),
	VALUE(fi_device_attr, device_version, STRING), VALUE(fi_device_attr, vendor_id, STRING),
	VALUE(fi_device_attr, driver, STRING),	       VALUE(fi_device_attr, firmware, STRING),
};
static GROUP(device_attr, "fi_device_attr");

static const struct hm_field pci_attr_fields[] = {
	VALUE(fi_pci_attr, domain_id, DEC16),
	VALUE(fi_pci_attr, bus_id, DEC8),
	VALUE(fi_pci_attr, device_id, DEC8),
	VALUE(fi_pci_attr, function_id, DEC8),
};
static GROUP(pci_attr, "fi_pci_attr");

/* The union of bus addresses holds what the type of bus says. */
static void print_bus_address(struct hm_text *text, const void *holder, int depth)
{
	const struct fi_bus_attr *bus = holder;

	if (bus->bus_type == FI_BUS_PCI)
		hm_print_group(text, &hm_group_pci_attr, &bus->attr.pci, depth);
}

static const struct hm_field bus_attr_fields[] = {
	ENUM(fi_bus_attr, bus_type, bus_type),
	FUNC(NULL, print_bus_address),
};
static GROUP(bus_attr, "fi_bus_attr");

static const struct hm_field link_attr_fields[] = {
	VALUE(fi_link_attr, address, STRING),
	DEC(fi_link_attr, mtu),
	DEC(fi_link_attr, speed),
	ENUM(fi_link_attr, state, link_state),
	VALUE(fi_link_attr, network_type, STRING),
};
static GROUP(link_attr, "fi_link_attr");

static const struct hm_field nic_fields[] = {
	SUB(fid_nic, device_attr, device_attr),
	SUB(fid_nic, bus_attr, bus_attr),
	SUB(fid_nic, link_attr, link_attr),
};
GROUP(nic, "nic");

static void print_src_addr(struct hm_text *text, const void *holder, int depth)
{
	const struct fi_info *info = holder;

	(void)depth;
	hm_text_addr(text, info->addr_format, info->src_addr, info->src_addrlen);
}

static void print_dest_addr(struct hm_text *text, const void *holder, int depth)
{
	const struct fi_info *info = holder;

	(void)depth;
	hm_text_addr(text, info->addr_format, info->dest_addr, info->dest_addrlen);
}

static const struct hm_field info_fields[] = {
	BITS(fi_info, caps, caps),
	BITS(fi_info, mode, mode),
	ENUM(fi_info, addr_format, addr_format),
	DEC(fi_info, src_addrlen),
	DEC(fi_info, dest_addrlen),
	FUNC("src_addr", print_src_addr),
	FUNC("dest_addr", print_dest_addr),
	VALUE(fi_info, handle, PTR),
	SUB(fi_info, tx_attr, tx_attr),
	SUB(fi_info, rx_attr, rx_attr),
	SUB(fi_info, ep_attr, ep_attr),
	SUB(fi_info, domain_attr, domain_attr),
	SUB(fi_info, fabric_attr, fabric_attr),
	SUB(fi_info, nic, nic),
};
GROUP(info, "fi_info");

static const struct hm_field fid_fields[] = {
	FIELD(fid, fclass, ENUM64, .names = &hm_names_class),
	VALUE(fid, context, PTR),
};
GROUP(fid, "fid");

static const struct hm_field av_attr_fields[] = {
	ENUM(fi_av_attr, type, av_type),
	VALUE(fi_av_attr, rx_ctx_bits, INT),
	DEC(fi_av_attr, count),
	DEC(fi_av_attr, ep_per_node),
	VALUE(fi_av_attr, name, STRING),
	VALUE(fi_av_attr, map_addr, PTR),
	BITS(fi_av_attr, flags, av_flags),
};
GROUP(av_attr, "fi_av_attr");

static const struct hm_field cq_attr_fields[] = {
	DEC(fi_cq_attr, size),
	BITS(fi_cq_attr, flags, op_flags),
	ENUM(fi_cq_attr, format, cq_format),
	ENUM(fi_cq_attr, wait_obj, wait_obj),
	VALUE(fi_cq_attr, signaling_vector, INT),
	ENUM(fi_cq_attr, wait_cond, wait_cond),
	VALUE(fi_cq_attr, wait_set, PTR),
	VALUE(fi_cq_attr, xpu_ctx, PTR),
};
GROUP(cq_attr, "fi_cq_attr");

static const struct hm_field cntr_attr_fields[] = {
	ENUM(fi_cntr_attr, events, cntr_events), ENUM(fi_cntr_attr, wait_obj, wait_obj),
	VALUE(fi_cntr_attr, wait_set, PTR),	 BITS(fi_cntr_attr, flags, op_flags),
	VALUE(fi_cntr_attr, xpu_ctx, PTR),
};
GROUP(cntr_attr, "fi_cntr_attr");

static void print_device(struct hm_text *text, const void *holder, int depth)
{
	const struct fi_mr_attr *attr = holder;
	unsigned int ze = (unsigned int)attr->device.ze;

	(void)depth;
	switch (attr->iface) {
	case FI_HMEM_CUDA:
	case FI_HMEM_ROCR:
	case FI_HMEM_NEURON:
	case FI_HMEM_SYNAPSEAI:
		hm_text_add(text, "%d", attr->device.cuda);
		break;
	case FI_HMEM_ZE:
		hm_text_add(text, "driver %u, device %u", ze >> 16, ze & 0xffff);
		break;
	default:
		hm_text_add(text, "0x%" PRIx64, attr->device.reserved);
		break;
	}
}

/* Whether the buffers are iovecs or a dma-buf is told by a flag of the call, which is not known here. */
static const struct hm_field mr_attr_fields[] = {
	VALUE(fi_mr_attr, mr_iov, PTR),
	DEC(fi_mr_attr, iov_count),
	BITS(fi_mr_attr, access, caps),
	VALUE(fi_mr_attr, offset, HEX64),
	VALUE(fi_mr_attr, requested_key, HEX64),
	VALUE(fi_mr_attr, context, PTR),
	DEC(fi_mr_attr, auth_key_size),
	ENUM(fi_mr_attr, iface, hmem_iface),
	FUNC("device", print_device),
	VALUE(fi_mr_attr, hmem_data, PTR),
	DEC(fi_mr_attr, page_size),
	VALUE(fi_mr_attr, base_mr, PTR),
	DEC(fi_mr_attr, sub_mr_cnt),
};
GROUP(mr_attr, "fi_mr_attr");

static void print_err(struct hm_text *text, const void *holder, int depth)
{
	const struct fi_cq_err_entry *entry = holder;

	(void)depth;
	hm_text_add(text, "%d (%s)", entry->err, fi_strerror(entry->err));
}

static void print_src(struct hm_text *text, const void *holder, int depth)
{
	const struct fi_cq_err_entry *entry = holder;

	(void)depth;
	if (entry->src_addr == FI_ADDR_NOTAVAIL)
		hm_text_add(text, "FI_ADDR_NOTAVAIL");
	else
		hm_text_add(text, "%" PRIu64, entry->src_addr);
}

static const struct hm_field cq_err_entry_fields[] = {
	VALUE(fi_cq_err_entry, op_context, PTR),
	BITS(fi_cq_err_entry, flags, cq_flags),
	DEC(fi_cq_err_entry, len),
	VALUE(fi_cq_err_entry, buf, PTR),
	VALUE(fi_cq_err_entry, data, HEX64),
	VALUE(fi_cq_err_entry, tag, HEX64),
	DEC(fi_cq_err_entry, olen),
	FUNC("err", print_err),
	VALUE(fi_cq_err_entry, prov_errno, INT),
	VALUE(fi_cq_err_entry, err_data, PTR),
	DEC(fi_cq_err_entry, err_data_size),
	FUNC("src_addr", print_src),
};
GROUP(cq_err_entry, "fi_cq_err_entry");
