/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_VMM_TOP_MODEL_H
#define SONDE_VMM_TOP_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "formats/base/error.h"
#include "formats/base/u64-map.h"

/*
 * What `sonde top` shows: tables of rows whose counts grow, and what of them grew per second
 * between the last two samples.
 */
enum top_view {
	TOP_SITES,
	TOP_CACHES,
	TOP_FUNCTIONS,
	TOP_SYSCALLS,
	TOP_TABS,              /* how many can be chosen */
	TOP_STACKS = TOP_TABS, /* call chains of one of the call sites */
	TOP_VIEWS
};

enum top_column {
	TOP_RATE,  /* allocations or calls per second */
	TOP_FLOW,  /* bytes per second, or ns of time per second */
	TOP_LIVE,  /* bytes; of calls the mean time in ns */
	TOP_COUNT, /* live objects; of calls the longest time in ns */
	TOP_TOTAL, /* allocations, or calls, in all */
	TOP_COLUMNS
};

/* The last line of a chain that goes on. */
#define TOP_CUT "[cut]"

/* Of live and count of a sample: not known. */
#define TOP_UNKNOWN UINT64_MAX

enum { TOP_NAME_SIZE = 160, TOP_MAX_ROWS = 1 << 17 };

/* Counts of one row at some moment. */
struct top_sample {
	uint64_t key; /* the same for the same row, and of no other of its view */
	char name[TOP_NAME_SIZE];
	const char
		*chain; /* instead of a name: its frames, innermost first, a line each; or NULL */
	uint64_t total; /* allocations, or calls */
	uint64_t flow;  /* bytes allocated, or ns of calls that have returned */
	uint64_t live, count; /* as of enum top_column */
};

struct top_row {
	struct top_sample now;
	double values[TOP_COLUMNS];
};

struct top_table {
	struct top_row *v;
	size_t n;
	char missing[160]; /* why there are no rows; "": no reason */
	struct top_sample *before;
	size_t nr_before;
	uint64_t before_ns; /* 0: there is no sample yet */
	bool has_rates;
};

struct top_model {
	struct top_table tables[TOP_VIEWS];
	bool profiled; /* the functions are those of profiles */
	uint64_t site; /* key of the call site whose chains are wanted; 0: none */
	char site_name[TOP_NAME_SIZE];
	char *chains; /* the texts of these chains */
};

/* Titles of a view, and of its columns; keys of its JSON. */
extern const char *const top_view_titles[TOP_VIEWS];
extern const char *const top_column_titles[TOP_VIEWS][TOP_COLUMNS];

/* Take samples of a view, of this moment. Rows that shrink were restarted: they have no rates.
 * -ENOMEM. */
int top_table_put(struct top_table *table, const struct top_sample *samples, size_t n,
		  uint64_t now_ns, struct error *err);
/* There are none: why. */
void top_table_miss(struct top_table *table, const char *why);
void top_model_deinit(struct top_model *model);

/* From now on the chains of this row of TOP_SITES are wanted. There are none yet. */
void top_model_drill(struct top_model *model, const struct top_sample *site);
/* As top_table_put(), of TOP_STACKS. The samples' chains are in `texts`, which becomes the
 * model's, also on failure. */
int top_model_put_chains(struct top_model *model, const struct top_sample *samples, size_t n,
			 char *texts, uint64_t now_ns, struct error *err);
/* The next line of a chain, and its length; NULL: there is none. Start with the chain itself. */
const char *top_chain_line(const char **rest, size_t *length);

/*
 * Rows whose name or chain contains `filter` (NULL or "": all), the largest first; of equal ones by
 * total, then by name. An array of *n to be freed. NULL: no memory.
 */
const struct top_row **top_table_sort(const struct top_table *table, enum top_column column,
				      const char *filter, size_t *n);

/* All of it: an object to be released. NULL: no memory. */
json_t *top_model_json(const struct top_model *model);

/* A value of a row as users read it: "1,234", "1.2 MiB", "3.4 ms"; "-" if it is not known. */
void top_value_text(enum top_view view, enum top_column column, const struct top_row *row,
		    bool has_rates, char *out, size_t size);

#endif
