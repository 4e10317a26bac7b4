/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/kmem/alloc-entry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/kmem/alloc-prototype.h"
#include "guest-symbols/kmem/alloc-rules.h"
#include "guest-symbols/image/kernel-image.h"
#include "guest-symbols/image/mcount.h"

enum {
	/* A site is the first instruction, or the second after endbr64; not much padding either. */
	MAX_SITE_DISTANCE = 16,
	NEAR_BRANCH = 5,                /* bytes of call rel32 and jmp rel32 */
	FAMILIES = 2 * KMEM_TYPE_COUNT, /* allocations and frees of each type */
};

static const struct symbol *find_function(const struct kernel_image *image, const char *name)
{
	const struct symbol *symbol = symbols_find(image->symbols, name);

	return symbol && strchr("tTwW", symbol->type) ? symbol : NULL;
}

static bool is_near_branch(const uint8_t *p)
{
	bool conditional = p[0] == 0x0f && (p[1] & 0xf0) == 0x80;

	return conditional || p[0] == 0xe8 || p[0] == 0xe9;
}

/*
 * Whether one function's body has a near branch to another. It is not disassembled, since a
 * 32-bit displacement that happens to hit the exact address is as good as impossible.
 */
static bool calls(const struct kernel_image *image, const char *from, const char *to)
{
	const struct symbol *caller = find_function(image, from);
	const struct symbol *callee = find_function(image, to);
	const uint8_t *body;

	if (!caller || !callee || caller->size <= NEAR_BRANCH)
		return false;
	body = kernel_image_bytes(image, caller->address, caller->size);
	for (size_t i = 0; body && i < caller->size - NEAR_BRANCH; i++) {
		size_t end = i + NEAR_BRANCH + (body[i] == 0x0f);
		int32_t displacement;

		if (!is_near_branch(body + i) || end > caller->size)
			continue;
		memcpy(&displacement, body + end - sizeof(displacement), sizeof(displacement));
		if (caller->address + end + (uint64_t)(int64_t)displacement == callee->address)
			return true;
	}
	return false;
}

static bool taken(const struct alloc_points *points, const char *name)
{
	for (size_t i = 0; i < points->n; i++)
		if (!strcmp(points->v[i].entry->name, name))
			return true;
	return false;
}

static bool address_taken(const struct alloc_points *points, uint64_t address)
{
	for (size_t i = 0; i < points->n; i++)
		if (points->v[i].address == address)
			return true;
	return false;
}

/* Whether what the rule's function does is counted elsewhere. */
static bool redundant(const struct kernel_image *image, const struct alloc_rule *rule,
		      const struct alloc_points *points)
{
	const char *name = rule->entry.name;

	if (rule->covered_by && taken(points, rule->covered_by))
		return true;
	for (unsigned int i = 0; i < ALLOC_MAX_OUTER && rule->nested_in[i]; i++)
		if (calls(image, rule->nested_in[i], name))
			return true;
	return rule->unless_calls && calls(image, name, rule->unless_calls);
}

static bool same_function(const struct alloc_rule *a, const struct alloc_rule *b)
{
	return !strcmp(a->entry.name, b->entry.name);
}

/* Of the rules from `first` on that name one function, the first that agrees with its prototype;
 * without BTF, the first. */
static int choose(const struct kernel_image *image, const struct alloc_rule *first,
		  const struct alloc_rule *end, struct alloc_point *point, struct error *err)
{
	struct btf_prototype prototype;
	int ret;

	point->entry = &first->entry;
	point->checked =
		image->btf && !btf_prototype(image->btf, first->entry.name, &prototype, NULL);
	if (!point->checked)
		return 0;
	point->nr_params = prototype.nr_params;
	ret = alloc_prototype_check(&first->entry, &prototype, err);
	for (const struct alloc_rule *rule = first + 1;
	     ret && rule < end && same_function(rule, first); rule++) {
		point->entry = &rule->entry;
		if (!alloc_prototype_check(&rule->entry, &prototype, NULL))
			return 0;
	}
	return ret;
}

static int add_point(const struct kernel_image *image, const struct alloc_rule *rule,
		     const struct alloc_rule *end, struct alloc_points *points, struct error *err)
{
	const struct symbol *symbol = find_function(image, rule->entry.name);
	struct alloc_point *point = &points->v[points->n];
	uint64_t reach;
	int ret;

	if (!symbol || address_taken(points, symbol->address) || redundant(image, rule, points))
		return 0;
	ret = choose(image, rule, end, point, err);
	if (ret)
		return ret;
	reach = symbol->size < MAX_SITE_DISTANCE ? symbol->size : MAX_SITE_DISTANCE;
	point->address = symbol->address;
	point->size = symbol->size;
	point->site = site_in_range(image->mcount_sites, image->nr_mcount_sites, symbol->address,
				    symbol->address + reach);
	if (point->site || !rule->if_traceable)
		points->n++;
	return 0;
}

static unsigned int family(const struct alloc_entry *entry)
{
	bool frees = entry->action == ALLOC_ACTION_FREE || entry->action == ALLOC_ACTION_FREE_BULK;

	return 2 * entry->type + frees;
}

static int check_families(const struct alloc_points *points, struct error *err)
{
	static const char *const names[FAMILIES] = {
		"kmalloc allocation", "kmalloc free",    "kmem_cache allocation",
		"kmem_cache free",    "page allocation", "page free",
	};
	unsigned int found = 0;

	for (size_t i = 0; i < points->n; i++)
		found |= 1u << family(points->v[i].entry);
	for (unsigned int i = 0; i < FAMILIES; i++)
		if (!(found & 1u << i))
			return error_set(err, ENOENT, "kernel has no %s function that is known",
					 names[i]);
	return 0;
}

int alloc_points_resolve(const struct kernel_image *image, struct alloc_points *out,
			 struct error *err)
{
	const struct alloc_rule *end = alloc_rules + nr_alloc_rules;
	int ret = 0;

	*out = (struct alloc_points){.v = calloc(nr_alloc_rules, sizeof(*out->v))};
	if (!out->v)
		return error_set(err, ENOMEM, "out of memory");
	for (const struct alloc_rule *rule = alloc_rules; rule < end && !ret; rule++)
		ret = add_point(image, rule, end, out, err);
	if (!ret)
		ret = check_families(out, err);
	if (ret)
		alloc_points_free(out);
	return ret;
}

void alloc_points_free(struct alloc_points *points)
{
	free(points->v);
	*points = (struct alloc_points){0};
}
