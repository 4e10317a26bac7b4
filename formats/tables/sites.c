/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of call sites: what each did in the whole trace, and what it holds at the end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/export/export.h"
#include "formats/heap/heap.h"
#include "formats/heap/sum.h"
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
	[BEGIN_NS] = {"begin_ns", TABLE_I64},
	[END_NS] = {"end_ns", TABLE_I64},
	[EVENTS_LOST] = {"events_lost", TABLE_U64},
	[BOUNDED] = {"bounded", TABLE_U32},
};

_Static_assert((int)NR_COLUMNS <= (int)TABLE_COLUMNS_MAX, "there is room for a row");

const struct table_schema sites_schema = {"sites", columns, NR_COLUMNS};

/* What an origin did. */
struct sums {
	uint64_t allocs, frees, requested, allocated, live_objects, live_bytes, peak_bytes;
};

struct instance_sites {
	struct heap *heap; /* NULL: it has no event of kmem */
	struct sums *all;  /* by origin */
	size_t room;
	bool in_time; /* the event that is applied is in the time of the part */
};

struct sites {
	struct exporter base;
	struct table_writer *writer;
	const struct trace_instance *instances;
	size_t nr_instances;
	struct instance_sites of[TRACE_INSTANCES_MAX];
	int64_t first_ns, last_ns;
	bool has_events;
};

/* --- sums ------------------------------------------------------------------------------------ */

static struct sums *sums_of(struct instance_sites *of, uint32_t origin)
{
	if (origin >= of->room) {
		const size_t room = 2 * (size_t)origin + 64;
		struct sums *bigger = reallocarray(of->all, room, sizeof(*bigger));

		if (!bigger)
			return NULL;
		memset(bigger + of->room, 0, (room - of->room) * sizeof(*bigger));
		of->all = bigger;
		of->room = room;
	}
	return &of->all[origin];
}

/* What is live when the time begins is its first peak. */
static void begin_life(struct sums *sums, const struct heap_object *object, bool in_time)
{
	if (in_time) {
		sums->allocs++;
		sum_add(&sums->requested, object->requested);
		sum_add(&sums->allocated, object->bytes);
	}
	sums->live_objects++;
	sum_add(&sums->live_bytes, object->bytes);
	if (sums->live_bytes > sums->peak_bytes)
		sums->peak_bytes = sums->live_bytes;
}

static void end_life(struct sums *sums, const struct heap_change *change, bool in_time)
{
	sums->frees += in_time && change->kind == HEAP_FREE;
	sum_subtract(&sums->live_objects, 1);
	sum_subtract(&sums->live_bytes, change->object->bytes);
	if (!in_time)
		sums->peak_bytes = sums->live_bytes;
}

static int take_change(void *arg, const struct heap_change *change)
{
	struct instance_sites *of = arg;
	const struct heap_object *object = change->object;
	struct sums *sums;

	if (!object || !object->selected)
		return 0;
	sums = sums_of(of, object->origin);
	if (!sums)
		return -ENOMEM;
	switch (change->kind) {
	case HEAP_ALLOC:
		begin_life(sums, object, of->in_time);
		break;
	case HEAP_FREE:
	case HEAP_MISSED_FREE:
		end_life(sums, change, of->in_time);
		break;
	case HEAP_SPLIT:
		sums->live_objects += change->pieces - 1;
		break;
	default:
		break;
	}
	return 0;
}

static int apply(struct sites *s, const struct event *event, const struct kmem_record *record,
		 const struct part_place *place)
{
	struct instance_sites *of = &s->of[event->instance - s->instances];

	if (!of->heap)
		of->heap = heap_create(trace_reader_sidecar(s->base.input.reader), take_change, of);
	if (!of->heap)
		return -ENOMEM;
	of->in_time = place->in_time;
	heap_prefetch(of->heap, trace_reader_soon(s->base.input.reader));
	return heap_apply(of->heap, record, event->vcpu, place->is_selected);
}

static void note_time(struct sites *s, int64_t ns)
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
	struct sites *s = (struct sites *)base;
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

static int put_row(struct sites *s, size_t instance, uint32_t index,
		   const struct trace_missing *missing)
{
	static const char *const roles[] = {
		[HEAP_PLAIN] = "plain", [HEAP_SLAB] = "slab", [HEAP_LARGE] = "large"};
	const struct sidecar *sidecar = trace_reader_sidecar(s->base.input.reader);
	const struct heap_origin *origin = heap_origin(s->of[instance].heap, index);
	const struct sidecar_cache *cache = sidecar_cache(sidecar, origin->cache);
	const struct sums *sums = sums_of(&s->of[instance], index);
	struct text symbol = {""};
	struct table_value row[NR_COLUMNS];

	if (!sums)
		return -ENOMEM;
	if (!sums->allocs && !sums->frees && !sums->live_objects && !sums->peak_bytes)
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
	row[ALLOCS] = number(sums->allocs);
	row[FREES] = number(sums->frees);
	row[BYTES_REQ] = number(sums->requested);
	row[BYTES_ALLOC] = number(sums->allocated);
	row[LIVE_OBJECTS] = number(sums->live_objects);
	row[LIVE_BYTES] = number(sums->live_bytes);
	row[PEAK_BYTES] = number(sums->peak_bytes);
	row[BEGIN_NS] = number((uint64_t)s->first_ns);
	row[END_NS] = number((uint64_t)s->last_ns);
	row[EVENTS_LOST] = number(missing->events);
	row[BOUNDED] = number(missing->is_bounded);
	return s->writer->ops->put(s->writer, row);
}

static int put_rows(struct sites *s)
{
	const struct trace_missing missing = trace_reader_missing(s->base.input.reader);
	int ret = 0;

	for (size_t i = 0; i < s->nr_instances; i++) {
		const struct heap *heap = s->of[i].heap;

		for (size_t k = 0; !ret && heap && k < heap_nr_origins(heap); k++)
			ret = put_row(s, i, (uint32_t)k, &missing);
	}
	return ret;
}

static int finish(struct exporter *base, struct error *err)
{
	struct sites *s = (struct sites *)base;
	int ret = put_rows(s);

	if (!ret)
		ret = s->writer->ops->finish(s->writer);
	return ret ? error_set(err, ENOMEM, "out of memory") : 0;
}

/* --- the exports ----------------------------------------------------------------------------- */

static void deinit(struct exporter *base)
{
	struct sites *s = (struct sites *)base;

	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++) {
		heap_destroy(s->of[i].heap);
		free(s->of[i].all);
	}
	if (s->writer)
		s->writer->ops->destroy(s->writer);
}

static int init(struct exporter *base, const struct table_writer_ops *ops, struct error *err)
{
	struct sites *s = (struct sites *)base;

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
						    .size = sizeof(struct sites),
						    .init = init_parquet,
						    .event = put_event,
						    .other = note_event,
						    .finish = finish,
						    .deinit = deinit};
const struct exporter_ops rowbinary_sites_exporter = {.takes_host = true,
						      .sums = EXPORT_SUMS_ALLOCATIONS,
						      .size = sizeof(struct sites),
						      .init = init_rowbinary,
						      .event = put_event,
						      .other = note_event,
						      .finish = finish,
						      .deinit = deinit};
