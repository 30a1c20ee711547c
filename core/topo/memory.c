/* SPDX-License-Identifier: BSD-2-Clause */
/* The NUMA node of host memory. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/topo/place.h"

#define SAMPLES 16

int topo_thread_node(char reason[TOPO_REASON])
{
	unsigned int cpu, node;

	if (getcpu(&cpu, &node) == 0)
		return (int)node;
	snprintf(reason, TOPO_REASON, "NUMA node of the thread not known: getcpu: %s",
		 strerror(errno));
	return -1;
}

/* The value that most samples have. */
static int most(const int *node, size_t count)
{
	size_t best = 0, best_count = 0;

	for (size_t i = 0; i < count; i++) {
		size_t same = 0;

		for (size_t j = 0; j < count; j++)
			same += node[j] == node[i];
		if (same > best_count) {
			best = i;
			best_count = same;
		}
	}
	return node[best];
}

/* move_pages(2) without nodes moves nothing: it tells where pages are. */
int topo_memory_node(const void *addr, size_t len, char reason[TOPO_REASON])
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)addr & ~(page - 1);
	size_t pages = ((uintptr_t)addr - first + len - 1) / page + 1;
	size_t count = pages < SAMPLES ? pages : SAMPLES;
	void *at[SAMPLES];
	int node[SAMPLES], own = -2;

	for (size_t i = 0; i < count; i++)
		at[i] = (void *)(first + (count > 1 ? (pages - 1) / (count - 1) * i : 0) * page);
	if (syscall(SYS_move_pages, 0, (unsigned long)count, at, NULL, node, 0) < 0) {
		snprintf(reason, TOPO_REASON, "NUMA node of the memory not known: move_pages: %s",
			 strerror(errno));
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		if (node[i] >= 0)
			continue;
		if (own == -2)
			own = topo_thread_node(reason);
		node[i] = own; /* it will be where it is touched first */
	}
	return most(node, count);
}
