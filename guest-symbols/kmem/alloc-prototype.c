/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/kmem/alloc-prototype.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_TYPES = 4 };

static const struct {
	const char *name;
	const char *types[MAX_TYPES]; /* as BTF spells them */
} roles[] = {
	[ALLOC_ROLE_NONE] = {"-", {NULL}},
	[ALLOC_ROLE_CACHE] = {"cache", {"struct kmem_cache *"}},
	[ALLOC_ROLE_SIZE] = {"size", {"size_t", "long unsigned int", "unsigned int"}},
	[ALLOC_ROLE_GFP] = {"gfp", {"gfp_t"}},
	[ALLOC_ROLE_NODE] = {"node", {"int"}},
	[ALLOC_ROLE_CALLER] = {"caller", {"long unsigned int"}},
	[ALLOC_ROLE_OBJECT] = {"object", {"void *", "const void *"}},
	[ALLOC_ROLE_PAGE] = {"page", {"struct page *", "struct folio *"}},
	[ALLOC_ROLE_ORDER] = {"order", {"unsigned int", "int"}},
	[ALLOC_ROLE_COUNT] = {"count", {"size_t", "int", "unsigned int", "long unsigned int"}},
	[ALLOC_ROLE_ARRAY] = {"array", {"void **", "struct page **"}},
	[ALLOC_ROLE_LIST] = {"list", {"struct list_head *"}},
	[ALLOC_ROLE_BATCH] = {"batch", {"struct folio_batch *"}},
	[ALLOC_ROLE_SHEAF] = {"sheaf", {"struct callback_head *"}},
};

const char *alloc_role_name(enum alloc_role role)
{
	return role < sizeof(roles) / sizeof(roles[0]) ? roles[role].name : "?";
}

static bool fits(enum alloc_role role, const char *type)
{
	if (role == ALLOC_ROLE_NONE)
		return strcmp(type, "gfp_t") != 0;
	for (size_t i = 0; i < MAX_TYPES && roles[role].types[i]; i++)
		if (!strcmp(roles[role].types[i], type))
			return true;
	return false;
}

int alloc_prototype_check(const struct alloc_entry *entry, const struct btf_prototype *prototype,
			  struct error *err)
{
	for (unsigned int i = 0; i < ALLOC_MAX_ARGS; i++) {
		enum alloc_role role = entry->args[i];

		if (i >= prototype->nr_params && role == ALLOC_ROLE_NONE)
			continue;
		if (i >= prototype->nr_params)
			return error_set(err, EPROTO,
					 "%s() has no parameter %u (%s) according to BTF",
					 entry->name, i + 1, alloc_role_name(role));
		if (!fits(role, prototype->params[i].type))
			return error_set(err, EPROTO,
					 "%s() has parameter %u `%s %s` according to BTF, not %s",
					 entry->name, i + 1, prototype->params[i].type,
					 prototype->params[i].name, alloc_role_name(role));
	}
	return 0;
}
