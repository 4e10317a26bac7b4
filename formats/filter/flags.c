/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Values that are flags by name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/filter/internal.h"

enum { NAMES_MAX = 128 };

/* A part of the value of a term. */
struct flag_word {
	const char *text;
	unsigned int at; /* in the filter, from 1 */
};

static const char *nearest_flag(const char *word, const struct event_field *field,
				const struct event_names *names)
{
	const char *all[NAMES_MAX + 1];
	size_t n = 0;

	while (n < NAMES_MAX && (all[n] = names->flag_name(names->arg, field, n)))
		n++;
	all[n] = NULL;
	return text_nearest(word, all);
}

static int no_flag(struct flag_word word, const struct event_field *field,
		   const struct event_names *names, struct error *err)
{
	const char *nearest = NULL;

	if (!names->flag || (names->flag_name && !names->flag_name(names->arg, field, 0)))
		return error_set_column(err, EINVAL, word.at,
					"filter, character %u: '%s' is not a number, and names of "
					"flags are not known here",
					word.at, word.text);
	if (names->flag_name)
		nearest = nearest_flag(word.text, field, names);
	return error_set_column(
		err, EINVAL, word.at,
		"filter, character %u: '%s' is neither a number nor a flag of the field%s%s%s",
		word.at, word.text, nearest ? "; did you mean '" : "", nearest ? nearest : "",
		nearest ? "'?" : "");
}

/* As flags are printed: bits without a name are a number. */
static bool is_number(const char *word, uint64_t *bits)
{
	char *end;

	if (*word < '0' || *word > '9')
		return false;
	errno = 0;
	*bits = strtoull(word, &end, 0);
	return !*end && !errno;
}

static bool is_flag(const char *word, const struct event_field *field,
		    const struct event_names *names, uint64_t *bits)
{
	return names->flag && !names->flag(names->arg, field, word, bits);
}

int filter_bind_flags(const struct filter_term *term, const struct event_names *names,
		      struct bound_term *out, struct error *err)
{
	char text[FILTER_WORD_MAX];
	char *rest = text, *name;

	out->value = 0;
	if (term->op != FILTER_AND && !strcmp(term->text, "none"))
		return 0;
	strcpy(text, term->text);
	while ((name = strsep(&rest, "|"))) {
		const struct flag_word word = {name, term->value_at + term->is_quoted +
							     (unsigned int)(name - text)};
		uint64_t bits;

		if (!is_number(name, &bits) && !is_flag(name, out->field, names, &bits))
			return no_flag(word, out->field, names, err);
		out->value |= bits;
	}
	return 0;
}
