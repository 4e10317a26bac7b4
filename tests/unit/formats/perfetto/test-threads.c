/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Whose an event is, for exports with a track for each thread: by its pid, or of a return by the
 * call. */
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "formats/perfetto/threads.h"
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

/* The pid of a thread's process, as the events say it. */
static uint32_t process_of(const struct event_class *class, const void *bytes)
{
	const struct thread_fields fields = thread_fields_of(class, 9);
	const struct thread_track *thread;
	bool changed;

	if (thread_tracks_find(&tracks, &fields, bytes, &thread, &changed) || !thread)
		abort();
	return thread->pid;
}

static void test_processes(void)
{
	enum { THREAD = 205, PROCESS = 200 };
	const struct syscall_event call = {
		.call = {.call = {.pid = THREAD, .tgid = PROCESS}, .frame = FRAME}};
	const struct graph_event back = {.frame = FRAME};

	is_u64(process_of(graph_classes(0), &call), THREAD, "without tgid a thread is by itself");
	is_u64(process_of(graph_classes(GRAPH_TGID), &call), PROCESS,
	       "an entry with tgid says whose it is");
	is_u64(process_of(&graph_classes(GRAPH_TGID)[GRAPH_EXIT], &back), PROCESS,
	       "a return keeps that");
	is_u64(process_of(function_class(FUNCTION_PID), &call), PROCESS,
	       "so does an event without tgid");
	is_u64(process_of(function_class(FUNCTION_PID | FUNCTION_TGID),
			  &(struct function_event){.pid = THREAD + 1, .tgid = PROCESS}),
	       PROCESS, "another thread is of the same process");
	is_u64(process_of(&syscall_classes(SYSCALL_TGID)[SYSCALL_EXIT],
			  &(struct syscall_event){
				  .call = {.call = {.pid = THREAD + 2, .tgid = PROCESS}}}),
	       PROCESS, "and a third one, which returns from a system call");
}

int main(void)
{
	thread_tracks_init(&tracks);
	test_returns();
	test_others();
	test_processes();
	thread_tracks_deinit(&tracks);
	return tap_done();
}
