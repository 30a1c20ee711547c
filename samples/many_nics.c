/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One buffer and every NIC: a single call registers it with all of them, or with none.
 *
 *   many_nics [DOMAIN]...
 *
 * Domains are those that are named, as often as they are, else each NIC that is there.  What the program prints of
 * each is what a peer needs to reach the buffer through it: the key, of the buffer and of a page of it.  Exit status
 * 0: registered, a part made, all closed.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_ext_hmreg.h>

#include "common.h"

#define MOST 16
#define LEN  (1 << 20)
#define PART 4096

static struct fid_fabric *fabric[MOST];
static struct fid_domain *domain[MOST];
static const char *name[MOST];
static size_t count;

/* What this sample is about. */
static int register_with_all(char *buf)
{
	struct iovec iov = { buf, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov,
				   .iov_count = 1,
				   .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
				   .requested_key = 1 };
	struct hmreg_multi_call call = { .size = sizeof(call) };
	struct hmreg_multi *all, *page;
	struct hmreg_multi_ops *ops;
	uint64_t key[MOST], page_key[MOST];
	int ret = fi_open_ops(&domain[0]->fid, HMREG_MULTI_OPS, 0, (void **)&ops, NULL);

	if (ret) /* another provider's: fi_mr_regattr with one after the other */
		return sample_fail("fi_open_ops", ret);
	ret = ops->reg(domain, count, &attr, 0, &call, &all);
	if (ret) {
		fprintf(stderr, "%s: %s\n", call.refused < count ? name[call.refused] : "reg",
			call.reason);
		return ret;
	}
	/* one page for one peer: nothing is pinned again where NICs have windows */
	ret = ops->sub(all, buf + PART, PART, FI_REMOTE_READ, 2, 0, NULL, &page);
	if (ret)
		goto close_all;
	ops->keys(all, key, NULL);
	ops->keys(page, page_key, NULL);
	for (size_t i = 0; i < count; i++)
		printf("%-16s key 0x%llx, of a page 0x%llx\n", name[i], (unsigned long long)key[i],
		       (unsigned long long)page_key[i]);
	ret = fi_close(&page->fid);
close_all:
	return ret ? ret : fi_close(&all->fid);
}

static int open_one(struct fi_info *info)
{
	int ret = fi_fabric(info->fabric_attr, &fabric[count], NULL);

	if (ret)
		return sample_fail("fi_fabric", ret);
	ret = fi_domain(fabric[count], info, &domain[count], NULL);
	if (ret) {
		fi_close(&fabric[count]->fid);
		return sample_fail("fi_domain", ret);
	}
	name[count++] = info->domain_attr->name;
	return 0;
}

/* The NIC of this name, or with NULL each, once. */
static int open_nics(const char *wanted, struct fi_info **list)
{
	struct fi_info *hints = fi_allocinfo();
	int ret = hints ? 0 : -FI_ENOMEM;

	if (hints) {
		hints->domain_attr->mr_mode = SAMPLE_MR_MODES;
		hints->domain_attr->name = wanted ? strdup(wanted) : NULL;
		ret = fi_getinfo(SAMPLE_API_VERSION, NULL, NULL, 0, hints, list);
		fi_freeinfo(hints);
	}
	if (ret)
		return sample_fail("fi_getinfo", ret);
	for (struct fi_info *info = *list; info && !ret && count < MOST; info = info->next) {
		size_t known = 0;

		while (!wanted && known < count &&
		       strcmp(name[known], info->domain_attr->name) != 0)
			known++;
		if (wanted || known == count)
			ret = open_one(info);
		if (wanted)
			break;
	}
	return ret;
}

int main(int argc, char **argv)
{
	struct fi_info *list[MOST] = { NULL };
	char *buf = aligned_alloc(PART, LEN);
	int ret = buf ? 0 : -FI_ENOMEM;

	if (argc < 2 && !ret)
		ret = open_nics(NULL, &list[0]);
	for (int i = 1; i < argc && i <= MOST && !ret; i++)
		ret = open_nics(argv[i], &list[i - 1]);
	if (!ret && count > 0)
		ret = register_with_all(buf);
	while (count-- > 0) {
		fi_close(&domain[count]->fid);
		fi_close(&fabric[count]->fid);
	}
	for (size_t i = 0; i < MOST; i++)
		fi_freeinfo(list[i]);
	free(buf);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
