/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info --topology --svg: where things are in the picture. */
#define _POSIX_C_SOURCE 200809L

#include "info_topology_draw.h"

#include <stdlib.h>
#include <string.h>

#include "../common.h"

/* ---- edges ---- */

int draw_accelerators_y(const struct draw *draw)
{
	return DRAW_TOP + draw->depth * DRAW_HEAD;
}

int draw_nics_y(const struct draw *draw)
{
	return draw_accelerators_y(draw) + DRAW_TALL + DRAW_LINES;
}

int draw_box_y(const struct draw_box *box)
{
	return DRAW_TOP + box->depth * DRAW_HEAD;
}

int draw_box_bottom(const struct draw *draw, const struct draw_box *box)
{
	return draw_nics_y(draw) + DRAW_TALL + (draw->depth - box->depth) * DRAW_PAD;
}

/* ---- boxes ---- */

static struct draw_box *add_box(struct draw *draw, enum draw_kind kind, int x, int depth)
{
	struct draw_box *box = &draw->box[draw->boxes++];

	*box = (struct draw_box){ .kind = kind, .x = x, .depth = depth };
	if (depth + 1 > draw->depth)
		draw->depth = depth + 1;
	return box;
}

/* A box ends behind what is in it; at least one cell is. */
static int end_box(struct draw_box *box, int x)
{
	int least = box->x + DRAW_CELL + 2 * DRAW_PAD;

	box->width = (x < least ? least : x) - box->x;
	return box->x + box->width + DRAW_PAD;
}

/* What is drawn below this bridge, without what is below others; software where wanted. */
static int put_cells(struct draw *draw, size_t bridge, int x)
{
	const struct hmreg_topology *table = draw->table;
	int up = x, down = x;
	size_t i;

	for (i = 0; i < table->accelerator_count; i++) {
		if (info_shown_bridge(table, table->accelerators[i]->bridge) != bridge)
			continue;
		draw->accelerator_x[i] = up;
		up += DRAW_CELL + DRAW_PAD;
	}
	for (i = 0; i < table->nic_count; i++) {
		if (info_is_software(table->nics[i]) ||
		    info_shown_bridge(table, table->nics[i]->bridge) != bridge)
			continue;
		draw->nic_x[i] = down;
		down += DRAW_CELL + DRAW_PAD;
	}
	return up > down ? up : down;
}

static void title_bridge(const struct hmreg_topology *table, size_t i, struct draw_box *box)
{
	const struct hmreg_bridge *bridge = table->bridges[i];

	snprintf(box->title, sizeof(box->title), "%s %s", info_bridge_word(bridge->kind),
		 bridge->name);
	if (bridge->kind != HMREG_BRIDGE_HOST)
		snprintf(box->below, sizeof(box->below), "%s",
			 info_acs_text(info_switch_acs(table, i)));
	else if (bridge->node >= 0)
		snprintf(box->below, sizeof(box->below), "NUMA node %d", bridge->node);
	else
		snprintf(box->below, sizeof(box->below), "NUMA node not known");
}

/* Returns where the next one begins. */
static int put_bridge(struct draw *draw, size_t i, int x, int depth)
{
	const struct hmreg_topology *table = draw->table;
	bool host = table->bridges[i]->kind == HMREG_BRIDGE_HOST;
	struct draw_box *box = add_box(draw, host ? DRAW_HOST : DRAW_SWITCH, x, depth);
	size_t below;

	title_bridge(table, i, box);
	x = put_cells(draw, i, x + DRAW_PAD);
	for (below = i + 1; below < table->bridge_count; below++)
		if (info_shown_bridge(table, below) == below &&
		    table->bridges[below]->parent != SIZE_MAX &&
		    info_shown_bridge(table, table->bridges[below]->parent) == i)
			x = put_bridge(draw, below, x, depth + 1);
	return end_box(box, x);
}

/* The host bridge above; SIZE_MAX: none. */
static size_t host_of(const struct hmreg_topology *table, size_t bridge)
{
	while (bridge != SIZE_MAX && table->bridges[bridge]->parent != SIZE_MAX)
		bridge = table->bridges[bridge]->parent;
	return bridge;
}

/* A host bridge of the socket, and behind it those of the NICs that are taken first below it. */
static int put_host(struct draw *draw, size_t host, int socket, int x)
{
	const struct hmreg_topology *table = draw->table;
	size_t a, other;

	if (table->bridges[host]->socket != socket || draw->put[host])
		return x;
	draw->put[host] = true;
	x = put_bridge(draw, host, x, 1);
	for (a = 0; a < table->accelerator_count; a++) {
		if (host_of(table, table->accelerators[a]->bridge) != host)
			continue;
		other = host_of(table, info_nic_of(table, info_choice(table, a, 0))->bridge);
		if (other != SIZE_MAX)
			x = put_host(draw, other, socket, x);
	}
	return x;
}

static int put_socket(struct draw *draw, int socket, int x)
{
	const struct hmreg_topology *table = draw->table;
	struct draw_box *box = NULL;
	size_t i;

	for (i = 0; i < table->bridge_count; i++) {
		if (table->bridges[i]->kind != HMREG_BRIDGE_HOST ||
		    table->bridges[i]->socket != socket)
			continue;
		if (!box) {
			box = add_box(draw, DRAW_SOCKET, x, 0);
			x += DRAW_PAD;
			if (socket >= 0)
				snprintf(box->title, sizeof(box->title), "socket %d", socket);
			else
				snprintf(box->title, sizeof(box->title), "socket not known");
		}
		x = put_host(draw, i, socket, x);
	}
	return box ? end_box(box, x) : x;
}

/* The one after this; -1: none.  Some firmware numbers them with large gaps. */
static int next_socket(const struct hmreg_topology *table, int socket)
{
	int next = -1;
	size_t i;

	for (i = 0; i < table->bridge_count; i++) {
		int other = table->bridges[i]->socket;

		if (other > socket && (next < 0 || other < next))
			next = other;
	}
	return next;
}

/* What no bridge is known of. */
static int put_lost(struct draw *draw, int x)
{
	struct draw_box box = { .kind = DRAW_ELSEWHERE, .x = x };
	int end = put_cells(draw, SIZE_MAX, x + DRAW_PAD);

	if (end == x + DRAW_PAD)
		return x;
	snprintf(box.title, sizeof(box.title), "in no known place");
	x = end_box(&box, end);
	*add_box(draw, DRAW_ELSEWHERE, box.x, 0) = box;
	return x;
}

/* Software NICs that are somebody's first choice. */
static int put_software(struct draw *draw, int x)
{
	const struct hmreg_topology *table = draw->table;
	struct draw_box *box = NULL;
	size_t a, n;

	for (n = 0; n < table->nic_count; n++) {
		for (a = 0; a < table->accelerator_count; a++)
			if (info_nic_of(table, info_choice(table, a, 0)) == table->nics[n])
				break;
		if (!info_is_software(table->nics[n]) || a == table->accelerator_count)
			continue;
		if (!box) {
			box = add_box(draw, DRAW_ELSEWHERE, x, 0);
			snprintf(box->title, sizeof(box->title), "in the process");
			x += DRAW_PAD;
		}
		draw->nic_x[n] = x;
		x += DRAW_CELL + DRAW_PAD;
	}
	return box ? end_box(box, x) : x;
}

/* ---- all of it ---- */

void draw_free(struct draw *draw)
{
	free(draw->box);
	free(draw->accelerator_x);
	free(draw->nic_x);
	free(draw->put);
	memset(draw, 0, sizeof(*draw));
}

int draw_place(const struct hmreg_topology *table, struct draw *draw)
{
	int x = DRAW_MARGIN, socket = -1;
	size_t i;

	*draw = (struct draw){ .table = table };
	/* sockets are not more than host bridges */
	draw->box = calloc(2 * table->bridge_count + 2, sizeof(*draw->box));
	draw->accelerator_x = calloc(table->accelerator_count + 1, sizeof(int));
	draw->nic_x = calloc(table->nic_count + 1, sizeof(int));
	draw->put = calloc(table->bridge_count + 1, sizeof(bool));
	if (!draw->put || !draw->box || !draw->accelerator_x || !draw->nic_x) {
		draw_free(draw);
		return sample_fail("calloc", -FI_ENOMEM);
	}
	for (i = 0; i < table->accelerator_count; i++)
		draw->accelerator_x[i] = -1;
	for (i = 0; i < table->nic_count; i++)
		draw->nic_x[i] = -1;
	while ((socket = next_socket(table, socket)) >= 0)
		x = put_socket(draw, socket, x);
	x = put_socket(draw, -1, x);
	x = put_lost(draw, x);
	x = put_software(draw, x);
	draw->width = x - DRAW_PAD + DRAW_MARGIN;
	return 0;
}
