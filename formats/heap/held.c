/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t beyond(uint64_t bytes, uint64_t used)
{
	return bytes > used ? bytes - used : 0;
}

static void count_object(void *arg, uint64_t ptr, const struct heap_object *object)
{
	struct heap_holdings *h = arg;
	const uint64_t bytes = beyond(object->bytes, object->requested);

	(void)ptr;
	if (object->place == HEAP_IS_BLOCK)
		sum_add(&h->large.internal, bytes);
	if (object->place != HEAP_IN_SLAB)
		return;
	sum_add(&h->all.internal, bytes);
	if (object->cache < h->nr_caches)
		sum_add(&h->internal[object->cache], bytes);
}

static void add(struct heap_held *sum, const struct heap_held *other)
{
	sum_add(&sum->bytes, other->bytes);
	sum_add(&sum->internal, other->internal);
	sum_add(&sum->external, other->external);
}

int heap_holdings_find(struct heap_holdings *holdings, const struct heap *heap,
		       const struct sidecar *sidecar)
{
	const struct heap_totals *totals = heap_totals(heap);
	const uint64_t slabs = totals->pages[HEAP_SLAB].bytes;
	const uint64_t large = totals->pages[HEAP_LARGE].bytes;

	*holdings = (struct heap_holdings){.heap = heap, .sidecar = sidecar};
	for (size_t i = 0; sidecar && i < sidecar->nr_caches; i++)
		if (sidecar->caches[i].id >= holdings->nr_caches)
			holdings->nr_caches = (size_t)sidecar->caches[i].id + 1;
	holdings->internal = calloc(holdings->nr_caches + 1, sizeof(*holdings->internal));
	if (!holdings->internal)
		return -ENOMEM;
	holdings->large.bytes = large;
	holdings->large.external = beyond(large, totals->objects[HEAP_IS_BLOCK].bytes);
	holdings->all.bytes = slabs;
	holdings->all.external = beyond(slabs, totals->objects[HEAP_IN_SLAB].bytes);
	heap_each(heap, count_object, holdings);
	add(&holdings->all, &holdings->large);
	return 0;
}

void heap_holdings_deinit(struct heap_holdings *holdings)
{
	free(holdings->internal);
	holdings->internal = NULL;
}

bool heap_holdings_of_cache(const struct heap_holdings *holdings, const char *name,
			    struct heap_held *out)
{
	const struct sidecar *sidecar = holdings->sidecar;
	bool found = false;

	*out = (struct heap_held){0};
	for (size_t i = 0; sidecar && i < sidecar->nr_caches; i++) {
		const struct sidecar_cache *cache = &sidecar->caches[i];
		const struct heap_cache *held = heap_cache(holdings->heap, cache->id);

		if (strcmp(cache->name, name))
			continue;
		found = true;
		if (held)
			add(out, &(struct heap_held){
					 .bytes = held->slabs.bytes,
					 .internal = holdings->internal[cache->id],
					 .external = beyond(held->slabs.bytes,
							    held->objects.bytes)});
	}
	return found;
}
