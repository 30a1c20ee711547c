/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending from memory that the program never registers.
 *
 *   no_descriptors [DOMAIN]
 *
 * Without FI_MR_LOCAL a local buffer needs no descriptor: the library registers it and keeps that for the next
 * time.  Here one buffer is written to a peer again and again; then the program gives its pages back
 * and takes new ones at the same address, which the library has to notice.  After each step it prints
 * what the library's registration cache has done.
 */
#define _DEFAULT_SOURCE

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "common.h"

#define BYTES  65536
#define WRITES 100

static struct sample_end initiator, target;
static struct hmreg_domain_ops *ops; /* NULL: another library, which has no figures */
static uint8_t *inbox;		     /* the peer's */
static struct fid_mr *inbox_mr;
static struct sample_key shared;
static uint64_t key;

static void print_figures(const char *step)
{
	struct hmreg_cache_stats stats = { .size = sizeof(stats) };

	if (!ops || ops->cache(&initiator.domain->fid, &stats))
		return;
	printf("%-32s %5llu hits, %2llu misses, %llu invalidations, %llu bytes kept registered\n",
	       step, (unsigned long long)stats.all.hits, (unsigned long long)stats.all.misses,
	       (unsigned long long)stats.all.invalidations, (unsigned long long)stats.all.bytes);
}

/* Write the buffer to the peer, without a descriptor, and look at what arrived. */
static int write_it(const uint8_t *buffer, uint8_t content)
{
	int ret = sample_finish(&initiator, "fi_write",
				fi_write(initiator.ep, buffer, BYTES, NULL, initiator.peer,
					 shared.address, key, NULL));

	if (ret)
		return ret;
	if (inbox[0] == content && inbox[BYTES - 1] == content)
		return 0;
	fprintf(stderr, "the peer got 0x%02x and 0x%02x in place of 0x%02x\n", inbox[0],
		inbox[BYTES - 1], content);
	return -FI_EIO;
}

static uint8_t *take_pages(void *at)
{
	int fixed = at ? MAP_FIXED : 0;
	void *pages =
		mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);

	if (pages != MAP_FAILED)
		return pages;
	perror("mmap");
	return NULL;
}

static int run(void)
{
	uint8_t *buffer = take_pages(NULL);
	int ret = buffer ? 0 : -FI_ENOMEM, i;

	for (i = 0; !ret && i < WRITES; i++) {
		memset(buffer, i + 1, BYTES);
		ret = write_it(buffer, (uint8_t)(i + 1));
		if (!ret && !i)
			print_figures("after the first write");
	}
	if (!ret)
		print_figures("after a hundred");
	if (!ret && munmap(buffer, BYTES)) {
		perror("munmap");
		ret = -FI_EOTHER;
	}
	if (!ret)
		print_figures("after the pages were given back");
	if (!ret) {
		buffer = take_pages(buffer); /* the same address, other pages */
		ret = buffer ? 0 : -FI_ENOMEM;
	}
	if (!ret) {
		memset(buffer, 0xee, BYTES);
		ret = write_it(buffer, 0xee);
	}
	if (!ret)
		print_figures("after a write from new ones");
	if (buffer)
		munmap(buffer, BYTES);
	return ret;
}

static int open_ends(const char *domain)
{
	struct fi_info *info;
	int ret;

	/* offered, these would be agreed on, and descriptors be needed */
	sample_mr_modes &= ~(FI_MR_LOCAL | FI_MR_HMEM);
	ret = sample_find(domain, FI_RMA, &info);
	if (ret == -FI_ENODATA) {
		fprintf(stderr,
			"no NIC domain%s%s that works without descriptors: sw-verbs and "
			"sw-strict demand FI_MR_LOCAL\n",
			domain ? " " : "", domain ? domain : "");
		exit(77);
	}
	if (ret)
		return sample_fail("fi_getinfo", ret);
	ret = sample_open(&initiator, info, 0);
	if (!ret)
		ret = sample_open(&target, info, 0);
	fi_freeinfo(info);
	return ret ? ret : sample_connect(&initiator, &target);
}

static int open_inbox(void)
{
	int ret;

	inbox = calloc(1, BYTES);
	if (!inbox)
		return sample_fail("calloc", -FI_ENOMEM);
	ret = sample_register_buffer(&target, inbox, BYTES, FI_REMOTE_WRITE, &inbox_mr);
	if (!ret)
		ret = sample_share(&target, inbox_mr, inbox, &shared);
	return ret ? ret : sample_use(&initiator, &shared, &key);
}

static int close_all(int ret)
{
	int failed = inbox_mr ? fi_close(&inbox_mr->fid) : 0;

	ret = ret ? ret : failed;
	failed = sample_close(&initiator);
	ret = ret ? ret : failed;
	failed = sample_close(&target);
	free(inbox);
	return ret ? ret : failed;
}

int main(int argc, char **argv)
{
	int ret = open_ends(argc > 1 ? argv[1] : NULL), failed;

	if (!ret)
		ret = open_inbox();
	if (!ret) {
		printf("NIC domain %s\n", initiator.info->domain_attr->name);
		if (fi_open_ops(&initiator.domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&ops, NULL))
			ops = NULL;
		ret = run();
		failed = sample_unuse(&initiator, &shared, key);
		ret = ret ? ret : failed;
	}
	return close_all(ret) ? EXIT_FAILURE : EXIT_SUCCESS;
}
