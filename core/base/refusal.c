/* SPDX-License-Identifier: BSD-2-Clause */
/* See refusal.h. */
#include "core/base/refusal.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROOM 64 /* of all threads together */

struct entry {
	pthread_t thread;
	enum hmreg_cause cause; /* HMREG_CAUSE_NONE: free */
	char text[sizeof(((struct hmreg_refusal *)NULL)->text)];
};

/* Protects what follows; nothing is called and nothing else locked under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry ring[ROOM];
static size_t next; /* the oldest entry, which the next refusal replaces */

void hm_refusal_note(enum hmreg_cause cause, const char *fmt, ...)
{
	struct entry fresh = { .thread = pthread_self(), .cause = cause };
	int saved_errno = errno;
	va_list args;

	va_start(args, fmt);
	vsnprintf(fresh.text, sizeof(fresh.text), fmt, args);
	va_end(args);
	pthread_mutex_lock(&lock);
	ring[next] = fresh;
	next = (next + 1) % ROOM;
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
}

static bool is_own(const struct entry *entry)
{
	return entry->cause != HMREG_CAUSE_NONE && pthread_equal(entry->thread, pthread_self());
}

bool hm_refusal_get(size_t index, struct hmreg_refusal *out)
{
	bool found = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < ROOM && !found; i++) {
		const struct entry *entry = &ring[(next + i) % ROOM];

		if (!is_own(entry) || index-- > 0)
			continue;
		out->cause = entry->cause;
		memcpy(out->text, entry->text, sizeof(out->text));
		found = true;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

void hm_refusal_recast(enum hmreg_cause from, enum hmreg_cause to)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 1; i <= ROOM; i++) {
		struct entry *entry = &ring[(next + ROOM - i) % ROOM];

		if (!is_own(entry))
			continue;
		if (entry->cause == from)
			entry->cause = to;
		break;
	}
	pthread_mutex_unlock(&lock);
}

void hm_refusal_forget(void)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < ROOM; i++)
		if (is_own(&ring[i]))
			ring[i].cause = HMREG_CAUSE_NONE;
	pthread_mutex_unlock(&lock);
}
