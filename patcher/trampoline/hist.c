/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events that are summed up by a key where they happen (patcher/ring/hist.h). */
#include <errno.h>
#include "patcher/fetch/fetch.h"
#include "patcher/trampoline/code.h"

enum {
	KMALLOC_MIN = 8, /* bytes of the smallest cache of kmalloc()'s, and of the largest one: */
	KMALLOC_MAX = 8192, /* KMALLOC_MAX_CACHE_SIZE (include/linux/slab.h) */
};

enum { WORD = 8, SITE_RETURN = 8 /* of an entry's site, from RSP: above the flags */ };

/* --- checks ---------------------------------------------------------------------------------- */

static bool has_source(const struct hist_operand *o, const struct fetch_program *fetch,
		       enum probe_point point)
{
	switch (o->source) {
	case HIST_IP:
		return point != POINT_RETURN;
	case HIST_PARENT:
		return point != POINT_INSIDE;
	case HIST_REGISTER:
		return register_is_known((enum fetch_register)o->reg, point) && o->at >= 0 &&
		       o->at < 64;
	case HIST_KMALLOC:
		return point == POINT_ENTRY && register_is_kept((enum fetch_register)o->reg, point);
	case HIST_POINTED:
		return register_is_kept((enum fetch_register)o->reg, point) &&
		       o->at == (int32_t)o->at;
	case HIST_FETCHED:
		return fetch && fetch->has_faults && o->at >= 0 && !(o->at % WORD) &&
		       o->at + WORD * hist_operand_words(o) <= fetch->bytes;
	default:
		return true;
	}
}

static bool is_possible(const struct hist_operand *o, const struct fetch_program *fetch,
			enum probe_point point)
{
	const unsigned int words = hist_operand_words(o);
	const bool many = o->source == HIST_COMM || o->source == HIST_FETCHED;

	if (!words || words > HIST_OPERAND_WORDS || (words > 1 && (!many || o->step)) ||
	    (o->source == HIST_COMM && o->size != DIRECT_COMM_SIZE))
		return false;
	if (words == 1 && o->size != 1 && o->size != 2 && o->size != 4 && o->size != WORD)
		return false;
	if (o->bit_offset + o->bit_width > 64 ||
	    (o->step == HIST_BUCKETS && (!o->bucket || o->bucket > INT32_MAX)))
		return false;
	return has_source(o, fetch, point);
}

int hist_check(const struct hist_spec *spec, const struct fetch_program *fetch,
	       enum probe_point point, struct error *err)
{
	const struct hist_program *p = spec->program;
	bool good = p->nr_keys <= HIST_MAX_OPERANDS && p->nr_values <= HIST_MAX_VALUES;

	for (size_t i = 0; good && i < p->nr_keys; i++)
		good = is_possible(&p->keys[i], fetch, point);
	for (size_t i = 0; good && i < p->nr_values; i++)
		good = is_possible(&p->values[i], fetch, point) &&
		       hist_operand_words(&p->values[i]) == 1;
	if (good && hist_program_uses(p, HIST_KMALLOC))
		good = p->kmalloc.caches == (int32_t)p->kmalloc.caches && p->kmalloc.size_at >= 0 &&
		       p->kmalloc.size_at <= INT32_MAX;
	if (good && p->faults)
		good = fetch && fetch->has_faults && p->faults <= INT32_MAX;
	if (!good || spec->layout.nr_values != p->nr_values ||
	    spec->layout.key_words != hist_key_words(p))
		return error_set(err, EINVAL, "a histogram has impossible keys or values");
	return fetch ? fetch_check(fetch, point, err) : 0;
}

/* --- operands -------------------------------------------------------------------------------- */

/* At a return RAX holds the result. */
static enum asm_reg scratch(const struct hist_code *c)
{
	return c->d->point == POINT_RETURN ? ASM_RCX : ASM_RAX;
}

static uint32_t frame_bytes(const struct hist_code *c)
{
	return WORD * c->spec->layout.key_words;
}

static struct asm_mem stack_at(const struct hist_code *c, uint32_t above_flags)
{
	return asm_at(ASM_RSP, above_flags + c->d->pushed);
}

static void emit_bsr(struct assembler *a, enum asm_reg reg)
{
	const uint8_t bsr[] = {0x48, 0x0f, 0xbd, (uint8_t)(0xc0 | reg << 3 | reg)};

	asm_bytes(a, bsr, sizeof(bsr));
}

/* to = which of the caches a request has, as kmalloc_slab() in mm/slab_common.c: the logarithm,
 * rounded up; but for those of 96 and 192 bytes. One of 0 bytes has number 0, which is none. */
static void emit_kmalloc_index(struct assembler *a, enum asm_reg to, enum asm_reg request)
{
	struct asm_label done = {0}, of_96 = {0}, of_192 = {0};

	asm_lea(a, to, (struct asm_mem){request, ASM_NO_REG, -1, false});
	asm_alu(a, ASM_64, ASM_OR, to, KMALLOC_MIN - 1);
	emit_bsr(a, to);
	asm_alu(a, ASM_64, ASM_ADD, to, 1);
	asm_alu(a, ASM_64, ASM_AND, to, 15);
	asm_alu(a, ASM_64, ASM_CMP, request, 192);
	asm_jump_if(a, ASM_A, &done);
	asm_alu(a, ASM_64, ASM_CMP, request, 128);
	asm_jump_if(a, ASM_A, &of_192);
	asm_alu(a, ASM_64, ASM_CMP, request, 96);
	asm_jump_if(a, ASM_A, &done);
	asm_alu(a, ASM_64, ASM_CMP, request, 64);
	asm_jump_if(a, ASM_A, &of_96);
	asm_jump(a, &done);
	asm_bind(a, &of_192);
	asm_constant32(a, to, 2);
	asm_jump(a, &done);
	asm_bind(a, &of_96);
	asm_constant32(a, to, 1);
	asm_bind(a, &done);
}

/* to = pages for a request, a power of two of them; 0: it is too large. */
static void emit_kmalloc_pages(struct assembler *a, enum asm_reg to, enum asm_reg request)
{
	struct asm_label again = {0}, done = {0};

	asm_constant32(a, to, 2 * KMALLOC_MAX);
	asm_bind(a, &again);
	asm_compare(a, to, request);
	asm_jump_if(a, ASM_AE, &done);
	asm_add(a, to, to);
	asm_jump_if(a, ASM_NE, &again);
	asm_bind(a, &done);
}

/* Without a cache, early in boot, 0. */
static void emit_kmalloc(const struct hist_code *c, enum asm_reg to, enum asm_reg request)
{
	const struct hist_kmalloc *k = &c->spec->program->kmalloc;
	struct assembler *a = c->d->a;
	struct asm_label pages = {0}, done = {0};

	asm_alu(a, ASM_64, ASM_CMP, request, KMALLOC_MAX);
	asm_jump_if(a, ASM_A, &pages);
	emit_kmalloc_index(a, to, request);
	asm_shift_left(a, to, 3);
	asm_load(a, ASM_64, to, asm_at(to, (uint32_t)k->caches));
	asm_alu(a, ASM_64, ASM_CMP, to, 0);
	asm_jump_if(a, ASM_E, &done);
	asm_load(a, ASM_32, to, asm_at(to, (uint32_t)k->size_at));
	asm_jump(a, &done);
	asm_bind(a, &pages);
	emit_kmalloc_pages(a, to, request);
	asm_bind(a, &done);
}

static void emit_pointed(const struct hist_code *c, const struct hist_operand *o)
{
	const struct trampoline_kernel *kernel = c->d->kernel;
	struct assembler *a = c->d->a;
	uint32_t at = (uint32_t)o->at;
	enum asm_reg base = (enum asm_reg)o->reg;

	if (o->reg == FETCH_USER_REGS) {
		base = scratch(c);
		code_load_task_word(a, ASM_64, base, kernel, kernel->task_stack);
		at += kernel->user_regs;
	}
	asm_load(a, ASM_64, scratch(c), asm_at(base, at));
}

static void emit_source(const struct hist_code *c, const struct hist_operand *o, unsigned int word)
{
	const struct trampoline_kernel *kernel = c->d->kernel;
	struct assembler *a = c->d->a;
	const enum asm_reg to = scratch(c);
	const struct asm_mem cpu = {ASM_NO_REG, ASM_NO_REG, kernel->cpu_number, true};

	switch (o->source) {
	case HIST_IP:
		if (c->d->ip)
			asm_constant64(a, to, c->d->ip);
		else
			asm_load(a, ASM_64, to, stack_at(c, SITE_RETURN));
		break;
	case HIST_PARENT:
		asm_load(a, ASM_64, to, stack_at(c, c->d->caller_at));
		break;
	case HIST_REGISTER:
		register_emit(c->d, to, (enum fetch_register)o->reg, c->d->pushed);
		if (o->at)
			asm_shift_right(a, to, (uint8_t)o->at);
		break;
	case HIST_CONSTANT:
		asm_constant64(a, to, (uint64_t)o->at);
		break;
	case HIST_KMALLOC:
		emit_kmalloc(c, to, (enum asm_reg)o->reg);
		break;
	case HIST_POINTED:
		emit_pointed(c, o);
		break;
	case HIST_FETCHED:
		asm_load(a, ASM_64, to,
			 asm_at(ASM_RSP, frame_bytes(c) + (uint32_t)o->at + word * WORD));
		break;
	case HIST_PID:
		code_load_task_word(a, ASM_32, to, kernel, kernel->task_pid);
		break;
	case HIST_TGID:
		code_load_task_word(a, ASM_32, to, kernel, kernel->task_tgid);
		break;
	case HIST_CGROUP:
		code_load_cgroup(a, to, kernel);
		break;
	case HIST_COMM:
		code_load_task_word(a, ASM_64, to, kernel, kernel->task_comm + word * WORD);
		break;
	case HIST_CPU:
		asm_load(a, ASM_32, to, cpu);
		break;
	case HIST_CHAIN: /* is_possible() */
		break;
	}
}

/* As ftrace has it: the least n such that 2^n is not less; 0 and 1 have 0. */
static void emit_log2(struct assembler *a, enum asm_reg reg)
{
	struct asm_label small = {0}, done = {0};

	asm_alu(a, ASM_64, ASM_SUB, reg, 1);
	asm_jump_if(a, ASM_BE, &small);
	emit_bsr(a, reg);
	asm_alu(a, ASM_64, ASM_ADD, reg, 1);
	asm_jump(a, &done);
	asm_bind(a, &small);
	asm_constant32(a, reg, 0);
	asm_bind(a, &done);
}

/* DIV takes RDX:RAX. The value comes back through the stack. */
static void emit_buckets(struct assembler *a, enum asm_reg reg, uint32_t bucket)
{
	static const enum asm_reg saved[] = {ASM_RDX, ASM_RCX, ASM_RAX};
	static const uint8_t div_rcx[] = {0x48, 0xf7, 0xf1};
	const uint32_t at = reg == ASM_RAX ? 0 : WORD;

	for (int i = 0; i < 3; i++)
		asm_push(a, saved[i]);
	asm_move(a, ASM_RAX, reg);
	asm_constant32(a, ASM_RCX, bucket);
	asm_constant32(a, ASM_RDX, 0);
	asm_bytes(a, div_rcx, sizeof(div_rcx));
	asm_multiply_long(a, ASM_RAX, ASM_RAX, (int32_t)bucket);
	asm_store(a, ASM_64, asm_at(ASM_RSP, at), ASM_RAX);
	for (int i = 3; i-- > 0;)
		asm_pop(a, saved[i]);
}

/* A word of an operand, to the scratch register. */
static void emit_operand(const struct hist_code *c, const struct hist_operand *o, unsigned int word)
{
	struct assembler *a = c->d->a;
	const enum asm_reg reg = scratch(c);

	emit_source(c, o, word);
	if (o->bit_width) {
		asm_shift_left(a, reg, (uint8_t)(64 - o->bit_offset - o->bit_width));
		asm_shift_right(a, reg, (uint8_t)(64 - o->bit_width));
	} else if (o->size < WORD) {
		asm_extend(a, reg, reg, o->size, o->is_signed);
	}
	if (o->step == HIST_LOG2)
		emit_log2(a, reg);
	else if (o->step == HIST_BUCKETS)
		emit_buckets(a, reg, o->bucket);
}

/* --- the table ------------------------------------------------------------------------------- */

static struct asm_mem head_at(const struct hist_code *c, size_t field)
{
	return asm_at(ASM_R10, (uint32_t)(c->data + field));
}

/* R10 is the CPU's distance, R11 the offset of the place. */
static struct asm_mem place_at(const struct hist_code *c, size_t field)
{
	return (struct asm_mem){ASM_R10, ASM_R11,
				(int32_t)(c->data + sizeof(struct hist_head) + field), false};
}

static size_t word_at(unsigned int i)
{
	return offsetof(struct hist_place, words) + i * WORD;
}

/* A word of the key is in the scratch register: to the stack, and into the hash in R11. */
static void emit_key_word(const struct hist_code *c, unsigned int i)
{
	struct assembler *a = c->d->a;

	asm_store(a, ASM_64, asm_at(ASM_RSP, i * WORD), scratch(c));
	if (i)
		asm_add(a, ASM_R11, scratch(c));
	else
		asm_move(a, ASM_R11, scratch(c));
	asm_multiply_long(a, ASM_R11, ASM_R11, HIST_MIX);
}

static void emit_key(const struct hist_code *c)
{
	const struct hist_program *p = c->spec->program;
	const struct hist_layout *l = &c->spec->layout;
	struct assembler *a = c->d->a;
	unsigned int n = 0;

	for (size_t i = 0; i < p->nr_keys; i++)
		for (unsigned int w = 0; w < hist_operand_words(&p->keys[i]); w++) {
			emit_operand(c, &p->keys[i], w);
			emit_key_word(c, n++);
		}
	if (p->faults) {
		asm_load(a, ASM_32, scratch(c), asm_at(ASM_RSP, frame_bytes(c)));
		asm_alu(a, ASM_32, ASM_AND, scratch(c), (int32_t)p->faults);
		emit_key_word(c, n++);
	}
	if (!n)
		asm_constant32(a, ASM_R11, 0);
	asm_multiply_long(a, ASM_R11, ASM_R11, HIST_MIX);
	asm_shift_right(a, ASM_R11, (uint8_t)(64 - l->bits));
	asm_multiply_long(a, ASM_R11, ASM_R11, (int32_t)l->size);
}

static void emit_compare_key(struct hist_code *c)
{
	const struct hist_layout *l = &c->spec->layout;
	struct assembler *a = c->d->a;

	asm_bind(a, &c->again);
	asm_compare_mem(a, place_at(c, offsetof(struct hist_place, state)), HIST_READY);
	asm_jump_if(a, ASM_NE, &c->not_ready);
	for (unsigned int i = l->key_words; i-- > 0;) {
		if (i + 1 < l->key_words)
			asm_load(a, ASM_64, scratch(c), asm_at(ASM_RSP, i * WORD));
		asm_compare_load(a, scratch(c), place_at(c, word_at(l->nr_values + i)));
		asm_jump_if(a, ASM_NE, &c->next);
	}
}

/* The search goes on with the last word of the key in the scratch register, as emit_key() leaves
 * it. */
static void emit_last_word(const struct hist_code *c)
{
	if (c->spec->layout.key_words)
		asm_load(c->d->a, ASM_64, scratch(c), asm_at(ASM_RSP, frame_bytes(c) - WORD));
}

void hist_emit(struct hist_code *c)
{
	const struct hist_program *p = c->spec->program;
	struct direct_code *d = c->d;
	struct assembler *a = d->a;

	if (d->records[c->number].fetch)
		fetch_emit_read(d, &d->records[c->number], &d->rings[c->number]);
	if (frame_bytes(c))
		asm_alu(a, ASM_64, ASM_SUB, ASM_RSP, (int32_t)frame_bytes(c));
	d->pushed += frame_bytes(c);
	emit_key(c);
	emit_compare_key(c);
	asm_bind(a, &c->found);
	asm_increment(a, place_at(c, offsetof(struct hist_place, hits)));
	for (unsigned int i = 0; i < p->nr_values; i++) {
		emit_operand(c, &p->values[i], 0);
		asm_add_to_mem(a, place_at(c, word_at(i)), scratch(c));
	}
	asm_bind(a, &c->done);
	fetch_emit_end(d);
}

/* The compare-exchange needs RAX, and another register. R10 and R11 stay; so does the result. */
static void emit_claim(struct hist_code *c)
{
	struct assembler *a = c->d->a;
	const enum asm_reg other = scratch(c) == ASM_RAX ? ASM_RCX : ASM_RAX;

	asm_push(a, other);
	asm_constant32(a, ASM_RCX, HIST_CLAIMED);
	asm_constant32(a, ASM_RAX, 0);
	asm_compare_exchange(a, place_at(c, offsetof(struct hist_place, state)), ASM_RCX);
	asm_pop(a, other);
	asm_jump_if(a, ASM_NE, &c->look);
}

static void emit_insert(struct hist_code *c)
{
	const struct hist_layout *l = &c->spec->layout;
	struct assembler *a = c->d->a;

	asm_compare_mem_constant(a, ASM_64, head_at(c, offsetof(struct hist_head, used)),
				 (int32_t)l->limit);
	asm_jump_if(a, ASM_AE, &c->drop);
	emit_claim(c);
	asm_increment(a, head_at(c, offsetof(struct hist_head, used)));
	for (unsigned int i = 0; i < l->key_words; i++) {
		asm_load(a, ASM_64, scratch(c), asm_at(ASM_RSP, i * WORD));
		asm_store(a, ASM_64, place_at(c, word_at(l->nr_values + i)), scratch(c));
	}
	asm_store_constant(a, ASM_32, place_at(c, offsetof(struct hist_place, state)), HIST_READY);
	asm_jump(a, &c->found);
}

void hist_emit_slow(struct hist_code *c)
{
	const struct hist_layout *l = &c->spec->layout;
	struct assembler *a = c->d->a;

	asm_bind(a, &c->not_ready);
	asm_compare_mem(a, place_at(c, offsetof(struct hist_place, state)), 0);
	asm_jump_if(a, ASM_NE, &c->next);
	emit_insert(c);
	asm_bind(a, &c->next);
	asm_alu(a, ASM_64, ASM_ADD, ASM_R11, (int32_t)l->size);
	asm_alu(a, ASM_64, ASM_CMP, ASM_R11, (int32_t)(l->places * l->size));
	asm_jump_if(a, ASM_AE, &c->drop);
	asm_bind(a, &c->look);
	emit_last_word(c);
	asm_jump(a, &c->again);
	asm_bind(a, &c->drop);
	asm_increment(a, head_at(c, offsetof(struct hist_head, dropped)));
	asm_jump(a, &c->done);
}
