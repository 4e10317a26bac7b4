/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_SLAB_LAYOUT_H
#define SONDE_INTROSPECT_SLAB_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>
#include "introspect/slab/slab.h"

/* Inside of the slab view: what layout.c finds in BTF, for slab.c (caches, objects, sheaves) and
 * pages.c (pages, lists). Constant once created. */

/* How a struct page is marked as slab memory. */
enum slab_mark {
	SLAB_MARK_FLAG,      /* bit PG_slab of page.flags, to 6.9 */
	SLAB_MARK_TYPE_BIT,  /* bit PG_slab of page.page_type is clear, 6.10 and 6.11 */
	SLAB_MARK_TYPE_BYTE, /* the top byte of page.page_type is PGTY_slab, since 6.12 */
};

/* Where a compound page keeps its order, from its head struct page. */
struct order_place {
	uint32_t offset;
	uint8_t size; /* bytes to read; the order is the low 8 bits */
};

/* struct slab_sheaf, and the flag in a struct kmem_cache that marks the caches of kmalloc(). */
struct sheaf_layout {
	uint32_t rcu_head, cache, count, objects;
	uint32_t cache_flags;
	uint8_t kmalloc_bit; /* in the flags */
};

enum { SLAB_REASON_MAX = 128 };
struct slab_view {
	const struct kernel *kernel;
	char missing[SLAB_NR_FEATURES][SLAB_REASON_MAX]; /* "" = it is there */
	uint32_t page_size;                              /* sizeof(struct page) */
	uint32_t flags, compound_head, page_type, lru;
	uint32_t refcount;    /* 4 bytes */
	uint64_t lowest_mask; /* struct slab_page_facts */
	uint8_t head_bit;     /* PG_head */
	enum slab_mark mark;
	uint32_t mark_value, mark_base;
	struct order_place order;
	uint32_t slab_cache; /* in the head struct page */
	uint32_t cache_size, cache_object_size, cache_name;
	uint32_t batch_nr, batch_pages;
	struct sheaf_layout sheaf;
	uint64_t vmemmap_link;         /* of vmemmap_base, 0 = not randomised */
	uint64_t vmalloc_link;         /* of vmalloc_base, likewise */
	_Atomic uint64_t direct_pages; /* slab_direct_pages(), once it does not change; else 0 */
};

/*
 * The largest struct page that is believed. It has 64 bytes in most kernels, 56 in those with SLAB and without memory
 * cgroups, and 80 with KMSAN.
 */
enum { PAGE_STRUCT_MAX = 256 };

/* A copy of a head struct page, enough of it for the fields above. */
struct page_copy {
	uint64_t gva;
	uint8_t bytes[PAGE_STRUCT_MAX + sizeof(uint64_t)]; /* any field offset can be read whole */
};

/* gva of gpa 0 in the direct map, and of the struct page of pfn 0. */
int slab_bases(const struct slab_view *view, uint64_t *page_offset, uint64_t *vmemmap,
	       struct error *err);

/*
 * How many pages the direct map may come to hold, at least those of the RAM that the guest began
 * with: memory may be plugged in. It ends where vmalloc space begins.
 */
uint64_t slab_direct_pages(struct slab_view *view);

/* Read a struct page and, if it is a tail of a compound page, its head instead. `vmemmap` is from
 * slab_bases(). */
int slab_read_head(struct slab_view *view, uint64_t page, uint64_t vmemmap, struct page_copy *out,
		   struct error *err);

/* Order of the compound page whose head was read. */
int slab_head_order(const struct slab_view *view, const struct page_copy *head, unsigned int *order,
		    struct error *err);

/* -ENOTSUP, with the reason, if the view lacks a feature. */
int slab_check(const struct slab_view *view, enum slab_feature feature, struct error *err);

/* A field at its offset in bytes, in host byte order: guest and host are x86.
 */
uint32_t slab_u32(const uint8_t *bytes, uint32_t offset);
uint64_t slab_u64(const uint8_t *bytes, uint32_t offset);

#endif
