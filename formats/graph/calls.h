/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_GRAPH_CALLS_H
#define SONDE_FORMATS_GRAPH_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/event/event.h"

/*
 * Calls out of the events of one instance of the graph tracer, in the order of time: which call is
 * made by which, and when it ends.
 *
 * Entry and return are paired by the call's frame, whatever the vCPU: a task may sleep and migrate
 * in between. The calls of a task nest; interrupts are calls of the task that they interrupt, as in
 * ftrace. vCPUs' idle tasks, all of which have pid 0, are tasks of their own.
 *
 * A call whose return is not in the trace (it left by a jump to a function that is not traced,
 * never returned, or the return was lost) ends when the trace shows that it must have: its caller
 * returns, or another function is called with a frame at the same place or above it, on the same
 * stack. A function that recorded ones jump to, and that begins in the frame of another one and
 * returns to the same place, was tail-called by it: both return at once.
 */
struct graph_call {
	uint64_t ip, parent_ip, frame;
	uint32_t pid;
	uint32_t tgid;      /* of the process; 0: not recorded */
	uint64_t cgroup;    /* its id; likewise */
	char comm[16];      /* not terminated; empty if it is not recorded */
	unsigned int vcpu;  /* where it began */
	unsigned int depth; /* calls of the task that are open around it, and wanted */
	int64_t begin_ns, end_ns;
	uint64_t result;
	bool has_result;
	bool is_tail;        /* the call around it ended with it */
	bool interrupts;     /* it runs on another stack than the call around it */
	bool unrecorded;     /* its function's returns are not recorded: none will be seen */
	bool wanted;         /* for the visitor */
	uint64_t within_ns;  /* of the calls that it made, as far as they have ended: their time, or
			      * else that of the calls in them */
	uint64_t note;       /* the visitor's own */
	uint64_t outer_note; /* that of the call around it, if `depth` is not 0 */
};

/* MAX_ERRNO of Linux, include/linux/err.h */
enum { GRAPH_ERRNO_MAX = 4095 };

/* What it returned, if it has a result. An error of an int may have an upper half of zeros. */
static inline int64_t graph_call_result(const struct graph_call *call)
{
	const int32_t narrow = (int32_t)call->result;

	if (call->result >> 32 == 0 && narrow < 0 && narrow >= -GRAPH_ERRNO_MAX)
		return narrow;
	return (int64_t)call->result;
}

/* Its time, if it has returned, and that without the calls in it. */
static inline uint64_t graph_call_ns(const struct graph_call *call)
{
	return call->end_ns > call->begin_ns ? (uint64_t)call->end_ns - (uint64_t)call->begin_ns
					     : 0;
}

static inline uint64_t graph_call_self_ns(const struct graph_call *call)
{
	const uint64_t ns = graph_call_ns(call);

	return ns > call->within_ns ? ns - call->within_ns : 0;
}

struct graph_visitor {
	void *arg;
	uint64_t stack_bytes; /* of each stack: sidecar_stack_bytes() */
	/* Whether calls of a function are wanted, with all calls in them; asked once of each. NULL:
	 * all are. */
	bool (*wants)(void *arg, uint64_t ip);
	/* A function begins. May set the note. */
	void (*enter)(void *arg, struct graph_call *call);
	/* It ends, on a vCPU. `seen`: it has returned, and end_ns says when. Else it ended at some
	 * time before now, and `vcpu` is where that became known. */
	void (*leave)(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen);
};

struct graph_calls;

/* -ENOMEM. Destroying is NULL-safe, and ends no calls. */
int graph_calls_create(const struct graph_visitor *visitor, struct graph_calls **out,
		       struct error *err);
void graph_calls_destroy(struct graph_calls *calls);

/* The next event; one that is not of the graph tracer is ignored. -ENOMEM. */
int graph_calls_add(struct graph_calls *calls, const struct event *event);

/* Visit the calls that have not ended, and are wanted, in any order. They stay open. */
void graph_calls_visit_open(const struct graph_calls *calls,
			    void (*visit)(void *arg, const struct graph_call *call), void *arg);
/* The same in the order in which they began. -ENOMEM. */
int graph_calls_visit_open_in_order(const struct graph_calls *calls,
				    void (*visit)(void *arg, const struct graph_call *call),
				    void *arg);

struct graph_counts {
	uint64_t calls, unseen; /* of those that are wanted */
	uint64_t orphans; /* returns of calls that are not known: begun before the trace, or lost */
};
struct graph_counts graph_calls_counts(const struct graph_calls *calls);

/* Whether the glob matches a function's name, "fn" or "fn [module]", with or without the module. */
bool graph_name_matches(const char *glob, const char *name);

#endif
