/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libfabric's calls for environment variables: the listing that fi_info -e shows, and the parameters
 * that a provider defines for itself. Both read the environment at the time of the call.
 */
#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/export.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/params_priv.h"

/* A provider's parameter; lives until the process ends, and does not change. */
struct defined_param {
	struct hm_list link;
	char *name;
	char *help;
	enum fi_param_type type;
};

/* Protects the list. No other lock is taken under it, and nothing is logged. */
static pthread_mutex_t defined_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hm_list defined = { &defined, &defined };
static size_t defined_count;
static char *
	note[HM_PARAM_COUNT]; /* what fi_getparams adds; freed when replaced, under the same lock */

/* The variable's name, FI_<PROVIDER>_<NAME> or FI_<NAME>; the caller frees it. NULL: no memory. */
static char *variable_name(const struct fi_provider *provider, const char *param_name)
{
	char *name;
	int rc;

	if (provider)
		rc = asprintf(&name, "FI_%s_%s", provider->name, param_name);
	else
		rc = asprintf(&name, "FI_%s", param_name);
	if (rc < 0)
		return NULL;
	for (char *c = name; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	return name;
}

/* Call with defined_lock held. */
static bool find_type(const char *name, enum fi_param_type *type)
{
	for (int id = 0; id < HM_PARAM_COUNT; id++) {
		if (strcmp(hm_param_table[id].name, name) == 0) {
			*type = hm_param_table[id].type;
			return true;
		}
	}
	hm_list_for_each(link, &defined)
	{
		struct defined_param *param = hm_list_entry(link, struct defined_param, link);

		if (strcmp(param->name, name) == 0) {
			*type = param->type;
			return true;
		}
	}
	return false;
}

static void free_defined(struct defined_param *param)
{
	if (!param)
		return;
	free(param->name);
	free(param->help);
	free(param);
}

static struct defined_param *make_defined(const struct fi_provider *provider,
					  const char *param_name, enum fi_param_type type,
					  const char *fmt, va_list args)
{
	struct defined_param *param = calloc(1, sizeof(*param));
	char *text = NULL;

	if (!param)
		return NULL;
	param->type = type;
	param->name = variable_name(provider, param_name);
	if (!param->name)
		goto free_param;
	if (vasprintf(&text, fmt, args) < 0)
		goto free_param;
	/* Listings show whose parameter it is. */
	if (!provider) {
		param->help = text;
		return param;
	}
	if (asprintf(&param->help, "%s: %s", provider->name, text) < 0) {
		param->help = NULL;
		goto free_text;
	}
	free(text);
	return param;

free_text:
	free(text);
free_param:
	free_defined(param);
	return NULL;
}

/* Why the arguments of fi_param_define cannot be accepted; NULL when they can. */
static const char *define_fault(const struct fi_provider *provider, const char *param_name,
				enum fi_param_type type, const char *help)
{
	if (provider && (!provider->name || !*provider->name))
		return "the provider has no name";
	if (!param_name || !*param_name)
		return "param_name is NULL or empty";
	if (!help || !*help)
		return "the help string is NULL or empty";
	if ((unsigned int)type > FI_PARAM_SIZE_T)
		return "the type is none of enum fi_param_type";
	return NULL;
}

HM_EXPORT int fi_param_define(const struct fi_provider *provider, const char *param_name,
			      enum fi_param_type type, const char *help_string_fmt, ...)
{
	const char *fault = define_fault(provider, param_name, type, help_string_fmt);
	struct defined_param *param;
	enum fi_param_type old_type;
	va_list args;
	bool known;

	if (fault) {
		HM_WARN(FI_LOG_CORE, "fi_param_define: %s", fault);
		return -FI_EINVAL;
	}
	va_start(args, help_string_fmt);
	param = make_defined(provider, param_name, type, help_string_fmt, args);
	va_end(args);
	if (!param) {
		HM_WARN(FI_LOG_CORE, "fi_param_define: no memory for %s", param_name);
		return -FI_ENOMEM;
	}

	pthread_mutex_lock(&defined_lock);
	known = find_type(param->name, &old_type);
	if (!known) {
		hm_list_add_tail(&defined, &param->link);
		defined_count++;
	}
	pthread_mutex_unlock(&defined_lock);
	if (!known)
		return 0;

	/* A provider that is loaded twice defines its parameters twice: the first definition stays. */
	if (old_type != type)
		HM_WARN(FI_LOG_CORE, "fi_param_define: %s is already defined with another type",
			param->name);
	free_defined(param);
	return old_type == type ? 0 : -FI_EALREADY;
}

/* value points to a char *, int, int (0 or 1) or size_t, as the type says. */
static void store_value(enum fi_param_type type, const union hm_param_value *parsed, void *value)
{
	switch (type) {
	case FI_PARAM_STRING:
		memcpy(value, &parsed->str, sizeof(parsed->str));
		break;
	case FI_PARAM_INT:
		*(int *)value = parsed->num;
		break;
	case FI_PARAM_BOOL:
		*(int *)value = parsed->on;
		break;
	case FI_PARAM_SIZE_T:
		*(size_t *)value = parsed->size;
		break;
	}
}

HM_EXPORT int fi_param_get(struct fi_provider *provider, const char *param_name, void *value)
{
	union hm_param_value parsed;
	enum fi_param_type type;
	const char *text;
	bool known;
	char *name;
	int rc = 0;

	if (!param_name || !value || (provider && !provider->name)) {
		HM_WARN(FI_LOG_CORE, "fi_param_get: %s is NULL",
			!param_name ? "param_name"
			: !value    ? "value"
				    : "the provider's name");
		return -FI_EINVAL;
	}
	name = variable_name(provider, param_name);
	if (!name) {
		HM_WARN(FI_LOG_CORE, "fi_param_get: no memory for %s", param_name);
		return -FI_ENOMEM;
	}

	pthread_mutex_lock(&defined_lock);
	known = find_type(name, &type);
	pthread_mutex_unlock(&defined_lock);
	text = getenv(name);
	if (!known) {
		HM_WARN(FI_LOG_CORE, "fi_param_get: %s was never defined", name);
		rc = -FI_ENOENT;
	} else if (!text) {
		rc = -FI_ENODATA;
	} else if (!hm_param_parse(type, text, &parsed)) {
		HM_WARN(FI_LOG_CORE, "fi_param_get: %s=%s is not %s", name, text,
			hm_param_expected(type));
		rc = -FI_EINVAL;
	} else {
		store_value(type, &parsed, value);
	}
	free(name);
	return rc;
}

void hm_param_note(enum hm_param id, const char *text)
{
	char *copy = strdup(text), *old;

	if (!copy)
		return;
	pthread_mutex_lock(&defined_lock);
	old = note[id];
	note[id] = copy;
	pthread_mutex_unlock(&defined_lock);
	free(old);
}

static int fill_param(struct fi_param *out, const char *name, enum fi_param_type type,
		      const char *help)
{
	const char *value = getenv(name);

	out->name = strdup(name);
	out->type = type;
	out->help_string = strdup(help);
	out->value = value ? strdup(value) : NULL;
	return out->name && out->help_string && (out->value || !value) ? 0 : -FI_ENOMEM;
}

/* Call with defined_lock held. */
static int fill_own(struct fi_param *out, enum hm_param id)
{
	const struct hm_param_def *def = &hm_param_table[id];
	char *help = NULL;
	int rc;

	if (!note[id])
		return fill_param(out, def->name, def->type, def->help);
	if (asprintf(&help, "%s; now: %s", def->help, note[id]) < 0)
		return -FI_ENOMEM;
	rc = fill_param(out, def->name, def->type, help);
	free(help);
	return rc;
}

/* Call with defined_lock held. */
static int fill_all(struct fi_param *list)
{
	int rc;

	for (int id = 0; id < HM_PARAM_COUNT; id++) {
		rc = fill_own(list++, (enum hm_param)id);
		if (rc)
			return rc;
	}
	hm_list_for_each(link, &defined)
	{
		struct defined_param *param = hm_list_entry(link, struct defined_param, link);

		rc = fill_param(list++, param->name, param->type, param->help);
		if (rc)
			return rc;
	}
	return 0;
}

static void free_list(struct fi_param *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free((void *)(uintptr_t)list[i].name);
		free((void *)(uintptr_t)list[i].help_string);
		free((void *)(uintptr_t)list[i].value);
	}
	free(list);
}

HM_EXPORT int fi_getparams(struct fi_param **params, int *count)
{
	struct fi_param *list;
	size_t total;
	int rc;

	if (!params || !count) {
		HM_WARN(FI_LOG_CORE, "fi_getparams: %s is NULL", params ? "count" : "params");
		return -FI_EINVAL;
	}

	pthread_mutex_lock(&defined_lock);
	total = HM_PARAM_COUNT + defined_count;
	/* One more than needed: an entry without a name ends the array for fi_freeparams. */
	list = calloc(total + 1, sizeof(*list));
	rc = list ? fill_all(list) : -FI_ENOMEM;
	pthread_mutex_unlock(&defined_lock);

	if (rc) {
		HM_WARN(FI_LOG_CORE, "fi_getparams: no memory for %zu parameters", total);
		if (list)
			free_list(list, total);
		return rc;
	}
	*params = list;
	*count = (int)total;
	return 0;
}

HM_EXPORT void fi_freeparams(struct fi_param *params)
{
	size_t count = 0;

	if (!params)
		return;
	while (params[count].name)
		count++;
	free_list(params, count);
}
