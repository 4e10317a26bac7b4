/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/engine/host-record.h"

#include <string.h>

/* The fixed part, in the record's fields. */
struct trap_words {
	uint64_t key, call_site, args[CAPTURE_ARGUMENTS], result, slab_cache, kept, owner;
	uint16_t ref, nr_stack, nr_items, unused;
};

_Static_assert(sizeof(struct trap_words) == TRAP_RECORD_WORDS * 8, "counted");

const struct ring_shape *trap_record_shapes(void)
{
	static struct ring_shape shapes[TRAP_RECORD_SHAPES];

	for (uint16_t words = TRAP_RECORD_WORDS; words < TRAP_RECORD_SHAPES; words++) {
		uint16_t size = (uint16_t)(sizeof(struct ring_record) + words * 8);

		shapes[words].size[RING_ENTRY] = size;
		shapes[words].size[RING_RETURN] = size;
	}
	return shapes;
}

size_t trap_record_max_items(const struct probe_hit *hit)
{
	return TRAP_RECORD_SHAPES - 1 - TRAP_RECORD_WORDS - hit->nr_stack;
}

static size_t words_of(const struct probe_hit *hit)
{
	return TRAP_RECORD_WORDS + hit->nr_stack + hit->nr_items;
}

uint32_t trap_record_size(const struct probe_hit *hit)
{
	return (uint32_t)(sizeof(struct ring_record) + words_of(hit) * 8);
}

void trap_record_fill(struct ring_record *record, uint16_t ref, const struct probe_hit *hit)
{
	struct trap_words words = {.key = hit->key,
				   .call_site = hit->call_site,
				   .result = hit->result,
				   .slab_cache = hit->slab_cache,
				   .kept = hit->kept,
				   .owner = hit->owner,
				   .ref = ref,
				   .nr_stack = (uint16_t)hit->nr_stack,
				   .nr_items = (uint16_t)hit->nr_items};

	memcpy(words.args, hit->args, sizeof(words.args));
	memcpy(record->fields, &words, sizeof(words));
	if (hit->nr_stack)
		memcpy(record->fields + TRAP_RECORD_WORDS, hit->stack, hit->nr_stack * 8);
	if (hit->nr_items)
		memcpy(record->fields + TRAP_RECORD_WORDS + hit->nr_stack, hit->items,
		       hit->nr_items * 8);
}

uint32_t trap_record_commit(enum ring_record_kind kind, const struct probe_hit *hit)
{
	struct ring_commit commit = {
		.kind = kind, .probe = (uint16_t)words_of(hit), .size = trap_record_size(hit)};

	return ring_commit_encode(commit);
}

void trap_record_read(const struct ring_record *record, enum ring_record_kind *kind, uint16_t *ref,
		      struct probe_hit *hit)
{
	struct ring_commit commit = {.kind = RING_ENTRY};
	struct trap_words words;

	ring_commit_decode(record->commit, &commit);
	memcpy(&words, record->fields, sizeof(words));
	*kind = commit.kind;
	*ref = words.ref;
	*hit = (struct probe_hit){.key = words.key,
				  .call_site = words.call_site,
				  .result = words.result,
				  .slab_cache = words.slab_cache,
				  .kept = words.kept,
				  .owner = words.owner,
				  .stack = record->fields + TRAP_RECORD_WORDS,
				  .nr_stack = words.nr_stack,
				  .items = record->fields + TRAP_RECORD_WORDS + words.nr_stack,
				  .nr_items = words.nr_items};
	memcpy(hit->args, words.args, sizeof(hit->args));
}
