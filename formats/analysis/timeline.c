/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Live bytes over time, by what pages are used for and by call site; the peak, and what made it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/sites.h"
#include "formats/base/json.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"

enum {
	STEPS = 16 * TIMELINE_MAX_ROWS,
	LABEL = 14,
	DEFAULT_ROWS = 20,
	MAX_SITES = 32,
	BAR = 24,
	NARROW_BAR = 12
};

/* What is drawn: all live bytes, and their parts. */
enum part { ALL, SLABS, OBJECTS, OTHERS, LARGE, OUTSIDE, NR_PARTS };

static const char *const part_titles[] = {
	[ALL] = "LIVE",    [SLABS] = "SLABS",   [OBJECTS] = "OBJECTS",
	[LARGE] = "LARGE", [OTHERS] = "OTHERS", [OUTSIDE] = "OUTSIDE"};
static const char *const part_keys[] = {
	[ALL] = "live_bytes",    [SLABS] = "slab_bytes",   [OBJECTS] = "object_bytes",
	[LARGE] = "large_bytes", [OTHERS] = "other_bytes", [OUTSIDE] = "outside_bytes"};

struct timeline {
	struct analysis base;
	struct course parts[NR_PARTS]; /* without steps: no record yet */
	uint64_t peak_bytes;
	int64_t peak_ns;
	uint32_t top[MAX_SITES]; /* origins with most bytes at the peak */
	size_t nr_top;
};

static void deinit(struct analysis *base)
{
	struct timeline *t = (struct timeline *)base;

	for (int i = 0; i < NR_PARTS; i++)
		course_deinit(&t->parts[i]);
}

static uint64_t value(const struct timeline *t, enum part part)
{
	const struct replay *replay = t->base.replay;
	const struct heap_totals *totals = heap_totals(replay->heap);

	switch (part) {
	case ALL:
		return sites_live_bytes(t->base.replay->sites);
	case SLABS:
		return totals->pages[HEAP_SLAB].bytes;
	case OBJECTS:
		return totals->objects[HEAP_IN_SLAB].bytes;
	case LARGE:
		return totals->pages[HEAP_LARGE].bytes;
	case OTHERS:
		return totals->pages[HEAP_PLAIN].bytes;
	case OUTSIDE:
		return totals->objects[HEAP_OUTSIDE].bytes;
	case NR_PARTS:
		break;
	}
	return 0;
}

static int change(struct analysis *base, const struct heap_change *change)
{
	struct timeline *t = (struct timeline *)base;
	const struct replay *replay = base->replay;

	if (!change->object || !replay->in_window)
		return 0;
	for (enum part part = 0; part < NR_PARTS; part++) {
		struct course *course = &t->parts[part];

		if (!course->steps && course_init_small(course, STEPS, replay->span.begin_ns))
			return -ENOMEM;
		course_put(course, change->record->timestamp, value(t, part));
	}
	if (value(t, ALL) > t->peak_bytes) {
		t->peak_bytes = value(t, ALL);
		t->peak_ns = change->record->timestamp;
		sites_note_peak(t->base.replay->sites);
	}
	return 0;
}

static double at_peak(const struct sites *sites, const struct site *site)
{
	return (double)site_at_peak(sites, site);
}

/* What is live now is what the window begins with. */
static int begin_window(struct analysis *base)
{
	struct timeline *t = (struct timeline *)base;
	const int64_t begin_ns = base->replay->span.begin_ns;

	for (enum part part = 0; part < NR_PARTS; part++) {
		course_deinit(&t->parts[part]);
		if (course_init_small(&t->parts[part], STEPS, begin_ns))
			return -ENOMEM;
		course_put(&t->parts[part], begin_ns, value(t, part));
	}
	t->peak_bytes = value(t, ALL);
	t->peak_ns = begin_ns;
	sites_note_peak(base->replay->sites);
	return 0;
}

static int finish(struct analysis *base)
{
	struct timeline *t = (struct timeline *)base;

	/* of a window in which nothing changes, that is the course */
	if (!t->parts[ALL].steps && base->replay->records && begin_window(base))
		return -ENOMEM;
	t->nr_top = sites_top(t->base.replay->sites, at_peak, t->top, MAX_SITES);
	return 0;
}

/* --- text ------------------------------------------------------------------------------------ */

/* Only that is known of a selection. */
static enum part last_part(const struct timeline *t)
{
	return t->base.replay->selects ? ALL : OUTSIDE;
}

static void add_bar(struct table *table, uint64_t bytes, uint64_t most, size_t width)
{
	char bar[BAR + 1];
	size_t n = most ? (size_t)((double)bytes / (double)most * (double)width + 0.5) : 0;

	memset(bar, '#', sizeof(bar));
	bar[n < width ? n : width] = '\0';
	table_add_cell(table, bar);
}

/* On the trace clock. All courses have the same steps. */
static int64_t row_end_ns(const struct timeline *t, size_t i, size_t rows)
{
	return course_part_end(&t->parts[ALL], t->base.replay->span.end_ns, i, rows);
}

static void add_rows(struct table *table, const struct timeline *t, size_t rows, size_t bar)
{
	struct course_step steps[NR_PARTS][TIMELINE_MAX_ROWS];
	const struct replay *replay = t->base.replay;

	for (enum part part = 0; part < NR_PARTS; part++)
		course_resample(&t->parts[part], replay->span.end_ns, steps[part], rows);
	for (size_t i = 0; i < rows; i++) {
		char time[32];

		snprintf(time, sizeof(time), "%.3f", (double)row_end_ns(t, i, rows) / 1e9);
		table_add_cell(table, time);
		add_bar(table, steps[ALL][i].last, t->peak_bytes, bar);
		for (enum part part = 0; part <= last_part(t); part++)
			table_add_cell(table, text_bytes(steps[part][i].last).s);
	}
}

static size_t count_rows(const struct timeline *t)
{
	const size_t top = t->base.options.top;

	/* the trace has nothing of the time that was chosen */
	if (!t->base.replay->records && !replay_duration_ns(t->base.replay))
		return 1;
	return !top ? DEFAULT_ROWS : top < TIMELINE_MAX_ROWS ? top : TIMELINE_MAX_ROWS;
}

static void print_rows(FILE *out, const struct timeline *t)
{
	size_t rows = count_rows(t);
	struct table *table = t->parts[ALL].steps ? table_create() : NULL;

	if (!table)
		return;
	table_add_column(table, "SECONDS", false);
	table_add_column(table, "", true);
	for (enum part part = 0; part <= last_part(t); part++) {
		table_add_column(table, part_titles[part], false);
		if (part == OTHERS)
			table_need_columns(table);
	}
	add_rows(table, t, rows, terminal_is_narrow(out) ? NARROW_BAR : BAR);
	fputc('\n', out);
	table_print(table, out);
	table_destroy(table);
}

/* On a narrow terminal, two steps are one, which leaves room for names. */
static struct sparkline sparkline_of(const struct timeline *t, const struct site *site,
				     bool is_narrow)
{
	const size_t n = is_narrow ? COURSE_STEPS_OF_SITE / 2 : COURSE_STEPS_OF_SITE;
	uint64_t values[COURSE_STEPS_OF_SITE];

	site_course(t->base.replay->sites, site, values);
	for (size_t i = 0; is_narrow && i < n; i++)
		values[i] = values[2 * i] > values[2 * i + 1] ? values[2 * i] : values[2 * i + 1];
	return sparkline(values, n);
}

static void print_sites(FILE *out, const struct timeline *t)
{
	const size_t shown = t->nr_top < 10 || t->base.options.verbose ? t->nr_top : 10;
	const bool is_narrow = terminal_is_narrow(out);
	struct table *table = shown ? table_create() : NULL;

	if (!table)
		return;
	table_add_column(table, "AT PEAK", false);
	table_add_column(table, "CALL SITE", true);
	if (sites_have_source(t->base.replay->sites))
		table_add_column(table, "SOURCE", true);
	table_add_column(table, "COURSE", true);
	table_add_column(table, "OWN PEAK", false);
	table_add_column(table, "LIVE", false);
	for (size_t i = 0; i < shown; i++) {
		const struct site *site = &t->base.replay->sites->all[t->top[i]];

		table_add_cell(table, text_bytes(site_at_peak(t->base.replay->sites, site)).s);
		table_add_cell(table,
			       site_text_among(t->base.replay->sites, t->top[i], t->top, shown).s);
		if (sites_have_source(t->base.replay->sites))
			table_add_cell(table, site_source_text(t->base.replay->sites, t->top[i]).s);
		table_add_cell(table, sparkline_of(t, site, is_narrow).s);
		table_add_cell(table, text_bytes(site_peak_bytes(site)).s);
		table_add_cell(table, text_bytes(site->sums.live_bytes).s);
	}
	fputc('\n', out);
	table_print(table, out);
	table_destroy(table);
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct timeline *t = (const struct timeline *)base;
	const struct replay *replay = base->replay;

	replay_print_head(replay, out, LABEL);
	if (t->peak_bytes)
		fprintf(out, "%-*s%s at %.3f s\n", LABEL, "Peak", text_bytes(t->peak_bytes).s,
			(double)t->peak_ns / 1e9);
	sites_print_limit(t->base.replay->sites, out, LABEL);
	replay_print_losses(replay, out, LABEL);
	replay_print_bound(replay, out, LABEL);
	print_rows(out, t);
	print_sites(out, t);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static json_t *steps_json(const struct timeline *t)
{
	size_t rows = count_rows(t);
	const struct replay *replay = t->base.replay;
	struct course_step steps[NR_PARTS][TIMELINE_MAX_ROWS];
	json_t *array = json_array();

	for (enum part part = 0; t->parts[ALL].steps && part < NR_PARTS; part++)
		course_resample(&t->parts[part], replay->span.end_ns, steps[part], rows);
	for (size_t i = 0; t->parts[ALL].steps && i < rows; i++) {
		const int64_t end = row_end_ns(t, i, rows);
		json_t *item =
			json_pack("{so so}", "ns",
				  json_from_count((uint64_t)end - (uint64_t)replay->span.begin_ns),
				  "time_ns", json_integer(end));

		for (enum part part = 0; part < NR_PARTS; part++)
			json_object_set_new(item, part_keys[part],
					    json_from_count(steps[part][i].last));
		json_array_append_new(array, item);
	}
	return array;
}

static json_t *sites_json(const struct timeline *t)
{
	json_t *array = json_array();

	for (size_t i = 0; i < t->nr_top; i++) {
		const struct site *site = &t->base.replay->sites->all[t->top[i]];
		json_t *item = site_json(t->base.replay->sites, t->top[i]);

		json_object_set_new(item, "bytes_at_peak",
				    json_from_count(site_at_peak(t->base.replay->sites, site)));
		json_object_set_new(item, "peak_bytes", json_from_count(site_peak_bytes(site)));
		json_object_set_new(item, "live_bytes", json_from_count(site->sums.live_bytes));
		json_object_set_new(item, "course", site_course_json(t->base.replay->sites, site));
		json_array_append_new(array, item);
	}
	return array;
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct timeline *t = (const struct timeline *)base;
	int failed = replay_put_json(base->replay, root);

	failed |= sites_put_limit(t->base.replay->sites, root);
	failed |= json_object_set_new(root, "records", json_from_count(base->replay->records));
	failed |= json_object_set_new(root, "duration_ns",
				      json_from_count(replay_duration_ns(base->replay)));
	failed |= json_object_set_new(root, "peak_bytes", json_from_count(t->peak_bytes));
	failed |= json_object_set_new(root, "peak_ns", json_integer(t->peak_ns));
	failed |= json_object_set_new(root, "timeline", steps_json(t));
	return failed | json_object_set_new(root, "call_sites", sites_json(t));
}

const struct analysis_ops timeline_analysis = {
	.about = "live bytes over time",
	.size = sizeof(struct timeline),
	.sites = true,
	.begin_window = begin_window,
	.change = change,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.deinit = deinit,
};
