/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_REPORT_EVENT_SELECTION_H
#define SONDE_FORMATS_REPORT_EVENT_SELECTION_H

#include "formats/base/error.h"
#include "formats/cli/options.h"
#include "formats/filter/filter.h"
#include "formats/report/event-text.h"

/* Which events a user wants, by name, fields and vCPU. */
struct event_wish {
	/* Any of these; NULL, or none of a sort: all. */
	const struct cli_list *events;    /* globs of the name, or of "system:name" */
	const struct cli_list *instances; /* names */
	const struct event_filters *filters;
	const struct cli_vcpus *vcpus;         /* NULL: all */
	const struct trace_instance *instance; /* this one alone; NULL: as `instances` says */
	/* Only calls, of the graph tracer, and all returns: the filters are on calls. */
	bool graph;
	/* Filters may be on who is charged with an allocation (charged-class.h). */
	bool charged;
};

/* What users say of that with the options below. */
struct event_choice {
	struct cli_list events, instances, filters;
	struct cli_vcpus vcpus;
};
extern const struct cli_option event_choice_options[];

/* Whether it is of all events, of any instance or of those that are named. */
bool event_choice_is_all(const struct event_choice *choice);
/* Whether events of an instance with this name may be chosen. */
bool event_choice_has_instance(const struct event_choice *choice, const char *name);

/* -ENOENT: a name is that of none of these instances. */
int event_instances_check(const struct cli_list *names, const struct trace_instance *instances,
			  size_t n, struct error *err);
/* `filters` are those of the choice. Both must outlive the result. */
struct event_wish event_choice_wish(const struct event_choice *choice,
				    const struct event_filters *filters);

struct event_selection;

/*
 * Make the wish ready for the classes of these instances. All that it names, `instances` and
 * `texts` must outlive the result. Of classes that lack a field of each filter no event is
 * wanted; for each filter one class has to have all. -ENOENT, -EINVAL: what the user wishes is of
 * no use, and an error of a filter has its text; -ENOMEM.
 */
int event_selection_create(const struct event_wish *wish, const struct trace_instance *instances,
			   size_t nr_instances, struct event_texts *texts,
			   struct event_selection **out, struct error *err);
/* NULL-safe. */
void event_selection_destroy(struct event_selection *selection);

/* The filters, bound to classes; NULL where a class lacks a field. */
struct event_predicate *const *event_selection_predicates(const struct event_selection *selection,
							  size_t *n);

/* Whether events of a class, that of an instance, may be wanted. */
bool event_selection_has_class(const struct event_selection *selection,
			       const struct event_class *class);

bool event_selection_has(struct event_selection *selection, const struct event *event);
/* The same of an event of kmem whose call site is another one than the recorded one, if the wish
 * says that. */
bool event_selection_has_charged(struct event_selection *selection, const struct event *event,
				 uint64_t call_site);

#endif
