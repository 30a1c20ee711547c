/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info: what it prints about accelerators. */
#define _POSIX_C_SOURCE 200809L

#include "info_hmem.h"

#include <string.h>

#include "tool_text.h"

#define MOST_REASONS 64

/* A cell's three ways, in the order in which a NIC tries them. */
static const struct {
	const char *key, *name;
	size_t can, reason; /* offsets in struct hmreg_hmem_path */
} ways[] = {
	{ "dmabuf", "dma-buf", offsetof(struct hmreg_hmem_path, dmabuf),
	  offsetof(struct hmreg_hmem_path, dmabuf_reason) },
	{ "peer_memory", "peer memory", offsetof(struct hmreg_hmem_path, peer),
	  offsetof(struct hmreg_hmem_path, peer_reason) },
	{ "copy", "copy", offsetof(struct hmreg_hmem_path, copy),
	  offsetof(struct hmreg_hmem_path, copy_reason) },
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static bool way_can(const struct info_cell *cell, size_t way)
{
	int can;

	memcpy(&can, (const char *)&cell->path + ways[way].can, sizeof(can));
	return can != 0;
}

static const char *way_reason(const struct info_cell *cell, size_t way)
{
	return (const char *)&cell->path + ways[way].reason;
}

static const char *cell_place(const struct info_cell *cell, char text[48])
{
	return cell->accel ? tool_place_text(&cell->accel->place, text) : "host";
}

static const char *cell_nic(const struct info_cell *cell)
{
	return cell->port->info->domain_attr->name;
}

static const char *driver_remedy(const struct info_hmem *hmem, enum fi_hmem_iface iface)
{
	const struct info_driver *driver = &hmem->driver[iface];

	/* what the user has switched off needs none */
	if (!driver->error || strstr(driver->iface.reason, "FI_HMEM"))
		return "";
	return info_remedy(INFO_STEP_DRIVER, driver->error, iface, 0);
}

static const char *check_remedy(const struct info_cell *cell)
{
	const struct info_check *check = &cell->check;

	return info_remedy(check->step, check->error,
			   cell->accel ? cell->accel->place.iface : FI_HMEM_SYSTEM,
			   check->path ? check->path : cell->path.path);
}

/* ---- for people ---- */

static void print_drivers(FILE *out, const struct info_hmem *hmem)
{
	const struct hmreg_hmem_iface *iface;
	const char *remedy;
	int i;

	fputs("\nmemory interfaces\n", out);
	for (i = FI_HMEM_SYSTEM + 1; i < TOOL_IFACES; i++) {
		iface = &hmem->driver[i].iface;
		fprintf(out, "  %-13s", iface->name);
		if (hmem->driver[i].error)
			fprintf(out, "not usable: %s\n", iface->reason);
		else
			fprintf(out, "%zu device%s\n", iface->devices,
				iface->devices == 1 ? "" : "s");
		fprintf(out, "  %-13sdriver %s%s%s\n", "", tool_or_dash(iface->driver),
			iface->version[0] ? ", version " : "", iface->version);
		remedy = driver_remedy(hmem, (enum fi_hmem_iface)i);
		if (remedy[0])
			fprintf(out, "  %-13sremedy: %s\n", "", remedy);
	}
}

static void print_device(FILE *out, const struct info_accel *accel)
{
	const struct hmreg_hmem_device *d = &accel->device;
	char text[48], window[48], left[48];

	fprintf(out, "  %-13s%s, PCI %s, %s", tool_place_text(&accel->place, text), d->name,
		tool_or_dash(d->pci),
		d->memory ? tool_size_text(d->memory, window, sizeof(window)) : "memory unknown");
	if (d->window)
		fprintf(out, ", PCI window %s", tool_size_text(d->window, window, sizeof(window)));
	if (d->window && d->window_free != UINT64_MAX)
		fprintf(out, " (%s not taken)", tool_size_text(d->window_free, left, sizeof(left)));
	if (d->dmabuf)
		fputs(", dma-bufs\n", out);
	else
		fprintf(out, "\n  %-13sno dma-bufs: %s\n", "", d->dmabuf_reason);
}

/* Reasons are told once each, below the table. */
struct notes {
	const char *text[MOST_REASONS];
	size_t count;
};

static size_t note_of(struct notes *notes, const char *reason)
{
	size_t i = 0;

	while (i < notes->count && strcmp(notes->text[i], reason))
		i++;
	if (i == notes->count && i < MOST_REASONS)
		notes->text[notes->count++] = reason;
	return i + 1;
}

static void print_matrix(FILE *out, const struct info_hmem *hmem)
{
	struct notes notes = { .count = 0 };
	const struct info_cell *cell;
	char text[48];
	size_t i, w;

	fprintf(out, "\nhow NICs reach the memory of devices\n  %-13s%-16s", "device", "NIC");
	for (w = 0; w < WAYS; w++)
		fprintf(out, "%-13s", ways[w].name);
	fputs("first tried\n", out);
	for (i = 0; i < hmem->cell_count; i++) {
		cell = &hmem->cell[i];
		if (!cell->accel)
			continue;
		fprintf(out, "  %-13s%-16s", cell_place(cell, text), cell_nic(cell));
		for (w = 0; w < WAYS; w++) {
			if (way_can(cell, w))
				snprintf(text, sizeof(text), "yes");
			else
				snprintf(text, sizeof(text), "no [%zu]",
					 note_of(&notes, way_reason(cell, w)));
			fprintf(out, "%-13s", text);
		}
		fprintf(out, "%s\n", tool_path_word(cell->path.path));
	}
	for (i = 0; i < notes.count; i++)
		fprintf(out, "  [%zu] %s\n", i + 1,
			notes.text[i][0] ? notes.text[i] : "the library does not say why");
}

static void print_check(FILE *out, const struct info_cell *cell)
{
	const struct info_check *check = &cell->check;
	const char *remedy;
	char text[48];

	fprintf(out, "  %-13s%-16s", cell_place(cell, text), cell_nic(cell));
	switch (check->outcome) {
	case INFO_NOT_TRIED:
		fputs("not tried: there is no way, as said above\n", out);
		return;
	case INFO_RIGHT:
		fprintf(out, "right, %s", tool_path_text(check->path));
		if (check->exports)
			fprintf(out, " (%llu exported)", (unsigned long long)check->exports);
		if (info_registers_only(cell->port))
			fputs("; registered, not transferred: the NIC has no endpoints", out);
		fputc('\n', out);
		return;
	case INFO_FAILED:
		break;
	}
	fprintf(out, "FAILED at step \"%s\": %s (%d)\n", info_step_name(check->step),
		fi_strerror(-check->error), check->error);
	if (check->detail[0])
		fprintf(out, "  %-13s%-16s%s\n", "", "", check->detail);
	remedy = check_remedy(cell);
	if (remedy[0])
		fprintf(out, "  %-13s%-16sremedy: %s\n", "", "", remedy);
}

void info_hmem_report(FILE *out, const struct info_hmem *hmem)
{
	size_t i;

	print_drivers(out, hmem);
	if (hmem->device_count) {
		fputs("\ndevices\n", out);
		for (i = 0; i < hmem->device_count; i++)
			print_device(out, &hmem->accel[i]);
		print_matrix(out, hmem);
	} else {
		fputs("\nThe system has no accelerator that can be used.\n", out);
	}
	if (!hmem->checked)
		return;
	fputs("\ncheck: a page written to a registered page, read back and compared\n", out);
	for (i = 0; i < hmem->cell_count; i++)
		print_check(out, &hmem->cell[i]);
}

/* ---- for programs ---- */

/* "iface": "cuda", "device": 0, "nic": "sw-verbs", */
static void json_cell(FILE *out, const struct info_cell *cell)
{
	tool_json_member(out, "iface",
			 tool_iface_name(cell->accel ? cell->accel->place.iface : FI_HMEM_SYSTEM));
	if (cell->accel)
		fprintf(out, "\"device\": %d, ", cell->accel->place.device);
	else
		fputs("\"device\": null, ", out);
	tool_json_member(out, "nic", cell_nic(cell));
}

/* The last member: no comma. */
static void json_last(FILE *out, const char *name, const char *value)
{
	fprintf(out, "\"%s\": ", name);
	tool_json_string(out, value);
	fputc('}', out);
}

static void json_drivers(FILE *out, const struct info_hmem *hmem)
{
	const struct hmreg_hmem_iface *iface;
	int i;

	for (i = FI_HMEM_SYSTEM + 1; i < TOOL_IFACES; i++) {
		iface = &hmem->driver[i].iface;
		fputs(i == FI_HMEM_SYSTEM + 1 ? "\n   {" : ",\n   {", out);
		tool_json_member(out, "name", iface->name);
		tool_json_member(out, "driver", iface->driver);
		tool_json_member(out, "version", iface->version);
		fprintf(out, "\"usable\": %s, \"devices\": %zu, \"reason\": ",
			hmem->driver[i].error ? "false" : "true", iface->devices);
		tool_json_string(out, iface->reason);
		fputs(", ", out);
		json_last(out, "remedy", driver_remedy(hmem, (enum fi_hmem_iface)i));
	}
}

static void json_device(FILE *out, const struct info_accel *accel)
{
	const struct hmreg_hmem_device *d = &accel->device;

	tool_json_member(out, "iface", tool_iface_name(accel->place.iface));
	fprintf(out, "\"device\": %d, ", d->id);
	tool_json_member(out, "name", d->name);
	tool_json_member(out, "pci", d->pci);
	fprintf(out, "\"memory\": %llu, \"window\": %llu, \"window_free\": ",
		(unsigned long long)d->memory, (unsigned long long)d->window);
	if (d->window_free == UINT64_MAX)
		fputs("null", out);
	else
		fprintf(out, "%llu", (unsigned long long)d->window_free);
	fprintf(out, ", \"dmabuf\": %s, ", d->dmabuf ? "true" : "false");
	json_last(out, "dmabuf_reason", d->dmabuf_reason);
}

static void json_path(FILE *out, const struct info_cell *cell)
{
	size_t w;

	json_cell(out, cell);
	for (w = 0; w < WAYS; w++) {
		fprintf(out, "\"%s\": %s, \"%s_reason\": ", ways[w].key,
			way_can(cell, w) ? "true" : "false", ways[w].key);
		tool_json_string(out, way_reason(cell, w));
		fputs(", ", out);
	}
	json_last(out, "first", tool_path_word(cell->path.path));
}

static void json_check(FILE *out, const struct info_cell *cell)
{
	static const char *const outcomes[] = {
		[INFO_NOT_TRIED] = "not tried", [INFO_RIGHT] = "right", [INFO_FAILED] = "failed"
	};
	const struct info_check *check = &cell->check;
	bool failed = check->outcome == INFO_FAILED;

	json_cell(out, cell);
	tool_json_member(out, "outcome", outcomes[check->outcome]);
	tool_json_member(out, "path", tool_path_word(check->path));
	fprintf(out, "\"transferred\": %s, ",
		check->outcome == INFO_RIGHT && !info_registers_only(cell->port) ? "true"
										 : "false");
	fprintf(out, "\"exports\": %llu, \"error\": %d, ", (unsigned long long)check->exports,
		check->error);
	tool_json_member(out, "step", failed ? info_step_name(check->step) : "-");
	fputs("\"detail\": ", out);
	tool_json_string(out, failed ? check->detail : "");
	fputs(", ", out);
	json_last(out, "remedy", failed ? check_remedy(cell) : "");
}

/* Each cell that is wanted as an object of a list. */
static void json_cells(FILE *out, const struct info_hmem *hmem, bool host,
		       void (*print)(FILE *out, const struct info_cell *cell))
{
	const char *separator = "\n   {";
	size_t i;

	for (i = 0; i < hmem->cell_count; i++) {
		if (!hmem->cell[i].accel && !host)
			continue;
		fputs(separator, out);
		print(out, &hmem->cell[i]);
		separator = ",\n   {";
	}
}

void info_hmem_report_json(FILE *out, const struct info_hmem *hmem)
{
	size_t i;

	if (!hmem) {
		fputs("null", out);
		return;
	}
	fputs("{\n  \"interfaces\": [", out);
	json_drivers(out, hmem);
	fputs("],\n  \"devices\": [", out);
	for (i = 0; i < hmem->device_count; i++) {
		fputs(i ? ",\n   {" : "\n   {", out);
		json_device(out, &hmem->accel[i]);
	}
	fputs("],\n  \"paths\": [", out);
	json_cells(out, hmem, false, json_path);
	fputs("],\n  \"checks\": ", out);
	if (!hmem->checked) {
		fputs("null}", out);
		return;
	}
	fputc('[', out);
	json_cells(out, hmem, true, json_check);
	fputs("]}", out);
}
