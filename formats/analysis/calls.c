/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of functions (the graph tracer), and system calls, by name: how many, and how long they
 * took. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/analysis/analysis.h"
#include "formats/base/json.h"
#include "formats/base/text.h"
#include "formats/base/u64-map.h"
#include "formats/graph/calls.h"
#include "formats/report/table.h"
#include "formats/report/trace-text.h"
#include "formats/syscalls/calls.h"
#include "formats/syscalls/prototypes.h"

enum {
	MAX_ROWS = 1 << 17, /* a trace of nonsense gets no more memory */
	MAX_TASKS = 1 << 16,
	MAX_DEPTH = 1024, /* of calls within calls */
	ERRNO_MAX = 4095, /* MAX_ERRNO of Linux, include/linux/err.h */
	/* Durations are counted in classes: powers of two in 16 parts, so that a percentile is at
	 * most 1/16 too large. */
	PARTS_BITS = 4,
	PARTS = 1 << PARTS_BITS,
	CLASSES = (64 - PARTS_BITS + 1) * PARTS,
};

struct row {
	uint64_t ip, calls, errors, unreturned;
	uint64_t total_ns, max_ns; /* of those that returned */
	uint64_t self_ns;          /* of functions: without the calls in them */
	uint32_t classes[CLASSES];
};

/* The time of calls that have ended, whose callers have not: by depth. */
struct inner {
	uint64_t ns[MAX_DEPTH + 2];
};

struct calls {
	struct analysis base;
	const struct trace_instance *instance; /* whose calls are counted; NULL: there is none */
	struct syscall_calls *syscalls;
	struct graph_calls *graph;
	struct u64_map tasks; /* of the graph: struct inner * */
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

static int add_row(struct calls *s, uint64_t ip, struct row **out)
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

/* NULL: no memory, or too many. */
static struct row *row_of(struct calls *s, uint64_t ip)
{
	const uint32_t *number = u64_map_find(&s->index, ip);
	struct row *row = number ? s->rows[*number] : NULL;

	if (!row && (s->n == MAX_ROWS || add_row(s, ip, &row)))
		return NULL;
	return row;
}

static void count_time(struct row *row, uint64_t ns)
{
	row->total_ns += ns;
	row->max_ns = ns > row->max_ns ? ns : row->max_ns;
	row->classes[class_of(ns)]++;
}

static uint64_t duration(int64_t begin_ns, int64_t end_ns)
{
	return end_ns > begin_ns ? (uint64_t)end_ns - (uint64_t)begin_ns : 0;
}

static int count_syscall(void *arg, const struct syscall_call *call)
{
	struct calls *s = arg;
	struct row *row = row_of(s, call->ip);

	if (!row)
		return s->n == MAX_ROWS ? 0 : -ENOMEM;
	row->calls++;
	if (call->end != SYSCALL_RETURNED) {
		row->unreturned++;
		return 0;
	}
	row->errors += call->result < 0 && call->result >= -ERRNO_MAX;
	count_time(row, duration(call->begin_ns, call->end_ns));
	return 0;
}

/* Idle tasks all have pid 0. NULL: no memory, or too many. */
static struct inner *inner_of(struct calls *s, const struct graph_call *call)
{
	const uint64_t task = call->pid ? call->pid : UINT64_C(1) << 32 | call->vcpu;
	struct inner **place = u64_map_find(&s->tasks, task), *made;

	if (place)
		return *place;
	made = s->tasks.count < MAX_TASKS ? calloc(1, sizeof(*made)) : NULL;
	place = made ? u64_map_insert(&s->tasks, task, NULL) : NULL;
	if (!place) {
		free(made);
		return NULL;
	}
	return *place = made;
}

static void on_enter(void *arg, struct graph_call *call)
{
	(void)arg;
	(void)call;
}

/* What ends without a time has that of the calls in it. */
static void on_leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen)
{
	struct calls *s = arg;
	struct row *row = row_of(s, call->ip);
	struct inner *inner = call->depth < MAX_DEPTH ? inner_of(s, call) : NULL;
	const uint64_t within = inner ? inner->ns[call->depth + 1] : 0;
	const uint64_t ns = seen ? duration(call->begin_ns, call->end_ns) : within;

	(void)vcpu;
	if (inner) {
		inner->ns[call->depth + 1] = 0;
		inner->ns[call->depth] += call->depth ? ns : 0;
	}
	if (!row)
		return;
	row->calls++;
	row->unreturned += !seen;
	if (!seen)
		return;
	row->self_ns += ns > within ? ns - within : 0;
	count_time(row, ns);
}

/* The one that the user named, or the first: the calls of several would be mixed up. */
static const struct trace_instance *choose(const struct replay *replay,
					   bool (*is_of)(const struct trace_instance *))
{
	size_t n;
	const struct trace_instance *all = trace_reader_instances(replay->reader, &n);

	for (size_t i = 0; i < n; i++)
		if (is_of(&all[i]) && (!replay->chosen || replay->chosen == &all[i]))
			return &all[i];
	return NULL;
}

static struct calls *create_any(const struct trace_instance *instance)
{
	struct calls *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->instance = instance;
	u64_map_init(&s->index, sizeof(uint32_t));
	u64_map_init(&s->tasks, sizeof(struct inner *));
	return s;
}

static int create_syscalls(const struct replay *replay, const struct analysis_options *options,
			   struct analysis **out, struct error *err)
{
	struct calls *s = create_any(choose(replay, syscall_is_of));
	int ret;

	(void)options;
	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	ret = syscall_calls_create(count_syscall, s, &s->syscalls, err);
	if (ret)
		free(s);
	else
		*out = &s->base;
	return ret;
}

static int create_graph(const struct replay *replay, const struct analysis_options *options,
			struct analysis **out, struct error *err)
{
	struct calls *s = create_any(choose(replay, graph_is_of));
	const struct graph_visitor visitor = {s, on_enter, on_leave};
	int ret;

	(void)options;
	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	ret = graph_calls_create(&visitor, &s->graph, err);
	if (ret)
		free(s);
	else
		*out = &s->base;
	return ret;
}

static void destroy(struct analysis *base)
{
	struct calls *s = (struct calls *)base;
	struct inner **inner;
	size_t pos = 0;
	uint64_t task;

	for (size_t i = 0; i < s->n; i++)
		free(s->rows[i]);
	free(s->rows);
	while ((inner = u64_map_next(&s->tasks, &pos, &task)))
		free(*inner);
	u64_map_deinit(&s->tasks);
	u64_map_deinit(&s->index);
	syscall_calls_destroy(s->syscalls);
	graph_calls_destroy(s->graph);
	free(s);
}

static int add_event(struct analysis *base, const struct event *event)
{
	struct calls *s = (struct calls *)base;

	if (!base->replay->in_window || event->instance != s->instance)
		return 0;
	return s->graph ? graph_calls_add(s->graph, event) : syscall_calls_add(s->syscalls, event);
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
	struct calls *s = (struct calls *)base;
	int ret = 0;

	if (s->syscalls && !base->replay->view->follow)
		ret = syscall_calls_end(s->syscalls);
	if (s->n)
		qsort(s->rows, s->n, sizeof(struct row *), by_total);
	for (size_t i = 0; i < s->n; i++)
		*(uint32_t *)u64_map_find(&s->index, s->rows[i]->ip) = (uint32_t)i;
	return ret;
}

/* --- output ---------------------------------------------------------------------------------- */

static struct text name_of(const struct calls *s, const struct row *row)
{
	const struct sidecar *sidecar = trace_reader_sidecar(s->base.replay->reader);
	struct text name = sidecar_function_text(sidecar, row->ip);

	if (s->graph)
		return name;
	memmove(name.s, syscall_name_of(name.s), strlen(syscall_name_of(name.s)) + 1);
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

static void add_cells(struct table *table, const struct calls *s, const struct row *row)
{
	table_add_cell(table, text_count(row->calls).s);
	if (s->syscalls)
		table_add_cell(table, row->errors ? text_count(row->errors).s : "");
	table_add_cell(table, row->unreturned ? text_count(row->unreturned).s : "");
	add_time(table, row, row->total_ns);
	if (s->graph)
		add_time(table, row, row->self_ns);
	add_time(table, row, mean(row));
	add_time(table, row, percentile(row, 50));
	add_time(table, row, percentile(row, 95));
	add_time(table, row, percentile(row, 99));
	add_time(table, row, row->max_ns);
	table_add_cell(table, name_of(s, row).s);
}

static size_t nr_shown(const struct calls *s)
{
	const size_t top = s->base.options.top;

	return top && top < s->n ? top : s->n;
}

static void add_columns(struct table *table, const struct calls *s)
{
	static const char *const syscalls[] = {"CALLS", "ERRORS", "NO RETURN", "TOTAL", "MEAN",
					       "P50",   "P95",    "P99",       "MAX",   NULL};
	static const char *const graph[] = {"CALLS", "NO RETURN", "TOTAL", "SELF", "MEAN",
					    "P50",   "P95",       "P99",   "MAX",  NULL};

	for (const char *const *title = s->graph ? graph : syscalls; *title; title++)
		table_add_column(table, *title, false);
	table_add_column(table, s->graph ? "FUNCTION" : "SYSCALL", true);
}

static void print_text(const struct analysis *base, FILE *out)
{
	const struct calls *s = (const struct calls *)base;
	const size_t shown = nr_shown(s);
	struct table *table = table_create();

	if (!table)
		return;
	if (s->instance)
		fprintf(out, "\n%s of the instance %s\n", s->graph ? "Calls" : "System calls",
			s->instance->name);
	add_columns(table, s);
	for (size_t i = 0; i < shown; i++)
		add_cells(table, s, s->rows[i]);
	if (s->n)
		table_print(table, out);
	else
		fprintf(out, "no calls: trace with --trace %s\n", s->graph ? "graph" : "syscalls");
	if (shown < s->n)
		fprintf(out, "%s more; --top 0 shows all\n", text_count(s->n - shown).s);
	if (base->replay->nr_analyses == 1)
		text_print_losses(out, base->replay->reader, 6);
	table_destroy(table);
}

static json_t *row_json(const struct calls *s, const struct row *row)
{
	json_t *json = json_pack(
		"{ss so so so so so so so so}", "name", name_of(s, row).s, "calls",
		json_from_count(row->calls), "unreturned", json_from_count(row->unreturned),
		"total_ns", json_from_count(row->total_ns), "mean_ns", json_from_count(mean(row)),
		"p50_ns", json_from_count(percentile(row, 50)), "p95_ns",
		json_from_count(percentile(row, 95)), "p99_ns",
		json_from_count(percentile(row, 99)), "max_ns", json_from_count(row->max_ns));
	int failed = s->graph ? json_object_set_new(json, "self_ns", json_from_count(row->self_ns))
			      : json_object_set_new(json, "errors", json_from_count(row->errors));

	if (failed) {
		json_decref(json);
		return NULL;
	}
	return json;
}

static int put_json(const struct analysis *base, json_t *root)
{
	const struct calls *s = (const struct calls *)base;
	json_t *array = json_array();
	int failed = 0;

	for (size_t i = 0; i < nr_shown(s); i++)
		failed |= json_array_append_new(array, row_json(s, s->rows[i]));
	return failed | json_object_set_new(root, s->graph ? "functions" : "syscalls", array);
}

const struct analysis_ops syscalls_analysis = {
	.about = "system calls by name: calls, errors, durations",
	.create = create_syscalls,
	.event = add_event,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.destroy = destroy,
};

const struct analysis_ops functions_analysis = {
	.about = "calls of functions with returns: how many, durations, without inner calls",
	.create = create_graph,
	.event = add_event,
	.finish = finish,
	.print_text = print_text,
	.put_json = put_json,
	.destroy = destroy,
};
