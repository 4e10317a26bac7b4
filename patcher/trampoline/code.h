/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SONDE_PATCHER_TRAMPOLINE_CODE_H
#define SONDE_PATCHER_TRAMPOLINE_CODE_H

#include "patcher/fetch/fetch.h"
#include "patcher/trampoline/asm-x86.h"
#include "patcher/trampoline/trampoline.h"

/* --- one record into one ring (ring-code.c) -------------------------------------------------- */

/*
 * The order of a record's code: distance, check, reserve, clock, the fields, commit, skip; the
 * clock may come behind the fields; and behind the code that calls take, full. R10 is the CPU's
 * distance from CPU 0's ring; from the reservation on R11 is the record's offset in the data. Of
 * other registers only RAX and RDX change, and at a return RSI.
 */
struct ring_code {
	struct assembler *a;
	const struct trampoline_rings *rings;
	enum trampoline_full when_full;
	bool keep_rax, keep_rdx; /* RAX: in RSI, at returns */
	struct slow_path *out;
	struct asm_label retry, full, skip;
};

/* -EINVAL or -ERANGE if there can be no such rings. */
int ring_code_check(const struct trampoline_rings *rings, struct error *err);

/* Byte `offset` of the header, of the record. */
struct asm_mem ring_header_at(const struct ring_code *r, size_t offset);
struct asm_mem ring_record_at(const struct ring_code *r, size_t offset);

void ring_emit_distance(const struct ring_code *r, const struct trampoline_kernel *kernel);
/* Go to the slow path if there is no room. */
void ring_emit_check(struct ring_code *r);
/* R11 is the record's size. */
void ring_emit_reserve(const struct ring_code *r);
void ring_emit_clock(const struct ring_code *r);
void ring_emit_commit(const struct ring_code *r, uint32_t id);
/* Here the code goes on when the record is written or lost. */
void ring_emit_skip(struct ring_code *r);
/* The slow path. What follows counts the record as lost and jumps to r->skip. */
void ring_emit_full(struct ring_code *r);
void ring_emit_lost(const struct ring_code *r);

/* --- begin and end (ring-code.c) ------------------------------------------------------------- */

/* Push the flags, interrupts off. */
void code_enter(struct assembler *a, bool unprivileged);
/* Pop the flags; interrupts as they were; go to `next`, or return if it is 0. Changes R11. */
void code_leave(struct assembler *a, uint64_t next, bool unprivileged);

/* --- is it code? (check.c) ------------------------------------------------------------------- */

struct code_region {
	const uint8_t *bytes;
	size_t size; /* TRAMPOLINE_MAX or less */
	uint64_t gva, next;
	uint64_t other; /* not 0: it may jump there, too */
	bool returns;   /* it may return, although it has a `next` */
	/* Direct records, whose programs say which functions it may call. */
	const struct direct_spec *records;
	size_t nr_records;
};

/* -EILSEQ unless it is whole instructions, of those that code may have, with branches only to them,
 * to `next` and `other`; next 0 = it returns instead. */
int code_check(const struct code_region *code, const struct slow_path *slow, size_t nr_slow,
	       struct decoder *decoder, struct error *err);

/* --- gates (gate-emit.c) --------------------------------------------------------------------- */

struct direct_code;
struct gate_code {
	struct assembler *a;
	const struct trampoline_kernel *kernel;
	enum asm_reg scratch;            /* it and R11 change */
	uint32_t caller_at;              /* where the call's return address is, from RSP */
	enum probe_point point;
	const struct direct_code *saves; /* registers of the guest's; NULL: none */
};

/* The code goes on behind itself if the gate says yes, else at `no`. */
void gate_emit(const struct gate_code *code, const struct gate *gate, struct asm_label *no);

/* --- counts of calls (count.c) ---------------------------------------------------------------- */

/*
 * It begins with R10 the CPU's distance, which it changes, as
 * well as R11; at entries RAX, at returns RCX and RSI.
 */
struct count_code {
	struct assembler *a;
	const struct count_spec *spec;
	uint64_t data;      /* gva of CPU 0's */
	struct asm_mem cpu; /* the CPU's number */
	uint32_t stride;    /* from one CPU's data to the next */
	uint64_t ip;        /* the only site's end; 0 = the site's return address */
	uint32_t site_at;   /* where that is, from RSP */
	uint32_t caller_at; /* where the call's return address is, from RSP */
	struct asm_label again, other, done;                          /* the search */
	struct asm_label take, taken;                                 /* of a start */
	struct asm_label unknown, compare, longer, known;             /* of a stop */
};

/* -EINVAL: there is no such action at this point. */
int count_check(const struct count_spec *count, enum probe_point point, struct error *err);
void count_emit(struct count_code *c);
/* What is rarely needed, behind the code that calls take. */
void count_emit_slow(struct count_code *c);

/* --- an event of a histogram (hist.c) --------------------------------------------------------- */

/* R10 is the CPU's distance, which stays. As emit_record() it changes R11 and the scratch register.
 */
struct direct_code;
struct hist_code {
	struct direct_code *d;
	size_t number; /* of the record that it stands for */
	const struct hist_spec *spec;
	uint64_t data;                                /* gva, of CPU 0 */
	struct asm_label again, found, done;          /* the search */
	struct asm_label look, not_ready, next, drop; /* what is rarely needed */
};

/* -EINVAL: there can be no such histogram at this point. */
int hist_check(const struct hist_spec *spec, const struct fetch_program *fetch,
	       enum probe_point point, struct error *err);
void hist_emit(struct hist_code *c);
/* What is rarely needed, behind the code that calls take. */
void hist_emit_slow(struct hist_code *c);

/* --- direct records about one call (direct.c) ------------------------------------------------ */

/*
 * They begin with the flags on the stack's top, or below them the registers that records name and
 * that would change. They change R10 and R11; at entries RAX, at returns RCX and RSI. Inside of a
 * function, where each register may hold something, they change what they
 * do at entries, and the guest's values of these lie above the flags (direct_saved_at()).
 */
struct direct_code {
	struct assembler *a;
	enum probe_point point;
	const struct trampoline_kernel *kernel;
	const struct direct_spec *records;
	size_t n;
	uint64_t ip;        /* gva that an entry's records name; 0 = the return address above the
			     * flags */
	uint32_t caller_at; /* where the call's return address is, from the flags */
	uint32_t saved;     /* bits of registers that lie below the flags: registers_choose() */
	uint32_t pushed;    /* bytes between RSP and the flags: of these, and of a record's */
	bool keep_rdx;      /* it may hold an argument, or the upper half of a result */
	uint32_t stride;    /* R10 is the distance in rings of this stride; 0 = not computed */
	struct slow_path *slow; /* of each record, out */
	struct ring_code rings[DIRECT_MAX_RECORDS];
	struct count_code counts[DIRECT_MAX_RECORDS];
	struct hist_code hists[DIRECT_MAX_RECORDS];
};

/* -EINVAL or -ERANGE: there can be no such records. */
int direct_check(const struct direct_spec *records, size_t n, enum probe_point point,
		 const struct trampoline_kernel *kernel, struct error *err);
void direct_emit(struct direct_code *d);
/* Their slow paths, behind the code that calls take. */
void direct_emit_slow(struct direct_code *d);

/* --- registers as the guest had them (registers.c) -------------------------------------------- */

/* Whether it holds something of the guest's at such a point. */
bool register_is_known(enum fetch_register reg, enum probe_point point);
/* Whether it is there all the time while the code of an entry, or of a return, runs. */
bool register_is_kept(enum fetch_register reg, enum probe_point point);
/* Which registers of those that are `changed` before the records' code has taken them, or by it,
 * the records name: d->saved, and d->pushed. */
void registers_choose(struct direct_code *d, uint32_t changed);
/* Save them, below the flags; and forget them. */
void registers_push(const struct direct_code *d);
void registers_drop(const struct direct_code *d);
/* Where the guest's value of a register is, from the flags; 0: in the register. */
int32_t direct_saved_at(const struct direct_code *d, enum asm_reg reg);
/* Whether it holds the same while direct_emit()'s code runs, but for calls of functions. */
bool register_is_live(const struct direct_code *d, enum fetch_register reg);
/* to = the guest's value; the flags are `flags_at` bytes above RSP. */
void register_emit(const struct direct_code *d, enum asm_reg to, enum fetch_register reg,
		   uint32_t flags_at);

/* --- a part of the stack (stack-code.c) ------------------------------------------------------- */

/* Into a reserved record, as a struct direct_stack. Changes RAX, unless it is kept. */
struct stack_code {
	struct assembler *a;
	const struct trampoline_kernel *kernel;
	const struct ring_code *ring;
	uint32_t caller_at; /* where the slice begins, from RSP: at the call's return address */
	size_t to;          /* byte of the record */
	uint32_t words;     /* 1..STACK_MAX_WORDS */
	bool keep_rax;
};
void stack_emit(const struct stack_code *code);

/* --- what a dynamic probe fetches (fetch-emit.c) ---------------------------------------------- */

/* -EINVAL: this cannot be fetched there. */
int fetch_check(const struct fetch_program *program, enum probe_point point, struct error *err);
/* Whether its code may call a function that begins there. */
bool fetch_calls(const struct fetch_program *program, uint64_t gva);
/* Before the reservation: read what lies in memory, which stays on the stack until
 * fetch_emit_end(). Changes RAX and R11 at entries, and at returns RCX, RSI and R11. */
void fetch_emit_read(struct direct_code *d, const struct direct_spec *spec,
		     const struct ring_code *ring);
/* R11 = bytes of a record that has `size` without long strings. */
void fetch_emit_size(const struct direct_code *d, const struct fetch_program *program,
		     uint32_t size);
/* Behind the reservation: all values, to byte `to` of the record, and long strings behind them. */
void fetch_emit_store(const struct direct_code *d, const struct ring_code *ring,
		      const struct fetch_program *program, uint32_t to);
void fetch_emit_end(struct direct_code *d);

/* All bits of what is known of a struct task_struct: an offset that is too large shows in them. */
uint32_t code_task_offsets(const struct trampoline_kernel *kernel);
/* reg = gva of the current task; a word of it at `offset` bytes; the id of its cgroup. Early in
 * boot a task has none: 0. */
void code_load_task(struct assembler *a, enum asm_reg reg, const struct trampoline_kernel *kernel);
void code_load_task_word(struct assembler *a, enum asm_width width, enum asm_reg reg,
			 const struct trampoline_kernel *kernel, uint32_t offset);
void code_load_cgroup(struct assembler *a, enum asm_reg reg,
		      const struct trampoline_kernel *kernel);

/* --- a private trampoline (fields.c) --------------------------------------------------------- */

/*
 * A trampoline while it is generated, and the parts that trampoline.c puts together. The guest's
 * flags lie on its stack.
 */
struct trampoline_code {
	struct assembler a;
	struct ring_code ring;
	struct direct_code extra;
	const struct trampoline_spec *spec;
	struct trampoline *out;
	uint32_t pushed;        /* bytes between the flags and the stack pointer */
	enum asm_reg saved;     /* holds FIELD_SAVED */
	struct asm_label chunk; /* where the next record of the same call begins */
};

/* Push a register, pop it; c->pushed follows. */
void trampoline_push(struct trampoline_code *c, enum asm_reg reg);
void trampoline_pop(struct trampoline_code *c, enum asm_reg reg);

/* Whether the register of an argument, 0 to 5, must be preserved. */
bool trampoline_holds_argument(const struct trampoline_spec *spec, unsigned int number);

/* The one register that is free at either kind of point, between any two parts. */
enum asm_reg trampoline_scratch(const struct trampoline_code *c);

/* The register of an argument. */
enum asm_reg trampoline_argument(unsigned int number);

/* -EINVAL or -ERANGE if a figure of the kernel cannot be written into code. */
int trampoline_check_kernel(const struct trampoline_spec *spec, struct error *err);

/* The fields of a reserved record. */
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
