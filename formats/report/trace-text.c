/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/trace-text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/cli/cli.h"

struct text text_cache(const struct sidecar *sidecar, uint64_t key)
{
	const struct sidecar_cache *cache =
		key < ANALYSIS_NO_CACHE ? sidecar_cache(sidecar, (uint16_t)key) : NULL;
	struct text out;

	if (cache)
		snprintf(out.s, sizeof(out.s), "%s", cache->name);
	else if (key < ANALYSIS_NO_CACHE)
		snprintf(out.s, sizeof(out.s), "cache %" PRIu64, key);
	else
		snprintf(out.s, sizeof(out.s), "(%s)",
			 kmem_type_name((unsigned int)(key - ANALYSIS_NO_CACHE)));
	return out;
}

static bool is_cut(const struct trace_stream_info *info)
{
	return info->fault || info->expected != info->records;
}

/* "cpu0: cut off within record 17: 12 bytes from byte 952 ignored" */
static void print_cut(FILE *out, const struct trace_stream_info *info)
{
	static const char *const faults[] = {
		[RECORD_FAULT_TRUNCATED] = "ends within a record",
		[RECORD_FAULT_SIZE] = "record of impossible size",
		[RECORD_FAULT_PACKET] = "packet with a wrong header",
		[RECORD_FAULT_EVENT] = "impossible event",
	};

	fprintf(out, "cpu%u: ", info->vcpu);
	if (info->fault)
		fprintf(out, "%s: the last %s bytes, from byte %" PRIu64 ", ignored",
			faults[info->fault], text_count(info->ignored).s, info->offset);
	if (info->fault && info->expected != info->records)
		fputs("; ", out);
	if (info->expected != info->records)
		fprintf(out, "%s of %s records are there", text_count(info->records).s,
			text_count(info->expected).s);
	fputc('\n', out);
}

static bool print_cuts(FILE *out, const struct trace_reader *reader, int indent, bool nothing)
{
	struct trace_stream_info info;

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		trace_reader_stream_info(reader, i, &info);
		if (!is_cut(&info))
			continue;
		fprintf(out, "%-*s", indent, nothing ? "Lost" : "");
		print_cut(out, &info);
		nothing = false;
	}
	return nothing;
}

static bool print_counts(FILE *out, const struct trace_losses *losses, int indent)
{
	char text[COUNTER_TEXT_MAX];
	bool nothing = true;

	for (enum counter_id id = 0; id < COUNTER_COUNT; id++) {
		if (!counter_is_loss(id) ||
		    !counter_text(&losses->counters, id, text, sizeof(text)))
			continue;
		fprintf(out, "%-*s%s\n", indent, nothing ? "Lost" : "", text);
		nothing = false;
	}
	if (losses->unfinished) {
		fprintf(out, "%-*sthe recorder did not end in order: last records may be missing\n",
			indent, nothing ? "Lost" : "");
		nothing = false;
	}
	return nothing;
}

void text_print_losses(FILE *out, const struct trace_reader *reader, int indent)
{
	struct trace_losses losses;
	bool nothing;

	trace_reader_losses(reader, &losses);
	nothing = print_counts(out, &losses, indent);
	nothing = print_cuts(out, reader, indent, nothing);
	if (nothing)
		fprintf(out, "%-*s%s\n", indent, "Lost",
			losses.known ? "none" : "unknown: no total_overruns in the trace");
}

json_t *text_json_cuts(const struct trace_reader *reader)
{
	json_t *array = json_array();
	struct trace_stream_info info;

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		trace_reader_stream_info(reader, i, &info);
		if (!is_cut(&info))
			continue;
		json_array_append_new(array,
				      json_pack("{so so so so so}", "file",
						json_sprintf("cpu%u", info.vcpu), "records",
						text_json_count(info.records), "expected_records",
						text_json_count(info.expected), "offset",
						text_json_count(info.offset), "ignored_bytes",
						text_json_count(info.ignored)));
	}
	return array;
}

int text_print_json(const char *verb, json_t *root)
{
	struct error err;

	if (!root) {
		error_set(&err, ENOMEM, "out of memory");
		return cli_error(verb, &err);
	}
	json_dumpf(root, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(root);
	return cli_flush(verb);
}
