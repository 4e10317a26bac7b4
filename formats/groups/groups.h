/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_GROUPS_GROUPS_H
#define SONDE_FORMATS_GROUPS_GROUPS_H

#include "formats/groups/measure.h"
#include "formats/heap/heap.h"
#include "formats/trace/sidecar.h"

/*
 * Sums over allocations, for each group. Blocks of pages that are slabs, or large kmalloc()
 * objects, form groups of their own (group->role). Memory grows with the number of groups.
 */
struct groups;

/* The sidecar may be NULL; it must outlive the groups, as must the heap. NULL: no memory. */
struct groups *groups_create(const struct grouping *by, const struct heap *heap,
			     const struct sidecar *sidecar);
/* NULL-safe. */
void groups_destroy(struct groups *groups);

/* Add a change of the heap with an object. Not `counted`: it changes what is live, but is not one
 * of the allocations and frees. Returns 0 or -ENOMEM. */
int groups_add(struct groups *groups, const struct heap_change *change, bool counted);

/* What is counted begins: peaks are of what is live from now on. */
void groups_begin_peaks(struct groups *groups);

/*
 * Instead, where groups are of whole origins: the sums of each origin are kept elsewhere, and given
 * to the groups before they are read. Only of live bytes, groups are told with each change, for
 * their peaks.
 */
bool groups_are_of_origins(const struct groups *groups);
/* The number of an object's group, from 1 on. 0: no memory. */
uint32_t groups_number(struct groups *groups, const struct heap_object *object);
/* All groups, the first one has number 1. Valid until a number is asked for, or a change is added.
 * To be told of each change by group_note_live(). */
struct group *groups_all(struct groups *groups);
/* Forget the other sums; then add sums of origins, or of parts of them, or take such away again. */
void groups_begin_sums(struct groups *groups);
void groups_add_sums(struct groups *groups, uint32_t number, const struct group *sums);
void groups_subtract_sums(struct groups *groups, uint32_t number, const struct group *sums);

/* Count anew what is live: only what was born at this time or before, and is selected. */
int groups_count_older(struct groups *groups, int64_t born_ns);

/* Note the slabs of the groups that are a cache each. */
void groups_note_slabs(struct groups *groups);

size_t groups_count(const struct groups *groups);
/* In the order of their first allocation. */
const struct group *groups_get(const struct groups *groups, size_t index);

/* All groups, the greatest first (equal ones by bytes, hits, key); an array to be freed, of
 * groups_count(). NULL: no memory. */
const struct group **groups_sort(const struct groups *groups, enum measure measure, uint64_t ns);

/* A group as text, all its keys: "alloc_inode+0x59/0xc0, ext4_inode_cache". */
struct text groups_text(const struct groups *groups, const struct group *group);
/* The key of one dimension, by its index in the grouping. */
struct text groups_key_text(const struct groups *groups, const struct group *group, size_t index);
/* Whether groups have places in the source: they have a call site, and debug information is there.
 */
bool groups_have_source(const struct groups *groups);
/* The places of a group's call site as source_text() has them; "" if it has none. */
struct text groups_source_text(const struct groups *groups, const struct group *group);
/* The keys as members of a new object; NULL: no memory. */
json_t *groups_key_json(const struct groups *groups, const struct group *group);

/* Bytes of memory that they hold. */
size_t groups_memory(const struct groups *groups);

#endif
