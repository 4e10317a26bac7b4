/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/event-hints.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/glob.h"
#include "formats/cli/cli.h"

enum { MAX_HINTS = 16, MAX_NAME = 512 };

struct hints {
	const char *verb;
	const char **functions, **caches;        /* names, NULL-terminated */
	const struct event_predicate *predicate; /* that is looked at */
	const char *seen[MAX_HINTS];
	size_t nr_seen;
};

static const char **list_functions(const struct sidecar *sidecar)
{
	const char **names = calloc(sidecar->nr_symbols + 1, sizeof(*names));

	for (size_t i = 0; names && i < sidecar->nr_symbols; i++)
		names[i] = sidecar->symbols[i].name;
	return names;
}

static const char **list_caches(const struct sidecar *sidecar)
{
	const char **names = calloc(sidecar->nr_caches + 1, sizeof(*names));

	for (size_t i = 0; names && i < sidecar->nr_caches; i++)
		names[i] = sidecar->caches[i].name;
	return names;
}

/* Of a function with an offset, the function. */
static void take_name(const struct event_node *node, char out[MAX_NAME])
{
	snprintf(out, MAX_NAME, "%s", node->text);
	if (event_field_is_code(node->field))
		out[strcspn(out, "+")] = '\0';
}

/* What has no name is shown as a number, or as "-". A set of characters may be cut by
 * take_name(). */
static bool may_be_nameless(const struct event_node *node, const char *name)
{
	return isdigit((unsigned char)*name) || !strcmp(name, "-") ||
	       (node->op == FILTER_GLOB && (*name == '*' || strchr(name, '[')));
}

static bool is_there(const struct event_node *node, const char *name, const char *const *names)
{
	bool found = false;

	for (; !found && *names; names++)
		found = node->op == FILTER_GLOB ? glob_matches(name, *names)
						: !strcmp(name, *names);
	return found;
}

static bool is_new(struct hints *h, const char *text)
{
	for (size_t i = 0; i < h->nr_seen; i++)
		if (!strcmp(h->seen[i], text))
			return false;
	if (h->nr_seen == MAX_HINTS)
		return false;
	h->seen[h->nr_seen++] = text;
	return true;
}

static void check_name(struct hints *h, const struct event_node *node, const char *what,
		       const char *const *names)
{
	char name[MAX_NAME];
	const char *nearest;

	take_name(node, name);
	if (!*names || may_be_nameless(node, name) || is_there(node, name, names) ||
	    !is_new(h, node->text))
		return;
	nearest = text_nearest(name, names);
	cli_note(h->verb, "no %s of the trace %s '%.300s'%s%.200s%s", what,
		 node->op == FILTER_GLOB ? "matches" : "has the name", name,
		 nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* That an event has another name may well be always true. */
static void check_node(struct hints *h, unsigned int number, bool negated)
{
	const struct event_node node = event_predicate_node(h->predicate, number);

	if (node.kind != FILTER_TERM) {
		check_node(h, node.left, negated != (node.kind == FILTER_NOT));
		if (node.kind != FILTER_NOT)
			check_node(h, node.right, negated);
		return;
	}
	if (negated || !node.field || !node.by_text ||
	    (node.op != FILTER_EQ && node.op != FILTER_GLOB))
		return;
	if (event_field_is_code(node.field))
		check_name(h, &node, "function", h->functions);
	else if (node.field->type == EVENT_DICTIONARY)
		check_name(h, &node, "cache", h->caches);
}

void event_hints_print(const char *verb, const struct event_selection *selection,
		       const struct sidecar *sidecar)
{
	struct hints h = {.verb = verb};
	size_t n;
	struct event_predicate *const *predicates = event_selection_predicates(selection, &n);

	if (!n || !sidecar || !sidecar->complete || sidecar->info.cut)
		return;
	h.functions = list_functions(sidecar);
	h.caches = list_caches(sidecar);
	for (size_t i = 0; h.functions && h.caches && i < n; i++) {
		h.predicate = predicates[i];
		if (h.predicate)
			check_node(&h, event_predicate_root(h.predicate), false);
	}
	free(h.functions);
	free(h.caches);
}
