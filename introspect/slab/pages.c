/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>

#include "introspect/slab/layout.h"

enum {
	PAGE_SHIFT = 12,
	TAIL_BIT = 1,   /* of page.compound_head or page.compound_info */
	ORDER_MAX = 18, /* a 1 GiB hugetlb page; the buddy allocator ends below */
};
/* Documentation/arch/x86/x86_64/mm.rst: where it is without KASLR's randomised regions. */
#define VMEMMAP_L4 0xffffea0000000000ull
#define VMALLOC_L4 0xffffc90000000000ull

uint32_t slab_u32(const uint8_t *bytes, uint32_t offset)
{
	uint32_t v;

	memcpy(&v, bytes + offset, sizeof(v));
	return v;
}

uint64_t slab_u64(const uint8_t *bytes, uint32_t offset)
{
	uint64_t v;

	memcpy(&v, bytes + offset, sizeof(v));
	return v;
}

int slab_bases(const struct slab_view *view, uint64_t *page_offset, uint64_t *vmemmap,
	       struct error *err)
{
	const struct kernel *kernel = view->kernel;

	*page_offset = kernel_page_offset(kernel);
	if (!*page_offset)
		return error_set(err, EFAULT, "page_offset_base cannot be read");
	*vmemmap = VMEMMAP_L4;
	if (!view->vmemmap_link)
		return 0;
	return kernel_read(kernel, kernel_gva(kernel, view->vmemmap_link), vmemmap,
			   sizeof(*vmemmap), err);
}

/* KASLR moves both bases at the same time, before any RAM is handed out. */
uint64_t slab_direct_pages(struct slab_view *view)
{
	const struct kernel *kernel = view->kernel;
	uint64_t pages = atomic_load_explicit(&view->direct_pages, memory_order_relaxed);
	uint64_t ram = kernel->known.ram_end >> PAGE_SHIFT, end = VMALLOC_L4, page_offset;

	if (pages)
		return pages;
	if (view->vmalloc_link &&
	    kernel_read(kernel, kernel_gva(kernel, view->vmalloc_link), &end, sizeof(end), NULL))
		return ram;
	page_offset = kernel_page_offset(kernel);
	pages = end > page_offset ? (end - page_offset) >> PAGE_SHIFT : 0;
	if (pages < ram)
		pages = ram;
	if (__atomic_load_n(&kernel->known.direct_map, __ATOMIC_RELAXED))
		atomic_store_explicit(&view->direct_pages, pages, memory_order_relaxed);
	return pages;
}

static int check_page(struct slab_view *view, uint64_t page, uint64_t vmemmap, uint64_t *pfn,
		      struct error *err)
{
	uint64_t offset = page - vmemmap;

	if (page < vmemmap || offset % view->page_size ||
	    offset / view->page_size >= slab_direct_pages(view))
		return error_set_at(err, EINVAL, page, "not a struct page of RAM");
	*pfn = offset / view->page_size;
	return 0;
}

/* The head that the word of a tail page leads to. */
static uint64_t head_of(const struct slab_view *view, uint64_t page, uint64_t link)
{
	if (view->lowest_mask && link >= view->lowest_mask)
		return page & link;
	return link - TAIL_BIT;
}

int slab_read_head(struct slab_view *view, uint64_t page, uint64_t vmemmap, struct page_copy *out,
		   struct error *err)
{
	uint64_t pfn, link;
	int ret = 0;

	out->gva = page;
	for (int tries = 0; !ret && tries < 2; tries++) {
		ret = check_page(view, out->gva, vmemmap, &pfn, err);
		if (!ret)
			ret = kernel_read(view->kernel, out->gva, out->bytes, view->page_size, err);
		link = ret ? 0 : slab_u64(out->bytes, view->compound_head);
		if (ret || !(link & TAIL_BIT))
			return ret;
		out->gva = head_of(view, out->gva, link);
	}
	return ret ? ret : error_set_at(err, EINVAL, page, "the head of a compound page is a tail");
}

int slab_head_order(const struct slab_view *view, const struct page_copy *head, unsigned int *order,
		    struct error *err)
{
	uint64_t flags = slab_u64(head->bytes, view->flags), value = 0;
	int ret = slab_check(view, SLAB_ORDERS, err);

	*order = 0;
	if (ret)
		return ret;
	if (!(flags & (1ull << view->head_bit)))
		return 0;
	ret = kernel_read(view->kernel, head->gva + view->order.offset, &value, view->order.size,
			  err);
	if (ret)
		return ret;
	if ((value & 0xff) > ORDER_MAX)
		return error_set_at(err, EINVAL, head->gva, "a compound page of order %u",
				    (unsigned int)(value & 0xff));
	*order = value & 0xff;
	return 0;
}

int slab_page_order(struct slab_view *view, uint64_t page, unsigned int *order, struct error *err)
{
	struct page_copy copy = {.gva = page};
	int ret = slab_check(view, SLAB_PAGES, err);

	if (!ret)
		ret = kernel_read(view->kernel, page, copy.bytes, view->page_size, err);
	return ret ? ret : slab_head_order(view, &copy, order, err);
}

/* Of an odd number, modulo 2^64: each step doubles the bits that are right, at first three. */
static uint64_t inverse_of(uint64_t odd)
{
	uint64_t inverse = odd;

	for (int bits = 3; bits < 64; bits *= 2)
		inverse *= 2 - odd * inverse;
	return inverse;
}

int slab_map_read(struct slab_view *view, struct slab_map *out, struct error *err)
{
	int ret = slab_check(view, SLAB_PAGES, err);

	*out = (struct slab_map){0};
	if (!ret)
		ret = slab_bases(view, &out->page_offset, &out->vmemmap, err);
	if (ret)
		return ret;
	out->pages = slab_direct_pages(view);
	out->shift = (unsigned int)__builtin_ctz(view->page_size);
	out->inverse = inverse_of(view->page_size >> out->shift);
	return 0;
}

int slab_page_pfn(struct slab_view *view, uint64_t page, uint64_t *pfn, struct error *err)
{
	struct slab_map map;
	int ret = slab_map_read(view, &map, err);

	if (ret || slab_map_pfn(&map, page, pfn))
		return ret;
	return error_set_at(err, EINVAL, page, "not a struct page of RAM");
}

int slab_page_address(struct slab_view *view, uint64_t page, uint64_t *gva, struct error *err)
{
	struct slab_map map;
	int ret = slab_map_read(view, &map, err);

	if (ret || slab_map_address(&map, page, gva))
		return ret;
	return error_set_at(err, EINVAL, page, "not a struct page of RAM");
}

static void set_slab_test(const struct slab_view *view, struct slab_page_facts *out)
{
	out->slab_offset = view->page_type;
	switch (view->mark) {
	case SLAB_MARK_FLAG:
		out->slab_offset = view->flags + view->mark_value / 32 * 4;
		out->slab_mask = out->slab_value = 1u << view->mark_value % 32;
		break;
	case SLAB_MARK_TYPE_BIT:
		out->slab_mask = view->mark_base | view->mark_value;
		out->slab_value = view->mark_base;
		break;
	case SLAB_MARK_TYPE_BYTE:
		out->slab_mask = 0xff000000;
		out->slab_value = view->mark_value << 24;
		break;
	}
}

int slab_page_facts(struct slab_view *view, struct slab_page_facts *out, struct error *err)
{
	*out = (struct slab_page_facts){.pages = slab_direct_pages(view),
					.page_size = view->page_size,
					.compound_head = view->compound_head,
					.lowest_mask = view->lowest_mask,
					.slab_cache = view->slab_cache,
					.flags = view->flags,
					.head_bit = view->head_bit,
					.order_offset = view->order.offset};
	if (slab_check(view, SLAB_PAGES, err))
		return -ENOTSUP;
	set_slab_test(view, out);
	if (slab_bases(view, &out->page_offset, &out->vmemmap, err))
		return error_set(err, EAGAIN, "the guest has not set up its memory map yet");
	return 0;
}

bool slab_in_direct_map(struct slab_view *view, uint64_t gva)
{
	uint64_t page_offset = kernel_page_offset(view->kernel);

	return page_offset && (gva - page_offset) >> PAGE_SHIFT < slab_direct_pages(view);
}

uint32_t slab_page_link(const struct slab_view *view)
{
	return view->lru;
}

int slab_page_refcount(const struct slab_view *view, uint32_t *offset, struct error *err)
{
	*offset = view->refcount;
	return slab_check(view, SLAB_REFERENCES, err);
}

int slab_folio_batch(const struct slab_view *view, struct slab_batch *out, struct error *err)
{
	*out = (struct slab_batch){.nr = view->batch_nr, .folios = view->batch_pages};
	return slab_check(view, SLAB_BATCHES, err);
}
