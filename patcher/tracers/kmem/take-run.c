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
		.counted_from = entry->counted_by.start + t->context.kernel->virt_slide,
		.counted_bytes = entry->counted_by.end - entry->counted_by.start,
		.lists_calls = entry->nr_calls,
		.event = probe->wants_return ? KMEM_EVENT_ALLOC : KMEM_EVENT_FREE,
		.type = (uint8_t)entry->type,
		.class =
			(probe->wants_return ? KMEM_CLASS_KMALLOC : KMEM_CLASS_KFREE) + entry->type,
		.class_bit = 1u << ((probe->wants_return ? KMEM_CLASS_KMALLOC : KMEM_CLASS_KFREE) +
				    entry->type),
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

#define INLINE inline __attribute__((always_inline))

static INLINE uint64_t word(const uint64_t *words, uint8_t number)
{
	return __atomic_load_n(&words[number], __ATOMIC_RELAXED);
}

static INLINE uint64_t word_or(const uint64_t *words, uint8_t number, uint64_t otherwise)
{
	return number ? word(words, number) : otherwise;
}

/* --- records ---------------------------------------------------------------------------------- */

/* What those of a run are taken with: copies, for registers. */
struct taking {
	const struct kmem_tracer *t;
	struct cache_ids *caches;
	const struct probe_writer *writers;
	uint64_t batch;
};

/* One of them. */
struct taken {
	const struct kmem_plan *plan;
	const uint64_t *words;
	int64_t ns;
};

static INLINE uint64_t argument(const struct taken *one, enum alloc_role role, uint64_t otherwise)
{
	return word_or(one->words, one->plan->word[role], otherwise);
}

static void set_task(const struct kmem_plan *plan, const uint64_t *words, struct event_task *task)
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

static INLINE void set_request(const struct taken *one, uint64_t site, struct kmem_record *record)
{
	record->call_site = site;
	record->gfp_flags = (uint32_t)argument(one, ALLOC_ROLE_GFP, 0);
	record->node = -1;
	if (one->plan->word[ALLOC_ROLE_NODE])
		record->node = (int32_t)argument(one, ALLOC_ROLE_NODE, 0);
}

static INLINE bool take_alloc(const struct taking *k, const struct taken *one,
			      const struct ring_taken *taken, bool has_size,
			      struct kmem_record *record)
{
	const struct probe_writer *const returned = &k->writers[taken->returned_id];
	const uint64_t object = word(taken->returned, returned->result);
	const uint64_t cache = one->plan->finds_cache ? word(taken->returned, returned->slab_cache)
						      : argument(one, ALLOC_ROLE_CACHE, 0);
	const struct cache_info *info;

	if (object <= KMEM_ZERO_SIZE_PTR || !cache)
		return false;
	info = cache_ids_get(k->caches, cache, k->batch, one->ns);
	if (!info)
		return false;
	record->cache = info->id;
	record->ptr = object;
	record->bytes_alloc = info->size;
	record->bytes_req = has_size ? argument(one, ALLOC_ROLE_SIZE, 0) : info->object_size;
	set_request(one, word(one->words, one->plan->site), record);
	return true;
}

/* Of pages: the first caller outside of the page allocator. */
static uint64_t page_site(const struct taking *k, const struct taken *one)
{
	return page_callers_resolve(k->t->page_callers, word(one->words, one->plan->called_from),
				    one->words + one->plan->stack, one->plan->stack_words);
}

/* 2^order pages at struct page `page`. */
static bool set_pages(const struct taking *k, const struct taken *one, uint64_t page,
		      struct kmem_record *record)
{
	const uint32_t order = (uint32_t)argument(one, ALLOC_ROLE_ORDER, 0);

	if (!kmem_believes(order) || !kmem_page_address(k->t, k->batch, page, &record->ptr))
		return false;
	record->cache = 0;
	record->bytes_req = record->bytes_alloc = (uint64_t)KMEM_PAGE_SIZE << order;
	return true;
}

static INLINE bool take_page_alloc(const struct taking *k, const struct taken *one,
				   const struct ring_taken *taken, struct kmem_record *record)
{
	const uint64_t page = word(taken->returned, k->writers[taken->returned_id].result);

	if (page <= KMEM_ZERO_SIZE_PTR || !set_pages(k, one, page, record))
		return false;
	set_request(one, page_site(k, one), record);
	return true;
}

static INLINE void set_free(uint64_t site, struct kmem_record *record)
{
	record->call_site = site;
	record->node = 0;
	record->gfp_flags = 0;
}

/* alloc_call_counts() of its caller. */
static INLINE bool counts(const struct taking *k, const struct taken *one)
{
	const struct kmem_plan *plan = one->plan;
	const uint64_t called_from = word(one->words, plan->called_from);

	/* a return address may lie right behind the body */
	if (called_from - 1 - plan->counted_from < plan->counted_bytes)
		return false;
	return !plan->lists_calls ||
	       alloc_call_is_listed(plan->entry, kernel_link(k->t->context.kernel, called_from));
}

/* The id of the cache that an object goes back to; 0: it is not known. */
static INLINE uint16_t cache_freed_to(const struct taking *k, const struct taken *one)
{
	const uint64_t cache = argument(one, ALLOC_ROLE_CACHE, 0);
	const struct cache_info *info = cache ? cache_ids_find(k->caches, cache, one->ns) : NULL;

	return info ? info->id : 0;
}

static INLINE bool take_free(const struct taking *k, const struct taken *one, bool to_cache,
			     struct kmem_record *record)
{
	const uint64_t object = argument(one, ALLOC_ROLE_OBJECT, 0);

	if (object <= KMEM_ZERO_SIZE_PTR || !counts(k, one))
		return false;
	record->ptr = object;
	record->bytes_req = record->bytes_alloc = 0;
	record->cache = to_cache ? cache_freed_to(k, one) : 0;
	/* a struct kmem_cache comes from a cache (mm/slab_common.c) */
	if (to_cache)
		cache_ids_free(k->caches, object, one->ns);
	set_free(word(one->words, one->plan->site), record);
	return true;
}

static INLINE bool take_page_free(const struct taking *k, const struct taken *one,
				  struct kmem_record *record)
{
	const uint64_t page = argument(one, ALLOC_ROLE_PAGE, 0);

	if (!page || !counts(k, one) || !set_pages(k, one, page, record))
		return false;
	set_free(page_site(k, one), record);
	return true;
}

static INLINE bool take(const struct taking *k, const struct taken *one,
			const struct ring_taken *taken, struct kmem_record *record)
{
	switch (one->plan->class) {
	case KMEM_CLASS_KMALLOC:
		return take_alloc(k, one, taken, true, record);
	case KMEM_CLASS_CACHE_ALLOC:
		return take_alloc(k, one, taken, false, record);
	case KMEM_CLASS_PAGE_ALLOC:
		return take_page_alloc(k, one, taken, record);
	case KMEM_CLASS_KFREE:
		return take_free(k, one, false, record);
	case KMEM_CLASS_CACHE_FREE:
		return take_free(k, one, true, record);
	default:
		return take_page_free(k, one, record);
	}
}

/* How it is taken; NULL: not here. */
static INLINE const struct kmem_plan *plan_of(const struct taking *k,
					      const struct ring_taken *taken)
{
	const struct probe_writer *writer = &k->writers[taken->id];

	if (!taken->alone || writer->ref->tracer != &k->t->tracer ||
	    atomic_load_explicit(&writer->ref->off, memory_order_relaxed))
		return NULL;
	return writer->plan;
}

/* The first of `n` at most; returns how many. */
static size_t take_some(const struct taking k, const struct tsc_quick_clock *clock,
			const struct ring_taken *taken, size_t n, struct kmem_pending_vcpu *p)
{
	struct kmem_task_record *const records = &p->records[p->n];
	uint8_t *const classes = &p->classes[p->n];
	const bool has_tasks = k.t->task.fields;
	uint32_t seen = p->seen;
	size_t i;

	for (i = 0; i < n; i++) {
		struct kmem_record *record = &records[i].record;
		const struct taken one = {.plan = plan_of(&k, &taken[i]),
					  .words = taken[i].fields,
					  .ns = (int64_t)tsc_quick_ns(clock, taken[i].tsc)};

		if (!one.plan || !take(&k, &one, &taken[i], record))
			break;
		record->event_id = one.plan->event;
		record->type_id = one.plan->type;
		record->timestamp = one.ns;
		classes[i] = (uint8_t)one.plan->class;
		seen |= one.plan->class_bit;
		if (has_tasks)
			set_task(one.plan, one.words, &records[i].task);
	}
	p->seen = seen;
	p->n += i;
	return i;
}

size_t kmem_take_run(struct tracer *tracer, const struct probe_run *run)
{
	const struct kmem_tracer *t = (const struct kmem_tracer *)tracer;
	const struct taking k = {t, t->caches, run->writers, run->cpu->batch};
	size_t done = 0, some, n;

	do {
		struct kmem_pending_vcpu *p = kmem_pending_room(t, run->cpu->vcpu);

		n = run->n - done;
		n = n < KMEM_PENDING - p->n ? n : KMEM_PENDING - p->n;
		some = take_some(k, &run->cpu->clock, run->taken + done, n, p);
		done += some;
	} while (some == n && done < run->n);
	return done;
}
