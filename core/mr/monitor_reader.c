/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/mr/monitor_reader.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/thread.h"

static void ended_from_outside(void *arg)
{
	((struct hm_reader *)arg)->ended(((struct hm_reader *)arg)->told);
}

/* Until it is told to end, or cannot be told any more. */
static void read_on(struct hm_reader *reader)
{
	struct pollfd fds[2] = { { .fd = reader->fd, .events = POLLIN },
				 { .fd = reader->wake, .events = POLLIN } };

	for (;;) {
		int count = poll(fds, 2, reader->patience ? reader->patience() : -1);

		if (count > 0 && fds[1].revents)
			return;
		if (count > 0 && !reader->readable())
			return;
	}
}

static void *reader_thread(void *arg)
{
	struct hm_reader *reader = arg;

	pthread_cleanup_push(ended_from_outside, reader);
	read_on(reader);
	pthread_cleanup_pop(0);
	reader->ended(reader->told);
	return NULL;
}

int hm_reader_start(struct hm_reader *reader, int fd)
{
	int err;

	reader->fd = fd;
	reader->told = false;
	reader->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reader->wake < 0)
		return -errno;
	err = hm_thread_start(&reader->thread, reader->name, reader_thread, reader);
	reader->threaded = err == 0;
	if (err != 0)
		hm_reader_stop(reader);
	return -err;
}

void hm_reader_stop(struct hm_reader *reader)
{
	if (reader->threaded) {
		reader->told = true;
		if (eventfd_write(reader->wake, 1) != 0)
			pthread_cancel(reader->thread);
		pthread_join(reader->thread, NULL);
	}
	hm_reader_forked(reader);
}

void hm_reader_forked(struct hm_reader *reader)
{
	reader->threaded = false;
	if (reader->wake >= 0)
		close(reader->wake);
	reader->wake = -1;
}
