/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Several filters, of which an event has to pass any. */
#include <errno.h>
#include <stdlib.h>
#include "formats/filter/filter.h"

/* It is the text's, which the user has typed. */
static int in_text(const struct event_filters *filters, size_t i, int ret, struct error *err)
{
	if (ret && err)
		err->parsed = filters->texts[i];
	return ret;
}

int event_filters_parse(const char *const *texts, size_t n, struct event_filters *out,
			struct error *err)
{
	*out = (struct event_filters){.texts = texts, .v = calloc(n + 1, sizeof(*out->v))};
	if (!out->v)
		return error_set(err, ENOMEM, "out of memory");
	for (; out->n < n; out->n++) {
		int ret = event_filter_parse(texts[out->n], &out->v[out->n], err);

		if (!ret)
			continue;
		in_text(out, out->n, ret, err);
		event_filters_deinit(out);
		return ret;
	}
	return 0;
}

void event_filters_deinit(struct event_filters *filters)
{
	for (size_t i = 0; i < filters->n; i++)
		event_filter_destroy(filters->v[i]);
	free(filters->v);
	*filters = (struct event_filters){0};
}

int event_filters_bind(const struct event_filters *filters,
		       const struct event_class *const *classes, size_t n,
		       const struct event_names *names, struct event_predicate ***out,
		       struct error *err)
{
	struct event_predicate **all = calloc(filters->n * n + 1, sizeof(*all));
	struct event_predicate **of_one = calloc(n + 1, sizeof(*of_one));
	int ret = all && of_one ? 0 : error_set(err, ENOMEM, "out of memory");

	for (size_t i = 0; !ret && i < filters->n; i++) {
		ret = event_filter_bind_each(filters->v[i], classes, n, names, of_one, err);
		for (size_t k = 0; !ret && k < n; k++)
			all[k * filters->n + i] = of_one[k];
		in_text(filters, i, ret, err);
	}
	free(of_one);
	if (ret)
		event_predicates_destroy(all, filters->n * n);
	else
		*out = all;
	return ret;
}

void event_predicates_destroy(struct event_predicate **predicates, size_t n)
{
	for (size_t i = 0; predicates && i < n; i++)
		event_predicate_destroy(predicates[i]);
	free(predicates);
}

bool event_predicates_match_any(struct event_predicate *const *predicates, size_t n,
				const struct event *event)
{
	for (size_t i = 0; i < n; i++)
		if (predicates[i] && event_predicate_matches(predicates[i], event))
			return true;
	return false;
}
