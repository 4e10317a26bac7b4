/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/text.h"
#include "formats/cmd.h"

#include <getopt.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/cli/cli.h"
#include "formats/cli/options.h"
#include "formats/export/export.h"
#include "formats/report/trace-text.h"
#include "formats/trace/reader.h"
#include "formats/trace/writer.h"

/* --- the copy -------------------------------------------------------------------------------- */

struct convert_result {
	uint64_t records;
	struct trace_losses losses; /* of the source */
	bool cut;                   /* the source ended too early */
	struct text missing;        /* from sums over events; "" of what has none */
	bool damaged;               /* what describes it is */
};

struct conversion {
	struct trace_reader *reader;
	struct trace_writer *writer;
	const struct trace_instance *instances; /* of the source */
	size_t nr_instances;
	const char *only; /* the one instance that is copied; NULL: all are */
	/* As they are in the copy; those that are not there have no number. */
	struct trace_instance copies[TRACE_INSTANCES_MAX];
	unsigned int numbers[TRACE_INSTANCES_MAX];
	uint8_t adopted[(UINT16_MAX + 1) / 8]; /* bit set of cache ids */
};

static int adopt(struct conversion *c, const struct sidecar_cache *cache)
{
	uint8_t bit = (uint8_t)(1u << cache->id % 8);

	if (c->adopted[cache->id / 8] & bit)
		return 0;
	c->adopted[cache->id / 8] |= bit;
	return trace_writer_adopt_cache(c->writer, cache);
}

/* Adopt a cache that an event names and the sidecar did not have at first. */
static int adopt_one(struct conversion *c, uint16_t id)
{
	const struct sidecar_cache *cache = NULL;

	if (id && !(c->adopted[id / 8] & 1u << id % 8))
		cache = sidecar_cache(trace_reader_sidecar(c->reader), id);
	return cache ? adopt(c, cache) : 0;
}

static int adopt_all(struct conversion *c)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	int ret = 0;

	for (size_t i = 0; !ret && sidecar && i < sidecar->nr_caches; i++)
		ret = adopt(c, &sidecar->caches[i]);
	return ret;
}

/* Caches that the event names. */
static int adopt_caches(struct conversion *c, const struct event *event)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < event->class->nr_fields; i++) {
		const struct event_field *field = &event->class->fields[i];

		if (field->type == EVENT_DICTIONARY)
			ret = adopt_one(c, (uint16_t)event_field_value(field, event->bytes));
	}
	return ret;
}

static bool is_copied(const struct conversion *c, size_t instance)
{
	return !c->only || !strcmp(c->instances[instance].name, c->only);
}

static int copy_event(struct conversion *c, const struct event *event)
{
	size_t number = (size_t)(event->instance - c->instances);
	bool is_kmem = c->copies[number].classes == kmem_classes && event->class->known;
	unsigned int class_index =
		(unsigned int)(is_kmem ? event->class->known - kmem_classes
				       : event->class - event->instance->classes);
	struct event_sink *sink = trace_writer_sink(c->writer, c->numbers[number], event->vcpu);
	struct event_batch batch = {0};
	int ret;

	ret = event_batch_put(&batch, sink, class_index, event->ns, event->bytes);
	event_batch_end(&batch);
	return ret;
}

static int copy_events(struct conversion *c, struct convert_result *result, struct error *err)
{
	struct event event;
	int ret;

	while ((ret = trace_reader_next(c->reader, &event, err)) > 0) {
		if (!is_copied(c, (size_t)(event.instance - c->instances)))
			continue;
		if (adopt_caches(c, &event))
			return error_set(err, ENOMEM, "out of memory");
		ret = copy_event(c, &event);
		if (ret)
			return error_set(err, -ret, "cpu%u: cannot write: %s", event.vcpu,
					 strerror(-ret));
		result->records++;
	}
	return ret;
}

/* What a sidecar (or NULL) says that a stream of an instance lost. Sonde 0.1 counted by vCPU. */
static uint64_t overruns_of(const struct sidecar *sidecar, size_t instance, unsigned int vcpu)
{
	const struct sidecar_instance *counts;

	if (!sidecar)
		return 0;
	if (!sidecar->nr_instances)
		return vcpu < sidecar->nr_vcpus ? sidecar->vcpus[vcpu].overruns : 0;
	if (instance >= sidecar->nr_instances)
		return 0;
	counts = &sidecar->instances[instance];
	return vcpu < counts->nr_streams ? counts->streams[vcpu].overruns : 0;
}

/*
 * By stream, as far as the source knows. The rest, of which it has only the sum, goes to vCPU 0 of
 * the first instance, if all are copied. Returns how many are those of the copy.
 */
static uint64_t copy_overruns(struct conversion *c, uint64_t total)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	uint64_t sum = 0;

	for (size_t i = 0; i < trace_reader_nr_streams(c->reader); i++) {
		struct trace_stream_info info;
		size_t instance;
		uint64_t n;

		trace_reader_stream_info(c->reader, i, &info);
		instance = (size_t)(info.instance - c->instances);
		if (!is_copied(c, instance))
			continue;
		n = overruns_of(sidecar, instance, info.vcpu);
		n = info.lost > n ? info.lost : n;
		if (n > total - sum)
			n = total - sum;
		trace_writer_add_overruns(c->writer, c->numbers[instance], info.vcpu, n);
		sum += n;
	}
	if (c->only || !c->nr_instances)
		return sum;
	trace_writer_add_overruns(c->writer, c->numbers[0], 0, total - sum);
	return total;
}

static int symbolize(void *arg, uint64_t address, struct site_function *out)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(arg, address);

	if (!symbol)
		return -ENOENT;
	snprintf(out->name, sizeof(out->name), "%s", symbol->name);
	out->start = symbol->start;
	out->size = symbol->size;
	out->returned = symbol->returned;
	return 0;
}

/* What is said of the copy. */
static struct trace_info info_of(const struct conversion *c)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	struct trace_info info = sidecar ? sidecar->info : (struct trace_info){0};

	for (size_t i = 0; c->only && i < c->nr_instances; i++)
		if (is_copied(c, i))
			snprintf(info.tracers, sizeof(info.tracers), "%s", c->instances[i].spec);
	return info;
}

/* Whether a trace's instance has kmem's events, as this program writes them. */
static bool is_kmem(const struct trace_instance *instance)
{
	for (size_t i = 0; i < instance->nr_classes; i++) {
		const struct event_class *class = &instance->classes[i];

		if (!kmem_class_is_known(class) ||
		    (class->known && class->nr_fields != class->known->nr_fields))
			return false;
	}
	return instance->nr_classes;
}

/* As the copy has it: kmem's events as this program writes them. */
static struct trace_instance copy_of(const struct conversion *c,
				     const struct trace_instance *instance)
{
	struct trace_instance copy = *instance;

	if (is_kmem(instance)) {
		copy.classes = kmem_classes;
		copy.nr_classes = KMEM_NR_CLASSES;
	}
	copy.prototypes = sidecar_prototypes(trace_reader_sidecar(c->reader), instance->name);
	return copy;
}

/* What the user may do about instances that the format has no room for. */
static int suggest_instance(const struct conversion *c, int ret, struct error *err)
{
	const struct trace_instance *kmem = NULL;
	struct error why;

	for (size_t i = 0; !kmem && i < c->nr_instances; i++)
		if (is_kmem(&c->instances[i]))
			kmem = &c->instances[i];
	if (c->only || !kmem || !err)
		return ret;
	why = *err;
	return error_set(err, -ret, "%s, or choose an instance, as with --instance=%s", why.text,
			 kmem->name);
}

/* Find what is to be copied, before anything is made. */
static int find_instances(struct conversion *c, unsigned int encoding, struct error *err)
{
	struct trace_instance copied[TRACE_INSTANCES_MAX];
	size_t n = 0;
	int ret;

	c->instances = trace_reader_instances(c->reader, &c->nr_instances);
	for (size_t i = 0; i < c->nr_instances; i++) {
		c->copies[i] = copy_of(c, &c->instances[i]);
		if (is_copied(c, i))
			copied[n++] = c->copies[i];
	}
	ret = trace_writer_check(encoding, copied, n, err);
	return ret ? suggest_instance(c, ret, err) : 0;
}

static int add_instances(struct conversion *c, struct error *err)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < c->nr_instances; i++) {
		if (!is_copied(c, i))
			continue;
		ret = trace_writer_add_instance(c->writer, &c->copies[i], err);
		c->numbers[i] = (unsigned int)ret;
	}
	return ret < 0 ? ret : 0;
}

static int copy(struct conversion *c, struct convert_result *result, struct error *err)
{
	struct trace_info info = info_of(c);
	int ret = add_instances(c, err);

	if (ret)
		return ret;
	if (adopt_all(c))
		return error_set(err, ENOMEM, "out of memory");
	ret = copy_events(c, result, err);
	if (ret)
		return ret;
	trace_reader_losses(c->reader, &result->losses);
	result->cut = trace_reader_cut(c->reader);
	result->damaged = trace_reader_damage(c->reader, 0);
	result->losses.counters.v[COUNTER_OVERRUNS] =
		copy_overruns(c, result->losses.counters.v[COUNTER_OVERRUNS]);
	info.cut = result->cut || result->losses.unfinished;
	return trace_writer_finish(c->writer, &info, symbolize,
				   (void *)(uintptr_t)trace_reader_sidecar(c->reader), err);
}

/*
 * Write all that a fresh reader reads as a trace in `dir`, as trace_writer_create() takes it.
 * Records, order, ids of caches, counts and symbols are those of the source. If the source lacks
 * its last records, the copy says so. `only`: of this instance; NULL: of all. Returns 0 or -errno.
 */
static int convert_trace(struct trace_reader *reader, const char *dir, unsigned int encoding,
			 const char *only, struct convert_result *result, struct error *err)
{
	struct conversion c = {.reader = reader, .only = only};
	struct trace_info info;
	int ret = find_instances(&c, encoding, err);

	if (ret)
		return ret;
	info = info_of(&c);
	/* Until the copy is complete: then it says what its source says. */
	snprintf(info.writer, sizeof(info.writer), "%s", "convert");
	*result = (struct convert_result){0};
	ret = trace_writer_create(dir, trace_reader_vcpu_end(reader), encoding, &info, &c.writer,
				  err);
	if (ret)
		return ret;
	ret = copy(&c, result, err);
	trace_writer_destroy(c.writer);
	return ret;
}

/* --- the command line ------------------------------------------------------------------------ */

enum { MAX_FORMATS = 32, NOT_GIVEN = -1, MAX_HOST = 255 /* bytes */ };

/* What --to takes: the encodings of traces, then the exports. Filled in by list_formats(). */
static const char *formats[MAX_FORMATS + 1];

struct options {
	const char *output, *instance, *kernel, *debug_file, *host;
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
	 .help = "directory, new or empty; or file, new",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, output)},
	{.name = "instance",
	 .letter = 'i',
	 .value = "NAME",
	 .help = "of a trace: only the events of the traced instance with this name",
	 .store = cli_store_text,
	 .offset = offsetof(struct options, instance)},
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

static const struct cli_table tables[] = {{option_table, 0}, {NULL, 0}};

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
	if (options->instance && exporter_find(formats[options->format]))
		return cli_usage(verb.name,
				 "--instance: %s has all instances; choose one with --to ctf, and "
				 "convert that trace",
				 formats[options->format]);
	if (check_host(options) || check_lines(options))
		return CLI_USAGE;
	return check_value(options);
}

static void print_result(const char *source, const struct options *options,
			 const struct convert_result *result)
{
	uint64_t lost = counters_lost(&result->losses.counters);

	fprintf(stderr, "sonde convert: %s in %s\n", text_number(result->records, "record").s,
		options->output);
	if (lost)
		fprintf(stderr, "sonde convert: the recorder lost %s\n",
			text_number(lost, "event").s);
	if (*result->missing.s)
		fprintf(stderr, "sonde convert: %s from the sums\n", result->missing.s);
	if (result->damaged)
		fprintf(stderr,
			"sonde convert: the description of %s is damaged; see sonde check %s\n",
			source, source);
	if (result->cut)
		fprintf(stderr,
			"sonde convert: the last records of %s are missing; see sonde check %s\n",
			source, source);
}

static int write_export(const struct exporter_ops *ops, struct trace_reader *reader,
			const struct options *options, struct convert_result *result,
			struct error *err)
{
	const struct export_options chosen = {.value = options->value == (unsigned int)NOT_GIVEN
							       ? EXPORT_COUNT
							       : (enum export_value)options->value,
					      .host = options->host ? options->host : ""};
	int ret = export_trace(ops, reader, options->output, options->force, &chosen,
			       &result->records, err);

	if (ret)
		return ret;
	trace_reader_losses(reader, &result->losses);
	result->cut = trace_reader_cut(reader);
	if (ops->has_sums)
		result->missing = text_missing(reader);
	result->damaged = trace_reader_damage(reader, 0);
	return 0;
}

static int check_instance(const struct trace_reader *reader, const char *name, struct error *err)
{
	size_t n;
	const struct trace_instance *instances = trace_reader_instances(reader, &n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(instances[i].name, name))
			return 0;
	return trace_instance_unknown(name, instances, n, err);
}

static int convert(const char *source, const struct options *options)
{
	const struct exporter_ops *ops = exporter_find(formats[options->format]);
	struct convert_result result = {0};
	struct trace_reader *reader;
	struct error err;
	int ret = trace_reader_open(source, &reader, &err);

	if (ret)
		return cli_error(verb.name, &err);
	if (options->instance && check_instance(reader, options->instance, &err)) {
		trace_reader_close(reader);
		return cli_usage(verb.name, "%s", err.text);
	}
	trace_reader_read_ahead(reader, TRACE_READER_ALL_CPUS);
	if (options->kernel)
		ret = trace_reader_name_functions(reader, options->kernel, &err);
	if (!ret && (options->lines || options->debug_file))
		ret = trace_reader_add_lines(reader, options->debug_file, &err);
	if (!ret && ops)
		ret = write_export(ops, reader, options, &result, &err);
	else if (!ret)
		ret = convert_trace(reader, options->output, options->format, options->instance,
				    &result, &err);
	trace_reader_close(reader);
	if (ret)
		return cli_error(verb.name, &err);
	print_result(source, options, &result);
	return CLI_OK;
}

int cmd_convert(int argc, char **argv)
{
	struct options options = {.format = (unsigned int)NOT_GIVEN,
				  .value = (unsigned int)NOT_GIVEN};
	int ret;

	list_formats();
	ret = cli_parse(&verb, argc, argv, &options);
	if (ret)
		return ret - 1;
	ret = check_options(&options, argc - optind);
	return ret ? ret : convert(argv[optind], &options);
}
