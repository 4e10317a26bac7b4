/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/call-sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALL_SITES = 1 << 18 }; /* a kernel has fewer; a hostile guest does not */

void call_sites_init(struct call_sites *sites)
{
	*sites = (struct call_sites){0};
	u64_map_init(&sites->all, 0);
}

void call_sites_deinit(struct call_sites *sites)
{
	u64_map_deinit(&sites->all);
}

void call_sites_note(struct call_sites *sites, uint64_t call_site)
{
	uint64_t *recent =
		&sites->recent[call_site * 0x9e3779b97f4a7c15 >> 32 & (CALL_SITES_RECENT - 1)];

	if ((*recent == call_site && call_site) || sites->all.count >= MAX_CALL_SITES)
		return;
	if (u64_map_insert(&sites->all, call_site, NULL))
		*recent = call_site;
}

int call_sites_collect(const struct call_sites *sites, struct u64_map *set)
{
	uint64_t address;
	size_t pos = 0;

	while (u64_map_next(&sites->all, &pos, &address)) {
		if (!u64_map_insert(set, address, NULL))
			return -ENOMEM;
	}
	return 0;
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t *sorted_keys(const struct u64_map *set)
{
	uint64_t *keys = calloc(set->count + 1, sizeof(*keys));
	size_t pos = 0;

	if (!keys)
		return NULL;
	for (size_t i = 0; u64_map_next(set, &pos, &keys[i]); i++)
		;
	qsort(keys, set->count, sizeof(*keys), compare_u64);
	return keys;
}

int trace_symbols_init(struct trace_symbols *out, const struct u64_map *set,
		       trace_symbolize_fn *symbolize, void *arg)
{
	uint64_t *keys = sorted_keys(set);
	char name[512];

	out->count = 0;
	out->items = calloc(set->count + 1, sizeof(*out->items));
	if (!keys || !out->items)
		goto no_memory;
	for (size_t i = 0; i < set->count; i++) {
		struct sidecar_symbol *item = &out->items[out->count];

		item->address = keys[i];
		if (symbolize(arg, keys[i], name, sizeof(name), &item->start, &item->size))
			continue;
		if (out->count && item[-1].start == item->start)
			continue;
		item->name = strdup(name);
		if (!item->name)
			goto no_memory;
		out->count++;
	}
	free(keys);
	return 0;
no_memory:
	free(keys);
	trace_symbols_deinit(out);
	return -ENOMEM;
}

void trace_symbols_deinit(struct trace_symbols *symbols)
{
	for (size_t i = 0; i < symbols->count; i++)
		free(symbols->items[i].name);
	free(symbols->items);
	*symbols = (struct trace_symbols){0};
}
