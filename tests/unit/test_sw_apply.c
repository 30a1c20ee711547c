/* SPDX-License-Identifier: BSD-2-Clause */
/* Atomics of the software NIC with operands and targets on devices, over an interface of host memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/guard.h"
#include "core/base/range.h"
#include "core/nic/sw.h"

/* Run inside the interface's next copy, as another thread might be. */
static void (*meanwhile)(void);
static int copy_error;
static const void *watched; /* the interface's copies to there are counted */
static unsigned int watched_writes;

static int fake_start(struct hmem_status *status)
{
	(void)status;
	return 0;
}

static size_t one(void)
{
	return 1;
}

static int fake_copy(void *dst, int dst_device, const void *src, int src_device, size_t len)
{
	void (*now)(void) = meanwhile;

	(void)dst_device, (void)src_device;
	meanwhile = NULL;
	if (now)
		now();
	if (copy_error)
		return copy_error;
	watched_writes += dst == watched; /* asserted later: this runs with a lock held */
	memcpy(dst, src, len);
	return 0;
}

static struct sw_piece piece_on(void *at, size_t len, bool device)
{
	struct sw_piece piece = sw_host_piece(at, len);

	if (device) {
		piece.iface = FI_HMEM_CUDA;
		piece.device = 0;
	}
	return piece;
}

/* target[] += operand[]; result is where the values before go, or NULL. */
struct sum {
	bool reads; /* FI_ATOMIC_READ of the target, instead */
	uint64_t *target, *operand, *result;
	size_t count;
	bool target_on_device, operand_on_device, result_on_device;
};

static enum hmreg_error apply(const struct sum *sum)
{
	const size_t len = sum->count * sizeof(uint64_t);
	struct nic_wr wr = { .op = sum->result ? NIC_OP_FETCH : NIC_OP_ATOMIC,
			     .datatype = FI_UINT64,
			     .atomic_op = sum->reads ? FI_ATOMIC_READ : FI_SUM };
	struct sw_operands operands = { .on_device = sum->operand_on_device ||
						     (sum->result && sum->result_on_device) };
	struct sw_piece target = piece_on(sum->target, len, sum->target_on_device);

	operands.piece[0][0] = piece_on(sum->operand, len, sum->operand_on_device);
	operands.piece[1][0] = piece_on(sum->result, len, sum->result_on_device);
	operands.at[0] = (struct sw_cursor){ .piece = operands.piece[0], .count = 1 };
	operands.at[1] =
		(struct sw_cursor){ .piece = operands.piece[1], .count = sum->result ? 1 : 0 };
	operands.at[0].count = sum->reads ? 0 : 1;
	return sw_apply(&wr, &operands, &target);
}

static uint64_t host_target;

static void add_a_hundred(void)
{
	uint64_t hundred = 100;
	struct sum sum = { .target = &host_target, .operand = &hundred, .count = 1 };

	assert_int_equal(apply(&sum), HMREG_OK);
}

/* Two atomics on one word of the host: one has its operand or its result on a device, one has not. */
static void fn_07_host_memory_is_worked_on_in_place(void **state)
{
	uint64_t five = 5, before = 0;
	struct sum sum = { .target = &host_target,
			   .operand = &five,
			   .result = &before,
			   .count = 1,
			   .operand_on_device = true };

	(void)state;
	host_target = 1;
	meanwhile = add_a_hundred;
	assert_int_equal(apply(&sum), HMREG_OK);
	assert_int_equal(host_target, 106);
	assert_int_equal(before, 101);
	sum.operand_on_device = false;
	sum.result_on_device = true;
	meanwhile = add_a_hundred;
	assert_int_equal(apply(&sum), HMREG_OK);
	assert_int_equal(host_target, 211);
	assert_int_equal(before, 106);
}

/* Wherever the three are; more than is worked on at a time. */
static void fn_07_every_place(void **state)
{
	enum {
		COUNT = 1024 / 8 * 2 + 3
	};
	static uint64_t target[COUNT], operand[COUNT], result[COUNT];

	(void)state;
	for (unsigned int where = 0; where < 16; where++) {
		struct sum sum = { .target = target,
				   .operand = operand,
				   .result = where & 8 ? result : NULL,
				   .count = COUNT,
				   .target_on_device = where & 1,
				   .operand_on_device = where & 2,
				   .result_on_device = where & 4 };

		for (size_t i = 0; i < COUNT; i++) {
			target[i] = i;
			operand[i] = 3 * i;
			result[i] = 7;
		}
		assert_int_equal(apply(&sum), HMREG_OK);
		for (size_t i = 0; i < COUNT; i++) {
			assert_int_equal(target[i], 4 * i);
			assert_int_equal(result[i], sum.result ? i : 7);
		}
	}
}

/* The region may be one that peers only read. */
static void attr_01_what_is_read_is_not_written(void **state)
{
	static uint64_t target[300], result[300];
	struct sum sum = { .reads = true,
			   .target = target,
			   .result = result,
			   .count = count_of(target),
			   .target_on_device = true };

	(void)state;
	for (size_t i = 0; i < count_of(target); i++)
		target[i] = i + 1;
	watched = target;
	assert_int_equal(apply(&sum), HMREG_OK);
	assert_memory_equal(result, target, sizeof(target));
	assert_int_equal(watched_writes, 0);
}

/* A device that fails: nothing is applied. */
static void fn_15_operand_that_cannot_be_had(void **state)
{
	uint64_t five = 5, target = 1;
	struct sum sum = {
		.target = &target, .operand = &five, .count = 1, .operand_on_device = true
	};

	(void)state;
	copy_error = -FI_EIO;
	assert_int_equal(apply(&sum), HMREG_MEMORY);
	sum.target_on_device = true;
	assert_int_equal(apply(&sum), HMREG_MEMORY);
	assert_int_equal(target, 1);
	copy_error = 0;
	assert_int_equal(apply(&sum), HMREG_OK);
	assert_int_equal(target, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_07_host_memory_is_worked_on_in_place),
		cmocka_unit_test(fn_07_every_place),
		cmocka_unit_test(attr_01_what_is_read_is_not_written),
		cmocka_unit_test(fn_15_operand_that_cannot_be_had),
	};

	hmem_cuda.start = fake_start;
	hmem_cuda.device_count = one;
	hmem_cuda.copy = fake_copy;
	hm_guard_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
