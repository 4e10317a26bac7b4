/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sums over allocations: the table of `sonde report`, and with -v the sums over all. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/command.h"
#include "formats/analysis/sites.h"
#include "formats/groups/groups.h"
#include "formats/base/json.h"
#include "formats/event/function.h"
#include "formats/event/graph.h"
#include "formats/report/parts.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum { LABEL = 14 };

struct kmem_analysis {
	struct analysis base;
	struct groups *groups; /* as the user wants */
	/* when finished: */
	const struct group **sorted;
	struct group by_type[KMEM_TYPE_COUNT];
	struct group sum; /* over all types, those that back others included */
};

/* --- reading --------------------------------------------------------------------------------- */

static void deinit(struct analysis *base)
{
	struct kmem_analysis *a = (struct kmem_analysis *)base;

	groups_destroy(a->groups);
	free(a->sorted);
}

/* Mostly, the sums of a group are those of its call sites and caches. */
static int begin(struct analysis *base)
{
	struct kmem_analysis *a = (struct kmem_analysis *)base;
	const struct replay *replay = base->replay;

	a->groups = groups_create(&base->options.by, replay->heap,
				  trace_reader_sidecar(replay->reader));
	if (!a->groups)
		return -ENOMEM;
	base->goes_by_sites = groups_are_of_origins(a->groups);
	if (base->goes_by_sites)
		sites_keep_groups(replay->sites, a->groups);
	return 0;
}

static int begin_window(struct analysis *base)
{
	struct kmem_analysis *a = (struct kmem_analysis *)base;

	groups_begin_peaks(a->groups);
	return 0;
}

static int change(struct analysis *base, const struct heap_change *change)
{
	struct kmem_analysis *a = (struct kmem_analysis *)base;

	return change->object ? groups_add(a->groups, change, base->replay->in_window) : 0;
}

static void add_group(struct group *sum, const struct group *group)
{
	const uint64_t *from = &group->hits;
	uint64_t *to = &sum->hits;
	size_t n = (sizeof(*group) - offsetof(struct group, hits)) / sizeof(uint64_t);

	for (size_t i = 0; i < n; i++) {
		if (__builtin_add_overflow(to[i], from[i], &to[i]))
			to[i] = UINT64_MAX;
	}
}

static void add_up(struct kmem_analysis *a)
{
	const struct sites *sites = a->base.replay->sites;
	const struct heap *heap = a->base.replay->heap;

	memset(a->by_type, 0, sizeof(a->by_type));
	memset(&a->sum, 0, sizeof(a->sum));
	for (uint32_t i = 0; i < sites->n && i < heap_nr_origins(heap); i++)
		add_group(&a->by_type[heap_origin(heap, i)->type], &sites->all[i].sums);
	for (size_t i = 0; i < KMEM_TYPE_COUNT; i++)
		add_group(&a->sum, &a->by_type[i]);
}

static int finish(struct analysis *base)
{
	struct kmem_analysis *a = (struct kmem_analysis *)base;
	const struct replay *replay = base->replay;
	int64_t older_ns = base->options.older_ns, born_ns;
	int ret = 0;

	if (base->goes_by_sites)
		sites_fill_groups(replay->sites);
	if (__builtin_sub_overflow(replay->span.end_ns, older_ns, &born_ns))
		born_ns = INT64_MIN;
	if (older_ns)
		ret = groups_count_older(a->groups, born_ns);
	if (ret)
		return ret;
	if (!replay->selects)
		groups_note_slabs(a->groups);
	add_up(a);
	free(a->sorted);
	a->sorted = groups_sort(a->groups, base->options.sort, replay_duration_ns(replay));
	return a->sorted ? 0 : -ENOMEM;
}

static const struct sites *sites_of(const struct kmem_analysis *a)
{
	return a->base.replay->sites;
}

/* --- text ------------------------------------------------------------------------------------ */

static void print_freed(FILE *out, const struct kmem_analysis *a)
{
	struct parts parts = {.n = 0};

	parts_add(&parts, "%s", text_count(sites_of(a)->frees).s);
	parts_add(&parts, "%s of them on another vCPU", text_count(a->sum.cross_cpu).s);
	if (sites_of(a)->unknown_frees)
		parts_add(&parts, "%s of objects allocated outside the trace",
			  text_count(sites_of(a)->unknown_frees).s);
	parts_print(&parts, out, "Frees", LABEL);
}

/* Each family apart: slabs are made of pages, so a sum over all counts their bytes twice. */
static void print_families(FILE *out, const struct kmem_analysis *a)
{
	for (uint8_t type = 0; type < KMEM_TYPE_COUNT; type++) {
		const struct group *family = &a->by_type[type];
		char label[16];

		if (!family->hits)
			continue;
		snprintf(label, sizeof(label), "  %s", kmem_type_name(type));
		line_print(out, LABEL, label, "%s of %s, %.1f %% fragmentation; live %s of %s%s",
			   text_count(family->hits).s, text_bytes(family->allocated).s,
			   group_fragmentation(family), text_count(family->live_objects).s,
			   text_bytes(family->live_bytes).s,
			   type == KMEM_TYPE_PAGES ? ", slabs included" : "");
	}
}

static void print_sums(FILE *out, const struct kmem_analysis *a)
{
	const struct replay *replay = a->base.replay;
	const bool is_part = replay->selects || replay_has_chosen_time(replay);
	const struct group *sum = &a->sum;

	line_print(out, LABEL, "Allocations",
		   "%s of %s requested, %s allocated: %.1f %% internal fragmentation",
		   text_count(sum->hits).s, text_bytes(sum->requested).s,
		   text_bytes(sum->allocated).s, group_fragmentation(sum));
	print_families(out, a);
	print_freed(out, a);
	text_print_recording(out, replay->reader, is_part, LABEL);
}

static const enum measure usual[] = {MEASURE_LIVE,         MEASURE_SLABS,    MEASURE_WASTED,
				     MEASURE_OBJECTS,      MEASURE_HITS,     MEASURE_PEAK,
				     MEASURE_RATE,         MEASURE_LIFETIME, MEASURE_CROSS_CPU,
				     MEASURE_CROSS_NODE,   MEASURE_BYTES,    MEASURE_REQUESTED,
				     MEASURE_FRAGMENTATION};
enum { NR_USUAL = 10 };

static bool has_nodes(const struct kmem_analysis *a)
{
	const struct sidecar *sidecar = trace_reader_sidecar(a->base.replay->reader);

	return sidecar && trace_has_nodes(&sidecar->info);
}

static bool is_usual(const struct kmem_analysis *a, size_t i)
{
	const struct analysis_options *options = &a->base.options;

	switch (usual[i]) {
	case MEASURE_SLABS: /* which no selection of allocations tells */
		return !a->base.replay->selects && options->by.n == 1 &&
		       options->by.by[0] == BY_CACHE;
	case MEASURE_CROSS_NODE:
		return has_nodes(a);
	default:
		return options->verbose || i < NR_USUAL;
	}
}

/* What groups are sorted by comes first. Returns the number of columns. */
static size_t choose_measures(const struct kmem_analysis *a, enum measure *out)
{
	const struct analysis_options *options = &a->base.options;
	size_t n = 0;

	out[n++] = options->sort;
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
		bool wanted =
			options->measures ? options->measures & 1u << usual[i] : is_usual(a, i);

		if (wanted && usual[i] != options->sort)
			out[n++] = usual[i];
	}
	return n;
}

/* One of several names, with the mark if it is the one that is marked. */
static struct text name_of(const struct kmem_analysis *a, const struct group *group, size_t i)
{
	const struct grouping *by = &a->base.options.by;
	struct text name = groups_key_text(a->groups, group, i);
	const size_t length = strlen(name.s);

	if (group->is_wrapper && (by->by[i] == BY_CALLSITE || by->by[i] == BY_FUNCTION))
		snprintf(name.s + length, sizeof(name.s) - length, " *");
	return name;
}

/* The names, and where in the source they are. */
static void add_names(struct table *table, const struct kmem_analysis *a, const struct group *group)
{
	const struct grouping *by = &a->base.options.by;

	if (by->n == 1)
		table_add_cell(table, groups_text(a->groups, group).s);
	for (size_t i = 0; by->n > 1 && i < by->n; i++)
		table_add_cell(table, name_of(a, group, i).s);
	if (groups_have_source(a->groups))
		table_add_cell(table, groups_source_text(a->groups, group).s);
}

static void add_titles(struct table *table, const struct kmem_analysis *a,
		       const enum measure *measures, size_t n)
{
	const struct grouping *by = &a->base.options.by;

	table_add_column(table, measure_titles[measures[0]], false);
	for (size_t i = 0; i < by->n; i++)
		table_add_column(table, dimension_titles[by->by[i]], true);
	if (groups_have_source(a->groups))
		table_add_column(table, "SOURCE", true);
	for (size_t i = 1; i < n; i++)
		table_add_column(table, measure_titles[measures[i]], false);
}

/* What backs other rows would be counted twice. */
static bool is_shown(const struct kmem_analysis *a, const struct group *group)
{
	if (group->role != HEAP_PLAIN && !a->base.options.verbose)
		return false;
	return !a->base.options.older_ns || group->live_objects;
}

static void add_row(struct table *table, const struct kmem_analysis *a, const struct group *group,
		    const enum measure *measures, size_t n)
{
	const uint64_t ns = replay_duration_ns(a->base.replay);

	table_add_cell(table, measure_text(measures[0], group, ns).s);
	add_names(table, a, group);
	for (size_t i = 1; i < n; i++)
		table_add_cell(table, measure_text(measures[i], group, ns).s);
}

struct shown {
	const struct group *first;
	size_t rows, more;
	bool has_wrappers;
};

static struct shown add_rows(struct table *table, const struct kmem_analysis *a,
			     const enum measure *measures, size_t n)
{
	struct shown shown = {0};
	size_t top = a->base.options.top;

	for (size_t i = 0; i < groups_count(a->groups); i++) {
		if (!is_shown(a, a->sorted[i]))
			continue;
		if (top && shown.rows == top) {
			shown.more++;
			continue;
		}
		add_row(table, a, a->sorted[i], measures, n);
		if (!shown.rows)
			shown.first = a->sorted[i];
		shown.rows++;
		shown.has_wrappers |= a->sorted[i]->is_wrapper;
	}
	return shown;
}

/* If the table has addresses. */
static void print_search(FILE *out, const struct kmem_analysis *a, const struct group *group)
{
	const struct grouping *by = &a->base.options.by;

	for (size_t i = 0; i < by->n; i++)
		if (by->by[i] == BY_POINTER)
			text_print_search(out, "Search", group->keys[i], LABEL);
}

static void print_table(FILE *out, const struct kmem_analysis *a)
{
	enum measure measures[NR_MEASURES + 1];
	size_t n = choose_measures(a, measures);
	const struct trace_instance *instance = a->base.replay->instance;
	struct table *table = table_create();
	struct shown shown = {0};

	if (!table)
		return;
	add_titles(table, a, measures, n);
	shown = add_rows(table, a, measures, n);
	if (shown.rows) {
		fputc('\n', out);
		table_print(table, out);
	}
	if (shown.more)
		fprintf(out, "%s more; --top 0 shows all\n", text_count(shown.more).s);
	if (shown.rows)
		print_search(out, a, shown.first);
	if (shown.has_wrappers)
		line_print(out, 2, "*", "allocates for its callers, which %s",
			   instance && kmem_has_chains(instance)
				   ? "its call chains do not name"
				   : "a trace with call chains names: --trace kmem:stack");
	table_destroy(table);
}

static bool is_of_functions(const struct trace_instance *instance)
{
	return instance->nr_classes &&
	       !strcmp(instance->classes[0].system, function_class(0)->system);
}

/* The analysis of functions' calls, for a user who has asked for functions; NULL: the trace has
 * none, or the user has named analyses. */
static const char *find_calls(const struct kmem_analysis *a)
{
	const struct analysis_options *options = &a->base.options;
	bool by_function = false;

	for (size_t i = 0; i < options->by.n; i++)
		by_function |= options->by.by[i] == BY_FUNCTION;
	if (!by_function || options->in_sections)
		return NULL;
	if (analysis_has_instance(a->base.replay, graph_is_of))
		return "functions";
	return analysis_has_instance(a->base.replay, is_of_functions) ? "events" : NULL;
}

static void print_calls(FILE *out, const struct kmem_analysis *a)
{
	const char *calls = find_calls(a);

	if (!calls)
		return;
	fprintf(out, "%-*s", LABEL, "Calls");
	command_print_report(out, a->base.replay, calls, a->base.options.dir);
	fputc('\n', out);
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct kmem_analysis *a = (const struct kmem_analysis *)base;

	if (base->options.verbose)
		print_sums(out, a);
	if (sites_of(a)->invalid)
		line_print(out, LABEL, "Invalid", "%s of unknown kind left out; see sonde check",
			   text_number(sites_of(a)->invalid, "record").s);
	print_table(out, a);
	print_calls(out, a);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static int put_count(json_t *object, const char *key, uint64_t value)
{
	return json_object_set_new(object, key, json_from_count(value));
}

static json_t *groups_json(const struct kmem_analysis *a)
{
	json_t *array = json_array();
	size_t top = a->base.options.top, n = groups_count(a->groups);
	int failed = 0;

	for (size_t i = 0; !failed && i < n && (!top || i < top); i++) {
		const struct group *group = a->sorted[i];
		json_t *item = groups_key_json(a->groups, group);

		failed = put_count(item, "hits", group->hits);
		failed |= group_put_sums(item, group);
		failed |= put_count(item, "peak_bytes", group->peak_bytes);
		failed |= put_count(item, "slab_bytes", group->slab_bytes);
		failed |= json_array_append_new(array, item);
	}
	if (!failed)
		return array;
	json_decref(array);
	return NULL;
}

static int put_trace(json_t *root, const struct kmem_analysis *a)
{
	const struct replay *replay = a->base.replay;
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);
	const struct trace_info *info = sidecar ? &sidecar->info : &(struct trace_info){0};
	int failed = put_count(root, "records", replay->records);

	failed |= put_count(root, "other_events", replay->others);
	failed |= put_count(root, "vcpus", trace_reader_nr_vcpus(replay->reader));
	failed |= put_count(root, "duration_ns", replay_duration_ns(replay));
	failed |= put_count(root, "unknown_frees", sites_of(a)->unknown_frees);
	failed |= put_count(root, "missed_frees", sites_of(a)->missed_frees);
	failed |= put_count(root, "invalid_records", sites_of(a)->invalid);
	failed |= json_object_set_new(root, "guest", json_string(info->banner));
	failed |= json_object_set_new(root, "ended", json_string(info->ended));
	return failed | json_object_set_new(root, "mode", json_string(info->mode));
}

static json_t *families_json(const struct kmem_analysis *a)
{
	json_t *object = json_object();
	int failed = 0;

	for (uint8_t type = 0; type < KMEM_TYPE_COUNT; type++) {
		json_t *family = json_object();

		failed |= put_count(family, "hits", a->by_type[type].hits);
		failed |= group_put_sums(family, &a->by_type[type]);
		failed |= json_object_set_new(object, kmem_type_name(type), family);
	}
	if (!failed)
		return object;
	json_decref(object);
	return NULL;
}

static const char *list_name(const struct grouping *by)
{
	static const char *const lists[] = {
		[BY_CALLSITE] = "call_sites", [BY_CACHE] = "caches",
		[BY_TYPE] = "by_type",        [BY_OBJECT] = "objects",
		[BY_SIZE] = "sizes",          [BY_SIZECLASS] = "size_classes",
		[BY_FUNCTION] = "functions",  [BY_MODULE] = "modules",
		[BY_NODE] = "nodes",          [BY_VCPU] = "by_vcpu",
		[BY_TASK] = "tasks",          [BY_POINTER] = "pointers",
	};

	return by->n == 1 ? lists[by->by[0]] : "combinations";
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct kmem_analysis *a = (const struct kmem_analysis *)base;
	int failed = put_count(root, "alloc_events", a->sum.hits);

	failed |= put_count(root, "free_events", sites_of(a)->frees);
	failed |= group_put_sums(root, &a->sum);
	failed |= put_trace(root, a);
	failed |= json_object_set_new(root, "types", families_json(a));
	failed |= put_count(root, "groups", groups_count(a->groups));
	return failed | json_object_set_new(root, list_name(&base->options.by), groups_json(a));
}

const struct analysis_ops kmem_analysis = {
	.about = "sums over allocations, by call site and so on",
	.size = sizeof(struct kmem_analysis),
	.sites = true,
	.begin = begin,
	.begin_window = begin_window,
	.change = change,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.deinit = deinit,
};
