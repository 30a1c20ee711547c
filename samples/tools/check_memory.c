/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-check: memory of each kind, those included that cannot be registered. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

/* Guard pages on both sides of the region: it begins in the middle of an allocation, as programs have it. */
#define GUARD ((size_t)4096)

static const struct {
	const char *name, *text;
	bool of_device;
} kinds[CHECK_KINDS] = {
	[CHECK_KIND_HOST] = { "host", "plain host memory (default without --iface)", false },
	[CHECK_KIND_DEVICE] = { "device", "memory of a device (default with --iface)", true },
	[CHECK_KIND_PINNED] = { "pinned", "host memory of the interface's allocator", true },
	[CHECK_KIND_MANAGED] = { "managed", "memory that moves between host and device", true },
	[CHECK_KIND_PRIVATE] = { "private", "memory of a device that was not made for export",
				 true },
	[CHECK_KIND_FREED] = { "freed", "memory of a device that was given back", true },
	[CHECK_KIND_BEYOND] = { "beyond", "more than one allocation of a device", true },
	[CHECK_KIND_MIXED] = { "mixed", "host memory that runs into a device's", true },
	[CHECK_KIND_FOREIGN] = { "foreign", "host memory that is said to be the device's", true },
	[CHECK_KIND_READ_ONLY] = { "read-only", "host memory without the right to write", false },
	[CHECK_KIND_NO_ACCESS] = { "no-access", "reserved host memory (PROT_NONE)", false },
	[CHECK_KIND_UNMAPPED] = { "unmapped", "addresses where nothing is", false },
	[CHECK_KIND_SHORT_FILE] = { "short-file", "a mapping that is longer than its file", false },
	[CHECK_KIND_DEVICE_MAPPING] = { "device-mapping", "a mapping without pages of its own",
					false },
};

const char *check_kind_name(enum check_kind kind)
{
	return kinds[kind].name;
}

const char *check_kind_text(enum check_kind kind)
{
	return kinds[kind].text;
}

bool check_kind_of_device(enum check_kind kind)
{
	return kinds[kind].of_device;
}

static size_t whole_pages(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (len + page - 1) / page * page;
}

/* ---- of a device ---- */

static int allocate(struct check *check, enum hmreg_hmem_kind how, size_t len)
{
	const struct sample_place *place = &check->options.place;
	void *addr = NULL;
	int ret =
		check->hmem->alloc(&check->soft->fid, place->iface, place->device, how, len, &addr);

	if (ret)
		return check_failed(check, "allocation of the memory", ret, "driver-call");
	check->memory = (struct check_memory){
		.base = addr, .region = addr, .len = len, .allocated = true, .how = how
	};
	return 0;
}

static int give_back(struct check *check)
{
	const struct sample_place *place = &check->options.place;
	struct check_memory *memory = &check->memory;

	memory->allocated = false;
	return check->hmem->free(&check->soft->fid, place->iface, place->device, memory->how,
				 memory->base);
}

/* The host's pages right in front of what was allocated. */
static int put_host_in_front(struct check *check)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct check_memory *memory = &check->memory;
	void *at = memory->base - page;
	uint8_t *host = mmap(at, page, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (host == MAP_FAILED)
		return check_found(check, "unexplained",
				   "no host memory can be had right in front of the device's: %s",
				   strerror(errno));
	memory->host = host;
	memory->region = host;
	return 0;
}

static int make_of_device(struct check *check)
{
	size_t size = check->options.size, len = whole_pages(size) + 2 * GUARD;
	int ret;

	switch (check->options.kind) {
	case CHECK_KIND_PINNED:
		ret = allocate(check, HMREG_HMEM_HOST, len);
		break;
	case CHECK_KIND_MANAGED:
		ret = allocate(check, HMREG_HMEM_MANAGED, len);
		break;
	case CHECK_KIND_PRIVATE:
		ret = allocate(check, HMREG_HMEM_PRIVATE, len);
		break;
	case CHECK_KIND_BEYOND: /* the allocation ends in the middle of the region */
		return allocate(check, HMREG_HMEM_DEVICE, whole_pages((size + 1) / 2));
	case CHECK_KIND_MIXED:
		ret = allocate(check, HMREG_HMEM_DEVICE, len);
		return ret ? ret : put_host_in_front(check);
	default:
		ret = allocate(check, HMREG_HMEM_DEVICE, len);
		break;
	}
	if (!ret)
		check->memory.region += GUARD;
	return ret;
}

/* ---- of the host ---- */

/* Something without pages that can be pinned: the kernel's variables for the clock are in every process. */
static uint8_t *find_kernel_mapping(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (strstr(line, "[vvar]") && sscanf(line, "%lx-", &start) == 1)
			break;
		start = 0;
	}
	if (maps)
		fclose(maps);
	return (uint8_t *)start;
}

/* A file that ends before the region does. */
static int open_file(size_t len, int *file)
{
	*file = memfd_create("hmreg-check", MFD_CLOEXEC);
	return *file < 0 || ftruncate(*file, (off_t)len) ? -errno : 0;
}

static int make_of_host(struct check *check)
{
	size_t size = check->options.size, len = whole_pages(size) + 2 * GUARD;
	struct check_memory *memory = &check->memory;
	enum check_kind kind = check->options.kind;
	int file = -1, ret = 0;
	uint8_t *at;

	*memory = (struct check_memory){ .len = len };
	if (kind == CHECK_KIND_DEVICE_MAPPING) {
		memory->region = find_kernel_mapping();
		return memory->region ? 0
				      : check_found(check, "unexplained",
						    "this process has no such mapping");
	}
	if (kind == CHECK_KIND_SHORT_FILE)
		ret = open_file(GUARD, &file);
	at = ret ? MAP_FAILED
		 : mmap(NULL, len,
			kind == CHECK_KIND_NO_ACCESS ? PROT_NONE : PROT_READ | PROT_WRITE,
			file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
	ret = at == MAP_FAILED ? -errno : 0;
	if (file >= 0)
		close(file);
	if (ret)
		return check_failed(check, "mmap", ret,
				    ret == -ENOMEM ? "host-memory" : "unexplained");
	memory->base = at;
	memory->region = at + GUARD;
	memory->mapped = true;
	if (kind == CHECK_KIND_READ_ONLY && mprotect(at, len, PROT_READ))
		return check_failed(check, "mprotect", -errno, "unexplained");
	return 0;
}

int check_memory_make(struct check *check)
{
	bool device = check_kind_of_device(check->options.kind);

	return device && check->options.kind != CHECK_KIND_FOREIGN ? make_of_device(check)
								   : make_of_host(check);
}

int check_memory_spoil(struct check *check)
{
	struct check_memory *memory = &check->memory;
	int ret = 0;

	if (check->options.kind == CHECK_KIND_UNMAPPED) {
		munmap(memory->base, memory->len);
		memory->mapped = false;
	}
	if (check->options.kind == CHECK_KIND_FREED)
		ret = give_back(check);
	return ret ? check_failed(check, "giving the memory back", ret, "driver-call") : 0;
}

int check_memory_free(struct check *check)
{
	struct check_memory *memory = &check->memory;
	int ret = 0;

	if (memory->host)
		munmap(memory->host, (size_t)sysconf(_SC_PAGESIZE));
	if (memory->mapped)
		munmap(memory->base, memory->len);
	if (memory->allocated)
		ret = give_back(check);
	*memory = (struct check_memory){ .len = 0 };
	return ret;
}

int check_memory_copy(struct check *check, void *to, const void *from, size_t len)
{
	if (check->options.place.iface != FI_HMEM_SYSTEM)
		return check->hmem->copy(&check->soft->fid, to, from, len);
	memcpy(to, from, len);
	return 0;
}
