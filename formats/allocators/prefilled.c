/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Objects that are taken out of a sheaf which the caller has filled beforehand, so as not to wait:
 * kmem_cache_prefill_sheaf(), of which lib/maple_tree.c is the only user. */
#include <string.h>
#include "formats/allocators/model.h"
#include "formats/base/text.h"

unsigned int prefilled_for_call(const char *function)
{
	/* A single node comes without a sheaf. To store is to ask for one, and two or three for
	 * each level of the tree that changes; to copy is to ask for what a node has. */
	enum { STORE_LEAST = 3, COPY_LEAST = 2 };
	static const char *const copies[] = {"mas_dup_alloc", NULL};

	/* mas_alloc_nodes(), which allocates a single node, and what it is inlined in. */
	static const char *const others[] = {
		"mas_alloc_nodes",
		"mas_alloc_cyclic",
		"mas_erase",
		"mas_insert",
		"mas_nomem",
		"mas_preallocate",
		"mas_store",
		"mas_store_gfp",
		"mas_wr_preallocate",
		"mtree_insert_range",
		"mtree_store_range",
		"__mt_dup",
		NULL,
	};

	/* "mas_store.isra.0" */
	const size_t length = strcspn(function, ".");

	if (text_begins_as(function, length, others))
		return 0;
	return text_begins_as(function, length, copies) ? COPY_LEAST : STORE_LEAST;
}

enum first_sheaves first_sheaves_for_call(const char *function)
{
	/* What bootstrap_cache_sheaves() is inlined in. */
	static const char *const first[] = {"bootstrap_cache_sheaves", "bootstrap_kmalloc_sheaves",
					    "kmem_cache_init", NULL};
	static const char *const any[] = {"__alloc_empty_sheaf", NULL};

	const size_t length = strcspn(function, ".");

	if (text_begins_as(function, length, first))
		return FIRST_SHEAVES_MADE;
	return text_begins_as(function, length, any) ? FIRST_SHEAVES_EITHER : FIRST_SHEAVES_OTHER;
}
