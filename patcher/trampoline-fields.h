/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_FIELDS_H
#define SONDE_PATCHER_TRAMPOLINE_FIELDS_H

#include "patcher/asm-x86.h"
#include "patcher/trampoline.h"

/*
 * The part of a trampoline that fills in a reserved record. R10 is the CPU's distance from CPU 0's
 * ring, R11 the record's offset in the data, and the guest's flags lie on top of its stack.
 */
struct trampoline_code {
	struct assembler a;
	const struct trampoline_spec *spec;
	struct trampoline *out;
};

/* The record's byte at `offset`. */
struct asm_mem trampoline_record_at(const struct trampoline_code *c, size_t offset);

/* -EINVAL or -ERANGE if the kernel's figures cannot be written into code. */
int trampoline_check_kernel(const struct trampoline_spec *spec, struct error *err);

void trampoline_emit_clock(struct trampoline_code *c);
void trampoline_emit_fields(struct trampoline_code *c);

#endif
