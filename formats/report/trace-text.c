/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/trace-text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/cli/cli.h"

struct text text_count(uint64_t number)
{
	struct text digits, out;
	size_t n, used = 0;

	snprintf(digits.s, sizeof(digits.s), "%" PRIu64, number);
	n = strlen(digits.s);
	for (size_t i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			out.s[used++] = ',';
		out.s[used++] = digits.s[i];
	}
	out.s[used] = '\0';
	return out;
}

struct text text_number(uint64_t number, const char *noun)
{
	struct text out;

	snprintf(out.s, sizeof(out.s), "%.32s %s%s", text_count(number).s, noun,
		 number == 1 ? "" : "s");
	return out;
}

struct text text_bytes(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	struct text out;
	size_t unit = 0;

	while (value >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	if (unit)
		snprintf(out.s, sizeof(out.s), "%.1f %s", value, units[unit]);
	else
		snprintf(out.s, sizeof(out.s), "%" PRIu64 " B", bytes);
	return out;
}

struct text text_time(int64_t ns)
{
	uint64_t magnitude = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	struct text out;

	snprintf(out.s, sizeof(out.s), "%s%" PRIu64 ".%09" PRIu64 " s", ns < 0 ? "-" : "",
		 magnitude / 1000000000, magnitude % 1000000000);
	return out;
}

struct text text_symbol(const struct sidecar *sidecar, uint64_t address)
{
	const struct sidecar_symbol *symbol = sidecar_symbol(sidecar, address);
	struct text out;

	if (symbol)
		snprintf(out.s, sizeof(out.s), "%s+0x%" PRIx64 "/0x%" PRIx64, symbol->name,
			 address - symbol->start, symbol->size);
	else
		snprintf(out.s, sizeof(out.s), "0x%" PRIx64, address);
	return out;
}

const char *text_type(unsigned int type)
{
	static const char *const names[KMEM_TYPE_COUNT] = {"kmalloc", "cache", "pages"};

	return type < KMEM_TYPE_COUNT ? names[type] : "?";
}

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
			 text_type((unsigned int)(key - ANALYSIS_NO_CACHE)));
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

enum { NS_PER_MS = 1000000 };

/* What was called meanwhile cannot be counted. `indent` negative: without the label. */
static void print_sampling(FILE *out, const struct trace_losses *losses, int indent)
{
	uint64_t on = losses->tracing_ns, out_ns = losses->unsampled_ns,
		 seen = on > out_ns ? on - out_ns : 0;

	fprintf(out, "%-*sa sample: traced %s of %s ms", abs(indent), indent > 0 ? "Lost" : "",
		text_count(seen / NS_PER_MS).s, text_count(on / NS_PER_MS).s);
	fprintf(out, " (%.1f %%), the rest was over its --max-rate\n",
		on ? 100.0 * (double)seen / (double)on : 0.0);
}

static bool print_counts(FILE *out, const struct trace_losses *losses, int indent)
{
	const struct {
		uint64_t count;
		const char *what;
	} lines[] = {
		{losses->overruns, "records dropped (overruns)"},
		{losses->lost, "events lost"},
		{losses->pauses, "pauses, in which nothing was recorded"},
		{losses->yields, "gaps while the guest's own ftrace changed its sites"},
		{losses->yielded_functions,
		 "functions yielded to the guest's own ftrace for a time"},
	};
	bool nothing = true;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (!lines[i].count)
			continue;
		fprintf(out, "%-*s%s %s\n", indent, nothing ? "Lost" : "",
			text_count(lines[i].count).s, lines[i].what);
		nothing = false;
	}
	if (losses->samplings) {
		print_sampling(out, losses, nothing ? indent : -indent);
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

json_t *text_json_count(uint64_t number)
{
	return json_integer(number > INT64_MAX ? INT64_MAX : (json_int_t)number);
}

json_t *text_json_address(uint64_t address)
{
	return json_sprintf("0x%" PRIx64, address);
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
