/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues.  The descriptor is one end of a socket pair that holds one byte, the token, while the queue has
 * entries.  A reader takes the token (so it waits, or not, as the descriptor's flags say), then the mutex and
 * an entry, and puts the token back if more entries are there.
 */
#include "tests/drivers/verbs/emu.h"

#include <sys/socket.h>
#include <unistd.h>

static void token_put(struct emu_channel *channel)
{
	while (send(channel->write_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void token_drain(struct emu_channel *channel)
{
	char bytes[16];

	while (recv(channel->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

int emu_channel_open(struct emu_channel *channel)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return errno;
	channel->fd = fds[0];
	channel->write_fd = fds[1];
	hm_list_init(&channel->queue);
	return 0;
}

void emu_channel_close(struct emu_channel *channel)
{
	close(channel->fd);
	close(channel->write_fd);
}

void emu_channel_push(struct emu_channel *channel, struct hm_list *entry)
{
	bool empty = hm_list_empty(&channel->queue);

	hm_list_add_tail(&channel->queue, entry);
	if (empty)
		token_put(channel);
}

void emu_channel_remove(struct emu_channel *channel, struct hm_list *entry)
{
	int error = errno;

	hm_list_del(entry);
	if (hm_list_empty(&channel->queue))
		token_drain(channel);
	errno = error;
}

struct hm_list *emu_channel_pop(struct emu_channel *channel)
{
	struct hm_list *entry;
	char token;

	for (;;) {
		if (recv(channel->fd, &token, 1, 0) != 1)
			return NULL;
		emu_enter();
		if (!hm_list_empty(&channel->queue))
			break;
		emu_leave();
	}
	entry = channel->queue.next;
	emu_channel_remove(channel, entry);
	if (!hm_list_empty(&channel->queue))
		token_put(channel);
	return entry;
}
