/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call chains of kernels without ORC tables, whose frames say where the next one is. */
#include <string.h>
#include "guest-symbols/orc/orc-table.h"
#include "tests/lib/tap.h"

enum {
	WORDS = 128,
	FRAMES = 16,
	REGS_WORDS = 21, /* struct pt_regs */
	REGS_BP = 4,
	REGS_IP = 16,
	REGS_CS = 17,
	REGS_SP = 19,
	USER_CS = 0x33,
	KERNEL_CS = 0x10,
};

#define TEXT UINT64_C(0xffffffff81000000)
#define SLIDE UINT64_C(0x12000000)
#define STACK UINT64_C(0xffffc90000010000)

/* A stack from the innermost call on. */
struct stack {
	uint64_t words[WORDS], at; /* gva of words[0] */
	size_t n;
	uint64_t *link; /* where the next frame's address goes; NULL: into `bp` */
	uint64_t bp;
	uint64_t frames[FRAMES];
	size_t nr_frames;
};

static uint64_t here(const struct stack *s)
{
	return s->at + 8 * s->n;
}

static void set_link(struct stack *s, uint64_t value)
{
	*(s->link ? s->link : &s->bp) = value;
}

static void add_caller(struct stack *s, uint64_t ip)
{
	s->words[s->n++] = ip;
	s->frames[s->nr_frames++] = ip;
}

/* The call that is recorded. */
static void begin(struct stack *s)
{
	*s = (struct stack){.at = STACK};
	add_caller(s, TEXT + SLIDE + 0x100);
}

/* A function with some variables, which was called from there. */
static void add_frame(struct stack *s, size_t variables, uint64_t called_from)
{
	for (size_t i = 0; i < variables; i++)
		s->words[s->n++] = TEXT + SLIDE + 0x999; /* like a return address */
	set_link(s, here(s));
	s->link = &s->words[s->n++];
	add_caller(s, called_from);
}

static void add_regs(struct stack *s, uint64_t cs, uint64_t ip)
{
	uint64_t *const regs = s->words + s->n;

	set_link(s, here(s) | 1);
	s->n += REGS_WORDS;
	regs[REGS_CS] = cs;
	regs[REGS_IP] = ip;
	regs[REGS_SP] = here(s);
	s->link = &regs[REGS_BP];
	if (cs == KERNEL_CS)
		s->frames[s->nr_frames++] = ip;
}

static struct stack_slice slice_of(const struct stack *s)
{
	return (struct stack_slice){.sp = s->at, .bp = s->bp, .words = s->words, .n = s->n};
}

enum { HOOK = TEXT + 0x7770 };

static bool unwinds(const struct stack *s, const struct stack_slice *slice, bool whole, size_t n)
{
	static const uint64_t hooks[ORC_RETURN_HOOKS] = {0, HOOK, 0};
	const struct orc_text text = {.start = TEXT,
				      .end = TEXT + 0x1000000,
				      .slide = SLIDE,
				      .frame_pointers = true,
				      .return_hooks = hooks};
	uint64_t frames[FRAMES];
	size_t found;
	const bool is_whole = stack_unwind(&text, slice, frames, FRAMES, &found);

	return is_whole == whole && found == n && !memcmp(frames, s->frames, n * sizeof(frames[0]));
}

static void add_functions(struct stack *s)
{
	add_frame(s, 3, TEXT + SLIDE + 0x200);
	add_frame(s, 0, TEXT + SLIDE + 0x300);
	add_frame(s, 7, UINT64_C(0xffffffffc0001234)); /* a module's */
}

static void test_ends(void)
{
	struct stack s;
	struct stack_slice slice;

	begin(&s);
	add_functions(&s);
	slice = slice_of(&s);
	ok(unwinds(&s, &slice, true, 4), "a chain ends where RBP is 0");
	add_regs(&s, USER_CS, 0x401000);
	slice = slice_of(&s);
	ok(unwinds(&s, &slice, true, 4), "or at the registers of user mode");
	slice.n -= REGS_WORDS;
	ok(unwinds(&s, &slice, false, 4), "without these it is cut");
	slice.top = here(&s);
	ok(unwinds(&s, &slice, true, 4), "but not if they lie at the end of the task's stack");
}

static void test_cut(void)
{
	struct stack s;
	struct stack_slice slice;

	begin(&s);
	add_functions(&s);
	slice = slice_of(&s);
	slice.n -= 2;
	ok(unwinds(&s, &slice, false, 3), "a slice that ends before cuts the chain");
	*s.link = s.bp;
	slice = slice_of(&s);
	ok(unwinds(&s, &slice, false, 4), "a frame that leads back cuts it");
	*s.link = here(&s) - 4;
	ok(unwinds(&s, &slice, false, 4), "so does one that is no word");
	*s.link = 0;
	slice.bp = STACK - 8;
	ok(unwinds(&s, &slice, false, 1), "and one below the stack pointer");
	slice.bp = s.bp;
	s.words[5] = 0x401000;
	ok(unwinds(&s, &slice, false, 1), "a return to user mode is none");
}

/* By the guest's function graph tracer, or a kretprobe. */
static void test_replaced(void)
{
	struct stack s;
	struct stack_slice slice;

	begin(&s);
	add_frame(&s, 3, TEXT + SLIDE + 0x200);
	add_frame(&s, 0, HOOK + SLIDE);
	add_frame(&s, 7, TEXT + SLIDE + 0x300);
	slice = slice_of(&s);
	ok(unwinds(&s, &slice, false, 2), "a caller whose address was replaced cuts the chain");
}

static void test_interrupt(void)
{
	static const struct {
		uint64_t ip;
		bool known;
		const char *what;
	} cases[] = {
		{TEXT + SLIDE + 0x777, true, "what was interrupted is in the chain"},
		{UINT64_C(0xffffffffc0004321), true, "also in a module"},
		{TEXT + SLIDE + 0x1000000, false,
		 "but not behind the kernel, where trampolines lie"},
		{UINT64_C(0xffff888000001000), false, "nor in data"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stack s;
		struct stack_slice slice;

		begin(&s);
		add_functions(&s);
		add_regs(&s, KERNEL_CS, cases[i].ip);
		add_frame(&s, 2, TEXT + SLIDE + 0x400);
		slice = slice_of(&s);
		ok(unwinds(&s, &slice, cases[i].known, cases[i].known ? 6 : 4), "%s",
		   cases[i].what);
	}
}

static void test_inside(void)
{
	struct stack s;
	struct stack_slice slice;

	begin(&s);
	add_functions(&s);
	slice = slice_of(&s);
	slice.ip = TEXT + SLIDE + 0x123;
	memmove(s.frames, s.frames + 1, (FRAMES - 1) * sizeof(s.frames[0]));
	ok(unwinds(&s, &slice, true, 3), "in the middle of a function its frame has its caller");
}

/* On a stack of interrupts, whose last word is where the task's was left. */
static void test_switch(uint64_t task)
{
	struct stack s;
	struct stack_slice slice;

	begin(&s);
	add_functions(&s);
	s.words[s.n++] = task;
	slice = slice_of(&s);
	slice.rest_sp = task;
	s.at = task - 8 * s.n;
	add_frame(&s, 5, TEXT + SLIDE + 0x500);
	add_regs(&s, USER_CS, 0x401000);
	slice.rest = s.n - slice.n;
	ok(unwinds(&s, &slice, true, 5), "a chain goes on at the stack that was left");
}

int main(void)
{
	test_ends();
	test_cut();
	test_replaced();
	test_interrupt();
	test_inside();
	test_switch(STACK + 0x10000);
	test_switch(STACK - 0x10000);
	return tap_done();
}
