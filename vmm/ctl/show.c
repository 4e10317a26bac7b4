/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vmm/ctl/ctl.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/event/counters.h"
#include "formats/hist/hists.h"
#include "formats/profile/profiles.h"

enum { INDENT = 2, HELP_COLUMN = 24, NAME_COLUMN = 16 };

static void show_text(FILE *out, const char *text)
{
	char *line = strdup(text);

	if (!line)
		return;
	clean_line(line);
	fputs(line, out);
	free(line);
}

static const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

static long long number_at(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

uint64_t qmp_count_at(const json_t *object, const char *key)
{
	return (uint64_t)number_at(object, key);
}

static void show_scalar(FILE *out, const json_t *value)
{
	char *text;

	if (json_is_string(value)) {
		show_text(out, json_string_value(value));
		return;
	}
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	if (text)
		fputs(text, out);
	free(text);
}

static void show_value(FILE *out, const json_t *value, int indent);

static void show_member(FILE *out, const char *label, const json_t *value, int indent)
{
	bool nested = json_object_size(value) || json_array_size(value);

	fprintf(out, "%*s", indent, "");
	show_text(out, label);
	if (nested) {
		fputs(":\n", out);
		show_value(out, value, indent + INDENT);
		return;
	}
	fputs(": ", out);
	show_scalar(out, value);
	fputc('\n', out);
}

/* Nesting is bounded by the framer, QMP_SYNTAX_MAX_DEPTH. */
static void show_value(FILE *out, const json_t *value, int indent)
{
	const char *key;
	json_t *item;
	size_t i;

	json_object_foreach((json_t *)value, key, item) show_member(out, key, item, indent);
	json_array_foreach(value, i, item)
	{
		if (json_object_size(item) || json_array_size(item)) {
			fprintf(out, "%*s-\n", indent, "");
			show_value(out, item, indent + INDENT);
		} else {
			fprintf(out, "%*s", indent, "");
			show_scalar(out, item);
			fputc('\n', out);
		}
	}
}

static void show_status(FILE *out, const json_t *result)
{
	show_text(out, text_at(result, "status"));
	fputc('\n', out);
}

static void show_args(FILE *out, const json_t *args)
{
	const json_t *arg;
	size_t i;

	json_array_foreach(args, i, arg)
	{
		bool required = json_is_true(json_object_get(arg, "required"));

		fputs(required ? " " : " [", out);
		show_text(out, text_at(arg, "name"));
		fputc('=', out);
		show_text(out, text_at(arg, "type"));
		fputs(required ? "" : "]", out);
	}
}

static void show_commands(FILE *out, const json_t *result)
{
	const json_t *verb;
	size_t i;

	json_array_foreach(result, i, verb)
	{
		show_text(out, text_at(verb, "name"));
		show_args(out, json_object_get(verb, "args"));
		fputs("\n        ", out);
		show_text(out, text_at(verb, "help"));
		fputc('\n', out);
	}
}

static void show_help_line(FILE *out, const char *typed, const char *help)
{
	int width = (int)strlen(typed);

	fputs("  ", out);
	show_text(out, typed);
	fprintf(out, "%*s", width < HELP_COLUMN ? HELP_COLUMN - width : 1, "");
	show_text(out, help);
	fputc('\n', out);
}

void qmp_show_help(FILE *out, const json_t *commands)
{
	const json_t *verb;
	size_t i;

	json_array_foreach(commands, i, verb)
	{
		const char *name = text_at(verb, "name"), *typed = qmp_command_short(name);

		/* negotiation is the connection's business */
		if (strcmp(name, "qmp_capabilities") != 0)
			show_help_line(out, typed ? typed : name, text_at(verb, "help"));
	}
	show_help_line(out, "help", "list these commands");
	show_help_line(out, "exit", "leave the prompt; the guest runs on");
}

/* `n` in all, of which the first are named. */
static void show_refusals(FILE *out, const json_t *refused, uint64_t n)
{
	const json_t *site;
	size_t i;

	json_array_foreach(refused, i, site)
	{
		fputs("  refused ", out);
		show_text(out, text_at(site, "function"));
		fputs(" at ", out);
		show_scalar(out, json_object_get(site, "address"));
		fputs(": ", out);
		show_text(out, text_at(site, "reason"));
		fputc('\n', out);
	}
	if (n > json_array_size(refused))
		fprintf(out, "  and %s more\n", text_count(n - json_array_size(refused)).s);
}

static void show_sites(FILE *out, const json_t *sites)
{
	const json_t *refused = json_object_get(sites, "refused");

	fprintf(out, "sites     %s entry, %s return, %s shared, %zu refused\n",
		text_count(qmp_count_at(sites, "entry")).s,
		text_count(qmp_count_at(sites, "return")).s,
		text_count(qmp_count_at(sites, "shared")).s, json_array_size(refused));
	show_refusals(out, refused, json_array_size(refused));
}

static void show_gaps(FILE *out, const json_t *gaps)
{
	const json_t *gap;
	size_t i;

	json_array_foreach(gaps, i, gap)
	{
		fputs("  not traced ", out);
		show_text(out, text_at(gap, "function"));
		fputs(": ", out);
		show_text(out, text_at(gap, "reason"));
		fputc('\n', out);
	}
}

static void show_tracers(FILE *out, const json_t *trace)
{
	const json_t *tracer;
	size_t i;

	json_array_foreach(json_object_get(trace, "tracers"), i, tracer)
	{
		fputs(i ? "," : " ", out);
		show_scalar(out, tracer);
	}
}

static bool is_on(const json_t *trace)
{
	return json_is_true(json_object_get(trace, "enabled"));
}

static void show_trace_head(FILE *out, const json_t *trace)
{
	fprintf(out, "tracing   %s", is_on(trace) ? "on" : "off");
	show_tracers(out, trace);
	fputs(" (", out);
	show_text(out, text_at(trace, "mode"));
	fputs(") to ", out);
	show_text(out, text_at(trace, "trace_dir"));
	fputc('\n', out);
}

static void show_on(FILE *out, const json_t *trace)
{
	const json_t *sites = json_object_get(trace, "sites");
	size_t refused = json_array_size(json_object_get(sites, "refused"));

	fputs("tracing", out);
	show_tracers(out, trace);
	fprintf(out, ": %s",
		text_number(qmp_count_at(sites, "entry") + qmp_count_at(sites, "shared"),
			    "function")
			.s);
	if (refused)
		fprintf(out, ", %s refused (see 'trace status')", text_count(refused).s);
	fputc('\n', out);
}

static void show_off(FILE *out, const json_t *trace)
{
	struct trace_counters counters = {0};
	char lost[COUNTER_TEXT_MAX];

	counters_get(trace, &counters);
	counters_lost_text(&counters, lost, sizeof(lost));
	fprintf(out, "tracing is off: %s in ",
		text_number(qmp_count_at(trace, "events"), "event").s);
	show_text(out, text_at(trace, "trace_dir"));
	fprintf(out, ", %s\n", lost);
}

void qmp_show_switch(FILE *out, const json_t *trace)
{
	if (is_on(trace))
		show_on(out, trace);
	else
		show_off(out, trace);
}

static void show_notes(FILE *out, const json_t *notes)
{
	const json_t *note;
	size_t i;

	json_array_foreach(notes, i, note)
	{
		fputs("note: ", out);
		show_scalar(out, note);
		fputc('\n', out);
	}
}

void qmp_show_change(FILE *out, const json_t *reply)
{
	const uint64_t stops = qmp_count_at(reply, "switches");

	show_notes(out, json_object_get(reply, "notes"));
	if (qmp_count_at(reply, "switched_sites"))
		fprintf(out, "switched %s in %s%s%s\n",
			text_number(qmp_count_at(reply, "switched_sites"), "site").s,
			text_ms(qmp_count_at(reply, "switch_ns")).s, stops > 1 ? ", " : "",
			stops > 1 ? text_number(stops, "stop").s : "");
}

static void show_counters(FILE *out, const json_t *result)
{
	struct trace_counters counters = {0};
	char text[COUNTER_TEXT_MAX];
	bool lost = false;

	counters_get(result, &counters);
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (!counter_is_loss(id) || !counter_text(&counters, id, text, sizeof(text)))
			continue;
		fprintf(out, "%-10s%s\n", lost ? "" : "lost", text);
		lost = true;
	}
	if (!lost)
		fputs("lost      none\n", out);
	counters_text(&counters, COUNTER_LEFT_OUT, text, sizeof(text));
	if (text[0])
		fprintf(out, "left out  %s\n", text);
	counters_text(&counters, COUNTER_INFO, text, sizeof(text));
	if (text[0])
		fprintf(out, "recording %s\n", text);
}

static void show_events(FILE *out, const json_t *counts)
{
	uint64_t allocs = qmp_count_at(counts, "allocs"), frees = qmp_count_at(counts, "frees");
	uint64_t events = qmp_count_at(counts, "events");

	fprintf(out, "%s, %s", text_number(allocs, "allocation").s, text_number(frees, "free").s);
	if (events > allocs + frees)
		fprintf(out, ", %s", text_number(events - allocs - frees, "other event").s);
}

static void show_vcpu(FILE *out, const json_t *vcpu)
{
	struct trace_counters counters = {0};
	char text[COUNTER_TEXT_MAX];

	counters_get(vcpu, &counters);
	fprintf(out, "vcpu %-4s ", text_count(qmp_count_at(vcpu, "index")).s);
	show_events(out, vcpu);
	counters_text(&counters, COUNTER_INFO, text, sizeof(text));
	fprintf(out, "%s%s", text[0] ? ", " : "", text);
	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (counter_is_loss(id) && counter_text(&counters, id, text, sizeof(text)))
			fprintf(out, ", lost %s", text);
	}
	fputc('\n', out);
}

static void show_trace(FILE *out, const json_t *result)
{
	const json_t *vcpu;
	size_t i;

	show_trace_head(out, result);
	fprintf(out, "events    %s: ", text_count(qmp_count_at(result, "events")).s);
	show_events(out, result);
	fputc('\n', out);
	show_counters(out, result);
	show_sites(out, json_object_get(result, "sites"));
	show_gaps(out, json_object_get(result, "gaps"));
	json_array_foreach(json_object_get(result, "vcpus"), i, vcpu) show_vcpu(out, vcpu);
}

static void show_conditions(FILE *out, const char *decider, const json_t *conditions)
{
	if (!json_string_length(conditions))
		return;
	fprintf(out, "  the %s decides ", decider);
	show_text(out, json_string_value(conditions));
	fputc('\n', out);
}

static void show_instance(FILE *out, const json_t *instance)
{
	const char *name = text_at(instance, "name");
	const char *waiting = json_string_value(json_object_get(instance, "waiting"));
	const char *state = json_is_true(json_object_get(instance, "active")) ? "on" : "off";

	show_text(out, name);
	fprintf(out, "%*s%-8s %-17s ",
		strlen(name) < NAME_COLUMN ? NAME_COLUMN - (int)strlen(name) : 1, "",
		waiting ? "waits" : state,
		text_number(qmp_count_at(instance, "sites"), "function").s);
	show_text(out, text_at(instance, "spec"));
	if (qmp_count_at(instance, "refused"))
		fprintf(out, ", %s refused", text_count(qmp_count_at(instance, "refused")).s);
	if (qmp_count_at(instance, "lost"))
		fprintf(out, ", %s lost", text_count(qmp_count_at(instance, "lost")).s);
	if (waiting) {
		fputs(": ", out);
		show_text(out, waiting);
	}
	fputc('\n', out);
	show_conditions(out, "guest", json_object_get(instance, "guest_conditions"));
	show_conditions(out, "host", json_object_get(instance, "host_conditions"));
	show_refusals(out, json_object_get(instance, "refusals"),
		      qmp_count_at(instance, "refused"));
}

static void show_instances(FILE *out, const json_t *list)
{
	const json_t *instance;
	size_t i;

	if (!json_array_size(list))
		fputs("no tracer\n", out);
	json_array_foreach(list, i, instance) show_instance(out, instance);
}

static void show_profile(FILE *out, const json_t *result)
{
	const struct profile_text_options options = {0};
	struct profile_set set;

	if (profile_set_parse(result, &set, NULL)) {
		show_value(out, result, 0);
		return;
	}
	profile_set_sort(&set, PROFILE_BY_TOTAL);
	profile_set_print(out, &set, &options);
	profile_set_deinit(&set);
}

static void show_hist(FILE *out, const json_t *result)
{
	const struct hist_text_options options = {0};
	struct hist_set set;

	if (hist_set_parse(result, &set, NULL)) {
		show_value(out, result, 0);
		return;
	}
	hist_set_print(out, &set, &options);
	hist_set_deinit(&set);
}

void qmp_show(FILE *out, const char *verb, const json_t *result)
{
	if (!strcmp(verb, "query-status"))
		show_status(out, result);
	else if (!strcmp(verb, "query-commands"))
		show_commands(out, result);
	else if (!strcmp(verb, "query-trace"))
		show_trace(out, result);
	else if (!strcmp(verb, "query-instances"))
		show_instances(out, result);
	else if (!strcmp(verb, "query-profile"))
		show_profile(out, result);
	else if (!strcmp(verb, "query-hist"))
		show_hist(out, result);
	else if (json_is_object(result) || json_is_array(result))
		show_value(out, result, 0);
	else
		show_member(out, "value", result, 0);
}
