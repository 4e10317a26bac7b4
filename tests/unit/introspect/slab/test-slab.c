/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/slab/slab.h"
#include "tests/lib/fake-kernel.h"
#include "tests/lib/tap.h"

enum {
	HEAP_PFN = FAKE_HEAP_GPA >> 12,
	CACHE_GPA = FAKE_HEAP_GPA + 0x8000,
	LIST_GPA = FAKE_HEAP_GPA + 0x9000,
	NOT_A_TYPE = -1,
};

/* How each flavour marks pages; what the structures of fake-kernel.c say. */
struct flavour {
	const char *name;
	enum fake_flavour flavour;
	unsigned int head_bit, cache_at, order_at;
	uint64_t slab_flags;
	uint32_t slab_type;
};
#define VMALLOC 0xffffc90000000000ull

static const struct flavour flavours[] = {
	{"5.10", FAKE_5_10, 16, 24, 64 + 17, 1 << 9, (uint32_t)NOT_A_TYPE},
	{"6.11", FAKE_6_11, 6, 8, 64, 0, 0xfdffffff},
	{"6.12", FAKE_6_12, 6, 8, 64, 0, 0xf5000000},
	{"7.0", FAKE_7_0, 6, 8, 64, 0, 0xf5000000},
	{"7.1", FAKE_7_1, 6, 8, 64, 0, 0xf5000000},
};

static struct fake_kernel fake;
static struct slab_view *view;

/* What a tail page of that order has for its head: the address, or since 7.1 a mask. */
static uint64_t head_link(const struct flavour *f, uint64_t pfn, unsigned int order)
{
	if (f->flavour < FAKE_7_1)
		return fake_page(pfn) | 1;
	return ~((FAKE_PAGE_STRUCT << order) - UINT64_C(1)) | 1;
}

/* Pages HEAP_PFN + first...: a compound page of that order, not (yet) slab memory. */
static void make_compound(const struct flavour *f, uint64_t pfn, unsigned int order)
{
	fake_put64(&fake, fake_page_gpa(pfn), order ? 1ull << f->head_bit : 0);
	fake_put32(&fake, fake_page_gpa(pfn) + 48, (uint32_t)NOT_A_TYPE);
	for (uint64_t i = 1; i < 1ull << order; i++)
		fake_put64(&fake, fake_page_gpa(pfn + i) + 8, head_link(f, pfn, order));
	if (order)
		fake.ram[fake_page_gpa(pfn) + f->order_at] = (uint8_t)order;
}

static void make_slab(const struct flavour *f, uint64_t pfn, unsigned int order)
{
	make_compound(f, pfn, order);
	fake.ram[fake_page_gpa(pfn) + 1] |= (uint8_t)(f->slab_flags >> 8);
	fake_put32(&fake, fake_page_gpa(pfn) + 48, f->slab_type);
	fake_put64(&fake, fake_page_gpa(pfn) + f->cache_at, fake_direct(CACHE_GPA));
}

static void test_objects(const struct flavour *f)
{
	uint64_t object = fake_direct((HEAP_PFN + 2) * 4096ull + 0x180), cache = 1, bytes = 1;

	make_slab(f, HEAP_PFN, 2);
	ok(!slab_of_object(view, object, &cache, &bytes, NULL),
	   "an object in a tail page of a slab is found");
	is_u64(cache, fake_direct(CACHE_GPA), "that object has the cache of its slab");
	make_slab(f, HEAP_PFN + 2, 0);
	ok(!slab_of_object(view, object, &cache, &bytes, NULL) && cache,
	   "an object in a slab of one page has its cache");
	make_compound(f, HEAP_PFN, 2);
	fake_put64(&fake, fake_page_gpa(HEAP_PFN + 2), 0);
	ok(!slab_of_object(view, object, &cache, &bytes, NULL) && !cache,
	   "a large kmalloc has no cache");
	is_u64(bytes, 4 * 4096, "a large kmalloc has the size of its pages");
	ok(slab_of_object(view, VMALLOC, &cache, &bytes, NULL) == -ERANGE &&
		   slab_of_object(view, FAKE_PAGE_OFFSET - 1, &cache, &bytes, NULL) == -ERANGE &&
		   slab_of_object(view, 0, &cache, &bytes, NULL) == -ERANGE,
	   "objects outside the direct map are refused");
}

static void test_pages(const struct flavour *f)
{
	uint64_t gva, pfn;
	unsigned int order;

	make_compound(f, HEAP_PFN, 3);
	ok(!slab_page_order(view, fake_page(HEAP_PFN), &order, NULL) && order == 3,
	   "a page of order 3 has that order");
	make_compound(f, HEAP_PFN + 16, 0);
	ok(!slab_page_order(view, fake_page(HEAP_PFN + 16), &order, NULL) && !order,
	   "a single page has order 0");
	ok(!slab_page_pfn(view, fake_page(77), &pfn, NULL) && pfn == 77,
	   "a struct page has its pfn");
	ok(!slab_page_address(view, fake_page(77), &gva, NULL) && gva == fake_direct(77 * 4096),
	   "a struct page has the address of its memory");
	ok(!slab_page_address(view, fake_page(FAKE_RAM >> 12), &gva, NULL) &&
		   gva == fake_direct(FAKE_RAM) && slab_in_direct_map(view, gva),
	   "so has one of memory that was plugged in");
	ok(slab_page_pfn(view, fake_page(77) + 8, &pfn, NULL) == -EINVAL &&
		   slab_page_pfn(view, fake_page((VMALLOC - FAKE_PAGE_OFFSET) >> 12), &pfn, NULL) ==
			   -EINVAL &&
		   slab_page_pfn(view, FAKE_VMEMMAP - 64, &pfn, NULL) == -EINVAL,
	   "what is no struct page is refused");
}

static void test_hostile_pages(const struct flavour *f)
{
	uint64_t object = fake_direct(HEAP_PFN * 4096ull), cache, bytes;
	uint64_t page = fake_page_gpa(HEAP_PFN);
	unsigned int order;

	make_compound(f, HEAP_PFN, 1);
	fake.ram[page + f->order_at] = 200;
	ok(slab_page_order(view, fake_page(HEAP_PFN), &order, NULL) == -EINVAL,
	   "a page of order 200 is refused");
	fake_put64(&fake, page + 8, fake_page(HEAP_PFN) | 1);
	ok(slab_of_object(view, object, &cache, &bytes, NULL) == -EINVAL,
	   "a page that is its own tail is refused");
	fake_put64(&fake, page + 8, 0xffffffffffffffffull);
	ok(slab_of_object(view, object, &cache, &bytes, NULL) == -EINVAL,
	   "a head that is no struct page is refused");
	fake_put64(&fake, page + 8, 0);
}

static void put_cache(uint32_t size, uint32_t object_size, uint64_t name)
{
	fake_put32(&fake, CACHE_GPA + 8, size);
	fake_put32(&fake, CACHE_GPA + 12, object_size);
	fake_put64(&fake, CACHE_GPA + 16, name);
}

static void test_caches(void)
{
	struct slab_cache cache;
	uint64_t name_at;

	memcpy(fake.ram + CACHE_GPA + 64,
	       "kmalloc-\x01"
	       "96",
	       12);
	put_cache(128, 96, fake_direct(CACHE_GPA + 64));
	ok(!slab_cache_read(view, fake_direct(CACHE_GPA), &cache, NULL), "a cache is read");
	ok(cache.size == 128 && cache.object_size == 96 && cache.address == fake_direct(CACHE_GPA),
	   "a cache has its sizes and address");
	ok(cache.name_at == fake_direct(CACHE_GPA + 64) &&
		   !slab_cache_name_at(view, fake_direct(CACHE_GPA), &name_at, NULL) &&
		   name_at == cache.name_at,
	   "and where its name is");
	is_str(cache.name, "kmalloc-?96", "a cache's name is made printable");
	put_cache(128, 96, 0);
	ok(!slab_cache_read(view, fake_direct(CACHE_GPA), &cache, NULL),
	   "a cache without a name is read");
	is_str(cache.name, "?", "a cache without a name is called ?");
	put_cache(128, 96, 0x1234);
	ok(!slab_cache_read(view, fake_direct(CACHE_GPA), &cache, NULL) && !strcmp(cache.name, "?"),
	   "a cache with a bad name pointer is called ?");
	put_cache(128, 0, 0);
	ok(!slab_cache_read(view, fake_direct(CACHE_GPA), &cache, NULL) && cache.object_size == 128,
	   "a cache that gives one size only is read, as SLOB's first one");
	put_cache(0, 0, 0);
	ok(slab_cache_read(view, fake_direct(CACHE_GPA), &cache, NULL) == -EINVAL,
	   "a cache without sizes is refused");
	put_cache(96, 128, 0);
	ok(slab_cache_read(view, fake_direct(CACHE_GPA), &cache, NULL) == -EINVAL,
	   "a cache whose objects do not fit is refused");
	put_cache(0xffffffff, 128, 0);
	ok(slab_cache_read(view, fake_direct(CACHE_GPA), &cache, NULL) == -EINVAL,
	   "a cache of an absurd size is refused");
	ok(slab_cache_read(view, 0x5000, &cache, NULL) == -EFAULT &&
		   slab_cache_name_at(view, 0x5000, &name_at, NULL) == -EFAULT,
	   "a cache in user space is refused");
}

static void test_places(void)
{
	struct slab_batch batch = {1, 1};

	ok(slab_in_direct_map(view, fake_direct(0)) &&
		   slab_in_direct_map(view, fake_direct(FAKE_RAM - 1)),
	   "RAM is in the direct map");
	ok(!slab_in_direct_map(view, VMALLOC) && !slab_in_direct_map(view, FAKE_PAGE_OFFSET - 1) &&
		   !slab_in_direct_map(view, 0),
	   "addresses below and above the direct map are not in it");
	is_u64(slab_page_link(view), 8, "pages are linked by lru");
	ok(!slab_folio_batch(view, &batch, NULL), "the layout of a batch is known");
	is_u64(batch.nr, 0, "a batch begins with its number of folios");
	is_u64(batch.folios, 8, "a batch has its folios behind that number");
}

static void test_sheaf(const struct flavour *f)
{
	struct slab_sheaf sheaf;
	bool is_kmalloc = false;

	if (f->flavour < FAKE_7_0) {
		ok(slab_sheaf(view, &sheaf, NULL) == -ENOTSUP,
		   "a kernel without sheaves has no layout of them");
		return;
	}
	ok(!slab_sheaf(view, &sheaf, NULL) &&
		   sheaf.cache == FAKE_SHEAF_CACHE - FAKE_SHEAF_RCU_HEAD &&
		   sheaf.count == FAKE_SHEAF_SIZE - FAKE_SHEAF_RCU_HEAD &&
		   sheaf.objects == FAKE_SHEAF_OBJECTS - FAKE_SHEAF_RCU_HEAD,
	   "the distances in a sheaf are from its rcu_head");
	fake_put32(&fake, CACHE_GPA + FAKE_CACHE_FLAGS, 1u << FAKE_KMALLOC_BIT);
	ok(!slab_cache_is_kmalloc(view, fake_direct(CACHE_GPA), &is_kmalloc, NULL) && is_kmalloc,
	   "a cache with the flag is one of kmalloc");
	fake_put32(&fake, CACHE_GPA + FAKE_CACHE_FLAGS, ~(1u << FAKE_KMALLOC_BIT));
	ok(!slab_cache_is_kmalloc(view, fake_direct(CACHE_GPA), &is_kmalloc, NULL) && !is_kmalloc,
	   "a cache without the flag is not one of kmalloc");
	ok(slab_cache_is_kmalloc(view, 0x5000, &is_kmalloc, NULL) == -EFAULT,
	   "the flags of a cache in user space are refused");
}

static void test_missing(void)
{
	struct btf_types *btf = fake.image.btf;
	struct slab_view *none;

	fake.image.btf = NULL;
	if (ok(!slab_view_create(&fake.kernel, &none, NULL), "without BTF there is a view")) {
		for (int i = 0; i < SLAB_NR_FEATURES; i++)
			is_str(slab_missing(none, i),
			       "the kernel image has no BTF (CONFIG_DEBUG_INFO_BTF): give it with "
			       "--btf FILE",
			       "which lacks every feature");
		slab_view_destroy(none);
	}
	fake.image.btf = btf;
}

/* Struct pages in one array for each section of memory: none is where Sonde would look. */
static void test_sections(void)
{
	static const char map[] = "ffffffff81000000 T _text\n";
	static const char reason[] =
		"the kernel has no single array of struct page (CONFIG_SPARSEMEM_VMEMMAP)";
	struct slab_page_facts facts;

	if (fake_kernel_create(&fake, FAKE_6_12, 4))
		abort();
	symbols_destroy(fake.image.symbols);
	if (symbols_from_system_map(map, sizeof(map) - 1, &fake.image.symbols, NULL) ||
	    slab_view_create(&fake.kernel, &view, NULL))
		abort();
	for (int i = 0; i < SLAB_NR_FEATURES; i++)
		if (i != SLAB_CACHES && i != SLAB_BATCHES && i != SLAB_SHEAVES)
			is_str(slab_missing(view, i), reason,
			       "a kernel without vmemmap lacks what reads struct page");
	ok(!slab_missing(view, SLAB_CACHES), "caches are read nevertheless");
	ok(slab_page_facts(view, &facts, NULL) == -ENOTSUP,
	   "no code is told where the struct pages of such a kernel are");
	slab_view_destroy(view);
	fake_kernel_destroy(&fake);
}

static void test_next(void)
{
	struct slab_page_facts facts;
	uint64_t a, b;
	unsigned int order;
	struct error err;

	if (fake_kernel_create(&fake, FAKE_NEXT, 4) || slab_view_create(&fake.kernel, &view, NULL))
		abort();
	is_str(slab_missing(view, SLAB_OBJECTS),
	       "BTF has no member compound_head or compound_info in struct page",
	       "without a way to the head of a compound page objects have no cache");
	for (int i = 0; i < SLAB_NR_FEATURES; i++)
		ok(i == SLAB_OBJECTS || i == SLAB_REFERENCES || !slab_missing(view, i),
		   "feature %d is there", i);
	ok(slab_of_object(view, fake_direct(CACHE_GPA), &a, &b, &err) == -ENOTSUP &&
		   strstr(err.text, "compound_info"),
	   "the cache of an object is refused with the reason");
	ok(!slab_page_address(view, fake_page(77), &a, NULL) &&
		   !slab_page_order(view, fake_page(77), &order, NULL) &&
		   !slab_page_facts(view, &facts, NULL),
	   "pages have addresses and orders");
	slab_view_destroy(view);
	fake_kernel_destroy(&fake);
}

static void test_bare(void)
{
	struct slab_cache cache;
	struct slab_page_facts facts;
	struct slab_sheaf sheaf;
	unsigned int order;
	uint64_t a;

	if (fake_kernel_create(&fake, FAKE_BARE, 4) || slab_view_create(&fake.kernel, &view, NULL))
		abort();
	is_str(slab_missing(view, SLAB_PAGES), "BTF has no usable struct page",
	       "without struct page there are no pages");
	ok(slab_page_address(view, fake_page(77), &a, NULL) == -ENOTSUP &&
		   slab_page_order(view, fake_page(77), &order, NULL) == -ENOTSUP &&
		   slab_page_facts(view, &facts, NULL) == -ENOTSUP &&
		   slab_cache_read(view, fake_direct(CACHE_GPA), &cache, NULL) == -ENOTSUP,
	   "what is not known is refused");
	ok(!slab_sheaf(view, &sheaf, NULL), "what is known is not");
	slab_view_destroy(view);
	fake_kernel_destroy(&fake);
}

/* Kernels with SLAB and without memory cgroups have such a struct page. */
static void test_small_pages(void)
{
	enum { SIZE = 56, PFN = 77, HEAD_BIT = 16, ORDER_AT = SIZE + 17, CACHE_AT = 24 };
	const uint64_t page = FAKE_VMEMMAP + PFN * SIZE, gpa = FAKE_VMEMMAP_GPA + PFN * SIZE;
	struct slab_page_facts facts;
	unsigned int order;
	uint64_t a, bytes;

	if (fake_kernel_create(&fake, FAKE_SMALL_PAGES, 4) ||
	    slab_view_create(&fake.kernel, &view, NULL))
		abort();
	ok(!slab_page_address(view, page, &a, NULL) && a == fake_direct(PFN << 12),
	   "a struct page of 56 bytes is the one of its page");
	ok(slab_page_address(view, FAKE_VMEMMAP + PFN * SIZE + 8, &a, NULL) == -EINVAL,
	   "an address inside of it is not");
	fake_put64(&fake, gpa, 1 << HEAD_BIT | 1 << 9);
	fake_put64(&fake, gpa + CACHE_AT, fake_direct(CACHE_GPA));
	fake.ram[gpa + ORDER_AT] = 3;
	fake_put64(&fake, gpa + 5 * SIZE + 8, page | 1);
	ok(!slab_page_order(view, page, &order, NULL) && order == 3, "its order is known");
	ok(!slab_of_object(view, fake_direct((PFN + 5) << 12), &a, &bytes, NULL) &&
		   a == fake_direct(CACHE_GPA),
	   "an object in the compound page has its cache");
	ok(!slab_page_facts(view, &facts, NULL) && facts.page_size == SIZE &&
		   facts.order_offset == ORDER_AT,
	   "trampolines get the size");
	slab_view_destroy(view);
	fake_kernel_destroy(&fake);
}

static void test_odd_pages(void)
{
	uint64_t a;

	if (fake_kernel_create(&fake, FAKE_ODD_PAGES, 4) ||
	    slab_view_create(&fake.kernel, &view, NULL))
		abort();
	is_str(slab_missing(view, SLAB_PAGES),
	       "struct page has 60 bytes: not a multiple of 8 up to 256",
	       "pages are not read where a struct page has a size that none can have");
	ok(slab_page_address(view, fake_page(77), &a, NULL) == -ENOTSUP, "which is said");
	slab_view_destroy(view);
	fake_kernel_destroy(&fake);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(flavours) / sizeof(flavours[0]); i++) {
		const struct flavour *f = &flavours[i];
		struct error err = {0};

		if (!ok(!fake_kernel_create(&fake, f->flavour, 4), "a kernel like %s is made",
			f->name))
			continue;
		if (ok(!slab_view_create(&fake.kernel, &view, &err), "its slab view is created %s",
		       err.text)) {
			test_objects(f);
			test_pages(f);
			test_hostile_pages(f);
			test_caches();
			test_places();
			test_sheaf(f);
			slab_view_destroy(view);
		}
		test_missing();
		fake_kernel_destroy(&fake);
	}
	test_sections();
	test_next();
	test_bare();
	test_small_pages();
	test_odd_pages();
	return tap_done();
}
