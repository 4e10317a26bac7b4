/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_PROBE_CALL_TABLE_H
#define SONDE_PATCHER_PROBE_CALL_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "patcher/probe/probe.h"

/*
 * What is remembered of a function between its entry and its return.
 *
 * The key is the guest-virtual address of the return address on the guest's stack: the same at
 * entry and at the `ret`, unique among all live calls, whichever vCPU the task wakes up on. Calls
 * on the same stack nest, which tells the calls apart that serve one allocation (a wrapper and what
 * it calls), and finds calls that never returned to us.
 */
struct open_call {
	uint64_t key;          /* gva of the return address */
	struct tracer *tracer; /* whose probe was entered */
	const struct probe *probe;
	uint64_t call_site;
	uint64_t attributed_site;          /* the tracer's: the call site to report */
	uint64_t words[CAPTURE_ARGUMENTS]; /* the arguments */
	uint64_t items_seen;   /* objects of a bulk call that its returns have told of */
	uint64_t inner_result; /* result of a call nested in this one, 0 = none */
	bool ignored; /* the tracer's: this call serves an outer one, which is what counts */
};

struct call_table;

/* -ENOMEM. Destroying is NULL-safe. */
int call_table_create(struct call_table **out, struct error *err);
void call_table_destroy(struct call_table *table);

struct call_table_push_result {
	unsigned int superseded; /* calls with the same key: they tail-called this one */
	unsigned int lost;       /* deeper calls that cannot be live any more */
};

/* Remember a call. Thread-safe. -ENOMEM (also over a cap, half a million calls) counts as lost by
 * the caller. */
int call_table_push(struct call_table *table, const struct open_call *entry,
		    struct call_table_push_result *result);

/* Take the call with this key out. False if it is not there: it was entered before tracing began.
 */
bool call_table_pop(struct call_table *table, uint64_t key, struct open_call *out);

/* The innermost call that is still open around `key` on the same stack; false if there is none. */
bool call_table_enclosing(struct call_table *table, uint64_t key, struct open_call *out);

/* Tell the innermost call that is still open around `key`, less than a page up the same stack, what
 * a nested call returned. */
void call_table_note_inner(struct call_table *table, uint64_t key, uint64_t result);

/* An object was freed: what a nested call returned may now be given to the outer one itself. */
void call_table_forget_inner(struct call_table *table, uint64_t key, uint64_t object);

/* Whether any call is open; a guess once it is answered. */
bool call_table_is_open(struct call_table *table);

/* Forget everything; returns how many calls were open. */
uint64_t call_table_clear(struct call_table *table);

#endif
