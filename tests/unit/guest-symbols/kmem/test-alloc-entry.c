/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/alloc-prototype.h"
#include "guest-symbols/image/kernel-image.h"
#include "guest-symbols/image/mcount.h"
#include "tests/lib/tap.h"

#define TEXT 0xffffffff81000000
enum { FUNCTION = 0x40, SIZE = 0x1000, SITES = SIZE / FUNCTION };

/* A kernel with the named functions, 64 bytes each; every function has a site. */
struct fake {
	struct kernel_image image;
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
	fake->image.text = TEXT;
	fake->image.init_bytes = fake->bytes;
	fake->image.init_size = SIZE;
	fake->image.mcount_sites = fake->sites;
	fake->image.nr_mcount_sites = n;
}

static void fake_deinit(struct fake *fake)
{
	symbols_destroy(fake->image.symbols);
	alloc_points_free(&fake->image.alloc);
}

/* Let one function jump to another, 9 bytes after its start. */
static void fake_jump(struct fake *fake, const char *from, const char *to)
{
	uint64_t at = symbols_address(fake->image.symbols, from) + 9;
	int32_t displacement = (int32_t)(symbols_address(fake->image.symbols, to) - (at + 5));

	fake->bytes[at - TEXT] = 0xe9;
	memcpy(fake->bytes + (at - TEXT) + 1, &displacement, sizeof(displacement));
}

/* The names taken, each followed by a blank. */
static void is_taken(struct fake *fake, const char *want, const char *name)
{
	struct error err = {0};
	char got[1024] = "";

	alloc_points_free(&fake->image.alloc);
	ok(!alloc_points_resolve(&fake->image, &fake->image.alloc, &err), "%s (%s)", name,
	   err.text);
	for (size_t i = 0; i < fake->image.alloc.n; i++)
		sprintf(got + strlen(got), "%s ", fake->image.alloc.v[i].entry->name);
	is_str(got, want, name);
}

#define BASIC "__kmalloc kfree kmem_cache_alloc kmem_cache_free "

static void test_pages(void)
{
	static struct fake fake;

	fake_init(&fake, BASIC "__alloc_pages free_unref_page __free_pages_ok __free_pages_core");
	is_taken(&fake, BASIC "__alloc_pages free_unref_page __free_pages_ok ",
		 "both page free functions where none calls the other");
	fake_jump(&fake, "free_unref_page", "__free_pages_ok");
	is_taken(&fake, BASIC "__alloc_pages free_unref_page __free_pages_core ",
		 "the outer one, and what else calls the inner one");
	is_u64(fake.image.alloc.v[0].site, TEXT, "site");
	is_u64(fake.image.alloc.v[0].size, FUNCTION, "size");
	ok(!fake.image.alloc.v[0].checked, "not checked without BTF");
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
		 "wrappers are left out");
	fake_deinit(&fake);
}

static void is_missing(const char *functions, const char *family)
{
	static struct fake fake;
	struct error err = {0};

	fake_init(&fake, functions);
	is_u64(-alloc_points_resolve(&fake.image, &fake.image.alloc, &err), ENOENT, family);
	ok(strstr(err.text, family), "\"%s\"", err.text);
	fake_deinit(&fake);
}

static void test_prototypes(void)
{
	const struct alloc_entry entry = {
		.name = "f",
		.args = {ALLOC_ROLE_SIZE, ALLOC_ROLE_NONE, ALLOC_ROLE_GFP},
	};
	struct btf_prototype p = {.nr_params = 3,
				  .params = {{"n", "size_t"}, {"b", "x *"}, {"flags", "gfp_t"}}};
	struct error err = {0};

	ok(!alloc_prototype_check(&entry, &p, &err), "agrees (%s)", err.text);
	strcpy(p.params[2].type, "int");
	is_u64(-alloc_prototype_check(&entry, &p, &err), EPROTO, "other type");
	is_str(err.text, "f() has parameter 3 `int flags` according to BTF, not gfp", "which");
	p.nr_params = 2;
	is_u64(-alloc_prototype_check(&entry, &p, &err), EPROTO, "too few parameters");
	p = (struct btf_prototype){.nr_params = 3,
				   .params = {{"n", "size_t"}, {"x", "gfp_t"}, {"y", "gfp_t"}}};
	is_u64(-alloc_prototype_check(&entry, &p, &err), EPROTO, "gfp_t in another place");
}

static void test_site_in_range(void)
{
	const uint64_t sites[] = {10, 20, 30};

	is_u64(site_in_range(sites, 3, 10, 11), 10, "first");
	is_u64(site_in_range(sites, 3, 11, 31), 20, "the lowest of several");
	is_u64(site_in_range(sites, 3, 21, 30), 0, "the end is outside");
	is_u64(site_in_range(sites, 3, 31, 99), 0, "beyond the last");
	is_u64(site_in_range(NULL, 0, 0, 99), 0, "no sites");
}

int main(void)
{
	test_pages();
	test_covered();
	is_missing("kfree kmem_cache_alloc kmem_cache_free __alloc_pages free_unref_page",
		   "kmalloc allocation");
	is_missing("__kmalloc kmem_cache_alloc kmem_cache_free __alloc_pages free_unref_page",
		   "kmalloc free");
	is_missing("__kmalloc kfree kmem_cache_free __alloc_pages free_unref_page",
		   "kmem_cache allocation");
	is_missing("__kmalloc kfree kmem_cache_alloc __alloc_pages free_unref_page",
		   "kmem_cache free");
	is_missing(BASIC "free_unref_page", "page allocation");
	is_missing(BASIC "__alloc_pages", "page free");
	test_prototypes();
	test_site_in_range();
	return tap_done();
}
