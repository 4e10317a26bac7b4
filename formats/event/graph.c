/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/event/graph.h"

#include <pthread.h>
#include "formats/event/graph-fields.h"

/* Whether it is one of `n` classes that follow each other; *index says which. */
static bool is_among(const struct event_class *class, const struct event_class *first, size_t n,
		     size_t *index)
{
	const uintptr_t bytes = (uintptr_t) class - (uintptr_t)first;

	*index = bytes / sizeof(*first);
	return bytes < n * sizeof(*first);
}

#define CLASS(system_, name_, fields_, forms)                                           \
	{                                                                               \
		.system = system_, .name = name_, .fields = fields_,                    \
		.nr_fields = sizeof(fields_) / sizeof((fields_)[0]), .nr_forms = forms, \
	}

/* --- calls ----------------------------------------------------------------------------------- */

/* One for each set of bits from GRAPH_TGID to GRAPH_RESULT: the pid, which all entries have, is in
 * none. */
enum { GRAPH_SETS = GRAPH_RESULT, GRAPH_MAX_FIELDS = EVENT_TASK_FIELDS + 3 };

#define GRAPH_AT(member) offsetof(struct graph_event, call.member)

static const struct event_task_places graph_places = {
	.pid = GRAPH_AT(pid),
	.tgid = GRAPH_AT(tgid),
	.comm = GRAPH_AT(comm),
	.cgroup = GRAPH_AT(cgroup),
	.stack = offsetof(struct call_stack_event, stack),
};

static const struct event_class graph_entries[GRAPH_NR_CLASSES] = {
	[GRAPH_ENTRY] = CLASS("graph", "entry", graph_call_only, 3),
	[GRAPH_CALL] = CLASS("graph", "call", graph_call_only, 3),
	[GRAPH_TAIL] = CLASS("graph", "tail", graph_call_only, 3),
};
static const struct event_class graph_exits[] = {CLASS("graph", "exit", graph_exit_frame, 3),
						 CLASS("graph", "exit", graph_exit_result, 4)};

static struct event_class graphs[GRAPH_SETS][GRAPH_NR_CLASSES];
static struct event_field graph_class_fields[GRAPH_SETS][GRAPH_NR_CLASSES][GRAPH_MAX_FIELDS];

static void make_graph(unsigned int fields, enum graph_class number)
{
	const bool has_stack = fields & GRAPH_STACK && number != GRAPH_EXIT;
	const struct event_class *plain = number == GRAPH_EXIT
						  ? &graph_exits[fields & GRAPH_RESULT ? 1 : 0]
						  : &graph_entries[number];
	struct event_class *class = &graphs[fields >> 1][number];

	event_class_add_task(plain, number == GRAPH_EXIT ? 0 : fields | EVENT_TASK_PID,
			     &graph_places, graph_class_fields[fields >> 1][number], class);
	class->size = has_stack ? sizeof(struct call_stack_event) : sizeof(struct graph_event);
}

static void make_graphs(void)
{
	for (unsigned int fields = 0; fields < 2 * GRAPH_SETS; fields += 2)
		for (enum graph_class number = 0; number < GRAPH_NR_CLASSES; number++)
			make_graph(fields, number);
}

const struct event_class *graph_classes(unsigned int fields)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_graphs);
	return graphs[fields >> 1 & (GRAPH_SETS - 1)];
}

bool graph_class_of(const struct event_class *class, enum graph_class *out)
{
	size_t index;

	if (!is_among(class->known ? class->known : class, graphs[0], GRAPH_SETS * GRAPH_NR_CLASSES,
		      &index))
		return false;
	*out = (enum graph_class)(index % GRAPH_NR_CLASSES);
	return true;
}

/* --- system calls ---------------------------------------------------------------------------- */

/* Likewise from SYSCALL_TGID to SYSCALL_STACK. */
enum { SYSCALL_SETS = SYSCALL_STACK, SYSCALL_MAX_FIELDS = EVENT_TASK_FIELDS + SYSCALL_ARGS + 2 };

static const struct event_class syscall_kinds[SYSCALL_NR_CLASSES] = {
	[SYSCALL_ENTER] = CLASS("syscalls", "sys_enter", sys_enter_only, 4),
	[SYSCALL_EXIT] = CLASS("syscalls", "sys_exit", sys_exit_only, 4),
	[SYSCALL_ENTER_ONLY] = CLASS("syscalls", "sys_enter_only", sys_enter_only, 4),
};

static struct event_class syscalls[SYSCALL_SETS][SYSCALL_NR_CLASSES];
static struct event_field syscall_fields[SYSCALL_SETS][SYSCALL_NR_CLASSES][SYSCALL_MAX_FIELDS];

static void make_syscall(unsigned int fields, enum syscall_class number)
{
	const unsigned int wanted = number == SYSCALL_EXIT ? fields & SYSCALL_ALL : fields;
	struct event_class *class = &syscalls[fields >> 1][number];

	event_class_add_task(&syscall_kinds[number], wanted | EVENT_TASK_PID, &graph_places,
			     syscall_fields[fields >> 1][number], class);
	class->size = wanted & SYSCALL_STACK ? sizeof(struct call_stack_event)
					     : sizeof(struct syscall_event);
}

static void make_syscalls(void)
{
	for (unsigned int fields = 0; fields < 2 * SYSCALL_SETS; fields += 2)
		for (enum syscall_class number = 0; number < SYSCALL_NR_CLASSES; number++)
			make_syscall(fields, number);
}

const struct event_class *syscall_classes(unsigned int fields)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_syscalls);
	return syscalls[fields >> 1 & (SYSCALL_SETS - 1)];
}

bool syscall_class_of(const struct event_class *class, enum syscall_class *out)
{
	size_t index;

	if (!is_among(class->known ? class->known : class, syscalls[0],
		      SYSCALL_SETS * SYSCALL_NR_CLASSES, &index))
		return false;
	*out = (enum syscall_class)(index % SYSCALL_NR_CLASSES);
	return true;
}

/* --- instances ------------------------------------------------------------------------------- */

bool graph_is_of(const struct trace_instance *instance)
{
	enum graph_class which;

	return instance->nr_classes && graph_class_of(&instance->classes[0], &which);
}

bool syscall_is_of(const struct trace_instance *instance)
{
	enum syscall_class which;

	return instance->nr_classes && syscall_class_of(&instance->classes[0], &which);
}

bool event_class_is_return(const struct event_class *class)
{
	enum syscall_class syscall;
	enum graph_class graph;

	if (graph_class_of(class, &graph))
		return graph == GRAPH_EXIT;
	return syscall_class_of(class, &syscall) && syscall == SYSCALL_EXIT;
}
