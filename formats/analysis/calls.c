/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls by name: how many, how many failed, and how long they took. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"
#include "formats/syscalls/calls.h"
#include "formats/syscalls/prototypes.h"

enum {
	MAX_SYSCALLS = 4096, /* a kernel has fewer than 500 */
	ERRNO_MAX = 4095,    /* MAX_ERRNO of Linux, include/linux/err.h */
	/* Durations are counted in classes: powers of two in 16 parts, so that a percentile is at
	 * most 1/16 too large. */
	PARTS_BITS = 4,
	PARTS = 1 << PARTS_BITS,
	CLASSES = (64 - PARTS_BITS + 1) * PARTS,
};

struct row {
	uint64_t ip, calls, errors, unreturned;
	uint64_t total_ns, max_ns; /* of those that returned */
	uint32_t classes[CLASSES];
};

struct syscalls {
	struct analysis base;
	struct syscall_calls *calls;
	struct u64_map index; /* by ip: of its row, uint32_t */
	struct row **rows;
	size_t n, room;
};

static unsigned int class_of(uint64_t ns)
{
	unsigned int shift;

	if (ns < PARTS)
		return (unsigned int)ns;
	shift = 63 - (unsigned int)__builtin_clzll(ns) - PARTS_BITS;
	return (shift + 1) * PARTS + (unsigned int)((ns >> shift) & (PARTS - 1));
}

/* The greatest duration of a class. */
static uint64_t class_end(unsigned int class)
{
	const unsigned int shift = class / PARTS - 1;

	if (class < PARTS)
		return class;
	return (((uint64_t)PARTS + class % PARTS) << shift) + ((UINT64_C(1) << shift) - 1);
}

static uint64_t percentile(const struct row *row, unsigned int percent)
{
	const uint64_t returned = row->calls - row->unreturned;
	const double wanted = (double)returned * percent / 100;
	uint64_t sum = 0;

	for (unsigned int class = 0; class < CLASSES && returned; class ++) {
		sum += row->classes[class];
		if ((double)sum >= wanted)
			return class_end(class) < row->max_ns ? class_end(class) : row->max_ns;
	}
	return 0;
}

/* --- counting -------------------------------------------------------------------------------- */

static int add_row(struct syscalls *s, uint64_t ip, struct row **out)
{
	size_t room = s->room ? 2 * s->room : 64;
	struct row **rows = s->rows;
	uint32_t *number;

	if (s->n == s->room) {
		rows = reallocarray(rows, room, sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		s->rows = rows;
		s->room = room;
	}
	*out = calloc(1, sizeof(**out));
	number = *out ? u64_map_insert(&s->index, ip, NULL) : NULL;
	if (!number) {
		free(*out);
		return -ENOMEM;
	}
	(*out)->ip = ip;
	*number = (uint32_t)s->n;
	rows[s->n++] = *out;
	return 0;
}

static int count(void *arg, const struct syscall_call *call)
{
	struct syscalls *s = arg;
	const uint32_t *number = u64_map_find(&s->index, call->ip);
	struct row *row = number ? s->rows[*number] : NULL;
	uint64_t ns;

	if (!row && s->n == MAX_SYSCALLS)
		return 0;
	if (!row && add_row(s, call->ip, &row))
		return -ENOMEM;
	row->calls++;
	if (call->end != SYSCALL_RETURNED) {
		row->unreturned++;
		return 0;
	}
	ns = call->end_ns > call->begin_ns ? (uint64_t)call->end_ns - (uint64_t)call->begin_ns : 0;
	row->errors += call->result < 0 && call->result >= -ERRNO_MAX;
	row->total_ns += ns;
	row->max_ns = ns > row->max_ns ? ns : row->max_ns;
	row->classes[class_of(ns)]++;
	return 0;
}

static int create(const struct replay *replay, const struct analysis_options *options,
		  struct analysis **out, struct error *err)
{
	struct syscalls *s = calloc(1, sizeof(*s));
	int ret;

	(void)replay;
	(void)options;
	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	u64_map_init(&s->index, sizeof(uint32_t));
	ret = syscall_calls_create(count, s, &s->calls, err);
	if (ret) {
		free(s);
		return ret;
	}
	*out = &s->base;
	return 0;
}

static void destroy(struct analysis *base)
{
	struct syscalls *s = (struct syscalls *)base;

	for (size_t i = 0; i < s->n; i++)
		free(s->rows[i]);
	free(s->rows);
	u64_map_deinit(&s->index);
	syscall_calls_destroy(s->calls);
	free(s);
}

static int add_event(struct analysis *base, const struct event *event)
{
	struct syscalls *s = (struct syscalls *)base;

	return base->replay->in_window ? syscall_calls_add(s->calls, event) : 0;
}

static int by_total(const void *a, const void *b)
{
	const struct row *const *x = a, *const *y = b;

	if ((*x)->total_ns != (*y)->total_ns)
		return (*x)->total_ns < (*y)->total_ns ? 1 : -1;
	return ((*x)->calls < (*y)->calls) - ((*x)->calls > (*y)->calls);
}

/* What is open goes on when a trace that is followed has more. */
static int finish(struct analysis *base)
{
	struct syscalls *s = (struct syscalls *)base;
	int ret = base->replay->view->follow ? 0 : syscall_calls_end(s->calls);

	qsort(s->rows, s->n, sizeof(*s->rows), by_total);
	for (size_t i = 0; i < s->n; i++)
		*(uint32_t *)u64_map_find(&s->index, s->rows[i]->ip) = (uint32_t)i;
	return ret;
}

/* --- output ---------------------------------------------------------------------------------- */

static struct text name_of(const struct syscalls *s, const struct row *row)
{
	const struct sidecar *sidecar = trace_reader_sidecar(s->base.replay->reader);
	const struct text function = sidecar_function_text(sidecar, row->ip);
	struct text name;

	snprintf(name.s, sizeof(name.s), "%s", syscall_name_of(function.s));
	return name;
}

static uint64_t mean(const struct row *row)
{
	const uint64_t returned = row->calls - row->unreturned;

	return returned ? row->total_ns / returned : 0;
}

static void add_time(struct table *table, const struct row *row, uint64_t ns)
{
	table_add_cell(table, row->calls > row->unreturned ? measure_duration((double)ns).s : "");
}

static void add_cells(struct table *table, const struct syscalls *s, const struct row *row)
{
	table_add_cell(table, text_count(row->calls).s);
	table_add_cell(table, row->errors ? text_count(row->errors).s : "");
	table_add_cell(table, row->unreturned ? text_count(row->unreturned).s : "");
	add_time(table, row, row->total_ns);
	add_time(table, row, mean(row));
	add_time(table, row, percentile(row, 50));
	add_time(table, row, percentile(row, 95));
	add_time(table, row, percentile(row, 99));
	add_time(table, row, row->max_ns);
	table_add_cell(table, name_of(s, row).s);
}

static size_t nr_shown(const struct syscalls *s)
{
	const size_t top = s->base.options.top;

	return top && top < s->n ? top : s->n;
}

static void print_text(const struct analysis *base, FILE *out)
{
	static const char *const titles[] = {"CALLS", "ERRORS", "NO RETURN", "TOTAL", "MEAN",
					     "P50",   "P95",    "P99",       "MAX"};
	const struct syscalls *s = (const struct syscalls *)base;
	const size_t shown = nr_shown(s);
	struct table *table = table_create();

	if (!table)
		return;
	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		table_add_column(table, titles[i], false);
	table_add_column(table, "SYSCALL", true);
	for (size_t i = 0; i < shown; i++)
		add_cells(table, s, s->rows[i]);
	if (s->n)
		table_print(table, out);
	else
		fputs("no system call: trace with --trace syscalls\n", out);
	if (shown < s->n)
		fprintf(out, "%s more; --top 0 shows all\n", text_count(s->n - shown).s);
	text_print_losses(out, base->replay->reader, 6);
	table_destroy(table);
}

static json_t *row_json(const struct syscalls *s, const struct row *row)
{
	return json_pack("{ss so so so so so so so so so}", "name", name_of(s, row).s, "calls",
			 json_from_count(row->calls), "errors", json_from_count(row->errors),
			 "unreturned", json_from_count(row->unreturned), "total_ns",
			 json_from_count(row->total_ns), "mean_ns", json_from_count(mean(row)),
			 "p50_ns", json_from_count(percentile(row, 50)), "p95_ns",
			 json_from_count(percentile(row, 95)), "p99_ns",
			 json_from_count(percentile(row, 99)), "max_ns",
			 json_from_count(row->max_ns));
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct syscalls *s = (const struct syscalls *)base;
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; i < nr_shown(s); i++)
		failed |= json_array_append_new(array, row_json(s, s->rows[i]));
	return failed | json_object_set_new(root, "syscalls", array);
}

const struct analysis_ops syscalls_analysis = {
	.about = "system calls by name: calls, errors, durations",
	.create = create,
	.event = add_event,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.destroy = destroy,
};
