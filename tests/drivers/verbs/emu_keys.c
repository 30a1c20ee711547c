/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys of regions and windows.  A key is a slot's number and, in its low 8 bits, a count of the slot's uses, so
 * that a stale key is refused.  Free slots are used again in the order in which they became free, and only
 * while more than SPARE of them are free.
 */
#include "tests/drivers/verbs/emu.h"

#define SPARE 1024u

struct slot {
	void *object;
	enum emu_key_kind kind;
	uint8_t low;
	uint32_t next_free;
};

static struct {
	struct slot *slots;
	uint32_t used, size; /* slots ever used, slots there is memory for */
	uint32_t free_head, free_tail, free_count;
} table = { .used = 1 };

static uint32_t take_slot(void)
{
	uint32_t index;

	if (table.free_count > SPARE) {
		index = table.free_head;
		table.free_head = table.slots[index].next_free;
		table.free_count--;
		return index;
	}
	if (table.used >= table.size) {
		uint32_t size = table.size ? table.size * 2 : 1024;
		struct slot *slots = realloc(table.slots, size * sizeof(*slots));

		if (!slots)
			return 0;
		memset(slots + table.size, 0, (size - table.size) * sizeof(*slots));
		table.slots = slots;
		table.size = size;
	}
	return table.used++;
}

uint32_t emu_key_add(enum emu_key_kind kind, void *object)
{
	uint32_t index = take_slot();
	struct slot *slot;

	if (!index)
		return 0;
	slot = &table.slots[index];
	slot->object = object;
	slot->kind = kind;
	/* Differs from the slot's last key and from what neighbours have. */
	slot->low = (uint8_t)(slot->low + 1 + index % 7);
	return index << 8 | slot->low;
}

void emu_key_del(uint32_t key)
{
	uint32_t index = key >> 8;

	table.slots[index].object = NULL;
	table.slots[index].kind = EMU_KEY_FREE;
	if (table.free_count++)
		table.slots[table.free_tail].next_free = index;
	else
		table.free_head = index;
	table.free_tail = index;
}

void emu_key_set_low(uint32_t key, uint32_t replacement)
{
	table.slots[key >> 8].low = (uint8_t)replacement;
}

void *emu_key_find(uint32_t key, enum emu_key_kind *kind)
{
	uint32_t index = key >> 8;

	if (index >= table.used || table.slots[index].kind == EMU_KEY_FREE ||
	    table.slots[index].low != (uint8_t)key)
		return NULL;
	*kind = table.slots[index].kind;
	return table.slots[index].object;
}

static void __attribute__((destructor)) free_table(void)
{
	free(table.slots);
}
