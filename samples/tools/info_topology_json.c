/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info --topology --json. */
#define _POSIX_C_SOURCE 200809L

#include "info_topology.h"
#include "tool_accel.h"
#include "tool_text.h"

static void number_or_null(FILE *out, const char *name, long long value, bool known)
{
	if (known)
		fprintf(out, "\"%s\": %lld, ", name, value);
	else
		fprintf(out, "\"%s\": null, ", name);
}

static void text_or_null(FILE *out, const char *name, const char *text)
{
	fprintf(out, "\"%s\": ", name);
	if (text && *text)
		tool_json_string(out, text);
	else
		fputs("null", out);
	fputs(", ", out);
}

static const char *bridge_name(const struct hmreg_topology *table, size_t bridge)
{
	return bridge == SIZE_MAX ? NULL : table->bridges[bridge]->name;
}

static void print_bridge(FILE *out, const struct hmreg_topology *table, size_t i)
{
	const struct hmreg_bridge *bridge = table->bridges[i];

	tool_json_member(out, "name", bridge->name);
	tool_json_member(out, "kind", info_bridge_word(bridge->kind));
	text_or_null(out, "parent", bridge_name(table, bridge->parent));
	number_or_null(out, "numa_node", bridge->node, bridge->node >= 0);
	number_or_null(out, "socket", bridge->socket, bridge->socket >= 0);
	fputs("\"acs\": ", out);
	tool_json_string(out, info_acs_word(bridge->acs));
}

static void print_place(FILE *out, const struct hmreg_topology *table,
			const struct hmreg_place *place)
{
	tool_json_member(out, "name", place->name);
	if (place->info) {
		fprintf(out, "\"software\": %s, ", info_is_software(place) ? "true" : "false");
		number_or_null(out, "bits_per_s", (long long)place->bits_per_s,
			       place->bits_per_s != 0);
	} else {
		tool_json_member(out, "iface", tool_iface_name(place->iface));
		fprintf(out, "\"device\": %d, ", place->device);
		tool_json_member(out, "model", place->model);
	}
	text_or_null(out, "pci", place->pci);
	text_or_null(out, "physical", place->physical);
	text_or_null(out, "bridge", bridge_name(table, place->bridge));
	number_or_null(out, "numa_node", place->node, place->node >= 0);
	number_or_null(out, "socket", place->socket, place->socket >= 0);
	number_or_null(out, "iommu_group", place->iommu_group, place->iommu_group >= 0);
	text_or_null(out, "iommu", place->iommu);
	fputs("\"reason\": ", out);
	tool_json_string(out, place->reason);
}

static void print_choice(FILE *out, const struct hmreg_topology *table,
			 const struct hmreg_nic_choice *choice)
{
	tool_json_member(out, "nic", info_nic_of(table, choice)->name);
	tool_json_member(out, "distance", info_distance_word(choice->distance));
	tool_json_member(out, "path", tool_path_word(choice->path));
	fprintf(out, "\"bridges\": %u, ", choice->bridges);
	number_or_null(out, "numa_distance", choice->numa_distance, choice->numa_distance != 0);
	number_or_null(out, "bits_per_s", (long long)choice->bits_per_s, choice->bits_per_s != 0);
	tool_json_member(out, "acs", info_acs_word(choice->acs));
	text_or_null(out, "acs_at", choice->acs_at);
	fputs("\"reason\": ", out);
	tool_json_string(out, choice->reason);
}

void info_topology_json(FILE *out, const struct hmreg_topology *table)
{
	size_t i, rank;

	fputs("{\"tool\": \"hmreg-info\",\n \"topology\": {\n  \"bridges\": [", out);
	for (i = 0; i < table->bridge_count; i++) {
		fputs(i ? ",\n   {" : "\n   {", out);
		print_bridge(out, table, i);
		fputc('}', out);
	}
	fputs("],\n  \"accelerators\": [", out);
	for (i = 0; i < table->accelerator_count; i++) {
		fputs(i ? ",\n   {" : "\n   {", out);
		print_place(out, table, table->accelerators[i]);
		fputc('}', out);
	}
	fputs("],\n  \"nics\": [", out);
	for (i = 0; i < table->nic_count; i++) {
		fputs(i ? ",\n   {" : "\n   {", out);
		print_place(out, table, table->nics[i]);
		fputc('}', out);
	}
	fputs("],\n  \"choices\": [", out);
	for (i = 0; i < table->accelerator_count; i++) {
		fputs(i ? ",\n   {" : "\n   {", out);
		tool_json_member(out, "accelerator", table->accelerators[i]->name);
		fputs("\"nics\": [", out);
		for (rank = 0; rank < table->nic_count; rank++) {
			fputs(rank ? ",\n    {" : "\n    {", out);
			print_choice(out, table, info_choice(table, i, rank));
			fputc('}', out);
		}
		fputs("]}", out);
	}
	fputs("]}}\n", out);
}
