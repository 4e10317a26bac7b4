/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trampoline/trampoline.h"

#include <errno.h>
#include <string.h>
#include "patcher/trampoline/code.h"
#include "patcher/probe/gate.h"

static void emit_reserve(struct trampoline_code *c)
{
	ring_emit_check(&c->ring);
	if (c->out->layout.items)
		trampoline_items_size(c, ASM_R11);
	else
		asm_constant32(&c->a, ASM_R11, c->out->layout.size);
	ring_emit_reserve(&c->ring);
}

static void emit_slow(struct trampoline_code *c)
{
	ring_emit_full(&c->ring);
	if (c->out->layout.items)
		trampoline_items_lost(c);
	else
		ring_emit_lost(&c->ring);
	asm_jump(&c->a, &c->ring.skip);
}

static void emit_gate(struct trampoline_code *c, struct asm_label *refused)
{
	const struct gate_code code = {.a = &c->a,
				       .kernel = c->spec->kernel,
				       .scratch = trampoline_scratch(c),
				       .caller_at = c->pushed + RECORD_KEY_BIAS,
				       .point = c->spec->capture.point};

	if (c->spec->gate)
		gate_emit(&code, c->spec->gate, refused);
}

static void emit_pid_gate(struct trampoline_code *c, struct asm_label *refused)
{
	struct assembler *a = &c->a;

	if (!c->spec->pids)
		return;
	code_load_task_word(a, ASM_32, ASM_R11, c->spec->kernel, c->spec->kernel->task_pid);
	asm_alu(a, ASM_32, ASM_AND, ASM_R11, PID_GATE_BUCKETS - 1);
	asm_compare_byte(a, asm_at(ASM_R11, (uint32_t)c->spec->pids), 0);
	asm_jump_if(a, ASM_E, refused);
}

static int emit(struct trampoline_code *c, struct error *err)
{
	bool items = c->out->layout.items;
	struct asm_label refused = {0};

	if (c->spec->epilogue)
		asm_bytes(&c->a, c->spec->epilogue->bytes, c->spec->epilogue->size);
	code_enter(&c->a, c->spec->unprivileged);
	registers_push(&c->extra);
	ring_emit_distance(&c->ring, c->spec->kernel);
	emit_gate(c, &refused);
	emit_pid_gate(c, &refused);
	if (c->spec->capture.items.from == ITEMS_SAVED)
		trampoline_save_array(c);
	if (items)
		trampoline_items_begin(c);
	emit_reserve(c);
	ring_emit_clock(&c->ring);
	trampoline_emit_fields(c);
	if (items) {
		trampoline_items_copy(c);
		trampoline_items_count(c);
	}
	ring_emit_commit(&c->ring, c->spec->id);
	ring_emit_skip(&c->ring);
	if (items)
		trampoline_items_next(c);
	asm_bind(&c->a, &refused);
	direct_emit(&c->extra);
	registers_drop(&c->extra);
	code_leave(&c->a, c->spec->next, c->spec->unprivileged);
	direct_emit_slow(&c->extra);
	emit_slow(c);
	c->out->size = (uint16_t)c->a.size;
	return assembler_finish(&c->a, err);
}

static struct ring_code ring_code(struct trampoline_code *c)
{
	const struct trampoline_spec *spec = c->spec;

	return (struct ring_code){.a = &c->a,
				  .rings = &spec->rings,
				  .when_full = spec->full,
				  .keep_rax = spec->capture.point == POINT_RETURN,
				  .keep_rdx = trampoline_holds_argument(spec, 2),
				  .out = &c->out->slow};
}

/* What follows the entry's site is what extra records name. */
static struct direct_code extra_code(struct trampoline_code *c)
{
	const struct trampoline_spec *spec = c->spec;

	return (struct direct_code){.a = &c->a,
				    .point = spec->capture.point,
				    .kernel = spec->kernel,
				    .records = spec->extra,
				    .n = spec->nr_extra,
				    .ip = spec->next,
				    .caller_at = RECORD_KEY_BIAS,
				    .keep_rdx = trampoline_holds_argument(spec, 2),
				    .stride = ring_stride(spec->rings.data_bytes),
				    .slow = c->out->extra};
}

/* Those that the record of its own is made with. */
static uint32_t changed_registers(const struct trampoline_spec *spec)
{
	uint32_t changed = 1 << ASM_RAX | 1 << ASM_R10 | 1 << ASM_R11;

	if (spec->capture.point == POINT_RETURN)
		return 1 << ASM_RDX;
	for (unsigned int i = 0; i < CAPTURE_ARGUMENTS; i++)
		if (!trampoline_holds_argument(spec, i))
			changed |= 1u << trampoline_argument(i);
	return changed;
}

static int check_extra(const struct trampoline_spec *spec, struct error *err)
{
	if (!spec->nr_extra)
		return 0;
	if (spec->capture.point == POINT_ENTRY && !spec->next)
		return error_set(err, EINVAL, "direct records of an entry without a site");
	return direct_check(spec->extra, spec->nr_extra, spec->capture.point, spec->kernel, err);
}

/* What a gate reads must be what it is at the function's entry, or the same at its return. */
static int check_gate(const struct trampoline_spec *spec, struct error *err)
{
	uint32_t allowed = gate_call_sources;
	int ret;

	if (!spec->gate)
		return 0;
	ret = gate_check(spec->gate, err);
	if (ret)
		return ret;
	if (spec->capture.point == POINT_ENTRY) {
		allowed |= gate_source_bit(GATE_VCPU) | gate_source_bit(GATE_CALL_SITE) |
			   gate_source_bit(GATE_CGROUP);
		for (unsigned int i = 0; i < CAPTURE_ARGUMENTS; i++)
			if (trampoline_holds_argument(spec, i))
				allowed |= gate_source_bit(GATE_ARG0 + i);
	}
	if (gate_sources(spec->gate) & ~allowed)
		return error_set(err, EINVAL, "a gate asks for what its point does not have");
	return 0;
}

int trampoline_generate(const struct trampoline_spec *spec, struct decoder *decoder,
			struct trampoline *out, struct error *err)
{
	struct trampoline_code code = {.spec = spec, .out = out};
	struct code_region region;
	int ret = ring_code_check(&spec->rings, err);

	if (ret)
		return ret;
	memset(out, 0, sizeof(*out));
	ret = record_layout(&spec->capture, &out->layout, err);
	if (!ret)
		ret = trampoline_check_kernel(spec, err);
	if (!ret)
		ret = check_extra(spec, err);
	if (!ret)
		ret = check_gate(spec, err);
	if (!ret && (int64_t)spec->pids != (int32_t)spec->pids)
		ret = error_set_at(err, ERANGE, spec->pids,
				   "pids lie where code cannot address them");
	if (ret)
		return ret;
	assembler_init(&code.a, out->bytes, sizeof(out->bytes), spec->gva);
	code.ring = ring_code(&code);
	code.extra = extra_code(&code);
	registers_choose(&code.extra, changed_registers(spec));
	code.pushed = code.extra.pushed;
	ret = emit(&code, err);
	if (ret)
		return ret;
	region = (struct code_region){.bytes = out->bytes,
				      .size = out->size,
				      .gva = spec->gva,
				      .next = spec->next,
				      .records = spec->extra,
				      .nr_records = spec->nr_extra};
	ret = code_check(&region, &out->slow, 1, decoder, err);
	return ret ? ret : code_check(&region, out->extra, spec->nr_extra, decoder, err);
}
