/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How nodes find each other: node 0 listens, the others connect to it and say which they are.  After that all that
 * passes is ag_exchange(), in which everyone takes part.  Whoever ends closes its connection, which the others see.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

#include "allgather.h"

#define MAGIC 0x61676831u

struct hello {
	uint32_t magic, nodes, node;
};

/* ---- bytes ---- */

static int gone(unsigned int node)
{
	fprintf(stderr, "node %u has ended, or its connection has\n", node);
	return -FI_ECONNABORTED;
}

/*
 * Send, or with in receive, all of it before the deadline; completion queues are looked at meanwhile, because what
 * peers write may need this process to make progress.
 */
static int pass(struct ag_world *w, unsigned int node, void *bytes, size_t len, bool in,
		double deadline)
{
	int fd = w->boot.fd[node];
	char *at = bytes;

	while (len > 0) {
		struct pollfd p = { .fd = fd, .events = in ? POLLIN : POLLOUT };
		ssize_t n = in ? recv(fd, at, len, MSG_DONTWAIT)
			       : send(fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		int found;

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return gone(node);
		if (n > 0) {
			at += n;
			len -= (size_t)n;
			continue;
		}
		found = ag_poll(w);
		if (found < 0)
			return found;
		if (ag_now() > deadline) {
			fprintf(stderr, "node %u has been silent for %u seconds\n", node,
				w->options.timeout_s);
			return -FI_ETIMEDOUT;
		}
		if (!found)
			poll(&p, 1, 1);
	}
	return 0;
}

int ag_exchange(struct ag_world *w, const void *mine, size_t len, void *all)
{
	double deadline = ag_now() + w->options.timeout_s;
	unsigned int me = w->options.node, nodes = w->options.nodes;
	char *place = all;
	int ret = 0;

	memcpy(place + me * len, mine, len);
	if (nodes == 1)
		return 0;
	if (me) {
		ret = pass(w, 0, place + me * len, len, false, deadline);
		return ret ? ret : pass(w, 0, all, nodes * len, true, deadline);
	}
	for (unsigned int i = 1; i < nodes && !ret; i++)
		ret = pass(w, i, place + i * len, len, true, deadline);
	for (unsigned int i = 1; i < nodes && !ret; i++)
		ret = pass(w, i, all, nodes * len, false, deadline);
	return ret;
}

int ag_boot_alive(struct ag_world *w)
{
	for (unsigned int i = 0; i < w->options.nodes; i++) {
		char byte;
		ssize_t n = w->boot.fd[i] < 0
				    ? 1
				    : recv(w->boot.fd[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return gone(i);
	}
	return 0;
}

/* ---- connections ---- */

static int look_up(const char *at, struct addrinfo **list)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const char *colon = strrchr(at, ':');
	char host[128];
	int ret;

	if (!colon || colon == at || !colon[1] || (size_t)(colon - at) >= sizeof(host)) {
		fprintf(stderr, "%s is not HOST:PORT\n", at);
		return -FI_EINVAL;
	}
	if (*at == '[' && colon[-1] == ']') /* IPv6 */
		snprintf(host, sizeof(host), "%.*s", (int)(colon - at) - 2, at + 1);
	else
		snprintf(host, sizeof(host), "%.*s", (int)(colon - at), at);
	ret = getaddrinfo(host, colon + 1, &hints, list);
	if (ret)
		fprintf(stderr, "%s: %s\n", at, gai_strerror(ret));
	return ret ? -FI_EADDRNOTAVAIL : 0;
}

/* Node 0: a node has connected. */
static int welcome(struct ag_world *w, int fd, double deadline)
{
	struct hello hello = { 0 };
	int ret;

	w->boot.fd[0] = fd; /* for pass(); it gets its own place below */
	ret = pass(w, 0, &hello, sizeof(hello), true, deadline);
	w->boot.fd[0] = -1;
	if (!ret && hello.magic == MAGIC && hello.nodes == w->options.nodes && hello.node > 0 &&
	    hello.node < w->options.nodes && w->boot.fd[hello.node] < 0) {
		w->boot.fd[hello.node] = fd;
		return 0;
	}
	close(fd);
	if (ret)
		return ret;
	if (hello.magic != MAGIC)
		fputs("what has connected is no node of this program, version and byte order\n",
		      stderr);
	else
		fprintf(stderr,
			"node %u of %u has come, which is not expected: there are %u nodes, "
			"and each comes once\n",
			hello.node, hello.nodes, w->options.nodes);
	return -FI_EINVAL;
}

static int wait_for_nodes(struct ag_world *w, int listener, double deadline)
{
	int ret = 0;

	for (unsigned int here = 1; here < w->options.nodes && !ret;) {
		struct pollfd p = { .fd = listener, .events = POLLIN };
		int fd = poll(&p, 1, 50) > 0 ? accept(listener, NULL, NULL) : -1;

		if (fd >= 0) {
			ret = welcome(w, fd, deadline);
			here++;
		} else if (ag_now() > deadline) {
			fprintf(stderr, "%u of %u nodes have come within %u seconds\n", here,
				w->options.nodes, w->options.timeout_s);
			ret = -FI_ETIMEDOUT;
		}
	}
	return ret;
}

static int listen_at(struct ag_world *w, const struct addrinfo *a, double deadline)
{
	int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol), one = 1, ret;

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, AG_NODES)) {
		ret = -errno;
		fprintf(stderr, "listening at %s: %s\n", w->options.at, strerror(errno));
	} else {
		ret = wait_for_nodes(w, fd, deadline);
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

/* Node 0 may not be there yet. */
static int connect_to(struct ag_world *w, const struct addrinfo *a, double deadline)
{
	struct hello hello = { MAGIC, w->options.nodes, w->options.node };

	for (;;) {
		int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);

		if (fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen)) {
			w->boot.fd[0] = fd;
			return pass(w, 0, &hello, sizeof(hello), false, deadline);
		}
		if (fd < 0 || ag_now() > deadline) {
			int error = errno;

			fprintf(stderr, "node 0 at %s: %s\n", w->options.at, strerror(error));
			if (fd >= 0)
				close(fd);
			return -FI_ETIMEDOUT;
		}
		close(fd);
		poll(NULL, 0, 50);
	}
}

int ag_boot_open(struct ag_world *w)
{
	double deadline = ag_now() + w->options.timeout_s;
	struct addrinfo *list;
	int ret;

	if (w->options.nodes == 1)
		return 0;
	ret = look_up(w->options.at, &list);
	if (ret)
		return ret;
	ret = w->options.node ? connect_to(w, list, deadline) : listen_at(w, list, deadline);
	freeaddrinfo(list);
	return ret;
}

void ag_boot_close(struct ag_world *w)
{
	for (unsigned int i = 0; i < AG_NODES; i++) {
		if (w->boot.fd[i] >= 0)
			close(w->boot.fd[i]);
		w->boot.fd[i] = -1;
	}
}
