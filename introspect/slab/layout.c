/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/slab/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No struct page lies so high, and no mask of a compound page below 2^26 pages is lower. */
#define LOWEST_MASK 0xffffffff80000000

/* The offset of one field, which must end within `limit` bytes. */
static int field_offset(const struct btf_types *btf, const char *structure, const char *member,
			uint32_t limit, uint32_t *out, struct error *err)
{
	struct btf_field field;
	int ret = btf_field(btf, structure, member, &field, err);

	if (ret)
		return ret;
	if (field.offset > limit || field.size > limit - field.offset)
		return error_set(err, EPROTO, "BTF: %s.%s is outside the structure", structure,
				 member);
	*out = field.offset;
	return 0;
}

/* Fields of one structure, of `size` bytes, and where their offsets go. */
struct field_wish {
	const char *member;
	uint32_t *offset;
};

static int field_offsets(const struct btf_types *btf, const char *structure, uint32_t size,
			 const struct field_wish *wishes, struct error *err)
{
	int ret = 0;

	for (; !ret && wishes->member; wishes++)
		ret = field_offset(btf, structure, wishes->member, size, wishes->offset, err);
	return ret;
}

/*
 * In a tail page, a word with bit 0 set leads to the head. Up to 7.0 it is compound_head, the
 * head's address. Since 7.1 it is compound_info: that address, or a mask for the tail page's own
 * address, depending on the kernel's configuration (include/linux/page-flags.h,
 * set_compound_head()).
 */
static int head_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	if (!field_offset(btf, "page", "compound_head", view->page_size, &view->compound_head,
			  NULL))
		return 0;
	view->lowest_mask = LOWEST_MASK;
	if (!field_offset(btf, "page", "compound_info", view->page_size, &view->compound_head,
			  NULL))
		return 0;
	return error_set(err, ENOENT,
			 "BTF has no member compound_head or compound_info in struct page");
}

/*
 * All struct pages lie in one array, by number, if the kernel has code that maps that array; in
 * other kernels there is an array for each section of memory (CONFIG_SPARSEMEM_VMEMMAP,
 * mm/sparse.c), and nothing is mapped at vmemmap_base.
 */
static int page_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	uint32_t size = btf_struct_size(btf, "page");

	if (!symbols_find(view->kernel->image->symbols, "vmemmap_populate"))
		return error_set(err, ENOTSUP,
				 "the kernel has no single array of struct page "
				 "(CONFIG_SPARSEMEM_VMEMMAP)");
	if (!size)
		return error_set(err, ENOENT, "BTF has no usable struct page");
	if (size > PAGE_STRUCT_MAX || size % sizeof(uint64_t))
		return error_set(err, ENOTSUP, "struct page has %u bytes: not a multiple of 8 up to %d",
				 size, PAGE_STRUCT_MAX);
	view->page_size = size;
	return 0;
}

static int page_field(const struct slab_view *view, const struct btf_types *btf, const char *member,
		      uint32_t *out, struct error *err)
{
	int ret = slab_check(view, SLAB_PAGES, err);

	return ret ? ret : field_offset(btf, "page", member, view->page_size, out, err);
}

static int list_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	return page_field(view, btf, "lru", &view->lru, err);
}

static int reference_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	return page_field(view, btf, "_refcount", &view->refcount, err);
}

static int mark_value(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	bool has_byte, has_bit, has_base;
	int64_t byte = btf_enumerator(btf, "PGTY_slab", &has_byte);
	int64_t bit = btf_enumerator(btf, "PG_slab", &has_bit);
	int64_t base = btf_enumerator(btf, "PAGE_TYPE_BASE", &has_base);

	if (has_byte) {
		view->mark = SLAB_MARK_TYPE_BYTE;
		view->mark_value = (uint32_t)byte;
	} else if (has_bit && bit >= 0 && bit < 64) {
		view->mark = SLAB_MARK_FLAG;
		view->mark_value = (uint32_t)bit;
	} else if (has_bit && has_base) {
		view->mark = SLAB_MARK_TYPE_BIT;
		view->mark_value = (uint32_t)bit;
		view->mark_base = (uint32_t)base;
	} else {
		return error_set(err, ENOENT, "BTF has neither PG_slab nor PGTY_slab");
	}
	return 0;
}

static int mark_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	int ret = mark_value(view, btf, err);

	if (ret)
		return ret;
	if (view->mark == SLAB_MARK_FLAG)
		return page_field(view, btf, "flags", &view->flags, err);
	return page_field(view, btf, "page_type", &view->page_type, err);
}

/* page[1].compound_order to 6.1, folio._folio_order to 6.5, then the low byte of folio._flags_1. */
static int order_place(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	uint32_t folio_size = btf_struct_size(btf, "folio");

	view->order.size = sizeof(uint8_t);
	if (!field_offset(btf, "page", "compound_order", view->page_size, &view->order.offset,
			  NULL)) {
		view->order.offset += view->page_size;
		return 0;
	}
	if (!field_offset(btf, "folio", "_folio_order", folio_size, &view->order.offset, NULL))
		return 0;
	view->order.size = sizeof(uint64_t);
	return field_offset(btf, "folio", "_flags_1", folio_size, &view->order.offset, err);
}

static int order_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	bool found;
	int64_t head = btf_enumerator(btf, "PG_head", &found);
	int ret = page_field(view, btf, "flags", &view->flags, err);

	if (ret)
		return ret;
	if (!found || head < 0 || head > 63)
		return error_set(err, ENOENT, "BTF has no usable enumerator PG_head");
	view->head_bit = (uint8_t)head;
	return order_place(view, btf, err);
}

/* struct slab overlays struct page since 5.17. */
static int object_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	const char *owner = btf_struct_size(btf, "slab") ? "slab" : "page";
	int ret = mark_layout(view, btf, err);

	if (!ret)
		ret = head_layout(view, btf, err);
	return ret ? ret
		   : field_offset(btf, owner, "slab_cache", view->page_size, &view->slab_cache,
				  err);
}

static int cache_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	const struct field_wish wishes[] = {{"size", &view->cache_size},
					    {"object_size", &view->cache_object_size},
					    {"name", &view->cache_name},
					    {NULL, NULL}};

	return field_offsets(btf, "kmem_cache", btf_struct_size(btf, "kmem_cache"), wishes, err);
}

/* Bulk frees take a struct folio_batch since 5.17, and a struct pagevec before. */
static int batch_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	bool folios = btf_struct_size(btf, "folio_batch") != 0;
	const char *batch = folios ? "folio_batch" : "pagevec";
	const char *array = folios ? "folios" : "pages";
	const struct field_wish wishes[] = {
		{"nr", &view->batch_nr}, {array, &view->batch_pages}, {NULL, NULL}};

	return field_offsets(btf, batch, btf_struct_size(btf, batch), wishes, err);
}

/* Sheaves came with 6.18; rcu_head is a macro for callback_head (include/linux/types.h). */
static int sheaf_layout(struct slab_view *view, const struct btf_types *btf, struct error *err)
{
	struct sheaf_layout *layout = &view->sheaf;
	uint32_t size = btf_struct_size(btf, "slab_sheaf");
	uint32_t cache_size = btf_struct_size(btf, "kmem_cache");
	const struct field_wish wishes[] = {{"callback_head", &layout->rcu_head},
					    {"cache", &layout->cache},
					    {"size", &layout->count},
					    {"objects", &layout->objects},
					    {NULL, NULL}};
	bool found;
	int64_t bit = btf_enumerator(btf, "_SLAB_KMALLOC", &found);
	int ret;

	if (!size)
		return error_set(err, ENOENT, "BTF has no struct slab_sheaf");
	if (!found || bit < 0 || bit > 31)
		return error_set(err, ENOENT, "BTF has no usable enumerator _SLAB_KMALLOC");
	layout->kmalloc_bit = (uint8_t)bit;
	ret = field_offsets(btf, "slab_sheaf", size, wishes, err);
	if (!ret)
		ret = field_offset(btf, "kmem_cache", "flags", cache_size, &layout->cache_flags,
				   err);
	return ret;
}

/* Fill in the offsets from BTF. Pages come first, since others need their size. */
static void fill_layout(struct slab_view *view)
{
	static int (*const layouts[SLAB_NR_FEATURES])(struct slab_view *, const struct btf_types *,
						      struct error *) = {
		[SLAB_PAGES] = page_layout,     [SLAB_ORDERS] = order_layout,
		[SLAB_LISTS] = list_layout,     [SLAB_REFERENCES] = reference_layout,
		[SLAB_OBJECTS] = object_layout, [SLAB_CACHES] = cache_layout,
		[SLAB_BATCHES] = batch_layout,  [SLAB_SHEAVES] = sheaf_layout,
	};
	const struct kernel_image *image = view->kernel->image;

	for (int i = 0; i < SLAB_NR_FEATURES; i++) {
		struct error why = {0};

		if (!kernel_image_check_btf(image, &why) && !layouts[i](view, image->btf, &why))
			continue;
		snprintf(view->missing[i], SLAB_REASON_MAX, "%.*s", SLAB_REASON_MAX - 1, why.text);
	}
}

const char *slab_missing(const struct slab_view *view, enum slab_feature feature)
{
	return view->missing[feature][0] ? view->missing[feature] : NULL;
}

int slab_check(const struct slab_view *view, enum slab_feature feature, struct error *err)
{
	const char *missing = slab_missing(view, feature);

	return missing ? error_set(err, ENOTSUP, "%s", missing) : 0;
}

int slab_view_create(const struct kernel *kernel, struct slab_view **out, struct error *err)
{
	struct slab_view *view = calloc(1, sizeof(*view));

	if (!view)
		return error_set(err, ENOMEM, "out of memory");
	view->kernel = kernel;
	view->vmemmap_link = symbols_address(kernel->image->symbols, "vmemmap_base");
	view->vmalloc_link = symbols_address(kernel->image->symbols, "vmalloc_base");
	fill_layout(view);
	*out = view;
	return 0;
}

void slab_view_destroy(struct slab_view *view)
{
	free(view);
}
