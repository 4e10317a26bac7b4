/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_CALL_TABLE_H
#define SONDE_PATCHER_PROBE_CALL_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "patcher/probe/probe.h"

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
	uint64_t words[CAPTURE_ARGUMENTS]; /* the arguments */
	uint64_t items_at_entry;           /* items in the hits of a bulk call's entry */
	uint64_t items_seen;               /* objects in the hits of its return */
	uint64_t inner_result;             /* result of a call nested in this one, 0 = none */
	bool ignored; /* the tracer's: this call serves an outer one, which is the one to record */
};

/* One thread at a time uses a table. */
struct call_table;

/* -ENOMEM. Its calls come out of the budget, which may be NULL. Destroying is NULL-safe. */
int call_table_create(struct budget *budget, struct call_table **out, struct error *err);
void call_table_destroy(struct call_table *table);

/* Bytes of a task's stack, a power of two, at first 16 KiB. The table must be empty. */
void call_table_set_stack(struct call_table *table, uint32_t bytes);

struct call_table_push_result {
	unsigned int superseded; /* calls with the same key: they tail-called this one */
	unsigned int lost;       /* deeper calls that cannot be live any more */
};

/* Add a call. The caller fills in tracer, probe, call site and arguments; all else is 0. NULL
 * without memory or budget, and over a cap of half a million calls: the caller counts it as lost.
 * Valid until the call is popped or dropped. */
struct open_call *call_table_push(struct call_table *table, uint64_t key,
				  struct call_table_push_result *result);

/* Take the call with this key out; valid until the next push. NULL if there is none: it was entered
 * before tracing began. */
const struct open_call *call_table_pop(struct call_table *table, uint64_t key);

/* The call with this key, which stays in; NULL if there is none. */
struct open_call *call_table_find(struct call_table *table, uint64_t key);

/* The innermost call that is still open around `key` on the same stack; NULL if there is none. */
const struct open_call *call_table_enclosing(struct call_table *table, uint64_t key);

/* Set inner_result of the innermost call that is still open around `key`, less than a page up the
 * same stack. */
void call_table_note_inner(struct call_table *table, uint64_t key, uint64_t result);

/* An object was freed: if a nested call returned it, the outer call itself may now get it. */
void call_table_forget_inner(struct call_table *table, uint64_t key, uint64_t object);

/* Whether any call is open. Any thread may ask; the answer is racy. */
bool call_table_is_open(struct call_table *table);

/* Remove the calls for which `fn` says so; returns how many. */
typedef bool call_table_fn(void *arg, const struct open_call *call);
uint64_t call_table_drop(struct call_table *table, call_table_fn *fn, void *arg);

/* Remove all calls; returns how many were open. */
uint64_t call_table_clear(struct call_table *table);

#endif
