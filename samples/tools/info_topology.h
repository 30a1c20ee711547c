/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-info --topology: accelerators, NICs, and the bridges above them.
 *
 *   info_topology.c       asks the library; words that all forms share
 *   info_topology_text.c  the tree and the distances for people
 *   info_topology_json.c  all of it for programs
 *   info_topology_draw.c  where things are in a picture
 *   info_topology_svg.c   the picture
 */
#ifndef HMREG_INFO_TOPOLOGY_H
#define HMREG_INFO_TOPOLOGY_H

#include "info.h"

struct info_topology {
	struct fid_fabric *fabric; /* owned, with what follows */
	struct hmreg_topology_ops *ops;
	struct hmreg_topology *table;
};

/* Load all drivers and ask; ports has one or more.  Printed if it fails. */
int info_topology_find(const struct info_ports *ports, struct info_topology *topology);
void info_topology_free(struct info_topology *topology);

/* ---- words ---- */

/* "switch": a distance for tables and programs, and what transfers pass in a sentence. */
const char *info_distance_word(enum hmreg_distance distance);
const char *info_distance_text(enum hmreg_distance distance);
const char *info_bridge_word(enum hmreg_bridge_kind kind);
const char *info_acs_word(enum hmreg_acs acs);
const char *info_acs_text(enum hmreg_acs acs); /* "": of no bridge */

/* ---- the table ---- */

/* The choice of this rank for an accelerator. */
const struct hmreg_nic_choice *info_choice(const struct hmreg_topology *table, size_t accelerator,
					   size_t rank);
/* The same, of this NIC. */
const struct hmreg_nic_choice *info_choice_of(const struct hmreg_topology *table,
					      size_t accelerator, const struct hmreg_place *nic);
const struct hmreg_place *info_nic_of(const struct hmreg_topology *table,
				      const struct hmreg_nic_choice *choice);
/* Is it in no machine, but in this process? */
bool info_is_software(const struct hmreg_place *nic);
/*
 * The bridge whose box or line holds what is below this one: root ports and ports of switches, which there
 * are many of, are passed by.  SIZE_MAX: none.
 */
size_t info_shown_bridge(const struct hmreg_topology *table, size_t bridge);
/* The state of access control at a switch's own ports; HMREG_ACS_NONE where it has none. */
enum hmreg_acs info_switch_acs(const struct hmreg_topology *table, size_t bridge);
/* "8 accelerators, 8 NICs, 4 software NICs"; returns text. */
const char *info_count_text(const struct hmreg_topology *table, char *text, size_t room);
/* "400 Gb/s"; returns text. */
const char *info_speed_text(uint64_t bits_per_s, char *text, size_t room);

void info_topology_text(FILE *out, const struct hmreg_topology *table);
void info_topology_json(FILE *out, const struct hmreg_topology *table);
/* 0, or a code after a message. */
int info_topology_svg(FILE *out, const struct hmreg_topology *table);

#endif
