/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A parsed filter for the events of one class. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/glob.h"
#include "formats/base/text.h"
#include "formats/filter/internal.h"

enum { TEXT_MAX = 512, ERRNO_MAX = 4095 };

const char *filter_plain_name(const char *name)
{
	if (!strcmp(name, "COMM"))
		return "comm";
	return event_plain_name(name);
}

static bool is_vcpu(const char *name)
{
	const char *plain = filter_plain_name(name);

	return !strcmp(plain, "vcpu") || !strcmp(plain, "cpu") || !strcmp(plain, "CPU");
}

static int fail(const struct filter_term *term, unsigned int at, const char *what,
		struct error *err)
{
	return error_set_column(err, EINVAL, at, "filter, character %u: '%s' %s", at,
				at == term->field_at ? term->field : term->text, what);
}

static int no_field(const struct filter_term *term, const struct event_class *class,
		    struct error *err)
{
	char whose[128];

	snprintf(whose, sizeof(whose), "%s has no", class->name);
	return filter_no_field(term, &class, 1, whose, err);
}

/* Whether names are part of its text. */
static bool has_names(const struct event_field *field)
{
	return field && (event_field_is_code(field) || field->type == EVENT_FLAGS ||
			 field->type == EVENT_DICTIONARY);
}

static bool is_string(const struct event_field *field)
{
	return field && event_field_is_string(field);
}

static bool is_flags(const struct event_field *field)
{
	return field && field->type == EVENT_FLAGS;
}

static bool is_address(const struct event_field *field)
{
	return field && (field->type == EVENT_CODE || field->type == EVENT_FUNCTION);
}

/* Whether it tells more from less. */
static bool is_order(enum filter_op op)
{
	return op == FILTER_LT || op == FILTER_LE || op == FILTER_GT || op == FILTER_GE;
}

static bool is_text_op(enum filter_op op)
{
	return op == FILTER_EQ || op == FILTER_NE || op == FILTER_GLOB;
}

/* "symbol+0x1f/0x90", as events and reports show a code address, without the size of the function,
 * which names->text() leaves out. */
static int drop_size(struct bound_term *out)
{
	const char *offset = strstr(out->text, "+0x"), *size = offset ? strchr(offset, '/') : NULL;

	if (!size || !event_field_is_code(out->field) || out->function_only)
		return 0;
	out->text = out->owned = strndup(out->text, (size_t)(size - out->text));
	return out->owned ? 0 : -ENOMEM;
}

/* As the events' own text is shown and compared. */
static int clean_word(struct bound_term *out)
{
	if (!is_string(out->field))
		return 0;
	out->owned = strdup(out->text);
	if (!out->owned)
		return -ENOMEM;
	clean_text(out->owned, strlen(out->owned) + 1, out->text);
	out->text = out->owned;
	return 0;
}

/* A value that is a word: the text of a field that has one, or bits by name. */
static int bind_word(const struct filter_term *term, const struct event_names *names,
		     struct bound_term *out, struct error *err)
{
	if (is_address(out->field) && names->ranges && is_text_op(term->op))
		return filter_bind_ranges(term, names, out, err);
	if (is_flags(out->field) && term->op != FILTER_GLOB && !is_order(term->op))
		return filter_bind_flags(term, names, out, err);
	if (term->op == FILTER_AND)
		return fail(term, term->value_at, "is not a number: only flags have names", err);
	if (is_order(term->op))
		return fail(term, term->value_at, "is not a number", err);
	if (!out->field && term->op == FILTER_GLOB)
		return fail(term, term->value_at, "is text: compare vCPUs by == or & CPUS{...}",
			    err);
	if (term->op == FILTER_GLOB && term->is_number && !is_string(out->field))
		return fail(term, term->value_at,
			    "is a number, and ~ takes a pattern: compare by ==, or quote it", err);
	if (has_names(out->field) ? !names->text
				  : !is_string(out->field) && term->op != FILTER_GLOB)
		return fail(term, term->value_at, "is not a number, which the field is", err);
	out->by_text = true;
	if (out->field && (drop_size(out) || clean_word(out)))
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* Digits of an address or a register may be written as a negative number. */
static int bind_number(const struct filter_term *term, struct bound_term *out, struct error *err)
{
	const struct event_field *field = out->field;

	if (!term->is_negative || !term->number || (field && field->type == EVENT_INT))
		return 0;
	if (!field || field->type != EVENT_HEX || is_order(term->op))
		return fail(term, term->value_at, "is negative, which the field never is", err);
	if (field->size < sizeof(uint64_t))
		out->value &= (UINT64_C(1) << 8 * field->size) - 1;
	return 0;
}

/* "-EINTR" is the number of an error, for a field with a sign, as results have. */
static bool bind_errno(const struct filter_term *term, struct bound_term *out)
{
	const char *name;

	if (!out->field || out->field->type != EVENT_INT || term->op == FILTER_GLOB ||
	    strncmp(term->text, "-E", 2) != 0)
		return false;
	for (int code = 1; code <= ERRNO_MAX; code++) {
		name = strerrorname_np(code);
		if (!name || strcmp(term->text + 1, name) != 0)
			continue;
		out->value = (uint64_t) - (int64_t)code;
		return true;
	}
	return false;
}

/* A set of CPUs, for a field with a number of one. */
static int bind_cpus(const struct filter_term *term, struct bound_term *out, struct error *err)
{
	if (out->field && out->field->type != EVENT_UINT && out->field->type != EVENT_INT)
		return fail(term, term->field_at, "is not the number of a CPU", err);
	if (term->op != FILTER_EQ && term->op != FILTER_NE && term->op != FILTER_AND)
		return fail(term, term->value_at, "can be compared by & == and != only", err);
	out->in_cpus = true;
	return 0;
}

static const struct event_field *find_field(const struct event_class *class, const char *name)
{
	const struct event_field *field = event_field_find(class, name);

	return field ? field : event_field_own(class, filter_plain_name(name));
}

bool filter_find_field(const struct filter_term *term, const struct event_class *class,
		       struct bound_term *out)
{
	static const char suffix[] = ".function";
	char name[FILTER_WORD_MAX];
	char *dot;

	if (is_vcpu(term->field) && !event_field_find(class, term->field))
		return true;
	strcpy(name, term->field);
	dot = strstr(name, suffix);
	out->function_only = dot && !dot[strlen(suffix)];
	if (out->function_only)
		*dot = '\0';
	out->field = find_field(class, name);
	return out->field;
}

static int bind_field(const struct filter_term *term, const struct event_class *class,
		      struct bound_term *out, struct error *err)
{
	if (!filter_find_field(term, class, out))
		return no_field(term, class, err);
	if (out->function_only && !event_field_is_code(out->field))
		return fail(term, term->field_at, "is not the address of a function", err);
	return 0;
}

static int bind_term(const struct filter_term *term, const struct event_class *class,
		     const struct event_names *names, struct bound_term *out, struct error *err)
{
	int ret;

	*out = (struct bound_term){.op = term->op, .text = term->text, .value = term->number};
	ret = bind_field(term, class, out, err);
	if (ret)
		return ret;
	if (term->is_cpus)
		return bind_cpus(term, out, err);
	if (term->is_too_large && term->op != FILTER_GLOB && !is_string(out->field))
		return fail(term, term->value_at, "is too large: a number has 64 bits", err);
	if (term->is_number && out->function_only)
		return fail(term, term->value_at, "is not the name of a function", err);
	if (term->is_number && term->op != FILTER_GLOB && !is_string(out->field))
		return bind_number(term, out, err);
	if (bind_errno(term, out))
		return 0;
	return bind_word(term, names, out, err);
}

int event_filter_bind(const struct event_filter *filter, const struct event_class *class,
		      const struct event_names *names, struct event_predicate **out,
		      struct error *err)
{
	struct event_predicate *p = calloc(1, sizeof(*p));

	if (!p)
		return error_set(err, ENOMEM, "out of memory");
	*p = (struct event_predicate){.filter = filter, .names = names};
	for (unsigned int i = 0; i < filter->nr_terms; i++) {
		int ret = bind_term(&filter->terms[i], class, names, &p->terms[i], err);

		if (ret) {
			event_predicate_destroy(p);
			return ret;
		}
	}
	*out = p;
	return 0;
}

void event_predicate_destroy(struct event_predicate *predicate)
{
	for (size_t i = 0; predicate && i < EVENT_FILTER_MAX_TERMS; i++) {
		free(predicate->terms[i].owned);
		free(predicate->terms[i].ranges);
	}
	free(predicate);
}

static bool text_is(const struct bound_term *term, const char *text)
{
	return term->op == FILTER_GLOB ? glob_matches(term->text, text) : !strcmp(term->text, text);
}

/* As events are printed (formats/report/event-text.h). */
static void number_text(const struct event_field *field, uint64_t value, char *out, size_t size)
{
	const bool is_hex = field->type == EVENT_HEX || field->type == EVENT_POINTER;

	if (field->type == EVENT_INT)
		snprintf(out, size, "%" PRId64, (int64_t)value);
	else
		snprintf(out, size, is_hex ? "0x%" PRIx64 : "%" PRIu64, value);
}

/* A code address matches by its function alone, too. */
static bool text_matches(const struct bound_term *term, const struct event_names *names,
			 const void *bytes)
{
	const struct event_field *field = term->field;
	char text[TEXT_MAX];
	char *offset;
	bool found;

	if (is_string(field))
		event_field_text(field, bytes, text);
	else if (!has_names(field))
		number_text(field, event_field_value(field, bytes), text, sizeof(text));
	else
		names->text(names->arg, field, event_field_value(field, bytes), text, sizeof(text));
	offset = field->type != EVENT_FUNCTION && event_field_is_code(field) ? strchr(text, '+')
									     : NULL;
	found = !(offset && term->function_only) && text_is(term, text);
	if (offset && !found) {
		*offset = '\0';
		found = text_is(term, text);
	}
	return term->op == FILTER_NE ? !found : found;
}

static bool cpus_match(const struct bound_term *term, uint64_t value)
{
	bool found = value < EVENT_FILTER_MAX_CPUS && (term->value >> value & 1);
	bool single = !(term->value & (term->value - 1));

	return term->op == FILTER_AND  ? found
	       : term->op == FILTER_EQ ? found && single
				       : !found || !single;
}

static bool number_matches(const struct bound_term *term, uint64_t value)
{
	bool is_signed = term->field && term->field->type == EVENT_INT;
	bool less = is_signed ? (int64_t)value < (int64_t)term->value : value < term->value;

	switch (term->op) {
	case FILTER_EQ:
		return value == term->value;
	case FILTER_NE:
		return value != term->value;
	case FILTER_LT:
		return less;
	case FILTER_LE:
		return less || value == term->value;
	case FILTER_GT:
		return !less && value != term->value;
	case FILTER_GE:
		return !less;
	case FILTER_AND:
		return value & term->value;
	case FILTER_GLOB:
		break;
	}
	return false;
}

static bool term_matches(const struct event_predicate *p, const struct bound_term *term,
			 const struct event *event)
{
	uint64_t value;

	if (term->by_text)
		return text_matches(term, p->names, event->bytes);
	value = term->field ? event_field_value(term->field, event->bytes) : event->vcpu;
	if (term->ranges)
		return filter_in_ranges(term, value) == (term->op != FILTER_NE);
	return term->in_cpus ? cpus_match(term, value) : number_matches(term, value);
}

static bool node_matches(const struct event_predicate *p, const struct event_known *known,
			 unsigned int index, const struct event *event)
{
	const struct filter_node *node = &p->filter->nodes[index];

	if (event_known_has(known, index))
		return known->values[index / 64] >> (index % 64) & 1;
	switch (node->kind) {
	case FILTER_TERM:
		return term_matches(p, &p->terms[node->left], event);
	case FILTER_NOT:
		return !node_matches(p, known, node->left, event);
	case FILTER_BOTH:
		return node_matches(p, known, node->left, event) &&
		       node_matches(p, known, node->right, event);
	case FILTER_EITHER:
		return node_matches(p, known, node->left, event) ||
		       node_matches(p, known, node->right, event);
	}
	return false;
}

bool event_predicate_matches_rest(const struct event_predicate *predicate,
				  const struct event_known *known, const struct event *event)
{
	return node_matches(predicate, known, predicate->filter->root, event);
}

bool event_predicate_matches(const struct event_predicate *predicate, const struct event *event)
{
	static const struct event_known nothing;

	return event_predicate_matches_rest(predicate, &nothing, event);
}
