/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is special to ROCr, over the emulated runtime: "test_hmem_rocr GROUP", since a process starts
 * the runtime once, with the settings of its environment.
 */
#include <dlfcn.h>

#include "tests/unit/test_hmem_rocr.h"

#include "core/base/guard.h"
#include "core/base/log.h"

const struct hmem_ops *ops;
const struct emu_accel_hooks *hooks;
char warning[512];
unsigned int warnings;
size_t fds_before;
long live_before;

#define VENDOR(result, name, parameters) result(*vendor_##name) parameters;
ROCR_ALL_FUNCTIONS(VENDOR)
#undef VENDOR

static void keep_warning(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
			 int line, const char *text, void *arg)
{
	(void)subsys, (void)func, (void)line, (void)arg;
	if (level != FI_LOG_WARN)
		return;
	snprintf(warning, sizeof(warning), "%s", text);
	warnings++;
}

int remember(void **state)
{
	(void)state;
	warnings = 0;
	fds_before = test_fds();
	live_before = hooks->live("*");
	return 0;
}

int compare(void **state)
{
	(void)state;
	return test_fds() == fds_before && hooks->live("*") == live_before ? 0 : -1;
}

void fail_call(const char *name, unsigned int nth, int code)
{
	(hooks->fail)(name, nth, code);
}

struct made make_of(enum make kind, int device, size_t len)
{
	struct made made = { .kind = kind };

	assert_null(make_rocr.cannot(kind, device));
	assert_int_equal(make_rocr.make(kind, device, len, &made), 0);
	return made;
}

struct hmem_memory classified(const void *addr, size_t len)
{
	struct hmem_memory memory;

	assert_int_equal(hmem_classify(addr, len, &memory), 0);
	return memory;
}

void fill(const struct made *made)
{
	unsigned char *bytes = malloc(made->len);

	for (size_t i = 0; i < made->len; i++)
		bytes[i] = (unsigned char)(i * 131 + (i >> 8));
	assert_int_equal(make_rocr.write(made, 0, bytes, made->len), 0);
	free(bytes);
}

static rocr_status list_agent(rocr_agent agent, void *data)
{
	struct listed *l = data;
	uint32_t type;

	vendor_hsa_agent_get_info(agent, ROCR_AGENT_DEVICE, &type);
	if (type == ROCR_DEVICE_CPU)
		l->cpu = agent;
	if (type == ROCR_DEVICE_GPU) {
		l->at[l->count] = l->seen;
		l->gpus[l->count++] = agent;
	}
	l->seen++;
	return ROCR_SUCCESS;
}

struct listed list_agents(void)
{
	struct listed l = { .count = 0 };

	assert_int_equal(vendor_hsa_iterate_agents(list_agent, &l), ROCR_SUCCESS);
	return l;
}

static const struct {
	const char *name;
	const struct CMUnitTest *tests;
	const size_t *count;
} groups[] = {
#define LISTED(name)                                                                               \
	{                                                                                          \
#name, name##_tests, &name##_count                                                 \
	}
	LISTED(main),	LISTED(call),  LISTED(old),   LISTED(nodmabuf),	 LISTED(noexport),
	LISTED(untold), LISTED(nobar), LISTED(start), LISTED(unnoticed), LISTED(noticed),
};

/* The runtime, its functions by name, and the interface over it. */
static void start_all(void)
{
	void *library;

	if (make_rocr.open() != NULL)
		abort();
	library = dlopen(ROCR_LIBRARY, RTLD_NOW);
#define FIND(result, name, parameters) *(void **)(void *)&vendor_##name = dlsym(library, #name);
	ROCR_ALL_FUNCTIONS(FIND)
#undef FIND
	hooks = make_rocr.hooks();
	hm_log_set_sink(keep_warning, NULL);
	hm_guard_install();
	ops = hmem_get(FI_HMEM_ROCR);
	if (!ops || !hooks)
		abort();
}

int main(int argc, char **argv)
{
	const char *name = argc == 2 ? argv[1] : "main";

	if (strcmp(name, "start") != 0)
		start_all();
	for (size_t i = 0; i < count_of(groups); i++)
		if (strcmp(groups[i].name, name) == 0)
			return _cmocka_run_group_tests(name, groups[i].tests, *groups[i].count,
						       NULL, NULL);
	return 2;
}
