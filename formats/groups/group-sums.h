/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_GROUPS_GROUP_SUMS_H
#define SONDE_FORMATS_GROUPS_GROUP_SUMS_H

#include "formats/groups/measure.h"
#include "formats/heap/heap.h"
#include "formats/heap/sum.h"

/* The sums of one group. Inline, as each change of the heap needs them. */

static inline void group_begin_life(struct group *group, const struct heap_object *object)
{
	group->live_objects++;
	sum_add(&group->live_bytes, object->bytes);
	sum_add(&group->live_requested, object->requested);
	if (group->live_bytes > group->peak_bytes)
		group->peak_bytes = group->live_bytes;
}

static inline void group_end_life(struct group *group, const struct heap_object *object)
{
	group->live_objects--;
	sum_subtract(&group->live_bytes, object->bytes);
	sum_subtract(&group->live_requested, object->requested);
}

static inline void group_count_alloc(struct group *group, const struct heap_object *object)
{
	group->hits++;
	sum_add(&group->requested, object->requested);
	sum_add(&group->allocated, object->bytes);
}

static inline void group_count_free(struct group *group, const struct heap_change *change)
{
	const struct heap_object *object = change->object;
	const int64_t ns = change->record->timestamp;

	group->frees++;
	group->cross_cpu += (uint16_t)change->vcpu != object->vcpu;
	group->cross_node += change->cross_node;
	if (ns > object->born_ns)
		sum_add(&group->lives_ns, (uint64_t)ns - (uint64_t)object->born_ns);
}

/* Of a group whose other sums come later (groups_add_sums()). `kind` is that of the change. */
static inline void group_note_live(struct group *group, const struct heap_change *change,
				   enum heap_change_kind kind)
{
	const uint64_t bytes = change->object->bytes;

	if (kind == HEAP_ALLOC) {
		sum_add(&group->live_bytes, bytes);
		if (group->live_bytes > group->peak_bytes)
			group->peak_bytes = group->live_bytes;
	} else if (kind != HEAP_SPLIT) {
		sum_subtract(&group->live_bytes, bytes);
	}
}

/* Add a change of this kind, with an object, to a group that has it all: of a block that is split,
 * the pieces, too. `counted` as in groups_add(). */
static inline __attribute__((always_inline)) void group_add(struct group *group,
							    const struct heap_change *change,
							    enum heap_change_kind kind,
							    bool counted)
{
	const struct heap_object *object = change->object;

	if (kind == HEAP_ALLOC) {
		group_begin_life(group, object);
		if (counted)
			group_count_alloc(group, object);
		return;
	}
	group_end_life(group, object);
	if (kind == HEAP_SPLIT) {
		group->live_objects += change->pieces;
		sum_add(&group->live_bytes, object->bytes);
		sum_add(&group->live_requested, object->bytes);
	} else if (counted && kind == HEAP_FREE) {
		group_count_free(group, change);
	}
}

#endif
