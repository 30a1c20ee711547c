/* SPDX-License-Identifier: BSD-2-Clause */
/* See stress.h. */

#include "tests/stress/stress.h"

_Noreturn void stress_die(const char *file, int line, const char *what, long ret)
{
	fprintf(stderr, "%s:%d: broken: %s (%ld, %s)\n", file, line, what, ret,
		fi_strerror((int)(ret < 0 ? -ret : ret)));
	abort();
}

unsigned stress_setting(const char *name, unsigned standard)
{
	const char *text = getenv(name);
	int value = text ? atoi(text) : 0;

	return value > 0 ? (unsigned)value : standard;
}

uint64_t stress_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 11;
}

double stress_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct fi_info *stress_info(const char *profile, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	CHECK(hints);
	hints->caps = caps;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = STRESS_MODES;
	hints->domain_attr->name = strdup(profile);
	CHECK_OK(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info));
	fi_freeinfo(hints);
	return info;
}
