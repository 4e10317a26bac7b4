/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/base/json.h"
#include "formats/report/parts.h"
#include "formats/report/trace-text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/cli/cli.h"

/* "Linux version 6.1.0-37-amd64 (debian-kernel@...) (gcc ...": what is before the parenthesis. */
static void print_guest(FILE *out, const struct sidecar *sidecar, int indent)
{
	const char *banner = sidecar->info.banner;
	size_t length = strcspn(banner, "(");
	struct parts parts = {.n = 0};

	while (length && banner[length - 1] == ' ')
		length--;
	if (length)
		parts_add(&parts, "%.*s", (int)length, banner);
	else
		parts_add(&parts, "unknown");
	if (sidecar->info.build_id[0])
		parts_add(&parts, "build id %.16s", sidecar->info.build_id);
	parts_print(&parts, out, "Guest", indent);
}

static struct text clock_text(int64_t ms)
{
	const uint64_t size = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
	struct text out;

	snprintf(out.s, sizeof(out.s), "%s%" PRIu64 ".%03" PRIu64, ms < 0 ? "-" : "", size / 1000,
		 size % 1000);
	return out;
}

struct text text_clock_before(int64_t ns)
{
	return clock_text(ns / 1000000 - (ns % 1000000 < 0));
}

struct text text_clock_after(int64_t ns)
{
	return clock_text(ns / 1000000 + (ns % 1000000 > 0));
}

void trace_outside_before(struct trace_outside *outside, int64_t ns)
{
	if (!outside->before++)
		outside->first_ns = outside->last_ns = ns;
	outside->first_ns = ns < outside->first_ns ? ns : outside->first_ns;
	outside->last_ns = ns > outside->last_ns ? ns : outside->last_ns;
}

void trace_outside_after(struct trace_outside *outside, int64_t ns)
{
	outside->is_after = true;
	outside->after_ns = ns;
}

/* What there is before the time and behind it. */
static struct text nearest_text(const struct trace_outside *outside)
{
	struct text out = {""};

	if (outside->before && outside->is_after)
		snprintf(out.s, sizeof(out.s), "the nearest are at %.100s and %.100s s",
			 text_clock_before(outside->last_ns).s,
			 text_clock_after(outside->after_ns).s);
	else if (outside->before)
		snprintf(out.s, sizeof(out.s), "the trace has some from %.100s to %.100s s",
			 text_clock_before(outside->first_ns).s,
			 text_clock_after(outside->last_ns).s);
	else
		snprintf(out.s, sizeof(out.s), "the first is at %.100s s",
			 text_clock_before(outside->after_ns).s);
	return out;
}

/* Whether the range ends before init begins, so that no event suits both. */
static bool ends_before_init(const struct chosen_time *time)
{
	return time->since_init && time->from_ns != INT64_MAX &&
	       time->from_ns > time->range.from_ns && time->from_ns >= time->range.to_ns;
}

struct text text_outside(const struct trace_outside *outside, const struct chosen_time *time)
{
	const bool has_range = !cli_time_is_all(&time->range);
	struct text out, where = nearest_text(outside);

	if (ends_before_init(time))
		snprintf(where.s, sizeof(where.s), "init begins at %.100s s; let %s end later",
			 text_clock_before(time->from_ns).s, time->option);
	snprintf(out.s, sizeof(out.s), "no event is in the time that %s%s%s %s: %.300s",
		 time->since_init ? "--since" : "", time->since_init && has_range ? " and " : "",
		 has_range ? time->option : "",
		 time->since_init && has_range ? "choose" : "chooses", where.s);
	return out;
}

static void print_trace(FILE *out, const struct trace_reader *reader,
			const struct trace_window *window, int indent)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	const uint64_t ns = (uint64_t)window->last_ns - (uint64_t)window->first_ns;
	struct parts parts = {.n = 0};

	parts_add(&parts, "%s", text_number(window->records, "record").s);
	parts_add(&parts, "%s", text_number(trace_reader_nr_vcpus(reader), "vCPU").s);
	parts_add(&parts, "%" PRIu64 ".%03" PRIu64 " s", ns / 1000000000, ns / 1000000 % 1000);
	if (window->records)
		parts_add(&parts, "from %s to %s s", text_clock_before(window->first_ns).s,
			  text_clock_after(window->last_ns).s);
	if (sidecar && sidecar->info.mode[0])
		parts_add(&parts, "%s", sidecar->info.mode);
	if (sidecar_is_from_boot(sidecar) && window->has_begin)
		parts_add(&parts, "from boot on");
	parts_print(&parts, out, "Trace", indent);
}

void text_print_head(FILE *out, const struct trace_reader *reader,
		     const struct trace_window *window, int indent)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);

	if (sidecar)
		print_guest(out, sidecar, indent);
	else
		line_print(out, indent, "Guest", "unknown, and no symbols: %s",
			   trace_reader_sidecar_error(reader)->text);
	print_trace(out, reader, window, indent);
	if (sidecar && sidecar->info.part[0])
		line_print(out, indent, "Part", "%s", sidecar->info.part);
	if (sidecar && sidecar->info.ended[0])
		line_print(out, indent, "Ended as", "%s", sidecar->info.ended);
	if (trace_reader_note(reader)[0])
		line_print(out, indent, "Format", "%s", trace_reader_note(reader));
}

static void print_counters(FILE *out, const struct trace_losses *losses, const char *label,
			   enum counter_kind kind, bool is_part, int indent)
{
	char text[COUNTER_TEXT_MAX];

	counters_text(&losses->counters, kind, text, sizeof(text));
	if (text[0])
		line_print(out, indent, label, "%s%s", is_part ? "in the whole trace: " : "", text);
}

void text_print_recording(FILE *out, const struct trace_reader *reader, bool is_part, int indent)
{
	struct trace_losses losses;

	trace_reader_losses(reader, &losses);
	print_counters(out, &losses, "Left out", COUNTER_LEFT_OUT, is_part, indent);
	print_counters(out, &losses, "Recording", COUNTER_INFO, is_part, indent);
}

static bool is_cut(const struct trace_stream_info *info)
{
	return info->fault || info->expected != info->records;
}

/* "cpu0: ends within a record: the last 12 bytes, from byte 952, ignored" */
static struct text cut_text(const struct trace_stream_info *info)
{
	static const char *const faults[] = {
		[RECORD_FAULT_TRUNCATED] = "ends within a record",
		[RECORD_FAULT_SIZE] = "record of impossible size",
		[RECORD_FAULT_PACKET] = "packet with a wrong header",
		[RECORD_FAULT_EVENT] = "impossible event",
	};
	struct text out, fault = {""}, counts = {""};

	if (info->fault)
		snprintf(fault.s, sizeof(fault.s),
			 "%s: the last %.40s bytes, from byte %.40s, ignored", faults[info->fault],
			 text_count(info->ignored).s, text_count(info->offset).s);
	if (info->expected != info->records)
		snprintf(counts.s, sizeof(counts.s), "%.40s of %.40s records are there",
			 text_count(info->records).s, text_count(info->expected).s);
	snprintf(out.s, sizeof(out.s), "cpu%u%.80s: %.200s%s%.200s", info->vcpu,
		 info->instance->suffix, fault.s, *fault.s && *counts.s ? "; " : "", counts.s);
	return out;
}

static bool print_cuts(FILE *out, const struct trace_reader *reader, int indent, bool nothing)
{
	struct trace_stream_info info;

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		trace_reader_stream_info(reader, i, &info);
		if (!is_cut(&info))
			continue;
		line_print(out, indent, nothing ? "Lost" : "", "%s", cut_text(&info).s);
		nothing = false;
	}
	return nothing;
}

/* "cpu0: packet 7 is damaged: 4,096 bytes from byte 36,864 on passed over" */
static struct text damage_text(const struct trace_stream_info *info, size_t i)
{
	const struct stream_damage *damage = &info->damages[i];
	struct text out;

	if (damage->size)
		snprintf(out.s, sizeof(out.s),
			 "cpu%u%.80s: packet %" PRIu64 " is damaged: %.60s from byte %" PRIu64
			 " on passed over",
			 info->vcpu, info->instance->suffix, damage->packet,
			 text_number(damage->size, "byte").s, damage->offset);
	else
		snprintf(out.s, sizeof(out.s),
			 "cpu%u%.80s: packet %" PRIu64 " is missing at byte %" PRIu64, info->vcpu,
			 info->instance->suffix, damage->packet, damage->offset);
	return out;
}

static bool print_damages(FILE *out, const struct trace_reader *reader, int indent, bool nothing)
{
	struct trace_stream_info info;

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		trace_reader_stream_info(reader, i, &info);
		for (size_t n = 0; n < info.nr_damages && n < STREAM_DAMAGES_MAX; n++) {
			line_print(out, indent, nothing ? "Lost" : "", "%s",
				   damage_text(&info, n).s);
			nothing = false;
		}
		if (info.nr_damages > STREAM_DAMAGES_MAX)
			line_print(out, indent, "", "cpu%u%s: %s damaged in all", info.vcpu,
				   info.instance->suffix, text_number(info.nr_damages, "packet").s);
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
		line_print(out, indent, nothing ? "Lost" : "", "%s", text);
		nothing = false;
	}
	return nothing;
}

static bool print_end(FILE *out, const struct trace_losses *losses, int indent, bool nothing)
{
	if (!losses->unfinished || losses->recording)
		return nothing;
	line_print(out, indent, nothing ? "Lost" : "",
		   "%s%s did not end in order: last records may be missing",
		   losses->writer[0] ? "sonde " : "",
		   losses->writer[0] ? losses->writer : "the recorder");
	return false;
}

static bool print_unknown(FILE *out, const struct trace_losses *losses, int indent, bool nothing)
{
	if (!losses->unknown)
		return nothing;
	line_print(out, indent, nothing ? "Lost" : "", "%s: %s",
		   nothing ? "unknown" : "what else was lost is unknown", losses->unknown);
	return false;
}

static void print_recording(FILE *out, const struct trace_losses *losses, int indent)
{
	if (losses->recording)
		line_print(out, indent, "Now",
			   "sonde %s is writing this trace: its newest records are to come",
			   losses->writer);
}

/* "Files" fits the narrowest column. */
static void print_damaged_files(FILE *out, const struct trace_reader *reader, int indent)
{
	const char *text;

	for (size_t i = 0; (text = trace_reader_damage(reader, i)); i++)
		line_print(out, indent, i ? "" : "Files", "%s", text);
}

static void print_limits(FILE *out, const struct trace_reader *reader, int indent)
{
	if (!trace_reader_has_checksums(reader))
		line_print(out, indent, "Limits",
			   "records of this format have no checksums: damage may go unnoticed");
}

/* What no counter has. Returns whether `nothing` is lost still. */
static bool print_missing(FILE *out, const struct trace_reader *reader,
			  const struct trace_losses *losses, int indent, bool nothing)
{
	nothing = print_end(out, losses, indent, nothing);
	nothing = print_unknown(out, losses, indent, nothing);
	nothing = print_damages(out, reader, indent, nothing);
	return print_cuts(out, reader, indent, nothing);
}

/* The causes. Returns whether there is none. */
static bool print_causes(FILE *out, const struct trace_reader *reader,
			 const struct trace_losses *losses, int indent)
{
	return print_missing(out, reader, losses, indent, print_counts(out, losses, indent));
}

void text_print_losses(FILE *out, const struct trace_reader *reader, int indent)
{
	struct trace_losses losses;

	trace_reader_losses(reader, &losses);
	if (print_causes(out, reader, &losses, indent))
		line_print(out, indent, "Lost", "%s", losses.recording ? "none so far" : "none");
	print_damaged_files(out, reader, indent);
	print_recording(out, &losses, indent);
	print_limits(out, reader, indent);
}

void text_print_losses_if_any(FILE *out, const struct trace_reader *reader, int indent)
{
	struct trace_losses losses;

	trace_reader_losses(reader, &losses);
	if (losses.recording)
		return text_print_losses(out, reader, indent);
	print_causes(out, reader, &losses, indent);
	print_damaged_files(out, reader, indent);
	print_limits(out, reader, indent);
}

struct text text_missing(const struct trace_reader *reader)
{
	const struct trace_missing missing = trace_reader_missing(reader);
	struct text out = {""};

	if (!missing.is_bounded)
		snprintf(out.s, sizeof(out.s), "it is unknown how many events are missing");
	else if (missing.events)
		snprintf(out.s, sizeof(out.s), "up to %.100s %s missing",
			 text_number(missing.events, "event").s,
			 missing.events == 1 ? "is" : "are");
	return out;
}

void text_print_missing(FILE *out, const struct trace_reader *reader, const char *what, int indent)
{
	const struct text missing = text_missing(reader);

	if (*missing.s)
		line_print(out, indent, "Bound", "%s from %s", missing.s, what);
}

/* The first one of its reason, or a later one. */
static size_t first_of_reason(const struct trace_info *info, size_t i)
{
	size_t first = 0;

	while (strcmp(info->gaps[first].reason, info->gaps[i].reason) != 0)
		first++;
	return first;
}

static void print_gap(FILE *out, const struct trace_info *info, size_t first, int indent)
{
	char names[1024];
	size_t used = 0, left_out = 0;

	for (size_t i = first; i < info->nr_gaps; i++) {
		const char *function = info->gaps[i].function;

		if (first_of_reason(info, i) != first)
			continue;
		if (used + strlen(function) + 3 > sizeof(names))
			left_out++;
		else
			used += (size_t)sprintf(names + used, "%s%s", used ? ", " : "", function);
	}
	if (left_out)
		line_print(out, indent, first ? "" : "Untraced", "%s and %s more: %s", names,
			   text_count(left_out).s, info->gaps[first].reason);
	else
		line_print(out, indent, first ? "" : "Untraced", "%s: %s", names,
			   info->gaps[first].reason);
}

void text_print_gaps(FILE *out, const struct trace_reader *reader, int indent)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);

	for (size_t i = 0; sidecar && i < sidecar->info.nr_gaps; i++)
		if (first_of_reason(&sidecar->info, i) == i)
			print_gap(out, &sidecar->info, i, indent);
}

static json_t *gaps_json(const struct trace_reader *reader)
{
	const struct sidecar *sidecar = trace_reader_sidecar(reader);
	json_t *array = json_array();

	for (size_t i = 0; sidecar && i < sidecar->info.nr_gaps; i++)
		json_array_append_new(array, json_pack("{ss ss}", "function",
						       sidecar->info.gaps[i].function, "reason",
						       sidecar->info.gaps[i].reason));
	return array;
}

static json_t *cuts_json(const struct trace_reader *reader)
{
	json_t *array = json_array();
	struct trace_stream_info info;

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		trace_reader_stream_info(reader, i, &info);
		if (!is_cut(&info))
			continue;
		json_array_append_new(
			array, json_pack("{so so so so so}", "file",
					 json_sprintf("cpu%u%s", info.vcpu, info.instance->suffix),
					 "records", json_from_count(info.records),
					 "expected_records", json_from_count(info.expected),
					 "offset", json_from_count(info.offset), "ignored_bytes",
					 json_from_count(info.ignored)));
	}
	return array;
}

static json_t *damages_json(const struct trace_reader *reader)
{
	json_t *array = json_array();
	struct trace_stream_info info;
	const char *text;

	for (size_t i = 0; i < trace_reader_nr_streams(reader); i++) {
		trace_reader_stream_info(reader, i, &info);
		for (size_t n = 0; n < info.nr_damages && n < STREAM_DAMAGES_MAX; n++)
			json_array_append_new(
				array,
				json_pack("{so so so so}", "file",
					  json_sprintf("cpu%u%s", info.vcpu, info.instance->suffix),
					  "packet", json_from_count(info.damages[n].packet),
					  "offset", json_from_count(info.damages[n].offset),
					  "bytes", json_from_count(info.damages[n].size)));
	}
	for (size_t i = 0; (text = trace_reader_damage(reader, i)); i++)
		json_array_append_new(array, json_pack("{so}", "reason", json_from_text(text)));
	return array;
}

/* The digits that an address has whether a record has all of its bits or only 48 or 57, of which
 * those before are copies. */
static struct text common_digits(uint64_t address)
{
	static const struct {
		unsigned int bits;
		int digits;
	} sizes[] = {{48, 12}, {57, 14}};
	struct text out;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const unsigned int sign = sizes[i].bits - 1;

		if (address >> sign != UINT64_MAX >> sign)
			continue;
		snprintf(out.s, sizeof(out.s), "%0*" PRIx64, sizes[i].digits,
			 address & ((UINT64_C(1) << 4 * sizes[i].digits) - 1));
		return out;
	}
	snprintf(out.s, sizeof(out.s), "0x%" PRIx64, address);
	return out;
}

void text_print_search(FILE *out, const char *label, uint64_t address, int indent)
{
	fprintf(out, "%-*s0x%" PRIx64 " in text of babeltrace2: grep -i %s\n", indent, label,
		address, common_digits(address).s);
}

int text_json_losses(json_t *root, const struct trace_reader *reader)
{
	struct trace_losses losses;
	int failed;

	trace_reader_losses(reader, &losses);
	failed = counters_put(root, &losses.counters);
	failed |= json_object_set_new(root, "losses_known", json_boolean(!losses.unknown));
	if (losses.unknown)
		failed |=
			json_object_set_new(root, "losses_unknown", json_from_text(losses.unknown));
	failed |= json_object_set_new(
		root, "complete",
		json_boolean(!losses.unknown && !losses.unfinished && !trace_reader_cut(reader)));
	failed |= json_object_set_new(root, "damaged", damages_json(reader));
	failed |= json_object_set_new(root, "checksums",
				      json_boolean(trace_reader_has_checksums(reader)));
	failed |= json_object_set_new(root, "recording", json_boolean(losses.recording));
	failed |= json_object_set_new(root, "gaps", gaps_json(reader));
	return failed | json_object_set_new(root, "cut", cuts_json(reader));
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
