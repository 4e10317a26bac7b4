/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/image/mcount.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"

struct list {
	const uint8_t *bytes;
	uint64_t address;
	size_t n;
};

static int list_open(const struct elf_view *view, const struct symbol_table *symbols,
		     const char *start, const char *stop, size_t width, struct list *out,
		     struct error *err)
{
	const struct symbol *from = symbols_find(symbols, start), *to = symbols_find(symbols, stop);
	uint64_t size = from && to ? to->address - from->address : 0;

	*out = (struct list){.address = from ? from->address : 0, .n = size / width};
	if (!size)
		return 0;
	out->bytes = elf_view_range(view, from->address, size);
	if (!out->bytes || size % width)
		return error_set_at(err, EBADMSG, from->address,
				    "list %s is not in the kernel image", start);
	return 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x < y ? -1 : x > y;
}

/* Sort, unless the list is sorted already, and drop duplicates. */
static size_t sort_unique(uint64_t *v, size_t n)
{
	size_t kept = 0;

	for (size_t i = 1; i < n; i++) {
		if (v[i] < v[i - 1]) {
			qsort(v, n, sizeof(*v), compare);
			break;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (!kept || v[i] != v[kept - 1])
			v[kept++] = v[i];
	return kept;
}

static uint64_t mcount_entry(const struct list *list, size_t i)
{
	uint64_t address;

	memcpy(&address, list->bytes + i * sizeof(address), sizeof(address));
	return address;
}

static uint64_t return_entry(const struct list *list, size_t i)
{
	int32_t relative;

	memcpy(&relative, list->bytes + i * sizeof(relative), sizeof(relative));
	return list->address + i * sizeof(relative) + (uint64_t)(int64_t)relative;
}

static int list_read(const struct list *list, uint64_t (*entry)(const struct list *, size_t),
		     uint64_t text, uint64_t text_end, uint64_t **out, size_t *n, struct error *err)
{
	uint64_t *v = NULL;
	size_t used = 0;

	if (list->n) {
		v = malloc(list->n * sizeof(*v));
		if (!v)
			return error_set(err, ENOMEM, "no memory for %zu sites", list->n);
	}
	for (size_t i = 0; i < list->n; i++) {
		uint64_t address = entry(list, i);

		if (address >= text && address < text_end)
			v[used++] = address;
	}
	*n = sort_unique(v, used);
	*out = v;
	return 0;
}

int mcount_read(const struct elf_view *view, const struct symbol_table *symbols, uint64_t text,
		uint64_t text_end, uint64_t **out, size_t *n, struct error *err)
{
	struct list list;
	int ret = list_open(view, symbols, "__start_mcount_loc", "__stop_mcount_loc",
			    sizeof(uint64_t), &list, err);

	return ret ? ret : list_read(&list, mcount_entry, text, text_end, out, n, err);
}

int return_sites_read(const struct elf_view *view, const struct symbol_table *symbols,
		      uint64_t text, uint64_t text_end, uint64_t **out, size_t *n,
		      struct error *err)
{
	struct list list;
	int ret = list_open(view, symbols, "__return_sites", "__return_sites_end", sizeof(int32_t),
			    &list, err);

	return ret ? ret : list_read(&list, return_entry, text, text_end, out, n, err);
}

static uint64_t site_at(const void *sites, size_t i)
{
	return ((const uint64_t *)sites)[i];
}

uint64_t site_in_range(const uint64_t *sites, size_t n, uint64_t from, uint64_t to)
{
	const size_t first = search_from(n, from, site_at, sites);

	return first < n && sites[first] < to ? sites[first] : 0;
}
