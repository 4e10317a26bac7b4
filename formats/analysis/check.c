/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The analysis of `sonde check`: the findings of all checks, as text and JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include "formats/analysis/analysis.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/checks/check.h"
#include "formats/cli/cli.h"
#include "formats/report/parts.h"
#include "formats/report/trace-text.h"

enum { LABEL = 10 };

struct check_analysis {
	struct analysis base;
	struct checker *checker;
	uint64_t counts[CHECK_SEVERITY_COUNT];
};

/* Whether events are, or may be, missing at unknown places: they were lost, their functions were
 * not traced, or they are not in the part that was copied. */
static bool has_holes(const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	struct trace_losses losses;

	trace_reader_losses(reader, &losses);
	return losses.unknown || counters_are_lossy(&losses.counters) ||
	       (sidecar && (sidecar->info.nr_gaps || sidecar->info.part[0]));
}

static int init(struct analysis *base, struct error *err)
{
	const struct sidecar *sidecar = trace_reader_sidecar(base->replay->reader);
	struct check_analysis *analysis = (struct check_analysis *)base;

	analysis->checker = checker_create(sidecar, has_holes(base->replay->reader));
	return analysis->checker ? 0 : error_set(err, ENOMEM, "out of memory");
}

static void deinit(struct analysis *base)
{
	struct check_analysis *analysis = (struct check_analysis *)base;

	checker_destroy(analysis->checker);
}

static int event(struct analysis *base, const struct event *event)
{
	return checker_event(((struct check_analysis *)base)->checker, event,
			     trace_reader_cut(base->replay->reader));
}

static int change(struct analysis *base, const struct heap_change *change)
{
	return checker_change(((struct check_analysis *)base)->checker, change);
}

/* Call a function for all findings, in the order of the table. */
typedef void finding_fn(void *arg, const struct check_ops *ops, const struct check_class *class,
			enum check_severity severity, const struct check_finding *finding);

static void each_finding(const struct check_analysis *analysis, finding_fn *fn, void *arg)
{
	for (size_t i = 0; check_table[i]; i++) {
		const struct check_class *classes = check_table[i]->classes;

		for (size_t class = 0; classes[class].id; class ++)
			for (enum check_severity s = 0; s < CHECK_SEVERITY_COUNT; s++) {
				const struct check_finding *finding =
					checker_finding(analysis->checker, i, class, s);

				if (finding->count)
					fn(arg, check_table[i], &classes[class], s, finding);
			}
	}
}

static void add_count(void *arg, const struct check_ops *ops, const struct check_class *class,
		      enum check_severity severity, const struct check_finding *finding)
{
	(void)ops;
	(void)class;
	((uint64_t *)arg)[severity] += finding->count;
}

static int finish(struct analysis *base)
{
	struct check_analysis *analysis = (struct check_analysis *)base;

	checker_finish(analysis->checker, base->replay->reader);
	each_finding(analysis, add_count, analysis->counts);
	return 0;
}

static bool failed(const struct analysis *base)
{
	return ((const struct check_analysis *)base)->counts[CHECK_ERROR];
}

static uint64_t count_records(const struct trace_reader *reader)
{
	struct trace_stream_info info;
	uint64_t sum = 0;

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		trace_reader_stream_info(reader, i, &info);
		sum += info.records;
	}
	return sum;
}

static const char *const severities[] = {[CHECK_NOTE] = "note", [CHECK_ERROR] = "error"};

/* --- text ------------------------------------------------------------------------------------ */

/* What is printed: the findings of one severity. */
struct printing {
	FILE *out;
	const struct sidecar *sidecar;
	enum check_severity severity;
};

static void describe(const struct printing *p, FILE *out, const struct check_ops *ops,
		     const struct check_class *class, const struct check_example *example)
{
	const struct event *at = &example->event.at;
	const struct kmem_record *record = &example->event.record;

	if (example->event.file) {
		fputs(example->event.file, out);
		return;
	}
	fprintf(out, "cpu%u%s", at->vcpu, at->instance->suffix);
	if (!example->event.packet && !example->event.size)
		fprintf(out, " record %s", text_count(at->index).s);
	fprintf(out, " (byte %s)", text_count(at->offset).s);
	if (!ops->is_about_streams)
		fprintf(out, " at %s", text_time(at->ns).s);
	if (!ops->is_about_streams && !example->event.is_record)
		fprintf(out, ": %s:%s", at->class->system, at->class->name);
	if (example->event.is_record) {
		fprintf(out, ": %s %s 0x%" PRIx64, kmem_type_name(record->type_id),
			record->event_id == KMEM_EVENT_ALLOC  ? "alloc of"
			: record->event_id == KMEM_EVENT_FREE ? "free of"
							      : "?",
			record->ptr);
		fprintf(out, " by %s", sidecar_call_text(p->sidecar, record->call_site).s);
	}
	if (class->print_details)
		class->print_details(out, example);
	if (example->has_allocation)
		fprintf(out, ", allocated by %s",
			sidecar_call_text(p->sidecar, example->allocation_call_site).s);
}

static void print_example(const struct printing *p, const struct check_ops *ops,
			  const struct check_class *class, const struct check_example *example)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	describe(p, out, ops, class, example);
	fprintf(p->out, "    ");
	if (!text_stream_close(out))
		line_wrap(p->out, 4, 8, text);
	free(text);
}

static void print_finding(void *arg, const struct check_ops *ops, const struct check_class *class,
			  enum check_severity severity, const struct check_finding *finding)
{
	const struct printing *p = arg;
	const char *colour = severity == CHECK_ERROR ? "\033[31m" : "\033[33m";
	bool coloured = cli_colour(p->out);
	char text[400];

	if (severity != p->severity)
		return;
	fprintf(p->out, "%s%s%s: ", coloured ? colour : "", severities[severity],
		coloured ? "\033[0m" : "");
	snprintf(text, sizeof(text), "%s: %.60s", class->text, text_count(finding->count).s);
	line_wrap(p->out, strlen(severities[severity]) + 2, 4, text);
	for (unsigned int i = 0; i < finding->nr_examples; i++)
		print_example(p, ops, class, &finding->examples[i]);
	if (finding->count > finding->nr_examples)
		fprintf(p->out, "    and %s more\n",
			text_count(finding->count - finding->nr_examples).s);
}

static bool misses_events(const struct trace_reader *reader)
{
	return has_holes(reader) || trace_reader_cut(reader);
}

static void print_interrupted(FILE *out, const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	size_t n;
	const struct trace_instance *instances = trace_reader_instances(reader, &n);

	for (size_t i = 0; i < n; i++)
		if (kmem_has_events(&instances[i]) &&
		    sidecar_is_interrupted(sidecar, &instances[i]))
			line_print(out, LABEL, "Limits",
				   "%s was off for a while, or recorded others: doubts about its "
				   "objects' lives are only notes",
				   instances[i].name);
}

struct found {
	bool is_found;
	uint64_t address;
};

/* One of the addresses that are printed. */
static void find_address(void *arg, const struct check_ops *ops, const struct check_class *class,
			 enum check_severity severity, const struct check_finding *finding)
{
	struct found *found = arg;

	(void)ops;
	(void)class;
	(void)severity;
	for (unsigned int i = 0; !found->is_found && i < finding->nr_examples; i++) {
		const struct check_event *event = &finding->examples[i].event;

		found->is_found = event->is_record && event->record.ptr;
		found->address = event->record.ptr;
	}
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct check_analysis *analysis = (const struct check_analysis *)base;
	const struct trace_reader *reader = base->replay->reader;
	struct found found = {0};
	struct printing p = {.out = out, .sidecar = trace_reader_sidecar(reader)};

	fprintf(out, "%-*s%s of %s\n", LABEL, "Checked",
		text_number(count_records(reader), "record").s,
		text_number(trace_reader_nr_vcpus(reader), "vCPU").s);
	replay_print_losses(base->replay, out, LABEL);
	if (!p.sidecar)
		line_print(out, LABEL, "Limits", "frees of unknown objects pass: %s",
			   trace_reader_sidecar_error(reader)->text);
	if (misses_events(reader))
		line_print(out, LABEL, "Limits",
			   "as events are missing, or may be, doubts about objects' lives are only "
			   "notes");
	else
		print_interrupted(out, reader);
	for (p.severity = CHECK_SEVERITY_COUNT; p.severity-- > 0;)
		each_finding(analysis, print_finding, &p);
	each_finding(analysis, find_address, &found);
	if (found.is_found)
		text_print_search(out, "Search", found.address, LABEL);
	fprintf(out, "%-*s%s, %s\n", LABEL, "Result",
		text_number(analysis->counts[CHECK_ERROR], "error").s,
		text_number(analysis->counts[CHECK_NOTE], "note").s);
}

/* --- JSON ------------------------------------------------------------------------------------ */

struct listing {
	json_t *findings;
	const struct sidecar *sidecar;
};

static json_t *example_json(const struct check_ops *ops, const struct check_example *example,
			    const struct sidecar *sidecar)
{
	const struct event *at = &example->event.at;
	const struct kmem_record *record = &example->event.record;
	json_t *item, *rest;

	if (example->event.file)
		return json_pack("{so}", "reason", json_from_text(example->event.file));
	item = json_pack("{so so so}", "file",
			 json_sprintf("cpu%u%s", at->vcpu, at->instance->suffix), "record",
			 json_from_count(at->index), "offset", json_from_count(at->offset));
	if (!ops->is_about_streams)
		json_object_set_new(item, "time_ns", json_integer(at->ns));
	if (!example->event.is_record)
		return item;
	rest = json_pack("{si si so so ss so so}", "event_id", (int)record->event_id, "type_id",
			 (int)record->type_id, "address", json_from_address(record->ptr),
			 "call_site", json_from_address(record->call_site), "symbol",
			 sidecar_symbol_text(sidecar, record->call_site).s, "bytes_requested",
			 json_from_count(record->bytes_req), "bytes_allocated",
			 json_from_count(record->bytes_alloc));
	sidecar_put_source(rest, sidecar, record->call_site);
	json_object_update(item, rest);
	json_decref(rest);
	if (example->has_allocation)
		json_object_set_new(item, "allocation_call_site",
				    json_from_address(example->allocation_call_site));
	return item;
}

static void list_finding(void *arg, const struct check_ops *ops, const struct check_class *class,
			 enum check_severity severity, const struct check_finding *finding)
{
	const struct listing *listing = arg;
	json_t *examples = json_array();

	for (unsigned int i = 0; i < finding->nr_examples; i++)
		json_array_append_new(examples,
				      example_json(ops, &finding->examples[i], listing->sidecar));
	json_array_append_new(listing->findings,
			      json_pack("{ss ss ss so so}", "class", class->id, "severity",
					severities[severity], "text", class->text, "count",
					json_from_count(finding->count), "examples", examples));
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct check_analysis *analysis = (const struct check_analysis *)base;
	const struct trace_reader *reader = base->replay->reader;
	struct listing listing = {json_array(), trace_reader_sidecar(reader)};
	int failed = json_object_set_new(root, "records", json_from_count(count_records(reader)));

	each_finding(analysis, list_finding, &listing);
	failed |=
		json_object_set_new(root, "errors", json_from_count(analysis->counts[CHECK_ERROR]));
	failed |= json_object_set_new(root, "notes", json_from_count(analysis->counts[CHECK_NOTE]));
	return failed | json_object_set_new(root, "findings", listing.findings);
}

const struct analysis_ops check_analysis = {.about = "what cannot be true",
					    .any_trace = true,
					    .size = sizeof(struct check_analysis),
					    .init = init,
					    .event = event,
					    .change = change,
					    .finish = finish,
					    .print_text = print_text,
					    .put_json = put_json,
					    .failed = failed,
					    .deinit = deinit};
