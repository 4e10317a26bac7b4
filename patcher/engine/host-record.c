/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/engine/host-record.h"

#include <stddef.h>
#include <string.h>
#include "formats/event/event.h"

/* The fixed part, in the record's fields; stack, chain and items follow as the record's items. */
struct trap_words {
	uint64_t key, call_site, args[CAPTURE_ARGUMENTS], result, slab_cache, saved, owner;
	uint64_t pid, tgid, cgroup, comm[CAPTURE_COMM_SIZE / 8];
	uint32_t ref, nr_stack, nr_chain, captured;
};

_Static_assert(sizeof(struct trap_words) == TRAP_RECORD_WORDS * 8, "counted");

enum {
	FIXED_BYTES = sizeof(struct ring_record) + sizeof(struct trap_words),
	MAX_WORDS = (RING_MAX_RECORD - FIXED_BYTES) / 8,
	CHAIN_HEAD = offsetof(struct direct_stack, words) / 8,
};

_Static_assert(MAX_WORDS > CAPTURE_MAX_STACK + CAPTURE_MAX_ITEMS + CHAIN_HEAD + EVENT_STACK_FRAMES,
	       "all have room");

const struct ring_shape trap_record_shapes[TRAP_RECORD_SHAPES] = {
	[POINT_ENTRY] = {.size = FIXED_BYTES, .items = MAX_WORDS},
	[POINT_RETURN] = {.size = FIXED_BYTES, .items = MAX_WORDS},
};

static size_t nr_chain(const struct probe_hit *hit)
{
	return hit->chain.at ? CHAIN_HEAD + hit->chain.words : 0;
}

size_t trap_record_max_items(const struct probe_hit *hit)
{
	return MAX_WORDS - hit->nr_stack - nr_chain(hit);
}

size_t trap_record_max_chain(const struct capture *capture)
{
	size_t left = MAX_WORDS - CHAIN_HEAD;

	if (capture->fields & CAPTURE(FIELD_STACK))
		left -= capture->stack_words;
	if (capture->items.from != ITEMS_NONE)
		left -= CAPTURE_MAX_ITEMS;
	return left < capture->chain_words ? left : capture->chain_words;
}

uint32_t trap_record_size(const struct probe_hit *hit)
{
	return (uint32_t)(FIXED_BYTES + (hit->nr_stack + nr_chain(hit) + hit->nr_items) * 8);
}

void trap_record_fill(struct ring_record *record, uint32_t ref, const struct probe_hit *hit)
{
	struct trap_words words = {.key = hit->key,
				   .call_site = hit->call_site,
				   .result = hit->result,
				   .slab_cache = hit->slab_cache,
				   .saved = hit->saved,
				   .owner = hit->owner,
				   .pid = hit->pid,
				   .tgid = hit->tgid,
				   .cgroup = hit->cgroup,
				   .ref = ref,
				   .nr_stack = (uint32_t)hit->nr_stack,
				   .nr_chain = (uint32_t)nr_chain(hit),
				   .captured = hit->fields};
	uint64_t *to = record->fields + TRAP_RECORD_WORDS;

	record->items = (uint32_t)(hit->nr_stack + words.nr_chain + hit->nr_items);
	memcpy(words.args, hit->args, sizeof(words.args));
	memcpy(words.comm, hit->comm, sizeof(words.comm));
	memcpy(record->fields, &words, sizeof(words));
	if (hit->nr_stack)
		memcpy(to, hit->stack, hit->nr_stack * 8);
	to += hit->nr_stack;
	if (words.nr_chain)
		memcpy(to, hit->chain.at, words.nr_chain * 8);
	to += words.nr_chain;
	if (hit->nr_items)
		memcpy(to, hit->items, hit->nr_items * 8);
}

void trap_record_read(const struct ring_taken *taken, enum probe_point *point, uint32_t *ref,
		      struct probe_hit *hit)
{
	const uint64_t *behind = taken->fields + TRAP_RECORD_WORDS;
	struct trap_words words;

	memcpy(&words, taken->fields, sizeof(words));
	*point = (enum probe_point)taken->id;
	*ref = words.ref;
	*hit = (struct probe_hit){.fields = words.captured,
				  .key = words.key,
				  .call_site = words.call_site,
				  .result = words.result,
				  .slab_cache = words.slab_cache,
				  .saved = words.saved,
				  .owner = words.owner,
				  .pid = words.pid,
				  .tgid = words.tgid,
				  .cgroup = words.cgroup,
				  .stack = behind,
				  .nr_stack = words.nr_stack,
				  .items = behind + words.nr_stack + words.nr_chain,
				  .nr_items = taken->items - words.nr_stack - words.nr_chain};
	if (words.nr_chain)
		hit->chain =
			(struct probe_chain){.at = behind + words.nr_stack,
					     .words = words.nr_chain - CHAIN_HEAD};
	memcpy(hit->args, words.args, sizeof(hit->args));
	memcpy(hit->comm, words.comm, sizeof(hit->comm));
}
