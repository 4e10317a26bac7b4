/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/analysis/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include "formats/base/text.h"

/* What the user named is the value of an option, also if it begins with a dash: "--filter=-x". */
static void print_option(FILE *out, const char *name, const char *value)
{
	if (!value)
		return;
	fprintf(out, " --%s%c", name, *value == '-' ? '=' : ' ');
	text_print_word(out, value);
}

static void print_options(FILE *out, const char *name, const struct cli_list *values)
{
	for (size_t i = 0; i < values->n; i++)
		print_option(out, name, values->words[i]);
}

/* Any of the user's filters, and the other one. */
static void print_filters(FILE *out, const struct cli_list *users, const char *more)
{
	if (!users->n)
		print_option(out, "filter", more);
	if (!more)
		print_options(out, "filter", users);
	for (size_t i = 0; more && i < users->n; i++) {
		char *both = NULL;

		if (asprintf(&both, "(%s) && %s", users->words[i], more) >= 0)
			print_option(out, "filter", both);
		free(both);
	}
}

/* "0,2-3" */
static void print_vcpus(FILE *out, const struct cli_vcpus *vcpus)
{
	const char *before = " --vcpu ";

	for (unsigned int i = 0, last; vcpus->some && i < CLI_MAX_VCPUS; i = last + 1) {
		last = i;
		if (!vcpus->listed[i])
			continue;
		while (last + 1 < CLI_MAX_VCPUS && vcpus->listed[last + 1])
			last++;
		fprintf(out, "%s%u", before, i);
		if (last > i)
			fprintf(out, "-%u", last);
		before = ",";
	}
}

static void print_choice(FILE *out, const struct event_choice *choice, const char *filter)
{
	print_options(out, "event", &choice->events);
	print_filters(out, &choice->filters, filter);
	print_vcpus(out, &choice->vcpus);
}

/* Seconds, all digits that matter: "2.5". */
static void print_seconds(FILE *out, int64_t ns)
{
	const uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
	uint64_t rest = size % 1000000000;
	int digits = 9;

	fprintf(out, "%s%" PRIu64, ns < 0 ? "-" : "", size / 1000000000);
	for (; rest && rest % 10 == 0; digits--)
		rest /= 10;
	if (rest)
		fprintf(out, ".%0*" PRIu64, digits, rest);
}

static void print_time(FILE *out, int64_t from_ns, int64_t to_ns)
{
	if (from_ns == INT64_MIN && to_ns == INT64_MAX)
		return;
	fprintf(out, " --time%c", from_ns < 0 && from_ns != INT64_MIN ? '=' : ' ');
	if (from_ns != INT64_MIN)
		print_seconds(out, from_ns);
	fputc(',', out);
	if (to_ns != INT64_MAX)
		print_seconds(out, to_ns);
}

/* What all verbs know. */
static void print_rest(FILE *out, const struct replay_view *view, const char *dir)
{
	print_options(out, "instance", &view->choice.instances);
	print_option(out, "kernel", view->kernel);
	print_option(out, "debug-file", view->debug_file);
	if (view->lines && !view->debug_file)
		fputs(" --lines", out);
	fputs(*dir == '-' ? " -- " : " ", out);
	text_print_word(out, dir);
}

void command_print(FILE *out, const struct replay *replay, const struct command *command,
		   const char *dir)
{
	const struct replay_view *view = replay->view;
	const int64_t older_ms = command->older_ns / 1000000;

	fprintf(out, "sonde %s", command->verb);
	if (older_ms > 0)
		fprintf(out, " --older %" PRId64 "ms", older_ms);
	if (view->type < KMEM_TYPE_COUNT)
		print_option(out, "type", kmem_type_names[view->type]);
	print_choice(out, &view->choice, command->filter);
	if (view->since_init)
		fputs(" --since init", out);
	print_time(out, view->time.from_ns, view->time.to_ns);
	print_rest(out, view, dir);
}

void command_print_events(FILE *out, const struct replay *replay, const char *options,
			  const char *dir)
{
	fprintf(out, "sonde events%s", options);
	print_choice(out, &replay->view->choice, NULL);
	print_time(out, replay->from_ns, replay->view->time.to_ns);
	print_rest(out, replay->view, dir);
}

void command_print_report(FILE *out, const struct replay *replay, const char *analysis,
			  const char *dir)
{
	const struct replay_view *view = replay->view;

	fprintf(out, "sonde report --analysis %s", analysis);
	print_vcpus(out, &view->choice.vcpus);
	if (view->since_init)
		fputs(" --since init", out);
	print_time(out, view->time.from_ns, view->time.to_ns);
	print_rest(out, view, dir);
}
