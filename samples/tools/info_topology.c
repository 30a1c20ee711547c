/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info --topology: what the library tells, and the words for it. */
#define _POSIX_C_SOURCE 200809L

#include "info_topology.h"

#include <string.h>

#include "../common.h"
#include "tool_capture.h"

/* ---- asking ---- */

static int find(const struct info_ports *ports, struct info_topology *topology)
{
	const struct fi_info *list = ports->list[0] ? ports->list[0] : ports->list[1];
	int ret;

	ret = fi_fabric(list->fabric_attr, &topology->fabric, NULL);
	if (ret)
		return sample_fail("fi_fabric", ret);
	ret = fi_open_ops(&topology->fabric->fid, HMREG_TOPOLOGY_OPS, 0, (void **)&topology->ops,
			  NULL);
	if (ret)
		return sample_fail("fi_open_ops of " HMREG_TOPOLOGY_OPS, ret);
	ret = topology->ops->open(&topology->fabric->fid, list, &topology->table);
	return ret ? sample_fail("asking about the topology", ret) : 0;
}

int info_topology_find(const struct info_ports *ports, struct info_topology *topology)
{
	struct tool_capture capture;
	char said[512];
	int ret;

	memset(topology, 0, sizeof(*topology));
	/* drivers that are not there are no news here */
	tool_capture_begin(&capture);
	ret = find(ports, topology);
	tool_capture_end(&capture, said, sizeof(said));
	if (ret)
		fprintf(stderr, "%s: %s\n", sample_program, said[0] ? said : fi_strerror(-ret));
	return ret;
}

void info_topology_free(struct info_topology *topology)
{
	int ret = 0;

	if (topology->table)
		topology->ops->close(topology->table);
	if (topology->fabric)
		ret = fi_close(&topology->fabric->fid);
	if (ret)
		sample_fail("fi_close of a fabric", ret);
	memset(topology, 0, sizeof(*topology));
}

/* ---- words ---- */

static const struct {
	const char *word, *text;
} distances[] = {
	[0] = { "?", "something unknown here" },
	[HMREG_DISTANCE_DEVICE] = { "device", "nothing: one device" },
	[HMREG_DISTANCE_SWITCH] = { "switch", "one switch" },
	[HMREG_DISTANCE_ROOT_PORT] = { "root-port", "several switches below one root port" },
	[HMREG_DISTANCE_HOST_BRIDGE] = { "host-bridge", "one host bridge" },
	[HMREG_DISTANCE_NODE] = { "node", "host bridges of one NUMA node" },
	[HMREG_DISTANCE_SOCKET] = { "socket", "two NUMA nodes of one socket" },
	[HMREG_DISTANCE_SYSTEM] = { "system", "the link between sockets" },
	[HMREG_DISTANCE_UNKNOWN] = { "unknown", "not known" },
	[HMREG_DISTANCE_SOFTWARE] = { "software", "this process alone (software NIC)" },
};

#define DISTANCES (sizeof(distances) / sizeof(distances[0]))

const char *info_distance_word(enum hmreg_distance distance)
{
	return distances[(size_t)distance < DISTANCES ? distance : 0].word;
}

const char *info_distance_text(enum hmreg_distance distance)
{
	return distances[(size_t)distance < DISTANCES ? distance : 0].text;
}

const char *info_bridge_word(enum hmreg_bridge_kind kind)
{
	static const char *const words[] = {
		[HMREG_BRIDGE_HOST] = "host bridge", [HMREG_BRIDGE_ROOT_PORT] = "root port",
		[HMREG_BRIDGE_SWITCH] = "switch",    [HMREG_BRIDGE_PORT] = "switch port",
		[HMREG_BRIDGE_OTHER] = "bridge",
	};

	return (size_t)kind < sizeof(words) / sizeof(words[0]) && words[kind] ? words[kind]
									      : "bridge";
}

static const struct {
	const char *word, *text;
} acs_states[] = {
	[HMREG_ACS_NONE] = { "none", "" },
	[HMREG_ACS_OFF] = { "off", "ACS does not redirect" },
	[HMREG_ACS_REDIRECTS] = { "redirects", "ACS redirects" },
	[HMREG_ACS_UNREADABLE] = { "unreadable", "ACS not readable (root can)" },
};

#define ACS_STATES (sizeof(acs_states) / sizeof(acs_states[0]))

const char *info_acs_word(enum hmreg_acs acs)
{
	return (size_t)acs < ACS_STATES ? acs_states[acs].word : "?";
}

const char *info_acs_text(enum hmreg_acs acs)
{
	return (size_t)acs < ACS_STATES ? acs_states[acs].text : "ACS in a state unknown here";
}

const char *info_speed_text(uint64_t bits_per_s, char *text, size_t room)
{
	if (!bits_per_s)
		snprintf(text, room, "speed not told");
	else
		snprintf(text, room, "%.4g Gb/s", (double)bits_per_s / 1e9);
	return text;
}

/* ---- the table ---- */

const struct hmreg_nic_choice *info_choice(const struct hmreg_topology *table, size_t accelerator,
					   size_t rank)
{
	return table->choices[accelerator * table->nic_count + rank];
}

const struct hmreg_nic_choice *info_choice_of(const struct hmreg_topology *table,
					      size_t accelerator, const struct hmreg_place *nic)
{
	size_t rank = 0;

	while (info_choice(table, accelerator, rank)->info != nic->info)
		rank++;
	return info_choice(table, accelerator, rank);
}

const struct hmreg_place *info_nic_of(const struct hmreg_topology *table,
				      const struct hmreg_nic_choice *choice)
{
	size_t i = 0;

	while (table->nics[i]->info != choice->info)
		i++;
	return table->nics[i];
}

bool info_is_software(const struct hmreg_place *nic)
{
	return !strncmp(nic->reason, "software", 8);
}

size_t info_shown_bridge(const struct hmreg_topology *table, size_t bridge)
{
	while (bridge != SIZE_MAX && (table->bridges[bridge]->kind == HMREG_BRIDGE_PORT ||
				      table->bridges[bridge]->kind == HMREG_BRIDGE_ROOT_PORT))
		bridge = table->bridges[bridge]->parent;
	return bridge;
}

enum hmreg_acs info_switch_acs(const struct hmreg_topology *table, size_t bridge)
{
	enum hmreg_acs state = HMREG_ACS_NONE, own;
	size_t i;

	for (i = 0; i < table->bridge_count; i++) {
		if (table->bridges[i]->parent != bridge ||
		    table->bridges[i]->kind != HMREG_BRIDGE_PORT)
			continue;
		own = table->bridges[i]->acs;
		if (own == HMREG_ACS_REDIRECTS || state == HMREG_ACS_NONE ||
		    (own == HMREG_ACS_UNREADABLE && state == HMREG_ACS_OFF))
			state = own;
		if (state == HMREG_ACS_REDIRECTS)
			break;
	}
	return state;
}

const char *info_count_text(const struct hmreg_topology *table, char *text, size_t room)
{
	size_t software = 0, hardware, i;

	for (i = 0; i < table->nic_count; i++)
		software += info_is_software(table->nics[i]);
	hardware = table->nic_count - software;
	snprintf(text, room, "%zu accelerator%s, %zu NIC%s, %zu software NIC%s",
		 table->accelerator_count, table->accelerator_count == 1 ? "" : "s", hardware,
		 hardware == 1 ? "" : "s", software, software == 1 ? "" : "s");
	return text;
}
