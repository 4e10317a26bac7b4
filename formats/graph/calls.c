/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/graph/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/glob.h"
#include "formats/base/u64-map.h"
#include "formats/event/graph.h"
#include "formats/graph/stacks.h"

enum {
	/* What a trace of nonsense may take: a guest has fewer. */
	MAX_DEPTH = 1024, /* of a task */
	MAX_TASKS = 1 << 16,
	MAX_OPEN = 1 << 20,   /* calls */
	MAX_WANTED = 1 << 18, /* functions of which that is remembered */
};

/* Distinguishes the idle tasks. */
#define IDLE_TASK (UINT64_C(1) << 32)

/* Where the call with a frame is: the innermost one of those with the same. */
struct place {
	uint64_t task;
	uint32_t index;
};

struct task {
	uint64_t key;
	struct graph_call *calls;
	uint32_t n, room;
};

struct graph_calls {
	struct graph_visitor visitor;
	struct graph_counts counts;
	struct u64_map tasks;  /* struct task */
	struct u64_map frames; /* struct place */
	struct u64_map wanted; /* by ip: bool */
	struct graph_stacks stacks;
	size_t open;           /* calls */
};

int graph_calls_create(const struct graph_visitor *visitor, struct graph_calls **out,
		       struct error *err)
{
	struct graph_calls *c = calloc(1, sizeof(*c));

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	c->visitor = *visitor;
	u64_map_init(&c->tasks, sizeof(struct task));
	u64_map_init(&c->frames, sizeof(struct place));
	u64_map_init(&c->wanted, sizeof(bool));
	graph_stacks_init(&c->stacks);
	*out = c;
	return 0;
}

void graph_calls_destroy(struct graph_calls *c)
{
	struct task *task;
	size_t pos = 0;
	uint64_t key;

	if (!c)
		return;
	while ((task = u64_map_next(&c->tasks, &pos, &key)))
		free(task->calls);
	u64_map_deinit(&c->tasks);
	u64_map_deinit(&c->frames);
	u64_map_deinit(&c->wanted);
	graph_stacks_deinit(&c->stacks);
	free(c);
}

void graph_calls_visit_open(const struct graph_calls *c,
			    void (*visit)(void *arg, const struct graph_call *call), void *arg)
{
	const struct task *task;
	size_t pos = 0;
	uint64_t key;

	while ((task = u64_map_next(&c->tasks, &pos, &key))) {
		for (uint32_t i = 0; i < task->n; i++)
			if (task->calls[i].wanted)
				visit(arg, &task->calls[i]);
	}
}

struct open_calls {
	const struct graph_call **v;
	size_t n;
};

static void note_open(void *arg, const struct graph_call *call)
{
	struct open_calls *open = arg;

	open->v[open->n++] = call;
}

static int by_begin(const void *a, const void *b)
{
	const struct graph_call *x = *(const struct graph_call *const *)a;
	const struct graph_call *y = *(const struct graph_call *const *)b;

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return (x->depth > y->depth) - (x->depth < y->depth);
}

int graph_calls_visit_open_in_order(const struct graph_calls *c,
				    void (*visit)(void *arg, const struct graph_call *call),
				    void *arg)
{
	struct open_calls open = {.v = calloc(c->open + 1, sizeof(*open.v))};

	if (!open.v)
		return -ENOMEM;
	graph_calls_visit_open(c, note_open, &open);
	qsort(open.v, open.n, sizeof(*open.v), by_begin);
	for (size_t i = 0; i < open.n; i++)
		visit(arg, open.v[i]);
	free(open.v);
	return 0;
}

struct graph_counts graph_calls_counts(const struct graph_calls *c)
{
	return c->counts;
}

/* --- the end of calls ------------------------------------------------------------------------ */

static void add_time(struct graph_call *outer, const struct graph_call *call, bool seen)
{
	if (!seen)
		outer->within_ns += call->within_ns;
	else if (call->end_ns > call->begin_ns)
		outer->within_ns += (uint64_t)call->end_ns - (uint64_t)call->begin_ns;
}

static struct graph_call *top_of(const struct task *task)
{
	return &task->calls[task->n - 1];
}

/* No call is in a frame any more, unless a tail call has hidden one. What another task, or a later
 * call, has in that frame stays. */
static void free_frame(struct graph_calls *c, const struct task *task, uint64_t frame)
{
	struct place *place = u64_map_find(&c->frames, frame);

	if (!place || place->task != task->key || place->index != task->n)
		return;
	if (task->n && top_of(task)->frame == frame)
		place->index = task->n - 1;
	else
		u64_map_remove(&c->frames, frame);
}

/* The innermost call ends. */
static void pop(struct graph_calls *c, struct task *task, unsigned int vcpu, bool seen)
{
	struct graph_call *call = &task->calls[--task->n];

	free_frame(c, task, call->frame);
	c->open--;
	if (!call->wanted)
		return;
	if (call->depth)
		add_time(top_of(task), call, seen);
	c->counts.unseen += !seen;
	c->visitor.leave(c->visitor.arg, call, vcpu, seen);
}

static void end_above(struct graph_calls *c, struct task *task, uint32_t left, unsigned int vcpu)
{
	while (task->n > left)
		pop(c, task, vcpu, false);
}

static void end_returned(struct graph_calls *c, struct task *task, const struct event *event,
			 bool has_result)
{
	const struct graph_event *bytes = event->bytes;
	struct graph_call *call = top_of(task);

	call->end_ns = event->ns;
	call->result = bytes->result;
	call->has_result = has_result;
	pop(c, task, event->vcpu, true);
}

static void leave(struct graph_calls *c, const struct event *event)
{
	const uint64_t frame = ((const struct graph_event *)event->bytes)->frame;
	const bool has_result = event_field_find(event->class, "result");
	const struct place *place = u64_map_find(&c->frames, frame);
	struct task *task;

	if (!place) {
		c->counts.orphans++;
		return;
	}
	task = u64_map_find(&c->tasks, place->task);
	end_above(c, task, place->index + 1, event->vcpu);
	while (task->n && top_of(task)->frame == frame)
		end_returned(c, task, event, has_result);
}

/* --- the begin of calls ---------------------------------------------------------------------- */

static bool is_on_stack_of(const struct graph_calls *c, const struct graph_call *call,
			   uint64_t frame)
{
	const uint64_t distance = frame > call->frame ? frame - call->frame : call->frame - frame;

	return distance < c->visitor.stack_bytes;
}

/* An entry. */
struct begin {
	const struct event *event;
	const struct graph_event *bytes;
	enum graph_class class;
};

/* A jump leaves the return address alone. A function is not called in a loop by a tail call. */
static bool is_tail_of(const struct graph_call *call, const struct begin *begin)
{
	const struct graph_event *bytes = begin->bytes;

	return begin->class == GRAPH_TAIL && call->frame == bytes->frame &&
	       call->parent_ip == bytes->call.parent_ip && call->ip != bytes->call.ip;
}

/*
 * An interrupt's calls have ended, whether or not their returns were seen, when the task calls
 * another function on its own stack. Where that is not known, a call on the stack of an earlier one
 * tells.
 */
static void end_interrupts(struct graph_calls *c, struct task *task, const struct begin *begin)
{
	const uint64_t frame = begin->bytes->frame;
	uint32_t left = task->n;
	bool shared;

	if (!left || is_on_stack_of(c, top_of(task), frame))
		return;
	shared = graph_stacks_is_shared(&c->stacks, frame);
	if (shared && !graph_stacks_is_shared(&c->stacks, top_of(task)->frame))
		return;
	while (left && !is_on_stack_of(c, &task->calls[left - 1], frame))
		left--;
	if (left)
		end_above(c, task, left, begin->event->vcpu);
	else
		while (!shared && task->n &&
		       graph_stacks_is_shared(&c->stacks, top_of(task)->frame))
			pop(c, task, begin->event->vcpu, false);
}

/* Calls below whose frame there is another one now have ended. */
static void end_overwritten(struct graph_calls *c, struct task *task, const struct begin *begin)
{
	const uint64_t frame = begin->bytes->frame;

	while (task->n) {
		const struct graph_call *top = top_of(task);

		if (frame < top->frame || !is_on_stack_of(c, top, frame) || is_tail_of(top, begin))
			break;
		pop(c, task, begin->event->vcpu, false);
	}
}

/*
 * The stack of a task that is no more may be another one's. On an interrupt's, a call has ended
 * that another task finds there; above it may be calls on its task's own stack, which have not: it
 * ends with the one that they are shown in.
 */
static void end_foreign(struct graph_calls *c, uint64_t frame, uint64_t owner, unsigned int vcpu)
{
	const struct place *found = u64_map_find(&c->frames, frame);
	struct place place;
	struct task *task;
	bool shared;

	if (!found || found->task == owner)
		return;
	shared = graph_stacks_is_shared(&c->stacks, frame);
	place = *found;
	task = u64_map_find(&c->tasks, place.task);
	while (task->n > place.index &&
	       (is_on_stack_of(c, top_of(task), frame) ||
		(!shared && graph_stacks_is_shared(&c->stacks, top_of(task)->frame))))
		pop(c, task, vcpu, false);
	if (task->n > place.index)
		u64_map_remove(&c->frames, frame);
}

/* Tasks come and go: forget those without open calls, or all of them. */
static void forget_tasks(struct graph_calls *c, bool all, unsigned int vcpu)
{
	struct u64_map kept;
	struct task *task;
	size_t pos = 0;
	uint64_t key;

	u64_map_init(&kept, sizeof(struct task));
	while ((task = u64_map_next(&c->tasks, &pos, &key))) {
		struct task *to = NULL;

		if (task->n && !all)
			to = u64_map_insert(&kept, key, NULL);
		if (to) {
			*to = *task;
			continue;
		}
		end_above(c, task, 0, vcpu);
		free(task->calls);
	}
	u64_map_deinit(&c->tasks);
	c->tasks = kept;
}

static void make_room(struct graph_calls *c, unsigned int vcpu)
{
	const bool full = c->tasks.count == MAX_TASKS;

	if (full)
		forget_tasks(c, false, vcpu);
	if (c->open == MAX_OPEN || (full && c->tasks.count > MAX_TASKS / 2))
		forget_tasks(c, true, vcpu);
}

static struct graph_call *push(struct graph_calls *c, struct task *task, unsigned int vcpu)
{
	uint32_t room = task->room ? 2 * task->room : 16;
	struct graph_call *calls;

	if (task->n == MAX_DEPTH)
		end_above(c, task, 0, vcpu);
	if (task->n == task->room) {
		calls = reallocarray(task->calls, room, sizeof(*calls));
		if (!calls)
			return NULL;
		task->calls = calls;
		task->room = room;
	}
	return &task->calls[task->n];
}

bool graph_name_matches(const char *glob, const char *name)
{
	char function[512];

	snprintf(function, sizeof(function), "%.*s", (int)strcspn(name, " "), name);
	return glob_matches(glob, function) || glob_matches(glob, name);
}

static bool is_wanted(struct graph_calls *c, uint64_t ip)
{
	const bool *known = u64_map_find(&c->wanted, ip);
	bool wanted, *kept;

	if (!c->visitor.wants || known)
		return !known || *known;
	wanted = c->visitor.wants(c->visitor.arg, ip);
	kept = c->wanted.count < MAX_WANTED ? u64_map_insert(&c->wanted, ip, NULL) : NULL;
	if (kept)
		*kept = wanted;
	return wanted;
}

static struct graph_call make_call(struct graph_calls *c, const struct task *task,
				   const struct begin *begin)
{
	const struct graph_event *bytes = begin->bytes;
	const struct graph_call *top = task->n ? top_of(task) : NULL;
	struct graph_call call = {
		.ip = bytes->call.ip,
		.parent_ip = bytes->call.parent_ip,
		.frame = bytes->frame,
		.pid = bytes->call.pid,
		.tgid = bytes->call.tgid,
		.cgroup = bytes->call.cgroup,
		.vcpu = begin->event->vcpu,
		.depth = top && top->wanted ? top->depth + 1 : 0,
		.begin_ns = begin->event->ns,
		.unrecorded = begin->class == GRAPH_CALL,
		.wanted = (top && top->wanted) || is_wanted(c, bytes->call.ip),
	};

	memcpy(call.comm, bytes->call.comm, sizeof(call.comm));
	if (!top || !top->wanted)
		return call;
	call.outer_note = top->note;
	call.is_tail = is_tail_of(top, begin);
	call.interrupts = !is_on_stack_of(c, top, bytes->frame);
	return call;
}

static int enter(struct graph_calls *c, const struct begin *begin)
{
	const uint64_t frame = begin->bytes->frame;
	const unsigned int vcpu = begin->event->vcpu;
	const uint32_t pid = begin->bytes->call.pid;
	const uint64_t key = pid ? pid : IDLE_TASK | vcpu;
	struct graph_call *call;
	struct place *place;
	struct task *task;

	make_room(c, vcpu);
	task = u64_map_insert(&c->tasks, key, NULL);
	if (!task)
		return -ENOMEM;
	task->key = key;
	if (!task->n || !is_on_stack_of(c, top_of(task), frame))
		graph_stacks_note(&c->stacks, frame, key);
	end_foreign(c, frame, key, vcpu);
	end_interrupts(c, task, begin);
	end_overwritten(c, task, begin);
	call = push(c, task, vcpu);
	place = call ? u64_map_insert(&c->frames, frame, NULL) : NULL;
	if (!place)
		return -ENOMEM;
	*call = make_call(c, task, begin);
	*place = (struct place){key, task->n++};
	c->open++;
	c->counts.calls += call->wanted;
	if (call->wanted)
		c->visitor.enter(c->visitor.arg, call);
	return 0;
}

int graph_calls_add(struct graph_calls *c, const struct event *event)
{
	struct begin begin = {.event = event, .bytes = event->bytes};

	if (!graph_class_of(event->class, &begin.class))
		return 0;
	if (begin.class != GRAPH_EXIT)
		return enter(c, &begin);
	leave(c, event);
	return 0;
}
