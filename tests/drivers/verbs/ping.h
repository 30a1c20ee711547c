/* SPDX-License-Identifier: BSD-2-Clause */
/* Two queue pairs of one device, connected, with a region each: what tests of the emulated device begin with. */
#ifndef PING_H
#define PING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <infiniband/verbs.h>

#include "tests/drivers/emu_verbs.h"

#define PING_BYTES 8192
#define PING_ACCESS                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer; /* PING_BYTES, whole pages */
};

struct ping {
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_srq *srq; /* of ends[1], if asked for */
	struct end ends[2];
};

/* Settings for the devices, NULL: none. */
void ping_settings(const char *settings);
/* Everything but the connection; then the connection. */
void ping_open(struct ping *ping, int with_srq);
void ping_connect(struct ping *ping);
/* Releases all; fails the test if any object is left; both. */
void ping_release(struct ping *ping);
void ping_none_left(void);
void ping_close(struct ping *ping);

struct ibv_qp *ping_qp(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq);
/* From RESET to RTS, towards DEST_QPN. */
void ping_rts(struct ibv_qp *qp, uint32_t dest_qpn);

/* A request of LENGTH bytes at ends[0]'s buffer to ends[1]'s, not yet posted. */
struct ibv_send_wr ping_wr(struct ping *ping, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
			   uint32_t length);
void ping_post(struct end *end, struct ibv_send_wr *wr);
/* Posts a receive of LENGTH bytes at END's buffer. */
void ping_recv(struct ping *ping, unsigned int end, uint64_t wr_id, uint32_t length);
/* The next completion, which has to be there. */
struct ibv_wc ping_wc(struct end *end);
void ping_expect(struct end *end, uint64_t wr_id, enum ibv_wc_status status);
void ping_quiet(struct end *end);

#endif
