/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the stress programs of the verbs NIC share: ends, each a domain and an endpoint over an emulated
 * device, whose completions any thread may read.
 */
#ifndef HM_STRESS_VERBS_LOAD_H
#define HM_STRESS_VERBS_LOAD_H

#include "tests/stress/stress.h"

#define END_MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define END_ALL	  (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PATIENCE  60.0 /* seconds until something that must come counts as lost */

/* An operation; its address is the context.  Completes once, checked. */
struct vop {
	_Atomic int state; /* 0: idle, 1: under way, 2: done */
	int err, cause;	   /* once done */
	size_t len;
	bool is_recv;
};

struct vend {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	uint8_t name[64];
	size_t name_len;
	pthread_mutex_t reading; /* who has it reads the queue */
	/* for completed receives, with reading held; it posts the receive again.  May be NULL. */
	void (*received)(struct vend *end, struct vop *op);
};

/* device: emu0, ...; port: 0 for any, else the address is fixed. */
void vend_open(struct vend *end, const char *device, const char *host, uint16_t port);
void vend_close(struct vend *end);
/* The endpoint alone, so that it can be closed and opened again at its address. */
void vend_open_ep(struct vend *end, const char *host, uint16_t port);
void vend_close_ep(struct vend *end);
fi_addr_t vend_insert(struct vend *end, const struct vend *peer);
struct fid_mr *vend_register(struct vend *end, void *buf, size_t len);
/* Reads completions, if no other thread does. */
void vend_read(struct vend *end);
/* Posting again while there is no room; a failure is done at once, with its code.  op is under way then. */
void vend_posted(struct vend *end, struct vop *op, ssize_t ret);
#define VPOST(end, op, call)                                                                       \
	do {                                                                                       \
		double end_ = stress_now() + PATIENCE;                                             \
		ssize_t ret_;                                                                      \
		CHECK(atomic_exchange(&(op)->state, 1) != 1);                                      \
		while ((ret_ = (call)) == -FI_EAGAIN) {                                            \
			CHECK(stress_now() < end_);                                                \
			vend_read(end);                                                            \
			sched_yield();                                                             \
		}                                                                                  \
		vend_posted(end, op, ret_);                                                        \
	} while (0)
/* Until it is done; its error, 0: success. */
int vend_wait(struct vend *end, struct vop *op);
/* No object of the emulated device is left, no descriptor more than before. */
void vend_none_left(size_t fds_before);
/* Settings of the emulated device and of the library; first of all. */
void vend_settings(const char *devices);

#endif
