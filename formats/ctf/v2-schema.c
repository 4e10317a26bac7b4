/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/schema.h"

#include "formats/base/bit-cursor.h"

/* --- the table ------------------------------------------------------------------------------- */

/* clang-format off */
#define SITE		{"call_site", CTF_MEMBER_SITE_ID, CTF_SITE_BITS, CTF_DECIMAL, "call_site"}
#define PTR		{"ptr", CTF_MEMBER_PTR, 48, CTF_SIGNED_HEX, NULL}
#define PTR_LA57	{"ptr", CTF_MEMBER_PTR, 57, CTF_SIGNED_HEX, NULL}
#define GFP		{"gfp_flags", CTF_MEMBER_GFP_ID, CTF_GFP_BITS, CTF_DECIMAL, "gfp_flags"}
#define ORDER		{"order", CTF_MEMBER_ORDER, CTF_ORDER_BITS, CTF_DECIMAL, NULL}
#define CACHE		{"cache", CTF_MEMBER_CACHE, CTF_SMALL_CACHE_BITS, CTF_DECIMAL, "cache"}
#define NODE		{"node", CTF_MEMBER_NODE, CTF_NODE_BITS, CTF_SIGNED, NULL}
#define REQ		{"bytes_req", CTF_MEMBER_BYTES_REQ, CTF_SIZE_BITS, CTF_DECIMAL, NULL}
#define ALLOC		{"bytes_alloc", CTF_MEMBER_BYTES_ALLOC, CTF_SIZE_BITS, CTF_DECIMAL, NULL}

#define WIDE_SITE	{"call_site", CTF_MEMBER_SITE, 64, CTF_HEX, NULL}
#define WIDE_PTR	{"ptr", CTF_MEMBER_PTR, 64, CTF_HEX, NULL}
#define WIDE_REQ	{"bytes_req", CTF_MEMBER_BYTES_REQ, 64, CTF_DECIMAL, NULL}
#define WIDE_ALLOC	{"bytes_alloc", CTF_MEMBER_BYTES_ALLOC, 64, CTF_DECIMAL, NULL}
#define WIDE_CACHE	{"cache", CTF_MEMBER_CACHE, 16, CTF_DECIMAL, "cache16"}
#define WIDE_GFP	{"gfp_flags", CTF_MEMBER_GFP, 64, CTF_HEX, NULL}
#define WIDE_NODE	{"node", CTF_MEMBER_NODE, 32, CTF_SIGNED, NULL}
#define WIDE_ORDER	{"order", CTF_MEMBER_WIDE_ORDER, 8, CTF_DECIMAL, NULL}
#define WIDE		WIDE_SITE, WIDE_PTR, WIDE_REQ, WIDE_ALLOC, WIDE_CACHE, WIDE_GFP, WIDE_NODE

const struct ctf_event_class ctf_event_classes[CTF_NR_EVENTS] = {
	[CTF_KMALLOC] = {"kmalloc", {SITE, PTR, REQ, ALLOC, CACHE, GFP}},
	[CTF_CACHE_ALLOC] = {"kmem_cache_alloc", {SITE, PTR, REQ, ALLOC, CACHE, GFP}},
	[CTF_PAGE_ALLOC] = {"mm_page_alloc", {SITE, PTR, ORDER, GFP}},
	[CTF_KFREE] = {"kfree", {SITE, PTR}},
	[CTF_CACHE_FREE] = {"kmem_cache_free", {SITE, PTR, CACHE}},
	[CTF_PAGE_FREE] = {"mm_page_free", {SITE, PTR, ORDER}},

	[CTF_LA57 + CTF_KMALLOC] = {"kmalloc", {SITE, PTR_LA57, REQ, ALLOC, CACHE, GFP}},
	[CTF_LA57 + CTF_CACHE_ALLOC] = {"kmem_cache_alloc",
					{SITE, PTR_LA57, REQ, ALLOC, CACHE, GFP}},
	[CTF_LA57 + CTF_PAGE_ALLOC] = {"mm_page_alloc", {SITE, PTR_LA57, ORDER, GFP}},
	[CTF_LA57 + CTF_KFREE] = {"kfree", {SITE, PTR_LA57}},
	[CTF_LA57 + CTF_CACHE_FREE] = {"kmem_cache_free", {SITE, PTR_LA57, CACHE}},
	[CTF_LA57 + CTF_PAGE_FREE] = {"mm_page_free", {SITE, PTR_LA57, ORDER}},

	[CTF_WIDE + CTF_KMALLOC] = {"kmalloc", {WIDE}},
	[CTF_WIDE + CTF_CACHE_ALLOC] = {"kmem_cache_alloc", {WIDE}},
	[CTF_WIDE + CTF_PAGE_ALLOC] = {"mm_page_alloc", {WIDE, WIDE_ORDER}},
	[CTF_WIDE + CTF_KFREE] = {"kfree", {WIDE}},
	[CTF_WIDE + CTF_CACHE_FREE] = {"kmem_cache_free", {WIDE}},
	[CTF_WIDE + CTF_PAGE_FREE] = {"mm_page_free", {WIDE, WIDE_ORDER}},

	[CTF_NODE + CTF_KMALLOC] = {"kmalloc", {SITE, PTR, REQ, ALLOC, CACHE, GFP, NODE}},
	[CTF_NODE + CTF_CACHE_ALLOC] = {"kmem_cache_alloc",
					{SITE, PTR, REQ, ALLOC, CACHE, GFP, NODE}},
	[CTF_NODE + CTF_PAGE_ALLOC] = {"mm_page_alloc", {SITE, PTR, ORDER, GFP, NODE}},
	[CTF_NODE_LA57 + CTF_KMALLOC] = {"kmalloc",
					 {SITE, PTR_LA57, REQ, ALLOC, CACHE, GFP, NODE}},
	[CTF_NODE_LA57 + CTF_CACHE_ALLOC] = {"kmem_cache_alloc",
					     {SITE, PTR_LA57, REQ, ALLOC, CACHE, GFP, NODE}},
	[CTF_NODE_LA57 + CTF_PAGE_ALLOC] = {"mm_page_alloc",
					    {SITE, PTR_LA57, ORDER, GFP, NODE}},

	[CTF_RECORD] = {"sonde_record",
			{{"event_id", CTF_MEMBER_EVENT, 8, CTF_DECIMAL, "event_id"},
			 {"type_id", CTF_MEMBER_TYPE, 8, CTF_DECIMAL, "type_id"},
			 WIDE,
			 {"timestamp", CTF_MEMBER_TIMESTAMP, 64, CTF_SIGNED, NULL}}},
	[CTF_DEFINE_SITE] = {"sonde_call_site",
			     {SITE, {"address", CTF_MEMBER_SITE, 64, CTF_HEX, NULL}}},
	[CTF_DEFINE_CACHE] = {"sonde_cache",
			      {WIDE_CACHE,
			       {"object_size", CTF_MEMBER_OBJECT_SIZE, 64, CTF_DECIMAL, NULL},
			       {"size", CTF_MEMBER_SIZE, 64, CTF_DECIMAL, NULL},
			       {"name", CTF_MEMBER_NAME, 0, CTF_DECIMAL, NULL}}},
	[CTF_DEFINE_GFP] = {"sonde_gfp_flags", {GFP, {"value", CTF_MEMBER_GFP, 64, CTF_HEX, NULL}}},
};

/* --- records as events ----------------------------------------------------------------------- */

/* The small forms' `order` counts 4 KiB shifted by it, whatever the guest's page size. */
enum { ORDER_SHIFT = 12 };

static bool is_allocation(unsigned int kind)
{
	return kind < CTF_KFREE;
}

/* The kind of a legal record; CTF_NR_KINDS for others. */
static unsigned int kind_of(const struct kmem_record *record)
{
	if (record->type_id >= KMEM_TYPE_COUNT)
		return CTF_NR_KINDS;
	if (record->event_id == KMEM_EVENT_ALLOC)
		return CTF_KMALLOC + record->type_id;
	return record->event_id == KMEM_EVENT_FREE ? CTF_KFREE + record->type_id : CTF_NR_KINDS;
}

static uint64_t order_of(uint64_t bytes)
{
	return bytes ? (uint64_t)__builtin_ctzll(bytes) - ORDER_SHIFT : UINT64_MAX;
}

/* The smallest order whose pages hold so many bytes. */
static uint64_t order_above(uint64_t bytes)
{
	uint64_t more = bytes ? (bytes - 1) >> ORDER_SHIFT : 0;

	return more ? 64 - (uint64_t)__builtin_clzll(more) : 0;
}

/* Put a record's members where all forms expect them. */
static void set_values(const struct kmem_record *record, const struct ctf_ids *ids,
		       struct ctf_event *event)
{
	uint64_t *values = event->values;

	values[CTF_MEMBER_SITE_ID] = ids->site;
	values[CTF_MEMBER_SITE] = record->call_site;
	values[CTF_MEMBER_PTR] = record->ptr;
	values[CTF_MEMBER_BYTES_REQ] = record->bytes_req;
	values[CTF_MEMBER_BYTES_ALLOC] = record->bytes_alloc;
	values[CTF_MEMBER_ORDER] = order_of(record->bytes_req);
	values[CTF_MEMBER_WIDE_ORDER] = order_above(record->bytes_alloc);
	values[CTF_MEMBER_CACHE] = record->cache;
	values[CTF_MEMBER_GFP_ID] = ids->gfp;
	values[CTF_MEMBER_GFP] = record->gfp_flags;
	values[CTF_MEMBER_NODE] = (uint64_t)(int64_t)record->node;
	values[CTF_MEMBER_EVENT] = record->event_id;
	values[CTF_MEMBER_TYPE] = record->type_id;
	values[CTF_MEMBER_TIMESTAMP] = (uint64_t)record->timestamp;
}

/* Whether the small forms can express how much memory of what cache the record is about. */
static bool amount_is_small(const struct kmem_record *r, unsigned int kind)
{
	if (kind == CTF_PAGE_ALLOC || kind == CTF_PAGE_FREE) {
		uint64_t order = order_of(r->bytes_req);

		return bit_fits(order, CTF_ORDER_BITS) && !r->cache &&
		       r->bytes_req == UINT64_C(1) << (order + ORDER_SHIFT) &&
		       r->bytes_alloc == r->bytes_req;
	}
	if (!bit_fits(r->cache, CTF_SMALL_CACHE_BITS))
		return false;
	if (is_allocation(kind))
		return bit_fits(r->bytes_req, CTF_SIZE_BITS) &&
		       bit_fits(r->bytes_alloc, CTF_SIZE_BITS);
	return !r->bytes_req && !r->bytes_alloc && (kind == CTF_CACHE_FREE || !r->cache);
}

static bool is_small(const struct kmem_record *r, const struct ctf_ids *ids, unsigned int kind)
{
	if (!ids->site || !bit_fits_signed(r->ptr, 57) || !amount_is_small(r, kind))
		return false;
	if (!is_allocation(kind))
		return !r->node && !r->gfp_flags;
	return (ids->gfp || !r->gfp_flags) &&
	       bit_fits_signed((uint64_t)(int64_t)r->node, CTF_NODE_BITS);
}

void ctf_event_from_record(const struct kmem_record *record, const struct ctf_ids *ids,
			   uint64_t clock, struct ctf_event *event)
{
	unsigned int kind = kind_of(record);
	bool la57 = !bit_fits_signed(record->ptr, 48);
	bool in_time = ctf_clock_holds(record->timestamp) && (uint64_t)record->timestamp >= clock;

	set_values(record, ids, event);
	event->clock = (uint64_t)record->timestamp;
	if (kind == CTF_NR_KINDS || !in_time) {
		event->id = CTF_RECORD;
		event->clock = clock;
	} else if (!is_small(record, ids, kind)) {
		event->id = CTF_WIDE + kind;
	} else if (is_allocation(kind) && record->node != -1) {
		event->id = (la57 ? CTF_NODE_LA57 : CTF_NODE) + kind;
	} else {
		event->id = (la57 ? CTF_LA57 : 0) + kind;
	}
}

bool ctf_event_is_record(const struct ctf_event *event)
{
	return event->id <= CTF_RECORD;
}

bool ctf_event_has(const struct ctf_event *event, enum ctf_member member)
{
	const struct ctf_field *field = ctf_event_classes[event->id].fields;

	while (field->name && field->member != member)
		field++;
	return field->name;
}

static unsigned int kind_of_event(const struct ctf_event *event)
{
	return event->id >= CTF_NODE_LA57 ? event->id - CTF_NODE_LA57 : event->id % CTF_NR_KINDS;
}

/* Set what only the small forms imply. */
static void set_implied(const struct ctf_event *event, unsigned int kind,
			struct kmem_record *record)
{
	if (ctf_event_has(event, CTF_MEMBER_ORDER)) {
		record->bytes_req = UINT64_C(1) << (event->values[CTF_MEMBER_ORDER] + ORDER_SHIFT);
		record->bytes_alloc = record->bytes_req;
	}
	if (is_allocation(kind) && !ctf_event_has(event, CTF_MEMBER_NODE))
		record->node = -1;
}

void ctf_event_to_record(const struct ctf_event *event, struct kmem_record *record)
{
	unsigned int kind = kind_of_event(event);
	const uint64_t *values = event->values;

	*record = (struct kmem_record){
		.event_id = is_allocation(kind) ? KMEM_EVENT_ALLOC : KMEM_EVENT_FREE,
		.type_id = (uint8_t)(kind % KMEM_TYPE_COUNT),
		.cache = (uint16_t)values[CTF_MEMBER_CACHE],
		.node = (int32_t)(int64_t)values[CTF_MEMBER_NODE],
		.call_site = values[CTF_MEMBER_SITE],
		.ptr = values[CTF_MEMBER_PTR],
		.bytes_req = values[CTF_MEMBER_BYTES_REQ],
		.bytes_alloc = values[CTF_MEMBER_BYTES_ALLOC],
		.gfp_flags = values[CTF_MEMBER_GFP],
		.timestamp = (int64_t)event->clock,
	};
	if (event->id != CTF_RECORD) {
		set_implied(event, kind, record);
		return;
	}
	record->event_id = (uint8_t)values[CTF_MEMBER_EVENT];
	record->type_id = (uint8_t)values[CTF_MEMBER_TYPE];
	record->timestamp = (int64_t)values[CTF_MEMBER_TIMESTAMP];
}
