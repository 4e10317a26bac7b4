/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Conditions of a spec as text again. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "patcher/tracers/spec.h"

struct printer {
	char *out;
	size_t size, used;
};

/* A range of numbers of a list that begins with `name`. */
static void print_range(struct printer *p, const char *name, unsigned int first, unsigned int last)
{
	int n;

	if (p->used >= p->size)
		return;
	n = snprintf(p->out + p->used, p->size - p->used, "%s%u", p->used ? "+" : name, first);
	p->used += n > 0 ? (size_t)n : 0;
	if (last == first || p->used >= p->size)
		return;
	n = snprintf(p->out + p->used, p->size - p->used, "-%u", last);
	p->used += n > 0 ? (size_t)n : 0;
}

void trace_spec_print_pids(const struct trace_spec *spec, char *out, size_t size)
{
	struct printer p = {out, size, 0};

	*out = '\0';
	for (size_t i = 0; i < spec->nr_pids; i++)
		print_range(&p, "pid=", spec->pids[i], spec->pids[i]);
}

void trace_spec_print_vcpus(const struct trace_spec *spec, char *out, size_t size)
{
	struct printer p = {out, size, 0};
	unsigned int end;

	*out = '\0';
	if (spec->vcpus == UINT64_MAX)
		return;
	for (unsigned int i = 0; i < TRACE_SPEC_MAX_VCPUS; i = end) {
		for (end = i; end < TRACE_SPEC_MAX_VCPUS && spec->vcpus >> end & 1;)
			end++;
		if (end > i)
			print_range(&p, "vcpu=", i, end - 1);
		else
			end = i + 1;
	}
}

static void join(char *out, size_t size, const char *more)
{
	const size_t used = strlen(out);

	if (*more)
		snprintf(out + used, size - used, "%s%s", used ? " && " : "", more);
}

void trace_spec_print_conditions(const struct trace_spec *spec, char *out, size_t size)
{
	char vcpus[EVENT_FILTER_MAX], filter[EVENT_FILTER_MAX + 3];

	trace_spec_print_pids(spec, out, size);
	trace_spec_print_vcpus(spec, vcpus, sizeof(vcpus));
	join(out, size, vcpus);
	if (!spec->filter_text)
		return;
	snprintf(filter, sizeof(filter), *out && strstr(spec->filter_text, "||") ? "(%s)" : "%s",
		 spec->filter_text);
	join(out, size, filter);
}
