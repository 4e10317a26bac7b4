/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/v2.h"

/* --- the table ------------------------------------------------------------------------------- */

/* clang-format off */
#define SITE		{"call_site", V2_MEMBER_SITE_ID, V2_SITE_BITS, V2_DECIMAL, "call_site"}
#define PTR		{"ptr", V2_MEMBER_PTR, 48, V2_SIGNED_HEX, NULL}
#define PTR_LA57	{"ptr", V2_MEMBER_PTR, 57, V2_SIGNED_HEX, NULL}
#define GFP		{"gfp_flags", V2_MEMBER_GFP_ID, V2_GFP_BITS, V2_DECIMAL, "gfp_flags"}
#define ORDER		{"order", V2_MEMBER_ORDER, V2_ORDER_BITS, V2_DECIMAL, NULL}
#define CACHE		{"cache", V2_MEMBER_CACHE, V2_SMALL_CACHE_BITS, V2_DECIMAL, "cache"}
#define NODE		{"node", V2_MEMBER_NODE, V2_NODE_BITS, V2_SIGNED, NULL}
#define REQ		{"bytes_req", V2_MEMBER_BYTES_REQ, V2_SIZE_BITS, V2_DECIMAL, NULL}
#define ALLOC		{"bytes_alloc", V2_MEMBER_BYTES_ALLOC, V2_SIZE_BITS, V2_DECIMAL, NULL}

#define WIDE_SITE	{"call_site", V2_MEMBER_SITE, 64, V2_HEX, NULL}
#define WIDE_PTR	{"ptr", V2_MEMBER_PTR, 64, V2_HEX, NULL}
#define WIDE_REQ	{"bytes_req", V2_MEMBER_BYTES_REQ, 64, V2_DECIMAL, NULL}
#define WIDE_ALLOC	{"bytes_alloc", V2_MEMBER_BYTES_ALLOC, 64, V2_DECIMAL, NULL}
#define WIDE_CACHE	{"cache", V2_MEMBER_CACHE, 16, V2_DECIMAL, "cache16"}
#define WIDE_GFP	{"gfp_flags", V2_MEMBER_GFP, 64, V2_HEX, NULL}
#define WIDE_NODE	{"node", V2_MEMBER_NODE, 32, V2_SIGNED, NULL}
#define WIDE_ORDER	{"order", V2_MEMBER_WIDE_ORDER, 8, V2_DECIMAL, NULL}
#define WIDE		WIDE_SITE, WIDE_PTR, WIDE_REQ, WIDE_ALLOC, WIDE_CACHE, WIDE_GFP, WIDE_NODE

const struct v2_event_class v2_event_classes[V2_NR_EVENTS] = {
	[V2_KMALLOC] = {"kmalloc", {SITE, PTR, REQ, ALLOC, CACHE, GFP}},
	[V2_CACHE_ALLOC] = {"kmem_cache_alloc", {SITE, PTR, REQ, ALLOC, CACHE, GFP}},
	[V2_PAGE_ALLOC] = {"mm_page_alloc", {SITE, PTR, ORDER, GFP}},
	[V2_KFREE] = {"kfree", {SITE, PTR}},
	[V2_CACHE_FREE] = {"kmem_cache_free", {SITE, PTR, CACHE}},
	[V2_PAGE_FREE] = {"mm_page_free", {SITE, PTR, ORDER}},

	[V2_LA57 + V2_KMALLOC] = {"kmalloc", {SITE, PTR_LA57, REQ, ALLOC, CACHE, GFP}},
	[V2_LA57 + V2_CACHE_ALLOC] = {"kmem_cache_alloc",
					{SITE, PTR_LA57, REQ, ALLOC, CACHE, GFP}},
	[V2_LA57 + V2_PAGE_ALLOC] = {"mm_page_alloc", {SITE, PTR_LA57, ORDER, GFP}},
	[V2_LA57 + V2_KFREE] = {"kfree", {SITE, PTR_LA57}},
	[V2_LA57 + V2_CACHE_FREE] = {"kmem_cache_free", {SITE, PTR_LA57, CACHE}},
	[V2_LA57 + V2_PAGE_FREE] = {"mm_page_free", {SITE, PTR_LA57, ORDER}},

	[V2_WIDE + V2_KMALLOC] = {"kmalloc", {WIDE}},
	[V2_WIDE + V2_CACHE_ALLOC] = {"kmem_cache_alloc", {WIDE}},
	[V2_WIDE + V2_PAGE_ALLOC] = {"mm_page_alloc", {WIDE, WIDE_ORDER}},
	[V2_WIDE + V2_KFREE] = {"kfree", {WIDE}},
	[V2_WIDE + V2_CACHE_FREE] = {"kmem_cache_free", {WIDE}},
	[V2_WIDE + V2_PAGE_FREE] = {"mm_page_free", {WIDE, WIDE_ORDER}},

	[V2_NODE + V2_KMALLOC] = {"kmalloc", {SITE, PTR, REQ, ALLOC, CACHE, GFP, NODE}},
	[V2_NODE + V2_CACHE_ALLOC] = {"kmem_cache_alloc",
					{SITE, PTR, REQ, ALLOC, CACHE, GFP, NODE}},
	[V2_NODE + V2_PAGE_ALLOC] = {"mm_page_alloc", {SITE, PTR, ORDER, GFP, NODE}},
	[V2_NODE_LA57 + V2_KMALLOC] = {"kmalloc",
					 {SITE, PTR_LA57, REQ, ALLOC, CACHE, GFP, NODE}},
	[V2_NODE_LA57 + V2_CACHE_ALLOC] = {"kmem_cache_alloc",
					     {SITE, PTR_LA57, REQ, ALLOC, CACHE, GFP, NODE}},
	[V2_NODE_LA57 + V2_PAGE_ALLOC] = {"mm_page_alloc",
					    {SITE, PTR_LA57, ORDER, GFP, NODE}},

	[V2_RECORD] = {"sonde_record",
			{{"event_id", V2_MEMBER_EVENT, 8, V2_DECIMAL, "event_id"},
			 {"type_id", V2_MEMBER_TYPE, 8, V2_DECIMAL, "type_id"},
			 WIDE,
			 {"timestamp", V2_MEMBER_TIMESTAMP, 64, V2_SIGNED, NULL}}},
	[V2_DEFINE_SITE] = {"sonde_call_site",
			     {SITE, {"address", V2_MEMBER_SITE, 64, V2_HEX, NULL}}},
	[V2_DEFINE_CACHE] = {"sonde_cache",
			      {WIDE_CACHE,
			       {"object_size", V2_MEMBER_OBJECT_SIZE, 64, V2_DECIMAL, NULL},
			       {"size", V2_MEMBER_SIZE, 64, V2_DECIMAL, NULL},
			       {"name", V2_MEMBER_NAME, 0, V2_DECIMAL, NULL}}},
	[V2_DEFINE_GFP] = {"sonde_gfp_flags", {GFP, {"value", V2_MEMBER_GFP, 64, V2_HEX, NULL}}},
};

/* --- records as events ----------------------------------------------------------------------- */

/* The small forms' `order` counts 4 KiB shifted by it, whatever the guest's page size. */
enum { ORDER_SHIFT = 12 };

static bool is_allocation(unsigned int kind)
{
	return kind < V2_KFREE;
}

bool v2_event_is_record(const struct v2_event *event)
{
	return event->id <= V2_RECORD;
}

bool v2_event_has(const struct v2_event *event, enum v2_member member)
{
	const struct v2_field *field = v2_event_classes[event->id].fields;

	while (field->name && field->member != member)
		field++;
	return field->name;
}

static unsigned int kind_of_event(const struct v2_event *event)
{
	return event->id >= V2_NODE_LA57 ? event->id - V2_NODE_LA57 : event->id % V2_NR_KINDS;
}

/* Set what only the small forms imply. */
static void set_implied(const struct v2_event *event, unsigned int kind,
			struct kmem_record *record)
{
	if (v2_event_has(event, V2_MEMBER_ORDER)) {
		record->bytes_req = UINT64_C(1) << (event->values[V2_MEMBER_ORDER] + ORDER_SHIFT);
		record->bytes_alloc = record->bytes_req;
	}
	if (is_allocation(kind) && !v2_event_has(event, V2_MEMBER_NODE))
		record->node = -1;
}

void v2_event_to_record(const struct v2_event *event, struct kmem_record *record)
{
	unsigned int kind = kind_of_event(event);
	const uint64_t *values = event->values;

	*record = (struct kmem_record){
		.event_id = is_allocation(kind) ? KMEM_EVENT_ALLOC : KMEM_EVENT_FREE,
		.type_id = (uint8_t)(kind % KMEM_TYPE_COUNT),
		.cache = (uint16_t)values[V2_MEMBER_CACHE],
		.node = (int32_t)(int64_t)values[V2_MEMBER_NODE],
		.call_site = values[V2_MEMBER_SITE],
		.ptr = values[V2_MEMBER_PTR],
		.bytes_req = values[V2_MEMBER_BYTES_REQ],
		.bytes_alloc = values[V2_MEMBER_BYTES_ALLOC],
		.gfp_flags = values[V2_MEMBER_GFP],
		.timestamp = (int64_t)event->clock,
	};
	if (event->id != V2_RECORD) {
		set_implied(event, kind, record);
		return;
	}
	record->event_id = (uint8_t)values[V2_MEMBER_EVENT];
	record->type_id = (uint8_t)values[V2_MEMBER_TYPE];
	record->timestamp = (int64_t)values[V2_MEMBER_TIMESTAMP];
}
