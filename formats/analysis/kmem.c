/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who allocates how much: what `sonde report` shows by default. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/analysis/analysis.h"
#include "formats/analysis/kmem-sums.h"
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"

enum { LABEL = 14 };

static const char *const by_words[] = {[KMEM_BY_CALLSITE] = "callsite",
				       [KMEM_BY_CACHE] = "cache",
				       [KMEM_BY_SIZE] = "size",
				       [KMEM_BY_POINTER] = "pointer",
				       NULL};
static const char *const sort_words[] = {[KMEM_SORT_HITS] = "hits",
					 [KMEM_SORT_BYTES] = "bytes",
					 [KMEM_SORT_REQUESTED] = "requested",
					 [KMEM_SORT_FRAGMENTATION] = "fragmentation",
					 [KMEM_SORT_CROSS_CPU] = "cross-cpu",
					 [KMEM_SORT_LIVE] = "live",
					 NULL};

struct kmem_analysis {
	struct analysis base;
	enum kmem_by by;
	struct kmem_sums *sums;
	/* when finished: */
	const struct kmem_group *groups; /* sorted */
	size_t nr_groups, nr_shown;
};

/* --- reading --------------------------------------------------------------------------------- */

static bool wants(const struct event_class *class)
{
	return !strcmp(class->system, "kmem");
}

static int create(const struct analysis_config *config, struct analysis **out, struct error *err)
{
	struct kmem_analysis *a = calloc(1, sizeof(*a));
	int by = config->choice[ANALYSIS_BY], type = config->choice[ANALYSIS_TYPE];

	if (!a)
		return error_set(err, ENOMEM, "out of memory");
	a->by = by < 0 ? KMEM_BY_CALLSITE : (enum kmem_by)by;
	a->sums = kmem_sums_create(a->by, type < 0 ? KMEM_ALL_TYPES : type);
	if (!a->sums) {
		free(a);
		return error_set(err, ENOMEM, "out of memory");
	}
	*out = &a->base;
	return 0;
}

static void destroy(struct analysis *base)
{
	struct kmem_analysis *a = (struct kmem_analysis *)base;

	kmem_sums_destroy(a->sums);
	free(a);
}

static int event(struct analysis *base, const struct trace_event *event)
{
	return kmem_sums_add(((struct kmem_analysis *)base)->sums, event);
}

static void finish(struct analysis *base)
{
	struct kmem_analysis *a = (struct kmem_analysis *)base;
	int sort = base->config.choice[ANALYSIS_SORT];
	size_t top = base->config.top;

	a->nr_groups = kmem_sums_sort(a->sums, sort < 0 ? KMEM_SORT_BYTES : (enum kmem_sort)sort,
				      &a->groups);
	a->nr_shown = top && top < a->nr_groups ? top : a->nr_groups;
}

static uint64_t duration_ns(const struct kmem_totals *totals)
{
	return (uint64_t)totals->last_ns - (uint64_t)totals->first_ns;
}

/* "kmalloc-64" or "cache 7", or for KMEM_NO_CACHE + type "(kmalloc)". */
static struct text cache_text(const struct sidecar *sidecar, uint64_t key)
{
	const struct sidecar_cache *cache =
		key < KMEM_NO_CACHE ? sidecar_cache(sidecar, (uint16_t)key) : NULL;
	struct text out;

	if (cache)
		snprintf(out.s, sizeof(out.s), "%s", cache->name);
	else if (key < KMEM_NO_CACHE)
		snprintf(out.s, sizeof(out.s), "cache %" PRIu64, key);
	else
		snprintf(out.s, sizeof(out.s), "(%s)",
			 kmem_type_name((unsigned int)(key - KMEM_NO_CACHE)));
	return out;
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_freed(FILE *out, const struct kmem_totals *totals)
{
	fprintf(out, "%-*s%s, %s of them on another vCPU", LABEL, "Frees",
		text_count(totals->free_events).s, text_count(totals->sum.cross_cpu_frees).s);
	if (totals->unknown_frees)
		fprintf(out, ", %s of objects allocated outside the trace",
			text_count(totals->unknown_frees).s);
	fputc('\n', out);
}

/* Each family apart: slabs are made of pages, so a sum over all counts their bytes twice. */
static void print_families(FILE *out, const struct kmem_totals *totals)
{
	for (uint8_t type = 0; type < KMEM_TYPE_COUNT; type++) {
		const struct kmem_group *family = &totals->by_type[type];

		if (!family->hits)
			continue;
		fprintf(out, "  %-*s%s of %s, %.1f %% fragmentation; live %s of %s%s\n", LABEL - 2,
			kmem_type_name(type), text_count(family->hits).s,
			text_bytes(family->bytes_allocated).s, kmem_fragmentation(family),
			text_count(family->live_objects).s, text_bytes(family->live_bytes).s,
			type == KMEM_TYPE_PAGES ? ", slabs included" : "");
	}
}

static void print_totals(FILE *out, const struct kmem_analysis *a)
{
	const struct kmem_totals *totals = kmem_sums_totals(a->sums);
	const struct kmem_group *sum = &totals->sum;

	fprintf(out, "%-*s%s of %s requested, %s allocated: %.1f %% internal fragmentation\n",
		LABEL, "Allocations", text_count(sum->hits).s, text_bytes(sum->bytes_requested).s,
		text_bytes(sum->bytes_allocated).s, kmem_fragmentation(sum));
	print_families(out, totals);
	print_freed(out, totals);
	fprintf(out, "%-*s%s of %s at the end\n", LABEL, "Live",
		text_number(sum->live_objects, "object").s, text_bytes(sum->live_bytes).s);
	if (totals->invalid)
		fprintf(out, "%-*s%s of unknown kind left out; see sonde check\n", LABEL, "Invalid",
			text_number(totals->invalid, "record").s);
	text_print_recording(out, a->base.config.reader, LABEL);
	text_print_losses(out, a->base.config.reader, LABEL);
	text_print_gaps(out, a->base.config.reader, LABEL);
}

static const char *const titles[] = {
	[KMEM_BY_CALLSITE] = "CALL SITE",
	[KMEM_BY_CACHE] = "CACHE",
	[KMEM_BY_SIZE] = "BYTES REQUESTED",
	[KMEM_BY_POINTER] = "POINTER",
};

static struct text group_name(const struct kmem_analysis *a, uint64_t key)
{
	const struct sidecar *sidecar = trace_reader_sidecar(a->base.config.reader);

	switch (a->by) {
	case KMEM_BY_CALLSITE:
		return sidecar_symbol_text(sidecar, key);
	case KMEM_BY_CACHE:
		return cache_text(sidecar, key);
	case KMEM_BY_SIZE:
		return text_count(key);
	case KMEM_BY_POINTER:
		break;
	}
	return sidecar_symbol_text(NULL, key);
}

static void print_table(FILE *out, const struct kmem_analysis *a)
{
	bool colour = cli_colour(out);

	if (!a->nr_shown)
		return;
	fprintf(out, "\n%s%12s %11s %11s %7s %11s %11s %11s  %s%s\n", colour ? "\033[1m" : "",
		"ALLOCATIONS", "REQUESTED", "ALLOCATED", "FRAG %", "CROSS-CPU", "LIVE",
		"LIVE BYTES", titles[a->by], colour ? "\033[0m" : "");
	for (size_t i = 0; i < a->nr_shown; i++) {
		const struct kmem_group *group = &a->groups[i];

		fprintf(out, "%12s %11s %11s %7.1f %11s %11s %11s  %s\n", text_count(group->hits).s,
			text_bytes(group->bytes_requested).s, text_bytes(group->bytes_allocated).s,
			kmem_fragmentation(group), text_count(group->cross_cpu_frees).s,
			text_count(group->live_objects).s, text_bytes(group->live_bytes).s,
			group_name(a, group->key).s);
	}
	if (a->nr_shown < a->nr_groups)
		fprintf(out, "%12s more; --top 0 shows all\n",
			text_count(a->nr_groups - a->nr_shown).s);
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct kmem_analysis *a = (const struct kmem_analysis *)base;
	const struct kmem_totals *totals = kmem_sums_totals(a->sums);

	text_print_head(out, base->config.reader, totals->records, duration_ns(totals), LABEL);
	print_totals(out, a);
	print_table(out, a);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static int put_count(json_t *object, const char *key, uint64_t value)
{
	return json_object_set_new(object, key, json_from_count(value));
}

static int put_sums(json_t *object, const struct kmem_group *group)
{
	/* Two decimals; more would be noise. */
	double percent = (double)(int)(kmem_fragmentation(group) * 100 + 0.5) / 100;
	int failed = put_count(object, "bytes_requested", group->bytes_requested);

	failed |= put_count(object, "bytes_allocated", group->bytes_allocated);
	failed |= json_object_set_new(object, "fragmentation_percent", json_real(percent));
	failed |= put_count(object, "cross_cpu_frees", group->cross_cpu_frees);
	failed |= put_count(object, "live_objects", group->live_objects);
	return failed | put_count(object, "live_bytes", group->live_bytes);
}

static json_t *key_object(const struct kmem_analysis *a, uint64_t key)
{
	const struct sidecar *sidecar = trace_reader_sidecar(a->base.config.reader);
	const struct sidecar_cache *cache;

	switch (a->by) {
	case KMEM_BY_CALLSITE:
		return json_pack("{so ss}", "address", json_from_address(key), "symbol",
				 sidecar_symbol_text(sidecar, key).s);
	case KMEM_BY_CACHE:
		cache = key < KMEM_NO_CACHE ? sidecar_cache(sidecar, (uint16_t)key) : NULL;
		return json_pack("{ss so so}", "name", cache_text(sidecar, key).s, "object_size",
				 json_from_count(cache ? cache->object_size : 0), "size",
				 json_from_count(cache ? cache->size : 0));
	case KMEM_BY_SIZE:
		return json_pack("{so}", "bytes", json_from_count(key));
	case KMEM_BY_POINTER:
		break;
	}
	return json_pack("{so}", "address", json_from_address(key));
}

static json_t *groups_json(const struct kmem_analysis *a)
{
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; !failed && i < a->nr_shown; i++) {
		const struct kmem_group *group = &a->groups[i];
		json_t *item = key_object(a, group->key);

		failed = put_count(item, "hits", group->hits);
		failed |= put_sums(item, group);
		failed |= json_array_append_new(array, item);
	}
	if (!failed)
		return array;
	json_decref(array);
	return NULL;
}

static int put_trace(json_t *root, const struct kmem_analysis *a)
{
	const struct kmem_totals *totals = kmem_sums_totals(a->sums);
	const struct trace_reader *reader = a->base.config.reader;
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	const struct trace_info *info = sidecar ? &sidecar->info : &(struct trace_info){0};
	int failed = text_json_losses(root, reader);

	failed |= put_count(root, "records", totals->records);
	failed |= put_count(root, "vcpus", trace_reader_nr_streams(reader));
	failed |= put_count(root, "duration_ns", duration_ns(totals));
	failed |= put_count(root, "unknown_frees", totals->unknown_frees);
	failed |= put_count(root, "missed_frees", totals->missed_frees);
	failed |= put_count(root, "invalid_records", totals->invalid);
	failed |= json_object_set_new(root, "guest", json_string(info->banner));
	failed |= json_object_set_new(root, "ended", json_string(info->ended));
	return failed | json_object_set_new(root, "mode", json_string(info->mode));
}

static json_t *families_json(const struct kmem_totals *totals)
{
	json_t *object = json_object();
	int failed = 0;

	for (uint8_t type = 0; type < KMEM_TYPE_COUNT; type++) {
		json_t *family = json_object();

		failed |= put_count(family, "hits", totals->by_type[type].hits);
		failed |= put_sums(family, &totals->by_type[type]);
		failed |= json_object_set_new(object, kmem_type_name(type), family);
	}
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *print_json(const struct analysis *base)
{
	static const char *const lists[] = {
		[KMEM_BY_CALLSITE] = "call_sites",
		[KMEM_BY_CACHE] = "caches",
		[KMEM_BY_SIZE] = "sizes",
		[KMEM_BY_POINTER] = "pointers",
	};
	const struct kmem_analysis *a = (const struct kmem_analysis *)base;
	const struct kmem_totals *totals = kmem_sums_totals(a->sums);
	json_t *root = json_pack("{si}", "version", 1);
	int failed = put_count(root, "alloc_events", totals->sum.hits);

	failed |= put_count(root, "free_events", totals->free_events);
	failed |= put_sums(root, &totals->sum);
	failed |= put_trace(root, a);
	failed |= json_object_set_new(root, "types", families_json(totals));
	failed |= put_count(root, "groups", a->nr_groups);
	failed |= json_object_set_new(root, lists[a->by], groups_json(a));
	if (!failed)
		return root;
	json_decref(root);
	return NULL;
}

const struct analysis_ops kmem_analysis = {
	.words = {by_words, sort_words, kmem_type_names},
	.wants = wants,
	.create = create,
	.event = event,
	.finish = finish,
	.print_text = print_text,
	.print_json = print_json,
	.destroy = destroy,
};
