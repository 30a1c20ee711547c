/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file with the figures of this process's caches.  It is made anew under a name that is this process's
 * alone, never opened where something is; a leftover of an earlier process of this number goes.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/guard.h"
#include "core/base/log.h"
#include "core/mr/stats.h"

static_assert(sizeof(struct hmreg_cache_file) == 248 && sizeof(struct hmreg_cache_row) == 488,
	      "the layout is a contract: HMREG_CACHE_FILE_VERSION");
static_assert(sizeof(union hm_stats_image) == HM_STATS_FILE_BYTES, "no padding");

/* The file; written by its one writer alone.  map NULL: none. */
static struct {
	union hm_stats_image *map;
	uint64_t started;
	char path[PATH_MAX];
	dev_t dev;
	ino_t ino;
	pid_t pid;
} own;

/* When this process was started, as /proc/self/stat has it; 0: not told. */
static uint64_t start_time(void)
{
	char text[1024];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *at;

	if (fd >= 0)
		close(fd);
	if (len <= 0)
		return 0;
	text[len] = '\0';
	at = strrchr(text, ')'); /* the program's name may have anything in it; field 3 follows */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* Is it of another copy of this library in the same process? */
static bool is_living(int folder, const char *name)
{
	struct hmreg_cache_file head;
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool living = false;

	if (fd < 0)
		return false;
	if (pread(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head))
		living = head.magic == HMREG_CACHE_FILE_MAGIC && head.pid == (uint64_t)getpid() &&
			 own.started != 0 && head.started == own.started;
	close(fd);
	return living;
}

/* A new file of this name, or -1 with errno. */
static int create(int folder, const char *name)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(folder, name, flags, 0600);

	if (fd >= 0 || errno != EEXIST)
		return fd;
	if (is_living(folder, name)) {
		errno = EBUSY;
		return -1;
	}
	/* what a process of the same number left; a link goes itself, not what it leads to */
	if (unlinkat(folder, name, 0) != 0)
		return -1;
	return openat(folder, name, flags, 0600);
}

/* Give the file its size, so that writing it cannot run out of room, and map it.  0 or an errno. */
static int map_file(int fd)
{
	struct stat st;
	void *map;
	int err = posix_fallocate(fd, 0, (off_t)HM_STATS_FILE_BYTES);

	if (err != 0)
		return err;
	if (fstat(fd, &st) != 0)
		return errno;
	map = mmap(NULL, HM_STATS_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return errno;
	madvise(map, HM_STATS_FILE_BYTES, MADV_DONTFORK);
	own.map = map;
	own.dev = st.st_dev;
	own.ino = st.st_ino;
	own.pid = getpid();
	return 0;
}

/* In folder, whose path starts that of own.  0 or an errno; what names the step. */
static int open_in(int folder, const char *name, const char **what)
{
	int fd, err;

	*what = "cannot be made";
	fd = create(folder, name);
	if (fd < 0)
		return errno;
	*what = "has no room";
	err = map_file(fd);
	close(fd);
	if (err != 0)
		unlinkat(folder, name, 0);
	return err;
}

bool hm_stats_file_open(const char *folder)
{
	char real[PATH_MAX], name[32];
	const char *what = "has no folder";
	int dir, err;

	if (own.map)
		return true;
	if (getauxval(AT_SECURE)) {
		HM_WARN(FI_LOG_MR, "HMREG_CACHE_STATS is ignored: the program has more rights "
				   "than who started it");
		return false;
	}
	snprintf(name, sizeof(name), "hmreg-cache.%d", (int)getpid());
	own.started = start_time();
	dir = realpath(folder, real) ? open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	err = dir < 0 ? errno : open_in(dir, name, &what);
	if (dir >= 0)
		close(dir);
	if (err == EBUSY)
		what = "is kept by another copy of the library in this process";
	if (err != 0) {
		HM_WARN(FI_LOG_MR,
			"HMREG_CACHE_STATS=%s: the file %s %s (%s); no figures are kept in a file",
			folder, name, what, strerror(err));
		return false;
	}
	if ((size_t)snprintf(own.path, sizeof(own.path), "%s/%s", real, name) >= sizeof(own.path))
		own.path[0] = '\0';
	HM_INFO(FI_LOG_MR, "figures of registration caches are in %s/%s", real, name);
	return true;
}

/* ---- writing ---- */

static void put(uint64_t *to, uint64_t value)
{
	if (__atomic_load_n(to, __ATOMIC_RELAXED) != value)
		__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

static void store(void *arg)
{
	const union hm_stats_image *image = arg;
	size_t head = sizeof(struct hmreg_cache_file) / sizeof(uint64_t);

	for (size_t i = head; i < sizeof(*image) / sizeof(uint64_t); i++)
		put(&own.map->word[i], image->word[i]);
	for (size_t i = 1; i < head; i++)
		put(&own.map->word[i], image->word[i]);
	__atomic_store_n(&own.map->file.head.magic, HMREG_CACHE_FILE_MAGIC, __ATOMIC_RELEASE);
}

bool hm_stats_file_write(union hm_stats_image *image)
{
	struct hmreg_cache_file *head = &image->file.head;
	struct iovec map = { own.map, HM_STATS_FILE_BYTES };

	if (!own.map)
		return false;
	head->version = HMREG_CACHE_FILE_VERSION;
	head->header_size = sizeof(struct hmreg_cache_file);
	head->row_size = sizeof(struct hmreg_cache_row);
	head->rows = HMREG_CACHE_FILE_ROWS;
	head->pid = (uint64_t)own.pid;
	head->started = own.started;
	if (hm_guard_run(store, image, &map, 1) == 0)
		return true;
	HM_WARN(FI_LOG_MR, "%s was cut short by somebody; no figures are kept in it any more",
		own.path);
	return false;
}

/* ---- the end ---- */

void hm_stats_file_forget(void)
{
	own.map = NULL; /* it is not mapped here (MADV_DONTFORK) */
	own.path[0] = '\0';
	own.pid = 0;
}

/* At exit.  Not a file of this name that somebody else put there. */
__attribute__((destructor)) static void remove_file(void)
{
	struct stat st;

	if (own.pid == getpid() && own.path[0] && lstat(own.path, &st) == 0 &&
	    st.st_dev == own.dev && st.st_ino == own.ino)
		unlink(own.path);
}
