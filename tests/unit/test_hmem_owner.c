/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What guards a registration that is kept, over interfaces that say what they are told to.  An argument names
 * the interfaces whose monitors the environment switches off: "off cuda rocr", or "none": no interface is used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/base/range.h"
#include "hmem/hmem.h"

#define BASE	UINT64_C(0x500000000000)
#define APART	UINT64_C(0x010000000000) /* between the memory of one interface and the next one's */
#define F(name) HMEM_FACT_##name
#define PIECE	UINT64_C(0x10000)

/* Each fake has its pieces one after the other from its base on. */
struct fake {
	enum fi_hmem_iface iface;
	struct hmem_facts pieces[4];
	size_t count;
	unsigned int calls;
	unsigned int fails_at; /* the call that fails; 0: none */
	const char *why;
};
static struct fake fakes[HMEM_IFACES];
static bool off[HMEM_IFACES]; /* switched off by the environment */

static struct {
	unsigned int warnings, infos;
	char text[512]; /* the last one */
} logged;

static void sink(enum fi_log_level level, enum fi_log_subsys subsys, const char *func, int line,
		 const char *text, void *arg)
{
	(void)subsys, (void)func, (void)line, (void)arg;
	logged.warnings += level == FI_LOG_WARN;
	logged.infos += level == FI_LOG_INFO;
	snprintf(logged.text, sizeof(logged.text), "%s", text);
}

static int find(struct fake *fake, const void *addr, struct hmem_facts *facts)
{
	if (++fake->calls == fake->fails_at)
		return -FI_EIO;
	for (size_t i = 0; i < fake->count; i++)
		if ((uintptr_t)addr - fake->pieces[i].base < fake->pieces[i].len) {
			*facts = fake->pieces[i];
			return 0;
		}
	return -FI_ENOENT;
}

#define FAKE(name, of)                                                                             \
	static int name##_look(const void *addr, struct hmem_facts *facts)                         \
	{                                                                                          \
		return find(&fakes[of], addr, facts);                                              \
	}                                                                                          \
	static int name##_own(const void *addr, struct hmem_facts *facts, const char **why)        \
	{                                                                                          \
		*why = fakes[of].why;                                                              \
		return find(&fakes[of], addr, facts);                                              \
	}
FAKE(cuda, FI_HMEM_CUDA)
FAKE(rocr, FI_HMEM_ROCR)
FAKE(ze, FI_HMEM_ZE)
FAKE(neuron, FI_HMEM_NEURON)

static int fake_start(struct hmem_status *status)
{
	(void)status;
	return 0;
}

static int fails_to_start(struct hmem_status *status)
{
	status->state = HMEM_ABSENT;
	return -FI_ENOSYS;
}

static size_t fake_count(void)
{
	return 2;
}

/* Pieces of PIECE bytes with these ids, one after the other. */
static const void *pieces(enum fi_hmem_iface iface, uint32_t flags, size_t count,
			  const uint64_t *id)
{
	struct fake *fake = &fakes[iface];

	memset(&logged, 0, sizeof(logged));
	*fake = (struct fake){ .iface = iface, .count = count };
	for (size_t i = 0; i < count; i++)
		fake->pieces[i] =
			(struct hmem_facts){ flags, flags & F(ON_HOST) ? HMEM_NO_DEVICE : 1,
					     BASE + iface * APART + i * PIECE, PIECE, id[i] };
	return (const void *)(uintptr_t)(BASE + iface * APART);
}

static struct hmem_owner owner_of(const void *addr, size_t len)
{
	struct hmem_owner owner;

	assert_int_equal(hmem_owner_of(addr, len, &owner), 0);
	return owner;
}

static const uint64_t seven[] = { 7, 8, 9, 10 }, none[] = { 0, 0, 0, 0 };

static unsigned int all_calls(void)
{
	unsigned int n = 0;

	for (size_t i = 0; i < HMEM_IFACES; i++)
		n += fakes[i].calls;
	return n;
}

static void fn_29_host_memory_asks_each_interface_once(void **state)
{
	char here[64] = "";
	struct hmem_owner owner;
	unsigned int before;

	(void)state;
	pieces(FI_HMEM_CUDA, 0, 1, seven);
	owner_of(here, 1);
	before = all_calls();
	owner = owner_of(here, sizeof(here));
	assert_int_equal(all_calls() - before, 4);
	assert_int_equal(owner.iface, FI_HMEM_SYSTEM);
	assert_int_equal(owner.guards, HMEM_GUARD_PAGES);
	assert_true(owner.id == 0);
}

/* What an interface without a shorter way says. */
static void fn_29_by_looking(void **state)
{
	static const struct {
		uint32_t flags, guards;
	} cases[] = {
		{ 0, HMEM_GUARD_ID },
		{ F(HOST_ACCESS), HMEM_GUARD_ID },
		{ F(MANAGED), HMEM_GUARD_ID },
		{ F(ON_HOST), HMEM_GUARD_ID | HMEM_GUARD_PAGES },
		{ F(VMM), 0 },
		{ F(VMM) | F(ON_HOST), 0 },
		{ F(POOL), 0 },
		{ F(IMPORTED), 0 },
		{ F(UNKNOWN), 0 },
		{ F(NO_RANGE), 0 },
	};

	(void)state;
	for (size_t i = 0; i < count_of(cases); i++) {
		const void *at = pieces(FI_HMEM_NEURON, cases[i].flags, 1, seven);
		struct hmem_owner owner = owner_of(at, 16);

		assert_int_equal(owner.guards, cases[i].guards);
		assert_int_equal(owner.iface, FI_HMEM_NEURON);
		assert_int_equal(owner.device, cases[i].flags & F(ON_HOST) ? HMEM_NO_DEVICE : 1);
		assert_int_equal(owner.id != 0, (owner.guards & HMEM_GUARD_ID) != 0);
	}
}

/* The identity of a range is that of all its pieces, and of nothing but them. */
static void fn_29_all_pieces(void **state)
{
	const uint64_t other[] = { 7, 80, 9, 10 }, untold[] = { 7, 8, 0, 10 };
	const char *at = pieces(FI_HMEM_CUDA, 0, 4, seven);
	uint64_t one = owner_of(at, PIECE).id, two = owner_of(at, PIECE + 1).id;
	uint64_t second = owner_of(at + PIECE, 1).id;
	struct hmem_owner owner;

	(void)state;
	assert_true(one && two && second && one != two && one != second && two != second);
	assert_true(owner_of(at + 100, PIECE).id == two);
	assert_true(owner_of(at + PIECE - 1, 1).id == one);
	/* the second is another: only what touches it changes */
	pieces(FI_HMEM_CUDA, 0, 4, other);
	assert_true(owner_of(at, PIECE).id == one);
	assert_true(owner_of(at, PIECE + 1).id != two);
	assert_true(owner_of(at + PIECE, 1).id != second);
	/* the same memory, mapped elsewhere */
	pieces(FI_HMEM_CUDA, 0, 4, seven);
	fakes[FI_HMEM_CUDA].pieces[0].base -= PIECE;
	assert_true(owner_of(at - PIECE, 1).id != one);
	/* one that is not told is none */
	pieces(FI_HMEM_CUDA, 0, 4, untold);
	assert_int_equal(owner_of(at, 2 * PIECE).guards, HMEM_GUARD_ID);
	assert_int_equal(owner_of(at, 2 * PIECE + 1).guards, 0);
	/* past the end, or into another device's or the host's */
	pieces(FI_HMEM_CUDA, 0, 4, seven);
	assert_int_equal(hmem_owner_of(at, 4 * PIECE + 1, &owner), -FI_EINVAL);
	assert_int_equal(owner.guards, 0);
	fakes[FI_HMEM_CUDA].pieces[1].device = 0;
	assert_int_equal(hmem_owner_of(at, 2 * PIECE, &owner), -FI_EINVAL);
	fakes[FI_HMEM_CUDA].pieces[2].flags = F(ON_HOST);
	fakes[FI_HMEM_CUDA].pieces[2].device = 0;
	assert_int_equal(hmem_owner_of(at + PIECE, 2 * PIECE, &owner), -FI_EINVAL);
	assert_int_equal(owner.guards, 0);
}

/* Asked of every id in turn: one that changes is seen, wherever it is. */
static void fn_29_any_id_matters(void **state)
{
	uint64_t id[4] = { 7, 8, 9, 10 }, seen[5];
	const char *at = pieces(FI_HMEM_CUDA, 0, 4, id);

	(void)state;
	seen[4] = owner_of(at, 4 * PIECE).id;
	for (size_t i = 0; i < 4; i++) {
		id[i] += 100;
		pieces(FI_HMEM_CUDA, 0, 4, id);
		id[i] -= 100;
		seen[i] = owner_of(at, 4 * PIECE).id;
		for (size_t k = 0; k < i; k++)
			assert_true(seen[i] != seen[k]);
		assert_true(seen[i] != seen[4]);
	}
}

/* A driver that fails in the middle: an error, no guards, and the next time it is asked again. */
static void fn_32_a_driver_that_fails(void **state)
{
	const char *at = pieces(FI_HMEM_CUDA, 0, 4, seven);
	uint64_t id = owner_of(at, 4 * PIECE).id;
	struct hmem_owner owner;

	(void)state;
	for (unsigned int i = 1; i <= 4; i++) {
		pieces(FI_HMEM_CUDA, 0, 4, seven);
		fakes[FI_HMEM_CUDA].fails_at = i;
		assert_int_equal(hmem_owner_of(at, 4 * PIECE, &owner), -FI_EIO);
		assert_int_equal(owner.guards, 0);
		assert_true(owner_of(at, 4 * PIECE).id == id);
	}
	/* one that fails is no proof that it is another's, or the host's */
	pieces(FI_HMEM_CUDA, 0, 4, seven);
	fakes[FI_HMEM_CUDA].fails_at = 1;
	at = pieces(FI_HMEM_ROCR, 0, 1, seven);
	assert_int_equal(hmem_owner_of(at, 1, &owner), -FI_EIO);
	assert_int_equal(owner.guards, 0);
}

/* Said once for an interface, with its reason, and of the next one as well. */
static void fn_32_said_once(void **state)
{
	const void *at = pieces(FI_HMEM_ROCR, 0, 1, none);

	(void)state;
	fakes[FI_HMEM_ROCR].why = "nobody tells";
	for (int i = 0; i < 10; i++)
		assert_int_equal(owner_of(at, 1).guards, 0);
	assert_int_equal(logged.warnings, 1);
	assert_non_null(strstr(logged.text, "rocr"));
	assert_non_null(strstr(logged.text, "nobody tells"));
	at = pieces(FI_HMEM_ZE, 0, 1, none);
	for (int i = 0; i < 10; i++)
		assert_int_equal(owner_of(at, 1).guards, 0);
	assert_int_equal(logged.warnings, 1);
	assert_non_null(strstr(logged.text, "ze memory"));
}

/* Nothing of an interface is kept whose monitor is switched off; the others are as ever. */
static void cache_01_switched_off(void **state)
{
	static const uint32_t kinds[] = { 0, F(ON_HOST), F(MANAGED) };

	(void)state;
	hmem_usable(); /* which has lines of its own */
	for (int i = FI_HMEM_CUDA; i <= FI_HMEM_NEURON; i++) {
		unsigned int infos = 0, warnings = 0;

		for (size_t k = 0; k < count_of(kinds); k++) {
			const void *at = pieces((enum fi_hmem_iface)i, kinds[k], 1, seven);
			struct hmem_owner owner = owner_of(at, 1);

			assert_int_equal(owner.guards != 0, !off[i]);
			assert_int_equal(owner.iface, i);
			owner_of(at, 1);
			infos += logged.infos;
			warnings += logged.warnings;
		}
		assert_int_equal(infos, off[i] ? 1 : 0);
		assert_int_equal(warnings, 0);
	}
}

static void fn_29_no_interface_costs_nothing(void **state)
{
	char here[16] = "";

	(void)state;
	assert_int_equal(owner_of(here, 1).guards, HMEM_GUARD_PAGES);
	assert_true(hmem_host_only); /* from the second on, a load and no more */
	for (int i = FI_HMEM_CUDA; i <= FI_HMEM_NEURON; i++) {
		const void *at = pieces((enum fi_hmem_iface)i, 0, 1, seven);

		assert_int_equal(owner_of(at, 1).iface, FI_HMEM_SYSTEM);
	}
	assert_int_equal(all_calls(), 0);
}

#define INJECT(name)                                                                               \
	hmem_##name.start = fake_start, hmem_##name.device_count = fake_count,                     \
	hmem_##name.look = name##_look, hmem_##name.own = name##_own

static void inject(void)
{
	INJECT(cuda);
	INJECT(rocr);
	INJECT(ze);
	INJECT(neuron);
	hmem_neuron.own = NULL;
	hmem_synapseai.start = fails_to_start;
	hm_log_set_sink(sink, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fn_29_host_memory_asks_each_interface_once),
		cmocka_unit_test(fn_29_by_looking),
		cmocka_unit_test(fn_29_all_pieces),
		cmocka_unit_test(fn_29_any_id_matters),
		cmocka_unit_test(fn_32_a_driver_that_fails),
		cmocka_unit_test(fn_32_said_once),
	};
	const struct CMUnitTest switches[] = { cmocka_unit_test(cache_01_switched_off) };
	const struct CMUnitTest without[] = { cmocka_unit_test(fn_29_no_interface_costs_nothing) };

	inject();
	if (argc > 1 && strcmp(argv[1], "none") == 0)
		return cmocka_run_group_tests(without, NULL, NULL);
	if (argc == 1)
		return cmocka_run_group_tests(tests, NULL, NULL);
	for (int i = 2; i < argc; i++)
		for (int k = FI_HMEM_CUDA; k <= FI_HMEM_ZE; k++)
			off[k] |= strcmp(argv[i], hmem_name((enum fi_hmem_iface)k)) == 0;
	return cmocka_run_group_tests(switches, NULL, NULL);
}
