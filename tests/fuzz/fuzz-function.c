// SPDX-License-Identifier: GPL-2.0-or-later
/* The decoder, site check, exit search, and what of it a jump can replace, over arbitrary bytes in
 * the place of kernel text. */
#include <stdlib.h>
#include <string.h>
#include "patcher/text/displace.h"
#include "tests/lib/fake-reserved.h"

enum { FN = 0x1000, FN_SIZE = 0x200, TAIL = 0x1200, COLD = 0x1300, THUNK = 0x1400, END = 0x1410 };

static const struct fake_symbol symbols[] = {
	{"fn", FN},   {"tail", TAIL}, {"fn.cold", COLD}, {"__x86_return_thunk", THUNK},
	{"end", END}, {NULL, 0},
};

static struct fake_guest fg;
static struct decoder *decoder;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const uint64_t to[FAKE_NR_RESERVED] = {FN + 8, FN + 32, FN + 64, FN + 96, COLD};

	(void)argc;
	(void)argv;
	if (decoder_create(&decoder, NULL) || fake_guest_create(&fg) ||
	    fake_guest_add_symbols(&fg, symbols))
		abort();
	fake_reserved_add(&fg, to);
	return 0;
}

/* What the result must hold, whatever the bytes were. */
static void check(const struct function *f)
{
	if (!f->nr_parts || f->nr_parts > FUNCTION_MAX_PARTS || f->nr_exits > FUNCTION_MAX_EXITS)
		abort();
	for (unsigned int i = 0; i < f->nr_exits; i++) {
		const struct function_exit *e = &f->exits[i];

		if (e->slot.size < GUEST_TRAP_SIZE || e->slot.size > EXIT_MAX_SIZE ||
		    memcmp(e->bytes, fake_text(&fg, e->gva - fake_gva(0)), e->slot.size))
			abort();
	}
}

/* One place, of the input's choice. */
static void displace(const uint8_t *data, size_t size)
{
	const struct displace_body body = {&fg.kernel, "fn", fake_gva(FN), FN_SIZE,
					   fake_text(&fg, FN)};
	const size_t place = size ? (size_t)(data[size - 1] * 2 + (data[0] & 1)) : 0;
	uint8_t bytes[INSN_MAX_SIZE];
	struct displaced_insn insn;
	struct error err;

	if (displace_find(&body, decoder, body.gva + place, &insn, &err))
		return;
	if (insn.size < JUMP_SIZE || insn.size > INSN_MAX_SIZE || insn.gva != body.gva + place ||
	    place + insn.size > FN_SIZE || memcmp(insn.bytes, body.bytes + place, insn.size) ||
	    (insn.rip_at && insn.rip_at + 4 > insn.size))
		abort();
	displaced_relocate(&insn, insn.gva + 0x1000000, bytes, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = size < END - FN ? size : END - FN;
	struct function function;
	struct error err;

	memset(fake_text(&fg, FN), 0xcc, END - FN);
	memcpy(fake_text(&fg, FN), data, n);
	for (size_t pos = 0; pos < size;) {
		struct insn insn;

		if (decoder_decode(decoder, data + pos, size - pos, pos, &insn, &err))
			break;
		if (!insn.size || insn.size > size - pos)
			abort();
		pos += insn.size;
	}
	function_check_site(&fg.kernel, decoder, fake_gva(FN), FN_SIZE, fake_gva(FN), &err);
	if (!function_find_exits(&fg.kernel, decoder, fake_gva(FN), FN_SIZE, true, &function, &err))
		check(&function);
	displace(data, size);
	return 0;
}
