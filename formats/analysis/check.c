/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/check.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/u64-map.h"

enum {
	FREED_SLOTS = 1 << 16,
	PAGE_SIZE = 4096,
	MAX_BLOCK_PAGES = 1024, /* of the page allocator: order 10 */
};

struct live_object {
	uint64_t call_site;
	uint8_t type;
};

/*
 * Slab objects or page blocks: those that are live, and in a table of fixed size (each address
 * has one slot, the later one stays) those freed last.
 */
struct address_space {
	struct u64_map live;
	uint64_t freed[FREED_SLOTS];
};

struct check {
	bool from_first, lossy;
	bool uncertain; /* for the event under way */
	struct address_space slab, pages;
	bool has_time[TRACE_MAX_STREAMS];
	int64_t last_time[TRACE_MAX_STREAMS];
	struct check_finding findings[CHECK_CLASS_COUNT][CHECK_SEVERITY_COUNT];
};

struct check *check_create(bool from_first, bool lossy)
{
	struct check *check = calloc(1, sizeof(*check));

	if (!check)
		return NULL;
	check->from_first = from_first;
	check->lossy = lossy;
	u64_map_init(&check->slab.live, sizeof(struct live_object));
	u64_map_init(&check->pages.live, sizeof(struct live_object));
	return check;
}

void check_destroy(struct check *check)
{
	if (!check)
		return;
	u64_map_deinit(&check->slab.live);
	u64_map_deinit(&check->pages.live);
	free(check);
}

static void found(struct check *check, enum check_class class, enum check_severity severity,
		  const struct trace_event *event, const struct live_object *object)
{
	struct check_finding *finding = &check->findings[class][severity];
	struct check_example *example;

	finding->count++;
	if (finding->nr_examples == CHECK_MAX_EXAMPLES)
		return;
	example = &finding->examples[finding->nr_examples++];
	example->event = *event;
	example->has_allocation = object;
	if (object)
		example->allocation_call_site = object->call_site;
}

static void found_error(struct check *check, enum check_class class,
			const struct trace_event *event)
{
	found(check, class, CHECK_ERROR, event, NULL);
}

/* An error about an object's life. */
static void found_life(struct check *check, enum check_class class, const struct trace_event *event,
		       const struct live_object *object)
{
	found(check, class, check->uncertain ? CHECK_NOTE : CHECK_ERROR, event, object);
}

static uint64_t *freed_slot(struct address_space *space, uint64_t ptr)
{
	return &space->freed[(ptr * 0x9e3779b97f4a7c15) >> 48];
}

static void forget_freed(struct address_space *space, uint64_t ptr)
{
	uint64_t *slot = freed_slot(space, ptr);

	if (*slot == ptr)
		*slot = 0;
}

/* A block of pages may be split and freed in pieces, each of which then is freed once. */
static void forget_freed_pages(struct address_space *space, const struct kmem_record *record)
{
	for (uint64_t i = 0; i < MAX_BLOCK_PAGES && i * PAGE_SIZE < record->bytes_alloc; i++)
		forget_freed(space, record->ptr + i * PAGE_SIZE);
}

static int check_alloc(struct check *check, const struct trace_event *event)
{
	const struct kmem_record *record = &event->record;
	bool is_pages = record->type_id == KMEM_TYPE_PAGES;
	struct address_space *space = is_pages ? &check->pages : &check->slab;
	struct live_object *object;
	bool is_new;

	if (!record->bytes_req)
		found_error(check, CHECK_ZERO_BYTES, event);
	if (record->bytes_alloc < record->bytes_req)
		found_error(check, CHECK_TOO_FEW_BYTES, event);
	object = u64_map_insert(&space->live, record->ptr, &is_new);
	if (!object)
		return -ENOMEM;
	if (!is_new)
		found_life(check, CHECK_ALLOC_LIVE, event, object);
	*object = (struct live_object){record->call_site, record->type_id};
	if (is_pages)
		forget_freed_pages(space, record);
	return 0;
}

static void check_family(struct check *check, const struct trace_event *event,
			 const struct live_object *object)
{
	if (object->type == event->record.type_id)
		return;
	/* Linux has allowed kfree() of any slab object since 6.4. */
	if (object->type == KMEM_TYPE_CACHE && event->record.type_id == KMEM_TYPE_KMALLOC)
		found(check, CHECK_FAMILY, CHECK_NOTE, event, object);
	else
		found_life(check, CHECK_FAMILY, event, object);
}

static void free_of_unknown(struct check *check, const struct trace_event *event,
			    struct address_space *space)
{
	uint64_t ptr = event->record.ptr;
	bool is_pages = space == &check->pages;
	const struct live_object *block = is_pages ? NULL : u64_map_find(&check->pages.live, ptr);

	if (block)
		check_family(check, event, block);
	else if (*freed_slot(space, ptr) == ptr)
		found_life(check, CHECK_FREE_TWICE, event, NULL);
	else if (is_pages || !check->from_first)
		/* The page allocator gets its first pages from memblock, by freeing them. */
		found(check, CHECK_FREE_EARLIER, CHECK_NOTE, event, NULL);
	else
		found_life(check, CHECK_FREE_UNKNOWN, event, NULL);
}

static void check_free(struct check *check, const struct trace_event *event)
{
	const struct kmem_record *record = &event->record;
	struct address_space *space =
		record->type_id == KMEM_TYPE_PAGES ? &check->pages : &check->slab;
	const struct live_object *object = u64_map_find(&space->live, record->ptr);

	if (!object) {
		free_of_unknown(check, event, space);
		return;
	}
	check_family(check, event, object);
	u64_map_remove(&space->live, record->ptr);
	*freed_slot(space, record->ptr) = record->ptr;
}

static void check_time(struct check *check, const struct trace_event *event)
{
	int64_t *last = &check->last_time[event->vcpu % TRACE_MAX_STREAMS];
	bool *has_time = &check->has_time[event->vcpu % TRACE_MAX_STREAMS];

	if (*has_time && event->record.timestamp < *last)
		found_error(check, CHECK_TIME_ORDER, event);
	*has_time = true;
	*last = event->record.timestamp;
}

int check_add(struct check *check, const struct trace_event *event, bool cut)
{
	const struct kmem_record *record = &event->record;
	bool bad_event =
		record->event_id != KMEM_EVENT_ALLOC && record->event_id != KMEM_EVENT_FREE;
	bool bad_type = record->type_id >= KMEM_TYPE_COUNT;

	check->uncertain = check->lossy || cut;
	check_time(check, event);
	if (bad_event)
		found_error(check, CHECK_EVENT_ID, event);
	if (bad_type)
		found_error(check, CHECK_TYPE_ID, event);
	if (!record->ptr)
		found_error(check, CHECK_NULL_POINTER, event);
	if (bad_event || bad_type || !record->ptr)
		return 0;
	if (record->event_id == KMEM_EVENT_ALLOC)
		return check_alloc(check, event);
	check_free(check, event);
	return 0;
}

void check_streams(struct check *check, const struct trace_reader *reader)
{
	static const enum check_class faults[] = {
		[RECORD_FAULT_SIZE] = CHECK_RECORD_SIZE,
		[RECORD_FAULT_PACKET] = CHECK_PACKET,
		[RECORD_FAULT_EVENT] = CHECK_EVENT,
	};

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		struct trace_stream_info info;
		struct trace_event event = {0};

		trace_reader_stream_info(reader, i, &info);
		event.vcpu = info.vcpu;
		event.index = info.records;
		event.offset = info.offset;
		if (info.fault && info.fault != RECORD_FAULT_TRUNCATED)
			found_error(check, faults[info.fault], &event);
		else if (info.fault || info.records < info.expected)
			found(check, CHECK_CUT, CHECK_NOTE, &event, NULL);
		else if (info.records > info.expected)
			found_error(check, CHECK_EXTRA_RECORDS, &event);
	}
}

const struct check_finding *check_finding(const struct check *check, enum check_class class,
					  enum check_severity severity)
{
	return &check->findings[class][severity];
}

static const struct {
	const char *id, *text;
} classes[CHECK_CLASS_COUNT] = {
	[CHECK_EVENT_ID] = {"event-id", "unknown event id"},
	[CHECK_TYPE_ID] = {"type-id", "unknown type id"},
	[CHECK_NULL_POINTER] = {"null-pointer", "NULL pointer"},
	[CHECK_ZERO_BYTES] = {"zero-bytes", "allocation of zero bytes"},
	[CHECK_TOO_FEW_BYTES] = {"too-few-bytes", "fewer bytes allocated than requested"},
	[CHECK_TIME_ORDER] = {"time-order", "time stamp before the previous one of the vCPU"},
	[CHECK_ALLOC_LIVE] = {"alloc-live", "allocation of an address that is live"},
	[CHECK_FREE_TWICE] = {"free-twice", "free of an address that is free already"},
	[CHECK_FREE_UNKNOWN] = {"free-unknown", "free of an address that was never allocated"},
	[CHECK_FAMILY] = {"family", "freed by another family than it was allocated from"},
	[CHECK_FREE_EARLIER] = {"free-earlier", "free of memory allocated before tracing began"},
	[CHECK_RECORD_SIZE] = {"record-size",
			       "record of impossible size; the rest of the file is not readable"},
	[CHECK_PACKET] = {"packet",
			  "packet with a wrong header; the rest of the file is not readable"},
	[CHECK_EVENT] = {"event", "impossible event; the rest of the file is not readable"},
	[CHECK_EXTRA_RECORDS] = {"extra-records", "more records than sonde.json tells"},
	[CHECK_CUT] = {"cut", "stream cut off, read up to there"},
};

const char *check_class_id(enum check_class class)
{
	return classes[class].id;
}

const char *check_class_text(enum check_class class)
{
	return classes[class].text;
}

bool check_class_is_stream(enum check_class class)
{
	return class >= CHECK_RECORD_SIZE && class <= CHECK_CUT;
}
