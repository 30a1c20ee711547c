/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registration for a program that has its own transport: verbs queue pairs that it makes, connects and
 * posts to itself.  It takes memory regions from the library, and nothing else.
 *
 *   own_queue_pairs [DOMAIN]
 *
 * Two reliable queue pairs of one process are connected by hand; between them go RDMA writes into host
 * memory and, where this machine makes dma-bufs out of host memory, into one of those.  Exit status 77:
 * there is no RDMA device.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <rdma/fi_ext_hmreg.h>

#include "common.h"
#include "dmabuf_host.h"

#define SKIPPED 77
#define LEN	((size_t)64 << 10)

/* What the program has of verbs, without the library's doing. */
struct own {
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
};

/* What it takes from the library. */
struct taken {
	struct fi_info *list; /* owned */
	struct fi_info *info; /* in list: an RDMA device's */
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct hmreg_fabric_ops *ops;
	struct hmreg_device device;
};

static int fail_errno(const char *call)
{
	perror(call);
	return -1;
}

/* ---- the library's side ---- */

/* Is info a port of an RDMA device?  If so, its fabric stays open. */
static bool take_fabric(struct taken *t, struct fi_info *info)
{
	if (fi_fabric(info->fabric_attr, &t->fabric, NULL))
		return false;
	t->device.size = sizeof(t->device);
	if (!fi_open_ops(&t->fabric->fid, HMREG_FABRIC_OPS, 0, (void **)&t->ops, NULL) &&
	    !t->ops->device(&t->fabric->fid, info, &t->device) &&
	    !strcmp(t->device.kind, "verbs")) {
		t->info = info;
		return true;
	}
	fi_close(&t->fabric->fid);
	t->fabric = NULL;
	return false;
}

/* 0, or SKIPPED after a message. */
static int find_device(struct taken *t, const char *domain)
{
	struct fi_info *info;
	uint64_t caps;

	/*
	 * No endpoints are asked for, so that ports are found that have none.  With FI_HMEM where there
	 * is: dma-bufs are part of that.
	 */
	for (caps = FI_HMEM;; caps = 0) {
		if (!sample_find_registration(domain, caps, &t->list)) {
			for (info = t->list; info; info = info->next) {
				if (take_fabric(t, info))
					return 0;
			}
			fi_freeinfo(t->list);
			t->list = NULL;
		}
		if (!caps)
			break;
	}
	printf("skipped: %s%s\n", domain ? "no RDMA device of the name " : "no RDMA device",
	       domain ? domain : "");
	return SKIPPED;
}

/* A domain over the program's protection domain: its keys are good for the program's queue pairs. */
static int open_domain(struct taken *t, struct own *own)
{
	const struct hmreg_verbs_adopt adopt = { .size = sizeof(adopt), .pd = own->pd };
	int ret = t->ops->domain_over(t->fabric, t->info, &adopt, &t->domain, NULL);

	return ret ? sample_fail("domain_over", ret) : 0;
}

static int close_taken(struct taken *t)
{
	int ret = t->domain ? fi_close(&t->domain->fid) : 0;

	if (ret)
		sample_fail("fi_close of the domain", ret);
	if (t->fabric)
		fi_close(&t->fabric->fid);
	fi_freeinfo(t->list);
	return ret;
}

/* Register, and see what a work request has to say: one verbs region in this case. */
static int register_part(struct taken *t, struct fi_mr_attr *attr, uint64_t flags,
			 struct fid_mr **mr, struct hmreg_verbs_part *part)
{
	struct hmreg_mr_ops *ops;
	int ret = fi_mr_regattr(t->domain, attr, flags, mr);

	if (ret)
		return sample_fail("fi_mr_regattr", ret);
	part->size = sizeof(*part);
	ret = fi_open_ops(&(*mr)->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL);
	if (!ret)
		ret = ops->verbs_part(&(*mr)->fid, 0, part);
	if (!ret && part->len < LEN)
		ret = -FI_EMSGSIZE; /* more parts follow: this sample sends one request */
	return ret ? sample_fail("verbs_part", ret) : 0;
}

/* ---- the program's own transport ---- */

static struct ibv_device *device_of(struct own *own, const struct taken *t)
{
	size_t len = strcspn(t->device.name, ":"); /* the port's number may follow */
	const char *name;
	int i, count;

	own->list = ibv_get_device_list(&count);
	for (i = 0; own->list && i < count; i++) {
		name = ibv_get_device_name(own->list[i]);
		if (strlen(name) == len && !strncmp(name, t->device.name, len))
			return own->list[i];
	}
	return NULL;
}

static int open_own(struct own *own, const struct taken *t)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_device *device = device_of(own, t);
	int i;

	if (!device)
		return fail_errno("ibv_get_device_list");
	own->context = ibv_open_device(device);
	if (!own->context)
		return fail_errno("ibv_open_device");
	own->pd = ibv_alloc_pd(own->context);
	if (!own->pd)
		return fail_errno("ibv_alloc_pd");
	own->cq = ibv_create_cq(own->context, 8, NULL, NULL, 0);
	if (!own->cq)
		return fail_errno("ibv_create_cq");
	attr.send_cq = attr.recv_cq = own->cq;
	for (i = 0; i < 2; i++) {
		own->qp[i] = ibv_create_qp(own->pd, &attr);
		if (!own->qp[i])
			return fail_errno("ibv_create_qp");
	}
	return 0;
}

static void close_own(struct own *own)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (own->qp[i])
			ibv_destroy_qp(own->qp[i]);
	}
	if (own->cq)
		ibv_destroy_cq(own->cq);
	if (own->pd)
		ibv_dealloc_pd(own->pd);
	if (own->context)
		ibv_close_device(own->context);
	if (own->list)
		ibv_free_device_list(own->list);
}

/* RESET -> INIT */
static int to_init(struct ibv_qp *qp, uint8_t port)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/* INIT -> RTR: the other end is the queue pair of this number at the same port. */
static int to_rtr(struct ibv_qp *qp, uint8_t port, uint32_t other, int gid_index)
{
	struct ibv_port_attr port_attr;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.dest_qp_num = other,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .port_num = port },
	};
	int ret = ibv_query_port(qp->context, port, &port_attr);

	if (ret)
		return ret;
	attr.path_mtu = port_attr.active_mtu;
	attr.ah_attr.dlid = port_attr.lid;
	if (gid_index >= 0) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
		attr.ah_attr.grh.hop_limit = 64;
		ret = ibv_query_gid(qp->context, port, gid_index, &attr.ah_attr.grh.dgid);
		if (ret)
			return ret;
	}
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER);
}

/* RTR -> RTS */
static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int connect_pair(struct own *own, const struct hmreg_device *device)
{
	uint8_t port = (uint8_t)device->port;
	int i, ret = 0;

	for (i = 0; !ret && i < 2; i++)
		ret = to_init(own->qp[i], port);
	for (i = 0; !ret && i < 2; i++)
		ret = to_rtr(own->qp[i], port, own->qp[1 - i]->qp_num, device->gid_index);
	for (i = 0; !ret && i < 2; i++)
		ret = to_rts(own->qp[i]);
	if (!ret)
		return 0;
	fprintf(stderr, "the queue pairs cannot be connected: %s\n", strerror(ret));
	return -1;
}

static int wait_completion(struct ibv_cq *cq)
{
	time_t start = time(NULL);
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0 && time(NULL) - start < SAMPLE_TIMEOUT_S)
		;
	if (n == 1 && wc.status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "RDMA write: %s\n",
		n == 1 ? ibv_wc_status_str(wc.status) : "no completion in time");
	return -1;
}

/* One RDMA write of LEN bytes, with the keys and addresses that the library gave. */
static int write_over(struct own *own, const struct hmreg_verbs_part *from,
		      const struct hmreg_verbs_part *to)
{
	struct ibv_sge sge = { .addr = from->iova, .length = LEN, .lkey = from->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = to->iova, .rkey = to->rkey },
	};
	int ret = ibv_post_send(own->qp[0], &wr, &bad);

	if (ret) {
		fprintf(stderr, "ibv_post_send: %s\n", strerror(ret));
		return -1;
	}
	return wait_completion(own->cq);
}

/* ---- the transfers ---- */

struct source {
	unsigned char *bytes; /* owned */
	struct fid_mr *mr;
	struct hmreg_verbs_part part;
};

static int open_source(struct taken *t, struct source *source)
{
	struct iovec iov = { .iov_len = LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_WRITE };

	source->bytes = malloc(LEN);
	if (!source->bytes)
		return sample_fail("malloc", -FI_ENOMEM);
	memset(source->bytes, 0, LEN);
	iov.iov_base = source->bytes;
	return register_part(t, &attr, 0, &source->mr, &source->part);
}

static int close_region(struct fid_mr *mr)
{
	int ret = mr ? fi_close(&mr->fid) : 0;

	return ret ? sample_fail("fi_close of a region", ret) : 0;
}

/* Fill the source with other bytes, write, and look at the target through its own mapping. */
static int transfer(struct own *own, struct source *source, const struct hmreg_verbs_part *to,
		    const unsigned char *target, unsigned int seed, const char *what)
{
	size_t i;
	int ret;

	for (i = 0; i < LEN; i++)
		source->bytes[i] = (unsigned char)(i * 31 + i / 256 + seed);
	ret = write_over(own, &source->part, to);
	if (ret)
		return ret;
	if (memcmp(target, source->bytes, LEN)) {
		fprintf(stderr, "%s does not hold what was written\n", what);
		return -1;
	}
	printf("RDMA write of %zu bytes into %s: rkey 0x%x, address 0x%llx: every byte is there\n",
	       LEN, what, to->rkey, (unsigned long long)to->iova);
	return 0;
}

static int into_host_memory(struct taken *t, struct own *own, struct source *source)
{
	struct iovec iov = { .iov_len = LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_WRITE };
	struct hmreg_verbs_part part;
	struct fid_mr *mr = NULL;
	int ret, failed;

	iov.iov_base = calloc(1, LEN);
	if (!iov.iov_base)
		return sample_fail("calloc", -FI_ENOMEM);
	ret = register_part(t, &attr, 0, &mr, &part);
	if (!ret)
		ret = transfer(own, source, &part, iov.iov_base, 1, "host memory");
	failed = close_region(mr);
	free(iov.iov_base);
	return ret ? ret : failed;
}

static int into_dmabuf(struct taken *t, struct own *own, struct source *source)
{
	struct fi_mr_dmabuf dmabuf = { .len = LEN };
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .iov_count = 1, .access = FI_REMOTE_WRITE };
	struct dmabuf_host buffer;
	struct hmreg_verbs_part part;
	struct fid_mr *mr = NULL;
	int ret, failed;

	if (!(t->device.can & HMREG_CAN_DMABUF)) {
		printf("no dma-buf: %s\n", t->device.dmabuf_reason);
		return 0;
	}
	if (dmabuf_host_open(LEN, &buffer))
		return 0; /* it has said what is missing */
	dmabuf.fd = buffer.fd;
	dmabuf.base_addr = buffer.map; /* so that peers' addresses are this process's */
	ret = register_part(t, &attr, FI_MR_DMABUF, &mr, &part);
	if (!ret)
		ret = dmabuf_host_begin(&buffer, false);
	if (!ret) {
		ret = transfer(own, source, &part, buffer.map, 2, "a dma-buf");
		failed = dmabuf_host_end(&buffer, false);
		ret = ret ? ret : failed;
	}
	failed = close_region(mr);
	dmabuf_host_close(&buffer);
	return ret ? ret : failed;
}

static int run(struct taken *t, struct own *own)
{
	struct source source = { 0 };
	int ret, failed;

	ret = open_own(own, t);
	if (!ret)
		ret = connect_pair(own, &t->device);
	if (!ret)
		ret = open_domain(t, own);
	if (!ret)
		ret = open_source(t, &source);
	if (!ret)
		ret = into_host_memory(t, own, &source);
	if (!ret)
		ret = into_dmabuf(t, own, &source);
	failed = close_region(source.mr);
	free(source.bytes);
	return ret ? ret : failed;
}

int main(int argc, char **argv)
{
	struct taken taken = { 0 };
	struct own own = { 0 };
	int ret = find_device(&taken, argc > 1 ? argv[1] : NULL), failed;

	if (ret)
		return ret;
	printf("device %s, port %u, %s\n", taken.device.name, taken.device.port, taken.device.link);
	ret = run(&taken, &own);
	failed = close_taken(&taken); /* before what the domain lies over */
	close_own(&own);
	return ret || failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
