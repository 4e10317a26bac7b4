/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/top/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/groups/measure.h"

const char *const top_view_titles[TOP_VIEWS] = {"call sites", "caches", "functions", "syscalls",
						"call chains"};

#define ALLOCATIONS                                                \
	{                                                          \
		"ALLOCS/S", "BYTES/S", "LIVE", "OBJECTS", "ALLOCS" \
	}
#define CALLS                                               \
	{                                                   \
		"CALLS/S", "TIME/S", "MEAN", "MAX", "CALLS" \
	}

const char *const top_column_titles[TOP_VIEWS][TOP_COLUMNS] = {
	[TOP_SITES] = ALLOCATIONS, [TOP_CACHES] = ALLOCATIONS, [TOP_FUNCTIONS] = CALLS,
	[TOP_SYSCALLS] = CALLS,    [TOP_STACKS] = ALLOCATIONS,
};

static const char *const json_keys[TOP_VIEWS] = {"callsites", "caches", "functions", "syscalls",
						 "stacks"};

#define JSON_ALLOCATIONS                                                                        \
	{                                                                                       \
		"allocs_per_second", "bytes_per_second", "live_bytes", "live_objects", "allocs" \
	}
#define JSON_CALLS                                                                     \
	{                                                                              \
		"calls_per_second", "time_per_second_ns", "mean_ns", "max_ns", "calls" \
	}

static const char *const json_columns[TOP_VIEWS][TOP_COLUMNS] = {
	[TOP_SITES] = JSON_ALLOCATIONS,  [TOP_CACHES] = JSON_ALLOCATIONS,
	[TOP_FUNCTIONS] = JSON_CALLS,    [TOP_SYSCALLS] = JSON_CALLS,
	[TOP_STACKS] = JSON_ALLOCATIONS,
};

/* --- samples --------------------------------------------------------------------------------- */

static double per_second(uint64_t now, uint64_t before, uint64_t ns)
{
	const double ns_per_s = 1e9;

	return now > before && ns ? (double)(now - before) * ns_per_s / (double)ns : 0;
}

static int by_key(const void *a, const void *b)
{
	const struct top_sample *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static struct top_row make_row(const struct top_table *table, const struct top_sample *now,
			       uint64_t now_ns)
{
	static const struct top_sample nothing;
	const struct top_sample *found = table->nr_before
						 ? bsearch(now, table->before, table->nr_before,
							   sizeof(*table->before), by_key)
						 : NULL;
	const struct top_sample *before = found ? found : &nothing;
	const uint64_t ns = table->before_ns ? now_ns - table->before_ns : 0;
	struct top_row row = {.now = *now};

	row.values[TOP_RATE] = per_second(now->total, before->total, ns);
	row.values[TOP_FLOW] = per_second(now->flow, before->flow, ns);
	row.values[TOP_LIVE] = now->live == TOP_UNKNOWN ? 0 : (double)now->live;
	row.values[TOP_COUNT] = now->count == TOP_UNKNOWN ? 0 : (double)now->count;
	row.values[TOP_TOTAL] = (double)now->total;
	return row;
}

int top_table_put(struct top_table *table, const struct top_sample *samples, size_t n,
		  uint64_t now_ns, struct error *err)
{
	struct top_row *rows = calloc(n + 1, sizeof(*rows));
	struct top_sample *copy = calloc(n + 1, sizeof(*copy));

	if (!rows || !copy) {
		free(rows);
		free(copy);
		return error_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < n; i++) {
		rows[i] = make_row(table, &samples[i], now_ns);
		copy[i] = samples[i];
	}
	qsort(copy, n, sizeof(*copy), by_key);
	free(table->v);
	free(table->before);
	table->has_rates = table->before_ns && now_ns > table->before_ns;
	table->v = rows;
	table->n = n;
	table->before = copy;
	table->nr_before = n;
	table->before_ns = now_ns;
	table->missing[0] = '\0';
	return 0;
}

void top_table_miss(struct top_table *table, const char *why)
{
	clean_text(table->missing, sizeof(table->missing), why);
	table->n = 0;
}

void top_model_deinit(struct top_model *model)
{
	for (int i = 0; i < TOP_VIEWS; i++) {
		free(model->tables[i].v);
		free(model->tables[i].before);
	}
	free(model->chains);
	*model = (struct top_model){0};
}

/* --- call chains ----------------------------------------------------------------------------- */

void top_model_drill(struct top_model *model, const struct top_sample *site)
{
	struct top_table *table = &model->tables[TOP_STACKS];

	free(table->v);
	free(table->before);
	*table = (struct top_table){0};
	model->site = site->key;
	snprintf(model->site_name, sizeof(model->site_name), "%s", site->name);
}

int top_model_put_chains(struct top_model *model, const struct top_sample *samples, size_t n,
			 char *texts, uint64_t now_ns, struct error *err)
{
	struct top_table *table = &model->tables[TOP_STACKS];
	int ret = top_table_put(table, samples, n, now_ns, err);

	if (ret)
		table->n = 0;
	free(model->chains);
	model->chains = texts;
	return ret;
}

const char *top_chain_line(const char **rest, size_t *length)
{
	const char *line = *rest;

	if (!line || !*line)
		return NULL;
	*length = strcspn(line, "\n");
	*rest = line + *length + (line[*length] == '\n');
	return line;
}

/* --- order ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b, void *arg)
{
	const struct top_row *x = *(const struct top_row *const *)a;
	const struct top_row *y = *(const struct top_row *const *)b;
	const enum top_column column = *(const enum top_column *)arg;

	if (x->values[column] != y->values[column])
		return x->values[column] > y->values[column] ? -1 : 1;
	if (x->now.total != y->now.total)
		return x->now.total > y->now.total ? -1 : 1;
	return x->now.chain && y->now.chain ? strcmp(x->now.chain, y->now.chain)
					    : strcmp(x->now.name, y->now.name);
}

static bool has_text(const struct top_sample *sample, const char *text)
{
	return strstr(sample->chain ? sample->chain : sample->name, text);
}

const struct top_row **top_table_sort(const struct top_table *table, enum top_column column,
				      const char *filter, size_t *n)
{
	const struct top_row **rows = calloc(table->n + 1, sizeof(struct top_row *));

	*n = 0;
	if (!rows)
		return NULL;
	for (size_t i = 0; i < table->n; i++)
		if (!filter || !*filter || has_text(&table->v[i].now, filter))
			rows[(*n)++] = &table->v[i];
	qsort_r(rows, *n, sizeof(struct top_row *), compare, &column);
	return rows;
}

/* --- results --------------------------------------------------------------------------------- */

static bool is_known(const struct top_row *row, enum top_column column, bool has_rates)
{
	switch (column) {
	case TOP_RATE:
		return has_rates;
	case TOP_FLOW:
		return has_rates && row->now.live != TOP_UNKNOWN;
	case TOP_LIVE:
		return row->now.live != TOP_UNKNOWN;
	case TOP_COUNT:
		return row->now.count != TOP_UNKNOWN;
	case TOP_TOTAL:
	case TOP_COLUMNS:
		break;
	}
	return true;
}

/* "frames", and whether the chain goes on: "cut". */
static json_t *chain_json(const char *chain)
{
	json_t *frames = json_array();
	bool is_cut = false;
	const char *line;
	size_t length;

	while ((line = top_chain_line(&chain, &length))) {
		is_cut = !strncmp(line, TOP_CUT "\n", length + 1);
		if (!is_cut)
			json_array_append_new(frames, json_stringn(line, length));
	}
	return json_pack("{s:o, s:b}", "frames", frames, "cut", is_cut);
}

static json_t *row_json(enum top_view view, const struct top_row *row, bool has_rates)
{
	json_t *object = row->now.chain ? chain_json(row->now.chain)
					: json_pack("{s:o}", "name", json_from_text(row->now.name));
	const uint64_t counts[TOP_COLUMNS] = {[TOP_LIVE] = row->now.live,
					      [TOP_COUNT] = row->now.count,
					      [TOP_TOTAL] = row->now.total};

	for (enum top_column c = 0; object && c < TOP_COLUMNS; c++) {
		const bool is_rate = c == TOP_RATE || c == TOP_FLOW;
		json_t *value = !is_known(row, c, has_rates) ? json_null()
				: is_rate                    ? json_real(row->values[c])
							     : json_from_count(counts[c]);

		json_object_set_new(object, json_columns[view][c], value);
	}
	return object;
}

static json_t *table_json(enum top_view view, const struct top_table *table)
{
	size_t n;
	const struct top_row **rows = top_table_sort(table, TOP_RATE, NULL, &n);
	json_t *list = rows ? json_array() : NULL;

	for (size_t i = 0; list && i < n; i++)
		json_array_append_new(list, row_json(view, rows[i], table->has_rates));
	free(rows);
	return list;
}

json_t *top_model_json(const struct top_model *model)
{
	const enum top_view end = model->site ? TOP_VIEWS : TOP_TABS;
	json_t *root = json_object();

	if (model->site)
		json_object_set_new(root, "site", json_from_text(model->site_name));
	for (enum top_view view = 0; root && view < end; view++) {
		const struct top_table *table = &model->tables[view];

		json_object_set_new(root, json_keys[view],
				    table->missing[0] ? json_null() : table_json(view, table));
	}
	return root;
}

static void print(char *out, size_t size, struct text text)
{
	snprintf(out, size, "%.*s", (int)size - 1, text.s);
}

void top_value_text(enum top_view view, enum top_column column, const struct top_row *row,
		    bool has_rates, char *out, size_t size)
{
	const double largest = 1e18, value = row->values[column];
	const uint64_t count = (uint64_t)(value < largest ? value + 0.5 : largest);
	const bool is_calls = view == TOP_FUNCTIONS || view == TOP_SYSCALLS;
	const bool is_time = is_calls && column != TOP_RATE && column != TOP_TOTAL;

	if (!is_known(row, column, has_rates))
		snprintf(out, size, "-");
	else if (is_time)
		print(out, size, measure_duration(value));
	else if (column == TOP_FLOW || column == TOP_LIVE)
		print(out, size, text_bytes(count));
	else
		print(out, size, text_count(count));
}
