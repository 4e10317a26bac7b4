/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/kmem-sums.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/u64-map.h"

struct kmem_event {
	unsigned int vcpu;
	struct kmem_record record;
};

struct live_object {
	uint64_t bytes;
	uint32_t group;
	uint16_t vcpu;
	uint8_t type;
};

struct kmem_sums {
	enum kmem_by by;
	int type;
	struct kmem_totals totals;
	/* A slab's first object and the pages below it have the same address: two maps. */
	struct u64_map slab_objects, pages;
	struct u64_map group_index; /* key to uint32_t */
	struct kmem_group *groups;
	uint32_t nr_groups, max_groups;
};

struct kmem_sums *kmem_sums_create(enum kmem_by by, int type)
{
	struct kmem_sums *sums = calloc(1, sizeof(*sums));

	if (!sums)
		return NULL;
	sums->by = by;
	sums->type = type;
	u64_map_init(&sums->slab_objects, sizeof(struct live_object));
	u64_map_init(&sums->pages, sizeof(struct live_object));
	u64_map_init(&sums->group_index, sizeof(uint32_t));
	return sums;
}

void kmem_sums_destroy(struct kmem_sums *sums)
{
	if (!sums)
		return;
	u64_map_deinit(&sums->slab_objects);
	u64_map_deinit(&sums->pages);
	u64_map_deinit(&sums->group_index);
	free(sums->groups);
	free(sums);
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

static uint64_t group_key(const struct kmem_sums *sums, const struct kmem_record *record)
{
	switch (sums->by) {
	case KMEM_BY_CALLSITE:
		return record->call_site;
	case KMEM_BY_CACHE:
		return record->cache ? record->cache : KMEM_NO_CACHE + record->type_id;
	case KMEM_BY_SIZE:
		return record->bytes_req;
	case KMEM_BY_POINTER:
		return record->ptr;
	}
	return 0;
}

static struct kmem_group *new_group(struct kmem_sums *sums, uint64_t key)
{
	if (sums->nr_groups == sums->max_groups) {
		uint32_t max = sums->max_groups ? sums->max_groups * 2 : 256;
		struct kmem_group *bigger;

		if (max < sums->max_groups)
			return NULL;
		bigger = reallocarray(sums->groups, max, sizeof(*bigger));
		if (!bigger)
			return NULL;
		sums->groups = bigger;
		sums->max_groups = max;
	}
	sums->groups[sums->nr_groups] = (struct kmem_group){.key = key};
	return &sums->groups[sums->nr_groups++];
}

static struct kmem_group *find_group(struct kmem_sums *sums, uint64_t key)
{
	bool is_new;
	uint32_t *index = u64_map_insert(&sums->group_index, key, &is_new);

	if (!index)
		return NULL;
	if (!is_new)
		return &sums->groups[*index];
	*index = sums->nr_groups;
	return new_group(sums, key);
}

static void count_allocation(struct kmem_group *group, const struct kmem_record *record)
{
	add(&group->hits, 1);
	add(&group->bytes_requested, record->bytes_req);
	add(&group->bytes_allocated, record->bytes_alloc);
	add(&group->live_objects, 1);
	add(&group->live_bytes, record->bytes_alloc);
}

static void end_life(struct kmem_group *group, const struct live_object *object, bool cross_cpu)
{
	subtract(&group->live_objects, 1);
	subtract(&group->live_bytes, object->bytes);
	group->cross_cpu_frees += cross_cpu;
}

static struct u64_map *objects(struct kmem_sums *sums, uint8_t type)
{
	return type == KMEM_TYPE_PAGES ? &sums->pages : &sums->slab_objects;
}

static bool wanted(const struct kmem_sums *sums, uint8_t type)
{
	return sums->type == KMEM_ALL_TYPES || sums->type == type;
}

/* Remove the object at a record's address, if there is one. */
static bool forget(struct kmem_sums *sums, const struct kmem_event *event, bool freed)
{
	struct u64_map *map = objects(sums, event->record.type_id);
	const struct live_object *object = u64_map_find(map, event->record.ptr);
	bool cross_cpu;

	if (!object)
		return false;
	cross_cpu = freed && object->vcpu != event->vcpu;
	end_life(&sums->groups[object->group], object, cross_cpu);
	end_life(&sums->totals.sum, object, cross_cpu);
	end_life(&sums->totals.by_type[object->type], object, cross_cpu);
	u64_map_remove(map, event->record.ptr);
	return true;
}

static int add_alloc(struct kmem_sums *sums, const struct kmem_event *event)
{
	const struct kmem_record *record = &event->record;
	struct kmem_totals *totals = &sums->totals;
	struct kmem_group *group;
	struct live_object *object;

	if (forget(sums, event, false))
		totals->missed_frees++;
	if (!wanted(sums, record->type_id))
		return 0;
	group = find_group(sums, group_key(sums, record));
	object = group ? u64_map_insert(objects(sums, record->type_id), record->ptr, NULL) : NULL;
	if (!object)
		return -ENOMEM;
	*object = (struct live_object){
		.bytes = record->bytes_alloc,
		.group = (uint32_t)(group - sums->groups),
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

/* With a filter by type, a free counts if its object does, whichever function freed it. */
static void add_free(struct kmem_sums *sums, const struct kmem_event *event)
{
	if (forget(sums, event, true)) {
		sums->totals.free_events++;
	} else if (wanted(sums, event->record.type_id)) {
		sums->totals.free_events++;
		sums->totals.unknown_frees++;
	}
}

static void note_time(struct kmem_totals *totals, int64_t timestamp)
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

int kmem_sums_add(struct kmem_sums *sums, const struct event *event)
{
	struct kmem_event what = {.vcpu = event->vcpu};
	const struct kmem_record *record = &what.record;

	if (!kmem_record_of(event, &what.record))
		return 0;
	note_time(&sums->totals, record->timestamp);
	if (record->type_id < KMEM_TYPE_COUNT) {
		if (record->event_id == KMEM_EVENT_ALLOC)
			return add_alloc(sums, &what);
		if (record->event_id == KMEM_EVENT_FREE) {
			add_free(sums, &what);
			return 0;
		}
	}
	sums->totals.invalid++;
	return 0;
}

const struct kmem_totals *kmem_sums_totals(const struct kmem_sums *sums)
{
	return &sums->totals;
}

double kmem_fragmentation(const struct kmem_group *group)
{
	if (group->bytes_allocated <= group->bytes_requested)
		return 0;
	return 100.0 * (double)(group->bytes_allocated - group->bytes_requested) /
	       (double)group->bytes_allocated;
}

static double sort_value(const struct kmem_group *group, enum kmem_sort sort)
{
	switch (sort) {
	case KMEM_SORT_HITS:
		return (double)group->hits;
	case KMEM_SORT_BYTES:
		return (double)group->bytes_allocated;
	case KMEM_SORT_REQUESTED:
		return (double)group->bytes_requested;
	case KMEM_SORT_FRAGMENTATION:
		return kmem_fragmentation(group);
	case KMEM_SORT_CROSS_CPU:
		return (double)group->cross_cpu_frees;
	case KMEM_SORT_LIVE:
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
	const enum kmem_sort *sort = arg;
	const struct kmem_group *x = a, *y = b;
	double vx = sort_value(x, *sort), vy = sort_value(y, *sort);

	if (vx != vy)
		return vx < vy ? 1 : -1;
	if (x->bytes_allocated != y->bytes_allocated)
		return descending(x->bytes_allocated, y->bytes_allocated);
	if (x->hits != y->hits)
		return descending(x->hits, y->hits);
	return -descending(x->key, y->key);
}

size_t kmem_sums_sort(struct kmem_sums *sums, enum kmem_sort sort, const struct kmem_group **groups)
{
	if (sums->nr_groups)
		qsort_r(sums->groups, sums->nr_groups, sizeof(*sums->groups), compare_groups,
			&sort);
	*groups = sums->groups;
	return sums->nr_groups;
}

size_t kmem_sums_memory(const struct kmem_sums *sums)
{
	return sizeof(*sums) + sums->max_groups * sizeof(*sums->groups) +
	       u64_map_memory(&sums->slab_objects) + u64_map_memory(&sums->pages) +
	       u64_map_memory(&sums->group_index);
}
