/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sub-MRs of a dma-buf that the program gave, where no windows are bound to dma-bufs: kernels up to now
 * take no such region that windows may be bound to.  Its memory is registered a second time, from the
 * same dma-buf, for which a descriptor is needed again.
 *
 * Keeping one with each region would use up the process's files, and the program may close its own once the
 * region is there.  So one is kept where sub-MRs were announced (sub_mr_cnt); else the program's serves, as
 * long as its number is still that dma-buf's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/nic/verbs_mr.h"

void verbs_file_note(struct verbs_region *region, const struct fi_mr_dmabuf *dmabuf, bool keeps)
{
	struct verbs_file *file = &region->file;
	uint64_t size;

	if (dmabuf_identify(dmabuf->fd, &file->id, &size) != 0)
		return;
	file->fd = dmabuf->fd;
	file->offset = dmabuf->offset;
	if (!keeps)
		return;
	file->kept = fcntl(dmabuf->fd, F_DUPFD_CLOEXEC, 0);
	if (file->kept < 0)
		HM_INFO(FI_LOG_MR, "no descriptor for sub-MRs of a dma-buf: %s", strerror(errno));
}

void verbs_file_forget(struct verbs_region *region)
{
	if (region->file.kept >= 0)
		close(region->file.kept);
	region->file = (struct verbs_file){ -1, -1, 0, { 0, 0 } };
}

/* A descriptor of the dma-buf, the caller's; -1: there is none any more. */
static int find(const struct verbs_file *file)
{
	int fd = fcntl(file->kept >= 0 ? file->kept : file->fd, F_DUPFD_CLOEXEC, 0);
	struct dmabuf_id id;
	uint64_t size;

	/* looked at after it was duplicated: it stays what it is */
	if (fd < 0 || (dmabuf_identify(fd, &id, &size) == 0 && id.device == file->id.device &&
		       id.inode == file->id.inode))
		return fd;
	close(fd);
	return -1;
}

int verbs_file_again(struct nic_region *region, const struct nic_region *base,
		     const struct nic_region_request *req)
{
	struct fi_mr_dmabuf dmabuf[NIC_IOV_MAX];
	struct nic_region_request again = *req;
	const struct nic_region *root = base;
	const struct verbs_file *file;
	int fd, ret;

	while (root->parent)
		root = root->parent;
	file = &verbs_region_of(root)->file;
	fd = find(file);
	if (fd < 0) {
		HM_INFO(FI_LOG_MR,
			"the dma-buf of base_mr cannot be found any more: its descriptor was "
			"closed, and base_mr registered without sub_mr_cnt");
		return -FI_ENOSYS;
	}
	for (size_t i = 0; i < req->iov_count; i++)
		dmabuf[i] = (struct fi_mr_dmabuf){
			.fd = fd,
			.offset = file->offset + ((uintptr_t)req->iov[i].iov_base - root->base),
			.len = req->iov[i].iov_len,
		};
	again.dmabuf = dmabuf;
	ret = verbs_region_register(region, &again);
	close(fd);
	return ret;
}
