/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info: the bytes of a file with figures.  See info_cache.h. */
#define _POSIX_C_SOURCE 200809L

#include "info_cache.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ROWS 4096

/* Text that may lack its end and have anything in it. */
static void clean(char *text, size_t room)
{
	size_t i;

	for (i = 0; i < room - 1 && text[i]; i++) {
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	}
	memset(text + i, 0, room - i);
}

static int refuse(char *why, size_t room, const char *reason)
{
	snprintf(why, room, "%s", reason);
	return -1;
}

/* The header, if all that it says of sizes fits into size bytes. */
static int check(const struct hmreg_cache_file *head, size_t size, char *why, size_t room)
{
	uint64_t rows = head->rows, row_size = head->row_size;

	if (head->magic == 0)
		return refuse(why, room, "it is being made: try again");
	if (head->magic != HMREG_CACHE_FILE_MAGIC)
		return refuse(why, room, "it is no file with figures of caches");
	if (head->version != HMREG_CACHE_FILE_VERSION) {
		snprintf(why, room, "its layout is version %u, and this tool reads version %d",
			 head->version, HMREG_CACHE_FILE_VERSION);
		return -1;
	}
	if (head->header_size < sizeof(*head) || head->header_size > size ||
	    row_size < sizeof(struct hmreg_cache_row) || rows > MOST_ROWS ||
	    rows * row_size > size - head->header_size)
		return refuse(why, room, "it is damaged: its sizes do not fit together");
	return 0;
}

int info_cache_parse(const void *data, size_t size, struct info_cache *out, char *why, size_t room)
{
	struct hmreg_cache_file head;
	struct hmreg_cache_row *row;
	const char *at = data;
	uint32_t i;

	if (size < sizeof(head))
		return refuse(why, room, "it is cut short");
	memcpy(&head, data, sizeof(head));
	if (check(&head, size, why, room))
		return -1;
	memset(out, 0, sizeof(*out));
	out->row = calloc(head.rows ? head.rows : 1, sizeof(*out->row));
	if (!out->row)
		return refuse(why, room, "no memory for it");
	out->pid = head.pid;
	out->started = head.started;
	out->updated = head.updated;
	out->hidden = head.hidden;
	memcpy(out->monitor, head.monitor, sizeof(out->monitor));
	clean(out->monitor, sizeof(out->monitor));
	for (i = 0; i < head.rows; i++) {
		row = &out->row[out->count];
		memcpy(row, at + head.header_size + (size_t)i * head.row_size, sizeof(*row));
		clean(row->domain, sizeof(row->domain));
		out->count += row->state != 0;
	}
	return 0;
}

void info_cache_confirm(struct info_cache *cache, const struct info_cache *later)
{
	size_t kept = 0, i, k;

	for (i = 0; i < cache->count; i++) {
		for (k = 0; k < later->count && later->row[k].state != cache->row[i].state; k++)
			;
		if (k < later->count)
			cache->row[kept++] = cache->row[i];
	}
	cache->count = kept;
}

void info_cache_free(struct info_cache *cache)
{
	free(cache->row);
	memset(cache, 0, sizeof(*cache));
}
