/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the conformance programs share: they run every case once per profile (a domain name out of
 * fi_getinfo), through the public interface alone, so that the same cases fit any NIC.
 *
 * The profiles are those named in HMREG_TEST_DOMAIN or on the command line, else the usual ones of the
 * software NIC.  A name may be followed by
 *   +OTHER     the second end of a pair is on this domain (as with HMREG_TEST_PEER=OTHER)
 *   :minimal   hints offer no mr_mode bit but those that the port needs; else they offer every bit
 *   :sub       (also HMREG_TEST_SUB=1) what conf_reg and its kin register are sub-MRs of larger regions
 *   :BITS      hints offer these, as in sw-any:virt_addr,mmu_notify
 * A case's printed name ends with its profile: mode_03_null_desc[sw-verbs], rma_bounds[emu0+emu1:minimal].
 *
 * NICs differ.  A case asks what it needs to know of the infos, of fi_query_atomic, of the domain, or of
 * the traits below, and leaves out what is not offered; a whole case that has nothing left to do is
 * skipped with its reason (conf_skip), never passed over in silence.  On a port that is for registration
 * alone, those cases are left that open no endpoint: whatever else asks for one skips the case.
 *
 * Around each case the harness looks after
 *   - objects: what conf_open and conf_reg made is closed at the end, in the right order, and must be
 *     closeable; before that the domain's figures must be what they were when it was opened;
 *   - memory: guard words around each conf_alloc are intact;
 *   - file descriptors: as many as before;
 *   - log lines: standard error goes to a memory file, and only lines that assert_refused or
 *     conf_log_expect has asked for may be there.
 */
#ifndef CONF_HARNESS_H
#define CONF_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_xpu.h>

#define CONF_VERSION   FI_VERSION(2, 7)
#define CONF_ENDS      72
#define CONF_ALSO      4
#define CONF_REGIONS   128
#define CONF_BUFFERS   128
#define CONF_BASES     512
#define CONF_TIMEOUT_S 20
#define CONF_CAPS      (FI_MSG | FI_RMA | FI_ATOMIC)
#define CONF_REMOTE    (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CONF_LOCAL     (FI_SEND | FI_RECV | FI_READ | FI_WRITE)
#define CONF_ALL       (CONF_LOCAL | CONF_REMOTE)

/* Every bit that a client of the harness can serve: all there are. */
#define CONF_MR_MODES                                                                              \
	(FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |            \
	 FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM | FI_MR_COLLECTIVE |     \
	 FI_MR_XPU_DESC)

struct conf_profile {
	const char *label;    /* as it was asked for; owned */
	const char *name;     /* of the domain */
	const char *peer;     /* domain of a pair's second end; NULL: the same; owned */
	struct fi_info *info; /* owned; what fi_getinfo says with the bits that hints offer */
	int offered;	      /* mr_mode in hints */
	int mode;	      /* the mr_mode bits that are agreed then */
	int needed, kept;     /* bits that the port needs; that it keeps where they are offered */
	bool sub;	      /* regions are sub-MRs */
	/*
	 * What no info tells.  exact: errors tell their cause (hardware says "access refused" for a wrong
	 * key, range or right alike).  at_once: an operation is carried out before its call returns,
	 * so that its effect and its completion are there, and the sender hears of trouble at the
	 * receiver.  Both are asked of the port (HMREG_FABRIC_OPS): its kind is "sw".
	 */
	bool exact, at_once;
	/* The port is for registration alone: why it has no endpoints, else NULL. */
	const char *no_endpoints;
};

/* One end of a conversation.  Objects that are NULL were not opened, or closed by the test. */
struct conf_end {
	struct conf *conf;
	struct conf_end *shares; /* fabric, domain and info are this end's */
	struct fi_info *info;
	int mode;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *tx, *rx;
	struct fid_ep *ep;
	size_t alsos;
	struct fid *also[CONF_ALSO];  /* conf_also */
	struct hmreg_domain_ops *ops; /* NULL: not this library's domain */
	uint64_t next_key;
	/* Of the domain: what the harness has registered for sub-MRs to be part of. */
	uint64_t bases, base_bytes;
};

/* A registered region and the keys that other ends have mapped for it. */
struct conf_region {
	struct conf_end *end;
	struct fid_mr *mr; /* NULL: closed */
	struct fid_mr
		*base; /* with profile->sub: outlives mr, until the region or its end is dropped */
	void *desc;
	uint64_t addr; /* of its first byte, in a peer's calls */
	size_t maps;
	struct {
		struct conf_end *user;
		uint64_t key;
	} map[CONF_ENDS];
};

struct conf {
	const struct conf_profile *profile;
	int mode;
	size_t ends, regions, buffers, bases;
	struct conf_end end[CONF_ENDS];
	struct conf_region region[CONF_REGIONS];
	struct {
		uint8_t *mem;
		size_t len;
	} buffer[CONF_BUFFERS];
	struct conf_base {
		struct conf_end *end;
		struct fid_mr *mr;
		uint64_t len;
	} base[CONF_BASES];
	size_t fds;
	uint64_t random;
};

/* Ends the case as skipped; why says what the NIC does not offer.  Does not return. */
void conf_skip(struct conf *c, const char *why) __attribute__((noreturn));
/* Skips the case where the port is for registration alone.  Whatever opens endpoints does so itself. */
void conf_need_endpoints(void);
/* Can an endpoint of the profile have these capabilities? */
bool conf_offers(const struct conf *c, uint64_t caps);
/* Skips the case where it cannot. */
void conf_need_caps(struct conf *c, uint64_t caps);
/* mr_mode where hints offer these bits, and caps beside CONF_CAPS; or fi_getinfo's error. */
int conf_agree(const struct conf *c, uint64_t caps, int offered, int *agreed);
/* Skips the case where regions cannot be registered with this flag. */
void conf_need_flag(struct conf *c, uint64_t flag);
/* Elements that one atomic operation takes; flags as for fi_query_atomic.  0: it is not offered. */
size_t conf_atomic_count(const struct conf_end *end, enum fi_datatype type, enum fi_op op,
			 uint64_t flags);
/* Remote data as a completion shows it: as many bytes as the domain has for it. */
uint64_t conf_data(const struct conf_end *end, uint64_t data);
/* Does a region hold its pages, so that it works on when they are unmapped or protected? */
bool conf_holds_pages(const struct conf *c);

struct conf_case {
	const char *name;
	void (*fn)(struct conf *c);
	int need,
		without; /* run only on profiles with all of these mr_mode bits, and none of those */
};

#define CONF(fn)                                                                                   \
	{                                                                                          \
#fn, fn, 0, 0                                                                      \
	}
#define CONF_NEED(fn, bits)                                                                        \
	{                                                                                          \
#fn, fn, bits, 0                                                                   \
	}
#define CONF_WITHOUT(fn, bits)                                                                     \
	{                                                                                          \
#fn, fn, 0, bits                                                                   \
	}

/* Runs the cases on every profile; the program's exit status. */
int conf_main(int argc, char **argv, const struct conf_case *cases, size_t count);
size_t conf_profiles(const struct conf_profile **profiles);

/* ---- ends; all fields may be left 0 ---- */
struct conf_opts {
	const char *domain; /* NULL: the profile's */
	uint32_t version;
	uint64_t caps;
	int mode;		     /* mr_mode in hints; 0: what the profile offers */
	uint64_t info_mode;	     /* mode in hints */
	uint64_t tx_flags, rx_flags; /* default operation flags */
	uint64_t bind_flags;	     /* FI_SELECTIVE_COMPLETION for both queues */
	size_t tx_cq_size, rx_cq_size, rx_size;
	enum fi_av_type av_type; /* 0: FI_AV_TABLE */
	enum fi_wait_obj wait_obj;
	enum fi_cq_format format; /* 0: FI_CQ_FORMAT_DATA */
	/* authorization: FI_AV_AUTH_KEY goes without key; size 0: none */
	const char *key;
	size_t key_size;
	const char *ep_key; /* the endpoint's own, with same_domain as well */
	size_t ep_key_size;
	struct conf_end *same_domain; /* only the endpoint and its queues are opened anew */
	struct fid_xpu_ctx *xpu;      /* these are of this context */
	bool no_ep;		      /* the domain alone */
	bool disabled;		      /* everything bound, not enabled */
};

struct conf_end *conf_open(struct conf *c, const struct conf_opts *opts);
/* For regions and no transfer: an endpoint only where regions are bound to one (FI_MR_ENDPOINT). */
struct conf_end *conf_open_for_regions(struct conf *c);
/* Two ends; b may be NULL.  Where the profile has a peer, b is on that domain. */
void conf_pair(struct conf *c, const struct conf_opts *opts, struct conf_end **a,
	       struct conf_end **b);
/* Another object of the end's domain: closed after the end's own objects, the last one first. */
void conf_also(struct conf_end *end, struct fid *fid);
/* What to is called in the address vector of end. */
fi_addr_t conf_addr(struct conf_end *end, const struct conf_end *to);
/* Closes what the test wants closed before its end. */
void conf_close_ep(struct conf_end *end);
/* The last end, with all that belongs to it. */
void conf_drop_end(struct conf_end *end);
/* For an endpoint, which skips the case where there is none, or with opts->no_ep for a domain alone. */
struct fi_info *conf_hints(const char *domain, const struct conf_opts *opts);
/* Without what the harness itself has registered. */
struct hmreg_domain_stats conf_stats(const struct conf_end *end);
/* The domain's figures are these. */
void conf_check_stats(const struct conf_end *end, uint64_t regions, uint64_t bytes,
		      uint64_t mapped);

/* ---- memory ---- */
/* Zeroed, 64-byte aligned, between guard words; freed at the end. */
uint8_t *conf_alloc(struct conf *c, size_t len);
/* Frees the last one. */
void conf_drop_buffer(struct conf *c);
void conf_fill(struct conf *c, void *buf, size_t len);
uint64_t conf_random(struct conf *c);
static inline size_t conf_below(struct conf *c, size_t limit)
{
	return (size_t)(conf_random(c) % limit);
}

/* Registers and does all that the mode wants before use. */
struct conf_region *conf_reg(struct conf_end *end, const void *buf, size_t len, uint64_t access);
struct conf_region *conf_regv(struct conf_end *end, const struct iovec *iov, size_t count,
			      uint64_t access, uint64_t flags, struct fid_cntr *cntr);
/* With all attributes but the key, which is chosen here. */
struct conf_region *conf_regattr(struct conf_end *end, struct fi_mr_attr *attr, uint64_t flags);
/* Binding, enabling, refreshing, as the mode wants. */
void conf_ready(struct conf_end *end, struct fid_mr *mr, struct fid_cntr *cntr);
/* The key with which user reaches the region; mapped when it is a raw one. */
uint64_t conf_key(struct conf_end *user, struct conf_region *region);
/* Registered, but neither bound nor enabled. */
struct conf_region *conf_reg_raw(struct conf_end *end, const void *buf, size_t len,
				 uint64_t access);
void conf_close_region(struct conf_region *region);
/* Its mapped keys as well; its place is free again if it was the last one. */
void conf_drop_region(struct conf_region *region);

/*
 * The usual scene: a reaches b's buffer dst from its own buffer src, both of len bytes and registered
 * with every right.  src is random, dst zero.
 */
struct conf_link {
	struct conf_end *a, *b;
	fi_addr_t to;
	uint8_t *src, *dst;
	size_t len;
	struct conf_region *local, *remote;
	uint64_t key;
	size_t count; /* the test's own */
};

void conf_link(struct conf *c, const struct conf_opts *opts, size_t len, struct conf_link *l);
/* Writes len bytes to off, and reads them from there; done before it returns. */
void conf_put(struct conf_link *l, size_t off, size_t len);
void conf_get(struct conf_link *l, size_t off, size_t len);
/* The link works: b's buffer takes what a writes, and a reads it back. */
void conf_works(struct conf_link *l);

/* ---- completions ---- */
#define conf_done(cq, context) conf_done_at(cq, context, NULL, __FILE__, __LINE__)
/* A success whose entry is wanted. */
#define conf_done_as(cq, context, entry) conf_done_at(cq, context, entry, __FILE__, __LINE__)
#define conf_failed(cq, context, err, cause)                                                       \
	conf_failed_at(cq, context, err, cause, NULL, __FILE__, __LINE__)
#define conf_failed_as(cq, context, err, cause, entry)                                             \
	conf_failed_at(cq, context, err, cause, entry, __FILE__, __LINE__)
/* Nothing is there, nor comes in a moment. */
#define conf_quiet(cq) conf_quiet_at(cq, __FILE__, __LINE__)

/* The next entry is an error, which is read. */
#define conf_error(cq, entry) conf_error_at(cq, entry, __FILE__, __LINE__)
/* One success, and where it came from. */
#define conf_from(cq, entry, from) conf_from_at(cq, entry, from, __FILE__, __LINE__)
/* Exactly count successes of so many bytes each, which come one after another. */
#define conf_reads(cq, buf, count, size) conf_reads_at(cq, buf, count, size, __FILE__, __LINE__)
/* Two successes, in any order. */
#define conf_both(cq, one, other) conf_both_at(cq, one, other, __FILE__, __LINE__)
/* Something is at the front of the queue, or comes. */
void conf_await(struct fid_cq *cq);
/* The memory gets these contents, by an operation without a completion: now, or in a while. */
#define conf_arrives(mem, want, len) conf_arrives_at(mem, want, len, __FILE__, __LINE__)
/* Is this the error that an operation must end with, as exactly as the NIC tells it? */
bool conf_is_error(const struct fi_cq_err_entry *entry, int err, int cause);

/* A call that posts: 0, where the NIC has no room for a moment after some tries. */
#define assert_posted(expression)                                                                  \
	do {                                                                                       \
		time_t since_ = conf_now();                                                        \
		long ret_;                                                                         \
                                                                                                   \
		while ((ret_ = (long)(expression)) == -FI_EAGAIN && conf_may_wait(since_))         \
			;                                                                          \
		conf_check_code(ret_, 0, #expression, __FILE__, __LINE__);                         \
	} while (0)

/* For waiting: seconds, and whether it may go on (yields; never where operations are done at once). */
time_t conf_now(void);
bool conf_may_wait(time_t since);

void conf_error_at(struct fid_cq *cq, struct fi_cq_err_entry *entry, const char *file, int line);
void conf_from_at(struct fid_cq *cq, struct fi_cq_data_entry *entry, fi_addr_t *from,
		  const char *file, int line);
void conf_reads_at(struct fid_cq *cq, void *buf, size_t count, size_t size, const char *file,
		   int line);
void conf_both_at(struct fid_cq *cq, void *one, void *other, const char *file, int line);
void conf_arrives_at(const void *mem, const void *want, size_t len, const char *file, int line);
void conf_done_at(struct fid_cq *cq, void *context, struct fi_cq_data_entry *entry,
		  const char *file, int line);
void conf_failed_at(struct fid_cq *cq, void *context, int err, int cause,
		    struct fi_cq_err_entry *entry, const char *file, int line);
void conf_quiet_at(struct fid_cq *cq, const char *file, int line);

/* ---- log lines ---- */
/* Nothing unexpected so far; what comes now belongs to the check that follows. */
void conf_log_mark(const char *file, int line);
/* Exactly so many lines since the mark, the last one with this text (NULL: any). */
void conf_log_expect(unsigned int lines, const char *text, const char *what, const char *file,
		     int line);
/* From now on any number of lines may come; then, none again but those that are asked for. */
void conf_log_any(bool any);
/* The text since the last mark. */
const char *conf_log_text(void);

/* The expression has this value and logs exactly one line (that contains text). */
#define assert_refused_with(expression, code, text)                                                \
	do {                                                                                       \
		long conf_ret_;                                                                    \
                                                                                                   \
		conf_log_mark(__FILE__, __LINE__);                                                 \
		conf_ret_ = (long)(expression);                                                    \
		conf_check_code(conf_ret_, (long)(code), #expression, __FILE__, __LINE__);         \
		conf_log_expect(1, text, #expression, __FILE__, __LINE__);                         \
	} while (0)
#define assert_refused(expression, code) assert_refused_with(expression, code, NULL)
/* The same without a line: no mistake, but an answer. */
#define assert_answer(expression, code)                                                            \
	do {                                                                                       \
		long conf_ret_;                                                                    \
                                                                                                   \
		conf_log_mark(__FILE__, __LINE__);                                                 \
		conf_ret_ = (long)(expression);                                                    \
		conf_check_code(conf_ret_, (long)(code), #expression, __FILE__, __LINE__);         \
		conf_log_expect(0, NULL, #expression, __FILE__, __LINE__);                         \
	} while (0)
#define assert_ok(expression) assert_answer(expression, 0)

void conf_check_code(long have, long want, const char *what, const char *file, int line);

/* Runs in a child process, for what must not harm this one; its wait status. */
int conf_fork(void (*fn)(void *arg), void *arg);
/* Set by tests/run.sh: memory faults that are meant to happen would be reported. */
bool conf_valgrind(void);
/* HMREG_TEST_BRIEF is set: long loops take fewer turns, for a slow machine that runs them once in full. */
bool conf_brief(void);

#endif
