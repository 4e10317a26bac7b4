/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/text/insn-size.h"

#include <errno.h>
#include <stdbool.h>

enum {
	VEX2 = 0xc5,
	VEX3 = 0xc4,
	EVEX = 0x62,
	MAX_PREFIXES = 4, /* that compilers combine, REX included */
};

/* Bytes of ModRM, SIB and displacement in 64-bit mode (SDM vol. 2, 2.1.3 and 2.1.5). */
static int modrm_size(const uint8_t *p, size_t left)
{
	uint8_t mod, rm;
	int size = 1;

	if (left < 1)
		return -EILSEQ;
	mod = p[0] >> 6;
	rm = p[0] & 7;
	if (mod == 3)
		return 1;
	if (rm == 4) {
		if (left < 2)
			return -EILSEQ;
		size++;
		if (mod == 0 && (p[1] & 7) == 5)
			size += 4;
	}
	if (mod == 1)
		size += 1;
	else if (mod == 2 || (mod == 0 && rm == 5))
		size += 4;
	return (size_t)size <= left ? size : -EILSEQ;
}

static size_t count_prefixes(const uint8_t *p, size_t left)
{
	size_t i = 0;

	while (i < left && i < MAX_PREFIXES &&
	       (p[i] == 0x66 || p[i] == 0x67 || p[i] == 0xf2 || p[i] == 0xf3 ||
		(p[i] & 0xf0) == 0x40))
		i++;
	return i;
}

int insn_size_special(const uint8_t *p, size_t left)
{
	size_t i = count_prefixes(p, left);
	int operand;

	if (left - i < 2 || p[i] != 0x0f)
		return 0;
	if ((p[i + 1] == 0x01 || p[i + 1] == 0xae) && left - i > 2 && p[i + 2] >= 0xc0)
		return (int)i + 3;
	if (p[i + 1] != 0xb9)
		return 0;
	operand = modrm_size(p + i + 2, left - i - 2);
	return operand < 0 ? operand : (int)i + 2 + operand;
}

/* Whether an opcode of map 1 to 3 (0f, 0f 38, 0f 3a) has an immediate byte, in its vector forms. */
static bool has_immediate(unsigned int map, uint8_t opcode)
{
	if (map != 1)
		return map == 3;
	return (opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
	       (opcode >= 0xc4 && opcode <= 0xc6);
}

/* Bytes before the opcode, and its map; 0 if the form is another. */
static size_t opcode_place(const uint8_t *p, size_t left, unsigned int *map)
{
	size_t i = count_prefixes(p, left);

	if (left - i < 4)
		return 0;
	if (p[i] == VEX2) {
		*map = 1;
		return i + 2;
	}
	if (p[i] == VEX3 || p[i] == EVEX) {
		*map = p[i + 1] & 7;
		return *map ? i + (p[i] == EVEX ? 4 : 3) : 0;
	}
	if (p[i] != 0x0f || (p[i + 1] != 0x38 && p[i + 1] != 0x3a))
		return 0;
	*map = p[i + 1] == 0x38 ? 2 : 3;
	return i + 2;
}

int insn_size_extended(const uint8_t *p, size_t left)
{
	unsigned int map = 0;
	size_t opcode = opcode_place(p, left, &map), size;
	int operand;

	if (!opcode || opcode >= left)
		return 0;
	operand = modrm_size(p + opcode + 1, left - opcode - 1);
	if (operand < 0)
		return operand;
	size = opcode + 1 + (size_t)operand + has_immediate(map, p[opcode]);
	return size <= left ? (int)size : -EILSEQ;
}
