/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose an event is, for exports with a track for each thread: by its pid, or of a return by the
 * call. */
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "formats/export/perfetto-threads.h"
#include "tests/lib/tap.h"

#define FRAME UINT64_C(0xffffc90000104000)

enum { ONE = 101, OTHER = 102, NEWS = 1 << 16 /* of what thread_of() returns */ };

static struct thread_tracks tracks;

/* Its tid; 0: none. */
static unsigned int thread_of(const struct event_class *class, size_t instance, const void *bytes)
{
	const struct thread_fields fields = thread_fields_of(class, instance);
	const struct thread_track *thread;
	bool changed;

	if (thread_tracks_find(&tracks, &fields, bytes, &thread, &changed))
		abort();
	return thread ? thread->tid | (changed ? NEWS : 0) : 0;
}

static unsigned int enter(size_t instance, uint64_t frame, uint32_t pid)
{
	const struct graph_event event = {.call = {.pid = pid, .comm = "task"}, .frame = frame};

	return thread_of(&graph_classes(GRAPH_COMM)[GRAPH_ENTRY], instance, &event);
}

static unsigned int leave(size_t instance, uint64_t frame)
{
	const struct graph_event event = {.frame = frame};

	return thread_of(&graph_classes(GRAPH_COMM)[GRAPH_EXIT], instance, &event);
}

static void test_returns(void)
{
	is_u64(leave(0, FRAME), 0, "a return of a call before the trace is of no known thread");
	is_u64(enter(0, FRAME, ONE), ONE | NEWS, "a call is of its pid's");
	is_u64(enter(0, FRAME - 8, ONE), ONE, "one within it, too, which is no news");
	is_u64(enter(0, FRAME + 0x8000, OTHER), OTHER | NEWS, "another task calls meanwhile");
	is_u64(enter(1, FRAME, ONE), ONE, "another instance records the same call");
	is_u64(leave(0, FRAME - 8), ONE, "a return is of the thread that made the call");
	is_u64(leave(0, FRAME), ONE, "so is that of the call around it");
	is_u64(leave(0, FRAME + 0x8000), OTHER, "and that of the other task");
	is_u64(leave(1, FRAME), ONE, "and that in the other instance");
	is_u64(leave(0, FRAME), 0, "there is one return of a call");
	enter(0, FRAME, ONE);
	is_u64(enter(0, FRAME, 0), 0, "a call of an idle task is of no thread");
	is_u64(leave(0, FRAME), 0, "its return neither, though a thread was there before");
}

static void test_others(void)
{
	const struct syscall_event call = {.call = {.call = {.pid = ONE}, .frame = FRAME}};

	is_u64(thread_of(&syscall_classes(0)[SYSCALL_EXIT], 2, &call), ONE,
	       "a return with a pid is of that");
	is_u64(thread_of(function_class(FUNCTION_PARENT), 3, &call), 0,
	       "an event with neither pid nor frame is of no known thread");
}

int main(void)
{
	thread_tracks_init(&tracks);
	test_returns();
	test_others();
	thread_tracks_deinit(&tracks);
	return tap_done();
}
