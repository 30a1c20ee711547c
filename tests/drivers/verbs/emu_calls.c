/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulated device's state, the edge of its functions, and failures on request. */
#include "tests/drivers/verbs/emu.h"
#include "tests/drivers/emu_trace.h"

struct emu_state emu = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.acked = PTHREAD_COND_INITIALIZER,
	.run = { &emu.run, &emu.run },
};

/* What was asked for one function.  remaining: calls until the failing one, 0 none, negative: all fail. */
struct call_state {
	atomic_long count;
	atomic_int remaining;
	atomic_int error;
};

static struct call_state calls[EMU_CALL_COUNT];

static const char *const call_names[EMU_CALL_COUNT] = {
#define EMU_CALL_NAME(name) [CALL_##name] = #name,
	EMU_CALLS(EMU_CALL_NAME)
#undef EMU_CALL_NAME
};

void emu_enter(void)
{
	pthread_mutex_lock(&emu.mutex);
}

void emu_leave(void)
{
	while (!hm_list_empty(&emu.run)) {
		struct emu_qp *qp = hm_container(emu.run.next, struct emu_qp, run);

		hm_list_del(&qp->run);
		qp->kicked = false;
		emu_qp_serve(qp);
	}
	pthread_mutex_unlock(&emu.mutex);
}

/* A child gets the mutex free, whatever other threads were doing; nothing else is promised to it. */
static void unlock(void)
{
	pthread_mutex_unlock(&emu.mutex);
}

static void __attribute__((constructor)) prepare_for_fork(void)
{
	pthread_atfork(emu_enter, unlock, unlock);
}

void emu_wait_acked(const uint32_t *acked, const unsigned int *delivered)
{
	while (*acked != *delivered)
		pthread_cond_wait(&emu.acked, &emu.mutex);
}

int emu_call(enum emu_call call)
{
	struct call_state *state = &calls[call];
	int remaining;

	if (call != CALL_ibv_poll_cq) /* which tells only what it finds */
		emu_trace("verbs", call_names[call]);
	atomic_fetch_add_explicit(&state->count, 1, memory_order_relaxed);
	remaining = atomic_load_explicit(&state->remaining, memory_order_relaxed);
	while (remaining > 0)
		if (atomic_compare_exchange_weak(&state->remaining, &remaining, remaining - 1))
			return remaining == 1 ? atomic_load(&state->error) : 0;
	return remaining < 0 ? atomic_load(&state->error) : 0;
}

int emu_verbs_fail(const char *call, int nth, int error)
{
	size_t length = strlen(call);
	bool prefix = length > 0 && call[length - 1] == '*';
	int found = 0;

	for (unsigned int i = 0; i < EMU_CALL_COUNT; i++) {
		if (prefix ? strncmp(call, call_names[i], length - 1) != 0
			   : strcmp(call, call_names[i]) != 0)
			continue;
		atomic_store(&calls[i].error, error);
		atomic_store(&calls[i].remaining, nth);
		found++;
	}
	return found;
}

long emu_verbs_calls(const char *call)
{
	for (unsigned int i = 0; i < EMU_CALL_COUNT; i++)
		if (!strcmp(call, call_names[i]))
			return atomic_load(&calls[i].count);
	return -1;
}

void emu_verbs_counts(struct emu_verbs_counts *counts)
{
	emu_enter();
	*counts = emu.counts;
	emu_leave();
}

void emu_verbs_reset(void)
{
	emu_verbs_fail("*", 0, 0);
	emu_enter();
	for (unsigned int i = 0; i < EMU_DEVICES; i++)
		emu.devices[i].removed = false;
	emu_leave();
}
