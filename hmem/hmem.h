/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory interfaces: what an address is, which device owns it, how its bytes are reached, and how it
 * becomes a dma-buf.  One struct hmem_ops per interface; host memory is one of them.
 *
 *   registry.c  which interfaces there are, loaded when first needed
 *   classify.c  the one judgement over what a driver says of an address
 *   owner.c     the little of it that a registration cache asks at every lookup
 *   copy.c      copies between any two places
 *   system.c, cuda.c, rocr.c, ze.c, neuron.c, synapseai.c   one interface each
 *
 * A driver is loaded once and stays until exit.  Every function may run on any thread at any time.
 * No function changes the calling thread's current device or context.  Interfaces know no regions
 * and no NICs.
 */
#ifndef HMEM_H
#define HMEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_ext_hmreg.h>

#define HMEM_IFACES    (FI_HMEM_SYNAPSEAI + 1)
#define HMEM_NO_DEVICE (-1) /* as a device: the host's memory */

struct hmem_ops;

/* ---- interfaces ---- */

enum hmem_state {
	HMEM_UNTRIED, /* not asked for yet */
	HMEM_OFF,     /* left out by FI_HMEM */
	HMEM_ABSENT,  /* no driver library, or one that lacks what is needed */
	HMEM_FAILED,  /* the driver does not start */
	HMEM_EMPTY,   /* the driver knows no device */
	HMEM_READY
};

/* What became of an interface; texts are constant from the first attempt on. */
struct hmem_status {
	enum hmem_state state;
	char driver[128]; /* file that was loaded, or would have been */
	char version[64]; /* as the driver tells it, "" unknown */
	char reason[192]; /* why it is not HMEM_READY, "" if it is */
	enum hmreg_cause
		cause; /* of reason; the registry finds it from state where start leaves it */
};

struct hmem_device {
	int id; /* as fi_mr_attr.device has it */
	char name[64];
	char pci[16];	 /* domain:bus:device.function, "" unknown */
	uint64_t memory; /* bytes */
	uint64_t window; /* bytes of it that other PCI devices can address at once; 0 unknown */
	uint64_t window_free;	/* of these, what is not taken yet; 0 with window_known false */
	bool window_known;	/* window_free is what the driver says now */
	bool dmabuf;		/* its memory can be exported */
	char dmabuf_reason[96]; /* why not, "" if it can */
	enum hmreg_cause dmabuf_cause; /* of dmabuf_reason; none: HMREG_CAUSE_EXPORT_UNSUPPORTED */
};

/*
 * The interface's operations, loading its driver if nobody has yet; NULL when it is not usable, and
 * hmem_status tells why.  FI_HMEM_SYSTEM is always there.
 */
const struct hmem_ops *hmem_get(enum fi_hmem_iface iface);
/* Those that are usable, but for FI_HMEM_SYSTEM; all drivers are loaded first.  NULL ends the list. */
const struct hmem_ops *const *hmem_usable(void);
/* hmem_get's -FI_E code: 0, -FI_ENOSYS (left out, no driver), -FI_ENODEV (no device), -FI_EIO. */
int hmem_error(enum fi_hmem_iface iface);
/* Is the interface usable, and has it a device of this number? */
bool hmem_has_device(enum fi_hmem_iface iface, int id);
/* What became of it, after hmem_get; constant.  iface is one of them. */
const struct hmem_status *hmem_tried(enum fi_hmem_iface iface);
/* Loads nothing: HMEM_UNTRIED where hmem_get was not called. */
void hmem_status(enum fi_hmem_iface iface, struct hmem_status *status);
/* "system", "cuda", ...; "?" for a value that is none. */
const char *hmem_name(enum fi_hmem_iface iface);
/* Texts for logs: "cuda device 2", "host"; returns text. */
char *hmem_owner_text(enum fi_hmem_iface iface, int device, char text[48]);

/* ---- what an address is ---- */

enum hmem_kind {
	HMEM_HOST,	 /* plain host memory; no interface knows it */
	HMEM_HOST_ALLOC, /* host memory of the interface's allocator, or registered with it */
	HMEM_DEVICE,	 /* one allocation on one device */
	HMEM_MANAGED,	 /* moves between host and devices by itself */
	HMEM_VMM,	 /* device memory that the program mapped piece by piece */
	HMEM_VMM_HOST,	 /* the same, of host memory */
	HMEM_POOL,	 /* from a stream-ordered pool */
	HMEM_IMPORTED,	 /* another process's or another interface's, device registers, graphics */
	HMEM_UNKNOWN,	 /* the interface owns it and does not say what it is */
	HMEM_KINDS
};

/* struct hmem_facts.flags: what a driver says of one address, unjudged. */
#define HMEM_FACT_ON_HOST     (1u << 0) /* its pages are the host's */
#define HMEM_FACT_MANAGED     (1u << 1)
#define HMEM_FACT_VMM	      (1u << 2)
#define HMEM_FACT_POOL	      (1u << 3)
#define HMEM_FACT_IMPORTED    (1u << 4)
#define HMEM_FACT_HOST_ACCESS (1u << 5)	 /* the host may load and store it */
#define HMEM_FACT_NO_RDMA     (1u << 6)	 /* made without what NICs need of it */
#define HMEM_FACT_NO_EXPORT   (1u << 7)	 /* made without what export needs */
#define HMEM_FACT_NO_RANGE    (1u << 8)	 /* the driver does not tell where it begins and ends */
#define HMEM_FACT_UNKNOWN     (1u << 9)	 /* of the interface, and nothing else is told */
#define HMEM_FACT_NO_PEER     (1u << 10) /* no kernel module translates its addresses for NICs */

/* About the piece of memory that holds one address: as much as is physically one allocation. */
struct hmem_facts {
	uint32_t flags;
	int device;    /* as fi_mr_attr.device; HMEM_NO_DEVICE for host memory of no device */
	uint64_t base; /* with HMEM_FACT_NO_RANGE, the address itself, and len 1 */
	uint64_t len;
	uint64_t id; /* changes when the address is allocated anew; 0: the driver has none */
};

/* How memory of a kind can be registered, bits. */
#define HMEM_WAY_HOST	1u /* as host memory */
#define HMEM_WAY_DMABUF 2u /* exported as a dma-buf */
#define HMEM_WAY_PEER	4u /* by its address, where a kernel module translates it */
#define HMEM_WAY_COPY	8u /* not at all by a NIC, but the interface copies it */

/* The judgement over a range. */
struct hmem_memory {
	enum fi_hmem_iface iface; /* FI_HMEM_SYSTEM for plain host memory */
	int device;		  /* HMEM_NO_DEVICE for host memory of no device */
	enum hmem_kind kind;
	uint32_t ways;		/* HMEM_WAY_* */
	uint32_t segments;	/* allocations that the range touches; 1 for host memory */
	bool host_access;	/* the host may load and store it */
	bool range_known;	/* base and len are what the driver told */
	uint64_t base, len;	/* the extent of all these segments together */
	uint64_t id;		/* of the first segment; 0: none */
	const char *reason;	/* constant: why a way that one expects is missing, "" */
	enum hmreg_cause cause; /* of reason */
};

/*
 * What is [addr, addr + len), len > 0?  Asks every interface that is usable.  A range that begins in
 * one owner's memory and ends in another's, or past its end: -FI_EINVAL; a driver that fails:
 * -FI_EIO.  Memory that no interface knows is host memory, mapped or not.
 */
int hmem_classify(const void *addr, size_t len, struct hmem_memory *memory);
/*
 * The same for an interface and device that the caller names; flags are FI_HMEM_DEVICE_ONLY and
 * FI_HMEM_HOST_ALLOC of fi_mr(3), device is not looked at with the latter nor for FI_HMEM_SYSTEM.
 * -FI_ENOSYS: no driver.  -FI_ENODEV: no such device.  -FI_EINVAL: the memory is another's, or is not
 * what the flags say.  One log line names both sides.
 */
int hmem_classify_as(enum fi_hmem_iface iface, int device, uint64_t flags, const void *addr,
		     size_t len, struct hmem_memory *memory);
/* One segment after the other of a classified range: the part of [addr, addr + len) that is in the
 * allocation at addr, and that allocation.  -FI_EINVAL: nothing is there any more; or the driver's error;
 * with one log line. */
int hmem_segment(const struct hmem_memory *memory, const void *addr, size_t len,
		 struct hmem_facts *facts, size_t *part);

/* What tells the allocations under a range, in order, from others that are at their addresses later. */
struct hmem_identity {
	uint64_t sum;
	bool told; /* each allocation so far has an id */
};
void hmem_identity_begin(struct hmem_identity *identity);
void hmem_identity_add(struct hmem_identity *identity, const struct hmem_facts *facts);
/* 0: a driver did not tell. */
uint64_t hmem_identity_end(const struct hmem_identity *identity);

/* Is the allocation at this address still the one with this id, which is not 0? */
bool hmem_is_still(enum fi_hmem_iface iface, const void *addr, uint64_t id);

/* ---- whose it is, for a registration cache ---- */

/*
 * What keeps a registration of memory true until it is used again.  None of them: it must not be kept.
 * owner.c has the table of which memory needs which.
 */
#define HMEM_GUARD_PAGES 1u /* a monitor follows the process's pages */
#define HMEM_GUARD_ID	 2u /* struct hmem_owner.id is what it was */

struct hmem_owner {
	enum fi_hmem_iface iface; /* FI_HMEM_SYSTEM: of no interface, or the program's own */
	int device;		  /* HMEM_NO_DEVICE: the host's */
	uint32_t guards;	  /* HMEM_GUARD_*, both may be needed */
	uint64_t id;		  /* of all allocations that the range touches, in order; 0: none */
};

extern atomic_bool hmem_host_only;

/*
 * Whose memory is [addr, addr + len), len > 0, and what guards a registration of it?  Made to be asked at
 * every lookup: at most one call of each driver for memory that is not its own, one or two for each
 * allocation of its own, none where no interface is usable.  Says less than hmem_classify, and checks
 * nothing about the end of a range that begins in host memory.
 * A driver's failure, or a range that leaves its owner's memory: the error, and no guards.
 */
int hmem_find_owner(const void *addr, size_t len, struct hmem_owner *owner);

/* Of plain host memory. */
static inline struct hmem_owner hmem_plain_owner(void)
{
	return (struct hmem_owner){ FI_HMEM_SYSTEM, HMEM_NO_DEVICE, HMEM_GUARD_PAGES, 0 };
}

static inline int hmem_owner_of(const void *addr, size_t len, struct hmem_owner *owner)
{
	if (__builtin_expect(!atomic_load_explicit(&hmem_host_only, memory_order_relaxed), 0))
		return hmem_find_owner(addr, len, owner);
	*owner = hmem_plain_owner();
	return 0;
}

/*
 * What interfaces call when their driver frees memory that hmem_find_owner was asked about: [begin, end) is
 * about to go.  It runs inside the driver's free, so that it must not call the driver, block or allocate.
 * NULL: no more; when this returns none is left with a driver, but one that had begun may still be on its way.
 * By one thread at a time.
 */
typedef void hmem_gone_fn(uint64_t begin, uint64_t end);
void hmem_report_gone(hmem_gone_fn *gone);
/* For interfaces: report. */
void hmem_gone(uint64_t begin, uint64_t end);

/* ---- copies ---- */

/* One end of a copy. */
struct hmem_place {
	void *addr;
	enum fi_hmem_iface iface;
	int device; /* HMEM_NO_DEVICE: the host reaches addr */
};

/*
 * Copy between any two places, which may overlap if both are of one owner.  Done when it returns.
 * 0, -FI_EFAULT (not mapped), -FI_ENODEV, -FI_ENOMEM (host memory for the way between two
 * interfaces), -FI_EIO.
 */
int hmem_copy(const struct hmem_place *dst, const struct hmem_place *src, size_t len);

/* A copy under way. */
struct hmem_job;
/* As hmem_copy, but may return before it is done; the memory stays the caller's to keep. */
int hmem_copy_start(const struct hmem_place *dst, const struct hmem_place *src, size_t len,
		    struct hmem_job **job);
/* 0: done, job is gone; -FI_EAGAIN: not yet (never with wait); else it failed, and job is gone. */
int hmem_copy_end(struct hmem_job *job, bool wait);

/*
 * For interfaces: a copy in pieces that go through room, of size bytes; NULL: host memory made for it.  From
 * the end that an overlap of both ranges allows.  The first error of a piece, or -FI_ENOMEM with a log line.
 */
typedef int hmem_piece_fn(const void *arg, char *dst, const char *src, size_t len, void *room);
int hmem_copy_pieces(void *dst, const void *src, size_t len, void *room, size_t size,
		     hmem_piece_fn *piece, const void *arg);
bool hmem_overlap(const void *a, const void *b, size_t len);

/* ---- dma-bufs ---- */

#define HMEM_EXPORT_PCIE                                                                           \
	1u /* through the device's PCI window rather than the fabric between devices */

struct hmem_export {
	int fd;
	uint64_t offset; /* of the address asked for, in the dma-buf */
	uint64_t hold;	 /* the interface's, for export_end */
};

/* ---- one interface ---- */

enum hmem_alloc {
	HMEM_ALLOC_DEVICE,
	HMEM_ALLOC_HOST,
	HMEM_ALLOC_MANAGED,
	HMEM_ALLOC_PRIVATE /* of a device, not made for export; with allocates_private alone */
};

/*
 * Every call returns 0 or a negative FI_E code with one log line for a driver's failure that names
 * the driver's call and its error.  device is as fi_mr_attr.device has it.  Slots marked optional are
 * filled by the registry.
 */
struct hmem_ops {
	const char *name;
	enum fi_hmem_iface iface;

	/*
	 * Load and start the driver.  Fills status->driver, version, and on failure reason and state
	 * (HMEM_ABSENT, HMEM_FAILED, HMEM_EMPTY) with -FI_ENOSYS, -FI_EIO, -FI_ENODEV.  Called once.
	 */
	int (*start)(struct hmem_status *status);
	size_t (*device_count)(void);
	/* index counts from 0 to device_count - 1. */
	int (*device_info)(size_t index, struct hmem_device *device);

	/* -FI_ENOENT, silent: not this interface's memory. */
	int (*look)(const void *addr, struct hmem_facts *facts);
	/*
	 * Optional (-FI_ENOENT).  For a driver that cannot be asked what an address is: the caller says
	 * that [addr, addr + len) is memory of device, and look does not know it.  0 only as far as the
	 * driver confirms it, with facts for addr; -FI_ENOENT, silent: it does not.
	 */
	int (*claim)(int device, const void *addr, size_t len, struct hmem_facts *facts);
	/*
	 * Optional (look).  What a cache asks at every lookup (owner.c), by as few calls as the driver
	 * allows.  -FI_ENOENT as look, and so for the program's own host memory that it registered with the
	 * driver.  Of facts, flags have HMEM_FACT_ON_HOST and HMEM_FACT_NO_RANGE at least, and id is 0 unless
	 * it surely changes when other memory is put at the address; why then says what is missing, constant.
	 */
	int (*own)(const void *addr, struct hmem_facts *facts, const char **why);
	/* Optional (nothing to do): hmem_gone is not called any more, and the driver need not tell. */
	void (*end_reports)(void);
	/*
	 * Optional (nothing to do): memory of this kind at [addr, addr + len) is going to be
	 * registered; set what the driver wants set for that, as synchronous memory operations.
	 */
	int (*prepare)(const struct hmem_memory *memory, const void *addr, size_t len);

	/*
	 * One end or both are this interface's device memory; the other may be host memory
	 * (HMEM_NO_DEVICE).  Done when it returns: also ordered after work that the driver had under
	 * way on the default queue only as far as the driver's own copy is.
	 */
	int (*copy)(void *dst, int dst_device, const void *src, int src_device, size_t len);
	/* Optional (copy, done at once).  *event is the interface's; never 0. */
	int (*copy_start)(void *dst, int dst_device, const void *src, int src_device, size_t len,
			  uint64_t *event);
	/* 0 or an error: event is gone; -FI_EAGAIN: not done yet, never with wait. */
	int (*copy_end)(uint64_t event, bool wait);

	/* Export asks for multiples of this, addresses and lengths; 0: exports nothing. */
	size_t export_unit;
	/* -FI_EOPNOTSUPP: this memory cannot be; -FI_EINVAL: an interior address that cannot be told. */
	int (*export_start)(const struct hmem_memory *memory, const void *addr, size_t len,
			    uint32_t flags, struct hmem_export *out);
	/* Gives the fd back in the interface's own way. */
	void (*export_end)(const struct hmem_export *exported);

	/* Optional (-FI_ENOSYS): pin host memory for fast copies, and back. */
	int (*host_register)(void *addr, size_t len);
	int (*host_unregister)(void *addr);

	/* Optional (-FI_ENOSYS).  free takes what alloc gave. */
	int (*alloc)(int device, size_t len, enum hmem_alloc how, void **addr);
	int (*free)(int device, void *addr, enum hmem_alloc how);
	/*
	 * Every kernel of the program, on any device, reaches memory of HMEM_ALLOC_HOST at the host's address.
	 * False where the memory is of a context of this library's own.
	 */
	bool kernels_reach_host_alloc;
	bool allocates_private;

	/*
	 * Optional (nothing to do): what other devices wrote into this device's memory, as far as the host knows
	 * that it was written, is visible on the device when this returns.  needs_flush: false where that is so
	 * without.
	 */
	int (*flush)(int device);
	bool (*needs_flush)(int device);

	/* Host memory alone: is every page of the range there, and writable if asked?  0, -FI_EFAULT. */
	int (*probe)(const void *addr, size_t len, bool write);
};

extern struct hmem_ops hmem_system, hmem_cuda, hmem_rocr, hmem_ze, hmem_neuron, hmem_synapseai;

#endif
