/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of call sites: what each did in the whole trace, and what it holds at the end. */
#include "formats/analysis/sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/survivors.h"
#include "formats/base/text.h"
#include "formats/export/export.h"
#include "formats/heap/heap.h"
#include "formats/tables/table.h"

enum {
	HOST,
	INSTANCE,
	CALL_SITE,
	SYMBOL,
	TYPE,
	CACHE,
	ROLE,
	ALLOCS,
	FREES,
	BYTES_REQ,
	BYTES_ALLOC,
	LIVE_OBJECTS,
	LIVE_BYTES,
	PEAK_BYTES,
	GROWTH_BYTES_PER_S,
	VERDICT,
	BEGIN_NS,
	END_NS,
	EVENTS_LOST,
	BOUNDED,
	NR_COLUMNS
};

static const struct table_column columns[] = {
	[HOST] = {"host", TABLE_NAME},
	[INSTANCE] = {"instance", TABLE_NAME},
	[CALL_SITE] = {"call_site", TABLE_U64},
	[SYMBOL] = {"symbol", TABLE_NAME},
	[TYPE] = {"type", TABLE_NAME},
	[CACHE] = {"cache", TABLE_NAME},
	[ROLE] = {"role", TABLE_NAME},
	[ALLOCS] = {"allocs", TABLE_U64},
	[FREES] = {"frees", TABLE_U64},
	[BYTES_REQ] = {"bytes_req", TABLE_U64},
	[BYTES_ALLOC] = {"bytes_alloc", TABLE_U64},
	[LIVE_OBJECTS] = {"live_objects", TABLE_U64},
	[LIVE_BYTES] = {"live_bytes", TABLE_U64},
	[PEAK_BYTES] = {"peak_bytes", TABLE_U64},
	[GROWTH_BYTES_PER_S] = {"growth_bytes_per_s", TABLE_I64},
	[VERDICT] = {"verdict", TABLE_NAME},
	[BEGIN_NS] = {"begin_ns", TABLE_I64},
	[END_NS] = {"end_ns", TABLE_I64},
	[EVENTS_LOST] = {"events_lost", TABLE_U64},
	[BOUNDED] = {"bounded", TABLE_U32},
};

_Static_assert((int)NR_COLUMNS <= (int)TABLE_COLUMNS_MAX, "there is room for a row");

const struct table_schema sites_schema = {"sites", columns, NR_COLUMNS};

/* Of one instance: its heap, and what its call sites did in the time of the part. */
struct instance_sites {
	struct heap *heap; /* NULL: it has no event of kmem */
	struct sites *sites;
	bool in_time; /* the event that is applied is in that time */
	uint64_t records;
	int64_t first_ns, last_ns;
};

struct sites_table {
	struct exporter base;
	struct table_writer *writer;
	const struct trace_instance *instances;
	size_t nr_instances;
	struct instance_sites of[TRACE_INSTANCES_MAX];
	int64_t first_ns, last_ns;
	bool has_events;
};

/* --- events ---------------------------------------------------------------------------------- */

static int take_change(void *arg, const struct heap_change *change)
{
	struct instance_sites *of = arg;

	if (change->object && change->object->selected)
		return sites_add(of->sites, change);
	sites_note_init(of->sites, change);
	return 0;
}

/* Before the first event of the instance. */
static int begin(const struct sites_table *s, struct instance_sites *of)
{
	const struct trace_instance *instance = &s->instances[of - s->of];
	const struct sidecar *sidecar = trace_reader_sidecar(s->base.input.reader);

	of->heap = heap_create(sidecar, take_change, of);
	of->sites = sites_create(
		&(struct sites_source){.heap = of->heap,
				       .sidecar = sidecar,
				       .lacks_frees = !sidecar_has_frees(sidecar, instance),
				       .in_window = &of->in_time,
				       .records = &of->records,
				       .first_ns = &of->first_ns,
				       .last_ns = &of->last_ns});
	return of->heap && of->sites ? 0 : -ENOMEM;
}

static void count_record(struct instance_sites *of, int64_t ns)
{
	if (!of->records || ns < of->first_ns)
		of->first_ns = ns;
	if (!of->records || ns > of->last_ns)
		of->last_ns = ns;
	of->records++;
}

/* By the call site that the table shows. */
static int select_event(struct exporter *base, const struct event *event, bool *selected)
{
	struct sites_table *s = (struct sites_table *)base;
	struct instance_sites *of = &s->of[event->instance - s->instances];
	struct kmem_record record;
	uint64_t call_site;

	if (!kmem_record_of(event, &record) || record.event_id != KMEM_EVENT_ALLOC)
		return 0;
	if ((!of->heap && begin(s, of)) || heap_charge(of->heap, event, &record, &call_site))
		return -ENOMEM;
	*selected = event_selection_has_charged(s->base.input.part->selection, event, call_site);
	return 0;
}

static int apply(struct sites_table *s, const struct event *event, const struct kmem_record *record,
		 const struct part_place *place)
{
	struct instance_sites *of = &s->of[event->instance - s->instances];

	if (!of->heap && begin(s, of))
		return -ENOMEM;
	of->in_time = place->in_time;
	if (of->in_time)
		count_record(of, event->ns);
	heap_prefetch(of->heap, trace_reader_soon(s->base.input.reader));
	return heap_apply_event(of->heap, event, record, place->is_selected);
}

static void note_time(struct sites_table *s, int64_t ns)
{
	if (!s->has_events || ns < s->first_ns)
		s->first_ns = ns;
	if (!s->has_events || ns > s->last_ns)
		s->last_ns = ns;
	s->has_events = true;
}

static int note_event(struct exporter *base, const struct event *event,
		      const struct part_place *place)
{
	struct sites_table *s = (struct sites_table *)base;
	struct kmem_record record;

	if (!kmem_record_of(event, &record))
		return 0;
	if (place->in_time)
		note_time(s, event->ns);
	return apply(s, event, &record, place);
}

static int put_event(struct exporter *base, const struct event *event)
{
	static const struct part_place of_part = {true, true, true};

	return note_event(base, event, &of_part);
}

/* --- rows ------------------------------------------------------------------------------------ */

static struct table_value number(uint64_t value)
{
	return (struct table_value){value, NULL};
}

/* What looks most like a leak, by origin; NR_VERDICTS: nothing is live, or nothing can be said.
 * NULL: no memory. */
static uint8_t *find_verdicts(const struct sites *sites)
{
	const size_t n = heap_nr_origins(sites->of.heap);
	uint8_t *verdicts = malloc(n + 1);
	struct survivors *all;
	size_t nr_live;

	if (!verdicts)
		return NULL;
	memset(verdicts, NR_VERDICTS, n + 1);
	if (!*sites->of.records) /* in the time that is looked at */
		return verdicts;
	if (survivors_find(sites, 0, &all, &nr_live)) {
		free(verdicts);
		return NULL;
	}
	for (size_t i = 0; i < nr_live; i++)
		verdicts[all[i].origin] = (uint8_t)all[i].verdict;
	free(all);
	return verdicts;
}

static int64_t signed_number(double value)
{
	const uint64_t size = whole_number(value < 0 ? -value : value);
	const int64_t bounded = size < INT64_MAX ? (int64_t)size : INT64_MAX;

	return value < 0 ? -bounded : bounded;
}

static void put_sums(struct table_value *row, const struct sites *sites, const struct site *site,
		     uint8_t verdict)
{
	row[ALLOCS] = number(site->sums.hits);
	row[FREES] = number(site->sums.frees);
	row[BYTES_REQ] = number(site->sums.requested);
	row[BYTES_ALLOC] = number(site->sums.allocated);
	row[LIVE_OBJECTS] = number(site->sums.live_objects);
	row[LIVE_BYTES] = number(site->sums.live_bytes);
	row[PEAK_BYTES] = number(site_peak_bytes(site));
	row[GROWTH_BYTES_PER_S] = number((uint64_t)signed_number(
		verdict == VERDICT_UNKNOWN ? 0 : site_trend(sites, site).per_s));
	row[VERDICT] = (struct table_value){
		verdict, verdict == NR_VERDICTS ? "" : verdict_name((enum verdict)verdict)};
}

/* Whether nothing is missing from an origin's live sums but what `missing` counts. Only pages move
 * without an event. */
static bool is_bounded(const struct sites_table *s, size_t instance,
		       const struct heap_origin *origin, const struct trace_missing *missing)
{
	const struct heap *heap = s->of[instance].heap;
	const struct sidecar *sidecar = trace_reader_sidecar(s->base.input.reader);

	return missing->is_bounded && !s->of[instance].sites->of.lacks_frees &&
	       !sidecar_is_interrupted(sidecar, &s->instances[instance]) &&
	       !(sidecar && sidecar->info.nr_gaps) &&
	       !(origin->type == KMEM_TYPE_PAGES && heap_moved_bytes(heap));
}

static int put_row(struct sites_table *s, size_t instance, uint32_t index, uint8_t verdict,
		   const struct trace_missing *missing)
{
	static const char *const roles[] = {
		[HEAP_PLAIN] = "plain", [HEAP_SLAB] = "slab", [HEAP_LARGE] = "large"};
	const struct sidecar *sidecar = trace_reader_sidecar(s->base.input.reader);
	const struct heap_origin *origin = heap_origin(s->of[instance].heap, index);
	const struct sidecar_cache *cache = sidecar_cache(sidecar, origin->cache);
	const struct sites *sites = s->of[instance].sites;
	struct text symbol = {""};
	struct table_value row[NR_COLUMNS];

	put_sums(row, sites, &sites->all[index], verdict);
	if (!row[ALLOCS].number && !row[FREES].number && !row[LIVE_OBJECTS].number &&
	    !row[PEAK_BYTES].number)
		return 0;
	if (origin->call_site)
		symbol = sidecar_symbol_text(sidecar, origin->call_site);
	row[HOST] = (struct table_value){0, s->base.input.host};
	row[INSTANCE] = (struct table_value){instance, s->instances[instance].name};
	row[CALL_SITE] = number(origin->call_site);
	row[SYMBOL] = (struct table_value){origin->call_site, symbol.s};
	row[TYPE] = (struct table_value){origin->type, kmem_type_name(origin->type)};
	row[CACHE] = (struct table_value){origin->cache, cache ? cache->name : ""};
	row[ROLE] = (struct table_value){origin->role, roles[origin->role]};
	row[BEGIN_NS] = number((uint64_t)s->first_ns);
	row[END_NS] = number((uint64_t)s->last_ns);
	row[EVENTS_LOST] = number(missing->events);
	row[BOUNDED] = number(is_bounded(s, instance, origin, missing));
	return s->writer->ops->put(s->writer, row);
}

static int put_instance(struct sites_table *s, size_t instance, const struct trace_missing *missing)
{
	const struct sites *sites = s->of[instance].sites;
	const size_t known = heap_nr_origins(s->of[instance].heap);
	uint8_t *verdicts = find_verdicts(sites);
	int ret = verdicts ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < known && i < sites->n; i++)
		ret = put_row(s, instance, (uint32_t)i, verdicts[i], missing);
	free(verdicts);
	return ret;
}

static int put_rows(struct sites_table *s)
{
	const struct trace_missing missing = trace_reader_missing(s->base.input.reader);
	int ret = 0;

	for (size_t i = 0; !ret && i < s->nr_instances; i++) {
		if (s->of[i].heap)
			ret = put_instance(s, i, &missing);
	}
	return ret;
}

static int finish(struct exporter *base, struct error *err)
{
	struct sites_table *s = (struct sites_table *)base;
	int ret = put_rows(s);

	if (!ret)
		ret = s->writer->ops->finish(s->writer);
	return ret ? error_set(err, ENOMEM, "out of memory") : 0;
}

/* --- the exports ----------------------------------------------------------------------------- */

static void deinit(struct exporter *base)
{
	struct sites_table *s = (struct sites_table *)base;

	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++) {
		sites_destroy(s->of[i].sites);
		heap_destroy(s->of[i].heap);
	}
	if (s->writer)
		s->writer->ops->destroy(s->writer);
}

static int init(struct exporter *base, const struct table_writer_ops *ops, struct error *err)
{
	struct sites_table *s = (struct sites_table *)base;

	s->instances = trace_reader_instances(base->input.reader, &s->nr_instances);
	s->writer = ops->create(base->input.file, &sites_schema);
	return s->writer ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int init_parquet(struct exporter *base, struct error *err)
{
	return init(base, &parquet_table, err);
}

static int init_rowbinary(struct exporter *base, struct error *err)
{
	return init(base, &rowbinary_table, err);
}

const struct exporter_ops parquet_sites_exporter = {.takes_host = true,
						    .sums = EXPORT_SUMS_ALLOCATIONS,
						    .size = sizeof(struct sites_table),
						    .init = init_parquet,
						    .select = select_event,
						    .event = put_event,
						    .other = note_event,
						    .finish = finish,
						    .deinit = deinit};
const struct exporter_ops rowbinary_sites_exporter = {.takes_host = true,
						      .sums = EXPORT_SUMS_ALLOCATIONS,
						      .size = sizeof(struct sites_table),
						      .init = init_rowbinary,
						      .select = select_event,
						      .event = put_event,
						      .other = note_event,
						      .finish = finish,
						      .deinit = deinit};
