/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info --topology, for people. */
#define _POSIX_C_SOURCE 200809L

#include "info_topology.h"

#include <string.h>

#include "tool_accel.h"
#include "tool_text.h"

#define MOST_NOTES 64

/* ---- the tree ---- */

static void indent(FILE *out, int depth)
{
	fprintf(out, "%*s", 2 * depth, "");
}

static void print_place(FILE *out, const struct hmreg_topology *table,
			const struct hmreg_place *place, int depth)
{
	char speed[32];

	indent(out, depth);
	fprintf(out, "%-16s %-13s", place->name, tool_or_dash(place->pci));
	fprintf(out, "  %s",
		place->info ? info_speed_text(place->bits_per_s, speed, sizeof(speed))
			    : tool_or_dash(place->model));
	if (place->bridge != SIZE_MAX && table->bridges[place->bridge]->kind != HMREG_BRIDGE_HOST)
		fprintf(out, ", below %s", table->bridges[place->bridge]->name);
	if (*place->physical)
		fprintf(out, ", virtual function of %s", place->physical);
	if (place->iommu_group >= 0)
		fprintf(out, ", IOMMU group %d (%s)", place->iommu_group,
			*place->iommu ? place->iommu : "type not told");
	else if (place->bridge != SIZE_MAX)
		fputs(", no IOMMU", out);
	fputc('\n', out);
	if (*place->reason) {
		indent(out, depth);
		fprintf(out, "%-16s %s\n", "", place->reason);
	}
}

/* What is below this one: SIZE_MAX for what is below none. */
static void print_places(FILE *out, const struct hmreg_topology *table, size_t bridge, int depth)
{
	size_t i;

	for (i = 0; i < table->accelerator_count; i++)
		if (info_shown_bridge(table, table->accelerators[i]->bridge) == bridge)
			print_place(out, table, table->accelerators[i], depth);
	for (i = 0; i < table->nic_count; i++)
		if (info_shown_bridge(table, table->nics[i]->bridge) == bridge &&
		    !info_is_software(table->nics[i]))
			print_place(out, table, table->nics[i], depth);
}

static void print_bridge(FILE *out, const struct hmreg_topology *table, size_t i, int depth)
{
	const struct hmreg_bridge *bridge = table->bridges[i];
	enum hmreg_acs acs = info_switch_acs(table, i);
	size_t below;

	indent(out, depth);
	fprintf(out, "%s %s", info_bridge_word(bridge->kind), bridge->name);
	if (bridge->kind == HMREG_BRIDGE_HOST && bridge->node >= 0)
		fprintf(out, ", NUMA node %d", bridge->node);
	if (bridge->kind != HMREG_BRIDGE_HOST &&
	    table->bridges[bridge->parent]->kind != HMREG_BRIDGE_HOST)
		fprintf(out, ", below %s %s",
			info_bridge_word(table->bridges[bridge->parent]->kind),
			table->bridges[bridge->parent]->name);
	if (acs != HMREG_ACS_NONE)
		fprintf(out, ", %s", info_acs_text(acs));
	fputc('\n', out);
	print_places(out, table, i, depth + 1);
	for (below = i + 1; below < table->bridge_count; below++)
		if (info_shown_bridge(table, below) == below &&
		    table->bridges[below]->parent != SIZE_MAX &&
		    info_shown_bridge(table, table->bridges[below]->parent) == i)
			print_bridge(out, table, below, depth + 1);
}

/* True: there was something of this socket, which is -1 where it is not told. */
static bool print_socket(FILE *out, const struct hmreg_topology *table, int socket)
{
	bool any = false;
	size_t i;

	for (i = 0; i < table->bridge_count; i++) {
		if (table->bridges[i]->kind != HMREG_BRIDGE_HOST ||
		    table->bridges[i]->socket != socket)
			continue;
		if (!any && socket >= 0)
			fprintf(out, "\nsocket %d\n", socket);
		else if (!any)
			fputs("\nsocket not known\n", out);
		any = true;
		print_bridge(out, table, i, 1);
	}
	return any;
}

static int last_socket(const struct hmreg_topology *table)
{
	int last = -1;
	size_t i;

	for (i = 0; i < table->bridge_count; i++)
		if (table->bridges[i]->socket > last)
			last = table->bridges[i]->socket;
	return last;
}

static void print_tree(FILE *out, const struct hmreg_topology *table)
{
	int socket, last = last_socket(table);
	const char *separator = " ";
	bool lost = false;
	size_t i;

	for (socket = 0; socket <= last; socket++)
		print_socket(out, table, socket);
	print_socket(out, table, -1);
	for (i = 0; i < table->accelerator_count; i++)
		lost |= table->accelerators[i]->bridge == SIZE_MAX;
	for (i = 0; i < table->nic_count; i++)
		lost |= table->nics[i]->bridge == SIZE_MAX && !info_is_software(table->nics[i]);
	if (lost) {
		fputs("\nin no place that is known\n", out);
		print_places(out, table, SIZE_MAX, 1);
	}
	for (i = 0; i < table->nic_count; i++) {
		if (!info_is_software(table->nics[i]))
			continue;
		fprintf(out, "%s%s%s", *separator == ' ' ? "\nsoftware NICs, in the process:" : "",
			separator, table->nics[i]->name);
		separator = ", ";
	}
	if (*separator == ',')
		fputc('\n', out);
}

/* ---- the choice ---- */

struct notes {
	const char *text[MOST_NOTES];
	size_t count;
};

static size_t note_of(struct notes *notes, const char *text)
{
	size_t i = 0;

	while (i < notes->count && strcmp(notes->text[i], text))
		i++;
	if (i == notes->count && i < MOST_NOTES)
		notes->text[notes->count++] = text;
	return i + 1;
}

static void print_choice(FILE *out, const struct hmreg_topology *table, size_t accelerator,
			 struct notes *notes)
{
	const struct hmreg_nic_choice *choice = info_choice(table, accelerator, 0);

	fprintf(out, "  %-16s %-16s %s", table->accelerators[accelerator]->name,
		info_nic_of(table, choice)->name, info_distance_text(choice->distance));
	if (choice->bridges)
		fprintf(out, ", %u bridge%s", choice->bridges, choice->bridges == 1 ? "" : "s");
	if (*choice->acs_at)
		fprintf(out, ", ACS redirects at %s", choice->acs_at);
	else if (choice->acs != HMREG_ACS_NONE)
		fprintf(out, ", %s", info_acs_text(choice->acs));
	if (choice->path)
		fprintf(out, "; %s", tool_path_word(choice->path));
	else
		fputs("; CANNOT REACH IT", out);
	if (*choice->reason)
		fprintf(out, " [%zu]", note_of(notes, choice->reason));
	fputc('\n', out);
}

/* A column for each NIC but those of software, which are as far from everything. */
static void print_distances(FILE *out, const struct hmreg_topology *table, struct notes *notes)
{
	const struct hmreg_nic_choice *choice;
	char text[48];
	size_t a, n;

	fprintf(out, "\ndistances (* taken first)\n  %-16s", "accelerator");
	for (n = 0; n < table->nic_count; n++)
		if (!info_is_software(table->nics[n]))
			fprintf(out, " %-16s", table->nics[n]->name);
	for (a = 0; a < table->accelerator_count; a++) {
		fprintf(out, "\n  %-16s", table->accelerators[a]->name);
		for (n = 0; n < table->nic_count; n++) {
			if (info_is_software(table->nics[n]))
				continue;
			choice = info_choice_of(table, a, table->nics[n]);
			snprintf(text, sizeof(text), "%s%s", info_distance_word(choice->distance),
				 choice == info_choice(table, a, 0) ? "*" : "");
			if (*choice->reason)
				snprintf(text + strlen(text), sizeof(text) - strlen(text), " [%zu]",
					 note_of(notes, choice->reason));
			fprintf(out, " %-16s", text);
		}
	}
	fputc('\n', out);
}

void info_topology_text(FILE *out, const struct hmreg_topology *table)
{
	struct notes notes = { .count = 0 };
	bool hardware = false;
	char counts[96];
	size_t i;

	fprintf(out, "topology: %s\n", info_count_text(table, counts, sizeof(counts)));
	print_tree(out, table);
	if (!table->accelerator_count) {
		fputs("\nThe system has no accelerator that can be used.\n", out);
		return;
	}
	fputs("\nNIC taken first, and what lies in between\n", out);
	for (i = 0; i < table->accelerator_count; i++)
		print_choice(out, table, i, &notes);
	for (i = 0; i < table->nic_count; i++)
		hardware |= !info_is_software(table->nics[i]);
	if (hardware)
		print_distances(out, table, &notes);
	for (i = 0; i < notes.count; i++)
		fprintf(out, "  [%zu] %s\n", i + 1, notes.text[i]);
}
