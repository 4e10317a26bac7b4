/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/groups/group-sums.h"
#include "formats/heap/sum.h"
#include "formats/heap/usual.h"

struct sites *sites_create(const struct sites_source *of)
{
	struct sites *sites = calloc(1, sizeof(*sites));

	if (sites) {
		sites->of = *of;
		sites->course.end_ns = INT64_MIN;
		since_init_begin(&sites->init);
	}
	return sites;
}

void sites_destroy(struct sites *sites)
{
	if (!sites)
		return;
	for (size_t i = 0; i < sites->n; i++) {
		course_deinit(&sites->all[i].live);
		free(sites->all[i].lives);
		free(sites->all[i].other);
	}
	course_deinit(&sites->course);
	free(sites->all);
	free(sites);
}

/* --- changes --------------------------------------------------------------------------------- */

/* The course of a new site is over, and its role is none: what comes next begins both. */
__attribute__((cold, noinline)) static int make_room(struct sites *sites, size_t n)
{
	size_t more = n < 256 ? 256 : 2 * n;
	struct site *bigger = reallocarray(sites->all, more, sizeof(*bigger));

	if (!bigger)
		return -ENOMEM;
	memset(bigger + sites->n, 0, (more - sites->n) * sizeof(*bigger));
	for (size_t i = sites->n; i < more; i++) {
		bigger[i].sums.role = HEAP_ROLES;
		bigger[i].live.end_ns = INT64_MIN;
	}
	sites->all = bigger;
	sites->n = more;
	return 0;
}

static int find_group(struct sites *sites, const struct heap_object *object, uint32_t *number)
{
	if (!sites->groups)
		return 0;
	*number = groups_number(sites->groups, object);
	sites->all_groups = groups_all(sites->groups);
	return *number ? 0 : -ENOMEM;
}

/* The object has another role than those before: it is the first one, or what is known of its call
 * site's blocks has changed. */
__attribute__((cold, noinline)) static int turn_to_role(struct sites *sites, struct site *site,
							const struct heap_object *object)
{
	if (site->sums.role == HEAP_ROLES) {
		site->sums.role = object->role;
		return find_group(sites, object, &site->in_group);
	}
	if (site->other)
		return 0;
	site->other = calloc(1, sizeof(*site->other));
	if (!site->other)
		return -ENOMEM;
	site->other->sums.role = object->role;
	return find_group(sites, object, &site->other->in_group);
}

/* Before the first change in the window. */
static int begin_window(struct sites *sites, struct site *site)
{
	site->sums.peak_bytes = site->sums.live_bytes;
	if (sites->nr_courses == SITES_WITH_COURSE) {
		site->is_beyond = true;
		site->live.end_ns = INT64_MAX;
		sites->nr_beyond++;
		return 0;
	}
	if (course_init_small(&site->live, COURSE_STEPS_OF_SITE, *sites->of.first_ns))
		return -ENOMEM;
	sites->nr_courses++;
	return 0;
}

/* A step of the site's course is over, or it has none yet. */
__attribute__((noinline)) static int go_on(struct sites *sites, struct site *site, int64_t ns)
{
	if (!site->live.steps && begin_window(sites, site))
		return -ENOMEM;
	if (ns < site->live.end_ns)
		return 0;
	site->live.last = site->sums.live_bytes;
	course_advance(&site->live, ns);
	return 0;
}

/* Of a site that has no lives yet: whether it has now, or is to have none. */
static bool begin_lives(struct site *site)
{
	if (!site->is_beyond)
		site->lives = calloc(LIFE_CLASSES, sizeof(*site->lives));
	return site->lives || site->is_beyond;
}

static inline int count_life(struct site *site, const struct heap_change *change)
{
	uint64_t ns = (uint64_t)change->record->timestamp - (uint64_t)change->object->born_ns;
	int class = 0;

	if (!site->lives && !begin_lives(site))
		return -ENOMEM;
	if (change->record->timestamp > change->object->born_ns)
		class = 64 - __builtin_clzll(ns);
	if (site->lives)
		site->lives[class < LIFE_CLASSES ? class : LIFE_CLASSES - 1]++;
	return 0;
}

/* Nothing in the trace has allocated what the kernel was loaded with. */
void sites_note_init(struct sites *sites, const struct heap_change *change)
{
	if (change->kind == HEAP_UNKNOWN_FREE)
		since_init_note(&sites->init, sites->of.sidecar, change->record);
}

/* What is neither an object's nor a site's. */
static void count_unknown(struct sites *sites, const struct heap_change *change)
{
	sites_note_init(sites, change);
	if (!*sites->of.in_window)
		return;
	sites->invalid += change->kind == HEAP_INVALID;
	if (change->kind != HEAP_UNKNOWN_FREE)
		return;
	sites->frees += change->is_first;
	sites->unknown_frees++;
}

/* What goes, in the window. */
static inline int count_gone(struct sites *sites, struct site *site,
			     const struct heap_change *change, enum heap_change_kind kind)
{
	sites->missed_frees += kind == HEAP_MISSED_FREE;
	site->missed_frees += kind == HEAP_MISSED_FREE;
	if (kind != HEAP_FREE)
		return 0;
	sites->frees += change->is_first;
	site->new_frees += change->object->born_ns >= *sites->of.first_ns;
	return count_life(site, change);
}

/* What an object is in sites_live_bytes(). */
static uint64_t counted_bytes(const struct sites *sites, const struct heap_object *object)
{
	const bool is_counted =
		sites->of.selects ? object->role == HEAP_PLAIN : object->place == HEAP_OUTSIDE;

	return is_counted ? object->bytes : 0;
}

/* All live bytes are others now, or a step of their course is over. */
__attribute__((noinline)) static int note_memory(struct sites *sites,
						 const struct heap_change *change)
{
	const int64_t ns = change->record->timestamp;
	const uint64_t bytes = counted_bytes(sites, change->object);

	if (change->kind == HEAP_ALLOC)
		sum_add(&sites->live_bytes, bytes);
	else if (change->kind != HEAP_SPLIT)
		sum_subtract(&sites->live_bytes, bytes);
	if (!*sites->of.in_window)
		return 0;
	if (!sites->course.steps && course_init(&sites->course, COURSE_STEPS, *sites->of.first_ns))
		return -ENOMEM;
	course_put(&sites->course, ns, sites->live_bytes);
	if (sites->live_bytes > sites->peak_bytes) {
		sites->peak_bytes = sites->live_bytes;
		sites->peak_ns = ns;
	}
	return 0;
}

/* Most objects lie in pages that are counted already. */
static inline bool changes_memory(const struct sites *sites, const struct heap_change *change)
{
	return sites->of.selects || change->object->place == HEAP_OUTSIDE ||
	       change->record->timestamp >= sites->course.end_ns;
}

/* Before its live bytes change. */
static inline int prepare(struct sites *sites, struct site *site, int64_t ns)
{
	if (site->peak_seen != sites->peak) {
		site->at_peak = site->sums.live_bytes;
		site->peak_seen = sites->peak;
	}
	return ns >= site->live.end_ns && *sites->of.in_window ? go_on(sites, site, ns) : 0;
}

/* The objects of a site have one role, mostly. */
static inline __attribute__((always_inline)) int add_usual(struct sites *sites, struct site *site,
							   const struct heap_change *change,
							   enum heap_change_kind kind,
							   bool in_window)
{
	if (site->in_group)
		group_note_live(&sites->all_groups[site->in_group - 1], change, kind);
	group_add(&site->sums, change, kind, in_window);
	return in_window && kind != HEAP_ALLOC ? count_gone(sites, site, change, kind) : 0;
}

static int add_other(struct sites *sites, struct site *site, const struct heap_change *change)
{
	const bool in_window = *sites->of.in_window;
	const enum heap_change_kind kind = change->kind;

	if (site->other->in_group)
		group_note_live(&sites->all_groups[site->other->in_group - 1], change, kind);
	group_add(&site->other->sums, change, kind, in_window);
	group_add(&site->sums, change, kind, in_window);
	return in_window && kind != HEAP_ALLOC ? count_gone(sites, site, change, kind) : 0;
}

/* Any change of an object. */
__attribute__((noinline)) static int add(struct sites *sites, const struct heap_change *change)
{
	const struct heap_object *object = change->object;
	struct site *site;
	int ret;

	if (object->origin >= sites->n && make_room(sites, object->origin))
		return -ENOMEM;
	site = &sites->all[object->origin];
	if (object->role != site->sums.role && turn_to_role(sites, site, object))
		return -ENOMEM;
	if (prepare(sites, site, change->record->timestamp))
		return -ENOMEM;
	if (object->role == site->sums.role)
		ret = add_usual(sites, site, change, change->kind, *sites->of.in_window);
	else
		ret = add_other(sites, site, change);
	return !ret && changes_memory(sites, change) ? note_memory(sites, change) : ret;
}

/* Whether a change needs add_usual() only, as most do, in the window: that calls nothing then. */
static inline bool is_usual(const struct sites *sites, const struct site *site, uint8_t role,
			    int64_t ns, enum heap_change_kind kind)
{
	return role == site->sums.role && site->peak_seen == sites->peak &&
	       ns < site->live.end_ns && (kind != HEAP_FREE || site->lives);
}

static inline __attribute__((always_inline)) int
add_kind(struct sites *sites, const struct heap_change *change, enum heap_change_kind kind)
{
	const uint32_t origin = change->object->origin;

	if (origin >= sites->n || !*sites->of.in_window ||
	    !is_usual(sites, &sites->all[origin], change->object->role, change->record->timestamp,
		      kind))
		return add(sites, change);
	add_usual(sites, &sites->all[origin], change, kind, true);
	return changes_memory(sites, change) ? note_memory(sites, change) : 0;
}

int sites_add(void *arg, const struct heap_change *change)
{
	struct sites *sites = arg;

	if (change->kind == HEAP_ALLOC)
		return add_kind(sites, change, HEAP_ALLOC);
	if (change->kind == HEAP_FREE)
		return add_kind(sites, change, HEAP_FREE);
	if (change->kind == HEAP_MISSED_FREE)
		return add_kind(sites, change, HEAP_MISSED_FREE);
	if (change->object)
		return add(sites, change);
	count_unknown(sites, change);
	return 0;
}

/* --- records --------------------------------------------------------------------------------- */

/* The compiler makes code of its own for each kind of record. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* How many records before its turn the place of an object is loaded, the object, and a brief. */
enum { PLACE_SOON = 24, OBJECT_SOON = 12, BRIEF_SOON = 64 };

/* What a usual change is of all memory: blocks are outside of others. */
static ALWAYS_INLINE void note_block(struct sites *sites, uint64_t bytes, int64_t ns,
				     enum heap_change_kind kind)
{
	if (kind == HEAP_ALLOC)
		sum_add(&sites->live_bytes, bytes);
	else
		sum_subtract(&sites->live_bytes, bytes);
	course_put(&sites->course, ns, sites->live_bytes);
	if (sites->live_bytes > sites->peak_bytes) {
		sites->peak_bytes = sites->live_bytes;
		sites->peak_ns = ns;
	}
}

/* The site that a usual change is of; NULL if it is not usual. */
static ALWAYS_INLINE struct site *usual_site(const struct sites *sites, uint32_t origin,
					     uint8_t role, int64_t ns, enum heap_change_kind kind)
{
	struct site *site = &sites->all[origin];

	if (origin >= sites->n || ns >= sites->course.end_ns)
		return NULL;
	return is_usual(sites, site, role, ns, kind) ? site : NULL;
}

static ALWAYS_INLINE void add_usual_change(struct sites *sites, struct site *site,
					   const struct kmem_brief *brief, unsigned int vcpu,
					   const struct heap_object *object,
					   enum heap_change_kind kind, bool is_block)
{
	const struct kmem_record record = {.timestamp = brief->ns};
	const struct heap_change change = {
		.kind = kind, .record = &record, .vcpu = vcpu, .is_first = true, .object = object};

	add_usual(sites, site, &change, kind, true);
	if (is_block)
		note_block(sites, object->bytes, brief->ns, kind);
}

/* The object whose address is allocated again goes, if that is usual; else returns false. */
static ALWAYS_INLINE bool end_former(struct sites *sites, struct heap *heap,
				     const struct kmem_brief *brief, unsigned int vcpu,
				     const struct heap_object *former, bool is_block)
{
	struct site *site;

	if (!heap_end_is_usual(heap, former, is_block))
		return false;
	site = usual_site(sites, former->origin, former->role, brief->ns, HEAP_MISSED_FREE);
	if (!site)
		return false;
	heap_forget_usual(heap, former, is_block);
	add_usual_change(sites, site, brief, vcpu, former, HEAP_MISSED_FREE, is_block);
	return true;
}

/* Returns false if it is not usual; then nothing has changed. */
static ALWAYS_INLINE bool take_usual_alloc(struct sites *sites, struct heap *heap,
					   const struct kmem_brief *brief, unsigned int vcpu,
					   bool is_block)
{
	const struct brief_origin *of = heap_brief_origin(heap, brief);
	const struct heap_object *object;
	struct heap_object *former;
	struct site *site;

	if (!of)
		return false;
	site = usual_site(sites, of->origin, HEAP_PLAIN, brief->ns, HEAP_ALLOC);
	if (!site || !heap_alloc_is_usual(heap, brief, of->origin, is_block))
		return false;
	former = lives_find(heap_lives(heap, is_block), brief->ptr);
	if (former && !end_former(sites, heap, brief, vcpu, former, is_block))
		return false;
	object = heap_alloc_usual(heap, brief, vcpu, of->origin, former, is_block);
	add_usual_change(sites, site, brief, vcpu, object, HEAP_ALLOC, is_block);
	return true;
}

static ALWAYS_INLINE bool take_usual_free(struct sites *sites, struct heap *heap,
					  const struct kmem_brief *brief, unsigned int vcpu,
					  bool is_block)
{
	const struct heap_usual_free free = heap_usual_free(heap, brief, is_block);
	struct site *site;

	if (!free.object)
		return false;
	site = usual_site(sites, free.object->origin, free.object->role, brief->ns, HEAP_FREE);
	if (!site)
		return false;
	add_usual_change(sites, site, brief, vcpu, free.object, HEAP_FREE, is_block);
	heap_free_usual(heap, &free, is_block);
	return true;
}

static ALWAYS_INLINE bool take_usual(struct sites *sites, struct heap *heap,
				     const struct kmem_brief *brief, unsigned int vcpu)
{
	const unsigned int class = brief->class;

	if (class < KMEM_CLASS_PAGE_ALLOC)
		return take_usual_alloc(sites, heap, brief, vcpu, false);
	if (class > KMEM_CLASS_PAGE_ALLOC && class < KMEM_CLASS_PAGE_FREE)
		return take_usual_free(sites, heap, brief, vcpu, false);
	return class == KMEM_CLASS_PAGE_ALLOC ? take_usual_alloc(sites, heap, brief, vcpu, true)
					      : take_usual_free(sites, heap, brief, vcpu, true);
}

__attribute__((noinline)) static int take_other(struct heap *heap, const struct kmem_brief *brief,
						unsigned int vcpu)
{
	const struct kmem_record record = kmem_brief_record(brief);

	return heap_apply(heap, &record, vcpu, true);
}

static void load_soon(const struct lives *const *lives, const struct kmem_brief *briefs, size_t n)
{
	for (size_t i = 0; i < n && i < PLACE_SOON; i++)
		heap_load_place_soon(lives, &briefs[i]);
	for (size_t i = 0; i < n && i < OBJECT_SOON; i++)
		heap_load_soon(lives, &briefs[i]);
}

int sites_take_briefs(struct sites *sites, struct heap *heap, const struct sites_briefs *briefs)
{
	const struct kmem_brief *brief = briefs->first, *const end = brief + briefs->n;
	const struct kmem_brief *const known_end = end + briefs->more;
	const struct lives *lives[KMEM_NR_CLASSES];
	const bool can_be_usual = !heap_has_nodes(heap);
	const unsigned int vcpu = briefs->vcpu;

	heap_lives_by_class(heap, lives);
	if (briefs->is_new)
		load_soon(lives, brief, briefs->n + briefs->more);
	for (; brief < end; brief++) {
		u64_map_load_soon(brief + BRIEF_SOON);
		if (brief + PLACE_SOON < known_end)
			heap_load_place_soon(lives, brief + PLACE_SOON);
		if (brief + OBJECT_SOON < known_end)
			heap_load_soon(lives, brief + OBJECT_SOON);
		if (can_be_usual && take_usual(sites, heap, brief, vcpu))
			continue;
		if (take_other(heap, brief, vcpu))
			return -ENOMEM;
	}
	return 0;
}

int sites_begin_window(struct sites *sites)
{
	const int64_t first_ns = *sites->of.first_ns;

	course_deinit(&sites->course);
	if (course_init(&sites->course, COURSE_STEPS, first_ns))
		return -ENOMEM;
	sites->peak_bytes = sites_live_bytes(sites);
	sites->peak_ns = first_ns;
	course_put(&sites->course, first_ns, sites->peak_bytes);
	return 0;
}

int sites_finish(struct sites *sites)
{
	return sites->course.steps || !*sites->of.records ? 0 : sites_begin_window(sites);
}

/* --- groups of them -------------------------------------------------------------------------- */

void sites_keep_groups(struct sites *sites, struct groups *groups)
{
	sites->groups = groups;
}

void sites_fill_groups(const struct sites *sites)
{
	groups_begin_sums(sites->groups);
	for (size_t i = 0; i < sites->n; i++) {
		const struct site *site = &sites->all[i];

		if (!site->in_group)
			continue;
		groups_add_sums(sites->groups, site->in_group, &site->sums);
		if (!site->other)
			continue;
		groups_subtract_sums(sites->groups, site->in_group, &site->other->sums);
		groups_add_sums(sites->groups, site->other->in_group, &site->other->sums);
	}
}
