/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/trampoline/ask.h"

#include <errno.h>
#include <string.h>
#include "patcher/trampoline/code.h"

enum {
	JMP = 0xe9,
	PUSH_IMM = 0x68,
	SLEEP_MS = 1, /* msleep() rounds it up to a few ticks of the timer */
	POLLS = 64,   /* from one PAUSE to the next */
};

struct ask_emitter {
	struct assembler a;
	const struct ask_spec *spec;
	const uint8_t *jump;
	struct asm_label wait, go, refuse;
};

static struct asm_mem at(uint64_t gva)
{
	return (struct asm_mem){ASM_NO_REG, ASM_NO_REG, (int32_t)gva, false};
}

#define BOX(e, member) at((e)->spec->box + offsetof(struct ask_box, member))

/* RAX = the TSC; RDX changes. */
static void emit_clock(struct assembler *a)
{
	static const uint8_t rdtsc[] = {0x0f, 0x31};

	asm_bytes(a, rdtsc, sizeof(rdtsc));
	asm_shift_left(a, ASM_RDX, 32);
	asm_add(a, ASM_RAX, ASM_RDX);
}

/* RAX = when the task gives up; RCX and RDX change. */
static void emit_deadline(struct ask_emitter *e)
{
	emit_clock(&e->a);
	asm_constant64(&e->a, ASM_RCX, e->spec->patience);
	asm_add(&e->a, ASM_RAX, ASM_RCX);
}

/* No task waits while the host does not live. */
static void emit_given_up(struct ask_emitter *e)
{
	asm_compare_mem(&e->a, BOX(e, given_up), 0);
	asm_jump_if(&e->a, ASM_NE, e->spec->refuses ? &e->refuse : &e->go);
}

/* RCX = the number of this task's question. */
static void emit_ask_as_one_of_many(struct ask_emitter *e)
{
	static const uint8_t lock = 0xf0;

	asm_constant32(&e->a, ASM_RCX, 1);
	asm_bytes(&e->a, &lock, sizeof(lock));
	asm_xadd(&e->a, BOX(e, asked), ASM_RCX);
	asm_alu(&e->a, ASM_64, ASM_ADD, ASM_RCX, 1);
}

static void emit_ask(struct ask_emitter *e)
{
	if (e->spec->many) {
		emit_ask_as_one_of_many(e);
		return;
	}
	asm_increment(&e->a, BOX(e, asked));
	asm_store_constant(&e->a, ASM_32, BOX(e, waiting), 1);
}

/* RCX changes, but for the number of one of many. */
static void emit_answer(struct ask_emitter *e)
{
	if (e->spec->many) {
		asm_compare_load(&e->a, ASM_RCX, BOX(e, answered));
		asm_jump_if(&e->a, ASM_BE, &e->go);
		return;
	}
	asm_load(&e->a, ASM_64, ASM_RCX, BOX(e, asked));
	asm_compare_load(&e->a, ASM_RCX, BOX(e, answered));
	asm_jump_if(&e->a, ASM_E, &e->go);
	if (!e->spec->refuses)
		return;
	asm_compare_load(&e->a, ASM_RCX, BOX(e, refused));
	asm_jump_if(&e->a, ASM_E, &e->refuse);
}

/* The task comes by here once more after each sleep. */
static void emit_sleeping(struct ask_emitter *e)
{
	struct asm_label again = {0};

	asm_compare_mem(&e->a, BOX(e, waiting), 0);
	asm_jump_if(&e->a, ASM_NE, &again);
	emit_given_up(e);
	emit_deadline(e);
	asm_store(&e->a, ASM_64, BOX(e, deadline), ASM_RAX);
	emit_ask(e);
	asm_jump(&e->a, &e->wait);
	asm_bind(&e->a, &again);
	emit_clock(&e->a);
	emit_answer(e);
	asm_compare_load(&e->a, ASM_RAX, BOX(e, deadline));
	asm_jump_if(&e->a, ASM_B, &e->wait);
}

/* As called by the function's first instruction. */
static void emit_sleep(struct ask_emitter *e)
{
	uint8_t push[JUMP_SIZE] = {PUSH_IMM};
	uint32_t place = (uint32_t)e->spec->place.gva;

	memcpy(push + 1, &place, sizeof(place));
	asm_bind(&e->a, &e->wait);
	asm_bytes(&e->a, push, sizeof(push));
	asm_constant32(&e->a, ASM_RDI, SLEEP_MS);
	asm_jump_to(&e->a, e->spec->sleep);
}

/*
 * The clock is read before the answer: an answer that has come counts, however long the host has
 * kept the vCPU off its CPU.
 *
 * QEMU's emulation leaves the guest's code at each PAUSE, with the lock that its monitor waits for.
 * A vCPU that does nothing else holds up the very commands by which the host stops it.
 */
static void emit_polls(struct ask_emitter *e, int32_t jump)
{
	static const uint8_t pause[] = {0xf3, 0x90};
	struct asm_label poll = {0}, give_up = {0};

	asm_bind(&e->a, &e->wait);
	asm_bytes(&e->a, pause, sizeof(pause));
	asm_constant32(&e->a, ASM_R11, POLLS);
	asm_bind(&e->a, &poll);
	emit_clock(&e->a);
	emit_answer(e);
	asm_compare_mem_constant(&e->a, ASM_32, at(e->spec->place.gva), jump);
	asm_jump_if(&e->a, ASM_NE, &e->go);
	asm_compare(&e->a, ASM_RAX, ASM_R10);
	asm_jump_if(&e->a, ASM_AE, &give_up);
	asm_alu(&e->a, ASM_32, ASM_SUB, ASM_R11, 1);
	asm_jump_if(&e->a, ASM_NE, &poll);
	asm_jump(&e->a, &e->wait);
	asm_bind(&e->a, &give_up);
}

static void emit_spinning(struct ask_emitter *e)
{
	int32_t jump;

	memcpy(&jump, e->jump, sizeof(jump));
	emit_given_up(e);
	if (!e->spec->many) {
		asm_load(&e->a, ASM_64, ASM_RAX, asm_at(ASM_RDI, e->spec->argument));
		asm_store(&e->a, ASM_64, BOX(e, argument), ASM_RAX);
	}
	emit_deadline(e);
	asm_move(&e->a, ASM_R10, ASM_RAX);
	emit_ask(e);
	emit_polls(e, jump);
}

/* The deadline has passed. Goes on behind itself if the function may begin nevertheless. */
static void emit_give_up(struct ask_emitter *e)
{
	static const uint8_t ret_int3[] = {0xc3, 0xcc};

	asm_store_constant(&e->a, ASM_32, BOX(e, given_up), 1);
	asm_bind(&e->a, &e->refuse);
	if (!e->spec->refuses)
		return;
	asm_store_constant(&e->a, ASM_32, BOX(e, waiting), 0);
	asm_constant32(&e->a, ASM_RAX, (uint32_t)-EBUSY);
	asm_bytes(&e->a, ret_int3, sizeof(ret_int3));
}

static void emit_go(struct ask_emitter *e)
{
	const struct displaced *place = &e->spec->place;

	asm_bind(&e->a, &e->go);
	if (!e->spec->many)
		asm_store_constant(&e->a, ASM_32, BOX(e, waiting), 0);
	asm_bytes(&e->a, place->bytes, place->size);
	asm_jump_to(&e->a, place->gva + place->size);
}

static int emit(struct ask_emitter *e, struct ask_code *out, struct error *err)
{
	const bool sleeps = e->spec->wait == ASK_SLEEP;

	assembler_init(&e->a, out->bytes, sizeof(out->bytes), e->spec->gva);
	if (sleeps)
		emit_sleeping(e);
	else
		emit_spinning(e);
	emit_give_up(e);
	emit_go(e);
	if (sleeps)
		emit_sleep(e);
	out->size = (uint16_t)e->a.size;
	return assembler_finish(&e->a, err);
}

static bool is_low_or_high(uint64_t gva)
{
	return (int64_t)gva == (int32_t)gva;
}

static int set_jump(const struct ask_spec *spec, struct ask_code *out, struct error *err)
{
	int64_t distance = (int64_t)(spec->gva - (spec->place.gva + JUMP_SIZE));
	int32_t rel = (int32_t)distance;

	if (rel != distance || !is_low_or_high(spec->box) || !is_low_or_high(spec->place.gva))
		return error_set_at(err, ERANGE, spec->place.gva,
				    "the function is too far from the code");
	out->jump[0] = JMP;
	memcpy(out->jump + 1, &rel, sizeof(rel));
	return 0;
}

int ask_generate(const struct ask_spec *spec, struct decoder *decoder, struct ask_code *out,
		 struct error *err)
{
	struct ask_emitter e = {.spec = spec, .jump = out->jump};
	struct code_region region = {.bytes = out->bytes,
				     .gva = spec->gva,
				     .next = spec->place.gva + spec->place.size,
				     .other = spec->sleep,
				     .returns = spec->refuses};
	int ret = set_jump(spec, out, err);

	if (!ret)
		ret = emit(&e, out, err);
	region.size = out->size;
	return ret ? ret : code_check(&region, NULL, 0, decoder, err);
}
