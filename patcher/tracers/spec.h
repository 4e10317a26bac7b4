/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_SPEC_H
#define SONDE_PATCHER_TRACERS_SPEC_H

#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/filter/filter.h"
#include "formats/hist/hists.h"
#include "guest-symbols/functions/patterns.h"
#include "patcher/fetch/fetch.h"

/*
 * What to trace, as users write it (sonde-run(1), "TRACE SPECS"):
 *
 *	[NAME=]TRACER[:ITEM,...][ if EXPR]
 *
 *	ITEM    WORD                   one that the tracer knows
 *	        [!]FUNCTION[:mod:[!]MODULE]   guest-symbols/functions/patterns.h
 *	        @FILE                  a file of such patterns; quoted if it has commas or blanks
 *	        pid=N[+N...]           of the guest's task
 *	        vcpu=N[-M][+...]
 *	        filter=EXPR            up to the next comma outside quotes and braces; may be quoted
 *	        hist:keys=KEY[,KEY...][:vals=VALUE,...][:sort=FIELD[.descending],...][:size=N]
		     [:nohitcount]
 *	                               the last one: what events are summed up by, instead of being
 *	                               recorded, as in a hist trigger of the kernel
 *	KEY     FIELD[.hex|.sym|.sym-offset|.execname|.syscall|.log2|.buckets=N]
 *	VALUE   FIELD[.hex|.percent|.graph]
 *	EXPR    formats/filter/filter.h; behind `if` it is the rest of the text
 *
 * Blanks around commas are left out. A tracer that takes a probe has its definition
 * (patcher/fetch/fetch.h) instead of items; the instance has the event's name unless it is given
 *one.
 */

enum {
	TRACE_NAME_SIZE = TRACE_INSTANCE_NAME_MAX + 1,
	TRACE_SPEC_TEXT_MAX = 1 << 16,
	TRACE_SPEC_MAX_PIDS = 64,
	TRACE_SPEC_MAX_VCPUS = 64,
	TRACE_SPEC_MAX_WORDS = 32,
};

enum trace_takes {
	TRACE_TAKES_FUNCTIONS = 1 << 0,
	TRACE_TAKES_PIDS = 1 << 1,
	TRACE_TAKES_VCPUS = 1 << 2,
	TRACE_TAKES_FILTER = 1 << 3,
	TRACE_TAKES_PROBE = 1 << 4, /* instead of items */
	TRACE_TAKES_HIST = 1 << 5,
};

/* What users may look for in a spec, and readers of the trace have: "only", the command with that
 * option (NULL: none has), and why specs do not (NULL: all calls are recorded). That of "histogram"
 * is for hist:. */
struct trace_read_option {
	const char *name, *command, *why;
};

/* Another tool's name for events, the tracer's word that has them, and how they are counted if not
 * by its histograms (NULL: by these, or the tracer has none). */
struct trace_alias {
	const char *name, *meant, *counted;
};

/* What a tracer understands. */
struct trace_grammar {
	const char *tracer;
	const char *const *words; /* NULL-terminated, at most TRACE_SPEC_MAX_WORDS; NULL: none */
	unsigned int takes;                      /* enum trace_takes */
	const struct trace_read_option *readers; /* up to one without a name; or NULL */
	const struct trace_alias *aliases;       /* likewise */
};

/* Behind a field. */
enum hist_modifier {
	HIST_PLAIN,
	HIST_MOD_PERCENT, /* of values only */
	HIST_MOD_GRAPH,   /* likewise */
	HIST_MOD_HEX,     /* of values and keys; the rest are of keys only */
	HIST_MOD_SYM,
	HIST_MOD_SYM_OFFSET,
	HIST_MOD_EXECNAME,
	HIST_MOD_SYSCALL,
	HIST_MOD_LOG2,
	HIST_MOD_BUCKETS,
	HIST_MODIFIERS,
};
extern const char *const hist_modifiers[]; /* from HIST_MOD_PERCENT on, NULL-terminated */
/* Without the dot; "" of HIST_PLAIN. */
const char *hist_modifier_name(enum hist_modifier modifier);

struct hist_term {
	char name[HIST_COLUMN_SIZE]; /* of the field */
	enum hist_modifier modifier;
	uint32_t bucket;     /* 1..INT32_MAX */
	unsigned int column; /* where it stands in the spec, from 1 */
};

struct hist_action {
	struct hist_term keys[HIST_COLUMNS], values[HIST_COLUMNS];
	/* The number of events is a value only with a modifier: "hitcount". Values may be of one
	 * field, shown in different ways. */
	size_t nr_keys, nr_values;
	struct hist_order order;
	uint32_t size;   /* a power of two; 0: not given */
	bool nohitcount; /* the number of events is shown only as a value */
};

struct trace_spec {
	char *text;                 /* as the user wrote it */
	char name[TRACE_NAME_SIZE]; /* of the instance: the tracer's if it is given no other */
	size_t tracer;              /* index of its grammar */
	uint32_t words;             /* bit i: the tracer's words[i] is given ... */
	unsigned int word_columns[TRACE_SPEC_MAX_WORDS]; /* ... and where it stands, from 1 */
	struct function_patterns functions;
	uint32_t pids[TRACE_SPEC_MAX_PIDS]; /* ascending; none: all tasks */
	size_t nr_pids;
	unsigned int pids_column; /* where they stand in `text`, from 1 */
	uint64_t vcpus;           /* bit per vCPU; all ones if it is not given */
	unsigned int vcpus_column;
	struct fetch_probe *probe; /* NULL: the tracer takes none */
	size_t probe_from;         /* where its definition stands in `text` */
	char *filter_text;
	/* Where it stands in `text`: as it is, or with quotes and backslashes around its
	 * characters. */
	struct {
		size_t from, length;
		bool escaped;
	} filter_place;
	struct event_filter *filter; /* NULL: none. Not yet bound to a class */
	struct hist_action *hist;    /* NULL: events are recorded */
};

/*
 * Parse `text`, and read its files. -EINVAL with err->column: what is wrong there, with the nearest
 * name; the text says "trace spec, character N" or "filter, character N", too. -errno of a file:
 * function_patterns_add_file(). -ENOMEM.
 */
int trace_spec_parse(const char *text, const struct trace_grammar *grammars, size_t nr_grammars,
		     struct trace_spec *out, struct error *err);
/* As trace specs have them, "pid=1+7" and "vcpu=0+2-3"; "" if they are not given. Cut off at
 * `size`.
 */
void trace_spec_print_pids(const struct trace_spec *spec, char *out, size_t size);
void trace_spec_print_vcpus(const struct trace_spec *spec, char *out, size_t size);

/* All that choose events, joined by " && ". */
void trace_spec_print_conditions(const struct trace_spec *spec, char *out, size_t size);

/* Turn the column of an error, in the spec's definition of a probe, into that in the spec, and say
 * it in the text. */
void trace_spec_place_in_probe(const struct trace_spec *spec, struct error *err);

/* Column in the spec of a column of its filter, both from 1. */
unsigned int trace_spec_filter_column(const struct trace_spec *spec, unsigned int column);
/* Whether the filter suits events of a class, for readers with these names: -EINVAL or -ENOENT with
 * the column in the spec, as event_filter_bind(). 0 without a filter. */
int trace_spec_check_filter(const struct trace_spec *spec, const struct event_class *class,
			    const struct event_names *names, struct error *err);

/* Also of a zeroed one. */
void trace_spec_deinit(struct trace_spec *spec);

/* Instances have different names: -EEXIST, saying what to write. */
int trace_specs_check_names(const struct trace_spec *specs, size_t n, struct error *err);

#endif
