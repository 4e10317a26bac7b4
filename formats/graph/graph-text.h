/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_GRAPH_GRAPH_TEXT_H
#define SONDE_FORMATS_GRAPH_GRAPH_TEXT_H

#include <stdbool.h>
#include <stdio.h>
#include "formats/graph/call-choice.h"
#include "formats/graph/calls.h"
#include "formats/report/event-text.h"

/*
 * Prints the calls of an instance of the graph tracer as ftrace's function_graph tracer does
 * (Documentation/trace/ftrace.rst, "function_graph"): a call that makes no other one is a line,
 * another one a pair of braces, with the time that it took behind it. Each vCPU's lines are in the
 * order of time.
 *
 * Where a vCPU goes on with another task, that is said, as are interrupts on stacks of their own.
 * Behind that a closing brace has its function's name. Calls whose return is not in the trace have
 * no time, and say so.
 */
struct graph_text;

struct graph_text_options {
	unsigned int max_depth; /* calls around a call that is printed; 0: any number */
	uint64_t stack_bytes;   /* of each stack: sidecar_stack_bytes() */
	const char *only; /* a glob: calls of functions with these names, and calls in them, which
			   * alone count as calls around others; NULL: all */
};

/* Nothing is owned. Errors of writing stay in `out`. -ENOMEM. */
int graph_text_create(FILE *out, struct event_texts *texts,
		      const struct graph_text_options *options, struct graph_text **text,
		      struct error *err);
/* NULL-safe. */
void graph_text_destroy(struct graph_text *text);

/* Print those of this choice alone, which outlives `text`, each in a line when it ends. */
void graph_text_choose(struct graph_text *text, const struct call_filter *choice);

/* The next event; one that is not of the graph tracer is ignored. -ENOMEM. */
int graph_text_put(struct graph_text *text, const struct event *event);
/* Print what waits for the next event, and of a choice the calls that are open. -ENOENT: there was
 * no call of the functions of `only`. -ENOMEM. */
int graph_text_end(struct graph_text *text, struct error *err);
bool graph_text_has_printed(const struct graph_text *text);

#endif
