/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that an interface made or registered itself, for drivers that cannot be asked what an address
 * is.  Each interface has one table; any thread may use it at any time.
 */
#ifndef HMEM_KNOWN_H
#define HMEM_KNOWN_H

#include <pthread.h>

#include "core/base/list.h"
#include "hmem/hmem.h"

struct hmem_known {
	pthread_mutex_t lock; /* the list and last_id; nothing else is locked under it */
	struct hm_list list;
	uint64_t last_id;
};

#define HMEM_KNOWN_INIT(table)                                                                     \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .list = { &(table).list, &(table).list }        \
	}

/* Of one piece: its facts, and what the driver calls it. */
struct hmem_known_piece {
	struct hmem_facts facts;
	void *handle;
	int place; /* the interface's own, as a core */
};

/* facts.id is given here.  -FI_ENOMEM. */
int hmem_known_add(struct hmem_known *known, const struct hmem_known_piece *piece);
/* The piece that holds addr, or -FI_ENOENT. */
int hmem_known_find(struct hmem_known *known, const void *addr, struct hmem_known_piece *piece);
/* Takes the piece that begins at base out of the table.  -FI_EINVAL, with one log line: there is none. */
int hmem_known_take(struct hmem_known *known, const void *base, struct hmem_known_piece *piece);

/*
 * What is exported for [addr, addr + len): memory of known extent from its begin, other memory just as it is
 * asked for, up to a multiple of unit.  -FI_EINVAL, with one log line that names the call: its begin is none.
 */
struct hmem_span {
	uint64_t base, len;
};
int hmem_span(const struct hmem_memory *memory, const void *addr, size_t len, uint64_t unit,
	      const char *call, struct hmem_span *span);

/* Can this process read the byte at addr?  Without a fault, whoever handles those. */
bool hmem_host_reads(const void *addr);

/* An error code of a driver: ours for it, its name (NULL: the driver tells it), and what it usually means. */
struct hmem_failure {
	int code, ret;
	const char *name, *text;
};
/* The cause of a driver's failure that is this -FI_E code here. */
enum hmreg_cause hmem_cause_of(int ret);
/* The entry of a code, or NULL. */
const struct hmem_failure *hmem_failure_of(const struct hmem_failure *failures, size_t count,
					   int code);
/* The -FI_E code, with one log line that names the driver's call; unknown is for codes in no table. */
int hmem_failed(const struct hmem_failure *failures, size_t count,
		const struct hmem_failure *unknown, const char *call, int code);

#endif
