/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Zydis as a second opinion on trampolines for a kernel's addresses: which memory their
 * instructions name, and that they hold none but the instructions they need.
 */
#include <Zydis/Zydis.h>
#include <stdlib.h>
#include <string.h>
#include "introspect/guest/guest.h"
#include "patcher/probe/gate.h"
#include "patcher/trampoline/trampoline.h"
#include "tests/lib/tap.h"

enum { CPUS = 8, DATA = 65536 };

static const uint64_t rings = UINT64_C(0xffffffffb8000000),
		      saved_arrays = UINT64_C(0xffffffffb9000000);
static const struct trampoline_kernel kernel = {
	.cpu_number = 0x1f0a4,
	.current_task = -0x7e0ff000,
	.task_pid = 0x4f8,
	.task_comm = 0x6b8,
	.task_tgid = 0x4fc,
	.task_stack = 0x20,
	.stack_bytes = 16384,
	.cgroup_path = {0x8f8, 0x88, 0x60, 0x60},
	.page_offset = UINT64_C(0xffff888000000000),
	.vmemmap = UINT64_C(0xffffea0000000000),
	.pages = 0x40000,
	.page_size = 56,
	.page_compound_head = 8,
	.page_lowest_mask = INT32_MIN,
	.page_slab_cache = 24,
	.slab = {0x30, 0xff000000, 0xf5000000},
	.page_flags = 0,
	.page_order = 0x51,
	.page_head_bit = 16,
};

static const ZydisMnemonic expected[] = {
	ZYDIS_MNEMONIC_PUSHFQ, ZYDIS_MNEMONIC_STI,     ZYDIS_MNEMONIC_CLI,   ZYDIS_MNEMONIC_IMUL,
	ZYDIS_MNEMONIC_MOV,    ZYDIS_MNEMONIC_CMP,     ZYDIS_MNEMONIC_JNB,   ZYDIS_MNEMONIC_XADD,
	ZYDIS_MNEMONIC_AND,    ZYDIS_MNEMONIC_PUSH,    ZYDIS_MNEMONIC_POP,   ZYDIS_MNEMONIC_RDTSC,
	ZYDIS_MNEMONIC_JMP,    ZYDIS_MNEMONIC_RET,     ZYDIS_MNEMONIC_INT3,  ZYDIS_MNEMONIC_OUT,
	ZYDIS_MNEMONIC_INC,    ZYDIS_MNEMONIC_JZ,      ZYDIS_MNEMONIC_JNZ,   ZYDIS_MNEMONIC_JBE,
	ZYDIS_MNEMONIC_ADD,    ZYDIS_MNEMONIC_SHR,     ZYDIS_MNEMONIC_SHL,   ZYDIS_MNEMONIC_TEST,
	ZYDIS_MNEMONIC_LEA,    ZYDIS_MNEMONIC_NEG,     ZYDIS_MNEMONIC_MOVSQ, ZYDIS_MNEMONIC_SUB,
	ZYDIS_MNEMONIC_JB,     ZYDIS_MNEMONIC_CMPXCHG, ZYDIS_MNEMONIC_MOVZX, ZYDIS_MNEMONIC_MOVSX,
	ZYDIS_MNEMONIC_MOVSXD, ZYDIS_MNEMONIC_JNBE,    ZYDIS_MNEMONIC_JL,    ZYDIS_MNEMONIC_JNL,
	ZYDIS_MNEMONIC_JLE,    ZYDIS_MNEMONIC_JNLE,
};

static bool mnemonic_expected(ZydisMnemonic m)
{
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		if (expected[i] == m)
			return true;
	return false;
}

/* A field of this CPU's ring header, or of the record just reserved. */
static bool in_ring(const struct record_layout *layout, const ZydisDecodedOperand *o)
{
	uint64_t offset = (uint64_t)o->mem.disp.value - rings;

	if (o->mem.base != ZYDIS_REGISTER_R10)
		return false;
	if (o->mem.index == ZYDIS_REGISTER_NONE)
		return offset < sizeof(struct ring_header);
	/* With items, R11 moves on from the first one. */
	return o->mem.index == ZYDIS_REGISTER_R11 && o->mem.scale == 1 &&
	       offset - RING_HEADER_BYTES < layout->size + (layout->items ? 8 : 0);
}

static bool per_cpu(const ZydisDecodedOperand *o)
{
	return o->mem.segment == ZYDIS_REGISTER_GS && o->mem.base == ZYDIS_REGISTER_NONE &&
	       o->mem.index == ZYDIS_REGISTER_NONE &&
	       (o->mem.disp.value == kernel.cpu_number || o->mem.disp.value == kernel.current_task);
}

/* What the kernel's own pointers lead to, only ever read. */
static bool kernel_structure(const ZydisDecodedOperand *o)
{
	return !(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
	       (o->mem.base == ZYDIS_REGISTER_RAX || o->mem.base == ZYDIS_REGISTER_RCX ||
		(o->mem.base == ZYDIS_REGISTER_RSI && o->mem.index == ZYDIS_REGISTER_RCX &&
		 o->mem.scale == 1)) &&
	       o->mem.disp.value >= 0 && o->mem.disp.value < 4096;
}

/* The registers of a system call, only ever read: struct pt_regs, to which the parameter points. */
static bool in_registers(const ZydisDecodedOperand *o)
{
	return !(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
	       o->mem.base == ZYDIS_REGISTER_RDI && o->mem.index == ZYDIS_REGISTER_NONE &&
	       o->mem.disp.value >= 0 && o->mem.disp.value < 168;
}

/* An array, a structure with a count, or links, only ever read; RDX is the argument. */
static bool leads_to_items(const ZydisDecodedOperand *o)
{
	return !(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
	       o->mem.index == ZYDIS_REGISTER_NONE &&
	       (o->mem.base == ZYDIS_REGISTER_RBX || o->mem.base == ZYDIS_REGISTER_R14 ||
		o->mem.base == ZYDIS_REGISTER_RDX || o->mem.base == ZYDIS_REGISTER_RAX) &&
	       o->mem.disp.value > -4096 && o->mem.disp.value < 4096;
}

/* The last word of the stack that was copied up to its end, only ever read. */
static bool ends_stack(const ZydisDecodedOperand *o)
{
	return !(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
	       o->mem.base == ZYDIS_REGISTER_RSI && o->mem.index == ZYDIS_REGISTER_NONE &&
	       o->mem.disp.value == -(int64_t)sizeof(uint64_t);
}

/* A slot of the table of saved arrays. */
static bool in_table(const ZydisDecodedOperand *o)
{
	return o->mem.base == ZYDIS_REGISTER_R14 && o->mem.index == ZYDIS_REGISTER_NONE &&
	       (uint64_t)o->mem.disp.value - saved_arrays < sizeof(struct ring_saved_array);
}

static bool operand_good(const struct capture *c, const struct record_layout *layout,
			 const ZydisDecodedInstruction *z, const ZydisDecodedOperand *o)
{
	const uint32_t follows = CAPTURE(FIELD_SLAB_CACHE) | CAPTURE(FIELD_CHAIN) | CAPTURE_TASK;

	if (o->type != ZYDIS_OPERAND_TYPE_MEMORY || o->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
		return true;
	if (in_ring(layout, o) || per_cpu(o) || o->mem.base == ZYDIS_REGISTER_RSP)
		return true;
	if (z->mnemonic == ZYDIS_MNEMONIC_MOVSQ)
		return c->fields & (CAPTURE(FIELD_STACK) | CAPTURE(FIELD_CHAIN));
	if (ends_stack(o))
		return c->fields & (CAPTURE(FIELD_STACK) | CAPTURE(FIELD_CHAIN));
	if (in_table(o))
		return c->items.from == ITEMS_SAVED || c->items.from == ITEMS_RETURNED;
	if (c->items.from && leads_to_items(o))
		return true;
	return (c->fields & follows) && (kernel_structure(o) || in_registers(o));
}

/* Code that is to be judged. */
struct suspect {
	ZydisDecoder decoder;
	const struct capture *capture;
	const struct record_layout *layout;
	const uint8_t *bytes;
	size_t size;
	uint64_t gva, next;
};

static bool insn_good(const struct suspect *s, size_t at, size_t *size)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;

	if (ZYAN_FAILED(ZydisDecoderDecodeFull(&s->decoder, s->bytes + at, s->size - at, &z,
					       operands))) {
		tap_diag("no instruction at %zu", at);
		return false;
	}
	*size = z.length;
	if (!mnemonic_expected(z.mnemonic)) {
		tap_diag("at %zu: %s", at, ZydisMnemonicGetString(z.mnemonic));
		return false;
	}
	for (unsigned int i = 0; i < z.operand_count; i++)
		if (!operand_good(s->capture, s->layout, &z, &operands[i])) {
			tap_diag("at %zu: operand %u of %s", at, i,
				 ZydisMnemonicGetString(z.mnemonic));
			return false;
		}
	return true;
}

/* Whether interrupts come on again at one place only, the jump or return behind which is the last.
 */
static bool leaves_well(const struct suspect *s, size_t sti)
{
	const uint8_t *last = s->bytes + sti + 1;
	int32_t distance;

	memcpy(&distance, last + 1, sizeof(distance));
	return s->next ? last[0] == 0xe9 && s->gva + sti + 6 + (uint64_t)distance == s->next
		       : last[0] == 0xc3;
}

static bool code_good(struct suspect *s)
{
	size_t size = 0, stis = 0;

	ZydisDecoderInit(&s->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (size_t at = 0; at < s->size; at += size) {
		if (!insn_good(s, at, &size))
			return false;
		if (s->bytes[at] != 0xfb)
			continue;
		stis++;
		if (!leaves_well(s, at))
			return false;
	}
	return stis == 1 && s->bytes[1] == 0xfa;
}

static bool is_out(const uint8_t *bytes)
{
	return bytes[0] == 0xe6 && bytes[1] == GUEST_TRAP_PORT;
}

static bool good(const struct capture *capture, enum trampoline_full full, uint64_t next)
{
	struct trampoline_spec spec = {.gva = UINT64_C(0xffffffffb8200000),
				       .capture = *capture,
				       .id = RING_COMMITTED - 1,
				       .rings = {rings, DATA, CPUS, 0},
				       .saved_arrays = saved_arrays,
				       .kernel = &kernel,
				       .next = next,
				       .full = full};
	struct error err = {0};
	struct suspect suspect = {.capture = capture, .gva = spec.gva, .next = next};
	struct decoder *ours;
	struct trampoline t;

	if (decoder_create(&ours, NULL))
		abort();
	if (trampoline_generate(&spec, ours, &t, &err))
		tap_diag("%s", err.text);
	decoder_destroy(ours);
	suspect.layout = &t.layout;
	suspect.bytes = t.bytes;
	suspect.size = t.size;
	return !err.code && code_good(&suspect) && is_out(t.bytes + t.slow.trap);
}

/* Records in rings of two sizes. At a return the code goes to `next`, or returns if that is 0. */
static bool shared_good_at(enum probe_point point, uint64_t next, uint32_t fields, size_t n,
			   enum trampoline_full full, const struct gate *gate)
{
	const struct capture capture = {.point = point,
					.fields =
						CAPTURE(FIELD_PID) | CAPTURE(FIELD_COMM) |
						(fields & DIRECT_STACK ? CAPTURE(FIELD_STACK) : 0)};
	const struct record_layout layout = {.size = direct_layout(fields).size};
	struct direct_spec records[DIRECT_MAX_RECORDS];
	struct shared_spec spec = {.gva = UINT64_C(0xffffffffb8200000),
				   .records = records,
				   .nr_records = n,
				   .kernel = &kernel,
				   .point = point,
				   .next = next};
	struct suspect suspect = {
		.capture = &capture, .layout = &layout, .gva = spec.gva, .next = next};
	struct error err = {0};
	struct decoder *ours;
	struct shared_code code;

	for (size_t i = 0; i < n; i++)
		records[i] = (struct direct_spec){.id = (uint32_t)i,
						  .fields = fields,
						  .rings = {rings, DATA << (i & 1), CPUS, 0},
						  .full = full,
						  .gate = gate};
	if (decoder_create(&ours, NULL))
		abort();
	if (shared_generate(&spec, ours, &code, &err))
		tap_diag("%s", err.text);
	decoder_destroy(ours);
	suspect.bytes = code.bytes;
	suspect.size = code.size;
	for (size_t i = 0; i < n && !err.code; i++)
		if (!is_out(code.bytes + code.slow[i].trap))
			return false;
	return !err.code && code_good(&suspect);
}

static bool shared_good(uint32_t fields, size_t n, enum trampoline_full full,
			const struct gate *gate)
{
	return shared_good_at(POINT_ENTRY, 0, fields, n, full, gate);
}

static void test_shared_returns(void)
{
	const uint64_t thunk = UINT64_C(0xffffffffb8100000);
	bool all = true;

	for (uint32_t fields = 0; fields <= DIRECT_RETURN_FIELDS; fields += 2)
		for (size_t n = 1; n <= 3 && !(fields & ~DIRECT_RETURN_FIELDS); n++)
			all &= shared_good_at(POINT_RETURN, 0, fields, n, TRAMPOLINE_BLOCK, NULL) &&
			       shared_good_at(POINT_RETURN, thunk, fields, n, TRAMPOLINE_DROP,
					      NULL);
	ok(all, "so has that of returns");
}

static void test_shared(void)
{
	bool all = true;

	for (uint32_t fields = 0; fields <= DIRECT_ENTRY_FIELDS; fields++)
		for (size_t n = 1; n <= 3 && !(fields & ~DIRECT_ENTRY_FIELDS); n++)
			all &= shared_good(fields, n, TRAMPOLINE_BLOCK, NULL) &&
			       shared_good(fields, n, TRAMPOLINE_DROP, NULL);
	ok(all, "shared code has only the operands and instructions that it needs");
}

/* Each source with constants of each form. */
static struct gate make_gate(enum gate_op op, uint64_t mask, bool is_signed)
{
	static const uint64_t values[] = {0, 0x1000, UINT64_C(0x123456789abc)};
	struct gate gate = {0};

	for (int source = 0; source < GATE_SOURCES; source++)
		for (unsigned int i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			struct gate_term term = gate_term(source, op, values[i]);
			unsigned int before = gate.n;

			if (source == GATE_RESULT) /* of returns */
				continue;
			term.mask = mask;
			if (source <= GATE_ARG5) {
				term.size = (uint8_t)(1 << (source & 3));
				term.is_signed = is_signed;
			}
			if (gate_append(&gate, term, NULL))
				abort();
			gate_or(&gate, 0, before);
		}
	return gate;
}

static void test_gates(void)
{
	const uint64_t masks[] = {UINT64_MAX, 0xc00, UINT64_C(0xff00000000)};
	bool all = true;

	for (enum gate_op op = GATE_EQ; op <= GATE_GE; op++)
		for (unsigned int i = 0; i < 6; i++) {
			const struct gate gate = make_gate(op, masks[i / 2], i & 1);

			all &= shared_good(0, 1, TRAMPOLINE_BLOCK, &gate);
		}
	ok(all, "gates have only the operands and instructions that they need");
}

static void test_kind(enum probe_point point, uint32_t fields, const char *name)
{
	const uint64_t thunk = UINT64_C(0xffffffff82000000);
	bool all = true;

	for (unsigned int f = 0; f <= FIELD_COUNT && all; f++) {
		uint32_t some = f == FIELD_COUNT ? fields : fields & CAPTURE(f);
		struct capture capture = {
			.point = point, .fields = some, .stack_words = CAPTURE_MAX_STACK};

		capture_fit_chain(&capture);
		all = good(&capture, TRAMPOLINE_BLOCK, thunk) &&
		      good(&capture, TRAMPOLINE_DROP, point == POINT_RETURN ? 0 : thunk);
	}
	ok(all, "%s: a trampoline has only the operands and instructions that it needs", name);
}

static void test_items(uint32_t fields)
{
	const struct capture_items all[] = {
		{.from = ITEMS_ARRAY, .pointer = 2, .count = 5, .count_size = 4},
		{.from = ITEMS_ARRAY, .pointer = 2, .count = 1, .page_orders = true},
		{.from = ITEMS_COUNTED, .pointer = 2, .count_size = 1, .words_offset = 8},
		{.from = ITEMS_COUNTED, .pointer = 2, .count_size = 4, .count_offset = -12},
		{.from = ITEMS_LISTED, .pointer = 2, .link = 8, .page_orders = true},
		{.from = ITEMS_SAVED, .pointer = 2, .count = 4, .skip_filled = true},
		{.from = ITEMS_SAVED, .pointer = 3, .count = 2, .all_or_none = true},
	};
	const uint64_t next = UINT64_C(0xffffffff82000000);
	bool none_wrong = true;

	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct capture capture = {
			.point = POINT_ENTRY, .fields = fields, .stack_words = 16, .items = all[i]};

		if (all[i].from == ITEMS_COUNTED)
			capture.fields |= CAPTURE(FIELD_OWNER);
		capture_fit_chain(&capture);
		none_wrong &= good(&capture, TRAMPOLINE_BLOCK, next) &&
			      good(&capture, TRAMPOLINE_DROP, next);
	}
	none_wrong &=
		good(&(struct capture){.point = POINT_RETURN,
				       .fields = CAPTURE(FIELD_SAVED) | CAPTURE(FIELD_SLAB_CACHE),
				       .items = {.from = ITEMS_RETURNED}},
		     TRAMPOLINE_BLOCK, next);
	ok(none_wrong,
	   "a trampoline with items has only the operands and instructions that it needs");
}

int main(void)
{
	uint32_t all = (CAPTURE(FIELD_COUNT) - 1) & ~(CAPTURE(FIELD_SAVED) | CAPTURE(FIELD_OWNER));

	test_kind(POINT_ENTRY, all & ~(CAPTURE(FIELD_RESULT) | CAPTURE(FIELD_SLAB_CACHE)), "entry");
	test_items(all & ~(CAPTURE(FIELD_RESULT) | CAPTURE(FIELD_SLAB_CACHE)));
	test_shared();
	test_shared_returns();
	test_gates();
	test_kind(POINT_RETURN, all & ~(0x3fu << FIELD_ARG0), "return");
	return tap_done();
}
