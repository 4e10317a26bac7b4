/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/groups/groups.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/u64-map.h"
#include "formats/groups/group-sums.h"

enum { MAX_MODULES = 4096, MODULE_NAME = 56 };

static const uint64_t any_node = UINT32_MAX; /* -1, as 32 bits */

struct groups {
	struct grouping by;
	const struct heap *heap;
	const struct sidecar *sidecar;
	struct group *all;
	uint32_t count, room;
	struct u64_map index; /* number of the last group with this hash */
	bool has_site;        /* groups have one call site, or function, each */
	bool by_origin_only;  /* an origin's allocations are all in one group: */
	uint32_t *of_origin;  /* the group's number plus 1; 0: not known yet */
	size_t nr_of_origin;
	char (*modules)[MODULE_NAME];
	size_t nr_modules;
};

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
	return groups;
}

void groups_destroy(struct groups *groups)
{
	if (!groups)
		return;
	u64_map_deinit(&groups->index);
	free(groups->all);
	free(groups->of_origin);
	free(groups->modules);
	free(groups);
}

/* --- keys ------------------------------------------------------------------------------------ */

/* "ext4" of "ext4_create [ext4]"; "(kernel)"; "(unknown)" without a name. */
static void module_of(const struct sidecar *sidecar, uint64_t address, char out[MODULE_NAME])
{
	const struct sidecar_symbol *symbol = sidecar_symbol(sidecar, address);
	const char *from = symbol ? strchr(symbol->name, '[') : NULL;

	if (from)
		snprintf(out, MODULE_NAME, "%.*s", (int)strcspn(from + 1, "]"), from + 1);
	else
		snprintf(out, MODULE_NAME, "%s", symbol ? "(kernel)" : "(unknown)");
}

/* The number of an address's module; UINT64_MAX without memory. */
static uint64_t module_number(struct groups *groups, uint64_t address)
{
	char name[MODULE_NAME];
	void *bigger;

	module_of(groups->sidecar, address, name);
	for (size_t i = 0; i < groups->nr_modules; i++) {
		if (!strcmp(groups->modules[i], name))
			return i;
	}
	if (groups->nr_modules == MAX_MODULES)
		return 0;
	bigger = reallocarray(groups->modules, groups->nr_modules + 1, MODULE_NAME);
	if (!bigger)
		return UINT64_MAX;
	groups->modules = bigger;
	memcpy(groups->modules[groups->nr_modules], name, MODULE_NAME);
	return groups->nr_modules++;
}

static uint64_t function_key(const struct groups *groups, uint64_t address)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(groups->sidecar, address);

	return symbol ? symbol->start : address;
}

static uint64_t size_class(uint64_t bytes)
{
	const uint64_t greatest = UINT64_C(1) << 63;

	if (bytes <= 8)
		return 8;
	return bytes > greatest ? UINT64_MAX : UINT64_C(1) << (64 - __builtin_clzll(bytes - 1));
}

static uint64_t key_of(struct groups *groups, enum dimension by, const struct heap_object *object,
		       uint64_t ptr)
{
	const struct heap_origin *origin = heap_origin(groups->heap, object->origin);

	switch (by) {
	case BY_CALLSITE:
		return origin->call_site;
	case BY_CACHE:
		return origin->cache ? origin->cache : GROUP_NO_CACHE + origin->type;
	case BY_TYPE:
		return origin->type;
	case BY_SIZE:
		return object->requested;
	case BY_SIZECLASS:
		return size_class(object->requested);
	case BY_FUNCTION:
		return function_key(groups, origin->call_site);
	case BY_MODULE:
		return module_number(groups, origin->call_site);
	case BY_NODE:
		return (uint32_t)object->node;
	case BY_VCPU:
		return object->vcpu;
	case BY_TASK:
		return object->task;
	case BY_POINTER:
		return ptr;
	case NR_DIMENSIONS:
		break;
	}
	return 0;
}

static uint64_t hash_of(const struct groups *groups, const struct group *key)
{
	uint64_t hash = key->role;

	for (size_t i = 0; i < groups->by.n; i++) {
		hash = (hash ^ key->keys[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash;
}

/* --- groups ---------------------------------------------------------------------------------- */

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
		key.keys[i] = key_of(groups, groups->by.by[i], object, ptr);
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
	group_add(group, change, counted);
	return 0;
}

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

/* --- names ----------------------------------------------------------------------------------- */

/* "kmalloc-64" or "cache 7", or for GROUP_NO_CACHE + type "(kmalloc)". */
static struct text cache_text(const struct sidecar *sidecar, uint64_t key)
{
	const struct sidecar_cache *cache =
		key < GROUP_NO_CACHE ? sidecar_cache(sidecar, (uint16_t)key) : NULL;
	struct text out;

	if (cache)
		snprintf(out.s, sizeof(out.s), "%s", cache->name);
	else if (key < GROUP_NO_CACHE)
		snprintf(out.s, sizeof(out.s), "cache %" PRIu64, key);
	else
		snprintf(out.s, sizeof(out.s), "(%s)",
			 kmem_type_name((unsigned int)(key - GROUP_NO_CACHE)));
	return out;
}

static struct text node_text(uint64_t key)
{
	return key == any_node ? (struct text){"any"} : text_count(key);
}

struct text groups_key_text(const struct groups *groups, const struct group *group, size_t index)
{
	uint64_t key = group->keys[index];
	struct text out;

	switch (groups->by.by[index]) {
	case BY_CALLSITE:
		return sidecar_symbol_text(groups->sidecar, key);
	case BY_FUNCTION:
		return sidecar_function_text(groups->sidecar, key);
	case BY_CACHE:
		return cache_text(groups->sidecar, key);
	case BY_TYPE:
		snprintf(out.s, sizeof(out.s), "%s", kmem_type_name((unsigned int)key));
		return out;
	case BY_SIZE:
		return text_count(key);
	case BY_SIZECLASS:
		snprintf(out.s, sizeof(out.s), "up to %.32s", text_bytes(key).s);
		return out;
	case BY_MODULE:
		snprintf(out.s, sizeof(out.s), "%s",
			 key < groups->nr_modules ? groups->modules[key] : "?");
		return out;
	case BY_NODE:
		return node_text(key);
	case BY_VCPU:
		return text_count(key);
	case BY_TASK:
		return heap_task_text(groups->heap, (uint16_t)key);
	case BY_POINTER:
	case NR_DIMENSIONS:
		break;
	}
	return sidecar_symbol_text(NULL, key);
}

struct text groups_text(const struct groups *groups, const struct group *group)
{
	static const char *const roles[] = {
		[HEAP_PLAIN] = "", [HEAP_SLAB] = " (slabs)", [HEAP_LARGE] = " (large kmalloc)"};
	struct text out = {""};
	size_t used = 0;

	for (size_t i = 0; i < groups->by.n; i++) {
		int n = snprintf(out.s + used, sizeof(out.s) - used, "%s%s", i ? ", " : "",
				 groups_key_text(groups, group, i).s);

		used += (size_t)n < sizeof(out.s) - used ? (size_t)n : sizeof(out.s) - used - 1;
	}
	snprintf(out.s + used, sizeof(out.s) - used, "%s%s", roles[group->role],
		 group->is_wrapper ? " *" : "");
	return out;
}

/* Which of the keys is the call site; the number of keys if none is. */
static size_t call_site_key(const struct groups *groups)
{
	size_t i = 0;

	while (i < groups->by.n && groups->by.by[i] != BY_CALLSITE)
		i++;
	return i;
}

bool groups_have_source(const struct groups *groups)
{
	return groups->sidecar && groups->sidecar->lines && call_site_key(groups) < groups->by.n;
}

struct text groups_source_text(const struct groups *groups, const struct group *group)
{
	const size_t key = call_site_key(groups);

	if (key == groups->by.n)
		return (struct text){""};
	return sidecar_source_text(groups->sidecar, group->keys[key]);
}

static int put_cache(json_t *object, const struct sidecar *sidecar, uint64_t key)
{
	const struct sidecar_cache *cache =
		key < GROUP_NO_CACHE ? sidecar_cache(sidecar, (uint16_t)key) : NULL;
	int failed = json_object_set_new(object, "name", json_string(cache_text(sidecar, key).s));

	failed |= json_object_set_new(object, "object_size",
				      json_from_count(cache ? cache->object_size : 0));
	return failed |
	       json_object_set_new(object, "size", json_from_count(cache ? cache->size : 0));
}

/* A pointer beside a call site has another name than alone. */
static int put_key(const struct groups *groups, const struct group *group, size_t i, json_t *object)
{
	enum dimension by = groups->by.by[i];
	uint64_t key = group->keys[i];
	int failed;

	switch (by) {
	case BY_CALLSITE:
		failed = json_object_set_new(object, "address", json_from_address(key));
		failed |= json_object_set_new(object, "symbol",
					      json_string(groups_key_text(groups, group, i).s));
		return failed | sidecar_put_source(object, groups->sidecar, key);
	case BY_CACHE:
		return put_cache(object, groups->sidecar, key);
	case BY_SIZE:
		return json_object_set_new(object, "bytes", json_from_count(key));
	case BY_SIZECLASS:
		return json_object_set_new(object, "size_class", json_from_count(key));
	case BY_VCPU:
		return json_object_set_new(object, "vcpu", json_from_count(key));
	case BY_NODE:
		return json_object_set_new(object, "node",
					   json_integer(key == any_node ? -1 : (json_int_t)key));
	case BY_POINTER:
		return json_object_set_new(object, groups->by.n == 1 ? "address" : "pointer",
					   json_from_address(key));
	case BY_TYPE:
	case BY_FUNCTION:
	case BY_MODULE:
	case BY_TASK:
	case NR_DIMENSIONS:
		break;
	}
	return json_object_set_new(object, dimension_names[by],
				   json_string(groups_key_text(groups, group, i).s));
}

json_t *groups_key_json(const struct groups *groups, const struct group *group)
{
	static const char *const roles[] = {[HEAP_SLAB] = "slabs", [HEAP_LARGE] = "kmalloc"};
	json_t *object = json_object();
	int failed = 0;

	for (size_t i = 0; i < groups->by.n; i++)
		failed |= put_key(groups, group, i, object);
	if (group->role != HEAP_PLAIN)
		failed |= json_object_set_new(object, "backing", json_string(roles[group->role]));
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

size_t groups_memory(const struct groups *groups)
{
	return sizeof(*groups) + groups->room * sizeof(*groups->all) +
	       u64_map_memory(&groups->index) + groups->nr_of_origin * sizeof(uint32_t) +
	       groups->nr_modules * MODULE_NAME;
}
