/* SPDX-License-Identifier: BSD-2-Clause */
/* Host memory. */
#include "hmem/hmem.h"

#include "core/base/guard.h"

const struct hmem_ops hmem_system = {
	.copy = hm_guard_copy,
	.probe = hm_guard_probe,
};
