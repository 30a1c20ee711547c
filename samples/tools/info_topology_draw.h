/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-info --topology --svg: where things are in the picture.  A box for each socket holds those of its host
 * bridges, these the ones of switches.  Accelerators are in one row across all boxes, NICs in another one below
 * it, so that a line from one to the other meets nothing but the edges of boxes.
 */
#ifndef HMREG_INFO_TOPOLOGY_DRAW_H
#define HMREG_INFO_TOPOLOGY_DRAW_H

#include "info_topology.h"

#define DRAW_CELL   156 /* width of an accelerator or NIC */
#define DRAW_TALL   74	/* its height */
#define DRAW_HEAD   40	/* height of a box's title */
#define DRAW_PAD    8	/* around what is in a box, and between boxes */
#define DRAW_TOP    62	/* above the boxes */
#define DRAW_LINES  64	/* between the two rows */
#define DRAW_MARGIN 16

enum draw_kind {
	DRAW_SOCKET,
	DRAW_HOST,
	DRAW_SWITCH,
	DRAW_ELSEWHERE
};

struct draw_box {
	enum draw_kind kind;
	int x, width, depth; /* depth 0: in no other box */
	char title[48], below[48];
};

struct draw {
	const struct hmreg_topology *table;
	struct draw_box *box; /* owned, outer ones first */
	size_t boxes;
	int *accelerator_x, *nic_x; /* owned: left edges; -1: not in the picture */
	bool *put;		    /* owned: host bridges that have their box */
	int depth;		    /* boxes in each other, at most */
	int width;
};

/* -FI_ENOMEM: printed. */
int draw_place(const struct hmreg_topology *table, struct draw *draw);
void draw_free(struct draw *draw);

/* Edges. */
int draw_accelerators_y(const struct draw *draw);
int draw_nics_y(const struct draw *draw);
int draw_box_y(const struct draw_box *box);
int draw_box_bottom(const struct draw *draw, const struct draw_box *box);

#endif
