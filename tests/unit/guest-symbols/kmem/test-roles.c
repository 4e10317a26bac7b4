/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which parameter plays which role, from a prototype's names and types. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fake-btf.h"
#include "tests/lib/tap.h"

/* The roles of function f as BTF has it: "size - gfp", or the error's text. */
static const char *roles_of(enum kmem_type_id type, enum alloc_action action, const char *prototype)
{
	struct alloc_entry entry = {.name = "f", .type = type, .action = action};
	const char *const prototypes[] = {prototype, NULL};
	static char text[256];
	static struct error err;
	struct btf_prototype parsed;
	struct btf_types *btf = fake_btf_of(prototypes);
	int ret;

	if (btf_prototype(btf, "f", &parsed, NULL))
		abort();
	ret = alloc_roles_derive(&entry, &parsed, &err);
	btf_destroy(btf);
	if (ret)
		return ret == -EPROTO ? err.text : "another error";
	text[0] = '\0';
	for (unsigned int i = 0; i < parsed.nr_params && i < ALLOC_MAX_ARGS; i++)
		sprintf(text + strlen(text), "%s%s", i ? " " : "", alloc_role_name(entry.args[i]));
	if (entry.all_or_none)
		strcat(text, " if true");
	return text;
}

#define IS(type, action, prototype, want, label) \
	is_str(roles_of(KMEM_TYPE_##type, ALLOC_ACTION_##action, prototype), want, label)

static void test_allocations(void)
{
	IS(KMALLOC, ALLOC, "void *f(size_t size, gfp_t flags)", "size gfp",
	   "kmalloc() has a size and GFP flags");
	IS(KMALLOC, ALLOC, "void *f(int node, gfp_t flags, unsigned long caller, size_t n)",
	   "node gfp caller size", "the order of parameters does not matter");
	IS(KMALLOC, ALLOC,
	   "void *f(size_t size, struct kmem_buckets *b, unsigned long align, gfp_t flags, int "
	   "node)",
	   "size - - gfp node", "parameters without a role are ignored");
	IS(KMALLOC, ALLOC, "void *f(struct kmem_cache *s, gfp_t gfpflags, int node, size_t size)",
	   "cache gfp node size", "kmalloc() from a known cache has it too");
	IS(CACHE, ALLOC, "void *f(struct kmem_cache *s, struct list_lru *lru, gfp_t gfpflags)",
	   "cache - gfp", "a cache's allocation has no size");
	IS(PAGES, ALLOC, "struct page *f(gfp_t gfp, unsigned int order, int preferred_nid)",
	   "gfp order node", "a page allocation has an order");
	IS(PAGES, ALLOC, "struct page *f(int nid, unsigned int order)", "node order",
	   "a page allocation needs no GFP flags");
}

static void test_bulk(void)
{
	IS(CACHE, ALLOC_BULK, "int f(struct kmem_cache *s, gfp_t flags, size_t size, void **p)",
	   "cache gfp count array", "the size of a bulk allocation is a number of objects");
	IS(CACHE, ALLOC_BULK, "bool f(struct kmem_cache *s, gfp_t flags, size_t size, void **p)",
	   "cache gfp count array if true", "it may return whether it has got all objects");
	IS(CACHE, FREE_BULK, "void f(struct kmem_cache *s, size_t size, void **p)",
	   "cache count array", "a bulk free has an array");
	IS(CACHE, FREE_BULK, "void f(struct callback_head *head)", "sheaf",
	   "a bulk free may have a sheaf instead");
	IS(PAGES, ALLOC_BULK,
	   "unsigned long f(gfp_t gfp, int preferred_nid, struct nodemask *nodemask, int nr_pages, "
	   "struct list_head *page_list, struct page **page_array)",
	   "gfp node - count list array", "bulk page allocation has a list and an array");
	IS(PAGES, ALLOC_BULK,
	   "unsigned long f(gfp_t gfp, int preferred_nid, struct nodemask *nodemask, int nr_pages, "
	   "struct page **page_array)",
	   "gfp node - count array", "bulk page allocation may have an array alone");
	IS(PAGES, FREE_BULK, "void f(struct folio_batch *folios)", "batch",
	   "a bulk page free may have a batch");
	IS(PAGES, FREE_BULK, "void f(struct list_head *list)", "list",
	   "a bulk page free may have a list");
}

static void test_frees(void)
{
	IS(KMALLOC, FREE, "void f(const void *object)", "object", "kfree() has an object");
	IS(CACHE, FREE, "void f(struct kmem_cache *s, void *x)", "cache object",
	   "a cache's free has both");
	IS(PAGES, FREE, "void f(struct page *page)", "page", "a page free may lack an order");
	IS(PAGES, FREE, "void f(struct folio *folio, unsigned int order, int fpi)", "page order -",
	   "a folio is taken for a page");
}

static void test_refused(void)
{
	IS(KMALLOC, ALLOC, "void *f(size_t size)", "BTF shows no parameter that is the gfp",
	   "a role without a parameter is an error");
	IS(KMALLOC, ALLOC, "void *f(size_t size, gfp_t a, gfp_t b)",
	   "BTF shows more than one parameter that could be the gfp",
	   "a role with two parameters is an error");
	IS(KMALLOC, ALLOC, "void *f(size_t weight, gfp_t flags)",
	   "BTF shows no parameter that is the size", "a number of another name is no size");
	IS(KMALLOC, ALLOC, "void *f(struct page *size, gfp_t flags)",
	   "BTF shows no parameter that is the size", "a pointer is no size, whatever its name");
	IS(KMALLOC, ALLOC, "void *f(int a, int b, int c, int d, int e, gfp_t g, size_t size)",
	   "BTF shows no parameter that is the size", "a parameter on the stack has no role");
	IS(KMALLOC, ALLOC, "void *f(struct wide w, size_t size, gfp_t flags)",
	   "BTF does not say that parameter 1, w, is in a register",
	   "a structure by value leaves the registers unknown");
	IS(PAGES, ALLOC_BULK, "unsigned long f(gfp_t gfp, int nr_pages)",
	   "BTF shows no parameter that is the array", "bulk operations need objects");
	IS(KMALLOC, ALLOC, "int f(size_t size, gfp_t flags)",
	   "BTF says that its result is `int`, not a pointer",
	   "an allocation that returns no pointer is refused");
	IS(CACHE, ALLOC_BULK, "void f(struct kmem_cache *s, gfp_t flags, size_t size, void **p)",
	   "BTF says that its result is `void`, not a number",
	   "a bulk allocation that returns no number is refused");
}

int main(void)
{
	test_allocations();
	test_bulk();
	test_frees();
	test_refused();
	return tap_done();
}
