/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the Neuron runtime: tensors on a device and on the host. */
#include <dlfcn.h>
#include <stdlib.h>

#include "hmem/neuron_abi.h"
#include "tests/hmem/maker.h"

static struct {
	nrt_init_fn *init;
	nrt_get_count_fn *cores;
	nrt_tensor_allocate_fn *allocate;
	nrt_tensor_free_fn *drop;
	nrt_tensor_get_va_fn *va;
	nrt_tensor_read_fn *read;
	nrt_tensor_write_fn *write;
	nrt_get_hbm_mmap_va_fn *window; /* or NULL */
	const struct emu_accel_hooks *hooks;
} lib;

static void *library;
static uint32_t core_count;
static size_t device_total;

static void *find(const char *name)
{
	return dlsym(library, name);
}

static int window_of(int device, char **begin, size_t *len)
{
	void *addr = NULL;
	int code = lib.window ? lib.window(device, 0, &addr, len) : NRT_CODE_INVALID;

	*begin = addr;
	return code;
}

static const char *open_runtime(void)
{
	char *begin;
	size_t len;

	library = dlopen("libnrt.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return "libnrt.so.1 is not there";
	*(void **)&lib.init = find("nrt_init");
	*(void **)&lib.cores = find("nrt_get_visible_vnc_count");
	if (!lib.cores)
		*(void **)&lib.cores = find("nrt_get_visible_nc_count");
	*(void **)&lib.allocate = find("nrt_tensor_allocate");
	*(void **)&lib.drop = find("nrt_tensor_free");
	*(void **)&lib.va = find("nrt_tensor_get_va");
	*(void **)&lib.read = find("nrt_tensor_read");
	*(void **)&lib.write = find("nrt_tensor_write");
	*(void **)&lib.window = find("nrt_get_hbm_mmap_va");
	lib.hooks = find("emu_accel_hooks");
	if (!lib.init || !lib.cores || !lib.allocate || !lib.drop || !lib.va || !lib.read ||
	    !lib.write)
		return "libnrt.so.1 lacks a call";
	if (lib.init(NRT_NO_FRAMEWORK, "", "") != NRT_OK)
		return "nrt_init fails";
	if (lib.cores(&core_count) != NRT_OK || core_count == 0)
		return "no NeuronCore is visible";
	while (window_of((int)device_total, &begin, &len) == NRT_OK)
		device_total++;
	device_total = device_total ? device_total : 1;
	return NULL;
}

static size_t devices(void)
{
	return device_total;
}

static int device(size_t index)
{
	return (int)index;
}

/* Its host memory could be made, but nobody could tell that it is its. */
static const char *cannot(enum make kind, int on)
{
	(void)on;
	if (kind == MAKE_DEVICE)
		return NULL;
	return kind == MAKE_HOST || kind == MAKE_REGISTERED
		       ? "this driver cannot be asked whether host memory is its own"
		       : "this driver makes plain memory of devices and of the host";
}

static bool is_on(const char *va, int wanted)
{
	char *begin;
	size_t len;

	if (window_of(wanted, &begin, &len) != NRT_OK)
		return device_total == 1;
	return va >= begin && (size_t)(va - begin) < len;
}

static int make_on(int place, int core, size_t len, struct made *made)
{
	struct nrt_tensor_opaque *tensor;
	int code = lib.allocate(place, core, len, "made", &tensor);

	if (code != NRT_OK)
		return code;
	made->addr = lib.va(tensor);
	made->own[0] = tensor;
	if (made->addr && (place == NRT_PLACE_HOST || is_on(made->addr, made->device)))
		return NRT_OK;
	lib.drop(&tensor);
	return NRT_CODE_FAILURE;
}

static int make(enum make kind, int on, size_t len, struct made *made)
{
	int code = NRT_CODE_FAILURE;

	len = (len + 4095) / 4096 * 4096;
	*made = (struct made){ .kind = kind, .device = on, .len = len };
	if (kind == MAKE_HOST)
		return make_on(NRT_PLACE_HOST, -1, len, made);
	for (uint32_t core = 0; code == NRT_CODE_FAILURE && core < core_count; core++)
		code = make_on(NRT_PLACE_DEVICE, (int)core, len, made);
	return code;
}

static void drop(struct made *made)
{
	struct nrt_tensor_opaque *tensor = made->own[0];

	lib.drop(&tensor);
	made->addr = NULL;
}

static int write_made(const struct made *made, size_t offset, const void *from, size_t len)
{
	return lib.write(made->own[0], from, offset, len);
}

static int read_made(const struct made *made, size_t offset, void *to, size_t len)
{
	return lib.read(made->own[0], to, offset, len);
}

static const struct emu_accel_hooks *hooks(void)
{
	return lib.hooks;
}

const struct maker make_neuron = {
	.name = "neuron",
	.iface = FI_HMEM_NEURON,
	.open = open_runtime,
	.devices = devices,
	.device = device,
	.cannot = cannot,
	.make = make,
	.drop = drop,
	.write = write_made,
	.read = read_made,
	.hooks = hooks,
};
