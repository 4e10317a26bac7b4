/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/lib/fake-saved-array.h"

#include <stdlib.h>
#include <string.h>
#include "introspect/guest/guest.h"

enum { RAX = 0, RCX = 1, RDX = 2, RSP = 4, RSI = 6, RDI = 7, R10 = 10, R11 = 11 };
enum { POINTER = 2, COUNT = 1 }; /* arguments */

void fake_saved_array_init(struct fake_saved_array *b, enum fake_returns returns,
			   enum trampoline_full full)
{
	struct capture entry =
		fake_capture(POINT_ENTRY, CAPTURE(FIELD_KEY) | CAPTURE(FIELD_ARG0), 0);
	struct capture leave = fake_capture(
		POINT_RETURN, CAPTURE(FIELD_KEY) | CAPTURE(FIELD_RESULT) | CAPTURE(FIELD_SAVED), 0);

	*b = (struct fake_saved_array){.rings = fake_rings_create(FAKE_SAVED_ARRAY_CPUS),
				       .kernel = fake_cpu_kernel()};
	b->cpu = fake_cpu_enter(0);
	entry.items = (struct capture_items){.from = ITEMS_SAVED,
					     .pointer = POINTER,
					     .count = COUNT,
					     .skip_filled = returns == FAKE_RETURNS_FILLED,
					     .all_or_none = returns == FAKE_RETURNS_ALL};
	leave.items.from = ITEMS_RETURNED;
	b->spec[0] = (struct trampoline_spec){
		.capture = entry, .id = FAKE_SAVED_ARRAY_ENTRY, .kernel = &b->kernel, .full = full};
	b->spec[1] = b->spec[0];
	b->spec[1].capture = leave;
	b->spec[1].id = FAKE_SAVED_ARRAY_RETURN;
	if (!fake_function_create(&b->spec[0], &b->rings, FAKE_RET, &b->entry) ||
	    !fake_function_create(&b->spec[1], &b->rings, FAKE_THUNK, &b->leave))
		abort();
}

void fake_saved_array_deinit(struct fake_saved_array *b)
{
	fake_function_destroy(&b->entry);
	fake_function_destroy(&b->leave);
	fake_cpu_leave(b->cpu);
	fake_rings_destroy(&b->rings);
}

bool fake_saved_array_take(struct fake_saved_array *b)
{
	struct ring_header *ring = fake_ring(&b->rings, 0);
	uint8_t *at = fake_ring_data(&b->rings, 0) + (b->read & (FAKE_DATA - 1));

	const struct ring_record *record = (const void *)at;
	size_t size = b->entry.trampoline.layout.size;

	memset(b->record, 0, sizeof(b->record));
	if (b->read == ring->reserve || !record->commit)
		return false;
	if (ring_id(record) == FAKE_SAVED_ARRAY_RETURN)
		size = b->leave.trampoline.layout.size + 8 * record->items;
	else if (b->entry.trampoline.layout.items)
		size += 8 * record->items;
	memcpy(b->record, at, size);
	memset(at, 0, size);
	b->read += size;
	ring->limit = b->read + FAKE_DATA - RING_SLACK;
	return true;
}

bool fake_saved_array_call(struct fake_saved_array *b, const struct fake_function *f,
			   unsigned int task)
{
	uint32_t may_change = f == &b->entry ? 1u << RAX | 1u << R10 | 1u << R11
					     : 1u << RCX | 1u << RDX | 1u << RSI | 1u << RDI |
						       1u << R10 | 1u << R11;

	b->cpu->in.reg[RSP] = (uint64_t)(uintptr_t)b->cpu->stack + FAKE_STACK - 512 - 8 * task;
	b->cpu->target = (uint64_t)(uintptr_t)f->code;
	fake_cpu_run();
	return fake_cpu_preserved(b->cpu, may_change) &&
	       b->cpu->in.reg[RSP] == b->cpu->out.reg[RSP];
}

bool fake_saved_array_enter(struct fake_saved_array *b, unsigned int task, const uint64_t *array,
			    uint32_t count)
{
	fake_cpu_randomise(b->cpu);
	b->cpu->in.reg[RDX] = (uint64_t)(uintptr_t)array;
	b->cpu->in.reg[RSI] = (fake_random() & ~(uint64_t)UINT32_MAX) | count;
	return fake_saved_array_call(b, &b->entry, task);
}

bool fake_saved_array_leave(struct fake_saved_array *b, unsigned int task, uint64_t result)
{
	fake_cpu_randomise(b->cpu);
	b->cpu->in.reg[RAX] = result;
	return fake_saved_array_call(b, &b->leave, task);
}

uint64_t fake_saved_array_field(const struct fake_saved_array *b, const struct fake_function *f,
				enum record_field which)
{
	return *(const uint64_t *)(const void *)(b->record + f->trampoline.layout.offset[which]);
}

const struct ring_record *fake_saved_array_record(const struct fake_saved_array *b)
{
	return (const void *)b->record;
}

bool fake_saved_array_entry_recorded(struct fake_saved_array *b)
{
	return fake_saved_array_take(b) &&
	       fake_saved_array_record(b)->commit == ring_commit(FAKE_SAVED_ARRAY_ENTRY) &&
	       fake_saved_array_field(b, &b->entry, FIELD_ARG0) == b->cpu->in.reg[RDI] &&
	       fake_saved_array_field(b, &b->entry, FIELD_KEY) == b->cpu->in.reg[RSP] - 16;
}

bool fake_saved_array_filled_recorded(struct fake_saved_array *b, const uint64_t *words, uint64_t n)
{
	const struct record_layout *layout = &b->entry.trampoline.layout;

	do {
		uint64_t some = n < CAPTURE_MAX_ITEMS ? n : CAPTURE_MAX_ITEMS;

		if (!fake_saved_array_entry_recorded(b) ||
		    fake_saved_array_record(b)->items != some ||
		    (some && memcmp(b->record + layout->items, words, some * sizeof(*words))))
			return false;
		words = some ? words + some : words;
		n -= some;
	} while (n);
	return !fake_saved_array_take(b);
}

bool fake_saved_array_items_recorded(struct fake_saved_array *b, uint64_t saved,
				     const uint64_t *words, uint64_t n)
{
	const struct record_layout *layout = &b->leave.trampoline.layout;

	do {
		uint64_t some = n < CAPTURE_MAX_ITEMS ? n : CAPTURE_MAX_ITEMS;

		if (!fake_saved_array_take(b) ||
		    fake_saved_array_record(b)->commit != ring_commit(FAKE_SAVED_ARRAY_RETURN) ||
		    fake_saved_array_record(b)->items != some ||
		    fake_saved_array_field(b, &b->leave, FIELD_SAVED) != saved ||
		    fake_saved_array_field(b, &b->leave, FIELD_KEY) != b->cpu->in.reg[RSP] - 16 ||
		    fake_saved_array_field(b, &b->leave, FIELD_RESULT) != b->cpu->in.reg[RAX] ||
		    (some && memcmp(b->record + layout->items, words, some * sizeof(*words))))
			return false;
		words = some ? words + some : words;
		n -= some;
	} while (n);
	return !fake_saved_array_take(b);
}

unsigned int fake_saved_array_count(const struct fake_saved_array *b)
{
	unsigned int n = 0;

	for (int i = 0; i < RING_SAVED_SLOTS; i++)
		n += b->rings.saved_arrays[i].key != 0;
	return n;
}

void fake_saved_array_fill(uint64_t *words, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		words[i] = fake_random() | 1;
}

uint64_t fake_saved_array_on_out(void *arg, uint64_t rip)
{
	struct fake_saved_array *b = arg;
	int i = fake_function_contains(&b->leave, rip);
	const struct trampoline *t = i ? &b->leave.trampoline : &b->entry.trampoline;

	b->rung++;
	if (b->answer == HOST_NOTHING)
		return rip + GUEST_TRAP_SIZE;
	if (b->answer == HOST_SKIP)
		return b->spec[i].gva + t->slow.skip;
	fake_ring(&b->rings, 0)->limit = b->read + FAKE_DATA - RING_SLACK;
	return b->spec[i].gva + t->slow.retry;
}
