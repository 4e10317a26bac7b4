/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_GRAPH_GRAPH_JSON_H
#define SONDE_FORMATS_GRAPH_GRAPH_JSON_H

#include "formats/graph/graph-text.h"

/*
 * Prints the calls of an instance of the graph tracer as JSON objects, a line each, when they end,
 * so that a call stands behind those that it made:
 *
 *	{"ns":1000,"vcpu":0,"pid":7,"name":"vfs_read","caller":"ksys_read+0x6b/0xf0","depth":1,
 *	 "duration_ns":913,"self_ns":700,"ret":-2}
 *
 * ns and vcpu are of the entry. A call whose return is not in the trace has neither duration nor
 * result, and says why: "no_return":"unseen" or "unrecorded".
 */
struct graph_json;

/* As graph_text_create(). */
int graph_json_create(FILE *out, struct event_texts *texts,
		      const struct graph_text_options *options, struct graph_json **json,
		      struct error *err);
/* NULL-safe. */
void graph_json_destroy(struct graph_json *json);

/* Print those of this choice alone, which outlives `json`. */
void graph_json_choose(struct graph_json *json, const struct call_filter *choice);

/* The next event; one that is not of the graph tracer is ignored. -ENOMEM. */
int graph_json_put(struct graph_json *json, const struct event *event);
/* The trace ends: print the calls that are open, in the order in which they began. -ENOENT: there
 * was no call of the functions of `only`. -ENOMEM. */
int graph_json_end(struct graph_json *json, struct error *err);
bool graph_json_has_printed(const struct graph_json *json);

#endif
