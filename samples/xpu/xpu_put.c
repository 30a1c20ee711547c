/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two devices that write into each other's memory without the host: it sets up and waits, the kernels write,
 * signal and look at counters themselves.
 *
 *   xpu_put [DOMAIN [DEVICE]]     DEVICE: cpu (default), threads, cuda or cuda:1
 *
 * The kernel is in put_kernel.c; what a host has to do, in side.c.  Both devices may be one GPU, or two
 * that are made of processors.  Exit status 77: there is no such device here.
 */
#include <stdlib.h>

#include "../common.h"
#include "device.h"
#include "put.h"
#include "side.h"

#define SKIPPED	   77
#define ROUNDS	   500
#define TIMEOUT_MS 60000

/* A device and what it has. */
struct node {
	struct xpu_device *device;
	struct xpu_memory memory;
	struct xpu_side side;
	struct xpu_channel channel;
};

static int open_node(struct node *node, const char *domain)
{
	struct put_memory start = { .one = 1 };
	int ret = xpu_device_alloc(node->device, sizeof(start), &node->memory);

	if (!ret)
		ret = xpu_device_write(node->device, node->memory.on_host, &start, sizeof(start));
	if (!ret)
		ret = xpu_side_open(&node->side, domain, node->device);
	if (!ret)
		ret = xpu_channel_open(&node->channel, &node->side, false, &node->memory, 0,
				       sizeof(start));
	return ret;
}

static int close_node(struct node *node)
{
	int ret = xpu_channel_close(&node->channel), failed;

	failed = xpu_side_close(&node->side);
	if (node->device)
		xpu_device_free(node->device, &node->memory);
	xpu_device_close(node->device);
	return ret ? ret : failed;
}

static int start(struct node *node, uint32_t rank)
{
	struct put_args args = {
		.link = node->channel.link,
		.rank = rank,
		.rounds = ROUNDS,
		.timeout = TIMEOUT_MS / 2 * 1000000ull,
	};

	return xpu_device_launch(node->device, XPU_CALL(put), &args, sizeof(args), 1,
				 2 * node->device->subgroup);
}

/* The kernel has ended: what did it see? */
static int look(struct node *node, uint32_t rank)
{
	static struct put_memory end;
	int ret = xpu_device_read(node->device, &end, node->memory.on_host, sizeof(end));

	if (ret)
		return ret;
	printf("device %u: %llu messages of %d bytes came, %llu bytes of them wrong\n", rank,
	       (unsigned long long)end.rounds, PUT_LEN, (unsigned long long)end.wrong);
	if (end.error)
		sample_fail("the kernel", end.error);
	if (xpu_channel_errors(&node->channel) || end.error || end.wrong || end.rounds != ROUNDS)
		return -FI_EIO;
	return 0;
}

static int run(struct node *nodes)
{
	int ret = xpu_connect(&nodes[0].channel, &nodes[1].channel), failed;

	if (ret)
		return ret;
	printf("NIC domain %s, devices %s\n", nodes[0].side.end.info->domain_attr->name,
	       nodes[0].device->name);
	ret = start(&nodes[0], 0);
	if (ret)
		return ret;
	ret = start(&nodes[1], 1);
	for (int i = 0; i < 2 && (i == 0 || !ret); i++) {
		failed = xpu_device_wait(nodes[i].device, TIMEOUT_MS);
		ret = ret ? ret : failed;
	}
	for (uint32_t i = 0; i < 2; i++) {
		failed = look(&nodes[i], i);
		ret = ret ? ret : failed;
	}
	return ret;
}

int main(int argc, char **argv)
{
	const char *domain = argc > 1 ? argv[1] : NULL, *name = argc > 2 ? argv[2] : "cpu";
	struct node nodes[2] = { 0 };
	int ret = xpu_device_open(name, &nodes[0].device), failed;

	if (ret == -FI_ENODEV)
		return SKIPPED;
	if (!ret)
		ret = xpu_device_open(name, &nodes[1].device);
	if (!ret)
		ret = open_node(&nodes[0], domain);
	if (!ret)
		ret = open_node(&nodes[1], domain);
	if (!ret)
		ret = run(nodes);
	failed = close_node(&nodes[0]) | close_node(&nodes[1]);
	return ret || failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
