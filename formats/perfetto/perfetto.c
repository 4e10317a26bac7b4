/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Perfetto's own format: a sequence of TracePacket.
 * Calls with returns are slices, other events instants, on their thread's track, where a trace has
 * it, else on their vCPU's. Their fields are debug annotations, and so is the vCPU. What is live of
 * the heap is counter tracks. Names and texts that come often are interned.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "formats/event/graph.h"
#include "formats/export/export.h"
#include "formats/export/proto.h"
#include "formats/heap/heap.h"
#include "formats/perfetto/packets.h"
#include "formats/perfetto/slices.h"
#include "formats/syscalls/prototypes.h"

enum {
	ROOT_TRACK = 1,
	FIRST_COUNTER_TRACK = 16,
	FIRST_VCPU_TRACK = 1024,
	VCPU_FIELD = 1, /* numbers of names; those of fields come behind */
	RETURN_VCPU_FIELD = 2,
	NO_RETURN_FIELD = 3,
	MAX_STRINGS = 1 << 18, /* interned, of each type of field */
	SMALL_TEXT = 64,       /* bytes of a text in an annotation */
};

/* What is counted of an instance's heap: each has a track. */
enum heap_counter { COUNTER_MEMORY, COUNTER_SLABS, COUNTER_OBJECTS, NR_COUNTERS };

_Static_assert(FIRST_COUNTER_TRACK + TRACE_INSTANCES_MAX * NR_COUNTERS <= FIRST_VCPU_TRACK,
	       "the counters have tracks of their own");

struct live_heap {
	struct heap *heap; /* NULL: the instance had no event of kmem so far */
	uint64_t values[NR_COUNTERS];
};

struct perfetto {
	struct exporter base;
	const struct trace_instance *instances;
	size_t nr_instances;
	size_t first_class[TRACE_INSTANCES_MAX]; /* by instance; numbers of classes */
	struct thread_fields *thread_fields;     /* by number of a class */
	struct thread_tracks threads;
	struct slices *slices;
	size_t first_calls;        /* the instance whose calls are on the threads' own tracks */
	struct u64_map calls;      /* iid of the name by ip, of functions and of system calls */
	uint64_t nr_names;         /* iids of names of events */
	const struct event *event; /* at hand */
	struct u64_map strings[EVENT_NR_TYPES]; /* iid by value */
	uint64_t nr_strings;
	struct live_heap heaps[TRACE_INSTANCES_MAX]; /* by instance */
	int64_t last_ns;                             /* of the events that are shown */
	uint64_t *described; /* bit set of the vCPUs whose track is described */
};

/* --- what stands in front of the events ------------------------------------------------------ */

/* Numbers from 1 on: of an instance's category, of a class, of a field's name. */
static uint64_t category_of(size_t instance)
{
	return instance + 1;
}

static uint64_t name_of(const struct perfetto *p, size_t instance, size_t class_index)
{
	return p->first_class[instance] + class_index + 1;
}

static uint64_t field_of(uint64_t class_name, size_t field)
{
	return class_name * EVENT_MAX_FIELDS + field + 1;
}

static void put_names(struct perfetto *p)
{
	packet_entry(p->base.input.file, INTERNED_ANNOTATION_NAMES, VCPU_FIELD, "vcpu");
	packet_entry(p->base.input.file, INTERNED_ANNOTATION_NAMES, RETURN_VCPU_FIELD,
		     "return_vcpu");
	packet_entry(p->base.input.file, INTERNED_ANNOTATION_NAMES, NO_RETURN_FIELD, "no_return");
	for (size_t i = 0; i < p->nr_instances; i++) {
		const struct trace_instance *instance = &p->instances[i];

		packet_entry(p->base.input.file, INTERNED_CATEGORIES, category_of(i),
			     instance->name);
		for (size_t c = 0; c < instance->nr_classes; c++) {
			const struct event_class *class = &instance->classes[c];
			uint64_t name = name_of(p, i, c);

			packet_entry(p->base.input.file, INTERNED_EVENT_NAMES, name, class->name);
			p->nr_names = name;
			for (size_t f = 0; f < class->nr_fields; f++)
				packet_entry(p->base.input.file, INTERNED_ANNOTATION_NAMES,
					     field_of(name, f), class->fields[f].name);
		}
	}
}

static void put_begin(struct perfetto *p)
{
	uint8_t *at, *packet = packet_begin(p->base.input.file, &at);
	struct text name;

	at = proto_number(at, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
	packet_end(p->base.input.file, packet, at);
	snprintf(name.s, sizeof(name.s), "Guest %.200s", export_banner(p->base.input.reader));
	packet_track(p->base.input.file, ROOT_TRACK, 0, name.s, false);
	put_names(p);
}

static void describe_vcpu(struct perfetto *p, unsigned int vcpu)
{
	uint64_t bit = UINT64_C(1) << vcpu % 64;
	char name[32];

	if (p->described[vcpu / 64] & bit)
		return;
	p->described[vcpu / 64] |= bit;
	snprintf(name, sizeof(name), "vCPU %u", vcpu);
	packet_track(p->base.input.file, FIRST_VCPU_TRACK + vcpu, ROOT_TRACK, name, false);
}

/* --- events ---------------------------------------------------------------------------------- */

static bool is_named(const struct event_field *field)
{
	return event_field_is_code(field) || field->type == EVENT_FLAGS ||
	       field->type == EVENT_DICTIONARY;
}

/* The text's number, made if it is new; 0 if too many have one. */
static int intern(struct perfetto *p, const struct event_field *field, uint64_t value)
{
	const struct event_names *names = event_texts_names(p->base.input.texts);
	struct u64_map *map = &p->strings[field->type];
	struct text text;
	uint64_t *iid = u64_map_find(map, value);

	if (iid || map->count >= MAX_STRINGS)
		return 0;
	iid = u64_map_insert(map, value, NULL);
	if (!iid)
		return -ENOMEM;
	*iid = ++p->nr_strings;
	names->text(names->arg, field, value, text.s, sizeof(text.s));
	packet_entry(p->base.input.file, INTERNED_STRINGS, *iid, text.s);
	return 0;
}

/* Each in a packet in front of the event's. */
static int intern_fields(struct perfetto *p, const struct event *event)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < event->class->nr_fields; i++) {
		const struct event_field *field = &event->class->fields[i];

		if (is_named(field))
			ret = intern(p, field, event_field_value(field, event->bytes));
	}
	return ret;
}

static uint8_t *put_named(struct perfetto *p, uint8_t *at, const struct event_field *field,
			  uint64_t value)
{
	const struct event_names *names = event_texts_names(p->base.input.texts);
	const uint64_t *iid = u64_map_find(&p->strings[field->type], value);
	char text[SMALL_TEXT];

	if (iid)
		return proto_number(at, ANNOTATION_STRING_IID, *iid);
	names->text(names->arg, field, value, text, sizeof(text));
	return proto_text(at, ANNOTATION_STRING, text);
}

static uint8_t *put_value(struct perfetto *p, uint8_t *at, const struct event_field *field,
			  const void *bytes)
{
	char text[EVENT_TEXT_ROOM];
	uint64_t value;

	if (event_field_is_string(field)) {
		event_field_shown(field, bytes, text);
		return proto_text(at, ANNOTATION_STRING, text);
	}
	value = event_field_value(field, bytes);
	if (is_named(field))
		return put_named(p, at, field, value);
	switch (field->type) {
	case EVENT_INT:
		return proto_number(at, ANNOTATION_INT, value);
	case EVENT_HEX:
	case EVENT_POINTER:
		return proto_number(at, ANNOTATION_POINTER, value);
	default:
		return proto_number(at, ANNOTATION_UINT, value);
	}
}

static uint8_t *put_fields(struct perfetto *p, uint8_t *at, const struct event *event,
			   uint64_t class_name)
{
	for (size_t i = 0; i < event->class->nr_fields; i++) {
		const struct event_field *field = &event->class->fields[i];
		const unsigned int size =
			field->type == EVENT_LONG_STRING ? PROTO_LARGE : PROTO_SMALL;
		uint8_t *annotation = proto_begin(at, EVENT_ANNOTATIONS, size);

		at = proto_number(annotation, ANNOTATION_NAME_IID, field_of(class_name, i));
		at = put_value(p, at, field, event->bytes);
		proto_end(annotation, at, size);
	}
	return at;
}

static uint8_t *put_vcpu(uint8_t *at, uint64_t name, unsigned int vcpu)
{
	uint8_t *annotation = proto_begin(at, EVENT_ANNOTATIONS, PROTO_SMALL);

	at = proto_number(annotation, ANNOTATION_NAME_IID, name);
	at = proto_number(at, ANNOTATION_UINT, vcpu);
	proto_end(annotation, at, PROTO_SMALL);
	return at;
}

/* What a packet says of the event at hand. */
struct shown {
	unsigned int type;
	uint64_t track;
	int64_t ns;
	uint64_t name;  /* its iid; 0: none, nor a category */
	bool on_thread; /* else on its vCPU's track, which says that */
	bool is_unseen; /* without the fields of the event, which is another call's */
};

static uint8_t *put_annotations(struct perfetto *p, uint8_t *at, const struct shown *shown)
{
	const struct event *event = p->event;
	const size_t instance = (size_t)(event->instance - p->instances);
	uint8_t *annotation;

	if (shown->is_unseen) {
		annotation = proto_begin(at, EVENT_ANNOTATIONS, PROTO_SMALL);
		at = proto_number(annotation, ANNOTATION_NAME_IID, NO_RETURN_FIELD);
		at = proto_text(at, ANNOTATION_STRING, "unseen");
		proto_end(annotation, at, PROTO_SMALL);
		return at;
	}
	if (shown->on_thread)
		at = put_vcpu(at, shown->type == TYPE_SLICE_END ? RETURN_VCPU_FIELD : VCPU_FIELD,
			      event->vcpu);
	return put_fields(p, at, event,
			  name_of(p, instance, (size_t)(event->class - event->instance->classes)));
}

static void put_shown(struct perfetto *p, const struct shown *shown)
{
	uint8_t *at, *packet = packet_begin(p->base.input.file, &at), *track_event;

	at = proto_number(at, PACKET_TIMESTAMP, (uint64_t)shown->ns);
	at = proto_number(at, PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
	track_event = proto_begin(at, PACKET_TRACK_EVENT, PROTO_LARGE);
	at = proto_number(track_event, EVENT_TYPE, shown->type);
	at = proto_number(at, EVENT_TRACK_UUID, shown->track);
	if (shown->name) {
		at = proto_number(at, EVENT_CATEGORY_IIDS,
				  category_of((size_t)(p->event->instance - p->instances)));
		at = proto_number(at, EVENT_NAME_IID, shown->name);
	}
	at = put_annotations(p, at, shown);
	proto_end(track_event, at, PROTO_LARGE);
	packet_end(p->base.input.file, packet, at);
}

/* `thread`: NULL if it is not known. */
static void put_instant(struct perfetto *p, const struct event *event,
			const struct thread_track *thread)
{
	const size_t instance = (size_t)(event->instance - p->instances);
	const struct shown shown = {
		.type = TYPE_INSTANT,
		.track = thread ? thread->uuid : FIRST_VCPU_TRACK + event->vcpu,
		.ns = event->ns,
		.name = name_of(p, instance, (size_t)(event->class - event->instance->classes)),
		.on_thread = thread};

	put_shown(p, &shown);
}

/* --- calls ----------------------------------------------------------------------------------- */

/* The number of a function's name, which may have several if there are too many functions. */
static uint64_t call_name(struct perfetto *p, uint64_t ip)
{
	enum syscall_class which;
	const bool is_syscall = syscall_class_of(p->event->class, &which);
	const uint64_t key = ip << 1 | is_syscall; /* its highest bit is a copy of the next one */
	uint64_t *iid = u64_map_find(&p->calls, key);
	const char *name;

	if (iid)
		return *iid;
	if (p->calls.count < MAX_STRINGS)
		iid = u64_map_insert(&p->calls, key, NULL);
	if (iid)
		*iid = p->nr_names + 1;
	name = event_texts_function(p->base.input.texts, ip);
	if (is_syscall)
		name = syscall_name_of(name);
	packet_entry(p->base.input.file, INTERNED_EVENT_NAMES, ++p->nr_names, name);
	return p->nr_names;
}

/* Calls of other instances are not in step with these: they are on tracks below. */
static uint64_t call_track(struct perfetto *p, const struct slice_step *step)
{
	const uint64_t own =
		step->tid ? thread_track_uuid(step->tid) : FIRST_VCPU_TRACK + step->vcpu;
	const uint64_t track = own | (uint64_t)(step->instance + 1) << 48;

	if (step->instance == p->first_calls)
		return own;
	if (step->is_first)
		packet_track(p->base.input.file, track, own, p->instances[step->instance].name,
			     false);
	return track;
}

static void put_step(void *arg, const struct slice_step *step)
{
	struct perfetto *p = arg;
	const bool begins = step->type == SLICE_BEGIN;
	const struct shown shown = {.type = begins ? TYPE_SLICE_BEGIN : TYPE_SLICE_END,
				    .track = call_track(p, step),
				    .ns = step->ns,
				    .name = begins ? call_name(p, step->ip) : 0,
				    .on_thread = step->tid,
				    .is_unseen = step->is_unseen};

	put_shown(p, &shown);
}

/* --- the live heap --------------------------------------------------------------------------- */

static uint64_t counter_track(size_t instance, enum heap_counter counter)
{
	return FIRST_COUNTER_TRACK + instance * NR_COUNTERS + counter;
}

static int ignore(void *arg, const struct heap_change *change)
{
	(void)arg;
	(void)change;
	return 0;
}

static int begin_heap(struct perfetto *p, struct live_heap *live, size_t instance)
{
	static const char *const names[] = {[COUNTER_MEMORY] = "memory in use",
					    [COUNTER_SLABS] = "slabs",
					    [COUNTER_OBJECTS] = "slab objects"};

	live->heap = heap_create(trace_reader_sidecar(p->base.input.reader), ignore, NULL);
	for (enum heap_counter i = 0; i < NR_COUNTERS; i++) {
		char name[TRACE_INSTANCE_NAME_MAX + 32];

		snprintf(name, sizeof(name), "%s: %s", p->instances[instance].name, names[i]);
		packet_track(p->base.input.file, counter_track(instance, i), ROOT_TRACK, name,
			     true);
	}
	return live->heap ? 0 : -ENOMEM;
}

static void count(const struct heap *heap, uint64_t values[NR_COUNTERS])
{
	const struct heap_totals *totals = heap_totals(heap);

	values[COUNTER_MEMORY] = heap_live_bytes(heap);
	values[COUNTER_SLABS] = totals->pages[HEAP_SLAB].bytes;
	values[COUNTER_OBJECTS] = totals->objects[HEAP_IN_SLAB].bytes;
}

/* The counters that an event of kmem has changed; before the time of the part none is shown. */
static int put_live(struct perfetto *p, const struct event *event, bool in_time)
{
	const size_t instance = (size_t)(event->instance - p->instances);
	struct live_heap *live = &p->heaps[instance];
	uint64_t values[NR_COUNTERS];
	struct kmem_record record;
	int ret = 0;

	if (!kmem_record_of(event, &record))
		return 0;
	if (!live->heap)
		ret = begin_heap(p, live, instance);
	if (!ret)
		heap_prefetch(live->heap, trace_reader_soon(p->base.input.reader));
	if (!ret)
		ret = heap_apply_event(live->heap, event, &record, true);
	if (ret || !in_time)
		return ret;
	count(live->heap, values);
	for (enum heap_counter i = 0; i < NR_COUNTERS; i++)
		if (values[i] != live->values[i])
			packet_counter(p->base.input.file, counter_track(instance, i), event->ns,
				       values[i]);
	memcpy(live->values, values, sizeof(values));
	return 0;
}

static int put_event(struct exporter *base, const struct event *event)
{
	struct perfetto *p = (struct perfetto *)base;
	const size_t class = p->first_class[event->instance - p->instances] +
			     (size_t)(event->class - event->instance->classes);
	const struct thread_track *thread = NULL;
	bool changed = false, taken;
	int ret = intern_fields(p, event);

	if (!ret)
		ret = thread_tracks_find(&p->threads, &p->thread_fields[class], event->bytes,
					 &thread, &changed);
	if (ret)
		return ret;
	if (!thread)
		describe_vcpu(p, event->vcpu);
	else if (changed)
		packet_thread(p->base.input.file, thread);
	p->event = event;
	ret = slices_add(p->slices, event, thread, &taken);
	if (ret)
		return ret;
	if (!taken)
		put_instant(p, event, thread);
	p->last_ns = event->ns;
	return put_live(p, event, true);
}

/* Live memory is that of all events, whichever are shown. */
static int note_event(struct exporter *base, const struct event *event,
		      const struct part_place *place)
{
	return put_live((struct perfetto *)base, event, place->in_time);
}

/* --- the whole ------------------------------------------------------------------------------- */

/* An instant of its own at the end: what is missing is known only then. */
static void put_about(struct perfetto *p, const char *about)
{
	uint8_t *at, *packet = packet_begin(p->base.input.file, &at), *track_event;

	at = proto_number(at, PACKET_TIMESTAMP, (uint64_t)p->last_ns);
	track_event = proto_begin(at, PACKET_TRACK_EVENT, PROTO_LARGE);
	at = proto_number(track_event, EVENT_TYPE, TYPE_INSTANT);
	at = proto_number(at, EVENT_TRACK_UUID, ROOT_TRACK);
	at = proto_text(at, EVENT_NAME, about);
	proto_end(track_event, at, PROTO_LARGE);
	packet_end(p->base.input.file, packet, at);
}

static int finish(struct exporter *base, struct error *err)
{
	const struct text about = export_about(base);

	(void)err;
	if (*about.s)
		put_about((struct perfetto *)base, about.s);
	return 0;
}

static void deinit(struct exporter *base)
{
	struct perfetto *p = (struct perfetto *)base;

	for (size_t i = 0; i < EVENT_NR_TYPES; i++)
		u64_map_deinit(&p->strings[i]);
	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++)
		heap_destroy(p->heaps[i].heap);
	thread_tracks_deinit(&p->threads);
	slices_destroy(p->slices);
	u64_map_deinit(&p->calls);
	free(p->thread_fields);
	free(p->described);
}

/* By number of a class. */
static int find_threads(struct perfetto *p)
{
	size_t n = 1;

	for (size_t i = 0; i < p->nr_instances; i++)
		n += p->instances[i].nr_classes;
	p->thread_fields = calloc(n, sizeof(*p->thread_fields));
	for (size_t i = 0; p->thread_fields && i < p->nr_instances; i++)
		for (size_t c = 0; c < p->instances[i].nr_classes; c++)
			p->thread_fields[p->first_class[i] + c] =
				thread_fields_of(&p->instances[i].classes[c], i);
	return p->thread_fields ? 0 : -ENOMEM;
}

static int begin_slices(struct perfetto *p)
{
	const struct sidecar *sidecar = trace_reader_sidecar(p->base.input.reader);

	u64_map_init(&p->calls, sizeof(uint64_t));
	while (p->first_calls < p->nr_instances && !graph_is_of(&p->instances[p->first_calls]) &&
	       !syscall_is_of(&p->instances[p->first_calls]))
		p->first_calls++;
	p->slices = slices_create(p->instances, sidecar_stack_bytes(sidecar), put_step, p);
	return p->slices ? 0 : -ENOMEM;
}

static int init(struct exporter *base, struct error *err)
{
	const struct trace_reader *reader = base->input.reader;
	struct perfetto *p = (struct perfetto *)base;

	p->instances = trace_reader_instances(reader, &p->nr_instances);
	for (size_t i = 0; i + 1 < p->nr_instances; i++)
		p->first_class[i + 1] = p->first_class[i] + p->instances[i].nr_classes;
	for (size_t i = 0; i < EVENT_NR_TYPES; i++)
		u64_map_init(&p->strings[i], sizeof(uint64_t));
	p->described = calloc(trace_reader_vcpu_end(reader) / 64 + 1, sizeof(uint64_t));
	thread_tracks_init(&p->threads);
	if (begin_slices(p) || !p->described || find_threads(p))
		return error_set(err, ENOMEM, "out of memory");
	put_begin(p);
	return 0;
}

const struct exporter_ops perfetto_exporter = {.sums = EXPORT_SUMS_ALLOCATIONS,
					       .size = sizeof(struct perfetto),
					       .init = init,
					       .event = put_event,
					       .other = note_event,
					       .finish = finish,
					       .deinit = deinit};
