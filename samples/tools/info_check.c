/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-info: a page of host memory goes to a device's memory and back through a NIC.  The page lies
 * between two others of the same allocation, which must not change.
 */
#define _POSIX_C_SOURCE 200809L

#include <string.h>

#include <rdma/fi_rma.h>

#include "tool_capture.h"
#include "info_hmem.h"

#define PAGE	  4096
#define UNTOUCHED 0x5c /* what all three pages hold before */

struct trial {
	struct info_cell *cell;
	struct sample_place place;
	struct sample_end near, far;
	struct tool_block host;	 /* a page that is sent, and one that comes back */
	struct tool_block block; /* the page in the middle is the region */
	struct fid_mr *host_mr, *mr;
	struct sample_key shared;
	uint64_t key;
	bool mapped; /* key is in use */
};

/* ---- the table of remedies ---- */

const char *info_step_name(enum info_step step)
{
	static const char *const names[INFO_STEPS] = {
		[INFO_STEP_DRIVER] = "driver",	   [INFO_STEP_OPEN] = "open",
		[INFO_STEP_ALLOCATE] = "allocate", [INFO_STEP_IDENTIFY] = "identify",
		[INFO_STEP_EXPORT] = "export",	   [INFO_STEP_REGISTER] = "register",
		[INFO_STEP_WRITE] = "write",	   [INFO_STEP_READ] = "read",
		[INFO_STEP_COMPARE] = "compare",   [INFO_STEP_CLOSE] = "close",
	};

	return names[step];
}

#define ANY (-1)

/* The first line that fits. */
static const struct {
	enum info_step step;
	int error; /* FI_E code; 0: any */
	int iface; /* ANY */
	int path;  /* enum hmreg_path; 0: any */
	const char *remedy;
} remedies[] = {
	{ INFO_STEP_DRIVER, FI_ENOSYS, FI_HMEM_CUDA, 0,
	  "install the NVIDIA driver's user library (Debian: libcuda1); in a container, pass the "
	  "GPUs "
	  "and the driver in" },
	{ INFO_STEP_DRIVER, FI_ENOSYS, FI_HMEM_ROCR, 0,
	  "install the ROCm runtime (Debian: libhsa-runtime64-1), or add its folder to "
	  "LD_LIBRARY_PATH" },
	{ INFO_STEP_DRIVER, FI_ENOSYS, FI_HMEM_ZE, 0,
	  "install the Level Zero loader and a driver for it (Debian: libze1, "
	  "intel-level-zero-gpu)" },
	{ INFO_STEP_DRIVER, FI_ENOSYS, FI_HMEM_NEURON, 0,
	  "install the Neuron runtime (aws-neuronx-runtime-lib), and add /opt/aws/neuron/lib to "
	  "LD_LIBRARY_PATH" },
	{ INFO_STEP_DRIVER, FI_ENOSYS, FI_HMEM_SYNAPSEAI, 0,
	  "install the SynapseAI runtime (habanalabs-graph), and add its folder to "
	  "LD_LIBRARY_PATH" },
	{ INFO_STEP_DRIVER, FI_ENODEV, ANY, 0,
	  "is the device on the bus (lspci), its kernel module loaded, its file in /dev open to "
	  "you? variables such as CUDA_VISIBLE_DEVICES hide devices" },
	{ INFO_STEP_DRIVER, FI_EIO, FI_HMEM_ROCR, 0,
	  "is there an AMD GPU, its module amdgpu loaded, and /dev/kfd open to you (groups render "
	  "and video)?" },
	{ INFO_STEP_DRIVER, FI_EIO, ANY, 0,
	  "do the user library and the kernel module fit? they are of one release; see dmesg" },
	{ INFO_STEP_OPEN, FI_EACCES, ANY, 0,
	  "open /dev/infiniband/uverbs* and rdma_cm to the user" },
	{ INFO_STEP_OPEN, FI_ENOMEM, ANY, 0, "raise the memlock limit (ulimit -l)" },
	{ INFO_STEP_OPEN, FI_ENODATA, ANY, 0,
	  "the NIC offers no FI_HMEM: see its dma-buf line, and load a module for peer memory" },
	{ INFO_STEP_OPEN, 0, ANY, 0, "is the port up, with an address? `hmreg-info NAME' tells" },
	{ INFO_STEP_ALLOCATE, FI_ENOMEM, ANY, 0,
	  "other processes hold the memory: the vendor's monitor shows which" },
	{ INFO_STEP_ALLOCATE, 0, ANY, 0,
	  "does a program of the vendor's run on this device? it may need a reset; see dmesg" },
	{ INFO_STEP_IDENTIFY, 0, ANY, 0, "the driver does not know its own memory: update it" },
	{ INFO_STEP_EXPORT, FI_EOPNOTSUPP, FI_HMEM_CUDA, 0,
	  "dma-bufs take the open kernel modules of release 515 or later and Linux 5.12; otherwise "
	  "load nvidia-peermem" },
	{ INFO_STEP_EXPORT, FI_EOPNOTSUPP, ANY, 0,
	  "dma-bufs take a newer release of the vendor's driver, and Linux 5.12 or later" },
	{ INFO_STEP_EXPORT, FI_ENOMEM, ANY, 0,
	  "the device's PCI window is full: enable a large one (Resizable BAR) in the firmware" },
	{ INFO_STEP_EXPORT, FI_EMFILE, ANY, 0, "raise the limit of open files (ulimit -n)" },
	{ INFO_STEP_EXPORT, 0, ANY, 0, "the vendor's call failed: its error and dmesg tell more" },
	{ INFO_STEP_REGISTER, FI_ENOMEM, ANY, 0,
	  "raise the memlock limit (ulimit -l); the NIC's pages or the device's PCI window may be "
	  "used up" },
	{ INFO_STEP_REGISTER, 0, ANY, HMREG_PATH_DMABUF,
	  "the NIC's driver cannot use this dma-buf: it takes Linux 5.12, a NIC that can (mlx5, "
	  "irdma, "
	  "efa, bnxt_re), and PCI peers that may see each other" },
	{ INFO_STEP_REGISTER, 0, ANY, HMREG_PATH_PEER_MEMORY,
	  "load the vendor's module for peer memory (nvidia-peermem, amdgpu with ROCm's)" },
	{ INFO_STEP_REGISTER, 0, ANY, 0, "FI_LOG_LEVEL=info tells each way that was tried" },
	{ INFO_STEP_WRITE, 0, ANY, HMREG_PATH_COPY, "the device's copy failed: see dmesg" },
	{ INFO_STEP_READ, 0, ANY, HMREG_PATH_COPY, "the device's copy failed: see dmesg" },
	{ INFO_STEP_WRITE, 0, ANY, 0,
	  "access control or the IOMMU keeps the NIC from the device: see `path to memory', switch "
	  "ACS "
	  "off on the bridges between, or set FI_HMEM_DISABLE_P2P=1" },
	{ INFO_STEP_READ, 0, ANY, 0,
	  "access control or the IOMMU keeps the NIC from the device: see `path to memory', switch "
	  "ACS "
	  "off on the bridges between, or set FI_HMEM_DISABLE_P2P=1" },
	{ INFO_STEP_COMPARE, 0, ANY, HMREG_PATH_DMABUF,
	  "PCI writes go astray or are not seen: try iommu=pt, switch ACS off, or set "
	  "FI_HMEM_DISABLE_P2P=1; do not use this pair until it is right" },
	{ INFO_STEP_COMPARE, 0, ANY, 0,
	  "do not use this pair until it is right; please report it" },
	{ INFO_STEP_CLOSE, 0, ANY, 0, "the driver holds what was given back: see dmesg" },
};

const char *info_remedy(enum info_step step, int error, enum fi_hmem_iface iface,
			enum hmreg_path path)
{
	size_t i;

	for (i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++) {
		if (remedies[i].step == step &&
		    (!remedies[i].error || remedies[i].error == -error) &&
		    (remedies[i].iface == ANY || remedies[i].iface == (int)iface) &&
		    (!remedies[i].path || remedies[i].path == (int)path))
			return remedies[i].remedy;
	}
	return "";
}

/* ---- the steps ---- */

/* A port without endpoints moves nothing: its regions are for the program's own transport. */
static bool registers_only(const struct trial *t)
{
	return info_registers_only(t->cell->port);
}

static int open_ends(struct trial *t)
{
	const char *name = t->cell->port->info->domain_attr->name;
	uint64_t caps = t->cell->accel ? FI_HMEM : 0;
	struct fi_info *info;
	int ret;

	if (registers_only(t))
		ret = sample_find_registration(name, caps, &info);
	else
		ret = sample_find(name, caps | FI_MSG | FI_RMA, &info);
	if (ret)
		return sample_fail("fi_getinfo", ret);
	ret = sample_open(&t->near, info, 0);
	if (!ret)
		ret = sample_open(&t->far, info, 0);
	fi_freeinfo(info);
	if (ret || registers_only(t))
		return ret;
	return sample_connect(&t->near, &t->far);
}

static int allocate(struct trial *t)
{
	const struct sample_place host = { FI_HMEM_SYSTEM, 0 };
	int ret = tool_block_open(&t->host, t->near.fabric, &host, (size_t)2 * PAGE);
	size_t i;

	if (!ret)
		ret = tool_block_open(&t->block, t->far.fabric, &t->place, (size_t)3 * PAGE);
	if (ret)
		return ret;
	for (i = 0; i < PAGE; i++)
		t->host.memory[i] = (uint8_t)(i * 7 + i / 256 + 1);
	memset(tool_block_host(&t->block), UNTOUCHED, (size_t)3 * PAGE);
	return tool_block_store(&t->block, 0, (size_t)3 * PAGE);
}

/* Does the driver know its memory, and as this device's? */
static int identify(struct trial *t)
{
	struct hmreg_hmem_memory memory = { .size = sizeof(memory) };
	struct hmreg_hmem_ops *ops;
	int ret = fi_open_ops(&t->far.fabric->fid, HMREG_HMEM_OPS, 0, (void **)&ops, NULL);

	if (!ret)
		ret = ops->query(&t->far.fabric->fid, t->block.memory, (size_t)3 * PAGE, &memory);
	if (ret)
		return sample_fail("asking what the memory is", ret);
	if (memory.iface == t->place.iface &&
	    (t->place.iface == FI_HMEM_SYSTEM || memory.device == t->place.device))
		return 0;
	fprintf(stderr, "%s: the drivers call it %s memory of %s, device %d\n", sample_program,
		memory.kind, tool_iface_name(memory.iface), memory.device);
	return -FI_EINVAL;
}

static uint64_t count_exports(const struct trial *t)
{
	struct hmreg_hmem_ops *ops;
	uint64_t made = 0;

	if (!fi_open_ops(&t->far.fabric->fid, HMREG_HMEM_OPS, 0, (void **)&ops, NULL))
		ops->exports(&t->far.fabric->fid, &made, NULL, NULL);
	return made;
}

static int register_both(struct trial *t)
{
	struct info_check *check = &t->cell->check;
	struct hmreg_region_info region = { .size = sizeof(region) };
	struct hmreg_mr_ops *ops;
	uint64_t before = count_exports(t);
	int ret = sample_register_at(&t->far, &t->place, t->block.memory + PAGE, PAGE,
				     FI_REMOTE_READ | FI_REMOTE_WRITE, &t->mr);

	check->exports = count_exports(t) - before;
	if (ret && t->cell->path.path == HMREG_PATH_DMABUF && !check->exports)
		check->step = INFO_STEP_EXPORT;
	if (ret)
		return ret;
	ret = fi_open_ops(&t->mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL);
	if (!ret)
		ret = ops->info(&t->mr->fid, &region);
	if (ret)
		return sample_fail("asking for a region's path", ret);
	check->path = region.path;
	ret = sample_register_at(&t->near, &t->host.place, t->host.memory, (size_t)2 * PAGE,
				 FI_READ | FI_WRITE, &t->host_mr);
	if (!ret)
		ret = sample_share(&t->far, t->mr, t->block.memory + PAGE, &t->shared);
	if (!ret)
		ret = sample_use(&t->near, &t->shared, &t->key);
	t->mapped = !ret;
	return ret;
}

static int write_page(struct trial *t)
{
	return sample_finish(&t->near, "fi_write",
			     fi_write(t->near.ep, t->host.memory, PAGE, fi_mr_desc(t->host_mr),
				      t->near.peer, t->shared.address, t->key, NULL));
}

static int read_page(struct trial *t)
{
	return sample_finish(&t->near, "fi_read",
			     fi_read(t->near.ep, t->host.memory + PAGE, PAGE,
				     fi_mr_desc(t->host_mr), t->near.peer, t->shared.address,
				     t->key, NULL));
}

static int compare(struct trial *t)
{
	const uint8_t *seen = tool_block_host(&t->block);
	int ret = tool_block_fetch(&t->block, 0, (size_t)3 * PAGE);
	size_t i;

	if (ret)
		return ret;
	for (i = 0; i < PAGE && seen[i] == UNTOUCHED && seen[2 * PAGE + i] == UNTOUCHED; i++)
		;
	if (i < PAGE)
		fprintf(stderr, "%s: memory around the region was overwritten\n", sample_program);
	else if (memcmp(seen + PAGE, t->host.memory, PAGE))
		fprintf(stderr, "%s: what was written is not there\n", sample_program);
	else if (memcmp(t->host.memory + PAGE, t->host.memory, PAGE))
		fprintf(stderr, "%s: what was read is not what is there\n", sample_program);
	else
		return 0;
	return -FI_EIO;
}

static int close_trial(struct trial *t)
{
	int ret = 0, failed;

	if (t->mapped)
		ret = sample_unuse(&t->near, &t->shared, t->key);
	if (t->host_mr && (failed = fi_close(&t->host_mr->fid)) != 0)
		ret = sample_fail("fi_close of a region", failed);
	if (t->mr && (failed = fi_close(&t->mr->fid)) != 0)
		ret = sample_fail("fi_close of a region", failed);
	failed = tool_block_close(&t->block);
	ret = ret ? ret : failed;
	failed = tool_block_close(&t->host);
	ret = ret ? ret : failed;
	failed = sample_close(&t->far);
	ret = ret ? ret : failed;
	failed = sample_close(&t->near);
	return ret ? ret : failed;
}

/* ---- a cell ---- */

static void try_cell(struct info_cell *cell)
{
	static const struct {
		enum info_step step;
		int (*run)(struct trial *t);
	} steps[] = {
		{ INFO_STEP_OPEN, open_ends },	  { INFO_STEP_ALLOCATE, allocate },
		{ INFO_STEP_IDENTIFY, identify }, { INFO_STEP_REGISTER, register_both },
		{ INFO_STEP_WRITE, write_page },  { INFO_STEP_READ, read_page },
		{ INFO_STEP_COMPARE, compare },
	};
	struct trial t = { .cell = cell };
	struct info_check *check = &cell->check;
	struct tool_capture capture;
	size_t i;
	int ret = 0, failed;

	if (cell->accel)
		t.place = cell->accel->place;
	tool_capture_begin(&capture);
	for (i = 0; !ret && i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (steps[i].step >= INFO_STEP_WRITE && registers_only(&t))
			break;
		check->step = steps[i].step;
		ret = steps[i].run(&t);
	}
	failed = close_trial(&t);
	tool_capture_end(&capture, check->detail, sizeof(check->detail));
	if (!ret && failed)
		check->step = INFO_STEP_CLOSE;
	check->error = ret ? ret : failed;
	check->outcome = check->error ? INFO_FAILED : INFO_RIGHT;
}

/* With memory on the device there may be a way that nobody told of before. */
static void ask_again(struct info_cell *cell)
{
	struct tool_capture capture;
	struct fid_fabric *fabric;
	char said[256];

	tool_capture_begin(&capture);
	if (!fi_fabric(cell->port->info->fabric_attr, &fabric, NULL)) {
		tool_place_path(fabric, cell->port->info, &cell->accel->place, &cell->path);
		fi_close(&fabric->fid);
	}
	tool_capture_end(&capture, said, sizeof(said));
}

bool info_hmem_check(struct info_hmem *hmem)
{
	bool right = true;
	size_t i;

	hmem->checked = true;
	for (i = 0; i < hmem->cell_count; i++) {
		if (hmem->cell[i].accel && !hmem->cell[i].path.path)
			ask_again(&hmem->cell[i]);
		if (hmem->cell[i].accel && !hmem->cell[i].path.path)
			continue;
		try_cell(&hmem->cell[i]);
		right &= hmem->cell[i].check.outcome == INFO_RIGHT;
	}
	return right;
}
