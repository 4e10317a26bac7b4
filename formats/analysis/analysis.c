/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/analysis.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/u64-map.h"

struct live_object {
	uint64_t bytes;
	uint32_t group;
	uint16_t vcpu;
	uint8_t type;
};

struct analysis {
	enum analysis_by by;
	int type;
	struct analysis_totals totals;
	/* A slab's first object and the pages under it have the same address: two name spaces. */
	struct u64_map slab_objects, pages;
	struct u64_map group_index; /* key to uint32_t */
	struct analysis_group *groups;
	uint32_t nr_groups, max_groups;
};

struct analysis *analysis_create(enum analysis_by by, int type)
{
	struct analysis *analysis = calloc(1, sizeof(*analysis));

	if (!analysis)
		return NULL;
	analysis->by = by;
	analysis->type = type;
	u64_map_init(&analysis->slab_objects, sizeof(struct live_object));
	u64_map_init(&analysis->pages, sizeof(struct live_object));
	u64_map_init(&analysis->group_index, sizeof(uint32_t));
	return analysis;
}

void analysis_destroy(struct analysis *analysis)
{
	if (!analysis)
		return;
	u64_map_deinit(&analysis->slab_objects);
	u64_map_deinit(&analysis->pages);
	u64_map_deinit(&analysis->group_index);
	free(analysis->groups);
	free(analysis);
}

static void add(uint64_t *sum, uint64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = UINT64_MAX;
}

static void subtract(uint64_t *sum, uint64_t value)
{
	*sum -= value < *sum ? value : *sum;
}

static uint64_t group_key(const struct analysis *analysis, const struct kmem_record *record)
{
	switch (analysis->by) {
	case ANALYSIS_BY_CALLSITE:
		return record->call_site;
	case ANALYSIS_BY_CACHE:
		return record->cache ? record->cache : ANALYSIS_NO_CACHE + record->type_id;
	case ANALYSIS_BY_SIZE:
		return record->bytes_req;
	case ANALYSIS_BY_POINTER:
		return record->ptr;
	}
	return 0;
}

static struct analysis_group *new_group(struct analysis *analysis, uint64_t key)
{
	if (analysis->nr_groups == analysis->max_groups) {
		uint32_t max = analysis->max_groups ? analysis->max_groups * 2 : 256;
		struct analysis_group *bigger;

		if (max < analysis->max_groups)
			return NULL;
		bigger = reallocarray(analysis->groups, max, sizeof(*bigger));
		if (!bigger)
			return NULL;
		analysis->groups = bigger;
		analysis->max_groups = max;
	}
	analysis->groups[analysis->nr_groups] = (struct analysis_group){.key = key};
	return &analysis->groups[analysis->nr_groups++];
}

static struct analysis_group *find_group(struct analysis *analysis, uint64_t key)
{
	bool is_new;
	uint32_t *index = u64_map_insert(&analysis->group_index, key, &is_new);

	if (!index)
		return NULL;
	if (!is_new)
		return &analysis->groups[*index];
	*index = analysis->nr_groups;
	return new_group(analysis, key);
}

static void count_allocation(struct analysis_group *group, const struct kmem_record *record)
{
	add(&group->hits, 1);
	add(&group->bytes_requested, record->bytes_req);
	add(&group->bytes_allocated, record->bytes_alloc);
	add(&group->live_objects, 1);
	add(&group->live_bytes, record->bytes_alloc);
}

static void end_life(struct analysis_group *group, const struct live_object *object, bool cross_cpu)
{
	subtract(&group->live_objects, 1);
	subtract(&group->live_bytes, object->bytes);
	group->cross_cpu_frees += cross_cpu;
}

static struct u64_map *objects(struct analysis *analysis, uint8_t type)
{
	return type == KMEM_TYPE_PAGES ? &analysis->pages : &analysis->slab_objects;
}

static bool wanted(const struct analysis *analysis, uint8_t type)
{
	return analysis->type == ANALYSIS_ALL_TYPES || analysis->type == type;
}

/* Remove the object at a record's address, if there is one. */
static bool forget(struct analysis *analysis, const struct trace_event *event, bool freed)
{
	struct u64_map *map = objects(analysis, event->record.type_id);
	const struct live_object *object = u64_map_find(map, event->record.ptr);
	bool cross_cpu;

	if (!object)
		return false;
	cross_cpu = freed && object->vcpu != event->vcpu;
	end_life(&analysis->groups[object->group], object, cross_cpu);
	end_life(&analysis->totals.sum, object, cross_cpu);
	end_life(&analysis->totals.by_type[object->type], object, cross_cpu);
	u64_map_remove(map, event->record.ptr);
	return true;
}

static int add_alloc(struct analysis *analysis, const struct trace_event *event)
{
	const struct kmem_record *record = &event->record;
	struct analysis_totals *totals = &analysis->totals;
	struct analysis_group *group;
	struct live_object *object;

	if (forget(analysis, event, false))
		totals->missed_frees++;
	if (!wanted(analysis, record->type_id))
		return 0;
	group = find_group(analysis, group_key(analysis, record));
	object = group ? u64_map_insert(objects(analysis, record->type_id), record->ptr, NULL)
		       : NULL;
	if (!object)
		return -ENOMEM;
	*object = (struct live_object){
		.bytes = record->bytes_alloc,
		.group = (uint32_t)(group - analysis->groups),
		.vcpu = (uint16_t)event->vcpu,
		.type = record->type_id,
	};
	count_allocation(group, record);
	count_allocation(&totals->sum, record);
	count_allocation(&totals->by_type[record->type_id], record);
	if (totals->sum.live_objects > totals->peak_live_objects)
		totals->peak_live_objects = totals->sum.live_objects;
	return 0;
}

/* With a filter by type a free counts if its object does, whichever function freed it. */
static void add_free(struct analysis *analysis, const struct trace_event *event)
{
	if (forget(analysis, event, true)) {
		analysis->totals.free_events++;
	} else if (wanted(analysis, event->record.type_id)) {
		analysis->totals.free_events++;
		analysis->totals.unknown_frees++;
	}
}

static void note_time(struct analysis_totals *totals, int64_t timestamp)
{
	if (!totals->records++) {
		totals->first_ns = totals->last_ns = timestamp;
		return;
	}
	if (timestamp < totals->first_ns)
		totals->first_ns = timestamp;
	if (timestamp > totals->last_ns)
		totals->last_ns = timestamp;
}

int analysis_add(struct analysis *analysis, const struct trace_event *event)
{
	const struct kmem_record *record = &event->record;

	note_time(&analysis->totals, record->timestamp);
	if (record->type_id < KMEM_TYPE_COUNT) {
		if (record->event_id == KMEM_EVENT_ALLOC)
			return add_alloc(analysis, event);
		if (record->event_id == KMEM_EVENT_FREE) {
			add_free(analysis, event);
			return 0;
		}
	}
	analysis->totals.invalid++;
	return 0;
}

const struct analysis_totals *analysis_totals(const struct analysis *analysis)
{
	return &analysis->totals;
}

double analysis_fragmentation(const struct analysis_group *group)
{
	if (group->bytes_allocated <= group->bytes_requested)
		return 0;
	return 100.0 * (double)(group->bytes_allocated - group->bytes_requested) /
	       (double)group->bytes_allocated;
}

static double sort_value(const struct analysis_group *group, enum analysis_sort sort)
{
	switch (sort) {
	case ANALYSIS_SORT_HITS:
		return (double)group->hits;
	case ANALYSIS_SORT_BYTES:
		return (double)group->bytes_allocated;
	case ANALYSIS_SORT_REQUESTED:
		return (double)group->bytes_requested;
	case ANALYSIS_SORT_FRAGMENTATION:
		return analysis_fragmentation(group);
	case ANALYSIS_SORT_CROSS_CPU:
		return (double)group->cross_cpu_frees;
	case ANALYSIS_SORT_LIVE:
		return (double)group->live_bytes;
	}
	return 0;
}

static int descending(uint64_t x, uint64_t y)
{
	return (x < y) - (x > y);
}

static int compare_groups(const void *a, const void *b, void *arg)
{
	const enum analysis_sort *sort = arg;
	const struct analysis_group *x = a, *y = b;
	double vx = sort_value(x, *sort), vy = sort_value(y, *sort);

	if (vx != vy)
		return vx < vy ? 1 : -1;
	if (x->bytes_allocated != y->bytes_allocated)
		return descending(x->bytes_allocated, y->bytes_allocated);
	if (x->hits != y->hits)
		return descending(x->hits, y->hits);
	return -descending(x->key, y->key);
}

size_t analysis_sort(struct analysis *analysis, enum analysis_sort sort,
		     const struct analysis_group **groups)
{
	if (analysis->nr_groups)
		qsort_r(analysis->groups, analysis->nr_groups, sizeof(*analysis->groups),
			compare_groups, &sort);
	*groups = analysis->groups;
	return analysis->nr_groups;
}

size_t analysis_memory(const struct analysis *analysis)
{
	return sizeof(*analysis) + analysis->max_groups * sizeof(*analysis->groups) +
	       u64_map_memory(&analysis->slab_objects) + u64_map_memory(&analysis->pages) +
	       u64_map_memory(&analysis->group_index);
}
