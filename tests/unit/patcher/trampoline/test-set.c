/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The trampolines of a whole plan, and what their records say. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/site.h"
#include "tests/lib/fake-exitless.h"
#include "tests/lib/tap.h"

enum { CODE_BYTES = 64 << 10, JMP_SIZE = 5, INT3 = 0xcc, SMALL_SLOT = 2 };

/* Behind the fake kernel, in reach of its text. */
static const uint64_t room_gva = FAKE_LINK_TEXT + FAKE_SLIDE + (64 << 20);

static struct fake_exitless f;
static struct trampoline_set set;
static uint8_t bytes[CODE_BYTES];

static int make(uint64_t gva, size_t size, struct error *err)
{
	const struct trampoline_kernel kernel = {.page_offset = FAKE_PAGE_OFFSET,
						 .vmemmap = FAKE_VMEMMAP,
						 .pages = FAKE_RAM >> 12,
						 .page_compound_head = 8,
						 .page_slab_cache = 8,
						 .slab = {48, 0xff000000, 0xf5000000},
						 .page_head_bit = 6};
	const struct trampoline_room room = {
		.gva = gva,
		.bytes = bytes,
		.size = size,
		.rings = {.gva = gva + CODE_BYTES, .data_bytes = FAKE_RING_BYTES, .cpus = 4},
		.kernel = &kernel,
		.saved_arrays = gva + 2 * CODE_BYTES};

	return trampoline_set_make(&set, &f.plan, &f.traps, f.decoder, &room, err);
}

static void begin(void)
{
	fake_exitless_init(&f, TRAMPOLINE_BLOCK);
}

static void end(void)
{
	trampoline_set_deinit(&set);
	fake_exitless_deinit(&f);
}

static struct patch *patch_of(size_t place)
{
	return place < f.plan.entries.n ? &f.plan.entries.v[place]
					: &f.plan.returns.v[place - f.plan.entries.n];
}

static bool is_trap(const struct patch *patch)
{
	return patch->new_bytes[0] == 0xe6 && patch->new_bytes[1] == GUEST_TRAP_PORT;
}

/* 0 if the patch is no jump. */
static uint64_t target_of(const struct patch *patch)
{
	int32_t distance;

	memcpy(&distance, patch->new_bytes + 1, sizeof(distance));
	return patch->new_bytes[0] != 0xe9 ? 0
					   : patch->gva + JMP_SIZE + (uint64_t)(int64_t)distance;
}

static void test_every_place(void)
{
	uint64_t end_before = room_gva;
	size_t jumps = 0;

	begin();
	ok(!make(room_gva, CODE_BYTES, NULL), "trampolines are made for a plan");
	is_u64(set.n, FAKE_NR_PROBES + FAKE_NR_EXITS,
	       "a set has as many places as the plan has patches");
	for (size_t i = 0; i < set.n; i++) {
		uint64_t target = target_of(patch_of(i));

		if (!set.places[i].made)
			continue;
		/* in order, each behind the retry and skip of the one before */
		jumps += target >= end_before && target < set.places[i].retry &&
			 target < set.places[i].skip && bytes[target - room_gva] != INT3;
		end_before = set.places[i].skip;
	}
	is_u64(jumps, set.made, "each patch jumps to code of its own");
	ok(set.made >= FAKE_NR_PROBES && end_before < room_gva + set.code_bytes,
	   "the code lies in the room");
	end();
}

static void test_slow_paths(void)
{
	size_t found = 0, outs = 0;

	begin();
	make(room_gva, CODE_BYTES, NULL);
	for (uint64_t gva = room_gva; gva < room_gva + set.code_bytes; gva++) {
		const struct trampoline_place *place = trampoline_set_at(&set, gva);
		const uint8_t *at = bytes + (gva - room_gva);

		found += place && place->made;
		outs += place && at[0] == 0xe6 && at[1] == GUEST_TRAP_PORT;
	}
	is_u64(found, set.made, "each trampoline's slow path leads to its place");
	is_u64(outs, set.made, "each slow path is an OUT to the trap port");
	ok(!trampoline_set_at(&set, room_gva + set.code_bytes) && !trampoline_set_at(&set, 0),
	   "addresses elsewhere lead to no place");
	end();
}

static void test_small_slot(void)
{
	struct patch *slot;

	begin();
	slot = &f.plan.returns.v[1];
	slot->size = SMALL_SLOT;
	ok(!make(room_gva, CODE_BYTES, NULL),
	   "trampolines are made for a plan with a small return slot");
	ok(!set.places[f.plan.entries.n + 1].made && is_trap(slot),
	   "a return slot smaller than a jump keeps its trap");
	ok(!set.shapes[f.plan.entries.n + 1].size, "no record has the id of a small slot");
	ok(!is_trap(&f.plan.returns.v[0]), "other return slots become jumps");
	end();
}

static void refuse(uint64_t gva, size_t size, int code, const char *what)
{
	struct error err = {0};

	begin();
	is_u64((uint64_t)-make(gva, size, &err), (uint64_t)code, what);
	ok(fake_exitless_plans_traps(&f), "after a refusal the plan has its traps: %s", err.text);
	ok(!set.places && !set.n && !trampoline_set_at(&set, gva),
	   "after a refusal the set is empty");
	end();
}

/* The refusal has the size that would do. */
static void test_least_room(void)
{
	struct error err = {0};
	size_t least = 0, most = 0;

	begin();
	make(room_gva, 1024, &err);
	ok(sscanf(err.text, "the trampolines take %zu bytes, %zu are the most", &least, &most) == 2,
	   "a refusal has sizes: %s", err.text);
	end();
	begin();
	ok(most == 1024 && least > most && !make(room_gva, least, NULL),
	   "a room of the size that the refusal says is enough");
	end();
	begin();
	ok(make(room_gva, least - 1, NULL) == -ENOSPC, "less is not");
	end();
}

/* Every byte is another one. */
static void fill(struct ring_record *record, uint32_t size)
{
	uint8_t *to = (uint8_t *)record;

	for (uint32_t i = sizeof(*record); i < size; i++)
		to[i] = (uint8_t)(i * 167 + i / 256);
}

static uint64_t word_at(const struct ring_record *record, uint32_t offset)
{
	uint64_t word = 0;

	if (offset)
		memcpy(&word, (const uint8_t *)record + offset, sizeof(word));
	return word;
}

static bool reads_right(uint32_t number, unsigned int nr_items)
{
	struct trampoline_place *place = &set.places[number];
	const uint16_t *offset = place->layout.offset;
	uint32_t size = place->layout.size + nr_items * 8;
	_Alignas(8) uint8_t memory[RING_MAX_RECORD];
	struct ring_record *record = (struct ring_record *)(void *)memory;
	struct ring_taken taken;
	const struct probe_hit *hit;
	bool good;

	fill(record, size);
	record->commit = ring_commit(number);
	record->items = nr_items;
	taken = ring_take(record);
	hit = trampoline_read(place, &taken);
	good = hit->nr_items == nr_items &&
	       hit->key == word_at(record, offset[FIELD_KEY]) + RECORD_KEY_BIAS &&
	       hit->call_site == word_at(record, offset[FIELD_CALL_SITE]) &&
	       hit->result == word_at(record, offset[FIELD_RESULT]) &&
	       hit->slab_cache == word_at(record, offset[FIELD_SLAB_CACHE]) &&
	       hit->saved == word_at(record, offset[FIELD_SAVED]) &&
	       hit->owner == word_at(record, offset[FIELD_OWNER]);
	for (unsigned int i = 0; i < CAPTURE_ARGUMENTS; i++)
		good &= hit->args[i] == word_at(record, offset[FIELD_ARG0 + i]);
	for (unsigned int i = 0; i < nr_items; i++)
		good &= hit->items[i] == word_at(record, place->layout.items + i * 8);
	if (offset[FIELD_STACK])
		good &= hit->nr_stack == place->capture.stack_words &&
			(const uint8_t *)hit->stack == memory + offset[FIELD_STACK];
	return good && (offset[FIELD_STACK] || !hit->nr_stack);
}

static void test_records(void)
{
	size_t good = 0, tried = 0, bulk = 0;

	begin();
	make(room_gva, CODE_BYTES, NULL);
	for (uint32_t i = 0; i < set.n; i++) {
		unsigned int max = set.shapes[i].items;

		if (!set.places[i].made)
			continue;
		for (unsigned int items = 0; items <= max; items++, tried++)
			good += reads_right(i, items);
		bulk += max != 0;
	}
	ok(bulk >= 2, "some places have items");
	is_u64(good, tried, "records of each place, with any number of items, are read back");
	end();
}

int main(void)
{
	test_every_place();
	test_slow_paths();
	test_small_slot();
	refuse(room_gva, 1024, ENOSPC, "too little room for all trampolines is refused");
	test_least_room();
	refuse(FAKE_PAGE_OFFSET, CODE_BYTES, ERANGE, "a room that code cannot address is refused");
	test_records();
	return tap_done();
}
