/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_FORMATS_FILTER_CALL_FILTER_H
#define SONDE_FORMATS_FILTER_CALL_FILTER_H

#include "formats/filter/filter.h"

/*
 * Filters on calls, which are made of several events: some fields are there only if the instance
 * has recorded them, and those of the return only if the trace has that.
 */
struct call_field {
	struct event_field field;
	/* the field of the instance's events that it comes from; NULL: each call has it */
	const char *recorded;
	bool of_return; /* such fields are the last ones */
};

enum { CALL_FILTER_MAX_FIELDS = 16 };

/* What filters see of a tracer's calls. */
struct call_kind {
	const char *system;
	const struct call_field *fields;
	size_t n, size; /* of the fields, and of the bytes that they are in */
};

struct call_filter;

/* `filters`, `kind` and `names` must outlive *out. Errors as event_filters_bind(). */
int call_filter_create(const struct event_filters *filters, const struct call_kind *kind,
		       const struct trace_instance *instance, const struct event_names *names,
		       struct call_filter **out, struct error *err);
/* NULL-safe. */
void call_filter_destroy(struct call_filter *filter);

/* Whether a call, which began on a vCPU, passes any of the filters. */
bool call_filter_matches(const struct call_filter *filter, bool returned, unsigned int vcpu,
			 const void *bytes);

#endif
