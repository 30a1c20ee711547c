/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The emulated libcuda.so.1, inside.
 *
 *   context.c  start, errors, contexts of threads       device.c  devices and their attributes
 *   memory.c   device, host and managed memory          vmm.c     memory mapped piece by piece
 *   pool.c     stream-ordered pools                     ipc.c     memory of another process
 *   pointer.c  what an address is                       export.c  dma-bufs
 *   stream.c   streams and events                       copy.c    copies and fills
 *
 * Settings, EMU_CUDA="key=value,...":
 *   devices=4     how many                    handles=0     CUdevice of ordinal 0
 *   memory=16384  MiB of each                 dmabuf=-1     bits by ordinal: DMA_BUF_SUPPORTED
 *   unit=4096     what export asks for        pcie=1        the PCIe flag: 1 known, else the error
 *   granularity=2097152  of mapped memory     range=1       0: cuMemGetAddressRange finds none of it
 *   newest=20     pointer attribute           batch=1       0: cuPointerGetAttributes takes only those
 *   late=1        queries until a stream's work is done     that its manual lists
 *   vmmrdma=1     GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED   version=13000  cuDriverGetVersion
 *   order=100     GPU_DIRECT_RDMA_WRITES_ORDERING           flush=1        0: no flush by the host
 * Live objects: memory, bytes, context, primary, stream, event, handle, reservation, registered, pool.
 */
#ifndef CUDA_EMU_H
#define CUDA_EMU_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/drivers/accel/accel.h"
#include "tests/drivers/accel/cuda/cuda_driver_abi.h"

#define EMU_MOST_DEVICES 16

#define EMU_DECLARE(member, symbol, args)                                                          \
	__attribute__((visibility("default"))) cu_result symbol args;
CUDA_FUNCTIONS(EMU_DECLARE)
CUDA_NEWER(EMU_DECLARE)
CUDA_WITH_STRUCTS(EMU_DECLARE)
CUDA_TEST_FUNCTIONS(EMU_DECLARE)
CUDA_TEST_STRUCTS(EMU_DECLARE)

/* How each function begins; the second one where the driver wants a current context. */
#define EMU_CALL(name)                                                                             \
	do {                                                                                       \
		cu_result result_ = (cu_result)accel_call(#name);                                  \
		if (result_ == CU_OK && !emu_started())                                            \
			result_ = CU_NOT_INITIALIZED;                                              \
		if (result_ != CU_OK)                                                              \
			return result_;                                                            \
	} while (0)
#define EMU_CALL_IN(name, context)                                                                 \
	EMU_CALL(name);                                                                            \
	if (!((context) = emu_current()))                                                          \
	return CU_INVALID_CONTEXT

struct CUctx_st {
	struct CUctx_st *next;
	int ordinal;
	bool primary;
	unsigned int retained; /* of a primary one */
	bool alive;
};

bool emu_started(void);
/* The thread's context; NULL none, or one that is gone. */
struct CUctx_st *emu_current(void);
bool emu_context_alive(const struct CUctx_st *context);

int emu_devices(void);
/* -1: no such device. */
int emu_ordinal(cu_device device);
uint64_t emu_device_bytes(void);

/* ---- memory ---- */

enum emu_kind {
	EMU_ALLOC,
	EMU_HOST,
	EMU_MANAGED,
	EMU_VMM,
	EMU_POOL,
	EMU_IPC,
	EMU_REGISTERED /* in no mapping */
};

/* What a mapping's user pointer is. */
struct emu_memory {
	struct CUctx_st *context; /* NULL: of no context */
	cu_pool pool;
	struct emu_vmm *vmm;
	struct cu_memory_prop prop; /* of mapped memory */
	uint64_t block_id;
	unsigned int handle_types;
	size_t len; /* as asked for */
	int ordinal;
	unsigned int devices; /* bits by ordinal: access granted to mapped memory */
	bool sync_memops;
};

/* An address that is the driver's. */
struct emu_found {
	enum emu_kind kind;
	bool has_memory; /* false: registered host memory, or reserved and nothing mapped */
	struct emu_memory memory; /* as it was */
	char *start;		  /* of the allocation or reservation */
	size_t len;
	char *map_start; /* of the mapping; NULL: none there */
	size_t map_len;
	uint64_t id;	   /* of the allocation; of mapped memory, of the reserved addresses */
	uint64_t block_id; /* of what was mapped */
	int ordinal;
	struct CUctx_st *context;
	bool on_host;
};
bool emu_find(const void *addr, struct emu_found *found);
/* Held while a mapping's struct emu_memory is looked at, changed or freed; before every other lock. */
void emu_lock_memory(void);
void emu_unlock_memory(void);
/* All in one, counted; 0 or the driver's error. */
cu_result emu_make(size_t len, enum accel_place place, enum emu_kind kind, struct emu_memory memory,
		   void **addr);
/* CU_INVALID_VALUE: not what emu_make gave for one of these kinds (bits). */
cu_result emu_drop(void *addr, unsigned int kinds);
/* Everything that was made in a context, which ends. */
void emu_drop_all(struct CUctx_st *context);
/* A registration of host memory, or the reservation, that holds addr. */
bool emu_registered(const void *addr, struct emu_found *found);
bool emu_reserved(const void *addr, struct emu_found *found);

/* What cuMemCreate made. */
struct emu_vmm {
	struct emu_vmm *next;
	struct accel_block *block;
	struct cu_memory_prop prop;
	unsigned int handles, mappings;
	uint64_t id;
};
size_t emu_granularity(void);

struct CUmemPoolHandle_st {
	struct CUmemPoolHandle_st *next;
	int ordinal;
	unsigned int handle_types;
	bool destroyed, is_default;
};

/* ---- work ---- */

/* May the context's device use [addr, addr + len)? */
cu_result emu_reachable(const struct CUctx_st *context, const void *addr, size_t len);
/* Into the stream; NULL: at once.  src NULL: fill with value. */
cu_result emu_submit(cu_stream stream, void *dst, const void *src, int value, size_t len);
bool emu_stream_valid(cu_stream stream);
/* All work of one stream, or of all (NULL). */
cu_result emu_drain(cu_stream stream);

#endif
