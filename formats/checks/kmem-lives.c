/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lives of objects: each address is allocated, then freed, then perhaps allocated again. */
#include <errno.h>
#include <stdlib.h>
#include "formats/checks/check.h"
#include "formats/base/u64-map.h"

enum class { ALLOC_LIVE, FREE_TWICE, FREE_UNKNOWN, FAMILY, FREE_EARLIER };

static const struct check_class classes[] = {
	[ALLOC_LIVE] = {"alloc-live", "allocation of an address that is live", NULL},
	[FREE_TWICE] = {"free-twice", "free of an address that is free already", NULL},
	[FREE_UNKNOWN] = {"free-unknown", "free of an address that was never allocated", NULL},
	[FAMILY] = {"family", "freed by another family than it was allocated from", NULL},
	[FREE_EARLIER] = {"free-earlier", "free of memory allocated before tracing began", NULL},
	{NULL, NULL, NULL},
};

enum {
	FREED_SLOTS = 1 << 16,
	PAGE_SIZE = 4096,
	MAX_BLOCK_PAGES = 1024, /* of the page allocator: order 10 */
};

struct live_object {
	uint64_t call_site;
	uint8_t type;
};

/*
 * Slab objects, or page blocks: those that are live, and those that were freed last. The latter
 * are in a table of fixed size, in which an address has one slot.
 */
struct address_space {
	struct u64_map live;
	uint64_t freed[FREED_SLOTS];
};

/* Of one instance: another one sees the same objects again, or others. */
struct instance_lives {
	const struct trace_instance *instance;
	struct address_space slab, pages;
};

struct lives {
	struct check base;
	struct instance_lives *instances[TRACE_INSTANCES_MAX];
	struct instance_lives *at; /* of the current event */
};

static void destroy_instance(struct instance_lives *instance)
{
	u64_map_deinit(&instance->slab.live);
	u64_map_deinit(&instance->pages.live);
	free(instance);
}

static struct instance_lives *create_instance(const struct trace_instance *about)
{
	struct instance_lives *instance = calloc(1, sizeof(*instance));

	if (!instance)
		return NULL;
	instance->instance = about;
	u64_map_init(&instance->slab.live, sizeof(struct live_object));
	u64_map_init(&instance->pages.live, sizeof(struct live_object));
	return instance;
}

/* NULL: no memory. */
static struct instance_lives *find_instance(struct lives *lives, const struct trace_instance *about)
{
	size_t i = 0;

	if (lives->at && lives->at->instance == about)
		return lives->at;
	while (i + 1 < TRACE_INSTANCES_MAX && lives->instances[i] &&
	       lives->instances[i]->instance != about)
		i++;
	if (!lives->instances[i])
		lives->instances[i] = create_instance(about);
	return lives->instances[i];
}

static uint64_t *freed_slot(struct address_space *space, uint64_t ptr)
{
	return &space->freed[(ptr * 0x9e3779b97f4a7c15) >> 48];
}

static void forget_freed(struct address_space *space, uint64_t ptr)
{
	uint64_t *slot = freed_slot(space, ptr);

	if (*slot == ptr)
		*slot = 0;
}

/* The guest may split a block of pages and free it in pieces. Each piece is freed once. */
static void forget_freed_pages(struct address_space *space, const struct kmem_record *record)
{
	for (uint64_t i = 0; i < MAX_BLOCK_PAGES && i * PAGE_SIZE < record->bytes_alloc; i++)
		forget_freed(space, record->ptr + i * PAGE_SIZE);
}

static int check_alloc(struct lives *lives, const struct check_event *event)
{
	const struct kmem_record *record = &event->record;
	bool is_pages = record->type_id == KMEM_TYPE_PAGES;
	struct address_space *space = is_pages ? &lives->at->pages : &lives->at->slab;
	struct live_object *object;
	bool is_new;

	object = u64_map_insert(&space->live, record->ptr, &is_new);
	if (!object)
		return -ENOMEM;
	if (!is_new)
		check_doubt(&lives->base, ALLOC_LIVE, event, &object->call_site);
	*object = (struct live_object){record->call_site, record->type_id};
	if (is_pages)
		forget_freed_pages(space, record);
	return 0;
}

static void check_family(struct lives *lives, const struct check_event *event,
			 const struct live_object *object)
{
	if (object->type == event->record.type_id)
		return;
	/* Linux has allowed kfree() of any slab object since 6.4. */
	if (object->type == KMEM_TYPE_CACHE && event->record.type_id == KMEM_TYPE_KMALLOC)
		check_note(&lives->base, FAMILY, event, &object->call_site);
	else
		check_doubt(&lives->base, FAMILY, event, &object->call_site);
}

static void free_of_unknown(struct lives *lives, const struct check_event *event,
			    struct address_space *space)
{
	uint64_t ptr = event->record.ptr;
	bool is_pages = space == &lives->at->pages;
	const struct live_object *block =
		is_pages ? NULL : u64_map_find(&lives->at->pages.live, ptr);

	if (block)
		check_family(lives, event, block);
	else if (is_pages && *freed_slot(space, ptr) == ptr)
		/* Compaction takes free pages without an event, and moves memory there. */
		check_note(&lives->base, FREE_TWICE, event, NULL);
	else if (*freed_slot(space, ptr) == ptr)
		check_doubt(&lives->base, FREE_TWICE, event, NULL);
	else if (is_pages || !lives->base.context->from_first)
		/* The page allocator gets its first pages from memblock, by freeing them. */
		check_note(&lives->base, FREE_EARLIER, event, NULL);
	else
		check_doubt(&lives->base, FREE_UNKNOWN, event, NULL);
}

static void check_free(struct lives *lives, const struct check_event *event)
{
	const struct kmem_record *record = &event->record;
	struct address_space *space =
		record->type_id == KMEM_TYPE_PAGES ? &lives->at->pages : &lives->at->slab;
	const struct live_object *object = u64_map_find(&space->live, record->ptr);

	if (!object) {
		free_of_unknown(lives, event, space);
		return;
	}
	check_family(lives, event, object);
	u64_map_remove(&space->live, record->ptr);
	*freed_slot(space, record->ptr) = record->ptr;
}

static int event(struct check *base, const struct check_event *event)
{
	struct lives *lives = (struct lives *)base;

	if (!event->is_record || !kmem_record_is_legal(&event->record) || !event->record.ptr)
		return 0;
	lives->at = find_instance(lives, event->at.instance);
	if (!lives->at)
		return -ENOMEM;
	if (event->record.event_id == KMEM_EVENT_ALLOC)
		return check_alloc(lives, event);
	check_free(lives, event);
	return 0;
}

static void deinit(struct check *base)
{
	struct lives *lives = (struct lives *)base;

	for (size_t i = 0; i < TRACE_INSTANCES_MAX && lives->instances[i]; i++)
		destroy_instance(lives->instances[i]);
}

const struct check_ops check_kmem_lives = {
	.classes = classes, .size = sizeof(struct lives), .event = event, .deinit = deinit};
