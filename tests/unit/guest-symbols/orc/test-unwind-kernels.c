/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call chains through random functions of Debian's kernels, laid out as their ORC tables say. Needs
 * tests/testbed/fetch-kernel to have run; $KERNELS_DIR names another directory than build/kernels.
 */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/orc/orc-table.h"
#include "tests/lib/fetched-kernel.h"
#include "tests/lib/tap.h"

enum {
	ROUNDS = 2000,
	DEPTH = 40,
	WORDS = 1024,
	MAX_FRAME = 256, /* bytes, of those that are chosen */
	REGS_WORDS = 21, /* struct pt_regs */
	REGS_IP = 16,
	REGS_CS = 17,
	REGS_SP = 19,
	USER_CS = 0x33,
	KERNEL_CS = 0x10,
};

#define SLIDE UINT64_C(0x12000000)
#define STACK UINT64_C(0xffffc90000010000)

static const struct kernel_image *image;
static struct orc_table table;
static struct orc_text text;

/* A return address in this function whose entry is of this kind; 0: there is none. */
static uint64_t address_of_kind(const char *function, enum orc_kind kind)
{
	const struct symbol *symbol = symbols_find(image->symbols, function);
	struct orc_entry entry;

	for (uint64_t i = 1; symbol && i < symbol->size; i++)
		if (orc_table_find(&table, symbol->address + i - 1, &entry) && entry.kind == kind)
			return symbol->address + i;
	return 0;
}

/* A stack as the functions of a chain would have left it. */
struct chain {
	uint64_t words[WORDS], frames[DEPTH + 2];
	size_t n, nr_frames;
};

/* A return address in a random function with a frame through RSP. */
static uint64_t random_function(struct orc_entry *entry)
{
	const struct symbol *symbol;
	uint64_t address;

	do {
		size_t i = (size_t)random() % image->nr_mcount_sites;

		symbol = symbols_covering(image->symbols, image->mcount_sites[i]);
		address = symbol ? symbol->address + 1 + (uint64_t)random() % symbol->size : 0;
	} while (!address || !orc_table_find(&table, address - 1, entry) ||
		 entry->kind != ORC_KIND_CALL || entry->sp_base != ORC_BASE_SP ||
		 entry->sp_offset < 8 || entry->sp_offset > MAX_FRAME || entry->sp_offset % 8 ||
		 entry->bp_base == ORC_BASE_BP || entry->bp_offset < -entry->sp_offset);
	return address;
}

/* The next return address is to be word n. */
static void add_frame(struct chain *c, uint64_t link)
{
	c->words[c->n++] = link + SLIDE;
	c->frames[c->nr_frames++] = link + SLIDE;
}

static void add_functions(struct chain *c, size_t n)
{
	struct orc_entry entry;

	for (size_t i = 0; i < n; i++) {
		add_frame(c, random_function(&entry));
		/* the frame's other words: anything; its last one is the next return address */
		for (int16_t at = 8; at < entry.sp_offset; at += 8)
			c->words[c->n++] = (uint64_t)random();
	}
}

/* With the registers of user mode, or of the kernel where it was interrupted. */
static void add_regs(struct chain *c, uint64_t link, uint64_t cs, uint64_t ip)
{
	struct orc_entry entry;
	size_t at;

	add_frame(c, link);
	orc_table_find(&table, link - 1, &entry);
	at = c->n + (size_t)entry.sp_offset / 8;
	c->n = at + REGS_WORDS;
	c->words[at + REGS_IP] = ip + SLIDE;
	c->words[at + REGS_CS] = cs;
	c->words[at + REGS_SP] = STACK + 8 * c->n;
}

static struct stack_slice slice_of(const struct chain *c)
{
	return (struct stack_slice){.sp = STACK, .words = c->words, .n = c->n};
}

static bool unwinds(const struct chain *c, const struct stack_slice *slice, bool whole,
		    size_t nr_frames)
{
	uint64_t frames[DEPTH + 4];
	size_t n;
	bool is_whole = stack_unwind(&text, slice, frames, DEPTH + 4, &n);

	return is_whole == whole && n == nr_frames &&
	       !memcmp(frames, c->frames, n * sizeof(frames[0]));
}

static void test_chains(const char *version)
{
	const uint64_t entry = address_of_kind("entry_SYSCALL_64_after_hwframe", ORC_KIND_REGS);
	size_t good = 0, cut = 0, top = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct chain c = {.n = 0};
		struct stack_slice slice, at_top;
		size_t depth = (size_t)random() % 16;

		add_functions(&c, depth);
		add_regs(&c, entry, USER_CS, 0x401000);
		slice = slice_of(&c);
		good += unwinds(&c, &slice, true, depth + 1);
		at_top = slice;
		at_top.n -= REGS_WORDS;
		cut += unwinds(&c, &at_top, false, depth + 1);
		at_top.top = slice.sp + 8 * slice.n;
		top += unwinds(&c, &at_top, true, depth + 1);
	}
	ok(good == ROUNDS, "%s: chains through random functions are unwound up to the system call",
	   version);
	ok(cut == ROUNDS, "%s: without the registers of user mode they are cut", version);
	ok(top == ROUNDS, "%s: but not where the task's stack is known to end there", version);
}

/* In the middle of a function its own frame comes first. */
static void test_inside(const char *version)
{
	const uint64_t entry = address_of_kind("entry_SYSCALL_64_after_hwframe", ORC_KIND_REGS);
	size_t good = 0;

	for (int i = 0; i < ROUNDS; i++) {
		struct chain c = {.n = 0};
		struct orc_entry frame;
		struct stack_slice slice;
		const uint64_t ip = random_function(&frame) - 1;

		for (int16_t at = 8; at < frame.sp_offset; at += 8)
			c.words[c.n++] = (uint64_t)random();
		add_functions(&c, 3);
		add_regs(&c, entry, USER_CS, 0x401000);
		slice = slice_of(&c);
		slice.ip = ip + SLIDE;
		good += unwinds(&c, &slice, true, 4);
	}
	ok(good == ROUNDS, "%s: chains begin in the middle of functions", version);
}

/* However much of the stack is there, the chain is the same up to where it is cut. */
static void test_short_slices(const char *version)
{
	const uint64_t entry = address_of_kind("entry_SYSCALL_64_after_hwframe", ORC_KIND_REGS);
	struct chain c = {.n = 0};
	struct stack_slice slice;
	uint64_t frames[DEPTH + 2];
	size_t n, before = 0, wrong = 0;

	add_functions(&c, 20);
	add_regs(&c, entry, USER_CS, 0x401000);
	slice = slice_of(&c);
	for (slice.n = 0; slice.n < c.n - 4; slice.n++) {
		wrong += stack_unwind(&text, &slice, frames, DEPTH, &n) || n < before ||
			 memcmp(frames, c.frames, n * sizeof(frames[0]));
		before = n;
	}
	ok(wrong == 0, "%s: chains out of short slices are cut, and right up to there", version);
	slice = slice_of(&c);
	ok(!stack_unwind(&text, &slice, frames, 5, &n) && n == 5,
	   "%s: a chain of more frames than are wanted is cut", version);
}

static void test_interrupt(const char *version)
{
	const uint64_t entry = address_of_kind("entry_SYSCALL_64_after_hwframe", ORC_KIND_REGS);
	const uint64_t fault = address_of_kind("asm_exc_page_fault", ORC_KIND_REGS);
	struct chain c = {.n = 0};
	struct stack_slice slice;
	uint64_t ip = image->mcount_sites[image->nr_mcount_sites / 2];

	add_functions(&c, 3);
	add_regs(&c, fault, KERNEL_CS, ip);
	/* it was interrupted in its first instruction: its return address is next */
	c.frames[c.nr_frames++] = ip + SLIDE;
	add_functions(&c, 2);
	add_regs(&c, entry, USER_CS, 0x401000);
	slice = slice_of(&c);
	ok(fault && unwinds(&c, &slice, true, 8), "%s: a chain goes on behind a page fault",
	   version);
	c = (struct chain){.n = 0};
	add_functions(&c, 3);
	add_regs(&c, fault, KERNEL_CS, image->end + 0x1000);
	add_functions(&c, 2);
	slice = slice_of(&c);
	ok(unwinds(&c, &slice, false, 4),
	   "%s: code outside of the image that was interrupted is no caller", version);
}

/* A return address in a function behind which RSP is loaded from the stack; 0: there is none. */
static uint64_t find_switch(struct orc_entry *entry)
{
	static const char *const functions[] = {"sysvec_apic_timer_interrupt", "common_interrupt",
						"asm_call_sysvec_on_stack", "__do_softirq", NULL};

	for (size_t f = 0; functions[f]; f++) {
		const struct symbol *symbol = symbols_find(image->symbols, functions[f]);

		for (uint64_t i = 1; symbol && i < symbol->size; i++)
			if (orc_table_find(&table, symbol->address + i - 1, entry) &&
			    entry->kind == ORC_KIND_CALL && entry->sp_base == ORC_BASE_SP_INDIRECT)
				return symbol->address + i;
	}
	return 0;
}

/* From the stack of interrupts to that of the task, which lies above or below it. */
static void test_switch(const char *version, uint64_t task)
{
	const uint64_t entry = address_of_kind("entry_SYSCALL_64_after_hwframe", ORC_KIND_REGS);
	struct orc_entry at_switch;
	const uint64_t ip = find_switch(&at_switch);
	struct chain c = {.n = 0};
	struct stack_slice slice, cut;

	if (!ip) {
		tap_skip("a chain on two stacks", "the kernel has no such code");
		return;
	}
	add_functions(&c, 3);
	add_frame(&c, ip);
	c.words[c.n++] = task;
	slice = slice_of(&c);
	slice.rest_sp = task;
	for (int16_t at = 8; at < at_switch.sp_offset; at += 8)
		c.words[c.n++] = (uint64_t)random();
	add_functions(&c, 3);
	add_regs(&c, entry, USER_CS, 0x401000);
	slice.rest = c.n - slice.n;
	ok(unwinds(&c, &slice, true, 8), "%s: a chain goes on at the stack that was left", version);
	cut = slice;
	cut.rest = 0;
	ok(unwinds(&c, &cut, false, 4), "%s: without that one it is cut", version);
	cut = slice;
	cut.rest_sp = task + 0x100000;
	ok(unwinds(&c, &cut, false, 4), "%s: nor does it go on at another stack", version);
}

static void test_bad(const char *version)
{
	struct chain c = {.n = 0};
	struct stack_slice slice = slice_of(&c);
	uint64_t frames[DEPTH], word = 0;
	size_t n = 7;

	ok(!stack_unwind(&text, &slice, frames, DEPTH, &n) && !n,
	   "%s: of an empty slice nothing is known", version);
	slice.words = &word;
	slice.n = 1;
	ok(!stack_unwind(&text, &slice, frames, DEPTH, &n) && !n, "%s: 0 is no return address",
	   version);
	word = SLIDE + image->end + 1;
	ok(!stack_unwind(&text, &slice, frames, DEPTH, &n) && n == 1,
	   "%s: code outside of the image cuts the chain", version);
}

static void test_kernel(const struct kernel_image *kernel, const char *version)
{
	image = kernel;
	orc_table_init(image, &table);
	text = (struct orc_text){
		.table = &table, .start = image->text, .end = image->end, .slide = SLIDE};
	test_chains(version);
	test_inside(version);
	test_short_slices(version);
	test_interrupt(version);
	test_switch(version, STACK + 0x10000);
	test_switch(version, STACK - 0x10000);
	test_bad(version);
}

int main(void)
{
	static const char *const versions[] = {"5.10", "6.1", "6.12", "6.17", "7.0", "7.2", NULL};

	srandom(1);
	return fetched_kernels_test(versions, test_kernel);
}
