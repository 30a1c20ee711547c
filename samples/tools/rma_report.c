/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-rma: everything that it prints about NICs and results. */
#define _POSIX_C_SOURCE 200809L

#include "rma.h"

#include <rdma/fi_domain.h>

#include "rma_cache.h"
#include "rma_report.h"
#include "tool_accel.h"
#include "tool_text.h"

const char *rma_time_text(double ns, char *text, size_t room)
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
		fprintf(out, "%-14s %-12s %-10s %-16s %8zu  ",
			tool_or_dash(info->domain_attr->name),
			tool_or_dash(info->fabric_attr->name),
			tool_or_dash(info->fabric_attr->prov_name), tool_device_name(info),
			info->domain_attr->mr_key_size);
		tool_print_mode(out, info->domain_attr->mr_mode, "|", "", "none");
		fputc('\n', out);
	}
}

void rma_report_table(FILE *out, const struct fi_info *info, const struct rma_result *result)
{
	uint32_t version = fi_version();
	const struct rma_row *row;
	char text[4][32], place[48];
	size_t wrong = 0;

	fprintf(out, "NIC %s, profile %s, mr_mode ", tool_device_name(info),
		tool_or_dash(info->domain_attr->name));
	tool_print_mode(out, info->domain_attr->mr_mode, "|", "", "none");
	fprintf(out, ", interface %s%s, API %u.%u\n", tool_place_text(&result->target, place),
		result->dmabuf ? " (dma-buf)" : "", FI_MAJOR(version), FI_MINOR(version));
	if (result->local.iface != FI_HMEM_SYSTEM)
		fprintf(out, "the initiator's memory is of %s\n",
			tool_place_text(&result->local, place));
	if (result->path && (result->dmabuf || result->target.iface != FI_HMEM_SYSTEM))
		fprintf(out, "the NIC reaches the target's memory %s\n",
			tool_path_text((enum hmreg_path)result->path));
	if (result->server[0])
		fprintf(out, "server's domain %s\n", result->server);
	fputc('\n', out);
	fprintf(out, "%9s  %-13s %12s %12s %12s %14s  %s\n", "size", "operation", "register",
		"close", "latency", "bandwidth", "verified");
	for (row = result->rows; row < result->rows + result->count; row++) {
		fprintf(out, "%9s  %-13s %12s %12s %12s %9.1f MB/s  %s\n",
			tool_size_text(row->size, text[0], sizeof(text[0])), row->operation,
			rma_time_text(row->register_ns, text[1], sizeof(text[1])),
			rma_time_text(row->close_ns, text[2], sizeof(text[2])),
			rma_time_text(row->latency_ns, text[3], sizeof(text[3])),
			row->bytes_per_s / 1e6, row->verified ? "yes" : "NO");
		wrong += !row->verified;
	}
	if (result->no_desc)
		rma_report_no_desc(out, result);
	if (wrong)
		fprintf(out, "\n%zu of %zu row%s FAILED verification.\n", wrong, result->count,
			result->count == 1 ? "" : "s");
	else
		fprintf(out, "\n%zu row%s: every byte and every guard word is right.\n",
			result->count, result->count == 1 ? "" : "s");
}

void rma_report_list_json(FILE *out, const struct fi_info *list)
{
	const struct fi_info *info;

	fputc('[', out);
	for (info = list; info; info = info->next) {
		fputs(info == list ? "\n  {" : ",\n  {", out);
		tool_json_member(out, "provider", info->fabric_attr->prov_name);
		tool_json_member(out, "fabric", info->fabric_attr->name);
		tool_json_member(out, "profile", info->domain_attr->name);
		tool_json_member(out, "nic", tool_device_name(info));
		fprintf(out, "\"key_size\": %zu, ", info->domain_attr->mr_key_size);
		tool_json_modes(out, "mr_mode", info->domain_attr->mr_mode);
		fputc('}', out);
	}
	fputs("\n]\n", out);
}

/* "iface": "cuda", "device": 0, each with prefix. */
static void json_place(FILE *out, const char *prefix, const struct sample_place *place)
{
	fprintf(out, "\"%siface\": \"%s\", \"%sdevice\": ", prefix, tool_iface_name(place->iface),
		prefix);
	if (place->iface == FI_HMEM_SYSTEM)
		fputs("null, ", out);
	else
		fprintf(out, "%d, ", place->device);
}

void rma_report_json(FILE *out, const struct fi_info *info, const struct rma_result *result)
{
	uint32_t version = fi_version();
	const struct rma_row *row;

	fprintf(out, "{\"tool\": \"hmreg-rma\", \"api_version\": \"%u.%u\", ", FI_MAJOR(version),
		FI_MINOR(version));
	tool_json_member(out, "provider", info->fabric_attr->prov_name);
	tool_json_member(out, "fabric", info->fabric_attr->name);
	tool_json_member(out, "profile", info->domain_attr->name);
	tool_json_member(out, "nic", tool_device_name(info));
	json_place(out, "", &result->target);
	json_place(out, "local_", &result->local);
	fprintf(out, "\"dmabuf\": %s, ", result->dmabuf ? "true" : "false");
	tool_json_member(out, "path", tool_path_word((enum hmreg_path)result->path));
	if (result->server[0])
		tool_json_member(out, "server", result->server);
	if (result->no_desc)
		tool_json_member(out, "monitor", result->monitor);
	tool_json_modes(out, "mr_mode", info->domain_attr->mr_mode);
	fputs(",\n \"rows\": [", out);
	for (row = result->rows; row < result->rows + result->count; row++) {
		fprintf(out,
			"%s\n  {\"size\": %zu, \"operation\": \"%s\", \"register_ns\": %.1f, "
			"\"close_ns\": %.1f, \"latency_ns\": %.1f, \"bytes_per_s\": %.0f, "
			"\"iterations\": %u, \"verified\": %s",
			row == result->rows ? "" : ",", row->size, row->operation, row->register_ns,
			row->close_ns, row->latency_ns, row->bytes_per_s, row->iterations,
			row->verified ? "true" : "false");
		if (result->no_desc)
			rma_report_no_desc_json(out, row);
		fputc('}', out);
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
			100 * done / total, tool_size_text(size, text, sizeof(text)), operation);
	else
		fputs("\r\033[K", stderr);
	fflush(stderr);
}
