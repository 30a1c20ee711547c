/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several buffers, one region: fi_mr_regv.  A peer sees them as one stretch of memory.
 *
 *   regv [DOMAIN]
 *
 * Three buffers with gaps between them are registered together.  One write fills them all and must
 * leave the gaps alone; one read takes bytes from across a seam.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_rma.h>

#include "common.h"

#define BUFFERS 3
#define GAP	'-'
#define BLOCK	256

static const struct {
	size_t start, len; /* in the target's block */
} pieces[BUFFERS] = { { 16, 20 }, { 80, 7 }, { 150, 53 } };

#define TOTAL	  (20 + 7 + 53)
#define SEAM_FROM 15 /* of the region: the last 5 bytes of the first piece, then the second */
#define SEAM_LEN  12

/* Byte k of what is written. */
static char letter(size_t k)
{
	return (char)('a' + k % 26);
}

/* Did the write reach every byte of the pieces, in order, and none besides? */
static int check_block(const char *block)
{
	char expected[BLOCK];
	size_t piece, i, k = 0;

	memset(expected, GAP, BLOCK);
	for (piece = 0; piece < BUFFERS; piece++) {
		for (i = 0; i < pieces[piece].len; i++)
			expected[pieces[piece].start + i] = letter(k++);
	}
	for (piece = 0; piece < BUFFERS; piece++)
		printf("  buffer %zu: %.*s\n", piece, (int)pieces[piece].len,
		       block + pieces[piece].start);
	if (!memcmp(block, expected, BLOCK)) {
		printf("  every byte is in its place, and the gaps are untouched\n");
		return 0;
	}
	fprintf(stderr, "the buffers or the gaps are not as they should be\n");
	return -FI_EIO;
}

static int transfer(struct sample_end *initiator, char *local, void *desc, uint64_t address,
		    uint64_t key, const char *block)
{
	size_t k;
	int ret;

	for (k = 0; k < TOTAL; k++)
		local[k] = letter(k);
	printf("one write of %d bytes to the start of the region:\n", TOTAL);
	ret = sample_finish(initiator, "fi_write",
			    fi_write(initiator->ep, local, TOTAL, desc, initiator->peer, address,
				     key, NULL));
	if (!ret)
		ret = check_block(block);
	if (ret)
		return ret;
	memset(local, 0, TOTAL);
	ret = sample_finish(initiator, "fi_read",
			    fi_read(initiator->ep, local, SEAM_LEN, desc, initiator->peer,
				    address + SEAM_FROM, key, NULL));
	if (ret)
		return ret;
	printf("one read of %d bytes from offset %d, across the first seam:\n  %.*s\n", SEAM_LEN,
	       SEAM_FROM, SEAM_LEN, local);
	for (k = 0; k < TOTAL; k++) {
		if (local[k] != (k < SEAM_LEN ? letter(SEAM_FROM + k) : 0)) {
			fprintf(stderr, "byte %zu of what was read is wrong\n", k);
			return -FI_EIO;
		}
	}
	return 0;
}

static int demonstrate(struct sample_end *initiator, struct sample_end *target)
{
	static char block[BLOCK], local[TOTAL];
	struct iovec iov[BUFFERS];
	struct fid_mr *local_mr = NULL, *mr = NULL;
	struct sample_key shared;
	uint64_t key;
	int ret, failed;
	size_t i;

	if (target->info->domain_attr->mr_iov_limit < BUFFERS) {
		printf("this NIC takes %zu buffers in a region: nothing to show\n",
		       target->info->domain_attr->mr_iov_limit);
		return 0;
	}
	memset(block, GAP, BLOCK);
	for (i = 0; i < BUFFERS; i++)
		iov[i] = (struct iovec){ block + pieces[i].start, pieces[i].len };
	ret = sample_register(target, iov, BUFFERS, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, NULL, &mr);
	if (ret)
		return ret;
	printf("registered %d buffers of 20, 7 and 53 bytes as one region\n", BUFFERS);
	ret = sample_register_buffer(initiator, local, TOTAL, FI_READ | FI_WRITE, &local_mr);
	if (ret)
		goto close;
	/* The region's addresses run on from its first buffer's. */
	ret = sample_share(target, mr, iov[0].iov_base, &shared);
	if (!ret)
		ret = sample_use(initiator, &shared, &key);
	if (ret)
		goto close;
	ret = transfer(initiator, local, fi_mr_desc(local_mr), shared.address, key, block);
	failed = sample_unuse(initiator, &shared, key);
	ret = ret ? ret : failed;
close:
	failed = local_mr ? fi_close(&local_mr->fid) : 0;
	ret = ret ? ret : failed;
	failed = fi_close(&mr->fid);
	return ret ? ret : failed;
}

int main(int argc, char **argv)
{
	const char *domain = argc > 1 ? argv[1] : NULL;
	struct sample_end initiator, target = { 0 };
	int ret, failed;

	ret = sample_open_named(&initiator, domain, FI_RMA, 0);
	if (!ret)
		ret = sample_open_named(&target, domain, FI_RMA, 0);
	if (!ret)
		ret = sample_connect(&initiator, &target);
	if (!ret) {
		printf("NIC domain %s\n", initiator.info->domain_attr->name);
		ret = demonstrate(&initiator, &target);
	}
	failed = sample_close(&initiator);
	ret = ret ? ret : failed;
	failed = sample_close(&target);
	ret = ret ? ret : failed;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
