/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/cache-ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A guest has a few hundred caches; a hostile one gets no more memory than this. */
enum { MAX_CACHES = 65535 };

int cache_ids_create(struct slab_view *slab, struct trace_writer *writer, struct budget *budget,
		     struct cache_ids **out, struct error *err)
{
	struct cache_ids *ids = calloc(1, sizeof(*ids));

	if (!ids)
		return error_set(err, ENOMEM, "out of memory");
	ids->slab = slab;
	ids->recent[0].info.may_have_caches = true;
	ids->writer = writer;
	u64_map_init(&ids->by_address, sizeof(struct cache_info));
	u64_map_set_budget(&ids->by_address, budget);
	*out = ids;
	return 0;
}

void cache_ids_destroy(struct cache_ids *ids)
{
	if (!ids)
		return;
	u64_map_deinit(&ids->by_address);
	free(ids);
}

/* What a cache is known by that was read for a hit of this batch: that of none if it is 0. */
static uint64_t batch_of(uint64_t batch)
{
	return batch ? batch : CACHE_NO_BATCH;
}

/* Merging a new cache into an old one raises the old one's object size. A new one at the same
 * address has another name, if the free of the old one was not seen. */
static bool is_current(const struct cache_ids *ids, uint64_t cache, uint64_t batch,
		       struct cache_info *known)
{
	uint64_t object_size, size, name_at;

	if (batch == known->batch)
		return true;
	known->batch = batch_of(batch);
	return !slab_cache_sizes(ids->slab, cache, &object_size, &size, NULL) &&
	       object_size == known->object_size && size == known->size &&
	       !slab_cache_name_at(ids->slab, cache, &name_at, NULL) && name_at == known->name_at;
}

static const struct cache_info *remember(struct cache_ids *ids, uint64_t cache,
					 const struct cache_info *info)
{
	const unsigned int known = cache_ids_hash(cache, CACHE_KNOWN_BITS);
	struct cache_recent *recent = cache_ids_recent(ids, cache);

	ids->known[known / 64] |= UINT64_C(1) << known % 64;
	recent->cache = cache;
	recent->info = *info;
	return &recent->info;
}

static void keep(struct cache_ids *ids, uint64_t cache, const struct cache_info *info)
{
	struct cache_info *slot = NULL;

	if (ids->by_address.count < MAX_CACHES)
		slot = u64_map_insert(&ids->by_address, cache, NULL);
	if (slot)
		*slot = *info;
}

static const struct cache_info *read_cache(struct cache_ids *ids, uint64_t cache, uint64_t batch)
{
	struct cache_info info = {.batch = batch_of(batch), .until = INT64_MAX};
	struct slab_cache read;

	if (slab_cache_read(ids->slab, cache, &read, NULL))
		return NULL;
	info.object_size = read.object_size;
	info.size = read.size;
	info.name_at = read.name_at;
	/* In early boot a cache has its sizes before its name: it is read again the next time. */
	if (read.name[0] == '?' || read.name[0] == '\0') {
		info.may_have_caches = true;
		ids->unnamed = info;
		return &ids->unnamed;
	}
	info.may_have_caches = !strcmp(read.name, "kmem_cache");
	info.id = trace_writer_cache_id(ids->writer, read.name, read.object_size, read.size);
	keep(ids, cache, &info);
	return remember(ids, cache, &info);
}

/* What is known of a cache at some time. NULL: it was not seen since another one was freed there.
 */
static struct cache_info *find_known(struct cache_ids *ids, uint64_t cache, int64_t ns)
{
	struct cache_info *known = u64_map_find(&ids->by_address, cache);

	if (!known || ns <= known->until)
		return known;
	u64_map_remove(&ids->by_address, cache);
	return NULL;
}

const struct cache_info *cache_ids_look_up(struct cache_ids *ids, uint64_t cache, uint64_t batch,
					   int64_t ns)
{
	struct cache_info *known = find_known(ids, cache, ns);

	if (known && known->until != INT64_MAX)
		return known;
	if (known && is_current(ids, cache, batch, known))
		return remember(ids, cache, known);
	return read_cache(ids, cache, batch);
}

const struct cache_info *cache_ids_look_up_any(struct cache_ids *ids, uint64_t cache, int64_t ns)
{
	const struct cache_info *known = find_known(ids, cache, ns);

	if (known && known->until != INT64_MAX)
		return known;
	return known ? remember(ids, cache, known) : read_cache(ids, cache, 0);
}

void cache_ids_mark_freed(struct cache_ids *ids, uint64_t cache, int64_t ns)
{
	struct cache_recent *recent = cache_ids_recent(ids, cache);
	struct cache_info *known = u64_map_find(&ids->by_address, cache);

	if (recent->cache == cache)
		recent->cache = 0;
	if (!known)
		return;
	known->until = ns < known->until ? ns : known->until;
	ids->has_freed = true;
}

/* Some that were freed; returns how many. A map must not change while it is gone through. */
static size_t find_freed(const struct cache_ids *ids, uint64_t *caches, size_t max)
{
	const struct cache_info *known;
	size_t pos = 0, n = 0;

	while (n < max && (known = u64_map_next(&ids->by_address, &pos, &caches[n])))
		n += known->until != INT64_MAX;
	return n;
}

void cache_ids_forget_freed(struct cache_ids *ids)
{
	enum { AT_ONCE = 256 };
	uint64_t caches[AT_ONCE];
	size_t n = ids->has_freed ? AT_ONCE : 0;

	while (n == AT_ONCE) {
		n = find_freed(ids, caches, AT_ONCE);
		for (size_t i = 0; i < n; i++)
			u64_map_remove(&ids->by_address, caches[i]);
	}
	ids->has_freed = false;
}
