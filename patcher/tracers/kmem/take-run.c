/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is frequent: single allocations that have returned at once, and single frees, while no call
 * is open on their stack. Their records go straight to those of the vCPU. What is unusual in any
 * way is left to alloc.c and free.c, before it has had any effect.
 */
#include <string.h>
#include "patcher/ring/ring.h"
#include "patcher/tracers/kmem/cache-ids.h"
#include "patcher/tracers/kmem/kmem.h"

/* --- plans ------------------------------------------------------------------------------------ */

static uint8_t number_of(const struct record_layout *layout, enum record_field field)
{
	if (!layout->offset[field])
		return 0;
	return (uint8_t)((layout->offset[field] - sizeof(struct ring_record)) / sizeof(uint64_t));
}

/* Whether kmem_class_of() of all its records is the same. */
static bool is_of_one_class(const struct alloc_entry *entry)
{
	return entry->type == KMEM_TYPE_CACHE || entry->action == ALLOC_ACTION_ALLOC ||
	       !entry->argument[ALLOC_ROLE_CACHE];
}

static bool is_single(const struct alloc_entry *entry)
{
	return entry->action == ALLOC_ACTION_ALLOC || entry->action == ALLOC_ACTION_FREE;
}

static bool lacks_caches(const struct kmem_tracer *t, const struct alloc_entry *entry)
{
	return entry->type == KMEM_TYPE_KMALLOC &&
	       (slab_missing(t->slab, SLAB_CACHES) || slab_missing(t->slab, SLAB_OBJECTS));
}

bool kmem_plan_make(const struct kmem_tracer *t, const struct probe *probe, struct kmem_plan *plan)
{
	const struct alloc_entry *entry = probe->data;
	struct record_layout layout;

	if (t->task.fields & EVENT_TASK_STACK || !is_single(entry) || !is_of_one_class(entry) ||
	    lacks_caches(t, entry) || record_layout(&probe->entry, &layout, NULL) || layout.items)
		return false;
	*plan = (struct kmem_plan){
		.entry = entry,
		.type = (uint8_t)entry->type,
		.class =
			(probe->wants_return ? KMEM_CLASS_KMALLOC : KMEM_CLASS_KFREE) + entry->type,
		.called_from = number_of(&layout, FIELD_CALL_SITE),
		.stack = number_of(&layout, FIELD_STACK),
		.stack_words = probe->entry.stack_words,
		.pid = number_of(&layout, FIELD_PID),
		.tgid = number_of(&layout, FIELD_TGID),
		.comm = number_of(&layout, FIELD_COMM),
		.cgroup = number_of(&layout, FIELD_CGROUP),
		.finds_cache = probe->ret.fields & CAPTURE(FIELD_SLAB_CACHE),
	};
	for (int role = 0; role < ALLOC_NR_ROLES; role++)
		if (entry->argument[role])
			plan->word[role] =
				number_of(&layout, FIELD_ARG0 + entry->argument[role] - 1);
	plan->site =
		plan->word[ALLOC_ROLE_CALLER] ? plan->word[ALLOC_ROLE_CALLER] : plan->called_from;
	return true;
}

/* --- words of records, which are read once ---------------------------------------------------- */

static inline uint64_t word(const uint64_t *words, uint8_t number)
{
	return __atomic_load_n(&words[number], __ATOMIC_RELAXED);
}

static inline uint64_t word_or(const uint64_t *words, uint8_t number, uint64_t otherwise)
{
	return number ? word(words, number) : otherwise;
}

/* --- records ---------------------------------------------------------------------------------- */

/* One of a run, and what it is taken with. */
struct taking {
	const struct kmem_tracer *t;
	const struct kmem_plan *plan;
	const struct probe_run *run;
	const struct probe_cpu *cpu;
	const struct ring_taken *taken;
};

/* All that it needs stays in registers where tasks are not recorded. */
__attribute__((noinline)) static void set_task(const struct kmem_plan *plan, const uint64_t *words,
					       struct event_task *task)
{
	*task = (struct event_task){
		.pid = (uint32_t)word_or(words, plan->pid, 0),
		.tgid = (uint32_t)word_or(words, plan->tgid, 0),
		.cgroup = word_or(words, plan->cgroup, 0),
	};
	for (uint8_t i = 0; plan->comm && i < CAPTURE_COMM_SIZE / 8; i++) {
		const uint64_t part = word(words, (uint8_t)(plan->comm + i));

		memcpy(task->comm + i * sizeof(part), &part, sizeof(part));
	}
}

static inline struct kmem_record *next_record(const struct taking *k)
{
	struct kmem_task_record *next = kmem_pending_next(k->t, k->cpu->vcpu, k->plan->class);

	next->record.timestamp = (int64_t)tsc_quick_ns(&k->cpu->clock, k->taken->tsc);
	if (k->t->task.fields)
		set_task(k->plan, k->taken->fields, &next->task);
	return &next->record;
}

static inline void set_ids(const struct taking *k, enum kmem_event_id event,
			   struct kmem_record *record)
{
	record->event_id = (uint8_t)event;
	record->type_id = k->plan->type;
}

static inline void set_request(const struct taking *k, uint64_t site, struct kmem_record *record)
{
	const uint64_t *words = k->taken->fields;

	set_ids(k, KMEM_EVENT_ALLOC, record);
	record->node = (int32_t)word_or(words, k->plan->word[ALLOC_ROLE_NODE], (uint64_t)-1);
	record->gfp_flags = (uint32_t)word_or(words, k->plan->word[ALLOC_ROLE_GFP], 0);
	record->call_site = site;
}

/* A word of the return's record. */
static inline uint64_t returned_word(const struct taking *k, enum record_field field)
{
	return word(k->taken->returned, k->run->writers[k->taken->returned_id].index[field]);
}

/* The cache that is asked, or that the guest has found for the object; 0: none. */
static inline uint64_t cache_of(const struct taking *k)
{
	if (k->plan->word[ALLOC_ROLE_CACHE])
		return word(k->taken->fields, k->plan->word[ALLOC_ROLE_CACHE]);
	return k->plan->finds_cache ? returned_word(k, FIELD_SLAB_CACHE) : 0;
}

static inline bool take_alloc(const struct taking *k)
{
	const uint64_t object = returned_word(k, FIELD_RESULT);
	const uint64_t cache = cache_of(k);
	const uint64_t *words = k->taken->fields;
	const struct cache_info *info;
	struct kmem_record *record;

	if (object <= KMEM_ZERO_SIZE_PTR || !cache)
		return false;
	info = cache_ids_get(k->t->caches, cache, k->cpu->batch);
	if (!info)
		return false;
	record = next_record(k);
	set_request(k, word(words, k->plan->site), record);
	record->cache = info->id;
	record->ptr = object;
	record->bytes_alloc = info->size;
	record->bytes_req = k->plan->class == KMEM_CLASS_CACHE_ALLOC
				    ? info->object_size
				    : word_or(words, k->plan->word[ALLOC_ROLE_SIZE], 0);
	return true;
}

/* Of pages: the first caller outside of the page allocator. */
static inline uint64_t page_site(const struct taking *k)
{
	return page_callers_resolve(k->t->page_callers,
				    word(k->taken->fields, k->plan->called_from),
				    k->taken->fields + k->plan->stack, k->plan->stack_words);
}

/* Some number of pages. */
struct pages {
	uint64_t address;
	uint32_t order;
};

static inline bool find_pages(const struct taking *k, uint64_t page, struct pages *pages)
{
	pages->order = (uint32_t)word_or(k->taken->fields, k->plan->word[ALLOC_ROLE_ORDER], 0);
	return kmem_believes(pages->order) &&
	       kmem_page_address(k->t, k->cpu->batch, page, &pages->address);
}

static inline void set_pages(const struct pages *pages, struct kmem_record *record)
{
	record->cache = 0;
	record->ptr = pages->address;
	record->bytes_req = record->bytes_alloc = (uint64_t)KMEM_PAGE_SIZE << pages->order;
}

static inline bool take_page_alloc(const struct taking *k)
{
	const uint64_t page = returned_word(k, FIELD_RESULT);
	struct kmem_record *record;
	struct pages pages;

	if (page <= KMEM_ZERO_SIZE_PTR || !find_pages(k, page, &pages))
		return false;
	record = next_record(k);
	set_request(k, page_site(k), record);
	set_pages(&pages, record);
	return true;
}

static inline void set_free(const struct taking *k, uint64_t site, struct kmem_record *record)
{
	set_ids(k, KMEM_EVENT_FREE, record);
	record->node = 0;
	record->gfp_flags = 0;
	record->call_site = site;
}

static inline bool counts(const struct taking *k)
{
	const uint64_t called_from = word(k->taken->fields, k->plan->called_from);

	return alloc_call_counts(k->plan->entry, kernel_link(k->t->context.kernel, called_from));
}

static inline uint16_t known_cache(const struct taking *k)
{
	const uint64_t cache = word_or(k->taken->fields, k->plan->word[ALLOC_ROLE_CACHE], 0);
	const struct cache_info *info = cache ? cache_ids_find(k->t->caches, cache) : NULL;

	return info ? info->id : 0;
}

static inline bool take_free(const struct taking *k)
{
	const uint64_t *words = k->taken->fields;
	const uint64_t object = word_or(words, k->plan->word[ALLOC_ROLE_OBJECT], 0);
	struct kmem_record *record;

	if (object <= KMEM_ZERO_SIZE_PTR || !counts(k))
		return false;
	record = next_record(k);
	set_free(k, word(words, k->plan->site), record);
	record->cache = known_cache(k);
	/* a struct kmem_cache comes from a cache (mm/slab_common.c) */
	if (k->plan->class == KMEM_CLASS_CACHE_FREE)
		cache_ids_forget(k->t->caches, object);
	record->ptr = object;
	record->bytes_req = record->bytes_alloc = 0;
	return true;
}

static inline bool take_page_free(const struct taking *k)
{
	const uint64_t page = word_or(k->taken->fields, k->plan->word[ALLOC_ROLE_PAGE], 0);
	struct kmem_record *record;
	struct pages pages;

	if (!page || !counts(k) || !find_pages(k, page, &pages))
		return false;
	record = next_record(k);
	set_free(k, page_site(k), record);
	set_pages(&pages, record);
	return true;
}

/* Whether no call is open on its stack, and none that shares its chain. */
static inline bool is_alone(const struct taking *k)
{
	const uint64_t key = k->taken->returned ? k->taken->key : word(k->taken->fields, 0);

	return call_table_is_clear(k->t->context.calls, key + RECORD_KEY_BIAS);
}

static inline bool take(const struct taking *k)
{
	switch (k->plan->class) {
	case KMEM_CLASS_KMALLOC:
	case KMEM_CLASS_CACHE_ALLOC:
		return is_alone(k) && take_alloc(k);
	case KMEM_CLASS_PAGE_ALLOC:
		return is_alone(k) && take_page_alloc(k);
	case KMEM_CLASS_PAGE_FREE:
		return take_page_free(k);
	default:
		return is_alone(k) && take_free(k);
	}
}

size_t kmem_take_run(struct tracer *tracer, const struct probe_run *run)
{
	struct taking k = {.t = (const struct kmem_tracer *)tracer, .run = run};

	for (size_t i = 0; i < run->n; i++) {
		const struct probe_writer *writer;

		k.taken = run->taken[i];
		if (!k.taken->whole)
			return i;
		writer = &run->writers[k.taken->id];
		if (writer->ref->tracer != tracer ||
		    atomic_load_explicit(&writer->ref->off, memory_order_relaxed))
			return i;
		k.plan = writer->plan;
		k.cpu = &run->cpus[k.taken->ring];
		if (!take(&k))
			return i;
	}
	return run->n;
}
