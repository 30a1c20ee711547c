/* SPDX-License-Identifier: BSD-2-Clause */
/* A machine whose sysfs is made for one test, and where its functions are.  Include after <cmocka.h>. */
#ifndef TESTS_MACHINE_SCENE_H
#define TESTS_MACHINE_SCENE_H

#include <stdio.h>
#include <stdlib.h>

#include "core/base/sysfs.h"
#include "core/topo/place.h"
#include "tests/topology/machines.h"

static char root[64];
static struct machine machine;

/* NULL: an empty folder. */
static void begin(const char *name, enum machine_view view)
{
	snprintf(root, sizeof(root), "/tmp/hmreg-topology-XXXXXX");
	assert_non_null(mkdtemp(root));
	machine = (struct machine){ .root = root, .view = view };
	if (name)
		machine_make(&machine, name);
	hm_sysfs_set_root(root);
}

/* For a teardown. */
static int end(void **state)
{
	char command[128];

	(void)state;
	hm_sysfs_set_root(NULL);
	if (!*root)
		return 0;
	snprintf(command, sizeof(command), "rm -rf %s", root);
	*root = '\0';
	return system(command);
}

static struct topo_place place(const char *pci)
{
	struct topo_place place;

	topo_place_read(pci, "none given", &place);
	return place;
}

#endif
