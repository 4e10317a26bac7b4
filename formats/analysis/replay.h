/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_REPLAY_H
#define SONDE_FORMATS_ANALYSIS_REPLAY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/error.h"
#include "formats/cli/options.h"
#include "formats/heap/heap.h"
#include "formats/report/event-selection.h"
#include "formats/report/trace-text.h"
#include "formats/trace/reader.h"

/*
 * One pass over a trace in the order of time. It keeps the guest's heap, and tells any number of
 * analyses (analysis.h) of events and of the heap's changes. Memory grows with live objects and
 * groups, not with the length of the trace.
 */

/* What part of a trace the user asks about. */
struct replay_view {
	const char *kernel;     /* image to name functions after; NULL: none */
	const char *debug_file; /* with the debug information of the kernel; NULL: none named */
	bool lines;             /* places in the source are asked for, of this or any such file */
	struct event_choice choice; /* of events; of the heap, of allocations */
	unsigned int type;          /* enum kmem_type_id of allocations; KMEM_TYPE_COUNT: all */
	struct cli_time_range time;
	bool since_init; /* from where the guest's init begins */
	bool follow;     /* while the trace is recorded */
};
#define REPLAY_ALL ((struct replay_view){.type = KMEM_TYPE_COUNT, .time = CLI_ALL_TIME})

/* The rows of these options, for a verb's tables, beside event_choice_options; of a verb that reads
 * one trace, also the second ones. The notes are for its --help. */
extern const struct cli_option replay_view_options[];
extern const char replay_view_notes[];
extern const struct cli_option replay_time_options[];

struct analysis;
struct sites;

/* What the view's choice of events has become. */
struct replay_choice {
	struct event_texts *texts; /* NULL: all events are chosen, but for their instance */
	struct event_filters filters;
	struct event_selection *selection; /* NULL: all events */
};

/*
 * The time that the results of a pass are of. Of a whole trace it goes from its first record to its
 * last. Of a time that the user chose, and of a trace that is followed, it is all that was traced
 * of it, with or without records: a guest that is idle has no other rates.
 */
struct span {
	int64_t begin_ns; /* known from the first record in the window on */
	int64_t end_ns;   /* known when the pass is over */
	/* While the trace is read: */
	int64_t seen_ns; /* the greatest time before the window's end that any event has */
	bool has_before; /* the instance has records before the window */
};

struct replay {
	/* For analyses: */
	struct trace_reader *reader;
	struct heap *heap;
	struct sites *sites; /* of what is selected (sites.h); NULL: no analysis needs them */
	const struct trace_instance *instance; /* whose events feed the heap; NULL: there is none */
	size_t nr_instances; /* of the kmem tracer that the trace has */
	size_t nr_named;                       /* of these, that the user named */
	struct replay_choice chosen;           /* that the user has */
	bool selects;                          /* some allocations are not selected */
	int64_t from_ns;                       /* the window's begin; INT64_MIN: the trace's */
	bool in_window;                        /* the current event is one of the window */
	bool keeps_heap;                       /* an analysis is about the heap */
	bool ignores_chains; /* callers are not charged; set by who runs it, before that */
	uint64_t records;                      /* of the instance, in the window */
	int64_t first_ns, last_ns;    /* their smallest and greatest time; 0 without records */
	struct span span;             /* the time that results are of */
	uint64_t nr_selected;         /* allocations; if some are not selected */
	struct trace_outside outside; /* of all instances */
	uint64_t others;              /* events of other tracers and instances, in the window */
	bool init_moved; /* a trace that is followed shows that init begins later than init_ns */
	/* The replay's own: */
	int64_t init_ns; /* of --since init */
	const struct replay_view *view;
	struct replay_parts *parts;
	struct analysis **analyses;
	size_t nr_analyses;
};

/* Open the trace `dir`. Replay_close() is to be called also on failure. `view` must outlive it. */
int replay_open(struct replay *replay, const char *dir, const struct replay_view *view,
		struct error *err);
/* The same on a reader, which stays the caller's. */
int replay_begin(struct replay *replay, struct trace_reader *reader, const struct replay_view *view,
		 struct error *err);
void replay_close(struct replay *replay);

/* Find the instance, and make the choice of events ready. An error is one of the command line. */
int replay_select(struct replay *replay, struct error *err);
/* The same for analyses of calls alone, whose filters are not on events: they make the choice ready
 * themselves. */
int replay_select_calls(struct replay *replay, struct error *err);

/* Whether the user's choice has an event, by what is recorded; an allocation that a call site is
 * charged with; events of an instance; allocations. */
bool replay_has_event(const struct replay *replay, const struct event *event);
bool replay_has_allocation(const struct replay *replay, const struct event *event,
			   uint64_t call_site);
bool replay_has_instance(const struct replay *replay, const struct trace_instance *instance);
bool replay_has_allocations(const struct replay *replay);

/* Then: say which names in the filter the trace has not (event-hints.h). */
void replay_print_hints(const struct replay *replay, const char *verb);

/* Read a fresh reader to its end, or to the end of the window. */
int replay_run(struct replay *replay, struct analysis **analyses, size_t n, struct error *err);

/* Read what has come since. Returns 1; 0 if the recorder has ended; -errno. If replay->init_moved
 * is set, the window begins later than was known: begin anew with a fresh replay. */
int replay_follow(struct replay *replay, struct analysis **analyses, size_t n, struct error *err);

/* For the replay: set replay->span at the first record in the window, and when the pass is over. */
void replay_begin_span(struct replay *replay, int64_t ns);
void replay_end_span(struct replay *replay);

/* When the time ends that results are of, once the pass is over: that of the last event, unless a
 * time was chosen, or the trace is followed. */
int64_t replay_until(const struct replay *replay, int64_t last_ns);

/* The length of replay->span, in ns. */
uint64_t replay_duration_ns(const struct replay *replay);

/* "Guest", "Trace" and so on (text_print_head()). */
void replay_print_head(const struct replay *replay, FILE *out, int indent);

/* "Lost" and so on (text_print_losses()), which each output has at least once; and whether it
 * has been printed since the pass. */
void replay_print_losses(const struct replay *replay, FILE *out, int indent);
bool replay_has_printed_losses(const struct replay *replay);

/* Whether nothing that came before was left out, as --time and --since do. */
static inline bool replay_has_begin(const struct replay *replay)
{
	return replay->from_ns == INT64_MIN;
}

/* Whether an instance that the user chose was on from the trace's begin on. */
bool replay_has_early(const struct replay *replay);

/* Whether the user chose a time. */
static inline bool replay_has_chosen_time(const struct replay *replay)
{
	return !replay_has_begin(replay) || replay->view->time.to_ns != INT64_MAX;
}

/* Whether the instance has the guest's first allocation (sidecar_is_from_first()). */
bool replay_is_from_first(const struct replay *replay);

/*
 * How much the results can be wrong because of events that are missing from the trace: live sums
 * have at most `objects` too many, with at most `bytes`, and lack at most as many objects.
 */
struct replay_bound {
	bool is_bounded; /* else nothing says how much is missing */
	const char *why; /* that is so, in words; "" if it is bounded */
	uint64_t objects, bytes;
};
struct replay_bound replay_bound(const struct replay *replay);

/* Whether the instance may have recorded allocations without their frees (sidecar_has_frees()). */
bool replay_lacks_frees(const struct replay *replay);

/* trace_reader_missing() of the replay's instance: what others have lost is not missing from it. */
struct trace_missing replay_missing(const struct replay *replay);
/* Why the instance lacks events that came up to now, or may, in words; NULL: it has them all. */
const char *replay_lacks_events(const struct replay *replay);
/* Below "Lost", a line: how much of that is of the instance, if others have lost events. */
void replay_print_share(const struct replay *replay, FILE *out, int indent);

/* "Moved", a line, if the guest has moved pages (heap_moved_bytes()), and "Bound", unless the
 * results are exact. */
void replay_print_bound(const struct replay *replay, FILE *out, int indent);
/* "bound", also of analyses that are not about the heap. Returns 0, or -1 without memory. */
int replay_put_bound(const struct replay *replay, json_t *root);
/* "bound", "instance", and replay->span as "begin_ns" to "end_ns" of the trace clock. Returns 0, or
 * -1 without memory. */
int replay_put_json(const struct replay *replay, json_t *root);
/*
 * What the results are of, for who does not see the command: "part" and "ended" of the trace, the
 * options in words ("chosen", "" if there is none that leaves out anything), and "instances", how
 * many of kmem there are. Returns 0, or -1 without memory.
 */
int replay_put_origin(const struct replay *replay, json_t *root);

#endif
