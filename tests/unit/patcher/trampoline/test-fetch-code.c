/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the code of a dynamic probe records, compared with an interpreter of the same program:
 * random programs on random registers, over memory that is there, or not.
 */
#include <stdio.h>
#include <stdlib.h>
#include "patcher/trampoline/code.h"
#include "tests/lib/fetch-oracle.h"
#include "tests/lib/tap.h"

enum { PROGRAMS = 1500 };

static void test_kind(enum fake_site_kind kind, const struct fetch_helpers *helpers)
{
	struct fetch_draw at_random = {0};
	unsigned int faults = 0, programs = 0;
	bool good = true;

	for (; good && programs < PROGRAMS; programs++) {
		struct fetch_probe probe;
		struct fetch_program program;

		fetch_oracle_fill();
		fetch_draw_probe(&at_random, kind, &probe);
		program = fetch_program_of(&probe, helpers);
		good = fetch_oracle_agrees(kind, &program, &faults);
	}
	ok(good && faults > PROGRAMS / 4,
	   "%s: %u random programs record what the interpreter reads, and %u faults",
	   fake_site_kinds[kind], programs, faults);
}

static void test_missing(void)
{
	const struct fetch_helpers none = {0};
	struct fetch_probe probe;
	struct fetch_program program;
	unsigned int faults = 0;
	struct error err;

	if (fetch_parse("p f +8(%di):u32 %si", &probe, &err))
		abort();
	program = fetch_program_of(&probe, &none);
	fetch_oracle_fill();
	/* what nested calls record */
	ok(program.has_faults && program.bytes == 24, "a probe that reads memory can have faults");
	program.helpers = none;
	for (enum fake_site_kind kind = 0; kind <= FAKE_SHARED; kind++) {
		struct fake_site s;

		fake_site_init(&s, kind);
		fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, NULL);
		s.records[0].fetch = &program;
		ok(fake_site_generate(&s) && fetch_oracle_call(&s, &program, 0, true, &faults) &&
			   faults == 1,
		   "%s: a fetch inside another one of the same CPU records a fault",
		   fake_site_kinds[kind]);
		fake_site_ring(&s.groups[0])->fetching = 0;
		fake_site_clear(&s, 0, FAKE_DATA - RING_SLACK);
		fake_site_prepare(&s);
		fake_site_call(&s);
		ok(fake_site_preserved(&s) && fake_site_recorded(&s, 0, 0) &&
			   fake_site_data(&s.groups[0])[sizeof(struct direct_record)] == 1,
		   "%s: in a guest without the functions it takes, each read is a fault",
		   fake_site_kinds[kind]);
		fake_site_deinit(&s);
	}
}

/* A call while the CPU reads memory, or another one. */
static bool is_recorded(struct fake_site *s, bool fetching)
{
	fake_site_clear(s, 0, FAKE_DATA - RING_SLACK);
	fake_site_ring(&s->groups[0])->fetching = fetching;
	fake_site_prepare(s);
	fake_site_call(s);
	return fake_site_preserved(s) && fake_site_ring(&s->groups[0])->reserve &&
	       fake_site_recorded(s, 0, 0);
}

/* What the guest's functions call that read the memory is none of its calls. */
static void test_guard(void)
{
	for (enum fake_site_kind kind = 0; kind <= FAKE_INSIDE; kind++) {
		struct fake_site s;
		bool good;

		fake_site_init(&s, kind);
		fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, NULL);
		s.records[0].fetching =
			s.records[0].rings.gva + offsetof(struct ring_header, fetching);
		good = fake_site_generate(&s);
		ok(good && is_recorded(&s, false), "%s: a call of the guest's is recorded",
		   fake_site_kinds[kind]);
		ok(good && !is_recorded(&s, true),
		   "%s: one while the CPU reads memory for a record is not", fake_site_kinds[kind]);
		fake_site_deinit(&s);
	}
}

/* With more than 32 fields, the bits of faults are 64. */
static void test_arrays(const struct fetch_helpers *helpers)
{
	static const struct {
		const char *definition;
		uint8_t head;
	} programs[] = {
		{"p f +0(\\0xffff888000000000):u64[64]", FETCH_LARGE_HEAD},
		{"p f +0(\\0xffff888000000010):u8[63] %di", FETCH_LARGE_HEAD},
		{"p f +0(\\0xffff888000000010):u16[30] %di +0(\\0x10):u8[33]", FETCH_LARGE_HEAD},
		{"p f %di +0(\\0x10):u32[31]", FETCH_HEAD},
		{"p f +0(\\0x10):u32[32] +4(\\0xffff888000000000):string", FETCH_LARGE_HEAD},
		{"p f +0(\\0x10):u32[31] +4(\\0xffff888000000000):string", FETCH_HEAD},
	};
	struct fetch_program program;
	struct fetch_probe probe;
	unsigned int faults = 0;
	struct error err;

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		bool good = true;

		if (fetch_parse(programs[i].definition, &probe, &err))
			abort();
		program = fetch_program_of(&probe, helpers);
		for (enum fake_site_kind kind = 0; good && kind <= FAKE_INSIDE; kind++) {
			if (kind == FAKE_SHARED_RETURN || kind == FAKE_PRIVATE_RETURN)
				continue; /* arguments are gone */
			fetch_oracle_fill();
			good = fetch_oracle_agrees(kind, &program, &faults);
		}
		ok(good && program.head == programs[i].head, "'%s' is recorded as it is",
		   programs[i].definition);
	}
}

static void test_literals(const struct fetch_helpers *helpers)
{
	static const char *const texts[] = {"", "a", "seven-c", "eight-ch", "fifteen-letters"};
	struct fetch_program program;
	struct fetch_probe probe;
	unsigned int faults = 0;
	char definition[100];
	struct error err;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		snprintf(definition, sizeof(definition), "p f %%di \\\"%s\" +0(%%di)", texts[i]);
		if (fetch_parse(definition, &probe, &err))
			abort();
		program = fetch_program_of(&probe, helpers);
		fetch_oracle_fill();
		ok(fetch_oracle_agrees(FAKE_SHARED, &program, &faults),
		   "the text \"%s\" is recorded as it is", texts[i]);
	}
}

/* A string is recorded up to its NUL, or up to what there is room for. */
static void test_lengths(const struct fetch_helpers *helpers)
{
	static const size_t lengths[] = {0, 1, 7, 8, 9, 15, 16, 100, 254, 255, 256, 257, 300};
	struct fetch_program program;
	struct fetch_probe probe;
	unsigned int faults = 0;
	struct error err;

	if (fetch_parse(
		    "p f a=+0(\\0xffff888000000000):string n=%di b=+0(\\0xffff888000000001):string",
		    &probe, &err))
		abort();
	program = fetch_program_of(&probe, helpers);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		fetch_oracle_put_text(lengths[i]);
		ok(fetch_oracle_agrees(FAKE_SHARED, &program, &faults),
		   "a string of %zu characters is recorded as it is", lengths[i]);
	}
	/* each is called four times, once inside another one */
	is_u64(faults, 2 * sizeof(lengths) / sizeof(lengths[0]), "and no other call faults");
}

static void test_refused(void)
{
	static const struct fetch_op impossible[] = {
		{.kind = FETCH_REGISTER, .reg = FETCH_USER_REGS},
		{.kind = FETCH_REGISTER, .reg = FETCH_USER_REGS + 1},
		{.kind = FETCH_REGISTER, .reg = FETCH_DI, .at = 64},
		{.kind = FETCH_SYMBOL},
		{.kind = FETCH_DEREF},
		{.kind = FETCH_TEXT},
		{.kind = FETCH_LITERAL}, /* of 16 bytes only */
		{.kind = FETCH_REGISTER, .reg = FETCH_DI, .member = FETCH_DENTRY_NAME},
	};
	struct fetch_probe probe = {.nr_args = 1, .bytes = 8};
	struct fetch_program program;
	struct error err = {0};

	probe.args[0] = (struct fetch_arg){.name = "a", .size = 8, .count = 1, .nr_ops = 1};
	for (size_t i = 0; i < sizeof(impossible) / sizeof(impossible[0]); i++) {
		probe.args[0].ops[0] = impossible[i];
		program = fetch_program_of(&probe, &(struct fetch_helpers){0});
		ok(fetch_check(&program, POINT_ENTRY, &err),
		   "impossible program %zu is refused: %s", i, err.text);
	}
}

int main(void)
{
	const struct fetch_helpers helpers = fetch_oracle_helpers();

	for (enum fake_site_kind kind = 0; kind <= FAKE_INSIDE; kind++)
		test_kind(kind, &helpers);
	test_missing();
	test_guard();
	test_lengths(&helpers);
	test_literals(&helpers);
	test_arrays(&helpers);
	test_refused();
	return tap_done();
}
