/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lies between a device and memory or another device, for diagnostics (FN-37): the bridges above
 * it, the translation unit (IOMMU), and access control (ACS), by which bridges send transfers from one
 * device to another up to the root instead of straight across.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/nic/verbs.h"
#include "core/topo/pci.h"

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

/* ---- bridges ---- */

static void name_chain(struct text *text, const struct pci_chain *chain)
{
	for (size_t i = 0; i < chain->count; i++) {
		int len;
		const char *name = pci_chain_name(chain, i, &len);

		add(text, "%s%.*s", i ? " > " : "", len, name);
	}
}

static void describe_acs(struct text *text, const struct pci_chain *chain)
{
	bool unreadable = false;

	for (size_t i = 0; i + 1 < chain->count; i++) {
		enum hmreg_acs acs = pci_acs(chain, i);
		const char *name;
		int len;

		if (acs == HMREG_ACS_REDIRECTS) {
			name = pci_chain_name(chain, i, &len);
			add(text, "; ACS redirects at %.*s", len, name);
			return;
		}
		unreadable |= acs == HMREG_ACS_UNREADABLE;
	}
	if (chain->count > 1)
		add(text, unreadable ? "; ACS not readable (root can)" : "; no ACS redirection");
}

/* ---- translation ---- */

/* How the IOMMU treats the device, in the kernel's words: "identity" passes addresses through. */
static void describe_iommu(struct text *text, const struct pci_chain *chain)
{
	char type[PCI_IOMMU_TYPE];
	int group = pci_iommu(chain, type);

	if (group < 0)
		add(text, "; no IOMMU");
	else
		add(text, *type ? "; IOMMU group %d (%s)" : "; IOMMU group %d", group, type);
}

/* ---- all of it ---- */

void verbs_path_describe(const char *sysfs_root, const char *ibdev_name, char *pci, size_t pci_len,
			 char *path, size_t path_len)
{
	struct text text = { path, path_len };
	struct pci_chain chain;
	char link[PATH_MAX];
	const char *name;
	int len;

	pci[0] = '\0';
	path[0] = '\0';
	if (snprintf(link, sizeof(link), "%s/class/infiniband/%s/device", sysfs_root, ibdev_name) >=
		    (int)sizeof(link) ||
	    !pci_chain_at(link, &chain)) {
		add(&text, "not on a PCI bus");
		return;
	}
	name = pci_chain_name(&chain, chain.count - 1, &len);
	snprintf(pci, pci_len, "%s", name);
	name_chain(&text, &chain);
	describe_iommu(&text, &chain);
	describe_acs(&text, &chain);
}
