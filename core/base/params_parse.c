/* SPDX-License-Identifier: BSD-2-Clause */
/* From the text of an environment variable to its value. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/params.h"

bool hm_parse_int(const char *text, int *out)
{
	int saved_errno = errno;
	char *end;
	long value;
	bool ok;

	if (isspace((unsigned char)*text))
		return false;
	errno = 0;
	value = strtol(text, &end, 0);
	ok = errno == 0 && end != text && *end == '\0' && value >= INT_MIN && value <= INT_MAX;
	errno = saved_errno;
	if (ok)
		*out = (int)value;
	return ok;
}

bool hm_parse_bool(const char *text, bool *out)
{
	static const char *const words[][2] = {
		{ "0", "1" }, { "off", "on" }, { "false", "true" }, { "no", "yes" }
	};

	for (size_t i = 0; i < count_of(words); i++) {
		for (int on = 0; on < 2; on++) {
			if (strcasecmp(text, words[i][on]) == 0) {
				*out = on;
				return true;
			}
		}
	}
	return false;
}

bool hm_parse_size(const char *text, size_t *out)
{
	static const char units[] = "KMGT";
	int saved_errno = errno;
	unsigned int shift = 0;
	unsigned long long value;
	const char *unit;
	char *end;
	bool ok;

	if (strcmp(text, "-1") == 0) {
		*out = SIZE_MAX;
		return true;
	}
	/* strtoull would take a sign, and leading space. */
	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	value = strtoull(text, &end, 0);
	ok = errno == 0 && end != text;
	errno = saved_errno;
	if (!ok)
		return false;

	if (*end) {
		unit = strchr(units, toupper((unsigned char)*end));
		if (!unit || end[1])
			return false;
		shift = 10 * (unsigned int)(unit - units + 1);
	}
	if (value > (unsigned long long)SIZE_MAX >> shift)
		return false;
	*out = (size_t)value << shift;
	return true;
}

const char *hm_list_word(const char **cursor, size_t *len)
{
	static const char separators[] = ", \t";
	const char *word;

	if (**cursor == '^')
		(*cursor)++;
	word = *cursor + strspn(*cursor, separators);
	*len = strcspn(word, separators);
	*cursor = word + *len;
	return *len ? word : NULL;
}

bool hm_list_selects(const char *list, const char *name)
{
	const char *cursor = list;
	const char *word;
	bool negated;
	size_t len;

	if (!list || !*list)
		return true;
	negated = *list == '^';
	while ((word = hm_list_word(&cursor, &len)) != NULL) {
		if (strlen(name) == len && strncasecmp(word, name, len) == 0)
			return !negated;
	}
	return negated;
}
