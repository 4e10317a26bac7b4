/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is still live at the end, and whether it looks like a leak. */
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/command.h"
#include "formats/report/since-init.h"
#include "formats/analysis/sites.h"
#include "formats/analysis/survivors.h"
#include "formats/base/json.h"
#include "formats/report/parts.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum { LABEL = 14, SITE_COLUMN = 1, BORN_COLUMN = 6 };

struct leaks {
	struct analysis base;
	struct survivors *all; /* when finished */
	size_t n;
};

static void deinit(struct analysis *base)
{
	struct leaks *l = (struct leaks *)base;

	free(l->all);
}

static int finish(struct analysis *base)
{
	struct leaks *l = (struct leaks *)base;

	free(l->all);
	l->all = NULL;
	return survivors_find(l->base.replay->sites, base->options.older_ns, &l->all, &l->n);
}

/* --- text ------------------------------------------------------------------------------------ */

static const struct site *site_of(const struct leaks *l, const struct survivors *s)
{
	return &l->base.replay->sites->all[s->origin];
}

static double mean_age_ns(const struct survivors *s)
{
	return s->aged_objects ? s->ages_ns / (double)s->aged_objects : 0;
}

/* On a narrow terminal, two parts of the time are one. */
static struct sparkline births_of(const struct survivors *s, bool is_narrow)
{
	uint64_t halves[SURVIVOR_PARTS / 2];

	if (!is_narrow)
		return sparkline(s->births, SURVIVOR_PARTS);
	for (size_t i = 0; i < SURVIVOR_PARTS / 2; i++)
		halves[i] = s->births[2 * i] + s->births[2 * i + 1];
	return sparkline(halves, SURVIVOR_PARTS / 2);
}

/* What goes by live memory over time says nothing where frees are missing. */
static bool is_known(const struct survivors *s)
{
	return s->verdict != VERDICT_UNKNOWN;
}

static void add_row(struct table *table, const struct leaks *l, const struct survivors *s,
		    const struct text *name, bool is_narrow)
{
	const struct course_trend trend = site_trend(l->base.replay->sites, site_of(l, s));
	char cells[3][32];

	snprintf(cells[0], sizeof(cells[0]), "%.2f", s->evenness);
	snprintf(cells[1], sizeof(cells[1]), "%.2f", site_freed_percent(site_of(l, s)));
	snprintf(cells[2], sizeof(cells[2]), "%.2f", trend.confidence);
	table_add_cell(table, text_bytes(s->aged_bytes).s);
	table_add_cell(table, name->s);
	if (sites_have_source(l->base.replay->sites))
		table_add_cell(table, site_source_text(l->base.replay->sites, s->origin).s);
	table_add_cell(table, verdict_name(s->verdict));
	table_add_cell(table, measure_duration(mean_age_ns(s)).s);
	table_add_cell(table, is_known(s) ? text_signed_bytes(trend.per_s).s : "-");
	table_add_cell(table, is_known(s) ? cells[2] : "-");
	table_add_cell(table, births_of(s, is_narrow).s);
	table_add_cell(table, is_known(s) ? text_bytes((uint64_t)s->per_s).s : "-");
	table_add_cell(table, is_known(s) ? cells[0] : "-");
	table_add_cell(table, is_known(s) ? text_bytes(whole_number(trend.per_s_error)).s : "-");
	table_add_cell(table, text_count(s->aged_objects).s);
	table_add_cell(table, text_count(s->old_objects).s);
	table_add_cell(table, cells[1]);
}

static bool is_shown(const struct leaks *l, size_t i)
{
	size_t top = l->base.options.top;

	return (l->all[i].verdict <= VERDICT_GROWS || l->base.options.verbose) && (!top || i < top);
}

/* Without memory for the origins, texts of one call site are alike. */
static void add_rows(struct table *table, const struct leaks *l, bool is_narrow)
{
	const struct sites *sites = l->base.replay->sites;
	uint32_t *origins = malloc((l->n + 1) * sizeof(*origins));
	size_t n = 0, sorted;

	for (; n < l->n && is_shown(l, n); n++)
		if (origins)
			origins[n] = l->all[n].origin;
	sorted = origins ? n : 0;
	sites_sort_by_call_site(sites, origins, sorted);
	for (size_t i = 0; i < n; i++) {
		const struct survivors *s = &l->all[i];
		struct text name = site_text_among_sorted(sites, s->origin, origins, sorted);

		add_row(table, l, s, &name, is_narrow);
	}
	free(origins);
}

static void print_table(FILE *out, const struct leaks *l)
{
	static const struct {
		const char *title;
		bool is_name;
	} columns[] = {{"LIVE", false},   {"CALL SITE", true}, {"VERDICT", true},
		       {"AGE", false},    {"GROWS/S", false},  {"R2", false},
		       {"BORN", true},    {"STAYS/S", false},  {"EVEN", false},
		       {"+-", false},     {"OBJECTS", false},  {"OLD", false},
		       {"FREED %", false}};
	const bool is_narrow = terminal_is_narrow(out);
	struct table *table = table_create();

	if (!table)
		return;
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		table_add_column(table, columns[i].title, columns[i].is_name);
		if (i == BORN_COLUMN)
			table_need_columns(table);
		if (i == SITE_COLUMN && sites_have_source(l->base.replay->sites))
			table_add_column(table, "SOURCE", true);
	}
	add_rows(table, l, is_narrow);
	if (l->n && is_shown(l, 0)) {
		fputc('\n', out);
		table_print(table, out);
	}
	table_destroy(table);
}

/* Sites and bytes of each verdict. */
static void print_verdicts(FILE *out, const struct leaks *l)
{
	static const char *const meanings[] = {
		[VERDICT_LEAK] = "most are freed, but some of any time stay",
		[VERDICT_GROWS] = "most stay, and more comes all the time",
		[VERDICT_RECLAIM] = "grows too, but the guest can shrink it",
		[VERDICT_SETTLED] = "came early, and no more does",
		[VERDICT_RECENT] = "came lately, and may yet be freed",
		[VERDICT_UNCLEAR] = "the rest",
		[VERDICT_UNKNOWN] = "frees are missing: what is live may have been freed",
	};

	for (enum verdict verdict = 0; verdict < NR_VERDICTS; verdict++) {
		uint64_t sites = 0, bytes = 0;

		for (size_t i = 0; i < l->n; i++) {
			sites += l->all[i].verdict == verdict;
			bytes += l->all[i].verdict == verdict ? l->all[i].aged_bytes : 0;
		}
		if (sites || verdict != VERDICT_UNKNOWN)
			fprintf(out, "  %-*s%6s, %11s  %s\n", LABEL - 2, verdict_name(verdict),
				text_count(sites).s, text_bytes(bytes).s, meanings[verdict]);
	}
}

/* Whether the window begins with the guest's boot, in which what leaks later does not grow, and
 * goes on to where that can be left out. */
static bool has_boot(const struct replay *replay)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);

	return replay_is_from_first(replay) && !replay_has_chosen_time(replay) &&
	       since_init_is_known(sidecar);
}

/* The objects of the first call site: those that count as old, which there are. */
static void print_objects(FILE *out, const struct leaks *l)
{
	const struct survivors *s = &l->all[0];
	const struct replay *replay = l->base.replay;
	const struct heap_origin *origin = heap_origin(replay->heap, s->origin);
	const int64_t wanted_ns = l->base.options.older_ns;
	char filter[800];
	struct command command = {.verb = "report --by pointer",
				  .filter = filter,
				  .older_ns =
					  wanted_ns > s->old_age_ns ? wanted_ns : s->old_age_ns};

	snprintf(filter, sizeof(filter), "call_site.function == \"%s\"",
		 sidecar_function_text(trace_reader_sidecar(replay->reader), origin->call_site).s);
	fprintf(out, "\n%-*s", LABEL, "Next");
	command_print(out, replay, &command, l->base.options.dir);
	fputc('\n', out);
}

/* Of some call sites it is not known whether they leak: they are the last ones. */
static bool has_unknown(const struct leaks *l)
{
	return !is_known(&l->all[l->n - 1]);
}

static bool says_nothing_of_boot(const struct leaks *l)
{
	return survivors_are_short(l->base.replay->sites) || has_unknown(l);
}

static bool says_nothing_of_leaks(const struct leaks *l)
{
	return !l->base.replay->records || survivors_lack_init(l->base.replay->sites) ||
	       has_unknown(l);
}

/* The command that shows the objects of what leaks, or more call sites. */
static void print_next(FILE *out, const struct leaks *l)
{
	const struct replay *replay = l->base.replay;
	struct command command = {.older_ns = l->base.options.older_ns};
	const char *behind;

	if (l->all[0].verdict <= VERDICT_GROWS) {
		print_objects(out, l);
		return;
	}
	if (has_boot(replay)) {
		command.verb = "leaks --since init";
		behind = says_nothing_of_boot(l)
				 ? "leaves the boot out"
				 : "leaves the boot out, from which on nothing grows";
	} else if (!l->base.options.verbose) {
		command.verb = "leaks --verbose";
		behind = says_nothing_of_leaks(l) ? "shows all"
						  : "shows all, of which nothing leaks";
	} else {
		return;
	}
	fprintf(out, "%-*s", LABEL, "Next");
	command_print(out, replay, &command, l->base.options.dir);
	fputc('\n', out);
	line_print(out, LABEL, "", "%s", behind);
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct leaks *l = (const struct leaks *)base;
	const struct replay *replay = base->replay;

	replay_print_head(replay, out, LABEL);
	fprintf(out, "%-*s%s with %s\n", LABEL, "Call sites", text_count(l->n).s,
		replay_lacks_frees(replay) ? "memory that was not seen to be freed"
					   : "live memory at the end");
	print_verdicts(out, l);
	if (replay_lacks_frees(replay))
		line_print(out, LABEL, "Frees", "may not have been recorded: no verdicts");
	else if (survivors_are_short(replay->sites))
		line_print(out, LABEL, "Time", "too short to tell what only grows: that takes %s",
			   survivors_time_text(replay->sites));
	else if (survivors_lack_init(replay->sites))
		line_print(out, LABEL, "Init",
			   "nothing says when it began: the verdicts are of the boot, too");
	sites_print_limit(l->base.replay->sites, out, LABEL);
	replay_print_losses(replay, out, LABEL);
	replay_print_bound(replay, out, LABEL);
	print_table(out, l);
	if (l->n)
		print_next(out, l);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *number_if(bool is_there, json_t *value)
{
	if (is_there)
		return value;
	json_decref(value);
	return json_null();
}

/* The straight line through the live bytes. */
static int put_trend(const struct leaks *l, const struct survivors *s, json_t *item)
{
	const struct course_trend trend = site_trend(l->base.replay->sites, site_of(l, s));

	const bool known = is_known(s);

	return json_object_set_new(item, "growth_per_second",
				   number_if(known, json_real(trend.per_s))) |
	       json_object_set_new(item, "growth_error_per_second",
				   number_if(known, json_real(trend.per_s_error))) |
	       json_object_set_new(item, "growth_r2",
				   number_if(known, json_real(trend.confidence)));
}

static json_t *site_of_json(const struct leaks *l, const struct survivors *s)
{
	json_t *item = site_json(l->base.replay->sites, s->origin), *births = json_array();
	int failed = json_object_set_new(item, "verdict", json_string(verdict_name(s->verdict)));

	for (size_t i = 0; i < SURVIVOR_PARTS; i++)
		json_array_append_new(births, json_from_count(s->births[i]));
	failed |= json_object_set_new(item, "live_bytes", json_from_count(s->aged_bytes));
	failed |= json_object_set_new(item, "live_objects", json_from_count(s->aged_objects));
	failed |= json_object_set_new(item, "mean_age_ns",
				      json_from_count(whole_number(mean_age_ns(s))));
	failed |= json_object_set_new(item, "old_objects", json_from_count(s->old_objects));
	failed |= json_object_set_new(item, "old_bytes", json_from_count(s->old_bytes));
	failed |= json_object_set_new(item, "bytes_per_second",
				      number_if(is_known(s), json_from_count((uint64_t)s->per_s)));
	failed |= json_object_set_new(item, "evenness",
				      number_if(is_known(s), json_real(s->evenness)));
	failed |= put_trend(l, s, item);
	failed |= json_object_set_new(item, "freed_percent",
				      json_real(site_freed_percent(site_of(l, s))));
	if (!(failed | json_object_set_new(item, "births", births)))
		return item;
	json_decref(item);
	return NULL;
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct leaks *l = (const struct leaks *)base;
	json_t *array = json_array();
	size_t top = base->options.top;
	int failed = replay_put_json(base->replay, root);

	failed |= sites_put_limit(l->base.replay->sites, root);
	for (size_t i = 0; i < l->n && (!top || i < top); i++)
		failed |= json_array_append_new(array, site_of_json(l, &l->all[i]));
	failed |= json_object_set_new(root, "records", json_from_count(base->replay->records));
	failed |= json_object_set_new(root, "duration_ns",
				      json_from_count(replay_duration_ns(base->replay)));
	return failed | json_object_set_new(root, "call_sites", array);
}

const struct analysis_ops leaks_analysis = {
	.about = "what is live, and whether it looks like a leak",
	.size = sizeof(struct leaks),
	.sites = true,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.deinit = deinit,
};
