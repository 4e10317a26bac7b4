/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/filter/call-filter.h"

#include <errno.h>
#include <stdlib.h>

/* Calls whose return the trace has, and others. */
enum { RETURNED, UNRETURNED, NR_KINDS };

struct call_filter {
	const struct event_filters *filters;
	struct event_field fields[CALL_FILTER_MAX_FIELDS];
	struct event_class classes[NR_KINDS];
	struct event_predicate **predicates; /* of the filters, for each of the classes */
};

static void make_classes(struct call_filter *f, const struct call_kind *kind,
			 const struct trace_instance *instance)
{
	size_t n = 0, of_all = 0;

	for (size_t i = 0; i < kind->n; i++) {
		const struct call_field *known = &kind->fields[i];

		if (known->recorded && !trace_instance_has_field(instance, known->recorded))
			continue;
		f->fields[n++] = known->field;
		of_all += !known->of_return;
	}
	f->classes[RETURNED] = (struct event_class){.system = kind->system,
						    .name = "call",
						    .fields = f->fields,
						    .nr_fields = n,
						    .size = kind->size};
	f->classes[UNRETURNED] = f->classes[RETURNED];
	f->classes[UNRETURNED].nr_fields = of_all;
}

int call_filter_create(const struct event_filters *filters, const struct call_kind *kind,
		       const struct trace_instance *instance, const struct event_names *names,
		       struct call_filter **out, struct error *err)
{
	struct call_filter *f = calloc(1, sizeof(*f));
	int ret;

	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	f->filters = filters;
	make_classes(f, kind, instance);
	ret = event_filters_bind(
		filters,
		(const struct event_class *[]){&f->classes[RETURNED], &f->classes[UNRETURNED]},
		NR_KINDS, names, &f->predicates, err);
	if (ret)
		call_filter_destroy(f);
	else
		*out = f;
	return ret;
}

void call_filter_destroy(struct call_filter *f)
{
	if (!f)
		return;
	event_predicates_destroy(f->predicates, f->predicates ? NR_KINDS * f->filters->n : 0);
	free(f);
}

bool call_filter_matches(const struct call_filter *f, bool returned, unsigned int vcpu,
			 const void *bytes)
{
	const unsigned int kind = returned ? RETURNED : UNRETURNED;
	const struct event event = {.class = &f->classes[kind], .vcpu = vcpu, .bytes = bytes};

	return event_predicates_match_any(f->predicates + kind * f->filters->n, f->filters->n,
					  &event);
}
