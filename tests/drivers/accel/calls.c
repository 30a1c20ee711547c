/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that are counted and made to fail, live objects, and the settings of an emulated driver. */
#include "tests/drivers/accel/accel.h"
#include "tests/drivers/emu_trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NAMES 128

struct call {
	char name[48];
	unsigned long made;
	unsigned long fails_at; /* the value of made that fails; 0: none */
	bool on;		/* and all after it */
	int code;
};

struct live {
	char kind[24];
	long count;
};

/* All static: drivers are used by programs that count their own memory. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t environment = PTHREAD_ONCE_INIT;
static struct call calls[MOST_NAMES];
static struct live lives[MOST_NAMES];

static struct call *call_of(const char *name)
{
	size_t i = 0;

	while (i < MOST_NAMES - 1 && calls[i].name[0] && strcmp(calls[i].name, name) != 0)
		i++;
	if (!calls[i].name[0])
		snprintf(calls[i].name, sizeof(calls[i].name), "%s", name);
	return &calls[i];
}

static void set_failure(const char *name, unsigned int nth, int code, bool on)
{
	struct call *call;

	pthread_mutex_lock(&lock);
	call = call_of(name);
	call->fails_at = nth ? call->made + nth : 0;
	call->code = code;
	call->on = on;
	pthread_mutex_unlock(&lock);
}

static void fail(const char *name, unsigned int nth, int code)
{
	set_failure(name, nth, code, false);
}

static void fail_on(const char *name, unsigned int nth, int code)
{
	set_failure(name, nth, code, true);
}

static const char *setting_text(const char *suffix)
{
	char name[64];

	snprintf(name, sizeof(name), "EMU_%s%s", accel_driver, suffix);
	return getenv(name);
}

static void read_environment(void)
{
	const char *text = setting_text("_FAIL");
	char name[48];
	unsigned int nth;
	int code, used;

	/* a '+' behind it: and every call after that one */
	while (text && sscanf(text, " %47[^:]:%u:%i%n", name, &nth, &code, &used) == 3) {
		text += used;
		set_failure(name, nth, code, *text == '+');
		text += *text == '+';
		text += strspn(text, " ,");
	}
}

static int count(struct call *call)
{
	call->made++;
	if (call->fails_at == 0 || call->made < call->fails_at)
		return 0;
	if (!call->on)
		call->fails_at = 0;
	return call->code;
}

int accel_call(const char *name)
{
	int any, code;

	emu_trace(accel_driver, name);
	pthread_once(&environment, read_environment);
	pthread_mutex_lock(&lock);
	any = count(call_of("*"));
	code = count(call_of(name));
	pthread_mutex_unlock(&lock);
	return code ? code : any;
}

void accel_live(const char *kind, int change)
{
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < MOST_NAMES - 1 && lives[i].kind[0] && strcmp(lives[i].kind, kind) != 0)
		i++;
	snprintf(lives[i].kind, sizeof(lives[i].kind), "%s", kind);
	lives[i].count += change;
	pthread_mutex_unlock(&lock);
}

long accel_setting(const char *key, long otherwise)
{
	const char *text = setting_text("");
	size_t len = strlen(key);

	while (text && *text) {
		if (strncmp(text, key, len) == 0 && text[len] == '=')
			return strtol(text + len + 1, NULL, 0);
		text = strchr(text, ',');
		text += text ? 1 : 0;
	}
	return otherwise;
}

/* ---- hooks ---- */

static unsigned long calls_made(const char *name)
{
	unsigned long made;

	pthread_mutex_lock(&lock);
	made = call_of(name)->made;
	pthread_mutex_unlock(&lock);
	return made;
}

static void reset(void)
{
	pthread_mutex_lock(&lock);
	memset(calls, 0, sizeof(calls));
	pthread_mutex_unlock(&lock);
}

static long live(const char *kind)
{
	bool all = strcmp(kind, "*") == 0;
	long count_of_kind = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MOST_NAMES; i++)
		if (all ? strcmp(lives[i].kind, "bytes") != 0 : !strcmp(lives[i].kind, kind))
			count_of_kind += lives[i].count;
	pthread_mutex_unlock(&lock);
	return strcmp(kind, "bytes") == 0 ? count_of_kind * (long)ACCEL_PAGE : count_of_kind;
}

static size_t list(char *text, size_t size)
{
	struct accel_range range;
	size_t used = 0;

#define ADD(...)                                                                                   \
	(used += (size_t)snprintf(used < size ? text + used : NULL, used < size ? size - used : 0, \
				  __VA_ARGS__))
	for (size_t i = 0; accel_at(i, &range); i++)
		ADD("memory %p, %zu bytes, kind %d, device %d\n", (void *)range.addr, range.len,
		    range.kind, accel_block_device(range.block));
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MOST_NAMES; i++)
		if (lives[i].count != 0 && strcmp(lives[i].kind, "memory") != 0)
			ADD("%s: %ld\n", lives[i].kind, lives[i].count);
	pthread_mutex_unlock(&lock);
#undef ADD
	return used;
}

static const char *call_name(size_t index)
{
	const char *name = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < MOST_NAMES && !name; i++)
		if (calls[i].made > 0 && strcmp(calls[i].name, "*") != 0 && index-- == 0)
			name = calls[i].name;
	pthread_mutex_unlock(&lock);
	return name;
}

static int peek(const void *addr, void *out, size_t len)
{
	return accel_copy(out, addr, len) ? 0 : -1;
}

static int poke(void *addr, const void *in, size_t len)
{
	return accel_copy(addr, in, len) ? 0 : -1;
}

/* Found by name. */
extern const struct emu_accel_hooks emu_accel_hooks;
__attribute__((visibility("default"))) const struct emu_accel_hooks emu_accel_hooks = {
	.size = sizeof(struct emu_accel_hooks),
	.fail = fail,
	.calls = calls_made,
	.reset = reset,
	.live = live,
	.list = list,
	.name = call_name,
	.peek = peek,
	.poke = poke,
	.fail_on = fail_on,
	.reuse = accel_reuse,
};
