/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>
#include "introspect/guest/guest.h"
#include "patcher/text/site.h"
#include "tests/lib/tap.h"

enum { GVA = 0x81000000, FENTRY = 0x81200005 }; /* call from GVA: displacement 0x200000 */

struct site_row {
	const char *name;
	uint8_t bytes[SITE_SIZE];
	enum site_state state;
	const char *text; /* in the refusal */
};

static const struct site_row site_rows[] = {
	{"P6 NOP", {0x0f, 0x1f, 0x44, 0x00, 0x00}, SITE_NOP, "NOP"},
	{"K8 atomic NOP", {0x66, 0x66, 0x66, 0x66, 0x90}, SITE_NOP, "NOP"},
	{"recordmcount NOP", {0x3e, 0x8d, 0x74, 0x26, 0x00}, SITE_NOP, "NOP"},
	{"call __fentry__", {0xe8, 0x00, 0x00, 0x20, 0x00}, SITE_CALL_FENTRY, "__fentry__"},
	{"call elsewhere", {0xe8, 0x01, 0x00, 0x20, 0x00}, SITE_CALL_OTHER, "ftrace"},
	{"call backwards", {0xe8, 0x00, 0x00, 0xe0, 0xff}, SITE_CALL_OTHER, "ftrace"},
	{"jmp", {0xe9, 0x00, 0x00, 0x20, 0x00}, SITE_JMP, "optimised kprobe"},
	{"int3", {0xcc, 0x1f, 0x44, 0x00, 0x00}, SITE_INT3, "kprobe"},
	{"our trap", {0xe6, GUEST_TRAP_PORT, 0x0f, 0x1f, 0x00}, SITE_TRAP, "another Sonde"},
	{"out to another port", {0xe6, 0x80, 0x0f, 0x1f, 0x00}, SITE_UNKNOWN, "unknown"},
	{"a NOP of two instructions", {0x66, 0x66, 0x66, 0x90, 0x90}, SITE_UNKNOWN, "unknown"},
	{"push, mov", {0x55, 0x48, 0x89, 0xe5, 0x90}, SITE_UNKNOWN, "unknown"},
	{"zeros", {0}, SITE_UNKNOWN, "unknown"},
};

static void test_sites(void)
{
	for (size_t i = 0; i < sizeof(site_rows) / sizeof(site_rows[0]); i++) {
		const struct site_row *r = &site_rows[i];

		ok(site_classify(r->bytes, GVA, FENTRY) == r->state, "%s is classified", r->name);
		ok(strstr(site_state_text(r->state), r->text) != NULL, "%s is described as \"%s\"",
		   r->name, site_state_text(r->state));
	}
	is_u64(site_classify(site_rows[3].bytes, GVA, 0), SITE_CALL_OTHER,
	       "in a kernel without __fentry__ any call is another call");
	is_u64(site_classify(site_rows[3].bytes, GVA + 1, FENTRY), SITE_CALL_OTHER,
	       "a call's target depends on its address");
}

struct slot_row {
	const char *name;
	uint8_t bytes[8];
	size_t left;
	enum slot_state state;
	uint8_t size;
	uint64_t target;
};

static const struct slot_row slot_rows[] = {
	{"ret and four int3", {0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc}, 8, SLOT_RET, 5, 0},
	{"ret and one int3", {0xc3, 0xcc, 0x90}, 8, SLOT_RET, 2, 0},
	{"ret and two int3", {0xc3, 0xcc, 0xcc, 0x55}, 8, SLOT_RET, 3, 0},
	{"no more than what is left", {0xc3, 0xcc, 0xcc, 0xcc, 0xcc}, 3, SLOT_RET, 3, 0},
	{"ret without room", {0xc3, 0x90, 0xcc}, 8, SLOT_UNKNOWN, 0, 0},
	{"ret as the last byte", {0xc3, 0xcc}, 1, SLOT_UNKNOWN, 0, 0},
	{"nothing left", {0xc3, 0xcc}, 0, SLOT_UNKNOWN, 0, 0},
	{"ret $8", {0xc2, 8, 0, 0xcc, 0xcc}, 8, SLOT_UNKNOWN, 0, 0},
	{"rep ret", {0xf3, 0xc3, 0xcc, 0xcc, 0xcc}, 8, SLOT_UNKNOWN, 0, 0},
	{"jmp to a thunk", {0xe9, 0x00, 0x00, 0x20, 0x00}, 8, SLOT_JMP_THUNK, 5, FENTRY},
	{"jmp backwards", {0xe9, 0xfb, 0xff, 0xff, 0xff}, 5, SLOT_JMP_THUNK, 5, GVA},
	{"jmp cut off", {0xe9, 0x00, 0x00, 0x20, 0x00}, 4, SLOT_UNKNOWN, 0, 0},
	{"jmp with a prefix", {0x2e, 0xe9, 0xff, 0xff, 0x1f, 0x00}, 8, SLOT_JMP_THUNK, 6, FENTRY},
	{"jmp with a prefix cut off", {0x2e, 0xe9, 0xff, 0xff, 0x1f, 0x00}, 5, SLOT_UNKNOWN, 0, 0},
	{"short jmp", {0xeb, 0x10, 0xcc, 0xcc, 0xcc}, 8, SLOT_UNKNOWN, 0, 0},
	{"our trap", {0xe6, GUEST_TRAP_PORT, 0xcc, 0xcc, 0xcc}, 8, SLOT_TRAP, 0, 0},
};

static void test_slots(void)
{
	for (size_t i = 0; i < sizeof(slot_rows) / sizeof(slot_rows[0]); i++) {
		const struct slot_row *r = &slot_rows[i];
		struct slot slot = slot_classify(r->bytes, r->left, GVA);

		ok(slot.state == r->state && slot.size == r->size && slot.target == r->target,
		   "%s: state %u, %u bytes, to %llx", r->name, slot.state, slot.size,
		   (unsigned long long)slot.target);
	}
}

int main(void)
{
	test_sites();
	test_slots();
	return tap_done();
}
