/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "formats/base/clock.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/event/graph.h"
#include "formats/graph/graph-json.h"
#include "formats/graph/graph-text.h"
#include "formats/report/choice-text.h"
#include "formats/report/event-hints.h"
#include "formats/report/event-selection.h"
#include "formats/report/event-text.h"
#include "formats/report/trace-text.h"
#include "formats/syscalls/syscall-text.h"

enum { LABEL = 7, FOLLOW_MS = 250, LOOK_MS = 1000 };

struct options {
	struct event_choice choice;
	const char *kernel, *debug_file, *only;
	bool lines, json, follow, graph, syscalls;
	uint64_t depth;
	struct cli_time_range time;
};

static const struct cli_option option_table[] = {
	{.name = "time",
	 .letter = 't',
	 .value = "FROM,TO",
	 .help = "only events from FROM to before TO seconds of the trace clock;\n"
		 "either may be left out",
	 .store = cli_store_time_range,
	 .offset = offsetof(struct options, time)},
	{.name = "graph",
	 .letter = 'g',
	 .help = "print the calls of the graph tracer as function_graph does, or as\n"
		 "objects with --json; --filter may then be on duration and self (ns),\n"
		 "depth and ret, too",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, graph)},
	{.name = "depth",
	 .letter = 'd',
	 .value = "N",
	 .help = "with --graph: only calls with fewer than N others around them",
	 .store = cli_store_number,
	 .offset = offsetof(struct options, depth),
	 .min = 1,
	 .max = UINT32_MAX},
	{.name = "only",
	 .letter = 'o',
	 .value = "GLOB",
	 .help = "with --graph: only calls of functions with these names, and the calls\n"
		 "in them: vfs_read, '__x64_sys_*'",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, only)},
	{.name = "syscalls",
	 .letter = 's',
	 .help = "print the calls of the syscalls tracer, with arguments, result and\n"
		 "duration; --filter is then on name, pid, tgid, comm, cgroup, arg0 to\n"
		 "arg5, ret and duration (ns)",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, syscalls)},
	{.name = "follow",
	 .letter = 'F',
	 .help = "go on while the trace is being recorded, until its end or Ctrl-C",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, follow)},
	CLI_KERNEL_OPTION(struct options),
	CLI_LINES_OPTIONS(struct options, lines, debug_file),
	CLI_JSON_OPTION(struct options, "print a JSON object per line"),
	{.name = NULL},
};

static const struct cli_table tables[] = {
	{event_choice_options, offsetof(struct options, choice)}, {option_table, 0}, {NULL, 0}};

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
	struct graph_text *graph;      /* instead, with --graph */
	struct graph_json *graph_json; /* with --json, too */
	struct syscall_text *syscalls; /* instead, with --syscalls */
	struct call_filter *choice;    /* of these two, if the filters need it */
	const struct event_filters *filters;
	struct event_selection *selection;
	struct trace_outside outside;
	bool is_in_time;  /* an event is, whether it is printed or not */
	bool has_printed; /* a line for an event; calls know that themselves */
	/* With --follow: of the directory, at the last look; when to look again. */
	struct timespec changed;
	uint64_t next_look;
};

/* A view of one tracer's calls. Of calls it is one instance alone: those of several would be mixed
 * up. */
struct call_view {
	const char *option, *tracer;
	bool (*has)(const struct trace_instance *instance);
};

/* NULL: all events. */
static const struct call_view *call_view_of(const struct options *o)
{
	static const struct call_view graph = {"--graph", "graph", graph_is_of},
				      syscalls = {"--syscalls", "syscalls", syscall_is_of};

	if (o->syscalls)
		return &syscalls;
	return o->graph ? &graph : NULL;
}

/* The instance whose calls are asked for. */
static int find_instance(const struct options *o, const struct trace_instance *instances, size_t n,
			 const struct trace_instance **out, struct error *err)
{
	const struct call_view *view = call_view_of(o);

	*out = NULL;
	for (size_t i = 0; i < n; i++) {
		if (!event_choice_has_instance(&o->choice, instances[i].name) ||
		    !view->has(&instances[i]))
			continue;
		if (*out)
			return error_set(err, EINVAL,
					 "%s: several instances have calls: choose one, as "
					 "with --instance=%s",
					 view->option, (*out)->name);
		*out = &instances[i];
	}
	if (*out)
		return 0;
	return error_set(err, ENOENT, "%s: no instance of the %s tracer%s%s", view->option,
			 view->tracer,
			 o->choice.instances.n ? " has the name " : " is in the trace",
			 o->choice.instances.n ? o->choice.instances.words[0] : "");
}

static int select_syscalls(struct listing *l, const struct trace_instance *instance,
			   struct error *err)
{
	const struct syscall_text_options options = {
		.json = l->options->json,
		.filters = l->filters,
		.vcpus = &l->options->choice.vcpus,
		.instance = instance,
		.prototypes = sidecar_prototypes(trace_reader_sidecar(l->reader), instance->name)};

	return syscall_text_create(stdout, l->texts, &options, &l->syscalls, err);
}

/*
 * Filters are on the entries of calls, so that a call that is left out is not around others. Those
 * that entries do not suit, as on a duration, are on calls that have ended.
 */
static int select_calls(struct listing *l, struct event_wish *wish,
			const struct trace_instance *instances, size_t n, struct error *err)
{
	int ret = event_selection_create(wish, instances, n, l->texts, &l->selection, err);

	if (ret != -ENOENT || !wish->filters->n)
		return ret;
	ret = graph_choice_create(wish->filters, wish->instance, l->texts, &l->choice, err);
	if (ret)
		return ret;
	if (l->graph)
		graph_text_choose(l->graph, l->choice);
	else
		graph_json_choose(l->graph_json, l->choice);
	wish->filters = NULL;
	return event_selection_create(wish, instances, n, l->texts, &l->selection, err);
}

static int select_events(struct listing *l, struct error *err)
{
	const struct options *o = l->options;
	struct event_wish wish = event_choice_wish(&o->choice, l->filters);
	size_t nr_instances;
	const struct trace_instance *instances = trace_reader_instances(l->reader, &nr_instances);
	int ret = cli_vcpus_check(&o->choice.vcpus, trace_reader_vcpu_end(l->reader), err);

	wish.graph = o->graph;
	if (!ret && call_view_of(o))
		ret = find_instance(o, instances, nr_instances, &wish.instance, err);
	if (!ret && o->syscalls) {
		ret = select_syscalls(l, wish.instance, err);
		wish = (struct event_wish){.instance = wish.instance};
	}
	if (ret)
		return ret;
	if (o->graph)
		return select_calls(l, &wish, instances, nr_instances, err);
	return event_selection_create(&wish, instances, nr_instances, l->texts, &l->selection, err);
}

static int put_event(struct listing *l, const struct event *event)
{
	if (l->syscalls)
		return syscall_text_put(l->syscalls, event);
	if (l->graph_json)
		return graph_json_put(l->graph_json, event);
	if (l->graph)
		return graph_text_put(l->graph, event);
	l->has_printed = true;
	return event_printer_put(l->printer, event);
}

static bool has_printed(const struct listing *l)
{
	if (l->syscalls)
		return syscall_text_has_printed(l->syscalls);
	if (l->graph_json)
		return graph_json_has_printed(l->graph_json);
	return l->graph ? graph_text_has_printed(l->graph) : l->has_printed;
}

/* Whether an event is before the time that is chosen. */
static bool is_early(struct listing *l, const struct event *event)
{
	const bool early = event->ns < l->options->time.from_ns;

	if (early)
		trace_outside_before(&l->outside, event->ns);
	l->is_in_time |= !early;
	return early;
}

/* Returns 0 at the end, 1 if the rest is not asked for, -errno. */
static int print_events(struct listing *l, struct error *err)
{
	struct event event;
	int ret;

	while ((ret = trace_reader_next(l->reader, &event, err)) > 0) {
		if (event.ns >= l->options->time.to_ns) {
			trace_outside_after(&l->outside, event.ns);
			return 1;
		}
		if (is_early(l, &event) || !event_selection_has(l->selection, &event))
			continue;
		ret = put_event(l, &event);
		if (ret == -ENOMEM)
			return error_set(err, ENOMEM, "out of memory");
		if (ret)
			return error_set(err, -ret, "cannot write to standard output: %s",
					 strerror(-ret));
	}
	return ret < 0 ? ret : 0;
}

static int flush(struct listing *l, struct error *err)
{
	int ret = l->printer ? event_printer_flush(l->printer) : 0;

	if (!ret && (fflush(stdout) || ferror(stdout)))
		ret = errno ? -errno : -EIO;
	return ret ? error_set(err, -ret, "cannot write to standard output: %s", strerror(-ret))
		   : 0;
}

static int open_listing(struct listing *l, const char *dir, struct error *err)
{
	struct graph_text_options graph = {.max_depth = (unsigned int)l->options->depth,
					   .only = l->options->only};
	int ret = trace_reader_open(dir, &l->reader, err);

	if (ret)
		return ret;
	if (l->options->kernel)
		ret = trace_reader_name_functions(l->reader, l->options->kernel, err);
	if (!ret && (l->options->lines || l->options->debug_file))
		ret = trace_reader_add_lines(l->reader, l->options->debug_file, err);
	if (!ret)
		ret = event_texts_create(trace_reader_sidecar(l->reader), &l->texts, err);
	if (ret)
		return ret;
	graph.stack_bytes = sidecar_stack_bytes(trace_reader_sidecar(l->reader));
	if (l->options->graph && l->options->json)
		return graph_json_create(stdout, l->texts, &graph, &l->graph_json, err);
	if (l->options->graph)
		return graph_text_create(stdout, l->texts, &graph, &l->graph, err);
	if (l->options->syscalls)
		return 0;
	return event_printer_create(STDOUT_FILENO, l->options->json, l->texts, &l->printer, err);
}

static void close_listing(struct listing *l)
{
	event_selection_destroy(l->selection);
	event_printer_destroy(l->printer);
	graph_text_destroy(l->graph);
	graph_json_destroy(l->graph_json);
	call_filter_destroy(l->choice);
	syscall_text_destroy(l->syscalls);
	event_texts_destroy(l->texts);
	trace_reader_close(l->reader);
}

/* --- following ------------------------------------------------------------------------------- */

/* Whether files have come or changed since the last time, which is some time ago. */
static bool has_changed(struct listing *l, const char *dir, bool at_once)
{
	const uint64_t now = clock_monotonic_ms();
	struct timespec before = l->changed;
	struct stat st;

	if ((!at_once && now < l->next_look) || stat(dir, &st))
		return false;
	l->next_look = now + LOOK_MS;
	l->changed = st.st_mtim;
	return before.tv_sec != st.st_mtim.tv_sec || before.tv_nsec != st.st_mtim.tv_nsec;
}

/* `next` goes on where `l` is. */
static int hand_over(struct listing *l, struct listing *next, struct error *err)
{
	int ret = select_events(next, err);

	if (!ret)
		ret = trace_reader_skip(next->reader, l->reader, err);
	if (ret)
		return ret;
	close_listing(l);
	*l = *next;
	return 0;
}

/*
 * Instances that were added have streams, classes and names that only a reader knows which is
 * opened later. A view of calls is one of an instance that was there.
 */
static int take_new_streams(struct listing *l, const char *dir, bool at_once, struct error *err)
{
	struct listing next = {.options = l->options, .filters = l->filters};
	int ret = 0;

	if (call_view_of(l->options) || !has_changed(l, dir, at_once))
		return 0;
	next.changed = l->changed;
	next.next_look = l->next_look;
	if (!open_listing(&next, dir, NULL) &&
	    trace_reader_nr_streams(next.reader) > trace_reader_nr_streams(l->reader)) {
		ret = hand_over(l, &next, err);
		if (!ret)
			return 0;
	}
	close_listing(&next);
	return ret;
}

/* Returns as print_events(). When the writer has ended, what it wrote last is looked for once
 * more. */
static int follow_events(struct listing *l, const char *dir, struct error *err)
{
	for (bool alive = true;;) {
		int ret = take_new_streams(l, dir, !alive, err);
		const int now = ret ? ret : trace_reader_follow(l->reader, err);

		if (now < 0)
			return now;
		ret = now || !alive ? print_events(l, err) : 0;
		if (!ret)
			ret = flush(l, err);
		if (ret || !alive)
			return ret;
		alive = now;
		if (alive)
			clock_wait_ms(FOLLOW_MS);
	}
}

/* What leaves nothing to print. */
static void note_nothing(const struct listing *l)
{
	const struct options *o = l->options;
	const struct option_given given[] = {
		{!cli_time_is_all(&o->time), "--time"},    {o->only != NULL, "--only"},
		{o->choice.instances.n > 0, "--instance"}, {o->choice.events.n > 0, "--event"},
		{o->choice.filters.n > 0, "--filter"},     {o->choice.vcpus.some, "--vcpu"}};
	const struct chosen_time time = {o->time, "--time", false, o->time.from_ns};
	const struct text choose = options_choose_text(given, sizeof(given) / sizeof(given[0]));

	if (o->follow || has_printed(l))
		return;
	if (!l->is_in_time && (l->outside.before || l->outside.is_after))
		cli_note(verb.name, "%s", text_outside(&l->outside, &time).s);
	else if (*choose.s)
		cli_note(verb.name, "no %s is one that %s", call_view_of(o) ? "call" : "event",
			 choose.s);
}

/* What is missing is said behind the events, on standard error. */
static int print_trace(struct listing *l, const char *dir)
{
	struct error err, late;
	int ret = open_listing(l, dir, &err), flushed, ended = 0;

	if (!ret && select_events(l, &err))
		return cli_usage_error(verb.name, &err);
	if (!ret && !l->options->follow) {
		event_hints_print(verb.name, l->selection, trace_reader_sidecar(l->reader));
		trace_reader_read_ahead(l->reader, TRACE_READER_ALL_CPUS);
	}
	if (!ret)
		ret = l->options->follow ? follow_events(l, dir, &err) : print_events(l, &err);
	if (ret < 0 && l->reader) /* else the reader has named it */
		error_prefix(&err, "%s: ", dir);
	if (l->graph)
		ended = graph_text_end(l->graph, &late);
	if (ret >= 0 && l->graph_json)
		ended = graph_json_end(l->graph_json, &late);
	if (ret >= 0 && l->syscalls && syscall_text_end(l->syscalls))
		ret = error_set(&err, ENOMEM, "out of memory");
	flushed = flush(l, ret < 0 ? NULL : &err);
	if (ret < 0 || flushed)
		return cli_error(verb.name, &err);
	if (!ended)
		note_nothing(l);
	text_print_losses_if_any(stderr, l->reader, LABEL);
	return ended ? cli_error(verb.name, &late) : CLI_OK;
}

int cmd_events(int argc, char **argv)
{
	struct options options = {.time = CLI_ALL_TIME};
	struct event_filters filters = {0};
	struct listing listing = {.options = &options, .filters = &filters};
	struct error err;
	int ret = cli_parse(&verb, argc, argv, &options);

	if (ret)
		return ret - 1;
	if (optind != argc - 1)
		return cli_usage(verb.name, "name one trace directory; see 'sonde events --help'");
	if (options.syscalls && (options.graph || options.choice.events.n))
		return cli_usage(verb.name,
				 "--syscalls prints calls: leave out --graph and --event");
	if (options.depth && !options.graph)
		return cli_usage(verb.name, "--depth belongs to --graph");
	if (options.only && !options.graph)
		return cli_usage(verb.name, "--only belongs to --graph");
	if (event_filters_parse(options.choice.filters.words, options.choice.filters.n, &filters,
				&err))
		return cli_usage_error(verb.name, &err);
	ret = print_trace(&listing, argv[optind]);
	close_listing(&listing);
	event_filters_deinit(&filters);
	return ret;
}
