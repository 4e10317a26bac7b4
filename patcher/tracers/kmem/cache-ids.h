/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_KMEM_CACHE_IDS_H
#define SONDE_PATCHER_TRACERS_KMEM_CACHE_IDS_H

#include "formats/base/u64-map.h"
#include "formats/trace/writer.h"
#include "introspect/slab/slab.h"

/*
 * The slab caches seen so far, by the gva of their struct kmem_cache, so that a name is read once
 * per cache, and sizes once per batch of hits (struct probe_hit).
 */
struct cache_info {
	uint64_t object_size, size; /* bytes */
	uint64_t name_at;           /* gva of its name */
	uint64_t batch;             /* of the hit for which the sizes were read last */
	int64_t until;              /* ns: when the guest freed it; INT64_MAX: it did not */
	uint16_t id;                /* in the trace's cache table; 0: it has no name yet */
	bool may_have_caches;       /* its objects may be caches (mm/slab_common.c) */
};

#define CACHE_NO_BATCH UINT64_MAX

enum { CACHE_RECENT_BITS = 8, CACHE_KNOWN_BITS = 12 };

struct cache_ids {
	struct slab_view *slab;
	struct trace_writer *writer;
	struct u64_map by_address; /* -> struct cache_info */
	/* Some of these, by hash. The first one is no cache. */
	struct cache_recent {
		uint64_t cache;
		struct cache_info info;
		uint64_t unused; /* a power of two is found quickly */
	} recent[1 + (1 << CACHE_RECENT_BITS)];
	/* A bit set, by hash: one that is not in it is not in by_address. */
	uint64_t known[(1 << CACHE_KNOWN_BITS) / 64];
	struct cache_info unnamed; /* the last one that had no name */
	bool has_freed;            /* some of by_address were freed */
};

/* `slab` and `writer` are borrowed. The table comes out of the budget, which may be NULL; a cache
 * that does not fit is read each time. -ENOMEM. */
int cache_ids_create(struct slab_view *slab, struct trace_writer *writer, struct budget *budget,
		     struct cache_ids **out, struct error *err);
void cache_ids_destroy(struct cache_ids *ids);

/* cache_ids_get() and cache_ids_find() without a look at the recent ones. */
const struct cache_info *cache_ids_look_up(struct cache_ids *ids, uint64_t cache, uint64_t batch,
					   int64_t ns);
const struct cache_info *cache_ids_look_up_any(struct cache_ids *ids, uint64_t cache, int64_t ns);

/* cache_ids_free() of one that may be known. */
void cache_ids_mark_freed(struct cache_ids *ids, uint64_t cache, int64_t ns);

static inline unsigned int cache_ids_hash(uint64_t cache, unsigned int bits)
{
	return (unsigned int)(cache * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

/* Where a cache is, or another one of its hash. Of no cache, 0, all is known: nothing. */
static inline struct cache_recent *cache_ids_recent(struct cache_ids *ids, uint64_t cache)
{
	const uint64_t hash = cache * UINT64_C(0x9e3779b97f4a7c15);

	return &ids->recent[(hash >> (64 - CACHE_RECENT_BITS)) + (hash != 0)];
}

/* A cache for a hit of this batch (0: as it is now) and time. Valid until the next call; NULL if it
 * cannot be read. */
static inline const struct cache_info *cache_ids_get(struct cache_ids *ids, uint64_t cache,
						     uint64_t batch, int64_t ns)
{
	const struct cache_recent *recent = cache_ids_recent(ids, cache);

	if (recent->cache == cache && recent->info.batch == batch)
		return &recent->info;
	return cache_ids_look_up(ids, cache, batch, ns);
}

/* The same for its id alone: the sizes may be old. */
static inline const struct cache_info *cache_ids_find(struct cache_ids *ids, uint64_t cache,
						      int64_t ns)
{
	const struct cache_recent *recent = cache_ids_recent(ids, cache);

	if (recent->cache == cache)
		return &recent->info;
	return cache_ids_look_up_any(ids, cache, ns);
}

/* The guest freed an object at this address: a struct kmem_cache there may become another one. Hits
 * of before that may still come, as other vCPUs' do. */
static inline void cache_ids_free(struct cache_ids *ids, uint64_t cache, int64_t ns)
{
	const unsigned int i = cache_ids_hash(cache, CACHE_KNOWN_BITS);

	if (ids->known[i / 64] >> i % 64 & 1)
		cache_ids_mark_freed(ids, cache, ns);
}

/* All hits that come are later than those so far: forget what was freed. */
void cache_ids_forget_freed(struct cache_ids *ids);

#endif
