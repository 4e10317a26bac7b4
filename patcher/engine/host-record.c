/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/engine/host-record.h"

#include <string.h>

/* The fixed part, in the record's fields; stack and items follow as the record's items. */
struct trap_words {
	uint64_t key, call_site, args[CAPTURE_ARGUMENTS], result, slab_cache, saved, owner;
	uint64_t pid, tgid, cgroup, comm[CAPTURE_COMM_SIZE / 8];
	uint32_t ref, nr_stack;
};

_Static_assert(sizeof(struct trap_words) == TRAP_RECORD_WORDS * 8, "counted");

enum {
	FIXED_BYTES = sizeof(struct ring_record) + sizeof(struct trap_words),
	MAX_WORDS = (RING_MAX_ORDERED - FIXED_BYTES) / 8,
};

_Static_assert((int)MAX_WORDS > (int)CAPTURE_MAX_STACK, "a stack leaves room for items");

const struct ring_shape trap_record_shapes[TRAP_RECORD_SHAPES] = {
	[POINT_ENTRY] = {.size = FIXED_BYTES, .items = MAX_WORDS},
	[POINT_RETURN] = {.size = FIXED_BYTES, .items = MAX_WORDS},
};

size_t trap_record_max_items(const struct probe_hit *hit)
{
	return MAX_WORDS - hit->nr_stack;
}

uint32_t trap_record_size(const struct probe_hit *hit)
{
	return (uint32_t)(FIXED_BYTES + (hit->nr_stack + hit->nr_items) * 8);
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
				   .nr_stack = (uint32_t)hit->nr_stack};

	record->items = (uint32_t)(hit->nr_stack + hit->nr_items);
	memcpy(words.args, hit->args, sizeof(words.args));
	memcpy(words.comm, hit->comm, sizeof(words.comm));
	memcpy(record->fields, &words, sizeof(words));
	if (hit->nr_stack)
		memcpy(record->fields + TRAP_RECORD_WORDS, hit->stack, hit->nr_stack * 8);
	if (hit->nr_items)
		memcpy(record->fields + TRAP_RECORD_WORDS + hit->nr_stack, hit->items,
		       hit->nr_items * 8);
}

void trap_record_read(const struct ring_taken *taken, enum probe_point *point, uint32_t *ref,
		      struct probe_hit *hit)
{
	struct trap_words words;

	memcpy(&words, taken->fields, sizeof(words));
	*point = (enum probe_point)taken->id;
	*ref = words.ref;
	*hit = (struct probe_hit){.key = words.key,
				  .call_site = words.call_site,
				  .result = words.result,
				  .slab_cache = words.slab_cache,
				  .saved = words.saved,
				  .owner = words.owner,
				  .pid = words.pid,
				  .tgid = words.tgid,
				  .cgroup = words.cgroup,
				  .stack = taken->fields + TRAP_RECORD_WORDS,
				  .nr_stack = words.nr_stack,
				  .items = taken->fields + TRAP_RECORD_WORDS + words.nr_stack,
				  .nr_items = taken->items - words.nr_stack};
	memcpy(hit->args, words.args, sizeof(hit->args));
	memcpy(hit->comm, words.comm, sizeof(hit->comm));
}
