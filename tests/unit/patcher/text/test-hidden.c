/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints of a guest that no table of kprobes names: an INT3 hides the first byte of what may
 * be an exit. As the kernel's image has a function, and as it stands in the guest's memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/text/displace.h"
#include "patcher/text/function.h"
#include "tests/lib/fake-reserved.h"
#include "tests/lib/tap.h"

enum { FN = 0x1000, END = 0x1100, OTHER = 0x2000, SIZE = 16 };

/* mov $imm32,%eax; jumps and calls of 5 bytes, out of the function */
#define MOV 0xb8, 1, 2, 3, 4
#define JMP 0xe9, 0xf6, 0x0f, 0, 0
#define CALL 0xe8, 0xf6, 0x0f, 0, 0
#define FILL 0xcc, 0xcc, 0xcc, 0xcc

static const struct fake_symbol symbols[] = {
	{"fn", FN}, {"fn_end", END}, {"other", OTHER}, {"other_end", OTHER + SIZE}, {NULL, 0}};

static struct fake_guest fg;
static struct decoder *decoder;

static const struct row {
	const char *what;
	uint8_t linked[SIZE], now[SIZE];
	uint8_t size;
	bool hides, hides_in_memory; /* from an image of a file, or of memory */
} rows[] = {
	{"a function as it is linked", {MOV, 0xc3, FILL}, {MOV, 0xc3, FILL}, 10, false, false},
	{"a ret that is hidden", {MOV, 0xc3, FILL}, {MOV, 0xcc, FILL}, 10, true, true},
	{"one without padding behind it", {MOV, 0xc3}, {MOV, 0xcc}, 6, true, true},
	{"one in front of the end of an instruction",
	 {MOV, 0x5b, 0xc3, FILL},
	 {MOV, 0xcc, 0xc3, FILL},
	 11,
	 true,
	 true},
	{"the first instruction", {0x53, MOV, 0xc3}, {0xcc, MOV, 0xc3}, 7, true, true},
	{"a return that was a jump", {MOV, JMP}, {MOV, 0xc3, FILL}, 10, false, false},
	{"a jump with fill behind it",
	 {0xeb, 4, FILL, 0xc3, FILL},
	 {0xeb, 4, FILL, 0xc3, FILL},
	 11,
	 false,
	 false},
	{"a hidden instruction that a jump leads to",
	 {0x74, 0x02, 0xc3, 0xcc, 0xc3, FILL},
	 {0x74, 0x02, 0xc3, 0xcc, 0xcc, FILL},
	 9,
	 true,
	 true},
	{"one behind a jump", {0xeb, 0, 0xc3, FILL}, {0xeb, 0, 0xcc, FILL}, 7, true, true},
	{"a call that does not return", {CALL, FILL}, {CALL, FILL}, 9, false, false},
	{"a ret behind a call", {CALL, 0xc3, FILL}, {CALL, 0xcc, FILL}, 10, true, false},
	{"the end of what cannot go on", {0x0f, 0x0b, FILL}, {0x0f, 0x0b, FILL}, 6, false, false},
	{"a ret behind that", {0x0f, 0x0b, 0xc3, FILL}, {0x0f, 0x0b, 0xcc, FILL}, 7, true, false},
};

static int find_exits(const struct row *row, struct error *err)
{
	static struct function function;

	return function_find_exits(&fg.kernel, decoder, fake_gva(FN), row->size, false, &function,
				   err);
}

static int displace(const struct row *row, struct error *err)
{
	const struct displace_body body = {&fg.kernel, "fn", fake_gva(FN), row->size, row->now};
	struct displaced_insn insn;

	return displace_find(&body, decoder, body.gva, &insn, err) == -EBUSY ? -EBUSY : 0;
}

static void test_row(const struct row *row, bool in_memory)
{
	const bool hides = in_memory ? row->hides_in_memory : row->hides;
	const char *image = in_memory ? "memory" : "a file";
	struct error err = {0};

	fg.base.image.in_memory = in_memory;
	fake_code(&fg, FN, row->linked, SIZE);
	memcpy(fake_text(&fg, FN), row->now, SIZE);
	if (in_memory)
		memcpy(fg.base.image.init_bytes + FN, row->now, SIZE);
	ok(find_exits(row, &err) == (hides ? -EBUSY : 0), "image of %s, %s: its exits are %s",
	   image, row->what, hides ? "not known" : "known");
	if (err.code && !hides)
		tap_diag("%s at %#llx", err.text, (unsigned long long)err.address);
	ok(displace(row, &err) == (hides ? -EBUSY : 0), "image of %s, %s: it is %s", image,
	   row->what, hides ? "not displaced" : "no reason not to displace");
}

int main(void)
{
	const uint64_t to[FAKE_NR_RESERVED] = {END, END, END, END, END};

	if (decoder_create(&decoder, NULL) || fake_guest_create(&fg) ||
	    fake_guest_add_symbols(&fg, symbols))
		abort();
	fake_reserved_add(&fg, to);
	fake_code(&fg, OTHER, "\xc3\xcc\xcc\xcc\xcc", 5);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (int in_memory = 0; in_memory < 2; in_memory++)
			test_row(&rows[i], in_memory);
	fake_guest_destroy(&fg);
	decoder_destroy(decoder);
	return tap_done();
}
