/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/part/part.h"

#include "formats/report/choice-text.h"

int trace_part_init(struct trace_part *part, const struct trace_reader *reader,
		    const struct event_choice *choice, const struct cli_time_range *time,
		    bool charged, struct error *err)
{
	const struct event_wish wish = {.events = &choice->events,
					.instances = &choice->instances,
					.filters = &part->filters,
					.vcpus = &choice->vcpus,
					.charged = charged};
	size_t n;
	const struct trace_instance *instances = trace_reader_instances(reader, &n);
	int ret = cli_vcpus_check(&choice->vcpus, trace_reader_vcpu_end(reader), err);

	*part = (struct trace_part){.choice = choice, .time = *time};
	if (!ret)
		ret = event_filters_parse(choice->filters.words, choice->filters.n, &part->filters,
					  err);
	if (ret || (!choice->events.n && !choice->instances.n && !choice->filters.n &&
		    !choice->vcpus.some))
		return ret;
	ret = event_texts_create(trace_reader_sidecar(reader), &part->texts, err);
	return ret ? ret
		   : event_selection_create(&wish, instances, n, part->texts, &part->selection,
					    err);
}

void trace_part_deinit(struct trace_part *part)
{
	event_selection_destroy(part->selection);
	event_filters_deinit(&part->filters);
	event_texts_destroy(part->texts);
}

bool trace_part_is_all(const struct trace_part *part)
{
	return !part->selection && cli_time_is_all(&part->time);
}

bool trace_part_chooses_events(const struct trace_part *part)
{
	const struct event_choice *choice = part->choice;

	return choice->events.n || choice->filters.n || choice->vcpus.some;
}

bool trace_part_has_whole_instances(const struct trace_part *part)
{
	return !trace_part_chooses_events(part) && cli_time_is_all(&part->time);
}

bool trace_part_has_class(const struct trace_part *part, const struct trace_instance *instance,
			  const struct event_class *class)
{
	return !part->selection || (event_choice_has_instance(part->choice, instance->name) &&
				    event_selection_has_class(part->selection, class));
}

/* One without classes has no events; a copy may have it nevertheless. */
bool trace_part_has_instance(const struct trace_part *part, const struct trace_instance *instance)
{
	bool has = !instance->nr_classes && event_choice_has_instance(part->choice, instance->name);

	for (size_t i = 0; !has && i < instance->nr_classes; i++)
		has = trace_part_has_class(part, instance, &instance->classes[i]);
	return has;
}

int trace_part_place(struct trace_part *part, const struct event *event, struct part_place *out)
{
	if (event->ns >= part->time.to_ns) {
		trace_outside_after(&part->outside, event->ns);
		return 0;
	}
	part->read++;
	*out = (struct part_place){true, event->ns >= part->time.from_ns, true};
	if (!out->in_time)
		trace_outside_before(&part->outside, event->ns);
	if (part->selection) {
		out->in_instance = event_choice_has_instance(part->choice, event->instance->name);
		out->is_selected = event_selection_has(part->selection, event);
	}
	return 1;
}

struct text trace_part_text(const struct trace_part *part)
{
	return event_choice_text(part->choice, &part->time);
}
