/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/event-selection.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include "formats/event/graph.h"

/* What is wanted of one class of an instance. */
struct selected_class {
	const struct event_class *class;
	const struct trace_instance *instance;
	bool wanted;
	struct event_predicate *predicate; /* NULL: all */
};

struct event_selection {
	const struct cli_vcpus *vcpus;
	struct selected_class *classes; /* of all instances, in their order */
	size_t nr_classes;
	const struct selected_class *last; /* that was looked up */
};

static bool name_matches(const struct event_class *class, const char *glob)
{
	char name[128];

	snprintf(name, sizeof(name), "%s:%s", class->system, class->name);
	return !glob || !fnmatch(glob, name, 0) || !fnmatch(glob, class->name, 0);
}

static bool is_named(const struct event_wish *wish, const struct selected_class *s)
{
	enum graph_class which;

	return (!wish->instance || wish->instance == s->instance) &&
	       (!wish->graph || graph_class_of(s->class, &which)) &&
	       name_matches(s->class, wish->event);
}

static bool is_return(const struct event_class *class)
{
	enum graph_class which;

	return graph_class_of(class, &which) && which == GRAPH_EXIT;
}

static int select_classes(struct event_selection *selection, const struct event_wish *wish,
			  struct event_texts *texts, struct error *err)
{
	bool named = false, bound = false;
	struct error first = {0};

	for (size_t i = 0; i < selection->nr_classes; i++) {
		struct selected_class *s = &selection->classes[i];
		struct error why;

		if (!is_named(wish, s))
			continue;
		named = true;
		s->wanted = !wish->filter || (wish->graph && is_return(s->class));
		if (s->wanted)
			continue;
		s->wanted = !event_filter_bind(wish->filter, s->class, event_texts_names(texts),
					       &s->predicate, &why);
		bound |= s->wanted;
		if (!s->wanted && !first.code)
			first = why;
	}
	if (!named && wish->event)
		return error_set(err, ENOENT, "--event: no event has the name '%s'", wish->event);
	if (bound || !first.code)
		return 0;
	*err = first;
	return -first.code;
}

static int list_classes(struct event_selection *selection, const struct trace_instance *instances,
			size_t nr_instances)
{
	size_t n = 0;

	for (size_t i = 0; i < nr_instances; i++)
		n += instances[i].nr_classes;
	selection->classes = calloc(n + 1, sizeof(*selection->classes));
	if (!selection->classes)
		return -ENOMEM;
	selection->last = selection->classes;
	for (size_t i = 0; i < nr_instances; i++)
		for (size_t c = 0; c < instances[i].nr_classes; c++)
			selection->classes[selection->nr_classes++] = (struct selected_class){
				.class = &instances[i].classes[c], .instance = &instances[i]};
	return 0;
}

int event_selection_create(const struct event_wish *wish, const struct trace_instance *instances,
			   size_t nr_instances, struct event_texts *texts,
			   struct event_selection **out, struct error *err)
{
	struct event_selection *selection = calloc(1, sizeof(*selection));
	int ret;

	if (!selection)
		return error_set(err, ENOMEM, "out of memory");
	selection->vcpus = wish->vcpus;
	ret = list_classes(selection, instances, nr_instances);
	ret = ret ? error_set(err, -ret, "out of memory")
		  : select_classes(selection, wish, texts, err);
	if (ret) {
		event_selection_destroy(selection);
		return ret;
	}
	*out = selection;
	return 0;
}

void event_selection_destroy(struct event_selection *selection)
{
	if (!selection)
		return;
	for (size_t i = 0; i < selection->nr_classes; i++)
		event_predicate_destroy(selection->classes[i].predicate);
	free(selection->classes);
	free(selection);
}

/* Where an event's class is in the list: mostly where the last one's was. */
static const struct selected_class *selected_class_of(struct event_selection *selection,
						      const struct event_class *class)
{
	for (size_t i = 0; selection->last->class != class && i < selection->nr_classes; i++)
		if (selection->classes[i].class == class)
			selection->last = &selection->classes[i];
	return selection->last;
}

bool event_selection_has(struct event_selection *selection, const struct event *event)
{
	const struct selected_class *s = selected_class_of(selection, event->class);

	if (!s->wanted || (selection->vcpus && !cli_vcpus_have(selection->vcpus, event->vcpu)))
		return false;
	return !s->predicate || event_predicate_matches(s->predicate, event);
}
