/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/report/event-selection.h"
#include "formats/report/event-text.h"
#include "formats/report/trace-text.h"

enum { LABEL = 6, FOLLOW_MS = 250 };

struct options {
	const char *event, *filter, *kernel;
	bool json, follow;
	struct cli_vcpus vcpus;
	struct cli_time_range time;
};

static const struct cli_option option_table[] = {
	{.name = "event",
	 .letter = 'e',
	 .value = "GLOB",
	 .help = "only events whose name matches: kmem:kmalloc, 'mm_page_*'",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, event)},
	{.name = "filter",
	 .letter = 'f',
	 .value = "EXPR",
	 .help = "only events whose fields match, in ftrace's grammar:\n"
		 "'bytes_req > 4096 && call_site ~ \"ext4_*\"'",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, filter)},
	CLI_VCPU_OPTION(struct options, "only events of these vCPUs: 0,2-3"),
	{.name = "time",
	 .letter = 't',
	 .value = "FROM,TO",
	 .help = "only events from FROM to before TO seconds of the trace clock;\n"
		 "either may be left out",
	 .store = cli_store_time_range,
	 .offset = offsetof(struct options, time)},
	{.name = "follow",
	 .letter = 'F',
	 .help = "go on while the trace is being recorded, until its end or Ctrl-C",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, follow)},
	CLI_KERNEL_OPTION(struct options),
	CLI_JSON_OPTION(struct options, "print a JSON object per line"),
	{.name = NULL},
};

static const struct cli_table tables[] = {{option_table, 0}, {NULL, 0}};

static const struct cli_verb verb = {
	.name = "events",
	.usage = "usage: sonde events [OPTION]... DIR\n"
		 "\n"
		 "Print the events of the trace DIR in the order of time, a line each.\n",
	.tables = tables,
};

struct listing {
	const struct options *options;
	struct trace_reader *reader;
	struct event_texts *texts;
	struct event_printer *printer;
	struct event_filter *filter;
	struct event_selection *selection;
};

static int select_events(struct listing *l, struct error *err)
{
	const struct event_wish wish = {
		.event = l->options->event, .filter = l->filter, .vcpus = &l->options->vcpus};
	size_t nr_instances;
	const struct trace_instance *instances = trace_reader_instances(l->reader, &nr_instances);

	return event_selection_create(&wish, instances, nr_instances, l->texts, &l->selection, err);
}

/* Returns 0 at the end, 1 if the rest is not asked for, -errno. */
static int print_events(struct listing *l, struct error *err)
{
	struct event event;
	int ret;

	while ((ret = trace_reader_next(l->reader, &event, err)) > 0) {
		if (event.ns >= l->options->time.to_ns)
			return 1;
		if (event.ns < l->options->time.from_ns ||
		    !event_selection_has(l->selection, &event))
			continue;
		ret = event_printer_put(l->printer, &event);
		if (ret)
			return error_set(err, -ret, "cannot write to standard output: %s",
					 strerror(-ret));
	}
	return ret < 0 ? ret : 0;
}

static int flush(struct listing *l, struct error *err)
{
	int ret = event_printer_flush(l->printer);

	return ret ? error_set(err, -ret, "cannot write to standard output: %s", strerror(-ret))
		   : 0;
}

/* Returns as print_events(). */
static int follow_events(struct listing *l, struct error *err)
{
	for (;;) {
		int alive = trace_reader_follow(l->reader, err);
		int ret = alive < 0 ? alive : print_events(l, err);

		if (!ret)
			ret = flush(l, err);
		if (ret || !alive)
			return ret;
		clock_wait_ms(FOLLOW_MS);
	}
}

/* The reader that followed knows what was so when it was opened. */
static void print_losses(const struct listing *l, const char *dir)
{
	struct trace_reader *reader;

	if (!l->options->follow || trace_reader_open(dir, &reader, NULL)) {
		text_print_losses(stderr, l->reader, LABEL);
		return;
	}
	text_print_losses(stderr, reader, LABEL);
	trace_reader_close(reader);
}

static int open_listing(struct listing *l, const char *dir, struct error *err)
{
	int ret = trace_reader_open(dir, &l->reader, err);

	if (ret)
		return ret;
	if (l->options->kernel)
		ret = trace_reader_name_functions(l->reader, l->options->kernel, err);
	if (!ret)
		ret = event_texts_create(trace_reader_sidecar(l->reader), &l->texts, err);
	if (ret)
		return ret;
	return event_printer_create(STDOUT_FILENO, l->options->json, l->texts, &l->printer, err);
}

static void close_listing(struct listing *l)
{
	event_selection_destroy(l->selection);
	event_filter_destroy(l->filter);
	event_printer_destroy(l->printer);
	event_texts_destroy(l->texts);
	trace_reader_close(l->reader);
}

/* What is missing is said behind the events, on standard error. */
static int print_trace(struct listing *l, const char *dir)
{
	struct error err;
	int ret = open_listing(l, dir, &err), flushed;

	if (!ret && select_events(l, &err))
		return cli_usage(verb.name, "%s", err.text);
	if (!ret)
		ret = l->options->follow ? follow_events(l, &err) : print_events(l, &err);
	if (ret < 0 && l->reader) /* else the reader has named it */
		error_prefix(&err, "%s: ", dir);
	flushed = l->printer ? flush(l, ret < 0 ? NULL : &err) : 0;
	if (ret < 0 || flushed)
		return cli_error(verb.name, &err);
	print_losses(l, dir);
	return CLI_OK;
}

int cmd_events(int argc, char **argv)
{
	struct options options = {.time = CLI_ALL_TIME};
	struct listing listing = {.options = &options};
	struct error err;
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb.name, "name one trace directory; see 'sonde events --help'");
	if (options.filter && event_filter_parse(options.filter, &listing.filter, &err))
		return cli_usage(verb.name, "%s", err.text);
	ret = print_trace(&listing, argv[optind]);
	close_listing(&listing);
	return ret;
}
