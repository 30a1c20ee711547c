/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stress_mr runs on.  A world is a profile: one domain with one address vector that all threads
 * share, and a hub, an endpoint with memory that lasts as long as the world.  A station is a thread's
 * place in a world: an endpoint that lasts, which talks to the hub, sends to the next thread and
 * receives from the one before; and a guest, an endpoint with a region that others write to and that
 * is closed under them again and again.
 */
#ifndef HM_STRESS_WORLD_H
#define HM_STRESS_WORLD_H

#include "tests/stress/stress.h"

#define WORLDS	    3
#define THREADS_MAX 64
#define SLICE	    4096u /* of the hub's memory, one for each thread */
#define CELLS	    8	  /* counters that all threads add to */
#define MESSAGE	    512u
#define RECEIVES    8
#define SENDS	    8
#define NAME_MAX_   64

/* One operation under way; its address is the context. */
struct op {
	enum {
		OP_SYNC,
		OP_SEND,
		OP_RECV
	} kind;
	bool pending;
	int err, cause; /* of its completion */
	size_t len;
	unsigned index;
};

/* What others need to write to a guest's region; under lock. */
struct notice {
	pthread_mutex_t lock;
	uint64_t generation; /* 0: there never was one; counts registrations */
	uint64_t addr, key, base;
	uint8_t raw[16];
	size_t raw_size;
	uint8_t name[NAME_MAX_];
	_Atomic uint64_t closed; /* the latest generation whose fi_close has returned */
};

struct station {
	struct world *world;
	unsigned thread;
	uint64_t random;
	struct fid_cq *cq;
	struct fid_ep *ep;
	fi_addr_t hub, next;
	uint8_t name[NAME_MAX_];
	/* local memory: OUT, then IN */
	uint8_t *local;
	struct fid_mr *local_mr;
	uint8_t shadow[SLICE]; /* what the slice must hold */
	uint64_t added[CELLS];
	struct op sync, send[SENDS], recv[RECEIVES];
	uint64_t received;
	_Atomic uint64_t sent, taken; /* taken: by the next thread, of what this one has sent */
	/* the guest */
	struct fid_ep *guest;
	struct fid_mr *guest_mr;
	struct fid_cntr *guest_cntr;
	uint64_t *lanes; /* one for each thread */
	bool filled;	 /* closed, and lanes hold the canary */
	struct notice notice;
	/* what happened */
	uint64_t transfers, visits, hits, misses, reopened, mapped;
};

struct world {
	const char *profile;
	int mode;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct hmreg_domain_ops *ops;
	struct fid_cq *hub_cq;
	struct fid_ep *hub;
	struct fid_mr *hub_mr;
	uint8_t *memory; /* slices, then cells */
	size_t memory_len;
	uint8_t hub_name[NAME_MAX_];
	uint64_t hub_addr, hub_base, hub_key;
	uint8_t hub_raw[16];
	size_t hub_raw_size;
	uint64_t hub_use; /* the key to use; mapped where it is a raw one */
	_Atomic uint64_t next_key;
	struct station station[THREADS_MAX];
};

#define OUT_LEN (2 * SLICE)
#define IN_LEN	(RECEIVES * MESSAGE)

void world_open(struct world *w, const char *profile, unsigned threads);
void world_close(struct world *w);
/* By the station's own thread.  meet: once all threads are open. */
void station_open(struct station *s, struct world *w, unsigned thread);
void station_meet(struct station *s, unsigned threads);
void station_close(struct station *s);

/* Registers and does what the mode wants before use; cntr may be NULL. */
struct fid_mr *make_mr(struct world *w, struct fid_ep *ep, void *buf, size_t len,
		       struct fid_cntr *cntr);
/* The peer's key of a region: fills raw and base where it is a raw one, else key. */
void export_key(struct world *w, struct fid_mr *mr, uint64_t *key, uint64_t *base, uint8_t raw[16],
		size_t *raw_size);
struct fid_ep *make_ep(struct world *w, struct fid_cq *cq, uint8_t name[NAME_MAX_]);

#endif
