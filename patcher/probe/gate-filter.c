/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "patcher/probe/gate.h"

#include <stdio.h>
#include <string.h>

struct splitter {
	const struct event_predicate *predicate;
	const struct gate_field *fields;
	size_t nr_fields;
	struct gate_split *out;
};

static const struct gate_field *find_field(const struct splitter *s, const struct event_node *term)
{
	for (size_t i = 0; i < s->nr_fields; i++) {
		const char *name = s->fields[i].name;

		if (term->field ? name && !strcmp(name, term->field->name) : !name)
			return &s->fields[i];
	}
	return NULL;
}

/* The host compares in 64 bits, signed where the event's field is. */
static bool make_term(const struct splitter *s, const struct event_node *term,
		      struct gate_term *out)
{
	static const enum gate_op ops[] = {
		[FILTER_EQ] = GATE_EQ, [FILTER_NE] = GATE_NE, [FILTER_LT] = GATE_LT,
		[FILTER_LE] = GATE_LE, [FILTER_GT] = GATE_GT, [FILTER_GE] = GATE_GE,
	};
	const struct gate_field *known = find_field(s, term);
	bool is_signed = term->field && term->field->type == EVENT_INT;

	if (!known || known->is_signed != is_signed || term->by_text || term->op == FILTER_GLOB)
		return false;
	*out = (struct gate_term){.source = known->source,
				  .size = known->size,
				  .is_signed = is_signed,
				  .op = GATE_NE,
				  .mask = UINT64_MAX};
	if (term->field && term->field->size < known->size)
		out->size = term->field->size;
	if (term->op == FILTER_AND) {
		out->mask = term->value;
	} else {
		out->op = ops[term->op];
		out->value = term->value;
	}
	return true;
}

static bool append_ranges(const struct splitter *s, const struct event_node *term)
{
	const struct gate_field *known = find_field(s, term);
	struct gate *gate = &s->out->gate;
	const unsigned int before = gate->n;

	if (!known || gate_append_ranges(gate, known->source, term->ranges, term->nr_ranges, NULL))
		return false;
	if (term->op == FILTER_NE)
		gate_not(gate, before);
	return true;
}

/* Append what the node says; false if the gate cannot, and it is half done. */
static bool compile(const struct splitter *s, unsigned int index)
{
	const struct event_node node = event_predicate_node(s->predicate, index);
	struct gate *gate = &s->out->gate;
	unsigned int left = gate->n, right;
	struct gate_term term;

	if (node.ranges)
		return append_ranges(s, &node);
	if (node.kind == FILTER_TERM)
		return make_term(s, &node, &term) && !gate_append(gate, term, NULL);
	if (!compile(s, node.left))
		return false;
	if (node.kind == FILTER_NOT) {
		gate_not(gate, left);
		return true;
	}
	right = gate->n;
	if (!compile(s, node.right))
		return false;
	if (node.kind == FILTER_BOTH)
		gate_and(gate, left, right);
	else
		gate_or(gate, left, right);
	return true;
}

typedef void (*operand_fn)(void *arg, unsigned int node, bool negated);

/* The operands that must all be true, or false if negated. */
static void each_operand(const struct event_predicate *predicate, unsigned int index, bool negated,
			 operand_fn fn, void *arg)
{
	const struct event_node node = event_predicate_node(predicate, index);

	if (node.kind == FILTER_NOT) {
		each_operand(predicate, node.left, !negated, fn, arg);
	} else if (node.kind == (negated ? FILTER_EITHER : FILTER_BOTH)) {
		each_operand(predicate, node.left, negated, fn, arg);
		each_operand(predicate, node.right, negated, fn, arg);
	} else {
		fn(arg, index, negated);
	}
}

static void split_operand(void *arg, unsigned int index, bool negated)
{
	struct splitter *s = arg;
	struct gate *gate = &s->out->gate;
	unsigned int before = gate->n;

	if (!compile(s, index)) {
		gate->n = before;
		s->out->whole = false;
		return;
	}
	if (negated)
		gate_not(gate, before);
	gate_and(gate, 0, before);
	event_known_set(&s->out->known, index, !negated);
}

void gate_split(const struct event_predicate *predicate, const struct gate_field *fields, size_t n,
		struct gate_split *out)
{
	struct splitter s = {predicate, fields, n, out};

	*out = (struct gate_split){.whole = true};
	each_operand(predicate, event_predicate_root(predicate), false, split_operand, &s);
}

struct printer {
	const struct event_predicate *predicate;
	const struct gate_split *split;
	bool in_gate;
	char *out;
	size_t size, used;
};

static void print_operand(void *arg, unsigned int index, bool negated)
{
	struct printer *p = arg;
	char text[EVENT_FILTER_MAX];
	int n;

	if (event_known_has(&p->split->known, index) != p->in_gate || p->used >= p->size)
		return;
	event_predicate_print(p->predicate, index, text, sizeof(text));
	n = snprintf(p->out + p->used, p->size - p->used, negated ? "%s!(%s)" : "%s%s",
		     p->used ? " && " : "", text);
	p->used += n > 0 ? (size_t)n : 0;
}

void gate_split_print(const struct gate_split *split, const struct event_predicate *predicate,
		      bool in_gate, char *out, size_t size)
{
	struct printer p = {predicate, split, in_gate, out, size, 0};

	*out = '\0';
	each_operand(predicate, event_predicate_root(predicate), false, print_operand, &p);
}
