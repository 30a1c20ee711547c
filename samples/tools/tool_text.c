/* SPDX-License-Identifier: BSD-2-Clause */
/* See tool_text.h. */
#include "tool_text.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "../common.h"

static const struct {
	int bit;
	const char *name;
} modes[] = {
	{ FI_MR_LOCAL, "LOCAL" },	  { FI_MR_RAW, "RAW" },
	{ FI_MR_VIRT_ADDR, "VIRT_ADDR" }, { FI_MR_ALLOCATED, "ALLOCATED" },
	{ FI_MR_PROV_KEY, "PROV_KEY" },	  { FI_MR_MMU_NOTIFY, "MMU_NOTIFY" },
	{ FI_MR_RMA_EVENT, "RMA_EVENT" }, { FI_MR_ENDPOINT, "ENDPOINT" },
	{ FI_MR_HMEM, "HMEM" },		  { FI_MR_COLLECTIVE, "COLLECTIVE" },
	{ FI_MR_XPU_DESC, "XPU_DESC" },
};

#define MODE_COUNT (sizeof(modes) / sizeof(modes[0]))

void tool_print_mode(FILE *out, int mode, const char *separator, const char *quote,
		     const char *none)
{
	const char *between = "";
	size_t i;

	for (i = 0; i < MODE_COUNT; i++) {
		if (mode & modes[i].bit) {
			fprintf(out, "%s%s%s%s", between, quote, modes[i].name, quote);
			between = separator;
		}
	}
	if (!*between)
		fputs(none, out);
}

const char *tool_or_dash(const char *text)
{
	return text && *text ? text : "-";
}

const char *tool_device_name(const struct fi_info *info)
{
	if (!info->nic || !info->nic->device_attr)
		return "-";
	return tool_or_dash(info->nic->device_attr->name);
}

const char *tool_size_text(uint64_t size, char *text, size_t room)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned int unit = 0;

	while (unit < 4 && size && !(size % 1024)) {
		size /= 1024;
		unit++;
	}
	snprintf(text, room, "%llu %s", (unsigned long long)size, units[unit]);
	return text;
}

/* Bytes of the character that starts at c if it is one of UTF-8, else 0. */
static int utf8_length(const unsigned char *c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	int length = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
	uint32_t code = c[0];
	int i;

	if (length < 2 || c[0] > 0xf4)
		return length == 1;
	code &= 0x7fu >> length;
	for (i = 1; i < length; i++) {
		if ((c[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (c[i] & 0x3f);
	}
	if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	return length;
}

void tool_json_string(FILE *out, const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	int length;

	fputc('"', out);
	for (; *c; c += length) {
		length = utf8_length(c);
		if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else if (*c < 0x20 || *c == 0x7f)
			fprintf(out, "\\u%04x", *c);
		else if (length)
			fwrite(c, 1, (size_t)length, out);
		else
			fputs("\\ufffd", out);
		if (!length)
			length = 1;
	}
	fputc('"', out);
}

void tool_json_member(FILE *out, const char *name, const char *value)
{
	fprintf(out, "\"%s\": ", name);
	tool_json_string(out, tool_or_dash(value));
	fputs(", ", out);
}

void tool_json_modes(FILE *out, const char *name, int mode)
{
	fprintf(out, "\"%s\": [", name);
	tool_print_mode(out, mode, ", ", "\"", "");
	fputs("]", out);
}

void tool_print_version(const char *tool)
{
	uint32_t interface = fi_version(), library;
	struct fi_info *info;
	int ret;

	printf("%s: libfabric interface %u.%u", tool, FI_MAJOR(interface), FI_MINOR(interface));
	/* The library's own version stands in the entry of its provider. */
	ret = fi_getinfo(SAMPLE_API_VERSION, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &info);
	if (ret) {
		printf(", library version unknown (fi_getinfo: %s)\n", fi_strerror(-ret));
		return;
	}
	library = info->fabric_attr->prov_version;
	printf(", library %s %u.%u\n", info->fabric_attr->prov_name, FI_MAJOR(library),
	       FI_MINOR(library));
	fi_freeinfo(info);
}
