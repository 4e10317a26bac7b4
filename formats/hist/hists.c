/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/hist/hists.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"

enum { MAX_INSTANCES = 1024, TEXT_SIZE = 256 };

const char *const hist_shows[] = {"unsigned",   "signed",  "hex",   "symbol", "sym-offset",
				  "execname",   "syscall", "log2",  "range",  "text",
				  "stacktrace", "percent", "graph", NULL};

/* --- numbers --------------------------------------------------------------------------------- */

/* Some readers of JSON know no larger integers. */
static json_t *number_json(uint64_t number, bool is_signed)
{
	if (is_signed)
		return json_integer((json_int_t)number);
	return number <= INT64_MAX ? json_from_count(number) : json_from_address(number);
}

static int read_number(const json_t *object, const char *key, uint64_t *out)
{
	const json_t *value = json_object_get(object, key);

	if (json_is_string(value))
		return json_read_address(object, key, out);
	if (!json_is_integer(value))
		return -EINVAL;
	*out = (uint64_t)json_integer_value(value);
	return 0;
}

/* --- reading --------------------------------------------------------------------------------- */

static int parse_column(const json_t *object, struct hist_column *column)
{
	const char *show = json_string_value(json_object_get(object, "show"));
	uint64_t bucket = 0;
	int ret;

	if (!json_is_object(object) || !json_object_get(object, "name"))
		return -EINVAL;
	ret = json_read_text(object, "name", column->name, sizeof(column->name));
	if (!ret)
		ret = json_read_count(object, "bucket", &bucket);
	if (ret || bucket > INT32_MAX)
		return -EINVAL;
	column->bucket = (uint32_t)bucket;
	for (unsigned int i = 0; show && i < HIST_SHOWS; i++) {
		column->show = (enum hist_show)i;
		if (!strcmp(show, hist_shows[i]))
			return column->show == HIST_RANGE && !bucket ? -EINVAL : 0;
	}
	return -EINVAL;
}

static int parse_columns(const json_t *list, struct hist_column *out, size_t *n)
{
	const json_t *object;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > HIST_COLUMNS)
		return -EINVAL;
	*n = json_array_size(list);
	json_array_foreach(list, i, object)
	{
		if (parse_column(object, &out[i]))
			return -EINVAL;
	}
	return 0;
}

/* NULL: there is none. */
static int parse_text(const json_t *object, char **out)
{
	char text[TEXT_SIZE] = "";

	*out = NULL;
	if (json_read_text(object, "text", text, sizeof(text)))
		return -EINVAL;
	if (!json_object_get(object, "text"))
		return 0;
	*out = strdup(text);
	return *out ? 0 : -ENOMEM;
}

static int parse_frames(const json_t *list, struct hist_value *v)
{
	const json_t *object;
	int ret = 0;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > HIST_FRAMES)
		return -EINVAL;
	v->frames = calloc(json_array_size(list) + 1, sizeof(*v->frames));
	if (!v->frames)
		return -ENOMEM;
	json_array_foreach(list, i, object)
	{
		struct hist_frame *frame = &v->frames[v->nr_frames++];

		if (!json_is_object(object) || read_number(object, "number", &frame->address))
			return -EINVAL;
		ret = parse_text(object, &frame->text);
		if (ret)
			return ret;
	}
	return 0;
}

static int parse_key(const json_t *object, const struct hist_column *column, struct hist_value *v)
{
	int ret;

	if (!json_is_object(object) || read_number(object, "number", &v->number) ||
	    json_read_bool(object, "fault", &v->fault) || json_read_bool(object, "cut", &v->cut))
		return -EINVAL;
	ret = parse_text(object, &v->text);
	if (ret || column->show != HIST_STACKTRACE)
		return ret;
	return parse_frames(json_object_get(object, "frames"), v);
}

static int parse_row(const json_t *object, const struct hist_table *table, struct hist_row *row)
{
	const json_t *keys = json_object_get(object, "keys");
	const json_t *values = json_object_get(object, "values");
	int ret = read_number(object, "hitcount", &row->hits);

	if (ret || json_array_size(keys) != table->nr_keys)
		return -EINVAL;
	for (size_t i = 0; !ret && i < table->nr_keys; i++)
		ret = parse_key(json_array_get(keys, i), &table->keys[i], &row->keys[i]);
	for (size_t i = 0; !ret && i < table->nr_values; i++)
		ret = read_number(values, table->values[i].name, &row->values[i]);
	return ret;
}

/* *left: rows that the document may still have. */
static int parse_rows(const json_t *list, struct hist_table *table, size_t *left)
{
	const json_t *object;
	int ret = 0;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > *left)
		return -EINVAL;
	*left -= json_array_size(list);
	table->v = calloc(json_array_size(list) + 1, sizeof(*table->v));
	if (!table->v)
		return -ENOMEM;
	table->n = json_array_size(list);
	json_array_foreach(list, i, object)
	{
		ret = parse_row(object, table, &table->v[i]);
		if (ret)
			break;
	}
	return ret;
}

static int parse_order(const json_t *list, const struct hist_table *table, struct hist_order *order)
{
	const json_t *object;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > HIST_SORTS)
		return -EINVAL;
	json_array_foreach(list, i, object)
	{
		uint64_t column = UINT64_MAX;

		if (json_read_count(object, "column", &column) ||
		    json_read_bool(object, "descending", &order->by[i].descending) ||
		    column > table->nr_values + table->nr_keys)
			return -EINVAL;
		order->by[i].column = (uint8_t)column;
	}
	order->n = json_array_size(list);
	return 0;
}

static int parse_table(const json_t *object, struct hist_table *table, size_t *left)
{
	const char *spec = json_string_value(json_object_get(object, "spec"));

	if (!spec || json_read_text(object, "name", table->name, sizeof(table->name)) ||
	    json_read_bool(object, "ended", &table->ended) ||
	    json_read_bool(object, "nohitcount", &table->nohitcount) ||
	    json_read_count(object, "size", &table->size) ||
	    json_read_count(object, "dropped", &table->dropped) ||
	    parse_columns(json_object_get(object, "keys"), table->keys, &table->nr_keys) ||
	    parse_columns(json_object_get(object, "values"), table->values, &table->nr_values) ||
	    parse_order(json_object_get(object, "sort"), table, &table->order))
		return -EINVAL;
	table->spec = strdup(spec);
	if (!table->spec)
		return -ENOMEM;
	clean_line(table->spec);
	return parse_rows(json_object_get(object, "rows"), table, left);
}

int hist_set_parse(const json_t *document, struct hist_set *out, struct error *err)
{
	const json_t *list = json_object_get(document, "histograms"), *object;
	size_t left = HIST_MAX_ROWS, i;
	int ret = 0;

	*out = (struct hist_set){0};
	if (!json_is_array(list) || json_array_size(list) > MAX_INSTANCES)
		return error_set(err, EINVAL,
				 "these are no histograms: there is no list 'histograms'");
	out->v = calloc(json_array_size(list) + 1, sizeof(*out->v));
	if (!out->v)
		return error_set(err, ENOMEM, "out of memory");
	out->n = json_array_size(list);
	json_array_foreach(list, i, object)
	{
		ret = parse_table(object, &out->v[i], &left);
		if (ret)
			break;
	}
	if (!ret)
		return 0;
	hist_set_deinit(out);
	if (ret == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	return error_set(err, EINVAL, "these are no histograms: entry %zu of 'histograms' is wrong",
			 i);
}

static void deinit_value(struct hist_value *v)
{
	for (size_t i = 0; i < v->nr_frames; i++)
		free(v->frames[i].text);
	free(v->frames);
	free(v->text);
}

static void cut_table(struct hist_table *table, size_t top)
{
	for (; table->n > top; table->n--)
		for (size_t k = 0; k < HIST_COLUMNS; k++)
			deinit_value(&table->v[table->n - 1].keys[k]);
}

void hist_set_cut(struct hist_set *set, size_t top)
{
	for (size_t i = 0; top && i < set->n; i++)
		cut_table(&set->v[i], top);
}

static void deinit_table(void *arg)
{
	struct hist_table *table = arg;

	cut_table(table, 0);
	free(table->v);
	free(table->spec);
}

void hist_set_deinit(struct hist_set *set)
{
	for (size_t i = 0; i < set->n; i++)
		deinit_table(&set->v[i]);
	free(set->v);
	*set = (struct hist_set){0};
}

/* --- writing --------------------------------------------------------------------------------- */

static json_t *columns_json(const struct hist_column *columns, size_t n)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < n; i++) {
		json_t *column = json_pack("{s:o, s:s}", "name", json_from_text(columns[i].name),
					   "show", hist_shows[columns[i].show]);

		if (columns[i].show == HIST_RANGE)
			failed |= json_object_set_new(column, "bucket",
						      json_from_count(columns[i].bucket));
		failed |= json_array_append_new(list, column);
	}
	return json_if_whole(list, failed);
}

static json_t *frames_json(const struct hist_value *v)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < v->nr_frames; i++) {
		const struct hist_frame *frame = &v->frames[i];
		json_t *object = json_pack("{s:o}", "number", number_json(frame->address, false));

		if (frame->text)
			failed |= json_object_set_new(object, "text", json_from_text(frame->text));
		failed |= json_array_append_new(list, object);
	}
	return json_if_whole(list, failed);
}

static json_t *key_json(const struct hist_column *column, const struct hist_value *v)
{
	json_t *key =
		json_pack("{s:o}", "number", number_json(v->number, column->show == HIST_SIGNED));
	int failed = 0;

	if (v->fault)
		failed |= json_object_set_new(key, "fault", json_true());
	if (v->text)
		failed |= json_object_set_new(key, "text", json_from_text(v->text));
	if (column->show == HIST_STACKTRACE)
		failed |= json_object_set_new(key, "frames", frames_json(v));
	if (v->cut)
		failed |= json_object_set_new(key, "cut", json_true());
	return json_if_whole(key, failed);
}

static json_t *row_json(const struct hist_table *table, const struct hist_row *row)
{
	json_t *keys = json_array(), *values = json_object();
	int failed = 0;

	for (size_t i = 0; i < table->nr_keys; i++)
		failed |= json_array_append_new(keys, key_json(&table->keys[i], &row->keys[i]));
	for (size_t i = 0; i < table->nr_values; i++)
		failed |= json_object_set_new(
			values, table->values[i].name,
			number_json(row->values[i], table->values[i].show == HIST_SIGNED));
	return json_if_whole(json_pack("{s:o, s:o, s:o}", "keys", keys, "hitcount",
				       number_json(row->hits, false), "values", values),
			     failed);
}

static json_t *order_json(const struct hist_order *order)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < order->n; i++)
		failed |= json_array_append_new(
			list, json_pack("{s:i, s:b}", "column", (int)order->by[i].column,
					"descending", (int)order->by[i].descending));
	return json_if_whole(list, failed);
}

static json_t *table_json(const struct hist_table *table)
{
	json_t *rows = json_array(), *out;
	int failed = 0;

	for (size_t i = 0; i < table->n; i++)
		failed |= json_array_append_new(rows, row_json(table, &table->v[i]));
	out = json_pack("{s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
			json_from_text(table->name), "spec", table->spec, "ended",
			(int)table->ended, "size", json_from_count(table->size), "keys",
			columns_json(table->keys, table->nr_keys), "values",
			columns_json(table->values, table->nr_values), "sort",
			order_json(&table->order), "dropped", json_from_count(table->dropped),
			"rows", json_if_whole(rows, failed));
	return table->nohitcount && json_object_set_new(out, "nohitcount", json_true())
		       ? json_if_whole(out, -1)
		       : out;
}

json_t *hist_set_json(const struct hist_set *set)
{
	json_t *list = json_array();
	int failed = 0;

	for (size_t i = 0; i < set->n; i++)
		failed |= json_array_append_new(list, table_json(&set->v[i]));
	return json_pack("{s:o}", "histograms", json_if_whole(list, failed));
}

int hist_set_keep(struct hist_set *set, const char *name, struct error *err)
{
	return named_keep(set->v, &set->n, sizeof(*set->v), deinit_table, name, err);
}
