/* SPDX-License-Identifier: BSD-2-Clause */
/* See stress_verbs_load.h. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include "tests/drivers/emu_verbs.h"
#include "tests/fds.h"
#include "tests/stress/stress_verbs_load.h"

void vend_settings(const char *devices)
{
	setenv("HMREG_EMU_VERBS", devices, 1);
	setenv("HMREG_VERBS_RETRY_TIME", "1000", 1);
	setenv("HMREG_VERBS_RX_BUFFERS", "64", 1);
}

static void end_info(struct vend *end, const char *device)
{
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints);
	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = END_MODES;
	hints->domain_attr->name = strdup(device);
	CHECK_OK(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &end->info));
	fi_freeinfo(hints);
}

void vend_open_ep(struct vend *end, const char *host, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (host) {
		CHECK(inet_pton(AF_INET, host, &in.sin_addr) == 1);
		free(end->info->src_addr);
		end->info->src_addr = malloc(sizeof(in));
		CHECK(end->info->src_addr);
		memcpy(end->info->src_addr, &in, sizeof(in));
		end->info->src_addrlen = sizeof(in);
	}
	CHECK_OK(fi_endpoint(end->domain, end->info, &end->ep, NULL));
	CHECK_OK(fi_ep_bind(end->ep, &end->av->fid, 0));
	CHECK_OK(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK_OK(fi_enable(end->ep));
	end->name_len = sizeof(end->name);
	CHECK_OK(fi_getname(&end->ep->fid, end->name, &end->name_len));
}

void vend_close_ep(struct vend *end)
{
	CHECK_OK(fi_close(&end->ep->fid));
	end->ep = NULL;
}

void vend_open(struct vend *end, const char *device, const char *host, uint16_t port)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_MSG,
				 .wait_obj = FI_WAIT_NONE,
				 .size = 1024 };
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	memset(end, 0, sizeof(*end));
	end_info(end, device);
	pthread_mutex_init(&end->reading, NULL);
	CHECK_OK(fi_fabric(end->info->fabric_attr, &end->fabric, NULL));
	CHECK_OK(fi_domain(end->fabric, end->info, &end->domain, NULL));
	CHECK_OK(fi_av_open(end->domain, &av, &end->av, NULL));
	CHECK_OK(fi_cq_open(end->domain, &cq, &end->cq, NULL));
	vend_open_ep(end, host, port);
}

void vend_close(struct vend *end)
{
	if (end->ep)
		vend_close_ep(end);
	CHECK_OK(fi_close(&end->cq->fid));
	CHECK_OK(fi_close(&end->av->fid));
	CHECK_OK(fi_close(&end->domain->fid));
	CHECK_OK(fi_close(&end->fabric->fid));
	fi_freeinfo(end->info);
	pthread_mutex_destroy(&end->reading);
}

fi_addr_t vend_insert(struct vend *end, const struct vend *peer)
{
	fi_addr_t addr;

	CHECK(fi_av_insert(end->av, peer->name, 1, &addr, 0, NULL) == 1);
	return addr;
}

struct fid_mr *vend_register(struct vend *end, void *buf, size_t len)
{
	struct fid_mr *mr;

	CHECK_OK(fi_mr_reg(end->domain, buf, len, END_ALL, 0, 0, 0, &mr, NULL));
	return mr;
}

static void done(struct vend *end, struct vop *op, int err, int cause, size_t len)
{
	if (!op) /* a peer's write with data */
		return;
	op->err = err;
	op->cause = cause;
	op->len = len;
	CHECK(atomic_exchange(&op->state, 2) == 1); /* once */
	if (op->is_recv && end->received)
		end->received(end, op);
}

void vend_read(struct vend *end)
{
	struct fi_cq_msg_entry entry[16];
	struct fi_cq_err_entry err = { .err = 0 };
	ssize_t n;

	if (pthread_mutex_trylock(&end->reading) != 0) {
		sched_yield();
		return;
	}
	n = fi_cq_read(end->cq, entry, 16);
	for (ssize_t i = 0; i < n; i++)
		done(end, entry[i].op_context, 0, 0, entry[i].len);
	if (n == -FI_EAVAIL && fi_cq_readerr(end->cq, &err, 0) == 1) {
		CHECK(err.err > 0);
		done(end, err.op_context, err.err, err.prov_errno, err.len);
	}
	CHECK(n > 0 || n == -FI_EAGAIN || n == -FI_EAVAIL);
	pthread_mutex_unlock(&end->reading);
}

void vend_posted(struct vend *end, struct vop *op, ssize_t ret)
{
	(void)end;
	if (ret == 0)
		return;
	CHECK(ret < 0 && ret > -4096);
	op->err = (int)-ret;
	op->cause = 0;
	CHECK(atomic_exchange(&op->state, 2) == 1);
}

int vend_wait(struct vend *end, struct vop *op)
{
	double until = stress_now() + PATIENCE;

	while (atomic_load(&op->state) == 1) {
		vend_read(end);
		if (stress_now() > until)
			stress_die(__FILE__, __LINE__, "an operation never completes", 0);
	}
	return op->err;
}

void vend_none_left(size_t fds_before)
{
	struct emu_verbs_counts counts, none = { 0 };

	emu_verbs_counts(&counts);
	none.advised = counts.advised;
	none.contexts = counts.contexts; /* of devices that the library has seen */
	if (memcmp(&counts, &none, sizeof(counts)) != 0)
		fprintf(stderr,
			"left: %lu regions, %lu queue pairs, %lu identifiers, %lu domains\n",
			(unsigned long)counts.mrs, (unsigned long)counts.qps,
			(unsigned long)counts.cm_ids, (unsigned long)counts.pds);
	CHECK(memcmp(&counts, &none, sizeof(counts)) == 0);
	CHECK(test_fds() <= fds_before);
}
