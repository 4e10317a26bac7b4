/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Measures what one record of a trampoline costs on this CPU, in nanoseconds beyond the call
 * itself. The reader only makes room. Interrupts stay on, because `cli` cannot run in user mode.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "patcher/probe/gate.h"
#include "tests/lib/fake-site.h"

enum { CALLS = 200000, ROUNDS = 100 };

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The best of several rounds, because the machine is not idle. */
static double ns_per_call(const uint8_t *code)
{
	void (*call)(uint64_t, uint64_t) = (void (*)(uint64_t, uint64_t))(uintptr_t)code;
	double best = 0;

	for (int round = 0; round < ROUNDS; round++) {
		double start = now_ns(), each;

		for (uint64_t i = 0; i < CALLS; i++)
			call(i, i);
		each = (now_ns() - start) / CALLS;
		if (!round || each < best)
			best = each;
	}
	return best;
}

static int measure(const char *name, struct capture capture)
{
	struct fake_rings rings = fake_rings_create(1);
	struct fake_cpu *cpu = fake_cpu_enter(0);
	struct trampoline_kernel kernel = fake_cpu_kernel();
	struct trampoline_spec spec = {.capture = capture, .id = 1, .kernel = &kernel};
	struct fake_function f;
	double plain;

	if (!fake_function_create(&spec, &rings, FAKE_RET, &f))
		return EXIT_FAILURE;
	fake_ring(&rings, 0)->limit = UINT64_MAX;
	plain = ns_per_call(f.code + 5); /* the function without its jump */
	printf("%-8s %6.2f ns per record of %u bytes\n", name, ns_per_call(f.code) - plain,
	       f.trampoline.layout.size);
	fake_function_destroy(&f);
	fake_cpu_leave(cpu);
	fake_rings_destroy(&rings);
	return EXIT_SUCCESS;
}

/* Code that sites share; with a gate that says no, what is left of it. */
static int measure_shared(const char *name, const struct gate *gate)
{
	struct fake_site s;

	fake_site_init(&s, FAKE_SHARED);
	fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, gate);
	if (!fake_site_generate(&s))
		return EXIT_FAILURE;
	fake_site_ring(&s.groups[0])->limit = UINT64_MAX;
	printf("%-8s %6.2f ns per record of %u bytes\n", name,
	       ns_per_call(s.function.code) - ns_per_call(s.function.code + 5),
	       direct_layout(0).size);
	fake_site_deinit(&s);
	return EXIT_SUCCESS;
}

static int measure_gate(void)
{
	struct gate gate = {0};

	if (gate_append(&gate, gate_term(GATE_PID, GATE_EQ, UINT32_MAX), NULL))
		return EXIT_FAILURE;
	return measure_shared("refused", &gate);
}

/* kmem_cache_alloc(), kfree(), and any function of the function tracer */
int main(void)
{
	const uint32_t key = CAPTURE(FIELD_KEY), site = CAPTURE(FIELD_CALL_SITE);
	const uint32_t one = CAPTURE(FIELD_ARG0), two = one | CAPTURE(FIELD_ARG1);
	const struct capture entry = {
		.point = POINT_ENTRY, .fields = key | site | two, .parameters = 2};
	const struct capture leave = {.point = POINT_RETURN, .fields = key | CAPTURE(FIELD_RESULT)};
	const struct capture release = {
		.point = POINT_ENTRY, .fields = key | site | one, .parameters = 1};

	return measure("entry", entry) | measure("return", leave) | measure("free", release) |
	       measure_shared("function", NULL) | measure_gate();
}
