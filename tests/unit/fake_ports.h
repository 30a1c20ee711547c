/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs about devices and ports share over fake_verbs.h: each case is a process of its own,
 * since what was found stays found.  Include after <cmocka.h>.
 */
#ifndef HM_TEST_FAKE_PORTS_H
#define HM_TEST_FAKE_PORTS_H

#include "core/nic/verbs.h"
#include "tests/unit/child.h"
#include "tests/unit/fake_verbs.h"

static const char *const warn[] = { "FI_LOG_LEVEL=warn", NULL };
static struct child child;

static struct fake_device *const dev = fake.device;

/* ---- in the child ---- */

static size_t port_count(void)
{
	const struct nic_port *ports;
	size_t count;

	CHECK(verbs_ports(&ports, &count) == 0);
	return count;
}

/* Everything that was opened to look for devices is closed again. */
static void check_closed(void)
{
	for (int i = 0; i < FAKE_DEVICES; i++)
		CHECK(dev[i].contexts == 0 && dev[i].pds == 0 && dev[i].mrs == 0);
	CHECK(fake.channels == 0 && fake.ids == 0);
}

#endif
