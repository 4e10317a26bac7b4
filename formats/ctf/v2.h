/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_CTF_V2_H
#define SONDE_FORMATS_CTF_V2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/bit-cursor.h"
#include "formats/event/kmem.h"

/*
 * Format version 2 of Sonde's CTF traces, which sonde 0.1 wrote: read, but not written any more.
 *
 * It has the events of the kmem tracer only. Each kind of record has several forms, which are
 * events of one name with different ids: small ones for usual records, with pointers of 48 or 57
 * bits, with a NUMA node or without; a wide one for the others. Small forms name call sites and GFP
 * flags by ids, which definition events earlier in the same stream explain. Packets have no
 * checksum.
 */
enum {
	V2_VERSION = 2,
	V2_EXTENDED = 31,

	V2_SITE_BITS = 13,
	V2_GFP_BITS = 8,
	V2_SMALL_CACHE_BITS = 9,
	V2_SIZE_BITS = 13, /* of an object in a small form */
	V2_ORDER_BITS = 3,
	V2_NODE_BITS = 8,
	V2_NAME_MAX = 255, /* bytes of a cache's name, without the NUL */

	V2_MAX_FIELDS = 10,
	V2_HEADER_SIZE = 4, /* bytes of an event's header */
	V2_EXTENDED_HEADER_SIZE = 13,
	V2_MAX_EVENT = V2_EXTENDED_HEADER_SIZE + 18 + V2_NAME_MAX + 1,
};

enum v2_event_id {
	/* the kinds, in the order of type_id: allocations, then frees */
	V2_KMALLOC,
	V2_CACHE_ALLOC,
	V2_PAGE_ALLOC,
	V2_KFREE,
	V2_CACHE_FREE,
	V2_PAGE_FREE,
	V2_NR_KINDS,
	/* and the same with other fields: add one of these to a kind */
	V2_LA57 = V2_NR_KINDS,
	V2_WIDE = 2 * V2_NR_KINDS,
	V2_NODE = 3 * V2_NR_KINDS, /* allocations only */
	V2_NODE_LA57 = V2_NODE + V2_NR_KINDS / 2,

	V2_RECORD =
		4 *
		V2_NR_KINDS, /* a record that is not legal, or whose time the clock cannot have */
	V2_DEFINE_SITE,
	V2_DEFINE_CACHE,
	V2_DEFINE_GFP,
	V2_NR_EVENTS,
};

/* The members of a record or definition that a field holds. */
enum v2_member {
	V2_MEMBER_SITE_ID,
	V2_MEMBER_SITE,
	V2_MEMBER_PTR,
	V2_MEMBER_BYTES_REQ,
	V2_MEMBER_BYTES_ALLOC,
	V2_MEMBER_ORDER,
	V2_MEMBER_WIDE_ORDER, /* beside the bytes, for other readers */
	V2_MEMBER_CACHE,
	V2_MEMBER_GFP_ID,
	V2_MEMBER_GFP,
	V2_MEMBER_NODE,
	V2_MEMBER_EVENT,
	V2_MEMBER_TYPE,
	V2_MEMBER_TIMESTAMP,
	V2_MEMBER_OBJECT_SIZE,
	V2_MEMBER_SIZE,
	V2_MEMBER_NAME, /* the only string; always last */
	V2_NR_MEMBERS,
};

enum v2_display { V2_DECIMAL, V2_SIGNED, V2_HEX, V2_SIGNED_HEX };

struct v2_field {
	const char *name; /* NULL ends the list */
	enum v2_member member;
	uint8_t bits; /* 0: a string */
	enum v2_display display;
	const char *enumeration; /* name of its enum in the metadata, or NULL */
};

struct v2_event_class {
	const char *name;
	struct v2_field fields[V2_MAX_FIELDS + 1];
};

extern const struct v2_event_class v2_event_classes[V2_NR_EVENTS];

struct v2_event {
	uint32_t id;                    /* enum v2_event_id */
	uint64_t clock;                 /* ns */
	uint64_t values[V2_NR_MEMBERS]; /* signed ones sign-extended */
	char name[V2_NAME_MAX + 1];
};

/* Whether the event is a record, and not a definition. */
bool v2_event_is_record(const struct v2_event *event);

/*
 * Whether the event has a field for this member. If it has an id (V2_MEMBER_SITE_ID,
 * V2_MEMBER_GFP_ID), the value that it stands for has to be put into values[] before
 * v2_event_to_record().
 */
bool v2_event_has(const struct v2_event *event, enum v2_member member);

/* The record that the event is; ids of caches and types are the trace's. */
void v2_event_to_record(const struct v2_event *event, struct kmem_record *record);

/*
 * Decode the event at the next byte boundary. `clock` is that of the event before, or of the
 * packet's begin. Returns 0; -EINVAL for what is not an event of this format; -ENODATA if the
 * cursor's end comes first (the cursor has then failed).
 */
int v2_event_get(struct bit_cursor *in, uint64_t clock, struct v2_event *event);

/*
 * The text with which the metadata of these traces ends, to be freed: what describes packets and
 * events. NULL without memory.
 */
char *v2_layout_text(void);

#endif
