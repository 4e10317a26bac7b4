/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a histogram's condition the guest cannot decide, where the host makes the histogram. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/condition-names.h"
#include "patcher/tracers/hist/hist.h"

struct hist_rest {
	struct condition_names names; /* of the predicate */
	struct event_predicate *predicate;
	const struct event_class *class;
	struct gate_split split;
	/* What it asks for: fields of the class, and where they are taken from. */
	const struct event_field *fields[HIST_MAX_REST];
	struct hist_operand operands[HIST_MAX_REST];
	size_t n;
};

void hist_rest_destroy(struct hist_rest *rest)
{
	if (!rest)
		return;
	event_predicate_destroy(rest->predicate);
	free(rest);
}

struct hist_operand *hist_rest_operands(struct hist_rest *rest, size_t *n)
{
	*n = rest ? rest->n : 0;
	return rest ? rest->operands : NULL;
}

bool hist_rest_is_equal(const struct hist_rest *a, const struct hist_rest *b)
{
	if (!a || !b)
		return a == b;
	return a->class == b->class && a->n == b->n &&
	       !memcmp(&a->split.known, &b->split.known, sizeof(a->split.known)) &&
	       !memcmp(a->fields, b->fields, a->n * sizeof(a->fields[0])) &&
	       !memcmp(a->operands, b->operands, a->n * sizeof(a->operands[0]));
}

void hist_rest_print(const struct hist_rest *rest, enum tracer_decider decider, char *out,
		     size_t size)
{
	gate_split_print(&rest->split, rest->predicate, decider == DECIDED_BY_GUEST, out, size);
}

bool hist_rest_matches(const struct hist_rest *rest, unsigned int vcpu, const uint64_t *words)
{
	_Alignas(uint64_t) uint8_t bytes[EVENT_MAX_SHORT_SIZE] = {0};
	const struct event event = {.class = rest->class, .vcpu = vcpu, .bytes = bytes};

	for (size_t i = 0; i < rest->n; i++) {
		memcpy(bytes + rest->fields[i]->at, words, rest->fields[i]->size);
		words += hist_operand_words(&rest->operands[i]);
	}
	return event_predicate_matches_rest(rest->predicate, &rest->split.known, &event);
}

/* --- made of a spec --------------------------------------------------------------------------- */

static int add_field(struct hist_rest *rest, const struct event_field *field,
		     const struct hist_condition *c, struct error *err)
{
	for (size_t i = 0; i < rest->n; i++)
		if (rest->fields[i] == field)
			return 0;
	for (size_t i = 0; i < c->known->n && rest->n < HIST_MAX_REST; i++) {
		const struct hist_field *known = &c->known->v[i];

		if (strcmp(known->name, field->name) != 0 ||
		    field->size > sizeof(uint64_t) * hist_operand_words(&known->operand))
			continue;
		rest->fields[rest->n] = field;
		rest->operands[rest->n++] = known->operand;
		return 0;
	}
	return error_set(err, ENOTSUP,
			 "'%s' of %s is not known where a histogram counts: when the call begins",
			 field->name, c->what);
}

static int add_fields(struct hist_rest *rest, unsigned int index, const struct hist_condition *c,
		      struct error *err)
{
	const struct event_node node = event_predicate_node(rest->predicate, index);
	int ret;

	if (event_known_has(&rest->split.known, index))
		return 0;
	if (node.kind == FILTER_TERM)
		return node.field ? add_field(rest, node.field, c, err) : 0;
	ret = add_fields(rest, node.left, c, err);
	return ret || node.kind == FILTER_NOT ? ret : add_fields(rest, node.right, c, err);
}

static int refuse(const struct hist_rest *rest, const struct hist_condition *c, struct error *err)
{
	char text[200];

	hist_rest_print(rest, DECIDED_BY_HOST, text, sizeof(text));
	return error_set(err, ENOTSUP,
			 "the guest cannot decide '%s' of %s, and makes this histogram: with the "
			 "key 'stacktrace' the host does, and decides",
			 text, c->what);
}

static int make(struct hist_rest *rest, const struct hist_condition *c, struct gate *gate,
		struct error *err)
{
	int ret;

	condition_names_init(&rest->names, c->image, c->slide);
	ret = event_filter_bind(c->spec->filter, c->class, &rest->names.names, &rest->predicate,
				err);
	rest->class = c->class;
	if (ret)
		return ret;
	gate_split(rest->predicate, c->in_guest, c->nr_in_guest, &rest->split);
	ret = add_fields(rest, event_predicate_root(rest->predicate), c, err);
	if (!ret && !rest->split.whole && !hist_is_on_host(c->spec))
		ret = refuse(rest, c, err);
	return ret ? ret : gate_conjoin(gate, &rest->split.gate, err);
}

int hist_rest_create(const struct hist_condition *condition, struct gate *gate,
		     struct hist_rest **out, struct error *err)
{
	struct hist_rest *rest;
	int ret;

	*out = NULL;
	if (!condition->spec->filter)
		return 0;
	rest = calloc(1, sizeof(*rest));
	if (!rest)
		return error_set(err, ENOMEM, "out of memory");
	ret = make(rest, condition, gate, err);
	if (ret || rest->split.whole)
		hist_rest_destroy(rest);
	else
		*out = rest;
	return ret;
}
