/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info: what it prints for people. */
#define _POSIX_C_SOURCE 200809L

#include "info.h"

#include <string.h>

#include <rdma/fi_domain.h>

#include "../common.h"
#include "tool_text.h"

#define LABEL  "  %-26s"
#define WIDTH  100
#define INDENT 28

/* Words that ", " separates, each without prefix, over as many lines as it takes. */
static void print_words(FILE *out, const char *label, const char *words, const char *prefix)
{
	const char *end;
	int column = INDENT, len;

	fprintf(out, LABEL, label);
	if (!*words)
		fputs("none", out);
	for (; *words; words = end + strspn(end, ", ")) {
		end = words + strcspn(words, ",");
		if (!strncmp(words, prefix, strlen(prefix)))
			words += strlen(prefix);
		len = (int)(end - words);
		if (column > INDENT && column + len + 1 > WIDTH) {
			fprintf(out, "\n%*s", INDENT, "");
			column = INDENT;
		}
		fprintf(out, "%s%.*s", column > INDENT ? " " : "", len, words);
		column += len + (column > INDENT);
	}
	fputc('\n', out);
}

static void print_caps(FILE *out, const char *label, uint64_t caps)
{
	char text[1024];

	print_words(out, label, fi_tostr_r(text, sizeof(text), &caps, FI_TYPE_CAPS), "FI_");
}

static void print_mode(FILE *out, const char *label, int mode)
{
	char text[1024];

	print_words(out, label, fi_tostr_r(text, sizeof(text), &mode, FI_TYPE_MR_MODE), "FI_MR_");
}

static void print_link(FILE *out, const struct info_port *port)
{
	const struct fid_nic *nic = port->info->nic;

	fprintf(out, LABEL "%s, %s", "link", port->described ? port->device.link : "-",
		info_link_state(port->info));
	if (nic && nic->link_attr && nic->link_attr->speed)
		fprintf(out, ", %.4g Gbit/s", (double)nic->link_attr->speed / 1e9);
	if (nic && nic->link_attr && nic->link_attr->mtu)
		fprintf(out, ", MTU %zu", nic->link_attr->mtu);
	fputc('\n', out);
}

static void print_limit(FILE *out, const char *name, uint64_t value, bool bytes)
{
	char text[40];

	if (bytes && value == UINT64_MAX)
		fprintf(out, LABEL "%s\n", name, "as much as there is");
	else if (bytes)
		fprintf(out, LABEL "%s\n", name, tool_size_text(value, text, sizeof(text)));
	else
		fprintf(out, LABEL "%llu\n", name, (unsigned long long)value);
}

/* What the hardware has and has not; it makes no sense for software. */
static void print_capabilities(FILE *out, const struct hmreg_device *device)
{
	const struct info_capability *c;
	const char *why;
	bool has;

	fprintf(out, "\n  %-26s%-5s%s\n", "capability", "has", "what it decides");
	for (c = info_capabilities; c < info_capabilities + info_capability_count; c++) {
		has = device->can & c->bit;
		fprintf(out, LABEL "%-5s%s\n", c->name, has ? "yes" : "no", c->decides);
		why = info_why_not(c, device);
		if (!has && *why)
			fprintf(out, "%*swhy not: %s\n", INDENT + 5, "", why);
	}
}

static void print_limits(FILE *out, const struct info_port *port)
{
	const struct info_limit *limit;
	const struct fi_info *info = port->info;
	bool hardware = port->described && strcmp(port->device.kind, "sw");

	fprintf(out, "\n  limits\n");
	for (limit = info_limits; hardware && limit < info_limits + info_limit_count; limit++)
		print_limit(out, limit->name, info_limit_value(limit, &port->device), limit->bytes);
	if (!hardware)
		print_limit(out, "regions", info->domain_attr->mr_cnt, false);
	print_limit(out, "buffers per region", info->domain_attr->mr_iov_limit, false);
	print_limit(out, "key size", info->domain_attr->mr_key_size, true);
	if (info_registers_only(port))
		return;
	print_limit(out, "largest message", info->ep_attr->max_msg_size, true);
	print_limit(out, "largest injected message", info->tx_attr->inject_size, true);
	print_limit(out, "XPU contexts", info->domain_attr->max_xpu_ctx_cnt, false);
}

static void print_attributes(FILE *out, const struct fi_info *info)
{
	char text[16384];
	char *line, *rest = text;

	fi_tostr_r(text, sizeof(text), info, FI_TYPE_INFO);
	fprintf(out, "\n  every attribute\n");
	while ((line = strtok_r(rest, "\n", &rest)) != NULL)
		fprintf(out, "    %s\n", line);
}

static void print_heading(FILE *out, const struct info_port *port)
{
	const struct fi_info *info = port->info;
	const struct hmreg_device *device = &port->device;
	char text[80];

	fprintf(out, "%s\n", info->domain_attr->name);
	fprintf(out, LABEL "%s (provider %s)\n", "fabric", info->fabric_attr->name,
		info->fabric_attr->prov_name);
	fprintf(out, LABEL "%s", "device", tool_device_name(info));
	if (port->described && device->port)
		fprintf(out, ", %s, port %u", device->kind, device->port);
	else if (port->described)
		fprintf(out, ", %s", device->kind);
	if (port->described && device->gid_index >= 0)
		fprintf(out, ", GID index %d", device->gid_index);
	fputc('\n', out);
	print_link(out, port);
	fprintf(out, LABEL "%s", "address", info_address_text(info, text, sizeof(text)));
	if (port->other)
		fprintf(out, ", %s", info_address_text(port->other, text, sizeof(text)));
	fputc('\n', out);
}

static void print_port(FILE *out, const struct info_port *port, bool verbose)
{
	const struct fi_info *info = port->info;
	const struct hmreg_device *device = &port->device;
	bool hardware = port->described && strcmp(device->kind, "sw");

	print_heading(out, port);
	if (hardware) {
		fprintf(out, LABEL "%s\n", "PCI", tool_or_dash(device->pci));
		fprintf(out, LABEL "%s\n", "path to memory", tool_or_dash(device->path));
	}
	print_caps(out, "caps", info->caps);
	print_caps(out, "caps on request", port->on_request);
	print_mode(out, "mr_mode needed",
		   port->described ? device->mr_mode : info->domain_attr->mr_mode);
	if (hardware || (port->described && device->mr_mode_kept))
		print_mode(out, "mr_mode kept if offered", device->mr_mode_kept);
	if (hardware)
		print_capabilities(out, device);
	print_limits(out, port);
	if (verbose)
		print_attributes(out, info);
}

/* What keeps registrations of host memory right, for the process as a whole. */
static void print_monitor(FILE *out, const struct hmreg_cache_monitor *monitor)
{
	fputs("\nregistration cache\n", out);
	if (monitor->name[0])
		fprintf(out, LABEL "%s%s\n", "monitor", monitor->name,
			monitor->in_use ? "" : ", as soon as it is needed");
	else
		fprintf(out, LABEL "%s\n", "monitor", monitor->reason);
}

/* Hardware, usable or not. */
static bool has_devices(const struct info_ports *ports)
{
	size_t i;

	for (i = 0; i < ports->count; i++) {
		if (!ports->port[i].described || strcmp(ports->port[i].device.kind, "sw"))
			return true;
	}
	return ports->unusable_count > 0;
}

void info_report(FILE *out, const struct info_ports *ports, bool verbose)
{
	size_t i;

	for (i = 0; i < ports->count; i++) {
		if (i)
			fputc('\n', out);
		print_port(out, &ports->port[i], verbose);
	}
	if (ports->count && ports->unusable_count)
		fputc('\n', out);
	for (i = 0; i < ports->unusable_count; i++)
		fprintf(out, "%s\n" LABEL "%s\n", ports->unusable[i].name, "not usable",
			ports->unusable[i].reason);
	if (ports->watched && ports->all)
		print_monitor(out, &ports->monitor);
	if (ports->all && !has_devices(ports))
		fputs("\nThe system has no RDMA device.\n", out);
}
