/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/tracers/kmem/kmem.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/u64-map.h"

/* A guest has a few hundred caches; a hostile one does not get more memory than this. */
enum { MAX_CACHES = 65535 };

struct cache_ids {
	struct slab_view *slab;
	struct trace_writer *writer;
	struct u64_map by_address; /* -> struct cache_info */
};

int cache_ids_create(struct slab_view *slab, struct trace_writer *writer, struct cache_ids **out,
		     struct error *err)
{
	struct cache_ids *ids = calloc(1, sizeof(*ids));

	if (!ids)
		return error_set(err, ENOMEM, "out of memory");
	ids->slab = slab;
	ids->writer = writer;
	u64_map_init(&ids->by_address, sizeof(struct cache_info));
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

/* Merging a new cache into an old one raises the old one's object size. */
static bool is_current(const struct cache_ids *ids, uint64_t cache, uint64_t batch,
		       struct cache_info *known)
{
	uint64_t object_size, size;

	if (batch && batch == known->batch)
		return true;
	known->batch = batch;
	return !slab_cache_sizes(ids->slab, cache, &object_size, &size, NULL) &&
	       object_size == known->object_size && size == known->size;
}

static void remember(struct cache_ids *ids, uint64_t cache, const struct cache_info *info)
{
	struct cache_info *slot = NULL;

	if (ids->by_address.count < MAX_CACHES)
		slot = u64_map_insert(&ids->by_address, cache, NULL);
	if (slot)
		*slot = *info;
}

int cache_ids_get(struct cache_ids *ids, uint64_t cache, uint64_t batch, struct cache_info *out,
		  struct error *err)
{
	struct cache_info *known = u64_map_find(&ids->by_address, cache);
	struct slab_cache read;
	int ret;

	if (known && is_current(ids, cache, batch, known)) {
		*out = *known;
		return 0;
	}
	ret = slab_cache_read(ids->slab, cache, &read, err);
	if (ret)
		return ret;
	*out = (struct cache_info){
		.object_size = read.object_size, .size = read.size, .batch = batch};
	/* In early boot a cache has its sizes before it has its name: do not keep it nameless. */
	if (read.name[0] == '?' || read.name[0] == '\0')
		return 0;
	out->id = trace_writer_cache_id(ids->writer, read.name, read.object_size, read.size);
	remember(ids, cache, out);
	return 0;
}

int cache_ids_find(struct cache_ids *ids, uint64_t cache, uint16_t *id)
{
	const struct cache_info *known = u64_map_find(&ids->by_address, cache);
	struct cache_info info;
	int ret = 0;

	if (!known) {
		ret = cache_ids_get(ids, cache, 0, &info, NULL);
		known = &info;
	}
	if (!ret)
		*id = known->id;
	return ret;
}

void cache_ids_forget(struct cache_ids *ids, uint64_t cache)
{
	u64_map_remove(&ids->by_address, cache);
}
