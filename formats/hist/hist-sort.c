/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The order of a histogram's rows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/hist/hists.h"

enum { MAX_NAMES = 1 + 2 * HIST_COLUMNS };

/* In the order of their numbers; NULL-terminated. */
static void list_columns(const struct hist_table *table, const char *out[MAX_NAMES + 1])
{
	size_t n = 0;

	out[n++] = "hitcount";
	for (size_t i = 0; i < table->nr_values; i++)
		out[n++] = table->values[i].name;
	for (size_t i = 0; i < table->nr_keys; i++)
		out[n++] = table->keys[i].name;
	out[n] = NULL;
}

/* "bytes_req.descending" */
static int parse_one(const char *text, const struct hist_table *table, struct hist_order *out,
		     struct error *err)
{
	const char *const dot = strchr(text, '.');
	const size_t length = dot ? (size_t)(dot - text) : strlen(text);
	const char *names[MAX_NAMES + 1], *nearest;
	char name[HIST_COLUMN_SIZE];

	if (dot && strcmp(dot, ".descending") && strcmp(dot, ".ascending"))
		return error_set(err, EINVAL,
				 "'%s': only .descending or .ascending can follow a column", text);
	snprintf(name, sizeof(name), "%.*s", (int)length, text);
	list_columns(table, names);
	for (uint8_t i = 0; names[i]; i++) {
		if (strcmp(names[i], name))
			continue;
		out->by[out->n].column = i;
		out->by[out->n++].descending = dot && !strcmp(dot, ".descending");
		return 0;
	}
	nearest = text_nearest(name, names);
	if (nearest)
		return error_set(err, EINVAL,
				 "the histogram '%s' has no column '%s': did you mean '%s'?",
				 table->name, name, nearest);
	return error_set(err, EINVAL, "--sort of the histogram '%s' takes %s, not '%s'",
			 table->name, text_words(names).s, name);
}

int hist_order_parse(const char *text, const struct hist_table *table, struct hist_order *out,
		     struct error *err)
{
	const char *end;
	int ret = 0;

	*out = (struct hist_order){0};
	do {
		char *one;

		end = strchrnul(text, ',');
		if (out->n == HIST_SORTS)
			return error_set(err, EINVAL, "more than %d columns to sort by",
					 HIST_SORTS);
		one = strndup(text, (size_t)(end - text));
		ret = one ? parse_one(one, table, out, err)
			  : error_set(err, ENOMEM, "out of memory");
		free(one);
		text = end + 1;
	} while (!ret && *end);
	return ret;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* As the column shows them. */
static int compare_shown(const struct hist_column *column, uint64_t a, uint64_t b)
{
	const uint64_t sign = column->show == HIST_SIGNED ? UINT64_C(1) << 63 : 0;

	return compare_numbers(a ^ sign, b ^ sign);
}

/* From the innermost frame on. */
static int compare_frames(const struct hist_value *a, const struct hist_value *b)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < a->nr_frames && i < b->nr_frames; i++)
		ret = compare_numbers(a->frames[i].address, b->frames[i].address);
	if (!ret)
		ret = compare_numbers(a->nr_frames, b->nr_frames);
	return ret ? ret : compare_numbers(a->cut, b->cut);
}

static int compare_keys(const struct hist_column *column, const struct hist_value *a,
			const struct hist_value *b)
{
	if (column->show == HIST_TEXT && a->text && b->text && strcmp(a->text, b->text))
		return strcmp(a->text, b->text);
	if (column->show == HIST_STACKTRACE)
		return compare_frames(a, b);
	return compare_shown(column, a->number, b->number);
}

static int compare_column(const struct hist_table *table, size_t column, const struct hist_row *a,
			  const struct hist_row *b)
{
	if (!column)
		return compare_numbers(a->hits, b->hits);
	if (--column < table->nr_values)
		return compare_shown(&table->values[column], a->values[column], b->values[column]);
	column -= table->nr_values;
	return compare_keys(&table->keys[column], &a->keys[column], &b->keys[column]);
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct hist_table *table = arg;
	int ret = 0;

	for (size_t i = 0; !ret && i < table->order.n; i++) {
		ret = compare_column(table, table->order.by[i].column, a, b);
		if (table->order.by[i].descending)
			ret = -ret;
	}
	for (size_t i = 1 + table->nr_values; !ret && i < 1 + table->nr_values + table->nr_keys;
	     i++)
		ret = compare_column(table, i, a, b);
	return ret;
}

int hist_set_sort(struct hist_set *set, const char *order, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < set->n; i++) {
		struct hist_table *table = &set->v[i];

		if (order)
			ret = hist_order_parse(order, table, &table->order, err);
		if (!ret && table->n)
			qsort_r(table->v, table->n, sizeof(*table->v), compare, table);
	}
	return ret;
}
