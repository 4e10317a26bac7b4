/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>
#include "guest-symbols/kmem/allocators.h"

enum { MAX_TYPES = 5, MAX_NAMES = 7, MAX_NEEDS = 3, REGISTER_SIZE = 8 };

/*
 * A parameter may play a role if it has one of the types, as BTF spells them, and one of the names.
 * A role without names is known by its type alone.
 */
static const struct role {
	const char *name;
	const char *types[MAX_TYPES];
	const char *names[MAX_NAMES];
} roles[ALLOC_NR_ROLES] = {
	[ALLOC_ROLE_NONE] = {.name = "-"},
	[ALLOC_ROLE_CACHE] = {"cache", {"struct kmem_cache *"}, {NULL}},
	[ALLOC_ROLE_SIZE] = {"size",
			     {"size_t", "long unsigned int", "unsigned int"},
			     {"size", "bytes", "n", "len", "orig_size"}},
	[ALLOC_ROLE_GFP] = {"gfp", {"gfp_t"}, {NULL}},
	[ALLOC_ROLE_NODE] = {"node", {"int"}, {"node", "nid", "preferred_nid", "numa_node"}},
	[ALLOC_ROLE_CALLER] = {"caller", {"long unsigned int"}, {"caller", "ret_ip", "ip"}},
	[ALLOC_ROLE_OBJECT] = {"object", {"void *", "const void *"}, {NULL}},
	[ALLOC_ROLE_PAGE] = {"page", {"struct page *", "struct folio *"}, {NULL}},
	[ALLOC_ROLE_ORDER] = {"order", {"unsigned int", "int"}, {"order"}},
	[ALLOC_ROLE_COUNT] = {"count",
			      {"size_t", "int", "unsigned int", "long unsigned int"},
			      {"size", "nr", "nr_pages", "nr_objs", "count", "n"}},
	[ALLOC_ROLE_ARRAY] = {"array", {"void **", "struct page **"}, {NULL}},
	[ALLOC_ROLE_LIST] = {"list", {"struct list_head *"}, {NULL}},
	[ALLOC_ROLE_BATCH] = {"batch", {"struct folio_batch *"}, {NULL}},
	[ALLOC_ROLE_SHEAF] = {"sheaf", {"struct callback_head *"}, {NULL}},
};

#define BIT(role) (1u << ALLOC_ROLE_##role)

/*
 * The roles of a family's functions: one of the alternatives must be there, all others may be.
 * Without an order, a single page is freed.
 */
static const struct signature {
	uint32_t needs[MAX_NEEDS]; /* alternatives; 0 ends them */
	uint32_t takes;
} signatures[KMEM_TYPE_COUNT][ALLOC_NR_ACTIONS] = {
	[KMEM_TYPE_KMALLOC] = {[ALLOC_ACTION_ALLOC] = {{BIT(SIZE) | BIT(GFP)},
						       BIT(CACHE) | BIT(NODE) | BIT(CALLER)},
			       [ALLOC_ACTION_FREE] = {{BIT(OBJECT)}, 0}},
	[KMEM_TYPE_CACHE] =
		{[ALLOC_ACTION_ALLOC] = {{BIT(CACHE) | BIT(GFP)}, BIT(NODE)},
		 [ALLOC_ACTION_FREE] = {{BIT(CACHE) | BIT(OBJECT)}, 0},
		 [ALLOC_ACTION_ALLOC_BULK] = {{BIT(CACHE) | BIT(GFP) | BIT(COUNT) | BIT(ARRAY)},
					      BIT(NODE)},
		 [ALLOC_ACTION_FREE_BULK] = {{BIT(COUNT) | BIT(ARRAY), BIT(SHEAF)}, BIT(CACHE)}},
	[KMEM_TYPE_PAGES] = {[ALLOC_ACTION_ALLOC] = {{BIT(ORDER)}, BIT(GFP) | BIT(NODE)},
			     [ALLOC_ACTION_FREE] = {{BIT(PAGE)}, BIT(ORDER)},
			     [ALLOC_ACTION_ALLOC_BULK] = {{BIT(GFP) | BIT(COUNT) | BIT(ARRAY),
							   BIT(GFP) | BIT(COUNT) | BIT(LIST)},
							  BIT(NODE) | BIT(LIST) | BIT(ARRAY)},
			     [ALLOC_ACTION_FREE_BULK] = {{BIT(LIST), BIT(BATCH)}, 0},
			     [ALLOC_ACTION_FREE_LAST] = {{BIT(PAGE)}, 0}},
};

const char *alloc_role_name(enum alloc_role role)
{
	return role < ALLOC_NR_ROLES ? roles[role].name : "?";
}

static bool is_among(const char *word, const char *const *list, size_t max)
{
	for (size_t i = 0; i < max && list[i]; i++)
		if (!strcmp(list[i], word))
			return true;
	return false;
}

static bool fits(enum alloc_role role, const struct btf_prototype *prototype, unsigned int i)
{
	const struct role *r = &roles[role];

	return is_among(prototype->params[i].type, r->types, MAX_TYPES) &&
	       (!r->names[0] || is_among(prototype->params[i].name, r->names, MAX_NAMES));
}

/* Give each register parameter its role. -EPROTO if several could play the same one. */
static int assign(struct alloc_entry *entry, const struct btf_prototype *prototype, uint32_t wanted,
		  uint32_t *played, struct error *err)
{
	*played = 0;
	memset(entry->args, 0, sizeof(entry->args));
	memset(entry->argument, 0, sizeof(entry->argument));
	for (unsigned int i = 0; i < prototype->nr_params && i < ALLOC_MAX_ARGS; i++) {
		if (!prototype->params[i].size || prototype->params[i].size > REGISTER_SIZE)
			return error_set(err, EPROTO,
					 "BTF does not say that parameter %u, %s, is in a register",
					 i + 1, prototype->params[i].name);
		for (enum alloc_role role = 1; role < ALLOC_NR_ROLES; role++) {
			if (!(wanted & 1u << role) || !fits(role, prototype, i))
				continue;
			if (*played & 1u << role)
				return error_set(err, EPROTO,
						 "BTF shows more than one parameter that could be "
						 "the %s",
						 roles[role].name);
			entry->args[i] = role;
			entry->argument[role] = (uint8_t)(i + 1);
			*played |= 1u << role;
		}
	}
	return 0;
}

static int check_result(struct alloc_entry *entry, const struct btf_prototype *prototype,
			struct error *err)
{
	static const char *const counts[] = {"int", "unsigned int", "long int", "long unsigned int",
					     "size_t"};
	const char *type = prototype->return_type;
	size_t length = strlen(type);
	bool good = true;

	entry->all_or_none = entry->action == ALLOC_ACTION_ALLOC_BULK && !strcmp(type, "bool");
	if (entry->action == ALLOC_ACTION_ALLOC)
		good = length && type[length - 1] == '*';
	else if (entry->action == ALLOC_ACTION_ALLOC_BULK && !entry->all_or_none)
		good = is_among(type, counts, sizeof(counts) / sizeof(counts[0]));
	if (good)
		return 0;
	return error_set(err, EPROTO, "BTF says that its result is `%s`, not a %s", type,
			 entry->action == ALLOC_ACTION_ALLOC ? "pointer" : "number");
}

int alloc_roles_derive(struct alloc_entry *entry, const struct btf_prototype *prototype,
		       struct error *err)
{
	const struct signature *s = &signatures[entry->type][entry->action];
	uint32_t wanted = s->takes, played;
	int ret = check_result(entry, prototype, err);

	if (ret)
		return ret;
	for (unsigned int i = 0; i < MAX_NEEDS; i++)
		wanted |= s->needs[i];
	ret = assign(entry, prototype, wanted, &played, err);
	if (ret)
		return ret;
	for (unsigned int i = 0; i < MAX_NEEDS && s->needs[i]; i++)
		if (!(s->needs[i] & ~played))
			return 0;
	return error_set(err, EPROTO, "BTF shows no parameter that is the %s",
			 roles[__builtin_ctz(s->needs[0] & ~played)].name);
}
