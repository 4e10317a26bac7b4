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

/* Of an argument that there may not be. */
static struct kmem_word word_of(const struct kmem_plan *plan, enum alloc_role role)
{
	return (struct kmem_word){plan->word[role] ? UINT64_MAX : 0, plan->word[role]};
}

/* The return's record lies behind the call's (struct ring_taken). */
static uint8_t returned_word(const struct record_layout *layout, uint8_t number)
{
	return (uint8_t)(layout->size / sizeof(uint64_t) + number);
}

/* Its records have what there is to say of a slab's object: where. */
static void plan_slab(const struct record_layout *layout, struct kmem_plan *plan)
{
	const bool allocs = plan->event == KMEM_EVENT_ALLOC;

	plan->cache = word_of(plan, ALLOC_ROLE_CACHE);
	plan->size = word_of(plan, ALLOC_ROLE_SIZE);
	plan->gfp = word_of(plan, ALLOC_ROLE_GFP);
	plan->node = word_of(plan, ALLOC_ROLE_NODE);
	plan->object =
		allocs ? returned_word(layout, RING_RETURN_RESULT) : plan->word[ALLOC_ROLE_OBJECT];
	if (allocs && plan->finds_cache)
		plan->cache =
			(struct kmem_word){UINT64_MAX, returned_word(layout, RING_RETURN_CACHE)};
	plan->no_node = allocs && !plan->node.mask ? -1 : 0;
	plan->allocated = allocs ? UINT64_MAX : 0;
	plan->has_no_cache = !allocs;
	plan->requested = plan->class == KMEM_CLASS_CACHE_ALLOC ? UINT64_MAX : 0;
	if (plan->requested || !allocs)
		plan->size.mask = 0;
	plan->may_free_caches = plan->class == KMEM_CLASS_CACHE_FREE;
	plan->all_count = plan->entry->counted_by.start == plan->entry->counted_by.end &&
			  !plan->entry->nr_calls;
}

bool kmem_plan_make(const struct kmem_tracer *t, const struct kmem_view *view,
		    const struct probe *probe, struct kmem_plan *plan)
{
	const struct alloc_entry *entry = probe->data;
	const bool allocs = probe->wants_return;
	struct record_layout layout;

	if (view->task.fields & EVENT_TASK_STACK || !is_single(entry) || !is_of_one_class(entry) ||
	    lacks_caches(t, entry) || record_layout(&probe->entry, &layout, NULL) || layout.items)
		return false;
	*plan = (struct kmem_plan){
		.entry = entry,
		.event = allocs ? KMEM_EVENT_ALLOC : KMEM_EVENT_FREE,
		.type = (uint8_t)entry->type,
		.class = (uint8_t)((allocs ? KMEM_CLASS_KMALLOC : KMEM_CLASS_KFREE) + entry->type),
		.class_bit = 1u << ((allocs ? KMEM_CLASS_KMALLOC : KMEM_CLASS_KFREE) + entry->type),
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
	plan_slab(&layout, plan);
	return plan->type == KMEM_TYPE_PAGES || plan->object;
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

/* 0: there is none. */
static INLINE uint64_t masked(const uint64_t *words, const struct kmem_word *place)
{
	return word(words, place->number) & place->mask;
}

/* --- records ---------------------------------------------------------------------------------- */

/* What those of a run are taken with. */
struct taking {
	const struct kmem_tracer *t;
	struct cache_ids *caches;
	uint64_t batch;
	const struct kmem_view *view; /* that is in use */
};

static bool counts(const struct taking *k, const struct kmem_plan *plan, const uint64_t *words)
{
	const uint64_t called_from = word(words, plan->called_from);

	return alloc_call_counts(plan->entry, kernel_link(k->t->context.kernel, called_from));
}

/* A cache that is not among the recent ones. NULL: what an allocation is about cannot be read. */
static __attribute__((noinline)) const struct cache_info *
find_cache(const struct taking *k, const struct kmem_plan *plan, uint64_t cache, int64_t ns)
{
	const struct cache_info *info;

	if (plan->event == KMEM_EVENT_ALLOC)
		return cache_ids_look_up(k->caches, cache, k->batch, ns);
	info = cache_ids_look_up_any(k->caches, cache, ns);
	return info ? info : &cache_ids_recent(k->caches, 0)->info;
}

/* Without a branch for what an object is, or whether it is freed: that changes from one record to
 * the next. */
static INLINE bool take_object(const struct taking *k, const struct kmem_plan *plan,
			       const uint64_t *words, struct kmem_record *record)
{
	const uint64_t object = word(words, plan->object), cache = masked(words, &plan->cache);
	const struct cache_recent *recent = cache_ids_recent(k->caches, cache);
	const struct cache_info *info = &recent->info;

	if (object <= KMEM_ZERO_SIZE_PTR || (!plan->all_count && !counts(k, plan, words)) ||
	    !(cache | plan->has_no_cache))
		return false;
	if (recent->cache != cache || (info->batch ^ k->batch) & plan->allocated)
		info = find_cache(k, plan, cache, record->timestamp);
	if (!info)
		return false;
	/* a struct kmem_cache comes from a cache (mm/slab_common.c) */
	if (info->may_have_caches & plan->may_free_caches)
		cache_ids_free(k->caches, object, record->timestamp);
	record->cache = info->id;
	record->node = (int32_t)masked(words, &plan->node) | plan->no_node;
	record->call_site = word(words, plan->site);
	record->ptr = object;
	record->bytes_req = masked(words, &plan->size) | (info->object_size & plan->requested);
	record->bytes_alloc = info->size & plan->allocated;
	record->gfp_flags = (uint32_t)masked(words, &plan->gfp);
	return true;
}

/* 2^order pages at struct page `page`; the first caller outside of the page allocator. */
static bool take_pages(const struct taking *k, const struct kmem_plan *plan, const uint64_t *words,
		       uint64_t page, struct kmem_record *record)
{
	const uint32_t order = (uint32_t)word_or(words, plan->word[ALLOC_ROLE_ORDER], 0);

	if (!kmem_believes(order) || !kmem_page_address(k->t, k->batch, page, &record->ptr))
		return false;
	record->cache = 0;
	record->bytes_req = record->bytes_alloc = (uint64_t)KMEM_PAGE_SIZE << order;
	record->call_site = page_callers_resolve(k->t->page_callers, word(words, plan->called_from),
						 words + plan->stack, plan->stack_words);
	record->gfp_flags = (uint32_t)masked(words, &plan->gfp);
	record->node = (int32_t)masked(words, &plan->node) | plan->no_node;
	return true;
}

static __attribute__((noinline)) bool take_page(const struct taking *k,
						const struct kmem_plan *plan, const uint64_t *words,
						struct kmem_record *record)
{
	uint64_t page;

	if (plan->event == KMEM_EVENT_ALLOC) {
		page = word(words, plan->object);
		return page > KMEM_ZERO_SIZE_PTR && take_pages(k, plan, words, page, record);
	}
	page = word_or(words, plan->word[ALLOC_ROLE_PAGE], 0);
	return page && counts(k, plan, words) && take_pages(k, plan, words, page, record);
}

static void set_task(const struct kmem_plan *plan, const uint64_t *words, struct event_task *task)
{
	uint64_t comm[CAPTURE_COMM_SIZE / sizeof(uint64_t)] = {0};

	task->pid = (uint32_t)word_or(words, plan->pid, 0);
	task->tgid = (uint32_t)word_or(words, plan->tgid, 0);
	task->cgroup = word_or(words, plan->cgroup, 0);
	for (uint8_t i = 0; plan->comm && i < CAPTURE_COMM_SIZE / sizeof(uint64_t); i++)
		comm[i] = word(words, (uint8_t)(plan->comm + i));
	memcpy(task->comm, comm, sizeof(comm));
}

/* How it is taken; NULL: not here. So are those of another view. */
static INLINE const struct kmem_plan *
plan_of(const struct taking *k, const struct probe_writer *writers, const struct ring_taken *taken)
{
	const struct probe_writer *writer = &writers[taken->id];

	if (!ring_is_alone(taken, &k->t->context.calls->stacks) || writer->family != k->view ||
	    atomic_load_explicit(&writer->ref->off, memory_order_relaxed))
		return NULL;
	return writer->plan;
}

/* The first of `n` at most; returns how many. */
static size_t take_some(const struct taking *k, const struct probe_run *run,
			const struct ring_taken *taken, size_t n, struct kmem_pending_vcpu *p)
{
	const struct tsc_quick_clock *const clock = &run->cpu->clock;
	struct kmem_task_record *const records = &p->records[p->n];
	uint8_t *const classes = &p->classes[p->n];
	const bool has_tasks = k->view->captured;
	uint32_t seen = p->seen;
	size_t i;

	for (i = 0; i < n; i++) {
		struct kmem_record *record = &records[i].record;
		const struct kmem_plan *plan = plan_of(k, run->writers, &taken[i]);
		const uint64_t *words = taken[i].fields;

		if (!plan)
			break;
		record->timestamp = (int64_t)tsc_quick_ns(clock, taken[i].tsc);
		record->event_id = plan->event;
		record->type_id = plan->type;
		classes[i] = plan->class;
		seen |= plan->class_bit;
		if (!(plan->type == KMEM_TYPE_PAGES ? take_page(k, plan, words, record)
						    : take_object(k, plan, words, record)))
			break;
		if (has_tasks)
			set_task(plan, words, &records[i].task);
	}
	p->seen = seen;
	p->n += i;
	return i;
}

size_t kmem_take_run(struct tracer *tracer, const struct probe_run *run)
{
	const struct kmem_tracer *t = (const struct kmem_tracer *)tracer;
	const struct taking k = {t, t->caches, run->cpu->batch, t->view};
	size_t done = 0, some, n;

	do {
		struct kmem_pending_vcpu *p = kmem_pending_room(t, run->cpu->vcpu);

		n = run->n - done;
		n = n < KMEM_PENDING - p->n ? n : KMEM_PENDING - p->n;
		some = take_some(&k, run, run->taken + done, n, p);
		done += some;
	} while (some == n && done < run->n);
	return done;
}
