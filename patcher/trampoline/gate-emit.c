/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A gate as code. */
#include "patcher/trampoline/code.h"
#include "patcher/probe/gate.h"

/* What a term finds in the scratch register, which depends on the terms before it. */
enum scratch_state {
	SCRATCH_UNREACHED,
	SCRATCH_TASK,
	SCRATCH_STACK, /* its lowest address */
	SCRATCH_CGROUP,
	SCRATCH_OTHER
};

struct emitter {
	const struct gate_code *code;
	struct assembler *a;
	const struct gate *gate;
	struct asm_label labels[GATE_MAX_TERMS], yes, *no;
	uint8_t ways[GATE_MAX_TERMS]; /* how many lead to a term */
	enum scratch_state scratch[GATE_MAX_TERMS];
};

/* Where a source is found: in a register, or in memory. */
struct operand {
	bool in_memory;
	enum asm_reg reg;
	struct asm_mem mem;
	enum asm_width width;
};

/* Records in front may have changed the register. */
static void take_argument(const struct gate_code *c, unsigned int number, struct operand *o)
{
	const int32_t saved = c->saves ? direct_saved_at(c->saves, trampoline_argument(number)) : 0;

	o->in_memory = saved;
	o->reg = trampoline_argument(number);
	if (saved)
		o->mem = asm_at(ASM_RSP, c->saves->pushed + (uint32_t)saved);
}

/* At a return no register points there. */
static struct asm_mem syscall_at(const struct gate_code *c, enum gate_source source)
{
	const uint32_t place = gate_syscall_place(source);

	return c->point == POINT_RETURN ? asm_at(c->scratch, c->kernel->user_regs + place)
					: asm_at(ASM_RDI, place);
}

static struct operand operand_of(const struct emitter *e, const struct gate_term *t)
{
	const struct gate_code *c = e->code;
	struct operand o = {.in_memory = true, .width = t->size == 8 ? ASM_64 : ASM_32};

	switch (t->source) {
	case GATE_PID:
		o.mem = asm_at(c->scratch, c->kernel->task_pid);
		break;
	case GATE_TGID:
		o.mem = asm_at(c->scratch, c->kernel->task_tgid);
		break;
	case GATE_CGROUP:
		o.in_memory = false;
		o.reg = c->scratch;
		break;
	case GATE_VCPU:
		o.mem = (struct asm_mem){ASM_NO_REG, ASM_NO_REG, c->kernel->cpu_number, true};
		break;
	case GATE_CALL_SITE:
		o.mem = asm_at(ASM_RSP, c->caller_at);
		break;
	case GATE_RESULT:
		o.in_memory = false;
		o.reg = ASM_RAX;
		break;
	default:
		if (t->source >= GATE_SYSCALL) {
			o.mem = syscall_at(c, t->source);
			break;
		}
		take_argument(c, t->source - GATE_ARG0, &o);
	}
	return o;
}

static bool sign_extends(uint64_t value)
{
	return value == (uint64_t)(int64_t)(int32_t)value;
}

/* Whether an instruction can have the value as its constant, for values of 32 bits or 64. */
static bool is_immediate(const struct gate_term *t)
{
	if (t->size == 4 && !t->is_signed)
		return t->value <= UINT32_MAX;
	return sign_extends(t->value);
}

/* (x & mask) == 0, or !=. */
static bool is_test(const struct gate_term *t)
{
	return t->mask != UINT64_MAX && !t->value && (t->op == GATE_EQ || t->op == GATE_NE);
}

static void emit_load(const struct emitter *e, const struct gate_term *t, const struct operand *o)
{
	enum asm_reg to = e->code->scratch;

	if (!o->in_memory)
		asm_extend(e->a, to, o->reg, t->size, t->is_signed);
	else if (t->size == 4 && t->is_signed)
		asm_load_signed(e->a, to, o->mem);
	else
		asm_load(e->a, o->width, to, o->mem);
}

/* Through the scratch register, for whatever no single instruction compares. */
static void emit_general(const struct emitter *e, const struct gate_term *t,
			 const struct operand *o)
{
	enum asm_reg x = e->code->scratch;

	emit_load(e, t, o);
	if (t->mask != UINT64_MAX) {
		asm_constant64(e->a, ASM_R11, t->mask);
		asm_and(e->a, x, ASM_R11);
	}
	if (sign_extends(t->value)) {
		asm_alu(e->a, ASM_64, ASM_CMP, x, (int32_t)t->value);
	} else {
		asm_constant64(e->a, ASM_R11, t->value);
		asm_compare(e->a, x, ASM_R11);
	}
}

static void emit_constant(const struct emitter *e, const struct gate_term *t,
			  const struct operand *o)
{
	if (o->in_memory)
		asm_compare_mem_constant(e->a, o->width, o->mem, (int32_t)t->value);
	else
		asm_alu(e->a, o->width, ASM_CMP, o->reg, (int32_t)t->value);
}

static void emit_test(const struct emitter *e, const struct gate_term *t, const struct operand *o)
{
	if (o->in_memory)
		asm_test_mem_bits(e->a, o->mem, (uint32_t)t->mask);
	else
		asm_test_bits(e->a, o->reg, (uint32_t)t->mask);
}

/* The flags. Whether the scratch register has another content now. */
static bool emit_compare(const struct emitter *e, const struct gate_term *t)
{
	struct operand o = operand_of(e, t);

	if (t->size >= 4 && is_test(t) && t->mask <= UINT32_MAX) {
		emit_test(e, t, &o);
	} else if (t->size >= 4 && t->mask == UINT64_MAX && is_immediate(t)) {
		emit_constant(e, t, &o);
	} else if (t->size == 8 && t->mask == UINT64_MAX && !o.in_memory) {
		asm_constant64(e->a, ASM_R11, t->value);
		asm_compare(e->a, o.reg, ASM_R11);
	} else {
		emit_general(e, t, &o);
		return true;
	}
	return false;
}

static enum asm_condition condition_of(const struct gate_term *t)
{
	static const enum asm_condition conditions[][2] = {
		[GATE_EQ] = {ASM_E, ASM_E}, [GATE_NE] = {ASM_NE, ASM_NE},
		[GATE_LT] = {ASM_B, ASM_L}, [GATE_LE] = {ASM_BE, ASM_LE},
		[GATE_GT] = {ASM_A, ASM_G}, [GATE_GE] = {ASM_AE, ASM_GE},
	};

	return conditions[t->op][t->is_signed];
}

/* NULL: the code behind term `from`. */
static struct asm_label *label_of(struct emitter *e, unsigned int from, uint8_t target)
{
	unsigned int next = from + 1;

	if (target == GATE_NO)
		return e->no;
	if (target == GATE_YES)
		return next == e->gate->n ? NULL : &e->yes;
	return target == next ? NULL : &e->labels[target];
}

/* Of two jumps the one that says no comes first. */
static void emit_jumps(struct emitter *e, unsigned int i)
{
	const struct gate_term *t = &e->gate->terms[i];
	struct asm_label *yes = label_of(e, i, t->yes), *no = label_of(e, i, t->no);
	enum asm_condition condition = condition_of(t), opposite = condition ^ 1;

	if (no && t->no != t->yes)
		asm_jump_if(e->a, opposite, no);
	if (!yes)
		return;
	if (no || t->no == t->yes)
		asm_jump(e->a, yes);
	else
		asm_jump_if(e->a, condition, yes);
}

/* The term before has compared the same, and only it leads here. */
static bool flags_known(const struct emitter *e, unsigned int i)
{
	const struct gate_term *t = &e->gate->terms[i], *before = t - 1;

	return i && e->ways[i] == 1 && (before->yes == i || before->no == i) &&
	       t->source == before->source && t->size == before->size &&
	       t->is_signed == before->is_signed && t->mask == before->mask &&
	       t->value == before->value && is_test(t) == is_test(before);
}

static void reach(struct emitter *e, uint8_t target, enum scratch_state state)
{
	if (target == GATE_YES || target == GATE_NO)
		return;
	if (e->scratch[target] == SCRATCH_UNREACHED)
		e->scratch[target] = state;
	else if (e->scratch[target] != state)
		e->scratch[target] = SCRATCH_OTHER;
}

/* What the source is found by. */
static enum scratch_state load_scratch(const struct emitter *e, enum gate_source source,
				       enum scratch_state now)
{
	const struct gate_code *c = e->code;

	if (source == GATE_CGROUP) {
		if (now != SCRATCH_CGROUP)
			code_load_cgroup(e->a, c->scratch, c->kernel);
		return SCRATCH_CGROUP;
	}
	if (source >= GATE_SYSCALL && c->point == POINT_RETURN) {
		if (now != SCRATCH_STACK)
			code_load_task_word(e->a, ASM_64, c->scratch, c->kernel,
					    c->kernel->task_stack);
		return SCRATCH_STACK;
	}
	if (source != GATE_PID && source != GATE_TGID)
		return now;
	if (now != SCRATCH_TASK)
		code_load_task(e->a, c->scratch, c->kernel);
	return SCRATCH_TASK;
}

static void emit_term(struct emitter *e, unsigned int i)
{
	const struct gate_term *t = &e->gate->terms[i];
	enum scratch_state scratch = e->scratch[i];

	if (!flags_known(e, i)) {
		scratch = load_scratch(e, t->source, scratch);
		if (emit_compare(e, t))
			scratch = SCRATCH_OTHER;
	}
	reach(e, t->yes, scratch);
	reach(e, t->no, scratch);
	emit_jumps(e, i);
}

static void count_ways(struct emitter *e)
{
	for (unsigned int i = 0; i < e->gate->n; i++) {
		const struct gate_term *t = &e->gate->terms[i];

		if (t->yes < GATE_MAX_TERMS)
			e->ways[t->yes]++;
		if (t->no < GATE_MAX_TERMS && t->no != t->yes)
			e->ways[t->no]++;
	}
}

void gate_emit(const struct gate_code *code, const struct gate *gate, struct asm_label *no)
{
	struct emitter e = {.code = code, .a = code->a, .gate = gate, .no = no};

	count_ways(&e);
	e.scratch[0] = SCRATCH_OTHER;
	for (unsigned int i = 0; i < gate->n; i++) {
		asm_bind(e.a, &e.labels[i]);
		emit_term(&e, i);
	}
	asm_bind(e.a, &e.yes);
}
