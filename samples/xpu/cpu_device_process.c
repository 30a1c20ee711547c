/* SPDX-License-Identifier: BSD-2-Clause */
/* The CPU device as a process, the host's side: see cpu_device_own.h. */
#include "cpu_device_own.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#endif
#ifndef ADDRESS_SANITIZER
#define ADDRESS_SANITIZER 0
#endif
#ifndef THREAD_SANITIZER
#define THREAD_SANITIZER 0
#endif

/*
 * Where devices put their memory: 4 GiB each, then from the start again.  No process maps anything there by
 * itself, nor does a sanitizer, but to each its own place.
 */
#define MEMORY_BEGIN (ADDRESS_SANITIZER ? 0x200000000000u : 0x1000000000u)
#define MEMORY_STEP  0x100000000u
#define MEMORY_STEPS 96u

extern char **environ;
extern char __executable_start[], etext[];

/* ---- talk ---- */

/* -ENODEV: the device has died.  Under the device's lock. */
static int ask(struct cpu_device *device, const struct cpu_device_ask *question, int fd,
	       uint64_t *address)
{
	struct cpu_device_answer answer;

	if (atomic_load(&device->dead))
		return -ENODEV;
	if (cpu_device_send(device->socket, question, sizeof(*question), fd) ||
	    cpu_device_receive(device->socket, &answer, sizeof(answer), NULL)) {
		atomic_store(&device->dead, true);
		return -ENODEV;
	}
	if (!answer.status && address)
		*address = answer.address;
	return answer.status;
}

/* ---- life ---- */

/* The program itself; a path where there is one, as valgrind knows better than the kernel what runs. */
static void find_program(char *path, size_t room)
{
	ssize_t n = readlink("/proc/self/exe", path, room - 1);

	path[n > 0 ? n : 0] = '\0';
	if (access(path, X_OK))
		snprintf(path, room, "/proc/self/exe");
}

/* The environment and the variable; its strings are not copied. */
static char **environment_with(char *variable)
{
	size_t count = 0;
	char **list;

	while (environ && environ[count])
		count++;
	list = malloc((count + 2) * sizeof(*list));
	if (!list)
		return NULL;
	if (count)
		memcpy(list, environ, count * sizeof(*list));
	list[count] = variable;
	list[count + 1] = NULL;
	return list;
}

/* No signal is blocked or ignored because it was here, and no fd stays but the socket. */
static int spawn_with(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, int socket,
		      char **environment, pid_t *pid)
{
	char path[PATH_MAX], name[] = "cpu-device";
	char *arguments[] = { name, NULL };
	sigset_t all, none;
	int rc;

	find_program(path, sizeof(path));
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_setsigdefault(attr, &all);
	posix_spawnattr_setsigmask(attr, &none);
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	rc = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(actions, socket, CPU_DEVICE_SOCKET);
	if (!rc)
		rc = posix_spawn_file_actions_addclosefrom_np(actions, CPU_DEVICE_SOCKET + 1);
	if (!rc)
		rc = posix_spawn(pid, path, actions, attr, arguments, environment);
	return -rc;
}

/*
 * A host whose addresses are not random has its device's lie elsewhere, or the host's pointers would lead to
 * something there.  (The thread sanitizer may bear no random ones.)  Returns what to go back to.
 */
static int randomize_addresses(void)
{
	int before = personality(0xffffffff);

	if (before != -1 && (before & ADDR_NO_RANDOMIZE) && !THREAD_SANITIZER)
		personality((unsigned long)(before & ~ADDR_NO_RANDOMIZE));
	return before;
}

static int spawn(int socket, pid_t *pid)
{
	char variable[64];
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	char **environment;
	int rc = -ENOMEM, before;

	snprintf(variable, sizeof(variable), "%s=%d", cpu_device_variable, (int)getpid());
	environment = environment_with(variable);
	if (!environment || posix_spawn_file_actions_init(&actions))
		goto free_environment;
	if (posix_spawnattr_init(&attr))
		goto destroy_actions;
	before = randomize_addresses();
	rc = spawn_with(&actions, &attr, socket, environment, pid);
	if (before != -1)
		personality((unsigned long)before);
	posix_spawnattr_destroy(&attr);
destroy_actions:
	posix_spawn_file_actions_destroy(&actions);
free_environment:
	free(environment);
	return rc;
}

/* There is no process any more; why it ended is told, unless it was us. */
static void reap(struct cpu_device *device, bool told)
{
	int status = 0;
	pid_t pid;

	pthread_mutex_lock(&device->lock);
	atomic_store(&device->dead, true);
	if (device->pid > 0) {
		kill(device->pid, SIGKILL); /* changes nothing for one that is ending */
		do
			pid = waitpid(device->pid, &status, 0);
		while (pid < 0 && errno == EINTR);
		if (told && pid > 0)
			fprintf(stderr, "cpu device %llu: died by %s %d\n",
				(unsigned long long)device->number,
				WIFSIGNALED(status) ? "signal" : "exit status",
				WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		device->pid = 0;
	}
	pthread_mutex_unlock(&device->lock);
}

static void process_close(struct cpu_device *device)
{
	reap(device, atomic_load(&device->dead));
	close(device->socket);
}

static int process_open(struct cpu_device *device, int ended)
{
	struct cpu_device_ask hello = { .word = CPU_DEVICE_HELLO };
	int fds[2], rc;

	hello.address = MEMORY_BEGIN + device->number % MEMORY_STEPS * MEMORY_STEP;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		rc = -errno;
		close(ended);
		return rc;
	}
	device->socket = fds[0];
	rc = spawn(fds[1], &device->pid);
	close(fds[1]);
	if (!rc)
		rc = ask(device, &hello, ended, NULL);
	close(ended);
	if (rc)
		process_close(device);
	return rc;
}

static void process_ended(struct cpu_device *device)
{
	if (atomic_load(&device->dead))
		reap(device, true);
}

static int process_kill(struct cpu_device *device)
{
	reap(device, false);
	return 0;
}

/* ---- memory and launches ---- */

static int process_map(struct cpu_device *device, int fd, size_t len, size_t align,
		       void **on_device)
{
	struct cpu_device_ask map = { .word = CPU_DEVICE_MAP, .len = len, .align = align };
	uint64_t address;
	int rc = ask(device, &map, fd, &address);

	if (!rc)
		*on_device = (void *)(uintptr_t)address;
	return rc;
}

static void process_unmap(struct cpu_device *device, void *on_device, size_t len)
{
	struct cpu_device_ask unmap = { .word = CPU_DEVICE_UNMAP, .len = len };

	unmap.address = (uintptr_t)on_device;
	ask(device, &unmap, -1, NULL); /* a device that has died has no memory */
}

static int process_launch(struct cpu_device *device, cpu_device_kernel *kernel, const void *args,
			  size_t len, unsigned blocks, unsigned threads)
{
	struct cpu_device_ask run = {
		.word = CPU_DEVICE_RUN, .blocks = blocks, .threads = threads, .len = len
	};
	uintptr_t at = (uintptr_t)kernel, begin = (uintptr_t)__executable_start;
	int rc;

	if (at < begin || at >= (uintptr_t)etext) /* a library's: who knows where it is there */
		return -EINVAL;
	run.address = at - begin;
	if (len)
		memcpy(run.args, args, len);
	pthread_mutex_lock(&device->lock);
	rc = ask(device, &run, -1, NULL);
	pthread_mutex_unlock(&device->lock);
	return rc;
}

const struct cpu_device_ways cpu_device_process = {
	.open = process_open,
	.close = process_close,
	.map = process_map,
	.unmap = process_unmap,
	.launch = process_launch,
	.ended = process_ended,
	.kill = process_kill,
	.apart = true,
};
