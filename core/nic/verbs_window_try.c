/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Are sub-MRs to be memory windows on this device?  One is bound, and read through from this side: inside
 * it, where the bytes must come, and beyond its end, where the region that it is in goes on and the device
 * must refuse.  Linux's software device (rxe) says that it has windows, but looks at the ends of the region
 * alone.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/nic/verbs_device.h"
#include "core/nic/verbs_trial.h"

#define PIECE                                                                                      \
	64u /* bytes: the window is the second piece of a page, what is read goes to the last */

struct trial {
	struct verbs_trial on;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct verbs_loop *loop;
};

/* A window that may be read and written, in a region without remote rights.  0 or errno. */
static int make(struct trial *trial, struct verbs_failure *why)
{
	struct ibv_mw_bind_info info = { .addr = (uintptr_t)trial->on.page + PIECE,
					 .length = PIECE,
					 .mw_access_flags = IBV_ACCESS_REMOTE_READ |
							    IBV_ACCESS_REMOTE_WRITE };
	int ret = verbs_loop_open(&trial->on.site, &trial->loop, why);

	if (ret != 0)
		return ret;
	errno = 0;
	trial->mr = verbs.reg_mr_iova2(trial->on.site.pd, trial->on.page, trial->on.size,
				       (uintptr_t)trial->on.page,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	if (!trial->mr)
		return verbs_failed(why, "a region that windows may be bound to", errno);
	trial->mw = ibv_alloc_mw(trial->on.site.pd, IBV_MW_TYPE_1);
	if (!trial->mw)
		return verbs_failed(why, "a window", errno);
	info.mr = trial->mr;
	return verbs_loop_bind(trial->loop, trial->mw, &info, why);
}

/* Read a piece of the page through the window, to the page's end.  0 or errno. */
static int read_piece(struct trial *trial, unsigned int piece, struct verbs_failure *why)
{
	uint8_t *to = trial->on.page + trial->on.size - PIECE;
	struct ibv_sge into = { (uintptr_t)to, PIECE, trial->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &into,
				  .num_sge = 1 };

	wr.wr.rdma.remote_addr = (uintptr_t)trial->on.page + piece * (uint64_t)PIECE;
	wr.wr.rdma.rkey = trial->mw->rkey;
	memset(to, 0, PIECE);
	return verbs_loop_run(trial->loop, &wr, why);
}

static int use(struct trial *trial, struct verbs_failure *why)
{
	int ret;

	memset(trial->on.page, 0x5a, 3 * (size_t)PIECE);
	ret = read_piece(trial, 1, why);
	if (ret != 0)
		return ret;
	if (memcmp(trial->on.page + trial->on.size - PIECE, trial->on.page, PIECE) != 0) {
		ret = verbs_failed(why, "reading through a window", EIO);
		why->text = "other bytes came";
		return ret;
	}
	if (read_piece(trial, 2, why) != 0)
		return 0;
	ret = verbs_failed(why, "reading beyond a window's end", EIO);
	why->text = "the device does not refuse it";
	return ret;
}

/*
 * May windows be bound to dma-buf regions?  A kernel that knows no such regions says so before it looks at
 * the descriptor, which is none.
 */
static bool can_bind_dmabuf(const struct trial *trial)
{
	struct ibv_mr *mr = verbs.reg_dmabuf_mr(trial->on.site.pd, 0, trial->on.size, 0, -1,
						IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);

	if (mr)
		verbs.dereg_mr(mr);
	return mr || errno == EBADF;
}

static void undo(struct trial *trial)
{
	verbs_loop_close(trial->loop);
	if (trial->mw)
		ibv_dealloc_mw(trial->mw);
	if (trial->mr)
		verbs.dereg_mr(trial->mr);
	verbs_trial_close(&trial->on);
}

/* HMREG_CAN_*; 0 and why. */
static uint64_t attempt(const struct verbs_device *device, struct ibv_context *context,
			const struct verbs_port *port, struct verbs_failure *why)
{
	struct trial trial = { .mr = NULL };
	uint64_t can = 0;

	if (verbs_trial_open(&trial.on, context, port, why) == 0 && make(&trial, why) == 0 &&
	    use(&trial, why) == 0) {
		can = HMREG_CAN_WINDOWS;
		if ((device->can & HMREG_CAN_DMABUF) && can_bind_dmabuf(&trial))
			can |= HMREG_CAN_DMABUF_WINDOWS;
	}
	undo(&trial);
	return can;
}

uint64_t verbs_window_try(const struct verbs_device *device, struct ibv_context *context,
			  const struct verbs_port *port, char *text, size_t room)
{
	struct verbs_failure why;
	uint64_t can = 0;

	text[0] = '\0';
	if (device->can & HMREG_CAN_WINDOW_1) {
		can = attempt(device, context, port, &why);
		if (!can)
			snprintf(text, room, "the trial failed at %s: %s", why.step, why.text);
	} else if (device->can & (HMREG_CAN_WINDOW_2A | HMREG_CAN_WINDOW_2B)) {
		snprintf(text, room,
			 "the device's memory windows are of type 2 alone, which serve one "
			 "connection");
	} else {
		snprintf(text, room, "the device has no memory windows");
	}
	return can;
}
