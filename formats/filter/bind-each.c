/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A parsed filter for the events of several classes, and why none of them suits it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/event/task.h"
#include "formats/filter/internal.h"

enum { LISTED_MAX = 240 }; /* characters of a list of fields, which an error has room for */

/* Each once. */
static void add_name(const char **names, size_t *used, const char *name)
{
	if (!text_begins_as(name, strlen(name), names))
		names[(*used)++] = name;
}

/* A field of the task, which nobody has asked for. */
static int not_recorded(const struct filter_term *term, const char *whose, const char *word,
			struct error *err)
{
	return error_set_column(err, ENOENT, term->field_at,
				"filter, character %u: %s field '%s': it is recorded with the word "
				"'%s', see sonde-run(1)",
				term->field_at, whose, term->field, word);
}

int filter_no_field(const struct filter_term *term, const struct event_class *const *classes,
		    size_t n, const char *whose, struct error *err)
{
	const char *word = filter_plain_name(term->field);
	const char **names, *nearest;
	struct text all = {""};
	size_t used = 0;

	if (event_task_has_field(word))
		return not_recorded(term, whose, word, err);
	names = calloc(n * EVENT_MAX_FIELDS + 2, sizeof(*names));
	if (!names)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		for (size_t f = 0; f < classes[i]->nr_fields && f < EVENT_MAX_FIELDS; f++)
			add_name(names, &used, classes[i]->fields[f].name);
	add_name(names, &used, "vcpu");
	nearest = text_nearest(term->field, names);
	if (n)
		all = text_words(names);
	free(names);
	if (nearest)
		return error_set_column(err, ENOENT, term->field_at,
					"filter, character %u: %s field '%s'; did you mean '%s'?",
					term->field_at, whose, term->field, nearest);
	if (strlen(all.s) > LISTED_MAX)
		*all.s = '\0';
	return error_set_column(err, ENOENT, term->field_at,
				"filter, character %u: %s field '%s'%s%s", term->field_at, whose,
				term->field, *all.s ? ": take " : "", all.s);
}

/* The first term whose field none of the classes has; NULL: there is none. */
static const struct filter_term *find_missing(const struct event_filter *filter,
					      const struct event_class *const *classes, size_t n)
{
	for (unsigned int t = 0; t < filter->nr_terms; t++) {
		bool found = false;

		for (size_t i = 0; !found && i < n; i++)
			found = filter_find_field(&filter->terms[t], classes[i],
						  &(struct bound_term){0});
		if (!found)
			return &filter->terms[t];
	}
	return NULL;
}

/* Each class lacks a field of the filter. */
static int explain(const struct event_filter *filter, const struct event_class *const *classes,
		   size_t n, struct error *err)
{
	const struct filter_term *term = find_missing(filter, classes, n);
	char whose[160];

	if (term && n > 1)
		return filter_no_field(term, classes, n, "no event has a", err);
	snprintf(whose, sizeof(whose), "%s%s has no",
		 term ? "" : "no event has all fields of the filter: ", classes[0]->name);
	if (term)
		return filter_no_field(term, classes, 1, whose, err);
	term = find_missing(filter, classes, 1);
	return filter_no_field(term, NULL, 0, whose, err);
}

static void unbind(struct event_predicate **predicates, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		event_predicate_destroy(predicates[i]);
		predicates[i] = NULL;
	}
}

int event_filter_bind_each(const struct event_filter *filter,
			   const struct event_class *const *classes, size_t n,
			   const struct event_names *names, struct event_predicate **predicates,
			   struct error *err)
{
	struct error wrong = {0}, why = {0};
	bool bound = !n;

	for (size_t i = 0; i < n; i++) {
		int ret = event_filter_bind(filter, classes[i], names, &predicates[i], &why);

		if (ret)
			predicates[i] = NULL;
		if (ret == -ENOMEM) {
			unbind(predicates, i);
			return error_set(err, ENOMEM, "out of memory");
		}
		bound |= !ret;
		/* rather what is wrong with a value than what other classes lack */
		if (ret && ret != -ENOENT && !wrong.code)
			wrong = why;
	}
	if (bound)
		return 0;
	if (!wrong.code)
		return explain(filter, classes, n, err);
	if (err)
		*err = wrong;
	return -wrong.code;
}
