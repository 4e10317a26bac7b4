/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which functions of a kernel are taken for its allocators, and why others are not. */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/image/mcount.h"
#include "guest-symbols/kmem/allocators.h"
#include "tests/lib/fake-btf.h"
#include "tests/lib/tap.h"

#define TEXT 0xffffffff81000000
enum { FUNCTION = 0x40, SIZE = 0x1000, SITES = SIZE / FUNCTION };

static const char *const prototypes[] = {
	"void *__kmalloc(size_t size, gfp_t flags)",
	"void *__kmalloc_noprof(size_t size, gfp_t flags)",
	"void *__kmalloc_node_noprof(size_t size, struct kmem_buckets *b, gfp_t flags, int node)",
	"void *__kvmalloc_node_noprof(size_t size, unsigned long align, gfp_t flags, int node)",
	"void *kmalloc_large(gfp_t flags)",
	"void kfree(const void *x)",
	"void *kmem_cache_alloc(struct kmem_cache *s, gfp_t gfpflags)",
	"void kmem_cache_free(struct kmem_cache *s, void *x)",
	"void kmem_cache_free_bulk(struct kmem_cache *s, unsigned long size, void **p)",
	"struct page *__alloc_pages(gfp_t gfp, unsigned int order)",
	"struct page *__alloc_pages_noprof(gfp_t gfp, unsigned int order, int preferred_nid)",
	"struct page *__alloc_frozen_pages_noprof(gfp_t gfp, unsigned int order)",
	"void free_unref_page(struct page *page, unsigned int order)",
	"void __free_pages_ok(struct page *page, unsigned int order, int fpi_flags)",
	"void __free_pages_core(struct page *page, unsigned int order)",
	NULL,
};

/* A kernel with the named functions, 64 bytes each; every function has a site. */
struct fake {
	struct kernel_image image;
	struct alloc_points points;
	uint64_t sites[SITES];
	uint8_t bytes[SIZE];
	char map[SIZE];
};

static void fake_init(struct fake *fake, const char *functions)
{
	char word[64];
	size_t n = 0;

	memset(fake, 0, sizeof(*fake));
	for (int used; sscanf(functions, " %63s%n", word, &used) == 1; functions += used, n++) {
		fake->sites[n] = TEXT + n * FUNCTION;
		sprintf(fake->map + strlen(fake->map), "%llx T %s\n",
			(unsigned long long)fake->sites[n], word);
	}
	sprintf(fake->map + strlen(fake->map), "%llx T end\n",
		(unsigned long long)(TEXT + n * FUNCTION));
	symbols_from_system_map(fake->map, strlen(fake->map), &fake->image.symbols, NULL);
	fake->image.btf = fake_btf_of(prototypes);
	fake->image.text = TEXT;
	fake->image.init_bytes = fake->bytes;
	fake->image.init_size = SIZE;
	fake->image.mcount_sites = fake->sites;
	fake->image.nr_mcount_sites = n;
}

static void fake_deinit(struct fake *fake)
{
	alloc_points_free(&fake->points);
	btf_destroy(fake->image.btf);
	symbols_destroy(fake->image.symbols);
}

static void resolve(struct fake *fake)
{
	alloc_points_free(&fake->points);
	if (alloc_points_resolve(&fake->image, &fake->points, NULL))
		abort();
}

/* A branch of one function, 9 bytes after its start, that leads to another, or in front of it. */
static void fake_branch(struct fake *fake, const char *from, uint8_t opcode, const char *to,
			unsigned int in_front)
{
	uint64_t at = symbols_address(fake->image.symbols, from) + 9;
	int32_t displacement =
		(int32_t)(symbols_address(fake->image.symbols, to) - in_front - (at + 5));

	fake->bytes[at - TEXT] = opcode;
	memcpy(fake->bytes + at - TEXT + 1, &displacement, sizeof(displacement));
}

static void fake_jump(struct fake *fake, const char *from, const char *to)
{
	fake_branch(fake, from, 0xe9, to, 0);
}

/* The names taken, each followed by a blank. */
static void is_taken(struct fake *fake, const char *want, const char *label)
{
	char got[1024] = "";

	resolve(fake);
	for (size_t i = 0; i < fake->points.n; i++)
		sprintf(got + strlen(got), "%s ", fake->points.v[i].entry.name);
	is_str(got, want, label);
}

#define BASIC "__kmalloc kfree kmem_cache_alloc kmem_cache_free "

static void test_pages(void)
{
	static struct fake fake;

	fake_init(&fake, BASIC "__alloc_pages free_unref_page __free_pages_ok __free_pages_core");
	is_taken(&fake, BASIC "__alloc_pages free_unref_page __free_pages_ok ",
		 "both page free functions are taken where none calls the other");
	is_u64(fake.points.nr_unresolved, 0, "every family is resolved");
	fake_jump(&fake, "free_unref_page", "__free_pages_ok");
	is_taken(&fake, BASIC "__alloc_pages free_unref_page __free_pages_core ",
		 "the outer one is taken, and what else calls the inner one");
	is_u64(fake.points.v[0].site, TEXT, "an entry point has its mcount site");
	is_u64(fake.points.v[0].size, FUNCTION, "an entry point has its size");
	is_u64(fake.points.v[0].nr_params, 2, "an entry point has its number of parameters");
	fake_deinit(&fake);
}

/* clang passes anything for a node that nobody reads. */
static void test_nodes(void)
{
	static struct fake fake;

	fake_init(&fake, "__alloc_pages_noprof node_reclaim");
	resolve(&fake);
	ok(fake.points.n == 1 && fake.points.v[0].entry.args[2] == ALLOC_ROLE_NODE &&
		   fake.points.v[0].entry.argument[ALLOC_ROLE_NODE] == 3,
	   "the node that pages are asked of is known");
	fake_deinit(&fake);
	fake_init(&fake, "__alloc_pages_noprof");
	resolve(&fake);
	ok(fake.points.n == 1 && fake.points.v[0].entry.args[2] == ALLOC_ROLE_NONE &&
		   !fake.points.v[0].entry.argument[ALLOC_ROLE_NODE] &&
		   fake.points.v[0].entry.argument[ALLOC_ROLE_ORDER] == 2,
	   "but not in a kernel without nodes, whose parameter may be anything");
	fake_deinit(&fake);
}

static void test_covered(void)
{
	static struct fake fake;

	fake_init(&fake, "__kmalloc_noprof __kmalloc_node_noprof __kvmalloc_node_noprof kfree "
			 "kmem_cache_alloc kmem_cache_free __alloc_pages_noprof "
			 "__alloc_frozen_pages_noprof free_unref_page");
	fake_jump(&fake, "__kvmalloc_node_noprof", "__kmalloc_node_noprof");
	is_taken(&fake,
		 "__kmalloc_noprof __kmalloc_node_noprof kfree kmem_cache_alloc "
		 "kmem_cache_free __alloc_frozen_pages_noprof free_unref_page ",
		 "wrappers of entry points are left out");
	fake_deinit(&fake);
}

/* As in SLOB. */
static void test_arrays(void)
{
	static struct fake fake;

	fake_init(&fake, BASIC "kmem_cache_free_bulk __alloc_pages free_unref_page");
	is_taken(&fake, BASIC "kmem_cache_free_bulk __alloc_pages free_unref_page ",
		 "what frees arrays itself is an entry point");
	fake_jump(&fake, "kmem_cache_free_bulk", "kmem_cache_free");
	is_taken(&fake, BASIC "__alloc_pages free_unref_page ",
		 "what frees arrays one by one is not");
	fake_branch(&fake, "kmem_cache_free_bulk", 0xe8, "kmem_cache_free", 10);
	is_taken(&fake, BASIC "__alloc_pages free_unref_page ",
		 "nor where calls lead to the code in front of functions");
	fake_deinit(&fake);
}

/* That the kernel has one unresolved allocator, which is `name` for `reason`. */
static void is_unresolved(struct fake *fake, const char *name, const char *reason)
{
	const struct alloc_unresolved *u = fake->points.unresolved;

	if (!ok(fake->points.nr_unresolved == 1, "one allocator is unresolved: %s", name))
		return;
	is_str(u->name, name, "the unresolved allocator is named");
	is_str(u->reason, reason, "the unresolved allocator has its reason");
}

static void test_missing(const char *functions, const char *family)
{
	static struct fake fake;

	fake_init(&fake, functions);
	resolve(&fake);
	is_unresolved(&fake, family, "the kernel has no such function that is known");
	is_u64(fake.points.n, 5, "the other five families have their entry points");
	fake_deinit(&fake);
}

static void test_families(void)
{
	test_missing("kfree kmem_cache_alloc kmem_cache_free __alloc_pages free_unref_page",
		     "kmalloc allocation");
	test_missing("__kmalloc kmem_cache_alloc kmem_cache_free __alloc_pages free_unref_page",
		     "kmalloc free");
	test_missing("__kmalloc kfree kmem_cache_free __alloc_pages free_unref_page",
		     "kmem_cache allocation");
	test_missing("__kmalloc kfree kmem_cache_alloc __alloc_pages free_unref_page",
		     "kmem_cache free");
	test_missing(BASIC "free_unref_page", "page allocation");
	test_missing(BASIC "__alloc_pages", "page free");
}

static void test_unprovable(void)
{
	static struct fake fake;

	fake_init(&fake, BASIC "kmalloc_large __alloc_pages free_unref_page");
	is_taken(&fake, BASIC "__alloc_pages free_unref_page ",
		 "a function without a parameter for its size is left out");
	is_unresolved(&fake, "kmalloc_large", "BTF shows no parameter that is the size");
	is_u64(fake.points.unresolved[0].address, TEXT + 4 * FUNCTION,
	       "the unresolved function has its address");
	fake_deinit(&fake);

	fake_init(&fake, BASIC "__alloc_pages free_unref_page __kmalloc_node");
	resolve(&fake);
	is_unresolved(&fake, "__kmalloc_node", "BTF has no function __kmalloc_node");
	fake_deinit(&fake);

	fake_init(&fake, BASIC "__alloc_pages free_unref_page");
	fake.sites[0]++;
	fake.image.mcount_sites++;
	fake.image.nr_mcount_sites--;
	resolve(&fake);
	is_unresolved(&fake, "__kmalloc", "it has no mcount site");
	fake_deinit(&fake);

	fake_init(&fake, BASIC "__alloc_pages free_unref_page");
	fake.image.nr_mcount_sites = 0;
	resolve(&fake);
	is_str(fake.points.unresolved[0].reason,
	       "the kernel has no mcount sites (CONFIG_DYNAMIC_FTRACE)",
	       "the lack of ftrace is the reason");
	fake_deinit(&fake);

	fake_init(&fake, BASIC "__alloc_pages free_unref_page");
	btf_destroy(fake.image.btf);
	fake.image.btf = NULL;
	is_taken(&fake, "", "nothing is taken from an image without BTF");
	is_u64(fake.points.nr_unresolved, 6, "each of its allocators is unresolved");
	is_str(fake.points.unresolved[0].reason,
	       "the kernel image has no BTF (CONFIG_DEBUG_INFO_BTF): give it with --btf FILE",
	       "the lack of BTF is the reason");
	fake_deinit(&fake);
}

static void test_site_in_range(void)
{
	const uint64_t sites[] = {10, 20, 30};

	is_u64(site_in_range(sites, 3, 10, 11), 10, "a site at the start of a range is in it");
	is_u64(site_in_range(sites, 3, 11, 31), 20, "the lowest of several sites is found");
	is_u64(site_in_range(sites, 3, 21, 30), 0, "a site at the end of a range is outside");
	is_u64(site_in_range(sites, 3, 31, 99), 0, "there is no site beyond the last");
	is_u64(site_in_range(NULL, 0, 0, 99), 0, "a kernel without sites has none in range");
}

int main(void)
{
	test_pages();
	test_nodes();
	test_covered();
	test_arrays();
	test_families();
	test_unprovable();
	test_site_in_range();
	return tap_done();
}
