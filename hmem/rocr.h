/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the ROCr interface share. */
#ifndef HMEM_ROCR_H
#define HMEM_ROCR_H

#include <stdatomic.h>

#include "hmem/hmem.h"
#include "hmem/rocr_abi.h"

#define ROCR_MOST_AGENTS 128 /* devices and processors; more are not used */
#define ROCR_MOST_POOLS	 512

struct rocr_device {
	rocr_agent agent;
	rocr_pool pool; /* for plain allocations */
	uint64_t memory;
	uint32_t *hdp;		   /* the register that flushes its host data path; NULL: none */
	bool host_reaches;	   /* a processor can be given access to its memory */
	atomic_uint export_status; /* why it exports nothing, once the driver said so for good */
};

/* Filled by start, and constant from then on. */
struct rocr_world {
	struct rocr_device devices[ROCR_MOST_AGENTS];
	size_t device_count;
	rocr_agent cpus[ROCR_MOST_AGENTS];
	size_t cpu_count;
	rocr_pool host_pool; /* fine-grained */
	struct {
		rocr_pool pool;
		int device; /* HMEM_NO_DEVICE: a processor's */
	} pools[ROCR_MOST_POOLS];
	size_t pool_count;
	bool tells_vmem; /* pointer info knows mapped memory */
	bool svm, svm_by_default;
	enum hmreg_cause no_dmabuf_cause;
	const char *no_dmabuf; /* why nothing can be exported, or NULL */
};

/* Filled by start. */
extern struct rocr_api rocr_api;
extern struct rocr_world rocr_world;

/* Logs a failed call in one line, unless the status is a success; returns its -FI_E code. */
int rocr_result(rocr_status status, const char *call);
#define ROCR_CALL(name, ...) rocr_result(rocr_api.name(__VA_ARGS__), #name)

/* "HSA_STATUS_...: ...", into text; returns it. */
const char *rocr_status_text(rocr_status status, char text[160]);

/* The device of an agent or a pool; HMEM_NO_DEVICE: a processor's; below that: not known. */
int rocr_device_of(rocr_agent agent);
int rocr_pool_device(rocr_pool pool);
bool rocr_device_known(int device);

/* rocr_look.c, rocr_gone.c, rocr_copy.c, rocr_export.c: the operations of the same names. */
int rocr_look(const void *addr, struct hmem_facts *facts);
int rocr_own(const void *addr, struct hmem_facts *facts, const char **why);
/* May the device load and store all of [addr, addr + len), which the driver knows?  Then *there is where. */
bool rocr_reaches(int device, const void *addr, size_t len, void **there);

/*
 * An id of ours for the allocation [base, base + len), which the runtime is asked to tell the end of; 0, and
 * *why a constant text: it does not.
 */
uint64_t rocr_gone_id(uint64_t base, uint64_t len, const char **why);
void rocr_end_reports(void);

int rocr_copy_init(void);
int rocr_copy(void *dst, int dst_device, const void *src, int src_device, size_t len);
int rocr_copy_start(void *dst, int dst_device, const void *src, int src_device, size_t len,
		    uint64_t *event);
int rocr_copy_end(uint64_t event, bool wait);

#define ROCR_EXPORT_UNIT 4096
/* Has the runtime what it takes to export a piece of mapped memory? */
bool rocr_exports_mapped(void);
int rocr_export_start(const struct hmem_memory *memory, const void *addr, size_t len,
		      uint32_t flags, struct hmem_export *out);
void rocr_export_end(const struct hmem_export *exported);

#endif
