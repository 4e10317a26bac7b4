/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_ANALYSIS_ANALYSIS_H
#define SONDE_FORMATS_ANALYSIS_ANALYSIS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "formats/base/error.h"
#include "formats/event/event.h"
#include "formats/trace/reader.h"

/*
 * An analysis reads all events of a trace once and shows what it found, as text or JSON.
 *
 * To add one: a file NAME.c that defines `const struct analysis_ops NAME_analysis`, and a row in
 * registry.c. `sonde report --analysis NAME` then runs it.
 */
enum analysis_option { ANALYSIS_BY, ANALYSIS_SORT, ANALYSIS_TYPE, ANALYSIS_NR_OPTIONS };

struct analysis_config {
	const struct trace_reader *reader; /* outlives the analysis */
	int choice[ANALYSIS_NR_OPTIONS];   /* index into ops->words[]; -1: not given */
	size_t top;                        /* rows to show; 0: all */
	const char *kernel;                /* image to name functions after; NULL: none */
};

/* An analysis at work. Its own data begins with it. */
struct analysis {
	const struct analysis_ops *ops;
	struct analysis_config config;
	uint64_t passed_over; /* events of classes that it does not want */
};

struct analysis_ops {
	const char *const *words[ANALYSIS_NR_OPTIONS]; /* NULL-terminated; NULL: takes no word */

	/* Whether events of this class are to come. */
	bool (*wants)(const struct event_class *class);
	/* Fills in the analysis's own data only. Returns 0 or -errno. */
	int (*create)(const struct analysis_config *config, struct analysis **out,
		      struct error *err);
	/* In merged order. Returns 0 or -ENOMEM. */
	int (*event)(struct analysis *analysis, const struct event *event);
	/* After the last event. NULL: nothing to do. */
	void (*finish)(struct analysis *analysis);
	/* Print to a stream. Its errors are left to ferror(). */
	void (*print_text)(const struct analysis *analysis, FILE *out);
	/* The object that --json prints, owned by the caller; NULL: no memory. */
	json_t *(*print_json)(const struct analysis *analysis);
	/* Whether the verb is to fail because of what was found. NULL: never. */
	bool (*failed)(const struct analysis *analysis);
	void (*destroy)(struct analysis *analysis);
};

/* All analyses and their names, the default first; NULL-terminated. In registry.c. */
extern const struct analysis_ops *const analysis_table[];
extern const char *const analysis_names[];

/* By name, or NULL. */
const struct analysis_ops *analysis_find(const char *name);

/* Returns 0 and an analysis for analysis_destroy(), or -errno. */
int analysis_create(const struct analysis_ops *ops, const struct analysis_config *config,
		    struct analysis **out, struct error *err);
/* NULL-safe. */
void analysis_destroy(struct analysis *analysis);

/* Read a fresh reader to its end, for n analyses at once. Returns 0 or -errno. */
int analysis_run(struct trace_reader *reader, struct analysis *const *analyses, size_t n,
		 struct error *err);

/*
 * What a verb does: run one analysis of the trace `dir` and print it, or one line that says what
 * went wrong. config->reader is filled in. Returns an exit status.
 */
int analysis_show(const char *verb, const struct analysis_ops *ops,
		  const struct analysis_config *config, const char *dir, bool json);

#endif
