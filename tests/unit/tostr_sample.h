/* SPDX-License-Identifier: BSD-2-Clause */
/* For test_tostr.c: an fi_info in which every number is another one, and the text expected for it. */
#ifndef HM_TEST_TOSTR_SAMPLE_H
#define HM_TEST_TOSTR_SAMPLE_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

static struct fi_device_attr sample_device = { .name = (char *)"nic0",
					       .vendor_id = (char *)"0x15b3" };
static struct fi_bus_attr sample_bus = {
	.bus_type = FI_BUS_PCI,
	.attr.pci = { .domain_id = 65535, .bus_id = 201, .device_id = 31, .function_id = 7 },
};
static struct fi_link_attr sample_link = {
	.address = (char *)"fe80::1", .mtu = 4096, .speed = 400000000000, .state = FI_LINK_UP
};
static struct fid_nic sample_nic = { .fid.fclass = FI_CLASS_NIC,
				     .device_attr = &sample_device,
				     .bus_attr = &sample_bus,
				     .link_attr = &sample_link };
static struct fi_tx_attr sample_tx = {
	.caps = FI_MSG | FI_WRITE,
	.op_flags = FI_INJECT,
	.msg_order = FI_ORDER_SAS | FI_ORDER_RMA_WAW,
	.inject_size = 1,
	.size = 2,
	.iov_limit = 3,
	.rma_iov_limit = 4,
	.tclass = FI_TC_BULK_DATA,
};
static struct fi_rx_attr sample_rx = {
	.mode = FI_CONTEXT2,
	.comp_order = FI_ORDER_STRICT | FI_ORDER_DATA,
	.total_buffered_recv = 5,
	.size = 6,
	.iov_limit = 7,
};
static struct fi_ep_attr sample_ep = {
	.type = FI_EP_RDM,
	.protocol = FI_PROTO_UNSPEC,
	.protocol_version = 8,
	.max_msg_size = SIZE_MAX,
	.msg_prefix_size = 9,
	.max_order_raw_size = 10,
	.max_order_war_size = 11,
	.max_order_waw_size = 12,
	.mem_tag_format = 0xaaaa,
	.tx_ctx_cnt = 13,
	.rx_ctx_cnt = 14,
	.auth_key_size = 15,
};
static struct fi_domain_attr sample_domain = {
	.name = (char *)"sw-strict",
	.threading = FI_THREAD_SAFE,
	.control_progress = FI_PROGRESS_AUTO,
	.data_progress = FI_PROGRESS_MANUAL,
	.resource_mgmt = FI_RM_ENABLED,
	.av_type = FI_AV_TABLE,
	.mr_mode = FI_MR_LOCAL | FI_MR_RAW,
	.mr_key_size = 16,
	.cq_data_size = 17,
	.cq_cnt = 18,
	.ep_cnt = 19,
	.tx_ctx_cnt = 20,
	.rx_ctx_cnt = 21,
	.max_ep_tx_ctx = 22,
	.max_ep_rx_ctx = 23,
	.max_ep_stx_ctx = 24,
	.max_ep_srx_ctx = 25,
	.cntr_cnt = 26,
	.mr_iov_limit = 27,
	.caps = FI_LOCAL_COMM,
	.auth_key_size = 28,
	.max_err_data = 29,
	.mr_cnt = 30,
	.tclass = 31,
	.max_ep_auth_key = 32,
	.max_group_id = 33,
	.max_cntr_value = 34,
	.max_err_cntr_value = 35,
	.max_xpu_ctx_cnt = 36,
};
static struct fi_fabric_attr sample_fabric = {
	.name = (char *)"sw",
	.prov_name = (char *)"hmreg",
	.prov_version = FI_VERSION(3, 14),
	.api_version = FI_VERSION(2, 7),
};
static char sample_src[] = "sw://1";
static struct fi_info sample_info = {
	.caps = FI_MSG | FI_RMA,
	.mode = FI_CONTEXT,
	.addr_format = FI_ADDR_STR,
	.src_addrlen = sizeof(sample_src),
	.src_addr = sample_src,
	.tx_attr = &sample_tx,
	.rx_attr = &sample_rx,
	.ep_attr = &sample_ep,
	.domain_attr = &sample_domain,
	.fabric_attr = &sample_fabric,
	.nic = &sample_nic,
};

static const char sample_text[] = "fi_info:\n"
				  "    caps: [ FI_MSG, FI_RMA ]\n"
				  "    mode: [ FI_CONTEXT ]\n"
				  "    addr_format: FI_ADDR_STR\n"
				  "    src_addrlen: 7\n"
				  "    dest_addrlen: 0\n"
				  "    src_addr: sw://1\n"
				  "    dest_addr: (null)\n"
				  "    handle: (nil)\n"
				  "    fi_tx_attr:\n"
				  "        caps: [ FI_MSG, FI_WRITE ]\n"
				  "        mode: [  ]\n"
				  "        op_flags: [ FI_INJECT ]\n"
				  "        msg_order: [ FI_ORDER_SAS, FI_ORDER_RMA_WAW ]\n"
				  "        comp_order: [ FI_ORDER_NONE ]\n"
				  "        inject_size: 1\n"
				  "        size: 2\n"
				  "        iov_limit: 3\n"
				  "        rma_iov_limit: 4\n"
				  "        tclass: 0x203\n"
				  "    fi_rx_attr:\n"
				  "        caps: [  ]\n"
				  "        mode: [ FI_CONTEXT2 ]\n"
				  "        op_flags: [  ]\n"
				  "        msg_order: [  ]\n"
				  "        comp_order: [ FI_ORDER_STRICT, FI_ORDER_DATA ]\n"
				  "        total_buffered_recv: 5\n"
				  "        size: 6\n"
				  "        iov_limit: 7\n"
				  "    fi_ep_attr:\n"
				  "        type: FI_EP_RDM\n"
				  "        protocol: FI_PROTO_UNSPEC\n"
				  "        protocol_version: 8\n"
				  "        max_msg_size: 18446744073709551615\n"
				  "        msg_prefix_size: 9\n"
				  "        max_order_raw_size: 10\n"
				  "        max_order_war_size: 11\n"
				  "        max_order_waw_size: 12\n"
				  "        mem_tag_format: 0xaaaa\n"
				  "        tx_ctx_cnt: 13\n"
				  "        rx_ctx_cnt: 14\n"
				  "        auth_key_size: 15\n"
				  "        xpu_ctx: (nil)\n"
				  "    fi_domain_attr:\n"
				  "        domain: 0x0\n"
				  "        name: sw-strict\n"
				  "        threading: FI_THREAD_SAFE\n"
				  "        control_progress: FI_PROGRESS_AUTO\n"
				  "        data_progress: FI_PROGRESS_MANUAL\n"
				  "        resource_mgmt: FI_RM_ENABLED\n"
				  "        av_type: FI_AV_TABLE\n"
				  "        mr_mode: [ FI_MR_LOCAL, FI_MR_RAW ]\n"
				  "        mr_key_size: 16\n"
				  "        cq_data_size: 17\n"
				  "        cq_cnt: 18\n"
				  "        ep_cnt: 19\n"
				  "        tx_ctx_cnt: 20\n"
				  "        rx_ctx_cnt: 21\n"
				  "        max_ep_tx_ctx: 22\n"
				  "        max_ep_rx_ctx: 23\n"
				  "        max_ep_stx_ctx: 24\n"
				  "        max_ep_srx_ctx: 25\n"
				  "        cntr_cnt: 26\n"
				  "        mr_iov_limit: 27\n"
				  "        caps: [ FI_LOCAL_COMM ]\n"
				  "        mode: [  ]\n"
				  "        auth_key_size: 28\n"
				  "        max_err_data: 29\n"
				  "        mr_cnt: 30\n"
				  "        tclass: 0x1f\n"
				  "        max_ep_auth_key: 32\n"
				  "        max_group_id: 33\n"
				  "        max_cntr_value: 34\n"
				  "        max_err_cntr_value: 35\n"
				  "        max_xpu_ctx_cnt: 36\n"
				  "    fi_fabric_attr:\n"
				  "        fabric: 0x0\n"
				  "        name: sw\n"
				  "        prov_name: hmreg\n"
				  "        prov_version: 3.14\n"
				  "        api_version: 2.7\n"
				  "    nic:\n"
				  "        fi_device_attr:\n"
				  "            name: nic0\n"
				  "            device_id: (null)\n"
				  "            device_version: (null)\n"
				  "            vendor_id: 0x15b3\n"
				  "            driver: (null)\n"
				  "            firmware: (null)\n"
				  "        fi_bus_attr:\n"
				  "            bus_type: FI_BUS_PCI\n"
				  "            fi_pci_attr:\n"
				  "                domain_id: 65535\n"
				  "                bus_id: 201\n"
				  "                device_id: 31\n"
				  "                function_id: 7\n"
				  "        fi_link_attr:\n"
				  "            address: fe80::1\n"
				  "            mtu: 4096\n"
				  "            speed: 400000000000\n"
				  "            state: FI_LINK_UP\n"
				  "            network_type: (null)\n";

#endif
