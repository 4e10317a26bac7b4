/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/html/calls.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/budget.h"
#include "formats/base/u64-map.h"
#include "formats/event/graph.h"
#include "formats/base/json.h"
#include "formats/graph/calls.h"
#include "formats/html/page.h"
#include "formats/syscalls/calls.h"
#include "formats/syscalls/prototypes.h"

struct function_calls {
	const struct trace_instance *instance;
	uint64_t ip;               /* where it begins */
	uint64_t calls;            /* that have begun */
	uint64_t seen;             /* of these, that have returned; the times are theirs */
	uint64_t total_ns, max_ns; /* from entry to return, sleep and calls of others included */
	uint64_t errors;           /* of system calls: that returned an error number */
	bool is_syscall;
};

/* The calls of an instance, of which either is there once it had an event. */
struct instance_calls {
	struct call_times *times;
	const struct trace_instance *instance;
	struct graph_calls *graph;
	struct syscall_calls *syscalls;
	struct u64_map by_ip; /* index of a function */
};

struct call_times {
	const struct trace_reader *reader;
	const struct trace_instance *instances;
	struct instance_calls all[TRACE_INSTANCES_MAX];
	struct function_calls *functions;
	size_t n, room;
	bool failed; /* memory ran out */
};

struct call_times *call_times_create(const struct trace_reader *reader)
{
	struct call_times *times = calloc(1, sizeof(*times));
	size_t n;

	if (!times)
		return NULL;
	times->reader = reader;
	times->instances = trace_reader_instances(reader, &n);
	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++)
		u64_map_init(&times->all[i].by_ip, sizeof(uint32_t));
	return times;
}

void call_times_destroy(struct call_times *times)
{
	if (!times)
		return;
	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++) {
		graph_calls_destroy(times->all[i].graph);
		syscall_calls_destroy(times->all[i].syscalls);
		u64_map_deinit(&times->all[i].by_ip);
	}
	free(times->functions);
	free(times);
}

/* NULL without memory. */
static struct function_calls *function_of(struct instance_calls *c, uint64_t ip)
{
	struct call_times *times = c->times;
	uint32_t *index = u64_map_find(&c->by_ip, ip);

	if (index)
		return &times->functions[*index];
	if (!array_grow(&times->functions, sizeof(*times->functions), times->n, &times->room))
		return NULL;
	index = u64_map_insert(&c->by_ip, ip, NULL);
	if (!index)
		return NULL;
	*index = (uint32_t)times->n;
	times->functions[times->n] = (struct function_calls){.instance = c->instance, .ip = ip};
	return &times->functions[times->n++];
}

static void enter(void *arg, struct graph_call *call)
{
	struct instance_calls *c = arg;
	struct function_calls *function = function_of(c, call->ip);

	if (function)
		function->calls++;
	else
		c->times->failed = true;
}

static void count_return(struct function_calls *function, int64_t begin_ns, int64_t end_ns)
{
	const uint64_t ns = (uint64_t)end_ns - (uint64_t)begin_ns;

	if (end_ns < begin_ns)
		return;
	function->seen++;
	if (__builtin_add_overflow(function->total_ns, ns, &function->total_ns))
		function->total_ns = UINT64_MAX;
	if (ns > function->max_ns)
		function->max_ns = ns;
}

static void leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen)
{
	struct function_calls *function = function_of(arg, call->ip);

	(void)vcpu;
	if (function && seen)
		count_return(function, call->begin_ns, call->end_ns);
}

static int count_syscall(void *arg, const struct syscall_call *call)
{
	struct function_calls *function = function_of(arg, call->ip);

	if (!function)
		return -ENOMEM;
	function->is_syscall = true;
	function->calls++;
	function->errors += syscall_call_failed(call);
	if (call->end == SYSCALL_RETURNED)
		count_return(function, call->begin_ns, call->end_ns);
	return 0;
}

static int add_graph(struct instance_calls *c, const struct event *event, struct error *err)
{
	const struct sidecar *sidecar = trace_reader_sidecar(c->times->reader);
	const struct graph_visitor visitor = {.arg = c,
					      .stack_bytes = sidecar_stack_bytes(sidecar),
					      .enter = enter,
					      .leave = leave};
	int ret = c->graph ? 0 : graph_calls_create(&visitor, &c->graph, err);

	if (!ret)
		ret = graph_calls_add(c->graph, event);
	return ret || !c->times->failed ? ret : -ENOMEM;
}

static int add_syscall(struct instance_calls *c, const struct event *event, struct error *err)
{
	int ret = c->syscalls ? 0 : syscall_calls_create(count_syscall, c, &c->syscalls, err);

	return ret ? ret : syscall_calls_add(c->syscalls, event);
}

int call_times_add(struct call_times *times, const struct event *event, struct error *err)
{
	struct instance_calls *c = &times->all[event->instance - times->instances];
	enum syscall_class syscall_class;
	enum graph_class graph_class;

	c->times = times;
	c->instance = event->instance;
	if (graph_class_of(event->class, &graph_class))
		return add_graph(c, event, err);
	return syscall_class_of(event->class, &syscall_class) ? add_syscall(c, event, err) : 0;
}

int call_times_finish(struct call_times *times)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < TRACE_INSTANCES_MAX; i++) {
		if (times->all[i].syscalls)
			ret = syscall_calls_end(times->all[i].syscalls);
	}
	return ret;
}

/* --- output ---------------------------------------------------------------------------------- */

static json_t *row_json(const struct call_times *times, const struct function_calls *f)
{
	const struct sidecar *sidecar = trace_reader_sidecar(times->reader);
	const struct text function = sidecar_function_text(sidecar, f->ip);
	const uint64_t sums[] = {f->calls, f->seen, f->total_ns, f->max_ns, f->errors};
	const size_t n = sizeof(sums) / sizeof(sums[0]) - !f->is_syscall;
	json_t *row = json_array();

	json_array_append_new(
		row, json_from_text(f->is_syscall ? syscall_name_of(function.s) : function.s));
	json_array_append_new(row, json_from_text(f->instance->name));
	for (size_t i = 0; i < n; i++)
		json_array_append_new(row, json_from_count(sums[i]));
	return row;
}

static int put_table(const struct call_times *times, struct export_file *file, bool is_syscall)
{
	bool is_first = true;
	int ret = 0;

	export_printf(file,
		      ",\n\"%s\":{\"columns\":[\"function\",\"instance\",\"calls\",\"seen\","
		      "\"total\",\"max\"%s],\"rows\":[",
		      is_syscall ? "syscalls" : "calls", is_syscall ? ",\"errors\"" : "");
	for (size_t i = 0; !ret && i < times->n; i++) {
		if (times->functions[i].is_syscall != is_syscall)
			continue;
		export_text(file, is_first ? "\n" : ",\n");
		ret = page_put(file, row_json(times, &times->functions[i]));
		is_first = false;
	}
	export_text(file, "]}");
	return ret;
}

int call_times_put(const struct call_times *times, struct export_file *file)
{
	int ret = put_table(times, file, false);

	return ret ? ret : put_table(times, file, true);
}
