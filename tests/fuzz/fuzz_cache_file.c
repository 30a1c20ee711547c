/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files with figures of caches, as hmreg-info reads them: any bytes, and headers that are nearly right.
 * What is understood is text that ends, and rows that are in the file.
 */
#include "samples/tools/info_cache.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

static void check_text(const char *text, size_t room)
{
	PROMISE(memchr(text, '\0', room));
	for (; *text; text++)
		PROMISE(*text >= ' ' && *text <= '~');
}

static void try_bytes(const void *data, size_t size)
{
	struct info_cache cache, later;
	char why[32] = "";

	if (info_cache_parse(data, size, &cache, why, sizeof(why))) {
		PROMISE(why[0] && strlen(why) < sizeof(why));
		return;
	}
	check_text(cache.monitor, sizeof(cache.monitor));
	PROMISE(cache.count * sizeof(*cache.row) <= size);
	for (size_t i = 0; i < cache.count; i++) {
		PROMISE(cache.row[i].state != 0);
		check_text(cache.row[i].domain, sizeof(cache.row[i].domain));
	}
	PROMISE(!info_cache_parse(data, size, &later, why, sizeof(why)));
	info_cache_confirm(&cache, &later);
	PROMISE(cache.count == later.count);
	info_cache_free(&later);
	info_cache_free(&cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hmreg_cache_file head;
	struct input in = { data, size };
	uint8_t *copy;

	try_bytes(data, size);
	if (size < sizeof(head))
		return 0;
	/* the same behind a header that has the right beginning and sizes out of the input */
	copy = malloc(size);
	PROMISE(copy);
	memcpy(copy, data, size);
	memcpy(&head, data, sizeof(head));
	head.magic = HMREG_CACHE_FILE_MAGIC;
	head.version = HMREG_CACHE_FILE_VERSION;
	if (take_byte(&in) & 1)
		head.header_size = sizeof(head);
	if (take_byte(&in) & 1)
		head.row_size = sizeof(struct hmreg_cache_row);
	if (take_byte(&in) & 1)
		TAKE(&in, head.rows);
	memcpy(copy, &head, sizeof(head));
	try_bytes(copy, size);
	free(copy);
	return 0;
}
