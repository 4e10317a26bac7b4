/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_KMEM_RECORD_H
#define SONDE_PATCHER_TRACERS_KMEM_RECORD_H

#include "guest-symbols/kmem/allocators.h"
#include "introspect/slab/slab.h"
#include "patcher/tracers/kmem/cache-ids.h"
#include "patcher/tracers/kmem/page-caller.h"
#include "patcher/tracer.h"

/*
 * Inside of the kmem tracer: its state, and how arguments become records. tracer-kmem.c sets up,
 * kmem-alloc.c and kmem-free.c know what each kind of entry point means.
 */
enum {
	KMEM_PAGE_SIZE = 4096,
	KMEM_ZERO_SIZE_PTR = 16,    /* what kmalloc(0) returns (include/linux/slab.h) */
	KMEM_MAX_CACHE_SIZE = 8192, /* KMALLOC_MAX_CACHE_SIZE: larger kmalloc is whole pages */
	KMEM_BULK_MAX = 1 << 16,    /* cap on what one bulk call of a hostile guest makes us read */
	KMEM_PAGE_ORDER_MASK = 63,  /* struct capture_items, page_orders */
};

struct kmem_tracer {
	struct tracer tracer;
	struct tracer_context context;
	uint32_t types; /* bit per enum kmem_type_id */
	struct cache_ids *caches;
	struct page_callers *page_callers;
	struct alloc_points points; /* what the probes' data points to */
	struct probe *probes;
	size_t nr_probes;
	struct tracer_gap *gaps;
	size_t nr_gaps;
};

/* The argument in that role, or `otherwise` if the function has none. */
uint64_t kmem_argument(const struct alloc_entry *entry, const uint64_t words[STASH_WORDS],
		       enum alloc_role role, uint64_t otherwise);

/* Whom to blame for what was entered: the argument that says so, the first caller outside the page
 * allocator, or the return address. */
uint64_t kmem_call_site(const struct kmem_tracer *t, const struct alloc_entry *entry,
			const struct probe_hit *hit);

/* Whether a return address lies in a function or in a part of it (fn.cold). */
bool kmem_is_in_body(const struct kernel *kernel, uint64_t return_address, const char *function);

/* A page order that a guest gave us; nonsense is 0. */
unsigned int kmem_order(uint64_t order);

/* Time-stamp and append, if the record's type is traced. */
void kmem_emit(const struct kmem_tracer *t, const struct probe_hit *hit,
	       struct kmem_record *record);

/* Complete (address, sizes) and emit a record about 2^order pages at struct page `page`. */
void kmem_emit_pages(const struct kmem_tracer *t, const struct probe_hit *hit, uint64_t page,
		     unsigned int order, struct kmem_record *record);

/* Complete (sizes, cache id) and emit an allocation from `cache`, or of whole pages by kmalloc() if
 * that is 0. */
void kmem_emit_alloc(const struct kmem_tracer *t, const struct probe_hit *hit, uint64_t cache,
		     struct kmem_record *record);

/* The two halves of the tracer; see struct tracer_ops. */
void kmem_free_entry(const struct kmem_tracer *t, const struct alloc_entry *entry,
		     const struct probe_hit *hit);
void kmem_alloc_entry(const struct kmem_tracer *t, const struct alloc_entry *entry,
		      const struct probe_hit *hit, struct open_call *call);
bool kmem_alloc_return(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct probe_hit *hit, const struct open_call *call);
/* One object of a bulk allocation that has not returned yet. */
void kmem_alloc_object(const struct kmem_tracer *t, const struct alloc_entry *entry,
		       const struct probe_hit *hit, const struct open_call *call, uint64_t object);

#endif
