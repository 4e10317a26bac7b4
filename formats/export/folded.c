/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folded stacks, as flamegraph.pl, inferno and speedscope read them: a line for each stack, frames
 * with semicolons between them, a space and its value. And the flame graph itself (flame-svg.c).
 */
#include <errno.h>
#include <inttypes.h>
#include "formats/export/flame-svg.h"
#include "formats/export/stacks.h"

struct folded {
	struct exporter base;
	struct stacks *stacks;
};

static int put_event(struct exporter *base, const struct event *event)
{
	return stacks_add(((struct folded *)base)->stacks, event);
}

static int note_event(struct exporter *base, const struct event *event,
		      const struct part_place *place)
{
	return stacks_note(((struct folded *)base)->stacks, event, place);
}

static const char *const value_titles[] = {[EXPORT_COUNT] = "events",
					   [EXPORT_BYTES] = "bytes allocated",
					   [EXPORT_LIVE] = "bytes live",
					   [EXPORT_TIME] = "ns"};

/* The guest's kernel, the part of its trace, and what the sums lack or have twice. */
static struct text subtitle_of(const struct exporter *exporter)
{
	const struct text about = export_about(exporter);
	const char *banner = export_banner(exporter->input.reader);
	struct text out;

	snprintf(out.s, sizeof(out.s), "%.300s%s%.300s", banner, *banner && *about.s ? "; " : "",
		 about.s);
	return out;
}

static int finish_lines(struct exporter *base, bool as_svg, struct error *err)
{
	struct folded *f = (struct folded *)base;
	struct stack_line *lines;
	size_t n;

	stacks_finish(f->stacks, &n);
	lines = stacks_lines(f->stacks, base->input.value, &n);
	if (!lines)
		return error_set(err, ENOMEM, "out of memory");
	if (as_svg)
		flame_svg_put(base->input.file, lines, n, value_titles[base->input.value],
			      subtitle_of(base).s);
	for (size_t i = 0; !as_svg && i < n; i++)
		export_printf(base->input.file, "%s %" PRIu64 "\n", lines[i].text, lines[i].value);
	stacks_free_lines(lines, n);
	return 0;
}

static int finish_folded(struct exporter *base, struct error *err)
{
	return finish_lines(base, false, err);
}

static int finish_svg(struct exporter *base, struct error *err)
{
	return finish_lines(base, true, err);
}

static void deinit(struct exporter *base)
{
	struct folded *f = (struct folded *)base;

	stacks_destroy(f->stacks);
}

static int init(struct exporter *base, struct error *err)
{
	struct folded *f = (struct folded *)base;

	return stacks_create(base->input.reader, base->input.value, &f->stacks, err);
}

const struct exporter_ops folded_exporter = {.takes_value = true,
					     .sums = EXPORT_SUMS_EVENTS,
					     .takes_lines = true,
					     .size = sizeof(struct folded),
					     .init = init,
					     .event = put_event,
					     .other = note_event,
					     .finish = finish_folded,
					     .deinit = deinit};

const struct exporter_ops flamegraph_exporter = {.takes_value = true,
						 .sums = EXPORT_SUMS_EVENTS,
						 .takes_lines = true,
						 .size = sizeof(struct folded),
						 .init = init,
						 .event = put_event,
						 .other = note_event,
						 .finish = finish_svg,
						 .deinit = deinit};
