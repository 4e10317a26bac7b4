/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/heap/site-role.h"

#include <string.h>
#include "formats/base/text.h"

/* Of Linux 4.19 to 7.x: mm/slub.c, slab.c, slob.c, slab_common.c, util.c, vmalloc.c, mempool.c. */
static const char *const slab_names[] = {
	"allocate_slab", "new_slab",       "alloc_slab_page", "cache_grow_begin", "cache_grow",
	"kmem_getpages", "slob_new_pages", "alloc_new_slab",  "refill_objects",   NULL,
};
static const char *const large_names[] = {
	"__kmalloc_large_node", "___kmalloc_large_node", "kmalloc_large_node",  "kmalloc_large",
	"__kmalloc_large",      "kmalloc_order",         "kmalloc_order_trace", NULL,
};
static const char *const wrapper_names[] = {
	"kvmalloc_node",
	"__kvmalloc_node",
	"kvrealloc",
	"krealloc",
	"__krealloc",
	"__do_krealloc",
	"kvrealloc_node_align",
	"krealloc_node_align",
	"kmemdup",
	"kmemdup_nul",
	"kmemdup_array",
	"kvmemdup",
	"kstrdup",
	"kstrndup",
	"kstrdup_const",
	"kasprintf",
	"kvasprintf",
	"kvasprintf_const",
	"strndup_user",
	"memdup_user",
	"vmemdup_user",
	"memdup_user_nul",
	"__vmalloc_node_range",
	"__vmalloc_node",
	"__vmalloc_area_node",
	"vm_area_alloc_pages",
	"__get_vm_area_node",
	"alloc_vmap_area",
	"vmalloc",
	"vzalloc",
	"__get_free_pages",
	"get_zeroed_page",
	"get_free_pages",
	"alloc_pages_exact",
	"mempool_alloc",
	"mempool_alloc_slab",
	"mempool_kmalloc",
	"mempool_alloc_pages",
	"mempool_init_node",
	"devm_kmalloc",
	"alloc_dr",
	"devm_kvasprintf",
	"dma_direct_alloc",
	"__dma_direct_alloc_pages",
	NULL,
};

/* "new_slab.isra.0" and "kvmalloc_node_noprof" are the same functions; "name [module]" is none. */
static bool is_one_of(const char *name, const char *const *names)
{
	size_t length = strcspn(name, ".");

	if (length > 7 && !strncmp(name + length - 7, "_noprof", 7))
		length -= 7;
	return text_begins_as(name, length, names);
}

enum site_role site_role(const struct sidecar *sidecar, uint64_t call_site)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(sidecar, call_site);

	if (!symbol)
		return SITE_PLAIN;
	if (is_one_of(symbol->name, slab_names))
		return SITE_SLAB;
	if (is_one_of(symbol->name, large_names))
		return SITE_LARGE;
	return is_one_of(symbol->name, wrapper_names) ? SITE_WRAPPER : SITE_PLAIN;
}
