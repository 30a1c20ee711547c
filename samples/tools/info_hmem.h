/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-info: accelerators, and how NICs reach their memory.  Flow: find (loads drivers) -> check
 * (moves a page for each cell) -> report.
 *
 *   info_hmem.c         what is there, asked of the library
 *   info_check.c        the trial of a cell, and the table of remedies
 *   info_hmem_report.c  both forms of the report
 */
#ifndef HMREG_INFO_HMEM_H
#define HMREG_INFO_HMEM_H

#include "info.h"
#include "tool_accel.h"

/* What a trial does, in this order. */
enum info_step {
	INFO_STEP_DRIVER, /* of an interface, before any trial */
	INFO_STEP_OPEN,
	INFO_STEP_ALLOCATE,
	INFO_STEP_IDENTIFY,
	INFO_STEP_EXPORT,
	INFO_STEP_REGISTER,
	INFO_STEP_WRITE,
	INFO_STEP_READ,
	INFO_STEP_COMPARE,
	INFO_STEP_CLOSE,
	INFO_STEPS
};

enum info_outcome {
	INFO_NOT_TRIED, /* the NIC has no way to it */
	INFO_RIGHT,
	INFO_FAILED
};

/* How the trial of a cell went. */
struct info_check {
	enum info_outcome outcome;
	enum info_step step;  /* that failed */
	int error;	      /* negative FI_E code */
	enum hmreg_path path; /* taken; 0: did not get that far */
	uint64_t exports;     /* dma-bufs that the driver made meanwhile */
	char detail[512];     /* what the library said; "" where it went to stderr */
};

struct info_accel {
	struct sample_place place;
	struct hmreg_hmem_device device;
};

/* A device, or the host, and a NIC. */
struct info_cell {
	const struct info_accel *accel; /* NULL: host memory */
	const struct info_port *port;
	struct hmreg_hmem_path path; /* of a device */
	struct info_check check;
};

struct info_driver {
	struct hmreg_hmem_iface iface;
	int error; /* 0: usable */
};

struct info_hmem {
	struct info_driver driver[TOOL_IFACES]; /* [FI_HMEM_SYSTEM]: host memory, always there */
	struct info_accel *accel;		/* owned */
	size_t device_count;
	struct info_cell *cell; /* owned; those of the host first */
	size_t cell_count;
	bool checked;
};

/* Load every driver and ask about each device and port; ports has one or more.  Printed if it fails. */
int info_hmem_find(const struct info_ports *ports, struct info_hmem *hmem);
void info_hmem_free(struct info_hmem *hmem);
/* Try each cell that should work.  True: none failed. */
bool info_hmem_check(struct info_hmem *hmem);

const char *info_step_name(enum info_step step);
/* What usually helps when a step fails with this error for this kind of memory; "": nothing known. */
const char *info_remedy(enum info_step step, int error, enum fi_hmem_iface iface,
			enum hmreg_path path);

void info_hmem_report(FILE *out, const struct info_hmem *hmem);
void info_hmem_report_json(FILE *out, const struct info_hmem *hmem); /* NULL: null */

#endif
