/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-check: what its source files share.
 *
 *   hmreg-check.c    options                     check_causes.h   every cause, with its remedy
 *   check_walk.c     driver, device, memory, NIC, registration
 *   check_transfer.c endpoints and the bytes     check_find.c     from a failed call to its cause
 *   check_memory.c   memory of each kind         check_evidence.c what is printed beside a cause
 *   check_report.c   text and JSON
 */
#ifndef HMREG_CHECK_H
#define HMREG_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tool_accel.h"
#include "tool_capture.h"

/* ---- causes ---- */

enum check_stage {
	CHECK_STAGE_OPTIONS,
	CHECK_STAGE_DRIVER,
	CHECK_STAGE_DEVICE,
	CHECK_STAGE_MEMORY,
	CHECK_STAGE_NIC,
	CHECK_STAGE_EXPORT,
	CHECK_STAGE_IMPORT,
	CHECK_STAGE_REGISTRATION,
	CHECK_STAGE_TRANSFER,
	CHECK_STAGE_CLOSE,
	CHECK_STAGES,
	CHECK_STAGE_ANY = CHECK_STAGES /* of a cause: wherever it was met */
};

/* Evidence. */
#define SHOW_DRIVER  (1u << 0) /* library and version */
#define SHOW_MODULES (1u << 1) /* kernel modules of the interface */
#define SHOW_DEVICE  (1u << 2)
#define SHOW_MEMORY  (1u << 3)
#define SHOW_NIC     (1u << 4)
#define SHOW_RDMA    (1u << 5) /* the kernel's RDMA devices and their files */
#define SHOW_PATH    (1u << 6) /* IOMMU and access control */
#define SHOW_PEER    (1u << 7) /* modules for peer memory */
#define SHOW_LIMITS  (1u << 8)
#define SHOW_ALL     ((1u << 9) - 1)

struct check_cause {
	const char *id;
	int status;
	enum check_stage stage;
	enum hmreg_cause refusal; /* HMREG_CAUSE_NONE: none of the library's */
	enum hmreg_error error;	  /* HMREG_OK: none of a completion's */
	unsigned int shows;
	const char *cause, *remedy;
};

extern const struct check_cause check_causes[];
extern const size_t check_cause_count;

const char *check_stage_name(enum check_stage stage);
/* By id; it is one of the table. */
const struct check_cause *check_cause(const char *id);
/* NULL: no cause is for this. */
const struct check_cause *check_cause_of_refusal(enum hmreg_cause refusal);
const struct check_cause *check_cause_of_error(int error);
const char *check_remedy(const struct check_cause *cause, enum fi_hmem_iface iface);

/* ---- what is asked for ---- */

enum check_kind {
	CHECK_KIND_HOST,
	CHECK_KIND_DEVICE,
	CHECK_KIND_PINNED,
	CHECK_KIND_MANAGED,
	CHECK_KIND_PRIVATE,
	CHECK_KIND_FREED,
	CHECK_KIND_BEYOND,
	CHECK_KIND_MIXED,
	CHECK_KIND_FOREIGN,
	CHECK_KIND_READ_ONLY,
	CHECK_KIND_NO_ACCESS,
	CHECK_KIND_UNMAPPED,
	CHECK_KIND_SHORT_FILE,
	CHECK_KIND_DEVICE_MAPPING,
	CHECK_KINDS
};

const char *check_kind_name(enum check_kind kind);
const char *check_kind_text(enum check_kind kind);
/* Is it memory of an accelerator's interface, rather than of the host alone? */
bool check_kind_of_device(enum check_kind kind);

struct check_options {
	const char *nic; /* NULL: the first RDMA device */
	struct sample_place place;
	size_t size;
	enum check_kind kind;
	bool json;
};

/* ---- the walk ---- */

#define CHECK_STEP_TEXT 320

struct check_step {
	bool done;
	char text[CHECK_STEP_TEXT]; /* what was found */
};

/* Memory under test: the region is at region, within an allocation. */
struct check_memory {
	uint8_t *base, *region; /* base owned as how says */
	size_t len;		/* of the allocation */
	bool allocated;		/* by the interface, as how */
	enum hmreg_hmem_kind how;
	bool mapped;   /* by mmap(2) */
	uint8_t *host; /* the host's pages in front of it, owned, or NULL */
};

struct check {
	struct check_options options;
	struct check_step steps[CHECK_STAGES];
	enum check_stage at;

	/* what the walk finds; structures with size 0 are not known yet */
	struct fid_fabric *soft; /* owned: a fabric of the software NIC, which is always there */
	struct hmreg_fabric_ops *ops;
	struct hmreg_hmem_ops *hmem;
	struct hmreg_refusal early; /* what the library met when it looked for NICs */
	struct hmreg_hmem_iface iface;
	struct hmreg_hmem_device device;
	struct hmreg_hmem_memory found;
	struct hmreg_device nic;
	struct hmreg_hmem_path path;
	struct check_memory memory;
	struct sample_end near, far; /* owned */
	struct fid_mr *mr, *host_mr; /* owned */
	uint8_t *host;		     /* owned: a page that is sent, and one that comes back */
	bool registers_only;

	/* the failure */
	const struct check_cause *cause; /* NULL: none */
	char call[96];			 /* that failed, "" */
	int error;			 /* its FI_E code, 0 */
	bool refused;			 /* the library had a cause for it */
	char said[2048];		 /* what the library said of it */
};

/* From driver to transfer, until something fails; what is open is closed again.  0, or the exit status. */
int check_walk(struct check *check);

/* The steps of check_transfer.c: 0, or -1 with a cause. */
int check_transfer(struct check *check);

/* Put down the failure of a call: by what the library refused, or else as otherwise (an id).  -1. */
int check_failed(struct check *check, const char *call, int ret, const char *otherwise);
/* The same where the tool itself knows the cause. */
int check_found(struct check *check, const char *id, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* More words of the library about it. */
void check_said(struct check *check, const char *text);
/* A completion with an error. */
int check_completed(struct check *check, const char *call, int err, int prov_errno,
		    const char *text);
/* The stage is passed; text is what was found there. */
void check_passed(struct check *check, enum check_stage stage, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- memory ---- */

/* Make memory of the kind.  0, or -1 with a cause. */
int check_memory_make(struct check *check);
/* Right before it is registered: end what a kind has ended by then.  0, or -1 with a cause. */
int check_memory_spoil(struct check *check);
/* 0, or the code of a driver that does not take it back. */
int check_memory_free(struct check *check);
/* Copy between the host and the memory under test, whichever side is which. */
int check_memory_copy(struct check *check, void *to, const void *from, size_t len);

/* ---- output ---- */

/* One line of evidence. */
typedef void check_show_fn(void *arg, const char *name, const char *value);
/* What belongs to the cause of a failed walk. */
void check_evidence(const struct check *check, check_show_fn *show, void *arg);

void check_report(FILE *out, const struct check *check);
void check_report_json(FILE *out, const struct check *check);
/* Every cause: as a table that scripts can cut at tabs, or as JSON. */
void check_list(FILE *out, bool json);

#endif
