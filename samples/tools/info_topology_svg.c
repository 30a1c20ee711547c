/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info --topology --svg: the picture. */
#define _POSIX_C_SOURCE 200809L

#include "info_topology.h"

#include <stdarg.h>
#include <string.h>

#include "info_topology_draw.h"
#include "tool_accel.h"
#include "tool_text.h"

#define NAME_MOST   16 /* characters that fit into a cell */
#define TEXT_MOST   21
#define LEAST_WIDTH 620
#define LINE_TALL   20
#define NOTES_MOST  32

static const char *color_of(enum hmreg_distance distance)
{
	static const char *const colors[] = {
		[HMREG_DISTANCE_DEVICE] = "#1b7837",	[HMREG_DISTANCE_SWITCH] = "#1b7837",
		[HMREG_DISTANCE_ROOT_PORT] = "#5aae61", [HMREG_DISTANCE_HOST_BRIDGE] = "#2166ac",
		[HMREG_DISTANCE_NODE] = "#b8860b",	[HMREG_DISTANCE_SOCKET] = "#e08214",
		[HMREG_DISTANCE_SYSTEM] = "#b2182b",	[HMREG_DISTANCE_UNKNOWN] = "#555555",
		[HMREG_DISTANCE_SOFTWARE] = "#762a83",
	};

	return (size_t)distance < sizeof(colors) / sizeof(colors[0]) && colors[distance]
		       ? colors[distance]
		       : "#555555";
}

/* Bytes that are no plain text are left out. */
static void escape(FILE *out, const char *text, size_t most)
{
	size_t i, len = strlen(text);

	for (i = 0; i < len && i < most; i++) {
		if (len > most && i == most - 1)
			fputs("&#8230;", out);
		else if (text[i] == '&')
			fputs("&amp;", out);
		else if (text[i] == '<')
			fputs("&lt;", out);
		else if (text[i] == '>')
			fputs("&gt;", out);
		else if (text[i] >= ' ' && text[i] <= '~')
			fputc(text[i], out);
	}
}

static void text(FILE *out, const char *style, int x, int y, size_t most, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

static void text(FILE *out, const char *style, int x, int y, size_t most, const char *fmt, ...)
{
	char line[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\">", style, x, y);
	escape(out, line, most);
	fputs("</text>\n", out);
}

/* ---- boxes ---- */

static void print_box(FILE *out, const struct draw *draw, const struct draw_box *box)
{
	static const char *const styles[] = { [DRAW_SOCKET] = "socket",
					      [DRAW_HOST] = "host",
					      [DRAW_SWITCH] = "switch",
					      [DRAW_ELSEWHERE] = "elsewhere" };
	int y = draw_box_y(box);

	fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n",
		styles[box->kind], box->x, y, box->width, draw_box_bottom(draw, box) - y);
	text(out, "title", box->x + DRAW_PAD, y + 16, 64, "%s", box->title);
	text(out, strstr(box->below, "redirects") && !strstr(box->below, "not") ? "bad" : "small",
	     box->x + DRAW_PAD, y + 31, 64, "%s", box->below);
}

/* ---- cells ---- */

/* The whole of it, for a pointer that rests on the cell. */
static void print_hint(FILE *out, const struct hmreg_topology *table,
		       const struct hmreg_place *place)
{
	size_t bridge = place->bridge;

	fputs("<title>", out);
	escape(out, place->name, 64);
	if (*place->model)
		fputs(", ", out);
	escape(out, place->model, 64);
	if (*place->physical)
		fputs(", virtual function of ", out);
	escape(out, place->physical, 64);
	for (; bridge != SIZE_MAX; bridge = table->bridges[bridge]->parent)
		fprintf(out, ", below %s %s", info_bridge_word(table->bridges[bridge]->kind),
			table->bridges[bridge]->name);
	if (*place->reason)
		fputs("; ", out);
	escape(out, place->reason, 128);
	fputs("</title>\n", out);
}

static void print_cell(FILE *out, const struct hmreg_topology *table,
		       const struct hmreg_place *place, int x, int y)
{
	char speed[32];
	int at = x + DRAW_PAD;

	fputs("<g>", out);
	print_hint(out, table, place);
	fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>\n",
		place->info ? "nic" : "accelerator", x, y, DRAW_CELL, DRAW_TALL);
	text(out, "name", at, y + 18, NAME_MOST, "%s", place->name);
	text(out, "line", at, y + 34, TEXT_MOST, "%s",
	     !place->info	       ? place->model
	     : info_is_software(place) ? "software"
				       : info_speed_text(place->bits_per_s, speed, sizeof(speed)));
	text(out, "line", at, y + 49, TEXT_MOST, "%s%s",
	     *place->pci ? place->pci : "no PCI address", *place->physical ? " (VF)" : "");
	if (place->iommu_group >= 0)
		text(out, "line", at, y + 64, TEXT_MOST, "IOMMU %s",
		     *place->iommu ? place->iommu : "not told");
	else if (place->bridge != SIZE_MAX)
		text(out, "line", at, y + 64, TEXT_MOST, "no IOMMU");
	fputs("</g>\n", out);
}

/* ---- lines ---- */

static void print_line(FILE *out, const struct draw *draw, size_t a)
{
	const struct hmreg_nic_choice *choice = info_choice(draw->table, a, 0);
	const struct hmreg_place *nic = info_nic_of(draw->table, choice);
	int x = draw->accelerator_x[a] + DRAW_CELL / 2;
	int y = draw_accelerators_y(draw) + DRAW_TALL, to_y = draw_nics_y(draw), to;
	size_t n = 0;

	while (draw->table->nics[n] != nic)
		n++;
	to = draw->nic_x[n] + DRAW_CELL / 2;
	fprintf(out,
		"<path class=\"line-to\" stroke=\"%s\"%s d=\"M%d %d C%d %d %d %d %d %d\"><title>",
		color_of(choice->distance), choice->path ? "" : " stroke-dasharray=\"6 4\"", x, y,
		x, y + DRAW_LINES / 2, to, to_y - DRAW_LINES / 2, to, to_y);
	escape(out, draw->table->accelerators[a]->name, 64);
	fputs(" to ", out);
	escape(out, nic->name, 64);
	fprintf(out, ": %s, %s</title></path>\n", info_distance_text(choice->distance),
		choice->path ? tool_path_text(choice->path) : "cannot reach it");
}

/* ---- what the colors are, and what is to be known ---- */

static bool any_at(const struct hmreg_topology *table, enum hmreg_distance distance)
{
	size_t a;

	for (a = 0; a < table->accelerator_count; a++)
		if (info_choice(table, a, 0)->distance == distance)
			return true;
	return false;
}

/* Lines of text below the boxes: each is told once.  out NULL: their number alone. */
static int print_notes(FILE *out, const struct hmreg_topology *table, int y)
{
	const char *told[NOTES_MOST], *note;
	size_t count = 0, a, i;

	for (a = 0; a < table->accelerator_count; a++) {
		note = info_choice(table, a, 0)->reason;
		for (i = 0; i < count && strcmp(told[i], note); i++)
			;
		if (!*note || i < count || count == NOTES_MOST)
			continue;
		told[count++] = note;
		if (out)
			text(out, "small", DRAW_MARGIN, y + (int)count * LINE_TALL, 200, "%s: %s",
			     table->accelerators[a]->name, note);
	}
	return (int)count;
}

static int print_legend(FILE *out, const struct hmreg_topology *table, int y)
{
	enum hmreg_distance distance;

	for (distance = HMREG_DISTANCE_DEVICE; distance <= HMREG_DISTANCE_SOFTWARE; distance++) {
		if (!any_at(table, distance))
			continue;
		y += LINE_TALL;
		if (!out)
			continue;
		fprintf(out, "<path class=\"line-to\" stroke=\"%s\" d=\"M%d %d h36\"/>\n",
			color_of(distance), DRAW_MARGIN, y - 4);
		text(out, "small", DRAW_MARGIN + 44, y, 200,
		     "NIC taken first; between it and the accelerator: %s",
		     info_distance_text(distance));
	}
	return y;
}

/* ---- all of it ---- */

static const char style[] =
	"<style>\n"
	"text { font-family: 'DejaVu Sans', 'Liberation Sans', sans-serif; fill: #222 }\n"
	".head { font-size: 16px; font-weight: bold }\n"
	".title { font-size: 12px; font-weight: bold }\n"
	".name { font-size: 13px; font-weight: bold }\n"
	".line { font-size: 11px }\n"
	".small { font-size: 11px; fill: #444 }\n"
	".bad { font-size: 11px; fill: #b2182b; font-weight: bold }\n"
	".socket { fill: #f2f2f2; stroke: #888 }\n"
	".host { fill: #e4ecf5; stroke: #8aa3bf }\n"
	".switch { fill: #fdf6e3; stroke: #c9b458 }\n"
	".elsewhere { fill: #fff; stroke: #888; stroke-dasharray: 5 4 }\n"
	".accelerator { fill: #d9efd3; stroke: #4d8c4a }\n"
	".nic { fill: #fde0cf; stroke: #c0673a }\n"
	".line-to { fill: none; stroke-width: 3 }\n"
	"</style>\n";

static void print_picture(FILE *out, const struct draw *draw)
{
	const struct hmreg_topology *table = draw->table;
	int bottom = draw_nics_y(draw) + DRAW_TALL + (draw->depth + 1) * DRAW_PAD;
	int notes = print_notes(NULL, table, 0);
	int height = print_legend(NULL, table, bottom) + notes * LINE_TALL + DRAW_MARGIN;
	int width = draw->width < LEAST_WIDTH ? LEAST_WIDTH : draw->width;
	char counts[96];
	size_t i;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"viewBox=\"0 0 %d %d\">\n%s<rect width=\"100%%\" height=\"100%%\" "
		"fill=\"#fff\"/>\n",
		width, height, width, height, style);
	text(out, "head", DRAW_MARGIN, 26, 200, "%s",
	     info_count_text(table, counts, sizeof(counts)));
	text(out, "small", DRAW_MARGIN, 46, 200,
	     "accelerators above, NICs below; software NICs only where they are taken first");
	for (i = 0; i < draw->boxes; i++)
		print_box(out, draw, &draw->box[i]);
	for (i = 0; i < table->accelerator_count; i++)
		print_line(out, draw, i);
	for (i = 0; i < table->accelerator_count; i++)
		print_cell(out, table, table->accelerators[i], draw->accelerator_x[i],
			   draw_accelerators_y(draw));
	for (i = 0; i < table->nic_count; i++)
		if (draw->nic_x[i] >= 0)
			print_cell(out, table, table->nics[i], draw->nic_x[i], draw_nics_y(draw));
	print_notes(out, table, print_legend(out, table, bottom));
	fputs("</svg>\n", out);
}

int info_topology_svg(FILE *out, const struct hmreg_topology *table)
{
	struct draw draw;
	int ret = draw_place(table, &draw);

	if (ret)
		return ret;
	print_picture(out, &draw);
	draw_free(&draw);
	return 0;
}
