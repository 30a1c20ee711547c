/* SPDX-License-Identifier: BSD-2-Clause */
/* The scene in which a device starts a transfer: a kernel on the CPU device, which is a process of its own. */
#include "samples/xpu/kernel.h" /* before what includes fi_xpu_device.h */

#include "samples/xpu/device.h"
#include "samples/xpu/link_kernel.h"
#include "samples/xpu/side.h"
#include "tests/doc/scenes.h"

#define LEN	   4096
#define TIMEOUT_MS 20000

struct scene_args {
	struct xpu_link link;
};

struct scene {
	struct xpu_device *device;
	struct xpu_memory memory;
	struct xpu_side side;
	struct xpu_channel from, to;
};

/* What is in the slot of this request of the ring, whether or not it has been read meanwhile. */
static void tell_slot(const struct xpu_link *link, uint32_t number)
{
	const struct hmreg_xpu_ep *ep = (const struct hmreg_xpu_ep *)link->ep.fid.prov_ctx;
	const struct hmreg_xpu_wr *wr = (const struct hmreg_xpu_wr *)ep->ring + (number & ep->mask);

	tell("scene:ring:slot %u: %s, %llu bytes", (unsigned)number,
	     wr->op == HMREG_XPU_WRITE ? "write" : "something else", (unsigned long long)wr->len);
}

/* Twice: the first write connects, the second is drawn. */
XPU_KERNEL(scene_put, struct scene_args)
{
	uint64_t second = 1000000000;
	int ret = link_put(&args.link, 0, 0, LEN / 2);

	if (ret == 0)
		ret = link_finish(&args.link, 20 * second);
	tell("scene:begin:device");
	tell("scene:device:fi_xpu_write(4096 bytes)");
	if (ret == 0)
		ret = link_put(&args.link, 0, 0, LEN);
	tell_slot(&args.link, 1);
	tell("scene:device<%d", ret);
	tell("scene:device:fi_xpu_cntr_wait(2)");
	if (ret == 0)
		ret = link_finish(&args.link, 20 * second);
	tell("scene:device<%s", ret ? "an error" : "the counter is 2");
	tell("scene:end");
}

static int run(struct scene *s)
{
	struct scene_args args;
	int ret = xpu_device_alloc(s->device, (size_t)2 * LEN, &s->memory);

	if (!ret)
		ret = xpu_side_open(&s->side, "emu0", s->device);
	if (!ret)
		ret = xpu_channel_open(&s->from, &s->side, false, &s->memory, 0, LEN);
	if (!ret)
		ret = xpu_channel_open(&s->to, &s->side, false, &s->memory, LEN, LEN);
	if (!ret)
		ret = xpu_connect(&s->from, &s->to);
	if (ret)
		return ret;
	args = (struct scene_args){ .link = s->from.link };
	ret = xpu_device_launch(s->device, XPU_CALL(scene_put), &args, sizeof(args), 1, 1);
	if (!ret)
		ret = xpu_device_wait(s->device, TIMEOUT_MS);
	return ret || xpu_channel_errors(&s->from) ? -FI_EIO : 0;
}

int scene_device(void)
{
	struct scene s = { 0 };
	int ret = xpu_device_open("cpu", &s.device), failed;

	if (!ret)
		ret = run(&s);
	failed = xpu_channel_close(&s.from);
	ret = ret ? ret : failed;
	failed = xpu_channel_close(&s.to);
	ret = ret ? ret : failed;
	failed = xpu_side_close(&s.side);
	ret = ret ? ret : failed;
	xpu_device_free(s.device, &s.memory);
	xpu_device_close(s.device);
	return ret;
}
