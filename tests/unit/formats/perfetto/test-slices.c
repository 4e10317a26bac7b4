/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which calls are slices of Perfetto, and that these nest on their tracks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "formats/event/graph.h"
#include "formats/perfetto/slices.h"
#include "tests/lib/tap.h"

enum { A = 0xa, B = 0xb, C = 0xc, TASK = 100, OTHER = 200, GRAPH = 0, SYSCALLS = 1 };

#define STACK UINT64_C(0xffffc90000104000) /* the upper ends of stacks */
#define STACK_2 UINT64_C(0xffffc9000020c000)

static struct trace_instance instances[2];

static struct {
	struct slices *slices;
	struct thread_tracks threads;
	unsigned int vcpu;
	uint32_t pid;
	int64_t ns;
	char steps[2000]; /* "(ns tid ip" and ")ns tid", "?" behind one without a return; "." an
			   * instant */
} t;

static void on_step(void *arg, const struct slice_step *step)
{
	char *at = t.steps + strlen(t.steps);
	const size_t room = sizeof(t.steps) - strlen(t.steps);

	(void)arg;
	if (step->type == SLICE_BEGIN)
		snprintf(at, room, " (%" PRId64 "%s %s%u %" PRIx64, step->ns,
			 step->is_first ? "!" : "", step->tid ? "" : "vcpu",
			 step->tid ? step->tid : step->vcpu, step->ip);
	else
		snprintf(at, room, " )%" PRId64 "%s %s%u", step->ns, step->is_unseen ? "?" : "",
			 step->tid ? "" : "vcpu", step->tid ? step->tid : step->vcpu);
}

static void begin(void)
{
	memset(&t, 0, sizeof(t));
	instances[GRAPH] = (struct trace_instance){.name = "graph", .classes = graph_classes(0)};
	instances[SYSCALLS] = (struct trace_instance){.name = "sys", .classes = syscall_classes(0)};
	t.pid = TASK;
	thread_tracks_init(&t.threads);
	t.slices = slices_create(instances, 16 << 10, on_step, NULL);
	if (!t.slices)
		abort();
}

static void put(size_t instance, unsigned int class, const void *bytes)
{
	const struct event event = {.instance = &instances[instance],
				    .class = &instances[instance].classes[class],
				    .vcpu = t.vcpu,
				    .ns = ++t.ns,
				    .bytes = bytes};
	const struct thread_fields fields = thread_fields_of(event.class, instance);
	const struct thread_track *thread;
	bool changed, taken;

	if (thread_tracks_find(&t.threads, &fields, bytes, &thread, &changed) ||
	    slices_add(t.slices, &event, thread, &taken))
		abort();
	if (!taken && strlen(t.steps) + 3 < sizeof(t.steps))
		strcat(t.steps, " .");
}

static void enter_as(enum graph_class class, uint64_t ip, uint64_t parent, uint64_t frame)
{
	put(GRAPH, class,
	    &(struct graph_event){.call = {.ip = ip, .parent_ip = parent, .pid = t.pid},
				  .frame = frame});
}

static void enter(uint64_t ip, uint64_t frame)
{
	enter_as(GRAPH_ENTRY, ip, frame, frame);
}

static void leave(uint64_t frame)
{
	put(GRAPH, GRAPH_EXIT, &(struct graph_event){.frame = frame});
}

static void syscall_of(enum syscall_class class, uint64_t ip, uint64_t frame)
{
	put(SYSCALLS, class,
	    &(struct syscall_event){.call = {.call = {.ip = ip, .pid = t.pid}, .frame = frame}});
}

static void is_steps(const char *expected, const char *label)
{
	is_str(t.steps, expected, label);
	slices_destroy(t.slices);
	thread_tracks_deinit(&t.threads);
}

static void test_functions(void)
{
	begin();
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	t.vcpu = 1;
	t.pid = OTHER;
	enter(C, STACK_2 - 100);
	leave(STACK - 200);
	leave(STACK_2 - 100);
	leave(STACK - 100);
	is_steps(" (1! 100 a (2 100 b (3! 200 c )4 100 )5 200 )6 100",
		 "calls are slices on the track of their thread, wherever they return");
	begin();
	enter_as(GRAPH_ENTRY, A, 1, STACK - 100);
	enter_as(GRAPH_TAIL, B, 1, STACK - 100);
	leave(STACK - 100);
	is_steps(" (1! 100 a (2 100 b )3 100 )3 100", "a tail call ends with the one around it");
	begin();
	t.pid = 0;
	enter(A, STACK - 100);
	t.vcpu = 1;
	enter(B, STACK_2 - 100);
	leave(STACK_2 - 100);
	t.vcpu = 0;
	leave(STACK - 100);
	is_steps(" (1! vcpu0 a (2! vcpu1 b )3 vcpu1 )4 vcpu0",
		 "those of idle tasks are on their vCPUs' tracks");
}

static void test_missing(void)
{
	begin();
	leave(STACK - 40);
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	leave(STACK - 300);
	leave(STACK - 100);
	is_steps(" . (2! 100 a (3 100 b . )5? 100 )5 100",
		 "a return without a call is an instant, and a call without a return ends with "
		 "the one around it");
	begin();
	enter(A, STACK - 100);
	enter_as(GRAPH_CALL, B, 1, STACK - 200);
	enter(C, STACK - 300);
	enter(C, STACK - 200);
	leave(STACK - 200);
	leave(STACK - 100);
	is_steps(" (1! 100 a . (3 100 c )4? 100 (4 100 c )5 100 )6 100",
		 "a call of which no return is recorded is an instant, and no slice ends for it");
}

static void test_depth(void)
{
	unsigned int begins = 0, ends = 0;

	begin();
	for (unsigned int i = 0; i < 600; i++) {
		t.steps[0] = '\0';
		enter(A, STACK - 8 * i);
		begins += t.steps[1] == '(';
	}
	for (unsigned int i = 600; i-- > 0;) {
		t.steps[0] = '\0';
		leave(STACK - 8 * i);
		ends += t.steps[1] == ')';
	}
	is_u64(begins, 500, "slices are no deeper than Perfetto takes");
	is_u64(ends, begins, "each of them ends");
	is_steps(" )1200 100", "the outermost last");
}

static void test_syscalls(void)
{
	begin();
	syscall_of(SYSCALL_ENTER, A, STACK);
	syscall_of(SYSCALL_EXIT, 0, STACK);
	syscall_of(SYSCALL_EXIT, 0, STACK);
	syscall_of(SYSCALL_ENTER, B, STACK);
	syscall_of(SYSCALL_ENTER, C, STACK - 8);
	syscall_of(SYSCALL_EXIT, 0, STACK);
	syscall_of(SYSCALL_ENTER_ONLY, C, STACK);
	is_steps(" (1! 100 a )2 100 . (4 100 b )5? 100 (5 100 c . )7? 100 .",
		 "a task is in one system call at a time");
	begin();
	syscall_of(SYSCALL_ENTER, A, STACK);
	enter(A, STACK);
	syscall_of(SYSCALL_EXIT, 0, STACK);
	leave(STACK);
	is_steps(" (1! 100 a (2! 100 a )3 100 )4 100",
		 "each instance has tracks of its own, on which it is alone");
}

static void test_times(void)
{
	begin();
	t.ns = 10;
	enter(A, STACK - 100);
	t.ns = 5;
	enter(B, STACK - 200);
	leave(STACK - 200);
	leave(STACK - 100);
	is_steps(" (11! 100 a (11 100 b )11 100 )11 100", "times on a track do not go back");
}

/* --- what no guest writes -------------------------------------------------------------------- */

static struct {
	int depth[2][8]; /* by tid */
	int64_t ns[2][8];
	bool bad;
} sums;

static void check_step(void *arg, const struct slice_step *step)
{
	const unsigned int task = step->tid ? step->tid : 4 + step->vcpu;
	int *depth = &sums.depth[step->instance][task];

	(void)arg;
	*depth += step->type == SLICE_BEGIN ? 1 : -1;
	sums.bad |= *depth < 0 || *depth > 500 || step->ns < sums.ns[step->instance][task];
	sums.ns[step->instance][task] = step->ns;
}

static void test_nonsense(void)
{
	begin();
	slices_destroy(t.slices);
	t.slices = slices_create(instances, 16 << 10, check_step, NULL);
	for (int i = 0; i < 200000; i++) {
		const uint64_t frame = STACK - 8 * ((uint64_t)random() % 2000);
		const struct syscall_event bytes = {
			.call = {.call = {.ip = A + (uint64_t)random() % 3,
					  .pid = (uint32_t)random() % 4},
				 .frame = frame}};
		const size_t instance = (size_t)random() % 2;

		t.vcpu = (unsigned int)random() % 4;
		t.ns += random() % 5 - 1;
		t.steps[0] = '\0';
		put(instance, (unsigned int)random() % (instance ? 3 : 4), &bytes);
	}
	ok(!sums.bad, "of random events no track has an end too many, or a time that goes back");
	slices_destroy(t.slices);
	thread_tracks_deinit(&t.threads);
}

int main(void)
{
	test_functions();
	test_missing();
	test_depth();
	test_syscalls();
	test_times();
	test_nonsense();
	return tap_done();
}
