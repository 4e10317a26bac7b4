/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/trace/site-names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/fs.h"
#include "formats/base/text.h"

enum { BATCH = 256 };

void site_names_init(struct site_names *names, struct call_sites *sites, int dir_fd,
		     const char *sidecar_name)
{
	*names = (struct site_names){.sites = sites, .dir_fd = dir_fd, .fd = -1};
	sidecar_names_file(sidecar_name, names->file_name, sizeof(names->file_name));
	u64_map_init(&names->by_start, sizeof(size_t));
	u64_map_set_budget(&names->by_start, sites->budget);
	budget_init(&names->lines, SIDECAR_MAX_SIZE);
}

void site_names_deinit(struct site_names *names)
{
	struct budget *budget = names->sites ? names->sites->budget : NULL;

	for (size_t i = 0; i < names->count; i++)
		budget_free_text(budget, names->symbols[i].name);
	budget_free(budget, names->symbols, names->room * sizeof(*names->symbols));
	budget_free(budget, names->pending, names->pending_room * sizeof(*names->pending));
	u64_map_deinit(&names->by_start);
	if (names->sites && names->fd >= 0)
		close(names->fd);
}

/* --- naming ---------------------------------------------------------------------------------- */

static void take_sites(struct site_names *names)
{
	uint64_t batch[BATCH];
	size_t n;

	while ((n = call_sites_get(names->sites, names->taken, batch, BATCH))) {
		for (size_t i = 0; i < n; i++)
			if (budget_grow(names->sites->budget, &names->pending,
					sizeof(*names->pending), names->nr_pending,
					&names->pending_room))
				names->pending[names->nr_pending++] = batch[i];
		names->taken += n;
	}
}

int site_function_again(void *arg, uint64_t address, struct site_function *out)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(arg, address);

	if (!symbol)
		return -ENOENT;
	snprintf(out->name, sizeof(out->name), "%s", symbol->name);
	out->start = symbol->start;
	out->size = symbol->size;
	out->returned = symbol->returned;
	out->build_id = symbol->build_id;
	return 0;
}

/* Returns false without memory. */
static bool append_symbol(struct site_names *names, const struct sidecar_symbol *symbol)
{
	struct budget *budget = names->sites->budget;
	char *copy = budget_strdup(budget, symbol->name);
	size_t *index = NULL;

	if (copy &&
	    budget_grow(budget, &names->symbols, sizeof(*symbol), names->count, &names->room))
		index = u64_map_insert(&names->by_start, symbol->start, NULL);
	if (!index) {
		budget_free_text(budget, copy);
		return false;
	}
	*index = names->count;
	names->symbols[names->count] = *symbol;
	names->symbols[names->count++].name = copy;
	return true;
}

static void add_symbol(struct site_names *names, const struct sidecar_symbol *symbol)
{
	const size_t *index = u64_map_find(&names->by_start, symbol->start);
	const size_t bytes = sidecar_symbol_bytes(symbol);

	if (index) {
		if (symbol->address < names->symbols[*index].address)
			names->symbols[*index].address = symbol->address;
		return;
	}
	if (budget_take(&names->lines, bytes) && !append_symbol(names, symbol))
		budget_give(&names->lines, bytes);
}

/* Returns 0, or as trace_symbolize_fn. */
static int name_site(struct site_names *names, trace_symbolize_fn *symbolize, void *arg,
		     uint64_t address)
{
	struct site_function function = {0};
	int ret = symbolize(arg, address, &function);

	if (!ret)
		add_symbol(names, &(struct sidecar_symbol){.address = address,
							   .start = function.start,
							   .size = function.size,
							   .name = function.name,
							   .returned = function.returned,
							   .build_id = function.build_id});
	return ret;
}

/* Pending sites from `first` to `end`. Those that may have a name later stay; returns their end. */
static size_t name_pending(struct site_names *names, trace_symbolize_fn *symbolize, void *arg,
			   size_t first, size_t end)
{
	uint64_t *pending = names->pending;
	const size_t rest = names->nr_pending - end;
	size_t kept = first;

	for (size_t i = first; i < end; i++)
		if (name_site(names, symbolize, arg, pending[i]) == -EAGAIN)
			pending[kept++] = pending[i];
	if (rest && kept < end)
		memmove(pending + kept, pending + end, rest * sizeof(*pending));
	names->nr_pending = kept + rest;
	return kept;
}

void site_names_update(struct site_names *names, trace_symbolize_fn *symbolize, void *arg)
{
	const size_t old = names->nr_pending;
	size_t first = names->next < old ? names->next : 0;
	size_t end = old - first < BATCH ? old : first + BATCH;

	take_sites(names);
	name_pending(names, symbolize, arg, old, names->nr_pending);
	names->next = name_pending(names, symbolize, arg, first, end);
}

void site_names_complete(struct site_names *names, trace_symbolize_fn *symbolize, void *arg)
{
	take_sites(names);
	name_pending(names, symbolize, arg, 0, names->nr_pending);
}

static int compare(const void *a, const void *b)
{
	const struct sidecar_symbol *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

struct sidecar_symbol *site_names_copy(const struct site_names *names)
{
	struct sidecar_symbol *copy =
		budget_calloc(names->sites->budget, names->count + 1, sizeof(*copy));

	if (copy && names->count) {
		memcpy(copy, names->symbols, names->count * sizeof(*copy));
		qsort(copy, names->count, sizeof(*copy), compare);
	}
	return copy;
}

void site_names_free_copy(const struct site_names *names, struct sidecar_symbol *copy)
{
	budget_free(names->sites->budget, copy, (names->count + 1) * sizeof(*copy));
}

/* --- the file -------------------------------------------------------------------------------- */

/* As much as is written at once. */
static int append_batch(struct site_names *names)
{
	char *text = NULL;
	size_t size, done, next = names->appended;
	FILE *lines = open_memstream(&text, &size);
	int ret = lines ? 0 : -ENOMEM;

	for (; !ret && next < names->count && next - names->appended < BATCH; next++)
		ret = sidecar_print_symbol(lines, &names->symbols[next]);
	if (lines && text_stream_close(lines))
		ret = -ENOMEM;
	if (!ret)
		ret = file_write_at(names->fd, text, size, names->size, &done);
	if (!ret) {
		names->size += size;
		names->appended = next;
	}
	free(text);
	return ret;
}

int site_names_append(struct site_names *names)
{
	int ret = 0;

	if (names->appended < names->count && names->fd < 0) {
		names->fd = output_file_create(names->dir_fd, names->file_name);
		ret = names->fd < 0 ? names->fd : 0;
	}
	while (!ret && names->appended < names->count)
		ret = append_batch(names);
	if (ret && names->fd >= 0 && ftruncate(names->fd, (off_t)names->size))
		return -errno;
	return ret;
}

void site_names_remove_file(struct site_names *names)
{
	if (names->fd < 0)
		return;
	close(names->fd);
	names->fd = -1;
	unlinkat(names->dir_fd, names->file_name, 0);
}
