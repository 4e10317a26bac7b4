/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <errno.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/event/kmem.h"
#include "formats/report/event-text.h"
#include "formats/report/trace-text.h"

enum { MAX_VCPUS = 4096, LABEL = 6, FOLLOW_MS = 250 };

struct options {
	const char *event, *filter, *kernel;
	bool json, follow, some_vcpus;
	bool vcpus[MAX_VCPUS];
	int64_t from_ns, to_ns;
};

/* "0,2-3" */
static int store_vcpus(const char *verb_name, const struct cli_option *option, const char *text,
		       void *field)
{
	struct options *o = field;
	const char *at = text;

	o->some_vcpus = true;
	memset(o->vcpus, 0, sizeof(o->vcpus));
	for (;;) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (end != at && *end == '-') {
			at = end + 1;
			last = strtoul(at, &end, 10);
		}
		if (end == at || first > last || last >= MAX_VCPUS || (*end && *end != ','))
			return cli_usage(verb_name, "%s: '%s' is not a list such as 0,2-3",
					 cli_label(option).text, text);
		for (unsigned long i = first; i <= last; i++)
			o->vcpus[i] = true;
		if (!*end)
			return CLI_OK;
		at = end + 1;
	}
}

/* One end of a range in seconds, up to `stop`; nothing leaves *ns alone. */
static bool parse_seconds(const char *text, const char *stop, int64_t *ns)
{
	const double ns_per_s = 1e9, most = 9e9;
	char *end;
	double seconds;

	if (text == stop)
		return true;
	seconds = strtod(text, &end);
	if (end != stop || !(seconds >= -most && seconds <= most))
		return false;
	*ns = (int64_t)(seconds * ns_per_s + (seconds < 0 ? -0.5 : 0.5));
	return true;
}

/* "5,10" */
static int store_time_range(const char *verb_name, const struct cli_option *option,
			    const char *text, void *field)
{
	struct options *o = field;
	const char *comma = strchr(text, ',');

	if (comma && parse_seconds(text, comma, &o->from_ns) &&
	    parse_seconds(comma + 1, comma + strlen(comma), &o->to_ns) && o->from_ns <= o->to_ns)
		return CLI_OK;
	return cli_usage(verb_name, "%s: '%s' is not a range of seconds such as 5,10 or 2.5,",
			 cli_label(option).text, text);
}

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
	{.name = "vcpu",
	 .letter = 'C',
	 .value = "LIST",
	 .help = "only events of these vCPUs: 0,2-3",
	 .store = store_vcpus},
	{.name = "time",
	 .letter = 't',
	 .value = "FROM,TO",
	 .help = "only events from FROM to before TO seconds of the trace clock;\n"
		 "either may be left out",
	 .store = store_time_range},
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

/* What is to be printed of one class of an instance. */
struct selection {
	const struct event_class *class;
	bool wanted;
	struct event_predicate *predicate; /* NULL: all */
};

struct listing {
	const struct options *options;
	struct trace_reader *reader;
	struct event_texts *texts;
	struct event_printer *printer;
	struct event_filter *filter;
	struct selection *classes; /* of all instances, in their order */
	size_t nr_classes;
	const struct selection *last; /* that was looked up */
};

static bool name_matches(const struct event_class *class, const char *glob)
{
	char name[128];

	snprintf(name, sizeof(name), "%s:%s", class->system, class->name);
	return !glob || !fnmatch(glob, name, 0) || !fnmatch(glob, class->name, 0);
}

/* Of classes that lack a field of the filter no event is wanted; one class has to have all. */
static int select_classes(struct listing *l, struct error *err)
{
	bool named = false, bound = false;
	struct error first = {0};

	for (size_t i = 0; i < l->nr_classes; i++) {
		struct selection *s = &l->classes[i];
		struct error why;

		if (!name_matches(s->class, l->options->event))
			continue;
		named = true;
		s->wanted = !l->filter ||
			    !event_filter_bind(l->filter, s->class, event_texts_names(l->texts),
					       &s->predicate, &why);
		bound |= s->wanted;
		if (!s->wanted && !first.code)
			first = why;
	}
	if (!named && l->options->event)
		return error_set(err, ENOENT, "--event: no event has the name '%s'",
				 l->options->event);
	if (bound || !first.code)
		return 0;
	*err = first;
	return -first.code;
}

/* Where an event's class is in the list: mostly where the last one's was. */
static const struct selection *selection_of(struct listing *l, const struct event_class *class)
{
	for (size_t i = 0; l->last->class != class && i < l->nr_classes; i++)
		if (l->classes[i].class == class)
			l->last = &l->classes[i];
	return l->last;
}

static bool is_wanted(struct listing *l, const struct event *event)
{
	const struct options *o = l->options;
	const struct selection *s = selection_of(l, event->class);

	if (!s->wanted || event->ns < o->from_ns || event->ns >= o->to_ns)
		return false;
	if (o->some_vcpus && (event->vcpu >= MAX_VCPUS || !o->vcpus[event->vcpu]))
		return false;
	return !s->predicate || event_predicate_matches(s->predicate, event);
}

/* Returns 0 at the end, 1 if the rest is not asked for, -errno. */
static int print_events(struct listing *l, struct error *err)
{
	struct event event;
	int ret;

	while ((ret = trace_reader_next(l->reader, &event, err)) > 0) {
		if (event.ns >= l->options->to_ns)
			return 1;
		if (!is_wanted(l, &event))
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

static int list_classes(struct listing *l, struct error *err)
{
	size_t nr_instances, n = 0;
	const struct trace_instance *instances = trace_reader_instances(l->reader, &nr_instances);

	for (size_t i = 0; i < nr_instances; i++)
		n += instances[i].nr_classes;
	l->classes = calloc(n + 1, sizeof(*l->classes));
	if (!l->classes)
		return error_set(err, ENOMEM, "out of memory");
	l->last = l->classes;
	for (size_t i = 0; i < nr_instances; i++)
		for (size_t c = 0; c < instances[i].nr_classes; c++)
			l->classes[l->nr_classes++].class = &instances[i].classes[c];
	return 0;
}

static int open_listing(struct listing *l, const char *dir, struct error *err)
{
	int ret = trace_reader_open(dir, &l->reader, err);

	if (ret)
		return ret;
	if (l->options->kernel)
		ret = trace_reader_name_functions(l->reader, l->options->kernel, err);
	if (!ret)
		ret = list_classes(l, err);
	if (!ret)
		ret = event_texts_create(trace_reader_sidecar(l->reader), &l->texts, err);
	if (ret)
		return ret;
	return event_printer_create(STDOUT_FILENO, l->options->json, l->texts, &l->printer, err);
}

static void close_listing(struct listing *l)
{
	for (size_t i = 0; i < l->nr_classes; i++)
		event_predicate_destroy(l->classes[i].predicate);
	free(l->classes);
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

	if (!ret && select_classes(l, &err))
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
	struct options options = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
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
