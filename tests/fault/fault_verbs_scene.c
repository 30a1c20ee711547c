/* SPDX-License-Identifier: BSD-2-Clause */
/* See fault_verbs.h: the program's life. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "core/base/log.h"
#include "tests/fault/fault_verbs.h"

#ifdef FAULT_BARE /* buffers come without a descriptor, regions are to be kept */
#define BARE true
#else
#define BARE false
#endif
#define KEEP	   (BARE ? HMREG_MR_CACHE : 0)
#define MODES	   ((BARE ? 0 : FI_MR_LOCAL) | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM)
#define ALL	   (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PAGE	   4096u
#define PLAIN	   (4 * PAGE)
#define LONG	   (40 * PAGE) /* three verbs regions of at most 64 KiB */
#define PATIENCE_S 20

const char *volatile fault_verbs_step = "nothing";

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *tx, *rx;
static struct fid_cntr *cntr;
static struct fid_ep *a, *b;
static fi_addr_t to_b = FI_ADDR_NOTAVAIL;
static struct fid_mr *from_mr, *to_mr, *long_mr, *pieces_mr, *file_mr, *sub_mr;
static uint8_t *from, *to;
static int file = -1;
static bool zero, gone;
static uint8_t round_;
static _Atomic unsigned lines;

static _Noreturn void broken(const char *what, long value)
{
	fprintf(stderr, "broken at \"%s\": %s (%ld)\n", fault_verbs_step, what, value);
	_exit(1);
}

static void count_line(enum fi_log_level level, enum fi_log_subsys subsys, const char *func,
		       int line, const char *text, void *arg)
{
	(void)subsys;
	(void)arg;
	if (level == FI_LOG_WARN)
		lines++;
	if (getenv("FAULT_TELL"))
		fprintf(stderr, "   [%s] %s:%d %s\n", fault_verbs_step, func, line, text);
}

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* ---- a step, and once more ---- */

/* An answer is a count, or the code of a failure of which a line in the log tells. */
static void check_code(long ret, unsigned said)
{
	if (ret >= 0)
		return;
	if (ret < -4096)
		broken("no FI_E code", ret);
	if (said == 0 && ret != -FI_EAGAIN)
		broken("fails without a word", ret);
	if (ret == -FI_ENODEV && fabric) /* before, a device may not be usable yet */
		gone = true;
}

/* False: the device is gone, and the step not done. */
static bool step(const char *name, int (*run)(void))
{
	unsigned before;
	int ret;

	fault_verbs_step = name;
	before = lines;
	ret = run();
	check_code(ret, lines - before);
	if (ret < 0 && !gone) {
		before = lines;
		ret = run();
		check_code(ret, lines - before);
	}
	if (ret < 0 && !gone)
		broken("fails for ever", ret);
	return ret >= 0;
}

/* ---- opening ---- */

static int get_info(void)
{
	struct fi_info *hints = fi_allocinfo();
	int ret;

	if (!hints) {
		lines++; /* it has no log line */
		return -FI_ENOMEM;
	}
	hints->caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_HMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = MODES | (zero ? 0 : FI_MR_VIRT_ADDR);
	hints->domain_attr->name = strndup("emu0", 4);
	ret = fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info);
	free(hints->domain_attr->name);
	hints->domain_attr->name = NULL;
	fi_freeinfo(hints);
	return ret;
}

static int open_fabric(void)
{
	return fi_fabric(info->fabric_attr, &fabric, NULL);
}

static int open_domain(void)
{
	return fi_domain(fabric, info, &domain, NULL);
}

static int open_av(void)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };

	return fi_av_open(domain, &attr, &av, NULL);
}

static int open_tx(void)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };

	return fi_cq_open(domain, &attr, &tx, NULL);
}

static int open_rx(void)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD };

	return fi_cq_open(domain, &attr, &rx, NULL);
}

static int open_cntr(void)
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	return fi_cntr_open(domain, &attr, &cntr, NULL);
}

static int open_ep(struct fid_ep **ep)
{
	int ret = fi_endpoint(domain, info, ep, NULL);

	if (ret)
		return ret;
	if (fi_ep_bind(*ep, &av->fid, 0) || fi_ep_bind(*ep, &tx->fid, FI_TRANSMIT) ||
	    fi_ep_bind(*ep, &rx->fid, FI_RECV) || fi_ep_bind(*ep, &cntr->fid, FI_WRITE))
		broken("binding fails", 0);
	return 0;
}

static int open_a(void)
{
	return open_ep(&a);
}

static int open_b(void)
{
	return open_ep(&b);
}

static int enable_a(void)
{
	return fi_enable(a);
}

static int enable_b(void)
{
	return fi_enable(b);
}

static int insert(void)
{
	uint8_t name[64];
	size_t len = sizeof(name);

	if (fi_getname(&b->fid, name, &len))
		broken("no name", 0);
	return fi_av_insert(av, name, 1, &to_b, 0, NULL) == 1 ? 0 : -FI_ENOMEM;
}

/* ---- registering ---- */

static void *desc_of(struct fid_mr *mr)
{
	return BARE ? NULL : fi_mr_desc(mr);
}

static int reg(const struct iovec *iov, size_t count, uint64_t flags, struct fid_mr **mr)
{
	return fi_mr_regv(domain, iov, count, ALL, 0, 0, flags, mr, NULL);
}

static int reg_from(void)
{
	return reg(&(struct iovec){ from, LONG }, 1, KEEP, &from_mr);
}

static int reg_to(void)
{
	return reg(&(struct iovec){ to, PLAIN }, 1, KEEP, &to_mr);
}

static int reg_long(void)
{
	return reg(&(struct iovec){ to, LONG }, 1, 0, &long_mr);
}

static int reg_pieces(void)
{
	struct iovec iov[3] = { { to, PAGE }, { to + 2 * PAGE, PAGE }, { to + PLAIN, 2 * PAGE } };

	return reg(iov, 3, 0, &pieces_mr);
}

static int reg_file(void)
{
	struct fi_mr_dmabuf dmabuf = { .fd = file, .len = PLAIN };
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .access = ALL };

	return fi_mr_regattr(domain, &attr, FI_MR_DMABUF | KEEP, &file_mr);
}

/* Windows into each part of the long one. */
static int reg_sub(void)
{
	struct iovec iov = { to, LONG - PAGE };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = ALL, .base_mr = long_mr
	};

	return fi_mr_regattr(domain, &attr, 0, &sub_mr);
}

static void open_all(void)
{
	if (!step("fi_getinfo", get_info) || !step("fi_fabric", open_fabric) ||
	    !step("fi_domain", open_domain) || !step("fi_av_open", open_av) ||
	    !step("fi_cq_open", open_tx) || !step("fi_cq_open with a descriptor", open_rx) ||
	    !step("fi_cntr_open", open_cntr))
		return;
	(void)(step("register", reg_from) && step("register the target", reg_to) &&
	       step("register parts", reg_long) && step("register pieces", reg_pieces) &&
	       step("register a sub-MR", reg_sub) && step("register a dma-buf", reg_file));
	if (step("fi_endpoint a", open_a))
		(void)step("fi_enable a", enable_a);
	if (step("fi_endpoint b", open_b) && step("fi_enable b", enable_b))
		(void)step("fi_av_insert", insert);
}

/* ---- data ---- */

/* Waits for the completion of this context; its error, or 0.  The queue is slept on, as programs do. */
static int await(struct fid_cq *cq, const void *context)
{
	double end = now() + PATIENCE_S;
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry err = { .err = 0 };

	for (;;) {
		ssize_t ret = fi_cq_sread(cq, &entry, 1, NULL, 100);

		if (ret == 1 && entry.op_context == context)
			return 0;
		if (ret == -FI_EAVAIL) {
			if (fi_cq_readerr(cq, &err, 0) != 1 || err.err == 0)
				broken("no error to read", err.err);
			gone |= err.prov_errno == HMREG_DEVICE_GONE;
			if (err.op_context == context) {
				lines++;
				return -err.err;
			}
			continue;
		}
		if (ret != 1 && ret != -FI_EAGAIN && ret != -FI_EINTR)
			broken("fi_cq_sread", ret);
		if (now() > end)
			broken("hangs", 0);
	}
}

/* Posts again while there is no room. */
#define POST(call)                                                                                 \
	({                                                                                         \
		double end_ = now() + PATIENCE_S;                                                  \
		ssize_t ret_;                                                                      \
		while ((ret_ = (call)) == -FI_EAGAIN && now() < end_)                              \
			usleep(100);                                                               \
		ret_;                                                                              \
	})

static uint64_t target(const uint8_t *first)
{
	return zero ? 0 : (uintptr_t)first;
}

static void paint(size_t len)
{
	round_++;
	for (size_t i = 0; i < len; i++)
		from[i] = (uint8_t)(round_ + i + i / 251);
}

static int is_there(size_t len)
{
	if (memcmp(from, to, len) != 0)
		broken("other bytes at the target", (long)len);
	return 0;
}

static int finish(struct fid_cq *cq, ssize_t ret, const void *context, size_t len)
{
	if (ret == 0)
		ret = await(cq, context);
	return ret == 0 ? is_there(len) : (int)ret;
}

static int message(size_t len, uint64_t flags)
{
	struct iovec iov = { from, len };
	void *desc = desc_of(from_mr);
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = to_b, .context = &iov
	};
	char receive;
	ssize_t ret;

	paint(len);
	ret = POST(fi_recv(b, to, LONG, desc_of(long_mr), FI_ADDR_UNSPEC, &receive));
	if (ret)
		return (int)ret;
	ret = POST(fi_sendmsg(a, &msg, flags));
	if (ret == 0)
		ret = await(tx, &iov);
	if (ret != 0) { /* it may have come all the same */
		(void)fi_cancel(&b->fid, &receive);
		(void)await(rx, &receive);
		return (int)ret;
	}
	ret = await(rx, &receive);
	return ret ? (int)ret : is_there(len);
}

static int send_short(void)
{
	return message(64, 0);
}

static int send_long(void)
{
	return message(LONG, 0);
}

static int send_delivered(void)
{
	return message(PLAIN, FI_DELIVERY_COMPLETE);
}

/* The message is there before its receive. */
static int send_early(void)
{
	char receive;
	ssize_t ret;

	paint(100);
	ret = POST(fi_send(a, from, 100, desc_of(from_mr), to_b, &receive));
	if (ret == 0)
		ret = await(tx, &receive);
	if (ret)
		return (int)ret;
	for (int i = 0; i < 2; i++) { /* receiving may fail once by itself */
		ret = POST(fi_recv(b, to, LONG, desc_of(long_mr), FI_ADDR_UNSPEC, &receive));
		if (ret == 0)
			ret = await(rx, &receive);
		if (ret == 0)
			return is_there(100);
	}
	return (int)ret;
}

static int write_desc(void)
{
	char context;

	paint(PLAIN);
	return finish(tx,
		      POST(fi_write(a, from, PLAIN, desc_of(from_mr), to_b, target(to),
				    fi_mr_key(to_mr), &context)),
		      &context, PLAIN);
}

static int write_parts(void)
{
	char context;

	paint(LONG);
	return finish(tx,
		      POST(fi_write(a, from, LONG, desc_of(from_mr), to_b, target(to),
				    fi_mr_key(long_mr), &context)),
		      &context, LONG);
}

static int write_sub(void)
{
	char context;

	paint(LONG);
	return finish(tx,
		      POST(fi_write(a, from, LONG - PAGE, desc_of(from_mr), to_b, target(to),
				    fi_mr_key(sub_mr), &context)),
		      &context, LONG - PAGE);
}

static int read_parts(void)
{
	char context;

	paint(LONG);
	memcpy(to, from, LONG);
	memset(from, 0, LONG);
	return finish(tx,
		      POST(fi_read(a, from, LONG, desc_of(from_mr), to_b, target(to),
				   fi_mr_key(long_mr), &context)),
		      &context, LONG);
}

static int write_data(void)
{
	char context;
	ssize_t ret;

	paint(PAGE);
	ret = finish(tx,
		     POST(fi_writedata(a, from, PAGE, desc_of(from_mr), 7, to_b, target(to),
				       fi_mr_key(to_mr), &context)),
		     &context, PAGE);
	if (ret == 0)
		ret = await(rx, NULL);
	return (int)ret;
}

static int inject(void)
{
	char context;
	ssize_t ret;

	paint(100);
	ret = POST(fi_inject_write(a, from, 100, to_b, target(to), fi_mr_key(to_mr)));
	if (ret)
		return (int)ret;
	/* what is behind it tells that it was carried out; it has no completion itself */
	return finish(tx,
		      POST(fi_read(a, from, 100, desc_of(from_mr), to_b, target(to),
				   fi_mr_key(to_mr), &context)),
		      &context, 100);
}

static int add(void)
{
	uint64_t before = 41, after = 0, one = 1;
	char context;
	ssize_t ret;

	memcpy(to, &before, sizeof(before));
	memcpy(from + 8, &one, sizeof(one));
	ret = POST(fi_fetch_atomic(a, from + 8, 1, desc_of(from_mr), from, desc_of(from_mr), to_b,
				   target(to), fi_mr_key(to_mr), FI_UINT64, FI_SUM, &context));
	if (ret == 0)
		ret = await(tx, &context);
	if (ret)
		return (int)ret;
	memcpy(&after, to, sizeof(after));
	if (after != 42 || memcmp(from, &before, sizeof(before)) != 0)
		broken("a wrong sum", (long)after);
	return 0;
}

/* What came without a descriptor was registered. */
static void check_cache(void)
{
	struct hmreg_cache_stats stats = { .size = sizeof(stats) };
	struct hmreg_domain_ops *ops;

	if (fi_open_ops(&domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&ops, NULL) ||
	    ops->cache(&domain->fid, &stats) || stats.all.misses < 4)
		broken("the cache was not used", (long)stats.all.misses);
}

static void use_all(void)
{
	static int (*const run[])(void) = { write_desc, send_short,  send_long, send_delivered,
					    send_early, write_parts, write_sub, read_parts,
					    write_data, inject,	     add };
	static const char *const name[] = { "write",
					    "message",
					    "long message",
					    "message, delivered",
					    "message before its receive",
					    "write to parts",
					    "write to a sub-MR",
					    "read from parts",
					    "write with data",
					    "injected write",
					    "atomic" };

	for (size_t i = 0; i < sizeof(run) / sizeof(run[0]) && !gone; i++)
		(void)step(name[i], run[i]);
	if (BARE && !gone)
		check_cache();
}

/* ---- closing ---- */

static void close_one(const char *name, void *object)
{
	struct fid *fid = object;
	unsigned before = lines;
	int ret;

	fault_verbs_step = name;
	if (!fid)
		return;
	ret = fi_close(fid);
	check_code(ret, lines - before);
	if (ret)
		ret = fi_close(fid);
	if (ret)
		broken("cannot be closed", ret);
}

static void close_all(void)
{
	close_one("close pieces", pieces_mr);
	close_one("close a sub-MR", sub_mr);
	close_one("close parts", long_mr);
	close_one("close a dma-buf", file_mr);
	close_one("close the target", to_mr);
	close_one("close the source", from_mr);
	close_one("close b", b);
	close_one("close a", a);
	close_one("close a counter", cntr);
	close_one("close rx", rx);
	close_one("close tx", tx);
	close_one("close av", av);
	close_one("close the domain", domain);
	close_one("close the fabric", fabric);
	fi_freeinfo(info);
}

void fault_verbs_scene(bool zero_based)
{
	static uint8_t memory[2 * LONG] __attribute__((aligned(4096)));

	zero = zero_based;
	from = memory;
	to = memory + LONG;
	hm_log_set_sink(count_line, NULL);
	file = memfd_create("fault", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, PLAIN) != 0)
		broken("memfd_create", 0);
	open_all();
	if (a && b && file_mr && to_b != FI_ADDR_NOTAVAIL)
		use_all();
	close_all();
	close(file);
	hm_log_set_sink(NULL, NULL);
}
