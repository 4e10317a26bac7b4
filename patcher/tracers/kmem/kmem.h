/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_KMEM_KMEM_H
#define SONDE_PATCHER_TRACERS_KMEM_KMEM_H

#include "guest-symbols/kmem/allocators.h"
#include "introspect/slab/slab.h"
#include "introspect/tasks/task-reader.h"
#include "patcher/tracers/tracer.h"

/*
 * Inside of the kmem tracer: every allocation and free of slab memory and pages becomes a record.
 * kmem.c makes its probes; alloc.c and free.c know what each kind of entry point means; record.c
 * and page-caller.c complete the records, pending.c hands them out, and filter.c chooses among
 * them. take-run.c does all of that for what is frequent.
 */
enum {
	KMEM_PAGE_SIZE = 4096,
	KMEM_ZERO_SIZE_PTR = 16,    /* what kmalloc(0) returns (include/linux/slab.h) */
	KMEM_MAX_CACHE_SIZE = 8192, /* KMALLOC_MAX_CACHE_SIZE: larger kmalloc is whole pages */
	KMEM_MAX_ORDER = 20,        /* that is believed */
};

/* An instance: which records it wants, and where they go. */
struct kmem_filter;
struct kmem_output {
	uint32_t types;                     /* bit per enum kmem_type_id; 0: it has no stream */
	uint64_t vcpus;                     /* bit per vCPU */
	uint32_t pids[TRACE_SPEC_MAX_PIDS]; /* none: all tasks; else records have their task */
	size_t nr_pids;
	struct kmem_filter *filter; /* NULL: all; it knows the fields of tasks */
	uint32_t needs; /* CAPTURE(...) of each field of tasks that its records have to have */
	struct tracer_stream stream;
};

/* What is done for some instances. */
struct kmem_config {
	uint32_t types; /* bit per enum kmem_type_id, of any of them */
	struct kmem_output *outputs;
	size_t nr_outputs;
	struct probe_gap *gaps;
	size_t nr_gaps;
	const struct kmem_view *view; /* the probes as they capture for them; the tracer's */
};

/* A gap that only instances with one of these types have. */
struct kmem_gap {
	uint32_t types; /* bit per enum kmem_type_id */
	struct probe_gap gap;
};

/* A word of a record, or none: then the mask is 0. */
struct kmem_word {
	uint64_t mask;
	uint8_t number;
};

/*
 * How records of a probe are taken in runs: the numbers of the words that have what is asked for, 0
 * if it has no such word (word 0 is the key).
 */
struct kmem_plan {
	const struct alloc_entry *entry;
	uint32_t class_bit;
	uint8_t event, type, class;   /* of its events: enum kmem_event_id and so on */
	uint8_t word[ALLOC_NR_ROLES]; /* by role: the argument */
	uint8_t called_from;          /* the return address */
	uint8_t site;                 /* the call site to report, but of pages, where it is ... */
	uint8_t stack, stack_words;   /* ... called_from, or found in these words */
	uint8_t pid, tgid, comm, cgroup; /* of the task */
	bool finds_cache;                /* the return's record has the cache */
	/* What a record says of an object: the words that have it, those of the return's record
	 * included. Masks are all ones, or 0: such a record does not say it. */
	uint8_t object;
	struct kmem_word cache, size, gfp, node;
	int32_t no_node;               /* what it has instead */
	uint64_t allocated, requested; /* masks: the cache's sizes */
	uint64_t has_no_cache;         /* not 0: it may say none */
	bool all_count;                /* alloc_call_counts() is true */
	bool may_free_caches;          /* what it frees may be a struct kmem_cache */
};

/* Where the guest's pages are, as read for the hits of a batch (struct probe_hit); 0: of none. */
struct kmem_map {
	uint64_t batch;
	struct slab_map map;
};

/*
 * What the probes capture while instances want these fields of tasks (view.c). A trace has records
 * of two views where one follows the other: those of the former one lack what is new.
 */
struct kmem_view {
	struct task_places task;
	uint32_t captured; /* of these: CAPTURE(...) of each */
	struct probe *probes;
	struct kmem_plan *plans; /* of the probes */
};

struct kmem_tracer {
	struct tracer tracer;
	struct tracer_context context;
	struct slab_view *slab;
	struct page_lookup pages; /* of slab */
	struct kmem_map *map;     /* likewise */
	struct kmem_view
		*views[PROBE_VIEWS];     /* by enum event_task_fields: made when one is wanted */
	uint32_t needed;                 /* of these: what all views have, for a pid gate */
	const struct kmem_view *adopted; /* what `probes` capture */
	const struct kmem_view *view;    /* that is in use: what records have to have */
	struct kmem_config *config;   /* likewise; NULL at first */
	uint32_t types;              /* its own */
	struct kmem_output *outputs; /* likewise */
	size_t nr_outputs;
	struct kmem_pending *pending;
	uint64_t *stack;          /* of the hit that is handled: EVENT_STACK_WORDS words */
	struct cache_ids *caches; /* cache-ids.h */
	struct page_callers *page_callers;
	struct filled_pages *filled;
	const struct alloc_points *points; /* the image's; the probes' data points into it */
	const struct alloc_point **traced; /* those of the probes */
	struct probe *probes;              /* they capture what traps do: what was adopted */
	size_t nr_probes;
	struct kmem_gap *gaps;
	size_t nr_gaps;
};

extern const struct tracer_ops tracer_kmem; /* registry.c lists it */

/* --- filters of instances (filter.c) --------------------------------------------------------- */

/* The spec's filter. The kernel and the writer of `context` must outlive it. Errors as
 * event_filter_parse() and event_filter_bind(), with the column in the spec. */
int kmem_filter_create(const struct tracer_context *context, const struct trace_spec *spec,
		       struct kmem_filter **out, struct error *err);
/* Whether the spec's filter, if it has one, suits records of its tasks' fields: errors likewise.
 * Names of flags are not looked at. */
int kmem_filter_check(const struct trace_spec *spec, struct error *err);
/* The same, with the names of flags that the image has. */
int kmem_filter_check_image(const struct trace_spec *spec, const struct kernel_image *image,
			    struct error *err);
/* `note` of struct tracer_ops: where functions of modules have no names, and the filter asks for
 * some that may be theirs. */
int kmem_filter_note(const struct trace_spec *spec, const struct kernel *kernel,
		     struct function_notes *notes, struct error *err);
/* NULL-safe. */
void kmem_filter_destroy(struct kmem_filter *filter);

/* Whether it takes a record that is complete: a struct kmem_task_record, if the filter has fields
 * of tasks. May read names of modules from the guest. */
bool kmem_filter_matches(struct kmem_filter *filter, unsigned int vcpu,
			 const struct kmem_record *record);

/* --- records --------------------------------------------------------------------------------- */

/* Where and when an allocation or a free was: of a hit, or of a record. */
struct kmem_moment {
	unsigned int vcpu;
	int64_t ns;
	uint64_t batch;                /* as in struct probe_hit */
	const struct event_task *task; /* NULL: the view has nothing of it */
	uint32_t lacks;                /* CAPTURE(...) of what the view has, but not this one */
};

static inline struct kmem_moment kmem_moment_of(const struct probe_hit *hit)
{
	return (struct kmem_moment){hit->vcpu, (int64_t)hit->time_ns, hit->batch, NULL, 0};
}

static inline struct kmem_moment kmem_moment_of_record(const struct probe_record *record)
{
	return (struct kmem_moment){record->cpu->vcpu, (int64_t)probe_record_ns(record),
				    record->cpu->batch, NULL, 0};
}

/* The argument in that role, or `otherwise` if the function has none. */
static inline uint64_t kmem_argument(const struct alloc_entry *entry,
				     const uint64_t words[CAPTURE_ARGUMENTS], enum alloc_role role,
				     uint64_t otherwise)
{
	uint8_t argument = entry->argument[role];

	return argument ? words[argument - 1] : otherwise;
}

/* The call site to report of a hit: the argument that holds one, the first caller outside the page
 * allocator, or the return address. */
uint64_t kmem_call_site(const struct kmem_tracer *t, const struct alloc_entry *entry,
			const struct probe_hit *hit);

/* Whether a return address lies in a function or in a part of it (fn.cold). */
bool kmem_is_in_body(const struct kernel *kernel, uint64_t return_address, const char *function);

/* A page order that the guest wrote, 32 bits. */
static inline bool kmem_believes(uint64_t order)
{
	return (uint32_t)order <= KMEM_MAX_ORDER;
}

/* kmem_class_of() of a record that this tracer has made. */
static inline enum kmem_class kmem_made_class(const struct kmem_record *record)
{
	if (record->event_id == KMEM_EVENT_ALLOC)
		return KMEM_CLASS_KMALLOC + record->type_id;
	if (record->cache && record->type_id != KMEM_TYPE_CACHE)
		return KMEM_CLASS_OTHER;
	return KMEM_CLASS_KFREE + record->type_id;
}

/* --- records that wait for their streams, which get many at once (pending.c) ------------------ */

enum { KMEM_PENDING = 64 }; /* of a vCPU */

struct kmem_pending {
	uint64_t vcpus; /* bit per vCPU that has some */
	struct kmem_pending_vcpu {
		size_t n;
		uint32_t seen; /* bit per enum kmem_class: that there are records of */
		bool any_lacks;                /* else all of `lacks` are 0 */
		uint32_t lacks[KMEM_PENDING];  /* as in struct kmem_moment */
		uint8_t classes[KMEM_PENDING]; /* enum kmem_class */
		struct kmem_task_record records[KMEM_PENDING]; /* tasks: as far as captured */
	} v[];
};

/* -ENOMEM. The result is to be freed. */
int kmem_pending_create(unsigned int nr_vcpus, struct kmem_pending **out, struct error *err);
/* Hand out those of a vCPU, to the instances that want them. */
void kmem_pending_put(const struct kmem_tracer *t, unsigned int vcpu);
/* Those of all vCPUs. */
void kmem_pending_put_all(const struct kmem_tracer *t);

/* A vCPU's, with room for one more at least: records[n] and classes[n]. */
static inline struct kmem_pending_vcpu *kmem_pending_room(const struct kmem_tracer *t,
							  unsigned int vcpu)
{
	struct kmem_pending_vcpu *p = &t->pending->v[vcpu];

	if (p->n == KMEM_PENDING)
		kmem_pending_put(t, vcpu);
	t->pending->vcpus |= UINT64_C(1) << vcpu;
	return p;
}

/* Where the vCPU's next record goes, which is complete before the next call, and lacks nothing. */
static inline struct kmem_task_record *
kmem_pending_next(const struct kmem_tracer *t, unsigned int vcpu, enum kmem_class class)
{
	struct kmem_pending_vcpu *p = kmem_pending_room(t, vcpu);

	p->seen |= 1u << class;
	p->classes[p->n] = (uint8_t) class;
	return &p->records[p->n++];
}

/* Whether an instance wants a record, which lacks this (struct kmem_moment). */
bool kmem_is_wanted(const struct kmem_output *output, unsigned int vcpu,
		    const struct kmem_task_record *record, uint32_t lacks);

/* What of the view was not captured. */
static inline uint32_t kmem_lacks(const struct kmem_tracer *t, uint32_t captured)
{
	return t->view->captured & ~captured;
}

/* If chains are recorded: that of this record is the one of all that is emitted until the next one.
 */
void kmem_note_chain(const struct kmem_tracer *t, const struct probe_record *record);

/* kmem_emit() of a record whose task is known. */
void kmem_emit_with_task(const struct kmem_tracer *t, const struct kmem_moment *at,
			 struct kmem_record *record);

/* Time-stamp and append, if the record's type is traced. */
static inline void kmem_emit(const struct kmem_tracer *t, const struct kmem_moment *at,
			     struct kmem_record *record)
{
	record->timestamp = at->ns;
	if (at->task)
		kmem_emit_with_task(t, at, record);
	else
		kmem_pending_next(t, at->vcpu, kmem_made_class(record))->record = *record;
}

/* gva of the memory of a struct page, for hits of this batch. False: it is not known. */
bool kmem_page_address(const struct kmem_tracer *t, uint64_t batch, uint64_t page, uint64_t *gva);

/* Complete (address, sizes) and emit a record about 2^order pages at struct page `page`. Without
 * an order that kmem_believes(), or an address, it is counted as unreadable. */
void kmem_emit_pages(const struct kmem_tracer *t, const struct kmem_moment *at, uint64_t page,
		     uint64_t order, struct kmem_record *record);

/* --- allocations and frees; see struct tracer_ops -------------------------------------------- */

void kmem_free_entry(const struct kmem_tracer *t, const struct probe *probe,
		     const struct probe_hit *hit);
void kmem_free_take(struct tracer *tracer, const struct probe *probe,
		    const struct probe_record *record);
void kmem_alloc_entry(const struct kmem_tracer *t, const struct probe *probe,
		      const struct probe_hit *hit, struct open_call *call);
bool kmem_alloc_return(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct probe_hit *hit, const struct open_call *call);
void kmem_alloc_take(struct tracer *tracer, const struct probe *probe,
		     const struct probe_record *record, struct open_call *call);
bool kmem_alloc_take_return(struct tracer *tracer, const struct probe *probe,
			    const struct probe_record *record, const struct open_call *call);
/* One object of a bulk allocation that has not returned yet. */
void kmem_alloc_object(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct kmem_moment *at, const struct open_call *call, uint64_t object);

/* --- what probes capture (view.c) ------------------------------------------------------------ */

/* CAPTURE(...) of each of these of enum event_task_fields. */
uint32_t kmem_capture_of(uint32_t fields);
/* That of these fields, and of those that all have, which is made if there is none. Errors as
 * task_places_find() and chain_check(). */
int kmem_view_find(struct kmem_tracer *t, uint32_t fields, const struct kmem_view **out,
		   struct error *err);
void kmem_views_destroy(struct kmem_tracer *t);
/* See struct tracer_ops. */
const struct probe *kmem_config_view(const struct tracer_config *config, unsigned int *number);
void kmem_adopt(struct tracer *tracer, const struct tracer_config *config);

/* --- runs of records (take-run.c) ------------------------------------------------------------ */

/* Whether a probe's records can go in runs, and how. */
bool kmem_plan_make(const struct kmem_tracer *t, const struct kmem_view *view,
		    const struct probe *probe, struct kmem_plan *plan);
/* See struct tracer_ops. */
size_t kmem_take_run(struct tracer *tracer, const struct probe_run *run);

/* --- instances (instances.c); see struct tracer_ops ------------------------------------------ */

/* What the specs ask for of tasks: enum event_task_fields; and what has to be captured for that. */
uint32_t kmem_task_fields(const struct trace_spec *spec);
/* A bit per enum kmem_type: what it records. */
uint32_t kmem_types_of(const struct trace_spec *spec);
uint32_t kmem_captured_fields(const struct trace_spec *spec);
const struct event_class *kmem_spec_classes(const struct trace_spec *spec, size_t *n);
bool kmem_wants(const struct tracer *tracer, const struct trace_spec *spec,
		const struct probe *probe);
void kmem_conditions(const struct tracer *tracer, const struct trace_spec *spec,
		     enum tracer_decider decider, char *out, size_t size);
int kmem_configure(struct tracer *tracer, const struct trace_spec *const *specs, size_t nr_specs,
		   const struct tracer_stream *streams, enum tracer_capture capture,
		   struct tracer_config **out, struct error *err);
struct tracer_config *kmem_use(struct tracer *tracer, struct tracer_config *config);
void kmem_config_destroy(struct tracer_config *config);
const struct probe_gap *kmem_gaps(const struct tracer_config *config, size_t *n);

/* --- pages that lay in an array before a bulk call filled its holes -------------------------- */

struct filled_pages;

/* -ENOMEM. Its memory comes out of the budget, which may be NULL. Destroying is NULL-safe. */
int filled_pages_create(struct budget *budget, struct filled_pages **out, struct error *err);
void filled_pages_destroy(struct filled_pages *filled);

/* Note pages (gvas of struct pages) that lie in the array of the call with this number, which is
 * given to it if it is 0. False if there is no room for them. */
bool filled_pages_note(struct filled_pages *filled, uint64_t *call, const uint64_t *pages,
		       size_t n);

/* Forget all. */
void filled_pages_clear(struct filled_pages *filled);

/* Whether a page was noted for the call, which is forgotten by that. */
bool filled_pages_take(struct filled_pages *filled, uint64_t call, uint64_t page);

/* --- callers of the page allocator ----------------------------------------------------------- */

/*
 * The page allocator is traced at its innermost function, whose caller is nearly always a wrapper
 * like alloc_pages(). This finds the function that called the outermost wrapper.
 */
struct page_callers;

/* `kernel` is borrowed. Without ORC tables frames are read from its wrappers' instructions.
 * -ENOMEM; -ENOENT: no disassembler. */
int page_callers_create(const struct kernel *kernel, struct page_callers **out, struct error *err);
void page_callers_destroy(struct page_callers *callers);

/*
 * The first return address that is in no wrapper, starting from `call_site`; `stack` has the `n`
 * words that lay behind it on the stack, maybe in the guest's memory. If the words end before, or
 * the unwind tables do not help, it is the last one found. The numbers of words were counted on
 * Debian's kernels under mixed load: allocations need 8 to 19, a few 31, frees of one page none,
 * frees of many pages 10 to 20. In Ubuntu's, which have no ORC tables, frees of one page need 11.
 */
enum {
	PAGE_CALLER_STACK = 31,
	PAGE_CALLER_STACK_FREE = 6,
	PAGE_CALLER_STACK_FREE_WITHOUT_ORC = 12,
	PAGE_CALLER_STACK_WITH_ITEMS = 20,
};
uint64_t page_callers_resolve(const struct page_callers *callers, uint64_t call_site,
			      const uint64_t *stack, size_t n);

#endif
