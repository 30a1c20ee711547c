/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One large registration, and windows into it that come and go: sub-regions (fi_mr_attr.base_mr).
 *
 *   sub_regions [DOMAIN]
 *
 * The owner registers its pool once, which pins and translates it.  Each peer is given a window of its own,
 * with the rights that it is to have; a window costs little, whatever the size of the pool.  Closing a
 * window takes the rights back from that peer at once, and from nobody else.  The pool cannot be closed
 * while there are windows.  Exit status 0: every attempt ended as it should.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>

#include "common.h"

#define PEERS  3
#define ROUNDS 4
#define POOL   (1 << 20)
#define WINDOW 4096
#define BLOCK  64

/* Windows alternate between these. */
static const struct {
	const char *text;
	uint64_t rights;
} kinds[PEERS] = {
	{ "write", FI_REMOTE_WRITE },
	{ "read", FI_REMOTE_READ },
	{ "read and write", FI_REMOTE_READ | FI_REMOTE_WRITE },
};

struct peer {
	struct sample_end end;
	char block[BLOCK];
	struct fid_mr *block_mr;
	/* its window, as the owner has it, and what the peer was told */
	struct fid_mr *window;
	struct sample_key shared;
	uint64_t key, rights;
	size_t offset;
};

static struct sample_end owner;
static char *pool;
static struct fid_mr *pool_mr;
static struct peer peers[PEERS];

/* What a peer tries; 0: it succeeded, 1: it was refused, which the window's rights decide. */
static int attempt(struct peer *p, int write, int *refused)
{
	void *desc = fi_mr_desc(p->block_mr);
	struct fi_cq_err_entry error;
	ssize_t ret;

	memset(p->block, write ? 'w' : 0, BLOCK);
	if (write)
		ret = fi_write(p->end.ep, p->block, BLOCK, desc, p->end.peer, p->shared.address,
			       p->key, NULL);
	else
		ret = fi_read(p->end.ep, p->block, BLOCK, desc, p->end.peer, p->shared.address,
			      p->key, NULL);
	if (!ret)
		ret = sample_wait(&p->end, &error);
	if (ret && ret != -FI_EAVAIL)
		return sample_fail(write ? "fi_write" : "fi_read", ret);
	*refused = ret != 0;
	return 0;
}

/* Both ways, with these rights: each must end as they say. */
static int expect(struct peer *p, uint64_t rights, const char *when)
{
	for (int write = 0; write < 2; write++) {
		uint64_t needed = write ? FI_REMOTE_WRITE : FI_REMOTE_READ;
		int refused = 0, ret = attempt(p, write, &refused);

		if (ret)
			return ret;
		if (refused != !(rights & needed)) {
			fprintf(stderr, "%s: the %s of peer %td was %s\n", when,
				write ? "write" : "read", p - peers,
				refused ? "refused" : "not refused");
			return -FI_EOTHER;
		}
		if (!refused && memcmp(pool + p->offset, p->block, BLOCK) != 0) {
			fprintf(stderr, "%s: other bytes than peer %td's\n", when, p - peers);
			return -FI_EIO;
		}
	}
	return 0;
}

/* A window into the pool: registered as any region, with the pool's as its base. */
static int open_window(struct peer *p, int round)
{
	size_t kind = (size_t)((p - peers) + round) % PEERS;
	int ret;

	p->rights = kinds[kind].rights;
	p->offset = (size_t)(round * PEERS + (p - peers)) * 2 * WINDOW;
	ret = sample_register_part(&owner, pool_mr, pool + p->offset, WINDOW, p->rights,
				   &p->window);
	if (!ret)
		ret = sample_share(&owner, p->window, pool + p->offset, &p->shared);
	if (!ret)
		ret = sample_use(&p->end, &p->shared, &p->key);
	if (!ret)
		printf("  peer %td may %s at %zu of the pool\n", p - peers, kinds[kind].text,
		       p->offset);
	return ret;
}

/* One window after the other is closed: its peer is out, the others are not. */
static int revoke(void)
{
	for (int i = 0; i < PEERS; i++) {
		int ret = fi_close(&peers[i].window->fid);

		if (ret)
			return sample_fail("fi_close of a window", ret);
		peers[i].window = NULL;
		for (int k = 0; k < PEERS; k++) {
			ret = expect(&peers[k], k > i ? peers[k].rights : 0, "revoked");
			if (ret)
				return ret;
		}
	}
	return 0;
}

/* Peers give back keys; what is open is closed. */
static int end_round(int ret)
{
	for (int i = 0; i < PEERS; i++) {
		struct peer *p = &peers[i];
		int failed = p->key ? sample_unuse(&p->end, &p->shared, p->key) : 0;

		p->key = 0;
		ret = ret ? ret : failed;
		failed = p->window ? fi_close(&p->window->fid) : 0;
		p->window = NULL;
		ret = ret ? ret : failed;
	}
	return ret;
}

static int run_round(int round)
{
	int ret = 0, busy;

	printf("round %d\n", round);
	for (int i = 0; i < PEERS && !ret; i++)
		ret = open_window(&peers[i], round);
	for (int i = 0; i < PEERS && !ret; i++)
		ret = expect(&peers[i], peers[i].rights, "opened");
	if (ret)
		return end_round(ret);
	busy = fi_close(&pool_mr->fid); /* refused, and nothing is changed */
	if (busy != -FI_EBUSY)
		return end_round(sample_fail("fi_close of a pool with windows", busy));
	return end_round(revoke());
}

/* Beyond the windows' first blocks nobody has written. */
static int check_pool(void)
{
	size_t touched = 0;

	for (size_t i = 0; i < POOL; i++) {
		int inside = i % (2 * WINDOW) < BLOCK && i / (2 * WINDOW) < PEERS * ROUNDS;

		if (pool[i] == 'w')
			touched++;
		if (pool[i] != 'p' && !(inside && pool[i] == 'w')) {
			fprintf(stderr, "byte %zu of the pool is wrong\n", i);
			return -FI_EIO;
		}
	}
	printf("%d windows of one registration; %zu bytes of the pool were written, all inside\n",
	       PEERS * ROUNDS, touched);
	return touched > 0 ? 0 : -FI_EIO;
}

static int open_peer(struct peer *p, const char *domain)
{
	char name[128];
	size_t len = sizeof(name);
	int ret = sample_open_named(&p->end, domain, FI_RMA, 0);

	if (!ret)
		ret = fi_enable(p->end.ep);
	if (!ret)
		ret = fi_getname(&owner.ep->fid, name, &len);
	if (!ret)
		ret = sample_enter(&p->end, name, &p->end.peer);
	if (!ret)
		ret = sample_register_buffer(&p->end, p->block, BLOCK, FI_READ | FI_WRITE,
					     &p->block_mr);
	return ret;
}

static int open_all(const char *domain)
{
	int ret = sample_open_named(&owner, domain, FI_RMA, 0);

	if (!ret)
		ret = fi_enable(owner.ep);
	if (!ret)
		ret = sample_register_buffer(&owner, pool, POOL, FI_REMOTE_READ | FI_REMOTE_WRITE,
					     &pool_mr);
	for (int i = 0; i < PEERS && !ret; i++)
		ret = open_peer(&peers[i], domain);
	return ret;
}

static int close_all(void)
{
	int ret = 0, failed;

	for (int i = 0; i < PEERS; i++) {
		failed = peers[i].block_mr ? fi_close(&peers[i].block_mr->fid) : 0;
		ret = ret ? ret : failed;
		failed = sample_close(&peers[i].end);
		ret = ret ? ret : failed;
	}
	failed = pool_mr ? fi_close(&pool_mr->fid) : 0;
	ret = ret ? ret : failed;
	failed = sample_close(&owner);
	return ret ? ret : failed;
}

int main(int argc, char **argv)
{
	int ret, failed;

	pool = malloc(POOL);
	if (!pool)
		return EXIT_FAILURE;
	memset(pool, 'p', POOL);
	ret = open_all(argc > 1 ? argv[1] : NULL);
	if (!ret)
		printf("NIC domain %s\n", owner.info->domain_attr->name);
	for (int round = 0; round < ROUNDS && !ret; round++)
		ret = run_round(round);
	if (!ret)
		ret = check_pool();
	failed = close_all();
	free(pool);
	return ret || failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
