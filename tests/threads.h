/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of the process: how many there are, which tests compare with what it was, and forks beside them. */
#ifndef HM_TEST_THREADS_H
#define HM_TEST_THREADS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline size_t test_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	size_t count = 0;

	if (!dir)
		abort();
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Not more than there were?  One that was joined may be there for a moment longer, now as well as before. */
static inline bool test_threads_back(size_t before)
{
	for (int i = 0; i < 20000 && test_threads() > before; i++)
		usleep(1000);
	return test_threads() <= before;
}

/* One that is gone sleeps as well. */
static inline bool test_thread_sleeps(const char *tid)
{
	char path[64], text[512];
	const char *name_ends;
	size_t len;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", tid);
	file = fopen(path, "r");
	if (!file)
		return true;
	len = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[len] = 0;
	name_ends = strrchr(text, ')');
	return !name_ends || (name_ends[1] == ' ' && name_ends[2] == 'S');
}

/* Do all threads sleep but the one that asks? */
static inline bool test_others_sleep(void)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	bool sleep = true;

	if (!dir)
		abort();
	while (sleep && (entry = readdir(dir)))
		sleep = entry->d_name[0] == '.' || atoi(entry->d_name) == gettid() ||
			test_thread_sleeps(entry->d_name);
	closedir(dir);
	return sleep;
}

/*
 * A fork beside threads that sleep: not beside one that starts, which may hold the lock of a sanitizer's allocator,
 * for which the child would wait for ever.  Where they never sleep, a fork after some seconds.
 */
static inline pid_t test_fork(void)
{
	for (int slept = 0, i = 0; test_threads() > 1 && slept < 2 && i < 5000; i++) {
		slept = test_others_sleep() ? slept + 1 : 0;
		usleep(1000);
	}
	return fork();
}

#endif
