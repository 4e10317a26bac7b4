/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_HEAP_H
#define SONDE_FORMATS_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/text.h"
#include "formats/event/kmem.h"
#include "formats/heap/sum.h"
#include "formats/trace/sidecar.h"

/*
 * The live heap of a guest, replayed from the events of one kmem instance in the order of time. It
 * is kept once, for all analyses: each event becomes one or several changes that they are told of.
 *
 * Slab objects lie in pages that the guest has allocated as well. The heap knows which ones, so
 * that memory is counted once: pages; of these slabs, and of these objects. A block of pages is a
 * slab if the call that allocated it is known as the slab allocator's (site-role.h), or if objects
 * turn up in several blocks of that call site. Where that is the page allocator's own function,
 * which serves all, a block is a slab from its first object on.
 *
 * What a wrapper such as kvmalloc() allocates is charged to its caller, if the event has a call
 * chain that names one (callers.h).
 *
 * Memory grows with the number of live objects, origins and places in call chains, not with the
 * length of the trace.
 */
struct heap;

enum { HEAP_PAGE_SIZE = 4096 };

/* What pages are used for. */
enum heap_role {
	HEAP_PLAIN, /* by their call site itself */
	HEAP_SLAB,  /* for slab objects */
	HEAP_LARGE, /* for a kmalloc() object each, which is in the trace, too */
	HEAP_ROLES
};

/* Where a slab object lies. */
enum heap_place {
	HEAP_OUTSIDE, /* in pages whose allocation is not in the trace */
	HEAP_IN_SLAB,
	HEAP_IS_BLOCK, /* it is a whole block of pages: a large kmalloc() object */
	HEAP_PLACES
};

/* What allocations have in common: call site, type and cache. */
struct heap_origin {
	uint64_t call_site;     /* that is charged */
	uint64_t live_bytes;    /* of pages */
	uint32_t next;          /* another origin of the call site, plus 1; 0: none */
	uint32_t blocks, votes; /* of pages: allocated; and that had objects in them */
	uint16_t cache;         /* id in the sidecar; 0: none */
	uint8_t type;           /* enum kmem_type_id */
	uint8_t role;           /* enum heap_role, of pages */
	bool is_wrapper;        /* its function allocates for its callers, which are not known */
	bool is_target;         /* of pages: that others are moved to */
	bool is_mixed; /* of pages of any use: what lies in a block says what it is used for */
};

/* A live object, or block of pages. */
struct heap_object {
	uint64_t bytes, requested;
	int64_t born_ns;
	uint32_t origin; /* index of an origin */
	int32_t node;    /* that was asked for; -1: any */
	uint16_t vcpu;
	uint16_t task;  /* number, see heap_set_task() */
	uint16_t cache; /* that of the origin */
	uint8_t place; /* enum heap_place, of a slab object */
	uint8_t role;  /* enum heap_role, of a block: what it was taken for when it was allocated */
	uint8_t turned; /* enum heap_role, of a block of a mixed origin: what it is used for */
	bool has_voted; /* of a block: it is known to have objects in it */
	bool selected;  /* by the user's filters; the others are kept so that their frees match */
};

enum heap_change_kind {
	HEAP_ALLOC,
	HEAP_FREE,
	HEAP_MISSED_FREE, /* the object is gone, as its address was allocated again */
	HEAP_SPLIT, /* the block will be freed in pieces: it is now `pieces` blocks of a page */
	HEAP_UNKNOWN_FREE, /* of an object whose allocation is not in the trace */
	HEAP_INVALID,      /* the record has an unknown event or type id */
};

struct heap_change {
	enum heap_change_kind kind;
	const struct kmem_record *record; /* that it comes from */
	unsigned int vcpu;                /* of the record */
	bool is_first; /* of the record's changes that are frees; others belong to one record */
	bool cross_node; /* of HEAP_FREE: its vCPU belongs to another node than the memory */
	uint16_t slab_of; /* of a slab that goes: the cache; 0: it is none, or that is not known */
	uint32_t pieces;
	uint64_t ptr;
	uint64_t call_site; /* of the record; of an allocation the one that is charged */
	const struct heap_object *object; /* not of the last two kinds: NULL */
	const struct heap *heap;
};

/* Told of each change, before an object that is gone is removed. Returns 0 or -ENOMEM. */
typedef int heap_change_fn(void *arg, const struct heap_change *change);

/* What is live now. */
struct heap_totals {
	struct heap_sum pages[HEAP_ROLES];
	struct heap_sum objects[HEAP_PLACES];
};

/* The slabs of a cache. */
struct heap_cache {
	struct heap_sum slabs;   /* that are live, with at least one object ever in them */
	struct heap_sum objects; /* live ones in these */
	uint32_t misses;         /* objects in a row whose slab was not found */
	bool is_used;            /* the trace has an object of it */
};

/* The sidecar may be NULL; it must outlive the heap. NULL: no memory. */
struct heap *heap_create(const struct sidecar *sidecar, heap_change_fn *fn, void *arg);
/* NULL-safe. */
void heap_destroy(struct heap *heap);

/* Tell another function of the changes from now on. */
void heap_set_fn(struct heap *heap, heap_change_fn *fn, void *arg);

/* Before the first event: charge the call sites of the records. */
void heap_ignore_chains(struct heap *heap);

/* Have the processor load what a record that comes soon (or NULL) will change. */
void heap_prefetch(const struct heap *heap, const struct kmem_record *record);
/* Before that, what says where this is. */
void heap_prefetch_place(const struct heap *heap, const struct kmem_record *record);

/* Objects that are allocated from now on belong to the task of this event of kmem, if its tracer
 * recorded tasks. Without a call the task is unknown. Returns 0 or -ENOMEM. */
int heap_set_task(struct heap *heap, const struct event *event);
/* The name of a task: "sh-123", or less if the trace says less. */
struct text heap_task_text(const struct heap *heap, uint16_t task);

/* `selected` is that of the object if the record is an allocation. Returns 0 or -ENOMEM. */
int heap_apply(struct heap *heap, const struct kmem_record *record, unsigned int vcpu,
	       bool selected);
/* The same of the record that an event of kmem is: its call chain says who is charged. */
int heap_apply_event(struct heap *heap, const struct event *event, const struct kmem_record *record,
		     bool selected);
/* In two steps: *call_site is the one that is charged with an allocation, or that of the record. */
int heap_charge(struct heap *heap, const struct event *event, const struct kmem_record *record,
		uint64_t *call_site);
int heap_apply_charged(struct heap *heap, const struct event *event,
		       const struct kmem_record *record, uint64_t call_site, bool selected);

/* Valid until the heap is destroyed. */
const struct heap_totals *heap_totals(const struct heap *heap);

/* Bytes of memory that are in use, each counted once: pages, and objects outside of known ones. */
uint64_t heap_live_bytes(const struct heap *heap);

/* The greatest sum of bytes that `n` live objects can have: how much too high sums may be if the
 * trace lacks n frees. */
uint64_t heap_most_bytes(const struct heap *heap, uint64_t n);

/*
 * Of pages that the kernel has moved to others, for which there is no event: compaction takes free
 * pages without one, and frees the former ones. At most so many bytes are in use, and not among
 * what is live.
 */
uint64_t heap_moved_bytes(const struct heap *heap);

/* Whether an object or block is counted elsewhere, too: as the slab that has it, as the object that
 * it is the block of. What is left counts each byte of objects once. */
bool heap_is_backing(const struct heap_origin *origin);

size_t heap_nr_origins(const struct heap *heap);
const struct heap_origin *heap_origin(const struct heap *heap, uint32_t index);
/* That of the change's object, which there is. */
const struct heap_origin *heap_change_origin(const struct heap_change *change);

/* NULL: there is no slab of this cache (0: of no known one). */
const struct heap_cache *heap_cache(const struct heap *heap, uint16_t cache);

/* Iterate over caches in no order: start with *pos = 0; NULL at the end. */
const struct heap_cache *heap_next_cache(const struct heap *heap, size_t *pos, uint16_t *cache);

/* Call a function for each live object, in no order, with its address. */
typedef void heap_object_fn(void *arg, uint64_t ptr, const struct heap_object *object);
void heap_each(const struct heap *heap, heap_object_fn *fn, void *arg);

/* Bytes of memory that it holds. */
size_t heap_memory(const struct heap *heap);

#endif
