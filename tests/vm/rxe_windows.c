// SPDX-License-Identifier: GPL-2.0
/*
 * Linux kernel module, for tests in the virtual machine alone; never installed.
 *
 * The kernel's software RDMA driver (rdma_rxe) has memory windows, but where a peer uses one it looks at the
 * ends of the region that the window is in, and not at the window's own.  This module adds that check, so
 * that windows can be tested without hardware as hardware has them.
 *
 * It watches three functions of the driver: that which binds a window, of which it remembers the range; that
 * which finds the window of a peer's request; and that which compares a request with the region's ends, which
 * comes next in the same task and is answered "outside" where the window ends earlier.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_user_rxe.h>

#define WINDOWS	 (1u << 19) /* as many as the driver has, by the number in their keys */
#define DEVICES	 2	    /* that the machine has at most; each counts its keys for itself */
#define REQUESTS 64

struct window {
	u32 key;
	u64 addr, length;
};

/* A request whose window was found, and whose range is looked at next. */
struct request {
	struct task_struct *task;
	struct window window;
};

static struct window *windows; /* WINDOWS of each device */
static const struct ib_device *devices[DEVICES];
static struct request requests[REQUESTS];
static DEFINE_RAW_SPINLOCK(lock); /* protects all of them */

/* Of the queue pair's device, which is the first member of what a queue pair begins with. */
static struct window *window_of(const struct ib_device *device, u32 key)
{
	unsigned int i = 0;

	while (i < DEVICES - 1 && devices[i] && devices[i] != device)
		i++;
	devices[i] = device;
	return &windows[i * WINDOWS + (key >> 8) % WINDOWS];
}

static const struct ib_device *device_of(const struct pt_regs *regs)
{
	return ((const struct ib_qp *)regs->di)->device;
}

static struct request *request_of(struct task_struct *task)
{
	for (unsigned int i = 0; i < REQUESTS; i++)
		if (requests[i].task == task)
			return &requests[i];
	return NULL;
}

/* ---- rxe_bind_mw(qp, wqe) ---- */

struct bind {
	const struct ib_device *device;
	struct window window;
};

static int binding(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct rxe_send_wqe *wqe = (void *)regs->si;
	struct bind *bind = (void *)instance->data;
	struct window *window = &bind->window;

	bind->device = device_of(regs);
	window->key = (wqe->wr.wr.mw.mw_rkey & ~0xffu) | (wqe->wr.wr.mw.rkey & 0xff);
	window->addr = wqe->wr.wr.mw.addr;
	window->length = wqe->wr.wr.mw.length;
	return 0;
}

static int bound(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct bind *bind = (void *)instance->data;
	unsigned long flags;

	if (regs->ax)
		return 0;
	raw_spin_lock_irqsave(&lock, flags);
	*window_of(bind->device, bind->window.key) = bind->window;
	raw_spin_unlock_irqrestore(&lock, flags);
	return 0;
}

/* ---- rxe_lookup_mw(qp, access, key) ---- */

struct look {
	const struct ib_device *device;
	u32 key;
};

static int looking(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct look *look = (void *)instance->data;

	look->device = device_of(regs);
	look->key = (u32)regs->dx;
	return 0;
}

static int found(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct look *look = (void *)instance->data;
	const struct window *window;
	struct request *request;
	unsigned long flags;

	if (!regs->ax)
		return 0;
	raw_spin_lock_irqsave(&lock, flags);
	request = request_of(current);
	if (!request)
		request = request_of(NULL);
	window = window_of(look->device, look->key);
	if (!request || window->key != look->key) {
		regs->ax = 0; /* one that is not known here is refused, which a test would notice */
	} else {
		request->task = current;
		request->window = *window;
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	return 0;
}

/* ---- mr_check_range(mr, addr, length) ---- */

static int comparing(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	u64 addr = regs->si, length = regs->dx;
	bool *outside = (bool *)instance->data;
	struct request *request;
	unsigned long flags;

	*outside = false;
	raw_spin_lock_irqsave(&lock, flags);
	request = request_of(current);
	if (request) {
		const struct window *window = &request->window;

		*outside = addr < window->addr || length > window->length ||
			   addr - window->addr > window->length - length;
		request->task = NULL;
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	return 0;
}

static int compared(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	if (*(bool *)instance->data)
		regs->ax = (unsigned long)(long)-EINVAL;
	return 0;
}

static struct kretprobe on_bind = { .kp.symbol_name = "rxe_bind_mw",
				    .entry_handler = binding,
				    .handler = bound,
				    .data_size = sizeof(struct bind),
				    .maxactive = REQUESTS };
static struct kretprobe on_lookup = { .kp.symbol_name = "rxe_lookup_mw",
				      .entry_handler = looking,
				      .handler = found,
				      .data_size = sizeof(struct look),
				      .maxactive = REQUESTS };
static struct kretprobe on_compare = { .kp.symbol_name = "mr_check_range",
				       .entry_handler = comparing,
				       .handler = compared,
				       .data_size = sizeof(bool),
				       .maxactive = REQUESTS };
static struct kretprobe *probes[] = { &on_bind, &on_lookup, &on_compare };

/* There is no exit: the machine just ends. */
static int __init rxe_windows_init(void)
{
	windows = vzalloc(array_size(DEVICES * WINDOWS, sizeof(*windows)));
	if (!windows)
		return -ENOMEM;
	return register_kretprobes(probes, ARRAY_SIZE(probes));
}

module_init(rxe_windows_init);
MODULE_DESCRIPTION("the ends of memory windows on software RDMA devices, for tests");
MODULE_LICENSE("GPL");
