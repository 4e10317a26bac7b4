/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/part/part.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
	return !part->selection && part->time.from_ns == INT64_MIN && part->time.to_ns == INT64_MAX;
}

bool trace_part_has_whole_instances(const struct trace_part *part)
{
	const struct event_choice *choice = part->choice;

	return !choice->events.n && !choice->filters.n && !choice->vcpus.some &&
	       part->time.from_ns == INT64_MIN && part->time.to_ns == INT64_MAX;
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

/* --- text ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void add(struct text *out, const char *fmt, ...)
{
	const size_t used = strlen(out->s);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out->s + used, sizeof(out->s) - used, fmt, ap);
	va_end(ap);
}

static void add_list(struct text *out, const char *what, const struct cli_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		add(out, "%s%s%.200s",
		    i         ? " or "
		    : *out->s ? ", "
			      : "",
		    i ? "" : what, list->words[i]);
}

static void add_time(struct text *out, const struct cli_time_range *time)
{
	if (time->from_ns != INT64_MIN)
		add(out, "from %.40s s%s", text_clock_before(time->from_ns).s,
		    time->to_ns == INT64_MAX ? " on" : "");
	if (time->to_ns != INT64_MAX)
		add(out, "%sbefore %.40s s", *out->s ? " to " : "",
		    text_clock_after(time->to_ns).s);
}

static void add_vcpus(struct text *out, const struct cli_vcpus *vcpus)
{
	bool is_first = true;

	for (unsigned int i = 0; vcpus->some && i < CLI_MAX_VCPUS; i++) {
		if (!vcpus->listed[i])
			continue;
		add(out, "%s%s%u",
		    !is_first ? ","
		    : *out->s ? ", "
			      : "",
		    is_first ? "vCPU " : "", i);
		is_first = false;
	}
}

struct text trace_part_text(const struct trace_part *part)
{
	struct text out = {""};

	add_time(&out, &part->time);
	add_list(&out, "instance ", &part->choice->instances);
	add_list(&out, "events ", &part->choice->events);
	add_list(&out, "filter ", &part->choice->filters);
	add_vcpus(&out, &part->choice->vcpus);
	clean_line(out.s);
	return out;
}
