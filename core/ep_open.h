/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of an endpoint's operations (ep_ops.c). */
#ifndef HM_EP_OPEN_H
#define HM_EP_OPEN_H

#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

extern struct fi_ops_tagged hm_ep_no_tagged_ops;	    /* ep_refuse.c */
extern struct fi_ops_collective hm_ep_no_collective_ops;

/* Point the endpoint at all its tables; what it does not offer refuses with -FI_ENOSYS. */
void hm_ep_set_ops(struct fid_ep *ep);

#endif
