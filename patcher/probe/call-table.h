/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_CALL_TABLE_H
#define SONDE_PATCHER_PROBE_CALL_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "patcher/probe/probe.h"
#include "patcher/ring/stacks.h"

/*
 * Calls between their entry and their return.
 *
 * The key is the gva of the return address on the guest's stack: the same at the entry and at the
 * `ret`, unique among all live calls, whichever vCPU the task runs on. Calls on the same stack
 * nest. So a call that serves another one (a wrapper and what it calls) is known, and so is a call
 * whose return was never seen.
 */
struct open_call {
	uint64_t key;          /* gva of the return address */
	struct tracer *tracer; /* whose probe was entered */
	const struct probe *probe;
	uint64_t call_site;
	uint64_t attributed_site;          /* the tracer's: the call site to report */
	uint64_t number;                   /* the tracer's: no other call's; 0: it has none */
	uint64_t words[CAPTURE_ARGUMENTS]; /* the arguments */
	uint64_t items_at_entry;           /* items in the hits of a bulk call's entry */
	uint64_t items_seen;               /* objects in the hits of its return */
	uint64_t inner_result;             /* result of a call nested in this one, 0 = none */
	struct event_task task;            /* of the entry: what was captured of it ... */
	uint32_t task_fields;              /* ... which is CAPTURE(...) of each */
	bool ignored; /* the tracer's: this call serves an outer one, which is the one to record */
};

struct call_node {
	struct open_call entry;
	struct call_node *next;
};

enum { CALL_TABLE_CHAINS = RING_NR_STACKS };

/* Calls are chained per stack: all calls on one share a chain. One thread at a time uses a table.
 */
struct call_chain {
	struct call_node *head;
	unsigned int length;     /* of the list at head */
	struct call_node *spare; /* freed nodes, kept for the next push */
};

typedef bool call_table_fn(void *arg, const struct open_call *call);

struct call_table {
	struct ring_stacks stacks; /* which chains have calls, for who reads the rings */
	call_table_fn *leaves; /* NULL: none */
	void *leaves_arg;
	struct budget *budget; /* or NULL */
	struct call_chain chains[CALL_TABLE_CHAINS];
};

/* -ENOMEM. Its calls come out of the budget, which may be NULL. Destroying is NULL-safe. */
int call_table_create(struct budget *budget, struct call_table **out, struct error *err);
void call_table_destroy(struct call_table *table);

/* Bytes of a task's stack, a power of two, at first 16 KiB. The table must be empty. */
void call_table_set_stack(struct call_table *table, uint32_t bytes);

/* Which open calls may return unseen, as their functions are not traced any more. */
void call_table_set_leaving(struct call_table *table, call_table_fn *fn, void *arg);

struct call_table_push_result {
	unsigned int superseded; /* calls with the same key: they tail-called this one */
	unsigned int lost;       /* deeper calls that cannot be live any more */
	unsigned int left;       /* likewise, which may have returned unseen */
};

static inline struct call_chain *call_table_chain(struct call_table *table, uint64_t key)
{
	return &table->chains[ring_stack_hash(ring_stack_of(&table->stacks, key))];
}

/* For the functions below: make a node for the chain, or drop its calls at or below `key`. */
struct call_node *call_table_make_node(struct call_table *table, struct call_chain *chain);
void call_table_drop_dead(struct call_table *table, struct call_chain *chain, uint64_t key,
			  struct call_table_push_result *result);

/* Any thread reads the length. */
static inline void call_table_set_length(struct call_table *table, struct call_chain *chain,
					 unsigned int length)
{
	__atomic_store_n(&chain->length, length, __ATOMIC_RELAXED);
	table->stacks.open[chain - table->chains] = length ? RING_STACK_OPEN : 0;
}

/* Add a call. The caller fills in tracer, probe, call site and arguments; all else is 0. NULL
 * without memory or budget, and over a cap of half a million calls: the caller counts it as lost.
 * Valid until the call is popped or dropped. */
static inline struct open_call *call_table_push(struct call_table *table, uint64_t key,
						struct call_table_push_result *result)
{
	struct call_chain *chain = call_table_chain(table, key);
	struct call_node *node;

	*result = (struct call_table_push_result){0};
	if (chain->head)
		call_table_drop_dead(table, chain, key, result);
	node = chain->spare;
	if (node)
		chain->spare = node->next;
	else
		node = call_table_make_node(table, chain);
	if (!node)
		return NULL;
	node->entry.key = key;
	node->entry.attributed_site = node->entry.number = 0;
	node->entry.items_at_entry = node->entry.items_seen = 0;
	node->entry.inner_result = 0;
	node->entry.task = (struct event_task){0};
	node->entry.task_fields = 0;
	node->entry.ignored = false;
	node->next = chain->head;
	chain->head = node;
	call_table_set_length(table, chain, chain->length + 1);
	return &node->entry;
}

/* Where the call with this key hangs in its chain; NULL if there is none: it was entered before
 * tracing began. */
static inline struct call_node **call_table_seek(struct call_chain *chain, uint64_t key)
{
	for (struct call_node **link = &chain->head; *link; link = &(*link)->next)
		if ((*link)->entry.key == key)
			return link;
	return NULL;
}

/* Take out what hangs there; valid until the next push. */
static inline const struct open_call *
call_table_unlink(struct call_table *table, struct call_chain *chain, struct call_node **link)
{
	struct call_node *node = *link;

	*link = node->next;
	node->next = chain->spare;
	chain->spare = node;
	call_table_set_length(table, chain, chain->length - 1);
	return &node->entry;
}

/* Take the call with this key out; valid until the next push. NULL if there is none. */
static inline const struct open_call *call_table_pop(struct call_table *table, uint64_t key)
{
	struct call_chain *chain = call_table_chain(table, key);
	struct call_node **link = call_table_seek(chain, key);

	return link ? call_table_unlink(table, chain, link) : NULL;
}

/* The call with this key, which stays in; NULL if there is none. */
static inline struct open_call *call_table_find(struct call_table *table, uint64_t key)
{
	struct call_node **link = call_table_seek(call_table_chain(table, key), key);

	return link ? &(*link)->entry : NULL;
}

/* As call_table_enclosing(), in the chain of the key. */
struct open_call *call_table_find_enclosing(const struct call_table *table,
					    struct call_chain *chain, uint64_t key);

/* The innermost call that is still open around `key`, less than a page up the same stack; NULL if
 * there is none: mostly so when an object is freed. */
static inline struct open_call *call_table_enclosing(struct call_table *table, uint64_t key)
{
	struct call_chain *chain = call_table_chain(table, key);

	return chain->head ? call_table_find_enclosing(table, chain, key) : NULL;
}

/* Set inner_result of the innermost call that is still open around `key`, whose chain this is. */
static inline void call_table_note_inner(struct call_table *table, struct call_chain *chain,
					 uint64_t key, uint64_t result)
{
	struct open_call *nearest =
		chain->head ? call_table_find_enclosing(table, chain, key) : NULL;

	if (nearest)
		nearest->inner_result = result;
}

/* An object was freed inside of this call, or of none (NULL): if a nested call returned it, the
 * outer call itself may now get it. */
static inline void call_table_forget_inner(struct open_call *outer, uint64_t object)
{
	if (outer && outer->inner_result == object)
		outer->inner_result = 0;
}

/* Whether any call is open. Any thread may ask; the answer is racy. */
bool call_table_is_open(struct call_table *table);

/* Remove the calls for which `fn` says so; returns how many. */
uint64_t call_table_drop(struct call_table *table, call_table_fn *fn, void *arg);

/* Remove all calls; returns how many were open. */
uint64_t call_table_clear(struct call_table *table);

#endif
