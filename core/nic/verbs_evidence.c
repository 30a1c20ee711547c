/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel tells about memory, limits and dma-bufs. */
#include "core/nic/verbs_evidence.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAP_IPC_LOCK_BIT 14
#define LINE		 512
#define MAPS_MOST	 400000 /* lines; more are not looked at */
#define SMAPS_MOST	 60000

const char *verbs_evidence_root = "";

/* ---- reading files of lines ---- */

/* A file read line by line: no allocation, since memory may be what is short. */
struct lines {
	int fd;
	size_t at, end;
	unsigned left; /* lines that may still be read */
	char buffer[4096];
	char line[LINE];
};

static bool lines_open(struct lines *lines, const char *name, unsigned most)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", verbs_evidence_root, name);
	lines->fd = open(path, O_RDONLY | O_CLOEXEC);
	lines->at = lines->end = 0;
	lines->left = most;
	return lines->fd >= 0;
}

/* The next character, or -1 at the end. */
static int next_char(struct lines *lines)
{
	if (lines->at == lines->end) {
		ssize_t got = read(lines->fd, lines->buffer, sizeof(lines->buffer));

		if (got <= 0)
			return -1;
		lines->at = 0;
		lines->end = (size_t)got;
	}
	return (unsigned char)lines->buffer[lines->at++];
}

/* The next line without its end in lines->line, cut to what fits.  False: there is none. */
static bool lines_next(struct lines *lines)
{
	size_t n = 0;
	int c;

	if (lines->left == 0)
		return false;
	lines->left--;
	while ((c = next_char(lines)) >= 0 && c != '\n') {
		if (n < LINE - 1)
			lines->line[n++] = (char)c;
	}
	lines->line[n] = '\0';
	return c >= 0 || n > 0;
}

static void lines_close(struct lines *lines)
{
	close(lines->fd);
}

/* The text behind "NAME:" and blanks, or NULL. */
static const char *value_of(const char *line, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(line, name, len) != 0 || line[len] != ':')
		return NULL;
	line += len + 1;
	return line + strspn(line, " \t");
}

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

/* ---- limits ---- */

/*
 * A capability counts against this limit only in the first user namespace: root of a container is not
 * exempt.  That namespace maps all ids to themselves.
 */
static bool first_namespace(void)
{
	struct lines lines;
	unsigned long inside, outside, count;
	bool first = true;

	if (!lines_open(&lines, "/proc/self/uid_map", 1))
		return true; /* a kernel without user namespaces */
	if (lines_next(&lines) && sscanf(lines.line, "%lu %lu %lu", &inside, &outside, &count) == 3)
		first = inside == 0 && outside == 0 && count == UINT32_MAX;
	lines_close(&lines);
	return first;
}

void verbs_evidence_pins(struct verbs_pin_evidence *pins)
{
	struct rlimit limit;
	struct lines lines;

	*pins = (struct verbs_pin_evidence){ .limit = UINT64_MAX };
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		pins->limit = limit.rlim_cur;
	if (!lines_open(&lines, "/proc/self/status", 200))
		return;
	while (lines_next(&lines)) {
		const char *value;

		if ((value = value_of(lines.line, "VmPin")))
			pins->pinned = strtoull(value, NULL, 10) * 1024;
		else if ((value = value_of(lines.line, "VmLck")))
			pins->locked = strtoull(value, NULL, 10) * 1024;
		else if ((value = value_of(lines.line, "CapEff")))
			pins->exempt = strtoull(value, NULL, 16) >> CAP_IPC_LOCK_BIT & 1;
	}
	lines_close(&lines);
	pins->exempt = pins->exempt && first_namespace();
}

/* ---- memory ---- */

struct mapping {
	uint64_t start, end;
	bool read, write;
	char name[96];
};

/* A line of /proc/self/maps, or the first one of a mapping in smaps. */
static bool parse_mapping(const char *line, struct mapping *mapping)
{
	char rights[5];
	int name = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %*u %n", &mapping->start,
		   &mapping->end, rights, &name) < 3 ||
	    name == 0)
		return false;
	mapping->read = rights[0] == 'r';
	mapping->write = rights[1] == 'w';
	copy_text(mapping->name, sizeof(mapping->name), line + name);
	return true;
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Names of mappings that are of devices, or of files that drivers make. */
static bool names_device(const char *name)
{
	static const char *const host[] = { "/dev/zero", "/dev/shm/", "/dev/hugepages/",
					    "/dev/mqueue/" };

	for (size_t i = 0; i < sizeof(host) / sizeof(host[0]); i++) {
		if (begins(name, host[i]))
			return false;
	}
	return begins(name, "/dev/") || begins(name, "/dmabuf") || begins(name, "anon_inode:");
}

/* Does the mapping at addr have no pages of its own (VmFlags: io or pf)? */
static bool flagged_device(uint64_t addr)
{
	struct lines lines;
	struct mapping at = { 0 };
	bool device = false;

	if (!lines_open(&lines, "/proc/self/smaps", SMAPS_MOST))
		return false;
	while (lines_next(&lines)) {
		const char *flags = value_of(lines.line, "VmFlags");

		if (flags && addr - at.start < at.end - at.start) {
			device = strstr(flags, "io") || strstr(flags, "pf");
			break;
		}
		if (!flags)
			parse_mapping(lines.line, &at);
		if (at.start > addr)
			break;
	}
	lines_close(&lines);
	return device;
}

static enum verbs_memory judge(const struct mapping *mapping, bool write)
{
	if (names_device(mapping->name))
		return VERBS_MEMORY_DEVICE;
	if (!mapping->read)
		return VERBS_MEMORY_NO_ACCESS;
	return write && !mapping->write ? VERBS_MEMORY_READ_ONLY : VERBS_MEMORY_FINE;
}

/* Walk the mappings, which come in order of address, until one is bad or the range ends. */
static void walk_maps(struct lines *lines, uint64_t addr, uint64_t last, bool write,
		      struct verbs_memory_evidence *memory)
{
	memory->kind = VERBS_MEMORY_UNMAPPED;
	memory->address = addr;
	while (lines_next(lines)) {
		struct mapping mapping;
		bool first = memory->address == addr;
		enum verbs_memory kind;

		if (!parse_mapping(lines->line, &mapping) || mapping.end <= memory->address)
			continue;
		if (mapping.start > memory->address)
			return;
		kind = judge(&mapping, write);
		if (first || kind != VERBS_MEMORY_FINE)
			copy_text(memory->name, sizeof(memory->name), mapping.name);
		if (kind != VERBS_MEMORY_FINE) {
			memory->kind = kind;
			return;
		}
		if (mapping.end - 1 >= last) {
			memory->kind = VERBS_MEMORY_FINE;
			memory->address = addr;
			return;
		}
		memory->address = mapping.end;
	}
	if (lines->left == 0)
		memory->kind = VERBS_MEMORY_UNKNOWN;
	else
		memory->name[0] = '\0';
}

void verbs_evidence_memory(uint64_t addr, uint64_t len, bool write,
			   struct verbs_memory_evidence *memory)
{
	struct lines lines;

	*memory = (struct verbs_memory_evidence){ VERBS_MEMORY_UNKNOWN, addr, "" };
	if (!lines_open(&lines, "/proc/self/maps", MAPS_MOST))
		return;
	walk_maps(&lines, addr, addr + (len - 1), write, memory);
	lines_close(&lines);
	if (memory->kind == VERBS_MEMORY_UNMAPPED)
		memory->name[0] = '\0';
	if ((memory->kind == VERBS_MEMORY_FINE || memory->kind == VERBS_MEMORY_READ_ONLY) &&
	    flagged_device(memory->address))
		memory->kind = VERBS_MEMORY_DEVICE;
}

/* ---- dma-bufs ---- */

void verbs_evidence_dmabuf(int fd, struct verbs_dmabuf_evidence *dmabuf)
{
	char path[PATH_MAX], name[40];
	struct lines lines;
	ssize_t len;

	*dmabuf = (struct verbs_dmabuf_evidence){ 0 };
	snprintf(path, sizeof(path), "%s/proc/self/fd/%d", verbs_evidence_root, fd);
	len = readlink(path, dmabuf->target, sizeof(dmabuf->target) - 1);
	if (len >= 0)
		dmabuf->target[len] = '\0';
	dmabuf->is_dmabuf = begins(dmabuf->target, "/dmabuf") ||
			    begins(dmabuf->target, "anon_inode:dmabuf");
	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	if (!lines_open(&lines, name, 50)) {
		dmabuf->open = len >= 0;
		return;
	}
	dmabuf->open = true;
	while (lines_next(&lines)) {
		const char *value;

		if ((value = value_of(lines.line, "exp_name"))) {
			dmabuf->is_dmabuf = true;
			copy_text(dmabuf->exporter, sizeof(dmabuf->exporter), value);
		} else if ((value = value_of(lines.line, "size"))) {
			dmabuf->size = strtoull(value, NULL, 10);
		}
	}
	lines_close(&lines);
}

/* ---- modules ---- */

static const char *const peer_modules[] = { "nvidia_peermem", "nv_peer_mem", "ib_peer_mem",
					    "neuron" };
const char verbs_peer_modules[] = "nvidia_peermem, nv_peer_mem, ib_peer_mem, neuron";

const char *verbs_evidence_peer_module(void)
{
	for (size_t i = 0; i < sizeof(peer_modules) / sizeof(peer_modules[0]); i++) {
		char path[PATH_MAX];
		struct stat st;

		snprintf(path, sizeof(path), "%s/sys/module/%s", verbs_evidence_root,
			 peer_modules[i]);
		if (stat(path, &st) == 0)
			return peer_modules[i];
	}
	return NULL;
}
