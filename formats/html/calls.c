/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/html/calls.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/u64-map.h"
#include "formats/event/graph.h"
#include "formats/graph/calls.h"

/* The calls of an instance. */
struct instance_calls {
	struct call_times *times;
	const struct trace_instance *instance;
	struct graph_calls *calls; /* NULL: no event so far */
	struct u64_map by_ip;      /* index of a function */
};

struct call_times {
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
		graph_calls_destroy(times->all[i].calls);
		u64_map_deinit(&times->all[i].by_ip);
	}
	free(times->functions);
	free(times);
}

static bool make_room(struct call_times *times)
{
	size_t room = times->room ? 2 * times->room : 256;
	struct function_calls *bigger;

	if (times->n < times->room)
		return true;
	bigger = reallocarray(times->functions, room, sizeof(*bigger));
	if (!bigger)
		return false;
	times->functions = bigger;
	times->room = room;
	return true;
}

/* NULL without memory. */
static struct function_calls *function_of(struct instance_calls *c, uint64_t ip)
{
	struct call_times *times = c->times;
	uint32_t *index = u64_map_find(&c->by_ip, ip);

	if (index)
		return &times->functions[*index];
	if (!make_room(times))
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

static void leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen)
{
	struct instance_calls *c = arg;
	struct function_calls *function = function_of(c, call->ip);
	uint64_t ns = (uint64_t)call->end_ns - (uint64_t)call->begin_ns;

	(void)vcpu;
	if (!function || !seen || call->end_ns < call->begin_ns)
		return;
	function->seen++;
	if (__builtin_add_overflow(function->total_ns, ns, &function->total_ns))
		function->total_ns = UINT64_MAX;
	if (ns > function->max_ns)
		function->max_ns = ns;
}

int call_times_add(struct call_times *times, const struct event *event, struct error *err)
{
	struct instance_calls *c = &times->all[event->instance - times->instances];
	const struct graph_visitor visitor = {.arg = c, .enter = enter, .leave = leave};
	enum graph_class class;
	int ret = 0;

	if (!graph_class_of(event->class, &class))
		return 0;
	if (!c->calls) {
		c->times = times;
		c->instance = event->instance;
		ret = graph_calls_create(&visitor, &c->calls, err);
	}
	if (!ret)
		ret = graph_calls_add(c->calls, event);
	return ret || !times->failed ? ret : -ENOMEM;
}

size_t call_times_count(const struct call_times *times)
{
	return times->n;
}

const struct function_calls *call_times_get(const struct call_times *times, size_t index)
{
	return &times->functions[index];
}
