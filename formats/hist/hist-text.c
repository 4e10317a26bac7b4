/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The `hist` file of ftrace: hist_trigger_entry_print() in kernel/trace/trace_events_hist.c. */
#include <inttypes.h>
#include "formats/base/text.h"
#include "formats/hist/hists.h"

static void print_key(FILE *out, const struct hist_column *column, const struct hist_value *v)
{
	const char *text = v->text ? v->text : "";

	fprintf(out, "%s: ", column->name);
	if (v->fault) {
		fprintf(out, "%10s", "(fault)");
		return;
	}
	switch (column->show) {
	case HIST_UNSIGNED:
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

static void print_row(FILE *out, const struct hist_table *table, const struct hist_row *row)
{
	fputs("{ ", out);
	for (size_t i = 0; i < table->nr_keys; i++) {
		fputs(i ? ", " : "", out);
		print_key(out, &table->keys[i], &row->keys[i]);
	}
	fprintf(out, " } hitcount: %10" PRIu64, row->hits);
	for (size_t i = 0; i < table->nr_values; i++)
		fprintf(out,
			table->values[i].show == HIST_SIGNED ? "  %s: %10" PRId64
							     : "  %s: %10" PRIu64,
			table->values[i].name, row->values[i]);
	fputc('\n', out);
}

static void print_table(FILE *out, const struct hist_table *table,
			const struct hist_text_options *options)
{
	const size_t n = options->top && options->top < table->n ? options->top : table->n;
	uint64_t hits = 0;

	for (size_t i = 0; i < table->n; i++)
		hits += table->v[i].hits;
	fprintf(out, "# event histogram\n#\n# trigger info: %s", table->spec);
	if (table->size)
		fprintf(out, " [size=%" PRIu64 "]", table->size);
	fprintf(out, " [%s]\n#\n\n", table->ended ? "ended" : "active");
	for (size_t i = 0; i < n; i++)
		print_row(out, table, &table->v[i]);
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
