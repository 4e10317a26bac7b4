/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a replay's results lack: events of the instance, and pages that the guest has moved. */
#include "formats/analysis/replay.h"
#include "formats/base/json.h"
#include "formats/heap/sum.h"
#include "formats/report/parts.h"
#include "formats/report/trace-text.h"

/* Events that were lost, and those that its files had and lack now. */
static void count_streams(const struct replay *replay, uint64_t *lost, uint64_t *cut)
{
	struct trace_stream_info info;

	for (size_t i = 0; i < trace_reader_nr_streams(replay->reader); i++) {
		trace_reader_stream_info(replay->reader, i, &info);
		if (info.instance != replay->instance)
			continue;
		sum_add(lost, info.lost);
		if (info.expected > info.records)
			sum_add(cut, info.expected - info.records);
	}
}

/* What no instance is said to have lost may be of any. */
static uint64_t lost_of(const struct replay *replay, uint64_t by_stream)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);
	size_t n;
	const size_t number =
		(size_t)(replay->instance - trace_reader_instances(replay->reader, &n));
	uint64_t own = by_stream, of_all = 0, rest;
	struct trace_losses losses;

	trace_reader_losses(replay->reader, &losses);
	rest = counters_lost(&losses.counters);
	for (size_t i = 0; sidecar && i < sidecar->nr_instances; i++)
		sum_add(&of_all, sidecar->instances[i].lost);
	if (sidecar && number < sidecar->nr_instances && sidecar->instances[number].lost > own)
		own = sidecar->instances[number].lost;
	sum_subtract(&rest, of_all > own ? of_all : own);
	sum_add(&own, rest);
	return own;
}

struct trace_missing replay_missing(const struct replay *replay)
{
	struct trace_missing missing = trace_reader_missing(replay->reader);
	uint64_t lost = 0, cut = 0;
	size_t n;

	trace_reader_instances(replay->reader, &n);
	if (!replay->instance || n < 2)
		return missing;
	count_streams(replay, &lost, &cut);
	lost = lost_of(replay, lost);
	sum_add(&lost, cut);
	missing.events = lost < missing.events ? lost : missing.events;
	return missing;
}

void replay_print_share(const struct replay *replay, FILE *out, int indent)
{
	const uint64_t own = replay_missing(replay).events;

	if (own == trace_reader_missing(replay->reader).events)
		return;
	line_print(out, indent, "", "%s of these %s of instance %s",
		   own ? text_count(own).s : "none", own == 1 || !own ? "is" : "are",
		   replay->instance->name);
}

bool replay_has_early(const struct replay *replay)
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);
	bool has = false;

	for (size_t i = 0; !has && i < n; i++)
		has = replay_has_instance(replay, &all[i]) &&
		      !sidecar_is_late(trace_reader_sidecar(replay->reader), &all[i]);
	return has;
}

bool replay_is_from_first(const struct replay *replay)
{
	return replay->instance &&
	       sidecar_is_from_first(trace_reader_sidecar(replay->reader), replay->instance);
}

static bool is_interrupted(const struct replay *replay)
{
	return replay->instance &&
	       sidecar_is_interrupted(trace_reader_sidecar(replay->reader), replay->instance);
}

const char *replay_lacks_events(const struct replay *replay)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);
	const struct trace_missing missing = replay_missing(replay);
	struct trace_losses losses;
	char gaps[COUNTER_TEXT_MAX];

	trace_reader_losses(replay->reader, &losses);
	counters_text(&losses.counters, COUNTER_GAP, gaps, sizeof(gaps));
	if (missing.events || *gaps || (sidecar && sidecar->info.nr_gaps) || is_interrupted(replay))
		return "events are missing";
	/* The last records of a trace that is being written come with time. */
	if (!missing.is_bounded && !losses.recording)
		return "events may be missing";
	return NULL;
}

bool replay_lacks_frees(const struct replay *replay)
{
	return replay->instance &&
	       !sidecar_has_frees(trace_reader_sidecar(replay->reader), replay->instance);
}

/* NULL: it is bounded. */
static const char *why_unbounded(const struct replay *replay, const struct trace_missing *missing)
{
	const struct sidecar *sidecar = trace_reader_sidecar(replay->reader);

	if (replay->keeps_heap && replay_lacks_frees(replay))
		return "only chosen events were recorded, perhaps not all frees: live sums may be "
		       "too high";
	if (replay->keeps_heap && is_interrupted(replay))
		return "the instance was off for a while, or recorded others: live sums may be too "
		       "high or too low";
	if (replay->keeps_heap && sidecar && sidecar->info.nr_gaps)
		return "some functions were not traced: live sums may be too high or too low";
	return missing->is_bounded ? NULL
				   : "as events are missing, or may be, live sums may be too high "
				     "or too low";
}

struct replay_bound replay_bound(const struct replay *replay)
{
	const struct trace_missing missing = replay_missing(replay);
	const char *why = why_unbounded(replay, &missing);

	return (struct replay_bound){.is_bounded = !why,
				     .why = why ? why : "",
				     .objects = missing.events,
				     .bytes = heap_most_bytes(replay->heap, missing.events)};
}

static void print_moved(const struct replay *replay, FILE *out, int indent)
{
	const uint64_t bytes = heap_moved_bytes(replay->heap);

	if (bytes)
		line_print(out, indent, "Moved",
			   "%s of pages to others without an event: live sums may lack as much",
			   text_bytes(bytes).s);
}

void replay_print_bound(const struct replay *replay, FILE *out, int indent)
{
	struct replay_bound bound = replay_bound(replay);

	print_moved(replay, out, indent);
	if (!bound.is_bounded)
		line_print(out, indent, "Bound", "unknown: %s", bound.why);
	else if (bound.objects)
		line_print(out, indent, "Bound",
			   "live sums are at most %s too high, by at most %s, and lack at most as "
			   "many of unknown size",
			   text_number(bound.objects, "object").s, text_bytes(bound.bytes).s);
}

int replay_put_bound(const struct replay *replay, json_t *root)
{
	const uint64_t moved = replay->heap ? heap_moved_bytes(replay->heap) : 0;
	struct replay_bound bound = replay_bound(replay);
	json_t *object = json_pack("{sb ss so}", "bounded", bound.is_bounded, "reason", bound.why,
				   "objects", json_from_count(bound.objects));

	json_object_set_new(object, "bytes_too_high",
			    bound.is_bounded ? json_from_count(bound.bytes) : json_null());
	json_object_set_new(object, "bytes_too_low",
			    bound.is_bounded && !bound.objects ? json_from_count(moved)
							       : json_null());
	return json_object_set_new(root, "bound", object);
}
