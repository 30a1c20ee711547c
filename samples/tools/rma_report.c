/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: everything that it prints about NICs and results. */
#define _POSIX_C_SOURCE 200809L

#include "rma.h"

#include <string.h>

#include <rdma/fi_domain.h>

static const struct {
	int bit;
	const char *name;
} modes[] = {
	{ FI_MR_LOCAL, "LOCAL" },	  { FI_MR_RAW, "RAW" },
	{ FI_MR_VIRT_ADDR, "VIRT_ADDR" }, { FI_MR_ALLOCATED, "ALLOCATED" },
	{ FI_MR_PROV_KEY, "PROV_KEY" },	  { FI_MR_MMU_NOTIFY, "MMU_NOTIFY" },
	{ FI_MR_RMA_EVENT, "RMA_EVENT" }, { FI_MR_ENDPOINT, "ENDPOINT" },
	{ FI_MR_HMEM, "HMEM" },		  { FI_MR_COLLECTIVE, "COLLECTIVE" },
	{ FI_MR_XPU_DESC, "XPU_DESC" },
};

#define MODE_COUNT (sizeof(modes) / sizeof(modes[0]))

/* The names of the bits of mode, between separators; none where there are none. */
static void print_mode(FILE *out, int mode, const char *separator, const char *quote,
		       const char *none)
{
	const char *between = "";
	size_t i;

	for (i = 0; i < MODE_COUNT; i++) {
		if (mode & modes[i].bit) {
			fprintf(out, "%s%s%s%s", between, quote, modes[i].name, quote);
			between = separator;
		}
	}
	if (!*between)
		fputs(none, out);
}

static const char *or_dash(const char *text)
{
	return text && *text ? text : "-";
}

/* The device behind info, in the words of its vendor. */
static const char *device_name(const struct fi_info *info)
{
	if (!info->nic || !info->nic->device_attr)
		return "-";
	return or_dash(info->nic->device_attr->name);
}

const char *rma_size_text(size_t size, char *text, size_t room)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
	unsigned int unit = 0;

	while (unit < 3 && size && !(size % 1024)) {
		size /= 1024;
		unit++;
	}
	snprintf(text, room, "%zu %s", size, units[unit]);
	return text;
}

static const char *time_text(double ns, char *text, size_t room)
{
	if (ns <= 0) /* not measured: verification failed before */
		snprintf(text, room, "-");
	else if (ns < 999.95)
		snprintf(text, room, "%.1f ns", ns);
	else if (ns < 999.95e3)
		snprintf(text, room, "%.2f us", ns / 1e3);
	else
		snprintf(text, room, "%.2f ms", ns / 1e6);
	return text;
}

void rma_report_list(FILE *out, const struct fi_info *list)
{
	const struct fi_info *info;

	fprintf(out, "%-14s %-12s %-10s %-16s %8s  %s\n", "DOMAIN", "FABRIC", "PROVIDER", "DEVICE",
		"KEY SIZE", "MR_MODE");
	for (info = list; info; info = info->next) {
		fprintf(out, "%-14s %-12s %-10s %-16s %8zu  ", or_dash(info->domain_attr->name),
			or_dash(info->fabric_attr->name), or_dash(info->fabric_attr->prov_name),
			device_name(info), info->domain_attr->mr_key_size);
		print_mode(out, info->domain_attr->mr_mode, "|", "", "none");
		fputc('\n', out);
	}
}

void rma_report_table(FILE *out, const struct fi_info *info, const struct rma_result *result)
{
	uint32_t version = fi_version();
	const struct rma_row *row;
	char text[4][32];
	size_t wrong = 0;

	fprintf(out, "NIC %s, profile %s, mr_mode ", device_name(info),
		or_dash(info->domain_attr->name));
	print_mode(out, info->domain_attr->mr_mode, "|", "", "none");
	fprintf(out, ", interface system, API %u.%u\n\n", FI_MAJOR(version), FI_MINOR(version));
	fprintf(out, "%9s  %-13s %12s %12s %12s %14s  %s\n", "size", "operation", "register",
		"close", "latency", "bandwidth", "verified");
	for (row = result->rows; row < result->rows + result->count; row++) {
		fprintf(out, "%9s  %-13s %12s %12s %12s %9.1f MB/s  %s\n",
			rma_size_text(row->size, text[0], sizeof(text[0])), row->operation,
			time_text(row->register_ns, text[1], sizeof(text[1])),
			time_text(row->close_ns, text[2], sizeof(text[2])),
			time_text(row->latency_ns, text[3], sizeof(text[3])),
			row->bytes_per_s / 1e6, row->verified ? "yes" : "NO");
		wrong += !row->verified;
	}
	if (wrong)
		fprintf(out, "\n%zu of %zu rows FAILED verification.\n", wrong, result->count);
	else
		fprintf(out, "\n%zu rows: every byte and every guard word is right.\n",
			result->count);
}

static void json_string(FILE *out, const char *text)
{
	const unsigned char *c;

	fputc('"', out);
	for (c = (const unsigned char *)text; *c; c++) {
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if (*c < 0x20)
			fprintf(out, "\\u%04x", *c);
		else
			fputc(*c, out);
	}
	fputc('"', out);
}

static void json_member(FILE *out, const char *name, const char *value)
{
	fprintf(out, "\"%s\": ", name);
	json_string(out, or_dash(value));
	fputs(", ", out);
}

static void json_modes(FILE *out, const struct fi_info *info)
{
	fputs("\"mr_mode\": [", out);
	print_mode(out, info->domain_attr->mr_mode, ", ", "\"", "");
	fputs("]", out);
}

void rma_report_list_json(FILE *out, const struct fi_info *list)
{
	const struct fi_info *info;

	fputc('[', out);
	for (info = list; info; info = info->next) {
		fputs(info == list ? "\n  {" : ",\n  {", out);
		json_member(out, "provider", info->fabric_attr->prov_name);
		json_member(out, "fabric", info->fabric_attr->name);
		json_member(out, "profile", info->domain_attr->name);
		json_member(out, "nic", device_name(info));
		fprintf(out, "\"key_size\": %zu, ", info->domain_attr->mr_key_size);
		json_modes(out, info);
		fputc('}', out);
	}
	fputs("\n]\n", out);
}

void rma_report_json(FILE *out, const struct fi_info *info, const struct rma_result *result)
{
	uint32_t version = fi_version();
	const struct rma_row *row;

	fprintf(out, "{\"tool\": \"hmreg-rma\", \"api_version\": \"%u.%u\", ", FI_MAJOR(version),
		FI_MINOR(version));
	json_member(out, "provider", info->fabric_attr->prov_name);
	json_member(out, "fabric", info->fabric_attr->name);
	json_member(out, "profile", info->domain_attr->name);
	json_member(out, "nic", device_name(info));
	json_member(out, "iface", "system");
	json_modes(out, info);
	fputs(",\n \"rows\": [", out);
	for (row = result->rows; row < result->rows + result->count; row++) {
		fprintf(out,
			"%s\n  {\"size\": %zu, \"operation\": \"%s\", \"register_ns\": %.1f, "
			"\"close_ns\": %.1f, \"latency_ns\": %.1f, \"bytes_per_s\": %.0f, "
			"\"iterations\": %u, \"verified\": %s}",
			row == result->rows ? "" : ",", row->size, row->operation, row->register_ns,
			row->close_ns, row->latency_ns, row->bytes_per_s, row->iterations,
			row->verified ? "true" : "false");
	}
	fprintf(out, "],\n \"verified\": %s}\n", result->verified ? "true" : "false");
}

void rma_report_progress(size_t done, size_t total, size_t size, const char *operation)
{
	static const char full[] = "########################################";
	int width = (int)sizeof(full) - 1;
	int filled = total ? (int)((size_t)width * done / total) : 0;
	char text[32];

	if (total)
		fprintf(stderr, "\r[%-*.*s] %3zu%%  %s %s\033[K", width, filled, full,
			100 * done / total, rma_size_text(size, text, sizeof(text)), operation);
	else
		fputs("\r\033[K", stderr);
	fflush(stderr);
}
