/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time of calls by stack: of functions without that of the calls in them, and of system calls.
 * A call's stack is its chain, if that is recorded; else that of the call around it, with the
 * function on top.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "formats/event/graph.h"
#include "formats/export/stacks.h"
#include "formats/graph/calls.h"
#include "formats/heap/sum.h"
#include "formats/syscalls/calls.h"

enum { MAX_TASKS = 1 << 20 /* in system calls; a trace of nonsense gets no more memory */ };

/* The calls of an instance. */
struct instance_times {
	struct stack_times *times;
	struct graph_calls *graph; /* NULL: it has no event so far; likewise */
	struct syscall_calls *syscalls;
	struct u64_map tasks; /* by pid: the stack of its system call */
};

struct stack_times {
	struct stacks *stacks;
	const struct trace_instance *instances;
	struct instance_times all[TRACE_INSTANCES_MAX];
	const struct event *event; /* that is added */
	bool failed;
};

struct stack_times *stack_times_create(struct stacks *stacks,
				       const struct trace_instance *instances)
{
	struct stack_times *times = calloc(1, sizeof(*times));

	if (!times)
		return NULL;
	times->stacks = stacks;
	times->instances = instances;
	for (size_t i = 0; i < TRACE_INSTANCES_MAX; i++)
		u64_map_init(&times->all[i].tasks, sizeof(uint32_t));
	return times;
}

void stack_times_destroy(struct stack_times *times)
{
	for (size_t i = 0; times && i < TRACE_INSTANCES_MAX; i++) {
		graph_calls_destroy(times->all[i].graph);
		syscall_calls_destroy(times->all[i].syscalls);
		u64_map_deinit(&times->all[i].tasks);
	}
	free(times);
}

/* --- which stack ----------------------------------------------------------------------------- */

/* Of whatever kind the entries are: a function that is tail-called is in the stacks of others. */
static int64_t index_of(struct stack_times *times, struct stack *stack)
{
	int64_t index;

	stack->class = &stack->instance->classes[0];
	index = stacks_index(times->stacks, stack);
	times->failed |= index < 0;
	return index;
}

static void push(struct stack *stack, uint64_t ip)
{
	if (stack->nr_frames == STACK_MAX_FRAMES) {
		memmove(stack->frames, stack->frames + 1,
			(STACK_MAX_FRAMES - 1) * sizeof(stack->frames[0]));
		stack->frames[0] = EVENT_STACK_CUT;
		stack->nr_frames--;
	}
	stack->frames[stack->nr_frames++] = ip;
}

static uint64_t duration(int64_t begin_ns, int64_t end_ns)
{
	return end_ns > begin_ns ? (uint64_t)end_ns - (uint64_t)begin_ns : 0;
}

/* --- functions ------------------------------------------------------------------------------- */

static void enter(void *arg, struct graph_call *call)
{
	struct stack_times *times = ((struct instance_times *)arg)->times;
	struct stack stack;
	int64_t index;

	if (!call->depth || stack_event_has_chain(times->event)) {
		stack_of_event(&stack, times->event);
	} else {
		stack = *stacks_get(times->stacks, (uint32_t)call->outer_note);
		push(&stack, call->ip);
	}
	index = index_of(times, &stack);
	call->note = index < 0 ? 0 : (uint64_t)index;
	if (index >= 0)
		stacks_get(times->stacks, (uint32_t)index)->sums[STACK_EVENTS]++;
}

static void leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen)
{
	struct stack_times *times = ((struct instance_times *)arg)->times;
	const uint64_t ns = duration(call->begin_ns, call->end_ns);

	(void)vcpu;
	if (seen && !times->failed && ns > call->within_ns)
		sum_add(&stacks_get(times->stacks, (uint32_t)call->note)->sums[STACK_TIME],
			ns - call->within_ns);
}

static int add_call(struct instance_times *t, const struct event *event)
{
	const struct graph_visitor visitor = {.arg = t, .enter = enter, .leave = leave};
	int ret = t->graph ? 0 : graph_calls_create(&visitor, &t->graph, NULL);

	return ret ? ret : graph_calls_add(t->graph, event);
}

/* --- system calls ---------------------------------------------------------------------------- */

static int end_syscall(void *arg, const struct syscall_call *call)
{
	struct instance_times *t = arg;
	const uint32_t *index = u64_map_find(&t->tasks, call->pid);

	if (index && call->end == SYSCALL_RETURNED)
		sum_add(&stacks_get(t->times->stacks, *index)->sums[STACK_TIME],
			duration(call->begin_ns, call->end_ns));
	return 0;
}

/* A task has one at a time. */
static int begin_syscall(struct instance_times *t, const struct event *event)
{
	const struct syscall_event *bytes = event->bytes;
	const uint32_t pid = bytes->call.call.pid;
	uint32_t *place = u64_map_find(&t->tasks, pid);
	struct stack stack;
	int64_t index;

	stack_of_event(&stack, event);
	index = index_of(t->times, &stack);
	if (index < 0)
		return -ENOMEM;
	stacks_get(t->times->stacks, (uint32_t)index)->sums[STACK_EVENTS]++;
	if (!place && t->tasks.count < MAX_TASKS)
		place = u64_map_insert(&t->tasks, pid, NULL);
	if (!place)
		return t->tasks.count < MAX_TASKS ? -ENOMEM : 0;
	*place = (uint32_t)index;
	return 0;
}

/* What is open when the task begins another one ends without a time. */
static int add_syscall(struct instance_times *t, const struct event *event, bool begins)
{
	int ret = t->syscalls ? 0 : syscall_calls_create(end_syscall, t, &t->syscalls, NULL);

	if (!ret && begins)
		ret = begin_syscall(t, event);
	return ret ? ret : syscall_calls_add(t->syscalls, event);
}

/* --- the whole ------------------------------------------------------------------------------- */

int stack_times_add(struct stack_times *times, const struct event *event)
{
	struct instance_times *t = &times->all[event->instance - times->instances];
	enum syscall_class syscall;
	enum graph_class class;
	int ret = 0;

	t->times = times;
	times->event = event;
	if (graph_class_of(event->class, &class))
		ret = add_call(t, event);
	else if (syscall_class_of(event->class, &syscall))
		ret = add_syscall(t, event, syscall != SYSCALL_EXIT);
	return ret || !times->failed ? ret : -ENOMEM;
}
