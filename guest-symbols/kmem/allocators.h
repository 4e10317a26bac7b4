/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_KMEM_ALLOCATORS_H
#define SONDE_GUEST_SYMBOLS_KMEM_ALLOCATORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/kmem.h"
#include "formats/event/trace-info.h"
#include "guest-symbols/btf/btf.h"
#include "guest-symbols/image/kernel-image.h"

/*
 * A kernel's memory allocators: the functions through which memory is allocated and freed. They are
 * resolved on demand; loading an image does not need them.
 */

/* Which of the six register arguments (RDI, RSI, RDX, RCX, R8, R9) plays which role. */
enum { ALLOC_MAX_ARGS = 6 };
enum alloc_role {
	ALLOC_ROLE_NONE,
	ALLOC_ROLE_CACHE, /* struct kmem_cache *; may be NULL in bulk frees (then kmalloc memory) */
	ALLOC_ROLE_SIZE,  /* bytes asked for */
	ALLOC_ROLE_GFP,   /* gfp_t */
	ALLOC_ROLE_NODE,  /* NUMA node */
	ALLOC_ROLE_CALLER, /* unsigned long: the call site to report instead of the return address
			    */
	ALLOC_ROLE_OBJECT, /* pointer being freed */
	ALLOC_ROLE_PAGE,   /* struct page * or struct folio * being freed */
	ALLOC_ROLE_ORDER,  /* page order */
	ALLOC_ROLE_COUNT,  /* number of objects of a bulk operation */
	ALLOC_ROLE_ARRAY,  /* void ** of a bulk operation, or struct page ** */
	ALLOC_ROLE_LIST,   /* struct list_head * of pages (bulk page free or alloc) */
	ALLOC_ROLE_BATCH,  /* struct folio_batch * being freed */
	ALLOC_ROLE_SHEAF,  /* struct rcu_head * of a struct slab_sheaf: its objects[0..size) are
			      freed */
	ALLOC_NR_ROLES,
};

/* What an entry point does and where its result is. */
enum alloc_action {
	ALLOC_ACTION_ALLOC,      /* returns the object (or struct page * / folio *) */
	ALLOC_ACTION_FREE,       /* frees its OBJECT or PAGE argument; traced at entry only */
	ALLOC_ACTION_ALLOC_BULK, /* returns a count; objects in ARRAY[0..count) at return. Or, with
				    all_or_none, whether COUNT objects are in ARRAY */
	ALLOC_ACTION_FREE_BULK,  /* frees ARRAY[0..COUNT) or the pages on LIST or in BATCH, at entry
				  */
	ALLOC_ACTION_FREE_LAST,  /* drops a reference to its PAGE, and frees it if it was the last
				  */
	ALLOC_NR_ACTIONS,
};

struct alloc_entry {
	const char *name; /* function name */
	enum kmem_type_id type;
	enum alloc_action action;
	enum alloc_role args[ALLOC_MAX_ARGS];
	/*
	 * The calls that count, by their link-time return addresses, sorted; none: all do. The
	 * others have come through another entry point, which counts them.
	 */
	uint64_t *calls;
	size_t nr_calls;
	/* Calls from this function's body do not count: the objects were counted before. */
	struct alloc_body {
		uint64_t start, end; /* link-time addresses; 0 = none */
	} counted_by;
	bool all_or_none;                 /* ALLOC_BULK: the result is a bool */
	uint8_t argument[ALLOC_NR_ROLES]; /* the same the other way round: 1 + its index, 0 = none
					   */
};

/* An entry point that this kernel has. */
struct alloc_point {
	struct alloc_entry entry;
	uint64_t address;       /* link-time address of the function */
	uint64_t size;          /* bytes of its body */
	uint64_t site;          /* link-time address of its mcount site */
	unsigned int nr_params; /* according to BTF */
};

/* A function, or a whole family of them, that could not be made an entry point. */
struct alloc_unresolved {
	const char *name; /* of the function, or of the family: static */
	enum kmem_type_id type;
	bool frees;
	uint64_t address; /* link-time address of the function; 0 for a family */
	char reason[128]; /* "BTF shows no parameter that is the size" */
};

/* How a function that emits the kernel's own trace events about allocations is covered. */
enum alloc_cover {
	ALLOC_COVER_PROBE,  /* it is an entry point */
	ALLOC_COVER_NESTED, /* only entry points of its family call it, or what only they call */
	ALLOC_COVER_UNUSED, /* nothing in the kernel's file calls it */
	ALLOC_COVER_NONE,   /* its events may be missed */
};

struct alloc_emitter {
	const char *function; /* the image's */
	const char *event;    /* "kmem:mm_page_free"; static */
	uint64_t address;     /* link-time address of the function */
	enum kmem_type_id type;
	bool frees;
	enum alloc_cover cover;
	char reason[160]; /* of ALLOC_COVER_NONE: "called by make_alloc_exact, which is not traced"
			   */
};

struct alloc_points {
	struct alloc_point *v; /* all have an mcount site */
	size_t n;
	struct alloc_unresolved *unresolved;
	size_t nr_unresolved;
	struct alloc_emitter *emitters; /* by address */
	size_t nr_emitters;
	char unproven[128]; /* why it is not known which functions emit events; "" if it is */
};

/* The allocators of an image, resolved and proven at the first call; *out is the image's. -ENOMEM.
 */
int alloc_points_of(const struct kernel_image *image, const struct alloc_points **out,
		    struct error *err);

/*
 * Resolve the allocators of an image, which must live as long as *out. What the kernel lacks, and
 * what BTF does not prove, goes to out->unresolved. -ENOMEM.
 */
int alloc_points_resolve(const struct kernel_image *image, struct alloc_points *out,
			 struct error *err);
void alloc_points_free(struct alloc_points *points);

/*
 * Find the functions that emit an event kmem:kmalloc, kfree, kmem_cache_alloc, kmem_cache_free,
 * mm_page_alloc or mm_page_free, and prove for each that the entry points cover it, from the
 * image's jump table and its direct branches. A function that is not covered, and whose parameters
 * BTF proves, becomes an entry point; if it frees, for the calls that come through no other.
 * -ENOMEM.
 */
int alloc_points_prove(const struct kernel_image *image, struct alloc_points *points,
		       struct error *err);

/* Make an entry point of a function, given entry.name, type and action: its site and its roles.
 * -ENOTSUP without a site; -ENOENT without a prototype; errors as alloc_roles_derive(). */
int alloc_point_init(const struct kernel_image *image, const struct symbol *function,
		     struct alloc_point *point, struct error *err);

bool alloc_action_frees(enum alloc_action action);

/* Whether it is one of entry->calls. */
bool alloc_call_is_listed(const struct alloc_entry *entry, uint64_t return_address);

/* Whether a call counts that returns to a link-time address. */
static inline bool alloc_call_counts(const struct alloc_entry *entry, uint64_t return_address)
{
	/* a return address may lie right behind the body */
	if (return_address - 1 - entry->counted_by.start <
	    entry->counted_by.end - entry->counted_by.start)
		return false;
	return !entry->nr_calls || alloc_call_is_listed(entry, return_address);
}

/* "cache", "size", ...; "kmalloc allocation", "page free", ... */
const char *alloc_role_name(enum alloc_role role);
const char *alloc_family_name(enum kmem_type_id type, bool frees);

/*
 * Derive entry->args, which parameter plays which role, and all_or_none from a prototype's names
 * and types; the order of parameters does not matter, and those without a role are ignored. -EPROTO
 * if a role that the entry's action needs has no parameter or several, or if the result is not what
 * the action needs.
 */
int alloc_roles_derive(struct alloc_entry *entry, const struct btf_prototype *prototype,
		       struct error *err);

/*
 * The names of the kernel's GFP flags, from the table by which its own trace events print them:
 * gfpflag_names (mm/debug.c), an array of struct trace_print_flags {unsigned long mask; const char
 * *name} that ends with a mask of 0. Combinations such as GFP_KERNEL come before single flags.
 * Fills info->gfp_names and info->nr_gfp_names; none if the image has no such table.
 */
void gfp_names_read(const struct kernel_image *image, struct trace_info *info);

/* Which slab allocator the kernel is built with, by the members of its struct kmem_cache: "slub",
 * "slab" or "slob"; "" if BTF does not say. */
const char *slab_allocator_of(const struct kernel_image *image);

#endif
