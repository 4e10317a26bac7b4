/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_CODE_H
#define SONDE_PATCHER_TRAMPOLINE_CODE_H

#include "patcher/trampoline/asm-x86.h"
#include "patcher/trampoline/trampoline.h"

/*
 * A trampoline while it is generated, and the parts that trampoline.c puts together. From its start
 * on R10 is the CPU's distance from CPU 0's ring; from the reservation on R11 is the record's
 * offset in the data. The guest's flags lie on its stack.
 */
struct trampoline_code {
	struct assembler a;
	const struct trampoline_spec *spec;
	struct trampoline *out;
	uint32_t pushed;        /* bytes between the flags and the stack pointer */
	enum asm_reg saved;     /* holds FIELD_SAVED */
	struct asm_label chunk; /* where the next record of the same call begins */
};

/* --- used by all parts (fields.c) ------------------------------------------------------------ */

/* Push a register, pop it; c->pushed follows. */
void trampoline_push(struct trampoline_code *c, enum asm_reg reg);
void trampoline_pop(struct trampoline_code *c, enum asm_reg reg);

/* Byte `offset` of the header, of the record. */
struct asm_mem trampoline_header_at(const struct trampoline_code *c, size_t offset);
struct asm_mem trampoline_record_at(const struct trampoline_code *c, size_t offset);

/* The one register that is free at either kind of point, between any two parts. */
enum asm_reg trampoline_scratch(const struct trampoline_code *c);

/* The register of an argument. */
enum asm_reg trampoline_argument(unsigned int number);

/* -EINVAL or -ERANGE if a figure of the kernel cannot be written into code. */
int trampoline_check_kernel(const struct trampoline_spec *spec, struct error *err);

/* --- fields of a reserved record (fields.c) -------------------------------------------------- */

/* One record is lost: ring full. */
void trampoline_emit_lost(struct trampoline_code *c);
void trampoline_emit_clock(struct trampoline_code *c);
/* R11 = how long writers may still wait for room, in ticks of this CPU's TSC. */
void trampoline_emit_patience(struct trampoline_code *c);
void trampoline_emit_fields(struct trampoline_code *c);

/* --- objects of a call (items.c) ------------------------------------------------------------- */

/*
 * The parts that make a trampoline write one record for each CAPTURE_MAX_ITEMS items of its call,
 * in the order in which they stand in the code. They work with registers that a function must
 * preserve, which are saved on its stack: each record needs the arguments unchanged.
 */

/* The first item; at c->chunk, how many of those left go into the next record. */
void trampoline_items_begin(struct trampoline_code *c);
/* to = bytes of the next record. */
void trampoline_items_size(struct trampoline_code *c, enum asm_reg to);
void trampoline_items_copy(struct trampoline_code *c);
/* Write how many items the record has. */
void trampoline_items_count(struct trampoline_code *c);
/* The record is written or lost: on to the next one if there are items left. */
void trampoline_items_next(struct trampoline_code *c);
/* In the slow path: this record's items are lost. */
void trampoline_items_lost(struct trampoline_code *c);

/* --- arrays saved from a call's entry to its return (saved-array.c) -------------------------- */

/*
 * At the return no register holds the array any more: the entry saves it in a table that all CPUs
 * share (struct ring_saved_array). Both come before the reservation, so that a full ring does not
 * change the table.
 */

/* ITEMS_SAVED. If the table is full, nothing is saved. */
void trampoline_save_array(struct trampoline_code *c);

/*
 * ITEMS_RETURNED: words = gva of the first word that is the call's work, skip = how many lie in
 * front of it (or SAVED_ALL_OR_NONE + their number), c->saved = FIELD_SAVED; frees the slot. If
 * nothing was saved, skip is as many as a call can have. Changes R11, R13, R14, which may be
 * `skip`, and the scratch register.
 */
void trampoline_find_saved_array(struct trampoline_code *c, enum asm_reg words, enum asm_reg skip);

#endif
