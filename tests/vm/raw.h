/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected queue pairs by verbs alone: what the machine can do without the library under test. */
#ifndef VM_RAW_H
#define VM_RAW_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define RAW_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* One end, with a device context, a domain and a queue of its own; everything is owned. */
struct raw_end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	union ibv_gid gid;
	uint8_t gid_index;
};

struct raw_pair {
	struct raw_end a, b;
};

/* Ends the test on failure. */
void raw_open(struct raw_pair *pair, const char *device_a, const char *device_b);
void raw_close(struct raw_pair *pair);
/* One operation of a, waited for: its ibv_wc_status. */
enum ibv_wc_status raw_rdma(struct raw_pair *pair, enum ibv_wr_opcode opcode,
			    const struct ibv_mr *local, void *buf, size_t len, uint64_t addr,
			    uint32_t rkey);

#endif
