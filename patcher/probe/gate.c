/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/probe/gate.h"

#include <errno.h>
#include <stdlib.h>
#include "formats/event/task.h"

/* --- construction ---------------------------------------------------------------------------- */

struct gate_term gate_term(enum gate_source source, enum gate_op op, uint64_t value)
{
	const bool is_pid = source == GATE_PID || source == GATE_TGID;

	return (struct gate_term){.source = source,
				  .size = is_pid || source == GATE_VCPU ? 4 : 8,
				  .is_signed = is_pid,
				  .op = op,
				  .mask = UINT64_MAX,
				  .value = value};
}

static int too_many(struct error *err)
{
	return error_set(err, E2BIG, "more than %d terms are too many for the guest",
			 GATE_MAX_TERMS);
}

int gate_append(struct gate *gate, struct gate_term term, struct error *err)
{
	if (gate->n >= GATE_MAX_TERMS)
		return too_many(err);
	term.yes = GATE_YES;
	term.no = GATE_NO;
	gate->terms[gate->n++] = term;
	return 0;
}

static bool less(uint64_t a, uint64_t b, bool is_signed)
{
	return is_signed ? (int64_t)a < (int64_t)b : a < b;
}

/* Values that follow each other. */
struct run {
	uint64_t first, last;
};

/* At most n. */
static size_t find_runs(const uint64_t *values, size_t n, struct run *out)
{
	size_t nr_runs = 0;

	for (size_t i = 0; i < n; i++) {
		if (nr_runs && values[i] == out[nr_runs - 1].last + 1)
			out[nr_runs - 1].last = values[i];
		else
			out[nr_runs++] = (struct run){values[i], values[i]};
	}
	return nr_runs;
}

static int append_op(struct gate *gate, struct gate_term like, enum gate_op op, uint64_t value,
		     struct error *err)
{
	like.op = op;
	like.value = value;
	return gate_append(gate, like, err);
}

static int append_tree(struct gate *gate, struct gate_term like, const struct run *runs, size_t n,
		       struct error *err);

/* A node of one value is `== value`, and `< value` if there is something on both sides. */
static int append_value(struct gate *gate, struct gate_term like, const struct run *runs, size_t n,
			struct error *err)
{
	const size_t middle = n / 2;
	const unsigned int at = gate->n;
	int ret = append_op(gate, like, GATE_EQ, runs[middle].first, err);

	if (ret || n == 1)
		return ret;
	gate->terms[at].no = (uint8_t)gate->n;
	if (n == 2)
		return append_tree(gate, like, runs, 1, err);
	ret = append_op(gate, like, GATE_LT, runs[middle].first, err);
	if (ret)
		return ret;
	gate->terms[at + 1].yes = (uint8_t)gate->n;
	ret = append_tree(gate, like, runs, middle, err);
	gate->terms[at + 1].no = (uint8_t)gate->n;
	return ret ? ret : append_tree(gate, like, runs + middle + 1, n - middle - 1, err);
}

/* A node of several values is `> last`, then `>= first`. */
static int append_run(struct gate *gate, struct gate_term like, const struct run *runs, size_t n,
		      struct error *err)
{
	const size_t middle = n / 2, behind = n - middle - 1;
	const unsigned int at = gate->n;
	int ret = append_op(gate, like, GATE_GT, runs[middle].last, err);

	if (!ret)
		ret = append_op(gate, like, GATE_GE, runs[middle].first, err);
	if (ret)
		return ret;
	gate->terms[at].yes = GATE_NO;
	gate->terms[at].no = (uint8_t)(at + 1);
	if (middle) {
		gate->terms[at + 1].no = (uint8_t)gate->n;
		ret = append_tree(gate, like, runs, middle, err);
	}
	if (ret || !behind)
		return ret;
	gate->terms[at].yes = (uint8_t)gate->n;
	return append_tree(gate, like, runs + middle + 1, behind, err);
}

/* A search tree. */
static int append_tree(struct gate *gate, struct gate_term like, const struct run *runs, size_t n,
		       struct error *err)
{
	const struct run *middle = &runs[n / 2];

	return middle->first == middle->last ? append_value(gate, like, runs, n, err)
					     : append_run(gate, like, runs, n, err);
}

int gate_append_list(struct gate *gate, struct gate_term like, const uint64_t *values, size_t n,
		     struct error *err)
{
	unsigned int before = gate->n;
	struct run *runs;
	int ret;

	if (!n)
		return error_set(err, EINVAL, "a list of values is empty");
	for (size_t i = 1; i < n; i++)
		if (!less(values[i - 1], values[i], like.is_signed))
			return error_set(err, EINVAL, "a list of values is not sorted");
	runs = calloc(n, sizeof(*runs));
	if (!runs)
		return error_set(err, ENOMEM, "out of memory");
	ret = append_tree(gate, like, runs, find_runs(values, n, runs), err);
	free(runs);
	if (ret)
		gate->n = before;
	return ret;
}

/* What lies in front of a range, and not in those before, is in none. */
static void append_range(struct gate *gate, enum gate_source source, struct event_range range,
			 bool is_last)
{
	const unsigned int at = gate->n;

	gate->n += 2;
	gate->terms[at] = gate_term(source, GATE_GE, range.begin);
	gate->terms[at].yes = (uint8_t)(at + 1);
	gate->terms[at].no = GATE_NO;
	gate->terms[at + 1] = gate_term(source, GATE_LT, range.end);
	gate->terms[at + 1].yes = GATE_YES;
	gate->terms[at + 1].no = is_last ? GATE_NO : (uint8_t)(at + 2);
}

int gate_append_ranges(struct gate *gate, enum gate_source source, const struct event_range *ranges,
		       size_t n, struct error *err)
{
	if (n > (GATE_MAX_TERMS - gate->n) / 2)
		return too_many(err);
	for (size_t i = 0; i < n; i++)
		append_range(gate, source, ranges[i], i + 1 == n);
	return 0;
}

static void redirect(struct gate *gate, unsigned int from, unsigned int to, uint8_t old,
		     uint8_t target)
{
	for (unsigned int i = from; i < to; i++) {
		struct gate_term *t = &gate->terms[i];

		if (t->yes == old)
			t->yes = target;
		if (t->no == old)
			t->no = target;
	}
}

void gate_and(struct gate *gate, unsigned int left, unsigned int right)
{
	redirect(gate, left, right, GATE_YES, (uint8_t)right);
}

void gate_or(struct gate *gate, unsigned int left, unsigned int right)
{
	redirect(gate, left, right, GATE_NO, (uint8_t)right);
}

static uint8_t opposite(uint8_t target)
{
	return target == GATE_YES ? GATE_NO : target == GATE_NO ? GATE_YES : target;
}

void gate_not(struct gate *gate, unsigned int from)
{
	for (unsigned int i = from; i < gate->n; i++) {
		gate->terms[i].yes = opposite(gate->terms[i].yes);
		gate->terms[i].no = opposite(gate->terms[i].no);
	}
}

static uint8_t moved(uint8_t target, unsigned int by)
{
	return target == GATE_YES || target == GATE_NO ? target : (uint8_t)(target + by);
}

int gate_conjoin(struct gate *gate, const struct gate *other, struct error *err)
{
	unsigned int before = gate->n;

	if (!other->n)
		return 0;
	if (other->n > GATE_MAX_TERMS - before)
		return too_many(err);
	for (unsigned int i = 0; i < other->n; i++) {
		struct gate_term *t = &gate->terms[gate->n++];

		*t = other->terms[i];
		t->yes = moved(t->yes, before);
		t->no = moved(t->no, before);
	}
	gate_and(gate, 0, before);
	return 0;
}

/* --- use ------------------------------------------------------------------------------------- */

static bool target_good(const struct gate *gate, unsigned int from, uint8_t target)
{
	return target == GATE_YES || target == GATE_NO || (target > from && target < gate->n);
}

static bool size_good(const struct gate_term *t)
{
	if (t->source == GATE_PID || t->source == GATE_TGID || t->source == GATE_VCPU)
		return t->size == 4;
	if (t->source == GATE_CALL_SITE || t->source == GATE_CGROUP)
		return t->size == 8 && !t->is_signed;
	if (t->source >= GATE_SYSCALL)
		return t->size == 4 || t->size == 8;
	return t->size == 1 || t->size == 2 || t->size == 4 || t->size == 8;
}

int gate_check(const struct gate *gate, struct error *err)
{
	if (gate->n > GATE_MAX_TERMS)
		return error_set(err, EINVAL, "a gate of %u terms is too long", gate->n);
	for (unsigned int i = 0; i < gate->n; i++) {
		const struct gate_term *t = &gate->terms[i];

		if ((unsigned int)t->source >= GATE_SOURCES || (unsigned int)t->op > GATE_GE)
			return error_set(err, EINVAL, "term %u of a gate is unknown", i);
		if (!size_good(t))
			return error_set(err, EINVAL,
					 "term %u of a gate: no such value of %u bytes", i,
					 t->size);
		if (!target_good(gate, i, t->yes) || !target_good(gate, i, t->no))
			return error_set(err, EINVAL, "term %u of a gate does not lead forward", i);
	}
	return 0;
}

uint32_t gate_sources(const struct gate *gate)
{
	uint32_t sources = 0;

	for (unsigned int i = 0; i < gate->n; i++)
		sources |= gate_source_bit(gate->terms[i].source);
	return sources;
}

uint32_t gate_task_fields(const struct gate *gate)
{
	const uint32_t sources = gate_sources(gate);

	return (sources & gate_source_bit(GATE_PID) ? EVENT_TASK_PID : 0u) |
	       (sources & gate_source_bit(GATE_TGID) ? EVENT_TASK_TGID : 0u) |
	       (sources & gate_source_bit(GATE_CGROUP) ? EVENT_TASK_CGROUP : 0u);
}

static bool term_true(const struct gate_term *t, uint64_t x)
{
	unsigned int unused = 64 - 8u * t->size;

	x <<= unused;
	x = t->is_signed ? (uint64_t)((int64_t)x >> unused) : x >> unused;
	x &= t->mask;
	switch (t->op) {
	case GATE_EQ:
		return x == t->value;
	case GATE_NE:
		return x != t->value;
	case GATE_LT:
		return less(x, t->value, t->is_signed);
	case GATE_LE:
		return !less(t->value, x, t->is_signed);
	case GATE_GT:
		return less(t->value, x, t->is_signed);
	case GATE_GE:
		break;
	}
	return !less(x, t->value, t->is_signed);
}

bool gate_eval(const struct gate *gate, const struct gate_values *values)
{
	uint8_t at = gate->n ? 0 : GATE_YES;

	while (at != GATE_YES && at != GATE_NO) {
		const struct gate_term *t = &gate->terms[at];

		at = term_true(t, values->source[t->source]) ? t->yes : t->no;
	}
	return at == GATE_YES;
}
