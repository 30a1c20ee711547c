/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info: what it prints for programs, and the parameters in both forms. */
#define _POSIX_C_SOURCE 200809L

#include "info.h"

#include <string.h>

#include <rdma/fi_domain.h>

#include "../common.h"
#include "info_hmem.h"
#include "tool_text.h"

static void number(FILE *out, const char *name, uint64_t value)
{
	fprintf(out, "\"%s\": %llu", name, (unsigned long long)value);
}

/* The names of the bits of caps, without FI_. */
static void caps(FILE *out, const char *name, uint64_t bits)
{
	char text[1024], *word, *rest = text;
	const char *separator = "";

	fi_tostr_r(text, sizeof(text), &bits, FI_TYPE_CAPS);
	fprintf(out, "\"%s\": [", name);
	while ((word = strtok_r(rest, ", ", &rest)) != NULL) {
		fputs(separator, out);
		tool_json_string(out, strncmp(word, "FI_", 3) ? word : word + 3);
		separator = ", ";
	}
	fputc(']', out);
}

static void device(FILE *out, const struct hmreg_device *d)
{
	const struct info_capability *c;
	const struct info_limit *limit;

	fputs(",\n   ", out);
	tool_json_member(out, "kind", d->kind);
	tool_json_member(out, "link", d->link);
	tool_json_member(out, "pci", d->pci);
	tool_json_member(out, "path", d->path);
	fprintf(out, "\"port\": %u, \"gid_index\": %d,\n   ", d->port, d->gid_index);
	tool_json_modes(out, "mr_mode_needed", d->mr_mode);
	fputs(", ", out);
	tool_json_modes(out, "mr_mode_kept", d->mr_mode_kept);
	fputs(",\n   \"can\": {", out);
	for (c = info_capabilities; c < info_capabilities + info_capability_count; c++)
		fprintf(out, "%s\"%s\": %s", c == info_capabilities ? "" : ", ", c->key,
			d->can & c->bit ? "true" : "false");
	fputs("},\n   \"dmabuf_reason\": ", out);
	tool_json_string(out, d->dmabuf_reason);
	fputs(",\n   \"indirect_reason\": ", out);
	tool_json_string(out, d->indirect_reason ? d->indirect_reason : "");
	fputs(",\n   \"windows_reason\": ", out);
	tool_json_string(out, d->windows_reason ? d->windows_reason : "");
	fputs(",\n   \"endpoints_reason\": ", out);
	tool_json_string(out, d->endpoints_reason ? d->endpoints_reason : "");
	fputs(",\n   \"limits\": {", out);
	for (limit = info_limits; limit < info_limits + info_limit_count; limit++) {
		fputs(limit == info_limits ? "" : ", ", out);
		number(out, limit->key, info_limit_value(limit, d));
	}
	fputc('}', out);
}

static void nic(FILE *out, const struct fid_nic *fid)
{
	const struct fi_device_attr *attr = fid->device_attr;
	const struct fi_link_attr *link = fid->link_attr;

	if (attr) {
		fputs(",\n   ", out);
		tool_json_member(out, "driver", attr->driver);
		tool_json_member(out, "firmware", attr->firmware);
		tool_json_member(out, "vendor_id", attr->vendor_id);
		tool_json_member(out, "device_id", attr->device_id);
		fputs("\"device_version\": ", out);
		tool_json_string(out, tool_or_dash(attr->device_version));
	}
	if (link) {
		fputs(",\n   ", out);
		tool_json_member(out, "link_address", link->address);
		tool_json_member(out, "network_type", link->network_type);
		number(out, "mtu", link->mtu);
		fputs(", ", out);
		number(out, "bits_per_s", link->speed);
	}
}

static void port(FILE *out, const struct info_port *p, bool verbose)
{
	const struct fi_info *info = p->info;
	char text[16384];

	fputs("\n  {", out);
	tool_json_member(out, "domain", info->domain_attr->name);
	tool_json_member(out, "fabric", info->fabric_attr->name);
	tool_json_member(out, "provider", info->fabric_attr->prov_name);
	tool_json_member(out, "device", tool_device_name(info));
	tool_json_member(out, "state", info_link_state(info));
	fputs("\"addresses\": [", out);
	tool_json_string(out, info_address_text(info, text, sizeof(text)));
	if (p->other) {
		fputs(", ", out);
		tool_json_string(out, info_address_text(p->other, text, sizeof(text)));
	}
	fputs("],\n   ", out);
	tool_json_modes(out, "mr_mode", info->domain_attr->mr_mode);
	fputs(", ", out);
	caps(out, "caps", info->caps);
	fputs(", ", out);
	caps(out, "caps_on_request", p->on_request);
	fputs(",\n   ", out);
	number(out, "mr_iov_limit", info->domain_attr->mr_iov_limit);
	fputs(", ", out);
	number(out, "mr_key_size", info->domain_attr->mr_key_size);
	fputs(", ", out);
	number(out, "max_msg_size", info->ep_attr->max_msg_size);
	fputs(", ", out);
	number(out, "inject_size", info->tx_attr->inject_size);
	fputs(", ", out);
	number(out, "max_xpu_ctx_cnt", info->domain_attr->max_xpu_ctx_cnt);
	if (info->nic)
		nic(out, info->nic);
	if (p->described)
		device(out, &p->device);
	if (verbose) {
		fputs(",\n   \"attributes\": ", out);
		tool_json_string(out, fi_tostr_r(text, sizeof(text), info, FI_TYPE_INFO));
	}
	fputc('}', out);
}

void info_report_json(FILE *out, const struct info_ports *ports, bool verbose,
		      const struct info_hmem *hmem)
{
	size_t i;

	fputs("{\"tool\": \"hmreg-info\",\n \"ports\": [", out);
	for (i = 0; i < ports->count; i++) {
		fputs(i ? "," : "", out);
		port(out, &ports->port[i], verbose);
	}
	fputs("],\n \"unusable\": [", out);
	for (i = 0; i < ports->unusable_count; i++) {
		fputs(i ? ",\n  {" : "\n  {", out);
		tool_json_member(out, "device", ports->unusable[i].name);
		fputs("\"reason\": ", out);
		tool_json_string(out, ports->unusable[i].reason);
		fputc('}', out);
	}
	fputs("],\n \"cache_monitor\": ", out);
	if (ports->watched) {
		fputc('{', out);
		tool_json_member(out, "name", ports->monitor.name);
		tool_json_member(out, "reason", ports->monitor.reason);
		fprintf(out, "\"in_use\": %s}", ports->monitor.in_use ? "true" : "false");
	} else {
		fputs("null", out);
	}
	fputs(",\n \"hmem\": ", out);
	info_hmem_report_json(out, hmem);
	fputs("}\n", out);
}

/* ---- parameters ---- */

static const char *type_name(enum fi_param_type type)
{
	switch (type) {
	case FI_PARAM_STRING:
		return "string";
	case FI_PARAM_INT:
		return "integer";
	case FI_PARAM_BOOL:
		return "boolean";
	case FI_PARAM_SIZE_T:
		return "size";
	}
	return "unknown";
}

/* text over lines of WIDTH, behind an indentation. */
static void print_folded(FILE *out, const char *text)
{
	const size_t width = 92;
	size_t len;

	for (; *text; text += strspn(text, " ")) {
		len = strlen(text);
		if (len > width) {
			for (len = width; len && text[len] != ' '; len--)
				;
			len = len ? len : width;
		}
		fprintf(out, "    %.*s\n", (int)len, text);
		text += len;
	}
}

int info_report_params(FILE *out, bool json)
{
	struct fi_param *params;
	int count, i, ret = fi_getparams(&params, &count);

	if (ret)
		return sample_fail("fi_getparams", ret);
	if (json)
		fputs("{\"tool\": \"hmreg-info\",\n \"params\": [", out);
	for (i = 0; i < count; i++) {
		if (json) {
			fputs(i ? ",\n  {" : "\n  {", out);
			tool_json_member(out, "name", params[i].name);
			tool_json_member(out, "type", type_name(params[i].type));
			fputs("\"value\": ", out);
			if (params[i].value)
				tool_json_string(out, params[i].value);
			else
				fputs("null", out);
			fputs(", \"help\": ", out);
			tool_json_string(out, params[i].help_string);
			fputc('}', out);
		} else {
			fprintf(out, "%s = %s (%s)\n", params[i].name,
				params[i].value ? params[i].value : "[not set]",
				type_name(params[i].type));
			print_folded(out, params[i].help_string);
		}
	}
	if (json)
		fputs("]}\n", out);
	fi_freeparams(params);
	return 0;
}
