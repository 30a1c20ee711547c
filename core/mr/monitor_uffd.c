/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * userfaultfd(2): the kernel tells when watched memory is unmapped, moved or given back, whoever does it and
 * how.
 *
 * MODE.  Ranges are registered for write protection, and nothing is ever protected, so that no fault is ever
 * delivered.  Missing mode would do without Linux 5.7, but stops whoever touches a page that is absent until
 * a handler has filled it, and makes the kernel's own accesses (a NIC that pins, a read(2)) fail for users
 * without privilege; so where there is no write protection this monitor refuses.  For the same reason
 * UFFD_USER_MODE_ONLY costs nothing, and any user may have one.
 *
 * WHAT IS NOT FOLLOWED.  Mappings of files (but for shm_open(3) and memfd_create(2)), text and initialised data,
 * System V shared memory, and special mappings: the kernel refuses them, and their registrations are not kept.
 * Shared memory that is truncated, or punched holes into, by its descriptor, is not told of.
 *
 * WHEN THE KERNEL TELLS (Linux 6.18; the same since 5.14)
 *
 *   unmapping, moving (munmap, mmap over, mremap, brk)
 *                       lock the address space; mmap_changing is raised; the memory goes; unlock;
 *                       the event is queued; the caller sleeps until it was READ; mmap_changing is lowered
 *   giving back (madvise DONTNEED, FREE, REMOVE)
 *                       mmap_changing is raised; the event is queued; the caller sleeps until it was READ;
 *                       mmap_changing is lowered; the memory goes
 *
 * While mmap_changing is raised, UFFDIO_WRITEPROTECT on the descriptor answers -EAGAIN, whatever it is asked.
 *
 * WHY NO HIT IS STALE.  Of memory that is unmapped, by who asks for it next:
 *
 *   the thread that unmapped it, or one that learned from it that it may map there.  The unmapping
 *   returned, so the event was read; who read it had called hm_monitor_busy before, so a hit finds
 *   that a report is under way and waits, or that it was dealt with.
 *
 *   another thread, which maps the addresses while the event is still unread.  Their old registrations are
 *   live then.  It got them from the C library: memhooks, which are installed beside this monitor, report
 *   every new mapping before its addresses are returned, which ends whatever is kept of them; nothing kept of
 *   new addresses can be right.  Or HMREG_CACHE_STRICT is set: then each use asks the kernel first
 *   (mmap_changing was raised before the addresses were free to be mapped), and reads until it says that
 *   no change is under way.
 *   STILL OPEN: the memory is unmapped by a system call that memhooks do not see, in one thread, and mapped
 *   by such a system call in another, which uses it before the event is read, without HMREG_CACHE_STRICT.
 *
 * Of memory that is given back: the event ends what is kept, but it comes before the memory goes, so that a
 * registration made in between would take pages that are about to go.  madvise by the C library is reported
 * by memhooks, from before until after.  Otherwise the range counts as changing for a tenth of a second after the
 * event, and is not kept meanwhile.
 * STILL OPEN: a caller that is awake and gets no processor for longer than that, while another thread
 * registers the very pages.
 *
 * What memhooks report is not told a second time: the range is released from the descriptor first, which
 * spares the caller the wait for this monitor's thread.
 *
 * MAPPINGS.  What is followed is a mapping of its own for the kernel, apart from the rest of the one it was cut
 * out of.  A process may have so many of them, and needs them for itself: so no more ranges are followed than
 * would be half of these, and what is kept makes way for more.  mremap of both at once fails with EFAULT where it resizes; memhooks undo that and try again,
 * and realloc(3) copies then.  A program that calls the kernel itself, or sets HMREG_CACHE_STRICT, gets the
 * error.
 *
 * FORKS.  The child's descriptor is the parent's address space: the child gives it back at once, untouched.
 *
 * Locks: watch_lock for the counted ranges and the calls that set what the kernel watches; the thread that reads
 * takes none, allocates nothing and is woken by nobody else.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/cancel.h"
#include "core/base/log.h"
#include "core/base/params.h"
#include "core/mr/monitor.h"
#include "core/mr/monitor_priv.h"
#include "core/mr/monitor_ranges.h"
#include "core/mr/monitor_reader.h"
#include "core/mr/monitor_uffd.h"

/* Facts of linux/userfaultfd.h that old headers lack. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#define WANTED                                                                                     \
	(UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |         \
	 UFFD_FEATURE_PAGEFAULT_FLAG_WP)

#define EVENTS	   16
#define GIVEN_BACK 16
#define PAGE	   UINT64_C(4096) /* no page is smaller; ranges that are watched have whole ones */

/* A range whose memory is about to be given back; its change ends when it is due. */
struct given_back {
	unsigned number;
	uint64_t begin, end;
	int64_t due;
};

static struct {
	_Atomic int fd; /* ours; once the monitor does not work, dead or (program closed it) -1 */
	int dead;	/* ours; what fd is made when who sleeps on an event must go on */
	bool hooked, strict;
	uint64_t starts; /* the mark of what is watched: an earlier start's are none of this one's */
	bool failed;	 /* of the thread that reads: it is to tell so */
	_Atomic bool works;
	struct hm_ranges watched; /* under watch_lock */
	uint32_t most;		  /* of their pieces */
	/* of the thread that reads */
	struct given_back given[GIVEN_BACK];
	unsigned given_count;
} uffd = { .fd = -1, .dead = -1 };

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

void (*hm_uffd_at)(enum hm_uffd_stage stage);
int64_t hm_uffd_grace_nanos = 100000000;
int hm_uffd_strict = -1;
uint32_t hm_uffd_most;

/* ---- what the kernel is asked ---- */

/* 0: no change is under way; EAGAIN: one is, or its event is not read; others: the descriptor is no more. */
static int changing(void)
{
	struct uffdio_writeprotect nothing = { 0 };

	if (ioctl(uffd.fd, UFFDIO_WRITEPROTECT, &nothing) == 0 || errno == EINVAL)
		return 0;
	return errno;
}

static int follow(uint64_t begin, uint64_t end)
{
	struct uffdio_register ask = { .range = { begin, end - begin },
				       .mode = UFFDIO_REGISTER_MODE_WP };

	return ioctl(uffd.fd, UFFDIO_REGISTER, &ask) == 0 ? 0 : errno;
}

/* A failure means that there is nothing that could be watched. */
static void unfollow(uint64_t begin, uint64_t end)
{
	struct uffdio_range range = { begin, end - begin };

	(void)ioctl(uffd.fd, UFFDIO_UNREGISTER, &range);
}

/* ---- events ---- */

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Ends the changes that are due by then; returns milliseconds until the next, -1: there is none. */
static int end_given_back(int64_t by)
{
	unsigned left = 0;
	int64_t next = INT64_MAX;

	for (unsigned i = 0; i < uffd.given_count; i++) {
		struct given_back *given = &uffd.given[i];

		if (given->due <= by) {
			hm_monitor_end(given->number);
			continue;
		}
		next = given->due < next ? given->due : next;
		uffd.given[left++] = *given;
	}
	uffd.given_count = left;
	return left == 0 ? -1 : (int)((next - by) / 1000000) + 1;
}

static void given_back(uint64_t begin, uint64_t end)
{
	struct given_back *given = &uffd.given[uffd.given_count];
	struct given_back *last = given - 1;

	if (uffd.given_count < GIVEN_BACK) {
		uffd.given_count++;
		*given = (struct given_back){ hm_monitor_report(begin, end), begin, end,
					      now() + hm_uffd_grace_nanos };
		return;
	}
	/* As one with the last, and what is between the two. */
	begin = begin < last->begin ? begin : last->begin;
	end = end > last->end ? end : last->end;
	given = last;
	last = &(struct given_back){ hm_monitor_report(begin, end), begin, end,
				     now() + hm_uffd_grace_nanos };
	hm_monitor_end(given->number);
	*given = *last;
}

static void handle(const struct uffd_msg *msg)
{
	switch (msg->event) {
	case UFFD_EVENT_UNMAP:
		hm_monitor_changed(msg->arg.remove.start, msg->arg.remove.end);
		break;
	case UFFD_EVENT_REMOVE:
		given_back(msg->arg.remove.start, msg->arg.remove.end);
		break;
	case UFFD_EVENT_REMAP:
		hm_monitor_changed(msg->arg.remap.from, msg->arg.remap.from + msg->arg.remap.len);
		break;
	default:
		/* None was asked for.  What it says is not known. */
		hm_monitor_changed(0, UINT64_MAX);
	}
}

/* The descriptor is not ours any more: its number is free, or another file's. */
static bool lost(int err)
{
	return err == EBADF || err == ENOTTY;
}

static const char *why_unread(int err)
{
	return lost(err)       ? "the program has closed its descriptor"
	       : err == ENOMEM ? "the kernel has no memory for its events"
			       : "its descriptor cannot be read";
}

/*
 * Nothing is read any more.  Who sleeps until an event is read must not sleep on, but not go on either before
 * all that is kept has ended.
 */
static void stop_reading(const char *why, bool closed)
{
	if (!atomic_exchange(&uffd.works, false))
		return;
	uffd.failed = hm_monitor_fail_quietly(why);
	if (!closed && dup3(uffd.dead, uffd.fd, O_CLOEXEC) < 0)
		close(uffd.fd);
	else if (!closed)
		return;
	uffd.fd = -1;
}

/* Read what there is, and deal with it.  False: it cannot be read, and the monitor has failed. */
static bool read_events(void)
{
	struct uffd_msg msg[EVENTS];
	ssize_t len;
	int err, cancel = hm_cancel_off();

	if (hm_uffd_at)
		hm_uffd_at(HM_UFFD_UNREAD);
	hm_monitor_busy();
	/* A descriptor that the program closed may be another file now, whose data is not ours. */
	err = changing();
	len = err == 0 || err == EAGAIN ? read(uffd.fd, msg, sizeof(msg)) : -1;
	if (len >= 0 || err == 0 || err == EAGAIN)
		err = len < 0 ? errno : 0;
	if (len > 0 && hm_uffd_at)
		hm_uffd_at(HM_UFFD_READ);
	for (ssize_t i = 0; i < len / (ssize_t)sizeof(*msg); i++)
		handle(&msg[i]);
	err = len == 0 ? EIO : err == EAGAIN || err == EINTR ? 0 : err;
	if (err != 0)
		stop_reading(why_unread(err), lost(err));
	hm_monitor_done();
	hm_cancel_restore(cancel);
	return err == 0;
}

static void reader_ended(bool told)
{
	/* Told: nothing is kept any more. */
	if (told)
		atomic_store(&uffd.works, false);
	stop_reading("its thread was ended from outside", lost(changing()));
	end_given_back(INT64_MAX);
	/* This thread's own end may change memory that is watched: nobody must wait for events any more. */
	if (told && !lost(changing()))
		(void)dup3(uffd.dead, uffd.fd, O_CLOEXEC);
	/* Not before: a program's log may unmap what was watched. */
	if (uffd.failed)
		hm_monitor_tell_failure();
}

static int patience(void)
{
	return end_given_back(now());
}

static struct hm_reader reader = {
	.name = "hmreg-uffd",
	.patience = patience,
	.readable = read_events,
	.ended = reader_ended,
	.wake = -1,
};

/* Before a cache is asked, when the program wants it strict. */
static void uffd_settle(void)
{
	while (atomic_load(&uffd.works) && changing() == EAGAIN)
		sched_yield();
}

/* ---- watching ---- */

static void tell_most(void)
{
	static _Atomic bool told;

	if (!atomic_exchange(&told, true))
		HM_INFO(FI_LOG_MR,
			"%u ranges are followed by userfaultfd, each a mapping of its own for the "
			"kernel: as many as it leaves a process half of its mappings "
			"(vm.max_map_count); for more, those used longest ago end",
			uffd.most);
}

static void tell_once(uint64_t begin, uint64_t end, int err)
{
	static _Atomic bool told;

	hm_monitor_tell_unwatched(
		&told, hm_monitor_uffd.name, begin, end, err,
		err == EINVAL	? ", a mapping of a file, System V shared memory or a device"
		: err == EBUSY	? ", the program has its own userfaultfd on it"
		: err == ENOMEM ? ", too many mappings"
		: err == EPERM	? ", read-only shared memory"
				: "");
}

static int uffd_watch(uint64_t begin, uint64_t end, uint64_t *mark)
{
	int err = ENOSPC;

	/* Theirs may not succeed: the kernel tells all the same. */
	if (uffd.hooked)
		(void)hm_monitor_hooks.watch(begin, end, mark);
	*mark = uffd.starts;
	pthread_mutex_lock(&watch_lock);
	if (!atomic_load(&uffd.works)) {
		pthread_mutex_unlock(&watch_lock);
		return -FI_ENOSYS;
	}
	if (hm_ranges_add(&uffd.watched, begin, end) == 0) {
		/* Watched before or not: it may have been unmapped and mapped since, or released. */
		err = uffd.watched.pieces > uffd.most ? ENOSPC : follow(begin, end);
		if (err != 0)
			hm_ranges_remove(&uffd.watched, begin, end, unfollow);
	}
	pthread_mutex_unlock(&watch_lock);
	if (lost(err)) {
		/* Not ours to close; the thread finds out as soon as there is something to read. */
		uffd.fd = -1;
		hm_monitor_failed(why_unread(err));
	} else if (err == ENOSPC) {
		tell_most();
	} else if (err != 0) {
		tell_once(begin, end, err);
	}
	return -err;
}

static void uffd_unwatch(uint64_t begin, uint64_t end, uint64_t mark)
{
	pthread_mutex_lock(&watch_lock);
	if (atomic_load(&uffd.works) && mark == uffd.starts)
		hm_ranges_remove(&uffd.watched, begin, end, unfollow);
	pthread_mutex_unlock(&watch_lock);
}

/*
 * By a hook, inside an allocator: no lock.  What overlaps is dead, and what is registered of it until the change
 * has ended is not kept; so nothing is missed that a later watch does not ask for again.
 */
static void uffd_release(uint64_t begin, uint64_t end)
{
	int saved = errno;

	if (atomic_load(&uffd.works))
		unfollow(begin & ~(PAGE - 1), (end + PAGE - 1) & ~(PAGE - 1));
	errno = saved;
}

/* ---- start and stop ---- */

/* A descriptor that may only handle faults of user mode, which needs no privilege; or any, before Linux 5.11. */
static int open_either(int (*make)(int flags))
{
	int fd = make(O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd < 0 && errno == EINVAL)
		fd = make(O_CLOEXEC | O_NONBLOCK);
	return fd;
}

static int by_device(int flags)
{
	int node = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	int fd, err;

	if (node < 0)
		return -1;
	fd = ioctl(node, USERFAULTFD_IOC_NEW, flags);
	err = errno;
	close(node);
	errno = err;
	return fd;
}

static int by_call(int flags)
{
	return (int)syscall(SYS_userfaultfd, flags);
}

static int open_uffd(char *why, size_t size)
{
	int fd = open_either(by_device);

	if (fd < 0)
		fd = open_either(by_call);
	if (fd >= 0)
		return fd;
	snprintf(why, size,
		 errno == ENOSYS ? "the kernel has no userfaultfd (errno %d)"
		 : errno == EPERM
			 ? "the kernel, or a filter of system calls, does not allow userfaultfd "
			   "(errno %d), nor is /dev/userfaultfd to be had"
			 : "userfaultfd fails (errno %d)",
		 errno);
	return -1;
}

static int shake_hands(int fd, char *why, size_t size)
{
	/* Shared memory and huge pages may need a newer kernel than other memory. */
	static const uint64_t tries[] = { WANTED | UFFD_FEATURE_WP_HUGETLBFS_SHMEM, WANTED };

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct uffdio_api api = { .api = UFFD_API, .features = tries[i] };

		if (ioctl(fd, UFFDIO_API, &api) == 0)
			return 0;
	}
	snprintf(why, size,
		 "the kernel's userfaultfd (errno %d) does not tell of memory that is unmapped, "
		 "or has no write protection",
		 errno);
	return -FI_ENOSYS;
}

static void close_all(void)
{
	if (uffd.fd >= 0)
		close(uffd.fd);
	if (uffd.dead >= 0)
		close(uffd.dead);
	uffd.fd = uffd.dead = -1;
}

/* A range in the middle of a mapping makes three of it. */
static uint32_t most_ranges(void)
{
	int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	char text[32] = "65530"; /* the kernel's default */
	ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	unsigned long mappings;

	if (len > 0)
		text[len] = '\0';
	if (fd >= 0)
		close(fd);
	mappings = strtoul(text, NULL, 10);
	return hm_uffd_most		   ? hm_uffd_most
	       : mappings / 4 < UINT32_MAX ? (uint32_t)mappings / 4
					   : UINT32_MAX;
}

static int uffd_start(char *why, size_t size)
{
	char no_hooks[128];
	int ret = -FI_ENOSYS;

	uffd.fd = open_uffd(why, size);
	if (uffd.fd < 0 || shake_hands(uffd.fd, why, size) != 0)
		goto close;
	snprintf(why, size, "no descriptor, no memory or no thread for what is watched");
	uffd.dead = eventfd(0, EFD_CLOEXEC);
	ret = uffd.dead < 0 ? -errno : hm_ranges_init(&uffd.watched);
	if (ret != 0)
		goto close;
	uffd.most = most_ranges();
	uffd.given_count = 0;
	uffd.failed = false;
	uffd.starts++;
	atomic_store(&uffd.works, true);
	ret = hm_reader_start(&reader, uffd.fd);
	if (ret != 0)
		goto destroy_ranges;
	uffd.strict = hm_uffd_strict < 0 ? hm_param_bool(HM_PARAM_CACHE_STRICT) : hm_uffd_strict;
	if (uffd.strict)
		hm_monitor_raise(HM_MONITOR_ASK);
	uffd.hooked = !uffd.strict && hm_monitor_hooks.start(no_hooks, sizeof(no_hooks)) == 0;
	if (!uffd.strict && !uffd.hooked)
		HM_INFO(FI_LOG_MR, "userfaultfd works without memhooks: %s", no_hooks);
	return 0;

destroy_ranges:
	atomic_store(&uffd.works, false);
	hm_ranges_destroy(&uffd.watched);
close:
	close_all();
	return ret;
}

static void uffd_stop(void)
{
	if (uffd.hooked)
		hm_monitor_hooks.stop();
	if (uffd.strict)
		hm_monitor_lower(HM_MONITOR_ASK);
	/* Until its end it reads, and then takes the descriptor away: nobody sleeps on an event. */
	hm_reader_stop(&reader);
	uffd.hooked = uffd.strict = false;
	atomic_store(&uffd.works, false);
	close_all();
	hm_ranges_destroy(&uffd.watched);
}

static void uffd_forked(void)
{
	hm_reader_forked(&reader);
	uffd.given_count = 0;
	watch_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	atomic_store(&uffd.works, false);
	close_all();
}

pthread_t hm_uffd_thread(void)
{
	return reader.thread;
}

int hm_uffd_fd(void)
{
	return uffd.fd;
}

bool hm_uffd_hooked(void)
{
	return uffd.hooked;
}

const struct hm_monitor hm_monitor_uffd = {
	.name = "userfaultfd",
	.start = uffd_start,
	.stop = uffd_stop,
	.watch = uffd_watch,
	.unwatch = uffd_unwatch,
	.settle = uffd_settle,
	.release = uffd_release,
	.forked = uffd_forked,
};
