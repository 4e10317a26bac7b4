/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * pprof's profile (proto/profile.proto of github.com/google/pprof), compressed with gzip: a sample
 * for each stack. Types of samples are named as those of Go's heap profiles, which pprof and its
 * relatives know.
 */
#include <errno.h>
#include <string.h>
#include <zlib.h>
#include "formats/base/u64-map.h"
#include "formats/export/proto.h"
#include "formats/export/stacks.h"
#include "formats/report/trace-text.h"

enum profile {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_SAMPLE_TYPE = 14,
};

enum { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_STR = 2 };
enum {
	MAPPING_ID = 1,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILENAMES = 8,
	MAPPING_HAS_LINE_NUMBERS = 9,
	MAPPING_HAS_INLINE_FRAMES = 10,
};
enum { LOCATION_ID = 1, LOCATION_MAPPING = 2, LOCATION_ADDRESS = 3, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_LINE = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM_NAME = 3, FUNCTION_FILENAME = 4 };

enum {
	FIELD_BYTES = 4096, /* of the largest field that is made at once */
	GZIP = 16 + 15,     /* deflateInit2()'s window bits for gzip */
	MAPPING = 1,        /* there is one: the kernel */
};

/* The last one of a profile is shown if the user does not choose. */
struct sample_type {
	enum stack_sum sum;
	const char *type, *unit;
};
static const struct sample_type sums[] = {{STACK_EVENTS, "events", "count"},
					  {STACK_BYTES, "alloc_space", "bytes"},
					  {STACK_LIVE_OBJECTS, "inuse_objects", "count"},
					  {STACK_LIVE_BYTES, "inuse_space", "bytes"}};
static const struct sample_type times[] = {{STACK_EVENTS, "events", "count"},
					   {STACK_TIME, "time", "nanoseconds"}};

struct pprof {
	struct exporter base;
	struct stacks *stacks;
	const struct sample_type *types;
	size_t nr_types;
	z_stream zip;
	uint64_t nr_strings;
	/* Ids by address, and of inlined functions by a hash of their names. */
	struct u64_map locations, functions;
	int64_t first_ns, last_ns;
	bool has_event;
};

/* --- fields of the profile ------------------------------------------------------------------- */

static void put_compressed(struct pprof *p, const void *bytes, size_t size, int flush)
{
	int ret;

	p->zip.next_in = (void *)(uintptr_t)bytes;
	p->zip.avail_in = (unsigned int)size;
	do {
		uint8_t *at = export_room(p->base.input.file);

		p->zip.next_out = at;
		p->zip.avail_out = EXPORT_ROOM;
		ret = deflate(&p->zip, flush);
		export_took(p->base.input.file, p->zip.next_out);
	} while (ret == Z_OK && (!p->zip.avail_out || flush == Z_FINISH));
}

/* A message that is a field. */
static void put_message(struct pprof *p, enum profile field, const uint8_t *bytes,
			const uint8_t *end)
{
	uint8_t head[PROTO_NUMBER_MAX];
	uint8_t *at = proto_key(head, field, PROTO_BYTES);

	at = proto_varint(at, (uint64_t)(end - bytes));
	put_compressed(p, head, (size_t)(at - head), Z_NO_FLUSH);
	put_compressed(p, bytes, (size_t)(end - bytes), Z_NO_FLUSH);
}

static void put_number(struct pprof *p, enum profile field, uint64_t value)
{
	uint8_t bytes[PROTO_NUMBER_MAX];

	put_compressed(p, bytes, (size_t)(proto_number(bytes, field, value) - bytes), Z_NO_FLUSH);
}

/* Returns its index. The first one is "". */
static uint64_t put_string(struct pprof *p, const char *text)
{
	put_message(p, PROFILE_STRING, (const uint8_t *)text, (const uint8_t *)text + strlen(text));
	return p->nr_strings++;
}

static void put_sample_type(struct pprof *p, const char *type, const char *unit)
{
	uint8_t bytes[2 * PROTO_NUMBER_MAX], *at;

	at = proto_number(bytes, VALUE_TYPE, put_string(p, type));
	at = proto_number(at, VALUE_UNIT, put_string(p, unit));
	put_message(p, PROFILE_SAMPLE_TYPE, bytes, at);
}

static void put_mapping(struct pprof *p)
{
	const struct sidecar *sidecar = trace_reader_sidecar(p->base.input.reader);
	uint8_t bytes[7 * PROTO_NUMBER_MAX], *at;

	at = proto_number(bytes, MAPPING_ID, MAPPING);
	at = proto_number(at, MAPPING_FILENAME, put_string(p, "[guest kernel]"));
	if (sidecar)
		at = proto_number(at, MAPPING_BUILD_ID, put_string(p, sidecar->info.build_id));
	at = proto_number(at, MAPPING_HAS_FUNCTIONS, true);
	for (unsigned int has = MAPPING_HAS_FILENAMES; has <= MAPPING_HAS_INLINE_FRAMES; has++)
		if (sidecar && sidecar->lines)
			at = proto_number(at, has, true);
	put_message(p, PROFILE_MAPPING, bytes, at);
}

/* --- stacks ---------------------------------------------------------------------------------- */

/* An address that has no name has a function of its own: pprof groups by them. */
static uint64_t function_of(const struct sidecar *sidecar, uint64_t address)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(sidecar, address);

	return symbol && symbol->start ? symbol->start : address;
}

/* The id of an address, from 1 on; *is_new if it has not been put yet. 0 without memory. */
static uint64_t id_of(struct u64_map *ids, uint64_t address, bool *is_new)
{
	uint64_t *id = u64_map_insert(ids, address, is_new);

	if (id && *is_new)
		*id = ids->count;
	return id ? *id : 0;
}

/* FNV-1a: of functions with the same hash, which there are hardly any, one has the other's name. */
static uint64_t hash_of(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t inlined_function_of(const struct source_frame *frame)
{
	const uint64_t basis = UINT64_C(0xcbf29ce484222325);

	return hash_of(hash_of(basis, frame->function), frame->file);
}

/* A function that `key` stands for. */
static uint64_t put_function(struct pprof *p, uint64_t key, const char *name, const char *file)
{
	uint8_t bytes[4 * PROTO_NUMBER_MAX], *at;
	bool is_new;
	const uint64_t id = id_of(&p->functions, key, &is_new);
	uint64_t name_string;

	if (!id || !is_new)
		return id;
	name_string = put_string(p, name);
	at = proto_number(bytes, FUNCTION_ID, id);
	at = proto_number(at, FUNCTION_NAME, name_string);
	at = proto_number(at, FUNCTION_SYSTEM_NAME, name_string);
	if (*file)
		at = proto_number(at, FUNCTION_FILENAME, put_string(p, file));
	put_message(p, PROFILE_FUNCTION, bytes, at);
	return id;
}

static uint8_t *put_line(uint8_t *at, uint64_t function, unsigned int number)
{
	uint8_t *line = proto_begin(at, LOCATION_LINE, PROTO_SMALL);

	at = proto_number(line, LINE_FUNCTION, function);
	if (number)
		at = proto_number(at, LINE_LINE, number);
	proto_end(line, at, PROTO_SMALL);
	return at;
}

/* A line for each function that is inlined there, the innermost first, then that of the function
 * itself. NULL without memory. */
static uint8_t *put_lines(struct pprof *p, uint8_t *at, uint64_t address)
{
	const struct sidecar *sidecar = trace_reader_sidecar(p->base.input.reader);
	struct source_frame frames[SOURCE_MAX_FRAMES] = {{"", "", 0}};
	size_t n = sidecar_call_frames(sidecar, address, frames);
	uint64_t id;

	while (n-- > 1) {
		id = put_function(p, inlined_function_of(&frames[n]), frames[n].function,
				  frames[n].file);
		if (!id)
			return NULL;
		at = put_line(at, id, frames[n].line);
	}
	id = put_function(p, function_of(sidecar, address),
			  sidecar_function_text(sidecar, address).s, frames[0].file);
	return id ? put_line(at, id, frames[0].line) : NULL;
}

static uint64_t put_location(struct pprof *p, uint64_t address)
{
	uint8_t bytes[(4 + 3 * SOURCE_MAX_FRAMES) * PROTO_NUMBER_MAX], *at;
	bool is_new;
	const uint64_t id = id_of(&p->locations, address, &is_new);

	if (!id || !is_new)
		return id;
	at = proto_number(bytes, LOCATION_ID, id);
	at = proto_number(at, LOCATION_MAPPING, MAPPING);
	at = proto_number(at, LOCATION_ADDRESS, address);
	at = put_lines(p, at, address);
	if (!at)
		return 0;
	put_message(p, PROFILE_LOCATION, bytes, at);
	return id;
}

/* The innermost frame first. Repeated numbers are packed. */
static int put_sample(struct pprof *p, const struct stack *stack, uint64_t label_key,
		      uint64_t label)
{
	uint8_t bytes[FIELD_BYTES], *at, *part;

	part = at = proto_begin(bytes, SAMPLE_LOCATION, PROTO_LARGE);
	for (unsigned int i = stack->nr_frames; i-- > 0;) {
		const uint64_t id = put_location(p, stack->frames[i]);

		if (!id)
			return -ENOMEM;
		at = proto_varint(at, id);
	}
	proto_end(part, at, PROTO_LARGE);
	part = at = proto_begin(at, SAMPLE_VALUE, PROTO_LARGE);
	for (size_t i = 0; i < p->nr_types; i++) {
		const uint64_t sum = stack->sums[p->types[i].sum];

		at = proto_varint(at, sum > INT64_MAX ? INT64_MAX : sum);
	}
	proto_end(part, at, PROTO_LARGE);
	part = proto_begin(at, SAMPLE_LABEL, PROTO_SMALL);
	at = proto_number(part, LABEL_KEY, label_key);
	at = proto_number(at, LABEL_STR, label);
	proto_end(part, at, PROTO_SMALL);
	put_message(p, PROFILE_SAMPLE, bytes, at);
	return 0;
}

_Static_assert((STACK_MAX_FRAMES + STACK_NR_SUMS + 4) * PROTO_NUMBER_MAX < FIELD_BYTES,
	       "a sample fits");

/* Those of events outside of the part that is exported have nothing, unless they are live in it. */
static bool has_values(const struct pprof *p, const struct stack *stack)
{
	bool has = false;

	for (size_t i = 0; i < p->nr_types; i++)
		has |= stack->sums[p->types[i].sum] > 0;
	return has;
}

static int put_samples(struct pprof *p, const struct stack *stacks, size_t n)
{
	const uint64_t key = put_string(p, "event");
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++)
		if (has_values(p, &stacks[i]))
			ret = put_sample(p, &stacks[i], key,
					 put_string(p, stack_event_text(&stacks[i]).s));
	return ret;
}

/* --- the whole ------------------------------------------------------------------------------- */

static int put_event(struct exporter *base, const struct event *event)
{
	struct pprof *p = (struct pprof *)base;

	if (!p->has_event || event->ns < p->first_ns)
		p->first_ns = event->ns;
	if (!p->has_event || event->ns > p->last_ns)
		p->last_ns = event->ns;
	p->has_event = true;
	return stacks_add(p->stacks, event);
}

static int note_event(struct exporter *base, const struct event *event,
		      const struct part_place *place)
{
	return stacks_note(((struct pprof *)base)->stacks, event, place);
}

/* Times may be any numbers, the profile's has 63 bits. */
static uint64_t duration_of(const struct pprof *p)
{
	uint64_t duration = (uint64_t)p->last_ns - (uint64_t)p->first_ns;

	return duration > INT64_MAX ? INT64_MAX : duration;
}

/* The host's time of day at the first event; when recording began if there is none. */
static int64_t time_of(const struct pprof *p, const struct trace_info *info)
{
	int64_t since, time;

	if (p->has_event && !__builtin_sub_overflow(p->first_ns, info->started_ns, &since) &&
	    !__builtin_add_overflow(info->started_realtime_ns, since, &time))
		return time;
	return info->started_realtime_ns;
}

static void put_about(struct pprof *p)
{
	const struct text about = export_about(&p->base);
	const struct sidecar *sidecar = trace_reader_sidecar(p->base.input.reader);
	const struct trace_info *info = sidecar ? &sidecar->info : NULL;

	put_string(p, "");
	for (size_t i = 0; i < p->nr_types; i++)
		put_sample_type(p, p->types[i].type, p->types[i].unit);
	if (p->nr_types > 1)
		put_number(p, PROFILE_DEFAULT_SAMPLE_TYPE,
			   put_string(p, p->types[p->nr_types - 1].type));
	put_mapping(p);
	if (info && info->started_realtime_ns)
		put_number(p, PROFILE_TIME_NANOS, (uint64_t)time_of(p, info));
	put_number(p, PROFILE_DURATION_NANOS, duration_of(p));
	if (*export_banner(p->base.input.reader))
		put_number(p, PROFILE_COMMENT, put_string(p, export_banner(p->base.input.reader)));
	if (*about.s)
		put_number(p, PROFILE_COMMENT, put_string(p, about.s));
}

static int finish(struct exporter *base, struct error *err)
{
	struct pprof *p = (struct pprof *)base;
	size_t n;
	const struct stack *stacks = stacks_finish(p->stacks, &n);

	put_about(p);
	if (put_samples(p, stacks, n))
		return error_set(err, ENOMEM, "out of memory");
	put_compressed(p, NULL, 0, Z_FINISH);
	return 0;
}

static void deinit(struct exporter *base)
{
	struct pprof *p = (struct pprof *)base;

	deflateEnd(&p->zip);
	u64_map_deinit(&p->locations);
	u64_map_deinit(&p->functions);
	stacks_destroy(p->stacks);
}

static void choose_types(struct pprof *p, enum export_value value)
{
	p->types = value == EXPORT_TIME ? times : sums;
	if (value == EXPORT_TIME)
		p->nr_types = sizeof(times) / sizeof(times[0]);
	else
		p->nr_types = stacks_have_bytes(p->stacks) ? sizeof(sums) / sizeof(sums[0]) : 1;
}

static int init(struct exporter *base, struct error *err)
{
	struct pprof *p = (struct pprof *)base;
	int ret;

	u64_map_init(&p->locations, sizeof(uint64_t));
	u64_map_init(&p->functions, sizeof(uint64_t));
	ret = stacks_create(base->input.reader, base->input.value, &p->stacks, err);
	if (ret)
		return ret;
	if (deflateInit2(&p->zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		return error_set(err, ENOMEM, "out of memory");
	choose_types(p, base->input.value);
	return 0;
}

const struct exporter_ops pprof_exporter = {.takes_value = true,
					    .sums = EXPORT_SUMS_EVENTS,
					    .takes_lines = true,
					    .size = sizeof(struct pprof),
					    .init = init,
					    .event = put_event,
					    .other = note_event,
					    .finish = finish,
					    .deinit = deinit};
