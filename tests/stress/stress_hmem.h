/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stress_hmem and stress_cache_hmem run on: a world for each NIC, which all threads share; a station, a
 * thread's place in it; the interfaces and their devices; and what must be at the end what it was before.
 */
#ifndef HM_STRESS_HMEM_H
#define HM_STRESS_HMEM_H

#include "tests/stress/stress.h"

#define HMEM_WORLDS	3u
#define HMEM_SLOTS_EACH 2u
#define HMEM_SLOTS	(5 * HMEM_SLOTS_EACH)
#define HMEM_DRIVERS	6u /* libraries; Level Zero has two */

struct hmem_world {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct hmreg_domain_ops *ops;
	_Atomic uint64_t next_key;
};
extern struct hmem_world hmem_worlds[HMEM_WORLDS];
extern struct hmreg_hmem_ops *hmem_public;
extern struct fid *hmem_fabric; /* for hmem_public */
/* That worlds are opened with. */
extern const char *hmem_nics[HMEM_WORLDS];
extern int hmem_mr_mode;

void hmem_worlds_open(void);
void hmem_worlds_close(void);
/* Of the interface: how many devices, and the number of one; 0: it cannot be used here. */
size_t hmem_devices(enum fi_hmem_iface iface);
int hmem_device(enum fi_hmem_iface iface, size_t index);
/* Open to everything. */
struct fid_mr *hmem_region(struct hmem_world *world, enum fi_hmem_iface iface, int device,
			   void *addr, size_t len);

/* Two endpoints of one thread, the second of which is the first's target. */
struct hmem_station {
	struct hmem_world *world;
	struct fid_cq *cq;
	struct fid_ep *a, *b;
	fi_addr_t to;
	uint8_t *host;
	struct fid_mr *mr; /* of host */
};
void hmem_station_open(struct hmem_station *s, struct hmem_world *world, size_t len);
void hmem_station_close(struct hmem_station *s);
/* len bytes between host and the region, offset bytes from its begin, which is address at; done. */
void hmem_transfer(struct hmem_station *s, bool write, size_t len, struct fid_mr *mr,
		   uint64_t offset, const void *at);

/* The same between local, which has no descriptor, and host. */
void hmem_transfer_bare(struct hmem_station *s, bool write, void *local, size_t len);
/* Bytes that say when they were painted, and where each belongs. */
void hmem_paint(uint64_t *random, uint8_t *bytes, size_t len);
/* emu_accel_hooks.reuse, of all drivers. */
void hmem_reuse(bool on);

struct hmem_mark {
	size_t fds;
	long live[HMEM_DRIVERS];
	long memory; /* of these objects, pieces of memory */
	uint64_t regions, bytes, exports, mrs;
};
void hmem_look(struct hmem_mark *mark);
/* after is no more than before, but for what interfaces keep for the next copies. */
void hmem_check(const struct hmem_mark *before, const struct hmem_mark *after);

#endif
