/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "formats/perfetto/slices.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/base/u64-map.h"
#include "formats/event/graph.h"
#include "formats/graph/calls.h"

enum {
	MAX_DEPTH = 500,      /* Perfetto's SliceTracker has 512, for instants, too */
	MAX_TRACKS = 1 << 18, /* a trace of nonsense gets no more memory */
};

/* Of what is in the note of a call. */
enum { IS_INSTANT, IS_SLICE };

struct track {
	int64_t ns;        /* of its last step */
	bool in_syscall;   /* a task is in one at a time */
	uint64_t frame;    /* of that */
	uint32_t depth;    /* open slices */
	unsigned int vcpu; /* where that began */
};

struct slices {
	const struct trace_instance *instances;
	uint64_t stack_bytes;
	void (*step)(void *arg, const struct slice_step *step);
	void *arg;
	struct graph_calls *graphs[TRACE_INSTANCES_MAX]; /* NULL: no call so far */
	struct u64_map tracks;                           /* struct track */
	/* At hand: */
	const struct event *event;
	const struct thread_track *thread;
	size_t instance;
	bool taken, failed;
};

/* --- tracks ---------------------------------------------------------------------------------- */

static uint64_t key_of(size_t instance, uint32_t tid, unsigned int vcpu)
{
	const uint64_t task = tid ? tid : UINT64_C(1) << 32 | vcpu;

	return task * TRACE_INSTANCES_MAX + instance;
}

static struct track *find(struct slices *s, uint32_t tid, unsigned int vcpu)
{
	return u64_map_find(&s->tracks, key_of(s->instance, tid, vcpu));
}

/* NULL: no memory, or too many. */
static struct track *make(struct slices *s, uint32_t tid, unsigned int vcpu, bool *is_new)
{
	struct track *track = find(s, tid, vcpu);

	*is_new = false;
	if (track || s->tracks.count >= MAX_TRACKS)
		return track;
	track = u64_map_insert(&s->tracks, key_of(s->instance, tid, vcpu), is_new);
	s->failed |= !track;
	if (track)
		*track = (struct track){.ns = INT64_MIN};
	return track;
}

static void put(struct slices *s, struct track *track, struct slice_step *step)
{
	step->instance = s->instance;
	step->ns = s->event->ns > track->ns ? s->event->ns : track->ns;
	track->ns = step->ns;
	s->step(s->arg, step);
}

/* Whether it is a slice. */
static bool begin(struct slices *s, uint32_t tid, uint64_t ip)
{
	struct slice_step step = {
		.type = SLICE_BEGIN, .tid = tid, .vcpu = s->event->vcpu, .ip = ip};
	struct track *track = make(s, tid, s->event->vcpu, &step.is_first);

	if (!track || track->depth == MAX_DEPTH)
		return false;
	track->depth++;
	put(s, track, &step);
	return true;
}

static void end(struct slices *s, uint32_t tid, unsigned int vcpu, bool seen)
{
	struct slice_step step = {.type = SLICE_END, .tid = tid, .vcpu = vcpu, .is_unseen = !seen};
	struct track *track = find(s, tid, vcpu);

	if (!track || !track->depth)
		return;
	track->depth--;
	put(s, track, &step);
}

/* --- functions ------------------------------------------------------------------------------- */

static void on_enter(void *arg, struct graph_call *call)
{
	struct slices *s = arg;
	const bool has_track = !call->pid || s->thread;

	s->taken = has_track && !call->unrecorded && begin(s, call->pid, call->ip);
	call->note = s->taken ? IS_SLICE : IS_INSTANT;
}

static void on_leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen)
{
	struct slices *s = arg;

	(void)vcpu;
	if (call->note != IS_SLICE)
		return;
	s->taken |= seen;
	end(s, call->pid, call->vcpu, seen);
}

static int add_call(struct slices *s)
{
	const struct graph_visitor visitor = {
		.arg = s, .stack_bytes = s->stack_bytes, .enter = on_enter, .leave = on_leave};
	struct graph_calls **graph = &s->graphs[s->instance];
	int ret = *graph ? 0 : graph_calls_create(&visitor, graph, NULL);

	return ret ? ret : graph_calls_add(*graph, s->event);
}

/* --- system calls ---------------------------------------------------------------------------- */

static void end_syscall(struct slices *s, struct track *track, bool seen)
{
	end(s, s->thread->tid, track->vcpu, seen);
	track->in_syscall = false;
}

static void begin_syscall(struct slices *s)
{
	const struct graph_event *call = &((const struct syscall_event *)s->event->bytes)->call;
	struct track *track;

	s->taken = begin(s, s->thread->tid, call->call.ip);
	if (!s->taken)
		return;
	track = find(s, s->thread->tid, s->event->vcpu);
	track->in_syscall = true;
	track->frame = call->frame;
	track->vcpu = s->event->vcpu;
}

/* Those of idle tasks, and of too many threads, are instants. */
static void add_syscall(struct slices *s, enum syscall_class which)
{
	const struct syscall_event *bytes = s->event->bytes;
	struct track *track = s->thread ? find(s, s->thread->tid, s->event->vcpu) : NULL;

	if (track && track->in_syscall && which == SYSCALL_EXIT) {
		s->taken = track->frame == bytes->call.frame;
		if (s->taken)
			end_syscall(s, track, true);
	} else if (track && track->in_syscall) {
		end_syscall(s, track, false);
	}
	if (s->thread && which == SYSCALL_ENTER)
		begin_syscall(s);
}

/* --- the whole ------------------------------------------------------------------------------- */

struct slices *slices_create(const struct trace_instance *instances, uint64_t stack_bytes,
			     void (*step)(void *arg, const struct slice_step *step), void *arg)
{
	struct slices *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->instances = instances;
	s->stack_bytes = stack_bytes;
	s->step = step;
	s->arg = arg;
	u64_map_init(&s->tracks, sizeof(struct track));
	return s;
}

void slices_destroy(struct slices *s)
{
	for (size_t i = 0; s && i < TRACE_INSTANCES_MAX; i++)
		graph_calls_destroy(s->graphs[i]);
	if (s)
		u64_map_deinit(&s->tracks);
	free(s);
}

int slices_add(struct slices *s, const struct event *event, const struct thread_track *thread,
	       bool *taken)
{
	enum syscall_class syscall;
	enum graph_class class;
	int ret = 0;

	s->event = event;
	s->thread = thread;
	s->instance = (size_t)(event->instance - s->instances);
	s->taken = false;
	if (graph_class_of(event->class, &class))
		ret = add_call(s);
	else if (syscall_class_of(event->class, &syscall))
		add_syscall(s, syscall);
	*taken = s->taken;
	return ret || !s->failed ? ret : -ENOMEM;
}
