/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomics of the software NIC applied to memory.
 *
 * A target in host memory is worked on in place, wherever the operands are.  One of a device is fetched,
 * worked on and put back, under one lock: atomic among the software NIC's own operations, not against the
 * device's or the program's.
 */
#include <pthread.h>
#include <stdint.h>

#include "core/base/guard.h"
#include "core/nic/sw.h"

enum hmreg_error sw_operands(const struct nic_domain *domain, const struct nic_wr *wr,
			     struct sw_operands *out)
{
	const struct nic_seg *seg[3] = { wr->local, wr->result, wr->compare };
	uint32_t count[3] = { wr->local_count, wr->result_count, wr->compare_count };
	enum hmreg_error why = HMREG_OK;

	out->on_device = false;
	for (unsigned int i = 0; i < 3 && why == HMREG_OK; i++) {
		why = sw_pieces(domain, seg[i], count[i], out->piece[i]);
		out->at[i] = (struct sw_cursor){ .piece = out->piece[i], .count = count[i] };
		for (uint32_t k = 0; k < count[i]; k++)
			out->on_device |= out->piece[i][k].device != HMEM_NO_DEVICE;
	}
	return why;
}

/* One guarded application of an atomic operation. */
struct apply {
	enum sw_atomic_kind kind;
	enum fi_datatype datatype;
	enum fi_op op;
	void *dst, *result;
	const void *src, *compare;
	size_t count;
	int ret;
};

static void run_apply(void *arg)
{
	struct apply *a = arg;

	a->ret = sw_atomic_apply(a->kind, a->datatype, a->op, a->dst, a->src, a->compare, a->result,
				 a->count);
}

static enum hmreg_error guarded(struct apply *a, size_t len)
{
	struct iovec memory[4] = { { a->dst, len },
				   { (void *)(uintptr_t)a->src, a->src ? len : 0 },
				   { a->result, a->result ? len : 0 },
				   { (void *)(uintptr_t)a->compare, a->compare ? len : 0 } };

	if (hm_guard_run(run_apply, a, memory, 4) == 0)
		return HMREG_OK;
	sw_atomic_recover();
	return HMREG_FAULT;
}

static struct apply apply_of(const struct nic_wr *wr, size_t len)
{
	return (struct apply){ .kind = sw_atomic_kind_of(wr->op),
			       .datatype = wr->datatype,
			       .op = wr->atomic_op,
			       .count = len / sw_atomic_size(wr->datatype) };
}

/* ---- in place ---- */

/* The operand's next bytes, and *len cut to what lies there in one piece.  NULL: no operand. */
static void *operand_at(struct sw_cursor *operand, size_t *len)
{
	return operand->count == 0 ? NULL : sw_cursor_at(operand, len).at;
}

static enum hmreg_error apply_in_place(const struct nic_wr *wr, struct sw_cursor op[3], char *dst,
				       size_t len)
{
	enum hmreg_error why = HMREG_OK;

	while (len > 0 && why == HMREG_OK) {
		size_t n = len;
		void *src = operand_at(&op[0], &n);
		void *result = operand_at(&op[1], &n);
		void *compare = operand_at(&op[2], &n);
		struct apply a = apply_of(wr, n);

		a.dst = dst;
		a.src = src;
		a.result = result;
		a.compare = compare;
		why = guarded(&a, n);
		for (unsigned int i = 0; i < 3; i++)
			op[i].offset += n;
		dst += n;
		len -= n;
	}
	return why;
}

/* ---- by way of the host ---- */

#define ROOM 1024 /* a multiple of every datatype's size */

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;

/* Fetch len bytes of an operand, or of the target (which stays where it is), into room. */
static enum hmreg_error fetch(struct sw_cursor from, char *room, size_t len)
{
	struct sw_piece to = sw_host_piece(room, len);
	struct sw_cursor dst = { .piece = &to, .count = 1 };

	return from.count == 0 ? HMREG_OK : sw_copy(&dst, &from, len);
}

/* The cursor moves on. */
static enum hmreg_error store(struct sw_cursor *to, char *room, size_t len)
{
	struct sw_piece from = sw_host_piece(room, len);
	struct sw_cursor src = { .piece = &from, .count = 1 };

	return to->count == 0 ? HMREG_OK : sw_copy(to, &src, len);
}

static void skip_bytes(struct sw_cursor *cursor, size_t len)
{
	while (cursor->count > 0 && len > 0) {
		size_t n = len;

		sw_cursor_at(cursor, &n);
		cursor->offset += n;
		len -= n;
	}
}

/* The target's bytes: in place where the host reaches them, else a copy in room. */
static enum hmreg_error open_target(struct sw_cursor *target, char *room, size_t len, void **at)
{
	struct sw_piece piece = sw_cursor_at(target, &len);

	*at = room;
	if (piece.device != HMEM_NO_DEVICE)
		return fetch(*target, room, len);
	*at = piece.at;
	return HMREG_OK;
}

/* The target moves on.  What is only read is not put back, over what the device wrote meanwhile. */
static enum hmreg_error close_target(const struct nic_wr *wr, struct sw_cursor *target, char *room,
				     size_t len)
{
	if (target->piece->device != HMEM_NO_DEVICE && wr->atomic_op != FI_ATOMIC_READ)
		return store(target, room, len);
	target->offset += len;
	return HMREG_OK;
}

static enum hmreg_error apply_step(const struct nic_wr *wr, struct sw_cursor op[3],
				   struct sw_cursor *target, size_t len)
{
	_Alignas(16) char dst[ROOM], src[ROOM], result[ROOM], compare[ROOM];
	struct apply a = apply_of(wr, len);
	enum hmreg_error why = open_target(target, dst, len, &a.dst);

	a.src = op[0].count ? src : NULL;
	a.result = op[1].count ? result : NULL;
	a.compare = op[2].count ? compare : NULL;
	if (why == HMREG_OK)
		why = fetch(op[0], src, len);
	if (why == HMREG_OK)
		why = fetch(op[2], compare, len);
	if (why == HMREG_OK)
		why = guarded(&a, len);
	if (why == HMREG_OK)
		why = store(&op[1], result, len);
	if (why == HMREG_OK)
		why = close_target(wr, target, dst, len);
	skip_bytes(&op[0], len);
	skip_bytes(&op[2], len);
	return why;
}

static enum hmreg_error apply_fetched(const struct nic_wr *wr, struct sw_cursor op[3],
				      const struct sw_piece *dst)
{
	struct sw_cursor target = { .piece = dst, .count = 1 };
	bool on_device = dst->device != HMEM_NO_DEVICE;
	enum hmreg_error why = HMREG_OK;

	if (on_device)
		pthread_mutex_lock(&device_lock);
	for (size_t left = dst->len; left > 0 && why == HMREG_OK;) {
		size_t n = left < ROOM ? left : ROOM;

		why = apply_step(wr, op, &target, n);
		left -= n;
	}
	if (on_device)
		pthread_mutex_unlock(&device_lock);
	return why;
}

enum hmreg_error sw_apply(const struct nic_wr *wr, struct sw_operands *operands,
			  const struct sw_piece *dst)
{
	if (!operands->on_device && dst->device == HMEM_NO_DEVICE)
		return apply_in_place(wr, operands->at, dst->at, dst->len);
	return apply_fetched(wr, operands->at, dst);
}
