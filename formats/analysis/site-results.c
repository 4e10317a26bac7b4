/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What sites have to say when a pass is over. */
#include "formats/analysis/sites.h"

#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/heap/sum.h"
#include "formats/report/parts.h"

double site_life_ns(const struct site *site, double share)
{
	double wanted = share * (double)site->sums.frees;
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
	return sites->live_bytes;
}

uint64_t sites_used_bytes(const struct sites *sites)
{
	uint64_t sum = 0;

	if (sites->of.selects)
		return sites->live_bytes;
	for (size_t i = 0; i < sites->n; i++) {
		const struct site *site = &sites->all[i];
		const uint64_t other = site->other ? site->other->sums.live_bytes : 0;

		if (site->sums.role == HEAP_PLAIN)
			sum_add(&sum, site->sums.live_bytes - other);
		else if (site->other && site->other->sums.role == HEAP_PLAIN)
			sum_add(&sum, other);
	}
	return sum;
}

void sites_note_peak(struct sites *sites)
{
	sites->peak++;
}

uint64_t site_at_peak(const struct sites *sites, const struct site *site)
{
	return site->peak_seen == sites->peak ? site->at_peak : site->sums.live_bytes;
}

/* With its last value. */
static struct course course_of(const struct site *site)
{
	struct course course = site->live;

	course.last = site->sums.live_bytes;
	return course;
}

struct course_trend site_trend(const struct sites *sites, const struct site *site)
{
	const struct course course = course_of(site);

	if (!course.steps)
		return (struct course_trend){0};
	return course_trend(&course, *sites->of.last_ns);
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
	const struct course course = course_of(site);

	if (course.steps)
		course_resample(&course, *sites->of.last_ns, steps, COURSE_STEPS_OF_SITE);
	for (size_t i = 0; i < COURSE_STEPS_OF_SITE; i++)
		values[i] = is_still(site) ? site->sums.live_bytes : steps[i].last;
}

uint64_t site_peak_bytes(const struct site *site)
{
	return is_still(site) ? site->sums.live_bytes : site->sums.peak_bytes;
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
	size_t found = 0, known = heap_nr_origins(sites->of.heap);

	for (uint32_t i = 0; i < sites->n && i < known; i++) {
		double this = value(sites, &sites->all[i]);
		size_t at = found;

		if (!(this > 0) || heap_is_backing(heap_origin(sites->of.heap, i)))
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
static const struct sidecar_cache *own_cache(const struct sites *sites,
					     const struct heap_origin *origin)
{
	if (origin->type != KMEM_TYPE_CACHE || !origin->cache)
		return NULL;
	return sidecar_cache(sites->of.sidecar, origin->cache);
}

static struct text text_with(const struct sites *sites, const struct heap_origin *origin,
			     const struct sidecar_cache *cache)
{
	struct text symbol = sidecar_symbol_text(sites->of.sidecar, origin->call_site);
	struct text out;

	snprintf(out.s, sizeof(out.s), "%.400s%s%.100s%s%s", symbol.s, cache ? " (" : "",
		 cache ? cache->name : "", cache ? ")" : "", origin->is_wrapper ? " *" : "");
	return out;
}

struct text site_text(const struct sites *sites, uint32_t index)
{
	const struct heap_origin *origin = heap_origin(sites->of.heap, index);

	return text_with(sites, origin, own_cache(sites, origin));
}

struct text site_text_among(const struct sites *sites, uint32_t index, const uint32_t *others,
			    size_t n)
{
	const struct heap_origin *origin = heap_origin(sites->of.heap, index);
	const struct text out = site_text(sites, index);

	if (own_cache(sites, origin))
		return out;
	for (size_t i = 0; origin->cache && i < n; i++)
		if (others[i] != index && !strcmp(site_text(sites, others[i]).s, out.s))
			return text_with(sites, origin,
					 sidecar_cache(sites->of.sidecar, origin->cache));
	return out;
}

static int compare_call_sites(const void *a, const void *b, void *arg)
{
	const struct sites *sites = arg;
	const uint64_t x = heap_origin(sites->of.heap, *(const uint32_t *)a)->call_site;
	const uint64_t y = heap_origin(sites->of.heap, *(const uint32_t *)b)->call_site;

	return (x > y) - (x < y);
}

void sites_sort_by_call_site(const struct sites *sites, uint32_t *origins, size_t n)
{
	if (n)
		qsort_r(origins, n, sizeof(*origins), compare_call_sites, (void *)(uintptr_t)sites);
}

struct sorted_origins {
	const struct heap *heap;
	const uint32_t *v;
};

static uint64_t call_site_at(const void *arg, size_t i)
{
	const struct sorted_origins *origins = arg;

	return heap_origin(origins->heap, origins->v[i])->call_site;
}

struct text site_text_among_sorted(const struct sites *sites, uint32_t origin,
				   const uint32_t *others, size_t n)
{
	const struct sorted_origins origins = {sites->of.heap, others};
	const uint64_t call_site = heap_origin(sites->of.heap, origin)->call_site;
	const size_t from = search_from(n, call_site, call_site_at, &origins);

	return site_text_among(sites, origin, others + from,
			       search_above(n, call_site, call_site_at, &origins) - from);
}

struct text site_source_text(const struct sites *sites, uint32_t index)
{
	return sidecar_source_text(sites->of.sidecar,
				   heap_origin(sites->of.heap, index)->call_site);
}

bool sites_have_source(const struct sites *sites)
{
	const struct sidecar *sidecar = sites->of.sidecar;

	return sidecar && sidecar->lines;
}

json_t *site_json(const struct sites *sites, uint32_t index)
{
	const struct heap_origin *origin = heap_origin(sites->of.heap, index);
	const struct sidecar *sidecar = sites->of.sidecar;
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
