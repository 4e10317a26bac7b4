/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/kmem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static const struct event_field alloc_fields[] = {ALLOC_SITE, ALLOC_PTR, REQUESTED, ALLOCATED,
						  CACHE,      GFP,       NODE};
static const struct event_field page_alloc_fields[] = {ALLOC_SITE, ALLOC_PTR, PAGES, GFP, NODE};
static const struct event_field free_fields[] = {FREE_SITE, FREE_PTR};
static const struct event_field cache_free_fields[] = {FREE_SITE, FREE_PTR, FREE_CACHE};
static const struct event_field page_free_fields[] = {FREE_SITE, FREE_PTR, FREE_PAGES};
static const struct event_field record_fields[] = {WHOLE("event_id", EVENT_UINT, event_id),
						   WHOLE("type_id", EVENT_UINT, type_id),
						   WHOLE("call_site", EVENT_CODE, call_site),
						   WHOLE("ptr", EVENT_POINTER, ptr),
						   WHOLE("bytes_req", EVENT_UINT, bytes_req),
						   WHOLE("bytes_alloc", EVENT_UINT, bytes_alloc),
						   WHOLE("cache", EVENT_DICTIONARY, cache),
						   WHOLE("gfp_flags", EVENT_FLAGS, gfp_flags),
						   WHOLE("node", EVENT_INT, node)};

#define CLASS(name_, fields_, forms)                                                    \
	{                                                                               \
		.system = "kmem", .name = name_, .fields = fields_,                     \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = forms, \
		.size = sizeof(struct kmem_record)                                      \
	}

enum { ALLOC_FORMS = 5, FREE_FORMS = 3 };

const struct event_class kmem_classes[KMEM_NR_CLASSES] = {
	[KMEM_CLASS_KMALLOC] = CLASS("kmalloc", alloc_fields, ALLOC_FORMS),
	[KMEM_CLASS_CACHE_ALLOC] = CLASS("kmem_cache_alloc", alloc_fields, ALLOC_FORMS),
	[KMEM_CLASS_PAGE_ALLOC] = CLASS("mm_page_alloc", page_alloc_fields, ALLOC_FORMS),
	[KMEM_CLASS_KFREE] = CLASS("kfree", free_fields, FREE_FORMS),
	[KMEM_CLASS_CACHE_FREE] = CLASS("kmem_cache_free", cache_free_fields, FREE_FORMS),
	[KMEM_CLASS_PAGE_FREE] = CLASS("mm_page_free", page_free_fields, FREE_FORMS),
	[KMEM_CLASS_OTHER] = CLASS("sonde_record", record_fields, 1),
};

/* Whether the class of its ids describes all of a legal record. */
static bool is_described(const struct kmem_record *r)
{
	bool is_pages = r->type_id == KMEM_TYPE_PAGES;

	if (is_pages && (r->cache || r->bytes_req != r->bytes_alloc))
		return false;
	if (r->event_id == KMEM_EVENT_ALLOC)
		return true;
	return !r->node && !r->gfp_flags && (is_pages || (!r->bytes_req && !r->bytes_alloc)) &&
	       (r->type_id == KMEM_TYPE_CACHE || !r->cache);
}

enum kmem_class kmem_class_of(const struct kmem_record *record)
{
	if (!kmem_record_is_legal(record) || !is_described(record))
		return KMEM_CLASS_OTHER;
	return (record->event_id == KMEM_EVENT_ALLOC ? KMEM_CLASS_KMALLOC : KMEM_CLASS_KFREE) +
	       record->type_id;
}

/* The class of this program that an event's class is, or is like; NULL if it is not of kmem. */
static const struct event_class *known_class(const struct event_class *class)
{
	if (class->known)
		class = class->known;
	return class >= kmem_classes && class < kmem_classes + KMEM_NR_CLASSES ? class : NULL;
}

bool kmem_class_is_known(const struct event_class *class)
{
	return known_class(class);
}

bool kmem_record_of(const struct event *event, struct kmem_record *out)
{
	const struct event_class *class = known_class(event->class);
	unsigned int number;

	if (!class)
		return false;
	memcpy(out, event->bytes, sizeof(*out));
	out->timestamp = event->ns;
	number = (unsigned int)(class - kmem_classes);
	if (number == KMEM_CLASS_OTHER)
		return true;
	out->event_id = number < KMEM_CLASS_KFREE ? KMEM_EVENT_ALLOC : KMEM_EVENT_FREE;
	out->type_id = (uint8_t)(number % KMEM_TYPE_COUNT);
	if (out->type_id == KMEM_TYPE_PAGES)
		out->bytes_alloc = out->bytes_req;
	return true;
}

struct event kmem_event_of(const struct kmem_record *record, const struct trace_instance *instance)
{
	return (struct event){.class = &kmem_classes[kmem_class_of(record)],
			      .instance = instance,
			      .ns = record->timestamp,
			      .bytes = record};
}

const struct trace_instance kmem_instance = {.name = "kmem",
					     .spec = "kmem",
					     .classes = kmem_classes,
					     .nr_classes = KMEM_NR_CLASSES,
					     .suffix = ""};

int gfp_name_mask(const struct gfp_name *names, size_t nr_names, const char *name, uint64_t *mask)
{
	for (size_t i = 0; i < nr_names; i++) {
		if (!strcmp(names[i].name, name)) {
			*mask = names[i].mask;
			return 0;
		}
	}
	return -ENOENT;
}
