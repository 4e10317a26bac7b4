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

/* The classes that the filter is on, and what they are selected by. */
struct filtered_classes {
	size_t n;
	const struct event_class **classes;
	struct selected_class **selected;
	struct event_predicate **predicates;
};

static void filtered_deinit(struct filtered_classes *f)
{
	free(f->classes);
	free(f->selected);
	free(f->predicates);
}

static int filtered_init(struct filtered_classes *f, size_t max)
{
	*f = (struct filtered_classes){.classes = calloc(max + 1, sizeof(*f->classes)),
				       .selected = calloc(max + 1, sizeof(*f->selected)),
				       .predicates = calloc(max + 1, sizeof(*f->predicates))};
	if (f->classes && f->selected && f->predicates)
		return 0;
	filtered_deinit(f);
	return -ENOMEM;
}

static int bind_filter(const struct event_wish *wish, struct event_texts *texts,
		       const struct filtered_classes *f, struct error *err)
{
	int ret = event_filter_bind_each(wish->filter, f->classes, f->n, event_texts_names(texts),
					 f->predicates, err);

	for (size_t i = 0; !ret && i < f->n; i++) {
		f->selected[i]->predicate = f->predicates[i];
		f->selected[i]->wanted = f->predicates[i];
	}
	return ret;
}

static int select_classes(struct event_selection *selection, const struct event_wish *wish,
			  struct event_texts *texts, struct error *err)
{
	struct filtered_classes filtered;
	bool named = false;
	int ret = 0;

	if (filtered_init(&filtered, selection->nr_classes))
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < selection->nr_classes; i++) {
		struct selected_class *s = &selection->classes[i];

		if (!is_named(wish, s))
			continue;
		named = true;
		s->wanted = !wish->filter || (wish->graph && is_return(s->class));
		if (s->wanted)
			continue;
		filtered.classes[filtered.n] = s->class;
		filtered.selected[filtered.n++] = s;
	}
	if (!named && wish->event)
		ret = error_set(err, ENOENT, "--event: no event has the name '%s'", wish->event);
	else if (filtered.n)
		ret = bind_filter(wish, texts, &filtered, err);
	filtered_deinit(&filtered);
	return ret;
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
