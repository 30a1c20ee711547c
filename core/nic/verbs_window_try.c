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
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/nic/verbs_device.h"
#include "core/nic/verbs_loop.h"

#define PIECE                                                                                      \
	64u /* bytes: the window is the second piece of a page, what is read goes to the last */

struct trial {
	struct ibv_pd *pd;
	uint8_t *page;
	size_t size;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct verbs_loop *loop;
};

static int step_failed(struct verbs_failure *why, const char *step)
{
	return verbs_failed(why, step, errno);
}

/* A window that may be read and written, in a region without remote rights.  0 or errno. */
static int make(struct trial *trial, const struct verbs_loop_site *site, struct verbs_failure *why)
{
	struct ibv_mw_bind_info info = { .addr = (uintptr_t)trial->page + PIECE,
					 .length = PIECE,
					 .mw_access_flags = IBV_ACCESS_REMOTE_READ |
							    IBV_ACCESS_REMOTE_WRITE };
	int ret = verbs_loop_open(site, &trial->loop, why);

	if (ret != 0)
		return ret;
	errno = 0;
	trial->mr = verbs.reg_mr_iova2(trial->pd, trial->page, trial->size, (uintptr_t)trial->page,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	if (!trial->mr)
		return step_failed(why, "a region that windows may be bound to");
	trial->mw = ibv_alloc_mw(trial->pd, IBV_MW_TYPE_1);
	if (!trial->mw)
		return step_failed(why, "a window");
	info.mr = trial->mr;
	return verbs_loop_bind(trial->loop, trial->mw, &info, why);
}

/* Read a piece of the page through the window, to the page's end.  0 or errno. */
static int read_piece(struct trial *trial, unsigned int piece, struct verbs_failure *why)
{
	uint8_t *to = trial->page + trial->size - PIECE;
	struct ibv_sge into = { (uintptr_t)to, PIECE, trial->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &into,
				  .num_sge = 1 };

	wr.wr.rdma.remote_addr = (uintptr_t)trial->page + piece * (uint64_t)PIECE;
	wr.wr.rdma.rkey = trial->mw->rkey;
	memset(to, 0, PIECE);
	return verbs_loop_run(trial->loop, &wr, why);
}

static int use(struct trial *trial, struct verbs_failure *why)
{
	int ret;

	memset(trial->page, 0x5a, 3 * (size_t)PIECE);
	ret = read_piece(trial, 1, why);
	if (ret != 0)
		return ret;
	if (memcmp(trial->page + trial->size - PIECE, trial->page, PIECE) != 0) {
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

static void undo(struct trial *trial)
{
	verbs_loop_close(trial->loop);
	if (trial->mw)
		ibv_dealloc_mw(trial->mw);
	if (trial->mr)
		verbs.dereg_mr(trial->mr);
	if (trial->pd)
		verbs.dealloc_pd(trial->pd);
	if (trial->page != MAP_FAILED)
		munmap(trial->page, trial->size);
}

static int attempt(struct ibv_context *context, const struct verbs_port *port,
		   struct verbs_failure *why)
{
	struct trial trial = { .size = (size_t)sysconf(_SC_PAGESIZE) };
	struct verbs_loop_site site = { .context = context,
					.port = port->number,
					.gid_index = port->gid_index,
					.access = IBV_ACCESS_REMOTE_READ };
	int ret;

	trial.page =
		mmap(NULL, trial.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (trial.page == MAP_FAILED)
		return step_failed(why, "memory");
	errno = 0;
	trial.pd = verbs.alloc_pd(context);
	site.pd = trial.pd;
	ret = trial.pd ? make(&trial, &site, why) : step_failed(why, "a protection domain");
	if (ret == 0)
		ret = use(&trial, why);
	undo(&trial);
	return ret;
}

void verbs_window_try(const struct verbs_device *device, struct ibv_context *context,
		      const struct verbs_port *port, char *text, size_t room)
{
	struct verbs_failure why;

	text[0] = '\0';
	if (device->can & HMREG_CAN_WINDOW_1) {
		if (attempt(context, port, &why) != 0)
			snprintf(text, room, "the trial failed at %s: %s", why.step, why.text);
	} else if (device->can & (HMREG_CAN_WINDOW_2A | HMREG_CAN_WINDOW_2B)) {
		snprintf(text, room,
			 "the device's memory windows are of type 2 alone, which serve one "
			 "connection");
	} else {
		snprintf(text, room, "the device has no memory windows");
	}
}
