/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/report/report.h"

#include <inttypes.h>
#include <string.h>
#include "formats/cli/cli.h"
#include "formats/report/trace-text.h"

enum { LABEL = 14 };

/* "Linux version 6.1.0-37-amd64 (debian-kernel@...) (gcc ...": what is before the parenthesis. */
static void print_guest(FILE *out, const struct sidecar *sidecar)
{
	const char *banner = sidecar->info.banner;
	size_t length = strcspn(banner, "(");

	while (length && banner[length - 1] == ' ')
		length--;
	fprintf(out, "%-*s%.*s", LABEL, "Guest", (int)length, length ? banner : "");
	if (!length)
		fputs("unknown", out);
	if (sidecar->info.build_id[0])
		fprintf(out, ", build id %.16s", sidecar->info.build_id);
	fputc('\n', out);
}

static void print_header(FILE *out, const struct report *report)
{
	const struct sidecar *sidecar = trace_reader_sidecar(report->reader);
	const struct analysis_totals *totals = report->totals;
	size_t vcpus = trace_reader_nr_streams(report->reader);
	uint64_t duration = (uint64_t)totals->last_ns - (uint64_t)totals->first_ns;

	if (sidecar)
		print_guest(out, sidecar);
	else
		fprintf(out, "%-*sunknown, and no symbols: %s\n", LABEL, "Guest",
			trace_reader_sidecar_error(report->reader)->text);
	fprintf(out, "%-*s%s of %s in %" PRIu64 ".%03" PRIu64 " s", LABEL, "Trace",
		text_number(totals->records, "record").s, text_number(vcpus, "vCPU").s,
		duration / 1000000000, duration / 1000000 % 1000);
	if (sidecar && sidecar->info.mode[0])
		fprintf(out, ", %s mode", sidecar->info.mode);
	if (sidecar && sidecar->info.from_first_allocation)
		fputs(", from the first allocation on", out);
	fputc('\n', out);
	if (sidecar && sidecar->info.ended[0])
		fprintf(out, "%-*s%s\n", LABEL, "Ended as", sidecar->info.ended);
	if (trace_reader_note(report->reader)[0])
		fprintf(out, "%-*s%s\n", LABEL, "Format", trace_reader_note(report->reader));
}

static void print_freed(FILE *out, const struct analysis_totals *totals)
{
	fprintf(out, "%-*s%s, %s of them on another vCPU", LABEL, "Frees",
		text_count(totals->free_events).s, text_count(totals->sum.cross_cpu_frees).s);
	if (totals->unknown_frees)
		fprintf(out, ", %s of objects allocated outside the trace",
			text_count(totals->unknown_frees).s);
	fputc('\n', out);
}

/* The families apart: pages are also what slabs are made of, so that a sum counts those twice. */
static void print_families(FILE *out, const struct analysis_totals *totals)
{
	for (uint8_t type = 0; type < KMEM_TYPE_COUNT; type++) {
		const struct analysis_group *family = &totals->by_type[type];

		if (!family->hits)
			continue;
		fprintf(out, "  %-*s%s of %s, %.1f %% fragmentation; live %s of %s%s\n", LABEL - 2,
			kmem_type_name(type), text_count(family->hits).s,
			text_bytes(family->bytes_allocated).s, analysis_fragmentation(family),
			text_count(family->live_objects).s, text_bytes(family->live_bytes).s,
			type == KMEM_TYPE_PAGES ? ", slabs included" : "");
	}
}

static void print_counters(FILE *out, const struct report *report, const char *label,
			   enum counter_kind kind)
{
	char text[COUNTER_TEXT_MAX];
	struct trace_losses losses;

	trace_reader_losses(report->reader, &losses);
	counters_text(&losses.counters, kind, text, sizeof(text));
	if (text[0])
		fprintf(out, "%-*s%s\n", LABEL, label, text);
}

static void print_totals(FILE *out, const struct report *report)
{
	const struct analysis_totals *totals = report->totals;
	const struct analysis_group *sum = &totals->sum;

	fprintf(out, "%-*s%s of %s requested, %s allocated: %.1f %% internal fragmentation\n",
		LABEL, "Allocations", text_count(sum->hits).s, text_bytes(sum->bytes_requested).s,
		text_bytes(sum->bytes_allocated).s, analysis_fragmentation(sum));
	print_families(out, totals);
	print_freed(out, totals);
	fprintf(out, "%-*s%s of %s at the end\n", LABEL, "Live",
		text_number(sum->live_objects, "object").s, text_bytes(sum->live_bytes).s);
	if (totals->invalid)
		fprintf(out, "%-*s%s records of unknown kind left out; see sonde check\n", LABEL,
			"Invalid", text_count(totals->invalid).s);
	print_counters(out, report, "Left out", COUNTER_LEFT_OUT);
	print_counters(out, report, "Recording", COUNTER_INFO);
	text_print_losses(out, report->reader, LABEL);
}

static const char *const titles[] = {
	[ANALYSIS_BY_CALLSITE] = "CALL SITE",
	[ANALYSIS_BY_CACHE] = "CACHE",
	[ANALYSIS_BY_SIZE] = "BYTES REQUESTED",
	[ANALYSIS_BY_POINTER] = "POINTER",
};

static struct text group_name(const struct report *report, uint64_t key)
{
	const struct sidecar *sidecar = trace_reader_sidecar(report->reader);

	switch (report->by) {
	case ANALYSIS_BY_CALLSITE:
		return sidecar_symbol_text(sidecar, key);
	case ANALYSIS_BY_CACHE:
		return text_cache(sidecar, key);
	case ANALYSIS_BY_SIZE:
		return text_count(key);
	case ANALYSIS_BY_POINTER:
		break;
	}
	return sidecar_symbol_text(NULL, key);
}

static void print_table(FILE *out, const struct report *report)
{
	bool colour = cli_colour(out);

	if (!report->nr_shown)
		return;
	fprintf(out, "\n%s%12s %11s %11s %7s %11s %11s %11s  %s%s\n", colour ? "\033[1m" : "",
		"ALLOCATIONS", "REQUESTED", "ALLOCATED", "FRAG %", "CROSS-CPU", "LIVE",
		"LIVE BYTES", titles[report->by], colour ? "\033[0m" : "");
	for (size_t i = 0; i < report->nr_shown; i++) {
		const struct analysis_group *group = &report->groups[i];

		fprintf(out, "%12s %11s %11s %7.1f %11s %11s %11s  %s\n", text_count(group->hits).s,
			text_bytes(group->bytes_requested).s, text_bytes(group->bytes_allocated).s,
			analysis_fragmentation(group), text_count(group->cross_cpu_frees).s,
			text_count(group->live_objects).s, text_bytes(group->live_bytes).s,
			group_name(report, group->key).s);
	}
	if (report->nr_shown < report->nr_groups)
		fprintf(out, "%12s more; --top 0 shows all\n",
			text_count(report->nr_groups - report->nr_shown).s);
}

void report_print_text(FILE *out, const struct report *report)
{
	print_header(out, report);
	print_totals(out, report);
	print_table(out, report);
}
