/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An RDMA device without hardware or kernel: libibverbs.so.1 and librdmacm.so.1 with the real interface, of
 * which a program that finds them by LD_LIBRARY_PATH sees devices emu0, emu1, ....  Everything happens
 * between objects of one process: work requests are carried out in the thread that posts them, connections
 * in the thread that asks for them.  Devices of one process reach each other.
 *
 * Addresses: emu0 has 127.0.0.1 and ::1, emuN has 127.0.0.(N+1); each is a RoCE v2 GID of port 1.
 *
 * Settings: environment variable HMREG_EMU_VERBS, a comma-separated list of name=value, read at every
 * ibv_get_device_list; a context keeps those it was opened with.  "emu1.name=value" is for one device.
 * Sizes may end in K, M, G, T; error codes are names as EACCES or numbers.
 *
 *   devices=1             how many devices there are (0 to 8)
 *   list=0                an error code: ibv_get_device_list fails with it
 *   open=0                an error code: ibv_open_device fails with it
 *   port=active           active, init or down
 *   gids=all              all, v4 (no IPv6), v1 (RoCE v1 only), mixed (a v1 and a v2 entry each) or none
 *   bind=1                librdmacm finds the device by its addresses; 0: by none, as on the loopback interface
 *   link=ethernet         ethernet, ib or other
 *   transport=ib          ib, iwarp or other: no reliable connections, and nothing that librdmacm knows
 *   remote=1              regions may be open to peers (0: those rights are unsupported)
 *   atomic=1              8-byte atomics: 0 none, 1 atomic within the device, 2 with the CPU's too
 *   odp=0                 on-demand paging: 0 none, 1 explicit, 2 whole address space as well
 *   rereg=0               ibv_rereg_mr: 0 unsupported, 1 keys stay, 2 a changed translation changes keys
 *   zero_based=1          regions may start at another device address than their own
 *   relaxed=1             relaxed ordering is known (unknown: the flag is dropped, as for all optional ones)
 *   dmabuf=1              ibv_reg_dmabuf_mr takes any descriptor that can be mapped (a memfd); 0 unsupported
 *   mw=1                  memory windows: 0 none, 1 types 1 and 2B, 2 type 2B alone
 *   mw_bounds=1           a window's ends are kept to; 0: only those of the region that it is in, as Linux's rxe
 *   mw_dmabuf=0           windows may be bound to DMA-buf regions (kernels up to now: not)
 *   query_ex=1            context operation query_device_ex is there
 *   advise=1              ibv_advise_mr is there (it needs odp too)
 *   indirect=0            1: keys over several regions, by the interface of mlx5's provider
 *   devx=1                they need a context of mlx5dv_open_device; 0: there are none; 2: any context will do
 *   grh=0                 1: an InfiniBand port that wants a global header on every path
 *   lid=1                 of an InfiniBand port: the number of the device is added; 0: it has none
 *   null=0                1: registration and deregistration only hand out keys, which cannot be used
 *   lose=0                1: writes to peers are said to be done, and change nothing; 2: they land 16 bytes too low;
 *                         3: they are refused, as with a wrong key
 *   fail=CALL:NTH:ERROR   as emu_verbs_fail, once when the settings are read first; may be given several times
 *   memlock=unlimited     bytes that all regions together may pin; "rlimit": RLIMIT_MEMLOCK's soft limit
 *   removed_dereg=EIO     what destroying an object of a removed device returns (0: success)
 *   max_mr_size=1T max_mr=65536 max_mw=65536 max_pd=4096 max_cq=65536 max_cqe=131072 max_qp=65536
 *   max_qp_wr=16384 max_sge=30 max_srq=1024 max_srq_wr=32768 max_srq_sge=30 max_rd_atomic=16 max_inline=256
 *   max_msg=1G mtu=1024   limits, each checked
 *
 * Faithful to hardware: reliable connections deliver in order; keys are checked against protection domain,
 * bounds and rights, windows as regions; errors move both queue pairs to the error state and flush; a receiver without a receive
 * makes the sender wait (rnr_retry 0: fail); slots of a send queue are free when a completion at or after
 * them was polled; a key's number is used again late, and its low byte differs then.  Memory is accessed by
 * the kernel on the device's behalf, so that a page that is not there gives an error completion.
 * Unlike hardware: a peer that is gone is noticed at once instead of after the retry time; a page that is
 * unmapped and mapped again under a region is seen by the device.
 *
 * A test finds the functions below by dlsym in libibverbs.so.1, or links to it.  All may be called at any
 * time from any thread.
 */
#ifndef EMU_VERBS_H
#define EMU_VERBS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/** What exists now.  Objects of the connection manager's own contexts are not counted. */
struct emu_verbs_counts {
	uint64_t contexts;
	uint64_t pds;
	uint64_t mrs;	  /**< regions, of every kind */
	uint64_t dmabufs; /**< regions that are over a DMA-buf */
	uint64_t odp_mrs; /**< regions with on-demand paging */
	uint64_t mws;	  /**< memory windows */
	uint64_t bound;	  /**< of these, bound to a region */
	uint64_t comp_channels;
	uint64_t cqs;
	uint64_t srqs;
	uint64_t qps;
	uint64_t event_channels; /**< of the connection manager */
	uint64_t cm_ids;	 /**< those not yet handed out in an event included */
	uint64_t unacked;	 /**< events of all kinds taken and not acknowledged */
	uint64_t pinned;	 /**< bytes, whole pages */
	uint64_t advised;	 /**< bytes that ibv_advise_mr brought in so far (never falls) */
	uint64_t relaxed_mrs;	 /**< regions registered with relaxed ordering */
};

/** Fill COUNTS. */
void emu_verbs_counts(struct emu_verbs_counts *counts);

/**
 * Let the NTH call from now (1: the next) of function CALL fail with errno ERROR, once.  CALL is the name that
 * a program writes, as "ibv_post_send" or "rdma_connect"; one ending in '*' stands for every name that
 * begins so, each counted on its own.  NTH 0: no failure any more; -1: every call fails until taken back.
 * @return how many functions CALL stands for, so 0 for an unknown name
 */
int emu_verbs_fail(const char *call, int nth, int error);

/** How often function CALL (exact name) was called so far, failed calls included; -1: unknown name. */
long emu_verbs_calls(const char *call);

/** Every failure asked for is taken back and every removed device is there again at the next list. */
void emu_verbs_reset(void);

/**
 * The device is gone, as unplugged: IBV_EVENT_DEVICE_FATAL on its contexts, RDMA_CM_EVENT_DEVICE_REMOVAL on
 * identifiers, every call fails with EIO, nothing completes any more, the peers' requests fail.
 * @return 0, or -1: no such device
 */
int emu_verbs_remove_device(const char *name);

/** Port 1 of a device goes up or down, with the asynchronous event.  @return 0, or -1: no such device */
int emu_verbs_port(const char *name, int up);

/**
 * Every connection that was accepted at a listener on PORT (host order) dies without a word, as when its
 * machine loses power: neither end is told, requests of both fail when they next are carried out.  The
 * listener stays, so that one may connect again.
 * @return how many connections died
 */
int emu_verbs_kill_peer(uint16_t port);

/**
 * Connection requests to PORT (host order) are lost (SILENT 1: RDMA_CM_EVENT_UNREACHABLE with -ETIMEDOUT) or
 * delivered again (0).
 */
void emu_verbs_silence(uint16_t port, int silent);

/**
 * The next REQUESTS connection requests to PORT (host order) do not arrive, and nobody is told (REASON 0), or are
 * refused for this reason, as the connection manager of InfiniBand numbers them.  One port at a time.
 */
void emu_verbs_lose(uint16_t port, unsigned requests, int reason);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
