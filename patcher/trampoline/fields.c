/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts that fill in a reserved record. */
#include "patcher/trampoline/code.h"

#include <errno.h>

enum {
	PAGE_SHIFT = 12,
	PAGE_BYTES = 1 << PAGE_SHIFT,
	LAST_WORD = PAGE_BYTES - 8,
	RETURN_ADDRESS = RECORD_KEY_BIAS,
	CGROUP_STEPS = sizeof(((struct trampoline_kernel *)0)->cgroup_path) / sizeof(uint32_t)
};

void trampoline_push(struct trampoline_code *c, enum asm_reg reg)
{
	asm_push(&c->a, reg);
	c->pushed += 8;
}

void trampoline_pop(struct trampoline_code *c, enum asm_reg reg)
{
	asm_pop(&c->a, reg);
	c->pushed -= 8;
}

enum asm_reg trampoline_argument(unsigned int number)
{
	static const enum asm_reg regs[CAPTURE_ARGUMENTS] = {ASM_RDI, ASM_RSI, ASM_RDX,
							     ASM_RCX, ASM_R8,  ASM_R9};

	return regs[number];
}

static bool wanted(const struct trampoline_spec *spec, enum record_field field)
{
	return spec->capture.fields & CAPTURE(field);
}

static struct asm_mem field_at(const struct trampoline_code *c, enum record_field field)
{
	return ring_record_at(&c->ring, c->out->layout.offset[field]);
}

bool trampoline_holds_argument(const struct trampoline_spec *spec, unsigned int number)
{
	uint8_t parameters = spec->capture.parameters;

	return spec->capture.point == POINT_ENTRY && (!parameters || number < parameters);
}

enum asm_reg trampoline_scratch(const struct trampoline_code *c)
{
	return c->spec->capture.point == POINT_ENTRY ? ASM_RAX : ASM_RCX;
}

/* The table of saved arrays is addressed as disp32(%r14), sign-extended. */
static int check_saved_arrays(const struct trampoline_spec *spec, struct error *err)
{
	enum capture_items_from from = spec->capture.items.from;
	uint64_t gva = spec->saved_arrays,
		 size = RING_SAVED_SLOTS * sizeof(struct ring_saved_array);

	if (from != ITEMS_SAVED && from != ITEMS_RETURNED)
		return 0;
	if (!gva || (int64_t)gva != (int32_t)gva || gva >> 63 != (gva + size - 1) >> 63 ||
	    gva % sizeof(uint64_t))
		return error_set_at(err, ERANGE, gva, "no place for the table of saved arrays");
	return 0;
}

uint32_t code_task_offsets(const struct trampoline_kernel *k)
{
	uint32_t all = k->task_pid | k->task_tgid | k->task_comm | k->task_stack | k->stack_bytes |
		       k->user_regs;

	for (unsigned int i = 0; i < CGROUP_STEPS; i++)
		all |= k->cgroup_path[i];
	return all;
}

int trampoline_check_kernel(const struct trampoline_spec *spec, struct error *err)
{
	const struct trampoline_kernel *k = spec->kernel;
	uint32_t largest = code_task_offsets(k) | k->page_compound_head | k->page_slab_cache |
			   k->slab.offset | k->page_flags | k->page_order;

	if (largest > INT32_MAX - CAPTURE_COMM_SIZE)
		return error_set(err, EINVAL, "an offset in a kernel structure is too large: %#x",
				 largest);
	if (k->page_head_bit > 31)
		return error_set(err, EINVAL, "bit %u of page flags cannot be tested",
				 k->page_head_bit);
	if (wanted(spec, FIELD_SLAB_CACHE) && (!k->pages || k->pages > INT32_MAX))
		return error_set(err, ERANGE, "a direct map of %#llx pages cannot be checked",
				 (unsigned long long)k->pages);
	return check_saved_arrays(spec, err);
}

static void emit_registers(struct trampoline_code *c)
{
	for (unsigned int i = 0; i < CAPTURE_ARGUMENTS; i++)
		if (wanted(c->spec, FIELD_ARG0 + i))
			asm_store(&c->a, ASM_64, field_at(c, FIELD_ARG0 + i),
				  trampoline_argument(i));
	if (wanted(c->spec, FIELD_RESULT))
		asm_store(&c->a, ASM_64, field_at(c, FIELD_RESULT), ASM_RAX);
	if (wanted(c->spec, FIELD_SAVED))
		asm_store(&c->a, ASM_64, field_at(c, FIELD_SAVED), c->saved);
}

/* Where the flags lie. */
static void emit_key(struct trampoline_code *c)
{
	if (!c->pushed) {
		asm_store(&c->a, ASM_64, field_at(c, FIELD_KEY), ASM_RSP);
		return;
	}
	asm_lea(&c->a, trampoline_scratch(c), asm_at(ASM_RSP, c->pushed));
	asm_store(&c->a, ASM_64, field_at(c, FIELD_KEY), trampoline_scratch(c));
}

static void emit_call_site(struct trampoline_code *c)
{
	asm_load(&c->a, ASM_64, trampoline_scratch(c), asm_at(ASM_RSP, c->pushed + RETURN_ADDRESS));
	asm_store(&c->a, ASM_64, field_at(c, FIELD_CALL_SITE), trampoline_scratch(c));
}

static void emit_owner(struct trampoline_code *c)
{
	const struct capture_items *i = &c->spec->capture.items;

	asm_load(&c->a, ASM_64, trampoline_scratch(c),
		 asm_at(trampoline_argument(i->pointer), (uint32_t)i->owner_offset));
	asm_store(&c->a, ASM_64, field_at(c, FIELD_OWNER), trampoline_scratch(c));
}

void code_load_task(struct assembler *a, enum asm_reg reg, const struct trampoline_kernel *kernel)
{
	asm_load(a, ASM_64, reg,
		 (struct asm_mem){ASM_NO_REG, ASM_NO_REG, kernel->current_task, true});
}

void code_load_task_word(struct assembler *a, enum asm_width width, enum asm_reg reg,
			 const struct trampoline_kernel *kernel, uint32_t offset)
{
	code_load_task(a, reg, kernel);
	asm_load(a, width, reg, asm_at(reg, offset));
}

void code_load_cgroup(struct assembler *a, enum asm_reg reg, const struct trampoline_kernel *kernel)
{
	struct asm_label done = {0};

	code_load_task(a, reg, kernel);
	for (unsigned int i = 0; i < CGROUP_STEPS; i++) {
		asm_load(a, ASM_64, reg, asm_at(reg, kernel->cgroup_path[i]));
		if (i + 1 == CGROUP_STEPS)
			break;
		asm_alu(a, ASM_64, ASM_CMP, reg, 0);
		asm_jump_if(a, ASM_E, &done);
	}
	asm_bind(a, &done);
}

/* One register is free: the task is looked up for each word. */
static void emit_task_word(struct trampoline_code *c, enum asm_width width, uint32_t offset,
			   struct asm_mem to)
{
	code_load_task_word(&c->a, width, trampoline_scratch(c), c->spec->kernel, offset);
	asm_store(&c->a, ASM_64, to, trampoline_scratch(c));
}

static void emit_comm(struct trampoline_code *c)
{
	for (uint32_t i = 0; i < CAPTURE_COMM_SIZE; i += 8) {
		struct asm_mem to = field_at(c, FIELD_COMM);

		to.disp += (int32_t)i;
		emit_task_word(c, ASM_64, c->spec->kernel->task_comm + i, to);
	}
}

/* Of the struct page that emit_page() and emit_head_page() find. */
static struct asm_mem page_at(uint32_t offset)
{
	return (struct asm_mem){ASM_RSI, ASM_RCX, (int32_t)offset, false};
}

/*
 * RSI + RCX = the struct page of the object in RAX. What no slab allocates (NULL, an error, vmalloc
 * space) is not in the direct map: the code jumps to `none` before it reads anything.
 */
static void emit_page(struct trampoline_code *c, struct asm_label *none)
{
	const struct trampoline_kernel *k = c->spec->kernel;

	asm_constant64(&c->a, ASM_RCX, -k->page_offset);
	asm_add(&c->a, ASM_RCX, ASM_RAX);
	asm_shift_right(&c->a, ASM_RCX, PAGE_SHIFT);
	asm_alu(&c->a, ASM_64, ASM_CMP, ASM_RCX, (int32_t)k->pages);
	asm_jump_if(&c->a, ASM_AE, none);
	asm_multiply_long(&c->a, ASM_RCX, ASM_RCX, (int32_t)k->page_size);
	asm_constant64(&c->a, ASM_RSI, k->vmemmap);
}

/* A tail page's compound_head is its head's address plus one, or a mask that leads to the head.
 * Changes RDI, which no caller of a function that returns relies on. */
static void emit_head_page(struct trampoline_code *c)
{
	struct asm_label head = {0}, address = {0}, found = {0};

	asm_load(&c->a, ASM_64, ASM_RDI, page_at(c->spec->kernel->page_compound_head));
	asm_test_bits(&c->a, ASM_RDI, 1);
	asm_jump_if(&c->a, ASM_E, &head);
	if (c->spec->kernel->page_lowest_mask) {
		asm_alu(&c->a, ASM_64, ASM_CMP, ASM_RDI, c->spec->kernel->page_lowest_mask);
		asm_jump_if(&c->a, ASM_B, &address);
		asm_add(&c->a, ASM_RSI, ASM_RCX);
		asm_and(&c->a, ASM_RSI, ASM_RDI);
		asm_jump(&c->a, &found);
	}
	asm_bind(&c->a, &address);
	asm_lea(&c->a, ASM_RSI, asm_at(ASM_RDI, (uint32_t)-1));
	asm_bind(&c->a, &found);
	asm_constant32(&c->a, ASM_RCX, 0);
	asm_bind(&c->a, &head);
}

/* Go to `none` if the page is no slab: by a bit, a byte, or any other bits. */
static void emit_slab_test(struct trampoline_code *c, struct asm_label *none)
{
	const struct slab_test *slab = &c->spec->kernel->slab;
	unsigned int shift;

	if (!(slab->mask & (slab->mask - 1))) {
		asm_test_mem_bits(&c->a, page_at(slab->offset), slab->mask);
		asm_jump_if(&c->a, slab->value ? ASM_E : ASM_NE, none);
		return;
	}
	shift = (unsigned int)__builtin_ctz(slab->mask);
	if (slab->mask >> shift == UINT8_MAX && shift % 8 == 0) {
		asm_compare_byte(&c->a, page_at(slab->offset + shift / 8),
				 (uint8_t)(slab->value >> shift));
	} else {
		asm_load(&c->a, ASM_32, ASM_RDI, page_at(slab->offset));
		asm_alu(&c->a, ASM_32, ASM_AND, ASM_RDI, (int32_t)slab->mask);
		asm_alu(&c->a, ASM_32, ASM_CMP, ASM_RDI, (int32_t)slab->value);
	}
	asm_jump_if(&c->a, ASM_NE, none);
}

static void emit_slab_cache(struct trampoline_code *c)
{
	struct asm_label none = {0};

	emit_page(c, &none);
	emit_head_page(c);
	emit_slab_test(c, &none);
	asm_load(&c->a, ASM_64, ASM_RCX, page_at(c->spec->kernel->page_slab_cache));
	asm_store(&c->a, ASM_64, field_at(c, FIELD_SLAB_CACHE), ASM_RCX);
	asm_bind(&c->a, &none);
}

/* Copy up to the end of the page at most: what lies above a stack may not be mapped. That is
 * the page of the return address, which may be its last word. */
static void emit_stack_copy(struct trampoline_code *c)
{
	static const uint8_t rep_movsq[] = {0xf3, 0x48, 0xa5};
	const int32_t words = c->spec->capture.stack_words;
	struct asm_label fits = {0}, copy = {0};

	asm_lea(&c->a, ASM_RSI, asm_at(ASM_RSP, c->pushed + RETURN_ADDRESS + 8));
	asm_lea(&c->a, ASM_RDI, field_at(c, FIELD_STACK));
	asm_lea(&c->a, ASM_RCX, asm_at(ASM_RSP, c->pushed + RETURN_ADDRESS));
	asm_alu(&c->a, ASM_32, ASM_AND, ASM_RCX, PAGE_BYTES - 1);
	asm_alu(&c->a, ASM_32, ASM_CMP, ASM_RCX, LAST_WORD - 8 * words);
	asm_jump_if(&c->a, ASM_BE, &fits);
	asm_negate(&c->a, ASM_RCX);
	asm_alu(&c->a, ASM_32, ASM_ADD, ASM_RCX, LAST_WORD);
	asm_shift_right(&c->a, ASM_RCX, 3);
	asm_jump(&c->a, &copy);
	asm_bind(&c->a, &fits);
	asm_constant32(&c->a, ASM_RCX, (uint32_t)words);
	asm_bind(&c->a, &copy);
	asm_bytes(&c->a, rep_movsq, sizeof(rep_movsq));
}

static void emit_stack(struct trampoline_code *c)
{
	static const unsigned int arguments[] = {0, 1, 3}; /* RDI, RSI, RCX */
	enum { COUNT = sizeof(arguments) / sizeof(arguments[0]) };

	for (int i = 0; i < COUNT; i++)
		if (trampoline_holds_argument(c->spec, arguments[i]))
			trampoline_push(c, trampoline_argument(arguments[i]));
	emit_stack_copy(c);
	for (int i = COUNT; i-- > 0;)
		if (trampoline_holds_argument(c->spec, arguments[i]))
			trampoline_pop(c, trampoline_argument(arguments[i]));
}

static void emit_chain(struct trampoline_code *c)
{
	const struct stack_code code = {.a = &c->a,
					.kernel = c->spec->kernel,
					.ring = &c->ring,
					.caller_at = c->pushed + RETURN_ADDRESS,
					.to = c->out->layout.offset[FIELD_CHAIN],
					.words = c->spec->capture.chain_words,
					.keep_rax = c->spec->capture.point == POINT_RETURN};

	stack_emit(&code);
}

void trampoline_emit_fields(struct trampoline_code *c)
{
	if (wanted(c->spec, FIELD_KEY))
		emit_key(c);
	emit_registers(c);
	if (wanted(c->spec, FIELD_CALL_SITE))
		emit_call_site(c);
	if (wanted(c->spec, FIELD_OWNER))
		emit_owner(c);
	if (wanted(c->spec, FIELD_SLAB_CACHE))
		emit_slab_cache(c);
	if (wanted(c->spec, FIELD_PID))
		emit_task_word(c, ASM_32, c->spec->kernel->task_pid, field_at(c, FIELD_PID));
	if (wanted(c->spec, FIELD_COMM))
		emit_comm(c);
	if (wanted(c->spec, FIELD_TGID))
		emit_task_word(c, ASM_32, c->spec->kernel->task_tgid, field_at(c, FIELD_TGID));
	if (wanted(c->spec, FIELD_CGROUP)) {
		code_load_cgroup(&c->a, trampoline_scratch(c), c->spec->kernel);
		asm_store(&c->a, ASM_64, field_at(c, FIELD_CGROUP), trampoline_scratch(c));
	}
	if (wanted(c->spec, FIELD_STACK))
		emit_stack(c);
	if (wanted(c->spec, FIELD_CHAIN))
		emit_chain(c);
}
