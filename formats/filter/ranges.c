/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Values that are functions by name. */
#include <errno.h>
#include <string.h>
#include "formats/filter/internal.h"

static int place(const struct filter_term *term, struct error *err)
{
	error_prefix(err, "filter, character %u: ", term->value_at);
	if (err)
		err->column = term->value_at;
	return -EINVAL;
}

int filter_bind_ranges(const struct filter_term *term, const struct event_names *names,
		       struct bound_term *out, struct error *err)
{
	int ret;

	if (out->function_only && strchr(term->text, '+'))
		return error_set_column(err, EINVAL, term->value_at,
					"filter, character %u: '%s' is not the name of a function",
					term->value_at, term->text);
	ret = names->ranges(names->arg, term->text, term->op == FILTER_GLOB, &out->ranges,
			    &out->nr_ranges, err);
	return ret == -EINVAL ? place(term, err) : ret;
}

bool filter_in_ranges(const struct bound_term *term, uint64_t value)
{
	size_t from = 0, to = term->nr_ranges;

	while (from < to) {
		const size_t middle = from + (to - from) / 2;

		if (value < term->ranges[middle].begin)
			to = middle;
		else if (value >= term->ranges[middle].end)
			from = middle + 1;
		else
			return true;
	}
	return false;
}
