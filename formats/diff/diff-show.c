/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A comparison as text and JSON. */
#include <math.h>
#include <string.h>
#include "formats/diff/diff-internal.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/report/parts.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum { LABEL = 14 };

static bool has_source(const struct diff *diff)
{
	bool has = false;

	for (int i = 0; i < 2; i++)
		has |= diff->sides[i].groups && groups_have_source(diff->sides[i].groups);
	return has;
}

/* As sonde report writes it, but for sizes of functions that differ. */
static const char *text_of(const struct pair *pair)
{
	return pair->full ? pair->full : pair->name;
}

static void add_row(struct table *table, const struct diff *diff, const struct pair *pair)
{
	char cell[32];

	table_add_cell(table, text_signed_bytes(pair->live_diff).s);
	table_add_cell(table, text_of(pair));
	if (has_source(diff))
		table_add_cell(table, pair->source ? pair->source : "");
	for (int side = 0; side < 2; side++)
		table_add_cell(table, text_bytes(pair->live[side]).s);
	snprintf(cell, sizeof(cell), "%+.1f", pair->sigmas);
	table_add_cell(table, cell);
	for (int side = 0; side < 2; side++) {
		snprintf(cell, sizeof(cell), "%.1f", pair->rates[side]);
		table_add_cell(table, cell);
	}
}

static void print_head(FILE *out, const struct diff *diff, int i)
{
	const struct replay *replay = &diff->sides[i].replay;
	double seconds = diff_seconds(diff, i);
	struct parts parts = {.n = 0};

	parts_add(&parts, "%s", text_number(replay->records, "record").s);
	parts_add(&parts, "%s", text_number(trace_reader_nr_vcpus(replay->reader), "vCPU").s);
	parts_add(&parts, "%s s", text_clock_before((int64_t)replay_duration_ns(replay)).s);
	if (replay->records)
		parts_add(&parts, "from %s to %s s", text_clock_before(replay->span.begin_ns).s,
			  text_clock_after(replay->span.end_ns).s);
	parts_add(&parts, "%s per second",
		  text_count(seconds > 0 ? whole_number((double)replay->records / seconds) : 0).s);
	parts_add(&parts, "%s live", text_bytes(diff->sides[i].live_bytes).s);
	parts_print(&parts, out, i ? "B" : "A", LABEL);
	text_print_losses(out, replay->reader, LABEL);
	replay_print_share(replay, out, LABEL);
	replay_print_bound(replay, out, LABEL);
}

static void print_chains(FILE *out, const struct diff *diff)
{
	if (diff->without_chains >= 0)
		fprintf(out, "%-*sas recorded, as %c has no call chains to charge callers by\n",
			LABEL, "Call sites", "AB"[diff->without_chains]);
}

/* "6.1.0-37-amd64": of "Linux version 6.1.0-37-amd64 (debian-kernel@...". */
static struct text release_of(const struct sidecar *sidecar)
{
	static const char begin[] = "Linux version ";
	const char *banner = sidecar ? sidecar->info.banner : "";
	struct text out = {""};

	if (!strncmp(banner, begin, sizeof(begin) - 1))
		snprintf(out.s, sizeof(out.s), "%.*s",
			 (int)strcspn(banner + sizeof(begin) - 1, " "), banner + sizeof(begin) - 1);
	return out;
}

/* Of another kernel the same call has another offset. */
static void print_kernels(FILE *out, const struct diff *diff)
{
	const struct grouping *by = &diff->sides[0].base.options.by;
	struct text releases[2];
	bool by_site = false;

	for (int i = 0; i < 2; i++) {
		releases[i] = release_of(trace_reader_sidecar(diff->sides[i].replay.reader));
		if (!*releases[i].s)
			return;
	}
	for (size_t i = 0; i < by->n; i++)
		by_site |= by->by[i] == BY_CALLSITE;
	if (by_site && diff_has_two_kernels(diff))
		fprintf(out,
			"%-*s%s and %s%s have other offsets;\n%*s--by function compares them\n",
			LABEL, "Kernels", releases[0].s, releases[1].s,
			strcmp(releases[0].s, releases[1].s) ? "" : " of another build", LABEL, "");
}

static size_t count_shown(const struct diff *diff, const struct diff_options *options)
{
	size_t n = 0;

	while (n < diff->n && diff->pairs[n].is_significant && (!options->top || n < options->top))
		n++;
	return n;
}

/* "CACHE, CALL SITE" */
static struct text title_of(const struct grouping *by)
{
	struct text title;
	size_t used = 0;

	for (size_t i = 0; i < by->n; i++)
		used += (size_t)snprintf(title.s + used, sizeof(title.s) - used, "%s%s",
					 i ? ", " : "", dimension_titles[by->by[i]]);
	return title;
}

static void print_table(FILE *out, const struct diff *diff, size_t n)
{
	static const char *const titles[] = {"LIVE A", "LIVE B", "SIGMA", "RATE A", "RATE B"};
	struct table *table = table_create();

	if (!table)
		return;
	table_add_column(table, "CHANGE", false);
	table_add_column(table, title_of(&diff->sides[0].base.options.by).s, true);
	if (has_source(diff))
		table_add_column(table, "SOURCE", true);
	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		table_add_column(table, titles[i], false);
	table_need_columns(table);
	for (size_t i = 0; i < n; i++)
		add_row(table, diff, &diff->pairs[i]);
	fputc('\n', out);
	table_print(table, out);
	table_destroy(table);
}

static void print_text(FILE *out, const struct diff *diff, const struct diff_options *options)
{
	size_t n = count_shown(diff, options), all = 0;

	for (int i = 0; i < 2; i++)
		print_head(out, diff, i);
	print_kernels(out, diff);
	print_chains(out, diff);
	while (all < diff->n && diff->pairs[all].is_significant)
		all++;
	fprintf(out, "%-*s%s of %s are significant\n", LABEL, "Changes", text_count(all).s,
		text_count(diff->n).s);
	if (n)
		print_table(out, diff, n);
	if (n < all)
		fprintf(out, "%s more; --top 0 shows all\n", text_count(all - n).s);
}

static json_t *pair_json(const struct pair *pair)
{
	json_t *item = json_pack("{so sf sb}", "name", json_from_text(pair->name), "sigma",
				 pair->sigmas, "significant", pair->is_significant);
	static const char *const keys[] = {"a", "b"};

	json_object_set_new(item, "text", json_from_text(text_of(pair)));
	if (pair->source)
		json_object_set_new(item, "source", json_string(pair->source));
	for (int side = 0; side < 2; side++)
		json_object_set_new(item, keys[side],
				    json_pack("{so so so sf}", "hits",
					      json_from_count(pair->hits[side]), "live_bytes",
					      json_from_count(pair->live[side]), "bytes_allocated",
					      json_from_count(pair->allocated[side]),
					      "allocs_per_second", pair->rates[side]));
	return item;
}

static json_t *diff_json(const struct diff *diff, const struct diff_options *options)
{
	static const char *const keys[] = {"a", "b"};
	json_t *root = json_pack("{si sb}", "version", 1, "call_chains_ignored",
				 diff->without_chains >= 0),
	       *array = json_array();

	for (int i = 0; i < 2; i++) {
		const struct replay *replay = &diff->sides[i].replay;
		json_t *side = json_pack("{so so so}", "records", json_from_count(replay->records),
					 "duration_ns", json_from_count(replay_duration_ns(replay)),
					 "live_bytes", json_from_count(diff->sides[i].live_bytes));

		text_json_losses(side, replay->reader);
		replay_put_json(replay, side);
		replay_put_origin(replay, side);
		json_object_set_new(root, keys[i], side);
	}
	for (size_t i = 0; i < diff->n && (!options->top || i < options->top); i++)
		json_array_append_new(array, pair_json(&diff->pairs[i]));
	json_object_set_new(root, "changes", array);
	return root;
}

int diff_show(const char *verb, const struct replay_view views[2],
	      const struct diff_options *options, bool json)
{
	struct diff diff = {0};
	int ret = diff_compare(verb, &diff, views, options);

	if (!ret && json) {
		ret = text_print_json(verb, diff_json(&diff, options));
	} else if (!ret) {
		print_text(stdout, &diff, options);
		ret = cli_flush(verb);
	}
	diff_destroy(&diff);
	return ret;
}

int diff_json_of(const char *verb, const struct replay_view views[2],
		 const struct diff_options *options, json_t **out)
{
	struct diff diff = {0};
	int ret = diff_compare(verb, &diff, views, options);

	*out = ret ? NULL : diff_json(&diff, options);
	diff_destroy(&diff);
	return ret;
}
