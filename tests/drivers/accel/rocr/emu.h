/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An emulated ROCr runtime, libhsa-runtime64.so.1.  What is told of the real one's behaviour is from
 * the comments of hsa.h and hsa_ext_amd.h; what they call undefined is refused here.
 *
 * Settings, EMU_ROCR="key=number,...":
 *   devices=4      GPU agents
 *   cpus=2         CPU agents; the first GPUs stand between them in the list
 *   memory=1024    MiB of each device
 *   bar=1          0: no processor can be given access to device memory
 *   peer=1         0: no device can be given access to another's memory
 *   dmabuf=1       0: the kernel exports no dma-bufs
 *   noexport=0     a bit for each device that exports nothing
 *   unit=4096      export takes addresses that are multiples of it; 0: any
 *   ext=13         minor version of AMD's extension: below 1 no dma-bufs, below 4 no mapped memory
 *                  (the functions stay: the library in old/ is without them), below 9 no
 *                  export of PCIe mappings, below 12 pointer info knows no mapped memory
 *   alias=1        0: devices see locked memory at the host's address
 *   svm=1          0: no attributes of managed memory
 *   xnack=0        1: devices reach all host memory
 *   notice=1       0: nobody is told of memory that is freed
 *   hdp=1          a bit for each device that has registers to flush its host data path
 *   lag=1          how often a copy's signal is read before the copy takes place
 *
 * Special to it: memory shared by IPC can be attached in the process that made it alone; the range
 * of managed memory ends when its attributes are taken back, not when it is unmapped; a copy takes
 * place when its signal is waited for or read.  "engine" as a call's name: a copy that takes
 * place; made to fail, the signal ends below 0.
 */
#ifndef EMU_ROCR_H
#define EMU_ROCR_H

#include <pthread.h>

#include <rdma/fabric.h>

#include "core/base/list.h"
#include "tests/drivers/accel/accel.h"
#include "tests/drivers/accel/rocr/abi.h"

#define EXPORTED     __attribute__((visibility("default")))
#define EMU_MOST     32 /* agents */
#define EMU_ALL	     (~UINT64_C(0))
#define EMU_PAGE     4096u
#define EMU_NO_AGENT (-1)

/* ---- settings, agents, pools: constant after hsa_init ---- */

struct emu_agent {
	bool gpu;
	unsigned int index; /* among its like */
};

struct emu_pool {
	int agent;
	uint32_t segment, flags;
	bool allocates;
};

struct emu_world {
	struct emu_agent agents[EMU_MOST];
	int agent_count, gpu_count, cpu_count;
	struct emu_pool pools[3 * EMU_MOST];
	int pool_count;
	long memory, bar, peer, dmabuf, noexport, unit, ext, alias, svm, xnack, lag, notice, hdp;
};
extern struct emu_world emu;

bool emu_ready(void);

#define CALL(name)                                                                                 \
	do {                                                                                       \
		int code_ = accel_call(name);                                                      \
		if (code_)                                                                         \
			return (rocr_status)code_;                                                 \
		if (!emu_ready())                                                                  \
			return ROCR_ERROR_NOT_INITIALIZED;                                         \
	} while (0)

/* An agent's or a pool's number; EMU_NO_AGENT: a handle that is none. */
int emu_agent_of(rocr_agent agent);
int emu_pool_of(rocr_pool pool);
rocr_agent emu_agent_handle(int agent);
rocr_pool emu_pool_handle(int pool);
/* A bit for each agent; false: one of them is none, or count and agents do not go together. */
bool emu_agent_set(uint32_t count, const rocr_agent *agents, uint64_t *set);
/* ROCR_ACCESS_*: of an agent to a pool's memory. */
uint32_t emu_access(int agent, const struct emu_pool *pool);

/* ---- memory ---- */

/* Held by every call that looks at or changes what follows; before the locks of accel.h. */
extern pthread_mutex_t emu_lock;

enum emu_kind {
	EMU_POOL = 1, /* hsa_amd_memory_pool_allocate */
	EMU_VMEM,     /* mapped */
	EMU_IPC,      /* attached */
	EMU_HOME      /* where a handle's pages are while nobody has mapped them */
};

/* accel_range.user of the first three. */
struct emu_memory {
	int pool;
	uint64_t reach; /* agents that have access */
	void *user_data;
	struct emu_handle *handle; /* of EMU_VMEM */
	struct emu_notice *notices;
	bool going; /* being freed: not to be found any more */
};

/* Who wants to be told when it is freed. */
struct emu_notice {
	struct emu_notice *next;
	void *ptr;
	void (*callback)(void *, void *);
	void *user_data;
};

/* Pages for vmem_map.  Its address is the vendor's handle. */
struct emu_handle {
	struct hm_list link;
	unsigned int refs; /* the program's */
	unsigned int maps;
	int pool;
	size_t size;
	void *home;
};

/* Host memory that is locked. */
struct emu_locked {
	struct hm_list link;
	char *host, *there; /* there: for devices */
	size_t len;
	uint64_t reach;
};

/* With emu_lock held: the memory that holds addr, or NULL. */
struct emu_memory *emu_find(const void *addr, struct accel_range *range);
struct emu_locked *emu_find_locked(const void *addr);
/* Reserved addresses that hold addr: false, or where they begin and their length. */
bool emu_find_reserved(const void *addr, void **base, size_t *len);
/* Agents that reach managed memory at addr; *left is how far it goes.  False: it is not managed. */
bool emu_managed(const void *addr, uint64_t *reach, size_t *left);
/* emu_lock not held: tells them, the last that came first, and frees them. */
void emu_notify(struct emu_notice *notices);
/* Counts len bytes of the pool's memory; false: there are not as many. */
bool emu_charge(int pool, size_t len);
void emu_discharge(int pool, size_t len);
size_t emu_available(int agent);
/* Gives host loads and stores of the mapping to what reach says. */
void emu_protect(const struct accel_range *range, uint64_t reach, bool on_host);
bool emu_any_cpu(uint64_t reach);

#define ROCR_DECLARE(result, name, parameters) EXPORTED result name parameters;
ROCR_ALL_FUNCTIONS(ROCR_DECLARE)
#undef ROCR_DECLARE

#endif
