/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/kmem/alloc-rules.h"

/*
 * Principle: the functions taken are those that emit the guest's own trace events kmem:kmalloc,
 * kfree, kmem_cache_alloc, kmem_cache_free, mm_page_alloc and mm_page_free, so that records and
 * events agree one to one; and the bulk operations, which have no event of their own. Read from
 * mm/slub.c, mm/slab_common.c and mm/page_alloc.c of Linux 5.10, 6.1, 6.12 and 7.x, and checked
 * against the functions that call the tracepoints in Debian's builds.
 *
 * Some nest nevertheless, with the same object and in this order: __kmalloc*() in the functions for
 * large sizes, and bulk page allocation, when it falls back, in the single one. The tracer tells
 * by the result.
 */
#define ROLE(x) ALLOC_ROLE_##x
#define ARGS(...)           \
	{                   \
		__VA_ARGS__ \
	}

#define RULE(function, family, what, roles, ...)         \
	{                                                \
		.entry = {.name = (function),            \
			  .type = KMEM_TYPE_##family,    \
			  .action = ALLOC_ACTION_##what, \
			  .args = roles},                \
		__VA_ARGS__                              \
	}

#define SIZE_GFP ARGS(ROLE(SIZE), ROLE(GFP))
#define SIZE_GFP_NODE ARGS(ROLE(SIZE), ROLE(GFP), ROLE(NODE))
#define SIZE_GFP_NODE_CALLER ARGS(ROLE(SIZE), ROLE(GFP), ROLE(NODE), ROLE(CALLER))
/* With CONFIG_SLAB_BUCKETS the second parameter is a kmem_buckets *. */
#define BUCKET_NODE ARGS(ROLE(SIZE), ROLE(NONE), ROLE(GFP), ROLE(NODE))
#define BUCKET_NODE_CALLER ARGS(ROLE(SIZE), ROLE(NONE), ROLE(GFP), ROLE(NODE), ROLE(CALLER))
#define CACHE_GFP ARGS(ROLE(CACHE), ROLE(GFP))
#define CACHE_GFP_SIZE ARGS(ROLE(CACHE), ROLE(GFP), ROLE(SIZE))
#define CACHE_GFP_NODE ARGS(ROLE(CACHE), ROLE(GFP), ROLE(NODE))
#define CACHE_GFP_NODE_SIZE ARGS(ROLE(CACHE), ROLE(GFP), ROLE(NODE), ROLE(SIZE))
#define CACHE_LRU_GFP ARGS(ROLE(CACHE), ROLE(NONE), ROLE(GFP))
#define CACHE_GFP_COUNT_ARRAY ARGS(ROLE(CACHE), ROLE(GFP), ROLE(COUNT), ROLE(ARRAY))
#define CACHE_COUNT_ARRAY ARGS(ROLE(CACHE), ROLE(COUNT), ROLE(ARRAY))
#define GFP_ORDER_NODE ARGS(ROLE(GFP), ROLE(ORDER), ROLE(NODE))
#define BULK_LIST_ARRAY \
	ARGS(ROLE(GFP), ROLE(NODE), ROLE(NONE), ROLE(COUNT), ROLE(LIST), ROLE(ARRAY))
#define BULK_ARRAY ARGS(ROLE(GFP), ROLE(NODE), ROLE(NONE), ROLE(COUNT), ROLE(ARRAY))
#define PAGE_ORDER ARGS(ROLE(PAGE), ROLE(ORDER))

const struct alloc_rule alloc_rules[] = {
	/* kmalloc, up to Linux 6.0 */
	RULE("kmem_cache_alloc_trace", KMALLOC, ALLOC, CACHE_GFP_SIZE),
	RULE("kmem_cache_alloc_node_trace", KMALLOC, ALLOC, CACHE_GFP_NODE_SIZE),
	RULE("kmalloc_order_trace", KMALLOC, ALLOC, SIZE_GFP),
	RULE("kmalloc_order", KMALLOC, ALLOC, SIZE_GFP, .covered_by = "kmalloc_order_trace"),
	RULE("__kmalloc_track_caller", KMALLOC, ALLOC, ARGS(ROLE(SIZE), ROLE(GFP), ROLE(CALLER))),
	/* up to 6.9 */
	RULE("__kmalloc", KMALLOC, ALLOC, SIZE_GFP),
	RULE("__kmalloc_node", KMALLOC, ALLOC, SIZE_GFP_NODE),
	RULE("__kmalloc_node_track_caller", KMALLOC, ALLOC, SIZE_GFP_NODE_CALLER),
	/* from 6.1 to 6.9 */
	RULE("kmalloc_trace", KMALLOC, ALLOC, CACHE_GFP_SIZE),
	RULE("kmalloc_node_trace", KMALLOC, ALLOC, CACHE_GFP_NODE_SIZE),
	RULE("kmalloc_large", KMALLOC, ALLOC, SIZE_GFP),
	RULE("kmalloc_large_node", KMALLOC, ALLOC, SIZE_GFP_NODE, .nested_in = {"__kmalloc_node"}),
	/* 6.10 */
	RULE("kmalloc_trace_noprof", KMALLOC, ALLOC, CACHE_GFP_SIZE),
	RULE("kmalloc_node_trace_noprof", KMALLOC, ALLOC, CACHE_GFP_NODE_SIZE),
	RULE("kmalloc_large_noprof", KMALLOC, ALLOC, SIZE_GFP),
	RULE("kmalloc_large_node_noprof", KMALLOC, ALLOC, SIZE_GFP_NODE),
	RULE("kmalloc_node_track_caller_noprof", KMALLOC, ALLOC, SIZE_GFP_NODE_CALLER),
	/* from 6.11 */
	RULE("__kmalloc_cache_noprof", KMALLOC, ALLOC, CACHE_GFP_SIZE),
	RULE("__kmalloc_cache_node_noprof", KMALLOC, ALLOC, CACHE_GFP_NODE_SIZE),
	RULE("__kmalloc_large_noprof", KMALLOC, ALLOC, SIZE_GFP),
	RULE("__kmalloc_large_node_noprof", KMALLOC, ALLOC, SIZE_GFP_NODE),
	RULE("__kmalloc_noprof", KMALLOC, ALLOC, SIZE_GFP),
	RULE("__kmalloc_node_noprof", KMALLOC, ALLOC, BUCKET_NODE),
	RULE("__kmalloc_node_noprof", KMALLOC, ALLOC, SIZE_GFP_NODE),
	RULE("__kmalloc_node_track_caller_noprof", KMALLOC, ALLOC, BUCKET_NODE_CALLER),
	RULE("__kmalloc_node_track_caller_noprof", KMALLOC, ALLOC, SIZE_GFP_NODE_CALLER),
	/* Only where it does the work itself. Its result may come from vmalloc. */
	RULE("__kvmalloc_node_noprof", KMALLOC, ALLOC,
	     ARGS(ROLE(SIZE), ROLE(NONE), ROLE(NONE), ROLE(GFP), ROLE(NODE)),
	     .unless_calls = "__kmalloc_node_noprof"),
	RULE("kmalloc_nolock_noprof", KMALLOC, ALLOC, SIZE_GFP_NODE),

	RULE("kfree", KMALLOC, FREE, ARGS(ROLE(OBJECT))),
	RULE("kfree_nolock", KMALLOC, FREE, ARGS(ROLE(OBJECT))),

	RULE("kmem_cache_alloc", CACHE, ALLOC, CACHE_GFP),
	RULE("kmem_cache_alloc_lru", CACHE, ALLOC, CACHE_LRU_GFP),
	RULE("kmem_cache_alloc_node", CACHE, ALLOC, CACHE_GFP_NODE),
	RULE("kmem_cache_alloc_bulk", CACHE, ALLOC_BULK, CACHE_GFP_COUNT_ARRAY),
	/* from 6.10 */
	RULE("kmem_cache_alloc_noprof", CACHE, ALLOC, CACHE_GFP),
	RULE("kmem_cache_alloc_lru_noprof", CACHE, ALLOC, CACHE_LRU_GFP),
	RULE("kmem_cache_alloc_node_noprof", CACHE, ALLOC, CACHE_GFP_NODE),
	RULE("kmem_cache_alloc_bulk_noprof", CACHE, ALLOC_BULK, CACHE_GFP_COUNT_ARRAY),
	RULE("kmem_cache_alloc_from_sheaf_noprof", CACHE, ALLOC, CACHE_GFP),

	RULE("kmem_cache_free", CACHE, FREE, ARGS(ROLE(CACHE), ROLE(OBJECT))),
	RULE("kmem_cache_free_bulk", CACHE, FREE_BULK, CACHE_COUNT_ARRAY),
	/* kfree_rcu() from 6.18 on collects objects in sheaves */
	RULE("rcu_free_sheaf", CACHE, FREE_BULK, ARGS(ROLE(SHEAF))),
	RULE("rcu_free_sheaf_nobarn", CACHE, FREE_BULK, ARGS(ROLE(SHEAF))),

	RULE("__alloc_pages_nodemask", PAGES, ALLOC, GFP_ORDER_NODE),
	RULE("__alloc_pages", PAGES, ALLOC, GFP_ORDER_NODE, .covered_by = "__alloc_pages_nodemask"),
	RULE("__alloc_frozen_pages_noprof", PAGES, ALLOC, GFP_ORDER_NODE),
	RULE("__alloc_pages_noprof", PAGES, ALLOC, GFP_ORDER_NODE,
	     .covered_by = "__alloc_frozen_pages_noprof"),
	RULE("alloc_frozen_pages_nolock_noprof", PAGES, ALLOC,
	     ARGS(ROLE(GFP), ROLE(NODE), ROLE(ORDER))),
	RULE("__alloc_pages_bulk", PAGES, ALLOC_BULK, BULK_LIST_ARRAY),
	RULE("alloc_pages_bulk_noprof", PAGES, ALLOC_BULK, BULK_LIST_ARRAY),
	RULE("alloc_pages_bulk_noprof", PAGES, ALLOC_BULK, BULK_ARRAY),

	RULE("free_unref_page", PAGES, FREE, PAGE_ORDER),
	RULE("free_unref_page", PAGES, FREE, ARGS(ROLE(PAGE))),
	RULE("free_unref_page_list", PAGES, FREE_BULK, ARGS(ROLE(LIST))),
	/* from 6.9 */
	RULE("free_unref_folios", PAGES, FREE_BULK, ARGS(ROLE(BATCH))),
	/* Out of line only for callers in other files, such as compaction.c; in 6.12 without a
	   site. */
	RULE("free_pages_prepare", PAGES, FREE, PAGE_ORDER, .if_traceable = true),
	/* from 6.14 */
	RULE("__free_frozen_pages", PAGES, FREE, PAGE_ORDER),
	RULE("free_frozen_pages", PAGES, FREE, PAGE_ORDER, .covered_by = "__free_frozen_pages"),
	/* Where it is nested, its other caller of note is taken for it. */
	RULE("__free_pages_ok", PAGES, FREE, PAGE_ORDER,
	     .nested_in = {"free_unref_page", "__free_frozen_pages", "free_frozen_pages"}),
	RULE("__free_pages_core", PAGES, FREE, PAGE_ORDER, .covered_by = "__free_pages_ok"),
};

const size_t nr_alloc_rules = sizeof(alloc_rules) / sizeof(alloc_rules[0]);
