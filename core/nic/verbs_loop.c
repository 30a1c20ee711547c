/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair connected to itself. */
#include "core/nic/verbs_loop.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/nic/verbs.h"

#define PATIENCE_US 5000000 /* for a request that needs no network */
#define LOOK_US	    100000  /* how often to look whether the device is still there */
/*
 * A driver in software needs the processor: it is offered to others after so many polls, and soon left to them, since
 * the scheduler may come back from a yield at once, for as long as a tick.
 */
#define SPINS	 256
#define YIELD_US 50

int verbs_failed(struct verbs_failure *why, const char *step, int err)
{
	why->step = step;
	why->err = err ? err : EIO;
	why->text = strerror(why->err);
	return why->err;
}

/* ---- its life ---- */

static struct ibv_qp *make_qp(const struct verbs_loop_site *site, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { .max_send_wr = VERBS_LOOP_DEPTH,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };

	return verbs.create_qp(site->pd, &attr);
}

/*
 * The way from the port back to itself.  A LID alone will do on InfiniBand, unless the port wants a
 * global header with it or the subnet gave it none; RoCE knows only GIDs.  0 or errno.
 */
static int path_to_itself(const struct verbs_loop_site *site, const struct ibv_port_attr *port,
			  struct ibv_ah_attr *path)
{
	int index = site->gid_index < 0 ? 0 : site->gid_index;

	*path = (struct ibv_ah_attr){ .dlid = port->lid, .port_num = site->port };
	if (port->link_layer != IBV_LINK_LAYER_ETHERNET && !(port->flags & IBV_QPF_GRH_REQUIRED) &&
	    port->lid != 0)
		return 0;
	path->is_global = 1;
	path->grh.sgid_index = (uint8_t)index;
	path->grh.hop_limit = 1;
	errno = 0;
	if (verbs.query_gid(site->context, site->port, index, &path->grh.dgid) == 0)
		return 0;
	return errno ? errno : EINVAL;
}

/* RESET to RTS, to itself over its own port.  0 or errno. */
static int connect_to_itself(const struct verbs_loop_site *site, struct ibv_qp *qp)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = site->port,
				    .qp_access_flags = site->access };
	int ret = verbs_query_port(site->context, site->port, &port);

	if (ret == 0)
		ret = verbs.modify_qp(qp, &attr,
				      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					      IBV_QP_ACCESS_FLAGS);
	if (ret != 0)
		return ret;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = port.active_mtu,
				     .dest_qp_num = qp->qp_num,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 12 };
	ret = path_to_itself(site, &port, &attr.ah_attr);
	if (ret == 0)
		ret = verbs.modify_qp(qp, &attr,
				      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER);
	if (ret != 0)
		return ret;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	return verbs.modify_qp(qp, &attr,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int verbs_loop_open(const struct verbs_loop_site *site, struct verbs_loop **out,
		    struct verbs_failure *why)
{
	struct verbs_loop *loop = calloc(1, sizeof(*loop));
	int ret;

	if (!loop)
		return verbs_failed(why, "a queue pair to itself", ENOMEM);
	errno = 0;
	loop->cq = verbs.create_cq(site->context, VERBS_LOOP_DEPTH, NULL, NULL, 0);
	if (!loop->cq) {
		ret = verbs_failed(why, "a completion queue", errno);
		goto free_loop;
	}
	errno = 0;
	loop->qp = site->make_qp ? site->make_qp(site, loop->cq) : make_qp(site, loop->cq);
	if (!loop->qp) {
		ret = verbs_failed(why, "a queue pair to itself", errno);
		goto destroy_cq;
	}
	ret = verbs_errno(connect_to_itself(site, loop->qp));
	if (ret != 0) {
		verbs_failed(why, "connecting a queue pair to itself", ret);
		goto destroy_qp;
	}
	loop->domain = site->domain;
	pthread_mutex_init(&loop->lock, NULL);
	*out = loop;
	return 0;
destroy_qp:
	verbs.destroy_qp(loop->qp);
destroy_cq:
	verbs.destroy_cq(loop->cq);
free_loop:
	free(loop);
	return ret;
}

void verbs_loop_close(struct verbs_loop *loop)
{
	if (!loop)
		return;
	verbs.destroy_qp(loop->qp);
	verbs.destroy_cq(loop->cq);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

/* ---- requests ---- */

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The completion of the one request.  0: it did not come, 1, or negative. */
static int poll_patiently(struct verbs_loop *loop, struct ibv_wc *wc)
{
	const struct timespec moment = { .tv_nsec = 1000 };
	int64_t start = 0, looked = 0, now;
	int n;

	for (unsigned int spins = 0; (n = ibv_poll_cq(loop->cq, 1, wc)) == 0; spins++) {
		if (spins < SPINS)
			continue;
		now = now_us();
		if (start == 0)
			start = looked = now;
		if (now - start > PATIENCE_US)
			break;
		if (loop->domain && now - looked > LOOK_US) {
			looked = now;
			if (verbs_domain_lost(loop->domain, EIO)) /* nothing completes any more */
				break;
		}
		if (now - start < YIELD_US)
			sched_yield();
		else
			nanosleep(&moment, NULL);
	}
	return n;
}

static int await(struct verbs_loop *loop, struct verbs_failure *why)
{
	struct ibv_wc wc;
	int n = poll_patiently(loop, &wc);

	if (n == 1 && wc.status == IBV_WC_SUCCESS)
		return 0;
	verbs_failed(why, "a request of the queue pair to itself", EIO);
	why->text = n == 1   ? verbs.wc_status_str(wc.status)
		    : n == 0 ? "it does not complete"
			     : "its completion cannot be read";
	loop->broken = true;
	return why->err;
}

int verbs_loop_begin(struct verbs_loop *loop, struct verbs_failure *why)
{
	pthread_mutex_lock(&loop->lock);
	if (!loop->broken)
		return 0;
	pthread_mutex_unlock(&loop->lock);
	/* that was told when it broke */
	verbs_failed(why, "the queue pair to itself", EIO);
	why->text = "an earlier request of it failed";
	return why->err;
}

int verbs_loop_end(struct verbs_loop *loop, int err, const char *step, struct verbs_failure *why)
{
	int ret = err ? verbs_failed(why, step, err) : await(loop, why);

	pthread_mutex_unlock(&loop->lock);
	return ret;
}

int verbs_loop_run(struct verbs_loop *loop, struct ibv_send_wr *wr, struct verbs_failure *why)
{
	struct ibv_send_wr *bad;
	int ret = verbs_loop_begin(loop, why);

	if (ret != 0)
		return ret;
	return verbs_loop_end(loop, ibv_post_send(loop->qp, wr, &bad),
			      "a request of the queue pair to itself", why);
}

int verbs_loop_bind(struct verbs_loop *loop, struct ibv_mw *mw, const struct ibv_mw_bind_info *info,
		    struct verbs_failure *why)
{
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED, .bind_info = *info };
	int ret = verbs_loop_begin(loop, why);

	if (ret != 0)
		return ret;
	/* an errno, or, of some providers, -1 with errno */
	return verbs_loop_end(loop, verbs_errno(ibv_bind_mw(loop->qp, mw, &bind)), "ibv_bind_mw",
			      why);
}
