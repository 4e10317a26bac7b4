/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What part of a trace a replay is about: the instance of the heap, and the choice of events; and
 * the options with which users say so. */
#include <stdio.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/replay.h"
#include "formats/base/json.h"
#include "formats/cli/cli.h"
#include "formats/heap/sum.h"
#include "formats/report/choice-text.h"
#include "formats/report/event-hints.h"
#include "formats/report/parts.h"

static int find_instance(struct replay *replay, struct error *err)
{
	const struct cli_list *names = &replay->view->choice.instances;
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	for (size_t i = 0; i < n; i++) {
		if (!kmem_has_events(&all[i]))
			continue;
		replay->nr_instances++;
		if (!replay_has_instance(replay, &all[i]))
			continue;
		replay->nr_named += names->n > 0;
		if (replay->instance)
			continue;
		replay->instance = &all[i];
		replay->is_of_first = replay->nr_instances == 1;
	}
	return event_instances_check(names, all, n, err);
}

int replay_select_calls(struct replay *replay, struct error *err)
{
	const struct event_choice *choice = &replay->view->choice;
	struct replay_choice *chosen = &replay->chosen;
	int ret = cli_vcpus_check(&choice->vcpus, trace_reader_vcpu_end(replay->reader), err);

	if (!ret)
		ret = find_instance(replay, err);
	replay->selects = !event_choice_is_all(choice) || replay->view->type < KMEM_TYPE_COUNT;
	if (ret || event_choice_is_all(choice))
		return ret;
	ret = event_filters_parse(choice->filters.words, choice->filters.n, &chosen->filters, err);
	return ret ? ret
		   : event_texts_create(trace_reader_sidecar(replay->reader), &chosen->texts, err);
}

int replay_select(struct replay *replay, struct error *err)
{
	struct replay_choice *chosen = &replay->chosen;
	struct event_wish wish = event_choice_wish(&replay->view->choice, &chosen->filters);
	int ret = replay_select_calls(replay, err);
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	if (ret || (!chosen->texts && !wish.instances->n))
		return ret;
	wish.charged = true;
	return event_selection_create(&wish, all, n, chosen->texts, &chosen->selection, err);
}

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

void replay_end_span(struct replay *replay)
{
	const bool is_chosen = !replay_has_begin(replay) || replay->view->time.to_ns != INT64_MAX;
	struct span *span = &replay->span;
	const bool is_empty = span->seen_ns == INT64_MIN && !replay->outside.is_after;

	span->end_ns = replay->last_ns;
	if (!is_empty && (is_chosen || replay->view->follow))
		span->end_ns = chosen_until(replay);
	if (!replay->records)
		span->begin_ns = span->has_before ? replay->from_ns : span->end_ns;
	if (span->begin_ns > span->end_ns)
		span->begin_ns = span->end_ns;
}

uint64_t replay_duration_ns(const struct replay *replay)
{
	return (uint64_t)replay->span.end_ns - (uint64_t)replay->span.begin_ns;
}

void replay_print_head(const struct replay *replay, FILE *out, int indent)
{
	const struct trace_window window = {.records = replay->records,
					    .first_ns = replay->first_ns,
					    .last_ns = replay->last_ns,
					    .has_begin = replay_has_begin(replay)};

	text_print_head(out, replay->reader, &window, indent);
}

/* --- what the instance lacks ----------------------------------------------------------------- */

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

bool replay_has_event(const struct replay *replay, const struct event *event)
{
	return !replay->chosen.selection || event_selection_has(replay->chosen.selection, event);
}

bool replay_has_allocation(const struct replay *replay, const struct event *event,
			   uint64_t call_site)
{
	return !replay->chosen.selection ||
	       event_selection_has_charged(replay->chosen.selection, event, call_site);
}

bool replay_has_instance(const struct replay *replay, const struct trace_instance *instance)
{
	return event_choice_has_instance(&replay->view->choice, instance->name);
}

bool replay_has_allocations(const struct replay *replay)
{
	const struct event_selection *selection = replay->chosen.selection;
	const struct trace_instance *instance = replay->instance;
	bool has = false;

	for (size_t i = 0; instance && i < instance->nr_classes; i++)
		has |= kmem_class_is_alloc(&instance->classes[i]) &&
		       (!selection || event_selection_has_class(selection, &instance->classes[i]));
	return has;
}

void replay_print_hints(const struct replay *replay, const char *verb)
{
	if (replay->chosen.selection)
		event_hints_print(verb, replay->chosen.selection,
				  trace_reader_sidecar(replay->reader));
}

/* --- options --------------------------------------------------------------------------------- */

int grouping_parse(const char *verb, const struct cli_option *option, const char *text,
		   const char *other, struct grouping *out)
{
	const char *words[NR_DIMENSIONS + 2] = {NULL};

	memcpy(words, dimension_names, NR_DIMENSIONS * sizeof(*words));
	words[NR_DIMENSIONS] = other;
	for (out->n = 0;; text++) {
		const char *end = strchrnul(text, ',');
		int word = cli_find_word(verb, option, text, end, words);

		if (word < 0)
			return CLI_USAGE;
		if (word == NR_DIMENSIONS)
			return cli_usage(verb,
					 "--%s %s stands alone: there are no other groups of %ss",
					 option->name, other, other);
		if (out->n == GROUPING_MAX)
			return cli_usage(verb, "--%s takes at most %d words", option->name,
					 GROUPING_MAX);
		for (size_t i = 0; i < out->n; i++)
			if (out->by[i] == (enum dimension)word)
				return cli_usage(verb, "--%s names %s twice", option->name,
						 words[word]);
		out->by[out->n++] = (enum dimension)word;
		if (!*end)
			return CLI_OK;
		text = end;
	}
}

const struct cli_option replay_view_options[] = {
	{.name = "type",
	 .letter = 't',
	 .value = "TYPE",
	 .help = "only objects of kmalloc, cache or pages",
	 .store = cli_store_choice,
	 .words = kmem_type_names,
	 .offset = offsetof(struct replay_view, type)},
	CLI_SINCE_OPTION(struct replay_view, since_init),
	CLI_KERNEL_OPTION(struct replay_view),
	CLI_LINES_OPTIONS(struct replay_view, lines, debug_file),
	{.name = NULL},
};

const char replay_view_notes[] =
	"Of memory, --event, --filter and --vcpu choose allocations, whatever frees them. There,\n"
	"call_site is the call site that is shown, recorded_site the one in the trace. Memory is\n"
	"that of one instance of the kmem tracer, the first if --instance is not given.\n";

const struct cli_option replay_time_options[] = {
	{.name = "time",
	 .value = "FROM,TO",
	 .help = "what happened from FROM to before TO seconds of the trace clock,\n"
		 "and what was live then; either may be left out",
	 .store = cli_store_time_range,
	 .offset = offsetof(struct replay_view, time)},
	{.name = "follow",
	 .letter = 'F',
	 .help = "go on while the trace is being recorded; on a terminal, show the\n"
		 "state each second",
	 .store = cli_store_flag,
	 .offset = offsetof(struct replay_view, follow)},
	{.name = NULL},
};

/* --- what is missing ------------------------------------------------------------------------- */

struct replay_bound replay_bound(const struct replay *replay)
{
	const struct trace_missing missing = replay_missing(replay);

	return (struct replay_bound){.is_bounded = missing.is_bounded,
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
		line_print(out, indent, "Bound",
			   "unknown: as events are missing, or may be, live sums may be too high "
			   "or too low");
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
	json_t *object = json_pack("{sb so}", "bounded", bound.is_bounded, "objects",
				   json_from_count(bound.objects));

	json_object_set_new(object, "bytes_too_high",
			    bound.is_bounded ? json_from_count(bound.bytes) : json_null());
	json_object_set_new(object, "bytes_too_low",
			    bound.is_bounded && !bound.objects ? json_from_count(moved)
							       : json_null());
	return json_object_set_new(root, "bound", object);
}
