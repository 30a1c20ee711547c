/* SPDX-License-Identifier: BSD-2-Clause */
/* Text that several tools print: mode bits, sizes, JSON. */
#ifndef HMREG_TOOL_TEXT_H
#define HMREG_TOOL_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rdma/fabric.h>

/* The names of the bits of mode without FI_MR_, between separators; none where there are none. */
void tool_print_mode(FILE *out, int mode, const char *separator, const char *quote,
		     const char *none);

const char *tool_or_dash(const char *text);
/* The device behind info, in the words of its vendor; "-" where there is none. */
const char *tool_device_name(const struct fi_info *info);

/* "4 KiB": bytes in the largest binary unit that they are a multiple of. */
const char *tool_size_text(uint64_t size, char *text, size_t room);

/* A JSON string in its quotes: whatever bytes text has, the result is valid. */
void tool_json_string(FILE *out, const char *text);
/* "name": "value", and a comma. */
void tool_json_member(FILE *out, const char *name, const char *value);
/* "mr_mode": ["A", "B"] under the name given. */
void tool_json_modes(FILE *out, const char *name, int mode);

/* The version of the interface and that of the library, which needs no NIC. */
void tool_print_version(const char *tool);

#endif
