/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/graph/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/u64-map.h"
#include "formats/event/graph.h"

enum {
	STACK_BYTES = 16 << 10, /* THREAD_SIZE and IRQ_STACK_SIZE of x86-64 */
	/* What a trace of nonsense may take: a guest has fewer. */
	MAX_DEPTH = 1024, /* of a task */
	MAX_TASKS = 1 << 16,
	MAX_OPEN = 1 << 20, /* calls */
};

/* Distinguishes the idle tasks. */
#define IDLE_TASK (UINT64_C(1) << 32)

/* Where the call with a frame is: the innermost one of those with the same. */
struct place {
	uint64_t task;
	uint32_t index;
};

struct task {
	struct graph_call *calls;
	uint32_t n, room;
};

struct graph_calls {
	struct graph_visitor visitor;
	struct graph_counts counts;
	struct u64_map tasks;  /* struct task */
	struct u64_map frames; /* struct place */
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
	free(c);
}

struct graph_counts graph_calls_counts(const struct graph_calls *c)
{
	return c->counts;
}

/* --- the end of calls ------------------------------------------------------------------------ */

/* The innermost call ends. */
static void pop(struct graph_calls *c, struct task *task, unsigned int vcpu, bool seen)
{
	struct graph_call *call = &task->calls[--task->n];
	struct place *place;

	/* a tail call hides the call in the same frame, which ends with it */
	if (task->n && task->calls[task->n - 1].frame == call->frame) {
		place = u64_map_find(&c->frames, call->frame);
		if (place)
			place->index = task->n - 1;
	} else {
		u64_map_remove(&c->frames, call->frame);
	}
	c->open--;
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
	struct graph_call *call = &task->calls[task->n - 1];

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
	while (task->n && task->calls[task->n - 1].frame == frame)
		end_returned(c, task, event, has_result);
}

/* --- the begin of calls ---------------------------------------------------------------------- */

static bool is_on_stack_of(const struct graph_call *call, uint64_t frame)
{
	const uint64_t distance = frame > call->frame ? frame - call->frame : call->frame - frame;

	return distance < STACK_BYTES;
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

/* Calls below whose frame there is another one now have ended. */
static void end_overwritten(struct graph_calls *c, struct task *task, const struct begin *begin)
{
	const uint64_t frame = begin->bytes->frame;

	while (task->n) {
		const struct graph_call *top = &task->calls[task->n - 1];

		if (frame < top->frame || !is_on_stack_of(top, frame) || is_tail_of(top, begin))
			break;
		pop(c, task, begin->event->vcpu, false);
	}
}

/* The stack of a task that is no more may be another one's. */
static void end_foreign(struct graph_calls *c, uint64_t frame, uint64_t owner, unsigned int vcpu)
{
	const struct place *place = u64_map_find(&c->frames, frame);

	if (place && place->task != owner)
		end_above(c, u64_map_find(&c->tasks, place->task), place->index, vcpu);
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

static struct graph_call make_call(const struct task *task, const struct begin *begin)
{
	const struct graph_event *bytes = begin->bytes;
	const struct graph_call *top = task->n ? &task->calls[task->n - 1] : NULL;
	struct graph_call call = {
		.ip = bytes->call.ip,
		.parent_ip = bytes->call.parent_ip,
		.frame = bytes->frame,
		.pid = bytes->call.pid,
		.vcpu = begin->event->vcpu,
		.depth = task->n,
		.begin_ns = begin->event->ns,
		.unrecorded = begin->class == GRAPH_CALL,
	};

	if (event_field_find(begin->event->class, "comm"))
		call.comm = bytes->call.comm;
	call.is_tail = top && is_tail_of(top, begin);
	call.interrupts = top && !is_on_stack_of(top, bytes->frame);
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
	end_foreign(c, frame, key, vcpu);
	end_overwritten(c, task, begin);
	call = push(c, task, vcpu);
	place = call ? u64_map_insert(&c->frames, frame, NULL) : NULL;
	if (!place)
		return -ENOMEM;
	*call = make_call(task, begin);
	*place = (struct place){key, task->n++};
	c->open++;
	c->counts.calls++;
	c->visitor.enter(c->visitor.arg, call);
	call->comm = NULL;
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
