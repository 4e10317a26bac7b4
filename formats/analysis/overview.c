/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The first screen of `sonde report`: where memory is, its course, and what to look at next. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/command.h"
#include "formats/analysis/sites.h"
#include "formats/analysis/survivors.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/report/parts.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum {
	LABEL = 14,
	LISTED = 3,
	LINES_OF_SITES = 2,
	SPARKS = 40,
	SPARKS_SHOWN = 32,
	NAME_MIN = 20,
};

struct overview {
	struct analysis base;
	/* when finished: origins, the first ones */
	uint32_t wasting[LISTED], churning[LISTED];
	size_t nr_wasting, nr_churning;
	/* likewise, as sonde leaks judges them: what leaks, what only grows, what grows but can be
	 * reclaimed */
	struct survivors leaking[LISTED], growing[LISTED], reclaimable[LISTED];
	size_t nr_leaking, nr_growing, nr_reclaimable;
	uint64_t nr_unknown; /* call sites that cannot be judged, as frees are missing */
};

static const struct sites *sites_of(const struct overview *o)
{
	return o->base.replay->sites;
}

/* --- what stands out ------------------------------------------------------------------------- */

/* Whether the guest's caches and processes take more and more, and that is an amount that matters.
 */
static bool is_course_of_growth(const struct sites *sites, const struct site *site,
				uint64_t used_bytes)
{
	const double least = 16384, least_share = 1.0 / 1024;
	struct course_trend trend = site_trend(sites, site);
	double grown = trend.per_s * (double)sites_duration_ns(sites) / 1e9;

	return grown >= least && grown >= least_share * (double)used_bytes &&
	       course_only_grows(&trend);
}

static double waste(const struct sites *sites, const struct site *site)
{
	(void)sites;
	return (double)site->sums.live_bytes - (double)site->sums.live_requested;
}

/* Allocations of what mostly lives for short. */
static double churn(const struct sites *sites, const struct site *site)
{
	const double short_ns = 1e8;

	(void)sites;
	if (site->new_frees < site->sums.hits / 10 * 9 || site_median_life_ns(site) > short_ns)
		return 0;
	return (double)site->new_frees;
}

static void add_survivors(struct survivors *list, size_t *n, const struct survivors *s)
{
	if (*n < LISTED)
		list[(*n)++] = *s;
}

/* The verdicts are those of sonde leaks, so that what is shown here is also found there. */
static int find_survivors(struct overview *o)
{
	const struct sites *sites = sites_of(o);
	const uint64_t used_bytes = sites_used_bytes(sites);
	struct survivors *all;
	size_t n;

	if (survivors_find(sites, 0, &all, &n))
		return -ENOMEM;
	o->nr_leaking = o->nr_growing = o->nr_reclaimable = 0;
	o->nr_unknown = 0;
	for (size_t i = 0; i < n; i++)
		o->nr_unknown += all[i].verdict == VERDICT_UNKNOWN;
	for (size_t i = 0; i < n && all[i].verdict <= VERDICT_RECLAIM; i++) {
		const struct survivors *s = &all[i];

		if (s->verdict == VERDICT_LEAK)
			add_survivors(o->leaking, &o->nr_leaking, s);
		else if (s->verdict == VERDICT_GROWS)
			add_survivors(o->growing, &o->nr_growing, s);
		else if (is_course_of_growth(sites, &sites->all[s->origin], used_bytes))
			add_survivors(o->reclaimable, &o->nr_reclaimable, s);
	}
	free(all);
	return 0;
}

static int finish(struct analysis *base)
{
	struct overview *o = (struct overview *)base;

	o->nr_wasting = sites_top(base->replay->sites, waste, o->wasting, LISTED);
	o->nr_churning = sites_top(base->replay->sites, churn, o->churning, LISTED);
	return find_survivors(o);
}

struct cache_waste {
	uint16_t id;
	uint64_t bytes;
};

static bool is_less(const struct cache_waste *a, const struct cache_waste *b)
{
	return a->bytes != b->bytes ? a->bytes < b->bytes : a->id > b->id;
}

/* The caches whose slabs have most room left. Returns how many. */
static size_t wasting_caches(const struct overview *o, struct cache_waste *out, size_t n)
{
	const struct heap_cache *cache;
	size_t found = 0, pos = 0;
	uint16_t id;

	while ((cache = heap_next_cache(o->base.replay->heap, &pos, &id))) {
		struct cache_waste this = {id, cache->slabs.bytes - cache->objects.bytes};
		size_t at = found;

		if (cache->slabs.bytes <= cache->objects.bytes)
			continue;
		for (; at && is_less(&out[at - 1], &this); at--) {
			if (at < n)
				out[at] = out[at - 1];
		}
		if (at < n)
			out[at] = this;
		found += found < n;
	}
	return found;
}

static struct text cache_name(const struct overview *o, uint16_t id)
{
	const struct sidecar_cache *cache =
		sidecar_cache(trace_reader_sidecar(o->base.replay->reader), id);
	struct text out;

	if (cache && id)
		snprintf(out.s, sizeof(out.s), "%s", cache->name);
	else
		snprintf(out.s, sizeof(out.s), "cache %u", id);
	return out;
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_part(FILE *out, int depth, const char *label, uint64_t bytes, const char *what)
{
	const size_t used = LABEL + 13;

	fprintf(out, "%*s%-*s%11s  ", depth, "", LABEL - depth, label, text_bytes(bytes).s);
	line_wrap(out, used, used, what);
}

static void print_slabs(FILE *out, int depth, const struct heap_totals *totals)
{
	const struct heap_sum *slabs = &totals->pages[HEAP_SLAB];
	const struct heap_sum *objects = &totals->objects[HEAP_IN_SLAB];
	char text[256];

	snprintf(text, sizeof(text), "in %.40s; of that %.40s in %.40s",
		 text_number(slabs->objects, "slab").s, text_bytes(objects->bytes).s,
		 text_number(objects->objects, "object").s);
	print_part(out, depth, "slabs", slabs->bytes, text);
}

static void print_pages(FILE *out, const struct heap_totals *totals, uint64_t pages)
{
	const struct heap_sum *large = &totals->pages[HEAP_LARGE];
	const bool is_part = totals->objects[HEAP_OUTSIDE].bytes;
	const int depth = is_part ? 4 : 2;
	char text[160];

	if (is_part)
		print_part(out, 2, "pages", pages, "from the page allocator");
	print_slabs(out, depth, totals);
	snprintf(text, sizeof(text), "in %.40s of kmalloc() that no slab could hold",
		 text_number(large->objects, "block").s);
	if (large->objects)
		print_part(out, depth, "large", large->bytes, text);
	print_part(out, depth, "others", totals->pages[HEAP_PLAIN].bytes,
		   "user memory, page cache, page tables, stacks, vmalloc");
}

static void print_memory_line(FILE *out, const struct replay *replay, uint64_t bytes,
			      const char *what)
{
	char text[80];

	snprintf(text, sizeof(text), "%s, %s",
		 replay_lacks_frees(replay) ? "not seen to be freed" : "live at the end", what);
	print_part(out, 0, "Memory", bytes, text);
}

static void print_memory(FILE *out, const struct overview *o)
{
	const struct replay *replay = o->base.replay;
	const struct heap_totals *totals = heap_totals(replay->heap);
	uint64_t pages = heap_live_bytes(replay->heap) - totals->objects[HEAP_OUTSIDE].bytes;

	if (replay->selects) {
		print_memory_line(out, replay, sites_used_bytes(sites_of(o)),
				  "of the allocations that you selected");
		return;
	}
	print_memory_line(out, replay, heap_live_bytes(replay->heap), "each byte counted once");
	print_pages(out, totals, pages);
	if (totals->objects[HEAP_OUTSIDE].bytes)
		print_part(out, 2, "outside", totals->objects[HEAP_OUTSIDE].bytes,
			   "of objects in pages allocated outside the trace");
}

static void print_course(FILE *out, const struct overview *o)
{
	const struct replay *replay = o->base.replay;
	struct course_step steps[SPARKS_SHOWN];
	uint64_t values[SPARKS_SHOWN];

	if (!sites_of(o)->course.steps)
		return;
	course_resample(&sites_of(o)->course, replay->span.end_ns, steps, SPARKS_SHOWN);
	for (size_t i = 0; i < SPARKS_SHOWN; i++)
		values[i] = steps[i].peak;
	fprintf(out, "%-*s%s  peak %s at %.3f s\n", LABEL, "Course",
		sparkline(values, SPARKS_SHOWN).s, text_bytes(sites_of(o)->peak_bytes).s,
		(double)sites_of(o)->peak_ns / 1e9);
}

/* What a site is said to grow by: the straight line, or what stays if its course is not known. */
static double growth_per_s(const struct overview *o, const struct survivors *s)
{
	const struct site *site = &sites_of(o)->all[s->origin];

	return site->live.steps ? site_trend(sites_of(o), site).per_s : s->per_s;
}

static void print_growth(FILE *out, const struct overview *o, const struct survivors *s,
			 const char *label)
{
	const struct site *site = &sites_of(o)->all[s->origin];
	struct course_trend trend = site_trend(sites_of(o), site);
	struct text name = site_text(o->base.replay->sites, s->origin);
	const bool is_narrow = terminal_is_narrow(out);
	const bool can_shrink = s->verdict == VERDICT_RECLAIM;
	char begin[64], end[96], error[32] = "", r2[16] = "";

	snprintf(begin, sizeof(begin), "%-*s%9.12s/s  ", LABEL, label,
		 text_bytes(whole_number(growth_per_s(o, s))).s);
	if (!is_narrow || !can_shrink)
		snprintf(error, sizeof(error), ", +-%.12s",
			 text_bytes(whole_number(trend.per_s_error)).s);
	if (!is_narrow)
		snprintf(r2, sizeof(r2), ", R2 %.2f", trend.confidence);
	snprintf(end, sizeof(end), "%s%s, %.12s live%s", error, r2,
		 text_bytes(site->sums.live_bytes).s, can_shrink ? ", reclaimable" : "");
	line_print_name(out, begin, name.s, end);
}

static void print_growing(FILE *out, const struct overview *o)
{
	size_t n = 0;

	for (size_t i = 0; i < o->nr_growing && n < LINES_OF_SITES; i++)
		print_growth(out, o, &o->growing[i], n++ ? "" : "Grows");
	for (size_t i = 0; i < o->nr_reclaimable && n < LINES_OF_SITES; i++)
		print_growth(out, o, &o->reclaimable[i], n++ ? "" : "Grows");
	if (n || o->nr_leaking)
		return;
	if (replay_lacks_frees(o->base.replay))
		line_print(out, LABEL, "Grows", "unknown: frees may not have been recorded");
	else if (survivors_are_short(sites_of(o)))
		line_print(out, LABEL, "Grows", "too short to tell: that takes %s",
			   survivors_time_text(sites_of(o)));
	else if (survivors_lack_init(sites_of(o)))
		line_print(out, LABEL, "Grows", "unknown: nothing says when init began");
	else if (o->nr_unknown)
		line_print(out, LABEL, "Grows", "unknown of %s, of which frees are missing",
			   text_number(o->nr_unknown, "call site").s);
	else
		line_print(out, LABEL, "Grows", "nothing grows all the time");
}

static void print_leaking(FILE *out, const struct overview *o)
{
	for (size_t i = 0; i < o->nr_leaking && i < LINES_OF_SITES; i++) {
		const struct survivors *s = &o->leaking[i];
		struct text name = site_text(o->base.replay->sites, s->origin);
		char begin[64], end[64];

		snprintf(begin, sizeof(begin), "%-*s%9.12s/s  ", LABEL, i ? "" : "Leaks",
			 text_bytes((uint64_t)s->per_s).s);
		snprintf(end, sizeof(end), ", %.2f %% freed, %.12s live",
			 site_freed_percent(&sites_of(o)->all[s->origin]), text_bytes(s->bytes).s);
		line_print_name(out, begin, name.s, end);
	}
}

static void begin_line(struct line_items *line, FILE *out, const char *label, uint64_t bytes,
		       const char *what)
{
	struct text text;

	snprintf(text.s, sizeof(text.s), "%-*s%11.40s  %s", LABEL, label, text_bytes(bytes).s,
		 what);
	line_begin_items(line, out, text.s);
}

static void add_item(struct line_items *line, struct text name, uint64_t bytes)
{
	char end[48];

	snprintf(end, sizeof(end), " %.40s", text_bytes(bytes).s);
	line_add_item(line, name.s, end);
}

static void print_wasting_caches(FILE *out, const struct overview *o)
{
	const struct heap_totals *totals = heap_totals(o->base.replay->heap);
	struct cache_waste caches[LISTED] = {{0}};
	size_t n = wasting_caches(o, caches, LISTED);
	uint64_t slabs = totals->pages[HEAP_SLAB].bytes;
	uint64_t objects = totals->objects[HEAP_IN_SLAB].bytes;
	struct line_items line;

	begin_line(&line, out, "Wasted", slabs > objects ? slabs - objects : 0, "is room in slabs");
	for (size_t i = 0; i < n; i++)
		add_item(&line, cache_name(o, caches[i].id), caches[i].bytes);
	fputc('\n', out);
}

static void print_wasting_sites(FILE *out, const struct overview *o, const char *label)
{
	struct line_items line;
	double sum = 0;

	for (size_t i = 0; i < sites_of(o)->n; i++)
		sum += waste(sites_of(o), &sites_of(o)->all[i]);
	begin_line(&line, out, label, whole_number(sum), "was not requested");
	for (size_t i = 0; i < o->nr_wasting; i++)
		add_item(&line,
			 site_text_among(sites_of(o), o->wasting[i], o->wasting, o->nr_wasting),
			 whole_number(waste(sites_of(o), &sites_of(o)->all[o->wasting[i]])));
	fputc('\n', out);
}

/* Lives are counted by powers of two: half of them ended below one. */
static struct text half_life(const struct site *site)
{
	const double middle = 0.75;

	return measure_duration(site_median_life_ns(site) / middle);
}

static void print_churning(FILE *out, const struct overview *o)
{
	double seconds = (double)replay_duration_ns(o->base.replay) / 1e9;

	for (size_t i = 0; i < o->nr_churning && i < LINES_OF_SITES; i++) {
		const struct site *site = &sites_of(o)->all[o->churning[i]];
		struct text name = site_text_among(
			sites_of(o), o->churning[i], o->churning,
			LINES_OF_SITES < o->nr_churning ? LINES_OF_SITES : o->nr_churning);
		uint64_t bytes = site->sums.hits ? site->sums.allocated / site->sums.hits : 0;
		char begin[64], end[64];

		snprintf(begin, sizeof(begin), "%-*s%9.0f/s  ", LABEL, i ? "" : "Churns",
			 seconds > 0 ? (double)site->sums.hits / seconds : 0);
		snprintf(end, sizeof(end), ", %.12s each, half live < %.12s", text_bytes(bytes).s,
			 half_life(site).s);
		line_print_name(out, begin, name.s, end);
	}
}

/* What the trace has beside allocations. */
static void print_others(FILE *out, const struct replay *replay)
{
	size_t n, listed = 0;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);
	const char *other = "";
	char text[400];

	if (!replay->others)
		return;
	snprintf(text, sizeof(text), "%.40s of", text_number(replay->others, "event").s);
	for (size_t i = 0; i < n; i++) {
		const size_t used = strlen(text);

		if (&all[i] == replay->instance)
			continue;
		other = all[i].name;
		if (listed++ < LISTED)
			snprintf(text + used, sizeof(text) - used, "%s %.80s",
				 listed > 1 ? "," : "", all[i].name);
	}
	line_print(out, LABEL, "Others", "%s%s; sonde report --%s %s shows them", text,
		   listed > LISTED ? ", ..." : "", listed == 1 ? "instance" : "analysis",
		   listed == 1 ? other : "events");
}

static bool shows_wasting_caches(const struct analysis_options *options)
{
	return options->by.n == 1 && options->by.by[0] == BY_CACHE &&
	       options->sort == MEASURE_WASTED;
}

/* The command that shows more of what stands out: leaks, growth, room in slabs, or the peak. */
static void print_next(FILE *out, const struct overview *o)
{
	const struct replay *replay = o->base.replay;
	const struct heap_totals *totals = heap_totals(replay->heap);
	double room = (double)totals->pages[HEAP_SLAB].bytes -
		      (double)totals->objects[HEAP_IN_SLAB].bytes;
	struct command command = {.verb = "timeline"};

	if (!replay->records || (replay->selects && !replay->nr_selected))
		return;
	if (o->nr_growing || o->nr_leaking)
		command.verb = "leaks";
	else if (!replay->selects && room * 4 > (double)heap_live_bytes(replay->heap) &&
		 !shows_wasting_caches(&o->base.options))
		command.verb = "report --by cache --sort wasted";
	fprintf(out, "%-*s", LABEL, "Next");
	command_print(out, replay, &command, o->base.options.dir);
	fputc('\n', out);
}

static void print_head(FILE *out, const struct replay *replay)
{
	replay_print_head(replay, out, LABEL);
	if (replay->nr_instances > 1)
		line_print(out, LABEL, "Instance",
			   "%s, one of %zu of kmem; --instance names another",
			   replay->instance->name, replay->nr_instances);
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct overview *o = (const struct overview *)base;

	print_head(out, base->replay);
	print_memory(out, o);
	print_course(out, o);
	print_growing(out, o);
	print_leaking(out, o);
	if (!base->replay->selects)
		print_wasting_caches(out, o);
	print_wasting_sites(out, o, base->replay->selects ? "Wasted" : "");
	print_churning(out, o);
	print_others(out, base->replay);
	sites_print_limit(sites_of(o), out, LABEL);
	replay_print_losses(base->replay, out, LABEL);
	replay_print_bound(base->replay, out, LABEL);
	print_next(out, o);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *sum_json(const struct heap_sum *sum)
{
	return json_pack("{so so}", "count", json_from_count(sum->objects), "bytes",
			 json_from_count(sum->bytes));
}

static json_t *memory_json(const struct overview *o)
{
	const struct heap_totals *totals = heap_totals(o->base.replay->heap);

	return json_pack("{so so so so so so so so so}", "live_bytes",
			 json_from_count(heap_live_bytes(o->base.replay->heap)), "selected_bytes",
			 json_from_count(sites_used_bytes(sites_of(o))), "slabs",
			 sum_json(&totals->pages[HEAP_SLAB]), "large_kmalloc",
			 sum_json(&totals->pages[HEAP_LARGE]), "other_pages",
			 sum_json(&totals->pages[HEAP_PLAIN]), "objects_in_slabs",
			 sum_json(&totals->objects[HEAP_IN_SLAB]), "objects_outside",
			 sum_json(&totals->objects[HEAP_OUTSIDE]), "peak_bytes",
			 json_from_count(sites_of(o)->peak_bytes), "peak_ns",
			 json_integer(sites_of(o)->peak_ns));
}

static json_t *course_json(const struct overview *o)
{
	struct course_step steps[SPARKS];
	json_t *array = json_array();

	if (!sites_of(o)->course.steps)
		return array;
	course_resample(&sites_of(o)->course, o->base.replay->span.end_ns, steps, SPARKS);
	for (size_t i = 0; i < SPARKS; i++)
		json_array_append_new(array, json_from_count(steps[i].last));
	return array;
}

/* Origins, each with a value under its key. */
static json_t *list_json(const struct overview *o, const uint32_t *origins, size_t n,
			 const char *key, site_value_fn *value)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *item = site_json(o->base.replay->sites, origins[i]);
		double number = value(sites_of(o), &sites_of(o)->all[origins[i]]);

		json_object_set_new(item, key, json_from_count(whole_number(number)));
		json_array_append_new(array, item);
	}
	return array;
}

/* Growing ones have the slope of the straight line, leaking ones what stays. */
static json_t *survivor_json(const struct overview *o, const struct survivors *s)
{
	json_t *item = site_json(o->base.replay->sites, s->origin);
	double per_s = s->verdict == VERDICT_LEAK ? s->per_s : growth_per_s(o, s);

	json_object_set_new(item, "bytes_per_second", json_from_count(whole_number(per_s)));
	json_object_set_new(item, "verdict", json_string(verdict_name(s->verdict)));
	return item;
}

static void add_survivors_json(json_t *array, const struct overview *o,
			       const struct survivors *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, survivor_json(o, &list[i]));
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct overview *o = (const struct overview *)base;
	json_t *growing = json_array(), *leaking = json_array();
	int failed = replay_put_json(base->replay, root);

	failed |= sites_put_limit(sites_of(o), root);
	failed |= json_object_set_new(root, "memory", memory_json(o));
	failed |= json_object_set_new(root, "course", course_json(o));
	add_survivors_json(growing, o, o->growing, o->nr_growing);
	add_survivors_json(growing, o, o->reclaimable, o->nr_reclaimable);
	add_survivors_json(leaking, o, o->leaking, o->nr_leaking);
	failed |= json_object_set_new(root, "growing", growing);
	failed |= json_object_set_new(root, "leaking", leaking);
	failed |= json_object_set_new(root, "unknown_call_sites", json_from_count(o->nr_unknown));
	failed |= json_object_set_new(
		root, "wasting", list_json(o, o->wasting, o->nr_wasting, "wasted_bytes", waste));
	return failed |
	       json_object_set_new(root, "churning",
				   list_json(o, o->churning, o->nr_churning, "frees", churn));
}

const struct analysis_ops overview_analysis = {
	.about = "where memory is, what grows, what is wasted, what churns",
	.size = sizeof(struct overview),
	.sites = true,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
};
