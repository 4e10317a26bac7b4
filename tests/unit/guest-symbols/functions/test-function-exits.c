/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions that were assembled by hand; real ones: patcher/text/test-exits-kernels.c. */
#include <stdlib.h>
#include <string.h>
#include "guest-symbols/functions/function-exits.h"
#include "guest-symbols/symbols/symbols.h"
#include "tests/lib/tap.h"

enum { TEXT = 0x10000, FUNCTION_SIZE = 0x40, SLOT_AT = 0x10, JUMP_AT = 0x20 };

static uint8_t text_bytes[3 * FUNCTION_SIZE];
/* Of the first function, when it was last looked at. */
static enum function_returns returns;
static bool are_known;
static bool is_unread;
static unsigned int has_thunks = 1;

static uint64_t function(unsigned int i)
{
	return TEXT + i * FUNCTION_SIZE;
}

static const uint8_t *bytes(void *arg, uint64_t address, size_t size)
{
	(void)arg;
	(void)size;
	return is_unread ? NULL : text_bytes + (address - TEXT);
}

/* Bytes at an offset of the first function. */
static void put(size_t at, const char *what, size_t size)
{
	memcpy(text_bytes + at, what, size);
}

/* How many slots the first function returns by. The one behind it has this name, and an mcount
 * site or none. */
static size_t count_slots_beside(const char *name, bool has_site)
{
	static const char *const maps[] = {"0000000000000000 t nothing\n",
					   "0000000000000000 T __x86_indirect_thunk_rax\n"};
	const char *map = maps[has_thunks];
	const struct exit_function functions[] = {
		{function(0), function(1), "a"},
		{function(1), function(2), name},
		{function(2), function(3), "c"},
	};
	const uint64_t sites[] = {function(0), function(has_site ? 1 : 2), function(2)};
	const uint64_t slots[] = {function(0) + SLOT_AT, function(1) + SLOT_AT,
				  function(2) + SLOT_AT};
	const struct exit_text text = {.functions = functions,
				       .nr_functions = 3,
				       .sites = sites,
				       .slots = slots,
				       .nr_sites = has_site ? 3 : 2,
				       .nr_slots = 3,
				       .bytes = bytes};
	struct kernel_image image = {0};
	struct exit_range ranges[FUNCTION_EXITS_MAX];
	struct function_exits *exits;
	struct symbol_table *symbols;
	size_t n, sum = 0;

	if (symbols_from_system_map(map, strlen(map), &symbols, NULL))
		abort();
	image.symbols = symbols;
	if (function_exits_create(&image, &text, &exits, NULL))
		abort();
	n = function_exits_find(exits, function(0), true, ranges);
	returns = function_returns_of(exits, function(0));
	are_known = function_returns_are_known(exits, function(0));
	for (size_t i = 0; i < n; i++)
		sum += ranges[i].end - ranges[i].begin;
	function_exits_destroy(exits);
	kernel_image_forget(&image);
	symbols_destroy(symbols);
	return sum;
}

static size_t count_slots(void)
{
	return count_slots_beside("b", true);
}

/* A conditional jump, and an unconditional one, to 4 bytes behind the beginning of the second
 * function. */
static void test_cold(void)
{
	memset(text_bytes, 0, sizeof(text_bytes));
	put(JUMP_AT, "\x0f\x84\x1e\0\0\0", 6);
	is_u64(count_slots_beside("a.cold", false), 2, "a jump into a cold part leads to its slot");
	is_u64(count_slots_beside("b", false), 1, "but one into another function does not");
	put(JUMP_AT, "\xe9\x1f\0\0\0\0", 6);
	is_u64(count_slots_beside("a.cold.7", false), 2, "so does one that is always taken");
	put(JUMP_AT, "\xeb\x22\0\0\0", 5);
	is_u64(count_slots_beside("a.cold", false), 1, "a short jump leads into no cold part");
}

/* Linux 6.19 with PREEMPT_RT: the 32-bit ioctl() ends in a jump to __do_compat_sys_ioctl(). */
static void test_syscall_bodies(void)
{
	static const char *const names[] = {"__do_sys_ioctl", "__se_sys_ioctl",
					    "__do_compat_sys_ioctl", "__se_compat_sys_ioctl"};

	memset(text_bytes, 0, sizeof(text_bytes));
	put(JUMP_AT, "\xe9\x1b\0\0\0", 5);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ok(count_slots_beside(names[i], false) == 2,
		   "a system call returns by the slots of its body, %s()", names[i]);
}

/* Its slots are never among the function's that jumps there, so that none of them is patched. */
static void test_assembly(void)
{
	memset(text_bytes, 0, sizeof(text_bytes));
	put(JUMP_AT, "\xe9\x1b\0\0\0", 5);
	is_u64(count_slots_beside("memcpy", true), 2,
	       "a tail call of a function with an mcount site leads to its slot");
	ok(returns == FUNCTION_RETURNS_SOME && are_known,
	   "not all of the own returns pass own slots then, but all pass one");
	is_u64(count_slots_beside("memcpy", false), 1,
	       "one of assembly, which has none, does not: its slots are not patched");
	ok(returns == FUNCTION_RETURNS_SOME && !are_known,
	   "but that returns are missed there is known");
	is_u64(count_slots_beside("__se_sys_read", false), 2, "the body of a system call");
	ok(returns == FUNCTION_RETURNS_ALL && are_known, "is a part of it");
	memset(text_bytes, 0, sizeof(text_bytes));
	put(SLOT_AT, "\xe9\x2b\0\0\0", 5);
	is_u64(count_slots_beside("__x86_return_thunk", false), 1, "a slot that leads to a thunk");
	ok(returns == FUNCTION_RETURNS_ALL && are_known, "is a return, and no tail call");
}

/* `jmp *%rax`, `jmp *%r10`, `jmp *0x18(%rdx)`, `jmp *8(%rip)`, and a jump table's; and operands and
 * prefixes that look like some. */
static void test_pointers(void)
{
	enum { NOP = 0x90 };

	static const struct {
		const char *bytes;
		size_t size;
		bool with_thunks, without;
	} cases[] = {
		{"\xff\xe0", 2, true, true},
		{"\x41\xff\xe2", 3, true, true},
		{"\xff\x62\x18", 3, false, true},
		{"\xff\x25\x08\0\0\0", 6, false, true},
		{"\xff\x24\xd5\0\0\0\x80", 7, false, true},
		{"\xff\x64\x32\x08", 4, false, true},
		{"\xff\xd0", 2, false, false},
		{"\x48\x81\xff\xe0\x19\xa5\x82", 7, false, false},
		{"\xe8\xff\xe0\xff\xff", 5, false, false},
		{"\xb8\0\0\xff\xff\x66\x90", 7, false, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (has_thunks = 0; has_thunks < 2; has_thunks++) {
			const bool hides = has_thunks ? cases[i].with_thunks : cases[i].without;

			memset(text_bytes, NOP, sizeof(text_bytes));
			put(JUMP_AT, cases[i].bytes, cases[i].size);
			count_slots();
			ok(returns == (hides ? FUNCTION_RETURNS_SOME : FUNCTION_RETURNS_ALL) &&
				   are_known == !hides,
			   "%02x %02x: %s, in a kernel with%s thunks", (uint8_t)cases[i].bytes[0],
			   (uint8_t)cases[i].bytes[1],
			   hides ? "it may leave by a pointer" : "all its returns are known",
			   has_thunks ? "" : "out");
		}
	}
	has_thunks = 1;
	memset(text_bytes, NOP, sizeof(text_bytes));
	put(SLOT_AT, "\xe9\xff\xe0\xff\xff", 5);
	count_slots();
	ok(are_known, "the operand of a slot is no jump by a pointer");
}

static void test_unread(void)
{
	memset(text_bytes, 0, sizeof(text_bytes));
	is_unread = true;
	is_u64(count_slots(), 1, "a function whose text is not read has its slots");
	ok(returns == FUNCTION_RETURNS_SOME && !are_known, "and maybe other ways out");
	is_unread = false;
}

int main(void)
{
	is_u64(count_slots(), 1, "a function returns by its own slot");
	put(JUMP_AT, "\xeb\x1e", 2);
	is_u64(count_slots(), 2, "a short jump to another function leads to its slot");
	put(JUMP_AT, "\xe9\x5b\0\0\0", 5);
	is_u64(count_slots(), 2, "so does a long one");
	memset(text_bytes, 0, sizeof(text_bytes));
	put(SLOT_AT, "\xe9\xeb\x2d\0\0", 5);
	is_u64(count_slots(), 1, "the operand of a slot is no jump");
	put(SLOT_AT + 5, "\xeb\x29", 2);
	is_u64(count_slots(), 2, "but what stands behind the slot is one");
	test_cold();
	test_syscall_bodies();
	test_assembly();
	test_pointers();
	test_unread();
	return tap_done();
}
