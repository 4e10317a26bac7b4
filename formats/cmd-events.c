/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <errno.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/event/kmem.h"
#include "formats/report/event-text.h"
#include "formats/report/trace-text.h"

enum { MAX_VCPUS = 4096 };

struct options {
	const char *event, *filter;
	bool json, some_vcpus;
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
	{.name = "json",
	 .letter = 'j',
	 .help = "print a JSON object per line",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, json)},
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

/* What is to be printed of one class. */
struct selection {
	bool wanted;
	struct event_predicate *predicate; /* NULL: all */
};

struct listing {
	const struct options *options;
	struct trace_reader *reader;
	struct event_texts *texts;
	struct event_printer *printer;
	struct event_filter *filter;
	struct selection *classes; /* as many as kmem_classes */
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

	for (size_t i = 0; i < KMEM_NR_CLASSES; i++) {
		struct selection *s = &l->classes[i];
		struct error why;

		if (!name_matches(&kmem_classes[i], l->options->event))
			continue;
		named = true;
		s->wanted = !l->filter ||
			    !event_filter_bind(l->filter, &kmem_classes[i],
					       event_texts_names(l->texts), &s->predicate, &why);
		bound |= s->wanted;
		if (!s->wanted && !first.code)
			first = why;
	}
	if (!named)
		return error_set(err, ENOENT, "--event: no event has the name '%s'",
				 l->options->event);
	if (bound)
		return 0;
	*err = first;
	return -first.code;
}

static bool is_wanted(const struct listing *l, const struct event *event)
{
	const struct options *o = l->options;
	const struct selection *s = &l->classes[event->class - kmem_classes];

	if (!s->wanted || event->ns < o->from_ns || event->ns >= o->to_ns)
		return false;
	if (o->some_vcpus && (event->vcpu >= MAX_VCPUS || !o->vcpus[event->vcpu]))
		return false;
	return !s->predicate || event_predicate_matches(s->predicate, event);
}

static int print_events(struct listing *l, struct error *err)
{
	struct trace_event in;
	int ret;

	while ((ret = trace_reader_next(l->reader, &in, err)) > 0) {
		const struct event event = {.class = in.class,
					    .vcpu = in.vcpu,
					    .ns = in.record.timestamp,
					    .bytes = &in.record};

		if (event.ns >= l->options->to_ns)
			break;
		if (!is_wanted(l, &event))
			continue;
		ret = event_printer_put(l->printer, &event);
		if (ret)
			return error_set(err, -ret, "cannot write to standard output: %s",
					 strerror(-ret));
	}
	return ret < 0 ? ret : 0;
}

static int open_listing(struct listing *l, const char *dir, struct error *err)
{
	int ret = trace_reader_open(dir, &l->reader, err);

	if (ret)
		return ret;
	l->classes = calloc(KMEM_NR_CLASSES, sizeof(*l->classes));
	if (!l->classes)
		return error_set(err, ENOMEM, "out of memory");
	ret = event_texts_create(trace_reader_sidecar(l->reader), &l->texts, err);
	if (ret)
		return ret;
	return event_printer_create(STDOUT_FILENO, l->options->json, l->texts, &l->printer, err);
}

static void close_listing(struct listing *l)
{
	for (size_t i = 0; l->classes && i < KMEM_NR_CLASSES; i++)
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
		ret = print_events(l, &err);
	if (ret)
		error_prefix(&err, "%s: ", dir);
	flushed = l->printer ? event_printer_flush(l->printer) : 0;
	if (!ret && flushed)
		ret = error_set(&err, -flushed, "cannot write to standard output: %s",
				strerror(-flushed));
	if (ret)
		return cli_error(verb.name, &err);
	text_print_losses(stderr, l->reader, 6);
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
