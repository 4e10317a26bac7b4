/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Function bodies assembled by hand. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/function.h"
#include "tests/lib/fake-reserved.h"
#include "tests/lib/tap.h"

enum {
	FN = 0x1000, /* the function under test */
	FN_SIZE = 0x100,
	HELPER = 0x2000,
	HELPER_SIZE = 0x40,
	COLD = 0x3000,
	COLD_SIZE = 0x20,
	RETURN_THUNK = 0x4000,
	INDIRECT_THUNK = 0x4020,
	ITS_THUNK = 0x4040,
	SKL_THUNK = 0x4080, /* without "return_thunk" in its name */
	END = 0x5000,
	THUNK_VARIABLE = 0x30000,
	NOWHERE = 0x7f000000, /* not in the image */
	AUX = 0x40000,        /* in the image, behind its text: as .altinstr_aux */
	JMP = 0xe9,
	CALL = 0xe8,
	NOP5 = 5,
};

static const struct fake_symbol symbols[] = {
	{"fn", FN},
	{"fn_end", FN + FN_SIZE},
	{"helper", HELPER},
	{"helper_end", HELPER + HELPER_SIZE},
	{"fn.cold", COLD},
	{"fn.cold_end", COLD + COLD_SIZE},
	{"__x86_return_thunk", RETURN_THUNK},
	{"__x86_indirect_thunk_rax", INDIRECT_THUNK},
	{"__x86_indirect_its_thunk_rax", ITS_THUNK},
	{"__x86_return_skl", SKL_THUNK},
	{"thunks_end", END},
	{NULL, 0},
};

static struct fake_guest fg;
static struct decoder *decoder;
static struct function function;
static struct error err;

static void put(uint64_t offset, const char *bytes, size_t size)
{
	fake_code(&fg, offset, bytes, size);
}

/* All text INT3, but for an mcount site; the test writes the rest of fn from FN + NOP5. */
static void begin(void)
{
	uint8_t *int3 = malloc(END);

	if (!int3 || fake_guest_create(&fg) || fake_guest_add_symbols(&fg, symbols))
		abort();
	memset(int3, 0xcc, END);
	fake_code(&fg, 0, int3, END);
	free(int3);
	put(FN, "\x0f\x1f\x44\0\0", NOP5);
	put(RETURN_THUNK, "\xc3\xcc", 2);
	put(INDIRECT_THUNK, "\xff\xe0", 2);
	put(ITS_THUNK, "\xff\xe0", 2);
	err = (struct error){0};
}

static int find_exits(void)
{
	return function_find_exits(&fg.kernel, decoder, fake_gva(FN), FN_SIZE, true, &function,
				   &err);
}

static int check_site(uint64_t site)
{
	return function_check_site(&fg.kernel, decoder, fake_gva(FN), FN_SIZE, fake_gva(site),
				   &err);
}

static bool is_exit(unsigned int i, uint64_t offset, enum slot_state state, uint8_t size)
{
	const struct function_exit *e = &function.exits[i];

	return i < function.nr_exits && e->gva == fake_gva(offset) && e->slot.state == state &&
	       e->slot.size == size && !memcmp(e->bytes, fake_text(&fg, offset), size);
}

static void end(void)
{
	fake_guest_destroy(&fg);
}

static void test_returns(void)
{
	begin();
	put(FN + 5, "\x74\x08\xc3\xcc", 4);             /* jz over; ret; int3 */
	fake_branch(&fg, FN + 0x20, JMP, RETURN_THUNK); /* jmp thunk */
	put(FN + 0xff, "\xc3", 1);                      /* the last byte, with padding behind */
	ok(!find_exits() && function.nr_parts == 1, "a function with three returns has one part");
	is_u64(function.nr_exits, 3, "all three returns are found");
	ok(is_exit(0, FN + 7, SLOT_RET, 5), "a ret with INT3 behind it is an exit of 5 bytes");
	ok(is_exit(1, FN + 0x20, SLOT_JMP_THUNK, 5) &&
		   function.exits[1].slot.target == fake_gva(RETURN_THUNK),
	   "a jmp to the return thunk is an exit, with its target");
	ok(is_exit(2, FN + 0xff, SLOT_RET, 5),
	   "the room of a trailing ret reaches into the padding");
	end();

	begin();
	put(FN + 0x20, "\x2e", 1);
	fake_branch(&fg, FN + 0x21, JMP, RETURN_THUNK); /* cs jmp thunk */
	put(FN + 0xff, "\xcc", 1);
	ok(!find_exits() && function.nr_exits == 1 && is_exit(0, FN + 0x20, SLOT_JMP_THUNK, 6) &&
		   function.exits[0].slot.target == fake_gva(RETURN_THUNK),
	   "a jmp with a prefix, as clang writes it, is an exit of 6 bytes");
	end();

	begin();
	put(FN + 5, "\xc3\x90", 2);
	ok(find_exits() == -ENOTSUP, "a function with a ret without room is refused");
	is_u64(err.address, fake_gva(FN + 5), "the refusal has the address of the ret");
	end();

	begin();
	put(FN + 5, "\xc2\x08\x00\xcc\xcc", 5);
	ok(find_exits() == -ENOTSUP, "a function with a ret $8 is refused");
	put(FN + 5, "\x48\xcf\xcc\xcc\xcc", 5);
	ok(find_exits() == -ENOTSUP, "a function with an iretq is refused");
	end();
}

/* pop %r14; pop %r15; pop %rbp; ret; nop */
static void put_epilogue(uint64_t offset)
{
	put(offset, "\x41\x5e\x41\x5f\x5d\xc3\x90", 7);
}

static void begin_with_lists(void)
{
	const uint64_t to[FAKE_NR_RESERVED] = {FN, FN, FN, FN, FN};

	begin();
	fake_reserved_add(&fg, to);
	fake_reserved_lead(&fg, FAKE_RESERVED_LABEL, FN + 5);
	fake_reserved_lead(&fg, FAKE_RESERVED_FAULT, FN + 5);
}

static void test_epilogues(void)
{
	begin_with_lists();
	put(FN + 5, "\x74\x10", 2); /* jz to the first pop */
	put_epilogue(FN + 0x17);
	ok(!find_exits() && function.nr_exits == 1 && is_exit(0, FN + 0x17, SLOT_EPILOGUE, 6),
	   "an exit begins in front of a ret without room");
	is_u64(function.exits[0].slot.epilogue, 5, "it knows what is in front of the ret");
	ok(function_find_exits(&fg.kernel, decoder, fake_gva(FN), FN_SIZE, false, &function,
			       &err) == -ENOTSUP,
	   "unless that is not wanted");
	put(FN + 6, "\x12", 1);
	ok(find_exits() == -ENOTSUP && err.address == fake_gva(FN + 5),
	   "an exit that a jump leads into is refused");
	end();

	begin_with_lists();
	put_epilogue(FN + 0x10);
	fake_reserved_lead(&fg, FAKE_RESERVED_LABEL, FN + 0x15);
	ok(find_exits() == -ENOTSUP, "so is one that a jump label leads into");
	end();

	begin_with_lists();
	put_epilogue(FN + 0x10);
	fake_reserved_lead(&fg, FAKE_RESERVED_FAULT, FN + 0x12);
	ok(find_exits() == -ENOTSUP, "and one where the kernel goes on behind a fault");
	end();

	begin_with_lists();
	put_epilogue(FN + 0x10);
	fake_reserved_lead(&fg, FAKE_RESERVED_FAULT, COLD);
	ok(find_exits() == -ENOTSUP && strstr(err.text, "behind a fault"),
	   "and each in a function that goes on elsewhere then: %s", err.text);
	end();

	begin_with_lists();
	put_epilogue(FN + 0x10);
	fake_reserved_lead(&fg, FAKE_RESERVED_FAULT, FN + 0x10);
	ok(!find_exits(), "where its first instruction is, the kernel may go on");
	end();

	begin();
	put_epilogue(FN + 0x10);
	ok(find_exits() == -ENOTSUP, "a kernel whose lists are not known has no such exits");
	end();

	begin_with_lists();
	put(FN + 0x10, "\x90\x5b\x5d\xc3\x90", 5);
	ok(find_exits() == -ENOTSUP && err.address == fake_gva(FN + 0x13),
	   "a ret with too little in front of it is refused");
	put(FN + 0x10, "\x5b\x5d\xc3\xcc\xcc\x90", 6);
	ok(!find_exits() && is_exit(0, FN + 0x10, SLOT_EPILOGUE, 5),
	   "the INT3 behind a ret are room, too");
	put(FN + 0x10, "\x5b\x41\x5c\xf3\xc3\x90", 6);
	ok(!find_exits() && is_exit(0, FN + 0x10, SLOT_EPILOGUE, 5), "a ret may have a prefix");
	put(FN + 0x10, "\x5b\x5d\xc2\x08\x00\x90", 6);
	ok(find_exits() == -ENOTSUP, "but no argument");
	end();
}

/* Its label leads to fn.cold, which jumps back. */
static void test_epilogue_behind_label(void)
{
	begin_with_lists();
	put_epilogue(FN + 0x10);
	fake_reserved_lead(&fg, FAKE_RESERVED_LABEL, COLD + 2);
	fake_branch(&fg, COLD + 2, JMP, FN + 0x10);
	ok(!find_exits() && function.nr_parts == 2 && function.nr_exits == 1,
	   "a part that only a jump label leads to is one");
	fake_branch(&fg, COLD + 2, JMP, FN + 0x15);
	ok(find_exits() == -ENOTSUP, "a jump from there counts");
	end();
}

/* The ret has room for a trap, as without epilogues. */
static void test_epilogue_dropped(void)
{
	begin_with_lists();
	put(FN + 5, "\x74\x0b", 2); /* jz to the ret */
	put(FN + 0x10, "\x5b\x5d\xc3\xcc\x90", 5);
	put(FN + 0x15, "\x5b\x5b\x5d\xc3\xcc\x90", 6);
	ok(!find_exits() && function.nr_exits == 2 && is_exit(0, FN + 0x12, SLOT_RET, 2) &&
		   is_exit(1, FN + 0x15, SLOT_EPILOGUE, 5),
	   "only the exit that a jump leads into is its ret alone");
	end();

	begin();
	put(FN + 0x10, "\x5b\x5b\x5d\xc3\xcc\x90", 6);
	ok(!find_exits() && is_exit(0, FN + 0x13, SLOT_RET, 2),
	   "so is each in a kernel whose lists are not known");
	end();
}

static void test_return_thunk_by_jcc(void)
{
	begin();
	put(FN + 5, "\x0f\x84", 2);
	fake_branch(&fg, FN + 6, 0x84, RETURN_THUNK); /* jz thunk: 0f 84 rel32 */
	put(FN + 20, "\xc3", 1);
	ok(find_exits() == -ENOTSUP && err.address == fake_gva(FN + 5),
	   "a function with a conditional jump to the return thunk is refused");
	end();
}

static void put_skl(void)
{
	begin();
	put(SKL_THUNK, "\xc3\xcc\xc3\xcc", 4);
	fake_branch(&fg, FN + 0x20, JMP, SKL_THUNK);
}

static bool is_skl_exit(void)
{
	return !find_exits() && function.nr_exits == 1 && function.nr_parts == 1 &&
	       is_exit(0, FN + 0x20, SLOT_JMP_THUNK, 5);
}

/* What all functions jump to, whatever its name is. */
static void test_return_thunk_by_sites(void)
{
	static const struct fake_symbol variable[] = {{"x86_return_thunk", THUNK_VARIABLE},
						      {NULL, 0}};
	uint64_t sites[] = {FAKE_LINK_TEXT + FN + 0x20};

	put_skl();
	fg.base.image.return_sites = sites;
	fg.base.image.nr_return_sites = 1;
	ok(is_skl_exit(), "a jump to what return sites jump to is a return");
	fg.base.image.return_sites = NULL;
	fg.base.image.nr_return_sites = 0;
	ok(!is_skl_exit(), "it is not known otherwise");
	if (fake_guest_add_symbols(&fg, variable))
		abort();
	fake_put64(&fg.base, FAKE_PHYS_TEXT + THUNK_VARIABLE, fake_gva(SKL_THUNK));
	ok(is_skl_exit(), "or the kernel's own variable says so");
	end();
}

static void put_skl_jumps(unsigned int n)
{
	enum { FROM = 0x2100 };

	put_skl();
	fg.base.image.stext = FAKE_LINK_TEXT;
	for (unsigned int i = 0; i < n; i++)
		fake_branch(&fg, FROM + i * NOP5, JMP, SKL_THUNK);
}

/* Nor is it patched where nothing says what it is. */
static void test_common_exit(void)
{
	put_skl_jumps(300);
	ok(find_exits() == -ENOTSUP && err.address == fake_gva(FN + 0x20),
	   "a function that ends in what very many functions end in is refused: %s", err.text);
	end();
	put_skl_jumps(200);
	ok(!find_exits() && function.nr_parts == 2, "one that ends in what some do is not");
	end();
}

static void test_cold(void)
{
	begin();
	fake_branch(&fg, FN + 5, JMP, COLD);
	put(FN + 10, "\xc3", 1);
	put(COLD, "\x90", 1);
	put(COLD + 1, "\x74\x02", 2);
	fake_branch(&fg, COLD + 3, JMP, FN + 10); /* back into the function */
	put(COLD + 10, "\xc3", 1);
	ok(!find_exits(), "a function with a .cold part is decoded");
	is_u64(function.nr_parts, 2, "a .cold part is a part of the function");
	ok(function.parts[1].gva == fake_gva(COLD) && function.parts[1].size == COLD_SIZE,
	   "a .cold part has its address and size");
	ok(function.nr_exits == 2 && is_exit(1, COLD + 10, SLOT_RET, 5),
	   "an exit in a .cold part is the function's");
	end();
}

static void test_tail_calls(void)
{
	begin();
	fake_branch(&fg, FN + 5, JMP, HELPER);
	put(HELPER, "\x31\xc0\xc3", 3);
	ok(!find_exits() && function.nr_parts == 2, "a function that is tail-called is a part");
	ok(function.nr_exits == 1 && is_exit(0, HELPER + 2, SLOT_RET, 5),
	   "the exits of a tail call are the callee's");
	end();

	begin();
	put(FN + 5, "\x0f", 1);
	fake_branch(&fg, FN + 6, 0x84, HELPER); /* jz helper */
	put(FN + 11, "\xc3", 1);
	put(HELPER, "\xc3", 1);
	ok(!find_exits() && function.nr_parts == 2,
	   "a function that is tail-called conditionally is a part");
	ok(function.nr_exits == 2 && is_exit(0, FN + 11, SLOT_RET, 5) &&
		   is_exit(1, HELPER, SLOT_RET, 5),
	   "a conditional tail call has both functions' exits");
	end();

	begin();
	fake_branch(&fg, FN + 5, JMP, HELPER);
	fake_branch(&fg, HELPER, JMP, FN); /* and back: recursion */
	put(HELPER + 5, "\xc3", 1);
	ok(!find_exits() && function.nr_parts == 2 && function.nr_exits == 1,
	   "functions that tail-call each other are decoded once");
	end();

	begin();
	fake_branch(&fg, FN + 5, CALL, HELPER);
	put(FN + 10, "\xc3", 1);
	ok(!find_exits() && function.nr_parts == 1 && function.nr_exits == 1, "a call is no exit");
	end();
}

static void test_indirect(void)
{
	static const struct {
		const char *name, *bytes;
		size_t size;
	} rows[] = {{"jmp *%rax", "\xff\xe0", 2},
		    {"jump table", "\xff\x24\xc5\x00\x00\x00\x81", 7},
		    {"jmp *(%rbx)", "\xff\x23", 2}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin();
		put(FN + 5, rows[i].bytes, rows[i].size);
		ok(find_exits() == -ENOTSUP && err.address == fake_gva(FN + 5),
		   "a function with %s is refused", rows[i].name);
		end();
	}
	begin();
	fake_branch(&fg, FN + 5, JMP, INDIRECT_THUNK);
	ok(find_exits() == -ENOTSUP, "a function with a jmp to an indirect thunk is refused");
	end();
	begin();
	fake_branch(&fg, FN + 5, JMP, ITS_THUNK);
	ok(find_exits() == -ENOTSUP && strstr(err.text, "indirect tail call"),
	   "so is one to a thunk that a mitigation puts there: %s", err.text);
	end();
	begin();
	put(FN + 5, "\xff\xd0\xc3", 3);
	ok(!find_exits() && function.nr_exits == 1, "an indirect call is no exit");
	end();
}

/* static_cpu_has() before alternatives: a jump to code without a symbol, which jumps back. */
static void test_altinstr_aux(void)
{
	begin();
	fake_branch(&fg, FN + 5, JMP, AUX);
	put(FN + 10, "\xc3", 1);
	put(AUX, "\x90", 1);
	fake_branch(&fg, AUX + 1, JMP, FN + 10);
	ok(!find_exits() && function.nr_parts == 2 && function.parts[1].size == 6,
	   "a part in .altinstr_aux ends with its jump back");
	is_u64(function.nr_exits, 1, "a part in .altinstr_aux has no exit");
	memset(fake_text(&fg, AUX), 0x90, 100);
	ok(find_exits() == -EILSEQ, "a part in .altinstr_aux without a jump back is refused");
	end();

	begin();
	fake_branch(&fg, FN + 5, JMP, FAKE_IMAGE_SIZE + 0x1000);
	ok(find_exits() == -ENOTSUP, "a function with a jump out of the kernel is refused");
	end();
}

static void test_leftover_trap(void)
{
	begin();
	put(FN + 5, "\xe6\xe4\xcc\xcc\xcc", 5);
	ok(find_exits() == -EBUSY && err.address == fake_gva(FN + 5),
	   "a function with a trap in its return slot is refused");
	end();
}

static void test_caps(void)
{
	begin();
	for (uint64_t i = 0; i < 65; i++)
		put(FN + 5 + 2 * i, "\xc3\xcc", 2);
	ok(find_exits() == -E2BIG, "a function with 65 exits is refused");
	put(FN + 5, "\x90", 1);
	ok(!find_exits() && function.nr_exits == FUNCTION_MAX_EXITS,
	   "a function with 64 exits is decoded");
	ok(function_find_exits(&fg.kernel, decoder, fake_gva(FN), FUNCTION_MAX_SIZE + 1, true,
			       &function, &err) == -E2BIG,
	   "a function over the maximal size is refused");
	ok(function_find_exits(&fg.kernel, decoder, fake_gva(FN), 0, true, &function, &err) ==
		   -E2BIG,
	   "an empty function is refused");
	ok(function_find_exits(&fg.kernel, decoder, 0xffffffffc0000000ull, 16, true, &function,
			       &err) == -EFAULT,
	   "a function that is not mapped is refused");
	end();
}

static void test_site(void)
{
	begin();
	ok(!check_site(FN), "a site that is one instruction is accepted");
	ok(check_site(FN + 1) == -EBUSY, "a site in the middle of an instruction is refused");
	put(FN, "\x66\x66\x90\x66\x90", 5);
	ok(check_site(FN) == -EBUSY && err.address == fake_gva(FN),
	   "a site of two instructions is refused");
	end();

	begin();
	put(FN, "\xf3\x0f\x1e\xfa\xe8\0\0\0\0", 9); /* endbr64; call */
	ok(!check_site(FN + 4), "a site behind endbr64 is accepted");
	end();

	begin();
	put(FN + 5, "\x74\xf9", 2); /* jz to FN */
	ok(!check_site(FN), "a site that a jump leads to is accepted");
	put(FN + 5, "\x74\xfb", 2); /* jz to FN + 2 */
	ok(check_site(FN) == -EBUSY && err.address == fake_gva(FN + 5),
	   "a site that a jump leads into is refused");
	put(FN + 5, "\x68", 1); /* push $gva of FN + 2 */
	fake_put32(&fg.base, FAKE_PHYS_TEXT + FN + 6, (uint32_t)fake_gva(FN + 2));
	ok(!check_site(FN), "an immediate with an address inside the site is no jump");
	end();

	begin();
	put(FN + 5, "\x06", 1);
	ok(check_site(FN) == -EILSEQ && err.address == fake_gva(FN + 5),
	   "a function that cannot be decoded is refused, with the address");
	end();
}

/* --- what a jump covers ----------------------------------------------------------------------- */

static struct displaced displaced;

static int displace(uint64_t place)
{
	return function_displace(&fg.kernel, decoder, fake_gva(FN), FN_SIZE, fake_gva(place),
				 &displaced, &err);
}

static void test_displace(void)
{
	begin();
	/* push %rbx; mov %rdi,%rbx; sub $8,%rsp; ret */
	put(FN + 5, "\x53\x48\x89\xfb\x48\x83\xec\x08\xc3", 9);
	ok(!displace(FN + 5), "instructions that can be executed anywhere can be displaced");
	ok(displaced.gva == fake_gva(FN + 5) && displaced.size == 8 &&
		   !memcmp(displaced.bytes, fake_text(&fg, FN + 5), 8),
	   "whole instructions are displaced: as many as a jump covers");
	put(FN + 5, "\x48\xc7\xc7\x00\x10\x20\x30\xc3", 8);
	ok(!displace(FN + 5) && displaced.size == 7, "a single instruction is displaced");
	put(FN + 5, "\x53\x8b\x15\0\0\0\0\xc3", 8);
	ok(displace(FN + 5) == -ENOTSUP && err.address == fake_gva(FN + 6),
	   "an instruction with an address relative to itself cannot be displaced");
	put(FN + 5, "\x53", 1);
	fake_branch(&fg, FN + 6, CALL, HELPER);
	ok(displace(FN + 5) == -ENOTSUP, "a call cannot be displaced");
	put(FN + 5, "\x53\x90\xc3\x90\x90\x90", 6);
	ok(displace(FN + 5) == -ENOTSUP, "a return cannot be displaced");
	put(FN + 5, "\x53\x48\x89\xfb\x48\x83\xec\x08\xeb\xf7\xc3", 11);
	ok(displace(FN + 5) == -EBUSY, "instructions that a jump leads between are not displaced");
	put(FN + 5, "\x53\x48\x89\xfb\x48\x83\xec\x08\xeb\xf6\xc3", 11);
	ok(!displace(FN + 5), "a jump to the first of them does not matter");
	ok(displace(FN + 6 + FN_SIZE) == -ENOTSUP,
	   "behind the function there is nothing to displace");
	end();
}

/* The kernel's own lists say what it rewrites. */
static void test_displace_reserved(void)
{
	const uint64_t labels[FAKE_NR_RESERVED] = {FN + 6, FN, FN, FN, FN};
	const uint64_t faults[FAKE_NR_RESERVED] = {FN, FN, FN, FN + 5, FN};
	const uint64_t others[FAKE_NR_RESERVED] = {FN, FN, FN, FN, FN + 5};
	const uint64_t freed[FAKE_NR_RESERVED] = {FN + 6, FN, NOWHERE, FN, NOWHERE};

	begin();
	fake_reserved_add(&fg, labels);
	put(FN + 5, "\x53\x0f\x1f\x44\0\0\xc3", 7);
	ok(displace(FN + 5) == -ENOTSUP && strstr(err.text, "jump label"),
	   "a jump label is not displaced: %s", err.text);
	end();
	begin();
	fake_reserved_add(&fg, faults);
	put(FN + 5, "\x48\x89\x5f\x08\x53\xc3", 6);
	ok(displace(FN + 5) == -ENOTSUP && strstr(err.text, "may fault"),
	   "nor is an instruction that may fault: %s", err.text);
	end();
	begin();
	fake_reserved_add(&fg, others);
	put(FN + 5, "\x53\x0f\x1f\x44\0\0\xc3", 7);
	ok(!displace(FN + 5), "a NOP that is no jump label is, where kprobes may not be, too");
	end();
	begin();
	fake_reserved_add(&fg, freed);
	put(FN + 5, "\x53\x0f\x1f\x44\0\0\xc3", 7);
	ok(displace(FN + 5) == -ENOTSUP && strstr(err.text, "jump label"),
	   "jump labels are known where the kernel has freed other lists: %s", err.text);
	end();
	begin();
	put(FN + 5, "\x53\x0f\x1f\x44\0\0\xc3", 7);
	ok(displace(FN + 5) == -ENOTSUP, "it is not where the kernel's jump labels are not known");
	end();
}

int main(void)
{
	if (decoder_create(&decoder, NULL))
		return 1;
	test_returns();
	test_epilogues();
	test_epilogue_behind_label();
	test_epilogue_dropped();
	test_return_thunk_by_jcc();
	test_return_thunk_by_sites();
	test_common_exit();
	test_cold();
	test_tail_calls();
	test_indirect();
	test_altinstr_aux();
	test_leftover_trap();
	test_caps();
	test_site();
	test_displace();
	test_displace_reserved();
	decoder_destroy(decoder);
	return tap_done();
}
