/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The `hist` file of ftrace: hist_trigger_entry_print() in kernel/trace/trace_events_hist.c. */
#include <inttypes.h>
#include <string.h>
#include "formats/base/text.h"
#include "formats/hist/hists.h"

/* A line for each, whose first one is the key's name. */
static void print_frames(FILE *out, const struct hist_value *v)
{
	enum { INDENT = 9 };

	fputc('\n', out);
	for (size_t i = 0; i < v->nr_frames; i++) {
		const struct hist_frame *frame = &v->frames[i];

		if (frame->text)
			fprintf(out, "%*c%s\n", INDENT, ' ', frame->text);
		else
			fprintf(out, "%*c0x%" PRIx64 "\n", INDENT, ' ', frame->address);
	}
	if (v->cut)
		fprintf(out, "%*c[cut]\n", INDENT, ' ');
}

static void print_key(FILE *out, const struct hist_column *column, const struct hist_value *v)
{
	const char *text = v->text ? v->text : "";

	fprintf(out, "%s:", column->name);
	if (column->show == HIST_STACKTRACE) {
		print_frames(out, v);
		return;
	}
	fputc(' ', out);
	if (v->fault) {
		fprintf(out, "%10s", "(fault)");
		return;
	}
	switch (column->show) {
	case HIST_UNSIGNED:
	case HIST_PERCENT: /* no key is shown so */
	case HIST_BAR:
	case HIST_STACKTRACE: /* has lines of its own */
	case HIST_SHOWS:
		fprintf(out, "%10" PRIu64, v->number);
		break;
	case HIST_SIGNED:
		fprintf(out, "%10" PRId64, (int64_t)v->number);
		break;
	case HIST_HEX:
		fprintf(out, "%" PRIx64, v->number);
		break;
	case HIST_SYMBOL:
		fprintf(out, "[%" PRIx64 "] %-45s", v->number, text);
		break;
	case HIST_SYM_OFFSET:
		fprintf(out, "[%" PRIx64 "] %-55s", v->number, text);
		break;
	case HIST_EXECNAME:
		fprintf(out, "%-16s[%10" PRIu64 "]", text, v->number);
		break;
	case HIST_SYSCALL:
		fprintf(out, "%-30s[%3" PRIu64 "]", v->text ? text : "unknown_syscall", v->number);
		break;
	case HIST_POWER:
		fprintf(out, "~ 2^%-2" PRIu64, v->number);
		break;
	case HIST_RANGE:
		fprintf(out, "~ %" PRIu64 "-%" PRIu64, v->number, v->number + column->bucket - 1);
		break;
	case HIST_TEXT:
		fprintf(out, "%-50s", text);
		break;
	}
}

/* --- values ---------------------------------------------------------------------------------- */

enum { WHOLE = 10000, BAR_WIDTH = 20 };

/* What parts of a column are parts of. */
struct value_stat {
	uint64_t total, max;
};

static void add_stats(const struct hist_table *table, struct value_stat stats[HIST_COLUMNS])
{
	memset(stats, 0, HIST_COLUMNS * sizeof(*stats));
	for (size_t r = 0; r < table->n; r++)
		for (size_t i = 0; i < table->nr_values; i++) {
			const uint64_t v = table->v[r].values[i];

			stats[i].total += v;
			stats[i].max = v > stats[i].max ? v : stats[i].max;
		}
}

/* In ten thousandths, as the kernel rounds it. False where sums have overflowed. */
static bool part_of(uint64_t v, uint64_t all, uint64_t *out)
{
	*out = 0;
	if (!v)
		return true;
	if (v >= UINT64_MAX / WHOLE)
		all /= WHOLE;
	else
		v *= WHOLE;
	if (!all)
		return false;
	*out = v / all;
	return *out <= WHOLE;
}

static void print_percent(FILE *out, const char *name, uint64_t v, uint64_t total)
{
	uint64_t part;

	if (part_of(v, total, &part))
		fprintf(out, " %s (%%): %3" PRIu64 ".%02" PRIu64, name, part / 100, part % 100);
	else
		fprintf(out, " %s (%%):[ERROR]", name);
}

static void print_bar(FILE *out, const char *name, uint64_t v, uint64_t max)
{
	static const char full[] = "####################";
	uint64_t part;

	if (part_of(v, max, &part))
		fprintf(out, " %s: %-*.*s", name, BAR_WIDTH, (int)(part * BAR_WIDTH / WHOLE), full);
	else
		fprintf(out, " %s: %*s", name, BAR_WIDTH, "[ERROR]");
}

static void print_value(FILE *out, const struct hist_column *column, uint64_t v,
			const struct value_stat *stat)
{
	switch (column->show) {
	case HIST_PERCENT:
		print_percent(out, column->name, v, stat->total);
		break;
	case HIST_BAR:
		print_bar(out, column->name, v, stat->max);
		break;
	case HIST_HEX:
		fprintf(out, " %s: %10" PRIx64, column->name, v);
		break;
	case HIST_SIGNED:
		fprintf(out, " %s: %10" PRId64, column->name, (int64_t)v);
		break;
	default:
		fprintf(out, " %s: %10" PRIu64, column->name, v);
	}
}

static void print_row(FILE *out, const struct hist_table *table, const struct hist_row *row,
		      const struct value_stat *stats)
{
	bool has_lines = false;

	fputs("{ ", out);
	for (size_t i = 0; i < table->nr_keys; i++) {
		fputs(i ? ", " : "", out);
		print_key(out, &table->keys[i], &row->keys[i]);
		has_lines |= table->keys[i].show == HIST_STACKTRACE;
	}
	fputs(has_lines ? "}" : " }", out);
	if (!table->nohitcount)
		fprintf(out, " hitcount: %10" PRIu64, row->hits);
	for (size_t i = 0; i < table->nr_values; i++) {
		fputc(' ', out);
		print_value(out, &table->values[i], row->values[i], &stats[i]);
	}
	fputc('\n', out);
}

static void print_table(FILE *out, const struct hist_table *table,
			const struct hist_text_options *options)
{
	const size_t n = options->top && options->top < table->n ? options->top : table->n;
	struct value_stat stats[HIST_COLUMNS];
	uint64_t hits = 0;

	add_stats(table, stats);
	for (size_t i = 0; i < table->n; i++)
		hits += table->v[i].hits;
	fprintf(out, "# event histogram\n#\n# trigger info: %s", table->spec);
	if (table->size)
		fprintf(out, " [size=%" PRIu64 "]", table->size);
	fprintf(out, " [%s]\n#\n\n", table->ended ? "ended" : "active");
	for (size_t i = 0; i < n; i++)
		print_row(out, table, &table->v[i], stats);
	if (n < table->n)
		fprintf(out, "%s more; --top 0 shows all\n", text_count(table->n - n).s);
	fprintf(out,
		"\nTotals:\n    Hits: %" PRIu64 "\n    Entries: %zu\n    Dropped: %" PRIu64 "\n",
		hits, table->n, table->dropped);
}

void hist_set_print(FILE *out, const struct hist_set *set, const struct hist_text_options *options)
{
	if (!set->n)
		fputs("no histogram\n", out);
	for (size_t i = 0; i < set->n; i++) {
		if (i)
			fputc('\n', out);
		print_table(out, &set->v[i], options);
	}
}
