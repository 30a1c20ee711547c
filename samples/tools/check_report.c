/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-check: what it prints. */
#define _POSIX_C_SOURCE 200809L

#include <string.h>

#include "check.h"
#include "tool_text.h"

#define WIDTH 100 /* of wrapped lines */

/* Words of text behind indent, so that no line is longer than WIDTH. */
static void print_wrapped(FILE *out, const char *text, int indent)
{
	int column = WIDTH + 1;
	size_t len;

	for (; *text; text += len) {
		text += strspn(text, " ");
		len = strcspn(text, " ");
		if (column + (int)len + 1 > WIDTH) {
			fprintf(out, "%s%*s", column > WIDTH && column != WIDTH + 1 ? "" : "\n",
				indent, "");
			column = indent;
		} else {
			fputc(' ', out);
			column++;
		}
		fwrite(text, 1, len, out);
		column += (int)len;
	}
	fputc('\n', out);
}

static void show_text(void *arg, const char *name, const char *value)
{
	fprintf(arg, "  %-24s%s\n", name, value);
}

static const char *state_of(const struct check *check, enum check_stage stage)
{
	if (check->cause && stage == check->at)
		return "FAILED";
	return check->steps[stage].done && (!check->cause || stage < check->at) ? "ok" : "-";
}

/* "cuda:0 device memory, 1 MiB, by emu0" */
static void print_subject(FILE *out, const struct check *check)
{
	char place[48], size[32];

	fprintf(out, "%s memory of %s, %s", check_kind_name(check->options.kind),
		tool_place_text(&check->options.place, place),
		tool_size_text(check->options.size, size, sizeof(size)));
	if (check->nic.size || check->options.nic)
		fprintf(out, ", NIC %s", check->nic.size ? check->nic.name : check->options.nic);
	fputc('\n', out);
}

void check_report(FILE *out, const struct check *check)
{
	enum check_stage stage;

	print_subject(out, check);
	for (stage = CHECK_STAGE_DRIVER; stage <= CHECK_STAGE_TRANSFER; stage++) {
		const char *state = state_of(check, stage);

		if (!strcmp(state, "ok"))
			fprintf(out, "  %-8s%-14s%s\n", state, check_stage_name(stage),
				check->steps[stage].text);
		else
			fprintf(out, "  %-8s%s\n", state, check_stage_name(stage));
	}
	if (!check->cause) {
		fputs("All works.\n", out);
		return;
	}
	fprintf(out, "\ncause: %s (exit status %d)", check->cause->id, check->cause->status);
	print_wrapped(out, check->cause->cause, 2);
	fputs("\nevidence:\n", out);
	check_evidence(check, show_text, out);
	fputs("\nremedy:", out);
	print_wrapped(out, check_remedy(check->cause, check->options.place.iface), 2);
}

/* ---- JSON ---- */

struct list {
	FILE *out;
	const char *separator;
};

static void show_json(void *arg, const char *name, const char *value)
{
	struct list *list = arg;

	fprintf(list->out, "%s{", list->separator);
	tool_json_member(list->out, "name", name);
	fputs("\"value\": ", list->out);
	tool_json_string(list->out, value);
	fputc('}', list->out);
	list->separator = ", ";
}

static void print_steps_json(FILE *out, const struct check *check)
{
	enum check_stage stage;

	fputs("\"stages\": [", out);
	for (stage = CHECK_STAGE_DRIVER; stage <= CHECK_STAGE_TRANSFER; stage++) {
		const char *state = state_of(check, stage);

		fprintf(out, "%s{", stage == CHECK_STAGE_DRIVER ? "" : ", ");
		tool_json_member(out, "stage", check_stage_name(stage));
		tool_json_member(out, "state",
				 !strcmp(state, "ok")	    ? "ok"
				 : !strcmp(state, "FAILED") ? "failed"
							    : "not reached");
		fputs("\"text\": ", out);
		tool_json_string(out, !strcmp(state, "ok") ? check->steps[stage].text : "");
		fputc('}', out);
	}
	fputs("], ", out);
}

void check_report_json(FILE *out, const struct check *check)
{
	struct list list = { out, "" };
	char place[48];

	fputc('{', out);
	tool_json_member(out, "memory", tool_place_text(&check->options.place, place));
	tool_json_member(out, "kind", check_kind_name(check->options.kind));
	fprintf(out, "\"size\": %zu, ", check->options.size);
	tool_json_member(out, "nic",
			 check->nic.size      ? check->nic.name
			 : check->options.nic ? check->options.nic
					      : "");
	print_steps_json(out, check);
	fprintf(out, "\"status\": %d, ", check->cause ? check->cause->status : 0);
	if (!check->cause) {
		fputs("\"cause\": null}\n", out);
		return;
	}
	tool_json_member(out, "cause", check->cause->id);
	tool_json_member(out, "stage", check_stage_name(check->at));
	tool_json_member(out, "text", check->cause->cause);
	fputs("\"evidence\": [", out);
	check_evidence(check, show_json, &list);
	fputs("], \"remedy\": ", out);
	tool_json_string(out, check_remedy(check->cause, check->options.place.iface));
	fputs("}\n", out);
}

void check_list(FILE *out, bool json)
{
	const char *separator = "[";
	size_t i;

	for (i = 0; i < check_cause_count; i++) {
		const struct check_cause *cause = &check_causes[i];

		if (!json) {
			fprintf(out, "%d\t%s\t%s\t%s\t%s\n", cause->status, cause->id,
				check_stage_name(cause->stage), cause->cause, cause->remedy);
			continue;
		}
		fprintf(out, "%s{\"status\": %d, ", separator, cause->status);
		tool_json_member(out, "cause", cause->id);
		tool_json_member(out, "stage", check_stage_name(cause->stage));
		tool_json_member(out, "text", cause->cause);
		fputs("\"remedy\": ", out);
		tool_json_string(out, cause->remedy);
		fputc('}', out);
		separator = ",\n ";
	}
	if (json)
		fputs("]\n", out);
}
