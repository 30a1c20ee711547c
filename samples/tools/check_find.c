/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-check: from a failed call to its cause. */
#define _POSIX_C_SOURCE 200809L

#include <stdarg.h>
#include <string.h>

#include "check.h"
#include "check_causes.h"

#define NONE	      HMREG_CAUSE_NONE, HMREG_OK
#define REFUSAL(name) HMREG_CAUSE_##name, HMREG_OK
#define ERROR(name)   HMREG_CAUSE_NONE, HMREG_##name
#define CAUSE(id, status, stage, source, shows, text, remedy)                                      \
	{ id, status, CHECK_STAGE_##stage, source, shows, text, remedy },

const struct check_cause check_causes[] = { CHECK_CAUSES(CAUSE) };
const size_t check_cause_count = sizeof(check_causes) / sizeof(check_causes[0]);

/* What the library tells apart and an operator need not: the cause that stands for it. */
static const struct {
	enum hmreg_cause refusal;
	const char *id;
} others[] = {
	{ HMREG_CAUSE_DMABUF_UNSUPPORTED, "no-way" },
	{ HMREG_CAUSE_MEMORY_UNKNOWN, "driver-call" },
	{ HMREG_CAUSE_MEMORY_IMPORTED, "export-refused" },
	{ HMREG_CAUSE_MEMORY_POOL, "export-refused" },
	{ HMREG_CAUSE_MEMORY_NO_RDMA, "not-exportable" },
};

static const struct {
	const char *id;
	enum fi_hmem_iface iface;
	const char *remedy;
} remedies[] = {
#define REMEDY(id, iface, remedy) { id, iface, remedy },
	CHECK_REMEDIES(REMEDY)
#undef REMEDY
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *check_stage_name(enum check_stage stage)
{
	static const char *const names[] = {
		[CHECK_STAGE_OPTIONS] = "options",   [CHECK_STAGE_DRIVER] = "driver",
		[CHECK_STAGE_DEVICE] = "device",     [CHECK_STAGE_MEMORY] = "memory",
		[CHECK_STAGE_NIC] = "nic",	     [CHECK_STAGE_EXPORT] = "export",
		[CHECK_STAGE_IMPORT] = "import",     [CHECK_STAGE_REGISTRATION] = "registration",
		[CHECK_STAGE_TRANSFER] = "transfer", [CHECK_STAGE_CLOSE] = "close",
		[CHECK_STAGE_ANY] = "any",
	};

	return names[stage];
}

const struct check_cause *check_cause(const char *id)
{
	size_t i = 0;

	while (i < check_cause_count && strcmp(check_causes[i].id, id))
		i++;
	return &check_causes[i < check_cause_count ? i : 0];
}

const struct check_cause *check_cause_of_refusal(enum hmreg_cause refusal)
{
	size_t i;

	for (i = 0; refusal && i < check_cause_count; i++)
		if (check_causes[i].refusal == refusal)
			return &check_causes[i];
	for (i = 0; refusal && i < COUNT(others); i++)
		if (others[i].refusal == refusal)
			return check_cause(others[i].id);
	return NULL;
}

const struct check_cause *check_cause_of_error(int error)
{
	size_t i;

	for (i = 0; error && i < check_cause_count; i++)
		if ((int)check_causes[i].error == error)
			return &check_causes[i];
	return NULL;
}

const char *check_remedy(const struct check_cause *cause, enum fi_hmem_iface iface)
{
	size_t i;

	for (i = 0; i < COUNT(remedies); i++)
		if (remedies[i].iface == iface && !strcmp(remedies[i].id, cause->id))
			return remedies[i].remedy;
	return cause->remedy;
}

/* ---- a failure ---- */

void check_said(struct check *check, const char *text)
{
	size_t used = strlen(check->said), room = sizeof(check->said) - used;

	/* each way that was tried may have failed in the same words */
	if (room > 1 && !strstr(check->said, text))
		snprintf(check->said + used, room, "%s%s", used ? "\n" : "", text);
}

/*
 * The first refusal that has a cause is it: where several ways were tried, that is the best of them.  All of
 * them are told.
 */
static const struct check_cause *take_refusals(struct check *check)
{
	struct hmreg_refusal refusal = { .size = sizeof(refusal) };
	const struct check_cause *cause = NULL;
	size_t i;

	for (i = 0; check->ops && !check->ops->refusal(&check->soft->fid, i, &refusal); i++) {
		if (!cause)
			cause = check_cause_of_refusal(refusal.cause);
		check_said(check, refusal.text);
	}
	return cause;
}

int check_failed(struct check *check, const char *call, int ret, const char *otherwise)
{
	const struct check_cause *cause = take_refusals(check);

	check->refused = cause != NULL;
	check->cause = cause ? cause : check_cause(otherwise);
	check->error = ret;
	snprintf(check->call, sizeof(check->call), "%s", call);
	return -1;
}

int check_found(struct check *check, const char *id, const char *format, ...)
{
	va_list args;
	char text[512];

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	check->refused = true; /* the log has no more of it */
	check->cause = check_cause(id);
	check_said(check, text);
	return -1;
}

int check_completed(struct check *check, const char *call, int err, int prov_errno,
		    const char *text)
{
	const struct check_cause *cause = check_cause_of_error(prov_errno);

	check_failed(check, call, -err, "unexplained");
	/* what the transfer met is the cause; what was refused on the way explains it */
	if (cause)
		check->cause = cause;
	check_said(check, text);
	return -1;
}

void check_passed(struct check *check, enum check_stage stage, const char *format, ...)
{
	struct check_step *step = &check->steps[stage];
	va_list args;

	va_start(args, format);
	vsnprintf(step->text, sizeof(step->text), format, args);
	va_end(args);
	step->done = true;
}
