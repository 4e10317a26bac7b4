/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/call-sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CALL_SITES = 1 << 18 }; /* a kernel has fewer; a hostile guest does not */

void call_sites_init(struct call_sites *sites)
{
	pthread_mutex_init(&sites->lock, NULL);
	u64_map_init(&sites->all, 0);
}

void call_sites_deinit(struct call_sites *sites)
{
	u64_map_deinit(&sites->all);
	pthread_mutex_destroy(&sites->lock);
}

void call_sites_note(struct call_sites *sites, uint64_t call_site)
{
	pthread_mutex_lock(&sites->lock);
	if (sites->all.count < MAX_CALL_SITES)
		u64_map_insert(&sites->all, call_site, NULL);
	pthread_mutex_unlock(&sites->lock);
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t *sorted_keys(struct call_sites *sites, size_t *count)
{
	uint64_t *keys;
	size_t pos = 0;

	pthread_mutex_lock(&sites->lock);
	*count = sites->all.count;
	keys = calloc(*count + 1, sizeof(*keys));
	for (size_t i = 0; keys && u64_map_next(&sites->all, &pos, &keys[i]); i++)
		;
	pthread_mutex_unlock(&sites->lock);
	if (keys)
		qsort(keys, *count, sizeof(*keys), compare_u64);
	return keys;
}

int trace_symbols_init(struct trace_symbols *out, struct call_sites *sites,
		       trace_symbolize_fn *symbolize, void *arg)
{
	size_t count;
	uint64_t *keys = sorted_keys(sites, &count);
	char name[512];

	out->count = 0;
	out->items = calloc(count + 1, sizeof(*out->items));
	if (!keys || !out->items)
		goto no_memory;
	for (size_t i = 0; i < count; i++) {
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
