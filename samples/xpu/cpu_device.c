/* SPDX-License-Identifier: BSD-2-Clause */
/* The CPU device: see cpu_device.h. */
#include "cpu_device_own.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a device's */
static struct cpu_device *devices;
static uint64_t last_number;

/* ---- memory ---- */

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

void *cpu_device_map(uintptr_t near, int fd, size_t len, size_t align)
{
	size_t more = align > page_size() ? align : 0;
	char *room, *at;

	/* Room first, in which an aligned place is found; the rest goes back. */
	room = mmap((void *)near, len + more, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	at = more ? (char *)(((uintptr_t)room + align - 1) & ~(align - 1)) : room;
	if (mmap(at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		munmap(room, len + more);
		return NULL;
	}
	if (at > room)
		munmap(room, (size_t)(at - room));
	if (at + len < room + len + more)
		munmap(at + len, (size_t)(room + more - at));
	return at;
}

/* Zeroed memory that two processes can map.  An fd, or a negative errno code. */
static int make_memory(size_t len)
{
	int fd = memfd_create("cpu-device", MFD_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)len))
		return fd;
	rc = errno == EINTR ? -EINTR : -ENOMEM;
	close(fd);
	return rc;
}

/* Whole pages for len bytes at align; -EINVAL, -ENOMEM for what cannot be. */
static int check_size(uint64_t *len, uint64_t *align)
{
	uint64_t page = page_size();

	if (!*len || (*align & (*align - 1)))
		return -EINVAL;
	if (*len > SIZE_MAX / 4 || *align > SIZE_MAX / 4)
		return -ENOMEM;
	*len = (*len + page - 1) & ~(page - 1);
	*align = *align < page ? page : *align;
	return 0;
}

static void add_memory(struct cpu_device *device, struct cpu_device_memory *memory)
{
	memory->next = device->memory;
	device->memory = memory;
	atomic_fetch_add(memory->imported ? &device->imports : &device->allocs, 1);
}

/* reach: the host maps it as well, where the device's addresses are not the host's.  dup: an fd of it. */
static int alloc_locked(struct cpu_device *device, size_t len, size_t align, bool reach, int *dup,
			struct cpu_device_memory *memory)
{
	int fd = make_memory(len), rc;

	if (fd < 0)
		return fd;
	memory->len = len;
	rc = device->ways->map(device, fd, len, align, &memory->on_device);
	if (rc)
		goto close_fd;
	if (reach && device->ways->apart) {
		memory->on_host = cpu_device_map(0, fd, len, align);
		rc = memory->on_host ? 0 : -ENOMEM;
	}
	if (!rc && dup) {
		*dup = fd;
		return 0;
	}
	if (rc)
		device->ways->unmap(device, memory->on_device, len);
close_fd:
	close(fd);
	return rc;
}

static int alloc(struct cpu_device *device, uint64_t len, uint64_t align, bool reach, int *dup,
		 struct cpu_device_memory **out)
{
	struct cpu_device_memory *memory;
	int rc = check_size(&len, &align);

	if (rc)
		return rc;
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	pthread_mutex_lock(&device->lock);
	rc = alloc_locked(device, len, align, reach, dup, memory);
	if (!rc)
		add_memory(device, memory);
	pthread_mutex_unlock(&device->lock);
	if (rc)
		free(memory);
	else
		*out = memory;
	return rc;
}

/* Content goes by the kernel, which answers where reading memory would be fatal. */
static int fill_memory(int fd, const char *from, size_t len)
{
	while (len) {
		ssize_t n = write(fd, from, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		from += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static bool is_imported(const struct cpu_device *device, const char *host, size_t len)
{
	for (const struct cpu_device_memory *m = device->memory; m; m = m->next) {
		const char *begin = m->on_host;

		if (m->imported && begin < host + len && host < begin + m->len)
			return true;
	}
	return false;
}

/* The pages become the device's too: memory that both map takes their place, with their content. */
static int import_apart(struct cpu_device *device, struct cpu_device_memory *memory)
{
	int fd = make_memory(memory->len), rc;

	if (fd < 0)
		return fd;
	rc = fill_memory(fd, memory->on_host, memory->len);
	if (!rc)
		rc = device->ways->map(device, fd, memory->len, page_size(), &memory->on_device);
	if (!rc && mmap(memory->on_host, memory->len, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		rc = -errno;
		device->ways->unmap(device, memory->on_device, memory->len);
	}
	close(fd);
	return rc;
}

static int import(struct cpu_device *device, void *host, size_t len, void **on_device)
{
	struct cpu_device_memory *memory;
	int rc = 0;

	if (!len || (((uintptr_t)host | len) & (page_size() - 1)))
		return -EINVAL;
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return -ENOMEM;
	*memory = (struct cpu_device_memory){
		.on_device = host, .on_host = host, .len = len, .imported = true
	};
	pthread_mutex_lock(&device->lock);
	if (is_imported(device, host, len))
		rc = -EBUSY;
	else if (device->ways->apart)
		rc = import_apart(device, memory);
	if (!rc)
		add_memory(device, memory);
	pthread_mutex_unlock(&device->lock);
	if (rc)
		free(memory);
	else
		*on_device = memory->on_device;
	return rc;
}

/* The host keeps imported pages, and their content. */
static void undo_memory(struct cpu_device *device, struct cpu_device_memory *memory)
{
	if (device->ways->apart || !memory->imported)
		device->ways->unmap(device, memory->on_device, memory->len);
	if (memory->on_host && !memory->imported)
		munmap(memory->on_host, memory->len);
	free(memory);
}

void cpu_device_free(struct cpu_device *device, void *on_device)
{
	struct cpu_device_memory **at, *memory;

	if (!on_device)
		return;
	pthread_mutex_lock(&device->lock);
	at = &device->memory;
	while (*at && (*at)->on_device != on_device)
		at = &(*at)->next;
	memory = *at;
	if (memory) {
		*at = memory->next;
		undo_memory(device, memory);
	} else {
		fprintf(stderr, "cpu device %llu: free of %p, which is no memory of its\n",
			(unsigned long long)device->number, on_device);
	}
	atomic_fetch_add(&device->frees, 1); /* one too many is to be noticed as well */
	pthread_mutex_unlock(&device->lock);
}

int cpu_device_alloc(struct cpu_device *device, size_t len, void **on_device, void **on_host)
{
	struct cpu_device_memory *memory;
	int rc = alloc(device, len, 0, true, NULL, &memory);

	if (rc)
		return rc;
	*on_device = memory->on_device;
	*on_host = device->ways->apart ? memory->on_host : memory->on_device;
	return 0;
}

/* ---- struct fi_xpu_ops ---- */

static struct cpu_device *find_device(uint64_t number)
{
	struct cpu_device *device;

	pthread_mutex_lock(&devices_lock);
	device = devices;
	while (device && device->number != number)
		device = device->next;
	pthread_mutex_unlock(&devices_lock);
	return device;
}

static int ops_alloc(uint64_t number, uint64_t size, uint64_t align, uint64_t flags, void **ptr,
		     int *dmabuf_fd, uint64_t *dmabuf_offset)
{
	struct cpu_device *device = find_device(number);
	bool dmabuf = flags & FI_XPU_ALLOC_DMABUF;
	struct cpu_device_memory *memory;
	int rc, fd;

	if (!device)
		return -ENODEV;
	if ((flags & ~FI_XPU_ALLOC_DMABUF) || (dmabuf && (!dmabuf_fd || !dmabuf_offset)))
		return -EINVAL;
	rc = alloc(device, size, align, false, dmabuf ? &fd : NULL, &memory);
	if (rc)
		return rc;
	*ptr = memory->on_device;
	if (dmabuf) {
		*dmabuf_fd = fd;
		*dmabuf_offset = 0;
	}
	return 0;
}

static int ops_import(uint64_t number, void *host_addr, uint64_t size, uint64_t flags, void **ptr)
{
	struct cpu_device *device = find_device(number);

	if (!device)
		return -ENODEV;
	if (flags & ~FI_XPU_IMPORT_DEVICEMAP) /* no registers here */
		return -EOPNOTSUPP;
	return import(device, host_addr, size, ptr);
}

static void ops_free(uint64_t number, void *ptr)
{
	struct cpu_device *device = find_device(number);

	if (device)
		cpu_device_free(device, ptr);
	else
		fprintf(stderr, "cpu device %llu: free of %p, but no such device is open\n",
			(unsigned long long)number, ptr);
}

struct fi_xpu_ops *cpu_device_ops(void)
{
	static struct fi_xpu_ops ops = {
		.size = sizeof(ops), .alloc = ops_alloc, .import = ops_import, .free = ops_free
	};

	return &ops;
}

/* ---- devices ---- */

int cpu_device_open(enum cpu_device_mode mode, struct cpu_device **out)
{
	struct cpu_device *device = calloc(1, sizeof(*device));
	int fds[2], rc;

	if (!device)
		return -ENOMEM;
	device->ways = mode == CPU_DEVICE_PROCESS ? &cpu_device_process : &cpu_device_threads;
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_lock(&devices_lock);
	device->number = ++last_number;
	pthread_mutex_unlock(&devices_lock);
	rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) ? -errno : 0;
	if (rc)
		goto free_device;
	device->ended = fds[0];
	rc = device->ways->open(device, fds[1]);
	if (rc)
		goto close_ended;
	pthread_mutex_lock(&devices_lock);
	device->next = devices;
	devices = device;
	pthread_mutex_unlock(&devices_lock);
	*out = device;
	return 0;
close_ended:
	close(device->ended);
free_device:
	pthread_mutex_destroy(&device->lock);
	free(device);
	return rc;
}

void cpu_device_close(struct cpu_device *device)
{
	struct cpu_device **at = &devices;

	if (!device)
		return;
	pthread_mutex_lock(&devices_lock);
	while (*at != device)
		at = &(*at)->next;
	*at = device->next;
	pthread_mutex_unlock(&devices_lock);
	device->ways->close(device);
	while (device->memory) {
		struct cpu_device_memory *memory = device->memory;

		device->memory = memory->next;
		undo_memory(device, memory);
	}
	close(device->ended);
	pthread_mutex_destroy(&device->lock);
	free(device);
}

uint64_t cpu_device_number(const struct cpu_device *device)
{
	return device->number;
}

struct cpu_device_counts cpu_device_counts(const struct cpu_device *device)
{
	return (struct cpu_device_counts){ .allocs = atomic_load(&device->allocs),
					   .imports = atomic_load(&device->imports),
					   .frees = atomic_load(&device->frees) };
}

/* ---- kernels ---- */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Can something be read, or never again? */
static bool wait_readable(int fd, int timeout)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	int64_t end = timeout < 0 ? 0 : now_ms() + timeout;
	int n;

	while ((n = poll(&pollfd, 1, timeout)) < 0 && errno == EINTR)
		if (timeout > 0)
			timeout = end > now_ms() ? (int)(end - now_ms()) : 0;
	return n > 0;
}

int cpu_device_wait(struct cpu_device *device, int timeout)
{
	char byte;

	if (!device->running)
		return atomic_load(&device->dead) ? -EFAULT : 0;
	if (!wait_readable(device->ended, timeout))
		return -ETIMEDOUT;
	device->running = false;
	if (recv(device->ended, &byte, 1, 0) == 1) {
		device->ways->ended(device);
		return 0;
	}
	atomic_store(&device->dead, true);
	device->ways->ended(device);
	return -EFAULT;
}

int cpu_device_launch(struct cpu_device *device, cpu_device_kernel *kernel, const void *args,
		      size_t len, unsigned blocks, unsigned threads)
{
	int rc = cpu_device_wait(device, 0);

	if (rc)
		return rc == -ETIMEDOUT ? -EBUSY : rc;
	if (!kernel || !blocks || !threads || (len && !args))
		return -EINVAL;
	if (len > CPU_DEVICE_ARGS || blocks > CPU_DEVICE_THREADS_MAX / threads)
		return -E2BIG;
	rc = device->ways->launch(device, kernel, args, len, blocks, threads);
	device->running = !rc;
	return rc;
}

int cpu_device_kill(struct cpu_device *device)
{
	int rc = device->ways->kill(device);

	if (!rc)
		device->running = false;
	return rc;
}

/* ---- a device that is threads of this process ---- */

static int threads_open(struct cpu_device *device, int ended)
{
	device->socket = ended;
	return 0;
}

static void threads_close(struct cpu_device *device)
{
	cpu_run_end(device->run);
	close(device->socket);
}

static int threads_map(struct cpu_device *device, int fd, size_t len, size_t align,
		       void **on_device)
{
	(void)device;
	*on_device = cpu_device_map(0, fd, len, align);
	return *on_device ? 0 : -ENOMEM;
}

static void threads_unmap(struct cpu_device *device, void *on_device, size_t len)
{
	(void)device;
	munmap(on_device, len);
}

static int threads_launch(struct cpu_device *device, cpu_device_kernel *kernel, const void *args,
			  size_t len, unsigned blocks, unsigned threads)
{
	int rc = cpu_run_new(&device->run, kernel, args, len, blocks, threads, device->socket);

	if (!rc)
		cpu_run_go(device->run);
	return rc;
}

static void threads_ended(struct cpu_device *device)
{
	cpu_run_end(device->run);
	device->run = NULL;
}

static int threads_kill(struct cpu_device *device)
{
	(void)device;
	return -ENOTSUP;
}

const struct cpu_device_ways cpu_device_threads = {
	.open = threads_open,
	.close = threads_close,
	.map = threads_map,
	.unmap = threads_unmap,
	.launch = threads_launch,
	.ended = threads_ended,
	.kill = threads_kill,
	.apart = false,
};
