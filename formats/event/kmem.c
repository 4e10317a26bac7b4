/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/kmem.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
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

const struct kmem_ids kmem_ids[KMEM_NR_CLASSES] = {
	[KMEM_CLASS_KMALLOC] = {KMEM_EVENT_ALLOC, KMEM_TYPE_KMALLOC},
	[KMEM_CLASS_CACHE_ALLOC] = {KMEM_EVENT_ALLOC, KMEM_TYPE_CACHE},
	[KMEM_CLASS_PAGE_ALLOC] = {KMEM_EVENT_ALLOC, KMEM_TYPE_PAGES},
	[KMEM_CLASS_KFREE] = {KMEM_EVENT_FREE, KMEM_TYPE_KMALLOC},
	[KMEM_CLASS_CACHE_FREE] = {KMEM_EVENT_FREE, KMEM_TYPE_CACHE},
	[KMEM_CLASS_PAGE_FREE] = {KMEM_EVENT_FREE, KMEM_TYPE_PAGES},
};

/* --- classes with tasks ---------------------------------------------------------------------- */

enum { ALL_FIELDS = EVENT_TASK_ALL | EVENT_TASK_STACK };

#define TASK_AT(member) offsetof(struct kmem_task_record, task.member)

static const struct event_task_places task_places = {
	.pid = TASK_AT(pid),
	.tgid = TASK_AT(tgid),
	.comm = TASK_AT(comm),
	.cgroup = TASK_AT(cgroup),
	.stack = offsetof(struct kmem_stack_record, stack),
};

static struct {
	struct event_class classes[KMEM_NR_CLASSES];
	struct event_field fields[KMEM_NR_CLASSES][EVENT_MAX_FIELDS];
} with_task[ALL_FIELDS + 1];

static void make_class(unsigned int fields, enum kmem_class number)
{
	struct event_class *class = &with_task[fields].classes[number];

	event_class_add_task(&kmem_classes[number], fields, &task_places,
			     with_task[fields].fields[number], class);
	class->size = fields & EVENT_TASK_STACK ? sizeof(struct kmem_stack_record)
						: sizeof(struct kmem_task_record);
	class->known = &kmem_classes[number];
}

static void make_classes(void)
{
	for (unsigned int fields = 1; fields <= ALL_FIELDS; fields++)
		for (enum kmem_class number = 0; number < KMEM_NR_CLASSES; number++)
			make_class(fields, number);
}

const struct event_class *kmem_classes_of(unsigned int fields)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!(fields & ALL_FIELDS))
		return kmem_classes;
	pthread_once(&once, make_classes);
	return with_task[fields & ALL_FIELDS].classes;
}

/* --- records --------------------------------------------------------------------------------- */

bool kmem_class_is_known(const struct event_class *class)
{
	return kmem_known_class(class);
}

static void print_more(const struct event_class *class, char *out, size_t size)
{
	const struct event_class *known = kmem_known_class(class);

	for (size_t i = 0; known && i < class->nr_fields; i++) {
		const char *name = class->fields[i].name;
		const size_t used = strlen(out);

		if (!event_field_find(known, name) && !strstr(out, name))
			snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
	}
}

void kmem_print_more_fields(const struct trace_instance *instance, char *out, size_t size)
{
	*out = '\0';
	for (size_t i = 0; i < instance->nr_classes; i++)
		print_more(&instance->classes[i], out, size);
}

static bool is_word(const char *at, size_t length, const char *word)
{
	return strlen(word) == length && !memcmp(at, word, length);
}

/* The bit of a word that is a type; 0: it is none. */
static unsigned int type_bit(const char *at, size_t length)
{
	for (unsigned int type = 0; type < KMEM_TYPE_COUNT; type++)
		if (is_word(at, length, kmem_type_names[type]))
			return 1u << type;
	return 0;
}

/* What is between the words of a spec. A trace has ? where the user wrote a tab. */
static const char between[] = " \t?,:";

/* Conditions are behind "if", or behind a word and "=". */
bool kmem_spec_has_condition(const char *spec)
{
	size_t length;

	if (strchr(strchrnul(spec, ':'), '='))
		return true;
	for (const char *at = spec; *(at += strspn(at, between)); at += length) {
		length = strcspn(at, between);
		if (is_word(at, length, "if"))
			return true;
	}
	return false;
}

unsigned int kmem_spec_types(const char *spec)
{
	const unsigned int all = (1u << KMEM_TYPE_COUNT) - 1;
	unsigned int types = 0;
	size_t length;

	for (const char *at = spec; *(at += strspn(at, between)); at += length) {
		length = strcspn(at, between);
		if (is_word(at, length, "if"))
			break;
		types |= type_bit(at, length);
	}
	return types ? types : all;
}

bool kmem_spec_is_whole(const char *spec)
{
	return !kmem_spec_has_condition(spec) &&
	       kmem_spec_types(spec) == (1u << KMEM_TYPE_COUNT) - 1;
}

bool kmem_has_events(const struct trace_instance *instance)
{
	for (size_t i = 0; i < instance->nr_classes; i++)
		if (kmem_class_is_known(&instance->classes[i]))
			return true;
	return false;
}

bool kmem_has_chains(const struct trace_instance *instance)
{
	for (size_t i = 0; i < instance->nr_classes; i++)
		if (kmem_class_is_known(&instance->classes[i]) &&
		    event_field_chain(&instance->classes[i]))
			return true;
	return false;
}

bool kmem_class_is_alloc(const struct event_class *class)
{
	const struct event_class *known = kmem_known_class(class);

	return known && known < kmem_classes + KMEM_CLASS_KFREE;
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
