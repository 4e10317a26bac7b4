/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a histogram's condition the guest cannot decide, where the host makes the histogram. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "patcher/tracers/hist/hist.h"

struct hist_rest {
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
	static const struct event_names no_names;
	int ret = event_filter_bind(c->spec->filter, c->class, &no_names, &rest->predicate, err);

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

/* --- system calls ----------------------------------------------------------------------------- */

struct syscall_entry {
	uint64_t id, args[6], cgroup;
	uint32_t pid, tgid;
	char comm[EVENT_STRING_MAX];
};

#define FIELD(name_, type_, member)                                                                \
	{                                                                                          \
		.name = name_, .type = type_, .size = sizeof(((struct syscall_entry *)0)->member), \
		.at = offsetof(struct syscall_entry, member)                                       \
	}

/* Never written to a trace. */
static const struct event_field entry_fields[] = {
	FIELD("id", EVENT_UINT, id),        FIELD("arg0", EVENT_HEX, args[0]),
	FIELD("arg1", EVENT_HEX, args[1]),  FIELD("arg2", EVENT_HEX, args[2]),
	FIELD("arg3", EVENT_HEX, args[3]),  FIELD("arg4", EVENT_HEX, args[4]),
	FIELD("arg5", EVENT_HEX, args[5]),  FIELD("pid", EVENT_UINT, pid),
	FIELD("tgid", EVENT_UINT, tgid),    FIELD("comm", EVENT_STRING, comm),
	FIELD("cgroup", EVENT_UINT, cgroup)};

static const struct event_class entry_class = {
	.system = "syscalls",
	.name = "sys_enter",
	.fields = entry_fields,
	.nr_fields = sizeof(entry_fields) / sizeof(entry_fields[0]),
	.size = sizeof(struct syscall_entry),
};

int hist_rest_of_syscalls(const struct trace_spec *spec, const struct hist_fields *known,
			  struct gate *gate, struct hist_rest **out, struct error *err)
{
	static const struct gate_field in_guest[] = {
		{.name = "pid", .source = GATE_PID, .size = 4},
		{.name = "tgid", .source = GATE_TGID, .size = 4},
		{.name = "cgroup", .source = GATE_CGROUP, .size = 8},
		{.source = GATE_VCPU, .size = 4}};
	const struct hist_condition condition = {.spec = spec,
						 .class = &entry_class,
						 .in_guest = in_guest,
						 .nr_in_guest =
							 sizeof(in_guest) / sizeof(in_guest[0]),
						 .known = known,
						 .what = "system calls"};
	int ret = hist_rest_create(&condition, gate, out, err);

	if (ret && err && err->column)
		err->column = trace_spec_filter_column(spec, err->column);
	return ret;
}
