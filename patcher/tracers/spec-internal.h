/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRACERS_SPEC_INTERNAL_H
#define SONDE_PATCHER_TRACERS_SPEC_INTERNAL_H

#include <stdbool.h>
#include "patcher/tracers/spec.h"

/* What spec.c, spec-hist.c, spec-hints.c and spec-values.c share. All functions that return int
 * return 0 or -errno with *p->err set. */

struct spec_parser {
	const char *text, *at;
	const struct trace_grammar *grammars; /* of all tracers */
	size_t nr_grammars;
	const struct trace_grammar *grammar; /* once the tracer is known */
	struct trace_spec *spec;
	struct error *err; /* never NULL */
};

/* A part of the text. */
struct spec_span {
	const char *from;
	size_t length;
};

/* -EINVAL with the column of `place`, a pointer into the text. */
#define FAIL(p, place, ...) \
	error_set_column((p)->err, EINVAL, (unsigned int)((place) - (p)->text) + 1, __VA_ARGS__)

/* In front of an error with a column. */
#define SPEC_PLACE "trace spec, character %u: "

/* Values, from p->at on, which advances past them. */
int spec_take_pids(struct spec_parser *p);
int spec_take_vcpus(struct spec_parser *p);
int spec_take_filter(struct spec_parser *p); /* up to a comma */
int spec_take_hist(struct spec_parser *p);   /* up to a blank (spec-hist.c) */

bool spec_span_is(struct spec_span span, const char *word);

/* "unknown WHAT 'WORD': did you mean ...?" `known` is NULL-terminated. */
int spec_unknown(const struct spec_parser *p, const char *what, struct spec_span word,
		 const char *const *known);

/* The same, and what is meant by words of other tools (spec-hints.c). */
int spec_unknown_tracer(const struct spec_parser *p, struct spec_span word,
			const char *const *known);
int spec_unknown_item(const struct spec_parser *p, struct spec_span item, const char *const *known);
int spec_unknown_option(const struct spec_parser *p, struct spec_span name,
			const char *const *known);

int spec_parse_number(struct spec_parser *p, uint32_t max, uint32_t *out);

/* Parse the filter in a span; `literally`: quotes around it and backslashes are the filter's own.
 */
int spec_parse_filter(struct spec_parser *p, struct spec_span span, bool literally);

bool spec_is_quote(char c);
/* The text of a span without its quotes, if it has any, and without backslashes: for free(). NULL:
 * no memory. */
char *spec_unquote(struct spec_span span);
/* Behind the quoted string that begins at `from`; NULL if it does not end. */
const char *spec_behind_quoted(const char *from);

#endif
