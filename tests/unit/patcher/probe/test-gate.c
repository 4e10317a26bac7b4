/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Gates as data: construction, checks, evaluation. */
#include <errno.h>
#include <stdlib.h>
#include "patcher/probe/gate.h"
#include "tests/lib/tap.h"

static const enum gate_source one = GATE_ARG0, second = GATE_ARG1;

static bool eval1(const struct gate *gate, enum gate_source source, uint64_t value)
{
	struct gate_values values = {0};

	values.source[source] = value;
	return gate_eval(gate, &values);
}

static void append(struct gate *gate, enum gate_source source, enum gate_op op, uint64_t value)
{
	if (gate_append(gate, gate_term(source, op, value), NULL))
		abort();
}

static bool term_says(struct gate_term term, uint64_t source)
{
	struct gate gate = {0};

	return !gate_append(&gate, term, NULL) && !gate_check(&gate, NULL) &&
	       eval1(&gate, term.source, source);
}

static void test_terms(void)
{
	struct gate_term t = {.source = one, .size = 4, .mask = UINT64_MAX, .op = GATE_LT};
	const uint64_t high = UINT64_C(0xabcdef0100000000);

	ok(eval1(&(struct gate){.n = 0}, one, 5), "a gate without terms says yes");
	t.value = 10;
	ok(term_says(t, high | 9) && !term_says(t, high | 10),
	   "a value of 4 bytes is compared without what lies above");
	ok(!term_says(t, 0xffffffff), "an unsigned value is zero-extended");
	t.is_signed = true;
	ok(term_says(t, 0xffffffff) && !term_says(t, 10), "a signed value is sign-extended");
	t.value = (uint64_t)-1;
	t.op = GATE_EQ;
	ok(term_says(t, high | 0xffffffff), "a signed value equals the same number of 64 bits");
	t.size = 1;
	t.op = GATE_GE;
	ok(term_says(t, 0x7f) && term_says(t, 0xff) && !term_says(t, 0xfe),
	   "one byte is compared with its sign");
	t = (struct gate_term){.source = one, .size = 8, .mask = 0xc00, .op = GATE_NE};
	ok(term_says(t, 0x400) && term_says(t, 0x1800) && !term_says(t, 0x1000),
	   "a mask selects bits");
	t.op = GATE_GT;
	t.value = 0x400;
	ok(term_says(t, 0x1800) && !term_says(t, 0x1400) && !term_says(t, 0xffff000000000000),
	   "masked bits are compared as a number");
	for (uint64_t x = 4; x <= 6; x++) {
		ok(term_says(gate_term(one, GATE_EQ, 5), x) == (x == 5) &&
			   term_says(gate_term(one, GATE_NE, 5), x) == (x != 5) &&
			   term_says(gate_term(one, GATE_LT, 5), x) == (x < 5) &&
			   term_says(gate_term(one, GATE_LE, 5), x) == (x <= 5) &&
			   term_says(gate_term(one, GATE_GT, 5), x) == (x > 5) &&
			   term_says(gate_term(one, GATE_GE, 5), x) == (x >= 5),
		   "the six operators compare %d with 5", (int)x);
	}
}

/* For all values of a and b: (a == 1 || a == 2) && !(b == 3 && a != 1), and with other joins. */
static void test_joins(void)
{
	struct gate gate = {0};
	unsigned int right, inner;
	bool good = true;

	append(&gate, one, GATE_EQ, 1);
	append(&gate, one, GATE_EQ, 2);
	gate_or(&gate, 0, 1);
	right = gate.n;
	append(&gate, second, GATE_EQ, 3);
	inner = gate.n;
	append(&gate, one, GATE_NE, 1);
	gate_and(&gate, right, inner);
	gate_not(&gate, right);
	gate_and(&gate, 0, right);
	ok(!gate_check(&gate, NULL), "a gate joined from several operands leads forward");
	is_u64(gate_sources(&gate), 3, "a gate knows the sources that it reads");
	for (uint64_t a = 0; a < 5; a++)
		for (uint64_t b = 0; b < 5; b++) {
			const struct gate_values values = {{a, b}};
			bool expected = (a == 1 || a == 2) && !(b == 3 && a != 1);

			good &= gate_eval(&gate, &values) == expected;
		}
	ok(good, "AND, OR and NOT join operands as in C");
}

static bool list_good(size_t n, bool is_signed)
{
	struct gate_term like = gate_term(one, GATE_EQ, 0);
	struct gate gate = {0};
	uint64_t values[GATE_MAX_TERMS];

	like.is_signed = is_signed;
	for (size_t i = 0; i < n; i++)
		values[i] = 3 * i - (is_signed ? 20u : 0u);
	if (gate_append_list(&gate, like, values, n, NULL) || gate_check(&gate, NULL))
		return false;
	for (uint64_t x = 0; x < 3 * n + 5; x++) {
		uint64_t value = x - (is_signed ? 20u : 0u);

		if (eval1(&gate, one, value) != (x % 3 == 0 && x < 3 * n))
			return false;
	}
	return true;
}

/* The sets of a few small numbers, each value in it or not. */
static bool runs_good(uint64_t set)
{
	struct gate gate = {0};
	uint64_t values[64];
	size_t n = 0;

	for (uint64_t left = set; left; left &= left - 1)
		values[n++] = (uint64_t)__builtin_ctzll(left);
	if (gate_append_list(&gate, gate_term(one, GATE_EQ, 0), values, n, NULL) ||
	    gate_check(&gate, NULL))
		return false;
	for (uint64_t x = 0; x < 64; x++)
		if (eval1(&gate, one, x) != (set >> x & 1))
			return false;
	return !eval1(&gate, one, 64) && !eval1(&gate, one, UINT64_MAX);
}

static void test_runs(void)
{
	struct gate gate = {0};
	uint64_t values[64];
	bool good = true;

	for (uint64_t i = 0; i < 64; i++)
		values[i] = i;
	ok(!gate_append_list(&gate, gate_term(one, GATE_EQ, 0), values, 64, NULL) && gate.n == 2,
	   "values that follow each other take two terms");
	for (uint64_t set = 1; set < 1 << 12; set++)
		good &= runs_good(set) && runs_good(set << 52) && runs_good(set * 0x1001001001);
	ok(good, "they are found, and no others");
}

static void test_lists(void)
{
	const uint64_t unsorted[] = {1, 3, 2}, twice[] = {1, 1};
	struct gate_term like = gate_term(one, GATE_EQ, 0);
	uint64_t values[GATE_MAX_TERMS + 1];
	struct gate gate = {0}, long_list = {0};
	bool good = true;

	for (size_t n = 1; n <= 40; n++)
		good &= list_good(n, false) && list_good(n, true);
	ok(good, "a list finds its values and no others, unsigned and signed");
	for (size_t i = 0; i <= GATE_MAX_TERMS; i++)
		values[i] = 2 * i;
	ok(!gate_append_list(&long_list, like, values, 48, NULL), "48 values have room");
	append(&gate, one, GATE_EQ, 1);
	ok(gate_append_list(&gate, like, values, GATE_MAX_TERMS + 1, NULL) == -E2BIG && gate.n == 1,
	   "a list that is too long is refused and leaves the gate as it was");
	ok(gate_append_list(&gate, like, values, 0, NULL) == -EINVAL, "an empty list is refused");
	ok(gate_append_list(&gate, like, unsorted, 3, NULL) == -EINVAL &&
		   gate_append_list(&gate, like, twice, 2, NULL) == -EINVAL,
	   "a list that is not sorted, or has doubles, is refused");
}

/* a in {1, 4, 7} and b > 2, each a gate of its own. */
static void test_conjoin(void)
{
	const uint64_t list[] = {1, 4, 7};
	struct gate gate = {0}, other = {0}, none = {0}, full = {0};
	bool good = true;

	if (gate_append_list(&other, gate_term(one, GATE_EQ, 0), list, 3, NULL))
		abort();
	append(&gate, second, GATE_GT, 2);
	ok(!gate_conjoin(&gate, &other, NULL) && !gate_check(&gate, NULL) && gate.n == other.n + 1,
	   "two gates are joined");
	for (uint64_t a = 0; a < 9; a++)
		for (uint64_t b = 0; b < 5; b++) {
			const struct gate_values values = {{a, b}};

			good &= gate_eval(&gate, &values) == (a % 3 == 1 && b > 2);
		}
	ok(good, "the joined gate says yes where both did");
	ok(!gate_conjoin(&gate, &none, NULL) && gate.n == other.n + 1 &&
		   !gate_conjoin(&none, &other, NULL) && none.n == other.n && eval1(&none, one, 4),
	   "a gate without terms changes nothing");
	for (int i = 0; i < GATE_MAX_TERMS - 1; i++)
		append(&full, one, GATE_EQ, 1);
	ok(gate_conjoin(&full, &other, NULL) == -E2BIG && full.n == GATE_MAX_TERMS - 1,
	   "gates that are too long together are refused");
}

static int check(struct gate_term term, uint8_t yes, uint8_t no)
{
	struct gate gate = {.n = 2};

	term.yes = yes;
	term.no = no;
	gate.terms[0] = term;
	gate.terms[1] = gate_term(one, GATE_EQ, 0);
	gate.terms[1].yes = GATE_YES;
	gate.terms[1].no = GATE_NO;
	return gate_check(&gate, NULL);
}

static void test_checks(void)
{
	const struct gate_term good = gate_term(one, GATE_EQ, 0);
	struct gate_term bad = good;
	struct gate full = {0};

	ok(!check(good, 1, GATE_NO), "a term that leads to a later one is accepted");
	ok(check(good, 0, GATE_NO) == -EINVAL, "a term that leads to itself is refused");
	ok(check(good, GATE_YES, 2) == -EINVAL, "a term that leads behind the end is refused");
	bad.source = GATE_SOURCES;
	ok(check(bad, 1, 1) == -EINVAL, "an unknown source is refused");
	bad = good;
	bad.op = GATE_GE + 1;
	ok(check(bad, 1, 1) == -EINVAL, "an unknown operator is refused");
	bad = good;
	bad.size = 3;
	ok(check(bad, 1, 1) == -EINVAL, "a value of three bytes is refused");
	bad = gate_term(GATE_PID, GATE_EQ, 0);
	bad.size = 8;
	ok(check(bad, 1, 1) == -EINVAL, "a pid of eight bytes is refused");
	bad = gate_term(GATE_CALL_SITE, GATE_EQ, 0);
	bad.is_signed = true;
	ok(check(bad, 1, 1) == -EINVAL, "a signed address is refused");
	ok(gate_check(&(struct gate){.n = GATE_MAX_TERMS + 1}, NULL) == -EINVAL,
	   "a gate with too many terms is refused");
	for (int i = 0; i < GATE_MAX_TERMS; i++)
		append(&full, one, GATE_EQ, 0);
	ok(gate_append(&full, good, NULL) == -E2BIG && full.n == GATE_MAX_TERMS,
	   "a gate takes no more than its terms");
}

int main(void)
{
	test_terms();
	test_joins();
	test_lists();
	test_runs();
	test_conjoin();
	test_checks();
	return tap_done();
}
