/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/mcount.h"
#include "guest-symbols/kmem/allocators.h"
#include "guest-symbols/kmem/call-graph.h"

enum {
	/* A site is the first instruction of a function, or follows endbr64 and some padding. */
	MAX_SITE_DISTANCE = 16,
	MAX_OUTER = 3,
};

/* A function that is an entry point, unless an object would be counted twice. */
struct rule {
	const char *name;
	enum kmem_type_id type;
	enum alloc_action action;
	const char *covered_by;           /* not if this function, of an earlier rule, was taken */
	const char *nested_in[MAX_OUTER]; /* not if one of these calls it itself */
	const char *unless_calls;         /* not if it calls this function itself */
	const char *only_if_calls;        /* not unless it does */
	const char *counted_by; /* what this function frees through it was counted before */
	bool if_traceable;      /* not if it has no mcount site */
};

/*
 * Principle: the functions taken are those that emit the guest's own trace events kmem:kmalloc,
 * kfree, kmem_cache_alloc, kmem_cache_free, mm_page_alloc and mm_page_free, so that records and
 * events agree one to one; and the bulk and lock-free operations, which have no event of their own.
 * Read from mm/slub.c, mm/slab_common.c and mm/page_alloc.c of Linux 5.10 to 7.3, and checked
 * against the functions that call the tracepoints in Debian's builds.
 *
 * Some nest nevertheless, with the same object and in this order: __kmalloc*() in the functions for
 * large sizes, and bulk page allocation, when it falls back, in the single one. The tracer
 * recognises these by the result.
 */
#define RULE(function, family, what, ...)                                                      \
	{                                                                                      \
		.name = (function), .type = KMEM_TYPE_##family, .action = ALLOC_ACTION_##what, \
		__VA_ARGS__                                                                    \
	}

static const struct rule rules[] = {
	/* kmalloc, up to Linux 6.0 */
	RULE("kmem_cache_alloc_trace", KMALLOC, ALLOC),
	RULE("kmem_cache_alloc_node_trace", KMALLOC, ALLOC),
	RULE("kmalloc_order_trace", KMALLOC, ALLOC),
	RULE("kmalloc_order", KMALLOC, ALLOC, .covered_by = "kmalloc_order_trace"),
	RULE("__kmalloc_track_caller", KMALLOC, ALLOC),
	/* up to 6.9 */
	RULE("__kmalloc", KMALLOC, ALLOC),
	RULE("__kmalloc_node", KMALLOC, ALLOC),
	RULE("__kmalloc_node_track_caller", KMALLOC, ALLOC),
	/* from 6.1 to 6.9 */
	RULE("kmalloc_trace", KMALLOC, ALLOC),
	RULE("kmalloc_node_trace", KMALLOC, ALLOC),
	RULE("kmalloc_large", KMALLOC, ALLOC),
	RULE("kmalloc_large_node", KMALLOC, ALLOC, .nested_in = {"__kmalloc_node"}),
	/* 6.10 */
	RULE("kmalloc_trace_noprof", KMALLOC, ALLOC),
	RULE("kmalloc_node_trace_noprof", KMALLOC, ALLOC),
	RULE("kmalloc_large_noprof", KMALLOC, ALLOC),
	RULE("kmalloc_large_node_noprof", KMALLOC, ALLOC),
	RULE("kmalloc_node_track_caller_noprof", KMALLOC, ALLOC),
	/* from 6.11 */
	RULE("__kmalloc_cache_noprof", KMALLOC, ALLOC),
	RULE("__kmalloc_cache_node_noprof", KMALLOC, ALLOC),
	RULE("__kmalloc_large_noprof", KMALLOC, ALLOC),
	RULE("__kmalloc_large_node_noprof", KMALLOC, ALLOC),
	RULE("__kmalloc_noprof", KMALLOC, ALLOC),
	RULE("__kmalloc_node_noprof", KMALLOC, ALLOC),
	RULE("__kmalloc_node_track_caller_noprof", KMALLOC, ALLOC),
	/* Only where it does not call another entry point. Its result may come from vmalloc. */
	RULE("__kvmalloc_node_noprof", KMALLOC, ALLOC, .unless_calls = "__kmalloc_node_noprof"),
	/* from 6.18; from 7.2 */
	RULE("kmalloc_nolock_noprof", KMALLOC, ALLOC),
	RULE("_kmalloc_nolock_noprof", KMALLOC, ALLOC),

	RULE("kfree", KMALLOC, FREE),
	RULE("kfree_nolock", KMALLOC, FREE),

	RULE("kmem_cache_alloc", CACHE, ALLOC),
	RULE("kmem_cache_alloc_lru", CACHE, ALLOC),
	RULE("kmem_cache_alloc_node", CACHE, ALLOC),
	/* In SLOB, arrays are allocated and freed by calls of other entry points. */
	RULE("kmem_cache_alloc_bulk", CACHE, ALLOC_BULK, .unless_calls = "kmem_cache_alloc"),
	/* from 6.10 */
	RULE("kmem_cache_alloc_noprof", CACHE, ALLOC),
	RULE("kmem_cache_alloc_lru_noprof", CACHE, ALLOC),
	RULE("kmem_cache_alloc_node_noprof", CACHE, ALLOC),
	RULE("kmem_cache_alloc_bulk_noprof", CACHE, ALLOC_BULK),
	RULE("kmem_cache_alloc_from_sheaf_noprof", CACHE, ALLOC),

	RULE("kmem_cache_free", CACHE, FREE),
	RULE("kmem_cache_free_bulk", CACHE, FREE_BULK, .unless_calls = "kmem_cache_free"),
	/* kfree_rcu() from 6.18 on collects objects in sheaves */
	RULE("rcu_free_sheaf", CACHE, FREE_BULK),
	RULE("rcu_free_sheaf_nobarn", CACHE, FREE_BULK),

	RULE("__alloc_pages_nodemask", PAGES, ALLOC),
	RULE("__alloc_pages", PAGES, ALLOC, .covered_by = "__alloc_pages_nodemask"),
	RULE("__alloc_frozen_pages_noprof", PAGES, ALLOC),
	RULE("__alloc_pages_noprof", PAGES, ALLOC, .covered_by = "__alloc_frozen_pages_noprof"),
	RULE("alloc_frozen_pages_nolock_noprof", PAGES, ALLOC),
	RULE("__alloc_pages_bulk", PAGES, ALLOC_BULK),
	RULE("alloc_pages_bulk_noprof", PAGES, ALLOC_BULK),

	RULE("free_unref_page", PAGES, FREE),
	RULE("free_unref_page_list", PAGES, FREE_BULK),
	/* from 6.9 */
	RULE("free_unref_folios", PAGES, FREE_BULK),
	/* Out of line only for callers in other files, such as compaction.c; in 6.12 without a
	   site. */
	RULE("free_pages_prepare", PAGES, FREE, .if_traceable = true),
	RULE("compaction_free", PAGES, FREE_LAST, .covered_by = "free_pages_prepare",
	     .only_if_calls = "free_pages_prepare"),
	/* From 6.14. From 7.2 on, ranges of single pages are first prepared page by page, and then
	   freed in larger orders. */
	RULE("__free_frozen_pages", PAGES, FREE, .counted_by = "free_prepared_contig_range"),
	RULE("free_frozen_pages", PAGES, FREE, .covered_by = "__free_frozen_pages"),
	/* Where it is nested, __free_pages_core() is taken as well, which calls it too. */
	RULE("__free_pages_ok", PAGES, FREE,
	     .nested_in = {"free_unref_page", "__free_frozen_pages", "free_frozen_pages"}),
	RULE("__free_pages_core", PAGES, FREE, .covered_by = "__free_pages_ok"),
};

enum { NR_RULES = sizeof(rules) / sizeof(rules[0]), NR_FAMILIES = 2 * KMEM_TYPE_COUNT };

static const struct symbol *find_function(const struct kernel_image *image, const char *name)
{
	const struct symbol *symbol = symbols_find(image->symbols, name);

	return symbol && strchr("tTwW", symbol->type) ? symbol : NULL;
}

/* Whether one function's body has a near branch to another. */
static bool calls(const struct kernel_image *image, const char *from, const char *to)
{
	const struct symbol *caller = find_function(image, from);
	const struct symbol *callee = find_function(image, to);

	return caller && callee && call_is_direct(image, caller, callee->address);
}

static bool taken(const struct alloc_points *points, const char *name)
{
	for (size_t i = 0; i < points->n; i++)
		if (!strcmp(points->v[i].entry.name, name))
			return true;
	return false;
}

static bool address_taken(const struct alloc_points *points, uint64_t address)
{
	for (size_t i = 0; i < points->n; i++)
		if (points->v[i].address == address)
			return true;
	return false;
}

/* Whether what the rule's function does is counted elsewhere. */
static bool redundant(const struct kernel_image *image, const struct rule *rule,
		      const struct alloc_points *points)
{
	if (rule->covered_by && taken(points, rule->covered_by))
		return true;
	for (unsigned int i = 0; i < MAX_OUTER && rule->nested_in[i]; i++)
		if (calls(image, rule->nested_in[i], rule->name))
			return true;
	if (rule->only_if_calls && !calls(image, rule->name, rule->only_if_calls))
		return true;
	return rule->unless_calls && calls(image, rule->name, rule->unless_calls);
}

bool alloc_action_frees(enum alloc_action action)
{
	return action == ALLOC_ACTION_FREE || action == ALLOC_ACTION_FREE_BULK ||
	       action == ALLOC_ACTION_FREE_LAST;
}

static void add_unresolved(struct alloc_points *points, const struct rule *rule, uint64_t address,
			   const struct error *why)
{
	struct alloc_unresolved *u = &points->unresolved[points->nr_unresolved++];

	*u = (struct alloc_unresolved){.name = rule->name,
				       .type = rule->type,
				       .frees = alloc_action_frees(rule->action),
				       .address = address};
	snprintf(u->reason, sizeof(u->reason), "%.*s", (int)sizeof(u->reason) - 1, why->text);
}

static int find_site(const struct kernel_image *image, struct alloc_point *point, struct error *err)
{
	uint64_t reach = point->size < MAX_SITE_DISTANCE ? point->size : MAX_SITE_DISTANCE;
	int ret = kernel_image_check_sites(image, err);

	if (ret)
		return ret;
	point->site = site_in_range(image->mcount_sites, image->nr_mcount_sites, point->address,
				    point->address + reach);
	return point->site ? 0 : error_set(err, ENOTSUP, "it has no mcount site");
}

/* By functions of mm/mempolicy.c and mm/vmscan.c, which are there with CONFIG_NUMA. */
static bool has_nodes(const struct kernel_image *image)
{
	static const char *const names[] = {"__mpol_put", "mpol_rebind_mm", "mpol_misplaced",
					    "node_reclaim"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (symbols_find(image->symbols, names[i]))
			return true;
	return false;
}

static void forget_role(struct alloc_entry *entry, enum alloc_role role)
{
	if (entry->argument[role])
		entry->args[entry->argument[role] - 1] = ALLOC_ROLE_NONE;
	entry->argument[role] = 0;
}

/* Without CONFIG_NUMA nobody reads the node of pages: a compiler that sees so (clang) passes what
 * the register happens to hold. That of slab objects is read by the kernel's own events. */
static int find_roles(const struct kernel_image *image, struct alloc_point *point,
		      struct error *err)
{
	struct btf_prototype prototype;
	int ret = kernel_image_check_btf(image, err);

	if (!ret)
		ret = btf_prototype(image->btf, point->entry.name, &prototype, err);
	if (ret)
		return ret;
	point->nr_params = prototype.nr_params;
	ret = alloc_roles_derive(&point->entry, &prototype, err);
	if (!ret && point->entry.type == KMEM_TYPE_PAGES && !has_nodes(image))
		forget_role(&point->entry, ALLOC_ROLE_NODE);
	return ret;
}

int alloc_point_init(const struct kernel_image *image, const struct symbol *function,
		     struct alloc_point *point, struct error *err)
{
	int ret;

	point->address = function->address;
	point->size = function->size;
	ret = find_site(image, point, err);
	return ret ? ret : find_roles(image, point, err);
}

static struct alloc_body body_of(const struct kernel_image *image, const char *name)
{
	const struct symbol *symbol = name ? find_function(image, name) : NULL;

	if (!symbol)
		return (struct alloc_body){0};
	return (struct alloc_body){symbol->address, symbol->address + symbol->size};
}

static void apply_rule(const struct kernel_image *image, const struct rule *rule,
		       struct alloc_points *points)
{
	const struct symbol *symbol = find_function(image, rule->name);
	struct alloc_point *point = &points->v[points->n];
	struct error why;

	if (!symbol || address_taken(points, symbol->address) || redundant(image, rule, points))
		return;
	*point = (struct alloc_point){.entry = {.name = rule->name,
						.type = rule->type,
						.action = rule->action,
						.counted_by = body_of(image, rule->counted_by)}};
	if (!alloc_point_init(image, symbol, point, &why))
		points->n++;
	else if (point->site || !rule->if_traceable)
		add_unresolved(points, rule, symbol->address, &why);
}

const char *alloc_family_name(enum kmem_type_id type, bool frees)
{
	static const char *const names[KMEM_TYPE_COUNT][2] = {
		[KMEM_TYPE_KMALLOC] = {"kmalloc allocation", "kmalloc free"},
		[KMEM_TYPE_CACHE] = {"kmem_cache allocation", "kmem_cache free"},
		[KMEM_TYPE_PAGES] = {"page allocation", "page free"},
	};

	return names[type][frees];
}

static bool has_family(const struct alloc_points *points, enum kmem_type_id type, bool frees)
{
	for (size_t i = 0; i < points->n; i++)
		if (points->v[i].entry.type == type &&
		    alloc_action_frees(points->v[i].entry.action) == frees)
			return true;
	for (size_t i = 0; i < points->nr_unresolved; i++)
		if (points->unresolved[i].type == type && points->unresolved[i].frees == frees)
			return true;
	return false;
}

static void add_missing_families(struct alloc_points *points)
{
	for (unsigned int i = 0; i < NR_FAMILIES; i++) {
		enum kmem_type_id type = i / 2;
		bool frees = i % 2;

		if (!has_family(points, type, frees))
			points->unresolved[points->nr_unresolved++] = (struct alloc_unresolved){
				.name = alloc_family_name(type, frees),
				.type = type,
				.frees = frees,
				.reason = "the kernel has no such function that is known",
			};
	}
}

int alloc_points_resolve(const struct kernel_image *image, struct alloc_points *out,
			 struct error *err)
{
	*out = (struct alloc_points){
		.v = calloc(NR_RULES, sizeof(*out->v)),
		.unresolved = calloc(NR_RULES + NR_FAMILIES, sizeof(*out->unresolved)),
	};
	if (!out->v || !out->unresolved) {
		alloc_points_free(out);
		return error_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < NR_RULES; i++)
		apply_rule(image, &rules[i], out);
	add_missing_families(out);
	return 0;
}

static int derive(const struct kernel_image *image, void **out, struct error *err)
{
	struct alloc_points *points = malloc(sizeof(*points));
	int ret;

	if (!points)
		return error_set(err, ENOMEM, "out of memory");
	ret = alloc_points_resolve(image, points, err);
	if (ret)
		goto free_memory;
	ret = alloc_points_prove(image, points, err);
	if (ret)
		goto free_points;
	*out = points;
	return 0;
free_points:
	alloc_points_free(points);
free_memory:
	free(points);
	return ret;
}

static void destroy(void *points)
{
	alloc_points_free(points);
	free(points);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

bool alloc_call_is_listed(const struct alloc_entry *entry, uint64_t return_address)
{
	return bsearch(&return_address, entry->calls, entry->nr_calls, sizeof(return_address),
		       by_value);
}

int alloc_points_of(const struct kernel_image *image, const struct alloc_points **out,
		    struct error *err)
{
	static const struct image_fact fact = {derive, destroy};
	const void *points;
	int ret = kernel_image_derive(image, &fact, &points, err);

	if (!ret)
		*out = points;
	return ret;
}

void alloc_points_free(struct alloc_points *points)
{
	for (size_t i = 0; i < points->n; i++)
		free(points->v[i].entry.calls);
	free(points->emitters);
	free(points->unresolved);
	free(points->v);
	*points = (struct alloc_points){0};
}
