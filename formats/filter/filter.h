/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_FILTER_FILTER_H
#define SONDE_FORMATS_FILTER_FILTER_H

#include <stdbool.h>
#include "formats/base/error.h"
#include "formats/event/event.h"

/*
 * Filters on the fields of events, in the grammar of ftrace (Documentation/trace/events.rst, 5.1):
 *
 *	FIELD OP VALUE, joined by && and ||, negated by !, grouped by parentheses
 *
 * OP is == != < <= > >= & ~ or !~. VALUE is a number (decimal, 0x, 0; with a sign) or a string,
 * which needs quotes if it has blanks or one of ()&|!<>=~ in it. ~ compares the text that is
 * printed of the field, digits too, with a glob (formats/base/glob.h), and !~ is its opposite; a
 * whole number needs quotes there, unless the field is a string. == and != compare it with the text
 * where VALUE is a string. A code address has the texts "symbol", "symbol+0x1f" and
 * "symbol+0x1f/0x90", a function has its name, flags have "GFP_KERNEL|__GFP_ZERO". Of flags, == !=
 * and & take bits by name, several joined by | in any order: == is true of exactly these bits.
 * FIELD.function of a code address is the symbol alone. Where event_names.ranges is known, names of
 * functions are compared as the places that they stand for. VALUE may be CPUS{0-3,7}: & and == are
 * then true of its members, == only if it has one.
 *
 * Every class has the field `vcpu`, also written `cpu` and `CPU`. common_NAME and COMM are other
 * names of NAME and comm if the class has no field of that name.
 */
struct event_filter;

enum {
	EVENT_FILTER_MAX = 4096,     /* bytes of text */
	EVENT_FILTER_MAX_TERMS = 64, /* predicates */
	EVENT_FILTER_MAX_DEPTH = 32, /* of parentheses and negations */
	EVENT_FILTER_MAX_CPUS = 64,
};

/* -EINVAL: *err says at which character, from 1, and what is wrong there. -ENOMEM. */
int event_filter_parse(const char *text, struct event_filter **out, struct error *err);
/* NULL-safe. */
void event_filter_destroy(struct event_filter *filter);

/* Code addresses begin..end-1. */
struct event_range {
	uint64_t begin, end;
};

/* How values become text, and names become values; the functions may be NULL. */
struct event_names {
	void *arg;
	/* Text of a field's value. */
	void (*text)(void *arg, const struct event_field *field, uint64_t value, char *out,
		     size_t size);
	/* Bits of a flag by name: 0, or -ENOENT. */
	int (*flag)(void *arg, const struct event_field *field, const char *name, uint64_t *value);
	/* The names of the field's flags by number, from 0; NULL behind the last one. The pointer
	 * to the function is NULL where they cannot be listed. */
	const char *(*flag_name)(void *arg, const struct event_field *field, size_t number);
	/*
	 * Where the functions of that name are, or those that it means as a glob; or the place
	 * "function+0x1f". Then code addresses are compared with that instead of with text. *out is
	 * for free(): one range or more, ascending, apart from each other. -EINVAL: *err says why
	 * there are none. -ENOMEM.
	 */
	int (*ranges)(void *arg, const char *name, bool is_glob, struct event_range **out,
		      size_t *n, struct error *err);
};

/* A filter made ready for the events of one class. */
struct event_predicate;

/*
 * Bind a filter to a class. `filter`, `class` and `names` must outlive the result. -ENOENT if the
 * class lacks a field (*err names the nearest one), -EINVAL if a value is of no use for its field
 * or operator, -ENOMEM.
 */
int event_filter_bind(const struct event_filter *filter, const struct event_class *class,
		      const struct event_names *names, struct event_predicate **out,
		      struct error *err);
/*
 * Bind it to those of several classes that have all its fields: predicates[i] is NULL for another
 * one. At least one class has to suit, unless there is none at all. Errors as event_filter_bind():
 * -ENOENT only if each class lacks a field; then *err names the nearest field of all of them.
 */
int event_filter_bind_each(const struct event_filter *filter,
			   const struct event_class *const *classes, size_t n,
			   const struct event_names *names, struct event_predicate **predicates,
			   struct error *err);
/* NULL-safe. */
void event_predicate_destroy(struct event_predicate *predicate);

bool event_predicate_matches(const struct event_predicate *predicate, const struct event *event);

/* --- several filters, of which an event has to pass any (filters.c) --------------------------- */

struct event_filters {
	size_t n;
	const char *const *texts; /* borrowed */
	struct event_filter **v;
};

/* `texts` must outlive *out. Errors as event_filter_parse(), with the text in *err. */
int event_filters_parse(const char *const *texts, size_t n, struct event_filters *out,
			struct error *err);
/* Also of a zeroed one. */
void event_filters_deinit(struct event_filters *filters);

/*
 * Bind each to several classes, as event_filter_bind_each(): of class number i, *out has
 * filters->n predicates from i * filters->n on, NULL where the class lacks a field. Errors
 * likewise, with the text in *err.
 */
int event_filters_bind(const struct event_filters *filters,
		       const struct event_class *const *classes, size_t n,
		       const struct event_names *names, struct event_predicate ***out,
		       struct error *err);
/* All `n` of an array, and the array. NULL-safe. */
void event_predicates_destroy(struct event_predicate **predicates, size_t n);

/* Those that are NULL match nothing. */
bool event_predicates_match_any(struct event_predicate *const *predicates, size_t n,
				const struct event *event);

/* --- what a bound filter consists of (tree.c) ------------------------------------------------ */

/* For a compiler that has parts of it decided before there is an event. Nodes have numbers. */
enum filter_op {
	FILTER_EQ,
	FILTER_NE,
	FILTER_LT,
	FILTER_LE,
	FILTER_GT,
	FILTER_GE,
	FILTER_AND, /* any of these bits */
	FILTER_GLOB
};

enum filter_node_kind { FILTER_TERM, FILTER_NOT, FILTER_BOTH, FILTER_EITHER };

enum { FILTER_MAX_NODES = 4 * EVENT_FILTER_MAX_TERMS };

struct event_node {
	enum filter_node_kind kind;
	unsigned int left, right; /* nodes; FILTER_NOT has `left` only, a term none */
	/* of a term */
	const struct event_field *field; /* NULL: the vCPU */
	enum filter_op op;
	bool by_text; /* compares something else than the field's value with `value` */
	uint64_t value;
	const char *text; /* as it was written, without quotes */
	/* If there are some, FILTER_EQ, FILTER_GLOB and FILTER_NE ask whether the field's value
	 * lies in one of them, as event_names.ranges gives them. */
	const struct event_range *ranges;
	size_t nr_ranges;
};

unsigned int event_predicate_root(const struct event_predicate *predicate);
struct event_node event_predicate_node(const struct event_predicate *predicate, unsigned int node);

/* A node as text, in the filters' grammar, as an operand of &&; cut off at `size`. */
void event_predicate_print(const struct event_predicate *predicate, unsigned int node, char *out,
			   size_t size);

/* Nodes whose value is known of every event that there is. Zeroed, there are none. */
struct event_known {
	uint64_t nodes[FILTER_MAX_NODES / 64], values[FILTER_MAX_NODES / 64];
};

bool event_known_has(const struct event_known *known, unsigned int node);
void event_known_set(struct event_known *known, unsigned int node, bool value);

/* As event_predicate_matches(), without looking at what is known. */
bool event_predicate_matches_rest(const struct event_predicate *predicate,
				  const struct event_known *known, const struct event *event);

#endif
