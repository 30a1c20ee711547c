/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-info: the file with a process's figures.  It is in a folder that others may write to, so it is read
 * once into memory, never mapped, followed to no other place, and believed only if it is of the process's
 * owner, this user, or root.
 */
#define _POSIX_C_SOURCE 200809L

#include "info_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../common.h"

#define VARIABLE    "HMREG_CACHE_STATS"
#define PAUSE_NANOS 5000000 /* longer than it takes to write a row */

/* All of a file below /proc, as much as fits; its length. */
static size_t read_proc(pid_t pid, const char *name, char *text, size_t room)
{
	char path[64];
	size_t len = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && len < room - 1 && (got = read(fd, text + len, room - 1 - len)) > 0)
		len += (size_t)got;
	if (fd >= 0)
		close(fd);
	text[len] = '\0';
	return len;
}

/* When the process was started; 0: there is none. */
static uint64_t start_time(pid_t pid)
{
	char text[1024];
	const char *at;
	int field;

	if (!read_proc(pid, "stat", text, sizeof(text)))
		return 0;
	at = strrchr(text, ')'); /* the name before it may have anything in it; field 3 follows */
	for (field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* The folder that the process was started with; "" where that is not to be seen. */
static void folder_of(pid_t pid, char *folder, size_t room)
{
	const size_t most = (size_t)1 << 20;
	char *text = malloc(most), *at;
	size_t len = text ? read_proc(pid, "environ", text, most) : 0;

	folder[0] = '\0';
	for (at = text; len && at < text + len; at += strlen(at) + 1) {
		if (!strncmp(at, VARIABLE "=/", sizeof(VARIABLE "=/") - 1))
			snprintf(folder, room, "%s", at + sizeof(VARIABLE));
	}
	free(text);
}

static int refuse(const char *path, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", sample_program, path, why);
	return -1;
}

/* May the owner of the file tell of the process? */
static bool is_believed(const struct stat *file, pid_t pid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return file->st_uid == 0 || file->st_uid == geteuid() ||
	       (!stat(path, &st) && st.st_uid == file->st_uid);
}

/* Read the whole file once and understand it. */
static int look(int fd, size_t size, const char *path, struct info_cache *out)
{
	char why[128], *data = malloc(size ? size : 1);
	size_t len = 0;
	ssize_t got = 0;
	int ret;

	if (!data)
		return refuse(path, "no memory for it");
	while (len < size && (got = pread(fd, data + len, size - len, (off_t)len)) > 0)
		len += (size_t)got;
	ret = got < 0 ? refuse(path, strerror(errno))
		      : info_cache_parse(data, len, out, why, sizeof(why));
	if (ret && got >= 0)
		refuse(path, why);
	free(data);
	return ret;
}

/* Twice, so that rows which were being given to another cache are left out. */
static int look_twice(int fd, size_t size, const char *path, struct info_cache *out)
{
	struct info_cache later;
	int ret = look(fd, size, path, out);

	if (ret)
		return ret;
	nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NANOS }, NULL);
	ret = look(fd, size, path, &later);
	if (ret) {
		info_cache_free(out);
		return ret;
	}
	info_cache_confirm(out, &later);
	info_cache_free(&later);
	return 0;
}

static int read_file(int fd, pid_t pid, const char *path, struct info_cache *out)
{
	uint64_t started;
	struct stat st;

	if (fstat(fd, &st))
		return refuse(path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return refuse(path, "it is no regular file");
	if (!is_believed(&st, pid))
		return refuse(path, "it belongs neither to the process's user nor to you");
	if ((uint64_t)st.st_size > INFO_CACHE_MOST_BYTES)
		return refuse(path, "it is too large for a file with figures");
	if (look_twice(fd, (size_t)st.st_size, path, out))
		return -1;
	if (out->pid != (uint64_t)pid) {
		info_cache_free(out);
		return refuse(path, "it is of another process");
	}
	started = start_time(pid);
	out->ended = !started || (out->started && out->started != started);
	return 0;
}

static int tell_absent(pid_t pid, const char *path)
{
	if (!start_time(pid))
		return refuse(path, "there is no such file, and no such process");
	refuse(path, "there is no such file");
	fprintf(stderr,
		"%s: a process keeps one if it was started with " VARIABLE
		"=FOLDER, from the first operation that its cache serves on\n",
		sample_program);
	return -1;
}

int info_cache_read(pid_t pid, const char *folder, struct info_cache *out)
{
	char found[PATH_MAX], path[PATH_MAX + 32];
	int fd, ret;

	if (!folder || !*folder)
		folder = getenv(VARIABLE);
	if (!folder || !*folder) {
		folder_of(pid, found, sizeof(found));
		folder = found;
	}
	if (!*folder) {
		fprintf(stderr,
			"%s: process %d: in which folder? Give --stats-dir FOLDER, or set " VARIABLE
			"; the process's own cannot be seen or has none\n",
			sample_program, (int)pid);
		return -1;
	}
	snprintf(path, sizeof(path), "%s/hmreg-cache.%d", folder, (int)pid);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return tell_absent(pid, path);
	if (fd < 0)
		return refuse(path, errno == ELOOP ? "it is a symbolic link" : strerror(errno));
	ret = read_file(fd, pid, path, out);
	close(fd);
	return ret;
}
