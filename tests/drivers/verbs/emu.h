/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of the emulated RDMA device.
 *
 * Locking: one mutex for everything, taken by emu_enter() and released by emu_leave() at the edge of every
 * public function.  Functions without those calls are called with it held, unless their comment says
 * otherwise.  Queue pairs that may have something to do are put on a run list (qp_kick) and served by
 * emu_leave() before the mutex is released, so that no queue pair is served from inside another.
 */
#ifndef EMU_H
#define EMU_H

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/list.h"
#include "tests/drivers/emu_verbs.h"

/* The functions behind the macros of verbs.h are defined here. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EMU_DEVICES   8
#define EMU_GIDS      16
#define EMU_PAGE      4096u
#define EMU_VENDOR_ID 0x0e30u
#define EMU_SEGMENTS  64u /* scatter/gather entries of any request, at most */

/* ---- calls: counted, and made to fail on request (emu_calls.c) ---- */
#define EMU_CALLS(X)                                                                               \
	X(ibv_get_device_list)                                                                     \
	X(ibv_open_device)                                                                         \
	X(ibv_close_device)                                                                        \
	X(ibv_query_device)                                                                        \
	X(ibv_query_device_ex)                                                                     \
	X(ibv_query_port)                                                                          \
	X(ibv_query_gid)                                                                           \
	X(ibv_query_gid_ex)                                                                        \
	X(ibv_query_pkey)                                                                          \
	X(ibv_alloc_pd)                                                                            \
	X(ibv_dealloc_pd)                                                                          \
	X(ibv_reg_mr)                                                                              \
	X(ibv_reg_mr_iova)                                                                         \
	X(ibv_reg_mr_iova2)                                                                        \
	X(ibv_reg_dmabuf_mr)                                                                       \
	X(ibv_rereg_mr)                                                                            \
	X(ibv_dereg_mr)                                                                            \
	X(ibv_advise_mr)                                                                           \
	X(ibv_alloc_mw)                                                                            \
	X(ibv_bind_mw)                                                                             \
	X(ibv_dealloc_mw)                                                                          \
	X(mlx5dv_open_device)                                                                      \
	X(mlx5dv_create_mkey)                                                                      \
	X(mlx5dv_destroy_mkey)                                                                     \
	X(ibv_wr_complete)                                                                         \
	X(ibv_create_comp_channel)                                                                 \
	X(ibv_destroy_comp_channel)                                                                \
	X(ibv_create_cq)                                                                           \
	X(ibv_destroy_cq)                                                                          \
	X(ibv_poll_cq)                                                                             \
	X(ibv_req_notify_cq)                                                                       \
	X(ibv_get_cq_event)                                                                        \
	X(ibv_create_srq)                                                                          \
	X(ibv_modify_srq)                                                                          \
	X(ibv_query_srq)                                                                           \
	X(ibv_destroy_srq)                                                                         \
	X(ibv_post_srq_recv)                                                                       \
	X(ibv_create_qp)                                                                           \
	X(ibv_modify_qp)                                                                           \
	X(ibv_query_qp)                                                                            \
	X(ibv_destroy_qp)                                                                          \
	X(ibv_post_send)                                                                           \
	X(ibv_post_recv)                                                                           \
	X(ibv_get_async_event)                                                                     \
	X(rdma_create_event_channel)                                                               \
	X(rdma_create_id)                                                                          \
	X(rdma_destroy_id)                                                                         \
	X(rdma_bind_addr)                                                                          \
	X(rdma_listen)                                                                             \
	X(rdma_resolve_addr)                                                                       \
	X(rdma_resolve_route)                                                                      \
	X(rdma_connect)                                                                            \
	X(rdma_accept)                                                                             \
	X(rdma_reject)                                                                             \
	X(rdma_establish)                                                                          \
	X(rdma_disconnect)                                                                         \
	X(rdma_get_cm_event)                                                                       \
	X(rdma_init_qp_attr)                                                                       \
	X(rdma_migrate_id)                                                                         \
	X(rdma_set_option)

enum emu_call {
#define EMU_CALL_ENUM(name) CALL_##name,
	EMU_CALLS(EMU_CALL_ENUM)
#undef EMU_CALL_ENUM
	EMU_CALL_COUNT
};

/* Counts one call; the errno that it shall fail with, 0: none.  Without the mutex. */
int emu_call(enum emu_call call);

/* ---- settings (emu_config.c) ---- */
enum emu_gids {
	EMU_GIDS_ALL,
	EMU_GIDS_V4,
	EMU_GIDS_V1,
	EMU_GIDS_MIXED,
	EMU_GIDS_NONE
};

#define EMU_UNLIMITED UINT64_MAX
#define EMU_RLIMIT    (UINT64_MAX - 1)

struct emu_config {
	uint64_t list, open, port, gids, link, transport, bind, remote, atomic, odp, rereg,
		zero_based, relaxed;
	uint64_t dmabuf, mw, mw_bounds, mw_dmabuf, query_ex, advise, null, lose, memlock,
		removed_dereg, indirect;
	uint64_t devx, grh, lid;
	uint64_t max_mr_size, max_mr, max_mw, max_pd, max_cq, max_cqe, max_qp, max_qp_wr, max_sge;
	uint64_t max_srq, max_srq_wr, max_srq_sge, max_rd_atomic, max_inline, max_msg, mtu;
};

/* The settings of each device, and how many devices there are, from the environment. */
unsigned int emu_config_read(struct emu_config config[EMU_DEVICES]);

/* ---- event queues behind a descriptor that can be polled (emu_channel.c) ---- */
struct emu_channel {
	int fd;	      /* the user's: readable while the queue has entries; owned here */
	int write_fd; /* the other end; owned here */
	struct hm_list queue;
};

int emu_channel_open(struct emu_channel *channel);
void emu_channel_close(struct emu_channel *channel);
void emu_channel_push(struct emu_channel *channel, struct hm_list *entry);
/* Takes an entry out that was pushed. */
void emu_channel_remove(struct emu_channel *channel, struct hm_list *entry);
/* Waits for an entry and takes it; called without the mutex, returns with it held; NULL: without it, errno. */
struct hm_list *emu_channel_pop(struct emu_channel *channel);

/* ---- devices and contexts (emu_device.c) ---- */
struct emu_gid {
	union ibv_gid gid;
	uint32_t type;
};

struct emu_device {
	struct ibv_device ibv;
	struct emu_config config;
	unsigned int index;
	bool removed;
	enum ibv_port_state port_state;
	struct emu_gid gids[EMU_GIDS];
	unsigned int gid_count;
	struct hm_list contexts;
};

struct emu_limits_used {
	uint64_t mr, mw, pd, cq, qp, srq;
};

struct emu_context {
	struct verbs_context verbs;
	struct emu_device *device;
	struct emu_config config;
	struct hm_list entry; /* in the device's contexts */
	struct emu_channel async;
	struct emu_limits_used used;
	bool internal;	    /* the connection manager's */
	bool devx;	    /* opened by mlx5dv_open_device, for keys over several regions */
	unsigned int users; /* identifiers of the connection manager */
};

struct emu_async {
	struct hm_list entry;
	struct ibv_async_event event;
	struct emu_context *context; /* whose queue it is in */
	void *object; /* struct emu_cq, emu_qp or emu_srq that is meant, NULL: the port */
};

static inline struct emu_context *emu_ctx(struct ibv_context *context)
{
	return hm_container(context, struct emu_context, verbs.context);
}

/* Is the context's device removed? */
static inline bool emu_gone(struct ibv_context *context)
{
	return emu_ctx(context)->device->removed;
}

/* The device that has ADDR (port ignored), NULL: none. */
struct emu_device *emu_device_by_addr(const struct sockaddr *addr);
unsigned int emu_device_gid_index(const struct emu_device *device, const union ibv_gid *gid);
void emu_sockaddr_gid(const struct sockaddr *addr, union ibv_gid *gid);
/* A context for the connection manager, shared by its identifiers. */
struct emu_context *emu_internal_context(struct emu_device *device);
void emu_internal_release(struct emu_context *context);
void emu_async_push(struct emu_context *context, enum ibv_event_type type, void *object);
/* Takes untaken events about OBJECT out of the queue. */
void emu_async_drop(struct emu_context *context, const void *object);
/* The answer of a destroying call for an object of a removed device, which is kept in a graveyard. */
int emu_bury(struct ibv_context *context, void *memory);
/* Memory that is kept until the library is unloaded. */
void emu_grave(void *memory);

/* ---- protection domains, regions, windows (emu_mr.c, emu_mw.c, emu_keys.c, emu_memory.c) ---- */
struct emu_pd {
	struct ibv_pd ibv;
	unsigned int children;
};

struct emu_mr {
	struct ibv_mr ibv;
	uint64_t iova;
	unsigned int access;
	uint64_t pinned;
	unsigned int windows; /* bound to it */
	bool null;	      /* made in null mode */
	uint8_t *host;	      /* where iova's bytes are */
	void *map;	      /* DMA-buf: the mapping, owned; NULL: none */
	size_t map_size;
};

struct emu_mw {
	struct ibv_mw ibv;
	struct emu_mr *mr; /* NULL: not bound */
	uint64_t addr;
	uint64_t length;
	unsigned int access;
	uint32_t qp_num; /* type 2: the queue pair it belongs to */
};

enum emu_key_kind {
	EMU_KEY_FREE,
	EMU_KEY_MR,
	EMU_KEY_MW,
	EMU_KEY_INDIRECT /* over several regions (emu_mlx5.c) */
};

/* A new key for OBJECT; 0: no memory. */
uint32_t emu_key_add(enum emu_key_kind kind, void *object);
void emu_key_del(uint32_t key);
/* Type-2 windows: the low byte is the user's. */
void emu_key_set_low(uint32_t key, uint32_t replacement);
void *emu_key_find(uint32_t key, enum emu_key_kind *kind);

struct emu_segment {
	uint8_t *addr;
	size_t length;
};

/*
 * The host address of LENGTH bytes at device address ADDR under KEY for a queue pair (or receive queue) of
 * domain PD, with the rights ACCESS (0: local reading); NULL: refused.
 */
uint8_t *emu_translate_local(const struct ibv_pd *pd, const struct ibv_sge *sge,
			     unsigned int access);
/* The same as segments, of which there may be EMU_SEGMENTS; how many, -1: refused. */
int emu_translate_remote(const struct ibv_pd *pd, uint32_t qp_num, uint32_t rkey, uint64_t addr,
			 uint64_t length, unsigned int access, struct emu_segment *segments);
/* Type-2 windows by work request; the completion's status. */
enum ibv_wc_status emu_mw_bind(const struct ibv_pd *pd, uint32_t qp_num, struct ibv_mw *mw,
			       uint32_t rkey, const struct ibv_mw_bind_info *info);
enum ibv_wc_status emu_mw_invalidate(const struct ibv_pd *pd, uint32_t rkey);
/* Operations of a context's table. */
struct ibv_mw *emu_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int emu_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int emu_dealloc_mw(struct ibv_mw *mw);
int emu_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sg_list, uint32_t num_sge);

/* Is the range mapped, readable and with WRITE writable?  Touches its first and last page only. */
bool emu_memory_mapped(const void *addr, size_t length, bool write);

enum emu_copied {
	EMU_COPIED,
	EMU_SOURCE_FAULT,
	EMU_TARGET_FAULT
};

/* Copies LENGTH bytes between segment lists that hold at least as many; the lists are consumed. */
enum emu_copied emu_memory_copy(struct emu_segment *to, struct emu_segment *from, uint64_t length);

/* ---- keys over several regions (emu_mlx5.c) ---- */
/* As emu_translate_remote, for the object of such a key. */
int emu_indirect_segments(const void *object, const struct ibv_pd *pd, uint64_t addr,
			  uint64_t length, unsigned int access, struct emu_segment *segments);
/* The list is taken out of such a key.  False: it is of another protection domain. */
bool emu_indirect_clear(void *object, const struct ibv_pd *pd);
/* A queue pair that writes lists is destroyed. */
void emu_loop_forget(const struct ibv_qp *qp);

/* ---- completion queues (emu_cq.c) ---- */
struct emu_qp;
struct emu_srq;

struct emu_comp_channel {
	struct ibv_comp_channel ibv;
	struct emu_channel queue;
};

struct emu_completion {
	struct ibv_wc wc;
	struct emu_qp *qp;
	struct emu_srq *srq; /* the slot it frees when polled, or NULL */
	bool receive;
	uint64_t sq_tail; /* with a send's: requests before this number are retired */
};

struct emu_cq {
	struct ibv_cq ibv;
	struct emu_completion *ring;
	unsigned int size, head, count;
	unsigned int users; /* queues that complete here */
	int armed;	    /* 0 no, 1 any, 2 solicited only */
	bool overrun;
	unsigned int delivered; /* completion events taken by ibv_get_cq_event */
	unsigned int async_delivered;
	struct hm_list events; /* struct emu_cq_event not yet taken */
};

void emu_cq_push(struct emu_cq *cq, const struct emu_completion *completion, bool solicited);
/* Takes out what QP completed. */
void emu_cq_drop(struct emu_cq *cq, const struct emu_qp *qp);
int emu_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int emu_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- queues (emu_queue.c, emu_srq.c, emu_qp.c, emu_modify.c, emu_post.c, emu_rc.c) ---- */
struct emu_wqe {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	uint32_t imm; /* or the key to invalidate */
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t compare_add, swap;
	struct ibv_mw *mw;
	struct ibv_mw_bind_info bind;
	uint32_t inline_length;
	unsigned int num_sge;
	bool type1_bind; /* ibv_bind_mw */
};

/* A send or receive queue: numbers count requests since ever, slots are numbers modulo size. */
struct emu_queue {
	unsigned int size, max_sge, max_inline;
	uint64_t posted;  /* next to be posted */
	uint64_t next;	  /* next to be carried out, or to receive */
	uint64_t retired; /* slots before this one are free */
	struct emu_wqe *wqe;
	struct ibv_sge *sge;
	uint8_t *data; /* for inline sends */
};

int emu_queue_open(struct emu_queue *queue, unsigned int size, unsigned int max_sge,
		   unsigned int max_inline);
void emu_queue_close(struct emu_queue *queue);

static inline void emu_queue_reset(struct emu_queue *queue)
{
	queue->posted = 0;
	queue->next = 0;
	queue->retired = 0;
}

static inline bool emu_queue_full(const struct emu_queue *queue)
{
	return queue->posted - queue->retired >= queue->size;
}

static inline bool emu_queue_idle(const struct emu_queue *queue)
{
	return queue->next == queue->posted;
}

static inline struct emu_wqe *emu_queue_wqe(struct emu_queue *queue, uint64_t number)
{
	return &queue->wqe[number % queue->size];
}

static inline struct ibv_sge *emu_queue_sge(struct emu_queue *queue, uint64_t number)
{
	return queue->sge + (number % queue->size) * queue->max_sge;
}

static inline uint8_t *emu_queue_data(struct emu_queue *queue, uint64_t number)
{
	return queue->data + (number % queue->size) * queue->max_inline;
}

/* Puts a receive into the queue; 0 or an errno. */
int emu_queue_recv(struct emu_queue *queue, const struct ibv_recv_wr *wr);

struct emu_srq {
	struct ibv_srq ibv;
	struct emu_queue queue;
	unsigned int users;
	uint32_t limit;
	struct hm_list
		waiting; /* queue pairs whose peers receive here and have nothing to receive into */
	unsigned int delivered; /* asynchronous events taken */
};

struct emu_qp {
	struct ibv_qp ibv;
	struct emu_srq *srq;
	struct emu_queue sq, rq;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	bool severed;	      /* its connection is dead without notice */
	bool kicked;	      /* on the run list */
	struct hm_list run;   /* in the run list */
	struct hm_list wait;  /* in a shared receive queue's waiting list */
	struct hm_list entry; /* in the list of all queue pairs */
	struct hm_list hash;  /* in the number table */
	unsigned int delivered;
};

int emu_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int emu_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int emu_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

struct emu_qp *emu_qp_find(uint32_t qp_num);
/* Every queue pair, for walking. */
struct hm_list *emu_qp_all(void);
/* It may have something to do: serve it before the mutex is released. */
void emu_qp_kick(struct emu_qp *qp);
/* The same for the queue pair whose requests arrive at QP. */
void emu_qp_kick_peer(const struct emu_qp *qp);
/* To the error state: receives are flushed now, sends when served. */
void emu_qp_error(struct emu_qp *qp);
/* Carries out what can be carried out (emu_rc.c). */
void emu_qp_serve(struct emu_qp *qp);
/* Is the change to STATE with MASK allowed, are the values (emu_modify.c)?  0 or an errno. */
int emu_modify_check(const struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask);
void emu_modify_store(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask);

/* ---- the connection manager (cm*.c) ---- */
void emu_cm_device_removed(struct emu_device *device);

/* ---- the whole (emu_calls.c) ---- */
struct emu_state {
	pthread_mutex_t mutex;
	pthread_cond_t acked; /* an event was acknowledged */
	struct emu_verbs_counts counts;
	struct hm_list run;
	struct emu_device devices[EMU_DEVICES];
};

extern struct emu_state emu;

void emu_enter(void);
void emu_leave(void);
/* Waits until *ACKED, changed by acknowledgements, reaches DELIVERED. */
void emu_wait_acked(const uint32_t *acked, const unsigned int *delivered);

/* Counting of objects: those of the connection manager's contexts are none of the program's. */
#define emu_count(context, what, change)                                                           \
	do {                                                                                       \
		if (!emu_ctx(context)->internal)                                                   \
			emu.counts.what += (uint64_t)(int64_t)(change);                            \
	} while (0)

#endif
