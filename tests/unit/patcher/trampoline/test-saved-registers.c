/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probes of registers that the code itself needs: it saves them, and finds all else that lies on
 * the stack beside them.
 */
#include <stdlib.h>
#include <string.h>
#include "patcher/probe/gate.h"
#include "patcher/ring/profile.h"
#include "patcher/trampoline/code.h"
#include "tests/lib/fetch-oracle.h"
#include "tests/lib/tap.h"

enum { RSP = 4, CPUS = 2, OFFSET = 3 * sizeof(struct call_count) };

static const struct fetch_program *program_of(const char *definition,
					      const struct fetch_helpers *helpers)
{
	static struct fetch_probe probe;
	static struct fetch_program program;

	if (fetch_parse(definition, &probe, NULL))
		abort();
	program = fetch_program_of(&probe, helpers);
	return &program;
}

/* The private trampoline's own record says where the call's frame is. */
static bool own_key_is_right(const struct fake_site *s)
{
	const uint16_t at = s->function.trampoline.layout.offset[FIELD_KEY];
	uint64_t key;

	memcpy(&key, fake_site_data(&s->own) + at, sizeof(key));
	return fake_site_is_shared(s) || key == s->cpu->in.reg[RSP] - sizeof(key) - RECORD_KEY_BIAS;
}

static void test_beside(enum fake_site_kind kind, const char *definition,
			const struct fetch_helpers *helpers)
{
	const struct fetch_program *program = program_of(definition, helpers);
	struct gate gate = {.n = 0};
	unsigned int faults = 0;
	struct fake_site s;

	gate_append(&gate, gate_term(GATE_CALL_SITE, GATE_EQ, (uintptr_t)fake_cpu_return_address),
		    NULL);
	fetch_oracle_fill();
	fake_site_init(&s, kind);
	fake_site_add(&s, 0, fake_site_fields(&s) & ~(uint32_t)DIRECT_SYSCALL, TRAMPOLINE_BLOCK,
		      &gate);
	s.records[0].fetch = program;
	fake_site_add(&s, 2, fake_site_fields(&s) & ~(uint32_t)DIRECT_SYSCALL, TRAMPOLINE_BLOCK,
		      &gate);
	ok(fake_site_generate(&s) && fetch_oracle_call(&s, program, 0, false, &faults) &&
		   fake_site_recorded(&s, 0, 0) && fake_site_recorded(&s, 1, 0),
	   "%s: '%s', and what follows it", fake_site_kinds[kind], definition);
	ok(own_key_is_right(&s), "%s: and what is in front of it", fake_site_kinds[kind]);
	fake_site_deinit(&s);
}

/* The count finds its function by the site's return address. */
static void test_counted(enum fake_site_kind kind, const struct fetch_helpers *helpers)
{
	const struct call_counts_layout layout = call_counts_layout(FAKE_DATA, false, false);
	struct count_spec count = {.action = COUNT_HIT, .layout = layout, .offset = OFFSET};
	uint32_t offset = OFFSET;
	struct call_counts counts;
	struct call_totals totals;
	struct fake_site s;

	fake_site_init(&s, kind);
	if (call_counts_init(&counts, &layout, s.groups[0].memory.memory + RING_HEADER_BYTES,
			     ring_stride(FAKE_DATA), CPUS, NULL))
		abort();
	fake_site_add(&s, 2, 0, TRAMPOLINE_BLOCK, NULL);
	s.records[0].fetch = program_of("p f %ax %r10 %r11", helpers);
	fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, NULL);
	s.records[1].count = &count;
	if (!fake_site_generate(&s) ||
	    (kind == FAKE_SHARED &&
	     call_counts_add(&counts, (uint32_t)s.function.site_end, &offset, NULL)))
		abort();
	fake_site_prepare(&s);
	fake_site_call(&s);
	call_counts_read(&counts, offset, false, &totals, NULL);
	ok(totals.hits == 1 && fake_site_preserved(&s), "%s: a call is counted beside it",
	   fake_site_kinds[kind]);
	call_counts_deinit(&counts);
	fake_site_deinit(&s);
}

static int cost(const char *definition, const struct fetch_helpers *helpers)
{
	struct fake_site s;
	int n;

	fake_site_init(&s, FAKE_SHARED);
	fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, NULL);
	s.records[0].fetch = program_of(definition, helpers);
	if (!fake_site_generate(&s))
		abort();
	fake_site_prepare(&s);
	n = fake_site_count(&s);
	fake_site_deinit(&s);
	return n;
}

int main(void)
{
	const struct fetch_helpers helpers = fetch_oracle_helpers();

	for (enum fake_site_kind kind = FAKE_SHARED; kind <= FAKE_PRIVATE; kind++) {
		test_beside(kind, "p f %ax", &helpers);
		test_beside(kind, "p f %r11 %ax %cx %dx +0(%r10):u8", &helpers);
		test_counted(kind, &helpers);
	}
	test_beside(FAKE_SHARED_RETURN, "r f %ax %dx", &helpers);
	test_beside(FAKE_PRIVATE_RETURN, "r f %ax %dx", &helpers);
	is_u64((uint64_t)(cost("p f %ax", &helpers) - cost("p f %di", &helpers)), 3,
	       "a register that is saved takes three instructions: a push, a load, and one for "
	       "all");
	return tap_done();
}
