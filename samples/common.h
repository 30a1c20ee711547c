/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the samples share: opening an endpoint, and registering memory in whichever way the chosen
 * NIC's mr_mode asks for.  Needs nothing but the installed headers.
 *
 * Functions that return int give 0 or a negative FI_E code.  Those that open, register or transfer
 * have then printed the failed call and its reason on stderr.
 */
#ifndef SAMPLES_COMMON_H
#define SAMPLES_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg_topology.h>

#define SAMPLE_API_VERSION FI_VERSION(2, 7)
#define SAMPLE_RAW_KEY_MAX 64
#define SAMPLE_TIMEOUT_S   10

/* The mr_mode bits that the functions below know how to serve: all there are. */
#define SAMPLE_MR_MODES                                                                            \
	(FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |            \
	 FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE |     \
	 FI_MR_XPU_DESC)

/* One end of a conversation, with every object that it needs.  Owns all of them. */
struct sample_end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t peer;	   /* the other end, once sample_connect() has run */
	uint64_t next_key; /* where the application chooses keys: the next one that is free */
};

/*
 * What a peer has to know about a region: plain bytes, to be sent as they are between machines of
 * the same byte order.
 */
struct sample_key {
	uint64_t address;  /* of the region's first byte, in the peer's calls */
	uint64_t base;	   /* raw keys: belongs to the key when it is mapped */
	uint64_t key;	   /* not raw: the key */
	uint32_t raw_size; /* raw keys: bytes in raw; else 0 */
	uint8_t raw[SAMPLE_RAW_KEY_MAX];
};

/* What messages on stderr start with, set by a program that others call; NULL: nothing. */
extern const char *sample_program;
/* The longest wait for one completion, in seconds; a program may change it before it starts. */
extern unsigned int sample_timeout_s;
/* What hints offer: SAMPLE_MR_MODES, unless a program takes some away to see how it goes without. */
extern int sample_mr_modes;
/* What completion queues tell: FI_CQ_FORMAT_MSG, or FI_CQ_FORMAT_DATA for a program that reads them itself. */
extern enum fi_cq_format sample_cq_format;

/* Print "call: reason" on stderr and return ret. */
int sample_fail(const char *call, ssize_t ret);

/*
 * The NIC domains that offer caps on reliable datagram endpoints; domain NULL: of any name.  Prints
 * nothing.  -FI_ENODATA: there is none.  The caller frees with fi_freeinfo().
 */
int sample_find(const char *domain, uint64_t caps, struct fi_info **info);
/*
 * The same for a place: with flags FI_SOURCE endpoints that listen at node and service, with 0 those
 * that reach it (dest_addr of info).  Either may be NULL.
 */
int sample_find_at(const char *domain, uint64_t caps, const char *node, const char *service,
		   uint64_t flags, struct fi_info **info);
/*
 * The same for a program that registers memory and needs no endpoint: ports that have none are found,
 * too, behind all others.
 */
int sample_find_registration(const char *domain, uint64_t caps, struct fi_info **info);

/*
 * Open everything up to an endpoint that is not enabled yet, so that the caller may bind counters.
 * cq_flags go to the binding of the completion queue beside FI_TRANSMIT | FI_RECV.  After a failure
 * nothing is left open.  Where the port has no endpoints (FI_EP_UNSPEC), the domain is all.
 */
int sample_open(struct sample_end *end, const struct fi_info *info, uint64_t cq_flags);
/* sample_find() and sample_open() with the first that is found. */
int sample_open_named(struct sample_end *end, const char *domain, uint64_t caps, uint64_t cq_flags);
/* Close what is open, in the order that use demands; counters and regions are closed already. */
int sample_close(struct sample_end *end);
/* Close the endpoint alone, so that what is bound to it (counters) can be closed. */
int sample_close_endpoint(struct sample_end *end);

/* Enter len bytes of address, as fi_getname gives them, into the vector of end. */
int sample_enter(struct sample_end *end, const void *address, fi_addr_t *peer);
/* Enable both endpoints and tell each the other's address. */
int sample_connect(struct sample_end *one, struct sample_end *other);

/*
 * Register buffers as one region and do all that the mr_mode wants before the region can be used:
 * choose a key, bind it to the endpoint, bind the counter, enable, refresh.  count_writes may be
 * NULL; it counts what peers write.  Closed with fi_close().
 */
int sample_register(struct sample_end *end, const struct iovec *iov, size_t count, uint64_t access,
		    uint64_t flags, struct fid_cntr *count_writes, struct fid_mr **mr);
/* The same for whatever attr and flags say; a key that the program has to choose is put into attr. */
int sample_register_attr(struct sample_end *end, struct fi_mr_attr *attr, uint64_t flags,
			 struct fid_mr **mr);
/* The same for one buffer and no extras. */
int sample_register_buffer(struct sample_end *end, void *buffer, size_t len, uint64_t access,
			   struct fid_mr **mr);

/*
 * The same for a part of a region, base, with rights of its own: the memory is pinned once.  base can be
 * closed when its parts are.
 */
int sample_register_part(struct sample_end *end, struct fid_mr *base, void *buffer, size_t len,
			 uint64_t access, struct fid_mr **mr);

/* Whose memory a buffer is, in the words of struct fi_mr_attr.  All zero: the host's. */
struct sample_place {
	enum fi_hmem_iface iface;
	int device; /* of the interface; FI_HMEM_SYSTEM has none */
};
/* Put the two into attr: the device's number stands in the member of its interface. */
void sample_name_place(struct fi_mr_attr *attr, const struct sample_place *place);
/* What some modes want between registration and first use, for regions that were registered otherwise. */
int sample_make_usable(struct sample_end *end, struct fid_mr *mr, struct fid_cntr *count_writes);
/* sample_register_buffer() for a buffer of an accelerator; the domain has been opened with FI_HMEM. */
int sample_register_at(struct sample_end *end, const struct sample_place *place, void *buffer,
		       size_t len, uint64_t access, struct fid_mr **mr);

/*
 * The same for len bytes at offset of a dma-buf, which the program sees at base (page aligned; NULL:
 * not at all).  The descriptor fd may be closed right afterwards.
 */
int sample_register_dmabuf(struct sample_end *end, int fd, uint64_t offset, size_t len, void *base,
			   uint64_t access, struct fid_mr **mr);

/* Owner's side: fill in what the peer must know.  first is the region's first byte. */
int sample_share(struct sample_end *end, struct fid_mr *mr, const void *first,
		 struct sample_key *shared);
/* Peer's side: the key for its calls.  sample_unuse() gives it back. */
int sample_use(struct sample_end *end, const struct sample_key *shared, uint64_t *key);
int sample_unuse(struct sample_end *end, const struct sample_key *shared, uint64_t key);

/*
 * Wait for one completion.  -FI_EAVAIL: the operation failed, *error (may be NULL) says how;
 * -FI_ETIMEDOUT after sample_timeout_s.  Prints nothing.
 */
int sample_wait(struct sample_end *end, struct fi_cq_err_entry *error);
/* sample_wait() after a call that returned posted; prints any failure under the call's name. */
int sample_finish(struct sample_end *end, const char *call, ssize_t posted);

/* How far a NIC is, in two or three words. */
const char *sample_distance(enum hmreg_distance distance);

#endif
