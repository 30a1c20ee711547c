/* SPDX-License-Identifier: BSD-2-Clause */
/* The CPU device, what the host and a device's process say to each other: see cpu_device_own.h. */
#include "cpu_device_own.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

union fd_message {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

int cpu_device_send(int socket, const void *data, size_t len, int fd)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	union fd_message control = { 0 };
	ssize_t n;

	if (fd >= 0) {
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.room);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	}
	do
		n = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)len ? 0 : -EPIPE;
}

int cpu_device_receive(int socket, void *data, size_t len, int *fd)
{
	struct iovec iov = { .iov_base = data, .iov_len = len };
	union fd_message control = { 0 };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = fd ? &control : NULL,
				  .msg_controllen = fd ? sizeof(control.room) : 0 };
	ssize_t n;

	do
		n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (fd) {
		const struct cmsghdr *first = n < 0 ? NULL : CMSG_FIRSTHDR(&message);

		*fd = -1;
		if (first && first->cmsg_type == SCM_RIGHTS)
			memcpy(fd, CMSG_DATA(first), sizeof(*fd));
	}
	return n == (ssize_t)len ? 0 : -EPIPE;
}
