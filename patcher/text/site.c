/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/site.h"

#include <string.h>
#include "introspect/guest/guest.h"

enum {
	OPCODE_CALL = 0xe8,
	OPCODE_JMP = 0xe9,
	OPCODE_RET = 0xc3,
	OPCODE_INT3 = 0xcc,
	OPCODE_OUT_IMM8 = 0xe6,
	PREFIX_CS = 0x2e, /* clang's -mindirect-branch-cs-prefix */
};

/* The 5-byte NOPs of arch/x86/include/asm/nops.h (P6, K8) and of recordmcount's link-time NOP. */
static const uint8_t nops[][SITE_SIZE] = {
	{0x0f, 0x1f, 0x44, 0x00, 0x00},
	{0x66, 0x66, 0x66, 0x66, 0x90},
	{0x3e, 0x8d, 0x74, 0x26, 0x00},
};

static uint64_t rel32_target(const uint8_t *bytes, uint64_t gva)
{
	int32_t displacement;

	memcpy(&displacement, bytes + 1, sizeof(displacement));
	return gva + SITE_SIZE + (uint64_t)(int64_t)displacement;
}

static bool is_trap(const uint8_t *bytes)
{
	return bytes[0] == OPCODE_OUT_IMM8 && bytes[1] == GUEST_TRAP_PORT;
}

enum site_state site_classify(const uint8_t bytes[SITE_SIZE], uint64_t gva, uint64_t fentry)
{
	for (size_t i = 0; i < sizeof(nops) / sizeof(nops[0]); i++)
		if (!memcmp(bytes, nops[i], SITE_SIZE))
			return SITE_NOP;
	if (is_trap(bytes))
		return SITE_TRAP;
	switch (bytes[0]) {
	case OPCODE_CALL:
		if (fentry && rel32_target(bytes, gva) == fentry)
			return SITE_CALL_FENTRY;
		return SITE_CALL_OTHER;
	case OPCODE_JMP:
		return SITE_JMP;
	case OPCODE_INT3:
		return SITE_INT3;
	default:
		return SITE_UNKNOWN;
	}
}

const char *site_state_text(enum site_state state)
{
	switch (state) {
	case SITE_CALL_FENTRY:
		return "calls __fentry__";
	case SITE_NOP:
		return "is a NOP";
	case SITE_CALL_OTHER:
		return "is taken by the guest's own ftrace or livepatch";
	case SITE_JMP:
		return "is taken by an optimised kprobe of the guest";
	case SITE_INT3:
		return "is taken by a kprobe of the guest";
	case SITE_TRAP:
		return "holds a trap of another Sonde";
	case SITE_UNREADABLE:
		return "is not mapped";
	case SITE_UNKNOWN:
		break;
	}
	return "holds unknown bytes";
}

static uint8_t ret_room(const uint8_t *bytes, size_t left)
{
	uint8_t size = 1;

	while (size < SITE_SIZE && size < left && bytes[size] == OPCODE_INT3)
		size++;
	return size;
}

size_t slot_bytes(const uint8_t bytes[SITE_SIZE])
{
	return bytes[0] == PREFIX_CS && bytes[1] == OPCODE_JMP ? SITE_SIZE + 1 : SITE_SIZE;
}

struct slot slot_classify(const uint8_t *bytes, size_t left, uint64_t gva)
{
	struct slot slot = {.state = SLOT_UNKNOWN};
	size_t prefix;

	if (left < GUEST_TRAP_SIZE)
		return slot;
	prefix = left > SITE_SIZE ? slot_bytes(bytes) - SITE_SIZE : 0;
	if (is_trap(bytes)) {
		slot.state = SLOT_TRAP;
	} else if (bytes[0] == OPCODE_RET && ret_room(bytes, left) >= GUEST_TRAP_SIZE) {
		slot.state = SLOT_RET;
		slot.size = ret_room(bytes, left);
	} else if (bytes[prefix] == OPCODE_JMP && left >= SITE_SIZE) {
		slot.state = SLOT_JMP_THUNK;
		slot.size = (uint8_t)(prefix + SITE_SIZE);
		slot.target = rel32_target(bytes + prefix, gva + prefix);
	}
	return slot;
}
