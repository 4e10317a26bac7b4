/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls out of hand-made events, as they are printed: nesting, tail calls, returns that are not in
 * the trace, tasks that sleep and migrate, and what no guest writes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/formats/graph/graph-fixture.h"

static void test_nesting(void)
{
	begin();
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	leave(STACK - 200);
	enter(C, STACK - 208);
	enter(D, STACK - 300);
	leave(STACK - 300);
	leave(STACK - 208);
	leave(STACK - 100);
	enter(B, STACK - 100);
	leave(STACK - 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)   1.000 us    |    0xb();\n"
	       " 0)               |    0xc() {\n"
	       " 0)   1.000 us    |      0xd();\n"
	       " 0)   3.000 us    |    }\n"
	       " 0)   7.000 us    |  }\n"
	       " 0)   1.000 us    |  0xb();\n",
	       "calls nest, and one without others is a line");
}

static void test_durations(void)
{
	static const int64_t ns[] = {999,
				     10000,
				     10001,
				     123456,
				     1234567,
				     12345678,
				     123456789,
				     INT64_C(1234567890),
				     INT64_C(12345678901)};

	begin();
	for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
		enter(A, STACK - 100);
		t.ns += ns[i] - US;
		leave(STACK - 100);
	}
	prints(" 0)   0.999 us    |  0xa();\n"
	       " 0)   10.000 us   |  0xa();\n"
	       " 0) + 10.001 us   |  0xa();\n"
	       " 0) ! 123.456 us  |  0xa();\n"
	       " 0) # 1234.567 us |  0xa();\n"
	       " 0) * 12345.67 us |  0xa();\n"
	       " 0) @ 123456.7 us |  0xa();\n"
	       " 0) $ 1234567 us  |  0xa();\n"
	       " 0) $ 12345678 us |  0xa();\n",
	       "durations have the marks and the width of function_graph's");
}

static void test_tail_calls(void)
{
	begin();
	entry_of(GRAPH_ENTRY, A, 1, STACK - 100);
	entry_of(GRAPH_TAIL, B, 1, STACK - 100);
	enter(C, STACK - 200);
	leave(STACK - 200);
	leave(STACK - 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)               |    0xb() {\n"
	       " 0)   1.000 us    |      0xc();\n"
	       " 0)   3.000 us    |    }\n"
	       " 0)   4.000 us    |  }\n",
	       "a function that another one jumps to is inside of it, and both return at once");
}

/* It has left by a jump to a function that is not traced. */
static void test_unseen(void)
{
	begin();
	enter(A, STACK - 100);
	entry_of(GRAPH_ENTRY, B, 1, STACK - 200);
	entry_of(GRAPH_ENTRY, C, 2, STACK - 200);
	leave(STACK - 200);
	entry_of(GRAPH_ENTRY, B, 1, STACK - 208);
	enter(D, STACK - 300);
	leave(STACK - 300);
	leave(STACK - 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)               |    0xb(); /* no return seen */\n"
	       " 0)   1.000 us    |    0xc();\n"
	       " 0)               |    0xb() {\n"
	       " 0)   1.000 us    |      0xd();\n"
	       " 0)               |    } /* 0xb: no return seen */\n"
	       " 0)   7.000 us    |  }\n",
	       "a call without a return ends with its caller, or where another one takes its "
	       "place");
	begin();
	for (int i = 0; i < 2; i++)
		entry_of(GRAPH_TAIL, A, 1, STACK - 100);
	entry_of(GRAPH_ENTRY, B, 1, STACK - 100);
	entry_of(GRAPH_TAIL, C, 2, STACK - 100);
	leave(STACK - 100);
	prints(" 0)               |  0xa(); /* no return seen */\n"
	       " 0)               |  0xa(); /* no return seen */\n"
	       " 0)               |  0xb(); /* no return seen */\n"
	       " 0)   1.000 us    |  0xc();\n",
	       "no tail call is one of itself, of what none jumps to, or of what returns "
	       "elsewhere");
}

static void test_without_slot(void)
{
	begin();
	enter(A, STACK - 100);
	entry_of(GRAPH_CALL, B, 1, STACK - 200);
	enter(C, STACK - 300);
	leave(STACK - 300);
	entry_of(GRAPH_CALL, B, 2, STACK - 200);
	leave(STACK - 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)               |    0xb() {\n"
	       " 0)   1.000 us    |      0xc();\n"
	       " 0)               |    } /* 0xb: its return is not recorded */\n"
	       " 0)               |    0xb(); /* its return is not recorded */\n"
	       " 0)   5.000 us    |  }\n",
	       "calls of functions whose returns are not recorded nest, too, and say so");
}

static void test_orphans(void)
{
	begin();
	enter(A, STACK - 100);
	leave(STACK - 200);
	leave(STACK - 40);
	leave(STACK - 100);
	leave(STACK - 100);
	prints(" 0)   3.000 us    |  0xa();\n", "returns without a call, of functions that were "
						"called before the trace, are left out");
}

static void test_migration(void)
{
	begin();
	t.pid = TASK;
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	t.pid = OTHER;
	enter(C, STACK_2 - 100);
	leave(STACK_2 - 100);
	t.vcpu = 1;
	t.pid = TASK;
	leave(STACK - 200);
	enter(D, STACK - 200);
	leave(STACK - 200);
	leave(STACK - 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)               |    0xb() {\n"
	       " ------------------------------------------\n"
	       " 0)   task 100  =>  task 200\n"
	       " ------------------------------------------\n"
	       " 0)   1.000 us    |  0xc();\n"
	       " ------------------------------------------\n"
	       " 1)   =>  task 100\n"
	       " ------------------------------------------\n"
	       " 1)   3.000 us    |    } /* 0xb */\n"
	       " 1)   1.000 us    |    0xd();\n"
	       " 1)   7.000 us    |  } /* 0xa */\n",
	       "a task sleeps in a call and goes on on another vCPU, where its calls end by name");
}

/* With KASAN a stack has twice as many bytes. */
static void test_large_stack(void)
{
	begin_as(0, &(struct graph_text_options){.stack_bytes = 32 << 10});
	enter(A, STACK - 100);
	enter(B, STACK - 20000);
	enter(C, STACK - 200);
	leave(STACK - 200);
	leave(STACK - 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)               |    0xb(); /* no return seen */\n"
	       " 0)   1.000 us    |    0xc();\n"
	       " 0)   4.000 us    |  }\n",
	       "a call deep in a large stack is no interrupt's, and ends when it is overwritten");
}

static void test_dead_stack(void)
{
	begin();
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	t.pid = OTHER;
	enter(C, STACK - 100);
	leave(STACK - 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)               |    0xb(); /* no return seen */\n"
	       " 0)               |  } /* 0xa: no return seen */\n"
	       " ------------------------------------------\n"
	       " 0)   task 100  =>  task 200\n"
	       " ------------------------------------------\n"
	       " 0)   1.000 us    |  0xc();\n",
	       "the calls of a task whose stack is another one's now have ended");
}

static void test_idle(void)
{
	begin();
	enter(A, STACK - 100);
	t.pid = 0;
	enter(B, STACK_2 - 100);
	t.vcpu = 1;
	enter(C, IRQ_STACK - 300);
	leave(IRQ_STACK - 300);
	t.vcpu = 0;
	leave(STACK_2 - 100);
	prints(" 0)               |  0xa() {\n"
	       " ------------------------------------------\n"
	       " 0)   task 100  =>  <idle>-0\n"
	       " ------------------------------------------\n"
	       " ------------------------------------------\n"
	       " 1)   =>  <idle>-0\n"
	       " ------------------------------------------\n"
	       " 1)   1.000 us    |  0xc();\n"
	       " 0)   3.000 us    |  0xb();\n",
	       "vCPUs that are idle do not share a task");
}

static void test_results(void)
{
	begin_with(GRAPH_RESULT, 0);
	for (int i = 0; i < 5; i++)
		enter(A, STACK - 100 - (unsigned int)i * 100);
	leave_with(STACK - 500, 12);
	leave_with(STACK - 400, (uint64_t)-2);
	leave_with(STACK - 300, (uint32_t)-11);
	leave_with(STACK - 200, UINT64_C(0xffff888003a4b000));
	leave_with(STACK - 100, 4096);
	prints(" 0)               |  0xa() {\n"
	       " 0)               |    0xa() {\n"
	       " 0)               |      0xa() {\n"
	       " 0)               |        0xa() {\n"
	       " 0)   1.000 us    |          0xa(); /* = 12 */\n"
	       " 0)   3.000 us    |        } /* = -2 */\n"
	       " 0)   5.000 us    |      } /* = -11 */\n"
	       " 0)   7.000 us    |    } /* = 0xffff888003a4b000 */\n"
	       " 0)   9.000 us    |  } /* = 0x1000 */\n",
	       "results are shown behind their calls: small ones and errors as decimals");
}

static void test_depth(void)
{
	begin_with(0, 2);
	for (int i = 0; i < 4; i++)
		enter(A + (uint64_t)i, STACK - 100 - (unsigned int)i * 100);
	for (int i = 4; i-- > 0;)
		leave(STACK - 100 - (unsigned int)i * 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)   5.000 us    |    0xb();\n"
	       " 0)   7.000 us    |  }\n",
	       "calls that are too deep are left out");
}

static void test_names(void)
{
	begin_with(GRAPH_COMM, 0);
	t.comm = "fifteen-letter\033";
	enter(A, STACK - 100);
	leave(STACK - 100);
	prints("# CPU  DURATION                  FUNCTION CALLS\n"
	       "# |     |   |                     |   |   |   |\n"
	       " ------------------------------------------\n"
	       " 0)   =>  fifteen-letter?-100\n"
	       " ------------------------------------------\n"
	       " 0)   1.000 us    |  0xa();\n",
	       "tasks have their names, without control characters");
}

/* --- what no guest writes -------------------------------------------------------------------- */

struct sums {
	uint64_t open, begun, ended;
	bool bad;
};

static void sum_enter(void *arg, struct graph_call *call)
{
	struct sums *sums = arg;

	sums->begun++;
	sums->open++;
	call->note = 77;
}

static void sum_leave(void *arg, const struct graph_call *call, unsigned int vcpu, bool seen)
{
	struct sums *sums = arg;

	sums->ended++;
	sums->bad |= !sums->open-- || call->note != 77 || vcpu > 2 ||
		     (seen && call->end_ns < call->begin_ns);
}

/* More tasks, and more open calls, than there may be. */
static void test_nonsense(uint32_t tasks, uint64_t frames, bool returns)
{
	struct sums sums = {0};
	const struct graph_visitor visitor = {
		.arg = &sums, .stack_bytes = 16 << 10, .enter = sum_enter, .leave = sum_leave};
	struct graph_calls *calls;
	struct graph_counts counts;

	if (graph_calls_create(&visitor, &calls, NULL))
		abort();
	for (int i = 0; i < 400000; i++) {
		static const enum graph_class entries[] = {GRAPH_ENTRY, GRAPH_CALL, GRAPH_TAIL};
		const enum graph_class class =
			returns && i % 3 == 0 ? GRAPH_EXIT : entries[random() % 3];
		const struct graph_event bytes = {.call = {.ip = A + (uint64_t)random() % 4,
							   .pid = (uint32_t)random() % tasks},
						  .frame = STACK -
							   8 * ((uint64_t)random() % frames)};
		const struct event event = {.class = &graph_classes(0)[class],
					    .vcpu = (unsigned int)random() % 3,
					    .ns = i,
					    .bytes = &bytes};

		if (graph_calls_add(calls, &event))
			abort();
	}
	counts = graph_calls_counts(calls);
	ok(!sums.bad && counts.calls == sums.begun && sums.begun > 200000,
	   "random events of %u tasks on %llu frames: %llu calls, of which %llu end, none twice",
	   tasks, (unsigned long long)frames, (unsigned long long)sums.begun,
	   (unsigned long long)sums.ended);
	graph_calls_destroy(calls);
}

static void begin_only(const char *only, unsigned int depth)
{
	begin_as(0, &(struct graph_text_options){
			    .only = only, .max_depth = depth, .stack_bytes = 16 << 10});
}

static void test_only(void)
{
	begin_only("0xb", 0);
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	enter(C, STACK - 300);
	leave(STACK - 300);
	leave(STACK - 200);
	enter(C, STACK - 200);
	leave(STACK - 200);
	leave(STACK - 100);
	prints(" 0)               |  0xb() {\n"
	       " 0)   1.000 us    |    0xc();\n"
	       " 0)   3.000 us    |  }\n",
	       "calls of a function alone, with the calls in them, but not what is around them");
	begin_only("0x[bc]", 1);
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	enter(C, STACK - 300);
	leave(STACK - 300);
	leave(STACK - 200);
	enter(C, STACK - 200);
	leave(STACK - 200);
	leave(STACK - 100);
	prints(" 0)   3.000 us    |  0xb();\n"
	       " 0)   1.000 us    |  0xc();\n",
	       "the depth is counted from there on");
	begin_only("0xb", 0);
	enter(A, STACK - 100);
	enter(B, IRQ_STACK - 100);
	enter(C, IRQ_STACK - 200);
	leave(IRQ_STACK - 200);
	leave(IRQ_STACK - 100);
	leave(STACK - 100);
	prints(" 0)               |  0xb() {\n"
	       " 0)   1.000 us    |    0xc();\n"
	       " 0)   3.000 us    |  }\n",
	       "that what it interrupts is not shown is no interrupt");
	begin_only("0xb", 0);
	enter(A, STACK - 100);
	enter(B, STACK - 200);
	leave(STACK - 100);
	enter(B, STACK - 100);
	prints(" 0)               |  0xb(); /* no return seen */\n"
	       " 0)               |  0xb() {\n",
	       "one whose return is not seen, and one that is open at the end");
}

static void test_only_nothing(void)
{
	struct error err = {0};

	begin_only("vfs_*", 0);
	enter(A, STACK - 100);
	leave(STACK - 100);
	ok(graph_text_end(t.text, &err) == -ENOENT, "without such a call: %s", err.text);
	prints("", "nothing is printed");
	ok(graph_name_matches("brd_*", "brd_init [brd]") &&
		   graph_name_matches("brd_init", "brd_init [brd]") &&
		   graph_name_matches("*\\[brd\\]", "brd_init [brd]") &&
		   !graph_name_matches("brd", "brd_init [brd]"),
	   "functions of modules have names with and without the module");
}

int main(void)
{
	test_nesting();
	test_durations();
	test_tail_calls();
	test_unseen();
	test_without_slot();
	test_orphans();
	test_migration();
	test_large_stack();
	test_dead_stack();
	test_idle();
	test_results();
	test_depth();
	test_only();
	test_only_nothing();
	test_names();
	test_nonsense(3, 4000, true);
	test_nonsense(1, 1u << 30, false);
	test_nonsense(1u << 20, 1u << 30, false);
	return tap_done();
}
