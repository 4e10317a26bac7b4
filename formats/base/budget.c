/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/budget.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64 };

void budget_init(struct budget *budget, size_t most)
{
	budget->most = most;
	atomic_init(&budget->used, 0);
	atomic_init(&budget->refused, 0);
}

bool budget_take(struct budget *budget, size_t bytes)
{
	size_t used;

	if (!budget)
		return true;
	used = atomic_load(&budget->used);
	do {
		if (bytes > budget->most || used > budget->most - bytes) {
			atomic_fetch_add(&budget->refused, 1);
			return false;
		}
	} while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
	return true;
}

void budget_give(struct budget *budget, size_t bytes)
{
	if (budget)
		atomic_fetch_sub(&budget->used, bytes);
}

void *budget_malloc(struct budget *budget, size_t bytes)
{
	return budget_realloc(budget, NULL, 0, bytes);
}

void *budget_calloc(struct budget *budget, size_t n, size_t bytes_each)
{
	void *memory;

	if (!budget_take(budget, n * bytes_each))
		return NULL;
	memory = calloc(n, bytes_each);
	if (!memory)
		budget_give(budget, n * bytes_each);
	return memory;
}

/* Both are there for a moment. */
void *budget_realloc(struct budget *budget, void *old, size_t old_bytes, size_t bytes)
{
	void *memory;

	if (!budget_take(budget, bytes))
		return NULL;
	memory = realloc(old, bytes);
	budget_give(budget, memory ? old_bytes : bytes);
	return memory;
}

bool budget_double(struct budget *budget, void *items, size_t item_size, size_t *room)
{
	size_t more = *room ? 2 * *room : FIRST_ROOM;
	void *old, *bigger;

	memcpy(&old, items, sizeof(old));
	bigger = budget_realloc(budget, old, *room * item_size, more * item_size);
	if (!bigger)
		return false;
	memcpy(items, &bigger, sizeof(bigger));
	*room = more;
	return true;
}

char *budget_strdup(struct budget *budget, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = budget_malloc(budget, bytes);

	return copy ? memcpy(copy, text, bytes) : NULL;
}

void budget_free(struct budget *budget, void *memory, size_t bytes)
{
	if (memory)
		budget_give(budget, bytes);
	free(memory);
}

void budget_free_text(struct budget *budget, char *text)
{
	budget_free(budget, text, text ? strlen(text) + 1 : 0);
}
