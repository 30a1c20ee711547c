/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The machine by itself, without the library under test: reliable connections over the software RDMA
 * device, and dma-bufs of each exporter registered by ibv_reg_dmabuf_mr(), written and read by a peer,
 * and looked at through the memory's own mapping.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "memory.h"
#include "raw.h"

#define LENGTH ((size_t)64 * 1024)

/* Of the peer that writes and of the one that is written to; rxe0 unless the command line names them. */
static const char *device_a = "rxe0", *device_b = "rxe0";

struct scene {
	struct raw_pair pair;
	uint8_t *buf; /* of end a, LENGTH bytes */
	struct ibv_mr *local;
};

static int set_up(void **state)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	if (!scene)
		return -1;
	raw_open(&scene->pair, device_a, device_b);
	scene->buf = aligned_alloc(4096, LENGTH);
	assert_non_null(scene->buf);
	scene->local = ibv_reg_mr(scene->pair.a.pd, scene->buf, LENGTH, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(scene->local);
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *scene = *state;

	assert_int_equal(ibv_dereg_mr(scene->local), 0);
	free(scene->buf);
	raw_close(&scene->pair);
	free(scene);
	return 0;
}

static void host_memory(void **state)
{
	struct scene *s = *state;
	uint8_t *target = aligned_alloc(4096, LENGTH);
	struct ibv_mr *mr;

	assert_non_null(target);
	memset(target, 0, LENGTH);
	mr = ibv_reg_mr(s->pair.b.pd, target, LENGTH, RAW_ACCESS);
	assert_non_null(mr);
	memory_pattern(s->buf, LENGTH, 1);
	assert_int_equal(raw_rdma(&s->pair, IBV_WR_RDMA_WRITE, s->local, s->buf, LENGTH,
				  (uintptr_t)target, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(target, s->buf, LENGTH);
	memory_pattern(target, LENGTH, 2);
	assert_int_equal(raw_rdma(&s->pair, IBV_WR_RDMA_READ, s->local, s->buf, LENGTH,
				  (uintptr_t)target, mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(target, s->buf, LENGTH);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	free(target);
}

static void wrong_key(void **state)
{
	struct scene *s = *state;

	assert_int_equal(raw_rdma(&s->pair, IBV_WR_RDMA_WRITE, s->local, s->buf, 64, 0x10000, 0x7),
			 IBV_WC_REM_ACCESS_ERR);
}

/* Registers [off, off + len) of the memory at iova; a peer writes and reads it; the rest stays. */
static void write_and_read(struct scene *s, enum memory_kind kind, size_t off, size_t len,
			   uint64_t iova)
{
	struct memory memory;
	struct ibv_mr *mr;
	uint8_t *before = malloc(LENGTH), *after = malloc(LENGTH);

	assert_true(before && after);
	memory_make(&memory, kind, LENGTH);
	memory_pattern(before, LENGTH, 3);
	memory_set(&memory, 0, before, LENGTH);
	mr = ibv_reg_dmabuf_mr(s->pair.b.pd, off, len, iova, memory.fd, RAW_ACCESS);
	if (!mr)
		fail_msg("ibv_reg_dmabuf_mr: %s", strerror(errno));
	printf("%s: fd %d, offset %zu, length %zu, iova 0x%" PRIx64 ": rkey 0x%x\n", memory.name,
	       memory.fd, off, len, iova, mr->rkey);
	memory_close_fd(&memory); /* the registration keeps the dma-buf */
	memory_show(&memory, off, "before the write");

	memory_pattern(s->buf, len, 4);
	assert_int_equal(raw_rdma(&s->pair, IBV_WR_RDMA_WRITE, s->local, s->buf, len, iova,
				  mr->rkey),
			 IBV_WC_SUCCESS);
	memory_show(&memory, off, "after the write");
	memory_get(&memory, 0, after, LENGTH);
	memcpy(before + off, s->buf, len);
	assert_memory_equal(after, before, LENGTH);

	memory_pattern(after, len, 5);
	memory_set(&memory, off, after, len);
	assert_int_equal(raw_rdma(&s->pair, IBV_WR_RDMA_READ, s->local, s->buf, len, iova,
				  mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(s->buf, after, len);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	memory_free(&memory);
	free(before);
	free(after);
}

static void udmabuf(void **state)
{
	write_and_read(*state, MEMORY_UDMABUF, 0, LENGTH, 0x100000);
}

static void udmabuf_list(void **state)
{
	write_and_read(*state, MEMORY_UDMABUF_LIST, 0, LENGTH, 0);
}

static void dma_heap(void **state)
{
	write_and_read(*state, MEMORY_HEAP, 0, LENGTH, 0x200000);
}

static void vgem(void **state)
{
	write_and_read(*state, MEMORY_VGEM, 0, LENGTH, 0x300000);
}

static void part(void **state)
{
	for (int kind = 0; kind < MEMORY_KINDS; kind++)
		write_and_read(*state, (enum memory_kind)kind, 4196, 20000, 0x7000000064);
}

/* A dma-buf registration that is refused with this code. */
static void refused(struct ibv_pd *pd, uint64_t off, size_t len, uint64_t iova, int fd, int access,
		    int code)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_dmabuf_mr(pd, off, len, iova, fd, access);
	assert_null(mr);
	assert_int_equal(errno, code);
}

static void refusals(void **state)
{
	struct scene *s = *state;
	struct ibv_pd *pd = s->pair.b.pd;
	struct memory memory;
	int file = memfd_create("no dma-buf", MFD_CLOEXEC);

	assert_true(file >= 0);
	memory_make(&memory, MEMORY_UDMABUF, LENGTH);
	refused(pd, 0, LENGTH, 0, -1, RAW_ACCESS, EBADF);
	refused(pd, 0, LENGTH, 0, file, RAW_ACCESS, EINVAL);
	refused(pd, 0, LENGTH + 1, 0, memory.fd, RAW_ACCESS, EINVAL);
	refused(pd, LENGTH, 1, 0, memory.fd, RAW_ACCESS, EINVAL);
	refused(pd, UINT64_MAX - 4095, LENGTH, 0, memory.fd, RAW_ACCESS, EINVAL);
	refused(pd, 0, 0, 0, memory.fd, RAW_ACCESS, EINVAL);
	refused(pd, 100, 1000, 200, memory.fd, RAW_ACCESS, EINVAL);
	close(file);
	memory_free(&memory);
}

/* vm_raw [DEVICE-A [DEVICE-B]] */
int main(int argc, char **argv)
{
#define RAW(fn)                                                                                    \
	{                                                                                          \
		"raw_" #fn, fn, set_up, tear_down, NULL                                            \
	}
	const struct CMUnitTest tests[] = {
		RAW(host_memory), RAW(wrong_key), RAW(udmabuf), RAW(udmabuf_list),
		RAW(dma_heap),	  RAW(vgem),	  RAW(part),	RAW(refusals),
	};

	if (argc > 1)
		device_a = device_b = argv[1];
	if (argc > 2)
		device_b = argv[2];
	setvbuf(stdout, NULL, _IOLBF, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
