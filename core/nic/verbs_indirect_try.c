/* SPDX-License-Identifier: BSD-2-Clause */
/* Are keys over several regions to be had on this device?  One is made and read through. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/nic/verbs.h"
#include "core/nic/verbs_indirect.h"
#include "core/nic/verbs_trial.h"

#define PIECE 64u /* bytes of each region; there is a gap as long between them */

/* What the trial stands on: two regions and the buffer that is read into, in one page. */
struct trial {
	struct verbs_trial on;
	struct ibv_mr *one, *two, *into;
	struct verbs_loop *loop;
	struct verbs_indirect *key;
};

static struct ibv_mr *reg(struct trial *trial, unsigned int piece, size_t len, unsigned int access)
{
	errno = 0;
	return verbs.reg_mr_iova2(trial->on.site.pd, trial->on.page + piece * PIECE, len,
				  piece * PIECE, access);
}

/* A key over the two, the one that lies higher first.  0 or errno. */
static int make(struct trial *trial, struct verbs_failure *why)
{
	const unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ;
	struct ibv_sge entry[2];
	struct verbs_list list = { entry, 2 };
	int ret;

	trial->one = reg(trial, 2, PIECE, access);
	trial->two = trial->one ? reg(trial, 0, PIECE, access) : NULL;
	trial->into = trial->two ? reg(trial, 4, 2 * PIECE, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!trial->into)
		return verbs_failed(why, "a region", errno);
	entry[0] = (struct ibv_sge){ 2 * PIECE, PIECE, trial->one->lkey };
	entry[1] = (struct ibv_sge){ 0, PIECE, trial->two->lkey };
	ret = verbs_indirect_loop(&trial->on.site, &trial->loop, why);
	if (ret == 0)
		ret = verbs_indirect_create(trial->on.site.pd, trial->loop, &list, access,
					    &trial->key, why);
	return ret;
}

/* Read both through the key, which is complete only when the bytes are here.  0 or errno. */
static int use(struct trial *trial, struct verbs_failure *why)
{
	struct ibv_sge into = { 4 * PIECE, 2 * PIECE, trial->into->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &into,
				  .num_sge = 1 };
	uint8_t *page = trial->on.page;
	int ret;

	wr.wr.rdma.rkey = verbs_indirect_rkey(trial->key);
	for (unsigned int i = 0; i < 3 * PIECE; i++)
		page[i] = (uint8_t)(i + 1);
	ret = verbs_loop_run(trial->loop, &wr, why);
	if (ret != 0)
		return ret;
	if (memcmp(page + 4 * PIECE, page + 2 * PIECE, PIECE) == 0 &&
	    memcmp(page + 5 * PIECE, page, PIECE) == 0)
		return 0;
	verbs_failed(why, "reading through the key", EIO);
	why->text = "other bytes came";
	return EIO;
}

static void undo(struct trial *trial)
{
	struct ibv_mr *mrs[] = { trial->into, trial->two, trial->one };

	if (trial->key)
		verbs_indirect_free(trial->key);
	verbs_loop_close(trial->loop);
	for (size_t i = 0; i < count_of(mrs); i++)
		if (mrs[i])
			verbs.dereg_mr(mrs[i]);
	verbs_trial_close(&trial->on);
}

static int attempt(struct ibv_context *context, const struct verbs_port *port,
		   struct verbs_failure *why)
{
	struct trial trial = { .one = NULL };
	int ret = verbs_trial_open(&trial.on, context, port, why);

	if (ret == 0)
		ret = make(&trial, why);
	if (ret == 0)
		ret = use(&trial, why);
	undo(&trial);
	return ret;
}

void verbs_indirect_try(const struct verbs_device *device, const struct verbs_port *port,
			char *text, size_t room)
{
	const char *missing = verbs_indirect_missing(device->ibv);
	struct ibv_context *context;
	struct verbs_failure why;
	int ret;

	text[0] = '\0';
	if (missing) {
		snprintf(text, room, "%s", missing);
		return;
	}
	errno = 0;
	context = verbs_indirect_open(device->ibv);
	ret = context ? attempt(context, port, &why)
		      : verbs_failed(&why, "opening it with DEVX", errno);
	if (ret != 0)
		snprintf(text, room, "the trial failed at %s: %s", why.step, why.text);
	if (context)
		verbs.close_device(context);
}
