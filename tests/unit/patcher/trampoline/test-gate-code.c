/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Gates as code: random ones say the same as the interpreter, for direct records and for those of
 * private trampolines.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "patcher/probe/gate.h"
#include "patcher/trampoline/code.h"
#include "tests/lib/fake-site.h"
#include "tests/lib/tap.h"

enum { PROGRAMS = 4000, CALLS = 12 };

/* --- random gates ---------------------------------------------------------------------------- */

static uint64_t pick(uint64_t n)
{
	return fake_random() % n;
}

/* A number at which comparisons of some size change. */
static uint64_t edge(void)
{
	static const uint64_t edges[] = {0,
					 0x80,
					 0x100,
					 0x8000,
					 0x10000,
					 0x80000000,
					 UINT64_C(0x100000000),
					 UINT64_C(0xffffffff80000000),
					 UINT64_C(0x8000000000000000),
					 UINT64_C(0xffffffffffffff80),
					 UINT64_C(0xffffffffffff8000)};

	if (!pick(8))
		return fake_random();
	return edges[pick(sizeof(edges) / sizeof(edges[0]))] + pick(3) - 1;
}

static uint64_t random_value(enum gate_source source)
{
	if (source == GATE_VCPU && pick(2))
		return pick(3);
	if (source == GATE_CALL_SITE && pick(2))
		return (uint64_t)(uintptr_t)fake_cpu_return_address + pick(3) - 1;
	return edge();
}

/* Often what is found through the task: what its terms leave in a register depends on the way that
 * leads to a term. */
static enum gate_source random_source(uint32_t sources)
{
	enum gate_source source = GATE_PID;

	if (!pick(3))
		return source;
	if (!pick(4) && sources & gate_source_bit(GATE_CGROUP))
		return pick(2) ? GATE_TGID : GATE_CGROUP;
	do
		source = (enum gate_source)pick(GATE_SOURCES);
	while (!(sources & gate_source_bit(source)));
	return source;
}

static struct gate_term random_term(uint32_t sources)
{
	static const uint8_t sizes[] = {1, 2, 4, 8};
	enum gate_source source = random_source(sources);
	struct gate_term t;

	t = gate_term(source, (enum gate_op)pick(GATE_GE + 1), random_value(source));
	if (source <= GATE_ARG5 || source >= GATE_RESULT) {
		t.size = sizes[source <= GATE_RESULT ? pick(4) : 2 + pick(2)];
		t.is_signed = pick(2);
	}
	if (!pick(3))
		t.mask = edge();
	if (!pick(4))
		t.value = 0;
	return t;
}

static uint8_t random_target(unsigned int from, unsigned int n)
{
	uint64_t choice = pick(6);

	if (choice < 3 && from + 1 < n)
		return (uint8_t)(from + 1);
	if (choice == 3 && from + 1 < n)
		return (uint8_t)(from + 1 + pick(n - from - 1));
	return choice & 1 ? GATE_YES : GATE_NO;
}

/* Some terms ask for the same as the one before, as in searches. */
static struct gate random_gate(uint32_t sources)
{
	struct gate gate = {.n = (unsigned int)(1 + pick(pick(20) ? 8 : GATE_MAX_TERMS))};

	for (unsigned int i = 0; i < gate.n; i++) {
		if (i && !pick(3)) {
			gate.terms[i] = gate.terms[i - 1];
			gate.terms[i].op = (enum gate_op)pick(GATE_GE + 1);
		} else {
			gate.terms[i] = random_term(sources);
		}
		gate.terms[i].yes = random_target(i, gate.n);
		gate.terms[i].no = random_target(i, gate.n);
	}
	return gate;
}

/* --- one call -------------------------------------------------------------------------------- */

static uint64_t random_near(const struct gate *gate)
{
	return pick(2) ? gate->terms[pick(gate->n)].value + pick(3) - 1 : edge();
}

/* One of the pointers to the cgroup may be missing; returns whether none is. */
static bool random_path(void)
{
	static void *pointers[FAKE_CGROUP_STEPS];
	const uint64_t missing = pick(2) ? FAKE_CGROUP_STEPS : pick(FAKE_CGROUP_STEPS);

	for (uint64_t i = 0; i < FAKE_CGROUP_STEPS; i++) {
		void **at = fake_site_cgroup_path[i];

		pointers[i] = pointers[i] ? pointers[i] : *at;
		*at = i == missing ? NULL : pointers[i];
	}
	return missing == FAKE_CGROUP_STEPS;
}

/* Values of which some are the gate's own constants, or next to them. */
static void random_call(struct fake_site *s, const struct gate *gate, struct gate_values *out)
{
	fake_site_prepare(s);
	for (unsigned int i = 0; i < CAPTURE_ARGUMENTS; i++) {
		uint64_t value = edge();

		if (pick(2))
			value = gate->terms[pick(gate->n)].value + pick(3) - 1;
		if (!pick(3))
			value ^= fake_random() << (pick(2) ? 32 : 16);
		out->source[GATE_ARG0 + i] = s->cpu->in.reg[fake_argument_regs[i]] = value;
	}
	out->source[GATE_PID] = *fake_site_pid = (uint32_t)random_near(gate);
	out->source[GATE_TGID] = *fake_site_tgid = (uint32_t)random_near(gate);
	*fake_site_cgroup = random_near(gate);
	out->source[GATE_CGROUP] = random_path() ? *fake_site_cgroup : 0;
	out->source[GATE_VCPU] = s->cpu->number;
	out->source[GATE_CALL_SITE] = (uint64_t)(uintptr_t)fake_cpu_return_address;
	out->source[GATE_RESULT] = s->cpu->in.reg[0];
}

static void describe(const struct gate *gate, const struct gate_values *values)
{
	for (unsigned int i = 0; i < gate->n; i++) {
		const struct gate_term *t = &gate->terms[i];

		tap_diag("%u: source %u (%#lx) size %u%s & %#lx op %u %#lx yes %u no %u", i,
			 t->source, values->source[t->source], t->size, t->is_signed ? "s" : "u",
			 t->mask, t->op, t->value, t->yes, t->no);
	}
}

struct verdicts {
	unsigned int yes, no;
};

/* Whether the call wrote to a ring what the gate says. */
static bool as_gate_says(const struct gate *gate, const struct gate_values *values, bool written,
			 struct verdicts *seen)
{
	bool expected = gate_eval(gate, values);

	seen->yes += expected;
	seen->no += !expected;
	if (written != expected) {
		tap_diag("a gate says %s in code", written ? "yes" : "no");
		describe(gate, values);
	}
	return written == expected;
}

/* --- direct records -------------------------------------------------------------------------- */

static bool direct_gate_good(enum fake_site_kind kind, struct verdicts *seen)
{
	const bool returns = kind == FAKE_SHARED_RETURN || kind == FAKE_PRIVATE_RETURN;
	const struct gate gate = random_gate(
		returns ? gate_call_sources | gate_source_bit(GATE_CGROUP) |
				  gate_source_bit(GATE_CALL_SITE) | gate_source_bit(GATE_VCPU)
			: ~(gate_syscall_sources | gate_source_bit(GATE_RESULT)));
	struct gate_values values;
	struct fake_site s;
	bool good;

	fake_site_init(&s, kind);
	fake_site_add(&s, 2, 0, TRAMPOLINE_BLOCK, &gate);
	fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, NULL);
	good = !gate_check(&gate, NULL) && fake_site_generate(&s);
	for (int i = 0; i < CALLS && good; i++) {
		fake_site_clear(&s, 0, FAKE_DATA - RING_SLACK);
		random_call(&s, &gate, &values);
		fake_site_call(&s);
		good = fake_site_preserved(&s) && fake_site_recorded(&s, 1, 0) &&
		       as_gate_says(&gate, &values, fake_site_ring(&s.groups[2])->reserve, seen);
	}
	fake_site_deinit(&s);
	return good;
}

/* A struct pt_regs of 64-bit calls. */
static uint64_t registers[21];

/* At a return they lie on the task's stack. */
static void random_syscall(struct fake_site *s, const struct gate *gate, struct gate_values *out)
{
	random_call(s, gate, out);
	if (fake_site_is_return(s)) {
		*fake_site_stack = (uint64_t)(uintptr_t)registers - s->kernel.user_regs;
		if (pick(2))
			s->cpu->in.reg[0] = random_near(gate);
		out->source[GATE_RESULT] = s->cpu->in.reg[0];
	} else {
		s->cpu->in.reg[fake_argument_regs[0]] = (uint64_t)(uintptr_t)registers;
	}
	for (unsigned int i = 0; i < 21; i++)
		registers[i] = pick(2) ? random_near(gate) : fake_random();
	for (unsigned int i = GATE_SYSCALL; i < GATE_SOURCES; i++)
		out->source[i] = registers[gate_syscall_place((enum gate_source)i) / 8];
}

static bool syscall_gate_good(enum fake_site_kind kind, struct verdicts *seen)
{
	const bool returns = kind != FAKE_SHARED;
	const struct gate gate = random_gate(gate_syscall_sources | gate_source_bit(GATE_PID) |
					     gate_source_bit(GATE_CALL_SITE) |
					     (returns ? gate_source_bit(GATE_RESULT) : 0u));
	struct gate_values values;
	struct fake_site s;
	bool good;

	fake_site_init(&s, kind);
	fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, &gate);
	good = !gate_check(&gate, NULL) && fake_site_generate(&s);
	for (int i = 0; i < CALLS && good; i++) {
		fake_site_clear(&s, 0, FAKE_DATA - RING_SLACK);
		random_syscall(&s, &gate, &values);
		fake_site_call(&s);
		good = fake_site_preserved(&s) &&
		       as_gate_says(&gate, &values, fake_site_ring(&s.groups[0])->reserve, seen);
	}
	fake_site_deinit(&s);
	return good;
}

static void test_syscalls(enum fake_site_kind kind, const char *name)
{
	struct verdicts seen = {0};
	bool good = true;

	for (int i = 0; i < PROGRAMS && good; i++)
		good = syscall_gate_good(kind, &seen);
	ok(good && seen.yes > PROGRAMS && seen.no > PROGRAMS,
	   "%s: %d random gates on what system calls are given: %u pass, %u do not", name, PROGRAMS,
	   seen.yes, seen.no);
}

static void test_direct(enum fake_site_kind kind, const char *name)
{
	struct verdicts seen = {0};
	bool good = true;

	for (int i = 0; i < PROGRAMS && good; i++)
		good = direct_gate_good(kind, &seen);
	ok(good, "%s: %d random gates say in code what they say on the host", name, PROGRAMS);
	ok(seen.yes > PROGRAMS && seen.no > PROGRAMS, "%s: %u calls pass, %u do not", name,
	   seen.yes, seen.no);
}

/* --- private trampolines --------------------------------------------------------------------- */

static bool private_gate_good(enum probe_point point, struct verdicts *seen)
{
	uint32_t sources = point == POINT_ENTRY
				   ? ~(gate_syscall_sources | gate_source_bit(GATE_RESULT))
				   : gate_call_sources;
	const struct gate gate = random_gate(sources);
	struct gate_values values;
	struct fake_site s;
	bool good;

	fake_site_init(&s, FAKE_PRIVATE);
	s.spec.gate = &gate;
	s.spec.capture = fake_capture(point, CAPTURE(FIELD_KEY), 0);
	if (point == POINT_ENTRY)
		fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, NULL);
	good = fake_site_generate(&s);
	for (int i = 0; i < CALLS && good; i++) {
		fake_site_clear(&s, 0, FAKE_DATA - RING_SLACK);
		random_call(&s, &gate, &values);
		fake_site_call(&s);
		if (point == POINT_ENTRY)
			good = fake_site_preserved(&s) && fake_site_recorded(&s, 0, 0);
		else
			good = s.cpu->in.reg[0] == s.cpu->out.reg[0];
		good &= as_gate_says(&gate, &values, fake_site_ring(&s.own)->reserve, seen);
	}
	fake_site_deinit(&s);
	return good;
}

static void test_private(enum probe_point point, const char *name)
{
	struct verdicts seen = {0};
	bool good = true;

	for (int i = 0; i < PROGRAMS / 4 && good; i++)
		good = private_gate_good(point, &seen);
	ok(good && seen.yes > 100 && seen.no > 100,
	   "%s: a private trampoline's gate decides about its own record only", name);
}

/* --- pids in memory -------------------------------------------------------------------------- */

/* While the same code is there, other tasks pass. */
static void test_pids(enum probe_point point, const char *name)
{
	struct verdicts seen = {0};
	struct pid_gate gate = {.on = true};
	uint8_t *pids = fake_cpu_map_low(PID_GATE_BUCKETS, PROT_READ | PROT_WRITE);
	struct fake_site s;
	bool good;

	fake_site_init(&s, FAKE_PRIVATE);
	s.spec.pids = (uint64_t)(uintptr_t)pids;
	s.spec.capture = fake_capture(point, CAPTURE(FIELD_KEY), 0);
	good = fake_site_generate(&s);
	for (int i = 0; i < PROGRAMS && good; i++) {
		const uint32_t pid = (uint32_t)edge();
		bool written;

		gate.pass[pid % PID_GATE_BUCKETS] = pids[pid % PID_GATE_BUCKETS] = (uint8_t)pick(2);
		fake_site_clear(&s, 0, FAKE_DATA - RING_SLACK);
		fake_site_prepare(&s);
		*fake_site_pid = pid;
		fake_site_call(&s);
		written = fake_site_ring(&s.own)->reserve;
		seen.yes += written;
		seen.no += !written;
		good = written == pid_gate_passes(&gate, pid) &&
		       (point == POINT_ENTRY ? fake_site_preserved(&s)
					     : s.cpu->in.reg[0] == s.cpu->out.reg[0]);
	}
	fake_site_deinit(&s);
	munmap(pids, PID_GATE_BUCKETS);
	ok(good && seen.yes > PROGRAMS / 4 && seen.no > PROGRAMS / 4,
	   "%s: calls of the tasks in memory are recorded (%u, not %u)", name, seen.yes, seen.no);
}

/* Calls about many objects, with an array that the gate's calls save, or without items. */
static bool array_gate_good(const struct capture_items *items, bool accepted)
{
	enum { PID = 77, RSI = 6, RDI = 7 };
	struct gate gate = {0};
	uint64_t array[2] = {0};
	struct fake_site s;
	bool written, saved, good;

	if (gate_append(&gate, gate_term(GATE_PID, GATE_EQ, PID), NULL))
		abort();
	fake_site_init(&s, FAKE_PRIVATE);
	s.spec.gate = &gate;
	s.spec.capture.items = *items;
	fake_site_add(&s, 0, DIRECT_PARENT, TRAMPOLINE_BLOCK, NULL);
	if (!fake_site_generate(&s))
		abort();
	fake_site_prepare(&s);
	s.cpu->in.reg[RDI] = (uint64_t)(uintptr_t)array;
	s.cpu->in.reg[RSI] = 2;
	*fake_site_pid = accepted ? PID : PID + 1;
	fake_site_call(&s);
	written = fake_site_ring(&s.own)->reserve;
	saved = false;
	for (int i = 0; i < RING_SAVED_SLOTS; i++)
		saved |= s.own.memory.saved_arrays[i].key != 0;
	good = fake_site_preserved(&s) && fake_site_recorded(&s, 0, 0) && written == accepted &&
	       saved == (accepted && items->from == ITEMS_SAVED);
	fake_site_deinit(&s);
	return good;
}

static void test_arrays(void)
{
	static const struct capture_items array = {.from = ITEMS_ARRAY, .pointer = 0, .count = 1},
					  saved = {.from = ITEMS_SAVED,
						   .pointer = 0,
						   .count = 1,
						   .skip_filled = true};

	ok(array_gate_good(&array, true) && array_gate_good(&array, false),
	   "a gate decides about all records of a call with items");
	ok(array_gate_good(&saved, true) && array_gate_good(&saved, false),
	   "a call that a gate refuses saves no array");
}

static int private_refusal(enum gate_source source, enum probe_point point, uint8_t parameters)
{
	struct trampoline_kernel kernel = fake_cpu_kernel();
	struct gate gate = {0};
	struct trampoline_spec spec = {.gva = UINT64_C(0xffffffff80000000),
				       .capture = fake_capture(point, CAPTURE(FIELD_KEY), 0),
				       .rings = {UINT64_C(0xffffffffa0000000), FAKE_DATA, 4, 0},
				       .kernel = &kernel,
				       .next = UINT64_C(0xffffffff81000000),
				       .gate = &gate};
	struct decoder *decoder;
	struct trampoline out;
	int ret;

	if (gate_append(&gate, gate_term(source, GATE_EQ, 1), NULL) ||
	    decoder_create(&decoder, NULL))
		abort();
	spec.capture.parameters = parameters;
	ret = trampoline_generate(&spec, decoder, &out, NULL);
	decoder_destroy(decoder);
	return ret;
}

static bool direct_refusal(enum gate_source source, enum probe_point point)
{
	const struct trampoline_kernel kernel = fake_cpu_kernel();
	struct gate gate = {0};
	const struct direct_spec record = {.rings = {UINT64_C(0xffffffffa0000000), FAKE_DATA, 4, 0},
					   .gate = &gate};

	if (gate_append(&gate, gate_term(source, GATE_EQ, 1), NULL))
		abort();
	return direct_check(&record, 1, point, &kernel, NULL) == -EINVAL;
}

static void test_refusals(void)
{
	ok(!private_refusal(GATE_ARG1, POINT_ENTRY, 2) &&
		   private_refusal(GATE_ARG2, POINT_ENTRY, 2) == -EINVAL,
	   "a gate on an argument that the function does not have is refused");
	ok(!private_refusal(GATE_PID, POINT_RETURN, 0) &&
		   !private_refusal(GATE_TGID, POINT_RETURN, 0) &&
		   private_refusal(GATE_CGROUP, POINT_RETURN, 0) == -EINVAL &&
		   private_refusal(GATE_ARG0, POINT_RETURN, 0) == -EINVAL &&
		   private_refusal(GATE_VCPU, POINT_RETURN, 0) == -EINVAL &&
		   private_refusal(GATE_CALL_SITE, POINT_RETURN, 0) == -EINVAL &&
		   private_refusal(GATE_RESULT, POINT_RETURN, 0) == -EINVAL,
	   "a return's gate may ask for pid and tgid only");
	ok(direct_refusal(GATE_RESULT, POINT_ENTRY) && direct_refusal(GATE_RESULT, POINT_INSIDE) &&
		   !direct_refusal(GATE_RESULT, POINT_RETURN),
	   "that of a direct record may ask for the result");
	ok(direct_refusal(GATE_ARG0, POINT_RETURN) && direct_refusal(GATE_ARG5, POINT_RETURN) &&
		   !direct_refusal(GATE_VCPU, POINT_RETURN) &&
		   !direct_refusal(GATE_SYSCALL, POINT_RETURN) &&
		   direct_refusal(GATE_SYSCALL, POINT_INSIDE),
	   "and for all but arguments in registers");
}

int main(void)
{
	test_syscalls(FAKE_SHARED, "shared");
	test_syscalls(FAKE_SHARED_RETURN, "shared return");
	test_syscalls(FAKE_PRIVATE_RETURN, "private return");
	test_direct(FAKE_SHARED, "shared");
	test_direct(FAKE_PRIVATE, "private");
	test_direct(FAKE_SHARED_RETURN, "shared return");
	test_direct(FAKE_PRIVATE_RETURN, "private return");
	test_private(POINT_ENTRY, "entry");
	test_private(POINT_RETURN, "return");
	test_pids(POINT_ENTRY, "entry");
	test_pids(POINT_RETURN, "return");
	test_arrays();
	test_refusals();
	return tap_done();
}
