/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/ctf/ctf.h"

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
