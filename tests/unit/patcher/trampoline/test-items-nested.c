/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trampolines about many objects interrupted at every single instruction by another trampoline on
 * the same ring, as an NMI does. And what an item costs, in instructions.
 */
#include <stdlib.h>
#include <string.h>
#include "tests/lib/fake-items.h"
#include "tests/lib/tap.h"

/* In each run every 23rd instruction, in as many runs each of them. */
enum { INNER = 1, ITEMS = 40, PHASES = 23, NEVER = -1 };

struct scene {
	struct fake_items *outer;
	struct trampoline_spec inner_spec;
	struct fake_function inner;
	/* written by signal handlers */
	volatile int interrupt_at; /* instruction of `outer`, modulo PHASES */
	volatile int steps;
	volatile uint64_t inner_calls;
	uint64_t start; /* position of the first record */
	uint8_t published[RING_MAX_RECORD],
		final[RING_MAX_RECORD]; /* it, when its commit word came */
};

static void scene_init(struct scene *s, enum fake_items_how how, bool orders,
		       enum trampoline_full full)
{
	*s = (struct scene){.outer = fake_items_create(how, orders, full)};
	s->inner_spec = s->outer->spec;
	s->inner_spec.capture = fake_capture(POINT_ENTRY, CAPTURE(FIELD_ARG0), 0);
	s->inner_spec.id = INNER;
	if (!fake_function_create(&s->inner_spec, &s->outer->rings, FAKE_RET, &s->inner))
		abort();
	s->outer->other_size = s->inner.trampoline.layout.size;
}

static void scene_deinit(struct scene *s)
{
	fake_function_destroy(&s->inner);
	fake_items_destroy(s->outer);
}

static const uint8_t *first_record(const struct scene *s)
{
	return fake_ring_data(&s->outer->rings, 0) + (s->start & (FAKE_DATA - 1));
}

static void on_step(void *arg, uint64_t rip)
{
	struct scene *s = arg;

	if (*(const uint32_t *)(const void *)first_record(s) &&
	    !*(const uint32_t *)(const void *)s->published)
		memcpy(s->published, first_record(s), sizeof(s->published));
	if (!fake_function_contains(&s->outer->function, rip))
		return;
	if (s->interrupt_at == s->steps % PHASES) {
		s->inner_calls++;
		((void (*)(uint64_t))(uintptr_t)s->inner.code)(s->inner_calls);
	}
	/* Not the rest of the function itself. */
	s->steps += rip != s->outer->function.site_end;
}

/* The host makes room for one record, whosever it is. */
static uint64_t on_out(void *arg, uint64_t rip)
{
	struct scene *s = arg;
	struct ring_header *ring = fake_ring(&s->outer->rings, 0);
	bool outer = fake_function_contains(&s->outer->function, rip);

	ring->limit = ring->reserve + 1;
	return outer ? s->outer->spec.gva + s->outer->function.trampoline.slow.retry
		     : s->inner_spec.gva + s->inner.trampoline.slow.retry;
}

/* One single-stepped call, `room` bytes before the ring's limit. */
static void run(struct scene *s, uint64_t items, int interrupt_at, uint64_t room)
{
	struct ring_header *ring = fake_ring(&s->outer->rings, 0);

	fake_items_prepare(s->outer, items, items);
	s->start = ring->reserve = s->outer->consumed = 3 * FAKE_DATA - 8;
	ring->limit = s->start + room;
	ring->lost = 0;
	s->interrupt_at = interrupt_at;
	s->steps = 0;
	s->inner_calls = 0;
	memset(s->published, 0, sizeof(s->published));
	fake_items_call(s->outer, FAKE_FLAG_TRAP);
	memcpy(s->final, first_record(s), sizeof(s->final));
	fake_items_drain(s->outer);
}

/* All items are accounted for: written whole and once, or counted. */
static bool accounted(const struct scene *s)
{
	const struct fake_items *f = s->outer;
	uint64_t lost = f->count - f->found + s->inner_calls - f->others;

	return fake_items_good(f) && f->found <= f->count && f->others <= s->inner_calls &&
	       fake_ring(&f->rings, 0)->lost == lost && (!lost || f->spec.full == TRAMPOLINE_DROP);
}

static bool every_instruction(struct scene *s, uint64_t room, uint64_t *interrupted)
{
	for (int phase = 0; phase < PHASES; phase++) {
		run(s, ITEMS, phase, room);
		*interrupted += s->inner_calls;
		if (!accounted(s) || s->inner_calls < (uint64_t)s->steps / PHASES) {
			tap_diag("interrupted at instruction %d, room %lu", phase, room);
			return false;
		}
	}
	return true;
}

static void test_nested(enum fake_items_how how, bool orders, enum trampoline_full full,
			const char *name)
{
	const uint64_t rooms[] = {FAKE_DATA - RING_SLACK, 0, 24, 400};
	struct scene s;

	scene_init(&s, how, orders, full);
	fake_host_install(on_out, on_step, &s);
	for (unsigned int i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		uint64_t interrupted = 0;
		bool good = every_instruction(&s, rooms[i], &interrupted);

		ok(good && interrupted > ITEMS,
		   "%s, %lu bytes left: interrupted at %lu places, no record is torn", name,
		   rooms[i], interrupted);
	}
	run(&s, CAPTURE_MAX_ITEMS, NEVER, FAKE_DATA - RING_SLACK);
	ok(*(uint32_t *)(void *)s.published && !memcmp(s.published, s.final, sizeof(s.published)),
	   "%s: a record is complete once its commit word is there", name);
	scene_deinit(&s);
}

static int instructions(enum fake_items_how how, bool orders, uint64_t items)
{
	struct scene s;
	int steps;

	scene_init(&s, how, orders, TRAMPOLINE_BLOCK);
	fake_host_install(on_out, on_step, &s);
	run(&s, items, NEVER, FAKE_DATA - RING_SLACK);
	steps = s.steps;
	scene_deinit(&s);
	return steps;
}

/* A call about many objects costs less for each than a call about one does (test_cost of
 * test-trampoline-nested.c). */
static void test_cost(enum fake_items_how how, bool orders, const char *name)
{
	int none = instructions(how, orders, 0), one = instructions(how, orders, 1),
	    record = instructions(how, orders, CAPTURE_MAX_ITEMS);

	tap_diag("%s, all arguments and a slice of the stack: %d instructions without items, "
		 "%d with 1, %d with %d",
		 name, none, one, record, CAPTURE_MAX_ITEMS);
	ok(record <= 22 * CAPTURE_MAX_ITEMS, "%s: an item of many takes at most 22 instructions",
	   name);
}

int main(void)
{
	test_nested(FAKE_ARRAY, false, TRAMPOLINE_BLOCK, "array, block");
	test_nested(FAKE_ARRAY, false, TRAMPOLINE_DROP, "array, drop");
	test_nested(FAKE_LIST, true, TRAMPOLINE_BLOCK, "list of pages, block");
	test_nested(FAKE_LIST, true, TRAMPOLINE_DROP, "list of pages, drop");
	test_cost(FAKE_ARRAY, false, "array");
	test_cost(FAKE_BATCH, true, "batch of pages");
	test_cost(FAKE_LIST, true, "list of pages");
	return tap_done();
}
