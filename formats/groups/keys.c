/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What groups are of: keys of objects, and their texts. */
#include "formats/groups/groups-internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"
#include "formats/base/json.h"

enum { MAX_NAMES = 4096, CACHE_LINE = 64 };

static const uint64_t any_node = UINT32_MAX; /* -1, as 32 bits */

/* --- names that have numbers ------------------------------------------------------------------ */

void name_numbers_init(struct name_numbers *numbers)
{
	u64_map_init(&numbers->by_hash, sizeof(uint64_t));
}

void name_numbers_deinit(struct name_numbers *numbers)
{
	u64_map_deinit(&numbers->by_hash);
	free(numbers->names);
}

size_t name_numbers_memory(const struct name_numbers *numbers)
{
	return numbers->room * GROUP_NAME_SIZE + u64_map_memory(&numbers->by_hash);
}

/* FNV-1a. */
static uint64_t hash_name(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * 0x100000001b3;
	return hash;
}

/* MAX_NAMES, which has no name, for those beyond that, and without memory. */
static uint64_t number_of(struct name_numbers *numbers, const char *name)
{
	uint64_t hash = hash_name(name), *number;

	while ((number = u64_map_find(&numbers->by_hash, hash))) {
		if (!strcmp(numbers->names[*number], name))
			return *number;
		hash++;
	}
	if (numbers->count == MAX_NAMES ||
	    !array_grow(&numbers->names, GROUP_NAME_SIZE, numbers->count, &numbers->room))
		return MAX_NAMES;
	number = u64_map_insert(&numbers->by_hash, hash, NULL);
	if (!number)
		return MAX_NAMES;
	snprintf(numbers->names[numbers->count], GROUP_NAME_SIZE, "%s", name);
	*number = numbers->count;
	return numbers->count++;
}

static struct text name_text(const struct name_numbers *numbers, uint64_t number)
{
	struct text out;

	snprintf(out.s, sizeof(out.s), "%s",
		 number < numbers->count ? numbers->names[number] : "?");
	return out;
}

/* --- keys ------------------------------------------------------------------------------------ */

/* "ext4" of "ext4_create [ext4]"; "(kernel)"; "(unknown)" without a name. */
static void module_of(const struct sidecar *sidecar, uint64_t address, char out[GROUP_NAME_SIZE])
{
	const struct sidecar_symbol *symbol = sidecar_symbol(sidecar, address);
	const char *from = symbol ? strchr(symbol->name, '[') : NULL;

	if (from)
		snprintf(out, GROUP_NAME_SIZE, "%.*s", (int)strcspn(from + 1, "]"), from + 1);
	else
		snprintf(out, GROUP_NAME_SIZE, "%s", symbol ? "(kernel)" : "(unknown)");
}

static uint64_t module_key(struct groups *groups, uint64_t address)
{
	char name[GROUP_NAME_SIZE];

	module_of(groups->sidecar, address, name);
	return number_of(&groups->modules, name);
}

static uint64_t cache_key(const struct heap_origin *origin)
{
	return origin->cache ? origin->cache : GROUP_NO_CACHE + origin->type;
}

/*
 * Whether an object of so many bytes may be what its call site's function returns. kmalloc() is
 * asked for exactly that, and a cache has objects of one kind, whose size may be rounded up to
 * whole lines of the processor's cache.
 */
static bool has_size(const struct sidecar_returned *returned, enum kmem_type_id type,
		     uint64_t bytes)
{
	if (!returned->bytes || type == KMEM_TYPE_PAGES)
		return false;
	if (type == KMEM_TYPE_CACHE && bytes % CACHE_LINE == 0)
		return returned->bytes <= bytes && bytes - returned->bytes < CACHE_LINE;
	return returned->bytes == bytes;
}

static uint64_t object_key(struct groups *groups, const struct heap_origin *origin,
			   const struct heap_object *object)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(groups->sidecar, origin->call_site);

	if (symbol && has_size(&symbol->returned, origin->type, object->requested))
		return GROUP_STRUCT + number_of(&groups->structs, symbol->returned.name);
	return cache_key(origin);
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

uint64_t groups_key_of(struct groups *groups, enum dimension by, const struct heap_object *object,
		       uint64_t ptr)
{
	const struct heap_origin *origin = heap_origin(groups->heap, object->origin);

	switch (by) {
	case BY_CALLSITE:
		return origin->call_site;
	case BY_CACHE:
		return cache_key(origin);
	case BY_TYPE:
		return origin->type;
	case BY_OBJECT:
		return object_key(groups, origin, object);
	case BY_SIZE:
		return object->requested;
	case BY_SIZECLASS:
		return size_class(object->requested);
	case BY_FUNCTION:
		return function_key(groups, origin->call_site);
	case BY_MODULE:
		return module_key(groups, origin->call_site);
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

/* --- texts ----------------------------------------------------------------------------------- */

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
	struct text text = {"any"};

	if (key != any_node)
		snprintf(text.s, sizeof(text.s), "%d", (int32_t)key);
	return text;
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
	case BY_OBJECT:
		return key >= GROUP_STRUCT ? name_text(&groups->structs, key - GROUP_STRUCT)
					   : cache_text(groups->sidecar, key);
	case BY_MODULE:
		return name_text(&groups->modules, key);
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
		return json_object_set_new(object, "node", json_integer((int32_t)key));
	case BY_POINTER:
		return json_object_set_new(object, groups->by.n == 1 ? "address" : "pointer",
					   json_from_address(key));
	case BY_TYPE:
	case BY_OBJECT:
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
