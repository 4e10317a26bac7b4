/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/groups/groups-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/groups/group-sums.h"

static bool is_of_origin(enum dimension by)
{
	return by == BY_CALLSITE || by == BY_CACHE || by == BY_TYPE || by == BY_FUNCTION ||
	       by == BY_MODULE;
}

struct groups *groups_create(const struct grouping *by, const struct heap *heap,
			     const struct sidecar *sidecar)
{
	struct groups *groups = calloc(1, sizeof(*groups));

	if (!groups)
		return NULL;
	groups->by = *by;
	groups->heap = heap;
	groups->sidecar = sidecar;
	groups->by_origin_only = true;
	for (size_t i = 0; i < by->n; i++) {
		groups->by_origin_only &= is_of_origin(by->by[i]);
		groups->has_site |= by->by[i] == BY_CALLSITE || by->by[i] == BY_FUNCTION;
	}
	u64_map_init(&groups->index, sizeof(uint32_t));
	name_numbers_init(&groups->modules);
	name_numbers_init(&groups->structs);
	return groups;
}

void groups_destroy(struct groups *groups)
{
	if (!groups)
		return;
	u64_map_deinit(&groups->index);
	name_numbers_deinit(&groups->modules);
	name_numbers_deinit(&groups->structs);
	free(groups->all);
	free(groups->of_origin);
	free(groups);
}

/* --- groups ---------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct groups *groups, const struct group *key)
{
	uint64_t hash = key->role;

	for (size_t i = 0; i < groups->by.n; i++) {
		hash = (hash ^ key->keys[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash;
}

static struct group *add_group(struct groups *groups, const struct group *key)
{
	if (groups->count == groups->room) {
		uint32_t room = groups->room ? groups->room * 2 : 256;
		struct group *bigger = room > groups->room
					       ? reallocarray(groups->all, room, sizeof(*bigger))
					       : NULL;

		if (!bigger)
			return NULL;
		groups->all = bigger;
		groups->room = room;
	}
	groups->all[groups->count] = *key;
	return &groups->all[groups->count++];
}

static struct group *find_group(struct groups *groups, const struct group *key)
{
	bool is_new;
	uint32_t *last = u64_map_insert(&groups->index, hash_of(groups, key), &is_new);
	struct group *group;

	if (!last)
		return NULL;
	for (uint32_t i = is_new ? 0 : *last + 1; i; i = groups->all[i - 1].next) {
		group = &groups->all[i - 1];
		if (group->role == key->role && !memcmp(group->keys, key->keys, sizeof(key->keys)))
			return group;
	}
	group = add_group(groups, key);
	if (!group)
		return NULL;
	group->next = is_new ? 0 : *last + 1;
	*last = groups->count - 1;
	return group;
}

/* Where the number of the group of an origin is kept. NULL: no memory. */
static uint32_t *slot_of(struct groups *groups, uint32_t origin)
{
	if (origin >= groups->nr_of_origin) {
		size_t n = origin < 128 ? 256 : (size_t)origin * 2;
		uint32_t *bigger = reallocarray(groups->of_origin, n, sizeof(*bigger));

		if (!bigger)
			return NULL;
		memset(bigger + groups->nr_of_origin, 0,
		       (n - groups->nr_of_origin) * sizeof(*bigger));
		groups->of_origin = bigger;
		groups->nr_of_origin = n;
	}
	return &groups->of_origin[origin];
}

static struct group *search_group(struct groups *groups, const struct heap_object *object,
				  uint64_t ptr)
{
	const struct heap_origin *origin = heap_origin(groups->heap, object->origin);
	struct group key = {.role = object->role,
			    .is_wrapper = groups->has_site && origin->is_wrapper};

	for (size_t i = 0; i < groups->by.n; i++)
		key.keys[i] = groups_key_of(groups, groups->by.by[i], object, ptr);
	return find_group(groups, &key);
}

static struct group *find_group_of(struct groups *groups, const struct heap_object *object,
				   uint64_t ptr)
{
	uint32_t *slot = NULL;
	struct group *group;

	if (groups->by_origin_only) {
		slot = slot_of(groups, object->origin);
		if (!slot)
			return NULL;
	}
	group = search_group(groups, object, ptr);
	if (group && slot)
		*slot = (uint32_t)(group - groups->all) + 1;
	return group;
}

/* Mostly it is the one of the origin's last object. */
static inline struct group *group_of(struct groups *groups, const struct heap_object *object,
				     uint64_t ptr)
{
	if (object->origin < groups->nr_of_origin) {
		const uint32_t number = groups->of_origin[object->origin];

		if (number && groups->all[number - 1].role == object->role)
			return &groups->all[number - 1];
	}
	return find_group_of(groups, object, ptr);
}

/* --- sums ------------------------------------------------------------------------------------ */

/* The pieces of a block are in the same group, unless sizes or addresses tell them apart. */
static int split(struct groups *groups, const struct heap_change *change)
{
	struct heap_object piece = *change->object;
	struct group *group = group_of(groups, change->object, change->ptr);

	if (!group)
		return -ENOMEM;
	group_end_life(group, change->object);
	piece.bytes = piece.requested = HEAP_PAGE_SIZE;
	for (uint32_t i = 0; i < change->pieces; i++) {
		group = group_of(groups, &piece, change->ptr + (uint64_t)i * HEAP_PAGE_SIZE);
		if (!group)
			return -ENOMEM;
		group_begin_life(group, &piece);
	}
	return 0;
}

int groups_add(struct groups *groups, const struct heap_change *change, bool counted)
{
	struct group *group;

	if (change->kind == HEAP_SPLIT)
		return split(groups, change);
	group = group_of(groups, change->object, change->ptr);
	if (!group)
		return -ENOMEM;
	group_add(group, change, change->kind, counted);
	return 0;
}

void groups_begin_peaks(struct groups *groups)
{
	for (uint32_t i = 0; i < groups->count; i++)
		groups->all[i].peak_bytes = groups->all[i].live_bytes;
}

/* --- sums that are kept by origin ------------------------------------------------------------ */

bool groups_are_of_origins(const struct groups *groups)
{
	return groups->by_origin_only;
}

uint32_t groups_number(struct groups *groups, const struct heap_object *object)
{
	const struct group *group = group_of(groups, object, 0);

	return group ? (uint32_t)(group - groups->all) + 1 : 0;
}

struct group *groups_all(struct groups *groups)
{
	return groups->all;
}

/* All sums but for live bytes and their peak. */
static const size_t other_sums[] = {
	offsetof(struct group, hits),           offsetof(struct group, requested),
	offsetof(struct group, allocated),      offsetof(struct group, frees),
	offsetof(struct group, cross_cpu),      offsetof(struct group, cross_node),
	offsetof(struct group, lives_ns),       offsetof(struct group, live_objects),
	offsetof(struct group, live_requested),
};
enum { NR_OTHER_SUMS = sizeof(other_sums) / sizeof(other_sums[0]) };

static uint64_t *sum_at(struct group *group, size_t i)
{
	return (uint64_t *)((char *)group + other_sums[i]);
}

void groups_begin_sums(struct groups *groups)
{
	for (uint32_t i = 0; i < groups->count; i++)
		for (size_t k = 0; k < NR_OTHER_SUMS; k++)
			*sum_at(&groups->all[i], k) = 0;
}

void groups_add_sums(struct groups *groups, uint32_t number, const struct group *sums)
{
	struct group from = *sums;

	for (size_t k = 0; k < NR_OTHER_SUMS; k++)
		sum_add(sum_at(&groups->all[number - 1], k), *sum_at(&from, k));
}

void groups_subtract_sums(struct groups *groups, uint32_t number, const struct group *sums)
{
	struct group from = *sums;

	for (size_t k = 0; k < NR_OTHER_SUMS; k++)
		sum_subtract(sum_at(&groups->all[number - 1], k), *sum_at(&from, k));
}

/* --- what is old ----------------------------------------------------------------------------- */

struct older {
	struct groups *groups;
	int64_t born_ns;
	int ret;
};

static void count_older(void *arg, uint64_t ptr, const struct heap_object *object)
{
	struct older *older = arg;
	struct group *group;

	if (!object->selected || object->born_ns > older->born_ns)
		return;
	group = group_of(older->groups, object, ptr);
	if (group)
		group_begin_life(group, object);
	else
		older->ret = -ENOMEM;
}

int groups_count_older(struct groups *groups, int64_t born_ns)
{
	struct older older = {groups, born_ns, 0};

	for (uint32_t i = 0; i < groups->count; i++) {
		struct group *group = &groups->all[i];

		group->live_objects = group->live_bytes = group->live_requested = 0;
	}
	heap_each(groups->heap, count_older, &older);
	return older.ret;
}

void groups_note_slabs(struct groups *groups)
{
	for (uint32_t i = 0; i < groups->count; i++) {
		struct group *group = &groups->all[i];
		const struct heap_cache *cache = NULL;

		if (groups->by.n == 1 && groups->by.by[0] == BY_CACHE &&
		    group->keys[0] < GROUP_NO_CACHE)
			cache = heap_cache(groups->heap, (uint16_t)group->keys[0]);
		if (!cache)
			continue;
		group->slab_bytes = cache->slabs.bytes;
		group->room_bytes = cache->slabs.bytes > cache->objects.bytes
					    ? cache->slabs.bytes - cache->objects.bytes
					    : 0;
	}
}

/* --- order ----------------------------------------------------------------------------------- */

size_t groups_count(const struct groups *groups)
{
	return groups->count;
}

const struct group *groups_get(const struct groups *groups, size_t index)
{
	return &groups->all[index];
}

struct order {
	enum measure measure;
	uint64_t ns;
};

static int descending(uint64_t x, uint64_t y)
{
	return (x < y) - (x > y);
}

static int compare_groups(const void *a, const void *b, void *arg)
{
	const struct order *order = arg;
	const struct group *x = *(const struct group *const *)a;
	const struct group *y = *(const struct group *const *)b;
	double vx = measure_value(order->measure, x, order->ns);
	double vy = measure_value(order->measure, y, order->ns);
	int keys = 0;

	if (vx != vy)
		return vx < vy ? 1 : -1;
	if (x->allocated != y->allocated)
		return descending(x->allocated, y->allocated);
	if (x->hits != y->hits)
		return descending(x->hits, y->hits);
	for (int i = 0; !keys && i < GROUPING_MAX; i++)
		keys = -descending(x->keys[i], y->keys[i]);
	return keys;
}

const struct group **groups_sort(const struct groups *groups, enum measure measure, uint64_t ns)
{
	struct order order = {measure, ns};
	const struct group **all = calloc(groups->count + 1u, sizeof(struct group *));

	for (uint32_t i = 0; all && i < groups->count; i++)
		all[i] = &groups->all[i];
	if (all && groups->count)
		qsort_r(all, groups->count, sizeof(struct group *), compare_groups, &order);
	return all;
}


size_t groups_memory(const struct groups *groups)
{
	return sizeof(*groups) + groups->room * sizeof(*groups->all) +
	       u64_map_memory(&groups->index) + groups->nr_of_origin * sizeof(uint32_t) +
	       name_numbers_memory(&groups->modules) + name_numbers_memory(&groups->structs);
}
