/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ALLOCATORS_TOLD_CALLS_H
#define SONDE_FORMATS_ALLOCATORS_TOLD_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/event/event.h"

/*
 * Calls of the guest's allocator that no allocation and no free shows. A trace has them if the user
 * traced them with dynamic probes.
 */
enum told_call_kind {
	TOLD_FREE_LATER,  /* kvfree_call_rcu(), which kfree_rcu() calls */
	TOLD_PREFILL,     /* kmem_cache_prefill_sheaf() */
	TOLD_END_PREFILL, /* kmem_cache_return_sheaf() */
	TOLD_LOOK,        /* drain_array(), by which SLAB's timer looks at a cache */
};

struct told_call {
	enum told_call_kind kind;
	uint64_t value; /* the object's address; how many objects at least */
	uint64_t task;  /* its pid */
	char cache[EVENT_LONG_STRING_MAX]; /* its name */
};

/* Where the function of a probe's event begins; 0: it is not the event of a probe. */
uint64_t told_function(const struct event *event);

/* The call of this function. False: it is none of these, or the event lacks a value. */
bool told_call(const char *function, const struct event *event, struct told_call *out);

#endif
