/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_INTROSPECT_SLAB_SLAB_H
#define SONDE_INTROSPECT_SLAB_SLAB_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "introspect/kernel/kernel.h"

/*
 * Slab caches and pages of a guest: sizes and names of a struct kmem_cache, the cache of an object,
 * addresses of pages. Offsets come from the guest's BTF. Any thread, several at once.
 */
struct slab_view;

/* -ENOMEM. What BTF lacks costs only the features that need it. The base addresses that KASLR
 * randomises (page_offset_base, vmemmap_base) are read when they are needed, as boot sets them. */
int slab_view_create(const struct kernel *kernel, struct slab_view **out, struct error *err);
void slab_view_destroy(struct slab_view *view);

/* What a view can find, if BTF describes it. The functions below fail with -ENOTSUP if not. */
enum slab_feature {
	SLAB_PAGES,      /* the memory that a struct page stands for */
	SLAB_ORDERS,     /* the order of a compound page */
	SLAB_LISTS,      /* the links of pages in a list */
	SLAB_REFERENCES, /* the reference count of a page */
	SLAB_OBJECTS,    /* the cache of an object */
	SLAB_CACHES,     /* sizes and name of a cache */
	SLAB_BATCHES,    /* pages in a struct folio_batch or pagevec */
	SLAB_SHEAVES,    /* objects in a struct slab_sheaf */
	SLAB_NR_FEATURES,
};

/* Why the view lacks a feature, a text of the view; NULL if it has it. */
const char *slab_missing(const struct slab_view *view, enum slab_feature feature);

enum { SLAB_NAME_MAX = 64 };
struct slab_cache {
	uint64_t address;           /* gva of the struct kmem_cache */
	uint64_t object_size, size; /* bytes that one object holds, and takes */
	uint64_t name_at;           /* gva of its name; 0: it has none yet */
	char name[SLAB_NAME_MAX];   /* printable, NUL-terminated; "?" if not readable (yet) */
};

/* Only the sizes, which may change: merging caches raises object_size. */
int slab_cache_sizes(struct slab_view *view, uint64_t cache, uint64_t *object_size, uint64_t *size,
		     struct error *err);

/* Only the gva of its name, 0 if it has none yet. A cache that is made later at the same address
 * has another one, unless the guest has used that memory again, too. */
int slab_cache_name_at(struct slab_view *view, uint64_t cache, uint64_t *gva, struct error *err);

/* Describe the struct kmem_cache at a gva. */
int slab_cache_read(struct slab_view *view, uint64_t cache, struct slab_cache *out,
		    struct error *err);

/*
 * What an object in the direct map lies in: *cache is the gva of its struct kmem_cache. In memory
 * that is no slab (a large kmalloc) *cache is 0, and *bytes the size of the (compound) page.
 * -ERANGE: the object is outside the direct map (vmalloc).
 */
int slab_of_object(struct slab_view *view, uint64_t object, uint64_t *cache, uint64_t *bytes,
		   struct error *err);

/* struct page * (gva) -> gva of the memory in the direct map, and -> pfn. */
int slab_page_address(struct slab_view *view, uint64_t page, uint64_t *gva, struct error *err);
int slab_page_pfn(struct slab_view *view, uint64_t page, uint64_t *pfn, struct error *err);

/*
 * Where the guest has its pages: read once, for many of them. The guest sets it before it hands out
 * memory, and does not change it.
 */
struct slab_map {
	uint64_t page_offset, vmemmap, pages; /* as in struct slab_page_facts */
	/* sizeof(struct page) is an odd number times 2^shift; its inverse modulo 2^64 */
	uint64_t inverse;
	unsigned int shift;
};

/* -EFAULT: the guest has not set it up yet. */
int slab_map_read(struct slab_view *view, struct slab_map *out, struct error *err);

/* struct page * (gva) -> pfn. False: it is none. */
static inline bool slab_map_pfn(const struct slab_map *map, uint64_t page, uint64_t *pfn)
{
	const uint64_t offset = page - map->vmemmap;

	/* what is no multiple becomes a number that is larger than any page's */
	*pfn = (offset >> map->shift | offset << (-map->shift & 63)) * map->inverse;
	return *pfn < map->pages;
}

/* The same, and -> gva of the memory in the direct map. */
static inline bool slab_map_address(const struct slab_map *map, uint64_t page, uint64_t *gva)
{
	const bool known = slab_map_pfn(map, page, gva);

	*gva = map->page_offset + (*gva << 12);
	return known;
}

/* Order of the compound page whose head is at `page`, 0 if it is a single page. */
int slab_page_order(struct slab_view *view, uint64_t page, unsigned int *order, struct error *err);

/* Whether an address lies in the direct map, or in memory that may be plugged in there. */
bool slab_in_direct_map(struct slab_view *view, uint64_t gva);

/*
 * What code in the guest needs to know to find the slab cache of an object, and the order of a
 * compound page, itself.
 */
struct slab_page_facts {
	uint64_t page_offset, vmemmap; /* gvas of gpa 0 in the direct map, of its struct page */
	uint64_t pages;                /* that the direct map may come to hold: it ends there */
	uint32_t page_size;            /* sizeof(struct page) */
	uint32_t compound_head, slab_cache; /* offsets in struct page; the latter in a head */
	/*
	 * Bit 0 of the word at compound_head is set in a tail page. From `lowest_mask` on, it is a
	 * mask: the tail's own address masked is the head's. Below, it is the head's address plus
	 * one. 0: it is never a mask.
	 */
	uint64_t lowest_mask;
	/* a head is slab memory if (32 bits at the offset & mask) == value */
	uint32_t slab_offset, slab_mask, slab_value;
	uint32_t flags;        /* offset */
	uint8_t head_bit;      /* of the flags: a head of a compound page */
	uint32_t order_offset; /* from a head struct page; the low byte is the order */
};

/* -EAGAIN while the guest has not set up its memory map. */
int slab_page_facts(struct slab_view *view, struct slab_page_facts *out, struct error *err);

/* Offset in struct page of the list_head that links pages in a list. */
uint32_t slab_page_link(const struct slab_view *view);

/* Offset in struct page of its 32-bit reference count. -ENOTSUP if BTF does not have it. */
int slab_page_refcount(const struct slab_view *view, uint32_t *offset, struct error *err);

/* struct folio_batch: offsets of the 8-bit number of folios and of the pointers to them. */
struct slab_batch {
	uint32_t nr, folios;
};
/* -ENOTSUP if BTF does not describe it. */
int slab_folio_batch(const struct slab_view *view, struct slab_batch *out, struct error *err);

/*
 * A sheaf: an array of pointers to objects of one cache. kfree_rcu() collects objects in a sheaf;
 * after the grace period the callback gets the struct rcu_head in it (mm/slub.c). All distances are
 * from that rcu_head.
 */
struct slab_sheaf {
	int32_t cache;   /* to the pointer to the struct kmem_cache */
	int32_t count;   /* to the 32-bit number of objects */
	int32_t objects; /* to the first pointer */
};
/* -ENOTSUP: the kernel has no sheaves. */
int slab_sheaf(const struct slab_view *view, struct slab_sheaf *out, struct error *err);

/* Whether a struct kmem_cache is one of kmalloc(). Only in a kernel with sheaves. */
int slab_cache_is_kmalloc(struct slab_view *view, uint64_t cache, bool *out, struct error *err);

#endif
