/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/calls/call-stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/budget.h"
#include "formats/base/u64-map.h"
#include "formats/graph/call-choice.h"
#include "formats/graph/calls.h"
#include "formats/syscalls/call-choice.h"
#include "formats/syscalls/calls.h"
#include "formats/syscalls/prototypes.h"

enum {
	MAX_ROWS = 1 << 17,   /* a trace of nonsense gets no more memory */
	MAX_POWERS = 1 << 20, /* of durations, 64 bytes each: a row of a kernel's has about 5 */
};

struct call_stats {
	const struct trace_reader *reader;
	const struct trace_instance *instance; /* whose calls are counted */
	const char *only;
	const struct syscall_choice *choice; /* of system calls; NULL: all */
	const struct call_filter *functions; /* of functions; likewise */
	struct syscall_calls *syscalls;
	struct graph_calls *graph;
	struct u64_map index; /* by ip: of its row, uint32_t */
	struct call_row **rows;
	size_t n, room;
	size_t powers_left; /* of MAX_POWERS */
	bool failed;        /* memory ran out */
	bool ending;        /* what is counted now was open at the end of the trace */
	uint64_t open;      /* calls that were */
};

/* --- counting -------------------------------------------------------------------------------- */

static int add_row(struct call_stats *c, uint64_t ip, struct call_row **out)
{
	uint32_t *number;

	if (!array_grow(&c->rows, sizeof(*c->rows), c->n, &c->room))
		return -ENOMEM;
	*out = calloc(1, sizeof(**out));
	number = *out ? u64_map_insert(&c->index, ip, NULL) : NULL;
	if (!number) {
		free(*out);
		return -ENOMEM;
	}
	(*out)->ip = ip;
	*number = (uint32_t)c->n;
	c->rows[c->n++] = *out;
	return 0;
}

/* NULL: no memory, or too many. */
static struct call_row *row_of(struct call_stats *c, uint64_t ip)
{
	const uint32_t *number = u64_map_find(&c->index, ip);
	struct call_row *row = number ? c->rows[*number] : NULL;

	if (!row && (c->n == MAX_ROWS || add_row(c, ip, &row)))
		return NULL;
	return row;
}

static uint64_t duration(int64_t begin_ns, int64_t end_ns)
{
	return end_ns > begin_ns ? (uint64_t)end_ns - (uint64_t)begin_ns : 0;
}

static int count_syscall(void *arg, const struct syscall_call *call)
{
	struct call_stats *c = arg;
	struct call_row *row;

	if (c->choice && !syscall_choice_has(c->choice, call))
		return 0;
	row = row_of(c, call->ip);
	c->open += c->ending;
	if (!row)
		return c->n == MAX_ROWS ? 0 : -ENOMEM;
	row->calls++;
	if (call->end != SYSCALL_RETURNED) {
		row->unreturned++;
		return 0;
	}
	row->errors += syscall_call_failed(call);
	return durations_add(&row->durations, duration(call->begin_ns, call->end_ns),
			     &c->powers_left);
}

static bool is_wanted(void *arg, uint64_t ip)
{
	const struct call_stats *c = arg;
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);

	return graph_name_matches(c->only, sidecar_function_text(sidecar, ip).s);
}

static void on_enter(void *arg, struct graph_call *call)
{
	(void)arg;
	(void)call;
}

static void on_leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen)
{
	struct call_stats *c = arg;
	struct call_row *row;

	(void)vcpu;
	if (!graph_choice_has(c->functions, call, seen))
		return;
	row = row_of(c, call->ip);
	c->failed |= !row && c->n < MAX_ROWS;
	if (!row)
		return;
	row->calls++;
	row->unreturned += !seen;
	if (!seen)
		return;
	row->self_ns += graph_call_self_ns(call);
	c->failed |= durations_add(&row->durations, graph_call_ns(call), &c->powers_left) != 0;
}

static void count_open(void *arg, const struct graph_call *call)
{
	struct call_stats *c = arg;
	struct call_row *row;

	if (!graph_choice_has(c->functions, call, false))
		return;
	row = row_of(c, call->ip);
	c->open++;
	if (!row)
		return;
	row->calls++;
	row->unreturned++;
}

/* --- an instance ------------------------------------------------------------------------------ */

static int create_calls(struct call_stats *c, struct error *err)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->reader);
	const struct graph_visitor visitor = {.arg = c,
					      .stack_bytes = sidecar_stack_bytes(sidecar),
					      .wants = c->only ? is_wanted : NULL,
					      .enter = on_enter,
					      .leave = on_leave};

	if (syscall_is_of(c->instance))
		return syscall_calls_create(count_syscall, c, &c->syscalls, err);
	return graph_calls_create(&visitor, &c->graph, err);
}

int call_stats_create(const struct trace_reader *reader, const struct trace_instance *instance,
		      const char *only, struct call_stats **out, struct error *err)
{
	struct call_stats *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	c->reader = reader;
	c->instance = instance;
	c->only = only;
	u64_map_init(&c->index, sizeof(uint32_t));
	c->powers_left = MAX_POWERS;
	ret = create_calls(c, err);
	if (ret)
		call_stats_destroy(c);
	else
		*out = c;
	return ret;
}

void call_stats_destroy(struct call_stats *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		durations_deinit(&c->rows[i]->durations);
		free(c->rows[i]);
	}
	free(c->rows);
	u64_map_deinit(&c->index);
	syscall_calls_destroy(c->syscalls);
	graph_calls_destroy(c->graph);
	free(c);
}

void call_stats_choose(struct call_stats *c, const struct syscall_choice *choice)
{
	c->choice = choice;
}

void call_stats_choose_functions(struct call_stats *c, const struct call_filter *choice)
{
	c->functions = choice;
}

const struct trace_instance *call_stats_instance(const struct call_stats *c)
{
	return c->instance;
}

bool call_stats_are_syscalls(const struct call_stats *c)
{
	return c->syscalls;
}

int call_stats_add(struct call_stats *c, const struct event *event)
{
	if (event->instance != c->instance)
		return 0;
	if (c->syscalls)
		return syscall_calls_add(c->syscalls, event);
	return graph_calls_add(c->graph, event) || c->failed ? -ENOMEM : 0;
}

int call_stats_end(struct call_stats *c)
{
	c->ending = true;
	if (c->syscalls)
		return syscall_calls_end(c->syscalls);
	graph_calls_visit_open(c->graph, count_open, c);
	return 0;
}

uint64_t call_stats_open(const struct call_stats *c)
{
	return c->open;
}

/* --- rows ------------------------------------------------------------------------------------- */

const char *const call_order_names[] = {
	[CALLS_BY_TOTAL] = "total", [CALLS_BY_SELF] = "self", [CALLS_BY_CALLS] = "calls",
	[CALLS_BY_MEAN] = "mean",   [CALLS_BY_MAX] = "max",   [NR_CALL_ORDERS] = NULL};

static uint64_t value_of(const struct call_row *row, enum call_order order)
{
	switch (order) {
	case CALLS_BY_SELF:
		return row->self_ns;
	case CALLS_BY_CALLS:
		return row->calls;
	case CALLS_BY_MEAN:
		return durations_mean(&row->durations);
	case CALLS_BY_MAX:
		return row->durations.max_ns;
	default:
		return row->durations.total_ns;
	}
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct call_row *x = *(const struct call_row *const *)a;
	const struct call_row *y = *(const struct call_row *const *)b;
	const enum call_order *order = arg;
	const uint64_t left = value_of(x, *order), right = value_of(y, *order);

	if (left != right)
		return left < right ? 1 : -1;
	if (x->calls != y->calls)
		return x->calls < y->calls ? 1 : -1;
	return (x->ip > y->ip) - (x->ip < y->ip);
}

void call_stats_sort(struct call_stats *c, enum call_order order)
{
	if (c->syscalls && order == CALLS_BY_SELF)
		order = CALLS_BY_TOTAL;
	if (c->n)
		qsort_r(c->rows, c->n, sizeof(struct call_row *), compare, &order);
	for (size_t i = 0; i < c->n; i++)
		*(uint32_t *)u64_map_find(&c->index, c->rows[i]->ip) = (uint32_t)i;
}

size_t call_stats_rows(const struct call_stats *c)
{
	return c->n;
}

const struct call_row *call_stats_row(const struct call_stats *c, size_t index)
{
	return c->rows[index];
}

struct text call_stats_name(const struct call_stats *c, const struct call_row *row)
{
	struct text name = sidecar_function_text(trace_reader_sidecar(c->reader), row->ip);

	if (c->syscalls)
		memmove(name.s, syscall_name_of(name.s), strlen(syscall_name_of(name.s)) + 1);
	return name;
}
