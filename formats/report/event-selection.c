/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/event-selection.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/event/graph.h"
#include "formats/event/kmem.h"
#include "formats/report/charged-class.h"

const struct cli_option event_choice_options[] = {
	{.name = "event",
	 .letter = 'e',
	 .value = "GLOB",
	 .help = "only events whose name matches: kmem:kmalloc, 'mm_page_*';\n"
		 "several -e, -i and -f take what any of them takes",
	 .store = cli_store_list,
	 .offset = offsetof(struct event_choice, events)},
	{.name = "instance",
	 .letter = 'i',
	 .value = "NAME",
	 .help = "only events of the traced instance with this name",
	 .store = cli_store_list,
	 .offset = offsetof(struct event_choice, instances)},
	{.name = "filter",
	 .letter = 'f',
	 .value = "EXPR",
	 .help = "only events whose fields match, in ftrace's grammar:\n"
		 "'bytes_req > 4096 && call_site ~ \"ext4_*\"'",
	 .store = cli_store_list,
	 .offset = offsetof(struct event_choice, filters)},
	CLI_VCPU_OPTION(struct event_choice, "only events of these vCPUs: 0,2-3"),
	{.name = NULL},
};

/* No name: any. */
static bool names_have(const struct cli_list *names, const char *name)
{
	bool found = !names || !names->n;

	for (size_t i = 0; !found && i < names->n; i++)
		found = !strcmp(names->words[i], name);
	return found;
}

bool event_choice_has_instance(const struct event_choice *choice, const char *name)
{
	return names_have(&choice->instances, name);
}

bool event_choice_is_all(const struct event_choice *choice)
{
	return !choice->events.n && !choice->filters.n && !choice->vcpus.some;
}

struct event_wish event_choice_wish(const struct event_choice *choice,
				    const struct event_filters *filters)
{
	return (struct event_wish){.events = &choice->events,
				   .instances = &choice->instances,
				   .filters = filters,
				   .vcpus = &choice->vcpus};
}

/* What is wanted of one class of an instance. */
struct selected_class {
	const struct event_class *class;
	struct event_class
		*charged; /* that the filters are on instead (charged-class.h), or NULL */
	const struct trace_instance *instance;
	bool wanted;
	struct event_predicate **predicates; /* of the filters; NULL: all events */
};

struct event_selection {
	const struct cli_vcpus *vcpus;
	size_t nr_filters;
	struct selected_class *classes; /* of all instances, in their order */
	size_t nr_classes;
	struct event_predicate **predicates;
	size_t nr_predicates;
	const struct selected_class *last; /* that was looked up */
};

enum { NAME_BYTES = 2 * EVENT_CLASS_NAME_MAX + 2 };

static bool name_matches(const struct event_class *class, const char *glob)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "%s:%s", class->system, class->name);
	return !fnmatch(glob, name, 0) || !fnmatch(glob, class->name, 0);
}

static bool any_name_matches(const struct event_class *class, const struct cli_list *globs)
{
	bool matches = !globs || !globs->n;

	for (size_t i = 0; !matches && i < globs->n; i++)
		matches = name_matches(class, globs->words[i]);
	return matches;
}

static bool is_instance(const struct trace_instance *instance, const struct event_wish *wish)
{
	return wish->instance ? wish->instance == instance
			      : names_have(wish->instances, instance->name);
}

/* But for its name. */
static bool is_eligible(const struct event_wish *wish, const struct selected_class *s)
{
	enum graph_class which;

	return is_instance(s->instance, wish) && (!wish->graph || graph_class_of(s->class, &which));
}

static bool is_return(const struct event_class *class)
{
	enum graph_class which;

	return graph_class_of(class, &which) && which == GRAPH_EXIT;
}

struct event_name {
	char text[NAME_BYTES];
};

/* Records that are not legal: a user who mistypes a name means none of these. */
static bool is_no_choice(const struct event_class *class)
{
	return !strcmp(class->name, kmem_classes[KMEM_CLASS_OTHER].name);
}

/* Of what may be wanted, each once, NULL-terminated; with the system if the user has given one. */
static void list_names(const struct event_selection *selection, const struct event_wish *wish,
		       const char *glob, struct event_name *texts, const char **names)
{
	const bool has_system = strchr(glob, ':');
	size_t n = 0;

	for (size_t i = 0; i < selection->nr_classes; i++) {
		const struct event_class *class = selection->classes[i].class;

		if (!is_eligible(wish, &selection->classes[i]) || is_no_choice(class))
			continue;
		snprintf(texts[n].text, sizeof(texts[n].text), "%s%s%s",
			 has_system ? class->system : "", has_system ? ":" : "", class->name);
		if (!text_begins_as(texts[n].text, strlen(texts[n].text), names)) {
			names[n] = texts[n].text;
			n++;
		}
	}
}

static int unknown_event(const char *glob, const char *const *names, struct error *err)
{
	const char *nearest = text_nearest(glob, names);

	if (nearest)
		return error_set(err, ENOENT,
				 "--event: no event has the name '%s'; did you mean '%s'?", glob,
				 nearest);
	return error_set(err, ENOENT, "--event: no event has the name '%s'%s%s", glob,
			 *names ? ": take " : "", text_words(names).s);
}

static int no_event(const struct event_selection *selection, const struct event_wish *wish,
		    const char *glob, struct error *err)
{
	struct event_name *texts = calloc(selection->nr_classes + 1, sizeof(*texts));
	const char **names = calloc(selection->nr_classes + 1, sizeof(*names));

	if (texts && names) {
		list_names(selection, wish, glob, texts, names);
		unknown_event(glob, names, err);
	} else {
		error_set(err, ENOMEM, "out of memory");
	}
	free(texts);
	free(names);
	return -ENOENT;
}

/* Each glob is of use. */
static int check_names(const struct event_selection *selection, const struct event_wish *wish,
		       struct error *err)
{
	for (size_t i = 0; wish->events && i < wish->events->n; i++) {
		bool found = false;

		for (size_t c = 0; !found && c < selection->nr_classes; c++)
			found = is_eligible(wish, &selection->classes[c]) &&
				name_matches(selection->classes[c].class, wish->events->words[i]);
		if (!found)
			return no_event(selection, wish, wish->events->words[i], err);
	}
	return 0;
}

int event_instances_check(const struct cli_list *names, const struct trace_instance *instances,
			  size_t n, struct error *err)
{
	for (size_t i = 0; names && i < names->n; i++) {
		const char *name = names->words[i];
		bool found = false;

		for (size_t k = 0; !found && k < n; k++)
			found = !strcmp(instances[k].name, name);
		if (!found)
			return trace_instance_unknown(name, instances, n, err);
	}
	return 0;
}

static bool all_are_null(struct event_predicate *const *predicates, size_t n)
{
	while (n && !predicates[n - 1])
		n--;
	return !n;
}

/* `classes` has room for as many as there are. */
static int bind_filters(struct event_selection *selection, const struct event_filters *filters,
			struct selected_class *const *filtered, const struct event_class **classes,
			size_t n, struct event_texts *texts, struct error *err)
{
	int ret;

	for (size_t i = 0; i < n; i++)
		classes[i] = filtered[i]->charged ? filtered[i]->charged : filtered[i]->class;
	ret = event_filters_bind(filters, classes, n, event_texts_names(texts),
				 &selection->predicates, err);
	if (ret)
		return ret;
	selection->nr_filters = filters->n;
	selection->nr_predicates = filters->n * n;
	for (size_t i = 0; i < n; i++) {
		filtered[i]->predicates = selection->predicates + i * filters->n;
		filtered[i]->wanted = !all_are_null(filtered[i]->predicates, filters->n);
	}
	return 0;
}

/* Of classes that have filters. */
static int add_charged(struct selected_class *const *filtered, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!kmem_class_is_known(filtered[i]->class))
			continue;
		filtered[i]->charged = charged_class_create(filtered[i]->class);
		if (!filtered[i]->charged)
			return -ENOMEM;
	}
	return 0;
}

static int select_classes(struct event_selection *selection, const struct event_wish *wish,
			  struct event_texts *texts, struct error *err)
{
	const bool all = !wish->filters || !wish->filters->n;
	struct selected_class **filtered = calloc(selection->nr_classes + 1, sizeof(*filtered));
	const struct event_class **classes = calloc(selection->nr_classes + 1, sizeof(*classes));
	int ret = filtered && classes ? 0 : error_set(err, ENOMEM, "out of memory");
	size_t n = 0;

	for (size_t i = 0; !ret && i < selection->nr_classes; i++) {
		struct selected_class *s = &selection->classes[i];

		if (!is_eligible(wish, s) || !any_name_matches(s->class, wish->events))
			continue;
		s->wanted = all || (wish->graph && is_return(s->class));
		if (!s->wanted)
			filtered[n++] = s;
	}
	if (!ret && wish->charged && add_charged(filtered, n))
		ret = error_set(err, ENOMEM, "out of memory");
	if (!ret && n)
		ret = bind_filters(selection, wish->filters, filtered, classes, n, texts, err);
	free(filtered);
	free(classes);
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
		  : event_instances_check(wish->instances, instances, nr_instances, err);
	if (!ret)
		ret = check_names(selection, wish, err);
	if (!ret)
		ret = select_classes(selection, wish, texts, err);
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
	event_predicates_destroy(selection->predicates, selection->nr_predicates);
	for (size_t i = 0; i < selection->nr_classes; i++)
		free(selection->classes[i].charged);
	free(selection->classes);
	free(selection);
}

struct event_predicate *const *event_selection_predicates(const struct event_selection *selection,
							  size_t *n)
{
	*n = selection->nr_predicates;
	return selection->predicates;
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

static bool has(const struct event_selection *selection, const struct selected_class *s,
		const struct event *event, const uint64_t *call_site)
{
	uint64_t bytes[CHARGED_EVENT_MAX / sizeof(uint64_t)];
	struct event charged;

	if (!s->wanted || (selection->vcpus && !cli_vcpus_have(selection->vcpus, event->vcpu)))
		return false;
	if (!s->predicates)
		return true;
	if (s->charged) {
		charged = charged_event(event, s->charged, call_site, bytes);
		event = &charged;
	}
	return event_predicates_match_any(s->predicates, selection->nr_filters, event);
}

bool event_selection_has(struct event_selection *selection, const struct event *event)
{
	return has(selection, selected_class_of(selection, event->class), event, NULL);
}

bool event_selection_has_charged(struct event_selection *selection, const struct event *event,
				 uint64_t call_site)
{
	return has(selection, selected_class_of(selection, event->class), event, &call_site);
}

bool event_selection_has_class(const struct event_selection *selection,
			       const struct event_class *class)
{
	for (size_t i = 0; i < selection->nr_classes; i++)
		if (selection->classes[i].class == class && selection->classes[i].wanted)
			return true;
	return false;
}
