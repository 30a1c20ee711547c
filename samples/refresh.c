/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Other pages under a region: fi_mr_refresh.
 *
 *   refresh [DOMAIN]
 *
 * A peer writes into a buffer whose pages the owner then exchanges: the same addresses, other memory.
 * The owner tells the NIC, and the peer's key leads to the new pages.  A NIC that cannot follow says so
 * (-FI_ENOSYS), and the owner registers the buffer anew, under another key.
 */
#define _DEFAULT_SOURCE

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_rma.h>

#include "common.h"

#define PAGES 4
#define TEXT  64

/* The owner's buffer, and how the peer reaches it. */
struct target {
	struct sample_end end;
	char *buffer;
	size_t page, len;
	struct fid_mr *mr;
	struct sample_key shared;
	uint64_t key;
};

struct peer {
	struct sample_end end;
	char text[TEXT];
	struct fid_mr *mr;
};

static struct target target;
static struct peer peer;

/* Make the buffer's key known to the peer. */
static int offer(void)
{
	int ret = sample_register_buffer(&target.end, target.buffer, target.len,
					 FI_REMOTE_READ | FI_REMOTE_WRITE, &target.mr);

	if (!ret)
		ret = sample_share(&target.end, target.mr, target.buffer, &target.shared);
	return ret ? ret : sample_use(&peer.end, &target.shared, &target.key);
}

static int withdraw(void)
{
	int ret = sample_unuse(&peer.end, &target.shared, target.key);

	if (!ret)
		ret = fi_close(&target.mr->fid);
	target.mr = NULL;
	return ret ? sample_fail("fi_close", ret) : 0;
}

/* The peer writes a line at the start of a page; the owner must see it there. */
static int write_line(size_t page, const char *line)
{
	char *at = target.buffer + page * target.page;
	int ret;

	memset(peer.text, 0, TEXT);
	strncpy(peer.text, line, TEXT - 1);
	ret = sample_finish(&peer.end, "fi_write",
			    fi_write(peer.end.ep, peer.text, TEXT, fi_mr_desc(peer.mr),
				     peer.end.peer, target.shared.address + page * target.page,
				     target.key, NULL));
	if (ret)
		return ret;
	printf("  page %zu: \"%s\"\n", page, at);
	if (!strcmp(at, line))
		return 0;
	fprintf(stderr, "the peer wrote \"%s\", but not into this memory\n", line);
	return -FI_EIO;
}

/* Other memory at the addresses of some pages. */
static int exchange(size_t page, size_t count)
{
	void *at = target.buffer + page * target.page;

	if (mmap(at, count * target.page, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at)
		return 0;
	perror("mmap");
	return -FI_ENOMEM;
}

/* What follows an exchange: tell the NIC, or begin anew. */
static int follow(const struct iovec *parts, size_t count)
{
	int ret = fi_mr_refresh(target.mr, parts, count, 0);

	if (ret != -FI_ENOSYS)
		return ret ? sample_fail("fi_mr_refresh", ret) : 0;
	printf("this NIC cannot give the region other pages: it is registered anew\n");
	ret = withdraw();
	return ret ? ret : offer();
}

static int demonstrate(void)
{
	struct iovec part;
	int ret = write_line(0, "written to the first pages");

	if (!ret)
		ret = write_line(3, "and to the last of them");
	if (!ret)
		ret = exchange(0, PAGES);
	if (ret)
		return ret;
	printf("all pages are exchanged: the buffer reads \"%s\" now\n", target.buffer);
	ret = follow(NULL, 0);
	if (!ret)
		ret = write_line(0, "written to the pages that came after them");
	if (!ret)
		ret = exchange(3, 1);
	if (ret)
		return ret;
	printf("the last page alone is exchanged\n");
	part = (struct iovec){ target.buffer + 3 * target.page, target.page };
	ret = follow(&part, 1);
	if (!ret)
		ret = write_line(3, "written to the last page of all");
	return ret;
}

static int open_both(const char *domain)
{
	int ret = sample_open_named(&peer.end, domain, FI_RMA, 0);

	if (!ret)
		ret = sample_open_named(&target.end, domain, FI_RMA, 0);
	if (!ret)
		ret = sample_connect(&peer.end, &target.end);
	if (!ret)
		ret = sample_register_buffer(&peer.end, peer.text, TEXT, FI_WRITE, &peer.mr);
	if (ret)
		return ret;
	target.page = (size_t)sysconf(_SC_PAGESIZE);
	target.len = PAGES * target.page;
	target.buffer =
		mmap(NULL, target.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (target.buffer == MAP_FAILED) {
		perror("mmap");
		return -FI_ENOMEM;
	}
	return offer();
}

static int close_both(void)
{
	int ret = target.mr ? withdraw() : 0, failed;

	failed = peer.mr ? fi_close(&peer.mr->fid) : 0;
	ret = ret ? ret : failed;
	failed = sample_close(&peer.end);
	ret = ret ? ret : failed;
	failed = sample_close(&target.end);
	return ret ? ret : failed;
}

int main(int argc, char **argv)
{
	int ret = open_both(argc > 1 ? argv[1] : NULL), failed;

	if (!ret) {
		printf("NIC domain %s\n", target.end.info->domain_attr->name);
		ret = demonstrate();
	}
	failed = close_both();
	ret = ret ? ret : failed;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
