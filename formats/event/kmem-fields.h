/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EVENT_KMEM_FIELDS_H
#define SONDE_FORMATS_EVENT_KMEM_FIELDS_H

#include "formats/event/kmem.h"

/*
 * The fields of kmem_classes, for those whose code the compiler is to make from them. All others
 * use kmem_classes.
 */
#define FIELD(name_, type_, member, ...)                                                         \
	{                                                                                        \
		.name = name_, .type = type_, .size = sizeof(((struct kmem_record *)0)->member), \
		.at = offsetof(struct kmem_record, member), .bits = {__VA_ARGS__},               \
		.implied = type_ == EVENT_INT ? -1 : 0                                           \
	}

/*
 * Allocations have small forms with pointers of 48 and 57 bits (4- and 5-level paging), without and
 * with a NUMA node; frees have those without a node. The wide form comes last.
 */
#define ALLOC_SITE FIELD("call_site", EVENT_CODE, call_site, 13, 13, 13, 13, 64)
#define ALLOC_PTR FIELD("ptr", EVENT_POINTER, ptr, 48, 57, 48, 57, 64)
#define REQUESTED FIELD("bytes_req", EVENT_UINT, bytes_req, 13, 13, 13, 13, 64)
#define ALLOCATED FIELD("bytes_alloc", EVENT_UINT, bytes_alloc, 13, 13, 13, 13, 64)
#define CACHE FIELD("cache", EVENT_DICTIONARY, cache, 9, 9, 9, 9, 16)
#define PAGES FIELD("bytes_req", EVENT_PAGES, bytes_req, 3, 3, 3, 3, 64)
#define GFP FIELD("gfp_flags", EVENT_FLAGS, gfp_flags, 8, 8, 8, 8, 64)
#define NODE FIELD("node", EVENT_INT, node, 0, 0, 8, 8, 32)

#define FREE_SITE FIELD("call_site", EVENT_CODE, call_site, 13, 13, 64)
#define FREE_PTR FIELD("ptr", EVENT_POINTER, ptr, 48, 57, 64)
#define FREE_CACHE FIELD("cache", EVENT_DICTIONARY, cache, 9, 9, 16)
#define FREE_PAGES FIELD("bytes_req", EVENT_PAGES, bytes_req, 3, 3, 64)

/* A record that is not legal, or has what its kind does not have. */
#define WHOLE(name, type, member) \
	FIELD(name, type, member, 8 * sizeof(((struct kmem_record *)0)->member))

static const struct event_field kmem_alloc_fields[] = {ALLOC_SITE, ALLOC_PTR, REQUESTED, ALLOCATED,
						  CACHE,      GFP,       NODE};
static const struct event_field kmem_page_alloc_fields[] = {ALLOC_SITE, ALLOC_PTR, PAGES, GFP, NODE};
static const struct event_field kmem_free_fields[] = {FREE_SITE, FREE_PTR};
static const struct event_field kmem_cache_free_fields[] = {FREE_SITE, FREE_PTR, FREE_CACHE};
static const struct event_field kmem_page_free_fields[] = {FREE_SITE, FREE_PTR, FREE_PAGES};
static const struct event_field kmem_record_fields[] = {WHOLE("event_id", EVENT_UINT, event_id),
						   WHOLE("type_id", EVENT_UINT, type_id),
						   WHOLE("call_site", EVENT_CODE, call_site),
						   WHOLE("ptr", EVENT_POINTER, ptr),
						   WHOLE("bytes_req", EVENT_UINT, bytes_req),
						   WHOLE("bytes_alloc", EVENT_UINT, bytes_alloc),
						   WHOLE("cache", EVENT_DICTIONARY, cache),
						   WHOLE("gfp_flags", EVENT_FLAGS, gfp_flags),
						   WHOLE("node", EVENT_INT, node)};

enum { KMEM_ALLOC_FORMS = 5, KMEM_FREE_FORMS = 3 };

#undef FIELD
#undef ALLOC_SITE
#undef ALLOC_PTR
#undef REQUESTED
#undef ALLOCATED
#undef CACHE
#undef PAGES
#undef GFP
#undef NODE
#undef FREE_SITE
#undef FREE_PTR
#undef FREE_CACHE
#undef FREE_PAGES
#undef WHOLE

#endif
