/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/allocators/simulation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"
#include "formats/base/u64-map.h"

enum {
	SLOT_MOST = MODEL_PAGE_SIZE << MODEL_MAX_ORDER,
};
static const int64_t SECOND_NS = 1000000000;
/* Steps of the kernel's wheel for a timer of seconds: one that was seen may have been so late. */
static const int64_t WHEEL_NS = 32000000;
static const char large_name[] = "(large)";

/* A live object. */
struct object {
	struct model_cache *cache;
	uintptr_t token;
	uint64_t requested;
	uint64_t waits_in; /* what kfree_rcu() has put it into; 0: it was not called */
	struct object_shape shape;
};

/* On the trace clock. */
struct cpu_timer {
	int64_t due_ns, last_ns; /* 0: not known yet; it did not run yet */
	const struct model_cache *looked_at; /* last */
};

struct simulation {
	struct model model;
	unsigned int cpus;
	struct u64_map objects; /* struct object, by address in the guest */
	struct u64_map by_hash; /* index of a cache, by name and size */
	struct model_cache **caches;
	size_t nr_caches, room;
	uint64_t pages;
	struct cpu_timer *timers; /* by CPU */
	int64_t second_ns;        /* where the guest's whole seconds begin, of the trace clock's */
	bool has_second, follows_timer, is_told_of_timer;
	bool from_start;  /* the guest's first allocation is the simulation's */
	bool is_starting; /* only its first CPU has done anything */
};

int simulation_create(const struct model *model, unsigned int cpus, struct simulation **out,
		      struct error *err)
{
	struct simulation *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->model = *model;
	s->cpus = model->cpus != MODEL_AUTO ? (unsigned int)model->cpus : cpus ? cpus : 1;
	s->timers = calloc(s->cpus, sizeof(*s->timers));
	if (!s->timers) {
		free(s);
		return error_set(err, ENOMEM, "out of memory");
	}
	u64_map_init(&s->objects, sizeof(struct object));
	u64_map_init(&s->by_hash, sizeof(uint32_t));
	*out = s;
	return 0;
}

static void cache_destroy(struct model_cache *cache)
{
	if (!simulation_is_large(cache))
		cache->model->ops->cache_deinit(cache);
	free(cache);
}

void simulation_destroy(struct simulation *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->nr_caches; i++)
		cache_destroy(s->caches[i]);
	free(s->caches);
	free(s->timers);
	u64_map_deinit(&s->objects);
	u64_map_deinit(&s->by_hash);
	free(s);
}

/* --- caches ---------------------------------------------------------------------------------- */

/* Where an object goes: a cache by name and size. */
struct place {
	char name[64];
	uint64_t slot; /* of the cache */
	struct object_shape shape;
	bool is_large;
};

static void place_large(uint64_t bytes, struct place *out)
{
	memcpy(out->name, large_name, sizeof(large_name));
	out->slot = (uint64_t)MODEL_PAGE_SIZE << order_of(bytes);
	out->shape.bytes = out->slot;
	out->is_large = true;
}

/* "kmalloc-cg" of "kmalloc-cg-64": what kind of kmalloc() it is, in the guest's own word. */
static size_t kind_length(const char *cache)
{
	const char *dash = strrchr(cache, '-');

	return dash && dash[1] >= '0' && dash[1] <= '9' ? (size_t)(dash - cache) : 0;
}

/* 0 to copies - 1, by call site. The kernel adds a seed of the boot, so that which sites share a
 * copy differs from boot to boot. */
static unsigned int copy_of(const struct model *model, uint64_t call_site)
{
	return (unsigned int)((call_site * UINT64_C(0x9e3779b97f4a7c15) >> 32) %
			      (uint64_t)model->kmalloc_copies);
}

enum { KIND_ROOM = 41 };

/* "kmalloc-cg": that of the guest, but for sets of caches that the model has or has not. */
static void take_kind(const struct model *model, const struct allocation *a, char out[KIND_ROOM])
{
	static const char plain[] = "kmalloc", copies[] = "kmalloc-rnd-";
	const char *own = buckets_of_cache(a->cache);
	const size_t length = kind_length(a->cache);

	if (model->kmalloc_buckets && (own || a->buckets))
		snprintf(out, KIND_ROOM, "%s", own ? own : a->buckets);
	else if (own || !length || !strncmp(a->cache, copies, strlen(copies)))
		snprintf(out, KIND_ROOM, "%s", plain);
	else
		snprintf(out, KIND_ROOM, "%.*s", (int)length, a->cache);
}

static void name_kmalloc(const struct model *model, const struct allocation *a, uint64_t size,
			 char *out, size_t room)
{
	char kind[KIND_ROOM];
	uint8_t copy;
	const bool in_k = size >= 1024 && size % 1024 == 0;
	char copy_text[sizeof("rnd-255-")] = "";

	take_kind(model, a, kind);
	copy = strcmp(kind, "kmalloc") ? 0 : (uint8_t)copy_of(model, a->call_site);
	if (copy)
		snprintf(copy_text, sizeof(copy_text), "rnd-%02u-", copy);
	snprintf(out, room, "%s-%s%llu%s", kind, copy_text,
		 (unsigned long long)(in_k ? size / 1024 : size), in_k ? "k" : "");
}

/* The size of the cache that kmalloc() takes; 0: none is large enough. */
static uint64_t kmalloc_size(const struct model *model, uint64_t bytes)
{
	for (size_t i = 0; i < model->nr_kmalloc_sizes; i++) {
		if (bytes <= model->kmalloc_sizes[i])
			return model->kmalloc_sizes[i];
	}
	return 0;
}

/* With the model's alignment and additions. */
static uint64_t slot_of(const struct model *model, const char *name, uint64_t natural,
			uint64_t usual)
{
	const struct cache_params params = model_cache_params(model, name);
	uint64_t slot = usual;

	if (params.align != MODEL_AUTO)
		slot = (natural + (uint64_t)params.align - 1) & -(uint64_t)params.align;
	slot += (uint64_t)params.extra;
	return slot < model->ops->slot_least ? model->ops->slot_least : slot;
}

static void place_in_cache(const struct model *model, const struct allocation *a, struct place *out)
{
	const char *name = *a->cache ? a->cache : "(unknown)";
	const uint64_t natural = a->object_size ? a->object_size : a->taken;

	snprintf(out->name, sizeof(out->name), "%s", name);
	out->slot = slot_of(model, name, natural, a->taken);
	if (model->merge)
		snprintf(out->name, sizeof(out->name), ":%07llu", (unsigned long long)out->slot);
}

static void place_in_pool(const struct model *model, const struct allocation *a, struct place *out)
{
	const char *cache = *a->cache ? a->cache : "(unknown)";
	const struct object_request request = {
		.bytes = a->is_kmalloc || !a->object_size ? a->requested : a->object_size,
		.is_kmalloc = a->is_kmalloc,
		.params = model_cache_params(model, cache),
	};
	const char *pool = model->ops->pool(&request, &out->shape, &out->slot);

	out->is_large = false;
	if (pool)
		snprintf(out->name, sizeof(out->name), "%s", pool);
	else
		place_large(request.bytes, out);
}

static void place(const struct model *model, const struct allocation *a, struct place *out)
{
	const bool has_sizes = a->is_kmalloc && model->nr_kmalloc_sizes;
	const uint64_t size = has_sizes ? kmalloc_size(model, a->requested) : 0;

	out->is_large = false;
	if ((has_sizes && !size) || (!has_sizes && a->is_large) || a->taken > SLOT_MOST) {
		place_large(a->requested > a->taken ? a->requested : a->taken, out);
	} else if (size) {
		name_kmalloc(model, a, size, out->name, sizeof(out->name));
		out->slot = slot_of(model, out->name, size, size);
	} else {
		place_in_cache(model, a, out);
	}
	out->shape.bytes = out->slot;
}

static uint64_t hash_of(const struct place *place)
{
	uint64_t hash = place->is_large ? 0 : place->slot;

	for (const char *c = place->name; *c; c++)
		hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
	return hash;
}

static bool is_place(const struct model_cache *cache, const struct place *place)
{
	return !strcmp(cache->name, place->name) && (place->is_large || cache->slot == place->slot);
}

static struct model_cache *cache_create(struct simulation *s, const struct place *place)
{
	struct model_cache *cache;

	if (!array_grow(&s->caches, sizeof(*s->caches), s->nr_caches, &s->room))
		return NULL;
	cache = calloc(1, sizeof(*cache));
	if (!cache)
		return NULL;
	cache->model = &s->model;
	memcpy(cache->name, place->name, sizeof(cache->name));
	cache->cpus = s->cpus;
	cache->is_early = s->is_starting;
	cache->knows_early = s->from_start;
	cache->nodes = (unsigned int)s->model.nodes;
	cache->slot = place->is_large ? 0 : place->slot;
	cache->params = model_cache_params(&s->model, cache->name);
	cache->total_pages = &s->pages;
	if (!place->is_large && s->model.ops->cache_init(cache)) {
		cache_destroy(cache);
		return NULL;
	}
	s->caches[s->nr_caches++] = cache;
	return cache;
}

/* NULL: no memory. */
static struct model_cache *cache_of(struct simulation *s, const struct place *place)
{
	for (uint64_t hash = hash_of(place);; hash++) {
		bool is_new;
		uint32_t *index = u64_map_insert(&s->by_hash, hash, &is_new);
		struct model_cache *cache;

		if (!index)
			return NULL;
		if (!is_new && is_place(s->caches[*index], place))
			return s->caches[*index];
		if (!is_new)
			continue;
		cache = cache_create(s, place);
		if (!cache)
			u64_map_remove(&s->by_hash, hash);
		else
			*index = (uint32_t)(s->nr_caches - 1);
		return cache;
	}
}

/* --- objects --------------------------------------------------------------------------------- */

static int take(struct simulation *s, struct model_cache *cache, const struct allocation *a,
		struct object *object)
{
	const unsigned int cpu = a->cpu % s->cpus;
	const bool has_node = a->node >= 0 && a->node < s->model.nodes;
	const struct placement where = {.cpu = cpu,
					.node = has_node ? (unsigned int)a->node
							 : model_node_of(cache, cpu),
					.in_array = a->in_array,
					.has_no_sheaf = a->has_no_sheaf,
					.makes_no_sheaf = a->makes_no_sheaf,
					.prefilled = a->prefilled};

	if (simulation_is_large(cache)) {
		model_take_pages(cache, object->shape.bytes / MODEL_PAGE_SIZE);
		return 0;
	}
	return s->model.ops->alloc(cache, &where, &object->shape, &object->token);
}

int simulation_alloc(struct simulation *s, const struct allocation *a)
{
	struct place where;
	struct object object = {.requested = a->requested};
	struct object *slot;
	int ret;

	if (s->model.ops->pool)
		place_in_pool(&s->model, a, &where);
	else
		place(&s->model, a, &where);
	s->is_starting &= !a->cpu;
	object.shape = where.shape;
	object.cache = cache_of(s, &where);
	if (!object.cache)
		return -ENOMEM;
	simulation_free(s, a->ptr, a->cpu);
	ret = take(s, object.cache, a, &object);
	if (ret)
		return ret;
	slot = u64_map_insert(&s->objects, a->ptr, NULL);
	if (!slot)
		return -ENOMEM;
	*slot = object;
	object.cache->objects++;
	object.cache->requested += object.requested;
	object.cache->taken += object.shape.bytes;
	return 0;
}

/* It is live no longer. False: it was not. */
static bool forget(struct simulation *s, uint64_t ptr, struct object *out)
{
	const struct object *found = u64_map_find(&s->objects, ptr);

	if (!found)
		return false;
	*out = *found;
	u64_map_remove(&s->objects, ptr);
	out->cache->objects--;
	out->cache->requested -= out->requested;
	out->cache->taken -= out->shape.bytes;
	if (simulation_is_large(out->cache))
		model_give_pages(out->cache, out->shape.bytes / MODEL_PAGE_SIZE);
	return true;
}

void simulation_free(struct simulation *s, uint64_t ptr, unsigned int cpu)
{
	struct object object;

	if (!forget(s, ptr, &object) || simulation_is_large(object.cache))
		return;
	if (object.waits_in)
		s->model.ops->free_waiting(object.cache, cpu % s->cpus,
					   &(struct waiting){.number = object.waits_in});
	else
		s->model.ops->free(object.cache, cpu % s->cpus, &object.shape, object.token);
}

void simulation_free_array(struct simulation *s, const uint64_t *ptrs, size_t n, unsigned int cpu,
			   enum array_free how)
{
	const struct allocator_ops *ops = s->model.ops;
	uintptr_t tokens[ARRAY_MOST];
	struct model_cache *cache = NULL;
	struct waiting what = {0};
	struct object object;
	size_t begin = 0, end = 0; /* tokens that are not freed yet */

	cpu %= s->cpus;
	for (size_t i = 0; i < n; i++) {
		if (!ops->free_array) {
			simulation_free(s, ptrs[i], cpu);
		} else if (!forget(s, ptrs[i], &object) || simulation_is_large(object.cache)) {
			continue;
		} else if (!object.waits_in) {
			tokens[end++] = object.token;
		} else if (object.waits_in == what.number && object.cache == cache) {
			what.objects++;
		} else {
			if (cache)
				ops->free_waiting(cache, cpu, &what);
			cache = object.cache;
			what = (struct waiting){object.waits_in, 1, tokens + begin, end - begin};
			begin = end;
		}
	}
	if (cache)
		ops->free_waiting(cache, cpu, &what);
	if (end > begin)
		ops->free_array(tokens + begin, end - begin, cpu, how);
}

void simulation_free_later(struct simulation *s, uint64_t ptr, unsigned int cpu)
{
	struct object *object = u64_map_find(&s->objects, ptr);

	if (object && s->model.ops->free_later && !simulation_is_large(object->cache) &&
	    !object->waits_in)
		object->waits_in =
			s->model.ops->free_later(object->cache, cpu % s->cpus, object->token);
}

static bool is_prefilled(const struct model_cache *cache)
{
	return !simulation_is_large(cache) && cache->model->ops->prefill && cache->params.prefilled;
}

void simulation_prefill(struct simulation *s, unsigned int cpu, uint64_t task, uint64_t objects)
{
	for (size_t i = 0; i < s->nr_caches; i++) {
		if (is_prefilled(s->caches[i]))
			s->model.ops->prefill(s->caches[i], cpu % s->cpus, task, objects);
	}
}

void simulation_end_prefill(struct simulation *s, unsigned int cpu, uint64_t task)
{
	for (size_t i = 0; i < s->nr_caches; i++) {
		if (is_prefilled(s->caches[i]))
			s->model.ops->end_prefill(s->caches[i], cpu % s->cpus, task);
	}
}

void simulation_shrink(struct simulation *s, const char *cache)
{
	for (size_t i = 0; s->model.ops->shrink && i < s->nr_caches; i++) {
		if (!simulation_is_large(s->caches[i]) && !strcmp(s->caches[i]->name, cache))
			s->model.ops->shrink(s->caches[i]);
	}
}

/* --- time ------------------------------------------------------------------------------------ */

/* The kernel lets such timers run at its whole seconds. */
static int64_t whole_second(const struct simulation *s, int64_t ns)
{
	const int64_t over = (ns - s->second_ns + SECOND_NS) % SECOND_NS;

	return ns - over + (over < SECOND_NS / 4 ? 0 : SECOND_NS);
}

static void reap(struct simulation *s, unsigned int cpu, int64_t ns)
{
	for (size_t i = 0; i < s->nr_caches; i++) {
		if (!simulation_is_large(s->caches[i]))
			s->model.ops->reap(s->caches[i], cpu, ns, s->follows_timer);
	}
	s->timers[cpu].last_ns = ns;
	s->timers[cpu].due_ns = whole_second(s, ns + MODEL_REAP_NS);
}

static bool has_timer(const struct simulation *s, int64_t ns)
{
	return s->model.ops->reap && !s->is_told_of_timer && ns >= 0 &&
	       ns <= INT64_MAX - 2 * MODEL_REAP_NS;
}

bool simulation_is_due(struct simulation *s, unsigned int cpu, int64_t ns)
{
	struct cpu_timer *timer = &s->timers[cpu % s->cpus];

	if (!has_timer(s, ns))
		return false;
	if (!timer->due_ns)
		timer->due_ns = whole_second(s, ns + SECOND_NS);
	return ns >= timer->due_ns - WHEEL_NS;
}

void simulation_run_timer(struct simulation *s, unsigned int cpu, int64_t ns)
{
	reap(s, cpu % s->cpus, ns);
}

void simulation_from_start(struct simulation *s)
{
	s->from_start = s->is_starting = true;
}

void simulation_follow_timer(struct simulation *s)
{
	s->follows_timer = true;
}

/* It may have run late, but not early. */
static void learn_second(struct simulation *s, int64_t ns)
{
	const int64_t over = (ns - s->second_ns + SECOND_NS) % SECOND_NS;

	if (!s->has_second || over > SECOND_NS / 2)
		s->second_ns = ns % SECOND_NS;
	s->has_second = true;
}

void simulation_drained(struct simulation *s, const char *cache, unsigned int cpu, int64_t ns)
{
	cpu %= s->cpus;
	if (!has_timer(s, ns))
		return;
	learn_second(s, ns);
	if (ns - s->timers[cpu].last_ns > MODEL_REAP_NS / 2)
		reap(s, cpu, ns);
	for (size_t i = 0; i < s->nr_caches; i++) {
		if (!simulation_is_large(s->caches[i]) && !strcmp(s->caches[i]->name, cache))
			s->model.ops->drain(s->caches[i], cpu, ns);
	}
}

void simulation_look(struct simulation *s, const char *cache, unsigned int cpu)
{
	struct cpu_timer *timer = &s->timers[cpu %= s->cpus];
	struct model_cache *found = NULL;

	for (size_t i = 0; s->model.ops->look && !found && i < s->nr_caches; i++)
		if (!simulation_is_large(s->caches[i]) && !strcmp(s->caches[i]->name, cache))
			found = s->caches[i];
	if (found)
		s->model.ops->look(found, cpu, found == timer->looked_at);
	timer->looked_at = found == timer->looked_at ? NULL : found;
	s->is_told_of_timer = true;
}

/* --- results --------------------------------------------------------------------------------- */

uint64_t simulation_pages(const struct simulation *s)
{
	return s->pages;
}

size_t simulation_nr_caches(const struct simulation *s)
{
	return s->nr_caches;
}

const struct model_cache *simulation_cache(const struct simulation *s, size_t i)
{
	return s->caches[i];
}

bool simulation_is_large(const struct model_cache *cache)
{
	return !cache->slot;
}

unsigned int simulation_cpus(const struct simulation *s)
{
	return s->cpus;
}
