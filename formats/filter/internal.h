/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_FILTER_INTERNAL_H
#define SONDE_FORMATS_FILTER_INTERNAL_H

#include "formats/filter/filter.h"

/* What filter.c parses and bind.c binds. */
enum { FILTER_WORD_MAX = EVENT_LONG_STRING_MAX + 16 };

struct filter_term {
	char field[FILTER_WORD_MAX], text[FILTER_WORD_MAX];
	unsigned int field_at, value_at; /* characters from the start, from 1 */
	bool is_quoted;                  /* `text` begins behind value_at */
	enum filter_op op;
	bool is_number, is_negative;
	bool is_too_large; /* a number of more than 64 bits */
	bool is_cpus;    /* CPUS{...}: `number` has a bit for each */
	uint64_t number; /* in two's complement where is_negative */
};

struct filter_node {
	enum filter_node_kind kind;
	unsigned int left, right; /* nodes; of a term `left` is its index in terms */
};

struct event_filter {
	struct filter_term terms[EVENT_FILTER_MAX_TERMS];
	struct filter_node nodes[FILTER_MAX_NODES];
	unsigned int nr_terms, nr_nodes, root;
};

struct bound_term {
	const struct event_field *field; /* NULL: the vCPU */
	enum filter_op op;
	bool by_text;       /* compare `text` instead of `value` */
	bool function_only; /* of the text of a code address */
	bool in_cpus;       /* `value` is a set of CPUs */
	const char *text;
	char *owned; /* that text, if it is not the filter's; or NULL */
	uint64_t value;
	struct event_range *ranges; /* `value` is in one of them; NULL: there are none */
	size_t nr_ranges;
};

/* Whether a class has the field of a term. Sets the field, which is NULL of the vCPU, and
 * function_only; *out is zeroed before. */
bool filter_find_field(const struct filter_term *term, const struct event_class *class,
		       struct bound_term *out);

/* Of a name that ftrace has for a field of all events, the usual one: "pid" of "common_pid". */
const char *filter_plain_name(const char *name);

/* -ENOENT: "WHOSE field 'x'; did you mean 'y'?", of the fields of all these classes; or, with
 * classes, "WHOSE field 'x': take y, z or vcpu". */
int filter_no_field(const struct filter_term *term, const struct event_class *const *classes,
		    size_t n, const char *whose, struct error *err);

/* A value that is a word, of a field of flags: bits by name, joined by |. -EINVAL for what is no
 * flag. */
int filter_bind_flags(const struct filter_term *term, const struct event_names *names,
		      struct bound_term *out, struct error *err);

/* A value that is the name of functions, of a code address: event_names.ranges. */
int filter_bind_ranges(const struct filter_term *term, const struct event_names *names,
		       struct bound_term *out, struct error *err);
bool filter_in_ranges(const struct bound_term *term, uint64_t value);

struct event_predicate {
	const struct event_filter *filter;
	const struct event_names *names;
	struct bound_term terms[EVENT_FILTER_MAX_TERMS];
};

#endif
