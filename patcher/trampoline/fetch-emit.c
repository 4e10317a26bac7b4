/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a dynamic probe fetches, as code. Memory is read before the record is reserved, by functions
 * of the guest's own, which come back with an error where nothing is mapped: so no ring waits for a
 * page fault. What they give is kept on the stack until the record's fields are written.
 */
#include "patcher/trampoline/code.h"

#include <errno.h>
#include <string.h>
#include "patcher/fetch/fetch.h"

enum { WORD = 8, KERNEL_CS = 0x10, WORDS_BIT = 32 /* in the head's last word */ };

/* Registers that a function call may change, and that must be preserved. */
static const enum asm_reg entry_saved[] = {ASM_RDI, ASM_RSI, ASM_RDX, ASM_RCX,
					   ASM_R8,  ASM_R9,  ASM_R10};
static const enum asm_reg return_saved[] = {ASM_RAX, ASM_RDX, ASM_RDI, ASM_R8, ASM_R9, ASM_R10};

struct saved {
	const enum asm_reg *regs;
	unsigned int n;
};

static struct saved saved_of(enum probe_point point)
{
	if (point == POINT_RETURN)
		return (struct saved){return_saved, sizeof(return_saved) / sizeof(return_saved[0])};
	return (struct saved){entry_saved, sizeof(entry_saved) / sizeof(entry_saved[0])};
}

/* At a return RAX holds the result. */
static enum asm_reg scratch(const struct direct_code *d)
{
	return d->point == POINT_RETURN ? ASM_RCX : ASM_RAX;
}

/* --- checks ---------------------------------------------------------------------------------- */

static bool op_is_possible(const struct fetch_op *op, enum probe_point point, size_t i, size_t n)
{
	if (op->member != FETCH_NO_MEMBER)
		return false;
	switch (op->kind) {
	case FETCH_REGISTER:
		return !i && register_is_known(op->reg, point) && op->at >= 0 &&
		       op->at < (n == 1 ? 64 : 1);
	case FETCH_CONSTANT:
		return !i;
	case FETCH_COMM:
	case FETCH_LITERAL:
		return !i && n == 1;
	case FETCH_DEREF:
		return i && op->at == (int32_t)op->at;
	case FETCH_MEMORY:
	case FETCH_TEXT:
		return i && i + 1 == n && op->at == (int32_t)op->at;
	case FETCH_SYMBOL:
	case FETCH_PARAMETER:
		break;
	}
	return false;
}

static bool is_whole_string(const struct fetch_arg *arg)
{
	return arg->ops[0].kind == FETCH_COMM || arg->ops[0].kind == FETCH_LITERAL;
}

static bool arg_is_possible(const struct fetch_arg *arg, enum probe_point point)
{
	if (!arg->nr_ops || arg->nr_ops > FETCH_MAX_OPS || arg->at % WORD ||
	    arg->bit_offset + arg->bit_width > 8 * arg->size ||
	    arg->field + fetch_nr_fields(arg) > FETCH_MAX_FIELDS)
		return false;
	for (size_t i = 0; i < arg->nr_ops; i++)
		if (!op_is_possible(&arg->ops[i], point, i, arg->nr_ops))
			return false;
	return !is_whole_string(arg) || fetch_room(arg) == DIRECT_COMM_SIZE;
}

static size_t count_long(const struct fetch_program *program)
{
	size_t n = 0;

	for (size_t i = 0; i < program->nr_args; i++)
		n += fetch_is_long(&program->args[i]);
	return n;
}

int fetch_check(const struct fetch_program *program, enum probe_point point, struct error *err)
{
	if (program->nr_args > FETCH_MAX_ARGS || program->bytes > FETCH_MAX_BYTES + program->head ||
	    program->bytes % WORD || program->nr_long_strings > FETCH_MAX_LONG_STRINGS ||
	    count_long(program) != program->nr_long_strings)
		return error_set(err, EINVAL, "a probe has too many arguments");
	for (size_t i = 0; i < program->nr_args; i++) {
		const struct fetch_arg *arg = &program->args[i];

		if (!arg_is_possible(arg, point) ||
		    fetch_place(program, arg) + fetch_room(arg) > program->bytes)
			return error_set(err, EINVAL, "a probe's argument '%s' cannot be fetched",
					 arg->name);
	}
	return 0;
}

bool fetch_calls(const struct fetch_program *program, uint64_t gva)
{
	const struct fetch_helpers *h = &program->helpers;

	return program->has_faults && gva &&
	       (gva == h->read_kernel || gva == h->read_user || gva == h->text_kernel ||
		gva == h->text_user);
}

/* --- reading memory -------------------------------------------------------------------------- */

struct reader {
	const struct direct_code *d;
	struct assembler *a;
	const struct fetch_program *program;
	struct saved saved;
	uint32_t frame; /* bytes from RSP to what was fetched, while registers are saved */
};

static struct asm_mem frame_at(const struct reader *r, uint32_t offset)
{
	return asm_at(ASM_RSP, r->frame + offset);
}

/* Bytes of the frame: what is recorded, and a word for the byte by which a string is too long. */
static uint32_t frame_bytes(const struct fetch_program *program)
{
	const uint32_t strings = program->nr_long_strings * (uint32_t)FETCH_LONG_STRING;

	return program->bytes + (strings ? strings + WORD : 0);
}

/* Those that were pushed first lie highest; KERNEL_CS lies below them. */
static uint32_t saved_at(const struct reader *r, enum asm_reg reg)
{
	for (unsigned int i = 0; i < r->saved.n; i++)
		if (r->saved.regs[i] == reg)
			return WORD * (r->saved.n - i);
	return 0;
}

static void emit_base(const struct reader *r, const struct fetch_op *op)
{
	const uint32_t at = saved_at(r, (enum asm_reg)op->reg);

	if (op->kind == FETCH_CONSTANT) {
		asm_constant64(r->a, ASM_RSI, (uint64_t)op->at);
	} else if (at && register_is_live(r->d, op->reg)) {
		asm_load(r->a, ASM_64, ASM_RSI, asm_at(ASM_RSP, at));
	} else {
		register_emit(r->d, ASM_RSI, op->reg,
			      r->frame + frame_bytes(r->program) + r->d->pushed);
	}
}

static void emit_call(const struct reader *r, uint64_t function, struct asm_label *fault)
{
	if (function)
		asm_call_to(r->a, function);
	else
		asm_jump(r->a, fault);
}

/*
 * Read `size` bytes, or a string of as many, at RSI + op->at to RDI. Addresses in the lower half
 * are the task's, as in the kernel's own probes (probe_mem_read() in kernel/trace/). RAX: of a
 * string its bytes with the NUL.
 */
static void emit_read_to(const struct reader *r, const struct fetch_op *op, uint32_t size,
			 struct asm_label *fault)
{
	const struct fetch_helpers *h = &r->program->helpers;
	const bool is_text = op->kind == FETCH_TEXT;
	struct asm_label kernel = {0}, called = {0};

	if (op->at)
		asm_alu(r->a, ASM_64, ASM_ADD, ASM_RSI, (int32_t)op->at);
	asm_constant32(r->a, ASM_RDX, size);
	if (!op->user) {
		asm_alu(r->a, ASM_64, ASM_CMP, ASM_RSI, 0);
		asm_jump_if(r->a, ASM_L, &kernel);
	}
	emit_call(r, is_text ? h->text_user : h->read_user, fault);
	if (!op->user) {
		asm_jump(r->a, &called);
		asm_bind(r->a, &kernel);
		emit_call(r, is_text ? h->text_kernel : h->read_kernel, fault);
		asm_bind(r->a, &called);
	}
	asm_alu(r->a, ASM_64, ASM_CMP, ASM_RAX, 0);
	asm_jump_if(r->a, is_text ? ASM_L : ASM_NE, fault);
}

/* Into the frame. */
static void emit_read(const struct reader *r, const struct fetch_op *op, uint32_t to, uint32_t size,
		      struct asm_label *fault)
{
	asm_lea(r->a, ASM_RDI, frame_at(r, to));
	emit_read_to(r, op, size, fault);
}

/*
 * Likewise a string, behind those that the frame has. The guest's function puts a NUL into the last
 * byte of the room it gets: so that of one more tells a string that has no room from one that just
 * fits.
 */
static void emit_long_string(const struct reader *r, const struct fetch_op *op, uint32_t to,
			     struct asm_label *fault)
{
	struct asm_label fits = {0};

	asm_load(r->a, ASM_32, ASM_RDI, frame_at(r, fetch_words_at(r->program)));
	asm_shift_left(r->a, ASM_RDI, 3);
	asm_add(r->a, ASM_RDI, ASM_RSP);
	asm_alu(r->a, ASM_64, ASM_ADD, ASM_RDI, (int32_t)(r->frame + r->program->bytes));
	emit_read_to(r, op, FETCH_LONG_STRING + 1, fault);
	asm_alu(r->a, ASM_64, ASM_CMP, ASM_RAX, FETCH_LONG_STRING);
	asm_jump_if(r->a, ASM_BE, &fits);
	asm_constant32(r->a, ASM_RAX, FETCH_LONG_STRING);
	asm_bind(r->a, &fits);
	asm_store(r->a, ASM_32, frame_at(r, to), ASM_RAX);
	asm_alu(r->a, ASM_64, ASM_ADD, ASM_RAX, WORD - 1);
	asm_shift_right(r->a, ASM_RAX, 3);
	asm_shift_left(r->a, ASM_RAX, WORDS_BIT);
	asm_add_to_mem(r->a, frame_at(r, r->program->head - (uint32_t)WORD), ASM_RAX);
}

static void emit_zero(const struct reader *r, uint32_t from, uint32_t size)
{
	for (uint32_t i = 0; i < size; i += sizeof(uint32_t))
		asm_store_constant(r->a, ASM_32, frame_at(r, from + i), 0);
}

/* The bit-fields of a word, each in the place of its container. */
static uint64_t bits_of_word(const struct fetch_arg *arg)
{
	const uint64_t one = UINT64_MAX >> (64 - arg->bit_width);
	uint64_t all = 0;

	for (unsigned int i = 0; i < WORD; i += arg->size)
		all |= one << 8 * i;
	return all;
}

/* In the frame: of each element. What is shifted in from the next one is not in the field. */
static void emit_bit_fields(const struct reader *r, const struct fetch_arg *arg, uint32_t at)
{
	struct asm_label next = {0};

	asm_lea(r->a, ASM_RDI, frame_at(r, at));
	asm_constant32(r->a, ASM_RCX, fetch_room(arg) / WORD);
	asm_constant64(r->a, ASM_RDX, bits_of_word(arg));
	asm_bind(r->a, &next);
	asm_load(r->a, ASM_64, ASM_RAX, asm_at(ASM_RDI, 0));
	if (arg->bit_offset)
		asm_shift_right(r->a, ASM_RAX, arg->bit_offset);
	asm_and(r->a, ASM_RAX, ASM_RDX);
	asm_store(r->a, ASM_64, asm_at(ASM_RDI, 0), ASM_RAX);
	asm_alu(r->a, ASM_64, ASM_ADD, ASM_RDI, WORD);
	asm_alu(r->a, ASM_32, ASM_SUB, ASM_RCX, 1);
	asm_jump_if(r->a, ASM_NE, &next);
}

static void emit_argument(const struct reader *r, const struct fetch_arg *arg)
{
	const uint32_t to = fetch_place(r->program, arg), room = fetch_room(arg);
	struct asm_label fault = {0}, done = {0};

	emit_base(r, &arg->ops[0]);
	for (size_t k = 1; k + 1 < arg->nr_ops; k++) {
		emit_read(r, &arg->ops[k], to, WORD, &fault);
		asm_load(r->a, ASM_64, ASM_RSI, frame_at(r, to));
		emit_zero(r, to, WORD);
	}
	if (fetch_is_long(arg))
		emit_long_string(r, &arg->ops[arg->nr_ops - 1], to, &fault);
	else
		emit_read(r, &arg->ops[arg->nr_ops - 1], to, (uint32_t)arg->size * arg->count,
			  &fault);
	if (arg->bit_width)
		emit_bit_fields(r, arg, to);
	asm_jump(r->a, &done);
	asm_bind(r->a, &fault);
	emit_zero(r, to, room);
	asm_constant64(r->a, ASM_RAX, fetch_field_bits(arg));
	asm_add_to_mem(r->a, frame_at(r, 0), ASM_RAX);
	asm_bind(r->a, &done);
}

/*
 * A call leaves the address of this code on the stack, where no interrupt's frame is: what looks
 * for those (introspect/tasks/stack-scan.h) takes it for one, by the code segment above it.
 */
static void emit_arguments(struct reader *r)
{
	const uint8_t push_cs[] = {0x6a, KERNEL_CS};

	for (unsigned int i = 0; i < r->saved.n; i++)
		asm_push(r->a, r->saved.regs[i]);
	asm_bytes(r->a, push_cs, sizeof(push_cs));
	r->frame = WORD * (r->saved.n + 1);
	for (size_t i = 0; i < r->program->nr_args; i++)
		if (fetch_reads_memory(&r->program->args[i]))
			emit_argument(r, &r->program->args[i]);
	asm_alu(r->a, ASM_64, ASM_ADD, ASM_RSP, WORD);
	for (unsigned int i = r->saved.n; i-- > 0;)
		asm_pop(r->a, r->saved.regs[i]);
	r->frame = 0;
}

/* The bits of all fields that can fault. */
static uint64_t all_faults(const struct fetch_program *program)
{
	uint64_t faults = 0;

	for (size_t i = 0; i < program->nr_args; i++)
		if (fetch_reads_memory(&program->args[i]))
			faults |= fetch_field_bits(&program->args[i]);
	return faults;
}

static void emit_faults(const struct reader *r, uint64_t faults)
{
	for (uint32_t i = 0; i < fetch_fault_bytes(r->program); i += sizeof(uint32_t))
		asm_store_constant(r->a, ASM_32, frame_at(r, i), (uint32_t)(faults >> 8 * i));
}

/* A fetch in the middle of another one on this CPU (in the page fault handler, or in an NMI) reads
 * no memory: it could go on like that for ever. */
static void emit_nested(const struct reader *r, struct asm_mem busy, struct asm_label *nested)
{
	emit_faults(r, all_faults(r->program));
	asm_compare_mem(r->a, busy, 0);
	asm_jump_if(r->a, ASM_NE, nested);
	emit_faults(r, 0);
}

/* Where spec->fetching is set, the code in front has looked, and records nothing then. */
void fetch_emit_read(struct direct_code *d, const struct direct_spec *spec,
		     const struct ring_code *ring)
{
	const struct fetch_program *program = spec->fetch;
	struct reader r = {
		.d = d, .a = d->a, .program = program, .saved = saved_of(d->point), .frame = 0};
	const struct asm_mem busy =
		spec->fetching ? asm_at(ASM_R10, (uint32_t)spec->fetching)
			       : ring_header_at(ring, offsetof(struct ring_header, fetching));
	struct asm_label nested = {0};

	if (!program->has_faults)
		return;
	asm_alu(d->a, ASM_64, ASM_SUB, ASM_RSP, (int32_t)frame_bytes(program));
	emit_zero(&r, 0, program->bytes);
	if (!spec->fetching)
		emit_nested(&r, busy, &nested);
	asm_store_constant(d->a, ASM_32, busy, 1);
	emit_arguments(&r);
	asm_store_constant(d->a, ASM_32, busy, 0);
	asm_bind(d->a, &nested);
	d->pushed += frame_bytes(program);
}

void fetch_emit_size(const struct direct_code *d, const struct fetch_program *program,
		     uint32_t size)
{
	if (!program || !program->nr_long_strings) {
		asm_constant32(d->a, ASM_R11, size);
		return;
	}
	asm_load(d->a, ASM_32, ASM_R11, asm_at(ASM_RSP, fetch_words_at(program)));
	asm_shift_left(d->a, ASM_R11, 3);
	asm_alu(d->a, ASM_64, ASM_ADD, ASM_R11, (int32_t)size);
}

void fetch_emit_end(struct direct_code *d)
{
	const uint32_t saved = (uint32_t)(WORD * __builtin_popcount(d->saved));

	if (d->pushed > saved)
		asm_alu(d->a, ASM_64, ASM_ADD, ASM_RSP, (int32_t)(d->pushed - saved));
	d->pushed = saved;
}

/* --- the record's fields --------------------------------------------------------------------- */

static void emit_comm(const struct direct_code *d, const struct ring_code *ring, uint32_t to)
{
	for (uint32_t i = 0; i < DIRECT_COMM_SIZE; i += WORD) {
		code_load_task_word(d->a, ASM_64, scratch(d), d->kernel, d->kernel->task_comm + i);
		asm_store(d->a, ASM_64, ring_record_at(ring, to + i), scratch(d));
	}
}

/* Its words, filled up with NULs. */
static void emit_literal(const struct direct_code *d, const struct ring_code *ring,
			 const struct fetch_arg *arg, uint32_t to)
{
	char text[DIRECT_COMM_SIZE] = "";
	uint64_t word;

	memcpy(text, arg->symbol, strnlen(arg->symbol, sizeof(text)));
	for (uint32_t i = 0; i < sizeof(text); i += WORD) {
		memcpy(&word, text + i, sizeof(word));
		asm_constant64(d->a, scratch(d), word);
		asm_store(d->a, ASM_64, ring_record_at(ring, to + i), scratch(d));
	}
}

static void emit_bits(struct assembler *a, const struct fetch_arg *arg, enum asm_reg reg)
{
	asm_shift_left(a, reg, (uint8_t)(64 - arg->bit_offset - arg->bit_width));
	asm_shift_right(a, reg, (uint8_t)(64 - arg->bit_width));
}

static enum asm_reg to_scratch(const struct direct_code *d, enum asm_reg reg)
{
	if (reg != scratch(d))
		asm_move(d->a, scratch(d), reg);
	return scratch(d);
}

/* A value that is in a register, or known; cut to its size, and to its bits. */
static void emit_value(const struct direct_code *d, const struct ring_code *ring,
		       const struct fetch_arg *arg, uint32_t to)
{
	const struct fetch_op *op = &arg->ops[0];
	enum asm_reg reg = (enum asm_reg)op->reg;

	if (op->kind == FETCH_CONSTANT) {
		reg = scratch(d);
		asm_constant64(d->a, reg, (uint64_t)op->at);
	} else if (!register_is_live(d, op->reg)) {
		reg = scratch(d);
		register_emit(d, reg, op->reg, d->pushed);
	}
	if (op->kind == FETCH_REGISTER && op->at) {
		reg = to_scratch(d, reg);
		asm_shift_right(d->a, reg, (uint8_t)op->at);
	}
	if (arg->bit_width) {
		reg = to_scratch(d, reg);
		emit_bits(d->a, arg, reg);
	} else if (arg->size < WORD) {
		asm_extend(d->a, scratch(d), reg, arg->size, false);
		reg = scratch(d);
	}
	asm_store(d->a, ASM_64, ring_record_at(ring, to), reg);
}

static void emit_copy(const struct direct_code *d, const struct ring_code *ring, uint32_t from,
		      uint32_t to, uint32_t size)
{
	for (uint32_t i = 0; i < size; i += WORD) {
		asm_load(d->a, ASM_64, scratch(d), asm_at(ASM_RSP, from + i));
		asm_store(d->a, ASM_64, ring_record_at(ring, to + i), scratch(d));
	}
}

/* All of them, from behind the frame's other values to byte `to` of the record. */
static void emit_long_strings(const struct direct_code *d, const struct ring_code *ring,
			      const struct fetch_program *program, uint32_t to)
{
	static const enum asm_reg regs[] = {ASM_RSI, ASM_RDI, ASM_RCX};
	static const uint8_t rep_movsq[] = {0xf3, 0x48, 0xa5};
	enum { NR_REGS = sizeof(regs) / sizeof(regs[0]) };

	for (int i = 0; i < NR_REGS; i++)
		asm_push(d->a, regs[i]);
	asm_load(d->a, ASM_32, ASM_RCX, asm_at(ASM_RSP, NR_REGS * WORD + fetch_words_at(program)));
	asm_lea(d->a, ASM_RSI, asm_at(ASM_RSP, NR_REGS * WORD + program->bytes));
	asm_lea(d->a, ASM_RDI, ring_record_at(ring, to));
	asm_bytes(d->a, rep_movsq, sizeof(rep_movsq));
	for (int i = NR_REGS; i-- > 0;)
		asm_pop(d->a, regs[i]);
}

void fetch_emit_store(const struct direct_code *d, const struct ring_code *ring,
		      const struct fetch_program *program, uint32_t to)
{
	emit_copy(d, ring, 0, to, program->head);
	for (size_t i = 0; i < program->nr_args; i++) {
		const struct fetch_arg *arg = &program->args[i];
		const uint32_t at = fetch_place(program, arg);

		if (fetch_reads_memory(arg))
			emit_copy(d, ring, at, to + at, fetch_room(arg));
		else if (arg->ops[0].kind == FETCH_COMM)
			emit_comm(d, ring, to + at);
		else if (arg->ops[0].kind == FETCH_LITERAL)
			emit_literal(d, ring, arg, to + at);
		else
			emit_value(d, ring, arg, to + at);
	}
	if (program->nr_long_strings)
		emit_long_strings(d, ring, program, to + program->bytes);
}
