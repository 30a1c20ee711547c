/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the fault programs share.
 *
 *   - Resources of the library (memory, locks, file descriptors) that fail one by one.  A program is
 *     linked with --wrap for FAULT_WRAPS of CMakeLists.txt.
 *   - A scene: everything open up to an endpoint that talks to itself, on one profile.
 *   - Marks: what must be as it was after a call that failed.
 *   - Log lines: one for each refusal.
 */
#ifndef HM_TEST_FAULT_H
#define HM_TEST_FAULT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#define FAULT_VERSION FI_VERSION(2, 7)
#define FAULT_MODES                                                                                \
	(FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |            \
	 FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE |     \
	 FI_MR_XPU_DESC)
#define FAULT_CAPS (FI_MSG | FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_SOURCE)
#define FAULT_ALL  (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

/* An output that a failed call has left alone still is this. */
#define UNTOUCHED ((void *)(uintptr_t)0x5a5a5a5a)

/* ---- resources ---- */

enum fault_kind {
	FAULT_MEMORY = 1,
	FAULT_LOCK = 2,
	FAULT_FD = 4,
	/* of programs that wrap more, by fault_fails */
	FAULT_MAP = 8,
	FAULT_THREAD = 16,
	FAULT_OP = 32 /* an operation of the test's own */
};

/* The nth request for a resource of these kinds fails; a file descriptor's with this errno. */
void fault_arm(unsigned kinds, unsigned nth, int fd_errno);
/* No more failures.  Has the one that was armed come? */
bool fault_disarm(void);

/* For a program's own wraps: does this request fail? */
bool fault_fails(enum fault_kind kind);

/* ---- log lines ---- */

void fault_log_start(void);
/* Lines since the last call. */
unsigned fault_lines(void);

/* ---- a scene ---- */

enum scene_opts {
	SCENE_ENDPOINT = 1, /* enabled; else only what comes before it */
	SCENE_REG_EQ = 2,   /* registration completes through eq */
	SCENE_AV_EVENT = 4, /* insertion completes through eq; one address is in already */
	SCENE_CQ_ONE = 8,   /* queues have room for one entry */
};

#define SCENE_BYTES 4096

struct scene {
	const char *profile;
	int mode;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq; /* with FI_WRITE */
	struct fid_av *av;
	struct fid_cq *tx, *rx;
	struct fid_ep *ep;
	fi_addr_t self;
	struct hmreg_domain_ops *ops;
	/* scratch of the test */
	uint8_t *src, *dst; /* SCENE_BYTES each */
	struct fid_mr *mr[2];
	uint64_t key;
	void *ptr;
	size_t n;
};

extern const char *const sw_profiles[3];
/* What programs ask for; FAULT_MODES, unless a test changes it. */
extern int fault_modes;
extern uint64_t fault_caps; /* FAULT_CAPS, likewise */

struct fi_info *fault_info(const char *profile);
void scene_open(struct scene *s, const char *profile, unsigned opts);
void scene_close(struct scene *s);
/* Registers src and dst as mr[0] and mr[1] and makes them usable; key reaches dst. */
void scene_register(struct scene *s);
void scene_unregister(struct scene *s);
/* Binding, enabling and refreshing as the mode wants. */
void scene_ready(struct scene *s, struct fid_mr *mr);
/* The address of a region's first byte in a peer's call. */
uint64_t scene_addr(const struct scene *s, const void *first);
/* A write, a read, an atomic and a message arrive: needs scene_register. */
void scene_works(struct scene *s);
/* One completion is there, and belongs to context. */
void scene_done(struct fid_cq *cq, void *context);
void *scene_desc(const struct scene *s, unsigned i);

/* ---- marks ---- */

struct mark {
	long live; /* allocations */
	size_t fds;
	struct hmreg_domain_stats stats;
	bool has_stats;
};

/* s may be NULL. */
struct mark fault_mark(const struct scene *s);
/* Everything is as it was; memory that an owner keeps for later is let pass with keeps. */
void fault_check_mark(const struct mark *before, const struct scene *s, bool keeps);

/* ---- the loop ---- */

struct scenario {
	const char *name;
	unsigned kinds; /* what fails */
	int code;	/* the failing call's answer, negative */
	unsigned lines; /* log lines of the failing call */
	unsigned opts;	/* of the scene */
	bool no_scene;
	bool registered; /* scene_register comes before it */
	bool keeps;	 /* what the call has got before it failed may stay with its owner */
	bool absorbs;	 /* some failures cost speed only */
	int fd_errno;
	/* 0, or the code of the call that failed, after closing what came before it. */
	int (*run)(struct scene *s);
	void (*undo)(struct scene *s); /* after a run that succeeded; what it made must work */
};

/* CMocka test: every resource of the scenario (the state) fails in turn, on each profile. */
void fault_each(void **state);

/* Once per process: what the library keeps for the process's life is there afterwards. */
int fault_group_setup(void **state);
int fault_group_teardown(void **state);

/* A program of scenarios alone: its exit status. */
int fault_all(const char *name, struct scenario *scenarios, size_t count);

#endif
