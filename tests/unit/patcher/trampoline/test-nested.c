/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trampolines interrupted at every single instruction by another one on the same ring, as an NMI
 * does: no record is torn, lost or doubled. And what they cost, in instructions.
 */
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-cpu.h"
#include "tests/lib/tap.h"

enum { OUTER = 1, INNER = 2, RDX = 2, RSP = 4, RDI = 7, RAX = 0, EVERY = -1, NEVER = -2 };

static const uint64_t outer_argument = UINT64_C(0x0123456789abcdef);

struct scene {
	struct fake_rings rings;
	struct fake_cpu *cpu;
	struct trampoline_kernel kernel;
	struct trampoline_spec outer_spec, inner_spec;
	struct fake_function outer, inner;
	uint64_t start; /* position of the first record */
	/* written by signal handlers */
	volatile int interrupt_at; /* instruction of `outer`, or EVERY */
	volatile int steps;
	volatile uint64_t inner_calls;
	uint8_t published[RING_MAX_RECORD]; /* the first record as it was when its commit word came
					     */
};

static void scene_init(struct scene *s, struct capture outer, enum trampoline_full full)
{
	const struct capture inner = fake_capture(
		POINT_ENTRY, CAPTURE(FIELD_ARG0) | CAPTURE(FIELD_STACK) | CAPTURE(FIELD_KEY), 5);

	*s = (struct scene){.rings = fake_rings_create(1),
			    .cpu = fake_cpu_enter(0),
			    .kernel = fake_cpu_kernel()};
	s->kernel.pages = 16;
	s->cpu->current_task = (uint64_t)(uintptr_t)s;
	s->outer_spec = (struct trampoline_spec){
		.capture = outer, .id = OUTER, .kernel = &s->kernel, .full = full};
	s->inner_spec = s->outer_spec;
	s->inner_spec.capture = inner;
	s->inner_spec.id = INNER;
	if (!fake_function_create(&s->outer_spec, &s->rings, FAKE_RET, &s->outer) ||
	    !fake_function_create(&s->inner_spec, &s->rings, FAKE_RET, &s->inner))
		abort();
}

static void scene_deinit(struct scene *s)
{
	fake_function_destroy(&s->inner);
	fake_function_destroy(&s->outer);
	fake_cpu_leave(s->cpu);
	fake_rings_destroy(&s->rings);
}

/* What another CPU could see after this instruction. */
static void observe(struct scene *s)
{
	const uint8_t *first = fake_ring_data(&s->rings, 0) + (s->start & (FAKE_DATA - 1));

	if (*(const uint32_t *)first && !*(const uint32_t *)s->published)
		memcpy(s->published, first, sizeof(s->published));
}

static void on_step(void *arg, uint64_t rip)
{
	struct scene *s = arg;

	observe(s);
	if (!fake_function_contains(&s->outer, rip))
		return;
	if (s->interrupt_at == EVERY || s->interrupt_at == s->steps) {
		s->inner_calls++;
		((void (*)(uint64_t))(uintptr_t)s->inner.code)(s->inner_calls);
	}
	/* Not the rest of the function itself. */
	s->steps += rip != s->outer.site_end;
}

/* The host makes room for one record, whosever it is. */
static uint64_t on_out(void *arg, uint64_t rip)
{
	struct scene *s = arg;
	bool outer = fake_function_contains(&s->outer, rip);
	const struct trampoline *t = outer ? &s->outer.trampoline : &s->inner.trampoline;

	fake_ring(&s->rings, 0)->limit = fake_ring(&s->rings, 0)->reserve + 1;
	return (outer ? s->outer_spec.gva : s->inner_spec.gva) + t->slow.retry;
}

/* One single-stepped call of `outer`, `room` bytes before the ring's limit. */
static void run(struct scene *s, int interrupt_at, uint64_t start, uint64_t room)
{
	struct ring_header *ring = fake_ring(&s->rings, 0);

	memset(ring, 0, sizeof(*ring));
	memset(fake_ring_data(&s->rings, 0), 0, FAKE_DATA + RING_MAX_RECORD);
	s->start = ring->reserve = start;
	ring->limit = start + room;
	s->interrupt_at = interrupt_at;
	s->steps = 0;
	s->inner_calls = 0;
	memset(s->published, 0, sizeof(s->published));
	s->cpu->in = (struct fake_regs){.flags = 0x202 | FAKE_FLAG_TRAP};
	for (unsigned int i = 0; i < FAKE_REGS; i++)
		s->cpu->in.reg[i] = outer_argument;
	s->cpu->in.reg[RSP] = (uint64_t)(uintptr_t)s->cpu->stack + FAKE_STACK - 128;
	s->cpu->target = (uint64_t)(uintptr_t)s->outer.code;
	fake_cpu_run();
}

struct found {
	uint64_t outer, inner, inner_sum;
	bool torn;
};

static uint64_t field(const uint8_t *record, const struct fake_function *f, enum record_field which)
{
	return *(const uint64_t *)(record + f->trampoline.layout.offset[which]);
}

static void check_record(const struct scene *s, const uint8_t *record, struct found *found)
{
	uint32_t commit = ((const struct ring_record *)record)->commit;

	if (commit == ring_commit(INNER)) {
		found->inner++;
		found->inner_sum += field(record, &s->inner, FIELD_ARG0);
	} else if (commit == ring_commit(OUTER)) {
		found->outer++;
		found->torn |= field(record, &s->outer, FIELD_KEY) != s->cpu->in.reg[RSP] - 16;
	} else {
		found->torn = true;
	}
	found->torn |= !((const struct ring_record *)record)->tsc;
}

/* Walk all that was reserved; behind it there must be nothing. */
static struct found read_ring(const struct scene *s)
{
	const struct ring_header *ring = fake_ring(&s->rings, 0);
	const uint8_t *data = fake_ring_data(&s->rings, 0);
	struct found found = {0};
	uint64_t at = s->start;

	while (at < ring->reserve && !found.torn) {
		const uint8_t *record = data + (at & (FAKE_DATA - 1));

		check_record(s, record, &found);
		at += ring_id((const struct ring_record *)record) == INNER
			      ? s->inner.trampoline.layout.size
			      : s->outer.trampoline.layout.size;
	}
	found.torn |= at != ring->reserve || *(const uint32_t *)(data + (at & (FAKE_DATA - 1)));
	return found;
}

/* All calls are accounted for: written whole and once, or counted. */
static bool accounted(const struct scene *s, uint64_t lost)
{
	struct found f = read_ring(s);
	uint64_t calls = s->inner_calls;

	if (f.torn || f.outer > 1 || f.inner > calls || lost != 1 + calls - f.outer - f.inner)
		return false;
	return f.inner < calls || f.inner_sum == calls * (calls + 1) / 2;
}

static bool registers_preserved(const struct scene *s)
{
	const struct fake_regs *in = &s->cpu->in, *out = &s->cpu->out;
	bool entry = s->outer_spec.capture.point == POINT_ENTRY;

	return fake_flags_preserved(in, out) && in->reg[RSP] == out->reg[RSP] &&
	       in->reg[entry ? RDI : RAX] == out->reg[entry ? RDI : RAX] &&
	       (!entry || in->reg[RDX] == out->reg[RDX]) &&
	       !memcmp(&in->reg[12], &out->reg[12], 4 * 8);
}

/* Every instruction in turn, until a run ends before the one that was to be interrupted. */
static bool every_instruction(struct scene *s, uint64_t room, int *interrupted)
{
	struct ring_header *ring = fake_ring(&s->rings, 0);
	bool blocks = s->outer_spec.full == TRAMPOLINE_BLOCK;

	for (int at = 0;; at++) {
		run(s, at, 3 * FAKE_DATA - 8, room);
		if (!s->inner_calls)
			break;
		if (!registers_preserved(s) || !accounted(s, ring->lost) ||
		    (blocks && ring->lost) || ring->reserve > ring->limit + 2 * RING_MAX_RECORD) {
			tap_diag("interrupted at instruction %d, room %lu", at, room);
			return false;
		}
		*interrupted = at + 1;
	}
	return *interrupted >= s->steps && s->steps > 10;
}

static void test_nested(struct capture capture, enum trampoline_full full, const char *name)
{
	const uint64_t rooms[] = {FAKE_DATA - RING_SLACK, 0, 1, 40, 100};
	struct scene s;

	scene_init(&s, capture, full);
	fake_host_install(on_out, on_step, &s);
	for (unsigned int i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		int interrupted = 0;
		bool good = every_instruction(&s, rooms[i], &interrupted);

		ok(good, "%s, %lu bytes left: interrupted at %d places, no record is torn", name,
		   rooms[i], interrupted);
	}
	run(&s, NEVER, 0, FAKE_DATA - RING_SLACK);
	ok(*(uint32_t *)s.published &&
		   !memcmp(s.published, fake_ring_data(&s.rings, 0), sizeof(s.published)),
	   "%s: a record is complete once its commit word is there", name);
	run(&s, EVERY, 0, FAKE_DATA - RING_SLACK);
	ok(s.inner_calls > 20 && registers_preserved(&s) &&
		   accounted(&s, fake_ring(&s.rings, 0)->lost),
	   "%s: interrupted at all places in one call, no record is torn", name);
	scene_deinit(&s);
}

static int instructions(struct capture capture)
{
	struct scene s;
	int steps;

	scene_init(&s, capture, TRAMPOLINE_BLOCK);
	fake_host_install(on_out, on_step, &s);
	run(&s, NEVER, 0, FAKE_DATA - RING_SLACK);
	steps = s.steps;
	scene_deinit(&s);
	return steps;
}

/* An allocation writes two records, a free one; the mean is what design.md sets a goal for. */
static void test_cost(void)
{
	uint32_t key = CAPTURE(FIELD_KEY), site = CAPTURE(FIELD_CALL_SITE);
	uint32_t args = CAPTURE(FIELD_ARG0) | CAPTURE(FIELD_ARG1);
	uint32_t result = key | CAPTURE(FIELD_RESULT);
	struct capture two = fake_capture(POINT_ENTRY, key | site | args, 0);
	int entry, free;
	int ret = instructions(fake_capture(POINT_RETURN, result, 0));

	two.parameters = 2;
	entry = free = instructions(two);
	tap_diag("instructions with the patched jump: entry %d, return %d, free %d", entry, ret,
		 free);
	ok(entry + ret + free <= 2 * 36, "the mean event takes at most 36 instructions");
}

int main(void)
{
	const struct capture entry = fake_capture(
		POINT_ENTRY,
		CAPTURE(FIELD_KEY) | CAPTURE(FIELD_CALL_SITE) | CAPTURE(FIELD_ARG0) |
			CAPTURE(FIELD_ARG2) | CAPTURE(FIELD_PID) | CAPTURE(FIELD_STACK),
		7);
	const struct capture leave = fake_capture(
		POINT_RETURN,
		CAPTURE(FIELD_KEY) | CAPTURE(FIELD_RESULT) | CAPTURE(FIELD_SLAB_CACHE) |
			CAPTURE(FIELD_COMM) | CAPTURE(FIELD_STACK),
		7);

	test_nested(entry, TRAMPOLINE_BLOCK, "entry, block");
	test_nested(entry, TRAMPOLINE_DROP, "entry, drop");
	test_nested(leave, TRAMPOLINE_BLOCK, "return, block");
	test_nested(leave, TRAMPOLINE_DROP, "return, drop");
	test_cost();
	return tap_done();
}
