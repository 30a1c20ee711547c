/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lies between a device and memory or another device, for diagnostics (FN-37): the bridges above
 * it, the translation unit (IOMMU), and access control (ACS), by which bridges send transfers from one
 * device to another up to the root instead of straight across.
 *
 * ACS is a capability in the extended part of a bridge's configuration space (PCI Express Base
 * Specification, "Access Control Services Extended Capability"), which the kernel shows to root alone.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/nic/verbs.h"
#include "core/nic/verbs_sysfs.h"

#define BRIDGES_MAX 16

/* ---- text ---- */

struct text {
	char *at;
	size_t left; /* with room for the end */
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *fmt, ...)
{
	va_list args;
	int len;

	if (!text->left)
		return;
	va_start(args, fmt);
	len = vsnprintf(text->at, text->left, fmt, args);
	va_end(args);
	if (len < 0)
		return;
	if ((size_t)len >= text->left)
		len = (int)text->left - 1;
	text->at += len;
	text->left -= (size_t)len;
}

/* ---- the chain ---- */

/* "0000:3b:00.1": four or more digits, two, two, one. */
static bool is_pci_address(const char *name, size_t len)
{
	static const char tail[] = ":xx:xx.x";
	const size_t tail_len = sizeof(tail) - 1;
	size_t start;

	if (len < tail_len + 4 || len > 31)
		return false;
	start = len - tail_len;
	for (size_t i = 0; i < len; i++) {
		char want = i < start ? 'x' : tail[i - start];
		bool digit = strchr("0123456789abcdefABCDEF", name[i]) != NULL;

		if (want == 'x' ? !digit : name[i] != want)
			return false;
	}
	return true;
}

/*
 * The PCI functions in the path of the device's directory, outermost first, each as the length of the
 * path up to it; the last one is the device itself.  0: it is not on a PCI bus.
 */
static size_t find_chain(const char *path, size_t ends[BRIDGES_MAX + 1])
{
	size_t count = 0;

	for (const char *part = path; *part && count <= BRIDGES_MAX;) {
		size_t len;

		part += *part == '/';
		len = strcspn(part, "/");
		if (is_pci_address(part, len))
			ends[count++] = (size_t)(part - path) + len;
		part += len;
	}
	return count;
}

static const char *last_part(const char *path, size_t end)
{
	while (end > 0 && path[end - 1] != '/')
		end--;
	return path + end;
}

static void name_chain(struct text *text, const char *path, const size_t *ends, size_t count)
{
	for (size_t i = 0; i + 1 < count; i++) {
		const char *name = last_part(path, ends[i]);

		add(text, "%.*s > ", (int)(path + ends[i] - name), name);
	}
}

/* ---- access control ---- */

#define EXTENDED      0x100u
#define ACS_ID	      0x000du
#define ACS_CONTROL   6u
#define ACS_REDIRECTS 0x1cu /* requests, completions, upstream forwarding */

enum acs {
	ACS_UNREADABLE,
	ACS_NONE,
	ACS_OFF,
	ACS_ON
};

static uint32_t little32(const uint8_t *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

/* Walk the list of extended capabilities; each header: id 16 bits, version 4, next offset 12. */
static enum acs find_acs(const uint8_t *config, size_t len)
{
	size_t at = EXTENDED;

	for (int steps = 0; steps < 64 && at >= EXTENDED && at + 8 <= len; steps++) {
		uint32_t header = little32(config + at);

		if ((header & 0xffff) == ACS_ID)
			return config[at + ACS_CONTROL] & ACS_REDIRECTS ? ACS_ON : ACS_OFF;
		if (header == 0 || header == UINT32_MAX)
			return ACS_NONE;
		at = header >> 20 & 0xffc;
	}
	return ACS_NONE;
}

/* of the function whose directory is the first len bytes of path */
static enum acs read_acs(const char *path, size_t len)
{
	char file[PATH_MAX];
	uint8_t config[4096];
	ssize_t got;
	int fd;

	if (snprintf(file, sizeof(file), "%.*s/config", (int)len, path) >= (int)sizeof(file))
		return ACS_UNREADABLE;
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return ACS_UNREADABLE;
	got = read(fd, config, sizeof(config));
	close(fd);
	/* an ordinary user gets the first 64 bytes, and a conventional bridge has but 256 */
	if (got <= (ssize_t)EXTENDED)
		return got == EXTENDED ? ACS_NONE : ACS_UNREADABLE;
	return find_acs(config, (size_t)got);
}

static void describe_acs(struct text *text, const char *path, const size_t *ends, size_t count)
{
	bool unreadable = false;

	for (size_t i = 0; i + 1 < count; i++) {
		enum acs acs = read_acs(path, ends[i]);

		if (acs == ACS_ON) {
			const char *name = last_part(path, ends[i]);

			add(text, "; ACS redirects at %.*s", (int)(path + ends[i] - name), name);
			return;
		}
		unreadable |= acs == ACS_UNREADABLE;
	}
	if (count > 1)
		add(text, unreadable ? "; ACS not readable (root can)" : "; no ACS redirection");
}

/* ---- translation ---- */

/* How the IOMMU treats the device, in the kernel's words: "identity" passes addresses through. */
static void describe_iommu(struct text *text, const char *path)
{
	char link[PATH_MAX], target[PATH_MAX], type[32];
	ssize_t got;

	if (snprintf(link, sizeof(link), "%s/iommu_group", path) >= (int)sizeof(link))
		return;
	got = readlink(link, target, sizeof(target) - 1);
	if (got <= 0) {
		add(text, "; no IOMMU");
		return;
	}
	target[got] = '\0';
	add(text, "; IOMMU group %s", last_part(target, (size_t)got));
	if (snprintf(target, sizeof(target), "%s/type", link) < (int)sizeof(target) &&
	    verbs_file_read(type, sizeof(type), target))
		add(text, " (%s)", type);
}

/* ---- all of it ---- */

void verbs_path_describe(const char *sysfs_root, const char *ibdev_name, char *pci, size_t pci_len,
			 char *path, size_t path_len)
{
	struct text text = { path, path_len };
	char link[PATH_MAX], real[PATH_MAX];
	size_t ends[BRIDGES_MAX + 1], count = 0;
	const char *name;

	pci[0] = '\0';
	path[0] = '\0';
	if (snprintf(link, sizeof(link), "%s/class/infiniband/%s/device", sysfs_root, ibdev_name) <
		    (int)sizeof(link) &&
	    realpath(link, real))
		count = find_chain(real, ends);
	if (count == 0) {
		add(&text, "not on a PCI bus");
		return;
	}
	/* a virtual function's or auxiliary device's directory lies below the function's */
	real[ends[count - 1]] = '\0';
	name = last_part(real, ends[count - 1]);
	snprintf(pci, pci_len, "%s", name);
	name_chain(&text, real, ends, count);
	add(&text, "%s", name);
	describe_iommu(&text, real);
	describe_acs(&text, real, ends, count);
}
