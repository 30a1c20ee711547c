/* SPDX-License-Identifier: BSD-2-Clause */
/* Accelerators as tools see them: names on the command line, what is there, memory of a device. */
#ifndef HMREG_TOOL_ACCEL_H
#define HMREG_TOOL_ACCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext_hmreg.h>

#include "../common.h"

#define TOOL_IFACES	 (FI_HMEM_SYNAPSEAI + 1)
#define TOOL_IFACE_NAMES "system, cuda, rocr, ze, neuron, synapseai"
#define TOOL_FIRST	 (-1) /* a device: the first that there is */

/* "cuda", or "?" for what is no interface. */
const char *tool_iface_name(enum fi_hmem_iface iface);
/* "by copies of the interface" and the like. */
const char *tool_path_text(enum hmreg_path path);
/* The same as one word, for programs. */
const char *tool_path_word(enum hmreg_path path);

/* What became of a name on the command line. */
enum tool_parse {
	TOOL_PARSE_OK,
	TOOL_PARSE_NO_IFACE,
	TOOL_PARSE_NO_DEVICE /* what stands behind the colon is no number, or the host's */
};
/* NAME[:DEVICE], the device's number in any base that C has; without it TOOL_FIRST, 0 of the host. */
enum tool_parse tool_place_parse(const char *text, struct sample_place *place);
/* "cuda:1", "system"; returns text. */
char *tool_place_text(const struct sample_place *place, char text[48]);

/*
 * Load the interface's driver and find the device: place->device TOOL_FIRST becomes its number.  Host
 * memory is always there.  A negative FI_E code; why has been printed.
 */
int tool_place_find(struct fid_fabric *fabric, struct sample_place *place);
/* How the NIC of info reaches that memory, of a device.  Printed where it fails. */
int tool_place_path(struct fid_fabric *fabric, const struct fi_info *info,
		    const struct sample_place *place, struct hmreg_hmem_path *path);
/* Can the NIC of info reach that memory at all?  Not: -FI_EOPNOTSUPP, each reason has been printed. */
int tool_place_reach(struct fid_fabric *fabric, const struct fi_info *info,
		     const struct sample_place *place);

/* Memory of a place.  The host has a second copy, shadow, of what it cannot reach. */
struct tool_block {
	struct fid_fabric *fabric;
	struct sample_place place;
	size_t len;
	uint8_t *memory; /* owned: the place's */
	uint8_t *shadow; /* owned; NULL: the host reaches memory */
};

/* len is a multiple of a page; all bytes are 0.  Printed where it fails. */
int tool_block_open(struct tool_block *block, struct fid_fabric *fabric,
		    const struct sample_place *place, size_t len);
/* While its fabric is open; nothing to do for a cleared structure. */
int tool_block_close(struct tool_block *block);
/* Where the host reads and writes: memory, or its shadow. */
uint8_t *tool_block_host(const struct tool_block *block);
/* Before the host reads: len bytes from offset, as they are at the place now. */
int tool_block_fetch(struct tool_block *block, size_t offset, size_t len);
/* After the host wrote. */
int tool_block_store(struct tool_block *block, size_t offset, size_t len);

#endif
