/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_KMEM_H
#define SONDE_FORMATS_EVENT_KMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "formats/event/event.h"
#include "formats/event/task.h"

/*
 * Events of the kmem tracer: one allocation or one free, as encoders, decoders and analyses see it.
 * Ids and meaning: kmemtrace ABI version 1 (Documentation/ABI/testing/debugfs-kmemtrace, 2008).
 */
enum kmem_event_id {
	KMEM_EVENT_NULL = 0, /* illegal in a trace */
	KMEM_EVENT_ALLOC = 1,
	KMEM_EVENT_FREE = 2,
};

enum kmem_type_id {
	KMEM_TYPE_KMALLOC = 0, /* kmalloc() / kfree() */
	KMEM_TYPE_CACHE = 1,   /* kmem_cache_alloc() / kmem_cache_free() */
	KMEM_TYPE_PAGES = 2,   /* __get_free_pages() and friends */
	KMEM_TYPE_COUNT,
};

struct kmem_record {
	uint8_t event_id; /* enum kmem_event_id */
	uint8_t type_id;  /* enum kmem_type_id */
	uint16_t cache;   /* id in the sidecar's cache table, 0 = unknown or none; not in the ABI */
	int32_t node;     /* requested NUMA node of an allocation, -1 = any; 0 in a free */
	uint64_t call_site;
	uint64_t ptr;
	uint64_t bytes_req;   /* allocations: bytes asked for. Page frees: bytes freed. Else 0 */
	uint64_t bytes_alloc; /* as above, bytes taken */
	uint64_t gfp_flags;   /* allocations only, the guest kernel's own bit values */
	int64_t timestamp;    /* ns, guest kvmclock; monotonic per vCPU */
};

/* Whether the ids of event and type are known. Decoders hand out others, too. */
static inline bool kmem_record_is_legal(const struct kmem_record *record)
{
	return (record->event_id == KMEM_EVENT_ALLOC || record->event_id == KMEM_EVENT_FREE) &&
	       record->type_id < KMEM_TYPE_COUNT;
}

/* Names of the enum kmem_type_id, NULL-terminated. */
extern const char *const kmem_type_names[];

/* One of them, or "?". */
const char *kmem_type_name(unsigned int type);

/*
 * The classes of these events, whose bytes are a struct kmem_record. The members event_id, type_id
 * and timestamp follow from class and time.
 */
enum kmem_class {
	KMEM_CLASS_KMALLOC, /* and the other types, in their order */
	KMEM_CLASS_CACHE_ALLOC,
	KMEM_CLASS_PAGE_ALLOC,
	KMEM_CLASS_KFREE,
	KMEM_CLASS_CACHE_FREE,
	KMEM_CLASS_PAGE_FREE,
	KMEM_CLASS_OTHER, /* has all fields, for records that are not legal */
	KMEM_NR_CLASSES,
};
extern const struct event_class kmem_classes[KMEM_NR_CLASSES];

/* An event whose task was recorded, too. */
struct kmem_task_record {
	struct kmem_record record;
	struct event_task task;
};

/* The same with a call chain. */
struct kmem_stack_record {
	struct kmem_task_record call;
	uint64_t stack[EVENT_STACK_WORDS]; /* who called the allocator first */
};

/*
 * The classes of an instance that records these fields (enum event_task_fields) of tasks, by enum
 * kmem_class: constant, and the same array for the same fields; of none kmem_classes. The events'
 * bytes are a struct kmem_task_record, with EVENT_TASK_STACK a struct kmem_stack_record, of which
 * the other members are not read.
 */
const struct event_class *kmem_classes_of(unsigned int task_fields);

/* Whether the class of its ids describes all of a legal record. */
static inline bool kmem_record_is_described(const struct kmem_record *r)
{
	bool is_pages = r->type_id == KMEM_TYPE_PAGES;

	if (is_pages && (r->cache || r->bytes_req != r->bytes_alloc))
		return false;
	if (r->event_id == KMEM_EVENT_ALLOC)
		return true;
	return !r->node && !r->gfp_flags && (is_pages || (!r->bytes_req && !r->bytes_alloc)) &&
	       (r->type_id == KMEM_TYPE_CACHE || !r->cache);
}

/* The class that describes all of a record. */
static inline enum kmem_class kmem_class_of(const struct kmem_record *record)
{
	if (!kmem_record_is_legal(record) || !kmem_record_is_described(record))
		return KMEM_CLASS_OTHER;
	return (record->event_id == KMEM_EVENT_ALLOC ? KMEM_CLASS_KMALLOC : KMEM_CLASS_KFREE) +
	       record->type_id;
}

/* The one of kmem_classes that a class is, a trace's or one of the above, or is like; NULL if it is
 * not of kmem. */
static inline const struct event_class *kmem_known_class(const struct event_class *class)
{
	if (class->known)
		class = class->known;
	return class >= kmem_classes && class < kmem_classes + KMEM_NR_CLASSES ? class : NULL;
}

/* Whether events of this class are records. */
bool kmem_class_is_known(const struct event_class *class);
/* Whether an instance has such events. */
bool kmem_has_events(const struct trace_instance *instance);
/* Whether they are allocations. */
bool kmem_class_is_alloc(const struct event_class *class);

/* The names of fields that some events of an instance have beside those of kmem_classes, as "pid,
 * stack"; "" of events that are not of kmem. Cut off at `size`. */
void kmem_print_more_fields(const struct trace_instance *instance, char *out, size_t size);

/* Whether an instance of this spec records all events: "kmem:pid", but not "kmem:cache", and not
 * "kmem:vcpu=0". */
bool kmem_spec_is_whole(const char *spec);
/* Whether it has a condition on events: that may take an allocation, and not its free. */
bool kmem_spec_has_condition(const char *spec);
/* The types of objects that it records, a bit for each. */
unsigned int kmem_spec_types(const char *spec);

/* Whether some events of an instance have call chains. */
bool kmem_has_chains(const struct trace_instance *instance);

/* The ids of the records of each class; of the last one, whose records have their own, zeros. */
struct kmem_ids {
	uint8_t event_id, type_id;
};
extern const struct kmem_ids kmem_ids[KMEM_NR_CLASSES];

/* The record that an event is. Returns false if it is none. */
static inline bool kmem_record_of(const struct event *event, struct kmem_record *out)
{
	const struct event_class *class = kmem_known_class(event->class);
	size_t number;

	if (!class)
		return false;
	memcpy(out, event->bytes, sizeof(*out));
	out->timestamp = event->ns;
	number = (size_t)(class - kmem_classes);
	if (number == KMEM_CLASS_OTHER)
		return true;
	out->event_id = kmem_ids[number].event_id;
	out->type_id = kmem_ids[number].type_id;
	if (out->type_id == KMEM_TYPE_PAGES)
		out->bytes_alloc = out->bytes_req;
	return true;
}

/*
 * For decoders: set the members of a record that follow from its class and time. So the bytes of
 * events that decoders hand out are whole records.
 */
static inline void kmem_record_complete(struct kmem_ids ids, int64_t ns, void *bytes)
{
	struct kmem_record *record = bytes;

	record->timestamp = ns;
	if (ids.event_id == KMEM_EVENT_NULL)
		return;
	record->event_id = ids.event_id;
	record->type_id = ids.type_id;
	if (ids.type_id == KMEM_TYPE_PAGES)
		record->bytes_alloc = record->bytes_req;
}

/* The record that an event from a decoder is; NULL if it is none. */
static inline const struct kmem_record *kmem_record_in(const struct event *event)
{
	return kmem_known_class(event->class) ? event->bytes : NULL;
}

/*
 * What a live heap goes by of most records, in half a line of the processor's cache: without flags,
 * and with numbers of as many bits as they mostly need.
 */
struct kmem_brief {
	int64_t ns;
	uint64_t ptr;
	uint32_t bytes_req, bytes_alloc;
	int32_t call_site; /* sign-extended: a kernel's text is in the last 2 GiB */
	uint16_t cache;
	int8_t node;
	uint8_t class; /* enum kmem_class, not the last one */
};

/* All but time and class. Returns false if a complete record has more than that. */
static inline bool kmem_brief_of(const struct kmem_record *record, struct kmem_brief *out)
{
	out->ptr = record->ptr;
	out->bytes_req = (uint32_t)record->bytes_req;
	out->bytes_alloc = (uint32_t)record->bytes_alloc;
	out->call_site = (int32_t)record->call_site;
	out->cache = record->cache;
	out->node = (int8_t)record->node;
	return out->bytes_req == record->bytes_req && out->bytes_alloc == record->bytes_alloc &&
	       (uint64_t)(int64_t)out->call_site == record->call_site && out->node == record->node;
}

/* The record again, without its flags. */
static inline struct kmem_record kmem_brief_record(const struct kmem_brief *brief)
{
	return (struct kmem_record){.event_id = kmem_ids[brief->class].event_id,
				    .type_id = kmem_ids[brief->class].type_id,
				    .cache = brief->cache,
				    .node = brief->node,
				    .call_site = (uint64_t)(int64_t)brief->call_site,
				    .ptr = brief->ptr,
				    .bytes_req = brief->bytes_req,
				    .bytes_alloc = brief->bytes_alloc,
				    .timestamp = brief->ns};
}

/* An event that is a record, without a place. Its bytes are the record. */
struct event kmem_event_of(const struct kmem_record *record, const struct trace_instance *instance);

/* The instance that traces of this tracer alone have. */
extern const struct trace_instance kmem_instance;

enum { GFP_NAMES_MAX = 64 };

/* The kernel's name of one or several bits of its GFP flags. */
struct gfp_name {
	uint64_t mask;
	char name[32];
};

/*
 * GFP flags as the guest's own trace events print them: the names, in their order, whose bits are
 * all set and not yet named, as in "GFP_KERNEL|__GFP_ZERO"; then bits without a name in hex. No
 * flags are "none".
 */
void gfp_flags_text(const struct gfp_name *names, size_t nr_names, uint64_t flags, char *out,
		    size_t size);

/* The bits that a name stands for. 0, or -ENOENT. */
int gfp_name_mask(const struct gfp_name *names, size_t nr_names, const char *name, uint64_t *mask);

#endif
