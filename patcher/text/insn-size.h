/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TEXT_INSN_SIZE_H
#define SONDE_PATCHER_TEXT_INSN_SIZE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Sizes of the instructions that Capstone 4.0.2 gets wrong or does not know; part of insn.c. None
 * of them changes the control flow. Encodings: Intel SDM vol. 2, chapter 2 and appendix A.
 *
 * Each returns bytes, 0 if the instruction at `p` is of another form, or -EILSEQ if it is longer
 * than `left`.
 */

/* `ud1` (0f b9 /r), whose operand bytes Capstone leaves out, and 0f 01 and 0f ae with a register
 * ModRM. */
int insn_size_special(const uint8_t *p, size_t left);

/* Opcode maps 0f 38 and 0f 3a, and what has a VEX or EVEX prefix: only for what Capstone refuses.
 */
int insn_size_extended(const uint8_t *p, size_t left);

#endif
