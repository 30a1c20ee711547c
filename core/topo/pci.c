/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The branch of the PCI tree that leads to a function, and what its bridges' configuration space says.
 *
 * ACS is a capability in the extended part of that space (PCI Express Base Specification, "Access Control
 * Services Extended Capability"), what kind of port a bridge is in the ordinary one.  The kernel shows both
 * to root alone; others see the first 64 bytes.
 */
#include "core/topo/pci.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/sysfs.h"

/* ---- numbers ---- */

int pci_number(const char *text, const char **end)
{
	int number = 0;

	*end = text;
	if (*text < '0' || *text > '9')
		return -1;
	for (; **end >= '0' && **end <= '9'; ++*end) {
		int digit = **end - '0';

		if (number > (INT_MAX - digit) / 10)
			return -1;
		number = number * 10 + digit;
	}
	return number;
}

/* ---- the chain ---- */

bool pci_is_address(const char *name, size_t len)
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

/* "pci0000:3a" */
static bool is_host_bridge(const char *name, size_t len)
{
	return len >= 10 && memcmp(name, "pci", 3) == 0 && name[len - 3] == ':' &&
	       strspn(name + 3, "0123456789abcdef") == len - 6 &&
	       strspn(name + len - 2, "0123456789abcdef") >= 2;
}

/*
 * A host bridge may itself be below a function (a volume management device, a hypervisor's bus): the tree
 * begins anew there.
 */
bool pci_chain_of(const char *path, struct pci_chain *chain)
{
	size_t len = strlen(path);

	chain->host = chain->count = 0;
	if (len >= sizeof(chain->path))
		return false;
	memcpy(chain->path, path, len + 1);
	for (const char *part = path; *part;) {
		part += *part == '/';
		len = strcspn(part, "/");
		if (is_host_bridge(part, len)) {
			chain->host = (size_t)(part - path) + len;
			chain->count = 0;
		} else if (pci_is_address(part, len)) {
			/* what is deeper would be taken for a bridge above it */
			if (chain->count > PCI_BRIDGES_MAX)
				return false;
			chain->ends[chain->count++] = (size_t)(part - path) + len;
		}
		part += len;
	}
	if (chain->count == 0)
		return false;
	/* a virtual function's or auxiliary device's directory lies below the function's */
	chain->path[chain->ends[chain->count - 1]] = '\0';
	return true;
}

bool pci_chain_at(const char *link, struct pci_chain *chain)
{
	char real[PATH_MAX];

	if (realpath(link, real))
		return pci_chain_of(real, chain);
	chain->host = chain->count = 0;
	return false;
}

const char *pci_chain_name(const struct pci_chain *chain, size_t i, int *len)
{
	size_t end = chain->ends[i], start = end;

	while (start > 0 && chain->path[start - 1] != '/')
		start--;
	*len = (int)(end - start);
	return chain->path + start;
}

/* ---- configuration space ---- */

#define ORDINARY 64u /* bytes that anybody may read */
#define EXTENDED 0x100u
#define WHOLE	 4096u

static uint32_t little32(const uint8_t *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

/* Of part i: the bytes that could be read. */
static size_t read_config(const struct pci_chain *chain, size_t i, uint8_t config[WHOLE])
{
	char file[PATH_MAX + 8];
	ssize_t got;
	int fd;

	snprintf(file, sizeof(file), "%.*s/config", (int)chain->ends[i], chain->path);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, config, WHOLE);
	close(fd);
	return got > 0 ? (size_t)got : 0;
}

/* ---- access control ---- */

#define ACS_ID	      0x000du
#define ACS_CONTROL   6u
#define ACS_REDIRECTS 0x1cu /* requests, completions, upstream forwarding */

/* Walk the list of extended capabilities; each header: id 16 bits, version 4, next offset 12. */
static enum hmreg_acs find_acs(const uint8_t *config, size_t len)
{
	size_t at = EXTENDED;

	for (int steps = 0; steps < 64 && at >= EXTENDED && at + 8 <= len; steps++) {
		uint32_t header = little32(config + at);

		if ((header & 0xffff) == ACS_ID)
			return config[at + ACS_CONTROL] & ACS_REDIRECTS ? HMREG_ACS_REDIRECTS
									: HMREG_ACS_OFF;
		if (header == 0 || header == UINT32_MAX)
			break;
		at = header >> 20 & 0xffc;
	}
	return HMREG_ACS_OFF;
}

enum hmreg_acs pci_acs(const struct pci_chain *chain, size_t i)
{
	uint8_t config[WHOLE];
	size_t len = read_config(chain, i, config);

	/* a conventional bridge has but 256 bytes */
	if (len < EXTENDED)
		return HMREG_ACS_UNREADABLE;
	return find_acs(config, len);
}

/* ---- translation ---- */

int pci_iommu(const struct pci_chain *chain, char type[PCI_IOMMU_TYPE])
{
	char link[PATH_MAX + 32], target[PATH_MAX];
	const char *last;
	ssize_t got;
	int group;

	type[0] = '\0';
	snprintf(link, sizeof(link), "%s/iommu_group", chain->path);
	got = readlink(link, target, sizeof(target) - 1);
	if (got <= 0)
		return -1;
	target[got] = '\0';
	snprintf(link, sizeof(link), "%s/iommu_group/type", chain->path);
	hm_file_read(type, PCI_IOMMU_TYPE, link);
	last = strrchr(target, '/');
	group = pci_number(last ? last + 1 : target, &last);
	return *last ? -1 : group;
}

/* ---- kinds ---- */

#define STATUS	      0x06u
#define STATUS_LIST   0x10u
#define LIST	      0x34u
#define EXPRESS_ID    0x10u
#define EXPRESS_FLAGS 2u

/* Device/Port Type of the PCI Express capability; -1: the bridge has none; -2: not readable. */
static int port_type(const uint8_t *config, size_t len)
{
	size_t at;

	if (len <= ORDINARY)
		return -2;
	at = config[STATUS] & STATUS_LIST ? config[LIST] & 0xfcu : 0;
	for (int steps = 0; steps < 48 && at >= ORDINARY && at + 4 <= len && at < EXTENDED;
	     steps++) {
		if (config[at] == EXPRESS_ID)
			return config[at + EXPRESS_FLAGS] >> 4;
		at = config[at + 1] & 0xfcu;
	}
	return -1;
}

enum hmreg_bridge_kind pci_bridge_kind(const struct pci_chain *chain, size_t i)
{
	uint8_t config[WHOLE];

	switch (port_type(config, read_config(chain, i, config))) {
	case 4:
		return HMREG_BRIDGE_ROOT_PORT;
	case 5:
		return HMREG_BRIDGE_SWITCH;
	case 6:
		return HMREG_BRIDGE_PORT;
	case -2:
		/* below a root port are a switch's two sides, and again */
		return i == 0	? HMREG_BRIDGE_ROOT_PORT
		       : i & 1u ? HMREG_BRIDGE_SWITCH
				: HMREG_BRIDGE_PORT;
	default:
		return HMREG_BRIDGE_OTHER;
	}
}
