/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/kmem.h"

#include <inttypes.h>
#include <stdio.h>

const char *const kmem_type_names[] = {[KMEM_TYPE_KMALLOC] = "kmalloc",
				       [KMEM_TYPE_CACHE] = "cache",
				       [KMEM_TYPE_PAGES] = "pages",
				       [KMEM_TYPE_COUNT] = NULL};

const char *kmem_type_name(unsigned int type)
{
	return type < KMEM_TYPE_COUNT ? kmem_type_names[type] : "?";
}

static size_t add(char *out, size_t size, size_t used, const char *text)
{
	int n;

	if (used >= size)
		return used;
	n = snprintf(out + used, size - used, "%s%s", used ? "|" : "", text);
	return n < 0 ? size : used + (size_t)n;
}

void gfp_flags_text(const struct gfp_name *names, size_t nr_names, uint64_t flags, char *out,
		    size_t size)
{
	char rest[24];
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < nr_names; i++) {
		const struct gfp_name *name = &names[i];

		if (!name->mask || (flags & name->mask) != name->mask)
			continue;
		used = add(out, size, used, name->name);
		flags &= ~name->mask;
	}
	snprintf(rest, sizeof(rest), "0x%" PRIx64, flags);
	if (flags)
		add(out, size, used, rest);
	else if (!used)
		add(out, size, used, "none");
}

/* --- event classes --------------------------------------------------------------------------- */

#define FIELD(name, type, member)                                      \
	{                                                              \
		name, type, sizeof(((struct kmem_record *)0)->member), \
			offsetof(struct kmem_record, member)           \
	}
#define CALL_SITE FIELD("call_site", EVENT_CODE, call_site)
#define PTR FIELD("ptr", EVENT_POINTER, ptr)
#define REQUESTED FIELD("bytes_req", EVENT_UINT, bytes_req)
#define ALLOCATED FIELD("bytes_alloc", EVENT_UINT, bytes_alloc)
#define CACHE FIELD("cache", EVENT_DICTIONARY, cache)
#define GFP FIELD("gfp_flags", EVENT_FLAGS, gfp_flags)
#define NODE FIELD("node", EVENT_INT, node)

static const struct event_field alloc_fields[] = {CALL_SITE, PTR, REQUESTED, ALLOCATED,
						  CACHE,     GFP, NODE};
static const struct event_field page_alloc_fields[] = {CALL_SITE, PTR, REQUESTED, GFP, NODE};
static const struct event_field free_fields[] = {CALL_SITE, PTR};
static const struct event_field cache_free_fields[] = {CALL_SITE, PTR, CACHE};
static const struct event_field page_free_fields[] = {CALL_SITE, PTR, REQUESTED};
static const struct event_field record_fields[] = {FIELD("event_id", EVENT_UINT, event_id),
						   FIELD("type_id", EVENT_UINT, type_id),
						   CALL_SITE,
						   PTR,
						   REQUESTED,
						   ALLOCATED,
						   CACHE,
						   GFP,
						   NODE};

#define CLASS(name, fields)                                                \
	{                                                                  \
		"kmem", name, fields, sizeof(fields) / sizeof((fields)[0]) \
	}

enum { FREES = KMEM_TYPE_COUNT, OTHER = 2 * KMEM_TYPE_COUNT };

const struct event_class kmem_classes[] = {
	[KMEM_TYPE_KMALLOC] = CLASS("kmalloc", alloc_fields),
	[KMEM_TYPE_CACHE] = CLASS("kmem_cache_alloc", alloc_fields),
	[KMEM_TYPE_PAGES] = CLASS("mm_page_alloc", page_alloc_fields),
	[FREES + KMEM_TYPE_KMALLOC] = CLASS("kfree", free_fields),
	[FREES + KMEM_TYPE_CACHE] = CLASS("kmem_cache_free", cache_free_fields),
	[FREES + KMEM_TYPE_PAGES] = CLASS("mm_page_free", page_free_fields),
	[OTHER] = CLASS("sonde_record", record_fields),
};
const size_t nr_kmem_classes = sizeof(kmem_classes) / sizeof(kmem_classes[0]);

const struct event_class *kmem_class_of(const struct kmem_record *record)
{
	if (record->type_id >= KMEM_TYPE_COUNT)
		return &kmem_classes[OTHER];
	if (record->event_id == KMEM_EVENT_ALLOC)
		return &kmem_classes[record->type_id];
	return &kmem_classes[record->event_id == KMEM_EVENT_FREE ? FREES + record->type_id : OTHER];
}
