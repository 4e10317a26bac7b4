/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What part of a trace a replay is about: the instance of the heap, and the choice of events; and
 * the options with which users say so. */
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/analysis/replay.h"
#include "formats/cli/cli.h"
#include "formats/report/event-hints.h"

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
		if (!replay->instance)
			replay->instance = &all[i];
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
