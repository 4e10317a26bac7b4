/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What gates cost when they say no, in instructions. */
#include <stdlib.h>
#include <sys/mman.h>
#include "patcher/probe/gate.h"
#include "tests/lib/fake-site.h"
#include "tests/lib/tap.h"

enum { LIST_MAX = 15, NO_COST = 12 };

/* Instructions of a call beyond those of entering and leaving; -1 = it says yes. */
static int cost(struct fake_site *s, const struct gate_values *values)
{
	enum { AROUND = 9 }; /* call, pushf, cli, imul; pop, test, je, sti, ret */
	int count;

	fake_site_clear(s, 0, FAKE_DATA - RING_SLACK);
	for (unsigned int i = 0; i < CAPTURE_ARGUMENTS; i++)
		s->cpu->in.reg[fake_argument_regs[i]] = values->source[GATE_ARG0 + i];
	*fake_site_pid = (uint32_t)values->source[GATE_PID];
	*fake_site_tgid = (uint32_t)values->source[GATE_TGID];
	*fake_site_cgroup = values->source[GATE_CGROUP];
	count = fake_site_count(s);
	if (fake_site_ring(&s->groups[0])->reserve)
		return -1;
	return count - AROUND;
}

static int max(int a, int b)
{
	return a > b ? a : b;
}

/* The most that any of these values costs when it is refused. */
static int refused_cost(const struct gate *gate, const uint64_t *tries, size_t n)
{
	struct fake_site s;
	int most = -1;

	fake_site_init(&s, FAKE_SHARED);
	fake_site_add(&s, 0, 0, TRAMPOLINE_BLOCK, gate);
	if (!fake_site_generate(&s))
		abort();
	for (size_t i = 0; i < n; i++) {
		struct gate_values values;

		fake_site_prepare(&s);
		for (int source = 0; source < GATE_SOURCES; source++)
			values.source[source] = tries[i];
		most = max(most, cost(&s, &values));
	}
	fake_site_deinit(&s);
	return most;
}

/* Of one term, with values on both sides of the constant. */
static int term_cost(struct gate_term term)
{
	const uint64_t tries[] = {0, 1, term.value - 1, term.value + 1, UINT64_MAX};
	struct gate gate = {0};

	if (gate_append(&gate, term, NULL))
		abort();
	return refused_cost(&gate, tries, sizeof(tries) / sizeof(tries[0]));
}

static int source_cost(enum gate_source source, uint8_t size, bool is_signed)
{
	static const uint64_t masks[] = {UINT64_MAX, 0xc00, UINT64_C(0xff00000000)};
	static const uint64_t values[] = {0, 0x1000, 0x80000000, UINT64_C(0x123456789abc)};
	int most = -1;

	for (enum gate_op op = GATE_EQ; op <= GATE_GE; op++)
		for (int mask = 0; mask < 3; mask++)
			for (int value = 0; value < 4; value++)
				most = max(most, term_cost((struct gate_term){
							 source, size, is_signed, op, 0, 0,
							 masks[mask], values[value]}));
	return most;
}

static void test_term_cost(void)
{
	int most =
		max(max(source_cost(GATE_PID, 4, true), source_cost(GATE_PID, 4, false)),
		    max(source_cost(GATE_VCPU, 4, false), source_cost(GATE_CALL_SITE, 8, false)));

	for (uint8_t size = 1; size <= 8; size *= 2)
		most = max(most, max(source_cost(GATE_ARG2, size, false),
				     source_cost(GATE_ARG2, size, true)));
	tap_diag("a term that says no takes at most %d instructions", most);
	ok(most > 1 && most <= NO_COST, "a predicate that says no takes at most %d instructions",
	   NO_COST);
}

/* Of the ordered lane's code, when a task is refused. */
static void test_pids_cost(void)
{
	enum { AROUND = 9 }; /* jmp, pushf, cli, imul; pop, test, je, sti, jmp */
	void *pids = fake_cpu_map_low(PID_GATE_BUCKETS, PROT_READ | PROT_WRITE);
	struct fake_site s;

	fake_site_init(&s, FAKE_PRIVATE);
	s.spec.pids = (uint64_t)(uintptr_t)pids;
	if (!fake_site_generate(&s))
		abort();
	fake_site_clear(&s, 0, FAKE_DATA - RING_SLACK);
	fake_site_prepare(&s);
	is_u64((uint64_t)(fake_site_count(&s) - AROUND), 5,
	       "a task that is not among the pids in memory");
	ok(!fake_site_ring(&s.own)->reserve, "is not recorded");
	fake_site_deinit(&s);
	munmap(pids, PID_GATE_BUCKETS);
}

static void test_simple_costs(void)
{
	const struct {
		struct gate_term term;
		uint64_t refused;
		int expected;
		const char *name;
	} rows[] = {
		{gate_term(GATE_PID, GATE_EQ, 1234), 1, 3, "pid == N"},
		{gate_term(GATE_TGID, GATE_EQ, 1234), 1, 3, "tgid == N"},
		{gate_term(GATE_CGROUP, GATE_EQ, 1234), 1, 13, "cgroup == N"},
		{gate_term(GATE_ARG0, GATE_GT, 4096), 1, 2, "bytes_req > N"},
		{gate_term(GATE_VCPU, GATE_EQ, 7), 0, 2, "vcpu == N"},
		{{GATE_ARG1, 4, false, GATE_NE, 0, 0, 0x400, 0}, 0x100, 2, "gfp_flags & N"},
		{gate_term(GATE_CALL_SITE, GATE_LT, 4096), 0, 2, "call_site < N"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gate gate = {0};

		if (gate_append(&gate, rows[i].term, NULL))
			abort();
		is_u64((uint64_t)refused_cost(&gate, &rows[i].refused, 1),
		       (uint64_t)rows[i].expected, rows[i].name);
	}
}

static void test_list_cost(void)
{
	uint64_t pids[LIST_MAX], tries[2 * LIST_MAX + 1];
	int most = -1;

	for (uint64_t i = 0; i < LIST_MAX; i++)
		pids[i] = 100 + 2 * i;
	for (uint64_t i = 0; i < 2 * LIST_MAX + 1; i++)
		tries[i] = 99 + i;
	for (size_t n = 1; n <= LIST_MAX; n++) {
		struct gate gate = {0};

		if (gate_append_list(&gate, gate_term(GATE_PID, GATE_EQ, 0), pids, n, NULL))
			abort();
		most = max(most, refused_cost(&gate, tries, 2 * LIST_MAX + 1));
	}
	tap_diag("a pid that is not among %d is refused by at most %d instructions", LIST_MAX,
		 most);
	ok(most > 6 && most <= NO_COST,
	   "a list of %d pids that says no takes at most %d instructions", LIST_MAX, NO_COST);
}

/* The first term that decides ends it. */
static void test_and_cost(void)
{
	const uint64_t zero = 0;
	struct gate gate = {0};

	for (unsigned int i = 0; i < 20; i++) {
		if (gate_append(&gate, gate_term(GATE_ARG0, GATE_GT, i), NULL))
			abort();
		if (i)
			gate_and(&gate, 0, i);
	}
	is_u64((uint64_t)refused_cost(&gate, &zero, 1), 2,
	       "the first of twenty joined terms refuses by two instructions");
}

int main(void)
{
	test_term_cost();
	test_simple_costs();
	test_pids_cost();
	test_list_cost();
	test_and_cost();
	return tap_done();
}
