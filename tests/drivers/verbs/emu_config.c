/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulated devices' settings, from the environment. */
#include "tests/drivers/verbs/emu.h"

#include <stdio.h>

struct word {
	const char *name;
	uint64_t value;
};

static const struct word error_words[] = {
	{ "EPERM", EPERM },
	{ "EACCES", EACCES },
	{ "ENOMEM", ENOMEM },
	{ "EINVAL", EINVAL },
	{ "EIO", EIO },
	{ "ENODEV", ENODEV },
	{ "ENOENT", ENOENT },
	{ "EAGAIN", EAGAIN },
	{ "EFAULT", EFAULT },
	{ "ENOSPC", ENOSPC },
	{ "ETIMEDOUT", ETIMEDOUT },
	{ "ENOSYS", ENOSYS },
	{ "EMFILE", EMFILE },
	{ "EBUSY", EBUSY },
	{ "EOPNOTSUPP", EOPNOTSUPP },
	{ NULL, 0 },
};
static const struct word port_words[] = { { "active", IBV_PORT_ACTIVE },
					  { "init", IBV_PORT_INIT },
					  { "down", IBV_PORT_DOWN },
					  { NULL, 0 } };
static const struct word gid_words[] = { { "all", EMU_GIDS_ALL },   { "v4", EMU_GIDS_V4 },
					 { "v1", EMU_GIDS_V1 },	    { "mixed", EMU_GIDS_MIXED },
					 { "none", EMU_GIDS_NONE }, { NULL, 0 } };
static const struct word link_words[] = { { "ethernet", IBV_LINK_LAYER_ETHERNET },
					  { "other", IBV_LINK_LAYER_UNSPECIFIED },
					  { "ib", IBV_LINK_LAYER_INFINIBAND },
					  { NULL, 0 } };
static const struct word transport_words[] = { { "ib", IBV_TRANSPORT_IB },
					       { "iwarp", IBV_TRANSPORT_IWARP },
					       { "other", IBV_TRANSPORT_UNSPECIFIED },
					       { NULL, 0 } };
static const struct word memlock_words[] = { { "unlimited", EMU_UNLIMITED },
					     { "rlimit", EMU_RLIMIT },
					     { NULL, 0 } };

struct setting {
	const char *name;
	size_t offset;
	uint64_t initial;
	const struct word *words; /* names that stand for values; numbers are taken too */
};

#define NUMBER(name, initial)                                                                      \
	{                                                                                          \
#name, offsetof(struct emu_config, name), initial, NULL                            \
	}
#define WORDS(name, initial, words)                                                                \
	{                                                                                          \
#name, offsetof(struct emu_config, name), initial, words                           \
	}

static const struct setting settings[] = {
	WORDS(list, 0, error_words),
	WORDS(open, 0, error_words),
	WORDS(port, IBV_PORT_ACTIVE, port_words),
	WORDS(gids, EMU_GIDS_ALL, gid_words),
	WORDS(link, IBV_LINK_LAYER_ETHERNET, link_words),
	WORDS(transport, IBV_TRANSPORT_IB, transport_words),
	WORDS(memlock, EMU_UNLIMITED, memlock_words),
	WORDS(removed_dereg, EIO, error_words),
	NUMBER(bind, 1),
	NUMBER(remote, 1),
	NUMBER(atomic, 1),
	NUMBER(odp, 0),
	NUMBER(rereg, 0),
	NUMBER(zero_based, 1),
	NUMBER(relaxed, 1),
	NUMBER(dmabuf, 1),
	NUMBER(mw, 1),
	NUMBER(mw_bounds, 1),
	NUMBER(mw_dmabuf, 0),
	NUMBER(query_ex, 1),
	NUMBER(advise, 1),
	NUMBER(indirect, 0),
	NUMBER(devx, 1),
	NUMBER(grh, 0),
	NUMBER(lid, 1),
	NUMBER(null, 0),
	NUMBER(lose, 0),
	NUMBER(max_mr_size, UINT64_C(1) << 40),
	NUMBER(max_mr, 65536),
	NUMBER(max_mw, 65536),
	NUMBER(max_pd, 4096),
	NUMBER(max_cq, 65536),
	NUMBER(max_cqe, 131072),
	NUMBER(max_qp, 65536),
	NUMBER(max_qp_wr, 16384),
	NUMBER(max_sge, 30),
	NUMBER(max_srq, 1024),
	NUMBER(max_srq_wr, 32768),
	NUMBER(max_srq_sge, 30),
	NUMBER(max_rd_atomic, 16),
	NUMBER(max_inline, 256),
	NUMBER(max_msg, UINT64_C(1) << 30),
	NUMBER(mtu, 1024),
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static void complain(const char *what, const char *item)
{
	fprintf(stderr, "HMREG_EMU_VERBS: %s: \"%s\"\n", what, item);
}

static bool parse_number(const char *text, uint64_t *value)
{
	static const char suffixes[] = "KMGT";
	const char *suffix;
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 0);
	if (errno || end == text || *text == '-')
		return false;
	if (!*end)
		return true;
	suffix = strchr(suffixes, *end);
	if (!suffix || end[1])
		return false;
	*value <<= 10 * (suffix - suffixes + 1);
	return true;
}

static bool parse_value(const struct setting *setting, const char *text, uint64_t *value)
{
	for (const struct word *word = setting->words; word && word->name; word++)
		if (!strcmp(text, word->name)) {
			*value = word->value;
			return true;
		}
	return parse_number(text, value);
}

/* One "name=value" that is for the devices FIRST to LAST. */
static void apply(struct emu_config config[EMU_DEVICES], const char *name, const char *value,
		  unsigned int first, unsigned int last)
{
	uint64_t number;

	for (size_t i = 0; i < SETTINGS; i++) {
		if (strcmp(name, settings[i].name) != 0)
			continue;
		if (!parse_value(&settings[i], value, &number)) {
			complain("bad value", value);
			return;
		}
		for (unsigned int d = first; d <= last; d++)
			*(uint64_t *)((char *)&config[d] + settings[i].offset) = number;
		return;
	}
	complain("unknown setting", name);
}

/* "CALL:NTH:ERROR" of fail=. */
static void apply_failure(const char *text)
{
	static const struct setting error = { .words = error_words };
	char call[64], name[32];
	uint64_t code;
	int nth;

	if (sscanf(text, "%63[^:]:%d:%31s", call, &nth, name) != 3 ||
	    !parse_value(&error, name, &code)) {
		complain("bad value", text);
		return;
	}
	if (!emu_verbs_fail(call, nth, (int)code))
		complain("no such call", call);
}

static void apply_item(struct emu_config config[EMU_DEVICES], char *item, bool first,
		       unsigned int *devices)
{
	char *value = strchr(item, '=');
	uint64_t number;

	if (!value) {
		complain("no value", item);
		return;
	}
	*value++ = '\0';
	if (!strcmp(item, "fail")) {
		if (first)
			apply_failure(value);
	} else if (!strcmp(item, "devices")) {
		if (parse_number(value, &number) && number <= EMU_DEVICES)
			*devices = (unsigned int)number;
		else
			complain("bad value", value);
	} else if (!strncmp(item, "emu", 3) && item[3] >= '0' && item[3] < '0' + EMU_DEVICES &&
		   item[4] == '.') {
		apply(config, item + 5, value, (unsigned int)(item[3] - '0'),
		      (unsigned int)(item[3] - '0'));
	} else {
		apply(config, item, value, 0, EMU_DEVICES - 1);
	}
}

unsigned int emu_config_read(struct emu_config config[EMU_DEVICES])
{
	const char *text = getenv("HMREG_EMU_VERBS");
	static atomic_bool read_before;
	bool first = !atomic_exchange(&read_before, true);
	unsigned int devices = 1;
	char *copy, *rest, *item;

	for (unsigned int d = 0; d < EMU_DEVICES; d++)
		for (size_t i = 0; i < SETTINGS; i++)
			*(uint64_t *)((char *)&config[d] + settings[i].offset) =
				settings[i].initial;
	copy = text ? strdup(text) : NULL;
	for (item = copy ? strtok_r(copy, ", ", &rest) : NULL; item;
	     item = strtok_r(NULL, ", ", &rest))
		apply_item(config, item, first, &devices);
	free(copy);
	for (unsigned int d = 0; d < EMU_DEVICES; d++) {
		if (config[d].max_sge > EMU_SEGMENTS)
			config[d].max_sge = EMU_SEGMENTS;
		if (config[d].max_srq_sge > EMU_SEGMENTS)
			config[d].max_srq_sge = EMU_SEGMENTS;
	}
	return devices;
}
