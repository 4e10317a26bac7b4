/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_SCHEMA_H
#define SONDE_FORMATS_CTF_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/event/kmem.h"

/*
 * Sonde's trace in the Common Trace Format 1.8 (https://diamon.org/ctf/, specification 1.8.3):
 * the tables that metadata, encoder and decoder share. sonde-trace(5) describes the format for
 * users.
 *
 * Every event begins at a byte with LTTng's compact header: 5 bits of event id and the low 27
 * bits of the clock; or the id CTF_EXTENDED, then 32 bits of id and all 64 of the clock.
 *
 * Events have the names that the kernel's own trace events have, so that analyses of those take
 * them: Trace Compass needs mm_page_alloc and mm_page_free with an `order`.
 *
 * Each kind of record has several forms, which are events of one name with different ids: small
 * ones for usual records, with pointers of 48 or 57 bits (4- or 5-level paging), with a NUMA
 * node or without; a wide one for the others. Small forms name call sites and GFP flags by ids,
 * which definition events earlier in the same stream explain.
 */
enum {
	CTF_VERSION = 2, /* "sonde_format" in the metadata; every change of the tables raises it */
	CTF_EXTENDED = 31,

	CTF_SITE_BITS = 13,
	CTF_GFP_BITS = 8,
	CTF_SMALL_CACHE_BITS = 9,
	CTF_SIZE_BITS = 13, /* of an object in a small form */
	CTF_ORDER_BITS = 3,
	CTF_NODE_BITS = 8,
	CTF_NAME_MAX = 255, /* bytes of a cache's name, without the NUL */

	CTF_MAX_FIELDS = 10,
	CTF_HEADER_SIZE = 4, /* bytes of an event's header */
	CTF_EXTENDED_HEADER_SIZE = 13,
	CTF_MAX_EVENT = CTF_EXTENDED_HEADER_SIZE + 18 + CTF_NAME_MAX + 1,
};

enum ctf_event_id {
	/* the kinds, in the order of type_id: allocations, then frees */
	CTF_KMALLOC,
	CTF_CACHE_ALLOC,
	CTF_PAGE_ALLOC,
	CTF_KFREE,
	CTF_CACHE_FREE,
	CTF_PAGE_FREE,
	CTF_NR_KINDS,
	/* and the same with other fields: add one of these to a kind */
	CTF_LA57 = CTF_NR_KINDS,
	CTF_WIDE = 2 * CTF_NR_KINDS,
	CTF_NODE = 3 * CTF_NR_KINDS, /* allocations only */
	CTF_NODE_LA57 = CTF_NODE + CTF_NR_KINDS / 2,

	CTF_RECORD =
		4 *
		CTF_NR_KINDS, /* a record that is not legal, or whose time the clock cannot have */
	CTF_DEFINE_SITE,
	CTF_DEFINE_CACHE,
	CTF_DEFINE_GFP,
	CTF_NR_EVENTS,
};

/* The members of a record or definition that a field holds. */
enum ctf_member {
	CTF_MEMBER_SITE_ID,
	CTF_MEMBER_SITE,
	CTF_MEMBER_PTR,
	CTF_MEMBER_BYTES_REQ,
	CTF_MEMBER_BYTES_ALLOC,
	CTF_MEMBER_ORDER,
	CTF_MEMBER_WIDE_ORDER, /* beside the bytes, for other readers */
	CTF_MEMBER_CACHE,
	CTF_MEMBER_GFP_ID,
	CTF_MEMBER_GFP,
	CTF_MEMBER_NODE,
	CTF_MEMBER_EVENT,
	CTF_MEMBER_TYPE,
	CTF_MEMBER_TIMESTAMP,
	CTF_MEMBER_OBJECT_SIZE,
	CTF_MEMBER_SIZE,
	CTF_MEMBER_NAME, /* the only string; always last */
	CTF_NR_MEMBERS,
};

enum ctf_display { CTF_DECIMAL, CTF_SIGNED, CTF_HEX, CTF_SIGNED_HEX };

struct ctf_field {
	const char *name; /* NULL ends the list */
	enum ctf_member member;
	uint8_t bits; /* 0: a string */
	enum ctf_display display;
	const char *enumeration; /* name of its enum in the metadata, or NULL */
};

struct ctf_event_class {
	const char *name;
	struct ctf_field fields[CTF_MAX_FIELDS + 1];
};

extern const struct ctf_event_class ctf_event_classes[CTF_NR_EVENTS];

struct ctf_event {
	uint32_t id;                     /* enum ctf_event_id */
	uint64_t clock;                  /* ns */
	uint64_t values[CTF_NR_MEMBERS]; /* signed ones sign-extended */
	char name[CTF_NAME_MAX + 1];
};

/* The clock's last value, ns. Readers add the time of day and count that in 63 bits. */
#define CTF_CLOCK_MAX (INT64_C(1) << 62)

/*
 * Conversion between records and events. No record loses anything: it takes the first form that
 * holds all of it.
 */

/* Ids that small forms use in place of values; 0: there is none. */
struct ctf_ids {
	unsigned int site, gfp;
};

/* Whether the clock of events can have a record's time stamp. */
static inline bool ctf_clock_holds(int64_t timestamp)
{
	return timestamp >= 0 && timestamp <= CTF_CLOCK_MAX;
}

/* `clock` is that of the stream's event before; the event's own is never earlier. */
void ctf_event_from_record(const struct kmem_record *record, const struct ctf_ids *ids,
			   uint64_t clock, struct ctf_event *event);

/* Whether the event is a record, and not a definition. */
bool ctf_event_is_record(const struct ctf_event *event);

/*
 * Whether the event has a field for this member. If it has an id (CTF_MEMBER_SITE_ID,
 * CTF_MEMBER_GFP_ID), the value that it stands for has to be put into values[] before
 * ctf_event_to_record().
 */
bool ctf_event_has(const struct ctf_event *event, enum ctf_member member);

/* The record that ctf_event_from_record() made the event of; ids of caches and types are the
 * trace's. */
void ctf_event_to_record(const struct ctf_event *event, struct kmem_record *record);

#endif
