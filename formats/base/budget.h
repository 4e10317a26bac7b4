/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_BASE_BUDGET_H
#define SONDE_FORMATS_BASE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The memory that a guest can make this process use, over all tables that grow with what the guest
 * does or claims: names, modules, open calls, numbers of values. Each of them has a cap of its own,
 * but together they would come to gigabytes. Beyond the budget a table behaves as without memory.
 * Thread-safe. A budget that is NULL has no bound.
 */
struct budget {
	size_t most; /* bytes */
	_Atomic size_t used;
	_Atomic uint64_t refused; /* requests that did not fit */
};

enum { BUDGET_OF_A_GUEST = 256 << 20 };

void budget_init(struct budget *budget, size_t most);

/* Before `bytes` are allocated. False: they do not fit, which is counted. */
bool budget_take(struct budget *budget, size_t bytes);
/* After they were freed. */
void budget_give(struct budget *budget, size_t bytes);

/* malloc() of a small thing, realloc() of an array, strdup(); NULL without memory or budget. */
void *budget_malloc(struct budget *budget, size_t bytes);
/* Zeroed. */
void *budget_calloc(struct budget *budget, size_t n, size_t bytes_each);
void *budget_realloc(struct budget *budget, void *old, size_t old_bytes, size_t bytes);
char *budget_strdup(struct budget *budget, const char *text);
/* As budget_grow(), of one that is full. */
bool budget_double(struct budget *budget, void *items, size_t item_size, size_t *room);

/*
 * Make room for one more item in an array that has `count` items of `item_size` bytes and room for
 * *room; what is allocated doubles. `items` is the address of the pointer to the array. False
 * without memory or budget: the array is as before.
 */
static inline bool budget_grow(struct budget *budget, void *items, size_t item_size, size_t count,
			       size_t *room)
{
	return count < *room || budget_double(budget, items, item_size, room);
}

/* The same without a budget. */
static inline bool array_grow(void *items, size_t item_size, size_t count, size_t *room)
{
	return budget_grow(NULL, items, item_size, count, room);
}

/* NULL-safe. `bytes` is what was taken for it. */
void budget_free(struct budget *budget, void *memory, size_t bytes);
void budget_free_text(struct budget *budget, char *text);

#endif
