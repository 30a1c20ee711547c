/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a test body in a process of its own, because the library reads its environment once. The
 * child's standard error is a packet socket, so that every write(2) can be told from the next.
 * Include after <cmocka.h>.
 */
#ifndef HM_TEST_CHILD_H
#define HM_TEST_CHILD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/params_priv.h"

struct child {
	pid_t pid;
	size_t writes;
	bool whole_lines; /* each write was one line, with its newline */
	size_t len;
	char text[128 * 1024];
};

/* In a child's body: where it fails is printed, and the parent's test fails. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* env is a list of "NAME=value" that ends with NULL; no other parameter of ours is set. */
static inline void child_start(const char *const *env, int fd, void (*body)(void))
{
	for (int i = 0; i < HM_PARAM_COUNT; i++)
		unsetenv(hm_param_table[i].name);
	for (; env && *env; env++)
		putenv((char *)(uintptr_t)*env);
	dup2(fd, STDERR_FILENO);
	close(fd);
	body();
	exit(0);
}

static inline void child_run(struct child *child, const char *const *env, void (*body)(void))
{
	int fds[2], status;
	ssize_t n;

	memset(child, 0, sizeof(*child));
	child->whole_lines = true;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	fflush(NULL);
	child->pid = fork();
	assert_true(child->pid >= 0);
	if (child->pid == 0) {
		close(fds[0]);
		child_start(env, fds[1], body);
	}
	close(fds[1]);
	while ((n = recv(fds[0], child->text + child->len, sizeof(child->text) - child->len - 1,
			 0)) > 0) {
		char *packet = child->text + child->len;

		child->writes++;
		if (memchr(packet, '\n', (size_t)n) != packet + n - 1)
			child->whole_lines = false;
		child->len += (size_t)n;
		assert_true(child->len + 4096 < sizeof(child->text));
	}
	close(fds[0]);
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		print_message("child's standard error:\n%s", child->text);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
