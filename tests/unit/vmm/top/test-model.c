/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tables of `sonde top`: rates between two samples, order, filter, JSON. */
#include <stdlib.h>
#include <string.h>
#include "tests/lib/tap.h"
#include "vmm/top/model.h"

static const uint64_t second = 1000000000;

static bool put(struct top_table *table, uint64_t ns, uint64_t a, uint64_t b)
{
	const struct top_sample samples[] = {
		{.key = 9, .name = "alpha", .total = a, .flow = 10 * a, .live = 4096, .count = 3},
		{.key = 2, .name = "beta", .total = b, .flow = 100 * b, .live = 100, .count = 7},
	};

	return !top_table_put(table, samples, b ? 2 : 1, ns, NULL);
}

static const char *first(const struct top_table *table, enum top_column column, const char *filter)
{
	size_t n;
	const struct top_row **rows = top_table_sort(table, column, filter, &n);
	const char *name = n ? rows[0]->now.name : "none";

	free(rows);
	return name;
}

static void test_rates(void)
{
	struct top_table table = {0};

	ok(put(&table, second, 1000, 0) && !table.has_rates, "one sample gives no rates");
	ok(put(&table, 3 * second, 1500, 20) && table.has_rates, "two do");
	ok(table.v[0].values[TOP_RATE] == 250 && table.v[0].values[TOP_FLOW] == 2500,
	   "what has grown, per second");
	ok(table.v[1].values[TOP_RATE] == 10, "a row that is new has grown from 0");
	ok(put(&table, 4 * second, 100, 30) && table.v[0].values[TOP_RATE] == 0,
	   "one that has shrunk was cleared");
	free(table.v);
	free(table.before);
}

static void test_order(void)
{
	struct top_table table = {0};

	put(&table, second, 10, 10);
	put(&table, 2 * second, 30, 20);
	is_str(first(&table, TOP_RATE, NULL), "alpha", "by rate");
	is_str(first(&table, TOP_FLOW, NULL), "beta", "by bytes");
	is_str(first(&table, TOP_LIVE, ""), "alpha", "by live bytes");
	is_str(first(&table, TOP_COUNT, NULL), "beta", "by objects");
	is_str(first(&table, TOP_TOTAL, "et"), "beta", "only those that have the filter's text");
	is_str(first(&table, TOP_TOTAL, "gamma"), "none", "maybe none");
	free(table.v);
	free(table.before);
}

static void test_json(void)
{
	struct top_model model = {0};
	json_t *json, *row;

	put(&model.tables[TOP_SITES], second, 10, 10);
	put(&model.tables[TOP_SITES], 2 * second, 30, 20);
	put(&model.tables[TOP_CACHES], second, 10, 0);
	top_table_miss(&model.tables[TOP_FUNCTIONS], "none\033");
	json = top_model_json(&model);
	row = json_array_get(json_object_get(json, "callsites"), 0);
	ok(json_array_size(json_object_get(json, "callsites")) == 2 &&
		   json_real_value(json_object_get(row, "allocs_per_second")) == 20 &&
		   json_integer_value(json_object_get(row, "live_bytes")) == 4096,
	   "rows, the fastest first");
	row = json_array_get(json_object_get(json, "caches"), 0);
	ok(json_is_null(json_object_get(row, "bytes_per_second")), "no rates after one sample");
	ok(json_is_null(json_object_get(json, "functions")) &&
		   !strcmp(model.tables[TOP_FUNCTIONS].missing, "none?"),
	   "a table that cannot be read");
	json_decref(json);
	top_model_deinit(&model);
}

static void test_chains(void)
{
	const struct top_sample site = {.key = 5, .name = "d_alloc+0x10/0x100"};
	char *texts = strdup("a+0x1\nb+0x2\n[cut]\n");
	const struct top_sample sample = {.chain = texts, .total = 3, .live = 64, .count = 1};
	struct top_model model = {0};
	json_t *json = top_model_json(&model), *row;

	ok(!json_object_get(json, "stacks") && !json_object_get(json, "site"),
	   "no call chains unless they are wanted");
	json_decref(json);
	top_model_drill(&model, &site);
	if (!texts || top_model_put_chains(&model, &sample, 1, texts, second, NULL))
		abort();
	json = top_model_json(&model);
	row = json_array_get(json_object_get(json, "stacks"), 0);
	is_str(json_string_value(json_object_get(json, "site")), site.name, "they name their site");
	ok(json_integer_value(json_object_get(row, "allocs")) == 3 &&
		   json_is_true(json_object_get(row, "cut")) &&
		   json_array_size(json_object_get(row, "frames")) == 2 &&
		   !strcmp(json_string_value(json_array_get(json_object_get(row, "frames"), 1)),
			   "b+0x2"),
	   "a chain has its frames, and says that it goes on");
	json_decref(json);
	top_model_drill(&model, &site);
	ok(!model.tables[TOP_STACKS].n && !model.tables[TOP_STACKS].has_rates,
	   "another site begins without chains");
	top_model_deinit(&model);
}

static void is_text(enum top_view view, enum top_column column, double value, bool has_rates,
		    const char *expected, const char *what)
{
	struct top_row row = {0};
	char text[32];

	row.values[column] = value;
	top_value_text(view, column, &row, has_rates, text, sizeof(text));
	is_str(text, expected, what);
}

static void test_texts(void)
{
	const struct top_sample hits_only = {.total = 5, .live = TOP_UNKNOWN, .count = TOP_UNKNOWN};
	struct top_model model = {0};
	json_t *json, *row;

	is_text(TOP_SITES, TOP_LIVE, 1536, true, "1.5 KiB", "bytes");
	is_text(TOP_FUNCTIONS, TOP_LIVE, 1536, true, "1.5 us", "times");
	is_text(TOP_SYSCALLS, TOP_COUNT, 2500, true, "2.5 us", "also of system calls");
	is_text(TOP_CACHES, TOP_TOTAL, 1234567, true, "1,234,567", "counts");
	is_text(TOP_CACHES, TOP_RATE, 12, false, "-", "no rates");
	if (top_table_put(&model.tables[TOP_FUNCTIONS], &hits_only, 1, second, NULL))
		abort();
	json = top_model_json(&model);
	row = json_array_get(json_object_get(json, "functions"), 0);
	ok(json_is_null(json_object_get(row, "mean_ns")) &&
		   json_is_null(json_object_get(row, "max_ns")) &&
		   json_integer_value(json_object_get(row, "calls")) == 5,
	   "a function whose calls are not timed has no times");
	json_decref(json);
	top_model_deinit(&model);
}

int main(void)
{
	test_rates();
	test_order();
	test_json();
	test_chains();
	test_texts();
	return tap_done();
}
