/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel tells about memory, limits and dma-bufs: read after a registration has failed, to find
 * its cause.  Nothing here logs or fails: what cannot be read is reported as unknown.
 */
#ifndef VERBS_EVIDENCE_H
#define VERBS_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In front of /proc and /sys: "", or what a test has prepared.  Set before any other call. */
extern const char *verbs_evidence_root;

/* How much memory this process may pin and has pinned, in bytes. */
struct verbs_pin_evidence {
	uint64_t limit;	 /* RLIMIT_MEMLOCK's soft limit; UINT64_MAX: none */
	uint64_t pinned; /* by drivers, which is what the limit is compared with */
	uint64_t locked; /* by mlock(2) */
	bool exempt;	 /* CAP_IPC_LOCK: the limit does not count */
};

void verbs_evidence_pins(struct verbs_pin_evidence *pins);

enum verbs_memory {
	VERBS_MEMORY_FINE,	/* mapped, with the right asked for */
	VERBS_MEMORY_UNMAPPED,	/* at address: no mapping */
	VERBS_MEMORY_READ_ONLY, /* mapped without the right to write */
	VERBS_MEMORY_NO_ACCESS, /* mapped with no right to read */
	VERBS_MEMORY_DEVICE, /* a mapping of a device or of a dma-buf, which has no pages to pin */
	VERBS_MEMORY_UNKNOWN
};

struct verbs_memory_evidence {
	enum verbs_memory kind;
	uint64_t address; /* the first bad byte; FINE: the range's */
	char name[96];	  /* of the mapping there, "" where it has none */
};

/* The first thing wrong with [addr, addr + len), len > 0. */
void verbs_evidence_memory(uint64_t addr, uint64_t len, bool write,
			   struct verbs_memory_evidence *memory);

struct verbs_dmabuf_evidence {
	bool open; /* the descriptor leads to something */
	bool is_dmabuf;
	char exporter[64]; /* of a dma-buf, "" where it does not tell */
	char target[96];   /* what the descriptor leads to */
	uint64_t size;	   /* of a dma-buf; 0: unknown */
};

void verbs_evidence_dmabuf(int fd, struct verbs_dmabuf_evidence *dmabuf);

/* A module that lets ibv_reg_mr take device memory, of those known, that is loaded; or NULL. */
const char *verbs_evidence_peer_module(void);
/* Those it looks for, as text. */
extern const char verbs_peer_modules[];

#endif
