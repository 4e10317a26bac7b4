/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

int trace_symbols_init(struct trace_symbols *out, const struct u64_map *call_sites,
		       trace_symbolize_fn *symbolize, void *arg)
{
	uint64_t *keys = sorted_keys(call_sites);
	char name[512];

	out->count = 0;
	out->items = calloc(call_sites->count + 1, sizeof(*out->items));
	if (!keys || !out->items)
		goto no_memory;
	for (size_t i = 0; i < call_sites->count; i++) {
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
