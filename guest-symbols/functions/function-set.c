/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "guest-symbols/functions/function-set.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/glob.h"
#include "guest-symbols/symbols/name-index.h"

enum { NO_PATTERN = UINT32_MAX };

/*
 * Names are in a hash, globs in lists by their first character; those that begin with a special
 * character are in the list of '\0', which every name is compared with.
 */
struct function_set {
	const struct function_patterns *patterns;
	struct name_index names;
	struct glob {
		size_t prefix;
		uint32_t next;
	} * globs; /* as many as patterns */
	uint32_t first[256];
};

static bool is_glob(const struct function_pattern *p)
{
	return p->name[glob_prefix(p->name)] != '\0';
}

int function_set_create(const struct function_patterns *patterns, struct function_set **out,
			struct error *err)
{
	struct function_set *set = calloc(1, sizeof(*set));

	if (!set || name_index_init(&set->names, patterns->n))
		goto fail;
	set->globs = calloc(patterns->n + 1, sizeof(*set->globs));
	if (!set->globs)
		goto fail;
	set->patterns = patterns;
	memset(set->first, 0xff, sizeof(set->first));
	for (uint32_t i = 0; i < patterns->n; i++) {
		const struct function_pattern *p = &patterns->v[i];
		size_t prefix = glob_prefix(p->name);
		uint32_t *first = &set->first[prefix ? (unsigned char)p->name[0] : 0];

		if (!is_glob(p)) {
			name_index_add(&set->names, p->name, i);
			continue;
		}
		set->globs[i] = (struct glob){prefix, *first};
		*first = i;
	}
	*out = set;
	return 0;
fail:
	function_set_destroy(set);
	return error_set(err, ENOMEM, "no memory for %zu function patterns", patterns->n);
}

void function_set_destroy(struct function_set *set)
{
	if (!set)
		return;
	free(set->globs);
	name_index_deinit(&set->names);
	free(set);
}

static bool module_matches(const struct function_pattern *p, const char *module)
{
	if (!p->module)
		return true;
	return (module && glob_matches(p->module, module)) != p->module_negated;
}

/* Of the patterns that match, the number of the last one plus 1; each is counted in `hits`. */
static uint32_t last_match(const struct function_set *set, const char *name, const char *module,
			   uint32_t *hits)
{
	const struct function_pattern *patterns = set->patterns->v;
	const unsigned char lists[2] = {(unsigned char)*name, 0};
	struct name_cursor cursor = name_index_start(&set->names, name);
	uint32_t i, last = 0;

	while (name_index_next(&set->names, &cursor, &i)) {
		if (strcmp(patterns[i].name, name) != 0 || !module_matches(&patterns[i], module))
			continue;
		last = i + 1 > last ? i + 1 : last;
		if (hits)
			hits[i]++;
	}
	for (size_t k = 0; k < (*name ? 2 : 1); k++) {
		for (i = set->first[lists[k]]; i != NO_PATTERN; i = set->globs[i].next) {
			if (strncmp(patterns[i].name, name, set->globs[i].prefix) != 0 ||
			    !glob_matches(patterns[i].name, name) ||
			    !module_matches(&patterns[i], module))
				continue;
			last = i + 1 > last ? i + 1 : last;
			if (hits)
				hits[i]++;
		}
	}
	return last;
}

/* What `last_match()` means. */
static bool decides(const struct function_set *set, uint32_t last)
{
	if (last)
		return !set->patterns->v[last - 1].negated;
	return !set->patterns->n || set->patterns->v[0].negated;
}

bool function_set_has(const struct function_set *set, const char *name, const char *module)
{
	return decides(set, last_match(set, name, module, NULL));
}

/* --- resolve --------------------------------------------------------------------------------- */

struct candidate {
	struct traceable function;
	uint32_t last; /* last_match() */
};

static int by_site(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->function.site < y->function.site ? -1 : x->function.site > y->function.site;
}

/* Unless they are sorted, as those of an image are. */
static void sort(struct candidate *v, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		if (by_site(&v[i - 1], &v[i]) > 0) {
			qsort(v, n, sizeof(*v), by_site);
			return;
		}
	}
}

/* A function's names become the one to show, and the last pattern of any of them. */
static void select_functions(const struct function_set *set, const struct candidate *v, size_t n,
			     struct function_selection *out)
{
	for (size_t i = 0, next; i < n; i = next) {
		uint32_t last = 0;
		size_t shown = i;

		for (next = i; next < n && v[next].function.site == v[i].function.site; next++) {
			last = v[next].last > last ? v[next].last : last;
			shown = v[shown].function.alias ? next : shown;
		}
		if (decides(set, last))
			out->v[out->n++] = v[shown].function;
	}
}

static int select_from(const struct function_set *set, const struct traceable_list *list,
		       uint32_t *hits, struct function_selection *out, struct error *err)
{
	struct candidate *v = calloc(list->n + 1, sizeof(*v));

	out->v = calloc(list->n + 1, sizeof(*out->v));
	if (!v || !out->v) {
		free(v);
		return error_set(err, ENOMEM, "no memory for %zu functions", list->n);
	}
	for (size_t i = 0; i < list->n; i++) {
		const struct traceable *t = &list->v[i];

		v[i] = (struct candidate){*t, last_match(set, t->name, t->module, hits)};
	}
	sort(v, list->n);
	select_functions(set, v, list->n, out);
	free(v);
	return 0;
}

int function_notes_add(struct function_notes *notes, struct error *err, const char *fmt, ...)
{
	char **v = reallocarray(notes->v, notes->n + 1, sizeof(*v));
	va_list ap;
	int length;

	if (!v)
		return error_set(err, ENOMEM, "out of memory");
	notes->v = v;
	va_start(ap, fmt);
	length = vasprintf(&v[notes->n], fmt, ap);
	va_end(ap);
	if (length < 0)
		return error_set(err, ENOMEM, "out of memory");
	notes->n++;
	return 0;
}

void function_notes_deinit(struct function_notes *notes)
{
	for (size_t i = 0; i < notes->n; i++)
		free(notes->v[i]);
	free(notes->v);
	*notes = (struct function_notes){0};
}

/* What is said of a pattern that matched `hits` names. */
static int judge_pattern(const struct function_pattern *p, uint32_t hits,
			 const struct traceable_list *list, struct function_notes *out,
			 struct error *err)
{
	struct error why = {0};
	int ret;

	if (hits > 1 && !is_glob(p) && !p->negated)
		return function_notes_add(out, err,
					  "%u functions are named '%s'; all of them are traced",
					  hits, p->name);
	if (hits)
		return 0;
	ret = function_unmatched(p, list, &why);
	if (ret != -ENOENT || (!p->negated && (!p->module || p->module_negated))) {
		if (err)
			*err = why;
		return ret;
	}
	return function_notes_add(out, err, "%s", why.text);
}

int function_set_select(const struct function_set *set, const struct traceable_list *list,
			struct function_selection *out, struct error *err)
{
	int ret;

	*out = (struct function_selection){0};
	ret = select_from(set, list, NULL, out, err);
	if (ret)
		function_selection_deinit(out);
	return ret;
}

bool function_set_awaits_module(const struct function_set *set)
{
	bool awaits = false;

	for (size_t i = 0; i < set->patterns->n; i++) {
		const struct function_pattern *p = &set->patterns->v[i];

		awaits |= p->module && !p->module_negated && !p->negated;
	}
	return awaits;
}

int function_set_resolve(const struct function_set *set, const struct traceable_list *list,
			 struct function_selection *out, struct error *err)
{
	const struct function_patterns *patterns = set->patterns;
	uint32_t *hits = calloc(patterns->n + 1, sizeof(*hits));
	int ret;

	*out = (struct function_selection){0};
	if (!hits)
		return error_set(err, ENOMEM, "out of memory");
	ret = select_from(set, list, hits, out, err);
	for (size_t i = 0; !ret && i < patterns->n; i++)
		ret = judge_pattern(&patterns->v[i], hits[i], list, &out->notes, err);
	free(hits);
	if (ret)
		function_selection_deinit(out);
	return ret;
}

void function_selection_deinit(struct function_selection *selection)
{
	function_notes_deinit(&selection->notes);
	free(selection->v);
	*selection = (struct function_selection){0};
}
