/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/groups/groups.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum { LABEL = 14 };

/* --- one side -------------------------------------------------------------------------------- */

/* Groups of one trace. An analysis of its own, as each side has a pass of its own. */
struct side {
	struct analysis base;
	struct replay replay;
	struct groups *groups;
};

static int change(struct analysis *base, const struct heap_change *change)
{
	struct side *side = (struct side *)base;

	if (!side->groups)
		side->groups = groups_create(&side->base.options.by, side->replay.heap,
					     trace_reader_sidecar(side->replay.reader));
	if (!side->groups)
		return -ENOMEM;
	return change->object ? groups_add(side->groups, change, side->replay.in_window) : 0;
}

static const struct analysis_ops side_ops = {.change = change};

/* Returns an exit status plus one, or 0. */
static int read_side(const char *verb, struct side *side, const char *dir,
		     const struct replay_view *view)
{
	struct analysis *analyses[] = {&side->base};
	struct error err;

	side->base.ops = &side_ops;
	side->base.replay = &side->replay;
	if (replay_open(&side->replay, dir, view, &err))
		return 1 + cli_error(verb, &err);
	if (replay_select(&side->replay, &err))
		return 1 + cli_usage(verb, "%s", err.text);
	if (!analysis_check(&side_ops, &side->replay, &err) &&
	    !replay_run(&side->replay, analyses, 1, &err))
		return 0;
	error_prefix(&err, "%s: ", dir);
	return 1 + cli_error(verb, &err);
}

/* --- both ------------------------------------------------------------------------------------ */

/* What has the same name on both sides. Addresses differ from boot to boot. */
struct pair {
	char *name;
	uint64_t hits[2], live[2], allocated[2];
	double rates[2];  /* allocations per second */
	double sigmas;    /* of the difference of rates, if allocations come at random */
	double live_diff; /* bytes, B less A */
	bool is_significant;
};

struct diff {
	struct side sides[2];
	struct pair *pairs;
	size_t n, room;
};

/* "symbol+0x1f", without the size of the function, which may differ between builds. */
static struct text name_of(const struct side *side, const struct group *group)
{
	struct text name = groups_text(side->groups, group);
	char *slash = side->base.options.by.by[0] == BY_CALLSITE ? strchr(name.s, '/') : NULL;

	if (slash)
		memmove(slash, slash + strcspn(slash, " "),
			strlen(slash + strcspn(slash, " ")) + 1);
	return name;
}

static struct pair *add_pair(struct diff *diff, const char *name)
{
	if (diff->n == diff->room) {
		size_t room = diff->room ? 2 * diff->room : 256;
		struct pair *bigger = reallocarray(diff->pairs, room, sizeof(*bigger));

		if (!bigger)
			return NULL;
		diff->pairs = bigger;
		diff->room = room;
	}
	diff->pairs[diff->n] = (struct pair){.name = strdup(name)};
	return diff->pairs[diff->n].name ? &diff->pairs[diff->n++] : NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct pair *)a)->name, ((const struct pair *)b)->name);
}

static int add_side(struct diff *diff, int index)
{
	const struct side *side = &diff->sides[index];

	for (size_t i = 0; side->groups && i < groups_count(side->groups); i++) {
		const struct group *group = groups_get(side->groups, i);
		struct pair *pair;

		if (group->role != HEAP_PLAIN)
			continue;
		pair = add_pair(diff, name_of(side, group).s);
		if (!pair)
			return -ENOMEM;
		pair->hits[index] = group->hits;
		pair->live[index] = group->live_bytes;
		pair->allocated[index] = group->allocated;
	}
	return 0;
}

/* Those with the same name become one. */
static void merge_pairs(struct diff *diff)
{
	size_t kept = 0;

	if (diff->n)
		qsort(diff->pairs, diff->n, sizeof(*diff->pairs), compare_names);
	for (size_t i = 0; i < diff->n; i++) {
		struct pair *from = &diff->pairs[i], *to = kept ? &diff->pairs[kept - 1] : NULL;

		if (!to || strcmp(to->name, from->name)) {
			diff->pairs[kept++] = *from;
			continue;
		}
		for (int side = 0; side < 2; side++) {
			to->hits[side] += from->hits[side];
			to->live[side] += from->live[side];
			to->allocated[side] += from->allocated[side];
		}
		free(from->name);
	}
	diff->n = kept;
}

static double seconds_of(const struct diff *diff, int side)
{
	return (double)replay_duration_ns(&diff->sides[side].replay) / 1e9;
}

/* A difference of rates is significant beyond three standard deviations of counts at random, one of
 * live bytes from a part of all on. */
static void weigh(const struct diff *diff, struct pair *pair)
{
	const double least_sigmas = 3, least_share = 0.01, least_ratio = 0.1;
	double variance = 0, greater, all = 1;

	for (int side = 0; side < 2; side++) {
		double seconds = seconds_of(diff, side);

		if (seconds > 0) {
			pair->rates[side] = (double)pair->hits[side] / seconds;
			variance += (double)(pair->hits[side] + 1) / (seconds * seconds);
		}
		all += (double)heap_live_bytes(diff->sides[side].replay.heap) / 2;
	}
	pair->live_diff = (double)pair->live[1] - (double)pair->live[0];
	pair->sigmas = variance > 0 ? (pair->rates[1] - pair->rates[0]) / sqrt(variance) : 0;
	greater = pair->rates[0] > pair->rates[1] ? pair->rates[0] : pair->rates[1];
	pair->is_significant = fabs(pair->live_diff) > least_share * all ||
			       (fabs(pair->sigmas) > least_sigmas &&
				fabs(pair->rates[1] - pair->rates[0]) > least_ratio * greater);
}

static int compare_weights(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	double dx = fabs(x->live_diff), dy = fabs(y->live_diff);

	if (x->is_significant != y->is_significant)
		return x->is_significant ? -1 : 1;
	if (dx != dy)
		return dx < dy ? 1 : -1;
	dx = fabs(x->sigmas);
	dy = fabs(y->sigmas);
	return dx != dy ? (dx < dy ? 1 : -1) : strcmp(x->name, y->name);
}

static int compare_sides(struct diff *diff)
{
	for (int i = 0; i < 2; i++) {
		if (add_side(diff, i))
			return -ENOMEM;
	}
	merge_pairs(diff);
	for (size_t i = 0; i < diff->n; i++)
		weigh(diff, &diff->pairs[i]);
	if (diff->n)
		qsort(diff->pairs, diff->n, sizeof(*diff->pairs), compare_weights);
	return 0;
}

/* --- output ---------------------------------------------------------------------------------- */

/* "+1.2 MiB" */
static struct text signed_bytes(double bytes)
{
	struct text out;

	snprintf(out.s, sizeof(out.s), "%s%.32s",
		 bytes < 0   ? "-"
		 : bytes > 0 ? "+"
			     : "",
		 text_bytes(whole_number(fabs(bytes))).s);
	return out;
}

static void add_row(struct table *table, const struct pair *pair)
{
	char cell[32];

	table_add_cell(table, signed_bytes(pair->live_diff).s);
	table_add_cell(table, pair->name);
	for (int side = 0; side < 2; side++)
		table_add_cell(table, text_bytes(pair->live[side]).s);
	for (int side = 0; side < 2; side++) {
		snprintf(cell, sizeof(cell), "%.1f", pair->rates[side]);
		table_add_cell(table, cell);
	}
	snprintf(cell, sizeof(cell), "%+.1f", pair->sigmas);
	table_add_cell(table, cell);
}

static void print_head(FILE *out, const struct diff *diff, int i)
{
	const struct replay *replay = &diff->sides[i].replay;
	double seconds = seconds_of(diff, i);

	fprintf(out, "%-*s%s, %s, %.3f s, ", LABEL, i ? "B" : "A",
		text_number(replay->records, "record").s,
		text_number(trace_reader_nr_vcpus(replay->reader), "vCPU").s, seconds);
	fprintf(out, "%s per second; %s live\n",
		text_count(seconds > 0 ? whole_number((double)replay->records / seconds) : 0).s,
		text_bytes(heap_live_bytes(replay->heap)).s);
	text_print_losses(out, replay->reader, LABEL);
	replay_print_bound(replay, out, LABEL);
}

static size_t count_shown(const struct diff *diff, const struct diff_options *options)
{
	size_t n = 0;

	while (n < diff->n && diff->pairs[n].is_significant && (!options->top || n < options->top))
		n++;
	return n;
}

static void print_table(FILE *out, const struct diff *diff, size_t n)
{
	static const char *const titles[] = {"LIVE A", "LIVE B", "ALLOCS/S A", "ALLOCS/S B",
					     "SIGMA"};
	struct table *table = table_create();

	if (!table)
		return;
	table_add_column(table, "CHANGE", false);
	table_add_column(table, dimension_titles[diff->sides[0].base.options.by.by[0]], true);
	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		table_add_column(table, titles[i], false);
	for (size_t i = 0; i < n; i++)
		add_row(table, &diff->pairs[i]);
	fputc('\n', out);
	table_print(table, out);
	table_destroy(table);
}

static void print_text(FILE *out, const struct diff *diff, const struct diff_options *options)
{
	size_t n = count_shown(diff, options), all = 0;

	for (int i = 0; i < 2; i++)
		print_head(out, diff, i);
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
	json_t *root = json_pack("{si}", "version", 1), *array = json_array();

	for (int i = 0; i < 2; i++) {
		const struct replay *replay = &diff->sides[i].replay;
		json_t *side =
			json_pack("{so so so}", "records", json_from_count(replay->records),
				  "duration_ns", json_from_count(replay_duration_ns(replay)),
				  "live_bytes", json_from_count(heap_live_bytes(replay->heap)));

		replay_put_json(replay, side);
		json_object_set_new(root, keys[i], side);
	}
	for (size_t i = 0; i < diff->n && (!options->top || i < options->top); i++)
		json_array_append_new(array, pair_json(&diff->pairs[i]));
	json_object_set_new(root, "changes", array);
	return root;
}

static void destroy(struct diff *diff)
{
	for (int i = 0; i < 2; i++) {
		groups_destroy(diff->sides[i].groups);
		replay_close(&diff->sides[i].replay);
	}
	for (size_t i = 0; i < diff->n; i++)
		free(diff->pairs[i].name);
	free(diff->pairs);
}

/* Returns an exit status. */
static int compare(const char *verb, struct diff *diff, const struct replay_view views[2],
		   const struct diff_options *options)
{
	struct error err;

	for (int i = 0; i < 2; i++) {
		int ret;

		diff->sides[i].base.options.by =
			(struct grouping){{(enum dimension)options->by}, 1};
		ret = read_side(verb, &diff->sides[i], options->dirs[i], &views[i]);
		if (ret)
			return ret - 1;
	}
	if (!compare_sides(diff))
		return CLI_OK;
	error_set(&err, ENOMEM, "out of memory");
	return cli_error(verb, &err);
}

int diff_show(const char *verb, const struct replay_view views[2],
	      const struct diff_options *options, bool json)
{
	struct diff diff = {0};
	int ret = compare(verb, &diff, views, options);

	if (!ret && json) {
		ret = text_print_json(verb, diff_json(&diff, options));
	} else if (!ret) {
		print_text(stdout, &diff, options);
		ret = cli_flush(verb);
	}
	destroy(&diff);
	return ret;
}

int diff_json_of(const char *verb, const struct replay_view views[2],
		 const struct diff_options *options, json_t **out)
{
	struct diff diff = {0};
	int ret = compare(verb, &diff, views, options);

	*out = ret ? NULL : diff_json(&diff, options);
	destroy(&diff);
	return ret;
}
