/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_FETCH_PARSE_INTERNAL_H
#define SONDE_PATCHER_FETCH_PARSE_INTERNAL_H

#include "patcher/fetch/fetch.h"

/* What parse.c, parse-arg.c and parse-type.c share. All functions that return int return 0 or
 * -EINVAL with *p->err set. */
struct fetch_parser {
	const char *text, *at;
	struct fetch_probe *probe;
	struct fetch_arg *arg;
	bool has_place; /* of the argument: its last operation reads memory that the user wrote */
	const char *variable; /* the argument's "$argN" or "$retval", without members; or NULL */
	struct error *err;
};

/* -EINVAL with the column of `place`, a pointer into the text. */
#define FETCH_FAIL(p, place, ...) \
	error_set_column((p)->err, EINVAL, (unsigned int)((place) - (p)->text) + 1, __VA_ARGS__)

/* "unknown WHAT 'WORD': did you mean ...?", or the list of all. */
int fetch_unknown(const struct fetch_parser *p, const char *what, const char *word, size_t length,
		  const char *const *known);

/* Letters, digits and _; returns how many, at p->at. */
size_t fetch_name_length(const char *text);
/* A name of `length` characters at p->at, which advances past it. `out` has room for `size`. */
int fetch_take_name(struct fetch_parser *p, const char *what, size_t length, size_t size,
		    char *out);
/* "12", "0x1f"; `what` begins the message if there is none. */
int fetch_take_number(struct fetch_parser *p, const char *what, uint64_t *out);
/* "+12", "-0x8". */
int fetch_take_offset(struct fetch_parser *p, int64_t *out);
/* A symbol's name at p->at. */
int fetch_take_symbol(struct fetch_parser *p, char out[FETCH_SYMBOL_SIZE]);

/* parse-arg.c: the argument p->arg, with its name and type. */
int fetch_take_arg(struct fetch_parser *p);
/* Whether its name, which stands at `place`, is free: that of no argument in front of it. */
int fetch_check_name(const struct fetch_parser *p, const char *place);
/* parse-type.c: what is behind the colon; without one the default. */
int fetch_take_type(struct fetch_parser *p);
void fetch_default_type(struct fetch_parser *p);

#endif
