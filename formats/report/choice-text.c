/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/choice-text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "formats/report/trace-text.h"

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

struct text event_choice_text(const struct event_choice *choice, const struct cli_time_range *time)
{
	struct text out = {""};

	add_time(&out, time);
	add_list(&out, "instance ", &choice->instances);
	add_list(&out, "events ", &choice->events);
	add_list(&out, "filter ", &choice->filters);
	add_vcpus(&out, &choice->vcpus);
	clean_line(out.s);
	return out;
}

struct text options_choose_text(const struct option_given *options, size_t n)
{
	struct text out = {""};
	size_t nr_given = 0;

	for (size_t i = 0; i < n; i++)
		if (options[i].given)
			add(&out, "%s%s", nr_given++ ? " and " : "", options[i].option);
	if (nr_given)
		add(&out, nr_given > 1 ? " choose" : " chooses");
	return out;
}
