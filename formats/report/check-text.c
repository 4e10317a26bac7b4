/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/check-text.h"

#include <inttypes.h>
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"

enum { LABEL = 10 };

static const char *const severities[] = {[CHECK_NOTE] = "note", [CHECK_ERROR] = "error"};

uint64_t check_count(const struct check *check, enum check_severity severity)
{
	uint64_t sum = 0;

	for (enum check_class class = 0; class < CHECK_CLASS_COUNT; class ++)
		sum += check_finding(check, class, severity)->count;
	return sum;
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

static void print_example(FILE *out, enum check_class class, const struct check_example *example,
			  const struct sidecar *sidecar)
{
	const struct trace_event *event = &example->event;
	const struct kmem_record *record = &event->record;

	fprintf(out, "    cpu%u record %" PRIu64 " (byte %" PRIu64 ")", event->vcpu, event->index,
		event->offset);
	if (!check_class_is_stream(class)) {
		fprintf(out, " at %s: %s %s 0x%" PRIx64, text_time(record->timestamp).s,
			kmem_type_name(record->type_id),
			record->event_id == KMEM_EVENT_ALLOC  ? "alloc of"
			: record->event_id == KMEM_EVENT_FREE ? "free of"
							      : "?",
			record->ptr);
		fprintf(out, " by %s", sidecar_symbol_text(sidecar, record->call_site).s);
	}
	if (class == CHECK_EVENT_ID || class == CHECK_TYPE_ID)
		fprintf(out, ", ids %u and %u", record->event_id, record->type_id);
	if (class == CHECK_TOO_FEW_BYTES)
		fprintf(out, ", %" PRIu64 " of %" PRIu64 " bytes", record->bytes_alloc,
			record->bytes_req);
	if (example->has_allocation)
		fprintf(out, ", allocated by %s",
			sidecar_symbol_text(sidecar, example->allocation_call_site).s);
	fputc('\n', out);
}

static void print_finding(FILE *out, enum check_class class, enum check_severity severity,
			  const struct check_finding *finding, const struct sidecar *sidecar)
{
	const char *colour = severity == CHECK_ERROR ? "\033[31m" : "\033[33m";
	bool coloured = cli_colour(out);

	if (!finding->count)
		return;
	fprintf(out, "%s%s%s: %s: %s\n", coloured ? colour : "", severities[severity],
		coloured ? "\033[0m" : "", check_class_text(class), text_count(finding->count).s);
	for (unsigned int i = 0; i < finding->nr_examples; i++)
		print_example(out, class, &finding->examples[i], sidecar);
	if (finding->count > finding->nr_examples)
		fprintf(out, "    and %s more\n",
			text_count(finding->count - finding->nr_examples).s);
}

static bool is_lossy(const struct trace_reader *reader)
{
	struct trace_losses losses;

	trace_reader_losses(reader, &losses);
	return counters_are_lossy(&losses.counters) || trace_reader_cut(reader);
}

void check_print_text(FILE *out, const struct check *check, const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	uint64_t errors = check_count(check, CHECK_ERROR), notes = check_count(check, CHECK_NOTE);

	fprintf(out, "%-*s%s of %s\n", LABEL, "Checked",
		text_number(count_records(reader), "record").s,
		text_number(trace_reader_nr_streams(reader), "vCPU").s);
	text_print_losses(out, reader, LABEL);
	if (!sidecar)
		fprintf(out, "%-*sfrees of unknown objects pass: %s\n", LABEL, "Limits",
			trace_reader_sidecar_error(reader)->text);
	if (is_lossy(reader))
		fprintf(out,
			"%-*sas events are missing, doubts about objects' lives are only notes\n",
			LABEL, "Limits");
	for (enum check_severity severity = CHECK_SEVERITY_COUNT; severity-- > 0;) {
		for (enum check_class class = 0; class < CHECK_CLASS_COUNT; class ++)
			print_finding(out, class, severity, check_finding(check, class, severity),
				      sidecar);
	}
	fprintf(out, "%-*s%s, %s\n", LABEL, "Result", text_number(errors, "error").s,
		text_number(notes, "note").s);
}

static json_t *example_json(enum check_class class, const struct check_example *example,
			    const struct sidecar *sidecar)
{
	const struct trace_event *event = &example->event;
	const struct kmem_record *record = &event->record;
	json_t *item =
		json_pack("{so so so}", "file", json_sprintf("cpu%u", event->vcpu), "record",
			  text_json_count(event->index), "offset", text_json_count(event->offset));
	json_t *rest = NULL;

	if (check_class_is_stream(class))
		return item;
	rest = json_pack("{sI si si so so ss so so}", "time_ns", (json_int_t)record->timestamp,
			 "event_id", (int)record->event_id, "type_id", (int)record->type_id,
			 "address", text_json_address(record->ptr), "call_site",
			 text_json_address(record->call_site), "symbol",
			 sidecar_symbol_text(sidecar, record->call_site).s, "bytes_requested",
			 text_json_count(record->bytes_req), "bytes_allocated",
			 text_json_count(record->bytes_alloc));
	json_object_update(item, rest);
	json_decref(rest);
	if (example->has_allocation)
		json_object_set_new(item, "allocation_call_site",
				    text_json_address(example->allocation_call_site));
	return item;
}

static json_t *finding_json(enum check_class class, enum check_severity severity,
			    const struct check_finding *finding, const struct sidecar *sidecar)
{
	json_t *examples = json_array();

	for (unsigned int i = 0; i < finding->nr_examples; i++)
		json_array_append_new(examples,
				      example_json(class, &finding->examples[i], sidecar));
	return json_pack("{ss ss ss so so}", "class", check_class_id(class), "severity",
			 severities[severity], "text", check_class_text(class), "count",
			 text_json_count(finding->count), "examples", examples);
}

json_t *check_json(const struct check *check, const struct trace_reader *reader)
{
	json_t *findings = json_array(), *root;
	struct trace_losses losses;

	trace_reader_losses(reader, &losses);
	for (enum check_class class = 0; class < CHECK_CLASS_COUNT; class ++) {
		for (enum check_severity severity = 0; severity < CHECK_SEVERITY_COUNT;
		     severity++) {
			const struct check_finding *finding = check_finding(check, class, severity);

			if (finding->count)
				json_array_append_new(findings,
						      finding_json(class, severity, finding,
								   trace_reader_sidecar(reader)));
		}
	}
	root = json_pack("{si so so so sb sb so so}", "version", 1, "records",
			 text_json_count(count_records(reader)), "errors",
			 text_json_count(check_count(check, CHECK_ERROR)), "notes",
			 text_json_count(check_count(check, CHECK_NOTE)), "losses_known",
			 losses.known, "complete", !losses.unfinished && !trace_reader_cut(reader),
			 "cut", text_json_cuts(reader), "findings", findings);
	if (!root || !counters_put(root, &losses.counters))
		return root;
	json_decref(root);
	return NULL;
}
