/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"

void sites_init(struct sites *sites, const struct replay *replay)
{
	*sites = (struct sites){.replay = replay};
}

void sites_deinit(struct sites *sites)
{
	for (size_t i = 0; i < sites->n; i++)
		course_deinit(&sites->all[i].live);
	free(sites->all);
}

static int make_room(struct sites *sites, size_t n)
{
	size_t more = n < 256 ? 256 : 2 * n;
	struct site *bigger = reallocarray(sites->all, more, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	memset(bigger + sites->n, 0, (more - sites->n) * sizeof(*bigger));
	sites->all = bigger;
	sites->n = more;
	return 0;
}

/* Before the first change in the window. */
static int begin_window(const struct sites *sites, struct site *site)
{
	const int64_t start_ns = sites->replay->first_ns;

	if (site->live.steps)
		return 0;
	if (course_init(&site->live, COURSE_STEPS_OF_SITE, start_ns))
		return -ENOMEM;
	course_put(&site->live, start_ns, site->live_bytes);
	return 0;
}

static void subtract(uint64_t *sum, uint64_t value)
{
	*sum -= value < *sum ? value : *sum;
}

static void add(uint64_t *sum, uint64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = UINT64_MAX;
}

static void change_live(struct sites *sites, struct site *site, const struct heap_change *change)
{
	const struct heap_object *object = change->object;
	uint64_t used = object->role == HEAP_PLAIN ? object->bytes : 0;

	site->at_peak = site_at_peak(sites, site);
	site->peak_seen = sites->peak;
	if (change->kind == HEAP_ALLOC) {
		add(&site->live_objects, 1);
		add(&site->live_bytes, object->bytes);
		add(&site->live_requested, object->requested);
		add(&sites->used_bytes, used);
		return;
	}
	subtract(&site->live_objects, 1);
	subtract(&site->live_bytes, object->bytes);
	subtract(&site->live_requested, object->requested);
	subtract(&sites->used_bytes, used);
}

static void count_life(struct site *site, const struct heap_change *change)
{
	uint64_t ns = (uint64_t)change->record->timestamp - (uint64_t)change->object->born_ns;
	int class = 0;

	if (change->record->timestamp > change->object->born_ns)
		class = 64 - __builtin_clzll(ns);
	site->frees++;
	site->lives[class < LIFE_CLASSES ? class : LIFE_CLASSES - 1]++;
}

static void count_change(struct site *site, const struct heap_change *change)
{
	int64_t ns = change->record->timestamp;

	if (change->kind == HEAP_ALLOC) {
		site->hits++;
		add(&site->allocated, change->object->bytes);
	} else if (change->kind == HEAP_FREE) {
		count_life(site, change);
	}
	if (site->live_bytes > site->peak_bytes)
		site->peak_bytes = site->live_bytes;
	course_put(&site->live, ns, site->live_bytes);
}

int sites_add(struct sites *sites, const struct heap_change *change)
{
	const uint32_t origin = change->object->origin;
	struct site *site;

	if (origin >= SITES_MAX)
		return 0;
	if (origin >= sites->n && make_room(sites, origin))
		return -ENOMEM;
	site = &sites->all[origin];
	if (change->kind == HEAP_SPLIT) {
		add(&site->live_objects, change->pieces - 1);
		return 0;
	}
	if (sites->replay->in_window && begin_window(sites, site))
		return -ENOMEM;
	change_live(sites, site, change);
	if (sites->replay->in_window)
		count_change(site, change);
	return 0;
}

double site_life_ns(const struct site *site, double share)
{
	double wanted = share * (double)site->frees;
	uint64_t sum = 0;

	for (int class = 0; site->frees && class < LIFE_CLASSES; class ++) {
		sum += site->lives[class];
		if ((double)sum >= wanted)
			return class ? 0.75 * (double)(UINT64_C(1) << class) : 0;
	}
	return 0;
}

uint64_t sites_live_bytes(const struct sites *sites)
{
	const struct replay *replay = sites->replay;

	return replay->selects ? sites->used_bytes : heap_live_bytes(replay->heap);
}

void sites_note_peak(struct sites *sites)
{
	sites->peak++;
}

uint64_t site_at_peak(const struct sites *sites, const struct site *site)
{
	return site->peak_seen == sites->peak ? site->at_peak : site->live_bytes;
}

struct course_trend site_trend(const struct sites *sites, const struct site *site)
{
	if (!site->live.steps)
		return (struct course_trend){0};
	return course_trend(&site->live, sites->replay->last_ns);
}

size_t sites_top(const struct sites *sites, site_value_fn *value, uint32_t *origins, size_t n)
{
	size_t found = 0, known = heap_nr_origins(sites->replay->heap);

	for (uint32_t i = 0; i < sites->n && i < known; i++) {
		double this = value(sites, &sites->all[i]);
		size_t at = found;

		if (!(this > 0) || heap_is_backing(heap_origin(sites->replay->heap, i)))
			continue;
		while (at && value(sites, &sites->all[origins[at - 1]]) < this) {
			if (at < n)
				origins[at] = origins[at - 1];
			at--;
		}
		if (at < n)
			origins[at] = i;
		found += found < n;
	}
	return found;
}

/* kmalloc()'s caches say no more than the size. */
static const struct sidecar_cache *own_cache(const struct replay *replay,
					     const struct heap_origin *origin)
{
	if (origin->type != KMEM_TYPE_CACHE || !origin->cache)
		return NULL;
	return sidecar_cache(trace_reader_sidecar(replay->reader), origin->cache);
}

struct text site_text(const struct replay *replay, uint32_t index)
{
	const struct heap_origin *origin = heap_origin(replay->heap, index);
	const struct sidecar_cache *cache = own_cache(replay, origin);
	struct text symbol =
		sidecar_symbol_text(trace_reader_sidecar(replay->reader), origin->call_site);
	struct text out;

	snprintf(out.s, sizeof(out.s), "%.400s%s%.100s%s%s", symbol.s, cache ? " (" : "",
		 cache ? cache->name : "", cache ? ")" : "", origin->is_wrapper ? " *" : "");
	return out;
}

json_t *site_json(const struct replay *replay, uint32_t index)
{
	const struct heap_origin *origin = heap_origin(replay->heap, index);
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);
	const struct sidecar_cache *cache = sidecar_cache(sidecar, origin->cache);

	return json_pack("{so ss ss ss}", "address", json_from_address(origin->call_site), "symbol",
			 sidecar_symbol_text(sidecar, origin->call_site).s, "cache",
			 cache && origin->cache ? cache->name : "", "type",
			 kmem_type_name(origin->type));
}
