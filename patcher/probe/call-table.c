/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/probe/call-table.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Task stacks are 16 KiB (32 with KASAN) and aligned to their size (THREAD_SIZE). Interrupt stacks
 * are as large, but their mapping is only page-aligned, so that two of them may share such a
 * window, with a guard page between: only calls less than a page apart are certain to be on the
 * same stack.
 */
enum {
	STACK_SHIFT = 14,
	SAME_STACK_DISTANCE = 4096,
	CHAIN_MAX = 512, /* a guest that forges stacks costs no more memory and time than this */
};

static bool same_stack(const struct call_table *table, uint64_t a, uint64_t b)
{
	uint64_t distance = a > b ? a - b : b - a;

	return distance < SAME_STACK_DISTANCE &&
	       ring_stack_of(&table->stacks, a) == ring_stack_of(&table->stacks, b);
}

int call_table_create(struct budget *budget, struct call_table **out, struct error *err)
{
	struct call_table *table = calloc(1, sizeof(*table));

	if (!table)
		return error_set(err, ENOMEM, "out of memory");
	table->stacks.shift = STACK_SHIFT;
	table->budget = budget;
	*out = table;
	return 0;
}

void call_table_set_stack(struct call_table *table, uint32_t bytes)
{
	table->stacks.shift = (unsigned int)__builtin_ctz(bytes);
}

void call_table_set_leaving(struct call_table *table, call_table_fn *fn, void *arg)
{
	table->leaves = fn;
	table->leaves_arg = arg;
}

static void free_list(struct budget *budget, struct call_node *node)
{
	while (node) {
		struct call_node *next = node->next;

		budget_free(budget, node, sizeof(*node));
		node = next;
	}
}

void call_table_destroy(struct call_table *table)
{
	if (!table)
		return;
	for (int i = 0; i < CALL_TABLE_CHAINS; i++) {
		free_list(table->budget, table->chains[i].head);
		free_list(table->budget, table->chains[i].spare);
	}
	free(table);
}

/* A chain has at most CHAIN_MAX nodes, spare ones included. */
struct call_node *call_table_make_node(struct call_table *table, struct call_chain *chain)
{
	if (chain->length == CHAIN_MAX)
		return NULL;
	return budget_malloc(table->budget, sizeof(struct call_node));
}

/* A call entered at `key`: no call at or below it on the same stack is live. Calls that may be on
 * another stack stay. */
void call_table_drop_dead(struct call_table *table, struct call_chain *chain, uint64_t key,
			  struct call_table_push_result *result)
{
	struct call_node **link = &chain->head;

	while (*link) {
		uint64_t other = (*link)->entry.key;

		if (!same_stack(table, other, key) || other > key) {
			link = &(*link)->next;
			continue;
		}
		if (other == key)
			result->superseded++;
		else if (table->leaves && table->leaves(table->leaves_arg, &(*link)->entry))
			result->left++;
		else
			result->lost++;
		call_table_unlink(table, chain, link);
	}
}

struct open_call *call_table_find_enclosing(const struct call_table *table,
					    struct call_chain *chain, uint64_t key)
{
	struct open_call *nearest = NULL;

	for (struct call_node *node = chain->head; node; node = node->next)
		if (same_stack(table, node->entry.key, key) && node->entry.key > key &&
		    (!nearest || node->entry.key < nearest->key))
			nearest = &node->entry;
	return nearest;
}

bool call_table_is_open(struct call_table *table)
{
	for (int i = 0; i < CALL_TABLE_CHAINS; i++)
		if (__atomic_load_n(&table->chains[i].length, __ATOMIC_RELAXED))
			return true;
	return false;
}

uint64_t call_table_drop(struct call_table *table, call_table_fn *fn, void *arg)
{
	uint64_t dropped = 0;

	for (int i = 0; i < CALL_TABLE_CHAINS; i++) {
		struct call_chain *chain = &table->chains[i];
		struct call_node **link = &chain->head;

		while (*link) {
			if (!fn(arg, &(*link)->entry)) {
				link = &(*link)->next;
				continue;
			}
			call_table_unlink(table, chain, link);
			dropped++;
		}
	}
	return dropped;
}

static bool is_any(void *arg, const struct open_call *call)
{
	(void)arg;
	(void)call;
	return true;
}

uint64_t call_table_clear(struct call_table *table)
{
	return call_table_drop(table, is_any, NULL);
}
