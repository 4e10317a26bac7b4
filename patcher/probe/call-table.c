/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/probe/call-table.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Calls are chained per stack: task stacks are 16 KiB (32 with KASAN) and aligned to their size
 * (THREAD_SIZE), so all calls on one share a chain. Interrupt stacks are as large, but their
 * mapping is only page-aligned, so that two of them may share such a window, with a guard page
 * between: only calls less than a page apart are certain to be on the same stack.
 */
enum {
	STACK_SHIFT = 14,
	SAME_STACK_DISTANCE = 4096,
	NR_CHAINS = 1024,
	CHAIN_MAX = 512, /* a guest that forges stacks costs no more memory and time than this */
};

struct node {
	struct open_call entry;
	struct node *next;
};

struct chain {
	struct node *head;
	unsigned int length; /* of the list at head */
	struct node *spare;  /* freed nodes, kept for the next push */
};

struct call_table {
	unsigned int stack_shift;
	struct budget *budget; /* or NULL */
	struct chain chains[NR_CHAINS];
};

static struct chain *chain_of(struct call_table *table, uint64_t key)
{
	return &table->chains[((key >> table->stack_shift) * 0x9e3779b97f4a7c15ull) >> 54];
}

/* Whether no call is open in it: mostly so when an object is freed. Any thread may ask. */
static bool is_empty(struct chain *chain)
{
	return !__atomic_load_n(&chain->length, __ATOMIC_RELAXED);
}

static void set_length(struct chain *chain, unsigned int length)
{
	__atomic_store_n(&chain->length, length, __ATOMIC_RELAXED);
}

static bool same_stack(const struct call_table *table, uint64_t a, uint64_t b)
{
	uint64_t distance = a > b ? a - b : b - a;

	return distance < SAME_STACK_DISTANCE && a >> table->stack_shift == b >> table->stack_shift;
}

int call_table_create(struct budget *budget, struct call_table **out, struct error *err)
{
	struct call_table *table = calloc(1, sizeof(*table));

	if (!table)
		return error_set(err, ENOMEM, "out of memory");
	table->stack_shift = STACK_SHIFT;
	table->budget = budget;
	*out = table;
	return 0;
}

void call_table_set_stack(struct call_table *table, uint32_t bytes)
{
	table->stack_shift = (unsigned int)__builtin_ctz(bytes);
}

static void free_list(struct budget *budget, struct node *node)
{
	while (node) {
		struct node *next = node->next;

		budget_free(budget, node, sizeof(*node));
		node = next;
	}
}

void call_table_destroy(struct call_table *table)
{
	if (!table)
		return;
	for (int i = 0; i < NR_CHAINS; i++) {
		free_list(table->budget, table->chains[i].head);
		free_list(table->budget, table->chains[i].spare);
	}
	free(table);
}

static void unlink_node(struct chain *chain, struct node **link)
{
	struct node *node = *link;

	*link = node->next;
	node->next = chain->spare;
	chain->spare = node;
	set_length(chain, chain->length - 1);
}

static struct node *take_node(const struct call_table *table, struct chain *chain)
{
	struct node *node = chain->spare;

	if (chain->length == CHAIN_MAX)
		return NULL;
	if (!node)
		return budget_malloc(table->budget, sizeof(*node));
	chain->spare = node->next;
	return node;
}

/* A call entered at `key`: no call at or below it on the same stack is live. Calls that may be on
 * another stack stay. */
static void drop_dead(const struct call_table *table, struct chain *chain, uint64_t key,
		      struct call_table_push_result *result)
{
	struct node **link = &chain->head;

	while (*link) {
		uint64_t other = (*link)->entry.key;

		if (!same_stack(table, other, key) || other > key) {
			link = &(*link)->next;
			continue;
		}
		if (other == key)
			result->superseded++;
		else
			result->lost++;
		unlink_node(chain, link);
	}
}

struct open_call *call_table_push(struct call_table *table, uint64_t key,
				  struct call_table_push_result *result)
{
	struct chain *chain = chain_of(table, key);
	struct node *node;

	*result = (struct call_table_push_result){0};
	drop_dead(table, chain, key, result);
	node = take_node(table, chain);
	if (!node)
		return NULL;
	node->entry.key = key;
	node->entry.attributed_site = 0;
	node->entry.items_at_entry = node->entry.items_seen = 0;
	node->entry.inner_result = 0;
	node->entry.ignored = false;
	node->next = chain->head;
	chain->head = node;
	set_length(chain, chain->length + 1);
	return &node->entry;
}

const struct open_call *call_table_pop(struct call_table *table, uint64_t key)
{
	struct chain *chain = chain_of(table, key);

	for (struct node **link = &chain->head; *link; link = &(*link)->next) {
		struct node *node = *link;

		if (node->entry.key != key)
			continue;
		unlink_node(chain, link);
		return &node->entry;
	}
	return NULL;
}

struct open_call *call_table_find(struct call_table *table, uint64_t key)
{
	for (struct node *node = chain_of(table, key)->head; node; node = node->next)
		if (node->entry.key == key)
			return &node->entry;
	return NULL;
}

static struct open_call *find_enclosing(const struct call_table *table, struct chain *chain,
					uint64_t key)
{
	struct open_call *nearest = NULL;

	for (struct node *node = chain->head; node; node = node->next)
		if (same_stack(table, node->entry.key, key) && node->entry.key > key &&
		    (!nearest || node->entry.key < nearest->key))
			nearest = &node->entry;
	return nearest;
}

static struct open_call *enclosing(struct call_table *table, uint64_t key)
{
	struct chain *chain = chain_of(table, key);

	return is_empty(chain) ? NULL : find_enclosing(table, chain, key);
}

const struct open_call *call_table_enclosing(struct call_table *table, uint64_t key)
{
	return enclosing(table, key);
}

void call_table_note_inner(struct call_table *table, uint64_t key, uint64_t result)
{
	struct open_call *nearest = enclosing(table, key);

	if (nearest)
		nearest->inner_result = result;
}

void call_table_forget_inner(struct call_table *table, uint64_t key, uint64_t object)
{
	struct open_call *nearest = enclosing(table, key);

	if (nearest && nearest->inner_result == object)
		nearest->inner_result = 0;
}

bool call_table_is_open(struct call_table *table)
{
	for (int i = 0; i < NR_CHAINS; i++)
		if (!is_empty(&table->chains[i]))
			return true;
	return false;
}

uint64_t call_table_drop(struct call_table *table, call_table_fn *fn, void *arg)
{
	uint64_t dropped = 0;

	for (int i = 0; i < NR_CHAINS; i++) {
		struct chain *chain = &table->chains[i];
		struct node **link = &chain->head;

		while (*link) {
			if (!fn(arg, &(*link)->entry)) {
				link = &(*link)->next;
				continue;
			}
			unlink_node(chain, link);
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
