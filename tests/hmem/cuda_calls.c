/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/hmem/cuda_calls.h"

#include <dlfcn.h>

struct cuda_calls cuda;

const char *cuda_calls_load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
#define CUDA_LOAD(member, symbol, args) *(void **)&cuda.member = dlsym(library, #symbol);
	CUDA_FUNCTIONS(CUDA_LOAD)
	CUDA_NEWER(CUDA_LOAD)
	CUDA_WITH_STRUCTS(CUDA_LOAD)
	CUDA_TEST_FUNCTIONS(CUDA_LOAD)
	CUDA_TEST_STRUCTS(CUDA_LOAD)
#undef CUDA_LOAD
	cuda.hooks = dlsym(library, "emu_accel_hooks");
	return cuda.init ? NULL : "this libcuda.so.1 has no cuInit";
}
