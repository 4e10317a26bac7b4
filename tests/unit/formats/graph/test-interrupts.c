/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls in interrupts, on a stack of their own, whether or not their returns are seen. */
#include "tests/unit/formats/graph/graph-fixture.h"

static void test_interrupt(void)
{
	begin();
	enter(A, STACK - 100);
	enter(B, IRQ_STACK - 64);
	leave(IRQ_STACK - 64);
	enter(C, IRQ_STACK - 64);
	enter(D, IRQ_STACK - 128);
	leave(IRQ_STACK - 128);
	leave(IRQ_STACK - 64);
	enter(D, STACK - 200);
	leave(STACK - 200);
	leave(STACK - 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)   ==========> |\n"
	       " 0)   1.000 us    |    0xb();\n"
	       " 0)               |    0xc() {\n"
	       " 0)   1.000 us    |      0xd();\n"
	       " 0)   3.000 us    |    }\n"
	       " 0)   <========== |\n"
	       " 0)   1.000 us    |    0xd();\n"
	       " 0)   9.000 us    |  }\n",
	       "calls on an interrupt's stack are marked, and inside of what is interrupted");
}

static void call_in_interrupt(uint32_t pid)
{
	t.pid = pid;
	enter(B, IRQ_STACK - 64);
	leave(IRQ_STACK - 64);
}

/* A function that leaves by a jump. */
static void test_interrupt_unseen(void)
{
	begin();
	enter(A, STACK - 100);
	enter(B, IRQ_STACK - 64);
	enter(C, STACK - 200);
	leave(STACK - 200);
	leave(STACK - 100);
	prints(" 0)               |  0xa() {\n"
	       " 0)   ==========> |\n"
	       " 0)               |    0xb(); /* no return seen */\n"
	       " 0)   <========== |\n"
	       " 0)   1.000 us    |    0xc();\n"
	       " 0)   4.000 us    |  }\n",
	       "an interrupt's call has ended when its task goes on");
	begin();
	call_in_interrupt(TASK);
	call_in_interrupt(OTHER);
	call_in_interrupt(TASK);
	enter(B, IRQ_STACK - 64);
	enter(A, STACK - 100);
	leave(STACK - 100);
	enter(C, STACK - 100);
	enter(B, IRQ_STACK - 64);
	leave(STACK - 100);
	prints(" 0)   1.000 us    |  0xb();\n"
	       " ------------------------------------------\n"
	       " 0)   task 100  =>  task 200\n"
	       " ------------------------------------------\n"
	       " 0)   1.000 us    |  0xb();\n"
	       " ------------------------------------------\n"
	       " 0)   task 200  =>  task 100\n"
	       " ------------------------------------------\n"
	       " 0)   1.000 us    |  0xb();\n"
	       " 0)               |  0xb(); /* no return seen */\n"
	       " 0)   1.000 us    |  0xa();\n"
	       " 0)               |  0xc() {\n"
	       " 0)   ==========> |\n"
	       " 0)               |    0xb(); /* no return seen */\n"
	       " 0)   <========== |\n"
	       " 0)   2.000 us    |  }\n",
	       "also if the task has called nothing before: tasks take turns on that stack");
	begin();
	enter(B, IRQ_STACK - 64);
	enter(A, STACK - 100);
	call_in_interrupt(OTHER);
	t.pid = TASK;
	leave(STACK - 100);
	prints(" 0)               |  0xb() {\n"
	       " 0)   ==========> |\n"
	       " 0)               |    0xa() {\n"
	       " ------------------------------------------\n"
	       " 0)   task 100  =>  task 200\n"
	       " ------------------------------------------\n"
	       " 0)   1.000 us    |  0xb();\n"
	       " ------------------------------------------\n"
	       " 0)   task 200  =>  task 100\n"
	       " ------------------------------------------\n"
	       " 0)   3.000 us    |    } /* 0xa */\n",
	       "until that is known, a call that seems to be an interrupt's has its return");
}

int main(void)
{
	test_interrupt();
	test_interrupt_unseen();
	return tap_done();
}
