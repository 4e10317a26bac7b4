/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/cmd.h"

#include <getopt.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "formats/report/since-init.h"
#include "formats/base/fs.h"
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/export/export.h"
#include "formats/part/part.h"
#include "formats/report/event-hints.h"
#include "formats/report/trace-text.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"

enum { MAX_FORMATS = 32, NOT_GIVEN = -1, MAX_HOST = 255 /* bytes */, LABEL = 7 };

/* What --to takes: the encodings of traces, then the exports. Filled in by list_formats(). */
static const char *formats[MAX_FORMATS + 1];

struct options {
	const char *output, *kernel, *debug_file, *host;
	struct event_choice choice;
	struct cli_time_range time;
	bool since_init;
	unsigned int format; /* index of `formats`, or NOT_GIVEN */
	unsigned int value;  /* enum export_value, or NOT_GIVEN */
	bool force, lines;
};

static const struct cli_option option_table[] = {
	{.name = "to",
	 .letter = 't',
	 .value = "FORMAT",
	 .help = "a trace, of which OUT is a new directory:\n"
		 "  ctf         Common Trace Format 1.8, for babeltrace2, Trace Compass\n"
		 "  kmemtrace   the ABI of 2008\n"
		 "or an export, of which OUT is a file:\n"
		 "  trace.dat   for trace-cmd and KernelShark\n"
		 "  perfetto    for ui.perfetto.dev and trace_processor\n"
		 "  jsonl       a JSON object per line and event\n"
		 "  csv         a row per event\n"
		 "  folded      stacks and their values, for flamegraph.pl and speedscope\n"
		 "  flamegraph  those as an SVG image\n"
		 "  pprof       a gzipped profile, for pprof\n"
		 "or a table for databases, see sonde-schema(5):\n"
		 "  parquet, rowbinary              a row per event\n"
		 "  parquet-sites, rowbinary-sites  a row per call site",
	 .store = cli_store_choice,
	 .words = formats,
	 .offset = offsetof(struct options, format)},
	{.name = "output",
	 .letter = 'o',
	 .value = "OUT",
	 .help = "directory, new or empty; or file, new; -: standard output",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, output)},
	{.name = "value",
	 .letter = 'v',
	 .value = "VALUE",
	 .help = "what folded, flamegraph and pprof show: count, of events (default);\n"
		 "bytes, that were allocated; live, bytes that were not freed;\n"
		 "time, of calls of graph and syscalls",
	 .store = cli_store_choice,
	 .words = export_value_names,
	 .offset = offsetof(struct options, value)},
	{.name = "host",
	 .value = "NAME",
	 .help = "what the column host of a table says (default: empty)",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, host)},
	CLI_KERNEL_OPTION(struct options),
	CLI_LINES_OPTIONS(struct options, lines, debug_file),
	{.name = "force",
	 .help = "replace the file OUT",
	 .store = cli_store_flag,
	 .offset = offsetof(struct options, force)},
	{.name = NULL},
};

static const struct cli_option time_options[] = {
	{.name = "time",
	 .value = "FROM,TO",
	 .help = "only events from FROM to before TO seconds of the trace clock, and\n"
		 "what was live then; either may be left out",
	 .store = cli_store_time_range,
	 .offset = offsetof(struct options, time)},
	CLI_SINCE_OPTION(struct options, since_init),
	{.name = NULL},
};

static const struct cli_table tables[] = {{option_table, 0},
					  {event_choice_options, offsetof(struct options, choice)},
					  {time_options, 0},
					  {NULL, 0}};

static const struct cli_verb verb = {
	.name = "convert",
	.usage = "usage: sonde convert DIR --to FORMAT -o OUT\n"
		 "\n"
		 "Write the trace DIR in FORMAT to OUT.\n",
	.tables = tables,
	.notes = "Of a trace that was cut off, what is readable is converted. From ctf to ctf\n"
		 "makes a whole trace of one that other readers refuse.\n",
};

static void list_formats(void)
{
	size_t n = 0;

	for (size_t i = 0; trace_encoding_names[i] && n < MAX_FORMATS; i++)
		formats[n++] = trace_encoding_names[i];
	for (size_t i = 0; exporter_names[i] && n < MAX_FORMATS; i++)
		formats[n++] = exporter_names[i];
}

static int check_value(const struct options *options)
{
	const struct exporter_ops *ops = exporter_find(formats[options->format]);

	if (options->value == (unsigned int)NOT_GIVEN || (ops && ops->takes_value))
		return CLI_OK;
	return cli_usage(verb.name, "--value: %s has all values, or none; leave it out",
			 formats[options->format]);
}

/* A call is two events, perhaps of two vCPUs, and what is between them. */
static int check_calls(const struct options *options)
{
	const struct event_choice *choice = &options->choice;

	if (options->value != EXPORT_TIME ||
	    (!choice->events.n && !choice->filters.n && !choice->vcpus.some))
		return CLI_OK;
	return cli_usage(verb.name, "--value time is of whole calls: leave out --event, --filter "
				    "and --vcpu");
}

static int check_host(const struct options *options)
{
	const struct exporter_ops *ops = exporter_find(formats[options->format]);
	char clean[MAX_HOST + 1];

	if (!options->host)
		return CLI_OK;
	if (!ops || !ops->takes_host)
		return cli_usage(verb.name, "--host: only tables have such a column");
	clean_text(clean, sizeof(clean), options->host);
	if (strcmp(clean, options->host))
		return cli_usage(verb.name, "--host takes up to %d ASCII characters", MAX_HOST);
	return CLI_OK;
}

static int check_lines(const struct options *options)
{
	const struct exporter_ops *ops = exporter_find(formats[options->format]);

	if ((!options->lines && !options->debug_file) || (ops && ops->takes_lines))
		return CLI_OK;
	return cli_usage(verb.name, "--lines: %s has no room for places in the source",
			 formats[options->format]);
}

static int check_options(const struct options *options, int nr_operands)
{
	if (nr_operands != 1)
		return cli_usage(verb.name, "name one trace directory; see 'sonde convert --help'");
	if (options->format == (unsigned int)NOT_GIVEN)
		return cli_usage(verb.name, "add --to FORMAT: %s", text_words(formats).s);
	if (!options->output)
		return cli_usage(verb.name, "add -o OUT, the directory or file to write");
	if (options->force && !exporter_find(formats[options->format]))
		return cli_usage(verb.name,
				 "--force: a directory is never replaced; name a new one");
	if (path_is_stdout(options->output) && !exporter_find(formats[options->format]))
		return cli_usage(verb.name, "-o -: a trace is a directory; name a new one");
	if (check_host(options) || check_lines(options) || check_calls(options))
		return CLI_USAGE;
	return check_value(options);
}

static void print_result(const struct trace_reader *reader, const struct options *options,
			 const struct trace_part *part, const struct copy_result *result)
{
	const bool is_all = trace_part_is_all(part), on_stdout = path_is_stdout(options->output);
	struct trace_losses losses; /* of the whole trace, while the result has those of a copy */

	trace_reader_losses(reader, &losses);
	fprintf(stderr, "sonde convert: %s %s %s\n", text_number(result->events, "record").s,
		on_stdout ? "on" : "in", on_stdout ? "standard output" : options->output);
	if (!is_all)
		fprintf(stderr, "sonde convert: a part of the trace, %s\n",
			trace_part_text(part).s);
	if (*result->missing.s)
		fprintf(stderr, "sonde convert: %s from the sums\n", result->missing.s);
	if (*result->overlap.s)
		fprintf(stderr, "sonde convert: the sums are %s: --instance chooses one\n",
			result->overlap.s);
	if (*result->left_out.s)
		fprintf(stderr, "sonde convert: left out, as the format has no room for it: %s\n",
			result->left_out.s);
	if (!is_all && (counters_are_lossy(&losses.counters) || *text_missing(reader).s))
		fprintf(stderr, "sonde convert: missing from the whole trace:\n");
	text_print_losses_if_any(stderr, reader, LABEL);
}

static int write_export(const struct exporter_ops *ops, struct trace_reader *reader,
			const struct options *options, struct trace_part *part,
			struct copy_result *result, struct error *err)
{
	const struct export_options chosen = {.value = options->value == (unsigned int)NOT_GIVEN
							       ? EXPORT_COUNT
							       : (enum export_value)options->value,
					      .host = options->host ? options->host : "",
					      .part = part};
	int ret = export_trace(ops, reader, options->output, options->force, &chosen,
			       &result->events, err);

	if (ret)
		return ret;
	trace_reader_losses(reader, &result->losses);
	result->overlap = export_overlap(ops, reader, part, chosen.value);
	if (export_has_sums(ops, reader, part))
		result->missing = text_missing(reader);
	return 0;
}

/* Names and places that the trace itself has not. */
static int add_names(struct trace_reader *reader, const struct options *options, struct error *err)
{
	int ret = 0;

	if (options->kernel)
		ret = trace_reader_name_functions(reader, options->kernel, err);
	if (!ret && (options->lines || options->debug_file))
		ret = trace_reader_add_lines(reader, options->debug_file, err);
	return ret;
}

/* The time in which events are wanted. */
static int find_time(const char *source, const struct trace_reader *reader,
		     const struct options *options, struct cli_time_range *out, struct error *err)
{
	int64_t init_ns;
	int ret;

	*out = options->time;
	if (!options->since_init)
		return 0;
	ret = since_init_find(source, trace_reader_sidecar(reader), &init_ns, err);
	if (!ret && init_ns > out->from_ns)
		out->from_ns = init_ns;
	return ret;
}

static int convert_part(struct trace_reader *reader, const struct options *options,
			struct trace_part *part)
{
	const struct exporter_ops *ops = exporter_find(formats[options->format]);
	const struct chosen_time time = {options->time, "--time", options->since_init,
					 part->time.from_ns};
	struct copy_result result = {0};
	struct error err;
	int ret;

	trace_reader_read_ahead(reader, TRACE_READER_ALL_CPUS);
	ret = ops ? write_export(ops, reader, options, part, &result, &err)
		  : part_copy(reader, options->output, options->format, part, &result, &err);
	if (ret)
		return cli_error(verb.name, &err);
	print_result(reader, options, part, &result);
	if (!result.events && part->outside.before == part->read &&
	    (part->read || part->outside.is_after))
		cli_note(verb.name, "%s", text_outside(&part->outside, &time).s);
	return CLI_OK;
}

static int convert(const char *source, const struct options *options)
{
	const struct exporter_ops *ops = exporter_find(formats[options->format]);
	struct trace_part part = {0};
	struct cli_time_range time;
	struct trace_reader *reader;
	struct error err;
	int ret = trace_reader_open(source, &reader, &err);

	if (ret)
		return cli_error(verb.name, &err);
	ret = add_names(reader, options, &err);
	if (!ret)
		ret = find_time(source, reader, options, &time, &err);
	if (ret) {
		ret = cli_error(verb.name, &err);
	} else if (trace_part_init(&part, reader, &options->choice, &time, ops && ops->select,
				   &err)) {
		ret = cli_usage_error(verb.name, &err);
	} else {
		if (part.selection)
			event_hints_print(verb.name, part.selection, trace_reader_sidecar(reader));
		ret = convert_part(reader, options, &part);
	}
	trace_part_deinit(&part);
	trace_reader_close(reader);
	return ret;
}

int cmd_convert(int argc, char **argv)
{
	struct options options = {.format = (unsigned int)NOT_GIVEN,
				  .value = (unsigned int)NOT_GIVEN,
				  .time = CLI_ALL_TIME};
	int ret;

	list_formats();
	ret = cli_parse(&verb, argc, argv, &options);
	if (ret)
		return ret - 1;
	ret = check_options(&options, argc - optind);
	return ret ? ret : convert(argv[optind], &options);
}
