/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Patterns that are no errors, but cost the guest time, or are typical of errors. All are notes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/checks/check.h"
#include "formats/base/u64-map.h"

enum class { CROSS_CPU, FREE_STALE, STORM, REALLOC };

static const struct check_class classes[] = {
	[CROSS_CPU] = {"cross-cpu", "call site whose objects another vCPU frees nearly always",
		       NULL},
	[FREE_STALE] = {"free-stale",
			"free by a call site that had freed the address before, and frees no other "
			"object of this kind",
			NULL},
	[STORM] = {"storm",
		   "allocation storm: 1,000 within 10 ms by one call site, ten times its average",
		   NULL},
	[REALLOC] = {"realloc", "object that krealloc() makes larger and smaller, again and again",
		     NULL},
	{NULL, NULL, NULL},
};

enum {
	LEAST_FREES = 1000,  /* of a call site, for CROSS_CPU */
	STORM_ALLOCS = 1000, /* in STORM_NS */
	STORM_NS = 10000000,
	STORM_FACTOR = 10,
	FLIPS = 8,             /* of an object between larger and smaller */
	FREED_SLOTS = 1 << 15, /* addresses whose last life is remembered */
	CANDIDATES = 64,       /* for FREE_STALE */
	USUAL_FREES = 100,     /* of a kind of object, elsewhere than at the stale free */
	USUAL_PAIRS = 10,      /* of the object that was freed before */
	MAX_ORIGINS = 1 << 16,
};

/* Of an origin: a call site with a cache. */
struct origin_stats {
	struct check_event first; /* allocation */
	uint64_t allocs, frees, cross_cpu;
	int64_t *
		times; /* of the last STORM_ALLOCS allocations, a ring; less while there are less */
	bool in_storm;
};

/* The last life of an address. */
struct past_life {
	uint64_t ptr, alloc_site, free_site;
};

/* A free that may be the second one of an object whose address was reused. */
struct candidate {
	struct check_event event;
	uint64_t old_site, site, free_site; /* that allocated: before, and this object */
	uint32_t origin;
};

/* How krealloc() has changed an object so far. */
struct resizing {
	uint32_t flips;
	bool grew;
	bool was_moved;
};

/* The last allocation of a vCPU, which krealloc() follows by the free of the old object. */
struct last_alloc {
	uint64_t ptr, call_site, bytes;
};

struct patterns {
	struct check base;
	const struct sidecar *sidecar;
	struct origin_stats *origins;
	size_t nr_origins;
	bool has_begun;
	int64_t begin_ns; /* of the trace */
	struct past_life past[FREED_SLOTS];
	struct u64_map pairs;     /* frees by pair of call sites: uint64_t */
	struct u64_map resizings; /* struct resizing, by address */
	struct u64_map last;      /* struct last_alloc, by vCPU */
	struct candidate candidates[CANDIDATES];
	size_t nr_candidates;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ b >> 32) * UINT64_C(0x9e3779b97f4a7c15);

	return (h ^ h >> 29 ^ b) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* NULL: no memory, or more origins than are followed. */
static struct origin_stats *stats_of(struct patterns *p, uint32_t origin, int *ret)
{
	size_t n = origin < 128 ? 256 : (size_t)origin * 2;
	struct origin_stats *bigger;

	if (origin >= MAX_ORIGINS)
		return NULL;
	if (origin < p->nr_origins)
		return &p->origins[origin];
	bigger = reallocarray(p->origins, n, sizeof(*bigger));
	if (!bigger) {
		*ret = -ENOMEM;
		return NULL;
	}
	memset(bigger + p->nr_origins, 0, (n - p->nr_origins) * sizeof(*bigger));
	p->origins = bigger;
	p->nr_origins = n;
	return &p->origins[origin];
}

/* --- storms ---------------------------------------------------------------------------------- */

/* The time of the allocation before `n` others, of at most STORM_ALLOCS. */
static int64_t time_before(const struct origin_stats *s, uint64_t n)
{
	return s->times[(s->allocs - n) % STORM_ALLOCS];
}

/* Compared with what came before; the beginning of a trace is compared with nothing. */
static bool is_storm(const struct patterns *p, const struct origin_stats *s)
{
	const int64_t begin_ns = time_before(s, STORM_ALLOCS);
	const uint64_t before_ns = (uint64_t)begin_ns - (uint64_t)p->begin_ns;
	const double average = (double)(s->allocs - STORM_ALLOCS) * STORM_NS / (double)before_ns;

	return begin_ns > p->begin_ns && before_ns >= STORM_FACTOR * (uint64_t)STORM_NS &&
	       STORM_ALLOCS >= STORM_FACTOR * average;
}

/* The room doubles up to that of the ring. */
static int note_time(struct origin_stats *s, int64_t ns)
{
	const uint64_t n = s->allocs;

	if (n < STORM_ALLOCS && !(n & (n - 1))) {
		const uint64_t room = n ? 2 * n : 1;
		int64_t *bigger = reallocarray(s->times, room < STORM_ALLOCS ? room : STORM_ALLOCS,
					       sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		s->times = bigger;
	}
	s->times[s->allocs++ % STORM_ALLOCS] = ns;
	return 0;
}

/* Whether the last n allocations were within the time of a storm. */
static bool are_near(const struct origin_stats *s, uint64_t n)
{
	return s->allocs >= n &&
	       (uint64_t)time_before(s, 1) - (uint64_t)time_before(s, n) < STORM_NS;
}

static int count_alloc(struct patterns *p, struct origin_stats *s, const struct check_event *event)
{
	if (!s->allocs)
		s->first = *event;
	if (note_time(s, event->at.ns))
		return -ENOMEM;
	s->in_storm = s->in_storm && are_near(s, STORM_ALLOCS / 2);
	if (!s->in_storm && are_near(s, STORM_ALLOCS) && is_storm(p, s)) {
		s->in_storm = true;
		check_note(&p->base, STORM, event, NULL);
	}
	return 0;
}

/* --- krealloc() ------------------------------------------------------------------------------ */

static bool is_realloc(const struct sidecar *sidecar, uint64_t call_site)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(sidecar, call_site);

	return symbol && strstr(symbol->name, "realloc");
}

/* The old object goes: the new one takes over what is known of it. */
static int follow_resizing(struct patterns *p, const struct check_event *event,
			   const struct heap_change *change)
{
	const struct last_alloc *last = u64_map_find(&p->last, change->vcpu);
	struct resizing *old = u64_map_find(&p->resizings, change->ptr), known = {0}, *now;
	bool grew;

	if (old) {
		known = *old;
		u64_map_remove(&p->resizings, change->ptr);
	}
	if (!last || last->call_site != heap_change_origin(change)->call_site ||
	    last->ptr == change->ptr || last->bytes == change->object->bytes ||
	    !is_realloc(p->sidecar, event->record.call_site))
		return 0;
	now = u64_map_insert(&p->resizings, last->ptr, NULL);
	if (!now)
		return -ENOMEM;
	grew = last->bytes > change->object->bytes;
	known.flips += known.was_moved && known.grew != grew;
	if (known.was_moved && known.grew != grew && known.flips == FLIPS)
		check_note(&p->base, REALLOC, event, &heap_change_origin(change)->call_site);
	*now = (struct resizing){known.flips, grew, true};
	return 0;
}

static int note_alloc(struct patterns *p, const struct heap_change *change)
{
	struct last_alloc *last = u64_map_insert(&p->last, change->vcpu, NULL);

	if (!last)
		return -ENOMEM;
	*last = (struct last_alloc){change->ptr, heap_change_origin(change)->call_site,
				    change->object->bytes};
	return 0;
}

/* --- stale frees ----------------------------------------------------------------------------- */

static int count_pair(struct patterns *p, uint64_t alloc_site, uint64_t free_site, uint64_t *count)
{
	uint64_t *pair = u64_map_insert(&p->pairs, mix(alloc_site, free_site), NULL);

	if (!pair)
		return -ENOMEM;
	*count = ++*pair;
	return 0;
}

static uint64_t pairs_of(const struct patterns *p, uint64_t alloc_site, uint64_t free_site)
{
	const uint64_t *pair = u64_map_find(&p->pairs, mix(alloc_site, free_site));

	return pair ? *pair : 0;
}

/* Whether these are usual is known at the end. */
static int check_stale(struct patterns *p, const struct check_event *event,
		       const struct heap_change *change)
{
	uint64_t site = heap_change_origin(change)->call_site, free_site = event->record.call_site,
		 count;
	struct past_life *past = &p->past[mix(change->ptr, 0) % FREED_SLOTS];

	if (count_pair(p, site, free_site, &count))
		return -ENOMEM;
	if (count == 1 && past->ptr == change->ptr && past->free_site == free_site &&
	    past->alloc_site != site && p->nr_candidates < CANDIDATES)
		p->candidates[p->nr_candidates++] =
			(struct candidate){.event = *event,
					   .old_site = past->alloc_site,
					   .site = site,
					   .free_site = free_site,
					   .origin = change->object->origin};
	*past = (struct past_life){change->ptr, site, free_site};
	return 0;
}

static void judge_candidate(struct patterns *p, const struct candidate *c)
{
	if (pairs_of(p, c->site, c->free_site) == 1 &&
	    pairs_of(p, c->old_site, c->free_site) >= USUAL_PAIRS && c->origin < p->nr_origins &&
	    p->origins[c->origin].frees >= USUAL_FREES)
		check_note(&p->base, FREE_STALE, &c->event, &c->site);
}

/* --- the check ------------------------------------------------------------------------------- */

static int free_object(struct patterns *p, struct origin_stats *s, const struct check_event *event,
		       const struct heap_change *change)
{
	int ret;

	s->frees++;
	s->cross_cpu += (uint16_t)change->vcpu != change->object->vcpu;
	if (heap_change_origin(change)->type == KMEM_TYPE_PAGES)
		return 0;
	ret = follow_resizing(p, event, change);
	return ret ? ret : check_stale(p, event, change);
}

static int change(struct check *base, const struct check_event *event,
		  const struct heap_change *change)
{
	struct patterns *p = (struct patterns *)base;
	struct origin_stats *s;
	int ret = 0;

	if (!p->has_begun)
		p->begin_ns = event->at.ns;
	p->has_begun = true;
	if (change->kind != HEAP_ALLOC && change->kind != HEAP_FREE)
		return 0;
	s = stats_of(p, change->object->origin, &ret);
	if (!s)
		return ret;
	if (change->kind == HEAP_FREE)
		return free_object(p, s, event, change);
	ret = count_alloc(p, s, event);
	return ret || heap_change_origin(change)->type == KMEM_TYPE_PAGES ? ret
									  : note_alloc(p, change);
}

static void finish(struct check *base, const struct trace_reader *reader)
{
	struct patterns *p = (struct patterns *)base;

	(void)reader;
	for (size_t i = 0; i < p->nr_origins; i++) {
		const struct origin_stats *s = &p->origins[i];

		if (s->frees >= LEAST_FREES && s->cross_cpu >= s->frees / 10 * 9 && s->allocs)
			check_note(base, CROSS_CPU, &s->first, NULL);
	}
	for (size_t i = 0; i < p->nr_candidates; i++)
		judge_candidate(p, &p->candidates[i]);
}

static void init(struct check *base, const struct sidecar *sidecar)
{
	struct patterns *p = (struct patterns *)base;

	p->sidecar = sidecar;
	u64_map_init(&p->pairs, sizeof(uint64_t));
	u64_map_init(&p->resizings, sizeof(struct resizing));
	u64_map_init(&p->last, sizeof(struct last_alloc));
}

static void deinit(struct check *base)
{
	struct patterns *p = (struct patterns *)base;

	u64_map_deinit(&p->pairs);
	u64_map_deinit(&p->resizings);
	u64_map_deinit(&p->last);
	for (size_t i = 0; i < p->nr_origins; i++)
		free(p->origins[i].times);
	free(p->origins);
}

const struct check_ops check_kmem_patterns = {.classes = classes,
					      .size = sizeof(struct patterns),
					      .init = init,
					      .change = change,
					      .finish = finish,
					      .deinit = deinit};
