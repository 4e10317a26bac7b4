/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the results of a replay are of: the time, and what the user chose, in words. */
#include <stdio.h>
#include "formats/analysis/replay.h"
#include "formats/base/json.h"
#include "formats/report/choice-text.h"
#include "formats/report/trace-text.h"

/* --- the time that results are of ----------------------------------------------------------- */

/* Without records before, nothing says whether the instance was there already. */
void replay_begin_span(struct replay *replay, int64_t ns)
{
	replay->span.begin_ns = replay->span.has_before ? replay->from_ns : ns;
}

/* Time without tracing is not part of the counter: then the last event may be later. The counter of
 * a copied part is that of the whole. */
static int64_t traced_until(const struct replay *replay)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);
	const int64_t seen_ns = replay->span.seen_ns;
	int64_t end_ns;

	if (!sidecar || sidecar->info.part[0] ||
	    __builtin_add_overflow(sidecar->info.started_ns,
				   sidecar->info.counters.v[COUNTER_TRACING_NS], &end_ns))
		return seen_ns;
	return end_ns > seen_ns ? end_ns : seen_ns;
}

static int64_t chosen_until(const struct replay *replay)
{
	const int64_t to_ns = replay->view->time.to_ns;
	const int64_t end_ns = replay->outside.is_after ? to_ns : traced_until(replay);

	return end_ns < to_ns ? end_ns : to_ns;
}

/* What happened after that is not known. */
static bool is_removed(const struct replay *replay)
{
	return replay->instance &&
	       sidecar_is_removed(trace_reader_sidecar(replay->reader), replay->instance);
}

int64_t replay_until(const struct replay *replay, int64_t last_ns)
{
	const bool is_chosen = replay_has_chosen_time(replay);
	const bool is_empty = replay->span.seen_ns == INT64_MIN && !replay->outside.is_after;

	if (is_empty || (replay->records && is_removed(replay)))
		return last_ns;
	return is_chosen || replay->view->follow ? chosen_until(replay) : last_ns;
}

void replay_end_span(struct replay *replay)
{
	struct span *span = &replay->span;

	span->end_ns = replay_until(replay, replay->last_ns);
	if (!replay->records)
		span->begin_ns = span->has_before ? replay->from_ns : span->end_ns;
	if (span->begin_ns > span->end_ns)
		span->begin_ns = span->end_ns;
}

uint64_t replay_duration_ns(const struct replay *replay)
{
	return (uint64_t)replay->span.end_ns - (uint64_t)replay->span.begin_ns;
}

static bool is_late(const struct replay *replay)
{
	return replay->instance &&
	       sidecar_is_late(trace_reader_sidecar(replay->reader), replay->instance);
}

void replay_print_head(const struct replay *replay, FILE *out, int indent)
{
	const struct trace_window window = {.records = replay->records,
					    .first_ns = replay->span.begin_ns,
					    .last_ns = replay->span.end_ns,
					    .has_begin =
						    !replay->outside.before && !is_late(replay)};

	text_print_head(out, replay->reader, &window, indent);
}

/* --- what was chosen ------------------------------------------------------------------------- */

/* "type kmalloc, from 5.000 s on, vCPU 1"; "" of all of the trace. */
static struct text chosen_text(const struct replay *replay)
{
	const struct cli_time_range time = {replay->from_ns, replay->view->time.to_ns};
	const struct text choice = event_choice_text(&replay->view->choice, &time);
	struct text out;

	if (replay->view->type >= KMEM_TYPE_COUNT)
		return choice;
	snprintf(out.s, sizeof(out.s), "type %s%s%.600s", kmem_type_names[replay->view->type],
		 *choice.s ? ", " : "", choice.s);
	return out;
}

int replay_put_json(const struct replay *replay, json_t *root)
{
	return replay_put_bound(replay, root) |
	       json_object_set_new(root, "begin_ns", json_integer(replay->span.begin_ns)) |
	       json_object_set_new(root, "end_ns", json_integer(replay->span.end_ns)) |
	       json_object_set_new(root, "instance",
				   json_from_text(replay->instance ? replay->instance->name : ""));
}

int replay_put_origin(const struct replay *replay, json_t *root)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);

	return json_object_set_new(root, "part",
				   json_from_text(sidecar ? sidecar->info.part : "")) |
	       json_object_set_new(root, "ended",
				   json_from_text(sidecar ? sidecar->info.ended : "")) |
	       json_object_set_new(root, "chosen", json_from_text(chosen_text(replay).s)) |
	       json_object_set_new(root, "instances", json_from_count(replay->nr_instances));
}
