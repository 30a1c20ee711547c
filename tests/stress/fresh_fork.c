/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Children that are forked while all threads are in the middle of something: they go on allocating, and end in each
 * way there is.  One that hangs shows where, and is a failure of its parent.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/stress/fresh.h"

#define BLOCKS	      16u
#define ROUNDS	      64u
#define CHILD_SECONDS 30u

static void allocate(uint64_t *random)
{
	void *block[BLOCKS] = { NULL };

	for (unsigned i = 0; i < ROUNDS; i++) {
		void **one = &block[stress_random(random) % BLOCKS];
		size_t len = fresh_size(random);
		uintptr_t at = fresh_mmap(0, len, MAP_PRIVATE | MAP_ANONYMOUS, -1);

		*one = i % 3 ? realloc(*one, len - 24) : *one;
		if (i % 3 == 0) {
			free(*one);
			*one = malloc(len + 8);
		}
		CHECK(at != 0 && *one);
		memset(*one, 1, 8);
		fresh_munmap(at, len);
	}
	for (unsigned i = 0; i < BLOCKS; i++)
		free(block[i]);
}

static void be_child(uint64_t *random, unsigned end)
{
	alarm(CHILD_SECONDS);
	allocate(random);
	if (end == 0)
		execl("/bin/true", "true", (char *)NULL);
#ifndef __SANITIZE_ADDRESS__ /* which looks for leaks at exit, of threads that are none of the child's */
	if (end == 1)
		exit(0);
#endif
	_exit(0);
}

void fresh_fork(uint64_t *random)
{
	static unsigned turn;
	unsigned end = turn++ % 3;
	int status = -1;
	pid_t child;

	fflush(stdout);
	pthread_mutex_lock(&fresh_loading);
	child = fork();
	pthread_mutex_unlock(&fresh_loading);
	CHECK(child >= 0);
	if (child == 0)
		be_child(random, end);
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR);
	if (status != 0)
		fprintf(stderr, "a child that was to end by %s: wait status %#x\n",
			end == 0   ? "execl"
			: end == 1 ? "exit"
				   : "_exit",
			(unsigned)status);
	CHECK(status == 0);
}
