/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_HIST_HISTS_H
#define SONDE_FORMATS_HIST_HISTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "formats/base/error.h"

/*
 * Histograms that traced instances have made at some moment, as a document of JSON (sonde-hist(1)):
 * the reply to query-hist, and the file HIST_FILE of a trace. Documents are not trusted.
 */
#define HIST_FILE ".hist.json" /* hidden from CTF readers */

enum {
	HIST_COLUMNS = 3,          /* keys, and values, at most */
	HIST_SORTS = 2,            /* columns to sort by, as in the kernel */
	HIST_MAX_ROWS = 1 << 18,   /* of a document */
	HIST_FRAMES = 16,          /* of a call chain, as in the kernel: HIST_STACKTRACE_DEPTH */
	HIST_MAX_CHAINS = 1 << 15, /* rows of a histogram that has some */
	HIST_NAME_SIZE = 128,
	HIST_COLUMN_SIZE = 48,
};

/* How the `hist` file of ftrace shows a key, or a value: Documentation/trace/histogram.rst,
 * modifiers. */
enum hist_show {
	HIST_UNSIGNED,
	HIST_SIGNED,
	HIST_HEX,        /* .hex */
	HIST_SYMBOL,     /* .sym */
	HIST_SYM_OFFSET, /* .sym-offset */
	HIST_EXECNAME,   /* .execname: a pid with the task's name */
	HIST_SYSCALL,    /* .syscall: the number of a system call */
	HIST_POWER,      /* .log2: the exponent */
	HIST_RANGE,      /* .buckets=N: the lowest one */
	HIST_TEXT,
	HIST_STACKTRACE, /* a call chain */
	HIST_PERCENT,    /* .percent: of the sum of all rows; of values only */
	HIST_BAR,        /* .graph: as a part of the largest; likewise */
	HIST_SHOWS,
};
extern const char *const hist_shows[]; /* their names in documents, NULL-terminated */

struct hist_column {
	char name[HIST_COLUMN_SIZE];
	enum hist_show show;
	uint32_t bucket; /* HIST_RANGE */
};

/* Columns are numbered: hits, values, keys. */
struct hist_order {
	struct {
		uint8_t column;
		bool descending;
	} by[HIST_SORTS];
	size_t n;
};

struct hist_frame {
	uint64_t address;
	char *text; /* its symbol; NULL: none */
};

struct hist_value {
	uint64_t number;
	bool fault; /* it could not be read, once for all events of the row */
	char *text; /* a name that goes with it; NULL: none */
	/* HIST_STACKTRACE: HIST_FRAMES or fewer, the innermost first: its address is the number */
	struct hist_frame *frames;
	size_t nr_frames;
	bool cut; /* the chain is not known from there on */
};

struct hist_row {
	struct hist_value keys[HIST_COLUMNS];
	uint64_t hits;
	uint64_t values[HIST_COLUMNS]; /* of "hitcount": the hits */
};

struct hist_table {
	char name[HIST_NAME_SIZE];
	char *spec;
	bool ended;
	bool nohitcount; /* hits are printed only as a value */
	struct hist_column keys[HIST_COLUMNS], values[HIST_COLUMNS];
	size_t nr_keys, nr_values;
	struct hist_order order;
	uint64_t size;    /* keys that each vCPU has room for */
	uint64_t dropped; /* events without room */
	struct hist_row *v;
	size_t n;
};

struct hist_set {
	struct hist_table *v;
	size_t n;
};

/* -EINVAL: it is no such document; *err says where. -ENOMEM. */
int hist_set_parse(const json_t *document, struct hist_set *out, struct error *err);
/* Also of one that is zeroed. */
void hist_set_deinit(struct hist_set *set);

/* The document again. NULL: no memory. */
json_t *hist_set_json(const struct hist_set *set);

/* Keep the instances of this name. -ENOENT: there is none. */
int hist_set_keep(struct hist_set *set, const char *name, struct error *err);

/* Keep the first rows of each table; 0: all. */
void hist_set_cut(struct hist_set *set, size_t top);

/* "hitcount", a value or a key, with ".descending" behind it or not; or two of these, with a comma
 * between them. -EINVAL with the nearest name. -ENOMEM. */
int hist_order_parse(const char *text, const struct hist_table *table, struct hist_order *out,
		     struct error *err);
/* As each table's own order says, or by this one, which may be NULL. -EINVAL: not of each. */
int hist_set_sort(struct hist_set *set, const char *order, struct error *err);

/* --- hist-text.c ----------------------------------------------------------------------------- */

struct hist_text_options {
	size_t top; /* rows of each table; 0: all */
};

/* As the `hist` file of ftrace. */
void hist_set_print(FILE *out, const struct hist_set *set, const struct hist_text_options *options);

#endif
