/* SPDX-License-Identifier: BSD-2-Clause */
/* Dma-buf regions for the harness of the conformance programs, and what the kernel counts. */
#ifndef VM_REGION_H
#define VM_REGION_H

#include "memory.h"
#include "tests/conformance/harness.h"

#define VM_CAPS (CONF_CAPS | FI_HMEM)

/* Attributes of [off, off + len) of the memory; base is where its first byte is in addresses, or NULL. */
void vm_dmabuf_attr(struct fi_mr_attr *attr, struct fi_mr_dmabuf *dmabuf,
		    const struct memory *memory, size_t off, size_t len, void *base);
/* Registered, ready for use, and closed at the test's end. */
struct conf_region *vm_reg_dmabuf(struct conf_end *end, const struct memory *memory, size_t off,
				  size_t len, void *base, uint64_t access);
/* What state the library says this region is in: HMREG_REGION_*. */
uint32_t vm_region_state(const struct conf_region *region, enum hmreg_path *path);

/* Objects that the kernel holds for all programs and devices. */
struct vm_resources {
	unsigned int pd, cq, qp, cm_id, mr, srq;
};
void vm_resources(struct vm_resources *resources);
void vm_assert_same(const struct vm_resources *have, const struct vm_resources *want);

#endif
