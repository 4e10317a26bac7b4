/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What part of a trace a replay is about: the instance of the heap, and the choice of events. */
#include "formats/analysis/replay.h"
#include "formats/report/event-hints.h"

static bool is_kmem(const struct trace_instance *instance)
{
	for (size_t i = 0; i < instance->nr_classes; i++) {
		if (kmem_class_is_known(&instance->classes[i]))
			return true;
	}
	return false;
}

static int find_instance(struct replay *replay, struct error *err)
{
	const struct cli_list *names = &replay->view->choice.instances;
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	for (size_t i = 0; i < n; i++) {
		if (!is_kmem(&all[i]))
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
	const struct event_wish wish = event_choice_wish(&replay->view->choice, &chosen->filters);
	int ret = replay_select_calls(replay, err);
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	if (ret || (!chosen->texts && !wish.instances->n))
		return ret;
	return event_selection_create(&wish, all, n, chosen->texts, &chosen->selection, err);
}

bool replay_has_event(const struct replay *replay, const struct event *event)
{
	return !replay->chosen.selection || event_selection_has(replay->chosen.selection, event);
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
