/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "introspect/kernel/address-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int address_list_add(struct address_list *list, uint64_t address)
{
	if (!budget_grow(list->budget, &list->v, sizeof(*list->v), list->n, &list->room))
		return -ENOMEM;
	list->v[list->n++] = address;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void address_list_sort(struct address_list *list)
{
	size_t kept = 0;

	if (list->n)
		qsort(list->v, list->n, sizeof(*list->v), compare);
	for (size_t i = 0; i < list->n; i++)
		if (!kept || list->v[i] != list->v[kept - 1])
			list->v[kept++] = list->v[i];
	list->n = kept;
}

bool address_list_is_same(const struct address_list *a, const struct address_list *b)
{
	return a->n == b->n && (!a->n || !memcmp(a->v, b->v, a->n * sizeof(*a->v)));
}

void address_list_deinit(struct address_list *list)
{
	budget_free(list->budget, list->v, list->room * sizeof(*list->v));
	*list = (struct address_list){0};
}
