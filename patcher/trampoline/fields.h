/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_FIELDS_H
#define SONDE_PATCHER_TRAMPOLINE_FIELDS_H

#include "patcher/trampoline/asm-x86.h"
#include "patcher/trampoline/trampoline.h"

/*
 * The part of a trampoline that fills in a reserved record. R10 is the CPU's distance from CPU 0's
 * ring, R11 the record's offset in the data, and the guest's flags lie on its stack.
 */
struct trampoline_code {
	struct assembler a;
	const struct trampoline_spec *spec;
	struct trampoline *out;
	uint32_t pushed;        /* bytes between the flags and the stack pointer */
	enum asm_reg saved;     /* holds what FIELD_SAVED says */
	struct asm_label chunk; /* where the next record of the same call begins */
};

/* A register to the guest's stack and back; `pushed` is kept up to date. */
void trampoline_push(struct trampoline_code *c, enum asm_reg reg);
void trampoline_pop(struct trampoline_code *c, enum asm_reg reg);

/* The header's byte at `offset`. */
struct asm_mem trampoline_header_at(const struct trampoline_code *c, size_t offset);

/* The record's byte at `offset`. */
struct asm_mem trampoline_record_at(const struct trampoline_code *c, size_t offset);

/* The one register that is free at either kind of place, between any two parts. */
enum asm_reg trampoline_scratch(const struct trampoline_code *c);

/* The register an argument is in. */
enum asm_reg trampoline_argument(unsigned int number);

/* -EINVAL or -ERANGE if the kernel's figures cannot be written into code. */
int trampoline_check_kernel(const struct trampoline_spec *spec, struct error *err);

/* One record was given up. */
void trampoline_emit_drop(struct trampoline_code *c);
void trampoline_emit_clock(struct trampoline_code *c);
/* R11 = how long writers may still wait for room, in ticks of this CPU's TSC. */
void trampoline_emit_patience(struct trampoline_code *c);
void trampoline_emit_fields(struct trampoline_code *c);

#endif
