// SPDX-License-Identifier: GPL-2.0
/*
 * Linux kernel module, for tests in the virtual machine alone; never installed.
 *
 * The kernel's software RDMA driver (rdma_rxe) does not register dma-bufs.  This module gives each of
 * its devices that operation, so that ibv_reg_dmabuf_mr() and the kernel's own path below it can be
 * tested without hardware.  It also lets devices go while they are in use.
 *
 * As a driver of hardware does, it attaches to the dma-buf and keeps it mapped until the region goes.
 * The pages found so are shown for a moment in the caller's address space, which is what the driver's
 * ordinary registration needs: that pins them, and copies through the kernel's own map from then on.
 *
 * Unlike hardware: the pages are pinned as well, so the exporter cannot move them (no move_notify), and
 * there is no peer-to-peer, only memory that has pages.
 */
#include <linux/anon_inodes.h>
#include <linux/cred.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* What a region made from a dma-buf holds; owned by the table of bindings. */
struct binding {
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attachment;
	struct sg_table *mapping;
	struct mm_struct *mm; /* the region's own reference keeps it */
	unsigned long count;
	struct page *pages[];
};

static struct platform_device *importer; /* dma-bufs are mapped for this one */
static DEFINE_XARRAY(bindings);		 /* struct ib_mr * to its struct binding * */
static int (*driver_dereg_mr)(struct ib_mr *mr, struct ib_udata *udata);

static int show_pages(struct file *file, struct vm_area_struct *vma)
{
	struct binding *binding = file->private_data;

	return vm_map_pages(vma, binding->pages, binding->count);
}

static const struct file_operations show_fops = {
	.owner = THIS_MODULE,
	.mmap = show_pages,
};

static void unbind(struct binding *binding)
{
	if (!IS_ERR_OR_NULL(binding->mapping))
		dma_buf_unmap_attachment_unlocked(binding->attachment, binding->mapping,
						  DMA_BIDIRECTIONAL);
	if (!IS_ERR_OR_NULL(binding->attachment))
		dma_buf_detach(binding->dmabuf, binding->attachment);
	dma_buf_put(binding->dmabuf);
	kvfree(binding);
}

/* Attaches and maps; remembers the pages of the range.  0 or an error; the caller unbinds. */
static int find_pages(struct binding *binding, unsigned long first, unsigned long wanted)
{
	struct sg_page_iter iter;
	unsigned long index = 0;

	binding->attachment = dma_buf_attach(binding->dmabuf, &importer->dev);
	if (IS_ERR(binding->attachment))
		return PTR_ERR(binding->attachment);
	binding->mapping = dma_buf_map_attachment_unlocked(binding->attachment, DMA_BIDIRECTIONAL);
	if (IS_ERR(binding->mapping))
		return PTR_ERR(binding->mapping);
	for_each_sgtable_page(binding->mapping, &iter, 0)
	{
		if (index++ >= first && binding->count < wanted)
			binding->pages[binding->count++] = sg_page_iter_page(&iter);
	}
	return binding->count < wanted ? -EINVAL : 0;
}

static struct binding *bind(int fd, u64 offset, u64 length)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	struct binding *binding;
	unsigned long count;
	int err;

	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	if (!length || offset > dmabuf->size || length > dmabuf->size - offset) {
		dma_buf_put(dmabuf);
		return ERR_PTR(-EINVAL);
	}
	count = DIV_ROUND_UP(offset_in_page(offset) + length, PAGE_SIZE);
	binding = kvzalloc(struct_size(binding, pages, count), GFP_KERNEL);
	if (!binding) {
		dma_buf_put(dmabuf);
		return ERR_PTR(-ENOMEM);
	}
	binding->dmabuf = dmabuf;
	err = find_pages(binding, offset >> PAGE_SHIFT, count);
	if (err) {
		unbind(binding);
		return ERR_PTR(err);
	}
	return binding;
}

/*
 * The driver's registration charges the pages to RLIMIT_MEMLOCK, which a driver does not for dma-bufs.
 * So it runs without the limit, and the charge is taken back; deregister() puts it on again before the
 * driver takes it off.
 */
static struct ib_mr *register_uncharged(struct ib_pd *pd, struct binding *binding, u64 start,
					u64 length, u64 iova, int access, struct ib_udata *udata)
{
	struct cred *unlimited = prepare_creds();
	const struct cred *own;
	struct ib_mr *mr;

	if (!unlimited)
		return ERR_PTR(-ENOMEM);
	cap_raise(unlimited->cap_effective, CAP_IPC_LOCK);
	own = override_creds(unlimited);
	mr = pd->device->ops.reg_user_mr(pd, start, length, iova, access, udata);
	revert_creds(own);
	put_cred(unlimited);
	if (IS_ERR(mr))
		return mr;
	binding->mm = current->mm;
	atomic64_sub(binding->count, &binding->mm->pinned_vm);
	mr->iova = iova;
	mr->length = length;
	return mr;
}

/* Shows the pages at an address, registers that, and takes them away again. */
static struct ib_mr *register_shown(struct ib_pd *pd, struct binding *binding, u64 offset,
				    u64 length, u64 iova, int access, struct ib_udata *udata)
{
	unsigned long size = binding->count << PAGE_SHIFT, start;
	struct ib_mr *mr;
	struct file *file = anon_inode_getfile("[rxe_dmabuf]", &show_fops, binding, O_RDWR);

	if (IS_ERR(file))
		return ERR_CAST(file);
	start = vm_mmap(file, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	fput(file);
	if (IS_ERR_VALUE(start))
		return ERR_PTR(start);
	mr = register_uncharged(pd, binding, start + offset_in_page(offset), length, iova, access,
				udata);
	vm_munmap(start, size);
	return mr;
}

static struct ib_mr *register_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd,
				     int access, struct uverbs_attr_bundle *attrs)
{
	struct binding *binding = bind(fd, offset, length);
	struct ib_mr *mr;

	if (IS_ERR(binding))
		return ERR_CAST(binding);
	mr = register_shown(pd, binding, offset, length, iova, access, &attrs->driver_udata);
	if (IS_ERR(mr)) {
		unbind(binding);
		return mr;
	}
	xa_store(&bindings, (unsigned long)mr, binding, GFP_KERNEL | __GFP_NOFAIL);
	return mr;
}

/* In place of the driver's own, for all regions of its devices. */
static int deregister(struct ib_mr *mr, struct ib_udata *udata)
{
	/* Out of the table before the region's address can be another region's. */
	struct binding *binding = xa_erase(&bindings, (unsigned long)mr);
	int err;

	if (!binding)
		return driver_dereg_mr(mr, udata);
	atomic64_add(binding->count, &binding->mm->pinned_vm);
	err = driver_dereg_mr(mr, udata);
	if (!err) {
		unbind(binding);
	} else {
		atomic64_sub(binding->count, &binding->mm->pinned_vm);
		xa_store(&bindings, (unsigned long)mr, binding, GFP_KERNEL | __GFP_NOFAIL);
	}
	return err;
}

/*
 * That there is this operation lets a device go while programs have it open, as with drivers of
 * hardware: the kernel takes its objects away and tells the programs.  Without it the removal waits for
 * them.  Nothing to do: rings that programs have mapped are counted memory.
 */
static void let_go(struct ib_ucontext *context)
{
}

static const struct ib_device_ops more_ops = {
	.reg_user_mr_dmabuf = register_dmabuf,
	.disassociate_ucontext = let_go,
};

static int add_device(struct ib_device *device)
{
	if (device->ops.driver_id != RDMA_DRIVER_RXE || device->ops.reg_user_mr_dmabuf)
		return -EOPNOTSUPP;
	driver_dereg_mr = device->ops.dereg_mr; /* the same for each device of the driver */
	device->ops.dereg_mr = deregister;
	ib_set_device_ops(device, &more_ops); /* sets only what is not set */
	return 0;
}

static struct ib_client client = {
	.name = "rxe_dmabuf",
	.add = add_device,
};

/* Devices that are there and devices that come later.  There is no exit: the machine just ends. */
static int __init rxe_dmabuf_init(void)
{
	int err;

	importer = platform_device_register_simple("rxe_dmabuf", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(importer))
		return PTR_ERR(importer);
	err = dma_coerce_mask_and_coherent(&importer->dev, DMA_BIT_MASK(64));
	if (!err)
		err = ib_register_client(&client);
	if (err)
		platform_device_unregister(importer);
	return err;
}

module_init(rxe_dmabuf_init);
MODULE_DESCRIPTION("dma-buf registration for software RDMA devices, for tests");
MODULE_LICENSE("GPL");
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif
