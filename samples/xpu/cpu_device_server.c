/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CPU device as a process: see cpu_device_own.h.
 *
 * The program has been executed once more, with one socket to its parent.  Before its main() it becomes the
 * device, whose first thread does what the host asks for, while others run kernels.
 */
#include "cpu_device_own.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Its memory lies where a process maps nothing by itself: an address of the device's means nothing there. */
#define MEMORY_ROOM (4ull << 30)

struct server {
	uintptr_t begin, next; /* of its memory */
	int ended;
	struct cpu_run *run; /* the latest */
};

extern char __executable_start[];

const char cpu_device_variable[] = "HMREG_CPU_DEVICE";

static int serve_hello(struct server *server, const struct cpu_device_ask *ask, int *fd)
{
	if (*fd < 0) /* not received: no number is free */
		return -EMFILE;
	server->begin = server->next = ask->address;
	server->ended = *fd;
	*fd = -1;
	return 0;
}

static int serve_map(struct server *server, const struct cpu_device_ask *ask, int fd,
		     uint64_t *address)
{
	void *at;

	if (fd < 0)
		return -EMFILE;
	at = cpu_device_map(server->next, fd, ask->len, ask->align);
	if (!at)
		return -ENOMEM;
	*address = (uintptr_t)at;
	server->next = (uintptr_t)at + ask->len;
	if (server->next - server->begin > MEMORY_ROOM)
		server->next = server->begin;
	return 0;
}

static int serve_run(struct server *server, const struct cpu_device_ask *ask)
{
	char *kernel = __executable_start + ask->address;

	cpu_run_end(server->run); /* the host knows its end */
	server->run = NULL;
	return cpu_run_new(&server->run, (cpu_device_kernel *)(uintptr_t)kernel, ask->args,
			   ask->len, ask->blocks, ask->threads, server->ended);
}

static void serve(struct server *server, const struct cpu_device_ask *ask, int *fd,
		  struct cpu_device_answer *answer)
{
	switch (ask->word) {
	case CPU_DEVICE_HELLO:
		answer->status = serve_hello(server, ask, fd);
		break;
	case CPU_DEVICE_MAP:
		answer->status = serve_map(server, ask, *fd, &answer->address);
		break;
	case CPU_DEVICE_UNMAP:
		answer->status = munmap((void *)ask->address, ask->len) ? -errno : 0;
		break;
	case CPU_DEVICE_RUN:
		answer->status = serve_run(server, ask);
		break;
	}
}

/* Who holds our socket's other end may outlive the parent, as a child of its; so the parent is watched too. */
static void wait_for_parent(int parent)
{
	struct pollfd fds[] = { { .fd = CPU_DEVICE_SOCKET, .events = POLLIN },
				{ .fd = parent, .events = POLLIN } };

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	if (fds[1].revents)
		_exit(0);
}

static _Noreturn void serve_all(int parent)
{
	static struct cpu_device_ask ask;
	static struct server server;

	for (;;) {
		struct cpu_device_answer answer = { .status = -EINVAL };
		int fd;

		wait_for_parent(parent);
		if (cpu_device_receive(CPU_DEVICE_SOCKET, &ask, sizeof(ask), &fd))
			_exit(0);
		serve(&server, &ask, &fd, &answer);
		if (fd >= 0)
			close(fd);
		if (cpu_device_send(CPU_DEVICE_SOCKET, &answer, sizeof(answer), -1))
			_exit(0);
		if (ask.word == CPU_DEVICE_RUN && !answer.status)
			cpu_run_go(server.run); /* told before it can end the process */
	}
}

/*
 * Tells which address it was, by means that a signal may use; then the instruction is tried again, and ends
 * the process.
 */
static void on_stray(int number, siginfo_t *info, void *context)
{
	char line[] = "cpu device: a kernel reached for 0x................\n";
	uintptr_t address = (uintptr_t)info->si_addr;
	int saved = errno;

	(void)number;
	(void)context;
	for (char *digit = line + sizeof(line) - 3; *digit == '.'; digit--, address /= 16)
		*digit = "0123456789abcdef"[address % 16];
	if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		_exit(1);
	errno = saved;
}

static void die_quietly(void)
{
	struct sigaction action = { .sa_sigaction = on_stray,
				    .sa_flags = SA_SIGINFO | (int)SA_RESETHAND };
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

__attribute__((constructor)) static void become_device(void)
{
	const char *variable = getenv(cpu_device_variable);
	pid_t parent;
	int watch;

	if (!variable)
		return;
	parent = (pid_t)atol(variable);
	watch = (int)syscall(SYS_pidfd_open, parent,
			     0); /* -1: too old a kernel; then the socket alone */
	if (getppid() != parent) {
		fprintf(stderr, "cpu device: process %d is gone, or no parent\n", (int)parent);
		_exit(1);
	}
	unsetenv(cpu_device_variable);
	die_quietly();
	serve_all(watch);
}
