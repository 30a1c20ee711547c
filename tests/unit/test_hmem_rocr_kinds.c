/* SPDX-License-Identifier: BSD-2-Clause */
/* ROCr: devices, what addresses are, dma-bufs. */
#include "tests/unit/test_hmem_rocr.h"

/* ---- devices ---- */

/* Numbers count GPUs alone, though processors stand between them. */
static void attr_02_numbers_count_gpus(void **state)
{
	struct listed l = list_agents();

	(void)state;
	assert_int_equal(ops->device_count(), l.count);
	assert_true(l.at[1] > l.at[0] + 1);
	for (size_t i = 0; i < l.count; i++) {
		struct made made = make_of(MAKE_DEVICE, (int)i, UNIT);
		rocr_pointer_info info = { .size = sizeof(info) };
		struct hmem_device device;
		char pci[32];

		vendor_hsa_amd_pointer_info(made.addr, &info, NULL, NULL, NULL);
		assert_int_equal(info.owner.handle, l.gpus[i].handle);
		assert_int_equal(classified(made.addr, 1).device, (int)i);
		assert_int_equal(ops->device_info(i, &device), 0);
		assert_int_equal(device.id, (int)i);
		snprintf(pci, sizeof(pci), "%04x:%02x:03.0", (unsigned int)i / 2 & 0xff,
			 (0x20 + (unsigned int)i) & 0xff);
		assert_string_equal(device.pci, pci);
		assert_int_equal(device.memory, UINT64_C(1024) << 20);
		assert_int_equal(device.window, device.memory);
		assert_true(device.dmabuf);
		make_rocr.drop(&made);
	}
}

static void attr_02_no_such_device(void **state)
{
	char bytes[8] = "";
	void *addr;
	uint64_t event;

	(void)state;
	assert_int_equal(ops->copy(bytes, HMEM_NO_DEVICE, bytes, 4, 8), -FI_ENODEV);
	assert_one_warning("device 4");
	assert_int_equal(ops->copy_start(bytes, -2, bytes, HMEM_NO_DEVICE, 8, &event), -FI_ENODEV);
	assert_one_warning("device -2");
	assert_int_equal(ops->alloc(4, UNIT, HMEM_ALLOC_DEVICE, &addr), -FI_ENODEV);
	assert_one_warning("device 4");
}

/* ---- what addresses are ---- */

/* Device memory that the program opened to processors: the host reaches it, and it stays the device's. */
static void flag_03_host_reaches_device_memory(void **state)
{
	struct listed l = list_agents();
	struct made made = make_of(MAKE_DEVICE, 1, UNIT);
	struct hmem_memory memory = classified(made.addr, UNIT);

	(void)state;
	assert_false(memory.host_access);
	assert_int_equal(vendor_hsa_amd_agents_allow_access(1, &l.cpu, NULL, made.addr),
			 ROCR_SUCCESS);
	memory = classified(made.addr, UNIT);
	assert_true(memory.host_access);
	assert_int_equal(memory.kind, HMEM_DEVICE);
	assert_int_equal(memory.device, 1);
	assert_false(memory.ways & HMEM_WAY_HOST);
	memset(made.addr, 1, UNIT);
	assert_int_equal(hmem_classify_as(FI_HMEM_ROCR, 1, FI_HMEM_DEVICE_ONLY, made.addr, UNIT,
					  &memory),
			 -FI_EINVAL);
	assert_int_equal(vendor_hsa_amd_agents_allow_access(1, &l.gpus[0], NULL, made.addr),
			 ROCR_SUCCESS);
	assert_false(classified(made.addr, UNIT).host_access);
	make_rocr.drop(&made);
}

/* Reserved addresses where nothing is mapped are no host memory. */
static void fn_15_reserved_addresses(void **state)
{
	struct hmem_memory memory;
	void *va;

	(void)state;
	assert_int_equal(vendor_hsa_amd_vmem_address_reserve(&va, UNIT, 0, 0), ROCR_SUCCESS);
	memory = classified((char *)va + 8, 8);
	assert_int_equal(memory.iface, FI_HMEM_ROCR);
	assert_int_equal(memory.kind, HMEM_UNKNOWN);
	assert_int_equal(memory.ways, 0);
	assert_true(memory.reason[0]);
	assert_int_equal(vendor_hsa_amd_vmem_address_free(va, UNIT), ROCR_SUCCESS);
	assert_int_equal(classified((char *)va + 8, 8).kind, HMEM_HOST);
}

/* The address under which devices see locked memory is not the host's, and is not taken for it. */
static void fn_15_address_for_devices(void **state)
{
	struct made made = make_of(MAKE_REGISTERED, 0, UNIT);
	char *there = made.own[0], text[32];
	struct hmem_memory memory;

	(void)state;
	assert_ptr_not_equal(there, made.addr);
	memory = classified((char *)made.addr + 100, 8);
	assert_int_equal(memory.kind, HMEM_HOST_ALLOC);
	assert_int_equal(memory.device, HMEM_NO_DEVICE);
	assert_int_equal(memory.base, (uintptr_t)made.addr);
	assert_int_equal(memory.len, made.len);
	warnings = 0;
	memory = classified(there + 100, 8);
	assert_int_equal(memory.kind, HMEM_UNKNOWN);
	assert_int_equal(memory.ways, 0);
	/* it names the one to use */
	snprintf(text, sizeof(text), "address is %p", (void *)((char *)made.addr + 100));
	assert_one_warning(text);
	make_rocr.drop(&made);
}

static void fn_14_managed(void **state)
{
	struct made made = make_of(MAKE_MANAGED, 2, 2 * UNIT);
	struct hmem_memory memory = classified((char *)made.addr + 10, made.len - 10);

	(void)state;
	assert_int_equal(memory.kind, HMEM_MANAGED);
	assert_int_equal(memory.device, 2);
	assert_true(memory.host_access);
	assert_false(memory.range_known);
	/* past its end it is ordinary memory again */
	assert_int_equal(hmem_classify((char *)made.addr + made.len - 8, 16, &memory), -FI_EINVAL);
	make_rocr.drop(&made);
}

static void fn_14_shared_by_another(void **state)
{
	struct made made = make_of(MAKE_IMPORTED, 3, UNIT);
	struct hmem_memory memory = classified(made.addr, UNIT);
	struct hmem_export out;

	(void)state;
	assert_int_equal(memory.kind, HMEM_IMPORTED);
	assert_int_equal(memory.device, 3);
	warnings = 0;
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), -FI_EOPNOTSUPP);
	assert_one_warning("its owner has to export it");
	make_rocr.drop(&made);
}

/* ---- dma-bufs ---- */

static void fn_02_fd_goes_back_by_the_runtime(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, UNIT);
	struct hmem_memory memory = classified(made.addr, UNIT);
	struct hmem_export out;

	(void)state;
	hooks->reset();
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), 0);
	assert_int_equal(hooks->live("dmabuf"), 1);
	assert_int_equal(hooks->calls("hsa_amd_portable_close_dmabuf"), 0);
	ops->export_end(&out);
	assert_int_equal(hooks->live("dmabuf"), 0);
	assert_int_equal(hooks->calls("hsa_amd_portable_close_dmabuf"), 1);
	make_rocr.drop(&made);
}

/* A mapped piece's fd is not one of those. */
static void fn_02_fd_of_a_piece_is_closed(void **state)
{
	struct made made = make_of(MAKE_VMM, 0, 2 * UNIT);
	struct hmem_memory memory = classified(made.addr, made.len / 2);
	long handles = hooks->live("handle");
	struct hmem_export out;

	(void)state;
	hooks->reset();
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), 0);
	assert_int_equal(hooks->live("dmabuf"), 0);
	assert_int_equal(hooks->live("handle"), handles);
	assert_true(fcntl(out.fd, F_GETFD) & FD_CLOEXEC);
	ops->export_end(&out);
	assert_int_equal(fcntl(out.fd, F_GETFD), -1);
	assert_int_equal(hooks->calls("hsa_amd_portable_close_dmabuf"), 0);
	make_rocr.drop(&made);
}

/* The bytes of the file at the export's offset are those at addr. */
static void check_file(const struct made *made, size_t at, const struct hmem_export *out)
{
	size_t len = made->len - at < 100 ? made->len - at : 100;
	char *there = mmap(NULL, out->offset + len, PROT_READ, MAP_SHARED, out->fd, 0);
	char bytes[100];

	assert_true(there != MAP_FAILED);
	assert_int_equal(make_rocr.read(made, at, bytes, len), 0);
	assert_memory_equal(there + out->offset, bytes, len);
	munmap(there, out->offset + len);
}

/* Any address and length, though the runtime takes whole pages; the offset is from its call. */
static void fn_07_interior_offsets(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, 2 * UNIT);
	const size_t places[][2] = { { 0, 1 },	      { 1, 1 },		  { 4095, 2 },
				     { 4096, 4096 },  { 70001, 3000 },	  { made.len - 1, 1 },
				     { 0, made.len }, { 7, made.len - 7 } };
	struct hmem_memory memory = classified(made.addr, made.len);
	uint64_t first = 0;

	(void)state;
	fill(&made);
	for (size_t i = 0; i < count_of(places); i++) {
		char *addr = (char *)made.addr + places[i][0];
		struct hmem_export out;

		assert_int_equal(ops->export_start(&memory, addr, places[i][1], 0, &out), 0);
		if (i == 0)
			first = out.offset;
		/* the file begins before the allocation: the runtime says where */
		assert_true(out.offset >= UNIT);
		assert_int_equal(out.offset - first, places[i][0]);
		check_file(&made, places[i][0], &out);
		ops->export_end(&out);
	}
	make_rocr.drop(&made);
}

static void fn_08_export_of_one_piece_each(void **state)
{
	struct made made = make_of(MAKE_VMM, 1, 2 * UNIT);
	size_t half = made.len / 2;
	struct hmem_memory memory = classified(made.addr, made.len);
	struct hmem_export a, b;

	(void)state;
	fill(&made);
	assert_int_equal(memory.segments, 2);
	warnings = 0;
	/* over the border it is refused, not cut short */
	assert_int_equal(ops->export_start(&memory, made.addr, half + 1, 0, &a), -FI_EINVAL);
	assert_one_warning("one allocation");
	assert_int_equal(ops->export_start(&memory, (char *)made.addr + 5, half - 5, 0, &a), 0);
	assert_int_equal(ops->export_start(&memory, (char *)made.addr + half + 9, 100, 0, &b), 0);
	assert_int_equal(a.offset, 5);
	assert_int_equal(b.offset, 9);
	check_file(&made, 5, &a);
	check_file(&made, half + 9, &b);
	ops->export_end(&a);
	ops->export_end(&b);
	make_rocr.drop(&made);
}

static void fn_08_past_the_end(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 1, UNIT);
	struct hmem_memory memory = classified(made.addr, made.len);
	struct hmem_export out;

	(void)state;
	warnings = 0;
	assert_int_equal(ops->export_start(&memory, (char *)made.addr + 1, made.len, 0, &out),
			 -FI_EINVAL);
	assert_one_warning("one allocation");
	make_rocr.drop(&made);
	/* freed since it was classified */
	assert_int_equal(ops->export_start(&memory, made.addr, 1, 0, &out), -FI_EINVAL);
	assert_one_warning("one allocation");
}

static void fn_16_mapped_host_memory(void **state)
{
	struct made made = make_of(MAKE_VMM_HOST, 0, 2 * UNIT);
	struct hmem_memory memory = classified(made.addr, made.len);
	struct hmem_export out;

	(void)state;
	assert_int_equal(memory.kind, HMEM_VMM_HOST);
	assert_int_equal(memory.device, HMEM_NO_DEVICE);
	assert_true(memory.ways & HMEM_WAY_HOST);
	warnings = 0;
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), -FI_EOPNOTSUPP);
	assert_one_warning("host");
	make_rocr.drop(&made);
}

static void fn_24_pcie_mapping_is_asked_for(void **state)
{
	struct made made = make_of(MAKE_DEVICE, 0, UNIT);
	struct hmem_memory memory = classified(made.addr, UNIT);
	struct hmem_export out;

	(void)state;
	hooks->reset();
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, 0, &out), 0);
	ops->export_end(&out);
	assert_int_equal(hooks->calls("hsa_amd_portable_export_dmabuf_v2"), 0);
	assert_int_equal(ops->export_start(&memory, made.addr, UNIT, HMEM_EXPORT_PCIE, &out), 0);
	ops->export_end(&out);
	assert_int_equal(hooks->calls("hsa_amd_portable_export_dmabuf_v2"), 1);
	assert_int_equal(hooks->calls("hsa_amd_portable_export_dmabuf"), 1);
	make_rocr.drop(&made);
}

GROUP(main, TEST(attr_02_numbers_count_gpus), TEST(attr_02_no_such_device),
      TEST(flag_03_host_reaches_device_memory), TEST(fn_15_reserved_addresses),
      TEST(fn_15_address_for_devices), TEST(fn_14_managed), TEST(fn_14_shared_by_another),
      TEST(fn_02_fd_goes_back_by_the_runtime), TEST(fn_02_fd_of_a_piece_is_closed),
      TEST(fn_07_interior_offsets), TEST(fn_08_export_of_one_piece_each), TEST(fn_08_past_the_end),
      TEST(fn_16_mapped_host_memory), TEST(fn_24_pcie_mapping_is_asked_for))
