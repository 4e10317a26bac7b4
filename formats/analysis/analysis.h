/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_ANALYSIS_H
#define SONDE_FORMATS_ANALYSIS_ANALYSIS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "formats/groups/measure.h"
#include "formats/analysis/replay.h"
#include "formats/base/error.h"
#include "formats/calls/call-stats.h"
#include "formats/event/event.h"
#include "formats/heap/heap.h"

/*
 * An analysis is told of the events of a trace, or of the changes of the guest's heap, and shows
 * what it found, as text or JSON. Several take part in one replay (replay.h) and share its heap.
 *
 * To add one: a file NAME.c that defines `const struct analysis_ops NAME_analysis`, and a row in
 * registry.c. `sonde report --analysis NAME` then runs it.
 */

/* What the user wants to see. Each analysis uses what concerns it. */
struct analysis_options {
	const char *dir; /* the trace, as the user named it */
	struct grouping by;
	enum measure sort;
	enum call_order call_order;
	const char *sort_word; /* that the user gave for one of these; NULL: none */
	uint32_t measures; /* bits of enum measure; 0: the usual ones */
	size_t top;        /* rows to show; 0: all */
	bool verbose, json;
	bool in_sections; /* the user named several analyses: titles, or keys, say which is which */
	int64_t older_ns; /* of live objects, only those of at least this age; 0: all */
	uint64_t pointer; /* whose history is shown */
	const char *only; /* of calls of functions: a glob, with the calls in them; NULL: all */
	const char *allocator; /* a model's name or file (formats/allocators/model.h); NULL: the
				  guest's own */
};

/* An analysis at work. Its own data begins with it. */
struct analysis {
	const struct analysis_ops *ops;
	const struct replay *replay;
	struct analysis_options options;
	bool goes_by_sites; /* set in begin(): change() is not to be called */
};

struct analysis_ops {
	const char *about; /* a line for --help */
	bool any_trace;    /* has something to say of a trace without allocations, too */

	size_t size; /* of its own data, which are 0 at first */
	/* Returns 0 or -errno; deinit() follows either. NULL: nothing to do. */
	int (*init)(struct analysis *analysis, struct error *err);
	/* After init(), of an analysis of calls: make the choice of calls ready. An error is one of
	 * the command line. NULL: what is chosen is events (replay_has_event()), or allocations. */
	int (*select)(struct analysis *analysis, struct error *err);
	/* Frees what its data own, but not these. NULL: nothing to do. */
	void (*deinit)(struct analysis *analysis);
	bool sites; /* of the heap's changes it needs what replay->sites keeps */
	/* Before the first event: the replay has its heap and its sites. 0 or -ENOMEM; or NULL. */
	int (*begin)(struct analysis *analysis);
	/* If the heap has changed before the window: before its first record, or at the end if it
	 * has none. 0 or -ENOMEM; or NULL. */
	int (*begin_window)(struct analysis *analysis);
	/* Each event of the trace, of all instances, in the order of time. 0 or -ENOMEM; or NULL.
	 */
	int (*event)(struct analysis *analysis, const struct event *event);
	/*
	 * Each change of the heap that concerns selected objects, also those before the window that
	 * the user asks about: replay->in_window. 0 or -ENOMEM; or NULL.
	 */
	int (*change)(struct analysis *analysis, const struct heap_change *change);
	/* After the last event; when a trace is followed, before each output. 0 or -ENOMEM. NULL:
	 * nothing to do. */
	int (*finish)(struct analysis *analysis);
	/* Print to a stream. Its errors are left to ferror(). */
	void (*print_text)(const struct analysis *analysis, FILE *out);
	/* Add keys to what --json prints. Returns 0, or -1 without memory. */
	int (*put_json)(const struct analysis *analysis, json_t *root);
	/* Whether the verb is to fail because of what was found. NULL: never. */
	bool (*failed)(const struct analysis *analysis);
};

/* All analyses and their names, the default first; NULL-terminated. In registry.c. */
enum { NR_ANALYSES = 10 };
extern const struct analysis_ops *const analysis_table[];
extern const char *const analysis_names[];

/* Whether it is about the heap. */
static inline bool analysis_is_of_heap(const struct analysis_ops *ops)
{
	return ops->change || ops->sites;
}

/* By name; one that is not there is an error of the program. */
const struct analysis_ops *analysis_find(const char *name);

/* Returns 0 and an analysis for analysis_destroy(), or -errno. */
int analysis_create(const struct analysis_ops *ops, const struct replay *replay,
		    const struct analysis_options *options, struct analysis **out,
		    struct error *err);
/* NULL-safe. Frees `analysis`. */
void analysis_destroy(struct analysis *analysis);

/* Whether the trace, or what the user named of it, has such an instance. */
bool analysis_has_instance(const struct replay *replay, bool (*is)(const struct trace_instance *));
/* Refuse a heap of several instances that the user named. */
int analysis_check_heap(const struct replay *replay, struct error *err);
/* The same, if the analysis is of the heap, and a trace without allocations; for another one, a
 * type of allocations. */
int analysis_check(const struct analysis_ops *ops, const struct replay *replay, struct error *err);
/* -EINVAL: of a trace, or of the instance that the user named, of other tracers than `tracer`,
 * which records `what`. */
int analysis_lacks(const struct replay *replay, const char *tracer, const char *what,
		   struct error *err);

/*
 * After a replay, a line on stderr for each option by which nothing was left to show: a time
 * without events, a filter that nothing matches, an age that nothing has, groups that the trace
 * does not tell apart. `about` is the trace, with a colon and a blank, or "". `time_option` chose
 * the time. In notes.c.
 */
void analysis_print_notes(const char *verb, const char *about, const char *time_option,
			  const struct replay *replay, const struct analysis_options *options);

/*
 * What a verb does: run analyses of one trace in one pass and print them, or one line that says
 * what went wrong. `names` is NULL-terminated; NULL: those that suit what was traced. Returns an
 * exit status.
 */
int analysis_show(const char *verb, const char *const *names, const struct replay_view *view,
		  const struct analysis_options *options, bool json);

/* "cache,callsite", the value of an option. `other` (or NULL) is a word of the option that stands
 * alone. Returns CLI_OK, or CLI_USAGE after a line. */
struct cli_option;
int grouping_parse(const char *verb, const struct cli_option *option, const char *text,
		   const char *other, struct grouping *out);

enum { TIMELINE_MAX_ROWS = 1024 };

/* The options of a verb that shows one analysis, the one with the verb's name. */
struct analysis_command {
	struct replay_view view;
	uint64_t top;      /* rows to show; 0: not given */
	uint64_t older_ms; /* of live objects, at least of this age; 0: all */
	bool json, verbose;
};

/* Such a verb: its tables store into a struct analysis_command. Returns an exit status. */
struct cli_verb;
int analysis_main(const struct cli_verb *verb, int argc, char **argv);

#endif
