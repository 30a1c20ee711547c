/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg-info: what its source files share.  Flow: options -> ports (asked of the library) -> report. */
#ifndef HMREG_INFO_H
#define HMREG_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext_hmreg.h>

/* Exit status, for scripts. */
enum info_exit {
	INFO_EXIT_OK = 0,
	INFO_EXIT_NO_NIC =
		1, /* nothing to show, or not what was asked for; the reason is on stderr */
	INFO_EXIT_USAGE = 2,
	INFO_EXIT_CHECK = 3,  /* a transfer that should work failed */
	INFO_EXIT_LIBRARY = 4 /* a call failed; it was named on stderr */
};

struct info_hmem; /* info_hmem.h */

/* A port as fi_getinfo and hmreg_fabric_ops tell of it. */
struct info_port {
	const struct fi_info *info;  /* in a list */
	const struct fi_info *other; /* the same with addresses of another format, or NULL */
	uint64_t on_request;	     /* capabilities that hints have to ask for */
	bool described;		     /* device is valid: the library has this extension */
	struct hmreg_device device;
};

/* A device of the system that no port stands for, and why. */
struct info_unusable {
	char name[64];
	char reason[512];
};

struct info_ports {
	struct fi_info *list[2]; /* owned: by IPv4 and by IPv6 addresses; either may be NULL */
	struct info_port *port;	 /* owned */
	size_t count;
	struct info_unusable *unusable; /* owned */
	size_t unusable_count;
	bool all;     /* not one that was asked for by name */
	bool watched; /* monitor is valid: the library has this extension */
	struct hmreg_cache_monitor monitor;
};

/*
 * Ask the library for its ports; name NULL: all.  What was asked for and is not usable is an entry of
 * unusable.  0 or a negative FI_E code; a failed call has been named on stderr.
 */
int info_ports_find(const char *name, struct info_ports *ports);
void info_ports_free(struct info_ports *ports);

/* What a capability is called and what it decides. */
struct info_capability {
	uint64_t bit;
	const char *key;  /* in JSON */
	const char *name; /* in text */
	const char *decides;
};
extern const struct info_capability info_capabilities[];
extern const size_t info_capability_count;

/* Why the device lacks it; "" where that is not told. */
const char *info_why_not(const struct info_capability *c, const struct hmreg_device *device);
/* Has the port no endpoints? */
bool info_registers_only(const struct info_port *port);

/* A figure of struct hmreg_device. */
struct info_limit {
	const char *key, *name;
	size_t offset; /* of a uint64_t */
	bool bytes;
};
extern const struct info_limit info_limits[];
extern const size_t info_limit_count;

uint64_t info_limit_value(const struct info_limit *limit, const struct hmreg_device *device);

/* The source address of info as "127.0.0.1:0" or "[::1]:0"; "-": none. */
const char *info_address_text(const struct fi_info *info, char *text, size_t room);
const char *info_link_state(const struct fi_info *info);

/* verbose: every attribute, too. */
void info_report(FILE *out, const struct info_ports *ports, bool verbose);
/* hmem NULL: accelerators were not asked about. */
void info_report_json(FILE *out, const struct info_ports *ports, bool verbose,
		      const struct info_hmem *hmem);
/* The variables that the library reads, with their present values.  0, or a code after a message. */
int info_report_params(FILE *out, bool json);

#endif
