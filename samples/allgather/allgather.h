/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of ring_allgather.  Functions that return int give 0 or a negative FI_E code, and have then said on
 * stderr what failed.  One thread does everything.
 */
#ifndef SAMPLES_ALLGATHER_H
#define SAMPLES_ALLGATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_ext_hmreg_topology.h>

#include "../common.h"

#define AG_RANKS   16 /* of a node, at most */
#define AG_NODES   8
#define AG_ALL	   (AG_RANKS * AG_NODES)
#define AG_RAILS   4
#define AG_ADDRESS 64
#define AG_SKIPPED 77

struct ag_options {
	const char *domain; /* NULL: every NIC may be taken */
	const char *iface;  /* NULL: of any interface */
	const char *at;	    /* HOST:PORT, where node 0 listens */
	uint64_t size, chunk;
	unsigned int ranks; /* of host memory; 0: one for each accelerator */
	unsigned int rails, iters, nodes, node, timeout_s;
	int spoil; /* rank whose memory is changed before it is checked; -1: none */
	bool json;
};

/* What every node knows of every rank: plain bytes, sent as they are between machines of one byte order. */
struct ag_card {
	char memory[32];
	char nic[AG_RAILS][32];
	char why[256];	/* this NIC */
	char next[32];	/* what lies between this rank and the next of its node */
	uint32_t rails; /* that it could take */
	uint32_t place; /* in the ring of its node */
	uint8_t address[AG_RAILS][AG_ADDRESS];
	struct sample_key key[AG_RAILS];
};

/* A NIC that a rank uses. */
struct ag_rail {
	struct sample_end end;
	fi_addr_t peer[AG_ALL]; /* the same rail of each rank */
	uint64_t key[AG_ALL];
	size_t mapped;	       /* so many keys have been taken into use */
	unsigned int in_fly;   /* writes without a completion */
	unsigned int receiver; /* rank that they go to */
};

/* A rank of this node. */
struct ag_rank {
	struct sample_place place;
	struct ag_card card;
	const struct fi_info *nic[AG_RAILS];
	uint8_t *buffer; /* all blocks, one behind the other; the rank's own is already where it belongs */
	struct ag_rail *rail;
	struct hmreg_multi *region; /* of the buffer, with every rail's domain */
	unsigned int number, next;  /* among all ranks; who follows in the ring */
	/* of the transfer that goes on: chunks to be written, in the order in which they came */
	uint32_t *queue;
	uint8_t *have; /* which chunks are here */
	size_t head, tail, arrived, written;
};

/* The TCP connections by which nodes find each other: node 0 has one to each, the others one to node 0. */
struct ag_boot {
	int fd[AG_NODES]; /* -1: none */
};

struct ag_world {
	struct ag_options options;
	struct fi_info *list; /* NICs to choose from */
	struct fid_fabric *fabric;
	struct hmreg_fabric_ops *ops;
	struct hmreg_hmem_ops *hmem;
	struct hmreg_topology_ops *topology;
	struct ag_boot boot;
	struct ag_rank rank[AG_RANKS];
	unsigned int count; /* ranks of this node */
	bool software;	    /* they have the software NIC */

	/* of all nodes */
	struct ag_card card[AG_ALL];
	unsigned int ranks_of[AG_NODES], total, rails, first; /* first: number of rank[0] */
	unsigned int ring[AG_ALL];			      /* ranks in their order */

	uint32_t chunks; /* of a block */
	uint64_t round;	 /* makes the patterns of each all-gather differ */
	double best_s, mean_s;
	double pair[AG_ALL][AG_ALL]; /* MB/s, from row to column; 0: not measured */
};

/* ---- ranks.c: who takes part, and with which NIC ---- */

int ag_find_ranks(struct ag_world *w);
/* Places of the ranks of this node in its ring. */
int ag_order_ranks(struct ag_world *w);

/* ---- memory.c: buffers, regions, patterns ---- */

/* Buffers, endpoints and regions of all ranks of this node, and their cards. */
int ag_open_ranks(struct ag_world *w);
/* Addresses and keys of everyone, for every rail. */
int ag_meet(struct ag_world *w);
int ag_close_ranks(struct ag_world *w);
/* Nothing but the rank's own block, and that for this round. */
int ag_prepare(struct ag_world *w, struct ag_rank *rank);
/* Every byte of every block. */
int ag_verify(struct ag_world *w, struct ag_rank *rank);

/* ---- move.c: the all-gather, and writes from one rank to another ---- */

/* One all-gather; *seconds until the last rank of this node has everything. */
int ag_gather(struct ag_world *w, double *seconds);
/* A block from a rank of this node to any other, again and again: *rate in MB/s. */
int ag_measure(struct ag_world *w, struct ag_rank *rank, unsigned int to, double *rate);
/* Looks at every completion queue of this node once: how many entries there were, or an error. */
int ag_poll(struct ag_world *w);
double ag_now(void);

/* ---- boot.c: the nodes ---- */

int ag_boot_open(struct ag_world *w);
void ag_boot_close(struct ag_world *w);
/* Each node gives len bytes and gets those of all, by node; returns when all have come. */
int ag_exchange(struct ag_world *w, const void *mine, size_t len, void *all);
/* Nothing has been heard of the end of a node. */
int ag_boot_alive(struct ag_world *w);

/* ---- report.c ---- */

void ag_report(const struct ag_world *w);

#endif
