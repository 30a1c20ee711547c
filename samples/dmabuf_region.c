/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A dma-buf as a memory region: how it is registered, and what it then is.  No endpoint is needed for
 * that, and no queue pair.
 *
 *   dmabuf_region [DOMAIN]
 *
 * Exit status 77: no NIC here takes dma-bufs, or nothing makes one.
 */
#include <stdlib.h>

#include <rdma/fi_ext_hmreg.h>

#include "common.h"
#include "dmabuf_host.h"

#define SKIPPED 77
#define LEN	((size_t)1 << 20)

static const char *path_name(enum hmreg_path path)
{
	switch (path) {
	case HMREG_PATH_SOFTWARE:
		return "software NIC";
	case HMREG_PATH_HOST:
		return "host memory";
	case HMREG_PATH_DMABUF:
		return "dma-buf";
	case HMREG_PATH_PEER_MEMORY:
		return "device memory through a kernel module";
	case HMREG_PATH_COPY:
		return "copies by the memory's interface";
	case HMREG_PATH_MAPPED:
		return "dma-buf, mapped";
	}
	return "unknown";
}

/* Everything that the library says about a region. */
static int show(struct fid_mr *mr)
{
	struct hmreg_region_info info = { .size = sizeof(info) };
	struct hmreg_verbs_part part = { .size = sizeof(part) };
	struct hmreg_mr_ops *ops;
	size_t i;
	int ret = fi_open_ops(&mr->fid, HMREG_MR_OPS, 0, (void **)&ops, NULL);

	if (!ret)
		ret = ops->info(&mr->fid, &info);
	if (ret)
		return sample_fail("asking about the region", ret);
	printf("registered as %s: %llu bytes, key 0x%llx, %u part%s\n", path_name(info.path),
	       (unsigned long long)info.len, (unsigned long long)fi_mr_key(mr), info.parts,
	       info.parts == 1 ? "" : "s");
	for (i = 0; i < info.parts; i++) {
		ret = ops->verbs_part(&mr->fid, i, &part);
		if (ret)
			return sample_fail("verbs_part", ret);
		printf("  part %zu: offset 0x%llx, %llu bytes, address 0x%llx, lkey 0x%x, "
		       "rkey 0x%x\n",
		       i, (unsigned long long)part.offset, (unsigned long long)part.len,
		       (unsigned long long)part.iova, part.lkey, part.rkey);
	}
	return 0;
}

/* The descriptor is closed right after the registration: the region keeps the memory. */
static int register_and_show(struct sample_end *end)
{
	struct dmabuf_host buffer;
	struct fid_mr *mr;
	int ret = dmabuf_host_open(LEN, &buffer), failed;

	if (ret)
		return SKIPPED;
	printf("a dma-buf of %zu bytes from %s\n", buffer.len, buffer.origin);
	ret = sample_register_dmabuf(end, buffer.fd, 0, LEN, buffer.map,
				     FI_REMOTE_READ | FI_REMOTE_WRITE, &mr);
	dmabuf_host_close(&buffer);
	if (ret)
		return ret;
	ret = show(mr);
	failed = fi_close(&mr->fid);
	return ret ? ret : failed;
}

int main(int argc, char **argv)
{
	struct sample_end end;
	struct fi_info *info;
	int ret = sample_find_registration(argc > 1 ? argv[1] : NULL, FI_HMEM, &info), failed;

	if (ret) {
		printf("skipped: no NIC domain %s takes dma-bufs (%s); `hmreg-info' says why\n",
		       argc > 1 ? argv[1] : "here", fi_strerror(-ret));
		return SKIPPED;
	}
	ret = sample_open(&end, info, 0);
	fi_freeinfo(info);
	if (ret)
		return EXIT_FAILURE;
	printf("NIC domain %s\n", end.info->domain_attr->name);
	ret = register_and_show(&end);
	failed = sample_close(&end);
	if (ret == SKIPPED)
		return SKIPPED;
	return ret || failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
