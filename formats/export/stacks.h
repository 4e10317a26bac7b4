/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_EXPORT_STACKS_H
#define SONDE_FORMATS_EXPORT_STACKS_H

#include <stddef.h>
#include <stdint.h>
#include "formats/export/export.h"

/*
 * Sums over events by the code that they come from: those of a class whose code addresses are the
 * same. An event's frames are its stack, if it has one, else its other fields with code addresses;
 * callers first, functions last. A stack that goes on begins with EVENT_STACK_CUT. Stacks of
 * different call sites differ, also with the same frames.
 *
 * Allocations have bytes, too, and what of them is live. Pages for slab objects and for large
 * kmalloc() objects have none, as their objects have them: no byte counts twice.
 *
 * Of a part of a trace, the bytes are of the objects whose allocation is selected: allocated in its
 * time, and live at its end, also those that are older.
 *
 * With EXPORT_TIME the sums are over calls instead, whose ends are recorded, too: how many there
 * are, and their time (stack-times.c).
 */
enum stack_sum {
	STACK_EVENTS,
	STACK_BYTES, /* that were allocated */
	STACK_LIVE_OBJECTS,
	STACK_LIVE_BYTES,
	STACK_TIME, /* ns, of calls */
	STACK_NR_SUMS,
};

enum { STACK_MAX_FRAMES = EVENT_STACK_WORDS + EVENT_MAX_FIELDS };

struct stack {
	const struct trace_instance *instance;
	const struct event_class *class;
	unsigned int nr_frames;
	uint64_t frames[STACK_MAX_FRAMES]; /* outermost first */
	uint64_t site; /* the first field with a code address beside the stack; 0: none */
	uint64_t sums[STACK_NR_SUMS];
	/* Of allocations of pages: the heap's origin, plus 1. All have the same call site. */
	uint32_t page_origin;
};

struct stacks;

/* For sums of this kind: -EINVAL if the trace has none, -ENOMEM. The reader outlives the result. */
int stacks_create(const struct trace_reader *reader, enum export_value value, struct stacks **out,
		  struct error *err);
/* NULL-safe. */
void stacks_destroy(struct stacks *stacks);

/* In merged order. The return of a call is no event of its own: it has no frames. Returns 0 or
 * -ENOMEM. */
int stacks_add(struct stacks *stacks, const struct event *event);

/* An event that is not of the part that the sums are of: its objects are live in it, if it is
 * before its time and selected, and it may free others. Returns 0 or -ENOMEM. */
int stacks_note(struct stacks *stacks, const struct event *event, const struct part_place *place);

/* After the last event: settle the bytes. Returns the stacks, which belong to *stacks. */
const struct stack *stacks_finish(struct stacks *stacks, size_t *n);

/* Whether there are instances whose events are allocations. */
bool stacks_have_bytes(const struct stacks *stacks);

/* "kmem:kmalloc"; with the instance in front if it has a name of its own. */
struct text stack_event_text(const struct stack *stack);

/*
 * Stacks as texts, sorted, each once: "event;function;function", callers first. To be freed by
 * stacks_free_lines(), which is NULL-safe. NULL without memory.
 */
struct stack_line {
	char *text;
	uint64_t value;
};
struct stack_line *stacks_lines(const struct stacks *stacks, enum export_value value, size_t *n);
void stacks_free_lines(struct stack_line *lines, size_t n);

/* --- stack-times.c, which stacks_add() hands all events if times are asked for -----------------
 */

struct stack_times;

/* NULL without memory. */
struct stack_times *stack_times_create(struct stacks *stacks,
				       const struct trace_instance *instances);
void stack_times_destroy(struct stack_times *times);
/* -ENOMEM. Calls that have not ended have no time. */
int stack_times_add(struct stack_times *times, const struct event *event);

/* What it needs: the stack of an event, without sums; the index of a stack, which is added if there
 * is none with the same frames, or -ENOMEM; a stack by its index, valid until another is added. */
bool stack_event_has_chain(const struct event *event);
void stack_of_event(struct stack *out, const struct event *event);
int64_t stacks_index(struct stacks *stacks, const struct stack *stack);
struct stack *stacks_get(struct stacks *stacks, uint32_t index);

#endif
