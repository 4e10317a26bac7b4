/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HEAP_SITE_ROLE_H
#define SONDE_FORMATS_HEAP_SITE_ROLE_H

#include "formats/trace/sidecar.h"

/*
 * What a call site does for others. The kernel's allocators are built on each other: the slab
 * allocator takes its slabs from the page allocator, and large kmalloc() calls go there, too. Their
 * calls are no use of memory of its own.
 */
enum site_role {
	SITE_PLAIN,
	SITE_SLAB,    /* the slab allocator takes pages for a slab */
	SITE_LARGE,   /* kmalloc() takes pages for one large object */
	SITE_WRAPPER, /* kvmalloc(), kstrdup(), nodes of an xarray and so on: on behalf of a caller,
			 and what an allocator keeps to work with, such as kmem_cache_create()'s */
	SITE_PAGES,   /* the page allocator itself: on behalf of any of these, and of callers */
	SITE_ENTRY,   /* kmalloc() itself and so on: between a caller and the above */
	SITE_RUNNER, /* runs whatever is registered, as do_one_initcall() and process_one_work() do:
			says nothing about who allocates */
};

/* By the function's name; SITE_PLAIN where the sidecar (may be NULL) has none. */
enum site_role site_role(const struct sidecar *sidecar, uint64_t call_site);

#endif
