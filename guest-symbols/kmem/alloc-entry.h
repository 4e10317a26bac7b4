/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_GUEST_SYMBOLS_KMEM_ALLOC_ENTRY_H
#define SONDE_GUEST_SYMBOLS_KMEM_ALLOC_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/record.h"

struct kernel_image;

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
};

/* What an entry point does and where its result is. */
enum alloc_action {
	ALLOC_ACTION_ALLOC,      /* returns the object (or struct page * / folio *) */
	ALLOC_ACTION_FREE,       /* frees its OBJECT or PAGE argument; traced at entry only */
	ALLOC_ACTION_ALLOC_BULK, /* returns a count; objects in ARRAY[0..count) at return */
	ALLOC_ACTION_FREE_BULK,  /* frees ARRAY[0..COUNT) or the pages on LIST or in BATCH, at entry
				  */
};

struct alloc_entry {
	const char *name; /* function name */
	enum kmem_type_id type;
	enum alloc_action action;
	enum alloc_role args[ALLOC_MAX_ARGS];
};

/* An entry point that this kernel has. */
struct alloc_point {
	const struct alloc_entry *entry;
	uint64_t address; /* link-time address of the function */
	uint64_t size;    /* bytes of its body */
	uint64_t site;    /* link-time address of its mcount site, 0 = none */
	bool checked;     /* roles agree with the BTF prototype (false: BTF has no prototype) */
	unsigned int nr_params; /* that it has according to BTF; 0 = not known */
};

struct alloc_points {
	struct alloc_point *v;
	size_t n;
};

/*
 * Resolve the table of alternatives against an image. Fails loudly (-ENOENT) if a family (kmalloc,
 * kmalloc free, cache alloc, cache free, page alloc, page free) resolves to nothing, and (-EPROTO)
 * if a prototype in BTF contradicts the role table; *err names family, function and parameter.
 */
int alloc_points_resolve(const struct kernel_image *image, struct alloc_points *out,
			 struct error *err);
void alloc_points_free(struct alloc_points *points);

const char *alloc_role_name(enum alloc_role role); /* "cache", "size", ... */

#endif
