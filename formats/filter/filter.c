/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A recursive-descent parser; the depth of its recursion has a cap. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "formats/base/glob.h"
#include "formats/filter/internal.h"

struct parser {
	const char *text, *at;
	struct event_filter *filter;
	unsigned int depth;
	struct error *err;
};

static unsigned int position(const struct parser *p)
{
	return (unsigned int)(p->at - p->text) + 1;
}

static int fail(const struct parser *p, const char *what)
{
	return error_set_column(p->err, EINVAL, position(p), "filter, character %u: %s",
				position(p), what);
}

static void skip_blanks(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool take(struct parser *p, const char *token)
{
	size_t length = strlen(token);

	skip_blanks(p);
	if (strncmp(p->at, token, length) != 0)
		return false;
	p->at += length;
	return true;
}

static int add_node(struct parser *p, struct filter_node node, unsigned int *out)
{
	struct event_filter *f = p->filter;

	if (f->nr_nodes == FILTER_MAX_NODES)
		return fail(p, "the filter is too long");
	*out = f->nr_nodes;
	f->nodes[f->nr_nodes++] = node;
	return 0;
}

/* A run of characters of which is_part() says that they belong to a word. */
static int parse_word(struct parser *p, bool (*is_part)(char c), char out[FILTER_WORD_MAX],
		      const char *missing)
{
	size_t n = 0;

	while (p->at[n] && is_part(p->at[n]))
		n++;
	if (!n)
		return fail(p, missing);
	if (n >= FILTER_WORD_MAX)
		return fail(p, "the word is too long");
	memcpy(out, p->at, n);
	out[n] = '\0';
	p->at += n;
	return 0;
}

static bool is_name_part(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static bool is_value_part(char c)
{
	return !isspace((unsigned char)c) && !strchr("()&|!<>=~\"'", c);
}

static int parse_quoted(struct parser *p, char out[FILTER_WORD_MAX])
{
	const char quote = *p->at, *end = strchr(p->at + 1, quote);
	size_t n;

	if (!end)
		return fail(p, "the string has no closing quote");
	n = (size_t)(end - p->at) - 1;
	if (n >= FILTER_WORD_MAX)
		return fail(p, "the string is too long");
	memcpy(out, p->at + 1, n);
	out[n] = '\0';
	p->at = end + 1;
	return 0;
}

/* Whether all of the word is a number. */
static void find_number(struct filter_term *term)
{
	const char *digits = term->text;
	char *end;

	term->is_negative = *digits == '-';
	if (*digits == '-' || *digits == '+')
		digits++;
	if (!isdigit((unsigned char)*digits))
		return;
	errno = 0;
	term->number = strtoull(digits, &end, 0);
	term->is_number = !*end && !errno;
	term->is_too_large = !*end && errno;
	if (term->is_negative)
		term->number = -term->number;
}

/* "N" or "N-M" of a set of CPUs. */
static int parse_cpus_part(struct parser *p, uint64_t *set)
{
	unsigned long range[2];

	for (int i = 0; i < 2; i++) {
		char *end;

		skip_blanks(p);
		if (!isdigit((unsigned char)*p->at))
			return fail(p, "the number of a CPU is missing");
		range[i] = strtoul(p->at, &end, 10);
		if (range[i] >= EVENT_FILTER_MAX_CPUS)
			return fail(p, "the number of a CPU is too high");
		p->at = end;
		if (i == 0 && !take(p, "-")) {
			range[1] = range[0];
			break;
		}
	}
	if (range[1] < range[0])
		return fail(p, "the range of CPUs ends before it begins");
	for (; range[0] <= range[1]; range[0]++)
		*set |= UINT64_C(1) << range[0];
	return 0;
}

/* "CPUS{0-3,7}", as in Documentation/trace/events.rst, 5.1, "CPUMASK". */
static int parse_cpus(struct parser *p, struct filter_term *term)
{
	const char *from = p->at;
	int ret;

	p->at += strlen("CPUS{");
	do {
		ret = parse_cpus_part(p, &term->number);
	} while (!ret && take(p, ","));
	if (!ret && !take(p, "}"))
		ret = fail(p, "'}' is missing");
	term->is_cpus = true;
	snprintf(term->text, sizeof(term->text), "%.*s", (int)(p->at - from), from);
	return ret;
}

static int parse_value(struct parser *p, struct filter_term *term)
{
	int ret;

	skip_blanks(p);
	term->value_at = position(p);
	term->is_quoted = *p->at == '"' || *p->at == '\'';
	if (term->is_quoted)
		return parse_quoted(p, term->text);
	if (!strncmp(p->at, "CPUS{", 5))
		return parse_cpus(p, term);
	ret = parse_word(p, is_value_part, term->text, "a number or a string is missing");
	if (!ret)
		find_number(term);
	return ret;
}

/* *negated: "!~", which is the opposite of an operator. */
static int parse_op(struct parser *p, enum filter_op *out, bool *negated)
{
	static const struct {
		const char *token;
		enum filter_op op;
	} ops[] = {{"==", FILTER_EQ}, {"!=", FILTER_NE}, {"<=", FILTER_LE}, {">=", FILTER_GE},
		   {"<", FILTER_LT},  {">", FILTER_GT},  {"~", FILTER_GLOB}};

	*negated = take(p, "!~");
	*out = FILTER_GLOB;
	if (*negated)
		return 0;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (take(p, ops[i].token)) {
			*out = ops[i].op;
			return 0;
		}
	}
	*out = FILTER_AND;
	if (p->at[0] == '&' && p->at[1] != '&' && take(p, "&"))
		return 0;
	if (p->at[0] == '=' && p->at[1] != '<' && p->at[1] != '>')
		return fail(p, "write == to compare");
	return fail(p, "an operator is missing: == != < <= > >= & ~ !~");
}

static int check_glob(struct parser *p, const struct filter_term *term)
{
	const char *fault = term->op == FILTER_GLOB ? glob_fault(term->text) : NULL;
	const char *value = p->text + term->value_at - 1 + term->is_quoted;

	if (!fault)
		return 0;
	p->at = value + (fault - term->text);
	return fail(p, *fault == '[' ? "'[' has no ']'" : "nothing follows the backslash");
}

static int parse_term(struct parser *p, unsigned int *out)
{
	struct event_filter *f = p->filter;
	struct filter_term *term = &f->terms[f->nr_terms];
	bool negated = false;
	int ret;

	if (f->nr_terms == EVENT_FILTER_MAX_TERMS)
		return fail(p, "the filter has too many predicates");
	term->field_at = position(p);
	ret = parse_word(p, is_name_part, term->field, "a field's name is missing");
	if (!ret)
		ret = parse_op(p, &term->op, &negated);
	if (!ret)
		ret = parse_value(p, term);
	if (!ret)
		ret = check_glob(p, term);
	if (ret)
		return ret;
	ret = add_node(p, (struct filter_node){.kind = FILTER_TERM, .left = f->nr_terms++}, out);
	if (!ret && negated)
		ret = add_node(p, (struct filter_node){.kind = FILTER_NOT, .left = *out}, out);
	return ret;
}

static int parse_either(struct parser *p, unsigned int *out);

static int parse_group(struct parser *p, unsigned int *out)
{
	int ret = parse_either(p, out);

	if (ret)
		return ret;
	return take(p, ")") ? 0 : fail(p, "')' is missing");
}

static int parse_negated(struct parser *p, unsigned int *out);

static int parse_not(struct parser *p, unsigned int *out)
{
	unsigned int inner;
	int ret = parse_negated(p, &inner);

	if (ret)
		return ret;
	return add_node(p, (struct filter_node){.kind = FILTER_NOT, .left = inner}, out);
}

static int parse_negated(struct parser *p, unsigned int *out)
{
	int ret;

	skip_blanks(p);
	if (p->depth == EVENT_FILTER_MAX_DEPTH)
		return fail(p, "too many nested parentheses");
	p->depth++;
	if (take(p, "!"))
		ret = parse_not(p, out);
	else if (take(p, "("))
		ret = parse_group(p, out);
	else
		ret = parse_term(p, out);
	p->depth--;
	return ret;
}

/* Operands of one operator, from left to right. */
static int parse_chain(struct parser *p, const char *token, enum filter_node_kind kind,
		       int (*operand)(struct parser *p, unsigned int *out), unsigned int *out)
{
	unsigned int left, right;
	int ret = operand(p, &left);

	while (!ret && take(p, token)) {
		ret = operand(p, &right);
		if (!ret)
			ret = add_node(p, (struct filter_node){kind, left, right}, &left);
	}
	*out = left;
	return ret;
}

static int parse_both(struct parser *p, unsigned int *out)
{
	return parse_chain(p, "&&", FILTER_BOTH, parse_negated, out);
}

static int parse_either(struct parser *p, unsigned int *out)
{
	return parse_chain(p, "||", FILTER_EITHER, parse_both, out);
}

static int parse_all(struct parser *p)
{
	int ret;

	if (strlen(p->text) > EVENT_FILTER_MAX)
		return fail(p, "the filter is too long");
	ret = parse_either(p, &p->filter->root);
	if (ret)
		return ret;
	skip_blanks(p);
	return *p->at ? fail(p, "&& or || is missing") : 0;
}

int event_filter_parse(const char *text, struct event_filter **out, struct error *err)
{
	struct event_filter *filter = calloc(1, sizeof(*filter));
	struct parser p = {.text = text, .at = text, .filter = filter, .err = err};
	int ret;

	if (!filter)
		return error_set(err, ENOMEM, "out of memory");
	ret = parse_all(&p);
	if (ret) {
		free(filter);
		return ret;
	}
	*out = filter;
	return 0;
}

void event_filter_destroy(struct event_filter *filter)
{
	free(filter);
}
