/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdint.h>
#include "formats/heap/site-role.h"
#include "tests/lib/tap.h"

enum { AT = 0x1000, SIZE = 0x100 };

static enum site_role role_of(const char *name)
{
	struct sidecar_symbol symbol = {.start = AT, .size = SIZE, .name = (char *)(uintptr_t)name};
	const struct sidecar sidecar = {.symbols = &symbol, .nr_symbols = 1};

	return site_role(&sidecar, AT + 0x10);
}

int main(void)
{
	static const struct {
		const char *name;
		enum site_role role;
	} rows[] = {
		{"allocate_slab", SITE_SLAB},
		{"new_slab.isra.0", SITE_SLAB},
		{"___kmalloc_large_node", SITE_LARGE},
		{"__kmalloc_large_node_noprof", SITE_LARGE},
		{"alloc_pages_mpol", SITE_PAGES},
		{"__alloc_pages_noprof", SITE_PAGES},
		{"alloc_pages_bulk_array_mempolicy_noprof", SITE_PAGES},
		{"alloc_pages_exact", SITE_WRAPPER},
		{"kmalloc_array_noprof.constprop.0", SITE_WRAPPER},
		{"kvmalloc_node", SITE_WRAPPER},
		{"__kvmalloc_node_noprof", SITE_WRAPPER},
		{"kmem_cache_create_usercopy", SITE_WRAPPER},
		{"__kmem_cache_create", SITE_WRAPPER},
		{"__kmem_cache_create_args", SITE_WRAPPER},
		{"do_kmem_cache_create", SITE_WRAPPER},
		{"create_kmalloc_cache", SITE_WRAPPER},
		{"new_kmalloc_cache", SITE_WRAPPER},
		{"bootstrap", SITE_WRAPPER},
		{"__alloc_empty_sheaf", SITE_WRAPPER},
		{"alloc_slab_obj_exts", SITE_WRAPPER},
		{"setup_cpu_cache", SITE_WRAPPER},
		{"mempool_create_node_noprof", SITE_WRAPPER},
		{"dma_pool_create", SITE_WRAPPER},
		{"pcpu_create_chunk", SITE_WRAPPER},
		{"pcpu_get_vm_areas", SITE_WRAPPER},
		{"__get_vm_area_node.constprop.0", SITE_WRAPPER},
		{"vmalloc_init", SITE_WRAPPER},
		{"module_alloc", SITE_WRAPPER},
		{"execmem_alloc", SITE_WRAPPER},
		{"kvasprintf", SITE_WRAPPER},
		{"devm_kmalloc", SITE_WRAPPER},
		{"sg_kmalloc", SITE_WRAPPER},
		{"radix_tree_node_alloc.constprop.0", SITE_WRAPPER},
		{"xas_alloc", SITE_WRAPPER},
		{"mas_alloc_nodes", SITE_WRAPPER},
		{"ida_alloc_range", SITE_WRAPPER},
		{"bucket_table_alloc.isra.0", SITE_WRAPPER},
		{"kobject_set_name_vargs", SITE_WRAPPER},
		{"dev_set_name", SITE_WRAPPER},
		{"mas_preallocate", SITE_WRAPPER},
		{"idr_alloc_cyclic", SITE_WRAPPER},
		{"__xa_store", SITE_WRAPPER},
		{"slab_late_init", SITE_WRAPPER},
		{"___slab_alloc", SITE_ENTRY},
		{"__kmalloc_cache_noprof", SITE_ENTRY},
		{"do_one_initcall", SITE_RUNNER},
		{"process_one_work", SITE_RUNNER},
		{"kvmalloc_node_of_mine", SITE_PLAIN},
		{"bootstrap [module]", SITE_PLAIN},
		{"_noprof", SITE_PLAIN},
		{"copy_process", SITE_PLAIN},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		is_u64(role_of(rows[i].name), rows[i].role, rows[i].name);
	is_u64(site_role(NULL, AT), SITE_PLAIN, "without names");
	return tap_done();
}
