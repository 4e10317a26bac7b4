/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/kmem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "formats/event/kmem-fields.h"

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

#define CLASS(name_, fields_, forms)                                                    \
	{                                                                               \
		.system = "kmem", .name = name_, .fields = fields_,                     \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = forms, \
		.size = sizeof(struct kmem_record)                                      \
	}

const struct event_class kmem_classes[KMEM_NR_CLASSES] = {
	[KMEM_CLASS_KMALLOC] = CLASS("kmalloc", kmem_alloc_fields, KMEM_ALLOC_FORMS),
	[KMEM_CLASS_CACHE_ALLOC] = CLASS("kmem_cache_alloc", kmem_alloc_fields, KMEM_ALLOC_FORMS),
	[KMEM_CLASS_PAGE_ALLOC] = CLASS("mm_page_alloc", kmem_page_alloc_fields, KMEM_ALLOC_FORMS),
	[KMEM_CLASS_KFREE] = CLASS("kfree", kmem_free_fields, KMEM_FREE_FORMS),
	[KMEM_CLASS_CACHE_FREE] = CLASS("kmem_cache_free", kmem_cache_free_fields, KMEM_FREE_FORMS),
	[KMEM_CLASS_PAGE_FREE] = CLASS("mm_page_free", kmem_page_free_fields, KMEM_FREE_FORMS),
	[KMEM_CLASS_OTHER] = CLASS("sonde_record", kmem_record_fields, 1),
};

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
