/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/heap/sum.h"
#include "formats/report/parts.h"

void sites_init(struct sites *sites, const struct replay *replay)
{
	*sites = (struct sites){.replay = replay};
}

void sites_deinit(struct sites *sites)
{
	for (size_t i = 0; i < sites->n; i++) {
		course_deinit(&sites->all[i].live);
		free(sites->all[i].lives);
	}
	free(sites->all);
}

__attribute__((cold, noinline)) static int make_room(struct sites *sites, size_t n)
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
__attribute__((cold, noinline)) static int begin_window(struct sites *sites, struct site *site)
{
	const int64_t start_ns = sites->replay->first_ns;

	site->peak_bytes = site->live_bytes;
	if (sites->nr_courses == SITES_WITH_COURSE) {
		site->is_beyond = true;
		sites->nr_beyond++;
		return 0;
	}
	if (course_init_small(&site->live, COURSE_STEPS_OF_SITE, start_ns))
		return -ENOMEM;
	sites->nr_courses++;
	course_put(&site->live, start_ns, site->live_bytes);
	return 0;
}

static void change_live(struct sites *sites, struct site *site, const struct heap_change *change)
{
	const struct heap_object *object = change->object;
	uint64_t used = object->role == HEAP_PLAIN ? object->bytes : 0;

	if (site->peak_seen != sites->peak) {
		site->at_peak = site->live_bytes;
		site->peak_seen = sites->peak;
	}
	if (change->kind == HEAP_ALLOC) {
		site->live_objects++;
		sum_add(&site->live_bytes, object->bytes);
		sum_add(&site->live_requested, object->requested);
		sum_add(&sites->used_bytes, used);
		return;
	}
	sum_subtract(&site->live_objects, 1);
	sum_subtract(&site->live_bytes, object->bytes);
	sum_subtract(&site->live_requested, object->requested);
	sum_subtract(&sites->used_bytes, used);
}

static int count_life(struct site *site, const struct heap_change *change)
{
	uint64_t ns = (uint64_t)change->record->timestamp - (uint64_t)change->object->born_ns;
	int class = 0;

	site->frees++;
	if (site->is_beyond)
		return 0;
	if (!site->lives)
		site->lives = calloc(LIFE_CLASSES, sizeof(*site->lives));
	if (!site->lives)
		return -ENOMEM;
	if (change->record->timestamp > change->object->born_ns)
		class = 64 - __builtin_clzll(ns);
	site->lives[class < LIFE_CLASSES ? class : LIFE_CLASSES - 1]++;
	return 0;
}

static int count_change(struct site *site, const struct heap_change *change)
{
	int ret = 0;

	if (change->kind == HEAP_ALLOC) {
		site->hits++;
		sum_add(&site->allocated, change->object->bytes);
	} else if (change->kind == HEAP_FREE) {
		ret = count_life(site, change);
	}
	if (site->live_bytes > site->peak_bytes)
		site->peak_bytes = site->live_bytes;
	if (!site->is_beyond)
		course_put(&site->live, change->record->timestamp, site->live_bytes);
	return ret;
}

int sites_add(struct sites *sites, const struct heap_change *change)
{
	const uint32_t origin = change->object->origin;
	const bool in_window = sites->replay->in_window;
	struct site *site;

	if (origin >= sites->n && make_room(sites, origin))
		return -ENOMEM;
	site = &sites->all[origin];
	if (change->kind == HEAP_SPLIT) {
		site->live_objects += change->pieces - 1;
		return 0;
	}
	if (in_window && !site->live.steps && !site->is_beyond && begin_window(sites, site))
		return -ENOMEM;
	change_live(sites, site, change);
	return in_window ? count_change(site, change) : 0;
}

double site_life_ns(const struct site *site, double share)
{
	double wanted = share * (double)site->frees;
	uint64_t sum = 0;

	for (int class = 0; site->lives && class < LIFE_CLASSES; class ++) {
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

/* Nothing of it has changed in the window. */
static bool is_still(const struct site *site)
{
	return !site->live.steps && !site->is_beyond;
}

void site_course(const struct sites *sites, const struct site *site,
		 uint64_t values[COURSE_STEPS_OF_SITE])
{
	struct course_step steps[COURSE_STEPS_OF_SITE] = {{0}};

	if (site->live.steps)
		course_resample(&site->live, sites->replay->last_ns, steps, COURSE_STEPS_OF_SITE);
	for (size_t i = 0; i < COURSE_STEPS_OF_SITE; i++)
		values[i] = is_still(site) ? site->live_bytes : steps[i].last;
}

uint64_t site_peak_bytes(const struct site *site)
{
	return is_still(site) ? site->live_bytes : site->peak_bytes;
}

json_t *site_course_json(const struct sites *sites, const struct site *site)
{
	uint64_t values[COURSE_STEPS_OF_SITE];
	json_t *array = json_array();

	site_course(sites, site, values);
	for (size_t i = 0; !site->is_beyond && i < COURSE_STEPS_OF_SITE; i++)
		json_array_append_new(array, json_from_count(values[i]));
	return array;
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

void sites_print_limit(const struct sites *sites, FILE *out, int indent)
{
	if (sites->nr_beyond)
		line_print(out, indent, "Limit",
			   "%s beyond the first %s have sums only: no growth, course or lifetimes",
			   text_number(sites->nr_beyond, "call site").s,
			   text_count(sites->nr_courses).s);
}

int sites_put_limit(const struct sites *sites, json_t *root)
{
	return json_object_set_new(root, "call_sites_without_course",
				   json_from_count(sites->nr_beyond));
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

struct text site_source_text(const struct replay *replay, uint32_t index)
{
	return sidecar_source_text(trace_reader_sidecar(replay->reader),
				   heap_origin(replay->heap, index)->call_site);
}

bool sites_have_source(const struct replay *replay)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);

	return sidecar && sidecar->lines;
}

json_t *site_json(const struct replay *replay, uint32_t index)
{
	const struct heap_origin *origin = heap_origin(replay->heap, index);
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);
	const struct sidecar_cache *cache = sidecar_cache(sidecar, origin->cache);

	json_t *site = json_pack("{so ss ss ss}", "address", json_from_address(origin->call_site),
				 "symbol", sidecar_symbol_text(sidecar, origin->call_site).s,
				 "cache", cache && origin->cache ? cache->name : "", "type",
				 kmem_type_name(origin->type));

	if (!sidecar_put_source(site, sidecar, origin->call_site))
		return site;
	json_decref(site);
	return NULL;
}
